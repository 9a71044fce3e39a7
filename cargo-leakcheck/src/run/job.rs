//! What is to be done: from a workspace to its tests.

use std::collections::BTreeSet;

use camino::Utf8PathBuf;

use crate::build::Workspace;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::model::{NotChecked, OwnCode, PlannedTest, Target};
use crate::options::{BuildOptions, Options, Selection};
use crate::plan::filterset::Filters;
use crate::sys::Interrupts;
use crate::{build, discover, parallel, plan};

/// What is to be done.
pub struct Job {
    pub tests: Vec<PlannedTest>,
    /// All tests that there are, whether they run or not.
    pub all: BTreeSet<String>,
    /// What is followed where tests start it, if that is asked for.
    pub executables: Vec<Utf8PathBuf>,
    pub targets: Vec<Target>,
    /// All tests that there are were selected, but for ignored ones.
    pub is_whole: bool,
    pub not_checked: Vec<NotChecked>,
    pub notes: Vec<String>,
    pub own: OwnCode,
    /// It is no failure when there are no tests: cargo starts its runner for every binary.
    pub may_be_empty: bool,
    /// Nothing is to be said but of tests that have findings, or do not pass.
    pub brief: bool,
}

impl Job {
    /// Another attempt at tests of it.
    pub fn again(&self, tests: Vec<PlannedTest>) -> Self {
        Self {
            tests,
            all: BTreeSet::new(),
            executables: self.executables.clone(),
            targets: Vec::new(),
            is_whole: false,
            not_checked: Vec::new(),
            notes: Vec::new(),
            own: self.own.clone(),
            may_be_empty: false,
            brief: self.brief,
        }
    }
}

/// A workspace, and the expressions that are to be understood in it.
///
/// # Errors
/// Those of cargo, of the configuration and of expressions.
pub fn find(
    build: &BuildOptions,
    selecting: &[String],
    config: &Config,
    options: &Options,
) -> Result<(Workspace, Filters)> {
    let workspace = Workspace::find(build)?;
    config.is_of(&options.config, workspace.root())?;
    let filters = Filters::new(selecting, config, workspace.metadata())?;
    Ok((workspace, filters))
}

/// Builds, and asks the binaries for their tests, which have the budgets of their attributes.
///
/// # Errors
/// Those of [`find`], of the build, and the user has asked for the end.
pub fn prepare(
    build: &BuildOptions,
    selection: &Selection,
    config: &Config,
    options: &Options,
    interrupts: &Interrupts,
) -> Result<(Job, Filters)> {
    let jobs = options.trace.jobs;
    let work = || {
        let (workspace, filters) = find(build, &selection.expressions, config, options)?;
        let mut built = build::build(build, workspace)?;
        let binaries = std::mem::take(&mut built.binaries);
        let (doctests, discovered) = std::thread::scope(|scope| {
            let count = || parallel::map(&built.doctests, jobs, discover::doctests::count);
            let doctests = scope.spawn(count);
            let discovered = discover::discover(binaries, jobs);
            (doctests.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), discovered)
        });
        Ok((built, discovered, doctests, filters))
    };
    let (mut built, discovered, counted, filters) = watched(interrupts, work)?;
    let accepts = |binary: &_, name: &str| filters.selects(binary, name);
    let plan = plan::plan(discovered, selection, &accepts, plan::budgets::of_binary)?;
    let notes = std::mem::take(&mut built.notes).into_iter().chain(plan.notes).collect();
    let build::Built { executables, doctests, mut not_checked, own, .. } = built;
    let mut targets = plan.targets;
    for (doctests, count) in doctests.iter().zip(counted) {
        let (target, silent) = plan::targets::of_doctests(doctests, count);
        targets.push(target);
        not_checked.extend(silent);
    }
    let (may_be_empty, brief, tests) = (false, false, plan.tests);
    let all = plan.all;
    let is_whole = selection.is_whole();
    let job =
        Job { tests, all, is_whole, executables, targets, not_checked, notes, own, may_be_empty, brief };
    Ok((job, filters))
}

/// Does something that the user may interrupt.
///
/// # Errors
/// He has, or those of the work.
pub fn watched<T>(interrupts: &Interrupts, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let done = interrupts.watch(work);
    if interrupts.requested() { Err(Error::Interrupted) } else { done }
}
