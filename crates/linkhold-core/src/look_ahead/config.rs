//! Settings of the look-ahead mechanism.

use crate::time::Duration;
use crate::units::{Bytes, Fraction};

/// How the next acknowledgment's time is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    /// The paper's words: every ACK is compared with the one before it, and one that is not a period later
    /// starts the count again.
    Printed,
    /// The paper's intention: only ACKs that a timer sent are compared, with the nearest of the beats so far.
    Beats,
    /// Beats, and beside them what each connection's ACKs teach.
    Learned,
}

/// How many frames before an ACK its request is made: the paper's N_look_ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FramesAhead {
    /// As many as the measured access delays make best.
    Measured,
    /// Always this many.
    Fixed(u32),
}

/// Settings of [`LookAhead`](super::LookAhead).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LookAheadConfig {
    /// How the next acknowledgment's time is found.
    pub lock: Lock,
    /// How many frames before it the request is made.
    pub n: FramesAhead,
    /// Period of the receiver's free-running timer.
    pub period: Duration,
    /// How far from a beat an ACK is still of it.
    pub tolerance: Duration,
    /// The paper's K: the timer is known once more than this many ACKs in a row were on the beat.
    pub k: u32,
    /// Length of the radio's frames, until the radio tells it.
    pub frame: Duration,
    /// An ACK this soon after a segment was sent because of it, and not by a timer.
    pub at_once: Duration,
    /// Length of an ACK until one has been seen, bytes from the IP header on.
    pub bytes: Bytes,
    /// Share of requests without a packet from which on a predictor asks no more.
    pub worst: Fraction,
    /// Most connections known; the longest idle one makes room.
    pub max_flows: u32,
    /// Seed of the connection table's hash.
    pub flow_seed: u64,
}

impl Default for LookAheadConfig {
    fn default() -> Self {
        Self {
            lock: Lock::Learned,
            n: FramesAhead::Measured,
            // Section III, and figure 3.
            period: Duration::from_millis(200),
            // Two frames of the paper's. "About 200 ms" is all that section III says. Of ACKs at random times
            // a tenth is within it, so four in a row are a chance of one in 10,000.
            tolerance: Duration::from_millis(10),
            k: 3,
            // Section II-A.
            frame: Duration::from_millis(5),
            // A host answers within its own processing time, which is far below this; a second segment
            // follows within it only in one burst of the radio.
            at_once: Duration::from_millis(2),
            // An ACK without options.
            bytes: Bytes(40),
            worst: Fraction::clamped(0.5),
            max_flows: 256,
            flow_seed: 0,
        }
    }
}

impl LookAheadConfig {
    /// The paper's mechanism: the heartbeat alone, and no account of what is in vain.
    ///
    /// Section III has 8 or 9 frames, the access delay of its testbed. That delay counts the frame of the
    /// burst itself (equation 2's `T_transmit`), and a turn must not start before its ACK has come: so 7.
    #[must_use]
    pub fn paper() -> Self {
        Self { lock: Lock::Beats, n: FramesAhead::Fixed(7), worst: Fraction::ONE, ..Self::default() }
    }
}
