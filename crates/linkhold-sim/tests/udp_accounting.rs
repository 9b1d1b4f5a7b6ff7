//! Every datagram that is sent arrives, is lost where the network counts it with a reason, or is on its way
//! at the end: on every medium access, under every queue and whatever falls silent.

use std::path::Path;

use linkhold_results::{RunRecord, UdpRecord};
use linkhold_scenario::{Files, Scenario};
use linkhold_sim::run_case;
use proptest::prelude::*;

/// The only file: a delivery trace of 12 opportunities in 20 ms, with a gap in each lap.
struct OneTrace;

impl Files for OneTrace {
    fn read(&self, _: &Path) -> std::io::Result<Vec<u8>> {
        Ok((1..=12)
            .map(|ms| format!("{ms}\n"))
            .collect::<String>()
            .into_bytes()
            .into_iter()
            .chain(*b"20\n")
            .collect())
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }
}

fn run(text: &str, seed: u64) -> RunRecord {
    let scenario =
        Scenario::parse(text, "s.toml", &[], &OneTrace).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run_case(&scenario.cases()[0], seed).expect("the scenario is valid").0
}

/// Medium accesses of a cell, and what each needs.
const MACS: [(&str, &str); 7] = [
    ("shared", "phy_rate = \"10Mbit/s\"\n"),
    ("duplex", "phy_rate = \"10Mbit/s\"\n"),
    ("trace", "trace = { down = \"t\", silence_threshold = \"5ms\" }\n"),
    ("dcf", "phy_rate = \"12Mbit/s\"\n"),
    ("802.16", "phy_rate = \"10Mbit/s\"\n"),
    ("docsis", "phy_rate = \"10Mbit/s\"\n"),
    ("5g", "phy_rate = \"10Mbit/s\"\n"),
];

#[derive(Clone, Debug)]
struct Drawn {
    mac: usize,
    queues: [usize; 2],
    in_silence: [usize; 2],
    limit: u32,
    user: bool,
    sensing: bool,
    station_sensing: bool,
    rate_told: bool,
    visible: bool,
    mechanism: usize,
    /// By flow: downlink, station, kbit/s, bytes a datagram, version 6.
    flows: Vec<(bool, u32, u32, u32, bool)>,
}

fn any_cell() -> impl Strategy<Value = Drawn> {
    let flow = (any::<bool>(), 0u32..2, 50u32..9000, 40u32..1440, any::<bool>());
    let queue = (0usize..4, 0usize..3);
    (
        0..MACS.len(),
        (queue.clone(), queue, 2u32..200),
        any::<[bool; 5]>(),
        0usize..4,
        prop::collection::vec(flow, 1..5),
    )
        .prop_map(|(mac, (router, station, limit), switches, mechanism, flows)| Drawn {
            mac,
            queues: [router.0, station.0],
            in_silence: [router.1, station.1],
            limit,
            user: switches[0],
            sensing: switches[1],
            station_sensing: switches[2],
            rate_told: switches[3],
            visible: switches[4],
            mechanism,
            flows,
        })
}

impl Drawn {
    fn text(&self) -> String {
        let (mac, rest) = MACS[self.mac];
        let mut text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"datagrams\"\nduration = \"14s\"\n[radio]\nmac = \"{mac}\"\nstations = 2\n{rest}"
        );
        if self.rate_told && mac != "trace" {
            text.push_str("rate_told = true\n");
        }
        if self.user && mac != "trace" {
            text.push_str(
                "primary_user = { on_mean = \"80ms\", off_mean = \"300ms\", detection_delay = \"15ms\" }\n",
            );
        }
        if self.sensing {
            text.push_str("sensing = { period = \"250ms\", duration = \"20ms\" }\n");
        }
        if self.station_sensing {
            text.push_str("station_sensing = [{ station = 1, period = \"300ms\", duration = \"60ms\" }]\n");
        }
        for (index, name) in ["router", "station"].into_iter().enumerate() {
            let queue = ["fifo", "fq_codel", "mac80211", "mac80211-slow"][self.queues[index]];
            let in_silence = ["queue", "drop", "flush"][self.in_silence[index]];
            // Only the router's queue is flushed.
            let in_silence = if name == "station" && in_silence == "flush" { "drop" } else { in_silence };
            text.push_str(&format!(
                "[{name}]\nqueue = \"{queue}\"\nlimit = \"{}pkt\"\nin_silence = \"{in_silence}\"\n",
                self.limit
            ));
            if name == "router" && self.visible {
                text.push_str("visible = true\n");
            }
        }
        for &(downlink, station, kbps, datagram, v6) in &self.flows {
            let direction = if downlink { "downlink" } else { "uplink" };
            let ip = if v6 { "v6" } else { "v4" };
            text.push_str(&format!(
                "[[flows]]\ndirection = \"{direction}\"\nstation = {station}\nip = \"{ip}\"\ntransport = \"udp\"\n\
                 datagram = \"{datagram}B\"\nsource = {{ rate = \"{kbps}kbit/s\" }}\nstop = \"3s\"\n"
            ));
        }
        text + &case(self.mechanism)
    }
}

const MECHANISMS: [&str; 4] = ["none", "dsasync", "local-recovery", "cr-aware"];

/// The only case, with one of four mechanisms.
fn case(mechanism: usize) -> String {
    let mechanism = MECHANISMS[mechanism];
    format!("[[cases]]\nname = \"case\"\nmechanism = \"{mechanism}\"\n")
}

/// Sums of all flows after everything has had time to leave.
fn check(record: &RunRecord) -> Result<UdpRecord, TestCaseError> {
    let all = record.totals.udp.clone().expect("all flows are UDP");
    for flow in &record.flows {
        let one = flow.udp.as_ref().expect("a UDP flow has its counters");
        prop_assert_eq!(one.sent, one.delivered + one.lost + one.inside, "{:?}", one);
        // Nothing falls silent for good, and the senders stopped long ago.
        prop_assert_eq!(one.inside, 0, "{:?}", one);
    }
    // The network counts a loss where it happens; what arrived is counted by the receivers.
    let dropped: u64 = record.mechanisms.iter().flat_map(|mechanism| mechanism.dropped.values()).sum();
    let lost = record.link.queue_drops + record.link.air_losses + dropped;
    prop_assert_eq!((all.sent, all.lost), (all.delivered + lost, lost), "{:?}", all);
    for mechanism in &record.mechanisms {
        // What was held went on, or was dropped after it had been held; nothing stays.
        prop_assert_eq!(mechanism.counter("held_packets"), 0);
        prop_assert!(dropped == 0 || mechanism.counter("datagram_holds") > 0, "{:?}", mechanism);
    }
    Ok(all)
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(64).without_regressions())]
    #[test]
    fn in_a_cell(cell in any_cell(), seed in 1u64..1000) {
        let text = cell.text();
        let record = run(&text, seed);
        let all = check(&record).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert!(all.sent > 0 && all.delivered > 0, "{}", text);
    }

    #[test]
    fn between_radios_of_802_15_4(
        losses in 0.0f64..0.3, has_user in any::<bool>(), heard_by in 0usize..3, mechanism in 0usize..4, seed in 1u64..1000,
        flows in prop::collection::vec((any::<bool>(), 0u32..2, 200u32..30_000, 8u32..65), 1..4),
    ) {
        let heard_by = ["all", "stations", "base-station"][heard_by];
        let user = if has_user {
            // Absences are mostly longer than the detector's T_idle, so that the user leaves within the run.
            format!("primary_user = {{ on_mean = \"300ms\", off_mean = \"3s\", heard_by = \"{heard_by}\" }}\n")
        } else {
            String::new()
        };
        let mut text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"datagrams\"\nduration = \"30s\"\n[radio]\nmac = \"802.15.4\"\nstations = 2\n\
             ieee802154 = {{ frame_loss = {losses} }}\n{user}[router]\nlimit = \"50pkt\"\n[station]\nlimit = \"50pkt\"\n\
             [tcp]\nprofile = \"classic\"\nmss = 94\n"
        );
        for (downlink, station, bps, datagram) in flows {
            let direction = if downlink { "downlink" } else { "uplink" };
            text.push_str(&format!(
                "[[flows]]\ndirection = \"{direction}\"\nstation = {station}\ntransport = \"udp\"\ndatagram = \"{datagram}B\"\n\
                 source = {{ rate = \"{bps}bit/s\" }}\nstop = \"5s\"\n"
            ));
        }
        text.push_str(&case(mechanism));
        let record = run(&text, seed);
        let all = check(&record).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
        prop_assert!(all.sent > 0, "{}", text);
        // A user that comes back within the detector's T_idle (1 s) never left, as the base station sees it:
        // what waits for its end may all grow too old. Of a few datagrams each may be lost.
        let waits_for_user = has_user && MECHANISMS[mechanism] == "dsasync";
        prop_assert!(all.delivered > 0 || waits_for_user || all.sent < 20, "{}", text);
    }

    #[test]
    fn over_a_mesh(
        routing in 0usize..2, users in any::<bool>(), nodes in 3u32..8, seed in 1u64..1000,
        flows in prop::collection::vec((0u32..3, 1u32..3, 5u32..400, 100u32..900), 1..4),
    ) {
        let routing = ["aodv", "search"][routing];
        let spectrum = "[mesh.spectrum]\nbands = 2\ncapacity = \"1Mbit/s\"\nsensing_time = \"200ms\"\n\
            transmitting_time = \"1s\"\ndetector = \"simplified\"\n\
            users = { alpha = \"0.5/s\", beta = \"0.5/s\", spread = \"300m\" }\n";
        let (rate, spectrum) = if users { ("", spectrum) } else { ("rate = \"2Mbit/s\"\n", "") };
        let mut text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"datagrams\"\nduration = \"60s\"\n[mesh]\nnodes = {nodes}\nwidth = \"300m\"\n\
             height = \"300m\"\nphy = \"802.11b\"\nrouting = \"{routing}\"\n\
             walk = {{ speed_min = \"2.5m/s\", speed_max = \"4m/s\", pause = \"3s\" }}\n{rate}{spectrum}[tcp]\nmss = 1000\n"
        );
        for (from, step, kbps, datagram) in flows {
            text.push_str(&format!(
                "[[flows]]\nfrom = {from}\nto = {}\ntransport = \"udp\"\ndatagram = \"{datagram}B\"\n\
                 source = {{ rate = \"{kbps}kbit/s\" }}\nstop = \"5s\"\n",
                (from + step) % 3
            ));
        }
        let record = run(&text, seed);
        check(&record).map_err(|error| TestCaseError::fail(format!("{error}\n{text}")))?;
    }
}
