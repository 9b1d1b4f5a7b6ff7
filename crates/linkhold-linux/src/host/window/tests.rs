//! Dialogues with the window updates: what passes, what the mechanism commands, what the local sender is
//! told.

use linkhold_core::action::DropReason;
use linkhold_core::packet::{Ecn, Endpoint, Origin, PacketId, StationId, SynOptions, TcpSegment};
use linkhold_core::units::Seq;
use proptest::prelude::*;

use super::*;

const THAW: SenderCommand = SenderCommand::Thaw { resend: Resend::Nothing };

/// A mechanism that says what it is told to, and lets no larger window pass than it is told.
#[derive(Default)]
struct Script {
    next: Vec<Action>,
    most: Option<u16>,
    holds: bool,
}

impl Mechanism for Script {
    fn name(&self) -> &'static str {
        "script"
    }
    fn on_packet(&mut self, _: Instant, packet: &PacketView<'_>, _: &mut Actions) -> Verdict {
        if self.holds {
            return Verdict::Hold;
        }
        let most =
            self.most.filter(|&most| packet.direction == Direction::Downlink && most < packet.tcp.window);
        Verdict::Forward(most.map_or(Rewrite::NONE, Rewrite::window))
    }
    fn on_link(&mut self, _: Instant, _: LinkEvent, _: &mut Actions) {}
    fn on_timeout(&mut self, _: Instant, out: &mut Actions) {
        for action in self.next.drain(..) {
            out.push(action);
        }
    }
    fn next_timeout(&self) -> Option<Instant> {
        None
    }
    fn is_holding(&self) -> bool {
        false
    }
    fn flush(&mut self, _: Instant, _: &mut Actions) {}
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

struct Dialogue {
    senders: WindowSenders<Script>,
    now: Instant,
    /// The last packet's.
    id: PacketId,
}

/// What comes out of a command: the windows of injected acknowledgments, as (ack, window).
type Injected = Vec<(u32, u16)>;

fn key(port: u16) -> FlowKey {
    let end = |addr: [u8; 4], port| Endpoint { addr: addr.into(), port };
    FlowKey { correspondent: end([192, 0, 2, 1], 80), station: end([10, 0, 0, 2], port) }
}

fn injected(out: &mut Actions) -> Injected {
    let ack = |action| match action {
        Action::InjectAck(spec) => {
            assert_eq!(spec.direction, Direction::Downlink, "only the local sender is told");
            Some((spec.ack.0, spec.window))
        }
        Action::Sender { .. } => None,
        other => panic!("nothing else is done: {other:?}"),
    };
    out.drain().filter_map(ack).collect()
}

impl Dialogue {
    fn new(closes: bool) -> Self {
        Self {
            senders: WindowSenders::new(Script::default(), closes, 1),
            now: Instant::ZERO,
            id: PacketId(0),
        }
    }

    fn packet(&mut self, port: u16, direction: Direction, tcp: TcpSegment) -> Verdict {
        let flow = key(port);
        self.id.0 += 1;
        let view = PacketView {
            id: self.id,
            direction,
            origin: Origin::Arrival,
            station: StationId(0),
            flow: &flow,
            tcp: &tcp,
            len: 52,
            ecn: Ecn::NotEct,
        };
        let mut out = Actions::new();
        let verdict = self.senders.on_packet(self.now, &view, &mut out);
        assert!(out.is_empty());
        verdict
    }

    /// An acknowledgment comes in.
    fn ack(&mut self, port: u16, ack: u32, window: u16) -> Verdict {
        let tcp = TcpSegment { ack: Seq(ack), window, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(port, Direction::Downlink, tcp)
    }

    fn send(&mut self, port: u16, seq: u32, payload_len: u32) -> Verdict {
        let flags = TcpFlags::ACK;
        let data = TcpSegment { seq: Seq(seq), payload_len, flags, ..TcpSegment::default() };
        self.packet(port, Direction::Uplink, data)
    }

    /// The local end opens a connection with this sequence number, and the far end answers with a window of
    /// 64,000 bytes. Its ACKs have scale 7, and its sequence numbers start at 0.
    fn handshake(&mut self, port: u16, seq: u32) {
        let syn = SynOptions { window_scale: Some(7), ..SynOptions::default() };
        let opens = TcpSegment { flags: TcpFlags::SYN, seq: Seq(seq), syn, ..TcpSegment::default() };
        let flags = TcpFlags::SYN | TcpFlags::ACK;
        let answer = TcpSegment { flags, seq: Seq(u32::MAX), ack: Seq(seq) + 1, window: 64_000, ..opens };
        assert_eq!(self.packet(port, Direction::Uplink, opens), UNCHANGED);
        assert_eq!(self.packet(port, Direction::Downlink, answer), UNCHANGED);
    }

    /// Both ends close the connection, and acknowledge that. The local end has sent up to `seq`.
    fn farewell(&mut self, port: u16, seq: u32) {
        let flags = TcpFlags::FIN | TcpFlags::ACK;
        let fin = TcpSegment { flags, seq: Seq(seq), window: 500, ..TcpSegment::default() };
        let _ = self.packet(port, Direction::Uplink, fin);
        let _ = self.packet(port, Direction::Downlink, TcpSegment { seq: Seq(0), ack: Seq(seq) + 1, ..fin });
        let last = TcpSegment { flags: TcpFlags::ACK, seq: Seq(seq) + 1, ack: Seq(1), ..fin };
        let _ = self.packet(port, Direction::Uplink, last);
    }

    /// An acknowledgment comes in, and the inner mechanism holds it.
    fn held_ack(&mut self, port: u16, ack: u32, window: u16) -> PacketId {
        self.senders.inner.holds = true;
        assert_eq!(self.ack(port, ack, window), Verdict::Hold);
        self.senders.inner.holds = false;
        self.id
    }

    /// The inner mechanism lets it go; the window that it has then, if not its own.
    fn release(&mut self, packet: PacketId, rewrite: Rewrite) -> Option<u16> {
        self.senders.inner.next.push(Action::Release { packet, rewrite });
        let mut out = Actions::new();
        self.senders.on_timeout(self.now, &mut out);
        match out.drain().collect::<Vec<_>>()[..] {
            [Action::Release { packet: released, rewrite }] if released == packet => rewrite.window,
            ref other => panic!("{other:?}"),
        }
    }

    fn command(&mut self, port: u16, command: SenderCommand) -> Injected {
        let flow = key(port);
        self.senders.inner.next.push(Action::Sender { flow, command });
        let mut out = Actions::new();
        self.senders.on_timeout(self.now, &mut out);
        injected(&mut out)
    }

    /// The inner mechanism lets no larger window pass from now on (`None`: any), and says so.
    fn hold_down(&mut self, port: u16, most: Option<u16>) -> Injected {
        self.senders.inner.most = most;
        let last = self.senders.flows.get(&key(port)).and_then(|flow| flow.connection.last_ack(key(port)));
        let tell = |last: AckSpec| {
            let window = most.map_or(last.window, |most| most.min(last.window));
            Action::InjectAck(AckSpec { window, ..last })
        };
        self.senders.inner.next.extend(last.map(tell));
        let mut out = Actions::new();
        self.senders.on_timeout(self.now, &mut out);
        injected(&mut out)
    }

    /// Several commands in one call: what comes out, in words.
    fn commands(&mut self, commands: &[(u16, SenderCommand)]) -> Vec<String> {
        let command = |&(port, command)| Action::Sender { flow: key(port), command };
        self.senders.inner.next.extend(commands.iter().map(command));
        let mut out = Actions::new();
        self.senders.on_timeout(self.now, &mut out);
        let said = |action| match action {
            Action::InjectAck(spec) => format!("ack {} {}", spec.flow.station.port, spec.window),
            Action::Sender { flow, command: SenderCommand::Freeze } => {
                format!("freeze {}", flow.station.port)
            }
            Action::Sender { flow, command: _ } => format!("thaw {}", flow.station.port),
            other => panic!("nothing else is done: {other:?}"),
        };
        out.drain().map(said).collect()
    }

    fn flush(&mut self) -> Injected {
        let mut out = Actions::new();
        self.senders.flush(self.now, &mut out);
        injected(&mut out)
    }
}

const UNCHANGED: Verdict = Verdict::Forward(Rewrite::NONE);
const CLOSED: Verdict = Verdict::Forward(Rewrite::window(0));

#[test]
fn a_freeze_closes_the_window_and_a_thaw_opens_it_to_what_was_offered_last() {
    let mut dialogue = Dialogue::new(true);
    assert_eq!(dialogue.ack(1, 1000, 50), UNCHANGED);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1000, 0)]);
    assert_eq!(dialogue.ack(1, 2000, 60), CLOSED);
    // A late one from before: it is closed as well, and does not count.
    assert_eq!(dialogue.ack(1, 1500, 99), CLOSED);
    assert_eq!(dialogue.senders.metrics().windows_closed_now, 1);
    assert_eq!(dialogue.command(1, THAW), [(2000, 60)]);
    assert_eq!(dialogue.ack(1, 2500, 60), UNCHANGED);
    assert_eq!(dialogue.senders.metrics().windows_closed_now, 0);
}

#[test]
fn a_window_that_another_mechanism_holds_down_is_neither_opened_by_a_thaw_nor_by_it_in_a_silence() {
    let mut dialogue = Dialogue::new(true);
    assert_eq!(dialogue.ack(1, 1000, 50), UNCHANGED);
    // A gate that opens in a silence opens nothing.
    assert_eq!(dialogue.hold_down(1, Some(0)), [(1000, 0)]);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1000, 0)]);
    assert_eq!(dialogue.hold_down(1, None), [(1000, 0)]);
    assert_eq!(dialogue.command(1, THAW), [(1000, 50)]);
    // One that closes in it stays closed.
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1000, 0)]);
    assert_eq!(dialogue.hold_down(1, Some(0)), [(1000, 0)]);
    assert_eq!(dialogue.command(1, THAW), [(1000, 0)]);
    // A window that is held down stays so, an old acknowledgment says nothing, and a new one does.
    assert_eq!(dialogue.hold_down(1, Some(20)), [(1000, 20)]);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1000, 0)]);
    assert_eq!(dialogue.ack(1, 2000, 60), CLOSED);
    assert_eq!(dialogue.ack(1, 1500, 10), CLOSED);
    assert_eq!(dialogue.command(1, THAW), [(2000, 20)]);
    assert_eq!(dialogue.ack(1, 2500, 60), Verdict::Forward(Rewrite::window(20)));
}

#[test]
fn an_acknowledgment_that_was_held_opens_no_window_when_it_is_let_go_in_a_silence() {
    let mut dialogue = Dialogue::new(true);
    assert_eq!(dialogue.ack(1, 1000, 50), UNCHANGED);
    let [before, between, never] = [2000, 2500, 2600].map(|ack| dialogue.held_ack(1, ack, 60));
    assert_eq!(dialogue.release(before, Rewrite::NONE), None, "on air");
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(2600, 0)]);
    assert_eq!(dialogue.release(between, Rewrite::NONE), Some(0));
    let within = dialogue.held_ack(1, 3000, 70);
    assert_eq!(dialogue.release(within, Rewrite::window(30)), Some(0));
    let after = dialogue.held_ack(1, 3500, 80);
    assert_eq!(dialogue.command(1, THAW), [(3500, 30)], "what it was told last");
    assert_eq!(dialogue.release(after, Rewrite::NONE), None);
    // What is thrown away is forgotten.
    dialogue.senders.inner.next.push(Action::Discard { packet: never, reason: DropReason::BufferFull });
    dialogue.senders.on_timeout(dialogue.now, &mut Actions::new());
    assert!(dialogue.senders.held.is_empty());
    // Where windows stay open, they do.
    let mut open = Dialogue::new(false);
    let _ = open.command(1, SenderCommand::Freeze);
    let held = open.held_ack(1, 2000, 60);
    assert_eq!(open.release(held, Rewrite::NONE), None);
}

#[test]
fn a_connection_that_opens_in_a_silence_counts_as_closed_when_it_is() {
    let mut dialogue = Dialogue::new(true);
    let counted = |dialogue: &Dialogue| {
        let Metrics { windows_closed, windows_closed_now, windows_reopened, .. } = dialogue.senders.metrics();
        (windows_closed, windows_closed_now, windows_reopened)
    };
    // Its SYN has left when the silence begins: there is no window to close yet.
    let opens = TcpSegment { flags: TcpFlags::SYN, ..TcpSegment::default() };
    assert_eq!(dialogue.packet(1, Direction::Uplink, opens), UNCHANGED);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), []);
    assert_eq!(counted(&dialogue), (0, 0, 0));
    dialogue.handshake(1, 0);
    let _ = dialogue.ack(1, 1, 500);
    assert_eq!(counted(&dialogue), (1, 1, 0));
    assert_eq!(dialogue.command(1, THAW), [(1, 500)]);
    assert_eq!(counted(&dialogue), (1, 0, 1), "the reopening has its closing");
}

#[test]
fn commands_that_are_doubled_or_out_of_order_say_nothing_new() {
    let mut dialogue = Dialogue::new(true);
    let _ = dialogue.ack(1, 1000, 50);
    assert_eq!(dialogue.command(1, THAW), []);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1000, 0)]);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), []);
    assert_eq!(dialogue.command(1, THAW), [(1000, 50)]);
    assert_eq!(dialogue.command(1, THAW), []);
    assert_eq!(dialogue.command(9, SenderCommand::Freeze), [], "a connection never seen");
}

#[test]
fn the_kernel_is_told_of_every_thaw_of_a_call_before_any_sender_is_woken() {
    let mut dialogue = Dialogue::new(true);
    let (_, _) = (dialogue.ack(1, 1000, 50), dialogue.ack(2, 1000, 60));
    let freezes = [(1, SenderCommand::Freeze), (2, SenderCommand::Freeze)];
    assert_eq!(dialogue.commands(&freezes), ["freeze 1", "ack 1 0", "freeze 2", "ack 2 0"]);
    assert_eq!(dialogue.commands(&[(1, THAW), (2, THAW)]), ["thaw 1", "thaw 2", "ack 1 50", "ack 2 60"]);
    // A silence that begins in the same call closes what was just opened.
    dialogue.commands(&freezes);
    assert_eq!(
        dialogue.commands(&[(1, THAW), (2, THAW), (1, SenderCommand::Freeze), (1, THAW)]),
        ["thaw 1", "thaw 2", "ack 1 50", "ack 2 60", "freeze 1", "ack 1 0", "thaw 1", "ack 1 50"]
    );
    assert_eq!(dialogue.commands(&[]), Vec::<String>::new());
}

#[test]
fn a_window_that_is_closed_ends_with_what_is_under_way() {
    let mut dialogue = Dialogue::new(true);
    let syn = |flags, shift| TcpSegment {
        flags,
        ack: Seq(1),
        window: 65535,
        syn: SynOptions { window_scale: shift, ..SynOptions::default() },
        ..TcpSegment::default()
    };
    let _ = dialogue.packet(1, Direction::Uplink, syn(TcpFlags::SYN, Some(3)));
    let answer = TcpSegment { seq: Seq(u32::MAX), ..syn(TcpFlags::SYN | TcpFlags::ACK, Some(7)) };
    let _ = dialogue.packet(1, Direction::Downlink, answer);
    let data = TcpSegment { seq: Seq(1), payload_len: 10_000, flags: TcpFlags::ACK, ..TcpSegment::default() };
    assert_eq!(dialogue.packet(1, Direction::Uplink, data), UNCHANGED);
    assert_eq!(dialogue.ack(1, 1, 500), UNCHANGED);
    // Zero first: the local stack takes no smaller one otherwise. 10,000 bytes are 78 of 128, and some.
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1, 0), (1, 78)]);
    assert_eq!(dialogue.ack(1, 4001, 500), Verdict::Forward(Rewrite::window(46)));
    // Never more than the receiver offers.
    assert_eq!(dialogue.ack(1, 4001, 40), UNCHANGED);
    assert_eq!(dialogue.ack(1, 10_001, 500), CLOSED);
    assert_eq!(dialogue.command(1, THAW), [(10_001, 500)]);
}

#[test]
fn with_open_windows_the_thaw_still_wakes() {
    let mut dialogue = Dialogue::new(false);
    let _ = dialogue.ack(1, 1000, 50);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), []);
    assert_eq!(dialogue.ack(1, 2000, 60), UNCHANGED);
    assert_eq!(dialogue.command(1, THAW), [(2000, 60)]);
}

#[test]
fn a_window_of_a_handshake_is_repeated_as_later_ones_are_scaled() {
    let mut dialogue = Dialogue::new(true);
    dialogue.handshake(1, 0);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1, 0)]);
    // The silence goes on: from the first acknowledgment on, the window is closed.
    assert_eq!(dialogue.ack(1, 1, 600), CLOSED);
    assert_eq!(dialogue.command(1, THAW), [(1, 600)]);
    // The first thing that the sender sends is lost in a silence: the SYN-ACK is what there is to wake it.
    dialogue.handshake(2, 0);
    let _ = dialogue.send(2, 1, 1000);
    dialogue.command(2, SenderCommand::Freeze);
    assert_eq!(dialogue.command(2, THAW), [(1, 64_000 >> 7)]);
}

#[test]
fn a_connection_anew_on_the_same_ports_is_told_its_own_numbers() {
    for farewell in [true, false] {
        let mut dialogue = Dialogue::new(true);
        dialogue.handshake(1, 2_000_000);
        let _ = dialogue.send(1, 2_000_001, 10_000);
        let _ = dialogue.ack(1, 2_010_001, 500);
        if farewell {
            dialogue.farewell(1, 2_010_001);
        }
        // Its numbers are below those of the one before.
        dialogue.handshake(1, 1_000_000);
        let _ = dialogue.send(1, 1_000_001, 12_800);
        let _ = dialogue.ack(1, 1_000_001, 400);
        assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1_000_001, 0), (1_000_001, 100)]);
        assert_eq!(dialogue.command(1, THAW), [(1_000_001, 400)], "after an end: {farewell}");
    }
}

#[test]
fn nobody_is_told_anything_where_all_has_arrived() {
    let mut dialogue = Dialogue::new(true);
    dialogue.handshake(1, 0);
    let _ = dialogue.ack(1, 1, 500);
    dialogue.command(1, SenderCommand::Freeze);
    // It ends in the silence.
    dialogue.farewell(1, 1);
    assert_eq!(dialogue.senders.metrics().windows_closed_now, 0);
    assert_eq!(dialogue.command(1, THAW), []);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), []);
    // A late copy of the far end's last words.
    assert_eq!(dialogue.ack(1, 2, 500), UNCHANGED);
    assert_eq!(dialogue.command(1, THAW), []);
}

#[test]
fn a_signed_connection_is_left_alone() {
    let mut dialogue = Dialogue::new(true);
    let signed = TcpSegment {
        ack: Seq(1000),
        window: 50,
        flags: TcpFlags::ACK,
        signed: true,
        ..TcpSegment::default()
    };
    assert_eq!(dialogue.packet(1, Direction::Downlink, signed), UNCHANGED);
    assert_eq!(dialogue.command(1, SenderCommand::Freeze), []);
    assert_eq!(dialogue.packet(1, Direction::Downlink, signed), UNCHANGED);
    assert_eq!(dialogue.command(1, THAW), []);
}

/// What a stranger sends with numbers that are not the connection's costs its sender neither freeze nor thaw.
#[test]
fn a_stranger_neither_opens_a_window_nor_keeps_it_from_opening() {
    let forged = |flags, seq, signed| TcpSegment {
        flags,
        seq: Seq(seq),
        ack: Seq(10_001),
        window: 60_000,
        signed,
        ..TcpSegment::default()
    };
    let mut dialogue = Dialogue::new(true);
    dialogue.handshake(1, 0);
    let _ = dialogue.send(1, 1, 10_000);
    let _ = dialogue.ack(1, 1, 500);
    let segments = [
        forged(TcpFlags::RST, 1, false),
        forged(TcpFlags::ACK, 0x7000_0000, false),
        forged(TcpFlags::ACK, 0x7000_0000, true),
        // The right numbers, but a signature that the host itself does not use.
        TcpSegment { ack: Seq(1), window: 500, ..forged(TcpFlags::ACK, 0, true) },
        forged(TcpFlags::SYN, 77, true),
        forged(TcpFlags::SYN | TcpFlags::ACK, 77, true),
        forged(TcpFlags::FIN | TcpFlags::ACK, 0x7000_0000, false),
    ];
    for _ in 0..2 {
        for segment in segments {
            let _ = dialogue.packet(1, Direction::Downlink, segment);
        }
        assert_eq!(dialogue.command(1, SenderCommand::Freeze), [(1, 0), (1, 78)]);
        for segment in segments {
            let _ = dialogue.packet(1, Direction::Downlink, segment);
        }
        assert_eq!(dialogue.ack(1, 1, 500), Verdict::Forward(Rewrite::window(78)));
        assert_eq!(dialogue.command(1, THAW), [(1, 500)]);
    }
}

#[test]
fn the_end_opens_every_window() {
    let mut dialogue = Dialogue::new(true);
    for port in [2, 1] {
        let _ = dialogue.ack(port, 1000, u16::from(port as u8));
        dialogue.command(port, SenderCommand::Freeze);
    }
    assert_eq!(dialogue.flush(), [(1000, 1), (1000, 2)]);
    assert_eq!(dialogue.flush(), []);
}

#[test]
fn a_reset_connection_is_forgotten_and_the_table_is_bounded() {
    let mut dialogue = Dialogue::new(true);
    let _ = dialogue.ack(1, 1000, 50);
    let reset = TcpSegment { flags: TcpFlags::RST, ..TcpSegment::default() };
    let _ = dialogue.packet(1, Direction::Downlink, reset);
    assert_eq!(dialogue.senders.flows.len(), 0);
    for port in 0..=MAX_FLOWS as u16 {
        let _ = dialogue.ack(port, 1000, 50);
    }
    assert_eq!(dialogue.senders.flows.len(), MAX_FLOWS);
    // What is idle makes room, what is frozen does not.
    dialogue.command(7, SenderCommand::Freeze);
    dialogue.now += IDLE + SWEEP_PAUSE;
    let _ = dialogue.ack(u16::MAX, 1000, 50);
    assert_eq!(dialogue.senders.flows.len(), 2);
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Freeze,
    Thaw,
    Ack {
        forward: i32,
        window: u16,
    },
    Send {
        bytes: u32,
    },
    /// Another mechanism lets no larger window pass.
    HoldDown {
        most: Option<u16>,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Freeze),
        Just(Step::Thaw),
        (-3000..3000i32, 0..2000u16).prop_map(|(forward, window)| Step::Ack { forward, window }),
        (0..5000u32).prop_map(|bytes| Step::Send { bytes }),
        proptest::option::of(0..2000u16).prop_map(|most| Step::HoldDown { most }),
    ]
}

proptest! {
    /// After any sequence of freezes and thaws the last word to the sender is the receiver's own: the newest
    /// acknowledgment, with the window that came with it, or what another mechanism lets pass of it. On the
    /// way, no acknowledgment is one that the receiver did not send, no window larger than what it offered,
    /// and in a silence nothing new fits, whatever the other mechanism says.
    #[test]
    fn whatever_happens_the_window_is_open_in_the_end(
        start in any::<u32>(),
        shifts in proptest::option::of(0..15u8),
        steps in proptest::collection::vec(step(), 0..60),
    ) {
        let mut dialogue = Dialogue::new(true);
        if let Some(shift) = shifts {
            let syn = SynOptions { window_scale: Some(shift), ..SynOptions::default() };
            let opens = TcpSegment { flags: TcpFlags::SYN, syn, seq: Seq(start), ..TcpSegment::default() };
            let flags = TcpFlags::SYN | TcpFlags::ACK;
            let answer = TcpSegment { flags, seq: Seq(u32::MAX), ack: Seq(start) + 1, ..opens };
            let _ = dialogue.packet(1, Direction::Uplink, opens);
            let _ = dialogue.packet(1, Direction::Downlink, answer);
        }
        // A SYN takes a sequence number.
        let mut sent = Seq(start) + u32::from(shifts.is_some());
        let (mut newest, mut offered) = (sent, 1u16);
        // What the host is known to have sent.
        let mut known = shifts.map(|_| sent);
        let _ = dialogue.ack(1, newest.0, offered);
        let (mut frozen, mut most) = (false, u16::MAX);
        for step in steps {
            let said = match step {
                Step::Freeze => {
                    frozen = true;
                    dialogue.command(1, SenderCommand::Freeze)
                }
                Step::Thaw => {
                    let said = dialogue.command(1, THAW);
                    prop_assert_eq!(!said.is_empty(), frozen);
                    prop_assert!(said.iter().all(|said| *said == (newest.0, offered.min(most))));
                    frozen = false;
                    continue;
                }
                Step::HoldDown { most: wanted } => {
                    most = wanted.unwrap_or(u16::MAX);
                    let said = dialogue.hold_down(1, wanted);
                    prop_assert_eq!(said.len(), 1);
                    if !frozen {
                        prop_assert!(said.iter().all(|said| *said == (newest.0, offered.min(most))));
                        continue;
                    }
                    said
                }
                Step::Send { bytes } => {
                    let flags = TcpFlags::ACK;
                    let data = TcpSegment { seq: sent, payload_len: bytes, flags, ..TcpSegment::default() };
                    prop_assert_eq!(dialogue.packet(1, Direction::Uplink, data), UNCHANGED);
                    sent += bytes;
                    known = Some(sent);
                    continue;
                }
                Step::Ack { forward, window } => {
                    let ack = Seq(newest.0.wrapping_add_signed(forward));
                    // Before the host's first word nobody checks this, but its receiver says nothing else.
                    let ack = if known.is_none() && ack.after(sent) { sent } else { ack };
                    // An acknowledgment of what was never sent is none.
                    if forward >= 0 && known.is_none_or(|known| !ack.after(known)) {
                        (newest, offered) = (ack, window);
                    }
                    match dialogue.ack(1, ack.0, window) {
                        UNCHANGED => {}
                        Verdict::Forward(Rewrite { window: Some(told), .. }) => {
                            prop_assert!(told < window, "{told} of {window}");
                            prop_assert!(told == most || (frozen && told < most), "{told} of {most}");
                        }
                        other => prop_assert!(false, "{other:?}"),
                    }
                    continue;
                }
            };
            for (ack, window) in said {
                prop_assert_eq!(Seq(ack), newest);
                prop_assert!(window <= offered);
                // Nothing new fits.
                let end = u64::from(window) << shifts.unwrap_or(0);
                prop_assert!(end <= u64::from(sent.minus(newest).max(0).unsigned_abs()));
            }
        }
        let said = dialogue.flush();
        prop_assert_eq!(!said.is_empty(), frozen);
        prop_assert!(said.iter().all(|said| *said == (newest.0, offered.min(most))));
        prop_assert_eq!(dialogue.senders.metrics().windows_closed_now, 0);
    }
}
