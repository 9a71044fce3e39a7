//! Real call stacks, walked by rows and by the compiler's own unwinder (glibc's `backtrace`).

use std::path::Path;
use std::process::Command;

use cargo_leakcheck::trace::unwind;
use leakcheck_preload::unwind::{Frame, Row, Table, kind, step};

/// What `chain.c` prints.
struct Stop {
    pc: u64,
    frame: Frame,
    /// The return addresses, innermost first.
    callers: Vec<u64>,
    /// The words from the stack pointer up.
    stack: Vec<u64>,
    /// Start of the mapping that has a file's first byte, and its file, by the address.
    modules: Vec<(u64, String)>,
}

impl Stop {
    fn run(program: &Path, way: &str) -> Self {
        let output = Command::new(program).arg(way).output().unwrap();
        assert!(output.status.success(), "{way} was not met");
        let hex = |text: &str| u64::from_str_radix(text, 16).unwrap();
        let frame = Frame { sp: 0, fp: 0 };
        let mut stop = Self { pc: 0, frame, callers: vec![], stack: vec![], modules: vec![] };
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match *words {
                ["registers", pc, sp, fp] => {
                    (stop.pc, stop.frame) = (hex(pc), Frame { sp: hex(sp), fp: hex(fp) });
                }
                ["frame", address] => stop.callers.push(hex(address)),
                ["word", word] => stop.stack.push(hex(word)),
                ["map", range, _, "00000000", _, _, path] if path.starts_with('/') => {
                    stop.modules.push((hex(range.split('-').next().unwrap()), path.to_owned()));
                }
                _ => assert_eq!(words[0], "map", "{line}"),
            }
        }
        stop
    }

    fn read(&self, address: u64) -> Option<u64> {
        let offset = address.checked_sub(self.frame.sp)?;
        (offset % 8 == 0).then(|| self.stack.get((offset / 8) as usize).copied())?
    }

    /// The return addresses by rows, and what the row of the last one says.
    fn walk(&self, table: &Table<'_>) -> (Vec<u64>, Row) {
        let (mut pc, mut frame, mut callers) = (self.pc, self.frame, Vec::new());
        loop {
            // Position-independent files count from their first byte.
            let (base, _) = self.modules.iter().rev().find(|(base, _)| *base <= pc).expect("no code");
            let rows = table.module(*base).unwrap();
            let Some((address, caller)) = step(&rows, pc - base, frame, |address| self.read(address)) else {
                return (callers, rows.find(pc - base).unwrap());
            };
            callers.push(address);
            (pc, frame) = (address - 1, caller);
        }
    }
}

#[test]
fn stacks_through_the_c_library_are_whole() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("chain");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/unwind/chain.c");
    let status = Command::new("cc")
        .args(["-O2", "-fomit-frame-pointer", "-fPIE", "-pie", "-pthread", "-o"])
        .arg(&program)
        .args([source, "-lstdc++"])
        .status();
    assert!(status.expect("needs a C compiler").success(), "needs a C++ compiler's library");

    for way in [
        "qsort",
        "qsort of many",
        "any size",
        "large",
        "aligned",
        "twalk",
        "strdup",
        "asprintf",
        "getline",
        "string",
        "thread",
    ] {
        let stop = Stop::run(&program, way);
        let modules = stop.modules.iter().map(|(base, path)| {
            let data = std::fs::read(path).unwrap();
            (*base, unwind::rows(&data, path.as_str().into()).unwrap())
        });
        let file = unwind::table(&modules.collect::<Vec<_>>());
        let (callers, outermost) = stop.walk(&Table::new(&file).unwrap());
        assert!(stop.callers.len() >= 6, "{way}: {:x?}", stop.callers);
        assert_eq!(callers, stop.callers, "{way}");
        // `_start` and `clone3` declare it.
        assert_eq!(outermost.kind, kind::OUTERMOST, "{way}");
    }
}
