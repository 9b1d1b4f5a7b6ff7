//! Reads what a user names, whole: a file, a pipe or standard input. A limit keeps one that never ends from
//! taking all memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::{FileError, Location, Problem};

/// The path that means standard input.
pub const STDIN: &str = "-";
/// Largest file that people write: far more than anyone does, and little enough to hold.
pub const MAX_WRITTEN: u64 = 16 << 20;
/// Largest trace or log: a day of a fast link is some 100 MB.
pub const MAX_RECORDED: u64 = 1 << 30;

/// What messages call the input at `path`.
#[must_use]
pub fn shown(path: &Path) -> String {
    if path.as_os_str() == STDIN { "<stdin>".to_owned() } else { path.display().to_string() }
}

/// The whole input at `path`, of at most `most` bytes.
///
/// # Errors
/// The system's; also for a folder and for an input that is larger.
pub fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if path.as_os_str() == STDIN { read_whole(io::stdin().lock(), most) } else { read_file(path, most) }
}

/// As [`read`], where no path means standard input.
///
/// # Errors
/// As of [`read`].
pub fn read_file(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    if path.is_dir() {
        return Err(io::Error::other("it is a folder"));
    }
    let file = File::open(path)?;
    // A pipe and a device have no length.
    if file.metadata()?.len() > most {
        return Err(too_large(most));
    }
    read_whole(file, most)
}

fn read_whole(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most { Err(too_large(most)) } else { Ok(bytes) }
}

fn too_large(most: u64) -> io::Error {
    let limit = if most >= 1 << 30 { format!("{} GiB", most >> 30) } else { format!("{} MiB", most >> 20) };
    io::Error::other(format!("it is larger than {limit}"))
}

/// The input as text; `file` is its name in messages.
///
/// # Errors
/// The place at which it is no text, and what to do.
pub fn text(bytes: Vec<u8>, file: &str) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| {
        let (before, _) = error.as_bytes().split_at(error.utf8_error().valid_up_to());
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let column = String::from_utf8_lossy(&before[start..]).chars().count() + 1;
        let location = Location::Line { file: file.to_owned(), line, column };
        let (what, right) = ("this is not text (UTF-8)".to_owned(), "save the file as UTF-8".to_owned());
        FileError::new(vec![Problem { location, key: String::new(), what, right }])
    })
}
