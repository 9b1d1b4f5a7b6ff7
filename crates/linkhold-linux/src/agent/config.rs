//! The agent's configuration file: TOML, every error with file, line and key.
//!
//! `packaging/agent.toml` is the commented example; a test reads it.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use linkhold_core::dsasync::{Clamp, CloseAt, DsaSyncConfig, Mode};
use linkhold_core::link_event::Cause;
use linkhold_core::mechanism::{Mechanism, PlainRouter};
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use serde::Deserialize;

use super::protocol::{self, Target};
use super::quantity;
use crate::datapath::nfqueue::NfQueueConfig;
use crate::datapath::rules::{BackendChoice, MAX_INSTANCE_NAME, RuleSet};

/// What is wrong with a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum AgentConfigError {
    /// It cannot be read.
    #[error("{path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A value is wrong, or the file is no TOML.
    #[error("{path}:{line}: {key}{message}", key = if .key.is_empty() { String::new() } else { format!("{}: ", .key) })]
    Value {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The key, with the tables it is in; empty if there is none.
        key: String,
        /// What is wrong and what would be right.
        message: String,
    },
}

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentConfig {
    /// Name of this agent, for its rules and sockets.
    #[serde(default = "default_instance")]
    pub instance: String,
    /// Interfaces towards correspondent hosts (the internet).
    pub wired: Vec<String>,
    /// Interfaces towards stations.
    pub radio: Vec<String>,
    /// How packets reach the agent.
    #[serde(default)]
    pub datapath: DataPathSection,
    /// Keep a child process that lets held packets go if the agent is killed.
    #[serde(default = "yes")]
    pub guardian: bool,
    /// The control socket.
    #[serde(default)]
    pub control: ControlSection,
    /// Prometheus metrics.
    #[serde(default)]
    pub metrics: MetricsSection,
    /// What the radio carries when nobody has told yet.
    #[serde(default)]
    pub channel: Option<ChannelSection>,
    /// Limits of silences.
    #[serde(default)]
    pub silence: SilenceSection,
    /// Silences by the clock.
    #[serde(default, rename = "schedule")]
    pub schedules: Vec<ScheduleSection>,
    /// Stations with several addresses.
    #[serde(default, rename = "station")]
    pub stations: Vec<StationSection>,
    /// What is done in a silence.
    #[serde(default)]
    pub mechanism: MechanismSection,
}

/// `[datapath]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DataPathSection {
    /// What puts the rules into the kernel.
    pub backend: BackendChoice,
    /// Number of the first of two NFQUEUEs.
    pub queue: u16,
    /// Most packets that the kernel keeps per queue; 0: derived from `mechanism.b_alloc`.
    pub max_packets: u32,
    /// Mark (SO_MARK) of packets that the agent itself sends.
    pub mark: u32,
    /// What becomes of aggregates (GSO, GRO).
    pub aggregates: Aggregates,
}

/// Packets of up to 64 KiB that network cards make of many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Aggregates {
    /// Split where a radio of the stated capacity takes longer for one than the transmit queue is to hold.
    #[default]
    Auto,
    /// Let them pass whole: less work a byte.
    Keep,
    /// Have the kernel split them before they come.
    Split,
}

/// Largest aggregate, bytes (`GSO_MAX_SIZE`; cards that make larger ones are rare, and fare the same).
const LARGEST_AGGREGATE: Bytes = Bytes(65_536);

impl Default for DataPathSection {
    fn default() -> Self {
        Self {
            backend: BackendChoice::Auto,
            queue: 4710,
            max_packets: 0,
            mark: 0x6c68,
            aggregates: Aggregates::Auto,
        }
    }
}

/// `[control]`
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ControlSection {
    /// Path of the Unix socket.
    pub socket: PathBuf,
    /// Its permissions, octal.
    pub mode: FileMode,
    /// Most clients at once.
    pub max_clients: usize,
}

impl Default for ControlSection {
    fn default() -> Self {
        Self { socket: PathBuf::from(DEFAULT_SOCKET), mode: FileMode(0o600), max_clients: 16 }
    }
}

/// Where `linkhold signal` and `linkhold status` look for the agent if nothing else is said.
pub const DEFAULT_SOCKET: &str = "/run/linkhold/agent.sock";

/// File permissions, written in octal as text: `"0660"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct FileMode(pub u32);

impl TryFrom<String> for FileMode {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        match u32::from_str_radix(&text, 8) {
            Ok(mode) if mode <= 0o777 => Ok(Self(mode)),
            Ok(_) | Err(_) => Err(format!(
                "\"{}\" are no permissions; write octal digits, such as \"0660\"",
                text.escape_debug()
            )),
        }
    }
}

/// `[metrics]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsSection {
    /// Loopback address and port for Prometheus; none: no metrics.
    pub listen: Option<SocketAddr>,
}

/// `[channel]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChannelSection {
    /// Raw physical-layer rate.
    #[serde(deserialize_with = "quantity::required")]
    pub capacity: BitRate,
    /// Share of it that the MAC leaves for IP packets.
    #[serde(default = "whole")]
    pub efficiency: Fraction,
}

/// `[silence]`
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SilenceSection {
    /// A silence that nobody ends is over after this time.
    #[serde(deserialize_with = "quantity::required")]
    pub max: Duration,
}

impl Default for SilenceSection {
    fn default() -> Self {
        Self { max: Duration::from_secs(10) }
    }
}

/// `[[schedule]]`: a silence every `period`, on the system's wall clock (UTC).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleSection {
    /// Name in logs and status.
    pub name: String,
    /// Whom it silences.
    #[serde(default)]
    pub scope: Target,
    /// Why.
    #[serde(default = "default_cause")]
    pub cause: protocol::Cause,
    /// From one silence's start to the next.
    #[serde(deserialize_with = "quantity::required")]
    pub period: Duration,
    /// Length of a silence.
    #[serde(deserialize_with = "quantity::required")]
    pub duration: Duration,
    /// Start of a silence after midnight UTC of 1 January 1970, modulo the period.
    #[serde(deserialize_with = "quantity::required", default)]
    pub phase: Duration,
}

/// `[[station]]`: addresses of one radio.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StationSection {
    /// Name in logs and status.
    pub name: String,
    /// Its addresses on the radio side.
    pub addresses: Vec<IpAddr>,
}

/// `[mechanism]`
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MechanismSection {
    /// Which mechanism.
    pub name: MechanismName,
    /// What the settings below start from.
    pub preset: Preset,
    /// Every setting, exactly (what `linkhold testbed` writes); in place of `preset`.
    pub settings: Option<DsaSyncConfig>,
    /// hold, freeze, freeze+nudge.
    pub mode: Option<Mode>,
    /// When windows are closed.
    pub close_at: Option<CloseAt>,
    /// When windows are held down to the bandwidth-delay product.
    pub clamp: Option<Clamp>,
    /// Most bytes held; thresholds follow at a half and a quarter.
    #[serde(deserialize_with = "quantity::optional")]
    pub b_alloc: Option<Bytes>,
    /// Most packets held.
    pub max_held_packets: Option<u32>,
    /// Queue that the clamp leaves before the radio, as time.
    #[serde(deserialize_with = "quantity::optional")]
    pub standing_queue: Option<Duration>,
    /// Most that is left in the router's own queue, as time; zero: no matter how much.
    #[serde(deserialize_with = "quantity::optional")]
    pub transmit_queue: Option<Duration>,
    /// Rate of release while the capacity is unknown.
    #[serde(deserialize_with = "quantity::optional")]
    pub assumed_capacity: Option<BitRate>,
    /// Most flows tracked.
    pub max_flows: Option<u32>,
}

/// A mechanism's name in the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MechanismName {
    /// Packets pass: for comparison.
    None,
    /// DSASync.
    #[default]
    DsaSync,
}

/// Starting point of DSASync's settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// What is recommended.
    #[default]
    Recommended,
    /// As the paper prints it.
    Paper,
    /// Hold only.
    HoldOnly,
}

fn default_instance() -> String {
    "default".to_owned()
}

fn yes() -> bool {
    true
}

fn whole() -> Fraction {
    Fraction::ONE
}

fn default_cause() -> protocol::Cause {
    protocol::Cause(Cause::Sensing)
}

/// The kernel's queue is never shorter, whatever the buffer: packets wait in it for their verdict as well.
const MIN_QUEUE_PACKETS: u32 = 4096;

impl AgentConfig {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`AgentConfigError`] names file, line and key.
    pub fn load(path: &Path) -> Result<Self, AgentConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| AgentConfigError::Read { path: path.to_owned(), source })?;
        Self::parse(path, &text)
    }

    /// Checks the text of a file; `path` is for messages.
    ///
    /// # Errors
    /// [`AgentConfigError`] names file, line and key.
    pub fn parse(path: &Path, text: &str) -> Result<Self, AgentConfigError> {
        let wrong = |line, key: &str, message: &str| AgentConfigError::Value {
            path: path.to_owned(),
            line,
            key: key.to_owned(),
            message: message.to_owned(),
        };
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            wrong(line_of(text, at), &key_at(text, at), error.message())
        })?;
        config.check().map_err(|(key, message)| wrong(line_of_key(text, &key), &key, &message))?;
        Ok(config)
    }

    /// What types cannot check: the key, and what is wrong with it.
    fn check(&self) -> Result<(), (String, String)> {
        let fail = |key: &str, message: String| Err((key.to_owned(), message));
        let name_is_fine = !self.instance.is_empty()
            && self.instance.len() <= MAX_INSTANCE_NAME
            && self.instance.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !name_is_fine {
            return fail(
                "instance",
                format!("write 1 to {MAX_INSTANCE_NAME} letters, digits or underscores"),
            );
        }
        for (key, interfaces) in [("wired", &self.wired), ("radio", &self.radio)] {
            if interfaces.is_empty() {
                return fail(key, "name at least one interface".to_owned());
            }
            if let Some(bad) = interfaces.iter().find(|name| !is_interface_name(name)) {
                return fail(key, format!("\"{}\" is no interface name", bad.escape_debug()));
            }
        }
        if let Some(both) = self.wired.iter().find(|name| self.radio.contains(name)) {
            return fail("radio", format!("{both} is under `wired` already"));
        }
        if self.datapath.queue == u16::MAX {
            return fail("datapath.queue", "write at most 65534: the next number is used as well".to_owned());
        }
        if self.control.max_clients == 0 || self.control.max_clients > 1024 {
            return fail("control.max_clients", "write 1 to 1024".to_owned());
        }
        if let Some(listen) = self.metrics.listen
            && !listen.ip().is_loopback()
        {
            return fail(
                "metrics.listen",
                format!(
                    "{} is no loopback address; write 127.0.0.1 or [::1], and put a proxy before it",
                    listen.ip()
                ),
            );
        }
        if self.silence.max.is_zero() {
            return fail("silence.max", "must be longer than zero".to_owned());
        }
        if let Some(channel) = self.channel
            && channel.capacity == BitRate(0)
        {
            return fail("channel.capacity", "must be more than zero".to_owned());
        }
        for schedule in &self.schedules {
            if schedule.duration.is_zero() || schedule.duration >= schedule.period {
                return fail(
                    "schedule.duration",
                    format!(
                        "of \"{}\" must be above zero and below its period",
                        schedule.name.escape_debug()
                    ),
                );
            }
        }
        if let Some(schedule) = self.schedules.iter().find(|schedule| schedule.duration > self.silence.max) {
            return fail(
                "silence.max",
                format!("is shorter than the silences of \"{}\"", schedule.name.escape_debug()),
            );
        }
        self.dsasync().validate().map_err(|error| ("mechanism".to_owned(), error.to_string()))
    }

    /// DSASync's settings.
    #[must_use]
    pub fn dsasync(&self) -> DsaSyncConfig {
        let section = &self.mechanism;
        let mut config = match (section.settings, section.preset) {
            (Some(settings), _) => settings,
            (None, Preset::Recommended) => DsaSyncConfig::default(),
            (None, Preset::Paper) => DsaSyncConfig::paper(),
            (None, Preset::HoldOnly) => DsaSyncConfig::hold_only(),
        };
        if let Some(b_alloc) = section.b_alloc {
            config = config.with_b_alloc(b_alloc);
        }
        let set = |slot: &mut u32, value: Option<u32>| *slot = value.unwrap_or(*slot);
        set(&mut config.max_held_packets, section.max_held_packets);
        set(&mut config.max_flows, section.max_flows);
        config.mode = section.mode.unwrap_or(config.mode);
        config.close_at = section.close_at.unwrap_or(config.close_at);
        config.clamp = section.clamp.unwrap_or(config.clamp);
        config.standing_queue = section.standing_queue.unwrap_or(config.standing_queue);
        config.transmit_queue = section.transmit_queue.unwrap_or(config.transmit_queue);
        config.assumed_capacity = section.assumed_capacity.unwrap_or(config.assumed_capacity);
        config
    }

    /// Makes the mechanism. `seed` is for its flow table's hash: secret and random.
    ///
    /// # Errors
    /// In words, what DSASync finds wrong with its settings.
    pub fn build_mechanism(&self, seed: u64) -> Result<Box<dyn Mechanism>, String> {
        match self.mechanism.name {
            MechanismName::None => Ok(Box::new(PlainRouter::default())),
            MechanismName::DsaSync => {
                let config = DsaSyncConfig { flow_seed: seed, ..self.dsasync() };
                match linkhold_core::dsasync::DsaSync::new(&config) {
                    Ok(mechanism) => Ok(Box::new(mechanism)),
                    Err(error) => Err(error.to_string()),
                }
            }
        }
    }

    /// Settings of the queues.
    #[must_use]
    pub fn queues(&self) -> NfQueueConfig {
        let held = self.dsasync().max_held_packets;
        let max_packets = match self.datapath.max_packets {
            0 => held.saturating_add(MIN_QUEUE_PACKETS),
            chosen => chosen,
        };
        NfQueueConfig {
            queue: self.datapath.queue,
            max_packets,
            mark: self.datapath.mark,
            split_aggregates: self.splits_aggregates(),
        }
    }

    /// An aggregate goes down whole or not at all: on a slow radio one alone is longer than the queue that is to be kept short.
    fn splits_aggregates(&self) -> bool {
        match self.datapath.aggregates {
            Aggregates::Keep => false,
            Aggregates::Split => true,
            Aggregates::Auto => self.channel.as_ref().is_some_and(|channel| {
                let (rate, most) =
                    (channel.capacity.mul_f64(channel.efficiency.get()), self.dsasync().transmit_queue);
                self.mechanism.name == MechanismName::DsaSync
                    && !most.is_zero()
                    && rate.time_for(LARGEST_AGGREGATE) > most
            }),
        }
    }

    /// The rules that bring packets to the queues.
    #[must_use]
    pub fn rules(&self) -> RuleSet {
        RuleSet {
            instance: self.instance.clone(),
            wired: self.wired.clone(),
            radio: self.radio.clone(),
            queue: self.datapath.queue,
        }
    }
}

/// What Linux takes (dev_valid_name), less what would need quoting in a rule, less iptables' wildcard.
fn is_interface_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-@:".contains(&byte))
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The key on the line of `offset`, with its table's name: what a reader looks for.
fn key_at(text: &str, offset: usize) -> String {
    let line = line_of(text, offset);
    let mut table = String::new();
    let mut key = String::new();
    for (number, content) in text.lines().enumerate().map(|(index, content)| (index + 1, content.trim())) {
        if number > line {
            break;
        }
        if content.starts_with('[') && !content.contains('=') {
            table = content.trim_matches(|c| c == '[' || c == ']' || c == ' ').to_owned();
            key.clear();
        } else if let Some((name, _)) = content.split_once('=')
            && !content.starts_with('#')
        {
            key = name.trim().to_owned();
        }
    }
    match (table.is_empty(), key.is_empty()) {
        (true, _) => key,
        (false, true) => table,
        (false, false) => format!("{table}.{key}"),
    }
}

/// The line of a dotted key, or of the table it would be in.
fn line_of_key(text: &str, key: &str) -> usize {
    let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
    let mut inside = table.is_empty();
    let mut table_line = 1;
    for (number, content) in text.lines().enumerate().map(|(index, content)| (index + 1, content.trim())) {
        if content.starts_with('[') {
            let header = content.trim_matches(|c| c == '[' || c == ']' || c == ' ');
            inside = header == table;
            if inside || (table.is_empty() && header == name) {
                table_line = number;
            }
        } else if inside && content.split_once('=').is_some_and(|(left, _)| left.trim() == name) {
            return number;
        }
    }
    table_line
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = "wired = [\"eth0\"]\nradio = [\"wlan0\"]\n";

    fn parse(text: &str) -> Result<AgentConfig, String> {
        AgentConfig::parse(Path::new("agent.toml"), text).map_err(|error| error.to_string())
    }

    #[test]
    fn two_interfaces_are_enough() {
        let config = parse(SMALLEST).unwrap();
        assert_eq!(config.control.mode, FileMode(0o600));
        assert_eq!(config.dsasync(), DsaSyncConfig::default());
        assert!(config.queues().max_packets > config.dsasync().max_held_packets);
    }

    #[test]
    fn exact_settings_come_back_exactly() {
        #[derive(serde::Serialize)]
        struct Section {
            settings: DsaSyncConfig,
        }
        for settings in [DsaSyncConfig::default(), DsaSyncConfig::paper(), DsaSyncConfig::hold_only()] {
            let section = toml::to_string(&Section { settings }).unwrap();
            let text =
                format!("{SMALLEST}[mechanism]\n{}", section.replace("[settings", "[mechanism.settings"));
            assert_eq!(parse(&text).unwrap().dsasync(), settings, "{text}");
        }
        let error = parse(&format!("{SMALLEST}[mechanism.settings]\nmode = \"hold\"\n")).unwrap_err();
        assert!(error.contains("missing field"), "{error}");
    }

    #[test]
    fn the_packaged_example_is_valid() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/agent.toml");
        let config = AgentConfig::load(&path).unwrap();
        assert!(config.build_mechanism(1).is_ok());
    }

    #[test]
    fn errors_name_file_line_and_key() {
        for (addition, expected) in [
            (
                "[silence]\nmax = \"ten\"\n",
                "agent.toml:4: silence.max: \"ten\" is not a duration; write a duration such as \"25ms\"",
            ),
            (
                "[silence]\nmax = 10\n",
                "agent.toml:4: silence.max: invalid type: integer `10`, expected a string",
            ),
            (
                "[mechanism]\nb_alloc = \"64Mbit\"\n",
                "agent.toml:4: mechanism.b_alloc: \"64Mbit\" has the unknown unit `Mbit`; write",
            ),
            ("[silence]\n\nlongest = \"1s\"\n", "agent.toml:5: silence.longest: unknown field `longest`"),
            ("[control]\nmode = \"999\"\n", "agent.toml:4: control.mode: \"999\" are no permissions"),
            ("instance = \"a-b\"\n", "agent.toml:3: instance: write 1 to 16"),
            ("[datapath]\nqueue = 65535\n", "agent.toml:4: datapath.queue: write at most 65534"),
            ("[datapath]\nqueue = 70000\n", "agent.toml:4: datapath.queue: "),
            (
                "[metrics]\nlisten = \"0.0.0.0:9464\"\n",
                "agent.toml:4: metrics.listen: 0.0.0.0 is no loopback",
            ),
            ("[metrics]\nlisten = \"[::]:9464\"\n", "agent.toml:4: metrics.listen: :: is no loopback"),
            (
                "[metrics]\nlisten = \"192.168.1.1:9464\"\n",
                "agent.toml:4: metrics.listen: 192.168.1.1 is no loopback",
            ),
            ("[control]\nmax_clients = 0\n", "agent.toml:4: control.max_clients: write 1 to 1024"),
            ("[silence]\nmax = \"0s\"\n", "agent.toml:4: silence.max: must be longer than zero"),
            (
                "[channel]\nefficiency = 1.5\ncapacity = \"1Mbit/s\"\n",
                "agent.toml:4: channel.efficiency: 1.5 is not between 0 and 1",
            ),
            ("[mechanism]\nmode = \"melt\"\n", "agent.toml:4: mechanism.mode: unknown variant `melt`"),
            (
                "[[schedule]]\nname = \"s\"\nperiod = \"15s\"\nduration = \"20s\"\n",
                "agent.toml:6: schedule.duration: of \"s\" must be above zero and below its period",
            ),
            ("[control\n", "agent.toml:3: "),
        ] {
            let error = parse(&format!("{SMALLEST}{addition}")).unwrap_err();
            assert!(error.starts_with(expected), "{addition:?}: {error}");
        }
        let error = parse("wired = [\"eth0\"]\n").unwrap_err();
        assert!(error.starts_with("agent.toml:1: ") && error.contains("missing field `radio`"), "{error}");
        let error = parse("wired = [\"eth0\"]\nradio = [\"a b\"]\n").unwrap_err();
        assert!(error.starts_with("agent.toml:2: radio: \"a b\" is no interface name"), "{error}");
        let error = parse("wired = [\"eth0\"]\nradio = [\"eth0\"]\n").unwrap_err();
        assert!(error.starts_with("agent.toml:2: radio: eth0 is under `wired`"), "{error}");
    }
}
