//! What the three standards fix: lengths of frames, and the number of codes.
//!
//! Of what stands here and in the parameter sets (`config.rs`), the TDD periods of 5G were checked against texts that
//! quote the standard. Not checked, because no text was at hand: the clause numbers, the 256 codes, T3 = 60 ms and the
//! symbols and gaps of WiBro; DOCSIS's MAP interval and its lead; 5G's processing time of four slots. The standard's table of frame
//! lengths is believed to have 12.5 and 20 ms where the paper writes 12; the paper's list stands.

/// Codes of CDMA ranging and bandwidth requests together (IEEE Std 802.16-2004, clause 8.4.7.3).
pub const MOST_CODES: u32 = 256;

/// Frame lengths of IEEE 802.16, us, as lookahead section II-A lists them (and 2 ms, from its section II-C).
pub const FRAMES_802_16: [u64; 7] = [2000, 2500, 4000, 5000, 8000, 10_000, 12_000];
/// Slot lengths of 5G by numerology 0 to 4, ns (3GPP TS 38.211 clause 4.3.2).
pub(super) const SLOTS_5G: [u64; 5] = [1_000_000, 500_000, 250_000, 125_000, 62_500];
/// dl-UL-TransmissionPeriodicity, us (3GPP TS 38.331, TDD-UL-DL-Pattern).
pub(super) const PATTERNS_5G: [u64; 10] = [500, 625, 1000, 1250, 2000, 2500, 3000, 4000, 5000, 10_000];

/// Whose rules a set of parameters follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standard {
    /// IEEE 802.16d/e, OFDMA.
    #[default]
    Ieee80216,
    /// DOCSIS: a frame is a MAP interval.
    Docsis,
    /// 5G: a frame is a slot, or with TDD a pattern's period.
    FiveG,
}

impl Standard {
    /// Its name in scenario files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ieee80216 => "802.16",
            Self::Docsis => "docsis",
            Self::FiveG => "5g",
        }
    }
}

/// The lengths that a standard has for its frames, in words.
#[must_use]
pub const fn frames_of(standard: Standard, tdd: bool) -> &'static str {
    match (standard, tdd) {
        (Standard::Ieee80216, _) => "2, 2.5, 4, 5, 8, 10 and 12 ms",
        (Standard::Docsis, _) => "MAP intervals from 0.1 to 20 ms",
        (Standard::FiveG, false) => "slots of 1 ms, 500 us, 250 us, 125 us and 62.5 us",
        (Standard::FiveG, true) => "TDD periods of 0.5, 0.625, 1, 1.25, 2, 2.5, 3, 4, 5 and 10 ms",
    }
}
