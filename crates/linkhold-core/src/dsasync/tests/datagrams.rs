//! Datagrams: held in a silence and behind what is held, dropped by age and quota, and nobody's window
//! closed.

use super::*;

const LEN: u32 = 1040;

impl Bench {
    fn datagram_of(
        &mut self,
        direction: Direction,
        origin: Origin,
        id: u64,
        port: u16,
        len: u32,
    ) -> (Verdict, Vec<Action>) {
        let key = key(port, false);
        let view = DatagramView {
            id: PacketId(id),
            direction,
            origin,
            station: StationId(u32::from(port) / 100 % 10),
            flow: &key,
            len,
            ecn: crate::packet::Ecn::NotEct,
        };
        let verdict = self.agent.on_datagram(self.now, &view, &mut self.out);
        (verdict, self.out.drain().collect())
    }

    fn datagram(&mut self, id: u64, port: u16) -> (Verdict, Vec<Action>) {
        self.datagram_of(Direction::Downlink, Origin::Arrival, id, port, LEN)
    }

    /// The station sends a datagram: from now on the flow is one that it takes part in.
    fn call(&mut self, port: u16) {
        assert_eq!(self.datagram_of(Direction::Uplink, Origin::Arrival, 9, port, LEN).0, FORWARD);
    }
}

/// A transmit queue that takes whatever is released.
fn roomy(config: &DsaSyncConfig) -> Bench {
    let mut b = Bench::new(config);
    b.room(100_000);
    b
}

fn discarded(actions: &[Action]) -> Vec<(u64, DropReason)> {
    let of = |action: &Action| match *action {
        Action::Discard { packet, reason } => Some((packet.0, reason)),
        _ => None,
    };
    actions.iter().filter_map(of).collect()
}

fn drops(b: &Bench, reason: DropReason) -> u64 {
    b.agent.metrics().dropped[reason as usize]
}

#[test]
fn a_datagram_waits_for_the_end_of_a_silence_of_its_station_and_leaves_in_order() {
    let mut b = roomy(&plain(Mode::FreezeNudge));
    assert_eq!(b.datagram(1, 1).0, FORWARD);
    b.at(1).freeze(Scope::Station(StationId(0)));
    assert_eq!(b.datagram(2, 1).0, Verdict::Hold);
    assert_eq!(b.datagram(3, 1).0, Verdict::Hold);
    // Another station's goes on, and so does what the silent one sends.
    assert_eq!(b.datagram(4, 101).0, FORWARD);
    b.call(1);
    assert!(b.agent.is_holding());
    assert_eq!(released(&b.at(300).thaw(Scope::Station(StationId(0)))), [2, 3]);
    assert_eq!(b.datagram(5, 1).0, FORWARD);
    let metrics = b.agent.metrics();
    assert_eq!((metrics.datagrams, metrics.datagram_holds, metrics.holds), (6, 2, 2));
    assert_eq!((metrics.packets, metrics.held_packets, metrics.held_bytes), (0, 0, 0));
}

#[test]
fn datagrams_pass_where_the_setting_says_so() {
    let mut b = roomy(&DsaSyncConfig { datagrams: Datagrams::Pass, ..plain(Mode::FreezeNudge) });
    b.freeze(Scope::Network);
    assert_eq!(b.datagram(1, 1).0, FORWARD);
    assert_eq!(b.datagram_of(Direction::Downlink, Origin::TransmitQueue, 1, 1, LEN).0, FORWARD);
    assert_eq!((b.agent.metrics().datagrams, b.agent.metrics().flows), (1, 0));
}

#[test]
fn a_connection_and_datagrams_between_the_same_ports_are_two_flows() {
    let mut b = roomy(&plain(Mode::FreezeNudge));
    b.open(1, 500);
    b.call(1);
    b.at(1).freeze(Scope::Network);
    assert_eq!(b.down(20, 1, 1000, MSS).0, Verdict::Hold);
    assert_eq!(b.datagram(30, 1).0, Verdict::Hold);
    assert_eq!(b.down(21, 1, 2000, MSS).0, Verdict::Hold);
    assert_eq!(b.agent.metrics().flows, 2);
    let mut left = released(&b.at(50).thaw(Scope::Network));
    assert_eq!(left.iter().filter(|&&id| id < 30).copied().collect::<Vec<_>>(), [20, 21]);
    left.sort_unstable();
    assert_eq!(left, [20, 21, 30]);
}

#[test]
fn what_waited_for_too_long_is_dropped_as_the_rest_leaves() {
    let config = DsaSyncConfig { datagram_max_age: Duration::from_millis(100), ..plain(Mode::FreezeNudge) };
    let mut b = roomy(&config);
    b.freeze(Scope::Network);
    for n in 0..5 {
        assert_eq!(b.at(n * 50).datagram(n, 1).0, Verdict::Hold);
    }
    // The one of 100 ms ago is exactly as old as it may be.
    let actions = b.at(200).thaw(Scope::Network);
    assert_eq!(discarded(&actions), [(0, DropReason::TooOld), (1, DropReason::TooOld)]);
    assert_eq!(released(&actions), [2, 3, 4]);
    assert_eq!((drops(&b, DropReason::TooOld), b.agent.metrics().held_bytes), (2, 0));
    // Segments have no age.
    b.open(2, 500);
    b.at(300).freeze(Scope::Network);
    let _ = b.down(20, 2, 1000, MSS);
    assert_eq!(released(&b.at(900).thaw(Scope::Network)), [20]);
}

#[test]
fn more_than_64_that_are_too_old_are_dropped_in_several_calls() {
    let config = DsaSyncConfig { datagram_max_age: Duration::from_millis(100), ..plain(Mode::FreezeNudge) };
    let mut b = roomy(&config);
    b.call(1);
    b.freeze(Scope::Network);
    for n in 0..200 {
        let _ = b.datagram(n, 1);
    }
    assert_eq!(b.at(150).datagram(500, 1).0, Verdict::Hold);
    let mut actions = b.at(200).thaw(Scope::Network);
    assert_eq!(discarded(&actions).len(), MOST_DROPS as usize);
    while b.agent.next_timeout().is_some_and(|at| at <= b.now) {
        actions.extend(b.timeout());
    }
    assert_eq!((discarded(&actions).len(), released(&actions)), (200, vec![500]));
}

#[test]
fn what_exceeds_the_quota_drops_the_oldest_of_the_longest_queue() {
    let config = DsaSyncConfig { datagram_quota: Bytes(u64::from(LEN) * 5), ..plain(Mode::FreezeNudge) };
    let mut b = roomy(&config);
    b.call(1);
    b.call(2);
    b.freeze(Scope::Network);
    assert_eq!(b.datagram(1, 1).0, Verdict::Hold);
    for id in 10..14 {
        assert_eq!(b.datagram(id, 2).0, Verdict::Hold);
    }
    // The hog loses its own; the other gets in and loses nothing.
    let (verdict, actions) = b.datagram(14, 2);
    assert_eq!((verdict, discarded(&actions)), (Verdict::Hold, vec![(10, DropReason::BufferFull)]));
    let (verdict, actions) = b.datagram(2, 1);
    assert_eq!((verdict, discarded(&actions)), (Verdict::Hold, vec![(11, DropReason::BufferFull)]));
    let mut left = released(&b.at(10).thaw(Scope::Network));
    left.sort_unstable();
    assert_eq!(left, [1, 2, 12, 13, 14]);
}

#[test]
fn flows_that_nobody_answers_share_a_queue_and_an_eighth_of_the_quota() {
    let config = DsaSyncConfig { datagram_quota: Bytes(u64::from(LEN) * 32), ..plain(Mode::FreezeNudge) };
    let mut b = roomy(&config);
    b.call(1);
    b.freeze(Scope::Network);
    for n in 0..20 {
        assert_eq!(b.datagram(u64::from(n), 2 + n).0, Verdict::Hold);
        assert_eq!(b.datagram(100 + u64::from(n), 1).0, Verdict::Hold);
    }
    let left = released(&b.at(10).thaw(Scope::Network));
    let strangers: Vec<u64> = left.iter().copied().filter(|&id| id < 100).collect();
    assert_eq!(strangers, [16, 17, 18, 19]);
    assert_eq!((left.len(), drops(&b, DropReason::BufferFull)), (24, 16));
    // A turn each: the flood had one queue's.
    assert!(left[..8].iter().filter(|&&id| id < 100).count() <= 4, "{left:?}");
}

/// Datagrams fill their quota, and connections have what they had: none is told to stop, and the levels of
/// free space are as if the datagrams were not there.
#[test]
fn datagrams_close_no_window() {
    let config = DsaSyncConfig { datagram_quota: Bytes(3 * u64::from(LEN)), ..tight(Mode::FreezeNudge) };
    let mut b = roomy(&config);
    b.open(1, 60_000);
    b.call(2);
    b.at(1).freeze(Scope::Network);
    for id in 0..50 {
        let _ = b.datagram(100 + id, 2);
    }
    assert_eq!(b.agent.metrics().held_bytes, 3 * u64::from(LEN));
    // `tight` closes at the fourth segment that is held. The second and third push datagrams out: B_alloc is
    // full, and no connection's queue is longer.
    let _ = b.down(20, 1, 1000, MSS);
    let _ = b.down(21, 1, 2000, MSS);
    assert_eq!(b.agent.metrics().windows_closed, 0);
    assert!(b.agent.metrics().held_bytes <= config.b_alloc.0);
    let actions = b.at(20).thaw(Scope::Network);
    assert_eq!(released(&actions).iter().filter(|&&id| id < 100).count(), 2);
}

#[test]
fn a_datagram_waits_for_its_turn_where_the_router_s_queue_is_kept_short() {
    let config = DsaSyncConfig { transmit_queue: Duration::from_millis(2), ..plain(Mode::FreezeNudge) };
    let mut b = Bench::new(&config);
    told(&mut b);
    b.open(1, 60_000);
    b.call(1);
    // A packet takes 1 ms; 2 ms may lie below, and half as much again.
    b.at(100);
    let verdicts: Vec<Verdict> = (0..8).map(|id| b.datagram(id, 1).0).collect();
    assert_eq!(verdicts.iter().filter(|&&verdict| verdict == FORWARD).count(), 3);
    // What went down counts for segments, too.
    assert_eq!(b.down(20, 1, 1000, MSS).0, Verdict::Hold);
    let mut left = Vec::new();
    for millis in 101..110 {
        left.extend(released(&b.at(millis).timeout()));
    }
    assert_eq!(left.len(), 6);
    // The connection had its turn long before the datagrams that came first were through.
    assert!(left.iter().position(|&id| id == 20).is_some_and(|at| at <= 2), "{left:?}");
}

/// It has no sequence numbers, but it is not an ACK without data.
#[test]
fn a_datagram_of_a_flow_that_its_station_answers_waits_at_the_gate() {
    let (mut b, first) = super::round_trips::behind_a_queue(&[]);
    b.at(1601).call(106);
    for n in 0..250 {
        let _ = b.at(1602).down(100, 101, first + n * MSS, MSS);
    }
    assert_eq!(b.datagram(500, 106).0, Verdict::Hold);
}

#[test]
fn what_comes_back_from_the_transmit_queue_goes_to_the_front() {
    let mut b = roomy(&DsaSyncConfig { reclaim: true, ..plain(Mode::FreezeNudge) });
    for id in 1..4 {
        assert_eq!(b.datagram(id, 1).0, FORWARD);
    }
    assert_eq!(b.at(1).freeze(Scope::Network), [Action::Reclaim { scope: Scope::Network }]);
    for id in [3, 2] {
        assert_eq!(b.datagram_of(Direction::Downlink, Origin::TransmitQueue, id, 1, LEN).0, Verdict::Hold);
    }
    assert_eq!(b.datagram(4, 1).0, Verdict::Hold);
    assert_eq!(b.agent.metrics().datagrams, 4);
    assert_eq!(released(&b.at(5).thaw(Scope::Network)), [2, 3, 4]);
}

#[test]
fn datagrams_from_ever_new_ports_evict_no_connection() {
    let mut b = roomy(&DsaSyncConfig { max_flows: 8, ..plain(Mode::FreezeNudge) });
    b.open(1, 500);
    b.at(1).freeze(Scope::Network);
    assert_eq!(b.down(20, 1, 1000, MSS).0, Verdict::Hold);
    let mut gone = Vec::new();
    for n in 0..10u16 {
        let (verdict, actions) = b.datagram(100 + u64::from(n), 10 + n);
        assert_eq!(verdict, Verdict::Hold);
        gone.extend(discarded(&actions));
    }
    assert_eq!(gone, (100..108).map(|id| (id, DropReason::FlowEvicted)).collect::<Vec<_>>());
    assert_eq!(b.agent.metrics().flows, 3);
    assert_eq!(released(&b.at(9).thaw(Scope::Network)), [20, 108, 109]);
}

#[test]
fn a_flush_lets_every_datagram_go_however_old() {
    let mut b = roomy(&plain(Mode::FreezeNudge));
    b.freeze(Scope::Network);
    for id in 0..3 {
        let _ = b.datagram(id, 1);
    }
    b.at(60_000);
    b.agent.flush(b.now, &mut b.out);
    let actions: Vec<Action> = b.out.drain().collect();
    assert_eq!(released(&actions), [0, 1, 2]);
    assert!(!b.agent.is_holding() && b.agent.metrics().held_bytes == 0);
}
