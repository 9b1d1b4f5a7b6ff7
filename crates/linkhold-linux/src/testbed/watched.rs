//! What is seen of the hosts while a run goes on: counters, transfers, congestion windows, and whether they
//! got a processor.

use std::time::Duration as StdDuration;

use linkhold_core::packet::Direction;

use super::kernel::{Counters, Socket};
use super::topology::{HostAt, station_of};
use super::traffic::Finished;
use super::waits::Waits;

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
    /// How long the hosts' programs stood still for want of a processor.
    pub stalled: StdDuration,
}

/// Adds up the times in which a thread of the traffic could have run but got no processor, as seen at looks a
/// [`SOCKET_INTERVAL`] apart.
pub struct Stalls {
    looked: std::time::Instant,
    waits: Waits,
    total: StdDuration,
}

impl Stalls {
    /// The first look: how long each thread has waited until now does not count.
    #[must_use]
    pub fn new(now: std::time::Instant, waits: Waits) -> Self {
        Self { looked: now, waits, total: StdDuration::ZERO }
    }

    /// Takes a look; `waits` is how long each thread has waited so far. Waits of some microseconds are usual.
    /// What counts is a wait of at least an interval between two looks, or a look that itself comes an
    /// interval late. Each thread stands for itself: short waits of many are none that is long.
    pub fn look(&mut self, now: std::time::Instant, waits: Waits) {
        let before = |tid| self.waits.get(tid).copied().unwrap_or_default();
        let waited = waits.iter().map(|(tid, now)| now.saturating_sub(before(tid))).max();
        let late = now.duration_since(self.looked).saturating_sub(SOCKET_INTERVAL);
        let stalled = waited.unwrap_or_default().max(late);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_a_long_wait_or_a_late_look() {
        let (start, ms) = (std::time::Instant::now(), StdDuration::from_millis);
        let waits = |all: &[(u32, u64)]| all.iter().map(|&(tid, wait)| (tid, ms(wait))).collect::<Waits>();
        let mut stalls = Stalls::new(start, waits(&[(7, 45), (8, 0)]));
        stalls.look(start + ms(20), waits(&[(7, 48), (8, 1)]));
        assert_eq!(stalls.total, ms(0), "short waits are usual");
        stalls.look(start + ms(45), waits(&[(7, 53), (8, 31)]));
        assert_eq!(stalls.total, ms(30), "the second thread waited for 30 ms more");
        stalls.look(start + ms(165), waits(&[(7, 53), (8, 31)]));
        assert_eq!(stalls.total, ms(130), "a look 100 ms late");
        stalls.look(start + ms(185), waits(&[(2, 2), (7, 54), (8, 32)]));
        assert_eq!(stalls.total, ms(130), "a thread that is new");
        stalls.look(start + ms(205), waits(&[(2, 17), (8, 46)]));
        assert_eq!(stalls.total, ms(130), "14 ms and 15 ms of two threads, and one that is gone");
    }
}
