//! What a cell with a granted uplink is set to, and the times that follow from it.
//!
//! Sources: IEEE Std 802.16-2004 and 802.16e-2005 (clauses 6.3.6 to 6.3.8 for requests, grants and
//! contention, 8.4.4 for the frame of OFDMA); lookahead sections II-A and II-C; CableLabs' DOCSIS 3.1 MAC and
//! upper layer protocols interface; 3GPP TS 38.331 (SchedulingRequestResourceConfig, TDD-UL-DL-ConfigCommon),
//! 38.213 clause 9.2.4 (when a scheduling request may be sent), 38.214 clause 6.1.2.1 (K2), 38.321 clause
//! 5.4.4.
//!
//! ```text
//! TDD:  │ maps │ downlink bursts │ TTG │ contention │ uplink bursts │ RTG │   one frame
//! FDD:  │ maps │ downlink bursts          │ maps │ ...
//!              │ contention │ uplink bursts      │ contention │ ...  an uplink frame starts after the maps
//! ```
//! Choices: all overheads are times, not numbers of symbols, so that one set of keys serves three standards;
//! the uplink frame of FDD starts when the maps have been heard, so that a map can grant in its own frame.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};

pub use super::error::GrantsError;
pub use super::standard::{FRAMES_802_16, MOST_CODES, Standard, frames_of};
use super::standard::{PATTERNS_5G, SLOTS_5G};
pub use super::success::{MOST_SUCCESS_CHANGES, SuccessChange, SuccessChanges};

/// Bytes of a bandwidth request message: the bandwidth request header of IEEE Std 802.16-2004, clause
/// 6.3.2.1.2. A short BSR with its headers (3GPP TS 38.321 clause 6.1.3.1) takes no more.
pub(crate) const REQUEST_MESSAGE: u64 = 6;
/// How the two directions share the medium.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Duplexing {
    /// In turns.
    Tdd {
        /// Share of a frame without its gaps that is downlink subframe.
        downlink_share: Fraction,
        /// Gap before the uplink subframe.
        ttg: Duration,
        /// Gap after it.
        rtg: Duration,
    },
    /// One medium each.
    Fdd,
}

/// When a try that was not answered is made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Backoff {
    /// After T3, uniform in a window that doubles (IEEE Std 802.16-2004, clause 6.3.8).
    #[default]
    Standard,
    /// As lookahead's equation (2) has it: the i-th try is over 2^(i-1) frames after the first was due. No
    /// T3.
    Paper,
}

/// How a station asks for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requesting {
    /// In the contention part of an uplink frame. Two stations with one code in one slot collide.
    Contention {
        /// Codes in each slot.
        codes: u32,
        /// Ranging subchannels.
        subchannels: u32,
        /// Slots in time.
        slots: u32,
        /// What follows a failed try.
        backoff: Backoff,
        /// Exponent of the first window, frames.
        backoff_start: u8,
        /// Exponent of the largest window, frames.
        backoff_end: u8,
    },
    /// In an opportunity of the station's own, each `period` frames (a scheduling request on PUCCH).
    Reserved {
        /// From one opportunity to the next, frames.
        period: u32,
    },
}

/// What a request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// The number of bytes, at once.
    One,
    /// Only that there is something; the bytes are told in a message for which the base station assigns room.
    Two,
}

/// Grants that nobody asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proactive {
    /// To each station.
    pub bytes: Bytes,
    /// From one to the next, frames. Station k has its own in frames k, k + period, and so on.
    pub period: u32,
}

/// A cell whose base station grants the uplink.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GrantsConfig {
    /// Whose rules it is held to.
    pub standard: Standard,
    /// From one frame's start to the next; frames count from time 0.
    pub frame: Duration,
    /// How the directions share the medium.
    pub duplexing: Duplexing,
    /// Start of each downlink subframe that carries no data: preamble, FCH, DL-MAP and UL-MAP.
    pub maps: Duration,
    /// Start of each uplink subframe that carries no data: ranging slots, request minislots, PUCCH.
    pub contention: Duration,
    /// Raw rate of an uplink burst; `None`: the channel's.
    pub uplink_rate: Option<BitRate>,
    /// Bytes that are added to each packet, and to each fragment of one, in a burst.
    pub header: u32,
    /// How stations ask.
    pub requesting: Requesting,
    /// What a request says.
    pub steps: Steps,
    /// Chance p_s that the base station receives a request that collided with no other.
    pub success: Fraction,
    /// Changes of p_s in the run.
    pub success_changes: SuccessChanges,
    /// T_assignment, frames: see [`GrantsConfig::first_answer`] and [`GrantsConfig::second_answer`].
    pub assignment: u32,
    /// Frames that decoding, encoding and scheduling add (lookahead section II-C).
    pub implementation_delay: u32,
    /// How long a station waits for an answer before it believes its request lost. 5G: sr-ProhibitTimer.
    pub t3: Duration,
    /// Tries before a station gives up, which costs it the packet that waited longest. 5G: sr-TransMax.
    pub max_tries: u32,
    /// Whether a burst can carry a request for what arrived too late to be in the last one.
    pub piggyback: bool,
    /// Unsolicited grants.
    pub proactive: Option<Proactive>,
    /// Whether waiting for a grant, and the pause of a TDD downlink, are told as silences
    /// ([`Cause::Grant`](linkhold_core::link_event::Cause::Grant)).
    pub tell_silences: bool,
}

/// Times within a frame, from its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Downlink data begins: the maps have been heard.
    pub data: Duration,
    /// The downlink subframe ends.
    pub down_end: Duration,
    /// The uplink subframe starts, with its contention part.
    pub up_start: Duration,
    /// Uplink bursts begin.
    pub bursts: Duration,
    /// The uplink subframe ends.
    pub up_end: Duration,
}

impl Layout {
    /// Length of the downlink's data part.
    #[must_use]
    pub const fn down_data(&self) -> Duration {
        self.down_end.saturating_sub(self.data)
    }

    /// Length of the uplink's data part.
    #[must_use]
    pub const fn up_data(&self) -> Duration {
        self.up_end.saturating_sub(self.bursts)
    }
}

impl Default for GrantsConfig {
    fn default() -> Self {
        Self::of(Standard::Ieee80216)
    }
}

impl GrantsConfig {
    /// The parameters of a network that follows the standard.
    #[must_use]
    pub fn of(standard: Standard) -> Self {
        match standard {
            Standard::Ieee80216 => Self::ieee80216(),
            Standard::Docsis => Self::docsis(),
            Standard::FiveG => Self::five_g(Duration::from_millis(1), false),
        }
    }

    /// A WiBro cell: 42 symbols of 115.2 us, 27 of them downlink (1 of preamble and 4 of FCH and maps are our
    /// choice), 15 uplink (3 for ranging), and the gaps that fill 5 ms. Its access delay is the paper's.
    fn ieee80216() -> Self {
        let symbols = |count: u64| Duration::from_nanos(count * 115_200);
        Self {
            standard: Standard::Ieee80216,
            frame: Duration::from_millis(5),
            duplexing: Duplexing::Tdd {
                downlink_share: Fraction::clamped(0.643),
                ttg: Duration::from_nanos(121_200),
                rtg: Duration::from_nanos(40_400),
            },
            maps: symbols(5),
            contention: symbols(3),
            uplink_rate: None,
            // Generic MAC header (clause 6.3.2.1.1) and CRC (clause 6.3.3.5).
            header: 6 + 4,
            requesting: Requesting::Contention {
                codes: 16,
                subchannels: 1,
                slots: 3,
                backoff: Backoff::Standard,
                backoff_start: 0,
                backoff_end: 6,
            },
            steps: Steps::Two,
            success: Fraction::ONE,
            success_changes: SuccessChanges::default(),
            assignment: 1,
            implementation_delay: 4,
            t3: Duration::from_millis(60),
            max_tries: 16,
            piggyback: true,
            proactive: None,
            tell_silences: false,
        }
    }

    /// A DOCSIS 3.1 upstream with MAPs of 2 ms. A modem's request in a contention minislot says how much it
    /// has; the data follow 3 MAPs later.
    fn docsis() -> Self {
        Self {
            standard: Standard::Docsis,
            frame: Duration::from_millis(2),
            duplexing: Duplexing::Fdd,
            maps: Duration::ZERO,
            contention: Duration::from_micros(200),
            // Ethernet header and FCS 18, DOCSIS MAC header 6.
            header: 24,
            requesting: Requesting::Contention {
                codes: 1,
                subchannels: 1,
                slots: 16,
                backoff: Backoff::Standard,
                backoff_start: 0,
                backoff_end: 6,
            },
            steps: Steps::One,
            assignment: 2,
            implementation_delay: 0,
            t3: Duration::from_millis(10),
            ..Self::ieee80216()
        }
    }

    /// A 5G cell whose slot, or TDD period, is `frame`. Of 14 symbols of a slot 2 are PDCCH and 1 is PUCCH. A
    /// scheduling request waits for its PUCCH opportunity (sl10); base station and station take 4 slots each
    /// time to answer (K2 in it).
    #[must_use]
    pub fn five_g(frame: Duration, tdd: bool) -> Self {
        let duplexing = if tdd {
            // Two symbols of guard at 30 kHz, and the timing advance offset of 25,600 T_c.
            let (ttg, rtg) = (Duration::from_nanos(71_400), Duration::from_nanos(13_000));
            Duplexing::Tdd { downlink_share: Fraction::clamped(0.7), ttg, rtg }
        } else {
            Duplexing::Fdd
        };
        Self {
            standard: Standard::FiveG,
            frame,
            duplexing,
            maps: frame.mul_f64(2.0 / 14.0),
            contention: frame.mul_f64(1.0 / 14.0),
            // MAC subheader 2, RLC 3, PDCP 3.
            header: 8,
            requesting: Requesting::Reserved { period: 10 },
            // 1 % of scheduling requests may be missed (3GPP TS 38.104 clause 8.3, for PUCCH format 1).
            success: Fraction::clamped(0.99),
            assignment: 4,
            implementation_delay: 0,
            t3: Duration::from_millis(10),
            max_tries: 64,
            ..Self::ieee80216()
        }
    }

    /// The times within a frame.
    #[must_use]
    pub fn layout(&self) -> Layout {
        let (down_end, up_start, up_end) = match self.duplexing {
            Duplexing::Tdd { downlink_share, ttg, rtg } => {
                let usable = self.frame.saturating_sub(ttg).saturating_sub(rtg);
                let down_end = usable.mul_f64(downlink_share.get());
                (down_end, down_end + ttg, self.frame.saturating_sub(rtg))
            }
            Duplexing::Fdd => (self.frame, self.maps, self.frame + self.maps),
        };
        Layout { data: self.maps, down_end, up_start, bursts: up_start + self.contention, up_end }
    }

    /// Frames from the uplink frame in which a request is received to the one of its answer: the grant, or
    /// the room for the message that tells the bytes. One frame is the try itself (equation (2)), then
    /// T_assignment, then the first half of the implementation's delay (rounded up), or all of it where there
    /// is no second answer.
    #[must_use]
    pub const fn first_answer(&self) -> u32 {
        let implementation = match self.steps {
            Steps::One => self.implementation_delay,
            Steps::Two => self.implementation_delay.div_ceil(2),
        };
        1 + self.assignment + implementation
    }

    /// Frames from the uplink frame in which the bytes were told (by a message, or in a burst) to the burst:
    /// T_assignment, and what is left of the implementation's delay.
    #[must_use]
    pub const fn second_answer(&self) -> u32 {
        match self.steps {
            Steps::One => self.first_answer(),
            Steps::Two => self.assignment + self.implementation_delay / 2,
        }
    }

    /// Frames before its burst that a station hears of a grant: its own part of the implementation's delay,
    /// a quarter of it.
    #[must_use]
    pub const fn heard_ahead(&self) -> u32 {
        self.implementation_delay / 4
    }

    /// p_s at a time of the run.
    pub(crate) fn success_at(&self, now: Instant) -> Fraction {
        self.success_changes.at(now).unwrap_or(self.success)
    }

    /// T3 in whole frames, at least one.
    pub(crate) const fn t3_frames(&self) -> u64 {
        let frames = self.t3.as_nanos().div_ceil(self.frame.as_nanos());
        if frames == 0 { 1 } else { frames }
    }

    /// Mean of what is left of a downlink and an uplink rate when maps, gaps and contention are taken off.
    #[must_use]
    pub fn data_shares(&self) -> (f64, f64) {
        let (layout, frame) = (self.layout(), self.frame.as_secs_f64());
        (layout.down_data().as_secs_f64() / frame, layout.up_data().as_secs_f64() / frame)
    }

    /// Bytes of uplink bursts in a frame, where a burst has `rate`.
    #[must_use]
    pub fn uplink_room(&self, rate: BitRate) -> u64 {
        rate.bytes_in(self.layout().up_data()).0
    }

    /// Whether the values are in range and fit together, in a cell of `stations` whose slowest uplink burst
    /// has `uplink` (efficiency taken off).
    ///
    /// # Errors
    /// [`GrantsError`], the first that is found.
    pub fn check(&self, stations: u32, uplink: BitRate) -> Result<(), GrantsError> {
        self.check_frame()?;
        self.check_requests()?;
        let room = self.uplink_room(uplink);
        let least = u64::from(self.header) + 1 + REQUEST_MESSAGE;
        let proactive = match self.proactive {
            // Stations follow each other within a period.
            Some(Proactive { bytes, period }) => {
                bytes.0.saturating_mul(u64::from(stations.div_ceil(period.max(1))))
            }
            None => 0,
        };
        let wanted = least.max(proactive);
        if wanted > room {
            return Err(GrantsError::Grant { wanted, room });
        }
        Ok(())
    }

    fn check_frame(&self) -> Result<(), GrantsError> {
        let nanos = self.frame.as_nanos();
        let tdd = matches!(self.duplexing, Duplexing::Tdd { .. });
        let known = match self.standard {
            Standard::Ieee80216 => FRAMES_802_16.iter().any(|us| us * 1000 == nanos),
            Standard::Docsis => (100_000..=20_000_000).contains(&nanos),
            Standard::FiveG if tdd => PATTERNS_5G.iter().any(|us| us * 1000 == nanos),
            Standard::FiveG => SLOTS_5G.contains(&nanos),
        };
        if !known {
            return Err(GrantsError::Frame { standard: self.standard, tdd, frame: self.frame });
        }
        if let Duplexing::Tdd { ttg, rtg, .. } = self.duplexing
            && ttg + rtg >= self.frame
        {
            return Err(GrantsError::Gaps { gaps: ttg + rtg, frame: self.frame });
        }
        let layout = self.layout();
        if layout.data >= layout.down_end {
            let (length, overhead) = (layout.down_end, self.maps);
            return Err(GrantsError::Subframe { subframe: "downlink", length, overhead });
        }
        if layout.bursts >= layout.up_end {
            let (length, overhead) = (layout.up_end.saturating_sub(layout.up_start), self.contention);
            return Err(GrantsError::Subframe { subframe: "uplink", length, overhead });
        }
        Ok(())
    }

    fn check_requests(&self) -> Result<(), GrantsError> {
        let range = |fits: bool, what| if fits { Ok(()) } else { Err(GrantsError::Range(what)) };
        let mut waits_t3 = true;
        match self.requesting {
            Requesting::Contention { codes, subchannels, slots, backoff, backoff_start, backoff_end } => {
                if codes > MOST_CODES {
                    return Err(GrantsError::Codes(codes));
                }
                range(codes > 0, "codes")?;
                range(subchannels > 0, "subchannels")?;
                range(slots > 0 && u64::from(subchannels) * u64::from(slots) <= 1024, "slots")?;
                range(backoff_end <= 15, "backoff_end")?;
                range(backoff_start <= backoff_end, "backoff_start")?;
                waits_t3 = backoff == Backoff::Standard;
            }
            Requesting::Reserved { period } => range(period > 0, "request_period")?,
        }
        range(self.success > Fraction::ZERO, "success")?;
        range(self.max_tries > 0, "max_tries")?;
        range(self.proactive.is_none_or(|grants| grants.period > 0 && grants.bytes.0 > 0), "proactive")?;
        range(self.header <= 1000, "header")?;
        range(self.assignment <= 10_000 && self.implementation_delay <= 10_000, "assignment")?;
        // A map of frame n is written at its start, of what was received by then, and grants in n +
        // heard_ahead.
        let received = self.layout().up_end.as_nanos().div_ceil(self.frame.as_nanos()) as u32;
        let least = received + self.heard_ahead();
        let given = self.first_answer().min(self.second_answer());
        if given < least {
            return Err(GrantsError::TooSoon { given, least });
        }
        if waits_t3 && self.t3_frames() < u64::from(self.first_answer()) {
            let answer = self.frame * self.first_answer();
            return Err(GrantsError::T3 { t3: self.t3, answer });
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
