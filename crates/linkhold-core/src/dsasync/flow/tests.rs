//! What a flow learns from the segments that pass.

use core::net::IpAddr;

use super::super::handshake::Scale;
use super::*;
use crate::packet::{Endpoint, SackBlock, SynOptions};

fn flow() -> Flow {
    let end = |last, port| Endpoint { addr: IpAddr::from([10, 0, last, 1]), port };
    Flow::new(FlowKey { correspondent: end(0, 80), station: end(1, 1) }, StationId(0))
}

fn syn(flags: TcpFlags, scale: Option<u8>) -> TcpSegment {
    TcpSegment {
        flags,
        ack: Seq(1),
        window: 2000,
        syn: SynOptions { mss: Some(1460), window_scale: scale, sack_permitted: true },
        ..TcpSegment::default()
    }
}

#[test]
fn the_window_scale_is_learnt_from_either_order_of_the_handshake() {
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    // (first SYN goes down?, its scale, the answer's scale, shift of the station's windows)
    let table = [
        (true, Some(3), Some(7), Scale::Known(7)),
        (true, None, None, Scale::Known(0)),
        (true, Some(3), None, Scale::Known(0)),
        (false, Some(7), Some(3), Scale::Known(7)),
        (false, Some(7), None, Scale::Known(0)),
        (false, None, None, Scale::Known(0)),
        (false, Some(15), Some(3), Scale::Known(14)),
    ];
    for (down_first, first, second, expected) in table {
        let mut flow = flow();
        let (ask, reply) = (syn(TcpFlags::SYN, first), syn(answer, second));
        if down_first {
            flow.on_downlink(&ask);
            assert_eq!(flow.handshake.shift_of(&TcpSegment::default()), None);
            flow.on_uplink(&reply);
        } else {
            flow.on_uplink(&ask);
            flow.on_downlink(&reply);
        }
        assert_eq!(flow.handshake.scale, expected, "{down_first} {first:?} {second:?}");
        assert!(flow.handshake.sack());
    }
}

#[test]
fn a_flow_seen_from_the_middle_has_no_window_in_bytes() {
    let mut flow = flow();
    flow.on_uplink(&TcpSegment { flags: TcpFlags::ACK, window: 100, ack: Seq(5), ..TcpSegment::default() });
    flow.on_downlink(&TcpSegment { seq: Seq(5), payload_len: 60_000, ..TcpSegment::default() });
    assert!(flow.handshake.scale == Scale::Unknown && !flow.is_window_used_up(1448));
}

#[test]
fn an_old_ack_does_not_bring_its_old_window_back() {
    let mut flow = flow();
    let ack =
        |ack, window| TcpSegment { flags: TcpFlags::ACK, ack: Seq(ack), window, ..TcpSegment::default() };
    flow.on_uplink(&ack(2000, 10));
    flow.on_uplink(&ack(1000, 500));
    assert_eq!((flow.acked, flow.offer), (Some(Seq(2000)), 10));
}

#[test]
fn ecn_counts_only_when_the_answer_agrees() {
    let both = TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR;
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    for (reply, expected) in [(answer | TcpFlags::ECE, true), (answer, false)] {
        let mut flow = flow();
        flow.on_downlink(&TcpSegment { flags: both, ..TcpSegment::default() });
        flow.on_uplink(&TcpSegment { flags: reply, ack: Seq(1), ..TcpSegment::default() });
        assert_eq!(flow.handshake.ecn == EcnEcho::Idle, expected);
    }
}

#[test]
fn duplicate_acks_say_that_data_has_left_the_radio() {
    let mut flow = flow();
    let ack = |ack| TcpSegment { flags: TcpFlags::ACK, ack: Seq(ack), window: 100, ..TcpSegment::default() };
    flow.on_downlink(&TcpSegment { seq: Seq(1000), payload_len: 1000, ..TcpSegment::default() });
    flow.on_uplink(&ack(1000));
    flow.down_sent = Some(Seq(11_000));
    // (ACK number, bytes in the radio after it)
    let table = [
        (2000, 9000),
        (2000, 8000),
        (2000, 7000),
        (5000, 6000),
        (9000, 2000),
        (9000, 1000),
        (9000, 0),
        (9000, 0),
    ];
    for (step, (number, expected)) in table.into_iter().enumerate() {
        flow.on_uplink(&ack(number));
        assert_eq!(flow.outstanding(), expected, "step {step}");
    }
    flow.down_sent = Some(Seq(12_000));
    assert_eq!(flow.outstanding(), 1000, "what is sent later is in the radio");
}

#[test]
fn a_forged_handshake_changes_nothing_and_an_answered_one_begins_anew() {
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    let numbered = |flags, seq, ack, scale| TcpSegment { seq: Seq(seq), ack: Seq(ack), ..syn(flags, scale) };
    let mut flow = flow();
    assert!(flow.on_downlink(&numbered(TcpFlags::SYN, 100, 0, Some(3))));
    // A SYN-ACK from nowhere, before the real one: it answers another number.
    assert!(!flow.on_uplink(&numbered(answer, 900, 777, Some(14))));
    assert!(flow.on_uplink(&numbered(answer, 500, 101, Some(7))));
    let data = TcpSegment { seq: Seq(101), ack: Seq(501), payload_len: 1000, ..syn(TcpFlags::ACK, None) };
    let ack = TcpSegment { seq: Seq(501), ack: Seq(1101), window: 9, ..syn(TcpFlags::ACK, None) };
    flow.on_downlink(&data);
    flow.on_uplink(&ack);
    let known = |flow: &Flow| {
        (flow.handshake.scale, flow.acked, flow.offer, flow.up_next, flow.down_max, flow.is_answered())
    };
    let before = known(&flow);
    assert_eq!(before, (Scale::Known(7), Some(Seq(1101)), 9, Some(Seq(501)), Some(Seq(1101)), true));
    // (flags, number, acknowledged, downlink): wrong numbers, right ones, and copies with another scale.
    for (flags, seq, ack, downlink) in [
        (answer, 1, 1, false),
        (answer, 500, 101, false),
        (answer, 3, 1101, true),
        (TcpFlags::SYN, 100, 0, true),
        (TcpFlags::SYN, 7, 0, true),
        (TcpFlags::SYN, 9, 0, false),
        (answer, 8, 8, true),
    ] {
        let forged = numbered(flags, seq, ack, Some(0));
        let believed = if downlink { flow.on_downlink(&forged) } else { flow.on_uplink(&forged) };
        assert!(!believed && known(&flow) == before, "{flags:?} {seq} {ack} {downlink}: {flow:?}");
    }
    // The other end answers a SYN on the same ports: a new connection.
    assert!(!flow.on_uplink(&numbered(TcpFlags::SYN, 70_000, 0, Some(5))));
    assert!(flow.on_downlink(&numbered(answer, 80_000, 70_001, Some(2))));
    assert_eq!(flow.handshake.scale, Scale::Known(5));
    assert_eq!((flow.up_next, flow.down_max, flow.acked), (Some(Seq(70_001)), Some(Seq(80_001)), None));
}

#[test]
fn what_is_forged_between_two_syns_does_not_outlive_the_answer() {
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    let numbered = |flags, seq, ack, scale| TcpSegment { seq: Seq(seq), ack: Seq(ack), ..syn(flags, scale) };
    let data = TcpSegment { payload_len: 1000, ..numbered(TcpFlags::ACK, 1 << 30, 101, None) };
    let signed = TcpSegment { signed: true, ..numbered(TcpFlags::ACK, 1 << 30, 101, None) };
    let reset = |flags, seq, ack| numbered(TcpFlags::RST | flags, seq, ack, None);
    // (from the correspondent?, the forged segment, whether it is believed until the answer comes)
    let table = [
        (false, numbered(answer, 900, 777, Some(14)), false),
        (true, numbered(answer, 900, 777, None), false),
        (true, numbered(TcpFlags::SYN, 1 << 30, 0, None), false),
        (false, numbered(TcpFlags::SYN, 1 << 30, 0, Some(14)), false),
        (true, data, true),
        (true, signed, true),
        (false, TcpSegment { ack: Seq(7), ..signed }, true),
        (true, TcpSegment { flags: TcpFlags::default(), ..signed }, true),
        (true, numbered(TcpFlags::ACK | TcpFlags::FIN, 9, 101, None), true),
        (true, reset(TcpFlags::ACK, 0, 777), false),
        (true, reset(TcpFlags::default(), 0, 101), false),
        (false, reset(TcpFlags::default(), 102, 0), false),
    ];
    for (downlink, forged, expected) in table {
        let mut flow = flow();
        assert!(flow.on_uplink(&numbered(TcpFlags::SYN, 100, 0, Some(7))));
        let believed = if downlink { flow.on_downlink(&forged) } else { flow.on_uplink(&forged) };
        assert_eq!(believed, expected, "{forged:?}");
        assert!(flow.on_downlink(&numbered(answer, 500, 101, Some(3))), "{forged:?}");
        assert_eq!(flow.handshake.scale, Scale::Known(7), "{forged:?}");
        assert_eq!((flow.down_max, flow.up_next), (Some(Seq(501)), Some(Seq(101))), "{forged:?}");
        assert!(!flow.has_data && !flow.signed && flow.ending == Ending::None, "{forged:?}");
    }
}

/// Whatever came before: each of the latest SYNs may be the real one, and so may be that which came first.
#[test]
fn a_syn_that_is_answered_counts_whatever_other_syns_came() {
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    let numbered = |flags, seq, ack, scale| TcpSegment { seq: Seq(seq), ack: Seq(ack), ..syn(flags, scale) };
    for real in 0..5 {
        for crossing in [false, true] {
            let mut flow = flow();
            for number in 0..5 {
                let tcp = numbered(TcpFlags::SYN, 1000 * number, 0, Some(number as u8));
                let downlink = crossing && number != real;
                if downlink {
                    flow.on_downlink(&tcp)
                } else {
                    flow.on_uplink(&tcp)
                };
            }
            assert!(flow.on_downlink(&numbered(answer, 500, 1000 * real + 1, Some(3))), "{real} {crossing}");
            assert_eq!(flow.handshake.scale, Scale::Known(real as u8), "{real} {crossing}");
            assert_eq!((flow.down_max, flow.up_next), (Some(Seq(501)), Some(Seq(1000 * real + 1))));
        }
    }
}

/// A SYN that is refused, or given up by its own end, is over.
#[test]
fn a_reset_with_the_right_number_ends_what_has_not_begun() {
    let numbered = |flags, seq, ack| TcpSegment { seq: Seq(seq), ack: Seq(ack), ..syn(flags, None) };
    for (downlink, reset) in
        [(true, numbered(TcpFlags::RST | TcpFlags::ACK, 0, 101)), (false, numbered(TcpFlags::RST, 101, 0))]
    {
        let mut flow = flow();
        assert!(flow.on_uplink(&numbered(TcpFlags::SYN, 100, 0)));
        assert!(if downlink { flow.on_downlink(&reset) } else { flow.on_uplink(&reset) }, "{reset:?}");
        assert!(flow.is_over(), "{reset:?}");
    }
}

/// A connection on which the station has offered what comes before 3,301, and has been sent what comes before
/// 2,101.
fn under_way() -> Flow {
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    let mut flow = flow();
    flow.on_uplink(&TcpSegment { seq: Seq(500), ..syn(TcpFlags::SYN, Some(1)) });
    flow.on_downlink(&TcpSegment { seq: Seq(100), ack: Seq(501), ..syn(answer, Some(1)) });
    flow.on_uplink(&TcpSegment {
        seq: Seq(501),
        ack: Seq(101),
        window: 1600,
        payload_len: 200,
        ..syn(TcpFlags::ACK, None)
    });
    flow.on_downlink(&TcpSegment {
        seq: Seq(101),
        ack: Seq(601),
        payload_len: 2000,
        ..syn(TcpFlags::ACK, None)
    });
    assert_eq!((flow.down_max, flow.up_next), (Some(Seq(2101)), Some(Seq(701))));
    flow
}

#[test]
fn data_beyond_what_the_station_offered_is_not_believed() {
    // (number, bytes, believed); the offer counts units of two bytes.
    let table = [(2101, 1200, true), (2101, 1202, true), (2101, 1203, false), (1 << 30, 1448, false)];
    for (seq, payload_len, believed) in table {
        let mut flow = under_way();
        let data = TcpSegment { seq: Seq(seq), ack: Seq(601), payload_len, ..syn(TcpFlags::ACK, None) };
        assert_eq!(flow.on_downlink(&data), believed, "{seq} {payload_len}");
        let expected = if believed { seq + payload_len } else { 2101 };
        assert_eq!(flow.down_max, Some(Seq(expected)));
    }
    // Where the scale is not known it may be the largest, and before the first ACK nothing is known.
    let mut middle = flow();
    assert!(middle.on_downlink(&TcpSegment { seq: Seq(9), payload_len: 1, ..syn(TcpFlags::ACK, None) }));
    middle.on_uplink(&TcpSegment { ack: Seq(10), window: 2, ..syn(TcpFlags::ACK, None) });
    let end_at = |end: u32| TcpSegment { seq: Seq(end - 100), payload_len: 100, ..syn(TcpFlags::ACK, None) };
    assert!(middle.on_downlink(&end_at(10 + (3 << 14))));
    assert!(!middle.on_downlink(&end_at(10 + (3 << 14) + 1)));
}

#[test]
fn a_reset_counts_only_with_a_number_that_its_receiver_can_take() {
    // (from the correspondent?, number, believed)
    let table = [
        (true, 0, false),
        (true, 100, false),
        (true, 101, true),
        (true, 2101, true),
        (true, 2102, false),
        (false, 600, false),
        (false, 601, true),
        (false, 701, true),
        (false, 702, false),
    ];
    for (downlink, seq, believed) in table {
        let mut flow = under_way();
        let reset = TcpSegment { seq: Seq(seq), ..syn(TcpFlags::RST, None) };
        assert_eq!(
            if downlink { flow.on_downlink(&reset) } else { flow.on_uplink(&reset) },
            believed,
            "{seq}"
        );
        assert_eq!(flow.is_over(), believed, "{downlink} {seq}");
    }
    // A SYN that is refused has no connection to lie in.
    let mut refused = flow();
    refused.on_uplink(&syn(TcpFlags::SYN, None));
    assert!(refused.on_downlink(&syn(TcpFlags::RST | TcpFlags::ACK, None)) && refused.is_over());
}

#[test]
fn a_signature_and_an_acknowledgment_from_nowhere_are_not_believed() {
    let mut flow = under_way();
    let forged = TcpSegment { seq: Seq(1 << 30), ack: Seq(601), signed: true, ..syn(TcpFlags::ACK, None) };
    flow.on_downlink(&forged);
    flow.on_downlink(&TcpSegment { seq: Seq(2101), ack: Seq(702), ..syn(TcpFlags::ACK, None) });
    assert_eq!((flow.signed, flow.correspondent_acked()), (false, Some(Seq(601))));
    flow.on_downlink(&TcpSegment { seq: Seq(2101), ack: Seq(701), signed: true, ..syn(TcpFlags::ACK, None) });
    assert_eq!((flow.signed, flow.correspondent_acked()), (true, Some(Seq(701))));
}

/// One forged segment would otherwise give every ACK that we make up a number that the correspondent ignores.
#[test]
fn what_the_station_cannot_have_sent_is_not_believed() {
    // The fields count units of two bytes, rounded down: what they say may reach one byte further.
    let (up_edge, down_edge) = (601 + (40_000 << 1) + 1, 101 + (1600 << 1) + 1);
    for (seq, payload_len, ack, believed) in [
        (601, 100, 2101, true),
        (up_edge, 1, 2101, true),
        (up_edge, 2, 2101, false),
        (1 << 30, 0, 2101, false),
        (601, 0, down_edge + 1, true),
        (601, 0, down_edge + 2, false),
        (601, 0, 1 << 30, false),
    ] {
        let mut flow = under_way();
        flow.on_downlink(&TcpSegment {
            seq: Seq(2101),
            ack: Seq(601),
            window: 40_000,
            ..syn(TcpFlags::ACK, None)
        });
        let (before, up_next) = (flow.acked, flow.up_next);
        let tcp = TcpSegment { seq: Seq(seq), payload_len, ack: Seq(ack), ..syn(TcpFlags::ACK, None) };
        assert_eq!(flow.on_uplink(&tcp), believed, "{seq} {payload_len} {ack}");
        if !believed {
            assert_eq!((flow.acked, flow.up_next), (before, up_next), "{seq} {payload_len} {ack}");
        }
    }
}

/// Where the driver cannot keep up, packets go past the agent unseen.
#[test]
fn a_connection_of_which_more_than_a_window_went_unseen_is_followed_again() {
    let mut flow = under_way();
    let far = 1 << 28;
    let plain = syn(TcpFlags::ACK, None);
    let data = TcpSegment { seq: Seq(far), payload_len: 1000, ack: Seq(601), ..plain };
    assert!(!flow.on_downlink(&data));
    assert!(
        !flow.on_uplink(&TcpSegment { seq: Seq(601), ack: Seq(far + 1001), ..plain }),
        "nobody sent that"
    );
    assert!(flow.on_uplink(&TcpSegment { seq: Seq(601), ack: Seq(far + 1000), window: 1000, ..plain }));
    assert_eq!(flow.acked, Some(Seq(far + 1000)));
    assert!(flow.on_downlink(&TcpSegment {
        seq: Seq(far + 1000),
        payload_len: 1000,
        ack: Seq(601),
        ..plain
    }));
    // And the other way.
    let up = TcpSegment { seq: Seq(far), payload_len: 100, ack: Seq(far + 1000), ..plain };
    assert!(!flow.on_uplink(&up));
    flow.on_downlink(&TcpSegment { seq: Seq(far + 2000), ack: Seq(far + 100), window: 1000, ..plain });
    assert_eq!(flow.correspondent_acked(), Some(Seq(far + 100)));
    assert!(flow.on_uplink(&TcpSegment { seq: Seq(far + 100), ..up }));
}

/// The first data of a connection that the correspondent opened comes before the station acknowledges any.
#[test]
fn who_acknowledges_the_stations_syn_ack_is_somebody_and_so_is_the_station() {
    let numbered = |flags, seq, ack| TcpSegment { seq: Seq(seq), ack: Seq(ack), ..syn(flags, None) };
    let acks = |ack, payload_len| TcpSegment { payload_len, ..numbered(TcpFlags::ACK, 101, ack) };
    // (whether the station has answered the SYN, what comes down then, whether that makes it real)
    let table = [
        (true, acks(501, 0), true),
        (true, acks(501, 1000), true),
        (true, acks(500, 1000), false),
        (true, acks(502, 1000), false),
        (true, acks(0, 1000), false),
        (true, TcpSegment { flags: TcpFlags::default(), ..acks(501, 1000) }, false),
        (true, numbered(TcpFlags::SYN, 100, 0), false),
        (true, TcpSegment { flags: TcpFlags::ACK | TcpFlags::RST, ..acks(501, 0) }, false),
        (false, acks(501, 1000), false),
        (false, acks(0, 1000), false),
    ];
    for (answers, then, expected) in table {
        let mut flow = flow();
        flow.on_downlink(&numbered(TcpFlags::SYN, 100, 0));
        if answers {
            assert!(flow.on_uplink(&numbered(TcpFlags::SYN | TcpFlags::ACK, 500, 101)));
        }
        assert!(!flow.is_real());
        flow.on_downlink(&then);
        assert_eq!(flow.is_real(), expected, "{answers} {then:?}");
        assert!(!flow.is_answered());
    }
    let mut opened = flow();
    opened.on_uplink(&numbered(TcpFlags::SYN, 100, 0));
    opened.on_downlink(&numbered(TcpFlags::SYN | TcpFlags::ACK, 500, 101));
    assert!(!opened.is_real(), "a SYN may come from anybody's address");
    opened.on_uplink(&numbered(TcpFlags::ACK, 101, 501));
    assert!(opened.is_real());
}

#[test]
fn a_handshake_may_cross_and_a_syn_may_be_sent_again_with_another_number() {
    let answer = TcpFlags::SYN | TcpFlags::ACK;
    let numbered = |flags, seq, ack, scale| TcpSegment { seq: Seq(seq), ack: Seq(ack), ..syn(flags, scale) };
    let mut crossed = flow();
    assert!(crossed.on_downlink(&numbered(TcpFlags::SYN, 100, 0, Some(3))));
    assert!(!crossed.on_uplink(&numbered(TcpFlags::SYN, 500, 0, Some(7))), "not before it is answered");
    assert!(crossed.on_uplink(&numbered(answer, 500, 101, Some(7))));
    assert_eq!(crossed.handshake.scale, Scale::Known(7));
    let mut again = flow();
    assert!(again.on_uplink(&numbered(TcpFlags::SYN, 100, 0, Some(3))));
    assert!(!again.on_uplink(&numbered(TcpFlags::SYN, 900, 0, Some(7))), "not before it is answered");
    assert!(again.on_downlink(&numbered(answer, 4, 901, Some(1))));
    assert_eq!(again.handshake.scale, Scale::Known(7));
}

#[test]
fn copies_are_under_way_until_what_left_after_them_has_arrived() {
    let mut flow = flow();
    flow.on_downlink(&syn(TcpFlags::SYN, Some(0)));
    flow.on_uplink(&syn(TcpFlags::SYN | TcpFlags::ACK, Some(0)));
    let tells = |left: u32, right: u32| {
        let mut tcp =
            TcpSegment { flags: TcpFlags::ACK, ack: Seq(1000), window: 100, ..TcpSegment::default() };
        tcp.sack.push(SackBlock { left: Seq(left), right: Seq(right) });
        tcp
    };
    let hear = |flow: &mut Flow, tcp: &TcpSegment| {
        flow.on_uplink(tcp);
        flow.pass_holes(tcp);
        flow.outstanding()
    };
    flow.on_downlink(&TcpSegment { seq: Seq(1000), payload_len: 11_000, ..TcpSegment::default() });
    flow.on_uplink(&TcpSegment { flags: TcpFlags::ACK, ack: Seq(1000), ..TcpSegment::default() });
    flow.down_sent = Some(Seq(11_000));
    flow.watched = Some(Box::default());
    assert_eq!(hear(&mut flow, &tells(4000, 11_000)), 0, "what lies below has arrived or is lost");
    flow.sent_again(Seq(4000), 3000);
    assert_eq!(flow.outstanding(), 3000);
    flow.down_sent = Some(Seq(12_000));
    assert_eq!(flow.outstanding(), 4000);
    assert_eq!(hear(&mut flow, &tells(4000, 12_000)), 0, "what left after them is there");
}

#[test]
fn what_came_back_from_the_transmit_queue_is_not_what_is_acknowledged_next() {
    let mut flow = flow();
    flow.on_downlink(&syn(TcpFlags::SYN, Some(0)));
    flow.on_uplink(&syn(TcpFlags::SYN | TcpFlags::ACK, Some(0)));
    flow.on_downlink(&TcpSegment { seq: Seq(1000), payload_len: 5000, ..TcpSegment::default() });
    let acks = |ack| TcpSegment { flags: TcpFlags::ACK, ack: Seq(ack), window: 100, ..TcpSegment::default() };
    flow.on_uplink(&acks(1000));
    flow.down_sent = Some(Seq(6000));
    // The last three of five segments come back; the first two are on the air.
    for _ in 0..3 {
        flow.taken_back(1000);
    }
    assert_eq!(flow.outstanding(), 2000);
    flow.on_uplink(&acks(3000));
    assert_eq!(flow.outstanding(), 0, "three are here");
    flow.sent_again(Seq(4000), 1000);
    assert_eq!(flow.outstanding(), 1000);
    flow.on_uplink(&acks(4000));
    assert_eq!(flow.outstanding(), 0);
    flow.sent_again(Seq(5000), 1000);
    flow.sent_again(Seq(6000), 1000);
    assert_eq!(flow.outstanding(), 2000);
    flow.on_uplink(&acks(6000));
    assert_eq!(flow.outstanding(), 0);
}

/// Of a connection first seen in its middle anything is believed; what was made up does not stay.
#[test]
fn what_came_before_the_other_end_said_anything_is_doubted_once_it_does() {
    let plain = syn(TcpFlags::ACK, None);
    let far = 1 << 30;
    let forged = [
        TcpSegment { seq: Seq(5000 + far), ack: Seq(700), ..plain },
        TcpSegment { seq: Seq(5000 + far), ack: Seq(700), payload_len: 1000, ..plain },
        TcpSegment { seq: Seq(5000), ack: Seq(700 + far), ..plain },
    ];
    for tcp in forged {
        let run = |forged: Option<&TcpSegment>| {
            let mut flow = flow();
            if let Some(tcp) = forged {
                assert!(flow.on_downlink(tcp));
            }
            assert!(flow.on_uplink(&TcpSegment { seq: Seq(700), ack: Seq(5000), ..plain }));
            let data = TcpSegment { seq: Seq(5000), ack: Seq(700), payload_len: 1000, ..plain };
            assert!(flow.on_downlink(&data));
            let reset = TcpSegment { flags: TcpFlags::RST, seq: Seq(700), ..TcpSegment::default() };
            (flow.down_max, flow.correspondent_acked, flow.up_edge, flow.can_reset(&reset))
        };
        assert_eq!(run(Some(&tcp)), run(None), "{tcp:?}");
    }
    // What is right stays.
    let mut flow = flow();
    flow.on_downlink(&TcpSegment { seq: Seq(5000), ack: Seq(700), payload_len: 1000, ..plain });
    flow.on_uplink(&TcpSegment { seq: Seq(700), ack: Seq(5000), ..plain });
    assert_eq!((flow.down_max, flow.correspondent_acked), (Some(Seq(6000)), Some(Seq(700))));
}

#[test]
fn a_segment_that_was_not_believed_vouches_for_nothing_once_it_is_acknowledged() {
    let mut flow = under_way();
    let plain = syn(TcpFlags::ACK, None);
    let (far, window) = (1 << 28, 1000);
    // Packets went past us, both ways, and the connection is followed again.
    assert!(!flow.on_uplink(&TcpSegment { seq: Seq(far), payload_len: 100, ack: Seq(2101), ..plain }));
    flow.on_downlink(&TcpSegment { seq: Seq(2101), ack: Seq(far + 100), window, ..plain });
    assert_eq!(flow.correspondent_acked(), Some(Seq(far + 100)));
    // The upload goes on for half the sequence space and more.
    let mut next = Seq(far + 100);
    flow.on_downlink(&TcpSegment { seq: Seq(2101), ack: next, window: 60_000, ..plain });
    while next.minus(Seq(far + 100)) >= 0 {
        for _ in 0..1 << 10 {
            assert!(flow.on_uplink(&TcpSegment { seq: next, payload_len: 60_000, ack: Seq(2101), ..plain }));
            next += 60_000;
            flow.on_downlink(&TcpSegment { seq: Seq(2101), ack: next, window: 60_000, ..plain });
            assert_eq!(flow.correspondent_acked(), Some(next));
        }
    }
    flow.on_downlink(&TcpSegment { seq: Seq(2101), ack: next + far, window, ..plain });
    assert_eq!(flow.correspondent_acked(), Some(next), "nobody sent that");
}

#[test]
fn a_tick_is_new_once_though_an_older_segment_comes_in_between() {
    let mut flow = under_way();
    let segment = |seq: u32, value: u32| TcpSegment {
        seq: Seq(seq),
        payload_len: 100,
        ack: Seq(2101),
        timestamp: Some(TcpTimestamp { value, echo: 0 }),
        ..syn(TcpFlags::ACK, None)
    };
    let new = |flow: &mut Flow, seq, value| {
        assert!(flow.on_uplink(&segment(seq, value)));
        flow.new_tick
    };
    new(&mut flow, 701, 9);
    assert!(new(&mut flow, 901, 11));
    assert!(!new(&mut flow, 801, 10), "overtaken on its way");
    assert!(!new(&mut flow, 1001, 11));
    assert!(new(&mut flow, 1101, 12));
}

/// So much of a station's clock goes by in 36 minutes, if it counts microseconds.
#[test]
fn a_tick_is_new_after_a_pause_in_which_the_clock_went_more_than_halfway_round() {
    let mut flow = under_way();
    let mut is_new = |seq: u32, value: u32| {
        let timestamp = Some(TcpTimestamp { value, echo: 0 });
        let plain = syn(TcpFlags::ACK, None);
        let data = TcpSegment { seq: Seq(seq), payload_len: 100, ack: Seq(2101), timestamp, ..plain };
        assert!(flow.on_uplink(&data));
        flow.new_tick
    };
    is_new(701, 9);
    let late: u32 = 1000 + (1 << 31);
    assert!(is_new(801, late));
    assert!(!is_new(901, late));
    assert!(is_new(1001, late + 1));
    assert!(!is_new(901, late), "overtaken on its way");
}
