//! `dsasync`: the overhead, figures 3 to 8 (section VI-C) and a sensitivity study. The overhead and the
//! figures run on the paper's TCP stack and, beside it, on today's.

mod claims;
mod figures;
mod kernel;

use crate::figure::{FigureSpec, PaperSpec};

/// The paper.
pub(crate) const PAPER: PaperSpec = PaperSpec {
    name: "dsasync",
    numbers: include_str!("../../../../reproductions/dsasync/paper.toml"),
    figures: FIGURES,
    seeds: 10,
    kernel: Some(&kernel::SPEC),
};

macro_rules! scenario {
    ($figure:literal) => {
        include_str!(concat!("../../../../reproductions/dsasync/", $figure, "/scenario.toml"))
    };
}

/// Every figure, in the paper's order.
const FIGURES: &[FigureSpec] = &[
    FigureSpec {
        id: "overhead",
        scenario: scenario!("overhead"),
        x_label: "",
        variants: figures::overhead_variants,
        rows: figures::overhead_rows,
        claim: claims::overhead,
    },
    FigureSpec {
        id: "fig3",
        scenario: scenario!("fig3"),
        x_label: "time (s)",
        variants: figures::both_directions_on_every_stack,
        rows: figures::over_time_rows,
        claim: claims::fig3,
    },
    FigureSpec {
        id: "fig4",
        scenario: scenario!("fig4"),
        x_label: "",
        variants: figures::both_directions_on_every_stack,
        rows: figures::goodput_and_retransmission_rows,
        claim: claims::fig4,
    },
    FigureSpec {
        id: "fig5",
        scenario: scenario!("fig5"),
        x_label: "",
        variants: figures::both_directions_on_every_stack,
        rows: figures::deviation_rows,
        claim: claims::fig5,
    },
    FigureSpec {
        id: "fig6",
        scenario: scenario!("fig6"),
        x_label: "utilisation: share of time the radio is silent",
        variants: figures::utilisation_sweep,
        rows: figures::goodput_rows,
        claim: claims::fig6,
    },
    FigureSpec {
        id: "fig7",
        scenario: scenario!("fig7"),
        x_label: "time (s)",
        variants: figures::switch_variants,
        rows: figures::switch_rows,
        claim: claims::fig7,
    },
    FigureSpec {
        id: "fig8",
        scenario: scenario!("fig8"),
        x_label: "",
        variants: figures::macro_variants,
        rows: figures::goodput_and_retransmission_rows,
        claim: claims::fig8,
    },
    FigureSpec {
        id: "sensitivity",
        scenario: scenario!("sensitivity"),
        x_label: "",
        variants: figures::sensitivity_variants,
        rows: figures::sensitivity_rows,
        claim: claims::none,
    },
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use linkhold_scenario::Scenario;

    use super::*;
    use crate::Options;
    use crate::figure::measure;
    use crate::paper::Paper;

    #[test]
    fn every_variant_of_every_figure_is_a_valid_scenario_with_the_cases_that_claims_compare() {
        for figure in FIGURES {
            for variant in (figure.variants)(false) {
                let text = variant.scenario.unwrap_or(figure.scenario);
                let scenario = Scenario::from_toml(text, figure.id, &variant.set)
                    .unwrap_or_else(|errors| panic!("{} {}: {errors}", figure.id, variant.stack));
                let cases: Vec<_> = scenario.cases().into_iter().map(|case| case.name).collect();
                for case in ["regular", "dsasync-paper", "dsasync"] {
                    assert!(cases.iter().any(|name| name == case), "{}: {cases:?}", figure.id);
                }
                assert_eq!(
                    cases[0], "regular",
                    "what variants change for the plain router only: {}",
                    figure.id
                );
            }
        }
    }

    #[test]
    fn what_was_given_is_shown_beside_the_papers_number_and_not_judged() {
        let paper = Paper::parse(PAPER.numbers).unwrap();
        let once = Options { seeds: Some(1), ..Options::QUICK };
        for (figure, metrics) in [
            (
                "overhead",
                &[
                    "downlink goodput lost, processing not charged",
                    "downlink mean delay added, processing not charged",
                ][..],
            ),
            ("fig4", &["downlink silent share, as given"]),
        ] {
            let spec = FIGURES.iter().find(|spec| spec.id == figure).unwrap();
            let measured = measure(&PAPER, spec, &paper, once, &crate::Silent).unwrap();
            for metric in metrics {
                let row = measured.rows.iter().find(|row| row.metric == *metric);
                assert!(
                    row.is_some_and(|row| row.paper.is_some() && row.measured.is_finite()),
                    "{metric}: {row:?}"
                );
            }
            for claim in &measured.claims {
                assert!(claim.measured.is_some(), "{}", claim.text);
                assert!(!claim.text.contains("runtime") && !claim.text.contains("costs"), "{}", claim.text);
            }
        }
    }

    #[test]
    fn every_figure_has_its_numbers_and_every_number_its_figure() {
        let paper = Paper::parse(PAPER.numbers).unwrap();
        for figure in FIGURES {
            // The sensitivity study is not in the paper, so it has no claims.
            assert_eq!(
                paper.figure(figure.id).unwrap().claim.is_empty(),
                figure.id == "sensitivity",
                "{}",
                figure.id
            );
        }
        assert!(paper.figure("fig99").is_err());
    }

    #[test]
    fn every_figures_folder_has_its_scenario_and_says_how_to_read_it() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../reproductions/dsasync");
        let mut folders: Vec<String> = std::fs::read_dir(&root)
            .unwrap()
            .map(|entry| entry.unwrap())
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        folders.sort();
        let mut ids: Vec<&str> = FIGURES.iter().map(|figure| figure.id).collect();
        ids.sort_unstable();
        assert_eq!(folders, ids);
        let summary = std::fs::read_to_string(root.join("README.md")).unwrap();
        for id in ids {
            assert_eq!(
                std::fs::read_to_string(root.join(id).join("scenario.toml")).unwrap(),
                FIGURES.iter().find(|figure| figure.id == id).unwrap().scenario
            );
            let readme = std::fs::read_to_string(root.join(id).join("README.md")).unwrap();
            assert!(readme.contains(&format!("linkhold reproduce dsasync/{id}")), "{id}: how to run it");
            assert!(summary.contains(&format!("({id}/README.md)")), "{id}: linked from the summary");
        }
    }
}
