//! A UDP flow of the testbed: what its sender does, and what its datagrams tell at the ports.
//!
//! The simulator's own sender says when which datagram goes, and the simulator's receiver and player count,
//! so that the numbers mean the same. A datagram's number stands in the last four bytes of its payload,
//! big-endian. It has arrived when it reaches the receiving host; nobody reads it there.
//!
//! The datagrams of a QUIC flow ([`super::quic`]) are encrypted, so nothing can be written into them: they
//! are numbered as they leave their host, and known again by their ends ([`Seals`]).

use std::collections::{HashMap, VecDeque};
use std::time::Duration as StdDuration;

use linkhold_core::packet::Direction;
use linkhold_core::time::Instant;
use linkhold_results::{MediaRecord, UdpRecord};
use linkhold_scenario::Media;
use linkhold_sim::slab::UDP_HEADER;
use linkhold_sim::udp::{Reception, UdpSender};
use linkhold_wire::{Parsed, ParsedDatagram, parse_ip_headers};

use super::clock::instant;
use super::crossed::Crossed;
use super::topology::Family;

/// Port of the first UDP flow, at both of its ends; each flow has one of its own.
pub const UDP_PORT: u16 = 20_001;
/// Most datagrams of a flow that are followed at once: more than a hold buffer of 8 MB has room for.
const MAX_FOLLOWED: usize = 1 << 18;
/// Bytes of a datagram's number.
pub const NUMBER_LEN: usize = 4;
/// Most datagrams of a QUIC flow that are known at once: as many as are under way have room many times.
const MAX_SEALS: usize = 1 << 16;
/// Bytes at the end of an encrypted datagram that tell it from others.
const SEAL_LEN: usize = 8;

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
    /// When its application stops, after the start of the run; `None`: with the run.
    pub stop: Option<StdDuration>,
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
        let (payload_len, number) = end_of(bytes, &packet)?;
        // The receiver counts up to the number after it.
        let number = u32::from_be_bytes(number);
        (number < u32::MAX).then_some(Self { packet, number, payload_len })
    }
}

/// How many bytes of payload a datagram has, and the last `N` of them.
fn end_of<const N: usize>(bytes: &[u8], packet: &ParsedDatagram) -> Option<(u32, [u8; N])> {
    let family = if packet.src.addr.is_ipv4() { Family::V4 } else { Family::V6 };
    // The testbed's hosts send no options.
    let payload_len = packet.ip_len.checked_sub(family.ip_header() + UDP_HEADER)?;
    let end = bytes.get(..packet.ip_len as usize)?.last_chunk::<N>()?;
    (payload_len as usize >= N).then_some((payload_len, *end))
}

/// The numbers of a QUIC flow's datagrams, by their last bytes: they are of the tag that authenticates the
/// last packet of the datagram (RFC 9001 section 5.3), and as good as random.
#[derive(Clone, Debug)]
struct Seals {
    numbers: HashMap<u64, u32>,
    /// The seals that are known, the oldest first.
    known: VecDeque<u64>,
    next: u32,
}

impl Seals {
    fn new() -> Self {
        let (numbers, known) = (HashMap::with_capacity(MAX_SEALS), VecDeque::with_capacity(MAX_SEALS));
        Self { numbers, known, next: 0 }
    }

    /// The number of the datagram with this seal, a new one if it leaves its host now; `None` if it never
    /// did.
    fn number(&mut self, seal: u64, leaves: bool) -> Option<u32> {
        if !leaves {
            return self.numbers.get(&seal).copied();
        }
        if self.known.len() == MAX_SEALS
            && let Some(oldest) = self.known.pop_front()
        {
            self.numbers.remove(&oldest);
        }
        let number = self.next;
        self.next += 1;
        self.known.push_back(seal);
        self.numbers.insert(seal, number);
        Some(number)
    }
}

/// What a flow's datagrams carry.
#[derive(Clone, Debug)]
enum Content {
    /// The stream of a UDP flow. Its sender knows where in the stream a datagram begins.
    Stream(UdpSender),
    /// QUIC, whose datagrams go both ways.
    Sealed(Seals),
}

impl Content {
    /// Where in the flow's stream the datagram begins, as far as somebody plays it.
    fn position(&self, number: u32) -> u64 {
        match self {
            Self::Stream(sender) => sender.position(number),
            Self::Sealed(_) => 0,
        }
    }
}

/// When the datagrams of a flow were sent that have not arrived, by number. A datagram has the place of its
/// number, modulo how many there are. All places are empty as zeros, so that memory which no flow comes to is
/// never touched.
#[derive(Clone, Debug)]
struct UnderWay {
    /// The number and one, or zero.
    numbers: Vec<u32>,
    /// Nanoseconds after the start of the run.
    sent_at: Vec<u64>,
    /// How those that go up crossed the air: twice the nanoseconds, and one if a silence was met; zero of
    /// those that have not.
    crossed: Vec<u64>,
}

impl UnderWay {
    fn new() -> Self {
        let zeros = || vec![0; MAX_FOLLOWED];
        Self { numbers: vec![0; MAX_FOLLOWED], sent_at: zeros(), crossed: zeros() }
    }

    /// The place of a datagram: the number and one that stands there, when it was sent, how it crossed.
    fn place(&mut self, number: u32) -> Option<(&mut u32, &mut u64, &mut u64)> {
        let place = number as usize % MAX_FOLLOWED;
        Some((self.numbers.get_mut(place)?, self.sent_at.get_mut(place)?, self.crossed.get_mut(place)?))
    }

    fn sent(&mut self, now: Instant, number: u32) {
        if let Some((there, at, crossed)) = self.place(number) {
            (*there, *at, *crossed) = (number + 1, now.as_nanos(), 0);
        }
    }

    fn crossed(&mut self, number: u32, how: Crossed) {
        if let Some((.., crossed)) = self.place(number).filter(|(there, ..)| **there == number + 1) {
            *crossed = how.at.as_nanos() * 2 + u64::from(how.met_silence);
        }
    }

    /// When the datagram was sent that arrives now, and how it crossed the air if it goes up; `None` if it
    /// was not sent, or has arrived before.
    fn arrived(&mut self, number: u32) -> Option<(Instant, Option<Crossed>)> {
        let (there, at, crossed) = self.place(number)?;
        if *there != number + 1 {
            return None;
        }
        *there = 0;
        let how = Crossed { at: Instant::from_nanos(*crossed / 2), met_silence: *crossed % 2 == 1 };
        Some((Instant::from_nanos(*at), (*crossed > 0).then_some(how)))
    }
}

/// A datagram that has reached the other host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// When it was sent.
    pub sent: Instant,
    /// How it crossed the air, if it went up.
    pub crossed: Option<Crossed>,
    /// Bytes of payload that have arrived so far.
    pub bytes: u64,
}

/// What is known of a flow's datagrams beside the track of its bytes.
#[derive(Clone, Debug)]
pub struct Datagrams {
    group: usize,
    direction: Direction,
    content: Content,
    reception: Reception,
    /// One more than the highest number that has left the sender's host.
    next: u32,
    under_way: UnderWay,
    /// Those that went into the base station, without the ones up to the last that came out: nothing there
    /// overtakes within a flow.
    in_base_station: VecDeque<u32>,
    /// The first number that is counted; `None` before counting begins.
    counted_from: Option<u32>,
    /// Datagrams that have arrived, and those of them that are not counted.
    arrived: u64,
    arrived_uncounted: u64,
    /// When the application stops, if it does and has not yet.
    stops_at: Option<Instant>,
}

impl Datagrams {
    /// Those of `flow`, before its first.
    #[must_use]
    pub fn new(flow: &UdpFlow) -> Self {
        let content = Content::Stream(flow.sender.clone());
        let stops_at = flow.stop.map(instant);
        let reception = Reception::new(flow.media.as_ref(), instant(flow.start));
        Self { stops_at, reception, ..Self::carrying(content, flow.group, flow.direction) }
    }

    /// Those of a QUIC flow of this group whose data goes in `direction`, before its first.
    #[must_use]
    pub fn of_quic(group: usize, direction: Direction) -> Self {
        Self::carrying(Content::Sealed(Seals::new()), group, direction)
    }

    fn carrying(content: Content, group: usize, direction: Direction) -> Self {
        Self {
            group,
            direction,
            content,
            reception: Reception::new(None, Instant::ZERO),
            next: 0,
            under_way: UnderWay::new(),
            in_base_station: VecDeque::with_capacity(MAX_FOLLOWED),
            counted_from: None,
            arrived: 0,
            arrived_uncounted: 0,
            stops_at: None,
        }
    }

    /// True of a QUIC flow.
    #[must_use]
    pub const fn is_quic(&self) -> bool {
        matches!(self.content, Content::Sealed(_))
    }

    /// The datagram `packet` of this flow in the whole packet `bytes`, with its number; `None` if it is none
    /// that the flow has. `leaves`: it comes from its host now. QUIC's datagrams against the data are not
    /// counted, and all have number 0.
    pub fn numbered(
        &mut self,
        packet: ParsedDatagram,
        bytes: &[u8],
        direction: Direction,
        leaves: bool,
    ) -> Option<Numbered> {
        let with_data = direction == self.direction;
        match &mut self.content {
            Content::Stream(_) => Numbered::of(bytes).filter(|_| with_data),
            Content::Sealed(seals) => {
                let (payload_len, seal) = end_of::<SEAL_LEN>(bytes, &packet)?;
                let number = if with_data { seals.number(u64::from_be_bytes(seal), leaves)? } else { 0 };
                Some(Numbered { packet, number, payload_len })
            }
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

    /// A datagram has left its host.
    pub fn sent(&mut self, now: Instant, datagram: &Numbered) {
        self.next = self.next.max(datagram.number + 1);
        self.under_way.sent(now, datagram.number);
    }

    /// Datagram `number` is handed to the base station; `crossed`: how it crossed the air, if it goes up.
    pub fn entered(&mut self, number: u32, crossed: Option<Crossed>) {
        if let Some(crossed) = crossed {
            self.under_way.crossed(number, crossed);
        }
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

    /// A datagram has reached the other host. `None` if it counts for nothing: a second copy, or one that its
    /// host has not sent.
    pub fn arrived(&mut self, now: Instant, datagram: &Numbered) -> Option<Arrived> {
        let Numbered { number, payload_len, .. } = *datagram;
        let (sent, crossed) = self.under_way.arrived(number)?;
        self.arrived += 1;
        self.arrived_uncounted += u64::from(self.counted_from.is_none_or(|from| number < from));
        let position = self.content.position(number);
        let bytes = self.reception.arrived(now, number, payload_len, position, now.since(sent));
        Some(Arrived { sent, crossed, bytes })
    }

    /// Takes note of the time: what counts begins, and the application stops, each at its own time.
    pub fn pass(&mut self, now: Instant, warm_up: Instant) {
        self.stop_by(now.min(warm_up));
        if self.counted_from.is_none() && now >= warm_up {
            self.counted_from = Some(self.next);
            self.reception.count_from(warm_up, self.next);
        }
        self.stop_by(now);
    }

    fn stop_by(&mut self, now: Instant) {
        if let Some(at) = self.stops_at.take_if(|at| *at <= now) {
            self.reception.content_ends(at, self.content.position(self.next));
        }
    }

    /// What has been counted, with `inside` datagrams on their way through the engine. Of those that went
    /// into the base station after the last that came out, all count as held there, though it may have
    /// dropped some: its kernel does not tell.
    #[must_use]
    pub fn record(&self, inside: u32) -> UdpRecord {
        self.reception.record(self.next, inside.saturating_add(self.held()))
    }

    /// How many datagrams never arrived, of those sent before counting began and of all: with `inside` on
    /// their way as in [`record`](Self::record), which are not among them.
    #[must_use]
    pub fn never_arrived(&self, inside: u32) -> [u64; 2] {
        let uncounted = u64::from(self.counted_from.unwrap_or(self.next));
        let under_way = u64::from(inside) + u64::from(self.held());
        let all = u64::from(self.next).saturating_sub(self.arrived + under_way);
        [uncounted.saturating_sub(self.arrived_uncounted).min(all), all]
    }

    fn held(&self) -> u32 {
        u32::try_from(self.in_base_station.len()).unwrap_or(u32::MAX)
    }

    /// How the media played until `until`.
    #[must_use]
    pub fn media(&self, until: Instant) -> Option<MediaRecord> {
        self.reception.clone().media(until)
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::{Ecn, Endpoint};
    use linkhold_core::time::Duration;
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

    /// A flow of datagrams of 100 bytes, 1250 a second, that stops after a second.
    fn flow(media: Option<Media>) -> UdpFlow {
        let source = Source::Paced { rate: BitRate::from_mbps(1), chunk: Bytes(100) };
        UdpFlow {
            group: 0,
            station: 0,
            direction: Direction::Downlink,
            sender: linkhold_sim::plan::udp_sender(source, 100, Instant::ZERO),
            media,
            start: StdDuration::ZERO,
            stop: Some(StdDuration::from_secs(1)),
            family: Family::V4,
        }
    }

    fn numbered(number: u32) -> Numbered {
        Numbered::of(&bytes(100, number)).expect("it has a number")
    }

    #[test]
    fn what_the_base_station_holds_at_the_end_is_not_lost() {
        let mut datagrams = Datagrams::new(&flow(None));
        datagrams.pass(Instant::ZERO, Instant::ZERO);
        for number in 0..6 {
            datagrams.sent(Instant::ZERO, &numbered(number));
        }
        // The sixth is on the wire; the second is dropped, the fourth and the fifth are held.
        for number in 0..5 {
            datagrams.entered(number, None);
        }
        for (number, bytes) in [(0, 100), (2, 200)] {
            datagrams.left(number);
            let arrived = datagrams.arrived(Instant::from_millis(5), &numbered(number));
            assert_eq!(arrived, Some(Arrived { sent: Instant::ZERO, crossed: None, bytes }));
        }
        let record = datagrams.record(1);
        assert_eq!((record.sent, record.delivered, record.lost, record.inside), (6, 2, 1, 3));
    }

    #[test]
    fn a_second_copy_and_what_nobody_sent_count_for_nothing() {
        let mut datagrams = Datagrams::new(&flow(None));
        datagrams.pass(Instant::ZERO, Instant::ZERO);
        datagrams.sent(Instant::ZERO, &numbered(3));
        let later = Instant::from_millis(9);
        assert!(datagrams.arrived(later, &numbered(3)).is_some());
        // How another crossed, whose place it would have, is not taken for how this one did.
        datagrams.sent(Instant::ZERO, &numbered(5));
        let crossed = Crossed { at: Instant::from_millis(7), met_silence: true };
        for number in [5, 5 + MAX_FOLLOWED as u32, 6] {
            datagrams.entered(number, Some(crossed));
        }
        datagrams.sent(Instant::ZERO, &numbered(6));
        let how = |arrived: Option<Arrived>| arrived.map(|arrived| arrived.crossed);
        assert_eq!(how(datagrams.arrived(later, &numbered(5))), Some(Some(crossed)));
        assert_eq!(how(datagrams.arrived(later, &numbered(6))), Some(None));
        for number in [3, 4, 3 + MAX_FOLLOWED as u32] {
            assert_eq!(datagrams.arrived(later, &numbered(number)), None, "{number}");
        }
        let record = datagrams.record(0);
        assert_eq!((record.sent, record.delivered), (7, 3));
    }

    #[test]
    fn counting_begins_with_the_warm_ups_end_and_a_stream_ends_when_it_stops() {
        let media = Media {
            rate: BitRate::from_mbps(1),
            chunk: Bytes(100),
            interval: Duration::from_micros(800),
            ahead: Duration::ZERO,
            ahead_rate: None,
            startup: Duration::from_millis(100),
            resume: Duration::from_millis(100),
        };
        // Everything arrives 10 ms after it was sent; the next event after the stop comes seconds later.
        let played = |warm_up: Instant| {
            let mut datagrams = Datagrams::new(&flow(Some(media)));
            for number in 0..1250 {
                let at = instant(StdDuration::from_micros(800 * u64::from(number)));
                datagrams.pass(at, warm_up);
                datagrams.sent(at, &numbered(number));
                datagrams.arrived(at + Duration::from_millis(10), &numbered(number));
            }
            let until = Instant::from_millis(5_000);
            datagrams.pass(until, warm_up);
            datagrams.media(until).expect("it plays media")
        };
        let whole = played(Instant::ZERO);
        assert_eq!((whole.stalls, whole.played_bytes, whole.buffered_bytes), (0, 125_000, 0));
        // The warm-up ends between two events: what is played after it counts.
        let half = played(instant(StdDuration::from_micros(500_300)));
        assert!(half.stalls == 0 && (70_000..80_000).contains(&half.played_bytes), "{half:?}");
        // It ends when the stream has stopped, and 90 ms of it are still to be played.
        let rest = played(instant(StdDuration::from_micros(1_020_000)));
        assert!((10_000..13_000).contains(&rest.played_bytes), "{rest:?}");
    }

    #[test]
    fn a_quic_datagram_is_known_by_its_end_and_numbered_as_it_leaves_its_host() {
        let mut datagrams = Datagrams::of_quic(0, Direction::Downlink);
        datagrams.pass(Instant::ZERO, Instant::ZERO);
        let sealed = |seal: u32, payload_len| {
            let bytes = bytes(payload_len, seal);
            let Ok(Parsed::Udp(packet)) = parse_ip_headers(&bytes) else { panic!("it is UDP") };
            (packet, bytes)
        };
        let mut find = |seal, direction, leaves| {
            let (packet, bytes) = sealed(seal, 1200);
            datagrams.numbered(packet, &bytes, direction, leaves).map(|found| found.number)
        };
        let (down, up) = (Direction::Downlink, Direction::Uplink);
        assert_eq!(find(70, down, false), None, "nobody has sent it");
        assert_eq!((find(70, down, true), find(50, down, true)), (Some(0), Some(1)));
        assert_eq!((find(50, down, false), find(70, down, false)), (Some(1), Some(0)));
        // The other way it is let through, and not counted.
        assert_eq!(
            (find(90, up, true), find(90, up, false), find(90, down, false)),
            (Some(0), Some(0), None)
        );
        let (packet, short) = sealed(1, 7);
        assert_eq!(datagrams.numbered(packet, &short, down, true), None, "too short for a seal");
    }

    #[test]
    fn as_many_quic_datagrams_are_known_as_there_is_room_for() {
        let mut seals = Seals::new();
        for seal in 0..MAX_SEALS as u64 + 2 {
            seals.number(seal, true);
        }
        assert_eq!((seals.number(1, false), seals.number(2, false)), (None, Some(2)));
        assert_eq!((seals.numbers.len(), seals.known.len()), (MAX_SEALS, MAX_SEALS));
    }

    #[test]
    fn what_never_arrived_is_told_apart_by_the_warm_ups_end() {
        let mut datagrams = Datagrams::new(&flow(None));
        let warm_up = Instant::from_millis(100);
        for number in 0..10 {
            let at = if number < 6 { Instant::ZERO } else { warm_up };
            datagrams.pass(at, warm_up);
            datagrams.sent(at, &numbered(number));
        }
        // The first is lost; the second comes late; the eighth is lost; the last is on its way.
        for number in [2, 3, 4, 5, 6, 1, 8] {
            assert!(datagrams.arrived(warm_up, &numbered(number)).is_some());
        }
        assert_eq!(datagrams.never_arrived(1), [1, 2]);
        assert_eq!((datagrams.record(1).sent, datagrams.record(1).lost), (4, 1));
    }

    proptest::proptest! {
        /// Whatever comes in by a port is a datagram of the testbed's or not, and no panic.
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..1600)) {
            if let Some(found) = Numbered::of(&bytes) {
                proptest::prop_assert!((found.payload_len as usize) < bytes.len());
            }
        }
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
