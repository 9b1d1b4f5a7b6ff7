//! The testbed's network: correspondent hosts, a wide-area hop, the base station and its stations.
//!
//! ```text
//!  ch ──veth── wan ──TUN──▷ wire ▷──TUN── bs ──TUN──▷ air ▷──TUN── sh0, sh1, …
//! ```
//! `wire` and `air` are the engine: [`WiredPipe`](linkhold_radio::WiredPipe) and [`Air`](linkhold_radio::Air)
//! on a real clock. The wired delay lies on the wire, not on the radio: from a base station far from its
//! correspondents, a zero window takes half a round trip to the sender, and so it must from the agent under
//! test.
//!
//! Every address is in 10.0.0.0/8 or fd00::/8 and lives only inside the namespaces made here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkhold_core::mechanism::Place;
use linkhold_core::packet::Direction;
use serde::{Deserialize, Serialize};

use super::tun::Tun;
use crate::netns::{NetNs, NetNsError, veth};

/// Most stations: they take the last octet of one network.
pub const MAX_STATIONS: u32 = 200;
/// The base station's interface towards the wire.
pub const BS_WIRE: &str = "wan0";
/// The base station's interface towards the radio.
pub const BS_RADIO: &str = "radio0";

/// A station's interface.
const STATION_RADIO: &str = "radio0";
/// The correspondent hosts' interface.
const CH_WIRE: &str = "eth0";

/// A host of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostAt {
    /// The correspondent hosts, which share a namespace.
    Correspondent,
    /// A station.
    Station(u32),
}

impl HostAt {
    /// The host that sends what goes in `direction` between the correspondents and `station`.
    #[must_use]
    pub const fn sending(direction: Direction, station: u32) -> Self {
        match direction {
            Direction::Downlink => Self::Correspondent,
            Direction::Uplink => Self::Station(station),
        }
    }

    /// Its place in a case.
    #[must_use]
    pub const fn place(self) -> Place {
        match self {
            Self::Correspondent => Place::Correspondent,
            Self::Station(_) => Place::Stations,
        }
    }

    /// The interface that its TCP crosses.
    #[must_use]
    pub const fn interface(self) -> &'static str {
        match self {
            Self::Correspondent => CH_WIRE,
            Self::Station(_) => STATION_RADIO,
        }
    }
}

impl std::fmt::Display for HostAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Correspondent => f.write_str("host at the correspondent"),
            Self::Station(station) => write!(f, "host at station {station}"),
        }
    }
}

/// Which internet protocol the traffic uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Bytes of an IP header without options.
    #[must_use]
    pub const fn ip_header(self) -> u32 {
        match self {
            Self::V4 => 20,
            Self::V6 => 40,
        }
    }
}

/// The namespaces and TUN devices. Dropping it removes everything.
pub struct Topology {
    /// Correspondent hosts.
    pub ch: NetNs,
    /// The router on the far side of the wire.
    pub wan: NetNs,
    /// The base station.
    pub bs: NetNs,
    /// The stations.
    pub stations: Vec<NetNs>,
    /// Devices in the engine's hands.
    pub tuns: Tuns,
}

/// The engine's ends of the links.
pub struct Tuns {
    /// In `wan`: what the correspondents send.
    pub far: Tun,
    /// In `bs`, towards the wire.
    pub bs_wire: Tun,
    /// In `bs`, towards the radio.
    pub bs_radio: Tun,
    /// In the stations.
    pub stations: Vec<Tun>,
}

/// The correspondent host's address.
#[must_use]
pub const fn ch_address(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 2)),
    }
}

/// A station's address.
#[must_use]
pub const fn station_address(family: Family, station: u32) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(10, 66, 0, (station + 2) as u8)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x66, 0, 0, 0, 0, 0, (station + 2) as u16)),
    }
}

/// The station that has `address`, if it is one of the testbed's.
#[must_use]
pub fn station_of(address: IpAddr) -> Option<u32> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, 66, 0, last] => u32::from(last).checked_sub(2),
            _ => None,
        },
        IpAddr::V6(v6) => match v6.segments() {
            [0xfd00, 0x66, 0, 0, 0, 0, 0, last] => u32::from(last).checked_sub(2),
            _ => None,
        },
    }
}

impl Topology {
    /// Builds everything for `stations` stations.
    ///
    /// # Errors
    /// [`NetNsError`] without the privileges, or what `ip` said.
    pub fn build(stations: u32) -> Result<Self, NetNsError> {
        let ch = NetNs::create("ch")?;
        let wan = NetNs::create("wan")?;
        let bs = NetNs::create("bs")?;
        let hosts = (0..stations.min(MAX_STATIONS))
            .map(|station| NetNs::create(&format!("sh{station}")))
            .collect::<Result<Vec<_>, _>>()?;

        veth(&ch, CH_WIRE, &wan, "lan0")?;
        let tuns = Tuns {
            far: Tun::create(&wan, "far0")?,
            bs_wire: Tun::create(&bs, BS_WIRE)?,
            bs_radio: Tun::create(&bs, BS_RADIO)?,
            stations: hosts.iter().map(|host| Tun::create(host, STATION_RADIO)).collect::<Result<_, _>>()?,
        };
        for netns in [&wan, &bs] {
            netns.enable_forwarding()?;
        }
        for family in [Family::V4, Family::V6] {
            let (flag, ch_net, station_net, len) = match family {
                Family::V4 => ("-4", "10.77.0.0/24", "10.66.0.0/24", 24),
                Family::V6 => ("-6", "fd00:77::/64", "fd00:66::/64", 64),
            };
            let wan_address = match family {
                Family::V4 => IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)),
                Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0x77, 0, 0, 0, 0, 0, 1)),
            };
            ch.add_address(CH_WIRE, ch_address(family), len)?;
            wan.add_address("lan0", wan_address, len)?;
            ch.add_default_route(wan_address)?;
            wan.ip(&[flag, "route", "add", station_net, "dev", "far0"])?;
            bs.ip(&[flag, "route", "add", ch_net, "dev", BS_WIRE])?;
            bs.ip(&[flag, "route", "add", station_net, "dev", BS_RADIO])?;
            for (station, host) in hosts.iter().enumerate() {
                let host_len = if family == Family::V4 { 32 } else { 128 };
                host.add_address(STATION_RADIO, station_address(family, station as u32), host_len)?;
                host.ip(&[flag, "route", "add", "default", "dev", STATION_RADIO])?;
            }
        }
        Ok(Self { ch, wan, bs, stations: hosts, tuns })
    }

    /// Every namespace, with its name.
    pub fn namespaces(&self) -> impl Iterator<Item = &NetNs> {
        [&self.ch, &self.wan, &self.bs].into_iter().chain(&self.stations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stations_address_tells_its_number() {
        for family in [Family::V4, Family::V6] {
            for station in [0, 1, 5, MAX_STATIONS - 1] {
                assert_eq!(station_of(station_address(family, station)), Some(station));
            }
            assert_eq!(station_of(ch_address(family)), None);
        }
        assert_eq!(station_of("10.66.0.1".parse().unwrap()), None);
        assert_eq!(station_of("fe80::2".parse().unwrap()), None);
    }
}
