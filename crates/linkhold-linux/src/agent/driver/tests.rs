//! The driver between a scripted mechanism and a data path that only writes down.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

use linkhold_core::action::DropReason;
use linkhold_core::link_event::{Cause, LinkEventKind, Scope};
use linkhold_core::mechanism::Metrics;
use linkhold_core::packet::{Ecn, Endpoint, FlowKey, StationId, SynOptions, TcpSegment};
use linkhold_core::registry;
use linkhold_core::units::{BitRate, Fraction, Seq};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use linkhold_wire::{
    DatagramSpec, PacketSpec, Payload, datagram_len, emit, emit_datagram, parse_ip_tcp_headers,
    verify_checksums,
};

use super::*;
use crate::agent::stations::{IDLE, MAX_STATIONS};
use crate::datapath::DataPathCounters;

/// What the data path was told.
#[derive(Debug, PartialEq)]
enum Told {
    Accept(u64),
    Replace(u64, Vec<u8>),
    Discard(u64),
    Hold(u64),
    Release(u64),
    ReplaceHeld(u64, Vec<u8>),
    DiscardHeld(u64),
    Inject(Vec<u8>),
}

#[derive(Default)]
struct Script {
    waiting: VecDeque<(Arrived, Vec<u8>)>,
    current: Vec<u8>,
    told: Vec<Told>,
    /// The bridge that each injected packet was given.
    bridges: Vec<u32>,
}

impl DataPath for Script {
    fn name(&self) -> &'static str {
        "script"
    }
    fn readable(&self) -> BorrowedFd<'_> {
        unreachable!("the driver does not wait")
    }
    fn next_packet(&mut self) -> io::Result<Option<Arrived>> {
        let Some((arrived, bytes)) = self.waiting.pop_front() else { return Ok(None) };
        self.current = bytes;
        Ok(Some(arrived))
    }
    fn bytes(&self) -> &[u8] {
        &self.current
    }
    fn accept(&mut self, id: PacketId) {
        self.told.push(Told::Accept(id.0));
    }
    fn replace(&mut self, id: PacketId, packet: &[u8]) {
        self.told.push(Told::Replace(id.0, packet.to_vec()));
    }
    fn discard(&mut self, id: PacketId) {
        self.told.push(Told::Discard(id.0));
    }
    fn hold(&mut self, id: PacketId) {
        self.told.push(Told::Hold(id.0));
    }
    fn release(&mut self, id: PacketId) {
        self.told.push(Told::Release(id.0));
    }
    fn replace_held(&mut self, id: PacketId, packet: &[u8]) {
        self.told.push(Told::ReplaceHeld(id.0, packet.to_vec()));
    }
    fn discard_held(&mut self, id: PacketId) {
        self.told.push(Told::DiscardHeld(id.0));
    }
    fn inject(&mut self, packet: &[u8], bridge: u32) {
        self.told.push(Told::Inject(packet.to_vec()));
        self.bridges.push(bridge);
    }
    fn flush(&mut self) {}
    fn pass_everything(&mut self) {}
    fn counters(&self) -> DataPathCounters {
        DataPathCounters::default()
    }
}

/// Answers as told, in order.
#[derive(Default)]
struct Puppet {
    answers: VecDeque<(Verdict, Vec<Action>)>,
    on_link: Vec<Action>,
    /// Packets (number, station) and events that it was told of.
    seen: Arc<Mutex<Vec<(u64, u32)>>>,
    events: Arc<Mutex<Vec<LinkEventKind>>>,
}

impl Mechanism for Puppet {
    fn name(&self) -> &'static str {
        "puppet"
    }
    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.seen.lock().unwrap().push((packet.id.0, packet.station.0));
        let (verdict, actions) =
            self.answers.pop_front().unwrap_or((Verdict::Forward(Rewrite::NONE), Vec::new()));
        actions.into_iter().for_each(|action| out.push(action));
        verdict
    }
    fn on_datagram(&mut self, _now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        self.seen.lock().unwrap().push((datagram.id.0, datagram.station.0));
        let (verdict, actions) =
            self.answers.pop_front().unwrap_or((Verdict::Forward(Rewrite::NONE), Vec::new()));
        actions.into_iter().for_each(|action| out.push(action));
        verdict
    }
    fn on_link(&mut self, _now: Instant, event: LinkEvent, out: &mut Actions) {
        self.events.lock().unwrap().push(event.kind);
        self.on_link.drain(..).for_each(|action| out.push(action));
    }
    fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}
    fn next_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_holding(&self) -> bool {
        false
    }
    fn flush(&mut self, _now: Instant, _out: &mut Actions) {}
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

fn flow() -> FlowKey {
    FlowKey {
        correspondent: Endpoint { addr: [10, 0, 0, 1].into(), port: 80 },
        station: Endpoint { addr: [10, 0, 1, 1].into(), port: 4000 },
    }
}

/// An uplink segment with this payload; the data path shows at most `copy` bytes of it.
fn uplink(id: u64, payload_len: u32, copy: usize) -> (Arrived, Vec<u8>) {
    let tcp = TcpSegment {
        seq: Seq(1000),
        ack: Seq(5000),
        payload_len,
        window: 700,
        flags: TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let spec = PacketSpec { src: flow().station, dst: flow().correspondent, tcp, ecn: Ecn::NotEct };
    let mut bytes = vec![0; 65_536];
    let length = emit(&spec, Payload::Zeros, &mut bytes).unwrap();
    bytes.truncate(length.min(copy));
    let arrived = Arrived {
        id: PacketId(id),
        radio: 0,
        direction: Direction::Uplink,
        len: length as u32,
        in_interface: 2,
        out_interface: 1,
        checksum_ready: true,
        aggregate: false,
    };
    (arrived, bytes)
}

fn run(packets: Vec<(Arrived, Vec<u8>)>, answers: Vec<(Verdict, Vec<Action>)>) -> Driver<Script> {
    let script = Script { waiting: packets.into(), ..Script::default() };
    let puppet = Puppet { answers: answers.into(), ..Puppet::default() };
    let mut driver = Driver::new(script, vec![Radio::new(Box::new(puppet), Stations::new([]))]);
    assert!(!driver.handle_packets(100, || Instant::ZERO).unwrap());
    driver
}

fn closed() -> Verdict {
    Verdict::Forward(Rewrite::window(0))
}

#[test]
fn a_short_packet_is_replaced_by_one_with_the_new_window_and_right_checksums() {
    let driver = run(vec![uplink(7, 0, 2048)], vec![(closed(), vec![])]);
    let [Told::Replace(7, bytes)] = &driver.datapath.told[..] else { panic!("{:?}", driver.datapath.told) };
    assert_eq!(verify_checksums(bytes), Ok(true));
    assert_eq!(parse_ip_tcp_headers(bytes).unwrap().tcp.window, 0);
}

#[test]
fn a_checksum_left_to_hardware_is_completed_in_a_replaced_packet() {
    let (mut arrived, mut bytes) = uplink(7, 0, 2048);
    arrived.checksum_ready = false;
    // Bytes 16 and 17 of the TCP header: whatever stands there is not the checksum.
    bytes[36..38].copy_from_slice(&[0x12, 0x34]);
    let driver = run(vec![(arrived, bytes)], vec![(closed(), vec![])]);
    let [Told::Replace(7, bytes)] = &driver.datapath.told[..] else { panic!("{:?}", driver.datapath.told) };
    assert_eq!(verify_checksums(bytes), Ok(true));
}

#[test]
fn a_long_packet_passes_with_an_acknowledgment_behind_it_that_says_the_window() {
    let driver = run(vec![uplink(7, 9000, 2048)], vec![(closed(), vec![])]);
    let [Told::Accept(7), Told::Inject(ack)] = &driver.datapath.told[..] else {
        panic!("{:?}", driver.datapath.told)
    };
    let ack = parse_ip_tcp_headers(ack).unwrap();
    assert_eq!((ack.tcp.window, ack.tcp.seq, ack.tcp.ack), (0, Seq(10_000), Seq(5000)));
    assert_eq!((ack.src, ack.dst), (flow().station, flow().correspondent));
    assert_eq!(driver.counters().rewrites_by_ack, 1);
}

#[test]
fn a_packet_of_our_own_is_given_the_bridge_that_its_radio_is_in() {
    for (in_interface, bridge) in [(1, 1), (2, 0)] {
        let (arrived, bytes) = uplink(7, 9000, 2048);
        let driver = run(vec![(Arrived { in_interface, ..arrived }, bytes)], vec![(closed(), vec![])]);
        assert_eq!(driver.datapath.bridges, [bridge], "in by {in_interface}, out by 1");
    }
}

#[test]
fn a_long_packet_that_was_held_leaves_with_an_acknowledgment_behind_it_that_says_the_window() {
    let release = |rewrite| vec![Action::Release { packet: PacketId(7), rewrite }];
    for (mark_ce, skipped) in [(false, 0), (true, 1)] {
        let rewrite = Rewrite { set_ece: true, mark_ce, ..Rewrite::window(0) };
        let driver = run(
            vec![uplink(7, 900, 2048), uplink(8, 0, 2048)],
            vec![(Verdict::Hold, vec![]), (Verdict::Forward(Rewrite::NONE), release(rewrite))],
        );
        let counters = driver.counters();
        assert_eq!((counters.rewrites_by_ack, counters.rewrites_skipped), (1 - skipped, skipped));
        if mark_ce {
            assert_eq!(driver.datapath.told, [Told::Hold(7), Told::Accept(8), Told::Release(7)]);
            continue;
        }
        let [Told::Hold(7), Told::Accept(8), Told::Release(7), Told::Inject(ack)] = &driver.datapath.told[..]
        else {
            panic!("{:?}", driver.datapath.told)
        };
        let ack = parse_ip_tcp_headers(ack).unwrap();
        assert_eq!((ack.tcp.window, ack.tcp.seq, ack.tcp.ack), (0, Seq(1900), Seq(5000)));
        assert!(ack.tcp.flags.contains(TcpFlags::ECE));
        assert_eq!((ack.src, ack.dst), (flow().station, flow().correspondent));
    }
}

#[test]
fn the_verdict_comes_before_the_actions_so_a_packet_may_be_released_in_the_call_that_held_it() {
    let release = Action::Release { packet: PacketId(7), rewrite: Rewrite::NONE };
    let driver = run(vec![uplink(7, 0, 2048)], vec![(Verdict::Hold, vec![release])]);
    assert_eq!(driver.datapath.told, [Told::Hold(7), Told::Release(7)]);
}

#[test]
fn held_packets_leave_in_the_order_of_the_actions_each_in_its_own_way() {
    let packets = (1..=4).map(|id| uplink(id, if id == 2 { 9000 } else { 0 }, 192)).collect();
    let mut driver = run(packets, vec![(Verdict::Hold, vec![]); 4]);
    let actions = vec![
        Action::Release { packet: PacketId(2), rewrite: Rewrite::NONE },
        Action::Release { packet: PacketId(1), rewrite: Rewrite::window(5) },
        Action::Discard { packet: PacketId(3), reason: DropReason::BufferFull },
        Action::Release { packet: PacketId(9), rewrite: Rewrite::NONE },
    ];
    driver.radios[0].mechanism = Box::new(Puppet { on_link: actions, ..Puppet::default() });
    let kind = LinkEventKind::TransmitRoom { packets: 1, bytes: linkhold_core::units::Bytes(1) };
    driver.datapath.told.clear();
    driver.handle_link(0, Instant::ZERO, LinkEvent::at(Instant::ZERO, kind));
    let [Told::Release(2), Told::ReplaceHeld(1, bytes), Told::DiscardHeld(3)] = &driver.datapath.told[..]
    else {
        panic!("{:?}", driver.datapath.told)
    };
    assert_eq!(parse_ip_tcp_headers(bytes).unwrap().tcp.window, 5);
    assert_eq!(driver.counters().unknown_packets, 1, "packet 9 was never held");

    driver.datapath.told.clear();
    driver.let_go(Instant::ZERO);
    assert_eq!(driver.datapath.told, [Told::Release(4)], "what the mechanism forgot leaves at the end");
}

#[test]
fn what_is_no_tcp_passes_unseen() {
    let (arrived, _) = uplink(1, 0, 2048);
    for bytes in [vec![], vec![0x45; 3], vec![0xff; 60]] {
        let driver = run(vec![(arrived, bytes)], vec![(Verdict::Hold, vec![])]);
        assert_eq!(driver.datapath.told, [Told::Accept(1)]);
        assert_eq!(driver.counters().unparsed, 1);
    }
}

/// A packet of radio 1 is radio 1's business alone: its mechanism sees it, and radio 0's cannot name it.
#[test]
fn what_one_radio_does_reaches_no_packet_of_another() {
    let mut packets = vec![uplink(1, 0, 2048), uplink(2, 0, 2048)];
    packets[1].0.radio = 1;
    let script = Script { waiting: packets.into(), ..Script::default() };
    let puppets = [0, 1].map(|_| Puppet {
        answers: vec![(Verdict::Hold, vec![])].into(),
        on_link: vec![Action::Release { packet: PacketId(2), rewrite: Rewrite::NONE }],
        ..Puppet::default()
    });
    let [seen, others] = [0, 1].map(|radio: usize| Arc::clone(&puppets[radio].seen));
    let events = Arc::clone(&puppets[1].events);
    let radios = puppets.map(|puppet| Radio::new(Box::new(puppet), Stations::new([])));
    let mut driver = Driver::new(script, radios.into());
    assert!(!driver.handle_packets(100, || Instant::ZERO).unwrap());
    assert_eq!((&seen.lock().unwrap()[..], &others.lock().unwrap()[..]), (&[(1, 0)][..], &[(2, 0)][..]));
    assert_eq!(driver.radios().iter().map(|radio| radio.counters().seen).collect::<Vec<_>>(), [1, 1]);

    let kind = LinkEventKind::TransmitRoom { packets: 1, bytes: linkhold_core::units::Bytes(1) };
    driver.datapath.told.clear();
    driver.handle_link(0, Instant::ZERO, LinkEvent::at(Instant::ZERO, kind));
    assert_eq!(driver.datapath.told, [], "packet 2 is not radio 0's");
    assert!(events.lock().unwrap().is_empty());
    driver.handle_link(1, Instant::ZERO, LinkEvent::at(Instant::ZERO, kind));
    assert_eq!(driver.datapath.told, [Told::Release(2)]);
    // An event of a radio that there is not is nobody's.
    driver.handle_link(2, Instant::ZERO, LinkEvent::at(Instant::ZERO, kind));
    assert_eq!(events.lock().unwrap().len(), 1);
}

/// Packets to addresses that nobody has, as many as there are numbers and more: they share one, and leave
/// those of stations that send, or that begin to, alone.
#[test]
fn a_sweep_from_outside_takes_no_number_from_a_station_that_sends() {
    let puppet = Puppet::default();
    let seen = Arc::clone(&puppet.seen);
    let to = |id: u64, addr: IpAddr| {
        let tcp = TcpSegment { payload_len: 100, flags: TcpFlags::ACK, ..TcpSegment::default() };
        let dst = Endpoint { addr, port: 4000 };
        let spec = PacketSpec { src: flow().correspondent, dst, tcp, ecn: Ecn::NotEct };
        let mut bytes = vec![0; 200];
        let length = emit(&spec, Payload::Zeros, &mut bytes).unwrap();
        bytes.truncate(length);
        let (arrived, _) = uplink(id, 0, 2048);
        (Arrived { direction: Direction::Downlink, len: length as u32, ..arrived }, bytes)
    };
    let station = flow().station.addr;
    let nobodys = |number: u32| IpAddr::from((0x0b00_0000 + number).to_be_bytes());
    let sweep = (0..3 * MAX_STATIONS).map(|number| to(1_000 + u64::from(number), nobodys(number)));
    let waiting = [to(1, station), uplink(2, 0, 2048), to(3, station)].into_iter().chain(sweep);
    let script = Script { waiting: waiting.chain([to(4, station)]).collect(), ..Script::default() };
    let mut driver = Driver::new(script, vec![Radio::new(Box::new(puppet), Stations::new([]))]);
    assert!(!driver.handle_packets(usize::MAX, || Instant::ZERO).unwrap());
    let seen = seen.lock().unwrap();
    let number_of = |id: u64| seen.iter().find(|(seen, _)| *seen == id).expect("it came").1;
    assert_eq!([1, 2, 3, 4].map(number_of), [MAX_STATIONS, 0, 0, 0]);
    assert!(seen.iter().filter(|(id, _)| *id >= 1_000).all(|(_, number)| *number == MAX_STATIONS));
    let stations = driver.radios()[0].stations();
    assert!(stations.len() == 1 && !stations.knows(nobodys(0)));
    assert_eq!(driver.station(0, [10, 0, 9, 9].into(), Instant::ZERO), Ok(StationId(1)), "one that is new");
}

/// When a new station needs the number of an idle one, the mechanism forgets the old one first.
#[test]
fn a_mechanism_is_told_which_stations_gave_their_numbers_back() {
    let puppet = Puppet { answers: vec![(Verdict::Hold, vec![])].into(), ..Puppet::default() };
    let events = Arc::clone(&puppet.events);
    let script = Script { waiting: vec![uplink(1, 0, 2048)].into(), ..Script::default() };
    let mut driver = Driver::new(script, vec![Radio::new(Box::new(puppet), Stations::new([]))]);
    // Station 0 has a packet held, and so stays.
    let _ = driver.handle_packets(100, || Instant::ZERO).unwrap();
    for number in 1..MAX_STATIONS {
        let addr = IpAddr::from((0x0b00_0000 + number).to_be_bytes());
        assert_eq!(driver.station(0, addr, Instant::ZERO), Ok(StationId(number)));
    }
    let newcomer: IpAddr = [10, 0, 9, 9].into();
    assert_eq!(driver.station(0, newcomer, Instant::ZERO), Err(NoNumberLeft));
    assert!(events.lock().unwrap().is_empty());
    assert_eq!(driver.station(0, newcomer, Instant::ZERO + IDLE), Ok(StationId(1)));
    let left: Vec<LinkEventKind> =
        (1..MAX_STATIONS).rev().map(|n| LinkEventKind::StationLeft { station: StationId(n) }).collect();
    assert_eq!(*events.lock().unwrap(), left);
}

/// Something that happens at a router with two radios.
#[derive(Clone, Copy, Debug)]
enum Happens {
    /// A flow's handshake; its station asks.
    Begin {
        flow: u16,
    },
    /// Data of a flow for a station of the radio.
    Data {
        flow: u16,
    },
    /// So many packets of data at once, of one flow or each of another.
    Flood {
        packets: u16,
        flows: u16,
    },
    /// The station acknowledges all that was sent.
    Ack {
        flow: u16,
        window: u16,
    },
    Freeze(Scope),
    Thaw(Scope),
    Switch(u64),
    Nothing,
}

/// Stations of a radio.
const STATIONS: u16 = 2;

/// The whole radio, one of its stations, or a number that no station has.
fn scope() -> impl Strategy<Value = Scope> {
    prop_oneof![
        Just(Scope::Network),
        (0..=u32::from(STATIONS)).prop_map(|number| Scope::Station(StationId(number))),
    ]
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        1 => (0u16..4).prop_map(|flow| Happens::Begin { flow }),
        6 => (0u16..4).prop_map(|flow| Happens::Data { flow }),
        1 => (2u16..50, prop::sample::select(vec![1, 3, 50]))
            .prop_map(|(packets, flows)| Happens::Flood { packets, flows }),
        3 => (0u16..4, 0u16..100).prop_map(|(flow, window)| Happens::Ack { flow, window }),
        1 => scope().prop_map(Happens::Freeze),
        1 => scope().prop_map(Happens::Thaw),
        1 => (1u64..1000).prop_map(|mbps| Happens::Switch(mbps * 1_000_000)),
        1 => Just(Happens::Nothing),
    ]
}

/// What of a flow's packet depends on what it is for.
#[derive(Clone, Copy)]
enum Part {
    Syn,
    SynAck,
    Data,
    Ack { window: u16 },
}

impl Happens {
    /// Of each packet that arrives its flow, and what it is for.
    fn packets(self) -> Vec<(u16, Part)> {
        match self {
            Self::Begin { flow } => vec![(flow, Part::Syn), (flow, Part::SynAck)],
            Self::Data { flow } => vec![(flow, Part::Data)],
            Self::Ack { flow, window } => vec![(flow, Part::Ack { window })],
            Self::Flood { packets, flows } => {
                (0..packets).map(|number| (number % flows, Part::Data)).collect()
            }
            Self::Freeze(_) | Self::Thaw(_) | Self::Switch(_) | Self::Nothing => vec![],
        }
    }
}

/// The packets of one radio's flows, with the numbers that TCP would give them.
#[derive(Default)]
struct Conversations {
    /// By flow, the number of its next byte to the station.
    next: BTreeMap<u16, Seq>,
}

impl Conversations {
    /// A flow's next packet, between the correspondent and its station of radio `index`, whose place in the
    /// driver is `place`. Flows take the radio's stations in turn.
    fn packet(&mut self, index: u8, place: usize, id: u64, flow: u16, part: Part) -> (Arrived, Vec<u8>) {
        let correspondent = Endpoint { addr: [10, 0, 0, 1].into(), port: 80 };
        let station =
            Endpoint { addr: [10, 1, index, 1 + (flow % STATIONS) as u8].into(), port: 4000 + flow };
        let next = self.next.entry(flow).or_insert(Seq(1));
        let syn = SynOptions { window_scale: Some(7), sack_permitted: true, mss: Some(1000) };
        let default = TcpSegment { flags: TcpFlags::ACK, window: 500, ..TcpSegment::default() };
        let (direction, tcp) = match part {
            Part::Syn => (Direction::Uplink, TcpSegment { flags: TcpFlags::SYN, syn, ..default }),
            Part::SynAck => {
                *next = Seq(1);
                let flags = TcpFlags::SYN | TcpFlags::ACK;
                (Direction::Downlink, TcpSegment { flags, syn, ack: Seq(1), ..default })
            }
            Part::Data => {
                let seq = *next;
                *next = seq + 1000;
                (Direction::Downlink, TcpSegment { seq, ack: Seq(1), payload_len: 1000, ..default })
            }
            Part::Ack { window } => {
                (Direction::Uplink, TcpSegment { seq: Seq(1), ack: *next, window, ..default })
            }
        };
        let (src, dst) = match direction {
            Direction::Uplink => (station, correspondent),
            Direction::Downlink => (correspondent, station),
        };
        let mut bytes = vec![0; 2048];
        let length =
            emit(&PacketSpec { src, dst, tcp, ecn: Ecn::NotEct }, Payload::Zeros, &mut bytes).unwrap();
        bytes.truncate(length);
        let arrived = Arrived {
            id: PacketId(id),
            radio: place,
            direction,
            len: length as u32,
            in_interface: 1,
            out_interface: 2,
            checksum_ready: true,
            aggregate: false,
        };
        (arrived, bytes)
    }
}

/// Tells a driver what happens at `now` on the radio whose place in it is `place`, with the packets that
/// arrive then.
fn make_happen(
    driver: &mut Driver<Script>,
    place: usize,
    packets: impl IntoIterator<Item = (Arrived, Vec<u8>)>,
    now: Instant,
    what: Happens,
) {
    driver.datapath.waiting.extend(packets);
    while driver.handle_packets(10, || now).unwrap() {}
    assert!(driver.datapath.waiting.is_empty());
    let kind = match what {
        Happens::Freeze(scope) => {
            LinkEventKind::FreezeStarted { scope, cause: Cause::PrimaryUser, expected: None }
        }
        Happens::Thaw(scope) => LinkEventKind::FreezeEnded { scope, cause: Cause::PrimaryUser },
        Happens::Switch(bps) => {
            LinkEventKind::ChannelSwitched { capacity: BitRate(bps), efficiency: Fraction::ONE }
        }
        Happens::Begin { .. }
        | Happens::Data { .. }
        | Happens::Ack { .. }
        | Happens::Flood { .. }
        | Happens::Nothing => return,
    };
    driver.handle_link(place, now, LinkEvent::at(now, kind));
}

/// What the data path was told of the packets of radio 0, whose numbers are even and whose stations are
/// 10.1.0.x.
fn of_radio_0(told: Vec<Told>) -> Vec<Told> {
    let is_its_own = |told: &Told| match told {
        Told::Accept(id) | Told::Replace(id, _) | Told::Discard(id) | Told::Hold(id) => id % 2 == 0,
        Told::Release(id) | Told::ReplaceHeld(id, _) | Told::DiscardHeld(id) => id % 2 == 0,
        Told::Inject(packet) => {
            let parsed = parse_ip_tcp_headers(packet).unwrap();
            (1..=STATIONS as u8)
                .any(|station| [parsed.src.addr, parsed.dst.addr].contains(&[10, 1, 0, station].into()))
        }
    };
    told.into_iter().filter(is_its_own).collect()
}

/// Milliseconds since what came before, whether it concerns the other radio, and what happens.
type Story = Vec<(u64, bool, Happens)>;

/// Flows begin first, or most windows could not be changed: nobody would know their scale.
fn story() -> impl Strategy<Value = Story> {
    let begins = prop::collection::vec(
        (0u64..3, any::<bool>(), (0u16..4).prop_map(|flow| Happens::Begin { flow })),
        0..16,
    );
    let rest = prop::collection::vec((0u64..20, any::<bool>(), happens()), 1..120);
    (begins, rest).prop_map(|(mut story, rest)| {
        story.extend(rest);
        story
    })
}

/// One of the mechanism's presets.
fn preset() -> impl Strategy<Value = &'static str> {
    let presets = registry::find("dsasync").expect("a mechanism").presets.iter();
    prop::sample::select(presets.map(|(name, _)| *name).collect::<Vec<_>>())
}

/// Tells a driver with one radio what happens on it, and a driver with two what happens on both.
fn alone_and_beside(preset: &str, story: Story) -> (Driver<Script>, Driver<Script>) {
    let settings = registry::find("dsasync").and_then(|entry| entry.preset(preset)).unwrap();
    let radio = || Radio::new(settings.build(7).unwrap(), Stations::new([]));
    let mut alone = Driver::new(Script::default(), vec![radio()]);
    let mut beside = Driver::new(Script::default(), vec![radio(), radio()]);
    let mut conversations = [Conversations::default(), Conversations::default()];
    let (mut now, mut packets) = (Instant::ZERO, 0);
    for (millis, other, what) in story {
        now += linkhold_core::time::Duration::from_millis(millis);
        alone.handle_timeout(now);
        beside.handle_timeout(now);
        let place = usize::from(other);
        let of_story: Vec<_> = what
            .packets()
            .into_iter()
            .map(|(flow, part)| {
                packets += 1;
                // Those of radio 0 are even.
                let id = 2 * packets + u64::from(other);
                conversations[place].packet(u8::from(other), place, id, flow, part)
            })
            .collect();
        if !other {
            make_happen(&mut alone, 0, of_story.clone(), now, what);
        }
        make_happen(&mut beside, place, of_story, now, what);
    }
    alone.let_go(now);
    beside.let_go(now);
    (alone, beside)
}

proptest! {
    /// Silences, rates, floods and window games of one radio change nothing for the packets of another: they
    /// get the same verdicts at the same times as on a router that has no other radio.
    #[test]
    fn a_radio_fares_as_if_there_were_no_other((preset, story) in (preset(), story())) {
        let (alone, mut beside) = alone_and_beside(preset, story);
        prop_assert_eq!(&alone.datapath.told, &of_radio_0(std::mem::take(&mut beside.datapath.told)));
        prop_assert_eq!(alone.counters().unknown_packets + beside.counters().unknown_packets, 0);
    }
}

/// The stories must reach what the mechanism does, or the property above says nothing of it.
#[test]
fn the_stories_of_two_radios_reach_every_verdict() {
    let mut runner = TestRunner::deterministic();
    let mut seen =
        [("held", 0), ("changed", 0), ("changed and held", 0), ("made or sent again", 0), ("kept", 0)];
    for _ in 0..800 {
        let (preset, story) = (preset(), story()).new_tree(&mut runner).unwrap().current();
        let (alone, _) = alone_and_beside(preset, story);
        for told in &alone.datapath.told {
            match told {
                Told::Hold(_) => seen[0].1 += 1,
                Told::Replace(..) => seen[1].1 += 1,
                Told::ReplaceHeld(..) => seen[2].1 += 1,
                Told::Inject(_) => seen[3].1 += 1,
                Told::Accept(_) | Told::Discard(_) | Told::Release(_) | Told::DiscardHeld(_) => {}
            }
        }
        seen[4].1 += alone.radios[0].mechanism.metrics().kept_bytes_peak.min(1);
    }
    assert!(seen.iter().all(|&(_, times)| times >= 5), "{seen:?}");
}

const KEPT: Verdict = Verdict::ForwardAndKeep(Rewrite::NONE);

fn copy_of(id: u64) -> Action {
    Action::SendCopy { packet: PacketId(id) }
}

fn forget(id: u64) -> Action {
    Action::Forget { packet: PacketId(id) }
}

#[test]
fn a_packet_that_is_kept_passes_and_its_copy_leaves_with_the_same_bytes_and_right_checksums() {
    let (mut arrived, mut bytes) = uplink(7, 900, 2048);
    let sent = bytes.clone();
    arrived.checksum_ready = false;
    bytes[36..38].copy_from_slice(&[0x12, 0x34]);
    let next = uplink(8, 0, 2048);
    let answers =
        vec![(KEPT, vec![]), (Verdict::Forward(Rewrite::NONE), vec![copy_of(7), copy_of(7), forget(7)])];
    let driver = run(vec![(arrived, bytes), next], answers);
    let [Told::Accept(7), Told::Accept(8), Told::Inject(first), Told::Inject(second)] =
        &driver.datapath.told[..]
    else {
        panic!("{:?}", driver.datapath.told)
    };
    assert_eq!(verify_checksums(first), Ok(true));
    assert_eq!((first, second), (&sent, &sent));
    assert!(driver.radios[0].kept.is_empty());
    assert_eq!(driver.counters(), DriverCounters::default());
}

#[test]
fn what_cannot_be_kept_whole_passes_and_is_counted_and_a_copy_of_it_goes_nowhere() {
    let short = uplink(7, 9000, 2048);
    let (mut aggregate, bytes) = uplink(8, 900, 2048);
    aggregate.aggregate = true;
    let answers = vec![(KEPT, vec![copy_of(7)]), (KEPT, vec![copy_of(8), forget(7), forget(8), forget(9)])];
    let driver = run(vec![short, (aggregate, bytes)], answers);
    assert_eq!(driver.datapath.told, [Told::Accept(7), Told::Accept(8)]);
    let wanted = DriverCounters { copies_missing: 2, unknown_packets: 1, ..DriverCounters::default() };
    assert_eq!(driver.counters(), wanted);
}

#[test]
fn a_held_packet_can_be_kept_when_it_leaves_if_its_radio_keeps_copies() {
    let keep = |rewrite| Action::ReleaseAndKeep { packet: PacketId(7), rewrite };
    let cases = [
        (Some(Direction::Downlink), Direction::Downlink, Rewrite::NONE),
        (Some(Direction::Downlink), Direction::Downlink, Rewrite::window(9)),
        (None, Direction::Downlink, Rewrite::NONE),
        // On a host, what goes to the radio is the uplink.
        (Some(Direction::Uplink), Direction::Uplink, Rewrite::NONE),
        (Some(Direction::Uplink), Direction::Uplink, Rewrite::window(9)),
        (Some(Direction::Uplink), Direction::Downlink, Rewrite::NONE),
    ];
    for (copies_of, direction, rewrite) in cases {
        let keeps_copies = copies_of == Some(direction);
        let (mut arrived, bytes) = uplink(7, 900, 2048);
        arrived.direction = direction;
        let sent = bytes.clone();
        let script =
            Script { waiting: vec![(arrived, bytes), uplink(8, 0, 2048)].into(), ..Script::default() };
        let answers = [
            (Verdict::Hold, vec![]),
            (Verdict::Forward(Rewrite::NONE), vec![keep(rewrite), copy_of(7), forget(7)]),
        ];
        let puppet = Puppet { answers: answers.into(), ..Puppet::default() };
        let radio = Radio { keeps_copies_of: copies_of, ..Radio::new(Box::new(puppet), Stations::new([])) };
        let mut driver = Driver::new(script, vec![radio]);
        assert!(!driver.handle_packets(100, || Instant::ZERO).unwrap());
        let told = &driver.datapath.told[..];
        match (keeps_copies, rewrite.is_none()) {
            (true, true) => {
                assert_eq!(told[1..], [Told::Accept(8), Told::Release(7), Told::Inject(sent)]);
            }
            (true, false) => {
                let [Told::Hold(7), Told::Accept(8), Told::ReplaceHeld(7, left), Told::Inject(copy)] = told
                else {
                    panic!("{told:?}")
                };
                assert_eq!((left, verify_checksums(copy)), (copy, Ok(true)));
                assert_eq!(parse_ip_tcp_headers(copy).unwrap().tcp.window, 9);
            }
            (false, _) => assert_eq!(told[1..], [Told::Accept(8), Told::Release(7)]),
        }
        let missing = u64::from(!keeps_copies);
        assert_eq!(
            driver.counters(),
            DriverCounters { copies_missing: missing, ..DriverCounters::default() }
        );
        assert!(driver.radios[0].kept.is_empty() && driver.radios[0].held.is_empty());
    }
}

/// A downlink datagram of UDP, of which the data path shows the first `copy` bytes.
fn datagram(id: u64, copy: usize) -> (Arrived, Vec<u8>) {
    let spec =
        DatagramSpec { src: flow().correspondent, dst: flow().station, payload_len: 100, ecn: Ecn::NotEct };
    let length = datagram_len(&spec);
    let mut bytes = vec![0; length];
    emit_datagram(&spec, &mut bytes).unwrap();
    bytes.truncate(copy);
    let (arrived, _) = uplink(id, 0, 2048);
    (Arrived { direction: Direction::Downlink, len: length as u32, ..arrived }, bytes)
}

#[test]
fn a_datagram_is_held_released_as_it_came_or_discarded() {
    let release = Action::Release { packet: PacketId(1), rewrite: Rewrite::NONE };
    let discard = Action::Discard { packet: PacketId(2), reason: DropReason::TooOld };
    let driver = run(
        vec![datagram(1, 2048), datagram(2, 60), datagram(3, 40), datagram(4, 30), datagram(5, 27)],
        vec![
            (Verdict::Hold, vec![]),
            (Verdict::Hold, vec![]),
            (Verdict::Forward(Rewrite::NONE), vec![release, discard]),
            (Verdict::Drop(DropReason::BufferFull), vec![]),
        ],
    );
    // The last is cut short within its header: no mechanism can look at it.
    let told = [
        Told::Hold(1),
        Told::Hold(2),
        Told::Accept(3),
        Told::Release(1),
        Told::DiscardHeld(2),
        Told::Discard(4),
        Told::Accept(5),
    ];
    assert_eq!(driver.datapath.told, told);
    assert_eq!((driver.counters().unparsed, driver.counters().unknown_packets), (1, 0));
    // That one crossed the agent as well.
    assert_eq!(driver.radios()[0].counters().seen, 5);
}
