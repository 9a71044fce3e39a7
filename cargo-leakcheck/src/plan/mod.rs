//! Decides which tests run, with which arguments, in which order.

pub mod budgets;
pub mod filterset;
mod identity;
mod list;
mod partition;
mod program;
pub mod suppressions;
pub mod targets;

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;

use crate::discover::{Discovered, TestCase, Tests};
use crate::error::Result;
use crate::model::{Budget, PlannedTest, Stdio, Target, TestBinary, TestName, Window};
use crate::options::{Ignored, JudgeOptions, Selection};

pub use identity::own_code;
pub use list::print;
pub use program::{Called, called};

/// Whether the test of a binary that has this name may be selected.
pub type Accepts<'a> = dyn Fn(&TestBinary, &str) -> bool + 'a;

/// What will run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The tests, by binary and then by name.
    pub tests: Vec<PlannedTest>,
    /// All tests of the binaries that were looked at, whether they were selected or not, as [`PlannedTest::id`] has them.
    pub all: BTreeSet<String>,
    /// The binaries that were looked at.
    pub targets: Vec<Target>,
    /// What the user should know about how they run.
    pub notes: Vec<String>,
}

/// Selects tests as libtest does, of those that `accepts` accepts by their binaries and names. `budgets` reads the limits that a binary holds, by the names of
/// its tests; a test without an entry has none of its own.
///
/// # Errors
/// Those of `budgets`.
pub fn plan(
    discovered: Vec<Discovered>,
    selection: &Selection,
    accepts: &Accepts<'_>,
    mut budgets: impl FnMut(&TestBinary) -> Result<HashMap<String, Budget>>,
) -> Result<Plan> {
    let mut plan = Plan::default();
    let mut discovered = discovered;
    discovered.sort_by_cached_key(|found| partition::order(&found.binary));
    for found in &discovered {
        add(&mut plan, found, selection, accepts, &mut budgets)?;
    }
    if let Some(part) = selection.partition {
        partition::retain(&mut plan.tests, part);
    }
    let skips = selection.ignored == Ignored::Skip;
    plan.targets = discovered.iter().map(|found| targets::of_binary(found, &plan.tests, skips)).collect();
    if selection.no_capture {
        plan.tests.iter_mut().for_each(|test| test.stdio = Stdio::Forwarded);
    }
    Ok(plan)
}

/// Adds what is selected of a binary.
fn add(
    plan: &mut Plan,
    found: &Discovered,
    selection: &Selection,
    accepts: &Accepts<'_>,
    budgets: &mut impl FnMut(&TestBinary) -> Result<HashMap<String, Budget>>,
) -> Result<()> {
    let Discovered { binary, tests } = found;
    let id = binary.id();
    plan.all.extend(found.names().map(|name| format!("{id} {name}")));
    let selects = |name: &str, ignored| selects(selection, name, ignored) && accepts(binary, name);
    let (cases, window) = match tests {
        Tests::Libtest(cases) => (cases, Window::TestBody),
        Tests::Protocol(cases) => {
            // Either true, or the harness does not know the option and lists everything.
            if selection.ignored == Ignored::Skip
                && cases.iter().all(|case| case.ignored)
                && cases.iter().any(|case| accepts(binary, &case.name))
            {
                plan.notes.push(format!("{id} lists all its {} tests as ignored", cases.len()));
            }
            (cases, Window::Process)
        }
        Tests::Unit { reason } => {
            if selects(&binary.target, false) {
                plan.notes.push(format!("{id} runs as one test: {reason}"));
                plan.tests.push(PlannedTest {
                    name: TestName::Unit(binary.target.clone()),
                    binary: binary.clone(),
                    arguments: Vec::new(),
                    window: Window::Process,
                    budget: Budget::default(),
                    should_panic: false,
                    stdio: Stdio::Captured,
                    attempt: 1,
                    judge: JudgeOptions::default(),
                    policy: None,
                });
            }
            return Ok(());
        }
    };
    let mut cases: Vec<_> = cases.iter().filter(|case| selects(&case.name, case.ignored)).collect();
    if cases.is_empty() {
        return Ok(());
    }
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    let mut limits = budgets(binary)?;
    plan.tests.extend(cases.into_iter().map(|case| PlannedTest {
        arguments: arguments(case),
        budget: limits.remove(&case.name).unwrap_or_default(),
        name: TestName::Listed(case.name.clone()),
        binary: binary.clone(),
        window,
        should_panic: false,
        stdio: Stdio::Captured,
        attempt: 1,
        judge: JudgeOptions::default(),
        policy: None,
    }));
    Ok(())
}

/// libtest's rules: any filter, no skip, both whole names when exact.
fn selects(selection: &Selection, name: &str, ignored: bool) -> bool {
    let matches =
        |filter: &String| if selection.exact { name == filter } else { name.contains(filter.as_str()) };
    let by_name = (selection.filters.is_empty() || selection.filters.iter().any(matches))
        && !selection.skip.iter().any(matches);
    let by_mark = match selection.ignored {
        Ignored::Skip => !ignored,
        Ignored::Include => true,
        Ignored::Only => ignored,
    };
    by_name && by_mark
}

/// The arguments with which nextest too runs one test, so that harnesses know them. With `--nocapture`
/// a test's output goes out as it comes and nothing of it is lost when the test aborts.
fn arguments(case: &TestCase) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["--exact".into(), "--nocapture".into()];
    if case.ignored {
        arguments.push("--ignored".into());
    }
    // Only a name that looks like an option needs to be told apart from one.
    if case.name.starts_with('-') {
        arguments.push("--".into());
    }
    arguments.push(case.name.clone().into());
    arguments
}

#[cfg(test)]
mod tests;
