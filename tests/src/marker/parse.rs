//! The grammar of the comments, one at a time.

use super::{Amount, Announced, Body, Heap, KINDS, Kind, Left, Mapped, Marker, Object, Open, Remains, Rerun};

impl Marker {
    /// Reads the marker of a line of source, if it has one. `Err` says what cannot be understood.
    pub fn find(line: &str) -> Result<Option<(bool, Self)>, String> {
        let Some(at) = line.find("//~") else {
            let squeezed: String = line.split_whitespace().collect();
            if squeezed.contains("//~") || squeezed.contains("/*~") {
                return Err("a marker begins with `//~`".into());
            }
            return Ok(None);
        };
        let alone = line[..at].trim().is_empty();
        let text = &line[at + 3..];
        let marker = Self::parse(text).map_err(|problem| format!("`//~{text}`: {problem}"))?;
        if marker.up > 0 && !alone {
            return Err(format!("`//~{text}`: a marker for a line above stands on a line of its own"));
        }
        Ok(Some((alone, marker)))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let rest = text.trim_start_matches('^');
        let up = text.len() - rest.len();
        let mut rest = rest.trim();
        let mut tests = Vec::new();
        if let Some(list) = rest.strip_prefix('[') {
            let (names, after) = list.split_once(']').ok_or("`]` is missing")?;
            tests = names.split(',').map(|name| name.trim().to_owned()).collect();
            if tests.iter().any(String::is_empty) {
                return Err("a name is missing between `[` and `]`".into());
            }
            rest = after.trim();
        }
        Ok(Self { up, tests, body: body(rest)? })
    }
}

fn body(text: &str) -> Result<Body, String> {
    // A type may have paths in it.
    if let Some((key, value)) = text.split_once(':').filter(|(_, value)| !value.starts_with(':')) {
        let value = value.trim();
        let one_of = |allowed: &[&str]| match allowed.contains(&value) {
            true => Ok(value.to_owned()),
            false => Err(format!("`{value}` is none of {}", allowed.join(", "))),
        };
        return match key {
            "outcome" => one_of(&["passed", "failed", "signalled", "timed_out"]).map(Body::Outcome),
            "verdict" => one_of(&["clean", "leaks", "incomplete", "not_checked", "any"]).map(Body::Verdict),
            "files" => value.parse().map(Body::Files).map_err(|problem| format!("`{value}`: {problem}")),
            "timers" => number(value).map(Body::Timers),
            "heap" => heap(value).map(Body::Heap),
            "findings" => one_of(&["any"]).map(|_| Body::FindingsAny),
            "crate exit" => number(value).map(Body::CrateExit),
            "crate args" => Ok(Body::CrateArgs(value.split_whitespace().map(str::to_owned).collect())),
            "crate rerun" => rerun(value).map(Body::CrateRerun),
            "crate not checked" => Ok(Body::CrateNotChecked(value.to_owned())),
            _ => Err(format!("`{key}:` is not known")),
        };
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let Some((&name, words)) = words.split_first() else { return Err("it says nothing".into()) };
    if name == "open" {
        return open(words).map(Body::Open);
    }
    if name == "left" {
        return object(words).map(Body::Object);
    }
    if name == "mapped" {
        return mapped(words).map(Body::Mapped);
    }
    match (name, words) {
        ("child", ["running", rest @ ..]) => return left(Remains::Running, rest).map(Body::Left),
        ("child", ["zombie", rest @ ..]) => return left(Remains::Zombie, rest).map(Body::Left),
        ("child", _) => return Err("a child is `running` or a `zombie`".into()),
        ("thread", rest) => return left(Remains::Thread, rest).map(Body::Left),
        _ => {}
    }
    let (_, kind) =
        *KINDS.iter().find(|(known, _)| *known == name).ok_or(format!("`{name}` is not known"))?;
    finding(kind, words).map(Body::Finding)
}

/// `peak 1024 bytes, 4096 bytes in 3 blocks`.
fn heap(value: &str) -> Result<Heap, String> {
    let unknown = || format!("`{value}` is not `peak N bytes, N bytes in N blocks`");
    let words: Vec<&str> = value.split_whitespace().collect();
    let ["peak", peak, "bytes,", bytes, "bytes", "in", blocks, "block" | "blocks"] = words[..] else {
        return Err(unknown());
    };
    let number = |word: &str| word.parse::<u64>().map_err(|_| unknown());
    Ok(Heap {
        peak_bytes: number(peak)?,
        peak_bytes_at_least: None,
        total_bytes: number(bytes)?,
        total_blocks: number(blocks)?,
    })
}

fn left(what: Remains, words: &[&str]) -> Result<Left, String> {
    let mut left = Left { what, word: None, times: Some(1), orphaned: false };
    for word in words {
        match word.strip_prefix('x').and_then(|times| times.parse().ok()) {
            Some(times) => left.times = Some(times),
            None if *word == "any" => left.times = None,
            None if *word == "orphaned" => left.orphaned = true,
            None if left.word.is_none() => left.word = Some((*word).to_owned()),
            None => return Err(format!("`{word}` is not known")),
        }
    }
    Ok(left)
}

fn open(words: &[&str]) -> Result<Open, String> {
    let (&kind, mut rest) = words.split_first().ok_or("the kind of descriptor is missing")?;
    let mut open = Open {
        kind: kind.replace('-', " "),
        numbers: 1,
        times: 1,
        held_by: None,
        once: false,
        has_line: true,
    };
    loop {
        rest = match rest {
            [] => return Ok(open),
            [count, "numbers", rest @ ..] => {
                open.numbers = number(count)?;
                rest
            }
            ["once", rest @ ..] => {
                open.once = true;
                rest
            }
            ["without", "a", "line", rest @ ..] => {
                open.has_line = false;
                rest
            }
            ["held", "by", name, rest @ ..] => {
                open.held_by = Some((*name).to_owned());
                rest
            }
            [times, rest @ ..] if times.starts_with('x') => {
                open.times = number(&times[1..])?;
                rest
            }
            _ => return Err(format!("`{}` is not known", rest.join(" "))),
        }
    }
}

fn object(mut words: &[&str]) -> Result<Object, String> {
    let has_line = match words {
        [rest @ .., "without", "a", "line"] => {
            words = rest;
            false
        }
        _ => true,
    };
    let times = match words {
        [rest @ .., last] if last.starts_with('x') => {
            words = rest;
            number(&last[1..])?
        }
        _ => 1,
    };
    if words.is_empty() {
        return Err("the kind of object is missing".into());
    }
    Ok(Object { kind: words.join(" "), times, has_line })
}

fn mapped(words: &[&str]) -> Result<Mapped, String> {
    let size = words.iter().position(|word| *word == "bytes").filter(|place| *place > 1);
    let size = size.ok_or("the size is missing, for example `anonymous 4096 bytes`")? - 1;
    let mut mapped =
        Mapped { kind: words[..size].join(" "), bytes: number(words[size])?, count: 1, once: false };
    for word in &words[size + 2..] {
        match word.strip_prefix('x') {
            Some(count) => mapped.count = number(count)?,
            None if *word == "once" => mapped.once = true,
            None => return Err(format!("`{word}` is not known")),
        }
    }
    Ok(mapped)
}

fn finding(kind: Kind, words: &[&str]) -> Result<Announced, String> {
    let (amount, mut rest) = match (kind, words) {
        (Kind::DoubleFree | Kind::UnknownFree, [count, rest @ ..]) => (Amount::Frees(number(count)?), rest),
        (_, ["any", rest @ ..]) => (Amount::Any, rest),
        (_, [bytes, "bytes", blocks, "block" | "blocks", rest @ ..]) => {
            let (times, rest) = match rest {
                [times, rest @ ..] if times.starts_with('x') => (number(&times[1..])?, rest),
                _ => (1, rest),
            };
            (Amount::Exactly { bytes: number(bytes)?, blocks: number(blocks)?, times }, rest)
        }
        _ => return Err("the size is missing, for example `40 bytes 1 block`".into()),
    };
    let mut announced = Announced::new(kind, amount);
    loop {
        rest = match rest {
            [] => return Ok(announced),
            ["site", "unknown", rest @ ..] => {
                announced.site_unknown = true;
                rest
            }
            ["held", "by", name, rest @ ..] => {
                announced.held_by = Some((*name).to_owned());
                rest
            }
            ["in", "child", word, rest @ ..] => {
                announced.child = Some((*word).to_owned());
                rest
            }
            ["in", "scope", name, rest @ ..] => {
                announced.scope = Some((*name).to_owned());
                rest
            }
            ["ignored", rest @ ..] => {
                announced.ignored = true;
                rest
            }
            // The last words: it may have spaces in it.
            ["of", name @ ..] if !name.is_empty() => {
                announced.type_name = Some(name.join(" "));
                &[]
            }
            _ => return Err(format!("`{}` is not known", rest.join(" "))),
        }
    }
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

fn rerun(text: &str) -> Result<Rerun, String> {
    let mut rerun = Rerun::default();
    for word in text.split_whitespace() {
        match word.split_once('=') {
            _ if word.starts_with('-') => rerun.args.push(word.to_owned()),
            Some((name, value)) => rerun.variables.push((name.to_owned(), value.to_owned())),
            None => return Err(format!("`{word}` is neither NAME=VALUE nor an option")),
        }
    }
    Ok(rerun)
}
