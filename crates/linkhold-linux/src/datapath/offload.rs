//! Whether something takes established flows past the firewall, where the agent's rules are: flow tables of
//! nftables, and rules of iptables that offload flows.

use serde::Deserialize;

use crate::command::{CommandError, is_installed, run};

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
///
/// # Errors
/// Why flow tables cannot be seen, in words, where nothing else was found. iptables that cannot list its
/// rules is no error: it says so of a table that is nftables' own, which has none of its rules.
pub fn offloads() -> Result<Vec<Offload>, String> {
    let tables = flow_tables(run("nft", &["-j", "list", "flowtables"]));
    let mut found = Vec::new();
    for program in ["iptables", "ip6tables"] {
        if is_installed(program)
            && let Ok(text) = run(program, &["-w", "10", "-S"])
            && text.contains("-j FLOWOFFLOAD")
        {
            found.push(Offload { by: format!("a FLOWOFFLOAD rule of {program}"), interfaces: Vec::new() });
        }
    }
    match tables {
        Err(_) if !found.is_empty() => Ok(found),
        tables => Ok(found.into_iter().chain(tables?).collect()),
    }
}

/// What nft's answer means. There are no flow tables without nft, nor where the kernel has no nf_tables: a
/// subsystem that it does not know is an invalid argument to it (net/netfilter/nfnetlink.c,
/// `nfnetlink_rcv_msg`).
fn flow_tables(answer: Result<String, CommandError>) -> Result<Vec<Offload>, String> {
    let said = match &answer {
        Ok(json) => match listed(json) {
            Some(found) => return Ok(found),
            None => "nft's list of them cannot be read".to_owned(),
        },
        Err(error) if error.is_missing_program() => return Ok(Vec::new()),
        Err(CommandError::Failed { message, .. })
            if message.contains("cache initialization failed: Invalid argument") =>
        {
            return Ok(Vec::new());
        }
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    let remedy =
        if said.contains("JSON") { "; install an nft that knows JSON (OpenWrt: nftables-json)" } else { "" };
    Err(format!("whether a flow table takes flows past the agent cannot be seen: {said}{remedy}"))
}

/// Reads what `nft -j list flowtables` prints (libnftables-json(5)); `None` if that is something else.
fn listed(json: &str) -> Option<Vec<Offload>> {
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
    let listing = serde_json::from_str::<Listing>(json).ok()?;
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
    Some(listing.nftables.into_iter().filter_map(|object| named(object.flowtable?)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_tables_are_read_as_nft_prints_them() {
        // nft 1.0.6 on Linux 6.1: tables of two interfaces, of one, and of none.
        let found = listed(include_str!("crossing/recorded-own.json")).expect("a list");
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
        assert_eq!(listed(json).expect("a list")[0].interfaces, ["eth0", "wlan0"]);
        for broken in ["", "{}", "[]", r#"{"nftables": 3}"#] {
            assert!(flow_tables(Ok(broken.to_owned())).is_err_and(|told| told.contains("cannot be read")));
        }
        let everywhere = Offload { by: "x".to_owned(), interfaces: Vec::new() };
        assert!(everywhere.concerns(&[]));
    }

    #[test]
    fn what_nft_does_not_tell_is_not_taken_for_no_flow_table() {
        let failed = |message: &str| {
            Err(CommandError::Failed {
                command: "nft -j list flowtables".to_owned(),
                status: "exit status: 1".to_owned(),
                message: message.to_owned(),
            })
        };
        let told = flow_tables(failed("JSON support not compiled-in")).unwrap_err();
        assert!(told.starts_with("whether a flow table takes flows past the agent cannot be seen"), "{told}");
        assert!(told.ends_with("(OpenWrt: nftables-json)"), "{told}");
        let told = flow_tables(failed("Error: syntax error\nlist flowtables\n^^^^")).unwrap_err();
        assert!(told.ends_with("Error: syntax error"), "{told}");
        // Without nft, or nf_tables in the kernel, there are none.
        assert_eq!(flow_tables(run("linkhold-no-such-program", &[])), Ok(Vec::new()));
        let none = "netlink: Error: cache initialization failed: Invalid argument";
        assert_eq!(flow_tables(failed(none)), Ok(Vec::new()));
    }
}
