//! How a connection ends: both ends close it and every FIN is acknowledged, or one end resets it.
//!
//! Source: RFC 9293 section 3.6. A late copy of a FIN, or of its acknowledgment, changes nothing: only a SYN
//! begins another connection on the same ports, and whoever keeps an [`Ending`] starts a new one then.

use crate::packet::{TcpFlags, TcpSegment};
use crate::units::Seq;

/// How far the end of a connection has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Neither end has closed or reset the connection.
    #[default]
    None,
    /// At least one end closed: the sequence number after the correspondent's (`down`) and the station's FIN.
    Fins { down: Option<Seq>, up: Option<Seq> },
    /// One end reset the connection.
    Reset,
}

impl Ending {
    /// Takes in what a segment says of the end.
    pub fn note(&mut self, tcp: &TcpSegment, downlink: bool) {
        if tcp.flags.contains(TcpFlags::RST) {
            *self = Self::Reset;
        }
        if !tcp.flags.contains(TcpFlags::FIN) {
            return;
        }
        let (mut down, mut up) = match *self {
            Self::None => (None, None),
            Self::Fins { down, up } => (down, up),
            Self::Reset => return,
        };
        *(if downlink { &mut down } else { &mut up }) = Some(tcp.seq_end());
        *self = Self::Fins { down, up };
    }

    /// True if both ends closed and every FIN is acknowledged, or one end reset the connection. `station` and
    /// `correspondent`: the latest sequence number that each of them acknowledged.
    #[inline]
    pub fn is_over(self, station: Option<Seq>, correspondent: Option<Seq>) -> bool {
        match self {
            Self::None => false,
            Self::Reset => true,
            Self::Fins { down, up } => is_acknowledged(down, station) && is_acknowledged(up, correspondent),
        }
    }

    /// True if the station has sent all, and all has arrived; or one end reset the connection.
    pub fn uplink_is_over(self, correspondent: Option<Seq>) -> bool {
        match self {
            Self::None => false,
            Self::Reset => true,
            Self::Fins { down: _, up } => is_acknowledged(up, correspondent),
        }
    }
}

fn is_acknowledged(fin: Option<Seq>, acked: Option<Seq>) -> bool {
    fin.zip(acked).is_some_and(|(fin, acked)| !acked.before(fin))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_over_when_both_fins_are_acknowledged_or_one_end_resets_it() {
        let segment = |flags, seq| TcpSegment { flags, seq: Seq(seq), ..TcpSegment::default() };
        let fin = |seq| segment(TcpFlags::FIN | TcpFlags::ACK, seq);
        let mut ending = Ending::default();
        let (station, correspondent) = (Some(Seq(501)), Some(Seq(1001)));
        assert!(!ending.is_over(station, correspondent));
        ending.note(&fin(1000), false);
        assert!(ending.uplink_is_over(correspondent) && !ending.uplink_is_over(Some(Seq(1000))));
        assert!(!ending.is_over(station, correspondent), "the correspondent may go on sending");
        ending.note(&fin(500), true);
        assert!(ending.is_over(station, correspondent));
        for (station, correspondent) in [(Some(Seq(500)), correspondent), (station, None)] {
            assert!(!ending.is_over(station, correspondent), "{station:?} {correspondent:?}");
        }
        // Copies that come late.
        ending.note(&fin(1000), false);
        ending.note(&segment(TcpFlags::ACK, 501), true);
        assert!(ending.is_over(station, correspondent));
        let mut reset = Ending::default();
        reset.note(&segment(TcpFlags::RST, 500), true);
        reset.note(&fin(1000), false);
        assert!(reset.is_over(None, None) && reset.uplink_is_over(None));
    }
}
