//! Packets whose answers will measure a part of the round trip.
//!
//! Beside the paper (`dsasync`). Records only: `round_trip/wired.rs` and `round_trip/radio.rs` say what is
//! measured with them, and how.

use crate::time::{Duration, Instant};
use crate::units::Seq;

/// Most bytes in the radio with which a segment is taken to find it empty: two full packets.
pub(super) const EMPTY_RADIO: u64 = 3000;

/// Bytes of a segment's headers without options (IPv4; those of IPv6 are longer by 20).
const HEADERS: u32 = 40;

/// A wired probe that found no answer by then makes room for another, and later answers do not count: longer
/// than any path that TCP is at home on (a geostationary satellite's takes 0.6 s).
pub(super) const PROBE_LIFE: Duration = Duration::from_secs(1);

/// An uplink packet whose answer from the correspondent will measure the wired round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct WiredProbe {
    pub at: Instant,
    pub answer: Answer,
    /// How far the sender may go by it.
    pub edge: Option<Seq>,
}

/// How the answer to a [`WiredProbe`] is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It echoes this timestamp.
    Timestamp(u32),
    /// It acknowledges everything before this number.
    Sequence(Seq),
}

/// A downlink segment whose acknowledgment will tell how long it was in the radio.
#[derive(Clone, Copy, Debug)]
pub(super) struct RadioProbe {
    /// The radio was empty: the time is the radio part of the base round trip.
    pub empty: bool,
    /// Length of the segment on the wire, bytes.
    len: u32,
    /// How many silences there had been when it left.
    pub silences: u64,
    /// When the segment came to the base station; [`Instant::FAR_FUTURE`] if a silence kept it here. Not an
    /// `Option`, because a flow's record has little room.
    arrived: Instant,
    pub first: Departure,
    /// The next segment of the flow.
    pub next: Option<Departure>,
}

/// A packet as it goes down.
#[derive(Clone, Copy, Debug)]
pub(super) struct SentDown {
    /// Its TSval.
    pub tick: Option<u32>,
    /// Sequence number just after it.
    pub end: Seq,
    /// Sequence space it takes.
    pub seq_len: u32,
    /// Length on the wire, bytes.
    pub len: u32,
    /// When it came to the base station; `None` if a silence kept it here.
    pub arrived: Option<Instant>,
}

/// A segment that went down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Departure {
    pub at: Instant,
    pub end: Seq,
    /// How long it was thought to wait in the transmit queue, ns; 4.29 s is the most. A flow's record has
    /// little room.
    ahead: u32,
}

impl Departure {
    pub fn new(at: Instant, end: Seq, ahead: Duration) -> Self {
        Self { at, end, ahead: u32::try_from(ahead.as_nanos()).unwrap_or(u32::MAX) }
    }

    /// How long it was thought to wait in the transmit queue.
    pub fn ahead(&self) -> Duration {
        Duration::from_nanos(u64::from(self.ahead))
    }
}

impl RadioProbe {
    /// A probe with the segment `sent`, which left as `first`.
    pub fn new(empty: bool, silences: u64, sent: &SentDown, first: Departure) -> Self {
        let arrived = sent.arrived.unwrap_or(Instant::FAR_FUTURE);
        Self { empty, len: sent.len, silences, arrived, first, next: None }
    }

    /// Bytes by which the segment is shorter than a full one: on a slow radio a SYN takes much less time.
    /// What is full is known once the station has answered the first SYN.
    pub fn shorter(&self, mss: u32) -> u32 {
        (mss + HEADERS).saturating_sub(self.len)
    }

    /// The same, but that the radio is not known to have been empty unless the segment left after `unseen`.
    pub fn seen_since(&self, unseen: Option<Instant>) -> Self {
        Self { empty: self.empty && unseen.is_none_or(|unseen| self.first.at > unseen), ..*self }
    }

    /// When it came to the base station; `None` if a silence kept it here.
    pub fn arrived(&self) -> Option<Instant> {
        Some(self.arrived).filter(|&arrived| arrived < Instant::FAR_FUTURE)
    }

    /// The segment that ends at `acked`, if it is one of the two. A station acknowledges every second segment
    /// (RFC 1122 section 4.2.3.2), so an ACK of any other segment was set off by something else, and late.
    pub fn answered(&self, acked: Seq) -> Option<Departure> {
        if acked == self.first.end { Some(self.first) } else { self.next.filter(|next| next.end == acked) }
    }
}
