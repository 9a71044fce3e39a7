use serde_json::{Value, json};

use super::*;
use crate::model::{Accepted, CheckedTest, Compared, Descriptor, FindingKind, Item, Measure, Outcome};
use crate::report::testing;
use crate::snapshot::Loss;

/// The document, which the official schema accepts.
fn document(tests: Vec<CheckedTest>) -> Value {
    let document = serde_json::from_slice(&Sarif.bytes(&testing::run(tests), &testing::view())).unwrap();
    // OASIS's, from its repository `sarif-spec`.
    let schema = include_str!("../../../tests/sarif-schema-2.1.0.json");
    // One of its regular expressions has a bracket that nothing opens.
    let schema = serde_json::from_str(&schema.replace("[a-zA-Z]{2}]?$", "[a-zA-Z]{2}$")).unwrap();
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).unwrap();
    if let Err(error) = validator.validate(&document) {
        panic!("{}: {error}", error.instance_path());
    }
    document
}

#[test]
fn a_leak_is_an_error_at_its_line() {
    let document = document(vec![testing::leaking("leaks")]);
    let result = &document["runs"][0]["results"][0];
    assert_eq!(result["level"], "error");
    assert_eq!(result["message"]["text"], "4096 B definitely lost in 1 block, in test a leaks");
    let rules = &document["runs"][0]["tool"]["driver"]["rules"];
    assert_eq!(result["ruleId"], "definitely-lost");
    assert_eq!(rules[result["ruleIndex"].as_u64().unwrap() as usize]["id"], "definitely-lost");
    let place = json!({
        "artifactLocation": {"uri": "src/lib.rs", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 12, "startColumn": 9},
    });
    assert_eq!(result["locations"], json!([{"physicalLocation": place}]));
    let frames = result["stacks"][0]["frames"].as_array().unwrap();
    let names = frames.iter().map(|frame| &frame["location"]["logicalLocations"][0]["fullyQualifiedName"]);
    assert!(names.eq(["alloc::alloc::exchange_malloc", "a::tests::leaks"]));
    let std = &frames[0]["location"]["physicalLocation"]["artifactLocation"]["uri"];
    assert_eq!(std, "file:///rustc/1/library/alloc/src/alloc.rs");
}

#[test]
fn growth_is_an_error_where_it_comes_from() {
    let mut test = testing::test("grows", Outcome::Passed, Verdict::Leaks(vec!["grows".into()]));
    test.memory.left.growth = Some(testing::growth(&[24, 48, 72]));
    let within = &mut test.clone();
    within.test.budget.bytes_per_iteration = Some(24);
    let document = document(vec![test, within.clone()]);
    let results = document["runs"][0]["results"].as_array().unwrap();
    let [result] = results.as_slice() else { panic!("{results:?}") };
    assert_eq!((&result["ruleId"], &result["level"]), (&json!("growth"), &json!("error")));
    let text = "48 B added in 2 iterations: by 24 B per iteration, in test a grows";
    assert_eq!(result["message"]["text"], text);
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 12);
}

#[test]
fn what_does_not_count_is_a_note() {
    let mut within = testing::leaking("within");
    within.memory.verdict = Verdict::Clean;
    let document = document(vec![testing::failing("fails"), within]);
    let results = document["runs"][0]["results"].as_array().unwrap();
    assert!(results.iter().all(|result| result["level"] == "note") && results.len() == 2);
}

#[test]
fn what_the_code_ignores_is_suppressed_in_the_source() {
    let mut test = testing::leaking("ignored");
    test.memory.verdict = Verdict::Clean;
    let accepted =
        Accepted { measure: Measure { bytes: 4096, blocks: 1 }, by: By::Code("src/lib.rs:7".into()) };
    test.memory.acceptance.items.insert(Item::Finding(0), accepted);
    let document = document(vec![test]);
    let result = &document["runs"][0]["results"][0];
    let why = "leakcheck::ignore at src/lib.rs:7";
    assert_eq!(
        (&result["level"], &result["suppressions"]),
        (&json!("note"), &json!([{"kind": "inSource", "status": "accepted", "justification": why}]))
    );
}

/// Known, grown, not known before, and accepted by a rule.
#[test]
fn what_is_accepted_is_said() {
    let mut test = testing::leaking("leaks");
    test.memory.findings = vec![testing::finding(FindingKind::DefinitelyLost, 40); 4];
    let accepted = |bytes, blocks| Accepted { measure: Measure { bytes, blocks }, by: By::Baseline };
    let acceptance = &mut test.memory.acceptance;
    acceptance.items.insert(Item::Finding(0), accepted(40, 1));
    acceptance.items.insert(Item::Finding(1), accepted(24, 1));
    let by_rule = Accepted { by: By::Rule("init".into()), ..accepted(40, 1) };
    acceptance.items.insert(Item::Finding(3), by_rule);
    acceptance.baseline = Some(Compared::default());
    let document = document(vec![test]);
    let results = document["runs"][0]["results"].as_array().unwrap().iter();
    let seen: Vec<_> = results.map(|it| format!("{} {}", it["level"], it["baselineState"])).collect();
    assert_eq!(
        seen,
        ["\"note\" \"unchanged\"", "\"error\" \"updated\"", "\"error\" \"new\"", "\"note\" null"]
    );
    let results = &document["runs"][0]["results"];
    assert_eq!(results[3]["suppressions"][0]["justification"], "rule 'init'");
    assert_eq!(results[0].get("suppressions"), None);
}

#[test]
fn what_is_no_memory_is_there_too() {
    let mut test = testing::leaking("leaks");
    let stack = test.memory.findings.remove(0).stack;
    test.memory.findings.push(testing::finding(FindingKind::DoubleFree, 0));
    test.memory.left.descriptors = vec![Descriptor {
        numbers: vec![3],
        kind: "socket".into(),
        description: "127.0.0.1:1\n<x>".into(),
        call: Some("socket".into()),
        held_by: None,
        once: false,
        bytes: None,
        stack,
    }];
    let document = document(vec![test]);
    let said: Vec<_> =
        document["runs"][0]["results"].as_array().unwrap().iter().map(|it| &it["message"]["text"]).collect();
    let open = "descriptor left open (1 time): socket 127.0.0.1:1\\n<x>, in test a leaks";
    assert_eq!(said, ["double free (1 time), in test a leaks", open]);
}

#[test]
fn what_was_not_seen_is_said() {
    let test = testing::test("t", Outcome::Passed, Verdict::Incomplete(vec![Loss::NoBody]));
    let document = document(vec![test]);
    let invocation = &document["runs"][0]["invocations"][0];
    let said = invocation["toolExecutionNotifications"].as_array().unwrap();
    let said: Vec<_> = said.iter().map(|it| it["message"]["text"].as_str().unwrap()).collect();
    assert_eq!(
        said,
        ["a t: no test body was entered", "a: doc tests: not checked: cannot be run one by one"]
    );
    assert_eq!((&invocation["exitCode"], &invocation["executionSuccessful"]), (&json!(3), &json!(true)));
}

#[test]
fn paths_are_escaped() {
    assert_eq!(uri("src/ä b#%.rs"), "src/%C3%A4%20b%23%25.rs");
    let mut test = testing::leaking("leaks");
    let frames = test.memory.findings[0].stack.as_mut().unwrap();
    frames[1].file = Some("/w/src/a b.rs".into());
    frames[1].column = None;
    let mut nowhere = testing::leaking("nowhere");
    nowhere.memory.findings[0].stack = None;
    let document = document(vec![test, nowhere]);
    let results = &document["runs"][0]["results"];
    let location = &results[0]["locations"][0]["physicalLocation"];
    assert_eq!(location["artifactLocation"]["uri"], "src/a%20b.rs");
    assert_eq!(location["region"], json!({"startLine": 12}));
    assert_eq!(results[1]["locations"], json!([]));
}
