//! Sans-IO TCP endpoints for the simulator.
//!
//! An [`Endpoint`] is one end of a connection: both directions, handshake to FIN. It never reads a clock and
//! never touches a wire: the driver hands it segments and time, and polls it for segments to send.
//!
//! The calling contract, after every input (`on_segment`, `on_timeout`, and once right after it was made):
//! 1. call [`Endpoint::poll_transmit`] until it answers `None`;
//! 2. ask [`Endpoint::next_timeout`] and call [`Endpoint::on_timeout`] no earlier than then (earlier is
//!    harmless, and does nothing). An ACK usually moves the deadline later, so a driver may keep an older,
//!    earlier event and re-arm it when it fires.
//!
//! Payload bytes do not exist: a segment carries its payload length only.
//!
//! Sources: RFC 9293 (TCP), 5681 (congestion control), 6298 (RTO), 7323 (window scale, timestamps), 2018 and
//! 2883 (SACK, D-SACK), 6582 (NewReno), 6675 (SACK recovery), 8985 (RACK-TLP), 5682 (F-RTO), 3522 and 4015
//! (Eifel), 6937 (PRR), 9438 (CUBIC), 3168 (ECN), draft-cardwell-iccrg-bbr-congestion-control-00 (BBR), and
//! Linux where a profile is named after it.

#![forbid(unsafe_code)]

mod config;
mod congestion;
mod delivery_rate;
mod endpoint;
mod linux;
mod pacing;
mod path;
mod persist;
mod receiver;
mod recovery;
mod rtt;
mod schedule;
mod scoreboard;
mod sender;
mod source;
mod stats;
mod wheel;

pub use config::{
    AckCounting, Congestion, DelayedAck, Details, IdleRestart, Recovery, SpuriousResponse, TcpConfig,
    WindowProbe, WindowReduction,
};
pub use endpoint::{Endpoint, Transmit};
pub use path::{ChannelChange, Hop, MAX_SILENCE, PathEvent, PathState};
pub use schedule::Schedule;
pub use source::Source;
pub use stats::Stats;
