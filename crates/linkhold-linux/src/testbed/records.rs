//! What the mechanisms of a run counted, whoever carried them out, under the names that the simulator uses.

use linkhold_core::mechanism::Place;
use linkhold_results::MechanismRecord;
use linkhold_scenario::{PlacedMechanism, ResolvedScenario};
use linkhold_sim::build::stands_in_the_radio;
use linkhold_sim::network::Network;

use super::error::RunError;
use super::seats::Statuses;
use crate::agent::status::Status;

/// A record for each mechanism of the case, in its order; of one at several nodes, the sums.
///
/// # Errors
/// [`RunError::Daemon`] if a daemon tells nothing of a mechanism that it was to carry out.
pub(super) fn mechanism_records(
    scenario: &ResolvedScenario,
    daemons: &Statuses,
    network: &Network,
) -> Result<Vec<MechanismRecord>, RunError> {
    let record = |placed: &PlacedMechanism| {
        if stands_in_the_radio(placed) {
            return Ok(linkhold_sim::mechanism_record(placed, network));
        }
        let mut sum = MechanismRecord {
            name: placed.settings.name().to_owned(),
            at: placed.place.name().to_owned(),
            ..MechanismRecord::default()
        };
        match placed.place {
            Place::BaseStation => {
                daemons.agent.iter().try_for_each(|status| add(&mut sum, "agent", status))?
            }
            Place::Stations | Place::Correspondent => {
                let mut there = daemons.hosts.iter().filter(|host| host.at.place() == placed.place);
                there.try_for_each(|host| add(&mut sum, &host.at.to_string(), &host.status))?;
            }
        }
        Ok(sum)
    };
    scenario.mechanisms.iter().map(record).collect()
}

/// Adds what the daemon `who` counted of the mechanism that `sum` is of.
fn add(sum: &mut MechanismRecord, who: &str, status: &Status) -> Result<(), RunError> {
    let Some(told) = status.mechanisms.iter().find(|one| one.name == sum.name) else {
        let what = format!("its status has no mechanism {}", sum.name);
        return Err(RunError::Daemon { who: who.to_owned(), what });
    };
    for (into, list) in [(&mut sum.counters, &told.counters), (&mut sum.dropped, &told.dropped)] {
        for (name, count) in list {
            *into.entry(name.clone()).or_insert(0) += count;
        }
    }
    Ok(())
}
