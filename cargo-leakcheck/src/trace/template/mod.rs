//! A test binary that is started once, and kept where its loader is done and nothing of the program has run. From there it
//! forks for each test: what starting a program costs is `execve`, the loader and the libraries' constructors.

mod calls;
mod obstacles;
mod source;
mod stack;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use camino::Utf8PathBuf;

use super::output::Capture;
use super::process::Process;
use super::running::Launch;
use crate::sys::Held;

pub use obstacles::{Open, descriptors};
pub use source::{Preparing, Source};
pub use stack::Changed;

/// How long a template may take for a step: to load, or to fork.
const PATIENCE: Duration = Duration::from_secs(20);

/// A template.
pub struct Template {
    /// Its binary.
    pub binary: Utf8PathBuf,
    /// The process, as far as one of a test is like it.
    pub process: Process,
    /// What it is doing.
    pub step: Step,
    /// Since when.
    pub since: Instant,
    /// Tests that are to be forked from it.
    pub waiting: VecDeque<Launch>,
    /// How many have been.
    pub forks: usize,
    /// Lets it start.
    pub held: Held,
    /// The descriptors that it has had from its start on.
    pub inherited: Open,
    /// Standard output and error.
    streams: [Capture; 2],
}

/// What a template is doing.
pub enum Step {
    /// Its loader is at work.
    Loading,
    /// It prepares itself.
    Preparing(Box<Preparing>),
    /// It is kept.
    Ready(Arc<Source>),
    /// It forks for a test.
    Forking {
        /// From there.
        source: Arc<Source>,
        /// The test.
        launch: Box<Launch>,
        /// What is to be written into the memory of what it makes.
        changed: Box<Changed>,
    },
    /// Nothing any more.
    Ended,
}

impl Template {
    /// One that is held, and a test that waits for it.
    pub fn new(
        binary: Utf8PathBuf,
        process: Process,
        held: Held,
        streams: [Capture; 2],
        first: Launch,
    ) -> Self {
        let (step, since, waiting) = (Step::Loading, Instant::now(), VecDeque::from([first]));
        Self { binary, process, step, since, waiting, forks: 0, held, inherited: Open::new(), streams }
    }

    /// When it will have taken too long; none where it waits for us.
    pub fn deadline(&self) -> Option<Instant> {
        (!matches!(self.step, Step::Ready(_))).then(|| self.since + PATIENCE)
    }

    /// Goes on to the next step.
    pub fn go_on(&mut self, step: Step) {
        self.step = step;
        self.since = Instant::now();
    }

    /// What it was doing, which is over.
    pub fn take_step(&mut self) -> Step {
        std::mem::replace(&mut self.step, Step::Ended)
    }

    /// Whether its libraries' constructors have written anything.
    pub fn has_written(&mut self) -> bool {
        self.streams.iter_mut().any(|stream| {
            stream.read();
            !stream.is_empty()
        })
    }

    /// Tests that it has been given and that have no process yet.
    pub fn pending(&self) -> usize {
        self.waiting.len() + usize::from(matches!(self.step, Step::Forking { .. }))
    }
}
