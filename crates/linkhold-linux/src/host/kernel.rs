//! The kernel's own senders, frozen by eBPF: loads `bpf/cr_aware.bpf.c` and tells it of silences.
//!
//! Paper: cr-aware, section 3. Registers the congestion controls `linkhold_cubic` and `linkhold_reno`; a
//! socket is frozen while its congestion control is one of them and its radio is silent.
//!
//! Congestion controls belong to the whole machine, and several hosts may run on it in network namespaces of
//! their own. The first one registers them, the others share them, and the last one to end unregisters them.
//! A lock file tells who is alone; a host that was killed leaves the registration to the next one. Sockets
//! that still use a congestion control keep it until they close or choose another: the kernel counts them.
//!
//! Linux before 6.10 does not let a congestion control write `snd_cwnd_stamp`, the time since which a window
//! is not used. There the programs are loaded without that line ([`Extent::NoStamp`]).
//!
//! Built with the feature `struct-ops` only. Without it [`KernelSenders::open`] says so.

use std::io;
use std::path::PathBuf;

use linkhold_core::time::Duration;

use crate::rights::{CAP_SYS_ADMIN, Rights};

/// Where hosts tell each other that they live.
pub const LOCK_FILE: &str = "/run/linkhold/struct-ops.lock";
/// The congestion controls, as `sysctl` and `setsockopt(TCP_CONGESTION)` name them. At most 15 characters
/// (`TCP_CA_NAME_MAX`).
pub const CONGESTION_CONTROLS: [&str; 2] = ["linkhold_cubic", "linkhold_reno"];

/// Why the kernel's senders cannot be frozen.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// The program has no eBPF in it.
    #[error(
        "this linkhold was built without eBPF; build it with `--features struct-ops` (clang, libbpf-dev, libelf-dev)"
    )]
    BuiltWithout,
    /// The kernel refused.
    #[error(
        "the kernel refuses the eBPF congestion controls: {0} (they take Linux 6.1, BTF, CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)"
    )]
    Refused(String),
    /// The lock file cannot be used.
    #[error("{path}: {source}")]
    Lock {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process is registering or unregistering, and does not come to an end.
    #[error("{0}: another host is starting or ending and does not finish")]
    Busy(PathBuf),
    /// Another host has registered them, and this process may not look for what it registered.
    #[error(
        "another host has registered the eBPF congestion controls, and to share them takes CAP_SYS_ADMIN, which is \
         lacking here: let the service or the container have it, or write `freeze = \"window\"`"
    )]
    Unseen,
    /// The namespace cannot be told apart.
    #[error("the network namespace has no cookie (Linux 5.14): {0}")]
    Namespace(io::Error),
}

/// What the congestion controls did since they were registered, for all hosts of the machine.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
pub struct KernelCounters {
    /// Times that a socket met a silence.
    pub frozen: u64,
    /// Reductions of ssthresh and cwnd that were not made.
    pub shielded: u64,
    /// Times that a window was put back to what it was before the silence.
    pub restored: u64,
    /// Times that a socket left a silence behind.
    pub mended: u64,
}

/// What a kernel lets the congestion controls do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All that they want.
    Whole,
    /// Not to restart the clock of a window that is not used (Linux before 6.10).
    NoStamp,
}

impl Extent {
    /// What is lost, in words; `None` if nothing is.
    #[must_use]
    pub const fn lost(self) -> Option<&'static str> {
        match self {
            Self::Whole => None,
            Self::NoStamp => Some(
                "this kernel (before Linux 6.10) takes the eBPF congestion controls without the clock of a \
                 window that is not used: after a silence it may cut a window that the silence left unused",
            ),
        }
    }
}

/// A silence as the eBPF map has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quiet {
    /// CLOCK_MONOTONIC, ns.
    pub since: u64,
    /// CLOCK_MONOTONIC, ns; the kernel side thaws then, told or not.
    pub until: u64,
}

/// Why the eBPF congestion controls cannot be had here, as far as that shows before the kernel is asked.
#[must_use]
pub fn missing() -> Option<String> {
    if !cfg!(feature = "struct-ops") {
        return Some(KernelError::BuiltWithout.to_string());
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("this kernel has no type information (CONFIG_DEBUG_INFO_BTF)".to_owned());
    }
    None
}

/// What to write at a freeze: a second freeze goes on with the silence that runs.
#[cfg_attr(not(feature = "struct-ops"), allow(dead_code))]
pub(super) fn begun(before: Option<Quiet>, now: u64, at_most: Duration) -> Quiet {
    let until = now.saturating_add(at_most.as_nanos());
    match before {
        Some(quiet) if now < quiet.until => Quiet { since: quiet.since, until: until.max(quiet.until) },
        Some(_) | None => Quiet { since: now, until },
    }
}

/// What to write at a thaw; `None` if there is nothing to end.
#[cfg_attr(not(feature = "struct-ops"), allow(dead_code))]
pub(super) fn ended(before: Option<Quiet>, now: u64) -> Option<Quiet> {
    before.filter(|quiet| now < quiet.until).map(|quiet| Quiet { until: now, ..quiet })
}

/// Why a host could not share what another one registered. `is_locked`: the other one kept the lock for
/// itself. Without CAP_SYS_ADMIN the kernel shows nobody's maps (BPF_MAP_GET_NEXT_ID), as if there were none.
#[cfg_attr(not(feature = "struct-ops"), allow(dead_code))]
fn not_shared(is_locked: bool, rights: Rights) -> KernelError {
    if is_locked || rights.lacking(&[CAP_SYS_ADMIN]).is_empty() {
        KernelError::Busy(LOCK_FILE.into())
    } else {
        KernelError::Unseen
    }
}

#[cfg(not(feature = "struct-ops"))]
pub use absent::{KernelSenders, try_out};
#[cfg(feature = "struct-ops")]
pub use loaded::{KernelSenders, try_out};

#[cfg(not(feature = "struct-ops"))]
mod absent {
    use super::{Duration, Extent, KernelCounters, KernelError};

    /// Says that this build has no eBPF.
    ///
    /// # Errors
    /// Always [`KernelError::BuiltWithout`].
    pub fn try_out() -> Result<Extent, KernelError> {
        Err(KernelError::BuiltWithout)
    }

    /// The kernel's senders; never there in this build.
    #[derive(Debug)]
    pub enum KernelSenders {}

    impl KernelSenders {
        /// Says that this build has no eBPF.
        ///
        /// # Errors
        /// Always [`KernelError::BuiltWithout`].
        pub fn open() -> Result<Self, KernelError> {
            Err(KernelError::BuiltWithout)
        }

        /// See the build with `struct-ops`.
        pub fn freeze(&mut self, _interface: u32, _at_most: Duration) {
            match *self {}
        }

        /// See the build with `struct-ops`.
        pub fn thaw(&mut self, _interface: u32) {
            match *self {}
        }

        /// See the build with `struct-ops`.
        #[must_use]
        pub fn counters(&self) -> KernelCounters {
            match *self {}
        }
    }
}

#[cfg(feature = "struct-ops")]
mod loaded {
    use std::fs::File;
    use std::os::fd::AsRawFd;
    use std::path::Path;
    use std::sync::Mutex;

    use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions};
    use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder, OpenObject, PrintLevel};
    use nix::errno::Errno;
    use nix::fcntl::{Flock, FlockArg};
    use nix::time::{ClockId, clock_gettime};

    use super::{
        CONGESTION_CONTROLS, Duration, Extent, KernelCounters, KernelError, LOCK_FILE, PathBuf, Quiet,
        Rights, begun, ended, io, not_shared,
    };

    /// The compiled program.
    const PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cr_aware.bpf.o"));
    /// Names of its maps (at most 15 characters, `BPF_OBJ_NAME_LEN`).
    const QUIET: &str = "linkhold_quiet";
    const COUNT: &str = "linkhold_count";
    /// The section of its flag `linkhold_writes_stamp`, which is all that is in it.
    const WRITES_STAMP: &str = ".rodata.linkhold";
    /// How often to look for another host that is in the middle of registering.
    const ATTEMPTS: u32 = 100;
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

    /// The kernel's senders of this network namespace.
    #[derive(Debug)]
    pub struct KernelSenders {
        quiet: MapHandle,
        count: MapHandle,
        netns_cookie: u64,
        /// Radios whose silences this host began.
        told: Vec<u32>,
        /// The registrations, if this host made them. A host that shares them finds them by their names,
        /// which takes CAP_SYS_ADMIN.
        registrations: Vec<MapHandle>,
        /// Held shared while this host lives; taken out at its end.
        lock: Option<Flock<File>>,
    }

    /// What came of sharing.
    enum Joined {
        /// It is shared.
        Yes(KernelSenders),
        /// Another host has the lock for itself: it registers or unregisters.
        Locked,
        /// The lock could be had, and no registration is seen.
        Nothing,
    }

    impl KernelSenders {
        /// Registers the congestion controls, or joins the host that did.
        ///
        /// # Errors
        /// [`KernelError`]; nothing stays registered then that was not before.
        pub fn open() -> Result<Self, KernelError> {
            let this = Self::register_or_join()?;
            renew_default();
            Ok(this)
        }

        fn register_or_join() -> Result<Self, KernelError> {
            let netns_cookie = netns_cookie().map_err(KernelError::Namespace)?;
            let mut is_locked = true;
            for _ in 0..ATTEMPTS {
                match exclusively()? {
                    Some(lock) => {
                        unregister(&[]);
                        let (quiet, count, registrations) = register()?;
                        let lock = Some(share(lock)?);
                        return Ok(Self {
                            quiet,
                            count,
                            netns_cookie,
                            told: Vec::new(),
                            registrations,
                            lock,
                        });
                    }
                    None => match Self::join(netns_cookie)? {
                        Joined::Yes(this) => return Ok(this),
                        Joined::Locked => is_locked = true,
                        Joined::Nothing => is_locked = false,
                    },
                }
                std::thread::sleep(PAUSE);
            }
            Err(not_shared(is_locked, Rights::read()))
        }

        /// Shares what a living host registered, if one has finished to.
        fn join(netns_cookie: u64) -> Result<Joined, KernelError> {
            let lock = match Flock::lock(lock_file()?, FlockArg::LockSharedNonblock) {
                Ok(lock) => lock,
                Err((_, Errno::EWOULDBLOCK)) => return Ok(Joined::Locked),
                Err((_, errno)) => return Err(lock_error(errno.into())),
            };
            let registered: Option<Vec<MapHandle>> =
                CONGESTION_CONTROLS.into_iter().map(registration).collect();
            let maps = registered.and_then(|registered| maps_of(registered.first()?));
            let Some((quiet, count)) = maps else { return Ok(Joined::Nothing) };
            Ok(Joined::Yes(Self {
                quiet,
                count,
                netns_cookie,
                told: Vec::new(),
                registrations: Vec::new(),
                lock: Some(lock),
            }))
        }

        /// Freezes the sockets whose packets come in by an interface, for the time given at most.
        pub fn freeze(&mut self, interface: u32, at_most: Duration) {
            self.write(interface, begun(self.read(interface), now(), at_most));
            if !self.told.contains(&interface) {
                self.told.push(interface);
            }
        }

        /// Thaws the sockets whose packets come in by an interface.
        pub fn thaw(&mut self, interface: u32) {
            if let Some(quiet) = ended(self.read(interface), now()) {
                self.write(interface, quiet);
            }
        }

        /// What the congestion controls did.
        #[must_use]
        pub fn counters(&self) -> KernelCounters {
            let bytes =
                self.count.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten().unwrap_or_default();
            let (numbers, _) = bytes.as_chunks::<8>();
            let mut numbers = numbers.iter().map(|bytes| u64::from_ne_bytes(*bytes));
            let mut next = || numbers.next().unwrap_or(0);
            KernelCounters { frozen: next(), shielded: next(), restored: next(), mended: next() }
        }

        fn key(&self, interface: u32) -> [u8; 16] {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&self.netns_cookie.to_ne_bytes());
            key[8..12].copy_from_slice(&interface.to_ne_bytes());
            key
        }

        fn read(&self, interface: u32) -> Option<Quiet> {
            let bytes = self.quiet.lookup(&self.key(interface), MapFlags::ANY).ok().flatten()?;
            let (numbers, _) = bytes.as_chunks::<8>();
            let [since, until] = numbers else { return None };
            Some(Quiet { since: u64::from_ne_bytes(*since), until: u64::from_ne_bytes(*until) })
        }

        fn write(&self, interface: u32, quiet: Quiet) {
            let mut value = [0; 16];
            value[..8].copy_from_slice(&quiet.since.to_ne_bytes());
            value[8..].copy_from_slice(&quiet.until.to_ne_bytes());
            if let Err(error) = self.quiet.update(&self.key(interface), &value, MapFlags::ANY) {
                tracing::error!(%error, interface, "the kernel's senders could not be told of a silence");
            }
        }
    }

    impl Drop for KernelSenders {
        fn drop(&mut self) {
            for interface in std::mem::take(&mut self.told) {
                self.thaw(interface);
            }
            // Whoever gets the lock alone was the last.
            drop(self.lock.take());
            if let Ok(Some(_alone)) = exclusively() {
                unregister(&self.registrations);
            }
        }
    }

    /// Where the kernel keeps the congestion control of new connections of this network namespace.
    const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

    /// Gives new connections the congestion control that is registered now, where the default is one of ours.
    /// The kernel keeps the default by its address and not by its name (net/ipv4/tcp_cong.c,
    /// `tcp_set_default_congestion_control`), so that it would stay that of a host which has ended, and which
    /// nobody can tell to freeze.
    fn renew_default() {
        let Ok(name) = std::fs::read_to_string(DEFAULT) else { return };
        let name = name.trim();
        if !CONGESTION_CONTROLS.contains(&name) {
            return;
        }
        match std::fs::write(DEFAULT, name) {
            Ok(()) => tracing::info!(name, "new connections get this congestion control, as before"),
            Err(error) => tracing::warn!(
                %error,
                "new connections get a {name} that no host can freeze any more: `sysctl -w net.ipv4.tcp_congestion_control={name}`"
            ),
        }
    }

    /// Words of the loader and the verifier that a refusal is told with.
    static SAID: Mutex<String> = Mutex::new(String::new());

    fn hear(level: PrintLevel, line: String) {
        let line = line.trim_end();
        tracing::debug!(?level, "{line}");
        if level == PrintLevel::Warn
            && let Ok(mut said) = SAID.lock()
        {
            said.push_str(line);
            said.push('\n');
        }
    }

    fn refused(error: libbpf_rs::Error) -> KernelError {
        let said = SAID.lock().map(|said| verdict_of(&said)).unwrap_or_default();
        KernelError::Refused(if said.is_empty() { error.to_string() } else { format!("{error}: {said}") })
    }

    /// Loads the programs, registers nothing and lets them go, which leaves nothing behind. Returns what the
    /// kernel lets them do.
    ///
    /// # Errors
    /// [`KernelError::Refused`] if the kernel takes them in no form.
    pub fn try_out() -> Result<Extent, KernelError> {
        load().map(|(_, extent)| extent)
    }

    /// Loads the programs as far as the kernel takes them.
    fn load() -> Result<(Object, Extent), KernelError> {
        libbpf_rs::set_print(Some((PrintLevel::Debug, hear)));
        load_as(Extent::Whole).or_else(|whole| {
            tracing::debug!(error = %whole, "once more, without the line that takes Linux 6.10");
            load_as(Extent::NoStamp)
        })
    }

    fn load_as(extent: Extent) -> Result<(Object, Extent), KernelError> {
        if let Ok(mut said) = SAID.lock() {
            said.clear();
        }
        let mut open = ObjectBuilder::default().open_memory(PROGRAM).map_err(refused)?;
        set_extent(&mut open, extent)?;
        Ok((open.load().map_err(refused)?, extent))
    }

    fn set_extent(open: &mut OpenObject, extent: Extent) -> Result<(), KernelError> {
        let Some(mut flag) = open.maps_mut().find(|map| map.name() == WRITES_STAMP) else {
            return Err(KernelError::Refused(format!("the program has no section {WRITES_STAMP}")));
        };
        let writes = u32::from(extent == Extent::Whole).to_ne_bytes();
        flag.set_initial_value(&writes).map_err(refused)
    }

    /// Loads the programs and registers the congestion controls. Returns the maps of silences and of
    /// counters, and the registrations.
    fn register() -> Result<(MapHandle, MapHandle, Vec<MapHandle>), KernelError> {
        let (mut object, extent) = load()?;
        if let Some(lost) = extent.lost() {
            tracing::warn!("{lost}");
        }
        let (mut quiet, mut count, mut registrations) = (None, None, Vec::new());
        for mut map in object.maps_mut() {
            let name = map.name().to_owned();
            // Before it is registered: who has no handle of it cannot take it back.
            let own = match MapHandle::try_from(&map) {
                Ok(own) => own,
                Err(error) => {
                    unregister(&registrations);
                    return Err(refused(error));
                }
            };
            if map.map_type() == MapType::StructOps {
                match map.attach_struct_ops() {
                    // The registration outlives this handle on purpose: another host may share it.
                    Ok(mut link) => link.disconnect(),
                    Err(error) => {
                        unregister(&registrations);
                        return Err(refused(error));
                    }
                }
                registrations.push(own);
            } else if name == QUIET {
                quiet = Some(own);
            } else if name == COUNT {
                count = Some(own);
            }
        }
        match (quiet, count) {
            (Some(quiet), Some(count)) => Ok((quiet, count, registrations)),
            _ => {
                unregister(&registrations);
                Err(KernelError::Refused("the program has no maps of the names expected".to_owned()))
            }
        }
    }

    /// Which program the loader says is refused, and the verifier's last word on it: what comes between are
    /// the instructions that led there.
    fn verdict_of(said: &str) -> String {
        let noise = ["--", "processed ", ";"];
        let lines = said.lines().map(str::trim).filter(|line| {
            !line.is_empty()
                && !noise.iter().any(|start| line.starts_with(start))
                && !line.starts_with(|first: char| first.is_ascii_digit())
                && !line.contains("PROG LOAD LOG")
                && !line.contains("failed to load")
        });
        let lines: Vec<&str> = lines.collect();
        match lines[..] {
            [] => String::new(),
            [only] => only.to_owned(),
            [first, .., last] => format!("{first}; {last}"),
        }
    }

    /// Takes back these registrations, and every other one of ours that can be found. Sockets that use one
    /// keep it.
    fn unregister(known: &[MapHandle]) {
        let key = 0u32.to_ne_bytes();
        for map in known.iter().filter(|map| is_registered(map)) {
            if let Err(error) = map.delete(&key) {
                tracing::warn!(%error, "a congestion control could not be unregistered");
            }
        }
        for name in CONGESTION_CONTROLS {
            while let Some(map) = registration(name) {
                if let Err(error) = map.delete(&key) {
                    tracing::warn!(%error, name, "a congestion control could not be unregistered");
                    break;
                }
            }
        }
    }

    /// The newest registration of this name that is in use.
    fn registration(name: &str) -> Option<MapHandle> {
        let mut ids: Vec<u32> = MapInfoIter::default()
            .filter(|map| map.name == name && map.ty == MapType::StructOps)
            .map(|map| map.id)
            .collect();
        ids.sort_unstable();
        ids.into_iter().rev().filter_map(|id| MapHandle::from_map_id(id).ok()).find(is_registered)
    }

    /// The maps of silences and of counters that a registration's programs use. Their names do not tell
    /// them: who loads the programs to try them ([`try_out`]) has maps of the same names meanwhile, and so
    /// has a socket that was open when an earlier host ended.
    fn maps_of(registration: &MapHandle) -> Option<(MapHandle, MapHandle)> {
        let value = registration.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok().flatten()?;
        // In place of pointers the kernel shows the numbers of the programs
        // (bpf_struct_ops_map_update_elem). The first word is the header.
        let (words, _) = value.as_chunks::<8>();
        let programs: Vec<u64> = words.iter().skip(1).map(|word| u64::from_ne_bytes(*word)).collect();
        let options = ProgInfoQueryOptions::default().include_map_ids(true);
        let mut used: Vec<MapHandle> = ProgInfoIter::with_query_opts(options)
            .filter(|program| programs.contains(&u64::from(program.id)))
            .flat_map(|program| program.map_ids)
            .filter_map(|id| MapHandle::from_map_id(id).ok())
            .collect();
        let mut take = |name: &str| {
            let at = used.iter().position(|map| map.name() == name)?;
            Some(used.swap_remove(at))
        };
        take(QUIET).zip(take(COUNT))
    }

    /// A registration's first words are its reference count and its state
    /// (`struct bpf_struct_ops_common_value`); 1 is in use, 2 is being taken back.
    fn is_registered(map: &MapHandle) -> bool {
        let Ok(Some(value)) = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY) else { return false };
        value
            .get(4..8)
            .and_then(|state| state.first_chunk::<4>())
            .is_some_and(|state| u32::from_ne_bytes(*state) == 1)
    }

    /// The lock if nobody else has it, not even shared.
    fn exclusively() -> Result<Option<Flock<File>>, KernelError> {
        match Flock::lock(lock_file()?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(lock)),
            Err((_, Errno::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(lock_error(errno.into())),
        }
    }

    fn share(lock: Flock<File>) -> Result<Flock<File>, KernelError> {
        lock.relock(FlockArg::LockShared).map_err(|errno| lock_error(errno.into()))?;
        Ok(lock)
    }

    fn lock_file() -> Result<File, KernelError> {
        let path = Path::new(LOCK_FILE);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(lock_error)?;
        }
        File::options().create(true).truncate(false).write(true).open(path).map_err(lock_error)
    }

    fn lock_error(source: io::Error) -> KernelError {
        KernelError::Lock { path: PathBuf::from(LOCK_FILE), source }
    }

    /// CLOCK_MONOTONIC, which `bpf_ktime_get_ns` reads, in ns.
    fn now() -> u64 {
        clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_or(0, |time| time.tv_sec() as u64 * 1_000_000_000 + time.tv_nsec() as u64)
    }

    /// The calling thread's network namespace as the kernel numbers it (SO_NETNS_COOKIE, socket(7)).
    fn netns_cookie() -> io::Result<u64> {
        let socket =
            std::net::UdpSocket::bind("127.0.0.1:0").or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0"))?;
        let mut cookie = 0u64;
        let mut length = size_of::<u64>() as libc::socklen_t;
        // SAFETY: the pointers lead to a u64 and to its length on this stack frame.
        let answer = unsafe {
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_NETNS_COOKIE,
                (&raw mut cookie).cast(),
                &raw mut length,
            )
        };
        if answer == 0 { Ok(cookie) } else { Err(io::Error::last_os_error()) }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// What Linux 6.1 said of the programs as they are for 6.10, shortened.
        const SAID: &str = "\
libbpf: prog 'cubic_ssthresh': BPF program load failed: -EACCES
libbpf: prog 'cubic_ssthresh': -- BEGIN PROG LOAD LOG --
reg type unsupported for arg#0 function cubic_ssthresh#44
func 'ssthresh' arg0 has btf_id 772 type STRUCT 'sock'
; tp->snd_cwnd_stamp = (__u32)bpf_jiffies64();
160: (63) *(u32 *)(r7 +1792) = r0
no write support to tcp_sock at off 1792
processed 186 insns (limit 1000000) max_states_per_insn 0 total_states 16 peak_states 16 mark_read 4
-- END PROG LOAD LOG --
libbpf: prog 'cubic_ssthresh': failed to load: -EACCES
libbpf: failed to load object 'cr_aware'";

        #[test]
        fn a_refusal_is_told_with_the_program_and_the_verifiers_last_word() {
            let program = "libbpf: prog 'cubic_ssthresh': BPF program load failed: -EACCES";
            assert_eq!(verdict_of(SAID), format!("{program}; no write support to tcp_sock at off 1792"));
            assert_eq!(verdict_of(program), program);
            assert_eq!(verdict_of(""), "");
        }

        /// Linux 6.1 takes the second form (`make test-wifi` loads it there); here both can be seen to have
        /// the flag, and to be two.
        #[test]
        fn the_programs_can_be_told_to_leave_the_stamp_alone() {
            for extent in [Extent::Whole, Extent::NoStamp] {
                let mut open = ObjectBuilder::default().open_memory(PROGRAM).expect("the program's file");
                set_extent(&mut open, extent).expect("the flag");
                let flag = open.maps().find(|map| map.name() == WRITES_STAMP).expect("its section");
                let value = flag.initial_value().and_then(|value| value.first_chunk::<4>());
                let wanted = u32::from(extent == Extent::Whole);
                assert_eq!(value.map(|value| u32::from_ne_bytes(*value)), Some(wanted), "{extent:?}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_secs(10);

    #[test]
    fn a_host_that_may_not_look_for_anothers_registration_is_told_what_it_lacks() {
        let (all, few) = (Rights::of(u64::MAX), Rights::of(0x3000));
        assert!(matches!(not_shared(false, few), KernelError::Unseen));
        assert!(not_shared(false, few).to_string().contains("takes CAP_SYS_ADMIN, which is lacking here"));
        for (is_locked, rights) in [(true, few), (true, all), (false, all)] {
            let told = not_shared(is_locked, rights).to_string();
            assert!(told.contains("is starting or ending and does not finish"), "{told}");
        }
    }

    #[test]
    fn silences_doubled_lost_and_out_of_order_end_in_time() {
        let first = begun(None, 100, MAX);
        assert_eq!(first, Quiet { since: 100, until: 100 + MAX.as_nanos() });
        // Doubled: the same silence, which may last longer.
        let doubled = begun(Some(first), 200, MAX);
        assert_eq!(doubled, Quiet { since: 100, until: 200 + MAX.as_nanos() });
        // A shorter limit does not shorten it.
        assert_eq!(begun(Some(doubled), 300, Duration::from_nanos(1)).until, doubled.until);
        let over = ended(Some(doubled), 400).unwrap();
        assert_eq!(over, Quiet { since: 100, until: 400 });
        // A second thaw, and one before any freeze, change nothing.
        assert_eq!(ended(Some(over), 500), None);
        assert_eq!(ended(None, 500), None);
        // The next silence is a new one, also where the thaw was lost.
        assert_eq!(begun(Some(over), 600, MAX).since, 600);
        let late = first.until + 1;
        assert_eq!(begun(Some(first), late, MAX).since, late);
    }
}
