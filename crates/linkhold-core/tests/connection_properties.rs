//! What strangers cannot do to a connection of the host that they do not see.

use linkhold_core::action::AckSpec;
use linkhold_core::connection::{Connection, Segment};
use linkhold_core::packet::{Direction, Endpoint, FlowKey, SynOptions, TcpFlags, TcpSegment};
use linkhold_core::units::Seq;
use proptest::prelude::*;

const ACK: TcpFlags = TcpFlags::ACK;
const SYN: TcpFlags = TcpFlags::SYN;
const FIN: TcpFlags = TcpFlags::FIN;
const RST: TcpFlags = TcpFlags::RST;

/// What the two ends of the connection do.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// The host sends so many bytes.
    Send(u32),
    /// The far end sends so many bytes, of which the window may leave some out.
    Hear(u32),
    /// The host acknowledges everything, with this window.
    Acknowledge(u16),
    /// The far end acknowledges all but so many bytes, with this window.
    Answer(u32, u16),
    /// The far end sends an acknowledgment again that it sent before.
    Late,
    Close(Direction),
}

/// A connection: how it begins, and what is said on it.
#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Who opens it; `None`: its SYNs went by before anybody looked.
    opens: Option<Direction>,
    host: Seq,
    far: Seq,
    scales: [Option<u8>; 2],
    signed: bool,
}

/// What a stranger sends in the far end's name, after so many segments of the connection.
#[derive(Clone, Copy, Debug)]
struct Forgery {
    after: usize,
    flags: TcpFlags,
    seq: Number,
    ack: Number,
    payload_len: u32,
    window: u16,
    scale: Option<u8>,
    signed: bool,
    /// The host's kernel answers by a reset, as it does where it has no such connection.
    answered: bool,
}

/// A number that is made up.
#[derive(Clone, Copy, Debug)]
enum Number {
    Any(u32),
    /// The connection's own, missed by so much.
    Near(i32),
}

impl Number {
    fn near(self, own: Seq) -> Seq {
        match self {
            Self::Any(number) => Seq(number),
            Self::Near(by) => Seq(own.0.wrapping_add_signed(by)),
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u32..20_000).prop_map(Step::Send),
        4 => (1u32..20_000).prop_map(Step::Hear),
        4 => any::<u16>().prop_map(Step::Acknowledge),
        4 => (prop_oneof![Just(0), 0u32..30_000], any::<u16>())
            .prop_map(|(less, window)| Step::Answer(less, window)),
        1 => Just(Step::Late),
        1 => prop::sample::select(vec![Direction::Uplink, Direction::Downlink]).prop_map(Step::Close),
    ]
}

fn plan() -> impl Strategy<Value = Plan> {
    let opens = prop::sample::select(vec![Some(Direction::Uplink), Some(Direction::Downlink), None]);
    let scale = || prop::option::of(0u8..15);
    (opens, any::<u32>(), any::<u32>(), [scale(), scale()], prop::bool::weighted(0.1)).prop_map(
        |(opens, host, far, scales, signed)| Plan { opens, host: Seq(host), far: Seq(far), scales, signed },
    )
}

fn forgery() -> impl Strategy<Value = Forgery> {
    let number = || {
        prop_oneof![
            2 => any::<u32>().prop_map(Number::Any),
            1 => prop_oneof![2i32..100_000, -100_000i32..-1].prop_map(Number::Near),
        ]
    };
    let flags =
        prop::sample::select(vec![SYN, SYN | ACK, ACK, ACK | FIN, RST, RST | ACK, TcpFlags::default()]);
    let after = prop_oneof![2 => 0usize..3, 1 => 0usize..60];
    let rest =
        (prop_oneof![Just(0), 0u32..3_000], any::<u16>(), prop::option::of(0u8..15), any::<[bool; 2]>());
    (after, flags, number(), number(), rest).prop_map(
        |(after, flags, seq, ack, (payload_len, window, scale, [signed, answered]))| Forgery {
            after,
            flags,
            seq,
            ack,
            payload_len: if flags.intersects(SYN | RST) { 0 } else { payload_len },
            window,
            scale,
            signed,
            answered,
        },
    )
}

/// Both ends of a connection, and who watches it.
struct World {
    plan: Plan,
    connection: Connection,
    /// Next numbers of both ends, and what each has acknowledged of the other.
    host: Seq,
    far: Seq,
    host_acked: Option<Seq>,
    far_acked: Option<Seq>,
    /// The far end acknowledged something after the host's first word.
    answered_host: bool,
    /// Where the host's window ends at the furthest, as whoever watches may think.
    edge: Seq,
    closed: [bool; 2],
    answers: Vec<TcpSegment>,
    /// SYNs that a stranger may still send before the answer: of more than five one is forgotten, and that
    /// may be the real one.
    syns_left: u32,
    spoken: usize,
}

/// What a mechanism asks of a connection.
type Told = (Option<AckSpec>, bool, bool, Option<Seq>, u16);

impl World {
    fn new(plan: Plan) -> Self {
        Self {
            plan,
            connection: Connection::default(),
            host: plan.host,
            far: plan.far,
            host_acked: None,
            far_acked: None,
            answered_host: false,
            edge: Seq(0),
            closed: [false; 2],
            answers: Vec::new(),
            syns_left: 3,
            spoken: 0,
        }
    }

    fn told(&self) -> Told {
        let end = Endpoint { addr: [192, 0, 2, 1].into(), port: 80 };
        let key = FlowKey { correspondent: end, station: end };
        let connection = &self.connection;
        let full = connection.full(self.far_acked.unwrap_or(self.host), 500);
        let (over, can_be_told) = (connection.is_over(), connection.can_be_told());
        (connection.last_ack(key), over, can_be_told, connection.sent(), full)
    }

    fn is_scaled(&self) -> bool {
        self.plan.scales.iter().all(Option::is_some)
    }

    /// A segment of the connection passes; `segment` needs flags, payload and window.
    fn say(&mut self, direction: Direction, segment: TcpSegment) -> Segment {
        self.spoken += 1;
        let (seq, ack) = match direction {
            Direction::Uplink => (&mut self.host, self.far),
            Direction::Downlink => (&mut self.far, self.host),
        };
        let ack = if segment.flags.contains(ACK) { ack - segment.ack.0 } else { Seq(0) };
        let tcp = TcpSegment { seq: *seq, ack, signed: self.plan.signed, ..segment };
        *seq = tcp.seq_end();
        if tcp.flags.contains(ACK) && direction == Direction::Uplink {
            let shift = match self.plan.opens {
                _ if tcp.flags.contains(SYN) => 0,
                Some(_) if self.is_scaled() => self.plan.scales[0].unwrap_or(0),
                Some(_) => 0,
                None => 14,
            };
            let edge = tcp.ack + (((u32::from(tcp.window) + 1) << shift) - 1);
            self.edge = if self.host_acked.is_some() { self.edge.max(edge) } else { edge };
            self.host_acked = Some(tcp.ack);
        } else if tcp.flags.contains(ACK) {
            self.far_acked = Some(tcp.ack);
            self.answered_host |= self.host_acked.is_some() || tcp.flags.contains(SYN);
            self.answers.push(tcp);
        }
        if tcp.flags.contains(SYN | ACK) && direction == Direction::Downlink {
            (self.host_acked, self.edge) = (Some(tcp.seq + 1), tcp.seq + 1 + 65_535);
        }
        self.connection.pass(direction, &tcp)
    }

    fn shake_hands(&mut self, nth: usize) {
        let Some(opens) = self.plan.opens else { return };
        let [local, remote] = self.plan.scales;
        let (flags, direction) = match (nth, opens) {
            (0, opens) => (SYN, opens),
            (_, Direction::Uplink) => (SYN | ACK, Direction::Downlink),
            (_, Direction::Downlink) => (SYN | ACK, Direction::Uplink),
        };
        let window_scale = if direction == Direction::Uplink { local } else { remote };
        let syn = SynOptions { window_scale, ..SynOptions::default() };
        self.say(direction, TcpSegment { flags, syn, window: 60_000, ..TcpSegment::default() });
    }

    fn run(&mut self, step: Step) {
        let segment = |payload_len, less: u32, window| TcpSegment {
            flags: ACK,
            payload_len,
            ack: Seq(less),
            window,
            ..TcpSegment::default()
        };
        match step {
            Step::Send(bytes) if !self.closed[0] => {
                self.say(Direction::Uplink, segment(bytes, 0, 60_000));
            }
            Step::Hear(bytes) if !self.closed[1] && self.host_acked.is_some() => {
                let room = u32::try_from(self.edge.minus(self.far)).unwrap_or(0);
                self.say(Direction::Downlink, segment(bytes.min(room), 0, 60_000));
            }
            Step::Acknowledge(window) => {
                self.say(Direction::Uplink, segment(0, 0, window));
            }
            Step::Answer(less, window) => {
                // It never takes back what it has acknowledged.
                let most =
                    self.far_acked.map_or(0, |acked| u32::try_from(self.host.minus(acked)).unwrap_or(0));
                self.say(Direction::Downlink, segment(0, less.min(most), window));
            }
            Step::Late => {
                if let Some(tcp) = self.answers.first().copied() {
                    self.spoken += 1;
                    self.connection.pass(Direction::Downlink, &tcp);
                }
            }
            Step::Close(Direction::Uplink) if !self.closed[0] => {
                self.closed[0] = true;
                self.say(Direction::Uplink, TcpSegment { flags: ACK | FIN, ..segment(0, 0, 60_000) });
            }
            Step::Close(Direction::Downlink) if !self.closed[1] && self.host_acked.is_some() => {
                self.closed[1] = true;
                self.say(Direction::Downlink, TcpSegment { flags: ACK | FIN, ..segment(0, 0, 60_000) });
            }
            Step::Send(_) | Step::Hear(_) | Step::Close(_) => {}
        }
    }

    /// Both SYNs have passed; or, where they never will, the far end has answered what the host said.
    fn is_settled(&self) -> bool {
        self.spoken >= self.syns() && self.host_acked.is_some() && self.answered_host
    }

    /// How many segments the handshake takes.
    fn syns(&self) -> usize {
        self.plan.opens.map_or(0, |_| 2)
    }

    /// A stranger's segment passes, unless it hits the connection's numbers by chance.
    fn slip_in(&mut self, forgery: &Forgery) {
        let (seq, ack) = (forgery.seq.near(self.far), forgery.ack.near(self.host));
        let tcp = TcpSegment {
            seq,
            ack,
            flags: forgery.flags,
            payload_len: forgery.payload_len,
            window: forgery.window,
            signed: forgery.signed,
            syn: SynOptions { window_scale: forgery.scale, ..SynOptions::default() },
            ..TcpSegment::default()
        };
        let hits = |number: Seq, near: Seq| number.minus(near).unsigned_abs() < 2;
        if hits(seq, self.far) || hits(ack, self.host) {
            return;
        }
        let (begins, answers) = (tcp.flags.contains(SYN), tcp.flags.contains(ACK));
        if begins && !answers && self.spoken < self.syns() {
            if self.syns_left == 0 {
                return;
            }
            self.syns_left -= 1;
        }
        // Whoever hits the window is believed. Before the host's first word nobody knows where it ends.
        let end = tcp.seq_end();
        let hits_window = match self.host_acked {
            Some(acked) => !begins && !end.before(acked) && !end.after(self.edge + 1),
            None => !end.before(self.far) && !end.after(self.far + (1 << 30)),
        };
        let hits_flight =
            answers && self.host_acked.is_none() && ack.minus(self.host).unsigned_abs() < 200_000;
        if self.spoken >= self.syns() && (hits_window || hits_flight) {
            return;
        }
        self.connection.pass(Direction::Downlink, &tcp);
        // A host that has sent a SYN resets what acknowledges another, and one without a connection
        // everything (RFC 9293 sections 3.10.7.3 and 3.10.7.1).
        let resets = match (self.plan.opens, self.spoken) {
            (Some(_), 0) => true,
            (Some(Direction::Uplink), 1) => answers,
            (Some(_) | None, _) => false,
        };
        if forgery.answered && !tcp.flags.contains(RST) && resets {
            let reset = if answers {
                TcpSegment { flags: RST, seq: ack, ..TcpSegment::default() }
            } else {
                TcpSegment { flags: RST | ACK, ack: tcp.seq_end(), ..TcpSegment::default() }
            };
            let is_own =
                self.far_acked.is_some_and(|acked| !reset.seq.before(acked)) && !reset.seq.after(self.host);
            if !is_own {
                self.connection.pass(Direction::Uplink, &reset);
            }
        }
    }
}

/// What a mechanism would ask and be told after each segment of the connection, once both ends were heard.
fn told(plan: Plan, steps: &[Step], forgeries: &[Forgery]) -> Vec<Told> {
    let mut world = World::new(plan);
    let mut told = Vec::new();
    let handshake = plan.opens.map_or(0, |_| 2);
    for nth in 0..handshake + steps.len() {
        forgeries.iter().filter(|forgery| forgery.after == nth).for_each(|forgery| world.slip_in(forgery));
        match nth.checked_sub(handshake) {
            None => world.shake_hands(nth),
            Some(nth) => world.run(steps[nth]),
        }
        if world.is_settled() {
            told.push(world.told());
        }
    }
    told
}

proptest! {
    /// Before, within and after a handshake, and on a connection that was never seen to begin, a stranger
    /// sends whatever it likes with numbers that are not the connection's, signed or not, and the host's
    /// kernel may answer that: what is told of the connection stays the same.
    #[test]
    fn a_stranger_changes_nothing_of_a_connection(
        plan in plan(),
        steps in prop::collection::vec(step(), 1..60),
        forgeries in prop::collection::vec(forgery(), 0..24),
    ) {
        let (beside, alone) = (told(plan, &steps, &forgeries), told(plan, &steps, &[]));
        for (nth, (beside, alone)) in beside.iter().zip(&alone).enumerate() {
            prop_assert_eq!(beside, alone, "after segment {}", nth);
            // On the ports of one that is over anybody may begin another.
            if alone.1 {
                break;
            }
        }
    }
}
