//! What the ends of a QUIC flow and the ports amount to.

use linkhold_core::time::Instant;
use linkhold_results::{FlowSeries, QuicRecord};

use super::super::clock::instant;
use super::super::quic::{Counts, Look, QuicEnd};
use super::super::traffic::Completion;

/// The flows that have an end, as their applications saw it.
pub fn completions(ends: &[QuicEnd]) -> impl Iterator<Item = Completion> + '_ {
    ends.iter().filter(|end| end.flow.bytes.is_some()).map(|end| Completion {
        group: end.flow.group,
        station: end.flow.station,
        port: end.key.station.port,
        start_s: end.flow.start.as_secs_f64(),
        took_s: end.done.map(|at| at.since(instant(end.flow.start)).as_secs_f64()),
    })
}

/// What the sender counted after the warm-up. `never_arrived`: datagrams sent before that and in all, of
/// those that never reached the receiver.
pub fn record(end: &QuicEnd, never_arrived: [u64; 2], warm_up: Instant) -> QuicRecord {
    let [before, all] = end.counts;
    let counted = |of: fn(&Counts) -> u64| of(&all).saturating_sub(of(&before));
    let [not_before, not_at_all] = never_arrived;
    // What was lost shortly before the warm-up's end is declared after it, so the two are compared from the
    // flow's beginning, and what was found by then is taken off.
    let spurious_before = before.lost.saturating_sub(not_before);
    let spurious = all.lost.saturating_sub(not_at_all).saturating_sub(spurious_before);
    let looks = end.looks.iter().filter(|look| look.at >= warm_up).map(|look| look.rtt.as_secs_f64());
    let (sum, count) = looks.fold((0.0, 0.0), |(sum, count), rtt| (sum + rtt, count + 1.0));
    QuicRecord {
        sent: counted(|counts| counts.sent),
        declared_lost: counted(|counts| counts.lost),
        spurious,
        congestion_events: counted(|counts| counts.reductions),
        persistent_congestion: counted(|counts| counts.persistent),
        probe_timeouts: counted(|counts| counts.probe_timeouts),
        rtt_s: sum / count,
    }
}

/// Window and round trip at the end of each interval of the series, as the sender told them.
pub fn look_over_time(end: &QuicEnd, series: &mut FlowSeries) {
    let at = |t_s: &f64| end.looks.partition_point(|look| look.at.as_secs_f64() <= *t_s).checked_sub(1);
    let looks = |of: fn(&Look) -> f64| -> Vec<f64> {
        let seen = series.t_s.iter().map(|t_s| at(t_s).and_then(|index| end.looks.get(index)));
        seen.map(|look| look.map_or(f64::NAN, of)).collect()
    };
    let (cwnd, rtt) = (looks(|look| look.cwnd as f64), looks(|look| look.rtt.as_secs_f64()));
    (series.cwnd_bytes, series.rtt_s) = (cwnd, rtt);
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linkhold_core::packet::{Direction, Endpoint, FlowKey};

    use super::super::super::quic::QuicFlow;
    use super::super::super::topology::Family;
    use super::*;

    fn end(counts: [Counts; 2]) -> QuicEnd {
        let at = |port| Endpoint { addr: [10, 0, 0, 1].into(), port };
        let look =
            |ms, rtt| Look { at: Instant::from_millis(ms), cwnd: ms * 10, rtt: Duration::from_millis(rtt) };
        QuicEnd {
            flow: QuicFlow {
                group: 0,
                station: 0,
                direction: Direction::Downlink,
                bytes: None,
                datagram: 1472,
                start: Duration::ZERO,
                stop: None,
                family: Family::V4,
            },
            key: FlowKey { correspondent: at(1), station: at(2) },
            reads: Vec::new(),
            done: None,
            looks: vec![look(10, 900), look(1000, 20), look(2500, 40)],
            counts,
        }
    }

    #[test]
    fn a_loss_is_spurious_as_far_as_more_was_declared_than_never_arrived() {
        let counts =
            |lost| Counts { sent: 10 * lost, lost, reductions: lost / 10, persistent: 0, probe_timeouts: 3 };
        for (lost, never_arrived, spurious) in [
            // All that was lost was declared.
            ([40, 100], [40, 100], 0),
            // 30 were lost before the warm-up's end and declared after it.
            ([10, 100], [40, 100], 0),
            // 15 that arrived were declared lost before it, and 5 after it.
            ([40, 100], [25, 80], 5),
            // 20 are not declared yet.
            ([40, 100], [40, 120], 0),
        ] {
            let found = record(&end(lost.map(counts)), never_arrived, Instant::from_millis(1000));
            assert_eq!(found.spurious, spurious, "{lost:?} {never_arrived:?}");
            assert_eq!((found.declared_lost, found.sent), (lost[1] - lost[0], 10 * (lost[1] - lost[0])));
            assert_eq!((found.probe_timeouts, found.rtt_s), (0, 0.03));
        }
    }

    #[test]
    fn the_series_has_the_senders_last_look_in_each_interval() {
        let mut series = FlowSeries::new(0, linkhold_results::FlowDirection::Downlink);
        series.t_s = vec![0.005, 1.0, 2.0, 3.0];
        look_over_time(&end([Counts::default(); 2]), &mut series);
        assert!(series.cwnd_bytes[0].is_nan());
        assert_eq!(
            (&series.cwnd_bytes[1..], &series.rtt_s[1..]),
            (&[1e4, 1e4, 2.5e4][..], &[0.02, 0.02, 0.04][..])
        );
    }
}
