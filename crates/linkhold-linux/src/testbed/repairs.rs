//! What the kernel's senders repaired, by flow: of each flow what was measured of it, and nothing of what was
//! not.
//!
//! A socket tells its own timeouts (`tcpi_total_rto`, since Linux 6.7). All else only the namespace counts,
//! for all of its connections together. So it is a flow's number only where no other flow sends from there.
//! iperf3's control connection lies beside it, and sends some packets at the start and the end of its test.
//! As in the simulator (`linkhold_sim::meter`), nothing before the end of the warm-up counts, nor the time
//! before a connection is established. A look is [`SOCKET_INTERVAL`](super::watched::SOCKET_INTERVAL) from
//! the next, so a timeout that close before the end of the warm-up may count.

use linkhold_core::time::{Duration, Instant};
use linkhold_results::FlowRecord;

use super::kernel::Counters;
use super::watched::WindowSample;

/// Least retransmission timeout of the kernel (`TCP_RTO_MIN`, linux/net/tcp.h).
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);

/// What was seen of one flow's sender.
pub(super) struct Sender<'a> {
    /// The looks at its socket, in the order of time.
    pub looks: &'a [&'a WindowSample],
    /// What its namespace counted after the warm-up, if no other flow sends from there.
    pub alone: Option<&'a Counters>,
    /// How long the flow lasted.
    pub lived: Duration,
}

impl Sender<'_> {
    /// Sets what is known of the repairs of a flow of TCP.
    pub fn tell(&self, record: &mut FlowRecord, warm_up: Instant) {
        record.rto_events = self.timeouts(warm_up).or_else(|| self.counted(&["TCPTimeouts"]));
        // TCPSpuriousRTOs has only those of F-RTO. TCPLossUndo has those of timestamps, too, which the
        // simulator counts as well.
        record.spurious_rtos = self.counted(&["TCPLossUndo"]);
        record.fast_recoveries = self.counted(&["TCPSackRecovery", "TCPRenoRecovery"]);
    }

    /// The timeouts that the socket tells after the warm-up; `None` if the kernel does not tell them.
    fn timeouts(&self, warm_up: Instant) -> Option<u64> {
        let warm_up_s = warm_up.as_secs_f64();
        let (Some(first), Some(last)) = (self.looks.first(), self.looks.last()) else {
            // Too short for a look, and for a timeout.
            return (self.lived < LEAST_TIMEOUT).then_some(0);
        };
        let base = self.looks.iter().rfind(|look| look.at_s <= warm_up_s).unwrap_or(first);
        // The kernel's counter has 16 bits.
        Some(u64::from(last.timeouts?.wrapping_sub(base.timeouts?)))
    }

    fn counted(&self, names: &[&str]) -> Option<u64> {
        let counters = self.alone?;
        names.iter().map(|name| counters.get(*name).copied()).sum()
    }
}

/// The timeouts at the end of each of `count` intervals since the connection was established, as its socket
/// tells them; empty if the kernel does not tell.
pub(super) fn timeouts_over_time(looks: &[&WindowSample], interval_s: f64, count: usize) -> Vec<u64> {
    let Some(base) = looks.first().and_then(|look| look.timeouts) else { return Vec::new() };
    let (mut looks, mut timeouts) = (looks.iter().peekable(), 0);
    let at_end = |index: usize| {
        let end_s = (index + 1) as f64 * interval_s;
        while let Some(look) = looks.next_if(|look| look.at_s <= end_s) {
            timeouts = look.timeouts.map_or(timeouts, |total| u64::from(total.wrapping_sub(base)));
        }
        timeouts
    };
    (0..count).map(at_end).collect()
}

/// Sets that a flow of UDP repairs nothing, and that QUIC has no retransmission timeout (its probe timeouts
/// are counted apart).
pub(super) fn tell_of_datagrams(record: &mut FlowRecord) {
    record.rto_events = Some(0);
    record.spurious_rtos = Some(0);
    record.kept_rtos = Some(0);
    record.fast_recoveries = Some(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at (ms, timeouts so far).
    fn looks(told: &[(u64, Option<u16>)]) -> Vec<WindowSample> {
        let look = |&(at_ms, timeouts): &(u64, Option<u16>)| WindowSample {
            at_s: at_ms as f64 / 1e3,
            timeouts,
            ..WindowSample::default()
        };
        told.iter().map(look).collect()
    }

    fn told(looks: &[WindowSample], alone: Option<&Counters>, lived_ms: u64) -> FlowRecord {
        let looks: Vec<&WindowSample> = looks.iter().collect();
        let mut record = FlowRecord::default();
        let sender = Sender { looks: &looks, alone, lived: Duration::from_millis(lived_ms) };
        sender.tell(&mut record, Instant::from_millis(3000));
        record
    }

    fn counters() -> Counters {
        [("TCPTimeouts", 9), ("TCPLossUndo", 4), ("TCPSackRecovery", 2), ("TCPRenoRecovery", 1)]
            .map(|(name, count)| (name.to_owned(), count))
            .into()
    }

    #[test]
    fn a_sockets_timeouts_count_from_the_end_of_the_warm_up() {
        let looks_from_start = looks(&[(0, Some(1)), (2990, Some(3)), (3010, Some(4)), (5000, Some(7))]);
        let later = looks(&[(4000, Some(2)), (5000, Some(3))]);
        for (looks, timeouts) in [(looks_from_start, 4), (later, 1)] {
            // The namespace's counters have what is not of this flow, such as iperf3's control connection.
            for alone in [None, Some(&counters())] {
                assert_eq!(told(&looks, alone, 5000).rto_events, Some(timeouts));
            }
        }
    }

    #[test]
    fn what_only_the_namespace_counts_is_told_of_a_flow_that_is_alone_there() {
        let looks = looks(&[(0, None), (5000, None)]);
        let of = |record: FlowRecord| (record.rto_events, record.spurious_rtos, record.fast_recoveries);
        assert_eq!(of(told(&looks, Some(&counters()), 5000)), (Some(9), Some(4), Some(3)));
        assert_eq!(of(told(&looks, None, 5000)), (None, None, None));
        let older = Counters::from([("TCPTimeouts".to_owned(), 9)]);
        assert_eq!(
            of(told(&looks, Some(&older), 5000)),
            (Some(9), None, None),
            "a counter that is not there"
        );
    }

    #[test]
    fn a_flow_that_no_look_met_had_no_timeout_if_it_was_too_short_for_one() {
        assert_eq!(told(&[], None, 150).rto_events, Some(0));
        assert_eq!(told(&[], None, 250).rto_events, None);
    }

    #[test]
    fn timeouts_over_time_leave_out_those_of_the_handshake() {
        let over_time =
            |looks: &[WindowSample]| timeouts_over_time(&looks.iter().collect::<Vec<_>>(), 1.0, 3);
        assert_eq!(over_time(&looks(&[(500, Some(2)), (1900, Some(3)), (2500, Some(5))])), [0, 1, 3]);
        assert!(over_time(&looks(&[(500, None), (1900, None)])).is_empty());
        assert!(over_time(&[]).is_empty());
    }
}
