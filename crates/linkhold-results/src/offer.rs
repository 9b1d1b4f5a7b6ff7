//! What the radio offered each case. Cases of one file mostly have the same radio and differ in what stands
//! at the router; where a case sets keys of the radio, or its packets are of another size, a mean over cases
//! would be nobody's.

use crate::record::{RunRecord, RunReport, Stack};

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

/// What the seeds of a report have of silences: intervals over seeds tell only of what differs between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silences {
    /// No run had any.
    None,
    /// Every seed had the same: those of a log or a schedule.
    Same,
    /// Each seed had its own.
    Own,
}

impl Silences {
    /// Those of a report.
    pub(crate) fn of(report: &RunReport) -> Self {
        let silent = |run: &RunRecord| {
            run.link.silences > 0 || run.link.station_silent_fraction.iter().any(|share| *share > 0.0)
        };
        if !report.runs.iter().any(silent) {
            return Self::None;
        }
        let same = report.cases().into_iter().all(|case| {
            let mut runs = report.runs_of(case);
            let Some(first) = runs.next() else { return true };
            runs.all(|run| run.link.silences == first.link.silences && is_silent_alike(run, first))
        });
        if same { Self::Same } else { Self::Own }
    }
}

/// Whether each station was silent for as long in both runs. On the testbed a run ends by the real clock.
fn is_silent_alike(one: &RunRecord, other: &RunRecord) -> bool {
    const CLOCK: f64 = 5e-4;
    let most = if one.stack == Stack::Linux { CLOCK } else { 0.0 };
    let shares = |run: &RunRecord| {
        let stations = run.link.station_silent_fraction.iter().copied();
        std::iter::once(run.link.silent_fraction).chain(stations).collect::<Vec<_>>()
    };
    let (one, other) = (shares(one), shares(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(a, b)| (a - b).abs() <= most)
}

/// The least and the greatest time that cases ran, s, if they did not all run for as long.
pub(crate) fn run_times(report: &RunReport) -> Option<(f64, f64)> {
    let times = report.runs.iter().map(|run| run.sim_s);
    let (least, most) =
        times.fold((f64::INFINITY, 0.0_f64), |(least, most), time| (time.min(least), time.max(most)));
    (most - least > ALIKE * most).then_some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_alike_but_for_rounding() {
        let (mut report, _) = crate::sample::run(3);
        let Offers::Alike(all) = Offers::of(&report) else { panic!("the sample has one radio") };
        assert!((all.silent - 0.25).abs() < 1e-4 && all.capacity_bps == 18e6);
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

    #[test]
    fn seeds_that_share_their_silences_are_told_from_those_that_do_not() {
        let (mut report, _) = crate::sample::run(3);
        assert_eq!(Silences::of(&report), Silences::Own);
        for run in &mut report.runs {
            (run.link.silences, run.link.silent_fraction) = (7, 0.2);
        }
        assert_eq!(Silences::of(&report), Silences::Same);
        let one = |report: &mut RunReport, change: fn(&mut RunRecord)| change(&mut report.runs[1]);
        let changes: [fn(&mut RunRecord); 3] = [
            |run| run.link.silences = 8,
            |run| run.link.silent_fraction = 0.2001,
            |run| run.link.station_silent_fraction[0] += 1e-6,
        ];
        for change in changes {
            let mut changed = report.clone();
            one(&mut changed, change);
            assert_eq!(Silences::of(&changed), Silences::Own);
        }
        for run in &mut report.runs {
            run.link.silences = 0;
        }
        assert_eq!(Silences::of(&report), Silences::Same, "stations have silences of their own");
        for run in &mut report.runs {
            run.link.station_silent_fraction[0] = 0.0;
        }
        assert_eq!(Silences::of(&report), Silences::None);
    }
}
