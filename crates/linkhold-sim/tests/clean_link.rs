//! TCP against what it must reach on a link without silences: the cross-check of endpoints, radio and engine.

mod common;

use linkhold_core::time::Duration;
use linkhold_sim::run_case;
use linkhold_tcp::{Congestion, Recovery, TcpConfig};

const RTT: Duration = Duration::from_millis(2);

/// Plan: 24 Mb/s, 2 ms, 100 packets of DropTail, 5 s of warm-up and 15 s counted. Check: payload fills the
/// link.
fn fills_the_link(name: &str, tcp: TcpConfig) -> Result<(), String> {
    let mut scenario = common::clean(tcp, RTT, Duration::from_secs(20));
    scenario.warm_up = Duration::from_secs(5);
    let options = if scenario.tcp.timestamps { 12.0 } else { 0.0 };
    let expected = 24e6 * (1460.0 - options) / 1500.0;
    let (record, _) = run_case(&common::case(name, scenario), 1).map_err(|error| error.to_string())?;
    let goodput = record.flows[0].goodput_bps;
    let limit = record.link.goodput_limit_bps;
    if (limit / expected - 1.0).abs() > 1e-3 {
        return Err(format!("{name}: the limit is {limit:.0}, expected {expected:.0}"));
    }
    if (goodput / expected - 1.0).abs() > 0.01 {
        return Err(format!(
            "{name}: {goodput:.0} bit/s, expected {expected:.0} ({:+.2} %), timeouts: {:?}",
            (goodput / expected - 1.0) * 100.0,
            record.flows[0].rto_events,
        ));
    }
    Ok(())
}

#[test]
fn every_recovery_with_every_congestion_control_fills_a_clean_link() {
    let mut failures = Vec::new();
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::RackTlp] {
        for congestion in [Congestion::Reno, Congestion::Vegas, Congestion::Cubic] {
            let name = format!("classic {recovery:?} {congestion:?}");
            failures.extend(fills_the_link(&name, TcpConfig::classic(recovery, congestion)).err());
        }
    }
    for congestion in [Congestion::Reno, Congestion::Vegas, Congestion::Cubic] {
        failures.extend(fills_the_link(&format!("linux {congestion:?}"), TcpConfig::linux(congestion)).err());
        let old = TcpConfig::linux_2009(congestion);
        failures.extend(fills_the_link(&format!("linux-2009 {congestion:?}"), old).err());
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// With W_max packets in pipe and buffer, and never fewer than the pipe holds, the round trip is W / C, so
/// dW/dt = C / (b W) between losses, and the time average of W from W_max / 2 to W_max is 7/9 W_max.
#[test]
fn the_sawtooths_average_window_is_seven_ninths_of_its_top() {
    let tcp = TcpConfig {
        send_buffer: linkhold_core::units::Bytes(1 << 30),
        ..TcpConfig::classic(Recovery::Sack, Congestion::Reno)
    };
    let mut scenario = common::clean(tcp, RTT, Duration::from_secs(70));
    scenario.warm_up = Duration::from_secs(10);
    scenario.output.series_interval = Duration::from_millis(10);
    let (record, series) = run_case(&common::case("sawtooth", scenario), 1).unwrap();
    assert_eq!(record.flows[0].rto_events, Some(0));
    assert!(record.flows[0].fast_recoveries >= Some(10), "{:?} teeth", record.flows[0].fast_recoveries);
    let flow = &series.flows[0];
    let counted: Vec<f64> =
        flow.t_s.iter().zip(&flow.cwnd_bytes).filter(|(t, _)| **t > 10.0).map(|(_, w)| *w).collect();
    let average = counted.iter().sum::<f64>() / counted.len() as f64 / 1460.0;
    // The pipe: 2 ms of propagation and the transmission times of a packet on radio and wire, at 2000 packets
    // a second.
    let pipe = 2000.0 * (0.002 + 0.0005 + 0.000_012);
    let closed_form = 7.0 / 9.0 * (100.0 + pipe);
    assert!((average / closed_form - 1.0).abs() < 0.05, "{average:.1} packets, closed form {closed_form:.1}");
}
