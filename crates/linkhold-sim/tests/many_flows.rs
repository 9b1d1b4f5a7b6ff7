//! The paper's large scale: 24 flows on 6 stations. A mechanism must not starve any flow when there are many.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::Duration;
use linkhold_radio::{FqCodelConfig, Mac, QueueConfig, QueueKind, SensingConfig};
use linkhold_scenario::{PlacedMechanism, ResolvedScenario};
use linkhold_sim::run_case;
use linkhold_tcp::{Congestion, TcpConfig};

/// Plan: 4 flows to each of 6 stations, 20 s counted. Check: share of the limit and fairness.
fn twenty_four(
    mut scenario: ResolvedScenario,
    direction: Direction,
    mechanisms: Vec<PlacedMechanism>,
) -> (f64, f64) {
    scenario.radio.stations = 6;
    // With a queue that holds seconds of traffic, the run would be spent on the losses of one slow start.
    scenario.radio.station_queue = QueueConfig::fifo(100);
    let mut flows = common::bulk(direction);
    flows.stations = (0..6).collect();
    flows.count = 4;
    scenario.flows = vec![flows];
    scenario.warm_up = Duration::from_secs(2);
    scenario.mechanisms = mechanisms;
    let (record, _) = run_case(&common::case("many", scenario), 1).expect("the scenario is valid");
    (record.totals.limit_share, record.totals.jain_index)
}

#[test]
fn twenty_four_flows_fill_the_link_with_dsasync_as_without() {
    let dsasync: Vec<PlacedMechanism> = vec![DsaSyncConfig::default().into()];
    let mut failures = Vec::new();
    for direction in [Direction::Downlink, Direction::Uplink] {
        for (name, mechanisms, least) in [("none", Vec::new(), 0.95), ("dsasync", dsasync.clone(), 0.95)] {
            let tcp = TcpConfig::linux(Congestion::Cubic);
            for rtt_ms in [2, 50] {
                let (rtt, duration) = (Duration::from_millis(rtt_ms), Duration::from_secs(22));
                let (share, jain) =
                    twenty_four(common::clean(tcp.clone(), rtt, duration), direction, mechanisms.clone());
                println!("clean {direction:?} {rtt_ms} ms {name}: {share:.4}, Jain {jain:.3}");
                if share < least {
                    failures.push(format!("clean link, {direction:?}, {rtt_ms} ms, {name}: {share:.4}"));
                }
            }
        }
        for rtt_ms in [3, 50] {
            let (rtt, duration) = (Duration::from_millis(rtt_ms), Duration::from_secs(22));
            let silent = common::quarter_silent(Congestion::Cubic, rtt, duration);
            let (share, jain) = twenty_four(silent, direction, dsasync.clone());
            println!("silent {direction:?} {rtt_ms} ms dsasync: {share:.4}, Jain {jain:.3}");
            if share < 0.93 {
                failures.push(format!("a quarter silent, {direction:?}, {rtt_ms} ms: {share:.4}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Plan: 24 flows that begin 10 ms apart, to six stations and to one, over a radio that senses for 25 ms each
/// second, the first time while they begin; nobody tells the rate; 20 s from the first packet on. Check: at
/// least 0.97 of the limit, but about 50 ms with one station 0.95. Each flow is sent one segment in its turn,
/// and its station delays the ACK: if those segments count as under way, all wait for the stations' timers
/// (0.82 and 0.91 at 3 ms).
///
/// There nothing is drawn, and the share of one run hangs on which losses of the slow start fall together:
/// with one station, round trips of 30 to 80 ms and gaps of 7 to 13 ms between the flows it goes from 0.91 to
/// 0.99 (54 runs, mean 0.960). So it is the mean over round trips near each other that is checked.
#[test]
fn segments_that_wait_for_delayed_acks_do_not_stop_those_behind_them() {
    let mut failures = Vec::new();
    let about_50: &[u64] = &[44, 46, 48, 50, 52, 54, 56];
    for (stations, count, rtts, least) in
        [(6, 4, &[3][..], 0.97), (6, 4, about_50, 0.97), (1, 24, &[3], 0.97), (1, 24, about_50, 0.95)]
    {
        let mut sum = 0.0;
        for rtt_ms in rtts {
            let tcp = TcpConfig::linux(Congestion::Cubic);
            let rtt = Duration::from_millis(*rtt_ms);
            let mut scenario = common::clean(tcp, rtt, Duration::from_secs(20));
            scenario.radio.rate_told = false;
            scenario.radio.stations = stations;
            scenario.radio.sensing = Some(SensingConfig {
                period: Duration::from_secs(1),
                duration: Duration::from_millis(25),
                phase: Duration::from_millis(30),
                announced: true,
            });
            let mut flows = common::bulk(Direction::Downlink);
            flows.stations = (0..stations).collect();
            flows.count = count;
            flows.stagger = Duration::from_millis(10);
            scenario.flows = vec![flows];
            scenario.mechanisms = vec![DsaSyncConfig::default().into()];
            let (record, _) = run_case(&common::case("delayed", scenario), 1).expect("the scenario is valid");
            sum += record.totals.limit_share;
        }
        let mean = sum / rtts.len() as f64;
        let what = format!("{stations} stations, {count} flows each, {rtts:?} ms: {mean:.4}");
        println!("{what}");
        if mean < least {
            failures.push(what);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

const SHARED_SEEDS: u64 = 4;

/// Plan: downloads of one station over a router with fq_codel, rate told, no silences; 20 s, four seeds.
/// Check: CoDel drops at most 3/4 of what it drops without the agent, hardly a copy goes in place of what it
/// dropped, and delay stays where fq_codel alone has it. With 16 or four queues for eight flows, some share
/// one (of 1024 they seldom do). Such a queue gets one flow's turn, and all that waits below waits in it.
/// Where that was not noticed, 831 segments were dropped in 20 s, each was sent again from a copy, and no
/// sender slowed down.
#[test]
fn downloads_that_share_a_queue_of_fq_codel_are_not_repaired_against_it() {
    let mut failures = Vec::new();
    for (flows, queues) in [(4, 1024), (8, 1024), (16, 1024), (8, 16), (8, 4)] {
        let run = |seed, mechanisms: Vec<PlacedMechanism>| {
            let tcp = TcpConfig::linux(Congestion::Cubic);
            let mut scenario = common::clean(tcp, Duration::from_millis(100), Duration::from_secs(23));
            scenario.radio.mac = Mac::Shared;
            let router = FqCodelConfig { flows: queues, ..Default::default() };
            scenario.radio.router = QueueConfig { kind: QueueKind::FqCodel(router), ..scenario.radio.router };
            scenario.router_visible = false;
            scenario.warm_up = Duration::from_secs(3);
            scenario.flows[0].count = flows;
            scenario.mechanisms = mechanisms;
            run_case(&common::case("shared", scenario), seed).expect("the scenario is valid").0
        };
        let (mut share, mut p99, mut least) = (0.0, 0.0, 0.0);
        let (mut drops, mut drops_alone, mut copies) = (0, 0, 0);
        for seed in 1..=SHARED_SEEDS {
            let (alone, dsasync) = (run(seed, Vec::new()), run(seed, vec![DsaSyncConfig::default().into()]));
            let runs = SHARED_SEEDS as f64;
            share += dsasync.totals.limit_share / runs;
            p99 += dsasync.totals.delay_p99_s * 1e3 / runs;
            least += alone.totals.delay_p99_s * 1e3 / runs;
            drops += dsasync.link.queue_drops;
            drops_alone += alone.link.queue_drops;
            copies += dsasync.mechanisms[0].counter("copies_sent");
        }
        let told = format!(
            "{flows} flows in {queues} queues: {share:.3}, {drops} drops ({drops_alone} alone), {copies} copies, \
             p99 {p99:.0} ms ({least:.0} alone)"
        );
        println!("{told}");
        if share < 0.97 || drops > drops_alone * 3 / 4 || copies > 100 || p99 > least + 25.0 {
            failures.push(told);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
