//! An observer that writes every packet, as both hosts see it, to a pcapng file.
//!
//! Two interfaces: `correspondent` (the wired host) and `station`. A packet stands in the file once where it
//! is sent and once where it arrives; one that is lost, or held by a mechanism at the end, stands only where
//! it was sent. Times are simulated, to the nanosecond.
//!
//! With IEEE 802.15.4 the second interface is `air`: what a monitor beside the radios would record, each
//! frame and each acknowledgment once for every transmission, repetitions included, at the time of its end. A
//! transmission that its receiver could not read says so in a comment.

use std::io::Write;

use linkhold_core::packet::{Direction, Endpoint, FlowKey};
use linkhold_core::time::Instant;
use linkhold_wire::capture::{CaptureError, InterfaceId};
use linkhold_wire::ieee802154::{Carried, DataFrame, ack_frame, data_frame};
use linkhold_wire::{DatagramSpec, PacketSpec, PcapngWriter};

use crate::network::Sent;
use crate::observer::{Observer, Tap};
use crate::slab::{Packet, PacketKind};

/// Bytes of each packet that are kept; headers always are.
const SNAP_LEN: u32 = 128;

/// Writes a run's packets to a pcapng file. Ask [`finish`](Self::finish) at the end whether all went well.
pub struct Capture<W: Write> {
    writer: PcapngWriter<W>,
    correspondent: InterfaceId,
    radio: Radio,
    packets: u64,
    /// The first error; nothing is written after it.
    failed: Option<CaptureError>,
}

/// What is captured at the radio's end.
enum Radio {
    /// IP packets at the stations.
    Stations(InterfaceId),
    /// Frames on the air.
    Air {
        interface: InterfaceId,
        /// Whether frames ask for an acknowledgment.
        ack_request: bool,
        /// By radio: the last data frame that it sent, which it may send again.
        last: Vec<Vec<u8>>,
        /// Scratch.
        ack: Vec<u8>,
    },
}

impl<W: Write> Capture<W> {
    /// Starts a capture of a run whose radio is IEEE 802.15.4: packets at the correspondents, frames on the
    /// air. `acknowledged` is the radio's setting.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn of_ieee802154(writer: W, comment: &str, acknowledged: bool) -> Result<Self, CaptureError> {
        let mut writer = PcapngWriter::new(writer, comment, SNAP_LEN)?;
        let correspondent = writer.add_interface("correspondent", "the host on the wire")?;
        let interface = writer.add_ieee802154("air", "a monitor beside the radios")?;
        let radio = Radio::Air { interface, ack_request: acknowledged, last: Vec::new(), ack: Vec::new() };
        Ok(Self { writer, correspondent, radio, packets: 0, failed: None })
    }

    /// Starts a capture; `comment` says what is captured. Give it a buffered writer.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn new(writer: W, comment: &str) -> Result<Self, CaptureError> {
        let mut writer = PcapngWriter::new(writer, comment, SNAP_LEN)?;
        let correspondent = writer.add_interface("correspondent", "the host on the wire")?;
        let station = writer.add_interface("station", "the stations on the radio")?;
        let radio = Radio::Stations(station);
        Ok(Self { writer, correspondent, radio, packets: 0, failed: None })
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
        let interface = match (tap, &self.radio) {
            (Tap::Correspondent, _) => self.correspondent,
            (Tap::Station, Radio::Stations(interface)) => *interface,
            (Tap::Station, Radio::Air { .. }) => return,
        };
        let written = match packet.kind {
            PacketKind::Segment | PacketKind::Report => {
                self.writer.segment(interface, now, &spec(flow, packet), None)
            }
            PacketKind::Datagram => self.writer.datagram(interface, now, &datagram_spec(flow, packet), None),
        };
        self.note(written);
    }

    fn wants_transmissions(&self) -> bool {
        matches!(self.radio, Radio::Air { .. })
    }

    fn on_transmission(&mut self, sent: &Sent, flow: Option<&FlowKey>) {
        let Radio::Air { interface, ack_request, last, ack } = &mut self.radio else { return };
        if self.failed.is_some() {
            return;
        }
        let Sent { at, transmission, packet } = sent;
        let bytes = if transmission.packet.is_none() {
            ack.clear();
            ack_frame(transmission.sequence, ack);
            &*ack
        } else {
            let sender = transmission.from.0 as usize;
            if last.len() <= sender {
                last.resize_with(sender + 1, Vec::new);
            }
            let Some(frame) = last.get_mut(sender) else { return };
            if let (Some(packet), Some(flow)) = (packet, flow) {
                frame.clear();
                let segment = spec(flow, packet);
                let data = DataFrame {
                    from: transmission.from.0,
                    to: transmission.to.0,
                    sequence: transmission.sequence,
                    ack_request: *ack_request,
                    sent_at: packet.sent_at,
                    carried: match packet.kind {
                        PacketKind::Segment | PacketKind::Report => Carried::Segment(&segment),
                        PacketKind::Datagram => Carried::Datagram {
                            number: packet.segment.seq.0,
                            payload_len: packet.segment.payload_len,
                        },
                    },
                };
                if let Err(error) = data_frame(&data, frame) {
                    self.failed = Some(error.into());
                    return;
                }
            }
            // Without its packet it is a repetition of the frame that this radio sent last.
            &*frame
        };
        let comment = (!transmission.received).then_some("not received");
        let written = self.writer.packet(*interface, *at, bytes, comment);
        self.note(written);
    }
}

impl<W: Write> Capture<W> {
    fn note(&mut self, written: Result<(), CaptureError>) {
        match written {
            Ok(()) => self.packets += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}

/// Sender and receiver of a packet.
fn ends(flow: &FlowKey, packet: &Packet) -> (Endpoint, Endpoint) {
    match packet.direction {
        Direction::Downlink => (flow.correspondent, flow.station),
        Direction::Uplink => (flow.station, flow.correspondent),
    }
}

fn spec(flow: &FlowKey, packet: &Packet) -> PacketSpec {
    let (src, dst) = ends(flow, packet);
    PacketSpec { src, dst, tcp: packet.segment, ecn: packet.ecn }
}

fn datagram_spec(flow: &FlowKey, packet: &Packet) -> DatagramSpec {
    let (src, dst) = ends(flow, packet);
    DatagramSpec { src, dst, payload_len: packet.segment.payload_len, ecn: packet.ecn }
}
