//! docs/walk-through.md, with the tool on the real kernel: what it shows is what the tool says of the crates.

use camino::Utf8PathBuf;
use fs_err as fs;
use leakcheck_tests::document::{blocks, without_times};
use leakcheck_tests::tool::{Run, Workshop, repository};

/// The versions that leak, and those that were mended.
const VERSIONS: [(&str, &str); 3] = [("=1.0.0", "=1.0.1"), ("=0.3.32", "=0.3.33"), ("=0.6.3", "=0.6.4")];

/// The document's fenced blocks of a language.
fn shown(language: &str) -> Vec<String> {
    blocks("docs/walk-through.md", &format!("```{language}"))
}

/// A text without what differs from run to run and from machine to machine: times in brackets, where cargo keeps sources.
fn normal(text: &str) -> String {
    without_times(text).lines().map(without_sources).collect::<Vec<_>>().join("\n")
}

fn without_sources(line: &str) -> String {
    let Some((before, rest)) = line.split_once("/registry/src/") else { return line.to_owned() };
    let start = before.rfind([' ', '(']).map_or(0, |blank| blank + 1);
    let path = rest.split_once('/').map_or("", |(_, path)| path);
    without_sources(&format!("{}SOURCES {path}", &before[..start]))
}

struct Walk {
    workshop: Workshop,
    root: Utf8PathBuf,
}

impl Walk {
    /// A copy of the crate, on its own.
    fn begin() -> Self {
        let workshop = Workshop::open().unwrap();
        let (from, root) = (workshop.fixtures(), workshop.path().join("known"));
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join(".config")).unwrap();
        fs::copy(from.join("known/src/lib.rs"), root.join("src/lib.rs")).unwrap();
        // The versions that are known to be there.
        fs::copy(from.join("Cargo.lock"), root.join("Cargo.lock")).unwrap();
        let manifest = fs::read_to_string(from.join("known/Cargo.toml")).unwrap();
        fs::write(root.join("Cargo.toml"), format!("{manifest}\n[workspace]\n")).unwrap();
        Self { workshop, root }
    }

    fn run(&self, options: &[&str]) -> Run {
        let (manifest, target) = (self.root.join("Cargo.toml"), self.root.join("target"));
        let fixed = ["-j", "1", "--manifest-path", manifest.as_str(), "--target-dir", target.as_str()];
        let mut command = self.workshop.command(&[&fixed, options].concat()).unwrap();
        let output = command.current_dir(&self.root).output().unwrap();
        Run::new(format!("{command:?}"), output)
    }
}

#[test]
fn the_tool_says_what_the_document_shows() {
    let walk = Walk::begin();
    let texts = shown("text");
    let [summary, findings @ .., mended] = &texts[..] else { panic!("{texts:?}") };
    assert_eq!(findings.len(), 3);
    let leaking = walk.run(&[]);
    leaking.expect(2, &["3 tests run: 0 clean, 3 leaking"]).unwrap();
    // The last line has a time of its own.
    let bars = summary.rsplit_once("\n").unwrap().0;
    for text in findings.iter().map(String::as_str).chain([bars]) {
        let (text, said) = (normal(text), normal(&leaking.stderr));
        assert!(said.contains(&text), "{text}\n--- is not in\n{said}");
    }

    let [dependencies, rule] = &shown("toml")[..] else { panic!("the document has two blocks of TOML") };
    let manifest = walk.root.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    assert!(text.contains(dependencies.split_once('\n').unwrap().1), "{dependencies}\n--- is not in\n{text}");
    fs::write(walk.root.join(".config/leakcheck.toml"), rule).unwrap();
    walk.run(&["--dependencies", "report"]).expect(2, &["3 tests run: 2 clean, 1 leaking"]).unwrap();

    let mended_text = VERSIONS.iter().fold(text, |text, (leaks, mended)| text.replacen(leaks, mended, 1));
    fs::write(&manifest, mended_text).unwrap();
    let clean = walk.run(&[]);
    clean.expect(0, &["3 tests run: 3 clean"]).unwrap();
    assert!(normal(&clean.stderr).contains(&normal(mended)), "{}", clean.stderr);
    walk.run(&["--deny-unused-rules"]).expect(11, &["lru forgets keys"]).unwrap();
}

#[test]
fn the_code_is_the_fixtures() {
    let fixture = fs::read_to_string(repository().join("fixtures/known/src/lib.rs")).unwrap();
    let lines = fixture.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let code = lines.collect::<Vec<_>>().join("\n");
    let blocks = shown("rust");
    assert_eq!(blocks.len(), 3);
    for block in blocks {
        let block = block.lines().map(str::trim).collect::<Vec<_>>().join("\n");
        assert!(code.contains(&block), "{block}\n--- is not in\n{code}");
    }
}

#[test]
fn times_and_places_are_not_compared() {
    assert_eq!(normal("        PASS [   0.003s] known a"), "        PASS [time] known a");
    assert_eq!(normal("  at f (/h/registry/src/index-1/lru/l.rs:1) x"), "  at f (SOURCES lru/l.rs:1) x");
    assert_eq!(normal("~/.cargo/registry/src/…/lru/l.rs:1, of [u8]"), "SOURCES lru/l.rs:1, of [u8]");
}
