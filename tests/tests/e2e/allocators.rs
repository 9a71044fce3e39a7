//! Other allocators than the shared C library's, preloaded and linked, and executables without a loader.

use camino::Utf8Path;
use fs_err as fs;
use leakcheck_tests::compare;
use leakcheck_tests::fixture::Fixture;
use leakcheck_tests::marker::Amount;
use leakcheck_tests::report::{Measure, Test};
use leakcheck_tests::tool::{Run, Workshop};

use crate::exec::exec;
use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("allocators::of_static_tests", of_static_tests),
    ("allocators::of_optimized_tests", of_optimized_tests),
    ("allocators::of_tests_optimized_by_profiles", of_tests_optimized_by_profiles),
    ("allocators::of_tests_optimized_otherwise", of_tests_optimized_otherwise),
    ("allocators::of_static_programs", of_static_programs),
    ("allocators::of_musl", of_musl),
    ("allocators::of_libraries", of_libraries),
    ("allocators::of_stripped_programs", of_stripped_programs),
    ("allocators::named_and_unnamed", named_and_unnamed),
    ("allocators::said_everywhere", said_everywhere),
    ("allocators::preloaded_into_tests", preloaded_into_tests),
];

/// Test binaries without a loader. (snmalloc's crate links a library that there is only a shared one of.)
fn of_static_tests(workshop: &Workshop) -> Outcome {
    let mut fixture = Fixture::read(&workshop.fixtures().join("other-allocators"))?;
    fixture.tests.retain(|(binary, _), _| !binary.ends_with("snmalloc"));
    let mut targets = vec!["--lib"];
    for name in ["system", "wrapper", "bump", "arena", "jemalloc", "mimalloc"] {
        targets.extend(["--test", name]);
    }
    let variables = [("RUSTFLAGS".to_owned(), "-Ctarget-feature=+crt-static".to_owned())];
    let desk = Desk::new(workshop, "other-allocators")?;
    let (run, report) = desk.run(workshop, &targets, &variables)?;
    let differences = compare::report(&fixture, &report);
    let told =
        |test: &Test| test.recorder_reason.as_ref().is_some_and(|why| why.contains("statically linked"));
    match differences.is_empty() && report.tests.iter().all(told) {
        true => run.expect(fixture.exit, &[]),
        false => Err(format!("{differences}\n{}", run.describe())),
    }
}

/// What the optimizer would make part of callers, or leave out, is kept as it is.
fn of_optimized_tests(workshop: &Workshop) -> Outcome {
    let fixture = Fixture::read(&workshop.fixtures().join("other-allocators"))?;
    let (run, report) = Desk::new(workshop, "other-allocators")?.run(workshop, &["--release"], &[])?;
    let differences = compare::report(&fixture, &report);
    match differences.is_empty() {
        true => run.expect(fixture.exit, &[]),
        false => Err(format!("{differences}\n{}", run.describe())),
    }
}

/// The fixture's allocators that are written by hand, as a workspace of their own, which is built soon.
fn by_hand(workshop: &Workshop, folder: &Utf8Path) -> Result<(Fixture, Desk), String> {
    let from = workshop.fixtures().join("other-allocators");
    let mut fixture = Fixture::read(&from)?;
    let problem = |problem: std::io::Error| problem.to_string();
    fs::create_dir_all(folder.join("tests")).map_err(problem)?;
    for path in ["build.rs", "src", "c"] {
        std::os::unix::fs::symlink(from.join(path), folder.join(path)).map_err(problem)?;
    }
    for file in BY_HAND.map(|name| format!("tests/{name}.rs")) {
        fs::copy(from.join(&file), folder.join(&file)).map_err(problem)?;
    }
    fs::copy(workshop.fixtures().join("Cargo.lock"), folder.join("Cargo.lock")).map_err(problem)?;
    let manifest = fs::read_to_string(from.join("Cargo.toml")).map_err(problem)?;
    let (manifest, _) = manifest.split_once("[dev-dependencies]").unwrap_or((&manifest, ""));
    fs::write(folder.join("Cargo.toml"), format!("{manifest}[workspace]\n")).map_err(problem)?;
    fixture.tests.retain(|(binary, _), _| BY_HAND.iter().any(|name| binary.ends_with(name)));
    let target = folder.join("target");
    let desk = Desk::of(workshop, &folder.join("Cargo.toml"), &target, "other-allocators")?;
    Ok((fixture, desk))
}

/// Allocators that need no other crate.
const BY_HAND: [&str; 4] = ["system", "wrapper", "bump", "arena"];

/// The same where each crate is optimized with those that it uses (`lto = "thin"`), and where small code is wanted.
fn of_tests_optimized_by_profiles(workshop: &Workshop) -> Outcome {
    let (fixture, desk) = by_hand(workshop, &workshop.path().join("profiles"))?;
    for setting in ["lto='thin'", "opt-level='z'", "panic='abort'"] {
        let setting = format!("profile.release.{setting}");
        let (run, report) = desk.run(workshop, &["--release", "--config", &setting], &[])?;
        let differences = compare::report(&fixture, &report);
        if !differences.is_empty() {
            return Err(format!("{setting}: {differences}\n{}", run.describe()));
        }
        run.expect(fixture.exit, &[])?;
    }
    Ok(())
}

/// Where the functions are part of their callers after all, or lack arguments, nothing is called clean that is not, and
/// the report says what to do.
fn of_tests_optimized_otherwise(workshop: &Workshop) -> Outcome {
    let folder = workshop.path().join("otherwise");
    let (fixture, desk) = by_hand(workshop, &folder)?;
    let (run, report) = desk.run(workshop, &["--release", "--config", "profile.release.lto='fat'"], &[])?;
    unseen_or_exact(&fixture, &report.tests, "`lto = \"thin\"`")
        .map_err(|it| format!("{it}\n{}", run.describe()))?;
    run.expect(10, &["allocator not covered", "`lto = \"thin\"`"])?;

    // What does nothing with a block is not called.
    let bump = fs::read_to_string(folder.join("tests/bump.rs")).map_err(|problem| problem.to_string())?;
    let idle = bump.replace("black_box(block);", "let _ = block;");
    fs::write(folder.join("tests/bump.rs"), idle).map_err(|problem| problem.to_string())?;
    let (run, report) = desk.run(workshop, &["--release", "--test", "bump"], &[])?;
    match report.tests.iter().all(|test| test.verdict == "incomplete") {
        true => run.expect(10, &["allocator not covered", "have it call `std::hint::black_box(block)`"])?,
        false => return Err(run.describe()),
    }
    fs::write(folder.join("tests/bump.rs"), bump).map_err(|problem| problem.to_string())?;

    // Built by flags of others, and started by the runner.
    let manifest = folder.join("Cargo.toml");
    let (results, tool) = (desk.file("results"), workshop.tool()?);
    fs::create_dir(&results).map_err(|problem| problem.to_string())?;
    let mut command = workshop.outside("cargo");
    command.args(["test", "--release", "--no-fail-fast", "--manifest-path", manifest.as_str()]);
    command.env("CARGO_TARGET_DIR", folder.join("plain")).env("LEAKCHECK_RESULTS", &results);
    command.env("RUSTFLAGS", "-g -Cforce-frame-pointers=yes -Cstrip=none").env("CFLAGS", "-g");
    command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", format!("{tool} exec --runner --"));
    let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
    let run = Run::new(format!("{command:?}"), output);
    let mut tests = Vec::new();
    for entry in fs::read_dir(&results).map_err(|problem| problem.to_string())? {
        let path = entry.map_err(|problem| problem.to_string())?.path();
        let path = Utf8Path::from_path(&path).ok_or("a name that is not UTF-8")?.to_owned();
        tests.extend(crate::documents::json(&path)?.tests);
    }
    unseen_or_exact(&fixture, &tests, "cargo leakcheck show-env")
        .map_err(|it| format!("{it}\n{}", run.describe()))
}

/// Each test of the fixture is as announced, or incomplete with this advice; some are.
fn unseen_or_exact(fixture: &Fixture, tests: &[Test], advice: &str) -> Outcome {
    let mut unseen = 0;
    for test in tests {
        let expected = fixture.tests.get(&(test.binary.clone(), test.name.clone()));
        let expected = expected.ok_or_else(|| format!("{} is not the fixture's", test.name))?;
        let (differences, told) = (compare::test(expected, test), format!("{:?}", test.losses));
        let told_so = test.verdict == "incomplete" && told.contains(&*advice.replace('"', "\\\""));
        unseen += usize::from(told_so);
        if !differences.is_empty() && !told_so {
            return Err(format!("{} {}: {differences}{told}", test.binary, test.name));
        }
    }
    match (tests.len() == fixture.tests.len(), unseen) {
        (true, 1..) => Ok(()),
        (_, unseen) => Err(format!("{} tests of {}, {unseen} unseen", tests.len(), fixture.tests.len())),
    }
}

/// All findings in the program are those of its comments, and its allocators have this name among theirs. What
/// the constructors of allocators and of the C++ library keep, or lose, has no line in it.
fn compared(workshop: &Workshop, (run, test): (Run, Test), name: &str) -> Outcome {
    let announced = Fixture::read_program(&workshop.fixtures().join("programs/allocators.c"))?;
    let mut expected: Vec<_> = announced
        .findings
        .iter()
        .filter_map(|finding| match finding.what.amount {
            Amount::Exactly { bytes, blocks, .. } => {
                Some((finding.what.kind, bytes, blocks, Some(finding.line)))
            }
            _ => None,
        })
        .collect();
    let mut found: Vec<_> = test
        .findings
        .iter()
        .filter_map(|finding| {
            Some((finding.kind, finding.bytes, finding.blocks, finding.site.as_ref()?.line))
        })
        .collect();
    expected.sort();
    found.sort();
    let named = test.allocators.iter().any(|allocator| allocator == name);
    match found == expected && expected.len() == 5 && named && test.bad_frees == 0 && test.losses.is_empty() {
        true => run.expect(2, &[]),
        false => Err(format!("{name}: {expected:?} expected, but {test:?}\n{}", run.describe())),
    }
}

/// With tcmalloc they need its archive (Debian: libgoogle-perftools-dev).
fn of_static_programs(workshop: &Workshop) -> Outcome {
    for way in ["-static", "-static-pie"] {
        let program = workshop.compile("allocators", &[way])?;
        compared(workshop, exec(workshop, &[program.as_str()])?, "glibc")?;
    }
    let tcmalloc = ["-static", "-ltcmalloc_minimal", "-lstdc++", "-lm"];
    let program = workshop.compile("allocators", &tcmalloc)?;
    compared(workshop, exec(workshop, &[program.as_str()])?, "tcmalloc")
}

/// It needs `musl-gcc` (Debian: musl-tools).
fn of_musl(workshop: &Workshop) -> Outcome {
    let program = workshop.compile_by("musl-gcc", "allocators", &["-static"])?;
    compared(workshop, exec(workshop, &[program.as_str()])?, "musl")?;
    // Its loader is its C library, of which there can be no private copy.
    let program = workshop.compile_by("musl-gcc", "allocators", &[])?;
    exec(workshop, &[program.as_str()])?.0.expect(10, &["allocator not covered", "musl"])
}

/// They need the libraries (Debian: libjemalloc2, libmimalloc2.0, libgoogle-perftools4).
fn of_libraries(workshop: &Workshop) -> Outcome {
    let plain = workshop.compile("allocators", &[])?;
    for (name, file) in
        [("jemalloc", "libjemalloc.so.2"), ("mimalloc", "libmimalloc.so.2"), ("tcmalloc", "libtcmalloc.so.4")]
    {
        let library = Utf8Path::new("/usr/lib/x86_64-linux-gnu").join(file);
        if !library.exists() {
            return Err(format!("{library} is missing, which this trial is about"));
        }
        let linked = workshop.compile("allocators", &["-Wl,--no-as-needed", library.as_str()])?;
        compared(workshop, exec(workshop, &[linked.as_str()])?, name)?;
        let preload = format!("LD_PRELOAD={library}");
        let json = workshop.path().join(format!("{name}.json"));
        let tool = workshop.command(&["exec", "--json", json.as_str(), "--", plain.as_str()])?;
        let mut command = std::process::Command::new("env");
        let output = command.arg(&preload).arg(tool.get_program()).args(tool.get_args()).output();
        let output = output.map_err(|problem| format!("{command:?}: {problem}"))?;
        let run = Run::new(format!("{command:?}"), output);
        let mut report = crate::documents::json(&json)?;
        compared(workshop, (run, report.tests.remove(0)), name)?;
    }
    Ok(())
}

/// Nothing says where the allocator is.
fn of_stripped_programs(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("allocators", &["-static", "-s"])?;
    exec(workshop, &[program.as_str()])?
        .0
        .expect(10, &["allocator not covered", "stripped", "build it with symbols"])
}

/// An allocator under a known name, and a `malloc` that nobody has heard of.
fn named_and_unnamed(workshop: &Workshop) -> Outcome {
    for (program, flags, name) in
        [("other_allocator", &[][..], "mimalloc"), ("own_malloc", &["-fno-builtin"], "malloc of its own")]
    {
        let program = workshop.compile(program, flags)?;
        let (run, test) = exec(workshop, &[program.as_str()])?;
        let lost = test.definitely_lost == (Measure { bytes: 16, blocks: 1 });
        if !lost || !test.allocators.iter().any(|allocator| allocator == name) {
            return Err(format!("{name}: {test:?}\n{}", run.describe()));
        }
        run.expect(2, &[])?;
        let options = ["exec", "--recorder", "ledger", "--", program.as_str()];
        workshop.run(&options, &[])?.expect(10, &["allocator not covered", name])?;
    }
    Ok(())
}

/// Every report names what a test's blocks come from, whoever has chosen the recorder.
fn said_everywhere(workshop: &Workshop) -> Outcome {
    for (target, name, note) in [
        ("jemalloc", "jemalloc", "recorder uprobe: jemalloc is linked in"),
        ("bump", "bump::Bump", "recorder uprobe: rust's blocks come from bump::bump"),
    ] {
        for recorder in ["auto", "uprobe"] {
            let desk = Desk::new(workshop, "other-allocators")?;
            let args = ["--test", target, "--recorder", recorder, "empty"];
            let (run, report) = desk.run(workshop, &args, &[])?;
            let junit = fs::read_to_string(desk.file("junit.xml")).map_err(|problem| problem.to_string())?;
            let in_json = report.tests.iter().all(|test| test.allocators == [name, "glibc"]);
            if !in_json || report.tests.len() != 1 || !junit.contains(&format!("allocators: {name}, glibc")) {
                return Err(format!("{recorder}: {:?}\n{junit}\n{}", report.tests, run.describe()));
            }
            let noted = if recorder == "auto" { &[note][..] } else { &[] };
            run.expect(0, noted)?;
        }
    }
    Ok(())
}

/// An allocator that the user preloads is that of the tests, too. It needs the library (Debian: libjemalloc2).
fn preloaded_into_tests(workshop: &Workshop) -> Outcome {
    let mut fixture = Fixture::read(&workshop.fixtures().join("other-allocators"))?;
    fixture.tests.retain(|(binary, _), _| binary.ends_with("::system"));
    let library = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
    let variables = [("LD_PRELOAD".to_owned(), library.to_owned())];
    let desk = Desk::new(workshop, "other-allocators")?;
    let (run, report) = desk.run(workshop, &["--test", "system"], &variables)?;
    let differences = compare::report(&fixture, &report);
    let named = report.tests.iter().all(|test| test.allocators.iter().any(|name| name == "jemalloc"));
    match differences.is_empty() && named && !report.tests.is_empty() {
        true => run.expect(fixture.exit, &["has a malloc of its own (jemalloc)"]),
        false => Err(format!("{differences}{:?}\n{}", report.tests, run.describe())),
    }
}
