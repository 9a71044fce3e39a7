//! What a run writes, and where.

use camino::Utf8PathBuf;

/// How to report.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// Where the JUnit document goes.
    pub junit: Option<Utf8PathBuf>,
    /// Where the JSON document goes; `-` is standard output.
    pub json: Option<Utf8PathBuf>,
    /// Where the HTML page goes.
    pub html: Option<Utf8PathBuf>,
    /// Where the SARIF document goes.
    pub sarif: Option<Utf8PathBuf>,
    /// Where the flame graph goes.
    pub flamegraph: Option<Utf8PathBuf>,
    /// Where folded stacks go.
    pub folded: Option<Utf8PathBuf>,
    /// Where the flame graph of what was alive at peaks goes.
    pub peak_flamegraph: Option<Utf8PathBuf>,
    /// Where folded stacks of that go.
    pub peak_folded: Option<Utf8PathBuf>,
    /// Where the profile goes.
    pub pprof: Option<Utf8PathBuf>,
    /// The directory that collects the JSON documents of all processes of a run.
    pub results: Option<Utf8PathBuf>,
    /// Write events to standard output.
    pub stream: bool,
    /// When to tell GitHub Actions.
    pub github: When,
    /// Where that would be.
    pub actions: Github,
    /// Show std, allocator and harness frames too.
    pub full_stacks: bool,
    /// Show what every test leaves in its temporary directory.
    pub files: bool,
    /// When to colour.
    pub color: Color,
    /// The terminal has characters for pictures.
    pub unicode: bool,
    /// Say how long each leak check took (only the benchmark wants this).
    pub timings: bool,
}

impl ReportOptions {
    /// The option that takes standard output for a report, if one does.
    pub fn on_stdout(&self) -> Option<&'static str> {
        let Self {
            junit, json, html, sarif, flamegraph, folded, peak_flamegraph, peak_folded, pprof, ..
        } = self;
        let options = [
            (junit, "--junit -"),
            (json, "--json -"),
            (html, "--html -"),
            (sarif, "--sarif -"),
            (flamegraph, "--flamegraph -"),
            (folded, "--folded -"),
            (peak_flamegraph, "--peak-flamegraph -"),
            (peak_folded, "--peak-folded -"),
            (pprof, "--pprof -"),
        ];
        let is_taken = |path: &Option<Utf8PathBuf>| path.as_deref().is_some_and(|path| path == "-");
        options.into_iter().find_map(|(path, option)| is_taken(path).then_some(option))
    }

    /// GitHub Actions, if it is to be told.
    pub fn tells_github(&self) -> Option<&Github> {
        let tells = match self.github {
            When::Auto => self.actions.is_there,
            When::Always => true,
            When::Never => false,
        };
        tells.then_some(&self.actions)
    }
}

/// When to do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// Where it makes sense.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// What GitHub Actions is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Github {
    /// It is what runs the tool.
    pub is_there: bool,
    /// Where the repository has been checked out.
    pub repository: Utf8PathBuf,
    /// The file of the step's summary.
    pub summary: Option<Utf8PathBuf>,
}

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Color {
    /// On a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}
