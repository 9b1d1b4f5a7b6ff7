//! How a cell numbers its radios: a star, with the base station in the middle and its stations around it.
//!
//! The base station is radio 0 and station `k` is radio `k + 1`. Every frame of a cell goes to the base
//! station (uplink) or comes from it (downlink).

use linkhold_core::packet::{Direction, StationId};

use crate::frame::{Frame, RadioId};

impl RadioId {
    /// The base station of a cell.
    pub const BASE_STATION: Self = Self(0);

    /// The station of a cell that has this radio; `None` for the base station.
    #[must_use]
    pub const fn station(self) -> Option<StationId> {
        match self.0 {
            0 => None,
            number => Some(StationId(number - 1)),
        }
    }
}

impl From<StationId> for RadioId {
    fn from(station: StationId) -> Self {
        Self(station.0 + 1)
    }
}

/// Sender and receiver of a packet to (`Downlink`) or from (`Uplink`) a station of the cell.
#[must_use]
pub fn ends(direction: Direction, station: StationId) -> (RadioId, RadioId) {
    match direction {
        Direction::Downlink => (RadioId::BASE_STATION, station.into()),
        Direction::Uplink => (station.into(), RadioId::BASE_STATION),
    }
}

/// The way of a frame through the cell.
#[must_use]
pub fn direction_of(frame: &Frame) -> Direction {
    if frame.from == RadioId::BASE_STATION { Direction::Downlink } else { Direction::Uplink }
}

/// The station at the other end of a frame to or from the base station.
#[must_use]
pub fn station_of(frame: &Frame) -> StationId {
    debug_assert!(
        is_star(frame),
        "a frame between two stations of a cell, or from the base station to itself"
    );
    // One end is the base station's 0, so the larger number is the station's.
    StationId(frame.from.0.max(frame.to.0) - 1)
}

/// Whether exactly one end of the frame is the base station.
pub(crate) fn is_star(frame: &Frame) -> bool {
    (frame.from == RadioId::BASE_STATION) != (frame.to == RadioId::BASE_STATION)
}

#[cfg(test)]
mod tests {
    use linkhold_core::packet::PacketId;

    use super::*;

    #[test]
    fn a_frame_tells_its_station_and_its_way_from_its_ends() {
        for direction in [Direction::Downlink, Direction::Uplink] {
            let (from, to) = ends(direction, StationId(4));
            let frame = Frame {
                packet: PacketId(1),
                from,
                to,
                len: 40,
                headers: 40,
                flow_hash: 0,
                ecn_capable: false,
            };
            assert!(is_star(&frame));
            assert_eq!((direction_of(&frame), station_of(&frame)), (direction, StationId(4)));
            assert_eq!(from.station().or(to.station()), Some(StationId(4)));
        }
        assert_eq!(RadioId::BASE_STATION.station(), None);
    }
}
