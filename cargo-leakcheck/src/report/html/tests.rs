//! What the page is drawn from. That a browser draws it is an end-to-end test.

use serde_json::{Value, json};

use super::*;
use crate::model::{CheckedTest, FindingKind, Outcome, Verdict};
use crate::report::{json as report_json, testing};

fn page(tests: Vec<CheckedTest>) -> String {
    String::from_utf8(Html.bytes(&testing::run(tests), &testing::view())).unwrap()
}

/// As a browser reads it: up to the first end of a script.
fn data(page: &str) -> Value {
    let data = page.split_once("<script type=\"application/json\" id=\"data\">").unwrap().1;
    serde_json::from_str(data.split_once("</script").unwrap().0).unwrap()
}

#[test]
fn a_frame_is_there_once_and_a_finding_has_the_numbers_of_its() {
    let page = page(vec![testing::leaking("one"), testing::leaking("two")]);
    let data = data(&page);
    assert_eq!(data["headline"], "2 of 2 tests leaking");
    let names = data["frames"].as_array().unwrap().iter().map(|frame| &frame["function"]);
    assert!(names.eq(["alloc::alloc::exchange_malloc", "a::tests::leaks"]));
    assert_eq!((&data["frames"][0]["family"], &data["frames"][1].get("family")), (&json!("std"), &None));
    let findings = &data["findings"];
    assert_eq!((&findings[0]["stack"], &findings[1]["stack"]), (&json!([0, 1]), &json!([0, 1])));
    assert_eq!((&findings[1]["test"], &findings[1]["bytes"]), (&json!(1), &json!(4096)));
    assert_eq!(findings[0]["site"], json!({"file": "src/lib.rs", "line": 12, "column": 9}));
    assert_eq!((&data["tests"][1]["first"], &data["tests"][1]["number"]), (&json!(1), &json!(1)));
    assert_eq!(data["tests"][0]["status"]["word"], "LEAK");
    assert_eq!(data["run"]["targets"][0]["binary"], "a");
}

/// What a report says and the page does not show by itself is there for it: nothing is taken out but this.
#[test]
fn a_test_is_what_the_report_has_of_it() {
    let test = testing::failing("fails");
    let mut expected = serde_json::to_value(report_json::test(&test, &testing::view())).unwrap();
    let mut shown = data(&page(vec![test]))["tests"][0].clone();
    for key in ["first", "number", "status"] {
        shown.as_object_mut().unwrap().remove(key).unwrap();
    }
    expected.as_object_mut().unwrap().remove("findings").unwrap();
    assert_eq!(shown, expected);
}

#[test]
fn no_name_ends_the_script() {
    let name = "</script><script>alert(1)</script><!--";
    let mut test = testing::leaking(name);
    test.memory.findings[0].stack.as_mut().unwrap()[1].function = Some(name.into());
    let page = page(vec![test]);
    assert!(!page.contains("alert(1)<"));
    assert_eq!(data(&page)["tests"][0]["name"], name);
    assert_eq!(data(&page)["frames"][1]["function"], name);
    assert_eq!(page.matches("<script").count(), 2);
}

#[test]
fn nothing_is_loaded() {
    let page = page(vec![testing::leaking("leaks")]);
    assert!(page.contains("content=\"default-src 'none';"));
    let head = page.split_once("id=\"data\"").unwrap().0;
    for what in ["src=", "@import", "url(", "http://", "https://"] {
        let places = head.matches(what).count();
        // The namespace in the icon.
        assert_eq!(places, usize::from(what == "http://"), "{what}");
    }
    let script = page.rsplit_once("<script>").unwrap().1;
    for what in ["fetch(", "XMLHttpRequest", "import(", "innerHTML", "eval(", "://"] {
        assert!(!script.contains(what), "{what}");
    }
}

#[test]
fn the_source_lines_around_own_frames_are_there_with_the_marked_place() {
    let directory = tempfile::tempdir().unwrap();
    let mut view = testing::view();
    view.own.root = directory.path().to_owned().try_into().unwrap();
    view.own.packages = vec![view.own.root.clone()];
    std::fs::write(directory.path().join("x.rs"), "1\n2\n3\n\u{1f4a7}; leak()\n5\n6\n7\n").unwrap();
    let mut test = testing::leaking("leaks");
    let frame = &mut test.memory.findings[0].stack.as_mut().unwrap()[1];
    // Columns count bytes; the drop has four, and two units of UTF-16.
    (frame.file, frame.line, frame.column) = (Some(format!("{}/x.rs", view.own.root)), Some(4), Some(7));
    let page = String::from_utf8(Html.bytes(&testing::run(vec![test]), &view)).unwrap();
    let data = data(&page);
    let lines = json!({"x.rs": {"2": "2", "3": "3", "4": "\u{1f4a7}; leak()", "5": "5", "6": "6"}});
    assert_eq!(data["sources"], lines);
    assert_eq!(data["frames"][1]["mark"], json!([4, 5]));
    assert_eq!(data["frames"][0].get("mark"), None);
}

#[test]
fn what_a_test_has_written_that_has_passed_is_left_out() {
    let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
    test.output.stdout = b"much".to_vec();
    let mut free = testing::finding(FindingKind::DoubleFree, 0);
    free.before.freed = free.stack.clone();
    test.memory.findings = vec![free];
    let data = data(&page(vec![test, testing::failing("fails")]));
    assert_eq!(data["tests"][0].get("output"), None);
    assert!(data["tests"][1]["output"]["stdout"].as_str().unwrap().starts_with("assertion"));
    assert_eq!(
        (&data["findings"][0]["freed_first"], data["findings"][0].get("allocated")),
        (&json!([0, 1]), None)
    );
}
