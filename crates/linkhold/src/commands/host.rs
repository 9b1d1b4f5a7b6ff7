//! `linkhold host`: the daemon on a host, and the subcommands that help to set it up.

use std::path::Path;

use linkhold_linux::agent::{AgentConfig, Recording, init_logging};
use linkhold_linux::host::run_host;

use crate::Failure;
use crate::cli::{HostArgs, HostCommand};
use crate::output::print;
use crate::program::program;

/// The packaged configuration file, with comments.
const EXAMPLE: &str = include_str!("../../../../packaging/host.toml");

/// Runs `linkhold host` or one of its subcommands.
pub fn run(args: &HostArgs) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(HostCommand::Example), _) => print(EXAMPLE),
        (Some(HostCommand::Check { config }), _) => check(config),
        (None, Some(config)) => {
            init_logging().map_err(Failure::BadInput)?;
            let recording =
                args.record.as_ref().map(|file| Recording { file: file.clone(), limit: args.record_limit });
            run_host(config, recording.as_ref(), &program()).map_err(|error| super::agent_failure(&error))
        }
        (None, None) => {
            Err(Failure::BadInput("name a configuration: linkhold host --config FILE".to_owned()))
        }
    }
}

fn check(path: &Path) -> Result<(), Failure> {
    let config = AgentConfig::load_host(path).map_err(|error| Failure::BadInput(error.to_string()))?;
    for remark in config.remarks() {
        tell!("{remark}");
    }
    print(&format!(
        "{}: OK (host {}: radio {})\n",
        super::shown(path),
        config.instance,
        config.radio.join(", ")
    ))
}
