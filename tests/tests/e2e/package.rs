//! Packages that trials write themselves.

use camino::Utf8PathBuf;
use fs_err as fs;
use leakcheck_tests::tool::{Run, Workshop, open_to_all};

use crate::Outcome;

/// A package of its own, in a folder that is removed with it.
pub struct Package {
    folder: tempfile::TempDir,
}

impl Package {
    /// With this library.
    pub fn new(workshop: &Workshop, library: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir_in(workshop.path()).map_err(|problem| problem.to_string())?;
        let package = Self { folder };
        package.write(
            "Cargo.toml",
            "[package]\nname = 'old'\nversion = '0.0.0'\nedition = '2024'\n[workspace]\n",
        )?;
        package.write("src/lib.rs", library)?;
        open_to_all(&package.path(""))?;
        Ok(package)
    }

    /// A file of it.
    pub fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.folder.path().join(name)).expect("made by us")
    }

    /// Writes a file.
    pub fn write(&self, name: &str, text: &str) -> Outcome {
        let path = self.path(name);
        let parent = path.parent().expect("it is in the folder");
        fs::create_dir_all(parent)
            .and_then(|()| fs::write(&path, text))
            .map_err(|problem| problem.to_string())
    }

    /// Reads a file.
    pub fn read(&self, name: &str) -> Result<String, String> {
        fs::read_to_string(self.path(name)).map_err(|problem| problem.to_string())
    }

    /// `cargo leakcheck ARGS` in it, with more variables.
    pub fn run_with(
        &self,
        workshop: &Workshop,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<Run, String> {
        let mut command = workshop.command(args)?;
        command.current_dir(self.folder.path()).envs(variables.iter().copied());
        let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
        Ok(Run::new(format!("{command:?}"), output))
    }

    /// The same without.
    pub fn run(&self, workshop: &Workshop, args: &[&str]) -> Result<Run, String> {
        self.run_with(workshop, args, &[])
    }
}
