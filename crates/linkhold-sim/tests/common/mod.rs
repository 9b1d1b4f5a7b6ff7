//! Scenarios for the tests, built from types: what is tested here is the simulator, not the file format.
#![allow(dead_code)]

use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::{
    AirConfig, AirTimeModel, ChannelConfig, Mac, PrimaryUserConfig, QueueConfig, SensingConfig,
    SignalsConfig, Switching,
};
use linkhold_results::{FlowRecord, LinkRecord};
use linkhold_scenario::{
    Case, FlowGroup, IpVersion, Output, Profile, ResolvedScenario, Source, Transport, Wired,
};
use linkhold_sim::endpoints::Endpoints;
use linkhold_sim::network::Network;
use linkhold_sim::path::NodeId;
use linkhold_sim::plan::Plan;
use linkhold_sim::recorder::Recorder;
use linkhold_sim::{CellBuilder, Engine, NoObserver, build};
use linkhold_tcp::{Congestion, TcpConfig};

pub fn bulk(direction: Direction) -> FlowGroup {
    FlowGroup {
        direction,
        to: None,
        stations: vec![0],
        count: 1,
        start: Instant::ZERO,
        stagger: Duration::ZERO,
        stop: None,
        transport: Transport::Tcp,
        source: Source::Bulk,
        arrivals: None,
        ip: IpVersion::V4,
    }
}

/// One downlink bulk flow over a 24 Mb/s link without silences, each way with the full rate, 100 packets of
/// DropTail.
pub fn clean(tcp: TcpConfig, rtt: Duration, duration: Duration) -> ResolvedScenario {
    ResolvedScenario {
        name: "clean".to_owned(),
        description: String::new(),
        duration,
        warm_up: Duration::ZERO,
        seed: 1,
        wired: Wired {
            rate: BitRate::from_mbps(1000),
            one_way_delay: Duration::from_nanos(rtt.as_nanos() / 2),
            jitter: Duration::ZERO,
            queue: 10_000,
        },
        mesh: None,
        radio: AirConfig {
            stations: 1,
            mac: Mac::Duplex,
            air_time: AirTimeModel::PerByte,
            measured_users: Vec::new(),
            channels: vec![ChannelConfig {
                phy_rate: BitRate::from_mbps(24),
                efficiency: Fraction::ONE,
                primary_user: None,
            }],
            initial_channel: 0,
            rate_told: true,
            switching: Switching::default(),
            signals: SignalsConfig::default(),
            sensing: None,
            station_sensing: Vec::new(),
            power: None,
            snr: None,
            retry_limit: 7,
            router: QueueConfig::fifo(100),
            station_queue: QueueConfig::fifo(1000),
        },
        traces: None,
        router_visible: true,
        host_delay: Duration::ZERO,
        host_freeze: None,
        tcp_profile: Profile::Linux,
        tcp,
        flows: vec![bulk(Direction::Downlink)],
        mechanisms: Vec::new(),
        output: Output { series_interval: Duration::from_secs(1) },
    }
}

/// The must-show radio: 0.2 s mean primary-user bursts, 20 % of the time, and 25 ms of sensing every
/// 0.5 s: about a quarter of the time silent; shared medium.
pub fn quarter_silent(congestion: Congestion, rtt: Duration, duration: Duration) -> ResolvedScenario {
    let mut scenario = clean(TcpConfig::linux(congestion), rtt, duration);
    scenario.wired.rate = BitRate::from_mbps(100);
    scenario.radio.sensing = Some(SensingConfig {
        period: Duration::from_millis(500),
        duration: Duration::from_millis(25),
        phase: Duration::ZERO,
        announced: true,
    });
    scenario.radio.channels[0].primary_user = Some(bursts(200, 800, Duration::ZERO));
    scenario.radio.mac = Mac::Shared;
    scenario
}

/// A primary user with so long bursts and pauses in the mean, ms. Each burst is noticed so late, and its end
/// at once.
pub fn bursts(on_ms: u64, off_ms: u64, late: Duration) -> PrimaryUserConfig {
    PrimaryUserConfig {
        on_mean: Duration::from_millis(on_ms),
        off_mean: Duration::from_millis(off_ms),
        fixed: false,
        detection_delay: late,
        end_detection_delay: Duration::ZERO,
    }
}

pub fn case(name: &str, scenario: ResolvedScenario) -> Case {
    Case { name: name.to_owned(), scenario }
}

/// Runs a scenario up to `end` with this mechanism, at this node, in place of its own: its flows, its link,
/// and the network as it is then.
pub fn run_tapped(
    scenario: &ResolvedScenario,
    seed: u64,
    node: NodeId,
    mechanism: Box<dyn Mechanism>,
    end: Instant,
) -> (Vec<FlowRecord>, LinkRecord, Network) {
    let plan = Plan::new(scenario, seed).expect("it is valid");
    let [down, up] = build::wired_pipes(scenario, seed);
    let air = build::air(scenario, seed).expect("it is valid");
    let stations = scenario.radio.stations;
    let mut network = CellBuilder::new(air, stations, down, up).tap(node, mechanism).build();
    let limit = build::goodput_limit(scenario, &plan);
    let recorder = Recorder::new(scenario.output.series_interval, limit, &network);
    let mut nobody = NoObserver;
    let endpoints = Endpoints::new(plan, scenario.warm_up, recorder, &mut network, &mut nobody);
    let mut engine = Engine::new(network, endpoints);
    engine.advance(end);
    let (network, endpoints) = engine.into_parts();
    let (flows, recorder, _) = endpoints.finish(end, &network);
    let link = recorder.link(end, stations, &network);
    (flows.records, link, network)
}
