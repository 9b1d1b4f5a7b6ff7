//! Flows of every kind: finite, paced, arriving at random, uplink, IPv6; and what is left of them afterwards.

mod common;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};
use linkhold_radio::InSilence;
use linkhold_results::{PooledDelays, RunTotals};
use linkhold_scenario::{Arrivals, FlowGroup, IpVersion, Media, ResolvedScenario, Source, Transport};
use linkhold_sim::{NoObserver, Simulation, run_case};
use linkhold_tcp::{Congestion, TcpConfig};

fn clean(seconds: u64) -> ResolvedScenario {
    let tcp = TcpConfig::linux(Congestion::Cubic);
    common::clean(tcp, Duration::from_millis(20), Duration::from_secs(seconds))
}

#[test]
fn a_finite_flow_delivers_its_bytes_and_notes_when_it_was_done() {
    for (direction, ip) in [
        (Direction::Downlink, IpVersion::V4),
        (Direction::Uplink, IpVersion::V4),
        (Direction::Downlink, IpVersion::V6),
    ] {
        let mut scenario = clean(10);
        scenario.flows = vec![common::bulk(direction)];
        scenario.flows[0].source = Source::Finite(Bytes(3_000_000));
        scenario.flows[0].ip = ip;
        scenario.flows[0].start = Instant::from_millis(1000);
        let (record, _) = run_case(&common::case("finite", scenario), 1).unwrap();
        let flow = &record.flows[0];
        assert_eq!(flow.bytes, 3_000_000);
        // 3 MB take 1.04 s at 24 Mb/s less headers, and slow start a few round trips of 20 ms.
        let took = flow.completion_s.unwrap();
        assert!((1.03..1.4).contains(&took), "{direction:?} {ip:?}: {took} s");
        assert!((flow.start_s - 1.0).abs() < 1e-9);
    }
}

#[test]
fn the_series_of_a_flow_adds_up_to_its_bytes_on_the_grid_of_the_run() {
    // At 2 ms the series thin while the flows go on.
    for interval in [Duration::from_secs(1), Duration::from_millis(300), Duration::from_millis(2)] {
        let mut scenario = clean(12);
        scenario.output.series_interval = interval;
        scenario.flows = [(0, 100_000), (1_250, 100_000), (2_900, 5_000_000), (7_001, 1_000)]
            .map(|(start, bytes)| FlowGroup {
                start: Instant::from_millis(start),
                source: Source::Finite(Bytes(bytes)),
                ..common::bulk(Direction::Downlink)
            })
            .into();
        let (record, series) = run_case(&common::case("series", scenario), 1).unwrap();
        for (flow, rows) in record.flows.iter().zip(&series.flows) {
            assert!(flow.completion_s.is_some() && flow.id == rows.flow);
            let row = rows.t_s[0];
            let sum: f64 = rows.goodput_bps.iter().map(|rate| rate / 8.0 * row).sum();
            assert!((sum - flow.bytes as f64).abs() < 1e-3, "{interval:?}, flow {}: {sum}", flow.id);
            let thinned = (row / interval.as_secs_f64()).round() as u32;
            assert!(thinned.is_power_of_two() && thinned <= 16, "{interval:?}, flow {}: {row} s", flow.id);
            let (end, last) = (flow.start_s + flow.completion_s.unwrap(), *rows.t_s.last().unwrap());
            assert!((last / row - rows.t_s.len() as f64).abs() < 1e-9 && last > end, "{end}, {last}");
            // The receiver's closing handshake, and what is left of the row.
            assert!(last < end + 0.1 + row, "{interval:?}: it ends at {end}, and its rows at {last}");
            assert_eq!(rows.cwnd_bytes.len(), rows.t_s.len());
        }
    }
}

#[test]
fn a_paced_flow_gets_its_rate() {
    let mut scenario = clean(10);
    scenario.warm_up = Duration::from_secs(1);
    scenario.flows[0].source = Source::Paced { rate: BitRate::from_mbps(2), chunk: Bytes(5_000) };
    let (record, _) = run_case(&common::case("paced", scenario), 1).unwrap();
    let goodput = record.flows[0].goodput_bps;
    assert!((goodput / 2e6 - 1.0).abs() < 0.01, "{goodput}");
    // One way: 10 ms of wire, and a chunk of four packets at 24 Mb/s.
    assert!((0.0100..0.0130).contains(&record.flows[0].delay_mean_s), "{} s", record.flows[0].delay_mean_s);
}

#[test]
fn short_flows_arrive_at_their_rate_and_leave_no_more_places_than_were_open_at_once() {
    let mut scenario = clean(60);
    scenario.flows[0].source = Source::Finite(Bytes(20_000));
    scenario.flows[0].arrivals = Some(Arrivals { per_second: 20.0 });
    let case = common::case("short", scenario);
    let mut observer = NoObserver;
    let mut simulation = Simulation::new(&case, 1, &mut observer).unwrap();
    simulation.advance(Instant::from_millis(60_000));
    let places = simulation.engine().network().flow_count();
    let (record, _) = simulation.finish();
    // 1200 expected; five standard deviations are 173.
    assert!((1027..1373).contains(&record.flows.len()), "{} flows", record.flows.len());
    assert!(places < 100, "{places} places for {} flows", record.flows.len());
    let done = record.flows.iter().filter(|flow| flow.completion_s.is_some()).count();
    assert!(done + 20 > record.flows.len(), "{done} done");
    assert!(record.flows.iter().all(|flow| flow.completion_s.is_none() || flow.bytes == 20_000));
    assert!(record.flows.iter().enumerate().all(|(index, flow)| flow.id as usize == index));
}

#[test]
fn when_every_flow_is_done_no_packet_is_left_inside() {
    for mechanisms in [Vec::new(), vec![DsaSyncConfig::default().into()], vec![DsaSyncConfig::paper().into()]]
    {
        let mut scenario =
            common::quarter_silent(Congestion::Cubic, Duration::from_millis(20), Duration::from_secs(60));
        let mut down = common::bulk(Direction::Downlink);
        down.count = 4;
        down.source = Source::Finite(Bytes(2_000_000));
        let mut up = down.clone();
        up.direction = Direction::Uplink;
        scenario.flows = vec![down, up];
        scenario.mechanisms.clone_from(&mechanisms);
        let case = common::case("leak", scenario);
        let mut observer = NoObserver;
        let mut simulation = Simulation::new(&case, 5, &mut observer).unwrap();
        simulation.advance(Instant::from_millis(59_000));
        simulation.flush();
        simulation.advance(Instant::from_millis(60_000));
        assert_eq!(simulation.engine().network().packets_inside(), 0, "{mechanisms:?}");
        let (record, _) = simulation.finish();
        assert!(record.flows.iter().all(|flow| flow.bytes == 2_000_000), "{mechanisms:?}");
    }
}

#[test]
fn warm_up_is_not_counted() {
    let mut scenario = clean(10);
    scenario.warm_up = Duration::from_secs(4);
    let (record, _) = run_case(&common::case("warm", scenario), 1).unwrap();
    let flow = &record.flows[0];
    assert!((flow.goodput_bps * 6.0 / 8.0 - flow.bytes as f64).abs() < 1.0);
    assert!(
        record.totals.limit_share > 0.99 && record.totals.limit_share <= 1.0,
        "{}",
        record.totals.limit_share
    );
}

#[test]
fn a_flow_that_is_over_before_the_warm_up_counts_nothing() {
    let mut scenario =
        common::quarter_silent(Congestion::Cubic, Duration::from_millis(20), Duration::from_secs(12));
    scenario.warm_up = Duration::from_secs(8);
    scenario.radio.router.in_silence = InSilence::Drop;
    let early = |source, transport| FlowGroup { source, transport, ..common::bulk(Direction::Downlink) };
    let paced = Source::Paced { rate: BitRate::from_mbps(1), chunk: Bytes(1_000) };
    let mut stopped = early(paced, Transport::Udp { datagram: 1_000 });
    stopped.stop = Some(Instant::from_millis(3_000));
    let media = Media {
        rate: BitRate::from_mbps(1),
        chunk: Bytes(5_000),
        interval: Duration::from_millis(40),
        ahead: Duration::ZERO,
        ahead_rate: None,
        startup: Duration::from_secs(1),
        resume: Duration::from_secs(1),
    };
    let mut watched = early(Source::Media(media), Transport::Tcp);
    watched.stop = stopped.stop;
    let finite = early(Source::Finite(Bytes(2_000_000)), Transport::Tcp);
    let late = FlowGroup { start: Instant::from_millis(8_000), ..finite.clone() };
    scenario.flows = vec![finite, stopped, watched, late];
    let (record, _) = run_case(&common::case("early", scenario.clone()), 3).unwrap();
    for flow in &record.flows[..3] {
        let counted = (flow.bytes, flow.retransmits, flow.rto_events, flow.fast_recoveries, flow.active_s);
        assert_eq!(counted, (0, 0, Some(0), Some(0), 0.0), "{flow:?}");
        assert_eq!((flow.goodput_bps, flow.retransmit_bps), (0.0, 0.0));
        assert!(flow.delay_mean_s.is_nan());
    }
    assert!(record.flows[0].completion_s.is_some(), "when it completed is still told");
    assert_eq!(record.flows[1].udp.as_ref().map(|udp| (udp.sent, udp.delivered)), Some((0, 0)));
    let played = record.flows[2].media.as_ref().map(|media| (media.played_bytes, media.stalled_s));
    assert_eq!((played, &record.totals.media), (Some((0, 0.0)), &None));
    // Without the three, the run has the same totals.
    let alone = RunTotals::new(&record.flows[3..], 4.0, &record.link, &PooledDelays::default());
    let of = |totals: &RunTotals| {
        (
            totals.retransmits,
            totals.rto_events,
            totals.retransmit_bps,
            totals.jain_index,
            totals.completion_mean_s,
        )
    };
    assert_eq!(of(&record.totals), of(&alone));
    // What there was to be counted: in silences, packets of the early flow were dropped.
    scenario.warm_up = Duration::ZERO;
    let (all, _) = run_case(&common::case("all", scenario), 3).unwrap();
    assert!(all.flows[0].retransmits > 0, "{:?}", all.flows[0]);
}

#[test]
fn a_flow_that_is_stopped_says_goodbye_and_leaves_the_link_to_others() {
    let mut scenario = clean(10);
    scenario.flows = vec![common::bulk(Direction::Downlink), common::bulk(Direction::Downlink)];
    scenario.flows[1].stop = Some(Instant::from_millis(4000));
    scenario.flows[1].source = Source::Paced { rate: BitRate::from_mbps(8), chunk: Bytes(10_000) };
    let (record, series) = run_case(&common::case("stop", scenario), 1).unwrap();
    // 8 Mb/s for 4 s: what it has written by then arrives, and nothing after.
    assert!((3_900_000..4_100_000).contains(&record.flows[1].bytes), "{} bytes", record.flows[1].bytes);
    let after: f64 = series.flows[0].goodput_bps[6..10].iter().sum::<f64>() / 4.0;
    assert!(after > 0.99 * record.link.goodput_limit_bps, "{after}");
}

#[test]
fn a_group_opens_no_connection_once_it_has_stopped() {
    let mut scenario = clean(10);
    let mut first = common::bulk(Direction::Downlink);
    (first.count, first.stagger) = (3, Duration::from_secs(2));
    first.stop = Some(Instant::from_millis(3_000));
    let other = FlowGroup { start: Instant::from_millis(4_000), ..common::bulk(Direction::Downlink) };
    scenario.flows = vec![first, other];
    let (record, series) = run_case(&common::case("stop", scenario), 1).unwrap();
    let starts: Vec<f64> = record.flows.iter().map(|flow| flow.start_s).collect();
    assert_eq!(starts, [0.0, 2.0, 4.0], "the third would start at 4 s, as does the other group's");
    let after: f64 = series.flows[2].goodput_bps[6..10].iter().sum::<f64>() / 4.0;
    assert!(after > 0.99 * record.link.goodput_limit_bps, "{after}");
}

#[test]
fn a_flow_that_is_stopped_before_it_is_up_sends_nothing_and_closes() {
    let paced = Source::Paced { rate: BitRate::from_mbps(8), chunk: Bytes(10_000) };
    for source in [Source::Bulk, paced] {
        let mut scenario = clean(5);
        scenario.flows = vec![FlowGroup { source, ..common::bulk(Direction::Downlink) }; 2];
        // The handshake takes 20 ms.
        scenario.flows[1].stop = Some(Instant::from_millis(10));
        let (record, _) = run_case(&common::case("stop", scenario), 1).unwrap();
        assert_eq!(record.flows[1].bytes, 0, "{source:?}");
        assert!(record.flows[1].active_s < 0.1, "it is over: {:?}", record.flows[1]);
    }
}
