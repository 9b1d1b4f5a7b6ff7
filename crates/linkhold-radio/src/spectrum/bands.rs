//! Primary bands and the channels in them: B bands with n channels each, and how much of a PU's power a
//! channel gets.
//!
//! Source: crahn, section 3 (bands, channels, overlap factors) and equation (3), which counts the channels of
//! all bands in one row, from 0.
//!
//! The paper leaves open which channel of its band a PU transmits on. Here it is the middle one, the lower of
//! two if n is even. Condition 1 of section 4.3 asks for a PU "on the same spectrum band", so a PU does not
//! reach into its neighbours' bands, and the spacings are counted inside a band.

/// Highest band number that is taken: bounds memory on hostile input.
pub const MAX_BANDS: u16 = 1024;
/// Most channels in a band: bounds memory on hostile input.
pub const MAX_CHANNELS_PER_BAND: u16 = 1024;

/// A primary band's number: from 1, as in both logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Band(u16);

impl Band {
    /// Band number `number`; `None` unless it is from 1 to [`MAX_BANDS`].
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number >= 1 && number <= MAX_BANDS { Some(Self(number)) } else { None }
    }

    /// The number, from 1.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }

    /// The band's place in a list, from 0.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize - 1
    }
}

/// B bands with n channels each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bands {
    bands: u16,
    per_band: u16,
}

/// No such set of bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are 1 to {MAX_BANDS} bands with 1 to {MAX_CHANNELS_PER_BAND} channels each, not {0} with {1}")]
pub struct BandsError(pub u16, pub u16);

impl Bands {
    /// `bands` bands (B) of `per_band` channels (n).
    ///
    /// # Errors
    /// [`BandsError`] if there is none of either, or too many.
    pub const fn new(bands: u16, per_band: u16) -> Result<Self, BandsError> {
        let right = bands >= 1 && bands <= MAX_BANDS && per_band >= 1 && per_band <= MAX_CHANNELS_PER_BAND;
        if right { Ok(Self { bands, per_band }) } else { Err(BandsError(bands, per_band)) }
    }

    /// Number of bands (B).
    #[must_use]
    pub const fn bands(self) -> u16 {
        self.bands
    }

    /// Channels in each band (n).
    #[must_use]
    pub const fn per_band(self) -> u16 {
        self.per_band
    }

    /// Channels in all bands (B x n).
    #[must_use]
    pub const fn channels(self) -> usize {
        self.bands as usize * self.per_band as usize
    }

    /// The band of a channel counted from 0 over all bands; of a channel past the last it is the last.
    #[must_use]
    pub fn band_of(self, channel: usize) -> Band {
        let index = channel / usize::from(self.per_band);
        Band(u16::try_from(index + 1).unwrap_or(self.bands).min(self.bands))
    }

    /// The channel's number in its band, from 1, as the channel log has it.
    #[must_use]
    pub const fn number_in_band(self, channel: usize) -> u16 {
        (channel % self.per_band as usize) as u16 + 1
    }

    /// The channel `number` (from 1) of `band`, counted from 0 over all bands.
    #[must_use]
    pub fn channel(self, band: Band, number: u16) -> Option<usize> {
        let exists = band.0 <= self.bands && (1..=self.per_band).contains(&number);
        exists.then(|| band.index() * usize::from(self.per_band) + usize::from(number) - 1)
    }

    /// The number in its band, from 1, of the channel that PUs transmit on.
    #[must_use]
    pub const fn central(self) -> u16 {
        self.per_band.div_ceil(2)
    }

    /// The overlap factor k of equation (2): the share of the power of a PU on `band` that `channel` gets.
    #[must_use]
    pub fn overlap(self, band: Band, channel: usize) -> f64 {
        if self.band_of(channel) != band {
            return 0.0;
        }
        overlap_factor(self.number_in_band(channel).abs_diff(self.central()))
    }
}

impl Bands {
    /// The share of the power of a signal on channel `from` that a radio on channel `at` gets, by the same
    /// factors.
    #[must_use]
    pub fn overlap_between(self, from: usize, at: usize) -> f64 {
        if self.band_of(from) != self.band_of(at) {
            return 0.0;
        }
        overlap_factor(self.number_in_band(from).abs_diff(self.number_in_band(at)))
    }
}

/// The overlap factor at so many channel spacings from a PU's centre: 1, 0.5, 0.25, then nothing (section 3).
#[must_use]
pub const fn overlap_factor(spacings: u16) -> f64 {
    match spacings {
        0 => 1.0,
        1 => 0.5,
        2 => 0.25,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_counted_over_all_bands_as_in_equation_3() {
        let bands = Bands::new(3, 4).unwrap();
        assert_eq!(bands.channels(), 12);
        let mut count = 0;
        for band in 1..=3 {
            for number in 1..=4 {
                let band = Band::new(band).unwrap();
                assert_eq!(bands.channel(band, number), Some(count));
                assert_eq!((bands.band_of(count), bands.number_in_band(count)), (band, number));
                count += 1;
            }
        }
        assert_eq!(bands.channel(Band(4), 1), None);
        assert_eq!(bands.channel(Band(1), 5), None);
        assert_eq!(bands.channel(Band(1), 0), None);
    }

    #[test]
    fn a_pu_reaches_its_own_band_by_channel_spacing() {
        let bands = Bands::new(2, 7).unwrap();
        let factors = |band| (0..14).map(|channel| bands.overlap(Band(band), channel)).collect::<Vec<_>>();
        let own = [0.0, 0.25, 0.5, 1.0, 0.5, 0.25, 0.0];
        assert_eq!(factors(1), [&own[..], &[0.0; 7]].concat());
        assert_eq!(factors(2), [&[0.0; 7], &own[..]].concat());
        // With one channel a band, the overlap is complete (crahn, section 5).
        assert_eq!(Bands::new(5, 1).unwrap().overlap(Band(3), 2), 1.0);
        assert_eq!(Bands::new(1, 4).unwrap().central(), 2);
    }

    #[test]
    fn radios_hear_each_other_by_channel_spacing_inside_a_band() {
        let bands = Bands::new(2, 4).unwrap();
        let factors: Vec<f64> = (0..8).map(|at| bands.overlap_between(1, at)).collect();
        assert_eq!(factors, [0.5, 1.0, 0.5, 0.25, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!((bands.overlap_between(3, 4), bands.overlap_between(3, 0)), (0.0, 0.0));
    }

    #[test]
    fn there_are_neither_no_bands_nor_endlessly_many() {
        assert_eq!(Bands::new(0, 1), Err(BandsError(0, 1)));
        assert_eq!(Bands::new(1, 0), Err(BandsError(1, 0)));
        assert_eq!(Bands::new(1025, 1), Err(BandsError(1025, 1)));
        assert_eq!((Band::new(0), Band::new(1025)), (None, None));
    }
}
