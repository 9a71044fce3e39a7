//! How a binary is covered: who records it, and which files of it are probed where.

use std::sync::Arc;

use camino::{Utf8Path, Utf8PathBuf};

use super::allocators::{Allocator, RustAllocator};
use super::code::Code;
use super::inspect::{Executable, Loading};
use super::libraries::{Coverage, Heap, Libraries, Library, Loader, Start};
use super::modules::{Facts, Looked};
use super::outer;
use super::prepare::Prepared;
use super::probed;
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

/// The allocators of a binary.
struct Found {
    /// What they are called.
    names: Vec<String>,
    /// Libraries that have one.
    libraries: Vec<Utf8PathBuf>,
    /// Their functions in the binary itself.
    sites: Vec<Site>,
    /// There are others than glibc's.
    others: bool,
    /// Why the ledger is not to record the binary.
    because: Option<String>,
    /// Why it would not see all blocks.
    unseen: Option<String>,
    /// Why nobody does.
    hidden: Option<String>,
}

impl Found {
    /// What a binary has: `named` and what is Rust's way to one are in itself, others in the modules that it
    /// loads, it itself among them.
    fn among(
        binary: &TestBinary,
        window: Window,
        named: Vec<Allocator>,
        (rust, inlined): (Option<Allocator>, Option<String>),
        modules: Vec<(Utf8PathBuf, Facts)>,
    ) -> Self {
        let mut other = named.first().map(|allocator| format!("{} is linked in", allocator.name));
        // A type that is Rust's way to a known one needs no second name.
        let own = named.iter().chain(rust.iter().filter(|_| named.is_empty()));
        let mut names: Vec<String> = own.map(|allocator| allocator.name.clone()).collect();
        let mut passes = None;
        let mut libraries = Vec::new();
        for (path, facts) in modules {
            let caller = if path == binary.path { "it" } else { path.as_str() };
            passes = passes.or_else(|| Some(format!("{caller} calls {}", facts.passes_ledger?)));
            if let Some(name) = facts.allocator.filter(|_| path != binary.path) {
                other = other.or_else(|| Some(format!("{path} has a malloc of its own ({name})")));
                libraries.push(path);
                names.push(name);
            }
        }
        names.push("glibc".into());
        names.dedup();
        let others = other.is_some() || rust.is_some();
        let rusts = rust.as_ref().map(|rust| format!("Rust's blocks come from {}", rust.name));
        // One that wraps std's own is seen by the ledger as well; of others too few blocks are, before a body.
        let may_wrap = window == Window::TestBody;
        let unseen = other.clone().or_else(|| rusts.clone().filter(|_| !may_wrap)).or_else(|| passes.clone());
        let sites = named.into_iter().chain(rust).flat_map(|allocator| allocator.sites).collect();
        Self { names, libraries, sites, others, because: other.or(rusts).or(passes), unseen, hidden: inlined }
    }
}

impl Prepared {
    /// How a binary is covered. Probes are noted, and placed later.
    ///
    /// # Errors
    /// A file cannot be read or copied.
    pub(super) fn cover(
        &mut self,
        binary: &TestBinary,
        executable: Executable,
        window: Window,
        can_probe: bool,
    ) -> Result<Coverage> {
        let Executable { body, named, rust, log, unforkable, symbolizer, module, .. } = executable;
        let sites = if window == Window::TestBody { body } else { Vec::new() };
        let no_body = window == Window::TestBody && sites.is_empty();
        let no_body = no_body.then(|| "libtest's symbols are missing; do not strip test binaries".to_owned());
        let Some(Loading { interpreter, libraries }) = executable.loading else {
            return match no_body {
                Some(reason) if !executable.is_stripped => Ok(Err(reason)),
                _ => Ok(self.cover_static(binary, &Code::read(&binary.path, false)?, sites, can_probe)),
            };
        };
        let interpreter = interpreter.as_path();
        let find = |wanted: &str| {
            let found = libraries.iter().find(|(name, _)| name == wanted);
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
        // The loader has an allocator until there is another one.
        let others = libraries.iter().filter(|(name, _)| name != LIBC).map(|(_, path)| path.as_path());
        let mut modules = self.modules.all(&binary.directory, others.filter(|path| *path != interpreter))?;
        modules.push((binary.path.clone(), self.modules.take(&binary.path, module)));
        self.modules.all(&binary.directory, Utf8Path::from_path(interpreter).into_iter())?;
        let found = Found::among(binary, window, named, rust, modules);
        let (recorded_by, unseen) = match (self.recorder, found.because) {
            (Recorder::Uprobe, _) => (RecordedBy::Uprobe { because: None }, None),
            (Recorder::Auto, Some(because)) if can_probe => {
                (RecordedBy::Uprobe { because: Some(because) }, None)
            }
            _ => (RecordedBy::Ledger, found.unseen.map(|unseen| format!("{unseen}; use --recorder uprobe"))),
        };
        let records = recorded_by != RecordedBy::Ledger;
        let heap = if records && found.others { Heap::Other } else { Heap::Glibc };
        let mut sites = sites;
        if heap == Heap::Other {
            add(&mut sites, found.sites);
        }
        if let Some(reason) = refusal(binary, &sites, can_probe) {
            return Ok(Err(reason));
        }
        self.probes.push((binary.path.clone(), sites));
        let (libc, malloc) = self.copy(Kind::C, &libc, records)?;
        // The ledger has the callers of the C++ library by itself.
        let cxx = find(CXX).filter(|_| records);
        let cxx =
            cxx.map(|path| self.copy(Kind::Cxx, &path, records)).transpose()?.map(|(library, _)| library);
        let allocators = found.libraries.into_iter().map(|path| match records {
            true => self.copy(Kind::Allocator, &path, records).map(|(library, _)| library),
            false => Ok(Arc::new(Library { original: path.clone(), path })),
        });
        Ok(Ok(Arc::new(Libraries {
            libc,
            malloc,
            start: Start::Loader(loader),
            cxx,
            allocators: allocators.collect::<Result<_>>()?,
            recorded_by,
            unseen: unseen.or(found.hidden),
            names: found.names,
            heap,
            layers: heap == Heap::Other,
            span: None,
            log,
            unforkable,
            symbolizer: Arc::new(symbolizer),
        })))
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
        let named = code.named_allocator();
        let (rust, inlined) = rust_of(code, named.is_none());
        let others: Vec<Allocator> = named.into_iter().chain(rust).collect();
        let mut names: Vec<String> = others.first().map(|first| first.name.clone()).into_iter().collect();
        names.push(own.name.clone());
        names.dedup();
        let heap = if others.is_empty() && code.has_glibc_malloc() { Heap::Glibc } else { Heap::Other };
        let mut sites = body;
        let exit = code.function("exit");
        let exit = exit.and_then(|exit| code.file_offset(code.cheapest(exit)));
        sites.extend(exit.map(|offset| Site { program: Program::Exit, cookie: 0, offset }));
        sites.extend(code.outer_sites(outer::is_libc));
        add(&mut sites, others.iter().chain([&own]).flat_map(|allocator| allocator.sites.clone()));
        if self.ipc {
            sites.extend(code.ipc_sites());
        }
        if let Some(reason) = refusal(binary, &sites, can_probe) {
            return Err(reason);
        }
        self.probes.push((binary.path.clone(), sites));
        let of = others.first().map(|allocator| format!(", and has {} in it", allocator.name));
        let because = format!("it is statically linked{}", of.unwrap_or_default());
        let path = binary.path.canonicalize_utf8().unwrap_or_else(|_| binary.path.clone());
        Ok(Arc::new(Libraries {
            libc: Arc::new(Library { original: path.clone(), path }),
            malloc: malloc - code.first_page(),
            start: Start::Function(begin - code.first_page()),
            cxx: None,
            allocators: Vec::new(),
            recorded_by: RecordedBy::Uprobe {
                because: (self.recorder != Recorder::Uprobe).then_some(because),
            },
            unseen: inlined,
            names,
            heap,
            layers: true,
            span: code.libc_span(),
            log: code.log_behind_entry(),
            unforkable: None,
            symbolizer: Arc::new(code.symbolizer()),
        }))
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
                let all = [code.own_malloc(), code.named_allocator()].into_iter().flatten();
                let mut sites = Vec::new();
                add(&mut sites, all.flat_map(|allocator| allocator.sites));
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
        if self.mappings && kind == Kind::C {
            match code.mapping_sites() {
                Ok(more) => sites.extend(more),
                Err(reason) => self.mappings_unseen = Some(reason),
            }
        }
        self.probes.push((path.clone(), sites));
        if !records {
            let looked = Looked::at(&path, &code, self.modules.frames.is_some());
            self.modules.take(&path, looked);
        }
        let malloc = code.function("malloc").map_or(0, |malloc| malloc - code.first_page());
        let library = Library { path, original: original.to_owned() };
        let known = (Arc::new(library), malloc);
        self.libraries.insert(key, known.clone());
        Ok(known)
    }
}

/// Rust's global allocator, if it is another one than `System`; or why it is not seen, where nothing else of it
/// is known.
pub(super) fn rust_of(code: &Code, unknown: bool) -> (Option<Allocator>, Option<String>) {
    match code.rust_allocator() {
        Some(RustAllocator::Whole(rust)) => (Some(rust), None),
        Some(RustAllocator::Unseen(name, why)) if unknown => {
            (None, Some(format!("Rust's blocks come from {name}, whose {why}")))
        }
        _ => (None, None),
    }
}

/// Why the sites of a binary are not to be probed, if that is so.
fn refusal(binary: &TestBinary, sites: &[Site], can_probe: bool) -> Option<String> {
    if can_probe && !sites.is_empty() { probed::refusal(&binary.path) } else { None }
}

/// Adds sites that are not there yet: layers may share functions.
fn add(sites: &mut Vec<Site>, more: impl IntoIterator<Item = Site>) {
    for site in more {
        if sites.iter().all(|there| (there.program, there.offset) != (site.program, site.offset)) {
            sites.push(site);
        }
    }
}
