//! The terse listing of libtest and of harnesses that speak its protocol: one `name: test` a line.

use std::collections::BTreeSet;

/// The names in a listing. Other lines (what constructors or a harness's own `main` print) are
/// passed over. Names may hold spaces, colons, anything but a line feed.
pub fn names(output: &[u8]) -> BTreeSet<String> {
    String::from_utf8_lossy(output).lines().filter_map(name).map(str::to_owned).collect()
}

fn name(line: &str) -> Option<&str> {
    // Benchmarks run once, as tests, when they are not asked for as benchmarks.
    [": test", ": benchmark", ": bench"]
        .iter()
        .find_map(|kind| line.strip_suffix(kind))
        .filter(|name| !name.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let output = b"starting up\na::b: test\nwith space: and colon: test\nslow: benchmark\n: test\n\
            a::b: test\nslow one: bench\n3 tests, 1 benchmark\nlast: test";
        let names = names(output);
        let expected = ["a::b", "last", "slow", "slow one", "with space: and colon"];
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn garbage_has_no_names() {
        assert!(names(b"\xff\xfe\0\0\n\ntest: nothing\nok.test\n").is_empty());
    }
}
