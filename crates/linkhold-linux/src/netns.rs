//! Network namespaces that always go away: make them, join them by veth, run programs and threads inside,
//! clean up.
//!
//! Source: network_namespaces(7), ip-netns(8), veth(4), setns(2).
//!
//! Configuration goes through the `ip` command, not through a netlink library: every machine that can run
//! this has `ip`, operators know its error messages, it needs no async runtime, and set-up time is not
//! measured. What must be exact (threads inside a namespace, offload settings) is done by system calls here.
//!
//! A name is `lh-<pid>-<n>-<label>`, so a namespace tells who made it: [`reap_stale`] removes those whose
//! process is gone, [`NetNs`] removes its own on drop, [`clean_up_on_signals`] on SIGINT and SIGTERM.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{SigSet, Signal};

use crate::command::{CommandError, run};

/// Where iproute2 keeps named namespaces.
const NETNS_DIR: &str = "/run/netns";
/// Every namespace of ours begins so.
const PREFIX: &str = "lh-";
/// Linux interface names hold 15 characters (IFNAMSIZ less the final zero).
const MAX_INTERFACE_NAME: usize = 15;

/// Buckets of a namespace's own table of connections, for thousands of them. The kernel allows it half as
/// many in TIME_WAIT.
const CONNECTION_BUCKETS: &str = "4096";

/// Namespaces made by this process and not yet removed.
static LIVE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Why a namespace could not be made or used.
#[derive(Debug, thiserror::Error)]
pub enum NetNsError {
    /// A program failed.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: String,
        /// The system's answer.
        source: io::Error,
    },
    /// An interface name Linux would not take.
    #[error("interface name {0:?} is empty or longer than {MAX_INTERFACE_NAME} characters")]
    InterfaceName(String),
}

fn system(what: impl Into<String>, source: impl Into<io::Error>) -> NetNsError {
    NetNsError::System { what: what.into(), source: source.into() }
}

/// A network namespace; removed, with every process still in it, when dropped.
#[derive(Debug)]
pub struct NetNs {
    name: String,
    handle: File,
}

impl NetNs {
    /// Makes a namespace with its loopback interface up.
    ///
    /// # Errors
    /// [`NetNsError`] without the privileges or without `ip`.
    pub fn create(label: &str) -> Result<Self, NetNsError> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}-{label}", std::process::id());
        remember(&name);
        if let Err(error) = add(&name) {
            forget(&name);
            return Err(error.into());
        }
        let path = PathBuf::from(NETNS_DIR).join(&name);
        let handle = match File::open(&path) {
            Ok(handle) => handle,
            Err(error) => {
                remove(&name);
                return Err(system(format!("open {}", path.display()), error));
            }
        };
        let netns = Self { name, handle };
        netns.ip(&["link", "set", "lo", "up"])?;
        Ok(netns)
    }

    /// The namespace's name, as `ip netns` lists it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that will run inside. `ip` becomes the program, so killing the child kills the program.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]).stdin(Stdio::null());
        command
    }

    /// Runs a program inside and answers its standard output.
    ///
    /// # Errors
    /// [`CommandError`] if it cannot start, fails, or runs for too long.
    pub fn run(&self, program: &str, args: &[&str]) -> Result<String, CommandError> {
        let mut all = vec!["netns", "exec", self.name.as_str(), program];
        all.extend_from_slice(args);
        run("ip", &all)
    }

    /// Runs `ip` on this namespace.
    ///
    /// # Errors
    /// [`CommandError`] with what `ip` said.
    pub fn ip(&self, args: &[&str]) -> Result<String, CommandError> {
        let mut all = vec!["-n", self.name.as_str()];
        all.extend_from_slice(args);
        run("ip", &all)
    }

    /// Runs `work` on a thread of its own inside the namespace and waits for it. Sockets opened there stay in
    /// the namespace wherever they are used afterwards.
    ///
    /// # Errors
    /// [`NetNsError::System`] if the thread cannot enter.
    pub fn enter<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, NetNsError> {
        inside(&self.handle, work).map_err(|errno| system(format!("enter namespace {}", self.name), errno))
    }

    /// Starts a thread inside the namespace and does not wait for it.
    ///
    /// # Errors
    /// [`NetNsError::System`] if no thread can be made. A thread that cannot enter the namespace returns the
    /// error.
    pub fn spawn<R: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> Result<std::thread::JoinHandle<Result<R, NetNsError>>, NetNsError> {
        let handle =
            self.handle.try_clone().map_err(|error| system("duplicate a namespace handle", error))?;
        let namespace = self.name.clone();
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                setns(&handle, CloneFlags::CLONE_NEWNET)
                    .map_err(|errno| system(format!("enter namespace {namespace}"), errno))?;
                Ok(work())
            })
            .map_err(|error| system("start a thread", error))
    }

    /// Adds an address to an interface, without IPv6 duplicate address detection (it would delay traffic by a
    /// second, and nobody else is on the link).
    ///
    /// # Errors
    /// [`CommandError`] with what `ip` said.
    pub fn add_address(&self, interface: &str, address: IpAddr, prefix_len: u8) -> Result<(), CommandError> {
        let address_text = format!("{address}/{prefix_len}");
        let mut args = vec!["address", "add", address_text.as_str(), "dev", interface];
        if address.is_ipv6() {
            args.push("nodad");
        }
        self.ip(&args).map(|_| ())
    }

    /// Adds the default route of the gateway's family.
    ///
    /// # Errors
    /// [`CommandError`] with what `ip` said.
    pub fn add_default_route(&self, gateway: IpAddr) -> Result<(), CommandError> {
        let family = if gateway.is_ipv6() { "-6" } else { "-4" };
        let gateway = gateway.to_string();
        self.ip(&[family, "route", "add", "default", "via", &gateway]).map(|_| ())
    }

    /// Sets an interface up.
    ///
    /// # Errors
    /// [`CommandError`] with what `ip` said.
    pub fn up(&self, interface: &str) -> Result<(), CommandError> {
        self.ip(&["link", "set", interface, "up"]).map(|_| ())
    }

    /// Makes the namespace a router for IPv4 and IPv6.
    ///
    /// # Errors
    /// [`NetNsError`] if a setting cannot be written.
    pub fn enable_forwarding(&self) -> Result<(), NetNsError> {
        self.sysctl("net/ipv4/ip_forward", "1")?;
        self.sysctl("net/ipv6/conf/all/forwarding", "1")
    }

    /// Writes a setting below `/proc/sys`, named with slashes: `net/ipv4/tcp_congestion_control`.
    ///
    /// # Errors
    /// [`NetNsError::System`] if it cannot be written.
    pub fn sysctl(&self, key: &str, value: &str) -> Result<(), NetNsError> {
        // /proc/sys/net shows the namespace of the thread that opens it.
        let path = format!("/proc/sys/{key}");
        self.enter(|| std::fs::write(&path, value))?
            .map_err(|error| system(format!("write {value:?} to {path}"), error))
    }

    /// Switches an interface's segmentation and receive offloads: off, every packet is at most one MTU.
    ///
    /// # Errors
    /// [`NetNsError`] if the interface does not exist or refuses.
    pub fn set_offloads(&self, interface: &str, on: bool) -> Result<(), NetNsError> {
        self.enter(|| crate::ethtool::set_segmentation_offloads(interface, on))?
            .map_err(|error| system(format!("set offloads of {interface}"), error))
    }

    /// Switches an interface's transmit checksum offload: off, every packet carries its whole checksum.
    ///
    /// # Errors
    /// [`NetNsError`] if the interface does not exist or refuses.
    pub fn set_checksum_offload(&self, interface: &str, on: bool) -> Result<(), NetNsError> {
        self.enter(|| crate::ethtool::set_checksum_offload(interface, on))?
            .map_err(|error| system(format!("set checksum offload of {interface}"), error))
    }

    /// The index of an interface.
    ///
    /// # Errors
    /// [`NetNsError::System`] if there is none of that name.
    pub fn interface_index(&self, interface: &str) -> Result<u32, NetNsError> {
        self.enter(|| nix::net::if_::if_nametoindex(interface))?
            .map_err(|errno| system(format!("look up interface {interface}"), errno))
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

/// Runs `work` on a thread of its own inside the namespace of `handle` and waits for it.
fn inside<R: Send>(handle: &File, work: impl FnOnce() -> R + Send) -> nix::Result<R> {
    let work = || setns(handle, CloneFlags::CLONE_NEWNET).map(|()| work());
    let joined = std::thread::scope(|scope| scope.spawn(work).join());
    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Makes a named namespace with a table of connections of its own.
///
/// Otherwise all namespaces share one table, which has a bucket for each 100 kB or so of the machine's
/// memory, and each reading of a namespace's connections goes through all of it: with 262,144 buckets the
/// testbed's looks took most of a processor, and runs came late.
fn add(name: &str) -> Result<String, CommandError> {
    let add = || run("ip", &["netns", "add", name]);
    let Some(parent) = parent_of_all() else { return add() };
    inside(parent, add).unwrap_or_else(|_| add())
}

/// A namespace whose children each have a table of connections of their own (ip-sysctl,
/// `tcp_child_ehash_entries`); `None` before Linux 6.1.
fn parent_of_all() -> Option<&'static File> {
    static PARENT: OnceLock<Option<File>> = OnceLock::new();
    let make = || {
        unshare(CloneFlags::CLONE_NEWNET).ok()?;
        std::fs::write("/proc/sys/net/ipv4/tcp_child_ehash_entries", CONNECTION_BUCKETS).ok()?;
        File::open("/proc/thread-self/ns/net").ok()
    };
    PARENT.get_or_init(|| std::thread::spawn(make).join().ok().flatten()).as_ref()
}

/// Joins two namespaces by a veth pair, both ends up. Packets leave it in the order in which they were given
/// to it, as on a wire.
///
/// # Errors
/// [`NetNsError`] with what `ip` said, or if the kernel has no receive packet steering.
pub fn veth(a: &NetNs, a_name: &str, b: &NetNs, b_name: &str) -> Result<(), NetNsError> {
    for name in [a_name, b_name] {
        if name.is_empty() || name.len() > MAX_INTERFACE_NAME {
            return Err(NetNsError::InterfaceName(name.to_owned()));
        }
    }
    a.ip(&["link", "add", a_name, "type", "veth", "peer", "name", b_name, "netns", b.name()])?;
    for (netns, interface) in [(a, a_name), (b, b_name)] {
        receive_on_one_processor(netns, interface)?;
        netns.up(interface)?;
    }
    Ok(())
}

/// Steers what an interface receives to the backlog of processor 0 (Documentation/networking/scaling.rst,
/// RPS). By default a veth puts a packet into the backlog of the processor that sent it. Two packets of one
/// flow that were sent on two processors, such as an agent's verdict and the sender's next segment, then
/// overtake each other.
fn receive_on_one_processor(netns: &NetNs, interface: &str) -> Result<(), NetNsError> {
    // `ip netns exec` mounts the namespace's own /sys; a thread that only entered the network namespace sees
    // the host's.
    let script =
        format!("for queue in /sys/class/net/{interface}/queues/rx-*; do echo 1 > $queue/rps_cpus; done");
    netns.run("sh", &["-c", &script])?;
    Ok(())
}

/// Removes namespaces of ours whose process is gone, and answers their names. Safe at any time: namespaces of
/// live processes stay.
#[must_use]
pub fn reap_stale() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(NETNS_DIR) else { return Vec::new() };
    let mut stale: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| owner(name).is_some_and(|pid| !process_lives(pid)))
        .collect();
    stale.sort();
    for name in &stale {
        remove(name);
    }
    stale
}

/// Removes this process's namespaces when SIGINT or SIGTERM comes, then ends the process by that signal. Call
/// it on the main thread before any other thread starts: threads inherit the blocked signals, and this makes
/// the thread that waits for them.
///
/// # Errors
/// [`NetNsError::System`] if signals cannot be blocked or no thread can be made.
pub fn clean_up_on_signals() -> Result<(), NetNsError> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGINT);
    signals.add(Signal::SIGTERM);
    signals.thread_block().map_err(|errno| system("block signals", errno))?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            let Ok(signal) = signals.wait() else { return };
            remove_all();
            // The default action ends the process and tells the parent which signal it was.
            let _ = signals.thread_unblock();
            let _ = nix::sys::signal::raise(signal);
            std::process::exit(128 + signal as i32);
        })
        .map_err(|error| system("start the signal thread", error))?;
    Ok(())
}

/// Removes every namespace this process made.
pub fn remove_all() {
    let names: Vec<String> = match LIVE.lock() {
        Ok(live) => live.iter().cloned().collect(),
        Err(poisoned) => poisoned.into_inner().iter().cloned().collect(),
    };
    for name in names {
        remove(&name);
    }
}

/// Removes one namespace and the processes left in it. Silent when it is already gone: this runs in `drop`,
/// in signal handling and over another process's leftovers.
fn remove(name: &str) {
    // A namespace lives on while a process is in it: only those of this namespace are ended, by their id.
    if let Ok(pids) = run("ip", &["netns", "pids", name]) {
        for pid in pids.split_whitespace().filter_map(|pid| pid.parse::<i32>().ok()) {
            if pid != std::process::id().cast_signed() {
                let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
    if let Err(error) = run("ip", &["netns", "del", name])
        && PathBuf::from(NETNS_DIR).join(name).exists()
    {
        tracing::warn!(namespace = name, %error, "could not remove a network namespace");
    }
    forget(name);
}

fn remember(name: &str) {
    if let Ok(mut live) = LIVE.lock() {
        live.insert(name.to_owned());
    }
}

fn forget(name: &str) {
    if let Ok(mut live) = LIVE.lock() {
        live.remove(name);
    }
}

/// The process id in a namespace name of ours.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn process_lives(pid: u32) -> bool {
    PathBuf::from(format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_name_tells_its_owner_and_foreign_names_have_none() {
        assert_eq!(owner("lh-4711-0-bs"), Some(4711));
        for foreign in ["lh-x-bs", "lh--0", "other-4711-0", "lh", ""] {
            assert_eq!(owner(foreign), None, "{foreign}");
        }
        assert!(process_lives(std::process::id()));
    }
}
