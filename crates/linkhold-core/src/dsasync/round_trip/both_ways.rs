//! Downloads and uploads of one station: what each direction's answers wait for in the other's queue.
//!
//! Beside the paper (`dsasync`). Sees how long data waits at a station and how long a local round trip from
//! there takes; answers how much longer than without the other direction a local round trip takes.
//!
//! The ACKs of a download wait at the station behind the data of its uploads, and the ACKs of an upload wait
//! below behind the data of downloads. What is held down to its rate times a round trip without that wait
//! carries less, has a lower rate, and is held down further: one of both directions starves.
//! `sim/tests/both_ways.rs` has what each had of its part.
//!
//! - **Uplink wait**: by the station's timestamps ([`OneWay`](crate::dsasync::one_way::OneWay)), smoothed;
//!   that of an ACK is that of the data before it. It is no longer than [`LONGEST`], because a station may
//!   say what it likes. Where timestamps do not say, or the rate is told, the bytes that a station which
//!   sends all it may was told it may send, at its rate; or at the half of what both directions carry, if
//!   that is more: a station that sends little on a shared radio has its turns when it wants them. For a
//!   radio whose directions do not share, that is too short. With timestamps where the rate is told, six of
//!   54 cells had 0.73 to 0.79 of a direction's part.
//! - **Equal parts**, where nobody tells the rate: on a shared radio a direction has as much as it has
//!   queued. A download that has less than its station's uploads allows for a wait in which it carries as
//!   much as the station was told that it may send. With the uplink wait alone, eight downloads beside eight
//!   uploads over a FIFO had 0.7 of half of 8 to 20 Mbit/s, and now 0.95. If the directions share nothing,
//!   that only makes a queue below: a link of 20 Mbit/s upward and 5 downward then carries up no more than
//!   down. For the other pairs of links that were tried it changes little: the rate down is no less there.
//! - **Downlink wait**: what an answered timestamp took beyond the least, less the wait at the station. No
//!   more than [`ALLOWED`] times what the transmit queue takes: an upload must not be given time for a queue
//!   that its own ACKs fill. Where the rate is told, the standing queue, which windows leave there. Nothing
//!   where several stations have traffic, as they have most of the radio's turns.

use super::radio::smooth;
use super::{RoundTrips, StationRecord};
use crate::packet::StationId;
use crate::time::{Duration, Instant};

/// How many times the transmit queue an upload's ACK may wait for. With two, an uplink that shares nothing
/// with the downlink had 0.56 of its part over 5 Mbit/s and 3 ms, and now 0.61; a download over a shared
/// radio of 8 Mbit/s had 1.21 of half, and now 1.08.
const ALLOWED: f64 = 4.0;

/// A longer wait is not believed: timestamps are the station's, and what one station has below for its wait
/// delays all others. Four uploads with the least window fill 5 Mbit/s for as long.
const LONGEST: Duration = Duration::from_millis(250);

/// What a station's data waited is believed for this long.
const FRESH: Duration = Duration::from_secs(2);

impl RoundTrips {
    /// Data came up that had waited so long at the station; `took`: since a timestamp that it repeats went
    /// down. What had to wait for the end of a silence says nothing.
    pub fn on_data_waited(
        &mut self,
        now: Instant,
        station: StationId,
        waited: Duration,
        took: Option<Duration>,
    ) {
        if self.bdp.is_told() || now.since(self.waits.latest_end()) < waited {
            return;
        }
        let radio = &mut self.stations.at(station).radio;
        radio.uplink_wait = Some(smooth(radio.uplink_wait, waited));
        radio.uplink_waited = now;
        if let Some(took) = took {
            let took = took.saturating_sub(waited);
            radio.turned.add(now, took);
            radio.usually_turned = Some(smooth(radio.usually_turned, took));
        }
    }

    /// How long the station's data waits there, if it says so. Several hosts may be behind a station: one
    /// that says so may have ended its uploads, while another that does not goes on.
    fn known_wait(&self, record: &StationRecord) -> Option<Duration> {
        let is_fresh = record.heard <= self.waits.over(record.radio.uplink_waited, FRESH);
        record.radio.uplink_wait.filter(|_| !self.bdp.is_told() && is_fresh)
    }

    /// How long an ACK of the station waits behind its own uploads.
    #[inline]
    pub(super) fn uplink_wait(&self, station: StationId) -> Duration {
        let Some(record) = self.stations.get(station) else { return Duration::ZERO };
        let (Some(uplink), Some(local)) = (&record.uplink, record.radio.uplink()) else {
            return Duration::ZERO;
        };
        if !uplink.is_sending(record.heard) {
            return Duration::ZERO;
        }
        let down = self.untold(station);
        let wait = match self.known_wait(record) {
            Some(waited) => waited,
            _ if !uplink.is_greedy(local) => Duration::ZERO,
            _ => uplink.takes(local, down.map_or(0.0, |untold| untold.rate.rates.slow())),
        };
        wait.min(LONGEST)
    }

    /// How long a wait behind its station's uploads a download allows for (equal parts, above).
    pub(super) fn wait_beside_uploads(&self, station: StationId) -> Duration {
        let waits = self.uplink_wait(station);
        self.equal_wait(station).map_or(waits, |equal| equal.max(waits))
    }

    /// Time in which the station is sent as much as it was told that it may send; `None` if it is sent no
    /// less than comes from it, or sends next to nothing.
    pub(super) fn equal_wait(&self, station: StationId) -> Option<Duration> {
        let record = self.stations.get(station)?;
        let uplink = record.uplink.as_ref().filter(|uplink| uplink.is_sending(record.heard))?;
        let rate = self.untold(station)?.taken();
        if rate >= uplink.rate() {
            return None;
        }
        let local = self.uplink_radio_part(station).filter(|&local| uplink.is_greedy(local))?;
        Some(Duration::from_nanos((uplink.allowed(local) / rate) as u64).min(LONGEST))
    }

    /// How long an ACK that the station has sent waited behind its uploads; `None` if it has any and does not
    /// say how long its data waits, or is not asked because the downlink's rate is told.
    pub(super) fn waited_behind_uploads(&self, station: StationId) -> Option<Duration> {
        let record = self.stations.get(station)?;
        let local = record.radio.uplink().unwrap_or_default();
        if !record.uplink.as_ref().is_some_and(|uplink| uplink.has_much(record.heard, local)) {
            return Some(Duration::ZERO);
        }
        self.known_wait(record).map(|_| self.uplink_wait(station))
    }

    /// How much longer than without downloads an upload's ACK takes to the station.
    pub(super) fn downlink_wait(&self, station: StationId) -> Duration {
        let Some(record) = self.stations.get(station) else { return Duration::ZERO };
        if self.is_shared() || record.outstanding == 0 {
            return Duration::ZERO;
        }
        if self.bdp.is_told() {
            // Halfway to two equal stations.
            return if self.bdp.stations() < 1.5 { self.bdp.standing() } else { Duration::ZERO };
        }
        let Some(untold) = self.untold(station) else { return Duration::ZERO };
        let allowed = ALLOWED * self.bdp.carried_in(self.transmit_queue);
        match (record.radio.usually_turned, record.radio.uplink()) {
            (Some(usual), Some(least)) => usual.saturating_sub(least).min(untold.takes(allowed, 0.0)),
            _ => untold.takes(allowed, record.uplink.as_ref().map_or(0.0, |uplink| uplink.rate() / 2.0)),
        }
    }

    /// A round trip from here to the station with nothing queued below: as it usually is, with what its ACKs
    /// wait behind its own uploads.
    #[inline]
    pub(super) fn local_part(&self, station: StationId) -> Option<Duration> {
        Some(self.usual_radio_part(station)? + self.uplink_wait(station))
    }
}

#[cfg(test)]
mod tests {
    use core::ops::RangeInclusive;

    use super::*;
    use crate::dsasync::config::DsaSyncConfig;
    use crate::dsasync::shares::Tally;
    use crate::units::{BitRate, Fraction};

    const STATION: StationId = StationId(0);
    const LOCAL: Duration = Duration::from_millis(4);
    /// When its last data came.
    const END: u64 = 3000;

    /// A station that sends 1500 bytes each millisecond for two seconds, and may send more at any time.
    fn uploading(told: bool) -> RoundTrips {
        let mut trips = RoundTrips::new(&DsaSyncConfig::default());
        if told {
            trips.set_capacity(BitRate::from_mbps(24), Fraction::ONE);
        }
        trips.stations.at(STATION).radio.empty.add(Instant::from_millis(1000), LOCAL);
        upload(&mut trips, 1001..=END);
        trips
    }

    /// 1500 bytes come up in each of these milliseconds.
    fn upload(trips: &mut RoundTrips, when: RangeInclusive<u64>) {
        let mut tally = Tally::default();
        for now in when.map(Instant::from_millis) {
            let uplink = trips.uplink_at(STATION).expect("windows are held down");
            uplink.shares.add(now, 1500, &mut tally);
            uplink.on_came_up(now, 1500, 16_000, LOCAL);
            trips.stations.at(STATION).heard = now;
        }
    }

    /// The same, whose data has waited so many ms, as its timestamps say; an ACK that goes down is answered
    /// after `took` ms.
    fn waiting(told: bool, waited: u64, took: Option<u64>) -> RoundTrips {
        let mut trips = uploading(told);
        let [waited, took] = [Some(waited), took].map(|ms| ms.map(Duration::from_millis));
        for ms in END - 50..END {
            trips.on_data_waited(Instant::from_millis(ms), STATION, waited.unwrap_or_default(), took);
        }
        trips
    }

    fn near(time: Duration, ms: u64) -> bool {
        time.as_nanos().abs_diff(Duration::from_millis(ms).as_nanos()) < 500_000
    }

    #[test]
    fn an_ack_waits_as_long_as_the_data_before_it_as_far_as_that_is_believed() {
        for (waited, expected) in [(0, 0), (30, 30), (240, 240), (2000, 250)] {
            let wait = waiting(false, waited, None).uplink_wait(STATION);
            assert!(near(wait, expected), "{waited} ms: {wait}");
        }
        assert_eq!(RoundTrips::new(&DsaSyncConfig::default()).uplink_wait(STATION), Duration::ZERO);
    }

    #[test]
    fn nothing_waits_behind_an_upload_that_is_over() {
        let mut trips = waiting(false, 30, None);
        trips.stations.at(STATION).heard = Instant::from_millis(END + 101);
        assert_eq!(trips.uplink_wait(STATION), Duration::ZERO);
    }

    #[test]
    fn without_timestamps_or_with_the_rate_told_the_wait_is_that_of_what_was_allowed() {
        let estimated = uploading(false).uplink_wait(STATION);
        assert!(estimated >= LOCAL && estimated < Duration::from_millis(50), "{estimated}");
        // What timestamps say is not asked where the rate is told.
        assert_eq!(waiting(true, 200, None).uplink_wait(STATION), uploading(true).uplink_wait(STATION));
    }

    #[test]
    fn a_part_that_silent_stations_left_is_not_remembered_while_no_rate_is_told() {
        let mut trips = uploading(true);
        trips.present = 0.4;
        trips.set_capacity(BitRate::from_mbps(24), Fraction::ONE);
        assert!(trips.present < 1.0, "a silence goes on");
        trips.set_capacity(BitRate(0), Fraction::ONE);
        assert!(trips.present >= 1.0);
    }

    /// Another host behind the station uploads, and sends no timestamps.
    #[test]
    fn what_data_waited_is_not_believed_for_ever() {
        let mut trips = waiting(false, 200, None);
        upload(&mut trips, END + 1..=END + 2500);
        assert!(trips.uplink_wait(STATION) < Duration::from_millis(50), "{}", trips.uplink_wait(STATION));
    }

    #[test]
    fn data_that_waited_for_the_end_of_a_silence_says_nothing() {
        let mut trips = waiting(false, 30, None);
        trips.silence_began(Instant::from_millis(END));
        trips.silence_ended(Instant::from_millis(END + 300));
        for ms in 301..340 {
            let waited = Duration::from_millis(ms);
            trips.on_data_waited(Instant::from_millis(END + ms), STATION, waited, None);
        }
        assert!(near(trips.uplink_wait(STATION), 30), "{}", trips.uplink_wait(STATION));
    }

    #[test]
    fn an_uploads_ack_waits_for_what_its_answer_takes_beyond_the_least_without_the_wait_at_the_station() {
        let mut trips = waiting(false, 20, Some(24));
        assert_eq!(trips.uplink_radio_part(STATION), Some(LOCAL), "no download, and no wait for one");
        trips.stations.at(STATION).outstanding = 30_000;
        assert!(trips.untold_at(STATION).is_some());
        assert!(near(trips.downlink_wait(STATION), 0), "{}", trips.downlink_wait(STATION));
        for ms in 0..50 {
            let (waited, took) = (Duration::from_millis(20), Duration::from_millis(27));
            trips.on_data_waited(Instant::from_millis(END + ms), STATION, waited, Some(took));
        }
        assert!(near(trips.downlink_wait(STATION), 3), "{}", trips.downlink_wait(STATION));
        assert!(trips.uplink_radio_part(STATION).is_some_and(|part| near(part, 7)));
    }

    #[test]
    fn a_download_that_has_less_than_its_stations_uploads_allows_for_as_much_as_they_may_send() {
        let ms = Duration::from_millis;
        // Down, bytes a millisecond; from the station come 1500.
        for down in [3000, 600, 100] {
            let mut trips = waiting(false, 10, None);
            let untold = trips.untold_at(STATION).expect("nobody tells the rate");
            for _ in 0..200 {
                untold.rate.rates.add(down * 8, ms(8), ms(8));
            }
            let allowed = trips.uplink(STATION).expect("it sends").allowed(LOCAL);
            let expected = if down > 1500 { 10.0 } else { (allowed / down as f64).min(250.0) };
            let wait = trips.wait_beside_uploads(STATION);
            assert!(near(wait, expected.round() as u64), "{down} bytes a ms: {wait}, {expected} ms");
            // What a sample is corrected by is the wait that was measured.
            assert!(near(trips.uplink_wait(STATION), 10));
            trips.stations.at(STATION).heard = Instant::from_millis(END + 101);
            assert_eq!(trips.wait_beside_uploads(STATION), Duration::ZERO, "the uploads are over");
        }
    }

    #[test]
    fn where_the_rate_is_told_an_upload_allows_for_the_standing_queue_of_a_download() {
        let mut trips = uploading(true);
        assert_eq!(trips.uplink_radio_part(STATION), Some(LOCAL), "there is no download");
        trips.stations.at(STATION).outstanding = 30_000;
        assert_eq!(trips.uplink_radio_part(STATION), Some(LOCAL + Duration::from_millis(5)));
        // Several stations have most of the radio's turns.
        let mut tallies = [Tally::default(), Tally::default()];
        for ms in END..END + 2000 {
            trips.bdp.on_sent(Instant::from_millis(ms), 1500, &mut tallies[ms as usize % 2]);
        }
        assert_eq!(trips.uplink_radio_part(STATION), Some(LOCAL));
    }

    #[test]
    fn how_long_an_ack_waited_is_known_without_uploads_and_by_timestamps() {
        let waited = |trips: &RoundTrips| trips.waited_behind_uploads(STATION);
        assert!(waited(&waiting(false, 30, None)).is_some_and(|wait| near(wait, 30)));
        for told in [false, true] {
            assert_eq!(waited(&uploading(told)), None, "timestamps do not say");
            let mut over = uploading(told);
            over.stations.at(STATION).heard = Instant::from_millis(END + 101);
            assert_eq!(waited(&over), Some(Duration::ZERO));
        }
    }
}
