//! How long an answer is waited for across silences.
//!
//! Beside the paper (`dsasync`). Sees when silences begin and end; answers when a wait is over. Nobody
//! answers in a silence, so a wait begins anew when one ends: what the station had to say then may still be
//! on its way, behind all that the silence held. But a wait begins anew only once. Where silences come more
//! often than the wait is long (sensing every 200 ms, a wait of 200 ms), it would otherwise never be over,
//! and what was lost on the radio would keep the gate shut for ever: a download beside sensing every 200 ms
//! stood still after its first loss. After twice its length, silences not counted, a wait is over in any
//! case.

use crate::time::{Duration, Instant};

/// Silences that are remembered: a wait that meets more of them is over a little sooner.
const REMEMBERED: usize = 8;

/// The latest `N` silences, each from its start to its end, the latest first; a place whose times are equal
/// is free.
#[derive(Debug)]
pub(super) struct PastSilences<const N: usize>([(Instant, Instant); N]);

impl<const N: usize> Default for PastSilences<N> {
    fn default() -> Self {
        Self([(Instant::ZERO, Instant::ZERO); N])
    }
}

impl<const N: usize> PastSilences<N> {
    pub fn remember(&mut self, began: Instant, ended: Instant) {
        self.0.rotate_right(1);
        if let Some(latest) = self.0.first_mut() {
            *latest = (began, ended);
        }
    }

    /// When the latest silence ended.
    pub fn latest_end(&self) -> Instant {
        self.0.first().map_or(Instant::ZERO, |&(_, ended)| ended)
    }

    /// How much of the time since `from` was silent.
    pub fn silent_since(&self, from: Instant) -> Duration {
        let silent = |&(began, ended): &(Instant, Instant)| ended.since(began.max(from));
        self.0.iter().map(silent).fold(Duration::ZERO, |sum, one| sum + one)
    }
}

/// What waits for an answer across silences.
#[derive(Debug, Default)]
pub(super) struct Waits {
    silences: PastSilences<REMEMBERED>,
    /// When the first of the silences that go on now began.
    since: Option<Instant>,
}

impl Waits {
    /// A silence begins. Others may go on already.
    pub fn silence_began(&mut self, now: Instant) {
        self.since.get_or_insert(now);
    }

    /// True if one goes on. After the end of one of several, this answers false.
    pub fn is_silent(&self) -> bool {
        self.since.is_some()
    }

    /// A silence is over. The rest of others that go on is not counted: they may be another station's.
    pub fn silence_ended(&mut self, now: Instant) {
        let began = self.since.take().unwrap_or(now);
        self.silences.remember(began, now);
    }

    /// When the latest silence ended.
    pub fn latest_end(&self) -> Instant {
        self.silences.latest_end()
    }

    /// When a wait of this `length` that began at `from` is over.
    pub fn over(&self, from: Instant, length: Duration) -> Instant {
        let anew = from.max(self.latest_end()) + length;
        // Mostly no silence lies in a wait.
        if anew == from + length {
            return anew;
        }
        anew.min(from + length * 2 + self.silences.silent_since(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + MS(ms)
    }

    #[test]
    fn a_wait_begins_anew_when_a_silence_ends_and_is_over_all_the_same_where_silences_are_frequent() {
        let mut waits = Waits::default();
        assert_eq!(waits.over(at(1000), MS(200)), at(1200));
        waits.silence_began(at(1100));
        waits.silence_ended(at(1400));
        assert_eq!(waits.over(at(1000), MS(200)), at(1600), "anew after the silence");
        assert_eq!(waits.over(at(1450), MS(200)), at(1650), "a silence before it is none in it");
        // 20 ms in each 200: 400 ms without silences are over at 2050, in the third period.
        for (start, over) in [(1600, 1820), (1800, 2020), (2000, 2050)] {
            waits.silence_began(at(start));
            waits.silence_ended(at(start + 20));
            assert_eq!(waits.over(at(1590), MS(200)), at(over));
        }
    }

    #[test]
    fn silences_that_overlap_count_once() {
        let mut waits = Waits::default();
        waits.silence_began(at(100));
        waits.silence_began(at(150));
        waits.silence_ended(at(200));
        waits.silence_ended(at(300));
        assert_eq!(waits.over(at(50), MS(1000)), at(1300));
        assert_eq!(waits.over(at(50), MS(100)), at(350));
    }
}
