//! A sender that heeds no window beside a TCP download: what `hping3 -A -d 1400` does to a cell.
//!
//! Plan: one download with the `linux` profile over 50 Mb/s and 20 or 100 ms of wire, for 3 s alone, 5 s
//! beside a flood with the rate of the radio or twice that, and 3 s alone again. The flood's ports change
//! with every packet; its station says nothing, or resets. The agent is told the radio's rate, or nobody
//! tells //! it (its default configuration); in some rows the radio is silent for 0.3 s of each second.
//! Check: beside the flood the download has at least 0.45 of what the radio can carry outside its silences,
//! no window is closed, and a second after the flood it is as fast as before.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::mechanism::Metrics;
use linkhold_core::packet::{
    Direction, Ecn, Endpoint as Address, FlowKey, PacketId, StationId, TcpFlags, TcpSegment,
};
use linkhold_core::settings::Registered;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Seq};
use linkhold_radio::{Air, SensingConfig, WiredPipe};
use linkhold_sim::flow::FlowIndex;
use linkhold_sim::network::Network;
use linkhold_sim::path::NodeId;
use linkhold_sim::queue::Wakeup;
use linkhold_sim::slab::{Packet, Sending};
use linkhold_sim::{CellBuilder, Engine, Hosts};
use linkhold_tcp::{Congestion, Endpoint, Source, TcpConfig};

const RATE: BitRate = BitRate::from_mbps(50);
/// Payload of the flood's packets, bytes.
const PAYLOAD: u32 = 1400;
/// Ports of the flood, used in turn.
const PORTS: u16 = 20_000;
const FLOOD: u32 = 2;

struct World {
    /// The correspondent's and the station's end of the download.
    ends: [Endpoint; 2],
    wakeups: [Wakeup; 2],
    flow: FlowIndex,
    flood: Vec<FlowIndex>,
    next: usize,
    interval: Duration,
    until: Instant,
    resets: bool,
}

fn key(port: u16, station: StationId, flood: bool) -> FlowKey {
    let end = |addr: [u8; 4], port| Address { addr: addr.into(), port };
    let far = [192, 0, 2, if flood { 9 } else { 1 }];
    let near = [10, 0, 0, 2 + station.0 as u8];
    FlowKey { correspondent: end(far, port), station: end(near, if flood { 9999 } else { 40_000 }) }
}

impl World {
    fn new(network: &mut Network, flooded: StationId) -> Self {
        let config = TcpConfig::linux(Congestion::Cubic);
        let ends = [
            Endpoint::connect(&config, Source::Bulk, Seq(1)),
            Endpoint::listen(&config, Source::None, Seq(7)),
        ];
        let flow = network.add_flow(key(443, StationId(0), false), StationId(0));
        let flood =
            (1000..1000 + PORTS).map(|port| network.add_flow(key(port, flooded, true), flooded)).collect();
        let (interval, until) = (Duration::from_millis(1), Instant::ZERO);
        Self { ends, wakeups: [Wakeup::default(); 2], flow, flood, next: 0, interval, until, resets: false }
    }

    fn pump(&mut self, now: Instant, side: usize, network: &mut Network) {
        while let Some(out) = self.ends[side].poll_transmit(now) {
            let direction = if side == 0 { Direction::Downlink } else { Direction::Uplink };
            let sending = Sending {
                flow: self.flow,
                direction,
                segment: out.segment,
                ecn: out.ecn,
                retransmit: out.retransmit,
            };
            network.send(now, &sending);
        }
        network.arm(&mut self.wakeups[side], self.ends[side].next_timeout(), side as u32);
    }

    fn flood(&mut self, now: Instant, length: Duration, rate: BitRate, resets: bool, network: &mut Network) {
        self.interval = Duration::from_nanos(u64::from(PAYLOAD + 40) * 8 * 1_000_000_000 / rate.as_bps());
        (self.until, self.resets) = (now + length, resets);
        network.schedule(now, FLOOD);
    }
}

impl Hosts for World {
    fn on_arrival(&mut self, now: Instant, _id: PacketId, packet: Packet, network: &mut Network) {
        if packet.flow == self.flow {
            let side = if packet.direction == Direction::Downlink { 1 } else { 0 };
            self.ends[side].on_segment(now, &packet.segment, packet.ecn);
            self.pump(now, side, network);
        } else if packet.direction == Direction::Downlink && self.resets {
            let segment =
                TcpSegment { seq: packet.segment.ack, flags: TcpFlags::RST, ..TcpSegment::default() };
            let (flow, direction) = (packet.flow, Direction::Uplink);
            network.send(now, &Sending { flow, direction, segment, ecn: Ecn::NotEct, retransmit: false });
        }
    }

    fn on_wake(&mut self, at: Instant, token: u32, network: &mut Network) -> bool {
        if token != FLOOD {
            let side = token as usize;
            if !self.wakeups[side].fire(at) {
                return false;
            }
            if self.ends[side].next_timeout().is_some_and(|due| due <= at) {
                self.ends[side].on_timeout(at);
            }
            self.pump(at, side, network);
            return true;
        }
        let segment = TcpSegment {
            seq: Seq(self.next as u32),
            ack: Seq(1),
            payload_len: PAYLOAD,
            window: 512,
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        };
        let flow = self.flood[self.next % self.flood.len()];
        self.next += 1;
        let direction = Direction::Downlink;
        network.send(at, &Sending { flow, direction, segment, ecn: Ecn::NotEct, retransmit: false });
        if at + self.interval < self.until {
            network.schedule(at + self.interval, FLOOD);
        }
        true
    }
}

/// One row of the plan.
#[derive(Clone, Copy, Debug)]
struct Row {
    rtt_ms: u64,
    /// The flood's rate, of the radio's.
    times: u64,
    resets: bool,
    rate_told: bool,
    silences: bool,
    /// The flood is for another station than the download.
    elsewhere: bool,
}

/// Silences, ms: from one's start to the next one's, the first one's start, and how long each is.
const PERIOD_MS: u64 = 1000;
const PHASE_MS: u64 = 600;
const SILENT_MS: u64 = 300;

impl Row {
    const fn told(rtt_ms: u64, times: u64, resets: bool) -> Self {
        Self { rtt_ms, times, resets, rate_told: true, silences: false, elsewhere: false }
    }

    const fn untold(rtt_ms: u64, times: u64, resets: bool) -> Self {
        Self { rate_told: false, ..Self::told(rtt_ms, times, resets) }
    }

    const fn with_silences(self) -> Self {
        Self { silences: true, ..self }
    }

    const fn elsewhere(self) -> Self {
        Self { elsewhere: true, ..self }
    }

    /// Of a time, in ms, how much the radio is not silent.
    fn on_air_ms(self, from: u64, to: u64) -> u64 {
        let is_silent = |at: u64| (at + PERIOD_MS - PHASE_MS) % PERIOD_MS < SILENT_MS;
        (from..to).filter(|&at| !(self.silences && is_silent(at))).count() as u64
    }
}

struct Shares {
    before: f64,
    beside: f64,
    after: f64,
    metrics: Metrics,
}

/// Shares that the download's payload has of what the radio can carry outside its silences.
fn shares(config: &DsaSyncConfig, row: Row) -> Shares {
    let Row { rtt_ms, times, resets, rate_told, silences, elsewhere } = row;
    let flooded = StationId(u32::from(elsewhere));
    let stations = flooded.0 + 1;
    let mut scenario = common::clean(
        TcpConfig::linux(Congestion::Cubic),
        Duration::from_millis(rtt_ms),
        Duration::from_secs(1),
    );
    scenario.radio.channels[0].phy_rate = RATE;
    scenario.radio.rate_told = rate_told;
    scenario.radio.stations = stations;
    scenario.radio.sensing = silences.then_some(SensingConfig {
        period: Duration::from_millis(PERIOD_MS),
        duration: Duration::from_millis(SILENT_MS),
        phase: Duration::from_millis(PHASE_MS),
        announced: false,
    });
    let air = Air::new(scenario.radio, 1).expect("a valid radio");
    let pipe = || WiredPipe::new(Some(BitRate::from_mbps(1000)), Duration::from_millis(rtt_ms / 2), 10_000);
    let mechanism = config.build(0).expect("valid settings");
    let cell = CellBuilder::new(air, stations, pipe(), pipe()).tap(NodeId::BaseStation, mechanism);
    let mut network = cell.build();
    let world = World::new(&mut network, flooded);
    let mut engine = Engine::new(network, world);
    engine.with_hosts(Instant::ZERO, |world, network| world.pump(Instant::ZERO, 0, network));
    let mut share = |from: u64, to: u64| {
        engine.advance(Instant::from_millis(from));
        if from == 3000 {
            let now = Instant::from_millis(from);
            let rate = BitRate::from_mbps(50 * times);
            let length = Duration::from_secs(5);
            engine.with_hosts(now, |world, network| world.flood(now, length, rate, resets, network));
        }
        let before = engine.hosts().ends[1].delivered();
        engine.advance(Instant::from_millis(to));
        let bytes = engine.hosts().ends[1].delivered() - before;
        bytes as f64 * 8.0 / (RATE.as_bps() as f64 * row.on_air_ms(from, to) as f64 / 1e3)
    };
    let before = share(1000, 3000);
    // The download was sure of the whole radio; its share comes within half a second.
    let first = share(3000, 3500);
    let (beside, after) = (share(3500, 8000), share(9000, 11_000));
    let metrics = engine.network().taps()[0].mechanism().metrics();
    println!("{row:?}: {before:.3} {first:.3} {beside:.3} {after:.3} {metrics:?}");
    Shares { before, beside, after, metrics }
}

#[test]
fn a_download_keeps_its_share_beside_a_flood_and_is_back_a_second_after_it() {
    let floods =
        [(20, 1, false), (20, 1, true), (20, 2, false), (20, 2, true), (100, 1, true), (100, 2, false)];
    let rows = [
        Row::told(20, 1, true).with_silences(),
        Row::told(20, 2, false).with_silences(),
        Row::untold(20, 1, true).with_silences(),
        Row::untold(20, 2, false).with_silences(),
        Row::told(20, 2, false).elsewhere(),
        Row::untold(20, 1, false).elsewhere(),
        Row::untold(20, 2, true).elsewhere(),
        Row::untold(100, 2, false).elsewhere(),
        Row::untold(20, 2, false).elsewhere().with_silences(),
    ];
    let told = floods.map(|(rtt_ms, times, resets)| Row::told(rtt_ms, times, resets));
    let untold = floods.map(|(rtt_ms, times, resets)| Row::untold(rtt_ms, times, resets));
    for row in told.into_iter().chain(untold).chain(rows) {
        let Shares { before, beside, after, metrics } = shares(&DsaSyncConfig::default(), row);
        // The first second of the 3 is left out, but slow start over 100 ms takes longer.
        assert!(
            before >= if row.rtt_ms > 20 { 0.9 } else { 0.96 },
            "{row:?}: {before:.3} of the radio alone"
        );
        assert!(beside >= 0.45, "{row:?}: {beside:.3} beside the flood");
        assert!(after >= 0.96, "{row:?}: {after:.3} after, {before:.3} before");
        assert_eq!(metrics.windows_closed, 0, "{row:?}");
    }
}

/// What the paper's one queue a station does there: this test would notice if the flood were harmless.
#[test]
fn one_queue_for_all_leaves_the_download_next_to_nothing() {
    let config =
        DsaSyncConfig { queues: linkhold_core::dsasync::Queues::Station, ..DsaSyncConfig::default() };
    let Shares { beside, .. } = shares(&config, Row::told(20, 2, false));
    assert!(beside < 0.2, "{beside:.3}");
}
