//! Valgrind's (<https://valgrind.org/docs/manual/manual-core.html#manual-core.suppress>,
//! <https://valgrind.org/docs/manual/mc-manual.html#mc-manual.suppfiles>): blocks of lines in braces: a name, a tool with a kind of error, and the
//! frames of the stack, innermost first.

use super::Imported;
use super::lsan::memory;
use crate::accept::path::plain;
use crate::accept::rule::matches;
use crate::model::{FindingKind, Leak, Limit, Patterns, Rule, RuleFrom, StackPart};

/// Functions of allocators: Valgrind's stacks begin in them, and ours in who has called them.
const ALLOCATE: [&str; 12] = [
    "malloc",
    "calloc",
    "realloc",
    "reallocarray",
    "memalign",
    "aligned_alloc",
    "posix_memalign",
    "valloc",
    "pvalloc",
    "operator new",
    "operator new[]",
    "__rust_alloc",
];

pub(super) fn parse(place: &str, text: &str) -> Result<Imported, String> {
    let mut imported = Imported::default();
    let mut block: Option<(usize, Vec<&str>)> = None;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        match (line, &mut block) {
            ("", _) => {}
            (line, _) if line.starts_with('#') => {}
            ("{", None) => block = Some((number, Vec::new())),
            ("}", Some(_)) => {
                let (start, lines) = block.take().expect("just matched");
                let at = format!("{place}:{start}");
                match rule(&at, &lines) {
                    Ok(rule) => imported.rules.push(rule),
                    Err(reason) => imported.left_out.push(format!("{at}: {reason}")),
                }
            }
            (line, Some((_, lines))) => lines.push(line),
            (line, None) => return Err(format!("line {number}: `{line}` is outside of braces")),
        }
    }
    match block {
        Some((start, _)) => Err(format!("line {start}: the braces are not closed")),
        None => Ok(imported),
    }
}

/// One block.
fn rule(at: &str, lines: &[&str]) -> Result<Rule, String> {
    let [name, tool, rest @ ..] = lines else { return Err("has no name or no tool".to_owned()) };
    let (tools, error) = tool.split_once(':').unwrap_or(("", tool));
    if !tools.split(',').any(|tool| tool.trim() == "Memcheck") || error.trim() != "Leak" {
        return Err(format!("'{name}' is for {tool}, which is no leak"));
    }
    let mut kinds = memory();
    let mut parts = Vec::new();
    for line in rest {
        let (what, pattern) = line.split_once(':').unwrap_or((line, ""));
        let pattern = pattern.trim();
        match what.trim() {
            "match-leak-kinds" => kinds = kinds_of(pattern)?,
            "..." => parts.push(StackPart::Any),
            "fun" => parts.push(StackPart::Frame(Patterns {
                function: Some(function(pattern)?),
                ..Patterns::default()
            })),
            // A path, where ours is a file name.
            "obj" => {
                let library = Some(pattern.rsplit('/').next().unwrap_or(pattern).to_owned());
                parts.push(StackPart::Frame(Patterns { library, ..Patterns::default() }));
            }
            "src" if !pattern.contains(':') => {
                let file = Some(format!("*{pattern}"));
                parts.push(StackPart::Frame(Patterns { file, ..Patterns::default() }));
            }
            _ => return Err(format!("'{name}': `{line}` cannot be said by a rule")),
        }
    }
    let allocates = |part: &StackPart| match part {
        StackPart::Frame(Patterns { function: Some(pattern), .. }) => {
            ALLOCATE.iter().any(|name| matches(pattern, name))
        }
        _ => false,
    };
    let own = parts.iter().position(|part| !allocates(part)).unwrap_or(parts.len());
    // What has allocated between those and the user's code, like Rust's `alloc::alloc::alloc`, is in both.
    parts.drain(..own);
    if parts.iter().all(|part| *part == StackPart::Any) {
        return Err(format!("'{name}' is for every leak"));
    }
    Ok(Rule {
        name: (*name).into(),
        place: at.to_owned(),
        reason: format!("suppressed in {at}"),
        from: RuleFrom::Stack(parts),
        kinds,
        test: None,
        limit: Limit::default(),
        expires: None,
    })
}

fn kinds_of(list: &str) -> Result<Vec<Leak>, String> {
    let mut kinds = Vec::new();
    for word in list.split(',').map(str::trim) {
        kinds.push(Leak::Memory(match word {
            "all" => return Ok(memory()),
            "definite" => FindingKind::DefinitelyLost,
            "indirect" => FindingKind::IndirectlyLost,
            "possible" => FindingKind::PossiblyLost,
            "reachable" => FindingKind::StillReachable,
            other => return Err(format!("`match-leak-kinds: {other}` is none of its kinds")),
        }));
    }
    Ok(kinds)
}

/// A function's pattern: names are mangled there, and plain paths here.
fn function(pattern: &str) -> Result<String, String> {
    let demangled = match rustc_demangle::try_demangle(pattern) {
        Ok(rust) => Some(format!("{rust:#}")),
        Err(_) if pattern.starts_with("_Z") => {
            cpp_demangle::Symbol::new(pattern).ok().and_then(|it| it.demangle().ok())
        }
        Err(_) => return Ok(pattern.to_owned()),
    };
    match demangled {
        Some(name) if !name.starts_with("_Z") => Ok(plain(&name)),
        _ => beginning(pattern).ok_or_else(|| format!("`fun:{pattern}` cannot be demangled")),
    }
}

/// A mangled name up to a `*`: `std::thread*` of `_ZN3std6thread*`. Of that form are Rust's legacy names and C++'s of
/// functions in namespaces.
fn beginning(pattern: &str) -> Option<String> {
    let (mut rest, _) = pattern.strip_prefix("_ZN")?.split_once('*')?;
    let mut parts = Vec::new();
    // What follows the path are its arguments.
    while !rest.is_empty() && !rest.starts_with('E') {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let length: usize = rest[..digits].parse().ok()?;
        let name = &rest[digits..];
        // The pattern ends within this name. A hash is no part of the path.
        let name = name.get(..length).unwrap_or(name);
        rest = &rest[digits + name.len()..];
        let is_hash = length == 17 && name.starts_with('h');
        if !is_hash {
            parts.push(name);
        }
    }
    Some(parts.join("::") + "*")
}
