//! Rules, as a file has them.

use toml::Spanned;
use toml::de::DeValue;

use super::key::{Kind, Value};
use super::read::Reader;
use super::value;
use crate::model::{Day, LEAKS, Leak, Limit, Patterns, Rule, RuleFrom, StackPart};

/// What a rule can say.
const NAMES: [&str; 14] = [
    "any",
    "crate",
    "expires",
    "file",
    "function",
    "kind",
    "library",
    "max-blocks",
    "max-bytes",
    "module",
    "name",
    "reason",
    "stack",
    "test",
];
/// Of these it says one at least.
const FROM: &str = "`function`, `module`, `crate`, `file`, `library`, `any` or `stack`";

impl Reader<'_> {
    /// Reads one rule.
    ///
    /// # Errors
    /// A message that points at what is wrong.
    pub(super) fn rule(&self, value: &Spanned<DeValue<'_>>) -> Result<Rule, String> {
        let table = self.table(value)?;
        let at = |name: &str| table.get(name);
        if let Some((key, _)) = table.iter().find(|(key, _)| !NAMES.contains(&key.get_ref().as_ref())) {
            return Err(self.unknown(key, &NAMES, &format!("a rule has {FROM}, and `reason`")));
        }
        let line = |value: &Spanned<DeValue<'_>>| match self.string(value)? {
            text if text.contains(char::is_control) => {
                Err(self.point(value.span(), "expected a single line", ""))
            }
            text => Ok(text.to_owned()),
        };
        let text = |name: &str| at(name).map(line).transpose();
        let number =
            |name: &str, kind| match at(name).map(|value| self.value(name, kind, value)).transpose()? {
                Some(Value::Number(number)) => Ok::<_, String>(Some(number)),
                _ => Ok(None),
            };
        let patterns = Patterns {
            function: text("function")?,
            module: text("module")?,
            krate: text("crate")?,
            file: text("file")?,
            library: text("library")?,
            any: text("any")?,
        };
        let stack = at("stack").map(|stack| self.stack(stack)).transpose()?;
        if stack.is_some() && patterns != Patterns::default() {
            let hint = format!("leave out {FROM}, or `stack`");
            return Err(self.point(value.span(), "a rule that says twice where the leak comes from", &hint));
        }
        if stack.is_none() && patterns == Patterns::default() {
            let hint = format!("say by {FROM} where the leak comes from; `*` is anything");
            return Err(self.point(value.span(), "a rule that is for everything", &hint));
        }
        let Some(reason) = at("reason") else {
            return Err(self.point(
                value.span(),
                "a rule without a reason",
                "add `reason = \"…\"`: why may it leak?",
            ));
        };
        let Value::Reason(reason) = self.value("reason", Kind::Reason, reason)? else {
            unreachable!("of that kind")
        };
        let limit =
            Limit { bytes: number("max-bytes", Kind::Size)?, blocks: number("max-blocks", Kind::Number)? };
        let kinds = at("kind").map(|kinds| self.kinds(kinds)).transpose()?.unwrap_or_default();
        let expires = at("expires").map(|day| self.day(day)).transpose()?;
        let place = self.place(value.span()).line();
        let Patterns { function, module, krate, file, library, any } = &patterns;
        let first = [function, module, krate, file, library, any].into_iter().flatten().next();
        let name = text("name")?.or(first.cloned()).unwrap_or_else(|| place.clone()).into();
        let from = stack.map_or(RuleFrom::Frame(patterns), RuleFrom::Stack);
        let test = text("test")?;
        Ok(Rule { name, place, reason, from, kinds, test, limit, expires })
    }

    /// An array of strings.
    pub(super) fn strings(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<String>, String> {
        let all = value.get_ref().as_array();
        let all = all.ok_or_else(|| self.point(value.span(), "expected an array of strings", ""))?;
        all.iter().map(|one| self.string(one).map(str::to_owned)).collect()
    }

    /// One kind, or an array of them.
    fn kinds(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<Leak>, String> {
        let kind = |value: &Spanned<DeValue<'_>>| {
            let name = self.string(value)?.replace('-', "_");
            let known = LEAKS.iter().find(|(_, known)| *known == name);
            let names: Vec<_> = LEAKS.iter().map(|(_, known)| *known).collect();
            let message =
                || self.point(value.span(), "no kind of leak", &format!("there are: {}", names.join(", ")));
            known.map(|(leak, _)| *leak).ok_or_else(message)
        };
        match value.get_ref() {
            DeValue::Array(all) => all.iter().map(kind).collect(),
            _ => Ok(vec![kind(value)?]),
        }
    }

    /// The frames of a stack, innermost first.
    fn stack(&self, value: &Spanned<DeValue<'_>>) -> Result<Vec<StackPart>, String> {
        let all = value.get_ref().as_array().filter(|all| !all.is_empty());
        let all = all.ok_or_else(|| {
            self.point(
                value.span(),
                "expected functions, innermost first",
                "as in [\"a::make\", \"...\", \"a::init\"]",
            )
        })?;
        all.iter().map(|one| self.string(one).map(StackPart::parse)).collect()
    }

    fn day(&self, value: &Spanned<DeValue<'_>>) -> Result<Day, String> {
        let date = match value.get_ref() {
            DeValue::Datetime(time) if time.time.is_none() => time.date,
            DeValue::String(text) => text
                .parse::<toml::value::Datetime>()
                .ok()
                .filter(|it| it.time.is_none())
                .and_then(|it| it.date),
            _ => None,
        };
        let date = date.map(|date| (i32::from(date.year), date.month, date.day));
        date.ok_or_else(|| self.point(value.span(), "no day", "write it as 2027-12-31"))
    }

    /// The rules of a profile.
    pub(super) fn rules(&self, profile: &str, value: &Spanned<DeValue<'_>>) -> Result<Vec<Rule>, String> {
        let all = value.get_ref().as_array();
        let all = all.ok_or_else(|| {
            self.point(
                value.span(),
                "expected an array of tables",
                &format!("write `[[profile.{profile}.rules]]`"),
            )
        })?;
        all.iter().map(|one| self.rule(one)).collect()
    }

    pub(super) fn value(
        &self,
        name: &str,
        kind: Kind,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<Value, String> {
        let read = value::read(kind, value.get_ref());
        read.map_err(|message| self.point(value.span(), &format!("wrong value of `{name}`"), &message))
    }
}

/// The rules of all profiles of a file.
#[cfg(test)]
pub(crate) fn rules_of(text: &str) -> Result<Vec<Rule>, String> {
    let profiles = super::read::profiles("leakcheck.toml", text, &[])?;
    Ok(profiles.into_values().flat_map(|profile| profile.rules).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_where_and_why() {
        let text = "
[[profile.default.rules]]
name = 'init'
function = 'a::init*'
kind = ['definitely-lost', 'descriptor']
max-blocks = 1
max-bytes = '1 KiB'
reason = 'once a process'
expires = 2027-12-31

[[profile.default.rules]]
crate = 'dep'
kind = 'child'
reason = 'not ours'
expires = '2027-01-01'
";
        let [init, dep] = <[Rule; 2]>::try_from(rules_of(text).unwrap()).unwrap();
        assert_eq!(
            (&*init.name, &*init.place, &*init.reason),
            ("init", "leakcheck.toml:2", "once a process")
        );
        assert_eq!(init.limit, Limit { bytes: Some(1024), blocks: Some(1) });
        assert_eq!((init.expires, dep.expires), (Some((2027, 12, 31)), Some((2027, 1, 1))));
        let lost = Leak::Memory(crate::model::FindingKind::DefinitelyLost);
        assert_eq!((init.kinds, dep.kinds), (vec![lost, Leak::Descriptor], vec![Leak::Child]));
        // Without a name it is called what it is for.
        assert_eq!(&*dep.name, "dep");
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (rule, message, hint) in [
            ("function = 'a'", "a rule without a reason", "add `reason"),
            ("reason = 'x'", "a rule that is for everything", "say by `function`"),
            ("function = 'a'\nreason = ' '", "wrong value of `reason`", "expected a reason"),
            ("function = 3\nreason = 'x'", "expected a string, not a whole number", ""),
            ("function = 'a'\nreason = 'x'\nkind = 'lost'", "no kind of leak", "there are: definitely_lost"),
            ("function = 'a'\nreason = 'x'\nexpires = 2027", "no day", "write it as 2027-12-31"),
            (
                "function = 'a'\nreason = 'x'\nmax_blocks = 2",
                "unknown key `max_blocks`",
                "did you mean `max-blocks`?",
            ),
            ("function = 'a'\nstack = ['b']\nreason = 'x'", "a rule that says twice", "leave out"),
            ("crate = 'a'\nreason = 'x'\nname = \"a\\nb\"", "expected a single line", ""),
            ("stack = []\nreason = 'x'", "expected functions, innermost first", "as in"),
        ] {
            let error = rules_of(&format!("[[profile.default.rules]]\n{rule}\n")).unwrap_err();
            assert!(error.contains(message) && error.contains(hint), "{rule}: {error}");
        }
        let error = rules_of("[profile.default]\nrules = 3\n").unwrap_err();
        assert!(error.contains("[[profile.default.rules]]"), "{error}");
    }
}
