//! The firewall rules that bring packets to the queues, and their removal.
//!
//! Forwarded TCP between a wired and a radio interface, and UDP where a mechanism wants datagrams, goes to an
//! NFQUEUE, with bypass: while no agent listens, packets pass. Nothing else is queued: ICMP and its errors
//! pass. Fragments of datagrams are queued and pass unread. On a host it is the TCP that comes in and goes
//! out by a radio interface (INPUT and OUTPUT), less what carries the mark of the agent's own packets, which
//! pass OUTPUT like any other. The rules use nftables' `queue` statement where the kernel has it, and
//! `-j NFQUEUE` of iptables and ip6tables otherwise. The agent tries which of them works, and logs it.
//!
//! A packet that comes back from the queue, or passes it by the bypass, goes on with the kernel's next hook
//! function (`nf_reinject`, `nf_hook_slow`), not with the next rule. Behind the jump to the agent's chain,
//! the rest of iptables' mangle chain is therefore skipped, whether an agent listens or not. The jump is
//! appended, so rules that were there first still apply, as a clamp of TCP's segment size must. nftables'
//! table is a hook function of its own and hides nobody's rules. The agents of a network namespace share it
//! ([`shared_table`](super::shared_table)).
//!
//! Everything else has a name of this instance (chains `forward_<instance>` and others of nftables,
//! `LINKHOLD-<instance>` of iptables), so that rules an agent left behind are found and removed by the next
//! start.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::shared_table::{self, Holder, Hook, TABLE, Turn, in_chains};
use crate::command::{CommandError, is_installed, run, run_with_input};

/// Longest instance name: an iptables chain name has 28 characters.
pub const MAX_INSTANCE_NAME: usize = 16;
/// So long the removal of the rules may take, less than the services' `TimeoutStopSec`. It takes
/// milliseconds, or a second on a slow processor, unless another program has the firewall locked.
pub const REMOVAL_LIMIT: Duration = Duration::from_secs(4);
/// So often the removal begins again with what is there then.
const REMOVAL_ATTEMPTS: usize = 3;
/// How often whoever waits for the removal can do something else.
const REMOVAL_PAUSE: Duration = Duration::from_millis(500);
/// What a bridged datagram must be to be queued. A bridge floods a broadcast or a group's datagram as clones
/// that share one entry of conntrack, and while that is unconfirmed the kernel drops such a clone in place of
/// queueing it. Source: Linux, net/netfilter/nfnetlink_queue.c (`nf_ct_drop_unconfirmed`, commit
/// 7d8dc1c7be8d); net/bridge/br_netfilter_hooks.c (`br_nf_forward`) makes unicast what is for another host.
const UNICAST: &str = "-m pkttype --pkt-type unicast ";
/// Priority of the chains: the mangle table's, before filtering.
const PRIORITY: i32 = -150;

/// The program and statement that put the rules into the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// nftables with its own `queue` statement.
    Nftables,
    /// nftables for what is routed; iptables for what crosses a bridge, because a radio was put into one
    /// after the agent's start. No packet meets both: a bridged one has the bridge's name to nftables, and a
    /// routed one is not bridged to iptables.
    Both {
        /// As below.
        ipv6: bool,
    },
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
            Self::Both { ipv6: true } => "nftables, bridges by iptables",
            Self::Both { ipv6: false } => "nftables, bridges by iptables (IPv4 only)",
            Self::Iptables { ipv6: true } => "iptables",
            Self::Iptables { ipv6: false } => "iptables (IPv4 only)",
        }
    }

    /// The programs that put its rules in.
    const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Nftables => &["nft"],
            Self::Both { ipv6: true } => &["nft", "iptables", "ip6tables"],
            Self::Both { ipv6: false } => &["nft", "iptables"],
            Self::Iptables { ipv6: true } => &["iptables", "ip6tables"],
            Self::Iptables { ipv6: false } => &["iptables"],
        }
    }

    /// True if IPv6 flows pass unmanaged.
    #[must_use]
    pub const fn lacks_ipv6(self) -> bool {
        matches!(self, Self::Both { ipv6: false } | Self::Iptables { ipv6: false })
    }

    /// The crossings whose rules are iptables'.
    const fn by_iptables(self) -> Part {
        match self {
            Self::Nftables | Self::Both { .. } => Part::Bridged,
            Self::Iptables { .. } => Part::All,
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

/// Whose packets are queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// What a router forwards.
    Forwarded,
    /// A host's own.
    Own {
        /// Packets with this mark are the agent's, and pass.
        mark: u32,
    },
}

impl Traffic {
    const fn hooks(self) -> &'static [Hook] {
        match self {
            Self::Forwarded => &[Hook::Forward],
            Self::Own { .. } => &[Hook::Input, Hook::Output],
        }
    }
}

/// What to queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// Name of the agent's instance: letters, digits, `_`.
    pub instance: String,
    /// Interfaces towards correspondent hosts.
    pub wired: Vec<String>,
    /// Interfaces towards stations, each a radio with two queues of its own.
    pub radio: Vec<String>,
    /// Downlink queue of the first radio; its uplink queue is the next number, and each further radio has the
    /// two numbers after that.
    pub queue: u16,
    /// Whose packets are queued.
    pub traffic: Traffic,
    /// UDP is queued as well.
    pub datagrams: bool,
    /// Wired and radio interfaces that are ports of one bridge: what crosses between them is bridged, not
    /// routed, and so is matched by port (`physdev`).
    pub bridged: BTreeSet<(String, String)>,
}

/// Some of a set's crossings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    All,
    /// Those within a bridge.
    Bridged,
}

/// What one rule matches, and its queue.
struct Crossing<'a> {
    from: &'a str,
    to: &'a str,
    queue: u16,
    bridged: bool,
}

/// What one rule of a host matches, and its queue.
struct Own<'a> {
    radio: &'a str,
    hook: Hook,
    queue: u16,
}

impl RuleSet {
    /// The rules as an nft script, put in as one change: chains of their own, and the jumps to these from
    /// base chains that may be there already. Bridged pairs are left out, because nftables' `inet` family
    /// does not know a bridge's ports.
    #[must_use]
    pub fn nft_script(&self) -> String {
        let mut script = self.nft_chains();
        for hook in self.traffic.hooks() {
            let (name, chain) = (hook.nft(), hook.chain_of(&self.instance));
            // Writing to a string cannot fail.
            let _ = writeln!(
                script,
                " chain {name} {{\n  type filter hook {name} priority {PRIORITY}; policy accept;\n  jump {chain}\n }}"
            );
        }
        script.push_str("}\n");
        script
    }

    /// The same rules in the place of those that are in the chains. Jumps and base chains stay.
    #[must_use]
    pub fn nft_replacement(&self) -> String {
        let flush = |hook: &Hook| format!("flush chain inet {TABLE} {}\n", hook.chain_of(&self.instance));
        let flushes: String = self.traffic.hooks().iter().map(flush).collect();
        flushes + &self.nft_trial()
    }

    /// The chains and rules alone: no base chain, and nothing that leads to them.
    #[must_use]
    pub fn nft_trial(&self) -> String {
        self.nft_chains() + "}\n"
    }

    /// The chains and their rules, in a table that is not closed yet.
    fn nft_chains(&self) -> String {
        let mut script = format!("table inet {TABLE} {{\n");
        let transport = if self.datagrams { "{ tcp, udp }" } else { "tcp" };
        for &hook in self.traffic.hooks() {
            // Writing to a string cannot fail.
            let _ = writeln!(script, " chain {} {{", hook.chain_of(&self.instance));
            match self.traffic {
                Traffic::Forwarded => {
                    for Crossing { from, to, queue, .. } in
                        self.crossings().filter(|crossing| !crossing.bridged)
                    {
                        let _ = writeln!(
                            script,
                            "  iifname \"{from}\" oifname \"{to}\" meta l4proto {transport} queue flags bypass to {queue}"
                        );
                    }
                }
                Traffic::Own { mark } => {
                    for Own { radio, queue, .. } in self.own().filter(|own| own.hook == hook) {
                        let side = if hook == Hook::Input { "iifname" } else { "oifname" };
                        let _ = writeln!(
                            script,
                            "  {side} \"{radio}\" meta l4proto {transport} meta mark != {mark} queue flags bypass to {queue}"
                        );
                    }
                }
            }
            script.push_str(" }\n");
        }
        script
    }

    /// The rules in the language of iptables-restore and ip6tables-restore: a chain of their own and the
    /// jumps to it.
    fn iptables_script(&self, part: Part) -> String {
        let chain = chain_name(&self.instance);
        let mut script = self.iptables_chain(part);
        for hook in self.traffic.hooks() {
            // Writing to a string cannot fail.
            let _ = writeln!(script, "-A {} -j {chain}", hook.iptables());
        }
        script.push_str("COMMIT\n");
        script
    }

    /// The same rules in the place of those that are in the chain: it is named, so it is emptied first, also
    /// with `--noflush` (iptables-restore(8)). The jumps stay as they are, so that somebody who took them out
    /// does not find them in again.
    fn iptables_replacement(&self, part: Part) -> String {
        self.iptables_chain(part) + "COMMIT\n"
    }

    /// The chain and its rules, in a table that is not committed yet.
    fn iptables_chain(&self, part: Part) -> String {
        let chain = chain_name(&self.instance);
        let mut script = format!("*mangle\n:{chain} - [0:0]\n");
        // Writing to a string cannot fail.
        match self.traffic {
            Traffic::Forwarded => {
                let is_here = |crossing: &Crossing<'_>| crossing.bridged || part == Part::All;
                for Crossing { from, to, queue, bridged } in self.crossings().filter(is_here) {
                    let crosses = if bridged {
                        format!("-m physdev --physdev-is-bridged --physdev-in {from} --physdev-out {to}")
                    } else {
                        format!("-i {from} -o {to}")
                    };
                    for &transport in self.transports() {
                        let only = if bridged && transport == "udp" { UNICAST } else { "" };
                        let _ = writeln!(
                            script,
                            "-A {chain} {crosses} -p {transport} {only}-j NFQUEUE --queue-num {queue} --queue-bypass"
                        );
                    }
                }
            }
            Traffic::Own { mark } => {
                // One chain for both hooks: what comes in has no interface to go out by, and the other way
                // round.
                for Own { radio, queue, hook } in self.own() {
                    let side = if hook == Hook::Input { "-i" } else { "-o" };
                    for transport in self.transports() {
                        let _ = writeln!(
                            script,
                            "-A {chain} {side} {radio} -p {transport} -m mark ! --mark {mark} -j NFQUEUE --queue-num {queue} --queue-bypass"
                        );
                    }
                }
            }
        }
        script
    }

    /// True if a listing of the table by nft has every rule and every jump to them.
    fn stands_in_nft(&self, listing: &str) -> bool {
        let stands = |hook: &Hook| {
            let own = hook.chain_of(&self.instance);
            let rules = |text: &str| {
                let is_rule = |(chain, line): &(&str, &str)| *chain == own && line.contains(" queue ");
                in_chains(text).filter(is_rule).count()
            };
            let jump = |(chain, line): (&str, &str)| {
                chain == hook.nft() && line.strip_prefix("jump ").is_some_and(|to| to == own)
            };
            rules(listing) >= rules(&self.nft_script()) && in_chains(listing).any(jump)
        };
        self.traffic.hooks().iter().all(stands)
    }

    /// True if a listing of the mangle table by `iptables -S` has every rule and every jump to them.
    fn stands_in_iptables(&self, listing: &str, part: Part) -> bool {
        let chain = chain_name(&self.instance);
        let own = format!("-A {chain} ");
        let rules = |text: &str| text.lines().filter(|line| line.starts_with(&own)).count();
        let jumps = |hook: &Hook| {
            let jump = format!("-A {} -j {chain}", hook.iptables());
            listing.lines().any(|line| line.trim_end() == jump)
        };
        rules(listing) >= rules(&self.iptables_script(part)) && self.traffic.hooks().iter().all(jumps)
    }

    /// What is queued, as iptables calls it.
    const fn transports(&self) -> &'static [&'static str] {
        if self.datagrams { &["tcp", "udp"] } else { &["tcp"] }
    }

    /// Every radio of a host, both ways.
    fn own(&self) -> impl Iterator<Item = Own<'_>> {
        let downlinks = (self.queue..=u16::MAX).step_by(2);
        self.radio.iter().zip(downlinks).flat_map(|(radio, downlink)| {
            let own = |hook, queue| Own { radio, hook, queue };
            [own(Hook::Input, downlink), own(Hook::Output, downlink.wrapping_add(1))]
        })
    }

    /// Every wired with every radio interface, both ways.
    fn crossings(&self) -> impl Iterator<Item = Crossing<'_>> {
        let pairs = self.wired.iter().flat_map(|wired| {
            let downlinks = (self.queue..=u16::MAX).step_by(2);
            self.radio.iter().zip(downlinks).map(move |(radio, downlink)| (wired, radio, downlink))
        });
        pairs.flat_map(|(wired, radio, downlink)| {
            let bridged = self.bridged.contains(&(wired.clone(), radio.clone()));
            let crossing = |from, to, queue| Crossing { from, to, queue, bridged };
            [crossing(wired, radio, downlink), crossing(radio, wired, downlink.wrapping_add(1))]
        })
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
    /// nftables alone is insisted on, and a radio is bridged.
    #[error(
        "a bridged radio needs iptables, whose physdev match knows a bridge's ports: set `datapath.backend` to \"auto\" or \"iptables\""
    )]
    BridgeNeedsIptables,
    /// The rules were refused.
    #[error("the agent's rules cannot be set: {0}")]
    Refused(String),
}

/// Why rules were not replaced.
#[derive(Debug, thiserror::Error)]
pub enum NotReplaced {
    /// Another program changes the firewall, and has it locked for long.
    #[error("another program has the firewall locked, and `{0}` cannot change it")]
    Locked(&'static str),
    /// The rules were refused.
    #[error(transparent)]
    Refused(#[from] RulesError),
}

/// Rules in the kernel; removed on drop.
#[derive(Debug)]
pub struct Rules {
    backend: Backend,
    instance: String,
    hooks: &'static [Hook],
    /// Until they are out.
    holder: Option<Holder>,
}

impl Rules {
    /// Puts the rules in by a backend that [`prepare`] found to work.
    ///
    /// # Errors
    /// [`RulesError`] if the rules are refused; none is left behind then.
    pub fn install(set: &RuleSet, backend: Backend) -> Result<Self, RulesError> {
        let turn = Turn::take();
        // From here on a failure removes what is there already.
        let (instance, hooks) = (set.instance.clone(), set.traffic.hooks());
        let rules = Self { backend, holder: Some(turn.hold(&instance)), instance, hooks };
        let put_in = rules.put_in(set);
        // Whoever drops the rules takes a turn.
        drop(turn);
        put_in?;
        tracing::info!(backend = backend.name(), queue = set.queue, "packets go to the queue");
        Ok(rules)
    }

    fn put_in(&self, set: &RuleSet) -> Result<(), RulesError> {
        let programs = self.backend.programs();
        if programs.contains(&"nft") {
            run_with_input("nft", &["-f", "-"], &set.nft_script()).map_err(refused("nft"))?;
        }
        let script = set.iptables_script(self.backend.by_iptables());
        for program in programs.iter().filter_map(|program| restore_of(program)) {
            restore(program, &script).map_err(refused(program))?;
        }
        Ok(())
    }

    /// The backend that put the rules in.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// [`replace`] put rules in by this backend.
    pub fn note_backend(&mut self, backend: Backend) {
        self.backend = backend;
    }
}

impl Rules {
    /// Removes the rules, but waits no longer than this for a firewall that another program has locked: a
    /// service manager would kill the agent midway. What is left then is told, with the commands that remove
    /// it. `meanwhile` is called about twice a second.
    pub fn remove(mut self, limit: Duration, meanwhile: impl FnMut()) {
        self.take_out(limit, meanwhile);
    }

    fn take_out(&mut self, limit: Duration, mut meanwhile: impl FnMut()) {
        let Some(holder) = self.holder.take() else { return };
        let (backend, instance) = (self.backend, self.instance.clone());
        let (tell, is_done) = sync_channel(1);
        let work = move || {
            remove_rules(backend, &instance, holder);
            // Nobody listens any more where it took too long.
            let _ = tell.send(());
        };
        if let Err(error) = std::thread::Builder::new().name("removal".to_owned()).spawn(work) {
            tracing::warn!(%error, "the rules are not removed: {}", self.remedy());
            return;
        }
        let begun = Instant::now();
        loop {
            let left = limit.saturating_sub(begun.elapsed());
            match is_done.recv_timeout(left.min(REMOVAL_PAUSE)) {
                Err(RecvTimeoutError::Timeout) if !left.is_zero() => meanwhile(),
                Err(RecvTimeoutError::Timeout) => break,
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        tracing::warn!(
            "the rules are not removed in time, because another program has the firewall locked or this machine is slow: {}",
            self.remedy()
        );
    }

    /// What removes the rules, in words.
    fn remedy(&self) -> String {
        let chain = chain_name(&self.instance);
        let commands = self.backend.programs().iter().flat_map(|program| {
            if *program == "nft" {
                let table = format!("`nft delete table inet {TABLE}`, once no other agent runs here");
                return vec![table];
            }
            let jumps = self.hooks.iter().map(|hook| format!("-D {} -j {chain}", hook.iptables()));
            let steps = jumps.chain([format!("-F {chain}"), format!("-X {chain}")]);
            steps.map(|step| format!("`{program} -t mangle {step}`")).collect()
        });
        let commands = commands.collect::<Vec<_>>().join(", ");
        format!(
            "the next start of this agent removes what is left, or {commands} (docs/router.md, Uninstall)"
        )
    }
}

impl Drop for Rules {
    fn drop(&mut self) {
        self.take_out(REMOVAL_LIMIT, || {});
    }
}

fn remove_rules(backend: Backend, instance: &str, holder: Holder) {
    let turn = Turn::take();
    for program in backend.programs() {
        if *program != "nft" {
            remove_iptables(program, instance);
        } else if let Err(error) = shared_table::take_out(instance)
            && let Some(error) = in_words_of_removal("nft", &error)
        {
            tracing::warn!("could not remove the rules from the nftables table {TABLE}: {error}");
        }
    }
    turn.let_go(holder);
}

/// Replaces the rules by those of `set`, in one transaction of each firewall program, and answers by which
/// backend they are in now: where a radio was put into a bridge, iptables joins nftables. A packet meets the
/// old rules or the new ones: what both queue never passes the queue by, and so overtakes nothing. It runs
/// programs, which take milliseconds, and many seconds where another program has the firewall locked.
///
/// # Errors
/// [`NotReplaced`] if a program refuses or cannot; its old rules are in then.
pub fn replace(set: &RuleSet, backend: Backend) -> Result<Backend, NotReplaced> {
    let programs = backend.programs();
    if programs.contains(&"nft") {
        run_with_input("nft", &["-f", "-"], &set.nft_replacement()).map_err(not_replaced)?;
    }
    let script = set.iptables_replacement(backend.by_iptables());
    for program in programs.iter().filter_map(|program| restore_of(program)) {
        restore(program, &script).map_err(locked_or_refused(program))?;
    }
    let backend = match backend {
        Backend::Nftables if !set.bridged.is_empty() => join_iptables(set)?,
        _ => backend,
    };
    tracing::info!(backend = backend.name(), "the rules follow a change of the bridges");
    Ok(backend)
}

/// Puts the rules of bridged crossings in by iptables, beside nftables' for the others. After a failure there
/// are none of them.
fn join_iptables(set: &RuleSet) -> Result<Backend, NotReplaced> {
    let script = set.iptables_script(Part::Bridged);
    let put_in = || -> Result<Backend, NotReplaced> {
        restore("iptables-restore", &script).map_err(locked_or_refused("iptables-restore"))?;
        let ipv6 = match restore("ip6tables-restore", &script) {
            Ok(()) => true,
            Err(error) => match locked_or_refused("ip6tables-restore")(error) {
                NotReplaced::Refused(error) => {
                    tracing::warn!(%error, "IPv6 flows across the bridge pass unmanaged");
                    false
                }
                locked @ NotReplaced::Locked(_) => return Err(locked),
            },
        };
        Ok(Backend::Both { ipv6 })
    };
    put_in().inspect_err(|_| {
        for program in (Backend::Both { ipv6: true }).programs() {
            if *program != "nft" {
                remove_iptables(program, &set.instance);
            }
        }
    })
}

/// The firewall programs whose rules of this set are gone from the kernel, all or some: somebody flushed
/// them, or loaded others in their place. None where nobody can say. It runs programs, which takes
/// milliseconds.
#[must_use]
pub fn lost(set: &RuleSet, backend: Backend) -> Vec<&'static str> {
    let stands = |program: &str| match program {
        "nft" => run("nft", &["list", "table", "inet", TABLE]).map(|listing| set.stands_in_nft(&listing)),
        _ => {
            iptables(program, &["-S"]).map(|listing| set.stands_in_iptables(&listing, backend.by_iptables()))
        }
    };
    let is_lost = |program: &&str| match stands(program) {
        Ok(stands) => !stands,
        Err(error) => plainly(program, &error).is_err_and(|said| is_gone(program, &said)),
    };
    backend.programs().iter().copied().filter(is_lost).collect()
}

/// Removes what an earlier agent of this instance left, and finds a backend that works for these rules. Call
/// it before the queue is opened: rules that were left would fill the queue while nobody reads it.
///
/// # Errors
/// [`RulesError::NoBackend`] with what each of them said, or [`RulesError::BridgeNeedsIptables`].
pub fn prepare(set: &RuleSet, choice: BackendChoice) -> Result<Backend, RulesError> {
    let instance = &set.instance;
    if remove_stale(instance) {
        tracing::warn!(instance, "removed rules that an earlier agent left behind");
    }
    match choice {
        _ if set.bridged.is_empty() => probe(instance, choice),
        BackendChoice::Auto | BackendChoice::Iptables => probe(instance, BackendChoice::Iptables),
        BackendChoice::Nftables => Err(RulesError::BridgeNeedsIptables),
    }
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
            Err(error) => in_words("nft", &error),
        },
    };
    let iptables = match choice {
        BackendChoice::Nftables => "not asked for".to_owned(),
        BackendChoice::Auto | BackendChoice::Iptables => match probe_iptables("iptables", instance) {
            Ok(()) => {
                if choice == BackendChoice::Auto {
                    tracing::info!(reason = nftables, "nftables cannot queue packets here, iptables can");
                }
                let refusal = ipv6_refusal(instance);
                if let Some(reason) = &refusal {
                    tracing::warn!(reason, "ip6tables does not work here: IPv6 flows pass unmanaged");
                }
                return Ok(Backend::Iptables { ipv6: refusal.is_none() });
            }
            Err(error) => in_words("iptables", &error),
        },
    };
    Err(RulesError::NoBackend { nftables, iptables })
}

/// Why ip6tables cannot queue packets here; `None` if it can.
#[must_use]
pub fn ipv6_refusal(instance: &str) -> Option<String> {
    probe_iptables("ip6tables", instance).err().map(|error| in_words("ip6tables", &error))
}

fn refused(program: &'static str) -> impl FnOnce(CommandError) -> RulesError {
    move |error| RulesError::Refused(in_words(program, &error))
}

/// The same, where it is worth another try if the firewall was locked.
fn locked_or_refused(program: &'static str) -> impl FnOnce(CommandError) -> NotReplaced {
    move |error| match &error {
        CommandError::TimedOut { .. } => NotReplaced::Locked(program),
        // As iptables of the legacy back end says it.
        CommandError::Failed { message, .. } if message.contains("xtables lock") => {
            NotReplaced::Locked(program)
        }
        _ => refused(program)(error).into(),
    }
}

/// Why nft did not replace the rules in its table.
fn not_replaced(error: CommandError) -> RulesError {
    match plainly("nft", &error) {
        Err(said) if is_gone("nft", &said) => RulesError::Refused("somebody flushed them".to_owned()),
        Ok(_) | Err(_) => refused("nft")(error),
    }
}

/// What a firewall program's failure to put rules in means. What the program itself said, with its positions
/// and file names, goes to the debug log.
fn in_words(program: &str, error: &CommandError) -> String {
    let said = match plainly(program, error) {
        Ok(words) => return words,
        Err(said) => said,
    };
    let says = |parts: &[&str]| parts.iter().any(|part| said.contains(part));
    if program == "nft" && says(&["no such file or directory", "not supported", "could not process"]) {
        "this kernel has no `queue` statement (module nft_queue)".to_owned()
    } else if says(&["table does not exist"]) {
        let module = if program.starts_with("ip6") { "ip6table_mangle" } else { "iptable_mangle" };
        format!("this kernel has no mangle table (module {module})")
    } else if says(&["can't open lock file"]) {
        format!("`{program}` cannot open its lock file, /run/xtables.lock: `touch /run/xtables.lock`")
    } else if says(&["physdev"]) {
        "this kernel does not match a bridge's ports (module xt_physdev)".to_owned()
    } else if says(&["pkttype"]) {
        "this kernel does not tell broadcasts from other datagrams (module xt_pkttype), which UDP across a bridge needs; \
         `datagrams = \"pass\"` under [mechanism] does without"
            .to_owned()
    } else if says(&["missing kernel module", "no chain/target/match", "not supported", "does not exist"]) {
        "this kernel has no NFQUEUE target (module xt_NFQUEUE)".to_owned()
    } else {
        format!("`{program}` refuses the rules; LINKHOLD_LOG=debug shows its words")
    }
}

/// What a firewall program's failure to remove rules means; `None` where there was nothing left to remove,
/// because somebody flushed the firewall.
fn in_words_of_removal(program: &str, error: &CommandError) -> Option<String> {
    match plainly(program, error) {
        Ok(words) => Some(words),
        Err(said) if is_gone(program, &said) => None,
        Err(_) => Some(format!("`{program}` refuses; LINKHOLD_LOG=debug shows its words")),
    }
}

/// What a failure of any firewall program means, whatever it was to do; otherwise what the program said, in
/// lower case.
fn plainly(program: &str, error: &CommandError) -> Result<String, String> {
    tracing::debug!(program, %error, "a firewall program failed");
    let said = match error {
        error if error.is_missing_program() => return Ok(format!("`{program}` is not installed")),
        CommandError::Start { source, .. } => return Ok(format!("`{program}` cannot be run ({source})")),
        CommandError::TimedOut { .. } => return Ok(format!("`{program}` did not end in time")),
        CommandError::Failed { message, .. } => message.to_lowercase(),
    };
    if ["not permitted", "permission denied", "must be root"].iter().any(|part| said.contains(part)) {
        return Ok("no right to change the firewall (CAP_NET_ADMIN)".to_owned());
    }
    Err(said)
}

/// True if a program says, in lower case, that there is no such table or chain.
fn is_gone(program: &str, said: &str) -> bool {
    match program {
        "nft" => said.contains("no such file or directory"),
        _ => said.contains("no chain/target/match") || said.contains("does not exist"),
    }
}

/// Finds out whether the kernel knows nftables' `queue`. `nft --check` asks the kernel without changing
/// anything, but the kernel puts in what it is asked of and takes it out again: with a base chain among it,
/// that would cost every other agent what it holds.
fn probe_nftables(instance: &str) -> Result<(), CommandError> {
    let set = RuleSet {
        instance: instance.to_owned(),
        wired: vec!["lo".to_owned()],
        radio: vec!["lo".to_owned()],
        queue: 0,
        traffic: Traffic::Forwarded,
        datagrams: true,
        bridged: BTreeSet::new(),
    };
    run_with_input("nft", &["--check", "-f", "-"], &set.nft_trial()).map(|_| ())
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

fn chain_name(instance: &str) -> String {
    format!("LINKHOLD-{instance}")
}

fn iptables(program: &str, args: &[&str]) -> Result<String, CommandError> {
    // Another program may hold the legacy back end's lock (xtables): wait for it, but not for ever.
    let mut all = vec!["-w", "10", "-t", "mangle"];
    all.extend_from_slice(args);
    run(program, &all)
}

/// The program that makes a script's changes for one of iptables; none for nft.
fn restore_of(program: &str) -> Option<&'static str> {
    match program {
        "iptables" => Some("iptables-restore"),
        "ip6tables" => Some("ip6tables-restore"),
        _ => None,
    }
}

/// Makes a script's changes as one: there is never half of them, and one program is faster than six. What the
/// script does not name stays.
fn restore(program: &str, script: &str) -> Result<(), CommandError> {
    run_with_input(program, &["--noflush", "--wait", "10"], script).map(|_| ())
}

/// Removes the chain and the jumps to it as one change, in two programs' time: on a slow processor every
/// program takes a tenth of a second and more, and [`REMOVAL_LIMIT`] is for all of them. True if there was
/// one. What cannot be removed is warned of: no agent that is asked to end leaves rules without a word.
fn remove_iptables(program: &str, instance: &str) -> bool {
    let Some(restorer) = restore_of(program) else { return false };
    let chain = chain_name(instance);
    let (mut found, mut trouble) = (false, None);
    for _ in 0..REMOVAL_ATTEMPTS {
        let removed = iptables(program, &["-S"]).and_then(|listing| {
            let Some(script) = iptables_removal(&listing, &chain) else { return Ok(()) };
            found = true;
            // Somebody who changes these rules between the two programs makes this one refuse, and is seen in
            // the next listing.
            restore(restorer, &script)
        });
        match removed {
            Ok(()) => return found,
            Err(error) if error.is_missing_program() => return found,
            Err(error) => trouble = in_words_of_removal(program, &error),
        }
    }
    if let Some(error) = trouble {
        tracing::warn!(
            "could not remove the chain {chain}: {error}; packets pass it, but skip the rules behind it: remove it with \
             `{program} -t mangle -D FORWARD -j {chain}`, -F and -X (docs/router.md, Uninstall)"
        );
    }
    found
}

/// The script that takes a chain out of the mangle table, and every jump to it that an agent makes: there are
/// several where installing was interrupted again and again. `None` if a listing has neither.
fn iptables_removal(listing: &str, chain: &str) -> Option<String> {
    let declared = format!("-N {chain}");
    let jumps = Hook::ALL.map(|hook| format!("-A {} -j {chain}", hook.iptables()));
    let lines = || listing.lines().map(str::trim_end);
    let mut script = "*mangle\n".to_owned();
    for jump in lines().filter(|line| jumps.iter().any(|jump| jump == line)) {
        // Writing to a string cannot fail.
        let _ = writeln!(script, "{}", jump.replacen("-A", "-D", 1));
    }
    let _ = write!(script, "-F {chain}\n-X {chain}\nCOMMIT\n");
    lines().any(|line| line == declared).then_some(script)
}

/// Removes what any earlier agent of this instance left, whatever backend it used; true if there was
/// something.
pub fn remove_stale(instance: &str) -> bool {
    let mut found = false;
    if is_installed("nft") {
        found |= shared_table::take_out(instance).unwrap_or(false);
        // An agent of version 0.1 had a table of its own.
        found |= run("nft", &["delete", "table", "inet", &format!("{TABLE}_{instance}")]).is_ok();
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

    fn set(bridged: &[(&str, &str)]) -> RuleSet {
        RuleSet {
            instance: "a".to_owned(),
            wired: vec!["eth0".to_owned()],
            radio: vec!["wlan0".to_owned(), "wlan1".to_owned()],
            queue: 100,
            traffic: Traffic::Forwarded,
            datagrams: false,
            bridged: bridged
                .iter()
                .map(|(wired, radio)| ((*wired).to_owned(), (*radio).to_owned()))
                .collect(),
        }
    }

    #[test]
    fn a_removal_takes_every_jump_to_the_own_chain_and_nothing_of_others() {
        let listing = "-P FORWARD ACCEPT\n-N LINKHOLD-a\n-N LINKHOLD-ab\n-A INPUT -j LINKHOLD-a\n\
            -A FORWARD -j LINKHOLD-ab\n-A FORWARD -j LINKHOLD-a\n-A FORWARD -i eth0 -j LINKHOLD-a\n\
            -A FORWARD -j LINKHOLD-a\n-A LINKHOLD-a -p tcp -j NFQUEUE --queue-num 7 --queue-bypass\n";
        let script = "*mangle\n-D INPUT -j LINKHOLD-a\n-D FORWARD -j LINKHOLD-a\n-D FORWARD -j LINKHOLD-a\n\
            -F LINKHOLD-a\n-X LINKHOLD-a\nCOMMIT\n";
        assert_eq!(iptables_removal(listing, "LINKHOLD-a").as_deref(), Some(script));
        assert_eq!(iptables_removal(listing, "LINKHOLD-b"), None);
    }

    #[test]
    fn every_pair_of_a_wired_and_a_radio_interface_has_a_rule_each_way_and_every_radio_its_queues() {
        assert_eq!(
            set(&[]).nft_script(),
            r#"table inet linkhold {
 chain forward_a {
  iifname "eth0" oifname "wlan0" meta l4proto tcp queue flags bypass to 100
  iifname "wlan0" oifname "eth0" meta l4proto tcp queue flags bypass to 101
  iifname "eth0" oifname "wlan1" meta l4proto tcp queue flags bypass to 102
  iifname "wlan1" oifname "eth0" meta l4proto tcp queue flags bypass to 103
 }
 chain forward {
  type filter hook forward priority -150; policy accept;
  jump forward_a
 }
}
"#
        );
        assert_eq!(
            set(&[]).iptables_script(Part::All),
            "*mangle
:LINKHOLD-a - [0:0]
-A LINKHOLD-a -i eth0 -o wlan0 -p tcp -j NFQUEUE --queue-num 100 --queue-bypass
-A LINKHOLD-a -i wlan0 -o eth0 -p tcp -j NFQUEUE --queue-num 101 --queue-bypass
-A LINKHOLD-a -i eth0 -o wlan1 -p tcp -j NFQUEUE --queue-num 102 --queue-bypass
-A LINKHOLD-a -i wlan1 -o eth0 -p tcp -j NFQUEUE --queue-num 103 --queue-bypass
-A FORWARD -j LINKHOLD-a
COMMIT
"
        );
    }

    /// A hook that is taken out costs every packet that waits in a queue; a second jump would queue packets
    /// twice.
    #[test]
    fn rules_are_replaced_without_touching_hooks_and_jumps() {
        let set = set(&[("eth0", "wlan1")]);
        assert_eq!(
            set.nft_replacement().lines().take(3).collect::<Vec<_>>(),
            ["flush chain inet linkhold forward_a", "table inet linkhold {", " chain forward_a {"]
        );
        for script in [set.nft_replacement(), set.nft_trial()] {
            assert!(!script.contains("hook") && !script.contains("jump"), "{script}");
        }
        let jump = "-A FORWARD -j LINKHOLD-a\n";
        assert!(set.iptables_script(Part::All).contains(jump));
        assert_eq!(set.iptables_replacement(Part::All), set.iptables_script(Part::All).replace(jump, ""));
    }

    #[test]
    fn datagrams_are_queued_where_they_are_wanted() {
        let both = RuleSet { datagrams: true, ..set(&[("eth0", "wlan1")]) };
        let nft = both.nft_script();
        assert!(
            nft.contains(
                "iifname \"wlan0\" oifname \"eth0\" meta l4proto { tcp, udp } queue flags bypass to 101\n"
            ),
            "{nft}"
        );
        let iptables = both.iptables_script(Part::All);
        for line in [
            "-A LINKHOLD-a -i wlan0 -o eth0 -p tcp -j NFQUEUE --queue-num 101 --queue-bypass\n",
            "-A LINKHOLD-a -i wlan0 -o eth0 -p udp -j NFQUEUE --queue-num 101 --queue-bypass\n",
            // A flooded clone would be dropped; a routed broadcast is none.
            "-A LINKHOLD-a -m physdev --physdev-is-bridged --physdev-in eth0 --physdev-out wlan1 -p udp \
             -m pkttype --pkt-type unicast -j NFQUEUE --queue-num 102 --queue-bypass\n",
        ] {
            assert!(iptables.contains(line), "{line}\n{iptables}");
        }
        assert_eq!(iptables.lines().count(), 12);
    }

    #[test]
    fn a_hosts_own_packets_are_queued_both_ways_but_not_the_agents() {
        let host = RuleSet { wired: Vec::new(), traffic: Traffic::Own { mark: 7 }, ..set(&[]) };
        assert_eq!(
            host.nft_script(),
            r#"table inet linkhold {
 chain input_a {
  iifname "wlan0" meta l4proto tcp meta mark != 7 queue flags bypass to 100
  iifname "wlan1" meta l4proto tcp meta mark != 7 queue flags bypass to 102
 }
 chain output_a {
  oifname "wlan0" meta l4proto tcp meta mark != 7 queue flags bypass to 101
  oifname "wlan1" meta l4proto tcp meta mark != 7 queue flags bypass to 103
 }
 chain input {
  type filter hook input priority -150; policy accept;
  jump input_a
 }
 chain output {
  type filter hook output priority -150; policy accept;
  jump output_a
 }
}
"#
        );
        assert_eq!(
            host.iptables_script(Part::All),
            "*mangle
:LINKHOLD-a - [0:0]
-A LINKHOLD-a -i wlan0 -p tcp -m mark ! --mark 7 -j NFQUEUE --queue-num 100 --queue-bypass
-A LINKHOLD-a -o wlan0 -p tcp -m mark ! --mark 7 -j NFQUEUE --queue-num 101 --queue-bypass
-A LINKHOLD-a -i wlan1 -p tcp -m mark ! --mark 7 -j NFQUEUE --queue-num 102 --queue-bypass
-A LINKHOLD-a -o wlan1 -p tcp -m mark ! --mark 7 -j NFQUEUE --queue-num 103 --queue-bypass
-A INPUT -j LINKHOLD-a
-A OUTPUT -j LINKHOLD-a
COMMIT
"
        );
    }

    #[test]
    fn ports_of_one_bridge_are_matched_by_port() {
        let script = set(&[("eth0", "wlan1")]).iptables_script(Part::All);
        for line in [
            "-A LINKHOLD-a -i eth0 -o wlan0 -p tcp -j NFQUEUE --queue-num 100 --queue-bypass\n",
            "-A LINKHOLD-a -m physdev --physdev-is-bridged --physdev-in eth0 --physdev-out wlan1 -p tcp \
             -j NFQUEUE --queue-num 102 --queue-bypass\n",
            "-A LINKHOLD-a -m physdev --physdev-is-bridged --physdev-in wlan1 --physdev-out eth0 -p tcp \
             -j NFQUEUE --queue-num 103 --queue-bypass\n",
        ] {
            assert!(script.contains(line), "{line}\n{script}");
        }
        assert_eq!(script.lines().count(), 8);
    }

    /// Beside nftables' rules for the other radio.
    #[test]
    fn beside_nftables_only_what_is_bridged_is_matched_by_port() {
        let set = set(&[("eth0", "wlan1")]);
        let backend = Backend::Both { ipv6: true };
        assert_eq!(
            set.iptables_script(backend.by_iptables()),
            "*mangle
:LINKHOLD-a - [0:0]
-A LINKHOLD-a -m physdev --physdev-is-bridged --physdev-in eth0 --physdev-out wlan1 -p tcp -j NFQUEUE --queue-num 102 --queue-bypass
-A LINKHOLD-a -m physdev --physdev-is-bridged --physdev-in wlan1 --physdev-out eth0 -p tcp -j NFQUEUE --queue-num 103 --queue-bypass
-A FORWARD -j LINKHOLD-a
COMMIT
"
        );
        let nft = set.nft_replacement();
        assert!(nft.contains("wlan0") && !nft.contains("wlan1"), "{nft}");
        let rules =
            Rules { backend, instance: "a".to_owned(), hooks: Traffic::Forwarded.hooks(), holder: None };
        let remedy = rules.remedy();
        for command in
            ["nft delete table inet linkhold", "iptables -t mangle -X LINKHOLD-a", "ip6tables -t mangle -F"]
        {
            assert!(remedy.contains(command), "{remedy}");
        }
    }

    #[test]
    fn rules_that_are_gone_are_missed_in_what_nft_lists() {
        let set = RuleSet { instance: "queue".to_owned(), ..set(&[]) };
        // As nft prints it.
        let rules: Vec<String> = [("eth0", "wlan0", 100), ("wlan0", "eth0", 101), ("eth0", "wlan1", 102)]
            .into_iter()
            .chain([("wlan1", "eth0", 103)])
            .map(|(from, to, queue)| {
                format!(
                    "\t\tiifname \"{from}\" oifname \"{to}\" meta l4proto tcp queue flags bypass to {queue}\n"
                )
            })
            .collect();
        let head = "\t\ttype filter hook forward priority mangle; policy accept;\n";
        let jumps = "\t\tjump forward_a\n\t\tjump forward_queue\n";
        let other = rules.concat();
        let listing = |rules: &[String], jumps: &str| {
            format!(
                "table inet linkhold {{\n\tchain forward_queue {{\n{}\t}}\n\n\tchain forward {{\n{head}{jumps}\t}}\n\n\
                 \tchain forward_a {{\n{other}\t}}\n}}\n",
                rules.concat()
            )
        };
        assert!(set.stands_in_nft(&listing(&rules, jumps)));
        assert!(!set.stands_in_nft(&listing(&rules[1..], jumps)), "one is gone, and another agent's are not");
        assert!(!set.stands_in_nft(&listing(&rules, "\t\tjump forward_a\n")), "nothing leads to them");
        assert!(!set.stands_in_nft(&listing(&[], "")), "`nft flush table` leaves the chains");
        assert!(!set.stands_in_nft(""));
    }

    #[test]
    fn rules_that_are_gone_are_missed_in_what_iptables_lists() {
        let set = set(&[("eth0", "wlan1")]);
        // As `iptables -S` prints it.
        let chains = "-P FORWARD ACCEPT\n-N LINKHOLD-a\n-N LINKHOLD-ab\n";
        let jumps = "-A FORWARD -j LINKHOLD-ab\n-A FORWARD -j LINKHOLD-a\n";
        let rules = "-A LINKHOLD-a -i eth0 -o wlan0 -p tcp -j NFQUEUE --queue-num 100 --queue-bypass
-A LINKHOLD-a -i wlan0 -o eth0 -p tcp -j NFQUEUE --queue-num 101 --queue-bypass
-A LINKHOLD-a -p tcp -m physdev --physdev-in eth0 --physdev-out wlan1 --physdev-is-bridged -j NFQUEUE --queue-num 102 --queue-bypass
-A LINKHOLD-a -p tcp -m physdev --physdev-in wlan1 --physdev-out eth0 --physdev-is-bridged -j NFQUEUE --queue-num 103 --queue-bypass
-A LINKHOLD-ab -i x -o y -p tcp -j NFQUEUE --queue-num 200 --queue-bypass
";
        assert!(set.stands_in_iptables(&[chains, jumps, rules].concat(), Part::All));
        assert!(
            !set.stands_in_iptables(&[chains, "-A FORWARD -j LINKHOLD-ab\n", rules].concat(), Part::All),
            "no jump"
        );
        assert!(!set.stands_in_iptables(chains, Part::All), "`iptables -F` leaves the chain");
        let (_, three) = rules.split_once('\n').unwrap();
        assert!(!set.stands_in_iptables(&[chains, jumps, three].concat(), Part::All), "a rule is gone");
        assert!(!set.stands_in_iptables("", Part::All));
    }

    #[test]
    fn what_removes_the_rest_is_said_for_every_program_and_hook() {
        let rules = |backend, hooks| Rules { backend, instance: "a".to_owned(), hooks, holder: None };
        let router = rules(Backend::Iptables { ipv6: true }, Traffic::Forwarded.hooks()).remedy();
        for command in ["-D FORWARD -j LINKHOLD-a", "-F LINKHOLD-a", "-X LINKHOLD-a"] {
            for program in ["iptables", "ip6tables"] {
                assert!(router.contains(&format!("`{program} -t mangle {command}`")), "{router}");
            }
        }
        let host = rules(Backend::Iptables { ipv6: false }, Traffic::Own { mark: 7 }.hooks()).remedy();
        assert!(host.contains("-D INPUT -j") && host.contains("-D OUTPUT -j"), "{host}");
        assert!(!host.contains("FORWARD") && !host.contains("ip6tables"), "{host}");
    }

    #[test]
    fn a_firewall_that_is_locked_is_worth_another_try() {
        let failed = |message: &str| CommandError::Failed {
            command: "iptables-restore --noflush --wait 10".to_owned(),
            status: "exit status: 4".to_owned(),
            message: message.to_owned(),
        };
        let error = |message| locked_or_refused("iptables-restore")(failed(message));
        let locked =
            "Another app is currently holding the xtables lock. Perhaps you want to use the -w option?";
        assert!(matches!(error(locked), NotReplaced::Locked("iptables-restore")));
        assert!(matches!(error("No chain/target/match by that name."), NotReplaced::Refused(_)));
    }

    #[test]
    fn what_a_firewall_program_says_is_put_in_words() {
        let failed = |message: &str| CommandError::Failed {
            command: "nft --check -f -".to_owned(),
            status: "exit status: 1".to_owned(),
            message: message.to_owned(),
        };
        let none =
            failed("/dev/stdin:4:47-72: Error: Could not process rule: No such file or directory\n  ^^^^^");
        assert_eq!(in_words("nft", &none), "this kernel has no `queue` statement (module nft_queue)");
        let root = failed("netlink: Error: cache initialization failed: Operation not permitted");
        assert_eq!(in_words("nft", &root), "no right to change the firewall (CAP_NET_ADMIN)");
        let target = failed(
            "iptables v1.8.9 (nf_tables): Extension NFQUEUE revision 0 not supported, missing kernel module?",
        );
        assert_eq!(in_words("iptables", &target), "this kernel has no NFQUEUE target (module xt_NFQUEUE)");
        let unicast = failed(
            "Extension pkttype revision 0 not supported, missing kernel module?\niptables-restore: line 4 failed",
        );
        let told = in_words("iptables", &unicast);
        assert!(told.contains("module xt_pkttype") && told.contains("`datagrams = \"pass\"`"), "{told}");
        // iptables' legacy back end.
        let table = failed(
            "ip6tables v1.8.9 (legacy): can't initialize ip6tables table `mangle': Table does not exist (do you need to insmod?)",
        );
        assert_eq!(in_words("ip6tables", &table), "this kernel has no mangle table (module ip6table_mangle)");
        let lock = failed("Fatal: can't open lock file /run/xtables.lock: Read-only file system");
        assert!(in_words("iptables", &lock).ends_with("`touch /run/xtables.lock`"));
        let other = failed("segmentation fault at /dev/stdin:3");
        assert_eq!(in_words("nft", &other), "`nft` refuses the rules; LINKHOLD_LOG=debug shows its words");
        let absent = run("linkhold-no-such-program", &[]).unwrap_err();
        assert_eq!(in_words("nft", &absent), "`nft` is not installed");
    }

    #[test]
    fn a_removal_that_fails_is_told_in_words_and_what_is_gone_already_is_not_told() {
        let failed = |message: &str| CommandError::Failed {
            command: "nft delete table inet linkhold".to_owned(),
            status: "exit status: 1".to_owned(),
            message: message.to_owned(),
        };
        let flushed = failed(
            "Error: No such file or directory\ndelete table inet linkhold\n                  ^^^^^^^^^^",
        );
        assert_eq!(in_words_of_removal("nft", &flushed), None);
        let flushed = failed("iptables v1.8.9 (nf_tables): No chain/target/match by that name.");
        assert_eq!(in_words_of_removal("iptables", &flushed), None);
        let right = failed("Error: Could not process rule: Operation not permitted\ndelete table\n^^^^");
        let told = in_words_of_removal("nft", &right);
        assert_eq!(told.as_deref(), Some("no right to change the firewall (CAP_NET_ADMIN)"));
        let busy =
            failed("iptables v1.8.9 (nf_tables):  CHAIN_DEL failed (Device or resource busy): chain X");
        let told = in_words_of_removal("iptables", &busy);
        assert_eq!(told.as_deref(), Some("`iptables` refuses; LINKHOLD_LOG=debug shows its words"));
    }
}
