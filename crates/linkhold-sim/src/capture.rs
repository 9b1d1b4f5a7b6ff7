//! An observer that writes every packet, as both hosts see it, to a pcapng file.
//!
//! Two interfaces: `correspondent` (the wired host) and `station`. A packet stands in the file once where it
//! is sent and once where it arrives; one that is lost, or held by a mechanism at the end, stands only where
//! it was sent. Times are simulated, to the nanosecond.
//!
//! With IEEE 802.15.4 the second interface is `air`: what a monitor beside the radios would record, each
//! frame and each acknowledgment once for every transmission, repetitions included, at the time of its end. A
//! transmission that its receiver could not read says so in a comment. The frames of the primary user are
//! there as well, from its own address, with a comment that says whose they are. The run itself knows only
//! the user's bursts; its frames follow from the same configuration and seed ([`UserFrames`]).
//!
//! With a DCF, in a cell or in a mesh, the second interface is `air` as well: frames of IEEE 802.11 behind
//! radiotap headers, data, RTS, CTS, ACK and the messages of a mesh's routers (see
//! [`monitor`](crate::monitor)). Of a long frame only the beginning is kept, so its frame check sequence is
//! missing in the file. In a mesh the first interface is `receiver`, the hosts that data goes to, for there
//! is no wire.

use std::io::Write;

use linkhold_core::packet::FlowKey;
use linkhold_core::time::Instant;
use linkhold_radio::dcf::Phy;
use linkhold_radio::{DcfFrame, MacFrame, Silence, UserFrames};
use linkhold_wire::capture::{CaptureError, InterfaceId};
use linkhold_wire::ieee802154::{Carried, DataFrame, ack_frame, data_frame, fcs};
use linkhold_wire::{EmitError, PcapngWriter};

use crate::monitor::{self, Monitor, Numbers};
use crate::network::Sent;
use crate::observer::{Observer, SeenAt};
use crate::on_wire::{datagram, segment};
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
    /// Frames of IEEE 802.11 on the air.
    Ieee80211 { interface: InterfaceId, monitor: Monitor },
    /// Frames of IEEE 802.15.4 on the air.
    Ieee802154(Ieee802154),
}

/// Frames of IEEE 802.15.4 on the air.
struct Ieee802154 {
    interface: InterfaceId,
    /// Whether frames ask for an acknowledgment.
    ack_request: bool,
    /// By radio: the last data frame that it sent, which it may send again.
    last: Vec<Vec<u8>>,
    /// The primary user's frames that are still to come.
    user: Option<UserFrames>,
    /// Scratch.
    ack: Vec<u8>,
    /// Scratch.
    user_frame: Vec<u8>,
}

impl<W: Write> Capture<W> {
    /// Starts a capture of a run whose radio is IEEE 802.15.4: packets at the correspondents, frames on the
    /// air. `acknowledged` is the radio's setting, and `user` its primary user in that run.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn of_ieee802154(
        writer: W,
        comment: &str,
        acknowledged: bool,
        user: Option<UserFrames>,
    ) -> Result<Self, CaptureError> {
        let mut writer = PcapngWriter::new(writer, comment, SNAP_LEN)?;
        let correspondent = writer.add_interface("correspondent", "the host on the wire")?;
        let interface = writer.add_ieee802154("air", "a monitor beside the radios")?;
        let air = Ieee802154 {
            interface,
            ack_request: acknowledged,
            last: Vec::new(),
            user,
            ack: Vec::new(),
            user_frame: Vec::new(),
        };
        Ok(Self { writer, correspondent, radio: Radio::Ieee802154(air), packets: 0, failed: None })
    }

    /// Starts a capture of a run whose cell has a DCF: packets at the correspondents, frames on the air.
    /// `phy` is the DCF's.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn of_dcf(writer: W, comment: &str, phy: Phy) -> Result<Self, CaptureError> {
        let host = ("correspondent", "the host on the wire");
        Self::of_ieee80211(writer, comment, host, Monitor::new(phy, Numbers::Cell))
    }

    /// Starts a capture of a run over a mesh: packets at the hosts that data goes to, frames on the air.
    /// `phy` is that of the mesh's DCF.
    ///
    /// # Errors
    /// [`CaptureError::Io`].
    pub fn of_mesh(writer: W, comment: &str, phy: Phy) -> Result<Self, CaptureError> {
        let host = ("receiver", "the hosts that data goes to");
        Self::of_ieee80211(writer, comment, host, Monitor::new(phy, Numbers::Mesh))
    }

    fn of_ieee80211(
        writer: W,
        comment: &str,
        (name, description): (&str, &str),
        monitor: Monitor,
    ) -> Result<Self, CaptureError> {
        let mut writer = PcapngWriter::new(writer, comment, monitor::SNAP_LEN)?;
        let correspondent = writer.add_interface(name, description)?;
        let interface = writer.add_ieee80211("air", "a monitor in reach of every radio")?;
        let radio = Radio::Ieee80211 { interface, monitor };
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

    fn on_packet(&mut self, now: Instant, seen_at: SeenAt, flow: &FlowKey, packet: &Packet) {
        self.follow_user(now);
        if self.failed.is_some() {
            return;
        }
        let interface = match (seen_at, &self.radio) {
            (SeenAt::Correspondent, _) => self.correspondent,
            (SeenAt::Station, Radio::Stations(interface)) => *interface,
            (SeenAt::Station, Radio::Ieee80211 { .. } | Radio::Ieee802154(_)) => return,
        };
        let written = match packet.kind {
            PacketKind::Segment | PacketKind::Report => {
                self.writer.segment(interface, now, &segment(flow, packet), None)
            }
            PacketKind::Datagram => self.writer.datagram(interface, now, &datagram(flow, packet), None),
        };
        self.note(written);
    }

    fn wants_transmissions(&self) -> bool {
        matches!(self.radio, Radio::Ieee80211 { .. } | Radio::Ieee802154(_))
    }

    fn on_transmission(&mut self, sent: &Sent, flow: Option<&FlowKey>) {
        self.follow_user(sent.at);
        if self.failed.is_some() {
            return;
        }
        let transmission = &sent.transmission;
        let (interface, bytes, cut) = match (&mut self.radio, transmission.mac) {
            (Radio::Ieee80211 { interface, monitor }, MacFrame::Dcf(dcf)) => {
                let DcfFrame { cut, .. } = dcf;
                (*interface, monitor.record(sent, &dcf, flow), cut)
            }
            (Radio::Ieee802154(air), MacFrame::Ieee802154 { sequence }) => {
                (air.interface, air.record(sent, sequence, flow), false)
            }
            (Radio::Stations(_) | Radio::Ieee80211 { .. } | Radio::Ieee802154(_), _) => return,
        };
        let comment = match (cut, transmission.received) {
            (true, _) => Some("cut off before its end"),
            (false, false) => Some("not received"),
            (false, true) => None,
        };
        let written = match bytes {
            Ok(bytes) => self.writer.packet(interface, sent.at, bytes, comment),
            Err(error) => Err(error.into()),
        };
        self.note(written);
    }

    // Each burst of the primary user is a silence, also one that the end of the run cuts. So none of its
    // frames is left once the last silence has been told.
    fn on_silence(&mut self, silence: &Silence) {
        self.follow_user(silence.end);
    }

    fn on_progress(&mut self, now: Instant) {
        self.follow_user(now);
    }
}

impl Ieee802154 {
    /// The bytes of a transmission.
    fn record(&mut self, sent: &Sent, sequence: u8, flow: Option<&FlowKey>) -> Result<&[u8], EmitError> {
        let Sent { transmission, packet, .. } = sent;
        if transmission.packet.is_none() {
            self.ack.clear();
            ack_frame(sequence, &mut self.ack);
            return Ok(&self.ack);
        }
        let sender = transmission.from.0 as usize;
        if self.last.len() <= sender {
            self.last.resize_with(sender + 1, Vec::new);
        }
        let Some(frame) = self.last.get_mut(sender) else { return Ok(&[]) };
        // A transmission without its packet repeats the frame that this radio sent last.
        if let (Some(packet), Some(flow), Some(to)) = (packet, flow, transmission.to) {
            frame.clear();
            let segment = segment(flow, packet);
            let data = DataFrame {
                from: transmission.from.0,
                to: to.0,
                sequence,
                ack_request: self.ack_request,
                sent_at: packet.sent_at,
                carried: match packet.kind {
                    PacketKind::Segment | PacketKind::Report => Carried::Segment(&segment),
                    PacketKind::Datagram => Carried::Datagram {
                        number: packet.segment.seq.0,
                        payload_len: packet.segment.payload_len,
                    },
                },
            };
            data_frame(&data, frame)?;
        }
        Ok(frame)
    }
}

impl<W: Write> Capture<W> {
    /// Writes the frames that the primary user has sent by `now`, before anything later is written.
    fn follow_user(&mut self, now: Instant) {
        let Radio::Ieee802154(Ieee802154 { interface, user: Some(user), user_frame, .. }) = &mut self.radio
        else {
            return;
        };
        while self.failed.is_none()
            && let Some(end) = user.next_by(now, user_frame)
        {
            let fcs = fcs(user_frame);
            user_frame.extend_from_slice(&fcs.to_le_bytes());
            match self.writer.packet(*interface, end, user_frame, Some("primary user")) {
                Ok(()) => self.packets += 1,
                Err(error) => self.failed = Some(error),
            }
        }
    }

    fn note(&mut self, written: Result<(), CaptureError>) {
        match written {
            Ok(()) => self.packets += 1,
            Err(error) => self.failed = Some(error),
        }
    }
}
