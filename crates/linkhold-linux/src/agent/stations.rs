//! Which station an address on the radio side belongs to. The table is bounded, whatever addresses appear.

use std::collections::HashMap;
use std::net::IpAddr;

use linkhold_core::packet::StationId;

/// Most stations told apart. Addresses beyond them share one more id, and so they fall silent together. A
/// cell has fewer stations, but one host may make up addresses.
pub const MAX_STATIONS: u32 = 4096;

/// Maps addresses to [`StationId`]s, which are numbered in the order of their appearance.
#[derive(Debug)]
pub struct Stations {
    ids: HashMap<IpAddr, StationId, foldhash::fast::RandomState>,
    next: u32,
    overflowed: bool,
}

impl Stations {
    /// A table that knows the configured stations by their addresses.
    #[must_use]
    pub fn new<'a>(configured: impl IntoIterator<Item = &'a [IpAddr]>) -> Self {
        let mut this = Self { ids: HashMap::default(), next: 0, overflowed: false };
        for addresses in configured {
            let id = this.fresh();
            for addr in addresses {
                this.ids.insert(*addr, id);
            }
        }
        this
    }

    /// The station of an address on the radio side.
    pub fn id(&mut self, addr: IpAddr) -> StationId {
        if let Some(id) = self.ids.get(&addr) {
            return *id;
        }
        if self.next >= MAX_STATIONS {
            if !self.overflowed {
                self.overflowed = true;
                tracing::warn!(
                    limit = MAX_STATIONS,
                    "more stations than the table holds: the rest count as one"
                );
            }
            return StationId(MAX_STATIONS);
        }
        let id = self.fresh();
        self.ids.insert(addr, id);
        id
    }

    /// How many stations are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.next as usize
    }

    /// True if no station is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.next == 0
    }

    fn fresh(&mut self) -> StationId {
        let id = StationId(self.next);
        self.next += 1;
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_configured_station_are_one_station() {
        let addresses: [IpAddr; 2] = ["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let mut stations = Stations::new([&addresses[..]]);
        let id = stations.id("10.0.0.5".parse().unwrap());
        assert_eq!(stations.id("fd00::5".parse().unwrap()), id);
        let other = stations.id("10.0.0.6".parse().unwrap());
        assert_ne!(other, id);
        assert_eq!(stations.id("10.0.0.6".parse().unwrap()), other);
        assert_eq!(stations.len(), 2);
    }

    #[test]
    fn made_up_addresses_do_not_grow_the_table_without_end() {
        let mut stations = Stations::new([]);
        for number in 0..3 * MAX_STATIONS {
            let id = stations.id(IpAddr::from(number.to_be_bytes()));
            assert!(id.0 <= MAX_STATIONS);
        }
        assert_eq!(stations.len(), MAX_STATIONS as usize);
        assert_eq!(stations.id(IpAddr::from([0, 0, 0, 7])), StationId(7));
    }
}
