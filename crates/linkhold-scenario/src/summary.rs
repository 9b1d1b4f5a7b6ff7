//! What a scenario comes to, for a human: `linkhold scenario check`.

use std::fmt::Write as _;

use linkhold_core::packet::Direction;
use linkhold_core::units::Bytes;

use crate::Scenario;
use crate::model::{
    Case, Cell, Channel, Discipline, FlowGroup, InSilence, IpVersion, Mac, Mechanism, Profile, Queue, Radio,
    ResolvedScenario, Sensing, Source, SwitchPolicy,
};

/// The facts, a line each.
pub(crate) fn summary(scenario: &Scenario) -> String {
    let mut text = String::new();
    for (label, value) in facts(scenario) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {label:<12}{value}");
    }
    text
}

/// The first case in full, then what each case does: what it is about, and the fact.
pub(crate) fn facts(scenario: &Scenario) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let Some(first) = scenario.cases.first() else { return facts };
    let s = &first.scenario;
    let mut line = |label: &str, value: String| facts.push((label.to_owned(), value));
    line("duration", format!("{} ({} of it warm-up), seed {}", s.duration, s.warm_up, s.seed));
    let rtt = s.wired.one_way_delay * 2;
    line("wired", format!("{}, {rtt} round trip, {} packets", s.wired.rate, s.wired.queue));
    radio(&s.radio, &mut line);
    let hidden = if s.router_visible { "" } else { "; hidden from the mechanism" };
    line("router", format!("{}{hidden}", queue(&s.router)));
    line("station", queue(&s.station));
    line("tcp", tcp(s));
    for group in &s.flows {
        line("flows", flows(group));
    }
    for case in &scenario.cases {
        line("case", case_line(case, s));
    }
    facts
}

fn radio(radio: &Radio, line: &mut dyn FnMut(&str, String)) {
    let stations = count(radio.stations as usize, "station");
    match &radio.mac {
        Mac::Shared(cell) => channels(&format!("shared, {stations}"), cell, line),
        Mac::Duplex(cell) => channels(&format!("duplex, {stations}"), cell, line),
        Mac::Trace(trace) => {
            line("radio", format!("measured trace, {stations}"));
            for (label, file) in [("down", &trace.down), ("up", &trace.up)] {
                let lap = file.trace.duration();
                line(label, format!("{} ({lap} long, mean {})", file.path.display(), file.trace.mean_rate()));
            }
            let told = trace.detection_delay;
            line("silence", format!("a gap over {}, told {told} after it begins", trace.silence_threshold));
            if trace.random_start {
                line("start", "at a place of the trace that each repetition's seed draws".to_owned());
            }
        }
    }
    if let Some(sensing) = &radio.sensing {
        line("sensing", describe_sensing(sensing));
    }
    for entry in &radio.station_sensing {
        line("sensing", format!("station {}: {}", entry.station, describe_sensing(&entry.sensing)));
    }
}

fn channels(head: &str, cell: &Cell, line: &mut dyn FnMut(&str, String)) {
    line("radio", head.to_owned());
    for (index, channel) in cell.channels.iter().enumerate() {
        line(&format!("channel {index}"), describe_channel(channel));
    }
    for switch in &cell.switches {
        line(
            "switch",
            format!("at {} to channel {} ({} silent)", switch.at, switch.to_channel, cell.switching_delay),
        );
    }
    match cell.switch_policy {
        SwitchPolicy::Scripted => {}
        SwitchPolicy::OnPrimaryUser => {
            line("switch", format!("when a primary user is detected ({} silent)", cell.switching_delay));
        }
    }
}

fn describe_channel(channel: &Channel) -> String {
    let efficiency = channel.mac_efficiency.get();
    let net = channel.phy_rate.mul_f64(efficiency);
    let mut text = format!("{} x {efficiency} = {net}", channel.phy_rate);
    if let Some(user) = &channel.primary_user {
        let (on, off) = (user.on_mean.as_secs_f64(), user.off_mean.as_secs_f64());
        let share = 100.0 * on / (on + off);
        let _ =
            write!(text, "; primary user {} on, {} off (mean; {share:.1} %)", user.on_mean, user.off_mean);
    }
    text
}

fn describe_sensing(sensing: &Sensing) -> String {
    let share = 100.0 * sensing.duration.as_secs_f64() / sensing.period.as_secs_f64();
    let told = if sensing.announced { "announced" } else { "not announced" };
    format!("{} every {} ({share:.1} %), {told}", sensing.duration, sensing.period)
}

fn queue(queue: &Queue) -> String {
    let discipline = match queue.discipline {
        Discipline::Fifo { limit } => format!("fifo of {limit} packets"),
        Discipline::FqCodel { limit, target, interval, .. } => {
            format!("fq_codel of {limit} packets, target {target}, interval {interval}")
        }
    };
    let silence = match queue.in_silence {
        InSilence::Queue => "queues in a silence",
        InSilence::Drop => "drops what arrives in a silence",
        InSilence::Flush => "loses in a silence what was queued and what arrives",
    };
    format!("{discipline}; {silence}")
}

fn tcp(s: &ResolvedScenario) -> String {
    let profile = match s.tcp_profile {
        Profile::Linux => "linux",
        Profile::Linux2009 => "linux-2009",
        Profile::Classic => "classic",
    };
    let tcp = &s.tcp;
    let buffer = match tcp.receive_autotune {
        Some(most) => format!("{} growing to {}", tcp.receive_buffer, most),
        None => tcp.receive_buffer.to_string(),
    };
    format!("{profile}: {:?}, {:?}, MSS {}, receive buffer {buffer}", tcp.congestion, tcp.recovery, tcp.mss)
}

fn flows(group: &FlowGroup) -> String {
    let direction = match group.direction {
        Direction::Downlink => "downlink",
        Direction::Uplink => "uplink",
    };
    let source = match group.source {
        Source::Bulk => "bulk".to_owned(),
        Source::Finite(bytes) => format!("{bytes} each"),
        Source::Paced { rate, chunk: Bytes(chunk) } => format!("paced at {rate} in {chunk} B"),
    };
    let how_many = match group.arrivals {
        Some(arrivals) => format!("{}/s arriving", arrivals.per_second),
        None => format!("{} connections", group.count),
    };
    let ip = match group.ip {
        IpVersion::V4 => "IPv4",
        IpVersion::V6 => "IPv6",
    };
    let stations = count(group.stations.len(), "station");
    let stop = group.stop.map(|stop| format!(" to {stop}")).unwrap_or_default();
    format!("{direction}, {how_many} on each of {stations}, {source}, {ip}, from {}{stop}", group.start)
}

/// A setting's value as it is written in a scenario.
fn key_name(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(_) | Err(_) => "?".to_owned(),
    }
}

fn case_line(case: &Case, first: &ResolvedScenario) -> String {
    let mechanism = match &case.scenario.mechanism {
        Mechanism::None => "plain router".to_owned(),
        Mechanism::DsaSync(config) => {
            format!(
                "dsasync, mode {}, windows closed: {}, held down: {}, B_alloc {}",
                key_name(&config.mode),
                key_name(&config.close_at),
                key_name(&config.clamp),
                config.b_alloc
            )
        }
    };
    let same_but_mechanism =
        ResolvedScenario { mechanism: first.mechanism, ..case.scenario.clone() } == *first;
    let differs = if same_but_mechanism { "" } else { ", with keys of its own" };
    format!("{}: {mechanism}{differs}", case.name)
}

fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
