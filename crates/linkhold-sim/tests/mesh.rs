//! TCP over a mesh, from a scenario's text.

use linkhold_results::{ParquetFiles, Program, RunRecord, RunSeries, UdpRecord};
use linkhold_scenario::Scenario;
use linkhold_sim::run_case;

/// A scenario with two nodes 100 m apart and what `more` says.
fn scenario(mesh: &str, flows: &str, cases: &str) -> Scenario {
    let text = scenario_text(mesh, flows, cases);
    Scenario::from_toml(&text, "mesh.toml", &[]).unwrap_or_else(|errors| panic!("{errors}\n{text}"))
}

fn scenario_text(mesh: &str, flows: &str, cases: &str) -> String {
    format!(
        "schema = \"linkhold.scenario/1\"\nname = \"mesh\"\nduration = \"30s\"\nwarm_up = \"5s\"\n[mesh]\n{mesh}\n\
         [tcp]\nprofile = \"classic\"\ncongestion = \"reno\"\nrecovery = \"newreno\"\nmss = 1000\n\
         delayed_ack = \"off\"\nreceive_buffer = \"20000B\"\nrto_min = \"200ms\"\n{flows}\n{cases}\n"
    )
}

const PAIR: &str = "nodes = 2\nplaces = [{ x = \"450m\", y = \"500m\" }, { x = \"550m\", y = \"500m\" }]\n\
                    routing = \"direct\"\n";
const ONE_FLOW: &str = "[[flows]]\nfrom = 0\nto = 1\n";

fn run(scenario: &Scenario, case: usize, seed: u64) -> (RunRecord, RunSeries) {
    run_case(&scenario.cases()[case], seed).expect("it runs")
}

fn goodput(scenario: &Scenario, case: usize, seed: u64) -> f64 {
    run(scenario, case, seed).0.totals.goodput_bps
}

/// With one sender and one receiver the only collisions are those of data with ACKs, so goodput is a little
/// below one exchange of data and one of an ACK, each with its mean first backoff.
#[test]
fn a_single_hop_carries_what_its_exchanges_leave() {
    let scenario = scenario(&format!("{PAIR}rate = \"2Mbit/s\""), ONE_FLOW, "");
    // 802.11b, microseconds: DIFS 50, mean backoff 15.5 x 20, preamble 192, 1040 + 36 bytes at 2 Mb/s, SIFS
    // 10, ACK 304.
    let exchange = |bytes: f64| 50.0 + 310.0 + 192.0 + (bytes + 36.0) * 8.0 / 2.0 + 10.0 + 304.0;
    let expected = 8000.0 / (exchange(1040.0) + exchange(40.0)) * 1e6;
    let measured = goodput(&scenario, 0, 1);
    // Two contenders wait for the smaller of two backoffs, so it may be more.
    assert!((0.92..1.12).contains(&(measured / expected)), "{measured} b/s, expected about {expected}");
}

#[test]
fn each_further_hop_costs_and_packets_are_forwarded() {
    let line = |nodes: u32| {
        let places: Vec<String> =
            (0..nodes).map(|n| format!("{{ x = \"{}m\", y = \"500m\" }}", 200 * n)).collect();
        let mesh = format!("nodes = {nodes}\nplaces = [{}]\nrate = \"2Mbit/s\"", places.join(", "));
        scenario(&mesh, &format!("[[flows]]\nfrom = 0\nto = {}\n", nodes - 1), "")
    };
    let of: Vec<RunRecord> = (2..6).map(|nodes| run(&line(nodes), 0, 1).0).collect();
    for (hops, pair) in of.windows(2).enumerate() {
        let [fewer, more] = [&pair[0], &pair[1]].map(|run| run.totals.goodput_bps);
        assert!(more < 0.8 * fewer && more > 1e5, "{} hops {fewer} b/s, one more {more}", hops + 1);
    }
    let counters = of[2].link.mesh.expect("a mesh counts");
    assert!(counters.forwarded > 1000 && counters.route_messages > 0, "{counters:?}");
    assert_eq!((of[2].flows[0].station, of[2].flows[0].to), (0, Some(3)));
}

/// Every datagram arrives, is lost where the network counts it, or is on its way at the end.
fn datagrams(record: &RunRecord, flow: usize) -> UdpRecord {
    let udp = record.flows[flow].udp.clone().expect("a UDP flow has its counters");
    assert_eq!(udp.sent, udp.delivered + udp.lost + udp.inside, "{udp:?}");
    udp
}

#[test]
fn udp_crosses_a_mesh_at_its_rate_and_beyond_the_meshs_is_lost_where_it_counts() {
    // Three hops of 200 m, or the first of them only.
    let places: Vec<String> = (0..4).map(|n| format!("{{ x = \"{}m\", y = \"500m\" }}", 200 * n)).collect();
    let mesh = format!("nodes = 4\nplaces = [{}]\nrate = \"2Mbit/s\"", places.join(", "));
    let carried = |to: u32, rate: &str| {
        let flow = format!(
            "[[flows]]\nfrom = 0\nto = {to}\ntransport = \"udp\"\ndatagram = \"500B\"\nsource = {{ rate = \"{rate}\" }}\n"
        );
        // Without a warm-up: the network counts losses when they happen, a flow those of what it sent since.
        let text = scenario_text(&mesh, &flow, "").replace("warm_up = \"5s\"\n", "");
        let scenario = Scenario::from_toml(&text, "mesh.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        let record = run(&scenario, 0, 1).0;
        let counted = datagrams(&record, 0);
        assert_eq!(counted.lost, record.link.queue_drops + record.link.air_losses);
        assert_eq!(record.flows[0].bytes, counted.delivered * 500);
        (record.flows[0].goodput_bps, counted)
    };
    for to in [1, 3] {
        let (rate, counted) = carried(to, "100kbit/s");
        assert!((rate / 1e5 - 1.0).abs() < 0.01, "to {to}: {rate} b/s, {counted:?}");
        assert_eq!((counted.lost, counted.reordered), (0, 0), "to {to}");
        // 100 kbit/s of 500 bytes for 30 s.
        assert!(counted.sent.abs_diff(750) <= 1, "to {to}: {counted:?}");
    }
    // Over three hops there is room for less than a third of 2 Mbit/s.
    let (rate, counted) = carried(3, "2Mbit/s");
    assert!((1e5..6.7e5).contains(&rate), "{rate}");
    assert!(counted.lost > counted.delivered, "{counted:?}");
}

#[test]
fn udp_gets_its_rate_beside_tcp_over_a_mesh() {
    let flows = "[[flows]]\nfrom = 0\nto = 1\ntransport = \"udp\"\ndatagram = \"500B\"\n\
                 source = { rate = \"200kbit/s\" }\n[[flows]]\nfrom = 0\nto = 1\n";
    let (record, _) = run(&scenario(&format!("{PAIR}rate = \"2Mbit/s\""), flows, ""), 0, 1);
    let (rate, counted) = (record.flows[0].goodput_bps, datagrams(&record, 0));
    // TCP's window of 20 packets does not fill the node's queue.
    assert!((rate / 2e5 - 1.0).abs() < 0.02, "{rate} b/s, {counted:?}");
    assert_eq!(counted.lost, 0);
    assert!(record.flows[1].goodput_bps > 5e5, "{}", record.flows[1].goodput_bps);
}

#[test]
fn a_flow_to_nobody_in_reach_gets_nothing_and_ends() {
    let mesh = "nodes = 2\nplaces = [{ x = \"0m\", y = \"0m\" }, { x = \"900m\", y = \"900m\" }]\nrate = \"2Mbit/s\"";
    let (record, _) = run(&scenario(mesh, ONE_FLOW, ""), 0, 1);
    assert_eq!(record.totals.goodput_bps, 0.0);
    assert!(record.link.air_losses > 0, "packets are lost, and said to be");
}

/// Users that hardly ever come, so that silences are those of sensing.
const SENSING: &str = "[mesh.spectrum]\nsensing_time = \"300ms\"\ntransmitting_time = \"700ms\"\n\
                       detector = \"perfect\"\nusers = { alpha = \"100/s\", beta = \"0.0001/s\" }\n";

#[test]
fn sensing_silences_the_nodes_and_a_frozen_sender_has_no_timeouts_for_it() {
    let cases = "[[cases]]\nname = \"newreno\"\n[[cases]]\nname = \"frozen\"\n\
                 mechanism = { name = \"cr-aware\", at = \"stations\" }\n";
    let scenario = scenario(&format!("{PAIR}{SENSING}"), ONE_FLOW, cases);
    let [(plain, series), (frozen, _)] = [0, 1].map(|case| run(&scenario, case, 1));
    assert!((plain.link.silent_fraction - 0.3).abs() < 0.02, "{}", plain.link.silent_fraction);
    assert!(plain.flows[0].rto_events > Some(5), "300 ms is above the RTO: {:?}", plain.flows[0].rto_events);
    assert_eq!(frozen.flows[0].rto_events, Some(0));
    assert!(frozen.totals.goodput_bps > plain.totals.goodput_bps);
    let maps = series.mesh.expect("a mesh has maps");
    assert_eq!((maps.frames.len() > 10, maps.users.len(), maps.pairs), (true, 5, vec![(0, 1)]));
    assert_eq!(maps.frames[0].nodes, [(450.0, 500.0), (550.0, 500.0)]);
}

/// Twelve nodes that walk among users of five bands.
fn walking() -> Scenario {
    let mesh = "nodes = 12\nwidth = \"600m\"\nheight = \"600m\"\nwalk = {}\n[mesh.spectrum]\n\
                users = { alpha = \"0.5/s\", beta = \"0.5/s\" }\n";
    scenario(mesh, "[[flows]]\nfrom = \"drawn\"\nto = \"drawn\"\ncount = 4\n", "")
}

#[test]
fn a_run_is_the_same_on_any_thread() {
    let scenario = walking();
    let alone: Vec<_> = (1..5).map(|seed| described(&scenario, seed)).collect();
    let together: Vec<_> = std::thread::scope(|threads| {
        let scenario = &scenario;
        let started: Vec<_> = (1..5).map(|seed| threads.spawn(move || described(scenario, seed))).collect();
        started.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(alone, together);
    assert_ne!(alone[0], alone[1], "seeds differ");
}

/// A run's files, name and bytes: its record as in run.json, and its series as Parquet. `wall_s` is left out.
fn described(scenario: &Scenario, seed: u64) -> Vec<(String, Vec<u8>)> {
    let (mut record, series) = run(scenario, 0, seed);
    record.wall_s = 0.0;
    let folder = tempfile::tempdir().expect("there is room");
    let json = serde_json::to_vec_pretty(&record).expect("a record is JSON");
    std::fs::write(folder.path().join("run.json"), json).expect("it is written");
    let program = Program::new("test", "unknown");
    let mut parquet = ParquetFiles::create(folder.path(), &program).expect("they are begun");
    parquet.add(&record, &series).expect("a run is added");
    parquet.finish().expect("they are written");
    let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(folder.path())
        .expect("the folder is there")
        .map(|entry| {
            let entry = entry.expect("it can be read");
            let bytes = std::fs::read(entry.path()).expect("it can be read");
            (entry.file_name().to_string_lossy().into_owned(), bytes)
        })
        .collect();
    files.sort();
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["flows.parquet", "run.json", "series.parquet", "silences.parquet"]);
    files
}

#[test]
fn drawn_ends_differ_and_nobody_is_an_end_of_two_flows() {
    let (record, _) = run(&walking(), 0, 3);
    let mut ends: Vec<u32> =
        record.flows.iter().flat_map(|flow| [Some(flow.station), flow.to]).flatten().collect();
    ends.sort_unstable();
    ends.dedup();
    assert_eq!(ends.len(), 8, "{:?}", record.flows);
}

#[test]
fn routing_and_policy_can_be_chosen() {
    for key in [
        "mesh.routing=\"search\"",
        "mesh.spectrum.policy=\"longest-idle\"",
        "mesh.spectrum.detector=\"perfect\"",
    ] {
        let text = include_str!("../../../scenarios/mesh.toml");
        let set = [key.to_owned(), "duration=\"20s\"".to_owned()];
        let scenario = Scenario::from_toml(text, "mesh.toml", &set).expect("a scenario");
        assert!(goodput(&scenario, 0, 1) > 0.0, "{key}");
    }
}

/// Two pairs beside each other. On a channel for each pair they carry more than on one, and a sender hears of
/// its own path's silences only.
#[test]
fn nodes_with_a_channel_each_share_the_bands() {
    let places: Vec<String> = [(400, 500), (500, 500), (400, 600), (500, 600)]
        .iter()
        .map(|(x, y)| format!("{{ x = \"{x}m\", y = \"{y}m\" }}"))
        .collect();
    let pairs = "[[flows]]\nfrom = 0\nto = 1\n[[flows]]\nfrom = 2\nto = 3\n";
    let with = |homes: &str, congestion: &str| {
        let spectrum = SENSING.replace("300ms", "100ms");
        let own = format!("working_channel = \"own\"\nhome_channels = {homes}\nbands = 2\n");
        let mesh =
            format!("nodes = 4\nrouting = \"direct\"\nplaces = [{}]\n{spectrum}{own}", places.join(", "));
        let text = scenario_text(&mesh, pairs, "");
        let set = [format!("tcp.congestion=\"{congestion}\"")];
        Scenario::from_toml(&text, "mesh.toml", &set).unwrap_or_else(|errors| panic!("{errors}"))
    };
    for congestion in ["reno", "tp-crahn"] {
        let [one, two] = ["[0, 0, 0, 0]", "[0, 0, 1, 1]"].map(|homes| run(&with(homes, congestion), 0, 1).0);
        let [together, apart] = [&one, &two].map(|run| run.totals.goodput_bps);
        assert!(apart > 1.3 * together, "{congestion}: {apart} b/s on two channels, {together} on one");
        assert!(two.link.silent_fraction < 0.05, "all four at once: {}", two.link.silent_fraction);
        assert!(two.flows.iter().all(|flow| flow.goodput_bps > 0.0));
    }
}

/// A TP-CRAHN sender that is told of routes does not lose its window to a break that it knows of.
#[test]
fn a_sender_that_is_told_of_its_routes_has_fewer_timeouts() {
    let text = include_str!("../../../scenarios/mesh.toml");
    let timeouts = |told: bool| {
        let set = [
            "tcp.congestion=\"tp-crahn\"".to_owned(),
            format!("mesh.routes_told={told}"),
            "mesh.walk={ speed_min = \"10m/s\", speed_max = \"20m/s\", pause = \"0s\" }".to_owned(),
        ];
        let scenario = Scenario::from_toml(text, "mesh.toml", &set).expect("a scenario");
        let runs = (1..33).map(|seed| run(&scenario, 0, seed).0);
        runs.map(|run| run.totals.rto_events.expect("the simulator measures them")).sum::<u64>()
    };
    let (told, not) = (timeouts(true), timeouts(false));
    assert!(told < not, "{told} timeouts told, {not} not");
}

#[test]
fn a_walking_mesh_with_a_channel_each_runs_and_repeats() {
    let text = include_str!("../../../scenarios/mesh.toml");
    for routing in ["aodv", "search"] {
        let set = [
            "mesh.spectrum.working_channel=\"own\"".to_owned(),
            format!("mesh.routing=\"{routing}\""),
            "duration=\"20s\"".to_owned(),
        ];
        let scenario = Scenario::from_toml(text, "mesh.toml", &set).expect("a scenario");
        assert!(scenario.cases().len() == 2 && goodput(&scenario, 0, 1) > 0.0, "{routing}");
        assert_eq!(described(&scenario, 2), described(&scenario, 2));
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let refused = |mesh: &str, flows: &str| {
        let text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"mesh\"\nduration = \"30s\"\n[mesh]\n{mesh}\n{flows}\n"
        );
        Scenario::from_toml(&text, "mesh.toml", &[]).expect_err("it is wrong").to_string()
    };
    let rate = "nodes = 2\nrate = \"2Mbit/s\"";
    for (mesh, flows, says) in [
        (
            "nodes = 1\nrate = \"2Mbit/s\"",
            ONE_FLOW,
            "mesh.toml:5:9: mesh.nodes: a mesh needs at least two nodes",
        ),
        ("nodes = 2", ONE_FLOW, "the mesh has no rate"),
        (rate, "[[flows]]\nfrom = 0\nto = 2\n", "mesh.toml:9:6: flows[0].to: there is no node 2"),
        (rate, "[[flows]]\nfrom = 0\nto = 0\n", "a node does not send to itself"),
        (rate, "[[flows]]\nfrom = 0\nto = \"drawn\"\n", "one is drawn and one is not"),
        (rate, "[[flows]]\ndirection = \"uplink\"\n", "does nothing in a mesh; write from and to"),
        ("nodes = 2\nrate = \"2Mbit/s\"\nphy = \"802.11a\"", ONE_FLOW, "no rate of 2.00 Mbit/s"),
        (
            "nodes = 2\nrate = \"2Mbit/s\"\nplaces = [{ x = \"1m\", y = \"1m\" }]",
            ONE_FLOW,
            "1 places for 2 nodes",
        ),
        (
            "nodes = 2\nrate = \"2Mbit/s\"\nplaces = [{ x = \"1m\", y = \"1m\" }, { x = \"2km\", y = \"1m\" }]",
            ONE_FLOW,
            "node 1 at (2000, 1) is outside the area",
        ),
        ("nodes = 2\n[mesh.spectrum]\nbands = 3\n", ONE_FLOW, "nobody owns the bands"),
        ("nodes = 2\n[mesh.spectrum]\npu_log = \"nowhere.txt\"\n", ONE_FLOW, "nowhere.txt"),
        (
            "nodes = 2\n[mesh.spectrum]\nusers = { alpha = \"1/s\", beta = \"1/s\" }\nretune_time = \"1ms\"\n",
            ONE_FLOW,
            "mesh.spectrum.retune_time: does nothing without working_channel = \"own\"",
        ),
        (
            "nodes = 2\n[mesh.spectrum]\nusers = { alpha = \"1/s\", beta = \"1/s\" }\nworking_channel = \"own\"\n\
             home_channels = [0]\n",
            ONE_FLOW,
            "mesh.spectrum.home_channels: there are 1 home channels for 2 nodes",
        ),
        (
            "nodes = 2\n[mesh.spectrum]\nusers = { alpha = \"1/s\", beta = \"1/s\" }\nworking_channel = \"own\"\n\
             home_channels = [0, 5]\n",
            ONE_FLOW,
            "there is no channel 5 to begin on; there are 5",
        ),
        (
            "nodes = 2\n[mesh.spectrum]\nusers = { alpha = \"1/s\", beta = \"1/s\" }\nworking_channel = \"own\"\n\
             bands = 100\n",
            ONE_FLOW,
            "mesh.spectrum.working_channel: nodes with a channel each can choose among 64 channels, not 100",
        ),
        (rate, "[[flows]]\nfrom = 0\n", "a flow in a mesh needs both its ends"),
        (rate, "[radio]\nstations = 3\n[[flows]]\nfrom = 0\nto = 1\n", "does nothing beside mesh"),
        (
            rate,
            "[[flows]]\nfrom = 0\nto = 1\n[[cases]]\nname = \"x\"\nmechanism = \"dsasync\"\n",
            "a mesh has no base-station",
        ),
    ] {
        let told = refused(mesh, flows);
        assert!(told.contains(says), "wanted {says:?} in {told}");
    }
}
