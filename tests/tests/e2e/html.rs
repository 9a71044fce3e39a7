//! The page in a real browser, from a file: what it shows, by mouse and keyboard, and that it asks for nothing.

use leakcheck_tests::browser::Browser;
use leakcheck_tests::many;
use leakcheck_tests::marker::Kind;
use leakcheck_tests::report::Report;
use leakcheck_tests::tool::Workshop;
use serde_json::json;

use crate::fixtures::Desk;
use crate::nextest::in_fixtures;
use crate::{NamedTrial, Outcome, documents};

/// Name and body of each trial.
pub const TRIALS: &[NamedTrial] = &[
    ("html::findings_of_a_run", findings_of_a_run),
    ("html::tests_and_what_they_left", tests_and_what_they_left),
    ("html::growth_of_a_test", growth_of_a_test),
    ("html::what_is_accepted_and_new", what_is_accepted_and_new),
    ("html::names_stay_text", names_stay_text),
    ("html::dark_and_light", dark_and_light),
    ("html::ten_thousand", ten_thousand),
];

/// A run on a fixture, its page opened.
fn opened(workshop: &Workshop, package: &str) -> Result<(Desk, Report, Browser), String> {
    let desk = Desk::new(workshop, package)?;
    let page = desk.file("report.html");
    // In the folder of the fixtures, so that paths are as a user has them.
    let json = desk.file("report.json");
    let args = ["--package", package, "--html", page.as_str(), "--json", json.as_str()];
    let run = in_fixtures(workshop, &desk, &args, &[])?;
    let report = documents::json(&json).map_err(|problem| format!("{problem}\n{}", run.describe()))?;
    let mut browser = Browser::start(1280, 800)?;
    browser.open(page.as_std_path())?;
    Ok((desk, report, browser))
}

/// Fails unless an expression has this value.
fn expect(browser: &mut Browser, expression: &str, expected: impl Into<serde_json::Value>) -> Outcome {
    let expected = expected.into();
    let mut found = browser.value(expression)?;
    if found != expected {
        // What is typed comes to the list a moment later.
        std::thread::sleep(std::time::Duration::from_millis(300));
        found = browser.value(expression)?;
    }
    match found == expected {
        true => Ok(()),
        false => Err(format!("`{expression}` is {found} and not {expected}")),
    }
}

const COUNT: &str = "document.getElementById('count').textContent";
const SELECTED: &str = "[...document.querySelectorAll('.row')].findIndex(row => row.ariaSelected === 'true')";
const FOCUSED: &str = "document.activeElement.id";
const TITLE: &str = "document.querySelector('#detail h2').textContent";

/// No script has failed, nothing was written to the console, nothing was asked for.
fn in_order(browser: &mut Browser) -> Outcome {
    let problems = browser.problems()?;
    if problems.is_empty() { Ok(()) } else { Err(format!("the page: {problems:#?}")) }
}

fn findings_of_a_run(workshop: &Workshop) -> Outcome {
    let (_desk, report, mut browser) = opened(workshop, "forget")?;
    let browser = &mut browser;
    let findings: Vec<_> = report.tests.iter().flat_map(|test| &test.findings).collect();
    expect(browser, COUNT, format!("{} findings", findings.len()))?;
    let leaking = report.tests.iter().filter(|test| test.verdict == "leaks").count();
    expect(browser, "document.querySelector('[data-tile=leaking] b').textContent", leaking.to_string())?;
    // The largest comes first, with the line of its source.
    let largest = findings.iter().max_by_key(|finding| finding.bytes).ok_or("no findings")?;
    expect(
        browser,
        "document.querySelector('.row .first').textContent.replace(',', '')",
        format!("{} B", largest.bytes),
    )?;
    let site =
        largest.site.as_ref().and_then(|site| Some((site.file.as_ref()?, site.line?))).ok_or("no site")?;
    let source =
        fs_err::read_to_string(workshop.fixtures().join(site.0)).map_err(|problem| problem.to_string())?;
    let line = source.lines().nth(site.1 - 1).ok_or("no such line")?;
    let shown = browser.text("document.querySelector('#detail .src.here').textContent")?;
    if !shown.contains(line.trim()) {
        return Err(format!("{line:?} is not shown: {shown:?}"));
    }

    // The mouse: another finding; frames that are folded.
    browser.click(".row:nth-child(3)")?;
    expect(browser, SELECTED, 2)?;
    let before = browser.value("document.querySelectorAll('#detail .stack li').length")?;
    let fold = browser.text("document.querySelector('.fold').textContent")?;
    let frames: u64 = fold.split(' ').nth(1).and_then(|number| number.parse().ok()).ok_or(fold)?;
    browser.click(".fold")?;
    let after = before.as_u64().unwrap_or_default() + frames - 1;
    expect(browser, "document.querySelectorAll('#detail .stack li').length", after)?;

    // The keyboard.
    for (keys, selected) in [("j", 3), ("jj", 5), ("k", 4)] {
        browser.write(keys)?;
        expect(browser, SELECTED, selected)?;
    }
    browser.press("ArrowUp")?;
    expect(browser, SELECTED, 3)?;
    browser.press("Enter")?;
    expect(browser, FOCUSED, "detail")?;
    browser.press("Escape")?;
    expect(browser, FOCUSED, "rows")?;
    browser.press("/")?;
    expect(browser, FOCUSED, "search")?;
    browser.write("nested_lists")?;
    expect(browser, COUNT, format!("2 of {} findings", findings.len()))?;
    expect(browser, TITLE, "72 B in 1 block")?;
    browser.write(" indirectly")?;
    expect(browser, COUNT, format!("1 of {} findings", findings.len()))?;
    expect(browser, TITLE, "60 B in 3 blocks")?;
    // The leak root is another call in the same function.
    let hangs = "document.getElementById('detail').textContent.includes('Hangs below what was allocated at')";
    expect(browser, hangs, true)?;
    browser.press("Escape")?;
    expect(browser, COUNT, format!("{} findings", findings.len()))?;
    browser.press("Escape")?;

    // Kinds can be left out.
    let number = findings.iter().filter(|finding| finding.kind == Kind::DefinitelyLost).count();
    browser.click("[data-filter=definitely_lost]")?;
    expect(browser, COUNT, format!("{} of {} findings", findings.len() - number, findings.len()))?;
    browser.click("[data-filter=definitely_lost]")?;

    // The flame graph has all bytes; a click goes to a test, Escape back.
    let bytes: u64 = findings.iter().map(|finding| finding.bytes).sum();
    browser.write("3")?;
    let all = "document.querySelector('.flame .bar').title.replaceAll(',', '')";
    if !browser.text(all)?.starts_with(&format!("all: {bytes} B")) {
        return Err(format!("not {bytes} bytes in all: {}", browser.text(all)?));
    }
    let width = "Math.round(100 * document.querySelector('.flame .bar.test:nth-child(2)').offsetWidth / document.querySelector('.flame').offsetWidth)";
    let narrow = browser.value(width)?;
    browser.click(".flame .bar.test:nth-child(2)")?;
    expect(browser, width, 100)?;
    browser.press("Escape")?;
    expect(browser, width, narrow)?;
    // What was checked.
    browser.write("4")?;
    let checked = browser.text("document.getElementById('whole').innerText")?;
    for part in [report.recorder.as_str(), "eBPF", "forget", "Nothing was left out."] {
        if !checked.contains(part) {
            return Err(format!("`{part}` is not in {checked}"));
        }
    }
    in_order(browser)
}

/// The picture and the places of what grows, as on the terminal.
fn growth_of_a_test(workshop: &Workshop) -> Outcome {
    let (_desk, _, mut browser) = opened(workshop, "growth")?;
    browser.write("2")?;
    browser.write("/growing_vector")?;
    browser.wait("document.querySelector('#detail h2')?.textContent === 'growing_vector'")?;
    let shown = browser.text("document.getElementById('detail').innerText")?;
    let picture = "▁▁▁▁▁▁▁▁▃▃▃▃▃▃▃▃▇▇▇▇ 256 B alive after 20 iterations · 3 of 20 to warm up";
    for part in
        ["grows in steps: 224 B in 3 of 17 iterations", picture, "256 B at the end", "growth/src/lib.rs:65"]
    {
        if !shown.contains(part) {
            return Err(format!("`{part}` is not in {shown}"));
        }
    }
    in_order(&mut browser)
}

/// Outcomes, what tests have written, descriptors, double frees.
fn tests_and_what_they_left(workshop: &Workshop) -> Outcome {
    let (_desk, report, mut browser) = opened(workshop, "endings")?;
    let failed = report.tests.iter().filter(|test| test.outcome != "passed").count();
    browser.click("[data-tile=failed]")?;
    expect(&mut browser, COUNT, format!("{failed} of {} tests", report.tests.len()))?;
    browser.write("/fail panics")?;
    browser.wait("document.querySelector('#detail h2')?.textContent === 'panics'")?;
    browser.press("Enter")?;
    let shown = browser.text("document.getElementById('detail').innerText")?;
    if !shown.contains("on purpose") || !shown.contains("exit code 101") {
        return Err(format!("what a test has written is not shown: {shown}"));
    }
    in_order(&mut browser)?;

    let (_desk, _, mut browser) = opened(workshop, "descriptors")?;
    browser.write("2")?;
    browser.click("[data-tile=leaking]")?;
    let shown = browser.text("document.getElementById('detail').innerText")?;
    if !shown.to_lowercase().contains("descriptors left open") || !shown.contains("descriptors/src/lib.rs:") {
        return Err(format!("descriptors are not shown: {shown}"));
    }
    in_order(&mut browser)?;

    let (_desk, _, mut browser) = opened(workshop, "bad-free")?;
    browser.write("/double free")?;
    browser.wait(&format!("{COUNT}.includes(' of ')"))?;
    let shown = browser.text("document.getElementById('detail').innerText")?.to_lowercase();
    for part in ["freed at", "freed first at", "allocated at"] {
        if !shown.contains(part) {
            return Err(format!("`{part}` is not shown: {shown}"));
        }
    }
    in_order(&mut browser)
}

/// What a baseline knows is out of sight until it is asked for; and what a later version may say of a finding is shown.
fn what_is_accepted_and_new(workshop: &Workshop) -> Outcome {
    let (desk, report, mut browser) = opened(workshop, "forget")?;
    let failed = |problem: std::io::Error| problem.to_string();
    let json = desk.file("report.json");
    let text = fs_err::read_to_string(&json).map_err(failed)?;
    let mut document: serde_json::Value =
        serde_json::from_str(&text).map_err(|problem| problem.to_string())?;
    for test in document["tests"].as_array_mut().ok_or("no tests")? {
        test["baseline"] = json!({"known": 0, "grown": 0, "new": 1, "fixed": 0});
        if test["name"] == "box_leak" {
            let row = json!({"list": "findings", "place": 0, "bytes": 4096, "blocks": 1, "by": "baseline"});
            test["accepted"] = json!([row]);
        }
    }
    fs_err::write(&json, document.to_string()).map_err(failed)?;
    let page = desk.file("accepted.html");
    in_fixtures(workshop, &desk, &["report", json.as_str(), "--html", page.as_str()], &[])?.expect(2, &[])?;
    browser.open(page.as_std_path())?;
    let browser = &mut browser;
    let all: usize = report.tests.iter().map(|test| test.findings.len()).sum();
    expect(browser, COUNT, format!("{} of {all} findings", all - 1))?;
    const BADGE: &str = "document.querySelector('.row .badge').textContent";
    expect(browser, BADGE, "new")?;
    browser.click("[data-filter=accepted]")?;
    expect(browser, COUNT, format!("{all} findings"))?;
    browser.write("/box_leak")?;
    expect(browser, COUNT, format!("1 of {all} findings"))?;
    expect(browser, BADGE, "accepted")?;
    let said =
        "document.getElementById('detail').textContent.includes('4,096 B in 1 block, by the baseline')";
    expect(browser, said, true)?;

    // In the page's own data, as the reader of reports takes nothing that it does not know.
    let text = fs_err::read_to_string(&page).map_err(failed)?;
    let text = text.replace("\"below\":", "\"type_hint\":\"Box<b>\",\"below\":");
    fs_err::write(&page, text).map_err(failed)?;
    browser.open(page.as_std_path())?;
    let said = "document.querySelector('#detail .facts').innerText.replace(/\\s+/g, ' ').includes('type hint Box<b>')";
    expect(browser, said, true)?;
    in_order(browser)
}

/// A program's name, and functions, files and threads as a report may have them.
fn names_stay_text(workshop: &Workshop) -> Outcome {
    const NAME: &str = "<img src=x onerror=hurt()><svg onload=hurt()>";
    const FUNCTION: &str = "</script><script>hurt()</script><!--<b>";
    let desk = Desk::new(workshop, "clean")?;
    let program = desk.file(NAME);
    let failed = |problem: std::io::Error| problem.to_string();
    fs_err::copy(workshop.compile("leak", &[])?, &program).map_err(failed)?;
    let (page, json) = (desk.file("report.html"), desk.file("report.json"));
    let args = ["exec", "--html", page.as_str(), "--json", json.as_str(), "--", program.as_str()];
    workshop.run(&args, &[])?.expect(2, &[])?;
    let text = fs_err::read_to_string(&json).map_err(failed)?;
    let text = text.replace("\"function\":\"lose\"", &format!("\"function\":{}", json!(FUNCTION)));
    fs_err::write(&json, text).map_err(failed)?;
    let again = desk.file("again.html");
    workshop.run(&["report", json.as_str(), "--html", again.as_str()], &[])?.expect(2, &[])?;
    let mut browser = Browser::start(1280, 800)?;
    for (page, function) in [(page, "lose"), (again, FUNCTION)] {
        browser.open(page.as_std_path())?;
        for view in ["1", "2", "3", "4"] {
            browser.press(view)?;
        }
        expect(&mut browser, "document.images.length + document.querySelectorAll('script').length", 2)?;
        browser.press("1")?;
        let frames = browser.text("document.querySelector('#detail .stack').textContent")?;
        let test = browser.text("document.querySelector('#detail .link').textContent")?;
        if !frames.contains(function) || !test.contains(NAME) {
            return Err(format!("not as text: {frames}, {test}"));
        }
        browser.press("/")?;
        browser.write("<img src=x")?;
        browser.wait("document.querySelectorAll('.row').length > 0")?;
        in_order(&mut browser)?;
    }
    Ok(())
}

/// By the system's preference, by the switch, and in pictures.
fn dark_and_light(workshop: &Workshop) -> Outcome {
    let (_desk, _, mut browser) = opened(workshop, "forget")?;
    let browser = &mut browser;
    const DARK: &str = "(() => { const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number); return r + g + b < 384; })()";
    browser.prefer("light")?;
    expect(browser, DARK, false)?;
    let light = browser.picture()?;
    browser.prefer("dark")?;
    expect(browser, DARK, true)?;
    let dark = browser.picture()?;
    browser.click("#theme")?;
    expect(browser, DARK, false)?;
    browser.write("t")?;
    expect(browser, DARK, true)?;
    // The beginning of every PNG.
    if ![&light, &dark].iter().all(|it| it.starts_with("iVBORw0KGgo")) || light == dark {
        return Err("the pictures are none, or the same".to_owned());
    }
    in_order(browser)
}

/// So many different findings are all counted, and the last one is found.
fn ten_thousand(workshop: &Workshop) -> Outcome {
    const NUMBER: usize = 10_000;
    let desk = Desk::new(workshop, "clean")?;
    let (program, page, json) = (desk.file("many"), desk.file("report.html"), desk.file("report.json"));
    many::compile(NUMBER, program.as_std_path())?;
    let args = ["exec", "--html", page.as_str(), "--json", json.as_str(), "--", program.as_str()];
    workshop.run(&args, &[])?.expect(2, &[])?;
    let report = documents::json(&json)?;
    let lost = report.tests[0].definitely_lost;
    // 1 + 2 + … + 10,000.
    if (lost.blocks, lost.bytes) != (NUMBER as u64, 50_005_000) || report.tests[0].findings.len() != NUMBER {
        return Err(format!("{lost:?} in {} findings", report.tests[0].findings.len()));
    }
    let mut browser = Browser::start(1280, 800)?;
    browser.open(page.as_std_path())?;
    expect(&mut browser, COUNT, "10,000 findings")?;
    // What is not in sight is not drawn.
    let rows = browser.value("document.querySelectorAll('.row').length")?;
    if rows.as_u64().is_none_or(|rows| !(5..60).contains(&rows)) {
        return Err(format!("{rows} rows are drawn"));
    }
    // The smallest is the last.
    browser.press("End")?;
    expect(&mut browser, TITLE, "1 B in 1 block")?;
    browser.write("/site_9999")?;
    expect(&mut browser, COUNT, "1 of 10,000 findings")?;
    expect(&mut browser, TITLE, "10,000 B in 1 block")?;
    browser.press("Escape")?;
    browser.press("Escape")?;
    browser.press("3")?;
    expect(
        &mut browser,
        "document.querySelector('.flame .bar').title.startsWith('all: 50,005,000 B')",
        true,
    )?;
    in_order(&mut browser)
}
