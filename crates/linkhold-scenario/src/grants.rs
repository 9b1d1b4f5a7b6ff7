//! `radio.mac = "802.16"`, `"docsis"` or `"5g"`: the standard's set of parameters with the file's keys laid
//! over it, and reports of what does not fit together or does nothing.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Fraction;
use linkhold_radio::grants::{
    Backoff, Duplexing, MOST_CODES, MOST_SUCCESS_CHANGES, Proactive, Requesting, Steps, SuccessChange,
    SuccessChanges, frames_of,
};
use linkhold_radio::{AirTimeModel, ChannelConfig, GrantsConfig, GrantsError, Mac, Standard};

use crate::file::File;
use crate::grants_keys::{DuplexingName, Grants};
use crate::read::{Reader, Spot, set};
use crate::spots;

/// The medium access; `None` after reporting why not.
pub(crate) fn mac(standard: Standard, file: &File, reader: &Reader<'_>) -> Option<Mac> {
    let before = reader.count();
    report_idle(standard, file, reader);
    let mut config = config(standard, &file.radio.grants);
    config.success_changes = success_changes(&file.radio.grants, reader);
    (reader.count() == before).then_some(Mac::Grants(config))
}

fn duplexing(standard: Standard, table: &Grants) -> DuplexingName {
    let natural = match standard {
        Standard::Ieee80216 => DuplexingName::Tdd,
        Standard::Docsis | Standard::FiveG => DuplexingName::Fdd,
    };
    table.duplexing.as_ref().map_or(natural, |at| at.value)
}

/// The standard's parameters with the table's laid over them.
fn config(standard: Standard, table: &Grants) -> GrantsConfig {
    let tdd = duplexing(standard, table) == DuplexingName::Tdd;
    let frame = table.frame.as_ref().map(|at| at.0);
    let mut config = match standard {
        Standard::Ieee80216 | Standard::Docsis => GrantsConfig::of(standard),
        Standard::FiveG => {
            // PDCCH and PUCCH take symbols of each slot, so they follow the frame.
            let natural = if tdd { Duration::from_micros(2500) } else { Duration::from_millis(1) };
            GrantsConfig::five_g(frame.unwrap_or(natural), tdd)
        }
    };
    config.frame = frame.unwrap_or(config.frame);
    config.duplexing = if tdd { tdd_of(config.duplexing, table) } else { Duplexing::Fdd };
    set(&mut config.maps, table.maps.as_ref());
    set(&mut config.contention, table.contention.as_ref());
    config.uplink_rate = table.uplink_rate.as_ref().map(|at| at.0);
    if let Some(header) = &table.header {
        config.header = u32::try_from(header.0).unwrap_or(u32::MAX);
    }
    match &mut config.requesting {
        Requesting::Contention { codes, subchannels, slots, backoff, backoff_start, backoff_end } => {
            *codes = table.codes.as_ref().map_or(*codes, |at| at.0);
            *subchannels = table.subchannels.as_ref().map_or(*subchannels, |at| at.0);
            *slots = table.slots.as_ref().map_or(*slots, |at| at.0);
            set(backoff, table.backoff.as_ref());
            set(backoff_start, table.backoff_start.as_ref());
            set(backoff_end, table.backoff_end.as_ref());
        }
        Requesting::Reserved { period } => {
            *period = table.request_period.as_ref().map_or(*period, |at| at.0);
        }
    }
    config.success = table.success.as_ref().map_or(config.success, |at| at.0);
    set(&mut config.assignment, table.assignment.as_ref());
    set(&mut config.implementation_delay, table.implementation_delay.as_ref());
    config.t3 = table.t3.as_ref().map_or_else(|| natural_t3(&config), |at| at.0);
    config.max_tries = table.max_tries.as_ref().map_or(config.max_tries, |at| at.0);
    config.piggyback = *table.piggyback;
    let period = table.proactive_period.as_ref().map_or(1, |at| at.0);
    config.proactive = table.proactive.value.value().map(|bytes| Proactive { bytes: bytes.0, period });
    config.tell_silences = *table.tell_silences;
    config
}

/// The changes of p_s. Reports one that does not fit behind the others.
fn success_changes(table: &Grants, reader: &Reader<'_>) -> SuccessChanges {
    let mut changes = SuccessChanges::default();
    for (index, entry) in table.success_changes.iter().enumerate() {
        let change = SuccessChange { at: Instant::ZERO + *entry.at, success: entry.success.0 };
        if index >= MOST_SUCCESS_CHANGES {
            let what = format!("there are at most {MOST_SUCCESS_CHANGES} changes of the chance in a run");
            reader.report(&entry.spot, what, "remove this one");
            break;
        }
        if !changes.push(change) {
            let what = format!("the change at {} does not come after the one before it", *entry.at);
            reader.report(&entry.at.spot, what, "write the changes in the order of their times");
            break;
        }
    }
    changes
}

/// A wait that no answer outlasts, whatever the frame.
fn natural_t3(config: &GrantsConfig) -> Duration {
    let answer = config.frame * config.first_answer();
    match config.standard {
        Standard::Ieee80216 => config.t3.max(config.frame * 12).max(answer),
        Standard::Docsis | Standard::FiveG => answer + config.frame * 5,
    }
}

fn tdd_of(natural: Duplexing, table: &Grants) -> Duplexing {
    let wibro = GrantsConfig::of(Standard::Ieee80216).duplexing;
    let natural = if matches!(natural, Duplexing::Tdd { .. }) { natural } else { wibro };
    let Duplexing::Tdd { mut downlink_share, mut ttg, mut rtg } = natural else { return natural };
    if let Some(share) = &table.downlink_share {
        downlink_share = share.0;
    }
    set(&mut ttg, table.ttg.as_ref());
    set(&mut rtg, table.rtg.as_ref());
    Duplexing::Tdd { downlink_share, ttg, rtg }
}

/// Without gaps, maps and contention of its own a channel passes part of its rate; here they are modelled.
pub(crate) fn channel(channel: ChannelConfig, efficiency: &Spot) -> ChannelConfig {
    let efficiency = if efficiency.is_explicit() { channel.efficiency } else { Fraction::ONE };
    ChannelConfig { efficiency, ..channel }
}

/// Whether the parameters fit together on these channels. Reports the first that does not, at its key.
pub(crate) fn fits(mac: &Mac, channels: &[ChannelConfig], file: &File, reader: &Reader<'_>) -> bool {
    let Mac::Grants(config) = mac else { return true };
    let uplink = |channel: &ChannelConfig| {
        config.uplink_rate.unwrap_or(channel.phy_rate).mul_f64(channel.efficiency.get())
    };
    let Some(slowest) = channels.iter().map(uplink).min() else { return true };
    let Err(error) = config.check(**file.radio.stations, slowest) else { return true };
    let table = &file.radio.grants;
    if let GrantsError::Grant { wanted, room } = error
        && config.proactive.is_none()
        && config.uplink_rate.is_none()
    {
        // No key of the table is the cause: the channel itself is too slow for the smallest grant.
        let what = format!("an uplink subframe carries {room} B, and the smallest grant is of {wanted} B");
        let right = "write a higher rate, a shorter contention, or a longer frame";
        let rates = file.radio.phy_rate.iter().map(|at| &at.spot);
        let rates: Vec<&Spot> = rates.chain(file.radio.channels.iter().map(|at| &at.phy_rate.spot)).collect();
        reader.report_between(&rates, what, right);
        return false;
    }
    let (keys, right) = advice(&error, config);
    let spots: Vec<&Spot> = keys.iter().filter_map(|key| spot(table, key)).collect();
    // Of the keys that the problem is about, those that the user wrote; else the first one's place.
    match spots.as_slice() {
        [] => {
            let key = table.spot.child(keys[0], crate::read::Origin::Default);
            reader.report(&key, error.to_string(), right);
        }
        spots => reader.report_between(spots, error.to_string(), right),
    }
    false
}

/// The keys that a problem is about, the likeliest first, and what would be right.
fn advice(error: &GrantsError, config: &GrantsConfig) -> (&'static [&'static str], String) {
    match error {
        GrantsError::Frame { standard, tdd, .. } => {
            (&["frame", "duplexing"], format!("write one of its {}", frames_of(*standard, *tdd)))
        }
        GrantsError::Codes(_) => (&["codes"], format!("write 1 to {MOST_CODES}")),
        GrantsError::Gaps { .. } => (&["ttg", "rtg", "frame"], "make the gaps shorter".to_owned()),
        GrantsError::Subframe { subframe: "downlink", .. } => (
            &["maps", "downlink_share", "frame", "ttg", "rtg"],
            "make maps shorter, or downlink_share or frame larger".to_owned(),
        ),
        GrantsError::Subframe { .. } => (
            &["contention", "downlink_share", "frame", "ttg", "rtg"],
            "make contention shorter, downlink_share smaller, or frame longer".to_owned(),
        ),
        GrantsError::Grant { room, .. } => (
            &["proactive", "uplink_rate", "contention", "proactive_period"],
            format!(
                "grant at most {room}B a frame, or write a longer proactive_period or a higher uplink_rate"
            ),
        ),
        GrantsError::TooSoon { given, least } => {
            let more = config.assignment + (least - given);
            (&["assignment", "implementation_delay"], format!("write assignment = {more}, or more"))
        }
        GrantsError::T3 { answer, .. } => {
            (&["t3", "assignment", "implementation_delay"], format!("write t3 = \"{answer}\", or more"))
        }
        GrantsError::Range(what) => {
            let (keys, right): (&'static [&'static str], &str) = match *what {
                "codes" => (&["codes"], "write 1 to 256"),
                "subchannels" | "slots" => {
                    (&["slots", "subchannels"], "write at most 1024 slots x subchannels")
                }
                "backoff_start" => (&["backoff_start", "backoff_end"], "make backoff_start the smaller"),
                "backoff_end" => (&["backoff_end"], "write at most 15"),
                "header" => (&["header"], "write at most 1000B"),
                _ => (&["assignment", "implementation_delay"], "write at most 10000 frames"),
            };
            (keys, right.to_owned())
        }
    }
}

/// Where a key stands in the file, if it does.
fn spot<'a>(table: &'a Grants, key: &str) -> Option<&'a Spot> {
    written(table).into_iter().find(|(name, _)| *name == key).map(|(_, spot)| spot)
}

/// The keys of the table that the user wrote.
fn written(table: &Grants) -> Vec<(&'static str, &Spot)> {
    let mut all: Vec<(&'static str, Option<&Spot>)> = Vec::new();
    macro_rules! keys {
        ($($key:ident),*) => { $(all.push((stringify!($key), table.$key.as_ref().map(|at| &at.spot)));)* };
    }
    keys!(frame, duplexing, downlink_share, ttg, rtg, maps, contention, uplink_rate, header, codes);
    keys!(subchannels, slots, request_period, success, assignment, implementation_delay, t3, backoff);
    keys!(backoff_start, backoff_end, max_tries, proactive_period);
    all.push(("piggyback", Some(&table.piggyback.spot)));
    all.push(("proactive", Some(&table.proactive.spot)));
    all.push(("tell_silences", Some(&table.tell_silences.spot)));
    let written = all.into_iter().filter_map(|(key, spot)| Some((key, spot?)));
    written.filter(|(_, spot)| spot.is_explicit()).collect()
}

/// Reports the keys that do nothing with this standard, or beside each other.
fn report_idle(standard: Standard, file: &File, reader: &Reader<'_>) {
    let (radio, table) = (&file.radio, &file.radio.grants);
    let name = standard.name();
    let mut idle: Vec<(&str, String, &str)> = Vec::new();
    let mut with = |keys: &[&'static str], right| {
        idle.extend(keys.iter().map(|key| (*key, format!("with mac = {name:?}"), right)));
    };
    match GrantsConfig::of(standard).requesting {
        Requesting::Contention { .. } => {
            with(&["request_period"], "remove it: requests are sent in contention slots");
        }
        Requesting::Reserved { .. } => {
            let keys = ["codes", "subchannels", "slots", "backoff", "backoff_start", "backoff_end"];
            with(&keys, "write request_period: each station has an opportunity of its own");
        }
    }
    match GrantsConfig::of(standard).steps {
        Steps::One => with(&["codes", "subchannels"], "write slots: a request minislot has no codes"),
        Steps::Two => {}
    }
    if duplexing(standard, table) == DuplexingName::Fdd {
        let right = "remove it, or write duplexing = \"tdd\"";
        idle.extend(
            ["downlink_share", "ttg", "rtg"].map(|key| (key, "with duplexing = \"fdd\"".to_owned(), right)),
        );
    }
    if table.backoff.as_ref().is_some_and(|at| at.value == Backoff::Paper) {
        let right = "remove it, or write backoff = \"standard\"";
        let keys = ["t3", "backoff_start", "backoff_end"];
        idle.extend(keys.map(|key| (key, "with backoff = \"paper\"".to_owned(), right)));
    }
    if table.proactive.value.value().is_none() {
        let right = "write proactive, for example \"200B\"";
        idle.push(("proactive_period", "without `proactive`".to_owned(), right));
    }
    let written = written(table);
    let mut told: Vec<&str> = Vec::new();
    for (key, why, right) in &idle {
        if let Some((_, spot)) = written.iter().find(|(name, _)| name == key)
            && !told.contains(key)
        {
            told.push(key);
            reader.report(spot, format!("does nothing {why}"), *right);
        }
    }
    if let (Standard::Docsis, Some(at)) = (standard, &table.duplexing)
        && at.value == DuplexingName::Tdd
    {
        reader.report(&at.spot, "a cable has a medium for each direction", "write \"fdd\", or remove it");
    }
    if *radio.air_time != AirTimeModel::PerByte {
        let right = "remove it: bursts are timed by their bytes";
        reader.report(&radio.air_time.spot, format!("does nothing with mac = {name:?}"), right);
    }
}

/// Reports the table where the medium access grants nothing.
pub(crate) fn report_idle_without(file: &File, reader: &Reader<'_>) {
    let why = "without mac = \"802.16\", \"docsis\" or \"5g\"";
    spots::report_idle(&[&file.radio.grants.spot], why, "write radio.mac = \"802.16\", or remove it", reader);
}
