//! What the radio can do besides falling silent: change channel, play a measured trace.

mod common;

use std::path::Path;
use std::sync::Arc;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::Trace;
use linkhold_scenario::{Channel, Mac, Mechanism, Switch, TraceFile, TraceLink};
use linkhold_sim::run_case;
use linkhold_tcp::{Congestion, TcpConfig};

/// Plan: 24 Mb/s, at 5 s to a channel of 12 Mb/s (the paper's Figure 7). Check: goodput follows in both cases.
#[test]
fn goodput_follows_a_switch_to_half_the_capacity() {
    for mechanism in [Mechanism::None, Mechanism::DsaSync(DsaSyncConfig::default())] {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let mut scenario = common::clean(tcp, Duration::from_millis(20), Duration::from_secs(15));
        let cell = common::cell(&mut scenario);
        cell.channels.push(Channel {
            phy_rate: BitRate::from_mbps(12),
            mac_efficiency: Fraction::ONE,
            primary_user: None,
        });
        cell.switching_delay = Duration::from_millis(20);
        cell.switches = vec![Switch { at: Instant::from_millis(5000), to_channel: 1 }];
        scenario.mechanism = mechanism;
        let (record, series) = run_case(&common::case("switch", scenario), 1).expect("the scenario is valid");
        let mean = |from: usize, to: usize| {
            series.flows[0].goodput_bps[from..to].iter().sum::<f64>() / (to - from) as f64 / 1e6
        };
        // 96.5 % of the wire is payload.
        let (before, after) = (mean(2, 5), mean(8, 15));
        assert!((22.0..23.4).contains(&before), "{before} Mb/s before, {mechanism:?}");
        assert!((11.0..11.7).contains(&after), "{after} Mb/s after, {mechanism:?}");
        assert_eq!(record.link.silences, 1);
    }
}

/// The measured traces, where someone has them.
fn trace(name: &str) -> Option<TraceFile> {
    let folder = std::env::var("LINKHOLD_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data").to_owned());
    let path = Path::new(&folder).join(name);
    let bytes = std::fs::read(&path).ok()?;
    let trace = Arc::new(Trace::parse(&bytes).expect("a measured trace parses"));
    Some(TraceFile { path, trace })
}

/// Plan: a bulk flow over a drive's LTE link, 60 s, 100 packets. Check: dsasync holds through the gaps, nobody exceeds
/// the limit, and both cases see the same gaps.
#[test]
fn a_measured_trace_carries_a_flow_through_its_gaps() {
    let (Some(down), Some(up)) = (trace("ATT-LTE-driving-2016.down"), trace("ATT-LTE-driving-2016.up"))
    else {
        println!("skipped: no measured traces (set LINKHOLD_DATA to their folder)");
        return;
    };
    let mut runs = Vec::new();
    for mechanism in [Mechanism::None, Mechanism::DsaSync(DsaSyncConfig::default())] {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let mut scenario = common::clean(tcp, Duration::from_millis(50), Duration::from_secs(60));
        scenario.radio.mac = Mac::Trace(TraceLink {
            down: down.clone(),
            up: up.clone(),
            silence_threshold: Duration::from_millis(100),
            detection_delay: Duration::ZERO,
            random_start: false,
        });
        scenario.mechanism = mechanism;
        runs.push(run_case(&common::case("trace", scenario), 1).expect("the scenario is valid"));
    }
    for (record, _) in &runs {
        println!(
            "{:?}: {:.3} of {:.2} Mb/s, {} silences, {} drops",
            record.mechanism.as_ref().map(|m| &m.name),
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
