//! From a resolved scenario to the parts of a cell: air, wired pipes, mechanisms.

use linkhold_core::mechanism::{Mechanism, Place};
use linkhold_core::packet::StationId;
use linkhold_mesh::Mesh;
use linkhold_radio::{Air, AirConfig, AirTimeModel, CrossTraffic, Mac, WiredPipe};
use linkhold_scenario::{PlacedMechanism, ResolvedScenario, Transport};

use crate::cell::CellBuilder;
use crate::error::SimError;
use crate::limit::{FrameTimes, GoodputLimit, Sharing};
use crate::mesh;
use crate::network::Network;
use crate::path::{NodeId, Route};
use crate::plan::{FlowKind, Plan};

/// The cell or the mesh of a scenario in the repetition with `seed`, of which `plan` is the traffic.
pub(crate) fn network(scenario: &ResolvedScenario, plan: &Plan, seed: u64) -> Result<Network, SimError> {
    if let Some(config) = &scenario.mesh {
        let mesh = Mesh::new(config, seed)?;
        let at_senders = || scenario.mechanisms.iter().map(mechanism).collect();
        return Ok(mesh::network(mesh, config.nodes, &plan.pairs, at_senders)?.seed_hash(seed));
    }
    let mut cell = plain_cell(scenario, seed)?;
    if scenario.router_visible {
        cell = cell.with_visible_queue();
    }
    for placed in &scenario.mechanisms {
        cell = match placed.place {
            Place::BaseStation => cell.tap(NodeId::BaseStation, mechanism(placed)?),
            // A radio's event has to cross the wire before a correspondent can know of it.
            Place::Correspondent => {
                cell.tap_told_late(NodeId::Correspondent, mechanism(placed)?, scenario.wired.one_way_delay)
            }
            Place::Stations => at_stations(cell, scenario, placed)?,
        };
    }
    Ok(cell.build().seed_hash(seed))
}

/// The cell of a scenario, cut open at the base station; and the route over its wire. Of the scenario's
/// mechanisms the network has those that [stand in the radio](stands_in_the_radio); whoever drives the
/// network carries out the others.
///
/// # Errors
/// [`SimError`] when the scenario names something that is not there.
pub fn open_network(scenario: &ResolvedScenario, seed: u64) -> Result<(Network, Route), SimError> {
    let mut cell = plain_cell(scenario, seed)?;
    for placed in scenario.mechanisms.iter().filter(|placed| stands_in_the_radio(placed)) {
        cell = at_stations(cell, scenario, placed)?;
    }
    let (network, route) = cell.build_open();
    Ok((network.seed_hash(seed), route))
}

/// True if a mechanism stands in the stations' radios also where the stations' TCP is a kernel's: it only
/// watches.
#[must_use]
pub fn stands_in_the_radio(placed: &PlacedMechanism) -> bool {
    match placed.place {
        Place::Stations => placed.settings.entry().only_watches,
        Place::BaseStation | Place::Correspondent => false,
    }
}

fn at_stations(
    mut cell: CellBuilder,
    scenario: &ResolvedScenario,
    placed: &PlacedMechanism,
) -> Result<CellBuilder, SimError> {
    for station in (0..scenario.radio.stations).map(StationId) {
        cell = cell.tap(NodeId::Station(station), mechanism(placed)?);
    }
    Ok(cell)
}

/// Makes a mechanism for its place.
fn mechanism(placed: &PlacedMechanism) -> Result<Box<dyn Mechanism>, SimError> {
    let PlacedMechanism { place, settings } = placed;
    // Seed 0: a mechanism's hash tables are alike in every run.
    settings
        .build_at(*place, 0)
        .map_err(|error| SimError::Mechanism { mechanism: settings.name(), reason: error.to_string() })
}

fn plain_cell(scenario: &ResolvedScenario, seed: u64) -> Result<CellBuilder, SimError> {
    let [down, up] = wired_pipes(scenario, seed);
    let cell = CellBuilder::new(air(scenario, seed)?, scenario.radio.stations, down, up);
    Ok(cell.with_host_delay(scenario.host_delay))
}

/// The air of a scenario in the repetition with `seed`.
///
/// # Errors
/// [`SimError`] when the scenario names something that is not there.
pub fn air(scenario: &ResolvedScenario, seed: u64) -> Result<Air, SimError> {
    Ok(Air::new(scenario.radio.clone(), seed)?)
}

/// Both directions of a scenario's wire in the repetition with `seed`, the downlink first.
#[must_use]
pub fn wired_pipes(scenario: &ResolvedScenario, seed: u64) -> [WiredPipe; 2] {
    let wired = &scenario.wired;
    [0, 1].map(|direction| {
        WiredPipe::new(Some(wired.rate), wired.one_way_delay, wired.queue)
            .with_cross_traffic(CrossTraffic::new(wired.jitter, seed, direction))
    })
}

/// What a perfect transport would deliver in the scenario.
#[must_use]
pub fn goodput_limit(scenario: &ResolvedScenario, plan: &Plan) -> GoodputLimit {
    let sharing = match scenario.radio.mac {
        Mac::Shared | Mac::Dcf(_) | Mac::Ieee802154(_) => Sharing::Shared,
        // With TDD each direction has a part of each frame, and the air has taken what carries no packets off
        // its capacity. The packets' MAC headers are not among that.
        Mac::Duplex | Mac::Trace(_) | Mac::Grants(_) => Sharing::Separate,
    };
    let mut limit = GoodputLimit::new(sharing, frame_times(&scenario.radio), scenario.wired.rate);
    for FlowKind { direction, station, ip_header, transport, mean_datagram, tcp } in plan.kinds() {
        match transport {
            Transport::Tcp => limit.add(direction, station, ip_header, &tcp),
            Transport::Udp { .. } => limit.add_udp(direction, station, ip_header, mean_datagram),
            Transport::Quic { datagram } => limit.add_quic(direction, station, ip_header, datagram),
        }
    }
    limit
}

fn frame_times(radio: &AirConfig) -> FrameTimes {
    match (&radio.mac, radio.air_time) {
        (Mac::Ieee802154(mac), _) => FrameTimes::Contended(*mac),
        (Mac::Grants(grants), _) => FrameTimes::PerByte { header: grants.header },
        (Mac::Trace(_), _) | (Mac::Shared | Mac::Duplex, AirTimeModel::PerByte) => {
            FrameTimes::PerByte { header: 0 }
        }
        (Mac::Dcf(_), _) | (Mac::Shared | Mac::Duplex, AirTimeModel::Ieee80211a) => {
            // A rate that the model does not know is refused when the air is built, so no run asks for its
            // limit.
            FrameTimes::ByChannel(radio.air_times().unwrap_or_default())
        }
    }
}
