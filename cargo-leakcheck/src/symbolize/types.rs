//! The type that a block was allocated for, as the names of std's functions in its call stack tell it. Pure.
//!
//! Of the frames inside the user's own, the innermost one of a type that owns memory names it
//! (`Vec<u16>::push`), and a frame around that may say what this is part of (a `String` has a `Vec<u8>`). Where std
//! has done something of its own with the memory, nothing is said: no hint is better than a wrong one.
//!
//! The names of v0 mangling have the types. Those of legacy mangling have only the names of parameters
//! (`Vec<T,A>::push`); what these are, the debug information's name tells, which has nothing but that
//! (`push<u16, alloc::alloc::Global>`).

mod short;

use short::short;

/// A function of std.
pub(super) struct Called<'a> {
    /// Demangled.
    pub function: &'a str,
    /// The debug information's name, where [`has_parameters`] makes it wanted.
    pub generic: Option<String>,
}

/// Types that own memory: crate and name, and how many parameters they have without those for allocators and hashers.
const OWNERS: [(&str, &str, usize); 15] = [
    ("alloc", "Box", 1),
    ("alloc", "Vec", 1),
    ("alloc", "Rc", 1),
    ("alloc", "Arc", 1),
    ("alloc", "String", 0),
    ("alloc", "VecDeque", 1),
    ("alloc", "LinkedList", 1),
    ("alloc", "BinaryHeap", 1),
    ("alloc", "BTreeMap", 2),
    ("alloc", "BTreeSet", 1),
    ("alloc", "CString", 0),
    ("std", "HashMap", 2),
    ("std", "HashSet", 1),
    ("std", "PathBuf", 0),
    ("std", "OsString", 0),
];

/// What those have in their blocks, and nobody else knows.
const HELPERS: [&str; 6] = ["ArcInner", "RcInner", "RcBox", "LeafNode", "InternalNode", "linked_list::Node"];

/// Parameters that have a default, which nobody writes.
const DEFAULTS: [&str; 3] =
    [", alloc::alloc::Global", ", std::hash::random::RandomState", ", &alloc::alloc::Global"];

/// Parts of std that only do for a type what it asks for.
const PLAIN: [&str; 4] = ["std::collections", "std::ffi", "std::path", "std::sys::os_str"];

/// A type with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    name: &'static str,
    arguments: Vec<String>,
}

impl Owner {
    /// Whether its memory is that of another one.
    fn wraps(&self, inner: &Self) -> bool {
        let argument = |of: &Self| of.arguments.first().cloned().unwrap_or_default();
        let (own, of_inner) = (argument(self), argument(inner));
        let is_bytes = inner.name == "Vec" && of_inner == "u8" || inner.name == "Box" && of_inner == "[u8]";
        match self.name {
            "String" | "OsString" | "CString" => is_bytes,
            "PathBuf" => is_bytes || inner.name == "OsString",
            "BinaryHeap" => inner.name == "Vec" && own == of_inner,
            "HashSet" => inner.name == "HashMap" && own == of_inner,
            "BTreeSet" => inner.name == "BTreeMap" && own == of_inner,
            "Box" | "Rc" | "Arc" if ["str", "OsStr", "CStr", "Path"].contains(&last(&own)) => {
                is_bytes || inner.name == self.name && of_inner == "[u8]"
            }
            "Box" => inner.name == "Vec" && own == format!("[{of_inner}]"),
            _ => false,
        }
    }

    fn shown(&self) -> String {
        match self.arguments.as_slice() {
            [] => self.name.to_owned(),
            arguments => format!("{}<{}>", self.name, arguments.join(", ")),
        }
    }
}

/// What a frame says of the memory.
enum Says {
    /// It is of this type.
    Of(Owner),
    /// The bytes are text of this type.
    Text(&'static str),
    Nothing,
    /// It is for something of std's own.
    Private,
}

/// Whether the debug information has to say what a function's parameters are.
pub(super) fn has_parameters(function: &str) -> bool {
    let (of, _) = receiver(function);
    if is_closure(function) {
        return false;
    }
    of == "alloc::vec" && function == FROM_ELEM
        || owner_name(&of)
            .is_some_and(|(_, rest)| arguments(rest).iter().any(|part| parameter(part).is_some()))
}

/// What `vec![value; count]` calls.
const FROM_ELEM: &str = "alloc::vec::from_elem";

/// The type of the memory that the innermost of these frames has allocated for the outermost; they come innermost first.
pub(super) fn hint(frames: &[Called<'_>]) -> Option<String> {
    let mut current: Option<Owner> = None;
    // Whatever is around a type that it is not part of has only asked for it.
    let mut is_settled = false;
    for frame in frames {
        match says(frame) {
            Says::Private => return None,
            Says::Nothing => {}
            Says::Text(name) => {
                let text = Owner { name, arguments: Vec::new() };
                if !is_settled && current.as_ref().is_some_and(|inner| text.wraps(inner)) {
                    current = Some(text);
                }
            }
            Says::Of(owner) => match &current {
                None => current = Some(owner),
                Some(inner) if *inner == owner || is_settled => {}
                Some(inner) if owner.wraps(inner) => current = Some(owner),
                Some(_) => is_settled = true,
            },
        }
    }
    let owner = current?;
    // What `vec![a, b]` begins with: the memory of an array, which becomes a vector's.
    let is_array =
        owner.name == "Box" && owner.arguments[0].starts_with('[') && owner.arguments[0].contains(';');
    let is_macro = frames.last().is_some_and(|frame| frame.function.ends_with("::new_uninit"));
    let shown = if is_array && is_macro { owner.arguments[0].clone() } else { owner.shown() };
    Some(short(&shown))
}

fn says(frame: &Called<'_>) -> Says {
    let (of, as_trait) = receiver(frame.function);
    if frame.function.starts_with(FROM_ELEM) {
        let generic = frame.generic.as_deref().unwrap_or(frame.function);
        let element = generic.split_once('<').map(|(_, rest)| arguments(&format!("<{rest}")));
        let Some(element) = element.and_then(|arguments| arguments.into_iter().next()) else {
            return Says::Nothing;
        };
        return Says::Of(Owner { name: "Vec", arguments: vec![type_name(&element)] });
    }
    if is_closure(frame.function) {
        // What it is in says more.
        return if is_private(&of) { Says::Private } else { Says::Nothing };
    }
    if let Some((of, rest)) = owner_name(&of) {
        return match filled(rest, frame) {
            Some(given) if given.len() >= of.2 => {
                let given: Vec<String> = given.into_iter().take(of.2).collect();
                if given.first().is_some_and(|of| is_helper(of)) {
                    return Says::Nothing;
                }
                // A hasher of the user's own is no part of what it holds.
                Says::Of(Owner { name: of.1, arguments: given })
            }
            _ => Says::Private,
        };
    }
    if as_trait.starts_with("alloc::string::") || of == "str" || frame.function.starts_with("alloc::str::") {
        return Says::Text("String");
    }
    match last(&of) {
        "OsStr" => return Says::Text("OsString"),
        "Path" => return Says::Text("PathBuf"),
        "CStr" => return Says::Text("CString"),
        _ if of.starts_with("alloc::fmt") => return Says::Text("String"),
        _ => {}
    }
    if is_private(&of) || is_private(&as_trait) { Says::Private } else { Says::Nothing }
}

fn is_closure(function: &str) -> bool {
    function.rsplit("::").next().is_some_and(|last| last.starts_with('{'))
}

/// Whether a path of std leads to something that allocates for itself.
fn is_private(path: &str) -> bool {
    let path = path.trim_start_matches(['<', '&', '[', '(']);
    let is_below = |module: &&str| path == *module || is_below(path, module);
    ["std", "test", "proc_macro"].iter().any(is_below) && !PLAIN.iter().any(is_below)
}

fn is_below(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.starts_with("::"))
}

/// What a function belongs to, a type or a module, and the trait that it implements for it.
fn receiver(function: &str) -> (String, String) {
    let mut path = segments(function);
    // Closures and functions in functions belong to what these do.
    while path.len() > 1 && path.last().is_some_and(|last| last.starts_with('{') || last.starts_with('<')) {
        path.pop();
    }
    match path.as_slice() {
        [first, ..] if first.starts_with('<') => {
            let inner = &first[1..first.len().saturating_sub(1)];
            let (of, as_trait) = super::foreign::split_as(inner).unwrap_or((inner, ""));
            (of.to_owned(), as_trait.to_owned())
        }
        // As legacy mangling has them: `alloc::slice::<impl [T]>::to_vec`.
        [.., implementation, _] if implementation.starts_with("<impl ") => {
            let inner = &implementation[6..implementation.len() - 1];
            let (as_trait, of) = inner.split_once(" for ").unwrap_or(("", inner));
            (of.to_owned(), as_trait.to_owned())
        }
        [of @ .., _] => (of.join("::"), String::new()),
        [] => (String::new(), String::new()),
    }
}

/// The parts of a path, by the `::` outside of brackets.
fn segments(path: &str) -> Vec<&str> {
    let (mut depth, mut start, mut parts) = (0_u32, 0, Vec::new());
    for (place, byte) in path.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if path[..place].ends_with('-') => {}
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && place >= start && path[place..].starts_with("::") => {
                parts.push(&path[start..place]);
                start = place + 2;
            }
            _ => {}
        }
    }
    parts.push(path.get(start..).unwrap_or_default());
    parts
}

/// The type that owns memory whose path this is, and what follows its name: its arguments.
fn owner_name(of: &str) -> Option<(&'static (&'static str, &'static str, usize), &str)> {
    let end = of.find('<').unwrap_or(of.len());
    let (path, rest) = of.split_at(end);
    let (path, rest) = if path.ends_with("::") { (path.trim_end_matches(':'), rest) } else { (path, rest) };
    let (of_crate, name) = (path.split("::").next()?, last(path));
    // Entries are the places of a map.
    let name = match name {
        "Entry" | "VacantEntry" if path.contains("::btree::map::") => "BTreeMap",
        "Entry" | "VacantEntry" if path.contains("::hash::map::") => "HashMap",
        name => name,
    };
    OWNERS.iter().find(|owner| (owner.0, owner.1) == (of_crate, name)).map(|owner| (owner, rest))
}

/// The arguments of a type in a frame, with what the debug information says for its parameters.
fn filled(rest: &str, frame: &Called<'_>) -> Option<Vec<String>> {
    let written = arguments(rest);
    if written.iter().all(|argument| parameter(argument).is_none()) {
        return Some(written.iter().map(|argument| type_name(argument)).collect());
    }
    // Those of the implementation come first, in the order in which std's types have them.
    let generic = frame.generic.as_deref()?;
    let given = arguments(&generic[generic.find('<')?..]);
    let mut given = given.iter();
    let filled = written.iter().map(|argument| match parameter(argument) {
        Some(parameter) => given.next().map(|given| argument.replace(parameter, given)),
        None => Some(argument.clone()),
    });
    Some(filled.collect::<Option<Vec<_>>>()?.iter().map(|argument| type_name(argument)).collect())
}

/// The parameter that an argument is, or a slice of: a name without a path that is none of the language's types.
fn parameter(argument: &str) -> Option<&str> {
    let name = argument.trim_start_matches('[').trim_end_matches(']');
    let is_name =
        name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(char::is_alphanumeric);
    is_name.then_some(name)
}

/// `<A, B<C>>…` as its arguments.
fn arguments(text: &str) -> Vec<String> {
    let Some(inner) = text.strip_prefix('<') else { return Vec::new() };
    let (mut depth, mut start, mut parts) = (0_u32, 0, Vec::new());
    for (place, byte) in inner.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' if inner[..place].ends_with('-') => {}
            b'>' if depth == 0 => {
                parts.push(inner[start..place].trim().to_owned());
                break;
            }
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(inner[start..place].trim().to_owned());
                start = place + 1;
            }
            _ => {}
        }
    }
    parts
}

fn is_helper(argument: &str) -> bool {
    let path = argument.split('<').next().unwrap_or_default();
    HELPERS.iter().any(|helper| path == *helper || path.ends_with(&format!("::{helper}")))
}

/// A type without parameters that have their defaults.
fn type_name(text: &str) -> String {
    DEFAULTS.iter().fold(text.to_owned(), |text, default| text.replace(default, ""))
}

/// The last name of a path.
fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}

#[cfg(test)]
mod tests;
