//! What tests allocate, beyond what the fixture `peaks` shows.

use std::collections::BTreeMap;

use leakcheck_tests::report::{Heap, Report};
use leakcheck_tests::tool::Workshop;

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::nextest::nextest;
use crate::package::Package;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("heap::of_a_program", of_a_program),
    ("heap::of_two_threads", of_two_threads),
    ("heap::of_children", of_children),
    ("heap::under_nextest", under_nextest),
    ("heap::said_everywhere", said_everywhere),
    ("heap::symbols_of_backtraces", symbols_of_backtraces),
];

const RECORDERS: [&str; 2] = ["ledger", "uprobe"];

/// A MiB that is freed, and then three times 100 KiB.
const ONE_THEN_THREE: Heap = Heap {
    peak_bytes: 1 << 20,
    peak_bytes_at_least: None,
    total_bytes: (1 << 20) + 3 * 102_400,
    total_blocks: 4,
};

/// Limits are inclusive. A program's window is all of it, from where it begins.
fn of_a_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("peak", &["-pthread"])?;
    for recorder in RECORDERS {
        for (limit, code, words) in [
            (&[][..], 0, "PASS"),
            (&["--peak-bytes", "1048576", "--total-blocks", "4"], 0, "(peak 1048576 B, 4 blocks allocated)"),
            (&["--peak-bytes", "1048575"], 2, "1048576 B allocated at the peak (budget 1048575 B)"),
            (&["--total-blocks", "3"], 2, "4 blocks allocated in all (budget 3 blocks)"),
        ] {
            let options = [&["--recorder", recorder], limit].concat();
            let (run, test) = exec_with(workshop, &options, &[program.as_str()])?;
            run.expect(code, &[words])?;
            if test.heap != Some(ONE_THEN_THREE) {
                return Err(format!("{:?}\n{}", test.heap, run.describe()));
            }
        }
    }
    Ok(())
}

/// Of threads that allocate at once the ledger knows no more than it says, but exactly where there is a limit; the kernel side
/// knows it in any case.
fn of_two_threads(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("peak", &["-pthread"])?;
    let heap = |options: &[&str]| -> Result<Heap, String> {
        let (run, test) = exec_with(workshop, options, &[program.as_str(), "two"])?;
        run.expect(0, &[])?;
        test.heap.ok_or_else(|| run.describe())
    };
    let exact = heap(&["--recorder", "ledger", "--peak-bytes", "1000000000"])?;
    // The C library has something for each thread.
    let is_right = (200_000..202_000).contains(&exact.peak_bytes) && exact.peak_bytes_at_least.is_none();
    let known = heap(&["--recorder", "ledger"])?;
    let least = known.peak_bytes_at_least.unwrap_or(u64::MAX);
    // Each thread keeps at most 64 KiB for itself.
    let holds = least <= exact.peak_bytes
        && exact.peak_bytes <= known.peak_bytes
        && known.peak_bytes - least <= 6 * 65_536;
    let by_kernel = heap(&["--recorder", "uprobe"])?;
    let same = (known.total_bytes, known.total_blocks) == (exact.total_bytes, exact.total_blocks);
    // In the C library's table of each thread the ledger has a place of 16 bytes.
    let agrees = by_kernel.peak_bytes_at_least.is_none()
        && by_kernel.peak_bytes + 2 * 16 == exact.peak_bytes
        && by_kernel.total_blocks == exact.total_blocks;
    match is_right && holds && same && agrees {
        true => Ok(()),
        false => Err(format!("{exact:?}\n{known:?}\n{by_kernel:?}")),
    }
}

/// Whether the peaks of a test and of its child were at the same time, nobody knows.
fn of_children(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "children")?;
    let of = |options: &[&str]| -> Result<_, String> {
        let options = [&["--follow-children", "child_leaks"], options].concat();
        let (run, report) = desk.run(workshop, &options, &[])?;
        let test = report.tests.into_iter().next().ok_or("no test has run")?;
        Ok((run, test))
    };
    let (run, test) = of(&[])?;
    let heap = test.heap.ok_or("nothing is known of its heap")?;
    let least = heap.peak_bytes_at_least.ok_or_else(|| format!("{heap:?}\n{}", run.describe()))?;
    let (run, test) = of(&["--peak-bytes", &least.to_string()])?;
    run.expect(10, &["may have been at different times"])?;
    if test.verdict != "incomplete" {
        return Err(format!("{test:?}\n{}", run.describe()));
    }
    let (run, test) = of(&["--peak-bytes", &(least - 1).to_string()])?;
    run.expect(2, &["allocated at the peak"])?;
    match test.verdict.as_str() {
        "leaks" => Ok(()),
        _ => Err(format!("{test:?}\n{}", run.describe())),
    }
}

/// Those that are exact.
fn heaps(report: &Report) -> BTreeMap<&str, Heap> {
    let heaps = report.tests.iter().filter_map(|test| Some((test.name.as_str(), test.heap?)));
    heaps.filter(|(name, heap)| !name.contains("thread") && heap.peak_bytes_at_least.is_none()).collect()
}

/// What nextest runs has the same numbers, and the same verdicts.
fn under_nextest(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "peaks")?;
    let (own, of_ours) = desk.run(workshop, &[], &[])?;
    let (run, of_nextest) = nextest(workshop, &desk, &["run", "--no-fail-fast", "--package", "peaks"])?;
    let verdicts = |report: &Report| -> BTreeMap<String, String> {
        report.tests.iter().map(|test| (test.name.clone(), test.verdict.clone())).collect()
    };
    let same = verdicts(&of_ours) == verdicts(&of_nextest);
    let (ours, theirs) = (heaps(&of_ours), heaps(&of_nextest));
    match same && ours == theirs && ours.len() > 8 {
        true => run.expect(2, &[]),
        false => Err(format!("{ours:?}\n{theirs:?}\n{}\n{}", own.describe(), run.describe())),
    }
}

/// Terminal and JUnit have the same words; the page has the numbers.
fn said_everywhere(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "peaks")?;
    let page = desk.file("page.html");
    let options = ["--html", page.as_str(), "over_the_peak", "one_after"];
    let (run, _) = desk.run(workshop, &options, &[])?;
    let over = "1048576 B allocated at the peak (budget 1048575 B)";
    let line = "heap: peak 1048576 B, 4 blocks of 1355776 B allocated in all";
    run.expect(2, &[over, line])?;
    let read = |path| std::fs::read_to_string(path).map_err(|problem| problem.to_string());
    let junit = read(desk.file("junit.xml"))?;
    // Of a clean test as well.
    if junit.matches(line).count() != 2 || !junit.contains(over) {
        return Err(junit);
    }
    let data = r#""heap":{"peak_bytes":1048576,"total_blocks":4,"total_bytes":1355776}"#;
    match read(page)?.matches(data).count() {
        2 => Ok(()),
        count => Err(format!("{count} times {data}")),
    }
}

/// What std reads to give a backtrace names is std's: it is no finding, and what it has read keeps nothing alive. The backtrace,
/// and the names in it, are the test's.
fn symbols_of_backtraces(workshop: &Workshop) -> Outcome {
    const LIBRARY: &str = "\
use std::hint::black_box;
use std::mem::forget;

#[test]
fn keeps_a_backtrace() {
    let backtrace = std::backtrace::Backtrace::force_capture();
    assert!(backtrace.to_string().contains(\"keeps_a_backtrace\"));
    forget(black_box(backtrace));
}

#[test]
fn panics_and_leaks() {
    let leaks = || {
        forget(black_box(vec![1_u8; 4567]));
        panic!(\"on purpose\");
    };
    std::panic::catch_unwind(leaks).unwrap_err();
}

#[test]
#[should_panic]
fn panics() {
    panic!(\"on purpose\");
}
";
    let package = Package::new(workshop, LIBRARY)?;
    for recorder in RECORDERS {
        let options = ["--release", "--recorder", recorder, "--count-should-panic", "--json", "report.json"];
        let run = package.run_with(workshop, &options, &[("RUST_BACKTRACE", "1")])?;
        run.expect(2, &["3 tests run: 1 clean, 2 leaking"])?;
        let report = Report::parse(&package.read("report.json")?)?;
        let of =
            |name: &str| report.tests.iter().find(|test| test.name == name).ok_or_else(|| run.describe());
        let (kept, panics) = (of("keeps_a_backtrace")?, of("panics_and_leaks")?);
        // One block of frames; of nearly each frame a name and a file, of which there are more than this.
        let is_kept = kept.definitely_lost.blocks == 1 && kept.indirectly_lost.blocks >= 10;
        let is_lost = (panics.definitely_lost.bytes, panics.definitely_lost.blocks) == (4567, 1)
            && panics.indirectly_lost.blocks == 0;
        if !is_kept || !is_lost || report.tests.iter().any(|test| test.still_reachable.blocks > 0) {
            return Err(run.describe());
        }
    }
    Ok(())
}
