//! Finds, reads and checks trace files; each is read once, however many cases use it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use linkhold_radio::spectrum::{ChannelLog, PuLog};
use linkhold_radio::{Columns, SnrTrace, SnrTraceErrorKind, Trace, TraceErrorKind};

use crate::input;
use crate::read::{At, Reader};

/// Where traces lie when the path starts with it.
const DATA: &str = "${LINKHOLD_DATA}";

/// A delivery trace, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct TraceFile {
    /// Where it was read from.
    pub path: PathBuf,
    /// What it says. Cases and repetitions share it.
    pub trace: Arc<Trace>,
}

/// The outside world as the reading of a scenario needs it; tests and fuzzers have one without a disk.
pub trait Files {
    /// The whole file.
    ///
    /// # Errors
    /// As the system gives them; also for what is not a regular file, or larger than any trace.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;
    /// An environment variable.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The real disk and environment.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Files for System {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let about = std::fs::metadata(path)?;
        if !about.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        input::read_file(path, input::MAX_RECORDED)
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }
}

/// No files and no variables at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFiles;

impl Files for NoFiles {
    fn read(&self, _path: &Path) -> io::Result<Vec<u8>> {
        Err(io::Error::from(io::ErrorKind::NotFound))
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

/// What decides how an SNR trace is read: its file, columns of time and SNR, and largest gap in ns.
type SnrKey = (PathBuf, String, String, u64);

/// Traces of one scenario.
pub(crate) struct Traces<'a> {
    files: &'a dyn Files,
    /// Folder of the scenario file.
    base: PathBuf,
    loaded: BTreeMap<PathBuf, Result<TraceFile, String>>,
    loaded_snr: BTreeMap<SnrKey, Result<Arc<SnrTrace>, String>>,
    loaded_pu: BTreeMap<PathBuf, Result<Arc<PuLog>, String>>,
    loaded_channels: BTreeMap<PathBuf, Result<Arc<ChannelLog>, String>>,
    loaded_movements: BTreeMap<PathBuf, Result<Arc<str>, String>>,
}

impl<'a> Traces<'a> {
    pub fn new(files: &'a dyn Files, scenario_file: &str) -> Self {
        let base = Path::new(scenario_file).parent().map(Path::to_path_buf).unwrap_or_default();
        Self {
            files,
            base,
            loaded: BTreeMap::new(),
            loaded_snr: BTreeMap::new(),
            loaded_pu: BTreeMap::new(),
            loaded_channels: BTreeMap::new(),
            loaded_movements: BTreeMap::new(),
        }
    }

    /// Where the trace `path` of the scenario file is; `None` if the variable is not set that says so.
    pub fn full_path(&self, path: &str) -> Option<PathBuf> {
        match path.strip_prefix(DATA) {
            Some(rest) => {
                let data = self.files.variable("LINKHOLD_DATA")?;
                Some(Path::new(&data).join(rest.trim_start_matches('/')))
            }
            None => Some(self.base.join(path)),
        }
    }

    /// As [`full_path`](Self::full_path); `None` after reporting what is wrong.
    fn found(&self, path: &At<String>, reader: &Reader<'_>) -> Option<PathBuf> {
        let full = self.full_path(&path.value);
        if full.is_none() {
            let right = "set it to the folder that holds the traces";
            reader.report(&path.spot, "the environment variable LINKHOLD_DATA is not set", right);
        }
        full
    }

    /// The SNR trace under `path`; `None` after reporting what is wrong with it.
    pub fn load_snr(
        &mut self,
        path: &At<String>,
        columns: Columns<'_>,
        reader: &Reader<'_>,
    ) -> Option<Arc<SnrTrace>> {
        let full = self.found(path, reader)?;
        let files = self.files;
        let key = (full, columns.time.to_owned(), columns.snr.to_owned(), columns.max_gap.as_nanos());
        let right = "an SNR trace is a CSV file with a heading: a column of times, and one of dB";
        once(&mut self.loaded_snr, key, |key| read_snr(files, &key.0, columns), path, right, reader)
    }

    /// The PU log under `path`; `None` after reporting what is wrong with it.
    pub fn load_pu_log(&mut self, path: &At<String>, reader: &Reader<'_>) -> Option<Arc<PuLog>> {
        let full = self.found(path, reader)?;
        let files = self.files;
        let right = "a PU log has <i, x, y, spectrum, tpower> for each PU, then <i, arrival, departure>";
        once(&mut self.loaded_pu, full, |full| read_pu_log(files, full), path, right, reader)
    }

    /// The channel log under `path`; `None` after reporting what is wrong with it.
    pub fn load_channel_log(&mut self, path: &At<String>, reader: &Reader<'_>) -> Option<Arc<ChannelLog>> {
        let full = self.found(path, reader)?;
        let files = self.files;
        let right = "docs/pu-log.md has the format";
        once(&mut self.loaded_channels, full, |full| read_channel_log(files, full), path, right, reader)
    }

    /// The file of movements under `path`; `None` after reporting why it cannot be read. What it says is
    /// checked with the mesh.
    pub fn load_movements(&mut self, path: &At<String>, reader: &Reader<'_>) -> Option<Arc<str>> {
        let full = self.found(path, reader)?;
        let files = self.files;
        let right = "write a file in setdest's format";
        once(&mut self.loaded_movements, full, |full| read_movements(files, full), path, right, reader)
    }

    /// The trace under `path`; `None` after reporting what is wrong with it.
    pub fn load(&mut self, path: &At<String>, reader: &Reader<'_>) -> Option<TraceFile> {
        let full = self.found(path, reader)?;
        let files = self.files;
        let right = "a trace has one millisecond stamp a line, in order (mahimahi format)";
        once(&mut self.loaded, full, |full| read(files, full), path, right, reader)
    }
}

/// What `read` makes of the file under `path`, which `key` names; it is read once. `None` after reporting
/// what is wrong with it.
fn once<K: Ord, T: Clone>(
    loaded: &mut BTreeMap<K, Result<T, String>>,
    key: K,
    read: impl FnOnce(&K) -> Result<T, String>,
    path: &At<String>,
    right: &str,
    reader: &Reader<'_>,
) -> Option<T> {
    match loaded.entry(key).or_insert_with_key(read) {
        Ok(file) => Some(file.clone()),
        Err(what) => {
            reader.report(&path.spot, what.clone(), right);
            None
        }
    }
}

/// The bytes of a file; `what` names its kind in an error.
fn bytes(files: &dyn Files, path: &Path, what: &str) -> Result<Vec<u8>, String> {
    files.read(path).map_err(|error| format!("cannot read the {what} {}: {error}", path.display()))
}

/// A file as text, or the line that is none.
fn text<'a>(bytes: &'a [u8], path: &Path) -> Result<&'a str, String> {
    std::str::from_utf8(bytes).map_err(|error| {
        let line = bytes.iter().take(error.valid_up_to()).filter(|&&byte| byte == b'\n').count() + 1;
        format!("{}:{line}: this is not text (UTF-8)", path.display())
    })
}

fn read_snr(files: &dyn Files, path: &Path, columns: Columns<'_>) -> Result<Arc<SnrTrace>, String> {
    let bytes = bytes(files, path, "SNR trace")?;
    let text = text(&bytes, path)?;
    // Spreadsheets begin their files with a byte order mark, which is no part of the first heading.
    SnrTrace::parse(text.strip_prefix('\u{feff}').unwrap_or(text), columns).map(Arc::new).map_err(|error| {
        let columns = match error.kind {
            SnrTraceErrorKind::NoColumn(..) => {
                "; name yours with radio.snr.time_column and radio.snr.snr_column"
            }
            _ => "",
        };
        format!("{}:{}: {}{columns}", path.display(), error.line, error.kind)
    })
}

fn read_pu_log(files: &dyn Files, path: &Path) -> Result<Arc<PuLog>, String> {
    PuLog::parse(&bytes(files, path, "PU log")?, None)
        .map(Arc::new)
        .map_err(|error| format!("{}:{}: {}", path.display(), error.line, error.kind))
}

fn read_channel_log(files: &dyn Files, path: &Path) -> Result<Arc<ChannelLog>, String> {
    ChannelLog::parse(&bytes(files, path, "channel log")?)
        .map(Arc::new)
        .map_err(|error| format!("{}:{}: {}", path.display(), error.line, error.kind))
}

fn read_movements(files: &dyn Files, path: &Path) -> Result<Arc<str>, String> {
    text(&bytes(files, path, "file of movements")?, path).map(Arc::from)
}

fn read(files: &dyn Files, path: &Path) -> Result<TraceFile, String> {
    let shown = path.display();
    let trace = Trace::parse(&bytes(files, path, "trace file")?).map_err(|error| {
        let what = match error.kind {
            TraceErrorKind::Empty => "the trace is empty: it has no delivery opportunity",
            TraceErrorKind::NotANumber => "this is not a millisecond stamp (a whole number below 2^32)",
            TraceErrorKind::NotSorted => {
                "the trace is not sorted: this stamp is smaller than the one before it"
            }
            TraceErrorKind::ZeroLength => "the last stamp is 0, so the trace has no length",
            TraceErrorKind::TooLong => "the trace has too many lines",
        };
        format!("{shown}:{}: {what}", error.line)
    })?;
    Ok(TraceFile { path: path.to_owned(), trace: Arc::new(trace) })
}
