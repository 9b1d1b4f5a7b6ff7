//! A UDP flow of the testbed: what its sender does, and what its datagrams tell at the ports.
//!
//! The simulator's own sender says when which datagram goes, and the simulator's receiver and player count,
//! so that the numbers mean the same. A datagram's number stands in the last four bytes of its payload,
//! big-endian. It has arrived when it reaches the receiving host; nobody reads it there.

use std::collections::VecDeque;
use std::time::Duration as StdDuration;

use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_results::{MediaRecord, UdpRecord};
use linkhold_scenario::Media;
use linkhold_sim::apps::player::Player;
use linkhold_sim::slab::UDP_HEADER;
use linkhold_sim::udp::{UdpReceiver, UdpSender};
use linkhold_wire::{Parsed, ParsedDatagram, parse_ip_headers};

use super::topology::Family;

/// Port of the first UDP flow, at both of its ends; each flow has one of its own.
pub const UDP_PORT: u16 = 20_001;
/// Most datagrams of a flow that are followed through the base station at once.
const MAX_FOLLOWED: usize = 1 << 17;
/// Bytes of a datagram's number.
pub const NUMBER_LEN: usize = 4;

/// A UDP flow to start.
#[derive(Clone, Debug)]
pub struct UdpFlow {
    /// Number of its group in the scenario.
    pub group: usize,
    /// The station at the radio end.
    pub station: u32,
    /// Which way the data goes.
    pub direction: Direction,
    /// Its sender, as it is before the run.
    pub sender: UdpSender,
    /// What its receiver plays.
    pub media: Option<Media>,
    /// When it begins, after the start of the run.
    pub start: StdDuration,
    /// When its application stops, after the start of the run.
    pub stop: StdDuration,
    /// Internet protocol.
    pub family: Family,
}

/// A datagram of a UDP flow, found in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Its headers.
    pub packet: ParsedDatagram,
    /// Its number, from 0.
    pub number: u32,
    /// Bytes of its payload.
    pub payload_len: u32,
}

impl Numbered {
    /// The datagram in a whole IP packet; `None` if there is none, or none with a number.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let Ok(Parsed::Udp(packet)) = parse_ip_headers(bytes) else { return None };
        // The testbed's hosts send no options.
        let ip_header = if packet.src.addr.is_ipv4() { 20 } else { 40 };
        let payload_len = packet.ip_len.checked_sub(ip_header + UDP_HEADER)?;
        if (payload_len as usize) < NUMBER_LEN {
            return None;
        }
        let number = bytes.get(..packet.ip_len as usize)?.last_chunk::<NUMBER_LEN>()?;
        // The receiver counts up to the number after it.
        let number = u32::from_be_bytes(*number);
        (number < u32::MAX).then_some(Self { packet, number, payload_len })
    }
}

/// What is known of a flow's datagrams beside the track of its bytes.
#[derive(Clone, Debug)]
pub struct Datagrams {
    group: usize,
    direction: Direction,
    sender: UdpSender,
    receiver: UdpReceiver,
    player: Option<Box<Player>>,
    /// One more than the highest number that has left the sender's host.
    next: u32,
    /// Those that went into the base station, without the ones up to the last that came out: nothing there
    /// overtakes within a flow.
    in_base_station: VecDeque<u32>,
    counting: bool,
    /// When the application stops, until it has.
    stops_at: Option<Instant>,
}

impl Datagrams {
    /// Those of `flow`, before its first.
    #[must_use]
    pub fn new(flow: &UdpFlow) -> Self {
        let after_start = |time: StdDuration| {
            Instant::ZERO + Duration::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        };
        Self {
            group: flow.group,
            direction: flow.direction,
            sender: flow.sender.clone(),
            receiver: UdpReceiver::default(),
            player: flow
                .media
                .as_ref()
                .map(|media| Box::new(Player::new(media, false, after_start(flow.start)))),
            next: 0,
            in_base_station: VecDeque::new(),
            counting: false,
            stops_at: Some(after_start(flow.stop)),
        }
    }

    /// Number of the flow's group in the scenario.
    #[must_use]
    pub const fn group(&self) -> usize {
        self.group
    }

    /// Which way the data goes.
    #[must_use]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// Datagram `number` has left its host.
    pub fn sent(&mut self, number: u32) {
        self.next = self.next.max(number + 1);
    }

    /// Datagram `number` is handed to the base station.
    pub fn entered(&mut self, number: u32) {
        if self.in_base_station.len() < MAX_FOLLOWED {
            self.in_base_station.push_back(number);
        }
    }

    /// Datagram `number` comes out of the base station.
    pub fn left(&mut self, number: u32) {
        while self.in_base_station.front().is_some_and(|&first| first <= number) {
            self.in_base_station.pop_front();
        }
    }

    /// Datagram `number` has reached the other host; answers how many bytes have.
    pub fn arrived(&mut self, now: Instant, number: u32, len: u32, transit: Duration) -> u64 {
        self.receiver.arrived(number, len, transit);
        if let Some(player) = &mut self.player {
            let start = self.sender.position(number);
            player.arrived(now, start, start + u64::from(len));
        }
        self.receiver.bytes()
    }

    /// Takes note of the time: what counts begins, and the application stops, when it is time.
    pub fn pass(&mut self, now: Instant, warm_up: Instant) {
        if !self.counting && now >= warm_up {
            self.counting = true;
            self.receiver.count_from(self.next);
            if let Some(player) = &mut self.player {
                player.count_from(now);
            }
        }
        if let Some(at) = self.stops_at.filter(|&at| now >= at) {
            self.stops_at = None;
            if let Some(player) = &mut self.player {
                player.content_ends(at, self.sender.position(self.next));
            }
        }
    }

    /// What has been counted, with `inside` datagrams on their way through the engine. Of those that went
    /// into the base station after the last that came out, all count as held there, though it may have
    /// dropped some: its kernel does not tell.
    #[must_use]
    pub fn record(&self, inside: u32) -> UdpRecord {
        let held = u32::try_from(self.in_base_station.len()).unwrap_or(u32::MAX);
        self.receiver.record(self.next, inside.saturating_add(held))
    }

    /// How the media played until `until`.
    #[must_use]
    pub fn media(&self, until: Instant) -> Option<MediaRecord> {
        self.player.clone().map(|mut player| player.record(until))
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::{Ecn, Endpoint};
    use linkhold_core::units::{BitRate, Bytes};
    use linkhold_scenario::Source;
    use linkhold_wire::{DatagramSpec, emit_datagram};

    use super::*;

    fn bytes(payload_len: u32, number: u32) -> Vec<u8> {
        let end = |last, port| Endpoint { addr: [10, 0, 0, last].into(), port };
        let spec =
            DatagramSpec { src: end(1, UDP_PORT), dst: end(2, UDP_PORT), payload_len, ecn: Ecn::NotEct };
        let mut header = [0; 64];
        let len = emit_datagram(&spec, &mut header).expect("it fits");
        let mut bytes = header[..len].to_vec();
        bytes.resize(len + payload_len as usize, 0);
        if let Some(last) = bytes.last_chunk_mut::<NUMBER_LEN>() {
            *last = number.to_be_bytes();
        }
        bytes
    }

    #[test]
    fn a_datagram_has_its_number_at_its_end() {
        for (payload_len, number) in [(4, 0), (1200, 77), (1472, u32::MAX - 1)] {
            let found = Numbered::of(&bytes(payload_len, number)).expect("it has one");
            assert_eq!((found.payload_len, found.number), (payload_len, number));
        }
        // Padding behind the packet is no part of it.
        let mut padded = bytes(100, 5);
        padded.extend([9; 18]);
        assert_eq!(Numbered::of(&padded).map(|found| found.number), Some(5));
    }

    #[test]
    fn what_the_base_station_holds_at_the_end_is_not_lost() {
        let source = Source::Paced { rate: BitRate::from_mbps(1), chunk: Bytes(100) };
        let sender = linkhold_sim::plan::udp_sender(source, 100, Instant::ZERO);
        let flow = UdpFlow {
            group: 0,
            station: 0,
            direction: Direction::Downlink,
            sender,
            media: None,
            start: StdDuration::ZERO,
            stop: StdDuration::from_secs(1),
            family: Family::V4,
        };
        let mut datagrams = Datagrams::new(&flow);
        datagrams.pass(Instant::ZERO, Instant::ZERO);
        for number in 0..6 {
            datagrams.sent(number);
        }
        // The sixth is on the wire; the second is dropped, the fourth and the fifth are held.
        for number in 0..5 {
            datagrams.entered(number);
        }
        for number in [0, 2] {
            datagrams.left(number);
            datagrams.arrived(Instant::from_millis(5), number, 100, Duration::from_millis(5));
        }
        let record = datagrams.record(1);
        assert_eq!((record.sent, record.delivered, record.lost, record.inside), (6, 2, 1, 3));
    }

    #[test]
    fn what_has_no_number_is_none_of_the_testbeds() {
        assert_eq!(Numbered::of(&bytes(3, 0)), None, "too short");
        assert_eq!(Numbered::of(&bytes(100, u32::MAX)), None, "no number follows it");
        let whole = bytes(100, 1);
        for len in 0..whole.len() {
            assert_eq!(Numbered::of(&whole[..len]), None, "cut after {len} bytes");
        }
    }
}
