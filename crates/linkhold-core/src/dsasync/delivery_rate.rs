//! The rate of a link that nobody tells, from what is known to have passed it.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation-02, sections 2 and 3 (from memory: the text could not be
//! looked up; Linux `tcp_rate.c` is its implementation); for `extra_acked` draft-ietf-ccwg-bbr. Beside the
//! paper (`dsasync`). Sees what goes down and what is acknowledged; answers a fast and a slow rate.
//!
//! A sample: armed → a segment is followed (its departure noted with what had been delivered by then) → its
//! ACK came (delivered since then over the longer of the time between the ACKs and the time between the
//! departures) → armed. Samples follow each other without a gap while there is something to send.
//!
//! Deviations from the draft, which follows every segment of one connection:
//! - All connections of a station are one source, since they share one link; one segment is followed at a time,
//!   so that a station costs a fixed amount of memory.
//! - Here a sample is *limited* if the station ran dry at any time in it, by what the base station knows to be
//!   under way. A limited sample counts only if it is above the slow rate. So what a sender does not use lowers
//!   no estimate, and a link that became faster is still seen.
//! - Samples are laid end to end into windows, rather than kept as a maximum. A link that varies is not used
//!   up by its mean, but a maximum stays high for seconds after the rate fell, and what was sent by it waits.
//! - A silence ends a sample; it is in neither rate.

use super::flow_table::FlowId;
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// Spans of time that the rates are made of. The slow window is at most this many, less the one being filled.
const SPANS: usize = 64;

/// A sample longer than this says that the station was away unannounced rather than what its link carries.
const LONGEST: Duration = Duration::from_secs(1);

/// Half of the time for which the largest burst of ACKs is remembered (BBR: 5 to 10 round trips).
const BURST_MEMORY: Duration = Duration::from_secs(5);

/// A burst is believed up to this much of the slow rate (Linux BBR, `bbr_extra_acked_max_us`: 100 ms).
const BURST_LIMIT: Duration = Duration::from_millis(100);

/// Bytes that passed in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    nanos: u64,
    bytes: u64,
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
        if self.sum.nanos == 0 { 0.0 } else { self.sum.bytes as f64 / self.sum.nanos as f64 }
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

    /// `bytes` passed in `time`.
    pub fn add(&mut self, bytes: u64, time: Duration) {
        let span = Span { nanos: time.as_nanos(), bytes };
        let current = &mut self.ring[self.newest];
        current.nanos += span.nanos;
        current.bytes += span.bytes;
        let is_full = current.nanos >= self.full;
        for window in [&mut self.fast, &mut self.slow] {
            window.spans = window.spans.max(1);
            window.sum.nanos += span.nanos;
            window.sum.bytes += span.bytes;
            // What is older than the window leaves it, but never the newest span.
            while window.spans > 1 {
                let oldest = self.ring[(self.newest + SPANS + 1 - window.spans) % SPANS];
                if window.sum.nanos - oldest.nanos < window.length && window.spans < SPANS {
                    break;
                }
                window.sum.nanos -= oldest.nanos;
                window.sum.bytes -= oldest.bytes;
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
}

/// The most that ACKs came ahead of the rate (BBR's `extra_acked`): a radio that sends ACKs together must
/// have that much under way, or it runs dry between them.
#[derive(Clone, Debug, Default)]
struct Bursts {
    began: Instant,
    bytes: u64,
    /// Largest of this and of the previous [`BURST_MEMORY`].
    largest: [u64; 2],
    since: Instant,
}

impl Bursts {
    fn on_acked(&mut self, now: Instant, bytes: u64, rate: f64) {
        if now.since(self.since) > BURST_MEMORY {
            self.largest = [0, self.largest[0]];
            self.since = now;
        }
        let expected = rate * now.since(self.began).as_nanos() as f64;
        if self.bytes as f64 <= expected {
            (self.began, self.bytes) = (now, 0);
        }
        self.bytes += bytes;
        let expected = rate * now.since(self.began).as_nanos() as f64;
        let extra = (self.bytes as f64 - expected).min(rate * BURST_LIMIT.as_nanos() as f64).max(0.0);
        self.largest[0] = self.largest[0].max(extra as u64);
    }
}

/// A segment whose ACK ends a sample.
#[derive(Clone, Copy, Debug)]
struct Followed {
    flow: FlowId,
    end: Seq,
    sent: Instant,
    /// As [`DeliveryRate::delivered`] and its time were when the segment went down.
    delivered: u64,
    delivered_at: Instant,
    /// The station ran dry since.
    limited: bool,
}

/// The delivery rate of one station.
#[derive(Clone, Debug)]
pub(super) struct DeliveryRate {
    pub rates: Rates,
    bursts: Bursts,
    delivered: u64,
    delivered_at: Instant,
    /// When the segment went down whose ACK ended the last sample.
    last_sent: Instant,
    followed: Option<Followed>,
    /// A sample that was not limited has been taken: the rate is the link's, not the senders'.
    filled: bool,
}

impl DeliveryRate {
    pub fn new(fast: Duration, slow: Duration) -> Self {
        Self {
            rates: Rates::new(fast, slow),
            bursts: Bursts::default(),
            delivered: 0,
            delivered_at: Instant::ZERO,
            last_sent: Instant::ZERO,
            followed: None,
            filled: false,
        }
    }

    /// The rate is the link's and not merely the senders'.
    pub fn is_filled(&self) -> bool {
        self.filled
    }

    /// A new segment goes down; `outstanding` is what was under way before.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, flow: FlowId, end: Seq, outstanding: u64) {
        if outstanding == 0 {
            // Nothing was under way: neither time between ACKs nor between departures began before this.
            (self.delivered_at, self.last_sent) = (now, now);
        }
        if self.followed.is_none() {
            let (delivered, delivered_at) = (self.delivered, self.delivered_at);
            let limited = outstanding == 0;
            self.followed = Some(Followed { flow, end, sent: now, delivered, delivered_at, limited });
        }
    }

    /// `bytes` more of the station's connections are known to have arrived; `flow` acknowledged all before
    /// `acked`. `dry`: next to nothing was left to send.
    #[inline]
    pub fn on_acked(&mut self, now: Instant, flow: FlowId, acked: Seq, bytes: u64, dry: bool) {
        if bytes > 0 {
            self.delivered += bytes;
            self.delivered_at = now;
            if self.filled {
                self.bursts.on_acked(now, bytes, self.rates.slow());
            }
        }
        let Some(followed) = &mut self.followed else { return };
        followed.limited |= dry;
        if followed.flow != flow || acked.before(followed.end) {
            if now.since(followed.sent) > LONGEST {
                self.followed = None;
            }
            return;
        }
        let followed = *followed;
        self.followed = None;
        let between_acks = now.since(followed.delivered_at);
        let between_departures = followed.sent.since(self.last_sent);
        self.last_sent = followed.sent;
        let time = between_acks.max(between_departures);
        if time.is_zero() || time > LONGEST {
            return;
        }
        let bytes = self.delivered - followed.delivered;
        if !followed.limited {
            if !self.filled {
                // What was measured until now was the senders' rate.
                self.rates = Rates::new(
                    Duration::from_nanos(self.rates.fast.length),
                    Duration::from_nanos(self.rates.slow.length),
                );
            }
            self.filled = true;
        } else if bytes as f64 <= self.rates.slow() * time.as_nanos() as f64 {
            return;
        }
        self.rates.add(bytes, time);
    }

    /// A silence begins or ends, or the followed segment was taken back: what is measured across it says
    /// nothing.
    pub fn interrupt(&mut self, now: Instant) {
        self.followed = None;
        (self.delivered_at, self.last_sent) = (now, now);
        (self.bursts.began, self.bursts.bytes) = (now, 0);
    }

    /// The most that ACKs came ahead of the rate, bytes.
    pub fn burst(&self) -> u64 {
        self.bursts.largest[0].max(self.bursts.largest[1])
    }
}

#[cfg(test)]
mod tests;
