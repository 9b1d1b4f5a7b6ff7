//! The command line as types. Their help texts are the manual.

use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use clap_complete::Shell;
use linkhold_core::quantity::{BYTES, bit_rate, bytes, decibels, duration};
use linkhold_core::text::shorten;
use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_linux::agent::DEFAULT_SOCKET;
use linkhold_linux::agent::protocol::{Cause, MAX_DECIBELS};

use crate::numbers::whole;

const EXIT_CODES: &str = "\
Exit codes:
  0  it worked
  1  a run failed, or its results could not be written
  2  bad input: the command line, the scenario or a trace; nothing was written
  128 + a signal's number  stopped by it, as by Ctrl-C (130)";

/// Keeps TCP fast across radio links that fall silent.
#[derive(Debug, Parser)]
#[command(
    name = "linkhold",
    version = crate::program::VERSION,
    max_term_width = 100,
    long_about = "Keeps TCP fast across radio links that fall silent.\n\n\
        Radios go quiet on purpose: to sense for a licensed user, to leave a radar's channel, to scan, to hand over. \
        TCP reads the silence as congestion and pays for it long after the link is back. linkhold measures what that \
        costs, and has the mechanisms that win it back: on a base station, on a host, or in a simulator.",
    after_help = EXIT_CODES,
    after_long_help = "Examples:\n  \
        linkhold run scenarios/demo.toml                       compare the scenario's cases, write a report\n  \
        linkhold run scenarios/demo.toml --seeds 10 --json     ten repetitions, as JSON\n  \
        linkhold reproduce dsasync --quick                     the paper's figures, a first look\n  \
        linkhold scenario check my.toml                        what is wrong with my scenario?\n  \
        linkhold doctor                                        what can this machine run?\n  \
        linkhold agent --config agent.toml                     keep TCP fast on this router\n  \
        linkhold signal freeze --for 500ms                     tell the agent that the radio is silent\n\n\
        Units:\n  \
        Quantities carry their unit: 25ms, 20s (ns us ms s min h); 24Mbit/s (bit/s kbit/s Mbit/s Gbit/s);\n  \
        256KiB, 500MB (B kB MB GB KiB MiB GiB); 100pkt. Shares are numbers from 0 to 1.\n\n\
        Exit codes:\n  \
        0  it worked\n  \
        1  a run failed, or its results could not be written\n  \
        2  bad input: the command line, the scenario or a trace; nothing was written\n  \
        128 + a signal's number  stopped by it, as by Ctrl-C (130)"
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do. A doc comment on a variant would replace the long description of its arguments' type.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[command(about = "Run a scenario in the simulator and compare its cases")]
    Run(RunArgs),
    #[command(about = "Measure the figures of a paper again and say which of its claims hold")]
    Reproduce(ReproduceArgs),
    #[command(about = "Run a scenario in real time against this machine's kernel (needs root)")]
    Testbed(crate::commands::testbed::TestbedArgs),
    /// Check a scenario file, or print the format's JSON Schema.
    #[command(subcommand)]
    Scenario(ScenarioCommand),
    #[command(about = "Run the agent on this router: it keeps TCP fast across the radio's silences")]
    Agent(AgentArgs),
    #[command(about = "Keep this machine's own senders fast across its radio's silences")]
    Host(HostArgs),
    #[command(about = "Tell the running agent what happens on the radio")]
    Signal(SignalArgs),
    #[command(about = "Detect a primary user in a radio's samples, and tell the agent")]
    Sense(crate::commands::sense::SenseArgs),
    /// Make a log of primary users' activity, or check one.
    #[command(subcommand)]
    PuLog(crate::commands::pu_log::PuLogCommand),
    #[command(about = "Show what the running agent sees and does")]
    Status(StatusArgs),
    #[command(about = "Say what this machine can run, what is missing and how to get it")]
    Doctor(DoctorArgs),
    /// Mean and 95 % interval of numbers, computed as in every report.
    ///
    /// Reads lines of numbers with spaces between, and answers each with one JSON object: n, mean, std (null
    /// below two numbers) and ci95 (Student's t; null below two numbers). For scripts that make tables of
    /// their own.
    Estimate,
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
        same object as --json), flows.parquet, series.parquet, silences.parquet and scenario.toml (what was run, --set included). \
        Each file is written whole or not at all.\n\n\
        One scenario and one seed give the same results, byte for byte but for wall_s, whatever the number of threads.",
    after_long_help = "Examples:\n  \
        linkhold run scenarios/demo.toml\n  \
        linkhold run scenarios/demo.toml --seeds 10 --set wired.rtt=50ms\n  \
        linkhold run scenarios/demo.toml --set flows.0.direction=uplink --set tcp.congestion=reno\n  \
        linkhold run scenarios/demo.toml --json | jq '.compare[] | select(.metric==\"goodput_bps\")'\n  \
        linkhold run scenarios/demo.toml --baseline drop       compare with another case than the first\n  \
        sed s/24Mbit/54Mbit/ scenarios/demo.toml | linkhold run - --out out/fast\n  \
        LINKHOLD_DATA=~/traces linkhold run scenarios/trace-lte.toml --pcap\n\n\
        Exit codes:\n  \
        0  it worked\n  \
        1  a run failed, or its results could not be written\n  \
        2  bad input: the command line, the scenario or a trace; nothing was written\n  \
        130  stopped by Ctrl-C (SIGTERM: 143, SIGHUP: 129); nothing was written, or all just before"
)]
pub struct RunArgs {
    /// The scenario file (TOML), or - for standard input; `linkhold scenario schema` documents it.
    #[arg(value_hint = ValueHint::FilePath)]
    pub scenario: PathBuf,
    /// Change a key of the file, as in router.limit=1000pkt or flows.0.count=4.
    ///
    /// A dotted path; an element of a list is named by its index from 0, by its name, or by * for all. A text
    /// needs no quotes. A case's own `set` lies on top. May be given several times.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Repetitions, each with its own seed; two or more give 95 % confidence intervals.
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole::<u32>(1..=10_000))]
    pub seeds: u32,
    #[arg(long, hide = true, allow_hyphen_values = true, value_parser = one_seed)]
    pub seed: Option<u64>,
    /// The case that the others are compared with [default: the scenario's first].
    #[arg(long, value_name = "CASE")]
    pub baseline: Option<String>,
    /// Threads [default: one per core]; their number does not change the results.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u16>(1..=1024))]
    pub threads: Option<u16>,
    /// Print one JSON object (linkhold.run/1) and nothing else; writes files only with --out or --pcap.
    #[arg(long)]
    pub json: bool,
    /// Folder for report and data [default: out/NAME].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
    /// Also write every run's packets as pcapng, for Wireshark.
    ///
    /// One file for each case and seed. A packet is recorded where it is sent and where it arrives
    /// (interfaces correspondent, or in a mesh receiver, and station). Radios of 802.15.4, of a DCF and of
    /// a mesh have, in place of the station, an interface air with each frame that was sent: of 802.11 with
    /// radiotap headers, RTS, CTS, ACK, repetitions and AODV's messages; of 802.15.4 with those of the
    /// primary user. A frame that its receiver could not read says so in a comment. Long payloads are cut
    /// short.
    #[arg(long)]
    pub pcap: bool,
}

/// For `--seed`, which does not exist: many programs call it so.
pub fn one_seed(text: &str) -> Result<u64, String> {
    Err(format!("one seed is set by `--set seed={text}`; `--seeds N` runs N seeds from that one on"))
}

/// As of a scenario's `seed`: with the repetitions after it still a number that readers of JSON take exactly.
const MAX_FIRST_SEED: u64 = (1 << 53) - 10_000;

/// `linkhold reproduce`.
#[derive(Debug, Args)]
#[command(
    long_about = "Measure the figures of a paper again and say which of its claims hold.\n\n\
        Each figure is a scenario of reproductions/, run with the paper's stack. The figures of dsasync (at 3, 50 and 100 ms \
        round trip), cr-aware and activation, and lookahead's fig5, run with today's as well. Whether a claim holds is computed from the measurement; one that does not is reported \
        as such, and one whose 95 % interval reaches across its criterion is undecided: more seeds would tell.\n\n\
        With --stack linux the figures of dsasync run on the testbed, in real time against this machine's own TCP, and \
        each claim shows the kernel's number and the simulator's for the same stack: \"linux, 3 ms\", because no kernel of \
        today is the paper's. All runs of all figures go side by side, as many as the machine keeps up with; a run that \
        was late is made again. What the testbed cannot run is left out by name, with the reason. It needs what \
        `linkhold testbed` needs (root, iperf3, /dev/net/tun), and time: with --quick there are 231 runs of 20 s; \
        without it, the runs take hours.",
    after_long_help = "Examples:\n  \
        linkhold reproduce                      everything\n  \
        linkhold reproduce dsasync/fig4 --quick one figure, three seeds, the paper's stack only\n  \
        linkhold reproduce dsasync --json       as JSON (linkhold.reproduce/1)\n  \
        linkhold reproduce dsasync --figure fig4,fig7\n  \
        linkhold reproduce activation --first-seed 401              on seeds that its page does not show\n  \
        linkhold reproduce dsasync --stack linux --quick            against this kernel, as root\n  \
        linkhold reproduce dsasync/fig4 --stack linux --quick --seeds 10 --resume\n\n\
        Exit codes:\n  \
        0  it was measured, whether the claims hold or not\n  \
        1  a run failed, or its results could not be written; against a kernel, finished runs are reported all the \
           same, and kept for --resume\n  \
        2  bad input; nothing was written\n  \
        130  stopped by Ctrl-C (SIGTERM: 143, SIGHUP: 129); nothing was written, or all just before;\n       \
             against a kernel only by a second one: the first ends the runs in order (1)"
)]
pub struct ReproduceArgs {
    /// A paper (dsasync, cr-aware, crahn, activation, lookahead) or one of its figures (dsasync/fig4)
    /// [default: everything].
    #[arg(value_name = "PAPER[/FIGURE]", value_parser = Listed(figures), hide_possible_values = true)]
    pub selector: Option<String>,
    /// Only these figures of what was selected, as in fig4,fig7.
    #[arg(long = "figure", value_name = "NAMES", value_delimiter = ',', value_parser = Listed(figure_names), hide_possible_values = true)]
    pub figures: Vec<String>,
    /// Whose TCP the figures run against.
    #[arg(long, value_enum, default_value_t = ReproduceStack::Simulator)]
    pub stack: ReproduceStack,
    /// A first look: three seeds, and the paper's stack alone or fewer points (activation's harm and signal
    /// keep both stacks); with --stack linux the kernel's at 3 ms.
    #[arg(long)]
    pub quick: bool,
    /// Repetitions [default: 10, of cr-aware and activation 100; with --quick 3].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u32>(1..=1000))]
    pub seeds: Option<u32>,
    /// Seed of the first repetition, a whole number; each further one takes the next. The pages of
    /// reproductions/ were measured from seed 1 on; other seeds show whether their claims hold there, too.
    #[arg(long, value_name = "N", default_value_t = linkhold_reproduce::FIRST_SEED, allow_negative_numbers = true, value_parser = whole::<u64>(0..=MAX_FIRST_SEED))]
    pub first_seed: u64,
    /// Threads of the simulator [default: one per core]; their number does not change the results.
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u16>(1..=1024))]
    pub threads: Option<u16>,
    /// With --stack linux: runs side by side [default: as many as this machine keeps up with].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<u16>(1..=1024))]
    pub jobs: Option<u16>,
    /// With --stack linux: do not run again what a command with the same --out has finished before.
    #[arg(long)]
    pub resume: bool,
    /// With --stack linux and --resume: run nothing on the kernel, and report what is finished.
    #[arg(long)]
    pub known: bool,
    /// Print one JSON object (linkhold.reproduce/1) and nothing else; writes files only with --out or
    /// --resume.
    #[arg(long)]
    pub json: bool,
    /// Folder for report and data [default: out/reproduce, or out/reproduce-linux].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub out: Option<PathBuf>,
}

/// Whose TCP a paper's figures run against.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReproduceStack {
    /// The simulator's models of TCP, in virtual time.
    Simulator,
    /// This machine's kernel, in real time, with the simulator beside it; needs root.
    Linux,
}

/// Help on the mechanisms that a scenario's case can name, from the registry of mechanisms.
fn mechanisms() -> String {
    let mut text = "Mechanisms:\n  none: the plain router.\n".to_owned();
    for entry in linkhold_core::registry::entries() {
        let presets: Vec<&str> = entry.presets.iter().map(|(name, _)| *name).collect();
        let places: Vec<&str> = entry.places.iter().map(|place| place.name()).collect();
        let keys: Vec<&str> = entry.keys.iter().map(|key| key.name).collect();
        text.push_str(&format!(
            "  {}: {}\n    Presets: {}.\n    Places: {}.\n    Settings: {}.\n",
            entry.name,
            entry.summary,
            presets.join(", "),
            places.join(", "),
            keys.join(", ")
        ));
    }
    text.push_str("  `linkhold scenario schema` says what each setting does.");
    text
}

/// `linkhold scenario`.
#[derive(Debug, Subcommand)]
#[command(after_long_help = mechanisms())]
pub enum ScenarioCommand {
    /// Print the JSON Schema of the scenario file: every key with its unit, default and meaning.
    Schema,
    /// Check a scenario file and say what it comes to.
    ///
    /// Every problem is told with file, line, column and key; with one or more the exit code is 2.
    Check {
        /// The scenario file (TOML), or - for standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        scenario: PathBuf,
        /// Change a key of the file first, as in router.limit=1000pkt.
        #[arg(long = "set", value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
}

/// `linkhold agent`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    long_about = "Run the agent on this router: it keeps TCP fast across the radio's silences.\n\n\
        The agent puts itself into the forwarding path between the wired and the radio interfaces (NFQUEUE, by \
        nftables or iptables, whichever works) and waits to be told of silences: by Wi-Fi interfaces (nl80211), by \
        `linkhold signal`, by a program on its socket, or by a schedule in its configuration. In a silence it holds packets back in order, and closes \
        senders' windows if its space runs low; afterwards it reopens them. It runs in the foreground until SIGTERM \
        or Ctrl-C, and lets everything go before it ends; if it is killed, traffic passes unmanaged.\n\n\
        Needs CAP_NET_ADMIN and CAP_NET_RAW (root has them); `linkhold doctor agent` says whether it can run here.",
    after_long_help = "Examples:\n  \
        linkhold agent example > agent.toml        a commented configuration to start from\n  \
        linkhold agent check agent.toml            what is wrong with it?\n  \
        linkhold agent --config agent.toml         run\n  \
        linkhold agent --config agent.toml --record agent.log\n  \
        linkhold agent replay agent.log            does this version answer as the recorded one did?\n  \
        linkhold agent schema                      what its socket understands (JSON Schema)\n\n\
        Environment:\n  \
        LINKHOLD_LOG  what is logged: error, warn, info (default), debug; or by module, as in linkhold_linux=debug\n\n\
        Exit codes:\n  \
        0  it was told to end, and has let everything go\n  \
        1  it could not start, or broke\n  \
        2  bad input: the command line or the configuration"
)]
pub struct AgentArgs {
    /// Something else than to run.
    #[command(subcommand)]
    pub command: Option<AgentCommand>,
    /// The configuration file (TOML), or - for standard input.
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Record everything that the mechanism is told and answers: headers, events and times, no payload. With
    /// several radios there is one file for each, with the radio's name before the suffix. Overwrites an
    /// older recording, but no other file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// The recording ends at this size, and the agent goes on (about 80 bytes a packet).
    #[arg(long, value_name = "SIZE", default_value = "256MB", allow_hyphen_values = true, value_parser = record_limit,
          requires = "record")]
    pub record_limit: Bytes,
}

/// Smallest `--record-limit`: the head of a recording has the mechanism's settings, a few kilobytes.
const MIN_RECORD_LIMIT: Bytes = Bytes(64_000);

fn record_limit(text: &str) -> Result<Bytes, String> {
    let limit = bytes(text).map_err(|error| error.to_string())?;
    if limit < MIN_RECORD_LIMIT {
        let least = BYTES.write(MIN_RECORD_LIMIT.0);
        return Err(format!(
            "\"{text}\" has no room for more than a recording's head; write at least {least}"
        ));
    }
    Ok(limit)
}

/// `linkhold agent ...`.
#[derive(Debug, Subcommand)]
pub enum AgentCommand {
    /// Print the JSON Schema of the control socket: one object a line, one object back for each.
    Schema,
    /// Print a commented configuration to start from.
    Example,
    /// Replay a recording: does this version answer everything as it was answered then?
    Replay {
        /// The recording (of `linkhold agent --record`).
        #[arg(value_hint = ValueHint::FilePath)]
        recording: PathBuf,
    },
    /// Check a configuration without running.
    Check {
        /// The configuration file (TOML), or - for standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        config: PathBuf,
    },
}

/// `linkhold host`.
#[derive(Debug, Args)]
#[command(
    subcommand_negates_reqs = true,
    args_conflicts_with_subcommands = true,
    long_about = "Keep this machine's own senders fast across its radio's silences.\n\n\
        What the agent does on a router for senders behind it, this does on a host for the senders of its own kernel. \
        In a silence it freezes them: by window updates, and, for sockets whose congestion control is linkhold_cubic or \
        linkhold_reno (eBPF), without any loss of the silence reducing their windows. At the silence's end it wakes them. \
        `linkhold signal` and `linkhold status` speak to it as they do to an agent. It runs in the foreground until SIGTERM or \
        Ctrl-C; if it is killed, senders go on as if it had never been there.\n\n\
        Needs CAP_NET_ADMIN and CAP_NET_RAW, and CAP_BPF and CAP_PERFMON for the congestion controls; CAP_SYS_ADMIN, too, \
        where another host of this machine has registered them, or was killed and left them (root has all of them).",
    after_long_help = "Examples:\n  \
        linkhold host example > host.toml          a commented configuration to start from\n  \
        linkhold host check host.toml              what is wrong with it?\n  \
        linkhold host --config host.toml           run\n  \
        sysctl -w net.ipv4.tcp_congestion_control=linkhold_cubic   let every new connection use it\n  \
        iperf3 -c 192.0.2.1 -C linkhold_cubic      let one connection use it\n\n\
        Environment:\n  \
        LINKHOLD_LOG  what is logged: error, warn, info (default), debug; or by module, as in linkhold_linux=debug\n\n\
        Exit codes:\n  \
        0  it was told to end, and has thawed everything\n  \
        1  it could not start, or broke\n  \
        2  bad input: the command line or the configuration"
)]
pub struct HostArgs {
    /// Something else than to run.
    #[command(subcommand)]
    pub command: Option<HostCommand>,
    /// The configuration file (TOML), or - for standard input.
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Record everything that the mechanism is told and answers: headers, events and times, no payload. With
    /// several radios there is one file for each, with the radio's name before the suffix. Overwrites an
    /// older recording, but no other file.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub record: Option<PathBuf>,
    /// The recording ends at this size, and the host goes on (about 80 bytes a packet).
    #[arg(long, value_name = "SIZE", default_value = "256MB", allow_hyphen_values = true, value_parser = record_limit,
          requires = "record")]
    pub record_limit: Bytes,
}

/// `linkhold host ...`.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Print a commented configuration to start from.
    Example,
    /// Check a configuration without running.
    Check {
        /// The configuration file (TOML), or - for standard input.
        #[arg(value_hint = ValueHint::FilePath)]
        config: PathBuf,
    },
}

/// `linkhold signal`.
#[derive(Debug, Args)]
#[command(
    long_about = "Tell the running agent what happens on the radio.\n\n\
        What a radio driver can tell the agent by itself (`linkhold agent schema`), this command tells from a shell: in a \
        driver's hooks, in cron, or by hand to try it out. The command returns as soon as the agent has taken note. If the agent has several \
        radios, the command prints which of them were told.",
    after_long_help = "Examples:\n  \
        linkhold signal freeze --for 500ms               silence of half a second; the agent ends it by itself\n  \
        linkhold signal freeze --cause channel-switch    silence of unknown length ...\n  \
        linkhold signal thaw --cause channel-switch      ... until this\n  \
        linkhold signal freeze --station 10.0.0.5        only this station is silent\n  \
        linkhold signal freeze --radio wlan1 --for 5s    one of several radios; without a name, every one\n  \
        linkhold signal switch 54Mbit/s --efficiency 0.6 the radio's new rate\n  \
        linkhold signal --in 80ms freeze --for 120ms     announced ahead of time\n\n\
        Exit codes:\n  \
        0  the agent has taken note\n  \
        1  no agent answers\n  \
        2  bad input: the command line, or the agent refuses and says why"
)]
pub struct SignalArgs {
    /// What happens.
    #[command(subcommand)]
    pub event: SignalEvent,
    /// The agent's control socket.
    #[arg(long, global = true, value_name = "PATH", default_value = DEFAULT_SOCKET, value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
    /// Name of whoever sends the event; the status counts events by this name.
    #[arg(long, global = true, value_name = "NAME", default_value = "signal")]
    pub source: String,
    /// The radio, by its interface. Without it: the agent's only radio; of several, the one that knows the
    /// station, or every radio if no station is named.
    #[arg(long, global = true, value_name = "INTERFACE")]
    pub radio: Option<String>,
    /// Time from now until a freeze or thaw takes effect, as in 80ms [default: now]. Not with --ago.
    #[arg(long = "in", global = true, value_name = "TIME", allow_hyphen_values = true, value_parser = duration)]
    pub effective_in: Option<Duration>,
    /// Time since the event was noticed, as in 5ms [default: now].
    #[arg(long, global = true, value_name = "TIME", allow_hyphen_values = true, value_parser = duration)]
    pub ago: Option<Duration>,
}

/// What happens on the radio.
#[derive(Debug, Subcommand)]
pub enum SignalEvent {
    /// The radio falls silent.
    Freeze {
        /// Length of the silence, at most the configuration's `silence.max`; the agent ends it by itself
        /// then. Without this option it lasts until a `thaw`, or until `silence.max`.
        #[arg(long = "for", value_name = "TIME", allow_hyphen_values = true, value_parser = duration)]
        lasting: Option<Duration>,
        /// Expected length of the silence, a hint only: the silence ends with a `thaw`, or at `silence.max`.
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration, conflicts_with = "lasting")]
        expected: Option<Duration>,
        /// Who, and why.
        #[command(flatten)]
        silence: SilenceArgs,
    },
    /// The silence is over: the one that was begun with the same --station and --cause.
    Thaw {
        /// Who, and why.
        #[command(flatten)]
        silence: SilenceArgs,
    },
    /// The radio's rate has changed, on this channel or another.
    Switch {
        /// Raw rate of the physical layer, as in 54Mbit/s.
        #[arg(allow_hyphen_values = true, value_parser = bit_rate)]
        capacity: BitRate,
        /// Share of it that is left for IP packets, above 0 up to 1.
        #[arg(long, value_name = "SHARE", default_value = "1", allow_negative_numbers = true, value_parser = parse_share)]
        efficiency: Fraction,
    },
    /// A station was heard at this signal-to-noise ratio.
    Snr {
        /// The station's address.
        #[arg(value_parser = address)]
        station: IpAddr,
        /// The ratio, as in 17.5dB or -3dB; a number alone is dB, too.
        #[arg(allow_hyphen_values = true, value_parser = parse_decibels)]
        db: f32,
    },
    /// Quiet periods are announced; a period of 0s withdraws them.
    Sensing {
        /// From one quiet period's start to the next.
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration)]
        period: Duration,
        /// How long each lasts, less than the period; not needed to withdraw them.
        #[arg(long, value_name = "TIME", allow_hyphen_values = true, value_parser = duration)]
        duration: Option<Duration>,
        /// Start of the next one, from now.
        #[arg(long, value_name = "TIME", default_value = "0s", allow_hyphen_values = true, value_parser = duration)]
        next_in: Duration,
        /// Only this station is quiet [default: all].
        #[arg(long, value_name = "ADDRESS", value_parser = address)]
        station: Option<IpAddr>,
    },
    /// A station got an uplink grant.
    Grant {
        /// The station's address.
        #[arg(value_parser = address)]
        station: IpAddr,
        /// How much it may send, as in 1500B.
        #[arg(allow_hyphen_values = true, value_parser = bytes)]
        bytes: Bytes,
        /// When its turn begins, from now.
        #[arg(long, value_name = "TIME", default_value = "0s", allow_hyphen_values = true, value_parser = duration)]
        turn_in: Duration,
    },
    /// Room in the radio's transmit queue: packets leave the agent only as far as they fit.
    Room {
        /// Packets that fit.
        #[arg(allow_negative_numbers = true, value_parser = whole::<u32>(0..=u64::from(u32::MAX)))]
        packets: u32,
        /// Bytes that fit, as in 150kB.
        #[arg(allow_hyphen_values = true, value_parser = bytes)]
        bytes: Bytes,
    },
}

/// Which silence.
#[derive(Debug, Args)]
pub struct SilenceArgs {
    /// Only this station is silent, named by one of its addresses [default: all].
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub station: Option<IpAddr>,
    /// Why: sensing, primary-user, channel-switch, fade or grant.
    #[arg(long, default_value = "primary-user", value_parser = Listed(causes).try_map(parse_cause),
          hide_possible_values = true)]
    pub cause: Cause,
}

/// A text that a list completes. Unlike with clap's own lists, another text is accepted here, so that the
/// command can say what is wrong with it in its own words.
#[derive(Clone)]
struct Listed(fn() -> Vec<&'static str>);

impl TypedValueParser for Listed {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new((self.0)().into_iter().map(PossibleValue::new)))
    }
}

fn causes() -> Vec<&'static str> {
    linkhold_core::link_event::Cause::ALL.map(|cause| Cause(cause).name()).to_vec()
}

/// Every figure by its name alone, as after a paper's; several papers have some of them.
fn figure_names() -> Vec<&'static str> {
    let mut names: Vec<_> = figures().into_iter().filter_map(|id| Some(id.split_once('/')?.1)).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Every paper, then every figure.
fn figures() -> Vec<&'static str> {
    static IDS: LazyLock<Vec<String>> = LazyLock::new(linkhold_reproduce::figure_ids);
    let mut names: Vec<&str> = Vec::new();
    for paper in IDS.iter().filter_map(|figure| figure.split('/').next()) {
        if !names.contains(&paper) {
            names.push(paper);
        }
    }
    names.extend(IDS.iter().map(String::as_str));
    names
}

fn parse_cause(text: String) -> Result<Cause, String> {
    Cause::try_from(text)
}

/// A ratio with its unit, or as the socket has it, without.
fn parse_decibels(text: &str) -> Result<f32, String> {
    match text.parse::<f32>() {
        Ok(db) if (-MAX_DECIBELS..=MAX_DECIBELS).contains(&db) => Ok(db),
        Ok(_) => Err(format!(
            "\"{text}\" is no ratio of a radio; write one from -{MAX_DECIBELS}dB to {MAX_DECIBELS}dB"
        )),
        Err(_) => decibels(text).map(|db| db as f32).map_err(|error| error.to_string()),
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    let shown = shorten(text);
    text.parse().map_err(|_| format!("{shown:?} is no IP address; write one such as 192.168.7.20"))
}

fn parse_share(text: &str) -> Result<Fraction, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(Fraction::clamped(share)),
        Ok(_) | Err(_) => Err("write a number above 0 and at most 1, such as 0.65".to_owned()),
    }
}

/// `linkhold status`.
#[derive(Debug, Args)]
#[command(after_long_help = "Examples:\n  \
        linkhold status\n  \
        watch -n 0.2 linkhold status                  follow it\n  \
        linkhold status --json | jq .packets.held     one number\n\n\
        Exit codes:\n  \
        0  it was shown\n  \
        1  no agent answers\n  \
        2  bad input: the command line")]
pub struct StatusArgs {
    /// Print one JSON object (linkhold.status/1).
    #[arg(long)]
    pub json: bool,
    /// The agent's control socket.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_SOCKET, value_hint = ValueHint::FilePath)]
    pub socket: PathBuf,
}

/// `linkhold doctor`.
#[derive(Debug, Args)]
#[command(
    long_about = "Say what this machine can run, what is missing and how to get it.\n\n\
        What needs trying (queues, firewall rules) is tried in a network namespace made for it, so that nothing on \
        this machine changes. Without root much cannot be tried; the report says of each such thing that it was not tried.",
    after_long_help = "Examples:\n  \
        linkhold doctor agent                                         does the agent run here?\n  \
        linkhold doctor agent --config /etc/linkhold/agent.toml       and does it see the packets?\n  \
        linkhold doctor host --config /etc/linkhold/host.toml         the same on a host\n\n\
        Exit codes:\n  \
        0  what was asked about runs here (without an argument: agent, testbed and host)\n  \
        1  something that it needs, or an interface of --config, is missing or could not be tried\n  \
        2  bad input: the command line or the configuration"
)]
pub struct DoctorArgs {
    /// What to ask about; without it, all.
    #[arg(value_enum)]
    pub about: Option<DoctorSubject>,
    /// Look at the interfaces of this agent's configuration (with `host`, a host's), too: are they there,
    /// bridged, offloaded?
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Print one JSON object (linkhold.doctor/1).
    #[arg(long)]
    pub json: bool,
}

/// What a machine is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DoctorSubject {
    /// `linkhold agent`.
    Agent,
    /// `linkhold testbed`.
    Testbed,
    /// `linkhold host`.
    Host,
}
