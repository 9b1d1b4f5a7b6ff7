//! What comes up from a station, and how far beyond it the station may send.
//!
//! Beside the paper (`dsasync`). Sees the data that comes up; answers what
//! [`uplink_windows`](super::uplink_windows) tells the station.
//!
//! - **Uplink window**: the base station sees what leaves the radio, and the correspondent's ACKs pass it on
//!   their way down. It moves the window's right edge to what has left the radio, plus
//!   `fast · (local round trip + margin)`. The wired round trip is not in this loop, so nothing has to be
//!   forecast. If the correspondent's ACKs come less often than the edge has to move, an ACK that repeats the
//!   last one moves it.
//! - **Margin**: as on the downlink ([`untold`](super::untold)).
//!
//! Nothing is held down before the radio was busy for the length of a sample.

use super::delivery_rate::Rates;
use super::shares::Shares;
use super::untold::{Limits, Load, Margin, NEXT_TO_NOTHING, Search};
use crate::time::{Duration, Instant};

/// The uplink may run dry for this part of `dry_share`. Its loop is as short as the radio's round trip, so a
/// tenth of the dry time costs only a few milliseconds there.
const UPLINK_PART: f64 = 0.1;

/// Uplink bytes are counted over at least this time.
const TILE: Duration = Duration::from_millis(8);

/// A station that sends nothing for this long had nothing to send, or was away.
const PAUSE: Duration = Duration::from_millis(100);

/// What comes up from one station.
#[derive(Clone, Debug)]
pub(super) struct UplinkRate {
    limits: Limits,
    rates: Rates,
    began: Instant,
    heard: Instant,
    bytes: u64,
    limited: bool,
    filled: bool,
    margin: Margin,
    /// Among how many of the station's connections its window is shared.
    pub shares: Shares,
}

impl UplinkRate {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits { dry_share: limits.dry_share * UPLINK_PART, ..limits },
            rates: Rates::new(limits.fast, limits.slow),
            began: Instant::ZERO,
            heard: Instant::ZERO,
            bytes: 0,
            limited: true,
            filled: false,
            // The uplink's quantile is a hundredth of the time: no trial is long enough to tell.
            margin: Margin { search: Search::Quantile, ..Margin::NEW },
            shares: Shares::default(),
        }
    }

    /// `bytes` of new data came up, after which the station may send `allowed` more.
    pub fn on_came_up(&mut self, now: Instant, bytes: u64, allowed: u64, local: Duration) {
        let paused = now.since(self.heard) > PAUSE;
        self.heard = now;
        let dry = allowed as f64 <= self.rates.slow() * local.as_nanos() as f64 + NEXT_TO_NOTHING;
        if paused {
            (self.began, self.bytes, self.limited) = (now, 0, false);
            return;
        }
        self.bytes += bytes;
        self.limited |= dry;
        if self.filled {
            self.margin.look(now, if dry { Load::Dry } else { Load::Busy }, 0.0, &self.limits);
        }
        let time = now.since(self.began);
        if time < TILE {
            return;
        }
        if !self.limited || self.bytes as f64 > self.rates.slow() * time.as_nanos() as f64 {
            self.rates.add(self.bytes, time, time);
        }
        self.filled |= !self.limited;
        (self.began, self.bytes, self.limited) = (now, 0, false);
    }

    /// How far beyond what has left the radio one of the station's connections may send, bytes; `None` before
    /// the rate is known.
    pub fn ahead(&self, local: Duration, mss: u32) -> Option<u32> {
        let segment = mss.clamp(536, 9000);
        let bytes = self.rates.fast() * (local.as_nanos() as f64 + self.margin.nanos);
        let bytes = bytes.max(f64::from(4 * segment)) / self.shares.count();
        self.filled.then(|| (bytes as u32).saturating_add(segment).max(2 * segment))
    }

    /// How long an ACK waits behind the data that the station was told it may send; nothing where the station
    /// had sent none for a while at `time`, or its rate is not known.
    pub fn wait(&self, time: Instant, local: Duration) -> Duration {
        if !self.filled || self.heard + PAUSE < time {
            return Duration::ZERO;
        }
        local + Duration::from_nanos(self.margin.nanos as u64)
    }

    /// A silence begins or ends.
    pub fn interrupt(&mut self, now: Instant) {
        self.margin.looked = now;
        (self.began, self.heard, self.bytes) = (now, now, 0);
    }
}
