//! How long each station's radio sends and receives, and what that costs.
//!
//! Paper: `activation` section 5 (what is not sent again saves energy). Powers are those of the whole
//! interface in each state, as Feeney and Nilsson measured them (*Investigating the Energy Consumption of a
//! Wireless Network Interface in an Ad Hoc Networking Environment*, IEEE INFOCOM 2001, table 1). For a Lucent
//! WaveLAN card of 11 Mbit/s at 4.74 V: 284 mA sending, 190 mA receiving, 156 mA idle. The scenarios state
//! what the table prints for these, 1346.1, 900.6 and 739.4 mW (`crates/linkhold-scenario/tests/powers.rs`);
//! the first product is 1346.16, so the table cut it.
//!
//! A frame's whole exchange counts as sent or received, lost or not; with a DCF and with 802.15.4, which
//! have single transmissions, each of them counts. What goes to another station counts as idle time,
//! though an interface listens to it; a station that sleeps is not modelled.

use linkhold_core::packet::{Direction, StationId};
use linkhold_core::time::Duration;

use crate::cell::{direction_of, station_of};
use crate::frame::{Frame, RadioId};

/// What a station's radio takes, W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PowerConfig {
    /// Sending.
    pub transmit: f64,
    /// Receiving.
    pub receive: f64,
    /// Neither.
    pub idle: f64,
}

/// What a station's radio was busy with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StationTime {
    /// It sent.
    pub transmit: Duration,
    /// It received.
    pub receive: Duration,
}

impl StationTime {
    /// The time since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            transmit: self.transmit.saturating_sub(earlier.transmit),
            receive: self.receive.saturating_sub(earlier.receive),
        }
    }
}

impl PowerConfig {
    /// Energy of a radio that was on for `on` and busy for `busy` of it, J.
    #[must_use]
    pub fn energy(&self, on: Duration, busy: StationTime) -> f64 {
        let (transmit, receive) = (busy.transmit.as_secs_f64(), busy.receive.as_secs_f64());
        let idle = (on.as_secs_f64() - transmit - receive).max(0.0);
        self.transmit * transmit + self.receive * receive + self.idle * idle
    }
}

/// The times of all stations.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    stations: Vec<StationTime>,
}

impl Usage {
    pub(crate) fn new(stations: u32) -> Self {
        Self { stations: vec![StationTime::default(); stations as usize] }
    }

    /// A frame was on the air for `length`.
    pub(crate) fn note(&mut self, frame: &Frame, length: Duration) {
        self.add(station_of(frame), direction_of(frame), length);
    }

    /// `from` sent to `to` for `length`, and `to` listened, whether it could read it or not.
    pub(crate) fn sent(&mut self, from: RadioId, to: Option<RadioId>, length: Duration) {
        if let Some(station) = from.station() {
            self.add(station, Direction::Uplink, length);
        }
        if let Some(station) = to.and_then(RadioId::station) {
            self.add(station, Direction::Downlink, length);
        }
    }

    /// `station` sent (uplink) or received (downlink) for `length`.
    fn add(&mut self, StationId(station): StationId, direction: Direction, length: Duration) {
        let Some(time) = self.stations.get_mut(station as usize) else { return };
        match direction {
            Direction::Uplink => time.transmit += length,
            Direction::Downlink => time.receive += length,
        }
    }

    pub(crate) fn stations(&self) -> &[StationTime] {
        &self.stations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_the_sum_over_the_states() {
        let powers = PowerConfig { transmit: 1.4, receive: 0.9, idle: 0.7 };
        let busy = StationTime { transmit: Duration::from_secs(2), receive: Duration::from_secs(1) };
        assert!((powers.energy(Duration::from_secs(10), busy) - (2.8 + 0.9 + 4.9)).abs() < 1e-12);
        // Busy both ways at once, a duplex radio is never idle.
        assert!((powers.energy(Duration::from_secs(2), busy) - 3.7).abs() < 1e-12);
    }
}
