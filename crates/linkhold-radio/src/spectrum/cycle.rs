//! The cycle of a cognitive radio, or of a group that works on one channel: sense, leave an occupied channel,
//! transmit.
//!
//! Source: crahn, the pseudocode of section 4.3, whose lines are named below. Sans-IO: the driver calls
//! [`Cycle::step`] at [`Cycle::next`], answers the look-up of line 1 from the PU log (whether any PU of the
//! band is on within [t, t + t_s] and received above the threshold, equations (1) and (2)), and turns what
//! comes back into link events and into radios that fall silent. The machine draws P_d and P_f (line 2).
//!
//! States: sensing → transmitting → sensing; sensing → switching → sensing while a PU is detected.
//!
//! Lines:
//! ```text
//! 1  puON_ = lookup(channel, t_s, switching)      the end of Sensing asks for it
//! 2  if (puON_ && Pd) || (!puON_ && Pf)           detect
//! 3      channel = (channel + 1) % (B * n)        Decision::next_channel
//! 4      defer for CHANNEL_SWITCHING_DELAY        Switching
//! 5      switching = true                         handoff_from = Some(the channel first left)
//! 6      go back to 1                             Sensing
//! 7  if (switching)
//! 8      notify upper layers                      HandoffEnded
//! 9      load channel parameters                  the driver, at HandoffEnded
//! 10     start T_p timer                          Transmitting
//! 11 transmit data till T_p expires, then go back to 1
//! ```
//!
//! Readings: line 10 stands inside the `if` of line 7, but a radio that did not switch transmits for T_p as
//! well (line 11, and section 4.3 above it), so the timer starts either way. The look-up is made at the end
//! of t_s for the whole of it: a PU that comes during sensing counts as on. If every channel is found
//! occupied, the search goes round for ever, as in the paper; each try takes t_s and the switching delay, so
//! time passes. A switching delay of zero is allowed, a sensing time of zero is not. `switching` is reset by
//! line 7, which the pseudocode leaves out.

use linkhold_core::time::{Duration, Instant};

use crate::rng::Stream;
use crate::spectrum::decision::Decision;
use crate::spectrum::energy_detector::DetectionOdds;

/// The cycle's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleConfig {
    /// Sensing time (t_s).
    pub sensing: Duration,
    /// Transmitting time (T_p).
    pub transmitting: Duration,
    /// How long a change of channel takes (CHANNEL_SWITCHING_DELAY).
    pub switching_delay: Duration,
}

/// A cycle that cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CycleConfigError {
    /// t_s is zero.
    #[error("the sensing time is zero; a radio that does not sense has no cycle")]
    NoSensing,
    /// T_p is zero.
    #[error("the transmitting time is zero; the radio would never send")]
    NoTransmitting,
    /// No channel, no odds for each, or a start past the last.
    #[error("there are {channels} channels, odds for {odds}, and the start is channel {start}")]
    Channels {
        /// Channels that the decision knows.
        channels: usize,
        /// Channels that odds are given for.
        odds: usize,
        /// The first channel.
        start: usize,
    },
}

/// What the cycle is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleState {
    /// Listening, and silent.
    Sensing {
        /// When t_s is over.
        until: Instant,
    },
    /// Between two channels, and silent.
    Switching {
        /// When it is on the next channel.
        until: Instant,
    },
    /// Free to send.
    Transmitting {
        /// When T_p is over.
        until: Instant,
    },
}

/// What line 1 asks: is a PU on and heard on this channel at some time in [`from`, `to`]?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup {
    /// The channel, counted over all bands.
    pub channel: usize,
    /// Start of sensing (t).
    pub from: Instant,
    /// Its end (t + t_s).
    pub to: Instant,
    /// The radio has left another channel and looks for a free one.
    pub switching: bool,
}

/// What happened, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleEvent {
    /// Sensing began on `channel`; the radio is silent for `lasting`.
    SensingBegan {
        /// The channel.
        channel: usize,
        /// t_s.
        lasting: Duration,
    },
    /// Sensing ended.
    SensingEnded {
        /// The channel.
        channel: usize,
        /// What the look-up said: a PU is on (puON_).
        is_on: bool,
        /// What the detector said.
        detected: bool,
    },
    /// A PU was detected on the channel that was worked on: the search for another begins. Told once, before
    /// the first switch.
    HandoffBegan {
        /// The channel that is left.
        from: usize,
    },
    /// Lines 3 and 4: the radio begins to retune; it is silent for `lasting`. A handoff has one or more of
    /// them.
    SwitchBegan {
        /// The channel that is left.
        from: usize,
        /// The channel that is tried next.
        to: usize,
        /// CHANNEL_SWITCHING_DELAY.
        lasting: Duration,
    },
    /// The radio has retuned, and senses next.
    SwitchEnded {
        /// The channel that it is on.
        channel: usize,
    },
    /// Line 8: a channel was found free.
    HandoffEnded {
        /// The channel that was left first.
        from: usize,
        /// The channel that was found: `from` itself, if the search went round.
        to: usize,
        /// Channels tried.
        tries: u32,
        /// When the handoff began.
        since: Instant,
    },
    /// Line 10 and 11: the radio may send for `lasting`.
    TransmittingBegan {
        /// The channel.
        channel: usize,
        /// T_p.
        lasting: Duration,
    },
}

/// The events of one step, in order; at most three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CycleEvents {
    list: [Option<CycleEvent>; 3],
}

impl CycleEvents {
    /// The events in order.
    pub fn iter(&self) -> impl Iterator<Item = CycleEvent> + '_ {
        self.list.iter().copied().flatten()
    }
}

impl IntoIterator for CycleEvents {
    type Item = CycleEvent;
    type IntoIter = core::iter::Flatten<core::array::IntoIter<Option<CycleEvent>, 3>>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter().flatten()
    }
}

/// A search for a free channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handoff {
    from: usize,
    since: Instant,
    tries: u32,
}

/// The cycle of one group.
#[derive(Clone, Debug)]
pub struct Cycle {
    config: CycleConfig,
    /// By channel.
    odds: Box<[DetectionOdds]>,
    decision: Decision,
    channel: usize,
    state: CycleState,
    /// `switching` of the pseudocode.
    handoff: Option<Handoff>,
    stream: Stream,
}

impl Cycle {
    /// A group on `channel` that begins to sense at `start`, and until then may send. `odds` are those of
    /// sensing for t_s on each channel; `stream` decides about what is missed and mistaken.
    ///
    /// # Errors
    /// [`CycleConfigError`].
    pub fn new(
        config: CycleConfig,
        odds: Vec<DetectionOdds>,
        decision: Decision,
        channel: usize,
        start: Instant,
        stream: Stream,
    ) -> Result<Self, CycleConfigError> {
        if config.sensing.is_zero() {
            return Err(CycleConfigError::NoSensing);
        }
        if config.transmitting.is_zero() {
            return Err(CycleConfigError::NoTransmitting);
        }
        let channels = decision.history().channels();
        if channels != odds.len() || channel >= channels {
            return Err(CycleConfigError::Channels { channels, odds: odds.len(), start: channel });
        }
        let state = CycleState::Transmitting { until: start };
        Ok(Self { config, odds: odds.into_boxed_slice(), decision, channel, state, handoff: None, stream })
    }

    /// When [`step`](Self::step) is due.
    #[must_use]
    pub const fn next(&self) -> Instant {
        match self.state {
            CycleState::Sensing { until }
            | CycleState::Switching { until }
            | CycleState::Transmitting { until } => until,
        }
    }

    /// What it is doing.
    #[must_use]
    pub const fn state(&self) -> CycleState {
        self.state
    }

    /// The channel that it is on, or retunes to.
    #[must_use]
    pub const fn channel(&self) -> usize {
        self.channel
    }

    /// Whether the radio may send.
    #[must_use]
    pub const fn may_transmit(&self) -> bool {
        matches!(self.state, CycleState::Transmitting { .. })
    }

    /// Whether it has left a channel and has not found a free one yet (`switching`).
    #[must_use]
    pub const fn is_in_handoff(&self) -> bool {
        self.handoff.is_some()
    }

    /// What was sensed, and the policy.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }

    /// Goes on at [`next`](Self::next). `lookup` is asked at most once, at the end of sensing (line 1).
    pub fn step(&mut self, lookup: impl FnOnce(Lookup) -> bool) -> CycleEvents {
        match self.state {
            // Line 11: T_p expired.
            CycleState::Transmitting { until } => self.sense(until, None),
            // Line 6.
            CycleState::Switching { until } => {
                self.sense(until, Some(CycleEvent::SwitchEnded { channel: self.channel }))
            }
            CycleState::Sensing { until } => self.judge(until, lookup),
        }
    }

    fn sense(&mut self, now: Instant, before: Option<CycleEvent>) -> CycleEvents {
        let lasting = self.config.sensing;
        self.state = CycleState::Sensing { until: now + lasting };
        let began = CycleEvent::SensingBegan { channel: self.channel, lasting };
        CycleEvents { list: [before, Some(began), None] }
    }

    /// Lines 1 to 10, at the end of sensing.
    fn judge(&mut self, now: Instant, lookup: impl FnOnce(Lookup) -> bool) -> CycleEvents {
        let channel = self.channel;
        let from = Instant::from_nanos(now.as_nanos().saturating_sub(self.config.sensing.as_nanos()));
        // Line 1.
        let is_on = lookup(Lookup { channel, from, to: now, switching: self.is_in_handoff() });
        // Line 2. One number is drawn whatever the look-up says, so that a change of the odds shifts no later
        // draw.
        let odds = self.odds.get(channel).copied().unwrap_or(DetectionOdds::PERFECT);
        let detected = self.stream.unit() < odds.of_saying_on(is_on);
        self.decision.observe(channel, detected, now);
        let ended = Some(CycleEvent::SensingEnded { channel, is_on, detected });
        if detected {
            let (began, switch) = self.leave(now);
            return CycleEvents { list: [ended, began, Some(switch)] };
        }
        // Lines 7 to 9.
        let handoff_ended = self.handoff.take().map(|handoff| {
            let Handoff { from, since, tries } = handoff;
            CycleEvent::HandoffEnded { from, to: channel, tries, since }
        });
        // Lines 10 and 11.
        let lasting = self.config.transmitting;
        self.state = CycleState::Transmitting { until: now + lasting };
        CycleEvents { list: [ended, handoff_ended, Some(CycleEvent::TransmittingBegan { channel, lasting })] }
    }

    /// Lines 3 to 5.
    fn leave(&mut self, now: Instant) -> (Option<CycleEvent>, CycleEvent) {
        let from = self.channel;
        let began = self.handoff.is_none().then_some(CycleEvent::HandoffBegan { from });
        // Line 5.
        let handoff = self.handoff.get_or_insert(Handoff { from, since: now, tries: 0 });
        handoff.tries = handoff.tries.saturating_add(1);
        // Line 3.
        self.channel = self.decision.next_channel(from, now);
        // Line 4.
        let lasting = self.config.switching_delay;
        self.state = CycleState::Switching { until: now + lasting };
        (began, CycleEvent::SwitchBegan { from, to: self.channel, lasting })
    }
}

#[cfg(test)]
#[path = "cycle_tests.rs"]
mod tests;
