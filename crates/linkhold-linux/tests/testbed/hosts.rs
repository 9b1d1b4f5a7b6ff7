//! `linkhold host` in the testbed: at the stations, at the correspondent, beside the agent.

use std::collections::BTreeMap;

use libtest_mimic::Completion;
use linkhold_linux::agent::status::Status;
use linkhold_linux::host::kernel;
use linkhold_linux::testbed::outcome::Outcome;
use linkhold_linux::testbed::topology::HostAt;

use crate::{Answer, ensure, in_time};

/// Bursts of a second on the whole seconds: in six seconds one begins at 1, 3 and 5 s, and two end.
const RADIO: &str = r#"
schema = "linkhold.scenario/1"
name = "hosts"
duration = "6s"
[wired]
rtt = "20ms"
[radio]
phy_rate = "24Mbit/s"
stations = 2
primary_user = { on_mean = "1s", off_mean = "1s", fixed = true, detection_delay = "0s" }
[[cases]]
name = "hosts"
"#;

/// The outcome of a scenario's only case, if it can be had here.
macro_rules! outcome {
    ($text:expr) => {
        match in_time($text)? {
            Ok(outcome) => outcome,
            Err(skipped) => return Ok(skipped),
        }
    };
}

/// Silences that each host's mechanism saw, and windows that it closed, by place.
fn silences(outcome: &Outcome) -> BTreeMap<String, (u64, u64)> {
    let of = |host: &linkhold_linux::testbed::seats::HostStatus| {
        (host.at.to_string(), (host.status.silences, host.status.windows.closed))
    };
    outcome.linux.hosts.iter().map(of).collect()
}

/// What the host at station 0 said of itself.
fn at_station_0(outcome: &Outcome) -> Result<&Status, String> {
    let hosts = &outcome.linux.hosts;
    let host = hosts.iter().find(|host| host.at == HostAt::Station(0));
    host.map(|host| &host.status).ok_or_else(|| format!("no host at station 0: {hosts:?}"))
}

/// Each station has a host of its own, which hears the network's silences and its own station's.
pub fn at_each_station() -> Answer {
    let text = r#"
mechanism = { name = "cr-aware", at = "stations" }
[[flows]]
direction = "uplink"
station = "all"
[[radio.station_sensing]]
station = 1
period = "2s"
duration = "200ms"
phase = "400ms"
announced = false
"#;
    let outcome = outcome!(&format!("{RADIO}{text}"));
    let hosts = silences(&outcome);
    // Station 1 senses at 0.4, 2.4 and 4.4 s, while the primary user is away.
    let seen = ["host at station 0", "host at station 1"].map(|name| hosts.get(name).map(|one| one.0));
    ensure(seen == [Some(3), Some(6)], format!("{hosts:?}"))?;
    // Each closes the window of its connection in each silence; of iperf3's control connection, too.
    ensure(hosts.values().all(|&(silences, closed)| closed >= silences), format!("{hosts:?}"))?;
    let [record] = &outcome.record.mechanisms[..] else {
        return Err(format!("{:?}", outcome.record.mechanisms).into());
    };
    let placed = (record.name.as_str(), record.at.as_str(), record.counter("silences"));
    ensure(placed == ("cr-aware", "stations", 9), format!("{record:?}"))?;
    // The first burst is told from its start to its end, and both uploads go on behind it.
    let flows = outcome.record.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>();
    ensure(flows.len() == 2 && flows.iter().all(|&bytes| bytes > 1_000_000), format!("{flows:?}"))?;
    let stories = &outcome.linux.silences;
    ensure(
        stories.len() >= 2 && stories.iter().all(|story| story.cwnd_before.is_some()),
        format!("{stories:?}"),
    )?;
    Ok(Completion::Completed)
}

/// dsasync on the host that has the radio (its future work, section VII): it holds the host's own segments in
/// a silence, and what collided before the host was told goes again from copies, which are whole.
pub fn dsasync_at_a_station() -> Answer {
    let text = r#"
mechanism = { name = "dsasync", at = "stations" }
set = { "radio.primary_user.detection_delay" = "20ms" }
[[flows]]
direction = "uplink"
"#;
    let outcome = outcome!(&format!("{RADIO}{text}"));
    let status = at_station_0(&outcome)?;
    ensure(status.mechanism == "dsasync" && status.silences == 3, format!("{status:?}"))?;
    let packets = status.packets;
    ensure(packets.released > 0 && packets.copies_sent > 0, format!("{packets:?}"))?;
    ensure(status.driver.copies_missing == 0, format!("{:?}", status.driver))?;
    // Three of six seconds are silent, and the radio carries 17.5 Mbit/s in the others.
    let share = outcome.record.totals.limit_share;
    ensure(share > 0.5, format!("{share} of the limit"))?;
    Ok(Completion::Completed)
}

/// A host that freezes its senders and holds what they sent before they heard: two mechanisms of one host.
pub fn two_at_a_station() -> Answer {
    let text = r#"
mechanisms = [{ name = "dsasync", at = "stations" }, { name = "cr-aware", at = "stations" }]
set = { "radio.primary_user.detection_delay" = "20ms" }
[[flows]]
direction = "uplink"
"#;
    let outcome = outcome!(&format!("{RADIO}{text}"));
    let status = at_station_0(&outcome)?;
    ensure(status.mechanism == "cr-aware+dsasync" && status.silences == 3, format!("{status:?}"))?;
    // Frozen senders hear a closed window; what collided before anybody was told goes again from copies.
    ensure(status.windows.closed >= 3 && status.packets.copies_sent > 0, format!("{status:?}"))?;
    ensure(status.driver.copies_missing == 0, format!("{:?}", status.driver))?;
    let records: Vec<_> = outcome.record.mechanisms.iter().map(|one| (&*one.name, &*one.at)).collect();
    ensure(records == [("dsasync", "stations"), ("cr-aware", "stations")], format!("{records:?}"))?;
    // At two stations.
    for record in &outcome.record.mechanisms {
        ensure(record.counter("silences") == 6, format!("{record:?}"))?;
    }
    // Three of six seconds are silent, and the radio carries 17.5 Mbit/s in the others.
    let share = outcome.record.totals.limit_share;
    println!("{share} of the limit");
    ensure(share > 0.5, format!("{share} of the limit"))?;
    Ok(Completion::Completed)
}

/// dsasync at both ends of the radio: the agent holds what goes down in a silence, each station's host what
/// its own kernel sends up. Neither keeps the other's traffic waiting.
pub fn dsasync_at_both_ends() -> Answer {
    let text = r#"
mechanisms = [{ name = "dsasync" }, { name = "dsasync", at = "stations" }]
[[flows]]
direction = "downlink"
station = 0
[[flows]]
direction = "uplink"
station = 1
"#;
    let outcome = outcome!(&format!("{RADIO}{text}"));
    let Some(agent) = &outcome.linux.agent else { return Err("no agent".into()) };
    let hosts = outcome.linux.hosts.iter().map(|host| (host.at.to_string(), &host.status));
    let seats: Vec<_> = hosts.chain([("the agent".to_owned(), agent)]).collect();
    ensure(seats.len() == 3, format!("{:?}", outcome.linux.hosts))?;
    for (at, status) in &seats {
        ensure(status.mechanism == "dsasync" && status.silences == 3, format!("{at}: {status:?}"))?;
        ensure(status.packets.verdict_errors == 0, format!("{at}: {:?}", status.packets))?;
    }
    // Whoever has data to send holds it in a silence, and lets it go afterwards.
    for (at, status) in seats.iter().filter(|(at, _)| at != "host at station 0") {
        ensure(status.packets.released > 0, format!("{at}: {:?}", status.packets))?;
    }
    let records: Vec<_> = outcome.record.mechanisms.iter().map(|one| (&*one.name, &*one.at)).collect();
    ensure(records == [("dsasync", "base-station"), ("dsasync", "stations")], format!("{records:?}"))?;
    let flows = outcome.record.flows.iter().map(|flow| flow.bytes).collect::<Vec<_>>();
    let share = outcome.record.totals.limit_share;
    println!("{share} of the limit, bytes of the flows: {flows:?}");
    // Three of six seconds are silent. Runs beside other work reached 0.95 of the limit, with 3.6 MB down and
    // 2.3 MB up.
    ensure(share > 0.85, format!("{share} of the limit"))?;
    ensure(flows.len() == 2 && flows.iter().all(|&bytes| bytes > 1_500_000), format!("{flows:?}"))?;
    Ok(Completion::Completed)
}

/// A host at the correspondent, for what goes down, and the agent at the base station beside it.
pub fn at_the_correspondent_beside_the_agent() -> Answer {
    let text = r#"
mechanisms = [{ name = "dsasync" }, { name = "cr-aware", at = "correspondent" }]
[[flows]]
direction = "downlink"
"#;
    let outcome = outcome!(&format!("{RADIO}{text}"));
    let hosts = silences(&outcome);
    let (heard, closed) = hosts.get("host at the correspondent").copied().unwrap_or_default();
    ensure(heard == 3 && closed >= 3, format!("{hosts:?}"))?;
    let records: Vec<_> = outcome.record.mechanisms.iter().map(|one| (&*one.name, &*one.at)).collect();
    ensure(records == [("dsasync", "base-station"), ("cr-aware", "correspondent")], format!("{records:?}"))?;
    let agent = outcome.linux.agent.as_ref().map(|status| (status.mechanism.as_str(), status.silences));
    ensure(agent == Some(("dsasync", 3)), format!("{agent:?}"))?;
    Ok(Completion::Completed)
}

/// The radio's samples reach the gate at a station: it walks out of range of its threshold.
pub fn a_gate_hears_the_signal() -> Answer {
    let text = r#"
mechanism = { name = "snr-gate", rule = "hysteresis", threshold = "30dB", margin = "3dB", averaged = 1 }
[[flows]]
direction = "uplink"
[radio.snr]
rate = "ofdm-24"
error = "0dB"
[radio.snr.walk]
snr_at_1m = "60dB"
near = "5m"
far = "25m"
speed = "3m/s"
random_start = false
"#;
    // 30 dB is at 10 m, 1.7 s from the start.
    let outcome = outcome!(&format!("{RADIO}{text}"));
    let host = outcome.linux.hosts.iter().find(|host| host.at == HostAt::Station(0));
    let told = host.map(|host| (host.status.windows.closed, host.status.events.get("testbed").copied()));
    ensure(told.is_some_and(|(closed, events)| closed >= 1 && events > Some(40)), format!("{told:?}"))?;
    let before = outcome.series.flows.first().and_then(|flow| flow.goodput_bps.first().copied());
    let after = outcome.series.flows.first().and_then(|flow| flow.goodput_bps.get(4).copied());
    // Out of range nothing is sent, though the radio could.
    ensure(before > Some(1e6) && after < Some(1e5), format!("{before:?}, {after:?} bit/s"))?;
    Ok(Completion::Completed)
}

/// A case that asks for it has senders that the station's host freezes by eBPF.
pub fn by_ebpf() -> Answer {
    frozen_by_ebpf("stations", "uplink", HostAt::Station(0))
}

/// The same at the far end, whose host hears of each burst one wired delay late.
pub fn by_ebpf_at_the_correspondent() -> Answer {
    frozen_by_ebpf("correspondent", "downlink", HostAt::Correspondent)
}

fn frozen_by_ebpf(place: &str, direction: &str, at: HostAt) -> Answer {
    let text = format!(
        r#"
mechanism = {{ name = "cr-aware", at = "{place}" }}
set = {{ "host.freeze" = "both" }}
[[flows]]
direction = "{direction}"
"#
    );
    // The first slow start is over when the first burst comes, at 1.5 s.
    let text =
        format!("{RADIO}{text}").replace("\"1s\", off_mean = \"1s\"", "\"500ms\", off_mean = \"1500ms\"");
    if let Some(missing) = kernel::missing() {
        let refused = crate::refused(&text)?;
        ensure(refused.contains(&missing), refused)?;
        return Ok(Completion::ignored_with(missing));
    }
    let outcome = outcome!(&text);
    let host = outcome.linux.hosts.iter().find(|host| host.at == at);
    let kernel = host.and_then(|host| host.status.kernel);
    // Frozen are only sockets whose congestion control is linkhold's.
    ensure(kernel.is_some_and(|kernel| kernel.frozen >= 2), format!("{kernel:?}"))?;
    let bulk = outcome.linux.silences.iter().map(|story| (story.cwnd_before, story.cwnd_at_end));
    // A silence before which no window was seen counts as a failure.
    let kept = bulk.clone().all(|(before, at_end)| {
        before.zip(at_end).is_some_and(|(before, at_end)| at_end >= before - before / 8)
    });
    ensure(kept && bulk.count() >= 2, format!("{:?}", outcome.linux.silences))?;
    Ok(Completion::Completed)
}
