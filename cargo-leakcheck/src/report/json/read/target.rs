use serde::Deserialize;

use crate::model::{CheckedTest, Covered, Target};

/// A target as [`crate::report::targets`] writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    package: String,
    name: String,
    kind: String,
    binary: String,
    status: String,
    tests: Option<usize>,
    ignored: usize,
    /// Is counted again.
    #[serde(rename = "checked")]
    _checked: usize,
    reason: Option<String>,
}

impl Row {
    /// Whether its binary runs as one test.
    pub fn is_unit(&self) -> bool {
        self.status == "one_unit"
    }

    /// Whether it is of this binary.
    pub fn is_of(&self, binary: &str) -> bool {
        self.binary == binary
    }

    /// The target, in a run of these tests.
    ///
    /// # Errors
    /// A word that is none of ours.
    pub fn target(self, tests: &[CheckedTest]) -> Result<Target, String> {
        let unknown =
            |what: &str, word: &str| format!("the {what} `{word}` of {} is none of ours", self.binary);
        let kind = Target::kind_named(&self.kind).ok_or_else(|| unknown("kind", &self.kind))?;
        let reason = self.reason.unwrap_or_default();
        let covered = match self.status.as_str() {
            "checked" => Covered::ByTest,
            "one_unit" => Covered::AsUnit { reason },
            "not_checked" => Covered::No { reason },
            word => return Err(unknown("status", word)),
        };
        let selected = tests.iter().filter(|test| test.test.binary.id() == self.binary).count();
        Ok(Target {
            package: self.package,
            name: self.name,
            kind,
            id: self.binary,
            tests: self.tests,
            ignored: self.ignored,
            selected,
            covered,
        })
    }
}
