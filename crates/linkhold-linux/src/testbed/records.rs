//! What the mechanisms of a run counted, whoever carried them out, under the names that the simulator uses.

use linkhold_core::mechanism::Place;
use linkhold_results::MechanismRecord;
use linkhold_scenario::ResolvedScenario;
use linkhold_sim::build::stands_in_the_radio;
use linkhold_sim::network::Network;

use super::seats::Statuses;
use crate::agent::status::Status;

/// A record for each mechanism of the case, in its order; of one at several nodes, the sums.
pub(super) fn mechanism_records(
    scenario: &ResolvedScenario,
    daemons: &Statuses,
    network: &Network,
) -> Vec<MechanismRecord> {
    let record = |placed| {
        if stands_in_the_radio(placed) {
            return linkhold_sim::mechanism_record(placed, network);
        }
        let mut sum = MechanismRecord {
            name: placed.settings.name().to_owned(),
            at: placed.place.name().to_owned(),
            ..MechanismRecord::default()
        };
        match placed.place {
            Place::BaseStation => daemons.agent.iter().for_each(|status| add(&mut sum, status)),
            Place::Stations | Place::Correspondent => {
                let there = daemons.hosts.iter().filter(|host| host.at.place() == placed.place);
                there.for_each(|host| add(&mut sum, &host.status));
            }
        }
        sum
    };
    scenario.mechanisms.iter().map(record).collect()
}

/// Adds a daemon's counters.
fn add(sum: &mut MechanismRecord, status: &Status) {
    let (packets, windows) = (&status.packets, &status.windows);
    let counters = [
        ("packets", packets.seen),
        ("held_packets", packets.held),
        ("held_bytes_peak", packets.held_bytes_peak),
        ("holds", packets.holds),
        ("datagram_holds", packets.datagram_holds),
        ("released", packets.released),
        ("acks_injected", windows.acks_injected),
        ("copies_sent", packets.copies_sent),
        ("windows_closed", windows.closed),
        ("windows_reopened", windows.reopened),
        ("windows_closed_now", windows.closed_now),
        ("windows_clamped", windows.clamped),
        ("probes_answered", windows.probes_answered),
        ("flows", status.flows),
        ("silences", status.silences),
    ];
    let dropped = [
        ("buffer_full", packets.dropped_buffer_full),
        ("superseded", packets.dropped_superseded),
        ("flow_evicted", packets.dropped_flow_evicted),
        ("standing_queue", packets.dropped_standing_queue),
        ("repaired_here", packets.dropped_repaired_here),
        ("too_old", packets.dropped_too_old),
    ];
    for (into, list) in [(&mut sum.counters, &counters[..]), (&mut sum.dropped, &dropped[..])] {
        for (name, count) in list {
            *into.entry((*name).to_owned()).or_insert(0) += count;
        }
    }
}
