//! Look-ahead over a granted uplink: how long ACKs wait at the station, in frames of 802.16, and what it
//! costs.

use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::{Duration, Instant};
use linkhold_results::RunRecord;
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sim::slab::Packet;
use linkhold_sim::{Observer, SeenAt, Simulation, run_case_observed};

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

    fn on_packet(&mut self, now: Instant, seen_at: SeenAt, _flow: &FlowKey, packet: &Packet) {
        // The first seconds teach it.
        let learned = now > Instant::from_millis(5_000);
        if learned && seen_at == SeenAt::Correspondent && packet.direction == Direction::Uplink {
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

/// Seconds of a run whose chance p_s changes, and when it does.
const LONG: u64 = 80;
const CHANGE: u64 = 30;
/// Both runs are compared from here on: so long after the change N and gain are to be those of the new
/// chance.
const SETTLED: u64 = CHANGE + 10;

/// What became of ACKs from [`SETTLED`] on: their waits, and N each second.
#[derive(Default)]
struct Late {
    delays: Vec<Duration>,
}

impl Observer for Late {
    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, now: Instant, seen_at: SeenAt, _flow: &FlowKey, packet: &Packet) {
        let settled = now > Instant::from_millis(1000 * SETTLED);
        if settled && seen_at == SeenAt::Correspondent && packet.direction == Direction::Uplink {
            self.delays.push(now.since(packet.sent_at));
        }
    }
}

/// Mean N and mean wait of the ACKs, frames, of the settled part of eight runs.
fn settled(case: &str, success: f64, change: Option<f64>) -> (f64, f64) {
    let mut set = vec![format!("duration=\"{LONG}s\""), format!("radio.grants.success={success}")];
    if let Some(change) = change {
        set.push(format!("radio.grants.success_changes=[{{ at = \"{CHANGE}s\", success = {change} }}]"));
    }
    let scenario =
        Scenario::parse(CELL, "look-ahead.toml", &set, &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    let case = scenario.cases().into_iter().find(|known| known.name == case).expect("there is such a case");
    let (mut frames_ahead, mut waits) = (Vec::new(), Vec::new());
    for seed in 1..=8 {
        let mut late = Late::default();
        let mut simulation = Simulation::new(&case, seed, &mut late).expect("the scenario is valid");
        for second in SETTLED..LONG {
            simulation.advance(Instant::from_millis(1000 * second));
            let taps = simulation.engine().network().taps();
            frames_ahead.extend(taps.first().map(|tap| tap.mechanism().metrics().uplink_lead_frames as f64));
        }
        simulation.advance(Instant::from_millis(1000 * LONG));
        drop(simulation);
        waits.extend(late.delays.iter().map(|delay| (delay.as_secs_f64() * 1e3 - WIRE_MS) / FRAME_MS));
    }
    let mean = |all: &[f64]| all.iter().sum::<f64>() / all.len().max(1) as f64;
    (mean(&frames_ahead), mean(&waits))
}

/// The paper's future work (section V). The criterion was fixed before the first run: ten seconds after p_s
/// has changed, N is within half a frame of what it is in runs that had that p_s from the start, over the
/// same seconds and eight seeds, and ACKs wait within 10 % as long, and less than without look-ahead.
#[test]
fn n_and_gain_follow_a_chance_that_changes_in_a_run() {
    for (before, after) in [(1.0, 0.5), (0.5, 1.0), (0.1, 1.0), (0.1, 0.5), (1.0, 0.9)] {
        let (_, plain) = settled("plain", before, Some(after));
        let (n, wait) = settled("recommended", before, Some(after));
        let (own_n, own_wait) = settled("recommended", after, None);
        println!(
            "p_s {before} -> {after}: N {n:.2}, {own_n:.2} from the start; ACKs wait {wait:.2} frames, {own_wait:.2} from \
             the start, {plain:.2} without look-ahead"
        );
        assert!((n - own_n).abs() <= 0.5, "{before} -> {after}: {n} and {own_n}");
        assert!((wait / own_wait - 1.0).abs() <= 0.1, "{before} -> {after}: {wait} and {own_wait}");
        assert!(wait < 0.8 * plain, "{before} -> {after}: {wait} and {plain}");
    }
}
