//! `crahn`: TCP over cognitive radios that sense, leave channels to primary users and meet others that differ
//! (section 5), on a single hop and on a mesh of 25 moving nodes; and beyond the paper, senders that are
//! told.

mod claims;
mod figures;

use crate::figure::{FigureSpec, PaperSpec};

/// The paper.
pub(crate) const PAPER: PaperSpec = PaperSpec {
    name: "crahn",
    numbers: include_str!("../../../../reproductions/crahn/paper.toml"),
    figures: FIGURES,
    seeds: 10,
    kernel: None,
};

macro_rules! scenario {
    ($figure:literal) => {
        include_str!(concat!("../../../../reproductions/crahn/", $figure, "/scenario.toml"))
    };
}

/// Every figure: the paper's in its order, then the same with senders that are told (`notified` is figure 3).
const FIGURES: &[FigureSpec] = &[
    FigureSpec {
        id: "fig2",
        scenario: scenario!("fig2"),
        x_label: "sensing time (s)",
        variants: figures::sensing_and_transmitting,
        rows: figures::throughput_rows,
        claim: claims::fig2,
    },
    FigureSpec {
        id: "fig3",
        scenario: scenario!("fig3"),
        x_label: "sensing time (s)",
        variants: figures::sensing,
        rows: figures::throughput_rows,
        claim: claims::fig3,
    },
    FigureSpec {
        id: "fig4",
        scenario: scenario!("fig4"),
        x_label: "time (s)",
        variants: figures::three_sensing_times,
        rows: figures::window_rows,
        claim: claims::fig4,
    },
    FigureSpec {
        id: "fig5",
        scenario: scenario!("fig5"),
        x_label: "time (s)",
        variants: figures::three_sensing_times,
        rows: figures::round_trip_rows,
        claim: claims::fig5,
    },
    FigureSpec {
        id: "fig6",
        scenario: scenario!("fig6"),
        x_label: "alpha (1/s)",
        variants: figures::activity,
        rows: figures::throughput_rows,
        claim: claims::fig6,
    },
    FigureSpec {
        id: "fig7",
        scenario: scenario!("fig7"),
        x_label: "M",
        variants: figures::differences,
        rows: figures::efficiency_rows,
        claim: claims::fig7,
    },
    FigureSpec {
        id: "fig8",
        scenario: scenario!("fig8"),
        x_label: "time (s)",
        variants: figures::one,
        rows: figures::bandwidth_rows,
        claim: claims::fig8,
    },
    FigureSpec {
        id: "fig9",
        scenario: scenario!("fig9"),
        x_label: "connections",
        variants: figures::connections,
        rows: figures::throughput_rows,
        claim: claims::fig9,
    },
    FigureSpec {
        id: "fig10",
        scenario: scenario!("fig10"),
        x_label: "connections",
        variants: figures::connections,
        rows: figures::timeout_rows,
        claim: claims::fig10,
    },
    FigureSpec {
        id: "notified",
        scenario: scenario!("notified"),
        x_label: "sensing time (s)",
        variants: figures::few_sensing_times,
        rows: figures::throughput_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "notified-fig2",
        scenario: scenario!("notified"),
        x_label: "sensing time (s)",
        variants: figures::told_sensing_and_transmitting,
        rows: figures::throughput_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "notified-fig4",
        scenario: scenario!("notified"),
        x_label: "time (s)",
        variants: figures::told_over_time,
        rows: figures::window_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "notified-fig5",
        scenario: scenario!("notified"),
        x_label: "time (s)",
        variants: figures::told_over_time,
        rows: figures::round_trip_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "notified-fig6",
        scenario: scenario!("notified"),
        x_label: "alpha (1/s)",
        variants: figures::told_activity,
        rows: figures::throughput_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "notified-fig7",
        scenario: scenario!("notified"),
        x_label: "M",
        variants: figures::told_differences,
        rows: figures::efficiency_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "notified-fig8",
        scenario: scenario!("notified"),
        x_label: "time (s)",
        variants: figures::told_one,
        rows: figures::bandwidth_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "notified-fig9",
        scenario: scenario!("notified-fig9"),
        x_label: "connections",
        variants: figures::told_connections,
        rows: figures::throughput_rows,
        claim: claims::none,
    },
];

#[cfg(test)]
mod tests {
    use linkhold_scenario::Scenario;

    use super::*;
    use crate::Options;
    use crate::figure::{check_pages, measure};
    use crate::paper::Paper;

    #[test]
    fn every_variant_of_every_figure_is_a_valid_scenario_with_newreno_first() {
        for figure in FIGURES {
            for variant in (figure.variants)(false) {
                let text = variant.scenario.unwrap_or(figure.scenario);
                let scenario = Scenario::from_toml(text, figure.id, &variant.set)
                    .unwrap_or_else(|errors| panic!("{} {}: {errors}", figure.id, variant.stack));
                let cases = scenario.cases();
                assert_eq!(cases[0].name, "newreno", "{}", figure.id);
                assert!(cases[0].scenario.mechanisms.is_empty() && cases[0].scenario.mesh.is_some());
            }
        }
    }

    #[test]
    fn every_claim_is_measured() {
        let paper = Paper::parse(PAPER.numbers).expect("it is right");
        let once = Options { seeds: Some(2), ..Options::QUICK };
        for spec in FIGURES {
            let short = FigureSpec { variants: spec.variants, ..*spec };
            let measured = measure(&PAPER, &short, &paper, once, &crate::Silent).expect("it runs");
            for claim in &measured.claims {
                assert!(claim.measured.is_some_and(f64::is_finite), "{} {}", spec.id, claim.text);
            }
            assert!(!measured.rows.is_empty(), "{}", spec.id);
        }
    }

    #[test]
    fn every_figures_folder_says_how_to_read_it() {
        check_pages(&PAPER);
    }
}
