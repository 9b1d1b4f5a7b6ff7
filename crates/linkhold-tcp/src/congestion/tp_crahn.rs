//! TP-CRAHN's window: slow start and AIMD, scaled when a hop of the path changes its channel.
//!
//! Source: crahn section 5.3 (the window should be scaled to the new channel, and the RTT with it); the
//! formula is that of TP-CRAHN (INFOCOM 2009), from memory, not checked: RTT' = RTT + L' - L, with L a
//! segment's time over the hop, and cwnd = alpha * W' * RTT', where W' is the rate of the path's narrowest
//! hop and alpha = 0.8 keeps some of the new bandwidth back. Sees ACKs, congestion, and changes of channels;
//! gives cwnd and ssthresh. as Reno -> (channel changed) the scaled window, in congestion avoidance -> as
//! Reno.
//!
//! Our reading:
//!
//! - A change that leaves the path's narrowest rate as it was scales nothing.
//! - A wider channel never shrinks the window, and a narrower one never widens it.
//! - ssthresh becomes the scaled window: what the channel carries is known, so slow start has nothing to
//!   find.
//! - The scaled window has two segments at least, as RFC 5681 equation 4 has it.

use linkhold_core::time::Duration;
use linkhold_core::units::BitRate;

use super::reno::Reno;
use super::{AckSample, Window};
use crate::path::ChannelChange;

/// Share of the new bandwidth that is used at once.
const ALPHA: f64 = 0.8;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TpCrahn {
    reno: Reno,
    /// The route will break: cwnd stays at ssthresh or below.
    held: bool,
}

impl TpCrahn {
    #[inline]
    pub fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
        self.reno.on_ack(window, ack);
        self.limit(window);
    }

    pub fn on_congestion(&mut self, window: &Window, basis: u64) -> u64 {
        self.reno.on_congestion(window, basis)
    }

    pub fn on_timeout(&mut self) {
        self.reno.on_timeout();
    }

    /// Holds cwnd at ssthresh, or lets it go.
    pub fn hold(&mut self, window: &mut Window, held: bool) {
        self.held = held;
        self.limit(window);
    }

    fn limit(&self, window: &mut Window) {
        if self.held {
            window.cwnd = window.cwnd.min(window.ssthresh);
        }
    }

    /// The window for the path with the new channel, whose RTT is `rtt`; `None` if the change does not
    /// concern it.
    pub fn scaled(window: &Window, change: &ChannelChange, rtt: Duration) -> Option<u64> {
        let narrowest = |rate: BitRate| change.others.map_or(rate, |others| others.min(rate));
        let (old, new) = (narrowest(change.old.rate), narrowest(change.new.rate));
        let target = new.mul_f64(ALPHA).bytes_in(rtt).0.max(2 * window.mss);
        if new > old {
            Some(window.cwnd.max(target))
        } else if new < old {
            Some(window.cwnd.min(target))
        } else {
            None
        }
    }
}

/// The RTT after a change of channel.
pub(crate) fn shifted(rtt: Duration, change: &ChannelChange) -> Duration {
    // The RTT holds the old hop's time, unless the driver was wrong: then the new one's is left.
    rtt.saturating_sub(change.old.delay) + change.new.delay
}

#[cfg(test)]
mod tests {
    use super::super::reno::tests::sample;
    use super::*;
    use crate::path::Hop;

    fn hop(kbps: u64, millis: u64) -> Hop {
        Hop { rate: BitRate(kbps * 1000), delay: Duration::from_millis(millis) }
    }

    fn scaled(cwnd: u64, old: Hop, new: Hop, others: Option<u64>, rtt: u64) -> Option<u64> {
        let window = Window { cwnd, ssthresh: 64_000, mss: 1000 };
        let change = ChannelChange { old, new, others: others.map(|kbps| BitRate(kbps * 1000)) };
        let rtt = shifted(Duration::from_millis(rtt), &change);
        TpCrahn::scaled(&window, &change, rtt)
    }

    #[test]
    fn the_window_is_four_fifths_of_what_the_new_channel_carries_in_a_round_trip() {
        // crahn's M = 1.6: 0.2 and 1.8 Mb/s. 0.8 * 1.8 Mb/s * (100 - 45 + 5) ms = 10,800 bytes.
        assert_eq!(scaled(3000, hop(200, 45), hop(1800, 5), None, 100), Some(10_800));
        // 0.8 * 0.2 Mb/s * (100 - 5 + 45) ms = 2800 bytes.
        assert_eq!(scaled(20_000, hop(1800, 5), hop(200, 45), None, 100), Some(2800));
        assert_eq!(scaled(20_000, hop(1800, 5), hop(200, 5), None, 10), Some(2000), "two segments at least");
    }

    #[test]
    fn a_wider_channel_never_shrinks_the_window_nor_a_narrower_one_widens_it() {
        assert_eq!(scaled(50_000, hop(1000, 5), hop(1200, 5), None, 100), Some(50_000));
        assert_eq!(scaled(3000, hop(1200, 5), hop(1000, 5), None, 100), Some(3000));
    }

    #[test]
    fn a_hop_that_is_not_the_narrowest_scales_nothing() {
        assert_eq!(scaled(20_000, hop(1800, 5), hop(1000, 5), Some(500), 100), None);
        assert_eq!(scaled(20_000, hop(1000, 5), hop(1000, 9), None, 100), None);
        // From 1 Mb/s to 2, with another hop of 1.5: 0.8 * 1.5 Mb/s * 100 ms.
        assert_eq!(scaled(3000, hop(1000, 5), hop(2000, 5), Some(1500), 100), Some(15_000));
        // A channel that carries nothing leaves two segments.
        assert_eq!(scaled(20_000, hop(1000, 5), hop(0, 5), None, 100), Some(2000));
    }

    #[test]
    fn a_held_window_does_not_grow_beyond_ssthresh() {
        let mut window = Window { cwnd: 10_000, ssthresh: 8000, mss: 1000 };
        let mut tp_crahn = TpCrahn::default();
        tp_crahn.hold(&mut window, true);
        assert_eq!(window.cwnd, 8000);
        for _ in 0..20 {
            tp_crahn.on_ack(&mut window, &sample(1000));
        }
        assert_eq!(window.cwnd, 8000);
        tp_crahn.hold(&mut window, false);
        for _ in 0..20 {
            tp_crahn.on_ack(&mut window, &sample(1000));
        }
        assert!(window.cwnd > 8000);
    }
}
