//! Ctrl-C and SIGTERM: hidden folders and files of unfinished results are removed before the process ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal};

use crate::Failure;

/// Folders and files that are to be removed if the process is told to end.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Notes a folder or a file of unfinished results.
pub fn begin(path: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_path_buf());
}

/// Forgets a folder or a file, which is gone or has been moved.
pub fn end(path: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|noted| noted != path);
}

/// Removes every folder and file that has begun and not ended.
pub fn remove_unfinished() {
    for path in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // A run may write a file into the folder just while it is being removed.
        for _ in 0..20 {
            match remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Ok(()) | Err(_) => break,
            }
        }
    }
}

/// Removes a folder with all that is in it, or a file, which `remove_dir_all` would leave.
fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}

/// From now on the first signal removes what is unfinished and ends the process, with the status that
/// shells expect. To be called before any other thread starts: threads inherit the blocked signals.
pub fn watch() -> Result<(), Failure> {
    let fail = |what: &str, error: io::Error| Failure::Failed(format!("cannot {what}: {error}"));
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        signals.add(signal);
    }
    signals.thread_block().map_err(|errno| fail("block signals", errno.into()))?;
    let wait = move || {
        if let Ok(signal) = signals.wait() {
            remove_unfinished();
            std::process::exit(128 + signal as i32);
        }
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| fail("start the signal thread", error))
}
