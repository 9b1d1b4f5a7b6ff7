//! What the radio has been doing: TFP state, and the link parameters that the mechanisms decide by.
//!
//! Paper: `dsasync` section IV-A (DSASync_LL) and equation (1).
//!
//! Sees every [`LinkEvent`]; emits [`TfpChange`]s, and answers questions about now (TFP, expected end), the
//! past (α, the eleven [`LinkParameters`]) and the future (announced silences).
//!
//! A scope (network or station): `sending → silent → sending`. It is silent while any cause is active. A
//! station's effective TFP is its own or the network's: SW | S | S_i | PU, and the further causes fade and
//! grant.
//!
//! # Deviations from the paper
//! - Equation (1) prints each term as E\[f(t)·t(t)·t\]. Frequency times duration is a share already, so the
//!   expectation of share times t is not a length of time within the window. Integrated it is, which is how
//!   we read it: f·t·ΔT. The PU term lacks a frequency. The sum also counts a moment twice when two causes
//!   overlap, which drives α too low: 25 ms of sensing during a primary user's burst add no silence.
//!   [`AlphaForm::Sum`] is the printed sum, read so that the dimensions fit; [`AlphaForm::Union`], the
//!   default, measures the share of the window in which somebody could send.
//! - The window cannot reach back before the epoch. While less than a quarter of ΔT has been seen, α is
//!   computed as if a quarter had been seen, the unseen part without silence: a silence in the first moment
//!   is no reason to expect silence for ever.
//! - α is computed on a grid of ΔT/256 and kept until the grid moves on or an event comes, because it is
//!   asked for once a packet.
//! - The paper has no remedy for a lost "silence over" message. Here `max_silence` ends such a freeze.
//! - An announced sensing schedule fixes f and t and predicts silences; it does not itself start one. The
//!   radio says when it falls silent.

mod freeze;
mod history;
mod parameters;
mod schedule;

use core::cell::Cell;

use serde::{Deserialize, Serialize};

use crate::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use crate::packet::StationId;
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Fraction};

pub(crate) use freeze::{Announced, FreezeSet, SilenceChange};
pub use freeze::{MOST_AHEAD, is_told_twice};
use history::{Interval, union_time};
pub use parameters::{Frequency, LinkParameters, OnTimes, Provenance, Recurrence};
use schedule::Schedule;

/// Silences of the network that are remembered. With ΔT = 10 s this covers one every 20 ms. If there are
/// more, α is computed over the time that the memory covers.
const NETWORK_HISTORY: usize = 512;
/// Silences of one station that are remembered.
const STATION_HISTORY: usize = 256;
/// Most stations tracked by default. A driver numbers no more stations than these at once.
pub const MAX_STATIONS: u32 = 4096;
/// Steps of α in one window.
const ALPHA_GRID: u64 = 256;

/// How α is computed from the silences in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlphaForm {
    /// Measured: the share of the window in which neither the network nor the station was silent; silences
    /// that overlap count once.
    #[default]
    Union,
    /// As equation (1) prints it: the sum of frequency × duration over the causes; overlaps count twice.
    Sum,
}

/// Settings of a [`LinkMonitor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkMonitorConfig {
    /// ΔT, the moving window that history is taken from.
    pub window: Duration,
    /// A freeze that nobody has ended after this long is taken to be over.
    pub max_silence: Duration,
    /// Most stations tracked. A station with a higher number is taken to have the network's silences only.
    pub max_stations: u32,
    /// Form of α.
    pub alpha_form: AlphaForm,
}

impl Default for LinkMonitorConfig {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            max_silence: Duration::from_secs(30),
            max_stations: MAX_STATIONS,
            alpha_form: AlphaForm::Union,
        }
    }
}

/// How the effective TFP state changed with one call.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TfpChange {
    /// For nobody.
    None,
    /// The whole network fell silent (some stations may have been silent before).
    NetworkBegan,
    /// The network may send again, but for stations still silent by a cause of their own.
    NetworkEnded,
    /// This station fell silent while the network was not.
    StationBegan(StationId),
    /// This station may send again; the network is not silent.
    StationEnded(StationId),
}

/// A computed α, valid for one step of the grid and one state of the history.
#[derive(Clone, Copy, Debug)]
struct CachedAlpha {
    step: u64,
    version: u64,
    alpha: Fraction,
}

/// What is kept of one station. Its freezes take memory only once it has had one.
#[derive(Debug)]
struct StationState {
    silent: bool,
    /// Silences of its own so far.
    silences: u64,
    own: Option<Box<FreezeSet>>,
    schedule: Option<Schedule>,
    alpha: Cell<Option<CachedAlpha>>,
}

impl StationState {
    const fn new() -> Self {
        Self { silent: false, silences: 0, own: None, schedule: None, alpha: Cell::new(None) }
    }
}

/// Keeps the state of the radio and its recent past.
#[derive(Debug)]
pub struct LinkMonitor {
    config: LinkMonitorConfig,
    network: FreezeSet,
    network_schedule: Option<Schedule>,
    /// α_dsan, and α of a station without silences of its own.
    network_alpha: Cell<Option<CachedAlpha>>,
    shared_alpha: Cell<Option<CachedAlpha>>,
    stations: Vec<StationState>,
    silent_stations: u32,
    capacity: Option<(BitRate, Fraction)>,
    silences: u64,
    /// How many of them were the whole network's.
    network_silences: u64,
    timed_out_freezes: u64,
    untracked_events: u64,
    next_timeout: Option<Instant>,
    /// Counts changes of the history, to know a stale α.
    version: u64,
}

impl LinkMonitor {
    /// A monitor that has seen no silence.
    #[must_use]
    pub fn new(config: &LinkMonitorConfig) -> Self {
        Self {
            config: *config,
            network: FreezeSet::new(NETWORK_HISTORY, config.max_silence),
            network_schedule: None,
            network_alpha: Cell::new(None),
            shared_alpha: Cell::new(None),
            stations: Vec::new(),
            silent_stations: 0,
            capacity: None,
            silences: 0,
            network_silences: 0,
            timed_out_freezes: 0,
            untracked_events: 0,
            next_timeout: None,
            version: 0,
        }
    }

    /// Takes in one event of the radio. An event announced for later (`effective_at` after `now`) takes
    /// effect through [`on_timeout`](Self::on_timeout).
    pub fn on_event(&mut self, now: Instant, event: &LinkEvent) -> TfpChange {
        let at = event.takes_effect(now);
        match event.kind {
            LinkEventKind::FreezeStarted { scope, cause, expected } => {
                if is_planned(cause)
                    && let Some(schedule) = self.schedule_mut(scope)
                {
                    schedule.came(at);
                }
                self.change(scope, |freezes| freezes.start(now, cause, at, expected))
            }
            LinkEventKind::FreezeEnded { scope, cause } => {
                self.change(scope, |freezes| freezes.end(now, cause, at))
            }
            LinkEventKind::ChannelSwitched { capacity, efficiency } => {
                self.capacity = (capacity.as_bps() > 0).then_some((capacity, efficiency));
                TfpChange::None
            }
            LinkEventKind::SensingSchedule { scope, period, duration, next } => {
                self.version += 1;
                let schedule = (!period.is_zero()).then_some(Schedule { period, duration, next });
                match scope {
                    Scope::Network => self.network_schedule = schedule,
                    Scope::Station(id) => match self.station_mut(id) {
                        Some(station) => station.schedule = schedule,
                        None => self.untracked_events += 1,
                    },
                }
                TfpChange::None
            }
            LinkEventKind::StationLeft { station } => self.forget_station(station),
            LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. }
            | LinkEventKind::TransmitRoom { .. } => TfpChange::None,
        }
    }

    /// Makes the station count in α_dsan even before it has an event of its own. O(1).
    pub fn learn_station(&mut self, station: StationId) {
        if station.0 as usize >= self.stations.len() && self.station_mut(station).is_some() {
            self.version += 1;
        }
    }

    /// The station's entry, made if it is below `max_stations`. Stations are numbered from 0 by the driver,
    /// so the number is the index.
    fn station_mut(&mut self, station: StationId) -> Option<&mut StationState> {
        if station.0 >= self.config.max_stations {
            return None;
        }
        let index = station.0 as usize;
        if index >= self.stations.len() {
            self.stations.resize_with(index + 1, StationState::new);
        }
        self.stations.get_mut(index)
    }

    /// Forgets the silences, schedule and history of a station whose number goes to another one.
    fn forget_station(&mut self, station: StationId) -> TfpChange {
        let Some(state) = self.stations.get_mut(station.0 as usize) else { return TfpChange::None };
        let old = std::mem::replace(state, StationState::new());
        self.version += 1;
        // Thousands may leave at once, and looking for the next timeout walks all stations.
        if old.own.is_some() {
            self.find_next_timeout();
        }
        let change = if old.silent { SilenceChange::Ended } else { SilenceChange::None };
        self.report(Scope::Station(station), change)
    }

    /// Applies one change to the freezes of `scope`.
    fn change(&mut self, scope: Scope, apply: impl FnOnce(&mut FreezeSet) -> SilenceChange) -> TfpChange {
        self.version += 1;
        let change = match scope {
            Scope::Network => apply(&mut self.network),
            Scope::Station(id) => {
                let max_silence = self.config.max_silence;
                let Some(station) = self.station_mut(id) else {
                    self.untracked_events += 1;
                    return TfpChange::None;
                };
                let own =
                    station.own.get_or_insert_with(|| Box::new(FreezeSet::new(STATION_HISTORY, max_silence)));
                let change = apply(own);
                station.silent = own.is_silent();
                change
            }
        };
        self.find_next_timeout();
        self.report(scope, change)
    }

    /// Turns the change of a scope's own state into the change of effective TFP.
    fn report(&mut self, scope: Scope, change: SilenceChange) -> TfpChange {
        let network_silent = self.network.is_silent();
        match (change, scope) {
            (SilenceChange::None, _) => TfpChange::None,
            (SilenceChange::Began, Scope::Network) => {
                self.silences += 1;
                self.network_silences += 1;
                TfpChange::NetworkBegan
            }
            (SilenceChange::Ended, Scope::Network) => TfpChange::NetworkEnded,
            (SilenceChange::Began, Scope::Station(id)) => {
                self.silences += 1;
                if let Some(station) = self.stations.get_mut(id.0 as usize) {
                    station.silences += 1;
                }
                self.silent_stations += 1;
                if network_silent { TfpChange::None } else { TfpChange::StationBegan(id) }
            }
            (SilenceChange::Ended, Scope::Station(id)) => {
                self.silent_stations -= 1;
                if network_silent { TfpChange::None } else { TfpChange::StationEnded(id) }
            }
        }
    }

    /// TFP of a station: it, or the whole network, must not send. O(1).
    #[must_use]
    #[inline]
    pub fn tfp(&self, station: StationId) -> bool {
        self.network.is_silent()
            || (self.silent_stations > 0
                && self.stations.get(station.0 as usize).is_some_and(|station| station.silent))
    }

    /// Silences so far that concerned the station: its own and the network's. A number that only grows. O(1).
    #[must_use]
    #[inline]
    pub fn silences_of(&self, station: StationId) -> u64 {
        self.network_silences + self.stations.get(station.0 as usize).map_or(0, |station| station.silences)
    }

    /// True if the whole network is silent.
    #[must_use]
    pub fn network_tfp(&self) -> bool {
        self.network.is_silent()
    }

    /// True if the network or any station is silent.
    #[must_use]
    #[inline]
    pub fn any_tfp(&self) -> bool {
        self.network.is_silent() || self.silent_stations > 0
    }

    fn own(&self, station: StationId) -> Option<&FreezeSet> {
        self.stations.get(station.0 as usize).and_then(|station| station.own.as_deref())
    }

    /// When the station's present silence should end: the latest over its active causes, told or (mean of the
    /// cause's past freezes) estimated; none if it is not silent or nothing is known of a cause. An end that
    /// has passed means that the silence lasts longer than expected.
    #[must_use]
    pub fn expected_end(&self, station: StationId) -> Option<Instant> {
        let own = self.own(station).filter(|own| own.is_silent());
        match (self.network.is_silent(), own) {
            (false, None) => None,
            (true, None) => self.network.expected_end(),
            (false, Some(own)) => own.expected_end(),
            (true, Some(own)) => Some(self.network.expected_end()?.max(own.expected_end()?)),
        }
    }

    /// α_i: the share of the window ΔT in which the station could send.
    #[must_use]
    pub fn alpha(&self, now: Instant, station: StationId) -> Fraction {
        match self.stations.get(station.0 as usize) {
            Some(known) if known.own.is_some() || known.schedule.is_some() => {
                self.cached(now, &known.alpha, |window| self.alpha_of(window, Some(known)))
            }
            Some(_) | None => self.cached(now, &self.shared_alpha, |window| self.alpha_of(window, None)),
        }
    }

    /// α_dsan: the average of α_i over the known stations; the network's own α while none is known.
    #[must_use]
    pub fn alpha_network(&self, now: Instant) -> Fraction {
        self.cached(now, &self.network_alpha, |window| {
            let shared = self.alpha_of(window, None);
            if self.stations.is_empty() {
                return shared;
            }
            let sum: f64 = self
                .stations
                .iter()
                .map(|station| match (&station.own, &station.schedule) {
                    (None, None) => shared.get(),
                    (Some(_), _) | (_, Some(_)) => self.alpha_of(window, Some(station)).get(),
                })
                .sum();
            Fraction::clamped(sum / self.stations.len() as f64)
        })
    }

    /// The grid point at or before `now`, and its number.
    fn grid(&self, now: Instant) -> (Instant, u64) {
        let step = (self.config.window.as_nanos() / ALPHA_GRID).max(1);
        let number = now.as_nanos() / step;
        (Instant::from_nanos(number * step), number)
    }

    fn cached(
        &self,
        now: Instant,
        cache: &Cell<Option<CachedAlpha>>,
        compute: impl FnOnce(Interval) -> Fraction,
    ) -> Fraction {
        let (at, step) = self.grid(now);
        if let Some(cached) = cache.get()
            && cached.step == step
            && cached.version == self.version
        {
            return cached.alpha;
        }
        let alpha = compute(self.window(at));
        cache.set(Some(CachedAlpha { step, version: self.version, alpha }));
        alpha
    }

    fn window(&self, now: Instant) -> Interval {
        Interval { start: now - self.config.window, end: now }
    }

    /// α over `window`, of a station, or of one that shares the network's silences only.
    fn alpha_of(&self, window: Interval, station: Option<&StationState>) -> Fraction {
        let own = station.and_then(|station| station.own.as_deref());
        let complete_from =
            self.network.complete_from().max(own.map_or(Instant::ZERO, FreezeSet::complete_from));
        let window = Interval { start: window.start.max(complete_from).min(window.end), end: window.end };
        let least = Duration::from_nanos(self.config.window.as_nanos() / 4);
        let observed = if complete_from > Instant::ZERO { window.len() } else { window.len().max(least) };
        if observed.is_zero() {
            return Fraction::ONE;
        }
        let silent = match self.config.alpha_form {
            AlphaForm::Union => {
                let own = own.into_iter().flat_map(|own| own.silences_within(window));
                let time = union_time(self.network.silences_within(window), own);
                time.as_secs_f64() / observed.as_secs_f64()
            }
            AlphaForm::Sum => {
                let network = sum_of_shares(Some(&self.network), self.network_schedule, window, observed);
                let own_schedule = station.and_then(|station| station.schedule);
                network + sum_of_shares(own, own_schedule, window, observed)
            }
        };
        Fraction::clamped(1.0 - silent)
    }

    /// Raw rate C and efficiency e of the present channel, once told.
    #[must_use]
    pub fn capacity(&self) -> Option<(BitRate, Fraction)> {
        self.capacity
    }

    /// Start and length (zero if not told) of the next silence announced for the station after `now`: a quiet
    /// period of a sensing schedule, or a freeze announced ahead.
    #[must_use]
    pub fn next_announced_silence(&self, now: Instant, station: StationId) -> Option<(Instant, Duration)> {
        let own = self.own(station).and_then(|own| own.next_announced(now));
        let announced = [self.network.next_announced(now), own].into_iter().flatten();
        self.schedules_of(station).filter_map(|schedule| schedule.next_after(now)).chain(announced).min()
    }

    fn schedule_mut(&mut self, scope: Scope) -> Option<&mut Schedule> {
        match scope {
            Scope::Network => self.network_schedule.as_mut(),
            Scope::Station(id) => self.stations.get_mut(id.0 as usize)?.schedule.as_mut(),
        }
    }

    fn schedules_of(&self, station: StationId) -> impl Iterator<Item = Schedule> {
        let own = self.stations.get(station.0 as usize).and_then(|station| station.schedule);
        [self.network_schedule, own].into_iter().flatten()
    }

    /// How much of the time from `now` on, of this length, quiet periods take that were announced for the
    /// station. Nothing if the last ones did not come when they were due.
    #[must_use]
    #[inline]
    pub fn silent_within(&self, now: Instant, length: Duration, station: StationId) -> Duration {
        let each = self.schedules_of(station).map(|schedule| schedule.silent_within(now, length));
        each.max().unwrap_or(Duration::ZERO)
    }

    /// End of the announced quiet period that lasts at `now` for the station.
    #[must_use]
    pub fn quiet_until(&self, now: Instant, station: StationId) -> Option<Instant> {
        self.schedules_of(station).filter_map(|schedule| schedule.quiet_until(now)).max()
    }

    /// True if a quiet period was announced for anybody.
    #[must_use]
    pub fn has_schedules(&self) -> bool {
        self.network_schedule.is_some() || self.stations.iter().any(|station| station.schedule.is_some())
    }

    /// The eleven parameters for `station` as of `now`.
    #[must_use]
    pub fn parameters(&self, now: Instant, station: StationId) -> LinkParameters {
        let window = self.window(now);
        let own = self.own(station);
        let own_schedule = self.stations.get(station.0 as usize).and_then(|station| station.schedule);
        let active = |freezes: Option<&FreezeSet>, cause| freezes.is_some_and(|set| set.is_active(cause));
        let network = Some(&self.network);
        let pu_history = self.network.history(Cause::PrimaryUser);
        let network_times = OnTimes::collect(pu_history, window.start);
        // A primary user heard at one station only is reported in that station's scope.
        let pu_on_times = match own {
            Some(own) if network_times.count() == 0 => {
                OnTimes::collect(own.history(Cause::PrimaryUser), window.start)
            }
            Some(_) | None => network_times,
        };
        LinkParameters {
            sense_dsan: recurrence(network, Cause::Sensing, self.network_schedule, window),
            sense_station: recurrence(own, Cause::Sensing, own_schedule, window),
            switch_dsan: recurrence(network, Cause::ChannelSwitch, None, window),
            pu_on_times,
            s_dsan: active(network, Cause::Sensing),
            sw_dsan: active(network, Cause::ChannelSwitch),
            s_station: active(own, Cause::Sensing),
            pu_on: active(network, Cause::PrimaryUser) || active(own, Cause::PrimaryUser),
        }
    }

    /// Silences so far: times the network fell silent, and times a station did by a cause of its own.
    #[must_use]
    #[inline]
    pub fn silences(&self) -> u64 {
        self.silences
    }

    /// Warning counter: freezes ended by `max_silence` because nobody ended them.
    #[must_use]
    pub fn timed_out_freezes(&self) -> u64 {
        self.timed_out_freezes
    }

    /// Warning counter: events of stations numbered beyond `max_stations`, ignored.
    #[must_use]
    pub fn untracked_events(&self) -> u64 {
        self.untracked_events
    }

    /// When [`on_timeout`](Self::on_timeout) wants to be called.
    #[must_use]
    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    /// Starts or ends **one** announced or overdue freeze that is due. More may be due: call again while
    /// [`next_timeout`](Self::next_timeout) is not after `now`.
    pub fn on_timeout(&mut self, now: Instant) -> TfpChange {
        let Some(due) = self.next_timeout.filter(|due| *due <= now) else { return TfpChange::None };
        let scope = if self.network.next_timeout() == Some(due) {
            Scope::Network
        } else {
            let index = self.stations.iter().position(|station| station_timeout(station) == Some(due));
            let Some(index) = index else { return TfpChange::None };
            Scope::Station(StationId(index as u32))
        };
        let mut timed_out = false;
        let change = self.change(scope, |freezes| match freezes.on_timeout(now) {
            Some(due) => {
                timed_out = due.overdue;
                due.change
            }
            None => SilenceChange::None,
        });
        self.timed_out_freezes += u64::from(timed_out);
        change
    }

    fn find_next_timeout(&mut self) {
        let stations = self.stations.iter().filter_map(station_timeout);
        self.next_timeout = stations.chain(self.network.next_timeout()).min();
    }
}

/// True of a silence that the radio itself decides on, so that it can be one of a schedule.
const fn is_planned(cause: Cause) -> bool {
    match cause {
        Cause::Sensing | Cause::ChannelSwitch | Cause::Grant => true,
        Cause::PrimaryUser | Cause::Fade => false,
    }
}

fn station_timeout(station: &StationState) -> Option<Instant> {
    station.own.as_ref().and_then(|own| own.next_timeout())
}

/// f and t of one cause: as announced, or else from history.
fn recurrence(
    freezes: Option<&FreezeSet>,
    cause: Cause,
    schedule: Option<Schedule>,
    window: Interval,
) -> Recurrence {
    if let Some(schedule) = schedule {
        return schedule.recurrence();
    }
    let Some(freezes) = freezes else { return Recurrence::default() };
    let since = window.start.max(freezes.history(cause).complete_from());
    let window = Interval { start: since.min(window.end), end: window.end };
    let (began, _) = freezes.activity(cause, window);
    parameters::estimate(began, freezes.mean_recent(cause), window)
}

/// The terms of equation (1) for one scope: Σ f·t over the causes.
fn sum_of_shares(
    freezes: Option<&FreezeSet>,
    schedule: Option<Schedule>,
    window: Interval,
    observed: Duration,
) -> f64 {
    let share = |cause| match (cause, schedule, freezes) {
        (Cause::Sensing, Some(schedule), _) => schedule.share(),
        (_, _, Some(freezes)) => freezes.activity(cause, window).1.as_secs_f64() / observed.as_secs_f64(),
        (_, _, None) => 0.0,
    };
    Cause::ALL.into_iter().map(share).sum()
}

#[cfg(test)]
mod tests;
