//! QUIC flows: that they arrive whole, what is counted of them, and what the testbed refuses.

use libtest_mimic::{Completion, Failed};
use linkhold_linux::testbed::run::check_congestion;
use linkhold_results::{FlowRecord, FlowTransport, QuicRecord, UdpRecord};
use linkhold_scenario::Scenario;

use crate::{ATTEMPTS, Answer, ensure, in_time};

/// Bytes of the download.
const BYTES: u64 = 1_200_000;

/// A QUIC download over a radio that is silent for 0.3 s of each second. The router drops what comes in a
/// silence.
const SILENCES: &str = r#"
schema = "linkhold.scenario/1"
name = "quic"
duration = "5s"
[wired]
rtt = "20ms"
[radio]
phy_rate = "10Mbit/s"
rate_told = true
primary_user = { on_mean = "300ms", off_mean = "700ms", fixed = true, detection_delay = "0s" }
[router]
in_silence = "drop"
limit = "100pkt"
[[flows]]
direction = "downlink"
transport = "quic"
source = "1200kB"
[[cases]]
name = "CASE"
mechanism = "CASE"
"#;

fn parts(flow: &FlowRecord) -> Result<(&QuicRecord, &UdpRecord), String> {
    flow.quic.as_ref().zip(flow.udp.as_ref()).ok_or_else(|| format!("{flow:?}"))
}

/// An agent whose processor stands still for longer at a silence's start lets several datagrams into it.
const SHORT_PAUSE_S: f64 = 0.03;

/// A download through `dsasync` arrives whole, and no more of it is declared lost than with the router alone.
pub fn arrives_whole_and_loses_no_more() -> Answer {
    let mut told = String::new();
    for _ in 0..ATTEMPTS {
        let (lost, longest_s) = match losses()? {
            Ok(found) => found,
            Err(skipped) => return Ok(skipped),
        };
        // Datagrams that pass unmanaged are lost as with the router alone. Measured: 12, and 118 to 197.
        if lost[1] * 2 < lost[0] {
            return Ok(Completion::Completed);
        }
        told = format!("declared lost: {lost:?}, with a pause of {longest_s:.3} s");
        ensure(longest_s >= SHORT_PAUSE_S && lost[1] < lost[0], &told)?;
        println!("{told}");
    }
    Ok(Completion::ignored_with(told))
}

/// Datagrams that are declared lost with the router alone and with `dsasync`, and for how long a processor
/// stood still at most beside the latter, s.
fn losses() -> Result<Result<(Vec<u64>, f64), Completion>, Failed> {
    let (mut lost, mut longest_s) = (Vec::new(), 0.0);
    for case in ["none", "dsasync"] {
        let outcome = match in_time(&SILENCES.replace("CASE", case))? {
            Ok(outcome) => outcome,
            Err(skipped) => return Ok(Err(skipped)),
        };
        let [flow] = &outcome.record.flows[..] else {
            return Err(format!("{:?}", outcome.record.flows).into());
        };
        let (quic, udp) = parts(flow)?;
        ensure(flow.transport == FlowTransport::Quic && flow.bytes == BYTES, format!("{case}: {flow:?}"))?;
        ensure(flow.completion_s.is_some_and(|s| s > 1.0), format!("{case}: {flow:?}"))?;
        let completions = outcome.linux.completions.as_ref();
        ensure(completions.is_some_and(|all| all.finished == 1), format!("{case}: {completions:?}"))?;
        // Nothing is lost but at the router, and QUIC takes nothing else for lost.
        ensure(quic.spurious == 0, format!("{case}: {quic:?} {udp:?}"))?;
        ensure(udp.reordered == 0 && udp.delivered > BYTES / 1472, format!("{case}: {udp:?}"))?;
        ensure(quic.declared_lost <= udp.lost, format!("{case}: {quic:?} {udp:?}"))?;
        let read = outcome.series.flows.first().map(|series| series.cwnd_bytes.clone()).unwrap_or_default();
        ensure(read.iter().any(|cwnd| *cwnd > 10_000.0), format!("{case}: {read:?}"))?;
        if case == "dsasync" {
            let holds = outcome.record.mechanisms.first().map(|one| one.counter("datagram_holds"));
            ensure(holds > Some(0), format!("{:?}", outcome.record.mechanisms))?;
        }
        lost.push(quic.declared_lost);
        longest_s = outcome.linux.host.longest_s;
    }
    Ok(Ok((lost, longest_s)))
}

/// An upload and a download at once, in bulk: both count from the end of the warm-up, and share the radio.
pub fn uploads_and_counts_from_the_warm_up() -> Answer {
    let text = SILENCES
        .replace("CASE", "none")
        .replace("duration = \"5s\"", "duration = \"4s\"\nwarm_up = \"2s\"")
        .replace(
            "source = \"1200kB\"",
            "[[flows]]\ndirection = \"uplink\"\ntransport = \"quic\"\nip = \"v6\"",
        );
    let outcome = match in_time(&text)? {
        Ok(outcome) => outcome,
        Err(skipped) => return Ok(skipped),
    };
    let record = &outcome.record;
    let [down, up] = &record.flows[..] else { return Err(format!("{:?}", record.flows).into()) };
    for flow in [down, up] {
        let (quic, udp) = parts(flow)?;
        ensure(flow.bytes > 100_000 && (1.9..2.1).contains(&flow.active_s), format!("{flow:?}"))?;
        // Two seconds of a radio of 10 Mbit/s carry 1700 datagrams at most, and a sender sends some that are
        // lost.
        ensure(quic.sent < 2_500 && udp.sent.abs_diff(quic.sent) <= 100, format!("{quic:?} {udp:?}"))?;
        ensure(quic.rtt_s > 0.02 && quic.rtt_s < 2.0, format!("{quic:?}"))?;
    }
    // What waits behind a gap at the warm-up's end is read after it, and is a good part of two seconds.
    let share = record.totals.limit_share;
    ensure(share > 0.4 && share < 1.3, format!("{share} of the limit"))?;
    Ok(Completion::Completed)
}

/// A congestion control that quinn does not have is refused by name.
pub fn refuses_what_quinn_does_not_have() -> Answer {
    let scenario = Scenario::from_toml(&SILENCES.replace("CASE", "none"), "test.toml", &[])?;
    let scenario = &scenario.cases()[0].scenario;
    for name in ["cubic", "reno", "bbr"] {
        check_congestion(scenario, name)?;
    }
    let error = check_congestion(scenario, "vegas").err().map(|error| error.to_string());
    let expected =
        "flows[0].transport: quinn has no congestion control \"vegas\" for QUIC; use one of cubic, reno, bbr";
    ensure(error.as_deref() == Some(expected), format!("{error:?}"))?;
    Ok(Completion::Completed)
}
