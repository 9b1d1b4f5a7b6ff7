//! The list of runs and the comparison, with recorded answers in place of a kernel.

use super::*;
use crate::Silent;

const RECORDED_BY: &str = "Linux 6.18.44, `linkhold reproduce dsasync/fig7 --stack linux --quick --seeds 1`";

/// Goodput of each second of figure 7 on a kernel, bit/s, seed 1 ([`RECORDED_BY`]).
const RECORDED: [(&str, [f64; 20]); 5] = [
    (
        "regular",
        [
            15835328.0, 16484032.0, 16623040.0, 16588288.0, 16599872.0, 9232448.0, 9452544.0, 9429376.0,
            9440960.0, 9417792.0, 9440960.0, 9429376.0, 8479488.0, 10356096.0, 9429376.0, 9417792.0,
            9440960.0, 9440960.0, 9440960.0, 9452544.0,
        ],
    ),
    (
        "dsasync-paper",
        [
            15175040.0, 16495616.0, 16623040.0, 16588288.0, 16599872.0, 9255616.0, 9440960.0, 9440960.0,
            9348288.0, 9498880.0, 9429376.0, 9440960.0, 9417792.0, 9429376.0, 9440960.0, 9417792.0,
            9429376.0, 9440960.0, 9406208.0, 9440960.0,
        ],
    ),
    (
        "paper-no-response",
        [
            15464640.0, 16472448.0, 16623040.0, 16588288.0, 16611456.0, 9244032.0, 9452544.0, 9440960.0,
            9081856.0, 9788480.0, 9429376.0, 9440960.0, 9417792.0, 9440960.0, 9440960.0, 9406208.0,
            9440960.0, 9429376.0, 9417792.0, 9440960.0,
        ],
    ),
    (
        "paper-modern-response",
        [
            14259904.0, 16414528.0, 16611456.0, 16588288.0, 16599872.0, 9255616.0, 9440960.0, 9253696.0,
            9413312.0, 9359040.0, 9387456.0, 9407872.0, 9389760.0, 9419712.0, 9404736.0, 9375680.0,
            9410688.0, 9404928.0, 9392832.0, 9407040.0,
        ],
    ),
    (
        "dsasync",
        [
            16131648.0, 16528448.0, 16569024.0, 16566080.0, 16561024.0, 9224512.0, 9336896.0, 9335488.0,
            9316224.0, 9389760.0, 9285824.0, 9322112.0, 9300352.0, 9367744.0, 9387904.0, 9302080.0,
            9396608.0, 9388416.0, 9357120.0, 9356288.0,
        ],
    ),
];

/// What a recorded testbed makes of a simulated run.
type Answer = fn(&KernelRun, (RunRecord, RunSeries)) -> Result<(RunRecord, RunSeries), String>;

/// A testbed whose answers are the simulator's, changed by the test.
struct Changed {
    refuses: fn(&Case) -> Option<String>,
    answer: Answer,
}

const AS_SIMULATED: Changed = Changed { refuses: |_| None, answer: |_, outcome| Ok(outcome) };

impl Testbed for Changed {
    fn release(&self) -> String {
        "6.18.44".to_owned()
    }

    fn refuses(&self, case: &Case, _congestion: &str) -> Option<String> {
        (self.refuses)(case)
    }

    fn run(&self, runs: &[KernelRun]) -> Result<Measured, String> {
        let outcomes = runs.iter().map(|run| {
            let outcome = linkhold_sim::run_case(&run.case, run.seed).map_err(|error| error.to_string())?;
            (self.answer)(run, outcome)
        });
        Ok(Measured { outcomes: outcomes.collect(), repeated: 2 })
    }
}

fn quick(seeds: u32) -> Options {
    Options { seeds: Some(seeds), ..Options::QUICK }
}

fn of(selector: &str) -> Selection<'_> {
    Selection { selector: Some(selector), figures: &[] }
}

fn measured(testbed: &Changed, selector: &str, seeds: u32) -> ReproduceReport {
    reproduce_on(testbed, &of(selector), quick(seeds), &Silent, Program::default()).unwrap()
}

#[test]
fn figures_with_the_same_scenario_share_its_runs_and_no_run_is_made_twice() {
    let plan = Plan::new(&AS_SIMULATED, &of("dsasync"), quick(3)).unwrap();
    let ids: Vec<String> = plan.figures.iter().map(PlannedFigure::id).collect();
    let wanted = ["overhead", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8"];
    assert_eq!(ids, wanted.map(|name| format!("dsasync/{name}")));
    let runs = |name: &str| -> Vec<&Vec<usize>> {
        let figure = plan.figures.iter().find(|planned| planned.figure.id == name).unwrap();
        figure.points.iter().map(|point| &point.runs).collect()
    };
    assert_eq!(runs("fig3"), runs("fig4"));
    assert_eq!(runs("fig3"), runs("fig5"));
    // 6 of one client, 3 undisturbed on the downlink; figure 6 adds 8 positions both ways and one undisturbed
    // uplink; figure 7 has 5 cases; figure 8 has two policies both ways. Three cases each, three seeds.
    assert_eq!(plan.runs.len(), 3 * (6 + 3 + 3 * 17 + 5 + 3 * 4));
    assert!(plan.runs.iter().all(|run| run.congestion == "cubic" && run.seed < 4));
    assert!(plan.runs.iter().all(|run| run.wanted_by.contains("[linux, 3 ms")), "the judged stack only");
    assert!(
        plan.left_out.len() == 1 && plan.left_out[0].starts_with("dsasync/sensitivity: "),
        "{:?}",
        plan.left_out
    );
}

#[test]
fn without_quick_every_stack_runs_but_those_that_no_kernel_has() {
    let plan =
        Plan::new(&AS_SIMULATED, &of("dsasync/fig7"), Options { seeds: Some(1), ..Options::FULL }).unwrap();
    let stacks: Vec<&str> = plan.figures[0].variants.iter().map(|variant| variant.stack.as_str()).collect();
    assert_eq!(stacks[..4], ["linux, 3 ms", "linux-2009, 3 ms", "linux, 50 ms", "linux, 100 ms"]);
    assert!(!stacks.iter().any(|stack| stack.contains("RTO floor")), "{stacks:?}");
    assert_eq!(plan.left_out.len(), 3, "{:?}", plan.left_out);
    for (left_out, stack) in plan.left_out.iter().zip(["NewReno, RTO floor 1 s, 3 ms", "Reno", "Reno"]) {
        let start = format!("dsasync/fig7, {stack}");
        assert!(left_out.starts_with(&start) && left_out.contains("floor of 200 ms"), "{left_out}");
    }
}

#[test]
fn the_same_runs_give_the_same_claims_and_rows_under_both_names() {
    let report = measured(&AS_SIMULATED, "dsasync/fig4", 2);
    let figure = &report.figures[0];
    assert_eq!((figure.seeds, figure.claims.len()), (2, 4));
    for claim in &figure.claims {
        let simulated = claim.simulated.as_ref().unwrap();
        assert!(claim.measured.is_some(), "{}", claim.text);
        assert_eq!(
            (claim.measured, claim.ci95, claim.holds),
            (simulated.measured, simulated.ci95, simulated.holds)
        );
    }
    let (ours, simulated): (Vec<_>, Vec<_>) =
        figure.rows.iter().partition(|row| row.case.contains(" (kernel) [linux, 3 ms]"));
    assert!(simulated.iter().all(|row| row.case.contains(" (simulator) [linux, 3 ms]")));
    assert!(!ours.is_empty() && ours.len() == simulated.len());
    assert!(
        ours.iter().zip(&simulated).all(|(one, other)| one.measured.to_bits() == other.measured.to_bits())
    );
    let kernel = report.kernel.unwrap();
    assert_eq!((kernel.runs, kernel.repeated, kernel.release.as_str()), (12, 2, "6.18.44"));
    assert!(kernel.missing.is_empty() && kernel.judged_on == "linux, 3 ms");
}

#[test]
fn what_a_kernel_recorded_is_judged_by_the_claims_own_criteria() {
    let replayed = Changed {
        answer: |run, (record, mut series)| {
            let recorded = RECORDED.iter().find(|(case, _)| *case == run.case.name);
            let (_, goodput) = recorded.ok_or_else(|| format!("not in {RECORDED_BY}"))?;
            series.router.goodput_bps = goodput.to_vec();
            Ok((record, series))
        },
        ..AS_SIMULATED
    };
    let report = measured(&replayed, "dsasync/fig7", 1);
    let claims = &report.figures[0].claims;
    let found: Vec<(f64, Option<bool>)> =
        claims.iter().map(|claim| (claim.measured.unwrap(), claim.holds)).collect();
    // By hand: 1 - 9.232448 / 16.603733 of the three seconds before, and 1 - 9.348288 / 9.427066.
    for ((measured, holds), (wanted, verdict)) in
        found.iter().zip([(44.395, Some(false)), (0.0, Some(false)), (0.836, Some(true)), (0.0, Some(false))])
    {
        assert!((measured - wanted).abs() < 0.001 && *holds == verdict, "{found:?}");
    }
    assert!(claims.iter().all(|claim| claim.simulated.is_some()));
    assert_ne!(claims[0].measured, claims[0].simulated.as_ref().unwrap().measured);
}

#[test]
fn a_claim_that_the_kernel_denies_keeps_the_simulators_verdict_beside_it() {
    let collapsing = Changed {
        answer: |run, (record, mut series)| {
            if run.case.name == "dsasync-paper" {
                series.router.goodput_bps.iter_mut().skip(5).take(2).for_each(|bps| *bps *= 0.5);
            }
            Ok((record, series))
        },
        ..AS_SIMULATED
    };
    let report = measured(&collapsing, "dsasync/fig7", 1);
    let claim =
        report.figures[0].claims.iter().find(|claim| claim.text.contains("no perceptible drop")).unwrap();
    assert_eq!((claim.holds, claim.simulated.as_ref().unwrap().holds), (Some(false), Some(true)));
    assert!(claim.measured.unwrap() > 45.0, "{claim:?}");
}

#[test]
fn a_repetition_that_lacks_a_run_does_not_count_and_the_run_is_named() {
    let failing = Changed {
        answer: |run, outcome| match (run.case.name.as_str(), run.seed) {
            ("dsasync", 2) => Err("this host was too slow".to_owned()),
            _ => Ok(outcome),
        },
        ..AS_SIMULATED
    };
    let report = measured(&failing, "dsasync/fig7", 3);
    let figure = &report.figures[0];
    assert_eq!(figure.seeds, 2);
    assert!(figure.claims.iter().all(|claim| claim.simulated.as_ref().unwrap().seeds == 3));
    let kernel = report.kernel.unwrap();
    assert_eq!(kernel.runs, 14);
    let named = "dsasync/fig7 [linux, 3 ms], downlink, case dsasync, seed 2: this host was too slow";
    assert_eq!(kernel.missing, [named]);
}

#[test]
fn without_a_whole_repetition_no_claim_is_denied() {
    let failing = Changed { answer: |_, _| Err("stopped".to_owned()), ..AS_SIMULATED };
    for figure in ["overhead", "fig3", "fig4", "fig5", "fig6", "fig7", "fig8"] {
        let report = measured(&failing, &format!("dsasync/{figure}"), 1);
        let figure = &report.figures[0];
        assert_eq!(figure.seeds, 0);
        assert!(figure.rows.iter().all(|row| row.case.contains("(simulator)")));
        for claim in &figure.claims {
            assert_eq!((claim.measured, claim.holds), (None, None), "{}", claim.text);
            assert!(claim.criterion.starts_with("not measured"), "{}", claim.criterion);
        }
    }
}

#[test]
fn what_the_testbed_refuses_is_left_out_of_both_columns_by_name() {
    let small = Changed {
        refuses: |case| (case.scenario.radio.stations > 1).then(|| "it has room for one station".to_owned()),
        ..AS_SIMULATED
    };
    let report = measured(&small, "dsasync/fig8", 1);
    let figure = &report.figures[0];
    assert!(!figure.rows.is_empty());
    assert!(figure.rows.iter().all(|row| row.case.ends_with("[linux, 3 ms, one client]")));
    // What was not measured is not denied.
    assert!(figure.claims.iter().all(|claim| claim.holds.is_none() && claim.measured.is_none()));
    assert!(figure.claims.iter().all(|claim| claim.simulated.as_ref().unwrap().holds.is_none()));
    let left_out = report.kernel.unwrap().left_out;
    assert_eq!(left_out.len(), 2, "one line a stack, not one a direction: {left_out:?}");
    assert!(left_out[0].starts_with("dsasync/fig8, linux, 3 ms: it has room"), "{left_out:?}");
}

#[test]
fn a_selection_that_no_kernel_can_run_is_refused_with_what_can() {
    for (selector, why) in [("cr-aware", ""), ("dsasync/sensitivity", "it is no figure of the paper")] {
        let told = check_selection(&of(selector)).unwrap_err().to_string();
        assert!(told.contains("dsasync/overhead, dsasync/fig3") && told.contains(why), "{told}");
        assert!(!told.contains("these can: crahn") && told.contains(selector), "{told}");
    }
    assert!(check_selection(&Selection::default()).is_ok());
    let figures = ["fig4".to_owned(), "fig99".to_owned()];
    let told = check_selection(&Selection { selector: Some("dsasync"), figures: &figures }).unwrap_err();
    assert!(told.to_string().starts_with("no figure called `fig99`; there are: dsasync/overhead"), "{told}");
    let chosen = chosen(&Selection { selector: Some("dsasync"), figures: &figures[..1] }).unwrap();
    assert_eq!(chosen.iter().map(|(_, figure)| figure.id).collect::<Vec<_>>(), ["fig4"]);
}
