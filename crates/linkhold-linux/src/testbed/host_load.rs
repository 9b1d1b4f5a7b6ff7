//! What a run's host had to do besides: processor time that the hypervisor gave to other machines, and that
//! went to programs which are not this one's; and how punctual it was for a thread that does nothing.
//!
//! A run that was late on a host with nothing else to do tells of the testbed; on a busy one it tells of the
//! host. Without these numbers nobody could tell the two apart. Shares of time alone do not tell enough: a
//! host that takes 1 % of the time away, 10 ms at once, makes every third run late that has to be in time for
//! each of some 40 edges of silences.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::punctual::{AIRS_PRIORITY, be_in_real_time, finest_timers};

/// A run is refused if the edges of its silences, or its other events, were handled later than this at the
/// 99th percentile: frames that come late carry less than the link's rate.
pub const MAX_LATENESS: Duration = Duration::from_millis(1);
/// From this share of the processors' time on, lateness is the host's.
const MUCH: f64 = 0.02;

/// A lateness that this host would bring about with at least this chance, if everything in the tree took no
/// time at all, is the host's.
const LIKELY: f64 = 0.05;

/// What went elsewhere while a run went on: shares, 0 to 1, and pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostLoad {
    /// Of the processors' time, to other virtual machines: `steal` in proc(5), `/proc/stat`.
    pub stolen: f64,
    /// Of the processors' time, to programs that this one did not start.
    pub others: f64,
    /// Of the time, as threads see it that do nothing but wake, one on each processor: what was due then came
    /// more than [`MAX_LATENESS`] late. These threads have a priority above all that a run consists of. What
    /// the kernel takes from every real-time thread, because one of ours never sleeps, they see as well.
    #[serde(default)]
    pub late: f64,
    /// How often that began on a processor, of a mean one.
    #[serde(default)]
    pub hiccups: f64,
    /// How long a mean processor stood still then in all, s.
    #[serde(default)]
    pub still_s: f64,
    /// As that, of the processor that did so the longest in all, s.
    #[serde(default)]
    pub worst_s: f64,
    /// The longest time for which one did at once, s.
    #[serde(default)]
    pub longest_s: f64,
}

impl HostLoad {
    /// True if it explains that a run was late.
    #[must_use]
    pub fn is_much(self) -> bool {
        self.stolen + self.others >= MUCH
    }

    /// True if it explains that more than one in a hundred of `events` (at least one) came later than
    /// [`MAX_LATENESS`]: each of them meets the host's own pauses by chance, edges of silences one by one,
    /// and frames as many at once as are due in a pause.
    #[must_use]
    pub fn explains_late(self, events: u64) -> bool {
        let expected = self.late * events as f64;
        let at_once = (expected / self.hiccups.max(1.0)).max(1.0);
        let needed = (events as f64 / 100.0 / at_once) as u64;
        self.is_much() || more_than(needed, expected / at_once) >= LIKELY
    }

    /// True if it explains that so much time was lost, in however many pauses of one processor: a program
    /// waits for its own, and a packet crosses all of them.
    #[must_use]
    pub fn explains_loss(self, time: Duration) -> bool {
        self.is_much() || self.worst_s >= time.as_secs_f64()
    }

    /// True if it explains that one thing came so much later than it may.
    #[must_use]
    pub fn explains_delay(self, time: Duration) -> bool {
        self.is_much() || self.longest_s >= time.as_secs_f64()
    }
}

/// The chance of more than `count` events where `expected` are expected, of Poisson's distribution.
fn more_than(count: u64, expected: f64) -> f64 {
    // In logarithms: e^-expected alone may be too small for a number.
    let mut log = -expected;
    let mut at_most = log.exp();
    for k in 1..=count {
        log += expected.ln() - (k as f64).ln();
        at_most += log.exp();
    }
    1.0 - at_most
}

impl std::fmt::Display for HostLoad {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { stolen, others, hiccups, still_s, worst_s, longest_s, .. } = self;
        write!(
            f,
            "meanwhile other machines took {:.1} % and other programs {:.1} % of its processors' time, each of which \
             stood still {hiccups:.0} times, {still_s:.3} s in all (one of them {worst_s:.3} s), {longest_s:.3} s at most",
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

/// Reads the host's counters at a run's start and at its end, and watches its clock in between.
#[derive(Debug)]
pub struct HostMeter {
    start: Ticks,
    began: Instant,
    watchers: Arc<Watchers>,
    /// What each had counted by then.
    counts: Vec<Counts>,
}

impl HostMeter {
    /// From now on.
    #[must_use]
    pub fn start() -> Self {
        let watchers = Watchers::get();
        let counts = watchers.seen(|seen| seen.counts);
        Self { start: now(), began: Instant::now(), watchers, counts }
    }

    /// Until now; nothing where `/proc` cannot be read.
    #[must_use]
    pub fn load(self) -> HostLoad {
        let now = now();
        let all = now.all.saturating_sub(self.start.all).max(1) as f64;
        let (mut due, mut late) = (0, 0);
        for (now, before) in self.watchers.seen(|seen| seen.counts).into_iter().zip(self.counts) {
            due += now.all - before.all;
            late += now.late - before.late;
        }
        let pauses = self.watchers.seen(|seen| seen.pauses_since(self.began));
        let processors = pauses.len().max(1) as f64;
        let still_s = || pauses.iter().map(|lengths| lengths.iter().sum::<Duration>().as_secs_f64());
        HostLoad {
            stolen: now.stolen.saturating_sub(self.start.stolen) as f64 / all,
            others: now.others.saturating_sub(self.start.others) as f64 / all,
            late: late as f64 / due.max(1) as f64,
            hiccups: pauses.iter().map(Vec::len).sum::<usize>() as f64 / processors,
            still_s: still_s().sum::<f64>() / processors,
            worst_s: still_s().fold(0.0, f64::max),
            longest_s: pauses.iter().flatten().max().copied().unwrap_or_default().as_secs_f64(),
        }
    }
}

/// One on each processor that this process may run on, for all meters that there are.
#[derive(Debug)]
struct Watchers(Vec<Watcher>);

impl Watchers {
    fn get() -> Arc<Self> {
        static ALL: Mutex<Weak<Watchers>> = Mutex::new(Weak::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.upgrade().unwrap_or_else(|| {
            let ours = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
            let processors =
                (0..CpuSet::count()).filter(|&processor| ours.is_set(processor).unwrap_or(false));
            let begun = Arc::new(Self(processors.filter_map(Watcher::start).collect()));
            *all = Arc::downgrade(&begun);
            begun
        })
    }

    fn seen<T>(&self, tell: impl Fn(&Seen) -> T) -> Vec<T> {
        let seen = |watcher: &Watcher| tell(&watcher.seen.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.iter().map(seen).collect()
    }
}

/// How long a [`Watcher`] sleeps.
const NAP: Duration = Duration::from_millis(5);
/// Pauses of a processor that are remembered, the latest ones.
const MOST_PAUSES: usize = 4096;

/// A thread on one processor that sleeps, and notes how late it wakes.
#[derive(Debug)]
struct Watcher {
    seen: Arc<Mutex<Seen>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Times at which a watcher was to wake, a [`NAP`] apart, and those at which it came too late.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    all: u64,
    late: u64,
}

/// What a watcher has seen.
#[derive(Debug, Default)]
struct Seen {
    counts: Counts,
    /// When a pause was over, and how long it was.
    pauses: VecDeque<(Instant, Duration)>,
}

impl Seen {
    /// It woke at `now`, `behind` its time, and may have slept through others. Returns how many in all.
    fn wake(&mut self, now: Instant, behind: Duration) -> u32 {
        if behind > MAX_LATENESS {
            if self.pauses.len() >= MOST_PAUSES {
                self.pauses.pop_front();
            }
            self.pauses.push_back((now, behind));
        }
        let missed = u32::try_from(behind.as_nanos() / NAP.as_nanos()).unwrap_or(u32::MAX);
        // Of the last one that is past, it is seen by itself whether it is late.
        let is_late = behind.saturating_sub(NAP.saturating_mul(missed)) > MAX_LATENESS;
        self.counts.all += u64::from(missed) + 1;
        self.counts.late += u64::from(missed) + u64::from(is_late);
        missed.saturating_add(1)
    }

    /// Lengths of the pauses that were over later than `from`.
    fn pauses_since(&self, from: Instant) -> Vec<Duration> {
        self.pauses.iter().filter(|(woke, _)| *woke >= from).map(|(_, length)| *length).collect()
    }
}

impl Watcher {
    /// Nothing where it could not be started.
    fn start(processor: usize) -> Option<Self> {
        let (seen, is_over) = (Arc::new(Mutex::new(Seen::default())), Arc::new(AtomicBool::new(false)));
        let (its, ends) = (seen.clone(), is_over.clone());
        let watch = move || {
            let mut one = CpuSet::new();
            let stays = one.set(processor).and_then(|()| sched_setaffinity(Pid::from_raw(0), &one));
            // Above the air. At another priority it would see what the testbed itself does.
            if stays.is_err() || be_in_real_time(AIRS_PRIORITY + 10).is_err() {
                return;
            }
            finest_timers();
            let mut due = Instant::now() + NAP;
            while !ends.load(Ordering::Relaxed) {
                std::thread::sleep(due.saturating_duration_since(Instant::now()));
                let now = Instant::now();
                let behind = now.saturating_duration_since(due);
                due += NAP * its.lock().unwrap_or_else(PoisonError::into_inner).wake(now, behind);
            }
        };
        let thread = std::thread::Builder::new().name("watcher".to_owned()).spawn(watch).ok()?;
        Some(Self { seen, is_over, thread: Some(thread) })
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
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
        let is_much = |stolen, others| HostLoad { stolen, others, ..HostLoad::default() }.is_much();
        assert!(is_much(0.02, 0.0) && is_much(0.0, 0.5) && is_much(0.01, 0.01));
        assert!(!is_much(0.01, 0.005));
    }
    #[test]
    fn pauses_explain_one_late_edge_or_as_many_late_frames_as_were_due_in_them() {
        let explains =
            |late, hiccups, events| HostLoad { late, hiccups, ..HostLoad::default() }.explains_late(events);
        // One of 40 edges is enough for a run to be late: with one moment in 500 late it may.
        assert!(explains(0.002, 10.0, 40) && !explains(0.001, 10.0, 40) && !explains(0.0, 0.0, 40));
        // Of 10,000 frames 101 have to be, which needs as many short pauses, or two of five long ones.
        assert!(!explains(0.004, 40.0, 10_000) && explains(0.009, 90.0, 10_000));
        assert!(explains(0.02, 5.0, 10_000) && !explains(0.001, 5.0, 10_000));
        assert!(HostLoad { stolen: 0.02, ..HostLoad::default() }.explains_late(10_000));
        let still = HostLoad { still_s: 0.05, worst_s: 0.08, longest_s: 0.02, ..HostLoad::default() };
        let ms = Duration::from_millis;
        assert!(still.explains_loss(ms(80)) && !still.explains_loss(ms(81)));
        assert!(still.explains_delay(ms(20)) && !still.explains_delay(ms(21)));
    }

    #[test]
    fn a_pause_counts_for_all_that_was_due_in_it() {
        let seen = |behind_us: &[u64]| {
            let mut seen = Seen::default();
            let wake = |&us| seen.wake(Instant::now(), Duration::from_micros(us));
            let steps: u32 = behind_us.iter().map(wake).sum();
            let lengths = seen.pauses.iter().map(|(_, length)| length.as_micros()).collect::<Vec<_>>();
            (seen.counts.all, seen.counts.late, lengths, steps)
        };
        assert_eq!(seen(&[80, 900, 1_000]), (3, 0, vec![], 3));
        assert_eq!(seen(&[2_000]), (1, 1, vec![2_000], 1));
        // Due at 0, 5, .. 50 ms: the last one is 0.5 ms late.
        assert_eq!(seen(&[50_500]), (11, 10, vec![50_500], 11));
        assert_eq!(seen(&[54_000, 10]), (12, 11, vec![54_000], 12));
        let mut many = Seen::default();
        for _ in 0..2 * MOST_PAUSES {
            many.wake(Instant::now(), Duration::from_millis(2));
        }
        assert_eq!(many.pauses.len(), MOST_PAUSES);
    }

    #[test]
    fn poissons_distribution() {
        for (count, expected, wanted) in [(0, 1.0, 0.632_121), (2, 1.0, 0.080_301), (10, 3.0, 0.000_292)] {
            assert!((more_than(count, expected) - wanted).abs() < 1e-6, "{count}, {expected}");
        }
        assert!(more_than(0, 0.0).abs() < 1e-9 && more_than(5, 0.0).abs() < 1e-9);
        assert!(more_than(100, 5000.0) > 0.999);
    }

    #[test]
    fn a_meter_watches_the_clock_while_it_lives() {
        if std::thread::spawn(|| be_in_real_time(1)).join().expect("no panic").is_err() {
            linkhold_testing::skipped("no right to real-time priorities");
            return;
        }
        let (meter, other) = (HostMeter::start(), HostMeter::start());
        assert!(Arc::ptr_eq(&meter.watchers, &other.watchers), "the same threads serve all");
        drop(other);
        assert!(!meter.counts.is_empty());
        let began = Instant::now();
        let all = |meter: &HostMeter| meter.watchers.seen(|seen| seen.counts.all);
        while all(&meter).iter().zip(&meter.counts).any(|(now, before)| *now == before.all) {
            assert!(began.elapsed() < Duration::from_secs(20), "a watcher never woke");
            std::thread::sleep(NAP);
        }
        let load = meter.load();
        assert!((0.0..=1.0).contains(&load.late) && load.longest_s <= 20.0, "{load:?}");
    }
}
