//! The program `cargo-leakcheck`, which cargo finds as `cargo leakcheck`.

use std::io::Write as _;
use std::process::ExitCode;

use cargo_leakcheck::build::capture;
use cargo_leakcheck::cli::{self, Request, Surroundings};
use cargo_leakcheck::error::Exit;

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
            // Nobody may be listening any more, as in `--help | head`.
            let _ = write!(anstream::stdout(), "{text}");
            Ok(Exit::Clean)
        }
        Ok(Request::Run(options)) => cargo_leakcheck::run(&options),
        Err(error) => Err(error),
    };
    match done {
        Ok(exit) => exit.into(),
        Err(error) => {
            // The exit code says it too.
            let _ = writeln!(anstream::stderr(), "error: {error}");
            error.exit().into()
        }
    }
}
