//! How fast the path delivers: a sample of the delivery rate for each ACK.
//!
//! Source: draft-cheng-iccrg-delivery-rate-estimation-00, sections 3.2 (variables) and 3.3 (transmission,
//! ACK, application-limited times), as Linux `tcp_rate.c` has it. Sees transmissions and what ACKs newly
//! report; gives samples. A sample covers the time between the transmission of the most recently sent segment
//! that an ACK newly reports and that ACK, and what was delivered in it. Deviation: it counts bytes where
//! Linux counts packets. A retransmission that an ACK's echoed timestamp shows not to be what arrived gives
//! no sample (`Scoreboard::acknowledge`), nor does one that was out while the sender was frozen, whose ACK
//! may have waited before the silent radio; the draft takes both.

use linkhold_core::time::{Duration, Instant};

use crate::scoreboard::{AckSummary, Delivered};

/// First size of the ring of snapshots.
const FIRST_SIZE: usize = 64;

/// What was known when a segment was last sent (the draft's P.delivered, P.delivered_time, P.first_sent_time,
/// P.is_app_limited).
#[derive(Clone, Copy, Debug)]
struct Snapshot {
    /// The segment's id on the scoreboard. A slot may still have an older segment's.
    id: u32,
    app_limited: bool,
    delivered: u64,
    delivered_at: Instant,
    first_sent: Instant,
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RateSample {
    /// Bytes delivered in `interval`.
    pub delivered: u64,
    /// The longer of the time in which they were sent and that in which they were acknowledged.
    pub interval: Duration,
    /// Bytes delivered when the segment that it judges was sent.
    pub prior_delivered: u64,
    /// The application had nothing to send for a part of it, so the path may carry more.
    pub app_limited: bool,
}

impl RateSample {
    /// Bytes a second.
    pub fn rate(&self) -> f64 {
        self.delivered as f64 / self.interval.as_secs_f64()
    }
}

/// The estimator's state of one connection (the draft's C.*).
#[derive(Clone, Debug)]
pub(crate) struct DeliveryRate {
    /// Bytes delivered so far.
    delivered: u64,
    /// When that last grew.
    delivered_at: Instant,
    /// When the segment was sent that was last found delivered; of a flight that begins, its first.
    first_sent: Instant,
    /// Samples are limited by the application until so much is delivered.
    app_limited_until: Option<u64>,
    /// By the low bits of the segments' ids.
    snapshots: Box<[Snapshot]>,
}

impl DeliveryRate {
    pub fn new(now: Instant) -> Self {
        Self {
            delivered: 0,
            delivered_at: now,
            first_sent: now,
            app_limited_until: None,
            snapshots: Box::new([]),
        }
    }

    /// Bytes delivered so far.
    pub fn delivered(&self) -> u64 {
        self.delivered
    }

    /// When something was last delivered.
    pub fn delivered_at(&self) -> Instant {
        self.delivered_at
    }

    /// True while samples are limited by the application.
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// What is sent until `in_flight` bytes more are delivered says nothing of what the path can carry.
    pub fn limit_by_application(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered + in_flight);
    }

    /// Segment `id` is sent, first or again. `first` is the first outstanding segment's id; it is `id` where
    /// nothing was outstanding.
    pub fn on_sent(&mut self, now: Instant, id: u32, first: u32, begins_flight: bool) {
        if begins_flight {
            // Nothing was in flight: the time before says nothing of the path.
            self.first_sent = now;
            self.delivered_at = now;
        }
        let snapshot = Snapshot {
            id,
            app_limited: self.is_app_limited(),
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        };
        if id.wrapping_sub(first) as usize >= self.snapshots.len() {
            self.grow(id, first, snapshot);
        }
        let slot = slot(id, self.snapshots.len());
        self.snapshots[slot] = snapshot;
    }

    #[cold]
    fn grow(&mut self, id: u32, first: u32, filler: Snapshot) {
        let outstanding = id.wrapping_sub(first);
        let size = (outstanding as usize + 1).next_power_of_two().max(FIRST_SIZE);
        let mut snapshots = vec![filler; size].into_boxed_slice();
        if !self.snapshots.is_empty() {
            for index in 0..outstanding {
                let id = first.wrapping_add(index);
                snapshots[slot(id, size)] = self.snapshots[slot(id, self.snapshots.len())];
            }
        }
        self.snapshots = snapshots;
    }

    /// An ACK newly reports `summary`. `None` where it tells no rate: nothing newly reported, or in less time
    /// than any round trip takes, as after a needless retransmission.
    pub fn on_ack(
        &mut self,
        now: Instant,
        summary: &AckSummary,
        min_rtt: Option<Duration>,
    ) -> Option<RateSample> {
        self.delivered += summary.delivered;
        let judged = summary.newest.and_then(|newest| Some((newest, self.snapshot(&newest)?)));
        if let Some((newest, _)) = judged {
            self.first_sent = newest.sent;
        }
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        if summary.delivered > 0 {
            self.delivered_at = now;
        }
        let (newest, then) = judged.filter(|(newest, _)| newest.timed)?;
        let sending = newest.sent.since(then.first_sent);
        let interval = now.since(then.delivered_at).max(sending);
        if interval.is_zero() || min_rtt.is_some_and(|min| interval < min) {
            return None;
        }
        Some(RateSample {
            delivered: self.delivered - then.delivered,
            interval,
            prior_delivered: then.delivered,
            app_limited: then.app_limited,
        })
    }

    /// Bytes delivered while the sender was frozen: they count, but give no sample.
    pub fn on_frozen_ack(&mut self, summary: &AckSummary) {
        self.delivered += summary.delivered;
    }

    fn snapshot(&self, segment: &Delivered) -> Option<Snapshot> {
        let snapshot = self.snapshots.get(slot(segment.id, self.snapshots.len()))?;
        (snapshot.id == segment.id).then_some(*snapshot)
    }

    /// The sender's clock stood still for `by`.
    pub fn shift_times(&mut self, by: Duration) {
        self.delivered_at += by;
        self.first_sent += by;
        for snapshot in &mut self.snapshots {
            snapshot.delivered_at += by;
            snapshot.first_sent += by;
        }
    }
}

/// Where a segment's snapshot stands among `len` of them, a power of two or none.
fn slot(id: u32, len: usize) -> usize {
    id as usize & len.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: Option<Duration> = Some(Duration::from_millis(10));

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// An ACK that newly reports `bytes`, of which segment `id`, sent at `sent`, is the youngest.
    fn ack(bytes: u64, id: u32, sent: u64) -> AckSummary {
        let newest = Delivered { id, end: 0, sent: at(sent), ever_retransmitted: false, timed: true };
        AckSummary { delivered: bytes, newest: Some(newest), ..AckSummary::default() }
    }

    #[test]
    fn a_sample_is_what_was_delivered_while_its_segment_was_out() {
        let mut rate = DeliveryRate::new(at(0));
        // Ten segments at once, acknowledged one every millisecond from 10 ms on; each ACK lets one more go.
        for id in 0..10 {
            rate.on_sent(at(0), id, 0, id == 0);
        }
        let mut samples = Vec::new();
        for t in 10..=40 {
            let id = t - 10;
            let sent = if id < 10 { 0 } else { id };
            samples.push(rate.on_ack(at(t), &ack(1000, id as u32, sent), MIN));
            rate.on_sent(at(t), t as u32, id as u32 + 1, false);
        }
        // Segment 12 went at 12 ms, when three were delivered; it is acknowledged at 22 ms, the thirteenth.
        // The one that was last delivered when it went was sent at 0, so the time of sending is the longer.
        let sample = samples[12].unwrap();
        assert_eq!((sample.delivered, sample.interval), (10_000, Duration::from_millis(12)));
        let sample = samples[30].unwrap();
        assert_eq!((sample.delivered, sample.interval), (10_000, Duration::from_millis(10)));
        assert!((sample.rate() - 1e6).abs() < 1e-6);
    }

    #[test]
    fn acks_that_come_together_do_not_make_the_path_faster_than_it_was_sent() {
        let mut rate = DeliveryRate::new(at(0));
        for id in 0..20 {
            rate.on_sent(at(u64::from(id)), id, 0, id == 0);
        }
        // All of them are acknowledged at 40 ms: 20 kB in the 40 ms since the flight began.
        let sample = rate.on_ack(at(40), &ack(20_000, 19, 19), MIN).unwrap();
        assert_eq!((sample.delivered, sample.interval), (20_000, Duration::from_millis(40)));
        // What is sent in 30 ms after that and acknowledged within 10 was sent in 30.
        for id in 20..50 {
            rate.on_sent(at(40 + u64::from(id - 20)), id, 20, id == 20);
        }
        rate.on_ack(at(60), &ack(1000, 20, 40), MIN);
        let sample = rate.on_ack(at(70), &ack(29_000, 49, 69), MIN).unwrap();
        assert_eq!((sample.delivered, sample.interval), (30_000, Duration::from_millis(30)));
    }

    #[test]
    fn a_sample_shorter_than_any_round_trip_says_nothing() {
        let mut rate = DeliveryRate::new(at(0));
        rate.on_sent(at(0), 0, 0, true);
        assert_eq!(rate.on_ack(at(9), &ack(1000, 0, 0), MIN), None);
        assert_eq!(rate.delivered(), 1000, "it is delivered all the same");
    }

    #[test]
    fn a_segment_that_was_out_in_a_freeze_gives_no_sample_and_the_next_one_does() {
        let mut rate = DeliveryRate::new(at(0));
        rate.on_sent(at(0), 0, 0, true);
        rate.on_sent(at(1), 1, 0, false);
        rate.shift_times(Duration::from_millis(1000));
        let mut held = ack(1000, 0, 1000);
        held.newest = held.newest.map(|newest| Delivered { timed: false, ..newest });
        assert_eq!(rate.on_ack(at(1020), &held, MIN), None);
        assert_eq!(rate.delivered(), 1000);
        rate.on_sent(at(1020), 2, 1, false);
        let sample = rate.on_ack(at(1040), &ack(2000, 2, 1020), MIN).unwrap();
        assert_eq!((sample.delivered, sample.interval), (2000, Duration::from_millis(20)));
    }

    #[test]
    fn what_the_application_limits_is_marked_until_it_is_delivered() {
        let mut rate = DeliveryRate::new(at(0));
        rate.on_sent(at(0), 0, 0, true);
        rate.limit_by_application(1000);
        rate.on_sent(at(1), 1, 0, false);
        rate.on_sent(at(2), 2, 0, false);
        let unmarked = rate.on_ack(at(10), &ack(1000, 0, 0), MIN).unwrap();
        assert!(!unmarked.app_limited && rate.is_app_limited(), "it was sent before");
        let marked = rate.on_ack(at(11), &ack(1000, 1, 1), MIN).unwrap();
        assert!(marked.app_limited && !rate.is_app_limited(), "delivered beyond the mark");
        rate.on_sent(at(12), 3, 2, false);
        rate.on_ack(at(13), &ack(1000, 2, 2), MIN);
        assert!(!rate.on_ack(at(23), &ack(1000, 3, 12), MIN).unwrap().app_limited);
    }

    #[test]
    fn snapshots_stay_with_their_segments_as_the_ring_grows() {
        let mut rate = DeliveryRate::new(at(0));
        let first = u32::MAX - 100;
        for n in 0..1000_u32 {
            rate.on_sent(at(u64::from(n)), first.wrapping_add(n), first, n == 0);
        }
        for n in 0..1000_u32 {
            let segment = Delivered {
                id: first.wrapping_add(n),
                end: 0,
                sent: at(u64::from(n)),
                ever_retransmitted: false,
                timed: true,
            };
            let snapshot = rate.snapshot(&segment).unwrap();
            assert_eq!((snapshot.id, snapshot.delivered), (segment.id, 0));
        }
        let gone = Delivered {
            id: first.wrapping_sub(1),
            end: 0,
            sent: at(0),
            ever_retransmitted: false,
            timed: true,
        };
        assert!(rate.snapshot(&gone).is_none(), "a slot's older owner is not taken for its newer one");
    }
}
