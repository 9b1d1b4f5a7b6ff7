//! What a report says of the scenario behind it: the same for the command, the testbed and Python.

use linkhold_results::ScenarioInfo;
use linkhold_scenario::Scenario;

/// `scenario` in short, as read from `file` (empty if it was no file) with `overrides` laid over it.
#[must_use]
pub fn scenario_info(scenario: &Scenario, file: &str, overrides: &[String]) -> ScenarioInfo {
    let cases = scenario.cases();
    let first = cases.first().map(|case| &case.scenario);
    ScenarioInfo {
        name: scenario.name().to_owned(),
        description: scenario.description().to_owned(),
        file: file.to_owned(),
        duration_s: first.map_or(0.0, |scenario| scenario.duration.as_secs_f64()),
        warm_up_s: first.map_or(0.0, |scenario| scenario.warm_up.as_secs_f64()),
        overrides: overrides.to_vec(),
        facts: scenario.facts().into_iter().map(|(label, value)| format!("{label}: {value}")).collect(),
    }
}
