use super::*;
use crate::testbed::datagrams::UdpFlow;
use crate::testbed::topology::Family;
use linkhold_core::packet::{Ecn, Endpoint, TcpSegment};
use linkhold_core::units::{BitRate, Bytes};
use linkhold_wire::ParsedDatagram;

fn packet(direction: Direction, seq: u32, ack: u32, payload_len: u32) -> ParsedPacket {
    let ch = Endpoint { addr: "10.77.0.2".parse().unwrap(), port: 5201 };
    let sh = Endpoint { addr: "10.66.0.2".parse().unwrap(), port: 40000 };
    let (src, dst) = if direction == Direction::Downlink { (ch, sh) } else { (sh, ch) };
    ParsedPacket {
        src,
        dst,
        tcp: TcpSegment {
            seq: Seq(seq),
            ack: Seq(ack),
            payload_len,
            window: 500,
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        },
        ip_len: 52 + payload_len,
        tcp_offset: 20,
        tcp_header_len: 32,
        ecn: Ecn::NotEct,
    }
}

const DOWN: Direction = Direction::Downlink;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

#[test]
fn goodput_is_what_arrived_in_order_and_a_second_copy_is_a_retransmission() {
    let silences = SilenceTracker::new(1);
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_millis(10));
    let (first, second) = (packet(DOWN, 1000, 1, 1400), packet(DOWN, 2400, 1, 1400));
    log.on_sent(ms(1), &first, DOWN);
    log.on_received(ms(6), &first, DOWN, &silences);
    log.on_sent(ms(7), &second, DOWN);
    log.on_sent(ms(9), &first, DOWN);
    log.on_received(ms(14), &first, DOWN, &silences);
    log.sample(ms(30));
    let track = log.flows()[0].track(DOWN);
    assert_eq!((track.delivered(), track.retransmits, track.retransmit_bytes), (1400, 1, 1400));
    assert_eq!((track.sent_bytes, track.series.as_slice()), (2800, &[1400, 1400, 1400][..]));
    assert!((track.delays.mean_s() - 0.005).abs() < 1e-9);
    assert_eq!(log.flows()[0].data_direction(), DOWN);
}

#[test]
fn a_port_taken_again_is_another_flow_and_a_syn_sent_again_is_not() {
    let silences = SilenceTracker::new(1);
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_millis(10));
    let up = Direction::Uplink;
    for (at, isn) in [(1, 70), (2, 70), (100, 900)] {
        let mut syn = packet(up, isn, 0, 0);
        syn.tcp.flags = TcpFlags::SYN;
        log.on_sent(ms(at), &syn, up);
        log.on_received(ms(at), &syn, up, &silences);
        log.on_received(ms(at + 1), &packet(up, isn + 1, 1, 10), up, &silences);
    }
    assert_eq!(log.flows().iter().map(|flow| flow.start).collect::<Vec<_>>(), [ms(1), ms(100)]);
    assert_eq!(log.flows().iter().map(|flow| flow.track(up).delivered()).collect::<Vec<_>>(), [10, 10]);
}

#[test]
fn a_connection_that_is_not_measured_is_told() {
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_secs(1));
    let mut open = |port| {
        let mut data = packet(DOWN, 1000, 1, 1400);
        data.dst.port = port;
        log.on_sent(ms(1), &data, DOWN);
        (log.flows().len(), log.has_left_out())
    };
    (1..MAX_FLOWS as u16).for_each(|port| assert!(!open(port).1));
    assert_eq!(open(MAX_FLOWS as u16), (MAX_FLOWS, false));
    assert_eq!(open(1), (MAX_FLOWS, false), "it is known");
    assert_eq!(open(MAX_FLOWS as u16 + 1), (MAX_FLOWS, true));
}

#[test]
fn until_when_all_packets_are_remembered_is_told() {
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_secs(1));
    log.most_seen = 2;
    for (at, until) in [(1, None), (2, None), (3, Some(ms(3))), (4, Some(ms(3)))] {
        log.on_sent(ms(at), &packet(DOWN, 1000, 1, 1400), DOWN);
        assert_eq!(log.seen_until(), until);
    }
    assert_eq!(log.seen(0, DOWN).len(), 2);
}

#[test]
fn what_comes_before_the_warm_ups_end_does_not_count() {
    let silences = SilenceTracker::new(1);
    let mut log = FlowLog::new(ms(100), Duration::from_secs(1));
    for (at, seq) in [(10, 1000), (150, 2400)] {
        log.on_sent(ms(at), &packet(DOWN, seq, 1, 1400), DOWN);
        log.on_received(ms(at + 5), &packet(DOWN, seq, 1, 1400), DOWN, &silences);
    }
    let track = log.flows()[0].track(DOWN);
    assert_eq!((track.delivered(), track.delivered_at_warm_up, track.delays.count()), (2800, 1400, 1));
}

#[test]
fn pieces_behind_a_gap_count_when_it_is_filled() {
    let mut stream = Stream { next: Some(Seq(u32::MAX - 500)), ..Stream::default() };
    let at = |offset: u32| Seq(u32::MAX - 500) + offset;
    assert!(stream.arrived(at(0), 1000));
    assert!(
        !stream.arrived(at(2000), 1000) && !stream.arrived(at(4000), 500) && !stream.arrived(at(0), 1000)
    );
    assert_eq!(stream.delivered, 1000);
    assert!(stream.arrived(at(500), 1500), "an overlap with what is there");
    assert_eq!((stream.delivered, stream.next), (3000, Some(at(3000))));
    assert!(stream.arrived(at(3000), 1000) && stream.ahead.is_empty());
    assert_eq!(stream.delivered, 4500);
}

#[test]
fn the_base_stations_transit_is_measured_between_its_two_ports() {
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_secs(1));
    let data = packet(DOWN, 1000, 1, 1400);
    log.on_sent(ms(1), &data, DOWN);
    log.on_base_station_in(ms(3), &data);
    log.on_base_station_out(ms(4), &data);
    log.on_base_station_out(ms(9), &data);
    assert_eq!(log.transit().count(), 1);
    assert!((log.transit().mean_s() - 0.001).abs() < 1e-9);
}

#[test]
fn what_passes_is_told_for_silences_as_the_datas_direction_sees_it() {
    let silences = SilenceTracker::new(1);
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_secs(1));
    let data = packet(DOWN, 1000, 1, 1400);
    let mut closed = packet(Direction::Uplink, 1, 2400, 0);
    closed.tcp.window = 0;
    log.on_sent(ms(1), &data, DOWN);
    log.on_base_station_in(ms(2), &data);
    log.on_base_station_out(ms(9), &data);
    log.on_received(ms(10), &data, DOWN, &silences);
    log.on_received(ms(12), &closed, Direction::Uplink, &silences);
    log.on_sent(ms(13), &data, DOWN);
    log.on_sent(ms(14), &packet(DOWN, 999, 1, 0), DOWN);
    let seen: Vec<_> = log.seen(0, DOWN).iter().map(|one| (one.at, one.what)).collect();
    let sent = |seq, len, again| What::Sent { seq: Seq(seq), len, again };
    assert_eq!(
        seen,
        [
            (ms(1), sent(1000, 1400, false)),
            (ms(9), What::Left { since: ms(2) }),
            (ms(10), What::Arrived { seq: Seq(1000), new: true }),
            (ms(12), What::Heard { ack: Seq(2400), zero_window: true }),
            (ms(13), sent(1000, 1400, true)),
            (ms(14), sent(999, 0, false)),
        ]
    );
}

/// One station was silent from 50 to 100 ms; nobody has been before.
fn silences_until_50_and_100_ms() -> [SilenceTracker; 2] {
    let text = "schema = \"linkhold.scenario/1\"\nname = \"quiet\"\nduration = \"1s\"\n\
                [radio]\nphy_rate = \"24Mbit/s\"\n[[flows]]\ndirection = \"downlink\"\n\
                [radio.sensing]\nperiod = \"10s\"\nduration = \"50ms\"\nphase = \"50ms\"\n";
    let scenario = linkhold_scenario::Scenario::from_toml(text, "quiet.toml", &[]).unwrap();
    let air = linkhold_sim::build::air(&scenario.cases()[0].scenario, 1).unwrap();
    let mut air = linkhold_sim::medium::Medium::from(air);
    let (mut after, mut output) = (SilenceTracker::new(1), linkhold_radio::AirOutput::new());
    while air.next_event().is_some_and(|at| at <= ms(100)) {
        air.on_event(ms(100), &mut output);
    }
    after.update(&mut air);
    [SilenceTracker::new(1), after]
}

#[test]
fn resumption_counts_from_the_silences_end_to_the_first_data_that_moves_on() {
    let [before, silences] = silences_until_50_and_100_ms();
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_secs(1));
    log.on_sent(ms(1), &packet(DOWN, 1000, 1, 1400), DOWN);
    log.on_received(ms(2), &packet(DOWN, 1000, 1, 1400), DOWN, &before);
    log.on_sent(ms(3), &packet(DOWN, 2400, 1, 1400), DOWN);
    log.on_received(ms(101), &packet(DOWN, 1000, 1, 1400), DOWN, &silences);
    assert_eq!(log.flows()[0].track(DOWN).resumes.count(), 0, "an old segment is not new data");
    log.on_received(ms(103), &packet(DOWN, 2400, 1, 1400), DOWN, &silences);
    let track = log.flows()[0].track(DOWN);
    assert!((track.resumes.mean_s() - 0.003).abs() < 1e-9);
    // The segment was sent before the silence ended, so its delay contains the silence.
    assert_eq!((track.delays.count(), track.delays_outside_silence.count()), (2, 1));
}

#[test]
fn what_goes_up_is_matched_with_silences_by_when_it_left_the_air() {
    let [before, silences] = silences_until_50_and_100_ms();
    let up = Direction::Uplink;
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_secs(1));
    let segments: Vec<_> = [1000, 2400, 3800].map(|seq| packet(up, seq, 1, 1400)).into();
    let crossed = |at, met_silence| Crossed { at: ms(at), met_silence };
    log.on_sent(ms(1), &segments[0], up);
    log.on_crossed(&segments[0], crossed(2, false));
    log.on_received(ms(42), &segments[0], up, &before);
    // On the wire for 80 ms, of which the radio was silent for 50.
    log.on_sent(ms(39), &segments[1], up);
    log.on_crossed(&segments[1], crossed(40, false));
    log.on_received(ms(120), &segments[1], up, &silences);
    assert_eq!(log.flows()[0].track(up).resumes.count(), 0, "it crossed before the silence");
    log.on_sent(ms(60), &segments[2], up);
    log.on_crossed(&segments[2], crossed(103, true));
    log.on_received(ms(183), &segments[2], up, &silences);
    let track = log.flows()[0].track(up);
    assert_eq!((track.delays.count(), track.delays_outside_silence.count()), (3, 2));
    // 3 ms until it had crossed, and 80 on the wire.
    assert_eq!(track.resumes.count(), 1);
    assert!((track.resumes.mean_s() - 0.083).abs() < 1e-9, "{}", track.resumes.mean_s());
}

#[test]
fn a_datagram_that_goes_up_is_matched_with_silences_by_when_it_left_the_air() {
    let [before, silences] = silences_until_50_and_100_ms();
    let up = Direction::Uplink;
    let mut log = FlowLog::new(Instant::ZERO, Duration::from_secs(1));
    let packet = packet(up, 0, 0, 0);
    let datagrams = [0, 1, 2].map(|number| Numbered {
        packet: ParsedDatagram { src: packet.src, dst: packet.dst, ip_len: 128, ecn: Ecn::NotEct },
        number,
        payload_len: 100,
    });
    let source = linkhold_scenario::Source::Paced { rate: BitRate::from_mbps(1), chunk: Bytes(100) };
    let flow = UdpFlow {
        group: 0,
        station: 0,
        direction: up,
        sender: linkhold_sim::plan::udp_sender(source, 100, Instant::ZERO),
        media: None,
        start: std::time::Duration::ZERO,
        stop: None,
        family: Family::V4,
    };
    log.expect(packet.flow(up), Datagrams::new(&flow));
    for (datagram, (sent, at, met_silence, arrived, silences)) in datagrams.iter().zip([
        (1, 2, false, 42, &before),
        (39, 40, false, 120, &silences),
        (60, 103, true, 183, &silences),
    ]) {
        log.on_datagram_sent(ms(sent), datagram, up, &before);
        log.on_datagram_base_station_in(datagram, up, Some(Crossed { at: ms(at), met_silence }));
        log.on_datagram_received(ms(arrived), datagram, up, silences);
    }
    let track = log.flows()[0].track(up);
    assert_eq!((track.delays.count(), track.delays_outside_silence.count()), (3, 2));
    assert_eq!(track.resumes.count(), 1);
    assert!((track.resumes.mean_s() - 0.083).abs() < 1e-9, "{}", track.resumes.mean_s());
}
