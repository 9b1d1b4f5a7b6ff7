//! The gate for what lies below: how much may be outstanding at a station, and at all of a cell.
//!
//! Beside the paper (`dsasync`), where nobody tells the rate. Sees what is outstanding and what was measured
//! ([`Untold`](crate::dsasync::untold::Untold), [`Cell`]); answers until when nothing may go down. A station
//! that acknowledges nothing for [`PATIENCE`] is sent as much once more as should lie below.

use super::RoundTrips;
use crate::dsasync::cell::{ACTIVE, STALE, Sum};
use crate::dsasync::untold::PATIENCE;
use crate::dsasync::withheld::Arrived;
use crate::link_monitor::LinkMonitor;
use crate::packet::StationId;
use crate::time::{Duration, Instant};

impl RoundTrips {
    /// True if [`below_is_full`](Self::below_is_full) is `None` for every station: the rate is told, or
    /// nothing is kept short.
    #[inline]
    pub fn below_is_never_full(&self) -> bool {
        !self.keeps_short || self.bdp.is_told()
    }

    /// Until when nothing may go down to the station unless it acknowledges something first, because it has
    /// as many bytes outstanding as its rate needs; `None`: something may go now.
    #[inline(always)]
    pub fn below_is_full(&self, now: Instant, station: StationId) -> Option<Instant> {
        if self.below_is_never_full() { None } else { self.full_below(now, station).filter(|at| now < *at) }
    }

    /// As [`below_is_full`](Self::below_is_full), where nobody tells the rate; the time may have come
    /// already.
    #[inline(never)]
    pub(super) fn full_below(&self, now: Instant, station: StationId) -> Option<Instant> {
        let shared = self.cell.limit();
        let Some((most, local)) = self.most_below(station) else {
            return self.full_of_others(now, station);
        };
        let untold = self.untold(station)?;
        let record = self.stations.get(station)?;
        let excused = if now < record.excused_until { record.excused } else { 0 };
        // What all stations have below together counts in the cell's limit.
        let (others, until) =
            if shared.is_none() { self.others_below(now) } else { (0, Instant::FAR_FUTURE) };
        let outstanding = record.outstanding.saturating_sub(excused);
        if outstanding + others < most || record.gone {
            return None;
        }
        let patient = self.waits.over(record.heard, PATIENCE);
        let arrived = self.arrived(record.passed, record.radio.least().unwrap_or(local), most);
        let withheld = untold.rate.withheld(now, outstanding, record.first, arrived);
        if outstanding + others < most + withheld.bytes.saturating_sub(untold.delayed() as u64) {
            return None;
        }
        let patient = if outstanding < most { patient.min(until) } else { patient };
        Some(withheld.grows.map_or(patient, |at| patient.min(at)))
    }

    /// Most that may be outstanding at the station, and its usual local round trip; `None` before its rate is
    /// known.
    pub(super) fn most_below(&self, station: StationId) -> Option<(u64, Duration)> {
        let shared = self.cell.limit();
        let fair = match (shared, self.waiting) {
            (Some(_), _) => Some(f64::INFINITY),
            (None, stations @ 2..) => {
                Some(self.bdp.carried_in(Duration::from_nanos(1)) / f64::from(stations))
            }
            (None, _) => None,
        };
        let queued = self.bdp.carried_in(self.transmit_queue);
        let untold = self.untold(station)?;
        let local = self.local_part(station)?;
        let usual = self.usual_radio_part(station)?;
        let passes = self.equal_wait(station).map_or(local, |equal| local.max(usual + equal));
        let own = untold.most_below(passes, queued, fair)?;
        Some((shared.map_or(own, |cell| own.max(cell.most_of_one + untold.delayed() as u64)), local))
    }

    /// True if the station has as many bytes outstanding as its rate needs, however long ago it was heard.
    #[inline]
    pub(super) fn has_all_below(&self, now: Instant, station: StationId) -> bool {
        !self.below_is_never_full() && self.full_below(now, station).is_some()
    }

    /// What is taken for arrived of what went down, if `most` bytes may be outstanding and a round trip
    /// without a queue takes `local`. The last of so many bytes arrives when all of them have passed.
    fn arrived(&self, passed: Instant, local: Duration, most: u64) -> Arrived {
        let passes = self.bdp.passes_in(most).unwrap_or(PATIENCE);
        Arrived { passed, takes: local + passes, since: self.waits.latest_end() }
    }

    /// Until when nothing may go down to any station unless one acknowledges something first, because all of
    /// them together have as many bytes outstanding as their rates need; `None`: the cell's limit keeps
    /// nothing back.
    #[inline(always)]
    pub fn cell_is_full(&self, now: Instant) -> Option<Instant> {
        if self.is_shared() { self.full_cell(now) } else { None }
    }

    /// True if several stations have traffic whose rate nobody tells. A limit from before a rate was told
    /// stands until it is told no more.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.cell.limit().is_some() && !self.bdp.is_told()
    }

    /// As [`cell_is_full`](Self::cell_is_full), where several stations have traffic.
    #[inline(never)]
    fn full_cell(&self, now: Instant) -> Option<Instant> {
        if self.below_is_never_full() {
            return None;
        }
        let (others, until) = self.others_below(now);
        if !self.cell.is_full(self.outstanding + others) {
            return None;
        }
        let patient = self.waits.over(self.cell.heard, PATIENCE);
        if now >= patient {
            return None;
        }
        let limit = self.cell.limit()?;
        let arrived = self.arrived(self.passed, limit.local, limit.most);
        let withheld = self.cell.withheld(now, self.outstanding, self.first, arrived);
        let counted = self.outstanding.saturating_sub(withheld.bytes);
        if !self.cell.is_full(counted + others) {
            return None;
        }
        let patient = if self.cell.is_full(self.outstanding) { patient } else { patient.min(until) };
        Some(withheld.grows.map_or(patient, |at| patient.min(at)))
    }

    /// True if something goes down to stations that share a limit only because they have said nothing for
    /// [`PATIENCE`].
    #[inline]
    pub(super) fn cell_is_out_of_patience(&self, now: Instant) -> bool {
        self.cell.is_full(self.outstanding)
            && !self.below_is_never_full()
            && now >= self.waits.over(self.cell.heard, PATIENCE)
    }

    /// A station falls silent: what lies below for it leaves the cell's limit at once, since the station
    /// acknowledges nothing now, and counts again when it acknowledges something. Otherwise the other
    /// stations, once they have acknowledged all of theirs, would be sent nothing until [`PATIENCE`] is over:
    /// a station is set aside only when something is acknowledged.
    pub fn station_fell_silent(&mut self, station: StationId) {
        if !self.below_is_never_full() {
            self.set_aside(station, true);
        }
    }

    /// A silence is over. Stations whose own goes on may have fallen silent in one of the network, when none
    /// was set aside.
    pub fn set_silent_aside(&mut self, monitor: &LinkMonitor) {
        for number in 0..self.stations.len() as u32 {
            if monitor.tfp(StationId(number)) {
                self.station_fell_silent(StationId(number));
            }
        }
    }

    /// The station's outstanding bytes are not in the cell's limit.
    #[cfg(test)]
    pub fn is_aside(&self, station: StationId) -> bool {
        self.stations.get(station).is_some_and(|record| record.aside)
    }

    /// Takes the station's outstanding bytes out of the cell's limit (`aside`), or counts them again.
    pub(super) fn set_aside(&mut self, station: StationId, aside: bool) {
        let record = self.stations.at(station);
        if record.aside != aside {
            record.aside = aside;
            if aside {
                self.cell.put_aside(record.outstanding);
            } else {
                self.cell.take_back(record.outstanding);
            }
        }
    }

    /// Looks whether the next station, by number, is to be set aside, and from time to time works out anew
    /// what all stations need below.
    #[inline(never)]
    pub(super) fn look_at_cell(&mut self, now: Instant) {
        if let Some(number) = self.cell.next(self.stations.len()) {
            let station = StationId(number);
            let record = self.stations.at(station);
            let is_stale = now > self.waits.over(record.heard, STALE);
            if record.outstanding > 0 && !record.aside && is_stale {
                self.set_aside(station, true);
            }
        }
        if !self.cell.is_due(now) {
            return;
        }
        let mut sum = Sum::NONE;
        for (number, record) in self.stations.iter().enumerate() {
            let station = StationId(number as u32);
            let local = record.radio.usual();
            let active = record.outstanding > 0 || now <= self.waits.over(record.heard, ACTIVE);
            if let Some(untold) = &record.untold
                && let (Some(needs), Some(local), true) = (untold.needs(), local, active)
            {
                sum.add(needs, local, self.wait_beside_uploads(station));
            }
        }
        self.cell.set(&sum, self.bdp.carried_in(self.transmit_queue), self.bdp.stations());
    }
}
