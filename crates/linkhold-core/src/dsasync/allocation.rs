//! How much of B_alloc there is at present: what silences of the length seen take.
//!
//! Paper: `dsasync` section VI, the remarks that end it: the buffer should be sized by the overhead of
//! dynamic spectrum access that a channel has, by a simple dynamic allocation. It prints none. Sees when
//! silences begin and end, and the channel's rate; answers how many bytes may be held.
//!
//! The overhead is what the channel does not carry in a silence, its rate times the length. Four times of
//! that: [`DsaSyncConfig::flow_quota`] is half of the buffer, the window of a flow that holds half of its
//! quota is closed, and no window should be closed for what comes at the radio's rate. A quarter of a second
//! more is for what comes outside silences, the queue that stands and a sender in slow start.
//!
//! The length is that of the longest of the last [`REMEMBERED`] silences, or that of the present one if it is
//! longer already: while a silence grows, so does the buffer, and packets at less than four times the
//! channel's rate always find room. It shrinks when a silence begins or ends, to no less than twice what is
//! held. Silences of single stations count as those of the radio.
//!
//! [`DsaSyncConfig::flow_quota`]: super::config::DsaSyncConfig::flow_quota

use crate::time::{Duration, Instant};
use crate::units::BitRate;

/// How many silences are remembered.
const REMEMBERED: usize = 8;

/// The buffer takes `FACTOR` times what the channel carries in the longest silence plus `LONGER`, and
/// [`LEAST`] besides.
const FACTOR: u64 = 4;
const LONGER: Duration = Duration::from_millis(250);

/// Bytes allotted whatever the rate and the silences are. A station's connections that it has not answered
/// may hold a sixteenth of B_alloc together. A sixteenth of this is the initial windows (RFC 6928) of 17
/// connections: a browser opens several at once.
const LEAST: u64 = 4_000_000;

/// The silences seen.
#[derive(Clone, Debug)]
pub(super) struct Allocation {
    rate: BitRate,
    /// When the first of the silences that last now began. They are not counted: of those that overlap the
    /// monitor tells no more than that some station has fallen silent, or is back.
    began: Option<Instant>,
    lengths: [Duration; REMEMBERED],
    /// Where the next length goes.
    next: usize,
}

impl Allocation {
    pub fn new() -> Self {
        Self { rate: BitRate(0), began: None, lengths: [Duration::ZERO; REMEMBERED], next: 0 }
    }

    /// A silence begins; the channel carries `rate` otherwise.
    pub fn silence_began(&mut self, now: Instant, rate: BitRate) {
        self.rate = rate;
        self.began.get_or_insert(now);
    }

    /// The channel's rate is `rate` from now on.
    pub fn rate_changed(&mut self, rate: BitRate) {
        self.rate = rate;
    }

    /// One of the silences is over; `any` lasts still.
    pub fn silence_ended(&mut self, now: Instant, any: bool) {
        let Some(began) = self.began else { return };
        self.lengths[self.next] = now.since(began);
        self.next = (self.next + 1) % REMEMBERED;
        if !any {
            self.began = None;
        }
    }

    /// How many bytes may be held; `None` before the first silence.
    pub fn wanted(&self, now: Instant) -> Option<u64> {
        let seen = self.lengths.iter().copied().max().unwrap_or_default();
        let longest = seen.max(self.began.map_or(Duration::ZERO, |began| now.since(began)));
        if self.began.is_none() && longest.is_zero() {
            return None;
        }
        Some(self.rate.bytes_in(longest + LONGER).0.saturating_mul(FACTOR).saturating_add(LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BitRate = BitRate::from_mbps(8);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// 8 Mbit/s are 1000 bytes a millisecond.
    const fn wanted(ms: u64) -> Option<u64> {
        Some(4 * 1000 * (ms + 250) + LEAST)
    }

    #[test]
    fn it_is_sized_by_the_longest_silence_remembered_and_grows_in_a_longer_one() {
        let mut allocation = Allocation::new();
        assert_eq!(allocation.wanted(at(0)), None, "nothing is known yet");
        allocation.silence_began(at(1_000), RATE);
        assert_eq!(allocation.wanted(at(1_000)), wanted(0));
        assert_eq!(allocation.wanted(at(1_200)), wanted(200));
        allocation.silence_ended(at(1_300), false);
        assert_eq!(allocation.wanted(at(9_000)), wanted(300));
        // A shorter one changes nothing, a longer one counts once it is longer.
        allocation.silence_began(at(10_000), RATE);
        assert_eq!(allocation.wanted(at(10_100)), wanted(300));
        assert_eq!(allocation.wanted(at(10_700)), wanted(700));
        allocation.silence_ended(at(11_000), false);
        for silence in 0..8 {
            assert_eq!(allocation.wanted(at(12_000)), wanted(1_000), "{silence} short ones later");
            allocation.silence_began(at(12_000), RATE);
            allocation.silence_ended(at(12_010), false);
        }
        assert_eq!(allocation.wanted(at(20_000)), wanted(10));
    }

    #[test]
    fn silences_that_overlap_are_one_from_the_first_beginning_to_the_last_end() {
        let mut allocation = Allocation::new();
        allocation.silence_began(at(0), RATE);
        allocation.silence_began(at(100), RATE);
        allocation.silence_ended(at(200), true);
        assert_eq!(allocation.wanted(at(400)), wanted(400));
        allocation.silence_ended(at(500), false);
        assert_eq!(allocation.wanted(at(900)), wanted(500));
        // An end that nobody began, and an absurd rate and length.
        allocation.silence_ended(at(900), false);
        allocation.silence_began(at(0), BitRate(u64::MAX));
        allocation.silence_ended(Instant::FAR_FUTURE, false);
        assert_eq!(allocation.wanted(at(901)), Some(u64::MAX));
    }
}
