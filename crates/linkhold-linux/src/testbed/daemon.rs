//! A daemon under test: `linkhold agent` or `linkhold host` as a process of its own in a namespace.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration as StdDuration;

use super::error::RunError;
use super::link::{DaemonLink, Hearing};
use super::waits::{Wait, wait_of_first_thread};
use crate::agent::status::Status;
use crate::netns::NetNs;

/// How long it may take to let go of everything.
const GRACE: StdDuration = StdDuration::from_secs(3);
/// How long it may take to open its control socket.
const START_LIMIT: StdDuration = StdDuration::from_secs(10);
/// Most of its log that goes into an error.
const LOG_TAIL: usize = 2000;

/// Which of the program's daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `linkhold agent`
    Agent,
    /// `linkhold host`
    Host,
}

impl Role {
    /// The program's subcommand.
    const fn command(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Host => "host",
        }
    }
}

/// The process; ended when dropped.
pub struct Daemon {
    who: String,
    child: Child,
    folder: tempfile::TempDir,
}

impl Daemon {
    /// Starts `program`'s daemon in `netns`, called `who` in errors. `config` makes its configuration, given
    /// the path of its control socket. [`wait_until_it_listens`](Self::wait_until_it_listens) comes next.
    ///
    /// # Errors
    /// [`RunError::Daemon`].
    pub fn start(
        netns: &NetNs,
        who: &str,
        role: Role,
        config: impl FnOnce(&Path) -> Result<String, toml::ser::Error>,
        program: &Path,
    ) -> Result<Self, RunError> {
        let fail = |what: &str, error: &dyn std::fmt::Display| RunError::Daemon {
            who: who.to_owned(),
            what: format!("{what}: {error}"),
        };
        let folder = tempfile::tempdir().map_err(|error| fail("make a folder", &error))?;
        let text = config(&socket_in(&folder)).map_err(|error| fail("write its configuration", &error))?;
        let file = folder.path().join("config.toml");
        std::fs::File::create(&file)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| fail("write its configuration", &error))?;
        let log = std::fs::File::create(log_in(&folder)).map_err(|error| fail("open its log", &error))?;
        // A machine of its own would not share its processor with the other hosts of the testbed; here it
        // does, and so goes before their programs.
        let child = netns
            .command("chrt")
            .args(["--rr", "5"])
            .arg(program)
            .args([role.command(), "--config"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| fail("start it", &error))?;
        Ok(Self { who: who.to_owned(), child, folder })
    }

    /// Waits until it answers.
    ///
    /// # Errors
    /// [`RunError::Daemon`] with what it said.
    pub fn wait_until_it_listens(&mut self) -> Result<(), RunError> {
        let began = std::time::Instant::now();
        while began.elapsed() < START_LIMIT {
            if crate::agent::status(&self.socket()).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.fail(&format!("it ended at once ({status})")));
            }
            std::thread::sleep(StdDuration::from_millis(10));
        }
        Err(self.fail("it does not answer on its control socket"))
    }

    /// The radio's way to it.
    ///
    /// # Errors
    /// [`RunError::Daemon`] if it does not listen.
    pub fn link(&self, hearing: Hearing) -> Result<DaemonLink, RunError> {
        DaemonLink::connect(&self.socket(), hearing)
            .map_err(|error| self.fail(&format!("its control socket does not open ({error})")))
    }

    /// What it says of itself at the end of a run.
    ///
    /// # Errors
    /// [`RunError::Daemon`] if it is gone or does not answer.
    pub fn status(&mut self) -> Result<Status, RunError> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(self.fail(&format!("it ended in the run ({status})")));
        }
        crate::agent::status(&self.socket()).map_err(|error| self.fail(&error.to_string()))
    }

    /// How long its thread of packets has waited for a processor so far.
    #[must_use]
    pub fn waited(&self) -> Wait {
        wait_of_first_thread(self.child.id())
    }

    /// What it is called.
    #[must_use]
    pub fn who(&self) -> &str {
        &self.who
    }

    fn fail(&self, what: &str) -> RunError {
        RunError::Daemon { who: self.who.clone(), what: format!("{what}; it said:\n{}", self.log()) }
    }

    fn socket(&self) -> PathBuf {
        socket_in(&self.folder)
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(log_in(&self.folder)).unwrap_or_default();
        let from = log.len().saturating_sub(LOG_TAIL);
        log.char_indices().find(|(at, _)| *at >= from).map_or(String::new(), |(at, _)| log[at..].to_owned())
    }
}

fn socket_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("control.sock")
}

fn log_in(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("log")
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let began = std::time::Instant::now();
        while began.elapsed() < GRACE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(StdDuration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
