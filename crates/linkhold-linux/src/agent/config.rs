//! The agent's configuration file: TOML, read as scenario files are, so that every error names file, line,
//! column and key, and all of them are told at once.
//!
//! `packaging/agent.toml` is the commented example; a test reads it.

mod file;
mod host_file;
mod model;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use linkhold_scenario::read::read_file;
use linkhold_scenario::{FileError, input};

pub use file::{others_can_follow, runs_on_a_router};
pub use host_file::runs_on_a_host;
pub use model::{
    AgentConfig, Aggregates, ChannelSection, ControlSection, DEFAULT_SOCKET, DataPathSection, FileMode,
    FreezeBy, HostSection, MAX_RADIOS, MetricsSection, RadioEvents, ScheduleSection, Seat, SilenceSection,
    SnrSection, StationSection,
};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AgentConfigError {
    /// There is no such file.
    #[error("{path}: no such file; `linkhold {command} example > {path}` writes one to start from")]
    Absent {
        /// The file.
        path: PathBuf,
        /// The command that it would be for.
        command: &'static str,
    },
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The file is of another kind, which would make every line of it wrong.
    #[error("{path}: this is a scenario (schema = \"{schema}\"); `linkhold scenario check` reads it")]
    Scenario {
        /// The file.
        path: PathBuf,
        /// What it says that it is.
        schema: String,
    },
    /// The file is wrong: each problem with its line and key.
    #[error(transparent)]
    Wrong(#[from] FileError),
}

impl AgentConfig {
    /// Reads and checks a file, `-` being standard input.
    ///
    /// # Errors
    /// [`AgentConfigError`] with everything that is wrong.
    pub fn load(path: &Path) -> Result<Self, AgentConfigError> {
        let (path, text) = text_of(path, "agent")?;
        Self::parse(&path, &text)
    }

    /// Reads and checks the file of `linkhold host`, `-` being standard input.
    ///
    /// # Errors
    /// [`AgentConfigError`] with everything that is wrong.
    pub fn load_host(path: &Path) -> Result<Self, AgentConfigError> {
        let (path, text) = text_of(path, "host")?;
        Self::parse_host(&path, &text)
    }

    /// Checks the text of a host's file; `path` is for messages.
    ///
    /// # Errors
    /// [`AgentConfigError`] with everything that is wrong.
    pub fn parse_host(path: &Path, text: &str) -> Result<Self, AgentConfigError> {
        refuse_scenario(path, text)?;
        Ok(read_file(text, &path.display().to_string(), host_file::resolve)?)
    }

    /// Checks the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// [`AgentConfigError`] with everything that is wrong.
    pub fn parse(path: &Path, text: &str) -> Result<Self, AgentConfigError> {
        refuse_scenario(path, text)?;
        Ok(read_file(text, &path.display().to_string(), file::resolve)?)
    }
}

/// Refuses a file that says that it is a scenario.
fn refuse_scenario(path: &Path, text: &str) -> Result<(), AgentConfigError> {
    let schema = toml::from_str::<toml::Table>(text)
        .ok()
        .and_then(|table| table.get("schema")?.as_str().map(str::to_owned));
    match schema {
        Some(schema) if schema == linkhold_scenario::FORMAT => {
            Err(AgentConfigError::Scenario { path: path.to_owned(), schema })
        }
        Some(_) | None => Ok(()),
    }
}

/// What messages call the file, and its text.
fn text_of(path: &Path, command: &'static str) -> Result<(PathBuf, String), AgentConfigError> {
    let shown = PathBuf::from(input::shown(path));
    match input::read(path, input::MAX_WRITTEN) {
        Ok(bytes) => {
            let text = input::text(bytes, &shown.display().to_string())?;
            Ok((shown, text))
        }
        Err(source) if source.kind() == ErrorKind::NotFound => {
            Err(AgentConfigError::Absent { path: shown, command })
        }
        Err(source) => Err(AgentConfigError::Read { path: shown, source }),
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::mechanism::Place;
    use linkhold_core::registry::{entries, find};
    use linkhold_core::settings::Value;

    use super::*;

    const SMALLEST: &str = "wired = [\"eth0\"]\nradio = [\"wlan0\"]\n";

    fn parse(text: &str) -> Result<AgentConfig, String> {
        AgentConfig::parse(Path::new("agent.toml"), text).map_err(|error| error.to_string())
    }

    /// The preset, with the longest silence of a file that says nothing of it.
    fn dsasync(preset: &str) -> linkhold_core::registry::MechanismSettings {
        let mut settings = find("dsasync").and_then(|entry| entry.preset(preset)).expect("registered");
        settings.set("max_silence", &Value::Text("10s".into())).expect("a duration");
        settings
    }

    #[test]
    fn two_interfaces_are_enough() {
        let config = parse(SMALLEST).unwrap();
        assert_eq!(config.control.mode, FileMode(0o600));
        assert_eq!(config.mechanisms, [dsasync("recommended")]);
        assert_eq!(config.radio_events, RadioEvents::Nl80211);
        let without = parse(&format!("{SMALLEST}radio_events = \"none\"\n")).unwrap();
        assert_eq!(without.radio_events, RadioEvents::None);
        assert!(config.queues().max_packets > dsasync("recommended").needs().held_packets);
    }

    #[test]
    fn a_mechanism_is_written_as_in_a_scenario() {
        let mechanism = |more: &str| parse(&format!("{SMALLEST}{more}")).unwrap().mechanisms.pop();
        assert_eq!(
            mechanism("[mechanism]\nname = \"dsasync\"\npreset = \"paper\"\n"),
            Some(dsasync("paper"))
        );
        assert_eq!(mechanism("mechanism = \"dsasync\"\n"), Some(dsasync("recommended")));
        assert_eq!(mechanism("mechanism = \"none\"\n"), None);
        let settings =
            "[mechanism]\nname = \"dsasync\"\nat = \"base-station\"\nmode = \"hold\"\nb_alloc = \"8MB\"\n";
        let mut expected = dsasync("recommended");
        expected.set("mode", &Value::Text("hold".into())).unwrap();
        expected.set("b_alloc", &Value::Text("8MB".into())).unwrap();
        assert_eq!(mechanism(settings), Some(expected));
    }

    #[test]
    fn a_silence_is_as_long_for_the_mechanism_as_for_the_agent() {
        let limit = |text: &str| {
            let mechanisms = parse(&format!("{SMALLEST}{text}")).unwrap().mechanisms;
            let limit = mechanisms[0].values().into_iter().find(|(key, _)| *key == "max_silence");
            limit.map(|(_, value)| value.describe())
        };
        let written = |text: &str| Some(Value::Text(text.into()).describe());
        let long = "[silence]\nmax = \"45s\"\n";
        assert_eq!(limit(""), written("10s"));
        assert_eq!(limit(long), written("45s"));
        assert_eq!(
            limit(&format!(
                "mechanisms = [{{ name = \"dsasync\", recover = false }}, \"local-recovery\"]\n{long}"
            )),
            written("45s")
        );
        // A longer one of its own does no harm, since the agent tells the mechanism of the end.
        let own = format!("{long}[mechanism]\nname = \"dsasync\"\nmax_silence = ");
        assert_eq!(limit(&format!("{own}\"50s\"\n")), written("50s"));
        let error = parse(&format!("{SMALLEST}{own}\"30s\"\n")).unwrap_err();
        let expected =
            "agent.toml:7:15: mechanism.max_silence: a limit of 30s is shorter than silence.max (45s)";
        assert!(error.starts_with(expected), "{error}");
        assert!(error.contains("remove max_silence, which follows silence.max"), "{error}");
    }

    #[test]
    fn each_radio_has_its_own_channel_or_that_of_all() {
        let text = "wired = [\"eth0\"]\nradio = [\"w0\", \"w1\"]\n[[radio_channel]]\nradio = \"w1\"\ncapacity = \"20Mbit/s\"\n";
        let capacities = |text: &str| -> Vec<Option<u64>> {
            let config = parse(text).unwrap();
            config.channels.iter().map(|one| one.as_ref().map(|one| one.capacity.as_bps())).collect()
        };
        assert_eq!(capacities(text), [None, Some(20_000_000)]);
        let all = format!(
            "{text}[channel]\ncapacity = \"1Gbit/s\"\n[mechanism]\nname = \"dsasync\"\nrecover = false\n"
        );
        assert_eq!(capacities(&all), [Some(1_000_000_000), Some(20_000_000)]);
        // Where nothing is copied a slow radio has its aggregates split, a fast one beside it has not.
        let queues = parse(&all).unwrap().queues();
        assert_eq!(
            (queues.split_aggregates.clone(), queues.queue_numbers()),
            (vec![false, true], 4710..4714)
        );
    }

    #[test]
    fn several_mechanisms_stand_in_the_files_order_and_need_what_all_need() {
        let both = "mechanisms = [{ name = \"dsasync\", recover = false }, { name = \"local-recovery\" }]\n";
        let config = parse(&format!("{SMALLEST}{both}")).unwrap();
        assert_eq!(config.mechanism_name(), "dsasync+local-recovery");
        let alone = |name: &str| parse(&format!("{SMALLEST}mechanism = \"{name}\"\n")).unwrap();
        assert!(config.queues().max_packets >= alone("dsasync").queues().max_packets);
        let no_copies =
            parse(&format!("{SMALLEST}mechanism = {{ name = \"dsasync\", recover = false }}\n")).unwrap();
        assert!(config.queues().whole_downlink && !no_copies.queues().whole_downlink);
        assert!(config.build_mechanism(1).is_ok());
    }

    #[test]
    fn the_plain_router_needs_no_more_than_a_short_queue() {
        let config = parse(&format!("{SMALLEST}mechanism = \"none\"\n")).unwrap();
        assert_eq!(config.build_mechanism(1).unwrap().name(), "none");
        assert!(config.queues().max_packets < 10_000 && config.queues().split_aggregates == [false]);
    }

    #[test]
    fn a_mechanism_that_runs_elsewhere_is_refused_by_name() {
        let elsewhere: Vec<_> =
            entries().iter().filter(|entry| !entry.places.contains(&Place::BaseStation)).collect();
        assert!(!elsewhere.is_empty());
        for entry in elsewhere {
            let name = entry.name;
            let told = parse(&format!("{SMALLEST}mechanism = \"{name}\"\n")).unwrap_err();
            let place = entry.natural_place().name();
            let expected = format!(
                "agent.toml:3:13: mechanism: {name} would run at {place:?}; `linkhold agent` runs on a router, which \
                 is the \"base-station\"; a router can run dsasync"
            );
            assert!(told.starts_with(&expected), "expected {expected}\ntold     {told}");
        }
        let dsasync = find("dsasync").expect("there is one").recommended();
        let told = runs_on_a_router(&dsasync, Place::Stations).unwrap_err();
        assert!(told.to_string().ends_with("write at = \"base-station\", or nothing"), "{told}");
        assert_eq!(runs_on_a_router(&dsasync, Place::BaseStation), Ok(()));
    }

    /// What a router cannot do is refused though the mechanism does other things there.
    #[test]
    fn a_mechanism_that_would_do_nothing_on_a_router_is_refused_by_name() {
        for settings in ["preset = \"paper\"", "downlink = false", "preset = \"paper\", tries = 2"] {
            let line = format!("mechanism = {{ name = \"local-recovery\", {settings} }}\n");
            let told = parse(&format!("{SMALLEST}{line}")).unwrap_err();
            let expected = "agent.toml:3:1: mechanism: local-recovery would only report to stations, with settings \
                            like these, and Linux brings no reports to them; leave out what differs from \
                            local-recovery's preset \"recommended\"";
            assert!(told.starts_with(expected), "{told}");
        }
        let line = "mechanism = { name = \"local-recovery\", preset = \"paper\", downlink = true }\n";
        assert!(parse(&format!("{SMALLEST}{line}")).is_ok());
    }

    #[test]
    fn a_mechanism_that_does_not_run_here_is_no_cause_of_another_error() {
        let list = "mechanisms = [\"dsasync\", { name = \"cr-aware\", at = \"stations\" }]\n";
        let told = parse(&format!("{SMALLEST}{list}")).unwrap_err();
        assert!(told.starts_with("agent.toml:3:26: mechanisms[1]: cr-aware would run at"), "{told}");
        assert_eq!(told.lines().count(), 1, "{told}");
    }

    #[test]
    fn the_packaged_example_is_valid_and_shows_the_defaults() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/agent.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let config = AgentConfig::load(&path).unwrap();
        assert!(config.build_mechanism(1).is_ok());
        let usual = find("dsasync").unwrap();
        let presets = text.lines().find(|line| line.starts_with("preset = ")).unwrap();
        let named = usual.presets.iter().filter(|(name, _)| presets.contains(&format!("{name:?}")));
        assert_eq!(named.count(), usual.presets.len(), "{presets}");
        // Lines that are commented out show defaults, too: read, they change nothing.
        let (_, mechanism) = text.split_once("[mechanism]").expect("the last table");
        let all = format!("{SMALLEST}[mechanism]{}", mechanism.replace("\n# ", "\n"));
        assert_eq!(parse(&all).unwrap().mechanisms, [dsasync("recommended")], "{all}");
    }

    #[test]
    fn errors_name_file_line_and_key() {
        let schedules =
            "[[schedule]]\nname = \"a\"\nperiod = \"15s\"\nduration = \"1s\"\n[[schedule]]\nname = \"b\"\n";
        for (addition, expected) in [
            (
                "[silence]\nmax = \"ten\"\n",
                "agent.toml:4:7: silence.max: \"ten\" is not a duration; write a duration such as \"25ms\"",
            ),
            ("[silence]\nmax = 10\n", "agent.toml:4:7: silence.max: 10 has no unit; write a duration"),
            (
                "[mechanism]\nname = \"dsasync\"\nb_alloc = \"64Mbit\"\n",
                "agent.toml:5:11: mechanism.b_alloc: \"64Mbit\" has the unknown unit `Mbit`; write",
            ),
            (
                "[silence]\n\nlongest = \"1s\"\n",
                "agent.toml:5:1: silence.longest: unknown key; the keys here are max",
            ),
            (
                "[control]\nsoket = \"/x\"\n",
                "agent.toml:4:1: control.soket: unknown key; did you mean `socket`?",
            ),
            ("[control]\nmode = \"999\"\n", "agent.toml:4:8: control.mode: \"999\" are no permissions"),
            (
                "instance = \"a-b\"\n",
                "agent.toml:3:12: instance: \"a-b\" is no name of an instance; write 1 to 16",
            ),
            (
                "[datapath]\nqueue = 65535\n",
                "agent.toml:4:9: datapath.queue: 65535 is out of range; write a whole number from 0 to 65534",
            ),
            (
                "radio_events = \"hostapd\"\n",
                "agent.toml:3:16: radio_events: \"hostapd\" is not known here; write one of \"nl80211\", \"none\"",
            ),
            ("[datapath]\nqueue = 70000\n", "agent.toml:4:9: datapath.queue: "),
            (
                "[datapath]\nbackend = \"nft\"\n",
                "agent.toml:4:11: datapath.backend: \"nft\" is not known here",
            ),
            (
                "[metrics]\nlisten = \"0.0.0.0:9464\"\n",
                "agent.toml:4:10: metrics.listen: 0.0.0.0 is no loopback",
            ),
            ("[metrics]\nlisten = \"[::]:9464\"\n", "agent.toml:4:10: metrics.listen: :: is no loopback"),
            (
                "[metrics]\nlisten = \"192.168.1.1:9464\"\n",
                "agent.toml:4:10: metrics.listen: 192.168.1.1 is no loopback",
            ),
            (
                "[control]\nmax_clients = 0\n",
                "agent.toml:4:15: control.max_clients: 0 is out of range; write a whole number from 1 to 1024",
            ),
            (
                "[datapath]\naggregates = \"keep\"\n",
                "agent.toml:4:14: datapath.aggregates: \"keep\" hands over packets of which dsasync can send no copy again; \
                 write \"auto\" or \"split\", or recover = false for dsasync",
            ),
            ("[silence]\nmax = \"0s\"\n", "agent.toml:4:7: silence.max: \"0s\" is zero"),
            (
                "[channel]\nefficiency = 1.5\ncapacity = \"1Mbit/s\"\n",
                "agent.toml:4:14: channel.efficiency: 1.5 is not between 0 and 1",
            ),
            ("[channel]\nefficiency = 0.5\n", "agent.toml:3:2: channel: the key `capacity` is missing"),
            (
                "[mechanism]\nname = \"dsasync\"\nmode = \"melt\"\n",
                "agent.toml:5:8: mechanism.mode: \"melt\" is not known here; write one of \"hold\", \"freeze\"",
            ),
            (
                "[mechanism]\nname = \"dsasink\"\n",
                "agent.toml:4:8: mechanism.name: \"dsasink\" is not known here; did you mean \"dsasync\"?",
            ),
            ("[mechanism]\nmode = \"hold\"\n", "agent.toml:3:2: mechanism: the key `name` is missing"),
            (
                "[mechanism]\nname = \"dsasync\"\npreset = \"hold-only\"\n",
                "agent.toml:5:10: mechanism.preset: \"hold-only\" is not known here; write one of \"recommended\", \"paper\"",
            ),
            (
                "[mechanism]\nname = \"dsasync\"\nat = \"stations\"\n",
                "agent.toml:3:2: mechanism: dsasync would run at \"stations\"; `linkhold agent` runs on a router",
            ),
            (
                "[mechanism]\nname = \"dsasync\"\nat = \"correspondent\"\n",
                "agent.toml:5:6: mechanism.at: dsasync cannot stand at \"correspondent\"",
            ),
            (
                "mechanism = \"dsasync\"\nmechanisms = [\"local-recovery\"]\n",
                "agent.toml:4:14: mechanisms: stands beside `mechanism` (agent.toml:3:13); keep one of them",
            ),
            (
                "mechanisms = [\"dsasync\", \"dsasync\"]\n",
                "agent.toml:3:26: mechanisms[1]: dsasync stands in the list already; keep one of them",
            ),
            (
                "mechanisms = [\"dsasync\", \"none\"]\n",
                "agent.toml:3:26: mechanisms[1]: \"none\" is no mechanism of a list; remove it",
            ),
            (
                "mechanisms = [\"local-recovery\", \"dsasync\"]\n",
                "agent.toml:3:15: mechanisms[0]: local-recovery keeps copies of what goes to the radio",
            ),
            (
                "[mechanism]\nname = \"dsasync\"\nclmp = \"off\"\n",
                "agent.toml:5:1: mechanism.clmp: unknown key; did you mean `clamp`?",
            ),
            (
                "[mechanism]\nname = \"dsasync\"\nb_high = \"80MB\"\n",
                "agent.toml:5:10: mechanism.b_high: b_high (80.0 MB) must be below b_alloc (64.0 MB)",
            ),
            (
                &format!("{schedules}period = \"15s\"\nduration = \"20s\"\n"),
                "agent.toml:10:12: schedule[1].duration: a silence of 20s every 15s leaves no time to transmit",
            ),
            (
                &format!("{schedules}period = \"1h\"\nduration = \"20s\"\n"),
                "agent.toml:10:12: schedule[1].duration: a silence of 20s is longer than silence.max (10s)",
            ),
            (
                &format!("{schedules}period = \"15s\"\nduration = \"1s\"\ncause = \"rain\"\n"),
                "agent.toml:11:9: schedule[1].cause: \"rain\" is no cause; write one of sensing",
            ),
            (
                &format!("{schedules}period = \"15s\"\nduraton = \"1s\"\n"),
                "agent.toml:7:1: schedule[1]: the key `duration` is missing",
            ),
            (
                "[[station]]\nname = \"k\"\naddresses = [\"10.0.0.1\", \"10.0.0\"]\n",
                "agent.toml:5:26: station[0].addresses[1]: \"10.0.0\" is no IP address",
            ),
            (
                "[datapath]\nprocessor = \"fast\"\n",
                "agent.toml:4:13: datapath.processor: \"fast\" is no processor; write \"auto\", \"any\", or a number",
            ),
            (
                "[datapath]\nprocessor = -1\n",
                "agent.toml:4:13: datapath.processor: the number -1 is no processor",
            ),
            (
                &format!("{schedules}period = \"15s\"\nduration = \"1s\"\nradio = \"wlan1\"\n"),
                "agent.toml:11:9: schedule[1].radio: wlan1 is not under `radio`; write one of wlan0",
            ),
            (
                "[[radio_channel]]\nradio = \"wlan1\"\ncapacity = \"1Mbit/s\"\n",
                "agent.toml:4:9: radio_channel[0].radio: wlan1 is not under `radio`; write one of wlan0",
            ),
            (
                "[[radio_channel]]\nradio = \"wlan0\"\ncapacity = \"1Mbit/s\"\n\
                 [[radio_channel]]\nradio = \"wlan0\"\ncapacity = \"2Mbit/s\"\n",
                "agent.toml:7:9: radio_channel[1].radio: wlan0 has a channel already (agent.toml:4:9)",
            ),
            ("[control\n", "agent.toml:3:"),
        ] {
            let error = parse(&format!("{SMALLEST}{addition}")).unwrap_err();
            assert!(error.starts_with(expected), "{addition:?}\nexpected {expected}\ntold     {error}");
        }
        for (text, expected) in [
            ("wired = [\"eth0\"]\n", "agent.toml: the key `radio` is missing"),
            (
                "wired = [\"eth0\"]\nradio = []\n",
                "agent.toml:2:9: radio: radio is empty; name at least one interface",
            ),
            (
                "wired = [\"eth0\"]\nradio = [\"a b\"]\n",
                "agent.toml:2:10: radio[0]: \"a b\" is no interface name",
            ),
            (
                "wired = [\"eth0\"]\nradio = [\"w0\", \"eth0\"]\n",
                "agent.toml:2:16: radio[1]: eth0 is under `wired` already (agent.toml:1:10)",
            ),
            (
                "wired = [\"eth0\"]\nradio = [\"w0\", \"w0\"]\n",
                "agent.toml:2:16: radio[1]: w0 is named already (agent.toml:2:10); name each interface once",
            ),
            (
                "wired = [\"eth0\"]\nradio = [\"w0\", \"w1\"]\n[datapath]\nqueue = 65534\n",
                "agent.toml:4:9: datapath.queue: 2 radios need two queue numbers each, 65534 and up; write at most 65532",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(expected), "{text:?}\nexpected {expected}\ntold     {error}");
        }
    }

    #[test]
    fn all_problems_of_a_file_are_told_at_once() {
        let text = format!(
            "{SMALLEST}instance = \"a-b\"\n[silence]\nmax = 3\n[mechanism]\nname = \"dsasync\"\nnudges = 0\nb_low = \"1GB\"\n"
        );
        let error = parse(&text).unwrap_err();
        let keys = ["instance:", "silence.max:", "mechanism.nudges:", "mechanism.b_low:"];
        assert_eq!(error.lines().count(), keys.len(), "{error}");
        assert!(error.lines().zip(keys).all(|(line, key)| line.contains(key)), "{error}");
    }
}
