//! The connections of the host, as the gate knows them: what any host sees of a connection ([`Connection`]),
//! whether its sender has something to stop, and how strong the signal was when it sent what it sent.

use super::config::Closed;
use super::decision::Bin;
use crate::action::AckSpec;
use crate::connection::{Connection, Segment};
use crate::packet::{Direction, FlowKey, TcpFlags, TcpSegment};
use crate::units::Seq;

/// Changes of the signal remembered of a connection: enough for a few round trips.
const MARKS: usize = 16;

/// A strength that lasts is marked anew after so many bytes: sequence numbers compare across half their
/// space.
const MARK_AGAIN: i32 = 1 << 29;

/// A mark that lies further back is forgotten. Nothing so old is sent again: a window has 2^30 bytes at most
/// (RFC 7323 section 2.3).
const FORGOTTEN: i32 = 3 << 29;

/// What the sender was told last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// The receiver's own window.
    Open,
    /// A closed one, by the gate.
    Closed,
}

/// A segment of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// It carries no data.
    Nothing,
    /// It carries data that none before it carried.
    New,
    /// It was sent before, at this strength of the signal if that is still known.
    Again(Option<Bin>),
}

/// A connection whose sender is the host.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    key: FlowKey,
    connection: Connection,
    /// The host has sent data, so there is something to stop.
    has_data: bool,
    pub told: Told,
    /// Where the signal changed: first sequence number sent at each strength, oldest first.
    marks: [(Seq, Bin); MARKS],
    marked: usize,
}

impl Flow {
    pub fn new(key: FlowKey) -> Self {
        Self {
            key,
            connection: Connection::default(),
            has_data: false,
            told: Told::Open,
            marks: [(Seq(0), Bin(0)); MARKS],
            marked: 0,
        }
    }

    /// The window may be closed and opened: the sender has something to send, and an ACK can be repeated.
    pub fn is_gated(&self) -> bool {
        self.has_data && self.repeated().is_some()
    }

    /// The window field that stops the host, on a segment of the receiver that acknowledges `acked` and
    /// offers so much.
    pub fn closed_window(&self, closed: Closed, acked: Seq, offer: u16) -> u16 {
        match closed {
            Closed::Zero => 0,
            Closed::Full => self.connection.full(acked, offer),
        }
    }

    /// The receiver's last ACK, with the window that came with it.
    pub fn repeated(&self) -> Option<AckSpec> {
        self.connection.last_ack(self.key)
    }

    /// Takes in a segment of either end.
    fn pass(&mut self, direction: Direction, tcp: &TcpSegment) -> Segment {
        let segment = self.connection.pass(direction, tcp);
        if segment == Segment::Begins {
            let connection = core::mem::take(&mut self.connection);
            *self = Self { connection, told: self.told, ..Self::new(self.key) };
        }
        segment
    }

    /// A segment of the receiver passes, on its way to the host. False if it is not believed.
    pub fn on_receiver(&mut self, tcp: &TcpSegment) -> bool {
        self.pass(Direction::Downlink, tcp) != Segment::Doubted
    }

    /// A segment of the host passes; `bin` is the strength of the signal now.
    pub fn on_sender(&mut self, tcp: &TcpSegment, bin: Option<Bin>) -> Sent {
        let sent = self.connection.sent();
        let segment = self.pass(Direction::Uplink, tcp);
        if segment == Segment::Doubted || tcp.flags.contains(TcpFlags::RST) || tcp.payload_len == 0 {
            return Sent::Nothing;
        }
        self.has_data = true;
        if segment == Segment::Known && sent.is_some_and(|sent| !tcp.seq_end().after(sent)) {
            return Sent::Again(self.strength_at(tcp.seq));
        }
        self.forget_before(tcp.seq);
        if let Some(bin) = bin {
            self.mark(tcp.seq, bin);
        }
        Sent::New
    }

    /// Forgets marks that would soon seem to lie ahead of `seq`, which is sent now.
    fn forget_before(&mut self, seq: Seq) {
        while self.marked > 0 && self.marks.first().is_some_and(|(from, _)| seq.minus(*from) > FORGOTTEN) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.marks.copy_within(1.., 0);
        self.marked -= 1;
    }

    fn mark(&mut self, seq: Seq, bin: Bin) {
        let last = self.marked.checked_sub(1).and_then(|last| self.marks.get(last));
        if last.is_some_and(|&(from, known)| known == bin && seq.minus(from) < MARK_AGAIN) {
            return;
        }
        if self.marked == MARKS {
            self.forget_oldest();
        }
        if let Some(mark) = self.marks.get_mut(self.marked) {
            *mark = (seq, bin);
            self.marked += 1;
        }
    }

    /// The strength of the signal at which the byte `seq` was first sent.
    fn strength_at(&self, seq: Seq) -> Option<Bin> {
        let marks = self.marks.get(..self.marked)?;
        marks.iter().rev().find(|(from, _)| !from.after(seq)).map(|&(_, bin)| bin)
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;
    use crate::packet::Endpoint;

    #[test]
    fn what_is_sent_again_has_its_strength_however_much_was_sent_at_one() {
        let end = |port| Endpoint { addr: IpAddr::from([192, 0, 2, 1]), port };
        let mut flow = Flow::new(FlowKey { correspondent: end(80), station: end(5000) });
        let mut send = |seq: Seq, bin| {
            let flags = TcpFlags::ACK;
            let data = TcpSegment { seq, payload_len: 60_000, flags, ..TcpSegment::default() };
            flow.on_sender(&data, bin)
        };
        let mut seq = Seq(7);
        assert_eq!(send(seq, Some(Bin(3))), Sent::New);
        // Five times round the sequence numbers at another strength, and then without a signal.
        for (bin, rounds) in [(Some(Bin(9)), 5), (None, 2)] {
            for _ in 0..rounds * (u64::from(u32::MAX) / 60_000) {
                seq += 60_000;
                assert_eq!(send(seq, bin), Sent::New);
            }
            for back in [0, 60_000, 1_020_000] {
                assert_eq!(send(Seq(seq.0.wrapping_sub(back)), bin), Sent::Again(bin), "{back} bytes ago");
            }
        }
    }
}
