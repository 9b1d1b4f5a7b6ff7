//! The flow table is bounded, and idle flows leave it first.

use core::net::IpAddr;
use std::collections::VecDeque;

use linkhold_core::action::{Action, Actions, DropReason, Verdict};
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::packet::{
    Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment,
};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;
use proptest::prelude::*;

fn agent(max_flows: u32) -> DsaSync {
    DsaSync::new(&DsaSyncConfig { max_flows, ..DsaSyncConfig::default() }).expect("valid")
}

fn data(agent: &mut DsaSync, now: Instant, flow: u16, id: u64, out: &mut Actions) -> Verdict {
    let key = FlowKey {
        correspondent: Endpoint { addr: IpAddr::from([192, 0, 2, 1]), port: 443 },
        station: Endpoint { addr: IpAddr::from([10, 0, 0, 2]), port: flow },
    };
    let tcp = TcpSegment {
        seq: Seq(id as u32 * 1_000),
        payload_len: 1_000,
        flags: TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let packet = PacketView {
        id: PacketId(id),
        direction: Direction::Downlink,
        origin: Origin::Arrival,
        station: StationId(0),
        flow: &key,
        tcp: &tcp,
        len: 1_040,
        ecn: Ecn::NotEct,
    };
    agent.on_packet(now, &packet, out)
}

proptest! {
    /// While nothing is held, the table is a least-recently-used cache.
    #[test]
    fn the_longest_idle_flow_leaves_first(max_flows in 1u32..12, touches in prop::collection::vec(0u16..20, 1..300)) {
        let mut agent = agent(max_flows);
        let mut out = Actions::new();
        let mut model: VecDeque<u16> = VecDeque::new();
        let (mut evictions, mut created) = (0, 0);
        for (id, flow) in touches.into_iter().enumerate() {
            let now = Instant::from_millis(id as u64);
            let _ = data(&mut agent, now, flow, id as u64, &mut out);
            out.clear();
            if let Some(at) = model.iter().position(|known| *known == flow) {
                model.remove(at);
            } else {
                created += 1;
                if model.len() == max_flows as usize {
                    model.pop_front();
                    evictions += 1;
                }
            }
            model.push_back(flow);
            let metrics = agent.metrics();
            prop_assert_eq!(metrics.flows, model.len() as u64);
            prop_assert_eq!((metrics.flow_evictions, metrics.midstream_flows), (evictions, created));
        }
    }

    /// In a silence many flows hold packets. The table stays bounded, and what an evicted flow held is
    /// discarded with that reason, so that every packet is accounted for.
    #[test]
    fn an_evicted_flow_leaves_nothing_behind(max_flows in 1u32..12, touches in prop::collection::vec(0u16..40, 1..300)) {
        let mut agent = agent(max_flows);
        let mut out = Actions::new();
        let start = Instant::from_millis(1);
        let freeze = LinkEventKind::FreezeStarted {
            scope: Scope::Network,
            cause: Cause::PrimaryUser,
            expected: Some(Duration::from_secs(1)),
        };
        agent.on_link(start, LinkEvent::at(start, freeze), &mut out);
        out.clear();
        let (mut held, mut evicted) = (0u64, 0u64);
        for (id, flow) in touches.into_iter().enumerate() {
            let verdict = data(&mut agent, start, flow, id as u64, &mut out);
            prop_assert_eq!(verdict, Verdict::Hold);
            held += 1;
            for action in out.drain() {
                if let Action::Discard { reason, .. } = action {
                    prop_assert_eq!(reason, DropReason::FlowEvicted);
                    held -= 1;
                    evicted += 1;
                }
            }
            let metrics = agent.metrics();
            prop_assert!(metrics.flows <= u64::from(max_flows));
            prop_assert_eq!(metrics.held_packets, held);
            prop_assert_eq!(metrics.dropped[DropReason::FlowEvicted as usize], evicted);
        }
        agent.flush(start, &mut out);
        let released = out.drain().filter(|action| matches!(action, Action::Release { .. })).count() as u64;
        prop_assert_eq!(released, held);
        prop_assert_eq!(agent.metrics().held_packets, 0);
    }
}
