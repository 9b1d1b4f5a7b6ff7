//! The host: `linkhold host` does on a machine itself, for the senders of its own kernel, what the agent does
//! on a router for senders behind it.
//!
//! A radio interface of the machine is the radio; what leaves by it is the uplink, what comes in by it the
//! downlink. The agent's event loop and data path do the work ([`crate::agent`]). This module adds what only
//! a host can do: command its kernel's senders ([`senders`], [`window`], [`kernel`]).
//!
//! Papers: cr-aware section 3 (freeze and thaw), activation section 3 (the gate, a mechanism of the core).

pub mod kernel;
pub mod run;
pub mod senders;
#[cfg(test)]
mod user_space;
pub mod window;

pub use run::run_host;
