//! An independent transmitter each way, both at the channel's rate: the base station's, and one that the stations
//! share in turns. Each works like the shared medium ([`super::shared`]) but for the other direction's frames.

use linkhold_core::time::Instant;

use super::Cell;
use super::contenders::BASE_STATION;
use super::shared::Medium;

/// The pair.
#[derive(Clone, Debug)]
pub(crate) struct Duplex {
    down: Medium,
    up: Medium,
}

impl Duplex {
    pub(crate) fn new(stations: u32) -> Self {
        Self { down: Medium::new(0..1), up: Medium::new(1..stations + 1) }
    }

    pub(crate) fn next(&self) -> Instant {
        self.down.next().min(self.up.next())
    }

    pub(crate) fn step(&mut self, cell: &mut Cell<'_>) {
        if self.down.next() <= self.up.next() { self.down.step(cell) } else { self.up.step(cell) }
    }

    pub(crate) fn start(&mut self, now: Instant, contender: usize, cell: &mut Cell<'_>) {
        if contender == BASE_STATION { self.down.start(now, cell) } else { self.up.start(now, cell) }
    }

    pub(crate) fn on_radio_change(&mut self, now: Instant, cell: &mut Cell<'_>) {
        self.down.on_radio_change(now, cell);
        self.up.on_radio_change(now, cell);
    }

    pub(crate) fn on_air(&self) -> u64 {
        u64::from(self.down.is_busy()) + u64::from(self.up.is_busy())
    }
}
