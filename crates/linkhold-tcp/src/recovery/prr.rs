//! Proportional rate reduction: in fast recovery the window falls to ssthresh evenly, clocked by what is
//! delivered.
//!
//! Source: RFC 6937 section 3, with the slow start reduction bound (PRR-SSRB); Linux `tcp_cwnd_reduction`
//! bounds it by packet conservation (PRR-CRB) while losses go on.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Prr {
    /// RecoverFS: FlightSize at the start of recovery.
    recover_flight: u64,
    delivered: u64,
    out: u64,
}

impl Prr {
    /// Recovery begins.
    pub fn begin(&mut self, flight: u64) {
        *self = Self { recover_flight: flight.max(1), delivered: 0, out: 0 };
    }

    /// An ACK in recovery: cwnd.
    pub fn on_ack(&mut self, delivered: u64, pipe: u64, ssthresh: u64, mss: u64) -> u64 {
        self.delivered += delivered;
        let send = if pipe > ssthresh {
            self.proportional(ssthresh)
        } else {
            // PRR-SSRB: limit = MAX (prr_delivered - prr_out, DeliveredData) + MSS.
            let limit = self.delivered.saturating_sub(self.out).max(delivered) + mss;
            (ssthresh - pipe).min(limit)
        };
        pipe + send
    }

    /// The same as Linux `tcp_cwnd_reduction` has it: the window that the episode began with in RecoverFS's
    /// place ([`begin`](Self::begin)), and below ssthresh one segment more than is delivered only for an ACK
    /// that advances and tells of no loss (`advanced_clean`).
    pub fn on_ack_linux(
        &mut self,
        delivered: u64,
        advanced_clean: bool,
        pipe: u64,
        ssthresh: u64,
        mss: u64,
    ) -> u64 {
        self.delivered += delivered;
        let send = if pipe > ssthresh {
            self.proportional(ssthresh)
        } else {
            let conserved = self.delivered.saturating_sub(self.out).max(delivered);
            (conserved + if advanced_clean { mss } else { 0 }).min(ssthresh - pipe)
        };
        // The first retransmission goes out whatever the sums say.
        pipe + if self.out == 0 { send.max(mss) } else { send }
    }

    /// Proportional part: sndcnt = CEIL (prr_delivered * ssthresh / RecoverFS) - prr_out.
    fn proportional(&self, ssthresh: u64) -> u64 {
        let share =
            (u128::from(self.delivered) * u128::from(ssthresh)).div_ceil(u128::from(self.recover_flight));
        (share as u64).saturating_sub(self.out)
    }

    /// Data was sent in recovery.
    pub fn on_sent(&mut self, bytes: u64) {
        self.out += bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_falls_by_one_segment_for_every_two_delivered() {
        // RFC 6937 section 4's figure: 20 segments out, one lost, ssthresh 10. About one segment goes out for
        // every two that arrive, so that pipe ends at ssthresh.
        let mut prr = Prr::default();
        prr.begin(20);
        let (mut pipe, mut sent) = (19, 0);
        for _ in 0..19 {
            pipe -= 1;
            let cwnd = prr.on_ack(1, pipe, 10, 1);
            let send = cwnd - pipe;
            prr.on_sent(send);
            pipe += send;
            sent += send;
        }
        assert_eq!(pipe, 10);
        assert!((9..=11).contains(&sent), "{sent}");
    }

    #[test]
    fn linux_conserves_packets_while_losses_go_on() {
        let mut prr = Prr::default();
        prr.begin(20);
        assert_eq!(prr.on_ack_linux(1, false, 4, 10, 1), 4 + 1);
        prr.on_sent(1);
        assert_eq!(prr.on_ack_linux(1, false, 5, 10, 1), 5 + 1, "as many as arrived");
        prr.on_sent(1);
        assert_eq!(prr.on_ack_linux(1, true, 5, 10, 1), 5 + 2, "one more: SND.UNA moved and nothing is lost");
    }

    #[test]
    fn after_heavy_losses_it_builds_up_by_at_most_one_extra_segment_an_ack() {
        let mut prr = Prr::default();
        prr.begin(20);
        assert_eq!(prr.on_ack(1, 4, 10, 1), 4 + 2);
        prr.on_sent(2);
        assert_eq!(prr.on_ack(1, 5, 10, 1), 5 + 2);
    }
}
