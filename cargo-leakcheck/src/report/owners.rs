//! Whose code has leaked: in a finding, and over a run.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::{Run, View, findings, stack, text};
use crate::judge;
use crate::model::{Finding, Frame, Owner, OwnerKind};

/// Columns of the longest bar.
const WIDTH: u64 = 32;
/// Owners that are shown.
const MOST: usize = 10;

/// `hoarder 1.0.0`
pub(super) fn name(owner: &Owner) -> String {
    let name = match (&owner.name, owner.kind) {
        (Some(name), _) => name,
        (None, OwnerKind::Workspace) => "the program",
        (None, _) => "unknown",
    };
    let version = owner.version.as_ref().map_or_else(String::new, |version| format!(" {version}"));
    text::line(&format!("{name}{version}")).into_owned()
}

/// Where code that is not the user's has allocated a block, and which line of the user's has called it.
pub(super) fn line(finding: &Finding<Vec<Frame>>, view: &View) -> Option<String> {
    let owner = &finding.origin.owner;
    let frames = finding.stack.as_deref().filter(|_| owner.is_foreign())?;
    let at = frames.iter().find(|frame| frame.own).and_then(|frame| stack::location(frame, &view.own));
    let at = at.filter(|_| owner.kind == OwnerKind::Dependency).map(|at| format!(" at {}", text::line(&at)));
    let is_users =
        |frame: &&Frame| frame.own && frame.file.as_deref().is_some_and(|file| view.own.in_workspace(file));
    let users = frames.iter().find(is_users).and_then(|frame| stack::location(frame, &view.own));
    let called = users.map(|users| format!(", called from {}", text::line(&users)));
    Some(format!("allocated in {}{}{}", name(owner), at.unwrap_or_default(), called.unwrap_or_default()))
}

/// A bar for each owner of what was leaked, the largest first; nothing where there is but one.
pub(super) fn bars(run: &Run, view: &View) -> String {
    let mut owners: BTreeMap<String, u64> = BTreeMap::new();
    for test in &run.tests {
        let leaked = test.memory.findings.iter().filter(|finding| findings::is_shown(finding, test, view));
        for finding in leaked.filter(|finding| finding.measure.bytes > 0) {
            let judged = judge::is_judged(finding, &test.test.judge);
            let aside = if judged { "" } else { ", not judged" };
            *owners.entry(name(&finding.origin.owner) + aside).or_default() += finding.measure.bytes;
        }
    }
    if owners.len() < 2 {
        return String::new();
    }
    let mut owners: Vec<(String, u64)> = owners.into_iter().collect();
    owners.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    let most = owners[0].1;
    let digits = most.to_string().len();
    let mut shown = "      Leaked by\n".to_owned();
    for (owner, bytes) in owners.iter().take(MOST) {
        shown += &format!("{:13}{bytes:>digits$} B {:32} {owner}\n", "", bar(*bytes, most, view.unicode));
    }
    let rest = &owners[owners.len().min(MOST)..];
    if !rest.is_empty() {
        let bytes: u64 = rest.iter().map(|(_, bytes)| bytes).sum();
        shown += &format!("{:13}{bytes:>digits$} B by {} more\n", "", rest.len());
    }
    shown
}

/// As long as a part is of the whole; something for anything.
fn bar(part: u64, whole: u64, unicode: bool) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let length = |cells: u64| (u128::from(part) * u128::from(cells)).div_ceil(u128::from(whole.max(1)));
    if unicode {
        let eighths = length(WIDTH * 8) as usize;
        "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
    } else {
        "#".repeat(length(WIDTH) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{FindingKind, Outcome, Verdict};
    use crate::options::Dependencies;
    use crate::report::testing;

    fn owned(kind: OwnerKind, name: &str, bytes: u64) -> Finding<Vec<Frame>> {
        let mut finding = testing::finding(FindingKind::DefinitelyLost, bytes);
        let version = (kind == OwnerKind::Dependency).then(|| "1.0.0".to_owned());
        finding.origin.owner = Owner { kind, name: Some(name.into()), version };
        finding
    }

    fn shown(findings: Vec<Finding<Vec<Frame>>>, unicode: bool, dependencies: Dependencies) -> String {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        test.memory.findings = findings;
        test.test.judge.dependencies = dependencies;
        let view = View { unicode, ..testing::view() };
        bars(&testing::run(vec![test]), &view)
    }

    #[test]
    fn bars_are_as_long_as_what_was_leaked() {
        let findings = || {
            vec![
                owned(OwnerKind::Workspace, "a", 30),
                owned(OwnerKind::Dependency, "dep\n", 100),
                owned(OwnerKind::Workspace, "a", 20),
                owned(OwnerKind::Library, "libz.so", 1),
            ]
        };
        // 32 columns for 100 bytes: 16 for 50, and one for the least.
        let full = "#".repeat(32);
        let half = "#".repeat(16);
        let expected = format!(
            "      Leaked by\n             100 B {full} dep\\n 1.0.0\n              50 B {half:32} a\n               1 B {:32} libz.so\n",
            "#"
        );
        assert_eq!(shown(findings(), false, Dependencies::Fail), expected);
        // 256 eighths for 100 bytes: 3 for one.
        let text = shown(findings(), true, Dependencies::Report);
        assert!(text.contains(&format!("100 B {} dep\\n 1.0.0, not judged\n", "█".repeat(32))), "{text}");
        assert!(text.contains(&format!("  1 B {:32} libz.so, not judged\n", "▍")), "{text}");
    }

    #[test]
    fn one_owner_needs_no_bar() {
        let one = || owned(OwnerKind::Workspace, "a", 30);
        assert_eq!(shown(vec![one(), one()], true, Dependencies::Fail), "");
        assert_eq!(shown(vec![], true, Dependencies::Fail), "");
    }

    #[test]
    fn the_users_line_is_said_beside_a_dependencys() {
        let mut finding = owned(OwnerKind::Dependency, "dep", 8);
        let users = finding.stack.as_ref().unwrap()[1].clone();
        let file = Some("/home/u/.cargo/registry/src/index-1/dep-1.0.0/src/lib.rs".to_owned());
        let theirs = Frame { file, line: Some(3), column: None, ..users };
        finding.stack.as_mut().unwrap().insert(1, theirs);
        let at = "at /home/u/.cargo/registry/src/index-1/dep-1.0.0/src/lib.rs:3";
        let expected = format!("allocated in dep 1.0.0 {at}, called from src/lib.rs:12:9");
        assert_eq!(line(&finding, &testing::view()), Some(expected));
        finding.origin.owner.kind = OwnerKind::Workspace;
        assert_eq!(line(&finding, &testing::view()), None);
    }
}
