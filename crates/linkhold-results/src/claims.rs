//! A short table of claims for a terminal.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width};

use crate::format;
use crate::kernel::{KernelPart, Simulated};
use crate::record::{Claim, Figure, ReproduceReport};
use crate::table::{fitted, new_table, not_shown, row};

/// Widest table of claims without a terminal, columns.
const CLAIM_WIDTH: u16 = 120;

/// A table for each figure, with a row for each claim: the paper's number, the measured one with its
/// interval, their unit, the criterion and the verdict.
///
/// `width` is that of the terminal, in columns. Sentences are broken at spaces; words and numbers are not
/// broken. Where that is too wide, the criteria stand below the table, a line each, and then the unit and the
/// paper's number are left out, in this order.
#[must_use]
pub fn reproduce_table(report: &ReproduceReport, width: Option<u16>) -> String {
    let mut out = String::new();
    for figure in &report.figures {
        out.push_str(&figure_table(figure, width));
    }
    out + &format::wrapped(&notes(report), width)
}

/// What stands below the tables of all figures.
fn notes(report: &ReproduceReport) -> String {
    let mut out = String::new();
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
        .map(|claim| {
            let Simulated { holds, measured, .. } = claim.simulated.clone().unwrap_or_default();
            Claim { holds, measured, ..Claim::default() }
        })
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

/// What is said of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    DoesNotHold,
    Undecided,
    NotMeasured,
}

impl Verdict {
    /// From [`Claim::holds`] and [`Claim::measured`].
    pub(crate) fn of(holds: Option<bool>, measured: Option<f64>) -> Self {
        match holds {
            Some(true) => Self::Holds,
            Some(false) => Self::DoesNotHold,
            None if measured.is_none_or(f64::is_nan) => Self::NotMeasured,
            None => Self::Undecided,
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Holds => "yes",
            Self::DoesNotHold => "NO",
            Self::Undecided => "undecided",
            Self::NotMeasured => "not measured",
        }
    }
}

/// "11 of 26 claims hold, 4 are undecided, 1 is not measured".
pub(crate) fn count_verdicts(claims: &[&Claim]) -> String {
    let with =
        |verdict| claims.iter().filter(|claim| Verdict::of(claim.holds, claim.measured) == verdict).count();
    let holds = with(Verdict::Holds);
    let part = |verdict: Verdict| match with(verdict) {
        0 => String::new(),
        1 => format!(", 1 is {}", verdict.word()),
        n => format!(", {n} are {}", verdict.word()),
    };
    let open = part(Verdict::Undecided) + &part(Verdict::NotMeasured);
    let noun = if claims.len() == 1 { "claim" } else { "claims" };
    let verb = if holds == 1 || claims.len() == 1 { "holds" } else { "hold" };
    format!("{holds} of {} {noun} {verb}{open}", claims.len())
}

fn figure_table(figure: &Figure, width: Option<u16>) -> String {
    let counted = |n: u64, noun: &str| if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") };
    let points = counted(figure.rows.len() as u64, "point");
    let head = format!("{}: {} ({points}, {})", figure.id, figure.title, counted(figure.seeds, "seed"));
    if figure.claims.is_empty() {
        let text = format!("{head}\nThe paper claims nothing here; report and --json have the points.\n\n");
        return format::wrapped(&text, width);
    }
    let dispensable = [CRITERION, "unit", "paper"];
    let table_width = width.unwrap_or(CLAIM_WIDTH);
    let (table, mut left_out) =
        fitted(table_width, &dispensable, |left_out| claim_table(figure, left_out, table_width));
    let mut below = String::new();
    if left_out.contains(&CRITERION) {
        left_out.retain(|&head| head != CRITERION);
        for (index, claim) in figure.claims.iter().enumerate() {
            below.push_str(&format!("  {}. {}\n", index + 1, claim.criterion));
        }
    }
    below.push_str(&not_shown(&left_out));
    format!("{}{table}\n{}\n", format::wrapped(&head, width), format::wrapped(&below, width))
}

/// The head of the column of criteria.
const CRITERION: &str = "holds if";

/// The table of a figure's claims without the columns `left_out`. Without that of the criteria the claims
/// have numbers, by which the criteria below the table name them.
fn claim_table(figure: &Figure, left_out: &[&str], width: u16) -> Table {
    let beside = figure.claims.iter().any(|claim| claim.simulated.is_some());
    let heads = [
        "claim",
        "paper",
        if beside { "kernel\nsimulator" } else { "measured" },
        "unit",
        CRITERION,
        "verdict",
    ];
    let columns: Vec<usize> = (0..heads.len())
        .filter(|&column| heads.get(column).is_some_and(|head| !left_out.contains(head)))
        .collect();
    let mut table = new_table(columns.iter().filter_map(|&column| heads.get(column)).copied());
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    let mut rows: Vec<[String; 6]> = figure.claims.iter().map(claim_cells).collect();
    if left_out.contains(&CRITERION) {
        for (index, [text, ..]) in rows.iter_mut().enumerate() {
            text.insert_str(0, &format!("{}. ", index + 1));
        }
    }
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
    let mut measured = with_interval(claim.measured, claim.ci95);
    let mut verdicts = Verdict::of(claim.holds, claim.measured).word().to_owned();
    if let Some(simulated) = &claim.simulated {
        measured.push_str(&format!("\n{}", with_interval(simulated.measured, simulated.ci95)));
        // The simulator's verdict stands beside its number.
        let between = if claim.ci95.is_some() { "\n\n" } else { "\n" };
        verdicts.push_str(&format!("{between}{}", Verdict::of(simulated.holds, simulated.measured).word()));
    }
    [claim.text.clone(), number(claim.paper), measured, claim.unit.clone(), criterion.to_owned(), verdicts]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

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
            let below = "\n  2. holds if within 20 % of the paper's number; in %\n";
            let is_below = text.contains(below) && text.contains("│ 2. goodput");
            assert_eq!(is_below, (55..65).contains(&width), "{width}:\n{text}");
            let criterion = "holds if within 20 % of the paper's number";
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_eq!(words.contains(criterion), width < 65, "{width}:\n{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
        // However narrow: the claim, its number and the verdict stay.
        let least = reproduce_table(&report, Some(10));
        assert!(least.contains("unit,\n  paper\n"), "{least}");
        assert!(words.iter().all(|word| least.contains(word)) && least.contains("undecided"), "{least}");
    }

    #[test]
    fn what_was_not_measured_is_neither_denied_nor_called_undecided() {
        let mut report = sample::reproduce();
        for (claim, measured) in report.figures[0].claims.iter_mut().zip([None, Some(f64::NAN)]) {
            (claim.measured, claim.ci95, claim.holds) = (measured, None, None);
        }
        let text = reproduce_table(&report, Some(100));
        assert_eq!(text.matches("┆ not measured │").count(), 2, "{text}");
        assert!(text.contains("1 of 3 claims holds, 2 are not measured\n"), "{text}");
        assert!(!text.contains("undecided") && !text.contains("NO"), "{text}");
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
