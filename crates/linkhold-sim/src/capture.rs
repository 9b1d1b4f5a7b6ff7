//! An observer that writes every packet, as both hosts see it, to a pcapng file.
//!
//! Two interfaces: `correspondent` (the wired host) and `station`. A packet stands in the file once where it
//! is sent and once where it arrives; one that is lost, or held by a mechanism at the end, stands only where
//! it was sent. Times are simulated, to the nanosecond.

use std::io::Write;

use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::Instant;
use linkhold_wire::capture::{CaptureError, InterfaceId};
use linkhold_wire::{PacketSpec, PcapngWriter};

use crate::observer::{Observer, Tap};
use crate::slab::Packet;

/// Bytes of each packet that are kept; headers always are.
const SNAP_LEN: u32 = 128;

/// Writes a run's packets to a pcapng file. Ask [`finish`](Self::finish) at the end whether all went well.
pub struct Capture<W: Write> {
    writer: PcapngWriter<W>,
    correspondent: InterfaceId,
    station: InterfaceId,
    packets: u64,
    /// The first error; nothing is written after it.
    failed: Option<CaptureError>,
}

impl<W: Write> Capture<W> {
    /// Starts a capture; `comment` says what is captured. Give it a buffered writer.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn new(writer: W, comment: &str) -> Result<Self, CaptureError> {
        let mut writer = PcapngWriter::new(writer, comment, SNAP_LEN)?;
        let correspondent = writer.add_interface("correspondent", "the host on the wire")?;
        let station = writer.add_interface("station", "the stations on the radio")?;
        Ok(Self { writer, correspondent, station, packets: 0, failed: None })
    }

    /// Packets captured so far.
    #[must_use]
    pub const fn packets(&self) -> u64 {
        self.packets
    }

    /// Ends the capture and returns its writer, flushed.
    ///
    /// # Errors
    /// The first [`CaptureError`] of the run.
    pub fn finish(self) -> Result<W, CaptureError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.writer.finish(),
        }
    }
}

impl<W: Write> Observer for Capture<W> {
    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, now: Instant, tap: Tap, flow: &FlowKey, packet: &Packet) {
        if self.failed.is_some() {
            return;
        }
        let (src, dst) = match packet.direction {
            Direction::Downlink => (flow.correspondent, flow.station),
            Direction::Uplink => (flow.station, flow.correspondent),
        };
        let interface = match tap {
            Tap::Correspondent => self.correspondent,
            Tap::Station => self.station,
        };
        let spec = PacketSpec { src, dst, tcp: packet.segment, ecn: packet.ecn };
        match self.writer.segment(interface, now, &spec, None) {
            Ok(()) => self.packets += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}
