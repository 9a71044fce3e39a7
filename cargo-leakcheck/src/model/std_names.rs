//! What std's functions are for, by their names.

/// Functions, without leading `<`, below which std symbolizes a backtrace, or prints one for a panic.
/// Not all of `std::backtrace_rs`: the frames of a `Backtrace` that a test leaks are collected there.
/// Not all of `std::sys::backtrace`: every thread runs below its `__rust_begin_short_backtrace`.
const SYMBOLIZER: [&str; 5] = [
    "std::backtrace_rs::symbolize::gimli::",
    "std::backtrace_rs::symbolize::resolve",
    "std::sys::backtrace::BacktraceLock",
    "std::sys::backtrace::_print",
    // Its home before Rust 1.81.
    "std::sys_common::backtrace::_print",
];

/// `Backtrace` itself. What it allocates, called back by the symbolizer, belongs to its user.
const BACKTRACE: &str = "std::backtrace::";

/// Whether a function (demangled, without hash) does it for std's symbolizer, and not for the user of a `Backtrace`; none where
/// it is neither's, and its caller is to be asked.
///
/// With `RUST_BACKTRACE=1` the first panic of a process (an expected one too) reads the debug information of all modules, and
/// std keeps it until the process ends: megabytes that are none of the test's doing and differ from one toolchain to the next.
pub fn symbolizes(function: &str) -> Option<bool> {
    let function = function.trim_start_matches('<');
    let symbolizes = SYMBOLIZER.iter().any(|prefix| function.starts_with(prefix));
    (symbolizes || function.starts_with(BACKTRACE)).then_some(symbolizes)
}
