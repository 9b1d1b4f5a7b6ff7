//! From what nl80211 says to what the agent is told: silences with their cause, start and length.
//!
//! Source: measured on mac80211_hwsim with hostapd 2.10 and Linux 6.1 (`make test-wifi`); IEEE 802.11-2020,
//! 11.8.8 (channel switch announcement); 47 CFR 15.407(h) (radar).
//!
//! | nl80211 says | The agent is told |
//! |---|---|
//! | switch started, `count`, stations may send | a silence from `count` − 2 beacons on, less [`LEAD`] |
//! | switch started, `count`, `BLOCK_TX` or a radar | a silence from now on, for `count` − 1 beacons and [`FOLLOW`] |
//! | switched | the silence ends after [`FOLLOW`]; it begins now if nobody announced it |
//! | a switch at another time than was announced | the silence announced before is over |
//! | radar | nothing yet; a switch within [`RADAR_MOVE`] has this cause |
//! | scan started, ended | a silence from now on, over |
//! | away to another channel, back | a silence from now on, for the time asked, over |
//! | access point stopped, checks a channel for radar, is a station | every silence is over |
//!
//! For each radio: working → silent (switch, away, or both) → working; → down (let go) → working. Every
//! silence carries the longest time that it may last, so it ends even if the kernel never says so.
//!
//! A switch without `BLOCK_TX` is announced from the first moment at which it may come, because what is sent
//! into the switch is lost: stations follow later, and docs/router.md says how much. The moment is known to a
//! beacon interval only: the count says how many beacons are left, not when the next one is due. Waiting for
//! "switched" instead loses what stands in the driver's queue by then.

use linkhold_core::link_event::Cause;
use linkhold_core::link_monitor::is_told_twice;
use linkhold_core::time::{Duration, Instant};

use super::message::{Event, Message};
use crate::agent::silences::Ends;

/// 100 time units of 1,024 us, the interval that access points use. nl80211 does not tell it.
pub const BEACON_INTERVAL: Duration = Duration::from_micros(102_400);
/// Stations are on the new channel this long after the access point. When they really are, `make test-wifi`
/// measures, and fails if this is much shorter or longer (scripts/wifi/returns.py).
pub const FOLLOW: Duration = Duration::from_millis(45);
/// A silence begins this much before the first beacon at which the switch may come, so that the driver's
/// queue is empty by then: `make test-wifi` fails if something let go before it is lost.
pub const LEAD: Duration = Duration::from_millis(10);
/// A switch may come this much later than its count says: beacons may be late, or rarer than usual.
pub const LATE_SWITCH: Duration = Duration::from_millis(500);
/// Within this time of a radar the radio leaves the channel (channel move time, 47 CFR 15.407(h)(2)(iii)).
pub const RADAR_MOVE: Duration = Duration::from_secs(10);
/// A scan listens for this long on a channel on which it asks for answers, and on one where it may not.
const PROBED_CHANNEL: Duration = Duration::from_millis(80);
const PASSIVE_CHANNEL: Duration = Duration::from_millis(120);
/// A scan that takes longer a channel, on average, is given up.
const LONGEST_CHANNEL: Duration = Duration::from_millis(250);
/// The driver may come back from another channel later than it was asked to: 50 ms were seen.
const LATE_BACK: Duration = Duration::from_millis(250);

/// A radio interface of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Radio {
    /// Its name.
    pub name: String,
    /// Name of the interface that nl80211 has for it: its own, or a port's where it is a bridge.
    pub hears: String,
    /// Its index; `None`: there is none of this name, or it is no wireless one.
    pub index: Option<u32>,
    /// True while it serves stations, as far as nl80211 has said.
    pub serving: bool,
    /// Messages that concerned it.
    pub events: u64,
    wiphy: Option<u32>,
    /// Its type, as last told, is one that serves no stations: a client has channel switches, too, and the
    /// access point is a station to it.
    is_client: bool,
    /// MHz of the channel it works on, where known.
    frequency: Option<u32>,
    radar_at: Option<Instant>,
    switch: Option<UnderWay<Cause>>,
    away: Option<UnderWay<Away>>,
}

/// A silence that was told: when it begins or began, when it should be over, and when it is over if nobody
/// says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnderWay<T> {
    what: T,
    from: Instant,
    expected_end: Option<Instant>,
    until: Instant,
}

impl<T: PartialEq> UnderWay<T> {
    fn new(what: T, silence: Silence) -> Self {
        let Silence { from, expected, at_most, .. } = silence;
        Self { what, from, expected_end: expected.map(|length| from + length), until: from + at_most }
    }

    /// True if `next` takes the place of this one and whoever is told of `next` alone would keep both: it
    /// has another cause, is announced for later while this one lasts, or was announced for a time that is
    /// now not that of the switch.
    fn is_superseded_by(&self, next: &Self, now: Instant) -> bool {
        let told_twice = is_told_twice((self.from, self.expected_end), (next.from, next.expected_end));
        let lasts = self.from <= now;
        self.until > now && (self.what != next.what || if lasts { next.from > now } else { !told_twice })
    }
}

/// Why the radio is on another channel for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Away {
    Scan,
    /// With its cookie.
    Remain(u64),
}

/// What the agent is told of one radio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RadioSignal {
    /// Which radio, by its place in [`Translator::radios`].
    pub radio: usize,
    /// What the radio does.
    pub kind: SignalKind,
}

/// What the agent is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalKind {
    /// A silence begins, or more is known of it.
    Silent {
        /// Why.
        cause: Cause,
        /// When it begins; may lie ahead.
        from: Instant,
        /// How long it is expected to last, where known.
        expected: Option<Duration>,
        /// When it is over if nobody says so; above zero, and no more than the longest allowed.
        ends: Ends,
    },
    /// The silence of this cause is over now.
    Over {
        /// Its cause.
        cause: Cause,
    },
}

/// Turns messages into signals. It has no clock and no socket.
#[derive(Clone, Debug)]
pub struct Translator {
    radios: Vec<Radio>,
    max_silence: Duration,
    /// True if some radio serves stations on a channel that is not known.
    lacks_channel: bool,
}

impl Translator {
    /// For the interfaces of these names. No silence may last longer than `max_silence`, which is above zero.
    #[must_use]
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>, max_silence: Duration) -> Self {
        Self { radios: names.into_iter().map(Radio::new).collect(), max_silence, lacks_channel: false }
    }

    /// The radios, in the order of their names.
    #[must_use]
    pub fn radios(&self) -> &[Radio] {
        &self.radios
    }

    /// A radio is a bridge, and this is its only Wi-Fi port, if it has one: what that one announces is the
    /// radio's from now on. What the one before announced is over. False if it was so before.
    pub fn hear(
        &mut self,
        now: Instant,
        number: usize,
        port: Option<&str>,
        out: &mut Vec<RadioSignal>,
    ) -> bool {
        let Some(radio) = self.radios.get_mut(number) else { return false };
        let hears = port.unwrap_or(&radio.name);
        if radio.hears == hears {
            return false;
        }
        radio.hears = hears.to_owned();
        radio.forget(now, &mut |kind| out.push(RadioSignal { radio: number, kind }));
        true
    }

    /// Takes a message that was read at `now`, and appends what it means to `out`: at most two signals for
    /// each radio.
    pub fn handle_message(&mut self, now: Instant, message: &Message<'_>, out: &mut Vec<RadioSignal>) {
        for (number, radio) in self.radios.iter_mut().enumerate() {
            if radio.is_concerned(message) {
                radio.events += 1;
                let limits = Limits { max: self.max_silence };
                radio.handle_event(now, message, limits, &mut |kind| {
                    out.push(RadioSignal { radio: number, kind });
                });
                self.lacks_channel |= message.event == Event::StationCame && radio.frequency.is_none();
            }
        }
    }

    /// True once, when it would be good to ask nl80211 for the interfaces: a radio serves stations again, and
    /// its channel may be another one.
    pub fn take_question(&mut self) -> bool {
        core::mem::take(&mut self.lacks_channel)
    }
}

/// A silence to be told.
#[derive(Clone, Copy)]
struct Silence {
    cause: Cause,
    from: Instant,
    expected: Option<Duration>,
    at_most: Duration,
}

impl Silence {
    /// `ends`: whether the kernel says when it is over, or it is by the clock.
    fn told(self, ends: fn(Duration) -> Ends) -> SignalKind {
        let Self { cause, from, expected, at_most } = self;
        SignalKind::Silent { cause, from, expected, ends: ends(at_most) }
    }
}

/// Bounds every silence.
#[derive(Clone, Copy)]
struct Limits {
    max: Duration,
}

impl Limits {
    fn silent(self, cause: Cause, from: Instant, expected: Option<Duration>, at_most: Duration) -> Silence {
        let at_most = at_most.min(self.max);
        Silence { cause, from, expected: expected.map(|length| length.min(at_most)), at_most }
    }
}

impl Radio {
    fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            hears: name.to_owned(),
            index: None,
            serving: false,
            is_client: false,
            events: 0,
            wiphy: None,
            frequency: None,
            radar_at: None,
            switch: None,
            away: None,
        }
    }

    /// True if the message concerns this radio. A scan of another interface on the same radio, or its time on
    /// another channel, takes this one away, too.
    fn is_concerned(&self, message: &Message<'_>) -> bool {
        let this = self.index.is_some() && message.interface == self.index;
        let same_radio = self.wiphy.is_some() && message.wiphy == self.wiphy;
        match message.event {
            Event::Interface { name, .. } => name == self.hears,
            Event::ScanStarted { .. }
            | Event::ScanEnded
            | Event::AwayStarted { .. }
            | Event::AwayEnded { .. } => this || same_radio,
            // The kernel tells of a radar once for each radio that knows the channel.
            Event::Radar => same_radio && (self.frequency.is_none() || self.frequency == message.frequency),
            Event::SwitchStarted { .. }
            | Event::Switched
            | Event::CheckStarted
            | Event::Stopped
            | Event::StationCame
            | Event::InterfaceGone => this,
        }
    }

    fn handle_event(
        &mut self,
        now: Instant,
        message: &Message<'_>,
        limits: Limits,
        tell: &mut dyn FnMut(SignalKind),
    ) {
        match message.event {
            Event::SwitchStarted { count, block_tx } => {
                self.serving |= !self.is_client;
                self.switch_started(now, count, block_tx, limits, tell);
            }
            Event::Switched => {
                self.serving |= !self.is_client;
                self.frequency = message.frequency;
                self.switched(now, limits, tell);
            }
            Event::Radar => self.radar_at = Some(now),
            Event::ScanStarted { channels, passive } => {
                let each = if passive { PASSIVE_CHANNEL } else { PROBED_CHANNEL };
                let (expected, at_most) = match channels {
                    0 => (None, limits.max),
                    _ => (Some(each * channels), LONGEST_CHANNEL * channels + LATE_BACK),
                };
                self.leave(now, Away::Scan, expected, at_most, limits, tell);
            }
            // A radio that stays on its own channel hears its stations.
            Event::AwayStarted { .. } if self.frequency.is_some() && message.frequency == self.frequency => {}
            Event::AwayStarted { duration, cookie } => {
                let at_most = duration + LATE_BACK;
                self.leave(now, Away::Remain(cookie), Some(duration), at_most, limits, tell);
            }
            Event::ScanEnded => self.come_back(now, Away::Scan, tell),
            Event::AwayEnded { cookie } => self.come_back(now, Away::Remain(cookie), tell),
            Event::CheckStarted | Event::Stopped => self.let_go(now, tell),
            Event::StationCame => self.serving |= !self.is_client,
            Event::Interface { serves, .. } => {
                (self.index, self.wiphy) = (message.interface.or(self.index), message.wiphy.or(self.wiphy));
                self.frequency = message.frequency.or(self.frequency);
                self.is_client = !serves;
                if serves {
                    self.serving = true;
                } else {
                    self.let_go(now, tell);
                }
            }
            Event::InterfaceGone => self.forget(now, tell),
        }
    }

    fn switch_started(
        &mut self,
        now: Instant,
        count: u8,
        block_tx: bool,
        limits: Limits,
        tell: &mut dyn FnMut(SignalKind),
    ) {
        let radar = self.radar_at.is_some_and(|at| now.since(at) <= RADAR_MOVE);
        let cause = if radar { Cause::PrimaryUser } else { Cause::ChannelSwitch };
        // The first beacon comes within an interval, and the switch comes with the beacon that counts to one.
        let beacons = |number: u8| BEACON_INTERVAL * u32::from(number);
        let latest = beacons(count.saturating_sub(1).max(1)) + FOLLOW;
        // Whoever leaves a radar's channel sends nothing more there, also where a kernel does not tell
        // `BLOCK_TX`.
        let from = match block_tx || radar {
            true => now,
            false => (now + beacons(count.saturating_sub(2)) - LEAD).max(now),
        };
        let expected = (now + latest).since(from);
        let silence = limits.silent(cause, from, Some(expected), expected + LATE_SWITCH);
        // A radar was heard while the radio counted down to a switch of its own, or its switch was announced
        // for another time.
        self.switch_is(UnderWay::new(cause, silence), now, tell);
        tell(silence.told(Ends::AtMost));
    }

    fn switched(&mut self, now: Instant, limits: Limits, tell: &mut dyn FnMut(SignalKind)) {
        // A switch that was announced long ago has come, or has failed.
        let announced = self.switch.filter(|switch| now.since(switch.until) <= RADAR_MOVE);
        let cause = announced.map_or(Cause::ChannelSwitch, |switch| switch.what);
        let silence = limits.silent(cause, now, Some(FOLLOW), FOLLOW);
        // It may come before the time for which it was announced, which then holds no silence.
        self.switch_is(UnderWay::new(cause, silence), now, tell);
        self.radar_at = None;
        tell(silence.told(Ends::ByClock));
    }

    /// The radio's switch is this one now. What was told of the one before is taken back, where it would
    /// last.
    fn switch_is(&mut self, switch: UnderWay<Cause>, now: Instant, tell: &mut dyn FnMut(SignalKind)) {
        let before = self.switch.replace(switch);
        if let Some(before) = before.filter(|before| before.is_superseded_by(&switch, now)) {
            tell(SignalKind::Over { cause: before.what });
        }
    }

    fn leave(
        &mut self,
        now: Instant,
        away: Away,
        expected: Option<Duration>,
        at_most: Duration,
        limits: Limits,
        tell: &mut dyn FnMut(SignalKind),
    ) {
        // Nobody listens to an access point that is down.
        if self.serving {
            let silence = limits.silent(Cause::Sensing, now, expected, at_most);
            self.away = Some(UnderWay::new(away, silence));
            tell(silence.told(Ends::AtMost));
        }
    }

    fn come_back(&mut self, now: Instant, away: Away, tell: &mut dyn FnMut(SignalKind)) {
        let ended = self.away.take_if(|under_way| under_way.what == away);
        // A silence that lasted too long has been ended already.
        if ended.is_some_and(|ended| ended.until > now) {
            tell(SignalKind::Over { cause: Cause::Sensing });
        }
    }

    /// The interface is another one, or gone.
    fn forget(&mut self, now: Instant, tell: &mut dyn FnMut(SignalKind)) {
        self.let_go(now, tell);
        (self.index, self.wiphy, self.is_client) = (None, None, false);
    }

    /// The access point is down: whatever is held would wait for nobody.
    fn let_go(&mut self, now: Instant, tell: &mut dyn FnMut(SignalKind)) {
        (self.serving, self.radar_at, self.frequency) = (false, None, None);
        let switch = self.switch.take().filter(|switch| switch.until > now).map(|switch| switch.what);
        let away = self.away.take().filter(|away| away.until > now).map(|_| Cause::Sensing);
        for cause in [switch, away].into_iter().flatten() {
            tell(SignalKind::Over { cause });
        }
    }
}
