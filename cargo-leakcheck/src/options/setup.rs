//! What is set up for a user.

use std::path::PathBuf;

/// What to do for a user who may use sudo with a password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupOptions {
    /// What.
    pub action: SetupAction,
    /// This executable.
    pub executable: PathBuf,
}

/// What `setup` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetupAction {
    /// Installs what raises the tracer.
    Install,
    /// Takes it back.
    Remove,
    /// Says whether it is there and works.
    Check,
}
