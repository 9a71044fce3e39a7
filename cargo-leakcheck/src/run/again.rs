//! `report`: the reports of earlier runs are read again, and shown and written as one.

use camino::{Utf8Path, Utf8PathBuf};

use super::{show, view};
use crate::error::{Error, Exit, Result};
use crate::model::OwnCode;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{self, Run, results};

/// Reads the reports, writes them as one, and shows it.
///
/// # Errors
/// A report cannot be read or written.
pub fn again(paths: &[Utf8PathBuf], options: &Options) -> Result<Exit> {
    let own = here()?;
    // One that is read may be one that is written.
    let run = read(paths, &own.root)?;
    let files = report::open(&options.report)?;
    let view = view(own, options);
    show(&run, &view, options, &Progress::new(options.report.color));
    files.write(&run, &view)?;
    Ok(run.exit)
}

/// One report as it is: it has been decided on. Of several, the attempts at a test are one result.
///
/// # Errors
/// One cannot be read.
pub fn read(paths: &[Utf8PathBuf], root: &Utf8Path) -> Result<Run> {
    let mut runs = results::read_files(paths, root)?;
    match (runs.pop(), runs.is_empty()) {
        (Some(one), true) => Ok(one),
        (last, _) => Ok(results::merge(runs.into_iter().chain(last).collect())),
    }
}

/// The user's own code where a report is read: what is below the working directory.
///
/// # Errors
/// There is none.
pub fn here() -> Result<OwnCode> {
    let directory = std::env::current_dir()
        .map_err(|source| Error::System { call: "reading the working directory".to_owned(), source })?;
    let root = Utf8PathBuf::try_from(directory)
        .map_err(|_| Error::Usage("the working directory's path is not UTF-8".to_owned()))?;
    Ok(OwnCode { packages: vec![root.clone()], root })
}
