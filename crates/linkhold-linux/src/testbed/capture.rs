//! Packets of a run as pcapng, as each side sees them: two interfaces, `correspondent` and `station`.
//!
//! The file is written by the engine's own thread into a buffer; it is complete after [`Packets::finish`].

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
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
    missed: u64,
}

/// The writer's end.
pub struct Packets {
    writer: JoinHandle<Result<(), String>>,
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
        Ok((Self { packets, missed: 0 }, Packets { writer }))
    }
}

impl Capture for PcapCapture {
    fn packet(&mut self, now: Instant, side: Side, bytes: &[u8]) {
        let len = bytes.len().min(usize::from(MTU));
        let mut packet = Captured { at: now, side, bytes: [0; MTU as usize], len: len as u16 };
        packet.bytes[..len].copy_from_slice(&bytes[..len]);
        if self.packets.try_send(packet).is_err() {
            self.missed += 1;
        }
    }
}

impl Drop for PcapCapture {
    fn drop(&mut self) {
        if self.missed > 0 {
            tracing::warn!(missed = self.missed, "the capture lacks packets: the disk was too slow");
        }
    }
}

impl Packets {
    /// Waits until everything is written. To be called when the engine is gone.
    ///
    /// # Errors
    /// In words, the first error.
    pub fn finish(self) -> Result<(), String> {
        self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
