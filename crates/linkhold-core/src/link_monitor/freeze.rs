//! The freezes of one scope (the network, or one station): which causes are silent now, and since when.
//!
//! Source: `dsasync` section IV-A parameters 8 to 11, and TFP of Algorithms 1 and 2.
//!
//! One freeze: `Idle → Announced → Active → Idle`, or `Idle → Active → Idle`; `Announced → Idle` when
//! withdrawn.

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

/// The freeze of one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Freeze {
    Idle,
    /// Announced for later; `end` is set if its end was announced too.
    Announced {
        start: Instant,
        expected: Option<Duration>,
        end: Option<Instant>,
    },
    /// `ends_at` is the announced end, or else the time at which the freeze is given up (`overdue`).
    Active {
        start: Instant,
        expected_end: Option<Instant>,
        ends_at: Instant,
        overdue: bool,
    },
}

/// All freezes of one scope, with their history.
#[derive(Debug)]
pub(crate) struct FreezeSet {
    freezes: [Freeze; Cause::ALL.len()],
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
            freezes: [Freeze::Idle; Cause::ALL.len()],
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
        let change = match self.freezes[cause as usize] {
            Freeze::Idle | Freeze::Announced { .. } if at > now => {
                self.freezes[cause as usize] = Freeze::Announced { start: at, expected, end: None };
                SilenceChange::None
            }
            Freeze::Idle | Freeze::Announced { .. } => self.activate(now, cause, at, expected, None),
            // A repeated start only refreshes what is expected (the contract of `FreezeStarted`): the source
            // is alive, so the limit starts anew.
            Freeze::Active { start, .. } => {
                self.freezes[cause as usize] = Freeze::Active {
                    start,
                    expected_end: expected.map(|length| at + length),
                    ends_at: now + self.max_silence,
                    overdue: true,
                };
                SilenceChange::None
            }
        };
        self.find_next_timeout();
        change
    }

    /// A freeze of `cause` was reported at `now` to end on the air at `at`.
    pub(crate) fn end(&mut self, now: Instant, cause: Cause, at: Instant) -> SilenceChange {
        let change = match &mut self.freezes[cause as usize] {
            Freeze::Idle => SilenceChange::None,
            Freeze::Announced { end, .. } if at > now => {
                *end = Some(at);
                SilenceChange::None
            }
            Freeze::Announced { start, .. } => {
                // Over before it was acted upon; the silence was real if its start has passed.
                let silence = Interval { start: *start, end: at };
                self.freezes[cause as usize] = Freeze::Idle;
                self.causes[cause as usize].push(silence);
                if self.active == 0 {
                    self.silences.push(silence);
                }
                SilenceChange::None
            }
            Freeze::Active { ends_at, overdue, expected_end, .. } if at > now => {
                // An end announced beyond the limit stays bounded by the limit.
                if at < *ends_at {
                    *ends_at = at;
                    *overdue = false;
                }
                *expected_end = Some(at);
                SilenceChange::None
            }
            Freeze::Active { .. } => self.deactivate(cause, at),
        };
        self.find_next_timeout();
        change
    }

    /// Carries out the first transition due by `now`: what changed, and whether it was an overdue end.
    pub(crate) fn on_timeout(&mut self, now: Instant) -> Option<(SilenceChange, bool)> {
        let due = self.next_timeout.filter(|at| *at <= now)?;
        let cause = Cause::ALL.into_iter().find(|cause| self.due(*cause) == Some(due))?;
        let result = match self.freezes[cause as usize] {
            Freeze::Idle => (SilenceChange::None, false),
            Freeze::Announced { start, expected, end } => {
                (self.activate(now, cause, start, expected, end), false)
            }
            Freeze::Active { ends_at, overdue, .. } => (self.deactivate(cause, ends_at), overdue),
        };
        self.find_next_timeout();
        Some(result)
    }

    fn activate(
        &mut self,
        now: Instant,
        cause: Cause,
        at: Instant,
        expected: Option<Duration>,
        end: Option<Instant>,
    ) -> SilenceChange {
        let start = at.max(self.causes[cause as usize].last_end());
        let limit = now + self.max_silence;
        self.freezes[cause as usize] = Freeze::Active {
            start,
            expected_end: end.or(expected.map(|length| at + length)),
            ends_at: end.map_or(limit, |end| end.min(limit)),
            overdue: end.is_none_or(|end| end > limit),
        };
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

    fn deactivate(&mut self, cause: Cause, at: Instant) -> SilenceChange {
        let Freeze::Active { start, .. } = self.freezes[cause as usize] else { return SilenceChange::None };
        self.freezes[cause as usize] = Freeze::Idle;
        self.causes[cause as usize].push(Interval { start, end: at });
        self.active &= !(1 << cause as u8);
        self.open_ended = self.open_ended.max(at);
        if self.active != 0 {
            return SilenceChange::None;
        }
        self.silences.push(Interval { start: self.open_since, end: self.open_ended });
        SilenceChange::Ended
    }

    fn due(&self, cause: Cause) -> Option<Instant> {
        match self.freezes[cause as usize] {
            Freeze::Idle => None,
            Freeze::Announced { start, .. } => Some(start),
            Freeze::Active { ends_at, .. } => Some(ends_at),
        }
    }

    fn find_next_timeout(&mut self) {
        self.next_timeout = Cause::ALL.into_iter().filter_map(|cause| self.due(cause)).min();
    }

    /// The latest expected end among the active causes. Where the source did not tell it, the mean length of
    /// the cause's past freezes stands in; none if that is unknown too.
    pub(crate) fn expected_end(&self) -> Option<Instant> {
        let mut latest = None;
        for cause in Cause::ALL {
            if let Freeze::Active { start, expected_end, .. } = self.freezes[cause as usize] {
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
        let announced = self.freezes.iter().filter_map(|freeze| match *freeze {
            Freeze::Announced { start, expected, end } if start > now => {
                let told = end.map(|end| end.since(start)).or(expected);
                Some((start, told.unwrap_or(Duration::ZERO)))
            }
            Freeze::Announced { .. } | Freeze::Idle | Freeze::Active { .. } => None,
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
        let present = match self.freezes[cause as usize] {
            Freeze::Active { start, .. } => Some(Interval { start, end: window.end }),
            Freeze::Idle | Freeze::Announced { .. } => None,
        };
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
