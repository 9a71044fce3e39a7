/// What an allocator is known by, in programs and in call stacks.
pub struct KnownAllocator {
    /// What it is called.
    pub name: &'static str,
    /// What stands before the names of its functions, such as `malloc`.
    pub prefixes: &'static [&'static str],
    /// Beginnings of names of its functions besides.
    pub inner: &'static [&'static str],
    /// Rust crates that call it.
    pub crates: &'static [&'static str],
    /// Beginnings of its libraries' file names, up to a dot or dash.
    pub libraries: &'static [&'static str],
}

/// The allocators that are known by name.
pub const ALLOCATORS: [KnownAllocator; 6] = [
    KnownAllocator {
        name: "jemalloc",
        prefixes: &["_rjem_", "je_"],
        inner: &[],
        crates: &["tikv_jemallocator", "tikv_jemalloc_sys"],
        libraries: &["libjemalloc"],
    },
    KnownAllocator {
        name: "mimalloc",
        prefixes: &["mi_"],
        inner: &["_mi_"],
        crates: &["mimalloc", "libmimalloc_sys"],
        libraries: &["libmimalloc"],
    },
    KnownAllocator {
        name: "snmalloc",
        prefixes: &["sn_rust_"],
        inner: &["snmalloc::"],
        crates: &["snmalloc_rs"],
        libraries: &["libsnmallocshim"],
    },
    KnownAllocator {
        name: "tcmalloc",
        prefixes: &["tc_"],
        inner: &[],
        crates: &[],
        libraries: &["libtcmalloc", "libtcmalloc_minimal"],
    },
    KnownAllocator {
        name: "rpmalloc",
        prefixes: &["rp"],
        inner: &[],
        crates: &[],
        libraries: &["librpmalloc"],
    },
    KnownAllocator { name: "dlmalloc", prefixes: &["dl"], inner: &[], crates: &[], libraries: &[] },
];
