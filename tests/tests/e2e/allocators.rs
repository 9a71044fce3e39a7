//! Other allocators than the shared C library's, preloaded and linked, and executables without a loader.

use camino::Utf8Path;
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
    ("allocators::of_static_programs", of_static_programs),
    ("allocators::of_musl", of_musl),
    ("allocators::of_libraries", of_libraries),
    ("allocators::of_stripped_programs", of_stripped_programs),
    ("allocators::named_and_unnamed", named_and_unnamed),
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

/// Where the optimizer has made an allocator's functions part of their callers, nothing is called clean that is not.
fn of_optimized_tests(workshop: &Workshop) -> Outcome {
    let fixture = Fixture::read(&workshop.fixtures().join("other-allocators"))?;
    let desk = Desk::new(workshop, "other-allocators")?;
    let targets =
        ["--release", "--test", "wrapper", "--test", "bump", "--test", "arena", "--test", "jemalloc"];
    let (run, report) = desk.run(workshop, &targets, &[])?;
    for test in &report.tests {
        let expected = fixture.tests.get(&(test.binary.clone(), test.name.clone()));
        let expected = expected.ok_or_else(|| format!("{} is not the fixture's", test.name))?;
        let (differences, told) = (compare::test(expected, test), format!("{:?}", test.losses));
        let is_unseen = test.verdict == "incomplete" && told.contains("made part of their callers");
        if !differences.is_empty() && !is_unseen {
            return Err(format!("{} {}: {differences}{told}\n{}", test.binary, test.name, run.describe()));
        }
    }
    match report.tests.len() {
        24 => Ok(()),
        other => Err(format!("{other} tests of 24\n{}", run.describe())),
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
