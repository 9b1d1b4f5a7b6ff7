//! `linkhold completions` and `linkhold man`: both are made from the argument types.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::output::{OutputFolder, print};
use crate::{Failure, interrupt};

/// Prints a completion script.
pub fn completions(shell: Shell) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linkhold", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if shell == Shell::Fish {
        script.push_str(&fish_values());
    }
    print(&script)
}

/// What clap's script for fish leaves out: the values of arguments that are told by their place.
fn fish_values() -> String {
    let mut lines = String::new();
    for command in Cli::command().get_subcommands() {
        for argument in command.get_positionals() {
            let values: Vec<String> =
                argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
            if !values.is_empty() {
                lines.push_str(&format!(
                    "complete -c linkhold -n \"__fish_linkhold_using_subcommand {}\" -f -a \"{}\"\n",
                    command.get_name(),
                    values.join(" "),
                ));
            }
        }
    }
    lines
}

/// The command without its `help` subcommands: there is no page on them, so that no page may refer to one.
fn command() -> clap::Command {
    fn without_help(command: clap::Command) -> clap::Command {
        command.disable_help_subcommand(true).mut_subcommands(without_help)
    }
    without_help(Cli::command())
}

/// Prints the manual page, or writes one page per command.
pub fn man(out: Option<&Path>) -> Result<(), Failure> {
    let Some(out) = out else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command())
            .render(&mut page)
            .map_err(|error| Failure::Failed(format!("cannot make the manual page: {error}")))?;
        return print(&String::from_utf8_lossy(&page));
    };
    interrupt::watch()?;
    let folder = OutputFolder::prepare(out)?;
    clap_mangen::generate_to(command(), folder.path())
        .map_err(|error| Failure::Failed(format!("{}: {error}", out.display())))?;
    folder.finish().map(drop)
}
