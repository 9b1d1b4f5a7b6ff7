//! `primary_user`: a user whose ON and OFF times are drawn, or the users of a PU log (crahn, section 4.1).
//!
//! A cell has no place, so it hears every user of a band, however far away: channel i hears those of band i +
//! 1, and bursts of several users that overlap are one. With a log the ON and OFF times are the same for
//! every seed.

use std::sync::Arc;

use linkhold_core::time::{Duration, Instant};
use linkhold_radio::spectrum::{Band, Occupancy};
use linkhold_radio::{ChannelConfig, PrimaryUserConfig, ToldConfig};

use crate::file::{File, PrimaryUser};
use crate::read::{At, Reader, Spot};
use crate::spots::report_idle;
use crate::told;
use crate::traces::Traces;

/// A channel's primary user, and its times if a log has them.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub config: PrimaryUserConfig,
    /// What is told of it.
    pub told: ToldConfig,
    pub measured: Option<Arc<Occupancy>>,
}

/// The user of `channel`; `None` after reporting what is wrong with it.
pub(crate) fn resolve(
    user: &At<PrimaryUser>,
    channel: usize,
    file: &File,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<User> {
    let delays = |on_mean, off_mean, fixed| PrimaryUserConfig {
        on_mean,
        off_mean,
        fixed,
        detection_delay: *user.detection_delay,
        end_detection_delay: *user.end_detection_delay,
    };
    let told = told::resolve(&user.told, false, file, reader);
    let Some(log) = &user.log else {
        let missing = |key: &str, meaning: &str| {
            // A value that was written but is wrong has been reported.
            if !reader.has_reported(&format!("{}.{key}", user.spot.key)) {
                let right = format!("{key}: {meaning}, or write log = \"FILE\"");
                reader.report(&user.spot, format!("the key `{key}` is missing"), right);
            }
        };
        if user.on_mean.is_none() {
            missing("on_mean", "Mean length of a burst");
        }
        if user.off_mean.is_none() {
            missing("off_mean", "Mean length of the pause between bursts");
        }
        let (on_mean, off_mean) = (user.on_mean.as_ref()?, user.off_mean.as_ref()?);
        return Some(User { config: delays(***on_mean, ***off_mean, *user.fixed), told, measured: None });
    };
    let mut drawn: Vec<&Spot> = user.on_mean.iter().chain(&user.off_mean).map(|at| &at.spot).collect();
    drawn.push(&user.fixed.spot);
    report_idle(&drawn, "beside log", "remove it: the log says when the users transmit", reader);
    let loaded = traces.load_pu_log(log, reader)?;
    let Some(band) = u16::try_from(channel + 1).ok().and_then(Band::new) else {
        reader.report(&log.spot, format!("channel {channel} has no band in a PU log"), "use fewer channels");
        return None;
    };
    let occupancy = Occupancy::of(&loaded, band, |_| true);
    let (on, off) = occupancy.means();
    let config = delays(on.unwrap_or(Duration::ZERO), off.unwrap_or(Duration::ZERO), false);
    Some(User { config, told, measured: Some(Arc::new(occupancy)) })
}

/// The users of all channels; `None` after reporting what is wrong with one.
pub(crate) fn of_channels(
    file: &File,
    reader: &Reader<'_>,
    traces: &mut Traces<'_>,
) -> Option<Vec<Option<User>>> {
    let radio = &file.radio;
    let shared = radio.primary_user.as_ref();
    if radio.channels.is_empty() {
        return match shared {
            None => Some(vec![None]),
            Some(user) => resolve(user, 0, file, reader, traces).map(|user| vec![Some(user)]),
        };
    }
    let shared = shared.filter(|user| user.log.is_some());
    let mut all = Some(Vec::new());
    for (index, channel) in radio.channels.iter().enumerate() {
        let own = channel.primary_user.as_ref();
        if let (Some(own), Some(_)) = (own, shared) {
            let right = "write one of them: radio.primary_user.log has the users of all channels";
            reader.report(&own.spot, "does nothing beside radio.primary_user.log", right);
        }
        let user = match own.or(shared) {
            None => Some(None),
            Some(user) => resolve(user, index, file, reader, traces).map(Some),
        };
        match (&mut all, user) {
            (Some(list), Some(user)) => list.push(user),
            _ => all = None,
        }
    }
    all
}

/// What a summary says of a user whose times come from a log.
pub(crate) fn describe_measured(measured: &Occupancy, channel: usize) -> String {
    let band = channel + 1;
    let Some((_, end)) = measured.periods().checked_sub(1).and_then(|last| measured.period(last)) else {
        return format!("no primary user of band {band} transmits in the log");
    };
    let length = end.since(Instant::ZERO);
    let share = 100.0 * measured.on_time(end).as_secs_f64() / length.as_secs_f64();
    format!(
        "primary users of band {band} of a log: {} times on, {share:.1} % until {length}",
        measured.periods()
    )
}

/// The channels' users as [`AirConfig`](linkhold_radio::AirConfig) has them: `channels` get the users'
/// settings, the first list returned has their times, and is empty if no log is used; the second has what is
/// told of them.
pub(crate) fn install(
    users: Vec<Option<User>>,
    channels: &mut [ChannelConfig],
) -> (Vec<Option<Arc<Occupancy>>>, Vec<ToldConfig>) {
    let told = users.iter().map(|user| user.as_ref().map(|user| user.told).unwrap_or_default()).collect();
    let mut measured: Vec<Option<Arc<Occupancy>>> = Vec::new();
    for (channel, user) in channels.iter_mut().zip(users) {
        channel.primary_user = user.as_ref().map(|user| user.config);
        measured.push(user.and_then(|user| user.measured));
    }
    let measured = if measured.iter().all(Option::is_none) { Vec::new() } else { measured };
    (measured, told)
}
