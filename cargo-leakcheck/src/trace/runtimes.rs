//! Runtimes that an executable may have in it, and that remember the process in which they were initialised.

use super::code::Code;

/// Functions of them, and what they are for. LLVM's profile has the process's id in the name of the file that it writes
/// (compiler-rt, InstrProfilingFile.c), gcc's has counters to write at the exit of each process; sanitizers have tables of
/// threads and shadow memory that children are to have only as their own fork handlers make it.
const RUNTIMES: [(&str, &str); 7] = [
    ("__llvm_profile_initialize", "it measures coverage"),
    ("__gcov_init", "it measures coverage"),
    ("__asan_init", "it has a sanitizer"),
    ("__hwasan_init", "it has a sanitizer"),
    ("__lsan_init", "it has a sanitizer"),
    ("__msan_init", "it has a sanitizer"),
    ("__tsan_init", "it has a sanitizer"),
];

impl Code {
    /// Why nothing is to be forked from a process of the executable, as far as its functions say.
    pub fn unforkable(&self) -> Option<&'static str> {
        let has = |name: &str| self.function(name).is_some() || self.imports(name);
        RUNTIMES.iter().find(|(name, _)| has(name)).map(|(_, reason)| *reason)
    }
}

#[cfg(test)]
mod tests {
    use camino::Utf8PathBuf;

    use super::*;

    #[test]
    fn programs_that_measure_coverage_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| Utf8PathBuf::try_from(folder.path().join(name)).unwrap();
        std::fs::write(path("a.rs"), "fn main() {}").unwrap();
        for (flag, reason) in
            [("-Cinstrument-coverage", Some("it measures coverage")), ("-Copt-level=0", None)]
        {
            let mut rustc = std::process::Command::new("rustc");
            rustc.args([flag, "--edition=2024", "-o"]).args([path("a"), path("a.rs")]);
            assert!(rustc.status().unwrap().success());
            assert_eq!(Code::read(&path("a"), false).unwrap().unforkable(), reason, "{flag}");
        }
    }
}
