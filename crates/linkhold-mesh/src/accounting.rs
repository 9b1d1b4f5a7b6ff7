//! What a mesh's channel could have carried, and its silences.
//!
//! Source: crahn, equation (4): the efficiency of TCP is its throughput over the integral of the capacity C(t).
//! C(t) is the working channel's rate, and 0 while the nodes sense or change channel.

use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_radio::{AirAccounting, Silence};

/// Silences kept until somebody takes them: bounds memory when nobody does.
const MAX_SILENCES: usize = 65_536;

/// Sums up silences and capacity.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    nodes: u32,
    rate: BitRate,
    channel: usize,
    /// The silence that goes on.
    silence: Option<(Instant, Cause)>,
    until: Instant,
    silent: Duration,
    /// Bits times nanoseconds: exact, so that totals do not depend on where they are cut.
    capacity: u128,
    usable: Vec<Duration>,
    finished: Vec<Silence>,
}

impl Meter {
    pub(crate) fn new(nodes: u32, channels: usize, channel: usize, rate: BitRate) -> Self {
        Self {
            nodes,
            rate,
            channel,
            silence: None,
            until: Instant::ZERO,
            silent: Duration::ZERO,
            capacity: 0,
            usable: vec![Duration::ZERO; channels],
            finished: Vec::new(),
        }
    }

    fn advance(&mut self, now: Instant) {
        let length = now.since(self.until);
        self.until = self.until.max(now);
        if self.silence.is_some() {
            self.silent += length;
        } else {
            self.capacity += u128::from(self.rate.as_bps()) * u128::from(length.as_nanos());
            if let Some(usable) = self.usable.get_mut(self.channel) {
                *usable += length;
            }
        }
    }

    pub(crate) fn fall_silent(&mut self, now: Instant, cause: Cause) {
        self.speak(now);
        self.silence = Some((now, cause));
    }

    pub(crate) fn speak(&mut self, now: Instant) {
        self.advance(now);
        if let Some((start, cause)) = self.silence.take()
            && start < now
            && self.finished.len() < MAX_SILENCES
        {
            self.finished.push(Silence { start, end: now, scope: Scope::Network, cause });
        }
    }

    pub(crate) fn retune(&mut self, now: Instant, channel: usize, rate: BitRate) {
        self.advance(now);
        (self.channel, self.rate) = (channel, rate);
    }

    pub(crate) const fn is_silent(&self) -> bool {
        self.silence.is_some()
    }

    pub(crate) fn take_silences(&mut self, into: &mut Vec<Silence>) {
        into.append(&mut self.finished);
    }

    pub(crate) fn open_silence(&self, until: Instant) -> Option<Silence> {
        let (start, cause) = self.silence?;
        (start < until).then_some(Silence { start, end: until, scope: Scope::Network, cause })
    }

    pub(crate) fn snapshot(&self, until: Instant) -> AirAccounting {
        let mut end = Self { finished: Vec::new(), ..self.clone() };
        end.advance(until);
        let nodes = self.nodes as usize;
        let bits = u64::try_from(end.capacity / 1_000_000_000).unwrap_or(u64::MAX);
        AirAccounting {
            until: end.until,
            network_silent: end.silent,
            station_silent: vec![end.silent; nodes],
            capacity_bits: bits,
            uplink_capacity_bits: bits,
            station_capacity_bits: vec![bits; nodes],
            station_uplink_capacity_bits: vec![bits; nodes],
            station_usable: vec![end.usable.clone(); nodes],
            usable: end.usable,
            uplink_gap_time: Duration::ZERO,
        }
    }
}
