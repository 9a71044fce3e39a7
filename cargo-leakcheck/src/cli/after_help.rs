//! What `--help` says below the options.

/// The text.
pub const AFTER_HELP: &str = "\
Each test runs in a process of its own. Blocks that it allocated and that are left when the process
ends are definitely lost, indirectly lost, possibly lost or still reachable. A test fails when it loses
more than its budget: 0 bytes, or what #[leak_budget] says. It fails as well when it leaves descriptors
open or IPC objects behind that it has made, or child processes running or not waited for. Looking at
descriptors needs eBPF, IPC namespaces need root.

Exit codes: 0 clean, 1 tests failed, 2 leaks only, 3 both, 4 no tests ran, 10 incomplete,
11 the tool could not do its work, 12 the build failed.";
