//! What may be outstanding below for all stations of a cell together, where nobody tells the rate.
//!
//! Beside the paper (`dsasync`). Sees what is measured of each station ([`Untold`](super::untold::Untold));
//! answers how much all of them may have below, and the windows' common terms.
//!
//! A station alone is held to what its own rate needs below. Where several have traffic, that is not enough:
//! a router that serves packets as they came gives each station the share that it has in the queue, and ACKs
//! let each station have as much there again as it got. An uneven share would confirm itself. With one limit
//! for all, the deficit round robin chooses who goes next, and the standing queue waits in the hold buffer.
//!
//! - **Limit**: the sum of the rates · the least local round trip, the transmit queue's time at the most that
//!   the cell carried, a packet, and for each station what passes while its ACKs wait behind its uploads,
//!   what is acknowledged together, and what delayed ACKs leave unacknowledged: usually half a packet a flow,
//!   and more where more is known to wait for them ([`Withheld`]). The most that the cell carried is
//!   remembered for 10 s at least, so that a low estimate cannot confirm itself.
//! - **Least local round trip**: stations share one radio. If a station's segments seldom find the radio
//!   empty, its own time is known only from the few that did, and their ACKs were delayed.
//! - **Windows**: a station's window is at least that of an equal part, as where the rate is told
//!   ([`Shares`](super::shares::Shares)), with time for what lies below of all. Otherwise a station with few
//!   flows would have too small a window for anything ever to wait here, and its turn would go to others.
//! - **Rate of all together** ([`DeliveryRate`]), where there are several stations: what passes and nobody
//!   acknowledges counts in the rate of whichever station acknowledges something next. So neither the rate of
//!   one station nor the sum of the rates says how fast that passes: each rate keeps what it was when most
//!   fell to it. Taken from one of `n` stations, the rate would let `1/n` of what was measured go down, and
//!   each measurement would be lower than the last.
//! - **Aside**: a station that acknowledges nothing for [`STALE`], though others do, does not count: it may
//!   be away unannounced, and must not stop the others. Nor does a silent station count, until it
//!   acknowledges something.

use super::delivery_rate::{DeliveryRate, UnderWay};
use super::departures::Departures;
use super::withheld::{Arrived, FULL_PACKET, Withheld};
use crate::time::{Duration, Instant};

/// A station that has bytes outstanding and acknowledges nothing for this long does not count in the cell's
/// limit. A flow's outstanding bytes are written off after this time if its station has acknowledged what
/// went down later. The time is longer than Linux delays an ACK (40 ms, `TCP_DELACK_MIN`; from memory, not
/// checked).
pub(super) const STALE: Duration = Duration::from_millis(50);

/// The limit is worked out anew after this time.
const LOOK: Duration = Duration::from_millis(50);

/// A station with nothing outstanding for this long has no traffic.
pub(super) const ACTIVE: Duration = Duration::from_secs(1);

/// What a station needs below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Needs {
    /// Rate that the station takes, bytes/ns.
    pub rate: f64,
    /// Bytes that have arrived there and that its delayed ACKs leave unacknowledged.
    pub delayed: f64,
    /// Bytes that should be under way because its ACKs come in bunches.
    pub bunches: f64,
}

/// What several stations may have below.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// Most bytes outstanding of all stations, of which `delayed` have usually arrived and are not
    /// acknowledged.
    pub most: u64,
    delayed: u64,
    /// Most bytes outstanding of one station, not counting what its delayed ACKs leave unacknowledged.
    pub most_of_one: u64,
    /// The least local round trip of the stations.
    pub local: Duration,
    /// Time that a packet waits below, ns.
    pub below: f64,
    /// Rate of an equal part, bytes/ns.
    pub fair: f64,
}

/// Adds up what the stations need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sum {
    stations: u32,
    rate: f64,
    delayed: f64,
    bunches: f64,
    /// Bytes that pass while ACKs wait behind uploads.
    behind_uploads: f64,
    local: Duration,
}

impl Sum {
    pub const NONE: Self = Self {
        stations: 0,
        rate: 0.0,
        delayed: 0.0,
        bunches: 0.0,
        behind_uploads: 0.0,
        local: Duration::from_secs(1),
    };

    /// Adds a station with this local round trip, and what its ACKs wait behind its uploads.
    pub fn add(&mut self, needs: Needs, local: Duration, wait: Duration) {
        self.stations += 1;
        self.behind_uploads += needs.rate * wait.as_nanos() as f64;
        self.rate += needs.rate;
        self.delayed += needs.delayed;
        self.bunches += needs.bunches;
        self.local = self.local.min(local);
    }

    /// The limit, with `queued` bytes in the transmit queue, among as many equal stations as `count` says;
    /// `None` for fewer than two stations.
    fn limit(&self, queued: f64, count: f64) -> Option<Limit> {
        if self.stations < 2 || self.rate <= 0.0 {
            return None;
        }
        let waits = queued + FULL_PACKET + self.bunches;
        let needed = self.rate * self.local.as_nanos() as f64 + self.behind_uploads + waits;
        Some(Limit {
            most: (needed + self.delayed) as u64,
            delayed: self.delayed as u64,
            most_of_one: needed as u64,
            local: self.local,
            below: waits / self.rate,
            fair: self.rate / count.max(1.0),
        })
    }
}

/// The cell's stations together.
#[derive(Debug, Default)]
pub(super) struct Cell {
    limit: Option<Limit>,
    /// Outstanding bytes of the stations that are set aside.
    aside: u64,
    /// What of new data went down, and when.
    departures: Departures,
    /// When a station last acknowledged something new, or the limit was reached.
    pub heard: Instant,
    /// When the limit is worked out anew.
    due: Instant,
    /// The station that was last looked at.
    hand: u32,
    /// What passes to all of them together, once there are several.
    total: Option<Box<DeliveryRate>>,
}

impl Cell {
    /// `bytes` of new data go down.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64) {
        self.departures.add(now, bytes);
    }

    /// What passes to all stations together, to be measured; made by `new` if need be.
    pub fn total_or(&mut self, new: impl FnOnce() -> DeliveryRate) -> &mut DeliveryRate {
        self.total.get_or_insert_with(|| Box::new(new()))
    }

    /// As [`total_or`](Self::total_or), if it is measured.
    pub fn total_mut(&mut self) -> Option<&mut DeliveryRate> {
        self.total.as_deref_mut()
    }

    /// Mean rate at which something passes to any of the stations, bytes/ns; 0 before it was measured.
    pub fn passes(&self) -> f64 {
        self.total.as_ref().map_or(0.0, |total| total.rates.slow())
    }

    /// What is under way to all stations together, of whose `outstanding` bytes flows may withhold `first`;
    /// `unacknowledged`: what is under way and nobody will acknowledge.
    pub fn under_way(&self, outstanding: u64, first: u64, unacknowledged: u64, local: Duration) -> UnderWay {
        let bytes = outstanding.saturating_sub(self.aside);
        let local = self.limit.map_or(local, |limit| limit.local.min(local));
        let few = FULL_PACKET + FULL_PACKET.max(first as f64);
        let passing = self.passes() * local.as_nanos() as f64;
        let dry = (bytes + unacknowledged) as f64 <= passing + few;
        UnderWay { bytes, unacknowledged, dry, local, few }
    }

    /// What all stations withhold of their `outstanding` bytes, those set aside not counted, beyond what is
    /// allowed for; see [`Withheld::of`].
    pub fn withheld(&self, now: Instant, outstanding: u64, first: u64, arrived: Arrived) -> Withheld {
        let counted = outstanding.saturating_sub(self.aside);
        let withheld = Withheld::of(now, &self.departures, counted, first, arrived);
        let usual = self.limit.map_or(0, |limit| limit.delayed);
        Withheld { bytes: withheld.bytes.saturating_sub(usual), ..withheld }
    }

    /// The limit; `None` while fewer than two stations have traffic.
    #[inline]
    pub fn limit(&self) -> Option<&Limit> {
        self.limit.as_ref()
    }

    /// True if what is outstanding, stations set aside not counted, reaches the limit.
    #[inline]
    pub fn is_full(&self, outstanding: u64) -> bool {
        self.limit.is_some_and(|limit| outstanding.saturating_sub(self.aside) >= limit.most)
    }

    /// Adds to the outstanding bytes of the stations that are set aside.
    pub fn put_aside(&mut self, bytes: u64) {
        self.aside += bytes;
    }

    /// Takes off `bytes` that were acknowledged or written off, or whose station counts again.
    pub fn take_back(&mut self, bytes: u64) {
        self.aside = self.aside.saturating_sub(bytes);
    }

    /// The station of `stations` that is looked at next.
    pub fn next(&mut self, stations: usize) -> Option<u32> {
        self.hand = if self.hand as usize + 1 >= stations { 0 } else { self.hand + 1 };
        ((self.hand as usize) < stations).then_some(self.hand)
    }

    /// True if the limit is to be worked out anew; then calls answer false for [`LOOK`].
    pub fn is_due(&mut self, now: Instant) -> bool {
        let due = self.due <= now;
        if due {
            self.due = now + LOOK;
        }
        due
    }

    /// Works out the limit anew; see [`Sum::limit`].
    pub fn set(&mut self, sum: &Sum, queued: f64, count: f64) {
        self.limit = sum.limit(queued, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MBIT_12: Needs = Needs { rate: 0.0015, delayed: 0.0, bunches: 3000.0 };

    #[test]
    fn one_station_has_no_limit_and_two_have_one_together() {
        let (mut sum, mut cell) = (Sum::NONE, Cell::default());
        sum.add(MBIT_12, Duration::from_millis(2), Duration::ZERO);
        cell.set(&sum, 6000.0, 1.0);
        assert!(cell.limit().is_none() && !cell.is_full(u64::MAX));
        // The second one's ACKs were delayed, and it has flows of which a half is not acknowledged.
        sum.add(Needs { delayed: 11_250.0, ..MBIT_12 }, Duration::from_millis(28), Duration::ZERO);
        cell.set(&sum, 6000.0, 2.0);
        let limit = *cell.limit().unwrap();
        assert_eq!(limit.most_of_one, 6000 + 6000 + 1500 + 6000);
        assert_eq!(limit.most, limit.most_of_one + 11_250);
        assert!((limit.fair - 0.0015).abs() < 1e-9 && (limit.below - 4.5e6).abs() < 1.0);
        assert!(!cell.is_full(limit.most - 1) && cell.is_full(limit.most));
        // What passes while one's ACKs wait behind its uploads may lie below as well.
        sum.add(
            Needs { rate: 0.0, bunches: 0.0, ..MBIT_12 },
            Duration::from_millis(2),
            Duration::from_millis(9),
        );
        assert_eq!(sum.limit(6000.0, 2.0).unwrap().most, limit.most);
        sum.add(Needs { bunches: 0.0, ..MBIT_12 }, Duration::from_millis(2), Duration::from_millis(4));
        assert_eq!(sum.limit(6000.0, 2.0).unwrap().most, limit.most + 3000 + 6000);
        // What lies below of a station that is set aside does not count.
        cell.put_aside(5000);
        assert!(!cell.is_full(limit.most + 4999) && cell.is_full(limit.most + 5000));
        cell.take_back(5000);
        assert!(cell.is_full(limit.most));
    }
}
