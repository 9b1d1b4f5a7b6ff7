//! The connections of the host, as the gate knows them by watching them pass.
//!
//! What is kept of a connection is what a repeated ACK needs: the receiver's last ACK number, window and
//! timestamp, and where its own sequence numbers stand; and for a window that ends with what was sent, its
//! scale.

use super::config::Closed;
use super::decision::Bin;
use crate::action::AckSpec;
use crate::closed_window::Scale;
use crate::packet::{Direction, FlowKey, TcpFlags, TcpSegment, TcpTimestamp};
use crate::units::Seq;

/// Changes of the signal remembered of a connection: enough for a few round trips.
const MARKS: usize = 16;

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
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    key: FlowKey,
    /// The receiver's highest ACK number, with the window field and the timestamp that came with it.
    acked: Option<Seq>,
    offer: u16,
    timestamp: Option<TcpTimestamp>,
    /// The receiver's next sequence number.
    next: Option<Seq>,
    /// End of the highest segment that the host sent.
    sent: Option<Seq>,
    scale: Scale,
    /// The host has sent data, so there is something to stop.
    has_data: bool,
    /// A segment was signed ([`TcpSegment::signed`]): no header is touched.
    signed: bool,
    /// Sequence number after the host's FIN.
    fin: Option<Seq>,
    reset: bool,
    /// A SYN on a connection under way: the number that a SYN-ACK has to acknowledge if the other end takes
    /// it for a new connection, and the scale that the SYN told.
    rival: Option<(Seq, Scale)>,
    pub told: Told,
    /// Where the signal changed: first sequence number sent at each strength, oldest first.
    marks: [(Seq, Bin); MARKS],
    marked: usize,
}

impl Flow {
    pub fn new(key: FlowKey) -> Self {
        Self {
            key,
            acked: None,
            offer: 0,
            timestamp: None,
            next: None,
            sent: None,
            scale: Scale::default(),
            has_data: false,
            signed: false,
            fin: None,
            reset: false,
            rival: None,
            told: Told::Open,
            marks: [(Seq(0), Bin(0)); MARKS],
            marked: 0,
        }
    }

    /// Nobody is left who would listen: it was reset, or all that the host had to send has arrived.
    fn is_over(&self) -> bool {
        let arrived = |fin: Seq| self.acked.is_some_and(|acked| !fin.after(acked));
        self.reset || self.fin.is_some_and(arrived)
    }

    fn is_under_way(&self) -> bool {
        self.has_data && !self.is_over()
    }

    /// The window may be closed and opened: the sender has something to send, and an ACK can be repeated.
    pub fn is_gated(&self) -> bool {
        self.is_under_way() && !self.signed && self.acked.is_some() && self.next.is_some()
    }

    /// The receiver has some window itself.
    pub fn has_window(&self) -> bool {
        self.offer > 0
    }

    /// The window field that stops the host, on a segment of the receiver that acknowledges `acked` and
    /// offers so much.
    pub fn closed_window(&self, closed: Closed, acked: Seq, offer: u16) -> u16 {
        match closed {
            Closed::Zero => 0,
            Closed::Full => self.scale.full(self.sent, acked, offer),
        }
    }

    /// The receiver's last ACK, with the window that came with it.
    pub fn repeated(&self) -> Option<AckSpec> {
        Some(AckSpec {
            flow: self.key,
            direction: Direction::Downlink,
            seq: self.next?,
            ack: self.acked?,
            window: self.offer,
            timestamp: self.timestamp,
            ece: false,
        })
    }

    /// A SYN begins the connection anew, if nothing is under way; otherwise the other end has to take it
    /// first. `said` is its scale and nothing else. False if the segment is not believed.
    fn on_syn(&mut self, tcp: &TcpSegment, said: Scale) -> bool {
        if tcp.flags.contains(TcpFlags::ACK) {
            if let Some((acked, scale)) = self.rival
                && acked == tcp.ack
            {
                *self = Self { told: self.told, sent: Some(tcp.ack), scale, ..Self::new(self.key) };
            } else if self.is_under_way() {
                return false;
            }
        } else if self.is_under_way() {
            self.rival = Some((tcp.seq_end(), said));
            return false;
        } else {
            *self = Self { told: self.told, ..Self::new(self.key) };
        }
        self.scale =
            Scale { local: said.local.or(self.scale.local), remote: said.remote.or(self.scale.remote) };
        true
    }

    /// A segment of the receiver passes, on its way to the host.
    pub fn on_receiver(&mut self, tcp: &TcpSegment) {
        self.signed |= tcp.signed;
        if tcp.flags.contains(TcpFlags::RST) {
            self.reset = true;
            return;
        }
        let is_syn = tcp.flags.contains(TcpFlags::SYN);
        if is_syn && !self.on_syn(tcp, Scale { local: None, remote: Some(tcp.syn.window_scale) }) {
            return;
        }
        self.signed |= tcp.signed;
        if self.next.is_none_or(|next| tcp.seq_end().after(next)) {
            self.next = Some(tcp.seq_end());
        }
        // An ACK beyond what the host has sent is none of this connection's.
        let is_new = self.acked.is_none_or(|acked| !acked.after(tcp.ack));
        let is_possible = self.sent.is_none_or(|sent| !tcp.ack.after(sent));
        if tcp.flags.contains(TcpFlags::ACK) && is_new && is_possible {
            self.acked = Some(tcp.ack);
            // The window of a SYN is not scaled; an ACK that repeats it scales it (RFC 7323 section 2.2).
            let shift = if is_syn { tcp.syn.window_scale.unwrap_or(0).min(14) } else { 0 };
            self.offer = tcp.window >> shift;
            self.timestamp = tcp.timestamp;
        }
    }

    /// A segment of the host passes; `bin` is the strength of the signal now.
    pub fn on_sender(&mut self, tcp: &TcpSegment, bin: Option<Bin>) -> Sent {
        self.signed |= tcp.signed;
        if tcp.flags.contains(TcpFlags::RST) {
            self.reset = true;
            return Sent::Nothing;
        }
        let is_syn = tcp.flags.contains(TcpFlags::SYN);
        if is_syn && !self.on_syn(tcp, Scale { local: Some(tcp.syn.window_scale), remote: None }) {
            return Sent::Nothing;
        }
        self.signed |= tcp.signed;
        if tcp.flags.contains(TcpFlags::FIN) {
            self.fin = Some(tcp.seq_end());
        }
        let is_new = self.sent.is_none_or(|sent| tcp.seq_end().after(sent));
        if is_new && tcp.seq_len() > 0 {
            self.sent = Some(tcp.seq_end());
        }
        if tcp.payload_len == 0 {
            return Sent::Nothing;
        }
        self.has_data = true;
        if !is_new {
            return Sent::Again(self.strength_at(tcp.seq));
        }
        if let Some(bin) = bin {
            self.mark(tcp.seq, bin);
        }
        Sent::New
    }

    fn mark(&mut self, seq: Seq, bin: Bin) {
        let last = self.marked.checked_sub(1).and_then(|last| self.marks.get(last));
        if last.is_some_and(|(_, known)| *known == bin) {
            return;
        }
        if self.marked == MARKS {
            self.marks.copy_within(1.., 0);
            self.marked -= 1;
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
