//! Silences under way: the agent ends those that say how long they last, and those that nobody ends.
//!
//! The mechanism itself follows freezes by scope and cause; this table only knows when each must be over.
//!
//! Of one scope and cause, one silence is under way at most, and others may be announced for later. What is
//! one silence told twice, and what are two, is decided as the link monitor decides it
//! ([`is_told_twice`]): announcements that overlap are one silence, and a silence
//! that begins while another still lasts takes that one's place.

use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::link_monitor::{MOST_AHEAD, is_told_twice};
use linkhold_core::time::{Duration, Instant};

/// So late an end may come for a silence that the agent ended by the clock, although its source has announced
/// another one since.
const LATE_END: Duration = Duration::from_secs(1);
/// Most silences under way and announced at once: more are refused.
const MAX_ACTIVE: usize = 1024;
/// Most times noted at which the mechanism hears again how a scope is: the later ones are left out.
const MAX_CHECKS: usize = 4 * MAX_ACTIVE;

/// One silence, under way or announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Active {
    scope: Scope,
    cause: Cause,
    /// When it takes or took effect.
    from: Instant,
    /// When its source thinks that it will be over.
    expected_end: Option<Instant>,
    /// When the agent ends the silence. `asked_for` tells whether its source asked for that end.
    until: Instant,
    asked_for: bool,
    /// When it was last told of.
    told: Instant,
}

impl Active {
    fn is_of(&self, scope: Scope, cause: Cause) -> bool {
        self.scope == scope && self.cause == cause
    }

    fn is_same(&self, other: &Self) -> bool {
        is_told_twice((self.from, self.expected_end), (other.from, other.expected_end))
    }
}

/// What became of silences. `begun` is the sum of the others and of what is in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SilenceCounts {
    /// Begun or announced, each cause and scope by itself. One that is told again is the same one.
    pub begun: u64,
    /// Ended by an event.
    pub ended: u64,
    /// Ended by the agent at the time that its source asked for, or gone on as the next one, which was
    /// announced.
    pub timed: u64,
    /// Ended by the agent because nobody else did.
    pub overdue: u64,
}

/// What an end ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// A silence that was under way.
    UnderWay,
    /// The first one that was announced: it is called off.
    Announced,
    /// None: the agent had ended that silence by the clock already. Another one that is announced is not
    /// called off by an end that comes late.
    Before,
    /// None: there is no such silence.
    Nothing,
    /// None yet: the end is noted for later, if it is before the planned one.
    Later,
}

/// What is known of a silence's end when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Its source asks the agent to end it after this time.
    ByClock(Duration),
    /// Its source says when it is over; if it has not after this time, it has failed to.
    AtMost(Duration),
    /// Its source says when it is over.
    BySource,
}

impl From<Option<Duration>> for Ends {
    fn from(asked: Option<Duration>) -> Self {
        asked.map_or(Self::BySource, Self::ByClock)
    }
}

/// The table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_ACTIVE} silences are under way already")]
pub struct TooManySilences;

/// Silences under way and announced.
#[derive(Debug)]
pub struct SilenceTable {
    /// Those of one scope and cause are sorted by `from`.
    active: Vec<Active>,
    /// Those that the agent ended by the clock, and no event since: their source may still say that they are
    /// over. Nothing of a source that knows what it ends.
    by_clock: Option<Vec<(Scope, Cause, Instant)>>,
    max: Duration,
    counts: SilenceCounts,
}

impl SilenceTable {
    /// A table without silences. A silence that nobody ends is over after `max`. Its source knows which of
    /// its silences it ends.
    #[must_use]
    pub fn new(max: Duration) -> Self {
        Self { active: Vec::new(), by_clock: None, max, counts: SilenceCounts::default() }
    }

    /// The same for a source that may end a silence which is over by the clock already, unaware of that.
    #[must_use]
    pub fn with_late_ends(max: Duration) -> Self {
        Self { by_clock: Some(Vec::new()), ..Self::new(max) }
    }

    /// A silence begins at `from`, or its source says so again, and how it `ends`; `expected` is what the
    /// mechanism is told of its length.
    ///
    /// Answers when the agent ends it.
    ///
    /// # Errors
    /// [`TooManySilences`].
    pub fn begin(
        &mut self,
        now: Instant,
        scope: Scope,
        cause: Cause,
        from: Instant,
        ends: impl Into<Ends>,
        expected: Option<Duration>,
    ) -> Result<Instant, TooManySilences> {
        let (lasting, asked_for) = match ends.into() {
            Ends::ByClock(lasting) if lasting <= self.max => (lasting, true),
            Ends::AtMost(lasting) => (lasting.min(self.max), false),
            Ends::ByClock(_) | Ends::BySource => (self.max, false),
        };
        let until = from + lasting;
        let expected_end = expected.map(|length| from + length);
        let told = Active { scope, cause, from, expected_end, until, asked_for, told: now };
        self.take_over(scope, cause, now);
        let begun = |active: &Active| active.is_of(scope, cause) && active.from <= now;
        let ahead = |active: &Active| active.is_of(scope, cause) && active.from > now;
        let again = if from > now {
            let full = self.active.iter().filter(|active| ahead(active)).count() >= MOST_AHEAD;
            let same = self.active.iter().position(|active| ahead(active) && active.is_same(&told));
            same.or_else(|| self.active.iter().rposition(ahead).filter(|_| full))
        } else {
            let same = |active: &Active| ahead(active) && expected_end.is_some() && active.is_same(&told);
            let lasts = self.active.iter().position(begun);
            if lasts.is_none() {
                // All that overlap it are one with it.
                let mut others = 0;
                self.active.retain(|active| {
                    others += u64::from(same(active));
                    !same(active) || others == 1
                });
                self.counts.timed += others.saturating_sub(1);
            }
            lasts.or_else(|| self.active.iter().position(same))
        };
        match again {
            Some(index) => {
                let active = &mut self.active[index];
                let from = if active.from <= now { active.from.min(from) } else { from };
                *active = Active { from, ..told };
            }
            None if self.active.len() >= MAX_ACTIVE => return Err(TooManySilences),
            None => {
                self.counts.begun += 1;
                self.active.push(told);
            }
        }
        self.active.sort_by_key(|active| active.from);
        Ok(until)
    }

    /// A silence that began while another of its scope and cause lasted, by this time, takes its place.
    fn take_over(&mut self, scope: Scope, cause: Cause, by: Instant) {
        while let Some(first) = self.active.iter().position(|active| active.is_of(scope, cause)) {
            let Active { from, until, .. } = self.active[first];
            let next = |active: &Active| active.is_of(scope, cause);
            let Some(next) = self.active.iter_mut().skip(first + 1).find(|active| next(active)) else {
                return;
            };
            if next.from > until.min(by) {
                return;
            }
            next.from = from;
            self.active.remove(first);
            self.counts.timed += 1;
        }
    }

    /// The source ends a silence now, or at a later time `at`, which counts only if it is no later than the
    /// end that is planned. A source may well end a silence twice.
    pub fn end(&mut self, scope: Scope, cause: Cause, now: Instant, at: Instant) -> Over {
        self.take_over(scope, cause, at.min(now));
        let concerned = |active: &Active| active.is_of(scope, cause);
        if at <= now {
            let by_clock = self.by_clock.as_mut();
            let late_for = by_clock.and_then(|known| {
                let place = known.iter().position(|(of, by, _)| (*of, *by) == (scope, cause));
                place.map(|place| known.remove(place).2)
            });
            // The one under way, or else the first that is announced.
            let Some(index) = self.active.iter().position(concerned) else {
                return if late_for.is_some() { Over::Before } else { Over::Nothing };
            };
            let Active { from, told, .. } = self.active[index];
            let was_under_way = from <= now;
            // Who has announced another one since, and says nothing for long, means that one.
            let is_late = |ended: Instant| told <= ended || now <= ended + LATE_END;
            if !was_under_way && late_for.is_some_and(is_late) {
                return Over::Before;
            }
            self.active.remove(index);
            self.counts.ended += 1;
            return if was_under_way { Over::UnderWay } else { Over::Announced };
        }
        let last = self.active.iter().rposition(|active| concerned(active) && active.from < at);
        match last {
            Some(index) if at <= self.active[index].until => {
                let active = &mut self.active[index];
                active.until = at;
                active.expected_end = Some(at);
                active.asked_for = true;
                Over::Later
            }
            Some(_) => Over::Nothing,
            // One before any silence begins calls the first off.
            None => match self.active.iter().position(concerned) {
                Some(first) => {
                    self.active.remove(first);
                    self.counts.ended += 1;
                    Over::Announced
                }
                None => Over::Nothing,
            },
        }
    }

    /// True if one is under way at `at` that is not known to end before `by` (before any time, if `by` is
    /// `None`), and that the agent does not end before `until`. `surely`: its end must be known.
    fn covers(
        &self,
        scope: Scope,
        cause: Cause,
        at: Instant,
        by: Option<Instant>,
        until: Instant,
        surely: bool,
    ) -> bool {
        // One that begins takes the place of those before it.
        self.begun(scope, cause, at).last().is_some_and(|active| {
            active.expected_end.map_or(!surely, |end| by.is_some_and(|by| end >= by))
                && active.until > at
                && active.until >= until
        })
    }

    /// Those that have begun by then and were not ended.
    fn begun(&self, scope: Scope, cause: Cause, by: Instant) -> impl Iterator<Item = &Active> {
        self.active.iter().filter(move |active| active.is_of(scope, cause) && active.from <= by)
    }

    /// When the next one must be ended.
    #[must_use]
    pub fn next_end(&self) -> Option<Instant> {
        self.active.iter().map(|active| active.until).min()
    }

    /// Ends one silence whose time has come; call it until it returns `None`.
    pub fn end_due(&mut self, now: Instant) -> Option<LinkEvent> {
        let index = loop {
            let (index, first) = self.active.iter().enumerate().min_by_key(|(_, active)| active.until)?;
            if first.until > now {
                return None;
            }
            let (left, Active { scope, cause, .. }) = (self.active.len(), *first);
            self.take_over(scope, cause, now);
            if self.active.len() == left {
                break index;
            }
        };
        let Active { scope, cause, from, until, asked_for, .. } = self.active.remove(index);
        if asked_for {
            self.counts.timed += 1;
        } else {
            self.counts.overdue += 1;
            let (lasted, limit) = (now.since(from), until.since(from));
            tracing::warn!(?scope, ?cause, %lasted, %limit, "nobody ended this silence: over by its limit");
        }
        if let Some(known) = &mut self.by_clock {
            known.retain(|(of, by, _)| (*of, *by) != (scope, cause));
            if known.len() >= MAX_ACTIVE {
                // The oldest: an end that is late comes soon.
                known.remove(0);
            }
            known.push((scope, cause, until));
        }
        let kind = LinkEventKind::FreezeEnded { scope, cause };
        Some(LinkEvent { detected_at: now, effective_at: Some(until), kind })
    }

    /// Those of one scope and cause, under way and announced.
    fn of(&self, scope: Scope, cause: Cause) -> impl Iterator<Item = &Active> {
        self.active.iter().filter(move |active| active.is_of(scope, cause))
    }

    /// An end has come for what the agent ended by the clock; no further one is late for it.
    fn note_late_end(&mut self, scope: Scope, cause: Cause) {
        if let Some(known) = &mut self.by_clock {
            known.retain(|(of, by, _)| (*of, *by) != (scope, cause));
        }
    }

    /// How many are under way now, without those announced for later.
    #[must_use]
    pub fn under_way(&self, now: Instant) -> usize {
        self.active.iter().filter(|active| active.from <= now).count()
    }

    /// The causes of all in the table.
    #[must_use]
    pub fn causes(&self) -> Vec<Cause> {
        self.active.iter().map(|active| active.cause).collect()
    }

    /// How many are announced for later.
    #[must_use]
    pub fn announced(&self, now: Instant) -> usize {
        self.active.iter().filter(|active| active.from > now).count()
    }

    /// What became of them so far.
    #[must_use]
    pub fn counts(&self) -> SilenceCounts {
        self.counts
    }
}

/// Who says that a radio is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Whoever speaks at the control socket.
    Told,
    /// The radio itself.
    Radio,
    /// The schedule of this number.
    Schedule(usize),
}

/// What became of the end of a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What it ended.
    pub over: Over,
    /// The mechanism is to be told: no other source keeps the radio silent for the same cause.
    pub is_last: bool,
}

/// A time at which the mechanism hears again how a scope is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Check {
    at: Instant,
    scope: Scope,
    cause: Cause,
}

/// A radio's silences, each source's by itself: of two that say the same cause, the shorter does not end the
/// longer. The mechanism, which knows causes only, is told the first beginning and the last end.
///
/// What several sources announce for one scope and cause the mechanism takes for one list: there, one's
/// announcement replaces another's that it overlaps, and one's end calls off another's, or is never told
/// because a third source was to be silent longer. So the mechanism hears once more whether the scope is
/// silent, at each time for which something was announced while several had a say.
#[derive(Debug)]
pub struct Silences {
    /// Of [`Source::Told`], [`Source::Radio`], and each schedule.
    tables: Vec<SilenceTable>,
    checks: Vec<Check>,
}

impl Silences {
    /// No silences, of so many schedules and the other sources. A silence that nobody ends is over after
    /// `max`.
    #[must_use]
    pub fn new(max: Duration, schedules: usize) -> Self {
        let others = (0..=schedules).map(|_| SilenceTable::new(max));
        let tables = core::iter::once(SilenceTable::with_late_ends(max)).chain(others).collect();
        Self { tables, checks: Vec::new() }
    }

    fn place(&self, source: Source) -> usize {
        let place = match source {
            Source::Told => 0,
            Source::Radio => 1,
            Source::Schedule(number) => number.saturating_add(2),
        };
        place.min(self.tables.len() - 1)
    }

    fn others(&self, place: usize) -> impl Iterator<Item = &SilenceTable> {
        self.tables.iter().enumerate().filter(move |(other, _)| *other != place).map(|(_, table)| table)
    }

    /// True if the mechanism's list may have become another than that of one source alone.
    fn is_shared(&self, scope: Scope, cause: Cause) -> bool {
        let sources = self.tables.iter().filter(|table| table.of(scope, cause).next().is_some()).count();
        sources > 1 || self.checks.iter().any(|check| (check.scope, check.cause) == (scope, cause))
    }

    /// Notes when the mechanism is to hear again how this scope is: where something announced begins or ends,
    /// and at `end`, an end that is told for later. To be called before and after each change, because either
    /// may take out what the mechanism still expects.
    fn note_checks(&mut self, scope: Scope, cause: Cause, now: Instant, end: Option<Instant>) {
        if !self.is_shared(scope, cause) {
            return;
        }
        let announced = self.tables.iter().flat_map(|table| table.of(scope, cause));
        let times =
            announced.filter(|active| active.from > now).flat_map(|active| [active.from, active.until]);
        for check in times.chain(end.filter(|end| *end > now)).map(|at| Check { at, scope, cause }) {
            if !self.checks.contains(&check) {
                self.checks.push(check);
            }
        }
        if self.checks.len() > MAX_CHECKS {
            self.checks.sort_unstable_by_key(|check| check.at);
            self.checks.truncate(MAX_CHECKS);
        }
    }

    /// What the mechanism has just been told it need not hear again.
    fn drop_checks(&mut self, scope: Scope, cause: Cause, now: Instant) {
        self.checks.retain(|check| (check.scope, check.cause) != (scope, cause) || check.at > now);
    }

    /// As [`SilenceTable::begin`]. True if the mechanism is to be told: no other source has the radio silent
    /// for this cause and as long. Of one that lasts longer it hears also if nobody knows how long the other
    /// will last, because its own limit counts from the last beginning that it was told. Of one that is
    /// announced it hears then in any case, because the other may be over before that one begins.
    ///
    /// # Errors
    /// [`TooManySilences`].
    #[expect(clippy::too_many_arguments, reason = "the table's, and the source")]
    pub fn begin(
        &mut self,
        source: Source,
        now: Instant,
        scope: Scope,
        cause: Cause,
        from: Instant,
        ends: impl Into<Ends>,
        expected: Option<Duration>,
    ) -> Result<bool, TooManySilences> {
        let place = self.place(source);
        self.note_checks(scope, cause, now, None);
        let until = self.tables[place].begin(now, scope, cause, from, ends, expected)?;
        self.note_checks(scope, cause, now, None);
        let by = expected.map(|length| from + length);
        let covers = |table: &SilenceTable| table.covers(scope, cause, from.max(now), by, until, from > now);
        Ok(!self.others(place).any(covers))
    }

    /// As [`SilenceTable::end`]. Who speaks at the control socket may end what another began.
    pub fn end(&mut self, source: Source, scope: Scope, cause: Cause, now: Instant, at: Instant) -> Ended {
        let own = self.place(source);
        let later = at.max(now);
        self.note_checks(scope, cause, now, None);
        let mut over = match self.anothers(own, scope, cause, later).filter(|_| source == Source::Told) {
            // A silence that lasts is meant before one that is only announced.
            Some(place) => {
                if at <= now {
                    self.tables[own].note_late_end(scope, cause);
                }
                self.tables[place].end(scope, cause, now, at)
            }
            None => self.tables[own].end(scope, cause, now, at),
        };
        if source == Source::Told && over == Over::Nothing {
            for table in &mut self.tables {
                let ended = table.end(scope, cause, now, at);
                if ended != Over::Nothing {
                    over = ended;
                    break;
                }
            }
        }
        // The mechanism may take that end for the end of one that was announced and that it was not told is
        // called off.
        self.note_checks(scope, cause, now, Some(at));
        // One that begins takes the place of those before it.
        let lasts = |table: &SilenceTable| {
            table.begun(scope, cause, later).last().is_some_and(|last| last.until > later)
        };
        // An end beyond the planned one does not count for the mechanism either, nor does one of nothing
        // where the mechanism would take it for that of a silence which another source has announced.
        let is_there = |table: &SilenceTable| table.of(scope, cause).next().is_some();
        let counts = match over {
            Over::UnderWay | Over::Announced | Over::Later => true,
            Over::Before => false,
            Over::Nothing => at <= now && !self.tables.iter().any(is_there),
        };
        Ended { over, is_last: counts && !self.tables.iter().any(lasts) }
    }

    /// The first other source that has a silence under way at `at`, if this one has none.
    fn anothers(&self, own: usize, scope: Scope, cause: Cause, at: Instant) -> Option<usize> {
        let lasts = |place: &usize| self.tables[*place].begun(scope, cause, at).next().is_some();
        if lasts(&own) { None } else { (0..self.tables.len()).find(lasts) }
    }

    /// When the mechanism must be told something next.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        let checks = self.checks.iter().map(|check| check.at);
        self.tables.iter().filter_map(SilenceTable::next_end).chain(checks).min()
    }

    /// Ends silences whose time has come; answers the next event that the mechanism is to be told. Call it
    /// until it returns `None`.
    pub fn due(&mut self, now: Instant) -> Option<LinkEvent> {
        self.end_due(now).or_else(|| self.check_due(now))
    }

    fn end_due(&mut self, now: Instant) -> Option<LinkEvent> {
        loop {
            // The earliest first, over all sources.
            let (place, _) = self
                .tables
                .iter()
                .enumerate()
                .filter_map(|(place, table)| Some((place, table.next_end().filter(|end| *end <= now)?)))
                .min_by_key(|(_, end)| *end)?;
            let event = self.tables[place].end_due(now);
            if let Some(event) = event
                && let LinkEventKind::FreezeEnded { scope, cause } = event.kind
                && !self.tables.iter().any(|table| table.begun(scope, cause, now).next().is_some())
            {
                self.drop_checks(scope, cause, now);
                return Some(event);
            }
        }
    }

    /// Says again how the scope is whose time has come.
    fn check_due(&mut self, now: Instant) -> Option<LinkEvent> {
        let &Check { scope, cause, .. } = self.checks.iter().find(|check| check.at <= now)?;
        self.drop_checks(scope, cause, now);
        let begun = self.tables.iter().flat_map(|table| table.begun(scope, cause, now));
        // From the last beginning to the last end, if each end is known.
        let (mut since, mut ends) = (None, Some(now));
        for active in begun {
            since = since.max(Some(active.from));
            ends = ends.and_then(|end| Some(end.max(active.expected_end?)));
        }
        let (effective_at, kind) = match since {
            Some(since) => {
                let expected = ends.map(|end| end.since(since));
                (since, LinkEventKind::FreezeStarted { scope, cause, expected })
            }
            None => (now, LinkEventKind::FreezeEnded { scope, cause }),
        };
        Some(LinkEvent { detected_at: now, effective_at: Some(effective_at), kind })
    }

    /// How many are under way now, without those announced for later.
    #[must_use]
    pub fn under_way(&self, now: Instant) -> usize {
        self.tables.iter().map(|table| table.under_way(now)).sum()
    }

    /// The causes of all of them.
    pub fn causes(&self) -> impl Iterator<Item = Cause> {
        self.tables.iter().flat_map(SilenceTable::causes)
    }

    /// How many are announced for later.
    #[must_use]
    pub fn announced(&self, now: Instant) -> usize {
        self.tables.iter().map(|table| table.announced(now)).sum()
    }

    /// What became of them so far.
    #[must_use]
    pub fn counts(&self) -> SilenceCounts {
        let mut sum = SilenceCounts::default();
        for counts in self.tables.iter().map(SilenceTable::counts) {
            sum.begun += counts.begun;
            sum.ended += counts.ended;
            sum.timed += counts.timed;
            sum.overdue += counts.overdue;
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::link_monitor::{LinkMonitor, LinkMonitorConfig};
    use linkhold_core::packet::StationId;

    use super::*;

    const NET: Scope = Scope::Network;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A silence that is told as it begins.
    fn begin(
        silences: &mut SilenceTable,
        scope: Scope,
        cause: Cause,
        from: Instant,
        lasting: Option<Duration>,
    ) -> Result<Instant, TooManySilences> {
        silences.begin(from, scope, cause, from, lasting, lasting)
    }

    #[test]
    fn a_silence_with_a_length_ends_by_itself_and_is_not_overdue() {
        let mut silences = SilenceTable::new(Duration::from_secs(10));
        begin(&mut silences, NET, Cause::Sensing, at(100), Some(Duration::from_millis(25))).unwrap();
        assert_eq!(silences.next_end(), Some(at(125)));
        assert_eq!(silences.end_due(at(124)), None);
        let event = silences.end_due(at(126)).unwrap();
        assert_eq!((event.detected_at, event.effective_at), (at(126), Some(at(125))));
        assert_eq!(silences.counts().overdue, 0);
        assert_eq!(silences.under_way(at(126)), 0);
    }

    #[test]
    fn a_silence_that_nobody_ends_is_over_at_the_maximum() {
        let mut silences = SilenceTable::new(Duration::from_millis(500));
        begin(&mut silences, NET, Cause::Fade, at(0), None).unwrap();
        begin(&mut silences, NET, Cause::Grant, at(0), Some(Duration::from_secs(3_600))).unwrap();
        assert!(silences.end_due(at(499)).is_none());
        assert!(silences.end_due(at(500)).is_some() && silences.end_due(at(500)).is_some());
        assert_eq!(silences.counts().overdue, 2);
    }

    #[test]
    fn ending_concerns_one_scope_and_cause() {
        let one = Scope::Station(StationId(1));
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        for (scope, cause) in [(NET, Cause::Fade), (one, Cause::Fade), (NET, Cause::Sensing)] {
            begin(&mut silences, scope, cause, at(0), None).unwrap();
        }
        silences.end(NET, Cause::Fade, at(5), at(5));
        silences.end(NET, Cause::Grant, at(5), at(5));
        assert_eq!(silences.under_way(at(5)), 2);
    }

    #[test]
    fn an_end_announced_for_later_ends_it_then_and_never_after_the_maximum() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        begin(&mut silences, NET, Cause::Fade, at(0), None).unwrap();
        begin(&mut silences, NET, Cause::Grant, at(0), None).unwrap();
        silences.end(NET, Cause::Fade, at(100), at(300));
        silences.end(NET, Cause::Grant, at(100), Instant::from_millis(86_400_000));
        assert_eq!(silences.next_end(), Some(at(300)));
        assert!(silences.end_due(at(300)).is_some());
        assert_eq!((silences.next_end(), silences.counts().overdue), (Some(at(1000)), 0));
        assert!(silences.end_due(at(1000)).is_some());
        assert_eq!(silences.counts().overdue, 1);
    }

    #[test]
    fn a_silence_announced_for_later_is_not_under_way_yet() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        let lasting = Some(Duration::from_millis(100));
        silences.begin(at(0), NET, Cause::Fade, at(500), lasting, lasting).unwrap();
        assert_eq!([at(499), at(500)].map(|now| silences.under_way(now)), [0, 1]);
        assert_eq!(silences.next_end(), Some(at(600)));
    }

    #[test]
    fn said_again_it_is_one_silence_with_a_later_end() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        begin(&mut silences, NET, Cause::Fade, at(0), None).unwrap();
        begin(&mut silences, NET, Cause::Fade, at(900), None).unwrap();
        assert_eq!((silences.under_way(at(900)), silences.next_end()), (1, Some(at(1900))));
    }

    #[test]
    fn of_two_sources_the_shorter_word_does_not_end_the_longer_silence() {
        let mut silences = Silences::new(Duration::from_secs(10), 2);
        let sensing = |silences: &mut Silences, schedule, now, length| {
            let lasting = Some(Duration::from_millis(length));
            let source = Source::Schedule(schedule);
            silences.begin(source, at(now), NET, Cause::Sensing, at(now), lasting, lasting).unwrap()
        };
        assert!(sensing(&mut silences, 0, 0, 2_000));
        assert!(!sensing(&mut silences, 1, 1_000, 25), "the radio is silent for longer already");
        assert_eq!((silences.under_way(at(1_010)), silences.next_due()), (2, Some(at(1_025))));
        assert_eq!(silences.due(at(1_025)), None);
        // A scan of the radio begins in it and outlasts it.
        let begin = |silences: &mut Silences, now| {
            silences.begin(Source::Radio, at(now), NET, Cause::Sensing, at(now), None, None).unwrap()
        };
        assert!(begin(&mut silences, 1_900), "nobody knows how long it takes");
        assert_eq!(silences.due(at(2_000)), None);
        let over = silences.end(Source::Radio, NET, Cause::Sensing, at(2_500), at(2_500));
        assert_eq!(over, Ended { over: Over::UnderWay, is_last: true });
        // One that is over before the schedule's leaves that.
        assert!(sensing(&mut silences, 0, 15_000, 2_000));
        assert!(begin(&mut silences, 15_100));
        let over = silences.end(Source::Radio, NET, Cause::Sensing, at(15_200), at(15_200));
        assert_eq!(over, Ended { over: Over::UnderWay, is_last: false });
        // Whoever speaks at the socket may end it.
        let told = silences.end(Source::Told, NET, Cause::Sensing, at(15_300), at(15_300));
        assert_eq!(told, Ended { over: Over::UnderWay, is_last: true });
        assert_eq!(
            silences.end(Source::Told, NET, Cause::Sensing, at(15_301), at(15_301)).over,
            Over::Nothing
        );
        assert_eq!(silences.counts(), SilenceCounts { begun: 5, ended: 3, timed: 2, overdue: 0 });
    }

    #[test]
    fn a_silence_that_outlasts_the_others_limit_is_told_though_nobody_knows_the_others_length() {
        let mut silences = Silences::new(Duration::from_secs(10), 0);
        let mut begin = |source, ms, length: Option<u64>| {
            let lasting = length.map(Duration::from_millis);
            silences.begin(source, at(ms), NET, Cause::Fade, at(ms), lasting, lasting).unwrap()
        };
        assert!(begin(Source::Radio, 0, None));
        assert!(!begin(Source::Told, 1_000, Some(8_000)), "the radio's is not over before");
        assert!(begin(Source::Told, 5_000, Some(8_000)), "the mechanism's limit would be over at 10 s");
    }

    #[test]
    fn the_table_is_bounded() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        for number in 0..MAX_ACTIVE as u32 {
            begin(&mut silences, Scope::Station(StationId(number)), Cause::Fade, at(0), None).unwrap();
        }
        assert_eq!(begin(&mut silences, NET, Cause::Fade, at(0), None), Err(TooManySilences));
    }

    #[test]
    fn every_silence_is_counted_once_and_by_how_it_ended() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        let timed = Some(Duration::from_millis(50));
        begin(&mut silences, NET, Cause::Sensing, at(0), timed).unwrap();
        begin(&mut silences, NET, Cause::Sensing, at(10), timed).unwrap();
        begin(&mut silences, NET, Cause::Fade, at(0), None).unwrap();
        begin(&mut silences, NET, Cause::Grant, at(0), None).unwrap();
        silences.begin(at(10), NET, Cause::PrimaryUser, at(5_000), timed, timed).unwrap();
        assert_eq!(silences.end(NET, Cause::Fade, at(20), at(20)), Over::UnderWay);
        assert_eq!(silences.end(NET, Cause::Fade, at(21), at(21)), Over::Nothing, "over already");
        while silences.end_due(at(2_000)).is_some() {}
        let counts = silences.counts();
        assert_eq!(counts, SilenceCounts { begun: 4, ended: 1, timed: 1, overdue: 1 });
        assert_eq!((silences.under_way(at(2_000)), silences.announced(at(2_000))), (0, 1));
    }

    #[test]
    fn a_silence_announced_while_another_lasts_is_one_of_its_own() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        let lasting = Some(Duration::from_millis(50));
        silences.begin(at(0), NET, Cause::Fade, at(0), lasting, lasting).unwrap();
        silences.begin(at(10), NET, Cause::Fade, at(100), lasting, lasting).unwrap();
        assert_eq!((silences.under_way(at(10)), silences.announced(at(10))), (1, 1));
        let ends: Vec<_> = [50, 99, 150].map(|ms| silences.end_due(at(ms)).is_some()).to_vec();
        assert_eq!(ends, [true, false, true]);
        assert_eq!(silences.counts(), SilenceCounts { begun: 2, timed: 2, ..SilenceCounts::default() });
        // The end of the first by an event leaves the second, as its withdrawal leaves the first.
        silences.begin(at(200), NET, Cause::Fade, at(200), None, None).unwrap();
        silences.begin(at(210), NET, Cause::Fade, at(300), lasting, lasting).unwrap();
        assert_eq!(silences.end(NET, Cause::Fade, at(250), at(250)), Over::UnderWay);
        assert_eq!((silences.announced(at(250)), silences.next_end()), (1, Some(at(350))));
    }

    #[test]
    fn an_end_that_comes_after_the_clocks_calls_off_no_silence_that_is_announced() {
        let mut silences = SilenceTable::with_late_ends(Duration::from_secs(1));
        let lasting = Some(Duration::from_millis(200));
        silences.begin(at(0), NET, Cause::Fade, at(0), lasting, lasting).unwrap();
        silences.begin(at(10), NET, Cause::Fade, at(1_500), lasting, lasting).unwrap();
        assert!(silences.end_due(at(200)).is_some());
        assert_eq!(silences.end(NET, Cause::Fade, at(400), at(400)), Over::Before);
        assert_eq!((silences.announced(at(400)), silences.counts().ended), (1, 0));
        assert_eq!(
            silences.end(NET, Cause::Fade, at(500), at(500)),
            Over::Announced,
            "a second one means it"
        );
        assert_eq!((silences.announced(at(500)), silences.counts().ended), (0, 1));
        // An end that meets its silence leaves nothing to come late.
        silences.begin(at(2_000), NET, Cause::Fade, at(2_000), lasting, lasting).unwrap();
        assert!(silences.end_due(at(2_200)).is_some());
        silences.begin(at(3_000), NET, Cause::Fade, at(3_000), lasting, lasting).unwrap();
        silences.begin(at(3_000), NET, Cause::Fade, at(9_000), lasting, lasting).unwrap();
        assert_eq!(silences.end(NET, Cause::Fade, at(3_100), at(3_100)), Over::UnderWay);
        assert_eq!(silences.end(NET, Cause::Fade, at(3_200), at(3_200)), Over::Announced);
    }

    /// Sources that never tell of an end fill the list of what the clock ended; who comes after them has a
    /// place in it all the same.
    #[test]
    fn a_late_end_is_known_for_one_behind_many_silences_that_the_clock_ended() {
        let mut silences = SilenceTable::with_late_ends(Duration::from_secs(1));
        let lasting = Some(Duration::from_millis(200));
        for number in 0..=MAX_ACTIVE as u32 {
            let scope = Scope::Station(StationId(number));
            silences.begin(at(0), scope, Cause::Fade, at(0), lasting, lasting).unwrap_or_else(|_| {
                while silences.end_due(at(200)).is_some() {}
                silences.begin(at(200), scope, Cause::Fade, at(200), lasting, lasting).unwrap()
            });
        }
        while silences.end_due(at(400)).is_some() {}
        let last = Scope::Station(StationId(MAX_ACTIVE as u32));
        silences.begin(at(410), last, Cause::Fade, at(3_000), lasting, lasting).unwrap();
        assert_eq!(silences.end(last, Cause::Fade, at(450), at(450)), Over::Before);
        assert_eq!(silences.announced(at(450)), 1);
    }

    /// The source of timed silences may say nothing of their ends. Its first word is then a withdrawal.
    #[test]
    fn an_end_long_after_the_clocks_calls_off_what_was_announced_since() {
        let mut silences = SilenceTable::with_late_ends(Duration::from_secs(10));
        let lasting = Some(Duration::from_millis(100));
        silences.begin(at(0), NET, Cause::PrimaryUser, at(0), lasting, lasting).unwrap();
        assert!(silences.end_due(at(100)).is_some());
        silences.begin(at(3_100), NET, Cause::PrimaryUser, at(5_100), lasting, lasting).unwrap();
        assert_eq!(silences.end(NET, Cause::PrimaryUser, at(3_200), at(3_200)), Over::Announced);
        assert_eq!(silences.announced(at(3_200)), 0);
        // A late end soon after the clock's, although the next silence is announced already.
        silences.begin(at(4_000), NET, Cause::PrimaryUser, at(4_000), lasting, lasting).unwrap();
        assert!(silences.end_due(at(4_100)).is_some());
        silences.begin(at(4_150), NET, Cause::PrimaryUser, at(6_000), lasting, lasting).unwrap();
        assert_eq!(silences.end(NET, Cause::PrimaryUser, at(4_300), at(4_300)), Over::Before);
        assert_eq!(silences.announced(at(4_300)), 1);
    }

    #[test]
    fn an_end_that_comes_late_at_the_socket_is_not_told_and_ends_what_another_source_has_under_way() {
        let mut silences = Silences::new(Duration::from_secs(10), 0);
        let lasting = Some(Duration::from_millis(200));
        let begin = |silences: &mut Silences, source, ms, length| {
            silences.begin(source, at(ms), NET, Cause::Fade, at(ms), length, length).unwrap()
        };
        begin(&mut silences, Source::Told, 0, lasting);
        silences.begin(Source::Told, at(0), NET, Cause::Fade, at(5_000), lasting, lasting).unwrap();
        assert!(silences.due(at(200)).is_some());
        let late = silences.end(Source::Told, NET, Cause::Fade, at(400), at(400));
        assert_eq!(late, Ended { over: Over::Before, is_last: false });
        begin(&mut silences, Source::Told, 1_000, lasting);
        assert!(silences.due(at(1_200)).is_some());
        begin(&mut silences, Source::Radio, 2_000, None);
        let told = silences.end(Source::Told, NET, Cause::Fade, at(2_100), at(2_100));
        assert_eq!(told, Ended { over: Over::UnderWay, is_last: true });
        assert_eq!(silences.announced(at(2_100)), 1);
    }

    #[test]
    fn a_silence_that_begins_while_another_lasts_takes_its_place() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        let lasting = Some(Duration::from_millis(50));
        silences.begin(at(0), NET, Cause::Fade, at(0), None, None).unwrap();
        silences.begin(at(10), NET, Cause::Fade, at(100), lasting, lasting).unwrap();
        assert_eq!(silences.end_due(at(149)), None);
        assert!(silences.end_due(at(150)).is_some() && silences.end_due(at(5_000)).is_none());
        silences.begin(at(200), NET, Cause::Fade, at(200), None, None).unwrap();
        silences.begin(at(210), NET, Cause::Fade, at(300), lasting, lasting).unwrap();
        assert_eq!(silences.end(NET, Cause::Fade, at(310), at(310)), Over::UnderWay);
        assert_eq!(silences.next_end(), None);
        assert_eq!(silences.counts(), SilenceCounts { begun: 4, ended: 1, timed: 3, overdue: 0 });
    }

    #[test]
    fn silences_announced_are_one_where_they_overlap_and_bounded_where_not() {
        let mut silences = SilenceTable::new(Duration::from_secs(1));
        let lasting = Some(Duration::from_millis(50));
        let mut announce = |from: u64| {
            silences.begin(at(0), NET, Cause::Fade, at(from), lasting, lasting).unwrap();
            (silences.announced(at(0)), silences.counts().begun)
        };
        assert_eq!([300, 100, 120].map(&mut announce), [(1, 1), (2, 2), (2, 2)]);
        assert_eq!([400, 500, 600].map(&mut announce), [(3, 3), (4, 4), (4, 4)]);
        let mut ends = Vec::new();
        while let Some(event) = silences.end_due(at(5_000)) {
            ends.push(event.effective_at.unwrap());
        }
        assert_eq!(ends, [170, 350, 450, 650].map(at));
    }

    /// What the mechanism's link monitor knows, if the agent tells it what it tells mechanisms.
    struct Heard {
        silences: Silences,
        monitor: LinkMonitor,
        now: u64,
    }

    impl Heard {
        fn new() -> Self {
            // The agent ends what nobody ends: the monitor's own limit has nothing to do.
            let config =
                LinkMonitorConfig { max_silence: Duration::from_secs(1_000), ..LinkMonitorConfig::default() };
            let silences = Silences::new(Duration::from_millis(800), 1);
            Self { silences, monitor: LinkMonitor::new(&config), now: 0 }
        }

        /// When a turn reads the clock: a little after the time for which something was told.
        fn turn(&self) -> Instant {
            at(self.now) + Duration::from_micros(1)
        }

        fn carry_out(&mut self, now: Instant) {
            while self.monitor.next_timeout().is_some_and(|due| due <= now) {
                let _ = self.monitor.on_timeout(now);
            }
        }

        /// As the event loop does it; `lags`: the monitor's timers come first, as where a turn reads the
        /// clock again for them.
        fn wait(&mut self, until: u64, lags: bool) {
            while self.now < until {
                self.now += 1;
                if lags {
                    self.carry_out(at(self.now));
                }
                let now = self.turn();
                while let Some(event) = self.silences.due(now) {
                    let _ = self.monitor.on_event(now, &event);
                }
                self.carry_out(now);
                self.agree();
            }
        }

        fn agree(&self) {
            let silent = self.silences.under_way(self.turn()) > 0;
            assert_eq!(silent, self.monitor.network_tfp(), "at {} ms", self.now);
        }

        /// `ahead`: when it takes effect, in ms from now.
        fn tell(&mut self, source: Source, starts: bool, ahead: u64, length: Option<u64>) {
            let (cause, now) = (Cause::Fade, self.turn());
            let effective = if ahead > 0 { at(self.now + ahead) } else { now };
            let expected = length.map(Duration::from_millis);
            let (is_news, kind) = if starts {
                let begun = self.silences.begin(source, now, NET, cause, effective, expected, expected);
                (begun.unwrap(), LinkEventKind::FreezeStarted { scope: NET, cause, expected })
            } else {
                let ended = self.silences.end(source, NET, cause, now, effective);
                (ended.is_last, LinkEventKind::FreezeEnded { scope: NET, cause })
            };
            if is_news {
                let event = LinkEvent { detected_at: now, effective_at: Some(effective), kind };
                let _ = self.monitor.on_event(now, &event);
            }
            self.agree();
        }
    }

    #[test]
    fn an_end_that_both_carry_out_calls_off_no_silence_that_follows() {
        let mut heard = Heard::new();
        heard.tell(Source::Told, true, 0, None);
        heard.tell(Source::Told, false, 100, None);
        heard.tell(Source::Told, true, 500, Some(200));
        heard.wait(600, true);
        assert!(heard.monitor.network_tfp());
    }

    /// A scan of the radio, which nobody knows the length of, ends before what the socket announced begins.
    #[test]
    fn an_announced_silence_is_told_though_another_source_was_to_be_silent_then() {
        for lags in [false, true] {
            let mut heard = Heard::new();
            heard.tell(Source::Radio, true, 0, None);
            heard.tell(Source::Told, true, 200, Some(100));
            heard.wait(30, lags);
            heard.tell(Source::Radio, false, 0, None);
            heard.wait(200, lags);
            assert!(heard.monitor.network_tfp());
            heard.wait(301, lags);
            assert!(!heard.monitor.network_tfp());
        }
        // Nor does it help that the length of the other is known.
        let mut heard = Heard::new();
        heard.tell(Source::Radio, true, 0, Some(500));
        heard.tell(Source::Told, true, 200, Some(100));
        heard.wait(30, false);
        heard.tell(Source::Radio, false, 0, None);
        heard.wait(250, false);
        assert!(heard.monitor.network_tfp());
    }

    #[test]
    fn what_the_socket_ends_lasts_and_is_only_else_one_that_is_announced() {
        let mut heard = Heard::new();
        heard.tell(Source::Radio, true, 0, None);
        heard.tell(Source::Told, true, 500, Some(100));
        heard.wait(100, false);
        let now = heard.turn();
        let told = heard.silences.end(Source::Told, NET, Cause::Fade, now, now);
        assert_eq!(told, Ended { over: Over::UnderWay, is_last: true });
        assert_eq!((heard.silences.under_way(now), heard.silences.announced(now)), (0, 1));
        let told = heard.silences.end(Source::Told, NET, Cause::Fade, now, now);
        assert_eq!(told, Ended { over: Over::Announced, is_last: true });
        assert_eq!((heard.silences.under_way(now), heard.silences.announced(now)), (0, 0));
    }

    /// The mechanism calls off the first that it knows of, whoever announced it.
    #[test]
    fn an_end_that_calls_off_one_sources_silence_leaves_the_others() {
        for lags in [false, true] {
            let mut heard = Heard::new();
            heard.tell(Source::Radio, true, 100, Some(50));
            heard.tell(Source::Told, true, 300, Some(50));
            heard.tell(Source::Told, false, 0, None);
            heard.wait(120, lags);
            assert!(heard.monitor.network_tfp());
            heard.wait(1_000, lags);
        }
    }

    proptest::proptest! {
        /// The agent and the link monitor of its mechanism take the same announcements for the same silences.
        #[test]
        fn the_agent_has_under_way_what_the_link_monitor_has(
            lags in proptest::prelude::any::<bool>(),
            story in proptest::collection::vec(
                (proptest::prelude::any::<bool>(), 1u64..400, 0u64..900, proptest::option::of(1u64..500)),
                1..40,
            )
        ) {
            let mut heard = Heard::new();
            for (starts, pause, ahead, length) in story {
                heard.wait(heard.now + pause, lags);
                // Half of them are told as they happen.
                heard.tell(Source::Told, starts, ahead.saturating_sub(450), length);
            }
            heard.wait(heard.now + 3_000, lags);
        }

        /// So they do where several sources speak of one scope and cause.
        #[test]
        fn the_agent_of_several_sources_has_under_way_what_the_link_monitor_has(
            lags in proptest::prelude::any::<bool>(),
            story in proptest::collection::vec(
                (0usize..3, proptest::prelude::any::<bool>(), 1u64..400, 0u64..900, proptest::option::of(1u64..500)),
                1..40,
            )
        ) {
            let mut heard = Heard::new();
            for (source, starts, pause, ahead, length) in story {
                heard.wait(heard.now + pause, lags);
                let source = [Source::Told, Source::Radio, Source::Schedule(0)][source];
                heard.tell(source, starts, ahead.saturating_sub(450), length);
            }
            heard.wait(heard.now + 3_000, lags);
        }
    }
}
