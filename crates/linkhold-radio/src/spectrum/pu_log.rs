//! The PU log: where the primary users are, on which band and with what power, and when each transmits.
//!
//! Source: crahn, section 4.1. `pu_log_read.rs` reads the text, `Display` writes it; the form is
//! described in docs/pu-log.md.
//!
//! A burst is the half-open interval [arrival, departure): at its departure the PU is off. Bursts of one PU
//! may touch and must not overlap; they may stand in the file in any order, since a log that was merged from
//! several sources is sorted by time and one from a generator by PU.
//!
//! The bursts of a band lie in an implicit interval tree (sorted by arrival, with the latest departure of
//! each subtree), so that a look-up takes O(log n) and as long as it has answers. Memory: 36 bytes a burst.

use core::fmt;

use linkhold_core::time::Instant;

use crate::spectrum::bands::Band;
use crate::spectrum::fields::{Malformed, write_seconds};

/// Most bursts in a log: indices stay in 32 bits, and hostile input takes at most some 2 GB.
pub const MAX_BURSTS: usize = 1 << 25;
/// Most primary users in a log.
pub const MAX_USERS: usize = 1 << 24;

/// A primary user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct User {
    /// Its identifier in the file (the paper's i).
    pub id: u32,
    /// Where it is, m east.
    pub x: f64,
    /// Where it is, m north.
    pub y: f64,
    /// The band that it transmits on (the paper's spectrum).
    pub band: Band,
    /// Its transmit power, W (the paper's tpower).
    pub power: f64,
}

/// One ON period of a primary user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Index of the user in the list given beside.
    pub user: u32,
    /// When it starts to transmit.
    pub arrival: Instant,
    /// When it ceases; after the arrival.
    pub departure: Instant,
    /// The line that says so, from 1, for errors; a generator counts its bursts.
    pub line: u32,
}

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PuLogErrorKind {
    /// The line is no entry, or one of its fields is not what it should be.
    Malformed(Malformed),
    /// No PU in it.
    NoUser,
    /// A PU's entry after the first burst.
    UserAfterBurst,
    /// A second PU with this identifier; the line of the first.
    Doubled(u32, u32),
    /// No PU has this identifier.
    UnknownUser(u32),
    /// No such band; so many are there.
    UnknownBand(u16, u16),
    /// The departure is before the arrival, or at it.
    NotAfter,
    /// The burst overlaps another of the same PU: its identifier, and the line of the other.
    Overlap(u32, u32),
    /// More than [`MAX_USERS`] users or [`MAX_BURSTS`] bursts.
    TooLong,
}

/// A log that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct PuLogError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub kind: PuLogErrorKind,
}

impl fmt::Display for PuLogErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => what.fmt(f),
            Self::NoUser => f.write_str("the log has no PU: write <i, x, y, spectrum, tpower> for each"),
            Self::UserAfterBurst => {
                f.write_str("a PU is described after the first burst; all PUs come first")
            }
            Self::Doubled(id, line) => {
                write!(f, "PU {id} is described twice, first in line {line}; an identifier stands for one PU")
            }
            Self::UnknownUser(id) => {
                write!(f, "there is no PU {id}; write <{id}, x, y, spectrum, tpower> above the bursts")
            }
            Self::UnknownBand(band, bands) => {
                write!(f, "there is no band {band}; the bands are 1 to {bands}")
            }
            Self::NotAfter => f.write_str("the departure is not after the arrival"),
            Self::Overlap(id, line) => {
                write!(
                    f,
                    "the burst overlaps that of line {line}; bursts of one PU (here {id}) follow each other"
                )
            }
            Self::TooLong => {
                write!(f, "the log is too long (at most {MAX_USERS} PUs and {MAX_BURSTS} bursts)")
            }
        }
    }
}

/// Primary users and their bursts.
#[derive(Clone, Debug, PartialEq)]
pub struct PuLog {
    /// By identifier.
    users: Box<[User]>,
    /// By user, one more than there are: index of its first burst.
    first: Box<[u32]>,
    /// By user, then by time, ns.
    arrivals: Box<[u64]>,
    departures: Box<[u64]>,
    /// By burst: index of its user.
    owner: Box<[u32]>,
    bands: Box<[BandBursts]>,
}

/// The bursts of one band.
#[derive(Clone, Debug, Default, PartialEq)]
struct BandBursts {
    /// Indices of bursts by arrival: the nodes of the tree. The middle of a range is the root of its subtree.
    by_arrival: Box<[u32]>,
    /// By node: the latest departure in its subtree.
    latest: Box<[u64]>,
    /// Indices of bursts by departure.
    by_departure: Box<[u32]>,
}

impl PuLog {
    /// Makes a log of users, in any order, and their bursts, in any order. `bands` is the number of bands; at
    /// least that of the highest that a user has.
    ///
    /// # Errors
    /// [`PuLogError`] with the smallest line that is wrong, for two users with one identifier (without
    /// lines), a departure that is not after its arrival, a user that is not there, or bursts of one user
    /// that overlap.
    pub fn new(users: Vec<User>, mut bursts: Vec<Burst>, bands: u16) -> Result<Self, PuLogError> {
        let mut order: Vec<u32> = (0..users.len() as u32).collect();
        let user = |index: u32| users.get(index as usize).copied();
        order.sort_by_key(|&index| user(index).map(|user| user.id));
        let mut place = vec![0_u32; users.len()];
        for (to, &from) in (0..).zip(&order) {
            if let Some(place) = place.get_mut(from as usize) {
                *place = to;
            }
        }
        let sorted: Box<[User]> = order.iter().filter_map(|&index| user(index)).collect();
        if let Some(pair) = sorted.windows(2).find(|pair| pair[0].id == pair[1].id) {
            return Err(PuLogError { line: 1, kind: PuLogErrorKind::Doubled(pair[0].id, 1) });
        }
        for burst in &mut bursts {
            let wrong = |kind| PuLogError { line: burst.line, kind };
            if burst.departure <= burst.arrival {
                return Err(wrong(PuLogErrorKind::NotAfter));
            }
            let to = place.get(burst.user as usize).ok_or(wrong(PuLogErrorKind::UnknownUser(burst.user)))?;
            burst.user = *to;
        }
        bursts.sort_unstable_by_key(|burst| (burst.user, burst.arrival, burst.line));
        let overlap = bursts
            .windows(2)
            .filter(|pair| pair[0].user == pair[1].user && pair[1].arrival < pair[0].departure)
            .map(|pair| (pair[0].line.max(pair[1].line), pair[0].line.min(pair[1].line), pair[0].user))
            .min();
        if let Some((line, other, user)) = overlap {
            let id = sorted.get(user as usize).map_or(0, |user| user.id);
            return Err(PuLogError { line, kind: PuLogErrorKind::Overlap(id, other) });
        }
        Ok(Self::indexed(sorted, &bursts, bands))
    }

    /// Builds the indices over users sorted by identifier, and bursts sorted by user and time.
    fn indexed(users: Box<[User]>, bursts: &[Burst], bands: u16) -> Self {
        let owner: Box<[u32]> = bursts.iter().map(|burst| burst.user).collect();
        let first =
            (0..=users.len() as u32).map(|user| owner.partition_point(|&own| own < user) as u32).collect();
        let arrivals: Box<[u64]> = bursts.iter().map(|burst| burst.arrival.as_nanos()).collect();
        let departures: Box<[u64]> = bursts.iter().map(|burst| burst.departure.as_nanos()).collect();
        let highest = users.iter().map(|user| user.band.number()).max().unwrap_or(0).max(bands);
        let mut of_band: Vec<Vec<u32>> = vec![Vec::new(); usize::from(highest)];
        for (index, &user) in (0..).zip(&owner) {
            let band = users.get(user as usize).map(|user| user.band.index());
            if let Some(list) = band.and_then(|band| of_band.get_mut(band)) {
                list.push(index);
            }
        }
        let bands = of_band.into_iter().map(|list| BandBursts::new(list, &arrivals, &departures)).collect();
        Self { users, first, arrivals, departures, owner, bands }
    }

    /// The users, by identifier.
    #[must_use]
    pub fn users(&self) -> &[User] {
        &self.users
    }

    /// Number of bursts of all users.
    #[must_use]
    pub fn bursts(&self) -> usize {
        self.arrivals.len()
    }

    /// Number of bands.
    #[must_use]
    pub fn bands(&self) -> u16 {
        self.bands.len() as u16
    }

    /// When the last burst ends; time 0 if there is none.
    #[must_use]
    pub fn end(&self) -> Instant {
        Instant::from_nanos(self.departures.iter().copied().max().unwrap_or(0))
    }

    /// The bursts of the user at `index` of [`users`](Self::users), in order: arrival and departure.
    pub fn bursts_of(&self, index: usize) -> impl Iterator<Item = (Instant, Instant)> + '_ {
        let bound = |index: usize| self.first.get(index).map_or(0, |&first| first as usize);
        let range = bound(index)..bound(index + 1).max(bound(index));
        let (arrivals, departures) = (self.arrivals.get(range.clone()), self.departures.get(range));
        let pairs = arrivals.unwrap_or(&[]).iter().zip(departures.unwrap_or(&[]));
        pairs.map(|(&arrival, &departure)| (Instant::from_nanos(arrival), Instant::from_nanos(departure)))
    }

    /// When the user at `index` ceases, if it transmits at `at`. O(log n).
    #[must_use]
    pub fn on_until(&self, index: usize, at: Instant) -> Option<Instant> {
        let (arrival, departure) = self.burst_after(index, at)?;
        (arrival <= at.as_nanos()).then(|| Instant::from_nanos(departure))
    }

    /// Whether the user at `index` transmits at some time in [`from`, `to`); the moment `from` if `to` is not
    /// after it. O(log n): with many users, ask those that are near enough to be heard, and not
    /// [`any_on`](Self::any_on).
    #[must_use]
    pub fn is_on_within(&self, index: usize, from: Instant, to: Instant) -> bool {
        self.burst_after(index, from)
            .is_some_and(|(arrival, _)| arrival < to.as_nanos().max(from.as_nanos().saturating_add(1)))
    }

    /// When next after `after` the user at `index` starts or ceases to transmit. O(log n).
    #[must_use]
    pub fn next_change_of(&self, index: usize, after: Instant) -> Option<Instant> {
        let (arrival, departure) = self.burst_after(index, after)?;
        Some(Instant::from_nanos(if arrival > after.as_nanos() { arrival } else { departure }))
    }

    /// The first burst of the user at `index` that is not over at `at`: arrival and departure.
    fn burst_after(&self, index: usize, at: Instant) -> Option<(u64, u64)> {
        let (from, to) = (*self.first.get(index)? as usize, *self.first.get(index + 1)? as usize);
        let departures = self.departures.get(from..to)?;
        let burst = departures.partition_point(|&departure| departure <= at.as_nanos());
        Some((*self.arrivals.get(from + burst)?, *departures.get(burst)?))
    }

    /// Whether any user of `band` that `heard` accepts transmits at some time in [`from`, `to`). If `to` is
    /// not after `from`, that is the moment `from`. Each burst in that time is asked for once, until one is
    /// heard, so a user with several bursts is asked for several times.
    ///
    /// This is the look-up of crahn, section 4.3: condition 1 is the band and the time, condition 2 is
    /// `heard`.
    pub fn any_on(
        &self,
        band: Band,
        from: Instant,
        to: Instant,
        mut heard: impl FnMut(&User) -> bool,
    ) -> bool {
        self.visit(band, from, to, &mut |burst| self.user_of(burst).is_some_and(&mut heard))
    }

    /// Calls `found` for each burst on `band` in [`from`, `to`) by arrival: index of its user, arrival,
    /// departure.
    pub fn for_each_on(
        &self,
        band: Band,
        from: Instant,
        to: Instant,
        mut found: impl FnMut(usize, Instant, Instant),
    ) {
        self.visit(band, from, to, &mut |burst| {
            let index = burst as usize;
            if let (Some(&user), Some(&arrival), Some(&departure)) =
                (self.owner.get(index), self.arrivals.get(index), self.departures.get(index))
            {
                found(user as usize, Instant::from_nanos(arrival), Instant::from_nanos(departure));
            }
            false
        });
    }

    /// When next after `after` a user of `band` starts or ceases to transmit. O(log n).
    #[must_use]
    pub fn next_change(&self, band: Band, after: Instant) -> Option<Instant> {
        let bursts = self.bands.get(band.index())?;
        let next = |order: &[u32], times: &[u64]| {
            let time = |burst: &u32| times.get(*burst as usize).copied().unwrap_or(0);
            order.get(order.partition_point(|burst| time(burst) <= after.as_nanos())).map(time)
        };
        let arrival = next(&bursts.by_arrival, &self.arrivals);
        let departure = next(&bursts.by_departure, &self.departures);
        arrival.into_iter().chain(departure).min().map(Instant::from_nanos)
    }

    /// The bursts of `band` by arrival, as `for_each_on` over all time, without the tree.
    pub(crate) fn by_arrival(&self, band: Band) -> impl Iterator<Item = (&User, u64, u64)> {
        let bursts = self.bands.get(band.index()).map_or(&[][..], |bursts| &bursts.by_arrival);
        bursts.iter().filter_map(|&burst| {
            let index = burst as usize;
            Some((self.user_of(burst)?, *self.arrivals.get(index)?, *self.departures.get(index)?))
        })
    }

    fn user_of(&self, burst: u32) -> Option<&User> {
        self.users.get(*self.owner.get(burst as usize)? as usize)
    }

    /// Calls `found` for the bursts of `band` in [`from`, `to`) by arrival, until it says true.
    fn visit(&self, band: Band, from: Instant, to: Instant, found: &mut impl FnMut(u32) -> bool) -> bool {
        let Some(bursts) = self.bands.get(band.index()) else { return false };
        let from = from.as_nanos();
        let to = to.as_nanos().max(from.saturating_add(1));
        let times = Times { arrivals: &self.arrivals, departures: &self.departures };
        bursts.visit(0..bursts.by_arrival.len(), from, to, times, found)
    }
}

#[derive(Clone, Copy)]
struct Times<'a> {
    arrivals: &'a [u64],
    departures: &'a [u64],
}

impl BandBursts {
    fn new(mut list: Vec<u32>, arrivals: &[u64], departures: &[u64]) -> Self {
        let time = |times: &[u64], burst: u32| times.get(burst as usize).copied().unwrap_or(0);
        list.sort_unstable_by_key(|&burst| (time(departures, burst), burst));
        let by_departure = list.clone().into_boxed_slice();
        list.sort_unstable_by_key(|&burst| (time(arrivals, burst), burst));
        let mut latest: Box<[u64]> = list.iter().map(|&burst| time(departures, burst)).collect();
        raise(&mut latest);
        Self { by_arrival: list.into_boxed_slice(), latest, by_departure }
    }

    fn visit(
        &self,
        range: core::ops::Range<usize>,
        from: u64,
        to: u64,
        times: Times<'_>,
        found: &mut impl FnMut(u32) -> bool,
    ) -> bool {
        let mut range = range;
        // The left subtree by recursion, 25 deep at most; the right one by the loop.
        while !range.is_empty() {
            let middle = range.start + range.len() / 2;
            let (Some(&latest), Some(&burst)) = (self.latest.get(middle), self.by_arrival.get(middle)) else {
                return false;
            };
            if latest <= from {
                return false;
            }
            if self.visit(range.start..middle, from, to, times, found) {
                return true;
            }
            let (Some(&arrival), Some(&departure)) =
                (times.arrivals.get(burst as usize), times.departures.get(burst as usize))
            else {
                return false;
            };
            if arrival >= to {
                return false;
            }
            if departure > from && found(burst) {
                return true;
            }
            range.start = middle + 1;
        }
        false
    }
}

/// Raises each node's departure to the latest of its subtree, and returns that of the whole.
fn raise(latest: &mut [u64]) -> u64 {
    let middle = latest.len() / 2;
    let (left, rest) = latest.split_at_mut(middle);
    let Some((node, right)) = rest.split_first_mut() else { return 0 };
    // An empty half ends the recursion, which is 25 deep at most.
    let left = if left.is_empty() { 0 } else { raise(left) };
    let right = if right.is_empty() { 0 } else { raise(right) };
    *node = (*node).max(left).max(right);
    *node
}

/// The file: users by identifier, then the bursts by user and time.
impl fmt::Display for PuLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# PU log: <i, x, y, spectrum, tpower> in m and W, then <i, arrival, departure> in s")?;
        for user in &self.users {
            let User { id, x, y, band, power } = user;
            writeln!(f, "<{id}, {x}, {y}, {}, {power}>", band.number())?;
        }
        for ((&arrival, &departure), &owner) in self.arrivals.iter().zip(&self.departures).zip(&self.owner) {
            let id = self.users.get(owner as usize).map_or(0, |user| user.id);
            write!(f, "<{id}, ")?;
            write_seconds(f, arrival)?;
            f.write_str(", ")?;
            write_seconds(f, departure)?;
            f.write_str(">\n")?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "pu_log_tests.rs"]
mod tests;
