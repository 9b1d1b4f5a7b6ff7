//! Plans about other traffic than one bulk download: short flows, many flows, uplink, datagrams.

use libtest_mimic::Failed;
use linkhold_results::{FlowDirection, FlowRecord, UdpRecord};

use crate::Answer;
use crate::conditions::{CUBIC, ONE};
use crate::findings::Findings;
use crate::plan::{Conditions, Plan, Source};
use crate::runs::{Evidence, Runs};

pub fn plans() -> Vec<Plan> {
    vec![
        Plan {
            name: "short_flows_all_complete",
            shows: "Downloads of 100 kB that arrive at random beside a bulk download all end, with the right bytes, on both \
                    stacks at the same times of arrival.",
            conditions: &[SHORT_FLOWS],
            check: short_flows_complete,
            agree: Some(same_arrivals),
        },
        Plan {
            name: "many_flows_share_fairly",
            shows: "24 downloads on six stations fill the link, none starves, and the mechanism's memory stays small.",
            conditions: &[MANY_FLOWS],
            check: many_flows,
            agree: None,
        },
        Plan {
            name: "uplink_flows_are_left_alone",
            shows: "Without shaping the mechanism changes nothing for an upload: same goodput, same delay.",
            conditions: &[UPLINK],
            check: uplink_left_alone,
            agree: None,
        },
        Plan {
            name: "uplink_shaping_steadies_the_delay",
            shows: "Algorithm 3 lowers the deviation of an upload's delay, and pays for it with goodput.",
            conditions: &[UPLINK],
            check: uplink_shaping,
            agree: None,
        },
        Plan {
            name: "a_udp_hog_leaves_a_download_its_share",
            shows: "Beside a UDP sender at twice the radio's rate a download keeps 0.45 of the limit where dsasync holds datagrams \
                    (half would be fair), and next to nothing where they pass; no window is closed for the hog's sake.",
            conditions: &[HOG],
            check: hog_leaves_a_share,
            agree: Some(same_datagrams),
        },
        Plan {
            name: "datagrams_wait_for_the_end_of_a_silence_in_order",
            shows: "What a silence finds on its way is held and comes later, in order, where the plain router's short queue loses it.",
            conditions: &[SPARSE],
            check: datagrams_wait,
            agree: Some(same_datagrams),
        },
        Plan {
            name: "a_download_and_an_upload_of_a_station_both_have_their_parts",
            shows: "Beside an upload of its own station a download has eight tenths of what it has over a plain router, or of half \
                    of what that router carries, and so has the upload, whether the rate is told or not. Without windows that \
                    allow for the ACKs' wait in the other direction's queue one of them would have half of its part.",
            conditions: &[BOTH_WAYS],
            check: both_ways,
            agree: None,
        },
    ]
}

const HOG: Conditions = Conditions {
    name: "UDP hog",
    scenario: Source::File("udp.toml"),
    set: &["duration=8s", "warm_up=3s", "flows.1.source={ rate = \"48Mbit/s\" }"],
    cases: &["pass", "hold"],
    congestion: CUBIC,
    seeds: ONE,
};

/// 2 Mbit/s of datagrams, some from the station, and some of media, over a radio that is silent for 300 ms of
/// each second, behind a queue of 20 packets.
const SPARSE: Conditions = Conditions {
    name: "sparse datagrams",
    scenario: Source::Text(
        r#"
schema = "linkhold.scenario/1"
name = "sparse"
duration = "6s"
warm_up = "1s"
[wired]
rtt = "20ms"
[radio]
phy_rate = "24Mbit/s"
rate_told = true
sensing = { period = "1s", duration = "300ms", phase = "400ms", announced = false }
[router]
limit = "20pkt"
visible = false
[[flows]]
direction = "downlink"
transport = "udp"
source = { rate = "2Mbit/s" }
[[flows]]
direction = "uplink"
transport = "udp"
source = { rate = "100kbit/s" }
[[flows]]
direction = "downlink"
transport = "udp"
ip = "v6"
source = "media"
media = { rate = "500kbit/s", startup = "500ms", resume = "100ms" }
stop = "5s"
[[cases]]
name = "fifo"
[[cases]]
name = "hold"
mechanism = "dsasync"
"#,
    ),
    set: &[],
    cases: &["fifo", "hold"],
    congestion: CUBIC,
    seeds: ONE,
};

/// The cell that `sim/tests/both_ways.rs` has among many, shorter.
const BOTH_WAYS: Conditions = Conditions {
    name: "download and upload",
    scenario: Source::Text(
        r#"
schema = "linkhold.scenario/1"
name = "both"
duration = "15s"
warm_up = "5s"
[wired]
rate = "200Mbit/s"
rtt = "20ms"
[radio]
phy_rate = "20Mbit/s"
mac_efficiency = 0.73
rate_told = true
[router]
limit = "100pkt"
[tcp]
profile = "linux"
[[flows]]
direction = "downlink"
[[flows]]
direction = "uplink"
[[cases]]
name = "fifo"
[[cases]]
name = "told"
mechanism = "dsasync"
[[cases]]
name = "untold"
mechanism = "dsasync"
set = { "radio.rate_told" = false }
"#,
    ),
    set: &[],
    cases: &["fifo", "told", "untold"],
    congestion: CUBIC,
    seeds: ONE,
};

/// The flows of datagrams, with what their records say of them.
fn datagrams(of: &Evidence) -> impl Iterator<Item = (&FlowRecord, &UdpRecord)> {
    of.record.flows.iter().filter_map(|flow| flow.udp.as_ref().map(|udp| (flow, udp)))
}

/// The first of them.
fn first_datagrams(of: &Evidence) -> Result<(&FlowRecord, &UdpRecord), Failed> {
    datagrams(of).next().ok_or_else(|| format!("{of}: there is no flow of datagrams").into())
}

fn hog_leaves_a_share(runs: &Runs, findings: &mut Findings) -> Answer {
    let share = |of: &Evidence| {
        let downloads = of.record.flows.iter().filter(|flow| flow.udp.is_none());
        downloads.map(|flow| flow.goodput_bps).sum::<f64>() / of.record.link.goodput_limit_bps
    };
    for (held, passed) in runs.of_with("hold", "pass")? {
        findings.at_least(held, "the download's share of the limit", share(held), 0.45);
        findings.at_most(passed, "the download's share of the limit", share(passed), 0.1);
        findings.equal(held, "windows closed", held.mechanism()?.counter("windows_closed")?, 0);
        let (_, udp) = first_datagrams(held)?;
        findings.equal(held, "datagrams out of order", udp.reordered, 0);
        findings.some(held, "datagrams lost", udp.lost);
    }
    Ok(())
}

fn datagrams_wait(runs: &Runs, findings: &mut Findings) -> Answer {
    for (held, plain) in runs.of_with("hold", "fifo")? {
        let ((flow, udp), (_, lost)) = (first_datagrams(held)?, first_datagrams(plain)?);
        findings.equal(held, "datagrams lost", udp.lost, 0);
        findings.equal(held, "datagrams out of order", udp.reordered, 0);
        findings.some(held, "datagrams held", held.mechanism()?.counter("datagram_holds")?);
        // 51 of 170 a second are sent into a silence, and at most 20 find room.
        findings.at_least(plain, "datagrams lost", lost.lost as f64, 5.0 * 25.0);
        findings.at_least(held, "99th percentile of delay, s", flow.delay_p99_s, 0.2);
        findings.at_most(held, "99th percentile of delay, s", flow.delay_p99_s, 0.4);
        let up = held.record.flows.iter().find(|flow| flow.direction == FlowDirection::Uplink);
        findings.some(held, "bytes from the station", up.map_or(0, |flow| flow.bytes));
        let media = held.record.flows.iter().find_map(|flow| flow.media.clone());
        let played = media.map_or(f64::NAN, |media| media.played_bytes as f64);
        findings.at_least(held, "bytes of media played", played, 0.8 * 500e3 / 8.0 * 5.0);
    }
    Ok(())
}

fn same_datagrams(simulator: &Runs, linux: &Runs, findings: &mut Findings) -> Answer {
    for (one, other) in linux.beside(simulator) {
        let count = |of: &Evidence| datagrams(of).count() as u64;
        findings.equal(one, "flows of datagrams", count(one), count(other));
        for ((of_one, here), (of_other, there)) in datagrams(one).zip(datagrams(other)) {
            let what = |text: &str| format!("flow {}: {text}", of_one.id);
            // By the same clock; 50 ms of a flow are what a host may be late at either end of what counts,
            // and a sender whose processor stood still there is later.
            let slack = 1.0 + (0.05 + one.host.longest_s) * there.sent as f64 / of_other.active_s;
            let more = here.sent.abs_diff(there.sent) as f64;
            findings.at_most(one, &what("datagrams sent more or fewer"), more, slack);
            let apart = (of_one.goodput_bps / of_other.goodput_bps - 1.0).abs();
            findings.at_most(one, &what("goodput, apart from the simulator's"), apart, 0.05);
            let (Some(here), Some(there)) = (&of_one.media, &of_other.media) else {
                findings.equal(
                    one,
                    &what("players"),
                    of_one.media.iter().count() as u64,
                    of_other.media.iter().count() as u64,
                );
                continue;
            };
            findings.equal(one, &what("stalls of the player"), here.stalls, there.stalls);
            let played = here.played_bytes as f64 / there.played_bytes as f64;
            findings.at_most(
                one,
                &what("bytes played, apart from the simulator's"),
                (played - 1.0).abs(),
                0.05,
            );
        }
    }
    Ok(())
}

const SHORT_FLOWS: Conditions = Conditions {
    name: "short flows",
    scenario: Source::File("short-flows.toml"),
    set: &["duration=12s", "flows.1.start=1s", "flows.1.stop=7s"],
    cases: &["fq_codel", "dsasync"],
    congestion: CUBIC,
    seeds: ONE,
};

fn short(of: &Evidence) -> impl Iterator<Item = &linkhold_results::FlowRecord> {
    of.record.flows.iter().filter(|flow| flow.station == 1)
}

fn short_flows_complete(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter() {
        let all = short(one).count() as u64;
        findings.at_least(one, "short flows", all as f64, 6.0);
        let done = short(one).filter(|flow| flow.completion_s.is_some() && flow.bytes == 100_000).count();
        findings.equal(one, "short flows that ended with their bytes", done as u64, all);
        if let Some(seen) = &one.applications {
            findings.equal(one, "short flows that their applications saw whole", seen.finished as u64, all);
            findings.equal(one, "short flows with wrong bytes", seen.corrupt, 0);
            findings.equal(one, "short flows that did not end", seen.unfinished as u64, 0);
        }
    }
    Ok(())
}

fn same_arrivals(simulator: &Runs, linux: &Runs, findings: &mut Findings) -> Answer {
    for (one, other) in linux.beside(simulator) {
        findings.equal(one, "short flows", short(one).count() as u64, short(other).count() as u64);
        let mut starts: [Vec<f64>; 2] = [one, other].map(|of| short(of).map(|flow| flow.start_s).collect());
        starts.iter_mut().for_each(|starts| starts.sort_by(f64::total_cmp));
        let apart = starts[0].iter().zip(&starts[1]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        findings.at_most(one, "furthest two starts are apart, s", apart, 0.4);
    }
    Ok(())
}

const MANY_FLOWS: Conditions = Conditions {
    name: "24 flows",
    scenario: Source::File("many-stations.toml"),
    set: &["duration=8s", "warm_up=2s"],
    cases: &["dsasync"],
    congestion: CUBIC,
    seeds: ONE,
};

fn many_flows(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter() {
        findings.equal(one, "flows", one.record.flows.len() as u64, 24);
        findings.at_least(one, "goodput / limit", one.record.totals.limit_share, 0.85);
        // A fifth of the flows without anything would make it 0.8.
        findings.at_least(one, "Jain's index", one.record.totals.jain_index, 0.85);
        // B_alloc is 64 MB; this is what windows of one round trip can come to.
        findings.at_most(one, "most bytes held", one.mechanism()?.counter("held_bytes_peak")? as f64, 4e6);
        findings.some(one, "packets held", one.mechanism()?.counter("holds")?);
    }
    Ok(())
}

const UPLINK: Conditions = Conditions {
    name: "upload",
    scenario: Source::File("dsasync-uplink.toml"),
    set: &["duration=14s", "warm_up=2s"],
    cases: &["none", "dsasync", "dsasync-alg3"],
    congestion: CUBIC,
    seeds: ONE,
};

fn uplink_left_alone(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, plain) in runs.of_with("dsasync", "none")? {
        let ratio = one.record.totals.goodput_bps / plain.record.totals.goodput_bps;
        findings.at_least(one, "goodput, of the plain router's", ratio, 0.95);
        findings.at_least(one, "goodput / limit", one.record.totals.limit_share, 0.9);
        // Of medians: what single long silences and losses of two uploads add to their means is chance.
        let median = |of: &Evidence| of.record.totals.delay_p50_s;
        findings.at_most(one, "added to the median delay, s", median(one) - median(plain), 0.03);
    }
    Ok(())
}

fn uplink_shaping(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, plain) in runs.of_with("dsasync-alg3", "none")? {
        let ratio = one.record.totals.delay_std_s / plain.record.totals.delay_std_s;
        findings.at_most(one, "deviation of the delay, of the plain router's", ratio, 0.9);
        findings.at_least(one, "goodput / limit", one.record.totals.limit_share, 0.3);
        findings.some(one, "packets held", one.mechanism()?.counter("holds")?);
    }
    Ok(())
}

/// What is asked of each is what `sim/tests/both_ways.rs` asks of its cells.
fn both_ways(runs: &Runs, findings: &mut Findings) -> Answer {
    let ways = |of: &Evidence| {
        [FlowDirection::Downlink, FlowDirection::Uplink].map(|direction| {
            let flows = of.record.flows.iter().filter(|flow| flow.direction == direction);
            flows.map(|flow| flow.goodput_bps).sum::<f64>()
        })
    };
    for case in ["told", "untold"] {
        for (one, plain) in runs.of_with(case, "fifo")? {
            let (has, had) = (ways(one), ways(plain));
            let all: f64 = had.iter().sum();
            findings.at_least(
                one,
                "goodput both ways, of the plain router's",
                has.iter().sum::<f64>() / all,
                0.95,
            );
            for (way, (has, had)) in ["download", "upload"].iter().zip(has.into_iter().zip(had)) {
                let part = has / had.min(all / 2.0);
                findings.at_least(one, &format!("the {way}'s goodput, of its part"), part, 0.8);
            }
            findings.some(one, "packets held", one.mechanism()?.counter("holds")?);
        }
    }
    Ok(())
}
