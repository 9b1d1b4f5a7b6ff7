//! Why a run of the testbed has no result.

use std::time::Duration as StdDuration;

pub use linkhold_sim::Unsupported;

use super::host_load::HostLoad;
use super::waits::DaemonStall;
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
        "this host was too slow: {what} came {p99_ms:.2} ms late (99th percentile of {events}; {limit_ms} ms is the \
         limit); {host}"
    )]
    Late {
        /// What was late.
        what: &'static str,
        /// How many of them there were.
        events: u64,
        /// Measured, ms.
        p99_ms: f64,
        /// Limit, ms.
        limit_ms: f64,
        /// Share of the time in which the air's own thread had something to do, 0 to 1.
        busy: f64,
        /// What the host did besides.
        host: HostLoad,
    },
    /// The hosts' programs, or daemons, got no processor.
    #[error(
        "this host was too busy: its hosts' programs or daemons got no processor for {stalled_s:.2} s ({limit_s:.2} s is the \
         limit){}; {host}",
        longest_of(.daemons)
    )]
    Stalled {
        /// Measured, s.
        stalled_s: f64,
        /// Limit, s.
        limit_s: f64,
        /// The daemons among them.
        daemons: Vec<DaemonStall>,
        /// What the host did besides.
        host: HostLoad,
    },
    /// A processor stood still.
    #[error(
        "this host was too busy: one of its processors stood still for {:.3} s ({limit_s:.3} s is the limit); {host}",
        host.longest_s
    )]
    StoodStill {
        /// Limit of the longest pause, s.
        limit_s: f64,
        /// What the host did besides, and for how long a processor stood still.
        host: HostLoad,
    },
    /// The host had no time for other runs, nor for this one before.
    #[error(
        "it was not tried: after {patience_s:.0} s this host had no time for others either, of which the last: {last}"
    )]
    NotTried {
        /// How long others were tried, s.
        patience_s: f64,
        /// What the last late run told.
        last: String,
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
    /// If the run was too late to count, and may be made again: whether what the host did besides explains
    /// it.
    #[must_use]
    pub fn lateness(&self) -> Option<Lateness> {
        let is_hosts = match self {
            // An air that hardly sleeps is late by itself.
            Self::Late { events, busy, host, .. } => *busy < TOO_BUSY && host.explains_late(*events),
            Self::Stalled { stalled_s, limit_s, host, .. } => {
                host.explains_loss(StdDuration::from_secs_f64((stalled_s - limit_s).max(0.0)))
            }
            Self::StoodStill { .. } | Self::NotTried { .. } => true,
            _ => return None,
        };
        Some(if is_hosts { Lateness::Hosts } else { Lateness::Unexplained })
    }
}

/// The daemon that stood still for longest, as a part of a message; nothing where none did.
fn longest_of(daemons: &[DaemonStall]) -> String {
    let longest = daemons.iter().max_by(|a, b| a.waited_s.total_cmp(&b.waited_s));
    longest.map(|stall| format!("; {stall}")).unwrap_or_default()
}

/// An air whose thread works for this share of the time is late by itself, whatever the host does.
const TOO_BUSY: f64 = 0.9;

/// Whose fault it is that a run was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lateness {
    /// The host's, which had other things to do.
    Hosts,
    /// Perhaps ours.
    Unexplained,
}

/// The attempts at one run that were late, of which each may have been so by chance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LateAttempts {
    /// How many.
    pub number: u32,
    unexplained: u32,
    last: Option<Lateness>,
}

impl LateAttempts {
    /// With one more.
    #[must_use]
    pub fn and(self, lateness: Lateness) -> Self {
        let unexplained = self.unexplained + u32::from(lateness == Lateness::Unexplained);
        Self { number: self.number + 1, unexplained, last: Some(lateness) }
    }

    /// How the last one was late, if any was.
    #[must_use]
    pub fn last(self) -> Option<Lateness> {
        self.last
    }

    /// True if the host is at fault: at the last attempt, or at half of them. A program that is late by
    /// itself is late on a quiet host, too, and most attempts are made on one.
    #[must_use]
    pub fn are_the_hosts(self) -> bool {
        self.last == Some(Lateness::Hosts) || (self.number > 0 && 2 * self.unexplained <= self.number)
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
