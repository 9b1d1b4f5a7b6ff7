//! `radio.mac = "dcf"`: its table becomes the radio's configuration, and every key that it does not use is
//! reported.

use linkhold_core::units::BitRate;
use linkhold_radio::Mac;
use linkhold_radio::dcf::{DcfConfig, Phy};

use crate::file::File;
use crate::read::{At, Reader, Spot};
use crate::spots;

/// The medium access; `None` after reporting why not.
pub(crate) fn mac(file: &File, reader: &Reader<'_>) -> Option<Mac> {
    report_idle(file, reader);
    let table = &file.radio.dcf;
    let mut fine = rates_fit(file, reader);
    for limit in [&table.short_retry_limit, &table.long_retry_limit] {
        if limit.value == 0 {
            reader.report(&limit.spot, "a frame has at least one attempt", "write 1 or more");
            fine = false;
        }
    }
    let rts_threshold = match u32::try_from(table.rts_threshold.0) {
        Ok(octets) if octets <= DcfConfig::NO_RTS => octets,
        _ => {
            let what = format!("{} is out of range", table.rts_threshold.value);
            let right = format!("write 0B to {}B; the largest never asks for RTS", DcfConfig::NO_RTS);
            reader.report(&table.rts_threshold.spot, what, right);
            return None;
        }
    };
    let config = DcfConfig {
        rts_threshold,
        short_retry_limit: *table.short_retry_limit,
        long_retry_limit: *table.long_retry_limit,
        ..DcfConfig::new(*table.phy)
    };
    fine.then_some(Mac::Dcf(config))
}

/// Whether the physical layer has the channels' rates. Reports those that it has not.
fn rates_fit(file: &File, reader: &Reader<'_>) -> bool {
    let radio = &file.radio;
    let mut rates: Vec<(BitRate, &Spot)> = Vec::new();
    if radio.channels.is_empty() {
        rates.extend(radio.phy_rate.iter().map(|at| (***at, &at.spot)));
    } else {
        rates.extend(radio.channels.iter().map(|channel| (**channel.phy_rate, &channel.phy_rate.spot)));
    }
    let At { value: phy, .. } = radio.dcf.phy;
    let right = match phy {
        Phy::Ieee80211a => "write 6, 9, 12, 18, 24, 36, 48 or 54Mbit/s",
        Phy::Ieee80211b => "write 1, 2, 5.5 or 11Mbit/s",
    };
    let mut fine = true;
    for (rate, spot) in rates.into_iter().filter(|(rate, _)| !phy.has(*rate)) {
        reader.report(spot, format!("{phy} has no rate of {rate}"), right);
        fine = false;
    }
    fine
}

/// Reports the keys that do something with the other MACs only.
fn report_idle(file: &File, reader: &Reader<'_>) {
    let radio = &file.radio;
    let timed = "remove it: radio.dcf.phy says how frames are timed";
    let mut idle: Vec<(&Spot, &str)> =
        vec![(&radio.air_time.spot, timed), (&radio.mac_efficiency.spot, timed)];
    idle.extend(radio.channels.iter().map(|channel| (&channel.mac_efficiency.spot, timed)));
    idle.push((&radio.retry_limit.spot, "write radio.dcf.short_retry_limit"));
    for (spot, right) in idle {
        spots::report_idle(&[spot], "with mac = \"dcf\"", right, reader);
    }
}

/// Reports what only this MAC uses, where another is used.
pub(crate) fn report_idle_without(file: &File, reader: &Reader<'_>) {
    let right = "write radio.mac = \"dcf\", or remove it";
    spots::report_idle(&[&file.radio.dcf.spot], "without mac = \"dcf\"", right, reader);
}
