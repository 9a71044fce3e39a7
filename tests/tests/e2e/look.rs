//! Reports for other tools and to look at: what they say is what the JSON report says, and each can be made later of that.

use camino::{Utf8Path, Utf8PathBuf};
use leakcheck_tests::report::{Report, Test};
use leakcheck_tests::tool::{Run, Workshop, repository};
use quick_xml::Reader;
use quick_xml::events::Event;
use serde_json::Value;

use crate::fixtures::Desk;
use crate::nextest::in_fixtures;
use crate::{NamedTrial, Outcome};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("look::later_as_at_once", later_as_at_once),
    ("look::of_another_folder", of_another_folder),
    ("look::several_become_one", several_become_one),
    ("look::formats_agree", formats_agree),
    ("look::to_standard_output", to_standard_output),
];

/// Formats by their options.
const FORMATS: [&str; 9] =
    ["junit", "json", "html", "sarif", "flamegraph", "folded", "peak-flamegraph", "peak-folded", "pprof"];

fn read(path: &Utf8Path) -> Result<Vec<u8>, String> {
    fs_err::read(path).map_err(|problem| problem.to_string())
}

fn text(path: &Utf8Path) -> Result<String, String> {
    String::from_utf8(read(path)?).map_err(|problem| format!("{path}: {problem}"))
}

/// A file for each format, and the options that ask for them.
fn all(desk: &Desk, name: &str) -> (Vec<Utf8PathBuf>, Vec<String>) {
    let paths: Vec<_> = FORMATS.iter().map(|format| desk.file(&format!("{name}.{format}"))).collect();
    let options =
        FORMATS.iter().zip(&paths).flat_map(|(format, path)| [format!("--{format}"), path.to_string()]);
    let options = options.collect();
    (paths, options)
}

fn strs(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

/// JUnit has the time at which it was written.
fn without_time(bytes: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let mut parts = text.split(" timestamp=\"");
    let first = parts.next().unwrap_or_default().to_owned();
    let rest = parts.map(|part| part.split_once('"').map_or(part, |(_, rest)| rest));
    rest.fold(first, |text, rest| text + rest).into_bytes()
}

/// Every report of a run with everything that a test can leave, byte for byte.
fn later_as_at_once(workshop: &Workshop) -> Outcome {
    let packages = [
        "bad-free",
        "budgets",
        "children",
        "custom-harness",
        "descriptors",
        "endings",
        "forget",
        "ipc",
        "leftovers",
        "mappings",
    ];
    for package in packages {
        let desk = Desk::new(workshop, package)?;
        let (first, options) = all(&desk, "first");
        // Not by the desk, which has its own.
        let manifest = ["--manifest-path", "Cargo.toml", "--package", package, "--timeout", "3"];
        let run = in_fixtures(workshop, &desk, &[&manifest[..], &strs(&options)].concat(), &[])?;
        let (later, options) = all(&desk, "later");
        let json = desk.file("first.json");
        let again =
            in_fixtures(workshop, &desk, &[&["report", json.as_str()][..], &strs(&options)].concat(), &[])?;
        again.expect(run.code, &[])?;
        for (first, later) in first.iter().zip(&later) {
            if without_time(read(first)?) != without_time(read(later)?) {
                return Err(format!(
                    "{package}: {later} is not {first}\n{}\n{}",
                    run.describe(),
                    again.describe()
                ));
            }
        }
    }
    Ok(())
}

/// Where there are no sources, the places in them are still known.
fn of_another_folder(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "forget")?;
    desk.run(workshop, &[], &[])?.0.expect(2, &[])?;
    let (json, sarif) = (desk.file("again.json"), desk.file("again.sarif"));
    let args = ["report", "../report.json", "--json", json.as_str(), "--sarif", sarif.as_str()];
    let mut command = workshop.command(&args)?;
    let output = command.current_dir(desk.file("tmp")).output().map_err(|problem| problem.to_string())?;
    let run = Run::new(format!("{command:?}"), output);
    run.expect(2, &["at forget::box_leak (forget/src/lib.rs:"])?;
    if read(&json)? != read(&desk.file("report.json"))? {
        return Err(format!("{json} is another document\n{}", run.describe()));
    }
    match text(&sarif)?.contains("{\"uri\":\"forget/src/lib.rs\",\"uriBaseId\":\"%SRCROOT%\"}") {
        true => Ok(()),
        false => Err("the SARIF report has no place in the sources".to_owned()),
    }
}

fn several_become_one(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "forget")?;
    desk.run(workshop, &[], &[])?;
    let other = Desk::new(workshop, "clean")?;
    other.run(workshop, &[], &[])?;
    let (one, two) = (desk.file("report.json"), other.file("report.json"));
    let merged = desk.file("merged.json");
    let args = ["report", one.as_str(), two.as_str(), "--json", merged.as_str()];
    in_fixtures(workshop, &desk, &args, &[])?.expect(2, &[])?;
    let tests = |path: &Utf8Path| Ok::<_, String>(Report::parse(&text(path)?)?.tests.len());
    match (tests(&merged)?, tests(&one)? + tests(&two)?) {
        (found, expected) if found == expected => Ok(()),
        (found, expected) => Err(format!("{found} tests instead of {expected}")),
    }?;
    in_fixtures(workshop, &desk, &["report", "none.json"], &[])?.expect(11, &["none.json"])?;
    in_fixtures(workshop, &desk, &["report"], &[])?.expect(11, &["REPORT"])
}

/// Bytes and blocks that a test has lost.
fn lost(test: &Test) -> [u64; 2] {
    let kinds = [test.definitely_lost, test.indirectly_lost, test.possibly_lost];
    [kinds.iter().map(|kind| kind.bytes).sum(), kinds.iter().map(|kind| kind.blocks).sum()]
}

/// The sums in folded stacks, in the flame graph and in the profile, and the results in SARIF.
fn formats_agree(workshop: &Workshop) -> Outcome {
    let desk = Desk::new(workshop, "forget")?;
    let (folded, svg) = (desk.file("x.folded"), desk.file("x.svg"));
    let (profile, sarif) = (desk.file("x.pb.gz"), desk.file("x.sarif"));
    let options = [
        "--folded",
        folded.as_str(),
        "--flamegraph",
        svg.as_str(),
        "--pprof",
        profile.as_str(),
        "--sarif",
        sarif.as_str(),
    ];
    let (_, report) = desk.run(workshop, &options, &[])?;
    for test in &report.tests {
        let prefix = format!("{} {};forget::{}", test.binary, test.name, test.name);
        let sum: u64 = text(&folded)?
            .lines()
            .filter(|line| line.starts_with(&prefix))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok())
            .sum();
        if sum != lost(test)[0] {
            return Err(format!("{}: {sum} bytes in folded stacks instead of {}", test.name, lost(test)[0]));
        }
    }
    let total = report.tests.iter().map(lost).fold([0, 0], |sum, it| [sum[0] + it[0], sum[1] + it[1]]);
    drawn(&text(&svg)?, total[0])?;
    profiled(workshop, &profile, total)?;
    let document: Value = serde_json::from_str(&text(&sarif)?).map_err(|problem| problem.to_string())?;
    follows_schema(&document)?;
    let results = document["runs"][0]["results"].as_array().map_or(0, Vec::len);
    let findings = report.tests.iter().flat_map(|test| &test.findings);
    let expected = findings.filter(|it| format!("{:?}", it.kind).ends_with("Lost")).count();
    match results == expected {
        true => Ok(()),
        false => Err(format!("{results} results in SARIF instead of {expected}")),
    }
}

/// The picture is XML, and its sum is this.
pub fn drawn(svg: &str, bytes: u64) -> Outcome {
    let mut reader = Reader::from_str(svg);
    let mut titles = Vec::new();
    loop {
        match reader.read_event().map_err(|problem| format!("the flame graph is no XML: {problem}"))? {
            Event::Text(text) => titles.push(String::from_utf8_lossy(&text).replace(',', "")),
            Event::Eof => break,
            _ => {}
        }
    }
    match titles.contains(&format!("all ({bytes} bytes 100%)")) {
        true => Ok(()),
        false => Err(format!("the flame graph does not sum up {bytes} bytes: {titles:?}")),
    }
}

/// What pprof itself reads.
fn profiled(workshop: &Workshop, profile: &Utf8Path, [bytes, blocks]: [u64; 2]) -> Outcome {
    let pprof = |options: &[&str]| -> Result<Run, String> {
        let mut command = workshop.outside("go");
        command.args(["tool", "pprof"]).args(options).arg(profile);
        let output =
            command.output().map_err(|problem| format!("{command:?} (as .ci/run installs it): {problem}"))?;
        let run = Run::new(format!("{command:?}"), output);
        run.expect(0, &[])?;
        Ok(run)
    };
    let raw = pprof(&["-raw"])?;
    let samples = raw.stdout.split("Samples:\n").nth(1).and_then(|rest| rest.split("Locations\n").next());
    let mut lines = samples.unwrap_or_default().lines();
    if lines.next() != Some("blocks/count bytes/bytes[dflt]") {
        return Err(raw.describe());
    }
    let mut sums = [0, 0];
    for line in lines.filter_map(|line| {
        line.split_once(": ")?
            .0
            .split_whitespace()
            .map(|it| it.parse::<u64>().ok())
            .collect::<Option<Vec<_>>>()
    }) {
        let [blocks, bytes] = line[..] else { continue };
        sums = [sums[0] + bytes, sums[1] + blocks];
    }
    if sums != [bytes, blocks] {
        return Err(format!(
            "pprof sums up {sums:?} instead of {bytes} bytes in {blocks} blocks\n{}",
            raw.describe()
        ));
    }
    // With its test's own name by the label, and the user's line.
    let top = pprof(&["-top", "-cum", "-unit=B", "-lines", "-tagfocus=test=box_leak"])?;
    let line = top.stdout.lines().find(|line| line.contains("forget::box_leak"));
    match line.is_some_and(|line| line.contains("4096B") && line.contains("forget/src/lib.rs:")) {
        true => Ok(()),
        false => Err(top.describe()),
    }
}

fn follows_schema(document: &Value) -> Outcome {
    let schema = text(&repository().join("cargo-leakcheck/tests/sarif-schema-2.1.0.json"))?;
    // One of its regular expressions has a bracket that nothing opens.
    let schema = schema.replace("[a-zA-Z]{2}]?$", "[a-zA-Z]{2}$");
    let schema = serde_json::from_str(&schema).map_err(|problem| problem.to_string())?;
    let validator = jsonschema::validator_for(&schema).map_err(|problem| problem.to_string())?;
    let problem = validator.iter_errors(document).next();
    problem.map_or(Ok(()), |problem| Err(format!("the SARIF report: {}: {problem}", problem.instance_path())))
}

/// One report may go there, and what the program writes goes elsewhere then.
fn to_standard_output(workshop: &Workshop) -> Outcome {
    let program = workshop.compile("leak", &[])?;
    let run = workshop.run(&["exec", "--folded", "-", "--", program.as_str()], &[])?;
    run.expect(2, &[])?;
    let lines: Vec<&str> = run.stdout.lines().collect();
    match lines[..] {
        [one, other]
            if one.ends_with(";main;lose;malloc 1000") || other.ends_with(";main;lose;malloc 1000") => {}
        [one] if one.ends_with(" 1100") => {}
        _ => return Err(run.describe()),
    }
    let both = ["exec", "--folded", "-", "--html", "-", "--", program.as_str()];
    workshop.run(&both, &[])?.expect(11, &["two reports go to one file"])
}
