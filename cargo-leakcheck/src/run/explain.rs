//! `explain`: what a saved report knows of some tests' findings.

use camino::Utf8PathBuf;

use super::{again, show, view};
use crate::error::{Error, Exit, Result};
use crate::options::Options;
use crate::report::{Terminal, View};

/// Prints the findings of the tests that have this name, or else of those whose name has it in it.
///
/// # Errors
/// The report cannot be read, or has no such test.
pub fn explain(path: &Utf8PathBuf, name: &str, options: &Options) -> Result<Exit> {
    let own = again::here()?;
    let mut run = again::read(std::slice::from_ref(path), &own.root)?;
    let is_named = run.tests.iter().any(|test| test.test.name.as_str() == name);
    run.tests.retain(|test| {
        let own = test.test.name.as_str();
        if is_named { own == name } else { own.contains(name) }
    });
    if run.tests.is_empty() {
        return Err(Error::Usage(format!("{path} has no test whose name has `{name}` in it")));
    }
    let view = View { explain: true, ..view(own, options) };
    show::explained(&Terminal::new(view).explained(&run), options.report.color)
}
