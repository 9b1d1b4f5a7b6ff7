//! Loss recovery: how losses are found, and what is done about them. One file per algorithm.
//!
//! The sender keeps the congestion state and asks its [`Detector`]; the algorithms keep only their own
//! variables.

pub(crate) mod frto;
pub(crate) mod newreno;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod reno;
pub(crate) mod sack;
mod state;
pub(crate) mod undo;

use linkhold_core::time::{Duration, Instant};

use self::newreno::NewReno;
use self::rack::{Detected, PathTimes, Rack};
use self::reno::Reno;
use self::sack::Sack;
use crate::config::Recovery;
use crate::linux::Quirks;
use crate::scoreboard::{AckSummary, Scoreboard};
pub(crate) use state::{CaState, DUP_THRESH};

/// The loss detector in use.
#[derive(Clone, Debug)]
pub(crate) enum Detector {
    Reno(Reno),
    NewReno(NewReno),
    Sack(Sack),
    Rack(Rack),
}

/// What one ACK tells a detector.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    pub now: Instant,
    /// SND.UNA after the ACK.
    pub una: u64,
    /// Bytes newly acknowledged cumulatively.
    pub acked: u64,
    /// A duplicate ACK (RFC 5681 section 2; with SACK, RFC 6675 section 2).
    pub duplicate: bool,
    pub path: PathTimes,
}

/// What an ACK below the recovery point does to fast recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Partial {
    /// Recovery goes on as it was.
    Stay,
    /// The head is lost too and is retransmitted at once; the first such ACK restarts the retransmission
    /// timer.
    NextHole { restart_timer: bool },
    /// Recovery is over, whatever is still missing.
    Leave,
    /// What is lost is found as outside recovery.
    Detect,
}

impl Detector {
    /// The detector for a connection; `sack` if both ends agreed on SACK, without which NewReno stands in.
    pub fn new(recovery: Recovery, sack: bool) -> Self {
        match recovery {
            Recovery::Reno => Self::Reno(Reno::default()),
            Recovery::Sack if sack => Self::Sack(Sack::default()),
            Recovery::RackTlp if sack => Self::Rack(Rack::default()),
            Recovery::NewReno | Recovery::Sack | Recovery::RackTlp => Self::NewReno(NewReno::default()),
        }
    }

    /// True if tail losses are probed for (RFC 8985 section 7).
    pub const fn probes_tails(&self) -> bool {
        matches!(self, Self::Rack(_))
    }

    /// True if [`on_partial`](Self::on_partial) says which ACKs below the recovery point restart the
    /// retransmission timer. Otherwise every one that acknowledges new data does (RFC 6298 (5.3)).
    pub const fn times_partial_acks(&self) -> bool {
        matches!(self, Self::NewReno(_))
    }

    /// Bytes that duplicate ACKs allow in flight beyond cwnd; negative after a large partial ACK.
    #[inline]
    pub fn allowance(&self, recovering: bool, mss: u64) -> i64 {
        match self {
            Self::Reno(reno) => reno.allowance(recovering, mss),
            Self::NewReno(newreno) => newreno.reno.allowance(recovering, mss),
            Self::Sack(_) | Self::Rack(_) => 0,
        }
    }

    /// Takes in what an ACK newly reports, before losses are looked for. `min_rtt` is the path's.
    #[inline]
    pub fn on_delivered(&mut self, now: Instant, summary: &AckSummary, min_rtt: Option<Duration>) {
        let Self::Rack(rack) = self else { return };
        if summary.reordered {
            rack.on_reordering();
        }
        if let Some(newest) = &summary.newest {
            rack.on_delivered(now, newest, min_rtt);
        }
    }

    /// The ACK carries a D-SACK.
    pub fn on_dsack(&mut self, una: u64, nxt: u64) {
        if let Self::Rack(rack) = self {
            rack.on_dsack(una, nxt);
        }
    }

    /// True once the path was seen to reorder, for a detector that asks.
    pub const fn has_seen_reordering(&self) -> bool {
        match self {
            Self::Rack(rack) => rack.has_seen_reordering(),
            Self::Reno(_) | Self::NewReno(_) | Self::Sack(_) => false,
        }
    }

    /// The sender has seen that the path reorders.
    pub fn on_reordering(&mut self) {
        if let Self::Rack(rack) = self {
            rack.on_reordering();
        }
    }

    /// Looks for losses after an ACK.
    pub fn detect(&mut self, board: &mut Scoreboard, ack: &Evidence) -> Detected {
        let advanced = ack.acked > 0;
        match self {
            Self::Reno(reno) => {
                if advanced {
                    reno.reset();
                }
                Detected { lost: ack.duplicate && reno.on_duplicate(), wait: None }
            }
            Self::NewReno(newreno) => {
                if advanced {
                    newreno.reno.reset();
                }
                let third = ack.duplicate && newreno.reno.on_duplicate();
                Detected { lost: third && newreno.may_enter(ack.una), wait: None }
            }
            Self::Sack(sack) => Detected { lost: sack.detect(board, ack.duplicate, advanced), wait: None },
            Self::Rack(rack) => rack.detect_on_ack(board, ack.now, ack.path),
        }
    }

    /// Looks for losses when the reordering timer fires.
    pub fn detect_late(&mut self, board: &mut Scoreboard, now: Instant, path: PathTimes) -> Detected {
        match self {
            Self::Rack(rack) => rack.detect(board, now, path),
            Self::Reno(_) | Self::NewReno(_) | Self::Sack(_) => Detected::default(),
        }
    }

    /// Fast recovery begins; `nxt` is SND.NXT. Without SACK it is the head that is lost.
    pub fn enter(&mut self, board: &mut Scoreboard, mss: u64, nxt: u64) {
        match self {
            Self::Reno(reno) => reno.enter(mss),
            Self::NewReno(newreno) => newreno.enter(mss, nxt),
            Self::Sack(sack) => return sack.enter(),
            Self::Rack(_) => return,
        }
        if let Some(head) = board.front_id() {
            board.mark_lost(head);
        }
    }

    /// An ACK in fast recovery that does not end it by itself.
    pub fn on_partial(&mut self, acked: u64, duplicate: bool, mss: u64) -> Partial {
        let reno = match self {
            Self::Sack(_) | Self::Rack(_) => return Partial::Detect,
            // RFC 5681 section 3.2 step 6: any ACK of new data ends fast recovery.
            Self::Reno(reno) if acked > 0 => {
                reno.reset();
                return Partial::Leave;
            }
            // RFC 6582 section 3.2 step 3: retransmit the first unacknowledged segment.
            Self::NewReno(newreno) if acked > 0 => {
                return Partial::NextHole { restart_timer: newreno.on_partial(acked, mss) };
            }
            Self::Reno(reno) => reno,
            Self::NewReno(newreno) => &mut newreno.reno,
        };
        if duplicate {
            reno.inflate(mss);
        }
        Partial::Stay
    }

    /// Everything up to the recovery point is acknowledged: answers cwnd. `flight` is FlightSize.
    pub fn leave(&mut self, ssthresh: u64, flight: u64, mss: u64) -> u64 {
        match self {
            Self::Reno(reno) => reno.reset(),
            Self::NewReno(newreno) => {
                newreno.reno.reset();
                return NewReno::window_after(ssthresh, flight, mss);
            }
            Self::Sack(sack) => sack.reset(),
            Self::Rack(rack) => rack.on_recovery_exit(),
        }
        ssthresh
    }

    /// A frozen sender has taken in an ACK of new data, `to_recovery_point` if that was all that recovery
    /// waits for: duplicates from before it count no more. True if that ends recovery; cwnd is not asked for,
    /// since it stays as it is in a freeze.
    pub fn on_frozen_advance(
        &mut self,
        acked: u64,
        recovering: bool,
        to_recovery_point: bool,
        mss: u64,
    ) -> bool {
        let (reno, waits) = match self {
            Self::Sack(_) | Self::Rack(_) => return false,
            Self::Reno(reno) => (reno, false),
            Self::NewReno(newreno) => (&mut newreno.reno, !to_recovery_point),
        };
        if recovering && waits {
            reno.deflate(acked, mss);
        } else {
            reno.reset();
        }
        recovering && !waits
    }

    /// True if ACKs in the loss state tell of losses. Without SACK they do not (RFC 6582 section 3.2 step 2).
    pub const fn hears_in_loss(&self) -> bool {
        matches!(self, Self::Sack(_) | Self::Rack(_))
    }

    /// The loss state is over.
    pub fn leave_loss(&mut self) {
        if let Self::Rack(rack) = self {
            rack.on_recovery_exit();
        }
    }

    /// The losses were none.
    pub fn take_back(&mut self) {
        match self {
            Self::Reno(reno) => reno.reset(),
            Self::NewReno(newreno) => newreno.reno.reset(),
            Self::Sack(sack) => sack.reset(),
            Self::Rack(rack) => rack.look_again(),
        }
    }

    /// Something up to `nxt`, SND.NXT, was sent again that is no sign of congestion, and neither are the
    /// duplicate ACKs that answer it.
    pub fn ignore_duplicates_below(&mut self, nxt: u64) {
        if let Self::NewReno(newreno) = self {
            newreno.ignore_duplicates_below(nxt);
        }
    }

    /// A retransmission timeout: marks what it takes for lost. `nxt` is SND.NXT.
    pub fn on_timeout(
        &mut self,
        board: &mut Scoreboard,
        now: Instant,
        nxt: u64,
        path: PathTimes,
        quirks: Quirks,
    ) {
        match self {
            Self::Reno(reno) => reno.reset(),
            Self::NewReno(newreno) => newreno.on_timeout(nxt),
            Self::Sack(sack) => sack.reset(),
            Self::Rack(rack) => {
                let reo_wnd = if quirks.timeout_ignores_reordering() {
                    Duration::ZERO
                } else {
                    rack.timeout_reo_wnd(board, path)
                };
                board.mark_all_lost(|record| rack.spare_on_timeout(record.sent, now, reo_wnd));
                return;
            }
        }
        board.mark_all_lost(|_| false);
    }

    /// What to send when nothing is lost for sure and there is no new data (RFC 6675 NextSeg rules 3 and 4).
    pub fn next_without_new_data(&mut self, board: &Scoreboard) -> Option<u32> {
        match self {
            Self::Sack(sack) => sack.next_without_new_data(board),
            Self::Reno(_) | Self::NewReno(_) | Self::Rack(_) => None,
        }
    }

    /// The sender's clock stood still for `by`.
    pub fn shift_times(&mut self, by: Duration) {
        if let Self::Rack(rack) = self {
            rack.shift_times(by);
        }
    }
}
