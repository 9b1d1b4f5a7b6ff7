//! The freezes of one scope (the network, or one station): which causes are silent now, and since when.
//!
//! Source: `dsasync` section IV-A parameters 8 to 11, and TFP of Algorithms 1 and 2.
//!
//! One freeze: announced → active → over, or active → over; announced → over when withdrawn. Of each cause
//! one freeze is active at most, and [`MOST_AHEAD`] are announced, the active one's successors among them: a
//! radio may announce the next silence while one lasts. One that begins while another of its cause still
//! lasts goes on with that one.

use crate::link_event::Cause;
use crate::time::{Duration, Instant};

use super::history::{History, Interval};

/// How the scope's own silence changed with one call.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SilenceChange {
    None,
    Began,
    Ended,
}

/// A transition that was carried out because its time had come.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) cause: Cause,
    pub(crate) change: SilenceChange,
    /// A freeze that was announced began, if only to go on with the one before.
    pub(crate) begun: bool,
    /// A freeze ended that nobody had ended.
    pub(crate) overdue: bool,
}

/// Most freezes of one cause that are announced at once. A further one takes the place of the last.
pub const MOST_AHEAD: usize = 4;

/// True if two freezes of one cause, each as its start and its end as far as that is known, are one that was
/// told twice: the later begins before the earlier is over. One whose length is not known cannot be followed
/// by another.
#[must_use]
pub fn is_told_twice(one: (Instant, Option<Instant>), other: (Instant, Option<Instant>)) -> bool {
    let ((_, end), (later, _)) = if other.0 < one.0 { (other, one) } else { (one, other) };
    end.is_none_or(|end| later <= end)
}

/// A freeze announced for later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Announced {
    pub(crate) start: Instant,
    pub(crate) expected: Option<Duration>,
    /// Set if its end was announced too.
    pub(crate) end: Option<Instant>,
}

impl Announced {
    fn expected_end(&self) -> Option<Instant> {
        self.end.or(self.expected.map(|length| self.start + length))
    }

    fn is_same(&self, other: &Self) -> bool {
        is_told_twice((self.start, self.expected_end()), (other.start, other.expected_end()))
    }
}

/// A freeze that lasts. `ends_at` is the announced end, or else the time at which the freeze is given up
/// (`overdue`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Active {
    start: Instant,
    expected_end: Option<Instant>,
    ends_at: Instant,
    overdue: bool,
}

/// The freezes of one cause.
#[derive(Debug, Default)]
struct Freeze {
    active: Option<Active>,
    /// By start.
    ahead: Vec<Announced>,
}

impl Freeze {
    fn announce(&mut self, told: Announced) {
        match self.ahead.iter_mut().find(|announced| announced.is_same(&told)) {
            Some(announced) => *announced = told,
            None => {
                self.ahead.truncate(MOST_AHEAD - 1);
                self.ahead.push(told);
            }
        }
        self.ahead.sort_unstable_by_key(|announced| announced.start);
    }

    /// Takes out the first announced freeze, if it starts by then.
    fn take_first(&mut self, by: Instant) -> Option<Announced> {
        self.ahead.first().is_some_and(|first| first.start <= by).then(|| self.ahead.remove(0))
    }

    fn due(&self) -> Option<Instant> {
        let start = self.ahead.first().map(|first| first.start);
        let end = self.active.map(|active| active.ends_at);
        start.into_iter().chain(end).min()
    }
}

/// All freezes of one scope, with their history.
#[derive(Debug)]
pub(crate) struct FreezeSet {
    freezes: [Freeze; Cause::ALL.len()],
    /// A bit for each cause whose freeze is active.
    active: u8,
    /// Start of the present silence, if `active`; and the latest end among causes that ended during it.
    open_since: Instant,
    open_ended: Instant,
    silences: History,
    causes: [History; Cause::ALL.len()],
    max_silence: Duration,
    next_timeout: Option<Instant>,
}

impl FreezeSet {
    pub(crate) fn new(history_limit: usize, max_silence: Duration) -> Self {
        Self {
            freezes: Default::default(),
            active: 0,
            open_since: Instant::ZERO,
            open_ended: Instant::ZERO,
            silences: History::new(history_limit),
            causes: core::array::from_fn(|_| History::new(history_limit)),
            max_silence,
            next_timeout: None,
        }
    }

    pub(crate) const fn is_silent(&self) -> bool {
        self.active != 0
    }

    pub(crate) const fn is_active(&self, cause: Cause) -> bool {
        self.active & (1 << cause as u8) != 0
    }

    /// The freezes of `cause` that are announced, by start.
    pub(crate) fn ahead(&self, cause: Cause) -> &[Announced] {
        &self.freezes[cause as usize].ahead
    }

    /// When the freeze of `cause` that lasts is to end, as far as somebody told it.
    pub(crate) fn told_end(&self, cause: Cause) -> Option<Instant> {
        self.freezes[cause as usize].active?.expected_end
    }

    pub(crate) const fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    /// A freeze of `cause` was reported at `now` to start on the air at `at`.
    pub(crate) fn start(
        &mut self,
        now: Instant,
        cause: Cause,
        at: Instant,
        expected: Option<Duration>,
    ) -> SilenceChange {
        let told = Announced { start: at, expected, end: None };
        let freeze = &mut self.freezes[cause as usize];
        let change = if at > now {
            freeze.announce(told);
            SilenceChange::None
        } else {
            // It may be one that was announced for a little later.
            if freeze.active.is_none() && expected.is_some() {
                freeze.ahead.retain(|announced| !announced.is_same(&told));
            }
            self.activate(now, cause, told)
        };
        self.find_next_timeout();
        change
    }

    /// A freeze of `cause` was reported at `now` to end on the air at `at`.
    pub(crate) fn end(&mut self, now: Instant, cause: Cause, at: Instant) -> SilenceChange {
        let change = if at > now {
            self.announce_end(cause, at);
            SilenceChange::None
        } else {
            if self.is_active(cause) {
                // What began before that end goes on with the active one, and so ends with it.
                while let Some(next) = self.freezes[cause as usize].take_first(at) {
                    let _ = self.activate(now, cause, next);
                }
                self.deactivate(now, cause, at)
            } else {
                // One that comes late is of a silence that is over already: it calls off none that follows. One
                // that is told as it happens is not late, also right after another.
                if at == now || at > self.causes[cause as usize].last_end() {
                    self.withdraw(cause, at);
                }
                SilenceChange::None
            }
        };
        self.find_next_timeout();
        change
    }

    /// The end that is announced is that of the last freeze which begins before it. One before any freeze
    /// begins calls the first off.
    fn announce_end(&mut self, cause: Cause, at: Instant) {
        let Freeze { active, ahead } = &mut self.freezes[cause as usize];
        if let Some(announced) = ahead.iter_mut().rfind(|announced| announced.start < at) {
            announced.end = Some(at);
        } else if let Some(Active { ends_at, overdue, expected_end, .. }) = active {
            // An end announced beyond the limit stays bounded by the limit.
            if at < *ends_at {
                *ends_at = at;
                *overdue = false;
            }
            *expected_end = Some(at);
        } else if !ahead.is_empty() {
            ahead.remove(0);
        }
    }

    /// The first freeze announced is over before it was acted upon; the silence was real if its start has
    /// passed.
    fn withdraw(&mut self, cause: Cause, at: Instant) {
        let Some(Announced { start, .. }) = self.freezes[cause as usize].take_first(Instant::FAR_FUTURE)
        else {
            return;
        };
        let silence = Interval { start, end: at };
        self.causes[cause as usize].push(silence);
        if self.active == 0 {
            self.silences.push(silence);
        }
    }

    /// Carries out the first transition due by `now`.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Option<Due> {
        let due = self.next_timeout.filter(|at| *at <= now)?;
        let cause = Cause::ALL.into_iter().find(|cause| self.freezes[*cause as usize].due() == Some(due))?;
        // Of a start and an end at one time the start comes first: in between nobody may send.
        let result = match self.freezes[cause as usize].take_first(due) {
            Some(announced) => {
                Due { cause, change: self.activate(now, cause, announced), begun: true, overdue: false }
            }
            None => {
                let overdue = self.freezes[cause as usize].active.is_some_and(|active| active.overdue);
                let change = self.deactivate(now, cause, due);
                Due { cause, change, begun: self.is_active(cause), overdue }
            }
        };
        self.find_next_timeout();
        Some(result)
    }

    /// A freeze begins, or goes on: a repeated start only refreshes what is expected (the contract of
    /// `FreezeStarted`). Its source is alive, so the limit starts anew.
    fn activate(&mut self, now: Instant, cause: Cause, begun: Announced) -> SilenceChange {
        let limit = now + self.max_silence;
        let active = &mut self.freezes[cause as usize].active;
        let goes_on = active.map(|active| active.start);
        let start = goes_on.unwrap_or_else(|| begun.start.max(self.causes[cause as usize].last_end()));
        *active = Some(Active {
            start,
            expected_end: begun.expected_end(),
            ends_at: begun.end.map_or(limit, |end| end.min(limit)),
            overdue: begun.end.is_none_or(|end| end > limit),
        });
        if goes_on.is_some() {
            return SilenceChange::None;
        }
        let began = self.active == 0;
        self.active |= 1 << cause as u8;
        let start = start.max(self.silences.last_end());
        if began {
            self.open_since = start;
            self.open_ended = start;
            SilenceChange::Began
        } else {
            self.open_since = self.open_since.min(start);
            SilenceChange::None
        }
    }

    /// The active freeze ended at `at`. If the next one has begun by now, the scope stays silent.
    fn deactivate(&mut self, now: Instant, cause: Cause, at: Instant) -> SilenceChange {
        let freeze = &mut self.freezes[cause as usize];
        let Some(Active { start, .. }) = freeze.active.take() else { return SilenceChange::None };
        self.causes[cause as usize].push(Interval { start, end: at });
        self.open_ended = self.open_ended.max(at);
        if let Some(next) = freeze.take_first(now) {
            // The cause's bit is still set, so that nothing seems to begin.
            let _ = self.activate(now, cause, next);
            return SilenceChange::None;
        }
        self.active &= !(1 << cause as u8);
        if self.active != 0 {
            return SilenceChange::None;
        }
        self.silences.push(Interval { start: self.open_since, end: self.open_ended });
        SilenceChange::Ended
    }

    fn find_next_timeout(&mut self) {
        self.next_timeout = self.freezes.iter().filter_map(Freeze::due).min();
    }

    /// The latest expected end among the active causes. Where the source did not tell it, the mean length of
    /// the cause's past freezes stands in; none if that is unknown too.
    pub(crate) fn expected_end(&self) -> Option<Instant> {
        let mut latest = None;
        for cause in Cause::ALL {
            if let Some(Active { start, expected_end, .. }) = self.freezes[cause as usize].active {
                let end = match expected_end {
                    Some(end) => end,
                    None => start + self.mean_recent(cause)?,
                };
                latest = latest.max(Some(end));
            }
        }
        latest
    }

    /// Mean length of the cause's last few freezes, however long ago.
    pub(crate) fn mean_recent(&self, cause: Cause) -> Option<Duration> {
        const RECENT: usize = 16;
        let (mut nanos, mut count) = (0u64, 0u64);
        for interval in self.causes[cause as usize].newest_first().take(RECENT) {
            nanos = nanos.saturating_add(interval.len().as_nanos());
            count += 1;
        }
        nanos.checked_div(count).map(Duration::from_nanos)
    }

    /// The first freeze announced to start after `now`, with its length (zero if not told).
    pub(crate) fn next_announced(&self, now: Instant) -> Option<(Instant, Duration)> {
        let ahead = self.freezes.iter().flat_map(|freeze| &freeze.ahead);
        let announced = ahead.filter(|announced| announced.start > now).map(|announced| {
            let end = announced.expected_end().unwrap_or(announced.start);
            (announced.start, end.since(announced.start))
        });
        announced.min()
    }

    /// Silences in `window`, sorted and disjoint, the present one included.
    pub(crate) fn silences_within(&self, window: Interval) -> impl Iterator<Item = Interval> + '_ {
        let open = Interval { start: self.open_since, end: window.end };
        self.silences.within(window).chain(clip_open(self.is_silent(), open, window))
    }

    /// Before this the memory of silences has gaps.
    pub(crate) fn complete_from(&self) -> Instant {
        self.silences.complete_from()
    }

    /// Past freezes of one cause.
    pub(crate) fn history(&self, cause: Cause) -> &History {
        &self.causes[cause as usize]
    }

    /// Freezes of `cause` in `window`: how many began in it, and how much of it they cover.
    pub(crate) fn activity(&self, cause: Cause, window: Interval) -> (u32, Duration) {
        let present = self.freezes[cause as usize].active;
        let present = present.map(|active| Interval { start: active.start, end: window.end });
        let (mut began, mut time) = (0, Duration::ZERO);
        let open = present.filter(|open| open.start < window.end);
        for interval in self.causes[cause as usize].uncut_within(window).chain(open) {
            began += u32::from(interval.start >= window.start);
            time += interval.end.min(window.end).since(interval.start.max(window.start));
        }
        (began, time)
    }
}

fn clip_open(is_open: bool, open: Interval, window: Interval) -> Option<Interval> {
    (is_open && open.start < window.end)
        .then_some(Interval { start: open.start.max(window.start), end: window.end })
}
