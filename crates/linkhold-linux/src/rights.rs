//! What the calling process may do (capabilities(7)), and how a command says that it lacks a right.

/// A capability, by its name and its number in linux/capability.h.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability {
    /// `CAP_...`
    pub name: &'static str,
    bit: u32,
}

/// Queues and rules.
pub const CAP_NET_ADMIN: Capability = Capability { name: "CAP_NET_ADMIN", bit: 12 };
/// Raw sockets.
pub const CAP_NET_RAW: Capability = Capability { name: "CAP_NET_RAW", bit: 13 };
/// Namespaces.
pub const CAP_SYS_ADMIN: Capability = Capability { name: "CAP_SYS_ADMIN", bit: 21 };
/// eBPF.
pub const CAP_BPF: Capability = Capability { name: "CAP_BPF", bit: 39 };

/// What the calling process may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rights {
    /// Effective capabilities, as bits; `None` where they cannot be read.
    effective: Option<u64>,
    is_root: bool,
}

impl Rights {
    /// Reads them (proc(5), CapEff).
    #[must_use]
    pub fn read() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").ok();
        let effective = status.and_then(|status| mask(&status, "CapEff:"));
        Self { effective, is_root: nix::unistd::geteuid().is_root() }
    }

    /// Those of a process with these effective capabilities.
    #[cfg(test)]
    pub(crate) const fn of(effective: u64) -> Self {
        Self { effective: Some(effective), is_root: false }
    }

    /// Those of `needed` that are certainly not there: where nothing can be read, trying tells.
    #[must_use]
    pub fn lacking(self, needed: &[Capability]) -> Vec<&'static str> {
        let Some(effective) = self.effective else { return Vec::new() };
        needed.iter().filter(|one| effective & (1 << one.bit) == 0).map(|one| one.name).collect()
    }

    /// Why `command` cannot run if it lacks any of `needed`, which are called `words`.
    #[must_use]
    pub fn refusal(self, command: &str, needed: &[Capability], words: &str) -> Option<String> {
        let lacking = self.lacking(needed);
        if lacking.is_empty() {
            return None;
        }
        let remedy = if self.is_root {
            format!(
                "root is without {} here; let the container or the service have it",
                lacking.join(" and ")
            )
        } else {
            "run it with sudo".to_owned()
        };
        Some(format!("{command} needs {words}: {remedy}"))
    }

    /// Why `command`, which needs root for the reason given, cannot run if the caller is somebody else.
    #[must_use]
    pub fn refusal_without_root(self, command: &str, reason: &str) -> Option<String> {
        (!self.is_root).then(|| format!("{command} {reason} and needs root: run it with sudo"))
    }
}

/// A line of bits in `/proc/PID/status` (proc(5)), such as `CapEff:` or `SigIgn:`.
pub(crate) fn mask(status: &str, key: &str) -> Option<u64> {
    let bits = status.lines().find_map(|line| line.strip_prefix(key))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_a_capability_learns_its_name_and_what_to_do() {
        let rights = |effective, is_root| Rights { effective, is_root };
        let needed = [CAP_NET_ADMIN, CAP_NET_RAW];
        let refusal = |rights: Rights| rights.refusal("linkhold x", &needed, "CAP_NET_ADMIN and CAP_NET_RAW");
        let told = "linkhold x needs CAP_NET_ADMIN and CAP_NET_RAW: run it with sudo";
        for bits in [0, 1 << 12, 1 << 13, !(1 << 13)] {
            assert_eq!(refusal(rights(Some(bits), false)).as_deref(), Some(told), "{bits:x}");
        }
        let told = "linkhold x needs CAP_NET_ADMIN and CAP_NET_RAW: root is without CAP_NET_RAW here; let the \
                    container or the service have it";
        assert_eq!(refusal(rights(Some(1 << 12), true)).as_deref(), Some(told));
        for fine in [Some(3 << 12), Some(u64::MAX), None] {
            assert_eq!(refusal(rights(fine, false)), None, "{fine:?}");
        }
        let told = rights(Some(u64::MAX), false).refusal_without_root("linkhold x", "makes namespaces");
        assert_eq!(told.as_deref(), Some("linkhold x makes namespaces and needs root: run it with sudo"));
        assert_eq!(rights(None, true).refusal_without_root("linkhold x", "makes namespaces"), None);
    }

    #[test]
    fn effective_capabilities_are_read_from_the_kernels_words() {
        let status = "Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000001ffffffffff\nCapBnd:\t0\n";
        assert_eq!(mask(status, "CapEff:"), Some(0x1ff_ffff_ffff));
        assert_eq!((mask("CapEff:\tall\n", "CapEff:"), mask("", "CapEff:")), (None, None));
        assert!(Rights::read().effective.is_some());
    }
}
