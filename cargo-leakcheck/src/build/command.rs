//! Calling cargo, and showing what was called.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, ExitStatus};

use crate::error::Error;
use crate::options::BuildOptions;

/// A call of cargo's with its environment.
pub struct CargoCommand {
    program: OsString,
    arguments: Vec<OsString>,
    changes: Vec<(OsString, OsString)>,
    command: Command,
}

impl CargoCommand {
    /// `cargo NAME`, in the user's directory and environment.
    pub fn new(options: &BuildOptions, name: &str) -> Self {
        let mut command = Command::new(&options.cargo);
        command.arg(name).current_dir(&options.directory).env_clear().envs(&options.environment);
        Self { program: options.cargo.clone(), arguments: vec![name.into()], changes: Vec::new(), command }
    }

    /// Adds arguments.
    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        for argument in arguments {
            self.arguments.push(argument.as_ref().to_owned());
            self.command.arg(argument);
        }
        self
    }

    /// Sets variables.
    pub fn envs(&mut self, variables: impl IntoIterator<Item = (OsString, OsString)>) -> &mut Self {
        for (name, value) in variables {
            self.command.env(&name, &value);
            self.changes.push((name, value));
        }
        self
    }

    /// The command, to run it.
    pub fn command(&mut self) -> &mut Command {
        &mut self.command
    }

    /// What to say when cargo did not succeed; it has said why itself.
    pub fn failed(&self, status: ExitStatus) -> Error {
        Error::Build { command: self.paste(), status: status.to_string() }
    }

    /// What to say when cargo could not be called, or did something that it should not.
    pub fn unexpected(&self, reason: impl ToString) -> Error {
        Error::Command { command: self.paste(), reason: reason.to_string() }
    }

    /// What to say when cargo could not be started.
    pub fn not_started(&self, error: &io::Error) -> Error {
        self.unexpected(format_args!("{error}; is cargo installed and in PATH?"))
    }

    /// The command as it can be pasted into a shell.
    fn paste(&self) -> String {
        let mut words = Vec::new();
        for (name, value) in &self.changes {
            words.push(format!("{}={}", name.display(), quote(value)));
        }
        words.push(quote(&self.program));
        words.extend(self.arguments.iter().map(|argument| quote(argument)));
        words.join(" ")
    }
}

/// Quotes a word for a shell where that is needed.
pub fn quote(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./,:@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into_owned()
    } else if word.chars().any(char::is_control) {
        // The form that bash, zsh and newer POSIX shells read.
        let escape = |c: char| match c {
            '\'' | '\\' => format!("\\{c}"),
            c if c.is_ascii_control() => format!("\\x{:02x}", u32::from(c)),
            c => c.to_string(),
        };
        format!("$'{}'", word.chars().map(escape).collect::<String>())
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_a_shell() {
        for word in ["plain", "", "two words", "it's", "$HOME", "a\u{1f}b", "-Cx=y", "*", "back\\slash\t'ü"]
        {
            let script = format!("printf %s {}", quote(OsStr::new(word)));
            let output = Command::new("bash").arg("-c").arg(&script).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word, "{script}");
        }
    }
}
