//! How the frames of modules are found, for walks that the tracer makes: as `unwind` has it of their files,
//! each read when it is first met.

use std::collections::HashMap;

use camino::Utf8Path;
use leakcheck_preload::unwind::Row;

use super::code::Code;
use super::unwind;

/// The rows of modules, by the paths of their mappings.
#[derive(Default)]
pub struct Rows(HashMap<String, Option<Module>>);

struct Module {
    code: Code,
    rows: Vec<Row>,
}

impl Rows {
    /// The row for the code at an offset of a module's file; none where nothing describes it.
    pub fn find(&mut self, path: &str, offset: u64) -> Option<Row> {
        let module = self.0.entry(path.to_owned()).or_insert_with(|| Module::read(path)).as_ref()?;
        let address = u32::try_from(module.code.virtual_address(offset)?).ok()?;
        let after = module.rows.partition_point(|row| row.start <= address);
        module.rows.get(after.checked_sub(1)?).copied()
    }
}

impl Module {
    fn read(path: &str) -> Option<Self> {
        // The kernel's own one has no file, and opening what is no regular file may wait.
        if !std::fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let path = Utf8Path::new(path);
        let mut code = Code::read(path, true).ok()?;
        let rows = unwind::rows(code.data(), path).ok()?;
        code.forget_data();
        Some(Self { code, rows })
    }
}
