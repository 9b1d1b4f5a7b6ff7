//! At most so many events in any second (`RREQ_RATELIMIT`, `RERR_RATELIMIT` of RFC 3561, section 10; SEARCH
//! keeps to them too).

use linkhold_core::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// When the last events may be followed by another: a ring, the oldest at `oldest`.
    free: Box<[Instant]>,
    oldest: usize,
}

impl Rate {
    /// At most `limit` in a second, at least one.
    pub fn new(limit: u8) -> Self {
        Self { free: vec![Instant::ZERO; usize::from(limit.max(1))].into(), oldest: 0 }
    }

    /// Counts an event if it may happen now; otherwise says when it may.
    pub fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let slot = &mut self.free[self.oldest];
        if *slot > now {
            return Err(*slot);
        }
        *slot = now + SECOND;
        self.oldest = (self.oldest + 1) % self.free.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_than_the_limit() {
        let mut rate = Rate::new(2);
        let at = Instant::from_millis;
        assert_eq!(rate.take(at(0)), Ok(()));
        assert_eq!(rate.take(at(900)), Ok(()));
        assert_eq!(rate.take(at(950)), Err(at(1000)));
        assert_eq!(rate.take(at(1000)), Ok(()));
        assert_eq!(rate.take(at(1001)), Err(at(1900)));
    }
}
