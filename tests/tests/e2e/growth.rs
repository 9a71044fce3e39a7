//! A body that is run again and again in its process, beyond what the fixture `growth` shows.

use leakcheck_tests::report::{Report, Test};
use leakcheck_tests::tool::{Run, Workshop};

use crate::fixtures::Desk;
use crate::nextest::nextest;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("growth::said_in_numbers", said_in_numbers),
    ("growth::for_all_tests", for_all_tests),
    ("growth::by_a_file", by_a_file),
    ("growth::not_repeated", not_repeated),
    ("growth::under_nextest", under_nextest),
];

/// With eBPF and without, and by both recorders.
const WAYS: [&str; 3] = ["ledger", "uprobe", "container"];
const PER_ITERATION: &str = "grows by 24 B per iteration (budget 0 B)";
const IN_STEPS: &str = "grows in steps: 224 B in 3 of 17 iterations (budget 0 B)";

fn of<'a>(report: &'a Report, run: &Run, name: &str) -> Result<&'a Test, String> {
    let found = report.tests.iter().find(|test| test.name == name);
    found.ok_or_else(|| format!("{name} was not run\n{}", run.describe()))
}

fn expect<T: PartialEq + std::fmt::Debug>(found: &T, expected: &T, of: &Test) -> Outcome {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{expected:?} was expected, not {found:?}: {of:?}")),
    }
}

fn said_in_numbers(workshop: &Workshop) -> Outcome {
    // 24 bytes more each time; of 8 bytes room for 4, 8, 16 and 32 elements, at the 1st, 5th, 9th and 17th.
    let boxes: Vec<u64> = (1..=20).map(|number| 24 * number).collect();
    let vector: Vec<u64> = (1..=20_u64).map(|length| 8 * length.next_power_of_two().max(4)).collect();
    for way in WAYS {
        let workshop = workshop.recorded_by(way);
        let desk = Desk::new(&workshop, "growth")?;
        let names = ["one_more_box", "growing_vector", "lazily_filled_cache", "a_descriptor_each_time"];
        let (run, report) = desk.run(&workshop, &names, &[])?;
        // Both pictures go from the least to the most: a step is 6 of 19, rounded down.
        let picture = "growth: ▁▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇  480 B alive after 20 iterations, 3 of them to warm up";
        run.expect(
            2,
            &[
                PER_ITERATION,
                IN_STEPS,
                picture,
                "▁▁▁▁▁▁▁▁▃▃▃▃▃▃▃▃▇▇▇▇",
                "descriptors grow by 1 per iteration",
            ],
        )?;
        let test = of(&report, &run, "one_more_box")?;
        let growth = test.growth.as_ref().ok_or_else(|| format!("no growth: {test:?}"))?;
        expect(&growth.bytes, &boxes, test)?;
        expect(&growth.blocks, &(1..=20).collect(), test)?;
        expect(&growth.ended, &None, test)?;
        let [grown] = growth.grown.as_slice() else {
            return Err(format!("one place was expected: {test:?}"));
        };
        expect(&grown.bytes, &boxes, test)?;
        // The same line as that of the finding, which the fixture has a comment for.
        let line = test.findings.first().and_then(|finding| finding.site.as_ref()?.line);
        expect(&grown.site.as_ref().and_then(|site| site.line), &line, test)?;
        let test = of(&report, &run, "growing_vector")?;
        expect(&test.growth.as_ref().map(|growth| &growth.bytes), &Some(&vector), test)?;
        let test = of(&report, &run, "a_descriptor_each_time")?;
        let descriptors = test.growth.as_ref().map(|growth| growth.descriptors.clone()).unwrap_or_default();
        let steps: Vec<u64> = descriptors.windows(2).map(|pair| pair[1] - pair[0]).collect();
        expect(&steps, &vec![1; 19], test)?;
        let junit = std::fs::read_to_string(desk.file("junit.xml")).map_err(|problem| problem.to_string())?;
        if !junit.contains(PER_ITERATION) {
            return Err(format!("{way}: `{PER_ITERATION}` was expected in {junit}"));
        }
    }
    Ok(())
}

/// A test without the attribute, and one that has said something else.
fn for_all_tests(workshop: &Workshop) -> Outcome {
    // Where descriptors are not listed, nothing else has a test stop as it begins.
    let all = [&[][..], &["--no-fds", "--no-ipc"]];
    for (way, looks) in WAYS.into_iter().flat_map(|way| all.map(|looks| (way, looks))) {
        let workshop = workshop.recorded_by(way);
        let desk = Desk::new(&workshop, "growth")?;
        let options = [looks, &["--growth", "10", "without_the_attribute", "returns_a_result"]].concat();
        let (run, report) = desk.run(&workshop, &options, &[])?;
        run.expect(2, &[PER_ITERATION, "240 B alive after 10 iterations", "no growth in 2 iterations"])?;
        let test = of(&report, &run, "without_the_attribute")?;
        let bytes: Vec<u64> = (1..=10).map(|number| 24 * number).collect();
        expect(&test.growth.as_ref().map(|growth| &growth.bytes), &Some(&bytes), test)?;
    }
    Ok(())
}

fn by_a_file(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "growth")?;
    let file = desk.file("growth.toml");
    let text = "[profile.default]\ngrowth = 6\n[[profile.default.overrides]]\nfilter = 'all()'\nbytes-per-iteration = '24 B'\nwarmup = 1\n";
    std::fs::write(&file, text).map_err(|problem| problem.to_string())?;
    let options = ["--config-file", file.as_str(), "without_the_attribute"];
    let (run, report) = desk.run(workshop, &options, &[])?;
    run.expect(0, &["grows by 24 B per iteration, within the budget"])?;
    let test = of(&report, &run, "without_the_attribute")?;
    expect(&test.growth.as_ref().map(|growth| growth.bytes.len()), &Some(6), test)?;
    // The command line comes first.
    let (run, report) = desk.run(workshop, &[&options[..], &["--growth", "1"]].concat(), &[])?;
    run.expect(0, &[])?;
    let test = of(&report, &run, "without_the_attribute")?;
    expect(&test.growth.is_none(), &true, test)
}

/// Of what cannot be repeated the reason is said, and the verdict is that of one run; unless the test itself asks for more.
fn not_repeated(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "custom-harness")?;
    let (run, _) = desk.run(workshop, &["--growth", "5", "--test", "mimic"], &[])?;
    let said = run.describe();
    let reason = "growth not judged: only a test of libtest can be run again";
    if !said.contains(reason) {
        return Err(format!("`{reason}` was expected\n{said}"));
    }
    let desk = Desk::new(workshop, "growth")?;
    // Who has not asked for iterations does not fail by them, and does not pass by them either.
    let names = ["--growth", "5", "sets_up_what_can_be_set_up_once", "does_not_panic_the_first_time"];
    let (run, report) = desk.run(workshop, &names, &[])?;
    run.expect(1, &["growth not judged: iteration 2 did not return", "1 clean, 1 failed"])?;
    let test = of(&report, &run, "sets_up_what_can_be_set_up_once")?;
    expect(&(test.outcome.as_str(), test.verdict.as_str()), &("passed", "clean"), test)?;
    let (run, report) = desk.run(workshop, &["--count-should-panic", "is_to_panic"], &[])?;
    run.expect(10, &["its body was not run as often as it is to be: iteration 1 did not return"])?;
    let test = of(&report, &run, "is_to_panic")?;
    expect(&test.verdict.as_str(), &"incomplete", test)?;
    // The panic is what the harness sees, and the message is the test's own.
    let (run, report) = desk.run(workshop, &["panics_the_second_time", "fails_the_second_time"], &[])?;
    run.expect(1, &["left: 2", "Error: \"twice\"", "iteration 2 did not return", "iteration 2 has failed"])?;
    // What has failed has come to its end.
    for (name, iterations) in [("panics_the_second_time", 1), ("fails_the_second_time", 2)] {
        let test = of(&report, &run, name)?;
        expect(&test.growth.as_ref().map(|growth| growth.bytes.len()), &Some(iterations), test)?;
    }
    Ok(())
}

fn under_nextest(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "growth")?;
    let (run, report) = nextest(
        workshop,
        &desk,
        &["--growth", "10", "run", "-p", "growth", "--no-fail-fast", "one_more_box", "without_the_attribute"],
    )?;
    let test = of(&report, &run, "one_more_box")?;
    expect(&test.growth.as_ref().map(|growth| growth.bytes.len()), &Some(20), test)?;
    let test = of(&report, &run, "without_the_attribute")?;
    expect(
        &(test.verdict.as_str(), test.growth.as_ref().map(|growth| growth.bytes.len())),
        &("leaks", Some(10)),
        test,
    )?;
    run.expect(2, &[])
}
