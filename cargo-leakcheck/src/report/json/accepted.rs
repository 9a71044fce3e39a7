//! What is accepted, in the JSON document: a row for each of the things that it is, by its place in their list.

use serde::{Deserialize, Serialize};

use crate::model::{Acceptance, Accepted, Compared, Hit, Item};

#[derive(Serialize, Deserialize)]
pub struct Row {
    #[serde(flatten)]
    item: Item,
    #[serde(flatten)]
    accepted: Accepted,
}

/// The rows of a test.
pub fn rows(acceptance: &Acceptance) -> Vec<Row> {
    acceptance.items.iter().map(|(item, accepted)| Row { item: *item, accepted: accepted.clone() }).collect()
}

/// What they were made of.
pub fn acceptance(rows: Vec<Row>, baseline: Option<Compared>, hits: Vec<Hit>) -> Acceptance {
    Acceptance { items: rows.into_iter().map(|row| (row.item, row.accepted)).collect(), baseline, hits }
}
