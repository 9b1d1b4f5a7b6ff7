//! `[radio.grants]`: the keys of a granted uplink. What they become stands in `grants.rs`.

use linkhold_core::time::Duration;
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::grants::Backoff;

use crate::read::{file_enum, file_table};
use crate::scalar::{OrOff, Positive};

file_table! {
    /// A granted uplink. radio.phy_rate is the rate of a downlink burst while it is on the air; gaps, maps
    /// and contention come on top. Where a default is not named, it is that of the set that radio.mac names.
    Grants {
        /// From one frame's start to the next. "802.16": 2, 2.5, 4, 5, 8, 10 or 12 ms, default 5ms. "docsis":
        /// the MAP interval, default 2ms. "5g": the slot (1ms, 500us, 250us, 125us, 62.5us), default 1ms;
        /// with TDD the pattern's period (0.5, 0.625, 1, 1.25, 2, 2.5, 3, 4, 5, 10 ms), default 2.5ms.
        optional frame: Positive<Duration>;
        /// How the directions share the medium. Default: "tdd" with "802.16", else "fdd".
        optional duplexing: DuplexingName;
        /// With TDD, the share of a frame without its gaps that is downlink subframe. Default: 0.643 (27 of a
        /// WiBro frame's 42 symbols), 0.7 with "5g".
        optional downlink_share: Positive<Fraction>;
        /// With TDD, the gap before the uplink subframe. Default: 121.2us (WiBro), 71.4us with "5g".
        optional ttg: Duration;
        /// With TDD, the gap after it. Default: 40.4us (WiBro), 13us with "5g".
        optional rtg: Duration;
        /// Time at the start of each downlink subframe without data: preamble, FCH, DL-MAP and UL-MAP.
        /// Default: 576us (5 symbols) with "802.16", 0s with "docsis", 2/14 of a frame with "5g".
        optional maps: Duration;
        /// Time at the start of each uplink subframe without data: ranging slots, request minislots, PUCCH.
        /// Default: 345.6us (3 symbols) with "802.16", 200us with "docsis", 1/14 of a frame with "5g".
        optional contention: Duration;
        /// Rate of an uplink burst while it is on the air. Default: the channel's phy_rate.
        optional uplink_rate: Positive<BitRate>;
        /// Bytes around each packet, and around each fragment of one, in a burst. Default: 10B, 24B with
        /// "docsis", 8B with "5g".
        optional header: Bytes;
        /// Codes in each slot of the contention part, at most 256. Default: 16; with "docsis" there is one,
        /// and with "5g" none.
        optional codes: Positive<u32>;
        /// Ranging subchannels. Default: 1; "802.16" only.
        optional subchannels: Positive<u32>;
        /// Slots of the contention part, in time. Default: 3, 16 with "docsis". Two stations that draw the
        /// same code in the same slot and subchannel collide.
        optional slots: Positive<u32>;
        /// With "5g", slots from one opportunity of a station's scheduling request to its next. Default: 10.
        optional request_period: Positive<u32>;
        /// Chance that a request which collided with no other is received (the lookahead paper's p_s).
        /// Default: 1, 0.99 with "5g".
        optional success: Positive<Fraction>;
        /// Changes of that chance in the run, at most 8, each later than the one before:
        /// [{ at = "10s", success = 0.5 }].
        list success_changes: SuccessChange;
        /// Frames from what the base station received to the turn that it gives for it (T_assignment).
        /// Default: 1, 2 with "docsis", 4 with "5g". A request is received one frame after it was sent.
        optional assignment: u32;
        /// Frames that decoding, encoding and scheduling add to a whole access (the lookahead paper's section
        /// II-C). Default: 4 with "802.16", else 0.
        optional implementation_delay: u32;
        /// How long a station waits for an answer before it tries again; with "5g" sr-ProhibitTimer. Default:
        /// 60ms or 12 frames, whichever is longer, with "802.16"; 5 frames more than an answer takes with the
        /// others.
        optional t3: Positive<Duration>;
        /// When a try follows a failed one. "802.16" and "docsis". Default: "standard".
        optional backoff: Backoff;
        /// Exponent of the first window of the backoff, in frames. Default: 0, so the first try is at once.
        optional backoff_start: u8;
        /// Exponent of the largest window, at most 15. Default: 6.
        optional backoff_end: u8;
        /// Tries before a station gives the packet up that waited longest. Default: 16, 64 with "5g".
        optional max_tries: Positive<u32>;
        /// Whether a granted burst can carry a request for what came after the last one.
        default piggyback: bool = true;
        /// Bytes that each station is granted without having asked: unsolicited grants, a configured or
        /// proactive grant; or "off".
        default proactive: OrOff<Positive<Bytes>> = "off";
        /// Frames from one such grant of a station to its next. Default: 1, every frame.
        optional proactive_period: Positive<u32>;
        /// Whether mechanisms are told of waiting for a grant, and of the pause of a TDD downlink, as of
        /// silences.
        default tell_silences: bool = false;
    }
}

file_table! {
    /// A change of the chance that a request is received.
    SuccessChange {
        /// When it changes: for requests that would be received then or later.
        required at: Duration;
        /// The chance from then on.
        required success: Positive<Fraction>;
    }
}

/// `radio.grants.duplexing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DuplexingName {
    Tdd,
    Fdd,
}

file_enum!(DuplexingName {
    "tdd" => Self::Tdd, "Downlink and uplink take turns in each frame.";
    "fdd" => Self::Fdd, "Each direction has a medium of its own.";
});

file_enum!(Backoff {
    "standard" => Self::Standard, "After t3, uniform in a window that doubles with each try.";
    "paper" => Self::Paper,
        "As equation (2) of the lookahead paper has it: the i-th try is over 2^(i-1) frames after the first was due.";
});
