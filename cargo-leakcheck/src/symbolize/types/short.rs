//! Types as people write them.

/// A hint that is longer loses what is inside of it.
pub const LENGTH: usize = 100;

/// A type as people write it where its paths are imported. What is deep inside of a long one is left out.
pub fn short(text: &str) -> String {
    let text = without_paths(text);
    let fits = |text: &String| text.chars().count() <= LENGTH;
    if fits(&text) {
        return text;
    }
    let cut = || elided(&text, 1).chars().take(LENGTH).chain(['…']).collect();
    (1..=3).rev().map(|depth| elided(&text, depth)).find(fits).unwrap_or_else(cut)
}

fn without_paths(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let is_path = |c: char| c.is_alphanumeric() || "_:{}#$".contains(c);
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        if end == 0 {
            shown.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let path: Vec<&str> = rest[..end].split("::").collect();
        let closure =
            path.iter().position(|part| part.starts_with("{closure") || part.starts_with("{{closure"));
        match closure {
            Some(place) if place > 0 => shown += &format!("{}::{{closure}}", path[place - 1]),
            _ => shown += path.last().unwrap_or(&""),
        }
        rest = &rest[end..];
    }
    shown
}

/// A type without what is more than so deep in brackets.
fn elided(text: &str, most: u32) -> String {
    let (mut depth, mut shown) = (0_u32, String::new());
    let mut before = ' ';
    for c in text.chars() {
        if c == '>' && before != '-' {
            depth = depth.saturating_sub(1);
        }
        if depth <= most {
            shown.push(c);
        }
        if c == '<' {
            depth += 1;
            if depth == most + 1 {
                shown.push('…');
            }
        }
        before = c;
    }
    shown
}
