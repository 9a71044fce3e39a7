//! Descriptors that are left open, beyond what the fixture `descriptors` shows.

use leakcheck_tests::report::Test;
use leakcheck_tests::tool::{Run, SPARE, Workshop};

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("descriptors::of_a_program", of_a_program),
    ("descriptors::passed_on", passed_on),
    ("descriptors::many", many),
    ("descriptors::full_table", full_table),
    ("descriptors::no_memory", no_memory),
    ("descriptors::same_path", same_path),
    ("descriptors::closed_ones_take_no_room", closed_ones_take_no_room),
    ("descriptors::quiet_phases", quiet_phases),
    ("descriptors::limit_for_all", limit_for_all),
    ("descriptors::nothing_attached_without_need", nothing_attached_without_need),
    ("descriptors::alone_as_recorded_from_the_start", alone_as_recorded_from_the_start),
    ("descriptors::left_in_the_first_run_only", left_in_the_first_run_only),
    ("descriptors::a_second_run_that_hangs", a_second_run_that_hangs),
    ("descriptors::what_may_be_left_runs_once", what_may_be_left_runs_once),
    ("descriptors::two_runs_are_one_test", two_runs_are_one_test),
    ("descriptors::switched_off", switched_off),
];

fn expect(run: &Run, test: &Test, code: i32, verdict: &str, numbers: usize) -> Outcome {
    let found: usize = test.kernel.descriptors.iter().map(|descriptor| descriptor.numbers.len()).sum();
    match test.verdict == verdict && found == numbers {
        true => run.expect(code, &[]),
        false => Err(format!("{numbers} and {verdict} were expected: {test:?}\n{}", run.describe())),
    }
}

/// What a program has open when it ends is reported, and judged where a limit is given.
fn of_a_program(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("open", &[])?;
    for (options, code, verdict, word) in [
        (&[][..], 0, "clean", "(2 descriptors left open)"),
        (&["--fds", "2"], 0, "clean", "(2 descriptors left open)"),
        (&["--fds", "1"], 2, "leaks", "2 descriptors left open (budget 1)"),
    ] {
        let (run, test) = exec_with(workshop, options, &[program.as_str()])?;
        run.expect(code, &[word])?;
        expect(&run, &test, code, verdict, 2)?;
    }
    let (run, test) = exec_with(workshop, &["--no-fds"], &[program.as_str()])?;
    expect(&run, &test, 0, "clean", 0)
}

/// A descriptor that was sent is its maker's: the program's own, but not that of another process, even
/// where the kernel has given the address of a file of the program's to it.
fn passed_on(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("passed", &[])?;
    for (who, numbers) in [("itself", 1), ("child", 0)] {
        let (run, test) = exec_with(workshop, &["--fds", "9"], &[program.as_str(), who])?;
        expect(&run, &test, 0, "clean", numbers)?;
        if let [descriptor] = &test.kernel.descriptors[..]
            && (descriptor.call.as_deref() != Some("eventfd2") || descriptor.kind != "eventfd")
        {
            return Err(format!("{test:?}"));
        }
    }
    Ok(())
}

/// As many as a process may have here, up to 100,000; it raises its limit to the highest one itself.
fn many(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("many_open", &[])?;
    let (_, highest) = nix::sys::resource::getrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE)
        .map_err(|problem| problem.to_string())?;
    // It has some from before.
    let number = (highest - 5).min(100_000);
    let (room, wanted) = ((number + number / 4).to_string(), number.to_string());
    let options = ["--fds", "0", "--max-files", room.as_str()];
    let (run, test) = exec_with(workshop, &options, &[program.as_str(), wanted.as_str()])?;
    expect(&run, &test, 2, "leaks", number as usize)
}

/// Phases of system calls that leave nothing behind, once and many times.
fn quiet_phases(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("phases", &["-pthread"])?;
    for times in ["1", "10", "100", "400"] {
        let options =
            ["--fds", "0", "--ipc", "0", "--children", "0", "--threads", "0", "--mapped-bytes", "0"];
        let (run, test) = exec_with(workshop, &options, &[program.as_str(), times])?;
        run.expect(0, &[])?;
        expect(&run, &test, 0, "clean", 0)?;
        let kernel = &test.kernel;
        let nothing = kernel.ipc.is_empty() && kernel.children.is_empty();
        if !nothing || !kernel.threads.is_empty() || !kernel.mappings.is_empty() {
            return Err(format!("{kernel:?}\n{}", run.describe()));
        }
        if !run.stdout.contains("71 phases") {
            return Err(run.describe());
        }
    }
    Ok(())
}

/// What finds no room makes a verdict impossible.
fn full_table(workshop: &Workshop) -> Outcome {
    let options = ["--max-files", "20", "in_a_loop"];
    let (run, report) = Desk::new(workshop, "descriptors")?.run(workshop, &options, &[])?;
    run.expect(10, &["80 files made in the window not recorded", "--max-files"])?;
    if report.summary.incomplete == 1 { Ok(()) } else { Err(run.describe()) }
}

/// Where the kernel has no memory at hand, the spare table has room for some, and a larger one would not help.
fn no_memory(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("many_open", &[])?;
    let options = ["--fds", "0", "--recorder", SPARE];
    let (run, test) = exec_with(workshop, &options, &[program.as_str(), "200"])?;
    expect(&run, &test, 2, "leaks", 200)?;
    let (run, _) = exec_with(workshop, &options, &[program.as_str(), "1000"])?;
    run.expect(10, &["files not recorded because the kernel had no memory for them at that moment"])?;
    if run.describe().contains("--max-files") { Err(run.describe()) } else { Ok(()) }
}

/// Of two tests that have the same file open at a time one leaves it.
fn same_path(workshop: &Workshop) -> Outcome {
    for recorded in [&[][..], &["--kernel-report"]] {
        let desk = Desk::new(workshop, "descriptors")?;
        let options = [&["-j2", "--timeout", "20s"], recorded, &["same_path"]].concat();
        let variables = [("LEAKCHECK_FIXTURE_MEET".to_owned(), desk.file("").into_string())];
        let (run, report) = desk.run(workshop, &options, &variables)?;
        run.expect(2, &["1 descriptor left open", &format!("\"{}\"", desk.file("same"))])?;
        let left = report.tests.iter().map(|test| (test.name.as_str(), test.kernel.descriptors.len()));
        let left: std::collections::BTreeMap<_, _> = left.collect();
        if left != [("same_path_closed", 0), ("same_path_left", 1)].into() {
            return Err(format!("{left:?}\n{}", run.describe()));
        }
    }
    Ok(())
}

/// Records of files that tests have closed are swept out before they fill the table.
fn closed_ones_take_no_room(workshop: &Workshop) -> Outcome {
    // The report has them recorded from the start.
    let options = ["--max-files", "100", "-j1", "--children", "1", "--kernel-report", "kept_by_a"];
    let (run, report) = Desk::new(workshop, "descriptors")?.run(workshop, &options, &[])?;
    match report.tests.iter().filter(|test| test.verdict == "clean").count() {
        2 => run.expect(0, &[]),
        clean => Err(format!("{clean} of 2 are clean\n{}", run.describe())),
    }
}

fn limit_for_all(workshop: &Workshop) -> Outcome {
    for (fds, code, verdict) in [("100", 0, "clean"), ("99", 2, "leaks")] {
        let options = ["--fds", fds, "in_a_loop"];
        let (run, report) = Desk::new(workshop, "descriptors")?.run(workshop, &options, &[])?;
        expect(&run, &report.tests[0], code, verdict, 100)?;
    }
    Ok(())
}

/// What the whole machine pays for is attached from the first test on that leaves something, and no longer for what it holds
/// than that test runs once more.
fn nothing_attached_without_need(workshop: &Workshop) -> Outcome {
    for (tests, expected, code) in [
        (&["looks_at_its_tracer", "file_closed"][..], "0", 0),
        (&["looks_at_its_tracer", "in_a_loop"], "1", 2),
    ] {
        let options = [&["-j1"], tests].concat();
        let variables = [("LEAKCHECK_FIXTURE_TRACEPOINTS".to_owned(), expected.to_owned())];
        let (run, report) = Desk::new(workshop, "descriptors")?.run(workshop, &options, &variables)?;
        run.expect(code, &[])?;
        if report.tests.iter().any(|test| test.outcome != "passed") {
            return Err(run.describe());
        }
    }
    Ok(())
}

/// What two lists and a second run say of a test that begins before anything is attached is what is seen when all is
/// recorded from the start.
fn alone_as_recorded_from_the_start(workshop: &Workshop) -> Outcome {
    const ALONE: [(&str, &[&str]); 2] = [
        (
            "descriptors",
            &[
                "duplicate_of_standard_output",
                "duplicated",
                "fopen_in_c",
                "from_before_closed",
                "in_the_place_of_one_from_before",
                "in_the_place_of_standard_input",
                "kept_in_a_lazy_static",
                "of_a_child",
                "on_a_thread_that_runs",
                "only_the_duplicate",
                "pipe_by_the_c_library",
                "reopened_at_the_same_address",
                "standard_output_put_back",
                "tcp_pair",
            ],
        ),
        ("ipc", &["a_file_in_its_place", "a_file_in_its_place_by_a_program", "posix_memory_by_a_child"]),
    ];
    for (package, names) in ALONE {
        let run = |options: &[&str]| Desk::new(workshop, package)?.run(workshop, options, &[]);
        let (_, all) = run(&["--kernel-report"])?;
        for name in names {
            let (run, alone) = run(&[name, "--", "--exact"])?;
            let wanted = all.tests.iter().find(|test| test.name == *name).map(seen);
            let found = alone.tests.first().map(seen);
            if wanted.is_none() || wanted != found {
                return Err(format!("{name}: {found:?} instead of {wanted:?}\n{}", run.describe()));
            }
        }
    }
    Ok(())
}

/// Verdict, and what is left, without what is another number or name in each run.
fn seen(test: &Test) -> (String, Vec<String>) {
    let kernel = &test.kernel;
    let descriptors = kernel.descriptors.iter().map(|open| {
        let numbers = open.numbers.len();
        format!("{} {numbers} {:?} {:?} {} {:?}", open.kind, open.call, open.held_by, open.once, open.site)
    });
    let objects =
        kernel.ipc.iter().map(|object| format!("{} {:?} {:?}", object.kind, object.call, object.site));
    (test.verdict.clone(), descriptors.chain(objects).collect())
}

/// A run that does not leave it once more does not say where it was opened, and changes no verdict.
fn left_in_the_first_run_only(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "descriptors")?;
    let variables = [("LEAKCHECK_FIXTURE_FIRST".to_owned(), desk.file("").to_string())];
    let (run, report) = desk.run(workshop, &["left_in_the_first_run_only"], &variables)?;
    expect(&run, &report.tests[0], 2, "leaks", 1)?;
    let open = &report.tests[0].kernel.descriptors[0];
    match (&open.call, &open.stack) {
        (None, None) => run.expect(2, &["1 descriptor left open (budget 0)", "opened at: not seen"]),
        _ => Err(format!("{open:?}")),
    }
}

/// The verdict is that of its first run, also where no time limit is given.
fn a_second_run_that_hangs(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "descriptors")?;
    let folder = desk.file("");
    let variables = [("LEAKCHECK_FIXTURE_LOCK".to_owned(), folder.to_string())];
    let (run, report) = desk.run(workshop, &["waits_for_its_first_run"], &variables)?;
    expect(&run, &report.tests[0], 2, "leaks", 1)?;
    match report.tests[0].outcome == "passed" && folder.join("waits").exists() {
        true => run.expect(2, &["1 descriptor left open (budget 0)", "opened at: not seen"]),
        false => Err(run.describe()),
    }
}

/// Where a budget allows what is left, nobody asks where it was opened, unless that is seen anyway.
fn what_may_be_left_runs_once(workshop: &Workshop) -> Outcome {
    let test = ["within_the_budget", "--", "--exact"];
    for (options, call) in [(&[][..], None), (&["--kernel-report"], Some("openat"))] {
        let options = [options, &test].concat();
        let (run, report) = Desk::new(workshop, "descriptors")?.run(workshop, &options, &[])?;
        expect(&run, &report.tests[0], 0, "clean", 1)?;
        let found = report.tests[0].kernel.descriptors[0].call.as_deref();
        if found != call {
            return Err(format!("{found:?} instead of {call:?}\n{}", run.describe()));
        }
    }
    Ok(())
}

/// What runs once more is one test in every report, and writes once for each attempt.
fn two_runs_are_one_test(workshop: &Workshop) -> Outcome {
    for (options, printed) in [(&["--no-capture"][..], 1), (&["--no-capture", "--retries", "1"], 2)] {
        let options = [options, &["file_forgotten"]].concat();
        let (run, report) = Desk::new(workshop, "descriptors")?.run(workshop, &options, &[])?;
        let [test] = &report.tests[..] else { return Err(run.describe()) };
        expect(&run, test, 2, "leaks", 1)?;
        if run.stdout.matches("test file_forgotten ... ").count() != printed {
            return Err(format!("not {printed} times\n{}", run.describe()));
        }
        run.expect(2, &["opened at descriptors/src/lib.rs"])?;
    }
    Ok(())
}

/// The report says what was not looked at.
fn switched_off(workshop: &Workshop) -> Outcome {
    let options = ["--no-fds", "in_a_loop"];
    let (run, report) = Desk::new(workshop, "descriptors")?.run(workshop, &options, &[])?;
    expect(&run, &report.tests[0], 0, "clean", 0)?;
    let off = &report.steering.checks_off;
    match off.iter().any(|check| check.contains("descriptors")) {
        true => Ok(()),
        false => Err(format!("{off:?}")),
    }
}
