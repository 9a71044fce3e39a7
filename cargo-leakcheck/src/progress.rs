//! What a person sees while tests run: lines on standard error, and a bar below them on a terminal.

use std::io::Write as _;

use anstream::{AutoStream, ColorChoice};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::options::Color;
use crate::sys::Patient;

/// Prints lines above a progress bar. The bar exists on a terminal only, and only until
/// [`Progress::finish`].
pub struct Progress {
    bar: ProgressBar,
    color: ColorChoice,
}

impl Progress {
    /// Without a bar yet.
    pub fn new(color: Color) -> Self {
        let color = match color {
            Color::Auto => ColorChoice::Auto,
            Color::Always => ColorChoice::AlwaysAnsi,
            Color::Never => ColorChoice::Never,
        };
        Self { bar: ProgressBar::hidden(), color }
    }

    /// Shows the bar for a number of tests.
    pub fn start(&mut self, tests: usize) {
        let colored =
            AutoStream::choice(&std::io::stderr()) != ColorChoice::Never && self.color != ColorChoice::Never;
        let prefix = if colored { "{prefix:>12.cyan.bold}" } else { "{prefix:>12}" };
        let template = format!("{prefix} [{{bar:25}}] {{pos}}/{{len}}: {{wide_msg}}");
        let style = ProgressStyle::with_template(&template).expect("a valid template").progress_chars("=> ");
        // Draws nothing where standard error is no terminal.
        self.bar = ProgressBar::with_draw_target(Some(tests as u64), ProgressDrawTarget::stderr())
            .with_style(style)
            .with_prefix("Running");
    }

    /// Says what is running. A harness may name its tests as it likes: nothing of a name may steer the
    /// terminal.
    pub fn running(&self, what: &str) {
        self.bar.set_message(what.replace(char::is_control, "\u{fffd}"));
    }

    /// Counts one test.
    pub fn advance(&self) {
        self.bar.inc(1);
    }

    /// Prints text that may hold colours; they are removed where they are not wanted.
    pub fn print(&self, text: &str) {
        self.bar.suspend(|| {
            let stderr = std::io::stderr().lock();
            let choice = match self.color {
                ColorChoice::Auto => AutoStream::choice(&stderr),
                chosen => chosen,
            };
            let mut stream = AutoStream::new(Vec::new(), choice);
            let _ = stream.write_all(text.as_bytes());
            // Nobody may be listening; that must not end the tests.
            let _ = Patient(stderr).write_all(&stream.into_inner());
        });
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
