//! Rules as a configuration file has them.

use crate::config::Value;
use crate::model::{Leak, Patterns, Rule, RuleFrom};

/// One rule, to be pasted into `.config/leakcheck.toml`.
pub fn toml(rule: &Rule, profile: &str) -> String {
    let Rule { name, place: _, reason, from, kinds, test, limit, expires } = rule;
    // A configuration has single lines.
    let quoted = |text: &str| Value::Reason(text.replace(char::is_control, "\u{fffd}")).to_string();
    let mut lines = vec![format!("[[profile.{profile}.rules]]")];
    let mut add =
        |key: &str, value: Option<String>| lines.extend(value.map(|value| format!("{key} = {value}")));
    add("name", Some(quoted(name)));
    match from {
        RuleFrom::Frame(Patterns { function, module, krate, file, library, any }) => {
            let all = [
                ("function", function),
                ("module", module),
                ("crate", krate),
                ("file", file),
                ("library", library),
                ("any", any),
            ];
            all.into_iter().for_each(|(key, value)| add(key, value.as_deref().map(quoted)));
        }
        RuleFrom::Stack(parts) => {
            let parts: Vec<_> = parts.iter().map(|part| quoted(&part.to_string())).collect();
            add("stack", Some(format!("[{}]", parts.join(", "))));
        }
    }
    let kinds: Vec<_> = kinds.iter().map(|kind: &Leak| quoted(kind.name())).collect();
    add("kind", (!kinds.is_empty()).then(|| format!("[{}]", kinds.join(", "))));
    add("test", test.as_deref().map(quoted));
    add("max-bytes", limit.bytes.map(|limit| limit.to_string()));
    add("max-blocks", limit.blocks.map(|limit| limit.to_string()));
    add("reason", Some(quoted(reason)));
    add("expires", expires.map(|(year, month, day)| format!("{year:04}-{month:02}-{day:02}")));
    lines.join("\n") + "\n"
}
