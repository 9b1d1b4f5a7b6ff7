//! How long threads wait for a processor, as the kernel tells it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration as StdDuration;

/// How long each thread has waited for a processor so far, by what the kernel calls it.
pub type Waits = BTreeMap<u32, StdDuration>;

/// The waits of a program's threads (proc(5), schedstat): what its process has is the first thread's alone,
/// and iperf3 has a thread for each stream since 3.16.
pub fn waits_of_program(pid: u32) -> impl Iterator<Item = (u32, StdDuration)> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| {
        let tid = thread.file_name().to_str()?.parse().ok()?;
        Some((tid, waited(&thread.path())))
    })
}

/// The wait of a thread of this process.
#[must_use]
pub fn wait_of_thread(tid: u32) -> StdDuration {
    waited(Path::new(&format!("/proc/self/task/{tid}")))
}

/// What the system does not tell is no wait.
fn waited(task: &Path) -> StdDuration {
    let told = std::fs::read_to_string(task.join("schedstat")).unwrap_or_default();
    StdDuration::from_nanos(told.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

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
