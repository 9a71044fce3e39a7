//! Reads one source file of a fixture: its tests and its markers, each with the line it speaks of.

use crate::marker::{Body, Marker};

/// A `#[test]` function at the top level of a Rust file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestFn {
    /// Its name, without the module.
    pub name: String,
    /// Marked `#[ignore]`.
    pub ignored: bool,
}

/// A marker in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The line it speaks of, from 1.
    pub line: usize,
    /// The test whose body it stands in, or which it stands above, as an index into the file's tests.
    pub inside: Option<usize>,
    /// The marker.
    pub marker: Marker,
}

/// One source file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its tests, top to bottom.
    pub tests: Vec<TestFn>,
    /// Its markers, top to bottom.
    pub markers: Vec<Placed>,
}

impl Source {
    /// Reads the text of a file. Only Rust has tests of its own (`is_rust`).
    pub fn parse(text: &str, is_rust: bool) -> Result<Self, String> {
        let mut reader = Reader { source: Self::default(), waiting: vec![], attributes: None, body: None };
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            reader.line(number, line, is_rust).map_err(|problem| format!("line {number}: {problem}"))?;
        }
        match reader.waiting.first() {
            Some(first) => Err(format!("line {}: nothing follows the marker", first.line)),
            None => Ok(reader.source),
        }
    }
}

struct Reader {
    source: Source,
    /// Markers that stand alone and speak of what follows, with the line they stand on.
    waiting: Vec<Placed>,
    /// Attributes of a test were seen; whether it is ignored.
    attributes: Option<bool>,
    /// The test whose body is being read.
    body: Option<usize>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str, is_rust: bool) -> Result<(), String> {
        if let Some((alone, marker)) = Marker::find(line)? {
            self.marker(number, alone, marker)?;
            if alone {
                return Ok(());
            }
        }
        if is_rust {
            self.rust(line)?;
        }
        let trimmed = line.trim();
        let comment = is_rust && (trimmed.starts_with("//") || trimmed.starts_with("#["));
        if trimmed.is_empty() || comment {
            return Ok(());
        }
        for mut placed in self.waiting.drain(..) {
            let speaks_of_test = match &placed.marker.body {
                Body::Outcome(_)
                | Body::Verdict(_)
                | Body::FindingsAny
                | Body::Files(_)
                | Body::Timers(_)
                | Body::Heap(_) => true,
                Body::Object(object) => !object.has_line,
                Body::Open(open) => !open.has_line,
                _ => false,
            };
            if speaks_of_test {
                let above = self.body.filter(|_| line.contains("fn ") && !line.starts_with(' '));
                placed.inside = Some(above.ok_or("the marker above speaks of a test, but none follows")?);
            }
            placed.line = number;
            self.source.markers.push(placed);
        }
        if is_rust && (line == "}" || (!line.starts_with(' ') && line.ends_with('}'))) {
            self.body = None;
        }
        Ok(())
    }

    fn marker(&mut self, number: usize, alone: bool, marker: Marker) -> Result<(), String> {
        let line =
            number.checked_sub(marker.up).filter(|&line| line > 0).ok_or("there is no such line above")?;
        let placed = Placed { line, inside: self.body, marker };
        let of_crate = matches!(
            placed.marker.body,
            Body::CrateExit(_) | Body::CrateArgs(_) | Body::CrateRerun(_) | Body::CrateNotChecked(_)
        );
        if alone && placed.marker.up == 0 && !of_crate {
            self.waiting.push(placed);
        } else {
            self.source.markers.push(placed);
        }
        Ok(())
    }

    fn rust(&mut self, line: &str) -> Result<(), String> {
        let trimmed = line.trim_start();
        let is_test = trimmed.starts_with("#[test]") || trimmed.starts_with("#[tokio::test");
        if line != trimmed {
            return if is_test { Err("tests of fixtures stand at the top level".into()) } else { Ok(()) };
        }
        if is_test {
            self.attributes.get_or_insert(false);
        } else if line.starts_with("#[ignore") {
            self.attributes = Some(true);
        } else if let Some(signature) = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ")
            && let Some(ignored) = self.attributes.take()
        {
            let name = signature.split('(').next().unwrap_or_default().to_owned();
            self.source.tests.push(TestFn { name, ignored });
            self.body = Some(self.source.tests.len() - 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
//! Text.
//~ crate exit: 2

fn helper() {
    leak(); //~ [first] definitely_lost 1 bytes 1 block
}

//~ outcome: failed
#[test]
fn first() {
    //~ definitely_lost 2 bytes 1 block
    //~ indirectly_lost 3 bytes 1 block
    // About the next line.
    leak();
    leak();
    //~^ definitely_lost 4 bytes 1 block
}

#[leak_budget(bytes = 1)]
#[tokio::test]
#[ignore]
async fn second() {}

static AFTER: u8 = 0; //~ [first] still_reachable any
";

    fn places(source: &Source) -> Vec<(usize, Option<usize>)> {
        source.markers.iter().map(|placed| (placed.line, placed.inside)).collect()
    }

    #[test]
    fn tests_and_places() {
        let source = Source::parse(FILE, true).unwrap();
        let test = |name: &str, ignored| TestFn { name: name.into(), ignored };
        assert_eq!(source.tests, [test("first", false), test("second", true)]);
        let first = Some(0);
        assert_eq!(
            places(&source),
            [(2, None), (5, None), (10, first), (14, first), (14, first), (15, first), (24, None)]
        );
    }

    #[test]
    fn markers_in_c_have_no_test_around_them() {
        let text = "void f(void) {\n  //~ [a] double_free 1\n  free(p);\n}\n";
        assert_eq!(places(&Source::parse(text, false).unwrap()), [(3, None)]);
    }

    #[test]
    fn mistakes_are_errors_with_their_line() {
        for (text, line) in [
            ("mod tests {\n    #[test]\n    fn a() {}\n}\n", 2),
            ("//~ outcome: failed\nfn no_test() {}\n", 2),
            ("fn a() {}\n//~ definitely_lost 1 bytes 1 block\n", 2),
            ("//~^ definitely_lost 1 bytes 1 block\n", 1),
            ("\n//~ misspelt\n", 2),
        ] {
            let problem = Source::parse(text, true).unwrap_err();
            assert!(problem.starts_with(&format!("line {line}:")), "{text}: {problem}");
        }
    }
}
