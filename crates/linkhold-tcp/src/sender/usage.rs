//! Was cwnd what kept the sender from sending more? A window that is not used is not grown (RFC 7661 section
//! 4.1's concern).
//!
//! Source: Linux `tcp_cwnd_validate` and `tcp_is_cwnd_limited`.

use crate::congestion::Window;

/// The answer for the last window of data.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    cwnd_limited: bool,
    /// Most bytes in flight in this window of data.
    max_flight: u64,
    /// The window of data ends here: SND.NXT at the last note.
    end: u64,
}

impl Usage {
    /// The connection is up; data starts at `nxt`.
    pub fn begin(&mut self, nxt: u64) {
        self.end = nxt;
    }

    /// Everything that may go has gone, or (`limited`) cwnd has stopped something.
    pub fn note(&mut self, limited: bool, una: u64, nxt: u64) {
        let flight = nxt - una;
        if una >= self.end || limited || (!self.cwnd_limited && flight > self.max_flight) {
            *self = Self { cwnd_limited: limited, max_flight: flight, end: nxt };
        }
    }

    /// True if cwnd may grow: slow start to twice what was used.
    #[inline]
    pub fn cwnd_limited(&self, window: &Window) -> bool {
        self.cwnd_limited || (window.in_slow_start() && window.cwnd < 2 * self.max_flight)
    }
}
