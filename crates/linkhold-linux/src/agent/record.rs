//! `linkhold agent --record`: everything that a mechanism is told and answers, in the core's log format, to
//! be replayed bit for bit ([`linkhold_core::log`]).
//!
//! Writing is off the packets' way: the agent's thread fills chunks in memory, and a thread of its own writes
//! them. If the disk is slower than the packets, or the file has its full size, the recording ends and the
//! agent goes on. Memory is bounded by the chunks that wait.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::JoinHandle;

use linkhold_core::log::{LogError, LogReader, MAGIC, Recorder, replay_log};
use linkhold_core::mechanism::{Mechanism, Place};
use linkhold_core::registry::{MechanismSettings, NONE};
use linkhold_core::settings::Value;
use linkhold_core::units::Bytes;
use linkhold_results::Program;
use serde::{Deserialize, Serialize};

use super::config::{AgentConfig, Seat};
use super::error::AgentError;

/// Bytes gathered before the writing thread gets them.
const CHUNK: usize = 64 * 1024;
/// Chunks that may wait for the disk: 4 MB, about a quarter of a second at 100,000 packets a second.
const WAITING_CHUNKS: usize = 64;

/// Where to record, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// The file. Of several radios each has one of its own, with its name before the suffix.
    pub file: PathBuf,
    /// Longest file.
    pub limit: Bytes,
}

/// What the head of a recording says of the mechanism: enough to make it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Recorded {
    /// The program in words: its version and commit. Older recordings have the version alone.
    program: String,
    /// The radio's interface.
    radio: String,
    /// An agent's configuration with this radio and mechanism, TOML.
    config: String,
    /// Seed of the mechanism's tables.
    seed: u64,
    /// It is a host's configuration; older recordings were a router's, or could not be replayed.
    #[serde(default)]
    host: bool,
}

impl Recording {
    /// Refuses files that are somebody's and no recording, before any of several is opened. An older
    /// recording is replaced: a service that starts again records under the same name.
    ///
    /// # Errors
    /// [`AgentError::RecordOver`] names the file and what it is.
    pub fn check(&self, config: &AgentConfig, config_path: &Path) -> Result<(), AgentError> {
        for radio in &config.radio {
            let path = self.file_of(config, radio);
            if let Some(what) = not_to_be_lost(&path, config_path) {
                return Err(AgentError::RecordOver { path, what });
            }
        }
        Ok(())
    }

    fn file_of(&self, config: &AgentConfig, radio: &str) -> PathBuf {
        if config.radio.len() > 1 { with_radio(&self.file, radio) } else { self.file.clone() }
    }

    /// Wraps a radio's mechanism, so that its calls and answers are recorded.
    ///
    /// # Errors
    /// [`AgentError::Record`] if the file cannot be made.
    pub fn of(
        &self,
        mechanism: Box<dyn Mechanism>,
        config: &AgentConfig,
        radio: &str,
        seed: u64,
        program: &Program,
    ) -> Result<Box<dyn Mechanism>, AgentError> {
        let path = self.file_of(config, radio);
        let failed = |message: String| AgentError::Record { path: path.clone(), message };
        let file = open_alone(&path).map_err(|error| failed(error.to_string()))?;
        let head = Recorded {
            program: program.to_string(),
            radio: radio.to_owned(),
            config: smallest_config(config, radio).map_err(|error| failed(error.to_string()))?,
            seed,
            host: matches!(config.seat, Seat::Host(_)),
        };
        let writer =
            LogWriter::start(file, path.clone(), self.limit.0).map_err(|error| failed(error.to_string()))?;
        let recorder = Recorder::new(mechanism, &head, writer).map_err(|error| failed(error.to_string()))?;
        tracing::info!(radio, file = %path.display(), limit = %self.limit, "recording");
        Ok(Box::new(recorder))
    }
}

/// What stands at `path`, if a recording must not take its place. Pipes and devices keep nothing, an empty
/// file has nothing to lose, and what cannot be looked at is left to the opening, whose error says why.
fn not_to_be_lost(path: &Path, config_path: &Path) -> Option<&'static str> {
    let found = std::fs::metadata(path).ok().filter(|found| found.is_file() && found.len() > 0)?;
    let is_config = std::fs::metadata(config_path)
        .is_ok_and(|config| (config.dev(), config.ino()) == (found.dev(), found.ino()));
    if is_config {
        return Some("this is the configuration; name another file");
    }
    let mut start = [0; MAGIC.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    let foreign = "there is a file already that is no recording of linkhold; name another, or remove it";
    (read.is_err() || start != MAGIC).then_some(foreign)
}

/// Opens a recording, empty, unless another agent writes it: the one that runs must not lose what it has
/// because a second was started with the same command.
fn open_alone(path: &Path) -> io::Result<File> {
    // The recording has addresses of users in it: only its owner may read it.
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            return Err(io::Error::other("another agent records there; name another file"));
        }
        // A file system without locks.
        Err(TryLockError::Error(_)) => {}
    }
    if file.metadata()?.is_file() {
        file.set_permissions(Permissions::from_mode(0o600))?;
        file.set_len(0)?;
    }
    Ok(file)
}

/// The file of one radio: of `out/agent.log` and `radio0`, `out/agent-radio0.log`.
fn with_radio(file: &Path, radio: &str) -> PathBuf {
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push("-");
    name.push(radio);
    if let Some(suffix) = file.extension() {
        name.push(".");
        name.push(suffix);
    }
    file.with_file_name(name)
}

/// The configuration that makes this radio's mechanism again.
fn smallest_config(config: &AgentConfig, radio: &str) -> Result<String, toml::ser::Error> {
    #[derive(Serialize)]
    struct Config<'a> {
        wired: Option<[&'a str; 1]>,
        radio: [&'a str; 1],
        mechanism: Option<One<'a>>,
        mechanisms: Option<Vec<Table<'a>>>,
        silence: BTreeMap<&'static str, String>,
    }
    type Table<'a> = BTreeMap<&'static str, Value<'a>>;
    #[derive(Serialize)]
    #[serde(untagged)]
    enum One<'a> {
        Name(&'static str),
        Settings(Table<'a>),
    }
    let place = match config.seat {
        Seat::Router => None,
        Seat::Host(_) => Some(("at", Value::Text(Place::Stations.name().into()))),
    };
    let table = |settings: &MechanismSettings| -> Table<'static> {
        let name = ("name", Value::Text(settings.name().into()));
        settings.values().into_iter().chain([name]).chain(place.clone()).collect()
    };
    // A router's configuration needs the name of a wired interface. It means nothing here, but must not be
    // the radio's.
    let wired = config.wired.first().map_or("wired", String::as_str);
    let (mechanism, mechanisms) = match &config.mechanisms[..] {
        [] => (Some(One::Name(NONE)), None),
        [settings] => (Some(One::Settings(table(settings))), None),
        several => (None, Some(several.iter().map(table).collect())),
    };
    toml::to_string(&Config {
        wired: place.is_none().then_some([wired]),
        radio: [radio],
        mechanism,
        mechanisms,
        // A mechanism's own limit of a silence must not be shorter than this.
        silence: BTreeMap::from([("max", config.silence.max.to_string())]),
    })
}

/// Hands chunks to the thread that writes them.
#[derive(Debug)]
struct LogWriter {
    path: PathBuf,
    chunk: Vec<u8>,
    full: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    /// The disk refused something.
    broken: Arc<AtomicBool>,
    /// Bytes that still fit.
    left: u64,
    ended: bool,
    thread: Option<JoinHandle<()>>,
}

impl LogWriter {
    fn start(file: File, path: PathBuf, limit: u64) -> io::Result<Self> {
        let (full, chunks) = sync_channel(WAITING_CHUNKS);
        let (written, empty) = channel();
        let broken = Arc::new(AtomicBool::new(false));
        let failed = Arc::clone(&broken);
        let thread = std::thread::Builder::new()
            .name("recording".to_owned())
            .spawn(move || write_chunks(file, &chunks, &written, &failed))?;
        let chunk = Vec::with_capacity(CHUNK);
        let thread = Some(thread);
        Ok(Self { path, chunk, full: Some(full), empty, broken, left: limit, ended: false, thread })
    }

    /// Ends the recording, with a word in the log, and answers the error that says so to the recorder.
    fn end(&mut self, why: &'static str) -> io::Error {
        if !self.ended {
            self.ended = true;
            tracing::warn!(file = %self.path.display(), "the recording ends here: {why}; the agent goes on");
        }
        io::Error::other(why)
    }

    fn hand_over(&mut self) -> io::Result<()> {
        let next = self.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK));
        let chunk = std::mem::replace(&mut self.chunk, next);
        match self.full.as_ref().map(|full| full.try_send(chunk)) {
            Some(Ok(())) => Ok(()),
            Some(Err(TrySendError::Full(_))) => Err(self.end("the disk is slower than the packets")),
            Some(Err(TrySendError::Disconnected(_))) | None => Err(self.end("its thread is gone")),
        }
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(self.end("the disk takes no more"));
        }
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            return Err(self.end("it has its full size"));
        };
        self.left = left;
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK {
            self.hand_over()?;
        }
        Ok(bytes.len())
    }

    /// Does nothing: the writing thread writes in its own time.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for LogWriter {
    /// Waits for the disk: at the agent's end no packet is left that could be kept waiting.
    fn drop(&mut self) {
        if let Some(full) = self.full.take() {
            let _ = full.send(std::mem::take(&mut self.chunk));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn write_chunks(mut file: File, chunks: &Receiver<Vec<u8>>, written: &Sender<Vec<u8>>, broken: &AtomicBool) {
    while let Ok(mut chunk) = chunks.recv() {
        if let Err(error) = file.write_all(&chunk) {
            tracing::warn!(%error, "the recording cannot be written");
            broken.store(true, Ordering::Relaxed);
            return;
        }
        chunk.clear();
        // A chunk that grew for one long answer is not kept.
        if chunk.capacity() <= 2 * CHUNK {
            let _ = written.send(chunk);
        }
    }
}

/// A recording that was answered again as it was answered then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// The file.
    pub path: PathBuf,
    /// Its mechanism.
    pub mechanism: String,
    /// The radio's interface.
    pub radio: String,
    /// Calls of the mechanism.
    pub records: u64,
    /// The recording breaks off inside a record: it had its full size, or the agent was killed.
    pub truncated: bool,
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, mechanism, radio, records, truncated } = self;
        write!(
            f,
            "{}: {records} records of {mechanism} on {radio}, every answer as recorded",
            path.display()
        )?;
        if *truncated { write!(f, " (it breaks off inside the next record)") } else { Ok(()) }
    }
}

/// Why a recording cannot be replayed, or what came out differently.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// It cannot be read, or is no recording of an agent.
    #[error("{path}: {message}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// An answer differs from the recorded one.
    #[error(
        "{path}: record {record} is answered differently by this version than by {program}, which recorded it\ncall:     {call}\nrecorded: {recorded}\nnow:      {replayed}"
    )]
    Diverged {
        /// The file.
        path: PathBuf,
        /// The program that recorded it, in words.
        program: Box<str>,
        /// Number of the record, from 0.
        record: u64,
        /// The call.
        call: String,
        /// The answer in the recording.
        recorded: String,
        /// The answer now.
        replayed: String,
    },
}

/// Replays a recording with a mechanism that is made as the recorded one was.
///
/// # Errors
/// [`ReplayError`]
pub fn replay(path: &Path) -> Result<Replayed, ReplayError> {
    let unreadable = |message: String| ReplayError::Unreadable { path: path.to_owned(), message };
    let file = File::open(path).map_err(|error| unreadable(error.to_string()))?;
    let no_recording = || {
        unreadable(
            "this is no recording; make one with `linkhold agent --config FILE --record FILE`".to_owned(),
        )
    };
    let mut log = LogReader::new(BufReader::new(file)).map_err(|error| match error {
        LogError::NotALog => no_recording(),
        other => unreadable(other.to_string()),
    })?;
    let recorded: Recorded = log.header().config().map_err(|_| no_recording())?;
    let parse = if recorded.host { AgentConfig::parse_host } else { AgentConfig::parse };
    let config = parse(path, &recorded.config).map_err(|error| unreadable(error.to_string()))?;
    let mut mechanism =
        config.build_mechanism(recorded.seed).map_err(|error| unreadable(error.to_string()))?;
    let report = replay_log(&mut log, &mut *mechanism).map_err(|error| unreadable(error.to_string()))?;
    if let Some(divergence) = report.divergence {
        return Err(ReplayError::Diverged {
            path: path.to_owned(),
            program: recorded.program.into(),
            record: divergence.record,
            call: format!("{:?}", divergence.recorded.input),
            recorded: format!("{:?}", divergence.recorded.outputs),
            replayed: format!("{:?}", divergence.replayed),
        });
    }
    Ok(Replayed {
        path: path.to_owned(),
        mechanism: mechanism.name().to_owned(),
        radio: recorded.radio,
        records: report.records,
        truncated: report.truncated,
    })
}

#[cfg(test)]
mod tests {
    use linkhold_core::action::Actions;
    use linkhold_core::link_event::{LinkEvent, LinkEventKind};
    use linkhold_core::time::Instant;
    use linkhold_core::units::{BitRate, Fraction};

    use super::*;

    fn program() -> Program {
        Program::new("1.2.3", "abc1234")
    }

    fn config(radios: &str) -> AgentConfig {
        let text = format!(
            "wired = [\"eth0\"]\nradio = [{radios}]\n[mechanism]\nname = \"dsasync\"\nmode = \"hold\"\n"
        );
        AgentConfig::parse(Path::new("agent.toml"), &text).unwrap()
    }

    fn record(recording: &Recording, events: u64) -> Result<(), AgentError> {
        let config = config("\"wlan0\"");
        let mut mechanism =
            recording.of(config.build_mechanism(7).unwrap(), &config, "wlan0", 7, &program())?;
        let mut out = Actions::new();
        for millis in 0..events {
            let kind =
                LinkEventKind::ChannelSwitched { capacity: BitRate(millis + 1), efficiency: Fraction::ONE };
            let now = Instant::from_millis(millis);
            mechanism.on_link(now, LinkEvent::at(now, kind), &mut out);
            out.clear();
        }
        Ok(())
    }

    #[test]
    fn a_recording_replays() {
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording { file: folder.path().join("a.log"), limit: Bytes(1 << 20) };
        record(&recording, 5000).unwrap();
        let replayed = replay(&recording.file).unwrap();
        assert_eq!((replayed.records, replayed.truncated), (5000, false));
        assert!(replayed.to_string().ends_with("5000 records of dsasync on wlan0, every answer as recorded"));
        assert_eq!(std::fs::metadata(&recording.file).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_hosts_recording_replays_whatever_its_mechanism_and_limit() {
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording { file: folder.path().join("a.log"), limit: Bytes(1 << 20) };
        for mechanism in
            ["\"cr-aware\"", "\"snr-gate\"", "\"none\"", "{ name = \"dsasync\", at = \"stations\" }"]
        {
            let text = format!("radio = [\"wlan0\"]\nmechanism = {mechanism}\n[silence]\nmax = \"2500ms\"\n");
            let config = AgentConfig::parse_host(Path::new("host.toml"), &text).unwrap();
            let made = config.build_mechanism(7).unwrap();
            let mut recorded = recording.of(made, &config, "wlan0", 7, &program()).unwrap();
            let kind = LinkEventKind::FreezeStarted {
                scope: linkhold_core::link_event::Scope::Network,
                cause: linkhold_core::link_event::Cause::PrimaryUser,
                expected: None,
            };
            let mut out = Actions::new();
            recorded.on_link(Instant::from_millis(1), LinkEvent::at(Instant::from_millis(1), kind), &mut out);
            drop(recorded);
            let replayed = replay(&recording.file).unwrap_or_else(|error| panic!("{mechanism}: {error}"));
            assert_eq!(replayed.records, 1, "{mechanism}");
        }
    }

    #[test]
    fn a_recording_under_way_is_not_touched_by_a_second_agent() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.log");
        let recording = Recording { file: file.clone(), limit: Bytes(1 << 20) };
        std::fs::write(&file, [&MAGIC[..], b"an old one, for all to read"].concat()).unwrap();
        let config = config("\"wlan0\"");
        recording.check(&config, Path::new("agent.toml")).unwrap();
        let of = || recording.of(config.build_mechanism(1).unwrap(), &config, "wlan0", 1, &program());
        let first = of().unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        let told = of().err().expect("it is taken").to_string();
        assert!(told.ends_with("another agent records there; name another file"), "{told}");
        drop(first);
        assert_eq!(replay(&file).unwrap().records, 0);
        assert!(of().is_ok());
    }

    #[test]
    fn a_recording_replaces_a_recording_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let one = config("\"wlan0\"");
        let told = |name: &str, config: &AgentConfig| {
            let recording = Recording { file: file(name), limit: Bytes(1 << 20) };
            recording.check(config, &file("agent.toml")).map_err(|error| {
                assert!(error.is_bad_input());
                error.to_string()
            })
        };
        std::fs::write(file("agent.toml"), "wired = [\"eth0\"]").unwrap();
        std::fs::write(file("s.toml"), "schema").unwrap();
        std::fs::write(file("empty"), "").unwrap();
        std::fs::write(file("old.log"), [&MAGIC[..], b"!"].concat()).unwrap();
        std::os::unix::fs::symlink(file("agent.toml"), file("link")).unwrap();
        std::os::unix::fs::symlink("/dev/null", file("null")).unwrap();
        nix::unistd::mkfifo(&file("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        for fine in ["new", "empty", "old.log", "null", "pipe"] {
            assert_eq!(told(fine, &one), Ok(()), "{fine}");
        }
        for (name, what) in [
            ("agent.toml", "this is the configuration; name another file"),
            ("link", "this is the configuration; name another file"),
            (
                "s.toml",
                "there is a file already that is no recording of linkhold; name another, or remove it",
            ),
        ] {
            assert_eq!(told(name, &one), Err(format!("--record {}: {what}", file(name).display())), "{name}");
        }
        // Of several radios each has a file of its own: all are looked at before one is opened.
        let two = config("\"wlan0\", \"wlan1\"");
        std::fs::write(file("s-wlan1.toml"), "schema").unwrap();
        assert_eq!(told("agent.toml", &two), Ok(()));
        assert!(told("s.toml", &two).unwrap_err().contains("s-wlan1.toml: there is a file already"));
    }

    #[test]
    fn a_recording_ends_at_its_full_size_and_the_mechanism_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording { file: folder.path().join("a.log"), limit: Bytes(100_000) };
        record(&recording, 50_000).unwrap();
        let size = std::fs::metadata(&recording.file).unwrap().len();
        assert!((99_000..=100_000).contains(&size), "{size}");
        let replayed = replay(&recording.file).unwrap();
        assert!(replayed.records > 1000 && replayed.records < 50_000, "{replayed}");
    }

    #[test]
    fn a_full_disk_ends_the_recording_and_the_mechanism_goes_on() {
        let recording = Recording { file: "/dev/full".into(), limit: Bytes(1 << 30) };
        record(&recording, 100_000).unwrap();
        let nowhere = Recording { file: "/nonexistent/a.log".into(), limit: Bytes(1) };
        let error = record(&nowhere, 1).unwrap_err().to_string();
        assert!(error.starts_with("cannot record to /nonexistent/a.log: No such file"), "{error}");
    }

    #[test]
    fn several_radios_have_files_of_their_own() {
        assert_eq!(with_radio(Path::new("out/agent.log"), "wlan0"), Path::new("out/agent-wlan0.log"));
        assert_eq!(with_radio(Path::new("log"), "wlan0"), Path::new("log-wlan0"));
        let folder = tempfile::tempdir().unwrap();
        let recording = Recording { file: folder.path().join("a.log"), limit: Bytes(1 << 20) };
        let config = config("\"wlan0\", \"wlan1\"");
        for radio in &config.radio {
            drop(recording.of(config.build_mechanism(1).unwrap(), &config, radio, 1, &program()).unwrap());
        }
        assert_eq!(replay(&folder.path().join("a-wlan1.log")).unwrap().radio, "wlan1");
        assert!(!recording.file.exists());
    }

    #[test]
    fn what_is_no_recording_or_answers_differently_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.log");
        std::fs::write(&path, "hello").unwrap();
        assert!(replay(&path).unwrap_err().to_string().contains("this is no recording; make one with"));
        // Recorded with a mechanism that holds nothing, under the name and settings of one that does.
        let config = config("\"wlan0\"");
        let head = Recorded {
            program: program().to_string(),
            radio: "wlan0".to_owned(),
            config: smallest_config(&config, "wlan0").unwrap(),
            seed: 1,
            host: false,
        };
        let other = linkhold_core::mechanism::PlainRouter::default();
        let recorder = Recorder::new(other, &head, File::create(&path).unwrap()).unwrap();
        drop(recorder);
        let head = File::open(&path).unwrap();
        let head: Recorded = LogReader::new(head).unwrap().header().config().unwrap();
        assert_eq!(head.program, "linkhold 1.2.3 (commit abc1234)");
        let told = replay(&path).unwrap_err().to_string();
        assert!(told.contains("the log is of mechanism `none`, not `dsasync`"), "{told}");
    }
}
