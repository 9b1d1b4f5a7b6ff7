//! An independent transmitter each way, both at the channel's rate: the base station's, and one that the
//! stations share in turns. Each works like the shared medium ([`super::shared`]) but for the other
//! direction's frames.

use linkhold_core::time::Instant;

use super::context::Context;
use super::shared::SharedMedium;
use crate::frame::RadioId;
use crate::rng::Stream;

/// The pair.
#[derive(Clone, Debug)]
pub(crate) struct Duplex {
    down: SharedMedium,
    up: SharedMedium,
}

impl Duplex {
    pub(crate) fn new(stations: u32, seed: u64) -> Self {
        Self {
            down: SharedMedium::new(0..1, Stream::new(seed, "mac", 0)),
            up: SharedMedium::new(1..stations + 1, Stream::new(seed, "mac", 1)),
        }
    }

    pub(crate) fn next(&self) -> Instant {
        self.down.next().min(self.up.next())
    }

    pub(crate) fn step(&mut self, context: &mut Context<'_>) {
        if self.down.next() <= self.up.next() { self.down.step(context) } else { self.up.step(context) }
    }

    pub(crate) fn start(&mut self, now: Instant, sender: RadioId, context: &mut Context<'_>) {
        if sender == RadioId::BASE_STATION {
            self.down.start(now, context)
        } else {
            self.up.start(now, context)
        }
    }

    /// The transmitter that serves `sender` is busy.
    #[inline]
    pub(crate) fn is_busy(&self, sender: RadioId) -> bool {
        if sender == RadioId::BASE_STATION { self.down.is_busy() } else { self.up.is_busy() }
    }

    pub(crate) fn on_radio_change(&mut self, now: Instant, context: &mut Context<'_>) {
        self.down.on_radio_change(now, context);
        self.up.on_radio_change(now, context);
    }

    pub(crate) fn on_air(&self) -> u64 {
        u64::from(self.down.is_busy()) + u64::from(self.up.is_busy())
    }
}
