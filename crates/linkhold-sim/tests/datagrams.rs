//! Datagrams beside a TCP download at a base station with `dsasync`, and across its silences.
//!
//! Plan, hog: a download with the `linux` profile (CUBIC) over 24 Mbit/s and 20 or 100 ms, beside a UDP sender that
//! heeds nothing, at 1.0 and 2.0 times the radio's rate, at the same station; no silences. Check, fixed before it
//! was measured: the download has at least 0.45 of the limit, no window is closed, and where datagrams pass the
//! mechanism (`datagrams = "pass"`) the same hog leaves it less than half as much.
//!
//! Plan, media: live media of 2 Mbit/s over UDP beside a download, with a primary user of 0.3 s every 1.3 s. Check:
//! every datagram that was held left or is counted with its reason, none is out of order, fewer are lost than where
//! they pass, and the download carries at least 0.95 of what it carries there.

use linkhold_results::{RunRecord, UdpRecord};
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sim::run_case;

fn run(text: &str, case: &str, seed: u64) -> RunRecord {
    let text = format!(
        "schema = \"linkhold.scenario/1\"\nname = \"datagrams\"\n{text}\n[[cases]]\nname = \"case\"\n{case}\n"
    );
    let scenario =
        Scenario::parse(&text, "s.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}\n{text}"));
    run_case(&scenario.cases()[0], seed).expect("the scenario is valid").0
}

const PASS: &str = "mechanism = { name = \"dsasync\", datagrams = \"pass\" }";
const HOLD: &str = "mechanism = { name = \"dsasync\", datagrams = \"hold\" }";

/// A download first, then datagrams of `source`.
fn cell(rtt_ms: u32, user: &str, source: &str) -> String {
    format!(
        "duration = \"25s\"\nwarm_up = \"5s\"\n[wired]\nrtt = \"{rtt_ms}ms\"\n[radio]\nmac = \"shared\"\nphy_rate = \"24Mbit/s\"\nmac_efficiency = 1.0\n{user}\
         [router]\nvisible = false\nin_silence = \"queue\"\n[tcp]\nprofile = \"linux\"\ncongestion = \"cubic\"\n[[flows]]\ndirection = \"downlink\"\n\
         [[flows]]\ndirection = \"downlink\"\ntransport = \"udp\"\n{source}\n"
    )
}

fn udp(record: &RunRecord) -> &UdpRecord {
    record.flows[1].udp.as_ref().expect("it is a UDP flow")
}

/// Share of the limit that the download has.
fn share(record: &RunRecord) -> f64 {
    record.flows[0].goodput_bps / record.link.goodput_limit_bps
}

#[test]
fn a_download_keeps_its_share_beside_a_udp_hog() {
    for (rtt_ms, times) in [(20, 1), (20, 2), (100, 1), (100, 2)] {
        let text = cell(rtt_ms, "", &format!("source = {{ rate = \"{}Mbit/s\" }}", 24 * times));
        let (hold, pass) = (run(&text, HOLD, 1), run(&text, PASS, 1));
        let mechanism = &hold.mechanisms[0];
        println!(
            "{rtt_ms} ms, {times}: download {:.3} held, {:.3} passed; datagrams {:.3} of the limit, {:?}",
            share(&hold),
            share(&pass),
            hold.flows[1].goodput_bps / hold.link.goodput_limit_bps,
            mechanism.dropped
        );
        assert!(share(&hold) >= 0.45, "{:.3} beside {times} times the radio's rate", share(&hold));
        assert!(share(&pass) < share(&hold) / 2.0, "{:.3} where datagrams pass", share(&pass));
        assert_eq!(mechanism.counter("windows_closed"), 0);
        // The radio loses nothing by it.
        assert!(
            hold.totals.goodput_bps / hold.link.goodput_limit_bps > 0.95,
            "{:?}",
            hold.totals.goodput_bps
        );
    }
}

#[test]
fn media_cross_a_silence_in_order_beside_a_download() {
    let user = "primary_user = { on_mean = \"300ms\", off_mean = \"1s\" }\n";
    for rtt_ms in [20, 100] {
        let text = cell(rtt_ms, user, "source = { rate = \"2Mbit/s\" }");
        let (hold, pass) = (run(&text, HOLD, 1), run(&text, PASS, 1));
        println!("{rtt_ms} ms: held {:.3} {:?}", share(&hold), udp(&hold));
        println!("{rtt_ms} ms: passed {:.3} {:?}", share(&pass), udp(&pass));
        let mechanism = &hold.mechanisms[0];
        assert!(mechanism.counter("datagram_holds") > 100, "{mechanism:?}");
        assert_eq!(udp(&hold).reordered, 0);
        assert!(udp(&hold).lost <= udp(&pass).lost, "{:?} held, {:?} passed", udp(&hold), udp(&pass));
        assert!(share(&hold) >= 0.95 * share(&pass));
    }
}

/// What waited for longer than it may is dropped and counted; the age is that of the setting.
#[test]
fn datagrams_that_are_too_old_are_dropped_and_counted() {
    let user = "primary_user = { on_mean = \"800ms\", off_mean = \"2s\" }\n";
    let text = cell(20, user, "source = { rate = \"1Mbit/s\" }");
    let case = |age| format!("mechanism = {{ name = \"dsasync\", datagram_max_age = \"{age}\" }}");
    let [short, default, never] = ["200ms", "1s", "0s"].map(|age| run(&text, &case(age), 1));
    let old = |record: &RunRecord| record.mechanisms[0].dropped["too_old"];
    println!("too old: {} {} {}", old(&short), old(&default), old(&never));
    assert!(old(&short) > old(&default) && old(&default) > 0 && old(&never) == 0);
    assert!(udp(&short).lost >= old(&short) && udp(&never).lost < udp(&default).lost);
}
