//! What lies below and nobody will acknowledge, beside what stations have to acknowledge.
//!
//! Beside the paper (`dsasync`), where nobody tells the rate. Sees what goes down of it and what is
//! acknowledged after it; answers how much of it counts in what may go down. The rules stand at
//! [`Unacknowledged`](crate::dsasync::unacknowledged::Unacknowledged).

use super::RoundTrips;
use crate::dsasync::flow::Flow;
use crate::dsasync::probes::{EMPTY_RADIO, SentDown};
use crate::dsasync::unacknowledged::{AHEAD, AWAITED, HEARD, LONGEST_BELOW};
use crate::packet::StationId;
use crate::time::{Duration, Instant};

/// Bytes of what nobody acknowledges that may be below beside what a station needs there: two full packets.
/// A low rate leaves room for two, which a receiver acknowledges at once. If nobody acknowledged one of them,
/// the other would wait for the receiver's timer (RFC 1122 section 4.2.3.2), and the rate would stay low.
const BESIDE: u64 = 3000;

/// No SYN is longer, bytes: headers with all their options (RFC 9293 section 3.1; RFC 8200 section 3).
const LONGEST_SYN: u32 = 100;

impl RoundTrips {
    /// Bytes below that nobody will acknowledge, while stations are heard that those could keep waiting; and
    /// the time from which they are fewer, if nothing happens until then.
    pub(super) fn others_below(&self, now: Instant) -> (u64, Instant) {
        let none = (0, Instant::FAR_FUTURE);
        if self.others.below() == 0 {
            return none;
        }
        let Some((served, station)) = self.served else { return none };
        let lasts = if self.is_idle() { HEARD } else { AWAITED };
        let until = self.waits.over(served, lasts);
        if now >= until {
            return none;
        }
        let (bytes, fewer) = self.others_under_way(now, station);
        (bytes.saturating_sub(BESIDE), until.min(fewer))
    }

    /// Bytes that are thought to be below and that nobody will acknowledge, by the rate of `station`; and the
    /// time from which they are fewer, if nothing happens until then.
    pub(super) fn others_under_way(&self, now: Instant, station: StationId) -> (u64, Instant) {
        if self.others.below() == 0 {
            return (0, Instant::FAR_FUTURE);
        }
        // If no acknowledgment is to come, time has to say what has passed. In a silence nothing does.
        let takes = if self.is_idle() { self.others_take(station) } else { LONGEST_BELOW };
        let aged = now - takes;
        let ended = self.waits.latest_end();
        if aged < ended {
            return (self.others.below(), ended + takes);
        }
        let next = self.others.next_after(aged).map_or(Instant::FAR_FUTURE, |at| at + takes);
        (self.others.below_since(aged), next)
    }

    /// Time in which a packet passes that nobody acknowledges: by the rate of a station that does, or by that
    /// of all stations where they share a limit.
    fn others_take(&self, station: StationId) -> Duration {
        let (most, rate, local) = if let Some(limit) = self.cell.limit() {
            (limit.most, self.cell.passes(), limit.local)
        } else {
            let slow = self.untold(station).map_or(0.0, |untold| untold.rate.rates.slow());
            let (most, local) = self.most_below(station).unwrap_or_default();
            (most, slow, local)
        };
        if most == 0 || rate <= 0.0 {
            return LONGEST_BELOW;
        }
        Duration::from_nanos((most as f64 / (rate * AHEAD)) as u64).max(local).min(LONGEST_BELOW)
    }

    /// As [`below_is_full`](Self::below_is_full) for a station whose rate is not known: what nobody will
    /// acknowledge may go there while the station that was served last may be sent something.
    pub(super) fn full_of_others(&self, now: Instant, station: StationId) -> Option<Instant> {
        let (others, until) = self.others_below(now);
        let (_, served) = self.served?;
        if others == 0 || self.is_shared() || served == station {
            return None;
        }
        Some(self.full_below(now, served)?.min(until))
    }

    /// A segment goes down that adds nothing to what its station has to acknowledge. A SYN does not count:
    /// the connection that it begins will be heard.
    #[inline]
    pub(super) fn on_sent_beside(&mut self, now: Instant, sent: &SentDown) {
        let is_syn = sent.seq_len == 1 && sent.len <= LONGEST_SYN;
        if !is_syn {
            self.on_unacknowledged(now, if sent.seq_len > 0 { sent.seq_len } else { sent.len });
        }
    }

    /// `bytes` go down that nobody will acknowledge.
    #[inline]
    pub fn on_unacknowledged(&mut self, now: Instant, bytes: u32) {
        if self.measures && !self.below_is_never_full() {
            self.others.on_sent(now, u64::from(bytes));
        }
    }

    /// `bytes` that nobody will acknowledge came back from the transmit queue.
    pub fn on_unacknowledged_back(&mut self, bytes: u32) {
        self.others.taken_back(u64::from(bytes));
    }

    /// True if something goes down that nobody will acknowledge and that shares what a station may have
    /// below.
    #[inline]
    pub fn counts_others(&self, now: Instant) -> bool {
        self.others.went_down_since(now, AWAITED) && !self.is_shared()
    }

    /// True if next to nothing is below that nobody will acknowledge.
    #[inline]
    pub(super) fn is_clear_of_others(&self, now: Instant) -> bool {
        self.others.below() <= EMPTY_RADIO || !self.others.went_down_since(now, AWAITED)
    }

    /// The station acknowledged something new: what nobody acknowledges and went down before that has passed.
    /// Answers its bytes, as far as they count in the present sample.
    #[inline]
    pub(super) fn pass_others(&mut self, now: Instant, flow: &mut Flow) -> u64 {
        let station = flow.station;
        self.served = Some((now, station));
        let (acked, watched) = (flow.acked, flow.watched.as_mut());
        // A segment that was sent again is known by its first departure otherwise.
        let again = watched.and_then(|watched| {
            watched.again.take_if(|(end, _)| acked.is_some_and(|acked| !acked.before(*end)))
        });
        if self.others.below() == 0 {
            return 0;
        }
        let Some(record) = self.stations.get(station) else { return 0 };
        let Some(untold) = &record.untold else { return 0 };
        let first = untold.rate.passed(record.outstanding);
        first.max(again.map(|(_, at)| at)).map_or(0, |passed| self.others.pass(passed))
    }
}
