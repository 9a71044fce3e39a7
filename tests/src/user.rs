//! Another user of this machine, with a home, who may or may not use sudo without a password.

use std::process::Command;

use camino::{Utf8Path, Utf8PathBuf};
use fs_err as fs;

use crate::tool::Workshop;

/// How the user may use sudo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sudo {
    /// Without a password.
    Free,
    /// With one.
    Password,
    /// Not at all.
    Forbidden,
}

/// A user who exists as long as this does.
pub struct User {
    name: String,
    home: Utf8PathBuf,
    /// Where the user finds cargo and rustc.
    toolchain: Utf8PathBuf,
    sysroot: String,
}

impl User {
    /// Makes one, with a second group.
    pub fn new(workshop: &Workshop, name: &str, sudo: Sudo) -> Result<Self, String> {
        let name = format!("leakcheck-{name}");
        let toolchain = workshop.path().join(format!("toolchain-of-{name}"));
        fs::create_dir_all(&toolchain).map_err(|problem| problem.to_string())?;
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?.trim().to_owned();
        let home = Utf8PathBuf::from(format!("/home/{name}"));
        let user = Self { name, home, toolchain, sysroot };
        // What a run that was killed has left.
        user.remove();
        output(Command::new("useradd").args(["--create-home", "--groups", "users", &user.name]))?;
        user.may(sudo)?;
        Ok(user)
    }

    /// How the user may use sudo from now on.
    pub fn may(&self, sudo: Sudo) -> Result<(), String> {
        let rule = match sudo {
            Sudo::Free => "NOPASSWD:ALL",
            Sudo::Password => "ALL",
            Sudo::Forbidden => "!ALL",
        };
        fs::write(self.rules(), format!("{} ALL=(ALL) {rule}\n", self.name))
            .map_err(|problem| problem.to_string())
    }

    /// Gives the user a password.
    pub fn set_password(&self, password: &str) -> Result<(), String> {
        let line = format!("{}:{password}", self.name);
        output(Command::new("sh").args(["-c", "echo \"$1\" | chpasswd", "sh", &line])).map(drop)
    }

    /// The user's number.
    pub fn number(&self) -> Result<u32, String> {
        use std::os::unix::fs::MetadataExt as _;
        self.home.metadata().map(|metadata| metadata.uid()).map_err(|problem| problem.to_string())
    }

    /// The user's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The user's home.
    pub fn home(&self) -> &Utf8Path {
        &self.home
    }

    /// Where the user's commands are.
    pub fn path(&self) -> String {
        format!("{}/bin:/usr/bin:/bin", self.toolchain)
    }

    /// A command that runs as the user, in the user's home, with an environment as after a login.
    pub fn command(&self, program: &str) -> Command {
        // In a mount namespace of its own: root's toolchain is not for others.
        let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script, "sh", &self.sysroot, self.toolchain.as_str()]);
        command.args(["setpriv", "--reuid", &self.name, "--regid", &self.name, "--init-groups", "--"]);
        command.args(["env", "--default-signal=INT,HUP,TERM", program]);
        let (home, path) = (self.home.as_str(), self.path());
        command.env_clear().envs([("HOME", home), ("USER", &self.name), ("PATH", &path)]);
        command.current_dir(&self.home);
        command
    }

    /// Writes a file in the user's home.
    pub fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let path = self.home.join(path);
        let folder = path.parent().expect("it is below the home");
        let failed = |problem: std::io::Error| problem.to_string();
        fs::create_dir_all(folder).map_err(failed)?;
        fs::write(&path, text).map_err(failed)?;
        let owner = format!("{0}:{0}", self.name);
        output(Command::new("chown").args(["-R", &owner]).arg(&self.home)).map(drop)
    }

    fn rules(&self) -> Utf8PathBuf {
        // sudo passes over names with dots.
        Utf8Path::new("/etc/sudoers.d").join(&self.name)
    }

    fn remove(&self) {
        let _ = fs::remove_file(self.rules());
        let _ = Command::new("userdel").args(["--force", "--remove", &self.name]).output();
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.remove();
    }
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|problem| format!("{command:?}: {problem}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
