//! What the three standards fix: lengths of frames, and the number of codes.
//!
//! Where the numbers here and in the parameter sets (`config.rs`) come from, as far as the standards' texts
//! could not be had:
//! - 802.16, frame lengths: NIST's 802.16 module for ns-2 (`Mac802_16::setFrameDurationCode`) has 2.5, 4, 5,
//!   8, 10, 12.5 and 20 ms. The paper writes 12 ms and no 20 ms; the paper's list stands. The frame of 5 ms
//!   is mobile WiMAX's own.
//! - 802.16, codes: Numbat, a simulator of 802.16e (tomaszmrugalski/numbat, `wimax/wmaxmsg.h`), has codes 0
//!   to 255, split into pools for initial, handover and periodic ranging and for bandwidth requests. That
//!   makes [`MOST_CODES`].
//! - 802.16, T3: a table of WiMAX timers (rfwireless-world.com, "wimax-timers") has 200 ms as default and
//!   greatest value after a ranging request, and at least 10 ms for T16, the wait for a grant; ns-3's wimax
//!   module has 200 ms for T3 too. 60 ms, for the codes of 802.16e, is from memory, not checked: no source
//!   that could be read has it.
//! - 802.16, symbols: patent US 8,630,212 (claims 1, 3 and 7) has seven subframes of 6 or 7 symbols in a
//!   frame at 8.75 MHz with a cyclic prefix of 1/8, and gives one symbol of them to the gap where the
//!   directions take turns: 43 less 1 are our 42. 115.2 us are 1024 samples and an eighth at 10 MS/s, 8/7 of
//!   the bandwidth (the 8/7 from memory, not checked). 42 of them leave 161.6 us of 5 ms, as our gaps add up
//!   to. That 121.2 us come first, and 27 symbols are downlink, is from memory, not checked; so are the
//!   clauses' numbers.
//! - DOCSIS: S. Cho, J. Kim and S. Park, "Performance evaluation of the DOCSIS 1.1 MAC protocol according to
//!   the structure of a MAP message" (ICC 2001, its abstract), found MAPs of 2 ms best. No source was found
//!   for the 4.8 ms of `reproductions/lookahead/today`: from memory, not checked. CableLabs' module for ns-3
//!   (docsis-ns3, `system-configuration.rst`, `model-overview.rst`) has a MAP each 2 ms, 0.2 ms of processing
//!   at the terminating system (0.4 at most), and a frame for coding and one for decoding. A request made
//!   early in MAP z is granted for MAP z + 2, one made later for z + 3: `assignment = 2` is the latter.
//! - 5G: the TDD periods were checked against texts that quote the standard; srsRAN takes a K2 of 4 slots or
//!   more unless it is told otherwise (`min_k2 = 4`), OpenAirInterface 2 to 6 (`nr_rrc_config_ul_tda`).
//!   srsRAN's scheduling requests come each 20 ms by default, of 1 to 320 ms; 10 slots are our choice.

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
