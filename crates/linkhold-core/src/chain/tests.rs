//! A chain of two scripted mechanisms, which answer as they are told and write down what they see.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::*;
use crate::packet::{Ecn, Endpoint, FlowKey, StationId, TcpSegment};
use crate::units::Seq;

#[derive(Default)]
struct Script {
    /// What it answers to the next packets; then it forwards.
    verdicts: VecDeque<Verdict>,
    /// What it wants done at the next call.
    actions: Vec<Action>,
    /// Id and window of each packet seen.
    seen: Vec<(u64, u16)>,
    holding: Vec<PacketId>,
}

#[derive(Clone, Default)]
struct Scripted(Arc<Mutex<Script>>);

impl Scripted {
    fn set(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.0.lock().unwrap());
    }

    fn seen(&self) -> Vec<(u64, u16)> {
        std::mem::take(&mut self.0.lock().unwrap().seen)
    }
}

impl Mechanism for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let mut script = self.0.lock().unwrap();
        script.seen.push((packet.id.0, packet.tcp.window));
        script.actions.drain(..).for_each(|action| out.push(action));
        let verdict = script.verdicts.pop_front().unwrap_or(Verdict::Forward(Rewrite::NONE));
        if verdict == Verdict::Hold {
            script.holding.push(packet.id);
        }
        verdict
    }

    fn on_link(&mut self, _now: Instant, _event: LinkEvent, _out: &mut Actions) {}

    fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        for packet in self.0.lock().unwrap().holding.drain(..) {
            out.push(Action::Release { packet, rewrite: Rewrite::NONE });
        }
    }

    fn metrics(&self) -> Metrics {
        Metrics { holds: 1, ..Metrics::default() }
    }
}

struct Talk {
    wire: Scripted,
    radio: Scripted,
    chain: Chain,
}

impl Talk {
    fn new() -> Self {
        let (wire, radio) = (Scripted::default(), Scripted::default());
        let chain = Chain::new(vec![Box::new(wire.clone()), Box::new(radio.clone())], 1);
        Self { wire, radio, chain }
    }

    fn packet(&mut self, id: u64, direction: Direction, origin: Origin) -> (Verdict, Vec<Action>) {
        let end = |port| Endpoint { addr: "10.0.0.1".parse().unwrap(), port };
        let flow = FlowKey { correspondent: end(1), station: end(2) };
        let tcp = TcpSegment { seq: Seq(1), window: 1000, ..TcpSegment::default() };
        let view = PacketView {
            id: PacketId(id),
            direction,
            origin,
            station: StationId(0),
            flow: &flow,
            tcp: &tcp,
            len: 40,
            ecn: Ecn::NotEct,
        };
        let mut out = Actions::new();
        let verdict = self.chain.on_packet(Instant::ZERO, &view, &mut out);
        (verdict, out.drain().collect())
    }

    fn down(&mut self, id: u64) -> (Verdict, Vec<Action>) {
        self.packet(id, Direction::Downlink, Origin::Arrival)
    }

    fn up(&mut self, id: u64) -> (Verdict, Vec<Action>) {
        self.packet(id, Direction::Uplink, Origin::Arrival)
    }
}

const NONE: Rewrite = Rewrite::NONE;

fn release(id: u64, rewrite: Rewrite) -> Action {
    Action::Release { packet: PacketId(id), rewrite }
}

#[test]
fn each_direction_passes_them_in_its_own_order_and_sees_what_the_ones_before_changed() {
    let mut talk = Talk::new();
    talk.wire.set(|wire| wire.verdicts.push_back(Verdict::Forward(Rewrite::window(500))));
    assert_eq!(talk.down(1), (Verdict::Forward(Rewrite::window(500)), vec![]));
    assert_eq!((talk.wire.seen(), talk.radio.seen()), (vec![(1, 1000)], vec![(1, 500)]));
    talk.radio.set(|radio| radio.verdicts.push_back(Verdict::Forward(Rewrite::window(700))));
    talk.wire.set(|wire| wire.verdicts.push_back(Verdict::Forward(Rewrite { set_ece: true, ..NONE })));
    let both = Rewrite { window: Some(700), set_ece: true, mark_ce: false };
    assert_eq!(talk.up(2), (Verdict::Forward(both), vec![]));
    assert_eq!((talk.wire.seen(), talk.radio.seen()), (vec![(2, 700)], vec![(2, 1000)]));
}

#[test]
fn what_one_lets_go_the_next_gets_and_may_hold_keep_or_drop() {
    let mut talk = Talk::new();
    let reason = DropReason::RepairedHere;
    for (id, of_next, expected) in [
        (1, Verdict::Forward(Rewrite::window(9)), Some(release(1, Rewrite::window(9)))),
        (2, Verdict::Hold, None),
        (
            3,
            Verdict::ForwardAndKeep(NONE),
            Some(Action::ReleaseAndKeep { packet: PacketId(3), rewrite: Rewrite::window(20) }),
        ),
        (4, Verdict::Drop(reason), Some(Action::Discard { packet: PacketId(4), reason })),
    ] {
        talk.wire.set(|wire| wire.verdicts.push_back(Verdict::Hold));
        assert_eq!(talk.down(id), (Verdict::Hold, vec![]));
        assert!(talk.radio.seen().is_empty(), "not yet");
        // It lets go while another packet comes; that one arrived later, so the held one is behind it here.
        talk.wire.set(|wire| wire.actions.push(release(id, Rewrite::window(20))));
        talk.radio.set(|radio| radio.verdicts.extend([Verdict::Forward(NONE), of_next]));
        let (verdict, actions) = talk.down(100 + id);
        assert_eq!((verdict, actions), (Verdict::Forward(NONE), expected.into_iter().collect()));
        assert_eq!(talk.radio.seen(), [(100 + id, 1000), (id, 20)]);
    }
}

#[test]
fn a_release_names_every_change_since_the_packet_came() {
    let mut talk = Talk::new();
    talk.wire.set(|wire| wire.verdicts.push_back(Verdict::Forward(Rewrite::window(500))));
    talk.radio.set(|radio| radio.verdicts.push_back(Verdict::Hold));
    assert_eq!(talk.down(1), (Verdict::Hold, vec![]));
    talk.radio.set(|radio| radio.actions.push(release(1, NONE)));
    assert_eq!(talk.down(2), (Verdict::Forward(NONE), vec![release(1, Rewrite::window(500))]));
}

#[test]
fn a_verdict_takes_effect_before_the_actions_of_the_same_call() {
    let mut talk = Talk::new();
    // The first lets go of the very packet that it holds with this answer.
    talk.wire.set(|wire| {
        wire.verdicts.push_back(Verdict::Hold);
        wire.actions.push(release(1, NONE));
    });
    assert_eq!(talk.down(1), (Verdict::Hold, vec![release(1, NONE)]));
    assert_eq!(talk.radio.seen(), [(1, 1000)]);
}

#[test]
fn the_radios_queue_is_the_last_ones_alone() {
    let mut talk = Talk::new();
    let reclaim = Action::Reclaim { scope: crate::link_event::Scope::Network };
    talk.wire.set(|wire| wire.actions.push(reclaim));
    talk.radio.set(|radio| radio.actions.push(reclaim));
    assert_eq!(talk.down(1).1, [reclaim]);
    talk.wire.seen();
    assert_eq!(talk.packet(1, Direction::Downlink, Origin::TransmitQueue).0, Verdict::Forward(NONE));
    assert!(talk.wire.seen().is_empty());
}

#[test]
fn a_flush_lets_go_of_everything_in_both_directions() {
    let mut talk = Talk::new();
    // Each holds one each way, and what one lets go the other holds again.
    for (id, direction) in [(1, Direction::Downlink), (2, Direction::Uplink)] {
        talk.wire.set(|wire| wire.verdicts.push_back(Verdict::Hold));
        talk.radio.set(|radio| radio.verdicts.push_back(Verdict::Hold));
        assert_eq!(talk.packet(id, direction, Origin::Arrival).0, Verdict::Hold);
    }
    let mut out = Actions::new();
    talk.chain.flush(Instant::ZERO, &mut out);
    let mut released: Vec<Action> = out.drain().collect();
    released.sort_by_key(|action| match action {
        Action::Release { packet, .. } => packet.0,
        other => panic!("{other:?}"),
    });
    assert_eq!(released, [release(1, NONE), release(2, NONE)]);
    assert!(talk.chain.members.iter().all(|member| member.held.is_empty()));
    assert_eq!(talk.chain.metrics().holds, 2, "the sum of both");
}

#[test]
fn each_member_tells_its_own_counters() {
    let counted = |holds| Metrics { holds, ..Metrics::default() };
    let inner = Chain::new(vec![Box::new(Scripted::default()), Box::new(Scripted::default())], 1);
    let chain: Box<dyn Mechanism> =
        Box::new(Chain::new(vec![Box::new(Scripted::default()), Box::new(inner)], 1));
    assert_eq!(chain.metrics(), counted(3));
    assert_eq!(chain.members(), vec![("scripted", counted(1)); 3]);
}
