//! The testbed: a scenario in real time against the kernel's own TCP.

pub mod ether;
pub mod flowlog;
pub mod kernel;
pub mod link;
pub mod packets;
pub mod run;
pub mod topology;
pub mod traffic;
pub mod tun;
