//! A function's path as people would say it, whatever the compiler, the mangling and the optimisation: without generic
//! arguments, closures, hashes, and the numbers and suffixes that compilers add.
//!
//! The two manglings of Rust (`-C symbol-mangling-version`) name different things: v0 has the arguments of generics and the
//! type that a trait's default method runs for, legacy has neither. What both have is kept: of `<T as Trait>::method`
//! the trait's path, of `module::<impl Type>::method` and `<Type>::method` the type's.

/// The plain path of a demangled name: `a::tests::leaks` of `a::tests::leaks::<u8>::{closure#0}`.
pub fn plain(name: &str) -> String {
    let path = path(name);
    if name.contains("::") || name.contains('(') {
        return path;
    }
    // gcc's and LLVM's parts of a C function: `f.part.0`, `f.cold`, `f.llvm.123`.
    path.split('.').next().unwrap_or_default().to_owned()
}

fn path(text: &str) -> String {
    let mut path = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let is_operator = path.ends_with("operator");
        let inner = match next {
            '<' | '{' | '(' | '[' if !is_operator => enclosed(rest),
            _ => None,
        };
        let Some(inner) = inner else {
            // A comparison or a call, by its own characters.
            if is_operator {
                let own = rest.find(|c: char| !"<>=[]!+-*/%&|^~,".contains(c)).unwrap_or(rest.len());
                let own = if rest.starts_with("()") { 2 } else { own.max(next.len_utf8()) };
                path.push_str(&rest[..own]);
                rest = &rest[own..];
                continue;
            }
            path.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        rest = &rest[inner.len() + 2..];
        let begins = path.is_empty() || path.ends_with("::");
        if next == '<' && begins {
            if let Some(implementation) = inner.strip_prefix("impl ") {
                let kept = split(implementation, " for ").map_or(implementation, |(of, _)| of);
                path = self::path(kept);
            } else if path.is_empty() {
                path = self::path(split(inner, " as ").map_or(inner, |(_, of)| of));
            }
        }
        if path.ends_with("::") && !rest.is_empty() {
            // What was left out was a whole part of the path, and what follows brings its own `::`.
            path.truncate(path.len() - 2);
        }
    }
    let path = path.trim_end_matches(" const").trim_end_matches("::").trim();
    // C++ templates begin with their return type.
    match path.rsplit_once(' ') {
        Some((_, word)) if !path.contains("operator") && path.contains("::") => word.to_owned(),
        _ => path.to_owned(),
    }
}

/// What is between the bracket that `text` begins with and the one that belongs to it.
fn enclosed(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            b'<' | b'{' | b'(' | b'[' => depth += 1,
            // The arrow of a function type is no bracket.
            b'>' if text[..index].ends_with('-') => {}
            b'>' | b'}' | b')' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Some(&text[1..index]);
                }
            }
            _ => {}
        }
    }
    None
}

/// The parts before and behind a word that is outside of brackets.
fn split<'a>(text: &'a str, word: &str) -> Option<(&'a str, &'a str)> {
    let is_outside = |place: &usize| {
        let opened = |index: usize| text[..index].ends_with('-');
        let depth = text[..*place].bytes().enumerate().fold(0_i32, |depth, (index, byte)| match byte {
            b'<' | b'(' | b'[' => depth + 1,
            b'>' if opened(index) => depth,
            b'>' | b')' | b']' => depth - 1,
            _ => depth,
        });
        depth == 0
    };
    let place = text.match_indices(word).map(|(place, _)| place).find(is_outside)?;
    Some((&text[..place], &text[place + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::plain;

    /// Names that rustc 1.95 gives the same functions with `-C symbol-mangling-version=legacy` and `=v0`.
    #[test]
    fn both_manglings_have_one_path() {
        for (legacy, v0, path) in [
            ("a::inner::generic", "a::inner::generic::<alloc::boxed::Box<u8>>", "a::inner::generic"),
            ("a::inner::Plain::method", "<a::inner::Plain>::method", "a::inner::Plain::method"),
            ("a::inner::Gen<T>::method", "<a::inner::Gen<u8>>::method", "a::inner::Gen::method"),
            (
                "a::inner::other::<impl a::inner::Plain>::far",
                "<a::inner::Plain>::far",
                "a::inner::Plain::far",
            ),
            (
                "<a::inner::Gen<T> as a::inner::Leaks>::by_trait",
                "<a::inner::Gen<u16> as a::inner::Leaks>::by_trait",
                "a::inner::Leaks::by_trait",
            ),
            (
                "a::inner::Leaks::by_default",
                "<a::inner::Gen<alloc::string::String> as a::inner::Leaks>::by_default",
                "a::inner::Leaks::by_default",
            ),
            (
                "<T as a::inner::Blanket>::by_blanket",
                "<fn(u8) -> [u8; 4] as a::inner::Blanket>::by_blanket",
                "a::inner::Blanket::by_blanket",
            ),
            (
                "a::tests::helper::{{closure}}::{{closure}}",
                "a::tests::helper::{closure#0}::{closure#1}",
                "a::tests::helper",
            ),
            (
                "a::x::<impl core::convert::From<a::T> for a::U>::from",
                "<a::U as core::convert::From<a::T>>::from",
                "core::convert::From::from",
            ),
            ("a::f::{{closure}}::g", "a::f::<u8>::{closure#0}::g::<i8>", "a::f::g"),
        ] {
            assert_eq!([plain(legacy), plain(v0)], [path, path], "{legacy} {v0}");
        }
    }

    #[test]
    fn c_and_cpp_have_no_arguments() {
        for (name, path) in [
            ("make", "make"),
            ("make.part.0", "make"),
            ("make.llvm.123", "make"),
            ("ns::Box<int>::put(int, std::vector<int> const&) const", "ns::Box::put"),
            ("void ns::f<int>()", "ns::f"),
            ("ns::A::operator()(int)", "ns::A::operator()"),
            ("ns::A::operator<(ns::A const&)", "ns::A::operator<"),
            ("operator new(unsigned long)", "operator new"),
            ("name[abi:cxx11]()", "name"),
            ("", ""),
        ] {
            assert_eq!(plain(name), path, "{name}");
        }
    }

    #[test]
    fn nonsense_is_some_path() {
        for name in
            ["<", "a<b", ">>", "{", "a::{", "<a as", "operator", "operator<", "->", "é<ü>ö", "operatorü"]
        {
            let _ = plain(name);
        }
    }
}
