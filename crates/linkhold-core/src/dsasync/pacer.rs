//! How fast packets go down: releases (Algorithm 2, lines 6 to 10), and arrivals too fast for the radio.
//!
//! Paper: `dsasync` section IV-B a. Sees what goes down, the room that the driver tells, the channel's rate,
//! and how long segments took until they were acknowledged; answers when the next packet may follow.
//!
//! The router's transmit queue, as estimated here: short (packets go down as they come) → long enough
//! (packets wait in the hold buffer) → short. In a silence it stands still, from the silence's start on,
//! though it may be noticed later.
//!
//! Deviations: Algorithm 2 runs on "a sufficiently frequent timer"; here a packet leaves when the driver
//! tells room, and at the channel's rate. The paper's base station can take its transmit queue back when a
//! silence begins; an agent above a router cannot. It therefore leaves only `transmit_queue` of time there,
//! always (it releases when less is left, up to half as much again): a packet that waits here is neither lost
//! in a silence nor dropped by CoDel (RFC 8289). The channel's rate is corrected by what ACKs tell of the
//! time that segments waited, because the ACKs on a shared medium take a share that nobody tells.

use crate::time::{Duration, Instant};
use crate::units::{BitRate, Bytes};

/// How far behind its schedule a release may be and still catch up: twice the timer slack of a
/// general-purpose kernel.
const PACING_CREDIT: Duration = Duration::from_millis(2);

/// Late ACKs slow releases to no less than `1 - MOST_SLOWING` of the told rate, the least share that the
/// clamp believes in too. ACKs are also late when stations send much, and that must not stop the downlink.
const MOST_SLOWING: f64 = 0.2;

/// One correction takes the least of this many samples. A station acknowledges every second segment, so that
/// every other segment seems to have waited for the next one.
const SAMPLES: u8 = 4;

/// The longest time that one correction makes up for.
const CORRECTION_SPAN: Duration = Duration::from_millis(50);

/// A queue that CoDel works on may be so long, as time (RFC 8289 section 3.2, `TARGET`).
pub(super) const AQM_TARGET: Duration = Duration::from_millis(5);

/// A transmit queue that is kept shorter than usual is a third as long, for so long. Of eight flows in four
/// queues CoDel dropped 0.5 of what it drops without the agent, and with half as long 0.8.
const SHORTER: u64 = 3;
const SHORTER_FOR: Duration = Duration::from_secs(1);

/// How long packets wait for a driver that has told room before to tell it anew. Beyond that the driver is
/// taken not to see its queue, so that a program that tells room once and ends cannot stop the downlink. A
/// driver that does see it tells room whenever a packet has left, which takes 80 ms at 150 kbit/s.
const ROOM_LASTS: Duration = Duration::from_secs(1);

/// A pace that is doubled grows no further than this.
const FASTEST: BitRate = BitRate::from_mbps(10_000);

/// How fast packets may go down.
///
/// `drained` is the estimated time at which the radio will have sent all that went down: the bytes at the
/// channel's rate, corrected by how long segments really waited.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Packets and bytes that fit into the transmit queue; `None` if the driver does not see it.
    room: Option<(u32, u64)>,
    /// The last look found too little room, as did all since then: nothing leaves before the driver speaks
    /// again, or [`ROOM_LASTS`] is over.
    full: Option<Instant>,
    drained: Instant,
    rate: BitRate,
    /// Length of the last packet, and how long it takes at `rate`: most are of one length.
    last: (u32, Duration),
    /// Most that is left in a transmit queue whose channel is told, if it is kept short at all.
    short: Option<Duration>,
    /// Most that is left in the transmit queue at present. `None` where the rate is an estimate, or the queue
    /// not kept short: no matter how much.
    most: Option<Duration>,
    /// Until when it is kept shorter than usual.
    shorter_until: Instant,
    /// In a silence: what the transmit queue held when the silence began, as time at `rate`.
    paused: Option<Duration>,
    /// When `drained` was last corrected.
    corrected: Instant,
    /// Since then: by how much segments waited longer than was thought, ns (the least), and how many were
    /// looked at.
    excess: i64,
    samples: u8,
    /// At the last correction every segment had waited for longer than was thought, by more than a router's
    /// AQM bears.
    all_wait: bool,
}

impl Pacer {
    pub fn new(assumed: BitRate, most: Duration) -> Self {
        Self {
            room: None,
            full: None,
            drained: Instant::ZERO,
            rate: assumed,
            last: (0, Duration::ZERO),
            short: (!most.is_zero()).then_some(most),
            most: None,
            shorter_until: Instant::ZERO,
            paused: None,
            corrected: Instant::ZERO,
            excess: i64::MAX,
            samples: 0,
            all_wait: false,
        }
    }

    /// The channel drains at this rate from now on; so does what was sent down before.
    #[cold]
    pub fn set_rate(&mut self, now: Instant, rate: BitRate, told: bool) {
        if rate.as_bps() > 0 && rate != self.rate {
            // Converts queued bytes from time at the old rate to time at the new one.
            let old = self.rate;
            let at_new_rate = |left: Duration| rate.time_for(old.bytes_in(left));
            self.paused = self.paused.map(at_new_rate);
            if self.drained > now {
                self.drained = now + at_new_rate(self.drained.since(now));
            }
            self.rate = rate;
            self.last = (0, Duration::ZERO);
        }
        self.most = self.short.filter(|_| told);
    }

    /// The rate at which packets go down.
    pub fn rate(&self) -> BitRate {
        self.rate
    }

    /// The driver sees its transmit queue: so many packets and bytes fit.
    pub fn set_room(&mut self, packets: u32, bytes: Bytes) {
        self.room = Some((packets, bytes.0));
        self.full = None;
    }

    /// True if time decides when packets leave: the driver tells no room, or the queue is kept short.
    fn is_timed(&self) -> bool {
        self.room.is_none() || self.most.is_some()
    }

    /// When the next packet may leave, as far as time decides.
    fn due(&self) -> Instant {
        self.drained - self.most.unwrap_or(Duration::ZERO)
    }

    /// How long what went down is thought to wait in the transmit queue.
    pub fn ahead(&self, now: Instant) -> Duration {
        self.paused.unwrap_or_else(|| self.drained.since(now))
    }

    /// How long the radio takes for so many bytes, as far as is known.
    pub fn time_for(&self, bytes: u64) -> Duration {
        self.rate.time_for(Bytes(bytes))
    }

    /// True if an arrival has to wait, because the transmit queue holds enough.
    #[inline]
    pub fn must_wait(&self, now: Instant) -> bool {
        self.most.is_some() && !self.is_near(now)
    }

    /// True if it is time for the next packet, or nearly so. Timeouts are planned for the exact time; once
    /// called, the mechanism fills the transmit queue a little beyond `most`, by half of it or by a packet,
    /// so that several packets share a timeout.
    #[inline]
    fn is_near(&self, now: Instant) -> bool {
        let early = self.due().since(now);
        early.is_zero() || self.most.is_some_and(|most| early < self.last.1.max(half(most)))
    }

    /// True if a packet of this length may leave now.
    #[inline]
    pub fn allows(&mut self, now: Instant, len: u32) -> bool {
        let full = self.room.is_some_and(|(packets, bytes)| packets == 0 || bytes < u64::from(len));
        self.full = full.then(|| self.full.unwrap_or(now));
        if self.full.is_some_and(|since| now >= since + ROOM_LASTS) {
            (self.room, self.full) = (None, None);
        }
        self.full.is_none() && (!self.is_timed() || self.is_near(now))
    }

    /// A packet goes down: released or forwarded. Answers how long it is thought to wait in the transmit
    /// queue.
    #[inline]
    pub fn on_sent(&mut self, now: Instant, len: u32) -> Duration {
        if let Some((packets, bytes)) = &mut self.room {
            *packets = packets.saturating_sub(1);
            *bytes = bytes.saturating_sub(u64::from(len));
        }
        let ahead = self.drained.since(now);
        let credit = if self.most.is_some() { Duration::ZERO } else { PACING_CREDIT };
        if self.last.0 != len {
            self.last = (len, self.rate.time_for(Bytes(u64::from(len))));
        }
        self.drained = self.drained.max(now - credit) + self.last.1;
        ahead
    }

    /// A segment that went down at `sent` was thought to wait for `ahead` and really waited for `waited`.
    /// Only segments that went down since the last correction count.
    pub fn on_waited(&mut self, now: Instant, sent: Instant, ahead: Duration, waited: Duration) {
        let Some(most) = self.most else { return };
        if sent < self.corrected || self.paused.is_some() {
            return;
        }
        let excess = waited.as_nanos() as i64 - ahead.as_nanos() as i64;
        self.excess = self.excess.min(excess);
        self.samples += 1;
        if self.samples < SAMPLES {
            return;
        }
        let excess = core::mem::replace(&mut self.excess, i64::MAX);
        let size = Duration::from_nanos(excess.unsigned_abs());
        if excess > 0 {
            let span = now.since(self.corrected).min(CORRECTION_SPAN);
            self.drained = self.drained.max(now) + size.min(span.mul_f64(MOST_SLOWING));
        } else {
            self.drained = self.drained - size.min(most);
        }
        self.samples = 0;
        self.corrected = now;
        self.all_wait = excess > AQM_TARGET.as_nanos() as i64;
        if now > self.shorter_until {
            self.most = self.short;
        }
    }

    /// True if a segment that has waited for longer than was thought by more than [`AQM_TARGET`] has waited
    /// behind its own flow, since segments of other flows have not.
    pub fn some_do_not_wait(&self) -> bool {
        !self.all_wait
    }

    /// What is left in the transmit queue stands there before some flows and not before others: less is left
    /// there for a while.
    #[cold]
    pub fn shorten(&mut self, now: Instant) {
        if self.most.is_some() {
            self.most = self.short.map(|short| Duration::from_nanos(short.as_nanos() / SHORTER));
            self.shorter_until = now + SHORTER_FOR;
        }
    }

    /// The radio ran dry, and what is held waits for its time alone: the pace, which is an estimate, is too
    /// low.
    #[cold]
    pub fn hurry(&mut self, now: Instant) {
        if self.is_timed() && self.most.is_none() && self.paused.is_none() && self.drained > now {
            let doubled = BitRate(self.rate.as_bps().saturating_mul(2));
            self.set_rate(now, doubled.min(FASTEST).max(self.rate), false);
        }
    }

    /// A packet came back from the transmit queue. In a silence of the whole radio all of them do, and
    /// nothing is left to be waited for. In one of a station only that station's do.
    pub fn on_taken_back(&mut self, now: Instant, len: u32) {
        if let Some((packets, bytes)) = &mut self.room {
            *packets = packets.saturating_add(1);
            *bytes = bytes.saturating_add(u64::from(len));
        }
        if self.paused.is_some() {
            (self.drained, self.paused) = (Instant::ZERO, Some(Duration::ZERO));
        } else {
            self.drained = now + self.drained.since(now).saturating_sub(self.time_for(u64::from(len)));
        }
    }

    /// The whole radio has fallen silent: its queue stands still, and has for as long as the silence `lasted`
    /// unnoticed. No more can be in it than `outstanding` bytes, which have not been acknowledged.
    pub fn pause(&mut self, now: Instant, lasted: Duration, outstanding: u64) {
        let left = self.drained.since(now);
        let stood = if self.most.is_some() {
            (left + lasted).min(self.time_for(outstanding))
        } else {
            Duration::ZERO
        };
        self.paused.get_or_insert(left.max(stood));
        // A queue that stands still has no room to tell.
        self.full = None;
    }

    /// The channel's rate is not known any more.
    pub fn forget_rate(&mut self) {
        self.most = None;
    }

    /// The radio works again.
    pub fn resume(&mut self, now: Instant) {
        if let Some(left) = self.paused.take() {
            self.drained = now + left;
        }
    }

    /// When the next packet may leave, if that is a matter of time.
    #[inline]
    pub fn next_time(&self) -> Option<Instant> {
        match self.full {
            Some(since) => Some(since + ROOM_LASTS),
            None => self.is_timed().then(|| self.due()),
        }
    }
}

const fn half(of: Duration) -> Duration {
    Duration::from_nanos(of.as_nanos() / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_at_a_low_rate_drains_at_the_new_one() {
        let mut pacer = Pacer::new(BitRate(14_400), Duration::ZERO);
        pacer.on_sent(Instant::ZERO, 36_000);
        assert!(pacer.next_time() > Some(Instant::from_millis(19_000)));
        pacer.set_rate(Instant::from_millis(1), BitRate::from_mbps(36), true);
        assert!(pacer.next_time() <= Some(Instant::from_millis(9)), "{:?}", pacer.next_time());
        assert!(pacer.allows(Instant::from_millis(9), 1500));
    }

    #[test]
    fn what_stood_still_in_a_silence_drains_at_the_rate_told_meanwhile() {
        let mut pacer = Pacer::new(BitRate(14_400), Duration::ZERO);
        pacer.on_sent(Instant::ZERO, 36_000);
        pacer.pause(Instant::from_millis(1), Duration::ZERO, 0);
        pacer.set_rate(Instant::from_millis(2), BitRate::from_mbps(36), true);
        pacer.resume(Instant::from_millis(500));
        assert!(pacer.allows(Instant::from_millis(508), 1500), "{:?}", pacer.next_time());
    }

    #[test]
    fn what_went_down_into_a_silence_that_nobody_knew_of_is_still_there() {
        let at = Instant::from_millis;
        // Ten packets in 10 ms, of which the radio sent nothing: 2 ms of them are thought to be left.
        let paused = |lasted, outstanding| {
            let mut pacer = short();
            for ms in 0..10 {
                pacer.on_sent(at(100 + ms), if ms == 0 { 4500 } else { 1500 });
            }
            pacer.pause(at(110), lasted, outstanding);
            pacer.resume(at(500));
            pacer.ahead(at(500))
        };
        assert_eq!(paused(Duration::ZERO, 18_000), Duration::from_millis(2));
        assert_eq!(paused(Duration::from_millis(10), 18_000), Duration::from_millis(12));
        // What was acknowledged is not there any more.
        assert_eq!(paused(Duration::from_millis(10), 9_000), Duration::from_millis(6));
        assert_eq!(paused(Duration::from_millis(10), 0), Duration::from_millis(2));
    }

    #[test]
    fn without_sight_of_the_queue_packets_leave_at_the_channels_rate() {
        let mut pacer = Pacer::new(BitRate::from_mbps(12), Duration::ZERO);
        let start = Instant::from_millis(1000);
        let mut sent = 0u64;
        for us in 0..100_000 {
            let now = start + Duration::from_micros(us);
            while pacer.allows(now, 1500) {
                pacer.on_sent(now, 1500);
                sent += 1500;
            }
        }
        let allowed = BitRate::from_mbps(12).bytes_in(Duration::from_millis(102)).0 + 1500;
        assert!((150_000..=allowed).contains(&sent), "{sent} of {allowed}");
    }

    /// A pacer whose channel takes 1 ms for 1500 bytes, with 2 ms left in the transmit queue.
    fn short() -> Pacer {
        let mut pacer = Pacer::new(BitRate::from_mbps(1000), Duration::from_millis(2));
        pacer.set_rate(Instant::ZERO, BitRate::from_mbps(12), true);
        pacer
    }

    fn sample(pacer: &mut Pacer, at: u64, excess_us: i64) {
        let ahead = Duration::from_millis(2);
        let waited = Duration::from_micros((2000 + excess_us) as u64);
        pacer.on_waited(Instant::from_millis(at), Instant::from_millis(at - 3), ahead, waited);
    }

    #[test]
    fn the_least_of_four_samples_counts_and_a_delayed_ack_does_not() {
        let mut pacer = short();
        pacer.on_sent(Instant::from_millis(100), 3000);
        let before = pacer.next_time();
        for excess in [700, 300, 700] {
            sample(&mut pacer, 100, excess);
        }
        assert_eq!(pacer.next_time(), before);
        sample(&mut pacer, 100, 40_000);
        assert_eq!(pacer.next_time(), before.map(|at| at + Duration::from_micros(300)));
        // What went down before the correction says nothing new.
        for _ in 0..8 {
            sample(&mut pacer, 102, 700);
        }
        assert_eq!(pacer.next_time(), before.map(|at| at + Duration::from_micros(300)));
    }

    #[test]
    fn late_acks_slow_releases_to_no_less_than_four_fifths() {
        let mut pacer = short();
        let (mut sent, mut at) = (0u64, 0);
        while at < 2000 {
            at += 1;
            while pacer.allows(Instant::from_millis(at), 1500) {
                pacer.on_sent(Instant::from_millis(at), 1500);
                sent += 1;
            }
            if at > 3 {
                sample(&mut pacer, at, 50_000);
            }
        }
        assert!((1600..1700).contains(&sent), "{sent} of 2000");
    }

    #[test]
    fn segments_that_waited_less_than_thought_speed_releases_up_by_what_is_left_there_at_most() {
        let mut pacer = short();
        pacer.on_sent(Instant::from_millis(100), 15_000);
        let before = pacer.next_time();
        for _ in 0..SAMPLES {
            sample(&mut pacer, 100, -2000);
        }
        assert_eq!(pacer.next_time(), before.map(|at| at - Duration::from_millis(2)));
    }

    #[test]
    fn where_only_some_flows_wait_the_queue_is_kept_a_third_as_long_for_a_second() {
        let at = Instant::from_millis;
        // A third of 2 ms is left there.
        let later = Duration::from_nanos(1_333_334);
        let mut pacer = short();
        pacer.on_sent(at(100), 3000);
        assert_eq!(pacer.next_time(), Some(at(100)));
        pacer.shorten(at(100));
        assert_eq!(pacer.next_time(), Some(at(100) + later));
        // Corrections look whether it is over.
        let mut after = |ms| {
            for _ in 0..SAMPLES {
                sample(&mut pacer, ms, 0);
            }
            pacer.on_sent(at(ms), 3000);
            (pacer.next_time(), pacer.some_do_not_wait())
        };
        assert_eq!(after(1100), (Some(at(1100) + later), true));
        assert_eq!(after(1200), (Some(at(1200)), true));
        for _ in 0..SAMPLES {
            sample(&mut pacer, 1300, 6000);
        }
        assert!(!pacer.some_do_not_wait(), "all of them wait");
    }

    #[test]
    fn an_arrival_early_by_less_than_a_packet_goes_down_and_the_queue_grows_by_no_more() {
        let mut pacer = short();
        let at = |us: u64| Instant::from_millis(100) + Duration::from_micros(us);
        // Three packets of 1 ms: the fourth would be 1 ms early.
        for _ in 0..3 {
            assert!(!pacer.must_wait(at(0)));
            pacer.on_sent(at(0), 1500);
        }
        assert!(pacer.must_wait(at(0)));
        assert!(!pacer.must_wait(at(1)));
        // So does what is held, if somebody calls; the timeout is for the exact time.
        assert!(!pacer.allows(at(0), 1500) && pacer.allows(at(1), 1500));
        assert_eq!(pacer.next_time(), Some(at(1000)));
        // Packets that come a little faster than the radio takes them: each passes until it would be a whole
        // packet early, and the queue never holds more than 2 ms, the one that is early, and the packet
        // itself.
        let (mut passed, mut held) = (0, 0);
        for n in 0..1000 {
            let now = at(1 + n * 990);
            if pacer.must_wait(now) {
                held += 1;
            } else {
                pacer.on_sent(now, 1500);
                passed += 1;
            }
            assert!(pacer.drained.since(now) < Duration::from_millis(4));
        }
        assert_eq!(passed + held, 1000);
        assert!((1..=20).contains(&held), "{held} held");
    }

    #[test]
    fn packets_that_are_short_against_the_queue_share_a_timeout() {
        let mut pacer = Pacer::new(BitRate::from_mbps(1000), Duration::from_millis(2));
        pacer.set_rate(Instant::ZERO, BitRate::from_mbps(48), true);
        let mut now = Instant::from_millis(100);
        pacer.on_sent(now, 12_000);
        for _ in 0..10 {
            now = pacer.next_time().unwrap().max(now);
            let mut released = 0;
            while pacer.allows(now, 1500) {
                pacer.on_sent(now, 1500);
                released += 1;
            }
            // 0.25 ms each; half of 2 ms goes at once, and 3 ms are never exceeded by a packet.
            assert_eq!(released, 4);
            assert!(pacer.drained.since(now) <= Duration::from_millis(3));
        }
    }

    #[test]
    fn an_estimate_at_which_the_radio_runs_dry_is_doubled_and_a_rate_that_is_told_is_not() {
        let mut pacer = Pacer::new(BitRate::from_mbps(1000), Duration::from_millis(2));
        let now = Instant::from_millis(100);
        pacer.set_rate(now, BitRate::from_mbps(1), false);
        pacer.on_sent(now, 1500);
        assert_eq!(pacer.next_time(), Some(Instant::from_millis(110)));
        pacer.hurry(now);
        assert_eq!(pacer.next_time(), Some(Instant::from_millis(105)));
        // Nothing waits for its time.
        let later = Instant::from_millis(200);
        pacer.hurry(later);
        pacer.on_sent(later, 1500);
        assert_eq!(pacer.next_time(), Some(Instant::from_millis(204)));
        for _ in 0..100 {
            pacer.hurry(later);
            pacer.on_sent(later, 1500);
        }
        assert_eq!(pacer.rate, FASTEST);
        let mut told = short();
        told.on_sent(now, 15_000);
        let due = told.next_time();
        told.hurry(now);
        assert_eq!(told.next_time(), due);
    }

    #[test]
    fn room_that_nobody_tells_anew_is_forgotten_after_a_second_of_waiting() {
        let at = Instant::from_millis;
        let mut pacer = Pacer::new(BitRate::from_mbps(12), Duration::ZERO);
        pacer.set_room(1, Bytes(10_000));
        // However long ago it was told: it counts from when a packet had to wait.
        assert!(pacer.allows(at(60_000), 1500));
        pacer.on_sent(at(60_000), 1500);
        assert!(!pacer.allows(at(60_000), 1500) && !pacer.allows(at(60_999), 1500));
        assert_eq!(pacer.next_time(), Some(at(61_000)));
        assert!(pacer.allows(at(61_000), 1500));
        // From then on the channel's rate decides, until the driver speaks again.
        pacer.on_sent(at(61_000), 15_000);
        assert!(!pacer.allows(at(61_001), 1500));
        assert_eq!(pacer.next_time(), Some(at(61_008)));
        pacer.set_room(0, Bytes(0));
        assert!(!pacer.allows(at(61_100), 1500));
        assert_eq!(pacer.next_time(), Some(at(62_100)));
        // A silence takes no part in the second: the queue stands still.
        pacer.pause(at(61_200), Duration::ZERO, 0);
        pacer.resume(at(64_000));
        assert!(!pacer.allows(at(64_000), 1500));
        assert_eq!(pacer.next_time(), Some(at(65_000)));
    }

    #[test]
    fn an_estimated_rate_keeps_no_queue_short() {
        let mut pacer = short();
        pacer.set_rate(Instant::ZERO, BitRate::from_mbps(1), false);
        pacer.on_sent(Instant::from_millis(100), 150_000);
        assert!(!pacer.must_wait(Instant::from_millis(100)));
    }
}
