//! Describes a mesh in words.

use linkhold_mesh::MeshConfig;
use linkhold_mesh::config::{Channels, Movement, Routing, SpectrumConfig, Users, WorkingChannel};
use linkhold_radio::dcf::DcfConfig;
use linkhold_radio::spectrum::Policy;

/// Each fact as a label and a text.
pub(crate) fn facts(mesh: &MeshConfig, line: &mut dyn FnMut(&str, String)) {
    let (width, height) = (mesh.area.width(), mesh.area.height());
    let movement = match &mesh.movement {
        Movement::Standing(_) => "standing where the scenario says".to_owned(),
        Movement::Drawn => "standing where the seed draws".to_owned(),
        Movement::Walk { least, most, pause } => {
            format!("random waypoint at {least} to {most} m/s, pauses of {pause} in the mean")
        }
        Movement::Script(_) => "moving as a setdest file says".to_owned(),
    };
    line("mesh", format!("{} nodes on {width} m x {height} m, {movement}", mesh.nodes));
    let reach = &mesh.reach;
    let rts = match mesh.dcf.rts_threshold {
        threshold if threshold >= DcfConfig::NO_RTS => "no RTS".to_owned(),
        bytes => format!("RTS above {bytes} B"),
    };
    line(
        "radios",
        format!(
            "{}, DCF, {rts}; read at {} m, noticed at {} m, attenuation factor {}",
            mesh.dcf.phy,
            reach.transmission,
            reach.carrier_sense,
            reach.propagation.attenuation(),
        ),
    );
    let routing = match mesh.routing {
        Routing::Direct => "none, each node sends straight to the receiver",
        Routing::Aodv if mesh.local_repair => "AODV with local repair",
        Routing::Aodv => "AODV",
        Routing::Search => "SEARCH",
    };
    line("routing", format!("{routing}; {} packets a node", mesh.queue));
    match &mesh.channels {
        Channels::Own(rate) => line("channel", format!("one of their own, {rate}")),
        Channels::Shared(spectrum) => spectrum_facts(spectrum, line),
    }
}

fn mesh_rates(spectrum: &SpectrumConfig) -> Vec<String> {
    let channels = 0..spectrum.log.bands().channels();
    channels.map(|channel| spectrum.log.bandwidth(channel).to_string()).collect()
}

fn spectrum_facts(spectrum: &SpectrumConfig, line: &mut dyn FnMut(&str, String)) {
    let bands = spectrum.log.bands();
    let mut rates: Vec<String> = mesh_rates(spectrum);
    rates.dedup();
    line("channels", format!("{} bands x {}: {}", bands.bands(), bands.per_band(), rates.join(", ")));
    let policy = match spectrum.policy {
        Policy::RoundRobin => "round robin",
        Policy::LongestExpectedIdle => "longest expected idle time",
        Policy::LeastRecentlyOccupied => "least recently occupied",
    };
    let cycle = &spectrum.cycle;
    let odds = spectrum.sensing.odds(cycle.sensing);
    let who = match &spectrum.working {
        WorkingChannel::Common => "all nodes together",
        WorkingChannel::Own(_) => "each node for itself",
    };
    line(
        "sensing",
        format!(
            "{} every {}, {who}; a primary user is noticed with {:.4}, a false alarm comes with {:.4}",
            cycle.sensing, cycle.transmitting, odds.detected_given_on, odds.alarm_given_off
        ),
    );
    line("handoff", format!("{policy}, {}", cycle.switching_delay));
    if let WorkingChannel::Own(own) = &spectrum.working {
        let homes = if own.homes.is_empty() { "drawn by the seed" } else { "as the scenario says" };
        let text = format!(
            "each node listens on a home channel, {homes} at first; retuning takes {}, a user counts for {}",
            own.retune, own.memory
        );
        line("homes", text);
    }
    match &spectrum.users {
        Users::Log(log) => {
            line("users", format!("{} of a PU log, {} bursts", log.users().len(), log.bursts()))
        }
        Users::Drawn { activity, per_band, spread, range, duration: _ } => line(
            "users",
            format!(
                "{per_band} in each band, on {} and off {} in the mean, heard at {range} m, in the middle {spread} m",
                activity.on_mean(),
                activity.off_mean()
            ),
        ),
    }
}
