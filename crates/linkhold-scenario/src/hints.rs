//! Hints: what is valid and still probably not meant.

use std::collections::BTreeSet;

use linkhold_core::settings::Surroundings;
use linkhold_core::time::{Duration, Instant};
use linkhold_mesh::config::Channels;
use linkhold_radio::{AirConfig, AirTime, Mac, SnrSource};

use crate::model::{Case, ResolvedScenario};
use crate::summary::count;

/// What is valid and still probably not meant.
pub(crate) fn hints(cases: &[Case]) -> Vec<String> {
    let mut hints: Vec<String> = Vec::new();
    let mut add = |hint: String| {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    };
    for case in cases {
        let mechanisms: Vec<&str> =
            case.scenario.mechanisms.iter().map(|placed| placed.settings.name()).collect();
        let highest_snr = highest_snr(&case.scenario.radio);
        let snr_every = case.scenario.radio.snr.as_ref().map_or(Duration::ZERO, |snr| snr.report.interval);
        let around = Surroundings::Case { name: &case.name, mechanisms: &mechanisms, highest_snr, snr_every };
        for placed in &case.scenario.mechanisms {
            let hint = placed.settings.hint(&around);
            hint.into_iter().for_each(|hint| add(format!("{}: {}", hint.what, hint.instead)));
        }
        sparse_snr(&case.scenario.radio).into_iter().for_each(&mut add);
        endless_wait(&case.scenario).into_iter().for_each(&mut add);
        round_trip_beyond_the_run(&case.scenario).into_iter().for_each(&mut add);
        switches_beyond_the_run(&case.scenario).into_iter().for_each(&mut add);
        // In a mesh a node may do no more than carry others' packets.
        if case.scenario.mesh.is_some() {
            continue;
        }
        let stations = case.scenario.radio.stations;
        let used: BTreeSet<u32> =
            case.scenario.flows.iter().flat_map(|group| group.stations.iter().copied()).collect();
        let idle = u64::from(stations).saturating_sub(used.len() as u64);
        if idle == 0 || used.is_empty() {
            continue;
        }
        let verb = if idle == 1 { "has" } else { "have" };
        add(format!(
            "{idle} of {} {verb} no flow: write station = \"all\" under [[flows]] for flows to each, or lower radio.stations",
            count(stations as usize, "station")
        ));
    }
    hints
}

/// Rows this many times further apart than usual are worth a word.
const SPARSE: u64 = 10;

/// A trace of SNR in which rows are missing.
fn sparse_snr(radio: &AirConfig) -> Option<String> {
    let SnrSource::Trace { trace, .. } = &radio.snr.as_ref()?.source else { return None };
    let (usual, longest) = trace.spacing();
    (longest.as_nanos() > SPARSE * usual.as_nanos()).then(|| {
        format!(
            "radio.snr.trace: rows are {usual} apart, and in one place {longest}; the SNR is taken for a straight line \
             there: radio.snr.max_gap refuses longer gaps"
        )
    })
}

/// A full packet that takes longer than there is between two quiet periods: it waits for a gap that never
/// comes.
fn endless_wait(scenario: &ResolvedScenario) -> Option<String> {
    let full = u32::from(scenario.tcp.mss) + HEADERS;
    let (gap, slowest, keys) = if let Some(mesh) = &scenario.mesh {
        let Channels::Shared(spectrum) = &mesh.channels else { return None };
        let channels = 0..spectrum.log.bands().channels();
        let rate = channels.map(|channel| spectrum.log.bandwidth(channel)).min()?;
        let takes = AirTime::of_dcf(&mesh.dcf, rate)?.mean(full);
        (spectrum.cycle.transmitting, takes, "mesh.spectrum.transmitting_time")
    } else {
        let radio = &scenario.radio;
        let takes = radio.channels.iter().filter_map(|channel| match &radio.mac {
            Mac::Shared | Mac::Duplex => {
                let air_time = AirTime::new(radio.air_time, channel.phy_rate, channel.efficiency)?;
                Some(air_time.mean(full))
            }
            Mac::Dcf(mac) => Some(AirTime::of_dcf(mac, channel.phy_rate)?.mean(full)),
            // Their frames are of other sizes than packets.
            Mac::Grants(_) | Mac::Ieee802154(_) | Mac::Trace(_) => None,
        });
        let all = radio.sensing.iter().map(|sensing| (sensing, "radio.sensing.period"));
        let own = radio.station_sensing.iter().map(|own| (&own.sensing, "radio.station_sensing.period"));
        let gaps =
            all.chain(own).map(|(sensing, key)| (sensing.period.saturating_sub(sensing.duration), key));
        let (gap, key) = gaps.min_by_key(|(gap, _)| *gap)?;
        (gap, takes.max()?, key)
    };
    (slowest > gap).then(|| {
        format!(
            "{keys}: a packet of {full} B takes {slowest} on the slowest channel, and quiet periods leave {gap} between \
             them, so it is never sent there: make the time between them longer"
        )
    })
}

/// Bytes of IPv4's and TCP's headers, without options.
const HEADERS: u32 = 40;

/// Flows that cannot have opened before the run is over.
fn round_trip_beyond_the_run(scenario: &ResolvedScenario) -> Option<String> {
    let rtt = scenario.wired.one_way_delay * 2;
    (scenario.mesh.is_none() && rtt >= scenario.duration).then(|| {
        format!(
            "wired.rtt: one round trip takes {rtt}, and the run lasts {}, so no flow delivers anything",
            scenario.duration
        )
    })
}

/// Switches that come when the run is over.
fn switches_beyond_the_run(scenario: &ResolvedScenario) -> Option<String> {
    let end = Instant::ZERO + scenario.duration;
    let late = scenario.radio.switching.scripted.iter().map(|switch| switch.at).filter(|&at| at >= end);
    late.min().map(|first| {
        format!(
            "radio.switches: a switch comes at {}, and the run ends at {}: write it earlier, or remove it",
            first.since(Instant::ZERO),
            scenario.duration
        )
    })
}

/// The highest SNR that a radio can tell, dB: infinite for a walk; `None` if it tells none.
fn highest_snr(radio: &AirConfig) -> Option<f64> {
    radio.snr.as_ref().map(|snr| match &snr.source {
        SnrSource::Trace { trace, .. } => trace.range_db().1,
        SnrSource::Walk(_) => f64::INFINITY,
    })
}
