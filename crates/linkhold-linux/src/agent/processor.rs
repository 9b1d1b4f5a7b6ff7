//! The processor that the agent works on.
//!
//! The kernel sends a packet on in the thread that gives its verdict, and keeps a backlog and a transmit
//! queue for each processor (`softnet_data`, XPS). A thread that wanders lets packets of one flow overtake
//! each other there. So the agent's thread stays on one processor.

use std::io;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// `[datapath] processor`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Processor {
    /// The allowed processor that has received the fewest packets since the start of the machine, so that the
    /// agent does not wait for the network cards' interrupts.
    #[default]
    Auto,
    /// This one, numbered as in /proc/cpuinfo.
    Number(u32),
    /// Whatever the kernel's scheduler chooses, again and again: packets may overtake each other.
    Any,
}

/// Highest number that can be written.
pub const MAX_PROCESSOR: u32 = CpuSet::count() as u32 - 1;

/// Why the agent cannot stay on the processor that it is told.
#[derive(Debug, thiserror::Error)]
pub enum ProcessorError {
    /// The processor is not there, or not for this process.
    #[error(
        "datapath.processor: processor {wanted} is not there or not allowed here; allowed: {allowed}; or write \"auto\""
    )]
    NotAllowed {
        /// What was asked for.
        wanted: u32,
        /// Numbers, in the kernel's way: `0-3,6`.
        allowed: String,
    },
    /// The system refuses.
    #[error("cannot stay on processor {number}: {source}")]
    System {
        /// The processor.
        number: u32,
        /// The system's answer.
        source: io::Error,
    },
}

/// Keeps the calling thread, and what it starts, on one processor; answers which.
///
/// # Errors
/// [`ProcessorError`]. If the choice was `Auto`, a refusal is only logged: packets still pass.
pub fn stay_on(choice: Processor) -> Result<Option<u32>, ProcessorError> {
    let allowed = allowed();
    let number = match choice {
        Processor::Any => return Ok(None),
        Processor::Number(wanted) if allowed.contains(&wanted) => wanted,
        Processor::Number(wanted) => {
            return Err(ProcessorError::NotAllowed { wanted, allowed: ranges(&allowed) });
        }
        Processor::Auto => {
            let softirqs = std::fs::read_to_string("/proc/softirqs").unwrap_or_default();
            let Some(number) = least_busy(&allowed, &softirqs) else { return Ok(None) };
            number
        }
    };
    let mut set = CpuSet::new();
    match set.set(number as usize).and_then(|()| sched_setaffinity(Pid::from_raw(0), &set)) {
        Ok(()) => Ok(Some(number)),
        Err(errno) if choice == Processor::Auto => {
            tracing::warn!(%errno, number, "the agent may change processors, and packets then overtake each other");
            Ok(None)
        }
        Err(errno) => Err(ProcessorError::System { number, source: errno.into() }),
    }
}

/// Lets the calling thread, and what it starts, use these processors: for a helper that was started by a
/// thread which stays on one processor. If `processors` is empty or the system refuses, the thread stays
/// where it is.
pub fn roam(processors: &[u32]) {
    let mut set = CpuSet::new();
    let chosen = processors.iter().filter(|number| set.set(**number as usize).is_ok()).count();
    if chosen > 0
        && let Err(errno) = sched_setaffinity(Pid::from_raw(0), &set)
    {
        tracing::debug!(%errno, "a helper stays on its processor");
    }
}

/// Processors that the calling thread may use.
#[must_use]
pub fn allowed() -> Vec<u32> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..=MAX_PROCESSOR).filter(|number| set.is_set(*number as usize).unwrap_or(false)).collect()
}

/// Of the allowed processors, the one with the fewest received packets (NET_RX in /proc/softirqs); of
/// several, the last, because the first handles most interrupts.
fn least_busy(allowed: &[u32], softirqs: &str) -> Option<u32> {
    let numbers: Vec<u32> = softirqs
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|column| column.strip_prefix("CPU")?.parse().ok())
        .collect();
    let counts = softirqs.lines().find_map(|line| line.trim_start().strip_prefix("NET_RX:"));
    let counts: Vec<u64> =
        counts.unwrap_or_default().split_whitespace().filter_map(|count| count.parse().ok()).collect();
    let received = |number: &u32| {
        let column = numbers.iter().position(|known| known == number);
        column.and_then(|column| counts.get(column)).copied().unwrap_or(0)
    };
    allowed.iter().rev().min_by_key(|number| received(number)).copied()
}

/// Numbers as the kernel writes them: `0-3,6`.
fn ranges(numbers: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let text = |(first, last): (u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    parts.into_iter().map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOFTIRQS: &str = "                    CPU0       CPU1       CPU3       \n          HI:          1          0          4\n      \
                            NET_TX:          9          9          9\n      NET_RX:     500000         40        700\n";

    #[test]
    fn the_processor_with_the_fewest_received_packets_is_chosen() {
        assert_eq!(least_busy(&[0, 1, 3], SOFTIRQS), Some(1));
        assert_eq!(least_busy(&[0, 3], SOFTIRQS), Some(3));
        // Without counts: the last.
        assert_eq!(least_busy(&[0, 1, 2], ""), Some(2));
        assert_eq!(least_busy(&[], SOFTIRQS), None);
    }

    #[test]
    fn numbers_are_written_as_the_kernel_writes_them() {
        assert_eq!(ranges(&[0, 1, 2, 3, 6, 8, 9]), "0-3,6,8-9");
        assert_eq!(ranges(&[5]), "5");
    }

    /// On a thread of its own, since the test program's others go on as they were.
    #[test]
    fn a_thread_stays_on_its_processor() {
        std::thread::spawn(|| {
            let before = allowed();
            let last = *before.last().unwrap();
            assert_eq!(stay_on(Processor::Any).unwrap(), None);
            assert_eq!(allowed(), before);
            assert_eq!(stay_on(Processor::Number(last)).unwrap(), Some(last));
            assert_eq!(allowed(), [last]);
            let error = stay_on(Processor::Number(MAX_PROCESSOR)).unwrap_err().to_string();
            assert!(error.contains(&format!("allowed: {last};")), "{error}");
            roam(&[]);
            assert_eq!(allowed(), [last]);
            roam(&before);
            assert_eq!(allowed(), before);
        })
        .join()
        .unwrap();
        std::thread::spawn(|| {
            let chosen = stay_on(Processor::Auto).unwrap().unwrap();
            assert_eq!(allowed(), [chosen]);
        })
        .join()
        .unwrap();
    }
}
