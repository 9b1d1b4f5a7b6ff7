//! One TCP connection, as the base station knows it by watching it pass; or one flow of datagrams.
//!
//! Paper: `dsasync` section IV ("maintains state information (e.g., last ACK copy, sequence #s, etc) for each
//! ongoing TCP stream").
//!
//! A flow first seen in the middle has an unknown window scale. Its receive window in bytes is then unknown,
//! so it is never closed for being used up and never clamped; it is still closed by a zero (zero needs no
//! scale) when space runs low, and reopened with the exact window field its receiver last sent.

use super::handshake::{EcnEcho, Handshake};
use super::held::{NONE, is_later, tick};
use super::lateness::Lateness;
use super::min_filter::MinFilter;
use super::probes::{RadioProbe, WiredProbe};
use super::shares::Tally;
use super::up_window::UpWindow;
use super::window::Window;
use crate::action::Rewrite;
use crate::closed_window::right_edge;
use crate::ending::Ending;
use crate::opening::{Answered, Asked, Opening, Stage, Syn};
use crate::packet::{Direction, FlowKey, PacketId, StationId, TcpFlags, TcpSegment, TcpTimestamp};
use crate::time::Instant;
use crate::units::Seq;

/// Flags that begin or end a connection.
const BEGINNING_OR_END: TcpFlags = TcpFlags::SYN.union(TcpFlags::FIN).union(TcpFlags::RST);

/// What a flow's packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Segments of a connection.
    Tcp = 0,
    /// Datagrams. Nothing of the flow's state is used but what is held of it, and that its station answered.
    Udp = 1,
}

/// What is watched of a connection where nobody tells the rate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Watched {
    /// A right edge that the correspondent was told, and when the data up to it should be here.
    pub edge_due: Option<(Seq, Instant)>,
    /// When the station last acknowledged something new, or began to owe that.
    pub progressed: Instant,
    /// When a segment of it last went down.
    pub sent: Instant,
    /// The sender had a timeout: end of the highest segment that it had sent by then. Until that is
    /// acknowledged it repairs what was lost.
    pub repairs_to: Option<Seq>,
    /// Bytes that the station has not acknowledged, were sent again and are thought to be under way.
    pub again_under_way: u32,
    /// End of a segment that went down again and is not acknowledged, and when it did: the first of them.
    pub again: Option<(Seq, Instant)>,
    /// End of the highest segment that had gone down when something was last sent again.
    pub sent_before_again: Option<Seq>,
    /// Bytes that went down again since the station last acknowledged something new.
    pub repeated: u32,
    /// Of a connection that was under way when it was first seen: where the first segment that was seen going
    /// down begins.
    pub seen_from: Option<Seq>,
}

/// An uplink ACK that is kept back.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptAck {
    pub packet: PacketId,
    pub rewrite: Rewrite,
    pub len: u32,
    pub deadline: Instant,
}

/// Whether an uplink ACK of a flow is kept back. Each has one at most.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// None is, and the flow is in no list.
    No,
    /// None is any more, but the flow is still in the list of those with one
    /// ([`KeptAcks`](super::keep_back::KeptAcks)).
    Gone,
    Ack(KeptAck),
}

impl Kept {
    /// The ACK, if one is kept back.
    pub fn ack(self) -> Option<KeptAck> {
        match self {
            Self::Ack(ack) => Some(ack),
            Self::No | Self::Gone => None,
        }
    }
}

/// What shows that somebody at the station takes part in a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KnownBy {
    Nothing,
    /// The correspondent has acknowledged the station's SYN-ACK.
    Handshake,
    /// The station has acknowledged something after the handshake, or sent a datagram.
    Answer,
}

/// What is known of one connection.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub key: FlowKey,
    pub transport: Transport,
    pub station: StationId,
    /// Its place in the flow table.
    pub slot: u32,
    /// Its slot is in the list of those whose flow owes something
    /// ([`RoundTrips::account`](super::round_trip::RoundTrips::account)).
    pub is_owing: bool,
    pub handshake: Handshake,
    /// Its SYNs, and those that may yet begin another in its place.
    opening: Opening,
    /// Another connection has taken the place of the one before.
    anew: bool,
    /// It was under way when it was first seen, and what lay below then may lie there still.
    pub midstream: bool,

    /// SN_last: latest sequence number acknowledged by the station; `None` before its first ACK.
    pub acked: Option<Seq>,
    /// Window field of the station's latest ACK, its shift if known, and that ACK's sequence number.
    pub offer: u16,
    pub offer_shift: Option<u8>,
    offer_seq: Seq,
    /// Right edge of the furthest window that the station has offered, once it has acknowledged something.
    edge: Seq,
    /// Next sequence number of the station; `None` before its first segment.
    pub up_next: Option<Seq>,
    pub up_timestamp: Option<TcpTimestamp>,
    /// The station's latest timestamp, on whatever segment.
    up_tick: Option<u32>,
    /// The station's latest segment is the first with its timestamp.
    pub new_tick: bool,
    /// The correspondent heeds the ACK and window of the station's latest segment: not if that was sent
    /// again.
    pub counts: bool,
    /// The station's latest segment takes sequence numbers that none before it took, so it is no copy.
    pub sends_new: bool,
    /// When the station was last heard on this connection, or began to owe an ACK.
    pub heard: Instant,
    /// The correspondent sends timestamps.
    timestamps: bool,
    /// A segment of the connection was signed: no header is to be touched ([`TcpSegment::signed`]).
    pub signed: bool,
    /// Window field last passed on to the correspondent.
    pub passed: u16,
    /// Right edge of the windows that the correspondent was told.
    pub told_edge: Option<Seq>,

    /// SN_new: end of the highest segment that came from the correspondent.
    pub down_max: Option<Seq>,
    /// End of the highest segment handed to the radio.
    pub down_sent: Option<Seq>,
    /// Highest number at which a segment handed to the radio begins, empty ones counted.
    pub down_begun: Option<Seq>,
    /// Bytes above `acked` that nobody waits for: by duplicate ACKs they have arrived, or they are taken for
    /// lost.
    credited: u32,
    /// Bytes that came back from the transmit queue and have not gone down again: the last ones before
    /// `down_sent`.
    returned: u32,
    /// Bytes that are taken for lost because of the latest ACK's SACK blocks.
    pub lost: u32,
    /// Latest sequence number the correspondent acknowledged.
    correspondent_acked: Option<Seq>,
    /// Right edge of the furthest window that the correspondent has offered, once it has acknowledged
    /// something.
    up_edge: Seq,
    /// End of the furthest segment that was not believed because it lies beyond what the other end has
    /// offered, and which way that one went.
    stray: Seq,
    stray_went: Option<Direction>,
    /// The correspondent has sent data, so there is something to stop.
    pub has_data: bool,
    ending: Ending,

    /// Its packets in the hold buffer: the ends of a list that the buffer keeps, and how many there are.
    pub held_head: u32,
    pub held_tail: u32,
    pub held: u32,
    /// What they weigh there, bytes.
    pub held_weight: u64,
    known_by: KnownBy,
    /// ACKs without data that the correspondent may yet send: [`on_uplink`](Self::on_uplink) adds to them.
    acks_due: u8,
    /// Its ACKs that wait here, in the uplink shaper or while a hole is repaired, and will tell the
    /// correspondent a window.
    pub shaped: u32,
    pub kept: Kept,

    pub window: Window,
    /// It is in the list of flows whose window is closed.
    pub listed: bool,
    /// Algorithm 5 asked for the window clamp.
    pub clamp_on: bool,

    /// Wired part of the base round trip.
    pub wired: MinFilter,
    /// How much later than that its data usually comes.
    pub late: Lateness,
    pub wired_probe: Option<WiredProbe>,
    pub radio_probe: Option<RadioProbe>,
    /// Since when every probe of the radio has waited below for longer than was thought, by more than a
    /// router's AQM bears; [`Instant::FAR_FUTURE`] if the last one has not.
    pub waits_since: Instant,
    /// The station at which its outstanding bytes are counted, and how many are.
    pub booked: (StationId, u32),
    /// What it is sent, for the count of its station's flows ([`Shares`](super::shares::Shares)).
    pub share: Tally,
    /// What is watched where nobody tells the rate. On the heap: other flows do not have it.
    pub watched: Option<Box<Watched>>,
    /// What its station is told of the correspondent's window. On the heap: only flows with uplink data whose
    /// rate nobody tells have it.
    pub up: Option<Box<UpWindow>>,
}

impl Flow {
    pub fn new(key: FlowKey, station: StationId) -> Self {
        Self {
            key,
            transport: Transport::Tcp,
            station,
            slot: 0,
            is_owing: false,
            handshake: Handshake::default(),
            opening: Opening::default(),
            anew: false,
            midstream: false,
            acked: None,
            offer: 0,
            offer_shift: None,
            offer_seq: Seq(0),
            edge: Seq(0),
            up_next: None,
            up_timestamp: None,
            up_tick: None,
            new_tick: false,
            counts: false,
            sends_new: false,
            heard: Instant::ZERO,
            timestamps: false,
            signed: false,
            passed: 0,
            told_edge: None,
            down_max: None,
            down_sent: None,
            down_begun: None,
            credited: 0,
            returned: 0,
            lost: 0,
            correspondent_acked: None,
            up_edge: Seq(0),
            stray: Seq(0),
            stray_went: None,
            has_data: false,
            ending: Ending::None,
            held_head: NONE,
            held_tail: NONE,
            held: 0,
            held_weight: 0,
            known_by: KnownBy::Nothing,
            acks_due: 0,
            shaped: 0,
            kept: Kept::No,
            window: Window::Open,
            listed: false,
            clamp_on: false,
            wired: MinFilter::default(),
            late: Lateness::default(),
            wired_probe: None,
            radio_probe: None,
            waits_since: Instant::FAR_FUTURE,
            booked: (station, 0),
            share: Tally::default(),
            watched: None,
            up: None,
        }
    }

    /// True if the sender can tell a spurious retransmission when both copies arrive.
    pub fn detects_spurious(&self) -> bool {
        self.timestamps || self.handshake.sack()
    }

    /// True if the station has acknowledged something after the handshake: somebody there takes part in this
    /// connection. What strangers send to nobody never gets that far.
    pub fn is_answered(&self) -> bool {
        self.known_by == KnownBy::Answer
    }

    /// True if the station has answered, or its SYN-ACK has been acknowledged, which only who has received it
    /// can do.
    pub fn is_real(&self) -> bool {
        self.known_by >= KnownBy::Handshake
    }

    /// The station sent a datagram of this flow.
    pub fn note_answer(&mut self) {
        self.known_by = KnownBy::Answer;
    }

    /// True if nothing of the flow is held back, here or at its sender: the first choice when a place in the
    /// table is needed.
    pub fn is_idle(&self) -> bool {
        self.held == 0 && self.shaped == 0 && !self.window.is_closed()
    }

    /// True if more is known of the connection than SYNs.
    fn is_under_way(&self) -> bool {
        self.opening.is_agreed() || self.is_answered() || self.has_data
    }

    /// How far it has come, for a SYN that meets it.
    fn stage(&self) -> Stage {
        if self.is_over() {
            Stage::Over
        } else if self.is_under_way() {
            Stage::UnderWay
        } else {
            Stage::Fresh
        }
    }

    /// True if more was taken in than SYNs and what says nothing.
    fn has_heard(&self) -> bool {
        self.acked.is_some() || self.correspondent_acked.is_some() || self.ending != Ending::None
    }

    /// Forgets the old connection on these ports, but not what is still held or closed because of it.
    fn restart(&mut self) {
        *self = Self {
            held_head: self.held_head,
            held_tail: self.held_tail,
            held: self.held,
            held_weight: self.held_weight,
            shaped: self.shaped,
            kept: self.kept,
            window: self.window.of_new_connection(),
            listed: self.listed,
            slot: self.slot,
            is_owing: self.is_owing,
            booked: self.booked,
            anew: true,
            ..Self::new(self.key, self.station)
        };
    }

    /// True, once, after a segment that began another connection on these ports.
    pub fn take_anew(&mut self) -> bool {
        core::mem::take(&mut self.anew)
    }

    /// Takes in what the flags of a segment say of the connection's beginning and end. False if the segment
    /// is not believed.
    #[cold]
    fn on_flags(&mut self, tcp: &TcpSegment, downlink: bool) -> bool {
        let believed = match (tcp.flags.contains(TcpFlags::SYN), tcp.flags.contains(TcpFlags::ACK)) {
            (true, false) => self.on_syn(tcp, downlink),
            (true, true) => self.on_syn_ack(tcp, downlink),
            (false, _) => !tcp.flags.contains(TcpFlags::RST) || self.opening.may_be_reset_by(tcp, downlink),
        };
        if believed {
            self.ending.note(tcp, downlink);
        }
        believed
    }

    fn on_syn(&mut self, tcp: &TcpSegment, downlink: bool) -> bool {
        let syn = Syn::new(tcp, downlink);
        match self.opening.on_syn(syn, self.stage()) {
            Asked::Again => {}
            Asked::Late | Asked::Beside => return false,
            Asked::First => {
                if self.opening.is_asked() || self.is_known() {
                    self.restart();
                }
                self.opening.ask(syn);
            }
        }
        self.handshake.learn(tcp, downlink);
        true
    }

    fn on_syn_ack(&mut self, tcp: &TcpSegment, downlink: bool) -> bool {
        match self.opening.on_syn_ack(tcp, downlink, self.stage()) {
            Answered::Rival(rival) => {
                self.restart();
                self.opening = Opening::agreed(rival);
                self.begin(&rival);
            }
            Answered::First(syn) => {
                // What came between the two SYNs was not of this connection, unless the SYN carried data.
                if self.is_under_way() || self.has_heard() {
                    self.restart();
                    self.opening = Opening::agreed(syn);
                }
                self.opening.agree();
                self.begin(&syn);
            }
            Answered::Crossed | Answered::Unasked => {}
            Answered::Nothing => return false,
        }
        self.handshake.learn(tcp, downlink);
        true
    }

    /// Begins the connection with a SYN that was answered: what another SYN said since does not count.
    fn begin(&mut self, syn: &Syn) {
        (self.down_max, self.up_next) =
            if syn.downlink { (Some(syn.end), None) } else { (None, Some(syn.end)) };
        self.down_sent = self.down_sent.and(self.down_max);
        self.down_begun = None;
        self.signed = syn.signed;
        self.handshake = Handshake::default();
        let tcp = TcpSegment { flags: syn.flags, syn: syn.options, ..TcpSegment::default() };
        self.handshake.learn(&tcp, syn.downlink);
    }

    /// True if a segment from the correspondent can be of this connection: it lies within what the station
    /// has offered, or is a probe of one byte beyond that (RFC 9293 section 3.8.6.1). A reset has to lie
    /// within what was sent (RFC 5961 section 3.2): the station ignores any other. Before the first
    /// acknowledgment everything can.
    #[inline]
    fn can_come_down(&mut self, tcp: &TcpSegment) -> bool {
        let Some(acked) = self.acked else { return true };
        if tcp.flags.contains(TcpFlags::RST) {
            return !tcp.seq.before(acked) && self.down_max.is_none_or(|highest| !tcp.seq.after(highest));
        }
        if tcp.seq_len() > 0 && tcp.seq_end().after(self.edge + 1) {
            self.went_astray(tcp, Direction::Downlink);
            return false;
        }
        true
    }

    /// True if a reset from the station can be of this connection: it lies within what was sent.
    fn can_reset(&self, tcp: &TcpSegment) -> bool {
        self.correspondent_acked.is_none_or(|acked| !tcp.seq.before(acked))
            && self.up_next.is_none_or(|next| !tcp.seq.after(next))
    }

    /// Notes a segment beyond what the other end has offered; of several the furthest, since the first of
    /// them may come again.
    #[cold]
    fn went_astray(&mut self, tcp: &TcpSegment, went: Direction) {
        let end = tcp.seq_end();
        self.stray = if self.stray_went == Some(went) { self.stray.max(end) } else { end };
        self.stray_went = Some(went);
    }

    /// What was not believed is behind what is now followed: it is of no more use. Half the sequence space
    /// later it would vouch for every number.
    #[inline]
    fn forget_stray(&mut self, went: Direction, followed: Seq) {
        if self.stray_went == Some(went) && !followed.before(self.stray) {
            self.stray_went = None;
        }
    }

    /// The station has said for the first time how far the correspondent may send. Before that everything is
    /// believed, be it made up: of a connection first seen in its middle, one segment from nowhere would
    /// stand for the furthest that was sent.
    #[cold]
    fn doubt_what_came_down(&mut self) {
        if self.down_max.is_some_and(|highest| highest.after(self.edge + 1)) {
            (self.down_max, self.down_sent, self.down_begun) = (None, None, None);
        }
    }

    /// True if an acknowledgment beyond `known` is of a segment that was not believed. Both ends then speak
    /// of numbers that we have not followed: packets went past us, for longer than a window. Who forges one
    /// direction gets no such answer.
    #[cold]
    fn answers_stray(&self, ack: Seq, known: Seq, went: Direction) -> bool {
        self.stray_went == Some(went) && ack.after(known) && !ack.after(self.stray)
    }

    /// True if a segment from the station can be of this connection: it lies within what the correspondent
    /// has offered, and acknowledges nothing beyond what the station itself has offered; both with the byte
    /// that a probe or a FIN may take beyond. (RFC 9293 section 3.10.7.4 tells the correspondent to ignore
    /// an acknowledgment of what it has not sent. What was sent past us, while the driver could not keep up,
    /// is not in `down_max`.)
    #[inline]
    fn can_go_up(&mut self, tcp: &TcpSegment) -> bool {
        if self.correspondent_acked.is_some() && tcp.seq_end().after(self.up_edge + 1) {
            self.went_astray(tcp, Direction::Uplink);
            return false;
        }
        self.acked.is_none()
            || !tcp.flags.contains(TcpFlags::ACK)
            || !tcp.ack.after(self.edge + 1)
            || self.answers_stray(tcp.ack, self.edge, Direction::Downlink)
    }

    /// True if a segment from the correspondent begins in the window that the station has offered, as far as
    /// that is known.
    fn is_in_window(&self, tcp: &TcpSegment) -> bool {
        self.acked.is_none_or(|acked| !tcp.seq.before(acked) && !tcp.seq.after(self.edge))
    }

    /// True if a segment of the connection was seen.
    fn is_known(&self) -> bool {
        self.acked.is_some() || self.up_next.is_some() || self.down_max.is_some()
    }

    /// Takes in a segment from the correspondent. False if it is not believed: it passes, and nothing is
    /// learned from it.
    #[inline]
    pub fn on_downlink(&mut self, tcp: &TcpSegment) -> bool {
        if !tcp.flags.contains(TcpFlags::SYN) && !self.can_come_down(tcp) {
            return false;
        }
        if tcp.flags.intersects(BEGINNING_OR_END) && !self.on_flags(tcp, true) {
            return false;
        }
        self.signed |= tcp.signed && self.is_in_window(tcp);
        self.timestamps |= tcp.timestamp.is_some();
        if tcp.flags.contains(TcpFlags::ACK) {
            let newer = self.correspondent_acked.is_none_or(|old| !tcp.ack.before(old));
            // What the station has not sent cannot have arrived.
            let possible = self.up_next.is_none_or(|next| {
                !tcp.ack.after(next) || self.answers_stray(tcp.ack, next, Direction::Uplink)
            });
            if newer && possible {
                let (offer, shift) = self.handshake.correspondents_offer_of(tcp);
                let edge = right_edge(tcp.ack, offer, shift);
                self.up_edge = if self.correspondent_acked.is_some() { self.up_edge.max(edge) } else { edge };
                self.correspondent_acked = Some(tcp.ack);
                let opens = !tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST)
                    && self.acked.is_some()
                    && self.up_next == Some(tcp.ack);
                if opens {
                    self.known_by = self.known_by.max(KnownBy::Handshake);
                }
                if let Some(up) = &mut self.up {
                    (up.offer, up.shift) = (offer, shift);
                    up.timestamp = tcp.timestamp;
                }
            }
        }
        if tcp.seq_len() > 0 || self.down_max.is_none() {
            self.down_max = Some(self.down_max.map_or(tcp.seq_end(), |old| old.max(tcp.seq_end())));
        }
        if tcp.payload_len > 0 {
            self.has_data = true;
            if self.handshake.mss == 0 {
                self.handshake.mss = tcp.payload_len.min(1460);
            }
        }
        let reduced = tcp.flags.contains(TcpFlags::CWR) && !tcp.flags.contains(TcpFlags::SYN);
        if reduced && self.handshake.ecn == EcnEcho::Due {
            self.handshake.ecn = EcnEcho::Idle;
        }
        true
    }

    /// Takes in a segment from the station. False if it is not believed: it passes, and nothing is learned
    /// from it.
    #[inline]
    pub fn on_uplink(&mut self, tcp: &TcpSegment) -> bool {
        let can = if tcp.flags.contains(TcpFlags::RST) {
            self.can_reset(tcp)
        } else {
            tcp.flags.contains(TcpFlags::SYN) || self.can_go_up(tcp)
        };
        if !can {
            return false;
        }
        if tcp.flags.intersects(BEGINNING_OR_END) && !self.on_flags(tcp, false) {
            return false;
        }
        self.signed |= tcp.signed;
        self.acks_due = self.acks_due.saturating_add(acks_for(tcp.payload_len));
        let end = tcp.seq_end();
        (self.new_tick, self.counts) = (false, false);
        // Of a connection first seen in the middle, this may be a copy of what passed before.
        let begins = tcp.flags.contains(TcpFlags::SYN);
        self.sends_new = self.up_next.map_or(begins, |next| end.after(next));
        let is_again = self.up_next.is_some_and(|next| tcp.seq.before(next));
        if self.up_next.is_none() && self.correspondent_acked.is_some_and(|acked| acked.after(end)) {
            // As in `doubt_what_came_down`.
            self.correspondent_acked = None;
        }
        let next = self.up_next.map_or(end, |next| next.max(end));
        self.up_next = Some(next);
        self.forget_stray(Direction::Uplink, next);
        if !tcp.flags.contains(TcpFlags::ACK) || tcp.flags.contains(TcpFlags::RST) {
            return true;
        }
        if !tcp.flags.contains(TcpFlags::SYN) {
            self.known_by = KnownBy::Answer;
        }
        // An older segment, overtaken on its way, has an older one.
        let last_tick = self.up_tick;
        self.up_tick =
            tick(tcp).filter(|&value| last_tick.is_none_or(|last| is_later(value, last))).or(last_tick);
        // RFC 9293 section 3.10.7.4: a window counts if its segment is not older than the one it came from.
        let newer = match self.acked {
            None => true,
            Some(acked) => tcp.ack.after(acked) || (tcp.ack == acked && !tcp.seq.before(self.offer_seq)),
        };
        self.credit(tcp);
        // An ACK of ours may have gone before it, with the next sequence number.
        self.counts = newer && (self.acked != Some(tcp.ack) || !is_again);
        if newer {
            (self.offer, self.offer_shift) = self.handshake.offer_of(tcp);
            self.offer_seq = tcp.seq;
            let edge = right_edge(tcp.ack, self.offer, self.offer_shift);
            if self.acked.is_some() {
                self.edge = self.edge.max(edge);
            } else {
                self.edge = edge;
                self.doubt_what_came_down();
            }
            self.acked = Some(tcp.ack);
            self.forget_stray(Direction::Downlink, tcp.ack);
            if let Some(timestamp) = tcp.timestamp {
                self.new_tick = last_tick.map_or(begins, |last| is_later(timestamp.value, last));
                self.up_timestamp = tcp.timestamp;
            }
        }
        true
    }

    /// Notes that a segment that begins at `seq` goes to the radio. One that begins beyond `down_max` was not
    /// believed, and does not count.
    #[inline]
    pub fn note_begun(&mut self, seq: Seq) {
        if self.down_max.is_some_and(|highest| !seq.after(highest)) {
            self.down_begun = Some(self.down_begun.map_or(seq, |old| old.max(seq)));
        }
    }

    /// Counts a duplicate ACK as a segment that arrived above a hole (RFC 5681 section 2; with SACK the
    /// window may move on it; a D-SACK, RFC 2883, tells of what had arrived already). Otherwise recovery from
    /// a loss would look like a radio that stands still and then delivers a window at once.
    fn credit(&mut self, tcp: &TcpSegment) {
        let (Some(acked), Some(sent)) = (self.acked, self.down_sent) else { return };
        if tcp.ack.after(acked) {
            let advance = tcp.ack.minus(acked) as u32;
            self.credited = self.credited.saturating_sub(advance);
            self.returned = self.returned.min(u32::try_from(sent.minus(tcp.ack)).unwrap_or(0));
            if let Some(watched) = &mut self.watched {
                let left = watched.again_under_way.saturating_sub(advance);
                watched.again_under_way = if tcp.sack.is_empty() { 0 } else { left };
            }
        } else if tcp.ack == acked
            && tcp.is_pure_ack()
            && (tcp.sack.as_slice().iter().any(|block| block.right.after(acked))
                || (!self.handshake.sack() && tcp.sack.is_empty() && tcp.window == self.offer))
        {
            let above = u32::try_from(sent.minus(acked)).unwrap_or(0);
            self.credited = self.credited.saturating_add(self.handshake.mss).min(above);
        }
    }

    /// Takes what comes before the highest SACK block for delivered or lost, but for what was sent again
    /// since: a hop keeps the order of what it does not lose.
    pub fn pass_holes(&mut self, tcp: &TcpSegment) {
        self.lost = 0;
        let (Some(acked), Some(sent)) = (self.acked, self.down_sent) else { return };
        let above = |right: &Seq| right.after(acked) && !right.after(sent);
        let Some(highest) =
            tcp.sack.as_slice().iter().map(|block| block.right).filter(above).reduce(Seq::max)
        else {
            return;
        };
        // What left after the copies has arrived, so the copies have arrived or are lost, too. Otherwise lost
        // copies would count as under way for as long as only SACK blocks move on.
        let again = self.watched.as_mut().map_or(0, |watched| {
            if watched.sent_before_again.is_some_and(|before| highest.after(before)) {
                watched.again_under_way = 0;
            }
            watched.again_under_way
        });
        let passed = u32::try_from(highest.minus(acked)).unwrap_or(0).saturating_sub(again);
        self.lost = passed.saturating_sub(self.credited);
        self.credited += self.lost;
    }

    /// What was sent before goes down again: it is under way once more.
    pub fn sent_again(&mut self, end: Seq, bytes: u32) {
        let left = self.down_sent.and_then(|sent| u32::try_from(sent.minus(end)).ok());
        if left.is_some_and(|left| left < self.returned) {
            self.returned = self.returned.saturating_sub(bytes);
            return;
        }
        let bytes = bytes.min(self.credited);
        self.credited -= bytes;
        if let Some(watched) = &mut self.watched {
            watched.again_under_way = watched.again_under_way.saturating_add(bytes);
            watched.sent_before_again = self.down_sent;
        }
    }

    /// What went down came back from the transmit queue.
    pub fn taken_back(&mut self, bytes: u32) {
        let (Some(acked), Some(sent)) = (self.acked, self.down_sent) else { return };
        let above = u32::try_from(sent.minus(acked)).unwrap_or(0);
        self.returned = self.returned.saturating_add(bytes).min(above.saturating_sub(self.credited));
    }

    /// Notes that the correspondent was told a window whose right edge is this far. An edge told never
    /// recedes.
    #[inline]
    pub fn note_edge(&mut self, ack: Seq, window: u16, shift: u8) {
        let edge = ack + (u32::from(window) << shift);
        self.told_edge = Some(self.told_edge.map_or(edge, |old| old.max(edge)));
    }

    /// Latest sequence number that the correspondent acknowledged.
    pub fn correspondent_acked(&self) -> Option<Seq> {
        self.correspondent_acked
    }

    /// True if both ends closed and every FIN is acknowledged, or one end reset the connection.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.ending.is_over(self.acked, self.correspondent_acked)
    }

    /// True if what ends at `end` was handed to the radio before.
    #[inline]
    pub fn was_sent(&self, end: Seq) -> bool {
        self.down_sent.is_some_and(|highest| !end.after(highest))
    }

    /// True if what ends at `end` was handed to the radio before, and its station has not acknowledged it.
    #[inline]
    pub fn is_owed(&self, end: Seq) -> bool {
        self.was_sent(end) && self.acked.is_some_and(|acked| end.after(acked))
    }

    /// True if what ends at `end` may go down again although enough lies below: it is owed, and no more went
    /// down again since the station acknowledged something than a sender repeats that goes through all that
    /// is owed twice. (Without that bound one hole would let a hostile sender repeat what lies above it as
    /// fast as it can.)
    pub fn may_repeat(&self, end: Seq) -> bool {
        let owed = self.down_sent.zip(self.acked).map_or(0, |(sent, acked)| sent.minus(acked).max(0));
        let repeated = self.watched.as_ref().map_or(0, |watched| watched.repeated);
        self.is_owed(end) && u64::from(repeated) <= 2 * u64::from(owed.unsigned_abs())
    }

    /// True if an ACK without data may be one that the correspondent owes its station: the station takes
    /// part, and no more went down than what it sent asked for. Who sends more acknowledges nothing. (Without
    /// that bound anybody to whom a station has a connection could fill what lies below, unseen.)
    pub fn owes_ack(&self) -> bool {
        self.is_answered() && self.acks_due > 0
    }

    /// An ACK without data goes down. False if it is not one of those that [`owes_ack`](Self::owes_ack)
    /// means.
    pub fn take_owed_ack(&mut self) -> bool {
        let owed = self.owes_ack();
        self.acks_due = self.acks_due.saturating_sub(u8::from(owed));
        owed
    }

    /// Bytes handed to the radio that the station has not acknowledged, cumulatively or by duplicate ACKs.
    #[inline]
    pub fn outstanding(&self) -> u64 {
        match (self.down_sent, self.acked) {
            (Some(sent), Some(acked)) => {
                let not_below = u64::from(self.credited) + u64::from(self.returned);
                u64::try_from(sent.minus(acked)).unwrap_or(0).saturating_sub(not_below)
            }
            (None, _) | (_, None) => 0,
        }
    }

    /// Counts all outstanding bytes as if they had arrived: nobody waits for them any more.
    pub fn write_off(&mut self) {
        let outstanding = u32::try_from(self.outstanding()).unwrap_or(u32::MAX);
        self.credited = self.credited.saturating_add(outstanding);
        if let Some(watched) = &mut self.watched {
            watched.again_under_way = 0;
        }
    }

    /// True for a window probe: Linux sends an empty segment just before what is acknowledged
    /// (`tcp_xmit_probe_skb`), older stacks one byte beyond a closed window (RFC 9293 section 3.8.6.1).
    pub fn is_probe(&self, tcp: &TcpSegment) -> bool {
        if tcp.payload_len > 1 || tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST) {
            return false;
        }
        let Some(acked) = self.acked else { return false };
        tcp.seq.before(acked)
            || (tcp.payload_len == 1
                && self.window.is_closed()
                && self.down_max.is_some_and(|end| end == tcp.seq_end()))
    }

    /// True if the receive window is used up: what is left of it does not take another segment like this one.
    /// The paper asks for `SN_new = SN_last + rwin`; a sender never sends the last sliver of a window, so
    /// equality alone would hardly ever be seen.
    pub fn is_window_used_up(&self, payload_len: u32) -> bool {
        let (Some(acked), Some(shift), Some(newest)) = (self.acked, self.offer_shift, self.down_max) else {
            return false;
        };
        let edge = self.told_edge.unwrap_or(acked + (u32::from(self.offer) << shift));
        self.has_data && newest.minus(edge) + payload_len as i32 > 0
    }
}

/// ACKs that a station's packet may ask for: two, since a receiver may acknowledge every segment and tells
/// besides when its application has read (RFC 9293 section 3.8.6.2.2), and one more for every 512 bytes of an
/// aggregate, which holds many segments.
fn acks_for(payload_len: u32) -> u8 {
    u8::try_from(2 + payload_len / 512).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests;
