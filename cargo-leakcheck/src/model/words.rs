/// A number of things in words: `1 block`, `2 blocks`, `2 children`.
pub fn count(number: u64, noun: &str) -> String {
    match (number, noun) {
        (1, noun) => format!("1 {noun}"),
        (_, "child") => format!("{number} children"),
        (_, noun) => format!("{number} {noun}s"),
    }
}

/// The functions of the C library's allocator.
pub const ALLOCATOR: [&str; 10] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "free",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "valloc",
    "pvalloc",
];
