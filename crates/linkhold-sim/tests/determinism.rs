//! One scenario and one seed give one result, byte for byte; cases of one seed see the same radio.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Bytes;
use linkhold_scenario::{Arrivals, Case, IpVersion, PlacedMechanism, Source};
use linkhold_sim::run_case;
use linkhold_tcp::Congestion;

/// Everything at once: silences, several stations, both directions, short flows at random, IPv4 and IPv6.
fn busy(mechanisms: Vec<PlacedMechanism>) -> Case {
    let mut scenario =
        common::quarter_silent(Congestion::Cubic, Duration::from_millis(20), Duration::from_secs(8));
    scenario.radio.stations = 3;
    let mut down = common::bulk(Direction::Downlink);
    down.stations = vec![0, 1, 2];
    down.count = 2;
    down.stagger = Duration::from_millis(100);
    let mut up = common::bulk(Direction::Uplink);
    up.stations = vec![1];
    up.ip = IpVersion::V6;
    up.start = Instant::from_millis(500);
    let mut short = common::bulk(Direction::Downlink);
    short.source = Source::Finite(Bytes(30_000));
    short.arrivals = Some(Arrivals { per_second: 5.0 });
    scenario.flows = vec![down, up, short];
    scenario.mechanisms = mechanisms;
    common::case("busy", scenario)
}

/// Record and series as text, `wall_s` left out.
fn text(case: &Case, seed: u64) -> String {
    let (mut record, series) = run_case(case, seed).expect("the scenario is valid");
    record.wall_s = 0.0;
    format!("{}\n{series:?}", serde_json::to_string(&record).expect("a record is JSON"))
}

#[test]
fn the_same_seed_gives_the_same_bytes_twice_and_on_other_threads() {
    for mechanisms in [Vec::new(), vec![DsaSyncConfig::default().into()]] {
        let case = busy(mechanisms);
        let first = text(&case, 7);
        assert_eq!(first, text(&case, 7), "twice on one thread");
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..3).map(|_| scope.spawn(|| text(&case, 7))).collect();
            for other in others {
                assert_eq!(first, other.join().unwrap(), "on another thread");
            }
        });
        assert_ne!(first, text(&case, 8), "another seed is another run");
    }
}

#[test]
fn every_case_of_a_seed_sees_the_same_silences_and_the_same_arrivals() {
    let mut radios = Vec::new();
    for mechanisms in [Vec::new(), vec![DsaSyncConfig::default().into()], vec![DsaSyncConfig::paper().into()]]
    {
        let (record, series) = run_case(&busy(mechanisms), 3).unwrap();
        let starts: Vec<_> = record.flows.iter().map(|flow| (flow.id, flow.start_s)).collect();
        assert!(starts.len() > 20 && series.silences.len() > 15);
        radios.push((series.silences, starts, record.link.goodput_limit_bps, record.link.silent_fraction));
    }
    assert_eq!(radios[0], radios[1]);
    assert_eq!(radios[0], radios[2]);
}
