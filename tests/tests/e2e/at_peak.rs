//! What is alive at the peak, by call stacks: whose it is, and that it comes to the peak.

use camino::Utf8Path;
use leakcheck_tests::browser::Browser;
use leakcheck_tests::report::{Report, Test};
use leakcheck_tests::tool::Workshop;

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::look::drawn;
use crate::nextest::in_fixtures;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("at_peak::two_functions", two_functions),
    ("at_peak::in_the_page", in_the_page),
    ("at_peak::comes_to_the_peak", comes_to_the_peak),
    ("at_peak::of_a_program", of_a_program),
    ("at_peak::of_threads_that_are_ended", of_threads_that_are_ended),
    ("at_peak::under_nextest", under_nextest),
    ("at_peak::with_another_allocator", with_another_allocator),
];

const RECORDERS: [&str; 2] = ["ledger", "uprobe"];

/// The test whose largest block is gone at its peak.
const TEST: &str = "two_smaller_ones_together";
/// What is there then, and nothing else.
const EXPECTED: [(&str, u64); 2] = [("peaks::one_and_a_half_mib", 1_572_864), ("peaks::two_mib", 2_097_152)];

fn text(path: &Utf8Path) -> Result<String, String> {
    fs_err::read_to_string(path).map_err(|problem| problem.to_string())
}

/// Folded stacks of that test alone: the function below the test's own, and the bytes.
fn folded(text: &str) -> Result<Vec<(&str, u64)>, String> {
    let prefix = format!("peaks {TEST};peaks::{TEST};");
    let lines = text.lines().map(|line| {
        let (stack, bytes) = line.strip_prefix(&prefix)?.rsplit_once(' ')?;
        let mut frames = stack.split(';');
        // Each allocates by the same function.
        let (function, below) = (frames.next()?, frames.next()?);
        (below == "peaks::block").then_some((function, bytes.parse().ok()?))
    });
    lines.collect::<Option<Vec<_>>>().ok_or_else(|| format!("other stacks: {text}"))
}

fn is_expected(path: &Utf8Path) -> Outcome {
    let text = text(path)?;
    match folded(&text)? {
        found if found == EXPECTED => Ok(()),
        found => Err(format!("{found:?} and not {EXPECTED:?}")),
    }
}

/// Exactly what two functions have allocated, whose blocks are there at once; later from the document as well.
fn two_functions(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "peaks")?;
    let files = |name: &str| ["folded", "svg"].map(|end| desk.file(&format!("{name}.{end}")));
    let [first, first_svg] = files("first");
    let options = ["--peak-folded", first.as_str(), "--peak-flamegraph", first_svg.as_str(), TEST];
    for recorder in RECORDERS {
        let (run, _) = desk.run(workshop, &[&["--recorder", recorder], &options[..]].concat(), &[])?;
        run.expect(0, &[])?;
        is_expected(&first).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    }
    let (_, report) = desk.run(workshop, &options, &[])?;
    drawn(&text(&first_svg)?, EXPECTED.iter().map(|(_, bytes)| bytes).sum())?;
    let at_peak = report.tests[0].at_peak.clone().ok_or("nothing is known of the peak")?;
    let blocks: Vec<u64> = at_peak.stacks.iter().map(|it| it.blocks).collect();
    if at_peak.unknown.is_some() || blocks != [1, 1] {
        return Err(format!("{at_peak:?}"));
    }

    let [later, later_svg] = files("later");
    let json = desk.file("report.json");
    let args =
        ["report", json.as_str(), "--peak-folded", later.as_str(), "--peak-flamegraph", later_svg.as_str()];
    in_fixtures(workshop, &desk, &args, &[])?.expect(0, &[])?;
    if text(&later)? != text(&first)? || text(&later_svg)? != text(&first_svg)? {
        return Err(format!("{later} or {later_svg} is another one"));
    }

    // Who does not ask for it has nothing of it.
    let (_, report) = desk.run(workshop, &[TEST], &[])?;
    match report.tests[0].at_peak {
        None => Ok(()),
        ref some => Err(format!("{some:?} was not asked for")),
    }
}

/// The page has both pictures, and the test's own in its details.
fn in_the_page(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "peaks")?;
    let (json, page) = (desk.file("report.json"), desk.file("later.html"));
    desk.run(workshop, &["--peak-stacks", TEST, "left_behind"], &[])?;
    let args = ["report", json.as_str(), "--html", page.as_str()];
    in_fixtures(workshop, &desk, &args, &[])?.expect(2, &[])?;
    let mut browser = Browser::start(1280, 800)?;
    browser.open(page.as_std_path())?;
    let browser = &mut browser;
    let shows = |browser: &mut Browser, place: &str, start: &str| {
        let bars = format!(
            "[...document.querySelectorAll('{place} .flame .bar')].map(bar => bar.title.replaceAll(',', '')).join('|')"
        );
        let bars = browser.text(&bars)?;
        match bars.split('|').any(|bar| bar.starts_with(start)) {
            true => Ok(()),
            false => Err(format!("no bar {start}: {bars}")),
        }
    };
    // What is lost comes first.
    browser.write("3")?;
    shows(browser, "#whole", "all: 4096 B in 1 block")?;
    browser.click("[data-picture=peak]")?;
    // 3670016 + 4096
    for bar in [
        "all: 3674112 B",
        "peaks::two_mib: 2097152 B",
        "peaks::one_and_a_half_mib: 1572864 B",
        "1 smaller: 4096 B",
    ] {
        shows(browser, "#whole", bar)?;
    }
    let no_other = "![...document.querySelectorAll('.flame .bar')].some(bar => bar.title.startsWith('peaks::three_mib'))";
    if browser.value(no_other)? != true {
        return Err("a block that is gone is in the picture".to_owned());
    }
    browser.click("[data-picture=leaked]")?;
    shows(browser, "#whole", "all: 4096 B in 1 block")?;
    browser.write("2")?;
    browser.write(&format!("/{TEST}"))?;
    browser.wait(&format!("document.querySelector('#detail h2')?.textContent === '{TEST}'"))?;
    shows(browser, "#detail", "all: 3670016 B")?;
    let problems = browser.problems()?;
    if problems.is_empty() { Ok(()) } else { Err(format!("the page: {problems:#?}")) }
}

/// Whatever a test allocates, in however many threads: call stacks come to its peak, which is exact. What counts is what counts
/// without it.
fn comes_to_the_peak(workshop: &Workshop) -> Outcome {
    RECORDERS.iter().try_for_each(|recorder| comes_to_the_peak_by(workshop, recorder))
}

fn comes_to_the_peak_by(workshop: &Workshop, recorder: &str) -> Outcome {
    let desk = Desk::new(workshop, "peaks")?;
    let (run, report) = desk.run(workshop, &["--peak-stacks", "--recorder", recorder], &[])?;
    run.expect(2, &[])?;
    for test in report.tests.iter().filter(|test| !is_crowded(test)) {
        let problem = || format!("{}: {:?} {:?}", test.name, test.heap, test.at_peak);
        let (heap, at_peak) = test.heap.zip(test.at_peak.as_ref()).ok_or_else(problem)?;
        let (bytes, is_known) = (at_peak.total().bytes, at_peak.unknown.is_none());
        let fits = match test.name.as_str() {
            // What is kept of its calls is more than its blocks.
            "says_something_of_its_blocks" => !is_known,
            // Here that is little, and none of what it has allocated.
            "large_in_a_scope" => is_known && bytes == 1 << 20,
            _ => is_known && heap.peak_bytes_at_least.is_none() && bytes == heap.peak_bytes,
        };
        if !fits {
            return Err(problem());
        }
    }
    let (_, without) = desk.run(workshop, &[], &[])?;
    let verdicts = |report: &Report| -> Vec<(String, String, u64)> {
        let of = |test: &Test| (test.name.clone(), test.verdict.clone(), test.definitely_lost.bytes);
        report.tests.iter().map(of).collect()
    };
    if verdicts(&without) != verdicts(&report) {
        return Err(format!("{:?}\n{:?}", verdicts(&report), verdicts(&without)));
    }
    // Each thread has 50 KiB.
    let threads = report.tests.iter().filter(|test| test.name.starts_with("two_threads"));
    for test in threads.filter(|test| !is_crowded(test)) {
        let stacks = test.at_peak.iter().flat_map(|it| &it.stacks);
        let is_own = |name: Option<&String>| name.is_some_and(|name| name.contains("peaks::two_at_once"));
        let own = stacks.filter(|it| it.stack.iter().flatten().any(|frame| is_own(frame.function.as_ref())));
        let own: u64 = own.map(|it| it.bytes).filter(|bytes| *bytes > 50_000).sum();
        if own != 2 * 51_200 {
            return Err(format!("{own} bytes of two threads: {:?}", test.at_peak));
        }
    }
    Ok(())
}

/// What a library's constructor has allocated before the program's entry point is among it for as long as it is there.
fn of_a_program(workshop: &Workshop) -> Outcome {
    let library = workshop.compile("before_main", &["-shared", "-fPIC", "-DLIBRARY"])?;
    let program = workshop.compile("before_main", &[library.as_str()])?;
    let all: [(&str, &[(&str, u64)]); 3] = [
        ("kept", &[("early", 3000), ("late", 10_000)]),
        ("freed", &[("late", 10_000)]),
        ("less", &[("early", 6000)]),
    ];
    for (recorder, (argument, expected)) in RECORDERS.into_iter().flat_map(|it| all.map(|of| (it, of))) {
        let options = ["--peak-stacks", "--recorder", recorder];
        let (run, test) = exec_with(workshop, &options, &[program.as_str(), argument])?;
        run.expect(0, &[])?;
        let at_peak = test.at_peak.ok_or_else(|| run.describe())?;
        let problem = || format!("{recorder}, {argument}: {at_peak:?} {:?}", test.heap);
        let mut found = Vec::new();
        for it in &at_peak.stacks {
            let function = it.stack.as_ref().and_then(|stack| stack.first()?.function.as_deref());
            found.push((function.ok_or_else(problem)?, it.bytes));
        }
        found.sort_unstable();
        // The ledger is told of it at the entry point.
        let is_known = (recorder, argument) != ("ledger", "less");
        let is_right = match &at_peak.unknown {
            None => is_known && found == expected,
            Some(why) => !is_known && why.contains("before the program's entry point"),
        };
        if !is_right {
            return Err(problem());
        }
    }
    Ok(())
}

/// A process that ends while its threads allocate: it comes to the peak, or is not known and says so.
fn of_threads_that_are_ended(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("random", &["-pthread", "-Wl,-z,now"])?;
    let truth = program.with_file_name("truth");
    let mut known = 0;
    for (seed, recorder) in (1..=8).flat_map(|seed| RECORDERS.map(|recorder| (seed, recorder))) {
        let seed = seed.to_string();
        let command = [program.as_str(), &seed, truth.as_str()];
        let (run, test) = exec_with(workshop, &["--peak-stacks", "--recorder", recorder], &command)?;
        let problem = || format!("seed {seed}, {recorder}: {:?}\n{}", test.at_peak, run.describe());
        let at_peak = test.at_peak.as_ref().ok_or_else(problem)?;
        match &at_peak.unknown {
            None => {
                let peak = test.heap.map(|heap| heap.peak_bytes);
                if peak != Some(at_peak.total().bytes) {
                    return Err(format!("{peak:?}\n{}", problem()));
                }
                known += 1;
            }
            Some(reason) => run.expect(run.code, &["peak not known by call stacks", reason])?,
        }
    }
    if known < 8 { Err(format!("only {known} peaks of 16 are known")) } else { Ok(()) }
}

/// Each process of nextest's writes down what the picture of all is made of.
fn under_nextest(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "peaks")?;
    let path = desk.file("nextest.folded");
    let args = ["nextest", "--peak-folded", path.as_str(), "run", "--package", "peaks", TEST];
    let run = in_fixtures(workshop, &desk, &args, &[])?;
    run.expect(0, &[])?;
    is_expected(&path).map_err(|problem| format!("{problem}\n{}", run.describe()))
}

/// Where the program has another allocator than the C library's, which the kernel side records.
fn with_another_allocator(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "other-allocators")?;
    let (run, report) = desk.run(workshop, &["--peak-stacks"], &[])?;
    let mut known = 0;
    for test in report.tests.iter().filter(|test| test.recorder.as_deref() == Some("uprobe")) {
        if is_crowded(test) {
            continue;
        }
        let (heap, at_peak) = test.heap.zip(test.at_peak.as_ref()).ok_or_else(|| run.describe())?;
        if at_peak.unknown.is_some() || at_peak.total().bytes != heap.peak_bytes {
            return Err(format!("{}: {heap:?} {at_peak:?}\n{}", test.name, run.describe()));
        }
        known += usize::from(heap.peak_bytes > 0);
    }
    if known > 3 { Ok(()) } else { Err(format!("only {known} tests\n{}", run.describe())) }
}

/// The kernel side does not wait for long: where a machine has other work for a thread whose turn it is, it gives up.
fn is_crowded(test: &Test) -> bool {
    let unknown = test.at_peak.as_ref().and_then(|it| it.unknown.as_deref());
    unknown == Some("too many threads were at it at once")
}
