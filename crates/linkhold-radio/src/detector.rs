//! Detection of a primary user by overhearing its frames: a radio that reads the user's address in a frame
//! knows that the user is there, and believes it gone after a while without one.
//!
//! Source: cr-aware sections 3 (T_idle) and 4.2 (address match). Sees the user's bursts, the header of its
//! frames and random streams of its own; emits link events (cause `PrimaryUser`), each for the node of the
//! radio that overheard. States of a detector: clear → detected → clear.
//!
//! In a burst the user sends frames back to back; only a frame that ends within the burst can be read, and
//! only one whose source address is the one that the radios know as the user's is taken for its frame. Each
//! is missed with the same chance, independent of the others. All times are shifted by the delay from a
//! frame's end to the moment at which it is understood. A false alarm counts as one frame. The paper says
//! nothing of misses, delays and false alarms; a simulation that sets them to zero has to justify it.
//!
//! Simplifications:
//!
//! - A radio overhears while it transmits, too, since the radio's events must not depend on traffic; the
//!   chance of a miss has to cover that.
//! - The source address is compared once for each burst, since all frames of a burst have the same sender.
//!   Frames of the cell's own radios are not compared, because their addresses cannot be listened for. An
//!   address that is read wrongly counts among the misses or the false alarms.
//! - The frames are no events on the simulator's air: to CCA a burst is one carrier. A capture has each frame
//!   ([`UserFrames`](crate::UserFrames)).

use std::collections::VecDeque;

use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Fraction;

use crate::frame::{AirOutput, RadioId};
use crate::mac::ieee802154::header::{ExtendedAddress, is_from, user_header};
use crate::rng::Stream;
use crate::wakeups::Wakeups;

/// Frames that a detector looks ahead in one step. Only a never-ending burst has more to look at.
const LOOK_AHEAD: u32 = 4096;
/// Bursts that may wait to be understood. The delay would have to span dozens of them to fill it.
const MAX_BURSTS: usize = 64;

/// How a radio overhears a primary user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OverhearConfig {
    /// The source address of the frames that a radio takes for the user's; no radio's of the cell.
    pub address: ExtendedAddress,
    /// From the end of one of the user's frames to the end of the next, in a burst; at least
    /// [`LEAST_USER_INTERVAL`](crate::ieee802154::LEAST_USER_INTERVAL).
    pub frame_interval: Duration,
    /// Chance that a frame is not overheard; 1: none ever is.
    pub missed: Fraction,
    /// From a frame's end to its being understood and told.
    pub delay: Duration,
    /// The paper's T_idle: how long after the last frame the user is believed gone; not zero.
    pub idle_time: Duration,
    /// Mean number of frames a second that are overheard though nobody sent them.
    pub false_alarms: f64,
}

impl Default for OverhearConfig {
    fn default() -> Self {
        Self {
            address: ExtendedAddress::PRIMARY_USER,
            // The longest frame of 802.15.4 (4.3 ms) and its spacing (0.6 ms).
            frame_interval: Duration::from_millis(5),
            // Assumptions: a link that loses a frame in ten; a software receiver's buffers and decoding
            // (10 ms); a false alarm in 1000 s.
            missed: Fraction::clamped(0.1),
            delay: Duration::from_millis(10),
            // Section 5.1.
            idle_time: Duration::from_secs(1),
            false_alarms: 0.001,
        }
    }
}

/// What a detector concludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Present,
    Gone,
}

/// A time in which the user transmits, as it is understood: shifted by the delay.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// End of the last frame that was judged, or start of the burst.
    judged: Instant,
    end: Instant,
}

/// One radio's detector.
#[derive(Clone, Debug)]
struct Detector {
    config: OverhearConfig,
    bursts: VecDeque<Burst>,
    misses: Stream,
    alarms: Stream,
    /// When the next overheard frame is understood; far future if none is known.
    heard_at: Instant,
    /// When the next false alarm is.
    alarm_at: Instant,
    /// When the user is believed gone; far future while it is.
    idle_at: Instant,
}

impl Detector {
    fn new(config: OverhearConfig, seed: u64, radio: u32) -> Self {
        let mut detector = Self {
            config,
            bursts: VecDeque::new(),
            misses: Stream::new(seed, "overhear", u64::from(radio)),
            alarms: Stream::new(seed, "false-alarm", u64::from(radio)),
            heard_at: Instant::FAR_FUTURE,
            alarm_at: Instant::FAR_FUTURE,
            idle_at: Instant::FAR_FUTURE,
        };
        detector.alarm_at = detector.draw_alarm(Instant::ZERO);
        detector
    }

    fn next(&self) -> Instant {
        self.heard_at.min(self.alarm_at).min(self.idle_at)
    }

    fn on_burst(&mut self, start: Instant, end: Instant) {
        if self.bursts.len() < MAX_BURSTS {
            let delay = self.config.delay;
            self.bursts.push_back(Burst { judged: start + delay, end: end + delay });
        }
        if self.heard_at == Instant::FAR_FUTURE {
            self.heard_at = self.next_frame();
        }
    }

    /// When the next frame that is not missed is understood; far future if the bursts known have no more.
    fn next_frame(&mut self) -> Instant {
        let missed = self.config.missed.get();
        while let Some(burst) = self.bursts.front_mut() {
            // The number of misses before a hit is geometric.
            let misses = ((1.0 - self.misses.unit()).ln() / missed.ln()).floor();
            // One that is missed with certainty makes this infinite; `missed` 0 makes it 0.
            let wait = self.config.frame_interval.mul_f64(misses + 1.0);
            let at = burst.judged + wait;
            if missed < 1.0 && at <= burst.end && at != Instant::FAR_FUTURE {
                burst.judged = at;
                return at;
            }
            self.bursts.pop_front();
        }
        Instant::FAR_FUTURE
    }

    fn draw_alarm(&mut self, from: Instant) -> Instant {
        let rate = self.config.false_alarms;
        if rate > 0.0 {
            from + self.alarms.exponential(Duration::from_secs_f64(1.0 / rate))
        } else {
            Instant::FAR_FUTURE
        }
    }

    /// Handles what is due at `now`. A frame that is understood just as the user would be believed gone keeps
    /// it present.
    fn step(&mut self, now: Instant) -> Option<News> {
        if self.heard_at <= now {
            let last = self.last_before_gap(self.heard_at);
            self.hear(last)
        } else if self.alarm_at <= now {
            let at = self.alarm_at;
            self.alarm_at = self.draw_alarm(at);
            self.hear(at)
        } else {
            self.idle_at = Instant::FAR_FUTURE;
            Some(News::Gone)
        }
    }

    /// The last frame from `heard` on that follows the one before within T_idle. What comes after it is the
    /// next to be understood: no event is due for the frames between.
    fn last_before_gap(&mut self, heard: Instant) -> Instant {
        let mut last = heard;
        for _ in 0..LOOK_AHEAD {
            self.heard_at = self.next_frame();
            if self.heard_at == Instant::FAR_FUTURE || self.heard_at.since(last) > self.config.idle_time {
                break;
            }
            last = self.heard_at;
        }
        last
    }

    fn hear(&mut self, at: Instant) -> Option<News> {
        let was_clear = self.idle_at == Instant::FAR_FUTURE;
        let idle_at = at + self.config.idle_time;
        self.idle_at = if was_clear { idle_at } else { self.idle_at.max(idle_at) };
        was_clear.then_some(News::Present)
    }
}

/// The detectors of all radios, the base station's first. One that does not hear the user has false alarms,
/// too.
#[derive(Clone, Debug)]
pub(crate) struct Overhearing {
    delay: Duration,
    /// The address that the radios know as the user's.
    licensed: ExtendedAddress,
    /// The address that the user has.
    sender: ExtendedAddress,
    /// By radio: it hears the user.
    hears: Vec<bool>,
    detectors: Vec<Detector>,
    wakeups: Wakeups,
}

impl Overhearing {
    /// `sender` is the source address of the user's frames; `hears` tells of each radio, by its number,
    /// whether it hears the user.
    pub(crate) fn new(config: &OverhearConfig, sender: ExtendedAddress, hears: Vec<bool>, seed: u64) -> Self {
        let detectors: Vec<_> =
            (0..).zip(&hears).map(|(radio, _)| Detector::new(*config, seed, radio)).collect();
        let (delay, licensed) = (config.delay, config.address);
        let wakeups = Wakeups::new(hears.len());
        let mut all = Self { delay, licensed, sender, hears, detectors, wakeups };
        for slot in 0..all.detectors.len() {
            all.wakeups.set(slot, all.detectors[slot].next(), 0);
        }
        all
    }

    pub(crate) fn next(&self) -> Instant {
        self.wakeups.next()
    }

    /// A burst of the user starts; it will end at `end`. It tells nobody anything if its frames have another
    /// source address than the radios listen for.
    pub(crate) fn on_burst(&mut self, start: Instant, end: Instant) {
        // The headers differ in their sequence number only, so that the first one answers for all.
        if !is_from(&user_header(self.sender, 0), self.licensed) {
            return;
        }
        for slot in (0..self.detectors.len()).filter(|&slot| self.hears[slot]) {
            self.detectors[slot].on_burst(start, end);
            self.wakeups.set(slot, self.detectors[slot].next(), 0);
        }
    }

    /// Handles what is due next.
    pub(crate) fn step(&mut self, out: &mut AirOutput) {
        let Some((slot, now)) = self.wakeups.first() else { return };
        let news = self.detectors[slot].step(now);
        self.wakeups.set(slot, self.detectors[slot].next(), 0);
        let by = RadioId(slot as u32);
        let scope = by.station().map_or(Scope::Network, Scope::Station);
        let cause = Cause::PrimaryUser;
        let (kind, effective_at) = match news {
            None => return,
            // What is known of the burst's start is that the frame had ended a delay ago.
            Some(News::Present) => (
                LinkEventKind::FreezeStarted { scope, cause, expected: None },
                Instant::ZERO + now.since(Instant::ZERO + self.delay),
            ),
            Some(News::Gone) => (LinkEventKind::FreezeEnded { scope, cause }, now),
        };
        out.overheard(by, LinkEvent { detected_at: now, effective_at: Some(effective_at), kind });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const AT: fn(u64) -> Instant = Instant::from_millis;

    fn config(missed: f64, delay: u64, false_alarms: f64) -> OverhearConfig {
        OverhearConfig {
            address: ExtendedAddress::PRIMARY_USER,
            frame_interval: MS(5),
            missed: Fraction::clamped(missed),
            delay: MS(delay),
            idle_time: MS(1000),
            false_alarms,
        }
    }

    /// Every event of one detector until `until`; bursts are told when they start.
    fn play(config: OverhearConfig, seed: u64, bursts: &[(u64, u64)], until: u64) -> Vec<(Instant, News)> {
        let mut detector = Detector::new(config, seed, 0);
        let mut news = Vec::new();
        let ends = bursts.iter().map(|&(start, _)| AT(start)).skip(1).chain([AT(until)]);
        let mut run = |detector: &mut Detector, until: Instant| {
            while detector.next() < until {
                let at = detector.next();
                news.extend(detector.step(at).map(|what| (at, what)));
            }
        };
        run(&mut detector, AT(bursts.first().map_or(until, |burst| burst.0)));
        for (&(start, end), next) in bursts.iter().zip(ends) {
            detector.on_burst(AT(start), AT(end));
            run(&mut detector, next);
        }
        news
    }

    #[test]
    fn without_errors_it_tells_one_frame_and_a_delay_late_and_the_end_after_t_idle() {
        // Frames end at 105, 110, ... 195 (the one that would end at 200 still does), understood 10 ms later.
        let news = play(config(0.0, 10, 0.0), 1, &[(100, 200), (3000, 3004)], 9000);
        assert_eq!(news, [(AT(115), News::Present), (AT(1210), News::Gone)]);
        // A pause below T_idle is no pause.
        let news = play(config(0.0, 10, 0.0), 1, &[(100, 200), (1100, 1200)], 9000);
        assert_eq!(news, [(AT(115), News::Present), (AT(2210), News::Gone)]);
        // The delay outlasts a burst and a pause.
        let news = play(config(0.0, 500, 0.0), 1, &[(100, 110), (200, 210), (300, 310)], 9000);
        assert_eq!(news, [(AT(605), News::Present), (AT(1810), News::Gone)]);
    }

    #[test]
    fn what_is_always_missed_is_never_told_and_what_never_ends_is_told_once() {
        assert_eq!(play(config(1.0, 10, 0.0), 1, &[(100, 60_000)], 90_000), []);
        let mut detector = Detector::new(config(0.1, 10, 0.0), 1, 0);
        detector.on_burst(AT(0), Instant::FAR_FUTURE);
        let mut news = Vec::new();
        while detector.next() < AT(600_000) {
            let at = detector.next();
            news.extend(detector.step(at));
        }
        assert_eq!(news, [News::Present]);
    }

    /// Times at which radios, all of which hear the user, tell of it in a burst from 100 to 200 ms.
    fn told_of(address: ExtendedAddress, sender: ExtendedAddress, false_alarms: f64) -> Vec<Instant> {
        let config = OverhearConfig { address, ..config(0.0, 10, false_alarms) };
        let mut all = Overhearing::new(&config, sender, vec![true; 3], 1);
        let mut out = AirOutput::new();
        all.on_burst(AT(100), AT(200));
        let mut times = Vec::new();
        // Before the user is believed gone.
        while all.next() < AT(1210) {
            let at = all.next();
            all.step(&mut out);
            times.extend(out.drain().map(|_| at));
        }
        times
    }

    #[test]
    fn only_frames_from_the_address_that_is_listened_for_tell_of_the_user() {
        let (user, other) = (ExtendedAddress::PRIMARY_USER, ExtendedAddress([2, 0, 0, 1, 0, 0, 0, 2]));
        for (address, sender) in [(user, user), (user, other), (other, user), (other, other)] {
            let told = told_of(address, sender, 0.0);
            let expected = if address == sender { vec![AT(115), AT(115), AT(115)] } else { Vec::new() };
            assert_eq!(told, expected, "from {sender} where {address} is listened for");
        }
        assert!(!told_of(user, other, 20.0).is_empty(), "a false alarm needs no frame");
    }

    #[test]
    fn the_first_frame_is_missed_as_often_as_configured() {
        let first = |seed| {
            let news = play(config(0.3, 0, 0.0), seed, &[(0, 1000)], 9000);
            news.first().map_or(0, |(at, _)| at.as_nanos() / MS(5).as_nanos())
        };
        let count = (0..4000).filter(|&seed| first(seed) == 1).count() as f64 / 4000.0;
        // Four standard deviations of 0.0072.
        assert!((count - 0.7).abs() < 0.03, "{count}");
    }

    #[test]
    fn most_frames_missed_makes_a_long_burst_fall_apart() {
        // A hit in a thousand frames: the mean gap of 5 s is above T_idle.
        let news = play(config(0.999, 0, 0.0), 3, &[(0, 600_000)], 700_000);
        let told = news.iter().filter(|(_, what)| *what == News::Present).count();
        assert!((60..130).contains(&told), "{told}");
    }

    #[test]
    fn a_false_alarm_lasts_t_idle_and_comes_at_its_rate() {
        let news = play(config(0.1, 10, 0.02), 5, &[], 50_000_000);
        let starts: Vec<_> = news.iter().filter(|(_, what)| *what == News::Present).collect();
        // 1000 expected; those within T_idle of another merge: 980. Four standard deviations are 125.
        assert!((855..1105).contains(&starts.len()), "{}", starts.len());
        for pair in news.chunks_exact(2) {
            assert!(pair[1].0.since(pair[0].0) >= MS(1000), "{pair:?}");
        }
    }

    proptest! {
        #[test]
        fn presence_and_absence_take_turns_whatever_comes(
            missed in 0.0f64..1.0, delay in 0u64..3000, alarms in 0.0f64..2.0, seed: u64,
            steps in prop::collection::vec((1u64..3000, 1u64..3000), 0..40),
        ) {
            let mut now = 0;
            let bursts: Vec<_> = steps.iter().map(|&(pause, length)| {
                let start = now + pause;
                now = start + length;
                (start, now)
            }).collect();
            let news = play(config(missed, delay, alarms), seed, &bursts, now + 10_000);
            for (index, pair) in news.windows(2).enumerate() {
                prop_assert!(pair[0].0 <= pair[1].0);
                prop_assert_ne!(pair[0].1, pair[1].1);
                if index % 2 == 0 {
                    prop_assert!(pair[1].0.since(pair[0].0) >= MS(1000));
                }
            }
            prop_assert!(news.first().is_none_or(|(_, what)| *what == News::Present));
            // Without false alarms it is present only because of a burst.
            if alarms == 0.0 {
                for (at, what) in &news {
                    let at = at.as_nanos() / 1_000_000;
                    let covered = bursts.iter().any(|&(start, end)| start + delay < at && at <= end + delay);
                    prop_assert!(*what == News::Gone || covered, "{at}");
                }
            }
        }
    }
}
