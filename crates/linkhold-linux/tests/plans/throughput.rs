//! Plans about what a bulk download gets, and what it waits: plain routers, and the mechanism's modes beside
//! them.

use crate::Answer;
use crate::conditions::{
    CLEAN_3_MS, CLEAN_50_MS, CLEAN_100_MS, CUBIC, FAR, MARKED, QUARTER_SILENT, QUARTER_SILENT_BBR, SENSED,
    SENSED_V6,
};
use crate::findings::Findings;
use crate::plan::{Conditions, Plan};
use crate::runs::{Evidence, Runs};

pub fn plans() -> Vec<Plan> {
    vec![
        Plan {
            name: "a_clean_link_is_full_at_any_round_trip",
            shows: "Without silences every sender fills the link at 3, 50 and 100 ms: what is lost elsewhere is the silences' doing.",
            conditions: &[CLEAN_3_MS, CLEAN_50_MS, CLEAN_100_MS],
            check: clean_link_is_full,
            agree: Some(same_on_both),
        },
        Plan {
            name: "a_marked_sender_reduces_without_a_loss",
            shows: "Over fq_codel with ECN a download keeps the link nearly full, at a short queue and without a retransmission; \
                    the kernel's senders are marked as often as the simulator's.",
            conditions: &[MARKED],
            check: marked_without_loss,
            agree: Some(marked_alike),
        },
        Plan {
            name: "bbr_keeps_its_goodput_under_the_mechanism",
            shows: "BBR has with the mechanism what it has over a deep queue, and the kernel's has what the simulator's has.",
            conditions: &[QUARTER_SILENT_BBR],
            check: bbr_keeps_goodput,
            agree: Some(same_on_both),
        },
        Plan {
            name: "without_silences_the_mechanism_costs_nothing",
            shows: "With nothing to do the mechanism takes no goodput, adds no delay and closes no window.",
            conditions: &[Conditions { cases: &["none", "dsasync"], congestion: CUBIC, ..CLEAN_50_MS }],
            check: mechanism_costs_nothing,
            agree: None,
        },
        Plan {
            name: "a_router_that_drops_in_silences_loses_most_and_a_deep_queue_nothing",
            shows: "At 50 ms a router that drops what arrives in a silence leaves little of the limit; a deep queue leaves nearly \
                    all, and makes everybody wait.",
            conditions: &[QUARTER_SILENT],
            check: plain_routers,
            agree: Some(same_goodput),
        },
        Plan {
            name: "freeze_nudge_has_the_goodput_of_a_deep_queue_at_the_delay_of_a_short_one",
            shows: "At 50 ms freeze+nudge over 100 packets stays within a tenth of the limit, with a fraction of the deep \
                    queue's delay outside silences, and repeats less than the plain routers.",
            conditions: &[QUARTER_SILENT],
            check: freeze_nudge,
            agree: None,
        },
        Plan {
            name: "freeze_nudge_keeps_the_window_of_a_far_sender",
            shows: "At 100 ms, where a queue of 100 packets loses Reno's window in silences and the goodput with it, freeze+nudge \
                    over the same queue stays near the limit.",
            conditions: &[FAR],
            check: far_sender,
            agree: None,
        },
        Plan {
            name: "hold_and_the_default_keep_goodput_without_a_deep_queues_delay",
            shows: "The other modes: goodput near the limit, delay below the deep queue's.",
            conditions: &[QUARTER_SILENT],
            check: hold_and_default,
            agree: None,
        },
        Plan {
            name: "new_data_flows_a_round_trip_after_a_silence",
            shows: "With windows reopened and held packets released, new data arrives within a round trip and 5 ms of a silence's end.",
            conditions: &[SENSED, QUARTER_SILENT],
            check: data_resumes,
            agree: None,
        },
        Plan {
            name: "ipv6_is_served_as_ipv4_is",
            shows: "Over IPv6 windows are closed and reopened, and goodput kept.",
            conditions: &[SENSED_V6],
            check: ipv6,
            agree: None,
        },
    ]
}

fn share(of: &Evidence) -> f64 {
    of.record.totals.limit_share
}

fn clean_link_is_full(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter() {
        findings.at_least(one, "goodput / limit", share(one), 0.95);
        // On a real clock the time counted begins and ends between two frames.
        findings.at_most(one, "goodput / limit", share(one), 1.02);
        findings.equal(one, "silences", one.record.link.silences, 0);
    }
    Ok(())
}

fn marked_without_loss(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter() {
        findings.at_least(one, "goodput / limit", share(one), 0.9);
        findings.some(one, "packets marked", one.record.link.queue_marks);
        findings.equal(one, "packets dropped", one.record.link.queue_drops, 0);
        findings.equal(one, "segments repeated", one.record.totals.retransmits, 0);
        // CoDel's 5 ms on top of the path's 10, and what a window in slow start overshoots by is over.
        findings.at_most(one, "median delay, s", one.record.totals.delay_p50_s, 0.02);
    }
    Ok(())
}

/// The same goodput to within 5 %, and, of so few marks as 8 s have, the same to within a third and two.
fn marked_alike(simulator: &Runs, linux: &Runs, findings: &mut Findings) -> Answer {
    same_on_both(simulator, linux, findings)?;
    for (one, other) in linux.beside(simulator) {
        let marks = |of: &Evidence| of.record.link.queue_marks as f64;
        findings.at_most(
            one,
            "marks, apart",
            (marks(one) - marks(other)).abs(),
            2.0 + marks(one).max(marks(other)) / 3.0,
        );
    }
    Ok(())
}

fn bbr_keeps_goodput(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, deep) in runs.of_with("dsasync", "fifo-5000")? {
        findings.at_least(deep, "goodput / limit", share(deep), 0.85);
        // The simulator's clock has no pauses.
        let share_of = (share(one) + one.stood_still()) / share(deep);
        findings.at_least(one, "goodput and this machine's pauses, of the deep queue's", share_of, 0.97);
    }
    Ok(())
}

/// Every cell carries on the kernel what it carries in the simulator, to within 5 %.
fn same_on_both(simulator: &Runs, linux: &Runs, findings: &mut Findings) -> Answer {
    for (one, other) in linux.beside(simulator) {
        let ratio = share(other) / share(one);
        findings.at_least(one, "simulated goodput, of the measured", ratio, 0.95);
        findings.at_most(one, "simulated goodput, of the measured", ratio, 1.05);
    }
    Ok(())
}

fn mechanism_costs_nothing(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, plain) in runs.of_with("dsasync", "none")? {
        findings.at_least(one, "goodput, of the plain router's", share(one) / share(plain), 0.95);
        let added = one.record.totals.delay_p50_s - plain.record.totals.delay_p50_s;
        findings.at_most(one, "added to the median delay, s", added, 0.002);
        findings.equal(one, "zero windows", one.zero_windows, 0);
        findings.some(one, "packets seen", one.mechanism()?.counter("packets")?);
    }
    Ok(())
}

fn plain_routers(runs: &Runs, findings: &mut Findings) -> Answer {
    for (deep, drop) in runs.of_with("fifo-5000", "drop")? {
        findings.at_most(drop, "goodput / limit", share(drop), 0.5);
        findings.some(drop, "packets dropped", drop.record.link.queue_drops);
        findings.at_least(deep, "goodput / limit", share(deep), 0.9);
        let wait = |of: &Evidence| of.record.totals.delay_p99_s;
        findings.at_least(deep, "p99 delay, of the dropping router's", wait(deep) / wait(drop), 2.0);
    }
    Ok(())
}

/// The kernel's goodput and the simulator's, in cells where neither depends on a single timeout.
fn same_goodput(simulator: &Runs, linux: &Runs, findings: &mut Findings) -> Answer {
    let calm = ["fifo-100", "fifo-5000", "freeze+nudge"];
    for (one, other) in
        linux.beside(simulator).into_iter().filter(|(one, _)| calm.contains(&one.case.as_str()))
    {
        let ratio = share(other) / share(one);
        findings.at_least(one, "simulated goodput, of the measured", ratio, 0.9);
        findings.at_most(one, "simulated goodput, of the measured", ratio, 1.1);
    }
    Ok(())
}

fn freeze_nudge(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, deep) in runs.of_with("freeze+nudge", "fifo-5000")? {
        findings.at_least(one, "goodput / limit", share(one), 0.9);
        let wait = |of: &Evidence| of.record.totals.delay_p99_outside_silence_s;
        findings.at_most(one, "p99 delay outside silences, of the deep queue's", wait(one) / wait(deep), 0.5);
        let drop = runs.same_but(one, "drop")?;
        let again = |of: &Evidence| of.record.totals.retransmits as f64;
        findings.at_most(one, "segments repeated, of the dropping router's", again(one) / again(drop), 0.5);
        findings.some(one, "windows closed", one.mechanism()?.counter("windows_closed")?);
    }
    Ok(())
}

fn far_sender(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, plain) in runs.of_with("freeze+nudge", "fifo-100")? {
        findings.at_least(one, "goodput / limit", share(one), 0.85);
        findings.at_least(one, "goodput, of the plain router's", share(one) / share(plain), 1.1);
    }
    Ok(())
}

fn hold_and_default(runs: &Runs, findings: &mut Findings) -> Answer {
    for case in ["hold", "dsasync"] {
        for (one, deep) in runs.of_with(case, "fifo-5000")? {
            findings.at_least(one, "goodput / limit", share(one), 0.85);
            let wait = |of: &Evidence| of.record.totals.delay_p99_outside_silence_s;
            findings.at_most(
                one,
                "p99 delay outside silences, of the deep queue's",
                wait(one) / wait(deep),
                1.0,
            );
        }
    }
    Ok(())
}

/// The router that drops is left out, and so is the mode that announces a reopened window once: what they
/// lose waits for a timer.
fn data_resumes(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter().filter(|one| !["drop", "freeze"].contains(&one.case.as_str())) {
        let resumed = one.record.flows.first().and_then(|flow| flow.resume_p50_s).unwrap_or(f64::NAN);
        findings.at_most(one, "silence's end to new data, median, s", resumed, one.rtt_s + 0.005);
        findings.at_least(one, "silences", one.record.link.silences as f64, 9.0);
    }
    Ok(())
}

fn ipv6(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter() {
        findings.at_least(one, "goodput / limit", share(one), 0.9);
        findings.some(one, "zero windows", one.zero_windows);
        findings.some(one, "packets held", one.mechanism()?.counter("holds")?);
    }
    Ok(())
}
