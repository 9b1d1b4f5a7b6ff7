//! Plans about what the mechanism does: its modes, its memory, its books.

use crate::Answer;
use crate::conditions::{
    QUARTER_SILENT, SENSED, SENSED_V6, SMALL_MEMORY, TOLD_LATE, TOLD_LATE_NO_RATE, TOLD_LATE_SEVERAL,
};
use crate::findings::Findings;
use crate::plan::Plan;
use crate::runs::{Evidence, Runs};

pub fn plans() -> Vec<Plan> {
    vec![
        Plan {
            name: "hold_touches_no_window",
            shows: "Mode hold keeps packets in a silence and tells senders nothing.",
            conditions: &[SENSED],
            check: hold_touches_no_window,
            agree: None,
        },
        Plan {
            name: "freeze_closes_windows_and_reopens_every_one",
            shows: "Mode freeze: senders hear zero windows in silences, and after the last silence none is left closed.",
            conditions: &[SENSED],
            check: |runs, findings| closes_and_reopens(runs, "freeze", findings),
            agree: None,
        },
        Plan {
            name: "freeze_nudge_closes_windows_and_reopens_every_one",
            shows: "Mode freeze+nudge: the same, and the reopening is said more than once where the sender is not heard.",
            conditions: &[SENSED],
            check: |runs, findings| closes_and_reopens(runs, "freeze+nudge", findings),
            agree: None,
        },
        Plan {
            name: "memory_is_bounded_and_traffic_completes",
            shows: "With 30 kB to hold in, no more is ever held, and every download still arrives whole.",
            conditions: &[SMALL_MEMORY],
            check: memory_is_bounded,
            agree: None,
        },
        Plan {
            name: "the_mechanisms_books_balance",
            shows: "Whatever is held is released or dropped with a reason, and whatever is closed is reopened, in every mode.",
            conditions: &[SENSED, SENSED_V6, QUARTER_SILENT],
            check: books_balance,
            agree: None,
        },
        Plan {
            name: "copies_repair_what_a_burst_told_late_took",
            shows: "Local recovery sends again from copies what bursts took, so that the sender carries more.",
            conditions: &[TOLD_LATE],
            check: copies_repair,
            agree: None,
        },
        Plan {
            name: "held_packets_and_copies_together_carry_more_than_held_packets_alone",
            shows: "Under bursts told late dsasync holds what the silence would lose and local recovery repairs what the first \
                    20 ms took: together they carry at least half as much again as dsasync that keeps no copies, and nine \
                    tenths of the limit on average.",
            conditions: &[TOLD_LATE_SEVERAL],
            check: both_together,
            agree: None,
        },
        Plan {
            name: "bursts_told_late_at_a_rate_that_nobody_tells_leave_dsasync_the_limit",
            shows: "As it comes, dsasync carries 97 hundredths of the limit or more, and more than the plain router, though \
                    each burst is told 20 ms late and the rate is not told: it measures the rate, and sends again from \
                    copies what the bursts took. Without either it would not.",
            conditions: &[TOLD_LATE_NO_RATE],
            check: neither_rate_nor_start,
            agree: None,
        },
    ]
}

/// The chain does not hide holes from the sender, so it depends on the run whether a loss costs a window: of
/// 40 runs on the kernel (seeds 1 to 40) two had 0.87 of the limit, the others 0.93 to 0.99.
fn both_together(runs: &Runs, findings: &mut Findings) -> Answer {
    let pairs = runs.of_with("both", "no-copies")?;
    for (both, alone) in &pairs {
        let (recovery, dsasync) = (both.mechanism_named("local-recovery")?, both.mechanism_named("dsasync")?);
        findings.some(both, "copies sent by local recovery", recovery.counter("copies_sent")?);
        findings.equal(both, "packets held by local recovery", recovery.counter("holds")?, 0);
        findings.some(both, "packets held by dsasync", dsasync.counter("holds")?);
        findings.equal(both, "copies sent by dsasync", dsasync.counter("copies_sent")?, 0);
        findings.equal(
            alone,
            "copies sent by dsasync without copies",
            alone.mechanism()?.counter("copies_sent")?,
            0,
        );
        findings.at_least(both, "goodput / limit", both.record.totals.limit_share, 0.8);
    }
    // Of all seeds together: how much a loss costs dsasync without copies differs from run to run.
    if let Some((last, _)) = pairs.last() {
        let share = |of: &Evidence| of.record.totals.limit_share;
        let together: f64 = pairs.iter().map(|(both, _)| share(both)).sum();
        let alone: f64 = pairs.iter().map(|(_, alone)| share(alone)).sum();
        findings.at_least(last, "mean goodput / limit", together / pairs.len() as f64, 0.9);
        findings.at_least(last, "goodput of all seeds beside dsasync's alone", together / alone, 1.5);
    }
    Ok(())
}

fn neither_rate_nor_start(runs: &Runs, findings: &mut Findings) -> Answer {
    for (one, plain) in runs.of_with("dsasync", "fifo")? {
        findings.some(one, "copies sent", one.mechanism()?.counter("copies_sent")?);
        // What docs/late.md aims at; it has 0.98 and more of kernels. What the agent keeps before the radio
        // lasts for 5 ms, so that nothing gives back a longer pause of its processor.
        let share = one.record.totals.limit_share + one.stood_still();
        findings.at_least(one, "goodput / limit, and this machine's pauses", share, 0.97);
        let (goodput, before) = (one.record.totals.goodput_bps, plain.record.totals.goodput_bps);
        findings.at_least(one, "goodput beside the plain router's", goodput / before, 1.2);
    }
    Ok(())
}

fn copies_repair(runs: &Runs, findings: &mut Findings) -> Answer {
    let pairs = runs.of_with("local-recovery", "none")?;
    for (one, _) in &pairs {
        let mechanism = one.mechanism()?;
        findings.at_least(one, "copies sent", mechanism.counter("copies_sent")? as f64, 50.0);
        findings.equal(one, "ACKs injected", mechanism.counter("acks_injected")?, 0);
        findings.equal(one, "packets held", mechanism.counter("holds")?, 0);
    }
    // Of all seeds together: in one of them the plain router's losses may fall where they cost little.
    if let Some((last, _)) = pairs.last() {
        let goodput = |of: &Evidence| of.record.totals.goodput_bps;
        let repaired: f64 = pairs.iter().map(|(one, _)| goodput(one)).sum();
        let plain: f64 = pairs.iter().map(|(_, plain)| goodput(plain)).sum();
        findings.at_least(last, "goodput of all seeds beside the plain router's", repaired / plain, 1.2);
    }
    Ok(())
}

fn hold_touches_no_window(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.of("hold") {
        let mechanism = one.mechanism()?;
        findings.some(one, "packets held", mechanism.counter("holds")?);
        findings.equal(one, "windows closed", mechanism.counter("windows_closed")?, 0);
        findings.equal(one, "ACKs injected", mechanism.counter("acks_injected")?, 0);
        findings.equal(one, "zero windows", one.zero_windows, 0);
    }
    Ok(())
}

/// A window is closed where the silence finds it used up (Algorithm 1 lines 17 to 19). The kernel leaves that
/// to chance: near the end of its window it may wait with the last segment or two for more room
/// (`tcp_tso_should_defer`), and send them 60 ms later as a tail loss probe. Of 96 runs of twelve silences
/// one closed 7 windows, the others 8 to 11; the simulator's sender does not wait, and all twelve are closed.
fn closes_and_reopens(runs: &Runs, case: &str, findings: &mut Findings) -> Answer {
    for (one, plain) in runs.of_with(case, "none")? {
        let mechanism = one.mechanism()?;
        let closed = mechanism.counter("windows_closed")?;
        findings.at_least(one, "silences seen", mechanism.counter("silences")? as f64, 11.0);
        findings.at_least(one, "windows closed", closed as f64, 3.0);
        findings.equal(one, "windows reopened", mechanism.counter("windows_reopened")?, closed);
        findings.equal(one, "windows closed at the end", mechanism.counter("windows_closed_now")?, 0);
        findings.at_least(one, "zero windows", one.zero_windows as f64, closed as f64);
        findings.equal(plain, "zero windows without the mechanism", plain.zero_windows, 0);
        findings.at_least(one, "goodput / limit", one.record.totals.limit_share, 0.9);
    }
    Ok(())
}

fn memory_is_bounded(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter() {
        let mechanism = one.mechanism()?;
        findings.at_most(one, "most bytes held", mechanism.counter("held_bytes_peak")? as f64, 30_000.0);
        findings.equal(one, "flows", one.record.flows.len() as u64, 3);
        let done = one.record.flows.iter().filter(|flow| flow.completion_s.is_some()).count();
        findings.equal(one, "flows done", done as u64, 3);
        let bytes = one.record.flows.iter().map(|flow| flow.bytes).sum();
        findings.equal(one, "bytes", bytes, 3_000_000);
        let wrong = one.applications.as_ref().map_or(0, |seen| seen.corrupt + seen.unfinished as u64);
        findings.equal(one, "downloads that the applications miss", wrong, 0);
    }
    // Otherwise the buffer was never full, and the bound was not tried.
    for one in runs.of("hold") {
        let full = one.mechanism()?.dropped("buffer_full")?;
        findings.some(one, "packets without room", full);
    }
    Ok(())
}

fn books_balance(runs: &Runs, findings: &mut Findings) -> Answer {
    for one in runs.iter().filter(|one| !one.record.mechanisms.is_empty()) {
        balance(one, findings)?;
    }
    Ok(())
}

/// A run may end in a silence, or in the middle of a release.
fn balance(one: &Evidence, findings: &mut Findings) -> Answer {
    let mechanism = one.mechanism()?;
    let holds = mechanism.counter("holds")?;
    let [after_hold, sometimes] =
        [["superseded", "flow_evicted", "standing_queue"].as_slice(), &["buffer_full", "repaired_here"]]
            .map(|reasons| reasons.iter().map(|reason| mechanism.dropped(reason)).sum::<Result<u64, _>>());
    let accounted = mechanism.counter("released")? + after_hold? + mechanism.counter("held_packets")?;
    // These two reasons also take packets that were never held.
    let most = accounted + sometimes?;
    let what = "packets released, dropped with a reason, or held at the end";
    findings.at_most(one, what, accounted as f64, holds as f64);
    findings.at_least(one, what, most as f64, holds as f64);
    let open = mechanism.counter("windows_reopened")? + mechanism.counter("windows_closed_now")?;
    findings.equal(one, "windows reopened, or closed at the end", open, mechanism.counter("windows_closed")?);
    findings.some(one, "packets held", holds);
    Ok(())
}
