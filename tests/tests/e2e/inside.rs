//! What a recorder inside the process could get wrong.

use leakcheck_tests::marker::Kind;
use leakcheck_tests::report::{Frame, Measure};
use leakcheck_tests::tool::{Run, Workshop};

use crate::exec::{exec, exec_with};
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("inside::many_places", many_places),
    ("inside::no_memory_left", no_memory_left),
    ("inside::few_descriptors", few_descriptors),
    ("inside::descriptors_in_use", descriptors_in_use),
    ("inside::stray_pointers", stray_pointers),
    ("inside::lost_stack", lost_stack),
    ("inside::callers", callers),
    ("inside::bypassed", bypassed),
    ("inside::before_the_entry", before_the_entry),
    ("inside::forged_records", forged_records),
    ("inside::constructors_environment", constructors_environment),
    ("inside::preloaded_by_the_user", preloaded_by_the_user),
    ("inside::next_allocator", next_allocator),
    ("inside::around_the_hooks", around_the_hooks),
    ("inside::tuned_allocator", tuned_allocator),
    ("inside::wild_frame_pointer", wild_frame_pointer),
    ("inside::misaligned_stack", misaligned_stack),
    ("inside::killed_in_walk", killed_in_walk),
    ("inside::thread_without_id", thread_without_id),
    ("inside::initial_stack", initial_stack),
];

/// Blocks of small threads, of 10,000 threads at once, on a signal's stack, in destructors and exit
/// handlers, and in a forked child, whose account is its own; also in one that a signal's handler forks
/// in the middle of a hook.
fn many_places(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("ledger", &["-pthread"])?;
    let cases = [
        ("threads", 2000 * 40, 2000),
        ("crowd", 10_000 * 40, 10_000),
        ("signal", 10 * 41, 10),
        ("late", 42 + 43, 2),
        ("fork", 44, 1),
        ("interrupted", 46, 1),
    ];
    for (way, bytes, blocks) in cases {
        let (run, test) = exec(workshop, &[program.as_str(), way])?;
        if test.definitely_lost != (Measure { bytes, blocks }) {
            return Err(format!("{way}: {test:?}\n{}", run.describe()));
        }
        run.expect(2, &[])?;
    }
    Ok(())
}

/// Where no memory is left every block is counted all the same, or the verdict is incomplete.
fn no_memory_left(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("ledger", &["-pthread"])?;
    let (run, test) = exec(workshop, &[program.as_str(), "no_memory"])?;
    let count = run.stdout.split_whitespace().next().and_then(|count| count.parse::<u64>().ok());
    let count = count.filter(|count| *count > 1000).ok_or_else(|| run.describe())?;
    let seen = test.definitely_lost.blocks + test.indirectly_lost.blocks;
    match test.verdict.as_str() {
        "incomplete" => Ok(()),
        "leaks" if seen == count => Ok(()),
        _ => Err(format!("{seen} of {count} blocks, and {}\n{}", test.verdict, run.describe())),
    }
}

/// A limit on descriptors is no reason to see nothing without saying so.
fn few_descriptors(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leak", &[])?;
    let tool = workshop.command(&["exec", "--", program.as_str()])?;
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""]).arg(tool.get_program()).args(tool.get_args());
    let output = shell.output().map_err(|problem| format!("{shell:?}: {problem}"))?;
    let run = Run::new(format!("{shell:?}"), output);
    run.expect(if run.code == 2 { 2 } else { 10 }, &[])
}

/// The program inherits descriptors with the numbers that the ledger would take, and keeps them.
fn descriptors_in_use(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leak", &[])?;
    let tool = workshop.command(&["exec", "--", "/bin/bash", "-c", "echo kept >&1000"])?;
    let file = tempfile::NamedTempFile::new_in(workshop.path()).map_err(|problem| problem.to_string())?;
    let mut shell = std::process::Command::new("/bin/bash");
    shell
        .args(["-c", "exec 1000>$0; exec \"$@\""])
        .arg(file.path())
        .arg(tool.get_program())
        .args(tool.get_args());
    shell.output().map_err(|problem| format!("{shell:?}: {problem}"))?;
    match std::fs::read_to_string(&file) {
        Ok(text) if text == "kept\n" => {}
        other => return Err(format!("descriptor 1000 was not the program's: {other:?}")),
    }
    // An empty file, of which no page can be read.
    let tool = workshop.command(&["exec", "--", program.as_str()])?;
    let mut shell = std::process::Command::new("/bin/bash");
    shell.args(["-c", "exec 1000<>$0 900<>$0; exec \"$@\"", "/dev/null"]);
    let output = shell.arg(tool.get_program()).args(tool.get_args()).output();
    Run::new(format!("{shell:?}"), output.map_err(|problem| problem.to_string())?)
        .expect(2, &["definitely lost"])
}

/// Frame pointers that are none, into memory that comes and goes.
fn stray_pointers(workshop: &Workshop) -> Outcome {
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-asynchronous-unwind-tables", "-pthread"];
    let program = workshop.compile("stray", &flags)?;
    let (run, test) = exec(workshop, &[program.as_str()])?;
    let (lost, below) = (Measure { bytes: 168, blocks: 1 }, Measure { bytes: 4 * 168, blocks: 4 });
    match test.outcome == "passed" && test.definitely_lost == lost && test.indirectly_lost == below {
        true => run.expect(2, &[]),
        false => Err(format!("{test:?}\n{}", run.describe())),
    }
}

/// Nothing that the recorder keeps is a reference.
fn lost_stack(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("lost_stack", &[])?;
    let (run, test) = exec(workshop, &[program.as_str()])?;
    match test.definitely_lost == (Measure { bytes: 65536, blocks: 1 }) {
        true => run.expect(2, &[]),
        false => Err(format!("{test:?}\n{}", run.describe())),
    }
}

/// A call stack that was recorded before is not taken for one that differs from it far out.
fn callers(workshop: &Workshop) -> Outcome {
    for flags in
        [&["-fno-omit-frame-pointer"][..], &["-O1", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"]]
    {
        let program = workshop.compile("callers", flags)?;
        let (run, test) = exec(workshop, &[program.as_str()])?;
        let below = |function: &str| -> Vec<Measure> {
            let has = |frame: &Frame| frame.function.as_deref() == Some(function);
            let findings = test.findings.iter().filter(|finding| finding.stack.iter().flatten().any(has));
            findings.map(|finding| Measure { bytes: finding.bytes, blocks: finding.blocks }).collect()
        };
        let expected = [("seldom", 600), ("often", 800)];
        if expected
            .iter()
            .any(|&(function, blocks)| below(function) != [Measure { bytes: blocks * 16, blocks }])
        {
            return Err(format!("{flags:?}: {test:?}\n{}", run.describe()));
        }
        run.expect(2, &[])?;
    }
    Ok(())
}

/// Calls that pass the recorder by make the verdict incomplete, unless they are seen all the same.
fn bypassed(workshop: &Workshop) -> Outcome {
    let library = workshop.compile("library", &["-shared", "-fPIC"])?;
    let program = workshop.compile("bypass", &["-ldl"])?;
    for way in ["deep", "other"] {
        let (run, test) = exec(workshop, &[program.as_str(), way, library.as_str()])?;
        match test.verdict.as_str() {
            "incomplete" => run.expect(10, &["allocator not covered"])?,
            _ if test.definitely_lost.bytes == 105 => run.expect(2, &[])?,
            _ => return Err(format!("{way}: {test:?}\n{}", run.describe())),
        }
    }
    Ok(())
}

/// What was allocated before the entry point, without a table of frames, spoils nothing after it.
fn before_the_entry(workshop: &Workshop) -> Outcome {
    let flags = ["-shared", "-fPIC", "-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let library = workshop.compile("library", &flags)?;
    let program = workshop.compile("early", &["-Wl,--no-as-needed", library.as_str()])?;
    let (run, test) = exec(workshop, &[program.as_str()])?;
    let source = std::fs::read_to_string(workshop.fixtures().join("programs/library.c"));
    let source = source.map_err(|problem| problem.to_string())?;
    let line = source.lines().position(|line| line.contains("the site of")).map(|line| line + 1);
    let lost = test.findings.iter().find(|finding| finding.kind == Kind::DefinitelyLost);
    let site = lost.and_then(|finding| finding.site.as_ref());
    match site.is_some_and(|site| site.line == line) {
        true => run.expect(2, &[]),
        false => Err(format!("{test:?}\n{}", run.describe())),
    }
}

/// What the process writes into its records costs the tool no more memory than there is.
fn forged_records(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("forged", &["-ldl"])?;
    let tool = workshop.command(&["exec", "--recorder", "ledger", "--", program.as_str()])?;
    let mut shell = std::process::Command::new("/bin/sh");
    shell.args(["-c", "ulimit -v 2000000; exec timeout -s KILL 60 \"$0\" \"$@\""]);
    let output = shell.arg(tool.get_program()).args(tool.get_args()).output();
    let run = Run::new(format!("{shell:?}"), output.map_err(|problem| problem.to_string())?);
    run.expect(if run.code == 2 { 2 } else { 10 }, &[])
}

/// The constructors of libraries, which run before the program, see the user's environment.
fn constructors_environment(workshop: &Workshop) -> Outcome {
    let library = workshop.compile("constructor", &["-shared", "-fPIC"])?;
    let program = workshop.compile("constructor", &["-DPROGRAM", "-Wl,--no-as-needed", library.as_str()])?;
    let preloaded = workshop.compile("library", &["-shared", "-fPIC"])?;
    let theirs = [("LD_PRELOAD".to_owned(), preloaded.to_string())];
    for (variables, expected) in [
        (&[][..], "variable not set\n".to_owned()),
        (&theirs, format!("argument {preloaded}\nvariable {preloaded}\n")),
    ] {
        let run = workshop.run(&["exec", "--", program.as_str()], variables)?;
        if !run.stdout.contains(&expected) || run.stdout.matches("argument").count() != variables.len() {
            return Err(format!("not {expected}{}", run.describe()));
        }
        run.expect(0, &[])?;
    }
    Ok(())
}

/// What the user preloads finds the C library's functions behind its own.
fn preloaded_by_the_user(workshop: &Workshop) -> Outcome {
    let library = workshop.compile("interposer", &["-shared", "-fPIC", "-ldl"])?;
    let program = workshop.compile("interposer", &["-DPROGRAM"])?;
    for recorder in ["ledger", "uprobe", "user"] {
        let variables = [("LD_PRELOAD".to_owned(), library.to_string())];
        workshop
            .run(&["exec", "--recorder", recorder, "--", program.as_str()], &variables)?
            .expect(0, &[])?;
    }
    Ok(())
}

/// A library with a `malloc` of its own, preloaded or linked, is called as without the tool.
fn next_allocator(workshop: &Workshop) -> Outcome {
    let library = workshop.compile("next", &["-DLIBRARY", "-shared", "-fPIC"])?;
    let plain = workshop.compile("next", &[])?;
    let linked = workshop.compile("next", &["-Wl,--no-as-needed", library.as_str()])?;
    let preload = [("LD_PRELOAD".to_owned(), library.to_string())];
    for recorder in ["ledger", "uprobe", "user"] {
        for (program, variables) in [(&plain, &preload[..]), (&linked, &[])] {
            let arguments = ["exec", "--recorder", recorder, "--", program.as_str(), "own"];
            let run = workshop.run(&arguments, variables)?;
            match recorder {
                "uprobe" => run.expect(2, &["105 B definitely lost in 1 block"])?,
                _ => run.expect(10, &["has a malloc of its own"])?,
            }
            if run.stderr.contains("exit code") {
                return Err(format!("not its own malloc\n{}", run.describe()));
            }
        }
    }
    Ok(())
}

/// Calls of the C library's allocator that do not come by its names are seen, or make the verdict
/// incomplete.
fn around_the_hooks(workshop: &Workshop) -> Outcome {
    let direct = workshop.compile("next", &["-DDIRECT"])?;
    let by_handle = workshop.compile("next", &["-ldl"])?;
    // What it allocates comes by the usual name, but its library may do otherwise.
    let library = workshop.compile("next", &["-DDIRECT", "-shared", "-fPIC"])?;
    let linked = workshop.compile("next", &["-ldl", "-Wl,--no-as-needed", library.as_str()])?;
    let lost = Measure { bytes: 105, blocks: 1 };
    // What passes the ledger by: a name, which is known beforehand; a handle, which is not; nothing.
    for (program, way, seen_by) in [
        (&direct, "direct", &["uprobe", "auto"][..]),
        (&linked, "program", &["uprobe", "auto"]),
        (&by_handle, "library", &["uprobe"]),
        (&by_handle, "program", &["uprobe", "auto", "ledger", "user"]),
    ] {
        for recorder in ["ledger", "uprobe", "auto", "user"] {
            let options = ["--recorder", recorder];
            let (run, test) = exec_with(workshop, &options, &[program.as_str(), way])?;
            if !seen_by.contains(&recorder) {
                run.expect(10, &["use --recorder uprobe"])?;
            } else if test.definitely_lost != lost {
                return Err(format!("{way}, {recorder}: {test:?}\n{}", run.describe()));
            } else {
                run.expect(2, &[])?;
            }
            let noted = run.stderr.contains("recorder uprobe: ");
            if noted != (recorder == "auto" && seen_by.len() == 2) {
                return Err(format!(
                    "{way}, {recorder}: another recorder was noted: {noted}\n{}",
                    run.describe()
                ));
            }
        }
    }
    Ok(())
}

/// `mallopt`, `mallinfo2`, `malloc_trim` and `malloc_usable_size` mean what they mean.
fn tuned_allocator(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("tuned", &[])?;
    for recorder in ["ledger", "uprobe"] {
        let (run, test) = exec_with(workshop, &["--recorder", recorder], &[program.as_str()])?;
        if test.outcome != "passed" || test.definitely_lost != (Measure { bytes: 10150, blocks: 3 }) {
            return Err(format!("{test:?}\n{}", run.describe()));
        }
        run.expect(2, &[])?;
    }
    Ok(())
}

/// A frame pointer may be any number in assembly code, also where the code around it keeps one.
fn wild_frame_pointer(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("wild", &[])?;
    for number in ["7fffffffffff", "ffffffffffffffff", "8000000000000000", "1"] {
        let (run, test) = exec(workshop, &[program.as_str(), number])?;
        if test.outcome != "passed" || test.definitely_lost != (Measure { bytes: 603, blocks: 1 }) {
            return Err(format!("{test:?}\n{}", run.describe()));
        }
        run.expect(2, &[])?;
    }
    Ok(())
}

/// The C library's allocator takes any stack pointer.
fn misaligned_stack(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("misaligned", &[])?;
    let (run, test) = exec(workshop, &[program.as_str()])?;
    if test.outcome != "passed" || test.definitely_lost != (Measure { bytes: 200 + 604, blocks: 2 }) {
        return Err(format!("{test:?}\n{}", run.describe()));
    }
    run.expect(2, &[])
}

/// What the ledger has on the stack refers to nothing.
fn killed_in_walk(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("killed_in_walk", &[])?;
    let (run, test) = exec_with(workshop, &["--recorder", "ledger"], &[program.as_str()])?;
    if test.outcome != "passed" || test.definitely_lost != (Measure { bytes: 700, blocks: 1 }) {
        return Err(format!("{test:?}\n{}", run.describe()));
    }
    run.expect(2, &[])
}

/// Whether the blocks of a thread count that may not ask for its id is not known to the ledger.
fn thread_without_id(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("nameless", &["-pthread"])?;
    let run = |recorder: &str| exec_with(workshop, &["--recorder", recorder], &[program.as_str()]);
    run("ledger")?.0.expect(10, &["gettid", "use --recorder uprobe"])?;
    let (run, test) = run("uprobe")?;
    match test.definitely_lost == (Measure { bytes: 105, blocks: 1 }) {
        true => run.expect(2, &[]),
        false => Err(format!("{test:?}\n{}", run.describe())),
    }
}

/// Nothing on the initial stack shows the tool: with variables, with none, and with libraries to preload.
fn initial_stack(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("auxiliary", &[])?;
    let library = workshop.compile("library", &["-shared", "-fPIC"])?;
    let preload = format!("LD_PRELOAD={library}");
    for recorder in ["ledger", "uprobe"] {
        for variables in [&["-i"][..], &["A=b"], &["-i", &preload, "A=b"]] {
            let tool = workshop.command(&["exec", "--recorder", recorder, "--", program.as_str(), "a b"])?;
            let mut command = std::process::Command::new("env");
            let output = command.args(variables).arg(tool.get_program()).args(tool.get_args()).output();
            let output = output.map_err(|problem| format!("{command:?}: {problem}"))?;
            Run::new(format!("{command:?}"), output).expect(0, &["1 clean"])?;
        }
    }
    Ok(())
}
