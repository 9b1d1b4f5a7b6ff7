//! How fast held packets leave (Algorithm 2, lines 6 to 10).
//!
//! Paper: `dsasync` section IV-B a. Sees what goes down, the room that the driver tells, and the channel's rate; answers
//! when the next packet may follow.
//!
//! Deviation: Algorithm 2 runs on "a sufficiently frequent timer"; here a packet leaves when there is room: as told by the
//! driver, or else paced at the channel's rate.

use crate::time::{Duration, Instant};
use crate::units::{BitRate, Bytes};

/// Credit that a late timer may make good: the timer slack of a general-purpose kernel, twice.
const PACING_CREDIT: Duration = Duration::from_millis(2);

/// How fast held packets may leave.
#[derive(Debug)]
pub(super) struct Pacer {
    room: Option<(u32, u64)>,
    next: Instant,
    rate: BitRate,
}

impl Pacer {
    pub fn new(assumed: BitRate) -> Self {
        Self { room: None, next: Instant::ZERO, rate: assumed }
    }

    /// The channel drains at this rate from now on; so does what was sent down before.
    pub fn set_rate(&mut self, now: Instant, rate: BitRate) {
        if rate.as_bps() > 0 && rate != self.rate {
            if self.next > now {
                // What the old rate would take so long for: at a new one it is gone sooner or later.
                let left = self.rate.bytes_in(self.next.since(now));
                self.next = now + rate.time_for(left);
            }
            self.rate = rate;
        }
    }

    /// The driver sees its queue, and this fits.
    pub fn set_room(&mut self, packets: u32, bytes: Bytes) {
        self.room = Some((packets, bytes.0));
    }

    pub fn allows(&self, now: Instant, len: u32) -> bool {
        match self.room {
            Some((packets, bytes)) => packets > 0 && bytes >= u64::from(len),
            None => self.next <= now,
        }
    }

    /// A packet goes down: released or forwarded.
    pub fn on_sent(&mut self, now: Instant, len: u32) {
        match &mut self.room {
            Some((packets, bytes)) => {
                *packets = packets.saturating_sub(1);
                *bytes = bytes.saturating_sub(u64::from(len));
            }
            None => {
                let from = self.next.max(now - PACING_CREDIT);
                self.next = from + self.rate.time_for(Bytes(u64::from(len)));
            }
        }
    }

    /// A packet that had been sent down came back.
    pub fn on_taken_back(&mut self, len: u32) {
        match &mut self.room {
            Some((packets, bytes)) => {
                *packets = packets.saturating_add(1);
                *bytes = bytes.saturating_add(u64::from(len));
            }
            // The queue is empty after a reclaim: nothing to wait for.
            None => self.next = Instant::ZERO,
        }
    }

    /// When the next packet may leave, if that is a matter of time.
    pub fn next_time(&self) -> Option<Instant> {
        self.room.is_none().then_some(self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_at_a_low_rate_drains_at_the_new_one() {
        let mut pacer = Pacer::new(BitRate(14_400));
        pacer.on_sent(Instant::ZERO, 36_000);
        assert!(pacer.next_time() > Some(Instant::from_millis(19_000)));
        pacer.set_rate(Instant::from_millis(1), BitRate::from_mbps(36));
        assert!(pacer.next_time() <= Some(Instant::from_millis(9)), "{:?}", pacer.next_time());
        assert!(pacer.allows(Instant::from_millis(9), 1500));
    }

    #[test]
    fn without_sight_of_the_queue_packets_leave_at_the_channels_rate() {
        let mut pacer = Pacer::new(BitRate::from_mbps(12));
        let start = Instant::from_millis(1000);
        let mut sent = 0u64;
        for us in 0..100_000 {
            let now = start + Duration::from_micros(us);
            while pacer.allows(now, 1500) {
                pacer.on_sent(now, 1500);
                sent += 1500;
            }
        }
        let allowed = BitRate::from_mbps(12).bytes_in(Duration::from_millis(102)).0 + 1500;
        assert!((150_000..=allowed).contains(&sent), "{sent} of {allowed}");
    }
}
