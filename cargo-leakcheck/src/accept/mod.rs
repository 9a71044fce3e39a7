//! What of a test's leaks somebody has accepted: by the baseline. What is accepted is reported, and does not
//! count. Pure, but for reading and writing the baseline.

pub mod baseline;
pub mod path;
pub mod things;

use crate::error::Result;
use crate::model::{Acceptance, Leak, OwnCode, PlannedTest, Seen};
use crate::options::AcceptOptions;
use baseline::Baseline;
use things::{Thing, things};

/// What is accepted in a run.
#[derive(Clone, Debug, Default)]
pub struct Accepting {
    own: OwnCode,
    baseline: Option<Baseline>,
}

impl Accepting {
    /// Reads what the options name.
    ///
    /// # Errors
    /// It cannot be read, or makes no sense.
    pub fn new(options: &AcceptOptions, own: OwnCode) -> Result<Self> {
        let baseline = match &options.baseline {
            // What is there now is to be known from then on.
            Some(_) if options.is_write() => None,
            Some(path) => Baseline::read(path)?,
            None => None,
        };
        Ok(Self { own, baseline })
    }

    /// What of a test's leaks is accepted. `counts` says which kinds can fail it.
    pub fn of(&self, test: &PlannedTest, seen: &Seen, counts: &dyn Fn(Leak) -> bool) -> Acceptance {
        let mut acceptance = Acceptance::default();
        if let Some(baseline) = &self.baseline {
            let compared = baseline.compare(&test.id(), &counting(seen, counts), &self.own);
            acceptance.items = compared.accepted;
            acceptance.baseline = Some(compared.counts);
        }
        acceptance
    }
}

/// What of it can fail a test.
pub fn counting<'a>(seen: &'a Seen, counts: &dyn Fn(Leak) -> bool) -> Vec<Thing<'a>> {
    let mut things = things(seen);
    things.retain(|thing| counts(thing.leak));
    things
}
