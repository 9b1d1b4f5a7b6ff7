//! Undo of a window reduction that turns out needless.
//!
//! Source: Eifel detection by timestamps, RFC 3522, and response, RFC 4015; D-SACK, RFC 3708; the bookkeeping
//! is Linux's (`undo_marker`, `undo_retrans`, `retrans_stamp`). The congestion control's state comes back
//! with the window (RFC 9438 section 4.9.2), except where `linux.rs` says otherwise.
//! none -> (reduction) armed -> (proof) undone, or (episode over) none.

use crate::congestion::{Controller, Window};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Undo {
    armed: Option<Armed>,
}

/// What made the sender reduce its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A retransmission timeout.
    Timeout,
    /// Losses found by ACKs.
    FastRecovery,
}

#[derive(Clone, Copy, Debug)]
struct Armed {
    cause: Cause,
    /// SND.UNA when the window was reduced. A D-SACK below it belongs to an earlier episode.
    marker: u64,
    /// Retransmissions not yet reported as duplicates; `None` while none was sent.
    unexplained: Option<u32>,
    /// TSval of the first retransmission (RFC 3522 section 3.2 RetransmitTS).
    first_retransmission: Option<u32>,
    window: Window,
    controller: Controller,
}

impl Undo {
    pub const NONE: Self = Self { armed: None };

    /// A reduction begins; `window` and `controller` are from before it.
    pub fn arm(
        &mut self,
        cause: Cause,
        una: u64,
        window: Window,
        controller: Controller,
        retransmissions_out: u32,
    ) {
        let unexplained = if retransmissions_out > 0 { Some(retransmissions_out) } else { None };
        self.armed =
            Some(Armed { cause, marker: una, unexplained, first_retransmission: None, window, controller });
    }

    /// A further reduction within an episode that has retransmitted already. Echoes are still judged by the
    /// episode's first retransmission (Linux clears `retrans_stamp` only when all is well again).
    pub fn arm_again(
        &mut self,
        cause: Cause,
        una: u64,
        window: Window,
        controller: Controller,
        retransmissions_out: u32,
    ) {
        let first = self.armed.and_then(|armed| armed.first_retransmission);
        self.arm(cause, una, window, controller, retransmissions_out);
        if let Some(armed) = &mut self.armed {
            armed.first_retransmission = first;
        }
    }

    /// A segment was retransmitted with this TSval.
    pub fn on_retransmit(&mut self, ts_value: u32) {
        if let Some(armed) = &mut self.armed {
            armed.unexplained = Some(armed.unexplained.unwrap_or(0) + 1);
            armed.first_retransmission.get_or_insert(ts_value);
        }
    }

    /// A D-SACK for so many segments, the last of which ends at `end`.
    pub fn on_dsack(&mut self, end: u64, segments: u64) {
        if let Some(armed) = &mut self.armed
            && end > armed.marker
            && let Some(count) = &mut armed.unexplained
        {
            *count = count.saturating_sub(u32::try_from(segments).unwrap_or(u32::MAX));
        }
    }

    /// RFC 3708: every retransmission arrived beside its original.
    pub fn dsacks_prove(&self) -> bool {
        self.armed.is_some_and(|armed| armed.unexplained == Some(0))
    }

    /// RFC 3522 section 3.2 step 5: the ACK echoes a timestamp from before the first retransmission.
    pub fn timestamp_proves(&self, echo: Option<u32>) -> bool {
        match (self.armed.and_then(|armed| armed.first_retransmission), echo) {
            (Some(first), Some(echo)) => (echo.wrapping_sub(first) as i32) < 0,
            _ => false,
        }
    }

    /// Puts one ordinary decrease in the reduction's place (Linux before 3.10,
    /// `tcp_ratehalving_spur_to_response`).
    pub fn decrease_instead(
        &mut self,
        window: &mut Window,
        controller: &mut Controller,
        basis: impl Fn(&Window) -> u64,
    ) -> Option<Cause> {
        let armed = self.armed.take()?;
        *controller = armed.controller;
        window.ssthresh = controller.on_congestion(&armed.window, basis(&armed.window));
        window.cwnd = window.ssthresh.max(window.cwnd);
        Some(armed.cause)
    }

    /// Takes the reduction back as Linux does: cwnd and ssthresh, not what the congestion control remembers.
    pub fn restore_window(&mut self, window: &mut Window) -> Option<Cause> {
        let mut forgotten = self.armed?.controller;
        self.restore(window, &mut forgotten)
    }

    /// Takes the reduction back (RFC 4015 section 3.2, Linux `tcp_undo_cwnd_reduction`).
    pub fn restore(&mut self, window: &mut Window, controller: &mut Controller) -> Option<Cause> {
        let armed = self.armed.take()?;
        window.cwnd = window.cwnd.max(armed.window.cwnd);
        window.ssthresh = window.ssthresh.max(armed.window.ssthresh);
        *controller = armed.controller;
        Some(armed.cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Congestion, Recovery, TcpConfig};

    fn reno() -> Controller {
        Controller::new(&TcpConfig::classic(Recovery::NewReno, Congestion::Reno))
    }

    fn armed() -> Undo {
        let mut undo = Undo::NONE;
        let window = Window { cwnd: 20_000, ssthresh: 30_000, mss: 1000 };
        undo.arm(Cause::Timeout, 5000, window, reno(), 0);
        undo
    }

    #[test]
    fn an_echo_from_before_the_retransmission_proves_it_needless() {
        let mut undo = armed();
        assert!(!undo.timestamp_proves(Some(1)), "nothing was retransmitted");
        undo.on_retransmit(100);
        undo.on_retransmit(150);
        assert!(undo.timestamp_proves(Some(99)));
        assert!(!undo.timestamp_proves(Some(100)) && !undo.timestamp_proves(None));
    }

    #[test]
    fn a_dsack_for_every_retransmission_proves_it_needless() {
        let mut undo = armed();
        assert!(!undo.dsacks_prove());
        undo.on_retransmit(1);
        undo.on_retransmit(2);
        undo.on_dsack(5000, 1);
        undo.on_dsack(6000, 1);
        assert!(!undo.dsacks_prove(), "one is below the marker");
        undo.on_dsack(7000, 1);
        assert!(undo.dsacks_prove());
    }

    #[test]
    fn the_window_comes_back_whole() {
        let mut undo = armed();
        let mut window = Window { cwnd: 1000, ssthresh: 10_000, mss: 1000 };
        let cause = undo.restore(&mut window, &mut reno());
        assert_eq!(cause, Some(Cause::Timeout));
        assert_eq!((window.cwnd, window.ssthresh), (20_000, 30_000));
        assert!(!undo.dsacks_prove());
    }
}
