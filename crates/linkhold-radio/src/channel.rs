//! The channels a cell can work on and when it changes between them.
//!
//! Source: dsasync section III-A, "Channel-switch delays" and "Bandwidth fluctuation".
//! Sees time and the primary users of all channels (the cell senses out of band as well, section III-A). States:
//! on a channel → retuning → on a channel.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};

use crate::primary_user::{PrimaryUser, PrimaryUserConfig};
use crate::silence::{Edge, Rank};

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

impl ChannelConfig {
    /// What is left for IP packets: rate times efficiency.
    #[must_use]
    pub fn effective_rate(&self) -> BitRate {
        self.phy_rate.mul_f64(self.efficiency.get())
    }
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
    /// When the radio starts to retune. To the channel it is on already: nothing happens.
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

/// The working channel's condition, as far as primary users and retuning decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Frames get through.
    Clear,
    /// A primary user transmits and has not been detected: frames collide.
    Colliding,
    /// A primary user was detected.
    Occupied,
    /// Between two channels.
    Retuning,
}

/// All channels, and which one the cell is on.
#[derive(Clone, Debug)]
pub(crate) struct Channels {
    configs: Vec<ChannelConfig>,
    users: Vec<Option<PrimaryUser>>,
    working: usize,
    delay: Duration,
    policy: SwitchPolicy,
    /// Sorted by time.
    script: Vec<ScriptedSwitch>,
    next_script: usize,
    retuning: Option<(usize, Instant)>,
}

/// Which of the channel set's processes moves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    User(usize),
    Script,
    Retuned,
}

impl Channels {
    pub(crate) fn new(configs: Vec<ChannelConfig>, working: usize, switching: Switching, seed: u64) -> Self {
        let users = configs
            .iter()
            .enumerate()
            .map(|(index, channel)| channel.primary_user.map(|user| PrimaryUser::new(user, seed, index)))
            .collect();
        let mut script = switching.scripted;
        script.sort_by_key(|switch| switch.at);
        Self {
            configs,
            users,
            working,
            delay: switching.delay,
            policy: switching.policy,
            script,
            next_script: 0,
            retuning: None,
        }
    }

    pub(crate) fn working(&self) -> &ChannelConfig {
        &self.configs[self.working]
    }

    pub(crate) const fn working_index(&self) -> usize {
        self.working
    }

    /// When the radio will have retuned, if it is retuning.
    pub(crate) fn retuning_until(&self) -> Option<Instant> {
        self.retuning.map(|(_, until)| until)
    }

    pub(crate) fn condition(&self) -> Condition {
        match (&self.retuning, &self.users[self.working]) {
            (Some(_), _) => Condition::Retuning,
            (None, Some(user)) if user.is_detected() => Condition::Occupied,
            (None, Some(user)) if user.is_on() => Condition::Colliding,
            (None, Some(_) | None) => Condition::Clear,
        }
    }

    /// When the next scripted switch silences the radio.
    pub(crate) fn next_scripted(&self) -> Instant {
        self.script.get(self.next_script).map_or(Instant::FAR_FUTURE, |switch| switch.at)
    }

    pub(crate) fn next(&self) -> Edge {
        self.next_mover().0
    }

    fn next_mover(&self) -> (Edge, Mover) {
        let mut best = (Edge { at: self.next_scripted(), rank: Rank::Start }, Mover::Script);
        if let Some((_, until)) = self.retuning {
            let retuned = Edge { at: until, rank: Rank::End };
            if retuned <= best.0 {
                best = (retuned, Mover::Retuned);
            }
        }
        for (index, user) in self.users.iter().enumerate() {
            if let Some(edge) = user.as_ref().map(PrimaryUser::next)
                && edge < best.0
            {
                best = (edge, Mover::User(index));
            }
        }
        best
    }

    /// Handles the next event.
    pub(crate) fn step(&mut self) {
        let (edge, mover) = self.next_mover();
        match mover {
            Mover::User(index) => {
                if let Some(user) = &mut self.users[index] {
                    user.step();
                }
            }
            Mover::Script => {
                if let Some(switch) = self.script.get(self.next_script).copied() {
                    self.next_script += 1;
                    self.leave_for(switch.to_channel, edge.at);
                }
            }
            Mover::Retuned => {
                if let Some((to, _)) = self.retuning.take() {
                    self.working = to;
                }
            }
        }
    }

    /// Applies the policy after an event: leaves an occupied channel if another is free.
    pub(crate) fn apply_policy(&mut self, at: Instant) {
        if self.policy != SwitchPolicy::OnPrimaryUser || self.condition() != Condition::Occupied {
            return;
        }
        let free = |index: &usize| self.users[*index].as_ref().is_none_or(|user| !user.is_detected());
        // `max_by_key` takes the last of equals; reversed, that is the lowest number.
        let best = (0..self.configs.len())
            .rev()
            .filter(free)
            .max_by_key(|&index| self.configs[index].effective_rate().as_bps());
        if let Some(to) = best {
            self.leave_for(to, at);
        }
    }

    fn leave_for(&mut self, to: usize, at: Instant) {
        let already_there = self.retuning.map_or(self.working == to, |(target, _)| target == to);
        if already_there {
            return;
        }
        if self.delay.is_zero() {
            self.working = to;
        } else {
            self.retuning = Some((to, at + self.delay));
        }
    }
}
