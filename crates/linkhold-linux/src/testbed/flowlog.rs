//! What the engine learns of each flow from the packets it carries: goodput, delay, retransmission,
//! resumption.
//!
//! Measured at the same places and by the same definitions as in the simulator (`linkhold_sim::meter`), so
//! the numbers mean the same: sent is when the packet leaves the sending host, received when it reaches the
//! receiving one, delivered what has arrived there in order. Delay counts from a segment's latest
//! transmission. Which silences data met, and after which it came, is told by when it crossed the air: what
//! goes up has the wire before it then. Nothing counts before the warm-up is over. Of a UDP flow all bytes
//! that arrive are delivered. Of a QUIC flow its application tells what it read (`reads`), which is taken for
//! what the last datagram before it carried; its datagrams are counted as UDP's.

mod reads;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use linkhold_core::packet::{Direction, FlowKey, StationId, TcpFlags};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;
use linkhold_results::DelayHistogram;
use linkhold_sim::silence_tracker::SilenceTracker;
use linkhold_wire::{Parsed, ParsedPacket, parse_ip_headers};

use super::crossed::{Crossed, Crossings};
use super::datagrams::{Arrived, Datagrams, Numbered};
use super::seen::{HELD_LONGER_THAN, Seen, What};
use super::topology::station_of;
use super::workload::MAX_FLOWS;

/// Most segments whose sending time is remembered at once, over all flows.
const MAX_IN_FLIGHT: usize = 1 << 18;
/// Most pieces of one stream that wait for what is missing before them.
const MAX_PIECES: usize = 4096;
/// Most crossings remembered of a QUIC flow's datagrams: two minutes of a 24 Mbit/s link.
const MAX_CROSSINGS: usize = 1 << 18;
/// Most packets remembered for the stories of silences: some minutes of a 24 Mbit/s link.
const MAX_SEEN: usize = 1 << 21;

/// A byte stream put together from segments: how much of it is there without a gap.
#[derive(Clone, Debug, Default)]
struct Stream {
    /// Sequence number of byte `delivered`.
    next: Option<Seq>,
    delivered: u64,
    /// Pieces behind a gap: start → end, in bytes since the stream's start.
    ahead: BTreeMap<u64, u64>,
}

impl Stream {
    /// A segment with `len` bytes at `seq`; answers whether the stream moved on.
    fn arrived(&mut self, seq: Seq, len: u32) -> bool {
        let next = *self.next.get_or_insert(seq);
        let from = i64::from(seq.minus(next));
        let end = from + i64::from(len);
        if end <= 0 {
            return false;
        }
        let (start, end) =
            (self.delivered.saturating_add_signed(from), self.delivered.saturating_add_signed(end));
        if from > 0 {
            if self.ahead.len() < MAX_PIECES {
                let known = self.ahead.entry(start).or_insert(end);
                *known = end.max(*known);
            }
            return false;
        }
        let before = self.delivered;
        self.delivered = end;
        while let Some(piece) = self.ahead.first_entry().filter(|piece| *piece.key() <= self.delivered) {
            self.delivered = self.delivered.max(piece.remove());
        }
        self.next = Some(next + (self.delivered - before) as u32);
        true
    }
}

/// One direction of data of one flow.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// When its first payload byte left the sender.
    pub first_data_at: Option<Instant>,
    /// When something new last arrived in order.
    pub last_delivered_at: Instant,
    /// What `delivered` was at the end of the warm-up.
    pub delivered_at_warm_up: u64,
    /// Segments sent again.
    pub retransmits: u64,
    /// Payload bytes sent again.
    pub retransmit_bytes: u64,
    /// One-way delays.
    pub delays: DelayHistogram,
    /// One-way delays of segments that met no silence.
    pub delays_outside_silence: DelayHistogram,
    /// Times from a silence's end to the first data that moves the stream on.
    pub resumes: DelayHistogram,
    /// Bytes delivered at the end of each series interval.
    pub series: Vec<u64>,
    /// Zero windows the sender's host received.
    pub zero_windows: u64,
    /// Payload bytes sent the first time.
    pub sent_bytes: u64,
    stream: Stream,
    /// Of the datagrams of a QUIC flow that go up.
    crossings: Crossings,
    next_to_send: Option<Seq>,
    /// Silences of its station that had ended when the stream last moved on.
    silences_seen: u64,
}

impl Track {
    /// Payload bytes that have arrived in order.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.stream.delivered
    }

    /// A packet that was sent at `sent` has arrived.
    fn record_delay(&mut self, now: Instant, sent: Instant, met_silence: bool) {
        let delay = now.since(sent);
        self.delays.record(delay);
        if !met_silence {
            self.delays_outside_silence.record(delay);
        }
    }

    /// New data has arrived in order, which crossed the air at `crossed`.
    fn move_on(
        &mut self,
        now: Instant,
        crossed: Instant,
        counting: bool,
        station: StationId,
        silences: &SilenceTracker,
    ) {
        self.last_delivered_at = now;
        if !counting {
            self.delivered_at_warm_up = self.stream.delivered;
        }
        let ended = silences.ended_by(station, crossed);
        if ended <= self.silences_seen {
            return;
        }
        if let Some(waited) = silences.served_since(station, self.silences_seen, crossed).filter(|_| counting)
        {
            self.resumes.record(waited + now.since(crossed));
        }
        self.silences_seen = ended;
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its ends.
    pub key: FlowKey,
    /// Its station.
    pub station: u32,
    /// When its first packet was seen.
    pub start: Instant,
    /// Number of the SYN that opened it, if that was seen.
    syn: Option<Seq>,
    /// Data to the station, data from the station.
    tracks: [Track; 2],
    /// Of a UDP or a QUIC flow.
    datagrams: Option<Box<Datagrams>>,
}

impl Flow {
    /// The data that flows in `direction`.
    #[must_use]
    pub fn track(&self, direction: Direction) -> &Track {
        &self.tracks[index(direction)]
    }

    /// What is known of the datagrams of a UDP or a QUIC flow; `None` of TCP.
    #[must_use]
    pub fn datagrams(&self) -> Option<&Datagrams> {
        self.datagrams.as_deref()
    }

    /// The direction that carried more data.
    #[must_use]
    pub fn data_direction(&self) -> Direction {
        if self.tracks[0].delivered() >= self.tracks[1].delivered() {
            Direction::Downlink
        } else {
            Direction::Uplink
        }
    }
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => 0,
        Direction::Uplink => 1,
    }
}

/// When a segment passed two places.
#[derive(Clone, Copy, Debug)]
struct Passed {
    sent: Instant,
    /// Handed to the base station from the wire.
    at_base_station: Option<Instant>,
    /// Of one that goes up.
    crossed: Option<Crossed>,
}

/// All flows of one run.
pub struct FlowLog {
    flows: Vec<Flow>,
    by_key: HashMap<FlowKey, usize>,
    /// UDP and QUIC flows of which no datagram has been seen yet.
    expected: HashMap<FlowKey, Datagrams>,
    /// By (flow, direction, sequence number after it): the segment's latest transmission.
    sent: HashMap<(usize, usize, u32), Passed>,
    transit: DelayHistogram,
    /// Flow, data direction and packet, in the order of time.
    seen: Vec<(u32, Direction, Seen)>,
    most_seen: usize,
    /// When the first packet was left out for which `seen` had no room.
    seen_until: Option<Instant>,
    /// A connection was carried that is not measured.
    has_left_out: bool,
    warm_up: Instant,
    interval: Duration,
    next_sample: Instant,
    samples: usize,
}

impl FlowLog {
    /// An empty log; it counts from `warm_up`, series have a point an `interval`.
    #[must_use]
    pub fn new(warm_up: Instant, interval: Duration) -> Self {
        Self {
            flows: Vec::new(),
            by_key: HashMap::new(),
            expected: HashMap::new(),
            sent: HashMap::new(),
            transit: DelayHistogram::new(),
            // The whole capacity is reserved now: a vector that grows would make the air late. Memory that is
            // not used is never touched.
            seen: Vec::with_capacity(MAX_SEEN),
            most_seen: MAX_SEEN,
            seen_until: None,
            has_left_out: false,
            warm_up,
            interval,
            next_sample: Instant::ZERO + interval,
            samples: 0,
        }
    }

    /// The flows, in the order of their first packet.
    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// How long the base station took to forward downlink segments, an agent's holding included.
    #[must_use]
    pub const fn transit(&self) -> &DelayHistogram {
        &self.transit
    }

    /// What passed of the data of flow `number` (in the order of [`Self::flows`]) in `direction`.
    #[must_use]
    pub fn seen(&self, number: usize, direction: Direction) -> Vec<Seen> {
        let of_flow = self.seen.iter().filter(|one| (one.0 as usize, one.1) == (number, direction));
        of_flow.map(|one| one.2).collect()
    }

    /// Until when [`Self::seen`] is whole; `None`: to the end.
    #[must_use]
    pub const fn seen_until(&self) -> Option<Instant> {
        self.seen_until
    }

    /// True if more than [`MAX_FLOWS`] connections were made.
    #[must_use]
    pub const fn has_left_out(&self) -> bool {
        self.has_left_out
    }

    fn see(&mut self, at: Instant, number: usize, direction: Direction, what: What) {
        if self.seen.len() < self.most_seen {
            self.seen.push((number as u32, direction, Seen { at, what }));
        } else {
            self.seen_until.get_or_insert(at);
        }
    }

    fn flow(&mut self, now: Instant, packet: &ParsedPacket, direction: Direction) -> Option<usize> {
        let key = packet.flow(direction);
        let flags = packet.tcp.flags;
        let syn = (flags.contains(TcpFlags::SYN) && !flags.contains(TcpFlags::ACK)).then_some(packet.tcp.seq);
        if let Some(&found) = self.by_key.get(&key) {
            // A SYN with another number opens another connection: a host may use a port again after it has
            // closed it.
            let old = self.flows.get(found).and_then(|flow| flow.syn);
            if syn.is_none() || old.is_none() || syn == old {
                return Some(found);
            }
        }
        let station = station_of(key.station.addr)?;
        if self.flows.len() >= MAX_FLOWS {
            self.has_left_out = true;
            return None;
        }
        let tracks = [Track::default(), Track::default()];
        Some(self.open(Flow { key, station, start: now, syn, tracks, datagrams: None }))
    }

    /// A flow begins; answers its number.
    fn open(&mut self, flow: Flow) -> usize {
        let number = self.flows.len();
        self.by_key.insert(flow.key, number);
        self.flows.push(flow);
        number
    }

    /// A packet left its sending host.
    pub fn on_sent(&mut self, now: Instant, packet: &ParsedPacket, direction: Direction) {
        self.sample(now);
        let Some(number) = self.flow(now, packet, direction) else { return };
        let (seq, len) = (packet.tcp.seq, packet.tcp.payload_len);
        if len == 0 {
            self.see(now, number, direction, What::Sent { seq, len, again: false });
            return;
        }
        let Some(track) = self.flows.get_mut(number).map(|flow| &mut flow.tracks[index(direction)]) else {
            return;
        };
        let end = packet.tcp.seq_end();
        track.first_data_at.get_or_insert(now);
        let again = track.next_to_send.is_some_and(|next| !end.after(next));
        if !again {
            track.next_to_send = Some(end);
            track.sent_bytes += u64::from(len);
        } else if now >= self.warm_up {
            track.retransmits += 1;
            track.retransmit_bytes += u64::from(len);
        }
        if self.sent.len() < MAX_IN_FLIGHT {
            let passed = Passed { sent: now, at_base_station: None, crossed: None };
            self.sent.insert((number, index(direction), end.0), passed);
        }
        self.see(now, number, direction, What::Sent { seq, len, again });
    }

    /// A UDP or a QUIC flow is to come.
    pub fn expect(&mut self, key: FlowKey, datagrams: Datagrams) {
        self.expected.insert(key, datagrams);
    }

    /// The datagram in a whole packet that goes in `direction`; `None` if it is none of the run's flows.
    /// `leaves`: it comes from its host now.
    pub fn numbered(&mut self, bytes: &[u8], direction: Direction, leaves: bool) -> Option<Numbered> {
        let Ok(Parsed::Udp(packet)) = parse_ip_headers(bytes) else { return None };
        let key = packet.flow(direction);
        let datagrams = match self.by_key.get(&key) {
            Some(&number) => self.flows.get_mut(number)?.datagrams.as_deref_mut()?,
            None => self.expected.get_mut(&key)?,
        };
        datagrams.numbered(packet, bytes, direction, leaves)
    }

    /// Opens the flow of a datagram if it is expected.
    fn meet(&mut self, now: Instant, key: FlowKey, silences: &SilenceTracker) {
        if self.expected.is_empty() {
            return;
        }
        let Some(station) = station_of(key.station.addr) else { return };
        let Some(datagrams) = self.expected.remove(&key) else { return };
        let silences_seen = silences.ended(StationId(station));
        let mut tracks = std::array::from_fn(|_| Track { silences_seen, ..Track::default() });
        if datagrams.is_quic() && datagrams.direction() == Direction::Uplink {
            tracks[index(Direction::Uplink)].crossings = Crossings::with_room(MAX_CROSSINGS);
        }
        let datagrams = Some(Box::new(datagrams));
        self.open(Flow { key, station, start: now, syn: None, tracks, datagrams });
    }

    /// What there is of the flow of a datagram that goes in `direction`, and its station.
    fn of_datagram(
        &mut self,
        datagram: &Numbered,
        direction: Direction,
    ) -> Option<(&mut Datagrams, &mut Track, StationId)> {
        let number = *self.by_key.get(&datagram.packet.flow(direction))?;
        let flow = self.flows.get_mut(number)?;
        let datagrams = flow.datagrams.as_deref_mut().filter(|of| of.direction() == direction)?;
        Some((datagrams, &mut flow.tracks[index(direction)], StationId(flow.station)))
    }

    /// A datagram left its sending host.
    pub fn on_datagram_sent(
        &mut self,
        now: Instant,
        datagram: &Numbered,
        direction: Direction,
        silences: &SilenceTracker,
    ) {
        self.sample(now);
        self.meet(now, datagram.packet.flow(direction), silences);
        let warm_up = self.warm_up;
        let Some((datagrams, track, _)) = self.of_datagram(datagram, direction) else { return };
        datagrams.pass(now, warm_up);
        datagrams.sent(now, datagram);
        track.first_data_at.get_or_insert(now);
        track.sent_bytes += u64::from(datagram.payload_len);
    }

    /// A datagram is handed to the base station; `crossed`: how it crossed the air, if it goes up.
    pub fn on_datagram_base_station_in(
        &mut self,
        datagram: &Numbered,
        direction: Direction,
        crossed: Option<Crossed>,
    ) {
        if let Some((datagrams, ..)) = self.of_datagram(datagram, direction) {
            datagrams.entered(datagram.number, crossed);
        }
    }

    /// A datagram comes out of the base station.
    pub fn on_datagram_base_station_out(&mut self, datagram: &Numbered, direction: Direction) {
        if let Some((datagrams, ..)) = self.of_datagram(datagram, direction) {
            datagrams.left(datagram.number);
        }
    }

    /// A datagram reached its receiving host.
    pub fn on_datagram_received(
        &mut self,
        now: Instant,
        datagram: &Numbered,
        direction: Direction,
        silences: &SilenceTracker,
    ) {
        let (warm_up, counting) = (self.warm_up, now >= self.warm_up);
        let Some((datagrams, track, station)) = self.of_datagram(datagram, direction) else { return };
        datagrams.pass(now, warm_up);
        let Some(Arrived { sent, crossed, bytes }) = datagrams.arrived(now, datagram) else { return };
        let is_quic = datagrams.is_quic();
        let crossed = crossed.unwrap_or_else(|| Crossed::on_arrival(now, Some(sent), station, silences));
        if counting {
            track.record_delay(now, sent, crossed.met_silence);
        }
        if !is_quic {
            track.stream.delivered = bytes;
            track.move_on(now, crossed.at, counting, station, silences);
        } else {
            track.crossings.add(now, crossed.at);
        }
    }

    /// Takes note of the run's end.
    pub fn end(&mut self, now: Instant) {
        for datagrams in self.flows.iter_mut().filter_map(|flow| flow.datagrams.as_mut()) {
            datagrams.pass(now, self.warm_up);
        }
    }

    /// A downlink packet is handed to the base station.
    pub fn on_base_station_in(&mut self, now: Instant, packet: &ParsedPacket) {
        if let Some(passed) = self.passed(packet, Direction::Downlink) {
            passed.at_base_station = Some(now);
        }
    }

    /// A downlink packet comes out of the base station towards the radio.
    pub fn on_base_station_out(&mut self, now: Instant, packet: &ParsedPacket) {
        let Some(since) =
            self.passed(packet, Direction::Downlink).and_then(|passed| passed.at_base_station.take())
        else {
            return;
        };
        if now >= self.warm_up {
            self.transit.record(now.since(since));
        }
        if now.since(since) > HELD_LONGER_THAN
            && let Some(&number) = self.by_key.get(&packet.flow(Direction::Downlink))
        {
            self.see(now, number, Direction::Downlink, What::Left { since });
        }
    }

    /// A packet that goes up is handed to the base station, after it crossed the air.
    pub fn on_crossed(&mut self, packet: &ParsedPacket, crossed: Crossed) {
        if let Some(passed) = self.passed(packet, Direction::Uplink) {
            passed.crossed = Some(crossed);
        }
    }

    fn passed(&mut self, packet: &ParsedPacket, direction: Direction) -> Option<&mut Passed> {
        if packet.tcp.payload_len == 0 {
            return None;
        }
        let number = *self.by_key.get(&packet.flow(direction))?;
        self.sent.get_mut(&(number, index(direction), packet.tcp.seq_end().0))
    }

    /// A packet reached its receiving host.
    pub fn on_received(
        &mut self,
        now: Instant,
        packet: &ParsedPacket,
        direction: Direction,
        silences: &SilenceTracker,
    ) {
        let counting = now >= self.warm_up;
        let Some(number) = self.flow(now, packet, direction) else { return };
        if packet.tcp.flags.contains(TcpFlags::ACK) {
            let heard = What::Heard { ack: packet.tcp.ack, zero_window: packet.tcp.window == 0 };
            self.see(now, number, direction.opposite(), heard);
        }
        let Some(flow) = self.flows.get_mut(number) else { return };
        if packet.tcp.window == 0 && !packet.tcp.flags.contains(TcpFlags::RST) {
            flow.tracks[index(direction.opposite())].zero_windows += 1;
        }
        let station = StationId(flow.station);
        let track = &mut flow.tracks[index(direction)];
        if packet.tcp.flags.contains(TcpFlags::SYN) {
            track.stream.next.get_or_insert(packet.tcp.seq + 1);
            track.silences_seen = silences.ended(station);
        }
        if packet.tcp.payload_len == 0 {
            return;
        }
        let end = packet.tcp.seq_end();
        let passed = self.sent.remove(&(number, index(direction), end.0));
        let crossed = passed
            .and_then(|passed| passed.crossed)
            .unwrap_or_else(|| Crossed::on_arrival(now, passed.map(|passed| passed.sent), station, silences));
        if let Some(passed) = passed.filter(|_| counting) {
            track.record_delay(now, passed.sent, crossed.met_silence);
        }
        let new = track.stream.arrived(packet.tcp.seq, packet.tcp.payload_len);
        if new {
            track.move_on(now, crossed.at, counting, station, silences);
        }
        self.see(now, number, direction, What::Arrived { seq: packet.tcp.seq, new });
    }

    /// Closes the series intervals that are over; answers how many. To be called at the end of the run too.
    pub fn sample(&mut self, now: Instant) -> usize {
        while self.next_sample <= now {
            for flow in &mut self.flows {
                for track in &mut flow.tracks {
                    track.series.resize(self.samples, 0);
                    track.series.push(track.stream.delivered);
                }
            }
            self.samples += 1;
            self.next_sample += self.interval;
        }
        self.samples
    }
}
