//! Flows whose applications stop before the run is over.

use libtest_mimic::Completion;

use crate::{Answer, ensure, in_time};

/// A download and an upload by iperf3, which knows whole seconds only, and one over QUIC.
const STOPS: &str = r#"
schema = "linkhold.scenario/1"
name = "stops"
duration = "7s"
warm_up = "1s"
[wired]
rtt = "20ms"
[radio]
phy_rate = "24Mbit/s"
[[flows]]
direction = "downlink"
stop = "3.1s"
[[flows]]
direction = "uplink"
stop = "3.1s"
[[flows]]
direction = "downlink"
transport = "quic"
stop = "3.1s"
"#;

/// iperf3's flows send nothing from their stop on, and rates of all are of the time until they were over, as
/// in the simulator.
pub fn rates_end_with_the_flow() -> Answer {
    let outcome = match in_time(STOPS)? {
        Ok(outcome) => outcome,
        Err(skipped) => return Ok(skipped),
    };
    let flows = &outcome.record.flows;
    ensure(flows.len() == 3, format!("{flows:?}"))?;
    for (index, flow) in flows.iter().enumerate() {
        // 3.1 s less the warm-up, and what was under way. QUIC has taken over what its application wrote.
        let most = if index < 2 { 2.7 } else { 5.5 };
        ensure((2.1..most).contains(&flow.active_s), format!("{flow:?}"))?;
        let carried = flow.goodput_bps * flow.active_s / 8.0;
        ensure((carried - flow.bytes as f64).abs() < 1.0 && flow.bytes > 100_000, format!("{flow:?}"))?;
    }
    Ok(Completion::Completed)
}
