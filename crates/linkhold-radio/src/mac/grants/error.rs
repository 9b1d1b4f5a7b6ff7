//! What can be wrong with the parameters of a granted uplink.

use linkhold_core::time::Duration;

use super::standard::{MOST_CODES, Standard, frames_of};

/// What is wrong with a [`GrantsConfig`](super::config::GrantsConfig).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantsError {
    /// The standard has no frame of this length.
    #[error("{} has no frame of {frame}; it has {}", standard.name(), frames_of(*standard, *tdd))]
    Frame {
        /// The standard.
        standard: Standard,
        /// Whether the frames are those of TDD.
        tdd: bool,
        /// The length.
        frame: Duration,
    },
    /// More codes than there are.
    #[error("there are {MOST_CODES} codes, not {0}")]
    Codes(u32),
    /// A subframe has no room for data.
    #[error(
        "the {subframe} subframe of {length} has no room beside its {overhead} of {}",
        if *subframe == "downlink" { "maps" } else { "contention slots" }
    )]
    Subframe {
        /// `downlink` or `uplink`.
        subframe: &'static str,
        /// Its length.
        length: Duration,
        /// What is in it already.
        overhead: Duration,
    },
    /// The gaps are as long as the frame.
    #[error("the gaps of {gaps} leave nothing of a frame of {frame}")]
    Gaps {
        /// TTG and RTG.
        gaps: Duration,
        /// The frame.
        frame: Duration,
    },
    /// The unsolicited grants of a frame, or one packet's fragment, need more than the uplink subframe has.
    #[error("{wanted} B of grants do not fit into an uplink subframe of {room} B")]
    Grant {
        /// Bytes wanted.
        wanted: u64,
        /// Bytes that fit.
        room: u64,
    },
    /// The base station could not know of the request when it writes the map that grants.
    #[error(
        "an answer {given} frames after the request comes before the map that it needs; the least is {least}"
    )]
    TooSoon {
        /// Frames.
        given: u32,
        /// The least number of frames.
        least: u32,
    },
    /// Each request would be believed lost before its answer can come.
    #[error("a t3 of {t3} is over before the answer, which comes after {answer}")]
    T3 {
        /// The timer.
        t3: Duration,
        /// When the answer comes.
        answer: Duration,
    },
    /// A value is out of its range.
    #[error("{0} is out of range")]
    Range(&'static str),
}
