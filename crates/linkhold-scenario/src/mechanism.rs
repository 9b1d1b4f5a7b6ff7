//! A case's mechanism: a preset of `linkhold-core` with `[dsasync]` and the case's own `dsasync` on top.

use linkhold_core::dsasync::{DsaSyncConfig, Mode};

use crate::file::{CaseTable, DsaSync, File, MechanismName};
use crate::model::Mechanism;
use crate::read::{At, Reader, Spot};

pub(crate) fn resolve(file: &File, case: Option<&CaseTable>, reader: &Reader<'_>) -> Option<Mechanism> {
    let Some(case) = case else { return Some(Mechanism::None) };
    let preset = match *case.mechanism {
        MechanismName::None => {
            let mut idle: Vec<&Spot> = case.mode.iter().map(|at| &at.spot).collect();
            idle.extend(case.dsasync.iter().map(|at| &at.spot));
            for spot in idle {
                reader.report_between(
                    &[spot, &case.mechanism.spot],
                    "does nothing with mechanism = \"none\"",
                    "write mechanism = \"dsasync\" or remove it",
                );
            }
            return Some(Mechanism::None);
        }
        MechanismName::DsaSync => DsaSyncConfig::default(),
        MechanismName::Paper => DsaSyncConfig::paper(),
        MechanismName::Hold => DsaSyncConfig::hold_only(),
        MechanismName::Freeze => DsaSyncConfig::closing(Mode::Freeze),
        MechanismName::FreezeNudge => DsaSyncConfig::closing(Mode::FreezeNudge),
    };
    let mut config = preset;
    if let Some(mode) = &case.mode {
        config.mode = mode.value;
    }
    let tables: Vec<&At<DsaSync>> = file.dsasync.iter().chain(&case.dsasync).collect();
    for table in &tables {
        apply(&mut config, table);
    }
    thresholds(&config, &tables, reader).then_some(Mechanism::DsaSync(config))
}

/// Lays what the table states over `config`.
fn apply(config: &mut DsaSyncConfig, table: &DsaSync) {
    macro_rules! set {
        ($($key:ident => $field:expr, $value:expr;)*) => {$(
            if let Some(at) = &table.$key {
                $field = $value(&at.value);
            }
        )*};
    }
    if let Some(b_alloc) = &table.b_alloc {
        *config = config.with_b_alloc(b_alloc.0);
    }
    set! {
        close_at => config.close_at, |v: &_| *v;
        b_high => config.b_high, |v: &crate::scalar::Positive<_>| v.0;
        b_low => config.b_low, |v: &_| *v;
        max_held_packets => config.max_held_packets, |v: &crate::scalar::Positive<crate::scalar::Packets>| v.0.0;
        duplicates => config.duplicates, |v: &_| *v;
        reclaim => config.reclaim, |v: &_| *v;
        uplink => config.uplink.mode, |v: &_| *v;
        alpha_min => config.uplink.alpha_min, |v: &_| *v;
        uplink_limit => config.uplink.limit, |v: &crate::scalar::Positive<_>| v.0;
        uplink_max_delay => config.uplink.max_delay, |v: &crate::scalar::Positive<_>| v.0;
        window => config.monitor.window, |v: &crate::scalar::Positive<_>| v.0;
        max_silence => config.monitor.max_silence, |v: &crate::scalar::Positive<_>| v.0;
        alpha_form => config.monitor.alpha_form, |v: &_| *v;
        capacity => config.capacity, |v: &_| *v;
        rate_window => config.rate_window, |v: &crate::scalar::Positive<_>| v.0;
        clamp => config.clamp, |v: &_| *v;
        standing_queue => config.standing_queue, |v: &_| *v;
        transmit_queue => config.transmit_queue, |v: &_| *v;
        assumed_capacity => config.assumed_capacity, |v: &crate::scalar::Positive<_>| v.0;
        nudges => config.nudges, |v: &crate::scalar::Positive<_>| v.0;
        nudge_backoff => config.nudge_backoff, |v: &crate::scalar::Positive<_>| v.0;
        keep_back => config.keep_back, |v: &_| *v;
        keep_back_delay => config.keep_back_delay, |v: &_| *v;
        max_flows => config.max_flows, |v: &crate::scalar::Positive<_>| v.0;
    }
    // D is measured over the same Delta T as alpha.
    config.uplink.window = config.monitor.window;
}

/// B_alloc > B_high > B_low, reported at the last key that decides it.
fn thresholds(config: &DsaSyncConfig, tables: &[&At<DsaSync>], reader: &Reader<'_>) -> bool {
    let last = |key: fn(&DsaSync) -> Option<&Spot>| tables.iter().rev().find_map(|table| key(table));
    let b_low = last(|table| table.b_low.as_ref().map(|at| &at.spot));
    let b_high = last(|table| table.b_high.as_ref().map(|at| &at.spot));
    let b_alloc = last(|table| table.b_alloc.as_ref().map(|at| &at.spot));
    let report = |spots: [Option<&Spot>; 3], what: String, right: &str| {
        let spots: Vec<&Spot> = spots.into_iter().flatten().collect();
        reader.report_between(&spots, what, right);
    };
    let mut fine = true;
    if config.b_low >= config.b_high {
        let what = format!("B_low ({}) must be below B_high ({})", config.b_low, config.b_high);
        report([b_low, b_high, b_alloc], what, "write b_alloc > b_high > b_low");
        fine = false;
    }
    if config.b_high >= config.b_alloc {
        let what = format!("B_high ({}) must be below B_alloc ({})", config.b_high, config.b_alloc);
        report(
            [b_high, b_alloc, None],
            what,
            "free space never exceeds B_alloc, so closed windows would stay closed",
        );
        fine = false;
    }
    if fine && let Err(error) = config.validate() {
        let spots: Vec<&Spot> = tables.iter().map(|table| &table.spot).collect();
        reader.report_between(&spots, error.to_string(), "");
        fine = false;
    }
    fine
}
