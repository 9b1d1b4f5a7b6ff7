//! Dialogues with both halves, and what must hold whatever happens.

mod one_hop;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::action::SenderCommand;
use crate::link_event::{Cause, Scope};
use crate::packet::{Ecn, Endpoint, FlowKey, Origin, PacketId, SackBlock, SackBlocks, SynOptions};

const MS: fn(u64) -> Instant = Instant::from_millis;
const SEGMENT: u32 = 100;

fn key(n: u16) -> FlowKey {
    let end = |addr: [u8; 4], port| Endpoint { addr: addr.into(), port };
    FlowKey { correspondent: end([192, 0, 2, 1], 5001), station: end([10, 0, 0, 2], n) }
}

fn data(segment: u32) -> TcpSegment {
    let seq = Seq(segment.wrapping_mul(SEGMENT));
    TcpSegment { seq, payload_len: SEGMENT, flags: TcpFlags::ACK, window: 500, ..TcpSegment::default() }
}

/// A SYN after which the data begins with `segment`.
fn syn(segment: u32) -> TcpSegment {
    let seq = Seq(segment.wrapping_mul(SEGMENT).wrapping_sub(1));
    TcpSegment { seq, flags: TcpFlags::SYN, ..TcpSegment::default() }
}

/// An ACK of everything before `segment`, with SACK blocks of whole segments.
fn ack(segment: u32, sacked: &[(u32, u32)]) -> TcpSegment {
    let mut sack = SackBlocks::EMPTY;
    for &(left, right) in sacked {
        sack.push(SackBlock { left: Seq(left * SEGMENT), right: Seq(right * SEGMENT) });
    }
    let ack = Seq(segment.wrapping_mul(SEGMENT));
    TcpSegment { ack, flags: TcpFlags::ACK, window: 50_000, sack, ..TcpSegment::default() }
}

/// A mechanism with its driver's part of the contract: every copy is forgotten once, and only what is kept is
/// sent.
struct Talk<M> {
    mechanism: M,
    kept: BTreeSet<u64>,
    next_id: u64,
}

impl<M: Mechanism> Talk<M> {
    fn new(mechanism: M) -> Self {
        Self { mechanism, kept: BTreeSet::new(), next_id: 0 }
    }

    /// The packet's number, the verdict, and what was done besides.
    fn packet(
        &mut self,
        at: u64,
        way: Direction,
        flow: u16,
        tcp: &TcpSegment,
    ) -> (u64, Verdict, Vec<Action>) {
        let (id, flow) = (self.next_id, key(flow));
        self.next_id += 1;
        let view = PacketView {
            id: PacketId(id),
            direction: way,
            origin: Origin::Arrival,
            station: StationId(0),
            flow: &flow,
            tcp,
            len: 40 + tcp.payload_len,
            ecn: Ecn::NotEct,
        };
        let mut out = Actions::new();
        let verdict = self.mechanism.on_packet(MS(at), &view, &mut out);
        if matches!(verdict, Verdict::ForwardAndKeep(_)) {
            assert!(self.kept.insert(id));
        }
        (id, verdict, self.actions(out))
    }

    fn down(&mut self, at: u64, segment: u32) -> (u64, Vec<Action>) {
        let (id, verdict, actions) = self.packet(at, Direction::Downlink, 1, &data(segment));
        assert!(matches!(verdict, Verdict::ForwardAndKeep(_)), "{verdict:?}");
        (id, actions)
    }

    /// What was sent again because of an ACK, and whether the ACK passed.
    fn up(&mut self, at: u64, tcp: &TcpSegment) -> (Vec<u64>, bool) {
        let (_, verdict, actions) = self.packet(at, Direction::Uplink, 1, tcp);
        (sent(&actions), verdict != Verdict::Drop(DropReason::RepairedHere))
    }

    fn link(&mut self, at: u64, kind: LinkEventKind) {
        let mut out = Actions::new();
        self.mechanism.on_link(MS(at), LinkEvent::at(MS(at), kind), &mut out);
        assert!(self.actions(out).is_empty());
    }

    /// Lets every timeout up to `until` happen.
    fn wait(&mut self, until: u64) -> Vec<Action> {
        let mut done = Vec::new();
        while let Some(due) = self.mechanism.next_timeout().filter(|due| *due <= MS(until)) {
            let mut out = Actions::new();
            self.mechanism.on_timeout(due, &mut out);
            assert!(self.mechanism.next_timeout().is_none_or(|next| next > due), "a timeout moves on");
            done.extend(self.actions(out));
        }
        done
    }

    fn report(&mut self, at: u64, report: Report) -> Vec<Action> {
        let mut out = Actions::new();
        assert!(self.mechanism.on_report(MS(at), &report, &mut out));
        self.actions(out)
    }

    fn actions(&mut self, mut out: Actions) -> Vec<Action> {
        let actions: Vec<Action> = out.drain().collect();
        for action in &actions {
            match action {
                Action::Forget { packet } => {
                    assert!(self.kept.remove(&packet.0), "{packet:?} was not kept");
                }
                Action::SendCopy { packet } => {
                    assert!(self.kept.contains(&packet.0), "{packet:?} is not kept");
                }
                Action::Report(_) | Action::Sender { .. } | Action::RequestUplink { .. } => {}
                other => panic!("local recovery holds, changes and makes nothing: {other:?}"),
            }
        }
        actions
    }
}

fn sent(actions: &[Action]) -> Vec<u64> {
    let copies = actions.iter().filter_map(|action| match action {
        Action::SendCopy { packet } => Some(packet.0),
        _ => None,
    });
    copies.collect()
}

fn reports(actions: &[Action]) -> Vec<(u32, Vec<(u32, u32)>)> {
    let reports = actions.iter().filter_map(|action| match action {
        Action::Report(report) => {
            let blocks = report.blocks.as_slice().iter();
            Some((
                report.next.0 / SEGMENT,
                blocks.map(|block| (block.left.0 / SEGMENT, block.right.0 / SEGMENT)).collect(),
            ))
        }
        _ => None,
    });
    reports.collect()
}

fn base_station() -> Talk<LocalRecovery> {
    Talk::new(LocalRecovery::new(&LocalRecoveryConfig::default()))
}

fn station(from: ResendFrom) -> Talk<LocalResend> {
    Talk::new(LocalResend::new(&LocalResendConfig { from, ..LocalResendConfig::default() }))
}

const SILENCE: (Scope, Cause) = (Scope::Network, Cause::PrimaryUser);

const fn started() -> LinkEventKind {
    LinkEventKind::FreezeStarted { scope: SILENCE.0, cause: SILENCE.1, expected: None }
}

const fn ended() -> LinkEventKind {
    LinkEventKind::FreezeEnded { scope: SILENCE.0, cause: SILENCE.1 }
}

#[test]
fn a_sack_of_later_data_sends_the_copy_of_what_is_missing_and_keeps_the_duplicate_back() {
    let mut talk = base_station();
    let ids: Vec<u64> = (1..5).map(|segment| talk.down(0, segment).0).collect();
    assert_eq!(talk.up(10, &ack(2, &[])), (vec![], true));
    assert_eq!(talk.up(11, &ack(2, &[(3, 4)])), (vec![ids[1]], false), "segment 2 is missing");
    assert_eq!(talk.up(12, &ack(2, &[(3, 5)])), (vec![], false), "its copy is under way");
    assert_eq!(talk.up(20, &ack(5, &[])), (vec![], true));
    assert!(talk.kept.is_empty());
    assert_eq!(talk.mechanism.metrics().kept_bytes, 0);
    assert_eq!(talk.mechanism.metrics().copies_sent, 1);
}

/// A receiver that compresses its ACKs leaves blocks out, and a copy then goes of what has arrived.
#[test]
fn a_needless_copy_proves_nothing_else_lost() {
    let mut talk = base_station();
    let ids: Vec<u64> = (1..12).map(|segment| talk.down(0, segment).0).collect();
    assert_eq!(talk.up(10, &ack(2, &[])), (vec![], true));
    // 3 has arrived, too.
    assert_eq!(talk.up(11, &ack(2, &[(4, 5)])), (vec![ids[1], ids[2]], false));
    assert_eq!(talk.up(12, &ack(6, &[(7, 8)])), (vec![ids[5]], true), "8 to 11 are on their way");
    assert_eq!(talk.up(80, &ack(6, &[(7, 9)])), (vec![], true), "nor later");
}

/// Where nothing new is sent, only copies can tell of copies.
#[test]
fn a_copy_that_was_lost_again_goes_again_when_a_later_copy_seems_to_have_come() {
    let mut talk = base_station();
    let ids: Vec<u64> = (1..5).map(|segment| talk.down(0, segment).0).collect();
    assert_eq!(talk.up(10, &ack(2, &[])), (vec![], true));
    assert_eq!(talk.up(12, &ack(2, &[(4, 5)])), (vec![ids[1], ids[2]], false));
    assert_eq!(talk.up(24, &ack(2, &[(3, 5)])), (vec![], false), "3 itself may have come late");
    assert_eq!(talk.up(80, &ack(2, &[(3, 5)])), (vec![ids[1]], true));
}

/// As Karn has it: nobody knows which of the two was acknowledged.
#[test]
fn what_the_sender_sent_again_proves_no_more_than_its_first_transmission() {
    let mut talk = base_station();
    let ids: Vec<u64> = (1..6).map(|segment| talk.down(0, segment).0).collect();
    assert_eq!(talk.up(10, &ack(2, &[])), (vec![], true));
    talk.down(11, 2);
    assert_eq!(talk.up(12, &ack(3, &[])), (vec![], true));
    assert_eq!(talk.up(13, &ack(3, &[(4, 5)])), (vec![ids[2]], false), "5 is on its way");
}

#[test]
fn without_sack_the_first_duplicate_tells() {
    let mut talk = base_station();
    let ids: Vec<u64> = (1..4).map(|segment| talk.down(0, segment).0).collect();
    assert_eq!(talk.up(10, &ack(1, &[])), (vec![], true), "the first ACK is no duplicate");
    assert_eq!(talk.up(11, &ack(1, &[])), (vec![ids[0]], false));
    assert_eq!(talk.up(12, &ack(1, &[])), (vec![], false));
}

/// Its duplicates say nothing: one who has SACK tells what is missing by it (RFC 6675 section 2).
#[test]
fn a_duplicate_without_blocks_of_a_receiver_that_has_them_tells_nothing() {
    let mut talk = base_station();
    let ids: Vec<u64> = (1..6).map(|segment| talk.down(0, segment).0).collect();
    assert_eq!(talk.up(10, &ack(1, &[(2, 3)])), (vec![ids[0]], true));
    assert_eq!(talk.up(11, &ack(3, &[])), (vec![], true));
    assert_eq!(talk.up(12, &ack(3, &[])), (vec![], true), "3 to 5 are on their way");
}

#[test]
fn a_duplicate_that_says_more_passes_and_so_do_all_after_a_while() {
    let mut talk = base_station();
    for segment in 1..4 {
        talk.down(0, segment);
    }
    talk.up(10, &ack(1, &[]));
    assert!(!talk.up(11, &ack(1, &[(2, 3)])).1);
    let mut echo = ack(1, &[(2, 3)]);
    echo.flags = echo.flags | TcpFlags::ECE;
    assert!(talk.up(12, &echo).1, "an ECN echo");
    assert!(talk.up(13, &ack(1, &[(2, 3), (2, 4)])).1, "a D-SACK");
    let wider = TcpSegment { window: 600, ..ack(1, &[(2, 3)]) };
    assert!(talk.up(14, &wider).1, "another window");
    assert!(!talk.up(15, &TcpSegment { window: 600, ..ack(1, &[(2, 4)]) }).1);
    assert!(talk.up(61, &TcpSegment { window: 600, ..ack(1, &[(2, 4)]) }).1, "50 ms are over");
}

#[test]
fn a_tail_that_nobody_acknowledges_goes_again_after_the_round_trip_and_its_deviation() {
    let mut talk = base_station();
    talk.down(0, 1);
    talk.up(40, &ack(2, &[]));
    let (id, _) = talk.down(50, 2);
    // 40 + 4 x 20 ms.
    assert_eq!(sent(&talk.wait(165)), []);
    assert_eq!(sent(&talk.wait(180)), [id]);
    assert_eq!(sent(&talk.wait(405)), [], "patience doubles");
    assert_eq!(sent(&talk.wait(430)), [id]);
}

/// Who does not see a connection can send what looks like it.
#[test]
fn made_up_acknowledgments_and_resets_do_not_end_the_recovery() {
    let mut talk = base_station();
    let ids: Vec<u64> = (1..6).map(|segment| talk.down(0, segment).0).collect();
    assert_eq!(talk.up(10, &ack(2, &[])), (vec![], true));
    assert_eq!(talk.up(11, &ack(1_000_000, &[])), (vec![], true), "of what was never sent");
    // From the correspondent's side: an acknowledgment of what the station never sent, and data that it
    // offers no room for.
    for made_up in [TcpSegment { ack: Seq(1 << 30), ..data(3) }, data((1 << 30) / SEGMENT + 1)] {
        assert_eq!(talk.packet(11, Direction::Downlink, 1, &made_up).1, Verdict::Forward(Rewrite::NONE));
    }
    let reset = |seq| TcpSegment { seq: Seq(seq), flags: TcpFlags::RST, ..TcpSegment::default() };
    for way in [Direction::Downlink, Direction::Uplink] {
        assert_eq!(talk.packet(12, way, 1, &reset(1 << 30)).1, Verdict::Forward(Rewrite::NONE));
    }
    assert_eq!(talk.up(13, &ack(2, &[(3, 4)])), (vec![ids[1]], false), "it goes on");
    // The sender's own is where its data ends.
    let _ = talk.packet(14, Direction::Downlink, 1, &reset(6 * SEGMENT));
    assert!(talk.kept.is_empty());

    let mut host = station(ResendFrom::Link);
    let up = |talk: &mut Talk<LocalResend>, at, tcp: &TcpSegment| talk.packet(at, Direction::Uplink, 1, tcp);
    let ids: Vec<u64> = (1..4).map(|segment| up(&mut host, 0, &data(segment)).0).collect();
    for made_up in [ack(1_000_000, &[]), reset(7), syn(9)] {
        let _ = host.packet(1, Direction::Downlink, 1, &made_up);
    }
    assert_eq!(host.kept, ids.iter().copied().collect());
    let _ = host.packet(2, Direction::Downlink, 1, &ack(3, &[]));
    assert_eq!(host.kept, BTreeSet::from([ids[2]]));
    let _ = up(&mut host, 3, &reset(400));
    assert!(host.kept.is_empty());
}

/// What there was no room for has gone all the same: of what its sender then sends again nobody can tell
/// which of the two was acknowledged.
#[test]
fn a_segment_that_was_not_kept_gives_no_sample_when_it_comes_again() {
    let config =
        LocalRecoveryConfig { max_bytes: Bytes(u64::from(40 + SEGMENT)), ..LocalRecoveryConfig::default() };
    let mut talk = Talk::new(LocalRecovery::new(&config));
    talk.down(0, 1);
    assert_eq!(
        talk.packet(1, Direction::Downlink, 1, &data(2)).1,
        Verdict::Forward(Rewrite::NONE),
        "no room"
    );
    talk.up(10, &ack(2, &[]));
    let measured = |talk: &mut Talk<LocalRecovery>| {
        talk.mechanism.flows.get_mut(&key(1)).and_then(|flow| flow.round_trip).map(RoundTrip::mean)
    };
    let before = measured(&mut talk);
    assert!(before.is_some());
    talk.down(500, 2);
    talk.up(503, &ack(3, &[]));
    assert_eq!(measured(&mut talk), before);
}

#[test]
fn in_a_silence_nothing_is_sent_and_patience_begins_at_its_end() {
    let mut talk = base_station();
    talk.down(0, 1);
    talk.up(40, &ack(2, &[]));
    let (id, _) = talk.down(50, 2);
    talk.link(60, started());
    assert_eq!(sent(&talk.wait(1000)), []);
    assert_eq!(talk.up(1000, &ack(2, &[])).0, []);
    talk.link(1000, ended());
    assert_eq!(sent(&talk.wait(1110)), []);
    assert_eq!(sent(&talk.wait(1130)), [id]);
}

#[test]
fn a_copy_goes_again_a_bounded_number_of_times_and_is_forgotten_in_bounded_time() {
    let mut talk = base_station();
    talk.down(0, 1);
    talk.up(10, &ack(2, &[]));
    let (id, _) = talk.down(20, 2);
    let actions = talk.wait(100_000);
    assert_eq!(sent(&actions), [id; 3]);
    assert!(talk.kept.is_empty());
    assert_eq!(talk.mechanism.next_timeout(), None);
}

#[test]
fn a_hole_in_the_uplink_is_reported_at_once_and_again_while_it_is_there() {
    let mut talk = base_station();
    let up = |talk: &mut Talk<LocalRecovery>, at, segment| {
        let (_, verdict, actions) = talk.packet(at, Direction::Uplink, 1, &data(segment));
        assert_eq!(verdict, Verdict::Forward(Rewrite::NONE));
        reports(&actions)
    };
    assert_eq!(up(&mut talk, 0, 1), []);
    assert_eq!(up(&mut talk, 1, 3), [(2, vec![(3, 4)])]);
    assert_eq!(up(&mut talk, 2, 4), [], "no other hole");
    assert_eq!(up(&mut talk, 3, 6), [(2, vec![(6, 7), (3, 5)])]);
    assert_eq!(reports(&talk.wait(70)), [(2, vec![(6, 7), (3, 5)])]);
    assert_eq!(up(&mut talk, 71, 2), []);
    assert_eq!(reports(&talk.wait(1000)), vec![(5, vec![(6, 7)]); 3], "another first byte, another count");
    assert_eq!(talk.mechanism.next_timeout(), None, "and then no more");
}

#[test]
fn a_hole_at_the_beginning_is_reported_where_the_syn_was_seen() {
    let mut talk = base_station();
    let _ = talk.packet(0, Direction::Uplink, 1, &syn(1));
    let _ = talk.packet(1, Direction::Downlink, 1, &syn(40));
    let (_, _, actions) = talk.packet(2, Direction::Uplink, 1, &data(3));
    assert_eq!(reports(&actions), [(1, vec![(3, 4)])]);

    let (_, _, actions) = talk.packet(3, Direction::Uplink, 2, &data(3));
    assert_eq!(reports(&actions), [], "the base station cannot know where this one began");
}

#[test]
fn copies_of_an_old_connection_are_forgotten_when_another_begins_under_its_addresses() {
    let mut talk = base_station();
    talk.down(0, 1);
    let _ = talk.packet(1, Direction::Uplink, 1, &syn(1));
    assert_eq!(talk.kept.len(), 1, "the other direction's SYN says nothing of these");
    // Anybody can send a SYN: it counts once it is answered.
    let _ = talk.packet(2, Direction::Downlink, 1, &syn(1));
    assert_eq!(talk.kept.len(), 1);
    let answer = TcpSegment { ack: Seq(SEGMENT), flags: TcpFlags::SYN | TcpFlags::ACK, ..syn(50) };
    let _ = talk.packet(3, Direction::Uplink, 1, &answer);
    assert!(talk.kept.is_empty());
    assert_eq!(talk.mechanism.metrics().kept_bytes, 0);

    let mut talk = Talk::new(LocalResend::new(&LocalResendConfig::default()));
    let _ = talk.packet(0, Direction::Uplink, 1, &data(1));
    assert_eq!(talk.kept.len(), 1);
    let _ = talk.packet(1, Direction::Uplink, 1, &syn(1));
    assert!(talk.kept.is_empty());
}

fn report_of(next: u32, blocks: &[(u32, u32)]) -> Report {
    let TcpSegment { ack: next, sack: blocks, .. } = ack(next, blocks);
    Report { flow: key(1), direction: Direction::Uplink, next, blocks }
}

#[test]
fn phy_lr_sends_the_links_copies_of_what_is_missing_only() {
    let mut talk = station(ResendFrom::Link);
    let ids: Vec<u64> =
        (1..7).map(|segment| talk.packet(0, Direction::Uplink, 1, &data(segment)).0).collect();
    let missing = report_of(2, &[(3, 4), (5, 6)]);
    assert_eq!(sent(&talk.report(10, missing)), [ids[1], ids[3]], "2 and 4; 6 may be under way");
    assert_eq!(sent(&talk.report(20, missing)), [], "they are under way");
    assert_eq!(talk.kept, BTreeSet::from([ids[1], ids[3], ids[5]]));
    let _ = talk.packet(90, Direction::Downlink, 1, &ack(7, &[]));
    assert!(talk.kept.is_empty());
    assert_eq!(talk.mechanism.metrics().kept_bytes, 0);
}

#[test]
fn a_copy_that_was_lost_again_goes_again_when_something_sent_after_it_has_come() {
    let mut talk = station(ResendFrom::Link);
    let ids: Vec<u64> =
        (1..4).map(|segment| talk.packet(0, Direction::Uplink, 1, &data(segment)).0).collect();
    assert_eq!(sent(&talk.report(10, report_of(2, &[(3, 4)]))), [ids[1]]);
    assert_eq!(sent(&talk.report(70, report_of(2, &[(3, 4)]))), [], "nobody knows of anything later");
    let _ = talk.packet(75, Direction::Uplink, 1, &data(4));
    assert_eq!(sent(&talk.report(80, report_of(2, &[(3, 5)]))), [ids[1]]);
}

#[test]
fn tcp_lr_keeps_nothing_and_commands_the_sender() {
    let mut talk = station(ResendFrom::Tcp);
    let (_, verdict, _) = talk.packet(0, Direction::Uplink, 1, &data(1));
    assert_eq!(verdict, Verdict::Forward(Rewrite::NONE));
    let report = report_of(2, &[(3, 4)]);
    let command = SenderCommand::Missing { blocks: report.blocks };
    assert_eq!(talk.report(10, report), [Action::Sender { flow: key(1), command }]);
}

#[test]
fn what_is_kept_stays_within_its_bounds() {
    let config = LocalRecoveryConfig { max_bytes: Bytes(1000), max_flow_packets: 5, ..Default::default() };
    let mut talk = Talk::new(LocalRecovery::new(&config));
    for (flow, segment) in (0..4).flat_map(|flow| (1..20).map(move |segment| (flow, segment))) {
        let _ = talk.packet(0, Direction::Downlink, flow, &data(segment));
    }
    assert_eq!(talk.kept.len(), 7, "7 x 140 bytes");
    let metrics = talk.mechanism.metrics();
    assert_eq!((metrics.kept_bytes, metrics.kept_bytes_peak), (980, 980));
}

#[derive(Clone, Debug)]
enum Move {
    Data(u16, u32),
    Ack(u16, u32, Vec<(u32, u32)>),
    Uplink(u16, u32),
    /// By the data's sender: where its data ends, or with a number of nowhere.
    Reset(u16, bool),
    /// A SYN of the data's direction, or of the other, with another connection's numbers, and whether it is
    /// answered.
    Begins(u16, bool, bool),
    Silence(bool),
    Report(u16, u32, Vec<(u32, u32)>),
}

fn blocks() -> impl Strategy<Value = Vec<(u32, u32)>> {
    prop::collection::vec((0u32..40, 1u32..6).prop_map(|(left, len)| (left, left + len)), 0..4)
}

fn moves() -> impl Strategy<Value = Vec<(u64, Move)>> {
    let flow = 0u16..4;
    let one = prop_oneof![
        8 => (flow.clone(), 0u32..40).prop_map(|(flow, segment)| Move::Data(flow, segment)),
        6 => (flow.clone(), 0u32..40, blocks()).prop_map(|(flow, next, blocks)| Move::Ack(flow, next, blocks)),
        4 => (flow.clone(), 0u32..40).prop_map(|(flow, segment)| Move::Uplink(flow, segment)),
        1 => (flow.clone(), any::<bool>()).prop_map(|(flow, right)| Move::Reset(flow, right)),
        1 => (flow.clone(), any::<bool>(), any::<bool>())
            .prop_map(|(flow, outgoing, answered)| Move::Begins(flow, outgoing, answered)),
        1 => any::<bool>().prop_map(Move::Silence),
        3 => (flow, 0u32..40, blocks()).prop_map(|(flow, next, blocks)| Move::Report(flow, next, blocks)),
    ];
    prop::collection::vec((0u64..40, one), 1..150)
}

/// Within this all copies are let go of, ms: `keep_for` of both mechanisms, and the longer one's tick.
const LONGEST: u64 = 2000 + 100;

/// Plays `moves`; `Talk` checks the contract. Answers how often each packet went again.
fn play<M: Mechanism>(talk: &mut Talk<M>, moves: &[(u64, Move)], outgoing: Direction) -> BTreeMap<u64, u32> {
    let mut now = 0;
    let mut again: BTreeMap<u64, u32> = BTreeMap::new();
    // What each flow's packets that passed have acknowledged: pure ACKs, and data the same way.
    let mut acknowledged: BTreeSet<(u16, u32)> = BTreeSet::new();
    let mut highest: BTreeMap<u16, u32> = BTreeMap::new();
    for (pause, one) in moves {
        now += pause;
        let mut actions = talk.wait(now);
        match one {
            Move::Data(flow, segment) => {
                let most = highest.entry(*flow).or_default();
                *most = (*most).max(*segment);
                let (_, verdict, more) = talk.packet(now, outgoing, *flow, &data(*segment));
                let passes = [Verdict::Forward(Rewrite::NONE), Verdict::ForwardAndKeep(Rewrite::NONE)];
                assert!(passes.contains(&verdict), "data passes at once, unchanged: {verdict:?}");
                actions.extend(more);
            }
            Move::Ack(flow, next, blocks) => {
                let (_, verdict, more) = talk.packet(now, outgoing.opposite(), *flow, &ack(*next, blocks));
                match verdict {
                    Verdict::Forward(Rewrite::NONE) => {
                        acknowledged.insert((*flow, *next));
                    }
                    Verdict::Drop(DropReason::RepairedHere) => assert!(
                        acknowledged.contains(&(*flow, *next)),
                        "what is kept back acknowledges nothing that the sender has not heard of"
                    ),
                    other => panic!("an ACK passes unchanged, or is kept back: {other:?}"),
                }
                actions.extend(more);
            }
            Move::Uplink(flow, segment) => {
                let (_, verdict, more) = talk.packet(now, outgoing.opposite(), *flow, &data(*segment));
                assert_eq!(verdict, Verdict::Forward(Rewrite::NONE), "data passes");
                acknowledged.insert((*flow, data(*segment).ack.0));
                actions.extend(more);
            }
            Move::Reset(flow, right) => {
                let end = highest.get(flow).map_or(0, |segment| (segment + 1) * SEGMENT);
                let seq = Seq(if *right { end } else { 1 << 30 });
                let reset = TcpSegment { seq, flags: TcpFlags::RST, ..TcpSegment::default() };
                actions.extend(talk.packet(now, outgoing, *flow, &reset).2);
            }
            Move::Begins(flow, same, answered) => {
                let way = if *same { outgoing } else { outgoing.opposite() };
                let (_, verdict, more) = talk.packet(now, way, *flow, &syn(7));
                assert_eq!(verdict, Verdict::Forward(Rewrite::NONE), "a SYN passes");
                actions.extend(more);
                if *answered {
                    let flags = TcpFlags::SYN | TcpFlags::ACK;
                    let answer = TcpSegment { ack: syn(7).seq + 1, flags, ..syn(30) };
                    let (_, verdict, more) = talk.packet(now, way.opposite(), *flow, &answer);
                    assert_eq!(verdict, Verdict::Forward(Rewrite::NONE), "its answer passes");
                    actions.extend(more);
                    highest.remove(flow);
                }
            }
            Move::Silence(begins) => talk.link(now, if *begins { started() } else { ended() }),
            Move::Report(flow, next, blocks) => {
                let mut out = Actions::new();
                let report = Report { flow: key(*flow), ..report_of(*next, blocks) };
                talk.mechanism.on_report(MS(now), &report, &mut out);
                actions.extend(talk.actions(out));
            }
        }
        for id in sent(&actions) {
            *again.entry(id).or_default() += 1;
        }
    }
    for id in sent(&talk.wait(now + LONGEST)) {
        *again.entry(id).or_default() += 1;
    }
    again
}

#[test]
fn a_silence_that_is_told_again_is_counted_once() {
    let mut talk = Talk::new(LocalRecovery::new(&LocalRecoveryConfig::default()));
    let (scope, cause) = (Scope::Station(StationId(0)), Cause::Fade);
    let start = LinkEventKind::FreezeStarted { scope, cause, expected: None };
    talk.link(10, start);
    talk.link(20, start);
    assert_eq!(talk.mechanism.metrics().silences, 1);
    talk.link(30, LinkEventKind::FreezeEnded { scope, cause });
    talk.link(40, start);
    assert_eq!(talk.mechanism.metrics().silences, 2);
}

proptest! {
    /// Whatever is told, in whatever order: copies are bounded in number, bytes, tries and age, each is let
    /// go of once, data passes at once, and everything comes to rest.
    #[test]
    fn copies_are_bounded_and_let_go_of(moves in moves()) {
        let config = LocalRecoveryConfig { max_bytes: Bytes(3000), max_flow_packets: 12, ..Default::default() };
        let mut talk = Talk::new(LocalRecovery::new(&config));
        let again = play(&mut talk, &moves, Direction::Downlink);
        prop_assert!(again.values().all(|&times| times <= 3), "{again:?}");
        let metrics = talk.mechanism.metrics();
        prop_assert!(talk.kept.is_empty(), "{:?}", talk.kept);
        prop_assert_eq!(metrics.kept_bytes, 0);
        prop_assert!(metrics.kept_bytes_peak <= 3000);
        prop_assert_eq!(talk.mechanism.next_timeout(), None);
    }

    #[test]
    fn the_stations_copies_are_bounded_too(moves in moves()) {
        let config = LocalResendConfig { max_bytes: Bytes(3000), max_flow_packets: 12, ..Default::default() };
        let mut talk = Talk::new(LocalResend::new(&config));
        let again = play(&mut talk, &moves, Direction::Uplink);
        prop_assert!(again.values().all(|&times| times <= 3), "{again:?}");
        prop_assert!(talk.kept.is_empty());
        prop_assert!(talk.mechanism.metrics().kept_bytes_peak <= 3000);
        prop_assert_eq!(talk.mechanism.next_timeout(), None);
    }
}
