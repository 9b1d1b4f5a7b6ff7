//! Checks that several tables of the file need.

use crate::read::{At, Reader, Spot};
use crate::scalar::Positive;

/// Whether a station exists; reports it if not.
pub(crate) fn station_in_range(
    station: u32,
    spot: &Spot,
    stations: &At<Positive<u32>>,
    reader: &Reader<'_>,
) -> bool {
    let fits = station < ***stations;
    if !fits && stations.spot.valid {
        let what = format!("station {station} does not exist: radio.stations is {}", ***stations);
        reader.report(spot, what, format!("write an index from 0 to {}", ***stations - 1));
    }
    fits
}

/// Reports every key among `spots` that the user wrote though it does nothing.
pub(crate) fn report_idle(spots: &[&Spot], why: &str, right: &str, reader: &Reader<'_>) {
    for spot in spots.iter().filter(|spot| spot.is_explicit()) {
        reader.report(spot, format!("does nothing {why}"), right);
    }
}
