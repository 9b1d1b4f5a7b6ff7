//! Where a host hears the signal-to-noise ratio of its radios: a file that some program appends samples to,
//! or the radio itself (nl80211). The third source, the control socket, needs nothing of this.
//!
//! Paper: activation, section 3 (the collecting process, which asks the radio every 100 ms). The host looks
//! at its sources by the clock, since neither wakes a reader.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use linkhold_core::time::{Duration, Instant};

use super::config::SnrSection;
use super::nl80211::strength::{Levels, Strength};
use super::protocol::MAX_DECIBELS;

/// Bytes by which the end of what was read is known again.
const MAX_END: u64 = 64;
/// Most bytes read in one look; what is more waits for the next.
const MAX_READ: u64 = 64 * 1024;
/// A longer line is no sample.
const MAX_LINE: usize = 256;
/// So long may one write take from the time that it gives the file to the bytes that can be read.
const LONGEST_WRITE: Duration = Duration::from_secs(1);

/// A sample: index of the radio, and the ratio in dB.
pub type Sample = (usize, f32);

/// The sources of a host.
pub struct SnrSource {
    file: Option<Tail>,
    asked: Option<Asked>,
    radios: Vec<String>,
    every: Duration,
    noise_dbm: i8,
    next_look: Instant,
}

impl SnrSource {
    /// Opens what the configuration names; `None` if it names nothing. A file that is not there yet is looked
    /// for again and again.
    #[must_use]
    pub fn open(config: &SnrSection, radios: &[String], now: Instant) -> Option<Self> {
        let asked = config.nl80211.then(|| Asked::new(Strength::open));
        let file = config.file.as_deref().map(Tail::new);
        (file.is_some() || asked.is_some()).then(|| Self {
            file,
            asked,
            radios: radios.to_vec(),
            every: config.every,
            noise_dbm: config.noise_dbm,
            next_look: now,
        })
    }

    /// A radio's interface has appeared, and nl80211 perhaps with it.
    pub fn renew(&mut self) {
        if let Some(asked) = &mut self.asked {
            asked.renew();
        }
    }

    /// Why nl80211 tells nothing now, where it is to.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.asked.as_ref().and_then(|asked| asked.trouble.as_deref())
    }

    /// When to look next.
    #[must_use]
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks if it is time, and adds what it finds to `samples`. A file's samples are of every radio.
    pub fn look(&mut self, now: Instant, samples: &mut Vec<Sample>) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + self.every;
        if let Some(file) = &mut self.file {
            let mut told = Vec::new();
            file.read(now, &mut told);
            for db in told {
                samples.extend((0..self.radios.len()).map(|radio| (radio, db)));
            }
        }
        let Some(asked) = &mut self.asked else { return };
        for (radio, name) in self.radios.iter().enumerate() {
            let Ok(index) = nix::net::if_::if_nametoindex(name.as_str()) else { continue };
            let levels = asked.levels(index);
            samples.extend(levels.and_then(|levels| levels.ratio(self.noise_dbm)).map(|db| (radio, db)));
        }
    }
}

/// How nl80211 is reached; `None`: there is none.
type Opener = fn() -> io::Result<Option<Strength>>;

/// nl80211, which is to tell how strong the radios hear, as soon as it can.
struct Asked {
    open: Opener,
    strength: Option<Strength>,
    /// Why it tells nothing; said in the log when it begins.
    trouble: Option<String>,
}

impl Asked {
    fn new(open: Opener) -> Self {
        let mut this = Self { open, strength: None, trouble: None };
        this.renew();
        this
    }

    /// An interface has appeared, and nl80211 perhaps with it, or another one since its module was loaded
    /// anew.
    fn renew(&mut self) {
        let found = match &mut self.strength {
            Some(strength) if self.trouble.is_none() => strength.renew(),
            // A socket that failed may be of the same nl80211.
            Some(_) | None => (self.open)().and_then(|found| {
                self.strength = Some(found.ok_or_else(|| io::Error::other("there is none"))?);
                Ok(())
            }),
        };
        self.note(found.err());
    }

    /// What an interface hears now; nothing where it could not be asked, which may be otherwise at the next
    /// look.
    fn levels(&mut self, interface: u32) -> Option<Levels> {
        let levels = self.strength.as_mut()?.levels(interface);
        match levels {
            Ok(levels) => {
                self.note(None);
                Some(levels)
            }
            Err(error) => {
                self.note(Some(error));
                None
            }
        }
    }

    fn note(&mut self, error: Option<io::Error>) {
        let trouble = error.map(|error| {
            format!(
                "nl80211 tells no signal-to-noise ratio ({error}), so `nl80211 = true` under [snr] does nothing until it \
                 can be asked; it is looked for anew when an interface comes or is another one"
            )
        });
        match (&self.trouble, &trouble) {
            (None, Some(trouble)) => tracing::warn!("{trouble}"),
            (Some(_), None) => tracing::info!("nl80211 is asked for the signal-to-noise ratio"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        self.trouble = trouble;
    }
}

/// A file that grows by lines: the last field of each, behind a comma, is a ratio in dB. Samples that are
/// there at the first look are old; in a file that appears later, or is written anew, all are new.
struct Tail {
    path: PathBuf,
    open: Option<Open>,
    /// No look has told yet what is there, which is old.
    first: bool,
    complained: bool,
}

struct Open {
    file: File,
    at: u64,
    /// A line whose end is yet to come.
    rest: Vec<u8>,
    stamp: Stamp,
    /// What was read last, [`MAX_END`] bytes at most.
    end: Vec<u8>,
    suspected: Option<Suspected>,
}

/// A change that may have been in place, or a write whose bytes cannot be read yet.
#[derive(Clone, Copy)]
struct Suspected {
    changed: (i64, i64),
    since: Instant,
}

impl Open {
    /// The bytes before `at`, so many of them; nothing if the file is shorter.
    fn read_end(&self, length: u64) -> io::Result<Vec<u8>> {
        let mut end = vec![0; usize::try_from(length).unwrap_or(0)];
        match self.file.read_exact_at(&mut end, self.at.saturating_sub(length)) {
            Ok(()) => Ok(end),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// True if the file, which is as long as before, was written anew by a change at this time.
    ///
    /// A write changes the time first and the length last, and the next write begins behind it. With the same
    /// bytes at the end it was no appending if it takes too long for that, or if the next has begun and the
    /// file is no longer.
    fn is_written_anew(&mut self, changed: (i64, i64), now: Instant) -> io::Result<bool> {
        if changed == self.stamp.changed {
            return Ok(false);
        }
        if self.read_end(self.end.len() as u64)? != self.end {
            return Ok(true);
        }
        match self.suspected {
            Some(suspected) if suspected.changed == changed => Ok(now >= suspected.since + LONGEST_WRITE),
            // The length that came with this time may be older than it.
            Some(_) => Ok(self.file.metadata()?.len() == self.at),
            None => {
                self.suspected = Some(Suspected { changed, since: now });
                Ok(false)
            }
        }
    }
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
    length: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let changed = (metadata.mtime(), metadata.mtime_nsec());
        Self { inode: metadata.ino(), changed, length: metadata.len() }
    }
}

impl Tail {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: None, first: true, complained: false }
    }

    /// Adds the samples that are new. A look that fails forgets nothing: the next one goes on where the last
    /// one ended, or what was read would be read again as new.
    fn read(&mut self, now: Instant, samples: &mut Vec<f32>) {
        match self.try_read(now, samples) {
            Ok(()) => self.first = false,
            Err(error) => self.complain(&error.to_string()),
        }
    }

    fn try_read(&mut self, now: Instant, samples: &mut Vec<f32>) -> io::Result<()> {
        let stamp = match std::fs::metadata(&self.path) {
            Ok(metadata) => Stamp::of(&metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.open = None;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        // True if the file was cut short, replaced, or written anew in place with as many bytes.
        let anew = match &mut self.open {
            None => false,
            Some(open) => {
                stamp.inode != open.stamp.inode
                    || stamp.length < open.at
                    || (stamp.length == open.at && open.is_written_anew(stamp.changed, now)?)
            }
        };
        if anew {
            self.open = None;
        }
        if self.open.is_none() {
            self.open = Some(self.open_file(stamp)?);
        }
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut bytes = Vec::new();
        // A look that failed midway may have read more than it took.
        open.file.seek(SeekFrom::Start(open.at))?;
        (&mut open.file).take(MAX_READ).read_to_end(&mut bytes)?;
        // Not before: a writer may have been faster than the look at the path.
        if !bytes.is_empty() {
            (open.stamp, open.suspected) = (Stamp::of(&open.file.metadata()?), None);
        }
        open.at += bytes.len() as u64;
        open.end.extend_from_slice(&bytes);
        let before = open.end.len().saturating_sub(MAX_END as usize);
        open.end.drain(..before);
        let mut wrong = None;
        for byte in bytes {
            if byte == b'\n' {
                match sample(&open.rest) {
                    Line::Sample(db) => samples.push(db),
                    Line::Nothing => {}
                    Line::Wrong => wrong = Some(String::from_utf8_lossy(&open.rest).into_owned()),
                }
                open.rest.clear();
            } else if open.rest.len() <= MAX_LINE {
                open.rest.push(byte);
            }
        }
        if let Some(line) = wrong {
            self.complain(&format!(
                "{:?} is no sample; a line ends with the ratio in dB, such as \"12.5\" or \"1700000000.1,12.5\"",
                linkhold_core::text::shorten(&line)
            ));
        }
        Ok(())
    }

    fn open_file(&mut self, stamp: Stamp) -> io::Result<Open> {
        // A named pipe would keep whoever opens it waiting for its writer, and packets with it.
        let mut file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?;
        if !file.metadata()?.is_file() {
            // The file that takes its place has nothing old.
            self.first = false;
            return Err(io::Error::other("it is no regular file, to which samples are appended"));
        }
        let at = if self.first { file.seek(SeekFrom::End(0))? } else { 0 };
        let mut open = Open { file, at, rest: Vec::new(), stamp, end: Vec::new(), suspected: None };
        open.end = open.read_end(at.min(MAX_END))?;
        Ok(open)
    }

    /// Warns, but only once: a broken writer would fill the log.
    fn complain(&mut self, what: &str) {
        if !self.complained {
            self.complained = true;
            tracing::warn!(path = %self.path.display(), "{what} (said once)");
        }
    }
}

/// The ratio in dB that a line of a file tells, if it is a sample.
#[must_use]
pub fn ratio(line: &[u8]) -> Option<f32> {
    match sample(line) {
        Line::Sample(db) => Some(db),
        Line::Nothing | Line::Wrong => None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Line {
    Sample(f32),
    /// Empty, a comment, or the names of the columns.
    Nothing,
    Wrong,
}

fn sample(line: &[u8]) -> Line {
    if line.len() > MAX_LINE {
        return Line::Wrong;
    }
    let Ok(text) = str::from_utf8(line) else { return Line::Wrong };
    let text = text.trim();
    if text.is_empty() || text.starts_with('#') {
        return Line::Nothing;
    }
    let field = text.rsplit(',').next().unwrap_or(text).trim();
    match field.parse::<f32>() {
        Ok(db) if db.is_finite() && db.abs() <= MAX_DECIBELS => Line::Sample(db),
        Ok(_) => Line::Wrong,
        Err(_) if field.eq_ignore_ascii_case("snr") || field.eq_ignore_ascii_case("snr_db") => Line::Nothing,
        Err(_) => Line::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const START: Instant = Instant::from_nanos(0);

    #[test]
    fn a_line_is_a_sample_or_says_why_not() {
        for (line, expected) in [
            ("12.5", Line::Sample(12.5)),
            (" 1700000000.1 , -3 ", Line::Sample(-3.0)),
            ("", Line::Nothing),
            ("# a comment, 7", Line::Nothing),
            ("time,SNR", Line::Nothing),
            ("time,snr_db", Line::Nothing),
            ("nan", Line::Wrong),
            ("1,inf", Line::Wrong),
            ("1e9", Line::Wrong),
            ("weak", Line::Wrong),
            ("3,", Line::Wrong),
        ] {
            assert_eq!(sample(line.as_bytes()), expected, "{line:?}");
        }
        assert_eq!(sample(&[0xff, 0xfe]), Line::Wrong);
        assert_eq!(sample(&[b'1'; MAX_LINE + 1]), Line::Wrong);
    }

    #[test]
    fn nl80211_that_is_not_there_is_a_trouble_and_is_looked_for_again() {
        static OPENED: AtomicUsize = AtomicUsize::new(0);
        let mut asked = Asked::new(|| match OPENED.fetch_add(1, Ordering::SeqCst) {
            0 => Ok(None),
            _ => Err(io::ErrorKind::TimedOut.into()),
        });
        let told = asked.trouble.clone().unwrap();
        assert!(told.contains("there is none") && told.contains("[snr]"), "{told}");
        asked.renew();
        assert_eq!(OPENED.load(Ordering::SeqCst), 2);
        assert!(asked.trouble.as_ref().is_some_and(|told| told.contains("timed out")), "{:?}", asked.trouble);
        assert!(asked.levels(1).is_none());
        asked.note(None);
        assert_eq!(asked.trouble, None);
    }

    #[test]
    fn a_pipe_in_the_files_place_is_no_source_and_keeps_nobody_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snr.csv");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut tail = Tail::new(&path);
        let mut samples = Vec::new();
        tail.read(START, &mut samples);
        let refused = tail.try_read(START, &mut samples).unwrap_err().to_string();
        assert!(refused.contains("no regular file"), "{refused}");
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "1,10\n").unwrap();
        tail.read(START, &mut samples);
        assert_eq!(samples, [10.0], "a file that takes its place is one");
    }

    #[test]
    fn a_file_tells_what_is_added_to_it_cut_or_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snr.csv");
        let mut tail = Tail::new(&path);
        let mut now = START;
        let mut read = |tail: &mut Tail| {
            now += Duration::from_millis(100);
            let mut samples = Vec::new();
            tail.read(now, &mut samples);
            samples
        };
        // Not there yet: whatever it brings later is new.
        assert_eq!(read(&mut tail), [] as [f32; 0]);
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        file.write_all(b"time,snr\n1,10\n2,1").unwrap();
        assert_eq!(read(&mut tail), [10.0]);
        // The end of a line comes later, and a broken line hides none behind it.
        file.write_all(b"1.5\nweak\n3,12\n").unwrap();
        assert_eq!(read(&mut tail), [11.5, 12.0]);
        assert_eq!(read(&mut tail), [] as [f32; 0]);
        // Written anew, shorter.
        std::fs::write(&path, "7\n").unwrap();
        assert_eq!(read(&mut tail), [7.0]);
        // Written anew with the same sample, which is news: at the second time where it is written often, and
        // when no write can take so long where it is not.
        let write_anew = |bytes: &str| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            std::fs::write(&path, bytes).unwrap();
        };
        write_anew("7\n");
        assert_eq!(read(&mut tail), [] as [f32; 0]);
        write_anew("7\n");
        assert_eq!(read(&mut tail), [7.0]);
        write_anew("7\n");
        assert_eq!([(); 10].map(|()| read(&mut tail)).concat(), [] as [f32; 0]);
        assert_eq!(read(&mut tail), [7.0]);
        write_anew("8\n");
        assert_eq!(read(&mut tail), [8.0], "and at once where it is another");
        // Another file of the name.
        let other = folder.path().join("other");
        std::fs::write(&other, "1\n2\n3\n").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_eq!(read(&mut tail), [1.0, 2.0, 3.0]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read(&mut tail), [] as [f32; 0]);
    }

    #[test]
    fn a_look_that_fails_makes_no_sample_new() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("snr"), folder.path().join("link"));
        let lead_to = |target: &Path| {
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(target, &link).unwrap();
        };
        std::fs::write(&path, "1\n2\n").unwrap();
        let mut tail = Tail::new(&link);
        let mut samples = Vec::new();
        // A link to itself cannot be followed, which is another failure than that nothing is there. The first
        // look that does not fail finds what is old.
        lead_to(&link);
        tail.read(START, &mut samples);
        lead_to(&path);
        tail.read(START, &mut samples);
        assert!(samples.is_empty(), "{samples:?}");
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"3\n4").unwrap();
        tail.read(START, &mut samples);
        lead_to(&link);
        tail.read(START, &mut samples);
        lead_to(&path);
        file.write_all(b".5\n").unwrap();
        tail.read(START, &mut samples);
        assert_eq!(samples, [3.0, 4.5]);
    }

    /// A write changes the file's time before its bytes can be read, and its program may have to wait for the
    /// processor in between.
    #[test]
    fn a_write_that_is_under_way_does_not_make_a_file_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snr");
        std::fs::write(&path, "1\n").unwrap();
        let mut tail = Tail::new(&path);
        let mut samples = Vec::new();
        tail.read(START, &mut samples);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(7)).unwrap();
        for look in 0..10 {
            tail.read(START + Duration::from_millis(look * 100), &mut samples);
        }
        file.write_all(b"2\n").unwrap();
        tail.read(START + LONGEST_WRITE, &mut samples);
        assert_eq!(samples, [2.0]);
    }

    /// What is appended between the look at the path and the reading is read, and no reason to read all
    /// again.
    #[test]
    fn a_writer_in_between_does_not_make_a_file_new() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snr");
        std::fs::write(&path, "").unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let mut samples = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = File::options().append(true).open(&path).unwrap();
                for number in 0..20_000 {
                    file.write_all(format!("{}\n", number % 100).as_bytes()).unwrap();
                }
                stop.store(true, std::sync::atomic::Ordering::Release);
            });
            let mut tail = Tail::new(&path);
            let begun = std::time::Instant::now();
            let now = || START + Duration::from_nanos(begun.elapsed().as_nanos() as u64);
            loop {
                let last = stop.load(std::sync::atomic::Ordering::Acquire);
                tail.read(now(), &mut samples);
                if last {
                    // What was longer than one look takes.
                    for _ in 0..10 {
                        tail.read(now(), &mut samples);
                    }
                    break;
                }
            }
        });
        // The first look may have found some lines, which are old.
        let first = samples.first().copied().unwrap_or_default();
        let expected = (0..samples.len()).map(|number| (number as f32 + first) % 100.0);
        assert!(samples.iter().copied().eq(expected), "read twice, or left out");
        assert_eq!(samples.last(), Some(&99.0));
    }

    #[test]
    fn what_a_file_has_at_the_start_is_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("snr");
        std::fs::write(&path, "1\n2\n").unwrap();
        let mut tail = Tail::new(&path);
        let mut samples = Vec::new();
        tail.read(START, &mut samples);
        assert!(samples.is_empty());
        File::options().append(true).open(&path).unwrap().write_all(b"3\n").unwrap();
        tail.read(START, &mut samples);
        assert_eq!(samples, [3.0]);
    }
}
