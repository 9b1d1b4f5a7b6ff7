//! The SNR gate on a host that walks in and out of reach, in whole transfers.

use linkhold_results::RunRecord;
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sim::run_case;

/// The project's scenario, with keys changed.
fn scenario(set: &[&str]) -> Scenario {
    let text = include_str!("../../../scenarios/activation.toml");
    let set: Vec<String> = set.iter().map(|&key| key.to_owned()).collect();
    Scenario::parse(text, "activation.toml", &set, &NoFiles).unwrap_or_else(|error| panic!("{error}"))
}

fn run(scenario: &Scenario, case: &str, seed: u64) -> RunRecord {
    let case = scenario.cases().into_iter().find(|known| known.name == case).expect("there is such a case");
    run_case(&case, seed).expect("the scenario is valid").0
}

fn completion(run: &RunRecord) -> f64 {
    run.flows[0].completion_s.expect("the transfer ends")
}

#[test]
fn a_gate_saves_frames_from_noise_and_the_transfer_still_ends_whole() {
    // Path loss alone: a walk of seconds, not fades that are over before a late sample tells of them.
    let scenario = scenario(&["radio.snr.walk.k_factor=\"60dB\""]);
    let (mut plain_lost, mut gated_lost) = (0, 0);
    for seed in 1..=4 {
        let (plain, gated) = (run(&scenario, "off", seed), run(&scenario, "hysteresis", seed));
        assert_eq!((plain.flows[0].bytes, gated.flows[0].bytes), (5_000_000, 5_000_000));
        plain_lost += plain.link.air_losses;
        gated_lost += gated.link.air_losses;
        let gate = &gated.mechanisms[0];
        assert!(gate.counter("silences") > 0 && gate.counter("windows_closed") > 0, "{gate:?}");
        assert_eq!(gate.counter("windows_closed"), gate.counter("windows_reopened"), "{gate:?}");
        assert_eq!(gate.counter("held_packets"), 0);
    }
    assert!(plain_lost > 100, "the walk costs frames: {plain_lost}");
    assert!(gated_lost * 2 < plain_lost, "{gated_lost} of {plain_lost}");
}

#[test]
fn a_threshold_above_every_sample_costs_one_longest_gate_and_no_more() {
    // The signal is strong and still, so that nothing but the gate makes a difference.
    let set = [
        "cases.2.mechanism={ name = \"snr-gate\", preset = \"hysteresis\", threshold = \"90dB\", max_gate = \"10s\" }",
        "radio.snr.walk.near=\"2m\"",
        "radio.snr.walk.far=\"2m\"",
        "radio.snr.walk.speed=\"0m/s\"",
        "radio.snr.walk.k_factor=\"60dB\"",
    ];
    let scenario = scenario(&set);
    for seed in 1..=4 {
        let (plain, shut) = (run(&scenario, "off", seed), run(&scenario, "hysteresis", seed));
        assert_eq!(shut.mechanisms[0].counter("silences"), 1, "shut once, then overruled for good");
        let later = completion(&shut) - completion(&plain);
        assert!((8.0..14.0).contains(&later), "{later} s later: 10 s, and a window that grows anew");
    }
}

#[test]
fn samples_that_never_come_leave_the_host_as_it_is() {
    // The first sample is told after the run's end.
    let deaf = scenario(&["radio.snr.delay=\"400s\""]);
    let (plain, gated) = (run(&deaf, "off", 2), run(&deaf, "hysteresis", 2));
    assert_eq!(gated.mechanisms[0].counter("silences"), 0);
    assert_eq!(completion(&plain), completion(&gated));
    assert_eq!(plain.link.air_losses, gated.link.air_losses);
}

#[test]
fn the_mac_sends_again_what_noise_spoiled_up_to_the_limit() {
    // 15 m away, at 4.7 dB, where noise spoils one full frame in forty, and of 8 copies hardly ever all.
    let at = |limit: &str| {
        let still = ["near=\"15m\"", "far=\"15m\"", "speed=\"0m/s\"", "k_factor=\"60dB\""];
        let mut keys: Vec<String> = still.iter().map(|key| format!("radio.snr.walk.{key}")).collect();
        keys.push(limit.to_owned());
        scenario(&keys.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let (never, seven) = (at("radio.retry_limit=0"), at("radio.retry_limit=7"));
    let (never, seven) = (run(&never, "off", 1), run(&seven, "off", 1));
    assert!(seven.link.air_losses * 10 < never.link.air_losses, "{seven:?}");
    assert!(completion(&seven) < completion(&never));
}

#[test]
fn energy_is_told_where_a_radio_states_its_powers_and_nowhere_else() {
    let stated = run(&scenario(&[]), "off", 1);
    let energy = stated.link.energy.as_ref().expect("the scenario states powers");
    // The station is on for the whole transfer: idle power for that time is the least that it can take, and
    // sending all the time the most.
    let seconds = completion(&stated);
    let per_byte = |watts: f64| watts * seconds / 5e6;
    assert!((per_byte(0.739)..per_byte(1.346)).contains(&energy.j_per_byte), "{energy:?} in {seconds} s");
    // 5 MB in packets of 1500 bytes at 5.5 Mbit/s, more than once where lost.
    let once = 5e6 / 1460.0 * 1500.0 * 8.0 / 5.5e6;
    assert!((once..1.3 * once).contains(&energy.transmit_s[0]), "{} s, {once}", energy.transmit_s[0]);
    let none = run(&scenario(&["radio.power=\"none\""]), "off", 1);
    assert_eq!(none.link.energy, None);
    assert!(!serde_json::to_string(&none).expect("JSON").contains("energy"));
}

#[test]
fn a_radio_is_on_until_the_last_flow_is_over_also_if_its_application_stopped() {
    let udp = "transport = \"udp\", source = { rate = \"1Mbit/s\", chunk = \"1000B\" }, ";
    for transport in ["", udp] {
        for warm_up in [0.0_f64, 2.0] {
            let flows =
                format!("flows=[{{ direction = \"uplink\", {transport}start = \"1s\", stop = \"6s\" }}]");
            let set = [&flows, &format!("warm_up={warm_up}s"), "duration=100s"];
            let stopped = run(&scenario(&set), "off", 1);
            let on = stopped.link.energy.expect("the scenario states powers").on_s;
            let least = 6.0 - warm_up.max(1.0);
            // What was written by then still goes, over a wire of 1 Mbit/s.
            assert!((least..least + 40.0).contains(&on), "{transport:?} from {warm_up} s on: {on} s");
        }
    }
}

#[test]
fn one_seed_gives_one_result() {
    let text = || {
        let mut record = run(&scenario(&[]), "adaptive", 5);
        record.wall_s = 0.0;
        serde_json::to_string(&record).expect("JSON")
    };
    assert_eq!(text(), text());
}
