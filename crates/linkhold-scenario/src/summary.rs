//! Describes a scenario in words, for `linkhold scenario check` and the report.

use std::fmt::Write as _;

use linkhold_core::mechanism::Place;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};
use linkhold_radio::dcf::DcfConfig;
use linkhold_radio::grants::{Backoff, Duplexing, Proactive, Requesting, Steps, SuccessChange};
use linkhold_radio::{
    AirConfig, AirTime, AirTimeModel, ChannelConfig, Fading, FqCodelConfig, GrantsConfig, HeardBy,
    Ieee802154Config, InSilence, Mac, OverhearConfig, QueueConfig, QueueKind, SensingConfig, SnrConfig,
    SnrReport, SnrSource, Standard, SwitchPolicy, TraceLink, WalkConfig,
};

use crate::mesh_summary;
use crate::model::{
    Case, FlowGroup, IpVersion, Media, ObjectCounts, ObjectSizes, PlacedMechanism, Profile, Receiver,
    ResolvedScenario, Source, TraceFiles, Transport, Web, WebConnection,
};
use crate::primary_user;
use crate::told;

/// The facts, a line each.
pub(crate) fn summary(cases: &[Case]) -> String {
    let mut text = String::new();
    for (label, value) in facts(cases, None) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {label:<12}{value}");
    }
    text
}

/// Each fact as a label ("router") and a text: the first case in full, then a line for each case.
/// `congestion` names the senders' congestion controls, if they are not the file's.
pub(crate) fn facts(cases: &[Case], congestion: Option<&str>) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let Some(first) = cases.first() else { return facts };
    let s = &first.scenario;
    let mut line = |label: &str, value: String| facts.push((label.to_owned(), value));
    line("duration", format!("{} ({} of it warm-up), seed {}", s.duration, s.warm_up, s.seed));
    match &s.mesh {
        Some(mesh) => mesh_summary::facts(mesh, &mut line),
        None => cell(s, &mut line),
    }
    let tcp = |s: &ResolvedScenario| tcp(s, congestion.unwrap_or(s.tcp.congestion.name()));
    line("tcp", tcp(s));
    // Nobody should compare cases and not see that their routers, paths or stacks differ.
    if s.mesh.is_none() {
        differing(cases, "wired", &wired, &mut line);
        differing_lines(cases, &radio, &mut line);
        differing(cases, "router", &router, &mut line);
        differing(cases, "station", &station, &mut line);
    } else {
        differing_lines(cases, &mesh, &mut line);
    }
    differing(cases, "tcp", &tcp, &mut line);
    all_flows(s, &mut line);
    differing_lines(cases, &all_flows, &mut line);
    let listener = cases.iter().map(|case| &case.scenario).find(|scenario| is_told(scenario));
    if let Some(listener) = listener {
        let mut text = told(listener);
        let mut placed = cases.iter().flat_map(|case| &case.scenario.mechanisms);
        if placed.any(|mechanism| mechanism.place == Place::Correspondent) {
            text.push_str("; a correspondent is told one wired delay later");
        }
        line("told", text);
        // Nobody should compare cases and not see that they are told different things.
        for case in cases.iter().filter(|case| told_differs(&case.scenario, listener)) {
            line("told", format!("case {}: {}", case.name, told(&case.scenario)));
        }
    }
    for case in cases {
        line("case", case_line(case, s));
    }
    facts
}

/// A line for each case of which `fact` says otherwise than of the first.
fn differing(
    cases: &[Case],
    label: &str,
    fact: &dyn Fn(&ResolvedScenario) -> String,
    line: &mut dyn FnMut(&str, String),
) {
    let first = cases.first().map(|case| fact(&case.scenario));
    for case in cases {
        let own = fact(&case.scenario);
        if first.as_ref() != Some(&own) {
            line(label, format!("case {}: {own}", case.name));
        }
    }
}

/// Takes facts, each as a label and a text.
type Lines<'a> = &'a mut dyn FnMut(&str, String);

/// The lines of `about` for each case that the first case does not have, and those that it lacks.
fn differing_lines(
    cases: &[Case],
    about: &dyn Fn(&ResolvedScenario, Lines<'_>),
    line: &mut dyn FnMut(&str, String),
) {
    let of = |case: &Case| {
        let mut lines: Vec<(String, String)> = Vec::new();
        about(&case.scenario, &mut |label, value| lines.push((label.to_owned(), value)));
        lines
    };
    let Some(first) = cases.first().map(of) else { return };
    for case in &cases[1..] {
        let own = of(case);
        for (label, value) in own.iter().filter(|own| !first.contains(own)) {
            line(label, format!("case {}: {value}", case.name));
        }
        let mut gone: Vec<&str> = Vec::new();
        for (label, _) in &first {
            if own.iter().all(|(other, _)| other != label) && !gone.contains(&label.as_str()) {
                gone.push(label);
                line(label, format!("case {}: none", case.name));
            }
        }
    }
}

fn mesh(s: &ResolvedScenario, line: &mut dyn FnMut(&str, String)) {
    if let Some(mesh) = &s.mesh {
        mesh_summary::facts(mesh, line);
    }
}

fn all_flows(s: &ResolvedScenario, line: &mut dyn FnMut(&str, String)) {
    for group in &s.flows {
        line("flows", flows(group));
    }
}

fn cell(s: &ResolvedScenario, line: &mut dyn FnMut(&str, String)) {
    line("wired", wired(s));
    radio(s, line);
    line("router", router(s));
    line("station", station(s));
}

fn station(s: &ResolvedScenario) -> String {
    let host = match s.host_delay {
        Duration::ZERO => String::new(),
        delay => format!("; its host's packets reach the radio {delay} later"),
    };
    format!("{}{host}", queue(&s.radio.station_queue))
}

fn wired(s: &ResolvedScenario) -> String {
    let rtt = s.wired.one_way_delay * 2;
    let jitter = match s.wired.jitter {
        Duration::ZERO => String::new(),
        mean => format!("; cross traffic each way, a mean wait of {mean}"),
    };
    format!("{}, {rtt} round trip, {} packets{jitter}", s.wired.rate, s.wired.queue)
}

fn router(s: &ResolvedScenario) -> String {
    let visible =
        if s.router_visible { "; the mechanism is told its room and can take packets back" } else { "" };
    format!("{}{visible}", queue(&s.radio.router))
}

/// What the radio tells the mechanisms, and how late. Results depend on it more than on anything else.
fn told(scenario: &ResolvedScenario) -> String {
    let radio = &scenario.radio;
    if scenario.mesh.is_some() {
        return "sensing and handoffs at their first moment, and the channel's exact rate".to_owned();
    }
    if let Mac::Trace(link) = &radio.mac {
        let late = link.detection_delay;
        let more = match told::describe_gaps(radio) {
            None => String::new(),
            Some(more) => format!(", and counted from then: {more}"),
        };
        let others = told_of_quiet_periods(radio).map_or(String::new(), |others| format!("; {others}"));
        let what = if others.is_empty() { "a silence" } else { "a gap of the trace" };
        return format!(
            "{what} {late} after it begins, its end {late} late{more}{others}; nobody tells the rate"
        );
    }
    if let Mac::Ieee802154(mac) = &radio.mac {
        return told_by_overhearing(radio, mac);
    }
    let schedules = radio.sensing.iter().chain(radio.station_sensing.iter().map(|own| &own.sensing));
    let (ahead, other) = if schedules.clone().any(|own| own.announced) {
        ("quiet periods ahead, ", if schedules.clone().all(|own| own.announced) { "other " } else { "" })
    } else {
        ("", "")
    };
    let silences = match told::describe(radio) {
        None => format!("{ahead}every {other}silence at its first moment"),
        Some(more) => format!("{ahead}{more}"),
    };
    let told = if radio.rate_told {
        format!("{silences}, and the channel's exact rate")
    } else {
        format!("{silences}; nobody tells the rate")
    };
    let told = match &radio.mac {
        Mac::Grants(_) => format!("{told}; each grant as its station hears of it"),
        Mac::Shared | Mac::Duplex | Mac::Trace(_) | Mac::Dcf(_) | Mac::Ieee802154(_) => told,
    };
    match &radio.snr {
        None => told,
        Some(snr) => {
            let SnrReport { interval, delay, error_db } = snr.report;
            format!("{told}; the SNR every {interval}, {delay} late, with an error of {error_db} dB")
        }
    }
}

/// What is told of quiet periods, where there are any beside a trace's gaps.
fn told_of_quiet_periods(radio: &AirConfig) -> Option<String> {
    let own = radio.station_sensing.iter().map(|own| &own.sensing);
    let mut schedules = radio.sensing.iter().chain(own).peekable();
    schedules.peek()?;
    let is_announced = schedules.any(|own| own.announced);
    Some(match (is_announced, told::describe(radio)) {
        (true, None) => "quiet periods ahead".to_owned(),
        (true, Some(more)) => format!("quiet periods ahead, {more}"),
        (false, None) => "quiet periods at their first moment".to_owned(),
        (false, Some(more)) => more,
    })
}

/// Where the SNR comes from, and what it does to frames.
fn describe_snr(snr: &SnrConfig) -> String {
    let mut rates: Vec<&str> = snr.rates.iter().map(|rate| rate.name()).collect();
    rates.dedup();
    let rates = rates.join(", ");
    match &snr.source {
        SnrSource::Trace { trace, random_start } => {
            let (least, most) = trace.range_db();
            let start = if *random_start { ", from a place that each repetition's seed draws" } else { "" };
            let (rows, length) = (trace.rows(), trace.duration());
            format!(
                "{least} to {most} dB, measured ({rows} rows, {length} long{start}); error rates of {rates}"
            )
        }
        SnrSource::Walk(walk) => {
            let fading = match walk.fading {
                Fading::None => "no fading".to_owned(),
                Fading::Rayleigh => "Rayleigh fading".to_owned(),
                Fading::Rician(k_factor) => format!("Rician fading, K = {k_factor} dB"),
            };
            let WalkConfig { near, far, speed, snr_at_1m, exponent, .. } = walk;
            format!(
                "a walk from {near} m to {far} m and back at {speed} m/s, {snr_at_1m} dB at 1 m, exponent \
                 {exponent}, {fading}; error rates of {rates}"
            )
        }
    }
}

/// What radios that overhear the primary user tell, each to its own host.
fn told_by_overhearing(radio: &AirConfig, mac: &Ieee802154Config) -> String {
    let rate = if radio.rate_told { "the channel's exact rate" } else { "nobody tells the rate" };
    if radio.channels.iter().all(|channel| channel.primary_user.is_none()) {
        return format!("no silence: there is no primary user; {rate}");
    }
    let OverhearConfig { address, missed, delay, idle_time, false_alarms, .. } = &mac.overhearing;
    if *address != mac.user_address {
        let user = mac.user_address;
        return format!(
            "no true silence: the primary user sends from {user}, and radios listen for {address}; {false_alarms}/s \
             false alarms; {rate}"
        );
    }
    let who = match mac.user_heard_by {
        HeardBy::All => "each radio's host",
        HeardBy::Stations => "each station's host (the base station hears no primary user)",
        HeardBy::BaseStation => "the base station (no station hears the primary user)",
    };
    format!(
        "{who}: a primary user {delay} after the first of its frames that is overheard ({:.1} % are missed), its \
         end {idle_time} after the last; {false_alarms}/s false alarms; {rate}",
        100.0 * missed.get()
    )
}

fn radio(scenario: &ResolvedScenario, line: &mut dyn FnMut(&str, String)) {
    let radio = &scenario.radio;
    let stations = count(radio.stations as usize, "station");
    match &radio.mac {
        Mac::Grants(grants) => {
            channels(&format!("{}, {stations}", standard(grants)), radio, line);
            for fact in describe_grants(grants, radio) {
                line("mac", fact);
            }
        }
        Mac::Shared => channels(&format!("shared, {stations}"), radio, line),
        Mac::Duplex => channels(&format!("duplex, {stations}"), radio, line),
        Mac::Dcf(mac) => {
            channels(&format!("{} DCF, {stations}", mac.phy), radio, line);
            line("mac", describe_dcf(mac));
        }
        Mac::Ieee802154(mac) => {
            channels(&format!("IEEE 802.15.4, {stations}"), radio, line);
            line("mac", describe_ieee802154(mac));
        }
        Mac::Trace(link) => {
            line("radio", format!("measured trace, {stations}"));
            if let Some(files) = &scenario.traces {
                trace(link, files, line);
            }
        }
    }
    if let Some(snr) = &radio.snr {
        line("snr", describe_snr(snr));
    }
    if let Some(sensing) = &radio.sensing {
        line("sensing", describe_sensing(sensing));
    }
    for entry in &radio.station_sensing {
        line("sensing", format!("station {}: {}", entry.station.0, describe_sensing(&entry.sensing)));
    }
}

fn trace(link: &TraceLink, files: &TraceFiles, line: &mut dyn FnMut(&str, String)) {
    for (label, path, trace) in [("down", &files.down, &link.down), ("up", &files.up, &link.up)] {
        let lap = trace.duration();
        line(label, format!("{} ({lap} long, mean {})", path.display(), trace.mean_rate()));
    }
    let told = link.detection_delay;
    line("silence", format!("a gap over {}, told {told} after it begins", link.silence_threshold));
    if link.random_start {
        line("start", "at a place of the trace that each repetition's seed draws".to_owned());
    }
}

fn channels(head: &str, radio: &AirConfig, line: &mut dyn FnMut(&str, String)) {
    line("radio", head.to_owned());
    for (index, channel) in radio.channels.iter().enumerate() {
        line(&format!("channel {index}"), describe_channel(index, channel, radio));
    }
    let silent = radio.switching.delay;
    for switch in &radio.switching.scripted {
        line("switch", {
            let at = switch.at.since(Instant::ZERO);
            format!("at {at} to channel {} ({silent} silent)", switch.to_channel)
        });
    }
    match radio.switching.policy {
        SwitchPolicy::Scripted => {}
        SwitchPolicy::OnPrimaryUser => {
            line("switch", format!("when a primary user is detected ({silent} silent)"));
        }
    }
}

const fn standard(grants: &GrantsConfig) -> &'static str {
    match grants.standard {
        Standard::Ieee80216 => "IEEE 802.16",
        Standard::Docsis => "DOCSIS",
        Standard::FiveG => "5G",
    }
}

/// The frame, what it carries, how stations ask, and what is granted without that.
fn describe_grants(grants: &GrantsConfig, radio: &AirConfig) -> Vec<String> {
    let GrantsConfig { frame, maps, contention, assignment, implementation_delay, .. } = grants;
    let layout = grants.layout();
    let mut facts = vec![match grants.duplexing {
        Duplexing::Tdd { ttg, rtg, .. } => format!(
            "TDD frames of {frame}: {} down ({maps} of maps), {ttg} gap, {} up ({contention} of contention), {rtg} gap",
            layout.down_end,
            layout.up_end.saturating_sub(layout.up_start)
        ),
        Duplexing::Fdd => {
            format!("FDD frames of {frame}: {maps} of maps down, {contention} of contention up")
        }
    }];
    if let Some(channel) = radio.channels.get(radio.initial_channel) {
        let (down, up) = grants.data_shares();
        let efficiency = channel.efficiency.get();
        let burst = grants.uplink_rate.unwrap_or(channel.phy_rate);
        facts.push(format!(
            "{} down and {} up in the mean, {} B around each packet",
            channel.phy_rate.mul_f64(efficiency * down),
            burst.mul_f64(efficiency * up),
            grants.header
        ));
    }
    let asks = match grants.requesting {
        Requesting::Contention { codes, subchannels, slots, backoff, backoff_start, backoff_end } => {
            let next = match backoff {
                Backoff::Standard => {
                    format!(
                        "next try after {} and a window of 2^{backoff_start} to 2^{backoff_end} frames",
                        grants.t3
                    )
                }
                Backoff::Paper => "tries over after 1, 2, 4, ... frames".to_owned(),
            };
            format!("{codes} codes x {subchannels} subchannels x {slots} slots; {next}")
        }
        Requesting::Reserved { period } => {
            format!("each station's own opportunity every {period} frames; next try after {}", grants.t3)
        }
    };
    let steps = match grants.steps {
        Steps::One => "a request tells the bytes",
        Steps::Two => "a request, then a message that tells the bytes",
    };
    facts.push(format!(
        "{asks}; {:.1} % of requests received; at most {} tries",
        100.0 * grants.success.get(),
        grants.max_tries
    ));
    if grants.success_changes.iter().next().is_some() {
        let change = |change: &SuccessChange| {
            format!("{:.1} % from {} on", 100.0 * change.success.get(), change.at.since(Instant::ZERO))
        };
        let changes: Vec<String> = grants.success_changes.iter().map(change).collect();
        facts.push(format!("requests received: {}", changes.join(", ")));
    }
    let frames = match grants.steps {
        Steps::One => grants.first_answer(),
        Steps::Two => grants.first_answer() + grants.second_answer(),
    };
    let piggyback = if grants.piggyback { "piggybacked requests" } else { "no piggybacked requests" };
    facts.push(format!(
        "{steps}; burst {frames} frames after the request (assignment {assignment}, implementation \
         {implementation_delay}); {piggyback}"
    ));
    if let Some(Proactive { bytes, period }) = grants.proactive {
        facts.push(format!("unasked, {bytes} to each station every {}", count(period as usize, "frame")));
    }
    if grants.tell_silences {
        facts.push("waiting for a grant is told as a silence".to_owned());
    }
    facts
}

fn describe_dcf(mac: &DcfConfig) -> String {
    let DcfConfig { short_retry_limit, long_retry_limit, rts_threshold, .. } = mac;
    if *rts_threshold >= DcfConfig::NO_RTS {
        return format!("a frame has {short_retry_limit} attempts; no RTS");
    }
    format!(
        "a frame has {short_retry_limit} attempts; longer than {rts_threshold} B it goes behind RTS and CTS, and has \
         {long_retry_limit} of them"
    )
}

fn describe_ieee802154(mac: &Ieee802154Config) -> String {
    let acknowledged = if mac.acknowledged {
        format!("acknowledged, {} retries", mac.max_frame_retries)
    } else {
        "not acknowledged".to_owned()
    };
    format!(
        "BE {} to {}, {} backoffs, {acknowledged}; MPDU {} B; {} to process a frame; {:.1} % of frames lost",
        mac.min_be,
        mac.max_be,
        mac.max_csma_backoffs,
        mac.mpdu,
        mac.processing_time,
        100.0 * mac.frame_loss.get()
    )
}

fn describe_channel(index: usize, channel: &ChannelConfig, radio: &AirConfig) -> String {
    let model = radio.air_time;
    let net = channel.air_time(model).map_or(BitRate(0), |air_time| air_time.effective_rate());
    let mut text = match (model, &radio.mac) {
        (_, Mac::Dcf(mac)) => {
            let alone =
                AirTime::of_dcf(mac, channel.phy_rate).map_or(BitRate(0), |time| time.effective_rate());
            format!("{}, {alone} in full-size packets from a sender alone", channel.phy_rate)
        }
        (_, Mac::Ieee802154(_)) => format!("{}, {net} from a sender alone", channel.phy_rate),
        (AirTimeModel::PerByte, Mac::Grants(_)) => {
            format!("{} x {} = {net} in a burst", channel.phy_rate, channel.efficiency.get())
        }
        (AirTimeModel::PerByte, _) => format!("{} x {} = {net}", channel.phy_rate, channel.efficiency.get()),
        (AirTimeModel::Ieee80211a, _) => {
            format!("{} as IEEE 802.11a, {net} in full-size packets", channel.phy_rate)
        }
    };
    if let Some(measured) = radio.measured_users.get(index).and_then(Option::as_ref) {
        let _ = write!(text, "; {}", primary_user::describe_measured(measured, index));
    } else if let Some(user) = &channel.primary_user {
        let (on, off) = (user.on_mean.as_secs_f64(), user.off_mean.as_secs_f64());
        let share = 100.0 * on / (on + off);
        let times = if user.fixed { "fixed" } else { "mean" };
        let _ =
            write!(text, "; primary user {} on, {} off ({times}; {share:.1} %)", user.on_mean, user.off_mean);
    }
    text
}

fn describe_sensing(sensing: &SensingConfig) -> String {
    let share = 100.0 * sensing.duration.as_secs_f64() / sensing.period.as_secs_f64();
    let told = if sensing.announced { "announced" } else { "not announced" };
    format!("{} every {} ({share:.1} %), {told}", sensing.duration, sensing.period)
}

fn queue(queue: &QueueConfig) -> String {
    let discipline = match queue.kind {
        QueueKind::Fifo { limit } => format!("fifo of {limit} packets"),
        QueueKind::FqCodel(FqCodelConfig { limit, target, interval, .. }) => {
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

fn tcp(s: &ResolvedScenario, congestion: &str) -> String {
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
    let recovery = tcp.recovery.name();
    format!("{profile}: {congestion}, {recovery}, MSS {}, receive buffer {buffer}", tcp.mss)
}

fn flows(group: &FlowGroup) -> String {
    let direction = match (group.to, group.direction) {
        (Some(_), _) => "mesh",
        (None, Direction::Downlink) => "downlink",
        (None, Direction::Uplink) => "uplink",
    };
    let source = match group.source {
        Source::Bulk => "bulk".to_owned(),
        Source::Finite(bytes) => format!("{bytes} each"),
        Source::Paced { rate, chunk: Bytes(chunk) } => format!("paced at {rate} in {chunk} B"),
        Source::Media(media) => describe_media(&media),
        Source::Web(web) => describe_web(&web),
    };
    let transport = match group.transport {
        Transport::Tcp => String::new(),
        Transport::Udp { datagram } => format!(" over UDP in datagrams of at most {datagram} B"),
        Transport::Quic { datagram } => {
            format!(" over QUIC (testbed only) in datagrams of at most {datagram} B")
        }
    };
    let one = match (group.source, group.transport) {
        (Source::Web(_), _) => "user",
        (_, Transport::Tcp | Transport::Quic { .. }) => "connection",
        (_, Transport::Udp { .. }) => "flow",
    };
    let how_many = match group.arrivals {
        Some(arrivals) => format!("{}/s arriving", arrivals.per_second),
        None => count(group.count as usize, one),
    };
    let ip = match group.ip {
        IpVersion::V4 => "IPv4",
        IpVersion::V6 => "IPv6",
    };
    let between = match (group.to, group.stations.first()) {
        (Some(Receiver::Node(to)), Some(from)) => format!("from node {from} to node {to}"),
        (Some(_), _) => "between nodes that the seed draws".to_owned(),
        (None, _) => format!("on each of {}", count(group.stations.len(), "station")),
    };
    let since_start = |at: Instant| at.since(Instant::ZERO);
    let stop = group.stop.map(|stop| format!(" to {}", since_start(stop))).unwrap_or_default();
    let start = since_start(group.start);
    format!("{direction}, {how_many} {between}, {source}{transport}, {ip}, from {start}{stop}")
}

fn describe_media(media: &Media) -> String {
    let Media { rate, chunk: Bytes(chunk), interval, ahead, ahead_rate, startup, resume } = media;
    let server = match (ahead.is_zero(), ahead_rate) {
        (true, _) => "live".to_owned(),
        (false, None) => format!("up to {ahead} ahead"),
        (false, Some(rate)) => format!("up to {ahead} ahead at {rate}"),
    };
    let player = if startup == resume {
        format!("a player that starts and resumes with {startup}")
    } else {
        format!("a player that starts with {startup} and resumes with {resume}")
    };
    format!("media of {rate} ({chunk} B every {interval}, {server}), {player}")
}

fn describe_web(web: &Web) -> String {
    let connection = match web.connection {
        WebConnection::Page => "a connection for each page",
        WebConnection::Persistent => "one connection",
    };
    let ObjectCounts { shape, scale, most } = web.embedded_objects;
    let sizes =
        |law: &ObjectSizes| format!("{} median, sigma {}, {} to {}", law.median, law.sigma, law.min, law.max);
    format!(
        "pages ({connection}; requests of {}; main objects of {}; embedded ones of {}, at most {most} of them by a \
         Pareto law of shape {shape} and scale {scale}; {} to parse, {} to read)",
        web.request,
        sizes(&web.main_object),
        sizes(&web.embedded_object),
        web.parsing_time,
        web.reading_time
    )
}

fn case_line(case: &Case, first: &ResolvedScenario) -> String {
    let mechanisms = match &case.scenario.mechanisms[..] {
        [] => "plain router".to_owned(),
        [one] => mechanism(one, one.place != one.settings.entry().natural_place()),
        several => several.iter().map(|one| mechanism(one, true)).collect::<Vec<_>>().join("; "),
    };
    let same_but_mechanism = ResolvedScenario {
        mechanisms: first.mechanisms.clone(),
        host_freeze: first.host_freeze,
        ..case.scenario.clone()
    };
    let freezes = case.scenario.mechanisms.iter().any(|placed| placed.settings.entry().freezes_senders);
    let host = match case.scenario.host_freeze.filter(|_| freezes) {
        Some(freeze) => format!("; on the testbed linkhold host freezes by {:?}", freeze.name()),
        None => String::new(),
    };
    let differs = if same_but_mechanism == *first { "" } else { ", with keys of its own" };
    format!("{}: {mechanisms}{host}{differs}", case.name)
}

/// Whether anybody in it listens to what the radio tells.
fn is_told(scenario: &ResolvedScenario) -> bool {
    !scenario.mechanisms.is_empty() || scenario.host_freeze.is_some()
}

/// Whether a case is told otherwise than the first that is told anything.
fn told_differs(case: &ResolvedScenario, listener: &ResolvedScenario) -> bool {
    let in_cells = case.mesh.is_none() && listener.mesh.is_none();
    in_cells && is_told(case) && told(case) != told(listener)
}

/// Its name, its place if that is to be said, its preset, and the settings that are not the preset's.
fn mechanism(mechanism: &PlacedMechanism, with_place: bool) -> String {
    let PlacedMechanism { place, settings } = mechanism;
    let mut text = settings.name().to_owned();
    if with_place {
        let _ = write!(text, " at {}", place.name());
    }
    let (preset, changed) = settings.nearest_preset();
    let _ = write!(text, ", preset {preset}");
    for (index, (key, value)) in changed.iter().enumerate() {
        let _ = write!(text, "{} {key} {value}", if index == 0 { " with" } else { "," });
    }
    text
}

pub(crate) fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
