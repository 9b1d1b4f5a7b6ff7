//! Between data path and mechanisms: packets in, verdicts and actions out. Each radio has a mechanism of its
//! own, and what one does cannot reach the packets of another.
//!
//! The verdict on a packet is carried out before the actions of the same call, as in the simulator: an action
//! may name the packet just held.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;

use linkhold_core::action::{AckSpec, Action, Actions, Rewrite, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{DatagramView, Direction, Origin, PacketId, PacketView, StationId, TcpFlags};
use linkhold_core::time::Instant;
use linkhold_wire::{
    Parsed, ParsedDatagram, ParsedPacket, TcpChecksum, apply_rewrite, build_ack, fill_tcp_checksum,
    parse_ip_headers,
};
use serde::{Deserialize, Serialize};

use super::senders::{NoSenders, Senders};
use super::stations::{NoNumberLeft, SHARED, Stations};
use crate::datapath::{Arrived, DataPath};

/// Held packets up to this length, bytes, are copied, so that they can leave rewritten. Every pure
/// acknowledgment is shorter.
const COPY_HELD_UP_TO: u32 = 160;
/// Room for an acknowledgment of the agent's own, bytes. The agent sends one behind a packet that should have
/// been rewritten, but is longer than the data path's copy.
const ACK_BUFFER: usize = 128;

/// What the driver counts beside mechanism and data path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct DriverCounters {
    /// Packets that a mechanism cannot look at, since they are neither TCP nor UDP, fragments or damaged;
    /// they pass untouched.
    pub unparsed: u64,
    /// Rewrites that an own acknowledgment made behind the packet, because the packet was too long to be
    /// replaced.
    pub rewrites_by_ack: u64,
    /// Rewrites that neither way could make; the packet passed as it was.
    pub rewrites_skipped: u64,
    /// Actions that named a packet that is not held. Each is a bug of linkhold.
    pub unknown_packets: u64,
    /// Packets of which a mechanism wanted a copy that the data path did not bring whole; it cannot be sent
    /// again.
    #[serde(default)]
    pub copies_missing: u64,
    /// Held packets that were thrown away. With those that were released and those that are held they are all
    /// that mechanisms ever held.
    #[serde(default)]
    pub discarded: u64,
}

/// A held packet, as far as the agent needs it.
#[derive(Debug)]
struct HeldPacket {
    station: StationId,
    direction: Direction,
    checksum: TcpChecksum,
    known: Known,
}

/// What is kept of a held packet, for when it leaves with changes.
#[derive(Debug)]
enum Known {
    /// The whole packet, since it is short or a copy of it may be wanted when it goes.
    Whole(Box<[u8]>),
    /// The acknowledgment that says behind the packet what it says itself.
    Ack(AckSpec),
    /// Nothing: the packet acknowledges nothing, or is a datagram.
    Nothing,
}

/// One radio: a mechanism of its own, with stations of its own.
pub struct Radio {
    mechanism: Box<dyn Mechanism>,
    stations: Stations,
    /// If the mechanism may want copies of what goes to the radio, that direction. Packets of it are copied
    /// whole when they are held.
    keeps_copies_of: Option<Direction>,
    held: HashMap<PacketId, HeldPacket, foldhash::fast::RandomState>,
    /// Copies of forwarded packets, ready to be sent; `None`: the data path did not bring the packet whole.
    kept: HashMap<PacketId, Option<Box<[u8]>>, foldhash::fast::RandomState>,
    counters: RadioCounters,
    /// Index of the bridge between whose ports its packets cross; 0 where they are routed.
    bridge: u32,
}

/// What the driver counts of one radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RadioCounters {
    /// Packets that came from it or go to it.
    pub seen: u64,
    /// Packets that left with another header.
    pub rewritten: u64,
    /// Acknowledgments of the agent's own.
    pub acks_injected: u64,
}

impl Radio {
    /// A radio that carried nothing yet.
    #[must_use]
    pub fn new(mechanism: Box<dyn Mechanism>, stations: Stations) -> Self {
        Self {
            mechanism,
            stations,
            keeps_copies_of: None,
            held: HashMap::default(),
            kept: HashMap::default(),
            counters: RadioCounters::default(),
            bridge: 0,
        }
    }

    /// The same radio with a mechanism that keeps copies ([`RouterNeeds::kept_bytes`]) of what goes to the
    /// radio: the downlink on a router, the uplink on a host, whose own segments they are.
    ///
    /// [`RouterNeeds::kept_bytes`]: linkhold_core::settings::RouterNeeds::kept_bytes
    #[must_use]
    pub fn keeping_copies_of(self, towards_the_radio: Direction) -> Self {
        Self { keeps_copies_of: Some(towards_the_radio), ..self }
    }

    /// Its mechanism.
    #[must_use]
    pub fn mechanism(&self) -> &dyn Mechanism {
        &*self.mechanism
    }

    /// Its stations.
    #[must_use]
    pub fn stations(&self) -> &Stations {
        &self.stations
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> RadioCounters {
        self.counters
    }
}

/// Drives the mechanisms, one for each radio, with what a data path brings.
pub struct Driver<D> {
    datapath: D,
    radios: Vec<Radio>,
    actions: Actions,
    scratch: Vec<u8>,
    counters: DriverCounters,
    senders: Box<dyn Senders>,
}

impl<D: DataPath> Driver<D> {
    /// Joins a data path and its radios, in the data path's order.
    #[must_use]
    pub fn new(datapath: D, radios: Vec<Radio>) -> Self {
        Self {
            datapath,
            radios,
            actions: Actions::new(),
            scratch: Vec::with_capacity(4096),
            counters: DriverCounters::default(),
            senders: Box::new(NoSenders),
        }
    }

    /// The same driver on a host, whose mechanisms command senders.
    #[must_use]
    pub fn with_senders(self, senders: Box<dyn Senders>) -> Self {
        Self { senders, ..self }
    }

    /// Who carries out commands to senders.
    #[must_use]
    pub fn senders(&self) -> &dyn Senders {
        &*self.senders
    }

    /// The data path.
    #[must_use]
    pub fn datapath(&self) -> &D {
        &self.datapath
    }

    /// The radios.
    #[must_use]
    pub fn radios(&self) -> &[Radio] {
        &self.radios
    }

    /// The stations of a radio.
    pub fn stations_mut(&mut self, radio: usize) -> Option<&mut Stations> {
        self.radios.get_mut(radio).map(|radio| &mut radio.stations)
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> DriverCounters {
        self.counters
    }

    /// Packets held now, of all radios.
    #[must_use]
    pub fn held_packets(&self) -> u64 {
        self.radios.iter().map(|radio| radio.mechanism.metrics().held_packets).sum()
    }

    /// When the first of the mechanisms wants to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.radios.iter().filter_map(|radio| radio.mechanism.next_timeout()).min()
    }

    /// The station of an address on the side of this radio, which a signal names. A new one gets a number,
    /// which another station may have to give back.
    ///
    /// # Errors
    /// [`NoNumberLeft`] while all numbers are in use.
    pub fn station(&mut self, radio: usize, addr: IpAddr, now: Instant) -> Result<StationId, NoNumberLeft> {
        let Some(stations) = self.stations_mut(radio) else {
            return Err(NoNumberLeft);
        };
        match stations.find(addr, now) {
            Some(id) => Ok(id),
            None => self.add_station(radio, addr, now),
        }
    }

    /// The station of a packet.
    #[inline]
    fn station_of(&mut self, arrived: &Arrived, addr: IpAddr, now: Instant) -> StationId {
        match arrived.direction {
            Direction::Uplink => self.station(arrived.radio, addr, now).unwrap_or(SHARED),
            // Anybody may make up an address that something is sent to.
            Direction::Downlink => {
                self.stations_mut(arrived.radio).and_then(|known| known.find(addr, now)).unwrap_or(SHARED)
            }
        }
    }

    #[cold]
    fn add_station(&mut self, radio: usize, addr: IpAddr, now: Instant) -> Result<StationId, NoNumberLeft> {
        let left = self.radios[radio].stations.take_back(now);
        for station in left {
            self.handle_link(radio, now, LinkEvent::at(now, LinkEventKind::StationLeft { station }));
        }
        self.radios[radio].stations.add(addr, now)
    }

    /// Handles up to `most` packets that wait; true if there may be more.
    ///
    /// # Errors
    /// When the data path is broken.
    pub fn handle_packets(&mut self, most: usize, now: impl Fn() -> Instant) -> io::Result<bool> {
        for _ in 0..most {
            let Some(arrived) = self.datapath.next_packet()? else {
                self.datapath.flush();
                return Ok(false);
            };
            self.handle_packet(now(), &arrived);
        }
        self.datapath.flush();
        Ok(true)
    }

    /// Tells a radio's mechanism what its radio does.
    pub fn handle_link(&mut self, radio: usize, now: Instant, event: LinkEvent) {
        let Some(Radio { mechanism, .. }) = self.radios.get_mut(radio) else { return };
        mechanism.on_link(now, event, &mut self.actions);
        self.run_actions(radio);
        self.datapath.flush();
    }

    /// Calls the mechanisms whose time has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        for index in 0..self.radios.len() {
            let mechanism = &mut self.radios[index].mechanism;
            if mechanism.next_timeout().is_some_and(|at| at <= now) {
                mechanism.on_timeout(now, &mut self.actions);
                self.run_actions(index);
                self.datapath.flush();
            }
        }
    }

    /// Lets everything go: nothing held, no window closed.
    pub fn let_go(&mut self, now: Instant) {
        for index in 0..self.radios.len() {
            self.radios[index].mechanism.flush(now, &mut self.actions);
            self.run_actions(index);
            // If the mechanism forgot a packet, it leaves all the same, the oldest first.
            let mut forgotten: Vec<PacketId> =
                self.radios[index].held.drain().map(|(packet, _)| packet).collect();
            forgotten.sort();
            for id in forgotten {
                self.counters.unknown_packets += 1;
                self.datapath.release(id);
            }
        }
        self.datapath.flush();
    }

    /// Accepts what still waits for a verdict and what arrives from now on. It is the agent's last act.
    pub fn pass_everything(&mut self) {
        self.datapath.pass_everything();
    }

    fn handle_packet(&mut self, now: Instant, arrived: &Arrived) {
        if let Some(radio) = self.radios.get_mut(arrived.radio) {
            radio.counters.seen += 1;
            // A bridged packet has the bridge's name both times.
            if arrived.in_interface == arrived.out_interface {
                radio.bridge = arrived.in_interface;
            }
        }
        let parsed = match parse_ip_headers(self.datapath.bytes()) {
            Ok(Parsed::Tcp(parsed)) => parsed,
            Ok(Parsed::Udp(datagram)) => return self.handle_datagram(now, arrived, &datagram),
            Err(_) => {
                self.counters.unparsed += 1;
                self.datapath.accept(arrived.id);
                return;
            }
        };
        let flow = parsed.flow(arrived.direction);
        let station = self.station_of(arrived, flow.station.addr, now);
        let Some(radio) = self.radios.get_mut(arrived.radio) else {
            self.datapath.accept(arrived.id);
            return;
        };
        let view = PacketView {
            id: arrived.id,
            direction: arrived.direction,
            origin: Origin::Arrival,
            station,
            flow: &flow,
            tcp: &parsed.tcp,
            len: arrived.len,
            ecn: parsed.ecn,
        };
        match radio.mechanism.on_packet(now, &view, &mut self.actions) {
            Verdict::Forward(rewrite) if rewrite.is_none() => self.datapath.accept(arrived.id),
            Verdict::Forward(rewrite) => self.forward_rewritten(arrived, &parsed, rewrite),
            Verdict::ForwardAndKeep(rewrite) => {
                self.keep(arrived, rewrite);
                if rewrite.is_none() {
                    self.datapath.accept(arrived.id);
                } else {
                    self.forward_rewritten(arrived, &parsed, rewrite);
                }
            }
            Verdict::Hold => self.hold(arrived, station, &parsed),
            Verdict::Drop(_) => self.datapath.discard(arrived.id),
        }
        self.run_actions(arrived.radio);
    }

    fn handle_datagram(&mut self, now: Instant, arrived: &Arrived, parsed: &ParsedDatagram) {
        let flow = parsed.flow(arrived.direction);
        let station = self.station_of(arrived, flow.station.addr, now);
        let Some(radio) = self.radios.get_mut(arrived.radio) else {
            self.datapath.accept(arrived.id);
            return;
        };
        let view = DatagramView {
            id: arrived.id,
            direction: arrived.direction,
            origin: Origin::Arrival,
            station,
            flow: &flow,
            len: arrived.len,
            ecn: parsed.ecn,
        };
        match radio.mechanism.on_datagram(now, &view, &mut self.actions) {
            Verdict::Forward(rewrite) | Verdict::ForwardAndKeep(rewrite) => {
                debug_assert!(rewrite.is_none(), "a mechanism rewrote a datagram");
                self.datapath.accept(arrived.id);
            }
            // A datagram leaves as it came, so nothing need be known of it.
            Verdict::Hold => self.hold_with(arrived, station, Known::Nothing),
            Verdict::Drop(_) => self.datapath.discard(arrived.id),
        }
        self.run_actions(arrived.radio);
    }

    /// Keeps a copy of a packet as it goes on, with its checksum complete, because the copy will leave
    /// through a socket. The mechanism bounds how many copies there are.
    fn keep(&mut self, arrived: &Arrived, rewrite: Rewrite) {
        let bytes = self.datapath.bytes();
        let whole = bytes.len() == arrived.len as usize && !arrived.aggregate;
        let mut copy: Option<Box<[u8]>> = whole.then(|| bytes.into());
        if let Some(bytes) = &mut copy
            && !rewrite_whole(bytes, checksum_state(arrived), rewrite)
        {
            copy = None;
        }
        self.counters.copies_missing += u64::from(copy.is_none());
        self.radios[arrived.radio].kept.insert(arrived.id, copy);
    }

    fn send_copy(&mut self, radio: usize, id: PacketId) {
        match self.radios[radio].kept.get(&id) {
            Some(Some(bytes)) => self.datapath.inject(bytes, self.radios[radio].bridge),
            Some(None) => {}
            None => self.counters.unknown_packets += 1,
        }
    }

    fn hold(&mut self, arrived: &Arrived, station: StationId, parsed: &ParsedPacket) {
        let bytes = self.datapath.bytes();
        let wanted = self.radios[arrived.radio].keeps_copies_of == Some(arrived.direction);
        let whole = bytes.len() == arrived.len as usize && !arrived.aggregate;
        let known = if whole && (wanted || arrived.len <= COPY_HELD_UP_TO) {
            Known::Whole(bytes.into())
        } else {
            ack_behind(parsed, arrived.direction).map_or(Known::Nothing, Known::Ack)
        };
        self.hold_with(arrived, station, known);
    }

    fn hold_with(&mut self, arrived: &Arrived, station: StationId, known: Known) {
        let radio = &mut self.radios[arrived.radio];
        let direction = arrived.direction;
        let held = HeldPacket { station, direction, checksum: checksum_state(arrived), known };
        radio.stations.hold(station, direction);
        radio.held.insert(arrived.id, held);
        self.datapath.hold(arrived.id);
    }

    fn forward_rewritten(&mut self, arrived: &Arrived, parsed: &ParsedPacket, rewrite: Rewrite) {
        let bytes = self.datapath.bytes();
        let whole = bytes.len() == arrived.len as usize && !arrived.aggregate;
        if whole {
            self.scratch.clear();
            self.scratch.extend_from_slice(bytes);
            if rewrite_whole(&mut self.scratch, checksum_state(arrived), rewrite) {
                self.radios[arrived.radio].counters.rewritten += 1;
                self.datapath.replace(arrived.id, &self.scratch);
            } else {
                self.counters.rewrites_skipped += 1;
                self.datapath.accept(arrived.id);
            }
            return;
        }
        self.datapath.accept(arrived.id);
        self.rewrite_behind(arrived.radio, ack_behind(parsed, arrived.direction), rewrite);
    }

    /// A packet that is too long to be replaced has passed, and an acknowledgment right behind it says what
    /// the packet should have said. The acknowledgment's sequence number is newer, so every stack takes its
    /// window.
    fn rewrite_behind(&mut self, radio: usize, ack: Option<AckSpec>, rewrite: Rewrite) {
        let Some(ack) = ack.filter(|_| !rewrite.mark_ce) else {
            self.counters.rewrites_skipped += 1;
            return;
        };
        self.counters.rewrites_by_ack += 1;
        let window = rewrite.window.map_or(ack.window, |window| window.min(ack.window));
        self.inject(radio, &AckSpec { window, ece: ack.ece || rewrite.set_ece, ..ack });
    }

    fn run_actions(&mut self, radio: usize) {
        if self.actions.is_empty() {
            return;
        }
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain() {
            match action {
                Action::Release { packet, rewrite } => self.release(radio, packet, rewrite, false),
                Action::ReleaseAndKeep { packet, rewrite } => self.release(radio, packet, rewrite, true),
                Action::Discard { packet, reason: _ } => {
                    if self.take_held(radio, packet).is_some() {
                        self.datapath.discard_held(packet);
                        self.counters.discarded += 1;
                    } else {
                        self.counters.unknown_packets += 1;
                    }
                }
                Action::SendCopy { packet } => self.send_copy(radio, packet),
                Action::Forget { packet } => {
                    if self.radios[radio].kept.remove(&packet).is_none() {
                        self.counters.unknown_packets += 1;
                    }
                }
                // There is no agent at the other end of the radio to hear it.
                Action::Report(_) => {}
                Action::InjectAck(spec) => self.inject(radio, &spec),
                // The radio's transmit queue is not the agent's: packets in it stay there.
                Action::Reclaim { scope: _ } => {}
                // Nor is the radio's medium access the agent's: no driver of Linux takes a request for a
                // packet that is not there.
                Action::RequestUplink { .. } => {}
                Action::Sender { flow, command } => self.senders.command(radio, &flow, command),
            }
        }
        self.actions = actions;
    }

    fn take_held(&mut self, radio: usize, id: PacketId) -> Option<HeldPacket> {
        let radio = &mut self.radios[radio];
        let held = radio.held.remove(&id)?;
        radio.stations.let_go(held.station, held.direction);
        Some(held)
    }

    /// Lets a held packet go with these changes, or with an acknowledgment behind it that makes them if the
    /// packet was not copied when it was held; `keep`: its copy stays.
    fn release(&mut self, radio: usize, id: PacketId, rewrite: Rewrite, keep: bool) {
        let Some(held) = self.take_held(radio, id) else {
            self.counters.unknown_packets += 1;
            return;
        };
        let changed = !rewrite.is_none();
        let (mut bytes, ack) = match held.known {
            Known::Whole(bytes) => (Some(bytes).filter(|_| changed || keep), None),
            Known::Ack(ack) => (None, Some(ack)),
            Known::Nothing => (None, None),
        };
        bytes.take_if(|bytes| !rewrite_whole(bytes, held.checksum, rewrite));
        match &bytes {
            Some(bytes) if changed => {
                self.radios[radio].counters.rewritten += 1;
                self.datapath.replace_held(id, bytes);
            }
            Some(_) | None => {
                self.datapath.release(id);
                if changed {
                    self.rewrite_behind(radio, ack, rewrite);
                }
            }
        }
        if keep {
            self.counters.copies_missing += u64::from(bytes.is_none());
            self.radios[radio].kept.insert(id, bytes);
        }
    }

    fn inject(&mut self, radio: usize, spec: &AckSpec) {
        let mut buffer = [0; ACK_BUFFER];
        match build_ack(spec, &mut buffer) {
            Ok(length) => {
                self.radios[radio].counters.acks_injected += 1;
                self.datapath.inject(&buffer[..length], self.radios[radio].bridge);
            }
            Err(error) => {
                self.counters.rewrites_skipped += 1;
                tracing::debug!(%error, "an acknowledgment could not be built");
            }
        }
    }
}

fn checksum_state(arrived: &Arrived) -> TcpChecksum {
    if arrived.checksum_ready { TcpChecksum::Complete } else { TcpChecksum::Partial }
}

/// Rewrites a whole packet and leaves its checksum complete, because the kernel takes the checksum of a
/// replaced packet as it is. False if the packet cannot be rewritten.
fn rewrite_whole(bytes: &mut [u8], checksum: TcpChecksum, rewrite: Rewrite) -> bool {
    let completed = match checksum {
        TcpChecksum::Partial => fill_tcp_checksum(bytes).is_ok(),
        TcpChecksum::Complete => true,
    };
    completed && apply_rewrite(bytes, rewrite, TcpChecksum::Complete).is_ok()
}

/// The acknowledgment that says, right behind a segment, what the segment says itself; `None` if the segment
/// acknowledges nothing.
fn ack_behind(parsed: &ParsedPacket, direction: Direction) -> Option<AckSpec> {
    let tcp = &parsed.tcp;
    tcp.flags.contains(TcpFlags::ACK).then(|| AckSpec {
        flow: parsed.flow(direction),
        direction,
        seq: tcp.seq_end(),
        ack: tcp.ack,
        window: tcp.window,
        timestamp: tcp.timestamp,
        ece: tcp.flags.contains(TcpFlags::ECE),
    })
}

#[cfg(test)]
mod tests;
