//! Report files: opened before the work starts, so that a wrong path costs no run.

use std::fs::File;
use std::io::{self, Write};

use camino::{Utf8Path, Utf8PathBuf};

use super::{Format, Json, Junit, Run, View};
use crate::error::{Error, Result};
use crate::options::ReportOptions;

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
    let formats: [(&Option<Utf8PathBuf>, Box<dyn Format>); 2] =
        [(&options.junit, Box::new(Junit)), (&options.json, Box::new(Json))];
    if options.junit.is_some() && options.junit == options.json {
        return Err(Error::Usage("--junit and --json name the same file; give each its own".to_owned()));
    }
    let mut files = Vec::new();
    for (path, format) in formats {
        if let Some(path) = path {
            files.push(OpenFile { format, path: path.clone(), file: create(path)? });
        }
    }
    Ok(Files { files })
}

fn create(path: &Utf8Path) -> Result<Box<dyn Write>> {
    if path == "-" {
        return Ok(Box::new(io::stdout()));
    }
    match File::create(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(source) => Err(Error::File { action: "create", path: path.to_owned(), source }),
    }
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
    fn a_path_that_cannot_be_written_is_an_error_at_once() {
        let json = Some("/nonexistent/report.json".into());
        let error = open(&ReportOptions { json, ..Default::default() }).err().unwrap();
        assert_eq!(
            error.to_string(),
            "cannot create /nonexistent/report.json: No such file or directory (os error 2)"
        );
        let both = Some(Utf8PathBuf::from("x"));
        let options = ReportOptions { junit: both.clone(), json: both, ..Default::default() };
        assert!(matches!(open(&options), Err(Error::Usage(_))));
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let json = Some("/dev/full".into());
        let files = open(&ReportOptions { json, ..Default::default() }).unwrap();
        let error = files.write(&testing::run(vec![]), &testing::view()).unwrap_err();
        assert!(error.to_string().starts_with("cannot write /dev/full: No space left"), "{error}");
    }
}
