//! Both ends of one TCP connection, as simple as the properties need: a sender that keeps to the window it
//! was told, a receiver that acknowledges what arrived and never takes an offered window back.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkhold_core::packet::{
    Endpoint, FlowKey, SackBlock, SackBlocks, StationId, SynOptions, TcpFlags, TcpSegment, TcpTimestamp,
};
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
}

/// The window a sender has been told (RFC 9293 section 3.10.7.4: SND.WL1, SND.WL2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    pub window: u64,
    seq: Seq,
    pub ack: Seq,
    any: bool,
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
    /// What of the station's stream reached the correspondent.
    pub ch_rcv: Seq,
    clock: u32,
    pub over: bool,
    /// ACK and window fields that the station sent, as they came to the base station.
    pub offers: Vec<(Seq, u16)>,
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
        let iss = Seq(plan.iss);
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
            up_nxt: Seq(plan.iss ^ 0x5555_5555) + 1,
            ch_rcv: Seq(plan.iss ^ 0x5555_5555) + 1,
            told_edge: None,
            clock: 1,
            over: false,
            offers: Vec::new(),
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

    fn timestamp(&mut self) -> Option<TcpTimestamp> {
        self.clock += 1;
        let clock = self.clock;
        self.plan.timestamps.then_some(TcpTimestamp { value: clock, echo: clock - 1 })
    }

    /// What the station and the correspondent say to open the connection; whoever opens it first.
    pub fn handshake(&mut self) -> (TcpSegment, TcpSegment) {
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
            timestamp: self.timestamp(),
            signed: self.plan.signed,
            ..TcpSegment::default()
        };
        let correspondent = TcpSegment {
            seq: self.snd_nxt - 1,
            ack: if pushed { Seq(0) } else { self.up_nxt },
            window: 65_535,
            flags: if pushed { asks } else { answers },
            syn: from_correspondent,
            timestamp: self.timestamp(),
            signed: self.plan.signed,
            ..TcpSegment::default()
        };
        (station, correspondent)
    }

    fn data(&mut self, seq: Seq, payload_len: u32, flags: TcpFlags) -> TcpSegment {
        TcpSegment {
            seq,
            ack: self.ch_rcv,
            payload_len,
            window: 500,
            flags: flags | TcpFlags::ACK,
            timestamp: self.timestamp(),
            signed: self.plan.signed,
            ..TcpSegment::default()
        }
    }

    /// A connection that nobody opened, from a port of its own.
    pub fn stranger(index: usize, plan: FlowPlan) -> Self {
        Self { spoilt: true, ..Self::new(index, FlowPlan { handshake: false, signed: false, ..plan }) }
    }

    /// The next segment, whatever window the sender was told.
    pub fn unasked(&mut self) -> TcpSegment {
        let segment = self.data(self.snd_nxt, MSS, TcpFlags::default());
        self.snd_nxt += MSS;
        segment
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

    /// A window probe as Linux sends it: empty, one below what is acknowledged.
    pub fn probe(&mut self) -> TcpSegment {
        let seq = self.told.ack - 1;
        self.data(seq, 0, TcpFlags::default())
    }

    /// Ends the connection from the correspondent: FIN with everything sent, or RST.
    pub fn end(&mut self, reset: bool) -> Option<TcpSegment> {
        if self.over {
            return None;
        }
        self.over = true;
        let flags = if reset { TcpFlags::RST } else { TcpFlags::FIN };
        Some(self.data(self.snd_nxt, 0, flags))
    }

    /// The air brought a segment to the station.
    pub fn on_delivered(&mut self, tcp: &TcpSegment) {
        if !tcp.seq.after(self.rcv_nxt)
            && tcp.seq_end().after(self.rcv_nxt)
            && !tcp.seq_end().after(self.snd_nxt)
        {
            self.rcv_nxt = tcp.seq_end();
        }
    }

    /// The station acknowledges what it has, with `payload_len` bytes of its own; its window is `grow` bytes
    /// beyond what it has, or what it has offered already.
    pub fn acknowledge(&mut self, grow: u32, payload_len: u32, sack_hole: bool) -> TcpSegment {
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
            timestamp: self.timestamp(),
            sack,
            signed: self.plan.signed,
            ..TcpSegment::default()
        };
        self.up_nxt += payload_len;
        segment
    }

    /// A window reached the correspondent.
    pub fn on_told(&mut self, seq: Seq, ack: Seq, window: u16, is_syn: bool) {
        let shift = if is_syn { 0 } else { self.shift() };
        let newer = !self.told.any
            || self.told.seq.before(seq)
            || (self.told.seq == seq && !ack.before(self.told.ack));
        if newer && (!self.told.any || !ack.before(self.told.ack)) {
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
