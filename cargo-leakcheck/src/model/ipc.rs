use std::borrow::Cow;

/// An IPC object that a test has left behind. `S` is the call stack of the call that has made it, as in
/// [`Finding`](super::Finding).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpcObject<S> {
    /// What it is: `shared memory`, `semaphore set`, `message queue` (System V), `POSIX queue`,
    /// `POSIX shared memory`, `POSIX semaphore`.
    pub kind: Cow<'static, str>,
    /// Which one.
    pub name: IpcName,
    /// What it holds, where that is known.
    pub bytes: Option<u64>,
    /// The function of the C library that has made it; none where that was not seen.
    pub call: Option<Cow<'static, str>>,
    /// Where that was called.
    pub stack: Option<S>,
}

/// How an IPC object is named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpcName {
    /// System V.
    Id {
        /// By this number the system knows it.
        id: i32,
        /// By this one programs find it; 0 (`IPC_PRIVATE`) for none.
        key: u32,
    },
    /// POSIX: a name with a slash in front.
    Name(String),
}

impl std::fmt::Display for IpcName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id { id, key: 0 } => write!(formatter, "id {id}"),
            Self::Id { id, key } => write!(formatter, "id {id} (key {key:#x})"),
            Self::Name(name) => write!(formatter, "{name:?}"),
        }
    }
}
