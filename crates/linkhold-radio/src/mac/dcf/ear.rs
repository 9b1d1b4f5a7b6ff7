//! What one radio hears: carrier sense, the signal it reads, its NAV, and the backoff that waits for silence.
//!
//! The receiver is locked onto at most one signal. It locks onto one that begins in silence, and onto one
//! that begins later if it stands above everything else by the capture threshold. A signal that begins under
//! others and is not captured is only noise to the others. What a lock loses to is the largest sum of all
//! other signals at any time of it.
//!
//! A backoff is `slots` still to count, from `counting_from` on, which is when the medium will have been idle
//! for DIFS or EIFS. Nothing happens as a slot passes: `freeze` takes off those that have passed.

use linkhold_core::time::{Duration, Instant};

use super::phy::Phy;

/// No radio.
pub(super) const NOBODY: u32 = u32::MAX;

/// A reception that has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reception {
    pub(super) since: Instant,
    pub(super) power: f64,
    /// Largest sum of all other signals during it, mW.
    pub(super) worst: f64,
}

/// What a turn of the medium means for a radio's wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    Keep,
    Clear,
    At(Instant),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ear {
    /// Power of all signals on the air here, mW.
    sum: f64,
    locked_power: f64,
    worst: f64,
    locked_since: Instant,
    idle_since: Instant,
    /// The medium counts as busy until then.
    pub(super) nav: Instant,
    pub(super) counting_from: Instant,
    /// Backoff still to count from `counting_from`.
    pub(super) slots: u32,
    /// The sender of the signal that it reads.
    locked: u32,
    audible: u32,
    pub(super) epoch: u16,
    /// The last frame could not be read.
    eifs: bool,
    /// The medium is busy; `counting_from` says nothing.
    pub(super) frozen: bool,
    /// Suspended.
    pub(super) deaf: bool,
    pub(super) sending: bool,
    /// It owes an answer, a SIFS from the end of a frame.
    pub(super) owes: bool,
    /// It has a frame that waits for its backoff.
    pub(super) contending: bool,
}

impl Ear {
    pub(super) fn new(phy: Phy) -> Self {
        Self {
            sum: 0.0,
            locked_power: 0.0,
            worst: 0.0,
            locked_since: Instant::ZERO,
            idle_since: Instant::ZERO,
            nav: Instant::ZERO,
            counting_from: Instant::ZERO + phy.difs(),
            slots: 0,
            locked: NOBODY,
            audible: 0,
            epoch: 0,
            eifs: false,
            frozen: false,
            deaf: false,
            sending: false,
            owes: false,
            contending: false,
        }
    }

    /// A signal of `power` mW begins; `capture` is a ratio of powers.
    #[inline]
    pub(super) fn hear(&mut self, now: Instant, from: u32, power: f64, capture: f64) {
        let others = self.sum;
        self.sum += power;
        self.audible += 1;
        if self.sending || self.owes {
            return;
        }
        let stands_out = power >= capture * others;
        if (self.locked == NOBODY && self.audible == 1) || (self.audible > 1 && stands_out) {
            self.locked = from;
            self.locked_power = power;
            self.locked_since = now;
            self.worst = others;
        } else if self.locked != NOBODY {
            self.worst = self.worst.max(self.sum - self.locked_power);
        }
    }

    /// The signal ends. The reception, if the radio was locked onto it.
    #[inline]
    pub(super) fn stop_hearing(&mut self, now: Instant, from: u32, power: f64) -> Option<Reception> {
        self.audible -= 1;
        if self.audible == 0 {
            // What rounding has left of the sum goes with the last signal.
            self.sum = 0.0;
            self.idle_since = now;
        } else {
            self.sum = (self.sum - power).max(0.0);
        }
        if self.locked != from {
            return None;
        }
        self.locked = NOBODY;
        Some(Reception { since: self.locked_since, power: self.locked_power, worst: self.worst })
    }

    /// A frame was read, or not.
    #[inline]
    pub(super) fn note(&mut self, read: bool) {
        self.eifs = !read;
    }

    /// A signal is on the air that lasts until `until`, or the radio is busy until then. `Clear`: a backoff
    /// stops that would have ended later. One that ends at this very instant has ended.
    #[inline]
    pub(super) fn freeze(&mut self, now: Instant, until: Instant, slot: Duration) -> Wake {
        // Until the NAV ends nothing counts down, so what ends by then changes nothing.
        if self.frozen || until <= self.nav {
            return Wake::Keep;
        }
        self.frozen = true;
        if now >= self.counting_from && self.slots > 0 {
            let passed = now.since(self.counting_from).as_nanos() / slot.as_nanos();
            self.slots -= u64::from(self.slots).min(passed) as u32;
        }
        let ends_now = self.slots == 0 && now >= self.counting_from;
        if self.contending && !ends_now { Wake::Clear } else { Wake::Keep }
    }

    /// The medium may have turned idle; `At`: when the backoff ends, if it stays so.
    #[inline]
    pub(super) fn turn_idle(&mut self, phy: Phy) -> Wake {
        if self.audible > 0 || self.sending || self.owes || self.deaf {
            return Wake::Keep;
        }
        let spacing = if self.eifs { phy.eifs() } else { phy.difs() };
        let from = (self.idle_since + spacing).max(self.nav + phy.difs());
        if !self.frozen && from == self.counting_from {
            return Wake::Keep;
        }
        self.frozen = false;
        self.counting_from = from;
        if self.contending { Wake::At(self.due(phy)) } else { Wake::Keep }
    }

    /// When the backoff ends if nobody sends.
    #[inline]
    pub(super) fn due(&self, phy: Phy) -> Instant {
        self.counting_from + phy.slot() * self.slots
    }

    /// The medium has been idle for long enough, and no backoff is left: a frame may go at once.
    pub(super) fn is_free(&self, now: Instant, phy: Phy) -> bool {
        !self.frozen && now >= self.due(phy)
    }

    pub(super) fn start_sending(&mut self) {
        self.sending = true;
        self.frozen = true;
        self.locked = NOBODY;
    }

    pub(super) fn stop_sending(&mut self, now: Instant) {
        self.sending = false;
        self.eifs = false;
        self.idle_since = now;
    }

    /// Hears nothing from now on; the signals on the air are forgotten.
    pub(super) fn close(&mut self) {
        self.deaf = true;
        self.frozen = true;
        self.epoch = self.epoch.wrapping_add(1);
        self.sum = 0.0;
        self.audible = 0;
        self.locked = NOBODY;
        self.owes = false;
        self.contending = false;
    }

    /// Hears again, and knows of nothing that was before.
    pub(super) fn open(&mut self, now: Instant) {
        self.deaf = false;
        self.eifs = false;
        self.idle_since = now;
        self.nav = now;
    }

    /// A signal that began while the radio was deaf: busy, but not to be read.
    pub(super) fn overhear(&mut self, power: f64) {
        self.sum += power;
        self.audible += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PHY: Phy = Phy::Ieee80211a;

    fn us(count: u64) -> Instant {
        Instant::from_nanos(1000 * count)
    }

    /// An ear with `slots` of backoff and a frame, on a medium that is idle from 0 on.
    fn waiting(slots: u32) -> Ear {
        Ear { slots, contending: true, ..Ear::new(PHY) }
    }

    #[test]
    fn a_backoff_counts_whole_slots_and_stops_in_between() {
        // DIFS is 34 us, a slot 9 us.
        for (now, left, wake) in [
            (20, 5, Wake::Clear),
            (34, 5, Wake::Clear),
            (42, 5, Wake::Clear),
            (43, 4, Wake::Clear),
            (78, 1, Wake::Clear),
            // It ends at this very instant: too late to stop.
            (79, 0, Wake::Keep),
        ] {
            let mut ear = waiting(5);
            assert_eq!(ear.due(PHY), us(79));
            assert_eq!((ear.freeze(us(now), us(1000), PHY.slot()), ear.slots), (wake, left), "at {now} us");
        }
        let mut ear = waiting(5);
        ear.hear(us(43), 1, 1.0, 10.0);
        ear.freeze(us(43), us(100), PHY.slot());
        assert_eq!(ear.turn_idle(PHY), Wake::Keep, "the signal is still there");
        ear.stop_hearing(us(100), 1, 1.0);
        ear.note(true);
        assert_eq!(ear.turn_idle(PHY), Wake::At(us(100 + 34 + 4 * 9)));
        // What could not be read is followed by EIFS.
        ear.note(false);
        assert_eq!(ear.turn_idle(PHY), Wake::At(us(100 + 94 + 4 * 9)));
    }

    #[test]
    fn what_ends_within_the_nav_changes_nothing() {
        let mut ear = waiting(2);
        ear.nav = us(500);
        assert_eq!(ear.turn_idle(PHY), Wake::At(us(500 + 34 + 18)));
        ear.hear(us(100), 1, 1.0, 10.0);
        assert_eq!(ear.freeze(us(100), us(500), PHY.slot()), Wake::Keep);
        ear.stop_hearing(us(500), 1, 1.0);
        assert_eq!(ear.turn_idle(PHY), Wake::Keep);
        assert_eq!((ear.due(PHY), ear.slots), (us(500 + 34 + 18), 2));
        // One that goes on after it does.
        ear.hear(us(500), 1, 1.0, 10.0);
        assert_eq!(ear.freeze(us(500), us(501), PHY.slot()), Wake::Clear);
    }

    #[test]
    fn the_worst_of_a_reception_is_the_largest_sum_of_the_others() {
        let mut ear = Ear::new(PHY);
        ear.hear(us(0), 1, 100.0, 10.0);
        ear.hear(us(1), 2, 3.0, 10.0);
        ear.hear(us(2), 3, 4.0, 10.0);
        assert!(ear.stop_hearing(us(3), 2, 3.0).is_none());
        ear.hear(us(4), 4, 2.0, 10.0);
        let reception = ear.stop_hearing(us(5), 1, 100.0).expect("it was locked onto the first");
        assert_eq!((reception.since, reception.power, reception.worst), (us(0), 100.0, 7.0));
        // Nobody is read until one stands out of what is left.
        ear.hear(us(6), 5, 59.0, 10.0);
        assert!(ear.stop_hearing(us(7), 5, 59.0).is_none());
        ear.hear(us(8), 6, 60.0, 10.0);
        assert_eq!(ear.stop_hearing(us(9), 6, 60.0).map(|reception| reception.worst), Some(6.0));
    }

    #[test]
    fn who_was_closed_has_forgotten_all() {
        let mut ear = waiting(3);
        ear.hear(us(0), 1, 1.0, 10.0);
        ear.freeze(us(0), us(100), PHY.slot());
        let epoch = ear.epoch;
        ear.close();
        assert_eq!(ear.turn_idle(PHY), Wake::Keep);
        assert_ne!(ear.epoch, epoch);
        ear.open(us(50));
        assert_eq!(ear.turn_idle(PHY), Wake::Keep, "nothing waits");
        assert!(!ear.is_free(us(50 + 34), PHY) && ear.is_free(us(50 + 34 + 27), PHY));
    }
}
