//! Prints what there is, and runs nothing.

use std::io::{IsTerminal as _, Write as _};

use super::job::Job;
use super::view;
use crate::config::{self, Config};
use crate::error::{Error, Exit, Result};
use crate::model::NotChecked;
use crate::options::{Color, Options};
use crate::plan;
use crate::plan::filterset::Filters;
use crate::report::Stream;
use crate::sys::Patient;

/// Prints the tests, with what else is to be known of them.
pub fn list(job: &Job, options: &Options) -> Result<Exit> {
    if options.report.stream {
        let stream = Stream::new(true, view(job.own.clone(), options));
        job.tests.iter().for_each(|test| stream.test_listed(test));
        stream.end()?;
    } else {
        print("the list", |out| plan::print(&job.tests, out))?;
    }
    for note in &job.notes {
        anstream::eprintln!("note: {note}");
    }
    for NotChecked { what, reason } in &job.not_checked {
        anstream::eprintln!("note: {what} not checked: {reason}");
    }
    Ok(if job.tests.is_empty() { Exit::NothingRan } else { Exit::Clean })
}

/// Prints what applies to the tests, whose budgets are those of their attributes.
pub fn tests(job: &Job, config: &Config, filters: &Filters) -> Result<Exit> {
    let explain = |test| config::explain_test(config, test, &filters.overrides_for(test));
    let texts: Vec<_> = job.tests.iter().map(explain).collect();
    print("the configuration", |out| out.write_all(texts.join("\n").as_bytes()))?;
    Ok(if job.tests.is_empty() { Exit::NothingRan } else { Exit::Clean })
}

/// Prints what is configured.
pub fn config(config: &Config) -> Result<Exit> {
    let text = config::explain_run(config);
    print("the configuration", |out| out.write_all(text.as_bytes())).map(|()| Exit::Clean)
}

/// Prints findings, in colours where they are wanted.
pub fn explained(text: &str, color: Color) -> Result<Exit> {
    let is_colored = match color {
        Color::Auto => std::io::stdout().is_terminal(),
        Color::Always => true,
        Color::Never => false,
    };
    let plain = || anstream::adapter::strip_str(text).to_string();
    let text = if is_colored { text.to_owned() } else { plain() };
    print("the findings", |out| out.write_all(text.as_bytes())).map(|()| Exit::Clean)
}

/// Writes to standard output.
fn print(what: &str, write: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>) -> Result<()> {
    let mut text = Vec::new();
    write(&mut text)
        .and_then(|()| Patient(std::io::stdout()).write_all(&text))
        .map_err(|source| Error::System { call: format!("writing {what}"), source })
}
