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
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_results::Program;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::clock::Clock;
use super::config::{AgentConfig, RadioEvents, Seat};
use super::control::{Control, Service};
use super::driver::{Driver, Radio};
use super::error::AgentError;
use super::guardian::Guardian;
use super::lock::InstanceLock;
use super::metrics::Exporter;
use super::nl80211::{Nl80211, SignalKind};
use super::processor::{allowed, stay_on};
use super::protocol::{Cause, Event, FREEZE_TOO_LONG, Message, Query, Reply, Target, parse_line, shorten};
use super::replacement::Replacement;
use super::schedule::{Schedule, WallClock};
use super::senders::Senders;
use super::silences::{Ended, Over, Silences, Source};
use super::snr::{Sample, SnrSource};
use super::stations::{HOST, NoNumberLeft, Stations};
use super::status::{Channel, MechanismStatus, Packets, RadioStatus, Status, Windows};
use super::surroundings::Surroundings;
use crate::datapath::DataPath;
use crate::datapath::nfqueue::NfQueue;
use crate::datapath::rules::{self, Backend, BackendChoice, NotReplaced, REMOVAL_LIMIT, RuleSet, Rules};

/// Packets handled between two looks at timers and clients: a few hundred microseconds.
const PACKETS_PER_TURN: usize = 64;
/// A guardian that lived for less than this is not replaced at once: what ended it would end the next one,
/// too.
const GUARDIAN_MIN_LIFE: Duration = Duration::from_secs(1);
/// After so long another guardian is tried.
const GUARDIAN_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// What is told while there is none.
const NO_GUARDIAN: &str = "there is no guardian, so held packets are lost if the agent is killed: the log says why; the agent tries again";
/// Most event sources that are counted apart; events of further ones count as `other`.
const MAX_SOURCES: usize = 64;
/// Source of an event that names none.
const UNNAMED_SOURCE: &str = "socket";
/// Source of what nl80211 tells.
const NL80211_SOURCE: &str = "nl80211";
/// Source of what a host hears of its own radio's strength.
const SNR_SOURCE: &str = "snr";
/// Source of an end that the agent itself brings about.
const TIMER_SOURCE: &str = "timer";

/// A running agent.
pub struct Agent {
    core: Core,
    control: Control,
    rules: Option<Rules>,
    rule_set: RuleSet,
    choice: BackendChoice,
    replacement: Replacement,
    /// The guardian and when it started.
    guardian: Option<(Guardian, Instant)>,
    _lock: InstanceLock,
}

/// Everything but the control socket and the metrics port, so that a client's turn can borrow it.
struct Core {
    clock: Clock,
    program: Program,
    instance: String,
    /// The mechanisms' names.
    mechanism: String,
    rules_name: &'static str,
    driver: Driver<NfQueue>,
    /// In the driver's order.
    radios: Vec<RadioState>,
    schedules: Vec<Schedule>,
    wall: WallClock,
    /// What Wi-Fi radios tell by themselves.
    nl80211: Option<Nl80211>,
    /// Where a host hears the signal-to-noise ratio, beside the control socket.
    snr: Option<SnrSource>,
    samples: Vec<Sample>,
    sources: BTreeMap<String, u64>,
    exporter: Exporter,
    max_silence: Duration,
    processor: Option<u32>,
    /// What failed for good, each with what to change: the metrics' port.
    failures: Vec<String>,
    /// Why nl80211 is not heard, until it is again.
    nl80211_lost: Option<String>,
    /// When to start a guardian again, if one is wanted and there is none.
    guardian_due: Option<Instant>,
    /// Silences of Wi-Fi radios are to be heard from nl80211.
    wants_nl80211: bool,
    surroundings: Surroundings,
}

/// What an event from the socket did on a radio, the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Effect {
    /// The mechanism does not listen to such an event, and was not told.
    Unheard,
    /// There was no silence to end.
    NothingEnded,
    /// A silence that was announced will not come.
    CalledOff,
    /// It was told.
    Done,
}

/// What the event loop knows of one radio.
struct RadioState {
    /// Its interface.
    name: String,
    silences: Silences,
    /// Its capacity, as last told.
    channel: Option<Channel>,
}

impl RadioState {
    /// The capacity is told.
    fn note_channel(&mut self, capacity: BitRate, efficiency: Fraction) {
        self.channel = Some(Channel { capacity_bps: capacity.as_bps(), efficiency: efficiency.get() });
    }
}

impl Agent {
    /// Opens queues, rules, control socket and metrics port in the calling thread's network namespace, with a
    /// mechanism for each radio in the order of the configuration. The calling thread stays on the processor
    /// that the configuration chooses.
    ///
    /// # Errors
    /// [`AgentError`]; nothing is left behind.
    pub fn open(
        config: &AgentConfig,
        program: &Program,
        mechanisms: Vec<Box<dyn Mechanism>>,
        senders: Box<dyn Senders>,
    ) -> Result<Self, AgentError> {
        let clock = Clock::start();
        let processors = allowed();
        let processor = stay_on(config.datapath.processor)?;
        let lock = InstanceLock::take(&config.instance)?;
        let mut surroundings = Surroundings::explore(config, processors.clone(), clock.now())?;
        let control = Control::open(&config.control, &config.metrics)?;
        let rule_set = RuleSet { bridged: surroundings.bridged().clone(), ..config.rules() };
        let backend = rules::prepare(&rule_set, config.datapath.backend)?;
        let mut datapath = NfQueue::unbound(&config.queues())?;
        // The guardian is there before the first packet can be held, and the queue before the first can come.
        let guardian = if config.guardian { Some((start_guardian(&datapath)?, clock.now())) } else { None };
        datapath.bind()?;
        let rules = Rules::install(&rule_set, backend)?;
        surroundings.note_rules(&rule_set, backend, clock.now());
        let addresses = || config.stations.iter().map(|station| station.addresses.as_slice());
        let stations = || match config.seat {
            Seat::Router => Stations::new(addresses()),
            Seat::Host(_) => Stations::of_host(),
        };
        let copies_of = config.keeps_copies().then(|| config.seat.towards_the_radio());
        let radios = mechanisms.into_iter().map(|mechanism| {
            let radio = Radio::new(mechanism, stations());
            match copies_of {
                Some(direction) => radio.keeping_copies_of(direction),
                None => radio,
            }
        });
        // A schedule without a radio is one for each.
        let schedules = config.schedules.len() * config.radio.len();
        let state = |name: &String| RadioState {
            name: name.clone(),
            silences: Silences::new(config.silence.max, schedules),
            channel: None,
        };
        let mut core = Core {
            clock,
            program: program.clone(),
            instance: config.instance.clone(),
            mechanism: config.mechanism_name(),
            rules_name: rules.backend().name(),
            driver: Driver::new(datapath, radios.collect()).with_senders(senders),
            radios: config.radio.iter().map(state).collect(),
            schedules: Vec::new(),
            wall: WallClock::new(clock.now(), Clock::wall()),
            nl80211: None,
            snr: match &config.seat {
                Seat::Host(host) => SnrSource::open(&host.snr, &config.radio, clock.now()),
                Seat::Router => None,
            },
            samples: Vec::new(),
            sources: BTreeMap::new(),
            exporter: Exporter::new(&config.instance),
            max_silence: config.silence.max,
            guardian_due: None,
            wants_nl80211: config.radio_events == RadioEvents::Nl80211,
            processor,
            failures: control
                .metrics_trouble()
                .map(str::to_owned)
                .into_iter()
                .chain(ipv6_trouble(backend))
                .collect(),
            nl80211_lost: None,
            surroundings,
        };
        if core.wants_nl80211 {
            core.open_nl80211();
        }
        core.schedules = core.schedules(config)?;
        let now = clock.now();
        for (radio, channel) in config.channels.iter().enumerate() {
            match channel {
                Some(channel) => {
                    let (capacity, efficiency) = (channel.capacity, channel.efficiency);
                    if let Some(state) = core.radios.get_mut(radio) {
                        state.note_channel(capacity, efficiency);
                    }
                    let kind = LinkEventKind::ChannelSwitched { capacity, efficiency };
                    core.tell(radio, "config", LinkEvent::at(now, kind));
                }
                None => tracing::info!(
                    radio = core.name_of(radio),
                    "the radio's rate is not told, so it is measured; tell it only if it is fixed or somebody tells each change"
                ),
            }
        }
        core.announce_schedules();
        let replacement = Replacement::new(rules::replace, processors);
        let choice = config.datapath.backend;
        Ok(Self { core, control, rules: Some(rules), rule_set, choice, replacement, guardian, _lock: lock })
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
            if self.core.guardian_due.is_some_and(|due| due <= self.core.clock.now()) {
                self.start_guardian_again();
            }
            self.core.handle_time();
            if self.core.surroundings.look_again(self.core.clock.now()) {
                self.replace_rules();
            }
            if self.core.surroundings.take_arrival() {
                self.core.renew_nl80211();
            }
            self.note_replacement();
            // Before the packets: what the radio says, or somebody says of it, decides what becomes of them.
            if ready.radio {
                self.core.handle_radio();
            }
            if ready.control {
                self.control.take_turn(&mut self.core);
            }
            if ready.packets || more_packets {
                let clock = self.core.clock;
                more_packets = self.core.driver.handle_packets(PACKETS_PER_TURN, || clock.now())?;
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
        let deadlines = [self.core.next_timeout(), next_pet, control_timeout, self.core.guardian_due];
        let deadline = deadlines.into_iter().flatten().min();
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
        polled.extend(self.control.descriptors().map(|(fd, flags)| PollFd::new(fd, flags)));
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
            self.core.guardian_due = Some(now + GUARDIAN_AGAIN_AFTER);
            return;
        }
        self.start_guardian_again();
    }

    fn start_guardian_again(&mut self) {
        let now = self.core.clock.now();
        match start_guardian(self.core.driver.datapath()) {
            Ok(guardian) => {
                tracing::warn!("the guardian was gone: started another");
                self.guardian = Some((guardian, now));
                self.core.guardian_due = None;
            }
            Err(error) => {
                tracing::error!(%error, "no guardian: held packets are lost if the agent is killed");
                self.core.guardian_due = Some(now + GUARDIAN_AGAIN_AFTER);
            }
        }
    }

    /// Has the rules replaced, since a radio came into a bridge or left one. Packets of the other radios go
    /// through the queue all the while.
    fn replace_rules(&mut self) {
        self.rule_set.bridged = self.core.surroundings.bridged().clone();
        if self.choice == BackendChoice::Nftables && !self.rule_set.bridged.is_empty() {
            let trouble = "a radio was put into a bridge, and its packets pass the agent by: what is bridged needs iptables, whose \
                           physdev match knows a bridge's ports; set `datapath.backend` to \"auto\" and restart the agent";
            self.core.surroundings.note_no_rules(trouble.to_owned());
            return;
        }
        self.replacement.want(self.rule_set.clone(), self.core.clock.now());
    }

    /// Takes over what became of it.
    fn note_replacement(&mut self) {
        let now = self.core.clock.now();
        let Some(rules) = &mut self.rules else { return };
        let Some((set, result)) = self.replacement.poll(rules.backend(), now) else { return };
        let remedy = match result {
            Ok(backend) => {
                rules.note_backend(backend);
                self.core.rules_name = backend.name();
                return self.core.surroundings.note_rules(&set, backend, now);
            }
            Err(NotReplaced::Locked(_)) => "the agent tries again",
            Err(_) => "restart the agent",
        };
        if let Err(error) = result {
            let trouble = format!(
                "the rules are those of before a radio changed its bridge, and its packets pass the agent by: {error}; \
                 {remedy}"
            );
            self.core.surroundings.note_no_rules(trouble);
        }
    }

    fn shut_down(mut self) {
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        let now = self.core.clock.now();
        let held = self.core.driver.held_packets();
        self.core.driver.let_go(now);
        // Programs remove the rules, which takes milliseconds in which packets still arrive. These must not
        // wait for a reader that is gone, nor be overtaken by packets that arrive after the rules are gone.
        self.core.driver.pass_everything();
        let pet = || {
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Watchdog]);
        };
        pet();
        let begun = std::time::Instant::now();
        // What is put in meanwhile would stay.
        self.replacement.finish(REMOVAL_LIMIT / 2);
        if let Some(rules) = self.rules.take() {
            rules.remove(REMOVAL_LIMIT.saturating_sub(begun.elapsed()), pet);
        }
        if let Some((guardian, _)) = self.guardian.take() {
            guardian.dismiss();
        }
        tracing::info!(held, "let everything go");
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

/// What is told for good where IPv6 is in use and its flows pass unmanaged; the log has the reason.
fn ipv6_trouble(backend: Backend) -> Option<String> {
    let is_used = std::path::Path::new("/proc/net/if_inet6").exists();
    (backend.lacks_ipv6() && is_used).then(|| {
        "ip6tables cannot queue packets here, so IPv6 flows pass unmanaged: `linkhold doctor agent` says why; mend that and \
         restart the agent"
            .to_owned()
    })
}

fn start_guardian(datapath: &NfQueue) -> Result<Guardian, AgentError> {
    Guardian::start(datapath.netlink().as_raw_fd(), datapath.queue_numbers())
}

fn timespec(duration: Duration) -> TimeSpec {
    TimeSpec::from_duration(std::time::Duration::from_nanos(duration.as_nanos()))
}

impl Core {
    /// True if the mechanism of a radio listens to such an event.
    fn listens(&self, radio: usize, kind: &LinkEventKind) -> bool {
        self.driver.radios().get(radio).is_some_and(|radio| radio.mechanism().listens_to(kind))
    }

    fn next_timeout(&self) -> Option<Instant> {
        let schedules = self.schedules.iter().map(Schedule::next_start).min();
        let silences = self.radios.iter().filter_map(|radio| radio.silences.next_due()).min();
        let look = Some(self.surroundings.next_look());
        let snr = self.snr.as_ref().map(SnrSource::next_look);
        [self.driver.next_timeout(), silences, schedules, look, snr].into_iter().flatten().min()
    }

    fn name_of(&self, radio: usize) -> &str {
        self.radios.get(radio).map_or("", |radio| radio.name.as_str())
    }

    /// The configured schedules, each once for every radio that it silences.
    fn schedules(&mut self, config: &AgentConfig) -> Result<Vec<Schedule>, AgentError> {
        let (now, wall) = (self.clock.now(), Clock::wall());
        let mut schedules = Vec::new();
        for section in &config.schedules {
            for radio in 0..self.radios.len() {
                if section.radio.as_ref().is_some_and(|name| name != self.name_of(radio)) {
                    continue;
                }
                let silence = Event::Freeze {
                    scope: section.scope,
                    cause: section.cause,
                    expected_s: None,
                    for_s: Some(section.duration.as_secs_f64()),
                };
                if !self.listens(radio, &silence.kind(section.scope.of_nobody(), now)) {
                    tracing::warn!(
                        schedule = section.name,
                        "the schedule does nothing: {} does not listen to {}",
                        self.mechanism,
                        silence.describe()
                    );
                    continue;
                }
                let scope = self
                    .scope_of(radio, section.scope, now)
                    .map_err(|error| AgentError::Schedule(section.name.clone(), error))?;
                // A station that is silenced by the clock is never idle.
                self.keep(radio, scope, Instant::FAR_FUTURE);
                let times = (section.period, section.duration, section.phase);
                let name = section.name.clone();
                schedules.push(Schedule::new(name, radio, scope, section.cause, times, now, wall));
            }
        }
        Ok(schedules)
    }

    /// The scope that a target means on a radio.
    fn scope_of(&mut self, radio: usize, target: Target, now: Instant) -> Result<Scope, NoNumberLeft> {
        match target {
            Target::Network => Ok(Scope::Network),
            Target::Station(addr) => self.driver.station(radio, addr, now).map(Scope::Station),
        }
    }

    /// A station that is silent keeps its number until the silence is over.
    fn keep(&mut self, radio: usize, scope: Scope, until: Instant) {
        if let (Scope::Station(id), Some(stations)) = (scope, self.driver.stations_mut(radio)) {
            stations.keep(id, until);
        }
    }

    /// Does everything whose time has come: silences first, then the mechanism's own timers.
    fn handle_time(&mut self) {
        let now = self.clock.now();
        for radio in 0..self.radios.len() {
            while let Some(event) = self.radios[radio].silences.due(now) {
                self.tell(radio, TIMER_SOURCE, event);
            }
        }
        // What the ends of silences let go may have taken long: the two clocks are compared at one time.
        self.follow_wall_clock(self.clock.now());
        for index in 0..self.schedules.len() {
            let now = self.clock.now();
            let schedule = &mut self.schedules[index];
            let due = schedule.next_start();
            if !schedule.starts(now, Clock::wall()) {
                continue;
            }
            let (radio, scope, cause) = (schedule.radio, schedule.scope, schedule.cause.0);
            let (source, duration) = (schedule.name.clone(), schedule.duration);
            let expected = Some(duration);
            let own = Source::Schedule(index);
            let silences = &mut self.radios[radio].silences;
            match silences.begin(own, now, scope, cause, due, expected, expected) {
                Ok(true) => {}
                Ok(false) => {
                    self.count(&source);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(%error, source, "a scheduled silence is left out");
                    continue;
                }
            }
            let kind = LinkEventKind::FreezeStarted { scope, cause, expected };
            self.tell(radio, &source, LinkEvent { detected_at: now, effective_at: Some(due), kind });
        }
        self.handle_snr(self.clock.now());
        // A mechanism was perhaps told of something meanwhile, and its time must not run back.
        self.driver.handle_timeout(self.clock.now());
    }

    /// Computes the schedules anew if the wall clock was set, as NTP does once on a router that has no clock
    /// of its own, and announces them again.
    fn follow_wall_clock(&mut self, now: Instant) {
        if self.schedules.is_empty() || !self.wall.was_set(now, Clock::wall()) {
            return;
        }
        for schedule in &mut self.schedules {
            schedule.realign(now, Clock::wall());
        }
        tracing::info!("the wall clock was set: schedules follow it");
        self.announce_schedules();
    }

    /// Tells the mechanisms what the host's own sources say of the signal-to-noise ratio.
    fn handle_snr(&mut self, now: Instant) {
        let Some(source) = &mut self.snr else { return };
        let mut samples = std::mem::take(&mut self.samples);
        source.look(now, &mut samples);
        if samples.is_empty() {
            self.samples = samples;
            return;
        }
        // Of a radio's samples in one look the newest says how it is now.
        let mut newest = vec![None; self.radios.len()];
        for (radio, db) in samples.drain(..) {
            if let Some(newest) = newest.get_mut(radio)
                && newest.replace(db).is_some()
            {
                self.count(SNR_SOURCE);
            }
        }
        for (radio, db) in newest.into_iter().enumerate().filter_map(|(radio, db)| Some((radio, db?))) {
            let kind = LinkEventKind::Snr { station: HOST, db };
            self.tell(radio, SNR_SOURCE, LinkEvent::at(now, kind));
        }
        self.samples = samples;
    }

    /// Opens the source of what Wi-Fi radios tell. Without it the agent hears of silences from others only,
    /// and runs.
    fn open_nl80211(&mut self) {
        let names = self.radios.iter().map(|radio| radio.name.as_str());
        self.nl80211_lost = None;
        match Nl80211::open(names, self.max_silence) {
            Ok(Some(source)) => {
                self.nl80211 = Some(source);
                self.hear_ports();
            }
            Ok(None) => tracing::info!(
                "no nl80211 here: silences are told by `linkhold signal`, the socket or the clock"
            ),
            Err(error) => self.lose_nl80211(&error),
        }
    }

    /// Radios that are bridges are heard by their Wi-Fi ports.
    fn hear_ports(&mut self) {
        let Some(mut source) = self.nl80211.take() else { return };
        let now = self.clock.now();
        let port = |(number, radio): (usize, &RadioState)| {
            // One that is no bridge any more speaks for itself again.
            (number, self.surroundings.heard_for(&radio.name).map(str::to_owned))
        };
        let ports: Vec<_> = self.radios.iter().enumerate().map(port).collect();
        for signal in source.hear(now, ports.iter().map(|(number, port)| (*number, port.as_deref()))) {
            self.apply_radio(now, signal.radio, signal.kind);
        }
        self.nl80211 = Some(source);
    }

    /// A configured interface has appeared or is another one, or the Wi-Fi ports of a bridge are. nl80211 may
    /// have come with it, or anew, or not know the name that it has now.
    fn renew_nl80211(&mut self) {
        if let Some(snr) = &mut self.snr {
            snr.renew();
        }
        self.hear_ports();
        match &mut self.nl80211 {
            Some(source) => {
                if let Err(error) = source.renew() {
                    self.nl80211 = None;
                    self.lose_nl80211(&error);
                }
            }
            None if self.wants_nl80211 => self.open_nl80211(),
            None => {}
        }
    }

    /// nl80211 is not read any more.
    fn lose_nl80211(&mut self, error: &io::Error) {
        let trouble = format!(
            "nl80211 cannot be read ({error}), so silences of Wi-Fi radios must be told from outside until it can; the agent \
             tries again when an interface comes or is another one"
        );
        tracing::error!("{trouble}");
        self.nl80211_lost = Some(trouble);
    }

    /// Reads what Wi-Fi radios have told, and tells it to their mechanisms.
    fn handle_radio(&mut self) {
        let Some(mut source) = self.nl80211.take() else { return };
        let now = self.clock.now();
        match source.read(now) {
            Ok(signals) => {
                // The source's radios are those of the configuration, in the same order.
                for signal in signals {
                    self.apply_radio(now, signal.radio, signal.kind);
                }
                self.nl80211 = Some(source);
            }
            Err(error) => self.lose_nl80211(&error),
        }
    }

    /// Carries out what a radio has told by itself.
    fn apply_radio(&mut self, now: Instant, radio: usize, kind: SignalKind) {
        let scope = Scope::Network;
        let event = match kind {
            SignalKind::Silent { cause, expected, .. } => {
                LinkEventKind::FreezeStarted { scope, cause, expected }
            }
            SignalKind::Over { cause } => LinkEventKind::FreezeEnded { scope, cause },
        };
        if !self.listens(radio, &event) {
            self.count(NL80211_SOURCE);
            return;
        }
        let Some(state) = self.radios.get_mut(radio) else { return };
        let name = &state.name;
        match kind {
            SignalKind::Silent { cause, from, expected, ends } => {
                tracing::debug!(radio = name, ?cause, ahead = %from.since(now), ?ends, "the radio falls silent");
                match state.silences.begin(Source::Radio, now, scope, cause, from, ends, expected) {
                    Ok(true) => {}
                    Ok(false) => return self.count(NL80211_SOURCE),
                    Err(error) => {
                        tracing::warn!(%error, radio = name, "a silence of the radio is left out");
                        return;
                    }
                }
                let event = LinkEvent { detected_at: now, effective_at: Some(from), kind: event };
                self.tell(radio, NL80211_SOURCE, event);
            }
            SignalKind::Over { cause } => {
                tracing::debug!(radio = name, ?cause, "the radio is back");
                if state.silences.end(Source::Radio, scope, cause, now, now).is_last {
                    self.tell(radio, NL80211_SOURCE, LinkEvent::at(now, event));
                } else {
                    self.count(NL80211_SOURCE);
                }
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
            let (radio, source) = (schedule.radio, schedule.name.clone());
            let event = LinkEvent { detected_at: self.clock.now(), effective_at: None, kind };
            self.tell(radio, &source, event);
        }
    }

    /// Tells the mechanism of a radio, in the name of `source`.
    fn tell(&mut self, radio: usize, source: &str, event: LinkEvent) {
        tracing::debug!(radio = self.name_of(radio), source, ?event, "link event");
        self.count(source);
        self.driver.handle_link(radio, self.clock.now(), event);
    }

    fn count(&mut self, source: &str) {
        if let Some(count) = self.sources.get_mut(source) {
            *count += 1;
            return;
        }
        let name = if self.sources.len() < MAX_SOURCES { source } else { "other" };
        *self.sources.entry(name.to_owned()).or_default() += 1;
    }

    /// Carries out an event from the socket; answers the names of the radios that it was told to, and why it
    /// did nothing if so.
    fn apply(&mut self, message: &Message, event: &Event) -> Result<Reply, String> {
        let radios = self.radios_meant(message.radio.as_deref(), event)?;
        // The limit is the same for every radio, so this is said once and names none.
        if let Event::Freeze { for_s: Some(for_s), .. } = event
            && Duration::from_secs_f64(*for_s) > self.max_silence
        {
            return Err(format!("{FREEZE_TOO_LONG}{}", self.max_silence));
        }
        let mut most = Effect::Unheard;
        let (mut told, mut failed) = (Vec::new(), Vec::new());
        for &radio in &radios {
            let effect = match self.apply_to(radio, message, event) {
                Ok(effect) => effect,
                Err(error) if radios.len() == 1 => return Err(error),
                Err(error) => {
                    failed.push(format!("{}: {error}", self.name_of(radio)));
                    continue;
                }
            };
            if effect != Effect::Unheard {
                told.push(self.name_of(radio).to_owned());
            }
            most = most.max(effect);
        }
        // Who hears that it was refused would not end it where it was not.
        if !failed.is_empty() {
            let failed = failed.join("; ");
            return if told.is_empty() { Err(failed) } else { Ok(Reply::told(told, Some(failed))) };
        }
        let note = match (most, event) {
            (Effect::Unheard, _) => {
                Some(format!("nothing was done: {} does not listen to {}", self.mechanism, event.describe()))
            }
            (Effect::NothingEnded, Event::Thaw { cause, .. }) => Some(self.nothing_thawed(*cause, &radios)),
            (Effect::CalledOff, Event::Thaw { cause, .. }) => {
                Some(format!("the next silence announced for cause {} is called off", cause.name()))
            }
            (Effect::NothingEnded | Effect::CalledOff | Effect::Done, _) => None,
        };
        Ok(Reply::told(told, note))
    }

    fn nothing_thawed(&self, cause: Cause, radios: &[usize]) -> String {
        let mut others: Vec<&str> = (radios.iter().filter_map(|&radio| self.radios.get(radio)))
            .flat_map(|state| state.silences.causes())
            .map(|cause| Cause(cause).name())
            .collect();
        others.sort_unstable();
        others.dedup();
        let others = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
        let cause = cause.name();
        format!(
            "no silence of cause {cause} could be ended there; causes of the silences under way: {others}"
        )
    }

    /// The radios that an event concerns: the one that is named; without a name the only one, or of several
    /// the one that knows the station, or every one if no station is meant.
    fn radios_meant(&self, named: Option<&str>, event: &Event) -> Result<Vec<usize>, String> {
        let names = || self.radios.iter().map(|radio| radio.name.as_str()).collect::<Vec<_>>().join(", ");
        if let Some(name) = named {
            let found = self.radios.iter().position(|radio| radio.name == name);
            let unknown = || format!("no radio \"{}\" here; this agent has {}", shorten(name), names());
            return found.map(|radio| vec![radio]).ok_or_else(unknown);
        }
        let all = 0..self.radios.len();
        let Some(addr) = event.station().filter(|_| self.radios.len() > 1) else { return Ok(all.collect()) };
        let radios = self.driver.radios();
        let knows = |radio: &usize| radios.get(*radio).is_some_and(|radio| radio.stations().knows(addr));
        let found: Vec<usize> = all.filter(knows).collect();
        if found.is_empty() {
            return Err(format!(
                "no radio has seen {addr} yet; name its radio with `radio`: one of {}",
                names()
            ));
        }
        Ok(found)
    }

    /// Tells a radio's mechanism, if it listens to such an event.
    fn apply_to(&mut self, radio: usize, message: &Message, event: &Event) -> Result<Effect, String> {
        let now = self.clock.now();
        let detected_at = now - Duration::from_secs_f64(message.detected_ago_s.unwrap_or(0.0));
        let effective_at = match message.effective_in_s {
            Some(seconds) if seconds < 0.0 => now - Duration::from_secs_f64(-seconds),
            Some(seconds) => now + Duration::from_secs_f64(seconds),
            None => detected_at,
        };
        let source = message.source.as_deref().unwrap_or(UNNAMED_SOURCE);
        let target = event.station().map_or(Target::Network, Target::Station);
        // Before the station takes a number: what does nothing is to use none up.
        if !self.listens(radio, &event.kind(target.of_nobody(), now)) {
            self.count(source);
            return Ok(Effect::Unheard);
        }
        // Nor is an end of what never began.
        if let (Event::Thaw { .. }, Target::Station(addr)) = (event, target)
            && !self.driver.radios().get(radio).is_some_and(|radio| radio.stations().knows(addr))
        {
            self.count(source);
            return Ok(Effect::NothingEnded);
        }
        let scope = self.scope_of(radio, target, now).map_err(|error| {
            if let Some(stations) = self.driver.stations_mut(radio) {
                stations.count_untracked();
            }
            format!("nothing was done: {error}")
        })?;
        let (effect, is_news) = self.note_event(radio, scope, now, effective_at, event)?;
        if is_news {
            let kind = event.kind(scope, now);
            self.tell(radio, source, LinkEvent { detected_at, effective_at: Some(effective_at), kind });
        } else {
            self.count(source);
        }
        Ok(effect)
    }

    /// Takes into the agent's own tables what an event says of its radio; answers what it did there, and
    /// whether the mechanism is to be told.
    fn note_event(
        &mut self,
        radio: usize,
        scope: Scope,
        now: Instant,
        effective_at: Instant,
        event: &Event,
    ) -> Result<(Effect, bool), String> {
        let Some(state) = self.radios.get_mut(radio) else { return Err("no such radio".to_owned()) };
        match *event {
            Event::Freeze { scope: _, cause, expected_s, for_s } => {
                let lasting = for_s.map(Duration::from_secs_f64);
                let expected = lasting.or(expected_s.map(Duration::from_secs_f64));
                let is_news = state
                    .silences
                    .begin(Source::Told, now, scope, cause.0, effective_at, lasting, expected)
                    .map_err(|error| error.to_string())?;
                self.keep(radio, scope, effective_at + self.max_silence);
                return Ok((Effect::Done, is_news));
            }
            Event::Thaw { scope: _, cause } => {
                let Ended { over, is_last } =
                    state.silences.end(Source::Told, scope, cause.0, now, effective_at);
                let effect = match over {
                    Over::UnderWay | Over::Later => Effect::Done,
                    Over::Announced => Effect::CalledOff,
                    Over::Before | Over::Nothing => Effect::NothingEnded,
                };
                return Ok((effect, is_last));
            }
            Event::Switch { capacity_bps, efficiency } => {
                state.note_channel(BitRate(capacity_bps), Fraction::clamped(efficiency));
            }
            Event::Snr { .. } | Event::Sensing { .. } | Event::Grant { .. } | Event::Room { .. } => {}
        }
        Ok((Effect::Done, true))
    }

    fn radio_status(&self, state: &RadioState, radio: &Radio) -> RadioStatus {
        let (metrics, counters) = (radio.mechanism().metrics(), radio.counters());
        let now = self.clock.now();
        let (silences_now, counts) = (state.silences.under_way(now), state.silences.counts());
        RadioStatus {
            name: state.name.clone(),
            silent: silences_now > 0,
            silences_now,
            silences: metrics.silences,
            silences_begun: counts.begun,
            silences_announced: state.silences.announced(now),
            silences_ended: counts.ended,
            silences_timed: counts.timed,
            silences_overdue: counts.overdue,
            channel: state.channel,
            measured_bps: metrics.measured_rate,
            flows: metrics.flows,
            stations: radio.stations().len(),
            untracked_events: metrics.untracked_events + radio.stations().untracked(),
            packets: Packets::of(&metrics, counters.seen, counters.rewritten),
            windows: Windows::of(&metrics, counters.acks_injected),
        }
    }

    fn status(&self) -> Status {
        let radios: Vec<RadioStatus> = self
            .radios
            .iter()
            .zip(self.driver.radios())
            .map(|(state, radio)| self.radio_status(state, radio))
            .collect();
        let mechanisms = || self.driver.radios().iter().map(Radio::mechanism);
        let metrics = mechanisms().fold(Metrics::default(), |sum, one| sum.plus(&one.metrics()));
        let now = self.clock.now();
        let path = self.driver.datapath().counters();
        let silences_now = radios.iter().map(|radio| radio.silences_now).sum();
        Status {
            schema: "linkhold.status/1".to_owned(),
            version: self.program.version.clone(),
            commit: self.program.commit.clone(),
            instance: self.instance.clone(),
            mechanism: self.mechanism.clone(),
            datapath: self.driver.datapath().name().to_owned(),
            rules: self.rules_name.to_owned(),
            uptime_s: now.as_secs_f64(),
            silent: silences_now > 0,
            silences_now,
            silences: metrics.silences,
            silences_begun: radios.iter().map(|radio| radio.silences_begun).sum(),
            silences_announced: radios.iter().map(|radio| radio.silences_announced).sum(),
            silences_ended: radios.iter().map(|radio| radio.silences_ended).sum(),
            silences_timed: radios.iter().map(|radio| radio.silences_timed).sum(),
            silences_overdue: radios.iter().map(|radio| radio.silences_overdue).sum(),
            channel: match &radios[..] {
                [only] => only.channel,
                _ => None,
            },
            measured_bps: metrics.measured_rate,
            flows: metrics.flows,
            stations: radios.iter().map(|radio| radio.stations).sum(),
            packets: Packets {
                verdict_errors: path.verdict_errors,
                ..Packets::of(&metrics, path.received, path.replaced)
            },
            windows: Windows {
                inject_errors: path.inject_errors,
                // The data path counts copies that were sent again among what it injected.
                ..Windows::of(&metrics, radios.iter().map(|radio| radio.windows.acks_injected).sum())
            },
            events: self.sources.clone(),
            nl80211: self.nl80211.as_ref().map(Nl80211::status),
            driver: self.driver.counters(),
            kernel: self.driver.senders().kernel(),
            untracked_events: radios.iter().map(|radio| radio.untracked_events).sum(),
            processor: self.processor,
            troubles: self
                .surroundings
                .troubles()
                .into_iter()
                .chain(self.failures.iter().cloned())
                .chain(self.nl80211_lost.clone())
                .chain(self.snr.as_ref().and_then(SnrSource::trouble).map(str::to_owned))
                .chain(self.guardian_due.map(|_| NO_GUARDIAN.to_owned()))
                .collect(),
            mechanisms: MechanismStatus::all(mechanisms()),
            radios,
        }
    }
}

impl Service for Core {
    fn answer_line(&mut self, line: &[u8], out: &mut Vec<u8>) {
        let reply = match parse_line(line) {
            Ok(message) => match (&message.event, message.query) {
                (Some(event), _) => match self.apply(&message, event) {
                    Ok(reply) => reply,
                    Err(error) => Reply::refused(error),
                },
                (None, Some(Query::Status)) => Reply::status(self.status()),
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
