//! `linkhold agent`: the daemon, and the subcommands that help to set it up.

use std::path::Path;

use linkhold_linux::agent::record::{ReplayError, replay as replay_file};
use linkhold_linux::agent::{AgentConfig, Recording, init_logging, protocol, run_agent};

use crate::Failure;
use crate::cli::{AgentArgs, AgentCommand};
use crate::output::print;
use crate::program::program;

/// The packaged configuration file, with comments.
const EXAMPLE: &str = include_str!("../../../../packaging/agent.toml");

/// Runs `linkhold agent` or one of its subcommands.
pub fn run(args: &AgentArgs) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(AgentCommand::Schema), _) => print(&super::to_json(&protocol::schema())?),
        (Some(AgentCommand::Example), _) => print(EXAMPLE),
        (Some(AgentCommand::Check { config }), _) => check(config),
        (Some(AgentCommand::Replay { recording }), _) => replay(recording),
        (None, Some(config)) => {
            init_logging().map_err(Failure::BadInput)?;
            let recording =
                args.record.as_ref().map(|file| Recording { file: file.clone(), limit: args.record_limit });
            run_agent(config, recording.as_ref(), &program()).map_err(|error| super::agent_failure(&error))
        }
        (None, None) => {
            Err(Failure::BadInput("name a configuration: linkhold agent --config FILE".to_owned()))
        }
    }
}

fn check(path: &Path) -> Result<(), Failure> {
    let config = AgentConfig::load(path).map_err(|error| Failure::BadInput(error.to_string()))?;
    print(&format!(
        "{}: OK (agent {}: wired {}, radio {})\n",
        super::shown(path),
        config.instance,
        config.wired.join(", "),
        config.radio.join(", ")
    ))
}

fn replay(path: &Path) -> Result<(), Failure> {
    let replayed = replay_file(path).map_err(|error| match error {
        ReplayError::Diverged { .. } => Failure::Failed(error.to_string()),
        ReplayError::Unreadable { .. } => Failure::BadInput(error.to_string()),
    })?;
    print(&format!("{replayed}\n"))
}
