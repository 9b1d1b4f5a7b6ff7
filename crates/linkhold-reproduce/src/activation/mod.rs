//! `activation`: figures 3 to 5 (sections 4.2 and 5), and beside them thresholds that are too high and
//! samples that come late or are wrong. Everything runs on the paper's TCP and on today's.

mod claims;
mod figures;

use crate::figure::{FigureSpec, PaperSpec};

/// The paper.
pub(crate) const PAPER: PaperSpec = PaperSpec {
    name: "activation",
    numbers: include_str!("../../../../reproductions/activation/paper.toml"),
    figures: FIGURES,
    // Ten walks decided one of the seven claims that there were then.
    seeds: 100,
    kernel: None,
};

macro_rules! scenario {
    ($figure:literal) => {
        include_str!(concat!("../../../../reproductions/activation/", $figure, "/scenario.toml"))
    };
}

/// Every figure, in the paper's order.
const FIGURES: &[FigureSpec] = &[
    FigureSpec {
        id: "fig3",
        scenario: scenario!("fig3"),
        x_label: "SNR (dB)",
        variants: figures::on_every_source,
        rows: figures::error_rate_rows,
        claim: claims::none,
    },
    FigureSpec {
        id: "fig4",
        scenario: scenario!("fig4"),
        x_label: "",
        variants: figures::on_every_source,
        rows: figures::transfer_rows,
        claim: claims::fig4,
    },
    FigureSpec {
        id: "fig5",
        scenario: scenario!("fig5"),
        x_label: "",
        variants: figures::on_the_walk,
        rows: figures::overhead_rows,
        claim: claims::fig5,
    },
    FigureSpec {
        id: "harm",
        scenario: scenario!("harm"),
        x_label: "",
        variants: figures::both_on_the_walk,
        rows: figures::transfer_rows,
        claim: claims::harm,
    },
    FigureSpec {
        id: "signal",
        scenario: scenario!("signal"),
        x_label: "",
        variants: figures::signals,
        rows: figures::transfer_rows,
        claim: claims::signal,
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
    fn every_variant_of_every_figure_is_a_valid_scenario_with_the_plain_host_first() {
        for figure in FIGURES {
            for variant in (figure.variants)(false) {
                let scenario = Scenario::from_toml(figure.scenario, figure.id, &variant.set)
                    .unwrap_or_else(|errors| panic!("{} {}: {errors}", figure.id, variant.stack));
                let cases = scenario.cases();
                assert_eq!(cases[0].name, "off");
                assert!(cases[0].scenario.mechanisms.is_empty());
                assert!(cases[1..].iter().all(|case| case.scenario.mechanisms.len() == 1), "{}", figure.id);
            }
        }
    }

    #[test]
    fn every_claim_is_measured_and_a_transfer_that_ends_is_whole() {
        let paper = Paper::parse(PAPER.numbers).expect("it is right");
        for (id, seeds) in [("fig3", 1), ("fig4", 1), ("fig5", 1), ("harm", 2), ("signal", 1)] {
            let once = Options { seeds: Some(seeds), ..Options::QUICK };
            let spec = FIGURES.iter().find(|spec| spec.id == id).expect("it is there");
            let measured = measure(&PAPER, spec, &paper, once, &crate::Silent).expect("it runs");
            assert!(measured.rows.iter().all(|row| row.measured.is_finite()), "{id}: {:?}", measured.rows);
            for claim in &measured.claims {
                // No threshold may be harmful, and no gain may be there to be kept.
                let may_lack = ["harm", "signal"].contains(&id);
                assert!(claim.measured.map_or(may_lack, f64::is_finite), "{id}: {}", claim.text);
            }
        }
    }

    /// The file is not part of the project. A run that reads it meets what no walk has: places where the
    /// signal stays strong or weak, and hardly any motion for the paper's rule.
    #[test]
    fn the_measured_link_is_read_where_its_file_is() {
        let figure = FIGURES.iter().find(|figure| figure.id == "fig4").expect("it is there");
        let variants = (figure.variants)(false);
        let Some(variant) = variants.iter().find(|variant| variant.stack == "classic Reno, measured link")
        else {
            eprintln!("skipped: LINKHOLD_DATA names no folder with {}", figures::MEASURED);
            return;
        };
        let cases = variant.cases("activation/fig4", figure.scenario).expect("the file is a signal's");
        let run = |name: &str, seed: u64| {
            let case = cases.iter().find(|case| case.name == name).expect("the figure has it");
            linkhold_sim::run_case(case, seed).expect("the scenario is valid").0
        };
        let throughputs = (1..=5).map(|seed| figures::throughput(&run("off", seed)));
        let [least, most] = throughputs.fold([f64::INFINITY, 0.0], |[a, b], one| [a.min(one), b.max(one)]);
        assert!(least < 5.0 && most > 50.0, "{least} to {most} kB/s; a walk has 14");
        let shut = run("5dB", 1).mechanisms[0].counter("silences");
        assert!(shut < 10, "{shut} times; on a walk it is 200");
    }

    #[test]
    fn every_figures_folder_has_its_scenario_and_says_how_to_read_it() {
        check_pages(&PAPER);
    }
}
