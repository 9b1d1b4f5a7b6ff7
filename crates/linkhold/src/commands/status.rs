//! `linkhold status`: prints the running agent's state.

use crate::Failure;
use crate::cli::StatusArgs;
use crate::output::print;

/// Runs `linkhold status`.
pub fn run(args: &StatusArgs) -> Result<(), Failure> {
    let status = linkhold_linux::agent::status(&args.socket).map_err(super::signal::failure)?;
    if args.json { print(&super::to_json(&status)?) } else { print(&format!("{status}\n")) }
}
