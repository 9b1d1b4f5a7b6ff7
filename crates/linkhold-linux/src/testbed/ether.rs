//! The engine on a real clock: the simulator's wire and air between TUN ports.
//!
//! The radio model is the very code that the simulator runs ([`Air`], [`WiredPipe`]); only the clock and the ports
//! differ. The loop waits in `ppoll` until shortly before the next event and spins the rest, on a real-time
//! priority; how late each edge of a silence was handled is recorded, and a run whose host could not keep up is
//! refused by the caller ([`EtherReport::edge_lateness`]).

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::packet::{Direction, Ecn, PacketId, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::{Air, AirAccounting, AirEvent, AirOutput, Frame, Silence, WiredPipe};
use linkhold_results::DelayHistogram;
use linkhold_sim::silence::SilenceTracker;
use linkhold_wire::{ParsedPacket, parse_ip_tcp};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::flowlog::FlowLog;
use super::packets::Packets;
use super::topology::{Tuns, station_of};
use super::tun::{MTU, Tun};

/// The loop wakes this long before an event and spins the rest. Short: side by side, spinning loops would take the
/// processor from each other, and a frame that is 50 us late is caught up with at the next one.
const SPIN: Duration = Duration::from_micros(5);
/// Longest sleep, so that a request to stop is heard.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Packets read from one port before the others and the clock have their turn.
const BATCH: usize = 32;
/// Most packets inside the engine at once (192 MB of buffers).
const MAX_PACKETS: usize = 1 << 17;

/// Hears what the radio reports, at once: the way to the agent.
pub trait LinkSink: Send {
    /// The radio reports.
    fn link_event(&mut self, event: &LinkEvent);
}

/// Nobody listens (a plain router).
pub struct NoSink;

impl LinkSink for NoSink {
    fn link_event(&mut self, _event: &LinkEvent) {}
}

/// Where captured packets go, by the place they were seen.
pub trait Capture: Send {
    /// A packet left (`sent`) or reached a host on the given side.
    fn packet(&mut self, now: Instant, side: Side, bytes: &[u8]);
}

/// A side of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// At the correspondent hosts.
    Correspondent,
    /// At a station.
    Station(u32),
}

/// What the engine consists of.
pub struct EtherParts {
    /// The air.
    pub air: Air,
    /// Wire towards the base station.
    pub down: WiredPipe,
    /// Wire towards the correspondents.
    pub up: WiredPipe,
    /// The ports.
    pub tuns: Tuns,
    /// Flow accounting.
    pub log: FlowLog,
    /// End of the warm-up: nothing before it counts.
    pub warm_up: Instant,
    /// The way to the agent.
    pub sink: Box<dyn LinkSink>,
    /// Capture on demand.
    pub capture: Option<Box<dyn Capture>>,
}

/// What a run of the engine leaves.
pub struct EtherReport {
    /// The flows.
    pub log: FlowLog,
    /// Totals of the radio since the warm-up.
    pub accounting: AirAccounting,
    /// The router at the end of each series interval.
    pub samples: Vec<RouterSample>,
    /// Every silence.
    pub silences: Vec<Silence>,
    /// How late edges of silences were handled.
    pub edge_lateness: DelayHistogram,
    /// How late everything else was handled: arrivals over the wire, frames over the air.
    pub event_lateness: DelayHistogram,
    /// Packets the router's or a station's queue, or the wire, dropped.
    pub queue_drops: u64,
    /// Packets the air lost.
    pub air_losses: u64,
    /// Packets no buffer was left for, or that a port could not take.
    pub overruns: u64,
    /// Packets carried.
    pub packets: u64,
    /// When it ended.
    pub until: Instant,
}

/// The router at one time.
pub struct RouterSample {
    /// Totals of the radio since the run's start.
    pub accounting: AirAccounting,
    /// Bytes in the router's downlink queue.
    pub queue_bytes: u64,
}

/// Packets that did not arrive.
#[derive(Clone, Copy, Default)]
struct Losses {
    queue: u64,
    air: u64,
}

struct Ether<'a> {
    air: Air,
    down: WiredPipe,
    up: WiredPipe,
    tuns: &'a Tuns,
    log: FlowLog,
    sink: Box<dyn LinkSink>,
    capture: Option<Box<dyn Capture>>,
    packets: Packets,
    output: AirOutput,
    tracker: SilenceTracker,
    silences: Vec<Silence>,
    edge_lateness: DelayHistogram,
    event_lateness: DelayHistogram,
    losses: Losses,
    overruns: u64,
    carried: u64,
    started: std::time::Instant,
    warm_up: Instant,
    /// The radio's totals and the losses at the end of the warm-up.
    base: Option<(AirAccounting, Losses)>,
    samples: Vec<RouterSample>,
}

/// Runs the engine from its time 0 until `end`, or until `stop` is set. To be called on a thread of its own.
///
/// # Errors
/// The system's, from a port.
pub fn run(parts: EtherParts, end: Instant, stop: &AtomicBool) -> io::Result<(EtherReport, Tuns)> {
    be_punctual();
    let EtherParts { air, down, up, tuns, log, warm_up, sink, capture } = parts;
    let stations = tuns.stations.len() as u32;
    let mut ether = Ether {
        air,
        down,
        up,
        tuns: &tuns,
        log,
        sink,
        capture,
        packets: Packets::new(MAX_PACKETS),
        output: AirOutput::new(),
        tracker: SilenceTracker::new(stations),
        silences: Vec::new(),
        edge_lateness: DelayHistogram::new(),
        event_lateness: DelayHistogram::new(),
        losses: Losses::default(),
        overruns: 0,
        carried: 0,
        started: std::time::Instant::now(),
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
    let until = ether.now();
    ether.sample();
    ether.air.open_silences(until, &mut ether.silences);
    let accounting = ether.air.accounting(until);
    let (base, before) = ether.base.unwrap_or_else(|| (accounting.clone(), ether.losses));
    let report = EtherReport {
        accounting: accounting.since(&base),
        samples: ether.samples,
        log: ether.log,
        silences: ether.silences,
        edge_lateness: ether.edge_lateness,
        event_lateness: ether.event_lateness,
        queue_drops: ether.losses.queue - before.queue,
        air_losses: ether.losses.air - before.air,
        overruns: ether.overruns,
        packets: ether.carried,
        until,
    };
    Ok((report, tuns))
}

impl Ether<'_> {
    fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Takes the points of the series and the state at the end of the warm-up when their time has come.
    fn sample(&mut self) {
        let now = self.now();
        if self.base.is_none() && now >= self.warm_up {
            self.base = Some((self.air.accounting(now), self.losses));
        }
        let over = self.log.sample(now);
        while self.samples.len() < over {
            let (_, backlog) = self.air.downlink_backlog();
            self.samples.push(RouterSample { accounting: self.air.accounting(now), queue_bytes: backlog.0 });
        }
    }

    fn next_due(&self) -> Option<Instant> {
        [self.air.next_event(), self.down.next_arrival(), self.up.next_arrival()].into_iter().flatten().min()
    }

    /// Handles everything that is due, in the order of its time.
    fn run_due(&mut self) -> io::Result<()> {
        loop {
            let now = self.now();
            let Some(due) = self.next_due().filter(|due| *due <= now) else { return Ok(()) };
            if self.air.next_event() == Some(due) {
                self.air.on_event(now, &mut self.output);
                self.handle_air(due, now)?;
            } else if let Some(id) = self.down.pop(now) {
                self.event_lateness.record(now.since(due));
                if let Ok(parsed) = parse_ip_tcp(self.packets.bytes(id)) {
                    self.log.on_base_station_in(now, &parsed);
                }
                let tuns = self.tuns;
                self.write(&tuns.bs_wire, id)?;
                self.packets.remove(id);
            } else if let Some(id) = self.up.pop(now) {
                self.event_lateness.record(now.since(due));
                self.arrived(now, id, Direction::Uplink);
                let tuns = self.tuns;
                self.write(&tuns.far, id)?;
                self.packets.remove(id);
            }
        }
    }

    fn handle_air(&mut self, due: Instant, now: Instant) -> io::Result<()> {
        let mut output = std::mem::take(&mut self.output);
        for event in output.drain() {
            match event {
                AirEvent::Delivered { frame, ce } => {
                    self.event_lateness.record(now.since(due));
                    self.delivered(now, frame, ce)?;
                }
                AirEvent::Dropped { frame, reason } => self.dropped(frame, reason),
                AirEvent::Link(event) => {
                    self.edge(due, now, &event);
                    self.sink.link_event(&event);
                }
            }
        }
        self.output = output;
        self.tracker.update(&mut self.air);
        self.silences.extend(self.tracker.take());
        Ok(())
    }

    /// How late an edge of a silence is.
    fn edge(&mut self, due: Instant, now: Instant, event: &LinkEvent) {
        match event.kind {
            LinkEventKind::FreezeStarted { .. } | LinkEventKind::FreezeEnded { .. } => {
                self.edge_lateness.record(now.since(due));
            }
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::TransmitRoom { .. } => {}
        }
    }

    fn delivered(&mut self, now: Instant, frame: Frame, ce: bool) -> io::Result<()> {
        if ce {
            let rewrite = linkhold_core::action::Rewrite { mark_ce: true, ..Default::default() };
            // A frame is marked only if its IP header said it could be.
            let _ = linkhold_wire::apply_rewrite(
                self.packets.bytes_mut(frame.packet),
                rewrite,
                linkhold_wire::TcpChecksum::Complete,
            );
        }
        match frame.direction {
            Direction::Downlink => {
                self.arrived(now, frame.packet, Direction::Downlink);
                let tuns = self.tuns;
                if let Some(port) = tuns.stations.get(frame.station.0 as usize) {
                    self.write(port, frame.packet)?;
                }
            }
            Direction::Uplink => {
                let tuns = self.tuns;
                self.write(&tuns.bs_radio, frame.packet)?;
            }
        }
        self.packets.remove(frame.packet);
        Ok(())
    }

    fn dropped(&mut self, frame: Frame, reason: linkhold_radio::AirDrop) {
        use linkhold_radio::AirDrop;
        match reason {
            AirDrop::QueueFull | AirDrop::Silence | AirDrop::Codel => self.losses.queue += 1,
            AirDrop::RetryLimit => self.losses.air += 1,
        }
        self.packets.remove(frame.packet);
    }

    /// A packet reaches its receiving host.
    fn arrived(&mut self, now: Instant, id: PacketId, direction: Direction) {
        let bytes = self.packets.bytes(id);
        let Ok(parsed) = parse_ip_tcp(bytes) else { return };
        self.log.on_received(now, &parsed, direction, &self.tracker);
        if let Some(capture) = &mut self.capture {
            let side = match direction {
                Direction::Uplink => Side::Correspondent,
                Direction::Downlink => Side::Station(station_of(parsed.dst.addr).unwrap_or(0)),
            };
            capture.packet(now, side, bytes);
        }
    }

    fn write(&mut self, port: &Tun, id: PacketId) -> io::Result<()> {
        // A port without room is the kernel's drop, not the radio's. TUN writes go straight up the stack.
        if !port.write(self.packets.bytes(id))? {
            self.overruns += 1;
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let now = self.now();
        let due = self.next_due().unwrap_or(Instant::FAR_FUTURE);
        let sleep = due.since(now).saturating_sub(SPIN).as_nanos().min(MAX_SLEEP.as_nanos());
        let mut fds: Vec<PollFd<'_>> = Vec::with_capacity(self.tuns.stations.len() + 3);
        for tun in
            [&self.tuns.far, &self.tuns.bs_wire, &self.tuns.bs_radio].into_iter().chain(&self.tuns.stations)
        {
            fds.push(PollFd::new(std::os::fd::AsFd::as_fd(tun), PollFlags::POLLIN));
        }
        match ppoll(&mut fds, Some(TimeSpec::from_duration(std::time::Duration::from_nanos(sleep))), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn read_all(&mut self) -> io::Result<()> {
        let tuns = self.tuns;
        self.read_port(&tuns.far, Port::Far)?;
        self.read_port(&tuns.bs_wire, Port::BsWire)?;
        self.read_port(&tuns.bs_radio, Port::BsRadio)?;
        for (station, tun) in tuns.stations.iter().enumerate() {
            self.read_port(tun, Port::Station(station as u32))?;
        }
        Ok(())
    }

    fn read_port(&mut self, tun: &Tun, port: Port) -> io::Result<()> {
        let mut buffer = [0_u8; MTU as usize + 64];
        for _ in 0..BATCH {
            let Some(len) = tun.read(&mut buffer)? else { return Ok(()) };
            let Some(bytes) = buffer.get(..len) else { continue };
            // Events due before this packet come first, as the calling contract of the air wants.
            self.run_due()?;
            self.accept(port, bytes)?;
        }
        Ok(())
    }

    fn accept(&mut self, port: Port, bytes: &[u8]) -> io::Result<()> {
        let now = self.now();
        // Only TCP crosses: neighbour discovery and the like have no business on a point-to-point radio.
        let Ok(parsed) = parse_ip_tcp(bytes) else { return Ok(()) };
        let direction = match port {
            Port::Far | Port::BsRadio => Direction::Downlink,
            Port::BsWire | Port::Station(_) => Direction::Uplink,
        };
        if matches!(port, Port::Far | Port::Station(_)) {
            self.log.on_sent(now, &parsed, direction);
            if let Some(capture) = &mut self.capture {
                let side = match port {
                    Port::Station(station) => Side::Station(station),
                    Port::Far | Port::BsWire | Port::BsRadio => Side::Correspondent,
                };
                capture.packet(now, side, bytes);
            }
        }
        if matches!(port, Port::BsRadio) {
            self.log.on_base_station_out(now, &parsed);
        }
        let Some(id) = self.packets.insert(bytes, now) else {
            self.overruns += 1;
            return Ok(());
        };
        self.carried += 1;
        let pipe = match port {
            Port::Far => &mut self.down,
            Port::BsWire => &mut self.up,
            Port::BsRadio | Port::Station(_) => return self.transmit(now, id, &parsed, direction),
        };
        if pipe.enqueue(now, id, parsed.ip_len).is_err() {
            self.losses.queue += 1;
            self.packets.remove(id);
        }
        Ok(())
    }

    fn transmit(
        &mut self,
        now: Instant,
        id: PacketId,
        packet: &ParsedPacket,
        direction: Direction,
    ) -> io::Result<()> {
        let key = packet.flow(direction);
        let station =
            station_of(key.station.addr).filter(|&station| (station as usize) < self.tuns.stations.len());
        let Some(station) = station else {
            self.packets.remove(id);
            return Ok(());
        };
        let frame = Frame {
            packet: id,
            station: StationId(station),
            len: packet.ip_len,
            flow_hash: flow_hash(packet),
            direction,
            ecn_capable: matches!(packet.ecn, Ecn::Ect0 | Ecn::Ect1),
        };
        self.air.enqueue(now, frame, &mut self.output);
        self.handle_air(now, now)
    }
}

#[derive(Clone, Copy)]
enum Port {
    Far,
    BsWire,
    BsRadio,
    Station(u32),
}

/// A hash of ports, well mixed (Fibonacci hashing): all hosts of a testbed differ in nothing else that matters.
fn flow_hash(packet: &ParsedPacket) -> u32 {
    let ports = (u64::from(packet.src.port) << 16) | u64::from(packet.dst.port);
    (ports.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

/// Real-time priority and the finest timers, for this thread. Without the privilege the run goes on and the
/// measured lateness decides.
#[allow(unsafe_code, reason = "nix wraps neither call")]
fn be_punctual() {
    // SAFETY: both calls only read their arguments and concern the calling thread.
    unsafe {
        let priority = libc::sched_param { sched_priority: 10 };
        if libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) != 0 {
            tracing::warn!("no real-time priority for the air: {}", io::Error::last_os_error());
        }
        libc::prctl(libc::PR_SET_TIMERSLACK, 1_usize);
    }
}
