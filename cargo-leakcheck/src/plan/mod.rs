//! Decides which tests run, with which arguments, in which order.

pub mod budgets;
mod list;
mod program;
pub mod targets;

use std::collections::HashMap;
use std::ffi::OsString;

use crate::discover::{Discovered, TestCase, Tests};
use crate::error::Result;
use crate::model::{Budget, PlannedTest, Stdio, Target, TestBinary, TestName, Window};
use crate::options::{Ignored, Selection};

pub use list::print;
pub use program::program;

/// What will run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The tests, by binary and then by name.
    pub tests: Vec<PlannedTest>,
    /// The binaries that were looked at.
    pub targets: Vec<Target>,
    /// What the user should know about how they run.
    pub notes: Vec<String>,
}

/// Selects tests as libtest does. `budgets` reads the limits that a binary holds, by the names of
/// its tests; a test without an entry has none of its own.
///
/// # Errors
/// Those of `budgets`.
pub fn plan(
    discovered: Vec<Discovered>,
    selection: &Selection,
    mut budgets: impl FnMut(&TestBinary) -> Result<HashMap<String, Budget>>,
) -> Result<Plan> {
    let mut plan = Plan::default();
    let mut discovered = discovered;
    discovered.sort_by_cached_key(|found| (found.binary.id(), found.binary.path.clone()));
    for found in discovered {
        let before = plan.tests.len();
        add(&mut plan, &found, selection, &mut budgets)?;
        let skips = selection.ignored == Ignored::Skip;
        plan.targets.push(targets::of_binary(&found, plan.tests.len() - before, skips));
    }
    Ok(plan)
}

/// Adds what is selected of a binary.
fn add(
    plan: &mut Plan,
    found: &Discovered,
    selection: &Selection,
    budgets: &mut impl FnMut(&TestBinary) -> Result<HashMap<String, Budget>>,
) -> Result<()> {
    let Discovered { binary, tests } = found;
    let id = binary.id();
    let (cases, window) = match tests {
        Tests::Libtest(cases) => (cases, Window::TestBody),
        Tests::Protocol(cases) => {
            // Either true, or the harness does not know the option and lists everything.
            if selection.ignored == Ignored::Skip && cases.iter().all(|case| case.ignored) {
                plan.notes.push(format!("{id} lists all its {} tests as ignored", cases.len()));
            }
            (cases, Window::Process)
        }
        Tests::Unit { reason } => {
            if selects(selection, binary, &id, &binary.target, false) {
                plan.notes.push(format!("{id} runs as one test: {reason}"));
                plan.tests.push(PlannedTest {
                    name: TestName::Unit(binary.target.clone()),
                    binary: binary.clone(),
                    arguments: Vec::new(),
                    window: Window::Process,
                    budget: Budget::default(),
                    should_panic: false,
                    stdio: Stdio::Captured,
                    policy: None,
                });
            }
            return Ok(());
        }
    };
    let mut cases: Vec<_> =
        cases.iter().filter(|case| selects(selection, binary, &id, &case.name, case.ignored)).collect();
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
        policy: None,
    }));
    Ok(())
}

/// libtest's rules: any filter, no skip, both whole names when exact. And nextest's for expressions: any of them.
fn selects(selection: &Selection, binary: &TestBinary, id: &str, name: &str, ignored: bool) -> bool {
    let matches =
        |filter: &String| if selection.exact { name == filter } else { name.contains(filter.as_str()) };
    let by_name = (selection.filters.is_empty() || selection.filters.iter().any(matches))
        && !selection.skip.iter().any(matches);
    let by_mark = match selection.ignored {
        Ignored::Skip => !ignored,
        Ignored::Include => true,
        Ignored::Only => ignored,
    };
    let subject = binary.subject(id, name);
    let by_expression = selection.expressions.is_empty()
        || selection.expressions.iter().any(|expression| expression.matches(&subject));
    by_name && by_mark && by_expression
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
