//! A test's environment as `execve` takes it: what all tests of its binary have, and a variable of its own.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::sync::Arc;

/// The variables of a test.
pub struct Variables {
    all: Arc<[CString]>,
    /// One that stands at a place of its own, or behind all others.
    own: Option<(usize, CString)>,
}

impl Variables {
    /// Those of `all`, but for `own`, which takes the place of that of its name.
    pub fn new(all: Arc<[CString]>, own: Option<(&OsStr, &OsStr)>) -> Self {
        let own = own.map(|(name, value)| {
            let is_own = |variable: &CString| {
                let rest = variable.as_bytes().strip_prefix(name.as_bytes());
                rest.is_some_and(|rest| rest.starts_with(b"="))
            };
            (all.iter().position(is_own).unwrap_or(all.len()), join(name, value))
        });
        Self { all, own }
    }

    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = &CStr> {
        let (place, own) = self.own.as_ref().map_or((usize::MAX, None), |(place, own)| (*place, Some(own)));
        let (before, rest) = self.all.split_at(place.min(self.all.len()));
        let behind = rest.get(usize::from(own.is_some())..).unwrap_or_default();
        before.iter().chain(own).chain(behind).map(CString::as_c_str)
    }
}

/// The variables of an environment.
pub fn strings(environment: &[(OsString, OsString)]) -> Arc<[CString]> {
    environment.iter().map(|(name, value)| join(name, value)).collect()
}

fn join(name: &OsStr, value: &OsStr) -> CString {
    let mut variable = name.to_owned();
    variable.push("=");
    variable.push(value);
    string(variable)
}

/// Variables, arguments and paths come from `execve` themselves or from files: a NUL cannot be in them. One
/// that has one all the same is cut there, as `execve` would.
pub fn string(text: impl Into<OsString>) -> CString {
    let mut bytes = text.into().into_vec();
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    bytes.truncate(end);
    CString::new(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_own_variable_takes_the_place_of_another() {
        let of = |names: &[&str], own: Option<(&str, &str)>| {
            let environment: Vec<(OsString, OsString)> =
                names.iter().map(|name| (name.into(), "x=y".into())).collect();
            let own = own.map(|(name, value)| (OsStr::new(name), OsStr::new(value)));
            let all = Variables::new(strings(&environment), own);
            all.iter().map(|variable| variable.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let own = Some(("T", "/t"));
        assert_eq!(of(&["A", "T", "TB"], own), ["A=x=y", "T=/t", "TB=x=y"]);
        assert_eq!(of(&["TA", "A"], own), ["TA=x=y", "A=x=y", "T=/t"]);
        assert_eq!(of(&[], own), ["T=/t"]);
        assert_eq!(of(&["T", "A"], None), ["T=x=y", "A=x=y"]);
    }

    #[test]
    fn what_execve_would_cut_is_cut() {
        assert_eq!(string("a\0b"), c"a".to_owned());
    }
}
