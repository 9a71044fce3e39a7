//! `report merge`: reports of several runs become one.

use camino::Utf8PathBuf;

use super::{show, view};
use crate::error::{Error, Exit, Result};
use crate::model::OwnCode;
use crate::options::Options;
use crate::progress::Progress;
use crate::report::{self, results};

/// Reads the reports, writes them as one, and shows it.
///
/// # Errors
/// A report cannot be read or written.
pub fn merge(paths: &[Utf8PathBuf], options: &Options) -> Result<Exit> {
    // One that is read may be one that is written.
    let run = results::merge(results::read_files(paths)?);
    let files = report::open(&options.report)?;
    let view = view(here()?, options);
    show(&run, &view, options, &Progress::new(options.report.color));
    files.write(&run, &view)?;
    Ok(run.exit)
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
