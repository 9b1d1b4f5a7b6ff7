//! The channels a cell can work on and when it changes between them.
//!
//! Source: dsasync section III-A, "Channel-switch delays" and "Bandwidth fluctuation".

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};

use crate::primary_user::PrimaryUserConfig;

/// One channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelConfig {
    /// Raw physical-layer rate (the paper's C).
    pub phy_rate: BitRate,
    /// Share of the rate that the MAC leaves for IP packets (the paper's e).
    pub efficiency: Fraction,
    /// Its primary user, if it has one.
    pub primary_user: Option<PrimaryUserConfig>,
}

/// When the cell leaves a channel without being told by the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwitchPolicy {
    /// Only scripted switches.
    #[default]
    Scripted,
    /// Scripted switches, and: when a primary user is detected on the working channel, go to the free channel
    /// with the most capacity (lowest number on a tie); if none is free, wait for the first that is.
    OnPrimaryUser,
}

/// A switch at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptedSwitch {
    /// When the radio starts to retune.
    pub at: Instant,
    /// Index of the channel it goes to.
    pub to_channel: usize,
}

/// How and when the cell changes channel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switching {
    /// How long the radio is silent while it retunes.
    pub delay: Duration,
    /// What makes it change.
    pub policy: SwitchPolicy,
    /// Switches by the clock, in any order.
    pub scripted: Vec<ScriptedSwitch>,
}
