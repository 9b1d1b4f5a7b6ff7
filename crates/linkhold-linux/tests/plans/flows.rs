//! Plans about other traffic than one bulk download: short flows, many flows, uplink.

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
    ]
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
        findings.at_most(one, "most bytes held", one.mechanism()?.counter("held_bytes_peak") as f64, 4e6);
        findings.some(one, "packets held", one.mechanism()?.counter("holds"));
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
        let added = one.record.totals.delay_mean_s - plain.record.totals.delay_mean_s;
        findings.at_most(one, "added to the mean delay, s", added, 0.03);
    }
    Ok(())
}

fn uplink_shaping(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, plain) in runs.of_with("dsasync-alg3", "none")? {
        let ratio = one.record.totals.delay_std_s / plain.record.totals.delay_std_s;
        findings.at_most(one, "deviation of the delay, of the plain router's", ratio, 0.9);
        findings.at_least(one, "goodput / limit", one.record.totals.limit_share, 0.3);
        findings.some(one, "packets held", one.mechanism()?.counter("holds"));
    }
    Ok(())
}
