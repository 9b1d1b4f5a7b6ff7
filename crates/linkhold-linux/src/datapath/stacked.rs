//! Interfaces that stand on a configured one and take its packets past the agent's rules: VLANs, macvlan and
//! ipvlan interfaces, PPPoE sessions.
//!
//! The upper interface puts itself in the packet's place before routing, and routes name it, so the firewall
//! never sees the lower one's name. Source: Linux, net/8021q/vlan_core.c (`vlan_do_receive`),
//! drivers/net/macvlan.c (`macvlan_handle_frame`), drivers/net/ppp/pppoe.c (`pppoe_rcv`) and
//! net/ipv4/ip_forward.c.

use std::collections::BTreeSet;
use std::io;

use super::crossing::Hidden;
use crate::interfaces::Kind;
use crate::interfaces::survey::{Medium, Member, has_route, members};

/// How sure it is that packets pass the agent by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// No packet is routed by the configured interface, all by upper ones.
    Certain,
    /// As `Certain`, but whether the upper interface stands on this one cannot be seen.
    Possible,
    /// Packets are routed by the configured interface, too. That may be what is wanted.
    Hint,
}

/// An interface whose packets, or some of them, pass the agent by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stacked {
    /// How sure it is.
    pub weight: Weight,
    /// What was found and what to change.
    pub hidden: Hidden,
}

/// Looks at all interfaces of this network namespace.
///
/// # Errors
/// If the interfaces cannot be looked up.
pub fn stacked(wired: &[String], radio: &[String]) -> io::Result<Vec<Stacked>> {
    judge(wired, radio, &members()?, has_route)
}

fn judge(
    wired: &[String],
    radio: &[String],
    all: &[Member],
    mut has_route: impl FnMut(u32) -> io::Result<bool>,
) -> io::Result<Vec<Stacked>> {
    let is_configured = |one: &Member| wired.contains(&one.name) || radio.contains(&one.name);
    let mut carries_ip = |one: &Member| Ok::<_, io::Error>(one.has_address || has_route(one.index)?);
    let mut found = Vec::new();
    for (key, names) in [("wired", wired), ("radio", radio)] {
        for lower in names.iter().filter_map(|name| all.iter().find(|one| one.name == *name)) {
            let (above, configured): (Vec<_>, Vec<_>) =
                above(lower, all, is_configured).into_iter().partition(|one| !is_configured(one));
            let mut uppers = Vec::new();
            for one in above {
                if one.is_up && carries_ip(one)? {
                    uppers.push(one.name.as_str());
                }
            }
            let sessions = || {
                let mut sessions = all.iter().filter(|one| one.medium == Medium::Ppp && one.has_address);
                let own = lower.medium == Medium::Ethernet && lower.is_up && configured.is_empty();
                // A session that is configured may be this interface's.
                if !own || sessions.clone().any(is_configured) { None } else { sessions.next() }
            };
            let (weight, upper) = match (uppers.is_empty(), sessions()) {
                (false, _) => (Weight::Certain, uppers.join(", ")),
                (true, Some(session)) => (Weight::Possible, session.name.clone()),
                (true, None) => continue,
            };
            // What a port of a bridge or a bond carries is its controller's, which is looked at elsewhere.
            let routes = lower.controller.is_some() || carries_ip(lower)?;
            let one = match weight {
                // A modem often has an address of its own beside the session. A radio is no modem.
                Weight::Possible if routes && key == "radio" => continue,
                Weight::Possible if routes => {
                    Stacked { weight: Weight::Hint, hidden: session_beside(&upper) }
                }
                _ => {
                    let weight = if routes { Weight::Hint } else { weight };
                    Stacked { weight, hidden: words(weight, key, &lower.name, &upper) }
                }
            };
            // Which of several wired interfaces has the session is not known.
            if !found.contains(&one) {
                found.push(one);
            }
        }
    }
    Ok(found)
}

/// All interfaces that stand on this one, and those whose ports these are, up to those that are configured
/// (`is_end`), which are looked at by themselves. Ports of a VRF keep their addresses.
fn above<'a>(lower: &Member, all: &'a [Member], is_end: impl Fn(&Member) -> bool) -> Vec<&'a Member> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::from([lower.index]);
    let mut open = vec![(lower.index, None)];
    while let Some((index, controller)) = open.pop() {
        let is_above = |one: &&Member| {
            one.lower == Some(index) || controller == Some(one.index) && one.kind != Kind::Vrf
        };
        for one in all.iter().filter(is_above) {
            if seen.insert(one.index) {
                found.push(one);
                if !is_end(one) {
                    open.push((one.index, one.controller));
                }
            }
        }
    }
    found
}

/// These interfaces, all that they stand on, and all their ports: those by which their packets come and go,
/// too.
#[must_use]
pub fn with_lower(names: &[String], all: &[Member]) -> Vec<String> {
    let mut found: Vec<&Member> = all.iter().filter(|one| names.contains(&one.name)).collect();
    let mut next = 0;
    while let Some(&upper) = found.get(next) {
        next += 1;
        for one in all {
            let is_lower = upper.lower == Some(one.index) || one.controller == Some(upper.index);
            if is_lower && !found.iter().any(|known| known.index == one.index) {
                found.push(one);
            }
        }
    }
    let lower = found.iter().map(|one| &one.name).filter(|name| !names.contains(name));
    names.iter().chain(lower).cloned().collect()
}

/// A PPP session beside wired interfaces that route by themselves.
fn session_beside(session: &str) -> Hidden {
    Hidden {
        reason: format!(
            "packets of {session} (PPP, as of PPPoE) are not seen under the name of the interface below"
        ),
        remedy: format!("write {session} under `wired`, too, if its traffic shall be managed"),
    }
}

fn words(weight: Weight, key: &str, lower: &str, upper: &str) -> Hidden {
    // Silences are told of the interface that nl80211 knows, and that is the lower one.
    let silences = if key == "radio" {
        format!(
            "; where {lower} is Wi-Fi, tell of silences by `linkhold signal`, because nl80211 knows {lower} only"
        )
    } else {
        String::new()
    };
    let (reason, remedy) = match weight {
        Weight::Certain => (
            format!(
                "{lower} has neither an address nor a route, and packets cross {upper} above it, which is not in the \
                 configuration"
            ),
            format!("write {upper} in place of {lower} under `{key}`"),
        ),
        Weight::Possible => (
            format!(
                "{lower} has neither an address nor a route, and packets may cross {upper}, which is not in the \
                 configuration"
            ),
            format!("if {lower} carries {upper} (PPPoE), write {upper} in place of {lower} under `{key}`"),
        ),
        Weight::Hint => (
            format!("packets of {upper}, which stands on {lower}, are not seen"),
            format!("write {upper} beside {lower} under `{key}` if its traffic shall be managed"),
        ),
    };
    Hidden { reason, remedy: remedy + &silences }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(index: u32, name: &str, lower: Option<u32>, has_address: bool) -> Member {
        Member {
            index,
            name: name.to_owned(),
            kind: Kind::Other,
            medium: Medium::Ethernet,
            is_up: true,
            controller: None,
            lower,
            has_address,
        }
    }

    /// What is told of eth0 (wired) and wlan0 (radio) and these others.
    fn told(others: Vec<Member>, wired: &[&str]) -> Vec<(Weight, String)> {
        let wired: Vec<String> = wired.iter().map(|one| (*one).to_owned()).collect();
        let found = judge(&wired, &["wlan0".to_owned()], &others, |_| Ok(false)).unwrap();
        found.into_iter().map(|one| (one.weight, one.hidden.to_string())).collect()
    }

    #[test]
    fn an_interface_without_ip_below_one_that_has_it_is_named_with_the_one_to_write() {
        let all = |eth0, upper| {
            vec![
                member(1, "eth0", None, eth0),
                member(2, "wlan0", None, true),
                member(3, "eth0.10", Some(1), upper),
            ]
        };
        let found = told(all(false, true), &["eth0"]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Weight::Certain);
        assert!(found[0].1.contains("packets cross eth0.10 above it"), "{found:?}");
        assert!(found[0].1.ends_with("write eth0.10 in place of eth0 under `wired`"), "{found:?}");
        let found = told(all(true, true), &["eth0"]);
        assert_eq!(found[0].0, Weight::Hint);
        assert!(found[0].1.contains("write eth0.10 beside eth0 under `wired` if"), "{found:?}");
        for (table, wired) in [
            (all(false, false), &["eth0"][..]),
            (all(true, false), &["eth0"]),
            (all(false, true), &["eth0.10"]),
            (all(false, true), &["eth0", "eth0.10"]),
            (all(false, true), &["eth1"]),
        ] {
            assert_eq!(told(table, wired), [], "{wired:?}");
        }
        let mut down = all(false, true);
        down[2].is_up = false;
        assert_eq!(told(down, &["eth0"]), []);
    }

    #[test]
    fn a_route_counts_as_an_address() {
        let all = [
            member(1, "eth0", None, false),
            member(2, "wlan0", None, false),
            member(3, "mac0", Some(1), false),
        ];
        let weights = |routed: &[u32]| -> Vec<Weight> {
            let has_route = |index| Ok(routed.contains(&index));
            let found = judge(&["eth0".to_owned()], &["wlan0".to_owned()], &all, has_route).unwrap();
            found.into_iter().map(|one| one.weight).collect()
        };
        assert_eq!(weights(&[3]), [Weight::Certain]);
        assert_eq!(weights(&[1, 3]), [Weight::Hint]);
        assert_eq!((weights(&[1]), weights(&[])), (vec![], vec![]));
        let error = || io::Error::other("no answer");
        assert!(judge(&["eth0".to_owned()], &[], &all, |_| Err(error())).is_err());
    }

    #[test]
    fn bridges_and_interfaces_further_up_are_found_and_a_circle_ends() {
        let mut all = vec![
            member(1, "eth0", None, false),
            member(2, "wlan0", None, true),
            member(3, "eth0.10", Some(1), false),
            member(4, "br-lan", None, true),
            member(5, "mac0", Some(4), true),
        ];
        all[2].controller = Some(4);
        let found = told(all.clone(), &["eth0"]);
        assert!(found[0].1.contains("write br-lan, mac0 in place of eth0"), "{found:?}");
        // What stands on a configured one is told of that one.
        let found = told(all.clone(), &["eth0", "br-lan"]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].0 == Weight::Hint && found[0].1.contains("mac0, which stands on br-lan"),
            "{found:?}"
        );
        // Ports of a VRF keep their addresses, so its name is not the one to write.
        all[3].kind = Kind::Vrf;
        assert_eq!(told(all.clone(), &["eth0"]), []);
        // The kernel makes no circle; a list that changes while it is read might show one.
        all[0].lower = Some(3);
        assert_eq!(told(all, &["eth0"]), []);
    }

    /// A flow table of OpenWrt's lists the lowest interfaces, and the configuration the uppermost.
    #[test]
    fn ports_and_lower_interfaces_are_those_of_their_uppers() {
        let mut all = vec![
            member(1, "eth0", None, false),
            member(2, "lan1", Some(1), false),
            member(3, "phy0-ap0", None, false),
            member(4, "br-lan", None, true),
            member(5, "br-lan.7", Some(4), true),
            member(6, "wan", Some(1), false),
        ];
        (all[1].controller, all[2].controller) = (Some(4), Some(4));
        let names = |of: &[&str]| of.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let lower = |of: &[&str]| with_lower(&names(of), &all);
        assert_eq!(lower(&["br-lan.7"]), ["br-lan.7", "br-lan", "lan1", "phy0-ap0", "eth0"]);
        assert_eq!(lower(&["pppoe-wan", "phy0-ap0"]), ["pppoe-wan", "phy0-ap0"]);
        // A list that changes while it is read might show a circle.
        all[0].lower = Some(5);
        let lower = with_lower(&names(&["br-lan.7"]), &all);
        assert_eq!(lower.len(), 5);
    }

    #[test]
    fn a_port_of_a_bridge_needs_no_address_of_its_own() {
        let mut all = vec![
            member(1, "eth0", None, false),
            member(2, "wlan0", None, true),
            member(3, "eth0.10", Some(1), true),
            member(4, "br0", None, true),
        ];
        all[0].controller = Some(4);
        assert_eq!(told(all, &["eth0"])[0].0, Weight::Hint);
    }

    #[test]
    fn a_radio_below_another_interface_is_told_how_it_learns_of_silences() {
        let all = vec![
            member(1, "eth0", None, true),
            member(2, "wlan0", None, false),
            member(3, "wlan0.7", Some(2), true),
        ];
        let found = told(all, &["eth0"]);
        assert!(found[0].1.contains("write wlan0.7 in place of wlan0 under `radio`; where wlan0 is Wi-Fi"));
    }

    #[test]
    fn a_pppoe_session_may_be_that_of_an_ethernet_interface_without_ip() {
        let all = |eth0| {
            let mut ppp = member(3, "ppp0", None, true);
            ppp.medium = Medium::Ppp;
            vec![member(1, "eth0", None, eth0), member(2, "wlan0", None, true), ppp]
        };
        let found = told(all(false), &["eth0"]);
        assert_eq!((found.len(), found[0].0), (1, Weight::Possible));
        assert!(found[0].1.contains("packets may cross ppp0"), "{found:?}");
        assert!(found[0].1.contains("write ppp0 in place of eth0 under `wired`"), "{found:?}");
        // With an address for the modem.
        let found = told(all(true), &["eth0", "eth0"]);
        assert_eq!((found.len(), found[0].0), (1, Weight::Hint));
        assert!(found[0].1.contains("write ppp0 under `wired`, too, if"), "{found:?}");
        assert_eq!(told(all(true), &["eth0", "ppp0"]), []);
        assert_eq!((told(all(false), &["ppp0"]), told(all(false), &["eth0", "ppp0"])), (vec![], vec![]));
        for change in
            [|eth0: &mut Member| eth0.is_up = false, |eth0: &mut Member| eth0.medium = Medium::Other]
        {
            let mut all = all(false);
            change(&mut all[0]);
            assert_eq!(told(all, &["eth0"]), []);
        }
    }
}
