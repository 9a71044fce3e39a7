//! Templates, which tests are forked from, while they live.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Instant;

use camino::Utf8PathBuf;
use nix::sys::ptrace::{Options as Trace, getregs};
use nix::unistd::Pid;

use super::start::traced;
use super::{Follower, end, end_process, proceed};
use crate::error::{Error, Result};
use crate::model::{PlannedTest, Stdio, TestBinary, Window};
use crate::options::{Spawn, TraceOptions};
use crate::sys;
use crate::trace::Event;
use crate::trace::running::Launch;
use crate::trace::template::{Step, Template};

/// So many tests of a binary are worth a template.
const WORTH: usize = 3;
/// So often a template that has worked is made once more after it has ended.
const DEATHS: usize = 2;

/// All of them.
#[derive(Default)]
pub(super) struct Templates {
    pub(super) all: HashMap<Pid, Template>,
    binaries: HashMap<Utf8PathBuf, Binary>,
    /// Tests that do not fit into what their binaries' templates have.
    unfit: HashSet<usize>,
    /// Those that are being ended, and what they have forked and could not be begun.
    pub(super) ending: HashSet<Pid>,
}

/// What is known of a binary.
#[derive(Default)]
struct Binary {
    /// Its tests that have not been started.
    left: usize,
    /// Tests may be forked.
    forks: bool,
    /// Why not, where they were to be.
    because: Option<String>,
    /// Bytes of the longest last argument.
    longest: usize,
    template: Option<Pid>,
    /// How many templates have ended.
    deaths: usize,
}

impl Templates {
    /// Looks at the tests of a run.
    pub(super) fn plan(&mut self, tests: &[PlannedTest], options: &TraceOptions) {
        if options.spawn == Spawn::Exec {
            return;
        }
        for test in tests {
            let binary = self.binaries.entry(test.binary.path.clone()).or_default();
            binary.left += 1;
            let length = test.arguments.last().map_or(0, |argument| argument.len());
            binary.longest = binary.longest.max(length);
        }
        for binary in self.binaries.values_mut() {
            binary.forks = options.spawn == Spawn::Fork || binary.left >= WORTH;
        }
    }

    /// Nothing is to be forked of a binary, for a reason.
    fn never(&mut self, path: &Utf8PathBuf, because: &str) {
        if let Some(binary) = self.binaries.get_mut(path) {
            binary.forks = false;
            binary.because = Some(because.to_owned());
        }
    }

    /// Why nothing is forked of a binary.
    pub(super) fn refusal(&self, path: &Utf8PathBuf) -> Option<String> {
        self.binaries.get(path)?.because.clone()
    }

    /// How many tests have no process yet that is forked.
    pub(super) fn pending(&self) -> usize {
        self.all.values().map(Template::pending).sum()
    }

    /// Nothing more is to be forked.
    pub(super) fn forget_waiting(&mut self) {
        self.all.values_mut().for_each(|template| template.waiting.clear());
    }

    /// When one of them will have taken too long.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.all.values().filter_map(Template::deadline).min()
    }

    /// Whether there may be a child whose making has not been reported.
    pub(super) fn are_forking(&self) -> bool {
        self.all.values().any(|template| matches!(template.step, Step::Forking { .. }))
    }

    /// Whether the process is one, or is being ended.
    pub(super) fn contains(&self, pid: Pid) -> bool {
        self.all.contains_key(&pid) || self.ending.contains(&pid)
    }
}

impl Follower<'_> {
    /// Has a test forked; what is to be started instead.
    ///
    /// # Errors
    /// The system refuses a process.
    pub(super) fn offer(&mut self, launch: Launch) -> Result<Option<Launch>> {
        let Some(binary) = self.templates.binaries.get_mut(&launch.test.binary.path) else {
            return Ok(Some(launch));
        };
        binary.left = binary.left.saturating_sub(1);
        let is_test = launch.test.window == Window::TestBody && launch.test.stdio == Stdio::Captured;
        let known = binary.template;
        let is_worth_it = known.is_some() || launch.is_first;
        if !binary.forks || !is_test || !is_worth_it || self.templates.unfit.contains(&launch.number) {
            return Ok(Some(launch));
        }
        if let Some(template) = known.and_then(|pid| self.templates.all.get_mut(&pid)) {
            let pid = template.process.pid;
            template.waiting.push_back(launch);
            self.serve(pid);
            return Ok(None);
        }
        if let Some(reason) = self.unfit(&launch.test.binary) {
            match self.options.spawn {
                Spawn::Fork => self.refuse(&launch.test.binary.path.clone(), reason),
                // It is not asked for, and not worth a word.
                Spawn::Auto | Spawn::Exec => self.templates.never(&launch.test.binary.path, &reason),
            }
            return Ok(Some(launch));
        }
        self.start_template(launch).map(|()| None)
    }

    /// Why no template of a binary can be made.
    fn unfit(&self, binary: &TestBinary) -> Option<String> {
        let coverage = self.prepared.coverage(binary);
        match coverage {
            Err(_) => Some("it cannot be traced".into()),
            Ok(libraries) if libraries.is_static() => Some("it has no loader".into()),
            Ok(libraries) if libraries.unforkable.is_some() => libraries.unforkable.map(Into::into),
            Ok(_) if self.prepared.ledger(coverage).is_none() => {
                Some("its recorder is not the ledger".into())
            }
            Ok(_) if self.prepared.private_ipc() && sys::user() != 0 => {
                Some("only root can give what is forked an IPC namespace (--no-ipc does without)".into())
            }
            Ok(_) => None,
        }
    }

    /// Nothing is forked of a binary from now on.
    fn refuse(&mut self, path: &Utf8PathBuf, because: String) {
        self.templates.never(path, &because);
        self.tell(Event::NotForked { binary: path.clone(), because });
    }

    /// Starts a template for a test and others like it.
    fn start_template(&mut self, launch: Launch) -> Result<()> {
        let path = launch.test.binary.path.clone();
        let longest = self.templates.binaries[&path].longest;
        let options = traced(launch.test.trace(self.options));
        let template = launch.template(longest, self.prepared, self.steering, (&self.spawner, &self.null))?;
        let pid = template.process.pid;
        let options = options | Trace::PTRACE_O_TRACEFORK | Trace::PTRACE_O_TRACEVFORK;
        let release = |()| {
            let failed = |source| Error::System { call: format!("starting process {pid}"), source };
            template.held.release().map_err(failed)
        };
        sys::seize(pid, options).map_err(|errno| Error::Ptrace { reason: errno.into() }).and_then(release)?;
        self.templates.all.insert(pid, template);
        if let Some(binary) = self.templates.binaries.get_mut(&path) {
            binary.template = Some(pid);
        }
        Ok(())
    }

    /// Has a template fork for the next test, if it is ready and there is one.
    pub(super) fn serve(&mut self, pid: Pid) {
        let Some(template) = self.templates.all.get_mut(&pid) else { return };
        let Step::Ready(source) = &template.step else { return };
        let Some(launch) = template.waiting.pop_front() else {
            let binary = self.templates.binaries.get(&template.binary);
            if binary.is_none_or(|binary| binary.left == 0) {
                self.retire(pid);
            }
            return;
        };
        let Some(changed) = source.change(&launch.arguments, &launch.environment) else {
            self.templates.unfit.insert(launch.number);
            self.queue.push_front(launch.number);
            return self.serve(pid);
        };
        match source.fork(pid, &launch.stdio, launch.private_ipc) {
            Ok(()) => {
                let Step::Ready(source) = template.take_step() else { return };
                template.go_on(Step::Forking {
                    source,
                    launch: Box::new(launch),
                    changed: Box::new(changed),
                });
                proceed(pid, 0);
            }
            Err(reason) => {
                template.waiting.push_front(launch);
                self.give_up(pid, reason);
            }
        }
    }

    /// Nothing is forked of a template's binary any more, for a reason.
    pub(super) fn give_up(&mut self, pid: Pid, reason: String) {
        if let Some(template) = self.templates.all.get(&pid) {
            let path = template.binary.clone();
            self.refuse(&path, reason);
        }
        self.retire(pid);
    }

    /// Ends a template; tests that wait for it are to be run by other means.
    pub(super) fn retire(&mut self, pid: Pid) {
        if self.templates.all.contains_key(&pid) {
            end(pid);
            self.templates.ending.insert(pid);
            self.put_back(pid);
            // It may be stopped.
            proceed(pid, 0);
        }
    }

    /// Forgets a template; its tests are for the queue again.
    fn put_back(&mut self, pid: Pid) {
        let Some(mut template) = self.templates.all.remove(&pid) else { return };
        let binary = self.templates.binaries.get_mut(&template.binary).expect("it is planned");
        binary.template = None;
        let mut waiting: VecDeque<Launch> = std::mem::take(&mut template.waiting);
        if let Step::Forking { source, launch, .. } = template.take_step() {
            waiting.push_front(*launch);
            // What it has made, and nobody will tell of.
            let is_its = |pid: &Pid| getregs(*pid).is_ok_and(|registers| source.is_forking(&registers));
            for child in self.early.extract_if(.., |pid| is_its(pid)) {
                end_process(child);
                self.templates.ending.insert(child);
            }
        }
        for launch in waiting.into_iter().rev() {
            binary.left += 1;
            self.queue.push_front(launch.number);
        }
    }

    /// A template, or what it has made and was not begun, has ended.
    pub(super) fn template_ended(&mut self, pid: Pid) {
        self.steering.remove_thread(pid);
        self.steering.remove_process(pid);
        self.has_died(pid);
        self.templates.ending.remove(&pid);
    }

    /// A template, or what it has forked, was ended by somebody else: another one is made, if that does not happen again and
    /// again.
    pub(super) fn has_died(&mut self, pid: Pid) {
        let Some(template) = self.templates.all.get(&pid) else { return };
        let (path, has_worked) = (template.binary.clone(), template.forks > 0);
        let failure = template.held.failure();
        self.retire(pid);
        let binary = self.templates.binaries.get_mut(&path).expect("it is planned");
        binary.deaths += 1;
        let reason = match failure {
            Some(error) => format!("it could not be started: {error}"),
            None if !has_worked => "it has ended before anything was forked from it".into(),
            None if binary.deaths > DEATHS => "it was ended again and again".into(),
            None => return,
        };
        self.refuse(&path, reason);
    }

    /// Ends those that have taken too long.
    pub(super) fn give_up_templates(&mut self, now: Instant) {
        let late = |template: &Template| template.deadline().is_some_and(|deadline| deadline <= now);
        let late: Vec<Pid> =
            self.templates.all.iter().filter(|(_, it)| late(it)).map(|(pid, _)| *pid).collect();
        for pid in late {
            self.give_up(pid, "it does not come to an end before main".into());
        }
    }

    /// Ends all of them, after the last test; `end_others` waits for that.
    pub(super) fn end_templates(&mut self) {
        for pid in self.templates.all.keys().copied().collect::<Vec<_>>() {
            self.retire(pid);
        }
    }
}
