use linkhold_core::packet::{Ecn, Endpoint, TcpFlags, TcpSegment};
use linkhold_core::units::Seq;
use linkhold_scenario::Scenario;
use linkhold_sim::silence_tracker::SilenceTracker;
use linkhold_wire::{ParsedDatagram, ParsedPacket};

use super::super::datagrams::{Datagrams, Numbered};
use super::super::flowlog::FlowLog;
use super::super::topology::{Family, ch_address, station_address};
use super::super::waits::DaemonStall;
use super::super::workload::IPERF_PORT;
use super::*;

const UP: Direction = Direction::Uplink;
/// Bytes of a segment or a datagram.
const LEN: u32 = 1000;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn segment(station_port: u16, port: u16, seq: u32, payload_len: u32) -> ParsedPacket {
    let flags = if payload_len == 0 { TcpFlags::SYN } else { TcpFlags::ACK };
    ParsedPacket {
        src: Endpoint { addr: station_address(Family::V4, 0), port: station_port },
        dst: Endpoint { addr: ch_address(Family::V4), port },
        tcp: TcpSegment { seq: Seq(seq), payload_len, window: 500, flags, ..TcpSegment::default() },
        ip_len: 52 + payload_len,
        tcp_offset: 20,
        tcp_header_len: 32,
        ecn: Ecn::NotEct,
    }
}

/// A run of 20 s with 2 s of warm-up.
fn case(flows: &str) -> Case {
    let text = format!(
        "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"20s\"\nwarm_up = \"2s\"\n\
         [radio]\nphy_rate = \"24Mbit/s\"\n{flows}"
    );
    Scenario::from_toml(&text, "t.toml", &[]).unwrap().cases().remove(0)
}

/// Uploads that stop at 10 s; `last` is when the last of each arrived. Answers for how long each counts: by
/// iperf3, of a given size, over QUIC.
fn active_s(last: Instant) -> Vec<f64> {
    let flow = |more: &str| format!("[[flows]]\ndirection = \"uplink\"\nstop = \"10s\"\n{more}\n");
    let case = case(&["", "source = \"100kB\"", "transport = \"quic\""].map(flow).concat());
    let scenario = &case.scenario;
    let workload = Workload::new(scenario, 1, "cubic").unwrap();
    let warm_up = Instant::ZERO + scenario.warm_up;
    let mut log = FlowLog::new(warm_up, Duration::from_secs(1));
    let silences = SilenceTracker::new(1);
    let mut carry = |station_port: u16, port: u16, at: &[Instant]| {
        log.on_sent(ms(0), &segment(station_port, port, 0, 0), UP);
        for (index, &at) in (0..).zip(at) {
            let packet = segment(station_port, port, 1 + index * LEN, LEN);
            log.on_sent(at, &packet, UP);
            log.on_received(at, &packet, UP, &silences);
        }
    };
    carry(40_000, IPERF_PORT, &[ms(10)]);
    carry(40_001, IPERF_PORT, &[ms(100), ms(9_900), last]);
    carry(40_002, SIZED_PORT, &[ms(100), ms(9_900), last]);
    let (key, quic) = workload.quic_keys().next().unwrap();
    log.expect(key, Datagrams::of_quic(quic.group, quic.direction));
    let packet = ParsedDatagram { src: key.station, dst: key.correspondent, ip_len: 128, ecn: Ecn::NotEct };
    log.on_datagram_sent(ms(100), &Numbered { packet, number: 0, payload_len: 100 }, UP, &silences);
    let end = QuicEnd {
        flow: quic.clone(),
        key,
        reads: vec![(ms(120), 1000), (last, 2000)],
        done: None,
        looks: Vec::new(),
        counts: Default::default(),
    };
    log.tell_reads(&key, UP, &end.reads, &[]);
    let completion = Completion { group: 1, station: 0, port: 40_002, start_s: 0.0, took_s: None };
    let traffic = Finished { completions: vec![completion], corrupt: 0, quic: vec![end] };
    let data = data_flows(log.flows(), &workload, &traffic, scenario);
    let until = Instant::ZERO + scenario.duration;
    data.iter().map(|one| flow_record(0, one, warm_up, until).active_s).collect()
}

#[test]
fn a_flow_that_stops_counts_until_then_or_its_last_arrival_and_an_amount_until_it_is_sent() {
    assert_eq!(active_s(ms(9_950)), [8.0, 18.0, 8.0]);
    assert_eq!(active_s(ms(10_250)), [8.25, 18.0, 8.25], "what was under way at the stop");
    assert_eq!(active_s(ms(25_000)), [18.0; 3], "the run is over before");
}

#[test]
fn a_connection_that_never_came_about_is_a_flow_that_carried_nothing() {
    let flow = |more: &str| format!("[[flows]]\ndirection = \"uplink\"\n{more}\n");
    let case = case(&["count = 3", "start = \"1s\"", "start = \"5s\"\nstop = \"10s\""].map(flow).concat());
    let scenario = &case.scenario;
    let workload = Workload::new(scenario, 1, "cubic").unwrap();
    let mut log = FlowLog::new(Instant::ZERO + scenario.warm_up, Duration::from_secs(1));
    // The control connection and one of three; of the second client the control connection alone.
    for (station_port, port) in [(40_000, IPERF_PORT), (40_001, IPERF_PORT), (40_002, IPERF_PORT + 1)] {
        log.on_sent(ms(0), &segment(station_port, port, 0, 0), UP);
    }
    let traffic = Finished::default();
    let data = data_flows(log.flows(), &workload, &traffic, scenario);
    assert_eq!(data.len(), 1);
    let until = Instant::ZERO + scenario.duration;
    let never = never_begun(&data, &workload, &traffic, scenario, until);
    let told = never.iter().map(|flow| (flow.id, flow.start_s, flow.active_s));
    assert_eq!(told.collect::<Vec<_>>(), [(1, 0.0, 18.0), (2, 0.0, 18.0), (3, 1.0, 18.0), (4, 5.0, 5.0)]);
    for flow in &never {
        assert_eq!((flow.bytes, flow.goodput_bps, flow.direction), (0, 0.0, FlowDirection::Uplink));
        assert!(flow.delay_mean_s.is_nan() && flow.completion_s.is_none(), "{flow:?}");
    }
}

#[test]
fn a_flow_of_a_given_size_whose_connection_never_came_about_carried_nothing() {
    let flow = |more: &str| format!("[[flows]]\ndirection = \"uplink\"\nsource = \"100kB\"\n{more}\n");
    let case = case(&["count = 4", "start = \"5s\"\nstop = \"10s\""].map(flow).concat());
    let scenario = &case.scenario;
    let workload = Workload::new(scenario, 1, "cubic").unwrap();
    let mut log = FlowLog::new(Instant::ZERO + scenario.warm_up, Duration::from_secs(1));
    let silences = SilenceTracker::new(1);
    // The first arrives, of the second there is a SYN alone, and of the others not even that.
    for port in [40_000, 40_001] {
        log.on_sent(ms(10), &segment(port, SIZED_PORT, 0, 0), UP);
    }
    let packet = segment(40_000, SIZED_PORT, 1, LEN);
    log.on_sent(ms(20), &packet, UP);
    log.on_received(ms(30), &packet, UP, &silences);
    let began = |group, port, start_s| Completion { group, station: 0, port, start_s, took_s: None };
    let seen = [40_000, 40_001].map(|port| began(0, port, 0.0));
    let unseen = [(0, 0.0), (0, 0.0), (1, 5.0)].map(|(group, start_s)| began(group, 0, start_s));
    let completions = seen.into_iter().chain(unseen).collect();
    let traffic = Finished { completions, ..Finished::default() };
    let data = data_flows(log.flows(), &workload, &traffic, scenario);
    let until = Instant::ZERO + scenario.duration;
    let seen = data.iter().map(|one| one.flow.track(UP).delivered());
    assert_eq!(seen.collect::<Vec<_>>(), [u64::from(LEN), 0]);
    let never = never_begun(&data, &workload, &traffic, scenario, until);
    // An amount is sent all the same after the stop.
    let told = never.iter().map(|flow| (flow.id, flow.start_s, flow.active_s, flow.bytes));
    assert_eq!(told.collect::<Vec<_>>(), [(2, 0.0, 18.0, 0), (3, 0.0, 18.0, 0), (4, 5.0, 15.0, 0)]);
}

#[test]
fn a_stall_of_the_agent_refuses_a_run_and_is_told_by_its_name() {
    let case = case("[[flows]]\ndirection = \"downlink\"\n");
    let refused = |stalled_s: f64| {
        let record = RunRecord { sim_s: 20.0, ..linkhold_results::sample::run(1).0.runs.remove(0) };
        let stall = |who: &str, waited_s| DaemonStall { who: who.to_owned(), waited_s, longest_s: 0.045 };
        let daemon_stalls = vec![stall("host at station 0", stalled_s / 2.0), stall("agent", stalled_s)];
        let linux = LinuxRecord { stalled_s, daemon_stalls, ..LinuxRecord::empty("cubic", "t") };
        let outcome = Outcome { record, linux, series: RunSeries::default() };
        outcome.without_stalls(&case, 0.005).err()
    };
    // The limit is 0.5 % of the 18 s that count.
    assert!(refused(0.085).is_none());
    let error = refused(0.15).unwrap();
    let wanted = "got no processor for 0.15 s (0.09 s is the limit); the agent waited 150 ms for a processor \
                  (at most 45 ms at once); meanwhile";
    assert!(error.to_string().contains(wanted) && error.lateness().is_some(), "{error}");
}
