//! Values as files have them.

use std::time::Duration;

use leakcheck_common::parse_size;
use toml::de::DeValue;

use super::key::{Kind, Value};
use crate::options::{Count, Dependencies, Recorder, Spawn, When};

/// Reads a value.
///
/// # Errors
/// What is expected instead.
pub fn read(kind: Kind, value: &DeValue<'_>) -> Result<Value, String> {
    let number = |what: &str| match value {
        DeValue::Integer(number) => u64::from_str_radix(number.as_str(), number.radix())
            .map_err(|_| format!("expected {what}, not `{number}`")),
        other => Err(format!("expected {what}, not {}", a(other))),
    };
    let one_of = |words: &str| match value {
        DeValue::String(text) => format!("expected {words}, not \"{}\"", text.escape_debug()),
        other => format!("expected {words}, not {}", a(other)),
    };
    match (kind, value) {
        (Kind::Size, DeValue::String(text)) => match parse_size(text) {
            Ok(size) => Ok(Value::Number(size)),
            Err(_) => {
                Err("expected a whole number with B, kB, KiB, MB, MiB, GB or GiB, as in \"4 KiB\"".to_owned())
            }
        },
        (Kind::Size, _) => number("a number of bytes or a size such as \"4 KiB\"").map(Value::Number),
        (Kind::Number, _) => number("a whole number").map(Value::Number),
        (Kind::Positive(most), _) => {
            let what = format!("a whole number from 1 to {most}");
            match number(&what)? {
                number if (1..=most).contains(&number) => Ok(Value::Number(number)),
                number => Err(format!("expected {what}, not `{number}`")),
            }
        }
        (Kind::Switch, DeValue::Boolean(on)) => Ok(Value::Switch(*on)),
        (Kind::Switch, other) => Err(format!("expected true or false, not {}", a(other))),
        (Kind::Reason, DeValue::String(text)) if text.trim().is_empty() => {
            Err("expected a reason".to_owned())
        }
        (Kind::Reason, DeValue::String(text)) if text.contains(char::is_control) => {
            Err("the reason must be a single line".to_owned())
        }
        (Kind::Reason, DeValue::String(text)) => Ok(Value::Reason(text.clone().into_owned())),
        (Kind::Reason, other) => Err(format!("expected a string that says why, not {}", a(other))),
        (Kind::Time, DeValue::String(text)) => duration(text).map(Value::Time),
        (Kind::Time, _) => {
            let seconds = number("a time such as \"30s\" or a number of seconds")?;
            duration(&seconds.to_string()).map(Value::Time)
        }
        (Kind::Count, value) => match value.as_str() {
            Some("lost") => Ok(Value::Count(Count::Lost)),
            Some("outstanding") => Ok(Value::Count(Count::Outstanding)),
            _ => Err(one_of("\"lost\" or \"outstanding\"")),
        },
        (Kind::Dependencies, value) => match value.as_str() {
            Some("fail") => Ok(Value::Dependencies(Dependencies::Fail)),
            Some("report") => Ok(Value::Dependencies(Dependencies::Report)),
            _ => Err(one_of("\"fail\" or \"report\"")),
        },
        (Kind::Recorder, value) => match value.as_str() {
            Some("auto") => Ok(Value::Recorder(Recorder::Auto)),
            Some("ledger") => Ok(Value::Recorder(Recorder::Ledger)),
            Some("uprobe") => Ok(Value::Recorder(Recorder::Uprobe)),
            _ => Err(one_of("\"auto\", \"ledger\" or \"uprobe\"")),
        },
        (Kind::Spawn, value) => match value.as_str() {
            Some("exec") => Ok(Value::Spawn(Spawn::Exec)),
            Some("fork") => Ok(Value::Spawn(Spawn::Fork)),
            Some("auto") => Ok(Value::Spawn(Spawn::Auto)),
            _ => Err(one_of("\"exec\", \"fork\" or \"auto\"")),
        },
        (Kind::When, value) => match value.as_str() {
            Some("auto") => Ok(Value::When(When::Auto)),
            Some("always") => Ok(Value::When(When::Always)),
            Some("never") => Ok(Value::When(When::Never)),
            _ => Err(one_of("\"auto\", \"always\" or \"never\"")),
        },
    }
}

/// What kind of value something is, with its article.
pub fn a(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a point",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// A time: a number of seconds, or a number with `ms`, `s`, `m` or `h` behind it.
///
/// # Errors
/// What is wrong with it.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unknown unit `{unit}`; use a number with ms, s, m or h, as in 30s")),
    };
    let seconds =
        number.parse::<f64>().map_err(|_| "use a number with ms, s, m or h, as in 30s".to_owned())?;
    match Duration::try_from_secs_f64(seconds * factor) {
        Ok(time) if !time.is_zero() => Ok(time),
        Ok(_) => Err("must be more than 0".to_owned()),
        Err(_) => Err("too long".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_time() {
        let cases = [("30", 30_000), ("30s", 30_000), ("2m", 120_000), ("1.5m", 90_000), ("250ms", 250)];
        for (text, milliseconds) in cases {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["", "s", "-1", "0", "1d", "1s2", "1e400h", "999999999999999999999h", "1.2.3"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
