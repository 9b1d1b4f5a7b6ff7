//! What stands above the transports: applications that do more than write. Pure state machines: they are told
//! the time and what has arrived, and hold no packet.

pub mod browser;
pub mod player;
