//! The timeline of silences: every change of the radio's condition, in order, from its seed alone.
//!
//! Source: dsasync section III-A (sensing, channel switches, incumbents); for measured traces, gaps in them.
//! Sees time; emits link events. No frame and no call other than [`Timeline::step`] reaches it, so the same
//! seed gives the same silences whatever is sent (common random numbers).
//! States of the network, each cause for itself: open → silent → open. Who knows when:
//! - sensing and channel switches are told as they take effect, with their length; schedules at time 0;
//! - a primary user is told when detected (`effective_at` = start of its burst); until then frames collide;
//!   its end is told when it is noticed, which is when the radio resumes;
//! - a gap in a delivery trace is told `detection_delay` after it starts, its end likewise;
//! - a sample of the SNR is told late by a delay of its own, with an error (`snr/reports.rs`);
//! - what of all this reaches those who listen, and how late, is [`crate::signals`]'s;
//! - with IEEE 802.15.4 the cell as a whole notices no primary user: each radio overhears it by itself
//!   ([`crate::detector`]), and CCA does the rest.

use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Fraction;

use crate::accounting::{AirAccounting, Meter, Service, Silence};
use crate::change::{Change, ChangeKind};
use crate::channel::{Channels, Condition};
use crate::config::AirConfig;
use crate::detector::Overhearing;
use crate::frame::{AirOutput, RadioId};
use crate::gaps::Gaps;
use crate::mac::air_time::AirTime;
use crate::mac::config::Mac;
use crate::mac::grants::config::GrantsConfig;
use crate::sensing::Sensing;
use crate::signals::{Signals, SilenceSource, ToldAccounting};
use crate::snr::reports::SnrReports;

/// What moves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// Time 0: what is known from the start is told.
    Opening,
    Channels,
    Sensing,
    StationSensing(usize),
    Gap,
    GapNotice,
    Overhearing,
    Snr,
    /// Somebody is told. Nothing changes on the air.
    Signal,
}

/// What the rates are those of.
#[derive(Clone, Debug)]
enum Kind {
    /// Channels.
    Channels,
    /// Bursts on channels: the uplink is granted.
    Granted(GrantsConfig),
    /// A trace, whose gaps are silences downlink: channels' rates do not matter.
    Trace {
        gap: Gaps,
        /// The same gaps when they are told.
        notice: Gaps,
    },
}

impl Kind {
    fn of(config: &AirConfig) -> Self {
        match &config.mac {
            Mac::Shared | Mac::Duplex | Mac::Ieee802154(_) | Mac::Dcf(_) => Self::Channels,
            Mac::Grants(grants) => Self::Granted(*grants),
            Mac::Trace(link) => {
                let gaps = link.down.gaps(link.silence_threshold);
                let lap = link.down.duration();
                Self::Trace {
                    gap: Gaps::new(gaps.clone(), lap, Duration::ZERO),
                    notice: Gaps::new(gaps, lap, link.detection_delay),
                }
            }
        }
    }

    const fn grants(&self) -> Option<&GrantsConfig> {
        match self {
            Self::Granted(grants) => Some(grants),
            Self::Channels | Self::Trace { .. } => None,
        }
    }

    /// The trace, if there is one, is in a gap.
    const fn is_in_gap(&self) -> bool {
        match self {
            Self::Trace { gap, .. } => gap.is_inside(),
            Self::Channels | Self::Granted(_) => false,
        }
    }
}

/// The radio's condition over time.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    opened: bool,
    channels: Channels,
    kind: Kind,
    rate_told: bool,
    sensing: Option<Sensing>,
    station_sensing: Vec<(StationId, Sensing)>,
    overhearing: Option<Overhearing>,
    /// Samples of the SNR. They change nothing on the air.
    snr: Option<Box<SnrReports>>,
    signals: Signals,

    next: Change,
    next_source: Source,

    condition: Condition,
    /// Index of the channel last told.
    channel: usize,
    /// When a primary user took the working channel.
    taken_since: Instant,
    retuning_until: Option<Instant>,
    sensing_quiet: bool,
    /// By station: its own sensing silences it.
    station_quiet: Vec<bool>,
    /// Start of the next scheduled silence of the network: sensing or a scripted switch.
    network_quiet_at: Instant,
    /// By station: start of its next own scheduled silence.
    station_quiet_at: Vec<Instant>,
    /// How long frames take on the working channel.
    air_time: AirTime,
    meter: Meter,
}

impl Timeline {
    /// The radio at time 0; `air_times` are those of the channels.
    pub(crate) fn new(
        config: &AirConfig,
        air_times: Vec<AirTime>,
        snr: Option<Box<SnrReports>>,
        seed: u64,
    ) -> Self {
        let switching = config.switching.clone();
        let overhearing = match &config.mac {
            Mac::Ieee802154(mac) => {
                // Without a user there is nothing to listen for.
                let listens = config.channels.iter().any(|channel| channel.primary_user.is_some());
                let radios = if listens { 0..config.stations + 1 } else { 0..0 };
                let hears = radios.map(|radio| mac.user_heard_by.includes(RadioId(radio))).collect();
                Some(Overhearing::new(&mac.overhearing, mac.user_address, hears, seed))
            }
            Mac::Shared | Mac::Duplex | Mac::Trace(_) | Mac::Dcf(_) | Mac::Grants(_) => None,
        };
        let channels = Channels::new(
            &config.channels,
            &config.measured_users,
            air_times,
            config.initial_channel,
            switching,
            overhearing.is_none(),
            seed,
        );
        let meter = match &config.mac {
            Mac::Shared | Mac::Duplex | Mac::Ieee802154(_) | Mac::Dcf(_) | Mac::Grants(_) => {
                Meter::for_channels(config.stations, channels.count())
            }
            Mac::Trace(link) => {
                Meter::for_trace(config.stations, link.down.clone(), link.up.clone(), link.silence_threshold)
            }
        };
        let station_sensing: Vec<(StationId, Sensing)> = config
            .station_sensing
            .iter()
            .filter_map(|own| Sensing::new(own.sensing).map(|sensing| (own.station, sensing)))
            .collect();
        let stations = config.stations as usize;
        let air_time = channels.air_time();
        let sensing_alone: Vec<StationId> = station_sensing.iter().map(|(station, _)| *station).collect();
        let signals = Signals::new(&config.signals, &sensing_alone, config.initial_channel, seed);
        let mut timeline = Self {
            opened: false,
            channels,
            kind: Kind::of(config),
            rate_told: config.rate_told,
            sensing: config.sensing.and_then(Sensing::new),
            station_sensing,
            overhearing,
            snr,
            signals,
            next: Change { at: Instant::ZERO, kind: ChangeKind::Resume },
            next_source: Source::Opening,
            condition: Condition::Clear,
            channel: config.initial_channel,
            taken_since: Instant::ZERO,
            retuning_until: None,
            sensing_quiet: false,
            station_quiet: vec![false; stations],
            network_quiet_at: Instant::FAR_FUTURE,
            station_quiet_at: vec![Instant::FAR_FUTURE; stations],
            air_time,
            meter,
        };
        timeline.refresh_schedule();
        timeline
    }

    pub(crate) const fn next(&self) -> Change {
        self.next
    }

    /// What comes next is only told: nothing changes on the air.
    pub(crate) const fn next_is_signal(&self) -> bool {
        matches!(self.next_source, Source::Signal)
    }

    /// What listeners were told of silences; `None` where each radio overhears by itself.
    pub(crate) const fn told(&self) -> Option<ToldAccounting> {
        if self.overhearing.is_some() { None } else { Some(self.signals.accounting()) }
    }

    /// The radio sends nothing to or from anyone. A trace's gaps do not count here: the trace itself has
    /// them.
    pub(crate) const fn stops_network(&self) -> bool {
        self.sensing_quiet || matches!(self.condition, Condition::Occupied | Condition::Retuning)
    }

    /// Frames on the air collide with a primary user.
    pub(crate) const fn collides(&self) -> bool {
        matches!(self.condition, Condition::Colliding)
    }

    /// The station is in its own quiet period.
    pub(crate) fn stops_station(&self, station: StationId) -> bool {
        self.station_quiet.get(station.0 as usize).copied().unwrap_or(false)
    }

    /// The network or the station is silent. Downlink a gap in the trace is a silence too.
    pub(crate) fn is_silent(&self, station: StationId, downlink: bool) -> bool {
        self.stops_network() || (downlink && self.kind.is_in_gap()) || self.stops_station(station)
    }

    /// The whole network is silent downlink.
    pub(crate) const fn is_network_silent(&self) -> bool {
        self.stops_network() || self.kind.is_in_gap()
    }

    /// Start of the next scheduled silence that covers `station`.
    pub(crate) fn quiet_at(&self, station: StationId) -> Instant {
        let own = self.station_quiet_at.get(station.0 as usize).copied().unwrap_or(Instant::FAR_FUTURE);
        own.min(self.network_quiet_at)
    }

    /// Index of the working channel.
    pub(crate) const fn channel(&self) -> usize {
        self.channel
    }

    /// How long frames take on the working channel.
    #[inline]
    pub(crate) const fn air_time(&self) -> &AirTime {
        &self.air_time
    }

    /// Totals from time 0 to `until`.
    pub(crate) fn accounting(&self, until: Instant) -> AirAccounting {
        self.meter.snapshot(until, self.service())
    }

    /// What the working channel can do.
    fn service(&self) -> Service {
        let (channel, rate) = (self.channel, self.air_time.effective_rate());
        let Some(grants) = self.kind.grants() else { return Service { channel, rate, uplink_rate: rate } };
        let (down, up) = grants.data_shares();
        let burst = grants.uplink_rate.map(|rate| rate.mul_f64(self.air_time.efficiency().get()));
        Service { channel, rate: rate.mul_f64(down), uplink_rate: burst.unwrap_or(rate).mul_f64(up) }
    }

    pub(crate) const fn meter(&self) -> &Meter {
        &self.meter
    }

    #[inline]
    pub(crate) fn take_silences(&mut self, into: &mut Vec<Silence>) {
        self.meter.take_silences(into);
    }

    /// Handles the next change, at its own time.
    pub(crate) fn step(&mut self, out: &mut AirOutput) {
        let change = self.next;
        if self.next_is_signal() {
            self.signals.step(out);
            self.refresh_schedule();
            return;
        }
        self.meter.advance(change, self.service());
        match self.next_source {
            Source::Opening => self.open(out),
            Source::Channels => {
                self.channels.step();
                self.channels.apply_policy(change.at);
                self.follow_channels(change.at, out);
            }
            Source::Sensing => self.step_sensing(change.at, out),
            Source::StationSensing(index) => self.step_station_sensing(index, change.at, out),
            Source::Gap => {
                if let Kind::Trace { gap, .. } = &mut self.kind {
                    let (start, end) = (gap.start(), gap.end());
                    gap.step();
                    let (scope, cause) = (Scope::Network, Cause::Fade);
                    if gap.is_inside() {
                        self.meter.start(start, scope, cause)
                    } else {
                        self.meter.end(end, scope, cause)
                    }
                }
            }
            Source::Overhearing => {
                if let Some(overhearing) = &mut self.overhearing {
                    overhearing.step(out);
                }
            }
            Source::GapNotice => {
                if let Kind::Trace { notice, .. } = &mut self.kind {
                    let (start, end) = (notice.start(), notice.end());
                    notice.step();
                    if notice.is_inside() {
                        self.signals.started(SilenceSource::Gaps, change.at, start, None, out);
                    } else {
                        self.signals.ended(SilenceSource::Gaps, change.at, end, out);
                    }
                }
            }
            Source::Snr => {
                if let Some(reports) = &mut self.snr {
                    reports.step(out);
                }
            }
            Source::Signal => {}
        }
        self.refresh_schedule();
    }

    fn open(&mut self, out: &mut AirOutput) {
        self.opened = true;
        if let Some(grants) = self.kind.grants() {
            let kind = LinkEventKind::GrantFrames { period: grants.frame };
            out.link(LinkEvent::at(Instant::ZERO, kind));
        }
        self.tell_channel(Instant::ZERO, out);
        let network = self.sensing.iter().map(|sensing| (Scope::Network, sensing));
        let stations = self.station_sensing.iter().map(|(station, own)| (Scope::Station(*station), own));
        for (scope, sensing) in network.chain(stations) {
            let config = sensing.config();
            if config.announced {
                let kind = LinkEventKind::SensingSchedule {
                    scope,
                    period: config.period,
                    duration: config.duration,
                    next: sensing.next_start(),
                };
                out.link(LinkEvent::at(Instant::ZERO, kind));
            }
        }
        self.channels.apply_policy(Instant::ZERO);
        self.follow_channels(Instant::ZERO, out);
    }

    fn tell_channel(&mut self, at: Instant, out: &mut AirOutput) {
        // A trace has no rate that stands; its mean, told as one, would be taken for what the radio can do.
        if matches!(self.kind, Kind::Trace { .. }) || !self.rate_told {
            return;
        }
        let (capacity, mut efficiency) = (self.air_time.phy_rate(), self.air_time.efficiency());
        if let Some(grants) = self.kind.grants() {
            // Of a burst's rate the downlink has its share of each frame.
            efficiency = Fraction::clamped(efficiency.get() * grants.data_shares().0);
        }
        self.signals.rate(at, LinkEventKind::ChannelSwitched { capacity, efficiency }, out);
    }

    /// Tells what changed on the channel set. New silences start before old ones end, so that a listener that
    /// counts overlapping silences never sees an opening that the air does not have.
    fn follow_channels(&mut self, at: Instant, out: &mut AirOutput) {
        let (was, is) = (self.condition, self.channels.condition());
        let (was_until, until) = (self.retuning_until, self.channels.retuning_until());
        self.condition = is;
        self.retuning_until = until;
        let network = Scope::Network;
        // A user that the radio left as soon as it had noticed it. What was sent into its burst before is
        // lost as it is where the radio stays.
        let left = was == Condition::Colliding && self.channels.has_noticed(self.channel);

        if let Some(until) = until
            && was_until != Some(until)
        {
            // A switch while retuning only moves the end.
            let since = if left { self.taken_since } else { at };
            self.signals.started(SilenceSource::Switching, at, since, Some(until.since(at)), out);
            self.meter.start(at, network, Cause::ChannelSwitch);
        }
        let taken = |condition| matches!(condition, Condition::Occupied | Condition::Colliding);
        let retuned = was_until.is_some() && until.is_none();
        if retuned || (until.is_none() && self.channel != self.channels.working_index()) {
            self.channel = self.channels.working_index();
            self.air_time = self.channels.air_time();
            self.tell_channel(at, out);
        }
        if taken(is) && !taken(was) {
            self.taken_since = at;
            self.meter.start(at, network, Cause::PrimaryUser);
            if let Some(overhearing) = &mut self.overhearing {
                overhearing.on_burst(at, self.channels.burst_end());
            }
        }
        // A user that was left tells of its end as it told of its start.
        if was != Condition::Occupied {
            self.signals.work_on(self.channels.working_index());
        }
        if is == Condition::Occupied && was != Condition::Occupied {
            self.signals.started(SilenceSource::User, at, self.taken_since, None, out);
        }
        if was == Condition::Occupied && is != Condition::Occupied {
            self.signals.ended(SilenceSource::User, at, at, out);
        }
        if taken(was) && !taken(is) {
            if was == Condition::Colliding && !left {
                self.signals.unnoticed();
            }
            self.meter.end(at, network, Cause::PrimaryUser);
        }
        self.signals.work_on(self.channels.working_index());
        if retuned {
            self.signals.ended(SilenceSource::Switching, at, at, out);
            self.meter.end(at, network, Cause::ChannelSwitch);
        }
    }

    fn step_sensing(&mut self, at: Instant, out: &mut AirOutput) {
        let Some(sensing) = &mut self.sensing else { return };
        sensing.step();
        self.sensing_quiet = sensing.is_quiet();
        if self.sensing_quiet {
            let length = sensing.config().duration;
            self.signals.started(SilenceSource::Sensing, at, at, Some(length), out);
            self.meter.start(at, Scope::Network, Cause::Sensing);
        } else {
            self.signals.ended(SilenceSource::Sensing, at, at, out);
            self.meter.end(at, Scope::Network, Cause::Sensing);
        }
    }

    fn step_station_sensing(&mut self, index: usize, at: Instant, out: &mut AirOutput) {
        let Some((station, sensing)) = self.station_sensing.get_mut(index) else { return };
        sensing.step();
        let scope = Scope::Station(*station);
        if let Some(quiet) = self.station_quiet.get_mut(station.0 as usize) {
            *quiet = sensing.is_quiet();
        }
        if sensing.is_quiet() {
            let length = sensing.config().duration;
            self.signals.started(SilenceSource::Station(index), at, at, Some(length), out);
            self.meter.start(at, scope, Cause::Sensing);
        } else {
            self.signals.ended(SilenceSource::Station(index), at, at, out);
            self.meter.end(at, scope, Cause::Sensing);
        }
    }

    /// Finds what moves next, and when the next scheduled silences start.
    fn refresh_schedule(&mut self) {
        let mut best = (Change::NEVER, Source::Channels);
        let mut offer = |change: Change, source: Source| {
            if change < best.0 {
                best = (change, source);
            }
        };
        if !self.opened {
            offer(Change { at: Instant::ZERO, kind: ChangeKind::Resume }, Source::Opening);
        } else {
            offer(self.channels.next(), Source::Channels);
            if let Some(sensing) = &self.sensing {
                offer(sensing.next(), Source::Sensing);
            }
            for (index, (_, sensing)) in self.station_sensing.iter().enumerate() {
                offer(sensing.next(), Source::StationSensing(index));
            }
            if let Kind::Trace { gap, notice } = &self.kind {
                offer(gap.next(), Source::Gap);
                offer(notice.next(), Source::GapNotice);
            }
            if let Some(overhearing) = &self.overhearing {
                offer(Change { at: overhearing.next(), kind: ChangeKind::Stop }, Source::Overhearing);
            }
            if let Some(reports) = &self.snr {
                offer(Change { at: reports.next(), kind: ChangeKind::Resume }, Source::Snr);
            }
            offer(Change { at: self.signals.next(), kind: ChangeKind::Stop }, Source::Signal);
        }
        (self.next, self.next_source) = best;

        let sensing_at = self.sensing.as_ref().map_or(Instant::FAR_FUTURE, Sensing::next_start);
        self.network_quiet_at = sensing_at.min(self.channels.next_scripted());
        for (station, sensing) in &self.station_sensing {
            if let Some(at) = self.station_quiet_at.get_mut(station.0 as usize) {
                *at = sensing.next_start();
            }
        }
    }
}
