//! `[radio.snr]`: from the file's table to the radio's configuration.

use linkhold_core::time::Duration;
use linkhold_radio::{ChannelConfig, Columns, Fading, PhyRate, SnrConfig, SnrReport, SnrSource, WalkConfig};

use crate::file::{FadingName, File, Snr, Walk};
use crate::read::{At, Reader, Spot};
use crate::traces::Traces;

/// Rows of a file that lie further apart leave a gap.
const MAX_GAP: Duration = Duration::from_secs(60);
/// K factor of Rician fading, dB.
const K_FACTOR: f64 = 6.0;

/// The SNR of a radio of these channels, if the file has one; `None` after reporting what is wrong.
pub(crate) fn resolve(
    file: &File,
    channels: &[ChannelConfig],
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<Option<SnrConfig>> {
    let Some(snr) = &file.radio.snr else { return Some(None) };
    let rates = rates(snr, channels, reader);
    let source = source(snr, reader, traces);
    if snr.error.0 < 0.0 {
        reader.report(&snr.error.spot, "a standard deviation cannot be negative", "write 0dB or more");
        return None;
    }
    let report = SnrReport { interval: **snr.interval, delay: *snr.delay, error_db: snr.error.0 };
    Some(Some(SnrConfig { source: source?, rates: rates?, report }))
}

/// By channel: its modulation.
fn rates(snr: &At<Snr>, channels: &[ChannelConfig], reader: &Reader<'_>) -> Option<Vec<PhyRate>> {
    let rate = |channel: &ChannelConfig| {
        let rate = snr.rate.as_ref().map(|at| at.value).or_else(|| PhyRate::of(channel.phy_rate));
        if rate.is_none() {
            let what = format!("no modulation is known for {}", channel.phy_rate);
            let right = "write radio.snr.rate, for example \"cck-5.5\", or a rate of IEEE 802.11a or b";
            reader.report(&snr.spot, what, right);
        }
        rate
    };
    channels.iter().map(rate).collect()
}

fn source(snr: &At<Snr>, reader: &Reader<'_>, traces: &mut Traces<'_>) -> Option<SnrSource> {
    match (&snr.trace, &snr.walk) {
        (Some(path), None) => {
            let columns = Columns {
                time: snr.time_column.as_ref().map_or("time", |at| at.as_str()),
                snr: snr.snr_column.as_ref().map_or("snr", |at| at.as_str()),
                max_gap: snr.max_gap.as_ref().map_or(MAX_GAP, |at| at.0),
            };
            let trace = traces.load_snr(path, columns, reader)?;
            let random_start = snr.random_start.as_ref().is_some_and(|at| at.value);
            Some(SnrSource::Trace { trace, random_start })
        }
        (None, Some(walk)) => {
            let mut idle: Vec<&Spot> = Vec::new();
            idle.extend(snr.time_column.iter().map(|at| &at.spot));
            idle.extend(snr.snr_column.iter().map(|at| &at.spot));
            idle.extend(snr.max_gap.iter().map(|at| &at.spot));
            idle.extend(snr.random_start.iter().map(|at| &at.spot));
            for spot in &idle {
                reader.report(spot, "does nothing without radio.snr.trace", "remove it");
            }
            let walk = walk_config(walk, reader)?;
            idle.is_empty().then_some(SnrSource::Walk(walk))
        }
        (Some(path), Some(walk)) => {
            let what = format!("stands beside radio.snr.trace ({})", reader.location(&path.spot));
            reader.report(&walk.spot, what, "keep one of them");
            None
        }
        (None, None) => {
            // What is wrong in the walk's table has been reported.
            if !reader.has_reported_below(&snr.spot.key) {
                let right = "write trace = \"FILE.csv\", or walk = { snr_at_1m = \"45dB\" }";
                reader.report(&snr.spot, "nothing says how strong the signal is", right);
            }
            None
        }
    }
}

fn walk_config(walk: &At<Walk>, reader: &Reader<'_>) -> Option<WalkConfig> {
    let before = reader.count();
    if walk.near.0 < 1000 {
        reader.report(&walk.near.spot, "the path loss is that from one metre on", "write at least 1m");
    }
    if walk.far.0 < walk.near.0 {
        reader.report_between(
            &[&walk.far.spot, &walk.near.spot],
            "the farthest point is nearer than the nearest",
            "make far at least near",
        );
    }
    let k_factor = walk.k_factor.as_ref();
    let fading = match *walk.fading {
        FadingName::None => Fading::None,
        FadingName::Rayleigh => Fading::Rayleigh,
        FadingName::Rician => Fading::Rician(k_factor.map_or(K_FACTOR, |at| at.0)),
    };
    if let Some(k_factor) = k_factor
        && *walk.fading != FadingName::Rician
    {
        reader.report(&k_factor.spot, "does nothing without fading = \"rician\"", "remove it");
    }
    if let Some(doppler) = &walk.doppler
        && *walk.fading == FadingName::None
    {
        reader.report(&doppler.spot, "does nothing without fading", "remove it");
    }
    (reader.count() == before).then(|| WalkConfig {
        snr_at_1m: walk.snr_at_1m.0,
        exponent: walk.exponent.0,
        near: walk.near.0 as f64 / 1e3,
        far: walk.far.0 as f64 / 1e3,
        speed: walk.speed.0 as f64 / 1e3,
        fading,
        doppler: walk.doppler.as_ref().map(|at| at.0 as f64 / 1e3),
        random_start: *walk.random_start,
    })
}
