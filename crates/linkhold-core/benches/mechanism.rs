//! What a packet costs in DSASync with 1, 1,000 and 100,000 flows: without a silence, and held and released.
//! And what one costs in each of the other mechanisms, and a silence in cr-aware and snr-gate.
//!
//! An iteration without a silence is one segment and its ACK, two packets: the segment goes down, or up where
//! the mechanism is one of a host that sends. An iteration with a silence holds 256 segments in DSASync and
//! releases them; in cr-aware and snr-gate it stops every flow of the host and lets it go on. The throughput
//! is packets per second, of these two flows per second.
#![allow(missing_docs, reason = "criterion's macros make undocumented items")]

use core::net::IpAddr;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use linkhold_core::action::Actions;
use linkhold_core::cr_aware::{CrAware, CrAwareConfig};
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::local_recovery::{LocalRecovery, LocalRecoveryConfig, LocalResend, LocalResendConfig};
use linkhold_core::look_ahead::{LookAhead, LookAheadConfig};
use linkhold_core::mechanism::{Mechanism, PlainRouter};
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, SynOptions, TcpFlags,
    TcpSegment,
};
use linkhold_core::snr_gate::{SnrGate, SnrGateConfig};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction, Seq};

const MSS: u32 = 1448;
const STATIONS: u32 = 16;

struct Driver<M> {
    mechanism: M,
    /// Where segments go; their ACKs go the other way.
    sends: Direction,
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
    fn new(mechanism: M, sends: Direction, flows: u32) -> Self {
        let keys: Vec<_> = (0..flows).map(key).collect();
        let mut driver = Self {
            mechanism,
            sends,
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
            driver.packet(n, driver.sends, &ask);
            driver.packet(n, driver.sends.opposite(), &answer);
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
        self.packet(n, self.sends, &tcp);
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
        self.packet(n, self.sends.opposite(), &tcp);
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

fn forward<M: Mechanism>(c: &mut Criterion, name: &str, sends: Direction, flows: u32, mechanism: M) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(2));
    let mut driver = Driver::new(mechanism, sends, flows);
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
    let mut driver = Driver::new(DsaSync::new(&config()).expect("valid"), Direction::Downlink, flows);
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

/// Stops every flow of a host, and lets it go on.
fn stop_and_go<M: Mechanism>(
    c: &mut Criterion,
    name: &str,
    flows: u32,
    mechanism: M,
    stop: &[LinkEventKind],
    go: &[LinkEventKind],
) {
    let mut group = c.benchmark_group(name);
    group.throughput(Throughput::Elements(u64::from(flows)));
    let mut driver = Driver::new(mechanism, Direction::Uplink, flows);
    // A flow that never sent has nothing to stop.
    for _ in 0..flows {
        let (n, end) = driver.data();
        driver.ack(n, end);
    }
    let tell = |driver: &mut Driver<M>, kinds: &[LinkEventKind]| {
        for &kind in kinds {
            driver.now += Duration::from_millis(100);
            driver.mechanism.on_link(driver.now, LinkEvent::at(driver.now, kind), &mut driver.out);
        }
    };
    // A signal that is weak from the start says nothing of a host that moves.
    tell(&mut driver, go);
    group.bench_function(format!("{flows}"), |b| {
        b.iter(|| {
            for kinds in [stop, go] {
                tell(&mut driver, kinds);
                assert!(!driver.out.as_slice().is_empty(), "every flow hears of it");
                driver.out.clear();
            }
        });
    });
    group.finish();
}

/// A sample of a host's radio.
fn snr(db: f32) -> LinkEventKind {
    LinkEventKind::Snr { station: StationId(0), db }
}

fn mechanism(c: &mut Criterion) {
    let (down, up) = (Direction::Downlink, Direction::Uplink);
    for flows in [1, 1_000, 100_000] {
        forward(c, "none-forward", down, flows, PlainRouter::default());
        forward(c, "dsasync-forward", down, flows, DsaSync::new(&config()).expect("valid"));
        hold_release(c, flows);
        let config = LocalRecoveryConfig { max_flows: 131_072, ..LocalRecoveryConfig::default() };
        forward(c, "local-recovery-forward", down, flows, LocalRecovery::new(&config));
    }
    // A host has no more connections than this.
    for flows in [1, 1_000] {
        let config = LookAheadConfig { max_flows: 1_024, ..LookAheadConfig::default() };
        forward(c, "look-ahead-forward", down, flows, LookAhead::new(&config));
        let config = LocalResendConfig { max_flows: 1_024, ..LocalResendConfig::default() };
        forward(c, "local-resend-forward", up, flows, LocalResend::new(&config));
        let config = CrAwareConfig { max_flows: 1_024, ..CrAwareConfig::default() };
        forward(c, "cr-aware-forward", up, flows, CrAware::new(&config));
        let (scope, cause) = (Scope::Network, Cause::PrimaryUser);
        let stop = LinkEventKind::FreezeStarted { scope, cause, expected: None };
        let go = LinkEventKind::FreezeEnded { scope, cause };
        stop_and_go(c, "cr-aware-freeze-thaw", flows, CrAware::new(&config), &[stop], &[go]);
        let config = SnrGateConfig { max_flows: 1_024, ..SnrGateConfig::default() };
        forward(c, "snr-gate-forward", up, flows, SnrGate::new(&config));
        // The gate shuts at a weak sample after a second of strong ones.
        let (weak, strong) = ([snr(2.0)], [snr(12.0); 10]);
        stop_and_go(c, "snr-gate-shut-open", flows, SnrGate::new(&config), &weak, &strong);
    }
}

criterion_group!(benches, mechanism);
criterion_main!(benches);
