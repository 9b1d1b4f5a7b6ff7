//! The configuration file of `linkhold host`: the agent's, without the wired side and the stations, and with
//! what only a host can do.
//!
//! `packaging/host.toml` is the commented example; a test reads it.

use linkhold_core::mechanism::Place;
use linkhold_core::quantity::ValueError;
use linkhold_core::registry::{self, MechanismSettings};
use linkhold_core::settings::{Hint, Surroundings, Value, unknown_word};
use linkhold_core::time::Duration;
use linkhold_scenario::mechanism::MechanismValue;
use linkhold_scenario::read::{At, FromNode, Node, Reader, Spot, file_table};
use linkhold_scenario::{HostFreeze, PlacedMechanism, Positive};
use schemars::{Schema, SchemaGenerator, json_schema};

use super::file::{
    Channel, Control, DataPath, InstanceName, Interface, Metrics, Schedule, Silence, channel,
    check_aggregates, check_radio_is_known, check_radio_names, check_schedule, control, datapath, metrics,
    names, schedule, stated, usual,
};
use super::model::{AgentConfig, FreezeBy, HostSection, RadioEvents, Seat, SilenceSection, SnrSection};

/// Noise where nobody tells it: thermal noise in 20 MHz (-101 dBm at 290 K) and a receiver's noise figure of
/// 6 dB.
const NOISE_DBM: i8 = -95;

file_table! {
    /// The configuration of `linkhold host`.
    HostFile {
        /// Name of this host, for its rules and sockets.
        default instance: InstanceName = "host";
        /// Interfaces of this machine that are radios.
        required radio: Vec<At<Interface>>;
        /// What radios are asked for silences that they announce themselves.
        default radio_events: RadioEvents = "nl80211";
        /// How senders are frozen.
        default freeze: FreezeBy = "auto";
        /// Where the signal-to-noise ratio comes from, beside the control socket.
        section snr: Snr;
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
        /// Limits of silences.
        section silence: Silence;
        /// Silences by the clock.
        list schedule: Schedule;
        /// What is done in a silence: a mechanism that can stand at a station or a correspondent, or "none".
        /// Default: cr-aware.
        optional mechanism: MechanismValue;
        /// Several mechanisms in place of `mechanism`, from the senders to the radio: a packet that is sent
        /// passes them in this order, a packet that comes the other way.
        optional mechanisms: Vec<At<MechanismValue>>;
    }
}

file_table! {
    /// Where the signal-to-noise ratio comes from.
    Snr {
        /// A file that a program appends lines to; the last field of each, behind a comma, is the ratio in
        /// dB.
        optional file: String;
        /// Ask nl80211 how strong the access point is.
        default nl80211: bool = false;
        /// From one look at the file, or one question, to the next.
        default every: Positive<Duration> = "100ms";
        /// Noise where the radio tells none, dBm. Default: -95.
        optional noise_dbm: Dbm;
    }
}

impl FromNode for FreezeBy {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let value = node.value.scalar();
        let word = if let Value::Text(text) = &value { text.as_ref() } else { "" };
        let by = HostFreeze::ALL.into_iter().find(|by| by.name() == word).map(Self::By);
        let read = if word == AUTO { Some(Self::Auto) } else { by };
        if read.is_none() {
            let known = [AUTO].into_iter().chain(HostFreeze::ALL.map(HostFreeze::name));
            let error = unknown_word(&value, known);
            reader.report(spot, error.what, error.right);
        }
        read
    }

    fn schema(generator: &mut SchemaGenerator) -> Schema {
        const DOC: &str = "Both ways where the kernel takes the eBPF congestion controls, else by windows.";
        json_schema!({ "anyOf": [{ "const": AUTO, "description": DOC }, HostFreeze::schema(generator)] })
    }
}

/// `freeze` that looks at the kernel first.
const AUTO: &str = "auto";

/// A level, dBm.
#[derive(Clone, Copy, Debug)]
struct Dbm(i8);

impl FromNode for Dbm {
    fn from_node(node: &Node, spot: &Spot, reader: &Reader<'_>) -> Option<Self> {
        let value = node.value.scalar();
        if let Value::Whole(number) = &value
            && let Ok(level) = i8::try_from(*number)
            && level <= 0
        {
            return Some(Self(level));
        }
        let what = format!("{} is no level in dBm", value.describe());
        reader.report(spot, what, "write a whole number from -128 to 0, such as -95");
        None
    }

    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": i8::MIN, "maximum": 0 })
    }
}

/// Says why a mechanism cannot run on a host, if it cannot.
///
/// # Errors
/// [`ValueError`] with the reason and what a host can run.
pub fn runs_on_a_host(settings: &MechanismSettings, place: Place) -> Result<(), ValueError> {
    let name = settings.name();
    let elsewhere = |place: &&Place| **place != Place::BaseStation;
    let entry = settings.entry();
    let what = if place == Place::BaseStation {
        let what = format!("{name} would run at \"base-station\"; `linkhold host` runs on a host");
        if let Some(fits) = entry.places.iter().find(elsewhere)
            && !entry.only_watches
            && !settings.needs().reports
        {
            let at = fits.name();
            let right =
                format!("write at = \"{at}\", as in mechanism = {{ name = \"{name}\", at = \"{at}\" }}");
            return Err(ValueError::new(what, right));
        }
        what
    } else if settings.needs().reports {
        format!("{name} waits for reports of the base station, which nothing brings to a host")
    } else if entry.only_watches {
        format!("{name} asks the radio for uplink turns, which no driver of Linux takes")
    } else {
        return Ok(());
    };
    let fitting = registry::entries().iter().filter(|entry| {
        let runs = !entry.only_watches && !entry.recommended().needs().reports;
        runs && entry.places.iter().any(|place| elsewhere(&place))
    });
    let names: Vec<&str> = fitting.map(|entry| entry.name).collect();
    Err(ValueError::new(what, format!("a host can run {}", names.join(", "))))
}

/// What the mechanism's settings ask for that does nothing on a host.
fn pointless(
    mechanism: &At<MechanismValue>,
    settings: &MechanismSettings,
    snr: &Snr,
    reader: &Reader<'_>,
) -> Option<String> {
    // Lines of a file come as often as their program writes them.
    let snr_every = (*snr.nl80211 && snr.file.is_none()).then(|| **snr.every);
    let Hint { key, what, instead } = settings.hint(&Surroundings::Host { snr_every })?;
    let spot = key.and_then(|key| mechanism.decides(key)).unwrap_or(&mechanism.spot);
    Some(reader.remark(spot, what, instead))
}

/// The mechanisms, from the senders to the radio, and what their settings ask for that does nothing.
fn mechanisms(file: &HostFile, reader: &Reader<'_>) -> (Vec<MechanismSettings>, Vec<String>) {
    if file.mechanism.is_none() && file.mechanisms.is_none() {
        return (usual(Place::Stations, &file.silence, reader).into_iter().collect(), Vec::new());
    }
    let (one, several) = (file.mechanism.as_ref(), file.mechanisms.as_ref());
    let all =
        stated(one, several, &file.silence, reader, |placed| runs_on_a_host(&placed.settings, placed.place));
    if let Some((_, first)) = all.first() {
        for (value, placed) in all.iter().filter(|(_, placed)| placed.place != first.place) {
            let name = |placed: &PlacedMechanism| (placed.settings.name(), placed.place.name());
            let ((other, there), (name, here)) = (name(first), name(placed));
            let what = format!("{name} would run at {here:?} and {other} at {there:?}; this is one host");
            reader.report(&value.spot, what, format!("write at = {there:?} here, or {here:?} there"));
        }
    }
    let remarks = all
        .iter()
        .filter_map(|(value, placed)| pointless(value, &placed.settings, &file.snr, reader))
        .collect();
    (all.into_iter().map(|(_, placed)| placed.settings).collect(), remarks)
}

/// Checks what no single key can, and fills in the configuration; `None` after a report.
pub(super) fn resolve(file: HostFile, reader: &Reader<'_>) -> Option<AgentConfig> {
    if file.radio.is_empty() {
        reader.report(&file.radio.spot, "radio is empty", "name at least one interface");
    }
    check_radio_names(&file.radio, &file.datapath, reader);
    for schedule in &file.schedule {
        if let Some(radio) = &schedule.radio {
            check_radio_is_known(radio, &file.radio, reader);
        }
        check_schedule(schedule, &file.silence, reader);
    }
    let (mechanisms, remarks) = mechanisms(&file, reader);
    check_aggregates(&file.datapath, &mechanisms, reader);
    let radio = names(&file.radio);
    Some(AgentConfig {
        instance: file.instance.0.clone(),
        wired: Vec::new(),
        radio_events: *file.radio_events,
        datapath: datapath(&file.datapath),
        guardian: *file.guardian,
        control: control(&file.control),
        metrics: metrics(&file.metrics),
        channels: vec![file.channel.as_deref().map(channel); radio.len()],
        silence: SilenceSection { max: **file.silence.max },
        schedules: file.schedule.iter().map(|at| schedule(at)).collect(),
        stations: Vec::new(),
        mechanisms,
        seat: Seat::Host(HostSection {
            freeze: *file.freeze,
            snr: SnrSection {
                file: file.snr.file.as_ref().map(|at| at.as_str().into()),
                nl80211: *file.snr.nl80211,
                every: **file.snr.every,
                noise_dbm: file.snr.noise_dbm.as_ref().map_or(NOISE_DBM, |at| at.0),
            },
            remarks,
        }),
        radio,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use linkhold_core::registry::find;

    use super::*;
    use crate::datapath::rules::Traffic;

    fn parse(text: &str) -> Result<AgentConfig, String> {
        AgentConfig::parse_host(Path::new("host.toml"), text).map_err(|error| error.to_string())
    }

    fn host(config: &AgentConfig) -> &HostSection {
        match &config.seat {
            Seat::Host(host) => host,
            Seat::Router => panic!("a router"),
        }
    }

    #[test]
    fn one_interface_is_enough() {
        let config = parse("radio = [\"wlan0\"]\n").unwrap();
        assert_eq!(config.mechanisms, [find("cr-aware").expect("registered").recommended()]);
        assert_eq!(host(&config).freeze, FreezeBy::Auto);
        assert_eq!(host(&config).snr.noise_dbm, NOISE_DBM);
        assert_eq!(config.rules().traffic, Traffic::Own { mark: 27752 });
    }

    #[test]
    fn the_packaged_example_is_valid_and_shows_the_defaults() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/host.toml");
        let config = AgentConfig::load_host(&path).unwrap();
        assert!(config.build_mechanism(1).is_ok());
        let defaults = parse("radio = [\"wlan0\"]\n").unwrap();
        assert_eq!(format!("{config:?}"), format!("{defaults:?}"));
    }

    #[test]
    fn a_resend_that_no_kernel_can_be_told_is_remarked_on_where_it_is_asked_for() {
        const ALL: &str = "resend = \"all\" does nothing here: Linux chooses by itself what goes again";
        const NOTHING: &str = "resend = \"nothing\" does nothing here";
        for (mechanism, place, remark) in [
            ("{ name = \"cr-aware\", preset = \"paper\" }", "2:43: mechanism.preset", Some(ALL)),
            ("{ name = \"cr-aware\", resend = \"all\" }", "2:43: mechanism.resend", Some(ALL)),
            ("{ name = \"cr-aware\", resend = \"nothing\" }", "2:43: mechanism.resend", Some(NOTHING)),
            ("{ name = \"cr-aware\", preset = \"paper\", resend = \"first\" }", "", None),
            ("\"cr-aware\"", "", None),
            ("\"snr-gate\"", "", None),
            ("\"none\"", "", None),
        ] {
            let config = parse(&format!("radio = [\"w\"]\nmechanism = {mechanism}\n")).unwrap();
            let remarks = config.remarks();
            match remark {
                None => assert!(remarks.is_empty(), "{mechanism}: {remarks:?}"),
                Some(what) => {
                    let expected = format!("host.toml:{place}: {what}");
                    let [told] = remarks else { panic!("{mechanism}: {remarks:?}") };
                    assert!(told.starts_with(&expected), "expected {expected}\ntold     {told}");
                    assert!(told.contains("; write resend = \"first\""), "{told}");
                }
            }
        }
    }

    #[test]
    fn frozen_senders_thaw_no_sooner_than_the_silence_is_over() {
        let config = parse("radio = [\"w\"]\n[silence]\nmax = \"45s\"\n").unwrap();
        let own = config.mechanisms[0].values().into_iter().find(|(key, _)| *key == "max_freeze");
        assert_eq!(own, Some(("max_freeze", Value::Text("45s".into()))));
    }

    #[test]
    fn the_mechanism_that_no_file_names_is_the_registrys() {
        let config = parse("radio = [\"w\"]\n").unwrap();
        let usual = registry::usual_at(Place::Stations).unwrap();
        assert_eq!(config.mechanisms[0].name(), usual.name);
    }

    #[test]
    fn several_mechanisms_stand_from_the_senders_to_the_radio() {
        let config = parse(
            "radio = [\"w\"]\nmechanisms = [\"cr-aware\", { name = \"dsasync\", at = \"stations\" }]\n",
        )
        .unwrap();
        assert_eq!(config.mechanism_name(), "cr-aware+dsasync");
        // A chain lists them as downlink packets pass, which come to a host from its radio.
        let chain = config.build_mechanism(1).unwrap();
        let names: Vec<_> = chain.members().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["dsasync", "cr-aware"]);
    }

    #[test]
    fn errors_name_file_line_and_key() {
        for (text, expected) in [
            (
                "radio = [\"w\"]\nmechanism = { name = \"cr-aware\", max_freeze = \"9s\" }\n",
                "host.toml:2:47: mechanism.max_freeze: a limit of 9s is shorter than silence.max (10s)",
            ),
            ("", "host.toml: the key `radio` is missing"),
            ("radio = []\n", "host.toml:1:9: radio: radio is empty; name at least one interface"),
            ("radio = [\"w\"]\nwired = [\"e\"]\n", "host.toml:2:1: wired: unknown key"),
            (
                "radio = [\"w\"]\nfreeze = \"hard\"\n",
                "host.toml:2:10: freeze: \"hard\" is not known here; write one of \"auto\", \"window\"",
            ),
            (
                "radio = [\"w\"]\nmechanism = \"dsasync\"\n",
                "host.toml:2:13: mechanism: dsasync would run at \"base-station\"; `linkhold host` runs on a host; \
                 write at = \"stations\", as in mechanism = {",
            ),
            (
                "radio = [\"w\"]\n[snr]\nnoise_dbm = 7\n",
                "host.toml:3:13: snr.noise_dbm: the number 7 is no level in dBm; write a whole number from -128 to 0",
            ),
            ("radio = [\"w\"]\n[snr]\nevery = \"0s\"\n", "host.toml:3:9: snr.every: \"0s\" is zero"),
            (
                "radio = [\"w\"]\nmechanisms = [\"snr-gate\", { name = \"cr-aware\", at = \"correspondent\" }]\n",
                "host.toml:2:27: mechanisms[1]: cr-aware would run at \"correspondent\" and snr-gate at \"stations\"; this is one \
                 host; write at = \"stations\" here, or \"correspondent\" there",
            ),
            (
                "radio = [\"w\"]\nmechanisms = [{ name = \"dsasync\", at = \"stations\" }, \"cr-aware\"]\n",
                "host.toml:2:15: mechanisms[0]: dsasync keeps copies of what goes to the radio, which the mechanisms \
                 behind it would change; write it last, next to the radio (dsasync keeps none with recover = false)",
            ),
            (
                "radio = [\"w\"]\nmechanism = \"cr-aware\"\nmechanisms = [\"snr-gate\"]\n",
                "host.toml:3:14: mechanisms: stands beside `mechanism` (host.toml:2:13); keep one of them",
            ),
            ("radio = [\"w\", \"w\"]\n", "host.toml:1:15: radio[1]: w is named already (host.toml:1:10)"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}\nexpected {expected}\ntold     {error}");
        }
    }
}
