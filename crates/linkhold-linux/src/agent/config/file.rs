//! The configuration file: its tables and keys with their defaults, and the checks that no single key can
//! make.

use std::net::{IpAddr, SocketAddr};

use linkhold_core::mechanism::Place;
use linkhold_core::quantity::ValueError;
use linkhold_core::registry::{self, MechanismEntry, MechanismSettings};
use linkhold_core::settings::{Format, Value, Whole};
use linkhold_core::text::shorten;
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Fraction};
use linkhold_scenario::mechanism::{MechanismValue, SharedSettings, one_or_several};
use linkhold_scenario::read::{At, FromNode, Node, Reader, Spot, file_enum, file_table, parsed};
use linkhold_scenario::{By, PlacedMechanism, Positive};
use schemars::{Schema, SchemaGenerator, json_schema};

use super::model::{
    AgentConfig, Aggregates, ChannelSection, ControlSection, DEFAULT_SOCKET, DataPathSection, FileMode,
    MAX_RADIOS, MetricsSection, RadioEvents, ScheduleSection, Seat, SilenceSection, StationSection,
};
use crate::agent::processor::{MAX_PROCESSOR, Processor};
use crate::agent::protocol::{Cause, Target};
use crate::datapath::rules::{BackendChoice, MAX_INSTANCE_NAME};

file_table! {
    /// The configuration of `linkhold agent`.
    AgentFile {
        /// Name of this agent, for its rules and sockets.
        default instance: InstanceName = "default";
        /// Interfaces towards correspondent hosts (the internet).
        required wired: Vec<At<Interface>>;
        /// Interfaces towards stations. Each is a radio of its own, with its own channel, silences and
        /// stations.
        required radio: Vec<At<Interface>>;
        /// What radios are asked for silences that they announce themselves.
        default radio_events: RadioEvents = "nl80211";
        /// How packets reach the agent.
        section datapath: DataPath;
        /// Keep a child process that lets held packets go if the agent is killed.
        default guardian: bool = true;
        /// The control socket.
        section control: Control;
        /// Prometheus metrics.
        section metrics: Metrics;
        /// What the radio carries when nobody has told yet.
        optional channel: Channel;
        /// What one of several radios carries.
        list radio_channel: RadioChannel;
        /// Limits of silences.
        section silence: Silence;
        /// Silences by the clock.
        list schedule: Schedule;
        /// Stations with several addresses.
        list station: Station;
        /// What is done in a silence: a mechanism that can stand at the base station, or "none". Default:
        /// "dsasync".
        optional mechanism: MechanismValue;
        /// Several mechanisms in place of `mechanism`, from the wire to the radio: a packet to the radio
        /// passes them in this order, a packet from it the other way.
        optional mechanisms: Vec<At<MechanismValue>>;
    }
}

file_table! {
    /// How packets reach the agent.
    DataPath {
        /// What puts the rules into the kernel.
        default backend: BackendChoice = "auto";
        /// Number of the first NFQUEUE; each radio uses two.
        default queue: By<Whole<u16, 0, 65_534>> = 4710;
        /// Most packets that the kernel keeps per queue; 0: what the mechanism may hold, and some more.
        default max_packets: By<Whole<u32, 0, 4_294_967_295>> = 0;
        /// Mark (SO_MARK) of packets that the agent itself sends.
        default mark: By<Whole<u32, 0, 4_294_967_295>> = 27752;
        /// What becomes of the packets of up to 64 KiB that network cards make of many.
        default aggregates: Aggregates = "auto";
        /// The processor that the agent stays on: a number, "auto" (of those allowed the one that has
        /// received the fewest packets so far), or "any" (the agent wanders, and packets may overtake each
        /// other).
        default processor: Processor = "auto";
    }
}

file_enum!(BackendChoice {
    "auto" => Self::Auto, "Whatever works, nftables first.";
    "nftables" => Self::Nftables, "nftables only.";
    "iptables" => Self::Iptables, "iptables only.";
});

file_enum!(RadioEvents {
    "nl80211" => Self::Nl80211, "Wi-Fi interfaces: switches, radar, scans.";
    "none" => Self::None, "Silences are told from outside only.";
});

file_enum!(Aggregates {
    "auto" => Self::Auto, "Split where copies are kept, or on a slow radio.";
    "keep" => Self::Keep, "Let them pass whole: less work a byte.";
    "split" => Self::Split, "Have the kernel split them before they come.";
});

file_table! {
    /// The control socket.
    Control {
        /// Path of the Unix socket.
        default socket: String = DEFAULT_SOCKET;
        /// Its permissions, octal.
        default mode: FileMode = "0600";
        /// Most clients at once.
        default max_clients: By<Whole<u16, 1, 1024>> = 16;
    }
}

file_table! {
    /// Prometheus metrics.
    Metrics {
        /// Loopback address and port for Prometheus. Default: no metrics.
        optional listen: Loopback;
    }
}

file_table! {
    /// What the radio carries.
    Channel {
        /// Raw physical-layer rate.
        required capacity: Positive<BitRate>;
        /// Share of it that the MAC leaves for IP packets.
        default efficiency: Fraction = 1.0;
    }
}

file_table! {
    /// What one radio carries, in place of `channel`.
    RadioChannel {
        /// The radio's interface.
        required radio: Interface;
        /// Raw physical-layer rate.
        required capacity: Positive<BitRate>;
        /// Share of it that the MAC leaves for IP packets.
        default efficiency: Fraction = 1.0;
    }
}

file_table! {
    /// Limits of silences.
    Silence {
        /// A silence that nobody ends is over after this time.
        default max: Positive<Duration> = "10s";
    }
}

file_table! {
    /// A silence every `period`, on the system's wall clock (UTC).
    Schedule {
        /// Name in logs and status.
        required name: String;
        /// The radio that falls silent. Default: every radio.
        optional radio: Interface;
        /// Whom it silences: "network", or a station's address.
        default scope: Target = "network";
        /// Why.
        default cause: Cause = "sensing";
        /// From one silence's start to the next.
        required period: Positive<Duration>;
        /// Length of a silence.
        required duration: Positive<Duration>;
        /// Start of a silence after midnight UTC of 1 January 1970, modulo the period.
        default phase: Duration = "0s";
    }
}

file_table! {
    /// Addresses of one radio.
    Station {
        /// Name in logs and status.
        required name: String;
        /// Its addresses on the radio side.
        required addresses: Vec<At<IpAddr>>;
    }
}

/// Values that are read from a text alone.
macro_rules! from_text {
    ($($ty:ty: $doc:literal, $parse:expr;)*) => {$(
        impl FromNode for $ty {
            fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
                let parse: fn(&str) -> Result<$ty, ValueError> = $parse;
                parsed(node, spot, reader, parse)
            }

            fn schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $doc })
            }
        }
    )*};
}

/// The agent's name.
#[derive(Clone, Debug)]
pub(super) struct InstanceName(pub(super) String);

/// A network interface's name.
#[derive(Clone, Debug)]
pub(super) struct Interface(pub(super) String);

/// A loopback address with a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loopback(pub(super) SocketAddr);

impl FromNode for Loopback {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let listen = SocketAddr::from_node(node, spot, reader)?;
        if !listen.ip().is_loopback() {
            let what = format!("{} is no loopback address", listen.ip());
            reader.report(spot, what, "write 127.0.0.1 or [::1], and put a proxy before it");
            return None;
        }
        Some(Self(listen))
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        SocketAddr::schema(generator)
    }
}

impl FromNode for Processor {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let value = node.value.scalar();
        match &value {
            Value::Text(text) if text == "auto" => return Some(Self::Auto),
            Value::Text(text) if text == "any" => return Some(Self::Any),
            Value::Whole(number) if (0..=i128::from(MAX_PROCESSOR)).contains(number) => {
                return u32::try_from(*number).ok().map(Self::Number);
            }
            Value::Text(_) | Value::Whole(_) | Value::Number(_) | Value::Truth(_) | Value::Other(_) => {}
        }
        let right = format!("write \"auto\", \"any\", or a number from 0 to {MAX_PROCESSOR}");
        reader.report(spot, format!("{} is no processor", value.describe()), right);
        None
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "enum": ["auto", "any"] },
            { "type": "integer", "minimum": 0, "maximum": MAX_PROCESSOR },
        ] })
    }
}

from_text! {
    InstanceName: "Letters, digits and underscores.", |text| {
        let fits = (1..=MAX_INSTANCE_NAME).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let right = || format!("write 1 to {MAX_INSTANCE_NAME} letters, digits or underscores");
        let what = || format!("{:?} is no name of an instance", shorten(text));
        if fits { Ok(Self(text.to_owned())) } else { Err(ValueError::new(what(), right())) }
    };
    Interface: "Name of a network interface.", |text| {
        let what = || format!("{:?} is no interface name", shorten(text));
        if is_interface_name(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(ValueError::new(what(), "`ip link` shows the names"))
        }
    };
    FileMode: "Permissions in octal digits.", |text| match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(Self(mode)),
        Ok(_) | Err(_) => {
            let what = format!("{:?} are no permissions", shorten(text));
            Err(ValueError::new(what, "write octal digits, such as \"0660\""))
        }
    };
    Target: "\"network\", or a station's address.", |text| {
        Self::try_from(text.to_owned()).map_err(|error| ValueError::new(error, ""))
    };
    Cause: "Why the radio falls silent.", |text| {
        Self::try_from(text.to_owned()).map_err(|error| ValueError::new(error, ""))
    };
}

/// True for a name that Linux takes (dev_valid_name), that needs no quoting in a rule, and that is no
/// wildcard of iptables.
fn is_interface_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@:".contains(&byte))
}

/// Says why a mechanism cannot run on a router, if it cannot.
///
/// # Errors
/// [`ValueError`] that names the mechanism, and where it would run or what it lacks.
pub fn runs_on_a_router(settings: &MechanismSettings, place: Place) -> Result<(), ValueError> {
    let router = Place::BaseStation;
    let name = settings.name();
    let fits = settings.entry().places.contains(&router);
    let what = if place != router {
        let what = format!(
            "{name} would run at {:?}; `linkhold agent` runs on a router, which is the {:?}",
            place.name(),
            router.name()
        );
        if fits {
            return Err(ValueError::new(what, format!("write at = {:?}, or nothing", router.name())));
        }
        what
    } else if settings.needs().reports {
        let what = format!(
            "{name} would only report to stations, with settings like these, and Linux brings no reports to them"
        );
        if !settings.entry().recommended().needs().reports {
            return Err(ValueError::new(
                what,
                format!("leave out what differs from {name}'s preset \"recommended\""),
            ));
        }
        what
    } else {
        return Ok(());
    };
    let fitting = registry::entries().iter().filter(|entry| entry.places.contains(&router));
    let names: Vec<&str> = fitting.map(|entry| entry.name).collect();
    Err(ValueError::new(what, format!("a router can run {}", names.join(", "))))
}

/// Says why no other mechanism can stand between this one and the radio, if none can. `end` is the end of
/// the list that is next to the radio, such as "last".
///
/// # Errors
/// [`ValueError`] that names the mechanism.
pub fn others_can_follow(settings: &MechanismSettings, end: &str) -> Result<(), ValueError> {
    if settings.needs().kept_bytes.0 == 0 {
        return Ok(());
    }
    let name = settings.name();
    let what =
        format!("{name} keeps copies of what goes to the radio, which the mechanisms behind it would change");
    let mut right = format!("write it {end}, next to the radio");
    if let Some(key) = switch_of_copies(settings) {
        right += &format!(" ({name} keeps none with {key} = false)");
    }
    Err(ValueError::new(what, right))
}

/// The key with which, set to false, the mechanism keeps no copies; `None` if it has no such key.
fn switch_of_copies(settings: &MechanismSettings) -> Option<&'static str> {
    let mut keys = settings.entry().keys.iter().map(|key| key.name);
    keys.find(|key| {
        let mut without = settings.clone();
        without.set(key, &Value::Truth(false)).is_ok() && without.needs().kept_bytes.0 == 0
    })
}

/// The mechanisms that a file states, the last next to the radio, each with where it stands in the file.
/// `fits` says what one of them is refused for.
pub(super) fn stated<'a>(
    one: Option<&'a At<MechanismValue>>,
    several: Option<&'a At<Vec<At<MechanismValue>>>>,
    silence: &Silence,
    reader: &Reader<'_>,
    fits: impl Fn(&PlacedMechanism) -> Result<(), ValueError>,
) -> Vec<(&'a At<MechanismValue>, PlacedMechanism)> {
    let mut all: Vec<(&At<MechanismValue>, PlacedMechanism)> = Vec::new();
    for value in one_or_several(one, several, reader).unwrap_or_default() {
        if several.is_some() && matches!(value.value, MechanismValue::None) {
            let right = "remove it: where no mechanism stands packets pass";
            reader.report(&value.spot, "\"none\" is no mechanism of a list", right);
            continue;
        }
        let Some(mut placed) = value.resolve(None, &SharedSettings::default(), reader) else { continue };
        follow_silence_max(&mut placed.settings, Some(value), silence, reader);
        if let Err(error) = fits(&placed) {
            reader.report(&value.spot, error.what, error.right);
            continue;
        }
        let name = placed.settings.name();
        if all.iter().any(|(_, other)| other.settings.name() == name) {
            reader.report(&value.spot, format!("{name} stands in the list already"), "keep one of them");
            continue;
        }
        all.push((value, placed));
    }
    for (value, placed) in all.iter().rev().skip(1) {
        if let Err(error) = others_can_follow(&placed.settings, "last") {
            reader.report(&value.spot, error.what, error.right);
        }
    }
    all
}

/// The mechanism of a file that names none, at its usual place.
pub(super) fn usual(place: Place, silence: &Silence, reader: &Reader<'_>) -> Option<MechanismSettings> {
    registry::usual_at(place).map(MechanismEntry::recommended).map(|mut settings| {
        follow_silence_max(&mut settings, None, silence, reader);
        settings
    })
}

/// The mechanisms, from the wire to the radio.
fn mechanisms(file: &AgentFile, reader: &Reader<'_>) -> Vec<MechanismSettings> {
    if file.mechanism.is_none() && file.mechanisms.is_none() {
        return usual(Place::BaseStation, &file.silence, reader).into_iter().collect();
    }
    let (one, several) = (file.mechanism.as_ref(), file.mechanisms.as_ref());
    let all = stated(one, several, &file.silence, reader, |placed| {
        runs_on_a_router(&placed.settings, placed.place)
    });
    all.into_iter().map(|(_, placed)| placed.settings).collect()
}

/// Checks what no single key can, and fills in the configuration; `None` after a report.
pub(super) fn resolve(file: AgentFile, reader: &Reader<'_>) -> Option<AgentConfig> {
    for (key, interfaces) in [("wired", &file.wired), ("radio", &file.radio)] {
        if interfaces.is_empty() {
            reader.report(&interfaces.spot, format!("{key} is empty"), "name at least one interface");
        }
    }
    for radio in file.radio.iter() {
        if let Some(wired) = file.wired.iter().find(|wired| wired.0 == radio.0) {
            let what = format!("{} is under `wired` already ({})", radio.0, reader.location(&wired.spot));
            reader.report(&radio.spot, what, "an interface is on one side");
        }
    }
    check_radios(&file, reader);
    for schedule in &file.schedule {
        check_schedule(schedule, &file.silence, reader);
    }
    let mechanisms = mechanisms(&file, reader);
    check_aggregates(&file.datapath, &mechanisms, reader);
    Some(AgentConfig {
        instance: file.instance.0.clone(),
        wired: names(&file.wired),
        radio: names(&file.radio),
        radio_events: *file.radio_events,
        datapath: datapath(&file.datapath),
        guardian: *file.guardian,
        control: control(&file.control),
        metrics: metrics(&file.metrics),
        channels: file
            .radio
            .iter()
            .map(|radio| {
                let own = file.radio_channel.iter().find(|channel| channel.radio.0 == radio.0);
                let own =
                    own.map(|own| ChannelSection { capacity: **own.capacity, efficiency: *own.efficiency });
                own.or_else(|| file.channel.as_deref().map(channel))
            })
            .collect(),
        silence: SilenceSection { max: **file.silence.max },
        schedules: file.schedule.iter().map(|at| schedule(at)).collect(),
        stations: file.station.iter().map(|at| station(at)).collect(),
        mechanisms,
        seat: Seat::Router,
    })
}

/// A copy can be sent again only of a packet of the wire's size.
pub(super) fn check_aggregates(datapath: &DataPath, mechanisms: &[MechanismSettings], reader: &Reader<'_>) {
    if *datapath.aggregates != Aggregates::Keep {
        return;
    }
    if let Some(settings) = mechanisms.iter().find(|settings| settings.needs().kept_bytes.0 > 0) {
        let name = settings.name();
        let what = format!("\"keep\" hands over packets of which {name} can send no copy again");
        let mut right = "write \"auto\" or \"split\"".to_owned();
        if let Some(key) = switch_of_copies(settings) {
            right += &format!(", or {key} = false for {name}");
        }
        reader.report(&datapath.aggregates.spot, what, right);
    }
}

pub(super) fn names(list: &[At<Interface>]) -> Vec<String> {
    list.iter().map(|at| at.value.0.clone()).collect()
}

pub(super) fn datapath(section: &DataPath) -> DataPathSection {
    DataPathSection {
        backend: *section.backend,
        queue: section.queue.0,
        max_packets: section.max_packets.0,
        mark: section.mark.0,
        aggregates: *section.aggregates,
        processor: *section.processor,
    }
}

pub(super) fn control(section: &Control) -> ControlSection {
    ControlSection {
        socket: section.socket.as_str().into(),
        mode: *section.mode,
        max_clients: usize::from(section.max_clients.0),
    }
}

pub(super) fn metrics(section: &Metrics) -> MetricsSection {
    MetricsSection { listen: section.listen.as_ref().map(|at| at.0) }
}

pub(super) fn channel(section: &Channel) -> ChannelSection {
    ChannelSection { capacity: **section.capacity, efficiency: *section.efficiency }
}

/// Checks that interfaces are named once, that names of radios are those of `radio`, and that there are queue
/// numbers for every radio.
fn check_radios(file: &AgentFile, reader: &Reader<'_>) {
    check_radio_names(&file.radio, &file.datapath, reader);
    let known = |interface: &At<Interface>| check_radio_is_known(interface, &file.radio, reader);
    file.schedule.iter().filter_map(|schedule| schedule.radio.as_ref()).for_each(known);
    for (index, channel) in file.radio_channel.iter().enumerate() {
        known(&channel.radio);
        let before = file.radio_channel.iter().take(index);
        if let Some(first) = before.map(|other| &other.radio).find(|other| other.0 == channel.radio.0) {
            let what =
                format!("{} has a channel already ({})", channel.radio.0, reader.location(&first.spot));
            reader.report(&channel.radio.spot, what, "a radio has one channel");
        }
    }
}

/// Checks that radios are named once, and that there are queue numbers for each.
pub(super) fn check_radio_names(radios: &At<Vec<At<Interface>>>, datapath: &DataPath, reader: &Reader<'_>) {
    for (index, radio) in radios.iter().enumerate() {
        if let Some(first) = radios.iter().take(index).find(|other| other.0 == radio.0) {
            let what = format!("{} is named already ({})", radio.0, reader.location(&first.spot));
            reader.report(&radio.spot, what, "name each interface once");
        }
    }
    let (count, first) = (radios.len(), usize::from(datapath.queue.0));
    if count > MAX_RADIOS {
        let what = format!("{count} radios are too many");
        reader.report(&radios.spot, what, format!("at most {MAX_RADIOS} fit in one agent"));
    } else if first + 2 * count > usize::from(u16::MAX) + 1 {
        let what = format!("{count} radios need two queue numbers each, {first} and up");
        let right = format!("write at most {}", usize::from(u16::MAX) + 1 - 2 * count);
        reader.report_between(&[&datapath.queue.spot, &radios.spot], what, right);
    }
}

pub(super) fn check_radio_is_known(interface: &At<Interface>, radios: &[At<Interface>], reader: &Reader<'_>) {
    if !radios.iter().any(|radio| radio.0 == interface.0) {
        let names: Vec<&str> = radios.iter().map(|radio| radio.0.as_str()).collect();
        let right = format!("write one of {}", names.join(", "));
        reader.report(&interface.spot, format!("{} is not under `radio`", interface.0), right);
    }
}

pub(super) fn check_schedule(schedule: &Schedule, silence: &Silence, reader: &Reader<'_>) {
    let (duration, period, max) = (&schedule.duration, &schedule.period, &silence.max);
    if ***duration >= ***period {
        reader.report_between(
            &[&duration.spot, &period.spot],
            format!("a silence of {} every {} leaves no time to transmit", ***duration, ***period),
            "make the duration shorter than the period",
        );
    } else if ***duration > ***max {
        reader.report_between(
            &[&duration.spot, &max.spot],
            format!("a silence of {} is longer than silence.max ({})", ***duration, ***max),
            "shorten it, or raise silence.max",
        );
    }
}

/// Makes the mechanism's own limit of a silence the agent's, which tells the mechanism of every end, unless
/// the mechanism's table states one. A shorter one would end silences for the mechanism that go on for the
/// agent.
pub(super) fn follow_silence_max(
    settings: &mut MechanismSettings,
    stated: Option<&MechanismValue>,
    silence: &Silence,
    reader: &Reader<'_>,
) {
    let Some(key) = settings.entry().silence_limit else { return };
    let max = **silence.max;
    let Some(spot) = stated.and_then(|stated| stated.states(key)) else {
        settings.set(key, &Duration::write(&max)).expect("silence.max is a duration above zero");
        return;
    };
    if let Some(own) = settings.silence_limit().filter(|own| *own < max) {
        reader.report_between(
            &[spot, &silence.max.spot],
            format!(
                "a limit of {own} is shorter than silence.max ({max}), and would end silences that go on"
            ),
            format!("remove {key}, which follows silence.max, or lower silence.max"),
        );
    }
}

pub(super) fn schedule(schedule: &Schedule) -> ScheduleSection {
    ScheduleSection {
        name: schedule.name.value.clone(),
        radio: schedule.radio.as_ref().map(|radio| radio.0.clone()),
        scope: *schedule.scope,
        cause: *schedule.cause,
        period: **schedule.period,
        duration: **schedule.duration,
        phase: *schedule.phase,
    }
}

fn station(station: &Station) -> StationSection {
    StationSection {
        name: station.name.value.clone(),
        addresses: station.addresses.iter().map(|at| at.value).collect(),
    }
}
