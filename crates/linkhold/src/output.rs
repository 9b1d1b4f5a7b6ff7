//! Results on standard output and in a folder: whole or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Failure;

/// Prints to standard output. A reader that has gone away (`| head`) is no failure.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::Failed(format!("standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// A folder of results. Files are written into a hidden folder beside their place and moved when all are there;
/// dropped before that, nothing remains.
pub struct OutputFolder {
    target: PathBuf,
    partial: TempDir,
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
        let partial = tempfile::Builder::new()
            .prefix(".linkhold-partial-")
            .tempdir_in(existing)
            .map_err(|error| bad(format!("the output folder is not writable: {error}")))?;
        Ok(Self { target: target.to_path_buf(), partial })
    }

    /// Where files are written meanwhile.
    pub fn path(&self) -> &Path {
        self.partial.path()
    }

    /// Writes a file.
    pub fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        fs::write(self.path().join(name), content)
            .map_err(|error| Failure::Failed(format!("{}: {error}", self.target.join(name).display())))
    }

    /// Moves every file to its place, each replacing an older one as a whole; answers the folder.
    pub fn finish(self) -> Result<PathBuf, Failure> {
        let fail = |error: io::Error| Failure::Failed(format!("{}: {error}", self.target.display()));
        fs::create_dir_all(&self.target).map_err(fail)?;
        let mut names: Vec<_> = fs::read_dir(self.path())
            .map_err(fail)?
            .map(|entry| entry.map(|e| e.file_name()))
            .collect::<Result<_, _>>()
            .map_err(fail)?;
        names.sort();
        for name in names {
            fs::rename(self.path().join(&name), self.target.join(&name)).map_err(fail)?;
        }
        Ok(self.target)
    }
}
