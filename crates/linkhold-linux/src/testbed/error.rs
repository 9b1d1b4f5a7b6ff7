//! Why a run of the testbed has no result.

pub use linkhold_sim::Unsupported;

use super::host_load::HostLoad;
use crate::command::CommandError;
use crate::netns::NetNsError;

/// Why a run has no result.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Namespaces or devices.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A program.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// Traffic.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// The scenario cannot be built.
    #[error(transparent)]
    Scenario(#[from] linkhold_sim::SimError),
    /// The scenario asks for something that the testbed does not have.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// The engine's ports.
    #[error("the testbed's air: {0}")]
    Ether(std::io::Error),
    /// The packet capture.
    #[error("packet capture: {0}")]
    Capture(String),
    /// A daemon under test.
    #[error("{who}: {what}")]
    Daemon {
        /// The agent, or a host and where it runs.
        who: String,
        /// What went wrong.
        what: String,
    },
    /// The host handled events of the radio too late.
    #[error(
        "this host was too slow: {what} came {p99_ms:.2} ms late (99th percentile; {limit_ms} ms is the limit); \
         {host}. Close other programs, or run fewer cells side by side (--jobs)."
    )]
    Late {
        /// What was late.
        what: &'static str,
        /// Measured, ms.
        p99_ms: f64,
        /// Limit, ms.
        limit_ms: f64,
        /// What the host did besides.
        host: HostLoad,
    },
    /// The hosts' programs got no processor.
    #[error(
        "this host was too busy: its senders and receivers got no processor for {stalled_s:.2} s \
         ({limit_percent} % of the time counted is the limit); {host}. Close other programs, or run fewer cells \
         side by side (--jobs)."
    )]
    Stalled {
        /// Measured, s.
        stalled_s: f64,
        /// Limit, percent of the time after the warm-up.
        limit_percent: f64,
        /// What the host did besides.
        host: HostLoad,
    },
    /// More connections than are measured.
    #[error(
        "the run made more than {limit} connections, and the testbed measures no more: use fewer flows, a lower rate \
         of arrivals or a shorter run"
    )]
    TooManyFlows {
        /// Most that are.
        limit: usize,
    },
    /// The result could not be kept.
    #[error("{0}")]
    Store(String),
    /// A panic, by its message.
    #[error("a fault of linkhold itself: {0}")]
    Panic(String),
    /// Stopped before the end.
    #[error("stopped")]
    Stopped,
}

impl RunError {
    /// What the host did besides, if the run was too late to count: it may be run again.
    #[must_use]
    pub fn lateness(&self) -> Option<HostLoad> {
        match self {
            Self::Late { host, .. } | Self::Stalled { host, .. } => Some(*host),
            _ => None,
        }
    }
}

/// Why traffic could not be made.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// A namespace.
    #[error(transparent)]
    NetNs(#[from] NetNsError),
    /// A program did not start.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The server of sized flows.
    #[error("server of sized flows: {0}")]
    Server(std::io::Error),
    /// Sockets or threads of a flow over UDP.
    #[error("a UDP flow: {0}")]
    Datagrams(std::io::Error),
    /// A QUIC flow.
    #[error("a QUIC flow of station {station}: {what}")]
    Quic {
        /// The station.
        station: u32,
        /// What went wrong.
        what: String,
    },
    /// A server did not come up.
    #[error("iperf3 does not listen on port {port} {limit_s} s after its start")]
    NotListening {
        /// Its port.
        port: u16,
        /// How long it was waited for, s.
        limit_s: u64,
    },
    /// A client ended before its time.
    #[error("iperf3 on station {station} ended early ({status}): {message}")]
    Ended {
        /// The station.
        station: u32,
        /// Its exit status in words.
        status: String,
        /// What it said.
        message: String,
    },
}
