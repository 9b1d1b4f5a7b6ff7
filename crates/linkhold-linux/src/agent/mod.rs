//! The agent: a daemon on a router that keeps TCP fast across the radio's silences.
//!
//! [`run_agent`] is `linkhold agent --config FILE`; [`client`] is `linkhold signal` and `linkhold status`;
//! [`protocol::schema`] is `linkhold agent schema`. [`crate::datapath`] brings packets, [`driver`] hands them
//! to a [`Mechanism`](linkhold_core::mechanism::Mechanism), and [`event_loop`] does everything in turn on one
//! thread.

pub mod client;
pub mod clock;
pub mod config;
pub mod connection;
pub mod control;
pub mod driver;
pub mod error;
pub mod event_loop;
mod guardian;
mod lock;
mod log;
pub mod metrics;
pub mod nl80211;
pub mod processor;
pub mod protocol;
pub mod record;
mod replacement;
pub mod schedule;
pub mod senders;
pub mod silences;
pub mod snr;
pub mod stations;
pub mod status;
pub mod surroundings;

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::signalfd::{SfdFlags, SignalFd};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

pub use client::{ClientError, signal, status};
pub use config::{AgentConfig, AgentConfigError, DEFAULT_SOCKET};
pub use error::AgentError;
pub use event_loop::Agent;
pub use record::Recording;

use linkhold_core::mechanism::Mechanism;
use linkhold_results::Program;
use senders::{NoSenders, Senders};

use self::config::Seat;
use crate::punctual::{be_nice, finest_timers};
use crate::rights::{CAP_NET_ADMIN, CAP_NET_RAW, Rights};
use crate::signals;

/// Runs the agent until SIGTERM, SIGINT or SIGHUP. Call it on the main thread. If a `recording` is wanted,
/// everything that the mechanisms are told and answer is logged. `program` is what the status and the
/// recording tell of where they are from.
///
/// # Errors
/// [`AgentError`]; whatever happens, nothing held and no rule stays behind.
pub fn run_agent(
    config_path: &Path,
    recording: Option<&Recording>,
    program: &Program,
) -> Result<(), AgentError> {
    let config = AgentConfig::load(config_path)?;
    run_with(&config, config_path, recording, program, |mechanisms| Ok((mechanisms, Box::new(NoSenders))))
}

/// Mechanisms, one a radio, and who carries out their commands to senders.
pub type Seated = (Vec<Box<dyn Mechanism>>, Box<dyn Senders>);

/// Runs an agent of this configuration, whose mechanisms `seat` fits to where they run. `config_path` is for
/// messages.
///
/// # Errors
/// As [`run_agent`].
pub fn run_with(
    config: &AgentConfig,
    config_path: &Path,
    recording: Option<&Recording>,
    program: &Program,
    seat: impl FnOnce(Vec<Box<dyn Mechanism>>) -> Result<Seated, AgentError>,
) -> Result<(), AgentError> {
    if let Some(recording) = recording {
        recording.check(config, config_path)?;
    }
    // Before anything is tried: each thing that is refused would be told by itself, and none says what helps.
    check_rights(config)?;
    // SIGHUP, too: it comes when a terminal is closed, and there is nothing to reload.
    let signals = signals::ending();
    let caught = |errno: nix::errno::Errno| AgentError::Signals(errno.into());
    // Before a thread is started: threads inherit what is blocked.
    signals.thread_block().map_err(caught)?;
    let stop =
        SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK).map_err(caught)?;
    let mut mechanisms = Vec::with_capacity(config.radio.len());
    for radio in &config.radio {
        let seed = RandomState::new().hash_one((std::process::id(), radio));
        let mechanism = config.build_mechanism(seed).map_err(|error| AgentError::Mechanism {
            path: config_path.to_owned(),
            message: error.to_string(),
        })?;
        mechanisms.push(match recording {
            None => mechanism,
            Some(recording) => recording.of(mechanism, config, radio, seed, program)?,
        });
    }
    finest_timers();
    ask_for_priority();
    allow_descriptors();
    let (mechanisms, senders) = seat(mechanisms)?;
    let agent = Agent::open(config, program, mechanisms, senders)?;
    tracing::info!(
        instance = config.instance,
        mechanism = config.mechanism_name(),
        radios = config.radio.join(", "),
        socket = %config.control.socket.display(),
        "the agent runs"
    );
    // Without a service manager there is nobody to tell: not an error.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    agent.run(stop.as_fd())
}

/// Refuses a caller who could neither make the queues nor the rules.
fn check_rights(config: &AgentConfig) -> Result<(), AgentError> {
    let (command, words) = match config.seat {
        Seat::Router => ("linkhold agent", "CAP_NET_ADMIN and CAP_NET_RAW"),
        Seat::Host(_) => (
            "linkhold host",
            "CAP_NET_ADMIN and CAP_NET_RAW, and CAP_BPF and CAP_PERFMON for the congestion controls",
        ),
    };
    match Rights::read().refusal(command, &[CAP_NET_ADMIN, CAP_NET_RAW], words) {
        Some(refusal) => Err(AgentError::Rights(refusal)),
        None => Ok(()),
    }
}

/// Nice value that the agent asks for. Every packet waits for the agent, so the agent goes before the
/// router's other work.
const NICE: i32 = -15;

/// Raises the calling thread's priority (and that of the guardian, which inherits it), unless whoever started
/// it chose one. This takes CAP_SYS_NICE. Without it, the service manager's `Nice=` does the same.
fn ask_for_priority() {
    // SAFETY: the call takes numbers; 0 is the calling thread on Linux.
    let is_usual = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) == 0 };
    if is_usual && !be_nice(NICE) {
        tracing::debug!(
            "no right to a higher priority (CAP_SYS_NICE): on a busy machine packets wait longer for the agent"
        );
    }
}

/// Allows this process as many descriptors as it may have: clients of the control socket must leave some for
/// the programs that change the firewall. Without that right the limit stays.
fn allow_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes into this stack frame, and reads from it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Sends logs to standard error: `info` and above, or as `LINKHOLD_LOG` says (the syntax of `tracing`'s env
/// filter, but a word that is no level is refused, where that filter would take it for a module and turn
/// everything else off). Colours are for terminals: a journal keeps plain text.
///
/// # Errors
/// What is wrong with `LINKHOLD_LOG`, and what would be right.
pub fn init_logging() -> Result<(), String> {
    use io::IsTerminal;
    let wanted = std::env::var_os("LINKHOLD_LOG").unwrap_or_default();
    let filter = log_filter(&wanted.to_string_lossy())?;
    // A second call (tests, a library user's own subscriber) changes nothing.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| log::Line)
        // A failure to write would be told on standard error, which has just failed.
        .log_internal_errors(false)
        .with_ansi(io::stderr().is_terminal())
        .try_init();
    Ok(())
}

fn log_filter(wanted: &str) -> Result<EnvFilter, String> {
    if wanted.trim().is_empty() {
        return Ok(EnvFilter::new("info"));
    }
    let right = "write error, warn, info, debug or MODULE=LEVEL";
    // A span's fields may have commas and signs of their own; the filter reads those.
    let parts = wanted.split(',').map(str::trim).filter(|part| !part.is_empty());
    for part in parts.filter(|_| !wanted.contains('[')) {
        let level = part.rsplit_once('=').map_or(part, |(_, level)| level).trim();
        if level.is_empty() || level.parse::<LevelFilter>().is_err() {
            return Err(format!("LINKHOLD_LOG: \"{}\" is no level; {right}", protocol::shorten(level)));
        }
    }
    EnvFilter::try_new(wanted)
        .map_err(|_| format!("LINKHOLD_LOG: \"{}\" cannot be read; {right}", protocol::shorten(wanted)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_or_a_modules_level_is_logged_and_nothing_else_taken_for_one() {
        for (wanted, filter) in [
            ("", "info"),
            ("debug", "debug"),
            ("WARN", "warn"),
            ("off", "off"),
            ("trace", "trace"),
            ("linkhold_linux=debug", "linkhold_linux=debug"),
            ("linkhold_linux=debug,warn", "linkhold_linux=debug,warn"),
        ] {
            assert_eq!(log_filter(wanted).unwrap().to_string(), filter, "{wanted}");
        }
        for wanted in ["verbose", "linkhold_linux", "warn,foo", "a=b", "linkhold_linux=", "=", "[=debug"] {
            let told = log_filter(wanted).map(|filter| filter.to_string());
            assert!(told.is_err(), "{wanted}: {told:?}");
        }
    }
}
