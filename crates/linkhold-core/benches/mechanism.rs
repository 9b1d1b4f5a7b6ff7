//! What a packet costs in DSASync with 1, 1,000 and 100,000 flows: without a silence, and held and released.
//! And what one costs in look-ahead.
//!
//! An iteration without a silence is one downlink segment and its ACK, two packets. An iteration with a
//! silence holds 256 segments and releases them. The throughput is packets per second.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use core::net::IpAddr;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use linkhold_core::action::Actions;
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::look_ahead::{LookAhead, LookAheadConfig};
use linkhold_core::mechanism::{Mechanism, PlainRouter};
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, SynOptions, TcpFlags,
    TcpSegment,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction, Seq};

const MSS: u32 = 1448;
const STATIONS: u32 = 16;

struct Driver<M> {
    mechanism: M,
    keys: Vec<FlowKey>,
    next: Vec<u32>,
    turn: usize,
    now: Instant,
    out: Actions,
}

fn key(n: u32) -> FlowKey {
    FlowKey {
        correspondent: Endpoint { addr: IpAddr::from([192, 0, 2, (n % 251) as u8]), port: 443 },
        station: Endpoint { addr: IpAddr::from([10, 0, (n >> 16) as u8, (n >> 8) as u8]), port: n as u16 },
    }
}

impl<M: Mechanism> Driver<M> {
    fn new(mechanism: M, flows: u32) -> Self {
        let keys: Vec<_> = (0..flows).map(key).collect();
        let mut driver = Self {
            mechanism,
            next: vec![1; keys.len()],
            keys,
            turn: 0,
            now: Instant::ZERO,
            out: Actions::new(),
        };
        driver.link(LinkEventKind::ChannelSwitched {
            capacity: BitRate::from_mbps(1000),
            efficiency: Fraction::clamped(0.65),
        });
        let syn = SynOptions { mss: Some(1460), window_scale: Some(7), sack_permitted: true };
        for n in 0..driver.keys.len() {
            let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..TcpSegment::default() };
            let flags = TcpFlags::SYN | TcpFlags::ACK;
            let answer = TcpSegment { flags, ack: Seq(1), window: 65_535, syn, ..TcpSegment::default() };
            driver.packet(n, Direction::Downlink, &ask);
            driver.packet(n, Direction::Uplink, &answer);
        }
        driver
    }

    fn packet(&mut self, n: usize, direction: Direction, tcp: &TcpSegment) {
        let view = PacketView {
            id: PacketId(n as u64),
            direction,
            origin: Origin::Arrival,
            station: StationId(n as u32 % STATIONS),
            flow: &self.keys[n],
            tcp,
            len: tcp.payload_len + 52,
            ecn: Ecn::NotEct,
        };
        let _ = black_box(self.mechanism.on_packet(self.now, &view, &mut self.out));
        black_box(self.out.as_slice());
        self.out.clear();
        black_box(self.mechanism.next_timeout());
    }

    fn link(&mut self, kind: LinkEventKind) {
        self.mechanism.on_link(self.now, LinkEvent::at(self.now, kind), &mut self.out);
        self.out.clear();
    }

    fn data(&mut self) -> (usize, u32) {
        let n = self.turn;
        // A stride that visits every flow once a round without walking memory in order.
        self.turn = (self.turn + 7919) % self.keys.len();
        let seq = self.next[n];
        self.next[n] = seq.wrapping_add(MSS);
        self.now += Duration::from_micros(20);
        let tcp =
            TcpSegment { seq: Seq(seq), payload_len: MSS, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(n, Direction::Downlink, &tcp);
        (n, seq.wrapping_add(MSS))
    }

    fn ack(&mut self, n: usize, ack: u32) {
        let tcp = TcpSegment {
            seq: Seq(1),
            ack: Seq(ack),
            window: 4000,
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        };
        self.packet(n, Direction::Uplink, &tcp);
    }

    /// Calls the mechanism at its timeouts until it holds nothing. With the channel's rate told, it puts no
    /// more than 2 ms of data into the transmit queue at once, and the rest of a release follows at that
    /// rate.
    fn drain(&mut self) {
        while self.mechanism.is_holding() {
            let due = self.mechanism.next_timeout().expect("what is held leaves at a time");
            self.now = self.now.max(due);
            self.mechanism.on_timeout(self.now, &mut self.out);
            black_box(self.out.as_slice());
            self.out.clear();
        }
    }

    fn freeze(&mut self, on: bool) {
        let (scope, cause) = (Scope::Network, Cause::PrimaryUser);
        self.link(if on {
            LinkEventKind::FreezeStarted { scope, cause, expected: None }
        } else {
            LinkEventKind::FreezeEnded { scope, cause }
        });
    }
}

fn config() -> DsaSyncConfig {
    DsaSyncConfig { max_flows: 131_072, ..DsaSyncConfig::default() }
}

fn forward<M: Mechanism>(c: &mut Criterion, name: &str, flows: u32, mechanism: M) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(2));
    let mut driver = Driver::new(mechanism, flows);
    group.bench_function(format!("{flows}"), |b| {
        b.iter(|| {
            let (n, end) = driver.data();
            driver.ack(n, end);
        });
    });
    assert!(!driver.mechanism.is_holding(), "the channel carries what is offered");
    group.finish();
}

/// Holds 256 segments in a silence and releases them after it.
fn hold_release(c: &mut Criterion, flows: u32) {
    const BATCH: u32 = 256;
    let mut group = c.benchmark_group("dsasync-hold-release");
    group.throughput(Throughput::Elements(u64::from(BATCH)));
    let mut driver = Driver::new(DsaSync::new(&config()).expect("valid"), flows);
    group.bench_function(format!("{flows}"), |b| {
        b.iter(|| {
            driver.freeze(true);
            for _ in 0..BATCH {
                driver.data();
            }
            assert!(driver.mechanism.is_holding());
            driver.freeze(false);
            driver
                .link(LinkEventKind::TransmitRoom { packets: BATCH, bytes: Bytes(u64::from(BATCH) * 2000) });
            driver.drain();
        });
    });
    group.finish();
}

fn mechanism(c: &mut Criterion) {
    for flows in [1, 1_000, 100_000] {
        forward(c, "none-forward", flows, PlainRouter::default());
        forward(c, "dsasync-forward", flows, DsaSync::new(&config()).expect("valid"));
        hold_release(c, flows);
    }
    // A host has no more connections than this.
    for flows in [1, 1_000] {
        let config = LookAheadConfig { max_flows: 1_024, ..LookAheadConfig::default() };
        forward(c, "look-ahead-forward", flows, LookAhead::new(&config));
    }
}

criterion_group!(benches, mechanism);
criterion_main!(benches);
