//! The engine and the driver of the mechanism, with a stream and a mechanism simple enough to predict.

mod common;
#[path = "common/toy.rs"]
mod toy;

use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::mechanism::{Mechanism, PlainRouter};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::{
    Air, AirConfig, ChannelConfig, InSilence, Mac, PrimaryUserConfig, QueueConfig, QueueKind, Switching,
    WiredPipe,
};
use linkhold_sim::Engine;
use linkhold_sim::network::{Losses, Network};
use toy::{HoldInSilence, SteadyStream};

/// A shared 24 Mb/s channel whose primary user is there a third of the time; the router drops in silences.
fn network(mechanism: Box<dyn Mechanism>) -> Network {
    let primary_user = PrimaryUserConfig {
        on_mean: Duration::from_millis(100),
        off_mean: Duration::from_millis(200),
        detection_delay: Duration::ZERO,
        end_detection_delay: Duration::ZERO,
    };
    let channel = ChannelConfig {
        phy_rate: BitRate::from_mbps(24),
        efficiency: Fraction::ONE,
        primary_user: Some(primary_user),
    };
    let config = AirConfig {
        stations: 1,
        mac: Mac::Shared,
        channels: vec![channel],
        initial_channel: 0,
        switching: Switching::default(),
        sensing: None,
        station_sensing: Vec::new(),
        retry_limit: 7,
        router: QueueConfig { kind: QueueKind::Fifo { limit: 50 }, in_silence: InSilence::Drop },
        station_queue: QueueConfig::fifo(1000),
    };
    let air = Air::new(config, 3).expect("the radio of this test is valid");
    let pipe = || WiredPipe::new(Some(BitRate::from_mbps(100)), Duration::from_millis(1), 1000);
    Network::new(air, 1, pipe(), pipe(), mechanism)
}

/// Ten seconds of one packet a millisecond (half the channel), then time to drain.
fn stream_over(mechanism: Box<dyn Mechanism>) -> Engine<SteadyStream> {
    let mut network = network(mechanism);
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    engine.advance(Instant::from_millis(30_000));
    engine
}

#[test]
fn a_plain_router_loses_what_comes_in_silences_and_keeps_order() {
    let engine = stream_over(Box::new(PlainRouter::default()));
    let (sent, received) = (engine.edge().sent, &engine.edge().received);
    assert_eq!(sent, 10_000);
    assert!(received.len() < 8_000, "{} came through", received.len());
    assert!(received.is_sorted());
    assert_eq!(u64::from(sent) - received.len() as u64, engine.network().losses().queue);
    assert_eq!(engine.network().packets_inside(), 0);
}

#[test]
fn reclaimed_and_held_packets_come_out_in_order_and_none_is_lost() {
    let engine = stream_over(Box::new(HoldInSilence::default()));
    let expected: Vec<u32> = (0..10_000).collect();
    assert!(engine.edge().received == expected, "{} of 10000, in order", engine.edge().received.len());
    let metrics = engine.network().mechanism().metrics();
    assert!(metrics.holds > 2_000, "{} held", metrics.holds);
    assert_eq!(metrics.holds, metrics.released);
    assert_eq!(engine.network().losses().queue, 0);
    assert_eq!(engine.network().packets_inside(), 0);
}

#[test]
fn dsasync_keeps_order_and_loses_nothing_that_fits_its_buffer() {
    for config in [DsaSyncConfig::default(), DsaSyncConfig::paper(), DsaSyncConfig::hold_only()] {
        let engine = stream_over(Box::new(DsaSync::new(&config).unwrap()));
        let expected: Vec<u32> = (0..10_000).collect();
        assert!(engine.edge().received == expected, "{} of 10000, in order", engine.edge().received.len());
        assert!(engine.network().mechanism().metrics().holds > 2_000);
        assert_eq!(engine.network().losses(), Losses::default());
        assert_eq!(engine.network().packets_inside(), 0);
    }
}

#[test]
fn behind_a_hidden_queue_no_room_is_told_and_nothing_is_taken_back() {
    let mut network = network(Box::new(HoldInSilence::default())).with_hidden_queue();
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    engine.advance(Instant::from_millis(30_000));
    let metrics = engine.network().mechanism().metrics();
    assert!(metrics.holds > 2_000, "{} held", metrics.holds);
    assert_eq!(metrics.released, 0, "it waits for room");
    assert_eq!(
        metrics.packets,
        u64::from(engine.edge().sent) + u64::from(engine.edge().acks),
        "each seen once"
    );
    assert!(engine.edge().received.is_sorted());
}

#[test]
fn dsasync_paces_its_releases_into_a_hidden_queue() {
    let network = network(Box::new(DsaSync::new(&DsaSyncConfig::hold_only()).unwrap())).with_hidden_queue();
    let mut network = network;
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    engine.advance(Instant::from_millis(30_000));
    assert!(engine.edge().received.is_sorted(), "in order");
    // What waited in the queue when a silence was told stays there, and the pace leaves it room; a queue of 50 packets
    // still overflows where arrivals and a release meet.
    assert!(engine.edge().received.len() > 9_900, "{} of 10000", engine.edge().received.len());
    assert!(engine.network().mechanism().metrics().holds > 2_000);
}

#[test]
fn flushing_lets_go_of_every_packet() {
    let mut network = network(Box::new(HoldInSilence::default()));
    let stream = SteadyStream::new(Duration::from_millis(1), Instant::from_millis(10_000), &mut network);
    let mut engine = Engine::new(network, stream);
    // Somewhere in the run, whatever the radio does: held packets go, and what the router drops is freed.
    for until in [1_000, 1_050, 1_100, 4_242] {
        engine.advance(Instant::from_millis(until));
        let now = engine.now();
        engine.with_edge(now, |_, network| network.flush(now));
        assert!(!engine.network().mechanism().is_holding());
    }
    engine.advance(Instant::from_millis(30_000));
    assert_eq!(engine.network().packets_inside(), 0);
}

#[test]
fn one_big_step_and_many_small_ones_are_the_same_run() {
    let coarse = stream_over(Box::new(HoldInSilence::default()));
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
    assert_eq!(fine.edge().received, coarse.edge().received);
}
