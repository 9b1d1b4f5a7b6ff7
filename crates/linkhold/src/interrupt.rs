//! Ctrl-C and SIGTERM: hidden folders of unfinished results are removed before the process ends.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal};

use crate::Failure;

/// Folders that are to be removed if the process is told to end.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Notes a folder of unfinished results.
pub fn begin(folder: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(folder.to_path_buf());
}

/// Forgets a folder, which is gone or has been moved.
pub fn end(folder: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).retain(|noted| noted != folder);
}

/// Removes every folder that has begun and not ended.
pub fn remove_unfinished() {
    for folder in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // A run may write a file into the folder just while it is being removed.
        for _ in 0..20 {
            match std::fs::remove_dir_all(&folder) {
                Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => {}
                Ok(()) | Err(_) => break,
            }
        }
    }
}

/// From now on the first signal removes the unfinished folders and ends the process, with the status that
/// shells expect. To be called before any other thread starts: threads inherit the blocked signals.
pub fn watch() -> Result<(), Failure> {
    let fail = |what: &str, error: std::io::Error| Failure::Failed(format!("cannot {what}: {error}"));
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
