//! A run that ends before its first test: reports say it as well, and why.

use std::time::Duration;

use super::view;
use crate::error::Error;
use crate::model::{NotChecked, OwnCode, Steered};
use crate::options::Options;
use crate::report::{Files, Run, Stream};

/// Writes what is to be written of it. The error, which counts whatever comes of that.
pub fn untested(error: Error, files: Files, options: &Options) -> Error {
    let run = Run {
        tests: Vec::new(),
        targets: Vec::new(),
        not_checked: vec![NotChecked { what: "all tests".to_owned(), reason: error.to_string() }],
        duration: Duration::ZERO,
        recorder: options.trace.recorder,
        steered: Steered { without_ebpf: without_ebpf(&error), ..Steered::default() },
        interrupted: matches!(error, Error::Interrupted),
        exit: error.exit(),
    };
    let view = view(OwnCode::default(), options);
    let _ = Stream::new(options.report.stream, view.clone()).run_finished(&run);
    let _ = files.write(&run, &view);
    error
}

/// Why there are no eBPF programs, if that is what has ended the run.
fn without_ebpf(error: &Error) -> Option<String> {
    matches!(error, Error::Privileges { .. } | Error::Kernel { .. }).then(|| error.to_string())
}
