//! Runs the system's own programs (`ip`, `nft`, `iptables`) and keeps what they say for the error message.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// No set-up program takes this long; one that does is stuck (on a lock, or on a prompt).
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Most that is kept of what a program says; a firewall of ten thousand rules takes a tenth.
const MAX_OUTPUT: usize = 8 * 1024 * 1024;
/// How often a running program is looked at.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Why a program's work was not done.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program is not there, or may not be run.
    #[error("cannot run {command}: {source}")]
    Start {
        /// Program and arguments.
        command: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The program ended with an error.
    #[error("{command} failed ({status}): {message}")]
    Failed {
        /// Program and arguments.
        command: String,
        /// Its exit status in words.
        status: String,
        /// What it said on standard error.
        message: String,
    },
    /// The program did not end in time and was killed.
    #[error("{command} did not end within {} s and was killed", TIME_LIMIT.as_secs())]
    TimedOut {
        /// Program and arguments.
        command: String,
    },
}

impl CommandError {
    /// True if the program is not installed.
    #[must_use]
    pub fn is_missing_program(&self) -> bool {
        matches!(self, Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Runs a program and returns its standard output.
///
/// # Errors
/// [`CommandError`] if it cannot start, fails, or runs for too long.
pub fn run(program: &str, args: &[&str]) -> Result<String, CommandError> {
    run_with_input(program, args, "")
}

/// Runs a program with `input` on its standard input and answers its standard output, [`MAX_OUTPUT`] bytes at
/// most. For small inputs (less than a pipe holds, 64 KiB).
///
/// # Errors
/// [`CommandError`] if it cannot start, fails, or runs for too long.
pub fn run_with_input(program: &str, args: &[&str], input: &str) -> Result<String, CommandError> {
    let text = || format!("{program} {}", args.join(" "));
    let start = |source| CommandError::Start { command: text(), source };
    let mut child = Command::new(program)
        .args(args)
        // Here the program is searched, too.
        .env("PATH", search_path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends without reading closes the pipe; its exit status tells more than EPIPE.
        let _ = stdin.write_all(input.as_bytes());
    }
    let (mut output, mut message) = (Vec::new(), Vec::new());
    let Some(status) = wait(&mut child, &mut output, &mut message).map_err(start)? else {
        let _ = child.kill();
        let _ = child.wait();
        return Err(CommandError::TimedOut { command: text() });
    };
    if status.success() {
        return Ok(String::from_utf8_lossy(&output).into_owned());
    }
    let message = String::from_utf8_lossy(&message).trim().to_owned();
    Err(CommandError::Failed { command: text(), status: status.to_string(), message })
}

/// Waits for the program's end, and reads what it says meanwhile: it would stand still as soon as a pipe is
/// full.
fn wait(
    child: &mut Child,
    output: &mut Vec<u8>,
    message: &mut Vec<u8>,
) -> io::Result<Option<std::process::ExitStatus>> {
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    for pipe in stdout.iter().map(AsFd::as_fd).chain(stderr.iter().map(AsFd::as_fd)) {
        fcntl(pipe, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let mut read = || {
        if let Some(pipe) = &mut stdout {
            drain(pipe, output);
        }
        if let Some(pipe) = &mut stderr {
            drain(pipe, message);
        }
    };
    let deadline = Instant::now() + TIME_LIMIT;
    loop {
        let ended = child.try_wait()?;
        read();
        if ended.is_some() {
            return Ok(ended);
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// Takes what there is in a pipe that does not block. What is beyond [`MAX_OUTPUT`] is thrown away.
fn drain(pipe: &mut impl Read, into: &mut Vec<u8>) {
    let mut bytes = [0; 16 * 1024];
    loop {
        match pipe.read(&mut bytes) {
            Ok(0) => return,
            Ok(length) => {
                let room = MAX_OUTPUT.saturating_sub(into.len());
                into.extend_from_slice(&bytes[..length.min(room)]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// True if `program` is found on the path, or where root's programs live.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    std::env::split_paths(&search_path()).any(|folder| folder.join(program).is_file())
}

/// The path, and where root's programs live: `su` and cron leave these out on Debian.
fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    if !path.is_empty() {
        path.push(":");
    }
    path.push("/usr/sbin:/sbin");
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_program_leaves_its_words_in_the_error() {
        let error = run("sh", &["-c", "echo broken >&2; exit 3"]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("broken") && text.contains('3'), "{text}");
        assert!(!error.is_missing_program());
    }

    /// A pipe holds 64 KiB: a program that says more would wait for its reader.
    #[test]
    fn what_a_program_says_may_be_long() {
        let said = run("sh", &["-c", "seq 100000; seq 100000 >&2"]).unwrap();
        assert_eq!((said.lines().count(), said.lines().last()), (100_000, Some("100000")));
        let error = run("sh", &["-c", "seq 100000 >&2; exit 1"]).unwrap_err();
        assert!(error.to_string().ends_with("100000"), "{}", error.to_string().len());
    }

    /// What is called installed is run, whatever the caller's path.
    #[test]
    fn roots_programs_are_searched_behind_the_path() {
        let path = run("sh", &["-c", "echo $PATH"]).unwrap();
        assert!(path.trim().ends_with(":/usr/sbin:/sbin"), "{path}");
    }

    #[test]
    fn a_missing_program_is_told_apart() {
        assert!(run("linkhold-no-such-program", &[]).unwrap_err().is_missing_program());
        assert!(!is_installed("linkhold-no-such-program") && is_installed("sh"));
    }

    #[test]
    fn input_reaches_the_program() {
        assert_eq!(run_with_input("cat", &[], "hello").unwrap(), "hello");
    }
}
