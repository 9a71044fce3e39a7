//! A JSON document becomes a run again, so that it can be put together with others and be written in every
//! format. What is not known is an error: nothing is lost in silence.

mod kernel;
mod place;
mod target;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use camino::Utf8Path;
use serde::Deserialize;

use self::kernel::Kernel;
use self::place::{Site, place};
use self::target::Row as TargetRow;
use super::accepted::{Row, acceptance};
use crate::error::Exit;
use crate::model::{
    Attempts, Budget, CheckedTest, Compared, Finding, FindingKind, Frame, Hit, InCode, Judged, Left,
    LeftFiles, Measure, NotChecked, Origin, Outcome, Output, Owner, PlannedTest, RecordedBy, Scope, Spawned,
    Stdio, Steered, TestBinary, TestName, Totals, Verdict, Window, target_of_id,
};
use crate::options::Recorder;
use crate::report::Run;
use crate::snapshot::{Before, Loss};

/// Reads a document of this version; its relative paths are below `root`.
///
/// # Errors
/// What is wrong with it.
pub fn read(bytes: &[u8], root: &Utf8Path) -> Result<Run, String> {
    let document: Document = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if document.format != super::FORMAT {
        return Err(format!("its format is `{}` and not `{}`", document.format, super::FORMAT));
    }
    // Whole programs, and binaries without libtest.
    let is_unit = |test: &Test| {
        test.package.is_empty() || document.targets.iter().any(|row| row.is_unit() && row.is_of(&test.binary))
    };
    let sites: HashSet<String> = document.tests.iter().flat_map(Test::sites).cloned().collect();
    let tests = document.tests.into_iter().map(|read| {
        let is_unit = is_unit(&read);
        test(read, is_unit)
    });
    let mut tests: Vec<CheckedTest> = tests.collect::<Result<_, _>>()?;
    tests.iter_mut().for_each(|test| place(&mut test.memory, &sites, root));
    let targets = document.targets.into_iter().map(|row| row.target(&tests));
    Ok(Run {
        targets: targets.collect::<Result<_, _>>()?,
        tests,
        not_checked: document.not_checked,
        duration: Duration::from_nanos(document.duration_ns),
        recorder: match (document.recorder.as_str(), document.recorder_reason.starts_with("auto")) {
            (_, true) => Recorder::Auto,
            ("uprobe", false) => Recorder::Uprobe,
            (_, false) => Recorder::Ledger,
        },
        steered: Steered::told(document.steering.reason, &document.steering.checks_off),
        interrupted: document.interrupted,
        exit: Exit::of_code(document.exit_code)
            .ok_or_else(|| format!("its exit code {} is none of ours", document.exit_code))?,
    })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: String,
    recorder: String,
    recorder_reason: String,
    steering: Steering,
    exit_code: u8,
    interrupted: bool,
    duration_ns: u64,
    /// Is counted again.
    #[serde(rename = "summary")]
    _summary: serde_json::Value,
    #[serde(default)]
    targets: Vec<TargetRow>,
    tests: Vec<Test>,
    not_checked: Vec<NotChecked>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steering {
    #[serde(rename = "by")]
    _by: String,
    reason: Option<String>,
    checks_off: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Test {
    package: String,
    binary: String,
    name: String,
    outcome: String,
    exit_code: Option<i32>,
    signal: Option<i32>,
    verdict: String,
    reasons: Vec<String>,
    counts: bool,
    attempt: Option<u32>,
    attempts: Option<Attempts>,
    baseline: Option<Compared>,
    #[serde(default)]
    accepted: Vec<Row>,
    #[serde(default)]
    rules: Vec<Hit>,
    duration_ns: u64,
    recorder: Option<String>,
    recorder_reason: Option<String>,
    spawn: Option<String>,
    spawn_reason: Option<String>,
    allocators: Vec<String>,
    budget: Budget,
    definitely_lost: Measure,
    indirectly_lost: Measure,
    possibly_lost: Measure,
    still_reachable: Measure,
    bad_frees: u64,
    heap: Option<super::heap::Row>,
    findings: Vec<Found>,
    kernel: Kernel,
    growth: Option<super::growth::Row<'static, Frame, Site>>,
    at_peak: Option<super::at_peak::Row<'static, Frame, Site>>,
    temporary_files: Option<LeftFiles>,
    losses: Vec<Lost>,
    output: Written,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Found {
    kind: FindingKind,
    bytes: u64,
    blocks: u64,
    below: Measure,
    root: Option<Vec<Frame>>,
    held_by: Option<String>,
    process: Option<String>,
    #[serde(rename = "type")]
    type_name: Option<String>,
    #[serde(default)]
    owner: Owner,
    scope: Option<Scope>,
    #[serde(default)]
    chain: Vec<super::chain::Row<'static, Frame>>,
    site: Option<Site>,
    stack: Option<Vec<Frame>>,
    freed_first: Option<Vec<Frame>>,
    allocated: Option<Vec<Frame>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lost {
    kind: String,
    message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    stdout: String,
    stderr: String,
    dropped_bytes: u64,
}

impl Test {
    /// The files of all its sites.
    fn sites(&self) -> impl Iterator<Item = &String> {
        let findings = self.findings.iter().filter_map(|finding| finding.site.as_ref());
        let growth = self.growth.iter().flat_map(super::growth::Row::sites);
        let at_peak = self.at_peak.iter().flat_map(super::at_peak::Row::sites);
        findings.chain(self.kernel.sites()).chain(growth).chain(at_peak).map(|Site { file }| file)
    }
}

fn test(read: Test, is_unit: bool) -> Result<CheckedTest, String> {
    let unknown = |what: &str, word: &str| format!("the {what} `{word}` of {} is none of ours", read.name);
    let reason = || read.reasons.first().cloned().unwrap_or_default();
    let outcome = match (read.outcome.as_str(), read.exit_code, read.signal) {
        ("passed", ..) => Outcome::Passed,
        ("failed", Some(code), _) => Outcome::Failed { code },
        ("signalled", _, Some(signal)) => Outcome::Signalled { signal },
        ("timed_out", ..) => Outcome::TimedOut,
        ("not_started", ..) => Outcome::NotStarted { reason: reason() },
        (word, ..) => return Err(unknown("outcome", word)),
    };
    let losses: Vec<Loss> =
        read.losses.into_iter().map(|Lost { kind, message }| Loss::Told { kind, message }).collect();
    let verdict = match read.verdict.as_str() {
        "clean" => Verdict::Clean,
        "leaks" => Verdict::Leaks(read.reasons),
        "incomplete" => Verdict::Incomplete(losses.clone()),
        "not_checked" => Verdict::NotChecked(reason()),
        word => return Err(unknown("verdict", word)),
    };
    let recorded_by = match read.recorder.as_deref() {
        None => None,
        Some("ledger") => Some(RecordedBy::Ledger),
        Some("uprobe") => Some(RecordedBy::Uprobe { because: read.recorder_reason }),
        Some(word) => return Err(unknown("recorder", word)),
    };
    let spawned = match read.spawn.as_deref() {
        None => None,
        Some("fork") => Some(Spawned::Forked),
        Some("exec") => Some(Spawned::Started { because: read.spawn_reason }),
        Some(word) => return Err(unknown("spawn", word)),
    };
    let (kind, target) = target_of_id(&read.package, &read.binary);
    let binary = TestBinary {
        target: target.to_owned(),
        kind,
        path: read.binary.as_str().into(),
        directory: camino::Utf8PathBuf::new(),
        environment: Vec::new(),
        package: read.package,
    };
    let test = PlannedTest {
        binary: Arc::new(binary),
        name: if is_unit { TestName::Unit(read.name) } else { TestName::Listed(read.name) },
        arguments: Vec::new(),
        window: if is_unit { Window::Process } else { Window::TestBody },
        budget: read.budget,
        should_panic: false,
        stdio: Stdio::Captured,
        attempt: read.attempt.unwrap_or(1),
        judge: crate::options::JudgeOptions::default(),
        policy: None,
    };
    let memory = Judged {
        findings: read.findings.into_iter().map(finding).collect(),
        totals: Totals {
            definitely_lost: read.definitely_lost,
            indirectly_lost: read.indirectly_lost,
            possibly_lost: read.possibly_lost,
            still_reachable: read.still_reachable,
            bad_frees: read.bad_frees,
        },
        left: Left {
            growth: read.growth.map(Into::into),
            at_peak: read.at_peak.map(Into::into),
            ..read.kernel.into()
        },
        files: read.temporary_files,
        heap: read.heap.map(Into::into),
        losses,
        acceptance: acceptance(read.accepted, read.baseline, read.rules),
        verdict,
        attempts: read.attempts,
        counts: read.counts,
    };
    let Written { stdout, stderr, dropped_bytes } = read.output;
    let output = Output { stdout: stdout.into(), stderr: stderr.into(), dropped_bytes };
    let duration = Duration::from_nanos(read.duration_ns);
    let allocators = read.allocators;
    Ok(CheckedTest { test, outcome, duration, output, recorded_by, spawned, allocators, memory })
}

fn finding(read: Found) -> Finding<Vec<Frame>> {
    Finding {
        kind: read.kind,
        measure: Measure { bytes: read.bytes, blocks: read.blocks },
        stack: read.stack,
        below: read.below,
        root: read.root,
        held_by: read.held_by,
        before: Before { allocated: read.allocated, freed: read.freed_first },
        process: read.process.map(Into::into),
        origin: Origin {
            type_name: read.type_name,
            owner: read.owner,
            chain: read.chain.into_iter().map(Into::into).collect(),
        },
        in_code: InCode { ignored: None, scope: read.scope.map(Arc::new) },
    }
}
