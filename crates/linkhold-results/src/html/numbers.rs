//! The numbers of [`crate::format`] for running text, with no-break spaces: a line never ends between a
//! number and its unit.

use crate::format;

pub(super) use crate::format::MISSING;

fn joined(text: &str) -> String {
    text.replace(' ', "\u{a0}")
}

pub(super) fn rate(bps: f64) -> String {
    joined(&format::rate(bps))
}

pub(super) fn rate_with_half_width(bps: f64, half: f64) -> String {
    joined(&format::rate_with_half_width(bps, half))
}

pub(super) fn time(seconds: f64) -> String {
    joined(&format::time(seconds))
}

pub(super) fn percent(share: f64) -> String {
    joined(&format::percent(share))
}

pub(super) fn count(value: f64) -> String {
    format::count(value)
}

pub(super) fn number(value: f64) -> String {
    format::number(value)
}

pub(super) fn with_unit(value: f64, unit: &str) -> String {
    joined(&format::with_unit(value, unit))
}

pub(super) fn ratio(value: f64, ci95: Option<[f64; 2]>) -> String {
    joined(&format::ratio(value, ci95))
}

pub(super) fn interval(low: f64, high: f64) -> String {
    joined(&format::interval(low, high))
}
