//! What a connection's two SYNs agree on: window scale, SACK, ECN and segment size.
//!
//! RFC 7323 section 2 (window scale), RFC 2018 section 2 (SACK-permitted), RFC 3168 section 6.1.1 (ECN).
//!
//! A SYN or SYN-ACK that contradicts what was seen is not believed: who does not see a connection can still
//! send one that looks like it. A SYN on a connection under way, or beside another SYN, begins a new one only
//! when the other end answers it with the right number; a SYN-ACK counts only as an answer to a SYN that was
//! seen, and a reset before it only if it has that SYN's number.
//!
//! Window scale: unknown → offered or asked (one SYN seen) → known (both seen, or the SYN-ACK tells enough).

use crate::packet::{MAX_WINDOW_SHIFT, TcpFlags, TcpSegment};
use crate::units::Seq;

/// Window scale of the station's windows (RFC 7323 section 2.2: valid only if both SYNs carry the option).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scale {
    /// The handshake was not seen.
    #[default]
    Unknown,
    /// The station's SYN offered this; the other SYN decides.
    Offered(Option<u8>),
    /// The correspondent's SYN was seen; true if it carries the option.
    Asked(bool),
    /// The handshake has settled on this shift.
    Known(u8),
}

impl Scale {
    /// The state after a SYN, or the SYN-ACK if `is_answer`, with the option `offer`. `other`: it came from
    /// the other end, not from the one whose windows these are.
    fn after(self, offer: Option<u8>, other: bool, is_answer: bool) -> Self {
        // A SYN-ACK carries the option only if the SYN did, so it decides even where the SYN went unseen.
        match (self, other, is_answer) {
            (Self::Offered(Some(shift)), true, true) if offer.is_some() => Self::Known(shift),
            (Self::Offered(_), true, true) => Self::Known(0),
            (_, false, true) => Self::Known(offer.unwrap_or(0)),
            (Self::Known(shift), _, _) => Self::Known(shift),
            (Self::Asked(true), false, false) => Self::Known(offer.unwrap_or(0)),
            (Self::Asked(false), false, false) => Self::Known(0),
            (Self::Offered(Some(shift)), true, false) if offer.is_some() => Self::Known(shift),
            (Self::Offered(_), true, false) => Self::Known(0),
            (_, true, false) => Self::Asked(offer.is_some()),
            (_, false, false) => Self::Offered(offer),
            (_, true, true) if offer.is_none() => Self::Known(0),
            (_, true, true) => Self::Unknown,
        }
    }

    /// The field and shift of an ACK that repeats this segment's window: a SYN's window is not scaled, an
    /// ACK's is (RFC 7323 section 2.2), so that a SYN's field in an ACK would be a larger window than was
    /// offered.
    fn offer_of(self, tcp: &TcpSegment) -> (u16, Option<u8>) {
        match self {
            Self::Known(shift) if tcp.flags.contains(TcpFlags::SYN) => (tcp.window >> shift, Some(shift)),
            Self::Known(_) | Self::Unknown | Self::Offered(_) | Self::Asked(_) => {
                (tcp.window, self.shift_of(tcp))
            }
        }
    }

    /// Shift of a segment's window field: none in a SYN, unknown if the handshake went unseen.
    fn shift_of(self, tcp: &TcpSegment) -> Option<u8> {
        if tcp.flags.contains(TcpFlags::SYN) {
            return Some(0);
        }
        match self {
            Self::Known(shift) => Some(shift),
            Self::Unknown | Self::Offered(_) | Self::Asked(_) => None,
        }
    }
}

/// ECN on this connection, and whether its sender is to be told of congestion.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EcnEcho {
    /// The two ends did not agree on ECN, as far as we saw.
    #[default]
    Unsupported,
    /// The two ends agreed on ECN, and nothing is to be told.
    Idle,
    /// ACKs carry ECN-echo until the sender answers that it has reduced its window.
    Due,
}

/// What is known from the SYNs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handshake {
    /// Scale of the station's windows.
    pub scale: Scale,
    /// Scale of the correspondent's windows.
    down_scale: Scale,
    /// Which ends' SYNs permit SACK: bit 0 the correspondent's, bit 1 the station's.
    sack_offers: u8,
    pub ecn: EcnEcho,
    /// Segment size that both ends' SYNs allow, or else that of the first data seen; 0 before either. Each
    /// end's says what its own link carries, and a station on jumbo frames is sent no more than the wire
    /// does.
    pub mss: u32,
}

impl Handshake {
    /// True if both ends offered SACK.
    pub fn sack(&self) -> bool {
        self.sack_offers == 3
    }

    /// Takes in a SYN or SYN-ACK.
    pub fn learn(&mut self, tcp: &TcpSegment, downlink: bool) {
        let is_answer = tcp.flags.contains(TcpFlags::ACK);
        let offer = tcp.syn.window_scale.map(|shift| shift.min(MAX_WINDOW_SHIFT));
        self.scale = self.scale.after(offer, downlink, is_answer);
        self.down_scale = self.down_scale.after(offer, !downlink, is_answer);
        if tcp.syn.sack_permitted {
            self.sack_offers |= if downlink { 1 } else { 2 };
        }
        // The answer alone decides on ECN: it agrees only to a SYN that asked.
        let agrees = tcp.flags.contains(TcpFlags::ECE) && !tcp.flags.contains(TcpFlags::CWR);
        if is_answer && agrees && self.ecn == EcnEcho::Unsupported {
            self.ecn = EcnEcho::Idle;
        }
        if let Some(mss) = tcp.syn.mss.map(u32::from).filter(|&mss| mss > 0) {
            self.mss = if self.mss == 0 { mss } else { mss.min(self.mss) };
        }
    }

    /// True if data up to `end` leaves no more than two segments of a window that ends at `edge`: its sender
    /// has used the window up.
    pub fn ends_at(&self, end: Seq, edge: Seq) -> bool {
        let segments = i32::try_from(2 * self.mss.clamp(536, 9000)).unwrap_or(i32::MAX);
        edge.minus(end) <= segments
    }

    /// Shift of an uplink segment's window field: none in a SYN, unknown if the handshake went unseen.
    pub fn shift_of(&self, tcp: &TcpSegment) -> Option<u8> {
        self.scale.shift_of(tcp)
    }

    /// What an uplink segment offers, as the field and shift of an ACK that repeats it.
    pub fn offer_of(&self, tcp: &TcpSegment) -> (u16, Option<u8>) {
        self.scale.offer_of(tcp)
    }

    /// What a segment from the correspondent offers, in the same form.
    pub fn correspondents_offer_of(&self, tcp: &TcpSegment) -> (u16, Option<u8>) {
        self.down_scale.offer_of(tcp)
    }
}
