//! What std keeps for itself and a test cannot help.

use crate::model::{Finding, Frame, symbolizes};

/// Whether the blocks are std's symbolizer cache, where the harvest could not tell by the addresses of its functions.
pub(super) fn is_symbolizer_cache(finding: &Finding<Vec<Frame>>) -> bool {
    let functions = finding.stack.iter().flatten().filter_map(|frame| frame.function.as_deref());
    functions.filter_map(symbolizes).next().unwrap_or(false)
}

/// Functions, without leading `<`, that run an initializer once in a process.
const ONCE: [&str; 9] = [
    "std::sync::once::Once",
    "std::sync::poison::once::Once",
    "std::sys::sync::once::",
    "std::sync::once_lock::OnceLock",
    "std::sync::lazy_lock::LazyLock",
    "once_cell::imp::",
    "parking_lot::once::Once",
    "__pthread_once",
    "pthread_once",
];

/// Whether a descriptor or a mapping was made in a one-time initializer. It is meant to be kept as long as the process lives
/// (tokio's pipe for signals, a random device): a process that runs one test makes it in that test.
pub(super) fn is_once(stack: Option<&[Frame]>) -> bool {
    let functions = stack.into_iter().flatten().filter_map(|frame| frame.function.as_deref());
    let mut functions = functions.map(|function| function.trim_start_matches(['<', '_']));
    functions.any(|function| ONCE.iter().any(|prefix| function.starts_with(prefix.trim_start_matches('_'))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, Measure};

    #[test]
    fn initializers_are_told_by_who_calls_them() {
        let once = |functions: &[&str]| {
            let frame = |name: &&str| Frame { function: Some((*name).into()), ..Frame::default() };
            let stack: Vec<Frame> = functions.iter().map(frame).collect();
            is_once(Some(&stack))
        };
        for name in [
            "<std::sys::sync::once::futex::Once>::call",
            "std::sync::once_lock::OnceLock<T>::initialize",
            "<std::sync::once_lock::OnceLock<std::fs::File>>::initialize::<fn() -> std::fs::File>",
            "<once_cell::imp::OnceCell<a::T>>::initialize",
            "__pthread_once_slow",
        ] {
            assert!(once(&["pipe2", "a::make", name, "a::test"]), "{name}");
        }
        for name in ["a::once", "core::mem::forget::<std::sync::once_lock::OnceLock<i32>>", "my_pthread_once"]
        {
            assert!(!once(&["pipe2", "a::make", name, "a::test"]), "{name}");
        }
    }

    /// The names are those of Rust 1.95 (v0 mangling) and before it (legacy), innermost first.
    #[test]
    fn std_symbolizer_cache_is_no_finding() {
        const TEST: &str = "std::sys::backtrace::__rust_begin_short_backtrace::<app::tests::panics, ()>";
        let cases: [(&[&str], bool); _] = [
            (
                &[
                    "<alloc::raw_vec::RawVec<addr2line::unit::UnitRange>>::grow_one",
                    "<std::backtrace_rs::symbolize::gimli::Context>::new",
                    "std::backtrace_rs::symbolize::gimli::resolve",
                    "<<std::sys::backtrace::BacktraceLock>::print::DisplayBacktrace as core::fmt::Display>::fmt",
                    TEST,
                ],
                true,
            ),
            (&["alloc::alloc::alloc", "std::backtrace_rs::symbolize::gimli::Cache::with_global", TEST], true),
            (&["malloc", "<std::sys::backtrace::BacktraceLock>::print", TEST], true),
            (
                &["<std::sys::backtrace::BacktraceLock::print::DisplayBacktrace as core::fmt::Display>::fmt"],
                true,
            ),
            (&["std::sys_common::backtrace::_print_fmt"], true),
            // The cache, filled for a backtrace that the test asked for.
            (
                &[
                    "<std::backtrace_rs::symbolize::gimli::Cache>::with_global::<F>",
                    "std::backtrace_rs::symbolize::resolve_frame_unsynchronized::<F>",
                    "std::backtrace::helper::lazy_resolve::{closure#0}",
                    TEST,
                ],
                true,
            ),
            // Every thread and every panic has these.
            (&["app::tests::panics", TEST], false),
            (&["app::Error::new", "std::sys::backtrace::__rust_end_short_backtrace::<F, !>", TEST], false),
            // A backtrace that the test keeps: its frames, its symbols, its text.
            (
                &[
                    "std::backtrace_rs::backtrace::trace_unsynchronized::<F>",
                    "<std::backtrace::Backtrace>::create",
                ],
                false,
            ),
            (
                &[
                    "<alloc::vec::Vec<std::backtrace::BacktraceSymbol>>::push",
                    "std::backtrace::helper::lazy_resolve::{closure#0}::{closure#0}",
                    "std::backtrace_rs::symbolize::gimli::resolve",
                ],
                false,
            ),
            (
                &[
                    "<std::backtrace_rs::symbolize::SymbolName as core::fmt::Display>::fmt",
                    "<std::backtrace::Backtrace as core::fmt::Display>::fmt",
                ],
                false,
            ),
            (&["app::std::backtrace_rs::symbolize::gimli::resolve"], false),
            (&[], false),
        ];
        for (functions, removed) in cases {
            // The first frame is one without a name.
            let named =
                functions.iter().map(|&name| Frame { function: Some(name.to_owned()), ..Frame::default() });
            let stack = std::iter::once(Frame::default()).chain(named).collect();
            let finding = Finding {
                kind: FindingKind::StillReachable,
                measure: Measure { bytes: 34_600_000, blocks: 45_380 },
                stack: Some(stack),
                below: Measure::default(),
                root: None,
                held_by: None,
                before: crate::snapshot::Before::default(),
                process: None,
                origin: crate::model::Origin::default(),
                in_code: crate::model::InCode::default(),
            };
            assert_eq!(is_symbolizer_cache(&finding), removed, "{functions:?}");
        }
    }
}
