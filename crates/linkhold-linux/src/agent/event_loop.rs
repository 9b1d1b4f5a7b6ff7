//! The agent's one thread: packets, link events, timers and clients, each in its turn.
//!
//! Opened → running → (stop is readable) → everything let go, rules removed.
//!
//! It waits in `ppoll` with the nearest deadline: mechanism, end of a silence, start of a scheduled one.
//! Packets come in bounded batches, so neither a flood of them nor of lines starves a timer.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use linkhold_core::link_event::{LinkEvent, LinkEventKind, Scope};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::clock::Clock;
use super::config::{AgentConfig, RadioEvents};
use super::control::{Control, Service};
use super::driver::Driver;
use super::error::AgentError;
use super::guardian::Guardian;
use super::lock::InstanceLock;
use super::metrics::Exporter;
use super::nl80211::{Nl80211, RadioSignal, SignalKind};
use super::protocol::{Event, Message, Query, Reply, Target, parse_line};
use super::schedule::Schedule;
use super::silences::Silences;
use super::stations::Stations;
use super::status::{Channel, Packets, Status, Windows};
use crate::datapath::DataPath;
use crate::datapath::nfqueue::NfQueue;
use crate::datapath::rules::{self, Rules};

/// Packets handled between two looks at timers and clients: a few hundred microseconds.
const PACKETS_PER_TURN: usize = 64;
/// A guardian that lived for less than this is not replaced: what ended it would end the next one, too.
const GUARDIAN_MIN_LIFE: Duration = Duration::from_secs(1);
/// Most event sources that are counted apart; events of further ones count as `other`.
const MAX_SOURCES: usize = 64;
/// Source of an event that names none.
const UNNAMED_SOURCE: &str = "socket";
/// Source of what nl80211 tells.
const NL80211_SOURCE: &str = "nl80211";
/// Source of an end that the agent itself brings about.
const TIMER_SOURCE: &str = "timer";

/// A running agent.
pub struct Agent {
    core: Core,
    control: Control,
    rules: Option<Rules>,
    /// The guardian and when it started.
    guardian: Option<(Guardian, Instant)>,
    _lock: InstanceLock,
}

/// Everything but the control socket and the metrics port, so that a client's turn can borrow it.
struct Core {
    clock: Clock,
    instance: String,
    rules_name: &'static str,
    driver: Driver<NfQueue>,
    silences: Silences,
    schedules: Vec<Schedule>,
    /// What Wi-Fi radios tell by themselves.
    nl80211: Option<Nl80211>,
    sources: BTreeMap<String, u64>,
    exporter: Exporter,
    max_silence: Duration,
    /// The radio's capacity, as last told.
    channel: Option<Channel>,
}

impl Agent {
    /// Opens queue, rules and doors in the calling thread's network namespace, with this mechanism.
    ///
    /// # Errors
    /// [`AgentError`]; nothing is left behind.
    pub fn open(config: &AgentConfig, mechanism: Box<dyn Mechanism>) -> Result<Self, AgentError> {
        let clock = Clock::start();
        let lock = InstanceLock::take(&config.instance)?;
        let control = Control::open(&config.control, &config.metrics)?;
        let backend = rules::prepare(&config.instance, config.datapath.backend)?;
        let mut datapath = NfQueue::unbound(&config.queues())?;
        // The guardian is there before the first packet can be held, and the queue before the first can come.
        let guardian = if config.guardian { Some((start_guardian(&datapath)?, clock.now())) } else { None };
        datapath.bind()?;
        let rules = Rules::install(&config.rules(), backend)?;
        let mut stations = Stations::new(config.stations.iter().map(|station| station.addresses.as_slice()));
        let (now, wall) = (clock.now(), Clock::wall());
        let schedules = config
            .schedules
            .iter()
            .map(|section| {
                let scope = scope_of(&mut stations, section.scope);
                let times = (section.period, section.duration, section.phase);
                Schedule::new(section.name.clone(), scope, section.cause, times, now, wall)
            })
            .collect();
        let mut core = Core {
            clock,
            instance: config.instance.clone(),
            rules_name: rules.backend().name(),
            driver: Driver::new(datapath, mechanism, stations),
            silences: Silences::new(config.silence.max),
            schedules,
            nl80211: match config.radio_events {
                RadioEvents::Nl80211 => open_nl80211(config),
                RadioEvents::None => None,
            },
            sources: BTreeMap::new(),
            exporter: Exporter::new(&config.instance),
            max_silence: config.silence.max,
            channel: None,
        };
        match config.channel {
            Some(channel) => {
                let kind = core.switch(channel.capacity, channel.efficiency);
                core.tell("config", LinkEvent::at(now, kind));
            }
            None => tracing::info!(
                "what the radio carries is not known, and measured: better, tell it (`[channel]`, `linkhold signal switch`)"
            ),
        }
        core.announce_schedules();
        Ok(Self { core, control, rules: Some(rules), guardian, _lock: lock })
    }

    /// Runs until `stop` is readable, then lets everything go and removes the rules.
    ///
    /// # Errors
    /// [`AgentError::Broken`] when the data path breaks or waiting fails; everything is let go then, too.
    pub fn run(mut self, stop: BorrowedFd<'_>) -> Result<(), AgentError> {
        let result = self.work(stop).map_err(AgentError::Broken);
        self.shut_down();
        result
    }

    fn work(&mut self, stop: BorrowedFd<'_>) -> io::Result<()> {
        let watchdog = sd_notify::watchdog_enabled();
        let mut next_pet = watchdog.map(|_| Instant::ZERO);
        let mut more_packets = false;
        loop {
            let now = self.core.clock.now();
            if let (Some(limit), Some(at)) = (watchdog, next_pet)
                && at <= now
            {
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
                // systemd advises half its limit.
                next_pet = Some(now + Duration::from_nanos(limit.as_nanos() as u64 / 2));
            }
            let ready = self.wait(stop, next_pet, more_packets)?;
            if ready.stop {
                return Ok(());
            }
            if ready.guardian {
                self.replace_guardian();
            }
            self.core.handle_time();
            // Before the packets: what the radio says decides what becomes of them.
            if ready.radio {
                self.core.handle_radio();
            }
            if ready.packets || more_packets {
                let clock = self.core.clock;
                more_packets = self.core.driver.handle_packets(PACKETS_PER_TURN, || clock.now())?;
            }
            if ready.control {
                self.control.take_turn(&mut self.core);
            }
        }
    }

    /// Waits until a descriptor is ready or a deadline has come.
    fn wait(&self, stop: BorrowedFd<'_>, next_pet: Option<Instant>, more_packets: bool) -> io::Result<Ready> {
        let now = self.core.clock.now();
        let control_timeout = self.control.next_timeout().map(|at| {
            let left = at.saturating_duration_since(std::time::Instant::now());
            now + Duration::from_nanos(left.as_nanos() as u64)
        });
        let deadline = [self.core.next_timeout(), next_pet, control_timeout].into_iter().flatten().min();
        let timeout = match (more_packets, deadline) {
            (true, _) => Some(Duration::ZERO),
            (false, Some(at)) => Some(at.since(now)),
            (false, None) => None,
        };
        let mut polled = Vec::with_capacity(8);
        polled.push(PollFd::new(stop, PollFlags::POLLIN));
        polled.push(PollFd::new(self.core.driver.datapath().readable(), PollFlags::POLLIN));
        let radio = self.core.nl80211.as_ref().map(Nl80211::readable);
        polled.extend(radio.map(|socket| PollFd::new(socket, PollFlags::POLLIN)));
        let guardian = self.guardian.as_ref().map(|(guardian, _)| guardian.pipe());
        polled.extend(guardian.map(|pipe| PollFd::new(pipe, PollFlags::empty())));
        for (fd, writes) in self.control.descriptors() {
            let flags = if writes { PollFlags::POLLIN | PollFlags::POLLOUT } else { PollFlags::POLLIN };
            polled.push(PollFd::new(fd, flags));
        }
        match ppoll(&mut polled, timeout.map(timespec), None) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => {
                return Ok(Ready::default());
            }
            Err(errno) => return Err(errno.into()),
        }
        let mut ready = polled.iter().map(|fd| fd.any().unwrap_or(false));
        let stop = ready.next().unwrap_or(false);
        let packets = ready.next().unwrap_or(false);
        let radio = radio.is_some() && ready.next().unwrap_or(false);
        let guardian = guardian.is_some() && ready.next().unwrap_or(false);
        let timed_out = control_timeout.is_some_and(|at| at <= self.core.clock.now());
        Ok(Ready { stop, packets, radio, guardian, control: ready.any(|ready| ready) || timed_out })
    }

    /// Replaces a guardian that is gone, most likely killed: held packets are not to depend on the agent
    /// alone.
    fn replace_guardian(&mut self) {
        let Some((dead, since)) = self.guardian.take() else { return };
        drop(dead);
        let now = self.core.clock.now();
        if now.since(since) < GUARDIAN_MIN_LIFE {
            tracing::error!("the guardian died at once: held packets are lost if the agent is killed");
            return;
        }
        match start_guardian(self.core.driver.datapath()) {
            Ok(guardian) => {
                tracing::warn!("the guardian was gone: started another");
                self.guardian = Some((guardian, now));
            }
            Err(error) => {
                tracing::error!(%error, "no guardian: held packets are lost if the agent is killed");
            }
        }
    }

    fn shut_down(mut self) {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        let now = self.core.clock.now();
        let held = self.core.driver.mechanism().metrics().held_packets;
        self.core.driver.let_go(now);
        // Programs remove the rules, which takes milliseconds in which packets still arrive. These must not
        // wait for a reader that is gone, nor be overtaken by packets that arrive after the rules are gone.
        self.core.driver.pass_everything();
        drop(self.rules.take());
        if let Some((guardian, _)) = self.guardian.take() {
            guardian.dismiss();
        }
        tracing::info!(held, "let everything go, removed the rules");
    }
}

#[derive(Default)]
struct Ready {
    stop: bool,
    packets: bool,
    /// nl80211 has told something.
    radio: bool,
    /// The guardian is gone.
    guardian: bool,
    control: bool,
}

fn start_guardian(datapath: &NfQueue) -> Result<Guardian, AgentError> {
    Guardian::start(datapath.netlink().as_raw_fd(), datapath.queue_numbers())
}

/// The source of what Wi-Fi radios tell. Without it the agent hears of silences from others only, and runs.
fn open_nl80211(config: &AgentConfig) -> Option<Nl80211> {
    let names = config.radio.iter().map(String::as_str);
    match Nl80211::open(names, config.silence.max) {
        Ok(Some(source)) => Some(source),
        Ok(None) => {
            tracing::info!(
                "no nl80211 here: silences are told by `linkhold signal`, the socket or the clock"
            );
            None
        }
        Err(error) => {
            tracing::warn!(%error, "nl80211 cannot be read: silences of Wi-Fi radios must be told from outside");
            None
        }
    }
}

fn timespec(duration: Duration) -> TimeSpec {
    TimeSpec::from_duration(std::time::Duration::from_nanos(duration.as_nanos()))
}

fn scope_of(stations: &mut Stations, target: Target) -> Scope {
    match target {
        Target::Network => Scope::Network,
        Target::Station(addr) => Scope::Station(stations.id(addr)),
    }
}

impl Core {
    fn next_timeout(&self) -> Option<Instant> {
        let schedules = self.schedules.iter().map(Schedule::next_start).min();
        [self.driver.mechanism().next_timeout(), self.silences.next_end(), schedules]
            .into_iter()
            .flatten()
            .min()
    }

    /// Does everything whose time has come: silences first, then the mechanism's own timers.
    fn handle_time(&mut self) {
        let now = self.clock.now();
        while let Some(event) = self.silences.end_due(now) {
            self.tell(TIMER_SOURCE, event);
        }
        for index in 0..self.schedules.len() {
            let schedule = &mut self.schedules[index];
            let due = schedule.next_start();
            if !schedule.starts(now, Clock::wall()) {
                continue;
            }
            let (scope, cause, duration) = (schedule.scope, schedule.cause.0, schedule.duration);
            let source = schedule.name.clone();
            if let Err(error) = self.silences.begin(scope, cause, due, Some(duration)) {
                tracing::warn!(%error, source, "a scheduled silence is left out");
                continue;
            }
            let kind = LinkEventKind::FreezeStarted { scope, cause, expected: Some(duration) };
            self.tell(&source, LinkEvent { detected_at: now, effective_at: Some(due), kind });
        }
        self.driver.handle_timeout(now);
    }

    /// Reads what Wi-Fi radios have told, and tells it to the mechanism.
    fn handle_radio(&mut self) {
        let Some(mut source) = self.nl80211.take() else { return };
        let now = self.clock.now();
        let read = source.read(now).map(<[RadioSignal]>::to_vec);
        match read {
            Ok(signals) => {
                for signal in signals {
                    let name = source.radios().get(signal.radio).map_or("", |radio| radio.name.as_str());
                    self.apply_radio(now, name, signal.kind);
                }
                self.nl80211 = Some(source);
            }
            Err(error) => tracing::error!(%error, "nl80211 is no longer read"),
        }
    }

    /// Carries out what the radio interface called `radio` has told.
    fn apply_radio(&mut self, now: Instant, radio: &str, kind: SignalKind) {
        let scope = Scope::Network;
        match kind {
            SignalKind::Silent { cause, from, expected, at_most } => {
                tracing::debug!(radio, ?cause, ahead = %from.since(now), %at_most, "the radio falls silent");
                if let Err(error) = self.silences.begin(scope, cause, from, Some(at_most)) {
                    tracing::warn!(%error, radio, "a silence of the radio is left out");
                    return;
                }
                let kind = LinkEventKind::FreezeStarted { scope, cause, expected };
                self.tell(NL80211_SOURCE, LinkEvent { detected_at: now, effective_at: Some(from), kind });
            }
            SignalKind::Over { cause } => {
                tracing::debug!(radio, ?cause, "the radio is back");
                self.silences.end(scope, cause, now, now);
                self.tell(NL80211_SOURCE, LinkEvent::at(now, LinkEventKind::FreezeEnded { scope, cause }));
            }
        }
    }

    fn announce_schedules(&mut self) {
        for index in 0..self.schedules.len() {
            let schedule = &self.schedules[index];
            let kind = LinkEventKind::SensingSchedule {
                scope: schedule.scope,
                period: schedule.period,
                duration: schedule.duration,
                next: schedule.next_start(),
            };
            let source = schedule.name.clone();
            self.tell(&source, LinkEvent { detected_at: self.clock.now(), effective_at: None, kind });
        }
    }

    fn tell(&mut self, source: &str, event: LinkEvent) {
        tracing::debug!(source, ?event, "link event");
        self.count(source);
        self.driver.handle_link(self.clock.now(), event);
    }

    fn count(&mut self, source: &str) {
        if let Some(count) = self.sources.get_mut(source) {
            *count += 1;
            return;
        }
        let name = if self.sources.len() < MAX_SOURCES { source } else { "other" };
        *self.sources.entry(name.to_owned()).or_default() += 1;
    }

    fn switch(&mut self, capacity: BitRate, efficiency: Fraction) -> LinkEventKind {
        self.channel = Some(Channel { capacity_bps: capacity.as_bps(), efficiency: efficiency.get() });
        LinkEventKind::ChannelSwitched { capacity, efficiency }
    }

    /// Carries out an event from the socket.
    fn apply(&mut self, message: &Message, event: &Event) -> Result<(), String> {
        let now = self.clock.now();
        let detected_at = now - Duration::from_secs_f64(message.detected_ago_s.unwrap_or(0.0));
        let effective_at = match message.effective_in_s {
            Some(seconds) if seconds < 0.0 => now - Duration::from_secs_f64(-seconds),
            Some(seconds) => now + Duration::from_secs_f64(seconds),
            None => detected_at,
        };
        let kind = self.link_event(now, effective_at, event)?;
        let source = message.source.as_deref().unwrap_or(UNNAMED_SOURCE);
        self.tell(source, LinkEvent { detected_at, effective_at: Some(effective_at), kind });
        Ok(())
    }

    /// The event in the core's terms. A silence that it begins or ends is noted.
    fn link_event(
        &mut self,
        now: Instant,
        effective_at: Instant,
        event: &Event,
    ) -> Result<LinkEventKind, String> {
        let seconds = Duration::from_secs_f64;
        let kind = match *event {
            Event::Freeze { scope, cause, expected_s, for_s } => {
                let lasting = for_s.map(seconds);
                if lasting.is_some_and(|lasting| lasting > self.max_silence) {
                    return Err(format!(
                        "`for_s` is longer than `silence.max` of the configuration, {}",
                        self.max_silence
                    ));
                }
                let scope = scope_of(self.driver.stations(), scope);
                self.silences
                    .begin(scope, cause.0, effective_at, lasting)
                    .map_err(|error| error.to_string())?;
                LinkEventKind::FreezeStarted {
                    scope,
                    cause: cause.0,
                    expected: lasting.or(expected_s.map(seconds)),
                }
            }
            Event::Thaw { scope, cause } => {
                let scope = scope_of(self.driver.stations(), scope);
                self.silences.end(scope, cause.0, now, effective_at);
                LinkEventKind::FreezeEnded { scope, cause: cause.0 }
            }
            Event::Switch { capacity_bps, efficiency } => {
                self.switch(BitRate(capacity_bps), Fraction::clamped(efficiency))
            }
            Event::Snr { station, db } => {
                LinkEventKind::Snr { station: self.driver.stations().id(station), db }
            }
            Event::Sensing { scope, period_s, duration_s, next_in_s } => LinkEventKind::SensingSchedule {
                scope: scope_of(self.driver.stations(), scope),
                period: seconds(period_s),
                duration: seconds(duration_s),
                next: now + seconds(next_in_s),
            },
            Event::Grant { station, in_s, bytes } => LinkEventKind::Grant {
                station: self.driver.stations().id(station),
                at: now + seconds(in_s),
                bytes: Bytes(bytes),
            },
            Event::Room { packets, bytes } => LinkEventKind::TransmitRoom { packets, bytes: Bytes(bytes) },
        };
        Ok(kind)
    }

    fn status(&self) -> Status {
        let metrics = self.driver.mechanism().metrics();
        let now = self.clock.now();
        let (silences_now, counts) = (self.silences.under_way(now), self.silences.counts());
        let path = self.driver.datapath().counters();
        let mut packets = Packets {
            seen: path.received,
            held: metrics.held_packets,
            held_bytes: metrics.held_bytes,
            held_bytes_peak: metrics.held_bytes_peak,
            holds: metrics.holds,
            released: metrics.released,
            rewritten: path.replaced,
            verdict_errors: path.verdict_errors,
            ..Packets::default()
        };
        packets.set_dropped(&metrics.dropped);
        Status {
            schema: "linkhold.status/1".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            instance: self.instance.clone(),
            mechanism: self.driver.mechanism().name().to_owned(),
            datapath: self.driver.datapath().name().to_owned(),
            rules: self.rules_name.to_owned(),
            uptime_s: now.as_secs_f64(),
            silent: silences_now > 0,
            silences_now,
            silences: metrics.silences,
            silences_begun: counts.begun,
            silences_announced: self.silences.announced(now),
            silences_ended: counts.ended,
            silences_timed: counts.timed,
            silences_overdue: counts.overdue,
            channel: self.channel,
            flows: metrics.flows,
            stations: self.driver.station_count(),
            packets,
            windows: Windows {
                closed_now: metrics.windows_closed_now,
                closed: metrics.windows_closed,
                reopened: metrics.windows_reopened,
                clamped: metrics.windows_clamped,
                probes_answered: metrics.probes_answered,
                acks_injected: path.injected,
                inject_errors: path.inject_errors,
            },
            events: self.sources.clone(),
            nl80211: self.nl80211.as_ref().map(Nl80211::status),
            driver: self.driver.counters(),
        }
    }
}

impl Service for Core {
    fn answer_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let reply = match parse_line(line) {
            Ok(message) => match (&message.event, message.query) {
                (Some(event), _) => match self.apply(&message, event) {
                    Ok(()) => Reply::done(),
                    Err(error) => Reply::refused(error),
                },
                (None, Some(Query::Status)) => {
                    Reply { ok: true, error: None, status: Some(Box::new(self.status())) }
                }
                (None, None) => Reply::refused("neither `event` nor `query`"),
            },
            Err(error) => Reply::refused(error),
        };
        match serde_json::to_vec(&reply) {
            Ok(bytes) => out.extend_from_slice(&bytes),
            // Every value of a status can be written as JSON. If one could not, the client must still get an
            // answer.
            Err(_) => out.extend_from_slice(b"{\"ok\":false}"),
        }
        out.push(b'\n');
    }

    fn metrics_text(&mut self) -> String {
        let status = self.status();
        self.exporter.render(&status)
    }
}
