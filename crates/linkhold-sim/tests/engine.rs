//! The engine and the driver of the mechanism, with a stream and a mechanism simple enough to predict.

mod common;
#[path = "common/toy.rs"]
mod toy;

use std::sync::atomic::Ordering;

use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::{
    Air, AirConfig, AirTimeModel, ChannelConfig, InSilence, Mac, PrimaryUserConfig, QueueConfig, QueueKind,
    SignalsConfig, Switching, WiredPipe,
};
use linkhold_sim::network::{Losses, Network};
use linkhold_sim::path::NodeId;
use linkhold_sim::{CellBuilder, Engine, NoObserver, Simulation};
use linkhold_tcp::Congestion;
use toy::{AskAhead, CountAsked, HoldInSilence, SteadyStream};

/// A shared 24 Mb/s channel whose primary user is there a third of the time; the router drops in silences.
fn cell() -> CellBuilder {
    let primary_user = PrimaryUserConfig {
        on_mean: Duration::from_millis(100),
        off_mean: Duration::from_millis(200),
        fixed: false,
        detection_delay: Duration::ZERO,
        end_detection_delay: Duration::ZERO,
    };
    cell_of(1, Some(primary_user))
}

fn cell_of(stations: u32, primary_user: Option<PrimaryUserConfig>) -> CellBuilder {
    let channel = ChannelConfig { phy_rate: BitRate::from_mbps(24), efficiency: Fraction::ONE, primary_user };
    let config = AirConfig {
        stations,
        mac: Mac::Shared,
        air_time: AirTimeModel::PerByte,
        measured_users: Vec::new(),
        channels: vec![channel],
        initial_channel: 0,
        rate_told: true,
        switching: Switching::default(),
        signals: SignalsConfig::default(),
        sensing: None,
        station_sensing: Vec::new(),
        power: None,
        snr: None,
        retry_limit: 7,
        router: QueueConfig { kind: QueueKind::Fifo { limit: 50 }, in_silence: InSilence::Drop },
        station_queue: QueueConfig::fifo(1000),
    };
    let air = Air::new(config, 3).expect("the radio of this test is valid");
    let pipe = || WiredPipe::new(Some(BitRate::from_mbps(100)), Duration::from_millis(1), 1000);
    CellBuilder::new(air, stations, pipe(), pipe())
}

fn network(mechanism: Box<dyn Mechanism>) -> Network {
    cell().tap(NodeId::BaseStation, mechanism).with_visible_queue().build()
}

fn behind_a_hidden_queue(mechanism: Box<dyn Mechanism>) -> Network {
    cell().tap(NodeId::BaseStation, mechanism).build()
}

fn metrics<H>(engine: &Engine<H>) -> Metrics
where
    H: linkhold_sim::Hosts,
{
    engine.network().taps()[0].mechanism().metrics()
}

/// Ten seconds of one packet a millisecond (half the channel), then time to drain.
fn stream_over(mut network: Network) -> Engine<SteadyStream> {
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    engine.advance(Instant::from_millis(30_000));
    engine
}

#[test]
fn a_plain_router_loses_what_comes_in_silences_and_keeps_order() {
    let engine = stream_over(cell().build());
    let (sent, received) = (engine.hosts().sent, &engine.hosts().received);
    assert_eq!(sent, 10_000);
    assert!(received.len() < 8_000, "{} came through", received.len());
    assert!(received.is_sorted());
    assert_eq!(u64::from(sent) - received.len() as u64, engine.network().losses().queue);
    assert_eq!(engine.network().packets_inside(), 0);
}

#[test]
fn a_case_without_mechanism_has_no_tap() {
    let rtt = Duration::from_millis(20);
    let mut scenario = common::quarter_silent(Congestion::Cubic, rtt, Duration::from_secs(1));
    for mechanisms in [Vec::new(), vec![DsaSyncConfig::default().into()]] {
        scenario.mechanisms = mechanisms;
        let case = common::case("taps", scenario.clone());
        let mut observer = NoObserver;
        let simulation = Simulation::new(&case, 1, &mut observer).expect("the scenario is valid");
        assert_eq!(simulation.engine().network().taps().len(), scenario.mechanisms.len());
    }
}

#[test]
fn a_packet_has_only_the_taps_on_its_way_asked_for_their_next_timeout() {
    let places = [
        NodeId::Correspondent,
        NodeId::BaseStation,
        NodeId::Station(StationId(0)),
        NodeId::Station(StationId(1)),
    ];
    let taps = places.map(|place| (place, CountAsked::default()));
    let asked = taps.each_ref().map(|(_, mechanism)| mechanism.asked.clone());
    let mut network = taps
        .into_iter()
        .fold(cell_of(2, None), |cell, (place, mechanism)| cell.tap(place, Box::new(mechanism)))
        .build();
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(1_000), &mut network);
    let mut engine = Engine::new(network, stream);
    // All are asked when the radio tells its rate.
    engine.advance(Instant::ZERO);
    let before = asked.each_ref().map(|asked| asked.load(Ordering::Relaxed));
    engine.advance(Instant::from_millis(2_000));
    assert_eq!(engine.hosts().received.len(), 1_000, "there is no silence");
    for ((place, asked), before) in places.iter().zip(asked).zip(before) {
        let times = asked.load(Ordering::Relaxed) - before;
        // Every packet, and an ACK for every second one, goes to or from station 0.
        let expected = if *place == NodeId::Station(StationId(1)) { 0..=0 } else { 1_000..=1_500 };
        assert!(expected.contains(&times), "{times} times at {place:?}");
    }
}

#[test]
fn reclaimed_and_held_packets_come_out_in_order_and_none_is_lost() {
    let engine = stream_over(network(Box::new(HoldInSilence::default())));
    let expected: Vec<u32> = (0..10_000).collect();
    assert!(engine.hosts().received == expected, "{} of 10000, in order", engine.hosts().received.len());
    let metrics = metrics(&engine);
    assert!(metrics.holds > 2_000, "{} held", metrics.holds);
    assert_eq!(metrics.holds, metrics.released);
    assert_eq!(engine.network().losses().queue, 0);
    assert_eq!(engine.network().packets_inside(), 0);
}

#[test]
fn dsasync_keeps_order_and_loses_nothing_that_fits_its_buffer() {
    for config in [DsaSyncConfig::default(), DsaSyncConfig::paper(), DsaSyncConfig::hold_only()] {
        let engine = stream_over(network(Box::new(DsaSync::new(&config).unwrap())));
        let expected: Vec<u32> = (0..10_000).collect();
        assert!(engine.hosts().received == expected, "{} of 10000, in order", engine.hosts().received.len());
        assert!(metrics(&engine).holds > 2_000);
        assert_eq!(engine.network().losses(), Losses::default());
        assert_eq!(engine.network().packets_inside(), 0);
    }
}

#[test]
fn behind_a_hidden_queue_no_room_is_told_and_nothing_is_taken_back() {
    let mut network = behind_a_hidden_queue(Box::new(HoldInSilence::default()));
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    engine.advance(Instant::from_millis(30_000));
    let metrics = metrics(&engine);
    assert!(metrics.holds > 2_000, "{} held", metrics.holds);
    assert_eq!(metrics.released, 0, "it waits for room");
    assert_eq!(
        metrics.packets,
        u64::from(engine.hosts().sent) + u64::from(engine.hosts().acks),
        "each seen once"
    );
    assert!(engine.hosts().received.is_sorted());
}

#[test]
fn dsasync_paces_its_releases_into_a_hidden_queue() {
    let mechanism = DsaSync::new(&DsaSyncConfig::hold_only()).unwrap();
    let mut network = behind_a_hidden_queue(Box::new(mechanism));
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    engine.advance(Instant::from_millis(30_000));
    assert!(engine.hosts().received.is_sorted(), "in order");
    // What waited in the queue when a silence began stays there, and the releases' pace leaves it room. A
    // queue of 50 packets still overflows where arrivals and a release meet.
    assert!(engine.hosts().received.len() > 9_900, "{} of 10000", engine.hosts().received.len());
    assert!(metrics(&engine).holds > 2_000);
}

const STATION: NodeId = NodeId::Station(StationId(0));

#[test]
fn what_only_watches_stands_in_the_radio_of_an_open_cell() {
    let plain = stream_over(cell().build_open().0);
    let two = cell().tap(STATION, Box::new(AskAhead::default())).tap(STATION, Box::new(AskAhead::default()));
    let watched = stream_over(two.build_open().0);
    let (came, acks) = (watched.hosts().received.len() as u64, u64::from(watched.hosts().acks));
    assert!(watched.hosts().received == plain.hosts().received && plain.hosts().acks > 1_000);
    for tap in watched.network().taps() {
        let metrics = tap.mechanism().metrics();
        // Both directions pass it: what came over the air, and what the station sends, arrived or not.
        assert_eq!(metrics.uplink_requests, came);
        assert!(metrics.packets >= came + acks, "{metrics:?}, {came} came, {acks} answers");
        assert!(metrics.silences > 20, "{metrics:?}");
    }
}

#[test]
#[should_panic(expected = "stands at a station, not at BaseStation")]
fn an_open_cell_has_no_place_at_its_base_station() {
    let _ = cell().tap(NodeId::BaseStation, Box::new(AskAhead::default())).build_open();
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "hold-in-silence only watches here")]
fn an_open_cell_carries_out_no_verdict() {
    let (network, _) = cell().tap(STATION, Box::new(HoldInSilence::default())).build_open();
    stream_over(network);
}

#[test]
fn flushing_lets_go_of_every_packet() {
    let mut network = network(Box::new(HoldInSilence::default()));
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    // At any time and in any state of the radio, held packets leave, and packets that the router drops are
    // freed.
    for until in [1_000, 1_050, 1_100, 4_242] {
        engine.advance(Instant::from_millis(until));
        let now = engine.now();
        engine.with_hosts(now, |_, network| network.flush(now));
        assert!(!engine.network().taps()[0].mechanism().is_holding());
    }
    engine.advance(Instant::from_millis(30_000));
    assert_eq!(engine.network().packets_inside(), 0);
}

#[test]
fn one_big_step_and_many_small_ones_are_the_same_run() {
    let coarse = stream_over(network(Box::new(HoldInSilence::default())));
    let mut network = network(Box::new(HoldInSilence::default()));
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut fine = Engine::new(network, stream);
    // As a driver on a real clock would: wait for the next event, or wake up in between.
    let mut wake = Instant::ZERO;
    while fine.now() < Instant::from_millis(30_000) {
        wake += Duration::from_micros(777);
        let until = fine.next_event_at().map_or(wake, |at| at.min(wake));
        fine.advance(until.min(Instant::from_millis(30_000)).max(fine.now()));
    }
    assert_eq!(fine.events(), coarse.events());
    assert_eq!(fine.hosts().received, coarse.hosts().received);
}
