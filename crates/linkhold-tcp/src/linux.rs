//! Where the kernel does other than the RFCs say, or fills what they leave open: one method for each
//! difference.
//!
//! Source: Linux 6.x, `net/ipv4/tcp_input.c`, `tcp_output.c`, `tcp_timer.c`, `tcp_recovery.c` and
//! `tcp_cubic.c`, read and then confirmed against a running kernel. Each method names its function first and
//! what the RFC says after it. A sender asks [`Quirks`] and never [`Details`], so what a profile changes
//! is decided in this file alone.

use linkhold_core::time::Duration;

use crate::config::Details;
use crate::recovery::CaState;
use crate::recovery::rack::{TIMEOUT_MIN, WORST_DELAYED_ACK};

/// The answers that [`Details`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quirks {
    linux: bool,
}

/// The timers.
impl Quirks {
    pub const fn new(details: Details) -> Self {
        Self {
            linux: match details {
                Details::Rfc => false,
                Details::Linux => true,
            },
        }
    }

    /// `tcp_init_metrics`: after a SYN that timed out the RTO falls back to 3 s only if the handshake has
    /// given no RTT, which timestamps do. By RFC 6298 (5.7) it does in any case.
    pub const fn handshake_rtt_spares_fallback(self) -> bool {
        self.linux
    }

    /// Whether data begin with one segment after a SYN or SYN-ACK was sent `again`, `timeouts` times for its
    /// timer and else because the peer's SYN came again. `tcp_init_transfer` forgives one, and all of them if
    /// none was for the timer (`tcp_create_openreq_child`, `num_timeout`) or if the peer echoes the first
    /// (`tcp_try_undo_spurious_syn`), which so was not lost. RFC 5681 (3.1) forgives none.
    pub const fn handshake_costs_window(self, again: u32, timeouts: u32, first_echoed: bool) -> bool {
        if self.linux { again > 1 && timeouts > 0 && !first_echoed } else { again > 0 }
    }

    /// `tcp_retransmit_timer` (`sysctl_tcp_syn_linear_timeouts`, since 6.5): so many timeouts of a SYN leave
    /// the next one as long as it was. SYN-ACKs have no such rule (`reqsk_timer_handler`). By RFC 6298 (5.5)
    /// each timeout doubles.
    pub const fn linear_syn_timeouts(self) -> u32 {
        if self.linux { 4 } else { 0 }
    }

    /// `tcp_xmit_retransmit_queue`: a retransmission of the head restarts the timeout, unless the reordering
    /// timer runs. RFC 6298 (5.1) starts a timer only where none runs.
    pub const fn head_retransmission_restarts_timer(self) -> bool {
        self.linux
    }

    /// `tcp_ack` (`tcp_set_xmit_timer`): the timer is set for the state that the ACK leads to. RFC 6298 (5.3)
    /// has no order; the other profiles set it as soon as data is acknowledged.
    pub const fn timer_follows_state(self) -> bool {
        self.linux
    }

    /// `tcp_ack` (`tcp_rearm_rto`): each partial ACK restarts the timer in NewReno's recovery, too, the
    /// "Slow-but-Steady" variant of RFC 6582 section 4. Its section 3.2 has the "Impatient" one: the first
    /// alone does.
    pub const fn partial_ack_restarts_timer(self) -> bool {
        self.linux
    }

    /// `tcp_clean_rtx_queue` (`FLAG_SET_XMIT_TIMER`): a SACK of something that was sent before the head
    /// restarts the timer. By RFC 6298 (5.3) only an ACK of new data does.
    pub const fn sack_of_older_restarts_timer(self) -> bool {
        self.linux
    }

    /// `tcp_rearm_rto`: when a loss probe or the reordering timer has put the timeout off, the timeout counts
    /// from the head's transmission. RFC 8985 starts it anew.
    pub const fn timeout_counts_from_head(self) -> bool {
        self.linux
    }

    /// `tcp_send_loss_probe`: a probe that cannot go (a closed window, or one that is out already) does not
    /// put the timeout off. RFC 8985 section 7.3 restarts the timeout in any case.
    pub const fn blocked_probe_keeps_timeout(self) -> bool {
        self.linux
    }

    /// `tcp_schedule_loss_probe`: no probe is scheduled while anything is SACKed or lost; whether one is
    /// outstanding is asked when the timer fires. RFC 8985 section 7.2 asks for an outstanding probe here.
    pub const fn probe_wants_clean_board(self) -> bool {
        self.linux
    }

    /// `tcp_schedule_loss_probe`: an ACK of new data bounds the probe by a timeout that starts now. In RFC
    /// 8985 section 7.2 the bound counts from the head's transmission.
    pub const fn probe_bound_restarts_at_ack(self) -> bool {
        self.linux
    }

    /// `tcp_rack_mark_lost`: what is added to the reordering timer. RFC 8985 section 6.2 step 5 adds nothing.
    pub const fn reordering_slack(self) -> Duration {
        if self.linux { TIMEOUT_MIN } else { Duration::ZERO }
    }

    /// `tcp_rack_reo_timeout`: the reordering timer does not wait a second time, leaves the loss state for
    /// recovery, and lets one retransmission go (`tcp_cwnd_reduction (sk, 1, 1, 0)`), while ACKs clock the
    /// rest. RFC 8985 section 6.3 detects losses as an ACK does.
    pub const fn reordering_timeout_acts_at_once(self) -> bool {
        self.linux
    }
}

/// The retransmission timeout (`tcp_enter_loss`).
impl Quirks {
    /// Whether a timeout in `state` reduces the window, when `timeouts` have been counted since the last
    /// progress. Linux does so once more for each stretch without progress, and not where ECN or fast
    /// recovery has reduced the window already. RFC 5681 section 3.1 holds ssthresh only for what the timer
    /// has sent again before; after a fast retransmit a timeout is a second indication of congestion (section
    /// 4.3).
    pub const fn timeout_reduces(self, state: CaState, timeouts: u32) -> bool {
        match state {
            CaState::Open => true,
            CaState::Cwr | CaState::Recovery => !self.linux,
            CaState::Loss => self.linux && timeouts == 0,
        }
    }

    /// `tcp_enter_loss` (`CA_EVENT_LOSS`, `tcp_ca_loss`): a timeout that does not reduce the window resets
    /// the congestion control all the same. RFC 5681 has no such case but the repeated timeout.
    pub const fn every_timeout_resets_controller(self) -> bool {
        self.linux
    }

    /// Whether F-RTO judges a timeout in `state`. Linux does not begin in a recovery that is under way, save
    /// by a further timeout of the same segment (RFC 5682 section 2.1 step 1).
    pub const fn timeout_asks_frto(self, state: CaState, timeouts: u32) -> bool {
        !self.linux || matches!(state, CaState::Open | CaState::Cwr) || timeouts > 0
    }

    /// `tcp_timeout_mark_lost`: a timeout gives no time for reordering. RFC 8985 section 6.3 gives the
    /// reordering window.
    pub const fn timeout_ignores_reordering(self) -> bool {
        self.linux
    }
}

/// Entering fast recovery (`tcp_enter_recovery`), and reductions for marks (`tcp_enter_cwr`).
impl Quirks {
    /// `tcp_in_cwnd_reduction`: a window reduced for ECN is not reduced again while its state lasts, which is
    /// until something above `high_seq` is acknowledged. By RFC 3168 section 6.1.2 the loss of the segment
    /// with CWR, the first above it, reduces again.
    pub const fn reduction_for_a_mark_covers_cwr(self) -> bool {
        self.linux
    }
}

/// Undo.
impl Quirks {
    /// `retrans_stamp` is cleared only when all is well again: a reduction within an episode (`state` is
    /// Recovery or Loss) is judged by the episode's first retransmission. RFC 3522 section 3.2 knows one
    /// recovery at a time.
    pub const fn episode_keeps_first_retransmission(self, state: CaState) -> bool {
        self.linux && matches!(state, CaState::Recovery | CaState::Loss)
    }

    /// `tcp_current_ssthresh`: of a window beyond ssthresh, 3/4 is remembered as what it was good for, except
    /// during a reduction. RFC 4015 section 3.2 restores what was there.
    pub const fn remembers_three_quarters(self) -> bool {
        self.linux
    }

    /// `tcp_undo_cwnd_reduction`: undo brings back cwnd and ssthresh, not what the congestion control
    /// remembers. RFC 9438 section 4.9.2 restores that too.
    pub const fn undo_leaves_controller(self) -> bool {
        self.linux
    }

    /// `tcp_ack_update_rtt`: only a valid RTT sample resets the RTO's backoff, so undo leaves it. The other
    /// profiles reset it with the undo.
    pub const fn undo_leaves_backoff(self) -> bool {
        self.linux
    }

    /// `tcp_try_undo_partial`: a partial ACK whose hole the delayed original filled is a sign of reordering,
    /// and nothing more is retransmitted for it. RFC 3522 has no such case.
    pub const fn partial_undo_is_reordering(self) -> bool {
        self.linux
    }

    /// `tcp_dsack_seen`: D-SACKs of more segments than were ever retransmitted are somebody else's doing and
    /// are ignored; RACK ignores also those of a tail loss probe, which no reordering made go, and all
    /// until reordering was seen. By RFC 3708 and RFC 8985 section 6.2 step 4 every one counts.
    pub const fn doubts_dsacks(self) -> bool {
        self.linux
    }

    /// `tcp_try_undo_dsack`: D-SACKs for every retransmission end a recovery that is under way. RFC 3708
    /// section 3 judges when it is over.
    pub const fn dsacks_end_recovery(self) -> bool {
        self.linux
    }

    /// `tcp_try_undo_recovery`: the ACK that ends the loss state may prove it needless. RFC 5682 has decided
    /// before.
    pub const fn last_ack_may_undo_loss(self) -> bool {
        self.linux
    }

    /// `tcp_fastretrans_alert`: in the loss state losses are looked for after the undo was tried, and a lost
    /// retransmission leads to recovery. By RFC 6675 and 8985 ACKs there only mark what is lost.
    pub const fn loss_state_may_recover(self) -> bool {
        self.linux
    }
}

/// What is measured and counted.
impl Quirks {
    /// `tcp_ack_update_rtt`: SACKed segments are asked for the RTT before timestamps are. RFC 7323 section
    /// 4.1 asks timestamps.
    pub const fn sacks_time_before_timestamps(self) -> bool {
        self.linux
    }

    /// `tcp_clean_rtx_queue` (`ca_rtt_us`): the congestion control hears the RTT of SACKed segments, and the
    /// timestamps' where there is none. The other profiles tell it of cumulatively acknowledged segments
    /// only.
    pub const fn controller_hears_every_rtt(self) -> bool {
        self.linux
    }

    /// `tcp_cwnd_reduction`: below ssthresh the reduction conserves packets while losses go on, and it starts
    /// from cwnd. RFC 6937 section 3 has its slow start reduction bound, and starts from FlightSize. The
    /// kernel reduces so for an ECN echo, too, where RFC 3168 section 6.1.2 halves at once; without SACK it
    /// is at once here as well.
    pub const fn reduction_conserves_packets(self) -> bool {
        self.linux
    }
}

/// Tail loss probes.
impl Quirks {
    /// `tcp_schedule_loss_probe`: the worst delayed ACK is taken to be the least RTO. RFC 8985 section 7.2
    /// has 200 ms for an example.
    pub fn worst_delayed_ack(self, rto_min: Duration) -> Duration {
        if self.linux { rto_min } else { WORST_DELAYED_ACK }
    }
}

/// CUBIC and HyStart.
impl Quirks {
    /// `CA_EVENT_TX_START` (`cubictcp_cwnd_event`): only time with nothing in flight does not count. RFC 9438
    /// section 5.8 leaves out all time in which cwnd is not the limit, too.
    pub const fn cubic_counts_unlimited_time(self) -> bool {
        self.linux
    }

    /// `bictcp_update`: W_est has the same slope above the last maximum. RFC 9438 section 4.3 has Reno's
    /// there.
    pub const fn cubic_has_one_slope(self) -> bool {
        self.linux
    }

    /// `bictcp_update` (`cnt`): growth per segment acknowledged is half a segment at most, and a twentieth at
    /// least while no maximum is known. RFC 9438 section 4.2 only bounds the target.
    pub const fn cubic_bounds_growth(self) -> bool {
        self.linux
    }

    /// `bictcp_update` (`delay_min`): the cubic is looked at the least RTT since the last timeout ahead. By
    /// RFC 9438 section 4.2 it is the smoothed one.
    pub const fn cubic_looks_the_least_rtt_ahead(self) -> bool {
        self.linux
    }

    /// `bictcp_reset`: a timeout forgets everything. RFC 9438 section 4.8 forgets the maximum.
    pub const fn cubic_timeout_forgets_all(self) -> bool {
        self.linux
    }

    /// `hystart_update`: a train of ACKs half a round trip long ends slow start (`HYSTART_ACK_TRAIN`). RFC
    /// 9406 judges the delay alone.
    pub const fn hystart_judges_trains(self) -> bool {
        self.linux
    }
}
