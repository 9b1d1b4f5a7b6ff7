//! The engine on a real clock: the simulator's own network between TUN ports.
//!
//! [`linkhold_sim::Engine`] runs here as it runs in virtual time; only the clock and what stands at the ends
//! differ. The loop waits in `ppoll` until shortly before the next event and spins the rest, on a real-time
//! priority; how late each edge of a silence was handled is recorded, and a run whose host could not keep up
//! is refused by the caller ([`EtherReport::edge_lateness`]).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use linkhold_core::time::{Duration, Instant};
use linkhold_radio::{AirAccounting, Silence, UplinkAccounting};
use linkhold_results::DelayHistogram;
use linkhold_sim::Engine;
use linkhold_sim::cell::AIR;
use linkhold_sim::network::{Losses, Network};
use linkhold_sim::path::Route;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::flowlog::FlowLog;
use super::ports::{Capture, Faults, LinkSink, Port, Ports};
use super::topology::Tuns;
use super::tun::MTU;
use crate::punctual::{AIRS_PRIORITY, be_in_real_time, finest_timers};

/// The loop wakes this long before an event and spins the rest. Short: side by side, spinning loops would
/// take the processor from each other, and a frame that is 50 us late is caught up with at the next one.
const SPIN: Duration = Duration::from_micros(5);
/// Longest sleep, so that a request to stop is heard.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Packets read from one port before the others and the clock have their turn.
const BATCH: usize = 32;

/// What the engine consists of.
pub struct EtherParts {
    /// The wire and the air.
    pub network: Network,
    /// The route over the wire.
    pub wire: Route,
    /// The ports.
    pub tuns: Tuns,
    /// Flow accounting.
    pub log: FlowLog,
    /// End of the warm-up: nothing before it counts.
    pub warm_up: Instant,
    /// The way to the daemons.
    pub sink: Box<dyn LinkSink>,
    /// Capture on demand.
    pub capture: Option<Box<dyn Capture>>,
    /// The engine's time 0. The hosts count from it too, so that their congestion windows stand beside the
    /// right moments of the radio.
    pub began: std::time::Instant,
}

/// What a run of the engine leaves.
pub struct EtherReport {
    /// The flows.
    pub log: FlowLog,
    /// Totals of the radio since the warm-up.
    pub accounting: AirAccounting,
    /// Requests and grants of the uplink since the warm-up; `None` where the MAC has none.
    pub uplink: Option<UplinkAccounting>,
    /// The router at the end of each series interval.
    pub samples: Vec<RouterSample>,
    /// Every silence.
    pub silences: Vec<Silence>,
    /// How late edges of silences were handled.
    pub edge_lateness: DelayHistogram,
    /// How late everything else was handled: arrivals over the wire, frames over the air.
    pub event_lateness: DelayHistogram,
    /// Share of the time in which this thread worked, 0 to 1.
    pub busy: f64,
    /// Packets that got lost, or were marked in the place of that, since the warm-up.
    pub losses: Losses,
    /// Packets no buffer was left for, or that a port could not take.
    pub overruns: u64,
    /// Events the engine handled.
    pub events: u64,
    /// When it ended.
    pub until: Instant,
    /// The network as it was then, with the mechanisms that stood in it.
    pub network: Network,
}

/// The router at one time.
pub struct RouterSample {
    /// Totals of the radio since the run's start.
    pub accounting: AirAccounting,
    /// Bytes in the router's downlink queue.
    pub queue_bytes: u64,
}

/// The engine between its ports, and the state of the radio at the times that count.
struct Ether {
    engine: Engine<Ports>,
    silences: Vec<Silence>,
    warm_up: Instant,
    /// What was counted by the end of the warm-up.
    base: Option<Base>,
    samples: Vec<RouterSample>,
}

/// Counters that run from the start, at one time.
struct Base {
    accounting: AirAccounting,
    uplink: UplinkAccounting,
    losses: Losses,
}

impl Base {
    fn at(now: Instant, network: &Network) -> Self {
        let air = network.radio(AIR).air();
        Self {
            accounting: air.accounting(now),
            uplink: air.uplink().unwrap_or_default(),
            losses: network.losses(),
        }
    }
}

/// Runs the engine from its time 0 until `end`, or until `stop` is set. To be called on a thread of its own.
///
/// # Errors
/// The system's, from a port.
pub fn run(parts: EtherParts, end: Instant, stop: &AtomicBool) -> io::Result<(EtherReport, Tuns)> {
    be_punctual();
    let EtherParts { mut network, wire, tuns, log, warm_up, sink, capture, began } = parts;
    network.report_links();
    let ports = Ports::new(tuns, wire, log, sink, capture, began);
    let mut ether = Ether {
        engine: Engine::new(network, ports),
        silences: Vec::new(),
        warm_up,
        base: None,
        samples: Vec::new(),
    };
    while ether.now() < end && !stop.load(Ordering::Relaxed) {
        ether.run_due()?;
        ether.wait()?;
        ether.read_all()?;
        ether.sample();
    }
    ether.run_due()?;
    ether.sample();
    let until = ether.engine.now();
    Ok(ether.report(until))
}

impl Ether {
    fn now(&self) -> Instant {
        self.engine.hosts().now()
    }

    /// Takes the points of the series and the state at the end of the warm-up when their time has come.
    fn sample(&mut self) {
        let now = self.now();
        // The radio's totals run on to `now` in the state that the radio is in. So it must be in the state of
        // `now` first: with an edge in between that is handled later, the next totals would be smaller than
        // these.
        self.engine.advance(now);
        self.silences.extend(self.engine.network_mut().take_silences(AIR));
        let over = self.engine.hosts_mut().log.sample(now);
        let network = self.engine.network();
        let air = network.radio(AIR).air();
        if self.base.is_none() && now >= self.warm_up {
            self.base = Some(Base::at(now, network));
        }
        while self.samples.len() < over {
            let queue_bytes = air.downlink_backlog().1.0;
            self.samples.push(RouterSample { accounting: air.accounting(now), queue_bytes });
        }
    }

    /// Handles everything that is due, also what becomes due meanwhile.
    fn run_due(&mut self) -> io::Result<()> {
        loop {
            let now = self.now();
            if self.engine.next_event_at().is_none_or(|due| due > now) {
                break;
            }
            self.engine.advance(now);
        }
        match self.engine.hosts_mut().faults.error.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn wait(&self) -> io::Result<()> {
        let due = self.engine.next_event_at().unwrap_or(Instant::FAR_FUTURE);
        let sleep = due.since(self.now()).saturating_sub(SPIN).as_nanos().min(MAX_SLEEP.as_nanos());
        let tuns = &self.engine.hosts().tuns;
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(tuns.stations.len() + 3);
        for tun in [&tuns.far, &tuns.bs_wire, &tuns.bs_radio].into_iter().chain(&tuns.stations) {
            fds.push(PollFd::new(std::os::fd::AsFd::as_fd(tun), PollFlags::POLLIN));
        }
        match ppoll(&mut fds, Some(TimeSpec::from_duration(std::time::Duration::from_nanos(sleep))), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read_all(&mut self) -> io::Result<()> {
        let stations = self.engine.hosts().tuns.stations.len() as u32;
        let ports = [Port::Far, Port::BsWire, Port::BsRadio];
        for port in ports.into_iter().chain((0..stations).map(Port::Station)) {
            self.read_port(port)?;
        }
        Ok(())
    }

    fn read_port(&mut self, port: Port) -> io::Result<()> {
        let mut buffer = [0_u8; MTU as usize + 64];
        for _ in 0..BATCH {
            let ports = self.engine.hosts();
            let Some(len) = ports.tun(port).map_or(Ok(None), |tun| tun.read(&mut buffer))? else {
                return Ok(());
            };
            let Some(bytes) = buffer.get(..len) else { continue };
            // The engine handles first what was due before this packet.
            let now = self.now();
            self.engine.with_hosts(now, |ports, network| ports.accept(now, port, bytes, network));
        }
        Ok(())
    }

    fn report(self, until: Instant) -> (EtherReport, Tuns) {
        let Self { engine, mut silences, base, samples, warm_up: _ } = self;
        let events = engine.events();
        let (mut network, mut ports) = engine.into_parts();
        ports.log.end(until);
        silences.extend(network.take_silences(AIR));
        let air = network.radio(AIR).air();
        air.open_silences(until, &mut silences);
        let (accounting, uplink) = (air.accounting(until), air.uplink());
        let Base { accounting: base, uplink: uplink_before, losses: before } =
            base.unwrap_or_else(|| Base::at(until, &network));
        let losses = network.losses().since(&before);
        let Ports { tuns, log, faults, .. } = ports;
        let Faults { edge_lateness, event_lateness, overruns, error: _ } = faults;
        let report = EtherReport {
            accounting: accounting.since(&base),
            uplink: uplink.map(|uplink| uplink.since(&uplink_before)),
            samples,
            log,
            silences,
            edge_lateness,
            event_lateness,
            busy: thread_time().as_secs_f64() / until.since(Instant::ZERO).as_secs_f64().max(1e-9),
            losses,
            overruns,
            events,
            until,
            network,
        };
        (report, tuns)
    }
}

/// How long this thread has had a processor.
fn thread_time() -> std::time::Duration {
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID);
    time.map_or(std::time::Duration::ZERO, Into::into)
}

/// Real-time priority and the finest timers, for this thread. Without the privilege the run goes on and the
/// measured lateness decides.
fn be_punctual() {
    // One run after the other would say the same.
    static SAID: std::sync::Once = std::sync::Once::new();
    if let Err(error) = be_in_real_time(AIRS_PRIORITY) {
        SAID.call_once(|| tracing::warn!("no real-time priority for the testbed's air: {error}"));
    }
    finest_timers();
}
