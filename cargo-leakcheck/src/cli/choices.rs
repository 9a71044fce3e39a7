//! Options whose values are words.

use clap::ValueEnum;

use crate::options::{Count, Dependencies, Recorder, Spawn, When};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WhenArg {
    Auto,
    Always,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecorderArg {
    Auto,
    Ledger,
    Uprobe,
}

/// `--spawn`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SpawnArg {
    Exec,
    Fork,
    Auto,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CountArg {
    Lost,
    Outstanding,
}

/// `--dependencies`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DependenciesArg {
    Fail,
    Report,
}

impl From<DependenciesArg> for Dependencies {
    fn from(what: DependenciesArg) -> Self {
        match what {
            DependenciesArg::Fail => Self::Fail,
            DependenciesArg::Report => Self::Report,
        }
    }
}

impl From<WhenArg> for When {
    fn from(when: WhenArg) -> Self {
        match when {
            WhenArg::Auto => Self::Auto,
            WhenArg::Always => Self::Always,
            WhenArg::Never => Self::Never,
        }
    }
}

impl From<RecorderArg> for Recorder {
    fn from(recorder: RecorderArg) -> Self {
        match recorder {
            RecorderArg::Auto => Self::Auto,
            RecorderArg::Ledger => Self::Ledger,
            RecorderArg::Uprobe => Self::Uprobe,
        }
    }
}

impl From<SpawnArg> for Spawn {
    fn from(spawn: SpawnArg) -> Self {
        match spawn {
            SpawnArg::Exec => Self::Exec,
            SpawnArg::Fork => Self::Fork,
            SpawnArg::Auto => Self::Auto,
        }
    }
}

impl From<CountArg> for Count {
    fn from(count: CountArg) -> Self {
        match count {
            CountArg::Lost => Self::Lost,
            CountArg::Outstanding => Self::Outstanding,
        }
    }
}
