//! How long the radio takes from a request to its turn, and how many frames ahead are best therefore.
//!
//! Source: the paper's future work (lookahead section V), an N that follows the success probability p_s. The
//! paper's N is fixed: 8 or 9 frames, the access delay of its testbed (section II-C).
//!
//! A turn that comes before its ACK is lost, and the ACK waits for a turn of its own, as long as an access
//! takes on average. One that comes late costs only the frames by which it is late. So the best N is not one
//! that is nearly always enough, which is a turn too early nearly always, but the one with the least expected
//! wait over the delays seen of late, and mostly the shortest delay that is common. Delays are counted in
//! whole frames, rounded down: the turn then comes within a frame after the ACK.
//!
//! So p_s does not move the best N. Tries that fail lengthen the delay, but the shortest delay stays that of
//! a first try that succeeds; and to pass over it costs p_s times a whole mean delay, which is more than the
//! (1 - p_s) times the wait for the second try that it saves, as long as waits between tries do not become
//! shorter. What p_s changes is the gain. Measured with frames of 5 ms, N is 7.0 in the mean with p_s of 0.9
//! and 1, and 7.2 with 0.5, where a few dozen delays do not always show the shortest (`n_and_gain_follow_*`
//! in the simulator's tests); the wait that is left grows from 1.0 to 17 frames.

use super::config::FramesAhead;
use super::predict::Estimate;
use crate::time::{Duration, Instant};

/// Delays of this many frames and more are counted together.
const BINS: usize = 128;
/// Weight of a new delay.
const NEW: u16 = 256;
/// Above this sum all weights are halved: the last 16 to 32 delays decide.
const MOST: u32 = 32 * NEW as u32;
/// Before any delay is known: the paper's (section II-C).
const FIRST: u32 = 8;
/// An access that has not come to its end after this long was given up.
const GIVEN_UP: Duration = Duration::from_secs(1);
/// A radio that grants nothing for this many frames after its last turn has nothing left to grant.
const QUIET: u32 = 16;

/// The access delays seen of late, and the best N for them.
#[derive(Clone, Debug)]
pub(super) struct AccessDelay {
    /// Weight of each delay, in frames.
    bins: [u16; BINS],
    best: u32,
}

impl Default for AccessDelay {
    fn default() -> Self {
        Self { bins: [0; BINS], best: FIRST }
    }
}

impl AccessDelay {
    /// An access took `delay`, in frames of this length.
    pub fn add(&mut self, delay: Duration, frame: Duration) {
        let frames = delay.as_nanos() / frame.as_nanos().max(1);
        let bin = usize::try_from(frames).unwrap_or(BINS).min(BINS - 1);
        self.bins[bin] += NEW;
        if self.bins.iter().map(|&weight| u32::from(weight)).sum::<u32>() > MOST {
            for weight in &mut self.bins {
                *weight /= 2;
            }
        }
        self.best = self.find_best();
    }

    /// The number of frames ahead with the least expected wait; of equals the smallest.
    fn find_best(&self) -> u32 {
        let weights = || self.bins.iter().map(|&weight| u64::from(weight));
        let total: u64 = weights().sum();
        let moment: u64 = weights().zip(0..).map(|(weight, frames)| weight * frames).sum();
        // Times `total`, so that all stays whole. With nobody asked ahead every ACK waits its delay out.
        let mut wait = moment * total;
        let mut later = total;
        let (mut best, mut least) = (0, wait);
        for (weight, ahead) in weights().zip(1..) {
            // Turns that take `ahead - 1` frames now come too early; all later ones come a frame earlier.
            later -= weight;
            wait = wait + weight * moment - later * total;
            if wait < least {
                (best, least) = (ahead, wait);
            }
        }
        best
    }

    pub const fn best(&self) -> u32 {
        self.best
    }
}

impl FramesAhead {
    /// How long before an ACK its request is made: whole frames, at most `period`; zero if none is to be
    /// made.
    pub(super) fn lead(self, measured: &AccessDelay, frame: Duration, period: Duration) -> Duration {
        let n = match self {
            Self::Measured => measured.best(),
            Self::Fixed(n) => n,
        };
        let most = period.as_nanos() / frame.as_nanos().max(1);
        frame * n.min(u32::try_from(most).unwrap_or(u32::MAX))
    }
}

/// When a request that is due should be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Plan {
    Now,
    /// Not before this time, and not before the next grant is told.
    Later(Instant),
}

/// What the radio still has to grant, as far as its station sees.
///
/// It tells when an access begins with nothing before it, so that its delay is that of an access and not of a
/// request that rides on another. And it tells when a request would be lost on the access under way: one that
/// is made before that access has told its bytes gets the same turn, which may be over before the ACK comes.
/// Made after the grant was told it rides in the granted burst, whose answer takes less than an access.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Access {
    /// Bytes that packets and requests have wanted, and those of them that were granted, since the beginning.
    wanted: u64,
    granted: u64,
    /// Bytes asked for whose packets have not come.
    ahead: u64,
    /// When the access under way began, until its grant is told.
    since: Option<Instant>,
    /// The start of the last turn that was told.
    turn: Instant,
    /// The turn in whose burst what came later is asked for.
    rides: Option<Instant>,
    /// From one turn to that of what its burst asked for.
    ride: Estimate,
}

impl Access {
    /// A request is made. Returns how many bytes have to be granted in all until this one has its turn.
    pub fn on_request(&mut self, now: Instant, bytes: u64, frame: Duration) -> u64 {
        self.ahead = self.ahead.saturating_add(bytes);
        self.want(now, bytes, frame);
        self.wanted
    }

    /// A packet waits: if it was asked for ahead, it is what was expected.
    pub fn on_packet(&mut self, now: Instant, len: u64, frame: Duration) {
        let expected = len.min(self.ahead);
        self.ahead -= expected;
        if len > expected {
            self.want(now, len - expected, frame);
        }
    }

    fn want(&mut self, now: Instant, bytes: u64, frame: Duration) {
        self.expire(now, frame);
        if self.since.is_none() {
            if self.turn >= now {
                self.rides = Some(self.turn);
            } else if self.rides.is_none() {
                self.since = Some(now);
                // Station and radio need not count the same bytes; here the radio has nothing left to grant.
                self.granted = self.wanted;
            }
        }
        self.wanted = self.wanted.saturating_add(bytes);
    }

    /// The radio grants `bytes`, in a turn that starts `at`. The delay of the access, if one began alone.
    pub fn on_grant(&mut self, now: Instant, at: Instant, bytes: u64, frame: Duration) -> Option<Duration> {
        self.expire(now, frame);
        self.granted = self.granted.saturating_add(bytes).min(self.wanted);
        if let Some(burst) = self.rides.take() {
            self.ride.add(at.since(burst));
        }
        if self.wanted > self.granted {
            // What came after the access had told its bytes.
            self.rides = Some(at);
        }
        self.turn = at;
        self.since.take().map(|since| at.since(since))
    }

    /// How many bytes were granted in all.
    pub const fn granted(&self) -> u64 {
        self.granted
    }

    /// A turn had room for `left` bytes: no packet waits.
    pub fn on_unused(&mut self, left: u64) {
        self.ahead = self.ahead.saturating_sub(left);
        if self.ahead == 0 {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.granted = self.wanted;
        self.since = None;
        self.rides = None;
    }

    /// A silence falls: what is under way takes as long as the silence does, not as an access does.
    pub const fn on_silence(&mut self) {
        self.since = None;
        self.rides = None;
    }

    /// When to make the request for an ACK that is `expected`, if an access alone takes `access`.
    pub fn plan(&self, now: Instant, expected: Instant, access: Duration, frame: Duration) -> Plan {
        if self.turn == Instant::ZERO {
            // This radio has told of no grant yet.
            return Plan::Now;
        }
        // Until a burst's request was measured: one of an access's two steps.
        let ride = if self.ride.samples() == 0 {
            Duration::from_nanos(access.as_nanos() / 2)
        } else {
            self.ride.mean()
        };
        let soon = now + frame;
        let untold = match (self.since, self.rides) {
            (Some(since), _) => Some((since + access).max(soon)),
            (None, Some(burst)) if burst <= now => Some((burst + ride).max(soon)),
            (None, Some(_) | None) => None,
        };
        if let Some(turn) = untold {
            return if expected <= turn { Plan::Now } else { Plan::Later(turn) };
        }
        if self.turn < now || expected <= self.turn + ride {
            return Plan::Now;
        }
        // An access of its own, once the burst is over for certain.
        Plan::Later(self.turn + Duration::from_nanos(frame.as_nanos() / 2))
    }

    /// Gives up what will not be granted: the radio and its station need not count the same bytes.
    fn expire(&mut self, now: Instant, frame: Duration) {
        let over = match self.since {
            Some(since) => now.since(since) > GIVEN_UP,
            None => now.since(self.turn) > frame * QUIET,
        };
        if over {
            self.settle();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: Duration = Duration::from_millis(5);

    /// The best N after these delays, in frames.
    fn best(delays: impl IntoIterator<Item = u32>) -> u32 {
        let mut seen = AccessDelay::default();
        for delay in delays {
            seen.add(FRAME * delay + Duration::from_millis(2), FRAME);
        }
        seen.best()
    }

    #[test]
    fn the_best_n_is_the_commonest_short_delay_and_not_one_that_is_always_enough() {
        assert_eq!(AccessDelay::default().best(), 8, "the paper's, until one is measured");
        assert_eq!(best([6]), 6);
        // p_s = 0.5: half of the accesses take 8 frames, a quarter 10, an eighth 14.
        let tries = [8, 8, 10, 8, 14, 8, 10, 8];
        assert_eq!(best(tries.into_iter().cycle().take(64)), 8);
        // One in ten is lucky: to wait for it would cost the other nine two frames each.
        let lucky = [6, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8];
        assert_eq!(best(lucky), 8);
        // Turns at once: there is nothing to gain.
        assert_eq!(best([0; 4]), 0);
    }

    #[test]
    fn the_best_n_follows_a_delay_that_changes_within_a_few_dozen_accesses() {
        let grown = |accesses| best([8; 100].into_iter().chain([12; 100].into_iter().take(accesses)));
        assert_eq!(grown(1), 8);
        assert_eq!(grown(60), 12);
        let shrunk = best([12; 100].into_iter().chain([8; 8]));
        assert_eq!(shrunk, 8, "too early is worse than too late, so this goes faster");
    }

    #[test]
    fn the_lead_is_at_most_the_period() {
        let (period, measured) = (Duration::from_millis(200), AccessDelay::default());
        for (n, frame, lead) in [(8, 5, 40), (40, 5, 200), (100, 12, 192), (1, 300, 0)] {
            let lead = Duration::from_millis(lead);
            assert_eq!(FramesAhead::Fixed(n).lead(&measured, Duration::from_millis(frame), period), lead);
        }
    }

    #[test]
    fn only_an_access_that_begins_alone_is_measured() {
        let at = Instant::from_millis;
        let mut access = Access::default();
        let grant = |access: &mut Access, now, turn, bytes| {
            access.on_grant(at(now), at(turn), bytes, FRAME).map(Duration::as_millis)
        };
        access.want(at(2), 40, FRAME);
        access.want(at(10), 40, FRAME);
        assert_eq!(grant(&mut access, 38, 42, 40), Some(40));
        // The second packet's bytes were asked for in the burst.
        assert_eq!(grant(&mut access, 58, 62, 40), None);
        access.want(at(70), 40, FRAME);
        assert_eq!(grant(&mut access, 105, 110, 48), Some(40));
        // A silence is no access delay.
        access.want(at(120), 40, FRAME);
        access.on_silence();
        assert_eq!(grant(&mut access, 900, 905, 40), None);
        // A grant that never came is forgotten.
        access.want(at(1000), 40, FRAME);
        access.want(at(3000), 40, FRAME);
        assert_eq!(grant(&mut access, 3040, 3045, 30), Some(45));
        // A radio that counts fewer bytes than the packets have has nothing left to grant all the same.
        access.want(at(3060), 40, FRAME);
        assert_eq!(grant(&mut access, 3080, 3085, 30), None, "taken for a ride");
        access.want(at(3180), 40, FRAME);
        assert_eq!(grant(&mut access, 3210, 3215, 40), Some(35));
        // What comes before the burst is asked for in the burst.
        access.want(at(3212), 40, FRAME);
        assert_eq!(grant(&mut access, 3230, 3235, 40), None);
        assert_eq!(access.rides, None);
    }

    #[test]
    fn a_request_is_not_lost_on_an_access_whose_turn_comes_too_early() {
        let (at, delay) = (Instant::from_millis, Duration::from_millis(40));
        // A turn long ago: the radio tells of grants.
        let mut access = Access { turn: Instant::from_nanos(1), ..Access::default() };
        let plan = |access: &Access, now, expected| access.plan(at(now), at(expected), delay, FRAME);
        assert_eq!(plan(&access, 50, 90), Plan::Now, "nothing is under way");
        access.want(at(100), 40, FRAME);
        assert_eq!(plan(&access, 110, 140), Plan::Now, "it comes for the same turn");
        assert_eq!(plan(&access, 110, 150), Plan::Later(at(140)), "the turn is before it");
        assert_eq!(access.on_grant(at(136), at(142), 40, FRAME), Some(Duration::from_millis(42)));
        assert_eq!(plan(&access, 136, 150), Plan::Now, "it rides in the burst");
        assert_eq!(plan(&access, 136, 162), Plan::Now);
        let after = |turn| Plan::Later(at(turn) + Duration::from_micros(2500));
        assert_eq!(plan(&access, 136, 163), after(142), "even that is too early");
        access.want(at(136), 40, FRAME);
        assert_eq!(plan(&access, 145, 155), Plan::Now, "the burst's answer is under way");
        assert_eq!(plan(&access, 145, 163), Plan::Later(at(162)));
        assert_eq!(access.on_grant(at(150), at(157), 40, FRAME), None);
        // A ride takes 15 ms, and not the 20 that were thought.
        assert_eq!(plan(&access, 150, 172), Plan::Now);
        assert_eq!(plan(&access, 150, 173), after(157));
        assert_eq!(plan(&access, 158, 190), Plan::Now, "idle again");
    }
}
