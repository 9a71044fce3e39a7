//! How a binary is covered: who records it, and which files of it are probed where.

use std::io::Read as _;
use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::allocators::Allocator;
use super::code::Code;
use super::libraries::{Coverage, Heap, Libraries, Library, Loader, Start};
use super::modules::loaded_libraries;
use super::outer;
use super::prepare::Prepared;
use super::sites::{Program, Site};
use crate::error::{Error, Result};
use crate::model::{RecordedBy, TestBinary, Window};
use crate::options::Recorder;

const LIBC: &str = "libc.so.6";
const CXX: &str = "libstdc++.so.6";
/// What the loader calls for debuggers before it loads libraries, and after (elf/dl-debug.c).
const LOADING: &str = "_dl_debug_state";
/// Where it keeps its list of modules, `struct r_debug` of `link.h`.
const MODULES: &str = "_r_debug";

/// What a copied library is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    C,
    Cxx,
    Allocator,
}

impl Prepared {
    /// How a binary is covered. Probes are noted, and placed later.
    ///
    /// # Errors
    /// A file cannot be read or copied.
    pub(super) fn cover(&mut self, binary: &TestBinary, window: Window, can_probe: bool) -> Result<Coverage> {
        let code = match Code::read(&binary.path, false) {
            Ok(code) => code,
            Err(Error::Format { .. }) if is_script(&binary.path) => {
                return Ok(Err("it is a script; give its interpreter and the script as arguments".into()));
            }
            Err(Error::Format { reason, .. }) => return Ok(Err(reason)),
            Err(error) => return Err(error),
        };
        let sites = if window == Window::TestBody { code.body_sites() } else { Vec::new() };
        let no_body = window == Window::TestBody && sites.is_empty();
        let no_body = no_body.then(|| "libtest's symbols are missing; do not strip test binaries".to_owned());
        let Some(interpreter) = code.interpreter() else {
            return Ok(match no_body {
                Some(reason) if !code.is_stripped() => Err(reason),
                _ => self.cover_static(binary, &code, sites, can_probe),
            });
        };
        let loaded = loaded_libraries(interpreter, binary)?;
        let find = |wanted: &str| {
            let found = loaded.iter().find(|(name, _)| name == wanted);
            found.map(|(_, path)| path.clone())
        };
        let Some(libc) = find(LIBC) else {
            let loader = interpreter.display();
            return Ok(Err(format!(
                "its loader {loader} names no {LIBC}; link it statically, or dynamically with glibc"
            )));
        };
        if let Some(reason) = no_body {
            return Ok(Err(reason));
        }
        let loader = Utf8Path::from_path(interpreter).map(|path| Code::read(path, true)).transpose()?;
        let loader = loader.as_ref().and_then(|loader| {
            Some(Loader { loading: loader.function(LOADING)?, modules: loader.variable(MODULES)? })
        });
        let Some(loader) = loader else {
            let loader = interpreter.display();
            return Ok(Err(format!("its loader {loader} has no {LOADING} or no {MODULES}")));
        };
        let own = [code.named_allocator(), code.own_malloc()];
        let own: Vec<Allocator> = own.into_iter().flatten().chain(code.rust_allocator()).collect();
        let mut other = own.first().map(|allocator| match &*allocator.name {
            name if name.contains("::") || name.starts_with("a #") => {
                format!("Rust's blocks come from {name}")
            }
            name => format!("{name} is linked in"),
        });
        // The loader has an allocator until there is another one.
        let others = loaded.iter().filter(|(name, _)| name != LIBC).map(|(_, path)| path.as_path());
        let others = self.modules.all(&binary.directory, others.filter(|path| *path != interpreter))?;
        let this = (binary.path.clone(), self.modules.take(&binary.path, &code));
        self.modules.all(&binary.directory, Utf8Path::from_path(interpreter).into_iter())?;
        let mut passes = None;
        let mut allocators = Vec::new();
        for (path, facts) in others.into_iter().chain([this]) {
            if path != binary.path && facts.is_allocator {
                other = other.or_else(|| Some(format!("{path} has a malloc of its own")));
                allocators.push(path.clone());
            }
            let caller = if path == binary.path { "it" } else { path.as_str() };
            passes = passes.or_else(|| Some(format!("{caller} calls {}", facts.passes_ledger?)));
        }
        let heap = if other.is_some() { Heap::Other } else { Heap::Glibc };
        let because = other.or(passes);
        // A wrapper of std's own allocator is seen by the ledger as well, and what is not shows in numbers.
        let may_wrap = own.len() == 1 && own[0].name.contains("::") || because.is_none();
        let (recorded_by, unseen) = match (self.recorder, because) {
            (Recorder::Uprobe, _) if can_probe => (RecordedBy::Uprobe { because: None }, None),
            (Recorder::Auto, Some(because)) if can_probe => {
                (RecordedBy::Uprobe { because: Some(because) }, None)
            }
            (_, because) => {
                let unseen = because.filter(|_| !may_wrap || !allocators.is_empty());
                (RecordedBy::Ledger, unseen.map(|because| format!("{because}; use --recorder uprobe")))
            }
        };
        let records = recorded_by != RecordedBy::Ledger;
        let layers = records && heap == Heap::Other;
        let mut sites = sites;
        for allocator in own.iter().filter(|_| layers) {
            for site in &allocator.sites {
                if sites.iter().all(|other| (other.program, other.offset) != (site.program, site.offset)) {
                    sites.push(*site);
                }
            }
        }
        self.probes.push((binary.path.clone(), sites));
        let (libc, malloc) = self.copy(Kind::C, &libc, records)?;
        // The ledger has the callers of the C++ library by itself.
        let cxx = find(CXX).filter(|_| records);
        let cxx =
            cxx.map(|path| self.copy(Kind::Cxx, &path, records)).transpose()?.map(|(library, _)| library);
        let allocators = allocators.into_iter().map(|path| match records {
            true => self.copy(Kind::Allocator, &path, records).map(|(library, _)| library),
            false => Ok(Arc::new(Library { original: path.clone(), path })),
        });
        let allocators = allocators.collect::<Result<_>>()?;
        let heap = if records { heap } else { Heap::Glibc };
        let start = Start::Loader(loader);
        Ok(Ok(Libraries {
            libc,
            malloc,
            start,
            cxx,
            allocators,
            recorded_by,
            unseen,
            heap,
            layers,
            span: None,
        }))
    }

    /// A statically linked executable has all that is probed in itself.
    fn cover_static(
        &mut self,
        binary: &TestBinary,
        code: &Code,
        body: Vec<Site>,
        can_probe: bool,
    ) -> Coverage {
        if code.is_stripped() {
            return Err(
                "the executable is statically linked and stripped: nothing tells where its allocator is; \
                        build it with symbols (strip = \"none\", no -s), or link it dynamically"
                    .into(),
            );
        }
        if self.recorder == Recorder::Ledger || !can_probe {
            return Err(
                "the executable is statically linked, and only the uprobe recorder, which needs eBPF, \
                        sees its allocator"
                    .into(),
            );
        }
        let missing = |name: &str| {
            format!(
                "the executable is statically linked and has no function `{name}`: its allocator is not known"
            )
        };
        // The C library is ready when it calls this; the program's own constructors come behind it.
        let begin =
            code.function("_init").or_else(|| code.function("main")).ok_or_else(|| missing("main"))?;
        let malloc = code.function("malloc").ok_or_else(|| missing("malloc"))?;
        let own = code.own_malloc().ok_or_else(|| missing("malloc"))?;
        let others = [code.named_allocator(), code.rust_allocator()];
        let others: Vec<Allocator> = others.into_iter().flatten().collect();
        let heap = if others.is_empty() && code.has_glibc_malloc() { Heap::Glibc } else { Heap::Other };
        let mut sites = body;
        let exit = code.function("exit");
        let exit = exit.and_then(|exit| code.file_offset(code.cheapest(exit)));
        sites.extend(exit.map(|offset| Site { program: Program::Exit, cookie: 0, offset }));
        sites.extend(code.outer_sites(outer::is_libc));
        for site in others.iter().chain([&own]).flat_map(|allocator| &allocator.sites) {
            if sites.iter().all(|other| (other.program, other.offset) != (site.program, site.offset)) {
                sites.push(*site);
            }
        }
        if self.ipc {
            sites.extend(code.ipc_sites());
        }
        self.probes.push((binary.path.clone(), sites));
        let of = others.first().map(|allocator| format!(", and has {} in it", allocator.name));
        let because = format!("it is statically linked{}", of.unwrap_or_default());
        let path = binary.path.canonicalize_utf8().unwrap_or_else(|_| binary.path.clone());
        Ok(Libraries {
            libc: Arc::new(Library { original: path.clone(), path }),
            malloc: malloc - code.first_page(),
            start: Start::Function(begin - code.first_page()),
            cxx: None,
            allocators: Vec::new(),
            recorded_by: RecordedBy::Uprobe {
                because: (self.recorder != Recorder::Uprobe).then_some(because),
            },
            unseen: None,
            heap,
            layers: true,
            span: code.libc_span(),
        })
    }

    /// A copy with probes in it, those that record or only those that steer; and where its `malloc` is, behind
    /// its first page.
    fn copy(&mut self, kind: Kind, original: &Utf8Path, records: bool) -> Result<(Arc<Library>, u64)> {
        let key = (original.to_owned(), records);
        if let Some(known) = self.libraries.get(&key) {
            return Ok(known.clone());
        }
        let file = |path: &Utf8Path, action| {
            let path = path.to_owned();
            move |source| Error::File { action, path, source }
        };
        let name = match kind {
            Kind::C => LIBC,
            Kind::Cxx => CXX,
            Kind::Allocator => original.file_name().unwrap_or("allocator.so"),
        };
        let directory = self.directory.path().join(self.libraries.len().to_string());
        let path = Utf8PathBuf::try_from(directory.join(name)).map_err(|error| {
            Error::Usage(format!("the temporary directory must have a UTF-8 path: {error}"))
        })?;
        std::fs::create_dir(&directory).map_err(file(&path, "create"))?;
        std::fs::copy(original, &path).map_err(file(&path, "copy the library to"))?;
        let code = Code::read(&path, true)?;
        let mut sites = match kind {
            Kind::C => code.libc_sites(original, self.probe_at_entry)?,
            Kind::Cxx => code.cxx_sites(),
            Kind::Allocator => {
                let mut sites = code.own_malloc().map(|allocator| allocator.sites).unwrap_or_default();
                let named = code.named_allocator().map(|allocator| allocator.sites).unwrap_or_default();
                let more =
                    named.into_iter().filter(|site| sites.iter().all(|other| other.offset != site.offset));
                sites.extend(more.collect::<Vec<_>>());
                sites
            }
        };
        if !records {
            sites.retain(|site| matches!(site.program, Program::Exit | Program::Module | Program::Lookup));
        }
        if self.ipc && kind == Kind::C {
            sites.extend(code.ipc_sites());
            if code.function("shm_open").is_none() {
                self.ipc_unseen = Some(format!("{original} has no shm_open, as glibc has from 2.34 on"));
            }
        }
        self.probes.push((path.clone(), sites));
        if !records {
            self.modules.take(&path, &code);
        }
        let malloc = code.function("malloc").map_or(0, |malloc| malloc - code.first_page());
        let library = Library { path, original: original.to_owned() };
        let known = (Arc::new(library), malloc);
        self.libraries.insert(key, known.clone());
        Ok(known)
    }
}

fn is_script(path: &Utf8Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).is_ok_and(|mut file| file.read_exact(&mut start).is_ok() && start == *b"#!")
}
