//! What the radio can do besides falling silent: change channel, play a measured trace.

mod common;

use std::path::Path;
use std::sync::Arc;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::{
    AirTimeModel, ChannelConfig, Mac, QueueConfig, ScriptedSwitch, SensingConfig, Trace, TraceLink,
};
use linkhold_scenario::{FlowGroup, Source};
use linkhold_sim::run_case;
use linkhold_tcp::{Congestion, TcpConfig};

/// Plan: 24 Mb/s, at 5 s to a channel of 12 Mb/s (the paper's Figure 7). Check: goodput follows in both
/// cases.
#[test]
fn goodput_follows_a_switch_to_half_the_capacity() {
    for mechanisms in [Vec::new(), vec![DsaSyncConfig::default().into()]] {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let mut scenario = common::clean(tcp, Duration::from_millis(20), Duration::from_secs(15));
        let radio = &mut scenario.radio;
        radio.channels.push(ChannelConfig {
            phy_rate: BitRate::from_mbps(12),
            efficiency: Fraction::ONE,
            primary_user: None,
        });
        radio.switching.delay = Duration::from_millis(20);
        radio.switching.scripted = vec![ScriptedSwitch { at: Instant::from_millis(5000), to_channel: 1 }];
        scenario.mechanisms.clone_from(&mechanisms);
        let (record, series) = run_case(&common::case("switch", scenario), 1).expect("the scenario is valid");
        let mean = |from: usize, to: usize| {
            series.flows[0].goodput_bps[from..to].iter().sum::<f64>() / (to - from) as f64 / 1e6
        };
        // 96.5 % of the wire is payload.
        let (before, after) = (mean(2, 5), mean(8, 15));
        assert!((22.0..23.4).contains(&before), "{before} Mb/s before, {mechanisms:?}");
        assert!((11.0..11.7).contains(&after), "{after} Mb/s after, {mechanisms:?}");
        assert_eq!(record.link.silences, 1);
    }
}

/// Plan: 2 Mbit/s over a wire of 100 ms each way and a radio that senses for 50 ms of every second. Check:
/// what an upload sends after a silence moves the stream on 100 ms later, and what waits at the router for
/// its end at once. A twentieth of an upload's segments meets a silence: on the wire they are past the radio.
#[test]
fn a_silence_concerns_an_upload_until_it_has_left_the_air() {
    for direction in [Direction::Downlink, Direction::Uplink] {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let mut scenario = common::clean(tcp, Duration::from_millis(200), Duration::from_secs(30));
        scenario.warm_up = Duration::from_secs(2);
        let source = Source::Paced { rate: BitRate::from_mbps(2), chunk: Bytes(1_000) };
        scenario.flows = vec![FlowGroup { source, ..common::bulk(direction) }];
        scenario.radio.sensing = Some(SensingConfig {
            period: Duration::from_secs(1),
            duration: Duration::from_millis(50),
            phase: Duration::from_millis(500),
            announced: true,
        });
        let (record, series) = run_case(&common::case("long wire", scenario), 1).expect("it is valid");
        let met = 1.0 - series.delays_outside_silence.count() as f64 / series.delays.count() as f64;
        let resume = record.flows[0].resume_p50_s.expect("data follows every silence") * 1e3;
        println!("{direction:?}: resumes after {resume:.1} ms; {:.1} % met a silence", met * 100.0);
        // What waits at the station for the end of the silence goes at once, and then takes the wire; what
        // waits at the router is behind the wire.
        let expected = if direction == Direction::Uplink { 100.0..102.0 } else { 0.0..2.0 };
        assert!(expected.contains(&resume), "{direction:?}: {resume} ms");
        if direction == Direction::Uplink {
            assert!((0.045..0.06).contains(&met), "{met}");
        }
    }
}

/// Plan: a bulk flow over IEEE 802.11a without silences, at two rates, 20 s of which 5 warm up. Check: TCP,
/// whose ACKs contend for the same medium, comes within 2 % of the limit and not above it.
#[test]
fn a_flow_over_802_11a_reaches_the_limit_that_its_exchanges_set() {
    for (mac, direction, mbps) in [
        (Mac::Shared, Direction::Downlink, 24),
        (Mac::Shared, Direction::Uplink, 54),
        (Mac::Duplex, Direction::Downlink, 54),
    ] {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let mut scenario = common::clean(tcp, Duration::from_millis(20), Duration::from_secs(20));
        scenario.warm_up = Duration::from_secs(5);
        scenario.flows = vec![common::bulk(direction)];
        scenario.radio.mac = mac.clone();
        scenario.radio.air_time = AirTimeModel::Ieee80211a;
        scenario.radio.channels[0].phy_rate = BitRate::from_mbps(mbps);
        // Queues that never overflow: in a recovery every segment has an ACK of its own, which costs air
        // time.
        scenario.radio.router = QueueConfig::fifo(10_000);
        scenario.radio.station_queue = QueueConfig::fifo(10_000);
        let (record, _) = run_case(&common::case("802.11a", scenario), 1).expect("the scenario is valid");
        let (share, limit) = (record.totals.limit_share, record.link.goodput_limit_bps / 1e6);
        println!("{mac:?} {direction:?} {mbps} Mb/s: {share:.4} of {limit:.3} Mb/s");
        assert!((0.98..=1.002).contains(&share), "{mac:?} {direction:?}: {share} of {limit} Mb/s");
    }
}

/// The measured traces, where someone has them.
fn trace(name: &str) -> Option<Arc<Trace>> {
    let folder = std::env::var("LINKHOLD_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
    let path = Path::new(&folder).join(name);
    let bytes = std::fs::read(&path).ok()?;
    Some(Arc::new(Trace::parse(&bytes).expect("a measured trace parses")))
}

/// Plan: a bulk flow over a drive's LTE link, 60 s, 100 packets. Check: dsasync holds through the gaps,
/// nobody exceeds the limit, and both cases see the same gaps.
#[test]
fn a_measured_trace_carries_a_flow_through_its_gaps() {
    let (Some(down), Some(up)) = (trace("ATT-LTE-driving-2016.down"), trace("ATT-LTE-driving-2016.up"))
    else {
        linkhold_testing::skipped("no measured traces (set LINKHOLD_DATA to their folder)");
        return;
    };
    let mut runs = Vec::new();
    for mechanisms in [Vec::new(), vec![DsaSyncConfig::default().into()]] {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let mut scenario = common::clean(tcp, Duration::from_millis(50), Duration::from_secs(60));
        scenario.radio.mac = Mac::Trace(TraceLink {
            down: down.clone(),
            up: up.clone(),
            silence_threshold: Duration::from_millis(100),
            detection_delay: Duration::ZERO,
            random_start: false,
        });
        scenario.mechanisms.clone_from(&mechanisms);
        runs.push(run_case(&common::case("trace", scenario), 1).expect("the scenario is valid"));
    }
    for (record, _) in &runs {
        println!(
            "{:?}: {:.3} of {:.2} Mb/s, {} silences, {} drops",
            record.mechanisms.first().map(|m| &m.name),
            record.totals.limit_share,
            record.link.goodput_limit_bps / 1e6,
            record.link.silences,
            record.link.queue_drops,
        );
        assert!(record.totals.limit_share <= 1.0 && record.totals.limit_share > 0.5);
    }
    assert_eq!(runs[0].1.silences, runs[1].1.silences);
    assert!(!runs[0].1.silences.is_empty());
}

#[test]
fn silences_of_the_warm_up_are_not_counted_however_wide_the_series_points_are() {
    for interval_s in [1, 7, 30] {
        let rtt = Duration::from_millis(20);
        let mut scenario = common::quarter_silent(Congestion::Cubic, rtt, Duration::from_secs(20));
        scenario.warm_up = Duration::from_secs(10);
        scenario.output.series_interval = Duration::from_secs(interval_s);
        let (record, series) = run_case(&common::case("warm", scenario), 1).expect("the scenario is valid");
        let counted = series.silences.iter().filter(|silence| silence.end_s > 10.0).count() as u64;
        assert!(counted > 10 && series.silences.len() as u64 > counted + 10);
        assert_eq!(record.link.silences, counted, "a point each {interval_s} s");
    }
}
