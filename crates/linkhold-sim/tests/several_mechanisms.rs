//! Several mechanisms in one network, each at its own place.

mod common;

use linkhold_core::action::Resend;
use linkhold_core::cr_aware::CrAwareConfig;
use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::mechanism::Place;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::QueueConfig;
use linkhold_results::RunRecord;
use linkhold_scenario::{NoFiles, PlacedMechanism, ResolvedScenario, Scenario};
use linkhold_sim::{NoObserver, Simulation, run_case};
use linkhold_tcp::Congestion;

/// An uplink of one station on a radio that is silent for a quarter of the time, 50 ms from its
/// correspondent.
fn uplink(mechanisms: Vec<PlacedMechanism>) -> ResolvedScenario {
    let mut scenario =
        common::quarter_silent(Congestion::Cubic, Duration::from_millis(50), Duration::from_secs(20));
    scenario.flows = vec![common::bulk(Direction::Uplink)];
    scenario.radio.station_queue = QueueConfig::fifo(100);
    scenario.mechanisms = mechanisms;
    scenario
}

fn run(scenario: ResolvedScenario) -> RunRecord {
    run_case(&common::case("several", scenario), 1).expect("the scenario is valid").0
}

fn placed(settings: impl Into<PlacedMechanism>, place: Place) -> PlacedMechanism {
    PlacedMechanism { place, ..settings.into() }
}

#[test]
fn a_case_names_mechanisms_at_two_places_and_both_act() {
    let text = r#"schema = "linkhold.scenario/1"
        name = "two-places"
        duration = "20s"
        [wired]
        rtt = "50ms"
        [radio]
        phy_rate = "24Mbit/s"
        stations = 2
        primary_user = { on_mean = "300ms", off_mean = "1s" }
        [[flows]]
        direction = "downlink"
        station = 0
        [[flows]]
        direction = "uplink"
        station = 1
        [[cases]]
        name = "both"
        mechanisms = [{ name = "dsasync" }, { name = "cr-aware", at = "stations" }]
    "#;
    let scenario =
        Scenario::parse(text, "two-places.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    let (record, _) = run_case(&scenario.cases()[0], 1).expect("both can stand there");
    let [dsasync, cr_aware] = &record.mechanisms[..] else { panic!("{:?}", record.mechanisms) };
    assert_eq!((dsasync.name.as_str(), dsasync.at.as_str()), ("dsasync", "base-station"));
    assert_eq!((cr_aware.name.as_str(), cr_aware.at.as_str()), ("cr-aware", "stations"));
    assert!(dsasync.counter("holds") > 100, "the base station holds: {dsasync:?}");
    // Two stations, each told of every silence of the network.
    assert_eq!(cr_aware.counter("silences"), 2 * dsasync.counter("silences"), "each station is told");
    assert_eq!(cr_aware.counter("holds"), 0);
    // Each station's tap sees only its own flow; the base station's tap sees both.
    assert_eq!((cr_aware.counter("flows"), dsasync.counter("flows")), (2, 2));
}

#[test]
fn a_frozen_sender_has_no_timeout_in_a_silence() {
    let over_long_silences = |mechanisms| {
        let mut scenario = uplink(mechanisms);
        scenario.duration = Duration::from_secs(60);
        let user = scenario.radio.channels[0].primary_user.as_mut().expect("this radio has one");
        (user.on_mean, user.off_mean) = (Duration::from_secs(1), Duration::from_secs(2));
        run(scenario)
    };
    let plain = over_long_silences(Vec::new());
    // This station keeps what it has in a silence, so that nothing needs to go again.
    let config = CrAwareConfig { resend: Resend::Nothing, ..CrAwareConfig::default() };
    let frozen = over_long_silences(vec![placed(config, Place::Stations)]);
    let (plain, frozen) = (&plain.flows[0], &frozen.flows[0]);
    assert!(plain.rto_events > Some(10), "{:?} timeouts of the plain sender", plain.rto_events);
    assert_eq!(frozen.rto_events, Some(0));
    assert!(frozen.goodput_bps > plain.goodput_bps, "{} and {}", frozen.goodput_bps, plain.goodput_bps);
}

#[test]
fn a_correspondent_is_told_what_the_radio_does_no_sooner_than_the_wire_lets_it_know() {
    let mut scenario = uplink(vec![placed(CrAwareConfig::default(), Place::Correspondent)]);
    scenario.flows = vec![common::bulk(Direction::Downlink)];
    scenario.radio.channels[0].primary_user = None;
    let case = common::case("told late", scenario);
    let mut observer = NoObserver;
    let mut simulation = Simulation::new(&case, 1, &mut observer).expect("the scenario is valid");
    // Sensing from 0.5 s to 0.525 s; one way over the wire takes 25 ms.
    let mut silences_at = |ms| {
        simulation.advance(Instant::from_millis(ms));
        simulation.engine().network().taps()[0].mechanism().metrics().silences
    };
    let before = silences_at(524);
    assert_eq!(silences_at(526), before + 1);
}

#[test]
fn at_the_correspondent_a_stations_silence_stops_no_flow_of_another_station() {
    let text = r#"schema = "linkhold.scenario/1"
        name = "own-silences"
        duration = "8s"
        warm_up = "1s"
        [wired]
        rtt = "10ms"
        [radio]
        phy_rate = "2Mbit/s"
        mac_efficiency = 0.73
        stations = 2
        [[radio.station_sensing]]
        station = 0
        period = "1s"
        duration = "900ms"
        phase = "100ms"
        announced = false
        [router]
        queue = "fifo"
        limit = "10pkt"
        visible = false
        [[flows]]
        direction = "downlink"
        station = 1
        [[cases]]
        name = "plain"
        [[cases]]
        name = "cr-aware"
        mechanism = { name = "cr-aware", at = "correspondent" }
    "#;
    let scenario =
        Scenario::parse(text, "own-silences.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    let [plain, frozen] = [0, 1].map(|case| run_case(&scenario.cases()[case], 1).expect("it is valid").0);
    assert!(frozen.mechanisms[0].counter("silences") > 5, "{:?}", frozen.mechanisms[0]);
    let [plain, frozen] = [plain, frozen].map(|record| record.flows[0].goodput_bps);
    assert!(plain > 1e6 && frozen > 0.99 * plain, "{frozen} beside {plain} bit/s");
}

#[test]
fn a_mechanism_that_a_run_does_not_need_costs_it_nothing() {
    // Nothing on this radio is ever silent, so the senders are never told anything.
    let run = |mechanisms| {
        let mut scenario = uplink(mechanisms);
        scenario.radio.sensing = None;
        scenario.radio.channels[0].primary_user = None;
        let mut record = run(scenario);
        (record.wall_s, record.mechanisms) = (0.0, Vec::new());
        serde_json::to_string(&record).expect("a record is JSON")
    };
    assert_eq!(run(Vec::new()), run(vec![placed(CrAwareConfig::default(), Place::Stations)]));
}

#[test]
fn two_mechanisms_at_one_place_see_each_packet_once() {
    let other = DsaSyncConfig::hold_only();
    let first = placed(DsaSyncConfig::default(), Place::BaseStation);
    let both = run(uplink(vec![first, placed(other, Place::BaseStation)]));
    let [first, second] = &both.mechanisms[..] else { panic!("{:?}", both.mechanisms) };
    assert!(first.counter("packets") > 1_000);
    assert_eq!(first.counter("packets"), second.counter("packets"), "sums over both, which see the same");
    assert!(both.totals.goodput_bps > 0.8 * both.link.goodput_limit_bps, "{}", both.totals.goodput_bps);
}

/// dsasync's future work, an agent on each station: what the station cannot send waits at its source.
#[test]
fn dsasync_at_a_station_holds_what_its_host_would_send_into_a_silence() {
    let with = |mechanisms| {
        let mut scenario = uplink(mechanisms);
        // A station's driver that loses what it is given in a silence.
        scenario.radio.station_queue.in_silence = linkhold_radio::InSilence::Drop;
        run(scenario)
    };
    let plain = with(Vec::new());
    let held = with(vec![placed(DsaSyncConfig::default(), Place::Stations)]);
    let mechanism = &held.mechanisms[0];
    assert_eq!((mechanism.name.as_str(), mechanism.at.as_str()), ("dsasync", "stations"));
    assert!(mechanism.counter("holds") > 100, "{mechanism:?}");
    assert_eq!(mechanism.counter("windows_closed_now"), 0);
    let (plain, held) = (&plain.totals, &held.totals);
    assert!(held.limit_share > 0.9, "{} beside {}", held.limit_share, plain.limit_share);
    assert!(held.goodput_bps > 1.5 * plain.goodput_bps, "{} beside {}", held.limit_share, plain.limit_share);
}

/// Beside the base station's: each holds what goes its way, an upload and a download at once.
#[test]
fn dsasync_at_a_station_and_at_the_base_station_each_hold_their_own_direction() {
    let with = |mechanisms| {
        let mut scenario = uplink(mechanisms);
        scenario.flows.push(common::bulk(Direction::Downlink));
        scenario.radio.station_queue.in_silence = linkhold_radio::InSilence::Drop;
        scenario.radio.router.in_silence = linkhold_radio::InSilence::Drop;
        run(scenario)
    };
    let stations = || placed(DsaSyncConfig::default(), Place::Stations);
    let base_station = || placed(DsaSyncConfig::default(), Place::BaseStation);
    let both = with(vec![base_station(), stations()]);
    assert_eq!(
        both.mechanisms.iter().map(|one| one.at.as_str()).collect::<Vec<_>>(),
        ["base-station", "stations"]
    );
    for one in &both.mechanisms {
        assert!(one.counter("holds") > 100, "{one:?}");
        assert_eq!(one.counter("windows_closed_now"), 0, "{one:?}");
    }
    let share = |run: &RunRecord| run.totals.limit_share;
    let alone = [with(vec![base_station()]), with(vec![stations()])];
    println!(
        "{} at both, {:?} alone, {}",
        share(&both),
        alone.each_ref().map(share),
        share(&with(Vec::new()))
    );
    assert!(share(&both) > 0.95, "{}", share(&both));
    for one in &alone {
        assert!(share(&both) > share(one) - 0.01, "{} at both, {} alone", share(&both), share(one));
    }
}
