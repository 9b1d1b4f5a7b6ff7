//! The `linkhold` command.

/// Tells something on standard error, as `eprintln!` does, where that can be written: whoever does not hear
/// it still gets the results, and the exit status.
macro_rules! tell {
    ($($words:tt)*) => { $crate::output::tell(format_args!($($words)*)) };
}

mod cli;
mod commands;
mod failure;
mod interrupt;
mod numbers;
mod output;
mod program;
mod progress;

use std::process::ExitCode;

use clap::Parser;

use cli::{Cli, Command};
pub use failure::Failure;

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
            tell!("{failure}");
            failure.exit_code()
        }
    }
}
