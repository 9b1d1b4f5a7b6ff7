//! `told`: what each source of silences tells of them, and what a summary says of it.
//!
//! `[radio.told]` holds for every source; a source's own table changes single keys of it.

use linkhold_core::time::Duration;
use linkhold_core::units::Fraction;
use linkhold_radio::signals::MAX_FALSE_PER_MINUTE;
use linkhold_radio::{AirConfig, SignalsConfig, SwitchPolicy, ToldConfig};

use crate::file::{File, MacName, Told};
use crate::read::{At, Reader, Spot};
use crate::scalar::{Frequency, OrOff};
use crate::spots::report_idle;

/// What a source tells whose own table is `own`. `announced`: its schedule is told in advance.
pub(crate) fn resolve(own: &At<Told>, announced: bool, file: &File, reader: &Reader<'_>) -> ToldConfig {
    let common = &file.radio.told;
    let exact = ToldConfig::EXACT;
    let alarms = own.false_alarms.as_ref().or(common.false_alarms.as_ref());
    let either =
        |key: fn(&Told) -> Option<Duration>, otherwise| key(own).or(key(common)).unwrap_or(otherwise);
    let told = ToldConfig {
        late: either(|told| told.late.as_ref().map(|at| at.value), exact.late),
        end_late: either(|told| told.end_late.as_ref().map(|at| at.value), exact.end_late),
        late_spread: either(|told| told.late_spread.as_ref().map(|at| at.value), exact.late_spread),
        end_late_spread: either(
            |told| told.end_late_spread.as_ref().map(|at| at.value),
            exact.end_late_spread,
        ),
        start_known: own.start_known.as_ref().or(common.start_known.as_ref()).is_some_and(|at| at.value),
        length_known: own
            .length_known
            .as_ref()
            .or(common.length_known.as_ref())
            .map_or(announced, |at| at.value),
        missed: own.missed.as_ref().or(common.missed.as_ref()).map_or(exact.missed, |at| at.value),
        false_per_minute: alarms.map_or(0.0, |at| per_minute(at, reader)),
        false_length: either(|told| told.false_length.as_ref().map(|at| *at.value), exact.false_length),
    };
    if told.false_per_minute == 0.0
        && let Some(length) = &own.false_length
        && !reader.has_reported(&length.spot.key)
    {
        report_idle(&[&length.spot], "without false silences", "write false_alarms, or remove it", reader);
    }
    told
}

/// Whether the table has false silences, and not only a word that there are none.
fn are_on(told: &Told) -> bool {
    told.false_alarms.as_ref().is_some_and(|at| at.value.value().is_some())
}

/// What channel switches tell. The common table's false silences are told as switches only where the radio
/// switches, or where it has no other silence that they could be taken for.
pub(crate) fn switching(file: &File, reader: &Reader<'_>) -> ToldConfig {
    let own = &file.radio.switching.told;
    let told = resolve(own, false, file, reader);
    if own.false_alarms.is_some() || may_switch(file) || !has_another_source(file) {
        return told;
    }
    ToldConfig { false_per_minute: 0.0, ..told }
}

/// Whether the radio may change its channel.
fn may_switch(file: &File) -> bool {
    let radio = &file.radio;
    !radio.switches.is_empty() || *radio.switch_policy == SwitchPolicy::OnPrimaryUser
}

/// Whether false silences may be told as something else than channel switches.
fn has_another_source(file: &File) -> bool {
    file.radio.trace.is_some() || has_users_or_sensing(file)
}

/// Whether primary users or quiet periods silence the radio.
fn has_users_or_sensing(file: &File) -> bool {
    let radio = &file.radio;
    radio.primary_user.is_some()
        || radio.channels.iter().any(|channel| channel.primary_user.is_some())
        || radio.sensing.is_some()
        || !radio.station_sensing.is_empty()
}

/// The rate of a key that the same table may be read for several times: a wrong one is reported once.
fn per_minute(at: &At<OrOff<Frequency>>, reader: &Reader<'_>) -> f64 {
    let rate = at.value.value().map_or(0.0, |rate| rate.per_second * 60.0);
    if rate > MAX_FALSE_PER_MINUTE && !reader.has_reported(&at.spot.key) {
        reader.report(&at.spot, "too many false silences", "write at most 100/s, such as \"1/min\"");
    }
    rate.min(MAX_FALSE_PER_MINUTE)
}

/// The table of all sources. What it says is read where each source is; what does nothing is reported here.
pub(crate) fn check_common(file: &File, reader: &Reader<'_>) {
    let common = &file.radio.told;
    let radio = &file.radio;
    let users = radio.primary_user.iter();
    let users = users.chain(radio.channels.iter().filter_map(|channel| channel.primary_user.as_ref()));
    let mut own: Vec<&At<Told>> = users.map(|user| &user.told).collect();
    own.extend(radio.sensing.iter().map(|sensing| &sensing.told));
    own.extend(radio.station_sensing.iter().map(|sensing| &sensing.told));
    own.extend(radio.trace.iter().map(|trace| &trace.told));
    own.push(&radio.switching.told);
    let alarms = own.into_iter().chain([common]).any(|told| are_on(told));
    if let Some(length) = common.false_length.as_ref().filter(|_| !alarms) {
        let right = "write radio.told.false_alarms, or remove it";
        report_idle(&[&length.spot], "without false silences", right, reader);
    }
    if !may_fall_silent(file) {
        let right = "write radio.primary_user or radio.sensing, or remove it";
        report_idle(&idle_without_silences(common, file), "without silences", right, reader);
    }
}

/// Whether anything in the file can silence the radio, or may be told as a silence.
fn may_fall_silent(file: &File) -> bool {
    let radio = &file.radio;
    let by_mac = match *radio.mac {
        // An IEEE 802.15.4 radio's own report names what does nothing with it.
        MacName::Trace | MacName::Grants(_) | MacName::Ieee802154 => true,
        MacName::Shared | MacName::Duplex | MacName::Dcf => false,
    };
    by_mac || has_users_or_sensing(file) || !radio.switches.is_empty() || radio.snr.is_some()
}

/// The keys of a table that are about silences that happen, where none does. Nothing where false ones may be
/// told: those have their own rules.
pub(crate) fn idle_without_silences<'f>(told: &'f Told, file: &'f File) -> Vec<&'f Spot> {
    let alarms = [told, &file.radio.told];
    if alarms.iter().any(|told| are_on(told)) {
        return Vec::new();
    }
    let mut idle: Vec<&Spot> = Vec::new();
    idle.extend(latencies(told));
    idle.extend(told.start_known.iter().chain(&told.length_known).map(|at| &at.spot));
    idle.extend(told.missed.iter().map(|at| &at.spot));
    idle
}

fn latencies(told: &Told) -> impl Iterator<Item = &Spot> {
    let keys = [&told.late, &told.end_late, &told.late_spread, &told.end_late_spread];
    keys.into_iter().flatten().map(|at| &at.spot)
}

/// All keys of a table that say anything, to report them where they do nothing.
pub(crate) fn spots(told: &Told) -> Vec<&Spot> {
    let mut spots: Vec<&Spot> = Vec::new();
    spots.extend(latencies(told));
    spots.extend(told.start_known.iter().chain(&told.length_known).map(|at| &at.spot));
    spots.extend(told.missed.iter().map(|at| &at.spot));
    spots.extend(told.false_alarms.iter().map(|at| &at.spot));
    spots.extend(told.false_length.iter().map(|at| &at.spot));
    spots
}

/// Says where what is told of a radio's silences differs from the plain case: each beginning and each end at
/// once, and nothing more. `None` if nothing differs. A trace's gaps are not among them.
pub(crate) fn describe(radio: &AirConfig) -> Option<String> {
    let SignalsConfig { sensing, switching, .. } = &radio.signals;
    let mut parts: Vec<String> = Vec::new();
    let mut others_exact = false;
    // What a radio notices late it can tell no sooner.
    let mut noticed_late: Vec<String> = Vec::new();
    for (index, channel) in radio.channels.iter().enumerate() {
        let Some(user) = &channel.primary_user else { continue };
        let (late, end_late) = (user.detection_delay, user.end_detection_delay);
        if late.is_zero() && end_late.is_zero() {
            continue;
        }
        let told = radio.signals.of_user(index);
        let then = if told.is_exact() && !told.start_known {
            String::new()
        } else {
            // Nobody knows how long they stay.
            let more = one(&ToldConfig { length_known: false, ..told });
            let at_once = "as they begin, their end at once, ";
            more.strip_prefix(at_once).map_or(format!(", and from then {more}"), |more| format!(", {more}"))
        };
        let text = format!("a primary user {late} after its burst begins, its end {}{then}", end(end_late));
        if !noticed_late.contains(&text) {
            noticed_late.push(text);
        }
    }
    // A length that follows from an announced schedule is no further news.
    let mut part = |name: &str, told: &ToldConfig, announced: bool| {
        let told = &ToldConfig { length_known: told.length_known && !announced, ..*told };
        let text = format!("{name} {}", one(told));
        let is_usual = told.is_exact() && !told.start_known && !told.length_known;
        // Its beginnings are foreseen.
        others_exact |= is_usual && !announced;
        if !is_usual && !parts.contains(&text) {
            parts.push(text);
        }
    };
    for (index, channel) in radio.channels.iter().enumerate() {
        let Some(user) = &channel.primary_user else { continue };
        if user.detection_delay.is_zero() && user.end_detection_delay.is_zero() {
            part("primary users", &ToldConfig { length_known: false, ..radio.signals.of_user(index) }, false);
        }
    }
    if let Some(own) = &radio.sensing {
        part("quiet periods", sensing, own.announced);
    }
    for own in &radio.station_sensing {
        part("stations' quiet periods", &radio.signals.of_station(own.station), own.sensing.announced);
    }
    if !radio.switching.scripted.is_empty() || radio.switching.policy == SwitchPolicy::OnPrimaryUser {
        part("channel switches", switching, false);
    }
    let parts: Vec<String> = noticed_late.into_iter().chain(parts).collect();
    let others = if others_exact { "; other silences at their first moment" } else { "" };
    (!parts.is_empty()).then(|| parts.join("; ") + others)
}

/// As [`describe`], of a trace's gaps, which are noticed by their length before anything is told of them.
pub(crate) fn describe_gaps(radio: &AirConfig) -> Option<String> {
    let told = ToldConfig { length_known: false, ..radio.signals.gaps };
    let is_usual = told.is_exact() && !told.start_known;
    (!is_usual).then(|| format!("silences {}", one(&told)))
}

fn end(late: Duration) -> String {
    lateness(late, Duration::ZERO, "at once")
}

/// How late, or `at_once`.
fn lateness(late: Duration, spread: Duration, at_once: &str) -> String {
    match (late.is_zero(), spread.is_zero()) {
        (true, true) => at_once.to_owned(),
        (false, true) => format!("{late} late"),
        (_, false) => format!("{late} to {} late", late + spread),
    }
}

fn one(told: &ToldConfig) -> String {
    let ToldConfig { start_known, length_known, missed, false_per_minute, false_length, .. } = told;
    let begun = lateness(told.late, told.late_spread, "as they begin");
    let mut text = format!("{begun}, their end {}", lateness(told.end_late, told.end_late_spread, "at once"));
    if *start_known {
        text.push_str(", each with its time");
    }
    if *length_known {
        text.push_str(", with how long they will be");
    }
    if *missed > Fraction::ZERO {
        text.push_str(&format!(", {} % not at all", 100.0 * missed.get()));
    }
    if *false_per_minute > 0.0 {
        text.push_str(&format!(", and {false_per_minute} false ones of {false_length} a minute"));
    }
    text
}
