//! `cr-aware`: figures 3 and 4 (section 5), six senders over 802.15.4 beside a primary user; on the paper's
//! NewReno and, beside it, on today's stack.

mod claims;
mod figures;

use crate::figure::{FigureSpec, PaperSpec};

/// The paper.
pub(crate) const PAPER: PaperSpec = PaperSpec {
    name: "cr-aware",
    numbers: include_str!("../../../../reproductions/cr-aware/paper.toml"),
    figures: FIGURES,
    // Ten do not decide three of the claims: a sender without CR-aware delivers very unequal amounts.
    seeds: 100,
    kernel: None,
};

macro_rules! scenario {
    ($figure:literal) => {
        include_str!(concat!("../../../../reproductions/cr-aware/", $figure, "/scenario.toml"))
    };
}

/// Every figure, in the paper's order.
const FIGURES: &[FigureSpec] = &[
    FigureSpec {
        id: "fig3",
        scenario: scenario!("fig3"),
        x_label: "",
        variants: figures::assumptions,
        rows: |grid| [figures::goodput_rows(grid), claims::order_rows(grid)].concat(),
        claim: claims::fig3,
    },
    FigureSpec {
        id: "fig4",
        scenario: scenario!("fig4"),
        x_label: "time (s)",
        variants: figures::papers_stack_and_todays,
        rows: figures::sequence_rows,
        claim: claims::fig4,
    },
];

#[cfg(test)]
mod tests {
    use linkhold_scenario::Scenario;

    use super::*;
    use crate::Silent;
    use crate::figure::check_pages;
    use crate::grid::Grid;
    use crate::paper::Paper;

    #[test]
    fn every_variant_of_every_figure_is_a_valid_scenario_with_the_six_senders() {
        for figure in FIGURES {
            for variant in (figure.variants)(false) {
                let scenario = Scenario::from_toml(figure.scenario, figure.id, &variant.set)
                    .unwrap_or_else(|errors| panic!("{} {}: {errors}", figure.id, variant.stack));
                let cases: Vec<_> = scenario.cases().into_iter().map(|case| case.name).collect();
                assert_eq!(cases, ["newreno", "newreno+cr", "phy-lr", "phy-lr+cr", "tcp-lr", "tcp-lr+cr"]);
            }
        }
    }

    /// The scenario that a reader runs first has the figure's network and its six senders, and nothing else.
    #[test]
    fn the_example_in_scenarios_is_figure_3() {
        let cases = |text, file| {
            let scenario =
                Scenario::from_toml(text, file, &[]).unwrap_or_else(|errors| panic!("{file}: {errors}"));
            let mut cases = scenario.cases();
            for case in &mut cases {
                case.scenario.name.clear();
                case.scenario.description.clear();
            }
            cases
        };
        let [fig3, _] = FIGURES else { panic!("two figures") };
        let example = cases(include_str!("../../../../scenarios/cr-aware.toml"), "cr-aware.toml");
        assert_eq!(example.len(), 6);
        assert_eq!(example, cases(fig3.scenario, "fig3"));
    }

    /// On the paper's stack the order of every variant is what its claims are judged by.
    #[test]
    fn every_variant_says_how_the_six_stand_to_each_other() {
        let [fig3, fig4] = FIGURES else { panic!("two figures") };
        let mut variants = figures::assumptions(false);
        variants.truncate(3);
        let run = |figure: &FigureSpec, variants| {
            Grid::run(figure.id, figure.scenario, variants, 1..4, &Silent).expect("it runs")
        };
        let stacks: Vec<_> = variants.iter().map(|variant| variant.stack.clone()).collect();
        let grid = run(fig3, variants);
        let rows = (fig3.rows)(&grid);
        let of = |stack: &str, case: &str, metric: &str| {
            let mut rows = rows.iter();
            let row = rows.find(|row| row.case == format!("{case} [{stack}]") && row.metric == metric);
            row.unwrap_or_else(|| panic!("{stack}, {case}: no {metric}"))
        };
        let packets = |stack: &str, case: &str| of(stack, case, "uplink packets delivered").measured;
        let ratio = |stack: &str, case: &str| of(stack, case, "uplink packets over the best behind");
        for stack in &stacks {
            for (case, behind) in [
                ("phy-lr", &["newreno"][..]),
                ("tcp-lr", &["newreno", "phy-lr"]),
                ("newreno+cr", &["tcp-lr"]),
                ("phy-lr+cr", &["newreno", "newreno+cr", "phy-lr", "tcp-lr"]),
                ("tcp-lr+cr", &["newreno", "newreno+cr", "phy-lr", "phy-lr+cr", "tcp-lr"]),
            ] {
                let best = behind.iter().map(|case| packets(stack, case)).fold(0.0, f64::max);
                let off = ratio(stack, case).measured - packets(stack, case) / best;
                assert!(off.abs() < 1e-9 && ratio(stack, case).ci95.is_some(), "{stack}, {case}: {off}");
            }
        }
        let small = run(fig4, figures::papers_stack_and_todays(true));
        for (figure, grid, claim, case) in [
            (fig3, &grid, "phy-lr-above-newreno", "phy-lr"),
            (fig3, &grid, "tcp-lr-best-without", "tcp-lr"),
            (fig4, &small, "newreno-cr-above-tcp-lr", "newreno+cr"),
            (fig4, &small, "phy-lr-cr-second", "phy-lr+cr"),
            (fig4, &small, "tcp-lr-cr-best", "tcp-lr+cr"),
        ] {
            let judged = (figure.claim)(grid, claim).unwrap_or_else(|| panic!("{claim}: nothing measured"));
            let row = ratio(&stacks[0], case);
            assert_eq!((judged.measured, judged.ci95), (row.measured, row.ci95), "{claim}");
        }
    }

    #[test]
    fn figure_4_ends_with_the_packets_that_figure_3_counts() {
        let [fig3, fig4] = FIGURES else { panic!("two figures") };
        let run = |figure: &FigureSpec| {
            Grid::run(figure.id, figure.scenario, (figure.variants)(true), 1..3, &Silent).expect("it runs")
        };
        let (counts, curves) = ((fig3.rows)(&run(fig3)), (fig4.rows)(&run(fig4)));
        let counts: Vec<_> = counts.iter().filter(|row| row.metric == "uplink packets delivered").collect();
        assert_eq!(counts.len(), 6);
        for count in counts {
            let curve: Vec<_> = curves.iter().filter(|row| row.case == count.case).collect();
            let last = curve.last().expect("its case has a curve");
            assert_eq!((curve.len(), last.x), (10, Some(600.0)), "{}", count.case);
            let off = (last.measured - count.measured).abs();
            assert!(off <= 1.0, "{}: {} at 600 s, {} counted", count.case, last.measured, count.measured);
            let rises = curve.is_sorted_by(|before, after| before.measured <= after.measured);
            assert!(rises && count.measured > 1.0, "{}: {curve:?}", count.case);
        }
    }

    #[test]
    fn every_figure_has_its_numbers_and_says_how_to_read_it() {
        check_pages(&PAPER);
        let paper = Paper::parse(PAPER.numbers).unwrap();
        for figure in FIGURES {
            assert!(!paper.figure(figure.id).unwrap().claim.is_empty());
        }
    }
}
