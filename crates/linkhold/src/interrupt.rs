//! Ctrl-C and SIGTERM: hidden folders and files of unfinished results are removed before the process ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::Failure;

/// Folders and files that are to be removed if the process is told to end.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// A folder or a file of unfinished results, noted until this is dropped: after it was moved or removed.
pub struct Unfinished {
    path: PathBuf,
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        noted().retain(|noted| *noted != self.path);
    }
}

/// Makes a folder or a file of unfinished results and notes it. A signal finds it noted or not yet made:
/// [`remove_unfinished`] waits for `make`. Bound as they are returned, what was made is dropped first.
pub fn begin<T: AsRef<Path>>(make: impl FnOnce() -> io::Result<T>) -> io::Result<(Unfinished, T)> {
    let mut noted = noted();
    let made = make()?;
    let path = made.as_ref().to_path_buf();
    noted.push(path.clone());
    Ok((Unfinished { path }, made))
}

fn noted() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` between signals: one that comes meanwhile ends the process after it. To be used for what must
/// not be left half done, and is soon over.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _noted = noted();
    work()
}

/// Removes every folder and file that is unfinished. The process has to end afterwards: a thread that begins
/// another one, or has done with one of these, is kept waiting for that.
pub fn remove_unfinished() {
    let mut noted = noted();
    for path in noted.drain(..) {
        // A run may write a file into the folder just while it is being removed.
        for _ in 0..20 {
            match remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Ok(()) | Err(_) => break,
            }
        }
    }
    std::mem::forget(noted);
}

/// Removes a folder with all that is in it, or a file, which `remove_dir_all` would leave.
fn remove(path: &Path) -> io::Result<()> {
    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }
}

/// From now on the first signal removes what is unfinished and ends the process, with the status that
/// shells expect. To be called before any other thread starts: threads inherit the blocked signals.
pub fn watch() -> Result<(), Failure> {
    let fail = |what: &str, error: io::Error| Failure::Failed(format!("cannot {what}: {error}"));
    let signals = linkhold_linux::signals::ending();
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
