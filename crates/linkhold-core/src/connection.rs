//! A connection, as the host at its one end sees it pass.
//!
//! What is kept is what a mechanism needs that commands the host's sender by what the far end says to it: the
//! far end's last ACK number, window and timestamp, to repeat them; how far both ends are; the scale of
//! windows; and whether anybody is left to be told.
//!
//! A connection: opening (a SYN) → under way → over. A SYN begins it anew on the same ports: at once if
//! nothing is under way, otherwise once the other end has answered it with a SYN-ACK ([`Opening`], which
//! base stations use, too).
//!
//! Who does not see a connection can still send what looks like it: its far end's address is easily forged.
//! The host's kernel throws such segments away by their numbers, and so does this:
//! - A segment of the far end that ends outside of the host's window is not believed, nor is a reset outside
//!   of what was sent and is not acknowledged yet (RFC 5961 section 3.2: the host takes one with the very
//!   next number, and asks whoever sends another within its window, who then answers with that number).
//! - The host's own segments come from its kernel. What they say of the connection is true, but for SYNs and
//!   resets: a kernel answers what was forged with a reset that has the forged numbers. What the far end
//!   said before the host's first segment is checked by that.
//! - On a signed connection every segment is signed (RFC 2385 section 2.0, RFC 5925 section 7), so the host's
//!   own segments say whether it is. The far end's say so only until the host has sent one.
//!
//! Sources: RFC 9293 sections 3.5 (handshake), 3.6 (end) and 3.10.7.4 (which windows count), RFC 7323 section
//! 2 (window scale).

use crate::action::AckSpec;
use crate::closed_window::{Scale, right_edge};
use crate::ending::Ending;
use crate::opening::{Answered, Asked, Opening, Stage, Syn};
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
#[derive(Clone, Debug, Default)]
pub struct Connection {
    opening: Opening,
    /// A segment without SYN passed.
    under_way: bool,
    scale: Scale,
    /// End of the highest segment that the host sent.
    sent: Option<Seq>,
    /// End of the highest segment that the far end sent.
    heard: Option<Seq>,
    /// The host's latest ACK number.
    host_acked: Option<Seq>,
    /// Right edge of the furthest window that the host has offered, once it has acknowledged something.
    edge: Seq,
    /// The far end's highest ACK number, with the window field and the timestamp that came with it.
    acked: Option<Seq>,
    offer: u16,
    timestamp: Option<TcpTimestamp>,
    /// The connection's segments are signed ([`TcpSegment::signed`]).
    signed: bool,
    ending: Ending,
}

impl Connection {
    /// Takes in a segment that passes.
    pub fn pass(&mut self, direction: Direction, tcp: &TcpSegment) -> Segment {
        let downlink = direction == Direction::Downlink;
        if tcp.flags.contains(TcpFlags::RST) {
            if !self.can_reset(direction, tcp) || !self.opening.may_be_reset_by(tcp, downlink) {
                return Segment::Doubted;
            }
            self.ending.note(tcp, downlink);
            return Segment::Known;
        }
        let begins = tcp.flags.contains(TcpFlags::SYN);
        let segment = if begins {
            self.on_syn(downlink, tcp)
        } else if !downlink || self.can_come(tcp) {
            Segment::Known
        } else {
            Segment::Doubted
        };
        if segment == Segment::Doubted {
            return segment;
        }
        if !downlink && self.sent.is_none() {
            // The host goes on, so what ended the connection before its first word was made up.
            self.ending = Ending::None;
        }
        self.ending.note(tcp, downlink);
        if begins {
            self.learn_scale(direction, tcp.syn.window_scale);
        }
        self.under_way |= !begins;
        match direction {
            Direction::Uplink => self.send(tcp),
            Direction::Downlink => self.hear(tcp),
        }
        segment
    }

    /// True if a segment of the far end can be of this connection: it ends in the window that the host has
    /// offered, or with the byte beyond that a probe or a FIN may take (RFC 9293 sections 3.10.7.4 and
    /// 3.8.6.1). Before the host's first acknowledgment everything can.
    fn can_come(&self, tcp: &TcpSegment) -> bool {
        let end = tcp.seq_end();
        self.host_acked.is_none_or(|acked| !end.before(acked) && !end.after(self.edge + 1))
    }

    /// True if a reset can be of this connection: it lies within what its end has sent, and the other one has
    /// not acknowledged yet. One of a connection of which nothing was seen ends nothing.
    fn can_reset(&self, direction: Direction, tcp: &TcpSegment) -> bool {
        let (acked, sent) = match direction {
            Direction::Uplink => (self.acked.or(self.sent), self.sent),
            Direction::Downlink => (self.host_acked.or(self.heard), self.heard),
        };
        (self.sent.is_some() || self.heard.is_some())
            && acked.is_none_or(|acked| !tcp.seq.before(acked))
            && sent.is_none_or(|sent| !tcp.seq.after(sent))
    }

    /// How far it has come, for a SYN that meets it.
    fn stage(&self) -> Stage {
        if self.is_over() {
            Stage::Over
        } else if self.under_way {
            Stage::UnderWay
        } else {
            Stage::Fresh
        }
    }

    fn on_syn(&mut self, downlink: bool, tcp: &TcpSegment) -> Segment {
        let stage = self.stage();
        if !tcp.flags.contains(TcpFlags::ACK) {
            let syn = Syn::new(tcp, downlink);
            return match self.opening.on_syn(syn, stage) {
                Asked::Again => Segment::Known,
                Asked::Late | Asked::Beside => Segment::Doubted,
                Asked::First => {
                    let mut opening = Opening::default();
                    opening.ask(syn);
                    self.begin(&syn, opening);
                    Segment::Begins
                }
            };
        }
        match self.opening.on_syn_ack(tcp, downlink, stage) {
            Answered::Rival(syn) => {
                self.begin(&syn, Opening::agreed(syn));
                self.is_answered(downlink, tcp);
                Segment::Begins
            }
            Answered::First(syn) => {
                // What came between the two SYNs was not of this connection, unless the SYN carried data.
                let is_mixed = self.under_way || self.acked.is_some() || self.ending != Ending::None;
                let mut opening = core::mem::take(&mut self.opening);
                opening.agree();
                self.begin(&syn, opening);
                self.is_answered(downlink, tcp);
                if is_mixed { Segment::Begins } else { Segment::Known }
            }
            Answered::Crossed | Answered::Unasked => Segment::Known,
            Answered::Nothing => Segment::Doubted,
        }
    }

    /// Forgets the connection that was on these ports, or what was taken for one.
    fn begin(&mut self, syn: &Syn, opening: Opening) {
        *self = Self { opening, signed: syn.signed, ..Self::default() };
        let (direction, end) = if syn.downlink {
            (Direction::Downlink, &mut self.heard)
        } else {
            (Direction::Uplink, &mut self.sent)
        };
        *end = Some(syn.end);
        self.learn_scale(direction, syn.options.window_scale);
    }

    /// The far end has answered the host's SYN: the host will acknowledge that, and has offered no more than
    /// a SYN can.
    fn is_answered(&mut self, downlink: bool, answer: &TcpSegment) {
        if downlink {
            let next = answer.seq + 1;
            (self.host_acked, self.edge) = (Some(next), right_edge(next, u16::MAX, Some(0)));
        }
    }

    fn learn_scale(&mut self, direction: Direction, scale: Option<u8>) {
        match direction {
            Direction::Uplink => self.scale.local = Some(scale),
            Direction::Downlink => self.scale.remote = Some(scale),
        }
    }

    /// Takes in what the host's kernel says.
    fn send(&mut self, tcp: &TcpSegment) {
        self.signed = tcp.signed;
        self.sent = later(self.sent, tcp.seq_end());
        // What came before the host said anything may have been made up.
        let beyond = |acked: &Seq| self.sent.is_some_and(|sent| acked.after(sent + 1));
        self.acked.take_if(|acked| beyond(acked));
        if !tcp.flags.contains(TcpFlags::ACK) {
            return;
        }
        let shift = if tcp.flags.contains(TcpFlags::SYN) { Some(0) } else { self.scale.local_shift() };
        let edge = right_edge(tcp.ack, tcp.window, shift);
        self.edge = if self.host_acked.is_some() { self.edge.max(edge) } else { edge };
        self.host_acked = later(self.host_acked, tcp.ack);
        // What the host acknowledges was sent, whether it was seen or not.
        let is_possible = |heard: &Seq| !heard.before(tcp.ack) && !heard.after(self.edge + 1);
        self.heard = Some(self.heard.filter(is_possible).unwrap_or(tcp.ack));
    }

    /// Keeps the newest of what the far end says, since segments may overtake each other.
    fn hear(&mut self, tcp: &TcpSegment) {
        let end = tcp.seq_end();
        self.signed |= tcp.signed && self.sent.is_none();
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

    /// Right edge of the window that the far end offers with this segment, which is no SYN.
    #[must_use]
    pub(crate) fn offered(&self, tcp: &TcpSegment) -> Seq {
        let shift = self.scale.shift().and_then(|shift| u8::try_from(shift).ok());
        right_edge(tcp.ack, tcp.window, shift)
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
            assert_ne!(connection.pass(direction, &late), Segment::Begins);
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

    #[test]
    fn a_reset_with_a_wrong_number_ends_nothing() {
        let reset = |seq| segment(TcpFlags::RST, seq, 0);
        // The far end has sent up to 600, and the host has acknowledged that; the host up to 1100, likewise.
        for (direction, right) in [(Downlink, 600), (Uplink, 1100)] {
            let mut connection = under_way();
            for wrong in [right - 1, right + 1, right + 70_000, 0] {
                assert_eq!(
                    connection.pass(direction, &reset(wrong)),
                    Segment::Doubted,
                    "{direction:?} {wrong}"
                );
            }
            assert_eq!(told(&connection), Some((600, 1100, 512)));
            assert_eq!(connection.pass(direction, &reset(right)), Segment::Known);
            assert!(connection.is_over(), "{direction:?}");
        }
        // A SYN is refused by its number, and the host's kernel resets what a wrong SYN-ACK pretended.
        let mut connection = Connection::default();
        connection.pass(Uplink, &segment(SYN, 1000, 0));
        let refusal = |ack| segment(TcpFlags::RST | ACK, 0, ack);
        assert_eq!(connection.pass(Downlink, &segment(SYN | ACK, 500, 77)), Segment::Doubted);
        assert_eq!(connection.pass(Uplink, &reset(77)), Segment::Doubted);
        assert_eq!(connection.pass(Downlink, &refusal(1000)), Segment::Doubted);
        assert_eq!(connection.pass(Downlink, &refusal(1002)), Segment::Doubted);
        assert!(!connection.is_over());
        assert_eq!(connection.pass(Downlink, &refusal(1001)), Segment::Known);
        assert!(connection.is_over());
        assert_eq!(Connection::default().pass(Downlink, &reset(5)), Segment::Doubted, "of nothing known");
    }

    #[test]
    fn what_the_far_end_did_not_offer_to_take_or_got_acknowledged_is_not_believed() {
        // The host offers 512 units of 128 from 600 on, and the rest of a unit.
        let edge = 600 + (513 << 7) - 1;
        for (seq, believed) in [(599, false), (600, true), (edge, true), (edge + 1, true), (edge + 2, false)]
        {
            let mut connection = under_way();
            let forged = TcpSegment { window: 7, ..segment(ACK | FIN, seq - 1, 1100) };
            let expected = if believed { Segment::Known } else { Segment::Doubted };
            assert_eq!(connection.pass(Downlink, &forged), expected, "{seq}");
            let heard = if believed { (seq, 1100, 7) } else { (600, 1100, 512) };
            assert_eq!(told(&connection), Some(heard), "{seq}");
        }
    }

    #[test]
    fn the_host_says_whether_its_connection_is_signed() {
        let signed = |flags, seq, ack| TcpSegment { signed: true, ..segment(flags, seq, ack) };
        let mut connection = under_way();
        connection.pass(Downlink, &signed(ACK, 600, 1100));
        assert!(connection.can_be_told(), "a number within the window is no signature of the host's");
        connection.pass(Downlink, &signed(SYN | ACK, 600, 1100));
        connection.pass(Downlink, &signed(SYN, 9_000, 0));
        assert!(connection.can_be_told());
        // Seen in the middle, the far end is believed until the host speaks.
        let mut connection = Connection::default();
        connection.pass(Downlink, &signed(ACK, 600, 1100));
        assert!(!connection.can_be_told());
        connection.pass(Uplink, &segment(ACK, 1100, 600));
        assert!(connection.can_be_told());
        connection.pass(Uplink, &signed(ACK, 1100, 600));
        assert!(!connection.can_be_told());
    }

    #[test]
    fn a_syn_between_a_syn_and_its_answer_changes_nothing_unless_it_is_answered() {
        let mut connection = Connection::default();
        connection.pass(Uplink, &segment(SYN, 1000, 0));
        for number in 0..4 {
            assert_eq!(connection.pass(Downlink, &segment(SYN, 7_000 + number, 0)), Segment::Doubted);
        }
        assert_eq!(connection.pass(Downlink, &segment(SYN | ACK, 500, 1001)), Segment::Known);
        assert_eq!(told(&connection), Some((501, 1001, 4)));
        assert_eq!(connection.full(Seq(1001), 100), 0);
    }

    #[test]
    fn what_came_before_the_hosts_first_word_is_checked_by_it() {
        let mut connection = Connection::default();
        connection.pass(Downlink, &segment(ACK, 1_000_000_000, 70_000));
        connection.pass(Downlink, &segment(TcpFlags::RST, 1_000_000_000, 0));
        assert!(connection.is_over());
        connection.pass(Uplink, &segment(ACK, 1100, 600));
        connection.pass(Downlink, &segment(ACK, 600, 1100));
        assert_eq!(told(&connection), Some((600, 1100, 512)));
        assert!(!connection.is_over());
    }
}
