//! A firewall that another program has locked, as while it is loaded anew: neither packets nor the agent's
//! end wait for it. And one whose programs are slow.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use linkhold_linux::topology::ThreeHosts;
use nix::sys::signal::Signal;

use crate::agent_process::AgentProcess;
use crate::behaviour::{mentions_us, rules};
use crate::bridge::{bridge_it, hand_bridged_packets_to_the_firewall};
use crate::{Outcome, Unfinished, skipped};

const IPTABLES: &str = "[datapath]\nbackend = \"iptables\"\n";

/// Firewall programs that note that they run, wait until the lock is gone, and then do what the real ones do.
struct Firewall {
    folder: tempfile::TempDir,
}

impl Firewall {
    fn new() -> Result<Self, Unfinished> {
        let folder = tempfile::tempdir()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let places: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
        for name in ["iptables", "ip6tables", "iptables-restore", "ip6tables-restore"] {
            let Some(real) = places.iter().map(|place| place.join(name)).find(|file| file.is_file()) else {
                return skipped(format!("there is no {name} here"));
            };
            let (own, real) = (folder.path().display(), real.display());
            let script = format!(
                "#!/bin/sh\necho {name} >> {own}/runs\n[ -e {own}/lock ] && : > {own}/{name}-waits\n\
                 while [ -e {own}/lock ]; do sleep 0.05; done\nexec {real} \"$@\"\n"
            );
            let file = folder.path().join(name);
            std::fs::write(&file, script)?;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
        }
        Ok(Self { folder })
    }

    /// An agent whose rules these programs set.
    fn agent(&self, path: &ThreeHosts) -> AgentProcess {
        let search = std::env::var("PATH").unwrap_or_default();
        let search = format!("PATH={}:{search}", self.folder.path().display());
        AgentProcess::start_with(path, IPTABLES, &["env", &search])
    }

    fn lock(&self) -> std::io::Result<()> {
        std::fs::write(self.folder.path().join("lock"), "")
    }

    fn unlock(&self) -> std::io::Result<()> {
        std::fs::remove_file(self.folder.path().join("lock"))
    }

    /// The programs that ran since the last time.
    fn runs(&self) -> String {
        let file = self.folder.path().join("runs");
        let runs = std::fs::read_to_string(&file).unwrap_or_default();
        let _ = std::fs::remove_file(file);
        runs
    }

    /// True if a program has met the lock.
    fn waits(&self, program: &str) -> bool {
        self.folder.path().join(format!("{program}-waits")).exists()
    }
}

/// However the test ends, no program waits on.
impl Drop for Firewall {
    fn drop(&mut self) {
        let _ = self.unlock();
    }
}

/// A radio comes into a bridge while the firewall is locked: the agent answers at once all the while, and the
/// rules follow when they can.
pub fn no_packet_waits_for_it() -> Outcome {
    let path = ThreeHosts::build()?;
    if !hand_bridged_packets_to_the_firewall(&path, true) {
        return skipped("this kernel has no br_netfilter");
    }
    let firewall = Firewall::new()?;
    let agent = firewall.agent(&path);
    firewall.lock()?;
    bridge_it(&path)?;
    let deadline = Instant::now() + Duration::from_secs(20);
    while !firewall.waits("iptables-restore") {
        assert!(Instant::now() < deadline, "the rules do not follow\n{}", agent.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    // Longer than a service manager's watchdog lets it hang.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        let _ = agent.status();
        assert!(asked.elapsed() < Duration::from_secs(2), "it hung for {:?}", asked.elapsed());
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!rules(&path.bs).contains("--physdev-in"));
    firewall.unlock()?;
    agent.wait_until(|_| rules(&path.bs).contains("--physdev-in"));
    Ok(())
}

/// An agent that is stopped meanwhile ends before a service manager would kill it, and says what it could not
/// remove, and how to.
pub fn no_end_waits_for_it() -> Outcome {
    let path = ThreeHosts::build()?;
    let firewall = Firewall::new()?;
    let mut agent = firewall.agent(&path);
    firewall.lock()?;
    let asked = Instant::now();
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    let took = asked.elapsed();
    // packaging/linkhold-agent.service kills it after 10 s.
    assert!(took < Duration::from_secs(9), "it took {took:?}\n{}", agent.log());
    for told in ["the rules are not removed in time", "`iptables -t mangle -D FORWARD -j LINKHOLD-test`"] {
        assert!(agent.log().contains(told), "{}", agent.log());
    }
    firewall.unlock()?;
    assert!(mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    // The next one removes them, and its end is clean.
    let mut next = firewall.agent(&path);
    next.send_signal(Signal::SIGTERM);
    assert!(next.wait(), "{}", next.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    Ok(())
}

/// On a slow processor every program takes a tenth of a second and more, so an end runs few of them: on an
/// emulated machine with eight of each kind the rules were still there when the agent gave up.
pub fn an_end_runs_few_programs() -> Outcome {
    let path = ThreeHosts::build()?;
    let firewall = Firewall::new()?;
    let mut agent = firewall.agent(&path);
    firewall.runs();
    agent.send_signal(Signal::SIGTERM);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    let runs = firewall.runs();
    // A look and a change each, and perhaps a look whether the rules still stand.
    assert!((1..=6).contains(&runs.lines().count()), "{runs}");
    Ok(())
}
