//! Options of the tool itself.

use super::*;

#[test]
fn defaults() {
    let options = options(&[]);
    assert_eq!(options.trace.timeout, None);
    assert_eq!(options.trace.max_blocks, 2_097_152);
    assert_eq!(options.trace.max_stacks, 65_536);
    assert_eq!(options.trace.max_threads, 16_384);
    assert_eq!(options.trace.max_bad_frees, 16_384);
    assert_eq!(options.trace.max_files, 16_384);
    assert!(options.trace.descriptors && options.trace.ipc && options.trace.files);
    assert!(!options.trace.follow_children && !options.trace.kernel_report);
    assert!(!options.trace.probe_at_entry && !options.report.timings);
    let judge = JudgeOptions {
        count: Count::Lost,
        count_failed: false,
        count_should_panic: false,
        count_bad_frees: false,
        dependencies: crate::options::Dependencies::Fail,
        fds: None,
        kernel_bytes: None,
        ipc: 0,
        children: None,
        threads: None,
        mapped_bytes: None,
        growth: None,
        peak_bytes: None,
        total_blocks: None,
    };
    assert_eq!(options.judge, judge);
    assert_eq!(options.report.color, Color::Auto);
}

#[test]
fn own_options() {
    let options = options(&[
        "--timeout",
        "2m",
        "--count",
        "outstanding",
        "--count-failed",
        "--count-should-panic",
        "--deny-bad-frees",
        "--fds",
        "2",
        "--kernel-bytes",
        "5",
        "--ipc",
        "3",
        "--children",
        "3",
        "--threads",
        "4",
        "--mapped-bytes",
        "4096",
        "--growth",
        "20",
        "--peak-bytes",
        "6",
        "--total-blocks",
        "7",
        "--json",
        "-",
        "--junit",
        "j.xml",
        "--full-stacks",
        "--max-blocks",
        "9",
        "--probe-at-entry",
        "--timings",
        "--follow-children",
    ]);
    assert_eq!(options.trace.timeout, Some(Duration::from_secs(120)));
    let judge = JudgeOptions {
        count: Count::Outstanding,
        count_failed: true,
        count_should_panic: true,
        count_bad_frees: true,
        dependencies: crate::options::Dependencies::Fail,
        fds: Some(2),
        kernel_bytes: Some(5),
        ipc: 3,
        children: Some(3),
        threads: Some(4),
        mapped_bytes: Some(4096),
        growth: Some(20),
        peak_bytes: Some(6),
        total_blocks: Some(7),
    };
    assert_eq!(options.judge, judge);
    assert_eq!(options.report.json.unwrap(), "-");
    assert_eq!(options.report.junit.unwrap(), "j.xml");
    assert!(options.report.full_stacks);
    assert_eq!(options.trace.max_blocks, 9);
    assert!(options.trace.probe_at_entry && options.report.timings && options.trace.follow_children);
}
