//! `linkhold completions` and `linkhold man`: both are made from the argument types.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::Failure;
use crate::cli::Cli;
use crate::output::{OutputFolder, print};

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linkhold", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// Prints the manual page, or writes one page per command.
pub fn man(out: Option<&Path>) -> Result<(), Failure> {
    let Some(out) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Cli::command())
            .render(&mut page)
            .map_err(|error| Failure::Failed(format!("cannot make the manual page: {error}")))?;
        return print(&String::from_utf8_lossy(&page));
    };
    let folder = OutputFolder::prepare(out)?;
    clap_mangen::generate_to(Cli::command(), folder.path())
        .map_err(|error| Failure::Failed(format!("{}: {error}", out.display())))?;
    folder.finish().map(drop)
}
