//! How much a flow needs in flight: base round trip, share of the radio, and the window clamp made of them.
//!
//! Beside the paper (`dsasync`), whose section IV-B c leaves windows alone. A window of one base round trip
//! plus a short standing queue keeps the radio busy, and a sender held to it fills neither the router's queue
//! nor, in a silence, the hold buffer: the goodput of a deep buffer with the delay of a short one.
//!
//! - **Base round trip** = wired part (an uplink packet passes → the correspondent's answer passes) + radio
//!   part (a segment goes down to an empty radio → its ACK comes up). The standing queue sits before the
//!   radio, so it is in neither: an estimate taken end to end would count its own queue, grow the window by
//!   it, and so on.
//!   A segment that is shorter than a full one counts as if it were full: on a slow radio a SYN takes
//!   milliseconds less, more than the standing queue.
//! - **Standing queue**: as it is set, but two full segments at least, where the rate is told. A station
//!   acknowledges every second one, and a window holds whole segments: with less than that a slow radio would
//!   run dry between two ACKs (CoDel, too, never drops the last packet: RFC 8289 section 5.4).
//! - **Rate**, where the channel's rate is told: the most that stations acknowledged in 200 ms, but between
//!   0.8 and 1 times C·e. On a shared medium the ACKs take airtime too, about a tenth; with C·e alone that
//!   tenth of the base round trip would stand as a queue.
//! - Where the rate is not told (it varies, or nobody knows), windows are
//!   [`Untold`](super::untold::Untold)'s. What remains here is the **pace** at which held packets leave: the
//!   most that stations acknowledged in one base round trip, over the last 10 to 20 s, silences left out. A
//!   time in which the radio ran dry may raise it but does not age it.
//! - **Trim**: shares may be measured too small, so the window is cut by up to half, until the shortest time
//!   that a segment spends in the radio is the radio part plus the standing queue. Once the radio runs dry
//!   the whole window is given again, at once.
//! - **Late data**: where the wired part varies, windows allow for it
//!   ([`Lateness`](super::lateness::Lateness)), and the trim leaves that time as well.
//! - **Share**: `clamp = trim · rate · (base + standing queue) / (stations · flows)`, and one segment more
//!   for the delayed ACK: among as many equal stations as [`Shares`] counts in the cell, and as many equal
//!   flows as it counts at the flow's station. If the rate were shared among all the cell's flows at once, a
//!   station with many flows would get as many windows, and with them the radio. Flows that their stations
//!   have not answered do not count: the hold buffer gives all of them one turn, the trim finds what they
//!   leave, and when a flood of them ends nothing has to be unlearned.

use super::min_filter::HALF_WINDOW;
use super::probes::EMPTY_RADIO;
use super::shares::{Shares, Tally};
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Fraction};

/// The delivered rate is measured over this time where the channel's rate is told, and over no more where it
/// is not.
const BIN: Duration = Duration::from_millis(200);
/// The delivered rate is measured over at least this time: ACKs come in bunches of a few milliseconds.
const LEAST_BIN: Duration = Duration::from_millis(50);
/// The least share of C·e that is believed. A lower one only says that the radio was not busy.
const LEAST_SHARE: f64 = 0.8;

/// The least share of the window that the trim leaves.
const LEAST_TRIM: f64 = 0.5;

/// Over how many epochs the trim takes back an excess.
const DAMPING: f64 = 2.0;

/// Room that pacing by the estimate leaves to discover a higher one (BBR's pacing gain while it probes).
const PACING_GAIN: f64 = 1.25;

/// Slowest pace that an estimate may set: a full packet each 10 ms. A lower estimate was measured while a
/// station was away unannounced, or while all waited for what was lost. Held packets must not wait for
/// seconds because of such an estimate, and it could not rise while so little is let go: what senders send
/// again does not count as delivered. On a radio that really is slower, what may be outstanding below
/// ([`Untold::most_below`](super::untold::Untold::most_below)) holds packets back, not the pace.
const LEAST_PACE: BitRate = BitRate(1_200_000);

/// Pace of held packets by this rate, bytes/ns.
pub(super) fn pace_of(rate: f64) -> BitRate {
    BitRate((rate * PACING_GAIN * 8e9) as u64).max(LEAST_PACE)
}

/// The clamp's cell-wide part.
#[derive(Debug)]
pub(super) struct Bdp {
    /// C·e; 0 while it is unknown.
    bytes_per_ns: f64,
    /// The standing queue: as it is set, and as windows leave it.
    least_standing: Duration,
    standing: Duration,
    /// Stations that share the cell.
    stations: Shares,
    bin_start: Instant,
    bin_bytes: u64,
    /// Least bytes in the radio in this bin.
    bin_low: u64,
    /// Highest delivered rate of this and of the previous half-window, bytes/ns, and this one's start.
    fastest: [f64; 2],
    fastest_since: Instant,
    /// True once the radio was busy all through a bin. Until then the measured rate is the senders', not the
    /// radio's.
    filled: bool,
    /// Share of the window that is given, so that the radio's queue is the standing queue at its shortest.
    trim: f64,
    trim_since: Instant,
    /// Shortest time in the radio of this trim epoch.
    trim_low: Option<Duration>,
    /// Smoothed base round trip, and its radio part, of the flows held down lately, ns.
    base: f64,
    radio: f64,
    /// Smoothed time that their windows allow for late data, ns.
    late: f64,
}

impl Bdp {
    pub fn new(standing: Duration) -> Self {
        Self {
            bytes_per_ns: 0.0,
            least_standing: standing,
            standing,
            stations: Shares::default(),
            bin_start: Instant::ZERO,
            bin_bytes: 0,
            bin_low: 0,
            fastest: [0.0; 2],
            fastest_since: Instant::ZERO,
            filled: false,
            trim: 1.0,
            trim_since: Instant::ZERO,
            trim_low: None,
            base: 0.0,
            radio: 0.0,
            late: 0.0,
        }
    }

    /// A station acknowledged `bytes`; `outstanding` are in the radio still. True if the rate was measured
    /// anew.
    pub fn on_delivered(&mut self, now: Instant, bytes: u64, outstanding: u64) -> bool {
        self.bin_bytes += bytes;
        self.bin_low = self.bin_low.min(outstanding);
        let time = now.since(self.bin_start);
        time >= self.bin() && self.end_bin(now, time, outstanding)
    }

    /// Ends a bin of this length. False if it says nothing of the radio's rate.
    #[cold]
    fn end_bin(&mut self, now: Instant, time: Duration, outstanding: u64) -> bool {
        let rate = self.bin_bytes as f64 / time.as_nanos() as f64;
        let busy = self.bin_low > EMPTY_RADIO;
        self.filled |= busy;
        self.restart_bin(now, outstanding);
        if !busy && rate <= self.fastest() {
            return false;
        }
        if now.since(self.fastest_since) > HALF_WINDOW {
            self.fastest = [rate, self.fastest[0]];
            self.fastest_since = now;
        } else {
            self.fastest[0] = self.fastest[0].max(rate);
        }
        true
    }

    fn bin(&self) -> Duration {
        if self.bytes_per_ns > 0.0 {
            return BIN;
        }
        Duration::from_nanos(self.base as u64).max(LEAST_BIN).min(BIN)
    }

    /// A silence begins or ends: what was delivered across it says nothing of the radio's rate. A bin that
    /// begins with next to nothing in the radio is not one in which it was busy: before the first ACK of a
    /// connection, or of what a silence held, lies a time in which there was nothing to deliver.
    pub fn restart_bin(&mut self, now: Instant, outstanding: u64) {
        self.bin_start = now;
        self.bin_bytes = 0;
        self.bin_low = outstanding;
    }

    /// A segment was this long in the radio, with no silence in between. The trim moves once in two base
    /// round trips, because a change shows a round trip later.
    pub fn on_radio_time(&mut self, now: Instant, time: Duration) {
        let low = self.trim_low.map_or(time, |low| low.min(time));
        self.trim_low = Some(low);
        if now.since(self.trim_since) < BIN.max(Duration::from_nanos((2.0 * self.base) as u64)) {
            return;
        }
        self.trim_since = now;
        self.trim_low = None;
        let Some(rate) = self.rate() else { return };
        let (standing, low) = (self.standing.as_nanos() as f64, low.as_nanos() as f64);
        if low <= self.radio + EMPTY_RADIO as f64 / rate {
            self.trim = 1.0;
            return;
        }
        // Only a part of the step, so that chance in one epoch does not swing the window.
        let step = (self.radio + standing + self.late - low) / (self.base + standing + self.late) / DAMPING;
        self.trim = (self.trim + step).clamp(LEAST_TRIM, 1.0);
    }

    fn fastest(&self) -> f64 {
        self.fastest[0].max(self.fastest[1])
    }

    /// Payload bytes/ns that the radio carries, where the channel's rate is told.
    fn rate(&self) -> Option<f64> {
        let fastest = self.fastest();
        let rate = if fastest > 0.0 {
            fastest.clamp(LEAST_SHARE * self.bytes_per_ns, self.bytes_per_ns)
        } else {
            self.bytes_per_ns
        };
        self.is_told().then_some(rate)
    }

    /// Among how many equal stations the cell is shared.
    pub fn stations(&self) -> f64 {
        self.stations.count()
    }

    /// Bytes that stations acknowledge in this time at the highest rate measured.
    pub fn carried_in(&self, time: Duration) -> f64 {
        self.fastest() * time.as_nanos() as f64
    }

    /// Time that so many bytes take at the rate that is told; none where no rate is told.
    pub fn takes(&self, bytes: u32) -> Duration {
        let rate = self.bytes_per_ns;
        if rate > 0.0 { Duration::from_nanos((f64::from(bytes) / rate) as u64) } else { Duration::ZERO }
    }

    /// Time in which stations acknowledge so many bytes at the highest rate measured, if any was.
    pub fn passes_in(&self, bytes: u64) -> Option<Duration> {
        let fastest = self.fastest();
        (fastest > 0.0).then(|| Duration::from_nanos((bytes as f64 / fastest) as u64))
    }

    /// Rate at which held packets may go to a radio of unknown capacity.
    pub fn pace(&self) -> Option<BitRate> {
        (self.bytes_per_ns <= 0.0 && self.filled).then(|| pace_of(self.fastest()))
    }

    /// The channel's rate is told.
    pub fn is_told(&self) -> bool {
        self.bytes_per_ns > 0.0
    }

    /// The channel's rate and efficiency became known or changed; a rate of zero: no longer known.
    pub fn set_capacity(&mut self, capacity: BitRate, efficiency: Fraction) {
        self.bytes_per_ns = capacity.as_bps() as f64 * efficiency.get() / 8e9;
        self.standing = self.least_standing.max(self.takes(EMPTY_RADIO as u32));
        self.fastest = [0.0; 2];
        self.filled = false;
    }

    /// Counts a station's bytes on their way down.
    pub fn on_sent(&mut self, now: Instant, len: u32, tally: &mut Tally) {
        self.stations.add(now, len, tally);
    }

    /// The queue that windows leave at the radio.
    pub fn standing(&self) -> Duration {
        self.standing
    }

    /// Notes the base round trip of a flow that is being held down, and what its window allows for `late`
    /// data.
    pub fn note_base(&mut self, wired: Duration, radio: Duration, late: Duration) {
        let (base, radio) = ((wired + radio).as_nanos() as f64, radio.as_nanos() as f64);
        let late = late.as_nanos() as f64;
        if self.base > 0.0 {
            self.late += (late - self.late) / 16.0;
            self.base += (base - self.base) / 16.0;
            self.radio += (radio - self.radio) / 16.0;
        } else {
            (self.base, self.radio, self.late) = (base, radio, late);
        }
    }

    /// The window, bytes, for a flow with this base round trip whose station has as many equal `flows`;
    /// `None` while no rate is told. The window is one segment more than the radio needs, because a delayed
    /// ACK leaves one arrived segment unacknowledged, and at least two segments, so that it never stops the
    /// flow.
    pub fn clamp(&self, wired: Duration, radio: Duration, mss: u32, flows: f64) -> Option<u32> {
        let rate = self.rate()?;
        let nanos = (wired + radio + self.standing).as_nanos() as f64;
        let segment = mss.clamp(536, 9000);
        let bytes = (rate * self.trim * nanos / (self.stations.count() * flows)) as u32;
        Some(bytes.saturating_add(segment).max(2 * segment))
    }
}

#[cfg(test)]
mod tests;
