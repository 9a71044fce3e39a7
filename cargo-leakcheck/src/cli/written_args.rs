//! The options that name a file for a report.

use camino::Utf8PathBuf;
use clap::Args;

use crate::options::ReportOptions;

#[derive(Clone, Debug, Args)]
pub struct WrittenArgs {
    /// Write a JUnit report
    #[arg(long, value_name = "PATH")]
    pub junit: Option<Utf8PathBuf>,
    /// Write a JSON report; - is standard output, for this and the others
    #[arg(long, value_name = "PATH")]
    pub json: Option<Utf8PathBuf>,
    /// Write a page to look at, in one file
    #[arg(long, value_name = "PATH")]
    pub html: Option<Utf8PathBuf>,
    /// Write a SARIF report, for code scanning and editors
    #[arg(long, value_name = "PATH")]
    pub sarif: Option<Utf8PathBuf>,
    /// Draw the leaked bytes by call stacks, as a flame graph in SVG
    #[arg(long, value_name = "PATH")]
    pub flamegraph: Option<Utf8PathBuf>,
    /// Write the leaked bytes by call stacks, a line each, for flame graph tools
    #[arg(long, value_name = "PATH")]
    pub folded: Option<Utf8PathBuf>,
    /// Draw what was alive at the tests' peaks by call stacks, as a flame graph in SVG (--peak-stacks)
    #[arg(long, value_name = "PATH")]
    pub peak_flamegraph: Option<Utf8PathBuf>,
    /// Write what was alive at the tests' peaks by call stacks, a line each (--peak-stacks)
    #[arg(long, value_name = "PATH")]
    pub peak_folded: Option<Utf8PathBuf>,
    /// Write the leaked bytes and blocks as a profile for pprof
    #[arg(long, value_name = "PATH")]
    pub pprof: Option<Utf8PathBuf>,
}

impl WrittenArgs {
    /// Where reports go; all else is as by default.
    pub fn options(&self) -> ReportOptions {
        let Self { junit, json, html, sarif, flamegraph, folded, peak_flamegraph, peak_folded, pprof } =
            self.clone();
        ReportOptions {
            junit,
            json,
            html,
            sarif,
            flamegraph,
            folded,
            peak_flamegraph,
            peak_folded,
            pprof,
            ..ReportOptions::default()
        }
    }

    /// The option of a report that is made of nothing but what was alive at peaks, if one is given.
    pub fn of_peak(&self) -> Option<&'static str> {
        let options = [(&self.peak_flamegraph, "peak-flamegraph"), (&self.peak_folded, "peak-folded")];
        options.into_iter().find_map(|(path, name)| path.as_ref().map(|_| name))
    }
}
