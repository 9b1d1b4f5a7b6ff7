//! Where a datagram is, in any cell and over every medium: delivered once, lost where a queue or the air says so, or inside.

use std::io;
use std::path::Path;

use linkhold_results::{RunRecord, UdpRecord};
use linkhold_scenario::{Files, Scenario};
use linkhold_sim::run_case;
use proptest::prelude::*;

/// A trace of three packets of 1500 bytes each 10 ms, and a gap of 150 ms.
struct Trace;

impl Files for Trace {
    fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
        Ok((1..=60)
            .flat_map(|slot| [slot * 10; 3])
            .chain([750])
            .map(|ms| format!("{ms}\n"))
            .collect::<String>()
            .into())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

/// What carries the datagrams: the file's part up to the flows, and whether there are several stations.
fn media() -> Vec<&'static str> {
    let rates = "phy_rate = \"12Mbit/s\"\nstations = 3\n";
    let mesh = "[mesh]\nnodes = 4\nwidth = \"600m\"\nheight = \"200m\"\nwalk = {}\nrate = \"2Mbit/s\"\n";
    let cells = [
        format!("[radio]\nmac = \"shared\"\n{rates}"),
        format!("[radio]\nmac = \"duplex\"\n{rates}"),
        format!("[radio]\nmac = \"dcf\"\n{rates}"),
        format!("[radio]\nmac = \"802.16\"\n{rates}"),
        format!("[radio]\nmac = \"docsis\"\n{rates}"),
        format!("[radio]\nmac = \"5g\"\n{rates}"),
        "[radio]\nmac = \"trace\"\nstations = 3\ntrace = { down = \"t\" }\n".to_owned(),
        "[radio]\nmac = \"802.15.4\"\nstations = 3\n".to_owned(),
        mesh.to_owned(),
    ];
    // The test's process ends soon.
    cells.into_iter().map(|cell| &*cell.leak()).collect()
}

/// One flow: which way, between whom, at what rate (kbit/s) and with what payload (bytes).
fn flows() -> impl Strategy<Value = Vec<(bool, u32, u32, u32)>> {
    prop::collection::vec((any::<bool>(), 0..3_u32, 20..6_000_u32, 20..80_u32), 1..4)
}

/// What may happen to them.
fn trouble() -> impl Strategy<Value = (bool, Option<&'static str>, u32, bool)> {
    let queue = prop::option::of(prop::sample::select(vec!["drop", "flush"]));
    (any::<bool>(), queue, 2..60_u32, any::<bool>())
}

fn text(medium: &str, flows: &[(bool, u32, u32, u32)], trouble: (bool, Option<&str>, u32, bool)) -> String {
    let (silences, in_silence, limit, codel) = trouble;
    let is_mesh = medium.starts_with("[mesh]");
    let small = medium.contains("802.15.4");
    let mut text = format!("schema = \"linkhold.scenario/1\"\nname = \"udp\"\nduration = \"6s\"\n{medium}");
    if silences && !is_mesh && !small && !medium.contains("\"trace\"") {
        text += "sensing = { period = \"700ms\", duration = \"90ms\" }\n";
    }
    if silences && !is_mesh && !medium.contains("\"trace\"") {
        text += "primary_user = { on_mean = \"150ms\", off_mean = \"500ms\"";
        text += if small { " }\n" } else { ", detection_delay = \"15ms\" }\n" };
    }
    if !is_mesh {
        let queue = if codel { "fq_codel" } else { "fifo" };
        let in_silence = in_silence.filter(|_| !small);
        let in_silence = in_silence.map_or_else(String::new, |name| format!("in_silence = \"{name}\"\n"));
        text += &format!(
            "[router]\nqueue = \"{queue}\"\nlimit = \"{limit}pkt\"\n{in_silence}\
             [station]\nlimit = \"{limit}pkt\"\n[wired]\nqueue = \"{limit}pkt\"\n"
        );
    }
    if small {
        text += "[tcp]\nprofile = \"classic\"\nmss = 94\n";
    }
    for &(up, station, rate, payload) in flows {
        let ends = match (is_mesh, up) {
            (true, _) => format!("from = {station}\nto = {}", (station + 1) % 4),
            (false, true) => format!("direction = \"uplink\"\nstation = {station}"),
            (false, false) => format!("direction = \"downlink\"\nstation = {station}"),
        };
        // 802.15.4 carries 80 bytes at some tens of kbit/s.
        let (rate, payload) = if small { (rate / 50 + 1, payload) } else { (rate, payload * 18) };
        text += &format!(
            "[[flows]]\n{ends}\ntransport = \"udp\"\ndatagram = \"{payload}B\"\nsource = {{ rate = \"{rate}kbit/s\" }}\n"
        );
    }
    text
}

fn run(text: &str, seed: u64) -> RunRecord {
    let scenario =
        Scenario::parse(text, "s.toml", &[], &Trace).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run_case(&scenario.cases()[0], seed).expect("it is valid").0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_datagram_is_delivered_once_lost_with_a_reason_or_inside(
        (flows, trouble, seed) in (flows(), trouble(), 0..1_000_u64),
    ) {
        for medium in media() {
            let text = text(medium, &flows, trouble);
            let record = run(&text, seed);
            let mut lost = 0;
            for flow in &record.flows {
                let &UdpRecord { sent, delivered, lost: gone, inside, .. } = flow.udp.as_ref().expect("a UDP flow");
                prop_assert_eq!(sent, delivered + gone + inside, "{}", text);
                prop_assert!(sent > 0 && delivered <= sent, "{}", text);
                lost += gone;
            }
            // Lost are as many as queues and air say: none got lost without a word, and none arrived twice in place of one.
            prop_assert_eq!(lost, record.link.queue_drops + record.link.air_losses, "{}", text);
            prop_assert_eq!(record.flows.len(), flows.len());
        }
    }
}
