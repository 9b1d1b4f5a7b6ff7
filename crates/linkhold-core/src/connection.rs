//! A connection, as the host at its one end sees it pass.
//!
//! What is kept is what a mechanism needs that commands the host's sender by what the far end says to it: the
//! far end's last ACK number, window and timestamp, to repeat them; how far both ends are; the scale of
//! windows; and whether anybody is left to be told.
//!
//! A connection: opening (a SYN) → under way → over. A SYN begins it anew on the same ports: at once if
//! nothing is under way, otherwise once the other end has answered it with a SYN-ACK. A SYN that nobody
//! answers, be it late or forged, so changes nothing of a connection that goes on.
//!
//! Sources: RFC 9293 sections 3.5 (handshake), 3.6 (end) and 3.10.7.4 (which windows count), RFC 7323 section
//! 2 (window scale).

use crate::action::AckSpec;
use crate::closed_window::Scale;
use crate::ending::Ending;
use crate::opening::Syn;
use crate::packet::{Direction, FlowKey, MAX_WINDOW_SHIFT, TcpFlags, TcpSegment, TcpTimestamp};
use crate::units::Seq;

/// What a segment is to the connection on its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segment {
    /// It is not believed, and nothing was learned from it but that somebody asks for a new connection.
    Doubted,
    /// It is one of the connection's.
    Known,
    /// It begins another connection: what was known was of the old one.
    Begins,
}

/// A connection. The uplink is what the host sends, the downlink what the far end sends to it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connection {
    /// A SYN that no SYN-ACK has answered.
    opening: Option<Syn>,
    /// A segment without SYN passed.
    under_way: bool,
    scale: Scale,
    /// End of the highest segment that the host sent.
    sent: Option<Seq>,
    /// End of the highest segment that the far end sent.
    heard: Option<Seq>,
    /// The host's latest ACK number.
    host_acked: Option<Seq>,
    /// The far end's highest ACK number, with the window field and the timestamp that came with it.
    acked: Option<Seq>,
    offer: u16,
    timestamp: Option<TcpTimestamp>,
    /// A segment was signed ([`TcpSegment::signed`]).
    signed: bool,
    ending: Ending,
}

impl Connection {
    /// Takes in a segment that passes.
    pub fn pass(&mut self, direction: Direction, tcp: &TcpSegment) -> Segment {
        self.signed |= tcp.signed;
        let mut segment = Segment::Known;
        if tcp.flags.contains(TcpFlags::SYN) {
            segment = self.on_syn(direction, tcp);
            if segment == Segment::Doubted {
                return segment;
            }
            self.signed |= tcp.signed;
        }
        self.ending.note(tcp, direction == Direction::Downlink);
        if tcp.flags.contains(TcpFlags::RST) {
            return segment;
        }
        self.under_way |= !tcp.flags.contains(TcpFlags::SYN);
        match direction {
            Direction::Uplink => {
                self.sent = later(self.sent, tcp.seq_end());
                if tcp.flags.contains(TcpFlags::ACK) {
                    self.host_acked = later(self.host_acked, tcp.ack);
                }
            }
            Direction::Downlink => self.hear(tcp),
        }
        segment
    }

    fn on_syn(&mut self, direction: Direction, tcp: &TcpSegment) -> Segment {
        let goes_on = self.under_way && !self.is_over();
        let downlink = direction == Direction::Downlink;
        let segment = if tcp.flags.contains(TcpFlags::ACK) {
            let answered = self.opening.filter(|opening| opening.is_answered_by(tcp, downlink));
            self.opening = self.opening.filter(|_| answered.is_none());
            match answered {
                Some(opening) if self.under_way => {
                    self.begin(&opening);
                    Segment::Begins
                }
                None if goes_on => return Segment::Doubted,
                Some(_) | None => Segment::Known,
            }
        } else {
            let opening = Syn::new(tcp, downlink);
            if goes_on {
                self.opening = Some(opening);
                return Segment::Doubted;
            }
            self.begin(&opening);
            self.opening = Some(opening);
            Segment::Begins
        };
        self.learn_scale(direction, tcp.syn.window_scale);
        segment
    }

    /// Forgets the connection that was on these ports.
    fn begin(&mut self, opening: &Syn) {
        *self = Self::default();
        let (direction, end) = if opening.downlink {
            (Direction::Downlink, &mut self.heard)
        } else {
            (Direction::Uplink, &mut self.sent)
        };
        *end = Some(opening.end);
        self.learn_scale(direction, opening.options.window_scale);
    }

    fn learn_scale(&mut self, direction: Direction, scale: Option<u8>) {
        match direction {
            Direction::Uplink => self.scale.local = Some(scale),
            Direction::Downlink => self.scale.remote = Some(scale),
        }
    }

    /// Keeps the newest of what the far end says, since segments may overtake each other.
    fn hear(&mut self, tcp: &TcpSegment) {
        let end = tcp.seq_end();
        // RFC 9293 section 3.10.7.4, but for an ACK beyond what the host has sent: that is none of this
        // connection's.
        let is_new = self.acked.is_none_or(|acked| {
            tcp.ack.after(acked) || (tcp.ack == acked && self.heard.is_none_or(|heard| !end.before(heard)))
        });
        let is_possible = self.sent.is_none_or(|sent| !tcp.ack.after(sent));
        self.heard = later(self.heard, end);
        if !tcp.flags.contains(TcpFlags::ACK) || !is_new || !is_possible {
            return;
        }
        // The window of a SYN is not scaled; an ACK that repeats it scales it (RFC 7323 section 2.2). One of
        // less than a step cannot be repeated.
        let is_syn = tcp.flags.contains(TcpFlags::SYN);
        let shift = if is_syn { tcp.syn.window_scale.unwrap_or(0).min(MAX_WINDOW_SHIFT) } else { 0 };
        if is_syn && tcp.window >> shift == 0 {
            return;
        }
        (self.acked, self.offer, self.timestamp) = (Some(tcp.ack), tcp.window >> shift, tcp.timestamp);
    }

    /// True if both ends closed the connection and every FIN is acknowledged, or one end reset it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.ending.is_over(self.host_acked, self.acked)
    }

    /// True if the host's sender listens to what the far end says of its window: not after the far end has
    /// all that the host will ever send, and not to what is made up on a signed connection.
    #[must_use]
    pub fn can_be_told(&self) -> bool {
        !self.signed && !self.ending.uplink_is_over(self.acked)
    }

    /// The far end's last ACK, with the window that came with it. `None` if none has passed, or if nobody
    /// [can be told](Self::can_be_told).
    #[must_use]
    pub fn last_ack(&self, flow: FlowKey) -> Option<AckSpec> {
        let (seq, ack) = (self.heard?, self.acked?);
        self.can_be_told().then_some(AckSpec {
            flow,
            direction: Direction::Downlink,
            seq,
            ack,
            window: self.offer,
            // The same value again passes the receiver's check for old segments (RFC 7323 section 5.3).
            timestamp: self.timestamp,
            ece: false,
        })
    }

    /// The window field that lets the host send nothing new, on a segment of the far end that acknowledges
    /// `acked` and offers so much ([`Scale::full`]).
    #[must_use]
    pub fn full(&self, acked: Seq, offered: u16) -> u16 {
        self.scale.full(self.sent, acked, offered)
    }

    /// End of the highest segment that the host sent.
    #[must_use]
    pub fn sent(&self) -> Option<Seq> {
        self.sent
    }
}

fn later(known: Option<Seq>, seq: Seq) -> Option<Seq> {
    Some(known.map_or(seq, |known| known.max(seq)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Endpoint, SynOptions};
    use Direction::{Downlink, Uplink};

    const ACK: TcpFlags = TcpFlags::ACK;
    const SYN: TcpFlags = TcpFlags::SYN;
    const FIN: TcpFlags = TcpFlags::FIN;

    fn segment(flags: TcpFlags, seq: u32, ack: u32) -> TcpSegment {
        let syn = if flags.contains(SYN) {
            SynOptions { window_scale: Some(7), ..SynOptions::default() }
        } else {
            SynOptions::default()
        };
        TcpSegment { flags, seq: Seq(seq), ack: Seq(ack), window: 512, syn, ..TcpSegment::default() }
    }

    /// The far end's last ACK as (seq, ack, window).
    fn told(connection: &Connection) -> Option<(u32, u32, u16)> {
        let end = Endpoint { addr: [192, 0, 2, 1].into(), port: 80 };
        let ack = connection.last_ack(FlowKey { correspondent: end, station: end })?;
        Some((ack.seq.0, ack.ack.0, ack.window))
    }

    /// A connection on which the host has sent from 1000 to 1100, and the far end from 500 to 600.
    fn under_way() -> Connection {
        let mut connection = Connection::default();
        let data = |seq, ack| TcpSegment { payload_len: 99, ..segment(ACK, seq, ack) };
        assert_eq!(connection.pass(Uplink, &segment(SYN, 1000, 0)), Segment::Begins);
        assert_eq!(connection.pass(Downlink, &segment(SYN | ACK, 500, 1001)), Segment::Known);
        assert_eq!(told(&connection), Some((501, 1001, 4)), "a SYN's window, scaled");
        assert_eq!(connection.pass(Uplink, &data(1001, 501)), Segment::Known);
        assert_eq!(connection.pass(Downlink, &data(501, 1100)), Segment::Known);
        assert_eq!(connection.pass(Uplink, &segment(ACK, 1100, 600)), Segment::Known);
        assert_eq!(told(&connection), Some((600, 1100, 512)));
        connection
    }

    #[test]
    fn a_syn_on_a_connection_under_way_counts_once_it_is_answered() {
        // The host opens it anew, or the far end does.
        for (direction, other, expected) in
            [(Uplink, Downlink, Some((70_001, 30_001, 4))), (Downlink, Uplink, None)]
        {
            let mut connection = under_way();
            assert_eq!(connection.pass(direction, &segment(SYN, 30_000, 0)), Segment::Doubted);
            assert_eq!(told(&connection), Some((600, 1100, 512)), "{direction:?}: it may be forged");
            let wrong = segment(SYN | ACK, 70_000, 40_000);
            assert_eq!(connection.pass(other, &wrong), Segment::Doubted, "{direction:?}");
            let answer = segment(SYN | ACK, 70_000, 30_001);
            assert_eq!(connection.pass(other, &answer), Segment::Begins, "{direction:?}");
            assert_eq!(told(&connection), expected, "{direction:?}");
            // The new connection's own numbers, below the old one's or above.
            let (host, far) = if direction == Uplink { (30_001, 70_001) } else { (70_001, 30_001) };
            assert_eq!(connection.sent(), Some(Seq(host)), "{direction:?}");
            assert_eq!(connection.pass(Downlink, &segment(ACK, far, host)), Segment::Known);
            assert_eq!(told(&connection), Some((far, host, 512)), "{direction:?}");
        }
    }

    #[test]
    fn a_syn_after_the_end_begins_anew_also_beside_late_copies_of_the_old_connection() {
        let mut connection = under_way();
        connection.pass(Uplink, &segment(FIN | ACK, 1100, 600));
        assert!(!connection.is_over());
        connection.pass(Downlink, &segment(FIN | ACK, 600, 1101));
        assert!(!connection.is_over() && !connection.can_be_told(), "all has arrived; its ACK has not left");
        connection.pass(Uplink, &segment(ACK, 1101, 601));
        assert!(connection.is_over());
        for (direction, late) in [
            (Downlink, segment(FIN | ACK, 600, 1101)),
            (Uplink, segment(ACK, 1101, 601)),
            (Downlink, segment(ACK, 600, 1100)),
        ] {
            assert_eq!(connection.pass(direction, &late), Segment::Known);
            assert!(connection.is_over() && told(&connection).is_none(), "{late:?}");
        }
        assert_eq!(connection.pass(Uplink, &segment(SYN, 90, 0)), Segment::Begins);
        assert!(!connection.is_over() && told(&connection).is_none());
        connection.pass(Downlink, &segment(FIN | ACK, 600, 1101));
        assert_eq!(connection.pass(Downlink, &segment(SYN | ACK, 7, 91)), Segment::Begins);
        assert_eq!(told(&connection), Some((8, 91, 4)));
    }

    #[test]
    fn the_newest_window_counts_and_an_ack_of_what_was_never_sent_does_not() {
        let mut connection = under_way();
        let mut hear = |seq, ack, window| {
            connection.pass(Downlink, &TcpSegment { window, ..segment(ACK, seq, ack) });
            told(&connection).map(|(_, ack, window)| (ack, window))
        };
        assert_eq!(hear(600, 1100, 40), Some((1100, 40)), "an update of the window");
        assert_eq!(hear(590, 1100, 512), Some((1100, 40)), "an older one of the same ACK number");
        assert_eq!(hear(600, 1050, 512), Some((1100, 40)), "an older ACK");
        assert_eq!(hear(600, 1101, 512), Some((1100, 40)), "of nothing that was sent");
    }

    #[test]
    fn a_signed_or_a_reset_connection_cannot_be_told() {
        let mut connection = under_way();
        connection.pass(Uplink, &TcpSegment { signed: true, ..segment(ACK, 1100, 600) });
        assert_eq!(told(&connection), None);
        let mut connection = under_way();
        connection.pass(Downlink, &segment(TcpFlags::RST, 600, 0));
        assert!(connection.is_over() && told(&connection).is_none());
    }
}
