//! What of a flow's data passed the testbed's ports, in the order of time.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;

/// A packet that stays in the base station for longer than this was held there.
pub const HELD_LONGER_THAN: Duration = Duration::from_millis(2);

/// Something of one flow's data that passed a port of the testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Instant,
    /// What.
    pub what: What,
}

/// What passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A segment left the sender's host; `len` is 0 for a zero-window probe (or the handshake's last).
    Sent {
        /// Its first byte.
        seq: Seq,
        /// Payload bytes.
        len: u32,
        /// The segment had been sent before.
        again: bool,
    },
    /// A segment left the base station, where it had been held since `since`.
    Left {
        /// When the base station got it.
        since: Instant,
    },
    /// A segment reached the receiver's host.
    Arrived {
        /// Its first byte.
        seq: Seq,
        /// The segment moved the stream on.
        new: bool,
    },
    /// An acknowledgment reached the sender's host.
    Heard {
        /// It acknowledges everything before this.
        ack: Seq,
        /// It closes the window.
        zero_window: bool,
    },
}
