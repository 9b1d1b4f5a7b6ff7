//! NewReno: a partial ACK in fast recovery shows the next hole. Recovery lasts until everything that was
//! outstanding at its start is acknowledged.
//!
//! Source: RFC 6582 section 3.2.
//! counting -> (third duplicate beyond recover) recovering -> (full ACK) counting.

use super::reno::Reno;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NewReno {
    pub reno: Reno,
    /// The offset just after the highest byte sent at the last fast retransmit or timeout. A window reduced
    /// for ECN leaves it alone.
    recover: u64,
    first_partial_seen: bool,
}

impl NewReno {
    /// Step 2: only when the cumulative ACK covers more than `recover`; equality means all of it and no more.
    pub fn may_enter(&self, una: u64) -> bool {
        una > self.recover
    }

    pub fn enter(&mut self, mss: u64, nxt: u64) {
        self.reno.enter(mss);
        self.recover = nxt;
        self.first_partial_seen = false;
    }

    /// Step 4: the duplicates of what was sent before a timeout start no fast retransmit.
    pub fn on_timeout(&mut self, nxt: u64) {
        self.reno.reset();
        self.ignore_duplicates_below(nxt);
    }

    pub fn ignore_duplicates_below(&mut self, nxt: u64) {
        self.recover = nxt;
    }

    /// Step 3, partial ACK. True if the retransmission timer restarts: for the first one only (the
    /// "Impatient" variant, section 4).
    pub fn on_partial(&mut self, acked: u64, mss: u64) -> bool {
        self.reno.deflate(acked, mss);
        !core::mem::replace(&mut self.first_partial_seen, true)
    }

    /// Step 3, full ACK, option 1: cwnd = min (ssthresh, max (FlightSize, SMSS) + SMSS).
    pub fn window_after(ssthresh: u64, flight: u64, mss: u64) -> u64 {
        ssthresh.min(flight.max(mss) + mss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partial_ack_deflates_by_what_it_acknowledges_and_adds_a_segment() {
        let mut newreno = NewReno::default();
        newreno.enter(1000, 9000);
        assert!(newreno.on_partial(2000, 1000), "the first restarts the timer");
        assert_eq!(newreno.reno.allowance(true, 1000), 2000);
        assert!(!newreno.on_partial(1000, 1000), "the second does not");
    }

    #[test]
    fn duplicates_of_data_sent_before_the_timeout_do_not_retransmit() {
        let mut newreno = NewReno::default();
        newreno.on_timeout(5000);
        assert!(!newreno.may_enter(5000));
        assert!(newreno.may_enter(5001));
    }

    #[test]
    fn a_full_ack_does_not_leave_room_for_a_burst() {
        assert_eq!(NewReno::window_after(10_000, 3000, 1000), 4000);
        assert_eq!(NewReno::window_after(10_000, 0, 1000), 2000);
        assert_eq!(NewReno::window_after(10_000, 50_000, 1000), 10_000);
    }
}
