//! From the tables of the file to the model: fills in what depends on other keys, and checks what no single
//! key can: thresholds in order, indices in range, keys that do nothing together.

use std::collections::BTreeSet;

use linkhold_core::mechanism::Place;
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::{
    AirConfig, AirTime, AirTimeModel, ChannelConfig, FqCodelConfig, InSilence, LEAST_JITTER, Mac,
    PowerConfig, QueueConfig, QueueKind, ScriptedSwitch, SensingConfig, SignalsConfig, StationSensing,
    SwitchPolicy, Switching, TraceLink,
};
use linkhold_tcp::TcpConfig;

use crate::dcf;
use crate::file::{CaseTable, File, MacName, Queue, QueueName};
use crate::flows;
use crate::grants;
use crate::ieee802154;
use crate::link::Link;
use crate::mechanism::{MechanismValue, one_or_several};
use crate::mesh;
use crate::model::{Output, PlacedMechanism, ResolvedScenario, TraceFiles, Wired};
use crate::primary_user;
use crate::read::{At, Reader, Spot};
use crate::snr;
use crate::spots::{report_idle, station_in_range};
use crate::tcp;
use crate::told;
use crate::traces::Traces;

/// The scenario as `case` sees it; `None` after reporting why not.
pub(crate) fn resolve(
    file: &File,
    case: Option<&CaseTable>,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<ResolvedScenario> {
    if *file.warm_up >= **file.duration {
        reader.report_between(
            &[&file.warm_up.spot, &file.duration.spot],
            format!("the warm-up of {} leaves nothing of the {} of the run", *file.warm_up, **file.duration),
            "make warm_up shorter than duration",
        );
    }
    let mesh = mesh::mesh(file, reader, traces);
    let radio = match &mesh {
        Some(Some(mesh)) => Some((mesh::unused_radio(mesh), None)),
        Some(None) => radio(file, reader, traces),
        None => None,
    };
    let tcp = tcp::resolve(&file.tcp, reader);
    // If [tcp] is wrong, that has been reported, and the flows are checked all the same.
    let sizes = tcp.clone().unwrap_or_else(|| TcpConfig::linux(*file.tcp.congestion));
    let flows = flows::flows(file, &sizes, reader);
    if let (Some(delay), Some(_)) = (&file.host.delay, &file.mesh) {
        reader.report(&delay.spot, "the nodes of a mesh have no host of their own", "remove it");
    }
    if let Some(visible) = &file.station.visible {
        let what = "a mechanism stands at the router and sees no station's queue";
        reader.report(&visible.spot, what, "remove it, or write it under [router]");
    }
    let jitter = &file.wired.jitter;
    if !jitter.is_zero() && **jitter < LEAST_JITTER {
        let right = format!("write 0ms or at least {LEAST_JITTER}");
        reader.report(&jitter.spot, format!("a mean wait of {} is too short", **jitter), right);
    }
    let mechanisms = mechanisms(file, case, reader);
    let (radio, traces) = radio?;
    let tcp = tcp?;
    if !ieee802154::segments_fit(&radio, &tcp, file, reader) {
        return None;
    }
    Some(ResolvedScenario {
        name: file.name.0.clone(),
        description: file.description.value.clone(),
        duration: **file.duration,
        warm_up: *file.warm_up,
        seed: *file.seed,
        wired: Wired {
            rate: **file.wired.rate,
            one_way_delay: Duration::from_nanos(file.wired.rtt.as_nanos() / 2),
            jitter: *file.wired.jitter,
            queue: file.wired.queue.0.0,
        },
        radio,
        mesh: mesh?,
        traces,
        router_visible: file.router.visible.as_ref().is_some_and(|at| at.value),
        host_delay: file.host.delay.as_ref().map_or(Duration::ZERO, |at| at.value),
        host_freeze: file.host.freeze.as_ref().map(|at| at.value),
        tcp_profile: *file.tcp.profile,
        tcp,
        flows: flows?,
        mechanisms: mechanisms?,
        output: Output { series_interval: **file.output.series_interval },
    })
}

/// The mechanisms of a case. `None` after a report.
fn mechanisms(file: &File, case: Option<&CaseTable>, reader: &Reader<'_>) -> Option<Vec<PlacedMechanism>> {
    let Some(case) = case else { return Some(Vec::new()) };
    let values = one_or_several(case.mechanism.as_ref(), case.mechanisms.as_ref(), reader)?;
    if let Some(preset) = &case.preset
        && case.mechanism.is_none()
    {
        let right = match &case.mechanisms {
            Some(_) => "write it in the table of the mechanism that it is for",
            None => "write mechanism = \"dsasync\" beside it, or remove it",
        };
        reader.report(&preset.spot, "does nothing without `mechanism`", right);
        return None;
    }
    let before = reader.count();
    let mut placed: Vec<(PlacedMechanism, &Spot)> = Vec::new();
    for value in values {
        if case.mechanisms.is_some() && matches!(value.value, MechanismValue::None) {
            let right = "remove it: where no mechanism stands there is the plain router";
            reader.report(&value.spot, "\"none\" is no mechanism of a list", right);
            continue;
        }
        let Some(one) = value.value.resolve(case.preset.as_ref(), &file.shared, reader) else { continue };
        if file.mesh.is_some() && one.place != Place::Stations {
            let what = format!("a mesh has no {}", one.place.name());
            let right = "write at = \"stations\" for the nodes that send, if the mechanism can stand there";
            reader.report(&value.spot, what, right);
            continue;
        }
        let same = |(other, _): &&(PlacedMechanism, &Spot)| {
            (other.place, other.settings.name()) == (one.place, one.settings.name())
        };
        if let Some((_, other)) = placed.iter().find(same) {
            let (name, place) = (one.settings.name(), one.place.name());
            let what = format!("{name} stands at {place} already ({})", reader.location(other));
            reader.report(&value.spot, what, "remove one, or place it elsewhere with at = ...");
            continue;
        }
        placed.push((one, &value.spot));
    }
    (reader.count() == before).then(|| placed.into_iter().map(|(one, _)| one).collect())
}

/// The radio, and the files of its traces if it plays any.
fn radio(
    file: &File,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<(AirConfig, Option<TraceFiles>)> {
    let radio = &file.radio;
    let sensing = match &radio.sensing {
        None => Some(None),
        Some(s) => checked_sensing(&s.period, &s.duration, *s.phase, *s.announced, reader).map(Some),
    };
    told::check_common(file, reader);
    let signals_of_stations = (radio.station_sensing.iter())
        .map(|own| (StationId(*own.station), told::resolve(&own.told, *own.announced, file, reader)))
        .collect();
    let station_sensing = station_sensing(file, reader);
    let link = match *radio.mac {
        MacName::Trace => trace_link(file, reader, traces),
        MacName::Shared => channels(file, Mac::Shared, reader, traces),
        MacName::Duplex => channels(file, Mac::Duplex, reader, traces),
        MacName::Dcf => dcf::mac(file, reader).and_then(|mac| channels(file, mac, reader, traces)),
        MacName::Ieee802154 => ieee802154::link(file, reader, traces),
        MacName::Grants(standard) => {
            let mac = grants::mac(standard, file, reader);
            mac.and_then(|mac| channels(file, mac, reader, traces))
        }
    };
    match *radio.mac {
        MacName::Ieee802154 => grants::report_idle_without(file, reader),
        MacName::Grants(_) => ieee802154::report_idle_without(file, reader),
        MacName::Dcf | MacName::Trace | MacName::Shared | MacName::Duplex => {
            ieee802154::report_idle_without(file, reader);
            grants::report_idle_without(file, reader);
        }
    }
    if *radio.mac != MacName::Dcf {
        dcf::report_idle_without(file, reader);
    }
    let router = queue(&file.router, reader);
    if *file.station.in_silence == InSilence::Flush {
        let what = "a station keeps what it has queued through a silence";
        reader.report(
            &file.station.in_silence.spot,
            what,
            "write \"drop\" or \"queue\"; \"flush\" is the router's",
        );
    }
    let station_queue = queue(&file.station, reader);
    let link = link?;
    let config = AirConfig {
        stations: **radio.stations,
        mac: link.mac,
        air_time: *radio.air_time,
        channels: link.channels,
        measured_users: link.measured_users,
        initial_channel: link.initial_channel,
        rate_told: link.rate_told,
        switching: link.switching,
        signals: SignalsConfig {
            sensing: radio
                .sensing
                .as_ref()
                .map(|own| told::resolve(&own.told, *own.announced, file, reader))
                .unwrap_or_default(),
            station_sensing: signals_of_stations,
            switching: told::switching(file, reader),
            gaps: radio
                .trace
                .as_ref()
                .map(|own| told::resolve(&own.told, false, file, reader))
                .unwrap_or_default(),
            users: link.users_told,
        },
        sensing: sensing?,
        station_sensing: station_sensing?,
        power: radio.power.as_ref().map(|power| power_config(power)),
        snr: link.snr,
        retry_limit: link.retry_limit,
        router: router?,
        station_queue: station_queue?,
    };
    Some((config, link.traces))
}

/// The stations' own quiet periods, by station. `None` after a report.
fn station_sensing(file: &File, reader: &Reader<'_>) -> Option<Vec<StationSensing>> {
    let mut seen = BTreeSet::new();
    let mut sensed = Some(Vec::new());
    for entry in &file.radio.station_sensing {
        let known = station_in_range(*entry.station, &entry.station.spot, &file.radio.stations, reader);
        if !seen.insert(*entry.station) {
            let what = format!("station {} has a schedule already", *entry.station);
            reader.report(&entry.station.spot, what, "write one [[radio.station_sensing]] per station");
        }
        let sensing = checked_sensing(&entry.period, &entry.duration, *entry.phase, *entry.announced, reader);
        match (&mut sensed, sensing, known) {
            (Some(all), Some(sensing), true) => {
                all.push(StationSensing { station: StationId(*entry.station), sensing });
            }
            _ => sensed = None,
        }
    }
    if let Some(all) = &mut sensed {
        all.sort_by_key(|entry| entry.station);
    }
    sensed
}

fn power_config(power: &crate::file::Power) -> PowerConfig {
    let watts = |microwatts: u64| microwatts as f64 / 1e6;
    PowerConfig {
        transmit: watts(power.transmit.0),
        receive: watts(power.receive.0),
        idle: watts(power.idle.0),
    }
}

fn checked_sensing(
    period: &At<crate::scalar::Positive<Duration>>,
    duration: &At<crate::scalar::Positive<Duration>>,
    phase: Duration,
    announced: bool,
    reader: &Reader<'_>,
) -> Option<SensingConfig> {
    if ***duration >= ***period {
        reader.report_between(
            &[&duration.spot, &period.spot],
            format!("a quiet period of {} every {} leaves no time to transmit", ***duration, ***period),
            "make the duration shorter than the period",
        );
        return None;
    }
    Some(SensingConfig { period: ***period, duration: ***duration, phase, announced })
}

fn trace_link(file: &File, reader: &Reader<'_>, traces: &mut Traces<'_>) -> Option<Link> {
    let radio = &file.radio;
    let mut idle = vec![
        &radio.air_time.spot,
        &radio.mac_efficiency.spot,
        &radio.channel.spot,
        &radio.retry_limit.spot,
        &radio.switching_delay.spot,
        &radio.switch_policy.spot,
        &radio.rate_told.spot,
    ];
    idle.extend(radio.phy_rate.iter().map(|at| &at.spot));
    idle.extend(radio.primary_user.iter().map(|at| &at.spot));
    idle.extend(radio.channels.iter().map(|at| &at.spot));
    idle.extend(radio.switches.iter().map(|at| &at.spot));
    idle.extend(radio.snr.iter().map(|at| &at.spot));
    idle.extend(radio.power.iter().map(|at| &at.spot));
    idle.extend(told::spots(&radio.switching.told));
    let right = "remove it: the trace says when packets pass";
    report_idle(&idle, "with mac = \"trace\"", right, reader);
    let Some(trace) = &radio.trace else {
        reader.report(&radio.mac.spot, "there is no trace", "write [radio.trace] with down = \"FILE\"");
        return None;
    };
    let down = traces.load(&trace.down, reader);
    let up = match &trace.up {
        Some(up) => traces.load(up, reader),
        None => down.clone(),
    };
    let (down, up) = (down?, up?);
    // Nothing is timed by it: the trace says when packets pass.
    let channel =
        ChannelConfig { phy_rate: down.trace.mean_rate(), efficiency: Fraction::ONE, primary_user: None };
    Some(Link {
        mac: Mac::Trace(TraceLink {
            down: down.trace,
            up: up.trace,
            silence_threshold: **trace.silence_threshold,
            detection_delay: *trace.detection_delay,
            random_start: *trace.random_start,
        }),
        channels: vec![channel],
        measured_users: Vec::new(),
        users_told: Vec::new(),
        initial_channel: 0,
        rate_told: false,
        switching: Switching::default(),
        retry_limit: 0,
        snr: None,
        traces: Some(TraceFiles { down: down.path, up: up.path }),
    })
}

/// A MAC that works on channels.
fn channels(file: &File, mac: Mac, reader: &Reader<'_>, traces: &mut Traces<'_>) -> Option<Link> {
    let radio = &file.radio;
    if let Some(trace) = &radio.trace {
        reader.report(
            &trace.spot,
            "does nothing without mac = \"trace\"",
            "write radio.mac = \"trace\" or remove it",
        );
    }
    let users = primary_user::of_channels(file, reader, traces);
    let mut channels = written_channels(file, &mac, reader)?;
    let granted = grants::fits(&mac, &channels, file, reader);
    let snr = snr::resolve(file, &channels, reader, traces);
    // The DCF's own rates have been checked.
    let timed = matches!(mac, Mac::Dcf(_)) || air_time_fits(file, reader);
    let count = channels.len();
    let channel_exists = |index: u32, spot: &Spot| {
        let exists = (index as usize) < count;
        if !exists {
            let what = format!(
                "channel {index} does not exist: there {}",
                if count == 1 { "is 1".to_owned() } else { format!("are {count}") }
            );
            reader.report(spot, what, format!("write an index from 0 to {}", count - 1));
        }
        exists
    };
    let mut fine = granted & timed & channel_exists(*radio.channel, &radio.channel.spot);
    let mut scripted: Vec<ScriptedSwitch> = Vec::new();
    for switch in &radio.switches {
        fine &= channel_exists(*switch.to_channel, &switch.to_channel.spot);
        let to_channel = *switch.to_channel as usize;
        scripted.push(ScriptedSwitch { at: Instant::ZERO + *switch.at, to_channel });
    }
    scripted.sort_by_key(|switch| switch.at);
    if count == 1 && scripted.is_empty() {
        let mut idle = vec![&radio.switching_delay.spot];
        if *radio.switch_policy == SwitchPolicy::OnPrimaryUser {
            idle.push(&radio.switch_policy.spot);
        }
        idle.extend(told::idle_without_silences(&radio.switching.told, file));
        let right = "write [[radio.channels]], or remove it";
        report_idle(&idle, "with one channel and no switches", right, reader);
    }
    let snr = snr?;
    let (measured_users, users_told) = primary_user::install(users?, &mut channels);
    fine.then(|| Link {
        mac,
        channels,
        measured_users,
        users_told,
        initial_channel: *radio.channel as usize,
        rate_told: *radio.rate_told,
        switching: Switching { delay: *radio.switching_delay, policy: *radio.switch_policy, scripted },
        retry_limit: *radio.retry_limit,
        snr,
        traces: None,
    })
}

/// The channels that the file names, or the one that it describes; still without their primary users. `None`
/// after a report.
fn written_channels(file: &File, mac: &Mac, reader: &Reader<'_>) -> Option<Vec<ChannelConfig>> {
    let radio = &file.radio;
    if radio.channels.is_empty() {
        let Some(phy_rate) = &radio.phy_rate else {
            // A rate that was written but is wrong has been reported.
            if !reader.has_reported(&format!("{}.phy_rate", radio.spot.key)) {
                let right = "write radio.phy_rate, for example \"24Mbit/s\", or [[radio.channels]]";
                reader.report(&radio.spot, "the radio has no rate", right);
            }
            return None;
        };
        let channel =
            ChannelConfig { phy_rate: ***phy_rate, efficiency: **radio.mac_efficiency, primary_user: None };
        return Some(vec![modelled(mac, channel, &radio.mac_efficiency.spot)]);
    }
    let mut idle = vec![&radio.mac_efficiency.spot];
    idle.extend(radio.phy_rate.iter().map(|at| &at.spot));
    let drawn = radio.primary_user.iter().filter(|user| user.log.is_none());
    idle.extend(drawn.map(|at| &at.spot));
    report_idle(&idle, "beside radio.channels", "move it into each [[radio.channels]]", reader);
    let channels = radio.channels.iter().map(|channel| {
        let efficiency = &channel.mac_efficiency.spot;
        let channel = ChannelConfig {
            phy_rate: **channel.phy_rate,
            efficiency: **channel.mac_efficiency,
            primary_user: None,
        };
        modelled(mac, channel, efficiency)
    });
    Some(channels.collect())
}

/// A channel of which the MAC's own overheads are taken off where they are modelled.
fn modelled(mac: &Mac, channel: ChannelConfig, efficiency: &Spot) -> ChannelConfig {
    match mac {
        Mac::Grants(_) => grants::channel(channel, efficiency),
        Mac::Shared | Mac::Duplex | Mac::Trace(_) | Mac::Dcf(_) | Mac::Ieee802154(_) => channel,
    }
}

/// Whether the air time's model knows the rates. Reports those that it does not know, and the efficiencies
/// that it does not use.
fn air_time_fits(file: &File, reader: &Reader<'_>) -> bool {
    let radio = &file.radio;
    match *radio.air_time {
        AirTimeModel::PerByte => return true,
        AirTimeModel::Ieee80211a => {}
    }
    let mut efficiencies = vec![&radio.mac_efficiency.spot];
    let mut rates: Vec<(BitRate, &Spot)> = Vec::new();
    if radio.channels.is_empty() {
        rates.extend(radio.phy_rate.iter().map(|at| (***at, &at.spot)));
    } else {
        efficiencies = radio.channels.iter().map(|channel| &channel.mac_efficiency.spot).collect();
        rates.extend(radio.channels.iter().map(|channel| (**channel.phy_rate, &channel.phy_rate.spot)));
    }
    let right = "remove it: each frame's exchange is timed as the standard does";
    report_idle(&efficiencies, "with air_time = \"802.11a\"", right, reader);
    let mut fine = true;
    for (rate, spot) in rates {
        if AirTime::new(*radio.air_time, rate, Fraction::ONE).is_none() {
            let right = "write 6, 9, 12, 18, 24, 36, 48 or 54Mbit/s, or air_time = \"per-byte\"";
            reader.report(spot, format!("IEEE 802.11a has no rate of {rate}"), right);
            fine = false;
        }
    }
    fine
}

/// A queue with the defaults of its discipline, as `linkhold-radio` has them.
fn queue(queue: &At<Queue>, reader: &Reader<'_>) -> Option<QueueConfig> {
    let limit = queue.limit.as_ref().map(|limit| limit.0.0);
    let fq_codel = match *queue.queue {
        QueueName::Fifo => None,
        QueueName::FqCodel => Some(FqCodelConfig::default()),
        QueueName::Mac80211 => Some(FqCodelConfig::MAC80211),
        QueueName::Mac80211Slow => Some(FqCodelConfig::MAC80211_SLOW),
    };
    let kind = match fq_codel {
        None => {
            let mut idle: Vec<&Spot> = Vec::new();
            idle.extend(queue.target.iter().map(|at| &at.spot));
            idle.extend(queue.interval.iter().map(|at| &at.spot));
            idle.extend(queue.quantum.iter().map(|at| &at.spot));
            idle.extend(queue.flows.iter().map(|at| &at.spot));
            idle.extend(queue.memory_limit.iter().map(|at| &at.spot));
            idle.extend(queue.ecn.iter().map(|at| &at.spot));
            report_idle(&idle, "with queue = \"fifo\"", "remove it, or write queue = \"fq_codel\"", reader);
            QueueKind::Fifo { limit: limit.unwrap_or(FIFO_LIMIT) }
        }
        Some(default) => {
            let quantum = match &queue.quantum {
                None => default.quantum,
                Some(bytes) => match u32::try_from(bytes.0.0) {
                    Ok(quantum) if (FqCodelConfig::LEAST_QUANTUM..=MAX_QUANTUM).contains(&quantum) => quantum,
                    Ok(quantum) if quantum < FqCodelConfig::LEAST_QUANTUM => {
                        let what = format!("a quantum of {} is too small", bytes.0);
                        reader.report(
                            &bytes.spot,
                            what,
                            "write at least 256B, as Linux does; one packet is 1514B",
                        );
                        return None;
                    }
                    _ => {
                        let what = format!("a quantum of {} is too large", bytes.0);
                        reader.report(&bytes.spot, what, "write at most 1MiB; one packet is 1514B");
                        return None;
                    }
                },
            };
            QueueKind::FqCodel(FqCodelConfig {
                limit: limit.unwrap_or(default.limit),
                memory_limit: queue.memory_limit.as_ref().map_or(default.memory_limit, |at| at.0),
                target: queue.target.as_ref().map_or(default.target, |at| at.0),
                interval: queue.interval.as_ref().map_or(default.interval, |at| at.0),
                quantum,
                flows: queue.flows.as_ref().map_or(default.flows, |at| at.0),
                ecn: queue.ecn.as_ref().map_or(default.ecn, |at| at.value),
                overflow_counts: default.overflow_counts,
            })
        }
    };
    Some(QueueConfig { kind, in_silence: *queue.in_silence })
}

/// Packets; the order of a Wi-Fi driver's transmit queue.
const FIFO_LIMIT: u32 = 100;
const MAX_QUANTUM: u32 = 1 << 20;
