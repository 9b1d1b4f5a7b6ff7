//! The agent under test: `linkhold agent` as a process of its own in the base station's namespace.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration as StdDuration;

use linkhold_core::registry::MechanismSettings;
use linkhold_core::settings::Value;
use linkhold_scenario::{PlacedMechanism, ResolvedScenario};

use super::error::RunError;
use super::link::AgentLink;
use super::topology::{BS_RADIO, BS_WIRE, Family, Topology, station_address};
use crate::agent::config::runs_on_a_router;
use crate::agent::processor::allowed;
use crate::agent::status::Status;

/// How long it may take to let go of everything.
const GRACE: StdDuration = StdDuration::from_secs(3);
/// Most of its log that goes into an error.
const LOG_TAIL: usize = 2000;

/// The process; ended when dropped.
pub struct AgentProcess {
    child: Child,
    folder: tempfile::TempDir,
}

impl AgentProcess {
    /// Starts `program agent` with the scenario's stations and the mechanism's settings, and waits until it
    /// listens.
    ///
    /// # Errors
    /// [`RunError::Agent`] with what it said.
    pub fn start(
        topology: &Topology,
        scenario: &ResolvedScenario,
        settings: &MechanismSettings,
        program: &Path,
    ) -> Result<Self, RunError> {
        let fail = |what: &str, error: std::io::Error| RunError::Agent(format!("{what}: {error}"));
        let folder = tempfile::tempdir().map_err(|error| fail("make a folder", error))?;
        let config = folder.path().join("agent.toml");
        let text = agent_config(scenario, settings, &folder.path().join("agent.sock"))?;
        std::fs::File::create(&config)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|error| fail("write its configuration", error))?;
        let log = std::fs::File::create(folder.path().join("agent.log"))
            .map_err(|error| fail("open its log", error))?;
        // A router does not share its processor with the hosts that it serves; here it does, and so goes
        // before them.
        let child = topology
            .bs
            .command("chrt")
            .args(["--rr", "5"])
            .arg(program)
            .args(["agent", "--config"])
            .arg(&config)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(|error| fail("start it", error))?;
        let mut agent = Self { child, folder };
        agent.wait_until_it_listens()?;
        Ok(agent)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), RunError> {
        let began = std::time::Instant::now();
        while began.elapsed() < StdDuration::from_secs(10) {
            if crate::agent::status(&self.socket()).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(RunError::Agent(format!(
                    "it ended at once ({status}); it said:\n{}",
                    self.log()
                )));
            }
            std::thread::sleep(StdDuration::from_millis(10));
        }
        Err(RunError::Agent(format!("it does not answer on its control socket; it said:\n{}", self.log())))
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.folder.path().join("agent.log")).unwrap_or_default();
        let from = log.len().saturating_sub(LOG_TAIL);
        log.char_indices().find(|(at, _)| *at >= from).map_or(String::new(), |(at, _)| log[at..].to_owned())
    }

    /// The radio's way to it.
    ///
    /// # Errors
    /// [`RunError::Agent`] if it does not listen.
    pub fn link(&self) -> Result<AgentLink, RunError> {
        AgentLink::connect(&self.socket(), Family::V4).map_err(|error| {
            RunError::Agent(format!("its control socket does not open ({error}); it said:\n{}", self.log()))
        })
    }

    /// What it says of itself at the end of a run.
    ///
    /// # Errors
    /// [`RunError::Agent`] if it is gone or does not answer.
    pub fn status(&mut self) -> Result<Status, RunError> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Err(RunError::Agent(format!("it ended in the run ({status}); it said:\n{}", self.log())));
        }
        crate::agent::status(&self.socket())
            .map_err(|error| RunError::Agent(format!("{error}; it said:\n{}", self.log())))
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let pid = nix::unistd::Pid::from_raw(self.child.id().cast_signed());
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let began = std::time::Instant::now();
        while began.elapsed() < GRACE {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(StdDuration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The mechanism that the agent is to run in a scenario; `None` for the plain router.
///
/// # Errors
/// [`RunError::Unsupported`] with the name of a mechanism that the testbed has no place for.
pub fn agent_mechanism(scenario: &ResolvedScenario) -> Result<Option<&MechanismSettings>, RunError> {
    let unsupported = |what: String| Err(RunError::Unsupported(what));
    match &scenario.mechanisms[..] {
        [] => Ok(None),
        [PlacedMechanism { place, settings }] => {
            let (name, places) = (settings.name(), settings.entry().places);
            match runs_on_a_router(name, places, *place) {
                Ok(()) => Ok(Some(settings)),
                Err(error) => unsupported(format!("mechanism: {error}")),
            }
        }
        several => {
            let names: Vec<&str> = several.iter().map(|one| one.settings.name()).collect();
            unsupported(format!(
                "mechanisms: the testbed runs one, at the base station; the case has {}",
                names.join(" and ")
            ))
        }
    }
}

/// A processor for the next agent. Agents of cells side by side would all choose the same one.
fn next_processor() -> u32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let allowed = allowed();
    // The first processor has most interrupts.
    let number = NEXT.fetch_add(1, Ordering::Relaxed) + 1;
    allowed.get(number % allowed.len().max(1)).copied().unwrap_or(0)
}

/// The agent's configuration for a scenario: its interfaces here, and the very settings that the simulator
/// uses.
fn agent_config(
    scenario: &ResolvedScenario,
    settings: &MechanismSettings,
    socket: &Path,
) -> Result<String, RunError> {
    #[derive(serde::Serialize)]
    struct Config {
        wired: [&'static str; 1],
        radio: [&'static str; 1],
        datapath: DataPath,
        control: Control,
        silence: Silence,
        station: Vec<Station>,
        mechanism: BTreeMap<&'static str, Value<'static>>,
    }
    #[derive(serde::Serialize)]
    struct DataPath {
        processor: u32,
    }
    #[derive(serde::Serialize)]
    struct Control {
        socket: PathBuf,
    }
    #[derive(serde::Serialize)]
    struct Silence {
        max: String,
    }
    #[derive(serde::Serialize)]
    struct Station {
        name: String,
        addresses: Vec<IpAddr>,
    }
    let station = |number: u32| Station {
        name: format!("sh{number}"),
        addresses: [Family::V4, Family::V6].map(|family| station_address(family, number)).to_vec(),
    };
    let name = ("name", Value::Text(settings.name().into()));
    let config = Config {
        wired: [BS_WIRE],
        radio: [BS_RADIO],
        datapath: DataPath { processor: next_processor() },
        control: Control { socket: socket.to_owned() },
        // The testbed's radio ends every silence that it begins.
        silence: Silence { max: format!("{}s", scenario.duration.as_secs_f64().ceil() as u64 + 1) },
        station: (0..scenario.radio.stations).map(station).collect(),
        mechanism: settings.values().into_iter().chain([name]).collect(),
    };
    toml::to_string(&config).map_err(|error| RunError::Agent(format!("write its configuration: {error}")))
}

#[cfg(test)]
mod tests {
    use linkhold_core::mechanism::Place;
    use linkhold_core::registry::entries;

    use super::*;

    fn scenario() -> ResolvedScenario {
        let text = "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"20s\"\n[radio]\nphy_rate = \"24Mbit/s\"\nstations = 2\n\
                    [[flows]]\ndirection = \"downlink\"\n";
        let scenario = linkhold_scenario::Scenario::from_toml(text, "t.toml", &[]).unwrap();
        scenario.cases()[0].scenario.clone()
    }

    #[test]
    fn the_agent_reads_back_the_very_settings_of_the_scenario() {
        for entry in entries().iter().filter(|entry| entry.places.contains(&Place::BaseStation)) {
            for (preset, _) in &entry.presets {
                let settings = entry.preset(preset).unwrap();
                let text = agent_config(&scenario(), &settings, Path::new("/tmp/agent.sock")).unwrap();
                let config = crate::agent::AgentConfig::parse(Path::new("agent.toml"), &text).unwrap();
                assert_eq!(config.mechanisms, [settings.clone()], "{} {preset}: {text}", entry.name);
                assert_eq!(config.stations.len(), 2);
            }
        }
    }

    #[test]
    fn what_has_no_place_in_the_testbed_is_refused_by_name() {
        let recommended = || PlacedMechanism::from(entries()[0].recommended());
        let with = |mechanisms| ResolvedScenario { mechanisms, ..scenario() };
        assert!(matches!(agent_mechanism(&with(Vec::new())), Ok(None)));
        assert!(matches!(agent_mechanism(&with(vec![recommended()])), Ok(Some(_))));
        let elsewhere = PlacedMechanism { place: Place::Stations, ..recommended() };
        let told = |mechanisms| agent_mechanism(&with(mechanisms)).unwrap_err().to_string();
        assert!(told(vec![elsewhere.clone()]).contains("dsasync would run at \"stations\""));
        assert!(told(vec![recommended(), elsewhere]).contains("the case has dsasync and dsasync"));
    }
}
