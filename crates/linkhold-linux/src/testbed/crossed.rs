//! How data crossed the air: what silences mean to it ends there, and a wire may be longer than they are
//! apart.

use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_sim::silence_tracker::SilenceTracker;

/// How a packet crossed the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crossed {
    /// When it left the air.
    pub at: Instant,
    /// A silence of its station went on at some time before, since it was sent.
    pub met_silence: bool,
}

impl Crossed {
    /// As of what leaves the air when it arrives, like all that goes down; `sent`: when it was sent, if that
    /// is known.
    #[must_use]
    pub fn on_arrival(
        now: Instant,
        sent: Option<Instant>,
        station: StationId,
        silences: &SilenceTracker,
    ) -> Self {
        Self { at: now, met_silence: sent.is_some_and(|sent| silences.met_since(station, sent)) }
    }
}

/// When the datagrams of a flow that go up arrived, and when each had crossed the air.
#[derive(Clone, Debug, Default)]
pub struct Crossings {
    /// In the order of arrival.
    known: Vec<(Instant, Instant)>,
    most: usize,
}

impl Crossings {
    /// None yet, and room for `most`.
    #[must_use]
    pub fn with_room(most: usize) -> Self {
        // All of it now: a vector that grows would make the air late.
        Self { known: Vec::with_capacity(most), most }
    }

    /// A datagram that had crossed at `crossed` arrives.
    pub fn add(&mut self, now: Instant, crossed: Instant) {
        if self.known.len() < self.most {
            self.known.push((now, crossed));
        }
    }

    /// When the last datagram that had arrived at `at` had crossed the air. `at` where that is not known:
    /// what goes down arrives as it crosses.
    #[must_use]
    pub fn by(&self, at: Instant) -> Instant {
        let arrived = self.known.partition_point(|(arrived, _)| *arrived <= at);
        // The last one that there was room for says nothing of what came later.
        let is_known = arrived < self.known.len() || arrived < self.most;
        let last = arrived.checked_sub(1).and_then(|last| self.known.get(last));
        last.filter(|_| is_known).map_or(at, |(_, crossed)| *crossed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crossing_is_that_of_the_last_datagram_as_long_as_there_is_room() {
        let ms = Instant::from_millis;
        assert_eq!(Crossings::default().by(ms(7)), ms(7), "what goes down");
        let mut crossings = Crossings::with_room(3);
        for (arrived, crossed) in [(42, 2), (120, 40)] {
            crossings.add(ms(arrived), ms(crossed));
        }
        let by =
            |crossings: &Crossings, at: [u64; 4]| at.map(|at| crossings.by(ms(at)).as_nanos() / 1_000_000);
        assert_eq!(by(&crossings, [41, 42, 119, 500]), [41, 2, 2, 40]);
        for (arrived, crossed) in [(183, 103), (190, 110)] {
            crossings.add(ms(arrived), ms(crossed));
        }
        assert_eq!(by(&crossings, [42, 182, 183, 500]), [2, 40, 183, 500], "no room for the fourth");
    }
}
