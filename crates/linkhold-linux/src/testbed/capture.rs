//! Packets of a run as pcapng, as each side sees them: two interfaces, `correspondent` and `station`.
//!
//! The engine hands packets to a thread that writes them. The file is complete after [`Packets::finish`], and
//! gone after [`Packets::discard`].

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use linkhold_core::time::Instant;
use linkhold_wire::PcapngWriter;

use super::ports::{Capture, Side};
use super::tun::MTU;

/// Bytes of each packet that are kept; headers always are.
const SNAP_LEN: u32 = 128;
/// Packets on their way to the writer.
const BACKLOG: usize = 1 << 13;

struct Captured {
    at: Instant,
    side: Side,
    bytes: [u8; MTU as usize],
    len: u16,
}

/// The engine's end: hands packets to a thread that writes, since a disk may take its time.
pub struct PcapCapture {
    packets: SyncSender<Captured>,
    missed: Arc<AtomicU64>,
}

/// The writer's end.
pub struct Packets {
    writer: JoinHandle<Result<(), String>>,
    path: PathBuf,
    missed: Arc<AtomicU64>,
}

impl PcapCapture {
    /// Starts a capture into `path`; `comment` says what is captured.
    ///
    /// # Errors
    /// In words, if the file cannot be written.
    pub fn create(path: &Path, comment: &str) -> Result<(Self, Packets), String> {
        let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let file = File::create(path).map_err(|error| told(&error))?;
        let mut writer =
            PcapngWriter::new(BufWriter::new(file), comment, SNAP_LEN).map_err(|error| told(&error))?;
        let correspondent =
            writer.add_interface("correspondent", "the host on the wire").map_err(|error| told(&error))?;
        let station =
            writer.add_interface("station", "the stations on the radio").map_err(|error| told(&error))?;
        let (packets, receiver): (_, Receiver<Captured>) = sync_channel(BACKLOG);
        let name = path.display().to_string();
        let write = move || {
            let told = |error: &dyn std::fmt::Display| format!("{name}: {error}");
            while let Ok(packet) = receiver.recv() {
                let interface = match packet.side {
                    Side::Correspondent => correspondent,
                    Side::Station(_) => station,
                };
                let bytes = &packet.bytes[..usize::from(packet.len)];
                writer.packet(interface, packet.at, bytes, None).map_err(|error| told(&error))?;
            }
            writer.finish().map(|_| ()).map_err(|error| told(&error))
        };
        let writer = std::thread::Builder::new()
            .name("capture".to_owned())
            .spawn(write)
            .map_err(|error| told(&error))?;
        let missed = Arc::<AtomicU64>::default();
        let written = Packets { writer, path: path.to_owned(), missed: missed.clone() };
        Ok((Self { packets, missed }, written))
    }
}

impl Capture for PcapCapture {
    fn packet(&mut self, now: Instant, side: Side, bytes: &[u8]) {
        let len = bytes.len().min(usize::from(MTU));
        let mut packet = Captured { at: now, side, bytes: [0; MTU as usize], len: len as u16 };
        packet.bytes[..len].copy_from_slice(&bytes[..len]);
        if self.packets.try_send(packet).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Packets {
    /// Waits until everything is written, and answers how many packets are not in the file because the disk
    /// was too slow for them. To be called when the engine is gone.
    ///
    /// # Errors
    /// In words, the first error; the file is removed then.
    pub fn finish(self) -> Result<u64, String> {
        let written = self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        match written {
            Ok(()) => Ok(self.missed.load(Ordering::Relaxed)),
            Err(error) => {
                remove(&self.path);
                Err(error)
            }
        }
    }

    /// Removes the file, since its run has no result. To be called when the engine is gone.
    pub fn discard(self) {
        // Why it could not be written does not matter any more.
        drop(self.writer.join());
        remove(&self.path);
    }
}

fn remove(path: &Path) {
    if let Err(error) = std::fs::remove_file(path) {
        tracing::warn!(path = %path.display(), %error, "the capture of a run without a result could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn packet(capture: &mut PcapCapture, number: u64) {
        capture.packet(Instant::from_nanos(number), Side::Correspondent, &[0x45; 60]);
    }

    #[test]
    fn packets_that_the_disk_is_too_slow_for_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slow");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        // A pipe that nobody reads is full after 64 KiB.
        let mut reader = File::options().read(true).write(true).open(&path).unwrap();
        let (mut capture, packets) = PcapCapture::create(&path, "test").unwrap();
        let sent = 3 * BACKLOG as u64;
        (0..sent).for_each(|number| packet(&mut capture, number));
        drop(capture);
        std::thread::spawn(move || while reader.read(&mut [0; 1 << 16]).is_ok_and(|read| read > 0) {});
        let missed = packets.finish().unwrap();
        assert!((1..=sent - BACKLOG as u64).contains(&missed), "{missed}");
    }

    #[test]
    fn a_capture_on_a_disk_that_keeps_up_is_whole_and_a_discarded_one_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("whole.pcapng");
        for is_kept in [true, false] {
            let (mut capture, packets) = PcapCapture::create(&path, "test").unwrap();
            (0..100).for_each(|number| packet(&mut capture, number));
            drop(capture);
            if is_kept {
                assert_eq!(packets.finish(), Ok(0));
            } else {
                packets.discard();
            }
            assert_eq!(path.exists(), is_kept);
        }
    }
}
