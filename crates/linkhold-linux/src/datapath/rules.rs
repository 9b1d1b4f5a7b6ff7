//! The firewall rules that bring packets to the queues, and their removal.
//!
//! Forwarded TCP between a wired and a radio interface goes to an NFQUEUE, with bypass: while no agent
//! listens, packets pass as if the rule were not there. The rules use nftables' `queue` statement where the
//! kernel has it, and `-j NFQUEUE` of iptables and ip6tables otherwise. The agent tries which of them works,
//! and logs it.
//!
//! Everything has a name of this instance (table `linkhold_<instance>`, chain `LINKHOLD-<instance>`), so that
//! rules an agent left behind are found and removed by the next start.

use std::fmt::Write as _;

use crate::command::{CommandError, is_installed, run, run_with_input};

/// Longest instance name: an iptables chain name has 28 characters.
pub const MAX_INSTANCE_NAME: usize = 16;
/// Priority of the chain in FORWARD: the mangle table's, before filtering.
const FORWARD_PRIORITY: i32 = -150;

/// The program and statement that put the rules into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// nftables with its own `queue` statement.
    Nftables,
    /// iptables and ip6tables with the NFQUEUE target.
    Iptables {
        /// False if ip6tables cannot queue here; IPv6 flows then pass unmanaged.
        ipv6: bool,
    },
}

impl Backend {
    /// The backend's name in logs and in the status.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables { ipv6: true } => "iptables",
            Self::Iptables { ipv6: false } => "iptables (IPv4 only)",
        }
    }
}

/// Which backend the operator wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BackendChoice {
    /// Whatever works, nftables first.
    #[default]
    Auto,
    /// nftables only.
    Nftables,
    /// iptables only.
    Iptables,
}

/// What to queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// Name of the agent's instance: letters, digits, `_`.
    pub instance: String,
    /// Interfaces towards correspondent hosts.
    pub wired: Vec<String>,
    /// Interfaces towards stations.
    pub radio: Vec<String>,
    /// Downlink queue; uplink is the next number.
    pub queue: u16,
}

impl RuleSet {
    /// The rules as an nft script: a table of their own, put in as one change.
    #[must_use]
    pub fn nft_script(&self) -> String {
        let mut script = format!(
            "table inet {} {{\n chain forward {{\n  type filter hook forward priority {FORWARD_PRIORITY}; policy accept;\n",
            table_name(&self.instance)
        );
        for (from, to, queue) in self.pairs() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                script,
                "  iifname \"{from}\" oifname \"{to}\" meta l4proto tcp queue flags bypass to {queue}"
            );
        }
        script.push_str(" }\n}\n");
        script
    }

    /// The rules in the language of iptables-restore and ip6tables-restore: a chain of their own and the jump
    /// to it.
    #[must_use]
    pub fn iptables_script(&self) -> String {
        let chain = chain_name(&self.instance);
        let mut script = format!("*mangle\n:{chain} - [0:0]\n");
        for (from, to, queue) in self.pairs() {
            // Writing to a string cannot fail.
            let _ = writeln!(
                script,
                "-A {chain} -i {from} -o {to} -p tcp -j NFQUEUE --queue-num {queue} --queue-bypass"
            );
        }
        let _ = writeln!(script, "-I FORWARD -j {chain}\nCOMMIT");
        script
    }

    /// In-interface, out-interface, queue of every rule.
    fn pairs(&self) -> Vec<(&str, &str, u16)> {
        let mut pairs = Vec::with_capacity(2 * self.wired.len() * self.radio.len());
        for wired in &self.wired {
            for radio in &self.radio {
                pairs.push((wired.as_str(), radio.as_str(), self.queue));
                pairs.push((radio.as_str(), wired.as_str(), self.queue.wrapping_add(1)));
            }
        }
        pairs
    }
}

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// Neither backend works.
    #[error(
        "neither nftables' queue statement nor iptables' NFQUEUE target works here (nftables: {nftables}; iptables: {iptables}); \
         install nftables or iptables, and load the kernel module nfnetlink_queue with nft_queue or xt_NFQUEUE"
    )]
    NoBackend {
        /// What nft said.
        nftables: String,
        /// What iptables said.
        iptables: String,
    },
    /// The rules were refused.
    #[error(transparent)]
    Command(#[from] CommandError),
}

/// Rules in the kernel; removed on drop.
#[derive(Debug)]
pub struct Rules {
    backend: Backend,
    instance: String,
}

impl Rules {
    /// Puts the rules in by a backend that [`prepare`] found to work.
    ///
    /// # Errors
    /// [`RulesError`] if the rules are refused; none is left behind then.
    pub fn install(set: &RuleSet, backend: Backend) -> Result<Self, RulesError> {
        // From here on a failure removes what is there already.
        let rules = Self { backend, instance: set.instance.clone() };
        match backend {
            Backend::Nftables => {
                run_with_input("nft", &["-f", "-"], &set.nft_script())?;
            }
            Backend::Iptables { ipv6 } => {
                install_iptables("iptables-restore", set)?;
                if ipv6 {
                    install_iptables("ip6tables-restore", set)?;
                } else {
                    tracing::warn!("ip6tables does not work here: IPv6 flows pass unmanaged");
                }
            }
        }
        tracing::info!(backend = backend.name(), queue = set.queue, "packets go to the queue");
        Ok(rules)
    }

    /// What put them in.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        match self.backend {
            Backend::Nftables => {
                if let Err(error) = run("nft", &["delete", "table", "inet", &table_name(&self.instance)]) {
                    tracing::warn!(%error, "could not remove the nftables table");
                }
            }
            Backend::Iptables { ipv6 } => {
                remove_iptables("iptables", &self.instance);
                if ipv6 {
                    remove_iptables("ip6tables", &self.instance);
                }
            }
        }
    }
}

/// Removes what an earlier agent of this instance left, and finds a backend that works. Call it before the
/// queue is opened: rules that were left would fill the queue while nobody reads it.
///
/// # Errors
/// [`RulesError::NoBackend`] with what each of them said.
pub fn prepare(instance: &str, choice: BackendChoice) -> Result<Backend, RulesError> {
    if remove_stale(instance) {
        tracing::warn!(instance, "removed rules that an earlier agent left behind");
    }
    probe(instance, choice)
}

/// Finds a backend that works. It leaves nothing behind; if the process is killed in the middle, [`prepare`]
/// for the same instance removes what is left.
///
/// # Errors
/// [`RulesError::NoBackend`] with what each of them said.
pub fn probe(instance: &str, choice: BackendChoice) -> Result<Backend, RulesError> {
    let nftables = match choice {
        BackendChoice::Iptables => "not asked for".to_owned(),
        BackendChoice::Auto | BackendChoice::Nftables => match probe_nftables(instance) {
            Ok(()) => return Ok(Backend::Nftables),
            Err(error) => first_line(&error),
        },
    };
    let iptables = match choice {
        BackendChoice::Nftables => "not asked for".to_owned(),
        BackendChoice::Auto | BackendChoice::Iptables => match probe_iptables("iptables", instance) {
            Ok(()) => {
                if choice == BackendChoice::Auto {
                    tracing::info!(reason = nftables, "nftables cannot queue packets here, iptables can");
                }
                return Ok(Backend::Iptables { ipv6: probe_iptables("ip6tables", instance).is_ok() });
            }
            Err(error) => first_line(&error),
        },
    };
    Err(RulesError::NoBackend { nftables, iptables })
}

fn first_line(error: &CommandError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

/// Finds out whether the kernel knows nftables' `queue`. `nft --check` asks the kernel without changing
/// anything.
fn probe_nftables(instance: &str) -> Result<(), CommandError> {
    let set = RuleSet {
        instance: instance.to_owned(),
        wired: vec!["lo".to_owned()],
        radio: vec!["lo".to_owned()],
        queue: 0,
    };
    run_with_input("nft", &["--check", "-f", "-"], &set.nft_script()).map(|_| ())
}

/// Finds out whether the kernel knows the NFQUEUE target, by a chain that nothing leads to: there is no other
/// way to ask.
fn probe_iptables(program: &str, instance: &str) -> Result<(), CommandError> {
    let chain = chain_name(instance);
    iptables(program, &["-N", &chain])?;
    let answer = iptables(program, &["-A", &chain, "-p", "tcp", "-j", "NFQUEUE", "--queue-bypass"]);
    let _ = iptables(program, &["-F", &chain]);
    let _ = iptables(program, &["-X", &chain]);
    answer.map(|_| ())
}

fn table_name(instance: &str) -> String {
    format!("linkhold_{instance}")
}

fn chain_name(instance: &str) -> String {
    format!("LINKHOLD-{instance}")
}

fn iptables(program: &str, args: &[&str]) -> Result<String, CommandError> {
    // Another program may hold the legacy back end's lock (xtables): wait for it, but not for ever.
    let mut all = vec!["-w", "10", "-t", "mangle"];
    all.extend_from_slice(args);
    run(program, &all)
}

/// Puts the chain and the rules in as one change: there is never half of them, and one program is faster than
/// six.
fn install_iptables(program: &str, set: &RuleSet) -> Result<(), CommandError> {
    run_with_input(program, &["--noflush", "--wait", "10"], &set.iptables_script()).map(|_| ())
}

/// Removes the chain; true if there was one.
fn remove_iptables(program: &str, instance: &str) -> bool {
    let chain = chain_name(instance);
    if iptables(program, &["-S", &chain]).is_err() {
        return false;
    }
    // The jump may be there several times if installing was interrupted again and again: bounded.
    for _ in 0..8 {
        if iptables(program, &["-D", "FORWARD", "-j", &chain]).is_err() {
            break;
        }
    }
    let removed = iptables(program, &["-F", &chain]).and_then(|_| iptables(program, &["-X", &chain]));
    if let Err(error) = removed {
        tracing::warn!(%error, "could not remove the chain");
    }
    true
}

/// Removes what any earlier agent of this instance left, whatever backend it used; true if there was
/// something.
pub fn remove_stale(instance: &str) -> bool {
    let mut found = false;
    if is_installed("nft") {
        found |= run("nft", &["delete", "table", "inet", &table_name(instance)]).is_ok();
    }
    for program in ["iptables", "ip6tables"] {
        if is_installed(program) {
            found |= remove_iptables(program, instance);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_a_wired_and_a_radio_interface_has_a_rule_each_way() {
        let set = RuleSet {
            instance: "a".to_owned(),
            wired: vec!["eth0".to_owned()],
            radio: vec!["wlan0".to_owned(), "wlan1".to_owned()],
            queue: 100,
        };
        assert_eq!(
            set.nft_script(),
            r#"table inet linkhold_a {
 chain forward {
  type filter hook forward priority -150; policy accept;
  iifname "eth0" oifname "wlan0" meta l4proto tcp queue flags bypass to 100
  iifname "wlan0" oifname "eth0" meta l4proto tcp queue flags bypass to 101
  iifname "eth0" oifname "wlan1" meta l4proto tcp queue flags bypass to 100
  iifname "wlan1" oifname "eth0" meta l4proto tcp queue flags bypass to 101
 }
}
"#
        );
        assert_eq!(
            set.iptables_script(),
            "*mangle
:LINKHOLD-a - [0:0]
-A LINKHOLD-a -i eth0 -o wlan0 -p tcp -j NFQUEUE --queue-num 100 --queue-bypass
-A LINKHOLD-a -i wlan0 -o eth0 -p tcp -j NFQUEUE --queue-num 101 --queue-bypass
-A LINKHOLD-a -i eth0 -o wlan1 -p tcp -j NFQUEUE --queue-num 100 --queue-bypass
-A LINKHOLD-a -i wlan1 -o eth0 -p tcp -j NFQUEUE --queue-num 101 --queue-bypass
-I FORWARD -j LINKHOLD-a
COMMIT
"
        );
    }
}
