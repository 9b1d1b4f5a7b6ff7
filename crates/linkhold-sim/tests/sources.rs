//! UDP, media and the web over every MAC: what they carry, what they count, and that every case sees the
//! same.

use linkhold_core::time::Instant;
use linkhold_results::{FlowRecord, FlowTransport, RunRecord, UdpRecord};
use linkhold_scenario::{Case, Files, NoFiles, Scenario};
use linkhold_sim::{Capture, NoObserver, Simulation, run_case, run_case_observed};
use pcap_file::pcapng::{Block, PcapNgReader};

const HEAD: &str = "schema = \"linkhold.scenario/1\"\nname = \"sources\"\n";

fn cases(text: &str) -> Vec<Case> {
    let text = format!("{HEAD}{text}");
    Scenario::parse(&text, "s.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}")).cases()
}

fn run(text: &str, seed: u64) -> RunRecord {
    run_with(text, &NoFiles, seed)
}

fn run_with(text: &str, files: &dyn Files, seed: u64) -> RunRecord {
    let text = format!("{HEAD}{text}");
    let scenario = Scenario::parse(&text, "s.toml", &[], files).unwrap_or_else(|error| panic!("{error}"));
    run_case(&scenario.cases()[0], seed).expect("the scenario is valid").0
}

/// The only file: a trace of twelve packets of 1500 bytes every 12 ms.
struct TwelveIn12Ms;

impl Files for TwelveIn12Ms {
    fn read(&self, _: &std::path::Path) -> std::io::Result<Vec<u8>> {
        Ok((1..=12).map(|ms| format!("{ms}\n")).collect::<String>().into_bytes())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// A shared channel of 10 Mbit/s, and what comes behind it.
fn cell(mac: &str, more: &str) -> String {
    format!(
        "duration = \"20s\"\n[radio]\nmac = \"{mac}\"\nphy_rate = \"10Mbit/s\"\nmac_efficiency = 1.0\n{more}"
    )
}

const UDP_2M: &str =
    "[[flows]]\ndirection = \"downlink\"\ntransport = \"udp\"\nsource = { rate = \"2Mbit/s\" }\n";

fn udp(flow: &FlowRecord) -> &UdpRecord {
    assert_eq!(flow.transport, FlowTransport::Udp);
    let udp = flow.udp.as_ref().expect("a UDP flow has its counters");
    assert_eq!(udp.sent, udp.delivered + udp.lost + udp.inside);
    udp
}

#[test]
fn udp_gets_its_rate_beside_tcp_on_every_medium() {
    // 802.15.4 is the next test's, and a mesh stands in `mesh.rs`.
    for mac in ["shared", "duplex", "trace", "dcf", "802.16", "docsis", "5g"] {
        let bulk = "[[flows]]\ndirection = \"downlink\"\n";
        let flows = format!("[router]\nqueue = \"fq_codel\"\n{UDP_2M}{bulk}");
        let text = match mac {
            "trace" => {
                format!("duration = \"20s\"\n[radio]\nmac = \"trace\"\ntrace = {{ down = \"t\" }}\n{flows}")
            }
            "dcf" => {
                format!("duration = \"20s\"\n[radio]\nmac = \"dcf\"\nphy_rate = \"12Mbit/s\"\n{flows}")
            }
            _ => cell(mac, &flows),
        };
        let record = run_with(&text, &TwelveIn12Ms, 1);
        let (datagrams, tcp) = (&record.flows[0], &record.flows[1]);
        println!(
            "{mac}: UDP {:.3}, TCP {:.3} Mbit/s, limit {:.3}",
            datagrams.goodput_bps / 1e6,
            tcp.goodput_bps / 1e6,
            record.link.goodput_limit_bps / 1e6
        );
        assert!((datagrams.goodput_bps / 2e6 - 1.0).abs() < 0.01, "{mac}: {}", datagrams.goodput_bps);
        assert_eq!(udp(datagrams).lost, 0, "{mac}: fq_codel gives a flow below its share what it sends");
        assert!(tcp.goodput_bps > datagrams.goodput_bps && tcp.udp.is_none(), "{mac}: {}", tcp.goodput_bps);
        let both = record.totals.goodput_bps / record.link.goodput_limit_bps;
        assert!((0.9..=1.01).contains(&both), "{mac}: {both} of the limit");
    }
}

#[test]
fn udp_gets_its_rate_beside_tcp_between_radios_of_802_15_4() {
    // Four datagrams of 64 bytes a second beside a download, both from the base station, so that they share
    // its queue.
    let text = "duration = \"60s\"\n[radio]\nmac = \"802.15.4\"\nstations = 1\nieee802154 = { frame_loss = 0 }\n\
        [router]\nqueue = \"fq_codel\"\n[tcp]\nprofile = \"classic\"\nmss = 94\n\
        [[flows]]\ndirection = \"downlink\"\ntransport = \"udp\"\ndatagram = \"64B\"\nsource = { rate = \"2kbit/s\" }\n\
        [[flows]]\ndirection = \"downlink\"\n";
    let record = run(text, 1);
    let (datagrams, tcp) = (&record.flows[0], &record.flows[1]);
    let counted = udp(datagrams);
    println!("802.15.4: UDP {:.0}, TCP {:.0} bit/s, {counted:?}", datagrams.goodput_bps, tcp.goodput_bps);
    assert!((datagrams.goodput_bps / 2e3 - 1.0).abs() < 0.01, "{}", datagrams.goodput_bps);
    assert_eq!((counted.lost, record.flows[0].bytes), (0, counted.delivered * 64));
    assert!(tcp.goodput_bps > 5e3, "{}", tcp.goodput_bps);
}

#[test]
fn what_udp_sends_is_delivered_lost_where_the_network_says_or_inside() {
    // More than the radio carries, in both versions of IP and both directions.
    for (direction, ip, payload) in
        [("downlink", "v4", 1472.0), ("downlink", "v6", 1452.0), ("uplink", "v4", 1472.0)]
    {
        let flow = format!(
            "[[flows]]\ndirection = \"{direction}\"\nip = \"{ip}\"\ntransport = \"udp\"\nsource = {{ rate = \"20Mbit/s\" }}\n"
        );
        let record = run(&cell("shared", &flow), 1);
        let counted = udp(&record.flows[0]);
        assert!(counted.lost > 1_000, "{counted:?}");
        assert_eq!(counted.lost, record.link.queue_drops + record.link.air_losses);
        assert_eq!(record.flows[0].bytes as f64, counted.delivered as f64 * payload);
        // A sender that always has something fills the radio, so that it reaches the limit.
        let share = record.totals.limit_share;
        assert!((0.99..=1.0).contains(&share), "{direction} {ip}: {share}");
        // 20 Mbit/s of payload for 20 s.
        let sent = 20e6 * 20.0 / 8.0 / payload;
        assert!((counted.sent as f64 - sent).abs() <= 2.0, "{} and {sent}", counted.sent);
        assert_eq!((record.flows[0].retransmits, record.flows[0].rto_events), (0, Some(0)));
    }
}

#[test]
fn udp_crosses_a_trace_and_802_15_4() {
    let text = format!("duration = \"20s\"\n[radio]\nmac = \"trace\"\ntrace = {{ down = \"t\" }}\n{UDP_2M}");
    let record = run_with(&text, &TwelveIn12Ms, 1);
    assert!((record.flows[0].goodput_bps / 2e6 - 1.0).abs() < 0.01, "{}", record.flows[0].goodput_bps);

    let text = "duration = \"60s\"\n[radio]\nmac = \"802.15.4\"\nstations = 2\nieee802154 = { frame_loss = 0 }\n\
        [tcp]\nprofile = \"classic\"\nmss = 94\n\
        [[flows]]\ndirection = \"uplink\"\ntransport = \"udp\"\ndatagram = \"64B\"\nsource = { rate = \"2kbit/s\" }\n\
        [[flows]]\ndirection = \"uplink\"\nstation = 1\n";
    let record = run(text, 1);
    let counted = udp(&record.flows[0]);
    // Beside a bulk upload some frames meet another's or find the medium busy, and are given up.
    assert!(counted.delivered as f64 > 0.8 * counted.sent as f64, "{counted:?}");
    assert_eq!(record.flows[0].bytes, counted.delivered * 64);
    assert!(record.flows[1].goodput_bps > 5e3, "{}", record.flows[1].goodput_bps);
}

#[test]
fn no_mechanism_touches_a_datagram_even_one_that_takes_the_queue_back() {
    let silent = "sensing = { period = \"500ms\", duration = \"100ms\" }\n";
    let flows = format!("[router]\nvisible = true\n{UDP_2M}[[flows]]\ndirection = \"downlink\"\n");
    let cases_text = "[[cases]]\nname = \"none\"\n[[cases]]\nname = \"dsasync\"\nmechanism = \"dsasync\"\n\
        [[cases]]\nname = \"stations\"\nmechanism = { name = \"dsasync\", at = \"stations\" }\n";
    for case in cases(&cell("shared", &format!("{silent}{flows}{cases_text}"))) {
        let record = run_case(&case, 1).expect("it is valid").0;
        let counted = udp(&record.flows[0]);
        assert_eq!(counted.reordered, 0, "{}", case.name);
        // What TCP puts into the queue can crowd datagrams out. One that a mechanism held would show as
        // inside.
        assert!(counted.delivered as f64 > 0.85 * counted.sent as f64, "{}: {counted:?}", case.name);
        assert!(counted.inside < 150, "{}: {counted:?}", case.name);
        assert!(record.flows[1].goodput_bps > 3e6, "{}: {}", case.name, record.flows[1].goodput_bps);
    }
}

const MEDIA: &str = "source = \"media\"\nmedia = { rate = \"1Mbit/s\", startup = \"2s\", resume = \"1s\" }\n";

#[test]
fn media_plays_without_a_stall_where_the_link_carries_it() {
    for transport in ["tcp", "udp"] {
        let flow = format!("[[flows]]\ndirection = \"downlink\"\ntransport = \"{transport}\"\n{MEDIA}");
        let record = run(&cell("shared", &flow), 1);
        let media = record.flows[0].media.as_ref().expect("it has a player");
        assert_eq!((media.stalls, media.lost_bytes, media.late_bytes), (0, 0, 0), "{transport}");
        // A live server: 2 s of content need 2 s, less the frame that it has at once.
        let startup = media.startup_s.expect("it started");
        assert!((1.95..2.1).contains(&startup), "{transport}: {startup}");
        let expected = 125_000.0 * (20.0 - startup);
        assert!((media.played_bytes as f64 - expected).abs() < 3_000.0, "{transport}: {media:?}");
        assert!((record.flows[0].goodput_bps / 1e6 - 1.0).abs() < 0.02, "{transport}");
        assert_eq!(record.totals.media.as_ref(), Some(media));
    }
}

#[test]
fn a_server_that_sends_ahead_starts_the_player_at_once_and_bridges_a_silence() {
    // A silence of 4 s every 10 s: more than a live buffer of 2 s, less than one of 8 s.
    let silent = "sensing = { period = \"10s\", duration = \"4s\", phase = \"5s\" }\n";
    let media = |ahead: &str| {
        let flow = format!(
            "{silent}[[flows]]\ndirection = \"downlink\"\nsource = \"media\"\n\
             media = {{ rate = \"1Mbit/s\", startup = \"2s\", resume = \"1s\"{ahead} }}\n"
        );
        run(&cell("shared", &flow), 1).flows[0].media.clone().expect("it has a player")
    };
    let live = media("");
    assert!(live.stalls >= 1 && live.stalled_s > 1.0, "{live:?}");
    for ahead in
        [", send_ahead = \"8s\"", ", send_ahead = \"1MB\"", ", send_ahead = \"8s\", ahead_rate = \"8Mbit/s\""]
    {
        let early = media(ahead);
        assert_eq!(early.stalls, 0, "{ahead}: {early:?}");
        assert!(early.startup_s.expect("it started") < 0.6, "{ahead}: {early:?}");
    }
}

#[test]
fn media_over_udp_loses_what_tcp_would_repeat() {
    let lossy = "retry_limit = 0\nprimary_user = { on_mean = \"50ms\", off_mean = \"500ms\", detection_delay = \"40ms\" }\n";
    let record = |transport: &str| {
        let flow =
            format!("{lossy}[[flows]]\ndirection = \"downlink\"\ntransport = \"{transport}\"\n{MEDIA}");
        run(&cell("shared", &flow), 3)
    };
    let (tcp, datagrams) = (record("tcp"), record("udp"));
    let media = datagrams.flows[0].media.as_ref().expect("it has a player");
    assert!(udp(&datagrams.flows[0]).lost > 10 && media.lost_bytes > 10_000, "{media:?}");
    assert_eq!(tcp.flows[0].media.as_ref().expect("it has a player").lost_bytes, 0);
    assert!(tcp.flows[0].retransmits > 10);
}

const WEB: &str = "source = \"web\"\nweb = { reading_time = \"1s\", connection = \"CONNECTION\" }\n";

fn web(connection: &str, direction: &str, more: &str) -> String {
    let web = WEB.replace("CONNECTION", connection);
    cell("shared", &format!("{more}[[flows]]\ndirection = \"{direction}\"\ncount = 5\n{web}"))
}

#[test]
fn pages_complete_over_a_lossy_link_whoever_connects_how_often() {
    let lossy = "retry_limit = 0\nprimary_user = { on_mean = \"20ms\", off_mean = \"500ms\", detection_delay = \"15ms\" }\n";
    for connection in ["page", "persistent"] {
        for direction in ["downlink", "uplink"] {
            let text = web(connection, direction, lossy).replace("\"20s\"", "\"120s\"");
            let record = run(&text, 1);
            assert!(record.link.air_losses > 50, "{}", record.link.air_losses);
            for flow in &record.flows {
                let web = flow.web.as_ref().expect("it is a user of the web");
                assert!(web.pages > 10, "{connection} {direction}: {web:?}");
                assert!(web.objects > 3 * web.pages, "{connection} {direction}: {web:?}");
                assert!(web.page_p50_s > 0.02 && web.page_p50_s <= web.page_p95_s, "{web:?}");
            }
            let all = record.totals.web.as_ref().expect("there are users");
            let pages: u64 =
                record.flows.iter().filter_map(|flow| flow.web.as_ref()).map(|web| web.pages).sum();
            assert_eq!(all.pages, pages);
        }
    }
}

/// Plan: five users read pages over connections that stay, 50 ms away, and a primary user takes a fifth
/// of the time in bursts of 0.3 s; over a fifo that waits in a silence, over it with `dsasync` (rate told
/// and untold), and over a fifo that drops. Check: of five seeds together, the page time with `dsasync`
/// is at most 2 % above the fifo's, in the mean and in the median: by so much chance moves users who
/// share a radio. That silences cost page time at all is seen at the fifo that drops. A mechanism can
/// miss the bound: the preset `paper` has 2.4 times the fifo's page time.
#[test]
fn pages_over_connections_that_stay_take_no_longer_with_dsasync_across_silences() {
    const CASES: &str = "[tcp]\nprofile = \"linux\"\n[[cases]]\nname = \"fifo\"\n\
        [[cases]]\nname = \"dsasync\"\nmechanism = \"dsasync\"\nset = { \"radio.rate_told\" = true }\n\
        [[cases]]\nname = \"untold\"\nmechanism = \"dsasync\"\n\
        [[cases]]\nname = \"drop\"\nset = { \"router.in_silence\" = \"drop\" }\n";
    let silent = "primary_user = { on_mean = \"300ms\", off_mean = \"1200ms\", detection_delay = \"0s\" }\n[wired]\nrtt = \"50ms\"\n\
        [router]\nlimit = \"100pkt\"\nin_silence = \"queue\"\n";
    let text = format!("{}{CASES}", web("persistent", "downlink", silent)).replace("\"20s\"", "\"120s\"");
    let [fifo, dsasync, untold, drop] = &cases(&text)[..] else { panic!("four cases") };
    // Mean and median, each the mean over the seeds, s.
    let page_times = |case: &Case| {
        let seeds = 1..=5;
        let each = seeds.map(|seed| {
            let web = run_case(case, seed).expect("it is valid").0.totals.web.expect("there are users");
            assert!(web.pages > 200, "{}: {web:?}", case.name);
            (web.page_mean_s / 5.0, web.page_p50_s / 5.0)
        });
        let (mean, median) = each.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        println!("{}: {mean:.3} s in the mean, {median:.3} s in the median", case.name);
        (mean, median)
    };
    let plain = page_times(fifo);
    for case in [dsasync, untold] {
        let managed = page_times(case);
        assert!(managed.0 <= 1.02 * plain.0, "{}: {managed:?} and {plain:?}", case.name);
        assert!(managed.1 <= 1.02 * plain.1, "{}: {managed:?} and {plain:?}", case.name);
    }
    assert!(page_times(drop).0 > 1.2 * plain.0, "{plain:?}");
}

#[test]
fn users_who_connect_for_each_page_need_no_more_places_than_connections_at_once() {
    let text = web("page", "downlink", "").replace("\"20s\"", "\"200s\"");
    let case = &cases(&text)[0];
    let mut observer = NoObserver;
    let mut simulation = Simulation::new(case, 1, &mut observer).expect("it is valid");
    simulation.advance(Instant::from_millis(200_000));
    let (places, inside) =
        (simulation.engine().network().flow_count(), simulation.engine().network().packets_inside());
    let pages = simulation.finish().0.totals.web.expect("there are users").pages;
    assert!(pages > 300, "{pages}");
    assert!(places <= 10, "{places} places for 5 users and {pages} pages");
    assert!(inside < 100, "{inside}");
}

#[test]
fn a_user_who_stops_finishes_the_page_and_leaves() {
    for connection in ["page", "persistent"] {
        let text = web(connection, "downlink", "").replace("count = 5\n", "count = 5\nstop = \"5s\"\n");
        let (record, series) = run_case(&cases(&text)[0], 1).expect("it is valid");
        assert!(record.flows.iter().all(|flow| flow.web.as_ref().expect("web").pages > 0));
        for flow in &series.flows {
            assert!(
                flow.goodput_bps[12..].iter().all(|bps| *bps == 0.0),
                "{connection}: {:?}",
                flow.goodput_bps
            );
        }
    }
}

#[test]
fn rates_of_what_stops_end_with_it_whatever_carries_it() {
    let of = |transport: &str, source: &str, stop: &str| {
        format!(
            "[[flows]]\ndirection = \"downlink\"\ntransport = \"{transport}\"\nstop = \"{stop}\"\n{source}"
        )
    };
    let media = "source = \"media\"\nmedia = { rate = \"1Mbit/s\", startup = \"1s\" }\n";
    let flows = [of("udp", media, "6s"), of("tcp", media, "6s"), of("udp", media, "1s")].concat();
    let text = cell("shared", &flows).replace("\"20s\"", "\"20s\"\nwarm_up = \"2s\"");
    let record = run(&text, 1);
    for flow in &record.flows[..2] {
        assert!((4.0..4.2).contains(&flow.active_s), "{:?}: {} s", flow.transport, flow.active_s);
        assert!((flow.goodput_bps / 1e6 - 1.0).abs() < 0.05, "{:?}: {}", flow.transport, flow.goodput_bps);
        assert!((flow.goodput_bps * flow.active_s / 8.0 - flow.bytes as f64).abs() < 1.0);
    }
    assert_eq!((record.flows[2].active_s, record.flows[2].bytes), (0.0, 0), "it was over before the warm-up");
    assert!(record.totals.jain_index > 0.999, "{}", record.totals.jain_index);

    for connection in ["page", "persistent"] {
        let text = web(connection, "downlink", "").replace("count = 5\n", "count = 5\nstop = \"5s\"\n");
        for flow in &run(&text, 1).flows {
            // They read the page that they have, for 1 s in the mean.
            assert!((5.0..12.0).contains(&flow.active_s), "{connection}: {} s", flow.active_s);
            assert!((flow.goodput_bps * flow.active_s / 8.0 - flow.bytes as f64).abs() < 1.0);
        }
    }
}

#[test]
fn a_player_plays_on_when_its_connection_is_closed() {
    let text = cell(
        "shared",
        "[[flows]]\ndirection = \"downlink\"\nsource = \"media\"\nmedia = { rate = \"1Mbit/s\", startup = \"2s\" }\nSTOP",
    );
    // The last two seconds of content are left when the connection closes; the run goes on, or ends a second
    // later, or the warm-up ends meanwhile.
    for (duration, warm_up, played, left) in
        [("20s", "0s", 750_000, 0), ("7s", "0s", 625_000, 125_000), ("20s", "7s", 125_000, 0)]
    {
        let text = text
            .replace("STOP", "stop = \"6s\"\n")
            .replace("\"20s\"", &format!("\"{duration}\"\nwarm_up = \"{warm_up}\""));
        let record = run(&text, 1);
        let flow = &record.flows[0];
        let media = flow.media.as_ref().expect("it has a player");
        println!("{duration}, warm-up {warm_up}: {media:?}");
        assert!(media.played_bytes.abs_diff(played) < 6_000, "{duration}, warm-up {warm_up}: {media:?}");
        assert!(media.buffered_bytes.abs_diff(left) < 6_000, "{duration}, warm-up {warm_up}: {media:?}");
        assert_eq!(media.stalls, 0);
    }
}

#[test]
fn every_case_sees_the_same_pages_and_one_seed_gives_one_result() {
    let more =
        "[[cases]]\nname = \"fast\"\n[[cases]]\nname = \"slow\"\nset = { \"wired.rtt\" = \"120ms\" }\n";
    for connection in ["page", "persistent"] {
        // So many pages that every user comes through some, and so little time that the sequence cannot end.
        let text = format!("{}{more}", web(connection, "downlink", ""));
        let all = cases(&text);
        let objects = |case: &Case| -> Vec<(u64, u64, u64)> {
            let once = run_case(case, 7).expect("it is valid").0;
            let again = run_case(case, 7).expect("it is valid").0;
            assert_eq!(once.flows, again.flows);
            once.flows
                .iter()
                .map(|f| (f.bytes, f.web.as_ref().unwrap().pages, f.web.as_ref().unwrap().objects))
                .collect()
        };
        let (fast, slow) = (objects(&all[0]), objects(&all[1]));
        // A longer round trip gets less far on the same way.
        for (fast, slow) in fast.iter().zip(&slow) {
            assert!(slow.1 <= fast.1 && slow.2 <= fast.2 && slow.0 <= fast.0, "{fast:?} {slow:?}");
        }
        assert_ne!(fast, slow);
    }
    // With one page, everything that it has is the same.
    let text = format!("{}{more}", web("page", "downlink", ""))
        .replace("reading_time = \"1s\"", "reading_time = \"1h\"");
    let bytes = |case: &Case| {
        run_case(case, 7).expect("it is valid").0.flows.iter().map(|f| f.bytes).collect::<Vec<_>>()
    };
    let all = cases(&text);
    assert_eq!(bytes(&all[0]), bytes(&all[1]));
}

#[test]
fn the_warm_up_counts_in_none_of_them() {
    let flows = format!(
        "{UDP_2M}[[flows]]\ndirection = \"downlink\"\n{MEDIA}[[flows]]\ndirection = \"downlink\"\n{}",
        WEB.replace("CONNECTION", "page")
    );
    let all = run(&cell("shared", &flows), 1);
    let part = run(&format!("warm_up = \"10s\"\n{}", cell("shared", &flows)), 1);
    let (before, after) = (udp(&all.flows[0]), udp(&part.flows[0]));
    assert!((after.sent as f64 / before.sent as f64 - 0.5).abs() < 0.01);
    let played = |record: &RunRecord| record.flows[1].media.as_ref().expect("media").played_bytes as f64;
    assert!((played(&part) - 1.25e6).abs() < 5e3, "{}", played(&part));
    assert!(played(&all) > 2e6);
    let pages = |record: &RunRecord| record.flows[2].web.as_ref().expect("web").pages;
    assert!(pages(&part) > 0 && pages(&part) < pages(&all));
    assert!(part.flows.iter().zip(&all.flows).all(|(part, all)| part.bytes < all.bytes));
}

#[test]
fn a_capture_holds_datagrams_as_long_as_they_were() {
    let case = &cases(&cell("shared", UDP_2M).replace("\"20s\"", "\"1s\""))[0];
    let mut capture = Capture::new(Vec::new(), "udp").expect("a vector takes it");
    let record = run_case_observed(case, 1, &mut capture).expect("it is valid").0;
    let bytes = capture.finish().expect("nothing failed");
    let mut reader = PcapNgReader::new(&bytes[..]).expect("it is a capture");
    let mut packets = 0;
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.expect("it is whole") {
            // Protocol 17, and the length of the UDP header and payload.
            assert_eq!((packet.data[9], packet.original_len), (17, 1500));
            assert_eq!(u16::from_be_bytes([packet.data[24], packet.data[25]]), 1480);
            packets += 1;
        }
    }
    let counted = udp(&record.flows[0]);
    assert_eq!(packets, counted.sent + counted.delivered);
}

#[test]
fn the_streaming_scenario_shows_what_it_says() {
    let text = include_str!("../../../scenarios/streaming.toml");
    let scenario = Scenario::parse(text, "s.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    let runs: Vec<RunRecord> =
        scenario.cases().iter().map(|case| run_case(case, 1).expect("it is valid").0).collect();
    for run in &runs {
        let [film, live, reader] = &run.flows[..] else { panic!("three flows") };
        let (film, live) = (film.media.as_ref().expect("media"), live.media.as_ref().expect("media"));
        println!(
            "{}: film {film:?}\n  live {live:?}\n  web {:?}\n  udp {:?}",
            run.case, reader.web, run.flows[1].udp
        );
        assert_eq!((film.stalls, film.lost_bytes), (0, 0), "{}", run.case);
        assert!(reader.web.as_ref().expect("web").pages > 5, "{}", run.case);
        assert!(live.stalls >= 1, "{}: {live:?}", run.case);
    }
    let lost = |run: &RunRecord| udp(&run.flows[1]).lost;
    assert!(lost(&runs[0]) > 5 * lost(&runs[1]).max(1), "{} and {}", lost(&runs[0]), lost(&runs[1]));
    // The mechanism keeps them over a silence, but none for longer than `datagram_max_age`.
    assert!(lost(&runs[3]) < lost(&runs[0]), "{} and {}", lost(&runs[3]), lost(&runs[0]));
}
