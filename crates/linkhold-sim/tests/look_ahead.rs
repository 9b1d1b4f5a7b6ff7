//! Look-ahead over a granted uplink: how long ACKs wait at the station, in frames of 802.16, and what it costs.

use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::{Duration, Instant};
use linkhold_results::RunRecord;
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sim::slab::Packet;
use linkhold_sim::{Observer, Tap, run_case_observed};

const FRAME_MS: f64 = 5.0;
/// Half of the wired round trip, which every ACK has in its delay too.
const WIRE_MS: f64 = 5.0;

/// The paper's cell (section II-C): one station, frames of 5 ms, 8 frames of access at p_s = 1.
const CELL: &str = r#"schema = "linkhold.scenario/1"
name = "look-ahead"
duration = "40s"
[wired]
rtt = "10ms"
[radio]
mac = "802.16"
phy_rate = "5.92Mbit/s"
stations = 1
[radio.grants]
uplink_rate = "3.617Mbit/s"
[tcp]
delayed_ack = "heartbeat-only 200ms"
[[flows]]
direction = "downlink"
source = "media"
media = { rate = "450kbit/s" }
[[cases]]
name = "plain"
[[cases]]
name = "paper"
mechanism = { name = "look-ahead", preset = "paper" }
[[cases]]
name = "recommended"
mechanism = "look-ahead"
"#;

/// Delays of the ACKs, from the station's host to the correspondent.
#[derive(Default)]
struct Acks {
    delays: Vec<Duration>,
}

impl Observer for Acks {
    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, now: Instant, tap: Tap, _flow: &FlowKey, packet: &Packet) {
        // The first seconds teach it.
        let learned = now > Instant::from_millis(5_000);
        if learned && tap == Tap::Correspondent && packet.direction == Direction::Uplink {
            self.delays.push(now.since(packet.sent_at));
        }
    }
}

/// A case's record, and the mean wait of its ACKs in frames.
fn run(case: &str, set: &[&str]) -> (RunRecord, f64) {
    run_text(CELL, case, set)
}

fn run_text(text: &str, case: &str, set: &[&str]) -> (RunRecord, f64) {
    let set: Vec<String> = set.iter().map(|&key| key.to_owned()).collect();
    let scenario =
        Scenario::parse(text, "look-ahead.toml", &set, &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    let case = scenario.cases().into_iter().find(|known| known.name == case).expect("there is such a case");
    let mut acks = Acks::default();
    let (record, _) = run_case_observed(&case, 1, &mut acks).expect("the scenario is valid");
    let sum: f64 = acks.delays.iter().map(|delay| delay.as_secs_f64() * 1e3 - WIRE_MS).sum();
    (record, sum / acks.delays.len() as f64 / FRAME_MS)
}

/// Requests made ahead, and those of them that were for nothing.
fn requests(record: &RunRecord) -> (u64, u64) {
    let counter = |name| record.mechanisms.first().map_or(0, |mechanism| mechanism.counter(name));
    (counter("uplink_requests"), counter("uplink_requests_wrong"))
}

/// Waits without and with look-ahead, frames, and the record with it.
fn compare(case: &str, set: &[&str]) -> (f64, f64, RunRecord) {
    let ((_, without), (record, with)) = (run("plain", set), run(case, set));
    let (asked, wrong) = requests(&record);
    println!("{set:?} {case}: {with:.2} frames instead of {without:.2}; {asked} requests, {wrong} wrong");
    (without, with, record)
}

#[test]
fn a_heartbeats_acks_wait_a_frame_instead_of_eight() {
    for case in ["paper", "recommended"] {
        let (without, with, record) = compare(case, &[]);
        assert!((7.5..8.5).contains(&without), "{without}");
        assert!(with < 2.0, "{case}: {with}");
        // 200 beats in 40 s.
        let (asked, wrong) = requests(&record);
        assert!((190..=201).contains(&asked) && wrong <= 5, "{case}: {asked} requests, {wrong} wrong");
        let uplink = record.link.uplink.expect("this radio grants");
        assert!(uplink.unused_grants <= wrong + 1, "{case}: {uplink:?}");
    }
}

#[test]
fn a_turn_a_frame_too_early_is_lost_and_gains_nothing() {
    // The paper's number, which counts the burst's own frame: the turn starts 1.4 ms before the ACK comes.
    let early = ["cases.1.mechanism={ name = \"look-ahead\", preset = \"paper\", n = 8 }"];
    let (without, with, record) = compare("paper", &early);
    let (asked, wrong) = requests(&record);
    assert!(with > without - 0.1, "{with} instead of {without}");
    assert!(wrong * 10 >= asked * 9, "{asked} requests, {wrong} wrong");
    assert!(record.link.uplink.expect("this radio grants").unused_grants >= wrong);
}

#[test]
fn what_linux_receives_is_learned_and_the_papers_form_asks_for_none_of_it() {
    let linux = ["tcp.delayed_ack=\"linux\""];
    let (without, with, record) = compare("recommended", &linux);
    assert!((6.5..8.0).contains(&without), "{without}");
    assert!(with < 3.0, "{with}");
    let (asked, wrong) = requests(&record);
    assert!(asked > 900 && wrong * 20 < asked, "{asked} requests, {wrong} wrong");
    let (_, with, record) = compare("paper", &linux);
    assert_eq!(requests(&record), (0, 0));
    assert!((with - without).abs() < 0.01, "no request, no change: {with}");
}

#[test]
fn a_weaker_channel_leaves_a_gain_to_the_measured_n() {
    let weak = ["radio.grants.success=0.5"];
    let (without, with, record) = compare("recommended", &weak);
    assert!(with < 0.8 * without, "{with} instead of {without}");
    let (asked, wrong) = requests(&record);
    assert!(wrong * 10 < asked, "{asked} requests, {wrong} wrong");
}

#[test]
fn where_the_radio_grants_nothing_requests_change_nothing() {
    let shared = CELL.replace("mac = \"802.16\"\n", "");
    let shared = shared.replace("[radio.grants]\nuplink_rate = \"3.617Mbit/s\"\n", "");
    let ((_, without), (record, with)) =
        (run_text(&shared, "plain", &[]), run_text(&shared, "recommended", &[]));
    assert!(requests(&record).0 > 100, "it asks all the same");
    assert_eq!(without.to_bits(), with.to_bits());
}
