//! QUIC flows of the testbed: quinn-proto at both ends, over the hosts' own sockets.
//!
//! quinn-proto is a state machine without sockets and clock. Each end of a flow has a thread that drives it
//! ([`peer`]) over a UDP socket in its host's namespace. The station is the client, as a browser is: it opens
//! the connection and a stream on it. On that the data goes, to the station or from it ([`stream`]); every
//! byte is checked. What quinn does not tell by itself is counted at its congestion control and in its traces
//! ([`counting`]).

mod config;
mod counting;
mod flow;
mod peer;
mod stream;
#[cfg(test)]
mod tests;
mod traffic;

pub use config::{CONGESTION_CONTROLS, Common, has_congestion};
pub use counting::Counts;
pub use flow::{Look, QUIC_PORT, QuicEnd, QuicFlow, Read};
pub use traffic::QuicTraffic;
