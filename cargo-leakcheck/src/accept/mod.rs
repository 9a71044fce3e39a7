//! What of a test's leaks somebody has accepted: in the test's code, by a rule, or by the baseline. What is accepted is reported, and does not
//! count. Pure, but for reading and writing files.

pub mod baseline;
pub mod path;
pub mod rule;
pub mod suppressions;
pub mod things;
pub mod written;

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::model::{Acceptance, Accepted, By, Hit, Item, Leak, Measure, OwnCode, PlannedTest, Rule, Seen};
use crate::options::AcceptOptions;
use baseline::Baseline;
use things::{Thing, things};

/// What is accepted in a run.
#[derive(Clone, Debug, Default)]
pub struct Accepting {
    own: OwnCode,
    /// The first that is for something has it.
    rules: Vec<Rule>,
    baseline: Option<Baseline>,
}

impl Accepting {
    /// Reads what the options name. `rules` are those that apply.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense.
    pub fn new(options: &AcceptOptions, rules: Vec<Rule>, own: OwnCode) -> Result<Self> {
        let baseline = match &options.baseline {
            // What is there now is to be known from then on.
            Some(_) if options.is_write() => None,
            Some(path) => match Baseline::read(path)? {
                None if options.must_be => {
                    let reason =
                        "there is no such baseline; `cargo leakcheck baseline write` makes one".to_owned();
                    return Err(Error::Format { path: path.clone(), reason });
                }
                baseline => baseline,
            },
            None => None,
        };
        Ok(Self { own, rules, baseline })
    }

    /// The rules that apply.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What of a test's leaks is accepted. `can_fail` says of each whether it can fail the test, and of a kind whether that was
    /// looked at and can; `failing` by which kinds it fails with what rules accept.
    pub fn of(
        &self,
        test: &PlannedTest,
        seen: &Seen,
        can_fail: &CanFail<'_>,
        failing: &dyn Fn(&Acceptance) -> Vec<Leak>,
    ) -> Acceptance {
        let mut acceptance = Acceptance { items: in_code(seen), ..Acceptance::default() };
        let mut things = counting(seen, can_fail);
        if !self.rules.is_empty() && !things.is_empty() {
            self.by_rules(&test.id(), &mut things, &mut acceptance);
        }
        if let Some(baseline) = &self.baseline {
            // What is within its limits is nothing new.
            let failing = if things.is_empty() { Vec::new() } else { failing(&acceptance) };
            things.retain(|thing| failing.contains(&thing.leak));
            let compared = baseline.compare(&test.id(), &things, &self.own, &|leak| can_fail(None, leak));
            acceptance.items.extend(compared.accepted);
            acceptance.baseline = Some(compared.counts);
        }
        acceptance
    }

    /// Takes out of `things` what rules accept.
    fn by_rules(&self, test: &str, things: &mut Vec<Thing<'_>>, acceptance: &mut Acceptance) {
        let rule_of = |thing: &Thing<'_>| {
            let stack = rule::named(thing);
            self.rules.iter().position(|rule| rule.is_for(test, thing, &stack, &self.own))
        };
        let rules: Vec<Option<usize>> = things.iter().map(rule_of).collect();
        let mut accepting = vec![false; self.rules.len()];
        for (place, rule) in self.rules.iter().enumerate() {
            let its = things.iter().zip(&rules).filter(|(_, rule)| **rule == Some(place));
            let its: Vec<_> = its.map(|(thing, _)| thing).collect();
            if its.is_empty() {
                continue;
            }
            let bytes = its.iter().map(|thing| thing.measure.bytes).sum();
            let roots = its.iter().filter(|thing| thing.root.is_none());
            let blocks = roots.map(|thing| thing.measure.blocks).sum();
            let exceeded = rule.limit.exceeded(Measure { bytes, blocks });
            accepting[place] = exceeded.is_none();
            acceptance.hits.push(Hit { rule: rule.name.to_string(), bytes, blocks, exceeded });
        }
        let mut rules = rules.into_iter();
        things.retain(|thing| {
            let Some(place) = rules.next().flatten().filter(|place| accepting[*place]) else { return true };
            let by = By::Rule(self.rules[place].name.to_string());
            acceptance.items.insert(thing.item, Accepted { measure: thing.measure, by });
            false
        });
    }
}

/// What the test's own code has ignored.
fn in_code(seen: &Seen) -> BTreeMap<Item, Accepted> {
    let ignored = seen.findings.iter().enumerate().filter_map(|(place, finding)| {
        let by = By::Code(finding.in_code.ignored.as_ref()?.to_string());
        Some((Item::Finding(place), Accepted { measure: finding.measure, by }))
    });
    ignored.collect()
}

/// Whether one of the things that a test has left, or else anything of a kind, can fail it.
pub type CanFail<'a> = dyn Fn(Option<Item>, Leak) -> bool + 'a;

/// What of it can fail a test.
pub fn counting<'a>(seen: &'a Seen, can_fail: &CanFail<'_>) -> Vec<Thing<'a>> {
    let mut things = things(seen);
    things.retain(|thing| can_fail(Some(thing.item), thing.leak));
    things
}
