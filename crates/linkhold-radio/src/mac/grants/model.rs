//! The delays that lookahead's equations give, and the collisions of slotted ALOHA.
//!
//! Source: lookahead section II-C, equations (1) and (2); L. G. Roberts, *ALOHA packet system with and
//! without slots and capture* (1975), for slots that each of n stations draws by itself.
//!
//! What the equations leave open:
//! - the sum of (2) runs to an n that the paper does not name. Its weights add up to 1 - (1 - p)^n, and not
//!   to 1, so a request that was given up counts as a delay of zero. [`mean_access_delay`] divides by them;
//! - without an end the sum has no value for p <= 1/2: the i-th term is p (2 (1 - p))^(i-1) frames;
//! - T_transmit stands in (2) and once more in (1). Here (1) adds nothing that (2) has already;
//! - where in a frame a delay begins. Here with the uplink subframe in which the first try is made; what
//!   comes before is a T_wait.

use linkhold_core::time::Duration;
use linkhold_core::units::Fraction;

/// The times of one random access.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AccessTimes {
    /// p_s: chance that a try is received.
    pub success: Fraction,
    /// n: tries before a station gives up.
    pub tries: u32,
    /// T_frame.
    pub frame: Duration,
    /// T_assignment: from what the base station received to the turn that it gives for it.
    pub assignment: Duration,
    /// T_transmit: from the start of the uplink subframe to the burst's end.
    pub transmit: Duration,
}

impl AccessTimes {
    /// The sum of equation (2), in frames.
    fn frames_of_tries(&self) -> f64 {
        let (p, mut chance, mut frames, mut sum) = (self.success.get(), 1.0, 1.0, 0.0);
        for _ in 0..self.tries {
            sum += p * chance * frames;
            chance *= 1.0 - p;
            frames *= 2.0;
        }
        sum
    }

    fn after_tries(&self) -> Duration {
        self.assignment * 2 + self.transmit
    }
}

/// Equation (2) as it is printed: T_random_access_delay, the i-th of at most n tries being over after 2^(i-1)
/// frames, then two assignments and the burst.
#[must_use]
pub fn random_access_delay(times: &AccessTimes) -> Duration {
    times.frame.mul_f64(times.frames_of_tries()) + times.after_tries()
}

/// Mean delay of the accesses that succeed within n tries: the sum of (2) over the chance of that.
#[must_use]
pub fn mean_access_delay(times: &AccessTimes) -> Duration {
    let given_up = (1.0 - times.success.get()).powi(times.tries as i32);
    times.frame.mul_f64(times.frames_of_tries() / (1.0 - given_up)) + times.after_tries()
}

/// T_wireless of equation (1): the random access with its burst ([`random_access_delay`]), the downlink
/// transfer C_downlink, and twice T_wait, which is below a frame and the base station's scheduling time.
#[must_use]
pub fn wireless_delay(random_access: Duration, downlink: Duration, wait: Duration) -> Duration {
    random_access + downlink + wait * 2
}

/// Chance that a station's request collides where `stations` of them each draw one of `codes` x `subchannels`
/// x `slots` opportunities in the same frame (slotted ALOHA): 1 - (1 - 1 / (c b s))^(n - 1).
#[must_use]
pub fn collision_probability(stations: u32, codes: u32, subchannels: u32, slots: u32) -> f64 {
    let opportunities = f64::from(codes) * f64::from(subchannels) * f64::from(slots);
    1.0 - (1.0 - 1.0 / opportunities).powi(stations.saturating_sub(1) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(success: f64, tries: u32) -> AccessTimes {
        let frame = Duration::from_millis(5);
        AccessTimes { success: Fraction::clamped(success), tries, frame, assignment: frame, transmit: frame }
    }

    #[test]
    fn equation_2_gives_four_frames_at_a_chance_of_one() {
        assert_eq!(random_access_delay(&times(1.0, 16)), Duration::from_millis(20));
        assert_eq!(mean_access_delay(&times(1.0, 16)), Duration::from_millis(20));
    }

    #[test]
    fn at_one_half_each_try_adds_half_a_frame() {
        // p (2 (1 - p))^(i-1) = 1/2 for every i.
        assert_eq!(random_access_delay(&times(0.5, 8)), Duration::from_millis(5 * (4 + 3)));
        // 255 of 256 succeed.
        let mean = mean_access_delay(&times(0.5, 8)).as_secs_f64();
        assert!((mean - 5e-3 * (4.0 * 256.0 / 255.0 + 3.0)).abs() < 1e-9, "{mean}");
        // 0.9 + 0.18 + 0.036 + ...: 0.9 / (1 - 0.2).
        let long = random_access_delay(&times(0.9, 60)).as_secs_f64();
        assert!((long - 5e-3 * (1.125 + 3.0)).abs() < 1e-9, "{long}");
    }

    #[test]
    fn equation_1_adds_the_way_down_and_two_waits() {
        let ms = Duration::from_millis;
        assert_eq!(wireless_delay(ms(40), ms(5), ms(5)), ms(55), "the paper's 11 frames of 5 ms");
    }

    #[test]
    fn collisions_follow_slotted_aloha() {
        assert_eq!(collision_probability(1, 16, 1, 3), 0.0);
        assert!((collision_probability(2, 4, 1, 1) - 0.25).abs() < 1e-12);
        assert!((collision_probability(3, 4, 1, 2) - (1.0 - 0.875 * 0.875)).abs() < 1e-12);
        assert!((collision_probability(3, 2, 2, 2) - (1.0 - 0.875 * 0.875)).abs() < 1e-12);
        assert_eq!(collision_probability(2, 1, 1, 1), 1.0);
    }
}
