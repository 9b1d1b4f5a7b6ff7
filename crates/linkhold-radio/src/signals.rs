//! What those who listen to the radio are told of its silences: late, not at all, or of silences that are
//! none.
//!
//! No paper has this; all of them let the radio tell its silences as they happen. What real radios tell, and
//! when, was measured on mac80211 (a switch as it begins or up to 100 ms ahead, a scan at its start, nothing
//! when a station sleeps).
//! Sees the starts and ends of silences as the radio itself notices them, and random streams of its own;
//! emits link events (`FreezeStarted`, `FreezeEnded`, `ChannelSwitched`). Nothing here reaches the timeline:
//! one seed gives one radio, whatever is told of it.
//! States of a source, as a listener knows it: clear → silent → clear.
//!
//! Rules, where a latency meets the next silence:
//! - a silence that is over before its start would be told is not told at all: it counts as missed;
//! - an end that would be told after the next start is not told, for to the listener the two are one silence;
//! - a false silence that overlaps a true one makes one silence of both.
//!
//! A latency is a fixed time and one that is drawn for each silence, evenly between nothing and its spread:
//! as of a driver that is asked now and then, or of a message that waits for a beacon.
//!
//! Deviation from a real source: no end is lost. An end that is lost would leave a listener with nothing but
//! its own limit, and how long that is does not depend on the radio.

use std::collections::VecDeque;

use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Fraction;

use crate::frame::AirOutput;
use crate::rng::Stream;

/// Starts and ends of one source that may be on their way to the listener. Silences that find no place are
/// not told.
const MAX_PENDING: usize = 1024;
/// Rates of channels that may be on their way. The oldest is told early where there are more.
const MAX_RATES: usize = 64;
/// Most false silences a minute: a hundred a second.
pub const MAX_FALSE_PER_MINUTE: f64 = 6000.0;

/// What a source of silences tells of them, beside what the radio itself notices late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ToldConfig {
    /// From the radio's noticing a silence to the listener's being told.
    pub late: Duration,
    /// The same for a silence's end.
    pub end_late: Duration,
    /// A start is told later than [`late`](Self::late) by up to this, drawn evenly.
    pub late_spread: Duration,
    /// An end is told later than [`end_late`](Self::end_late) by up to this, drawn evenly.
    pub end_late_spread: Duration,
    /// Whether the message carries the time at which the silence began or ended
    /// ([`LinkEvent::effective_at`]), and so tells exactly how late it is. Most real sources give no time.
    pub start_known: bool,
    /// Whether the start tells how long the silence will be, where that is fixed (quiet periods, channel
    /// switches). A schedule that was announced says so anyway.
    pub length_known: bool,
    /// Chance that a silence is not told.
    pub missed: Fraction,
    /// Mean number of silences a minute (Poisson) that are told and are none; at most
    /// [`MAX_FALSE_PER_MINUTE`].
    pub false_per_minute: f64,
    /// How long one of them lasts; not zero.
    pub false_length: Duration,
}

impl ToldConfig {
    /// Everything as it happens, and nothing else.
    pub const EXACT: Self = Self {
        late: Duration::ZERO,
        end_late: Duration::ZERO,
        late_spread: Duration::ZERO,
        end_late_spread: Duration::ZERO,
        start_known: true,
        length_known: true,
        missed: Fraction::ZERO,
        false_per_minute: 0.0,
        false_length: Duration::from_millis(100),
    };

    /// True if every silence is told as the radio notices it, and none that is none. Whether its length or
    /// its beginning is told with it does not count.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        let Self { start_known, length_known, false_length, .. } = Self::EXACT;
        Self { start_known, length_known, false_length, ..*self } == Self::EXACT
    }

    fn fits(&self) -> bool {
        (0.0..=MAX_FALSE_PER_MINUTE).contains(&self.false_per_minute) && !self.false_length.is_zero()
    }
}

impl Default for ToldConfig {
    fn default() -> Self {
        Self::EXACT
    }
}

/// What each source of silences tells of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignalsConfig {
    /// The quiet periods of the cell.
    pub sensing: ToldConfig,
    /// Those of single stations; a station that is not here tells exactly.
    pub station_sensing: Vec<(StationId, ToldConfig)>,
    /// Channel switches. A new channel's rate is told as late as the switch's end, and is never missed.
    pub switching: ToldConfig,
    /// The gaps of a delivery trace.
    pub gaps: ToldConfig,
    /// By channel: its primary user. A channel beyond the list tells exactly.
    pub users: Vec<ToldConfig>,
}

impl SignalsConfig {
    /// Whether every number is in its range.
    pub(crate) fn fits(&self) -> bool {
        let stations = self.station_sensing.iter().map(|(_, told)| told);
        let all = [&self.sensing, &self.switching, &self.gaps].into_iter().chain(&self.users).chain(stations);
        all.into_iter().all(ToldConfig::fits)
    }

    /// What a user of the channel tells.
    #[must_use]
    pub fn of_user(&self, channel: usize) -> ToldConfig {
        self.users.get(channel).copied().unwrap_or_default()
    }

    /// What is told of a station's own quiet periods.
    #[must_use]
    pub fn of_station(&self, station: StationId) -> ToldConfig {
        self.station_sensing
            .iter()
            .find(|(own, _)| *own == station)
            .map(|(_, told)| *told)
            .unwrap_or_default()
    }
}

/// What listeners were told so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ToldAccounting {
    /// Silences that began: of the cell, of single stations, of any cause. Overlapping ones count each.
    pub silences: u64,
    /// Those whose start was told.
    pub told: u64,
    /// Those that are over, or were lost on their way, and were not told.
    pub missed: u64,
    /// Silences that were told and were none.
    pub false_silences: u64,
    /// Over all starts told: from the silence's start on the air to its being told.
    pub start_late: Duration,
    /// Ends of true silences that were told. A silence that ran into the next has no end of its own.
    pub ends: u64,
    /// Over these: from the end of the silence to its being told.
    pub end_late: Duration,
}

impl ToldAccounting {
    /// Mean lateness of the starts told; `None` before the first.
    #[must_use]
    pub fn mean_start_late(&self) -> Option<Duration> {
        mean(self.start_late, self.told)
    }

    /// Mean lateness of the ends told; `None` before the first.
    #[must_use]
    pub fn mean_end_late(&self) -> Option<Duration> {
        mean(self.end_late, self.ends)
    }
}

fn mean(sum: Duration, count: u64) -> Option<Duration> {
    sum.as_nanos().checked_div(count).map(Duration::from_nanos)
}

/// A source of silences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SilenceSource {
    Switching,
    /// The working channel's primary user.
    User,
    Sensing,
    Gaps,
    /// A station's own sensing, by its place among the schedules.
    Station(usize),
}

impl SilenceSource {
    /// Sources before the stations'.
    const SHARED: usize = 4;

    const fn slot(self) -> usize {
        match self {
            Self::Switching => 0,
            Self::User => 1,
            Self::Sensing => 2,
            Self::Gaps => 3,
            Self::Station(index) => Self::SHARED + index,
        }
    }
}

/// Something on its way to the listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Start { effective: Instant, expected: Option<Duration>, is_new: bool },
    End { effective: Instant },
}

/// What one source tells.
#[derive(Clone, Debug)]
struct Teller {
    scope: Scope,
    cause: Cause,
    /// By channel for primary users, else one.
    configs: Vec<ToldConfig>,
    /// Index of the one that stands.
    current: usize,
    /// By time; after a start comes its end, or another start that extends it.
    pending: VecDeque<(Instant, News)>,
    /// The radio is silent for this cause.
    silent: bool,
    /// The listener was told so.
    told: bool,
    /// The listener was told of a silence that is none, which ends then.
    false_until: Option<Instant>,
    misses: Stream,
    alarms: Stream,
    spreads: Stream,
    /// The part of its spread, 0 to 1, by which this silence's start is told late, and that of its end.
    drawn: (f64, f64),
    /// When the next false silence may begin, drawn at the greatest rate of all configurations.
    alarm_at: Instant,
}

impl Teller {
    fn new(scope: Scope, cause: Cause, configs: Vec<ToldConfig>, seed: u64, slot: usize) -> Self {
        let mut teller = Self {
            scope,
            cause,
            configs,
            current: 0,
            pending: VecDeque::new(),
            silent: false,
            told: false,
            false_until: None,
            misses: Stream::new(seed, "signal-missed", slot as u64),
            alarms: Stream::new(seed, "signal-false", slot as u64),
            spreads: Stream::new(seed, "signal-spread", slot as u64),
            drawn: (0.0, 0.0),
            alarm_at: Instant::FAR_FUTURE,
        };
        teller.draw_spread();
        teller.alarm_at = teller.draw_alarm(Instant::ZERO);
        teller
    }

    fn config(&self) -> ToldConfig {
        self.configs.get(self.current).copied().unwrap_or_default()
    }

    /// Draws anew for each silence, told or not, so that a change of one does not shift the others' luck.
    fn draw_spread(&mut self) {
        self.drawn = (self.spreads.unit(), self.spreads.unit());
    }

    /// How late this silence's start is told.
    fn start_latency(&self) -> Duration {
        let ToldConfig { late, late_spread, .. } = self.config();
        late + late_spread.mul_f64(self.drawn.0)
    }

    /// How late this silence's end is told.
    fn end_latency(&self) -> Duration {
        let ToldConfig { end_late, end_late_spread, .. } = self.config();
        end_late + end_late_spread.mul_f64(self.drawn.1)
    }

    fn greatest_rate(&self) -> f64 {
        self.configs.iter().map(|config| config.false_per_minute).fold(0.0, f64::max)
    }

    fn draw_alarm(&mut self, from: Instant) -> Instant {
        let rate = self.greatest_rate();
        if rate > 0.0 {
            from + self.alarms.exponential(Duration::from_secs_f64(60.0 / rate))
        } else {
            Instant::FAR_FUTURE
        }
    }

    fn next(&self) -> Instant {
        let news = self.pending.front().map_or(Instant::FAR_FUTURE, |&(due, _)| due);
        news.min(self.alarm_at).min(self.false_until.unwrap_or(Instant::FAR_FUTURE))
    }

    /// What the listener will believe once everything pending has reached it.
    fn will_be_told(&self) -> bool {
        self.pending.back().map_or(self.told, |(_, news)| matches!(news, News::Start { .. }))
    }

    fn started(
        &mut self,
        at: Instant,
        effective: Instant,
        expected: Option<Duration>,
        sum: &mut ToldAccounting,
    ) {
        let config = self.config();
        let is_new = !self.silent;
        self.silent = true;
        if is_new {
            sum.silences += 1;
            self.draw_spread();
            // One draw a silence, so that a change of one silence does not shift the others' luck.
            if self.misses.unit() < config.missed.get() || self.pending.len() >= MAX_PENDING {
                sum.missed += 1;
                return;
            }
        } else if !self.will_be_told() {
            // The start was missed, and so is what is said of it later.
            return;
        }
        // Channels differ in their latency, and each silence draws its own; what is told keeps its order all
        // the same.
        let mut due = at + self.start_latency();
        while let Some(&(last, news)) = self.pending.back() {
            match news {
                News::End { .. } if last > due => {
                    self.pending.pop_back();
                }
                News::Start { .. } | News::End { .. } => {
                    due = due.max(last);
                    break;
                }
            }
        }
        if self.pending.len() < MAX_PENDING {
            self.pending.push_back((due, News::Start { effective, expected, is_new }));
        }
    }

    fn ended(&mut self, at: Instant, effective: Instant, sum: &mut ToldAccounting) {
        self.silent = false;
        let due = at + self.end_latency();
        while let Some(&(last, News::Start { is_new, .. })) = self.pending.back()
            && last >= due
        {
            self.pending.pop_back();
            sum.missed += u64::from(is_new);
        }
        // A missed silence has no end, unless the one before it still stands for the listener.
        if self.will_be_told() {
            self.pending.push_back((due, News::End { effective }));
        }
    }

    /// Tells what is due by `now`, one thing a call; false if nothing is.
    fn step(&mut self, now: Instant, sum: &mut ToldAccounting, out: &mut AirOutput) -> bool {
        if let Some(&(due, news)) = self.pending.front()
            && due <= now
        {
            self.pending.pop_front();
            self.tell(now, news, sum, out);
            return true;
        }
        if self.false_until.is_some_and(|until| until <= now) {
            self.false_until = None;
            if !self.told {
                self.emit_end(now, now, out);
            }
            return true;
        }
        if self.alarm_at <= now {
            self.alarm(now, sum, out);
            return true;
        }
        false
    }

    fn tell(&mut self, now: Instant, news: News, sum: &mut ToldAccounting, out: &mut AirOutput) {
        match news {
            News::Start { effective, expected, is_new } => {
                self.told = true;
                if is_new {
                    sum.told += 1;
                    sum.start_late += now.since(effective);
                }
                self.emit_start(now, effective, expected, out);
            }
            News::End { effective } => {
                self.told = false;
                sum.ends += 1;
                sum.end_late += now.since(effective);
                if self.false_until.is_none() {
                    self.emit_end(now, effective, out);
                }
            }
        }
    }

    fn alarm(&mut self, now: Instant, sum: &mut ToldAccounting, out: &mut AirOutput) {
        let greatest = self.greatest_rate();
        self.alarm_at = self.draw_alarm(now);
        let config = self.config();
        // Drawn whatever stands, so that the alarms of one configuration do not depend on when it stands.
        if self.alarms.unit() * greatest >= config.false_per_minute {
            return;
        }
        let until = now + config.false_length;
        if self.false_until.is_none() && !self.told {
            sum.false_silences += u64::from(!self.silent);
            // Sources whose silences have a known length state one here, too.
            let has_length = matches!(self.cause, Cause::Sensing | Cause::ChannelSwitch);
            self.emit_start(now, now, has_length.then_some(config.false_length), out);
        }
        self.false_until = Some(self.false_until.map_or(until, |earlier| earlier.max(until)));
    }

    fn emit_start(&self, now: Instant, effective: Instant, expected: Option<Duration>, out: &mut AirOutput) {
        let expected = expected.filter(|_| self.config().length_known);
        let kind = LinkEventKind::FreezeStarted { scope: self.scope, cause: self.cause, expected };
        self.emit(now, effective, kind, out);
    }

    fn emit_end(&self, now: Instant, effective: Instant, out: &mut AirOutput) {
        self.emit(now, effective, LinkEventKind::FreezeEnded { scope: self.scope, cause: self.cause }, out);
    }

    fn emit(&self, now: Instant, effective: Instant, kind: LinkEventKind, out: &mut AirOutput) {
        let effective_at = self.config().start_known.then_some(effective);
        out.link(LinkEvent { detected_at: now, effective_at, kind });
    }
}

/// What all sources tell.
#[derive(Clone, Debug)]
pub(crate) struct Signals {
    tellers: Vec<Teller>,
    /// Rates of the working channel on their way, by time.
    rates: VecDeque<(Instant, LinkEvent)>,
    next: Instant,
    sum: ToldAccounting,
}

impl Signals {
    /// `stations` are those that have a schedule of their own, in its order.
    pub(crate) fn new(config: &SignalsConfig, stations: &[StationId], channel: usize, seed: u64) -> Self {
        let users = if config.users.is_empty() { vec![ToldConfig::EXACT] } else { config.users.clone() };
        let network = [
            (Cause::ChannelSwitch, vec![config.switching]),
            (Cause::PrimaryUser, users),
            (Cause::Sensing, vec![config.sensing]),
            (Cause::Fade, vec![config.gaps]),
        ];
        let network = network.into_iter().map(|(cause, configs)| (Scope::Network, cause, configs));
        let own =
            stations.iter().map(|&one| (Scope::Station(one), Cause::Sensing, vec![config.of_station(one)]));
        let tellers = network.chain(own).enumerate();
        let tellers = tellers.map(|(slot, (scope, cause, told))| Teller::new(scope, cause, told, seed, slot));
        let mut signals = Self {
            tellers: tellers.collect(),
            rates: VecDeque::new(),
            next: Instant::FAR_FUTURE,
            sum: ToldAccounting::default(),
        };
        signals.work_on(channel);
        signals.refresh();
        signals
    }

    /// When [`step`](Self::step) has something to tell.
    pub(crate) const fn next(&self) -> Instant {
        self.next
    }

    pub(crate) const fn accounting(&self) -> ToldAccounting {
        self.sum
    }

    /// The radio works on another channel.
    pub(crate) fn work_on(&mut self, channel: usize) {
        if let Some(user) = self.tellers.get_mut(SilenceSource::User.slot()) {
            user.current = channel;
        }
    }

    /// The radio notices at `at` a silence that began at `effective`, or that it will last otherwise.
    pub(crate) fn started(
        &mut self,
        source: SilenceSource,
        at: Instant,
        effective: Instant,
        expected: Option<Duration>,
        out: &mut AirOutput,
    ) {
        let Some(teller) = self.tellers.get_mut(source.slot()) else { return };
        teller.started(at, effective, expected, &mut self.sum);
        self.tell_of(source, at, out);
    }

    /// The radio notices at `at` that the silence ended at `effective`.
    pub(crate) fn ended(
        &mut self,
        source: SilenceSource,
        at: Instant,
        effective: Instant,
        out: &mut AirOutput,
    ) {
        let Some(teller) = self.tellers.get_mut(source.slot()) else { return };
        teller.ended(at, effective, &mut self.sum);
        self.tell_of(source, at, out);
    }

    /// A silence is over that the radio did not notice itself.
    pub(crate) const fn unnoticed(&mut self) {
        self.sum.silences += 1;
        self.sum.missed += 1;
    }

    /// The radio has a rate, as `kind` says, from `at` on; at the start of a run it is told at once.
    pub(crate) fn rate(&mut self, at: Instant, kind: LinkEventKind, out: &mut AirOutput) {
        let late = match self.tellers.get_mut(SilenceSource::Switching.slot()) {
            Some(switching) if at > Instant::ZERO => {
                if !switching.silent {
                    // A switch that takes no time is no silence.
                    switching.draw_spread();
                }
                switching.end_latency()
            }
            _ => Duration::ZERO,
        };
        // Rates keep their order, too.
        let due = self.rates.back().map_or(at + late, |&(last, _)| last.max(at + late));
        self.rates.push_back((due, LinkEvent { effective_at: Some(at), detected_at: due, kind }));
        let due = |rates: &VecDeque<(Instant, LinkEvent)>| rates.front().is_some_and(|&(due, _)| due <= at);
        while due(&self.rates) || self.rates.len() > MAX_RATES {
            self.tell_rate(at, out);
        }
        self.refresh();
    }

    fn tell_rate(&mut self, now: Instant, out: &mut AirOutput) {
        if let Some((_, event)) = self.rates.pop_front() {
            out.link(LinkEvent { detected_at: now, ..event });
        }
    }

    /// Tells at once what of a source is due.
    fn tell_of(&mut self, source: SilenceSource, now: Instant, out: &mut AirOutput) {
        if let Some(teller) = self.tellers.get_mut(source.slot()) {
            // A false silence may begin at this very time, too. It is no part of what the radio says now.
            while teller.pending.front().is_some_and(|&(due, _)| due <= now) {
                teller.step(now, &mut self.sum, out);
            }
        }
        self.refresh();
    }

    /// Tells what is due next, at its own time.
    pub(crate) fn step(&mut self, out: &mut AirOutput) {
        let now = self.next;
        if self.rates.front().is_some_and(|&(due, _)| due <= now) {
            self.tell_rate(now, out);
        } else if let Some(teller) = self.tellers.iter_mut().find(|teller| teller.next() <= now) {
            teller.step(now, &mut self.sum, out);
        }
        self.refresh();
    }

    fn refresh(&mut self) {
        let rates = self.rates.front().map_or(Instant::FAR_FUTURE, |&(due, _)| due);
        self.next = self.tellers.iter().map(Teller::next).fold(rates, Instant::min);
    }
}

#[cfg(test)]
#[path = "signals_tests.rs"]
mod tests;
