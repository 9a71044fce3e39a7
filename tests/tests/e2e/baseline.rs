//! The baseline on real tests: what leaked when it was written fails nothing, and whatever is more does.

use leakcheck_tests::tool::{Run, Workshop};

use crate::package::Package;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("baseline::ratchet", ratchet),
    ("baseline::some_tests_only", some_tests_only),
    ("baseline::whoever_compiles", whoever_compiles),
    ("baseline::whoever_starts_the_tests", whoever_starts_the_tests),
    ("baseline::beside_limits", beside_limits),
    ("baseline::beside_growth_and_peaks", beside_growth_and_peaks),
    ("baseline::beside_rules", beside_rules),
    ("baseline::not_looked_at", not_looked_at),
    ("baseline::mistakes", mistakes),
];

const FILE: &str = ".config/leakcheck-baseline.json";

/// Three leaks: 40 bytes, 24 bytes, a file.
pub const OLD: &str = "\
#[cfg(test)]
mod tests {
    fn leak(bytes: usize) {
        std::mem::forget(std::hint::black_box(vec![1_u8; bytes]));
    }

    #[test]
    fn one() {
        leak(40);
    }

    #[test]
    fn two() {
        leak(24);
        std::mem::forget(std::fs::File::open(\"/dev/null\").unwrap());
    }

    #[test]
    fn clean() {}
}
";

/// Says what a line of the summary does.
fn says(run: &Run, code: i32, baseline: &str) -> Outcome {
    run.expect(code, &[])?;
    let said = run.stderr.lines().find_map(|line| line.trim_start().strip_prefix("Baseline "));
    match said {
        Some(said) if said.split(" (").next() == Some(baseline) => Ok(()),
        _ => Err(format!("{said:?} instead of {baseline:?}\n{}", run.describe())),
    }
}

/// What leaks is accepted; what leaks besides fails, what leaks more fails, and what is fixed stays so.
fn ratchet(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, OLD)?;
    package.run(workshop, &[])?.expect(2, &["3 tests run: 1 clean, 2 leaking"])?;
    package
        .run(workshop, &["baseline", "write"])?
        .expect(0, &[FILE, "3 leaks of 2 tests known (written)"])?;
    let written = package.read(FILE)?;
    let known = package.run(workshop, &[])?;
    says(&known, 0, "3 known")?;
    known.expect(0, &["3 tests run: 3 clean"])?;
    // Nobody has to read of it again.
    if known.stderr.contains("allocated here") {
        return Err(known.describe());
    }
    package.run(workshop, &["--no-baseline"])?.expect(2, &["2 leaking"])?;
    // One is fixed, one is new, and every line has moved.
    let changed = OLD.replace("        leak(40);\n", "").replace(
        "leak(24);",
        "leak(24);\n        std::mem::forget(std::hint::black_box(String::from(\"seven b\")));",
    );
    package.write("src/lib.rs", &format!("//! Moved.\n\n\n{changed}"))?;
    let json = package.path("report.json");
    let run = package.run(workshop, &["--json", json.as_str()])?;
    says(&run, 2, "2 known, 1 new, 1 fixed")?;
    run.expect(
        2,
        &["7 B definitely lost in 1 block (budget 0 B)", "definitely lost: 7 B in 1 block of String, new"],
    )?;
    if run.stderr.contains("24 B") {
        return Err(run.describe());
    }
    // All is in the report, with what does not count.
    documents::json(&json)?;
    let report: serde_json::Value =
        serde_json::from_str(&package.read("report.json")?).map_err(|it| it.to_string())?;
    let compared = serde_json::json!({ "known": 2, "grown": 0, "new": 1, "fixed": 1 });
    let two = report["tests"].as_array().and_then(|all| all.iter().find(|test| test["name"] == "tests::two"));
    let two = two.ok_or("no test `two`")?;
    let sizes = |accepted: bool| -> Vec<u64> {
        let rows = two["accepted"].as_array().into_iter().flatten();
        let places: Vec<_> =
            rows.filter(|row| row["list"] == "findings").map(|row| row["place"].as_u64()).collect();
        let all = two["findings"].as_array().into_iter().flatten().enumerate();
        let some = all.filter(|(place, _)| places.contains(&Some(*place as u64)) == accepted);
        some.filter_map(|(_, finding)| finding["bytes"].as_u64()).collect()
    };
    if report["summary"]["baseline"] != compared || (sizes(true), sizes(false)) != (vec![24], vec![7]) {
        return Err(format!("{report}"));
    }
    // An update takes out what is fixed, and nothing in.
    let update = package.run(workshop, &["baseline", "update"])?;
    update.expect(2, &["2 leaks of 1 test known (written)"])?;
    says(&package.run(workshop, &[])?, 2, "2 known, 1 new")?;
    package.write("src/lib.rs", OLD)?;
    says(&package.run(workshop, &[])?, 2, "2 known, 1 new")?;
    // Grown: one block more, and a block that is larger.
    package.write(FILE, &written)?;
    for (grown, said) in [
        ("leak(40);\n        leak(40);", "40 B definitely lost in 1 block (budget 0 B)"),
        ("leak(48);", "8 B definitely lost in 1 block (budget 0 B)"),
    ] {
        package.write("src/lib.rs", &OLD.replace("leak(40);", grown))?;
        let run = package.run(workshop, &[])?;
        says(&run, 2, "2 known, 1 grown")?;
        run.expect(2, &[said, "known"])?;
    }
    Ok(())
}

/// What was not run, and what does not pass, is known as before; a test that is no more is not.
fn some_tests_only(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, OLD)?;
    package.run(workshop, &["baseline", "write", "one"])?.expect(0, &["1 leak of 1 test known (written)"])?;
    package
        .run(workshop, &["baseline", "write", "two"])?
        .expect(0, &["3 leaks of 2 tests known (written)"])?;
    package
        .run(workshop, &["baseline", "update", "clean"])?
        .expect(0, &["3 leaks of 2 tests known (as before)"])?;
    package.write("src/lib.rs", &OLD.replace("leak(40);", "leak(40);\n        panic!();"))?;
    package.run(workshop, &["baseline", "write"])?.expect(1, &["3 leaks of 2 tests known (as before)"])?;
    package.write("src/lib.rs", &OLD.replace("fn one()", "#[ignore]\n    fn one()"))?;
    package.run(workshop, &["baseline", "update"])?.expect(0, &["3 leaks of 2 tests known (as before)"])?;
    package.write("src/lib.rs", &OLD.replace("fn one()", "fn renamed()"))?;
    package.run(workshop, &["baseline", "update"])?.expect(2, &["2 leaks of 1 test known (written)"])
}

/// One leak for each way in which a function can be called what it is: 11 in `all`, of which two are one trait's method for
/// two types, and so one to the baseline, and one in each other test: 12.
const NAMES: &str = r#"
pub mod inner {
    use std::hint::black_box;
    use std::mem::forget;
    pub struct Plain;
    pub struct Generic<T>(pub T);
    pub trait Leaks {
        fn of_the_type(&self);
        fn by_default(&self) { forget(black_box(Box::new([1_u8; 11]))); }
    }
    pub trait ForAll { fn for_all(&self); }
    impl<T: Copy> ForAll for T {
        #[inline(never)]
        fn for_all(&self) { forget(black_box(Box::new([1_u8; 13]))); }
    }
    impl Leaks for Plain {
        #[inline(never)]
        fn of_the_type(&self) { forget(black_box(vec![1_u8; 15])); }
    }
    impl<T> Leaks for Generic<T> {
        fn of_the_type(&self) { forget(black_box(Box::new([1_u8; 17]))); }
    }
    impl Plain {
        #[inline(never)]
        pub fn method(&self) { forget(black_box(Box::new([1_u8; 19]))); }
    }
    impl<T> Generic<T> {
        #[inline(never)]
        pub fn method(&self) { forget(black_box(Box::new([1_u8; 21]))); }
        pub fn associated() { forget(black_box(vec![1_u8; 23])); }
    }
    #[inline(never)]
    pub fn function<T>(value: T) { forget(black_box(Box::new(value))); }
    pub mod other {
        impl super::Plain {
            #[inline(never)]
            pub fn elsewhere(&self) { forget(black_box(Box::new([1_u8; 25]))); }
        }
        use std::{hint::black_box, mem::forget};
    }
}

#[cfg(test)]
mod tests {
    use super::inner::*;
    use std::hint::black_box;
    use std::mem::forget;

    fn nested() {
        let outer = || { let inner = || forget(black_box(Box::new([1_u8; 27]))); inner() };
        outer()
    }

    #[test]
    fn all() {
        Plain.of_the_type();
        Plain.by_default();
        5_u8.for_all();
        Generic(5_u16).of_the_type();
        Plain.method();
        Generic(1_u8).method();
        Generic::<u64>::associated();
        function([0_u8; 29]);
        Plain.elsewhere();
        nested();
        (0..1).for_each(|it| forget(black_box(Box::new([it as u8; 31]))));
    }

    #[test]
    fn by_a_thread() {
        std::thread::spawn(|| forget(black_box(Box::new([1_u8; 33])))).join().unwrap();
    }

    #[test]
    fn in_a_loop() {
        for _ in 0..3 { function(1_u64); }
    }
}
"#;

/// A leak is the same by whichever compiler, mangling and profile, and wherever its lines are.
fn whoever_compiles(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, NAMES)?;
    package.run(workshop, &["baseline", "write"])?.expect(0, &["12 leaks of 3 tests known (written)"])?;
    let legacy = ("RUSTFLAGS", "-Zunstable-options -Csymbol-mangling-version=legacy");
    let v0 = ("RUSTFLAGS", "-Csymbol-mangling-version=v0");
    let unstable = ("RUSTC_BOOTSTRAP", "1");
    // Debian's, which is another version.
    let other = ("RUSTC", "/usr/bin/rustc");
    package.write("src/lib.rs", &format!("//! Moved.\n\n{NAMES}"))?;
    for (args, variables) in [
        (&[][..], &[][..]),
        (&["--release"], &[]),
        (&[], &[v0]),
        (&[], &[legacy, unstable]),
        (&["--release"], &[v0]),
        (&["--release"], &[legacy, unstable]),
        (&[], &[other]),
        (&["--release"], &[other]),
    ] {
        let run = package.run_with(workshop, args, variables)?;
        says(&run, 0, "12 known").map_err(|problem| format!("{variables:?}: {problem}"))?;
    }
    Ok(())
}

/// Under nextest, each process reads the baseline, and the report of all says how they compare.
fn whoever_starts_the_tests(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, OLD)?;
    package
        .run(workshop, &["baseline", "write", "--baseline", "known.json", "one"])?
        .expect(0, &["known.json"])?;
    let nextest =
        |args: &[&str]| package.run(workshop, &[&["nextest"], args, &["run", "--no-fail-fast"]].concat());
    says(&nextest(&["--baseline", "known.json"])?, 2, "1 known, 2 new")?;
    nextest(&[])?.expect(2, &["2 leaking"])?;
    package.run(workshop, &["baseline", "write"])?.expect(0, &[])?;
    says(&nextest(&[])?, 0, "3 known")
}

/// Two descriptors and 5 blocks of 10 bytes, which are within their limits, or not, as variables say.
const WITHIN: &str = "\
fn number(name: &str) -> usize {
    std::env::var(name).map_or(0, |text| text.parse().unwrap())
}

#[test]
fn leaves() {
    for _ in 0..number(\"BLOCKS\") {
        std::mem::forget(std::hint::black_box(vec![1_u8; 10]));
    }
    for _ in 0..number(\"FILES\") {
        std::mem::forget(std::fs::File::open(\"/dev/null\").unwrap());
    }
}
";

/// What is within its limit is not written down, and what is known does not come on top of the limit.
fn beside_limits(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, WITHIN)?;
    package.write(".config/leakcheck.toml", "[profile.default]\nfds = 1\nblocks = 2\n")?;
    let run = |args: &[&str], blocks: &str, files: &str| {
        package.run_with(workshop, args, &[("BLOCKS", blocks), ("FILES", files)])
    };
    run(&["baseline", "write"], "5", "1")?.expect(0, &["1 leak of 1 test known"])?;
    says(&run(&[], "5", "1")?, 0, "1 known")?;
    run(&[], "5", "2")?.expect(2, &["2 descriptors left open", "(budget 1)"])?;
    run(&[], "7", "1")?.expect(2, &["2 blocks lost (budget 2 blocks)"])?;
    // Less than the limit is never too much.
    run(&[], "2", "1")?.expect(0, &[])
}

/// These are nothing that is left: no baseline knows them, and no rule is for them.
fn beside_growth_and_peaks(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, OLD)?;
    let growth = ["--growth", "4"];
    let write = |options: &[&str]| package.run(workshop, &[&["baseline", "write"], options].concat());
    write(&growth)?.expect(2, &["3 leaks of 2 tests known", "2 tests over limits for growth"])?;
    package.run(workshop, &growth)?.expect(2, &["grows by 40 B per iteration", "3 known"])?;
    let rules = package.run(workshop, &["--no-baseline", "--write-rules", "--growth", "4"])?;
    if !rules.stdout.starts_with("# no rule is for growth") {
        return Err(rules.describe());
    }
    // The other test's peak is 24 bytes.
    let peak = ["--peak-bytes", "39"];
    write(&peak)?.expect(2, &["3 leaks of 2 tests known", "1 test over limits for growth, peak"])?;
    write(&["--peak-bytes", "40"])?.expect(0, &["3 leaks of 2 tests known"])?;
    // What is within its limit is not to be known, whatever else the test fails by.
    let package = Package::new(workshop, WITHIN)?;
    package.write(".config/leakcheck.toml", "[profile.default]\nblocks = 2\ntotal-blocks = 1\n")?;
    let written = package.run_with(workshop, &["baseline", "write"], &[("BLOCKS", "2"), ("FILES", "0")])?;
    written.expect(2, &["0 leaks of 0 tests known", "1 test over limits"])
}

/// What a rule accepts is not known besides, so that it counts when the rule is gone.
fn beside_rules(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, WITHIN)?;
    let rule =
        "[[profile.default.rules]]\nname = 'files'\nkind = 'descriptor'\ncrate = 'old'\nreason = 'x'\n";
    package.write(".config/leakcheck.toml", rule)?;
    let run = |args: &[&str]| package.run_with(workshop, args, &[("BLOCKS", "1"), ("FILES", "1")]);
    run(&["baseline", "write"])?.expect(0, &["1 leak of 1 test known"])?;
    says(&run(&[])?, 0, "1 known")?;
    package.write(".config/leakcheck.toml", "")?;
    says(&run(&[])?, 2, "1 known, 1 new")?;
    // And what was known of it is forgotten by an update.
    run(&["baseline", "write"])?.expect(0, &["2 leaks of 1 test known"])?;
    package.write(".config/leakcheck.toml", rule)?;
    run(&["baseline", "update"])?.expect(0, &["1 leak of 1 test known (written)"])
}

/// What a run does not look at is neither fixed nor forgotten.
fn not_looked_at(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, WITHIN)?;
    let run = |args: &[&str]| package.run_with(workshop, args, &[("BLOCKS", "1"), ("FILES", "1")]);
    run(&["baseline", "write"])?.expect(0, &["2 leaks of 1 test known"])?;
    says(&run(&["--no-fds"])?, 0, "1 known")?;
    run(&["baseline", "update", "--no-fds"])?.expect(0, &["2 leaks of 1 test known (as before)"])?;
    run(&["baseline", "write", "--no-fds"])?.expect(0, &["2 leaks of 1 test known (as before)"])?;
    says(&run(&[])?, 0, "2 known")
}

fn mistakes(workshop: &Workshop) -> Outcome {
    let package = Package::new(workshop, OLD)?;
    package.write(FILE, "{}")?;
    for args in [&[][..], &["baseline", "update"]] {
        package.run(workshop, args)?.expect(11, &[FILE, "no baseline: missing field `format`"])?;
    }
    // Writing replaces only what is one.
    package.run(workshop, &["baseline", "write"])?.expect(11, &[FILE, "no baseline"])?;
    package.run(workshop, &["baseline", "write", "--no-baseline"])?.expect(11, &["--no-baseline"])?;
    package
        .run(workshop, &["--baseline", "none.json"])?
        .expect(11, &["none.json: there is no such baseline"])?;
    let pipe = package.path("pipe");
    make_pipe(&pipe)?;
    package.run(workshop, &["--baseline", "pipe"])?.expect(11, &["pipe: is no file"])?;
    package.run(workshop, &["clean", "baseline"])?.expect(11, &["`baseline` comes first"])
}

fn make_pipe(path: &camino::Utf8Path) -> Outcome {
    let made = std::process::Command::new("mkfifo").arg(path).status();
    match made {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("mkfifo: {other:?}")),
    }
}
