//! The program `cargo-leakcheck`, which cargo finds as `cargo leakcheck`.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use cargo_leakcheck::build::capture;
use cargo_leakcheck::cli::{self, Request, Surroundings};
use cargo_leakcheck::error::{Error, Exit, Result};
use cargo_leakcheck::options::{Color, Raised};
use cargo_leakcheck::progress::Progress;
use cargo_leakcheck::{Begun, doctor, raise, setup};

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    if let Some(done) = raise::helper(&arguments).or_else(|| setup::as_root(&arguments)) {
        return done.map_or_else(
            |reason| {
                anstream::eprintln!("cargo-leakcheck: {reason}");
                Exit::Tool.into()
            },
            |()| ExitCode::SUCCESS,
        );
    }
    match capture::record(std::env::args_os()) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("cargo-leakcheck cannot write down how cargo starts a test: {error}");
            return ExitCode::FAILURE;
        }
    }
    if doctor::is_planted(std::env::args_os()) {
        return ExitCode::SUCCESS;
    }
    match work(arguments) {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The exit code says it too.
            Progress::new(Color::Auto).print(&format!("error: {error}\n"));
            error.exit().into()
        }
    }
}

fn work(mut arguments: Vec<OsString>) -> Result<Exit> {
    let was_raised = raise::was_raised(&mut arguments)
        .map_err(|source| Error::System { call: "keeping capabilities from children".into(), source })?;
    let surroundings = Surroundings::current()?;
    let request = cli::parse(arguments.clone(), surroundings.clone())?;
    let raised = |sudo: bool| {
        let Surroundings { environment, executable, .. } = surroundings;
        match was_raised {
            Some(raised) => raised,
            None if sudo && raise::is_wanted() => {
                raise::raise(&raise::Launch { executable, arguments, environment })
            }
            None => Raised::No,
        }
    };
    match request {
        Request::Print(text) => {
            // Nobody may be listening any more, as in `--help | head`.
            let _ = write!(anstream::stdout(), "{text}");
            Ok(Exit::Clean)
        }
        Request::Examine(mut options) => {
            options.trace.raised = raised(options.sudo);
            doctor::run(&options)
        }
        Request::Setup(options) => setup::run(&options),
        Request::Import(files) => cargo_leakcheck::import(&files),
        Request::Run(options) => {
            let mut begun = Begun::new(*options)?;
            begun.options.trace.raised = raised(begun.options.sudo);
            cargo_leakcheck::run(begun)
        }
    }
}
