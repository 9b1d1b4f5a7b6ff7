//! The flow table: what the base station knows of each TCP connection by watching it pass.
//!
//! Paper: `dsasync` section IV ("maintains state information (e.g., last ACK copy, sequence #s, etc) for each ongoing
//! TCP stream"); RFC 7323 section 2 (window scale), RFC 3168 section 6.1.1 (ECN negotiation).
//!
//! Bounded: at `max_flows` the longest idle flow makes room. Found by a seeded hash (5-tuples are chosen by
//! strangers); every walk over all flows goes by slot number, never by hash, so a run repeats exactly.
//!
//! A flow first seen in the middle has an unknown window scale. Its receive window in bytes is then unknown, so it is
//! never closed for being used up and never clamped; it is still closed by a zero (zero needs no scale) when space
//! runs low, and reopened with the exact window field its receiver last sent.

use core::hash::{BuildHasher, Hasher};
use core::net::IpAddr;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::bdp::MinFilter;
use crate::action::Rewrite;
use crate::packet::{FlowKey, PacketId, StationId, TcpFlags, TcpSegment, TcpTimestamp};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// No slot, no packet: the end of an intrusive list.
pub(super) const NONE: u32 = u32::MAX;

/// The uplink ACK kept back before an announced silence.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptAck {
    pub packet: PacketId,
    pub rewrite: Rewrite,
    pub len: u32,
    pub deadline: Instant,
}

/// An uplink packet whose answer from the correspondent host will measure the wired round trip.
#[derive(Clone, Copy, Debug)]
pub(super) struct WiredProbe {
    pub at: Instant,
    pub value: u32,
    pub kind: ProbeKind,
}

/// What the answer to a [`WiredProbe`] looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeKind {
    /// A segment that echoes the timestamp `value`.
    Timestamp,
    /// A segment that acknowledges up to `value`.
    Sequence,
}

/// A downlink segment whose acknowledgment will measure how long it was in the radio.
#[derive(Clone, Copy, Debug)]
pub(super) struct RadioProbe {
    pub at: Instant,
    pub end: Seq,
    /// The radio was empty: the time is the radio part of the base round trip.
    pub empty: bool,
    /// Silences so far when it left: a silence since then spoils the sample.
    pub silences: u64,
    /// When it came to the base station; `None` if a silence kept it here.
    pub arrived: Option<Instant>,
    /// How long it was thought to wait in the transmit queue.
    pub ahead: Duration,
    /// The next segment: when it left, its end, and how long it was thought to wait.
    pub next: Option<(Instant, Seq, Duration)>,
}

impl RadioProbe {
    /// When the segment that ends at `acked` left, and how long it was thought to wait, if it is one of the two. A station
    /// acknowledges every second segment (RFC 1122 section 4.2.3.2): an ACK of the first alone, or of more than both, was
    /// set off by something else than these, and late.
    pub fn answered(&self, acked: Seq) -> Option<(Instant, Duration)> {
        if acked == self.end {
            return Some((self.at, self.ahead));
        }
        self.next.filter(|&(_, end, _)| end == acked).map(|(at, _, ahead)| (at, ahead))
    }
}

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
    /// Known.
    Known(u8),
}

/// One connection. The yes/no facts are named bits of plain `bool`s: 20 bytes of 512.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub key: FlowKey,
    hash: u64,
    live: bool,
    pub generation: u32,
    pub station: StationId,
    lru_prev: u32,
    lru_next: u32,

    pub scale: Scale,
    sack_offers: u8,
    ecn_asked: bool,
    pub ecn: bool,
    pub timestamps: bool,
    pub mss: u32,

    /// SN_last: latest sequence number acknowledged by the station; `None` before its first ACK.
    pub acked: Option<Seq>,
    /// Window field of the station's latest ACK, its shift if known, and that ACK's sequence number.
    pub offer: u16,
    pub offer_shift: Option<u8>,
    offer_seq: Seq,
    /// Next sequence number of the station; `None` before its first segment.
    pub up_next: Option<Seq>,
    pub up_timestamp: Option<TcpTimestamp>,
    /// The station's latest segment is the first with its timestamp.
    pub new_tick: bool,
    /// Window field last passed on to the correspondent, and the right edge it was told.
    pub passed: u16,
    pub edge: Option<Seq>,

    /// SN_new: end of the highest segment that came from the correspondent.
    pub down_max: Option<Seq>,
    /// End of the highest segment handed to the radio.
    pub down_sent: Option<Seq>,
    /// Bytes above `acked` that duplicate ACKs say have arrived.
    credited: u32,
    /// Latest sequence number the correspondent acknowledged.
    ch_ack: Option<Seq>,
    pub has_data: bool,
    fin_down: Option<Seq>,
    fin_up: Option<Seq>,
    pub reset: bool,

    pub held_head: u32,
    pub held_tail: u32,
    pub held: u32,
    pub shaped: u32,
    pub kept: Option<KeptAck>,

    /// We told the correspondent a zero window that its receiver did not send.
    pub closed: bool,
    /// Opened ahead of the end of this silence (count of silences), so not to be closed again in it.
    pub opened_early: Option<u64>,
    pub nudge_at: Instant,
    pub nudges_sent: u8,
    /// Where Algorithm 5 asked for the window clamp.
    pub clamp_on: bool,
    pub ece_pending: bool,

    pub wired: MinFilter,
    pub wired_probe: Option<WiredProbe>,
    pub radio_probe: Option<RadioProbe>,
    pub epoch: u32,
    pub epoch_bytes: u64,
}

impl Flow {
    fn new(key: FlowKey, hash: u64, generation: u32, station: StationId) -> Self {
        Self {
            key,
            hash,
            live: true,
            generation,
            station,
            lru_prev: NONE,
            lru_next: NONE,
            scale: Scale::Unknown,
            sack_offers: 0,
            ecn_asked: false,
            ecn: false,
            timestamps: false,
            mss: 0,
            acked: None,
            offer: 0,
            offer_shift: None,
            offer_seq: Seq(0),
            up_next: None,
            up_timestamp: None,
            new_tick: false,
            passed: 0,
            edge: None,
            down_max: None,
            down_sent: None,
            credited: 0,
            ch_ack: None,
            has_data: false,
            fin_down: None,
            fin_up: None,
            reset: false,
            held_head: NONE,
            held_tail: NONE,
            held: 0,
            shaped: 0,
            kept: None,
            closed: false,
            opened_early: None,
            nudge_at: Instant::FAR_FUTURE,
            nudges_sent: 0,
            clamp_on: false,
            ece_pending: false,
            wired: MinFilter::default(),
            wired_probe: None,
            radio_probe: None,
            epoch: 0,
            epoch_bytes: 0,
        }
    }

    /// Both ends offered SACK.
    pub fn sack(&self) -> bool {
        self.sack_offers == 3
    }

    /// The sender can tell a spurious retransmission when both copies arrive.
    pub fn detects_spurious(&self) -> bool {
        self.timestamps || self.sack()
    }

    /// A SYN on a connection that is over or under way starts a new one on the same ports.
    fn restarts(&self, tcp: &TcpSegment, downlink: bool) -> bool {
        if !tcp.flags.contains(TcpFlags::SYN) || tcp.flags.contains(TcpFlags::ACK) {
            return false;
        }
        // A SYN sent again has the same sequence number, and is no restart.
        if downlink {
            self.down_max.is_some_and(|end| end != tcp.seq_end())
        } else {
            self.acked.is_some() || self.up_next.is_some_and(|next| next != tcp.seq_end())
        }
    }

    /// Forgets the old connection on these ports but keeps its place in every list.
    fn restart(&mut self) {
        let fresh = Self::new(self.key, self.hash, self.generation, self.station);
        *self = Self {
            lru_prev: self.lru_prev,
            lru_next: self.lru_next,
            held_head: self.held_head,
            held_tail: self.held_tail,
            held: self.held,
            shaped: self.shaped,
            kept: self.kept,
            closed: self.closed,
            nudge_at: self.nudge_at,
            nudges_sent: self.nudges_sent,
            ..fresh
        };
    }

    fn learn_syn(&mut self, tcp: &TcpSegment, downlink: bool) {
        let is_answer = tcp.flags.contains(TcpFlags::ACK);
        let offer = tcp.syn.window_scale.map(|shift| shift.min(14));
        // A SYN-ACK carries the option only if the SYN did, so it decides even where the SYN went unseen.
        self.scale = match (self.scale, downlink, is_answer) {
            (Scale::Offered(Some(shift)), true, true) if offer.is_some() => Scale::Known(shift),
            (Scale::Offered(_), true, true) => Scale::Known(0),
            (_, false, true) => Scale::Known(offer.unwrap_or(0)),
            (Scale::Known(shift), _, _) => Scale::Known(shift),
            (Scale::Asked(true), false, false) => Scale::Known(offer.unwrap_or(0)),
            (Scale::Asked(false), false, false) => Scale::Known(0),
            (Scale::Offered(Some(shift)), true, false) if offer.is_some() => Scale::Known(shift),
            (Scale::Offered(_), true, false) => Scale::Known(0),
            (_, true, false) => Scale::Asked(offer.is_some()),
            (_, false, false) => Scale::Offered(offer),
            (_, true, true) if offer.is_none() => Scale::Known(0),
            (_, true, true) => Scale::Unknown,
        };
        if tcp.syn.sack_permitted {
            self.sack_offers |= if downlink { 1 } else { 2 };
        }
        let both = TcpFlags::ECE | TcpFlags::CWR;
        if !is_answer {
            self.ecn_asked = tcp.flags.contains(both);
        } else if tcp.flags.contains(TcpFlags::ECE) && !tcp.flags.contains(TcpFlags::CWR) {
            // Without the SYN in sight the answer alone still says so: it is sent only to a SYN that asked.
            self.ecn = true;
        }
        if !downlink && let Some(mss) = tcp.syn.mss {
            self.mss = u32::from(mss);
        }
    }

    /// Takes in a segment from the correspondent.
    pub fn on_downlink(&mut self, tcp: &TcpSegment) {
        if self.restarts(tcp, true) {
            self.restart();
        }
        if tcp.flags.contains(TcpFlags::SYN) {
            self.learn_syn(tcp, true);
        }
        self.timestamps |= tcp.timestamp.is_some();
        if tcp.flags.contains(TcpFlags::ACK) {
            self.ch_ack = Some(self.ch_ack.map_or(tcp.ack, |old| old.max(tcp.ack)));
        }
        if tcp.seq_len() > 0 || self.down_max.is_none() {
            self.down_max = Some(self.down_max.map_or(tcp.seq_end(), |old| old.max(tcp.seq_end())));
        }
        if tcp.payload_len > 0 {
            self.has_data = true;
            if self.mss == 0 {
                self.mss = tcp.payload_len.min(1460);
            }
        }
        if tcp.flags.contains(TcpFlags::FIN) {
            self.fin_down = Some(tcp.seq_end());
        }
        if tcp.flags.contains(TcpFlags::CWR) && !tcp.flags.contains(TcpFlags::SYN) {
            self.ece_pending = false;
        }
        self.reset |= tcp.flags.contains(TcpFlags::RST);
    }

    /// Takes in a segment from the station.
    pub fn on_uplink(&mut self, tcp: &TcpSegment) {
        if self.restarts(tcp, false) {
            self.restart();
        }
        if tcp.flags.contains(TcpFlags::SYN) {
            self.learn_syn(tcp, false);
        }
        let end = tcp.seq_end();
        self.up_next = Some(self.up_next.map_or(end, |next| next.max(end)));
        if tcp.flags.contains(TcpFlags::FIN) {
            self.fin_up = Some(tcp.seq_end());
        }
        self.reset |= tcp.flags.contains(TcpFlags::RST);
        if !tcp.flags.contains(TcpFlags::ACK) || tcp.flags.contains(TcpFlags::RST) {
            return;
        }
        // RFC 9293 section 3.10.7.4: a window counts if its segment is not older than the one it came from.
        let newer = match self.acked {
            None => true,
            Some(acked) => tcp.ack.after(acked) || (tcp.ack == acked && !tcp.seq.before(self.offer_seq)),
        };
        self.credit(tcp);
        if newer {
            self.acked = Some(tcp.ack);
            (self.offer, self.offer_shift) = self.offer_of(tcp);
            self.offer_seq = tcp.seq;
            if let Some(timestamp) = tcp.timestamp {
                self.new_tick = self.up_timestamp.is_none_or(|old| old.value != timestamp.value);
                self.up_timestamp = tcp.timestamp;
            }
        }
    }

    /// A duplicate ACK is a segment that arrived above a hole (RFC 5681 section 2; with SACK the window may move on
    /// it). Without this, recovery from a loss would look like a radio that stands still and then delivers a window at
    /// once.
    fn credit(&mut self, tcp: &TcpSegment) {
        let (Some(acked), Some(sent)) = (self.acked, self.down_sent) else { return };
        if tcp.ack.after(acked) {
            self.credited = self.credited.saturating_sub(tcp.ack.minus(acked) as u32);
        } else if tcp.ack == acked
            && tcp.is_pure_ack()
            && (!tcp.sack.as_slice().is_empty() || (!self.sack() && tcp.window == self.offer))
        {
            let above = u32::try_from(sent.minus(acked)).unwrap_or(0);
            self.credited = self.credited.saturating_add(self.mss).min(above);
        }
    }

    /// What an uplink segment offers, as the field and shift of an ACK that repeats it: a SYN's window is not scaled, an ACK's
    /// is (RFC 7323 section 2.2), so that a SYN's field in an ACK would be a larger window than was offered.
    fn offer_of(&self, tcp: &TcpSegment) -> (u16, Option<u8>) {
        match self.scale {
            Scale::Known(shift) if tcp.flags.contains(TcpFlags::SYN) => (tcp.window >> shift, Some(shift)),
            Scale::Known(_) | Scale::Unknown | Scale::Offered(_) | Scale::Asked(_) => {
                (tcp.window, self.shift_of(tcp))
            }
        }
    }

    /// Shift of an uplink segment's window field: none in a SYN, unknown if the handshake went unseen.
    pub fn shift_of(&self, tcp: &TcpSegment) -> Option<u8> {
        if tcp.flags.contains(TcpFlags::SYN) {
            return Some(0);
        }
        match self.scale {
            Scale::Known(shift) => Some(shift),
            Scale::Unknown | Scale::Offered(_) | Scale::Asked(_) => None,
        }
    }

    /// Both ends closed and every FIN is acknowledged, or one end reset the connection.
    pub fn is_over(&self) -> bool {
        if self.reset {
            return true;
        }
        match (self.fin_down, self.fin_up, self.acked, self.ch_ack) {
            (Some(down), Some(up), Some(acked), Some(ch_ack)) => !acked.before(down) && !ch_ack.before(up),
            _ => false,
        }
    }

    /// Bytes handed to the radio that the station has not acknowledged, cumulatively or by duplicate ACKs.
    pub fn outstanding(&self) -> u64 {
        match (self.down_sent, self.acked) {
            (Some(sent), Some(acked)) => {
                u64::try_from(sent.minus(acked)).unwrap_or(0).saturating_sub(u64::from(self.credited))
            }
            (None, _) | (_, None) => 0,
        }
    }

    /// A window probe: Linux sends an empty segment just below what is acknowledged (`tcp_xmit_probe_skb`), older
    /// stacks one byte beyond a closed window (RFC 9293 section 3.8.6.1).
    pub fn is_probe(&self, tcp: &TcpSegment) -> bool {
        if tcp.flags.intersects(TcpFlags::SYN | TcpFlags::FIN | TcpFlags::RST) {
            return false;
        }
        let Some(acked) = self.acked else { return false };
        match tcp.payload_len {
            0 => tcp.seq.before(acked),
            1 => {
                tcp.seq.before(acked)
                    || (self.closed && self.down_max.is_some_and(|end| end == tcp.seq_end()))
            }
            _ => false,
        }
    }

    /// The receive window is used up: what is left of it does not take another segment like this one. The paper
    /// asks for `SN_new = SN_last + rwin`; a sender never sends the last sliver of a window, so equality alone
    /// would hardly ever be seen.
    pub fn is_window_used_up(&self, payload_len: u32) -> bool {
        let (Some(acked), Some(shift), Some(newest)) = (self.acked, self.offer_shift, self.down_max) else {
            return false;
        };
        let edge = self.edge.unwrap_or(acked + (u32::from(self.offer) << shift));
        self.has_data && newest.minus(edge) + payload_len as i32 > 0
    }
}

/// What [`FlowTable::touch`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// The flow was there.
    Known(u32),
    /// It was added.
    New(u32),
    /// The table is full: evict [`FlowTable::oldest`] and try again.
    Full,
}

/// All flows.
#[derive(Debug)]
pub(super) struct FlowTable {
    index: HashTable<u32>,
    hasher: FixedState,
    slots: Vec<Flow>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    len: usize,
    max: usize,
}

impl FlowTable {
    pub fn new(max_flows: u32, seed: u64) -> Self {
        Self {
            index: HashTable::new(),
            hasher: FixedState::with_seed(seed),
            slots: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            len: 0,
            max: max_flows as usize,
        }
    }

    fn hash(&self, key: &FlowKey) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        for end in [&key.correspondent, &key.station] {
            match end.addr {
                IpAddr::V4(v4) => hasher.write_u64(u64::from(u32::from(v4)) << 16 | u64::from(end.port)),
                IpAddr::V6(v6) => {
                    hasher.write_u128(u128::from(v6));
                    hasher.write_u16(end.port);
                }
            }
        }
        hasher.finish()
    }

    /// Finds a flow, or adds it, and makes it the most recently used.
    pub fn touch(&mut self, key: &FlowKey, station: StationId) -> Touched {
        let hash = self.hash(key);
        if let Some(&slot) = self.index.find(hash, |&slot| self.slots[slot as usize].key == *key) {
            self.make_newest(slot);
            return Touched::Known(slot);
        }
        if self.len >= self.max {
            return Touched::Full;
        }
        let slot = match self.free.pop() {
            Some(slot) => {
                let generation = self.slots[slot as usize].generation + 1;
                self.slots[slot as usize] = Flow::new(*key, hash, generation, station);
                slot
            }
            None => {
                self.slots.push(Flow::new(*key, hash, 0, station));
                (self.slots.len() - 1) as u32
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |&slot| slots[slot as usize].hash);
        self.len += 1;
        self.link_newest(slot);
        Touched::New(slot)
    }

    pub fn find(&self, key: &FlowKey) -> Option<u32> {
        self.index.find(self.hash(key), |&slot| self.slots[slot as usize].key == *key).copied()
    }

    fn make_newest(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link_newest(slot);
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let old = self.newest;
        self.slots[slot as usize].lru_prev = NONE;
        self.slots[slot as usize].lru_next = old;
        match self.slots.get_mut(old as usize) {
            Some(flow) => flow.lru_prev = slot,
            None => self.oldest = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let (prev, next) = (self.slots[slot as usize].lru_prev, self.slots[slot as usize].lru_next);
        match self.slots.get_mut(prev as usize) {
            Some(flow) => flow.lru_next = next,
            None => self.newest = next,
        }
        match self.slots.get_mut(next as usize) {
            Some(flow) => flow.lru_prev = prev,
            None => self.oldest = prev,
        }
    }

    /// The flow to evict: the longest idle. Of the eight longest idle, one that holds nothing goes first.
    pub fn oldest(&self) -> Option<u32> {
        let mut slot = self.oldest;
        for _ in 0..8 {
            let Some(flow) = self.slots.get(slot as usize) else { break };
            if flow.held == 0 && flow.shaped == 0 && !flow.closed {
                return Some(slot);
            }
            slot = flow.lru_prev;
        }
        (self.oldest != NONE).then_some(self.oldest)
    }

    /// Takes a flow out; its slot is used again.
    pub fn remove(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        debug_assert!(flow.live && flow.held == 0, "a flow leaves only once it holds nothing");
        flow.live = false;
        if let Ok(entry) = self.index.find_entry(flow.hash, |&other| other == slot) {
            entry.remove();
        }
        self.unlink(slot);
        self.free.push(slot);
        self.len -= 1;
    }

    /// Slots ever used: walk `0..slot_count()` and skip what [`get`](Self::get) does not give.
    pub fn slot_count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// The flow in a slot, if there is one.
    pub fn get(&self, slot: u32) -> Option<&Flow> {
        self.slots.get(slot as usize).filter(|flow| flow.live)
    }

    /// The flow in a slot that its caller got from this table in the same step.
    pub fn at(&mut self, slot: u32) -> &mut Flow {
        &mut self.slots[slot as usize]
    }

    pub fn len(&self) -> usize {
        self.len
    }
}

#[cfg(test)]
mod tests;
