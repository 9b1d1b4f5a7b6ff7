//! A short table of a run for a terminal, and what all tables are made with.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use crate::columns::{self, Rank};
use crate::format;
use crate::offer::{Offers, Silences, run_times};
use crate::record::{CompareRow, FlowRecord, RunRecord, RunReport, Stack};
use crate::stats::{Metric, estimate};
use crate::traffic::FlowTransport;

/// A column of the table of cases.
struct Column {
    /// Its head; a line break stands where the head may be broken.
    head: String,
    /// Its name in the line that tells which columns are not shown.
    name: &'static str,
    /// When it is left out where the table is too wide: a column of a lower rank goes first. `None` stays.
    rank: Option<Rank>,
    /// A cell for each case.
    cells: Vec<String>,
}

/// The column with the ratio to the baseline, by name.
const RATIO: &str = "goodput against the baseline";

/// What the columns of [`Rank::Told`] are.
const TOLD: &str = "told late: mean time from a silence's start to its being told; not told: share of silences; \
                    told false: signals of silences that were none\n";

/// One row for each case, with means over the seeds: goodput, its share of the limit, retransmissions,
/// timeouts, delays, and goodput against the baseline with its interval.
///
/// `width` is that of the terminal, in columns; `None` if the table may be as wide as it has to be. Where it
/// is too narrow, whole columns are left out and named below the table: no name or number in it is ever
/// split. The lines below the table are broken between words.
#[must_use]
pub fn run_table(report: &RunReport, width: Option<u16>) -> String {
    let cases = report.cases();
    let seeds = cases.first().map_or(0, |case| report.runs_of(case).count());
    let columns = columns(report, &cases);
    let mut dispensable: Vec<(Rank, &str)> =
        columns.iter().filter_map(|column| Some((column.rank?, column.name))).collect();
    dispensable.sort_by_key(|&(rank, _)| rank);
    let dispensable: Vec<&str> = dispensable.into_iter().map(|(_, name)| name).collect();
    let (table, mut left_out) = fitted(width.unwrap_or(u16::MAX), &dispensable, |left_out| {
        case_table(columns.iter().filter(|column| !left_out.contains(&column.name)))
    });
    let seeds_text = if seeds == 1 {
        "one seed, so without intervals".to_owned()
    } else {
        let same =
            if Silences::of(report) == Silences::Same { "; all seeds had the same silences" } else { "" };
        let is_shown = columns.iter().any(|column| column.name == RATIO) && !left_out.contains(&RATIO);
        let ratio =
            if is_shown { "; in brackets the 95 % interval of the ratio, paired by seed" } else { "" };
        format!("means of {seeds} seeds{ratio}{same}")
    };
    let mut notes = format!("{}{seeds_text}\n", offered(&Offers::of(report)));
    notes.push_str(&conditions(report));
    if columns.iter().any(|column| column.rank == Some(Rank::Told) && !left_out.contains(&column.name)) {
        notes.push_str(TOLD);
    }
    if let Some((least, most)) = run_times(report) {
        notes.push_str(&format!("cases ran for {} to {}\n", format::time(least), format::time(most)));
    }
    if report.baseline().is_none() && !report.compare.is_empty() {
        notes.push_str("each case is compared with the baseline under its own congestion control\n");
    }
    left_out.reverse();
    notes.push_str(&not_shown(&left_out));
    format!("{table}\n{}", format::wrapped(&notes, width))
}

/// The limit and the silences: of all cases, or of each where they differ.
fn offered(offers: &Offers<'_>) -> String {
    const LIMIT: &str = "what a perfect transport would carry";
    match offers {
        Offers::Alike(all) => format!(
            "limit {} ({LIMIT}); radio silent {} of the time\n",
            format::rate(all.limit_bps),
            format::percent(all.silent)
        ),
        Offers::ByCase(each) => {
            let mut text = format!("the cases have different limits ({LIMIT}):\n");
            for (case, offer) in each {
                text.push_str(&format!(
                    "  {case}: limit {}; radio silent {} of the time\n",
                    format::rate(offer.limit_bps),
                    format::percent(offer.silent)
                ));
            }
            text
        }
    }
}

/// The stack, and what the file says of round-trip time, plain router, TCP and what the mechanisms are told:
/// without them no comparison means anything.
fn conditions(report: &RunReport) -> String {
    let stack = match report.runs.first() {
        Some(run) if run.stack == Stack::Linux => on_linux(run),
        Some(_) => "stack: simulated\n".to_owned(),
        None => String::new(),
    };
    let stated = |fact: &&String| {
        ["wired: ", "router: ", "tcp: ", "told: "].iter().any(|label| fact.starts_with(label))
    };
    let facts = report.scenario.facts.iter().filter(stated).map(|fact| format!("{fact}\n"));
    stack + &facts.collect::<String>()
}

/// Who carried the flows of a run on the testbed.
fn on_linux(run: &RunRecord) -> String {
    let is_quic = |flow: &FlowRecord| flow.transport == FlowTransport::Quic;
    let has_quic = run.flows.iter().any(is_quic);
    let kernel = (!has_quic || !run.flows.iter().all(is_quic)).then_some("the kernel's TCP");
    let quic = has_quic.then_some("QUIC (quinn) over the kernel's UDP");
    let all: Vec<&str> = kernel.into_iter().chain(quic).collect();
    format!("stack: {}\n", all.join(", "))
}

/// The table without as many of its `dispensable` columns, the first to go first, as it takes to fit into
/// `width`; and these.
pub(crate) fn fitted<'a>(
    width: u16,
    dispensable: &[&'a str],
    table: impl Fn(&[&'a str]) -> Table,
) -> (Table, Vec<&'a str>) {
    let fits = |table: &Table| table.lines().all(|line| line.chars().count() <= usize::from(width));
    let mut left_out = Vec::new();
    let mut fitting = table(&left_out);
    for &next in dispensable {
        if fits(&fitting) {
            break;
        }
        left_out.push(next);
        fitting = table(&left_out);
    }
    (fitting, left_out)
}

/// A line about the columns that did not fit; nothing if all did.
pub(crate) fn not_shown(left_out: &[&str]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    format!("not shown for want of width: {}\n", left_out.join(", "))
}

fn columns(report: &RunReport, cases: &[&str]) -> Vec<Column> {
    let versus = report.baseline().map_or_else(|| "baseline".to_owned(), str::to_owned);
    let column = |head: &str, name, rank, cell: &dyn Fn(&str) -> String| {
        let cells = cases.iter().map(|case| cell(case)).collect();
        Column { head: head.to_owned(), name, rank, cells }
    };
    let mean = |case: &str, metric| estimate(&report.runs, case, metric).mean;
    let mut all = vec![
        column("case", "case", None, &|case| case.to_owned()),
        column("goodput", "goodput", None, &|case| format::rate(mean(case, Metric::Goodput))),
        column("of limit", "share of the limit", Some(Rank::LimitShare), &|case| {
            format::percent(mean(case, Metric::LimitShare))
        }),
        column("resent", "retransmissions", Some(Rank::Resent), &|case| {
            format::count(mean(case, Metric::Retransmits))
        }),
        column("RTOs", "timeouts", Some(Rank::Timeouts), &|case| {
            format::count(mean(case, Metric::RtoEvents))
        }),
        column("delay\np50", "median delay", Some(Rank::MedianDelay), &|case| {
            format::time(mean(case, Metric::DelayP50))
        }),
        column("delay\np99", "99th percentile of delay", Some(Rank::TailDelay), &|case| {
            format::time(mean(case, Metric::DelayP99))
        }),
    ];
    // Where nothing is compared, a head over no numbers would name a baseline that nobody asked for.
    if !report.compare.is_empty() {
        all.push(column(&format!("goodput\n/ {versus}"), RATIO, Some(Rank::Ratio), &|case| {
            versus_text(report, case)
        }));
    }
    all.extend(columns::present(report).map(|extra| {
        column(&extra.head.join("\n"), extra.name, Some(extra.rank), &|case| {
            extra.form.text(extra.mean(report, case))
        })
    }));
    all
}

fn case_table<'a>(columns: impl Iterator<Item = &'a Column>) -> Table {
    let columns: Vec<&Column> = columns.collect();
    let mut table = new_table(columns.iter().map(|column| column.head.as_str()));
    table.set_content_arrangement(ContentArrangement::Disabled);
    let rows = columns.iter().map(|column| column.cells.len()).max().unwrap_or(0);
    for index in 0..rows {
        let cells: Vec<String> =
            columns.iter().map(|column| column.cells.get(index).cloned().unwrap_or_default()).collect();
        table.add_row(row(&cells, 1));
    }
    table
}

/// The comparison of `case` with the baseline in goodput; `None` for the baseline itself.
pub(crate) fn goodput_row<'a>(report: &'a RunReport, case: &str) -> Option<&'a CompareRow> {
    report.compare.iter().find(|row| row.case == case && row.metric == Metric::Goodput.name())
}

fn versus_text(report: &RunReport, case: &str) -> String {
    match goodput_row(report, case) {
        Some(CompareRow { ratio: Some(ratio), ci95, .. }) => format::ratio(*ratio, *ci95),
        _ => String::new(),
    }
}

pub(crate) fn new_table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header.into_iter().map(Cell::new));
    table
}

/// A row with its first `texts` cells aligned left and the others right.
pub(crate) fn row(cells: &[String], texts: usize) -> Vec<Cell> {
    let aligned = |(index, text): (usize, &String)| {
        let side = if index < texts { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    };
    cells.iter().enumerate().map(aligned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;
    use crate::told::ToldRecord;

    #[test]
    fn the_run_table_fits_100_columns_and_says_what_matters() {
        let (report, _) = sample::run(5);
        let text = run_table(&report, Some(100));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for part in ["dsasync", "of limit", "1.1", " [1.", "5 seeds", "RTOs", "silent", "/ none"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("not shown"), "{text}");
    }

    #[test]
    fn a_table_states_round_trip_time_stack_what_the_plain_router_does_and_what_was_told() {
        let (mut report, _) = sample::run(2);
        let facts = [
            "wired: 100Mbit/s, 50ms round trip",
            "router: fifo of 100 packets; queues in a silence",
            "told: every silence at its first moment; nobody tells the rate",
        ];
        report.scenario.facts.extend(facts.map(str::to_owned));
        report.scenario.facts.push("station: fifo of 100 packets".to_owned());
        let text = run_table(&report, None);
        for fact in facts.iter().chain(&["stack: simulated"]) {
            assert!(text.lines().any(|line| line == *fact), "{fact} in\n{text}");
        }
        assert!(!text.contains("station: "), "{text}");
        report.runs.iter_mut().for_each(|run| run.stack = Stack::Linux);
        assert!(run_table(&report, None).contains("\nstack: the kernel's TCP\n"));
    }

    #[test]
    fn a_narrow_table_loses_columns_but_never_part_of_a_name() {
        let (mut report, _) = sample::run(3);
        let long = "dsasync-with-a-name-of-forty-characters-";
        for run in report.runs.iter_mut().filter(|run| run.case == "dsasync") {
            run.case = long.to_owned();
        }
        report.compare = crate::stats::compare(&report.runs, None);
        let wide = run_table(&report, None);
        assert!(wide.contains(long) && wide.contains("RTOs") && !wide.contains("not shown"), "{wide}");
        let narrow = run_table(&report, Some(80));
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains(long), "{narrow}");
        assert!(narrow.contains("not shown for want of width:") && narrow.contains("timeouts"), "{narrow}");
        assert!(!run_table(&report, Some(40)).contains("the ratio"), "it is not shown");
        report.compare.clear();
        assert!(!run_table(&report, None).contains("the ratio"), "nothing is compared");
        report.compare = crate::stats::compare(&report.runs, None);
        // However narrow: the name and the goodput stay, whole.
        let least = run_table(&report, Some(20));
        assert!(least.contains(long) && least.contains("Mbit/s"), "{least}");
    }

    #[test]
    fn columns_of_datagrams_players_and_pages_are_there_where_a_flow_has_them() {
        let (mut report, _) = sample::run(2);
        let heads = ["UDP", "jitter", "stalls", "stalled", "start-up", "pages", "p95"];
        let plain = run_table(&report, None);
        assert!(heads.iter().all(|head| !plain.contains(head)), "{plain}");
        sample::with_traffic(&mut report);
        let text = run_table(&report, None);
        for part in heads.iter().chain(&["2.0 %", "3.5", "1.25 s", "17"]) {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let narrow = run_table(&report, Some(90));
        for part in ["of limit", "delay", "/ none", "p95", "not shown for want of width:"] {
            assert!(narrow.contains(part), "{part} in\n{narrow}");
        }
        assert!(!narrow.contains("RTOs"), "{narrow}");
    }

    #[test]
    fn columns_of_quic_are_there_where_a_flow_has_it_and_the_stack_is_named() {
        let (mut report, _) = sample::run(2);
        for run in &mut report.runs {
            run.stack = Stack::Linux;
        }
        let plain = run_table(&report, None);
        assert!(!plain.contains("QUIC") && plain.contains("stack: the kernel's TCP\n"), "{plain}");
        sample::with_quic(&mut report);
        let text = run_table(&report, None);
        for part in ["spurious", "reductions", "PTOs", "RTT", "2.5 %", "15", "41", "62.5 ms"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(text.contains("stack: QUIC (quinn) over the kernel's UDP\n"), "{text}");
        report.runs[0].flows.push(crate::FlowRecord::default());
        let both = run_table(&report, None);
        assert!(both.contains("stack: the kernel's TCP, QUIC (quinn) over the kernel's UDP\n"), "{both}");
    }

    #[test]
    fn what_was_told_has_columns_where_it_was_late_or_wrong_and_somebody_listened() {
        let (mut report, _) = sample::run(2);
        let exact =
            ToldRecord { silences: 40, told: 40, start_late_mean_s: Some(0.0), ..ToldRecord::default() };
        for run in &mut report.runs {
            run.link.told = Some(exact.clone());
        }
        assert!(!run_table(&report, None).contains("told"), "an oracle is said in the facts");
        for run in report.runs.iter_mut().filter(|run| run.case != "hold") {
            run.link.told = Some(ToldRecord {
                told: 38,
                missed: 2,
                false_silences: 7,
                start_late_mean_s: Some(0.0234),
                ..exact.clone()
            });
        }
        let text = run_table(&report, None);
        let row =
            |case: &str| text.lines().find(|line| line.contains(&format!("│ {case} "))).unwrap().to_owned();
        for part in ["23.4 ms", "5.0 %"] {
            assert!(row("dsasync").contains(part), "{part} in\n{text}");
            // Nobody listens at a plain router.
            assert!(!row("none").contains(part) && !row("hold").contains(part), "{text}");
        }
    }

    #[test]
    fn goodput_its_share_and_ratio_and_the_delays_tail_stay_longest() {
        let (mut report, _) = sample::run(2);
        for run in &mut report.runs {
            run.link.told =
                Some(ToldRecord { silences: 40, told: 38, false_silences: 7, ..ToldRecord::default() });
        }
        let heads = |width| {
            let text = run_table(&report, Some(width));
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(width)), "{text}");
            let heads = text.split('╞').next().unwrap().to_owned();
            let shown = ["case", "goodput", "of limit", "p99", "/ none", "p50", "resent", "RTOs", "told"];
            shown.into_iter().filter(|head| heads.contains(head)).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(heads(130), "case, goodput, of limit, p99, / none, p50, resent, RTOs, told");
        assert_eq!(heads(80), "case, goodput, of limit, p99, / none, p50");
        assert_eq!(heads(72), "case, goodput, of limit, p99, / none");
        assert_eq!(heads(60), "case, goodput, of limit, p99");
        assert_eq!(heads(40), "case, goodput, of limit");
    }

    #[test]
    fn where_limits_differ_the_table_says_that_of_each_case() {
        let (mut report, _) = sample::run(3);
        let Offers::Alike(all) = Offers::of(&report) else { panic!("the sample has one radio") };
        let (once, twice) = (format::rate(all.limit_bps), format::rate(2.0 * all.limit_bps));
        assert!(run_table(&report, None).contains(&format!("\nlimit {once} (what")));
        sample::with_a_case_of_twice_the_rate(&mut report);
        let text = run_table(&report, None);
        let none = format!("\n  none: limit {once}; radio silent 25.0 % of the time\n");
        let hold = format!("\n  hold: limit {twice}; radio silent 40.0 % of the time\n");
        for part in ["different limits", &none, &hold] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        assert!(!text.contains("\nlimit "), "{text}");
    }

    #[test]
    fn the_table_names_the_baseline() {
        let (mut report, _) = sample::run(3);
        report.compare = crate::stats::compare(&report.runs, Some("hold"));
        let text = run_table(&report, None);
        assert!(text.contains("/ hold"), "{text}");
        let row =
            |case: &str| text.lines().find(|line| line.contains(&format!("│ {case} "))).unwrap().to_owned();
        assert!(row("none").contains(" [0.") && !row("hold").contains('['), "{text}");
    }

    #[test]
    fn where_nothing_is_compared_the_table_names_no_baseline() {
        let (mut report, _) = sample::run(3);
        report.compare.clear();
        let text = run_table(&report, None);
        assert!(!text.contains("/ none") && !text.contains("baseline"), "{text}");
        assert_eq!(report.baseline(), None);
    }
}
