//! Sentences that say what was simulated and what came out, made from the numbers of a report.

use super::{escape, numbers as format, told_less};
use crate::offer::{Offer, Offers, Silences, run_times};
use crate::record::{CompareRow, FlowRecord, RunReport, Stack};
use crate::stats::{Metric, estimate};
use crate::table::goodput_row;
use crate::traffic::FlowTransport;

/// The terms that the report uses, explained.
pub(super) fn terms(offers: &Offers<'_>) -> String {
    let radio = match offers {
        Offers::Alike(_) => {
            "Every case sees exactly the same silences and the same radio, so cases are compared like with like."
        }
        Offers::ByCase(_) => {
            "The cases of this report do not all have the same limit, so each is compared with its own."
        }
    };
    format!("{TERMS_BEGIN}{radio}{TERMS_END}")
}

const TERMS_BEGIN: &str = "<dl>
<dt>Silence</dt><dd>A stretch of time in which the radio does not transmit: it senses for a licensed (primary) user, \
waits while one transmits, changes channel, or has no signal.</dd>
<dt>Case</dt><dd>One way to run the router. ";

const TERMS_END: &str = " The case <em>none</em>, where there is one, is a plain router.</dd>
<dt>Goodput</dt><dd>Application data received in order, without headers and without anything received twice, \
per second.</dd>
<dt>Limit</dt><dd>What a perfect transport would deliver: the capacity of the radio while it is not silent, less \
the share that packet headers take.</dd>
<dt>One-way delay</dt><dd>From TCP sending a copy of a data segment (QUIC or UDP: a datagram) to the arrival of that copy at the other end. \
p50 is the median; p95 is exceeded by one segment in twenty, p99 by one in a hundred.</dd>
<dt>Retransmission timeout (RTO)</dt><dd>TCP heard nothing for so long that it takes everything under way for lost and starts \
over slowly. A silence that is mistaken for congestion shows here.</dd>
<dt>95 % interval</dt><dd>How far chance alone may have moved a number: if the whole experiment were repeated many times with other seeds, 95 of \
100 such intervals would contain the true value (Student's t; comparisons are paired by seed).</dd>
</dl>";

/// The paragraph and the list that say what was simulated.
pub(super) fn setting(report: &RunReport) -> String {
    let scenario = &report.scenario;
    let mut out = String::new();
    if !scenario.description.is_empty() {
        out.push_str(&format!("<p class=\"lead\">{}</p>\n", escape(&scenario.description)));
    }
    let cases = report.cases();
    let Some(first) = report.runs.first() else {
        return out + "<p>There are no runs in this report.</p>\n";
    };
    let seeds = report.runs_of(&first.case).count();
    let doing = match first.stack {
        Stack::Simulated => "simulated",
        Stack::Linux => "run in real time with the Linux kernel",
    };
    let names = join(&cases.iter().map(|case| format!("<b>{}</b>", escape(case))).collect::<Vec<_>>());
    let flows = flows(&first.flows);
    let repeats = match seeds {
        1 => "once (one seed)".to_owned(),
        n => {
            let silences = match Silences::of(report) {
                Silences::None => "",
                Silences::Same => " but the same silences, so that no interval tells of other silences",
                Silences::Own => " and so with other random silences",
            };
            format!("{n} times, each time with another seed{silences}")
        }
    };
    let lasting = match run_times(report) {
        Some((least, most)) => {
            format!("{} to {} (as the case says)", format::time(least), format::time(most))
        }
        None => format::time(first.sim_s),
    };
    out.push_str(&format!(
        "<p>{lasting} of traffic over {flows} were {doing}, {repeats}, in {} {}: {names}. {}</p>\n",
        cases.len(),
        if cases.len() == 1 { "case" } else { "cases" },
        offered(&Offers::of(report)),
    ));
    let mut facts: Vec<String> = scenario.facts.iter().map(|fact| escape(fact)).collect();
    if scenario.warm_up_s > 0.0 {
        facts.push(format!("the first {} do not count", format::time(scenario.warm_up_s)));
    }
    if !scenario.overrides.is_empty() {
        let set: Vec<String> =
            scenario.overrides.iter().map(|set| format!("<code>{}</code>", escape(set))).collect();
        facts.push(format!("changed on the command line: {}", join(&set)));
    }
    if !facts.is_empty() {
        let items: String = facts.iter().map(|fact| format!("<li>{fact}</li>")).collect();
        out.push_str(&format!("<ul>{items}</ul>\n"));
    }
    let told_otherwise = |fact: &String| fact.starts_with("told: case ");
    let told_at_once = |fact: &String| fact.starts_with("told: ") && fact.ends_with(TOLD_AT_ONCE);
    if scenario.facts.iter().any(told_at_once) && !scenario.facts.iter().any(told_otherwise) {
        out.push_str(&otherwise());
    }
    out
}

/// What the radio offered: all cases alike, or each.
fn offered(offers: &Offers<'_>) -> String {
    let (each, last) = match offers {
        Offers::Alike(all) => (vec![(String::new(), all)], "the <em>limit</em> below"),
        Offers::ByCase(each) => {
            let each = each.iter().map(|(case, offer)| (format!("In <b>{}</b> the", escape(case)), offer));
            (each.collect(), "the case's <em>limit</em> below")
        }
    };
    let mut text = String::new();
    for (who, Offer { limit_bps, capacity_bps, silent }) in each {
        text.push_str(&format!(
            "{} radio was silent {} of the time; with that taken into account it had {} of capacity on average, \
             and a perfect transport would have delivered {}. ",
            if who.is_empty() { "The" } else { &who },
            format::percent(*silent),
            format::rate(*capacity_bps),
            format::rate(*limit_bps),
        ));
    }
    format!("{text}That last number is {last}.")
}

/// "one TCP connection", "3 TCP connections and one UDP flow".
fn flows(flows: &[FlowRecord]) -> String {
    let kinds = [
        (FlowTransport::Tcp, "TCP connection"),
        (FlowTransport::Quic, "QUIC connection"),
        (FlowTransport::Udp, "UDP flow"),
    ];
    let parts = kinds.into_iter().filter_map(|(transport, noun)| {
        match flows.iter().filter(|flow| flow.transport == transport).count() {
            0 => None,
            1 => Some(format!("one {noun}")),
            n => Some(format!("{n} {noun}s")),
        }
    });
    match &parts.collect::<Vec<_>>()[..] {
        [] => "no flows".to_owned(),
        parts => join(parts),
    }
}

/// What ends the fact that nothing is told late (`linkhold-scenario` writes it).
const TOLD_AT_ONCE: &str = "silence at its first moment, and the channel's exact rate";

/// What the results are worth where less is told.
fn otherwise() -> String {
    format!(
        "<p class=\"verdict\"><b>What the mechanisms were told.</b> They heard of every silence at its first \
         moment and knew the channel's exact rate: no radio does better, and most do worse. On the Linux kernel \
         (CUBIC, 100 ms, bursts of 0.3 s, over fq_codel) the default carried {} of the limit where each burst was \
         told {}\u{a0}ms late and nobody told it the rate, and {} where the rate was told, too ({} runs ± half a \
         95 % interval).</p>\n",
        told_less::LATE_UNTOLD,
        told_less::LATE_MS,
        told_less::LATE,
        told_less::RUNS,
    )
}

/// One paragraph for each case that says what came out.
pub(super) fn verdict(report: &RunReport) -> String {
    let cases = report.cases();
    let Some(&first) = cases.first() else { return String::new() };
    let mut out = String::from("<div class=\"verdict\">\n");
    for case in &cases {
        let of = |metric| estimate(&report.runs, case, metric);
        let goodput = of(Metric::Goodput);
        let mut text = format!(
            "<p><b>{}</b> carried {}, {} of the limit",
            escape(case),
            match goodput.half_width() {
                Some(half) => format::rate_with_half_width(goodput.mean, half),
                None => format::rate(goodput.mean),
            },
            format::percent(of(Metric::LimitShare).mean),
        );
        text.push_str(&match goodput_row(report, case) {
            Some(row) => format!("; {}", against(row)),
            None => ".".to_owned(),
        });
        text.push_str(&format!(
            " Median one-way delay {}, 99th percentile {}; {} and {} a run.</p>\n",
            format::time(of(Metric::DelayP50).mean),
            format::time(of(Metric::DelayP99).mean),
            counted(of(Metric::Retransmits).mean, "retransmitted segment"),
            counted(of(Metric::RtoEvents).mean, "timeout"),
        ));
        out.push_str(&text);
    }
    if report.runs_of(first).count() < 2 {
        out.push_str(
            "<p>One seed gives no interval: how much of a difference is chance cannot be said. \
             <code>--seeds 10</code> tells.</p>\n",
        );
    }
    out.push_str("</div>\n");
    out
}

/// "1 timeout", "2.5 timeouts"; in words if they were not measured.
fn counted(number: f64, noun: &str) -> String {
    if !number.is_finite() {
        return format!("an unknown number of {noun}s");
    }
    let number = format::count(number);
    if number == "1" { format!("1\u{a0}{noun}") } else { format!("{number}\u{a0}{noun}s") }
}

/// "1.170 times as much as none (95\u{a0}% interval 1.150 to 1.190)" and whether that is more than chance.
fn against(row: &CompareRow) -> String {
    let baseline = escape(&row.baseline);
    match (row.ratio, row.ci95) {
        (Some(ratio), Some([low, high])) => {
            let meaning = if low >= high && ratio == 1.0 {
                "every seed gave the same with both"
            } else if low >= high {
                "every seed gave the same ratio, so that chance was not tried"
            } else if low > 1.0 {
                "more than chance explains"
            } else if high < 1.0 {
                "less than the baseline, and more than chance explains"
            } else {
                "no difference that could be told from chance"
            };
            format!(
                "{ratio:.3} times as much as {baseline} (95\u{a0}% interval {low:.3} to {high:.3}): {meaning}."
            )
        }
        (Some(ratio), None) => format!("{ratio:.3} times as much as {baseline}."),
        (None, _) => format!("{baseline} carried nothing to compare with."),
    }
}

/// "a", "a and b", "a, b and c".
fn join(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_plural() {
        assert_eq!(counted(1.0, "timeout"), "1\u{a0}timeout");
        assert_eq!(counted(1.3, "timeout"), "1.3\u{a0}timeouts");
        assert_eq!(counted(0.0, "timeout"), "0\u{a0}timeouts");
    }

    /// An interval without width is of runs that were all the same: it says nothing of chance.
    #[test]
    fn seeds_that_changed_nothing_prove_nothing() {
        let row = |low, high| CompareRow {
            case: "fast".to_owned(),
            baseline: "slow".to_owned(),
            metric: "goodput_bps".to_owned(),
            unit: "bit/s".to_owned(),
            baseline_value: 1.0,
            value: 0.995,
            ratio: Some(0.995),
            ci95: Some([low, high]),
        };
        assert!(
            against(&row(0.995, 0.995))
                .ends_with("every seed gave the same ratio, so that chance was not tried.")
        );
        // Two cases that behave alike, whatever the seeds do.
        let alike = CompareRow { value: 1.0, ratio: Some(1.0), ..row(1.0, 1.0) };
        assert!(against(&alike).ends_with("every seed gave the same with both."));
        assert!(against(&row(0.99, 0.999)).contains("less than the baseline, and more than chance"));
    }

    #[test]
    fn flows_are_called_by_their_transport() {
        let tcp = FlowRecord::default();
        let udp = FlowRecord { transport: FlowTransport::Udp, ..FlowRecord::default() };
        let quic = FlowRecord { transport: FlowTransport::Quic, ..FlowRecord::default() };
        for (all, text) in [
            (vec![tcp.clone()], "one TCP connection"),
            (vec![udp.clone(), udp.clone()], "2 UDP flows"),
            (vec![quic.clone()], "one QUIC connection"),
            (
                vec![udp.clone(), quic, tcp.clone()],
                "one TCP connection, one QUIC connection and one UDP flow",
            ),
            (vec![tcp.clone(), udp, tcp], "2 TCP connections and one UDP flow"),
            (vec![], "no flows"),
        ] {
            assert_eq!(flows(&all), text);
        }
    }

    #[test]
    fn a_report_speaks_of_one_connection_as_one() {
        let (mut report, _) = crate::sample::run(1);
        for run in &mut report.runs {
            run.flows.truncate(1);
        }
        let text = setting(&report);
        assert!(
            text.contains("of traffic over one TCP connection were simulated, once (one seed)"),
            "{text}"
        );
        assert!(!text.contains("connections"), "{text}");
        for run in &mut report.runs {
            run.flows = vec![run.flows[0].clone(), run.flows[0].clone()];
        }
        let text = setting(&report);
        assert!(text.contains("over 2 TCP connections"), "{text}");
        assert!(!text.contains("000000"), "times are rounded: {text}");
    }

    #[test]
    fn what_seeds_share_and_how_long_each_case_ran_is_said() {
        let (mut report, _) = crate::sample::run(2);
        let text = setting(&report);
        assert!(text.contains("2 times, each time with another seed and so with other random"), "{text}");
        for run in &mut report.runs {
            (run.link.silences, run.link.silent_fraction) = (7, 0.2);
        }
        let long = report.runs.last_mut().map(|run| std::mem::replace(&mut run.sim_s, 300.0)).unwrap();
        let text = setting(&report);
        assert!(text.contains("2 times, each time with another seed but the same silences, so"), "{text}");
        let lasting = format!("<p>{} to {} (as the case says) of", format::time(long), format::time(300.0));
        assert!(text.contains(&lasting), "{lasting} in {text}");
    }

    #[test]
    fn cases_with_different_radios_are_not_said_to_have_the_same() {
        let (mut report, _) = crate::sample::run(2);
        let same = "Every case sees exactly the same silences and the same radio";
        assert!(terms(&Offers::of(&report)).contains(same));
        assert!(setting(&report).contains(". The radio was silent 25.0"), "{}", setting(&report));
        crate::sample::with_a_case_of_twice_the_rate(&mut report);
        assert!(!terms(&Offers::of(&report)).contains(same));
        let text = setting(&report);
        for case in ["In <b>none</b> the radio was silent 25.0", "In <b>hold</b> the radio was silent 40.0"] {
            assert!(text.contains(case), "{case} in {text}");
        }
        assert!(text.contains("36.0"), "capacity of the fast case: {text}");
    }

    #[test]
    fn a_report_says_what_was_told_and_what_happens_otherwise_with_the_measured_numbers() {
        let (mut report, _) = crate::sample::run(2);
        assert!(!setting(&report).contains("What the mechanisms were told"));
        for told in ["every", "quiet periods ahead, every other"] {
            let mut report = report.clone();
            report.scenario.facts.push(format!("told: {told} {TOLD_AT_ONCE}"));
            assert!(setting(&report).contains("What the mechanisms were told"), "{told}");
        }
        report.scenario.facts.push(format!("told: every {TOLD_AT_ONCE}"));
        let text = setting(&report);
        let told = include_str!("../../../../docs/testbed/told.json");
        let told: serde_json::Value = serde_json::from_str(told).unwrap();
        let number = |key: &str| told[key].as_str().unwrap();
        for wanted in [
            "at its first moment".to_owned(),
            format!(
                "{} of the limit where each burst was told {}\u{a0}ms late and nobody told it the rate",
                number("late_untold"),
                told["late_ms"]
            ),
            format!("{} where the rate was told, too", number("late")),
        ] {
            assert!(text.contains(&wanted), "{wanted} in {text}");
        }
        // Where a case is told otherwise, its line says so, and not all were told at once.
        report.scenario.facts.push("told: case late: a primary user 20ms late".to_owned());
        assert!(!setting(&report).contains("What the mechanisms were told"));
    }
}
