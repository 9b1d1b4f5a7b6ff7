//! Which station an address on the radio side belongs to. The table is bounded, whatever addresses appear.
//!
//! A number is free → a station's → (idle for [`IDLE`], nothing held, no silence of its own) → free again. So
//! neither addresses that somebody makes up nor the guests of a year use the numbers up.
//!
//! Of a station that never sent anybody may make up the address: a flood from outside over an IPv6 /64 would
//! be thousands of stations, each with a turn and a quota like those that are there. So an address gets a
//! number once it has sent a packet or a signal has named it, and until then all of them share [`SHARED`].
//! The mechanism takes what it holds of a flow along to the new number.

use std::collections::HashMap;
use std::net::IpAddr;

use linkhold_core::link_monitor;
use linkhold_core::packet::{Direction, StationId};
use linkhold_core::time::{Duration, Instant};

/// Most stations told apart at once, which is what a mechanism tracks. Addresses beyond them share one more
/// number, have the whole radio's silences only, and take no signal of their own.
pub const MAX_STATIONS: u32 = link_monitor::MAX_STATIONS;
/// The number of all stations beyond [`MAX_STATIONS`].
pub const SHARED: StationId = StationId(MAX_STATIONS);
/// The number of a host, which is its radio's one station.
pub const HOST: StationId = StationId(0);
/// A station that was not heard of for this long may have to give its number back, if another needs it.
pub const IDLE: Duration = Duration::from_secs(60);
/// Looking for idle stations walks the whole table, so a full table is looked through once in this time.
const SWEEP_PAUSE: Duration = Duration::from_secs(1);

/// One station.
#[derive(Clone, Debug, Default)]
struct Station {
    /// Its addresses: several only if they are configured.
    addresses: Vec<IpAddr>,
    /// Configured stations keep their numbers.
    configured: bool,
    /// When it was last heard of, or the end of a silence of its own, whatever is later.
    busy_until: Instant,
    /// Packets held for it.
    held: u32,
}

/// The table is full of stations that are all in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{MAX_STATIONS} stations were active in the last {IDLE}, and no more are told apart")]
pub struct NoNumberLeft;

/// Maps addresses to [`StationId`]s. Numbers are given in the order of appearance, and given again.
#[derive(Debug)]
pub struct Stations {
    ids: HashMap<IpAddr, StationId, foldhash::fast::RandomState>,
    stations: Vec<Station>,
    free: Vec<StationId>,
    /// Uplink packets held for the stations that share a number.
    shared_up_held: u32,
    /// The table may be looked through for idle stations from then on.
    next_sweep: Instant,
    overflowed: bool,
    untracked: u64,
    /// Every address is the first station's.
    one: bool,
}

impl Stations {
    /// A table that knows the configured stations by their addresses.
    #[must_use]
    pub fn new<'a>(configured: impl IntoIterator<Item = &'a [IpAddr]>) -> Self {
        let mut this = Self {
            ids: HashMap::default(),
            stations: Vec::new(),
            free: Vec::new(),
            shared_up_held: 0,
            next_sweep: Instant::ZERO,
            overflowed: false,
            untracked: 0,
            one: false,
        };
        for addresses in configured.into_iter().take(MAX_STATIONS as usize) {
            let id = StationId(this.stations.len() as u32);
            for addr in addresses {
                this.ids.insert(*addr, id);
            }
            let addresses = addresses.to_vec();
            this.stations.push(Station { addresses, configured: true, ..Station::default() });
        }
        this
    }

    /// The table of a host, which is the one station of its radio whatever addresses it has.
    #[must_use]
    pub fn of_host() -> Self {
        let mut this = Self::new([]);
        this.stations.push(Station { configured: true, ..Station::default() });
        this.one = true;
        this
    }

    /// The station of an address, if it has a number; it is heard of now.
    #[inline]
    pub fn find(&mut self, addr: IpAddr, now: Instant) -> Option<StationId> {
        if self.one {
            return Some(HOST);
        }
        let id = *self.ids.get(&addr)?;
        if let Some(station) = self.stations.get_mut(id.0 as usize) {
            station.busy_until = station.busy_until.max(now);
        }
        Some(id)
    }

    /// True if the address has a number.
    #[must_use]
    pub fn knows(&self, addr: IpAddr) -> bool {
        self.one || self.ids.contains_key(&addr)
    }

    /// Numbers that idle stations give back, if none is left for a new one. The caller tells the mechanism of
    /// each before it asks for another number.
    pub fn take_back(&mut self, now: Instant) -> Vec<StationId> {
        if !self.free.is_empty() || self.stations.len() < MAX_STATIONS as usize || now < self.next_sweep {
            return Vec::new();
        }
        self.next_sweep = now + SWEEP_PAUSE;
        self.take_from_idle(now);
        if self.free.is_empty() {
            if !self.overflowed {
                self.overflowed = true;
                tracing::warn!(
                    limit = MAX_STATIONS,
                    "more stations than are told apart: the rest count as one"
                );
            }
        } else {
            tracing::debug!(count = self.free.len(), "idle stations gave their numbers back");
        }
        self.free.clone()
    }

    /// Takes the numbers of idle stations, as far as nothing is held for them and they are not configured.
    fn take_from_idle(&mut self, now: Instant) {
        for (number, station) in self.stations.iter_mut().enumerate() {
            if station.configured || station.held > 0 || station.busy_until + IDLE > now {
                continue;
            }
            for addr in station.addresses.drain(..) {
                self.ids.remove(&addr);
            }
            self.free.push(StationId(number as u32));
        }
        // The lowest number is given first.
        self.free.reverse();
    }

    /// Gives an address that has no number one: it has sent something, or a signal names it.
    ///
    /// # Errors
    /// [`NoNumberLeft`] while all are in use.
    pub fn add(&mut self, addr: IpAddr, now: Instant) -> Result<StationId, NoNumberLeft> {
        // Uplink packets that are held under the shared number must leave before one of their station gets a
        // number of its own, or it would overtake them. Downlink packets go along with their flows.
        if self.shared_up_held > 0 {
            return Err(NoNumberLeft);
        }
        let station = Station { addresses: vec![addr], busy_until: now, ..Station::default() };
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(slot) = self.stations.get_mut(id.0 as usize) {
                    *slot = station;
                }
                id
            }
            None if self.stations.len() < MAX_STATIONS as usize => {
                self.stations.push(station);
                StationId(self.stations.len() as u32 - 1)
            }
            None => return Err(NoNumberLeft),
        };
        self.ids.insert(addr, id);
        Ok(id)
    }

    /// The station keeps its number until [`IDLE`] after `until`, heard of or not: it is silent so long.
    pub fn keep(&mut self, id: StationId, until: Instant) {
        if let Some(station) = self.stations.get_mut(id.0 as usize) {
            station.busy_until = station.busy_until.max(until);
        }
    }

    /// A packet of the station is held from now on.
    pub fn hold(&mut self, id: StationId, direction: Direction) {
        if let Some(held) = self.held(id, direction) {
            *held += 1;
        }
    }

    /// A packet of the station is not held any more.
    pub fn let_go(&mut self, id: StationId, direction: Direction) {
        if let Some(held) = self.held(id, direction) {
            *held = held.saturating_sub(1);
        }
    }

    fn held(&mut self, id: StationId, direction: Direction) -> Option<&mut u32> {
        match self.stations.get_mut(id.0 as usize) {
            Some(station) => Some(&mut station.held),
            None => (direction == Direction::Uplink).then_some(&mut self.shared_up_held),
        }
    }

    /// An event of a station without a number did nothing.
    pub fn count_untracked(&mut self) {
        self.untracked += 1;
    }

    /// Events that did nothing, because their stations had no number.
    #[must_use]
    pub fn untracked(&self) -> u64 {
        self.untracked
    }

    /// How many stations have a number.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stations.len() - self.free.len()
    }

    /// True if no station is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_millis(1000 * seconds)
    }

    fn addr(number: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + number).to_be_bytes())
    }

    /// As the driver does it with a packet of the station's own.
    fn id(stations: &mut Stations, number: u32, now: Instant) -> StationId {
        if let Some(id) = stations.find(addr(number), now) {
            return id;
        }
        let _ = stations.take_back(now);
        stations.add(addr(number), now).unwrap_or(SHARED)
    }

    fn full(now: Instant) -> Stations {
        let mut stations = Stations::new([]);
        for number in 0..MAX_STATIONS {
            assert_eq!(id(&mut stations, number, now), StationId(number));
        }
        stations
    }

    #[test]
    fn addresses_of_one_configured_station_are_one_station() {
        let addresses: [IpAddr; 2] = ["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()];
        let mut stations = Stations::new([&addresses[..]]);
        let configured = stations.find(addresses[0], at(0));
        assert_eq!(configured, Some(StationId(0)));
        assert_eq!(stations.find(addresses[1], at(0)), configured);
        assert_eq!(id(&mut stations, 6, at(0)), StationId(1));
        assert_eq!(id(&mut stations, 6, at(1)), StationId(1));
        assert_eq!(stations.len(), 2);
    }

    #[test]
    fn made_up_addresses_do_not_grow_the_table_without_end() {
        let mut stations = full(at(0));
        for number in MAX_STATIONS..3 * MAX_STATIONS {
            assert_eq!(id(&mut stations, number, at(1)), SHARED);
        }
        assert_eq!((stations.len(), stations.ids.len()), (MAX_STATIONS as usize, MAX_STATIONS as usize));
        assert_eq!(id(&mut stations, 7, at(1)), StationId(7));
    }

    #[test]
    fn idle_stations_give_their_numbers_back() {
        let mut stations = full(at(0));
        // Heard of, silent, or with a packet held, a station keeps its number.
        let _ = stations.find(addr(0), at(30));
        stations.keep(StationId(1), at(20));
        stations.hold(StationId(2), Direction::Downlink);
        assert_eq!(id(&mut stations, 9000, at(59)), SHARED);
        let back = stations.take_back(at(61));
        assert_eq!(back.len(), MAX_STATIONS as usize - 3);
        assert!(![0, 1, 2].iter().any(|kept| back.contains(&StationId(*kept))));
        assert_eq!(stations.len(), 3);
        assert_eq!(stations.add(addr(9000), at(61)), Ok(StationId(3)));
        assert_eq!(stations.find(addr(3), at(61)), None);
        assert_eq!(stations.find(addr(2), at(61)), Some(StationId(2)));
        // There are numbers left: nobody has to give any back.
        assert!(stations.take_back(at(600)).is_empty());
    }

    #[test]
    fn a_configured_station_keeps_its_number_for_ever() {
        let mine: [IpAddr; 1] = ["192.168.7.20".parse().unwrap()];
        let mut stations = Stations::new([&mine[..]]);
        for number in 1..MAX_STATIONS {
            let _ = id(&mut stations, number, at(0));
        }
        assert_eq!(stations.take_back(at(3600)).len(), MAX_STATIONS as usize - 1);
        assert_eq!(stations.find(mine[0], at(3600)), Some(StationId(0)));
    }

    /// Otherwise an uplink packet under the new number would overtake those held under the shared one.
    #[test]
    fn nobody_gets_a_number_while_uplink_packets_are_held_under_the_shared_one() {
        let mut stations = full(at(0));
        let shared = id(&mut stations, 9000, at(1));
        stations.hold(shared, Direction::Uplink);
        stations.hold(shared, Direction::Downlink);
        assert!(!stations.take_back(at(100)).is_empty());
        assert_eq!(stations.add(addr(9000), at(100)), Err(NoNumberLeft));
        stations.let_go(shared, Direction::Uplink);
        assert_eq!(stations.add(addr(9000), at(100)), Ok(StationId(0)));
    }

    #[test]
    fn a_flood_of_addresses_looks_through_the_table_once_a_second() {
        let mut stations = full(at(0));
        assert!(stations.take_back(at(10)).is_empty());
        let _ = stations.find(addr(5), at(10));
        // Too early for another look, though most are idle by now.
        stations.next_sweep = at(100);
        assert!(stations.take_back(at(99)).is_empty());
        assert_eq!(stations.take_back(at(100)).len(), MAX_STATIONS as usize);
    }
}
