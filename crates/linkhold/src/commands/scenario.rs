//! `linkhold scenario`: prints the file format's JSON Schema, or checks a file.

use linkhold_scenario::json_schema;

use crate::Failure;
use crate::cli::ScenarioCommand;
use crate::output::print;

/// Runs a subcommand of `linkhold scenario`.
pub fn run(command: &ScenarioCommand) -> Result<(), Failure> {
    match command {
        ScenarioCommand::Schema => print(&super::to_json(&json_schema())?),
        ScenarioCommand::Check { scenario, set } => {
            let checked = super::load(scenario, set)?;
            print(&format!("{}: OK ({})\n{}", super::shown(scenario), checked.name(), checked.summary()))
        }
    }
}
