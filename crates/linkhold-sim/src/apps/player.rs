//! The player at the receiving end of a constant-rate stream: it buffers, plays, and stalls when the buffer
//! is empty.
//!
//! Sees: which bytes of the content have arrived, and when. Emits: counters ([`MediaRecord`]). It needs no
//! timer: when it ran dry follows from what it had.
//!
//! ```text
//! starting -> playing  when the buffer holds `startup`, or all the rest of the content
//! playing  -> stalled  when the play head reaches the end of what has arrived
//! stalled  -> playing  when the buffer holds `resume`, or all the rest of the content
//! playing  -> over     when the play head reaches the end of the content
//! stalled  -> over     when the content ends where the play head stands, or what is missing has had its time
//! ```
//! The buffer is the time from the play head to the end of the last byte that has arrived. Over UDP it can
//! have holes: the play head passes them in the time that they would have played, and they count as lost.
//! Once the content's length is known, what is missing at its end is such a hole, too: a player that plays
//! passes it, and one that is stalled waits for it no longer than it would have played. What arrives behind
//! the play head is late, and is not played. The rule is our choice (RFC 3550 leaves playout to the
//! application); it is that of a player which conceals a missing frame and keeps its timeline.

use std::collections::VecDeque;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};
use linkhold_results::MediaRecord;
use linkhold_scenario::Media;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing has been played.
    Starting,
    /// The play head was at `from` (time in the content) at `since`.
    Playing { since: Instant, from: Duration },
    /// The play head stands at the end of what has arrived.
    Stalled { since: Instant },
    /// All of the content has been played, or lost.
    Over,
}

/// What has been counted since the flow began.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    stalls: u64,
    stalled: Duration,
    played: u64,
    late: u64,
    /// Bytes that the play head has passed.
    passed: u64,
}

/// A player.
#[derive(Clone, Debug)]
pub struct Player {
    rate: BitRate,
    startup: Duration,
    resume: Duration,
    /// No byte of the content can get lost (TCP).
    lossless: bool,
    opened: Instant,
    state: State,
    startup_took: Option<Duration>,
    /// What has arrived and lies ahead of the play head: disjoint, in order.
    buffer: VecDeque<(u64, u64)>,
    /// End of the last byte that has arrived.
    edge: u64,
    /// Length of the content, once its end is known.
    length: Option<u64>,
    counted: Counted,
    base: Counted,
}

impl Player {
    /// A player of `media` whose flow opens at `opened`; over a transport that repairs losses if `lossless`.
    #[must_use]
    pub fn new(media: &Media, lossless: bool, opened: Instant) -> Self {
        Self {
            rate: media.rate,
            startup: media.startup,
            resume: media.resume,
            lossless,
            opened,
            state: State::Starting,
            startup_took: None,
            buffer: VecDeque::with_capacity(16),
            edge: 0,
            length: None,
            counted: Counted::default(),
            base: Counted::default(),
        }
    }

    /// The bytes `start .. end` of the content have arrived.
    pub fn arrived(&mut self, now: Instant, start: u64, end: u64) {
        self.advance(now);
        let fresh = start.max(self.counted.passed).min(end);
        self.counted.late += fresh - start;
        if fresh < end {
            self.insert(fresh, end);
        }
        self.play_if_ready(now);
    }

    /// In a transport that delivers in order, the first `total` bytes have arrived.
    pub fn arrived_in_order(&mut self, now: Instant, total: u64) {
        if total > self.edge {
            self.arrived(now, self.edge, total);
        }
    }

    /// The content ends after `length` bytes.
    pub fn content_ends(&mut self, now: Instant, length: u64) {
        self.advance(now);
        self.length = Some(length);
        self.play_if_ready(now);
    }

    /// Counts from `now` on.
    pub fn count_from(&mut self, now: Instant) {
        self.advance(now);
        self.base = self.counted_by(now);
    }

    /// What has been counted by `now`.
    #[must_use]
    pub fn record(&mut self, now: Instant) -> MediaRecord {
        self.advance(now);
        let (all, base) = (self.counted_by(now), self.base);
        MediaRecord {
            startup_s: self.startup_took.map(Duration::as_secs_f64),
            stalls: all.stalls - base.stalls,
            stalled_s: all.stalled.saturating_sub(base.stalled).as_secs_f64(),
            played_bytes: all.played - base.played,
            buffered_bytes: self.buffer.iter().map(|(start, end)| end - start).sum(),
            lost_bytes: (all.passed - all.played) - (base.passed - base.played),
            late_bytes: all.late - base.late,
        }
    }

    /// The counters, with the stall that is going on.
    fn counted_by(&self, now: Instant) -> Counted {
        let mut counted = self.counted;
        if let State::Stalled { since } = self.state {
            counted.stalled += now.since(since);
        }
        counted
    }

    fn insert(&mut self, start: u64, end: u64) {
        self.edge = self.edge.max(end);
        if let Some(last) = self.buffer.back_mut()
            && last.1 == start
        {
            last.1 = end;
            return;
        }
        let place = self.buffer.partition_point(|range| range.0 < start);
        self.buffer.insert(place, (start, end));
    }

    /// Time in the content of its byte `position`.
    fn time_at(&self, position: u64) -> Duration {
        self.rate.time_for(Bytes(position))
    }

    /// Moves the play head to where it is at `now`.
    fn advance(&mut self, now: Instant) {
        if let State::Stalled { since } = self.state
            && let Some(until) = self.waits_until(since)
            && until <= now
        {
            self.leave_stall(until, since);
        }
        let State::Playing { since, from } = self.state else { return };
        let head = from + now.since(since);
        let end = match self.length {
            // What is missing at the end of the content is a hole like any other.
            Some(length) if !self.lossless => length.max(self.edge),
            Some(_) | None => self.edge,
        };
        let end_time = self.time_at(end);
        if head <= end_time {
            self.pass(self.rate.bytes_in(head).0.min(end));
            return;
        }
        self.pass(end);
        if self.length.is_some_and(|length| end >= length) {
            self.state = State::Over;
        } else {
            self.counted.stalls += 1;
            self.state = State::Stalled { since: since + end_time.saturating_sub(from) };
        }
    }

    /// When a stall that began at `since` ends, whatever arrives: at once if nothing is missing any more, and
    /// over a transport that loses when what is missing at the end of the content would have been played.
    fn waits_until(&self, since: Instant) -> Option<Instant> {
        let missing = self.time_at(self.length?).saturating_sub(self.time_at(self.edge));
        if self.lossless && missing > Duration::ZERO { None } else { Some(since + missing) }
    }

    /// The stall since `since` is over at `at`: what is there is played.
    fn leave_stall(&mut self, at: Instant, since: Instant) {
        self.counted.stalled += at.since(since);
        if self.edge > self.counted.passed {
            self.state = State::Playing { since: at, from: self.time_at(self.counted.passed) };
        } else {
            self.pass(self.length.unwrap_or(self.edge));
            self.state = State::Over;
        }
    }

    /// The play head has come to `position`.
    fn pass(&mut self, position: u64) {
        while let Some(range) = self.buffer.front_mut() {
            let played_to = range.1.min(position);
            if played_to <= range.0 {
                break;
            }
            self.counted.played += played_to - range.0;
            range.0 = played_to;
            if range.0 == range.1 {
                self.buffer.pop_front();
            }
        }
        self.counted.passed = self.counted.passed.max(position);
    }

    /// True if the buffer holds `needed`, or all the rest of the content.
    fn is_ready(&self, needed: Duration) -> bool {
        let all_there = self.length.is_some_and(|length| self.edge >= length);
        let buffered = self.time_at(self.edge).saturating_sub(self.time_at(self.counted.passed));
        self.edge > self.counted.passed && (buffered >= needed || all_there)
    }

    fn play_if_ready(&mut self, now: Instant) {
        match self.state {
            State::Starting => {
                if self.is_ready(self.startup) {
                    self.startup_took = Some(now.since(self.opened));
                    self.state = State::Playing { since: now, from: self.time_at(self.counted.passed) };
                }
            }
            State::Stalled { since } => {
                let waited = self.waits_until(since).is_some_and(|until| until <= now);
                if waited || self.is_ready(self.resume) {
                    self.leave_stall(now, since);
                }
            }
            State::Playing { .. } | State::Over => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// 1000 bytes a second.
    fn media(startup_s: u64, resume_s: u64) -> Media {
        Media {
            rate: BitRate(8_000),
            chunk: Bytes(40),
            interval: Duration::from_millis(40),
            ahead: Duration::ZERO,
            ahead_rate: None,
            startup: Duration::from_secs(startup_s),
            resume: Duration::from_secs(resume_s),
        }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn it_starts_with_its_buffer_stalls_when_it_is_empty_and_resumes_with_another() {
        let mut player = Player::new(&media(2, 1), true, at(500));
        player.arrived_in_order(at(1_000), 1_500);
        assert_eq!(player.record(at(1_200)).startup_s, None);
        player.arrived_in_order(at(2_000), 3_000);
        assert_eq!(player.record(at(2_000)).startup_s, Some(1.5));
        // 3 s of content last until 5 s.
        let MediaRecord { stalls, played_bytes, buffered_bytes, .. } = player.record(at(4_000));
        assert_eq!((stalls, played_bytes, buffered_bytes), (0, 2_000, 1_000));
        player.arrived_in_order(at(6_000), 3_500);
        player.arrived_in_order(at(7_500), 4_200);
        let record = player.record(at(8_000));
        assert_eq!((record.stalls, record.stalled_s, record.played_bytes), (1, 2.5, 3_500));
    }

    #[test]
    fn a_hole_is_passed_in_its_time_and_what_comes_behind_the_head_is_late() {
        let mut player = Player::new(&media(1, 1), false, at(0));
        player.arrived(at(0), 0, 1_000);
        player.arrived(at(500), 1_500, 3_000);
        // The head is at 2 s: bytes 1000 to 1500 are gone.
        player.arrived(at(2_000), 1_000, 1_500);
        let record = player.record(at(2_000));
        assert_eq!((record.played_bytes, record.lost_bytes, record.late_bytes), (1_500, 500, 500));
        assert_eq!((record.buffered_bytes, record.stalls), (1_000, 0));
    }

    #[test]
    fn the_end_of_the_content_is_no_stall_and_needs_no_full_buffer() {
        let mut player = Player::new(&media(5, 5), true, at(0));
        player.arrived_in_order(at(100), 700);
        player.content_ends(at(200), 700);
        let record = player.record(at(10_000));
        assert_eq!((record.startup_s, record.stalls, record.played_bytes), (Some(0.2), 0, 700));
    }

    #[test]
    fn a_stall_at_the_end_lasts_as_long_as_what_is_missing_would_have_played() {
        let mut player = Player::new(&media(1, 1), false, at(0));
        player.arrived(at(0), 0, 1_000);
        // It stalls at 1 s. The content has 2 s more, which are lost.
        player.content_ends(at(1_500), 3_000);
        let record = player.record(at(2_000));
        assert_eq!((record.stalls, record.stalled_s, record.lost_bytes), (1, 1.0, 0));
        let record = player.record(at(9_000));
        assert_eq!((record.stalls, record.stalled_s), (1, 2.0));
        assert_eq!((record.played_bytes, record.lost_bytes, record.late_bytes), (1_000, 2_000, 0));
        player.arrived(at(9_000), 2_000, 3_000);
        assert_eq!(player.record(at(9_000)).late_bytes, 1_000);
    }

    #[test]
    fn what_is_there_is_played_when_the_wait_for_the_end_is_over() {
        let mut player = Player::new(&media(1, 5), false, at(0));
        player.arrived(at(0), 0, 1_000);
        player.arrived(at(2_000), 1_000, 1_700);
        player.content_ends(at(2_500), 2_000);
        // Stalled at 1 s with 0.3 s missing, but the end is known only at 2.5 s; then 0.7 s and the hole.
        let record = player.record(at(3_400));
        assert_eq!((record.stalls, record.stalled_s, record.played_bytes), (1, 1.5, 1_700));
        let record = player.record(at(9_000));
        assert_eq!((record.stalls, record.stalled_s), (1, 1.5));
        assert_eq!((record.played_bytes, record.lost_bytes, record.buffered_bytes), (1_700, 300, 0));
    }

    #[test]
    fn a_player_that_plays_passes_what_is_missing_at_the_end_as_any_hole() {
        let mut player = Player::new(&media(1, 1), false, at(0));
        player.arrived(at(0), 0, 1_000);
        player.content_ends(at(500), 3_000);
        // The head is at 1.2 s; what is still under way is in time, or late, as it would be in a hole.
        player.arrived(at(1_200), 1_000, 1_500);
        let record = player.record(at(1_500));
        assert_eq!((record.played_bytes, record.lost_bytes, record.late_bytes), (1_300, 200, 200));
        let record = player.record(at(9_000));
        assert_eq!((record.stalls, record.stalled_s), (0, 0.0));
        assert_eq!((record.played_bytes, record.lost_bytes, record.late_bytes), (1_300, 1_700, 200));
    }

    #[test]
    fn a_stall_where_the_content_turns_out_to_end_is_over_at_once() {
        for lossless in [false, true] {
            let mut player = Player::new(&media(1, 1), lossless, at(0));
            player.arrived(at(0), 0, 1_000);
            player.content_ends(at(1_400), 1_000);
            let record = player.record(at(9_000));
            assert_eq!((record.stalls, record.stalled_s), (1, 0.4), "{lossless}");
            assert_eq!((record.played_bytes, record.lost_bytes), (1_000, 0), "{lossless}");
        }
    }

    #[test]
    fn what_was_before_the_count_is_not_counted() {
        let mut player = Player::new(&media(1, 1), true, at(0));
        player.arrived_in_order(at(0), 1_000);
        player.count_from(at(3_000));
        let record = player.record(at(4_000));
        assert_eq!((record.stalls, record.stalled_s, record.played_bytes), (0, 1.0, 0));
    }

    /// The rule of the file's head in steps of a millisecond, a byte each: (stalls, ms stalled, played,
    /// left).
    fn by_the_millisecond(arrivals: &[(u64, u64)], until: u64, startup: u64, resume: u64) -> [u64; 4] {
        let (mut level, mut stalls, mut stalled, mut played) = (0, 0, 0, 0);
        let (mut playing, mut needed) = (false, startup);
        for now in 0..until {
            let came: u64 = arrivals.iter().filter(|(at, _)| *at == now).map(|(_, bytes)| bytes).sum();
            level += came;
            if !playing && came > 0 && level >= needed {
                playing = true;
            }
            if playing && level > 0 {
                level -= 1;
                played += 1;
            } else if playing {
                (playing, needed) = (false, resume);
                stalls += 1;
            }
            stalled += u64::from(!playing && stalls > 0);
        }
        [stalls, stalled, played, level]
    }

    proptest! {
        #[test]
        fn it_stalls_when_it_is_empty_and_only_then(
            waits in prop::collection::vec((1_u64..900, 1_u64..900), 1..60),
            startup in 0_u64..3,
            resume in 0_u64..3,
        ) {
            let mut player = Player::new(&media(startup, resume), true, at(0));
            let (mut now, mut total, mut arrivals) = (0, 0, Vec::new());
            for (wait, bytes) in waits {
                now += wait;
                total += bytes;
                player.arrived_in_order(at(now), total);
                arrivals.push((now, bytes));
            }
            let until = now + 1_234;
            let record = player.record(at(until));
            let ours = [
                record.stalls,
                (record.stalled_s * 1e3).round() as u64,
                record.played_bytes,
                record.buffered_bytes,
            ];
            prop_assert_eq!(ours, by_the_millisecond(&arrivals, until, startup * 1_000, resume * 1_000));
            prop_assert_eq!(record.lost_bytes + record.late_bytes, 0);
        }

        /// Datagrams of 100 bytes, some lost, some out of order by up to three places.
        #[test]
        fn what_arrived_was_played_is_buffered_or_came_late(
            arrivals in prop::collection::vec((0_u64..400, 0_u64..4, any::<bool>()), 1..200),
            startup in 0_u64..3,
        ) {
            let mut player = Player::new(&media(startup, 1), false, at(0));
            let (mut now, mut received) = (0, 0);
            let mut seen = std::collections::HashSet::new();
            for (number, (wait, shift, lost)) in arrivals.into_iter().enumerate() {
                now += wait;
                let number = (number as u64).saturating_sub(shift);
                if lost || !seen.insert(number) {
                    continue;
                }
                player.arrived(at(now), number * 100, number * 100 + 100);
                received += 100;
                let record = player.record(at(now));
                prop_assert_eq!(record.played_bytes + record.buffered_bytes + record.late_bytes, received);
                prop_assert_eq!(record.played_bytes + record.lost_bytes, player.counted.passed);
                prop_assert!(player.buffer.iter().zip(player.buffer.iter().skip(1)).all(|(a, b)| a.1 <= b.0));
            }
        }
    }
}
