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
//! - **Downlink wait**, where nobody tells the rate: what an answered timestamp took beyond the least, less
//!   the wait at the station. No more than twice what the transmit queue takes: an upload must not be given
//!   time for a queue that its own ACKs fill. Nothing where several stations have traffic, as they have most
//!   of the radio's turns.

use super::RoundTrips;
use super::radio::smooth;
use crate::packet::StationId;
use crate::time::{Duration, Instant};

/// How many times the transmit queue an upload's ACK may wait for. With one, an uplink that shares nothing
/// with the downlink had 0.55 to 0.64 of its part over 3 ms; with four, downloads of a slow radio had 0.72.
const ALLOWED: f64 = 2.0;

/// A longer wait is not believed: timestamps are the station's, and what one station has below for its wait
/// delays all others. Four uploads with the least window fill 5 Mbit/s for as long.
const LONGEST: Duration = Duration::from_millis(250);

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
        if let Some(took) = took {
            let took = took.saturating_sub(waited);
            radio.turned.add(now, took);
            radio.usually_turned = Some(smooth(radio.usually_turned, took));
        }
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
        let wait = match record.radio.uplink_wait {
            Some(waited) if !self.bdp.is_told() => waited,
            _ if !uplink.is_greedy(local) => Duration::ZERO,
            _ => uplink.takes(local, down.map_or(0.0, |untold| untold.rate.rates.slow())),
        };
        wait.min(LONGEST)
    }

    /// How much longer than without downloads an upload's ACK takes to the station.
    pub(super) fn downlink_wait(&self, station: StationId) -> Duration {
        let Some(record) = self.stations.get(station) else { return Duration::ZERO };
        let Some(untold) = self.untold(station) else { return Duration::ZERO };
        if self.is_shared() || record.outstanding == 0 {
            return Duration::ZERO;
        }
        let queued = self.bdp.carried_in(self.transmit_queue);
        match (record.radio.usually_turned, record.radio.turned.get()) {
            (Some(usual), Some(least)) => {
                usual.saturating_sub(least).min(untold.takes(ALLOWED * queued, 0.0))
            }
            _ => untold.takes(queued, record.uplink.as_ref().map_or(0.0, |uplink| uplink.rate() / 2.0)),
        }
    }

    /// A round trip from here to the station with nothing queued below: as it usually is, with what its ACKs
    /// wait behind its own uploads.
    #[inline]
    pub(super) fn local_part(&self, station: StationId) -> Option<Duration> {
        Some(self.usual_radio_part(station)? + self.uplink_wait(station))
    }
}
