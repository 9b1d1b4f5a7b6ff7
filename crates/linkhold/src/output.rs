//! Writes results to standard output, and into a folder once all of its files are complete.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Failure;
use crate::interrupt::{self, Unfinished};

/// Prints to standard output. It is no failure if the reader has gone away (`| head`).
pub fn print(text: &str) -> Result<(), Failure> {
    print_to_reader(text).map(drop)
}

/// The same, for a command that goes on and on; false if the reader has gone away.
pub fn print_to_reader(text: &str) -> Result<bool, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::Failed(format!("standard output: {error}"))),
    }
}

/// A line on standard error, if it can be written.
pub fn tell(words: std::fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr().lock(), "{words}");
}

/// Columns that a table on standard output may have: what COLUMNS says, or else the terminal; `None` if
/// standard output is no terminal, so that a table may be as wide as it has to be.
pub fn width() -> Option<u16> {
    let asked = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
    asked.filter(|&columns| columns > 0).or_else(terminal)
}

/// A folder of results. Files are first written into a hidden folder, in `target` or in the nearest ancestor
/// that exists, and moved to `target` by [`finish`](Self::finish). Without that call, nothing remains of
/// them, nor after a signal ([`interrupt`]).
pub struct OutputFolder {
    target: PathBuf,
    partial: TempDir,
    // After `partial`, and so dropped after it: until the folder is gone, a signal has to remove it.
    _unfinished: Unfinished,
}

impl OutputFolder {
    /// Makes sure that `target` can be written, before any work is spent.
    pub fn prepare(target: &Path) -> Result<Self, Failure> {
        let bad = |what: String| {
            let shown = target.display();
            Failure::BadInput(format!("--out {shown}: {what}; give a folder that can be written"))
        };
        // An empty path and a relative one without a parent both mean the working folder.
        let existing = target
            .ancestors()
            .map(|path| if path.as_os_str().is_empty() { Path::new(".") } else { path })
            .find(|path| path.symlink_metadata().is_ok())
            .ok_or_else(|| bad("there is no such place".to_owned()))?;
        if !existing.is_dir() {
            return Err(bad(format!("{} is not a folder", existing.display())));
        }
        let make = || tempfile::Builder::new().prefix(".linkhold-partial-").tempdir_in(existing);
        let (unfinished, partial) = interrupt::begin(make)
            .map_err(|error| bad(format!("the output folder is not writable: {error}")))?;
        Ok(Self { target: target.to_path_buf(), partial, _unfinished: unfinished })
    }

    /// The hidden folder that holds the files until [`finish`](Self::finish).
    pub fn path(&self) -> &Path {
        self.partial.path()
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        fs::write(self.path().join(name), content)
            .map_err(|error| Failure::Failed(format!("{}: {error}", self.target.join(name).display())))
    }

    /// Moves every file to `target`, where each replaces an older one as a whole; returns `target`. A signal
    /// ends the process before all of it or after.
    pub fn finish(self) -> Result<PathBuf, Failure> {
        interrupt::undisturbed(|| self.move_files())?;
        Ok(self.target)
    }

    fn move_files(&self) -> Result<(), Failure> {
        let fail = |error: io::Error| Failure::Failed(format!("{}: {error}", self.target.display()));
        fs::create_dir_all(&self.target).map_err(fail)?;
        let mut names: Vec<_> = fs::read_dir(self.path())
            .map_err(fail)?
            .map(|entry| entry.map(|e| e.file_name()))
            .collect::<Result<_, _>>()
            .map_err(fail)?;
        names.sort();
        // Before the first file is moved: the new results never stand beside a part of the old ones.
        for name in &names {
            let file = self.target.join(name);
            if file.is_dir() {
                return Err(Failure::Failed(format!(
                    "{}: a folder stands where a file of the results belongs, so none was written; remove or rename \
                     it, or give another folder with --out",
                    file.display()
                )));
            }
        }
        let replaces = names.iter().any(|name| name == RESULT) && self.target.join(RESULT).exists();
        let old = if replaces { self.old_captures(&names).map_err(fail)? } else { Vec::new() };
        for (moved, name) in names.iter().enumerate() {
            let file = self.target.join(name);
            if let Err(error) = fs::rename(self.path().join(name), &file) {
                let (new, rest) = names.split_at(moved);
                return Err(Failure::Failed(half_moved(&file, &error, new, rest)));
            }
        }
        // Last: as long as the new results are not there, these are part of the old ones.
        for file in old {
            fs::remove_file(&file).map_err(|error| {
                Failure::Failed(format!(
                    "{}: {error}; the new results are complete, but this capture is of older ones: remove it",
                    file.display()
                ))
            })?;
        }
        Ok(())
    }

    /// Captures of the run whose results are replaced: beside the new ones they would pass for theirs.
    fn old_captures(&self, new: &[OsString]) -> io::Result<Vec<PathBuf>> {
        let mut old = Vec::new();
        for entry in fs::read_dir(&self.target)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_str().is_some_and(is_capture) && !new.contains(&name) && entry.file_type()?.is_file() {
                old.push(entry.path());
            }
        }
        Ok(old)
    }
}

/// What to say where `file`, the first of `rest`, could not be moved, and the files `new` were.
fn half_moved(file: &Path, error: &io::Error, new: &[OsString], rest: &[OsString]) -> String {
    let list = |names: &[OsString]| {
        let names: Vec<_> = names.iter().map(|name| name.to_string_lossy()).collect();
        names.join(", ")
    };
    let there = if new.is_empty() {
        "none of the results was written".to_owned()
    } else {
        format!("of these results there are {}; missing, or of an older run, are {}", list(new), list(rest))
    };
    format!("{}: {error}; {there}", file.display())
}

/// The file that every run of a scenario writes.
const RESULT: &str = "run.json";

/// True for the names that `linkhold run --pcap` gives: `CASE-seedN.pcapng`.
fn is_capture(name: &str) -> bool {
    let stem = name.strip_suffix(".pcapng").and_then(|stem| stem.rsplit_once("-seed"));
    stem.is_some_and(|(_, seed)| !seed.is_empty() && seed.bytes().all(|byte| byte.is_ascii_digit()))
}
