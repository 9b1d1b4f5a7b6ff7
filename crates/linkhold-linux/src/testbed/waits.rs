//! How long threads wait for a processor, as the kernel tells it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration as StdDuration;

use serde::{Deserialize, Serialize};

/// How long each thread has waited for a processor so far, by what the kernel calls it.
pub type Waits = BTreeMap<u32, StdDuration>;

/// How long a thread has waited for a processor so far, and how often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// All its waits together, those that are over.
    pub time: StdDuration,
    /// How many there were: the thread got a processor after each.
    pub times: u64,
}

/// A daemon that stood still for want of a processor, and its packets with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DaemonStall {
    /// The agent, or a host and where it runs.
    pub who: String,
    /// All its long waits together, s.
    pub waited_s: f64,
    /// The longest of them, s.
    pub longest_s: f64,
}

impl std::fmt::Display for DaemonStall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { who, waited_s, longest_s } = self;
        let (waited_ms, longest_ms) = (waited_s * 1e3, longest_s * 1e3);
        write!(f, "the {who} waited {waited_ms:.0} ms for a processor (at most {longest_ms:.0} ms at once)")
    }
}

/// The waits of a program's threads (proc(5), schedstat): what its process has is the first thread's alone,
/// and iperf3 has a thread for each stream since 3.16.
pub fn waits_of_program(pid: u32) -> impl Iterator<Item = (u32, StdDuration)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| {
        let tid = thread.file_name().to_str()?.parse().ok()?;
        Some((tid, waited(&thread.path())))
    })
}

/// The wait of a program's first thread, which handles all packets in the agent and in `linkhold host`.
#[must_use]
pub fn wait_of_first_thread(pid: u32) -> Wait {
    wait_in(Path::new(&format!("/proc/{pid}")))
}

/// The wait of a thread of this process.
#[must_use]
pub fn wait_of_thread(tid: u32) -> StdDuration {
    waited(Path::new(&format!("/proc/self/task/{tid}")))
}

fn waited(task: &Path) -> StdDuration {
    wait_in(task).time
}

/// What the system does not tell is no wait.
fn wait_in(folder: &Path) -> Wait {
    wait_told(&std::fs::read_to_string(folder.join("schedstat")).unwrap_or_default())
}

/// The second word is the time in the run queue, ns, and the third how often the thread got a processor.
fn wait_told(schedstat: &str) -> Wait {
    let mut words = schedstat.split_whitespace().skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let (time, times) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    Wait { time: StdDuration::from_nanos(time), times }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_with_how_often_the_thread_got_a_processor() {
        let wait = |ns, times| Wait { time: StdDuration::from_nanos(ns), times };
        assert_eq!(wait_told("7654321 45000000 12\n"), wait(45_000_000, 12));
        assert_eq!(wait_told("7 8"), wait(8, 0));
        assert_eq!((wait_told(""), wait_told("a b c")), (Wait::default(), Wait::default()));
        let own = wait_of_first_thread(std::process::id());
        assert_eq!(own.times > 0, Path::new("/proc/self/schedstat").exists(), "{own:?}");
        assert_eq!(wait_of_first_thread(u32::MAX), Wait::default());
    }

    #[test]
    fn a_daemons_stall_names_it() {
        let stall = DaemonStall { who: "agent".to_owned(), waited_s: 0.07, longest_s: 0.045 };
        assert_eq!(stall.to_string(), "the agent waited 70 ms for a processor (at most 45 ms at once)");
    }

    #[test]
    fn a_programs_waits_are_those_of_all_its_threads() {
        let (tell, told) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(nix::unistd::gettid().as_raw().unsigned_abs()).unwrap();
            let _ = ended.recv();
        });
        let (other, own) = (told.recv().unwrap(), nix::unistd::gettid().as_raw().unsigned_abs());
        let all: Waits = waits_of_program(std::process::id()).collect();
        assert!(all.contains_key(&own) && all.contains_key(&other) && own != other, "{all:?}");
        drop(end);
        thread.join().unwrap();
        assert_eq!(waits_of_program(u32::MAX).count(), 0);
    }
}
