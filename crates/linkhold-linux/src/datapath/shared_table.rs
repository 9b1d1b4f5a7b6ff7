//! The nftables table that all agents of a network namespace share, so that none of them costs another what
//! it holds.
//!
//! When a base chain goes, the kernel takes its hook out and drops every packet that waits in any queue of
//! the network namespace (`__nf_unregister_net_hook`, `nfqnl_nf_hook_drop`); also where a transaction that
//! made the chain is given up, as that of `nft --check` is. When one comes before another, or beside it with
//! the same priority, the hooks behind it move on, and a packet that waits goes on with the hook after the
//! place at which it was queued (`nf_hook_entries_grow`, `nf_reinject`): it meets the same queue a second
//! time.
//!
//! So there is one base chain for each hook of the kernel. An agent puts its rules into chains of its own,
//! and a jump to each into the base chains; at its end it takes these out again. The base chains stay, empty
//! and harmless, as long as another agent of the namespace lives. The last one deletes the table.
//!
//! What a firewall does with tables of its own cannot be mended here: where it deletes one with a base chain,
//! or all, the kernel drops what waits.

use std::fmt::Write as _;

use crate::claims::{Claim, any_begins_with};
use crate::command::{CommandError, run, run_with_input};

/// The table, of nftables' `inet` family.
pub const TABLE: &str = "linkhold";
/// Names by which agents know of each other's rules.
const HOLDERS: &str = "linkhold/rules/";
/// Name that an agent has while it changes what all share.
const TURN: &str = "linkhold/turn";
/// An agent waits so long for another one's turn, which is a program or two: 2 s.
const TURN_ATTEMPTS: u32 = 100;

/// A hook of the kernel at which packets are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// What is forwarded.
    Forward,
    /// What comes in.
    Input,
    /// What goes out.
    Output,
}

impl Hook {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Forward, Self::Input, Self::Output];

    /// Its name to nftables, and that of its base chain.
    #[must_use]
    pub const fn nft(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Input => "input",
            Self::Output => "output",
        }
    }

    /// The chain of iptables that hangs there.
    #[must_use]
    pub const fn iptables(self) -> &'static str {
        match self {
            Self::Forward => "FORWARD",
            Self::Input => "INPUT",
            Self::Output => "OUTPUT",
        }
    }

    /// The chain of one agent's rules there.
    #[must_use]
    pub fn chain_of(self, instance: &str) -> String {
        format!("{}_{instance}", self.nft())
    }
}

/// Says that an agent has rules in the namespace, whatever put them in, while it lives.
#[derive(Debug)]
pub struct Holder(Option<Claim>);

/// The right to change what all share; others wait.
#[derive(Debug)]
pub struct Turn(Option<Claim>);

impl Turn {
    /// Waits for it, but not for ever. Whoever does not get it changes nothing that concerns others.
    #[must_use]
    pub fn take() -> Self {
        Self(Claim::take(TURN, TURN_ATTEMPTS).ok().flatten())
    }

    /// From now on the agent has rules.
    #[must_use]
    pub fn hold(&self, instance: &str) -> Holder {
        Holder(Claim::take(&format!("{HOLDERS}{instance}"), 1).ok().flatten())
    }

    /// Deletes the table if no agent has rules any more. Its own are out already.
    pub fn let_go(&self, holder: Holder) {
        drop(holder.0);
        // Where nobody can say whether others live, the empty chains stay.
        if self.0.is_some() && any_begins_with(HOLDERS).is_ok_and(|others| !others) {
            // Most likely there is none: every agent had its rules by iptables.
            let _ = run("nft", &["delete", "table", "inet", TABLE]);
        }
    }
}

/// Takes the rules of one agent out, and leaves the base chains; true if there were any.
///
/// # Errors
/// What nft said.
pub fn take_out(instance: &str) -> Result<bool, CommandError> {
    let listing = run("nft", &["-a", "list", "table", "inet", TABLE])?;
    let Some(script) = removal(&listing, instance) else { return Ok(false) };
    run_with_input("nft", &["-f", "-"], &script).map(|_| true)
}

/// The script that takes the jumps and chains of one agent out, as one change; `None` if a listing of the
/// table by `nft -a` has none of them.
#[must_use]
pub fn removal(listing: &str, instance: &str) -> Option<String> {
    let own = Hook::ALL.map(|hook| hook.chain_of(instance));
    let (mut jumps, mut chains) = (String::new(), String::new());
    for (chain, line) in in_chains(listing) {
        let (text, handle) = line.split_once(" # handle ").unwrap_or((line, ""));
        // Writing to a string cannot fail.
        if text.strip_prefix("jump ").is_some_and(|to| own.iter().any(|own| own == to)) {
            let _ = writeln!(jumps, "delete rule inet {TABLE} {chain} handle {handle}");
        } else if opens_chain(text).is_some() && own.iter().any(|own| own == chain) {
            let _ = writeln!(chains, "flush chain inet {TABLE} {chain}\ndelete chain inet {TABLE} {chain}");
        }
    }
    let script = jumps + &chains;
    (!script.is_empty()).then_some(script)
}

/// The lines of a table that nft lists, or of a script in the same form, each with the chain that it stands
/// in.
pub fn in_chains(listing: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut chain = "";
    listing.lines().map(str::trim).map(move |line| {
        if let Some(name) = opens_chain(line) {
            chain = name;
        }
        (chain, line)
    })
}

/// The name of the chain that a line opens.
fn opens_chain(line: &str) -> Option<&str> {
    line.strip_prefix("chain ")?.split_once(" {").map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As nft 1.0.6 lists it, with queues in the place of what the development kernel has none of.
    const LISTING: &str = "table inet linkhold { # handle 1
\tchain forward_a { # handle 1
\t\tiifname \"eth0\" oifname \"wlan0\" meta l4proto tcp queue flags bypass to 100 # handle 3
\t}

\tchain forward { # handle 2
\t\ttype filter hook forward priority mangle; policy accept;
\t\tjump forward_a # handle 4
\t\tjump forward_ab # handle 7
\t}

\tchain forward_ab { # handle 5
\t\tiifname \"eth0\" oifname \"wlan1\" meta l4proto tcp queue flags bypass to 200 # handle 6
\t}
}
";

    #[test]
    fn an_agents_rules_go_without_those_of_others_and_without_the_hook() {
        let script = removal(LISTING, "a").unwrap();
        assert_eq!(
            script,
            "delete rule inet linkhold forward handle 4\n\
             flush chain inet linkhold forward_a\n\
             delete chain inet linkhold forward_a\n"
        );
        assert!(removal(LISTING, "ab").unwrap().contains("handle 7\nflush chain inet linkhold forward_ab\n"));
        assert_eq!(removal(LISTING, "b"), None);
        assert_eq!(removal("", "a"), None);
    }

    /// A start that was interrupted again and again leaves more than one jump.
    #[test]
    fn every_jump_goes() {
        let twice = LISTING.replace("jump forward_ab # handle 7", "jump forward_a # handle 9");
        let script = removal(&twice, "a").unwrap();
        assert!(script.starts_with(
            "delete rule inet linkhold forward handle 4\ndelete rule inet linkhold forward handle 9\n"
        ));
    }
}
