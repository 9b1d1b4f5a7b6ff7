//! Short tables for a terminal.

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use crate::columns::{self, Form};
use crate::format;
use crate::kernel::KernelPart;
use crate::offer::{Offers, Silences, run_times};
use crate::record::{Claim, CompareRow, Figure, FlowRecord, ReproduceReport, RunRecord, RunReport, Stack};
use crate::stats::{Metric, estimate};
use crate::traffic::FlowTransport;

/// A column of the table of cases.
struct Column {
    /// Its head; a line break stands where the head may be broken.
    head: String,
    /// Its name in the line that tells which columns are not shown.
    name: &'static str,
    /// Whether it is left out where the table is too wide: a column of a lower number goes first. `None`
    /// stays.
    dispensable: Option<u8>,
    /// A cell for each case.
    cells: Vec<String>,
}

/// One row for each case, with means over the seeds: goodput, its share of the limit, retransmissions,
/// timeouts, delays, and goodput against the baseline with its interval.
///
/// `width` is that of the terminal, in columns; `None` if the table may be as wide as it has to be. Where it
/// is too narrow, whole columns are left out and named below the table: no name or number is ever split.
#[must_use]
pub fn run_table(report: &RunReport, width: Option<u16>) -> String {
    let cases = report.cases();
    let seeds = cases.first().map_or(0, |case| report.runs_of(case).count());
    let columns = columns(report, &cases);
    let mut dispensable: Vec<(u8, &str)> =
        columns.iter().filter_map(|column| Some((column.dispensable?, column.name))).collect();
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
        format!("means of {seeds} seeds; in brackets the 95 % interval of the ratio, paired by seed{same}")
    };
    let mut out = format!("{table}\n{}{seeds_text}\n", offered(&Offers::of(report)));
    out.push_str(&conditions(report));
    if let Some((least, most)) = run_times(report) {
        out.push_str(&format!("cases ran for {} to {}\n", format::time(least), format::time(most)));
    }
    if report.baseline().is_none() && !report.compare.is_empty() {
        out.push_str("each case is compared with the baseline under its own congestion control\n");
    }
    left_out.reverse();
    out + &not_shown(&left_out)
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

/// The stack, and what the file says of round-trip time, plain router and TCP: without them no comparison
/// means anything.
fn conditions(report: &RunReport) -> String {
    let stack = match report.runs.first() {
        Some(run) if run.stack == Stack::Linux => on_linux(run),
        Some(_) => "stack: simulated\n".to_owned(),
        None => String::new(),
    };
    let stated =
        |fact: &&String| ["wired: ", "router: ", "tcp: "].iter().any(|label| fact.starts_with(label));
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
fn fitted<'a>(
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
fn not_shown(left_out: &[&str]) -> String {
    if left_out.is_empty() {
        return String::new();
    }
    format!("not shown for want of width: {}\n", left_out.join(", "))
}

fn columns(report: &RunReport, cases: &[&str]) -> Vec<Column> {
    let versus = report.baseline().map_or_else(|| "baseline".to_owned(), str::to_owned);
    let column = |head: &str, name, dispensable, cell: &dyn Fn(&str) -> String| {
        let cells = cases.iter().map(|case| cell(case)).collect();
        Column { head: head.to_owned(), name, dispensable, cells }
    };
    let mean = |case: &str, metric| estimate(&report.runs, case, metric).mean;
    let mut all = vec![
        column("case", "case", None, &|case| case.to_owned()),
        column("goodput", "goodput", None, &|case| format::rate(mean(case, Metric::Goodput))),
        column("of limit", "share of the limit", Some(4), &|case| {
            format::percent(mean(case, Metric::LimitShare))
        }),
        column("resent", "retransmissions", Some(1), &|case| format::count(mean(case, Metric::Retransmits))),
        column("RTOs", "timeouts", Some(0), &|case| format::count(mean(case, Metric::RtoEvents))),
        column("delay\np50", "median delay", Some(2), &|case| format::time(mean(case, Metric::DelayP50))),
        column("delay\np99", "99th percentile of delay", Some(3), &|case| {
            format::time(mean(case, Metric::DelayP99))
        }),
    ];
    // Where nothing is compared, a head over no numbers would name a baseline that nobody asked for.
    if !report.compare.is_empty() {
        all.push(column(&format!("goodput\n/ {versus}"), "goodput against the baseline", Some(5), &|case| {
            versus_text(report, case)
        }));
    }
    all.extend(columns::present(report).map(|extra| {
        let rank = if extra.form == Form::Rate { 4 } else { 6 };
        column(&extra.head.join("\n"), extra.name, Some(rank), &|case| {
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

/// Widest table of claims without a terminal, columns.
const CLAIM_WIDTH: u16 = 120;

/// A table for each figure, with a row for each claim: the paper's number, the measured one with its
/// interval, their unit, the criterion and the verdict.
///
/// `width` is that of the terminal, in columns. Sentences are broken at spaces; words and numbers are not
/// broken. Where that is too wide, the criterion, the unit and the paper's number are left out, in this
/// order.
#[must_use]
pub fn reproduce_table(report: &ReproduceReport, width: Option<u16>) -> String {
    let mut out = String::new();
    for figure in &report.figures {
        out.push_str(&figure_table(figure, width.unwrap_or(CLAIM_WIDTH)));
    }
    let claims: Vec<&Claim> = report.figures.iter().flat_map(|figure| &figure.claims).collect();
    if !claims.is_empty() {
        out.push_str(&format!("{}\n", verdicts(report, &claims)));
        if report.figures.iter().any(|figure| figure.seeds == 1 && !figure.claims.is_empty()) {
            out.push_str("one seed, so without intervals: the measured value alone decides\n");
        }
    }
    if let Some(kernel) = &report.kernel {
        out.push_str(&kernel_notes(kernel));
    }
    out
}

/// How many claims hold; of those with the simulator beside them, by it too.
pub(crate) fn verdicts(report: &ReproduceReport, claims: &[&Claim]) -> String {
    let Some(kernel) = &report.kernel else { return count_verdicts(claims) };
    let simulated: Vec<Claim> = claims
        .iter()
        .map(|claim| Claim { holds: claim.simulated.as_ref().and_then(|one| one.holds), ..Claim::default() })
        .collect();
    format!(
        "on Linux {}, {}, {}; in the simulator {}",
        kernel.release,
        kernel.judged_on,
        count_verdicts(claims),
        count_verdicts(&simulated.iter().collect::<Vec<_>>())
    )
}

/// What was run, told, left out and missed.
fn kernel_notes(kernel: &KernelPart) -> String {
    let mut out = format!("{}\n", kernel.ran());
    for (title, lines) in kernel.lists() {
        if !lines.is_empty() {
            out.push_str(&format!("\n{title}:\n"));
            lines.iter().for_each(|line| out.push_str(&format!("  {line}\n")));
        }
    }
    out
}

/// "11 of 26 claims hold, 4 are undecided".
pub(crate) fn count_verdicts(claims: &[&Claim]) -> String {
    let with = |verdict| claims.iter().filter(|claim| claim.holds == verdict).count();
    let holds = with(Some(true));
    let undecided = match with(None) {
        0 => String::new(),
        1 => ", 1 is undecided".to_owned(),
        n => format!(", {n} are undecided"),
    };
    let noun = if claims.len() == 1 { "claim" } else { "claims" };
    let verb = if holds == 1 { "holds" } else { "hold" };
    format!("{holds} of {} {noun} {verb}{undecided}", claims.len())
}

fn figure_table(figure: &Figure, width: u16) -> String {
    let counted = |n: u64, noun: &str| if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") };
    let points = counted(figure.rows.len() as u64, "point");
    let head = format!("{}: {} ({points}, {})", figure.id, figure.title, counted(figure.seeds, "seed"));
    if figure.claims.is_empty() {
        return format!("{head}\nThe paper claims nothing here; report and --json have the points.\n\n");
    }
    let dispensable = ["holds if", "unit", "paper"];
    let (table, left_out) = fitted(width, &dispensable, |left_out| claim_table(figure, left_out, width));
    format!("{head}\n{table}\n{}\n", not_shown(&left_out))
}

/// The table of a figure's claims without the columns `left_out`.
fn claim_table(figure: &Figure, left_out: &[&str], width: u16) -> Table {
    let beside = figure.claims.iter().any(|claim| claim.simulated.is_some());
    let heads = [
        "claim",
        "paper",
        if beside { "kernel\nsimulator" } else { "measured" },
        "unit",
        "holds if",
        "verdict",
    ];
    let columns: Vec<usize> = (0..heads.len())
        .filter(|&column| heads.get(column).is_some_and(|head| !left_out.contains(head)))
        .collect();
    let mut table = new_table(columns.iter().filter_map(|&column| heads.get(column)).copied());
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    let rows: Vec<[String; 6]> = figure.claims.iter().map(claim_cells).collect();
    for cells in &rows {
        let shown: Vec<String> = columns.iter().filter_map(|&column| cells.get(column)).cloned().collect();
        let mut shown = row(&shown, 1);
        for (cell, &column) in shown.iter_mut().zip(&columns) {
            if column >= 3 {
                *cell = cell.clone().set_alignment(CellAlignment::Left);
            }
        }
        table.add_row(shown);
    }
    for (place, &column) in columns.iter().enumerate() {
        let texts = rows.iter().filter_map(|cells| cells.get(column).map(String::as_str));
        let words = texts.chain(heads.get(column).copied()).flat_map(str::split_whitespace);
        let longest = words.map(|word| word.chars().count()).max().unwrap_or(0);
        let constraint = match column {
            1 | 2 | 5 => ColumnConstraint::ContentWidth,
            // A blank on either side belongs to the width.
            _ => {
                ColumnConstraint::LowerBoundary(Width::Fixed(u16::try_from(longest + 2).unwrap_or(u16::MAX)))
            }
        };
        if let Some(column) = table.column_mut(place) {
            column.set_constraint(constraint);
        }
    }
    table
}

/// What the six columns say of a claim.
fn claim_cells(claim: &Claim) -> [String; 6] {
    let number = |value: Option<f64>| value.map_or_else(|| format::MISSING.to_owned(), format::number);
    let with_interval = |value: Option<f64>, ci95: Option<[f64; 2]>| {
        number(value)
            + &ci95.map_or_else(String::new, |[low, high]| format!("\n{}", format::interval(low, high)))
    };
    let criterion = claim.criterion.strip_prefix("holds if ").unwrap_or(&claim.criterion);
    let criterion = criterion.strip_suffix(&format!("; in {}", claim.unit)).unwrap_or(criterion);
    let verdict = |holds: Option<bool>| match holds {
        Some(true) => "yes",
        Some(false) => "NO",
        None => "undecided",
    };
    let mut measured = with_interval(claim.measured, claim.ci95);
    let mut verdicts = verdict(claim.holds).to_owned();
    if let Some(simulated) = &claim.simulated {
        measured.push_str(&format!("\n{}", with_interval(simulated.measured, simulated.ci95)));
        // The simulator's verdict stands beside its number.
        let between = if claim.ci95.is_some() { "\n\n" } else { "\n" };
        verdicts.push_str(&format!("{between}{}", verdict(simulated.holds)));
    }
    [claim.text.clone(), number(claim.paper), measured, claim.unit.clone(), criterion.to_owned(), verdicts]
}

fn new_table<'a>(header: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED).set_header(header.into_iter().map(Cell::new));
    table
}

/// A row with its first `texts` cells aligned left and the others right.
fn row(cells: &[String], texts: usize) -> Vec<Cell> {
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
    fn a_table_states_round_trip_time_stack_and_what_the_plain_router_does() {
        let (mut report, _) = sample::run(2);
        let facts = ["wired: 100Mbit/s, 50ms round trip", "router: fifo of 100 packets; queues in a silence"];
        report.scenario.facts.extend(facts.map(str::to_owned));
        report.scenario.facts.push("told: nothing".to_owned());
        let text = run_table(&report, None);
        for fact in facts.iter().chain(&["stack: simulated"]) {
            assert!(text.lines().any(|line| line == *fact), "{fact} in\n{text}");
        }
        assert!(!text.contains("told: "), "{text}");
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
        let table = narrow.split("\nlimit").next().unwrap();
        assert!(table.lines().all(|line| line.chars().count() <= 80), "{narrow}");
        assert!(narrow.contains(long), "{narrow}");
        assert!(narrow.contains("not shown for want of width:") && narrow.contains("timeouts"), "{narrow}");
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
        assert!(narrow.contains("stalls") && narrow.contains("not shown for want of width:"), "{narrow}");
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

    #[test]
    fn a_claim_is_told_with_unit_criterion_and_one_of_three_verdicts() {
        for width in [None, Some(80), Some(100)] {
            let text = reproduce_table(&sample::reproduce(), width);
            let widest = usize::from(width.unwrap_or(120));
            assert!(text.lines().all(|line| line.chars().count() <= widest), "{text}");
            for part in ["NO", "yes", "undecided", "[-60.0, 23.0]", "times", "20 %", "holds if", "1.08"] {
                assert!(text.contains(part), "{part} in\n{text}");
            }
            assert!(text.contains("1 of 3 claims holds, 1 is undecided"), "{text}");
        }
    }

    #[test]
    fn a_kernels_numbers_stand_above_the_simulators_and_each_has_its_verdict() {
        let text = reproduce_table(&sample::reproduce_on_a_kernel(), Some(100));
        for part in [
            "simulator",
            "1.02",
            "1.12",
            "[1.10, 1.14]",
            "of 2 claims hold, 1 is undecided; in the simulator 1 of 2",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
        let notes = "12 runs against Linux 6.18.0; 3 were late and made again";
        for part in [notes, "Told", "at once", "Left out", "the reason", "Without a result", "too slow"] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn a_narrow_table_of_claims_loses_columns_but_breaks_no_word() {
        let mut report = sample::reproduce();
        report.figures.retain(|figure| !figure.claims.is_empty());
        let claims: Vec<Claim> = report.figures.iter().flat_map(|figure| figure.claims.clone()).collect();
        let words: Vec<&str> = claims.iter().flat_map(|claim| claim.text.split_whitespace()).collect();
        let narrowest = words.iter().map(|word| word.chars().count()).max().unwrap() + 32;
        for width in [100, 80, 70, 60, 50, narrowest] {
            let text = reproduce_table(&report, Some(u16::try_from(width).unwrap()));
            for word in &words {
                assert!(text.contains(word), "{word:?} at {width}:\n{text}");
            }
            let rows = text.lines().filter(|line| line.starts_with(['┌', '│', '╞', '├', '└']));
            for row in rows {
                assert!(row.chars().count() <= width, "{width}:\n{text}");
            }
            assert_eq!(text.contains("not shown"), width < 65, "{width}:\n{text}");
        }
        // However narrow: the claim, its number and the verdict stay.
        let least = reproduce_table(&report, Some(10));
        assert!(least.contains("not shown for want of width: holds if, unit, paper"), "{least}");
        assert!(words.iter().all(|word| least.contains(word)) && least.contains("undecided"), "{least}");
    }

    #[test]
    fn one_seed_is_said_to_have_no_intervals() {
        let mut report = sample::reproduce();
        assert!(!reproduce_table(&report, None).contains("without intervals"));
        report.figures[0].seeds = 1;
        assert!(reproduce_table(&report, None).contains("one seed, so without intervals"));
    }

    #[test]
    fn a_study_without_claims_has_no_empty_table() {
        let text = reproduce_table(&sample::reproduce(), None);
        let (_, study) = text.split_once("dsasync/sensitivity").unwrap();
        assert!(
            study.contains("(1 point, 10 seeds)\nThe paper claims nothing here") && !study.contains('│'),
            "{text}"
        );
        let mut alone = sample::reproduce();
        alone.figures.retain(|figure| figure.claims.is_empty());
        assert!(!reproduce_table(&alone, None).contains("0 of 0"));
    }
}
