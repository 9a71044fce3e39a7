//! What is known of code that is not the user's: std, allocators, the harness, the C and C++ runtime.

use crate::model::{ALLOCATOR, ALLOCATORS, Frame};

/// Crates of the toolchain.
const CRATES: [&str; 9] =
    ["std", "core", "alloc", "test", "proc_macro", "panic_unwind", "panic_abort", "std_detect", "__rustc"];

/// Beginnings of names of functions that allocate, of Rust and C++.
const ALLOCATE: [&str; 7] = [
    "__rust_alloc",
    "__rust_dealloc",
    "__rust_realloc",
    "__rdl_",
    "__rg_",
    "operator new",
    "operator delete",
];

/// Beginnings of function names of runtimes.
const RUNTIMES: [&str; 7] =
    ["__gnu_cxx::", "__cxa_", "__libc_", "_dl_", "_Unwind_", "rust_begin_", "__rust_"];

/// Where threads and processes start, as static binaries have it.
const STARTS: [&str; 3] = ["_start", "start_thread", "clone3"];

/// Beginnings of file names of modules of the runtime, up to a dot or dash.
const MODULES: [&str; 14] = [
    "libc",
    "libm",
    "libpthread",
    "libdl",
    "librt",
    "ld-linux-x86-64",
    "ld-linux-aarch64",
    "ld",
    "libgcc_s",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libstd",
    "libtest",
];

/// Whether a function's demangled name says that it is not the user's.
pub(super) fn is_function(name: &str) -> bool {
    // C++ templates begin with their return type: `void std::f<int>()`.
    let last_word = || name.split('(').next().unwrap_or(name).rsplit_once(' ').map_or(name, |(_, word)| word);
    allocates(name)
        || STARTS.contains(&name)
        || RUNTIMES.iter().any(|prefix| name.starts_with(prefix))
        || is_rust_foreign(name)
        || (!name.starts_with('<') && last_word().starts_with("std::"))
}

/// Whose a frame is that is not the user's, for people: `std`, `libtest`, `libc`, `the allocator`.
/// None for frames that only their place in the stack makes foreign.
pub(crate) fn family(frame: &Frame) -> Option<&str> {
    let name = frame.function.as_deref().unwrap_or_default();
    let file = frame.file.as_deref().unwrap_or_default();
    if let Some(path) = frame.module.as_deref().filter(|path| is_runtime_module(path)) {
        let module = path.rsplit('/').next().unwrap_or(path);
        Some(module.find(".so").map_or(module, |end| &module[..end]))
    } else if allocates(name) {
        Some(THE_ALLOCATOR)
    } else if name.starts_with("test::") || is_toolchain_file(file) && file.contains("/library/test/") {
        Some("libtest")
    } else if file.contains("/include/c++/") || file.contains("/libstdc++-v3/") {
        Some("libstdc++")
    } else if is_toolchain_file(file) || is_rust_foreign(name) || name.starts_with("__rust_") {
        Some("std")
    } else {
        None
    }
}

/// Whether a function is an allocator's.
fn allocates(name: &str) -> bool {
    let is_of = |prefix: &str| match name.strip_prefix(prefix) {
        // `rp` and `dl` are also the beginnings of other names.
        Some(rest) => prefix.ends_with('_') || ALLOCATOR.contains(&rest),
        None => false,
    };
    let begins = |beginnings: &[&str]| beginnings.iter().any(|beginning| name.starts_with(beginning));
    let known = || {
        ALLOCATORS
            .iter()
            .any(|known| known.prefixes.iter().any(|prefix| is_of(prefix)) || begins(known.inner))
    };
    is_rust_alloc(name) || is_global_alloc(name) || ALLOCATOR.contains(&name) || begins(&ALLOCATE) || known()
}

/// The family of functions that allocate.
pub(crate) const THE_ALLOCATOR: &str = "the allocator";

/// Whether the crate of a Rust path is the toolchain's or an allocator's. The crate of
/// `<type as trait>::method` is the type's or the trait's: the code is foreign only if both are.
fn is_rust_foreign(name: &str) -> bool {
    let Some(inner) = name.strip_prefix('<') else { return is_crate(name) };
    match split_as(inner) {
        Some((of, implemented)) => {
            // Slices, tuples, function pointers and type parameters belong to no crate.
            let no_crate = of.starts_with(['[', '(']) || of.contains("fn(") || !of.contains("::");
            is_crate(implemented) && (no_crate || is_crate(of))
        }
        None => is_crate(inner),
    }
}

/// Splits `type as trait>::method` at the `as` of the outermost brackets.
pub(super) fn split_as(inner: &str) -> Option<(&str, &str)> {
    let mut depth = 0_u32;
    for (index, byte) in inner.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' => depth += 1,
            // The arrow of a function type is no bracket.
            b'>' if inner[..index].ends_with('-') => {}
            b'>' | b')' | b']' => depth = depth.checked_sub(1)?,
            b' ' if depth == 0 && inner[index..].starts_with(" as ") => {
                return Some((&inner[..index], &inner[index + 4..]));
            }
            _ => {}
        }
    }
    None
}

fn is_crate(path: &str) -> bool {
    let mut path = path;
    while let Some(rest) = ["<", "&", "*const ", "*mut ", "mut ", "dyn ", "(", "["]
        .iter()
        .find_map(|prefix| path.strip_prefix(prefix))
    {
        path = rest;
    }
    let is_foreign =
        |name| CRATES.contains(&name) || ALLOCATORS.iter().any(|known| known.crates.contains(&name));
    path.split_once("::").is_some_and(|(name, _)| is_foreign(name))
}

/// Whether a function is an implementation of `GlobalAlloc`.
pub(super) fn is_global_alloc(name: &str) -> bool {
    name.contains(" as core::alloc::global::GlobalAlloc>::")
}

/// Whether a function is the way into the global allocator.
pub(super) fn is_rust_alloc(name: &str) -> bool {
    let name = name.strip_prefix("__rustc::").unwrap_or(name);
    ["__rust_alloc", "__rust_realloc", "__rg_", "__rdl_"].iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a function is libtest's, or calls `main`.
pub(super) fn is_harness(name: &str) -> bool {
    is_rust_foreign(name) && name.starts_with("test::") || name.starts_with("std::rt::lang_start")
}

/// Whether a function is a closure.
pub(super) fn is_closure(name: &str) -> bool {
    name.ends_with("{{closure}}") || name.ends_with("{closure#0}")
}

/// Whether a source file comes with a toolchain.
pub(super) fn is_toolchain_file(file: &str) -> bool {
    const STD: [&str; 6] = ["core", "alloc", "std", "test", "proc_macro", "panic_unwind"];
    // Distributions build std in places of their own, but always below `library`.
    let below_library = || {
        let mut rest = file;
        while let Some((before, after)) = rest.split_once("/library/") {
            let of_rustc = before.rsplit('/').next().is_some_and(|dir| dir.starts_with("rustc-"));
            if of_rustc
                && STD.iter().any(|name| after.strip_prefix(name).is_some_and(|r| r.starts_with("/src/")))
            {
                return true;
            }
            rest = after;
        }
        false
    };
    file.starts_with("/rustc/")
        || file.starts_with("/rust/deps/")
        || file.contains("/lib/rustlib/src/")
        || file.starts_with("/usr/include/")
        || file.contains("/include/c++/")
        || file.contains("/libstdc++-v3/")
        || below_library()
}

/// Whether a module belongs to the C or C++ runtime or is an allocator.
pub(super) fn is_runtime_module(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.starts_with('[')
        || MODULES.iter().chain(ALLOCATORS.iter().flat_map(|known| known.libraries)).any(|name| {
            file.strip_prefix(name).is_some_and(|rest| rest.starts_with(".so") || rest.starts_with('-'))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_rust() {
        for name in [
            "alloc::alloc::exchange_malloc",
            "<alloc::vec::Vec<a::T> as core::clone::Clone>::clone",
            "<alloc::vec::Vec<u8>>::with_capacity",
            "<T as core::convert::Into<U>>::into",
            "<[a::T] as alloc::slice::hack::ConvertVec>::to_vec",
            "<&mut std::io::stdio::Stdout as core::fmt::Write>::write_str",
            "<fn() -> a::T as core::ops::function::FnOnce<()>>::call_once",
            "<(a, b) as core::clone::Clone>::clone",
            "<dyn core::any::Any>::type_id",
            "core::ptr::drop_in_place::<a::T>",
            "__rustc::__rust_alloc",
            "__rust_alloc",
            "__rdl_alloc",
            "test::run_test::{{closure}}",
            "tikv_jemallocator::layout_to_flags",
            "_rjem_malloc",
            "sn_rust_alloc_zeroed",
            "<a::Counting as core::alloc::global::GlobalAlloc>::alloc",
        ] {
            assert!(is_function(name), "{name}");
        }
        for name in [
            "a::leaks",
            "<a::T as core::clone::Clone>::clone",
            "<a::T>::new",
            "<alloc::vec::Vec<T> as a::Extra>::more",
            "alloc_counter::f",
            "testing::f",
            "stdx::f",
            "main",
            "mine",
            "my_malloc",
            "<F as a::Handler>::call",
        ] {
            assert!(!is_function(name), "{name}");
        }
    }

    #[test]
    fn names_of_c_and_cpp() {
        for name in [
            "malloc",
            "operator new(unsigned long)",
            "std::vector<Node>::push_back(Node const&)",
            "snmalloc::PALLinux::reserve(unsigned long)",
        ] {
            assert!(is_function(name), "{name}");
        }
        assert!(is_function("void std::__cxx11::basic_string<char>::_M_construct<char*>(char*, char*)"));
        for name in ["leak_string(std::vector<int>)", "void make<std::vector<int>>(int)", "malloc_twice"] {
            assert!(!is_function(name), "{name}");
        }
    }

    #[test]
    fn names_of_known_allocators() {
        for known in &ALLOCATORS {
            let functions = known.prefixes.iter().map(|prefix| format!("{prefix}malloc"));
            let crates = known.crates.iter().map(|name| format!("{name}::alloc"));
            for name in functions.chain(crates).chain(known.inner.iter().map(|inner| format!("{inner}x"))) {
                assert!(is_function(&name), "{name}");
            }
            for library in known.libraries {
                assert!(is_runtime_module(&format!("/usr/lib/{library}.so.2")), "{library}");
            }
        }
        for name in ["rpc_call", "dlopen", "rp", "dlmalloced"] {
            assert!(!is_function(name), "{name}");
        }
    }

    #[test]
    fn files() {
        assert!(is_toolchain_file("/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/rt.rs"));
        assert!(is_toolchain_file("/usr/src/rustc-1.85.0/library/alloc/src/vec/mod.rs"));
        assert!(is_toolchain_file(
            "/home/u/.rustup/toolchains/x/lib/rustlib/src/rust/library/core/src/lib.rs"
        ));
        assert!(is_toolchain_file("/usr/include/c++/12/bits/new_allocator.h"));
        assert!(!is_toolchain_file("/w/library/core/src/lib.rs"));
        assert!(!is_toolchain_file("/w/include/list.hpp"));
    }

    #[test]
    fn modules() {
        for path in ["/tmp/run/libc.so.6", "/lib64/ld-linux-x86-64.so.2", "/usr/lib/libstdc++.so.6", "[vdso]"]
        {
            assert!(is_runtime_module(path), "{path}");
        }
        assert!(is_runtime_module("/lib/x86_64-linux-gnu/libc-2.31.so"));
        for path in ["/w/libcurl.so.4", "/w/libmine.so", "/w/target/debug/deps/libc_test-1f"] {
            assert!(!is_runtime_module(path), "{path}");
        }
    }
}
