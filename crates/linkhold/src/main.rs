//! The `linkhold` command.

mod cli;
mod commands;
mod interrupt;
mod output;
mod program;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};

/// Why a command failed. The variant decides the exit code, which is all that a caller can act on, so this is
/// one enum and not a chain of boxed errors.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user can correct the input: exit code 2. Each line of the text starts with what it is about.
    #[error("{0}")]
    BadInput(String),
    /// A run failed or its results could not be written: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    fn exit_code(&self) -> ExitCode {
        match self {
            Self::BadInput(_) => ExitCode::from(2),
            Self::Failed(_) => ExitCode::from(1),
        }
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Run(args) => commands::run::run(&args),
        Command::Reproduce(args) => commands::reproduce::run(&args),
        Command::Testbed(args) => commands::testbed::run(&args),
        Command::Scenario(command) => commands::scenario::run(&command),
        Command::Agent(args) => commands::agent::run(&args),
        Command::Host(args) => commands::host::run(&args),
        Command::Signal(args) => commands::signal::run(&args),
        Command::Sense(args) => commands::sense::run(&args),
        Command::PuLog(command) => commands::pu_log::run(&command),
        Command::Status(args) => commands::status::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Estimate => commands::estimate::run(),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man { out } => commands::manual::man(out.as_deref()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            failure.exit_code()
        }
    }
}
