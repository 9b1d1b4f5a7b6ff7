//! The channels a cell can work on and when it changes between them.
//!
//! Source: dsasync section III-A, "Channel-switch delays" and "Bandwidth fluctuation".
//! Sees time and the primary users of all channels (the cell senses out of band as well, section III-A).
//! States: on a channel → retuning → on a channel.

use std::sync::Arc;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};

use crate::change::{Change, ChangeKind};
use crate::mac::air_time::AirTime;
use crate::mac::config::AirTimeModel;
use crate::primary_user::{PrimaryUser, PrimaryUserConfig};
use crate::spectrum::occupancy::Occupancy;

/// One channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelConfig {
    /// Raw physical-layer rate (the paper's C).
    pub phy_rate: BitRate,
    /// Share of the rate that the MAC leaves for IP packets (the paper's e), where air time counts per byte.
    pub efficiency: Fraction,
    /// Its primary user, if it has one.
    pub primary_user: Option<PrimaryUserConfig>,
}

impl ChannelConfig {
    /// How long frames take on it; `None` if the model does not know its rate.
    #[must_use]
    pub fn air_time(&self, model: AirTimeModel) -> Option<AirTime> {
        AirTime::new(model, self.phy_rate, self.efficiency)
    }
}

/// When the cell leaves a channel without being told by the script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SwitchPolicy {
    /// Only scripted switches.
    #[default]
    Scripted,
    /// Besides the scripted switches, the cell leaves a channel on which it detects a primary user, for the
    /// free channel with the most capacity (the lowest number on a tie). If none is free it waits for the
    /// first.
    OnPrimaryUser,
}

/// A switch at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptedSwitch {
    /// When the radio starts to retune. Nothing happens if it is on that channel already.
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
    air_times: Vec<AirTime>,
    users: Vec<Option<PrimaryUser>>,
    working: usize,
    delay: Duration,
    policy: SwitchPolicy,
    /// Sorted by time.
    script: Vec<ScriptedSwitch>,
    next_script: usize,
    retuning: Option<(usize, Instant)>,
    /// The cell as a whole notices a primary user and falls silent. Otherwise its radios look after
    /// themselves, and the user stays undetected here.
    notices_users: bool,
}

/// Which of the channel set's processes moves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mover {
    User(usize),
    Script,
    Retuned,
}

impl Channels {
    /// Channels with their air times; `measured` has, by channel, the times of users that a log describes.
    pub(crate) fn new(
        configs: &[ChannelConfig],
        measured: &[Option<Arc<Occupancy>>],
        air_times: Vec<AirTime>,
        working: usize,
        switching: Switching,
        notices_users: bool,
        seed: u64,
    ) -> Self {
        let users = configs
            .iter()
            .enumerate()
            .map(|(index, channel)| {
                let measured = measured.get(index).cloned().flatten();
                channel.primary_user.map(|user| PrimaryUser::new(user, measured, seed, index))
            })
            .collect();
        let mut script = switching.scripted;
        script.sort_by_key(|switch| switch.at);
        Self {
            air_times,
            users,
            working,
            delay: switching.delay,
            policy: switching.policy,
            script,
            next_script: 0,
            retuning: None,
            notices_users,
        }
    }

    /// Air time on the working channel.
    pub(crate) fn air_time(&self) -> AirTime {
        self.air_times[self.working]
    }

    pub(crate) const fn count(&self) -> usize {
        self.air_times.len()
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
            (None, Some(user)) if self.notices_users && user.is_detected() => Condition::Occupied,
            (None, Some(user)) if user.is_on() => Condition::Colliding,
            (None, Some(_) | None) => Condition::Clear,
        }
    }

    /// Whether the radio has noticed the primary user of a channel, which may not be the working one any
    /// more.
    pub(crate) fn has_noticed(&self, channel: usize) -> bool {
        let user = self.users.get(channel).and_then(Option::as_ref);
        self.notices_users && user.is_some_and(PrimaryUser::is_detected)
    }

    /// When the burst of the working channel's primary user ends, if it transmits.
    pub(crate) fn burst_end(&self) -> Instant {
        self.users[self.working].as_ref().map_or(Instant::FAR_FUTURE, PrimaryUser::toggles_at)
    }

    /// When the next scripted switch silences the radio.
    pub(crate) fn next_scripted(&self) -> Instant {
        self.script.get(self.next_script).map_or(Instant::FAR_FUTURE, |switch| switch.at)
    }

    pub(crate) fn next(&self) -> Change {
        self.next_mover().0
    }

    fn next_mover(&self) -> (Change, Mover) {
        let mut best = (Change { at: self.next_scripted(), kind: ChangeKind::Stop }, Mover::Script);
        if let Some((_, until)) = self.retuning {
            let retuned = Change { at: until, kind: ChangeKind::Resume };
            if retuned <= best.0 {
                best = (retuned, Mover::Retuned);
            }
        }
        for (index, user) in self.users.iter().enumerate() {
            if let Some(change) = user.as_ref().map(PrimaryUser::next)
                && change < best.0
            {
                best = (change, Mover::User(index));
            }
        }
        best
    }

    /// Handles the next event.
    pub(crate) fn step(&mut self) {
        let (change, mover) = self.next_mover();
        match mover {
            Mover::User(index) => {
                if let Some(user) = &mut self.users[index] {
                    user.step();
                }
            }
            Mover::Script => {
                if let Some(switch) = self.script.get(self.next_script).copied() {
                    self.next_script += 1;
                    self.leave_for(switch.to_channel, change.at);
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
        let best = (0..self.count())
            .rev()
            .filter(free)
            .max_by_key(|&index| self.air_times[index].effective_rate().as_bps());
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
