//! Makes a PU log: every primary user on and off by turns, by a birth-death process.
//!
//! Source: crahn, sections 3 and 4.1. PUs of band i are ON for an exponential time of mean 1/alpha_i and OFF
//! for one of mean 1/beta_i. The process starts in its stationary state: ON with probability beta / (alpha +
//! beta), and, as exponential times have no memory, with a full ON or OFF time before it.
//!
//! A burst that would go past the log's duration ends there, so that the occupancy over the duration is
//! right. (Of some hundred bursts, one is short.) PUs are numbered from 1, band by band. Each has a random
//! stream of its own for its times and one for its place, so that more users or a longer log leave the bursts
//! that were there.

use linkhold_core::time::{Duration, Instant};

use crate::rng::Stream;
use crate::spectrum::bands::{Band, MAX_BANDS};
use crate::spectrum::energy_detector::PuActivity;
use crate::spectrum::fields::MAX_SECONDS;
use crate::spectrum::pu_log::{Burst, MAX_BURSTS, MAX_USERS, PuLog, PuLogError, User};

/// Where primary users are.
#[derive(Clone, Debug, PartialEq)]
pub enum Places {
    /// Anywhere in the rectangle from the origin to (width, height), m.
    Random {
        /// East, m.
        width: f64,
        /// North, m.
        height: f64,
    },
    /// At these places (x, y), m: the n-th user is at the n-th; there are as many as users.
    Given(Vec<(f64, f64)>),
}

/// What a log is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Generator {
    /// By band: how its users behave.
    pub bands: Vec<PuActivity>,
    /// Users on each band.
    pub users_per_band: u32,
    /// Where they are.
    pub places: Places,
    /// Transmit power of each, W.
    pub power: f64,
    /// How much time the log covers.
    pub duration: Duration,
}

/// A log that cannot be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GenerateError {
    /// No band or too many.
    #[error("there are 1 to {MAX_BANDS} bands, not {0}")]
    Bands(usize),
    /// No user or too many.
    #[error("a log has 1 to {MAX_USERS} PUs, not {0}")]
    Users(u64),
    /// The numbers of places and users differ.
    #[error("there are {0} places for {1} PUs; each PU has one")]
    Places(usize, u64),
    /// A place or an area that is none.
    #[error("a place or an area is not finite, or the area has no size")]
    Area,
    /// Transmit power.
    #[error("a transmit power of {0} W is out of range (above 0, up to 1e9)")]
    Power(f64),
    /// Duration.
    #[error("a log covers more than 0 s and at most {MAX_SECONDS} s")]
    Duration,
    /// More bursts than a log may have; about so many would be needed.
    #[error("the log would have about {0:.0} bursts; it can have {MAX_BURSTS}")]
    TooLong(f64),
    /// What came out is no log; cannot be.
    #[error(transparent)]
    Log(#[from] PuLogError),
}

impl Generator {
    /// Makes the log of `seed`.
    ///
    /// # Errors
    /// [`GenerateError`] names what is out of range.
    pub fn generate(&self, seed: u64) -> Result<PuLog, GenerateError> {
        self.check()?;
        let (mut users, mut bursts) = (Vec::new(), Vec::new());
        for (band, activity) in (1_u16..).zip(&self.bands) {
            for _ in 0..self.users_per_band {
                let index = users.len() as u32;
                let Some(band) = Band::new(band) else { return Err(GenerateError::Bands(self.bands.len())) };
                let (x, y) = self.place(seed, index);
                users.push(User { id: index + 1, x, y, band, power: self.power });
                self.activity(seed, index, *activity, &mut bursts)?;
            }
        }
        Ok(PuLog::new(users, bursts, self.bands.len() as u16)?)
    }

    fn place(&self, seed: u64, user: u32) -> (f64, f64) {
        match &self.places {
            Places::Random { width, height } => {
                let mut stream = Stream::new(seed, "pu-log place", u64::from(user));
                // Whole centimetres: they are read by people.
                let centimetres = |metres: f64| (metres * 100.0).round() / 100.0;
                (centimetres(stream.unit() * width), centimetres(stream.unit() * height))
            }
            Places::Given(places) => places.get(user as usize).copied().unwrap_or((0.0, 0.0)),
        }
    }

    fn activity(
        &self,
        seed: u64,
        user: u32,
        activity: PuActivity,
        bursts: &mut Vec<Burst>,
    ) -> Result<(), GenerateError> {
        let mut stream = Stream::new(seed, "pu-log activity", u64::from(user));
        let (on_mean, off_mean) = (activity.on_mean(), activity.off_mean());
        let end = Instant::ZERO + self.duration;
        let mut on = stream.unit() < activity.on_share();
        let mut now = Instant::ZERO;
        while now < end {
            let next = now + stream.exponential(if on { on_mean } else { off_mean });
            if on {
                if bursts.len() == MAX_BURSTS {
                    return Err(GenerateError::TooLong(self.expected_bursts()));
                }
                let line = bursts.len() as u32;
                bursts.push(Burst { user, arrival: now, departure: next.min(end), line });
            }
            (now, on) = (next, !on);
        }
        Ok(())
    }

    fn users(&self) -> u64 {
        self.bands.len() as u64 * u64::from(self.users_per_band)
    }

    /// Bursts in a log on average.
    fn expected_bursts(&self) -> f64 {
        let cycles = |activity: &PuActivity| 1.0 / (1.0 / activity.alpha() + 1.0 / activity.beta());
        let a_second: f64 = self.bands.iter().map(cycles).sum();
        a_second * f64::from(self.users_per_band) * self.duration.as_secs_f64()
    }

    fn check(&self) -> Result<(), GenerateError> {
        if self.bands.is_empty() || self.bands.len() > usize::from(MAX_BANDS) {
            return Err(GenerateError::Bands(self.bands.len()));
        }
        let users = self.users();
        if users == 0 || users > MAX_USERS as u64 {
            return Err(GenerateError::Users(users));
        }
        let is_place = |value: f64| (-1e8..=1e8).contains(&value);
        let is_size = |value: f64| value > 0.0 && is_place(value);
        match &self.places {
            Places::Random { width, height } if is_size(*width) && is_size(*height) => {}
            Places::Random { .. } => return Err(GenerateError::Area),
            Places::Given(places) if places.len() as u64 != users => {
                return Err(GenerateError::Places(places.len(), users));
            }
            Places::Given(places) if places.iter().all(|&(x, y)| is_place(x) && is_place(y)) => {}
            Places::Given(_) => return Err(GenerateError::Area),
        }
        if !(self.power > 0.0 && self.power <= 1e9) {
            return Err(GenerateError::Power(self.power));
        }
        if self.duration.is_zero() || self.duration > Duration::from_secs(MAX_SECONDS) {
            return Err(GenerateError::Duration);
        }
        let bursts = self.expected_bursts();
        if bursts > MAX_BURSTS as f64 { Err(GenerateError::TooLong(bursts)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spectrum::occupancy::Occupancy;

    fn generator(rates: &[(f64, f64)], users_per_band: u32, seconds: u64) -> Generator {
        Generator {
            bands: rates.iter().map(|&(alpha, beta)| PuActivity::new(alpha, beta).unwrap()).collect(),
            users_per_band,
            places: Places::Random { width: 1000.0, height: 500.0 },
            power: 1.0,
            duration: Duration::from_secs(seconds),
        }
    }

    #[test]
    fn occupancy_and_mean_times_follow_alpha_and_beta() {
        let rates = [(0.5, 0.5), (2.0, 0.5), (0.5, 2.0), (5.0, 4.0)];
        let log = generator(&rates, 1, 20_000).generate(11).unwrap();
        for (number, (alpha, beta)) in (1..).zip(rates) {
            let occupancy = Occupancy::of(&log, Band::new(number).unwrap(), |_| true);
            let share = occupancy.on_time(Instant::from_secs_f64(20_000.0)).as_secs_f64() / 20_000.0;
            assert!((share - beta / (alpha + beta)).abs() < 0.02, "{alpha}, {beta}: {share}");
            // Some 5,000 bursts: the mean of exponential times is within 6 % (four standard deviations).
            let (on, off) = occupancy.means();
            for (mean, rate) in [(on, alpha), (off, beta)] {
                let mean = mean.unwrap().as_secs_f64();
                assert!((mean * rate - 1.0).abs() < 0.06, "{alpha}, {beta}: {mean}");
            }
        }
    }

    #[test]
    fn the_start_is_stationary_and_the_end_is_the_duration() {
        let log = generator(&[(1.0, 0.25)], 4000, 2).generate(5).unwrap();
        let on_at = |at| (0..4000).filter(|&user| log.on_until(user, at).is_some()).count() as f64 / 4000.0;
        for millis in [0, 500, 1999] {
            // Binomial with p = 0.2: four standard deviations are 0.025.
            let share = on_at(Instant::from_millis(millis));
            assert!((share - 0.2).abs() < 0.025, "{millis} ms: {share}");
        }
        assert_eq!(log.end(), Instant::from_millis(2000), "a burst that goes on ends with the log");
    }

    #[test]
    fn more_users_leave_what_the_others_do_and_seeds_differ() {
        let few = generator(&[(0.5, 0.5)], 3, 100).generate(7).unwrap();
        let many = generator(&[(0.5, 0.5)], 5, 100).generate(7).unwrap();
        assert_eq!(many.users()[..3], few.users()[..]);
        for user in 0..3 {
            assert!(few.bursts_of(user).eq(many.bursts_of(user)) && few.bursts_of(user).count() > 5);
        }
        assert_eq!(few, generator(&[(0.5, 0.5)], 3, 100).generate(7).unwrap());
        assert_ne!(few, generator(&[(0.5, 0.5)], 3, 100).generate(8).unwrap());
        assert!(
            many.users()
                .iter()
                .all(|user| (0.0..=1000.0).contains(&user.x) && (0.0..=500.0).contains(&user.y))
        );
        assert_eq!(PuLog::parse(few.to_string().as_bytes(), Some(1)), Ok(few));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let good = generator(&[(0.5, 0.5)], 2, 10);
        let given = |places| Generator { places: Places::Given(places), ..good.clone() };
        let placed = given(vec![(1.0, 2.0), (3.0, -4.0)]).generate(1).unwrap();
        assert_eq!(
            placed.users().iter().map(|user| (user.x, user.y)).collect::<Vec<_>>(),
            [(1.0, 2.0), (3.0, -4.0)]
        );
        let nowhere = Places::Random { width: 0.0, height: f64::NAN };
        for (bad, told) in [
            (Generator { bands: Vec::new(), ..good.clone() }, "bands, not 0"),
            (Generator { users_per_band: 0, ..good.clone() }, "PUs, not 0"),
            (Generator { users_per_band: u32::MAX, ..good.clone() }, "PUs, not 4294967295"),
            (given(vec![(1.0, 2.0)]), "1 places for 2 PUs"),
            (given(vec![(1.0, 2.0), (f64::NAN, 0.0)]), "not finite"),
            (Generator { places: nowhere, ..good.clone() }, "not finite"),
            (Generator { power: 0.0, ..good.clone() }, "power of 0 W"),
            (Generator { duration: Duration::ZERO, ..good.clone() }, "more than 0 s"),
            (generator(&[(1e6, 1e6)], 1, 1000), "about 500000000 bursts"),
        ] {
            let error = bad.generate(1).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
