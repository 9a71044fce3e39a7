//! The program `cargo-leakcheck`, which cargo finds as `cargo leakcheck`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::ExitCode;

use cargo_leakcheck::build::{self, capture};
use cargo_leakcheck::cli::{self, Request, Surroundings};
use cargo_leakcheck::error::{Error, Exit, Result};
use cargo_leakcheck::options::{Action, Options};
use cargo_leakcheck::{discover, plan};

fn main() -> ExitCode {
    match capture::record(std::env::args_os()) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("cargo-leakcheck cannot write down how cargo starts a test: {error}");
            return ExitCode::FAILURE;
        }
    }
    let request =
        Surroundings::current().and_then(|surroundings| cli::parse(std::env::args_os(), surroundings));
    let done = match request {
        Ok(Request::Print(text)) => {
            anstream::print!("{text}");
            Ok(Exit::Clean)
        }
        Ok(Request::Run(options)) => run(&options),
        Err(error) => Err(error),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            anstream::eprintln!("error: {error}");
            error.exit().into()
        }
    }
}

fn run(options: &Options) -> Result<Exit> {
    let Action::List(build_options, selection) = &options.action else {
        return Err(Error::Usage("only `list` is there yet".to_owned()));
    };
    let built = build::build(build_options)?;
    let discovered = discover::discover(built.binaries, options.trace.jobs);
    let plan = plan::plan(discovered, selection, |_| Ok(BTreeMap::new()))?;
    let mut stdout = std::io::stdout().lock();
    plan::print(&plan.tests, &mut stdout)
        .and_then(|()| stdout.flush())
        .map_err(|source| Error::System { call: "writing the list".to_owned(), source })?;
    for note in built.notes.iter().chain(&plan.notes) {
        anstream::eprintln!("note: {note}");
    }
    for left_out in &built.not_checked {
        anstream::eprintln!("note: {} not checked: {}", left_out.what, left_out.reason);
    }
    Ok(Exit::Clean)
}
