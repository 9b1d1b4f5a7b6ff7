//! What the radio offered each case. Cases of one file mostly have the same radio and differ in what stands
//! at the router; where a case sets keys of the radio, or its packets are of another size, a mean over cases
//! would be nobody's.

use crate::record::{RunRecord, RunReport};

/// Cases whose numbers differ by no more than this share are alike: rounding, and on the testbed the real
/// clock.
const ALIKE: f64 = 0.005;

/// What the radio offered, in the mean over runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Offer {
    /// Goodput of a perfect transport, bit/s.
    pub limit_bps: f64,
    /// Capacity, bit/s.
    pub capacity_bps: f64,
    /// Share of the time in which the radio was silent.
    pub silent: f64,
}

/// What the radio offered the cases of a report.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Offers<'a> {
    /// The same to all.
    Alike(Offer),
    /// Not the same: each case's, in the report's order.
    ByCase(Vec<(&'a str, Offer)>),
}

impl Offer {
    fn of<'r>(runs: impl Iterator<Item = &'r RunRecord>) -> Self {
        let (mut sum, mut count) = (Self { limit_bps: 0.0, capacity_bps: 0.0, silent: 0.0 }, 0.0);
        for run in runs {
            sum.limit_bps += run.link.goodput_limit_bps;
            sum.capacity_bps += run.link.capacity_mean_bps;
            sum.silent += run.link.silent_fraction;
            count += 1.0;
        }
        Self {
            limit_bps: sum.limit_bps / count,
            capacity_bps: sum.capacity_bps / count,
            silent: sum.silent / count,
        }
    }

    /// Whether two cases were not offered the same. What is not known differs from nothing.
    fn differs_from(&self, other: &Self) -> bool {
        let apart = |a: f64, b: f64| (a - b).abs() > ALIKE * a.abs().max(b.abs());
        apart(self.limit_bps, other.limit_bps)
            || apart(self.capacity_bps, other.capacity_bps)
            || (self.silent - other.silent).abs() > ALIKE
    }
}

impl<'a> Offers<'a> {
    /// Those of a report.
    pub(crate) fn of(report: &'a RunReport) -> Self {
        let cases = report.cases();
        let each: Vec<(&str, Offer)> =
            cases.into_iter().map(|case| (case, Offer::of(report.runs_of(case)))).collect();
        let differs = each.iter().any(|(_, one)| each.iter().any(|(_, other)| one.differs_from(other)));
        if differs { Self::ByCase(each) } else { Self::Alike(Offer::of(report.runs.iter())) }
    }

    /// Whether all cases were offered the same.
    pub(crate) const fn are_alike(&self) -> bool {
        matches!(self, Self::Alike(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_alike_but_for_rounding() {
        let (mut report, _) = crate::sample::run(3);
        let Offers::Alike(all) = Offers::of(&report) else { panic!("the sample has one radio") };
        assert!((all.silent - 0.25).abs() < 1e-9 && all.capacity_bps == 18e6);
        for run in report.runs.iter_mut().filter(|run| run.case == "hold") {
            run.link.goodput_limit_bps *= 1.002;
        }
        assert!(Offers::of(&report).are_alike());
        for run in report.runs.iter_mut().filter(|run| run.case == "hold") {
            run.link.goodput_limit_bps *= 2.0;
        }
        let Offers::ByCase(each) = Offers::of(&report) else { panic!("one has twice the limit") };
        assert_eq!(each.iter().map(|(case, _)| *case).collect::<Vec<_>>(), report.cases());
        // A limit that nobody knows is the same for all.
        for run in &mut report.runs {
            run.link.goodput_limit_bps = f64::NAN;
        }
        assert!(Offers::of(&report).are_alike());
    }
}
