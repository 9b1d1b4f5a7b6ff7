//! What is seen of the hosts while a run goes on: counters, transfers, congestion windows, and whether they
//! got a processor.

use std::time::Duration as StdDuration;

use linkhold_core::packet::Direction;

use super::kernel::{Counters, Socket};
use super::topology::{HostAt, station_of};
use super::traffic::Finished;
use super::waits::{DaemonStall, Wait, Waits};

/// How often the senders' windows are looked at.
pub const SOCKET_INTERVAL: StdDuration = StdDuration::from_millis(20);

/// A sender's connection at one time.
#[derive(Clone, Copy, Debug, Default)]
pub struct WindowSample {
    /// When the kernel was asked, s after the start of the run: what it says is of then or later.
    pub at_s: f64,
    /// When it had answered: what it says is of then or earlier. A busy host may take milliseconds, in which
    /// a silence may end.
    pub told_s: f64,
    /// The station, if its address is one of the testbed's.
    pub station: Option<u32>,
    /// The station's port.
    pub station_port: u16,
    /// The correspondent host's port.
    pub correspondent_port: u16,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments; `None` while infinite.
    pub ssthresh: Option<u32>,
    /// Smoothed round-trip time, s.
    pub rtt_s: f64,
    /// Segments in flight.
    pub in_flight: u32,
    /// Window last heard from the receiver, bytes.
    pub send_window: Option<u32>,
    /// See [`Socket::timeouts`].
    pub timeouts: Option<u16>,
}

impl WindowSample {
    /// What the kernel, asked at `at_s`, said by `told_s` of `socket`, whose host sends data in `direction`.
    #[must_use]
    pub fn new((at_s, told_s): (f64, f64), direction: Direction, socket: &Socket) -> Self {
        let (station, station_port, correspondent_port) = match direction {
            Direction::Downlink => (socket.peer, socket.peer_port, socket.local_port),
            Direction::Uplink => (socket.local, socket.local_port, socket.peer_port),
        };
        Self {
            at_s,
            told_s,
            station: station.and_then(station_of),
            station_port,
            correspondent_port,
            cwnd: socket.cwnd,
            ssthresh: socket.ssthresh,
            rtt_s: f64::from(socket.rtt_us) / 1e6,
            in_flight: socket.unacked,
            send_window: socket.send_window,
            timeouts: socket.timeouts,
        }
    }
}

/// What the hosts' side of a run saw.
pub struct Watched {
    /// What the senders' kernels counted, from start to end.
    pub kernel: Counters,
    /// The same from the end of the warm-up on, by the host that sends.
    pub counted: Vec<(HostAt, Counters)>,
    /// What is left of the traffic.
    pub traffic: Finished,
    /// Senders' windows over time.
    pub windows: Vec<WindowSample>,
    /// How long the hosts' programs, or daemons, stood still for want of a processor.
    pub stalled: StdDuration,
    /// The daemons that did.
    pub daemon_stalls: Vec<DaemonStall>,
}

/// Adds up the times in which a thread of the traffic, or one in which a daemon handles packets, could have
/// run but got no processor, as seen at looks a [`SOCKET_INTERVAL`] apart.
pub struct Stalls {
    looked: std::time::Instant,
    waits: Waits,
    daemons: Vec<DaemonWaits>,
    total: StdDuration,
}

impl Stalls {
    /// The first look: how long each thread has waited until now does not count.
    #[must_use]
    pub fn new(now: std::time::Instant, waits: Waits, daemons: &[Wait]) -> Self {
        let daemons = daemons.iter().map(|&wait| DaemonWaits { wait, ..DaemonWaits::default() });
        Self { looked: now, waits, daemons: daemons.collect(), total: StdDuration::ZERO }
    }

    /// Takes a look; `waits` is how long each thread of the traffic has waited so far, `daemons` how long
    /// each daemon's thread, in the order of the first look. Waits of some microseconds are usual. What
    /// counts is a wait of at least an interval between two looks, or a look that itself comes an interval
    /// late. Each thread stands for itself: short waits of many are none that is long.
    pub fn look(&mut self, now: std::time::Instant, waits: Waits, daemons: &[Wait]) {
        let before = |tid| self.waits.get(tid).copied().unwrap_or_default();
        let waited = waits.iter().map(|(tid, now)| now.saturating_sub(before(tid))).max();
        let between = now.duration_since(self.looked);
        let mut stalled = waited.unwrap_or_default().max(between.saturating_sub(SOCKET_INTERVAL));
        for (daemon, &wait) in self.daemons.iter_mut().zip(daemons) {
            stalled = stalled.max(daemon.look(wait, between));
        }
        if stalled >= SOCKET_INTERVAL {
            self.total += stalled;
        }
        (self.looked, self.waits) = (now, waits);
    }

    /// All stalls so far.
    #[must_use]
    pub fn total(&self) -> StdDuration {
        self.total
    }

    /// The daemons that stood still, by their `names` in the order of the looks.
    #[must_use]
    pub fn of_daemons<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<DaemonStall> {
        let stood_still = names.zip(&self.daemons).filter(|(_, daemon)| !daemon.stalled.is_zero());
        let told = |(who, daemon): (&str, &DaemonWaits)| DaemonStall {
            who: who.to_owned(),
            waited_s: daemon.stalled.as_secs_f64(),
            longest_s: daemon.longest.as_secs_f64(),
        };
        stood_still.map(told).collect()
    }
}

/// The waits of the thread in which a daemon handles packets.
#[derive(Clone, Copy, Debug, Default)]
struct DaemonWaits {
    /// At the last look.
    wait: Wait,
    /// All long ones.
    stalled: StdDuration,
    longest: StdDuration,
}

impl DaemonWaits {
    /// Takes a look, `between` after the last one; answers for how long the thread stood still.
    fn look(&mut self, wait: Wait, between: StdDuration) -> StdDuration {
        let stalled = long_wait(self.wait, wait, between);
        self.wait = wait;
        self.stalled += stalled;
        self.longest = self.longest.max(stalled);
        stalled
    }
}

/// The wait of at least an interval that a thread had between two looks; zero if it had none.
///
/// A daemon's thread sleeps and wakes for every few packets, and beside many cells each waking waits a bit.
/// The kernel tells the sum of the waits that are over, and how many they were. Short ones cannot add up to
/// more than the time between the looks, so with a greater sum one of them began long before. Otherwise what
/// is known to be long is their mean. So a wait is missed that is longer than an interval and shorter than
/// the time between two looks of which the second came late, if others were beside it.
fn long_wait(before: Wait, after: Wait, between: StdDuration) -> StdDuration {
    let waited = after.time.saturating_sub(before.time);
    let times = u32::try_from(after.times.saturating_sub(before.times)).unwrap_or(u32::MAX);
    let at_once = if waited >= between { waited } else { waited / times.max(1) };
    if at_once >= SOCKET_INTERVAL { at_once } else { StdDuration::ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_a_long_wait_or_a_late_look() {
        let (start, ms) = (std::time::Instant::now(), StdDuration::from_millis);
        let waits = |all: &[(u32, u64)]| all.iter().map(|&(tid, wait)| (tid, ms(wait))).collect::<Waits>();
        let mut stalls = Stalls::new(start, waits(&[(7, 45), (8, 0)]), &[]);
        stalls.look(start + ms(20), waits(&[(7, 48), (8, 1)]), &[]);
        assert_eq!(stalls.total, ms(0), "short waits are usual");
        stalls.look(start + ms(45), waits(&[(7, 53), (8, 31)]), &[]);
        assert_eq!(stalls.total, ms(30), "the second thread waited for 30 ms more");
        stalls.look(start + ms(165), waits(&[(7, 53), (8, 31)]), &[]);
        assert_eq!(stalls.total, ms(130), "a look 100 ms late");
        stalls.look(start + ms(185), waits(&[(2, 2), (7, 54), (8, 32)]), &[]);
        assert_eq!(stalls.total, ms(130), "a thread that is new");
        stalls.look(start + ms(205), waits(&[(2, 17), (8, 46)]), &[]);
        assert_eq!(stalls.total, ms(130), "14 ms and 15 ms of two threads, and one that is gone");
    }

    #[test]
    fn a_daemons_long_wait_is_a_stall_by_name_and_many_short_ones_are_none() {
        let (start, ms) = (std::time::Instant::now(), StdDuration::from_millis);
        let wait = |wait_ms, times| Wait { time: ms(wait_ms), times };
        let waits = |all: &[(u32, u64)]| all.iter().map(|&(tid, wait)| (tid, ms(wait))).collect::<Waits>();
        let mut stalls = Stalls::new(start, Waits::new(), &[wait(1000, 9), wait(7, 7)]);
        let mut look = |at_ms, programs: &[(u32, u64)], daemons: [Wait; 2]| {
            stalls.look(start + ms(at_ms), waits(programs), &daemons);
            let told = stalls.of_daemons(["agent", "host at station 0"].into_iter());
            (stalls.total, told.iter().map(ToString::to_string).collect::<Vec<_>>())
        };
        assert_eq!(look(20, &[], [wait(1015, 109), wait(7, 7)]), (ms(0), vec![]), "100 short ones");
        // 45 ms, and short ones before and after it.
        let once = "the agent waited 46 ms for a processor (at most 46 ms at once)".to_owned();
        assert_eq!(look(41, &[], [wait(1061, 129), wait(8, 8)]), (ms(46), vec![once.clone()]));
        let late = look(76, &[], [wait(1091, 149), wait(8, 8)]);
        assert_eq!(late, (ms(46), vec![once]), "short ones, and a late look");
        // Both at once, and a program: the run stood still for the longest of the three.
        let twice = "the agent waited 76 ms for a processor (at most 46 ms at once)".to_owned();
        let host = "the host at station 0 waited 21 ms for a processor (at most 21 ms at once)".to_owned();
        let told = look(96, &[(7, 25)], [wait(1121, 150), wait(29, 9)]);
        assert_eq!(told, (ms(76), vec![twice.clone(), host.clone()]));
        assert_eq!(look(116, &[(7, 25)], [Wait::default(); 2]), (ms(76), vec![twice, host]), "they are gone");
    }

    #[test]
    fn fifty_waits_of_a_millisecond_are_no_wait_of_fifty() {
        let ms = StdDuration::from_millis;
        let long = |waited_ms: u64, times: u64, between_ms| {
            let before = Wait { time: ms(5), times: 5 };
            let after = Wait { time: ms(5 + waited_ms), times: 5 + times };
            long_wait(before, after, ms(between_ms))
        };
        assert_eq!(long(50, 50, 100), ms(0));
        assert_eq!((long(50, 1, 100), long(50, 2, 100), long(50, 0, 100)), (ms(50), ms(25), ms(50)));
        assert_eq!((long(50, 50, 20), long(19, 1, 20), long(20, 1, 20)), (ms(50), ms(0), ms(20)));
    }
}
