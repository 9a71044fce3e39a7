use std::borrow::Cow;

/// Descriptors that a test has left open and that refer to one file (open file description), which was
/// made in the test's window. `S` is the call stack of the system call, as in [`Finding`](super::Finding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Descriptor<S> {
    /// Their numbers, ascending; more than one where it was duplicated.
    pub numbers: Vec<u32>,
    /// What it is, in a word or two: `file`, `directory`, `pipe`, `socket`, `epoll`.
    pub kind: Cow<'static, str>,
    /// Which one: path, addresses, name; empty where there is nothing to say.
    pub description: String,
    /// The system call that made it: `openat`. None where that was not seen, and it is not known whether it is a one-time
    /// initializer's.
    pub call: Option<String>,
    /// The thread that made it, if it was still running when the process ended and is not the main one: it
    /// might have closed it later.
    pub held_by: Option<String>,
    /// It was made in a one-time initializer (`OnceLock`, `LazyLock`, `pthread_once`): it is meant to be kept as long
    /// as the process lives. Not judged; known once stacks have names.
    pub once: bool,
    /// Bytes of the objects of the kernel that the file leads to, itself included; what it shares with others is
    /// counted for one of them. None where that is not known.
    pub bytes: Option<u64>,
    /// Where that was called; none where nothing is known of it.
    pub stack: Option<S>,
}
