//! Both ends of one TCP connection, as simple as the properties need: a sender that keeps to the window it
//! was told, a receiver that acknowledges what arrived and never takes an offered window back.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::VecDeque;

use linkhold_core::packet::{
    Endpoint, FlowKey, SackBlock, SackBlocks, StationId, SynOptions, TcpFlags, TcpSegment, TcpTimestamp,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;

pub const MSS: u32 = 1448;

/// How a connection is set up.
#[derive(Clone, Copy, Debug)]
pub struct FlowPlan {
    pub station: u32,
    pub v6: bool,
    /// Window shift of the station; none: no window scaling.
    pub shift: Option<u8>,
    pub timestamps: bool,
    pub sack: bool,
    pub ecn: bool,
    /// Every segment carries a signature.
    pub signed: bool,
    /// The handshake passes the base station; else the flow is first seen in the middle.
    pub handshake: bool,
    /// The correspondent opens the connection; else the station does.
    pub pushed: bool,
    pub iss: u32,
    /// From a packet that passes to the correspondent's answer, at least: the true wired round trip.
    pub wire: Duration,
    /// How long a tick of both ends' timestamp clocks is.
    pub tick: Duration,
}

/// The window a sender has been told (RFC 9293 section 3.10.7.4: SND.WL1, SND.WL2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub window: u64,
    seq: Seq,
    pub ack: Seq,
    any: bool,
}

/// Held bytes: of SYNs without data that arrived, and of the rest; of SYNs that came back, of neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    pub syns: u64,
    pub rest: u64,
}

impl core::ops::AddAssign for Parts {
    fn add_assign(&mut self, other: Self) {
        self.syns += other.syns;
        self.rest += other.rest;
    }
}

impl core::ops::SubAssign for Parts {
    fn sub_assign(&mut self, other: Self) {
        self.syns -= other.syns;
        self.rest -= other.rest;
    }
}

#[derive(Debug)]
pub struct Flow {
    pub key: FlowKey,
    pub plan: FlowPlan,
    // The correspondent's side.
    pub snd_nxt: Seq,
    pub told: Told,
    /// Furthest right edge the sender was told, unscaled.
    pub told_edge: Option<Seq>,
    // The station's side.
    pub rcv_nxt: Seq,
    pub offered_edge: Seq,
    pub up_nxt: Seq,
    /// The station's latest segments with payload: number and length.
    up_data: VecDeque<(Seq, u32)>,
    /// What of the station's stream passed the base station.
    pub ch_rcv: Seq,
    /// What passed and has yet to be known to the correspondent: when it will be, how far the station's
    /// stream came, and the timestamp.
    wire: VecDeque<(Instant, Seq, Option<u32>)>,
    /// What of the station's stream the correspondent acknowledges.
    heard: Seq,
    /// Right edge of the furthest window that the correspondent has sent.
    up_edge: Seq,
    echo: u32,
    clock: u32,
    pub over: bool,
    /// The station has left: it says nothing more.
    pub gone: bool,
    /// The correspondent has reset it: whoever saw that knows it no more.
    pub reset: bool,
    /// The station has acknowledged something after the handshake.
    pub answered: bool,
    /// What is held of it.
    pub held_parts: Parts,
    /// Held downlink packets: bytes, and what they weigh in the hold buffer.
    pub held: u64,
    pub held_weight: u64,
    /// ACK and window fields that the station sent, as they came to the base station.
    pub offers: Vec<(Seq, u16)>,
    /// ACK and window fields that the correspondent sent, as they came to the base station.
    pub down_offers: Vec<(Seq, u16)>,
    /// Furthest right edge that the station was told of the correspondent's window, after the handshake.
    pub down_edge: Option<Seq>,
    /// Garbage was sent on it: only the properties that hold for garbage are asked.
    pub spoilt: bool,
}

impl Flow {
    pub fn new(index: usize, plan: FlowPlan) -> Self {
        let (number, host) = (index as u16, plan.station as u8);
        let (far, near): (IpAddr, IpAddr) = if plan.v6 {
            let net = |host: u16| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host).into();
            (net(0x100), net(u16::from(host) + 1))
        } else {
            (Ipv4Addr::new(192, 0, 2, 1).into(), Ipv4Addr::new(10, 0, 0, host + 1).into())
        };
        let (iss, up_nxt) = (Seq(plan.iss), Seq(plan.iss ^ 0x5555_5555) + 1);
        let before = (Instant::ZERO + plan.wire.mul_f64(0.5), up_nxt, Some(1));
        Self {
            key: FlowKey {
                correspondent: Endpoint { addr: far, port: 443 },
                station: Endpoint { addr: near, port: 40_000 + number },
            },
            plan,
            snd_nxt: iss + 1,
            told: Told::default(),
            rcv_nxt: iss + 1,
            offered_edge: iss + 1 + 60_000,
            up_nxt,
            // A connection seen from the middle has sent something already, which has yet to be answered.
            up_data: if plan.handshake { VecDeque::new() } else { VecDeque::from([(up_nxt - 100, 100)]) },
            ch_rcv: up_nxt,
            wire: if plan.handshake { VecDeque::new() } else { VecDeque::from([before]) },
            heard: if plan.handshake { up_nxt - 1 } else { up_nxt - 100 },
            up_edge: up_nxt + 60_000,
            echo: 0,
            told_edge: None,
            clock: 1,
            over: false,
            gone: false,
            reset: false,
            answered: false,
            held_parts: Parts::default(),
            held: 0,
            held_weight: 0,
            offers: Vec::new(),
            down_offers: Vec::new(),
            down_edge: None,
            spoilt: false,
        }
    }

    pub fn station(&self) -> StationId {
        StationId(self.plan.station)
    }

    /// The shift in force: the correspondent offers window scaling always, so the station decides.
    pub fn shift(&self) -> u8 {
        self.plan.shift.unwrap_or(0)
    }

    /// The correspondent's: it offers 7 if the station scales, too.
    pub fn down_shift(&self) -> u8 {
        if self.plan.shift.is_some() { 7 } else { 0 }
    }

    /// The station hears of a window of the correspondent's; `changed`: not as the correspondent sent it.
    pub fn on_down_told(&mut self, ack: Seq, window: u16, changed: bool) {
        let edge = ack + (u32::from(window) << self.down_shift());
        if !self.spoilt && self.plan.handshake {
            // Probes and copies of the correspondent's own may tell less than is known.
            if let Some(told) = self.down_edge.filter(|_| changed) {
                let back = told.minus(edge);
                assert!(back < 1 << self.down_shift(), "a right edge of the uplink receded by {back} bytes");
            }
            self.down_edge = Some(self.down_edge.map_or(edge, |told| told.max(edge)));
        }
    }

    /// Time has come this far: what is on the wire arrives, and clocks tick.
    pub fn at(&mut self, now: Instant) -> &mut Self {
        while let Some(&(_, end, timestamp)) = self.wire.front().filter(|(at, ..)| *at <= now) {
            self.wire.pop_front();
            self.heard = self.heard.max(end);
            self.echo = timestamp.unwrap_or(self.echo);
        }
        self.clock = 1 + (now.since(Instant::ZERO).as_micros() / self.plan.tick.as_micros()) as u32;
        self
    }

    /// A packet of the station passes the base station for the correspondent.
    pub fn on_passed(&mut self, now: Instant, end: Seq, timestamp: Option<TcpTimestamp>) {
        self.ch_rcv = self.ch_rcv.max(end);
        self.wire.push_back((now + self.plan.wire, end, timestamp.map(|timestamp| timestamp.value)));
    }

    fn timestamp(&self, echo: u32) -> Option<TcpTimestamp> {
        self.plan.timestamps.then_some(TcpTimestamp { value: self.clock, echo })
    }

    /// What the station and the correspondent say to open the connection; whoever opens it first.
    pub fn handshake(&self) -> (TcpSegment, TcpSegment) {
        let plan = self.plan;
        let (ecn_ask, ecn_answer) = if self.plan.ecn {
            (TcpFlags::ECE | TcpFlags::CWR, TcpFlags::ECE)
        } else {
            (TcpFlags::default(), TcpFlags::default())
        };
        let options =
            |window_scale| SynOptions { mss: Some(MSS as u16), window_scale, sack_permitted: plan.sack };
        // RFC 7323 section 2.2: an answer carries the option only if the SYN did. The correspondent offers it
        // always.
        let (pushed, shift) = (plan.pushed, plan.shift);
        let (from_station, from_correspondent) =
            (options(shift), options(if pushed { Some(7) } else { shift.map(|_| 7) }));
        let [asks, answers] = [TcpFlags::SYN | ecn_ask, TcpFlags::SYN | TcpFlags::ACK | ecn_answer];
        let station = TcpSegment {
            seq: self.up_nxt - 1,
            ack: if pushed { self.snd_nxt } else { Seq(0) },
            window: 60_000,
            flags: if pushed { answers } else { asks },
            syn: from_station,
            timestamp: self.timestamp(0),
            signed: self.plan.signed,
            ..TcpSegment::default()
        };
        let correspondent = TcpSegment {
            seq: self.snd_nxt - 1,
            ack: if pushed { Seq(0) } else { self.up_nxt },
            window: 65_535,
            flags: if pushed { asks } else { answers },
            syn: from_correspondent,
            timestamp: self.timestamp(self.echo),
            signed: self.plan.signed,
            ..TcpSegment::default()
        };
        (station, correspondent)
    }

    fn data(&mut self, seq: Seq, payload_len: u32, flags: TcpFlags) -> TcpSegment {
        let window = if self.down_shift() > 0 { 500 } else { 60_000 };
        self.up_edge = self.up_edge.max(self.heard + (window << self.down_shift()));
        TcpSegment {
            seq,
            ack: self.heard,
            payload_len,
            window: window as u16,
            flags: flags | TcpFlags::ACK,
            timestamp: self.timestamp(self.echo),
            signed: self.plan.signed,
            ..TcpSegment::default()
        }
    }

    /// A connection that nobody opened, from a port of its own.
    pub fn stranger(index: usize, plan: FlowPlan) -> Self {
        Self { spoilt: true, ..Self::new(index, FlowPlan { handshake: false, signed: false, ..plan }) }
    }

    /// The next segment, of `payload_len` bytes, whatever window the sender was told.
    pub fn unasked(&mut self, payload_len: u32) -> TcpSegment {
        let segment = self.data(self.snd_nxt, payload_len, TcpFlags::default());
        self.snd_nxt += payload_len;
        segment
    }

    /// A segment that the sender sent before, or that covers what it sent.
    pub fn again(&mut self, seq: Seq) -> TcpSegment {
        self.again_of(seq, MSS)
    }

    /// The same with up to `most` bytes.
    pub fn again_of(&mut self, seq: Seq, most: u32) -> TcpSegment {
        let unacknowledged = self.snd_nxt.minus(seq).max(0) as u32;
        self.data(seq, most.min(unacknowledged), TcpFlags::default())
    }

    /// The station sends one of its latest segments once more.
    pub fn resend(&mut self, nth: usize) -> Option<TcpSegment> {
        let (seq, payload_len) = *self.up_data.get(nth % self.up_data.len().max(1))?;
        Some(TcpSegment { seq, payload_len, ..self.acknowledge(0, 0, false) })
    }

    /// An ACK of what the station sent.
    pub fn answer(&mut self) -> TcpSegment {
        self.data(self.snd_nxt, 0, TcpFlags::default())
    }

    /// The correspondent's next segment, if the window it was told has room for it.
    pub fn next_data(&mut self) -> Option<TcpSegment> {
        let in_flight = self.snd_nxt.minus(self.told.ack);
        let room = self.told.window as i64 - i64::from(in_flight);
        if self.over || !self.told.any || room < i64::from(MSS) {
            return None;
        }
        let segment = self.data(self.snd_nxt, MSS, TcpFlags::default());
        self.snd_nxt += MSS;
        Some(segment)
    }

    /// Sends the `nth` unacknowledged segment again.
    pub fn retransmit(&mut self, nth: u32) -> Option<TcpSegment> {
        let segments = self.snd_nxt.minus(self.told.ack) / MSS as i32;
        if self.over || !self.told.any || segments <= 0 {
            return None;
        }
        let seq = self.snd_nxt - MSS * (1 + nth % segments as u32);
        Some(self.data(seq, MSS, TcpFlags::default()))
    }

    /// A window probe as Linux sends it: empty, one below what is acknowledged. Nobody asks for a window
    /// before one was told.
    pub fn probe(&mut self) -> Option<TcpSegment> {
        self.told.any.then(|| self.data(self.told.ack - 1, 0, TcpFlags::default()))
    }

    /// Ends the connection from the correspondent: FIN with everything sent, or RST.
    pub fn end(&mut self, reset: bool) -> Option<TcpSegment> {
        if self.over {
            return None;
        }
        self.over = true;
        self.reset = reset;
        let flags = if reset { TcpFlags::RST } else { TcpFlags::FIN };
        Some(self.data(self.snd_nxt, 0, flags))
    }

    /// The air brought a segment to the station, which takes what lies in its window (RFC 9293 section
    /// 3.10.7.4).
    pub fn on_delivered(&mut self, tcp: &TcpSegment) {
        let end = tcp.seq_end().min(self.offered_edge);
        if !tcp.seq.after(self.rcv_nxt) && end.after(self.rcv_nxt) && !tcp.seq_end().after(self.snd_nxt) {
            self.rcv_nxt = end;
        }
    }

    /// The station acknowledges what it has, with `payload_len` bytes of its own if the correspondent's
    /// window has room for them; its window is `grow` bytes
    /// beyond what it has, or what it has offered already.
    pub fn acknowledge(&mut self, grow: u32, payload_len: u32, sack_hole: bool) -> TcpSegment {
        let payload_len = if (self.up_nxt + payload_len).after(self.up_edge) { 0 } else { payload_len };
        // A SYN's window is unscaled and a field has 16 bits.
        let most = 65_535u32 << self.shift();
        self.offered_edge = self.offered_edge.max(self.rcv_nxt + grow.min(most));
        let window = (self.offered_edge.minus(self.rcv_nxt).max(0) as u32).min(most) >> self.shift();
        let mut sack = SackBlocks::EMPTY;
        if sack_hole && self.plan.sack && self.snd_nxt.minus(self.rcv_nxt) > 2 * MSS as i32 {
            sack.push(SackBlock { left: self.rcv_nxt + MSS, right: self.rcv_nxt + 2 * MSS });
        }
        let segment = TcpSegment {
            seq: self.up_nxt,
            ack: self.rcv_nxt,
            payload_len,
            window: window as u16,
            flags: TcpFlags::ACK,
            timestamp: self.timestamp(self.clock),
            sack,
            signed: self.plan.signed,
            ..TcpSegment::default()
        };
        if payload_len > 0 {
            self.up_data.push_back((self.up_nxt, payload_len));
            if self.up_data.len() > 4 {
                self.up_data.pop_front();
            }
        }
        self.up_nxt += payload_len;
        segment
    }

    /// A window reached the correspondent.
    pub fn on_told(&mut self, seq: Seq, ack: Seq, window: u16, is_syn: bool) {
        let shift = if is_syn { 0 } else { self.shift() };
        // As Linux does (`tcp_may_update_window`): an ACK of something new counts although its segment was
        // sent again.
        let newer = !self.told.any
            || ack.after(self.told.ack)
            || (ack == self.told.ack && !seq.before(self.told.seq));
        if newer {
            self.told =
                Told { window: u64::from(window) << shift, seq, ack: self.told.ack_max(ack), any: true };
        }
    }
}

impl Told {
    fn ack_max(&self, ack: Seq) -> Seq {
        if self.any { self.ack.max(ack) } else { ack }
    }
}
