//! Whether something takes established flows past the firewall, where the agent's rules are: flow tables of
//! nftables, and rules of iptables that offload flows.

use serde::Deserialize;

use crate::command::{is_installed, run};

/// Something that lets established flows bypass the firewall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offload {
    /// What takes the flows, in words.
    pub by: String,
    /// The interfaces whose flows it takes; empty: those of all.
    pub interfaces: Vec<String>,
}

impl Offload {
    /// True if it takes flows of one of these.
    #[must_use]
    pub fn concerns(&self, interfaces: &[String]) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|one| interfaces.contains(one))
    }

    /// What the offload does to the agent, in words.
    #[must_use]
    pub fn reason(&self) -> String {
        let whose = if self.interfaces.is_empty() {
            String::new()
        } else {
            format!(" of {}", self.interfaces.join(", "))
        };
        format!(
            "{} takes flows{whose} past the firewall, so the agent sees only their first packets",
            self.by
        )
    }

    /// What to change.
    pub const REMEDY: &'static str = "take the radio's interfaces out of it, or turn flow offloading off (OpenWrt: \
        `uci set firewall.@defaults[0].flow_offloading=0; uci commit firewall; service firewall restart`)";
}

/// Flow tables of nftables, and rules of iptables that offload flows.
#[must_use]
pub fn offloads() -> Vec<Offload> {
    let mut found = Vec::new();
    if is_installed("nft")
        && let Ok(text) = run("nft", &["-j", "list", "flowtables"])
    {
        found.extend(flowtables(&text));
    }
    for program in ["iptables", "ip6tables"] {
        if is_installed(program)
            && let Ok(text) = run(program, &["-w", "10", "-S"])
            && text.contains("-j FLOWOFFLOAD")
        {
            found.push(Offload { by: format!("a FLOWOFFLOAD rule of {program}"), interfaces: Vec::new() });
        }
    }
    found
}

/// Reads what `nft -j list flowtables` prints (libnftables-json(5)).
fn flowtables(json: &str) -> Vec<Offload> {
    #[derive(Deserialize)]
    struct Listing {
        nftables: Vec<Object>,
    }
    #[derive(Deserialize)]
    struct Object {
        flowtable: Option<FlowTable>,
    }
    #[derive(Deserialize)]
    struct FlowTable {
        table: String,
        name: String,
        #[serde(default)]
        dev: Devices,
    }
    #[derive(Default, Deserialize)]
    #[serde(untagged)]
    enum Devices {
        #[default]
        None,
        One(String),
        Several(Vec<String>),
    }
    let Ok(listing) = serde_json::from_str::<Listing>(json) else {
        tracing::debug!("nft's list of flow tables cannot be read");
        return Vec::new();
    };
    let named = |FlowTable { table, name, dev }: FlowTable| {
        let interfaces = match dev {
            // A flow table without interfaces takes nothing.
            Devices::None => return None,
            Devices::One(name) => vec![name],
            Devices::Several(names) if names.is_empty() => return None,
            Devices::Several(names) => names,
        };
        Some(Offload { by: format!("the flow table {table}/{name}"), interfaces })
    };
    listing.nftables.into_iter().filter_map(|object| named(object.flowtable?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_tables_are_read_as_nft_prints_them() {
        // nft 1.0.6 on Linux 6.1: tables of two interfaces, of one, and of none.
        let found = flowtables(include_str!("crossing/recorded-own.json"));
        let interfaces: Vec<&[String]> = found.iter().map(|one| &one.interfaces[..]).collect();
        assert_eq!(interfaces, [&["radio0".to_owned(), "wired0".to_owned()][..], &["lan7".to_owned()]]);
        assert!(found[0].concerns(&["radio0".to_owned()]) && !found[1].concerns(&["radio0".to_owned()]));
        assert!(
            found[0]
                .reason()
                .starts_with("the flow table fw4/ft takes flows of radio0, wired0 past the firewall")
        );
        // A flow table of hardware (libnftables-json(5)), which nobody here has.
        let json = r#"{"nftables": [{"flowtable": {"family": "inet", "name": "ft", "table": "fw4", "handle": 3,
            "hook": "ingress", "prio": 0, "dev": ["eth0", "wlan0"], "flags": "offload"}}]}"#;
        assert_eq!(flowtables(json)[0].interfaces, ["eth0", "wlan0"]);
        for broken in ["", "{}", "[]", r#"{"nftables": 3}"#] {
            assert_eq!(flowtables(broken), []);
        }
        let everywhere = Offload { by: "x".to_owned(), interfaces: Vec::new() };
        assert!(everywhere.concerns(&[]));
    }
}
