//! linkhold on Linux: the agent that runs on a router, and the testbed that runs scenarios against the
//! kernel.
//!
//! - [`agent`]: the daemon (`linkhold agent`) and what speaks to it (`linkhold signal`, `linkhold status`).
//! - [`datapath`]: how packets reach the agent (NFQUEUE) and the rules that bring them there.
//! - [`testbed`]: a scenario in real time against the kernel's own TCP and UDP (`linkhold testbed`).
//! - [`doctor`]: what this machine can run; [`interfaces`]: its network interfaces.
//! - [`rights`]: what the calling process may do; [`signals`]: which signals end it.
//! - [`json`]: JSON that people write, refused with key and remedy.
//! - [`claims`]: names that one process of a network namespace has at a time.
//! - [`netns`], [`topology`]: network namespaces that always go away, and a path of three of them for tests.

pub mod agent;
pub mod claims;
pub mod command;
pub mod datapath;
pub mod doctor;
mod ethtool;
pub mod host;
pub mod interfaces;
pub mod json;
pub mod netns;
mod punctual;
pub mod rights;
pub mod signals;
pub mod testbed;
pub mod topology;
