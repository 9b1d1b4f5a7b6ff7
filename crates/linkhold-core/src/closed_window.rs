//! How far a window reaches, the window that lets a sender send nothing new, and what it takes to know them.
//!
//! Source: RFC 7323 section 2 (window scale). A closed window is zero, or full: one that ends with what was
//! sent. A sender stops behind either, but Linux takes a zero window for more: where a retransmission is due,
//! it does not count the timeout, enters the loss state and reduces ssthresh once more, as often as the timer
//! expires (`tcp_retransmit_timer`).

use crate::packet::MAX_WINDOW_SHIFT;
use crate::units::Seq;

/// What the SYNs of a connection said of window scaling (RFC 7323 section 2): the option of each, once the
/// SYN was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scale {
    /// Of the host, whose sending is stopped.
    pub local: Option<Option<u8>>,
    /// Of the far end, whose windows stop it.
    pub remote: Option<Option<u8>>,
}

/// How far a window may reach. The field is rounded down to units of its scale (RFC 7323 section 2.3), so
/// what its receiver takes, and acknowledges, may go on for the rest of a unit. Where the scale is not known
/// it may be the largest.
pub(crate) fn right_edge(ack: Seq, window: u16, shift: Option<u8>) -> Seq {
    ack + (((u32::from(window) + 1) << shift.unwrap_or(MAX_WINDOW_SHIFT)) - 1)
}

impl Scale {
    /// The shift of the windows that the far end tells; `None` if a SYN was not seen.
    #[must_use]
    pub fn shift(self) -> Option<u32> {
        self.both().map(|(_, remote)| u32::from(remote))
    }

    /// The shift of the windows that the host tells; `None` if a SYN was not seen.
    #[must_use]
    pub(crate) fn local_shift(self) -> Option<u8> {
        self.both().map(|(local, _)| local)
    }

    /// Both shifts, the host's first: zero unless both ends asked for one.
    fn both(self) -> Option<(u8, u8)> {
        match (self.local?, self.remote?) {
            (Some(local), Some(remote)) => Some((local.min(MAX_WINDOW_SHIFT), remote.min(MAX_WINDOW_SHIFT))),
            (None, _) | (_, None) => Some((0, 0)),
        }
    }

    /// Window field that lets nothing new out, on a segment that acknowledges `acked`: its right edge is
    /// `sent`, or less than one scale step below; never above `offered`. Zero where nothing is under way, and
    /// where `sent` or the shift is not known.
    #[must_use]
    pub fn full(self, sent: Option<Seq>, acked: Seq, offered: u16) -> u16 {
        let (Some(sent), Some(shift)) = (sent, self.shift()) else { return 0 };
        let under_way = u32::try_from(sent.minus(acked)).unwrap_or(0);
        u16::try_from(under_way >> shift).unwrap_or(u16::MAX).min(offered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALED: Scale = Scale { local: Some(Some(2)), remote: Some(Some(7)) };

    #[test]
    fn a_full_window_ends_with_what_was_sent() {
        let table = [
            // sent, acked, offered, window
            (Some(Seq(10_000)), Seq(10_000), 500, 0),
            (Some(Seq(22_800)), Seq(10_000), 500, 100),
            // A step of the scale is 128 bytes; the window never ends behind what was sent.
            (Some(Seq(22_927)), Seq(10_000), 500, 100),
            (Some(Seq(22_928)), Seq(10_000), 500, 101),
            // Never more than the far end offers.
            (Some(Seq(22_800)), Seq(10_000), 90, 90),
            // Numbers wrap, and an ACK may be ahead of what was seen sent.
            (Some(Seq(256)), Seq(u32::MAX - 255), 500, 4),
            (Some(Seq(9_000)), Seq(10_000), 500, 0),
            (None, Seq(10_000), 500, 0),
        ];
        for (sent, acked, offered, window) in table {
            assert_eq!(SCALED.full(sent, acked, offered), window, "{sent:?} {acked:?} {offered}");
        }
    }

    #[test]
    fn windows_are_scaled_only_if_both_ends_said_so() {
        let shift = |local, remote| Scale { local, remote }.shift();
        assert_eq!(shift(Some(Some(0)), Some(Some(15))), Some(14));
        assert_eq!(shift(Some(None), Some(Some(7))), Some(0));
        assert_eq!(shift(Some(Some(7)), Some(None)), Some(0));
        assert_eq!(shift(None, Some(Some(7))), None);
        assert_eq!(shift(Some(Some(7)), None), None);
        let half_seen = Scale { local: None, remote: Some(Some(7)) };
        assert_eq!(half_seen.full(Some(Seq(9_000)), Seq(0), 500), 0, "its step is not known");
    }
}
