//! Input log: everything a mechanism was told and what it answered, to be replayed bit for bit.
//!
//! A log taken on a router replays in a unit test: [`Recorder`] wraps any [`Mechanism`] and writes as it
//! goes; [`replay`] hands the inputs to a fresh mechanism and names the first record where its answers
//! differ.
//!
//! # Format, version 5
//! - 8 bytes magic `LNKHOLD\0`, then the version as u16, little endian.
//! - Frames, each: length of the payload as u32, CRC-32 (IEEE) of the payload as u32, both little endian;
//!   payload.
//! - The first frame is a [`LogHeader`], every further one a [`Record`], in postcard encoding.
//!
//! Postcard does not describe itself: any change of a type in [`Record`] must raise [`VERSION`]. A log that
//! breaks off inside a frame (power loss) is read up to that frame, and the reader says so. A reader never
//! takes more memory than the limit of a frame, whatever the length field claims.

use std::io::{self, Read};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::action::{Action, Actions, Report, Verdict};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{
    DatagramView, Direction, Ecn, FlowKey, Origin, PacketId, PacketView, StationId, TcpSegment,
};
use crate::time::Instant;

/// First bytes of a log.
pub const MAGIC: [u8; 8] = *b"LNKHOLD\0";
/// Version of the format, raised with every change of a recorded type.
pub const VERSION: u16 = 5;
/// Longest frame, bytes. A flush that releases 130,000 packets takes about 2 MB.
pub const MAX_FRAME: u32 = 4 << 20;

/// The first frame: which mechanism the log is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogHeader {
    /// [`Mechanism::name`].
    pub mechanism: String,
    /// The mechanism's settings in postcard encoding; see [`LogHeader::config`].
    pub config: Vec<u8>,
}

impl LogHeader {
    /// The settings, decoded as the type from which they were recorded.
    ///
    /// # Errors
    /// [`LogError::Malformed`] if they are of another type.
    pub fn config<T: DeserializeOwned>(&self) -> Result<T, LogError> {
        postcard::from_bytes(&self.config).map_err(|_| LogError::Malformed { frame: 0 })
    }
}

/// A [`PacketView`] that owns its header and addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedPacket {
    /// The driver's token.
    pub id: PacketId,
    /// Which way it crosses.
    pub direction: Direction,
    /// Where the driver took it from.
    pub origin: Origin,
    /// The station at the radio end.
    pub station: StationId,
    /// The packet's connection.
    pub flow: FlowKey,
    /// Its TCP header.
    pub tcp: TcpSegment,
    /// Length on the wire, bytes.
    pub len: u32,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}

impl OwnedPacket {
    /// The packet as a mechanism takes it.
    #[must_use]
    pub const fn view(&self) -> PacketView<'_> {
        PacketView {
            id: self.id,
            direction: self.direction,
            origin: self.origin,
            station: self.station,
            flow: &self.flow,
            tcp: &self.tcp,
            len: self.len,
            ecn: self.ecn,
        }
    }
}

impl From<&PacketView<'_>> for OwnedPacket {
    fn from(view: &PacketView<'_>) -> Self {
        Self {
            id: view.id,
            direction: view.direction,
            origin: view.origin,
            station: view.station,
            flow: *view.flow,
            tcp: *view.tcp,
            len: view.len,
            ecn: view.ecn,
        }
    }
}

/// A [`DatagramView`] that owns its addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnedDatagram {
    /// The driver's token.
    pub id: PacketId,
    /// Which way it crosses.
    pub direction: Direction,
    /// Where the driver took it from.
    pub origin: Origin,
    /// The station at the radio end.
    pub station: StationId,
    /// Its addresses and ports.
    pub flow: FlowKey,
    /// Length on the wire, bytes.
    pub len: u32,
    /// The IP header's ECN field.
    pub ecn: Ecn,
}

impl OwnedDatagram {
    /// The datagram as a mechanism takes it.
    #[must_use]
    pub const fn view(&self) -> DatagramView<'_> {
        let Self { id, direction, origin, station, ref flow, len, ecn } = *self;
        DatagramView { id, direction, origin, station, flow, len, ecn }
    }
}

impl From<&DatagramView<'_>> for OwnedDatagram {
    fn from(view: &DatagramView<'_>) -> Self {
        let DatagramView { id, direction, origin, station, flow, len, ecn } = *view;
        Self { id, direction, origin, station, flow: *flow, len, ecn }
    }
}

/// A call of a mechanism, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum OwnedInput {
    /// [`Mechanism::on_packet`].
    Packet(OwnedPacket),
    /// [`Mechanism::on_datagram`].
    Datagram(OwnedDatagram),
    /// [`Mechanism::on_link`].
    Link(LinkEvent),
    /// [`Mechanism::on_report`].
    Report(Report),
    /// [`Mechanism::on_timeout`].
    Timeout,
    /// [`Mechanism::flush`].
    Flush,
}

impl OwnedInput {
    /// Makes the call.
    pub fn apply(&self, now: Instant, mechanism: &mut dyn Mechanism, out: &mut Actions) -> Option<Verdict> {
        match self {
            Self::Packet(packet) => return Some(mechanism.on_packet(now, &packet.view(), out)),
            Self::Datagram(datagram) => return Some(mechanism.on_datagram(now, &datagram.view(), out)),
            Self::Link(event) => mechanism.on_link(now, *event, out),
            Self::Report(report) => {
                mechanism.on_report(now, report, out);
            }
            Self::Timeout => mechanism.on_timeout(now, out),
            Self::Flush => mechanism.flush(now, out),
        }
        None
    }
}

/// What a mechanism answered to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outputs {
    /// The verdict, exactly for a packet or a datagram.
    pub verdict: Option<Verdict>,
    /// [`Mechanism::next_timeout`] after the call.
    pub next_timeout: Option<Instant>,
    /// [`Mechanism::is_holding`] after the call.
    pub is_holding: bool,
    /// The actions, in order.
    pub actions: Vec<Action>,
}

/// One call and its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Time of the call.
    pub now: Instant,
    /// The call.
    pub input: OwnedInput,
    /// The answer.
    pub outputs: Outputs,
}

/// A [`Record`] that borrows its actions: the encoding is the same.
#[derive(Serialize)]
struct RecordRef<'a> {
    now: Instant,
    input: OwnedInput,
    verdict: Option<Verdict>,
    next_timeout: Option<Instant>,
    is_holding: bool,
    actions: &'a [Action],
}

/// Why a log cannot be read or written further.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The input does not begin as a log does.
    #[error("not a linkhold input log")]
    NotALog,
    /// The log is of another version.
    #[error("input log of version {0}; this program reads version {VERSION}")]
    Version(u16),
    /// A frame claims a length above [`MAX_FRAME`].
    #[error("frame {frame} claims {len} bytes; at most {MAX_FRAME} are allowed")]
    Length {
        /// Number of the frame; the header is 0.
        frame: u64,
        /// The claimed length, bytes.
        len: u64,
    },
    /// A frame is complete, but its checksum does not match.
    #[error("frame {frame} is damaged: its checksum does not match")]
    Checksum {
        /// Number of the frame; the header is 0.
        frame: u64,
    },
    /// A frame's checksum matches, but its payload is no record.
    #[error("frame {frame} cannot be decoded")]
    Malformed {
        /// Number of the frame; the header is 0.
        frame: u64,
    },
    /// A record is earlier than the one before it.
    #[error("frame {frame} goes back in time")]
    BackInTime {
        /// Number of the frame.
        frame: u64,
    },
}

/// Wraps a mechanism and writes every call and answer to `writer` (buffer the writer: there are several small
/// writes a call). The mechanism goes on when writing fails; [`error`](Self::error) and
/// [`finish`](Self::finish) tell of it.
#[derive(Debug)]
pub struct Recorder<M, W> {
    mechanism: M,
    writer: W,
    scratch: Vec<u8>,
    frames: u64,
    error: Option<LogError>,
}

impl<M: Mechanism, W: io::Write> Recorder<M, W> {
    /// Starts a log of `mechanism`, which was made from `config` and has not been called yet.
    ///
    /// # Errors
    /// What writing the header gives.
    pub fn new(mechanism: M, config: &impl Serialize, mut writer: W) -> Result<Self, LogError> {
        writer.write_all(&MAGIC)?;
        writer.write_all(&VERSION.to_le_bytes())?;
        let config = postcard::to_allocvec(config).map_err(|_| LogError::Malformed { frame: 0 })?;
        let header = LogHeader { mechanism: mechanism.name().to_owned(), config };
        let mut recorder = Self { mechanism, writer, scratch: Vec::new(), frames: 0, error: None };
        recorder.write_frame(&header)?;
        Ok(recorder)
    }

    fn write_frame(&mut self, value: &impl Serialize) -> Result<(), LogError> {
        let frame = self.frames;
        let mut scratch = core::mem::take(&mut self.scratch);
        scratch.clear();
        let payload = postcard::to_extend(value, scratch).map_err(|_| LogError::Malformed { frame })?;
        let len = payload.len();
        let prefix = u32::try_from(len).ok().filter(|len| *len <= MAX_FRAME);
        let prefix = prefix.ok_or(LogError::Length { frame, len: len as u64 })?;
        self.writer.write_all(&prefix.to_le_bytes())?;
        self.writer.write_all(&crc32fast::hash(&payload).to_le_bytes())?;
        self.writer.write_all(&payload)?;
        self.scratch = payload;
        self.frames += 1;
        Ok(())
    }

    fn record(&mut self, now: Instant, input: OwnedInput, verdict: Option<Verdict>, actions: &[Action]) {
        // After one failure the log has a gap; what came after it could not be replayed.
        if self.error.is_some() {
            return;
        }
        let record = RecordRef {
            now,
            input,
            verdict,
            next_timeout: self.mechanism.next_timeout(),
            is_holding: self.mechanism.is_holding(),
            actions,
        };
        self.error = self.write_frame(&record).err();
    }

    /// Calls recorded so far.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.frames.saturating_sub(1)
    }

    /// Why recording stopped, if it did.
    #[must_use]
    pub const fn error(&self) -> Option<&LogError> {
        self.error.as_ref()
    }

    /// Ends the log and gives everything back.
    ///
    /// # Errors
    /// What stopped the recording, or what flushing the writer gives.
    pub fn finish(mut self) -> Result<(M, W), LogError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.writer.flush()?;
        Ok((self.mechanism, self.writer))
    }
}

impl<M: Mechanism, W: io::Write + Send> Mechanism for Recorder<M, W> {
    fn name(&self) -> &'static str {
        self.mechanism.name()
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let before = out.as_slice().len();
        let verdict = self.mechanism.on_packet(now, packet, out);
        self.record(now, OwnedInput::Packet(packet.into()), Some(verdict), new_actions(out, before));
        verdict
    }

    fn on_datagram(&mut self, now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        let before = out.as_slice().len();
        let verdict = self.mechanism.on_datagram(now, datagram, out);
        self.record(now, OwnedInput::Datagram(datagram.into()), Some(verdict), new_actions(out, before));
        verdict
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        let before = out.as_slice().len();
        self.mechanism.on_link(now, event, out);
        self.record(now, OwnedInput::Link(event), None, new_actions(out, before));
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        self.mechanism.listens_to(kind)
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        let before = out.as_slice().len();
        self.mechanism.on_timeout(now, out);
        self.record(now, OwnedInput::Timeout, None, new_actions(out, before));
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        let before = out.as_slice().len();
        let taken = self.mechanism.on_report(now, report, out);
        self.record(now, OwnedInput::Report(*report), None, new_actions(out, before));
        taken
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.mechanism.next_timeout()
    }

    fn is_holding(&self) -> bool {
        self.mechanism.is_holding()
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        let before = out.as_slice().len();
        self.mechanism.flush(now, out);
        self.record(now, OwnedInput::Flush, None, new_actions(out, before));
    }

    fn metrics(&self) -> Metrics {
        self.mechanism.metrics()
    }

    fn members(&self) -> Vec<(&'static str, Metrics)> {
        self.mechanism.members()
    }
}

fn new_actions(out: &Actions, before: usize) -> &[Action] {
    out.as_slice().get(before..).unwrap_or(&[])
}

/// Reads a log, frame by frame.
#[derive(Debug)]
pub struct LogReader<R> {
    reader: R,
    header: LogHeader,
    payload: Vec<u8>,
    frames: u64,
    latest: Instant,
    truncated: bool,
}

impl<R: Read> LogReader<R> {
    /// Reads the header. Give it a buffered reader.
    ///
    /// # Errors
    /// [`LogError`]; a header cut short is [`LogError::NotALog`].
    pub fn new(mut reader: R) -> Result<Self, LogError> {
        let mut start = [0; MAGIC.len() + 2];
        if read_up_to(&mut reader, &mut start)? < start.len() || start[..MAGIC.len()] != MAGIC {
            return Err(LogError::NotALog);
        }
        let version = u16::from_le_bytes([start[MAGIC.len()], start[MAGIC.len() + 1]]);
        if version != VERSION {
            return Err(LogError::Version(version));
        }
        let header = LogHeader { mechanism: String::new(), config: Vec::new() };
        let mut log =
            Self { reader, header, payload: Vec::new(), frames: 0, latest: Instant::ZERO, truncated: false };
        log.header = log.next_frame()?.ok_or(LogError::NotALog)?;
        Ok(log)
    }

    /// What the log is of.
    #[must_use]
    pub const fn header(&self) -> &LogHeader {
        &self.header
    }

    /// The next record; `None` at the end, also if the log breaks off inside a frame.
    ///
    /// # Errors
    /// [`LogError`]; do not read on after one.
    pub fn next_record(&mut self) -> Result<Option<Record>, LogError> {
        let frame = self.frames;
        let record: Option<Record> = self.next_frame()?;
        if let Some(record) = &record {
            if record.now < self.latest {
                return Err(LogError::BackInTime { frame });
            }
            self.latest = record.now;
        }
        Ok(record)
    }

    /// True if the end that was reached lies inside a frame.
    #[must_use]
    pub const fn is_truncated(&self) -> bool {
        self.truncated
    }

    fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LogError> {
        let frame = self.frames;
        let mut prefix = [0; 8];
        let got = read_up_to(&mut self.reader, &mut prefix)?;
        if got < prefix.len() {
            self.truncated = got > 0;
            return Ok(None);
        }
        let [l0, l1, l2, l3, c0, c1, c2, c3] = prefix;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        if len > MAX_FRAME {
            return Err(LogError::Length { frame, len: u64::from(len) });
        }
        self.payload.clear();
        // The buffer grows with what is really there, not with what the length field promises.
        let got = (&mut self.reader).take(u64::from(len)).read_to_end(&mut self.payload)?;
        if got < len as usize {
            self.truncated = true;
            return Ok(None);
        }
        if crc32fast::hash(&self.payload) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(LogError::Checksum { frame });
        }
        match postcard::take_from_bytes(&self.payload) {
            Ok((value, [])) => {
                self.frames += 1;
                Ok(Some(value))
            }
            Ok(_) | Err(_) => Err(LogError::Malformed { frame }),
        }
    }
}

/// Fills `buffer` as far as the input reaches, and answers how far that is.
fn read_up_to(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match reader.read(rest) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// The first record to which the replayed mechanism answered differently.
#[derive(Clone, Debug, PartialEq)]
pub struct Divergence {
    /// Number of the record, from 0.
    pub record: u64,
    /// The call and the recorded answer.
    pub recorded: Record,
    /// The answer in the replay.
    pub replayed: Outputs,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// Records replayed, the diverging one included.
    pub records: u64,
    /// True if the log breaks off inside a record.
    pub truncated: bool,
    /// The first difference; the replay stops there.
    pub divergence: Option<Divergence>,
}

impl ReplayReport {
    /// True if every answer was the recorded one.
    #[must_use]
    pub const fn is_identical(&self) -> bool {
        self.divergence.is_none()
    }
}

/// Why a log cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log is of another mechanism.
    #[error("the log is of mechanism `{recorded}`, not `{given}`")]
    Mechanism {
        /// The mechanism in the log.
        recorded: String,
        /// The mechanism handed in.
        given: &'static str,
    },
}

/// Hands the recorded calls to a fresh `mechanism`, made from the recorded settings, and compares its
/// answers.
///
/// # Errors
/// [`ReplayError`]. A difference is no error: it is in the report.
pub fn replay(reader: impl Read, mechanism: &mut dyn Mechanism) -> Result<ReplayReport, ReplayError> {
    replay_log(&mut LogReader::new(reader)?, mechanism)
}

/// As [`replay`], for a log whose header has been read already (to make the mechanism from the recorded
/// settings).
///
/// # Errors
/// [`ReplayError`].
pub fn replay_log<R: Read>(
    log: &mut LogReader<R>,
    mechanism: &mut dyn Mechanism,
) -> Result<ReplayReport, ReplayError> {
    if log.header().mechanism != mechanism.name() {
        let recorded = log.header().mechanism.clone();
        return Err(ReplayError::Mechanism { recorded, given: mechanism.name() });
    }
    let mut out = Actions::new();
    let mut records = 0;
    while let Some(recorded) = log.next_record()? {
        records += 1;
        let verdict = recorded.input.apply(recorded.now, mechanism, &mut out);
        let replayed = Outputs {
            verdict,
            next_timeout: mechanism.next_timeout(),
            is_holding: mechanism.is_holding(),
            actions: out.drain().collect(),
        };
        if replayed != recorded.outputs {
            let divergence = Some(Divergence { record: records - 1, recorded, replayed });
            return Ok(ReplayReport { records, truncated: false, divergence });
        }
    }
    Ok(ReplayReport { records, truncated: log.is_truncated(), divergence: None })
}

#[cfg(test)]
mod tests;
