//! The rules of ARCHITECTURE.md that a compiler does not know, read off the sources.

use std::path::{Path, PathBuf};

/// The modules, lowest first: each may use its own layer and those before it.
const LAYERS: [&[&str]; 14] = [
    &["config", "diagnostic", "error", "model", "options", "snapshot"],
    &["parallel", "references", "scratch", "sys"],
    &["build", "raise"],
    &["discover"],
    &["plan"],
    // The harvest reads what the trace holds, and the trace calls it at the exit of a process.
    &["harvest", "trace"],
    &["classify"],
    &["symbolize"],
    &["accept"],
    &["judge"],
    &["progress", "report"],
    &["doctor", "run", "setup"],
    &["cli"],
    &["lib", "main"],
];

/// Who may call the system by itself: what is privileged and live.
const SYSTEM: [&str; 3] = ["harvest", "sys", "trace"];

/// What else may, and why.
const SYSTEM_EXCEPTIONS: [(&str, &str); 4] = [
    ("discover/spawn.rs", "ends the process group of a binary that does not list its tests in time"),
    ("plan/program.rs", "asks whether a program may be executed"),
    ("report/excerpt.rs", "opens source files without waiting for the other end of a pipe"),
    ("report/text.rs", "knows the names of signals"),
];

/// Lines that a file may have; beyond that it has more than one topic.
const LINES: usize = 350;

struct Source {
    /// Relative to `src`.
    path: PathBuf,
    text: String,
}

impl Source {
    fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    let text = std::fs::read_to_string(&path).unwrap();
                    sources.push(Self { path: path.strip_prefix(&root).unwrap().to_owned(), text });
                }
            }
        }
        assert!(sources.len() > 50, "the sources were not found");
        sources
    }

    /// The stage it belongs to.
    fn module(&self) -> &str {
        let first = self.path.iter().next().unwrap().to_str().unwrap();
        first.trim_end_matches(".rs")
    }

    fn is_test(&self) -> bool {
        self.path.iter().any(|part| part == "tests" || part == "tests.rs")
    }

    fn is(&self, path: &str) -> bool {
        self.path == Path::new(path)
    }

    /// Its lines of code, without comments, numbered from 1.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().map(|line| line.split("//").next().unwrap_or_default());
        (1..).zip(lines).filter(|(_, line)| !line.trim().is_empty())
    }

    /// The modules of this crate that it names: `crate::name…`, also in `use crate::{a, b::c}`.
    fn uses(&self) -> Vec<String> {
        let code: Vec<&str> = self.code().map(|(_, line)| line).collect();
        let code = code.join("\n");
        let mut names = Vec::new();
        for (place, _) in code.match_indices("crate::") {
            // `leakcheck_crate::` is not ours.
            if code[..place].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
                continue;
            }
            let rest = &code[place + "crate::".len()..];
            match rest.strip_prefix('{') {
                Some(list) => names.extend(top_level(list)),
                None => names.push(identifier(rest)),
            }
        }
        names
    }
}

fn identifier(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The first names of a braced list's entries, up to its end.
fn top_level(list: &str) -> Vec<String> {
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (place, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                names.push(identifier(list[start..place].trim_start()));
                start = place + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn layer(module: &str) -> usize {
    LAYERS
        .iter()
        .position(|layer| layer.contains(&module))
        .unwrap_or_else(|| panic!("module `{module}` has no layer: give it one, here and in ARCHITECTURE.md"))
}

fn assert_none(what: &str, offenders: &[String]) {
    assert!(offenders.is_empty(), "{what}:\n{}", offenders.join("\n"));
}

#[test]
fn dependencies_run_one_way() {
    let mut offenders = Vec::new();
    for source in Source::all() {
        let own = layer(source.module());
        for used in source.uses() {
            // `crate::run` is the function, re-exported by lib.rs.
            if layer(&used) > own {
                offenders.push(format!("{}: {} uses {used}", source.path.display(), source.module()));
            }
        }
    }
    assert_none("a stage uses a later one", &offenders);
}

#[test]
fn braced_lists_are_understood() {
    let source = |text: &str| Source { path: "plan/x.rs".into(), text: text.into() };
    assert_eq!(source("use crate::{build, plan::{a, b}, report};\n").uses(), ["build", "plan", "report"]);
    assert_eq!(source("use crate::{\n    build,\n    plan::a,\n};\nlet x = y;").uses(), ["build", "plan"]);
    assert_eq!(source("let x = crate::model::Y; // crate::report\n").uses(), ["model"]);
}

#[test]
fn unsafe_code_is_in_sys_only() {
    let mut offenders = Vec::new();
    for source in Source::all().iter().filter(|source| source.module() != "sys" && !source.is_test()) {
        for (number, line) in source.code() {
            if line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe") {
                offenders.push(format!("{}:{number}: {}", source.path.display(), line.trim()));
            }
        }
    }
    assert_none("unsafe code outside sys", &offenders);
}

#[test]
fn only_the_live_stages_call_the_system() {
    let sources = Source::all();
    for (path, _) in SYSTEM_EXCEPTIONS {
        assert!(
            sources.iter().any(|source| source.is(path) && !system_lines(source).is_empty()),
            "{path} is no exception"
        );
    }
    let offenders: Vec<String> = sources
        .iter()
        .filter(|source| !SYSTEM.contains(&source.module()))
        .filter(|source| !SYSTEM_EXCEPTIONS.iter().any(|(path, _)| source.is(path)))
        .flat_map(system_lines)
        .collect();
    assert_none("a stage that is not live calls the system", &offenders);
}

/// Lines that name nix, libc or aya as a path, outside of tests.
fn system_lines(source: &Source) -> Vec<String> {
    if source.is_test() {
        return Vec::new();
    }
    let tests = source.code().zip(source.code().skip(1)).find_map(|((number, attribute), (_, module))| {
        (attribute == "#[cfg(test)]" && module.ends_with('{')).then_some(number)
    });
    let lines = source.code().take_while(|(number, _)| tests.is_none_or(|tests| *number < tests));
    lines
        .filter(|(_, line)| {
            ["nix::", "libc::", "aya::", "aya_obj::"].iter().any(|name| {
                line.match_indices(name).any(|(place, _)| {
                    !line[..place].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c))
                })
            })
        })
        .map(|(number, line)| format!("{}:{number}: {}", source.path.display(), line.trim()))
        .collect()
}

#[test]
fn no_file_has_grown_without_a_boundary() {
    let sources = Source::all();
    let long = |source: &Source| source.text.lines().count() > LINES;
    let offenders: Vec<String> = sources
        .iter()
        .filter(|source| long(source))
        .map(|source| format!("{}: {} lines", source.path.display(), source.text.lines().count()))
        .collect();
    assert_none("too long; split it by topic", &offenders);
}
