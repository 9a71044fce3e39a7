//! Report files: opened before the work starts, so that a wrong path costs no run.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use super::github::StepSummary;
use super::{Bytes, FlameGraph, Folded, Format, Html, Json, Junit, Pprof, Run, Sarif, View};
use crate::error::{Error, Result};
use crate::options::ReportOptions;
use crate::sys::Patient;

/// The report files of a run, open for writing.
pub struct Files {
    files: Vec<OpenFile>,
}

struct OpenFile {
    format: Box<dyn Format>,
    path: Utf8PathBuf,
    file: Box<dyn Write>,
}

/// Opens the files that the options ask for, emptying what was there; `-` is standard output.
///
/// # Errors
/// [`Error::File`] for a path that cannot be written, [`Error::Usage`] when two reports share one.
pub fn open(options: &ReportOptions) -> Result<Files> {
    let formats: [(&Option<Utf8PathBuf>, Box<dyn Format>); 9] = [
        (&options.junit, Box::new(Junit)),
        (&options.json, Box::new(Json)),
        (&options.html, Box::new(Html)),
        (&options.sarif, Box::new(Sarif)),
        (&options.flamegraph, Box::new(FlameGraph(Bytes::Leaked))),
        (&options.folded, Box::new(Folded(Bytes::Leaked))),
        (&options.peak_flamegraph, Box::new(FlameGraph(Bytes::AtPeak))),
        (&options.peak_folded, Box::new(Folded(Bytes::AtPeak))),
        (&options.pprof, Box::new(Pprof)),
    ];
    let mut files: Vec<OpenFile> = Vec::new();
    for (path, format) in formats {
        if let Some(path) = path {
            let file = create(path)?;
            if let Some(OpenFile { path: other, .. }) = files.iter().find(|file| is_same(&file.path, path)) {
                return Err(Error::Usage(format!(
                    "two reports go to one file ({other} and {path}); give each its own"
                )));
            }
            files.push(OpenFile { format, path: path.clone(), file });
        }
    }
    let summary = options.tells_github().and_then(|github| github.summary.as_deref());
    let summary = summary.map(append).transpose()?.flatten();
    files.extend(summary);
    Ok(Files { files })
}

/// The summary of a step, which others have written to as well. GitHub makes it; where it is not, nobody reads it.
fn append(path: &Utf8Path) -> Result<Option<OpenFile>> {
    match File::options().append(true).open(path) {
        Ok(file) => {
            let format = Box::new(StepSummary::after(file.metadata().map_or(0, |metadata| metadata.len())));
            Ok(Some(OpenFile { format, path: path.to_owned(), file: Box::new(file) }))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File { action: "append to", path: path.to_owned(), source }),
    }
}

fn create(path: &Utf8Path) -> Result<Box<dyn Write>> {
    if path == "-" {
        return Ok(Box::new(Patient(io::stdout())));
    }
    match File::create(path) {
        // It may be a pipe.
        Ok(file) => Ok(Box::new(Patient(file))),
        Err(source) => Err(Error::File { action: "create", path: path.to_owned(), source }),
    }
}

/// Whether two paths, which exist, lead to one file that keeps what is written to it.
fn is_same(one: &Utf8Path, other: &Utf8Path) -> bool {
    let identity = |path: &Utf8Path| {
        let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
        Some((metadata.dev(), metadata.ino()))
    };
    one == other || identity(one).is_some_and(|file| identity(other) == Some(file))
}

impl Files {
    /// Writes all reports, also when one of them fails.
    ///
    /// # Errors
    /// [`Error::File`] for the first that could not be written.
    pub fn write(self, run: &Run, view: &View) -> Result<()> {
        let mut result = Ok(());
        for OpenFile { format, path, mut file } in self.files {
            let written = file.write_all(&format.bytes(run, view)).and_then(|()| file.flush());
            let written = written.map_err(|source| Error::File { action: "write", path, source });
            result = result.and(written);
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Github;
    use crate::report::testing;

    #[test]
    fn files_are_opened_first_and_written_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| Some(Utf8PathBuf::from_path_buf(directory.path().join(name)).unwrap());
        let options =
            ReportOptions { junit: path("junit.xml"), json: path("report.json"), ..Default::default() };
        let files = open(&options).unwrap();
        assert_eq!(std::fs::read(options.json.as_ref().unwrap()).unwrap(), b"");
        files.write(&testing::run(vec![]), &testing::view()).unwrap();
        let start = |path: &Option<Utf8PathBuf>| {
            std::fs::read_to_string(path.as_ref().unwrap()).unwrap()[..5].to_owned()
        };
        assert_eq!((start(&options.junit), start(&options.json)), ("<?xml".to_owned(), "{\"for".to_owned()));
    }

    #[test]
    fn a_steps_summary_is_appended_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = Utf8PathBuf::from_path_buf(directory.path().join("summary")).unwrap();
        let actions = Github { is_there: true, repository: "/w".into(), summary: Some(path.clone()) };
        let options = ReportOptions { actions, ..Default::default() };
        open(&options).unwrap().write(&testing::run(vec![]), &testing::view()).unwrap();
        assert!(!path.exists());
        std::fs::write(&path, "before\n").unwrap();
        open(&options).unwrap().write(&testing::run(vec![]), &testing::view()).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("before\n## cargo leakcheck: "));
    }

    #[test]
    fn a_path_that_cannot_be_written_is_an_error_at_once() {
        let json = Some("/nonexistent/report.json".into());
        let error = open(&ReportOptions { json, ..Default::default() }).err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot create /nonexistent/report.json: No such file or directory (os error 2)"
        );
    }

    #[test]
    fn two_reports_need_two_files() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| Utf8PathBuf::from_path_buf(directory.path().join(name)).unwrap();
        std::fs::write(path("x"), "").unwrap();
        std::os::unix::fs::symlink(path("x"), path("link")).unwrap();
        let open = |junit: &str, json: &str| {
            open(&ReportOptions { junit: Some(junit.into()), json: Some(json.into()), ..Default::default() })
        };
        for other in ["x", "./x", "link"] {
            assert!(
                matches!(open(path("x").as_str(), path(other).as_str()), Err(Error::Usage(_))),
                "{other}"
            );
        }
        assert!(matches!(open("-", "-"), Err(Error::Usage(_))));
        assert!(open(path("x").as_str(), path("y").as_str()).is_ok());
        assert!(open("/dev/null", "/dev/zero").is_ok());
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let json = Some("/dev/full".into());
        let files = open(&ReportOptions { json, ..Default::default() }).unwrap();
        let error = files.write(&testing::run(vec![]), &testing::view()).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full: No space left"), "{error}");
    }
}
