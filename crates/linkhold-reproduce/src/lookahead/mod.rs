//! `lookahead`: a media stream over the granted uplink of 802.16 (sections III and IV), and beyond the paper
//! where looking ahead helps, where it wastes grants, and what it is worth on links of today.

mod claims;
mod figures;

use crate::figure::{FigureSpec, PaperSpec};

/// The paper.
pub(crate) const PAPER: PaperSpec = PaperSpec {
    name: "lookahead",
    numbers: include_str!("../../../../reproductions/lookahead/paper.toml"),
    figures: FIGURES,
    seeds: 10,
    kernel: None,
};

macro_rules! scenario {
    ($figure:literal) => {
        include_str!(concat!("../../../../reproductions/lookahead/", $figure, "/scenario.toml"))
    };
}

/// Every figure: the paper's in its order, then those beyond it.
const FIGURES: &[FigureSpec] = &[
    FigureSpec {
        id: "fig3",
        scenario: scenario!("fig3"),
        x_label: "",
        variants: figures::ack_styles,
        rows: figures::ack_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "fig5",
        scenario: scenario!("fig5"),
        x_label: "time (s)",
        variants: figures::assumptions,
        rows: figures::stream_rows,
        claim: claims::fig5,
    },
    FigureSpec {
        id: "sweep",
        scenario: scenario!("sweep"),
        x_label: "",
        variants: figures::sweep,
        rows: figures::sweep_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "today",
        scenario: scenario!("today"),
        x_label: "",
        variants: figures::links_of_today,
        rows: figures::today_rows,
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
    fn every_variant_of_every_figure_is_a_valid_scenario_with_plain_tcp_first() {
        for figure in FIGURES {
            for variant in (figure.variants)(false) {
                let text = variant.scenario.unwrap_or(figure.scenario);
                let scenario = Scenario::from_toml(text, figure.id, &variant.set)
                    .unwrap_or_else(|errors| panic!("{} {}: {errors}", figure.id, variant.stack));
                let cases = scenario.cases();
                assert_eq!(cases[0].name, "tcp", "{}", figure.id);
                assert!(cases[0].scenario.mechanisms.is_empty());
            }
        }
    }

    #[test]
    fn every_claim_is_measured() {
        let paper = Paper::parse(PAPER.numbers).expect("it is right");
        let once = Options { seeds: Some(1), ..Options::QUICK };
        let spec = FIGURES.iter().find(|spec| spec.id == "fig5").expect("it is there");
        let measured = measure(&PAPER, spec, &paper, once, &crate::Silent).expect("it runs");
        assert!(!measured.claims.is_empty());
        for claim in &measured.claims {
            assert!(claim.measured.is_some_and(f64::is_finite), "{}", claim.text);
        }
    }

    #[test]
    fn every_figures_folder_says_how_to_read_it() {
        check_pages(&PAPER);
    }
}
