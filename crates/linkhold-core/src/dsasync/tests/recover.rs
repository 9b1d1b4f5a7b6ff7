//! What a silence took goes again: a row a rule of `recover.rs`.

use super::*;
use crate::packet::{SackBlock, SackBlocks, TcpTimestamp};

const F: u16 = 1;
const KEPT: Verdict = Verdict::ForwardAndKeep(Rewrite::NONE);

fn recovering() -> DsaSyncConfig {
    DsaSyncConfig { recover: true, ..plain(Mode::Hold) }
}

/// Numbers of the copies that were sent, in order.
fn copies(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::SendCopy { packet } => Some(packet.0),
            _ => None,
        })
        .collect()
}

/// What was let go of the hold buffer, or of what was kept from the sender, in order.
fn let_go(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Release { packet, .. } | Action::ReleaseAndKeep { packet, .. } => Some(packet.0),
            _ => None,
        })
        .collect()
}

fn discarded(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Discard { packet, reason: DropReason::RepairedHere } => Some(packet.0),
            _ => None,
        })
        .collect()
}

impl Bench {
    /// A download whose local round trip is 4 ms, whose wired one is 40 ms, and whose segments up to 10,000
    /// are acknowledged at 160 ms. Segments begin at multiples of [`MSS`]; the segment at `n * MSS` is packet
    /// `n`.
    fn downloading(config: &DsaSyncConfig) -> Self {
        let mut b = Self::new(config);
        told(&mut b);
        b.open(F, 50_000);
        // What answers the SYN-ACK of time zero.
        let answers = TcpSegment {
            seq: Seq(1000),
            ack: Seq(1),
            payload_len: MSS,
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        };
        let first = b.at(40).packet(Direction::Downlink, Origin::Arrival, 1, F, &answers);
        assert_eq!(first.0, KEPT);
        let _ = b.at(44).sack(901, 2, &[]);
        for n in 2..10 {
            assert_eq!(b.at(60 + 10 * u64::from(n)).segment(n).0, KEPT);
            let _ = b.at(64 + 10 * u64::from(n)).sack(901, n + 1, &[]);
        }
        b.at(160)
            .agent
            .wired_round_trip(&key(F, false))
            .filter(|wired| *wired == Duration::from_millis(40))
            .expect("the wired round trip is measured");
        b
    }

    /// What the sender has sent again, as the flow's state remembers it.
    fn repeated(&self) -> Option<(Seq, Seq)> {
        self.agent.recover.repeated(0)
    }

    fn segment(&mut self, n: u32) -> (Verdict, Vec<Action>) {
        self.down(u64::from(n), F, n * MSS, MSS)
    }

    /// An ACK of everything before the segment `n`, with blocks of whole segments.
    fn sack(&mut self, id: u64, n: u32, blocks: &[(u32, u32)]) -> (Verdict, Vec<Action>) {
        let mut sack = SackBlocks::EMPTY;
        for &(left, right) in blocks {
            sack.push(SackBlock { left: Seq(left * MSS), right: Seq(right * MSS) });
        }
        let tcp = TcpSegment {
            seq: Seq(1),
            ack: Seq(n * MSS),
            window: 50_000,
            flags: TcpFlags::ACK,
            sack,
            ..TcpSegment::default()
        };
        self.packet(Direction::Uplink, Origin::Arrival, id, F, &tcp)
    }

    /// Runs timers until `millis`; answers everything that was done.
    fn until(&mut self, millis: u64) -> Vec<Action> {
        let mut all = Vec::new();
        while let Some(at) = self.agent.next_timeout().filter(|at| *at <= ms(millis)) {
            self.now = at.max(self.now);
            all.extend(self.timeout());
        }
        self.now = ms(millis);
        all
    }

    /// The radio returns at 500 ms; what is done in the first 2 ms, in which two segments go.
    fn returns(&mut self) -> Vec<Action> {
        let mut actions = self.at(500).thaw(Scope::Network);
        actions.extend(self.until(502));
        actions
    }

    /// Segments 10 to 15 go down at 200 ms, a silence is noticed `late` ms after, and 16 and 17 come in it.
    fn caught(&mut self, late: u64) {
        self.at(200);
        for n in 10..16 {
            assert_eq!(self.segment(n).0, KEPT);
        }
        assert!(copies(&self.until(200 + late)).is_empty());
        self.freeze(Scope::Network);
        for n in 16..18 {
            assert_eq!(self.segment(n).0, Verdict::Hold);
        }
    }
}

/// The range would else grow with each repetition, to half the sequence space at most, and then be wrong of
/// everything.
#[test]
fn what_the_sender_sent_again_is_forgotten_once_it_is_acknowledged() {
    let mut b = Bench::downloading(&recovering());
    for n in [10, 11] {
        assert_eq!(b.at(170).segment(n).0, KEPT);
    }
    let _ = b.at(400).segment(10);
    assert_eq!(b.repeated(), Some((Seq(10 * MSS), Seq(11 * MSS))));
    let _ = b.at(404).sack(901, 10, &[]);
    assert!(b.repeated().is_some(), "the segment is not acknowledged yet");
    let _ = b.at(405).sack(901, 12, &[]);
    assert_eq!(b.repeated(), None);
}

#[test]
fn a_silence_told_at_once_sends_nothing_twice() {
    let mut b = Bench::downloading(&recovering());
    b.caught(2);
    // The router's queue is thought to hold four of them.
    let mut actions = b.returns();
    actions.extend(b.until(506));
    assert_eq!((copies(&actions), let_go(&actions)), (vec![], vec![16, 17]));
    // The router's queue had them all.
    for n in 11..19 {
        let (verdict, actions) = b.at(496 + u64::from(n)).sack(1000, n, &[]);
        assert_eq!((verdict, copies(&actions)), (FORWARD, vec![]));
    }
    assert_eq!(copies(&b.until(2000)), []);
    assert_eq!((b.agent.metrics().kept_bytes, b.agent.next_timeout()), (0, None));
}

#[test]
fn a_silence_noticed_late_sends_two_suspects_first_then_the_rest_then_what_was_held() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    let actions = b.returns();
    assert_eq!((copies(&actions), let_go(&actions)), (vec![10, 11], vec![]));
    // What comes meanwhile waits behind what is held.
    assert_eq!(b.at(503).segment(18).0, Verdict::Hold);
    // Both are answered, and nothing that was sent before comes through for a while: the rest is lost.
    let actions = b.at(505).sack(1000, 12, &[]).1;
    assert_eq!((copies(&actions), let_go(&actions)), (vec![], vec![]));
    let actions = b.until(518);
    assert_eq!(copies(&actions), [12, 13, 14, 15]);
    assert_eq!(let_go(&actions), [16, 17, 18]);
    let is_copy = |action: &Action| matches!(action, Action::SendCopy { .. });
    let last_copy = actions.iter().rposition(is_copy);
    let first_held = actions.iter().position(|action| matches!(action, Action::ReleaseAndKeep { .. }));
    assert!(last_copy < first_held);
}

/// The correspondent opens the connection, and a silence takes the whole of its first window: were none of it
/// kept, its timeout would come to nothing but a window of two.
///
/// No round trip has been measured yet: copies go at once only where whoever tells of the silence says that
/// it has lasted for some time. Otherwise the ACKs may only have been slow, and their tail is waited for.
#[test]
fn an_initial_window_that_a_silence_took_goes_again() {
    for (since, at_once) in [(None, false), (Some(68), false), (Some(50), true)] {
        let mut b = caught_at_first();
        let kind =
            LinkEventKind::FreezeStarted { scope: Scope::Network, cause: Cause::PrimaryUser, expected: None };
        let event = LinkEvent { detected_at: ms(70), effective_at: since.map(ms), kind };
        b.now = ms(70);
        b.agent.on_link(ms(70), event, &mut b.out);
        assert!(copies(&b.out.drain().collect::<Vec<_>>()).is_empty());
        let mut sent = copies(&b.at(300).thaw(Scope::Network));
        sent.extend(copies(&b.until(302)));
        assert_eq!(sent == [10, 11], at_once, "{since:?}: {sent:?}");
        assert_eq!(sent.is_empty(), !at_once, "{since:?}: {sent:?}");
        sent.extend(copies(&b.until(1500)));
        assert!(sent.starts_with(&[10, 11]), "{since:?}: {sent:?}");
    }
}

/// A connection whose first window, segments 10 to 19, went down at 50 ms.
fn caught_at_first() -> Bench {
    let mut b = Bench::new(&recovering());
    told(&mut b);
    let syn = SynOptions { mss: Some(1460), window_scale: Some(SHIFT), sack_permitted: true };
    let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..TcpSegment::default() };
    let flags = TcpFlags::SYN | TcpFlags::ACK;
    let answer = TcpSegment { flags, ack: Seq(1), window: 50_000, syn, ..TcpSegment::default() };
    let _ = b.packet(Direction::Downlink, Origin::Arrival, 1, F, &ask);
    let _ = b.at(5).packet(Direction::Uplink, Origin::Arrival, 2, F, &answer);
    for id in 0..10 {
        let seq = Seq(1 + id * MSS);
        let data =
            TcpSegment { seq, ack: Seq(1), payload_len: MSS, flags: TcpFlags::ACK, ..TcpSegment::default() };
        assert_eq!(
            b.at(50).packet(Direction::Downlink, Origin::Arrival, 10 + u64::from(id), F, &data).0,
            KEPT
        );
    }
    b
}

/// RFC 7323 section 5.3: the station takes no segment with an older timestamp than the last one in order. A
/// copy has the timestamp of the first transmission.
#[test]
fn a_copy_that_the_station_would_throw_away_for_its_timestamp_is_let_go_of() {
    for (echo, expected) in [(201, vec![12, 13, 14, 15]), (202, vec![])] {
        let mut b = Bench::downloading(&recovering());
        let stamped = |seq: u32, ack: u32, payload_len: u32, value: u32, echo: u32| TcpSegment {
            seq: Seq(seq),
            ack: Seq(ack),
            payload_len,
            window: 50_000,
            flags: TcpFlags::ACK,
            timestamp: Some(TcpTimestamp { value, echo }),
            ..TcpSegment::default()
        };
        b.at(200);
        for n in 10..16u32 {
            let tcp = stamped(n * MSS, 1, MSS, 200, 1);
            assert_eq!(b.packet(Direction::Downlink, Origin::Arrival, n.into(), F, &tcp).0, KEPT);
        }
        let _ = b.until(220);
        b.freeze(Scope::Network);
        assert_eq!(copies(&b.returns()), [10, 11]);
        // What the sender sent again has reached the station, by whatever way.
        let mut actions = b
            .at(505)
            .packet(Direction::Uplink, Origin::Arrival, 1000, F, &stamped(1, 12 * MSS, 0, 300, echo))
            .1;
        actions.extend(b.until(530));
        assert_eq!(copies(&actions), expected, "{echo}");
        assert_eq!(b.agent.metrics().kept_bytes == 0, expected.is_empty());
        assert_eq!(b.segment(16).0, KEPT, "nothing is waited for");
    }
}

/// Numbers of the copies that were let go of, in order.
fn forgotten(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Forget { packet } => Some(packet.0),
            _ => None,
        })
        .collect()
}

#[test]
fn no_copy_goes_before_a_syn_or_rst_that_came_back() {
    for flags in [TcpFlags::SYN, TcpFlags::RST] {
        // Its number is a stranger's, ahead of the connection's or behind.
        for seq in [12 * MSS, 1 << 30, 3 << 30] {
            let mut b = Bench::downloading(&recovering());
            let from_nowhere = TcpSegment { seq: Seq(seq), flags, ..TcpSegment::default() };
            let _ = b.at(200).packet(Direction::Downlink, Origin::Arrival, 50, F, &from_nowhere);
            // After an RST the connection is known anew only from what the station says of it.
            let _ = b.sack(902, 10, &[]);
            assert_eq!(b.at(201).segment(10).0, KEPT);
            assert!(copies(&b.until(220)).is_empty());
            b.freeze(Scope::Network);
            let back = b.packet(Direction::Downlink, Origin::TransmitQueue, 50, F, &from_nowhere);
            assert_eq!((back.0, forgotten(&back.1)), (Verdict::Hold, vec![10]), "{flags:?} {seq}");
            let actions = b.returns();
            assert_eq!((copies(&actions), let_go(&actions)), (vec![], vec![50]), "{flags:?} {seq}");
        }
    }
}

/// What a connection had in the transmit queue when it was reset comes back to the record of what follows on
/// the same ports.
#[test]
fn no_copy_goes_before_what_an_earlier_connection_left_in_the_queue() {
    let mut b = Bench::downloading(&recovering());
    let _ = b.at(200).segment(15);
    let reset = TcpSegment {
        seq: Seq(1),
        ack: Seq(10 * MSS),
        flags: TcpFlags::RST | TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let _ = b.packet(Direction::Uplink, Origin::Arrival, 902, F, &reset);
    // The station is heard on the same ports, and sent something.
    let _ = b.at(201).sack(903, 10, &[]);
    assert_eq!(b.segment(10).0, KEPT);
    assert!(copies(&b.until(220)).is_empty());
    b.freeze(Scope::Network);
    let (verdict, actions) = b.back(15, F, 15 * MSS);
    assert_eq!((verdict, forgotten(&actions)), (Verdict::Hold, vec![10]));
    let actions = b.returns();
    assert_eq!((copies(&actions), let_go(&actions)), (vec![], vec![15]));
}

#[test]
fn no_copy_goes_before_what_came_back_though_its_number_is_lower() {
    let mut b = Bench::downloading(&recovering());
    b.at(200);
    // 10 was lost on its way here and comes last, and only it was lost below.
    for n in [11, 12, 10] {
        assert_eq!(b.segment(n).0, KEPT);
    }
    assert!(copies(&b.until(220)).is_empty());
    b.freeze(Scope::Network);
    assert_eq!(forgotten(&b.back(12, F, 12 * MSS).1), [10, 12]);
    assert_eq!(forgotten(&b.back(11, F, 11 * MSS).1), [11]);
    let actions = b.returns();
    assert_eq!((copies(&actions), let_go(&actions)), (vec![], vec![11, 12]));
}

#[test]
fn a_copy_of_what_went_out_of_order_goes_before_what_followed_it_and_came_back() {
    let mut b = Bench::downloading(&recovering());
    b.at(200);
    for n in [11, 10, 12] {
        assert_eq!(b.segment(n).0, KEPT);
    }
    assert!(copies(&b.until(220)).is_empty());
    b.freeze(Scope::Network);
    assert_eq!(forgotten(&b.back(12, F, 12 * MSS).1), [12]);
    let actions = b.returns();
    // Both suspects are on their way before it, so nothing keeps it back.
    assert_eq!((copies(&actions), let_go(&actions)), (vec![10, 11], vec![12]));
    let is_copy = |action: &Action| matches!(action, Action::SendCopy { .. });
    assert!(actions[..2].iter().all(is_copy), "{actions:?}");
}

#[test]
fn a_probe_that_seemed_far_down_a_slow_queue_is_not_waited_for_longer_than_the_rate_told_later_makes_it() {
    let tell = |b: &mut Bench, capacity| {
        b.link(LinkEventKind::ChannelSwitched {
            capacity: BitRate(capacity),
            efficiency: Fraction::clamped(0.5),
        })
    };
    for told in [false, true] {
        let mut b = Bench::downloading(&recovering());
        // 1 s a segment: the first six wait for 6 s, with the copies behind them.
        let _ = tell(b.at(199), 16_640);
        b.caught(20);
        let mut actions = b.at(500).thaw(Scope::Network);
        if told {
            actions.extend(tell(b.at(510), 16_640_000));
        }
        actions.extend(b.until(800));
        // Nobody answers, so the rest of the suspects goes unseen, and then what was held.
        assert_eq!(let_go(&actions), if told { vec![16, 17] } else { vec![] });
        assert_eq!(copies(&actions).is_empty(), !told);
    }
}

#[test]
fn originals_that_come_through_one_by_one_are_not_sent_again() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    assert_eq!(copies(&b.returns()), [10, 11]);
    // The router's queue had them all: the next ACK says so before the doubt is over.
    assert_eq!(copies(&b.at(505).sack(1000, 12, &[]).1), []);
    assert_eq!(copies(&b.at(507).sack(1001, 14, &[]).1), []);
    let actions = b.at(509).sack(1002, 16, &[]).1;
    assert_eq!((copies(&actions), let_go(&actions)), (vec![], vec![16, 17]));
}

#[test]
fn what_acks_prove_delivered_is_no_suspect_any_more() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    assert_eq!(copies(&b.returns()), [10, 11]);
    // 13 was sent after 10 to 12 and has come: 12 is lost for certain, 14 and 15 may come yet.
    let _ = b.at(503).sack(1000, 10, &[(13, 14)]);
    assert_eq!(copies(&b.until(504)), [12]);
    // Then the gate opens, for nothing is left of which nothing is known.
    let mut actions = b.at(505).sack(1001, 10, &[(13, 16)]).1;
    actions.extend(b.until(508));
    assert_eq!((copies(&actions), let_go(&actions)), (vec![], vec![16, 17]));
}

#[test]
fn without_an_answer_the_rest_goes_down_unseen() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    assert_eq!(copies(&b.returns()), [10, 11]);
    let actions = b.until(514);
    assert_eq!(copies(&actions), [10, 11, 12, 13, 14, 15]);
    assert_eq!(let_go(&actions), [16, 17]);
}

#[test]
fn data_of_the_station_is_no_answer() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    assert_eq!(copies(&b.returns()), [10, 11]);
    // It uploads on the same connection, and the copies are lost.
    let mut actions = Vec::new();
    for turn in 0..30 {
        actions.extend(b.until(503 + 2 * u64::from(turn)));
        let tcp = TcpSegment {
            seq: Seq(1 + turn * MSS),
            ack: Seq(10 * MSS),
            payload_len: MSS,
            window: 50_000,
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        };
        let (verdict, more) = b.packet(Direction::Uplink, Origin::Arrival, 2000 + u64::from(turn), F, &tcp);
        assert!(matches!(verdict, Verdict::Forward(_)), "{verdict:?}");
        actions.extend(more);
    }
    assert!(copies(&actions).starts_with(&[10, 11, 12, 13, 14, 15]), "{:?}", copies(&actions));
    assert_eq!(let_go(&actions), [16, 17]);
}

#[test]
fn no_segment_goes_again_more_than_three_times() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    let mut all = copies(&b.returns());
    all.extend(copies(&b.until(60_000)));
    for n in 10..16 {
        assert!(all.iter().filter(|id| **id == n).count() <= 3, "{all:?}");
    }
    assert_eq!(b.agent.next_timeout(), None);
}

#[test]
fn blocks_above_a_hole_are_kept_back_until_it_is_filled() {
    let mut b = Bench::downloading(&recovering());
    for n in 10..14 {
        let _ = b.at(200).segment(n);
    }
    assert_eq!(b.at(204).sack(1000, 10, &[(11, 12)]).0, Verdict::Hold);
    // A quarter of the local round trip later.
    assert_eq!(copies(&b.until(205)), [10]);
    assert_eq!(b.sack(1001, 10, &[(11, 13)]).0, Verdict::Hold);
    let (verdict, actions) = b.at(209).sack(1002, 14, &[]);
    assert_eq!((verdict, discarded(&actions)), (FORWARD, vec![1000, 1001]));
    assert_eq!(b.agent.metrics().held_packets, 0);
}

#[test]
fn blocks_are_shown_after_half_the_senders_round_trip_and_no_more_hidden() {
    let mut b = Bench::downloading(&recovering());
    for n in 10..14 {
        let _ = b.at(200).segment(n);
    }
    assert_eq!(b.at(204).sack(1000, 10, &[(11, 12)]).0, Verdict::Hold);
    // (40 + 2) / 2 = 21 ms: the least local round trip was the handshake's.
    assert_eq!(let_go(&b.until(223)), []);
    assert_eq!(let_go(&b.until(227)), [1000]);
    assert_eq!(b.sack(1001, 10, &[(11, 13)]).0, FORWARD);
    // Another hole, another time. The sender has something under way all the while.
    let _ = b.at(229).segment(14);
    assert_eq!(b.at(230).sack(1002, 14, &[]).0, FORWARD);
    for n in 15..18 {
        let _ = b.at(240).segment(n);
    }
    assert_eq!(b.at(244).sack(1003, 14, &[(15, 16)]).0, Verdict::Hold);
}

/// Copies that stand in the router's queue while a second silence goes on are no older when it ends, whether
/// or not their originals were acknowledged before it.
#[test]
fn a_d_sack_of_a_copy_is_kept_back_after_however_long_a_silence() {
    for (silence, before) in [(1_000, false), (60_000, false), (60_000, true)] {
        let mut b = Bench::downloading(&recovering());
        b.at(200);
        for n in [10, 11] {
            assert_eq!(b.segment(n).0, KEPT);
        }
        let _ = b.until(220);
        b.freeze(Scope::Network);
        assert_eq!(copies(&b.returns()), [10, 11]);
        if before {
            let _ = b.at(503).sack(1000, 12, &[]);
        }
        b.at(504).freeze(Scope::Network);
        let end = 504 + silence;
        let _ = b.at(end).thaw(Scope::Network);
        let _ = b.until(end + 1);
        // The originals arrived, and then the copies.
        let _ = b.at(end + 2).sack(1001, 12, &[]);
        let verdict = b.at(end + 3).sack(1002, 12, &[(10, 11)]).0;
        assert_eq!(verdict, Verdict::Drop(DropReason::RepairedHere), "{silence} ms, {before}");
    }
}

/// Who resets a connection answers each of its segments with another reset.
#[test]
fn a_station_that_resets_gets_no_more_copies_and_keeps_no_gate_shut() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    assert_eq!(copies(&b.returns()), [10, 11]);
    assert!(b.agent.recover.gates.is_shut(StationId(0)));
    let reset = TcpSegment {
        seq: Seq(1),
        ack: Seq(10 * MSS),
        flags: TcpFlags::RST | TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let (verdict, mut actions) = b.at(503).packet(Direction::Uplink, Origin::Arrival, 1000, F, &reset);
    actions.extend(b.until(3_000));
    assert_eq!((verdict, copies(&actions)), (FORWARD, Vec::new()));
    assert!(!b.agent.recover.gates.is_shut(StationId(0)));
    assert_eq!(b.agent.metrics().kept_bytes, 0);
}

/// The window that an ACK kept back carries may be the one that reopens the flow's.
#[test]
fn what_the_station_sends_again_takes_no_place_of_an_ack_kept_back() {
    let mut b = Bench::downloading(&recovering());
    let up = |seq: u32, payload_len: u32| TcpSegment {
        seq: Seq(seq),
        ack: Seq(10 * MSS),
        payload_len,
        window: 50_000,
        flags: TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let data = up(1, 100);
    let _ = b.at(190).packet(Direction::Uplink, Origin::Arrival, 900, F, &data);
    b.caught(20);
    assert_eq!(copies(&b.returns()), [10, 11]);
    // It repeats what the data acknowledged, behind which it was sent.
    assert_eq!(b.at(503).packet(Direction::Uplink, Origin::Arrival, 1000, F, &up(101, 0)).0, Verdict::Hold);
    let (verdict, actions) = b.at(504).packet(Direction::Uplink, Origin::Arrival, 1001, F, &data);
    assert_eq!((verdict, released(&actions)), (Verdict::Hold, vec![1000, 1001]));
    // A later one says it all.
    assert_eq!(b.at(505).packet(Direction::Uplink, Origin::Arrival, 1002, F, &up(101, 0)).0, Verdict::Hold);
    let (verdict, actions) = b.at(506).packet(Direction::Uplink, Origin::Arrival, 1003, F, &up(101, 100));
    assert_eq!((verdict, discarded(&actions)), (FORWARD, vec![1002]));
}

#[test]
fn a_segment_that_is_not_believed_takes_no_place_of_an_ack_kept_back() {
    let mut b = Bench::downloading(&recovering());
    for n in 10..14 {
        let _ = b.at(200).segment(n);
    }
    assert_eq!(b.at(204).sack(1000, 10, &[(11, 12)]).0, Verdict::Hold);
    // It contradicts the handshake.
    let forged = TcpSegment {
        seq: Seq(77),
        ack: Seq(13 * MSS),
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let (verdict, actions) = b.packet(Direction::Uplink, Origin::Arrival, 1001, F, &forged);
    assert_eq!((verdict, released(&actions)), (Verdict::Hold, vec![1000, 1001]));
}

#[test]
fn a_d_sack_of_our_copy_is_kept_from_the_sender_and_its_own_is_not() {
    for by_sender in [false, true] {
        let mut b = Bench::downloading(&recovering());
        b.caught(20);
        if by_sender {
            // A tail probe, which waits as everything does.
            assert_eq!(b.down(15_000, F, 10 * MSS, MSS).0, Verdict::Hold);
        }
        assert_eq!(copies(&b.returns()), [10, 11]);
        let _ = b.at(505).sack(1000, 16, &[]);
        let verdict = b.at(506).sack(1001, 16, &[(10, 11)]).0;
        let expected = if by_sender { FORWARD } else { Verdict::Drop(DropReason::RepairedHere) };
        assert_eq!(verdict, expected, "by the sender, too: {by_sender}");
        // One that acknowledges more besides is replaced by an ACK without the block.
        let (verdict, actions) = b.at(507).sack(1002, 17, &[(11, 12)]);
        if by_sender {
            // What is known is how far the sender has gone back, and this is beyond.
            assert_eq!(discarded(&actions), []);
        }
        assert_eq!(verdict, Verdict::Drop(DropReason::RepairedHere));
        assert_eq!(injected(&actions).iter().map(|ack| ack.ack).collect::<Vec<_>>(), [Seq(17 * MSS)]);
        // The station's driver has merged both copies, and one block is of both.
        assert_eq!(b.at(508).sack(1003, 17, &[(10, 12)]).0, expected, "by the sender, too: {by_sender}");
        assert_eq!(b.at(509).sack(1004, 17, &[(10, 13)]).0, FORWARD, "no copy of 12 went");
    }
}

#[test]
fn the_senders_own_copy_passes_after_ours_and_takes_no_place() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    assert_eq!(b.down(15_000, F, 10 * MSS, MSS).0, Verdict::Hold);
    let before = b.agent.metrics().kept_bytes;
    assert_eq!(copies(&b.returns()), [10, 11]);
    let mut actions = b.at(505).sack(1000, 16, &[]).1;
    actions.extend(b.until(520));
    assert_eq!(let_go(&actions), [16, 17, 15_000]);
    assert!(b.agent.metrics().kept_bytes < before);
}

#[test]
fn a_station_that_owes_acks_for_too_long_gets_nothing_more_until_it_is_heard() {
    let mut b = Bench::downloading(&recovering());
    b.at(200);
    for n in 10..14 {
        assert_eq!(b.segment(n).0, KEPT);
    }
    // Word takes 5 ms: the next one finds the station mute, and the one after that waits.
    assert_eq!(b.at(207).segment(14).0, KEPT);
    assert_eq!(b.segment(15).0, Verdict::Hold);
    assert_eq!(let_go(&b.at(210).sack(1000, 12, &[]).1), [15]);
    // It is not waited for longer than silences go unnoticed.
    assert_eq!(b.at(230).segment(16).0, KEPT);
    assert_eq!(b.segment(17).0, Verdict::Hold);
    assert_eq!(let_go(&b.until(279)), []);
    assert_eq!(let_go(&b.until(281)), [17]);
    assert_eq!(b.segment(18).0, KEPT);
}

#[test]
fn where_the_rate_is_not_told_losses_outside_of_silences_are_the_senders() {
    let mut b = Bench::downloading(&recovering());
    b.link(LinkEventKind::ChannelSwitched { capacity: BitRate(0), efficiency: Fraction::ONE });
    for n in 10..14 {
        let _ = b.at(200).segment(n);
    }
    assert_eq!(b.at(204).sack(1000, 10, &[(11, 14)]).0, FORWARD);
    assert_eq!(copies(&b.until(300)), []);
}

#[test]
fn copies_are_bounded_by_what_the_radio_carries_in_the_longest_lateness() {
    // 1 ms a segment: those of 10 ms, of the local round trip and of 10 ms besides.
    let config = DsaSyncConfig { longest_lateness: Duration::from_millis(10), ..recovering() };
    let mut b = Bench::downloading(&config);
    b.at(200);
    for n in 10..100 {
        let _ = b.segment(n);
    }
    let kept = b.agent.metrics().kept_bytes / 1040;
    assert!((20..=25).contains(&kept), "{kept} segments");
    b.agent.flush(b.now, &mut b.out);
    assert_eq!(b.agent.metrics().kept_bytes, 0);
}

#[test]
fn without_the_setting_nothing_is_kept() {
    let mut b = Bench::new(&plain(Mode::Hold));
    told(&mut b);
    b.open(F, 50_000);
    assert_eq!(b.segment(1).0, FORWARD);
    assert_eq!(b.agent.metrics().kept_bytes_peak, 0);
}

#[test]
fn a_silence_before_the_probes_are_answered_leaves_the_first_ones_losses_to_copies() {
    let mut b = Bench::downloading(&recovering());
    b.caught(20);
    assert_eq!(copies(&b.returns()), [10, 11]);
    b.freeze(Scope::Network);
    let mut actions = b.at(600).thaw(Scope::Network);
    actions.extend(b.until(604));
    assert_eq!((copies(&actions), let_go(&actions)), (vec![10, 11], vec![]));
}

#[test]
fn a_silence_of_all_over_one_of_the_station_took_nothing_more() {
    let mut b = Bench::downloading(&recovering());
    b.at(200);
    for n in 10..16 {
        assert_eq!(b.segment(n).0, KEPT);
    }
    let _ = b.until(202);
    // Noticed at once; then nobody says anything for long.
    let station = Scope::Station(StationId(0));
    b.freeze(station);
    let _ = b.until(302);
    b.freeze(Scope::Network);
    let mut actions = b.at(400).thaw(Scope::Network);
    actions.extend(b.at(500).thaw(station));
    actions.extend(b.until(506));
    assert_eq!(copies(&actions), []);
}
