//! What descriptors hold in the kernel, against what the kernel says of the sizes of its slabs, and the report of its
//! allocations.

use std::ops::RangeInclusive;

use leakcheck_tests::report::{Descriptor, Report, Test};
use leakcheck_tests::tool::{Run, Workshop};

use crate::exec::exec_with;
use crate::fixtures::Desk;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("kernel_bytes::by_slabs", by_slabs),
    ("kernel_bytes::by_a_second_run", by_a_second_run),
    ("kernel_bytes::limit", limit),
    ("kernel_bytes::not_known", not_known),
    ("kernel_bytes::switched_off", switched_off),
    ("kernel_bytes::report", report),
    ("kernel_bytes::tracepoints", tracepoints),
];

/// What one object of a slab takes. Slabs of equal sizes are merged, and all of their names are there.
fn slab(name: &str) -> Result<u64, String> {
    let path = format!("/sys/kernel/slab/{name}/slab_size");
    let text = fs_err::read_to_string(path).map_err(|problem| problem.to_string())?;
    text.trim().parse().map_err(|problem| format!("slab {name}: {problem}"))
}

/// The same of a slab that only some kernels have: with security modules, or from a version on.
fn slab_if_any(name: &str) -> u64 {
    slab(name).unwrap_or(0)
}

/// What any file holds, and what all of those hold that are in no directory.
fn file() -> Result<u64, String> {
    Ok(slab("filp")? + slab_if_any("lsm_file_cache"))
}

fn file_without_directory() -> Result<u64, String> {
    Ok(file()? + slab("dentry")?)
}

/// A file with a socket: the inode is part of the socket's object.
fn socket(protocol: &str) -> Result<u64, String> {
    let inode = slab("sock_inode_cache")? + slab_if_any("lsm_inode_cache");
    Ok(file_without_directory()? + inode + slab(protocol)?)
}

fn run(workshop: &Workshop, package: &str, options: &[&str]) -> Result<(Run, Report), String> {
    Desk::new(workshop, package)?.run(workshop, options, &[])
}

fn find<'a>(report: &'a Report, name: &str) -> Result<&'a Test, String> {
    report.tests.iter().find(|test| test.name == name).ok_or(format!("no test {name}: {report:?}"))
}

/// What each descriptor of a test holds, by number.
fn held(report: &Report, name: &str) -> Result<Vec<u64>, String> {
    let test = find(report, name)?;
    let bytes: Option<Vec<u64>> = test.kernel.descriptors.iter().map(|descriptor| descriptor.bytes).collect();
    let bytes = bytes.ok_or_else(|| format!("{name}: not known: {test:?}"))?;
    match test.kernel.bytes == Some(bytes.iter().sum()) {
        true => Ok(bytes),
        false => Err(format!("{name}: the sum is {:?}, of {bytes:?}", test.kernel.bytes)),
    }
}

/// Differences, each with what was expected.
fn expect(report: &Report, expected: &[(&str, Vec<RangeInclusive<u64>>)]) -> Outcome {
    let mut problems = String::new();
    for (name, ranges) in expected {
        let found = held(report, name)?;
        let fits =
            found.len() == ranges.len() && found.iter().zip(ranges).all(|(it, range)| range.contains(it));
        if !fits {
            problems += &format!("{name}: {found:?} instead of {ranges:?}\n");
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

/// Objects of `kmalloc` have sizes of its slabs, so a structure of some size takes the next one.
fn by_slabs(workshop: &Workshop) -> Outcome {
    let exactly = |bytes: u64| bytes..=bytes;
    let (file, anonymous) = (file()?, file_without_directory()?);
    // Unix sockets of both kinds have the same structure.
    let (unix, tcp) = (socket("UNIX-STREAM").or_else(|_| socket("UNIX"))?, socket("TCP")?);
    let unix_part = slab("UNIX-STREAM").or_else(|_| slab("UNIX"))?;
    // What stands for a port may have been there before, from a connection of another test.
    let buckets = slab("tcp_bind_bucket")? + slab_if_any("tcp_bind2_bucket");
    let bound = tcp..=tcp + buckets;
    // 16 buffers of 40 bytes are in kmalloc-1k. `struct pipe_inode_info` has 136 to 256 bytes in all kernels so far: 192
    // or 256.
    let inode = slab("inode_cache")? + slab_if_any("lsm_inode_cache");
    let pipe = anonymous + inode + 1024;
    // Its inode is of a file system, but in no directory.
    let memfd = anonymous + slab("shmem_inode_cache")? + slab_if_any("lsm_inode_cache");
    // A packet of 5000 bytes: its head, and from `kmalloc` what the kernel does not put into pages of their own.
    let packet = slab("skbuff_head_cache")?;
    // `struct eventpoll` has 129 to 256 bytes, `struct eventfd_ctx` 33 to 64.
    let (epoll, eventfd) = (anonymous + 192..=anonymous + 256, anonymous + 64);
    // What is watched, and the entry in its queue; at what is watched, the head of a list.
    let watch = slab("eventpoll_epi")? + slab("eventpoll_pwq")?;
    let watched = slab_if_any("ep_head");
    let expected = [
        ("file", vec![exactly(file)]),
        ("file_closed", vec![]),
        ("files_after_many_closed", vec![exactly(file); 3]),
        ("pipe", vec![pipe + 192..=pipe + 256, exactly(file)]),
        ("pipe_closed", vec![]),
        ("socketpair", vec![exactly(unix); 2]),
        ("socketpair_half_closed", vec![exactly(unix + unix_part)]),
        ("socketpair_with_something_in_it", vec![exactly(unix), unix + packet..=unix + packet + 8192]),
        ("socketpair_closed", vec![]),
        ("tcp", vec![bound.clone(), bound.clone(), exactly(tcp)]),
        ("tcp_closed", vec![]),
        ("tcp_from_a_child", vec![bound]),
        ("epoll", vec![epoll.clone()]),
        (
            "epoll_that_watches",
            vec![epoll.start() + watch..=epoll.end() + watch + 128, eventfd..=eventfd + watched + 128],
        ),
        ("epoll_closed", vec![]),
        ("eventfd", vec![exactly(eventfd)]),
        ("eventfd_closed", vec![]),
        ("memfd", vec![exactly(memfd)]),
        ("within_the_budget", vec![exactly(file)]),
        ("over_the_budget", vec![exactly(file)]),
    ];
    for jobs in ["-j1", "-j8"] {
        let (run, report) = run(workshop, "kernel-bytes", &[jobs])?;
        let described = |problem| format!("{jobs}: {problem}\n{}", run.describe());
        expect(&report, &expected).map_err(described)?;
        let over = format!("{file} B held in the kernel by 1 descriptor (budget 100 B)");
        run.expect(2, &[&over])?;
        match report.tests.len() == expected.len() {
            true => {}
            false => return Err(format!("{} tests", report.tests.len())),
        }
    }
    Ok(())
}

/// What a second run says is what the first would have said.
fn by_a_second_run(workshop: &Workshop) -> Outcome {
    let (first, once) = run(workshop, "descriptors", &["--kernel-bytes", "9999999"])?;
    let (second, twice) = run(workshop, "descriptors", &[])?;
    let note = "run once more, to say what the descriptors that were left open hold in the kernel";
    match (first.stderr.contains(note), second.stderr.contains(note)) {
        (false, true) => {}
        _ => return Err(format!("{}\n{}", first.describe(), second.describe())),
    }
    // What a test may leave is not weighed.
    for test in once.tests.iter().filter(|test| test.verdict == "leaks") {
        let judged = |report: &Report| -> Result<Vec<Option<u64>>, String> {
            let all = &find(report, &test.name)?.kernel.descriptors;
            // A port's part may be another's.
            let same = |it: &&Descriptor| !it.once && !it.description.starts_with("tcp");
            Ok(all.iter().filter(same).map(|descriptor| descriptor.bytes).collect())
        };
        let (one, two) = (judged(&once)?, judged(&twice)?);
        if one != two || one.contains(&None) {
            return Err(format!("{}: {one:?} and {two:?}", test.name));
        }
    }
    // What file systems keep for all is not counted: 100 files of one name hold 100 times what one does.
    let all: u64 = held(&twice, "in_a_loop")?.iter().sum();
    second.expect(2, &[&format!("100 descriptors left open, holding {all} B in the kernel (budget 0)")])?;
    match all == 100 * held(&twice, "file_forgotten")?[0] {
        true => Ok(()),
        false => Err(format!("100 files hold {all} B\n{}", second.describe())),
    }
}

/// The limit is inclusive, and programs are judged by it as well.
fn limit(workshop: &Workshop) -> Outcome {
    let exact = file()?;
    for (limit, code) in [(exact, 0), (exact - 1, 2)] {
        let limit = limit.to_string();
        let options = ["--fds", "1", "--kernel-bytes", &limit, "--", "--exact", "file"];
        let (run, _) = run(workshop, "kernel-bytes", &options)?;
        run.expect(code, &[])?;
    }
    let program = workshop.compile("open", &[])?;
    let (run, test) = exec_with(workshop, &["--kernel-bytes", "1"], &[program.as_str()])?;
    let held = test.kernel.bytes.ok_or_else(|| format!("{test:?}"))?;
    run.expect(2, &[&format!("{held} B held in the kernel by 2 descriptors (budget 1 B)")])
}

/// Where the table is too small nothing is said, and there is no verdict on a limit.
fn not_known(workshop: &Workshop) -> Outcome {
    // 400 objects at most, and each of the 100 files has more than 4.
    let few = ["--max-files", "100", "--kernel-bytes", "9999999", "in_a_loop"];
    let (run, report) = run(workshop, "descriptors", &few)?;
    run.expect(10, &["what its descriptors hold in the kernel is not known", "--max-files"])?;
    match report.tests[0].kernel.bytes {
        None => Ok(()),
        Some(bytes) => Err(format!("{bytes} B\n{}", run.describe())),
    }
}

fn switched_off(workshop: &Workshop) -> Outcome {
    let (run, report) = run(workshop, "descriptors", &["--no-kernel-bytes", "in_a_loop"])?;
    run.expect(2, &["100 descriptors left open (budget 0)"])?;
    let off = report.steering.checks_off.iter().any(|check| check.contains("hold in the kernel"));
    let is_silent = !run.stderr.contains("once more");
    match report.tests[0].kernel.bytes.is_none() && off && is_silent {
        true => Ok(()),
        false => Err(run.describe()),
    }
}

/// Every file is in the report, with the system call that has made it; what was closed is freed.
fn report(workshop: &Workshop) -> Outcome {
    let options =
        ["--kernel-report", "--", "--exact", "file_closed", "in_a_loop", "reopened_at_the_same_address"];
    let (run, report) = run(workshop, "descriptors", &options)?;
    run.expect(2, &["kernel allocations, for information"])?;
    let size = slab("filp")?;
    for (name, made, left) in
        [("file_closed", 1, 0), ("in_a_loop", 100, 100), ("reopened_at_the_same_address", 101, 1)]
    {
        let test = find(&report, name)?;
        let report = test.kernel.report.as_ref().ok_or("no report")?;
        let total = report.totals.iter().find(|total| {
            // Which of the two it is depends on the compiler.
            total.call.as_deref() == Some("openat")
                && ["alloc_empty_file", "__alloc_file"].contains(&&*total.function)
        });
        let seen = total.map(|total| (total.objects, total.bytes));
        // A walk along a path that meets a change is begun again, up to twice, with a new file
        // (fs/namei.c, do_filp_open).
        let made = made..=3 * made;
        let all_made = total.is_some_and(|total| made.contains(&total.allocated_objects));
        if seen != Some((left, left * size)) || !all_made || report.lost != 0 {
            return Err(format!("{name}: {made:?}: {seen:?}: {report:?}"));
        }
    }
    let program = workshop.compile("phases", &["-pthread"])?;
    let few = ["--kernel-report", "--max-files", "20"];
    let (run, test) = exec_with(workshop, &few, &[program.as_str(), "1"])?;
    let lost = test.kernel.report.as_ref().map_or(0, |report| report.lost);
    match lost > 0 && run.describe().contains("found no room in a table") {
        true => Ok(()),
        false => Err(format!("{lost} lost\n{}", run.describe())),
    }
}

/// What the whole machine's kernel meets is attached where it is asked for: a program looks at the descriptors of what
/// traces it.
fn tracepoints(workshop: &Workshop) -> Outcome {
    let look =
        "cat /proc/$PPID/fdinfo/* 2>/dev/null | sed -n 's/^tp_name:[[:space:]]*//p' | grep -v sched_ | sort";
    for (options, expected) in [
        (&[][..], "kmem_cache_alloc\n"),
        (&["--no-fds"], ""),
        (
            &["--kernel-bytes", "9999999"],
            "kfree\nkmalloc\nkmem_cache_alloc\nkmem_cache_alloc\nkmem_cache_free\n",
        ),
        (&["--kernel-report"], "kfree\nkmalloc\nkmem_cache_alloc\nkmem_cache_alloc\nkmem_cache_free\n"),
    ] {
        let (run, _) = exec_with(workshop, options, &["/bin/sh", "-c", look])?;
        if run.stdout != expected {
            return Err(format!("{options:?}: {expected:?} was expected\n{}", run.describe()));
        }
    }
    Ok(())
}
