//! The SNR of each station over time: the part of the SNR channel that no traffic can influence.

use std::sync::Arc;

use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};

use crate::rng::Stream;
use crate::snr::config::{SnrConfig, SnrSource};
use crate::snr::trace::SnrTrace;
use crate::snr::walk::Walk;

/// One station's SNR.
#[derive(Clone, Debug)]
enum Process {
    Trace { trace: Arc<SnrTrace>, entered: Duration },
    Walk(Box<Walk>),
}

/// Every station's SNR.
#[derive(Clone, Debug)]
pub(crate) struct Signal {
    /// By station.
    processes: Vec<Process>,
}

impl Signal {
    /// The SNR in the repetition with `seed`.
    pub(crate) fn new(config: &SnrConfig, stations: u32, seed: u64) -> Self {
        let process = |station: u32| {
            let mut stream = Stream::new(seed, "snr", u64::from(station));
            match &config.source {
                SnrSource::Trace { trace, random_start } => {
                    let place = if *random_start { stream.unit() } else { 0.0 };
                    Process::Trace { trace: trace.clone(), entered: trace.duration().mul_f64(place) }
                }
                SnrSource::Walk(walk) => Process::Walk(Box::new(Walk::new(*walk, &mut stream))),
            }
        };
        Self { processes: (0..stations).map(process).collect() }
    }

    /// A station's SNR, dB. A station that is not there has none.
    pub(crate) fn db_at(&self, station: StationId, at: Instant) -> f64 {
        match self.processes.get(station.0 as usize) {
            Some(Process::Trace { trace, entered }) => trace.db_at(at, *entered),
            Some(Process::Walk(walk)) => walk.db_at(at),
            None => f64::NEG_INFINITY,
        }
    }
}
