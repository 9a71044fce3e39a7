//! The parts of the tool's JSON report that tests look at.

use serde::Deserialize;

use crate::fixture::TestKey;
use crate::marker::Kind;

/// The document.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// Name and version of the format.
    pub format: String,
    /// What recorded, or had the first choice.
    pub recorder: String,
    /// What steered the recorder.
    pub steering: Steering,
    /// How the run ended.
    pub exit_code: i32,
    /// Counts over the tests.
    pub summary: Summary,
    /// The tests that ran.
    pub tests: Vec<Test>,
    /// What cargo would have tested.
    pub targets: Vec<Target>,
    /// What was not checked, in whatever shape.
    pub not_checked: Vec<serde_json::Value>,
}

/// A target.
#[derive(Clone, Debug, Deserialize)]
pub struct Target {
    /// Its own name.
    pub name: String,
    /// `lib`, `test` and so on, or `doctest`.
    pub kind: String,
    /// `checked`, `one_unit` or `not_checked`.
    pub status: String,
    /// Tests that it lists.
    pub tests: Option<usize>,
    /// Those that did not run because of their mark.
    pub ignored: usize,
    /// Those whose memory was judged.
    pub checked: usize,
}

/// What steered the recorder.
#[derive(Clone, Debug, Deserialize)]
pub struct Steering {
    /// `ebpf` or `ptrace`.
    pub by: String,
    /// Why it was not eBPF.
    pub reason: Option<String>,
    /// What is not checked.
    pub checks_off: Vec<String>,
}

/// Counts over the tests.
#[derive(Clone, Debug, Deserialize)]
pub struct Summary {
    /// All of them.
    pub tests: usize,
    /// Those that failed, whatever their memory.
    pub failed: usize,
    /// Those without a verdict.
    pub incomplete: usize,
}

/// One test.
#[derive(Clone, Debug, Deserialize)]
pub struct Test {
    /// Its package; empty for a program of `exec`.
    #[serde(default)]
    pub package: String,
    /// The binary, as `package` or `package::target`.
    pub binary: String,
    /// The test's path.
    pub name: String,
    /// How it ended.
    pub outcome: String,
    /// How its process was made: `fork` or `exec`.
    #[serde(default)]
    pub spawn: Option<String>,
    /// Why it was not forked, where it was to be.
    #[serde(default)]
    pub spawn_reason: Option<String>,
    /// What its memory came to.
    pub verdict: String,
    /// Whether the verdict matters for the exit code.
    #[serde(default)]
    pub counts: bool,
    /// How the attempts at it came out, if there were several.
    #[serde(default)]
    pub attempts: Option<Attempts>,
    /// What recorded it; none where the binary cannot be traced.
    pub recorder: Option<String>,
    /// Why that was not the run's first choice.
    #[serde(default)]
    pub recorder_reason: Option<String>,
    /// Its allocators, by name.
    pub allocators: Vec<String>,
    /// Sums over the findings.
    pub definitely_lost: Measure,
    /// As above.
    pub indirectly_lost: Measure,
    /// As above.
    pub possibly_lost: Measure,
    /// As above.
    pub still_reachable: Measure,
    /// Double and unknown frees.
    pub bad_frees: u64,
    /// All findings.
    pub findings: Vec<Finding>,
    /// What does not count, and why.
    #[serde(default)]
    pub accepted: Vec<Accepted>,
    /// What is left in the kernel.
    #[serde(default)]
    pub kernel: Kernel,
    /// What its body has added each time it was run; none where that was once.
    #[serde(default)]
    pub growth: Option<Growth>,
    /// What is left in its temporary directory; none where it had none.
    #[serde(default)]
    pub temporary_files: Option<Files>,
    /// What it has allocated, where that is known.
    pub heap: Option<Heap>,
    /// What was alive at its peak; none where that was not asked for.
    #[serde(default)]
    pub at_peak: Option<AtPeak>,
    /// What was not seen, in whatever shape.
    pub losses: Vec<serde_json::Value>,
}

/// Something of a test that does not count.
#[derive(Clone, Debug, Deserialize)]
pub struct Accepted {
    /// `findings`, or another list.
    pub list: String,
    /// Its place in that.
    pub place: usize,
    /// What accepts it.
    pub by: serde_json::Value,
}

/// A scope of a test.
#[derive(Clone, Debug, Deserialize)]
pub struct Scope {
    /// Its name.
    pub name: String,
}

/// What a test's body has added each time it was run.
#[derive(Clone, Debug, Deserialize)]
pub struct Growth {
    /// What was alive after each iteration.
    pub bytes: Vec<u64>,
    /// The same in blocks.
    pub blocks: Vec<u64>,
    /// Open descriptors after each.
    pub descriptors: Vec<u64>,
    /// Where that was allocated which has grown.
    pub grown: Vec<Grown>,
    /// Why there are fewer iterations than were asked for.
    pub ended: Option<String>,
}

/// What one call stack has allocated.
#[derive(Clone, Debug, Deserialize)]
pub struct Grown {
    /// What was alive of it after each iteration.
    pub bytes: Vec<u64>,
    /// The user's own line.
    pub site: Option<Site>,
}

/// What was alive when a test had allocated most.
#[derive(Clone, Debug, Deserialize)]
pub struct AtPeak {
    /// By call stack.
    pub stacks: Vec<Allocated>,
    /// What others had.
    pub rest: Measure,
    /// Why it is not known.
    pub unknown: Option<String>,
}

/// What one call stack has allocated.
#[derive(Clone, Debug, Deserialize)]
pub struct Allocated {
    /// Bytes.
    pub bytes: u64,
    /// In how many blocks.
    pub blocks: u64,
    /// Its frames, innermost first.
    pub stack: Option<Vec<Frame>>,
}

impl AtPeak {
    /// All of it.
    pub fn total(&self) -> Measure {
        let all = self.stacks.iter().map(|it| [it.bytes, it.blocks]);
        let add = |sum: [u64; 2], it: [u64; 2]| [sum[0] + it[0], sum[1] + it[1]];
        let [bytes, blocks] = all.fold([self.rest.bytes, self.rest.blocks], add);
        Measure { bytes, blocks }
    }
}

/// What a test has allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Heap {
    /// The most bytes alive at a time, or more than that.
    pub peak_bytes: u64,
    /// Where that is not exact: no more than that.
    #[serde(default)]
    pub peak_bytes_at_least: Option<u64>,
    /// Bytes of all blocks.
    pub total_bytes: u64,
    /// All blocks.
    pub total_blocks: u64,
}

/// Counts over the attempts at a test.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Attempts {
    /// All of them.
    pub total: u64,
    /// Those that leak, where that counts.
    pub leaking: u64,
    /// Those that failed.
    pub failed: u64,
}

/// What a test has left in its temporary directory.
#[derive(Clone, Debug, Deserialize)]
pub struct Files {
    /// How many.
    pub count: u64,
    /// Their sizes together.
    pub bytes: u64,
    /// The first few.
    pub paths: Vec<String>,
}

/// What a test has left in the kernel.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Kernel {
    /// What the descriptors hold in the kernel, where that is known.
    #[serde(default)]
    pub bytes: Option<u64>,
    /// Descriptors left open.
    pub descriptors: Vec<Descriptor>,
    /// IPC objects left behind.
    #[serde(default)]
    pub ipc: Vec<IpcObject>,
    /// Processes left.
    pub children: Vec<Child>,
    /// Threads left running.
    pub threads: Vec<Thread>,
    /// Timers left.
    pub timers: Vec<Timer>,
    /// What is left mapped.
    pub mappings: Vec<Mapping>,
    /// What the kernel has allocated, where that was asked for.
    pub report: Option<KernelReport>,
}

/// What the kernel has allocated for a test.
#[derive(Clone, Debug, Deserialize)]
pub struct KernelReport {
    /// By system call and function.
    pub totals: Vec<KernelTotal>,
    /// What found no room.
    pub lost: u64,
}

/// What was allocated in one system call by one function of the kernel.
#[derive(Clone, Debug, Deserialize)]
pub struct KernelTotal {
    /// The system call.
    pub call: Option<String>,
    /// The function.
    pub function: String,
    /// Not seen to be freed.
    pub bytes: u64,
    /// As above.
    pub objects: u64,
    /// All.
    pub allocated_objects: u64,
}

/// An IPC object.
#[derive(Clone, Debug, Deserialize)]
pub struct IpcObject {
    /// What it is.
    pub kind: String,
    /// Its id, for those of System V.
    pub id: Option<i32>,
    /// Its name, for those of POSIX.
    pub name: Option<String>,
    /// What it holds.
    pub bytes: Option<u64>,
    /// The function that made it.
    pub call: Option<String>,
    /// The innermost frame of the user's own code, if there is one.
    pub site: Option<Site>,
    /// The call stack.
    pub stack: Option<Vec<Frame>>,
}

/// Mappings of one line.
#[derive(Clone, Debug, Deserialize)]
pub struct Mapping {
    /// What they are.
    pub kind: String,
    /// Which file.
    pub description: String,
    /// The function that made them.
    pub call: String,
    /// How many.
    pub count: u64,
    /// What is left of them.
    pub bytes: u64,
    /// They were made in a one-time initializer.
    pub once: bool,
    /// The innermost frame of the user's own code, if there is one.
    pub site: Option<Site>,
    /// The call stack.
    pub stack: Option<Vec<Frame>>,
}

/// A process.
#[derive(Clone, Debug, Deserialize)]
pub struct Child {
    /// Its id.
    pub id: i32,
    /// Its command line or name.
    pub command: String,
    /// `running` or `zombie`.
    pub state: String,
    /// The innermost frame of the user's own code, if there is one.
    pub site: Option<Site>,
    /// The call stack.
    pub stack: Option<Vec<Frame>>,
}

/// A thread.
#[derive(Clone, Debug, Deserialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// The innermost frame of the user's own code, if there is one.
    pub site: Option<Site>,
    /// Where it was started.
    pub stack: Option<Vec<Frame>>,
    /// Where it was.
    pub now: Option<Vec<Frame>>,
}

/// A timer.
#[derive(Clone, Debug, Deserialize)]
pub struct Timer {
    /// The name of its clock.
    pub clock: String,
    /// What it does.
    pub notify: String,
}

/// Descriptors of one file.
#[derive(Clone, Debug, Deserialize)]
pub struct Descriptor {
    /// Their numbers.
    pub numbers: Vec<u32>,
    /// What it is.
    pub kind: String,
    /// Which one.
    pub description: String,
    /// The system call that made it; none where that was not seen.
    pub call: Option<String>,
    /// The running thread that has made it.
    pub held_by: Option<String>,
    /// It was made in a one-time initializer.
    pub once: bool,
    /// What it holds in the kernel, where that is known.
    pub bytes: Option<u64>,
    /// The innermost frame of the user's own code, if there is one.
    pub site: Option<Site>,
    /// The call stack.
    pub stack: Option<Vec<Frame>>,
}

/// Bytes in blocks.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Measure {
    /// Requested bytes.
    pub bytes: u64,
    /// Blocks.
    pub blocks: u64,
}

/// One finding.
#[derive(Clone, Debug, Deserialize)]
pub struct Finding {
    /// Its kind.
    pub kind: Kind,
    /// Requested bytes; nothing for bad frees.
    #[serde(default)]
    pub bytes: u64,
    /// Blocks, or the number of bad frees.
    pub blocks: u64,
    /// The innermost frame of the user's own code, if there is one.
    pub site: Option<Site>,
    /// The call stack.
    pub stack: Option<Vec<Frame>>,
    /// Of a double free, that of the first free.
    #[serde(default)]
    pub freed_first: Option<Vec<Frame>>,
    /// Of a double free, that of the allocation.
    #[serde(default)]
    pub allocated: Option<Vec<Frame>>,
    /// The running thread that holds the blocks.
    #[serde(default)]
    pub held_by: Option<String>,
    /// Executable and arguments of the child of the test that has done it.
    #[serde(default)]
    pub process: Option<String>,
    /// The scope that they were allocated in.
    #[serde(default)]
    pub scope: Option<Scope>,
    /// Whether the test's code has them ignored: [`Test::accepted`] says so.
    #[serde(skip)]
    pub ignored: bool,
    /// The type that the blocks were allocated for.
    #[serde(default, rename = "type")]
    pub type_name: Option<String>,
    /// Whose code has allocated them.
    #[serde(default)]
    pub owner: Owner,
    /// Why the largest of them is still there.
    #[serde(default)]
    pub chain: Vec<Step>,
}

/// A step on the way to a block.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
pub enum Step {
    /// Where it starts.
    Root {
        /// `static`, `stack` and so on.
        by: String,
        /// The thread, other than the main one.
        thread: Option<String>,
        /// The variable.
        symbol: Option<String>,
    },
    /// A block.
    Block {
        /// Its size.
        bytes: u64,
        /// Where the word is that leads on.
        offset: Option<u64>,
        /// Where it was allocated.
        frame: Option<Frame>,
    },
    /// Blocks that are left out.
    More {
        /// How many.
        blocks: u64,
    },
}

/// A package or a library.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
pub struct Owner {
    /// `workspace`, `dependency`, `library` or `unknown`.
    pub kind: String,
    /// Its name.
    pub name: Option<String>,
    /// A package's version.
    pub version: Option<String>,
}

/// A place in a source file.
#[derive(Clone, Debug, Deserialize)]
pub struct Site {
    /// The file, absolute or from the workspace on.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<usize>,
}

/// One frame.
#[derive(Clone, Debug, Deserialize)]
pub struct Frame {
    /// Its function, where known.
    pub function: Option<String>,
    /// The module's file, where known.
    pub module: Option<String>,
    /// The source file, where known.
    #[serde(default)]
    pub file: Option<String>,
    /// The line, from 1.
    #[serde(default)]
    pub line: Option<usize>,
}

impl Report {
    /// Reads the document.
    pub fn parse(text: &str) -> Result<Self, String> {
        let report: Self =
            serde_json::from_str(text).map_err(|problem| format!("the JSON report: {problem}"))?;
        match report.format.as_str() {
            "leakcheck-report/1" => Ok(report),
            other => Err(format!("the JSON report has the format `{other}`")),
        }
    }
}

impl Test {
    /// Binary and name.
    pub fn key(&self) -> TestKey {
        (self.binary.clone(), self.name.clone())
    }

    /// Sums over the findings that disagree with the sums the report gives.
    pub fn wrong_sums(&self) -> Vec<String> {
        let sum = |kinds: &[Kind]| {
            let mut sum = Measure::default();
            for finding in self.findings.iter().filter(|finding| kinds.contains(&finding.kind)) {
                sum.bytes += finding.bytes;
                sum.blocks += finding.blocks;
            }
            sum
        };
        let mut wrong = Vec::new();
        for (name, kind, said) in [
            ("definitely_lost", Kind::DefinitelyLost, self.definitely_lost),
            ("indirectly_lost", Kind::IndirectlyLost, self.indirectly_lost),
            ("possibly_lost", Kind::PossiblyLost, self.possibly_lost),
            ("still_reachable", Kind::StillReachable, self.still_reachable),
        ] {
            if sum(&[kind]) != said {
                wrong.push(format!("{name} says {said:?}, the findings come to {:?}", sum(&[kind])));
            }
        }
        let frees = sum(&[Kind::DoubleFree, Kind::UnknownFree]).blocks;
        if frees != self.bad_frees {
            wrong.push(format!("bad_frees says {}, the findings come to {frees}", self.bad_frees));
        }
        wrong
    }
}
