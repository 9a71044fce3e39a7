//! `cargo leakcheck doctor`: what the tool needs, what of it is there, and what mends the rest. The facts are
//! looked up (`facts`, `self_test`), what they mean is pure (`requirement`, `advice`), and so is the text (`show`).

mod advice;
mod facts;
mod requirement;
mod self_test;
mod show;

use std::io::Write as _;

use anstream::{AutoStream, ColorChoice};

pub use self::self_test::is_planted;
use crate::error::{Error, Exit, Result};
use crate::options::{Color, DoctorOptions, Recorder};
use crate::sys::{self, Interrupts};
use crate::trace;

/// Examines, and prints what there is; how it ended.
///
/// # Errors
/// The system refuses what the examination itself needs.
pub fn run(options: &DoctorOptions) -> Result<Exit> {
    let system = |call: &str| {
        let call = call.to_owned();
        move |source| Error::System { call, source }
    };
    let interrupts = Interrupts::new(&[]).map_err(system("taking over the signals"))?;
    let mut facts = sys::awake(|| facts::Facts::look_up(options));
    // Whoever looks at processes of another namespace sees strangers.
    if facts.proc.is_ok() {
        trace::block_signals()?;
        let trial = self_test::trial(options, Recorder::Auto, &interrupts);
        let has_ebpf = trial.steered.as_ref().is_some_and(|steered| steered.without_ebpf.is_none());
        facts.trials.push(trial);
        if has_ebpf {
            facts.trials.push(self_test::trial(options, Recorder::Uprobe, &interrupts));
        }
    }
    if interrupts.requested() {
        return Err(Error::Interrupted);
    }
    let requirements = requirement::requirements(&facts);
    let text = if options.json { show::json(&requirements) } else { show::text(&requirements) };
    let choice = match options.color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::AlwaysAnsi,
        Color::Never => ColorChoice::Never,
    };
    let mut stdout = AutoStream::new(std::io::stdout(), choice);
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(system("writing the results"))?;
    Ok(requirement::exit(&requirements))
}
