//! Dialogues with the mechanism: what it is told, and which commands it gives.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::link_event::Scope;
use crate::packet::{Direction, Ecn, Endpoint, FlowKey, Origin, PacketId, StationId, TcpSegment};
use crate::units::Seq;

const MS: fn(u64) -> Instant = Instant::from_millis;

fn key(n: u16) -> FlowKey {
    let end = |addr: [u8; 4], port| Endpoint { addr: addr.into(), port };
    FlowKey { correspondent: end([192, 0, 2, 1], 5001), station: end([10, 0, 0, 2], n) }
}

fn small() -> CrAware {
    let max_freeze = Duration::from_millis(1000);
    CrAware::new(&CrAwareConfig { max_freeze, max_flows: 3, ..CrAwareConfig::default() })
}

/// The commands of one call, as (flow's number, frozen).
fn commands(out: &mut Actions) -> Vec<(u16, bool)> {
    let command = |action| match action {
        Action::Sender { flow, command } => (flow.station.port, command == SenderCommand::Freeze),
        other => panic!("it does nothing but command senders: {other:?}"),
    };
    out.drain().map(command).collect()
}

fn packet(mechanism: &mut CrAware, at: u64, flow: u16, flags: TcpFlags) -> Vec<(u16, bool)> {
    let tcp = TcpSegment { flags, ..TcpSegment::default() };
    segment(mechanism, at, flow, Direction::Uplink, tcp)
}

fn segment(
    mechanism: &mut CrAware,
    at: u64,
    flow: u16,
    direction: Direction,
    tcp: TcpSegment,
) -> Vec<(u16, bool)> {
    segment_of(mechanism, at, StationId(0), flow, direction, tcp)
}

fn segment_of(
    mechanism: &mut CrAware,
    at: u64,
    station: StationId,
    flow: u16,
    direction: Direction,
    tcp: TcpSegment,
) -> Vec<(u16, bool)> {
    let key = key(flow);
    let view = PacketView {
        id: PacketId(0),
        direction,
        origin: Origin::Arrival,
        station,
        flow: &key,
        tcp: &tcp,
        len: 40,
        ecn: Ecn::NotEct,
    };
    let mut out = Actions::new();
    assert_eq!(mechanism.on_packet(MS(at), &view, &mut out), Verdict::Forward(Rewrite::NONE));
    commands(&mut out)
}

fn link(mechanism: &mut CrAware, at: u64, kind: LinkEventKind) -> Vec<(u16, bool)> {
    let mut out = Actions::new();
    mechanism.on_link(MS(at), LinkEvent::at(MS(at), kind), &mut out);
    commands(&mut out)
}

fn timeout(mechanism: &mut CrAware, at: u64) -> Vec<(u16, bool)> {
    let mut out = Actions::new();
    mechanism.on_timeout(MS(at), &mut out);
    commands(&mut out)
}

const fn started(scope: Scope, cause: Cause) -> LinkEventKind {
    LinkEventKind::FreezeStarted { scope, cause, expected: None }
}

const fn ended(scope: Scope, cause: Cause) -> LinkEventKind {
    LinkEventKind::FreezeEnded { scope, cause }
}

#[test]
fn a_silence_freezes_every_sender_of_the_host_and_its_end_thaws_them() {
    let mut host = small();
    assert_eq!(packet(&mut host, 0, 1, TcpFlags::SYN), []);
    assert_eq!(packet(&mut host, 1, 2, TcpFlags::SYN), []);
    let (start, end) =
        (started(Scope::Network, Cause::PrimaryUser), ended(Scope::Network, Cause::PrimaryUser));
    assert_eq!(link(&mut host, 10, start), [(1, true), (2, true)]);
    assert_eq!(packet(&mut host, 11, 1, TcpFlags::ACK), [], "known and frozen already");
    assert_eq!(link(&mut host, 20, end), [(1, false), (2, false)]);
    assert_eq!(link(&mut host, 21, end), [], "an end that comes twice");
}

#[test]
fn overlapping_silences_end_with_the_last_of_them() {
    let mut host = small();
    packet(&mut host, 0, 1, TcpFlags::SYN);
    let own = Scope::Station(StationId(0));
    assert_eq!(link(&mut host, 10, started(Scope::Network, Cause::PrimaryUser)), [(1, true)]);
    assert_eq!(
        link(&mut host, 12, started(own, Cause::Sensing)),
        [(1, true)],
        "told again, and still frozen"
    );
    assert_eq!(link(&mut host, 15, ended(Scope::Network, Cause::PrimaryUser)), []);
    assert_eq!(link(&mut host, 18, ended(own, Cause::Sensing)), [(1, false)]);
}

/// A correspondent's connections go to several stations: flow 1 to station 0, flow 2 to station 1.
fn correspondent() -> CrAware {
    let mut host = small();
    for station in 0..2 {
        let tcp = TcpSegment { flags: TcpFlags::SYN, ..TcpSegment::default() };
        let flow = station + 1;
        let station = StationId(u32::from(station));
        assert_eq!(segment_of(&mut host, 0, station, flow, Direction::Uplink, tcp), []);
    }
    host
}

#[test]
fn at_the_correspondent_a_stations_silence_freezes_its_senders_and_no_others() {
    let mut host = correspondent();
    let [first, second] = [0, 1].map(|number| Scope::Station(StationId(number)));
    let cause = Cause::Sensing;
    assert_eq!(link(&mut host, 10, started(first, cause)), [(1, true)]);
    assert_eq!(link(&mut host, 20, started(second, cause)), [(2, true)]);
    assert_eq!(link(&mut host, 30, ended(first, cause)), [(1, false)], "the other one's goes on");
    assert_eq!(link(&mut host, 40, started(Scope::Network, cause)), [(1, true), (2, true)]);
    assert_eq!(link(&mut host, 50, ended(second, cause)), []);
    assert_eq!(link(&mut host, 60, ended(Scope::Network, cause)), [(1, false), (2, false)]);
    // Each one's longest freeze counts by itself.
    assert_eq!(link(&mut host, 100, started(first, cause)), [(1, true)]);
    assert_eq!(link(&mut host, 600, started(second, cause)), [(2, true)]);
    assert_eq!((timeout(&mut host, 1100), timeout(&mut host, 1600)), (vec![(1, false)], vec![(2, false)]));
    // A connection opens to the silent one, and to the other; then the silent one leaves.
    assert_eq!(link(&mut host, 2000, started(second, cause)), [(2, true)]);
    let syn = TcpSegment { flags: TcpFlags::SYN, ..TcpSegment::default() };
    assert_eq!(segment_of(&mut host, 2001, StationId(1), 3, Direction::Uplink, syn), [(3, true)]);
    let reset = TcpSegment { flags: TcpFlags::RST, seq: Seq(1), ..TcpSegment::default() };
    assert_eq!(segment_of(&mut host, 2002, StationId(1), 3, Direction::Uplink, reset), [(3, false)]);
    assert_eq!(segment_of(&mut host, 2003, StationId(0), 4, Direction::Uplink, syn), []);
    assert_eq!(link(&mut host, 2010, LinkEventKind::StationLeft { station: StationId(1) }), [(2, false)]);
    assert_eq!((host.next_timeout(), host.metrics().silences), (None, 6));
}

#[test]
fn a_silence_announced_freezes_also_behind_one_that_began_at_once() {
    // Without a length the first one cannot be the announced one, come early.
    let mut host = small();
    packet(&mut host, 0, 1, TcpFlags::SYN);
    let cause = Cause::PrimaryUser;
    let expected = Some(Duration::from_millis(200));
    let ahead = LinkEventKind::FreezeStarted { scope: Scope::Network, cause, expected };
    let mut out = Actions::new();
    host.on_link(MS(0), LinkEvent { detected_at: MS(0), effective_at: Some(MS(500)), kind: ahead }, &mut out);
    assert_eq!(link(&mut host, 100, started(Scope::Network, cause)), [(1, true)]);
    assert_eq!(link(&mut host, 200, ended(Scope::Network, cause)), [(1, false)]);
    assert_eq!((host.next_timeout(), timeout(&mut host, 500)), (Some(MS(500)), vec![(1, true)]));
    // The end that was planned is that of a silence that was not told again since.
    let end =
        LinkEvent { detected_at: MS(600), effective_at: Some(MS(900)), kind: ended(Scope::Network, cause) };
    host.on_link(MS(600), end, &mut out);
    assert_eq!(link(&mut host, 700, started(Scope::Network, cause)), [(1, true)]);
    assert_eq!((timeout(&mut host, 900), timeout(&mut host, 1700)), (vec![], vec![(1, false)]));
}

#[test]
fn a_silence_that_is_announced_freezes_when_it_begins() {
    let mut host = small();
    packet(&mut host, 0, 1, TcpFlags::SYN);
    let (start, end) =
        (started(Scope::Network, Cause::PrimaryUser), ended(Scope::Network, Cause::PrimaryUser));
    let announce = |host: &mut CrAware, at: u64, effective: u64, kind| {
        let mut out = Actions::new();
        let event = LinkEvent { detected_at: MS(at), effective_at: Some(MS(effective)), kind };
        host.on_link(MS(at), event, &mut out);
        commands(&mut out)
    };
    assert_eq!(announce(&mut host, 10, 500, start), []);
    assert_eq!(announce(&mut host, 20, 600, start), [], "said again, with another time");
    assert_eq!((timeout(&mut host, 500), host.next_timeout()), (vec![], Some(MS(600))));
    assert_eq!(timeout(&mut host, 600), [(1, true)]);
    assert_eq!(announce(&mut host, 610, 700, end), []);
    assert_eq!((timeout(&mut host, 690), timeout(&mut host, 700)), (vec![], vec![(1, false)]));
    // Called off; and one that comes before it was expected is the same.
    announce(&mut host, 800, 900, start);
    assert_eq!((link(&mut host, 850, end), host.next_timeout()), (vec![], None));
    announce(&mut host, 1000, 1100, start);
    let expected = Some(Duration::from_millis(200));
    let early = LinkEventKind::FreezeStarted { scope: Scope::Network, cause: Cause::PrimaryUser, expected };
    assert_eq!(link(&mut host, 1050, early), [(1, true)]);
    assert_eq!(link(&mut host, 1060, end), [(1, false)]);
    assert_eq!(host.next_timeout(), None);
}

#[test]
fn as_in_the_paper_only_a_primary_user_freezes() {
    let mut host = CrAware::new(&CrAwareConfig { trigger: Trigger::PrimaryUser, ..CrAwareConfig::default() });
    packet(&mut host, 0, 1, TcpFlags::SYN);
    assert_eq!(link(&mut host, 10, started(Scope::Network, Cause::Sensing)), []);
    assert_eq!(link(&mut host, 12, started(Scope::Network, Cause::PrimaryUser)), [(1, true)]);
    assert_eq!(link(&mut host, 15, ended(Scope::Network, Cause::Sensing)), []);
    assert_eq!(link(&mut host, 18, ended(Scope::Network, Cause::PrimaryUser)), [(1, false)]);
}

#[test]
fn a_connection_that_opens_in_a_silence_is_frozen_at_once() {
    let mut host = small();
    link(&mut host, 10, started(Scope::Network, Cause::Fade));
    assert_eq!(packet(&mut host, 11, 7, TcpFlags::SYN), [(7, true)]);
    assert_eq!(link(&mut host, 20, ended(Scope::Network, Cause::Fade)), [(7, false)]);
}

#[test]
fn a_freeze_that_nobody_ends_is_over_after_the_longest() {
    let mut host = small();
    packet(&mut host, 0, 1, TcpFlags::SYN);
    link(&mut host, 10, started(Scope::Network, Cause::Fade));
    assert_eq!(host.next_timeout(), Some(MS(1010)));
    assert_eq!(timeout(&mut host, 1009), [], "called early");
    assert_eq!(timeout(&mut host, 1010), [(1, false)]);
    assert_eq!(host.next_timeout(), None);
    assert_eq!(link(&mut host, 1500, ended(Scope::Network, Cause::Fade)), [], "the late end");
}

#[test]
fn the_longest_freeze_counts_from_the_last_word() {
    let mut host = small();
    packet(&mut host, 0, 1, TcpFlags::SYN);
    link(&mut host, 10, started(Scope::Network, Cause::Fade));
    assert_eq!(
        link(&mut host, 800, started(Scope::Network, Cause::Fade)),
        [(1, true)],
        "for the kernel's bound"
    );
    assert_eq!((host.next_timeout(), host.metrics().silences), (Some(MS(1800)), 1));
    assert_eq!(timeout(&mut host, 1010), [], "the first bound");
    assert_eq!(timeout(&mut host, 1800), [(1, false)]);
}

#[test]
fn a_frozen_connection_makes_no_room_and_one_that_ends_is_thawed() {
    let mut host = small();
    for flow in 1..=3 {
        packet(&mut host, u64::from(flow), flow, TcpFlags::SYN);
    }
    link(&mut host, 10, started(Scope::Network, Cause::Fade));
    for at in 11..20 {
        assert_eq!(packet(&mut host, at, 4 + (at % 3) as u16, TcpFlags::SYN), [], "there is no room");
    }
    assert_eq!(packet(&mut host, 22, 3, TcpFlags::RST), [], "not the number of the SYN that it ends");
    let reset = TcpSegment { flags: TcpFlags::RST, seq: Seq(1), ..TcpSegment::default() };
    assert_eq!(segment(&mut host, 22, 3, Direction::Uplink, reset), [(3, false)]);
    assert_eq!(packet(&mut host, 23, 4, TcpFlags::SYN), [(4, true)], "there is room");
    let mut left = link(&mut host, 30, ended(Scope::Network, Cause::Fade));
    left.sort_unstable();
    assert_eq!(left, [(1, false), (2, false), (4, false)]);
    assert_eq!((host.metrics().flows, host.metrics().flow_evictions), (3, 0));
    assert_eq!(packet(&mut host, 31, 5, TcpFlags::SYN), []);
    assert_eq!((host.metrics().flows, host.metrics().flow_evictions), (3, 1), "now one goes");
}

/// The end of a connection on which the host has sent up to 1000, and the correspondent up to 500: segments
/// in their order.
fn farewell() -> [(Direction, TcpSegment); 3] {
    let segment =
        |flags, seq, ack| TcpSegment { flags, seq: Seq(seq), ack: Seq(ack), ..TcpSegment::default() };
    let fin = TcpFlags::FIN | TcpFlags::ACK;
    [
        (Direction::Uplink, segment(fin, 1000, 500)),
        (Direction::Downlink, segment(fin, 500, 1001)),
        (Direction::Uplink, segment(TcpFlags::ACK, 1001, 501)),
    ]
}

#[test]
fn a_connection_that_is_over_gets_no_command() {
    let mut host = small();
    packet(&mut host, 0, 1, TcpFlags::ACK);
    for (direction, tcp) in farewell() {
        assert_eq!(segment(&mut host, 1, 2, direction, tcp), []);
    }
    let (start, end) =
        (started(Scope::Network, Cause::PrimaryUser), ended(Scope::Network, Cause::PrimaryUser));
    assert_eq!(link(&mut host, 10, start), [(1, true)]);
    for (direction, late) in farewell() {
        assert_eq!(segment(&mut host, 11, 2, direction, late), [], "a late copy");
    }
    assert_eq!(link(&mut host, 20, end), [(1, false)]);
}

#[test]
fn a_connection_that_ends_in_a_silence_is_thawed_and_a_syn_on_its_ports_is_frozen() {
    let mut host = small();
    packet(&mut host, 0, 1, TcpFlags::ACK);
    let (start, end) = (started(Scope::Network, Cause::Fade), ended(Scope::Network, Cause::Fade));
    assert_eq!(link(&mut host, 10, start), [(1, true)]);
    let told: Vec<_> =
        farewell().iter().map(|&(direction, tcp)| segment(&mut host, 11, 1, direction, tcp)).collect();
    assert_eq!(told, [vec![], vec![], vec![(1, false)]]);
    for (direction, late) in farewell() {
        assert_eq!(segment(&mut host, 12, 1, direction, late), [], "a late copy");
    }
    let syn = TcpSegment { flags: TcpFlags::SYN, seq: Seq(9000), ..TcpSegment::default() };
    assert_eq!(segment(&mut host, 13, 1, Direction::Uplink, syn), [(1, true)]);
    assert_eq!(segment(&mut host, 14, 1, Direction::Uplink, syn), [], "sent again");
    assert_eq!(link(&mut host, 20, end), [(1, false)]);
}

#[test]
fn a_forged_reset_thaws_nobody_and_a_real_one_does() {
    let mut host = small();
    let segment_of =
        |flags, seq, ack| TcpSegment { flags, seq: Seq(seq), ack: Seq(ack), ..TcpSegment::default() };
    segment(&mut host, 0, 1, Direction::Uplink, segment_of(TcpFlags::ACK, 1000, 500));
    segment(&mut host, 0, 1, Direction::Downlink, segment_of(TcpFlags::ACK, 500, 1000));
    link(&mut host, 10, started(Scope::Network, Cause::PrimaryUser));
    for wrong in [0, 499, 501, 1 << 31] {
        let reset = segment_of(TcpFlags::RST, wrong, 0);
        assert_eq!(segment(&mut host, 11, 1, Direction::Downlink, reset), [], "{wrong}");
    }
    // One on ports that nobody knows takes no place in the table.
    assert_eq!(segment(&mut host, 11, 2, Direction::Downlink, segment_of(TcpFlags::RST, 5, 0)), []);
    assert_eq!(host.metrics().flows, 1);
    let reset = segment_of(TcpFlags::RST, 500, 0);
    assert_eq!(segment(&mut host, 12, 1, Direction::Downlink, reset), [(1, false)]);
}

proptest! {
    /// After any sequence of signals, doubled, lost or out of order, every sender is sending again once the
    /// longest freeze has passed, none was ever thawed twice in a row, and a frozen one is told again only
    /// when its silence is.
    #[test]
    fn no_sender_stays_frozen(steps in proptest::collection::vec((0u8..8, 0u16..6, 0usize..5, 0u64..400), 1..120)) {
        let mut host = small();
        let mut frozen: BTreeMap<u16, bool> = BTreeMap::new();
        let mut now = 0;
        let mut check = |commands: Vec<(u16, bool)>, starts: bool| {
            for (flow, freeze) in commands {
                let before = frozen.insert(flow, freeze).unwrap_or(false);
                assert!(before != freeze || (freeze && starts), "flow {flow} was told twice");
            }
        };
        for (what, flow, cause, pause) in steps {
            now += pause;
            if host.next_timeout().is_some_and(|due| due <= MS(now)) {
                check(timeout(&mut host, now), false);
            }
            let scope = if flow % 2 == 0 { Scope::Network } else { Scope::Station(StationId(0)) };
            let cause = Cause::ALL[cause];
            let told = match what {
                0 => packet(&mut host, now, flow, TcpFlags::ACK),
                1 => packet(&mut host, now, flow, TcpFlags::RST),
                4 => packet(&mut host, now, flow, TcpFlags::SYN),
                5..=7 => {
                    let (direction, tcp) = farewell()[usize::from(what - 5)];
                    segment(&mut host, now, flow, direction, tcp)
                }
                2 => link(&mut host, now, started(scope, cause)),
                _ => link(&mut host, now, ended(scope, cause)),
            };
            check(told, what == 2);
        }
        check(timeout(&mut host, now + 1000), false);
        prop_assert!(host.next_timeout().is_none());
        prop_assert!(frozen.values().all(|frozen| !frozen), "{frozen:?}");
    }
}
