//! Rules: those that apply to a run, what they were for, and those by which it would pass.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;

use camino::Utf8PathBuf;

use crate::accept::things::{self, Thing};
use crate::accept::{Accepting, counting, rule, suppressions, written};
use crate::config::Config;
use crate::error::{Error, Exit, Result};
use crate::judge;
use crate::model::{
    CheckedTest, Item, Leak, Limit, Measure, OwnCode, Patterns, PlannedTest, Rule, RuleFrom, Verdict,
};
use crate::options::Options;
use crate::plan::{self, suppressions::FUNCTION};
use crate::report::Run;
use crate::sys::Patient;

/// All rules of a run of tests, the configuration's first, and what the user should know of them.
///
/// # Errors
/// A suppression file cannot be read.
pub fn all(config: &Config, tests: &[PlannedTest], options: &Options) -> Result<(Vec<Rule>, Vec<String>)> {
    let mut rules = config.rules().to_vec();
    let mut notes = Vec::new();
    let left_out = |what: String| format!("left out: {}", harmless(&what));
    for path in &options.accept.suppressions {
        let imported = suppressions::read(path)?;
        rules.extend(imported.rules);
        notes.extend(imported.left_out.into_iter().map(left_out));
    }
    let mut binaries: Vec<_> =
        tests.iter().filter(|test| !test.is_program()).map(|test| &test.binary).collect();
    binaries.dedup_by_key(|binary| &binary.path);
    for binary in binaries {
        let id = binary.id();
        let imported = plan::suppressions::of_binary(binary).and_then(|text| {
            text.map(|text| suppressions::parse(&format!("{id} {FUNCTION}"), &text))
                .transpose()
                .map_err(Error::Config)
        });
        match imported {
            Ok(None) => {}
            Ok(Some(imported)) => {
                let test = Some(format!("{id} *"));
                rules.extend(imported.rules.into_iter().map(|rule| Rule { test: test.clone(), ..rule }));
                notes.extend(imported.left_out.into_iter().map(left_out));
            }
            Err(problem) => notes.push(format!("left out: suppressions of {id}: {problem}")),
        }
    }
    for rule in rules.iter().filter(|rule| !rule.applies_on(options.accept.today)) {
        notes.push(format!("{} has expired, and is for nothing any more", called(rule)));
    }
    rules.retain(|rule| rule.applies_on(options.accept.today));
    // A rule is known by its name.
    let mut names = BTreeSet::new();
    for rule in &mut rules {
        if !names.insert(rule.name.clone()) {
            rule.name = format!("{} ({})", rule.name, rule.place).into();
            names.insert(rule.name.clone());
        }
    }
    Ok((rules, notes))
}

/// Text of a file that may be a stranger's, for a terminal.
fn harmless(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

fn called(rule: &Rule) -> String {
    format!("rule '{}' ({})", harmless(&rule.name), rule.place)
}

/// Looks for rules that were for nothing. Of a run of some tests only nobody can tell.
///
/// # Errors
/// There are some, and they are to be an error.
pub fn unused(run: &Run, rules: &[Rule], is_whole: bool, options: &Options) -> Result<Vec<String>> {
    let hits = run.tests.iter().flat_map(|test| &test.memory.acceptance.hits);
    let hits: BTreeSet<&str> = hits.map(|hit| hit.rule.as_str()).collect();
    let unused: Vec<_> = rules.iter().filter(|rule| !hits.contains(&*rule.name)).map(called).collect();
    if unused.is_empty() || run.interrupted || !is_whole {
        return Ok(Vec::new());
    }
    if options.accept.deny_unused_rules {
        let unused = unused.join(", ");
        return Err(Error::Config(format!(
            "nothing was found that these are for (--deny-unused-rules): {unused}"
        )));
    }
    let note = |rule| format!("{rule} is for nothing that was found");
    Ok(unused.into_iter().map(note).collect())
}

/// Rules by which the tests of a run would pass, as a configuration file has them.
pub fn by_which_it_passes(run: &Run, accepting: &Accepting, own: &OwnCode, profile: &str) -> String {
    let mut rules: Vec<Rule> = Vec::new();
    let mut most: BTreeMap<usize, Measure> = BTreeMap::new();
    let mut comments = BTreeSet::new();
    let leaking =
        |test: &&CheckedTest| matches!(test.memory.verdict, Verdict::Leaks(_)) && test.memory.counts;
    for hit in run.tests.iter().filter(leaking).flat_map(|test| &test.memory.acceptance.hits) {
        if let (Some(why), Some(old)) =
            (&hit.exceeded, accepting.rules().iter().find(|it| *it.name == *hit.rule))
        {
            comments.insert(format!("# the limit of {} is too low: {why}", called(old)));
        }
    }
    if run.tests.iter().any(judge::fails_anyway) {
        comments.insert(
            "# no rule is for growth, peak or totals: tests that exceed limits for those do so still"
                .to_owned(),
        );
    }
    let tests: Vec<_> = run.tests.iter().filter(leaking).map(|test| (test, test.memory.seen())).collect();
    for pass in 0..2 {
        for (test, seen) in &tests {
            let can_fail = |item: Option<Item>, leak: Leak| {
                item.is_none_or(|item| judge::can_fail(&test.test, seen, item, leak))
            };
            let mut sums: BTreeMap<usize, Measure> = BTreeMap::new();
            for thing in counting(seen, &can_fail) {
                let stack = rule::named(&thing);
                let is_for = |rule: &&Rule| rule.is_for(&test.test.id(), &thing, &stack, own);
                if accepting.rules().iter().any(|rule| is_for(&rule)) {
                    continue;
                }
                let place = rules.iter().position(|rule| is_for(&rule));
                // In the first pass all rules are made; which one is for what is known in the second. They come before the
                // baseline, so they are for what that knows as well.
                let Some(place) = place else {
                    if pass == 0 && is_counted(test, &thing) {
                        match rule_for(&thing, own) {
                            Some(rule) => rules.push(rule),
                            None => drop(
                                comments
                                    .insert("# what has no call stack cannot be said by a rule".to_owned()),
                            ),
                        }
                    }
                    continue;
                };
                let sum = sums.entry(place).or_default();
                sum.bytes += thing.measure.bytes;
                sum.blocks += if thing.root.is_none() { thing.measure.blocks } else { 0 };
            }
            for (place, sum) in sums.into_iter().filter(|_| pass == 1) {
                let most = most.entry(place).or_default();
                *most = Measure { bytes: most.bytes.max(sum.bytes), blocks: most.blocks.max(sum.blocks) };
            }
        }
    }
    for (place, most) in most {
        let bytes = rules[place].kinds.iter().all(|kind| matches!(kind, Leak::Memory(_) | Leak::Mapping));
        rules[place].limit = Limit { bytes: bytes.then_some(most.bytes), blocks: Some(most.blocks) };
    }
    let written = rules.iter().map(|rule| written::toml(rule, profile));
    comments.into_iter().map(|comment| comment + "\n").chain(written).collect::<Vec<_>>().join("\n")
}

/// Whether not all of it is accepted.
fn is_counted(test: &CheckedTest, thing: &Thing<'_>) -> bool {
    test.memory.acceptance.of(thing.item) != thing.measure
}

/// A rule for what comes from the innermost function of the user's own.
fn rule_for(thing: &Thing<'_>, own: &OwnCode) -> Option<Rule> {
    let function = things::frames(thing.origin(), own).into_iter().next();
    let library = || {
        let module = thing.origin()?.iter().find_map(|frame| frame.module.as_deref())?;
        module.rsplit('/').next().map(str::to_owned)
    };
    let patterns = match function {
        Some(function) => Patterns { function: Some(function), ..Patterns::default() },
        None => Patterns { library: Some(library()?), ..Patterns::default() },
    };
    let name = patterns.function.clone().or(patterns.library.clone()).unwrap_or_default().into();
    Some(Rule {
        name,
        place: String::new(),
        reason: "accepted by --write-rules; say why".to_owned(),
        from: RuleFrom::Frame(patterns),
        kinds: vec![thing.root_leak()],
        test: None,
        limit: Limit::default(),
        expires: None,
    })
}

/// Prints suppressions of other tools as rules, and says what of them cannot be.
///
/// # Errors
/// A file cannot be read, or nobody takes the output.
pub fn import(files: &[Utf8PathBuf]) -> Result<Exit> {
    let mut rules = Vec::new();
    for path in files {
        let imported = suppressions::read(path)?;
        imported.left_out.iter().for_each(|what| anstream::eprintln!("note: left out: {}", harmless(what)));
        rules.extend(imported.rules.iter().map(|rule| written::toml(rule, "default")));
    }
    print(&rules.join("\n"))?;
    Ok(Exit::Clean)
}

/// Writes to standard output.
///
/// # Errors
/// Nobody takes it.
pub fn print(text: &str) -> Result<()> {
    Patient(std::io::stdout())
        .write_all(text.as_bytes())
        .map_err(|source| Error::System { call: "writing rules".to_owned(), source })
}
