//! The flow table: its size and evictions, and what a flow learns from the segments that pass.

use super::*;
use crate::packet::{Endpoint, SynOptions};

fn key(n: u16) -> FlowKey {
    let addr = IpAddr::from([10, 0, 0, 1]);
    FlowKey {
        correspondent: Endpoint { addr, port: 80 },
        station: Endpoint { addr: IpAddr::from([10, 0, 1, 1]), port: n },
    }
}

fn add(table: &mut FlowTable, n: u16) -> u32 {
    match table.touch(&key(n), StationId(0)) {
        Touched::Known(slot) | Touched::New(slot) => slot,
        Touched::Full => panic!("full"),
    }
}

#[test]
fn a_flow_takes_at_most_512_bytes() {
    let size = core::mem::size_of::<Flow>();
    // The hash table keeps a 4-byte slot and a control byte at a load of at least 7/16; the free list 4 more.
    assert!(size + 16 <= 512, "{size} bytes");
}

#[test]
fn the_longest_idle_flow_makes_room() {
    let mut table = FlowTable::new(3, 7);
    for n in 0..3 {
        add(&mut table, n);
    }
    add(&mut table, 0);
    assert_eq!(table.touch(&key(9), StationId(0)), Touched::Full);
    let oldest = table.oldest().unwrap();
    assert_eq!(table.get(oldest).unwrap().key, key(1));
    table.remove(oldest);
    assert_eq!(table.find(&key(1)), None);
    assert!(matches!(table.touch(&key(9), StationId(0)), Touched::New(slot) if slot == oldest));
    assert_eq!(table.len(), 3);
    // 2, then 0, then 9 are left in order of idleness.
    for n in [2, 0, 9] {
        let oldest = table.oldest().unwrap();
        assert_eq!(table.get(oldest).unwrap().key, key(n));
        table.remove(oldest);
    }
    assert_eq!((table.len(), table.oldest()), (0, None));
}

#[test]
fn a_busy_flow_is_not_evicted_before_an_idle_one_that_is_nearly_as_old() {
    let mut table = FlowTable::new(4, 7);
    for n in 0..4 {
        add(&mut table, n);
    }
    let busy = table.find(&key(0)).unwrap();
    table.at(busy).held = 1;
    let oldest = table.oldest().unwrap();
    assert_eq!(table.get(oldest).unwrap().key, key(1));
}

fn syn(flags: TcpFlags, scale: Option<u8>) -> TcpSegment {
    TcpSegment {
        flags,
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
        let mut flow = Flow::new(key(1), 0, 0, StationId(0));
        let (ask, reply) = (syn(TcpFlags::SYN, first), syn(answer, second));
        if down_first {
            flow.on_downlink(&ask);
            assert_eq!(flow.shift_of(&TcpSegment::default()), None);
            flow.on_uplink(&reply);
        } else {
            flow.on_uplink(&ask);
            flow.on_downlink(&reply);
        }
        assert_eq!(flow.scale, expected, "{down_first} {first:?} {second:?}");
        assert!(flow.sack());
    }
}

#[test]
fn a_flow_seen_from_the_middle_has_no_window_in_bytes() {
    let mut flow = Flow::new(key(1), 0, 0, StationId(0));
    flow.on_uplink(&TcpSegment { flags: TcpFlags::ACK, window: 100, ack: Seq(5), ..TcpSegment::default() });
    flow.on_downlink(&TcpSegment { seq: Seq(5), payload_len: 60_000, ..TcpSegment::default() });
    assert!(flow.scale == Scale::Unknown && !flow.is_window_used_up(1448));
}

#[test]
fn an_old_ack_does_not_bring_its_old_window_back() {
    let mut flow = Flow::new(key(1), 0, 0, StationId(0));
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
        let mut flow = Flow::new(key(1), 0, 0, StationId(0));
        flow.on_downlink(&TcpSegment { flags: both, ..TcpSegment::default() });
        flow.on_uplink(&TcpSegment { flags: reply, ..TcpSegment::default() });
        assert_eq!(flow.ecn, expected);
    }
}

#[test]
fn duplicate_acks_say_that_data_has_left_the_radio() {
    let mut flow = Flow::new(key(1), 0, 0, StationId(0));
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
