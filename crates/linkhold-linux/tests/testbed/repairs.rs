//! What a run says of its senders' repairs: of each flow what was measured of it, and nothing of what was
//! not.

use libtest_mimic::Completion;

use crate::{Answer, ensure, in_time};

/// Two downloads whose senders share a namespace, the second to a station that is silent from 1 to 2 s, in
/// the warm-up, and from 4 to 5 s. The router drops what comes then.
const ONE_SILENT_STATION: &str = r#"
schema = "linkhold.scenario/1"
name = "repairs"
duration = "6s"
warm_up = "3s"
[output]
series_interval = "100ms"
[wired]
rtt = "20ms"
[radio]
phy_rate = "24Mbit/s"
stations = 2
[[radio.station_sensing]]
station = 1
period = "3s"
duration = "1s"
phase = "1s"
announced = false
[router]
in_silence = "drop"
[[flows]]
direction = "downlink"
station = "all"
[[cases]]
name = "none"
"#;

/// Timeouts are those of the flow's own sender after the warm-up. What only the namespace counts is told of
/// no flow where two send from it.
pub fn of_two_flows_in_a_namespace() -> Answer {
    let outcome = match in_time(ONE_SILENT_STATION)? {
        Ok(outcome) => outcome,
        Err(skipped) => return Ok(skipped),
    };
    let record = &outcome.record;
    let of = |station| record.flows.iter().find(|flow| flow.station == station);
    let (Some(reached), Some(silent)) = (of(0), of(1)) else {
        return Err(format!("{:?}", record.flows).into());
    };
    for flow in [reached, silent] {
        let unknown = (flow.spurious_rtos, flow.kept_rtos, flow.fast_recoveries);
        ensure(unknown == (None, None, None), format!("{flow:?}"))?;
    }
    if !tells_of_timeouts() {
        let known = (reached.rto_events, silent.rto_events, record.totals.rto_events);
        return ensure(known == (None, None, None), format!("{known:?}")).map(|()| Completion::Completed);
    }
    ensure(reached.rto_events == Some(0), format!("{reached:?}"))?;
    let silent_s = record.totals.rto_events;
    ensure(silent.rto_events == silent_s, format!("{silent:?}, {:?}", record.totals))?;
    // A timeout doubles from 200 ms and more, so a silence of a second has one to three.
    ensure(silent_s.is_some_and(|timeouts| (1..=3).contains(&timeouts)), format!("{silent_s:?}"))?;
    // The series has those of the warm-up, too, in the order of time.
    let series = outcome.series.flows.iter().find(|series| series.flow == silent.id);
    let series = series.map(|series| series.rto_events.as_slice()).unwrap_or_default();
    ensure(series.is_sorted() && series.last().copied() > silent_s, format!("{series:?} {silent_s:?}"))?;
    Ok(Completion::Completed)
}

/// A namespace's counters are a flow's where it is alone, and a flow that repaired nothing says so.
pub fn of_one_flow_in_a_namespace() -> Answer {
    let text = ONE_SILENT_STATION.replace("station = \"all\"", "station = 1");
    let outcome = match in_time(&text)? {
        Ok(outcome) => outcome,
        Err(skipped) => return Ok(skipped),
    };
    let flows = &outcome.record.flows;
    let [flow] = &flows[..] else { return Err(format!("{flows:?}").into()) };
    ensure(flow.rto_events.is_some_and(|timeouts| timeouts > 0), format!("{flow:?}"))?;
    let counted = outcome.linux.counters.get("TCPTimeouts").copied();
    ensure(flow.rto_events < counted, format!("those of the warm-up count: {flow:?}, {counted:?}"))?;
    ensure(flow.spurious_rtos.is_some() && flow.fast_recoveries.is_some(), format!("{flow:?}"))?;
    Ok(Completion::Completed)
}

/// Whether the kernel tells a socket's timeouts (`tcpi_total_rto`).
fn tells_of_timeouts() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|text| text.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= (6_u32, 7_u32)
}
