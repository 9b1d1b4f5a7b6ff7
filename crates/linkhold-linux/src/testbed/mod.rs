//! The testbed: a scenario in real time against the kernel's own TCP and UDP.

pub mod capture;
pub mod cells;
pub mod clock;
pub mod daemon;
pub mod daemon_config;
pub mod datagrams;
pub mod error;
pub mod ether;
pub mod flowlog;
pub mod host_load;
pub mod kernel;
pub mod link;
pub mod outcome;
pub mod packets;
pub mod ports;
mod records;
pub mod run;
pub mod seats;
pub mod seen;
pub mod signals;
pub mod silence_story;
pub mod silence_summary;
pub mod topology;
pub mod traffic;
pub mod tun;
pub mod watched;
pub mod workload;
