//! What a base station does where nobody tells the rate: how much may be under way, and how large windows
//! are.
//!
//! Beside the paper (`dsasync`). Sees what a station is sent and has acknowledged; answers the most that may
//! be outstanding below, and the windows that the station's senders are told. The rates come from
//! [`DeliveryRate`]. What the station itself may send: [`UplinkRate`](super::uplink_rate::UplinkRate).
//!
//! - **Below** lies no more than rate · local round trip, the transmit queue's time at the most that the cell
//!   ever carried, what is acknowledged together, and a packet. The rest waits in the hold buffer.
//!   - Where one station has the radio to itself, only the more of the transmit queue's time and of what is
//!     acknowledged together counts: either keeps the radio busy until the next ACK, and the router's own
//!     queue is then shorter than the 5 ms for which CoDel leaves it alone. With both, the queue was longer,
//!     because some ACKs of real hosts come together, and CoDel dropped ten packets a run.
//!   - Where several share the radio, each has enough below for its next turn. All of them together have a
//!     limit, and windows allow for what waits below of the others ([`cell`](super::cell)).
//!   - Each further flow of the station adds half a packet. A receiver that delays its ACK (RFC 1122 section
//!     4.2.3.2) leaves every second segment of a flow unacknowledged though it arrived; if the gate counted
//!     those, the segments that the receiver waits for would wait here. While no ACK is delayed, that half a
//!     packet lies in the router's queue and counts as that queue: with both, 4 to 16 flows had 8 to 15 ms
//!     there, of which CoDel dropped 50 to 150 packets in 20 s.
//!   - If the station acknowledges nothing for [`PATIENCE`], as much goes down once more: what it has yet to
//!     acknowledge may be lost. For a station that is away one packet would do. But where what fills the
//!     limit was lost, or waits for delayed ACKs of other connections, each ACK would let go no more than it
//!     acknowledges: 24 downloads of one station lost 2 %, and a sparse flow beside 16, with bursts told
//!     late, waited twice as long.
//! - **Downlink window**, of all connections of the station together: `max(4 MSS, forecast + waits)`, with
//!   `forecast = slow · wired round trip` and `waits = (slow + fast) / 2 · (local round trip + margin)`.
//!   What an ACK lets go arrives a wired round trip later, so the first part forecasts what passes until
//!   then. Where data comes later than after the least round trip, the forecast covers that time as well
//!   ([`lateness`](super::lateness)). The forecast leaves the fast rate out: by that rate, what came in
//!   bursts would be asked for again a round trip later.
//! - **Margin**: the time for which data is kept waiting in case a forecast is wrong. The margin grows
//!   while the radio runs dry though the senders used their windows up, and shrinks otherwise, in the
//!   proportion that lets the radio run dry for `dry_share` of the time: a quantile followed by its own
//!   error (Robbins and Monro 1951). So a link that varies gets a long queue and a steady one hardly any,
//!   without either being set. From its first value the margin would take longer to get there than most
//!   downloads last. So on the downlink it first falls fast, and begins anew at that value once the radio
//!   runs dry for long and its rate is seen to vary. Dry times alone say little: several connections that
//!   start again together after a silence leave a steady radio dry, and a margin that grew by them added 30
//!   ms of delay and no goodput. The margin is at least the standing queue. So a window is always more than
//!   the measured rate needs, and a low estimate cannot confirm itself: each round trip carries more than
//!   the one before, until the radio is busy.
//!
//! What goes down and nobody acknowledges ([`Unacknowledged`](super::unacknowledged::Unacknowledged)) counts
//! in all of this: in what lies below, in the rate, and as time that the downlink window allows for.
//!
//! Nothing is held down before the radio was busy for the length of a sample.

use super::cell::{Limit, Needs};
use super::config::DsaSyncConfig;
use super::delivery_rate::{DeliveryRate, UnderWay};
use super::shares::Shares;
use super::withheld::FULL_PACKET;
use crate::time::{Duration, Instant};

/// A station that acknowledges nothing for this long, outside silences, is sent as much more as should lie
/// below: what it has yet to acknowledge may be lost. Longer than the gaps that a cellular scheduler leaves.
pub(super) const PATIENCE: Duration = Duration::from_millis(200);

/// The margin grows or shrinks by at most this share of the time that passes.
const STEP: f64 = 0.02;

/// The margin falls by this share of the time that passes as long as nothing says that the rate varies: to
/// the standing queue within a second.
const TRIAL_STEP: f64 = 0.05;

/// The rate varies once the radio ran dry for this part of `dry_share`, over [`TRIAL`], and the fast rate was
/// off the slow one by [`VARIES`]. After a burst of a primary user the radio is dry for less: a round trip at
/// most. But where several connections start again together the radio may be dry for longer, though its rate
/// is steady.
const TRIAL_PART: f64 = 0.5;

/// How far off the slow rate, in proportion, the fast one is on a link that varies. On the recorded links of
/// docs/traces.md it is off by 0.14 to 0.27 in the median, where a primary user is on and off by 0.00 to 0.03
/// (1 to 16 flows).
const VARIES: f64 = 0.1;

/// A fast rate that is off by more counts as off by so much: the first samples after a silence say little.
const MOST_OFF: f64 = 0.3;

/// Time over which it is measured how long the radio runs dry.
const TRIAL: Duration = Duration::from_secs(3);

/// The margin to begin with, and the least margin when the rate turns out to vary.
const FIRST_MARGIN: Duration = Duration::from_millis(30);

/// Time between two looks at the radio counts up to this.
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// An upload's ACK waits no longer below than this, as far as is allowed for: a station that is hardly served
/// would make it seconds.
const MOST_WAIT: Duration = Duration::from_millis(50);

/// Bytes that count as next to nothing: two full packets.
pub(super) const NEXT_TO_NOTHING: f64 = 2.0 * FULL_PACKET;

/// What the radio does, as far as can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// There is more to send than it takes in a round trip.
    Busy,
    /// It has nothing to send, and the senders may send no more.
    Dry,
    /// It has nothing to send, though the senders may send.
    Idle,
}

/// How the margin is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Search {
    /// Nothing says yet that the rate varies: the margin falls fast. Over [`TRIAL`], `dry` is the share of
    /// the time in which the radio ran dry, and `off` how far off the slow rate the fast one was.
    Trial { dry: f64, off: f64 },
    /// The rate varies: the margin follows its quantile.
    Quantile,
}

/// The wait that is allowed for against wrong forecasts, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Margin {
    pub nanos: f64,
    pub looked: Instant,
    pub search: Search,
}

impl Margin {
    pub const NEW: Self = Self {
        nanos: FIRST_MARGIN.as_nanos() as f64,
        looked: Instant::ZERO,
        search: Search::Trial { dry: 0.0, off: 0.0 },
    };

    /// `off`: how far off the slow rate the fast one is, in proportion.
    pub fn look(&mut self, now: Instant, load: Load, off: f64, limits: &Limits) {
        let passed = now.since(self.looked).min(LONGEST_LOOK).as_nanos() as f64;
        self.looked = now;
        if let Search::Trial { dry, off: usually_off } = &mut self.search
            && load != Load::Idle
        {
            let part = passed / TRIAL.as_nanos() as f64;
            let ran_dry = f64::from(u8::from(load == Load::Dry));
            *dry += (ran_dry - *dry) * part;
            *usually_off += (off.min(MOST_OFF) - *usually_off) * part;
            if *dry > TRIAL_PART * limits.dry_share && *usually_off > VARIES {
                self.search = Search::Quantile;
                self.nanos = self.nanos.max(FIRST_MARGIN.as_nanos() as f64);
            }
        }
        let change = match (load, self.search) {
            (Load::Dry, _) => STEP * (1.0 - limits.dry_share) * passed,
            (Load::Busy, Search::Trial { .. }) => -TRIAL_STEP * passed,
            (Load::Busy, Search::Quantile) => -STEP * limits.dry_share * passed,
            (Load::Idle, _) => 0.0,
        };
        self.nanos = (self.nanos + change).clamp(limits.least_margin, limits.most_margin);
    }
}

/// The settings that concern a station.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub dry_share: f64,
    /// Least and most margin, ns.
    pub least_margin: f64,
    pub most_margin: f64,
    pub fast: Duration,
    pub slow: Duration,
}

impl Limits {
    pub fn new(config: &DsaSyncConfig) -> Self {
        let nanos = |time: Duration| time.as_nanos() as f64;
        Self {
            dry_share: config.dry_share.get(),
            least_margin: nanos(config.standing_queue),
            most_margin: nanos(config.most_margin.max(config.standing_queue)),
            fast: config.fast_rate,
            slow: config.slow_rate,
        }
    }

    /// A rate of which nothing is measured yet.
    pub fn rate(&self) -> DeliveryRate {
        DeliveryRate::new(self.fast, self.slow)
    }
}

/// Who shares the radio with a station.
#[derive(Clone, Copy, Debug)]
pub(super) enum Among<'a> {
    /// Nobody.
    Alone,
    /// Senders of what nobody acknowledges. `most` bytes of all lie below, which the station's window has to
    /// leave room for: what waits here takes turns with their packets.
    Others { most: u64 },
    /// Other stations.
    Stations(&'a Limit),
}

/// One station whose rate nobody tells.
#[derive(Clone, Debug)]
pub(super) struct Untold {
    limits: Limits,
    pub rate: DeliveryRate,
    margin: Margin,
    pub shares: Shares,
}

impl Untold {
    pub fn new(limits: Limits) -> Self {
        Self { limits, rate: limits.rate(), margin: Margin::NEW, shares: Shares::default() }
    }

    /// What is under way to the station, with all that a sample is judged by; `unacknowledged`: what is under
    /// way to anybody and nobody will acknowledge.
    pub fn under_way(&self, outstanding: u64, unacknowledged: u64, local: Duration) -> UnderWay {
        let few = NEXT_TO_NOTHING + self.delayed();
        let passing = self.rate.rates.slow() * local.as_nanos() as f64;
        let dry = (outstanding + unacknowledged) as f64 <= passing + few;
        UnderWay { bytes: outstanding, unacknowledged, dry, local, few }
    }

    /// The station acknowledged something, outside silences: moves the margin. `dry`: next to nothing is
    /// under way.
    pub fn look(&mut self, now: Instant, dry: bool) {
        let load = match (dry, self.rate.used_up) {
            (false, _) => Load::Busy,
            (true, true) => Load::Dry,
            (true, false) => Load::Idle,
        };
        if self.rate.is_filled() {
            self.margin.look(now, load, self.rate.rates.off(), &self.limits);
        }
    }

    /// What the station takes, bytes/ns: the greater of both rates.
    pub fn taken(&self) -> f64 {
        self.rate.rates.fast().max(self.rate.rates.slow())
    }

    /// Most that may be outstanding below, bytes, of which `queued` may wait in the router's queue; `None`
    /// before the rate is known. A station that is not alone counts with a rate of at most `fair`, bytes/ns.
    pub fn most_below(&self, local: Duration, queued: f64, fair: Option<f64>) -> Option<u64> {
        let rate = self.taken();
        let part = fair.map_or(1.0, |fair| if rate > fair { fair / rate } else { 1.0 });
        let needed = rate * part * local.as_nanos() as f64 + FULL_PACKET + self.delayed();
        let bunches = self.rate.for_bunches(self.shares.count()) as f64 * part;
        let waits = if fair.is_some() {
            queued + bunches
        } else {
            (queued.max(bunches) - self.delayed()).max(FULL_PACKET)
        };
        self.rate.is_filled().then_some((needed + waits) as u64)
    }

    /// How long `queued` bytes and a packet take to the station, whose rate is at least `least`, bytes/ns.
    pub fn takes(&self, queued: f64, least: f64) -> Duration {
        let nanos = (queued + FULL_PACKET) / self.taken().max(least);
        Duration::from_nanos(nanos as u64).min(MOST_WAIT)
    }

    /// What the station needs below where it shares the cell; `None` before its rate is known.
    pub fn needs(&self) -> Option<Needs> {
        let rate = self.taken();
        let (delayed, bunches) = (self.delayed(), self.rate.for_bunches(self.shares.count()) as f64);
        self.rate.is_filled().then_some(Needs { rate, delayed, bunches })
    }

    /// Bytes of the station's further flows that have arrived and are not acknowledged, because ACKs are
    /// delayed.
    pub fn delayed(&self) -> f64 {
        (self.shares.count() - 1.0) * FULL_PACKET / 2.0
    }

    /// The window of one of the station's connections with this wired round trip, bytes; `None` before the
    /// rate is known. Its ACKs wait for `wait` behind uploads. Where the station shares the cell, `among`
    /// says how.
    pub fn window(
        &self,
        wired: Duration,
        local: Duration,
        wait: Duration,
        mss: u32,
        among: Among<'_>,
    ) -> Option<u32> {
        let (mut fast, mut slow) = (self.rate.rates.fast(), self.rate.rates.slow());
        let mut waits = (local + wait).as_nanos() as f64 + self.margin.nanos;
        if let Among::Others { most } = among {
            waits += most as f64 / self.taken();
        }
        if let Among::Stations(cell) = among {
            (fast, slow) = (fast.max(cell.fair), slow.max(cell.fair));
            waits = (local.min(cell.local) + wait).as_nanos() as f64 + self.margin.nanos + cell.below;
        }
        let segment = mss.clamp(536, 9000);
        let bytes = slow * wired.as_nanos() as f64 + f64::midpoint(fast, slow) * waits;
        let bytes = bytes.max(f64::from(4 * segment)) / self.shares.count();
        // One segment more, because a delayed ACK leaves one arrived segment unacknowledged.
        self.rate.is_filled().then(|| (bytes as u32).saturating_add(segment).max(2 * segment))
    }

    /// A silence begins or ends.
    pub fn interrupt(&mut self, now: Instant) {
        self.rate.interrupt(now);
        self.margin.looked = now;
    }

    /// Mean rate over the slow window, payload bytes/s, once it is known: of what goes down.
    pub fn downlink_rate(&self) -> Option<f64> {
        self.rate.is_filled().then(|| self.rate.rates.slow() * 1e9)
    }
}

#[cfg(test)]
mod tests;
