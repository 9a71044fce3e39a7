//! Measurements in rows, their medians, and ratios between them.

use std::fmt;

use crate::Result;

/// A way to do the same thing.
pub struct Row<'a> {
    /// What it is called.
    pub name: &'static str,
    /// Measures once.
    pub measure: Box<dyn Fn() -> Result<f64> + 'a>,
    /// Whether the benchmark is worth nothing without it.
    pub required: bool,
}

/// Medians of rows.
pub struct Table {
    title: String,
    unit: &'static str,
    rows: Vec<(&'static str, std::result::Result<f64, String>)>,
    bars: Vec<Bar>,
}

/// What a ratio is to be at most.
struct Bar {
    what: &'static str,
    of: &'static str,
    limit: f64,
}

impl Table {
    /// Measures all rows in turn, `repeats` times.
    ///
    /// # Errors
    /// A required row fails; another one that does is left out, and the table says why.
    pub fn measure(title: String, unit: &'static str, rows: &[Row<'_>], repeats: usize) -> Result<Self> {
        let mut samples: Vec<std::result::Result<Vec<f64>, String>> = vec![Ok(Vec::new()); rows.len()];
        for round in 1..=repeats {
            for (row, samples) in rows.iter().zip(&mut samples) {
                let Ok(values) = samples else { continue };
                eprintln!("{title}: {} ({round} of {repeats})", row.name);
                match (row.measure)() {
                    Ok(value) => values.push(value),
                    Err(error) if row.required => return Err(error),
                    Err(error) => *samples = Err(error.to_string()),
                }
            }
        }
        let medians = samples.into_iter().map(|values| values.map(median));
        let rows = rows.iter().map(|row| row.name).zip(medians).collect();
        Ok(Self { title, unit, rows, bars: Vec::new() })
    }

    /// Adds a line that says whether `what` takes at most `limit` times as long as `of`.
    pub fn bar(mut self, what: &'static str, of: &'static str, limit: f64) -> Self {
        self.bars.push(Bar { what, of, limit });
        self
    }

    fn value(&self, name: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.0 == name)?.1.clone().ok()
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
        writeln!(f, "{}\n", self.title)?;
        writeln!(f, "| {:width$} | {:>11} | {:>11} |", "", self.unit, "x first row")?;
        writeln!(f, "|-{:-<width$}-|-{:->11}:|-{:->11}:|", "", "", "")?;
        let first = self.rows.first().and_then(|row| row.1.clone().ok());
        for (name, value) in &self.rows {
            match (value, first) {
                (Ok(value), Some(first)) => {
                    writeln!(f, "| {name:width$} | {value:>11.1} | {:>11.2} |", value / first)?;
                }
                (Ok(value), None) => writeln!(f, "| {name:width$} | {value:>11.1} | {:>11} |", "")?,
                (Err(reason), _) => writeln!(f, "| {name:width$} | skipped: {reason} ||")?,
            }
        }
        for Bar { what, of, limit } in &self.bars {
            match (self.value(what), self.value(of)) {
                (Some(one), Some(other)) => {
                    let ratio = one / other;
                    let verdict = if ratio <= *limit { "holds" } else { "does NOT hold" };
                    writeln!(f, "\n{what} / {of}: {ratio:.2}, bar {limit}: {verdict}")?;
                }
                _ => writeln!(f, "\n{what} / {of}: not measured")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &'static str, value: Result<f64, &'static str>) -> Row<'static> {
        Row { name, measure: Box::new(move || value.map_err(Into::into)), required: false }
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 9.0]), 3.0);
    }

    #[test]
    fn ratios_and_what_is_missing_are_shown() {
        let rows = [row("one", Ok(10.0)), row("two", Ok(25.0)), row("three", Err("not installed"))];
        let table = Table::measure("T".into(), "ms", &rows, 3).unwrap();
        let text = table.bar("two", "one", 2.0).bar("one", "two", 0.4).bar("three", "one", 1.0).to_string();
        for line in [
            "| two   |        25.0 |        2.50 |",
            "| three | skipped: not installed ||",
            "two / one: 2.50, bar 2: does NOT hold",
            "one / two: 0.40, bar 0.4: holds",
            "three / one: not measured",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn a_required_row_must_not_fail() {
        let rows = [Row { required: true, ..row("one", Err("no")) }];
        assert!(Table::measure("T".into(), "ms", &rows, 1).is_err());
    }
}
