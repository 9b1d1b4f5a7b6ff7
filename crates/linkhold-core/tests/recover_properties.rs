//! What must hold for DSASync with copies, whatever the radio loses and however late it tells: real receivers
//! (out-of-order data, SACK, D-SACK, delayed ACKs) of two to eight connections, at one to three stations,
//! behind one radio that sends a frame a millisecond.
//!
//! While a silence has begun and nobody knows, a frame is tried for 8 ms and given up; once it is noticed,
//! the router's queue stands still, or is thrown away. Nothing of the truth reaches the mechanism but the
//! notice. A silence is of the whole network or of one station; its begin, its notice, its end and the
//! notice of its end are moments of their own, between which anything else happens: data, losses, other
//! silences of either scope.
//!
//! A third party forges segments of both directions: numbers beyond every window, resets, one half of a
//! handshake. Both ends of the connection ignore them (RFC 9293 section 3.10.7.4, RFC 5961).
//!
//! Either end may reset its connection, or both forget it, and the sender then begins another between the
//! same ports, at any number. What is left of the old one still comes, and is nothing to either end.
//!
//! Where stations send data of their own, their senders acknowledge each segment.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use linkhold_core::action::{Action, Actions, Rewrite, Verdict};
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, SackBlock, SackBlocks, StationId,
    SynOptions, TcpFlags, TcpSegment, TcpTimestamp,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction, Seq};
use proptest::prelude::*;

const MSS: u32 = 1448;
const LEN: u32 = MSS + 52;
const TICK: Duration = Duration::from_micros(250);
/// From the station to the base station and back to the wire.
const ACK_TIME: Duration = Duration::from_millis(1);
/// From an ACK that passes to the sender's next segment.
const WIRE: Duration = Duration::from_millis(40);
const DELAYED_ACK: Duration = Duration::from_millis(40);
/// No ACK is kept back for longer than this, and a timer's grain.
const MOST_HIDING: Duration = Duration::from_micros(50_500);
const TRIES: u32 = 3;
const MOST_FLOWS: usize = 8;
const STATIONS: u32 = 3;
/// All of which nothing was heard.
const STRANGERS: StationId = StationId(linkhold_core::link_monitor::MAX_STATIONS);
/// A full packet takes a millisecond.
const RATE: BitRate = BitRate(LEN as u64 * 8 * 1000);

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Time passes, ms.
    Advance(u64),
    /// The sender sends up to so many new segments of so many bytes each.
    Send { flow: usize, segments: u32, len: u32 },
    /// Its station sends as much of its own, as far as the sender's window allows.
    Upload { flow: usize, segments: u32, len: u32 },
    /// It sends so many bytes again, from anywhere in what it does not know to have arrived: other segments
    /// than it sent before.
    Retransmit { flow: usize, offset: u32, len: u32 },
    /// The radio falls silent.
    Silence(Silence),
    /// A third party sends a segment.
    Forge { flow: usize, forgery: Forgery },
    /// The driver has not heard of this station lately, and counts what goes down to it among strangers'
    /// until it sends something or a silence of its own is told.
    Unhear(u32),
    /// A connection ends. The sender begins the next one with this number as soon as it knows.
    End { flow: usize, ending: Ending, iss: u32 },
    /// The next frames are lost.
    Lose(u32),
    /// The router marks the next frames congestion-experienced.
    Mark(u32),
}

/// What the ends of a connection agree on.
#[derive(Clone, Copy, Debug)]
struct Options {
    timestamps: bool,
    sack: bool,
}

impl Options {
    const ALL: Self = Self { timestamps: true, sack: true };

    /// Blocks that an ACK has place for (RFC 2018 section 3).
    fn most_blocks(self) -> usize {
        match self {
            Self { sack: false, .. } => 0,
            Self { timestamps: true, .. } => 3,
            Self { timestamps: false, .. } => 4,
        }
    }
}

/// A silence as it is drawn; times in ms.
#[derive(Clone, Copy, Debug)]
struct Silence {
    scope: Scope,
    cause: Cause,
    /// It is noticed so much after it began; `None`: nobody tells of it.
    late: Option<u64>,
    /// How long it lasts from then on.
    length: u64,
    /// Its end is noticed so much after it came.
    late_end: u64,
}

/// A silence as it goes on.
#[derive(Clone, Copy, Debug)]
struct Quiet {
    scope: Scope,
    cause: Cause,
    until: Instant,
    /// The moment of the notice, until it has come.
    begin_told: Option<Instant>,
    /// The moment at which the end is noticed.
    end_told: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    /// The station resets it.
    Station,
    /// The sender resets it.
    Sender,
    /// Both ends forget it, and nothing tells of that but the next one's handshake.
    Unsaid,
}

/// What a third party makes up. Its numbers lie so far beyond the connection's.
#[derive(Clone, Copy, Debug)]
enum Forgery {
    /// Data that no window offers.
    Data(u32),
    /// A reset from the sender's side.
    ResetDown(u32),
    /// A reset from the station's side.
    ResetUp(u32),
    /// An acknowledgment beyond what the station offers.
    Ack(u32),
    /// Data from the station that no window offers.
    Up(u32),
    /// Half a handshake: a SYN that nobody answers, or an answer that nobody asked for.
    Handshake(u32),
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    /// Neither end sent it, and the end that gets it ignores it.
    forged: bool,
    flow: usize,
    /// Of which of its connections, the first being 0.
    generation: u32,
    /// Of a segment of the sender: its place in [`World::sent`].
    serial: usize,
    tcp: TcpSegment,
    len: u32,
    direction: Direction,
    ecn: Ecn,
    /// Its place among the ACKs of its flow.
    rank: u64,
    since: Instant,
}

/// Both ends of a connection.
struct Connection {
    key: FlowKey,
    options: Options,
    /// How many connections there were before between these ports.
    generation: u32,
    /// The sender has asked for it, and has no answer yet.
    is_opening: bool,
    /// The station has reset it: the number with which the sender begins the next one.
    closed: Option<Seq>,
    /// Where its data begins.
    first: Seq,
    snd_nxt: Seq,
    /// What the sender has been told.
    told: Seq,
    /// What the sender sent again: when, and first and last number.
    again: Vec<(Instant, Seq, Seq)>,
    rcv_nxt: Seq,
    /// What arrived out of order, and the block that arrived last first.
    beyond: Vec<(Seq, Seq)>,
    owed: u32,
    delayed: Option<Instant>,
    ranks: u64,
    /// The station's timestamp as the sender knows it.
    echo: u32,
    /// Rank of the last ACK that reached the sender.
    passed: u64,
    /// Place among what was sent behind the segment that went down last, copies left out.
    went: usize,
    /// The acknowledgment numbers that the station's packets carried.
    said: BTreeSet<u32>,
    /// End of the highest block that reached the sender.
    shown: Seq,
    /// The station tells of a mark until its sender has answered.
    echoes_mark: bool,
    /// The sender has heard of a mark, and has yet to answer.
    answers_mark: bool,
    /// The station's next number, up to where the sender has its data, and what the station knows of that.
    up_nxt: Seq,
    up_heard: Seq,
    up_told: Seq,
}

struct World {
    agent: DsaSync,
    out: Actions,
    now: Instant,
    flows: Vec<Connection>,
    /// The station of each flow.
    homes: Vec<StationId>,
    /// Those that have no number of their own.
    unheard: BTreeSet<StationId>,
    /// Under which station's number each flow's last packet came.
    seen_at: Vec<StationId>,
    packets: BTreeMap<PacketId, Packet>,
    kept: BTreeMap<PacketId, (Packet, u32)>,
    next_id: u64,
    queue: VecDeque<Packet>,
    /// The frame in the air, and when it is done.
    air: Option<(Packet, Instant)>,
    /// Uplink: when it arrives.
    up: VecDeque<(Instant, Packet)>,
    /// On their way to the senders, and when they are there.
    wire: VecDeque<(Instant, Packet)>,
    quiet: Vec<Quiet>,
    /// The silences of which the mechanism knows.
    noticed: HashSet<(Scope, Cause)>,
    /// Whose answers are forged in this world, the station's or none: of a segment together with its answer
    /// a middle cannot tell that both are.
    forges_answers: bool,
    lose: u32,
    mark: u32,
    /// Most bytes of copies, while something less than the setting bounds them.
    most_kept: Option<u64>,
    /// The router throws away what it has when a silence is noticed.
    flushes: bool,
    /// A frame takes the time of its bytes, as the rate says. Else each takes as long as a full one: with
    /// short segments the radio carries less than is told.
    is_exact: bool,
    stamp: u32,
    /// Most bytes that a sender has under way after the handshake.
    window: u32,
    /// What the senders sent, and whether it was new.
    sent: Vec<(usize, TcpSegment, bool)>,
    /// How often silences took a segment or its copies: by flow and first number.
    taken: BTreeMap<(usize, u32), u32>,
    /// What the router's full queue dropped, likewise: where nobody tells the rate, that is what tells the
    /// sender of congestion.
    overflowed: BTreeSet<(usize, u32)>,
    repaired: u64,
    sender_again: u64,
}

impl Connection {
    /// Asked for with this number.
    fn new(key: FlowKey, options: Options, iss: Seq) -> Self {
        Self {
            key,
            options,
            generation: 0,
            is_opening: true,
            closed: None,
            first: iss + 1,
            snd_nxt: iss + 1,
            told: iss + 1,
            again: Vec::new(),
            rcv_nxt: iss + 1,
            beyond: Vec::new(),
            owed: 0,
            delayed: None,
            ranks: 0,
            echo: 0,
            passed: 0,
            went: 0,
            said: BTreeSet::new(),
            shown: iss + 1,
            echoes_mark: false,
            answers_mark: false,
            up_nxt: Seq(1),
            up_heard: Seq(1),
            up_told: Seq(1),
        }
    }

    /// Both ends agree on ECN (RFC 3168 section 6.1.1), so that ECN-echo would mean something.
    fn ask(&self, stamp: u32) -> TcpSegment {
        let syn =
            SynOptions { mss: Some(MSS as u16), window_scale: Some(7), sack_permitted: self.options.sack };
        let timestamp = self.options.timestamps.then_some(TcpTimestamp { value: stamp, echo: 0 });
        let flags = TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR;
        TcpSegment { seq: self.first - 1, flags, syn, timestamp, ..TcpSegment::default() }
    }

    fn answer(&self) -> TcpSegment {
        let flags = TcpFlags::SYN | TcpFlags::ACK | TcpFlags::ECE;
        TcpSegment { seq: Seq(0), ack: self.first, window: 60_000, flags, ..self.ask(1) }
    }

    /// An ACK with these blocks reaches the sender. What the sender was shown it is still shown, unless the
    /// station had no place for it beside other blocks.
    fn show(&mut self, ack: Seq, blocks: &[SackBlock]) {
        let highest = blocks.iter().fold(ack, |highest, block| highest.max(block.right));
        assert!(
            blocks.len() == self.options.most_blocks() || !highest.before(self.shown),
            "blocks are taken back"
        );
        self.shown = self.shown.max(highest);
    }
}

fn key(flow: usize) -> FlowKey {
    FlowKey {
        correspondent: Endpoint { addr: [192, 0, 2, 1].into(), port: 443 },
        station: Endpoint { addr: [10, 0, 0, 1 + flow as u8].into(), port: 40_000 },
    }
}

/// A silence takes this packet.
fn take(taken: &mut BTreeMap<(usize, u32), u32>, packet: &Packet) {
    *taken.entry((packet.flow, packet.tcp.seq.0)).or_default() += 1;
}

impl World {
    fn new(config: &DsaSyncConfig, flushes: bool, told: bool) -> Self {
        Self::with(config, flushes, told, &[(Options::ALL, 0), (Options::ALL, 1)])
    }

    /// `flows`: what each agrees on, and its station.
    fn with(config: &DsaSyncConfig, flushes: bool, told: bool, flows: &[(Options, u32)]) -> Self {
        let iss = Seq(u32::MAX - 20 * MSS);
        let connection = |flow: usize| Connection::new(key(flow), flows[flow].0, iss);
        let mut world = Self {
            agent: DsaSync::new(config).expect("valid"),
            out: Actions::new(),
            now: Instant::from_millis(1),
            flows: (0..flows.len()).map(connection).collect(),
            homes: flows.iter().map(|(_, home)| StationId(*home)).collect(),
            unheard: BTreeSet::new(),
            seen_at: flows.iter().map(|(_, home)| StationId(*home)).collect(),
            packets: BTreeMap::new(),
            kept: BTreeMap::new(),
            next_id: 0,
            queue: VecDeque::new(),
            air: None,
            up: VecDeque::new(),
            wire: VecDeque::new(),
            quiet: Vec::new(),
            noticed: HashSet::new(),
            forges_answers: false,
            lose: 0,
            mark: 0,
            most_kept: None,
            flushes,
            is_exact: false,
            stamp: 1,
            window: 64 * MSS,
            sent: Vec::new(),
            taken: BTreeMap::new(),
            overflowed: BTreeSet::new(),
            repaired: 0,
            sender_again: 0,
        };
        if told {
            world.link(LinkEventKind::ChannelSwitched { capacity: RATE, efficiency: Fraction::ONE });
        }
        for flow in 0..flows.len() {
            world.ask(flow);
            let answer = world.flows[flow].answer();
            world.hand_in(flow, Direction::Uplink, answer, 60);
            world.confirm(flow);
            world.queue.clear();
            world.wire.clear();
        }
        world
    }

    // ---- connections ----

    /// The sender asks for its connection.
    fn ask(&mut self, flow: usize) {
        self.stamp += 1;
        let ask = self.flows[flow].ask(self.stamp);
        self.hand_in(flow, Direction::Downlink, ask, 60);
    }

    /// It has its answer.
    fn confirm(&mut self, flow: usize) {
        let at = &mut self.flows[flow];
        at.is_opening = false;
        let (seq, flags) = (at.first, TcpFlags::ACK);
        let third = TcpSegment { seq, ack: at.up_heard, window: 500, flags, ..at.ask(self.stamp) };
        let third = TcpSegment { syn: SynOptions::default(), ..third };
        self.hand_in(flow, Direction::Downlink, third, 52);
    }

    fn end(&mut self, flow: usize, ending: Ending, iss: Seq) {
        let at = &mut self.flows[flow];
        let flags = TcpFlags::RST | TcpFlags::ACK;
        match ending {
            Ending::Station if at.is_opening || at.closed.is_some() => {}
            Ending::Station => {
                at.closed = Some(iss);
                (at.owed, at.delayed) = (0, None);
                let tcp = TcpSegment { seq: at.up_nxt, ack: at.rcv_nxt, flags, ..TcpSegment::default() };
                self.send_up(flow, tcp);
            }
            Ending::Sender => {
                let tcp = TcpSegment { seq: at.snd_nxt, ack: at.up_heard, flags, ..TcpSegment::default() };
                self.hand_in(flow, Direction::Downlink, tcp, 40);
                self.begin_anew(flow, iss);
            }
            Ending::Unsaid => self.begin_anew(flow, iss),
        }
    }

    fn begin_anew(&mut self, flow: usize, iss: Seq) {
        let old = &self.flows[flow];
        let new = Connection::new(old.key, old.options, iss);
        self.flows[flow] =
            Connection { generation: old.generation + 1, ranks: old.ranks, passed: old.passed, ..new };
        self.ask(flow);
    }

    /// The station hands this to its radio.
    fn send_up(&mut self, flow: usize, tcp: TcpSegment) {
        let generation = self.flows[flow].generation;
        let (direction, ecn, since) = (Direction::Uplink, Ecn::NotEct, self.now);
        let packet = Packet {
            forged: false,
            flow,
            generation,
            serial: 0,
            tcp,
            len: 64 + tcp.payload_len,
            direction,
            ecn,
            rank: 0,
            since,
        };
        self.up.push_back((self.now + ACK_TIME, packet));
    }

    /// What the sender gets.
    fn hear(&mut self, packet: Packet) {
        if self.is_past(&packet) {
            return;
        }
        let flow = &mut self.flows[packet.flow];
        if let Some(iss) = flow.closed.filter(|_| packet.tcp.flags.contains(TcpFlags::RST)) {
            self.begin_anew(packet.flow, iss);
        } else if packet.tcp.flags.contains(TcpFlags::SYN) {
            // A second answer is confirmed as well.
            self.confirm(packet.flow);
        } else {
            flow.echo = packet.tcp.timestamp.map_or(0, |timestamp| timestamp.value);
            flow.answers_mark |= packet.tcp.flags.contains(TcpFlags::ECE);
            if packet.tcp.payload_len > 0 {
                assert_eq!(packet.tcp.seq, flow.up_heard, "data of a station is lost");
                flow.up_heard = packet.tcp.seq_end();
                self.acknowledge_upload(packet.flow);
            }
        }
    }

    /// It is of a connection that there is no more.
    fn is_past(&self, packet: &Packet) -> bool {
        packet.generation != self.flows[packet.flow].generation
    }

    fn link(&mut self, kind: LinkEventKind) {
        if let LinkEventKind::FreezeStarted { scope: Scope::Station(station), .. } = kind {
            self.unheard.remove(&station);
        }
        // When a silence began nobody knows: what is told is the moment of the notice.
        self.agent.on_link(self.now, LinkEvent::at(self.now, kind), &mut self.out);
        self.drain();
    }

    fn hand_in(&mut self, flow: usize, direction: Direction, tcp: TcpSegment, len: u32) {
        self.hand_in_as(flow, direction, tcp, len, false);
    }

    /// A segment of the sender is the one that was noted last ([`World::sent`]).
    fn hand_in_as(&mut self, flow: usize, direction: Direction, tcp: TcpSegment, len: u32, forged: bool) {
        self.next_id += 1;
        let id = PacketId(self.next_id);
        let rank = match direction {
            Direction::Uplink => {
                self.flows[flow].ranks += 1;
                self.flows[flow].ranks
            }
            Direction::Downlink => 0,
        };
        let is_data = tcp.payload_len > 0 && direction == Direction::Downlink;
        let ecn = if is_data { Ecn::Ect0 } else { Ecn::NotEct };
        let serial = self.sent.len().saturating_sub(1);
        let generation = self.flows[flow].generation;
        let home = self.homes[flow];
        if direction == Direction::Uplink {
            self.unheard.remove(&home);
        }
        let station = if self.unheard.contains(&home) { STRANGERS } else { home };
        // A reset from the station alone makes no flow the station's.
        if direction == Direction::Downlink || !tcp.flags.contains(TcpFlags::RST) {
            self.seen_at[flow] = station;
        }
        let since = self.now;
        let packet = Packet { forged, flow, generation, serial, tcp, len, direction, ecn, rank, since };
        if direction == Direction::Uplink && !forged {
            self.flows[flow].said.insert(tcp.ack.0);
        }
        let view = PacketView {
            id,
            direction,
            origin: Origin::Arrival,
            station,
            flow: &self.flows[flow].key,
            tcp: &packet.tcp,
            len,
            ecn,
        };
        let verdict = self.agent.on_packet(self.now, &view, &mut self.out);
        match verdict {
            Verdict::Forward(rewrite) => self.go_in_turn(packet, rewrite),
            Verdict::ForwardAndKeep(rewrite) => {
                self.kept.insert(id, (packet, 0));
                self.go_in_turn(packet, rewrite);
            }
            Verdict::Hold => {
                self.packets.insert(id, packet);
            }
            Verdict::Drop(_) => {}
        }
        self.drain();
        if let Verdict::Drop(_) = verdict {
            self.thrown_away(packet);
        }
    }

    /// An ACK is thrown away: the sender has been told all that it acknowledged, and no D-SACK is lost that
    /// could be of its own copy. What the sender sent again after the ACK had come is not what the ACK tells
    /// of.
    fn thrown_away(&mut self, packet: Packet) {
        let is_over = self.is_past(&packet) || self.flows[packet.flow].closed.is_some();
        if packet.forged {
            return;
        }
        let is_reset = packet.tcp.flags.contains(TcpFlags::RST);
        assert!(!is_reset || packet.direction == Direction::Uplink, "a sender's reset is thrown away");
        let is_upload = packet.direction == Direction::Uplink && packet.tcp.payload_len > 0;
        assert!(!is_upload, "data of a station is thrown away");
        if is_over {
            return;
        }
        if packet.direction == Direction::Downlink && packet.tcp.payload_len == 0 {
            // Of a handshake, when nobody knows yet what both ends agree on: one that just came takes its
            // place.
            return;
        }
        if packet.direction == Direction::Downlink {
            // A sender that cannot tell a copy from a loss is spared the copy: the newer one, which just
            // came, takes its place.
            let options = self.flows[packet.flow].options;
            assert!(!options.timestamps && !options.sack, "a copy is thrown away: {packet:?}");
            let (of, newer, _) = self.sent.last().expect("the sender sent it");
            let is_covered = *of == packet.flow
                && packet.serial + 1 < self.sent.len()
                && newer.seq == packet.tcp.seq
                && newer.payload_len >= packet.tcp.payload_len;
            assert!(is_covered, "data is thrown away though there is space");
            return;
        }
        let flow = &self.flows[packet.flow];
        assert!(!packet.tcp.ack.after(flow.told), "an acknowledgment is lost");
        self.repaired += 1;
        for block in packet.tcp.sack.as_slice() {
            assert!(!block.right.after(flow.told), "a block is lost");
            if !block.right.after(packet.tcp.ack) {
                let own = |&(at, seq, end): &(Instant, Seq, Seq)| {
                    at < packet.since && seq.before(block.right) && block.left.before(end)
                };
                assert!(!flow.again.iter().any(own), "the sender's own D-SACK is lost");
            }
        }
    }

    /// It is no copy: it goes in its flow's order. A copy that takes another's place where the sender can
    /// tell it from nothing is the exception.
    fn go_in_turn(&mut self, packet: Packet, rewrite: Rewrite) {
        let is_data = packet.direction == Direction::Downlink && packet.tcp.payload_len > 0;
        // After a reset nobody knows any more what both ends agreed on.
        let is_over = self.is_past(&packet) || self.flows[packet.flow].closed.is_some();
        if is_data && !packet.forged && !is_over {
            let flow = &mut self.flows[packet.flow];
            let Options { timestamps, sack } = flow.options;
            assert!(packet.serial >= flow.went || !timestamps && !sack, "segments change their order");
            flow.went = packet.serial + 1;
        }
        self.go(packet, rewrite);
    }

    fn go(&mut self, packet: Packet, rewrite: Rewrite) {
        match packet.direction {
            Direction::Downlink => {
                // A station that sends data may be told a smaller window.
                let uploads = self.flows[packet.flow].up_nxt != Seq(1);
                let is_less = rewrite.window.is_none_or(|window| window <= packet.tcp.window);
                assert!(!rewrite.set_ece && !rewrite.mark_ce, "congestion is made up: {rewrite:?}");
                assert!(rewrite.is_none() || uploads && is_less, "{rewrite:?}");
                // A flow follows its station to its own number with the next packet.
                let station = self.seen_at[packet.flow];
                let covers = |&(scope, _): &(Scope, Cause)| scope.covers(station);
                assert!(!self.noticed.iter().any(covers), "sent into a silence that was noticed");
                if self.queue.len() < 100 {
                    self.queue.push_back(packet);
                } else {
                    self.overflowed.insert((packet.flow, packet.tcp.seq.0));
                }
            }
            Direction::Uplink => {
                // Nothing here is congestion that the station has not told of itself.
                assert!(!rewrite.set_ece && !rewrite.mark_ce, "congestion is made up: {rewrite:?}");
                let flow = &mut self.flows[packet.flow];
                assert!(packet.rank > flow.passed, "ACKs change their order");
                flow.passed = packet.rank;
                if packet.forged || packet.generation != flow.generation {
                    return;
                }
                if !packet.tcp.flags.contains(TcpFlags::RST) {
                    flow.told = flow.told.max(packet.tcp.ack);
                    flow.show(packet.tcp.ack, packet.tcp.sack.as_slice());
                }
                self.wire.push_back((self.now + WIRE, packet));
            }
        }
    }

    fn drain(&mut self) {
        let actions: Vec<_> = self.out.drain().collect();
        let mut thrown = Vec::new();
        for action in actions {
            match action {
                Action::Release { packet, rewrite } | Action::ReleaseAndKeep { packet, rewrite } => {
                    let known = self.packets.remove(&packet).expect("it is held");
                    if matches!(action, Action::ReleaseAndKeep { .. }) {
                        self.kept.insert(packet, (known, 0));
                    }
                    let waited = self.now.since(known.since);
                    assert!(
                        known.direction == Direction::Downlink || waited <= MOST_HIDING,
                        "kept back for {waited}"
                    );
                    let is_upload = known.direction == Direction::Uplink && known.tcp.payload_len > 0;
                    assert!(!is_upload || waited.is_zero(), "data of a station is kept back for {waited}");
                    self.go_in_turn(known, rewrite);
                }
                Action::Discard { packet, .. } => {
                    thrown.push(self.packets.remove(&packet).expect("it is held"));
                }
                Action::SendCopy { packet } => {
                    let (copy, sent) = self.kept.get_mut(&packet).expect("it is kept");
                    *sent += 1;
                    assert!(*sent <= TRIES, "{sent} copies of one segment");
                    let copy = *copy;
                    let unsent = |other: &Packet| {
                        (other.flow, other.generation) == (copy.flow, copy.generation)
                            && !other.forged
                            && other.tcp.payload_len > 0
                            && other.direction == Direction::Downlink
                            && other.tcp.seq.before(copy.tcp.seq)
                            && self.sent[other.serial].2
                    };
                    assert!(!self.packets.values().any(unsent), "a copy overtakes what was never sent");
                    self.go(copy, Rewrite::NONE);
                }
                Action::Forget { packet } => {
                    assert!(self.kept.remove(&packet).is_some(), "it is not kept");
                }
                Action::InjectAck(spec) => {
                    let flow = self.flows.iter_mut().position(|flow| flow.key == spec.flow).expect("known");
                    let flow = &mut self.flows[flow];
                    assert!(!spec.ece, "congestion is made up");
                    if spec.direction == Direction::Downlink {
                        assert!(!spec.ack.after(flow.up_heard), "the sender never acknowledged that");
                        assert!(!spec.seq.after(flow.snd_nxt), "the sender has not come so far");
                        assert!(spec.window <= 500, "the sender never offered that");
                        continue;
                    }
                    assert!(flow.said.contains(&spec.ack.0), "an acknowledgment that the station never gave");
                    flow.told = flow.told.max(spec.ack);
                    flow.show(spec.ack, &[]);
                }
                Action::Reclaim { .. } => {}
                Action::Report(_) | Action::Sender { .. } | Action::RequestUplink { .. } => {
                    panic!("{action:?}")
                }
            }
        }
        // A packet that covers them may pass as the verdict of the same call.
        for packet in thrown {
            self.thrown_away(packet);
        }
        let kept: u64 = self.kept.values().map(|(packet, _)| u64::from(packet.len)).sum();
        let metrics = self.agent.metrics();
        assert_eq!(metrics.kept_bytes, kept);
        let most = self.most_kept.unwrap_or(u64::MAX).min(self.agent.config().copies.0);
        assert!(kept <= most, "{kept} bytes of copies, more than {most}");
    }

    // ---- the two ends ----

    fn send(&mut self, flow: usize, seq: Seq, payload_len: u32, is_new: bool) {
        self.stamp += 1;
        let at = &mut self.flows[flow];
        let answers = is_new && core::mem::take(&mut at.answers_mark);
        let tcp = TcpSegment {
            seq,
            ack: at.up_heard,
            payload_len,
            window: 500,
            flags: if answers { TcpFlags::ACK | TcpFlags::CWR } else { TcpFlags::ACK },
            timestamp: at.options.timestamps.then_some(TcpTimestamp { value: self.stamp, echo: at.echo }),
            ..TcpSegment::default()
        };
        self.sent.push((flow, tcp, is_new));
        self.hand_in(flow, Direction::Downlink, tcp, payload_len + LEN - MSS);
    }

    fn send_new(&mut self, flow: usize, segments: u32) {
        self.send_new_of(flow, segments, MSS);
    }

    fn send_new_of(&mut self, flow: usize, segments: u32, len: u32) {
        for _ in 0..segments {
            let at = &mut self.flows[flow];
            // The window of a SYN-ACK is not scaled.
            let most = if at.told == at.first { 40 * MSS } else { self.window };
            if at.is_opening || at.snd_nxt.minus(at.told) >= most as i32 {
                break;
            }
            let seq = at.snd_nxt;
            at.snd_nxt += len;
            self.send(flow, seq, len, true);
        }
    }

    fn send_again(&mut self, flow: usize, offset: u32, len: u32) {
        let at = &mut self.flows[flow];
        if at.is_opening {
            self.ask(flow);
            return;
        }
        let unknown = at.snd_nxt.minus(at.told) as u32;
        if unknown > 0 {
            let offset = offset % unknown;
            let (seq, len) = (at.told + offset, len.min(unknown - offset));
            at.again.push((self.now, seq, seq + len));
            self.sender_again += 1;
            self.send(flow, seq, len, false);
        }
    }

    /// The sender acknowledges what it has of its station's data, and sends nothing with that.
    fn acknowledge_upload(&mut self, flow: usize) {
        self.stamp += 1;
        let at = &self.flows[flow];
        let tcp = TcpSegment {
            seq: at.snd_nxt,
            ack: at.up_heard,
            window: 500,
            flags: TcpFlags::ACK,
            timestamp: at.options.timestamps.then_some(TcpTimestamp { value: self.stamp, echo: at.echo }),
            ..TcpSegment::default()
        };
        self.hand_in(flow, Direction::Downlink, tcp, LEN - MSS);
    }

    /// The station sends up to so many segments of its own.
    fn upload(&mut self, flow: usize, segments: u32, len: u32) {
        for _ in 0..segments {
            let at = &self.flows[flow];
            // The sender offers 64 kB.
            let is_full = at.up_nxt.minus(at.up_told) >= 40 * MSS as i32;
            if is_full || at.is_opening || at.closed.is_some() {
                break;
            }
            self.speak(flow, None, len);
        }
    }

    /// A frame reaches its station.
    fn arrive(&mut self, packet: Packet) {
        if packet.forged {
            return;
        }
        let is_past = self.is_past(&packet);
        if !is_past && !packet.tcp.flags.contains(TcpFlags::SYN) {
            let flow = &mut self.flows[packet.flow];
            flow.up_told = flow.up_told.max(packet.tcp.ack);
        }
        if packet.tcp.payload_len == 0 {
            let flow = &self.flows[packet.flow];
            // One that comes again meets a connection that is open (RFC 9293 section 3.10.7.4).
            if packet.tcp.flags.contains(TcpFlags::SYN) && !is_past && flow.rcv_nxt == flow.first {
                self.send_up(packet.flow, flow.answer());
            }
            return;
        }
        let (of, sent, _) = &self.sent[packet.serial];
        assert_eq!((of, sent), (&packet.flow, &packet.tcp), "it was changed on its way");
        let flow = &mut self.flows[packet.flow];
        if is_past || flow.closed.is_some() {
            return;
        }
        flow.echoes_mark &= !packet.tcp.flags.contains(TcpFlags::CWR);
        flow.echoes_mark |= packet.ecn == Ecn::Ce;
        let (seq, end) = (packet.tcp.seq, packet.tcp.seq_end());
        let known = !end.after(flow.rcv_nxt)
            || flow.beyond.iter().any(|&(left, right)| !seq.before(left) && !end.after(right));
        if known {
            self.acknowledge(packet.flow, Some((seq, end)));
            return;
        }
        // What of it is there already is told of as well (RFC 2883), as Linux does.
        if seq.after(flow.rcv_nxt) {
            let overlap = |&(from, to): &(Seq, Seq)| (from.max(seq), to.min(end));
            let double = flow.beyond.iter().map(overlap).find(|(from, to)| from.before(*to));
            let (mut left, mut right) = (seq, end);
            flow.beyond.retain(|&(from, to)| {
                let touches = !from.after(right) && !left.after(to);
                if touches {
                    (left, right) = (left.min(from), right.max(to));
                }
                !touches
            });
            flow.beyond.insert(0, (left, right));
            self.acknowledge(packet.flow, double);
            return;
        }
        let double = seq.before(flow.rcv_nxt).then_some((seq, flow.rcv_nxt));
        flow.rcv_nxt = end;
        let filled = !flow.beyond.is_empty();
        while let Some(at) = flow.beyond.iter().position(|&(left, _)| !left.after(flow.rcv_nxt)) {
            let (_, right) = flow.beyond.remove(at);
            flow.rcv_nxt = flow.rcv_nxt.max(right);
        }
        if double.is_some() {
            self.acknowledge(packet.flow, double);
            return;
        }
        flow.owed += 1;
        if filled || flow.owed >= 2 {
            self.acknowledge(packet.flow, None);
        } else {
            flow.delayed.get_or_insert(self.now + DELAYED_ACK);
        }
    }

    fn acknowledge(&mut self, index: usize, double: Option<(Seq, Seq)>) {
        self.speak(index, double, 0);
    }

    /// The station says what it has, with so many bytes of its own.
    fn speak(&mut self, index: usize, double: Option<(Seq, Seq)>, payload_len: u32) {
        let flow = &mut self.flows[index];
        (flow.owed, flow.delayed) = (0, None);
        let mut sack = SackBlocks::EMPTY;
        let blocks = double.into_iter().chain(flow.beyond.iter().copied());
        for (left, right) in blocks.take(flow.options.most_blocks()) {
            sack.push(SackBlock { left, right });
        }
        let tcp = TcpSegment {
            seq: flow.up_nxt,
            ack: flow.rcv_nxt,
            payload_len,
            window: 4_000,
            flags: if flow.echoes_mark { TcpFlags::ACK | TcpFlags::ECE } else { TcpFlags::ACK },
            timestamp: flow
                .options
                .timestamps
                .then(|| TcpTimestamp { value: self.now.since(Instant::ZERO).as_millis() as u32, echo: 1 }),
            sack,
            ..TcpSegment::default()
        };
        flow.up_nxt += payload_len;
        self.send_up(index, tcp);
    }

    // ---- time ----

    fn tick(&mut self) {
        self.now += TICK;
        self.tell();
        while let Some(&(_, packet)) = self.wire.front().filter(|(at, _)| *at <= self.now) {
            self.wire.pop_front();
            self.hear(packet);
        }
        if self.agent.next_timeout().is_some_and(|at| at <= self.now) {
            self.agent.on_timeout(self.now, &mut self.out);
            self.drain();
        }
        for flow in 0..self.flows.len() {
            if self.flows[flow].delayed.is_some_and(|at| at <= self.now) {
                self.acknowledge(flow, None);
            }
        }
        let heard = self.up.iter().position(|(at, packet)| *at <= self.now && !self.is_quiet(packet.flow));
        if let Some((_, packet)) = heard.and_then(|at| self.up.remove(at))
            && !self.is_past(&packet)
        {
            self.hand_in(packet.flow, Direction::Uplink, packet.tcp, packet.len);
        }
        // The next frame begins when the one before it was done.
        let mut from = self.now;
        while let Some((packet, done)) = self.air.filter(|(_, done)| *done <= self.now) {
            self.air = None;
            from = done;
            if self.is_quiet(packet.flow) {
                // It was tried in vain.
                take(&mut self.taken, &packet);
            } else if self.lose > 0 {
                self.lose -= 1;
            } else {
                self.arrive(packet);
            }
            self.begin_frame(from);
        }
        self.begin_frame(from);
    }

    /// The radio takes the next frame if it is free, at `from`.
    fn begin_frame(&mut self, from: Instant) {
        let next = self.queue.iter().position(|packet| !self.stands_still(packet.flow));
        if self.air.is_none()
            && let Some(mut packet) = next.and_then(|at| self.queue.remove(at))
        {
            if self.mark > 0 && packet.ecn == Ecn::Ect0 {
                self.mark -= 1;
                packet.ecn = Ecn::Ce;
            }
            let once = if self.is_exact {
                RATE.time_for(Bytes(u64::from(packet.len)))
            } else {
                Duration::from_millis(1)
            };
            let tries = if self.is_quiet(packet.flow) { 8 } else { 1 };
            self.air = Some((packet, from + once * tries));
        }
    }

    fn advance(&mut self, millis: u64) {
        for _ in 0..millis * 4 {
            self.tick();
        }
    }

    // ---- silences ----

    fn begin(&mut self, silence: Silence) {
        let told = silence.late.map(|late| self.now + Duration::from_millis(late));
        let until = told.unwrap_or(self.now) + Duration::from_millis(silence.length);
        let end_told = told.map(|_| until + Duration::from_millis(silence.late_end));
        let Silence { scope, cause, .. } = silence;
        self.quiet.push(Quiet { scope, cause, until, begin_told: told, end_told });
        self.tell();
    }

    /// The notices whose moment has come.
    fn tell(&mut self) {
        for at in 0..self.quiet.len() {
            let Quiet { scope, cause, begin_told, end_told, .. } = self.quiet[at];
            if begin_told.is_some_and(|at| at <= self.now) {
                self.quiet[at].begin_told = None;
                self.link(LinkEventKind::FreezeStarted { scope, cause, expected: None });
                self.noticed.insert((scope, cause));
                if self.flushes {
                    let covers = |flow: usize| scope.covers(self.homes[flow]);
                    let of_scope = |packet: &&Packet| covers(packet.flow);
                    self.queue.iter().filter(of_scope).for_each(|packet| take(&mut self.taken, packet));
                    self.queue.retain(|packet| !covers(packet.flow));
                }
            }
            if end_told.is_some_and(|at| at <= self.now) {
                self.quiet[at].end_told = None;
                self.noticed.remove(&(scope, cause));
                self.link(LinkEventKind::FreezeEnded { scope, cause });
            }
        }
        self.quiet.retain(|quiet| quiet.until > self.now || quiet.end_told.is_some());
    }

    fn is_quiet(&self, flow: usize) -> bool {
        self.quiet.iter().any(|quiet| quiet.scope.covers(self.homes[flow]) && quiet.until > self.now)
    }

    fn is_noticed(&self, flow: usize) -> bool {
        self.noticed.iter().any(|&(scope, _)| scope.covers(self.homes[flow]))
    }

    /// The router's driver knows of this silence, and the silence lasts.
    fn stands_still(&self, flow: usize) -> bool {
        self.is_quiet(flow) && self.is_noticed(flow)
    }

    /// A silence of the network, from its begin to its end.
    fn silence(&mut self, late: u64, length: u64) {
        let (scope, cause) = (Scope::Network, Cause::PrimaryUser);
        self.begin(Silence { scope, cause, late: Some(late), length, late_end: 0 });
        self.advance(late + length);
    }

    // ---- a third party ----

    fn forge(&mut self, index: usize, forgery: Forgery) {
        let of_answers = match forgery {
            Forgery::Data(_) => Some(false),
            Forgery::Ack(_) => Some(true),
            _ => None,
        };
        if of_answers.is_some_and(|answers| answers != self.forges_answers) {
            return;
        }
        self.stamp += 1;
        let flow = &self.flows[index];
        let timestamp =
            flow.options.timestamps.then_some(TcpTimestamp { value: self.stamp, echo: flow.echo });
        let plain = TcpSegment { flags: TcpFlags::ACK, window: 500, timestamp, ..TcpSegment::default() };
        // The station offers 512 kB.
        let (beyond, unsent) = (flow.rcv_nxt + 600_000, flow.snd_nxt + 1);
        let (up_nxt, up_heard) = (flow.up_nxt, flow.up_heard);
        let (direction, tcp) = match forgery {
            Forgery::Data(by) => {
                let tcp = TcpSegment { seq: beyond + by, ack: up_heard, payload_len: MSS, ..plain };
                (Direction::Downlink, tcp)
            }
            Forgery::ResetDown(by) => {
                let flags = TcpFlags::RST | TcpFlags::ACK;
                (Direction::Downlink, TcpSegment { seq: beyond + by, ack: up_heard, flags, ..plain })
            }
            Forgery::ResetUp(by) => {
                let flags = TcpFlags::RST | TcpFlags::ACK;
                (Direction::Uplink, TcpSegment { seq: up_nxt + 600_000 + by, ack: unsent, flags, ..plain })
            }
            Forgery::Ack(by) => (Direction::Uplink, TcpSegment { seq: up_nxt, ack: beyond + by, ..plain }),
            Forgery::Up(by) => {
                let seq = up_nxt + 600_000 + by;
                let payload_len = by % 2 * MSS;
                (Direction::Uplink, TcpSegment { seq, ack: flow.rcv_nxt, payload_len, ..plain })
            }
            Forgery::Handshake(by) => {
                let syn = SynOptions { mss: Some(536), window_scale: Some(1), sack_permitted: false };
                let half = TcpSegment { syn, window: 5_000, ..plain };
                if self.forges_answers {
                    let flags = TcpFlags::SYN | TcpFlags::ACK;
                    (Direction::Uplink, TcpSegment { seq: Seq(by), ack: beyond + by, flags, ..half })
                } else {
                    let flags = TcpFlags::SYN;
                    (Direction::Downlink, TcpSegment { seq: beyond + by, ack: Seq(0), flags, ..half })
                }
            }
        };
        self.hand_in_as(index, direction, tcp, 52 + tcp.payload_len, true);
    }

    fn step(&mut self, step: Step) {
        let count = self.flows.len();
        match step {
            Step::Advance(millis) => self.advance(millis),
            Step::Send { flow, segments, len } => self.send_new_of(flow % count, segments, len),
            Step::Upload { flow, segments, len } => self.upload(flow % count, segments, len),
            Step::Retransmit { flow, offset, len } => self.send_again(flow % count, offset, len),
            Step::Silence(silence) => self.begin(silence),
            Step::Forge { flow, forgery } => self.forge(flow % count, forgery),
            Step::Unhear(station) => self.unhear(StationId(station)),
            Step::End { flow, ending, iss } => self.end(flow % count, ending, Seq(iss)),
            Step::Lose(frames) => self.lose += frames,
            Step::Mark(frames) => self.mark += frames,
        }
    }

    /// A driver takes numbers from stations that are idle: nothing is held for them, and no silence is
    /// theirs.
    fn unhear(&mut self, station: StationId) {
        let silent = self.noticed.iter().any(|(scope, _)| *scope == Scope::Station(station));
        let busy = self.packets.values().any(|packet| self.homes[packet.flow] == station);
        if !silent && !busy {
            self.unheard.insert(station);
        }
    }

    /// All flows become known to their stations, and their round trips are measured.
    fn warm_up(&mut self) {
        let flows = self.flows.len();
        for _ in 0..8 {
            for flow in 0..flows {
                self.send_new(flow, 4);
            }
            self.advance(30.max(8 * flows as u64));
        }
    }

    /// Every connection moves so many bytes, and nothing is lost.
    fn move_on(&mut self, bytes: u64, len: u32) {
        for flow in &mut self.flows {
            // Its numbers come again.
            flow.again.clear();
        }
        let mut moved = vec![0u64; self.flows.len()];
        // A window takes a round trip, and some of it more than one.
        let most = 8 * bytes / u64::from(self.window);
        for _ in 0..most {
            if moved.iter().all(|&moved| moved >= bytes) {
                return;
            }
            let before: Vec<_> = self.flows.iter().map(|flow| flow.rcv_nxt).collect();
            for flow in 0..self.flows.len() {
                self.send_new_of(flow, u32::MAX, len);
            }
            self.advance(50);
            for ((moved, before), flow) in moved.iter_mut().zip(before).zip(&self.flows) {
                *moved += u64::from(flow.rcv_nxt.minus(before).unsigned_abs());
            }
        }
        panic!("{most} round trips have moved no more than {moved:?}");
    }

    /// What nobody repairs the senders do, with so many bytes at a time.
    fn settle(&mut self, len: u32) {
        for _ in 0..2_000 {
            if self.has_all() {
                break;
            }
            self.advance(200);
            for flow in 0..self.flows.len() {
                self.send_again(flow, 0, len);
            }
        }
    }

    fn has_all(&self) -> bool {
        self.flows.iter().all(|flow| {
            let is_open = !flow.is_opening && flow.closed.is_none();
            let has_upload = flow.up_heard == flow.up_nxt;
            is_open && has_upload && flow.told == flow.snd_nxt && flow.rcv_nxt == flow.snd_nxt
        })
    }
}

fn config(few: bool) -> DsaSyncConfig {
    let copies = Bytes(if few { 20_000 } else { 4_000_000 });
    // The senders heed no window, so that their queues stand.
    DsaSyncConfig { recover: true, copies, standing_limit: Duration::ZERO, ..DsaSyncConfig::default() }
}

fn silence() -> impl Strategy<Value = Silence> {
    let scope = prop_oneof![
        2 => Just(Scope::Network),
        1 => (0..STATIONS).prop_map(|station| Scope::Station(StationId(station))),
    ];
    let cause = prop_oneof![Just(Cause::PrimaryUser), Just(Cause::Fade)];
    let late = prop_oneof![2 => Just(Some(0)), 4 => (1u64..80).prop_map(Some), 2 => Just(None)];
    let late_end = prop_oneof![Just(0), 1u64..80];
    (scope, cause, late, 1u64..400, late_end).prop_map(|(scope, cause, late, length, late_end)| Silence {
        scope,
        cause,
        late,
        length,
        late_end,
    })
}

fn options() -> impl Strategy<Value = Options> + Clone {
    let one = |timestamps, sack| Just(Options { timestamps, sack });
    prop_oneof![3 => one(true, true), 1 => one(true, false), 1 => one(false, true), 1 => one(false, false)]
}

fn forgery() -> impl Strategy<Value = Forgery> {
    let by = prop_oneof![0u32..100_000, 0u32..1 << 30];
    (0u8..6, by).prop_map(|(which, by)| match which {
        0 => Forgery::Data(by),
        1 => Forgery::ResetDown(by),
        2 => Forgery::ResetUp(by),
        3 => Forgery::Ack(by),
        4 => Forgery::Up(by),
        _ => Forgery::Handshake(by),
    })
}

fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(Ending::Station), Just(Ending::Sender), Just(Ending::Unsaid)]
}

/// Two flows at a station each, or more flows than are probed at once.
fn flows(options: impl Strategy<Value = Options> + Clone) -> impl Strategy<Value = Vec<(Options, u32)>> {
    let two =
        prop::array::uniform2(options.clone()).prop_map(|[first, second]| vec![(first, 0), (second, 1)]);
    prop_oneof![1 => two, 1 => prop::collection::vec((options, 0..STATIONS), 2..=MOST_FLOWS)]
}

/// Of a segment's payload: most are full.
fn len() -> impl Strategy<Value = u32> {
    prop_oneof![3 => Just(MSS), 1 => 1..MSS]
}

fn step() -> impl Strategy<Value = Step> {
    let offset = prop_oneof![(0u32..64).prop_map(|nth| nth * MSS), 0..64 * MSS];
    prop_oneof![
        6 => prop_oneof![1u64..30, 1u64..200].prop_map(Step::Advance),
        6 => (0..MOST_FLOWS, 1u32..20, len()).prop_map(|(flow, segments, len)| Step::Send { flow, segments, len }),
        2 => (0..MOST_FLOWS, offset, len()).prop_map(|(flow, offset, len)| Step::Retransmit { flow, offset, len }),
        3 => silence().prop_map(Step::Silence),
        2 => (0..MOST_FLOWS, forgery()).prop_map(|(flow, forgery)| Step::Forge { flow, forgery }),
        1 => (0..STATIONS).prop_map(Step::Unhear),
        1 => (0..MOST_FLOWS, ending(), any::<u32>())
            .prop_map(|(flow, ending, iss)| Step::End { flow, ending, iss }),
        1 => (1u32..4).prop_map(Step::Lose),
        1 => (1u32..4).prop_map(Step::Mark),
    ]
}

/// The same where stations send data as well. Nothing ends, and nobody forges.
fn step_both_ways() -> impl Strategy<Value = Step> {
    // Time passes in their place: a filter's rejects would end a run of very many cases.
    let goes_on = |step: Step| match step {
        Step::End { .. } | Step::Forge { .. } => Step::Advance(7),
        other => other,
    };
    let upload = (0..MOST_FLOWS, 1u32..20, len()).prop_map(|(flow, segments, len)| Step::Upload {
        flow,
        segments,
        len,
    });
    prop_oneof![4 => step().prop_map(goes_on), 1 => upload]
}

/// Takes the steps, and then lets all that was sent arrive: nothing is left here.
fn play(mut world: World, steps: Vec<Step>) {
    for step in steps {
        world.step(step);
    }
    world.lose = 0;
    world.settle(MSS);
    assert!(world.has_all(), "something is lost");
    world.advance(3_000);
    assert!(world.kept.is_empty(), "{} copies are left", world.kept.len());
    assert!(world.packets.is_empty(), "{} packets are left", world.packets.len());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    /// In any interleaving of losses, lateness, silences, forgeries and the sender's own copies: a station
    /// gets only what was sent, as it was sent; no ACK changes its place, says more than the station, or is
    /// lost with what it says; bounds hold; and at the end nothing is left.
    #[test]
    fn stations_get_what_was_sent_and_senders_hear_what_stations_said(
        few in prop::bool::weighted(0.2),
        flushes in any::<bool>(),
        told in any::<bool>(),
        forges_answers in any::<bool>(),
        flows in flows(options()),
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut world = World::with(&config(few), flushes, told, &flows);
        world.forges_answers = forges_answers;
        play(world, steps);
    }

    /// The same of connections with data both ways. What stations send passes at once, in its order, and
    /// whole.
    #[test]
    fn data_of_stations_passes_at_once_beside_copies(
        few in prop::bool::weighted(0.2),
        flushes in any::<bool>(),
        told in any::<bool>(),
        flows in flows(options()),
        steps in prop::collection::vec(step_both_ways(), 1..60),
    ) {
        play(World::with(&config(few), flushes, told, &flows), steps);
    }

    /// A rate that is told bounds the copies of what a station does not answer.
    #[test]
    fn copies_are_no_more_than_the_radio_carries_meanwhile(first in 1u32..64, length in 1u64..1_000) {
        out_of_reach(first, length);
    }

    /// What late silences take, copies bring back, without a word from the sender, as long as silences do not
    /// take three copies of a segment as well: no more go. What the router drops because nobody tells the
    /// rate, or because the radio carries less than is told, is the sender's.
    #[test]
    fn what_a_silence_noticed_late_took_comes_without_the_sender(
        flushes in any::<bool>(),
        told in any::<bool>(),
        timestamps in any::<bool>(),
        lens in prop::array::uniform8(len()),
        flows in flows(Just(Options { timestamps: true, sack: true })),
        rounds in prop::collection::vec((prop::array::uniform8(1u32..30), 0u64..50, 20u64..400, 150u64..300), 1..6),
    ) {
        let flows: Vec<_> = flows.into_iter().map(|(options, home)| (Options { timestamps, ..options }, home)).collect();
        for is_exact in [false, true] {
            let mut world = World::with(&config(false), flushes, told, &flows);
            world.is_exact = is_exact;
            world.warm_up();
            for &(segments, late, length, pause) in &rounds {
                for flow in 0..flows.len() {
                    world.send_new_of(flow, segments[flow], lens[flow]);
                }
                world.silence(late, length);
                world.advance(pause);
            }
            world.advance(2_000);
            prop_assert_eq!(world.sender_again, 0);
            for (index, flow) in world.flows.iter().enumerate() {
                let left = (flow.snd_nxt.minus(flow.told), flow.snd_nxt.minus(flow.rcv_nxt));
                let taken = world.taken.get(&(index, flow.rcv_nxt.0)).copied().unwrap_or(0);
                let overflowed = world.overflowed.contains(&(index, flow.rcv_nxt.0));
                prop_assert!(
                    !(told && is_exact && overflowed),
                    "flow {index}: more below than there is room for, though the rate is told"
                );
                prop_assert!(
                    left == (0, 0) || taken > TRIES || overflowed,
                    "flow {index}: {left:?} left, taken {taken} times, exact: {is_exact}"
                );
            }
        }
    }
}

/// Most bytes of copies where the rate is told: what the radio carries in the longest lateness, a local round
/// trip, and what is allowed for the router's queue.
fn most_copies(config: &DsaSyncConfig) -> u64 {
    // A frame's time, and the ACK's, each up to a tick late.
    let local = Duration::from_millis(1) + ACK_TIME + TICK * 2;
    RATE.bytes_in(config.longest_lateness + local + Duration::from_millis(10)).0
}

/// A station is out of reach for so long, ms, and nobody tells of it, though the rate is told; meanwhile the
/// senders send as much as they may. Answers most bytes of copies.
fn out_of_reach(first: u32, length: u64) -> u64 {
    let config = config(false);
    let mut world = World::new(&config, false, true);
    world.warm_up();
    world.advance(1_000);
    assert!(world.kept.is_empty());
    world.most_kept = Some(most_copies(&config));
    let (scope, cause) = (Scope::Network, Cause::PrimaryUser);
    world.begin(Silence { scope, cause, late: None, length, late_end: 0 });
    for at in 0..length {
        let count = if at == 0 { first } else { 4 };
        world.send_new((at % 2) as usize, count);
        world.advance(1);
    }
    let most = world.agent.metrics().kept_bytes;
    // What a silence took waits for its turn, and is not pushed out: the setting alone bounds it.
    world.most_kept = None;
    world.advance(5_000);
    most
}

/// The worlds must make the mechanism keep ACKs back and throw D-SACKs away, or the properties say little.
/// Where the rate is told it knows so well what is still in the router's queue that few copies are needless.
#[test]
fn a_late_silence_makes_copies_and_hides_acks() {
    for told in [true, false] {
        let mut world = World::new(&config(false), false, told);
        world.warm_up();
        for _ in 0..20 {
            world.send_new(0, 12);
            world.send_new(1, 12);
            world.silence(20, 100);
            world.advance(100);
        }
        world.advance(1_000);
        assert!(world.has_all());
        let metrics = world.agent.metrics();
        assert!(metrics.copies_sent > 20, "{metrics:?}");
        assert!(told || world.repaired >= 5, "{} ACKs were kept from the senders", world.repaired);
        assert_eq!(metrics.held_packets, 0);
    }
}

/// Sequence numbers go round. What losses and copies left behind says nothing of segments half their space
/// further on, and what a silence takes there is repaired as before.
#[test]
fn copies_repair_as_before_when_numbers_have_gone_round() {
    const AGGREGATE: u32 = 60_000;
    const HALF: u64 = (1 << 31) + 100_000_000;
    for told in [false, true] {
        let mut world = World::new(&config(false), false, false);
        if told {
            // A frame takes a millisecond whatever it carries.
            let capacity = BitRate(RATE.0 * 40);
            world.link(LinkEventKind::ChannelSwitched { capacity, efficiency: Fraction::ONE });
        }
        // The station offers 512 kB.
        world.window = 400_000;
        world.warm_up();
        for storm in 0..3 {
            let (copies, repaired) = (world.agent.metrics().copies_sent, world.repaired);
            for nth in 0..40 {
                world.send_new_of(0, 7, AGGREGATE);
                world.send_new_of(1, 7, AGGREGATE);
                world.silence(20, 100);
                if nth % 5 == 0 {
                    world.send_again(nth % 2, 0, AGGREGATE);
                }
                world.advance(100);
            }
            world.settle(AGGREGATE);
            assert!(world.has_all(), "told: {told}, storm {storm}");
            let copies = world.agent.metrics().copies_sent - copies;
            assert!(copies > 20, "told: {told}, storm {storm}: {copies} copies");
            assert!(told || world.repaired > repaired, "storm {storm}: no ACK was kept from the senders");
            if storm < 2 {
                world.move_on(HALF, AGGREGATE);
            }
        }
        world.advance(3_000);
        assert!(world.kept.is_empty() && world.packets.is_empty(), "told: {told}: something is left");
        assert_eq!((world.agent.outstanding(), world.agent.metrics().held_packets), (Bytes(0), 0));
    }
}

/// The bound must bind, or the property says little.
#[test]
fn a_station_out_of_reach_has_as_many_copies_as_may_be() {
    let (bound, most) = (most_copies(&config(false)), out_of_reach(10, 400));
    assert!(bound - most < 3 * u64::from(LEN), "{most} of {bound} bytes");
}
