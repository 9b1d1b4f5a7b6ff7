//! The rate of a link that nobody tells, from what is known to have passed it.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation-02, sections 2 and 3 (from memory, not checked; Linux
//! `tcp_rate.c` implements it). Beside the paper (`dsasync`). Sees what goes down and what is acknowledged;
//! answers a fast and a slow rate.
//!
//! A sample: from an ACK to the first one at least [`LEAST`] later: what was delivered in between, the time
//! between the ACKs, and the time between the departures of what they acknowledged last. The rate is over the
//! longer one.
//!
//! Deviations from the draft, which keeps a record with every segment of one connection:
//! - All connections of a station are one source, since they share one link, and samples do not overlap. When
//!   something went down is looked up by the count of bytes in a short, thinned list, so that a station costs
//!   a fixed amount of memory. What is written off as lost counts as delivered in that list only.
//! - Here a sample is *limited* if the station ran dry at any time in it, by what the base station knows to
//!   be under way. A limited sample counts only if it is above the slow rate, so that what a sender does not
//!   use lowers no estimate, and a link that became faster is still seen. If the senders use up the windows
//!   they are told, half of the slow rate is enough: most such samples were dry for a moment only, and with
//!   the fast ones alone the rate would be too high. The window is always more than the rate needs, so this
//!   lowers no rate for long.
//! - A sample with a queue all through is not limited, whatever the slow rate says of it: by Little's law,
//!   one in which more than twice what it delivered in a local round trip was always under way. Judged by the
//!   slow rate alone, no sample would correct a slow rate that is too high: by that rate every station looks
//!   dry, while a queue stands at the router.
//! - The longer of the two times is taken over a whole window. If it were taken for each sample, the times
//!   would add up to more than has passed wherever data and ACKs come in bursts, and the rate would be too
//!   low.
//! - Samples are laid end to end into windows, rather than kept as a maximum. A link that varies is not used
//!   up by its mean, but a maximum stays high for seconds after the rate fell, and what was sent by it waits.
//! - BBR's `extra_acked` is the most that came ahead of the rate. A link that varies comes ahead of its mean
//!   rate all the time, so a queue would stand below for that, and CoDel would drop from it. Here what is
//!   acknowledged together takes the place of `extra_acked`.
//! - What passes and nobody acknowledges ([`Unacknowledged`](super::unacknowledged::Unacknowledged)) counts
//!   as delivered, less the part that is lost. That part is taken to be the same as of the station's own
//!   bytes, of which as many are lost as go down once more.
//! - A silence ends a sample; it is in neither rate.

use super::departures::Departures;
use super::withheld::{Arrived, Withheld};
use crate::time::{Duration, Instant};

/// Spans of time that the rates are made of. The slow window is at most this many, less the one being filled.
const SPANS: usize = 64;

/// Least time of a sample: ACKs come in bunches of a few milliseconds.
const LEAST: Duration = Duration::from_millis(8);

/// A limited sample counts if it is above this part of the slow rate, where the senders use their windows up.
const LEAST_PART: f64 = 0.5;

/// A sample had a queue if more than this many times what it delivered in a local round trip was under way
/// all through it. One would be enough, if what passes in 8 ms were no more uneven than what passes in a
/// round trip.
const QUEUED: f64 = 2.0;

/// A sample longer than this says that the station was away unannounced rather than what its link carries.
const LONGEST: Duration = Duration::from_secs(1);

/// Weight of a sample in the share of bytes that are lost. A sample of a connection that loses much has one
/// segment, lost or not.
const LOSSES_STEP: f64 = 1.0 / 8.0;

/// ACKs with less time between them are one bunch.
const TOGETHER: Duration = Duration::from_millis(1);

/// The mean bunch is taken over about this many bytes.
const BUNCH_MEMORY: f64 = 256.0 * 1024.0;

/// Two full segments.
const PAIR: f64 = 3000.0;

/// Bunches are believed up to what the slow rate carries in this time. Linux BBR says 100 ms
/// (`bbr_extra_acked_max_us`), but too much below overflows the router's queue, and with too little packets
/// only wait here.
const BUNCH_LIMIT: Duration = Duration::from_millis(40);

/// Bytes that passed, the time between their ACKs (`nanos`), and the time between their departures (`sent`,
/// ns).
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    nanos: u64,
    sent: u64,
    bytes: u64,
}

impl Span {
    fn add(&mut self, other: Self) {
        self.nanos += other.nanos;
        self.sent += other.sent;
        self.bytes += other.bytes;
    }

    fn take(&mut self, other: Self) {
        self.nanos -= other.nanos;
        self.sent -= other.sent;
        self.bytes -= other.bytes;
    }
}

/// The latest spans that together are as long as a window.
#[derive(Clone, Copy, Debug)]
struct Window {
    length: u64,
    sum: Span,
    /// How many spans are in `sum`.
    spans: usize,
}

impl Window {
    fn new(length: Duration) -> Self {
        Self { length: length.as_nanos().max(1), sum: Span::default(), spans: 0 }
    }

    /// Bytes/ns.
    fn rate(&self) -> f64 {
        let time = self.sum.nanos.max(self.sum.sent);
        if time == 0 { 0.0 } else { self.sum.bytes as f64 / time as f64 }
    }
}

/// Fast and slow mean of what passed, over windows of counted time.
#[derive(Clone, Debug)]
pub(super) struct Rates {
    ring: [Span; SPANS],
    /// The newest span, which is still being filled.
    newest: usize,
    /// A span is full at this length, ns.
    full: u64,
    fast: Window,
    slow: Window,
}

impl Rates {
    pub fn new(fast: Duration, slow: Duration) -> Self {
        let slow = slow.max(fast);
        Self {
            ring: [Span::default(); SPANS],
            newest: 0,
            full: slow.as_nanos() / (SPANS as u64 - 4) + 1,
            fast: Window::new(fast),
            slow: Window::new(slow),
        }
    }

    /// `bytes` passed in `time` between ACKs, having gone down in `sent`.
    pub fn add(&mut self, bytes: u64, time: Duration, sent: Duration) {
        let span = Span { nanos: time.as_nanos(), sent: sent.as_nanos(), bytes };
        let current = &mut self.ring[self.newest];
        current.add(span);
        let is_full = current.nanos >= self.full;
        for window in [&mut self.fast, &mut self.slow] {
            window.spans = window.spans.max(1);
            window.sum.add(span);
            // What is older than the window leaves it, but never the newest span.
            while window.spans > 1 {
                let oldest = self.ring[(self.newest + SPANS + 1 - window.spans) % SPANS];
                if window.sum.nanos - oldest.nanos < window.length && window.spans < SPANS {
                    break;
                }
                window.sum.take(oldest);
                window.spans -= 1;
            }
        }
        if is_full {
            self.newest = (self.newest + 1) % SPANS;
            self.ring[self.newest] = Span::default();
            self.fast.spans += 1;
            self.slow.spans += 1;
        }
    }

    /// Mean over the fast window, bytes/ns; 0 before the first sample.
    pub fn fast(&self) -> f64 {
        self.fast.rate()
    }

    /// Mean over the slow window, bytes/ns; 0 before the first sample.
    pub fn slow(&self) -> f64 {
        self.slow.rate()
    }

    /// How far the fast mean is off the slow one, in proportion; 0 before the first sample.
    pub fn off(&self) -> f64 {
        let (fast, slow) = (self.fast(), self.slow());
        if slow > 0.0 { (fast - slow).abs() / slow } else { 0.0 }
    }
}

/// How much is acknowledged together: a radio that sends ACKs in bunches must have that much under way, or it
/// runs dry between them. It is the mean over bytes, so that a large bunch counts as often as it has bytes.
///
/// A bunch is as large as it was ahead of the slow rate, and ends when that rate has caught up: the ACKs of
/// sixteen flows come within a millisecond of each other all the time, which makes them no bunch.
#[derive(Clone, Copy, Debug, Default)]
struct Bunches {
    began: Instant,
    last: Instant,
    bytes: u64,
    /// Most bytes that the present bunch was ahead of the slow rate.
    most: f64,
    mean: f64,
}

impl Bunches {
    /// `bytes` were acknowledged; `rate` is the slow rate, bytes/ns.
    fn on_acked(&mut self, now: Instant, bytes: u64, rate: f64) {
        if now.since(self.last) > TOGETHER || self.ahead(now, rate) <= 0.0 {
            let size = self.most;
            self.mean += (size - self.mean) * size / (size + BUNCH_MEMORY);
            self.began = now;
            self.forget();
        }
        self.last = now;
        self.bytes += bytes;
        self.most = self.most.max(self.ahead(now, rate));
    }

    fn ahead(&self, now: Instant, rate: f64) -> f64 {
        self.bytes as f64 - rate * now.since(self.began).as_nanos() as f64
    }

    /// Empties the present bunch.
    fn forget(&mut self) {
        (self.bytes, self.most) = (0, 0.0);
    }
}

/// The sample that is being taken.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// When the ACK came that it begins with, and when what that ACK acknowledged had gone down.
    began: Instant,
    sent: Instant,
    bytes: u64,
    /// Of what nobody acknowledges: bytes that passed, or were lost.
    beside: u64,
    /// Bytes of the station that went down once more: as much was lost.
    again: u64,
    /// Fewest bytes that were under way in it.
    low: u64,
    /// True if the station ran dry in it, by the slow rate.
    limited: bool,
}

/// How many of the station's own bytes arrive: as many of the others' packets do.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    /// Bytes that arrived lately, and bytes that went down once more.
    arrived: f64,
    again: f64,
}

impl Losses {
    /// The share that arrives, with this sample.
    fn arrive(&mut self, sample: &Sample) -> f64 {
        self.arrived += (sample.bytes as f64 - self.arrived) * LOSSES_STEP;
        self.again += (sample.again as f64 - self.again) * LOSSES_STEP;
        self.arrived / (self.arrived + self.again)
    }
}

/// What is under way to a station once an ACK came.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    pub bytes: u64,
    /// What is under way to anybody and nobody will acknowledge, bytes.
    pub unacknowledged: u64,
    /// Both together are next to nothing, by the slow rate.
    pub dry: bool,
    /// Round trip to the station without a queue.
    pub local: Duration,
    /// As little as this is next to nothing at any rate, bytes.
    pub few: f64,
}

/// The delivery rate of one station.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRate {
    pub rates: Rates,
    bunches: Bunches,
    departures: Departures,
    sample: Sample,
    losses: Losses,
    /// The senders use up the windows that they are told: if the station runs dry, its window is too small.
    pub used_up: bool,
    /// Whose window that was, by slot, when it was seen, and for how long it stands.
    seen: (u32, Instant, Duration),
    /// A sample that was not limited has been taken: the rate is the link's, not the senders'.
    filled: bool,
}

impl DeliveryRate {
    pub fn new(fast: Duration, slow: Duration) -> Self {
        Self {
            rates: Rates::new(fast, slow),
            bunches: Bunches::default(),
            departures: Departures::default(),
            sample: Sample::default(),
            losses: Losses::default(),
            used_up: false,
            seen: (0, Instant::ZERO, Duration::ZERO),
            filled: false,
        }
    }

    /// True if the rate is the link's and not merely the senders'.
    pub fn is_filled(&self) -> bool {
        self.filled
    }

    /// What the station withholds of its `outstanding` bytes; see [`Withheld::of`].
    pub fn withheld(&self, now: Instant, outstanding: u64, first: u64, arrived: Arrived) -> Withheld {
        Withheld::of(now, &self.departures, outstanding, first, arrived)
    }

    /// `bytes` of new data go down after a time in which nothing did: neither time between ACKs nor between
    /// departures began before this.
    #[inline]
    pub fn begin_sample(&mut self, now: Instant) {
        self.sample = Sample { began: now, sent: now, limited: true, ..Sample::default() };
    }

    /// `bytes` of new data go down; `before` was under way until now.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, bytes: u64, before: UnderWay) {
        self.sample.limited |= before.dry;
        self.sample.low = self.sample.low.min(before.bytes + before.unacknowledged);
        self.departures.add(now, bytes);
    }

    /// `bytes` of the station went down once more.
    #[inline]
    pub fn on_sent_again(&mut self, bytes: u32) {
        self.sample.again += u64::from(bytes);
    }

    /// When the last of what went down and is not under way any more first went down, if `outstanding` bytes
    /// are.
    pub fn passed(&self, outstanding: u64) -> Option<Instant> {
        self.departures.last_of(self.departures.sent().saturating_sub(outstanding))
    }

    /// `bytes` more of the station's connections are known to have arrived; `under_way`: what still is.
    /// `beside`: what is now known to have passed, of that which nobody acknowledges.
    #[inline]
    pub fn on_acked(&mut self, now: Instant, bytes: u64, beside: u64, under_way: UnderWay) {
        let UnderWay { bytes: outstanding, unacknowledged, dry, local, few } = under_way;
        self.sample.limited |= dry;
        self.sample.low = self.sample.low.min(outstanding + unacknowledged);
        if bytes == 0 {
            return;
        }
        self.bunches.on_acked(now, bytes, self.rates.slow());
        self.sample.bytes += bytes;
        self.sample.beside += beside;
        let mut sample = self.sample;
        let between_acks = now.since(sample.began);
        if between_acks < LEAST {
            return;
        }
        let sent = self.departures.of(self.departures.sent().saturating_sub(outstanding)).unwrap_or(now);
        let low = outstanding + unacknowledged;
        self.sample = Sample { began: now, sent, low, limited: dry, ..Sample::default() };
        let between_departures = sent.since(sample.sent);
        let time = between_acks.max(between_departures);
        // While others' packets pass, the station is not away but has little to send, or loses what it is
        // sent.
        if (time > LONGEST && sample.beside == 0) || sample.began == Instant::ZERO {
            return;
        }
        sample.bytes += (sample.beside as f64 * self.losses.arrive(&sample)) as u64;
        let passing = sample.bytes as f64 / between_acks.as_nanos() as f64 * local.as_nanos() as f64;
        if !sample.limited || sample.low as f64 > QUEUED * passing + few {
            if !self.filled {
                // What was measured until now was the senders' rate.
                let length = |window: &Window| Duration::from_nanos(window.length);
                self.rates = Rates::new(length(&self.rates.fast), length(&self.rates.slow));
            }
            self.filled = true;
        } else if sample.bytes as f64 <= self.least_limited() * time.as_nanos() as f64 {
            return;
        }
        self.rates.add(sample.bytes, between_acks, between_departures);
    }

    /// It was seen whether the sender of the flow in `slot` has used up what it was told a round trip ago;
    /// that stands for `span`. One that has not says nothing of another that has.
    pub fn saw_edge(&mut self, now: Instant, slot: u32, used_up: bool, span: Duration) {
        if used_up || !self.used_up || self.seen.0 == slot {
            self.used_up = used_up;
            self.seen = (slot, now, span);
        }
    }

    /// Since when, and for how long, it stands that windows are used up.
    pub const fn used_up_since(&self) -> (Instant, Duration) {
        (self.seen.1, self.seen.2)
    }

    /// The least rate of a limited sample that counts, bytes/ns.
    fn least_limited(&self) -> f64 {
        self.rates.slow() * if self.used_up { LEAST_PART } else { 1.0 }
    }

    /// A silence begins or ends: what is measured across it says nothing.
    pub fn interrupt(&mut self, now: Instant) {
        self.sample = Sample { began: now, sent: now, low: u64::MAX, ..Sample::default() };
        self.bunches.forget();
    }

    /// What should be under way for ACKs of `flows` connections that come in bunches, bytes: two bunches, one
    /// that passes and one to go on with, less the pairs of segments that every receiver acknowledges
    /// together. Where flows are sent one segment each in their turn, each of them acknowledges a pair in the
    /// time that one takes.
    pub fn for_bunches(&self, flows: f64) -> u64 {
        let mean = self.bunches.mean;
        let limit = self.rates.slow() * BUNCH_LIMIT.as_nanos() as f64;
        let pairs = PAIR / 2.0 * (flows + 1.0);
        (mean.min(PAIR) + 2.0 * (mean - pairs).max(0.0)).min(limit) as u64
    }
}

#[cfg(test)]
mod tests;
