//! What a test has left in its temporary directory, in a line.

use super::text;
use crate::model::{CheckedTest, LeftFiles};

/// `2 files (1234 B) left in its TMPDIR: a, b/c`; none where nothing is left.
pub(super) fn line(test: &CheckedTest) -> Option<String> {
    let LeftFiles { count, bytes, paths } = test.memory.files.as_ref().filter(|files| files.count > 0)?;
    let more = if *count > paths.len() as u64 { ", …" } else { "" };
    let files = text::count(*count, "file");
    Some(format!(
        "{files} ({bytes} B) left in its TMPDIR, and removed: {}{more}",
        text::line(&paths.join(", "))
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Outcome, Verdict};
    use crate::report::testing;

    #[test]
    fn a_line_names_the_first_few() {
        let mut test = testing::test("t", Outcome::Passed, Verdict::Clean);
        assert_eq!(line(&test), None);
        test.memory.files = Some(LeftFiles::default());
        assert_eq!(line(&test), None);
        let paths = vec!["a\nb".to_owned(), "c/d".to_owned()];
        test.memory.files = Some(LeftFiles { count: 2, bytes: 10, paths: paths.clone() });
        let expected = "2 files (10 B) left in its TMPDIR, and removed: a\\nb, c/d";
        assert_eq!(line(&test).as_deref(), Some(expected));
        test.memory.files = Some(LeftFiles { count: 3, bytes: 10, paths });
        assert!(line(&test).unwrap().ends_with("c/d, …"));
    }
}
