//! What a run's host had to do besides: processor time that the hypervisor gave to other machines, and that
//! went to programs which are not this one's.
//!
//! A run that was late on a host with nothing else to do tells of the testbed; on a busy one it tells of the
//! host. Without this number nobody could tell the two apart.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// From this share of the processors' time on, lateness is the host's.
const MUCH: f64 = 0.02;

/// Shares of the processors' time, 0 to 1, that went elsewhere while a run went on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostLoad {
    /// To other virtual machines: `steal` in proc(5), `/proc/stat`.
    pub stolen: f64,
    /// To programs that this one did not start.
    pub others: f64,
}

impl HostLoad {
    /// True if it explains that a run was late.
    #[must_use]
    pub fn is_much(self) -> bool {
        self.stolen + self.others >= MUCH
    }
}

impl std::fmt::Display for HostLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stolen, others } = self;
        write!(
            f,
            "meanwhile other machines took {:.1} % and other programs {:.1} % of its processors' time",
            stolen * 100.0,
            others * 100.0
        )
    }
}

/// Clock ticks since boot, over all processors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ticks {
    all: u64,
    stolen: u64,
    others: u64,
}

/// Reads the host's counters at a run's start and at its end.
#[derive(Debug)]
pub struct HostMeter(Ticks);

impl HostMeter {
    /// From now on.
    #[must_use]
    pub fn start() -> Self {
        Self(now())
    }

    /// Until now; nothing where `/proc` cannot be read.
    #[must_use]
    pub fn load(&self) -> HostLoad {
        let now = now();
        let all = now.all.saturating_sub(self.0.all).max(1) as f64;
        HostLoad {
            stolen: now.stolen.saturating_sub(self.0.stolen) as f64 / all,
            others: now.others.saturating_sub(self.0.others) as f64 / all,
        }
    }
}

fn now() -> Ticks {
    let (all, stolen) =
        std::fs::read_to_string("/proc/stat").ok().and_then(|text| processors(&text)).unwrap_or_default();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        // A process that has ended meanwhile is missing here; its parent has its time.
        process(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?).map(|found| (pid, found))
    });
    Ticks { all, stolen, others: others(&processes.collect(), std::process::id()) }
}

/// All ticks and stolen ones, of the first line of `/proc/stat`: user, nice, system, idle, iowait, irq,
/// softirq, steal. What guests get is in user and nice already.
fn processors(text: &str) -> Option<(u64, u64)> {
    let mut words = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
    let mut ticks = [0_u64; 8];
    for tick in &mut ticks {
        *tick = words.next()?.parse().ok()?;
    }
    Some((ticks.iter().sum(), ticks[7]))
}

/// A process's parent and the ticks that it and its ended children had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    ticks: u64,
}

fn process(stat: &str) -> Option<Process> {
    // The name stands in parentheses and may hold anything. After it: state, parent, and utime, stime, cutime
    // and cstime as the 12th to 15th words.
    let (_, rest) = stat.rsplit_once(')')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let parent = words.get(1)?.parse().ok()?;
    let ticks = words.get(11..15)?.iter().filter_map(|word| word.parse::<u64>().ok()).sum();
    Some(Process { parent, ticks })
}

/// The parent of the kernel's own threads.
const KTHREADD: u32 = 2;
/// No chain of parents is longer.
const MOST_ANCESTORS: usize = 64;

/// The ticks of all processes that do not descend from `ours`, without the kernel's threads: these work for
/// our packets as well as for anybody's.
fn others(processes: &HashMap<u32, Process>, ours: u32) -> u64 {
    let is_other = |pid: u32| {
        let ancestors = std::iter::successors(Some(pid), |pid| processes.get(pid).map(|found| found.parent));
        !ancestors.take(MOST_ANCESTORS).any(|ancestor| ancestor == ours || ancestor == KTHREADD)
    };
    processes.iter().filter(|&(&pid, _)| is_other(pid)).map(|(_, process)| process.ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_proc_stat_says_what_was_stolen() {
        let text = "cpu  10 20 30 400 5 0 6 29 7 8\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(processors(text), Some((500, 29)));
        assert_eq!(processors("cpu  1 2 3\n"), None);
        assert_eq!(processors(""), None);
    }

    #[test]
    fn a_name_with_parentheses_and_spaces_does_not_hide_the_times() {
        let stat = "7 (a) S 1) (b) R 3 7 7 0 -1 4194560 100 0 0 0 11 22 33 44 20 0 1 0";
        assert_eq!(process(stat), Some(Process { parent: 3, ticks: 110 }));
        assert_eq!(process("7 (a) R 3"), None);
        assert_eq!(process("nothing"), None);
    }

    #[test]
    fn descendants_and_kernel_threads_are_not_others() {
        let processes =
            [(1, 0, 5), (2, 0, 7), (3, 2, 11), (10, 1, 13), (11, 10, 17), (12, 11, 19), (20, 1, 23)];
        let processes =
            processes.into_iter().map(|(pid, parent, ticks)| (pid, Process { parent, ticks })).collect();
        assert_eq!(others(&processes, 10), 5 + 23);
        assert_eq!(others(&processes, 11), 5 + 13 + 23, "a parent is another program");
    }

    #[test]
    fn a_circle_of_parents_ends() {
        let processes = [(5, 6), (6, 5)].map(|(pid, parent)| (pid, Process { parent, ticks: 1 }));
        assert_eq!(others(&processes.into_iter().collect(), 10), 2);
    }

    #[test]
    fn lateness_is_the_hosts_from_a_fiftieth_of_its_time_on() {
        let is_much = |stolen, others| HostLoad { stolen, others }.is_much();
        assert!(is_much(0.02, 0.0) && is_much(0.0, 0.5) && is_much(0.01, 0.01));
        assert!(!is_much(0.01, 0.005));
    }
}
