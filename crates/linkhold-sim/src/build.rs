//! From a resolved scenario to the parts of a cell: air, wired pipes, mechanism.

use std::sync::Arc;

use linkhold_core::dsasync::DsaSync;
use linkhold_core::mechanism::{Mechanism, PlainRouter};
use linkhold_core::packet::StationId;
use linkhold_radio::rng::Stream;
use linkhold_radio::{
    Air, AirConfig, ChannelConfig, FqCodelConfig, Mac, PrimaryUserConfig, QueueConfig, QueueKind,
    ScriptedSwitch, SensingConfig, StationSensing, SwitchPolicy, Switching, Trace, WiredPipe,
};
use linkhold_scenario as scenario;
use linkhold_scenario::ResolvedScenario;

use crate::error::SimError;
use crate::limit::{GoodputLimit, Sharing};
use crate::network::Network;
use crate::plan::Plan;

/// The cell of a scenario in the repetition with `seed`.
pub(crate) fn network(scenario: &ResolvedScenario, seed: u64) -> Result<Network, SimError> {
    let (down, up) = (wired_pipe(scenario), wired_pipe(scenario));
    let network = Network::new(air(scenario, seed)?, scenario.radio.stations, down, up, mechanism(scenario)?);
    Ok(if scenario.router_visible { network } else { network.with_hidden_queue() })
}

/// The air of a scenario in the repetition with `seed`: the testbed runs the same one on a real clock.
///
/// # Errors
/// [`SimError`] when the scenario names something that is not there.
pub fn air(scenario: &ResolvedScenario, seed: u64) -> Result<Air, SimError> {
    Ok(Air::new(air_config(scenario, seed), seed)?)
}

/// One direction of a scenario's wire.
#[must_use]
pub fn wired_pipe(scenario: &ResolvedScenario) -> WiredPipe {
    WiredPipe::new(Some(scenario.wired.rate), scenario.wired.one_way_delay, scenario.wired.queue)
}

/// What a perfect transport would deliver there.
#[must_use]
pub fn goodput_limit(scenario: &ResolvedScenario, plan: &Plan) -> GoodputLimit {
    let sharing = match scenario.radio.mac {
        scenario::Mac::Shared(_) => Sharing::Shared,
        scenario::Mac::Duplex(_) | scenario::Mac::Trace(_) => Sharing::Separate,
    };
    let mut limit = GoodputLimit::new(sharing, scenario.wired.rate);
    for (direction, station, ip_header, tcp) in plan.kinds() {
        limit.add(direction, station, ip_header, &tcp);
    }
    limit
}

fn mechanism(scenario: &ResolvedScenario) -> Result<Box<dyn Mechanism>, SimError> {
    match &scenario.mechanism {
        scenario::Mechanism::None => Ok(Box::new(PlainRouter::default())),
        scenario::Mechanism::DsaSync(config) => match DsaSync::new(config) {
            Ok(mechanism) => Ok(Box::new(mechanism)),
            Err(error) => Err(SimError::Mechanism { mechanism: "dsasync", reason: error.to_string() }),
        },
    }
}

fn air_config(scenario: &ResolvedScenario, seed: u64) -> AirConfig {
    let radio = &scenario.radio;
    let (mac, cell) = match &radio.mac {
        scenario::Mac::Shared(cell) => (Mac::Shared, Some(cell)),
        scenario::Mac::Duplex(cell) => (Mac::Duplex, Some(cell)),
        scenario::Mac::Trace(link) => {
            let place = if link.random_start { Stream::new(seed, "trace-start", 0).unit() } else { 0.0 };
            let from = |trace: &Arc<Trace>| {
                if link.random_start { Arc::new(trace.from(place)) } else { trace.clone() }
            };
            let mac = Mac::Trace {
                down: from(&link.down.trace),
                up: from(&link.up.trace),
                silence_threshold: link.silence_threshold,
                detection_delay: link.detection_delay,
            };
            (mac, None)
        }
    };
    let channels = match (&radio.mac, cell) {
        (_, Some(cell)) => cell.channels.iter().map(channel).collect(),
        (scenario::Mac::Trace(link), None) => vec![ChannelConfig {
            phy_rate: link.down.trace.mean_rate(),
            efficiency: linkhold_core::units::Fraction::ONE,
            primary_user: None,
        }],
        (scenario::Mac::Shared(_) | scenario::Mac::Duplex(_), None) => Vec::new(),
    };
    AirConfig {
        stations: radio.stations,
        mac,
        channels,
        initial_channel: cell.map_or(0, |cell| cell.initial_channel as usize),
        switching: cell.map_or_else(Switching::default, switching),
        sensing: radio.sensing.as_ref().map(sensing),
        station_sensing: radio
            .station_sensing
            .iter()
            .map(|one| StationSensing { station: StationId(one.station), sensing: sensing(&one.sensing) })
            .collect(),
        retry_limit: cell.map_or(0, |cell| cell.retry_limit),
        router: queue(&scenario.router),
        station_queue: queue(&scenario.station),
    }
}

fn channel(channel: &scenario::Channel) -> ChannelConfig {
    ChannelConfig {
        phy_rate: channel.phy_rate,
        efficiency: channel.mac_efficiency,
        primary_user: channel.primary_user.map(|user| PrimaryUserConfig {
            on_mean: user.on_mean,
            off_mean: user.off_mean,
            detection_delay: user.detection_delay,
            end_detection_delay: user.end_detection_delay,
        }),
    }
}

fn switching(cell: &scenario::Cell) -> Switching {
    Switching {
        delay: cell.switching_delay,
        policy: match cell.switch_policy {
            scenario::SwitchPolicy::Scripted => SwitchPolicy::Scripted,
            scenario::SwitchPolicy::OnPrimaryUser => SwitchPolicy::OnPrimaryUser,
        },
        scripted: cell
            .switches
            .iter()
            .map(|switch| ScriptedSwitch { at: switch.at, to_channel: switch.to_channel as usize })
            .collect(),
    }
}

fn sensing(sensing: &scenario::Sensing) -> SensingConfig {
    SensingConfig {
        period: sensing.period,
        duration: sensing.duration,
        phase: sensing.phase,
        announced: sensing.announced,
    }
}

fn queue(queue: &scenario::Queue) -> QueueConfig {
    let kind = match queue.discipline {
        scenario::Discipline::Fifo { limit } => QueueKind::Fifo { limit },
        scenario::Discipline::FqCodel { limit, memory_limit, target, interval, quantum, flows, ecn } => {
            QueueKind::FqCodel(FqCodelConfig { limit, memory_limit, target, interval, quantum, flows, ecn })
        }
    };
    let in_silence = match queue.in_silence {
        scenario::InSilence::Queue => linkhold_radio::InSilence::Queue,
        scenario::InSilence::Drop => linkhold_radio::InSilence::Drop,
        scenario::InSilence::Flush => linkhold_radio::InSilence::Flush,
    };
    QueueConfig { kind, in_silence }
}
