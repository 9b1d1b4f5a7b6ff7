//! TP-CRAHN over a link whose nodes sense, change channels and lose the route.

mod common;

use common::{Fate, LinkConfig, Net, at, ms};
use linkhold_core::time::Instant;
use linkhold_core::units::{BitRate, Bytes};
use linkhold_tcp::{ChannelChange, Congestion, Hop, PathEvent, PathState, Recovery, Source, TcpConfig};
use proptest::prelude::*;

const LINK: LinkConfig = LinkConfig { rate: BitRate::from_mbps(1), delay: ms_const(5), queue: 50 };

const fn ms_const(n: u64) -> linkhold_core::time::Duration {
    linkhold_core::time::Duration::from_millis(n)
}

fn config(congestion: Congestion) -> TcpConfig {
    TcpConfig { mss: 1000, rto_min: ms(200), ..TcpConfig::classic(Recovery::NewReno, congestion) }
}

fn net(congestion: Congestion) -> Net {
    let config = config(congestion);
    Net::new((&config, Source::Bulk), (&config, Source::None), LINK)
}

/// The radio stands still until then, in both directions.
fn stand_still(net: &mut Net, from: Instant, until: Instant) {
    net.hook =
        Box::new(move |now, _, _, _| if now >= from && now < until { Fate::Hold(until) } else { Fate::Pass });
}

#[test]
fn sensing_that_is_told_costs_no_timeout_and_no_window() {
    let mut timeouts = Vec::new();
    for congestion in [Congestion::Reno, Congestion::TpCrahn] {
        let mut net = net(congestion);
        // The losses of the first slow start are repaired by then: a timeout in their repair is not counted.
        net.run(at(5000));
        stand_still(&mut net, at(5000), at(7000));
        let before = net.ends[0].stats().rto_events;
        let (sent, cwnd) = (net.ends[0].stats().data_segments_sent, net.ends[0].cwnd_bytes());
        let sensing = PathEvent::SensingStarted { node: 4, until: at(7000), room: None };
        net.ends[0].on_path(at(5000), &sensing);
        net.run(at(6999));
        if congestion == Congestion::TpCrahn {
            assert_eq!(net.ends[0].path_state(), PathState::Sensing);
            assert_eq!(net.ends[0].stats().data_segments_sent, sent);
            assert!(net.ends[0].cwnd_bytes() >= cwnd);
        }
        net.run(at(9000));
        assert_eq!(net.ends[0].path_state(), PathState::Normal);
        timeouts.push(net.ends[0].stats().rto_events - before);
        // It goes on: 2 s at 1 Mb/s are some 230 segments.
        assert!(net.ends[0].stats().data_segments_sent > sent + 150);
    }
    assert!(timeouts[0] > 0 && timeouts[1] == 0, "{timeouts:?}");
}

#[test]
fn within_a_room_the_sender_goes_on() {
    let mut net = net(Congestion::TpCrahn);
    net.run(at(3000));
    let room = Some(Bytes(4000));
    net.ends[0].on_path(at(3000), &PathEvent::SensingStarted { node: 4, until: at(5000), room });
    net.run(at(4000));
    let sent = net.ends[0].stats().data_segments_sent;
    assert!(net.ends[0].in_flight_bytes() <= 4000 && net.ends[0].cwnd_bytes() > 4000);
    net.run(at(4900));
    assert!(net.ends[0].stats().data_segments_sent > sent + 50, "it sends");
    net.run(at(6000));
    assert!(net.ends[0].in_flight_bytes() > 4000);
}

#[test]
fn a_handoff_freezes_and_then_the_window_fits_the_new_channel() {
    let mut net = net(Congestion::TpCrahn);
    net.run(at(5000));
    let before = net.ends[0].cwnd_bytes();
    net.ends[0].on_path(at(5000), &PathEvent::HandoffStarted { node: 1, until: at(9000) });
    assert_eq!((net.ends[0].path_state(), net.ends[0].cwnd_bytes()), (PathState::Handoff, before));
    let hop = |kbps: u64, millis| Hop { rate: BitRate(kbps * 1000), delay: ms(millis) };
    let change = ChannelChange { old: hop(1000, 10), new: hop(200, 45), others: None };
    net.run(at(5500));
    let rtt = net.ends[0].srtt().expect("measured");
    net.ends[0].on_path(at(5500), &PathEvent::HandoffEnded { node: 1, change: Some(change) });
    let shifted = net.ends[0].srtt().expect("measured");
    assert_eq!(shifted.as_nanos(), rtt.as_nanos() + 35_000_000);
    // 0.8 * 200 kb/s * RTT.
    let expected = (0.02 * shifted.as_secs_f64() * 1e6) as u64;
    let cwnd = net.ends[0].cwnd_bytes();
    assert!(cwnd.abs_diff(expected.max(2000).min(before)) <= 1, "{cwnd}, {expected}, before {before}");
    assert_eq!(net.ends[0].ssthresh_bytes(), cwnd);
    assert_eq!(net.ends[0].path_state(), PathState::Normal);
}

#[test]
fn a_broken_route_is_waited_for_and_the_first_segment_goes_again() {
    let mut net = net(Congestion::TpCrahn);
    net.run(at(2000));
    net.hook = Box::new(|now, _, _, _| if now < at(7000) { Fate::Drop } else { Fate::Pass });
    net.ends[0].on_path(at(2000), &PathEvent::RouteFailed { until: at(60_000) });
    net.run(at(7000));
    let (sent, again) = (net.ends[0].stats().data_segments_sent, net.ends[0].stats().retransmits);
    net.ends[0].on_path(at(7000), &PathEvent::RouteFound);
    net.run(at(7001));
    assert!(net.ends[0].stats().data_segments_sent > sent);
    assert_eq!(net.ends[0].stats().retransmits, again + 1);
    net.run(at(9000));
    assert!(net.ends[0].stats().data_segments_sent > sent + 150);
}

#[test]
fn a_lost_notification_stops_nobody_for_good_and_others_hear_none() {
    let mut tp_crahn = net(Congestion::TpCrahn);
    tp_crahn.run(at(1000));
    tp_crahn.ends[0].on_path(at(1000), &PathEvent::HandoffStarted { node: 1, until: Instant::FAR_FUTURE });
    let sent = tp_crahn.ends[0].stats().data_segments_sent;
    tp_crahn.run(at(60_999));
    assert!(tp_crahn.ends[0].stats().data_segments_sent <= sent + 1);
    tp_crahn.run(at(63_000));
    assert!(tp_crahn.ends[0].stats().data_segments_sent > sent + 150);
    let mut reno = net(Congestion::Reno);
    reno.run(at(1000));
    reno.ends[0].on_path(at(1000), &PathEvent::HandoffStarted { node: 1, until: at(9000) });
    assert_eq!(reno.ends[0].path_state(), PathState::Normal);
    let sent = reno.ends[0].stats().data_segments_sent;
    reno.run(at(2000));
    assert!(reno.ends[0].stats().data_segments_sent > sent + 50);
}

#[test]
fn without_notifications_it_is_newreno() {
    let run = |congestion| {
        let mut net = net(congestion);
        let mut count = 0;
        net.hook = Box::new(move |_, end, _, _| {
            count += u64::from(end == 0);
            if end == 0 && count % 97 == 0 { Fate::Drop } else { Fate::Pass }
        });
        net.run(at(30_000));
        (*net.ends[0].stats(), net.ends[0].cwnd_bytes())
    };
    assert_eq!(run(Congestion::Reno), run(Congestion::TpCrahn));
}

fn event() -> impl Strategy<Value = PathEvent> {
    let until = || (0u64..5000).prop_map(at);
    let node = || 0u32..3;
    let room = prop::option::of((0u64..9000).prop_map(Bytes));
    let hop =
        || (0u64..5_000_000, 0u64..200).prop_map(|(bps, delay)| Hop { rate: BitRate(bps), delay: ms(delay) });
    let change = (hop(), hop(), prop::option::of((0u64..5_000_000).prop_map(BitRate)))
        .prop_map(|(old, new, others)| ChannelChange { old, new, others });
    prop_oneof![
        (node(), until(), room).prop_map(|(node, until, room)| PathEvent::SensingStarted {
            node,
            until,
            room
        }),
        node().prop_map(|node| PathEvent::SensingEnded { node }),
        (node(), until()).prop_map(|(node, until)| PathEvent::HandoffStarted { node, until }),
        (node(), prop::option::of(change))
            .prop_map(|(node, change)| PathEvent::HandoffEnded { node, change }),
        Just(PathEvent::MobilityPredicted),
        until().prop_map(|until| PathEvent::RouteFailed { until }),
        Just(PathEvent::RouteFound),
    ]
}

proptest! {
    #[test]
    fn whatever_is_told_every_byte_arrives(
        recovery in prop_oneof![Just(Recovery::NewReno), Just(Recovery::Sack), Just(Recovery::RackTlp)],
        loss in 0u64..20,
        seed: u64,
        bytes in 1u64..60_000,
        events in prop::collection::vec((0u64..400, event()), 0..30),
    ) {
        let config = TcpConfig { rto_max: ms(10_000), recovery, ..config(Congestion::TpCrahn) };
        let mut net = Net::new((&config, Source::Finite(Bytes(bytes))), (&config, Source::None), LINK);
        let mut random = seed;
        net.hook = Box::new(move |_, _, _, _| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (random >> 33) % 100 < loss { Fate::Drop } else { Fate::Pass }
        });
        let mut now = at(0);
        for (pause, event) in events {
            now += ms(pause);
            net.run(now);
            net.now = net.now.max(now);
            net.ends[0].on_path(now, &event);
        }
        let limit = at(3_600_000);
        let alive = net.run_while(limit, |net| !(net.ends[0].is_closed() && net.ends[1].is_closed()));
        prop_assert!(alive && net.now < limit, "stuck at {}: {:?}", net.now, net.ends[0]);
        prop_assert_eq!(net.ends[1].delivered(), bytes);
        prop_assert_eq!(net.ends[0].acknowledged(), bytes);
    }
}

/// A sender whose timeout has grown beyond the time between two silences still gets its timeout: the timer
/// keeps what is left of it over a silence. (Begun anew at each end of one, it never fired.)
#[test]
fn silences_that_come_more_often_than_the_timeout_do_not_stop_a_sender_for_good() {
    let mut net = net(Congestion::TpCrahn);
    net.run(at(1000));
    // The link is dead for 4 s, so that the timeout doubles several times.
    net.hook = Box::new(|now, _, _, _| if now < at(5000) { Fate::Drop } else { Fate::Pass });
    for cycle in 0..40_u64 {
        let start = 1000 + 500 * cycle;
        let sensing = PathEvent::SensingStarted { node: 0, until: at(start + 100), room: None };
        net.ends[0].on_path(at(start), &sensing);
        net.run(at(start + 500));
        if cycle == 7 {
            assert!(net.ends[0].stats().rto_events >= 2, "the timeout grows");
        }
    }
    // 21 s in all; after the timeout that follows 5 s it goes on.
    let sent = net.ends[0].stats().data_segments_sent;
    net.run(at(22_000));
    assert!(net.ends[0].stats().data_segments_sent > sent + 50, "{sent}");
}
