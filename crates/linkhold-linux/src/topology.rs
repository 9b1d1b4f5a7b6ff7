//! Correspondent host — base station — station, as three namespaces joined by veth: what tests and benchmarks
//! run on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::netns::{NetNs, NetNsError, veth};

/// Interface of the base station towards the correspondent host.
pub const WIRED: &str = "wired0";
/// Interface of the base station towards the station.
pub const RADIO: &str = "radio0";
/// Interface of either host.
pub const HOST: &str = "eth0";

/// Three namespaces in a line; gone when dropped.
#[derive(Debug)]
pub struct ThreeHosts {
    /// Correspondent host.
    pub ch: NetNs,
    /// Base station: forwards between the two.
    pub bs: NetNs,
    /// Station.
    pub sh: NetNs,
}

impl ThreeHosts {
    /// Address of the correspondent host.
    pub const CH_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 91, 1, 2));
    /// Address of the correspondent host.
    pub const CH_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd91, 1, 0, 0, 0, 0, 0, 2));
    /// Address of the station.
    pub const SH_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 91, 2, 2));
    /// Address of the station.
    pub const SH_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd91, 2, 0, 0, 0, 0, 0, 2));

    /// Makes the namespaces with addresses and routes of both families.
    ///
    /// # Errors
    /// [`NetNsError`] without the privileges or programs; nothing is left behind.
    pub fn build() -> Result<Self, NetNsError> {
        let path = Self { ch: NetNs::create("ch")?, bs: NetNs::create("bs")?, sh: NetNs::create("sh")? };
        veth(&path.ch, HOST, &path.bs, WIRED)?;
        veth(&path.sh, HOST, &path.bs, RADIO)?;
        let sides =
            [(&path.ch, WIRED, 1, Self::CH_V4, Self::CH_V6), (&path.sh, RADIO, 2, Self::SH_V4, Self::SH_V6)];
        for (host, router_interface, network, v4, v6) in sides {
            let gateway_v4 = IpAddr::V4(Ipv4Addr::new(10, 91, network, 1));
            let gateway_v6 = IpAddr::V6(Ipv6Addr::new(0xfd91, u16::from(network), 0, 0, 0, 0, 0, 1));
            path.bs.add_address(router_interface, gateway_v4, 24)?;
            path.bs.add_address(router_interface, gateway_v6, 64)?;
            host.add_address(HOST, v4, 24)?;
            host.add_address(HOST, v6, 64)?;
            host.add_default_route(gateway_v4)?;
            host.add_default_route(gateway_v6)?;
        }
        path.bs.enable_forwarding()?;
        Ok(path)
    }

    /// Rewrites sources to the base station's own address where packets leave by this interface, as a home
    /// router does on its wired side for its stations.
    ///
    /// # Errors
    /// [`NetNsError`] if iptables cannot.
    pub fn masquerade(&self, interface: &str) -> Result<(), NetNsError> {
        for program in ["iptables", "ip6tables"] {
            self.bs.run(
                program,
                &["-w", "10", "-t", "nat", "-A", "POSTROUTING", "-o", interface, "-j", "MASQUERADE"],
            )?;
        }
        Ok(())
    }

    /// Switches segmentation offloads everywhere: off, every packet is at most one MTU, as from real hosts.
    ///
    /// # Errors
    /// [`NetNsError`] if an interface refuses.
    pub fn set_offloads(&self, on: bool) -> Result<(), NetNsError> {
        self.ch.set_offloads(HOST, on)?;
        self.sh.set_offloads(HOST, on)?;
        self.bs.set_offloads(WIRED, on)?;
        self.bs.set_offloads(RADIO, on)
    }
}
