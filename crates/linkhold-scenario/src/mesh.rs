//! `[mesh]`: its tables become a mesh's configuration, and every key of a cell is reported.

use std::sync::Arc;

use linkhold_core::units::{BitRate, Fraction};
use linkhold_mesh::config::{
    Channels, MeshConfig, Movement, OwnChannels, Routing, SpectrumConfig, Users, WorkingChannel,
};
use linkhold_mesh::mobility::Area;
use linkhold_mesh::places::Reach;
use linkhold_mesh::{MeshError, Point};
use linkhold_radio::dcf::DcfConfig;
use linkhold_radio::spectrum::{
    Bands, ChannelLog, CycleConfig, DetectionOdds, EnergyDetector, Propagation, PuActivity, PuLog,
    SensingModel,
};
use linkhold_radio::{AirConfig, AirTimeModel, ChannelConfig, Mac, QueueConfig, SignalsConfig, Switching};

use crate::file::File;
use crate::mesh_keys::{DetectorName, Mesh, Spectrum, WorkingName};
use crate::read::{At, Reader, Spot};
use crate::spots::report_idle;
use crate::traces::Traces;

/// A node's transmit power, W: 802.11's usual 100 mW. Ranges decide what it reaches, so it decides nothing
/// else.
const POWER: f64 = 0.1;
/// SNR of a primary user at a node, and bandwidth sensed (Hz), where the file does not say: those of
/// [`SensingModel::SIMPLIFIED`].
const DETECTOR_SNR_DB: f64 = -21.0;
const DETECTOR_BANDWIDTH: f64 = 6e6;

/// The mesh of the file, if it has one; `None` after reporting why it cannot be.
pub(crate) fn mesh(
    file: &File,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<Option<Box<MeshConfig>>> {
    let Some(mesh) = &file.mesh else { return Some(None) };
    report_cell(file, reader);
    let area = Area::new(metres(mesh.width.0), metres(mesh.height.0));
    let area = area
        .map_err(|error| {
            reader.report_between(
                &[&mesh.width.spot, &mesh.height.spot],
                error.to_string(),
                "change one of them",
            );
        })
        .ok();
    let movement = movement(mesh, reader, traces);
    let propagation = Propagation::new(mesh.attenuation.0)
        .map_err(|error| reader.report(&mesh.attenuation.spot, error.to_string(), "write 2 or 4"))
        .ok();
    let channels = channels(file, mesh, reader, traces);
    if *mesh.retry_limit == 0 {
        reader.report(&mesh.retry_limit.spot, "a frame has at least one attempt", "write 1 or more");
    }
    let rts = mesh.rts_threshold.value.value().map(|bytes| u32::try_from(bytes.0).unwrap_or(u32::MAX));
    let config = MeshConfig {
        nodes: **mesh.nodes,
        area: area?,
        movement: movement?,
        reach: Reach {
            power: POWER,
            propagation: propagation?,
            transmission: metres(mesh.transmission_range.0),
            carrier_sense: metres(mesh.carrier_sense_range.0),
        },
        dcf: DcfConfig {
            rts_threshold: rts.unwrap_or(DcfConfig::NO_RTS),
            short_retry_limit: *mesh.retry_limit,
            ..DcfConfig::new(*mesh.phy)
        },
        queue: mesh.queue.0.0,
        routing: *mesh.routing,
        local_repair: local_repair(mesh, reader),
        routes_told: *mesh.routes_told,
        channels: channels?,
    };
    match config.check() {
        Ok(()) => Some(Some(Box::new(config))),
        Err(error) => {
            report_misfit(&error, mesh, reader);
            None
        }
    }
}

/// Reports what does not fit together, at the key that can mend it.
fn report_misfit(error: &MeshError, mesh: &At<Mesh>, reader: &Reader<'_>) {
    let (spot, right) = match error {
        MeshError::TooFew => (&mesh.nodes.spot, "write nodes = 2, or more"),
        MeshError::Places { .. } => (&mesh.nodes.spot, "write one of mesh.places for each node"),
        MeshError::Reach { .. } => (&mesh.carrier_sense_range.spot, "make it at least transmission_range"),
        MeshError::Rate(_) => (&mesh.phy.spot, "IEEE 802.11a has 6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s"),
        MeshError::Script(error) => {
            if let Some(path) = &mesh.movements {
                let what = format!("{}: {error}", path.value);
                reader.report(&path.spot, what, "mend that line, or change the area or the number of nodes");
            }
            return;
        }
        MeshError::TooManyChannels(_) | MeshError::Homes { .. } | MeshError::HomeChannel { .. } => {
            let Some(spectrum) = &mesh.spectrum else { return };
            let homes = spectrum.home_channels.as_ref().map_or(&spectrum.spot, |at| &at.spot);
            match error {
                MeshError::TooManyChannels(_) => {
                    (&spectrum.working_channel.spot, "write fewer bands or channels, or \"common\"")
                }
                MeshError::Homes { .. } => (homes, "write one for each node, or leave it out"),
                _ => (homes, "write a smaller number, or more bands"),
            }
        }
        MeshError::Mobility(_) | MeshError::Users(_) | MeshError::Cycle(_) => {
            (&mesh.spot, "change it, or the area")
        }
    };
    reader.report(spot, error.to_string(), right);
}

fn local_repair(mesh: &At<Mesh>, reader: &Reader<'_>) -> bool {
    if *mesh.routing != Routing::Aodv {
        report_idle(&[&mesh.local_repair.spot], "without routing = \"aodv\"", "remove it", reader);
    }
    *mesh.local_repair
}

fn metres(millimetres: u64) -> f64 {
    millimetres as f64 / 1e3
}

fn movement(mesh: &At<Mesh>, reader: &Reader<'_>, traces: &mut Traces<'_>) -> Option<Movement> {
    let mut given: Vec<&Spot> = Vec::new();
    given.extend(mesh.places.first().map(|at| &at.spot));
    given.extend(mesh.walk.as_ref().map(|at| &at.spot));
    given.extend(mesh.movements.as_ref().map(|at| &at.spot));
    if let [first, second, ..] = given[..] {
        let what = format!("stands beside {} ({})", first.key, reader.location(first));
        reader.report(second, what, "keep one of places, walk and movements");
        return None;
    }
    if !mesh.places.is_empty() {
        let place = |at: &At<crate::mesh_keys::NodePlace>| Point { x: metres(at.x.0), y: metres(at.y.0) };
        return Some(Movement::Standing(mesh.places.iter().map(place).collect()));
    }
    if let Some(walk) = &mesh.walk {
        let (least, most) = (metres(walk.speed_min.0), metres(walk.speed_max.0));
        if least <= 0.0 || least > most {
            let what = format!("speeds of {least} to {most} m/s are no walk");
            let right = "write a speed_min above 0m/s, and a speed_max that is not below it";
            reader.report_between(&[&walk.speed_min.spot, &walk.speed_max.spot], what, right);
            return None;
        }
        return Some(Movement::Walk { least, most, pause: *walk.pause });
    }
    match &mesh.movements {
        Some(path) => traces.load_movements(path, reader).map(Movement::Script),
        None => Some(Movement::Drawn),
    }
}

fn channels(file: &File, mesh: &At<Mesh>, reader: &Reader<'_>, traces: &mut Traces<'_>) -> Option<Channels> {
    match (&mesh.rate, &mesh.spectrum) {
        (Some(rate), None) => Some(Channels::Own(***rate)),
        (None, Some(spectrum)) => {
            spectrum_config(file, spectrum, reader, traces).map(|config| Channels::Shared(Box::new(config)))
        }
        (Some(rate), Some(spectrum)) => {
            let what = format!("stands beside mesh.spectrum ({})", reader.location(&spectrum.spot));
            reader.report(&rate.spot, what, "write mesh.spectrum.capacity");
            None
        }
        (None, None) => {
            let reported = reader.has_reported("mesh.rate") || reader.has_reported_below("mesh.spectrum");
            if !reported {
                let right = "write mesh.rate, for example \"2Mbit/s\", or [mesh.spectrum]";
                reader.report(&mesh.spot, "the mesh has no rate", right);
            }
            None
        }
    }
}

fn spectrum_config(
    file: &File,
    spectrum: &At<Spectrum>,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<SpectrumConfig> {
    let log = channel_log(spectrum, reader, traces)?;
    let cycle = CycleConfig {
        sensing: **spectrum.sensing_time,
        transmitting: **spectrum.transmitting_time,
        switching_delay: *spectrum.switching_delay,
    };
    let activity = match &spectrum.users {
        None => None,
        Some(users) => {
            let activity = PuActivity::new(users.alpha.per_second, users.beta.per_second);
            let spots = [&users.alpha.spot, &users.beta.spot];
            let right = "write rates such as \"0.5/s\"";
            Some(activity.map_err(|error| reader.report_between(&spots, error.to_string(), right)).ok()?)
        }
    };
    let users = match (&spectrum.users, &spectrum.pu_log) {
        (Some(users), Some(path)) => {
            let what = format!("stands beside mesh.spectrum.users ({})", reader.location(&users.spot));
            reader.report(&path.spot, what, "keep one of them");
            return None;
        }
        (Some(users), None) => Users::Drawn {
            activity: activity?,
            per_band: **users.per_band,
            spread: metres(users.spread.0),
            range: metres(spectrum.user_range.0),
            duration: **file.duration,
        },
        (None, Some(path)) => {
            let right = "remove it: the log says where each user is, and with which power";
            report_idle(&[&spectrum.user_range.spot], "beside pu_log", right, reader);
            Users::Log(pu_log(path, &log, reader, traces)?)
        }
        (None, None) => {
            if !reader.has_reported_below(&format!("{}.users", spectrum.spot.key)) {
                let right = "write users = { alpha = \"0.5/s\", beta = \"0.5/s\" }, or pu_log = \"FILE\"";
                reader.report(&spectrum.spot, "nobody owns the bands", right);
            }
            return None;
        }
    };
    let sensing = sensing_model(spectrum, activity, reader)?;
    Some(SpectrumConfig {
        log,
        cycle,
        sensing,
        policy: *spectrum.policy,
        users,
        working: working(spectrum, reader),
    })
}

fn working(spectrum: &Spectrum, reader: &Reader<'_>) -> WorkingChannel {
    let Spectrum { working_channel, home_channels, retune_time, user_memory, .. } = spectrum;
    if working_channel.value == WorkingName::Common {
        let mut idle: Vec<&Spot> = Vec::new();
        idle.extend(home_channels.iter().map(|at| &at.spot));
        idle.extend(retune_time.iter().map(|at| &at.spot));
        idle.extend(user_memory.iter().map(|at| &at.spot));
        report_idle(&idle, "without working_channel = \"own\"", "remove it", reader);
        return WorkingChannel::Common;
    }
    let default = OwnChannels::new();
    WorkingChannel::Own(OwnChannels {
        homes: home_channels.iter().flat_map(|list| &list.value).map(|at| at.value).collect(),
        retune: retune_time.as_ref().map_or(default.retune, |at| at.value),
        memory: user_memory.as_ref().map_or(default.memory, |at| at.value),
    })
}

fn sensing_model(
    spectrum: &At<Spectrum>,
    activity: Option<PuActivity>,
    reader: &Reader<'_>,
) -> Option<SensingModel> {
    let detector = *spectrum.detector;
    if detector != DetectorName::Energy {
        let mut idle: Vec<&Spot> = Vec::new();
        idle.extend(spectrum.detector_snr.iter().map(|at| &at.spot));
        idle.extend(spectrum.detector_bandwidth.iter().map(|at| &at.spot));
        report_idle(&idle, "without detector = \"energy\"", "remove it", reader);
    }
    match detector {
        DetectorName::Perfect => Some(SensingModel::Fixed(DetectionOdds::PERFECT)),
        DetectorName::Simplified => Some(SensingModel::SIMPLIFIED),
        DetectorName::Energy => {
            let Some(activity) = activity else {
                let right = "write detector = \"simplified\", or users in place of pu_log";
                reader.report(&spectrum.detector.spot, "needs alpha and beta of the primary users", right);
                return None;
            };
            let snr_db = spectrum.detector_snr.as_ref().map_or(DETECTOR_SNR_DB, |at| at.0);
            let bandwidth =
                spectrum.detector_bandwidth.as_ref().map_or(DETECTOR_BANDWIDTH, |at| at.0 as f64 / 1e3);
            EnergyDetector::new(bandwidth, 10f64.powf(snr_db / 10.0))
                .map(|detector| SensingModel::Exact(detector, activity))
                .map_err(|error| reader.report(&spectrum.spot, error.to_string(), "change one of them"))
                .ok()
        }
    }
}

fn channel_log(
    spectrum: &At<Spectrum>,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<Arc<ChannelLog>> {
    if let Some(path) = &spectrum.channel_log {
        let idle = [
            &spectrum.bands.spot,
            &spectrum.channels_per_band.spot,
            &spectrum.capacity.spot,
            &spectrum.differentiation.spot,
        ];
        report_idle(&idle, "beside channel_log", "remove it, or channel_log", reader);
        return traces.load_channel_log(path, reader);
    }
    let small = |at: &At<crate::scalar::Positive<u32>>| u16::try_from(***at).unwrap_or(u16::MAX);
    let bands = Bands::new(small(&spectrum.bands), small(&spectrum.channels_per_band));
    let spots = [&spectrum.bands.spot, &spectrum.channels_per_band.spot];
    let bands =
        bands.map_err(|error| reader.report_between(&spots, error.to_string(), "write fewer")).ok()?;
    ChannelLog::heterogeneous(bands, **spectrum.capacity, spectrum.differentiation.0, 0.0)
        .map(Arc::new)
        .map_err(|error| {
            reader.report(&spectrum.differentiation.spot, error.to_string(), "write a smaller one")
        })
        .ok()
}

/// What stands in place of a cell's radio: nothing but the number of nodes is used.
pub(crate) fn unused_radio(config: &MeshConfig) -> AirConfig {
    AirConfig {
        stations: config.nodes,
        mac: Mac::Shared,
        air_time: AirTimeModel::PerByte,
        channels: vec![ChannelConfig {
            phy_rate: config.rates().first().copied().unwrap_or(BitRate(0)),
            efficiency: Fraction::ONE,
            primary_user: None,
        }],
        initial_channel: 0,
        rate_told: true,
        switching: Switching::default(),
        signals: SignalsConfig::default(),
        measured_users: Vec::new(),
        sensing: None,
        station_sensing: Vec::new(),
        power: None,
        snr: None,
        retry_limit: 7,
        router: QueueConfig::fifo(config.queue),
        station_queue: QueueConfig::fifo(config.queue),
    }
}

/// Reports the tables of a cell.
fn report_cell(file: &File, reader: &Reader<'_>) {
    let idle = [&file.wired.spot, &file.radio.spot, &file.router.spot, &file.station.spot, &file.host.spot];
    report_idle(&idle, "beside mesh", "remove it, or mesh", reader);
}

/// A PU log whose users are all on bands that the channels have.
fn pu_log(
    path: &At<String>,
    channels: &ChannelLog,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<Arc<PuLog>> {
    let log = traces.load_pu_log(path, reader)?;
    let bands = channels.bands().bands();
    if log.bands() > bands {
        let what = format!("a primary user is on band {}, and there are {bands}", log.bands());
        reader.report(&path.spot, what, "raise mesh.spectrum.bands, or change the log");
        return None;
    }
    Some(log)
}
