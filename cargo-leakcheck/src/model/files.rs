/// What a test has left in its temporary directory: information, never a reason for a verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct LeftFiles {
    /// Files of any kind, and directories without files.
    pub count: u64,
    /// Sum of the sizes of regular files.
    pub bytes: u64,
    /// The first few, relative to that directory, by their names.
    pub paths: Vec<String>,
}
