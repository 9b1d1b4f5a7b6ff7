//! What this machine can run, and what to do about what it cannot: `linkhold doctor`.
//!
//! What must be tried is tried inside a namespace made for it, so the machine's own rules stay as they are.

use std::{fmt, io};

use serde::Serialize;

use crate::agent::AgentConfig;
use crate::agent::config::Seat;
use crate::agent::surroundings::Look;
use crate::command::is_installed;
use crate::datapath::crossing::absence;
use crate::datapath::nfqueue::{NfQueue, NfQueueConfig};
use crate::datapath::offload::{Offload, offloads};
use crate::datapath::rules::{BackendChoice, RulesError, ipv6_refusal, probe};
use crate::datapath::stacked::Weight;
use crate::host::kernel;
use crate::netns::NetNs;
use crate::rights::{CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN, Capability, Rights};

/// Name of the chains for trying.
const INSTANCE: &str = "doctor";
/// Queue number for trying; only seen inside the namespace made for it.
const TRIAL_QUEUE: u16 = 4710;
const SCHEMA: &str = "linkhold.doctor/1";
/// What helps who lacks a right.
const AS_ROOT: &str = "sudo linkhold doctor";

/// How a check went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It works.
    Works,
    /// It does not work, but something else does its work.
    Replaceable,
    /// It works, but not for all packets.
    Limited,
    /// It does not work, and nothing else does its work.
    Missing,
    /// It could not be tried.
    Unknown,
}

/// What a machine is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// `linkhold testbed`.
    Testbed,
    /// `linkhold host`.
    Host,
    /// `linkhold agent`.
    Agent,
}

impl Subject {
    /// In the order of a report's last lines.
    pub const ALL: [Self; 3] = [Self::Testbed, Self::Host, Self::Agent];

    /// As a report's last lines call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Testbed => "testbed",
            Self::Host => "host",
            Self::Agent => "agent",
        }
    }

    /// What a configuration is for.
    const fn of(config: &AgentConfig) -> Self {
        match config.seat {
            Seat::Router => Self::Agent,
            Seat::Host(_) => Self::Host,
        }
    }
}

/// What a check is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// `linkhold agent`, and `linkhold host` as well.
    Agent,
    /// `linkhold agent` alone: its configuration's interfaces are nothing to a host.
    #[serde(rename = "agent")]
    AgentAlone,
    /// `linkhold testbed`.
    Testbed,
    /// All.
    AgentAndTestbed,
    /// `linkhold host`, which also needs what the agent needs.
    Host,
}

impl Need {
    /// What needs the things of a configuration.
    fn of(config: &AgentConfig) -> Self {
        match Subject::of(config) {
            Subject::Agent => Self::AgentAlone,
            Subject::Host => Self::Host,
            Subject::Testbed => Self::Testbed,
        }
    }

    const fn concerns(self, subject: Subject) -> bool {
        match self {
            Self::Agent => matches!(subject, Subject::Agent | Subject::Host),
            Self::AgentAlone => matches!(subject, Subject::Agent),
            Self::Testbed => matches!(subject, Subject::Testbed),
            Self::AgentAndTestbed => true,
            Self::Host => matches!(subject, Subject::Host),
        }
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What.
    pub name: &'static str,
    /// What needs the thing.
    pub need: Need,
    /// The check's result.
    pub outcome: Outcome,
    /// What was found.
    pub detail: String,
    /// The command that mends what is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// What this machine can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// `linkhold.doctor/1`
    pub schema: &'static str,
    /// Everything that was looked at.
    pub checks: Vec<Check>,
    /// Interfaces of the configuration that are not there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// What the configuration is for.
    #[serde(skip)]
    configured: Option<Subject>,
    /// What the text is about; `None`: everything.
    #[serde(skip)]
    about: Option<Subject>,
}

impl DoctorReport {
    /// True if nothing that the agent needs is missing.
    #[must_use]
    pub fn agent_runs(&self) -> bool {
        self.runs(Subject::Agent)
    }

    /// True if nothing that the testbed needs is missing.
    #[must_use]
    pub fn testbed_runs(&self) -> bool {
        self.runs(Subject::Testbed)
    }

    /// True if nothing that a host needs is missing: what the agent needs, since eBPF has a replacement.
    #[must_use]
    pub fn host_runs(&self) -> bool {
        self.runs(Subject::Host)
    }

    /// True if nothing that `subject` needs is missing.
    #[must_use]
    pub fn runs(&self, subject: Subject) -> bool {
        self.checks
            .iter()
            .filter(|check| check.need.concerns(subject))
            .all(|check| matches!(check.outcome, Outcome::Works | Outcome::Replaceable | Outcome::Limited))
    }

    /// What `subject` sees nothing of with its configuration, in words, although it runs; `None`: nothing.
    #[must_use]
    pub fn unseen(&self, subject: Subject) -> Option<String> {
        let is_unseen = self.configured == Some(subject) && !self.absent.is_empty();
        is_unseen.then(|| format!("sees nothing of {}", self.absent.join(" and ")))
    }

    /// The same report without what does not concern `subject`.
    #[must_use]
    pub fn narrowed(mut self, subject: Subject) -> Self {
        self.checks.retain(|check| check.need.concerns(subject));
        self.about = Some(subject);
        self
    }
}

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for check in &self.checks {
            let mark = match check.outcome {
                Outcome::Works => "ok     ",
                Outcome::Replaceable => "absent ",
                Outcome::Limited => "limited",
                Outcome::Missing => "MISSING",
                Outcome::Unknown => "unknown",
            };
            writeln!(f, "{mark} {:22} {}", check.name, check.detail)?;
            if let Some(remedy) = &check.remedy {
                writeln!(f, "{:31}try: {remedy}", "")?;
            }
        }
        let verdict = |subject: Subject| match self.unseen(subject) {
            _ if !self.runs(subject) => "no".to_owned(),
            Some(unseen) => format!("yes, but {unseen}"),
            None => "yes".to_owned(),
        };
        let mut lines = Vec::new();
        if self.about.is_none() {
            lines.push("simulator runs here: yes".to_owned());
        }
        for subject in Subject::ALL.into_iter().filter(|one| self.about.is_none_or(|about| about == *one)) {
            lines.push(format!("{:21}{}", format!("{} runs here:", subject.name()), verdict(subject)));
        }
        f.write_str(&lines.join("\n"))
    }
}

/// Looks at this machine, and at the interfaces of an agent's configuration if there is one.
#[must_use]
pub fn doctor(config: Option<&AgentConfig>) -> DoctorReport {
    let mut checks = vec![privileges("privileges", Need::Agent, &[CAP_NET_ADMIN, CAP_NET_RAW])];
    checks.push(privileges("privileges (testbed)", Need::Testbed, &NAMESPACE_RIGHTS));
    let installer = installer();
    for (name, package, need) in [
        ("ip", "iproute2", Need::Testbed),
        ("ss", "iproute2", Need::Testbed),
        ("iperf3", "iperf3", Need::Testbed),
    ] {
        checks.push(program(name, package, need, installer));
    }
    checks.extend(packet_path(installer));
    let (seen, absent) = config.map(interfaces).unwrap_or_default();
    checks.extend(seen);
    checks.push(flow_offload(config));
    checks.push(frozen_senders());
    checks.push(tun());
    checks.extend(congestion_controls());
    DoctorReport { schema: SCHEMA, checks, absent, configured: config.map(Subject::of), about: None }
}

/// What making a network namespace and queues in it takes.
const NAMESPACE_RIGHTS: [Capability; 3] = [CAP_NET_ADMIN, CAP_NET_RAW, CAP_SYS_ADMIN];

fn lacks_rights() -> bool {
    !Rights::read().lacking(&NAMESPACE_RIGHTS).is_empty()
}

fn privileges(name: &'static str, need: Need, needed: &[Capability]) -> Check {
    let missing = Rights::read().lacking(needed);
    if missing.is_empty() {
        let all: Vec<&str> = needed.iter().map(|one| one.name).collect();
        return works(name, need, all.join(", "));
    }
    Check {
        name,
        need,
        outcome: Outcome::Missing,
        detail: format!("without {}", missing.join(", ")),
        remedy: Some(AS_ROOT.to_owned()),
    }
}

fn works(name: &'static str, need: Need, detail: impl Into<String>) -> Check {
    Check { name, need, outcome: Outcome::Works, detail: detail.into(), remedy: None }
}

/// The command that installs a package here, up to the package's name.
fn installer() -> Option<&'static str> {
    [
        ("apt-get", "apt-get install"),
        ("dnf", "dnf install"),
        ("apk", "apk add"),
        ("pacman", "pacman -S"),
        ("zypper", "zypper install"),
        ("opkg", "opkg install"),
    ]
    .into_iter()
    .find(|(program, _)| is_installed(program))
    .map(|(_, command)| command)
}

fn program(name: &'static str, package: &str, need: Need, installer: Option<&str>) -> Check {
    if is_installed(name) {
        return works(name, need, "installed");
    }
    Check {
        name,
        need,
        outcome: Outcome::Missing,
        detail: "not installed".to_owned(),
        remedy: installer.map(|installer| format!("{installer} {package}")),
    }
}

/// True on OpenWrt, whose packages have names of their own.
fn is_openwrt() -> bool {
    std::path::Path::new("/etc/openwrt_release").exists()
}

/// Name of the check of iptables.
const IPTABLES: &str = "iptables NFQUEUE";

/// Namespaces, NFQUEUE and the rules that lead to it, tried in a namespace.
fn packet_path(installer: Option<&str>) -> Vec<Check> {
    const NAMES: [(&str, Need); 3] = [
        ("NFQUEUE", Need::AgentAndTestbed),
        ("nftables queue", Need::AgentAndTestbed),
        (IPTABLES, Need::AgentAndTestbed),
    ];
    let as_root = || lacks_rights().then(|| AS_ROOT.to_owned());
    let unknown = |reason: &str| {
        NAMES.map(|(name, need)| Check {
            name,
            need,
            outcome: Outcome::Unknown,
            detail: reason.to_owned(),
            remedy: as_root(),
        })
    };
    let namespace = match NetNs::create("doctor") {
        Ok(namespace) => namespace,
        Err(error) => {
            let mut checks = vec![Check {
                name: "network namespaces",
                need: Need::Testbed,
                outcome: Outcome::Missing,
                detail: error.to_string(),
                remedy: as_root(),
            }];
            // A report about the agent alone has no line on namespaces.
            checks.extend(unknown(&format!("cannot be tried without a network namespace: {error}")));
            return checks;
        }
    };
    let mut checks = vec![works("network namespaces", Need::Testbed, "can be made")];
    let tried = namespace.enter(|| {
        let config = NfQueueConfig {
            queue: TRIAL_QUEUE,
            max_packets: 1024,
            mark: 1,
            whole_downlink: false,
            split_aggregates: vec![false],
        };
        let queue = NfQueue::open(&config).map(drop).map_err(|error| error.to_string());
        let nftables = probe(INSTANCE, BackendChoice::Nftables).map_err(|error| match error {
            RulesError::NoBackend { nftables, .. } => nftables,
            RulesError::Refused(_) | RulesError::BridgeNeedsIptables => error.to_string(),
        });
        let iptables = probe(INSTANCE, BackendChoice::Iptables).map_err(|error| match error {
            RulesError::NoBackend { iptables, .. } => iptables,
            RulesError::Refused(_) | RulesError::BridgeNeedsIptables => error.to_string(),
        });
        let without_ipv6 = iptables.as_ref().is_ok_and(|backend| backend.lacks_ipv6());
        let refusal = if without_ipv6 { ipv6_refusal(INSTANCE) } else { None };
        (queue, nftables, iptables, refusal)
    });
    match tried {
        Err(error) => checks.extend(unknown(&error.to_string())),
        Ok((queue, nftables, iptables, refusal)) => {
            let (is_nftables, either) = (nftables.is_ok(), nftables.is_ok() || iptables.is_ok());
            // What is installed and refuses lacks a part of the kernel, which OpenWrt has in packages.
            let mends = |program: &str, package: &str, module: &str, openwrt: &str| match installer {
                Some(installer) if is_installed(program) && is_openwrt() => {
                    Some(format!("{installer} {openwrt}"))
                }
                _ if is_installed(program) => Some(format!("modprobe {module}")),
                Some(installer) => Some(format!("{installer} {package}")),
                None => None,
            };
            let answers = [
                (
                    queue.map(|()| "packets can be queued".to_owned()),
                    false,
                    match installer {
                        Some(installer) if is_openwrt() => Some(format!("{installer} kmod-nfnetlink-queue")),
                        _ => Some("modprobe nfnetlink_queue".to_owned()),
                    },
                ),
                (
                    nftables.map(|backend| backend.name().to_owned()),
                    either,
                    mends("nft", "nftables", "nft_queue", "kmod-nft-queue"),
                ),
                (
                    iptables.map(|backend| backend.name().to_owned()),
                    either,
                    mends("iptables", "iptables", "xt_NFQUEUE", "iptables-mod-nfqueue"),
                ),
            ];
            for ((name, need), (answer, replaceable, remedy)) in NAMES.into_iter().zip(answers) {
                checks.push(match answer {
                    Ok(detail) if name == IPTABLES && refusal.is_some() => Check {
                        name,
                        need,
                        // Where nftables works, iptables is not asked.
                        outcome: if is_nftables { Outcome::Replaceable } else { Outcome::Limited },
                        detail: format!("{detail}: {}", refusal.as_deref().unwrap_or_default()),
                        remedy: None,
                    },
                    Ok(detail) => works(name, need, detail),
                    Err(detail) if replaceable => {
                        Check { name, need, outcome: Outcome::Replaceable, detail, remedy: None }
                    }
                    Err(detail) => Check { name, need, outcome: Outcome::Missing, detail, remedy },
                });
            }
        }
    }
    checks
}

/// Whether packets between the configured interfaces come past the firewall, where the agent's rules stand,
/// and which of the interfaces are not there.
fn interfaces(config: &AgentConfig) -> (Vec<Check>, Vec<String>) {
    let (name, need) = ("interfaces", Need::of(config));
    let check =
        |outcome, detail: String, remedy: Option<String>| Check { name, need, outcome, detail, remedy };
    let look = Look::of(config);
    let found = match look.crossings() {
        Ok(found) => found,
        Err(error) => return (vec![check(Outcome::Unknown, error.to_string(), None)], Vec::new()),
    };
    let absent = found.absent.iter().map(|interface| {
        let detail = format!("{}, so nothing crosses it", absence(interface));
        check(Outcome::Limited, detail, Some("ip link".to_owned()))
    });
    let hidden =
        found.hidden.into_iter().map(|hidden| check(Outcome::Missing, hidden.reason, Some(hidden.remedy)));
    let doubts = found.doubts.into_iter().map(|doubt| check(Outcome::Limited, doubt, None));
    let mut checks: Vec<Check> = absent.chain(hidden).chain(doubts).collect();
    match look.stacked() {
        Ok(found) => checks.extend(found.into_iter().map(|one| {
            let outcome = match one.weight {
                Weight::Certain => Outcome::Missing,
                Weight::Possible | Weight::Hint => Outcome::Limited,
            };
            check(outcome, one.hidden.reason, Some(one.hidden.remedy))
        })),
        Err(error) => {
            let detail = format!("whether others stand on the interfaces cannot be seen: {error}");
            checks.push(check(Outcome::Limited, detail, None));
        }
    }
    if checks.is_empty() {
        let names: Vec<&str> = config.wired.iter().chain(&config.radio).map(String::as_str).collect();
        checks.push(works(name, need, format!("{} are seen", names.join(", "))));
    }
    (checks, found.absent)
}

/// Whether established flows take a way on which the agent does not see them.
fn flow_offload(config: Option<&AgentConfig>) -> Check {
    let (name, need) = ("flow offload", config.map_or(Need::Agent, Need::of));
    if !Rights::read().lacking(&[CAP_NET_ADMIN]).is_empty() {
        // The kernel shows tables to nobody else, so none is seen.
        return Check {
            name,
            need,
            outcome: Outcome::Unknown,
            detail: "flow tables cannot be seen without CAP_NET_ADMIN".to_owned(),
            remedy: Some(AS_ROOT.to_owned()),
        };
    }
    let found = config.map_or_else(offloads, |config| Look::of(config).offloads());
    let first = match found {
        Ok(found) => found.into_iter().next(),
        Err(unseen) => {
            // The agent runs without knowing it.
            return Check { name, need, outcome: Outcome::Limited, detail: unseen, remedy: None };
        }
    };
    match first {
        None => works(name, need, "no flow table takes flows past the agent"),
        Some(offload) => Check {
            name,
            need,
            // Without a configuration it is not known whether the interfaces are the agent's.
            outcome: if config.is_some() { Outcome::Missing } else { Outcome::Limited },
            detail: offload.reason(),
            remedy: Some(Offload::REMEDY.to_owned()),
        },
    }
}

/// Whether a host's senders can be frozen in the kernel, too.
fn frozen_senders() -> Check {
    let (name, need) = ("eBPF senders", Need::Host);
    let replaceable = |reason: String, remedy: Option<String>| Check {
        name,
        need,
        outcome: Outcome::Replaceable,
        detail: format!("{reason}; `freeze = \"window\"` needs none"),
        remedy,
    };
    if let Some(reason) = kernel::missing() {
        return replaceable(reason, None);
    }
    if !Rights::read().lacking(&[CAP_BPF]).is_empty() {
        return replaceable(
            "built in, and the kernel has type information (BTF); not tried, which takes CAP_BPF".to_owned(),
            Some(AS_ROOT.to_owned()),
        );
    }
    // Whether a kernel takes the programs its verifier knows alone. They are loaded, and not registered.
    match kernel::try_out() {
        Ok(extent) => works(name, need, extent.lost().unwrap_or("the kernel has loaded them, to try")),
        Err(error) => replaceable(error.to_string(), None),
    }
}

fn tun() -> Check {
    let (name, need) = ("TUN devices", Need::Testbed);
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun") {
        Ok(_) => works(name, need, "/dev/net/tun opens"),
        Err(error) => Check {
            name,
            need,
            outcome: Outcome::Missing,
            detail: format!("/dev/net/tun: {error}"),
            // Who has all rights and is refused has a container without the device.
            remedy: match error.kind() {
                io::ErrorKind::PermissionDenied if lacks_rights() => Some(AS_ROOT.to_owned()),
                io::ErrorKind::PermissionDenied => None,
                _ => Some("modprobe tun".to_owned()),
            },
        },
    }
}

fn congestion_controls() -> Vec<Check> {
    let available =
        std::fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap_or_default();
    let available: Vec<&str> = available.split_whitespace().collect();
    [("reno", "modprobe tcp_reno"), ("cubic", "modprobe tcp_cubic"), ("bbr", "modprobe tcp_bbr")]
        .into_iter()
        .map(|(name, remedy)| {
            if available.contains(&name) {
                return works(name, Need::Testbed, "congestion control is there");
            }
            Check {
                name,
                need: Need::Testbed,
                // `--cc` chooses among those that are there.
                outcome: Outcome::Replaceable,
                detail: "this congestion control is not loaded".to_owned(),
                remedy: Some(remedy.to_owned()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(need: Need, outcome: Outcome) -> Check {
        Check { name: "x", need, outcome, detail: String::new(), remedy: Some("mend x".to_owned()) }
    }

    fn report(checks: Vec<Check>) -> DoctorReport {
        DoctorReport { schema: SCHEMA, checks, absent: Vec::new(), configured: None, about: None }
    }

    #[test]
    fn what_is_missing_decides_what_runs() {
        let found = report(vec![
            check(Need::AgentAndTestbed, Outcome::Works),
            check(Need::AgentAndTestbed, Outcome::Replaceable),
            check(Need::Testbed, Outcome::Missing),
            check(Need::Host, Outcome::Replaceable),
        ]);
        assert!(found.agent_runs() && found.host_runs() && !found.testbed_runs());
        let text = found.to_string();
        let all = "simulator runs here: yes\ntestbed runs here:   no\nhost runs here:      yes\nagent runs here:     yes";
        assert!(text.contains("try: mend x") && text.ends_with(all), "{text}");
        let unknown = report(vec![check(Need::Agent, Outcome::Unknown)]);
        assert!(!unknown.agent_runs() && !unknown.host_runs() && unknown.testbed_runs());
        assert!(unknown.to_string().contains("host runs here:      no"));
    }

    #[test]
    fn a_question_about_one_thing_is_answered_with_what_that_needs() {
        let needs = [Need::Agent, Need::AgentAlone, Need::Testbed, Need::AgentAndTestbed, Need::Host];
        for (subject, wanted) in [
            (Subject::Agent, &[Need::Agent, Need::AgentAlone, Need::AgentAndTestbed][..]),
            (Subject::Testbed, &[Need::Testbed, Need::AgentAndTestbed]),
            (Subject::Host, &[Need::Agent, Need::AgentAndTestbed, Need::Host]),
        ] {
            let found = report(needs.iter().map(|need| check(*need, Outcome::Works)).collect());
            let found = found.narrowed(subject);
            let shown: Vec<Need> = found.checks.iter().map(|check| check.need).collect();
            assert_eq!(shown, wanted);
            let text = found.to_string();
            let verdicts: Vec<&str> = text.lines().filter(|line| line.contains(" runs here: ")).collect();
            assert_eq!(verdicts, [format!("{:21}yes", format!("{} runs here:", subject.name()))]);
        }
    }

    /// A bridged radio of the agent is nothing to a host, whose own file has other interfaces.
    #[test]
    fn the_interfaces_of_a_file_are_judged_for_what_the_file_is_for() {
        let path = std::path::Path::new("x.toml");
        let agent = "wired = [\"nothere0\"]\nradio = [\"nothere1\"]\n";
        let agent = AgentConfig::parse(path, agent).unwrap();
        let host = AgentConfig::parse_host(path, "radio = [\"nothere1\"]\nfreeze = \"window\"\n").unwrap();
        for (config, needs, absent) in
            [(agent, Need::AgentAlone, &["nothere0", "nothere1"][..]), (host, Need::Host, &["nothere1"])]
        {
            let (checks, found) = interfaces(&config);
            assert!(!checks.is_empty() && checks.iter().all(|check| check.need == needs), "{checks:?}");
            assert_eq!(found, absent);
        }
        let hidden = report(vec![check(Need::AgentAlone, Outcome::Missing)]);
        assert!(hidden.host_runs() && !hidden.agent_runs());
        let json = serde_json::to_value(Need::AgentAlone).unwrap();
        assert_eq!(json, "agent", "as it was called before hosts were judged apart");
    }

    #[test]
    fn an_interface_that_is_not_there_is_said_beside_the_verdict() {
        let mut found = report(vec![check(Need::AgentAlone, Outcome::Limited)]);
        found.absent = vec!["nothere0".to_owned(), "nothere1".to_owned()];
        found.configured = Some(Subject::Agent);
        let text = found.to_string();
        let wanted = "\nagent runs here:     yes, but sees nothing of nothere0 and nothere1";
        assert!(text.ends_with(wanted) && text.contains("host runs here:      yes\n"), "{text}");
        assert!(found.agent_runs() && found.unseen(Subject::Host).is_none());
    }
}
