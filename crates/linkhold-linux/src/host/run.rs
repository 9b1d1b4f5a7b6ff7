//! `linkhold host --config FILE`: an agent whose mechanisms command this machine's own senders.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;

use linkhold_core::mechanism::Mechanism;
use linkhold_results::Program;

use super::kernel::{CONGESTION_CONTROLS, KernelSenders};
use super::senders::HostSenders;
use super::window::WindowSenders;
use crate::agent::config::{FreezeBy, Seat};
use crate::agent::senders::{NoSenders, Senders};
use crate::agent::{AgentConfig, AgentError, Recording, run_with};

/// Runs until SIGTERM or SIGINT. Call it on the main thread. Recording and program are as in
/// [`run_agent`](crate::agent::run_agent).
///
/// # Errors
/// [`AgentError`]; whatever happens, nothing held, no rule and no frozen sender stays behind.
pub fn run_host(
    config_path: &Path,
    recording: Option<&Recording>,
    program: &Program,
) -> Result<(), AgentError> {
    let config = AgentConfig::load_host(config_path)?;
    let freeze = match &config.seat {
        Seat::Host(host) => host.freeze,
        Seat::Router => FreezeBy::Auto,
    };
    for remark in config.remarks() {
        tracing::warn!("{remark}");
    }
    run_with(&config, config_path, recording, program, |mechanisms| {
        let senders: Box<dyn Senders> = match kernel_side(freeze)? {
            Some(kernel) => Box::new(HostSenders::new(&config.radio, kernel, config.silence.max)),
            None => Box::new(NoSenders),
        };
        let mechanisms = mechanisms.into_iter().zip(&config.radio).map(|(mechanism, radio)| {
            let seed = RandomState::new().hash_one((std::process::id(), radio));
            Box::new(WindowSenders::new(mechanism, freeze.closes_windows(), seed)) as Box<dyn Mechanism>
        });
        Ok((mechanisms.collect(), senders))
    })
}

/// The eBPF congestion controls, if they are wanted and to be had.
fn kernel_side(freeze: FreezeBy) -> Result<Option<KernelSenders>, AgentError> {
    let kernel = match freeze {
        FreezeBy::By(freeze) if !freeze.takes_ebpf() => return Ok(None),
        FreezeBy::By(_) => KernelSenders::open()?,
        FreezeBy::Auto => match KernelSenders::open() {
            Ok(kernel) => kernel,
            Err(error) => {
                tracing::warn!(%error, "senders are frozen by window updates only");
                return Ok(None);
            }
        },
    };
    let names = CONGESTION_CONTROLS.join(" and ");
    tracing::info!("registered {names}; sockets that use one of them are frozen in silences");
    Ok(Some(kernel))
}
