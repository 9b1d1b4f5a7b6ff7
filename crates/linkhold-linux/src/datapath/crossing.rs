//! Whether packets between the wired and the radio interfaces go through the firewall at all, where the rules
//! are: a bridge, a bond or a VRF may hide an interface.
//!
//! Routed packets are seen with the interface that has the address: the bridge, not its port. Bridged packets
//! are seen only where `br_netfilter` hands them to the firewall, and there a rule can match ports
//! (`physdev`). Of a packet that is routed into a bridge the firewall does not know the port.
//! Source: Linux, net/bridge/br_netfilter_hooks.c (`br_nf_forward`) and net/netfilter/xt_physdev.c.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::interfaces::survey::Member;
use crate::interfaces::{Interface, Kind, Lookup};

/// Where the kernel says whether bridged packets are handed to the firewall (there is no such file without
/// `br_netfilter`).
const BRIDGE_NETFILTER: &str = "/proc/sys/net/bridge";
/// The longest packet that an IP header can name, bytes: above it (BIG TCP) the header's length is 0, and a
/// packet cannot be told from a broken one. Source: Linux, Documentation of `gro_max_size` in ip-link(8), and
/// include/linux/ip.h (`iph_totlen`).
const LONGEST_NAMED: u32 = 65_536;
/// The command that makes bridged packets seen.
const ENABLE_BRIDGE_NETFILTER: &str = "modprobe br_netfilter && sysctl -w net.bridge.bridge-nf-call-iptables=1 net.bridge.bridge-nf-call-ip6tables=1";

/// What stands between the interfaces and the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Crossings {
    /// Pairs of a wired and a radio interface that are ports of one bridge.
    pub bridged: BTreeSet<(String, String)>,
    /// Interfaces that are not there (yet).
    pub absent: Vec<String>,
    /// The indices of those that are.
    pub indices: BTreeMap<String, u32>,
    /// Radios that are bridges, each with its Wi-Fi ports, as [`note_wireless`](Self::note_wireless) found
    /// them: nl80211 knows the ports alone.
    pub wireless: BTreeMap<String, Vec<Port>>,
    /// Why packets of some pair never come to the agent, each with what to change.
    pub hidden: Vec<Hidden>,
    /// What else is amiss, each with what to change.
    pub doubts: Vec<String>,
}

impl Crossings {
    /// Takes over which interfaces are ports of radios that are bridges, of those that nl80211 knows
    /// (`is_wireless`, by index). Of several none is heard: while one is silent, packets by the others must
    /// not wait.
    pub fn note_wireless(&mut self, all: &[Member], is_wireless: &BTreeSet<u32>) {
        for (bridge, ports) in &mut self.wireless {
            let own = self.indices.get(bridge).copied();
            let is_port = |one: &&Member| one.controller == own && is_wireless.contains(&one.index);
            let port = |one: &Member| Port { index: one.index, name: one.name.clone() };
            *ports = all.iter().filter(|_| own.is_some()).filter(is_port).map(port).collect();
            if ports.len() > 1 {
                let names = ports.iter().map(|port| port.name.as_str()).collect::<Vec<_>>().join(", ");
                self.doubts.push(format!(
                    "the bridge {bridge} has several Wi-Fi ports ({names}), and what they announce of their silences is not \
                     heard, because one radio cannot fall silent with each: take them out of the bridge, give each a network \
                     of its own and write {names} under `radio`; or tell of silences by `linkhold signal` and write \
                     `radio_events = \"none\"`"
                ));
            }
        }
    }

    /// The interface whose announcements are those of a radio that is a bridge: its only Wi-Fi port. `None`:
    /// it is no bridge, and speaks for itself, or has no port or several to speak for it.
    #[must_use]
    pub fn heard_for(&self, radio: &str) -> Option<&str> {
        match self.wireless.get(radio).map(Vec::as_slice) {
            Some([only]) => Some(only.name.as_str()),
            Some(_) | None => None,
        }
    }
}

/// A port of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its index.
    pub index: u32,
    /// Its name.
    pub name: String,
}

/// Why packets do not come to the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hidden {
    /// The reason.
    pub reason: String,
    /// What to change.
    pub remedy: String,
}

impl std::fmt::Display for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.reason, self.remedy)
    }
}

/// Which bridged packets the kernel hands to the firewall, for all bridges of this network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BridgeNetfilter {
    /// IPv4.
    pub ipv4: bool,
    /// IPv6.
    pub ipv6: bool,
    /// Of both also what has a VLAN's tag.
    pub tagged: bool,
}

impl BridgeNetfilter {
    /// Reads what the kernel says.
    #[must_use]
    pub fn read() -> Self {
        let is_on = |file: &str| {
            std::fs::read_to_string(format!("{BRIDGE_NETFILTER}/{file}")).is_ok_and(|text| text.trim() == "1")
        };
        Self {
            ipv4: is_on("bridge-nf-call-iptables"),
            ipv6: is_on("bridge-nf-call-ip6tables"),
            tagged: is_on("bridge-nf-filter-vlan-tagged"),
        }
    }
}

/// Looks at every wired and radio interface. `whole`: aggregates come to the agent as they are.
///
/// # Errors
/// If the interfaces cannot be looked up.
pub fn look(
    wired: &[String],
    radio: &[String],
    whole: bool,
    interfaces: &impl Lookup,
    netfilter: BridgeNetfilter,
) -> io::Result<Crossings> {
    let mut found = Crossings::default();
    let mut attached = |name: &String| -> io::Result<Option<Attached>> {
        let Some(interface) = interfaces.named(name)? else {
            found.absent.push(name.clone());
            return Ok(None);
        };
        if interface.name != *name {
            // The kernel finds interfaces by their other names, too (net/core/dev.c,
            // `netdev_name_node_lookup`); the firewall knows the one name alone.
            let (name, known) = (name.clone(), interface.name);
            found.hidden.push(Hidden {
                reason: format!(
                    "{name} is another name (`altname`) of {known}, by which the firewall knows it"
                ),
                remedy: format!("write {known} in place of {name}"),
            });
            return Ok(None);
        }
        if whole && interface.largest_aggregate > LONGEST_NAMED {
            found.doubts.push(unreadable_aggregates(&interface));
        }
        found.indices.insert(name.clone(), interface.index);
        let controller = interface.controller.map(|index| interfaces.at(index)).transpose()?.flatten();
        Ok(Some(Attached { name: name.clone(), kind: interface.kind, controller }))
    };
    let wired = wired.iter().map(&mut attached).collect::<io::Result<Vec<_>>>()?;
    let radio = radio.iter().map(&mut attached).collect::<io::Result<Vec<_>>>()?;
    let bridges = radio.iter().flatten().filter(|one| matches!(one.kind, Kind::Bridge { .. }));
    found.wireless = bridges.map(|one| (one.name.clone(), Vec::new())).collect();
    for radio in radio.iter().flatten() {
        for wired in wired.iter().flatten() {
            look_at_pair(wired, radio, netfilter, &mut found);
        }
    }
    if wired.is_empty() {
        found.hidden.extend(radio.iter().flatten().filter_map(Attached::hidden_from_a_host));
    }
    found.hidden.dedup();
    found.doubts.dedup();
    Ok(found)
}

/// What aggregates that no IP header can name do, and what to change.
fn unreadable_aggregates(interface: &Interface) -> String {
    let Interface { name, largest_aggregate, .. } = interface;
    format!(
        "{name} may have aggregates of {largest_aggregate} bytes (BIG TCP), and those above 64 KiB pass unmanaged, before \
         what is held of their flow: write `aggregates = \"split\"` under [datapath], or `ip link set dev {name} \
         gro_max_size {LONGEST_NAMED} gro_ipv4_max_size {LONGEST_NAMED} gso_max_size {LONGEST_NAMED} \
         gso_ipv4_max_size {LONGEST_NAMED}`"
    )
}

/// An interface and what it is a port of.
struct Attached {
    name: String,
    kind: Kind,
    controller: Option<Interface>,
}

impl Attached {
    /// The bridge that it is a port of.
    fn bridge(&self) -> Option<&Interface> {
        self.controller.as_ref().filter(|one| matches!(one.kind, Kind::Bridge { .. }))
    }

    /// Why a host's own packets do not have this interface's name, if they have not.
    fn hidden_from_a_host(&self) -> Option<Hidden> {
        if let Some(hidden) = self.hidden_by_vrf() {
            return Some(hidden);
        }
        let (name, controller) = (&self.name, &self.controller.as_ref()?.name);
        // What the only Wi-Fi port of a bridge announces is heard.
        let silences = match self.bridge() {
            Some(_) => String::new(),
            None => format!(
                "; where {name} is Wi-Fi, tell of silences by `linkhold signal`, because nl80211 knows {name} only"
            ),
        };
        Some(Hidden {
            reason: format!(
                "{name} is a port of {controller}, under whose name this host's own packets come and go"
            ),
            remedy: format!("write {controller} in place of {name} under `radio`{silences}"),
        })
    }

    /// Why a VRF hides it, if one does. Packets come in by the VRF and go out by its port, so the rules of a
    /// pair, one for each direction, match only one of them, whichever name they have.
    fn hidden_by_vrf(&self) -> Option<Hidden> {
        let name = &self.name;
        if self.kind == Kind::Vrf {
            return Some(Hidden {
                reason: format!("{name} is a VRF, and what it routes goes out by its ports, not by {name}"),
                remedy: "take the interface that is meant out of the VRF (`ip link set ... nomaster`) and write its name"
                    .to_owned(),
            });
        }
        let vrf = &self.controller.as_ref().filter(|one| one.kind == Kind::Vrf)?.name;
        Some(Hidden {
            reason: format!(
                "{name} is in the VRF {vrf}, so the firewall sees what comes in by {name} as coming in by {vrf}, and what goes \
                 out by {name} as going out by {name}"
            ),
            remedy: format!(
                "take {name} out of the VRF (`ip link set {name} nomaster`), and keep its routes apart by `ip rule` or in a \
                 network namespace"
            ),
        })
    }
}

/// That an interface is not there, in words.
#[must_use]
pub fn absence(name: &str) -> String {
    // `ip link` shows an interface with the one that it stands on.
    match name.split_once('@') {
        Some((own, _)) if !own.is_empty() => {
            format!("there is no interface {name}: what `ip link` shows as {name} is called {own}")
        }
        _ => format!("there is no interface {name}"),
    }
}

fn look_at_pair(wired: &Attached, radio: &Attached, netfilter: BridgeNetfilter, found: &mut Crossings) {
    if let Some(hidden) = wired.hidden_by_vrf().or_else(|| radio.hidden_by_vrf()) {
        found.hidden.push(hidden);
        return;
    }
    for (place, key) in [(wired, "wired"), (radio, "radio")] {
        if let Some(controller) = place.controller.as_ref().filter(|_| place.bridge().is_none()) {
            let (name, controller) = (&place.name, &controller.name);
            // The datapath of Open vSwitch (net/openvswitch/vport-netdev.c) forwards by itself, and never by
            // its name.
            let remedy = if controller == "ovs-system" {
                format!(
                    "what Open vSwitch forwards does not come past the firewall: take {name} out of it (`ovs-vsctl del-port \
                     {name}`) and route, or use a bridge of the kernel's"
                )
            } else {
                format!("write {controller} in place of {name} under `{key}`")
            };
            found.hidden.push(Hidden {
                reason: format!("{name} is a port of {controller}, under whose name its packets are routed"),
                remedy,
            });
            return;
        }
    }
    let (name, other) = (&radio.name, &wired.name);
    match (wired.bridge(), radio.bridge()) {
        (None, None) => {}
        (Some(one), Some(same)) if one.name == same.name => {
            look_at_bridge(same, (other, name), netfilter, found);
        }
        (_, Some(bridge)) => {
            let bridge = &bridge.name;
            found.hidden.push(Hidden {
                reason: format!(
                    "{name} is a port of the bridge {bridge} and {other} is not, so the firewall sees what crosses as \
                     between {other} and {bridge}"
                ),
                remedy: format!(
                    "take {name} out of the bridge (`ip link set {name} nomaster`) and give it a network of its own; or, \
                     if all that is behind {bridge} may fall silent with the radio, write {bridge} under `radio`"
                ),
            });
        }
        (Some(bridge), None) => {
            let bridge = &bridge.name;
            found.hidden.push(Hidden {
                reason: format!(
                    "{other} is a port of the bridge {bridge}, under whose name its packets are routed"
                ),
                remedy: format!("write {bridge} in place of {other} under `wired`"),
            });
        }
    }
}

/// Looks at a pair of interfaces that are ports of one bridge: what crosses is bridged.
fn look_at_bridge(bridge: &Interface, pair: (&String, &String), all: BridgeNetfilter, found: &mut Crossings) {
    let (wired, radio) = pair;
    let (own, filters_vlans) = match bridge.kind {
        Kind::Bridge { ipv4, ipv6, filters_vlans } => {
            (BridgeNetfilter { ipv4, ipv6, ..BridgeNetfilter::default() }, filters_vlans)
        }
        Kind::Vrf | Kind::Other => (BridgeNetfilter::default(), false),
    };
    let name = &bridge.name;
    if !all.ipv4 && !own.ipv4 {
        found.hidden.push(Hidden {
            reason: format!(
                "{wired} and {radio} are ports of the bridge {name}, and what it bridges does not come past the firewall"
            ),
            remedy: format!(
                "`{ENABLE_BRIDGE_NETFILTER}`, or route between the two, where the kernel has no br_netfilter"
            ),
        });
        return;
    }
    found.bridged.insert((wired.clone(), radio.clone()));
    if !all.ipv6 && !own.ipv6 {
        found.doubts.push(format!(
            "IPv6 on the bridge {name} passes unmanaged: `sysctl -w net.bridge.bridge-nf-call-ip6tables=1`"
        ));
    }
    // Linux, net/bridge/br_netfilter_hooks.c (`br_nf_pre_routing`, `br_nf_forward`, `is_vlan_ip`): what comes
    // in with a tag, or will leave with one, is let pass.
    if filters_vlans && !all.tagged {
        found.doubts.push(format!(
            "the bridge {name} filters by VLAN (`vlan_filtering`), and what has a tag at one of its ports passes unmanaged, one \
             way or both: `sysctl -w net.bridge.bridge-nf-filter-vlan-tagged=1`"
        ));
    }
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let routed =
        (has_route(&read("/proc/net/route"), name), has_ipv6_route(&read("/proc/net/ipv6_route"), name));
    found.doubts.extend(without_routes(name, routed));
}

/// What a bridge without a route keeps the agent from; nothing if IPv4 and IPv6 (`routed`) both leave by it.
/// A family that has none may have no traffic, either.
fn without_routes(name: &str, routed: (bool, bool)) -> Option<String> {
    let (whose, prefix) = match routed {
        (true, true) => return None,
        (false, false) => ("", "..."),
        (false, true) => (" of IPv4", "..."),
        (true, false) => (" of IPv6", "...:.../64"),
    };
    Some(format!(
        "no route{whose} leads out by the bridge {name}, so the agent's own acknowledgments{whose} do not leave and windows \
         stay as they are: give {name} an address (`ip address add {prefix} dev {name}`) and a default route"
    ))
}

/// True if /proc/net/route names the interface.
fn has_route(routes: &str, interface: &str) -> bool {
    routes.lines().skip(1).any(|line| line.split_whitespace().next() == Some(interface))
}

/// True if /proc/net/ipv6_route has a route by the interface that leads to more than itself and its
/// neighbours: not a link-local one, a group's, or an address of its own (RTF_LOCAL; Linux,
/// include/uapi/linux/ipv6_route.h).
fn has_ipv6_route(routes: &str, interface: &str) -> bool {
    const RTF_UP: u32 = 0x1;
    const RTF_LOCAL: u32 = 0x8000_0000;
    routes.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [to, _, _, _, _, _, _, _, flags, by] = fields[..] else { return false };
        let flags = u32::from_str_radix(flags, 16).unwrap_or(0);
        let near = to.starts_with("fe8") || to.starts_with("ff");
        by == interface && flags & RTF_UP != 0 && flags & RTF_LOCAL == 0 && !near
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interfaces::survey::Medium;

    /// (name, kind, index of its controller); the index is the place in the list.
    struct Table(Vec<(&'static str, Kind, Option<u32>)>);

    impl Lookup for Table {
        fn named(&self, name: &str) -> io::Result<Option<Interface>> {
            let index = self.0.iter().position(|one| one.0 == name);
            index.map_or(Ok(None), |index| self.at(index as u32))
        }

        fn at(&self, index: u32) -> io::Result<Option<Interface>> {
            let interface = |(name, kind, controller): &(&str, Kind, Option<u32>)| Interface {
                index,
                name: (*name).to_owned(),
                kind: kind.clone(),
                controller: *controller,
                largest_aggregate: LONGEST_NAMED,
            };
            Ok(self.0.get(index as usize).map(interface))
        }
    }

    const PLAIN_BRIDGE: Kind = Kind::Bridge { ipv4: false, ipv6: false, filters_vlans: false };
    const BOTH: BridgeNetfilter = BridgeNetfilter { ipv4: true, ipv6: true, tagged: false };
    const NEITHER: BridgeNetfilter = BridgeNetfilter { ipv4: false, ipv6: false, tagged: false };

    fn look_at(table: Vec<(&'static str, Kind, Option<u32>)>, netfilter: BridgeNetfilter) -> Crossings {
        look(&["eth0".to_owned()], &["wlan0".to_owned()], true, &Table(table), netfilter).unwrap()
    }

    fn reasons(found: &Crossings) -> String {
        found.hidden.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn interfaces_of_their_own_are_seen() {
        let table = vec![("eth0", Kind::Other, None), ("wlan0", Kind::Other, None)];
        let indices = BTreeMap::from([("eth0".to_owned(), 0), ("wlan0".to_owned(), 1)]);
        assert_eq!(look_at(table, NEITHER), Crossings { indices, ..Crossings::default() });
    }

    /// Linux, drivers/net/vrf.c: `vrf_ip_rcv` puts the VRF in the place of the port before routing, and the
    /// route's own device stays the one that a packet leaves by.
    #[test]
    fn an_interface_in_a_vrf_is_hidden_and_the_remedy_is_told() {
        let blue = ("blue", Kind::Vrf, None);
        let wired = vec![("eth0", Kind::Other, Some(2)), ("wlan0", Kind::Other, None), blue.clone()];
        let told = reasons(&look_at(wired, BOTH));
        assert!(
            told.contains("eth0 is in the VRF blue") && told.contains("ip link set eth0 nomaster"),
            "{told}"
        );
        let both = vec![("eth0", Kind::Other, Some(2)), ("wlan0", Kind::Other, Some(2)), blue.clone()];
        assert!(reasons(&look_at(both, BOTH)).contains("eth0 is in the VRF blue"));
        let radio = vec![("eth0", Kind::Other, None), ("wlan0", Kind::Other, Some(2)), blue];
        assert!(reasons(&look_at(radio, BOTH)).contains("wlan0 is in the VRF blue"));
        let named = vec![("eth0", Kind::Vrf, None), ("wlan0", Kind::Other, None)];
        assert!(reasons(&look_at(named, BOTH)).contains("eth0 is a VRF"));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let found = look_at(vec![("eth0", Kind::Other, None)], NEITHER);
        assert_eq!((found.absent, found.hidden), (vec!["wlan0".to_owned()], vec![]));
    }

    #[test]
    fn a_port_of_a_bridge_or_bond_is_hidden_and_the_remedy_is_told() {
        let access = vec![
            ("eth0", Kind::Other, None),
            ("wlan0", Kind::Other, Some(2)),
            ("br-lan", PLAIN_BRIDGE, None),
        ];
        let told = reasons(&look_at(access, BOTH));
        assert!(told.contains("wlan0 is a port of the bridge br-lan and eth0 is not"), "{told}");
        assert!(
            told.contains("ip link set wlan0 nomaster") && told.contains("write br-lan under `radio`"),
            "{told}"
        );
        let wan = vec![
            ("eth0", Kind::Other, Some(2)),
            ("wlan0", Kind::Other, None),
            ("br-wan", PLAIN_BRIDGE, None),
        ];
        let told = reasons(&look_at(wan, BOTH));
        assert!(told.contains("write br-wan in place of eth0 under `wired`"), "{told}");
        let bond =
            vec![("eth0", Kind::Other, Some(2)), ("wlan0", Kind::Other, None), ("bond0", Kind::Other, None)];
        let told = reasons(&look_at(bond, BOTH));
        assert!(told.contains("write bond0 in place of eth0 under `wired`"), "{told}");
        let switch = vec![
            ("eth0", Kind::Other, None),
            ("wlan0", Kind::Other, Some(2)),
            ("ovs-system", Kind::Other, None),
        ];
        let told = reasons(&look_at(switch, BOTH));
        assert!(told.contains("ovs-vsctl del-port wlan0") && !told.contains("write ovs-system"), "{told}");
    }

    #[test]
    fn a_hosts_radio_that_is_a_port_is_hidden_and_its_own_is_not() {
        let host = |controller, kind| {
            let table = Table(vec![("wlan0", Kind::Other, controller), ("upper", kind, None)]);
            reasons(&look(&[], &["wlan0".to_owned()], true, &table, NEITHER).unwrap())
        };
        assert_eq!(host(None, PLAIN_BRIDGE), "");
        let told = host(Some(1), Kind::Other);
        assert!(told.contains("write upper in place of wlan0 under `radio`; where wlan0 is Wi-Fi"), "{told}");
        // The only Wi-Fi port of a bridge is heard.
        assert!(host(Some(1), PLAIN_BRIDGE).ends_with("write upper in place of wlan0 under `radio`"));
        assert!(host(Some(1), Kind::Vrf).contains("wlan0 is in the VRF upper"));
    }

    /// The kernel answers for `altname`s, too, and the rules would match nothing.
    #[test]
    fn another_name_of_an_interface_is_refused_with_the_one_to_write() {
        struct Renamed;
        impl Lookup for Renamed {
            fn named(&self, name: &str) -> io::Result<Option<Interface>> {
                let name = if name == "wlp3s0" { "wlan0" } else { name }.to_owned();
                let (kind, controller) = (Kind::Other, None);
                Ok(Some(Interface { index: 1, name, kind, controller, largest_aggregate: 0 }))
            }
            fn at(&self, _index: u32) -> io::Result<Option<Interface>> {
                Ok(None)
            }
        }
        let found = look(&["eth0".to_owned()], &["wlp3s0".to_owned()], true, &Renamed, NEITHER).unwrap();
        let told = reasons(&found);
        assert!(told.contains("wlp3s0 is another name (`altname`) of wlan0"), "{told}");
        assert!(told.ends_with("write wlan0 in place of wlp3s0"), "{told}");
    }

    #[test]
    fn a_name_copied_from_ip_link_is_told_without_the_interface_below() {
        assert_eq!(absence("wlan0"), "there is no interface wlan0");
        assert!(absence("lan1@eth0").ends_with("what `ip link` shows as lan1@eth0 is called lan1"));
        assert_eq!(absence("@eth0"), "there is no interface @eth0");
    }

    #[test]
    fn ports_of_one_bridge_are_seen_where_the_bridge_asks_the_firewall() {
        let ports = |kind| {
            vec![("eth0", Kind::Other, Some(2)), ("wlan0", Kind::Other, Some(2)), ("br-none", kind, None)]
        };
        let blind = look_at(ports(PLAIN_BRIDGE), NEITHER);
        assert!(blind.bridged.is_empty());
        assert!(reasons(&blind).contains("modprobe br_netfilter && sysctl -w"), "{}", reasons(&blind));
        let pair = BTreeSet::from([("eth0".to_owned(), "wlan0".to_owned())]);
        let asks = Kind::Bridge { ipv4: true, ipv6: true, filters_vlans: false };
        for (kind, netfilter) in [(PLAIN_BRIDGE, BOTH), (asks, NEITHER)] {
            let seen = look_at(ports(kind), netfilter);
            assert_eq!((&seen.bridged, &seen.hidden), (&pair, &vec![]));
            assert!(seen.doubts.iter().all(|doubt| doubt.contains("leads out by the bridge")), "{seen:?}");
        }
        let ipv4_only = look_at(ports(PLAIN_BRIDGE), BridgeNetfilter { ipv4: true, ..NEITHER });
        assert!(ipv4_only.doubts[0].contains("IPv6 on the bridge br-none passes unmanaged"));
    }

    #[test]
    fn tags_in_a_bridge_that_filters_by_vlan_are_a_doubt_until_the_firewall_sees_them() {
        let doubts = |filters_vlans, tagged| {
            let bridge = Kind::Bridge { ipv4: false, ipv6: false, filters_vlans };
            let ports =
                vec![("eth0", Kind::Other, Some(2)), ("wlan0", Kind::Other, Some(2)), ("br0", bridge, None)];
            let found = look_at(ports, BridgeNetfilter { tagged, ..BOTH });
            assert_eq!((found.bridged.len(), found.hidden), (1, vec![]));
            found.doubts.into_iter().filter(|one| one.contains("vlan_filtering")).collect::<Vec<_>>()
        };
        let told = doubts(true, false);
        assert_eq!(told.len(), 1);
        assert!(told[0].ends_with("`sysctl -w net.bridge.bridge-nf-filter-vlan-tagged=1`"), "{told:?}");
        assert_eq!((doubts(true, true), doubts(false, false)), (vec![], vec![]));
    }

    #[test]
    fn a_bridge_as_radio_is_heard_by_its_only_wifi_port_and_several_are_a_doubt() {
        let table = vec![("eth0", Kind::Other, None), ("br-lan", PLAIN_BRIDGE, None)];
        let seen = look(&["eth0".to_owned()], &["br-lan".to_owned()], true, &Table(table), NEITHER).unwrap();
        let port = |index, name: &str, controller| Member {
            index,
            name: name.to_owned(),
            kind: Kind::Other,
            medium: Medium::Ethernet,
            is_up: true,
            controller,
            lower: None,
            has_address: false,
        };
        let (lan1, ap0, ap1) = (port(5, "lan1", Some(1)), port(6, "ap0", Some(1)), port(7, "ap1", Some(1)));
        let elsewhere = port(8, "ap2", Some(9));
        let heard = |all: &[Member]| {
            let mut seen = seen.clone();
            seen.note_wireless(all, &BTreeSet::from([6, 7, 8]));
            assert_eq!((seen.hidden.len(), seen.heard_for("eth0")), (0, None));
            (seen.heard_for("br-lan").map(str::to_owned), seen.doubts)
        };
        assert_eq!(heard(&[lan1.clone(), elsewhere.clone()]), (None, vec![]));
        let one = heard(&[lan1.clone(), ap0.clone(), elsewhere]);
        assert_eq!(one, (Some("ap0".to_owned()), vec![]));
        let (port, doubts) = heard(&[lan1, ap0, ap1]);
        assert_eq!((port, doubts.len()), (None, 1));
        assert!(doubts[0].starts_with("the bridge br-lan has several Wi-Fi ports (ap0, ap1)"), "{doubts:?}");
        assert!(doubts[0].contains("write ap0, ap1 under `radio`"), "{doubts:?}");
    }

    #[test]
    fn aggregates_above_64_kib_are_a_doubt_only_where_they_come_whole() {
        struct Large;
        impl Lookup for Large {
            fn named(&self, name: &str) -> io::Result<Option<Interface>> {
                let largest_aggregate = if name == "eth0" { 65_537 } else { 65_536 };
                let (name, kind, controller) = (name.to_owned(), Kind::Other, None);
                Ok(Some(Interface { index: 1, name, kind, controller, largest_aggregate }))
            }
            fn at(&self, _index: u32) -> io::Result<Option<Interface>> {
                Ok(None)
            }
        }
        let (wired, radio) = (["eth0".to_owned()], ["wlan0".to_owned()]);
        let whole = look(&wired, &radio, true, &Large, NEITHER).unwrap();
        assert_eq!(whole.doubts.len(), 1);
        assert!(whole.doubts[0].starts_with("eth0 may have aggregates of 65537 bytes"), "{whole:?}");
        let split = look(&wired, &radio, false, &Large, NEITHER).unwrap();
        assert_eq!((split.doubts, split.hidden), (vec![], vec![]));
    }

    #[test]
    fn routes_are_read() {
        let routes = "Iface\tDestination\tGateway\nbr-lan\t00000000\t0100A8C0\neth1\t0000A8C0\t00000000\n";
        assert!(has_route(routes, "br-lan") && has_route(routes, "eth1"));
        assert!(!has_route(routes, "br") && !has_route("", "br-lan") && !has_route(routes, "Iface"));
    }

    #[test]
    fn ipv6_routes_are_read_and_a_family_without_one_is_named() {
        // Linux 6.18: a network, a neighbour, a default route, an address of its own, a group.
        let line = |to: &str, flags: &str, by: &str| {
            format!("{to:0<32} 40 {:0<32} 00 {:0<32} 00000100 00000001 00000000 {flags} {by:>8}\n", "", "")
        };
        let near = line("fe80", "00000001", "br-lan") + &line("ff", "00000001", "br-lan");
        let own = line("fd000000000000010000000000000001", "80200001", "br-lan");
        for (routes, found) in [
            (line("fd00", "00000001", "br-lan"), true),
            (line("", "00000003", "br-lan"), true),
            (line("", "00000003", "eth1"), false),
            (line("", "00000002", "br-lan"), false),
            (format!("{near}{own}"), false),
            ("fd00 40\nnothing\n".to_owned(), false),
        ] {
            assert_eq!(has_ipv6_route(&routes, "br-lan"), found, "{routes}");
        }
        assert_eq!(without_routes("br-lan", (true, true)), None);
        for (routed, words) in [
            ((false, false), "no route leads out by the bridge br-lan, so"),
            ((false, true), "no route of IPv4 leads out by the bridge br-lan"),
            ((true, false), "acknowledgments of IPv6 do not leave"),
        ] {
            let told = without_routes("br-lan", routed).expect("a doubt");
            assert!(told.contains(words), "{told}");
        }
    }
}
