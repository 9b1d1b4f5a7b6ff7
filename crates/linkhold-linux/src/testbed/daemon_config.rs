//! The configuration files of the daemons under test: the testbed's interfaces, and the very settings that
//! the simulator uses.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use linkhold_core::registry::MechanismSettings;
use linkhold_core::settings::{Format, Value};
use linkhold_core::time::Duration;
use linkhold_scenario::ResolvedScenario;
use serde::Serialize;

use super::topology::{BS_RADIO, BS_WIRE, Family, HostAt, station_address};
use crate::agent::processor::allowed;

#[derive(Serialize)]
struct AgentFile {
    wired: [&'static str; 1],
    radio: [&'static str; 1],
    #[serde(flatten)]
    daemon: DaemonKeys,
    station: Vec<StationTable>,
    mechanisms: Vec<BTreeMap<&'static str, Value<'static>>>,
}

#[derive(Serialize)]
struct HostFile {
    instance: String,
    radio: [&'static str; 1],
    radio_events: &'static str,
    freeze: &'static str,
    #[serde(flatten)]
    daemon: DaemonKeys,
    mechanisms: Vec<BTreeMap<&'static str, Value<'static>>>,
}

/// What both files have.
#[derive(Serialize)]
struct DaemonKeys {
    datapath: DataPath,
    control: Control,
    silence: Silence,
}

#[derive(Serialize)]
struct DataPath {
    processor: u32,
}

#[derive(Serialize)]
struct Control {
    socket: PathBuf,
}

#[derive(Serialize)]
struct Silence {
    max: Value<'static>,
}

#[derive(Serialize)]
struct StationTable {
    name: String,
    addresses: Vec<IpAddr>,
}

impl DaemonKeys {
    fn new(scenario: &ResolvedScenario, mechanisms: &[&MechanismSettings], socket: &Path) -> Self {
        // The testbed's radio ends every silence that it begins; a mechanism's own limit of
        // a silence may be shorter than the run.
        let whole_run = Duration::from_secs(scenario.duration.as_secs_f64().ceil() as u64 + 1);
        let limits = mechanisms.iter().filter_map(|settings| settings.silence_limit());
        Self {
            datapath: DataPath { processor: next_processor() },
            control: Control { socket: socket.to_owned() },
            silence: Silence { max: Duration::write(&limits.fold(whole_run, Duration::min)) },
        }
    }
}

/// A processor for the next daemon. Those of cells side by side would all choose the same one.
fn next_processor() -> u32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let allowed = allowed();
    // The first processor has most interrupts.
    let number = NEXT.fetch_add(1, Ordering::Relaxed) + 1;
    allowed.get(number % allowed.len().max(1)).copied().unwrap_or(0)
}

fn mechanism(settings: &MechanismSettings) -> BTreeMap<&'static str, Value<'static>> {
    let name = ("name", Value::Text(settings.name().into()));
    settings.values().into_iter().chain([name]).collect()
}

/// The agent's configuration, with the scenario's stations.
///
/// # Errors
/// If it cannot be written as TOML.
pub fn agent_config(
    scenario: &ResolvedScenario,
    mechanisms: &[&MechanismSettings],
    socket: &Path,
) -> Result<String, toml::ser::Error> {
    let station = |number: u32| StationTable {
        name: format!("sh{number}"),
        addresses: [Family::V4, Family::V6].map(|family| station_address(family, number)).to_vec(),
    };
    toml::to_string(&AgentFile {
        wired: [BS_WIRE],
        radio: [BS_RADIO],
        daemon: DaemonKeys::new(scenario, mechanisms, socket),
        station: (0..scenario.radio.stations).map(station).collect(),
        mechanisms: mechanisms.iter().map(|settings| mechanism(settings)).collect(),
    })
}

/// The configuration of `linkhold host` at `at`, with these mechanisms from the senders to the radio. No
/// silence of the testbed is announced by nl80211, so the control socket tells all.
///
/// # Errors
/// If it cannot be written as TOML.
pub fn host_config(
    scenario: &ResolvedScenario,
    at: HostAt,
    mechanisms: &[&MechanismSettings],
    socket: &Path,
) -> Result<String, toml::ser::Error> {
    let instance = match at {
        HostAt::Correspondent => "ch".to_owned(),
        HostAt::Station(station) => format!("sh{station}"),
    };
    let placed = |settings: &&MechanismSettings| {
        let mut mechanism = mechanism(settings);
        mechanism.insert("at", Value::Text(at.place().name().into()));
        mechanism
    };
    // Who freezes nobody needs no congestion control of linkhold's, which a machine may lack.
    let freezes = mechanisms.iter().any(|settings| settings.entry().freezes_senders);
    let freeze = scenario.host_freeze.filter(|_| freezes).unwrap_or_default();
    toml::to_string(&HostFile {
        instance,
        radio: [at.interface()],
        radio_events: "none",
        freeze: freeze.name(),
        daemon: DaemonKeys::new(scenario, mechanisms, socket),
        mechanisms: mechanisms.iter().map(placed).collect(),
    })
}

#[cfg(test)]
pub(super) mod tests {
    use linkhold_core::mechanism::Place;
    use linkhold_core::registry::entries;
    use linkhold_scenario::HostFreeze;

    use super::*;
    use crate::agent::AgentConfig;
    use crate::agent::config::{FreezeBy, RadioEvents, Seat, runs_on_a_host, runs_on_a_router};

    pub fn scenario() -> ResolvedScenario {
        let text = "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"20s\"\n[radio]\nphy_rate = \"24Mbit/s\"\nstations = 2\n\
                    [[flows]]\ndirection = \"downlink\"\n";
        let scenario = linkhold_scenario::Scenario::from_toml(text, "t.toml", &[]).unwrap();
        scenario.cases()[0].scenario.clone()
    }

    #[test]
    fn the_agent_reads_back_the_very_settings_of_the_scenario() {
        let mut refused = Vec::new();
        for entry in entries().iter().filter(|entry| entry.places.contains(&Place::BaseStation)) {
            for (preset, _) in &entry.presets {
                let settings = entry.preset(preset).unwrap();
                if runs_on_a_router(&settings, Place::BaseStation).is_err() {
                    refused.push((entry.name, preset.to_string()));
                    continue;
                }
                // Longer than any mechanism believes in a silence.
                let scenario = ResolvedScenario { duration: Duration::from_secs(600), ..scenario() };
                let text = agent_config(&scenario, &[&settings], Path::new("/tmp/agent.sock")).unwrap();
                let config = AgentConfig::parse(Path::new("agent.toml"), &text).unwrap();
                assert_eq!(
                    config.mechanisms,
                    std::slice::from_ref(&settings),
                    "{} {preset}: {text}",
                    entry.name
                );
                assert_eq!(config.stations.len(), 2);
            }
        }
        assert_eq!(refused, [("local-recovery", "paper".to_owned())]);
    }

    #[test]
    fn a_host_reads_back_the_very_settings_of_the_scenario() {
        let mut read = 0;
        for entry in entries() {
            for at in [HostAt::Station(1), HostAt::Correspondent] {
                let settings = entry.recommended();
                if !entry.places.contains(&at.place()) || runs_on_a_host(&settings, at.place()).is_err() {
                    continue;
                }
                let scenario = ResolvedScenario { host_freeze: Some(HostFreeze::Both), ..scenario() };
                let text = host_config(&scenario, at, &[&settings], Path::new("/tmp/host.sock")).unwrap();
                let config = AgentConfig::parse_host(Path::new("host.toml"), &text).unwrap();
                assert_eq!(config.mechanisms, std::slice::from_ref(&settings), "{}: {text}", entry.name);
                assert_eq!(config.radio, [at.interface()]);
                assert_eq!(config.radio_events, RadioEvents::None);
                let Seat::Host(host) = &config.seat else { panic!("{:?}", config.seat) };
                let freeze = if entry.freezes_senders { HostFreeze::Both } else { HostFreeze::Window };
                assert_eq!(host.freeze, FreezeBy::By(freeze), "{}", entry.name);
                read += 1;
            }
        }
        assert!(read >= 4, "{read} mechanisms of hosts");
    }
}
