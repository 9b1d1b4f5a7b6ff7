//! Stations whose held packets wait for the answer to a copy.

use super::per_station::PerStation;
use crate::packet::StationId;

/// How many flows keep each station's gate shut.
#[derive(Debug)]
pub(super) struct Gates {
    shut: PerStation<u32>,
    flows: u32,
}

impl Gates {
    pub fn new(max_stations: u32) -> Self {
        Self { shut: PerStation::new(max_stations), flows: 0 }
    }

    /// True if no station's gate is shut.
    #[inline]
    pub fn are_open(&self) -> bool {
        self.flows == 0
    }

    /// True if nothing that is held for the station may leave.
    #[inline]
    pub fn is_shut(&self, station: StationId) -> bool {
        self.flows > 0 && self.shut.get(station).is_some_and(|flows| *flows > 0)
    }

    pub fn shut(&mut self, station: StationId) {
        *self.shut.at(station) += 1;
        self.flows += 1;
    }

    /// One flow less keeps the station's gate shut. True if the gate is open now.
    pub fn open(&mut self, station: StationId) -> bool {
        let flows = self.shut.at(station);
        *flows = flows.saturating_sub(1);
        self.flows = self.flows.saturating_sub(1);
        *flows == 0
    }
}
