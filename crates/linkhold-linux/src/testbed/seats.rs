//! Who carries out a case's mechanisms on the testbed, and who tells whom what.
//!
//! | mechanism | carried out by | hears the radio |
//! |---|---|---|
//! | at the base station | `linkhold agent` there | at once |
//! | at the stations, where it only watches | the engine, in the stations' radios | at once |
//! | at the stations, else | `linkhold host` at each | at once, its own station's events and the network's |
//! | at the correspondent | `linkhold host` there | one wired delay late |
//!
//! So each hears what its tap hears in the simulator (the table of ARCHITECTURE.md). The agent and a host
//! each run all that stand at their place.

use std::path::Path;

use linkhold_core::mechanism::Place;
use linkhold_core::packet::{Direction, StationId};
use linkhold_core::quantity::ValueError;
use linkhold_core::registry::MechanismSettings;
use linkhold_core::time::Duration;
use linkhold_radio::Mac;
use linkhold_scenario::{PlacedMechanism, ResolvedScenario};
use linkhold_sim::build::stands_in_the_radio;
use serde::{Deserialize, Serialize};

use super::daemon::{Daemon, Role};
use super::daemon_config::{agent_config, host_config};
use super::error::{RunError, Unsupported};
use super::link::{DaemonLink, Hearing};
use super::topology::{HostAt, Topology};
use super::waits::Wait;
use super::workload::Congestion;
use crate::agent::config::{others_can_follow, runs_on_a_host, runs_on_a_router};
use crate::agent::status::Status;
use crate::host::kernel;

/// The mechanisms that daemons carry out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seats<'a> {
    /// By `linkhold agent` in the base station, from the wire to the radio.
    pub agent: Vec<&'a MechanismSettings>,
    /// By `linkhold host` at every station, from its senders to the radio.
    pub stations: Vec<&'a MechanismSettings>,
    /// By `linkhold host` at the correspondent, from its senders to the radio.
    pub correspondent: Vec<&'a MechanismSettings>,
}

impl<'a> Seats<'a> {
    /// The seats of a case.
    ///
    /// # Errors
    /// [`RunError::Unsupported`] with the name of a mechanism that the testbed has no place for, and what
    /// would be right.
    pub fn of(scenario: &'a ResolvedScenario) -> Result<Self, RunError> {
        let mut seats = Self::default();
        for placed in scenario.mechanisms.iter().filter(|placed| !stands_in_the_radio(placed)) {
            let PlacedMechanism { place, settings } = placed;
            let key = || if scenario.mechanisms.len() > 1 { "mechanisms" } else { "mechanism" };
            let refused = |error: ValueError| Unsupported::new(key(), error.what, error.right);
            let (seat, fits) = match place {
                Place::BaseStation => (&mut seats.agent, runs_on_a_router(settings, *place)),
                Place::Stations => (&mut seats.stations, runs_on_a_host(settings, *place)),
                Place::Correspondent => (&mut seats.correspondent, runs_on_a_host(settings, *place)),
            };
            fits.map_err(refused)?;
            seat.push(settings);
        }
        // A case lists them as downlink packets pass, which come to a station from the radio.
        seats.stations.reverse();
        for (seat, end) in
            [(&seats.agent, "last"), (&seats.stations, "first"), (&seats.correspondent, "last")]
        {
            for before in seat.iter().rev().skip(1) {
                others_can_follow(before, end)
                    .map_err(|error| Unsupported::new("mechanisms", error.what, error.right))?;
            }
        }
        let has_host = !seats.stations.is_empty() || !seats.correspondent.is_empty();
        if has_host && matches!(scenario.radio.mac, Mac::Ieee802154(_)) {
            let what = "a radio of 802.15.4 tells its own host what it overhears, which the testbed does not bring to \
                        `linkhold host`";
            let right = "use \"shared\", or run the case in the simulator";
            return Err(Unsupported::new("radio.mac", what, right).into());
        }
        Ok(seats)
    }

    /// True if a `linkhold host` runs at a host.
    #[must_use]
    pub fn has_host_at(&self, at: HostAt) -> bool {
        match at {
            HostAt::Correspondent => !self.correspondent.is_empty(),
            HostAt::Station(_) => !self.stations.is_empty(),
        }
    }

    /// True if the senders of `direction` must use an eBPF congestion control, for `linkhold host` to freeze
    /// them.
    #[must_use]
    pub fn take_ebpf(&self, scenario: &ResolvedScenario, direction: Direction) -> bool {
        let host = match direction {
            Direction::Downlink => &self.correspondent,
            Direction::Uplink => &self.stations,
        };
        let freezes = host.iter().any(|settings| settings.entry().freezes_senders);
        freezes && scenario.host_freeze.unwrap_or_default().takes_ebpf()
    }

    /// What the senders use where `asked` is asked for: the eBPF congestion control around it where they
    /// must.
    ///
    /// # Errors
    /// [`RunError::Unsupported`] if there is none around it.
    pub fn congestion(&self, scenario: &ResolvedScenario, asked: &str) -> Result<Congestion, RunError> {
        let of = |direction| -> Result<String, Unsupported> {
            if !self.take_ebpf(scenario, direction) {
                return Ok(asked.to_owned());
            }
            let name = format!("linkhold_{asked}");
            if kernel::CONGESTION_CONTROLS.contains(&name.as_str()) {
                return Ok(name);
            }
            let freeze = scenario.host_freeze.unwrap_or_default().name();
            let known = kernel::CONGESTION_CONTROLS.join(" and ");
            Err(Unsupported::new(
                "host.freeze",
                format!("{freeze:?}: there is no eBPF congestion control around {asked}, only {known}"),
                "use --cc cubic or reno, or host.freeze = \"window\"",
            ))
        };
        Ok(Congestion { downlink: of(Direction::Downlink)?, uplink: of(Direction::Uplink)? })
    }

    /// Starts the daemons, and waits until all listen.
    ///
    /// # Errors
    /// [`RunError::Daemon`] with what one said.
    pub fn start(
        &self,
        topology: &Topology,
        scenario: &ResolvedScenario,
        program: &Path,
    ) -> Result<Daemons, RunError> {
        let agent = (!self.agent.is_empty()).then(|| {
            let config = |socket: &Path| agent_config(scenario, &self.agent, socket);
            Daemon::start(&topology.bs, "agent", Role::Agent, config, program)
        });
        let mut daemons = Daemons { agent: agent.transpose()?, hosts: Vec::new() };
        let mut host = |at: HostAt, netns, mechanisms: &[&MechanismSettings]| {
            let config = |socket: &Path| host_config(scenario, at, mechanisms, socket);
            let daemon = Daemon::start(netns, &at.to_string(), Role::Host, config, program)?;
            daemons.hosts.push((at, daemon));
            Ok::<(), RunError>(())
        };
        if !self.correspondent.is_empty() {
            host(HostAt::Correspondent, &topology.ch, &self.correspondent)?;
        }
        if !self.stations.is_empty() {
            for (station, netns) in (0..).zip(&topology.stations) {
                host(HostAt::Station(station), netns, &self.stations)?;
            }
        }
        for daemon in daemons.agent.iter_mut().chain(daemons.hosts.iter_mut().map(|(_, daemon)| daemon)) {
            daemon.wait_until_it_listens()?;
        }
        Ok(daemons)
    }
}

/// Why this machine, or this program, cannot run a case that another could; `None`: nothing is known against
/// it.
#[must_use]
pub fn missing_for(scenario: &ResolvedScenario) -> Option<Unsupported> {
    let seats = Seats::of(scenario).ok()?;
    let wanted = [Direction::Downlink, Direction::Uplink];
    if !wanted.into_iter().any(|direction| seats.take_ebpf(scenario, direction)) {
        return None;
    }
    let freeze = scenario.host_freeze.unwrap_or_default().name();
    let right = "use host.freeze = \"window\", or another machine; `linkhold doctor` says more";
    kernel::missing().map(|reason| Unsupported::new("host.freeze", format!("{freeze:?}: {reason}"), right))
}

/// What a tap at this node would hear, and when.
fn hearing(at: HostAt, scenario: &ResolvedScenario) -> Hearing {
    match at {
        HostAt::Correspondent => Hearing { station: None, delay: scenario.wired.one_way_delay },
        HostAt::Station(station) => Hearing { station: Some(StationId(station)), delay: Duration::ZERO },
    }
}

/// The running daemons; ended when dropped.
pub struct Daemons {
    agent: Option<Daemon>,
    hosts: Vec<(HostAt, Daemon)>,
}

/// What a `linkhold host` said of itself at the end of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HostStatus {
    /// Where it ran.
    pub at: HostAt,
    /// Its status.
    pub status: Status,
}

/// What all daemons said of themselves at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct Statuses {
    /// The agent.
    pub agent: Option<Status>,
    /// The hosts.
    pub hosts: Vec<HostStatus>,
}

impl Daemons {
    /// The radio's ways to them.
    ///
    /// # Errors
    /// [`RunError::Daemon`] if one does not listen.
    pub fn links(&self, scenario: &ResolvedScenario) -> Result<Vec<DaemonLink>, RunError> {
        let agent = self.agent.iter().map(|agent| agent.link(Hearing::EVERYTHING));
        let hosts = self.hosts.iter().map(|(at, daemon)| daemon.link(hearing(*at, scenario)));
        agent.chain(hosts).collect()
    }

    /// What each is called, in the order of [`links`](Self::links).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.all().map(Daemon::who)
    }

    /// How long each has waited for a processor so far, in the same order.
    #[must_use]
    pub fn waits(&self) -> Vec<Wait> {
        self.all().map(Daemon::waited).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Daemon> {
        self.agent.iter().chain(self.hosts.iter().map(|(_, daemon)| daemon))
    }

    /// What they say of themselves.
    ///
    /// # Errors
    /// [`RunError::Daemon`] if one is gone or does not answer.
    pub fn statuses(&mut self) -> Result<Statuses, RunError> {
        let agent = self.agent.as_mut().map(Daemon::status).transpose()?;
        let host = |(at, daemon): &mut (HostAt, Daemon)| {
            daemon.status().map(|status| HostStatus { at: *at, status })
        };
        Ok(Statuses { agent, hosts: self.hosts.iter_mut().map(host).collect::<Result<_, _>>()? })
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::registry::{entries, find};
    use linkhold_core::settings::Value;
    use linkhold_scenario::HostFreeze;

    use super::super::daemon_config::tests::scenario;
    use super::*;
    use crate::agent::AgentConfig;

    fn placed(name: &str, place: Place) -> PlacedMechanism {
        let settings = find(name).expect("registered").recommended();
        PlacedMechanism { place, settings }
    }

    fn with(mechanisms: Vec<PlacedMechanism>) -> ResolvedScenario {
        ResolvedScenario { mechanisms, ..scenario() }
    }

    #[test]
    fn each_mechanism_has_a_seat_at_its_place() {
        assert_eq!(Seats::of(&with(Vec::new())).unwrap(), Seats::default());
        let all = with(vec![
            placed("dsasync", Place::BaseStation),
            placed("snr-gate", Place::Stations),
            placed("cr-aware", Place::Correspondent),
        ]);
        let names = |seats: Seats<'_>| {
            let name = |seat: Vec<&MechanismSettings>| seat.first().map(|settings| settings.name());
            [seats.agent, seats.stations, seats.correspondent].map(name)
        };
        let expected = [Some("dsasync"), Some("snr-gate"), Some("cr-aware")];
        assert_eq!(names(Seats::of(&all).unwrap()), expected);
        let at_stations = with(vec![placed("dsasync", Place::Stations)]);
        assert_eq!(names(Seats::of(&at_stations).unwrap()), [None, Some("dsasync"), None]);
    }

    /// A case lists them as downlink packets pass them, which come from the radio.
    #[test]
    fn several_mechanisms_of_a_station_stand_from_its_senders_to_the_radio() {
        let case = with(["cr-aware", "snr-gate"].map(|name| placed(name, Place::Stations)).to_vec());
        let seats = Seats::of(&case).unwrap();
        let text =
            host_config(&case, HostAt::Station(0), &seats.stations, Path::new("/tmp/host.sock")).unwrap();
        let config = AgentConfig::parse_host(Path::new("host.toml"), &text).unwrap();
        assert_eq!(config.mechanism_name(), "snr-gate+cr-aware");
        // What keeps copies of what it sends has to be next to the radio.
        let with_dsasync = |first: &str, second: &str| {
            Seats::of(&with([first, second].map(|name| placed(name, Place::Stations)).to_vec())).map(|_| ())
        };
        assert!(with_dsasync("dsasync", "cr-aware").is_ok());
        let refused = with_dsasync("cr-aware", "dsasync").unwrap_err().to_string();
        assert!(refused.contains("write it first, next to the radio"), "{refused}");
    }

    #[test]
    fn what_has_no_seat_is_refused_by_name_with_the_reason() {
        let told = |mechanisms| Seats::of(&with(mechanisms)).unwrap_err().to_string();
        let told_of = told(vec![placed("local-resend", Place::Stations)]);
        let expected = "mechanism: local-resend waits for reports of the base station, which nothing brings to a host; a \
                        host can run";
        assert!(told_of.starts_with(expected), "{told_of}");
        let both = |names: [&str; 2]| names.map(|name| placed(name, Place::BaseStation)).to_vec();
        let mut no_copies = placed("dsasync", Place::BaseStation);
        no_copies.settings.set("recover", &Value::Truth(false)).expect("a setting");
        let together = with(vec![no_copies, placed("local-recovery", Place::BaseStation)]);
        assert_eq!(Seats::of(&together).unwrap().agent.len(), 2);
        let refused = told(both(["local-recovery", "dsasync"]));
        let right = "write it last, next to the radio (local-recovery keeps none with downlink = false)";
        assert!(refused.ends_with(right), "{refused}");
    }

    #[test]
    fn every_mechanism_has_a_seat_or_stands_in_the_radio_or_is_refused() {
        for entry in entries() {
            for &place in entry.places {
                let scenario = with(vec![placed(entry.name, place)]);
                let in_radio = stands_in_the_radio(&scenario.mechanisms[0]);
                match Seats::of(&scenario) {
                    Ok(seats) => assert_eq!(seats == Seats::default(), in_radio, "{}", entry.name),
                    Err(error) => assert!(!in_radio && error.to_string().contains(entry.name), "{error}"),
                }
            }
        }
    }

    #[test]
    fn only_the_senders_of_a_host_that_freezes_by_ebpf_take_it() {
        let taken_by = |name, place, freeze| {
            let scenario = ResolvedScenario { host_freeze: freeze, ..with(vec![placed(name, place)]) };
            let seats = Seats::of(&scenario).unwrap();
            [Direction::Downlink, Direction::Uplink].map(|direction| seats.take_ebpf(&scenario, direction))
        };
        let taken = |place, freeze| taken_by("cr-aware", place, freeze);
        assert_eq!(taken(Place::Stations, Some(HostFreeze::Kernel)), [false, true]);
        assert_eq!(taken(Place::Correspondent, Some(HostFreeze::Both)), [true, false]);
        assert_eq!(taken(Place::Stations, Some(HostFreeze::Window)), [false, false]);
        assert_eq!(taken(Place::Stations, None), [false, false]);
        // These freeze no sender.
        for name in ["snr-gate", "dsasync"] {
            assert_eq!(taken_by(name, Place::Stations, Some(HostFreeze::Both)), [false, false], "{name}");
        }
        let frozen = with(vec![placed("cr-aware", Place::Stations)]);
        let frozen = ResolvedScenario { host_freeze: Some(HostFreeze::Kernel), ..frozen };
        let seats = Seats::of(&frozen).unwrap();
        let congestion = seats.congestion(&frozen, "cubic").unwrap();
        assert_eq!((congestion.downlink.as_str(), congestion.uplink.as_str()), ("cubic", "linkhold_cubic"));
        let told = seats.congestion(&frozen, "bbr").unwrap_err().to_string();
        assert!(told.starts_with("host.freeze: \"kernel\": there is no eBPF congestion control around bbr"));
    }
}
