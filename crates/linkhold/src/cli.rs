//! The command line: what can be asked for. The help text is the manual.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;

const EXIT_CODES: &str = "\
Exit codes:
  0  it worked
  1  a run failed, or its results could not be written
  2  bad input: the command line, the scenario or a trace; nothing was written";

/// Keeps TCP fast across radio links that fall silent.
#[derive(Debug, Parser)]
#[command(
    name = "linkhold",
    version,
    max_term_width = 100,
    long_about = "Keeps TCP fast across radio links that fall silent.\n\n\
        Radios go quiet on purpose: to sense for a licensed user, to leave a radar's channel, to scan, to hand over. \
        TCP reads the silence as congestion and pays for it long after the link is back. linkhold measures what that \
        costs and what a mechanism at the base station wins back.",
    after_help = EXIT_CODES,
    after_long_help = "Examples:\n  \
        linkhold run scenarios/demo.toml                       compare the scenario's cases, write a report\n  \
        linkhold run scenarios/demo.toml --seeds 10 --json     ten repetitions, as JSON\n  \
        linkhold reproduce dsasync --quick                     the paper's figures, a first look\n  \
        linkhold scenario check my.toml                        what is wrong with my scenario?\n\n\
        Units:\n  \
        Quantities carry their unit: 25ms, 20s (ns us ms s min h); 24Mbit/s (bit/s kbit/s Mbit/s Gbit/s);\n  \
        256KiB, 500MB (B kB MB GB KiB MiB GiB); 100pkt. Shares are numbers from 0 to 1.\n\n\
        Exit codes:\n  \
        0  it worked\n  \
        1  a run failed, or its results could not be written\n  \
        2  bad input: the command line, the scenario or a trace; nothing was written"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a scenario in the simulator and compare its cases.
    Run(RunArgs),
    /// Measure the figures of a paper again and say which of its claims hold.
    Reproduce(ReproduceArgs),
    /// Check a scenario file, or print the format's JSON Schema.
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    /// Print a completion script for a shell.
    ///
    /// For bash: linkhold completions bash > ~/.local/share/bash-completion/completions/linkhold
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write one page per command into a folder.
    ///
    /// To read it: linkhold man | man -l -
    Man {
        /// Folder for one page per command.
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        out: Option<PathBuf>,
    },
}

/// `linkhold run`.
#[derive(Debug, Args)]
#[command(
    long_about = "Run a scenario in the simulator and compare its cases.\n\n\
        Every case sees the same random radio and the same arrivals (common random numbers), so that differences are \
        paired. On a terminal it prints a table and writes into --out: report.html (self-contained), run.json (the \
        same object as --json), flows.parquet, series.parquet, silences.parquet and scenario.toml. Files appear whole \
        or not at all.\n\n\
        One scenario and one seed give the same results, byte for byte but for wall_s, whatever the number of threads.",
    after_long_help = "Examples:\n  \
        linkhold run scenarios/demo.toml\n  \
        linkhold run scenarios/demo.toml --seeds 10 --set wired.rtt=50ms\n  \
        linkhold run scenarios/demo.toml --set flows.0.direction=uplink --set tcp.congestion=reno\n  \
        linkhold run scenarios/demo.toml --json | jq '.compare[] | select(.metric==\"goodput\")'\n  \
        LINKHOLD_DATA=~/traces linkhold run scenarios/trace-lte.toml --pcap\n\n\
        Exit codes:\n  \
        0  it worked\n  \
        1  a run failed, or its results could not be written\n  \
        2  bad input: the command line, the scenario or a trace; nothing was written"
)]
pub struct RunArgs {
    /// The scenario file (TOML); `linkhold scenario schema` documents it.
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,
    /// Change a key of the file, as in router.limit=1000pkt or flows.0.count=4.
    ///
    /// A dotted path; an element of a list is named by its index from 0, by its name, or by * for all. A text needs
    /// no quotes. A case's own `set` lies on top. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Repetitions, each with its own seed; two or more give 95 % confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub seeds: u32,
    /// Threads [default: one per core]. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Print one JSON object (linkhold.run/1) and nothing else; writes files only with --out or --pcap.
    #[arg(long)]
    pub json: bool,
    /// Folder for report and data [default: out/NAME].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Also write every run's packets as pcapng, for Wireshark.
    #[arg(long)]
    pub pcap: bool,
}

/// `linkhold reproduce`.
#[derive(Debug, Args)]
#[command(
    long_about = "Measure the figures of a paper again and say which of its claims hold.\n\n\
        Each figure is a scenario of reproductions/, run with the paper's stack and, beside it, with today's at 3, 50 \
        and 100 ms round trip. Whether a claim holds is computed from the measurement; one that does not is reported \
        as such.",
    after_long_help = "Examples:\n  \
        linkhold reproduce                      everything\n  \
        linkhold reproduce dsasync/fig4 --quick one figure, three seeds, the paper's stack only\n  \
        linkhold reproduce dsasync --json       as JSON (linkhold.reproduce/1)\n\n\
        Exit codes:\n  \
        0  it was measured, whether the claims hold or not\n  \
        1  a run failed, or its results could not be written\n  \
        2  bad input; nothing was written"
)]
pub struct ReproduceArgs {
    /// A paper (dsasync) or one of its figures (dsasync/fig4) [default: everything].
    #[arg(value_name = "PAPER[/FIGURE]")]
    pub selector: Option<String>,
    /// Three seeds and the paper's stack only.
    #[arg(long)]
    pub quick: bool,
    /// Repetitions [default: 10, with --quick 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub seeds: Option<u32>,
    /// Threads [default: one per core]. Results do not depend on it.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Print one JSON object (linkhold.reproduce/1) and nothing else; writes files only with --out.
    #[arg(long)]
    pub json: bool,
    /// Folder for report and data [default: out/reproduce].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// `linkhold scenario`.
#[derive(Debug, Subcommand)]
pub enum ScenarioCommand {
    /// Print the JSON Schema of the scenario file: every key with its unit, default and meaning.
    Schema,
    /// Check a scenario file and say what it comes to.
    ///
    /// Every problem is told with file, line, column and key; with one or more the exit code is 2.
    Check {
        /// The scenario file (TOML).
        #[arg(value_hint = ValueHint::FilePath)]
        scenario: PathBuf,
        /// Change a key of the file first, as in router.limit=1000pkt.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
}
