//! The channel log: capacity and noise of every CRU channel, and noise that changes over time.
//!
//! Source: crahn, section 4.2 (`<spectrum, id, bandwidth, noise>`, then "the noise values at regular time
//! intervals, for each CRU channel") and equation (5) as [`ChannelLog::heterogeneous`]. The paper shows no
//! entry for the noise over time. Chosen: a line `interval SECONDS`, then `<spectrum, id, noise>`; a
//! channel's n-th such entry is its noise in the n-th interval. docs/pu-log.md describes the file. Units:
//! bit/s and W.
//!
//! A channel without entries over time has its average noise always; after its last interval a channel has
//! its average again, since the log says nothing of that time. Channels with entries over time have equally
//! many: one that has less is a file cut short.

use core::fmt;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

use crate::spectrum::bands::{Bands, BandsError, MAX_BANDS, MAX_CHANNELS_PER_BAND};
use crate::spectrum::fields::{Fields, Malformed, number, seconds, whole, write_seconds};

/// Most noise values of all channels, each of 8 bytes: bounds memory on hostile input.
pub const MAX_VALUES: usize = 1 << 25;
/// The entries that there are, for messages.
const ENTRIES: &str = "<spectrum, id, bandwidth, noise>, interval SECONDS, and <spectrum, id, noise>";
/// Highest capacity, bit/s.
const MOST_BANDWIDTH: f64 = 1e15;
/// Most noise, W.
const MOST_NOISE: f64 = 1e9;

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChannelLogErrorKind {
    /// The line is no entry, or one of its fields is not what it should be.
    Malformed(Malformed),
    /// No channel in it.
    NoChannel,
    /// A channel's entry after the interval.
    ChannelAfterInterval,
    /// A second entry of this channel: its band, its number there, and the lines of the first and the second.
    Doubled(u16, u16, u32, u32),
    /// No entry of this channel, though there is one of a higher band or number.
    Missing(u16, u16),
    /// Noise over time of a channel that is not described.
    UnknownChannel(u16, u16),
    /// Noise over time before the interval is known.
    NoInterval,
    /// A second interval.
    TwoIntervals,
    /// Less noise values than another channel: band, number, its values, and the other's.
    Uneven(u16, u16, usize, usize),
    /// More bands, channels or noise values than a log may have.
    TooLong,
}

/// A log that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {kind}")]
pub struct ChannelLogError {
    /// The line, from 1.
    pub line: u32,
    /// What is wrong with it.
    pub kind: ChannelLogErrorKind,
}

impl ChannelLogErrorKind {
    /// With the line that it is about: `read` unless it names one.
    fn at(self, read: u32) -> ChannelLogError {
        let line = if let Self::Doubled(.., second) = self { second } else { read };
        ChannelLogError { line, kind: self }
    }
}

impl fmt::Display for ChannelLogErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => what.fmt(f),
            Self::NoChannel => {
                f.write_str("the log has no channel: write <spectrum, id, bandwidth, noise> for each")
            }
            Self::ChannelAfterInterval => {
                f.write_str("a channel is described after the interval; all channels come first")
            }
            Self::Doubled(band, id, first, _) => {
                write!(f, "channel {id} of band {band} is described twice, first in line {first}")
            }
            Self::Missing(band, id) => write!(
                f,
                "channel {id} of band {band} is not described; every band from 1 on has the same channels, from 1 on"
            ),
            Self::UnknownChannel(band, id) => write!(f, "there is no channel {id} of band {band} above"),
            Self::NoInterval => f.write_str("noise over time needs a line `interval SECONDS` before it"),
            Self::TwoIntervals => f.write_str("there is a second interval; one holds for all channels"),
            Self::Uneven(band, id, has, most) => write!(
                f,
                "channel {id} of band {band} has {has} noise values and another one {most}; all that have any have equally many"
            ),
            Self::TooLong => write!(
                f,
                "the log is too long (at most {MAX_BANDS} bands, {MAX_CHANNELS_PER_BAND} channels in each, {MAX_VALUES} values)"
            ),
        }
    }
}

/// One channel.
#[derive(Clone, Debug, PartialEq)]
struct Entry {
    bandwidth: BitRate,
    /// Average, W.
    noise: f64,
    /// By interval, W.
    over_time: Box<[f64]>,
}

/// The channels of all bands.
#[derive(Clone, Debug, PartialEq)]
pub struct ChannelLog {
    bands: Bands,
    /// In the order of equation (3).
    channels: Box<[Entry]>,
    /// Between two noise values; zero if there are none.
    interval: Duration,
}

/// Channels that equation (5) does not make.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum HeterogeneousError {
    /// M out of range.
    #[error("a differentiation factor M of {0} is out of range (0 to below 2)")]
    Differentiation(f64),
    /// The noise is no power.
    #[error("a noise of {0} W is out of range (0 to 1e9)")]
    Noise(f64),
    /// The capacity is nothing.
    #[error("the mean capacity gamma is zero or above 1e15 bit/s")]
    Capacity,
    /// No such bands.
    #[error(transparent)]
    Bands(#[from] BandsError),
}

impl ChannelLog {
    /// Channels of equation (5): counted over all bands from 0, even ones have the capacity gamma (1 + M/2),
    /// odd ones gamma (1 - M/2). All have the noise `noise` W.
    ///
    /// # Errors
    /// [`HeterogeneousError`] names what is out of range.
    pub fn heterogeneous(
        bands: Bands,
        gamma: BitRate,
        differentiation: f64,
        noise: f64,
    ) -> Result<Self, HeterogeneousError> {
        if !(0.0..2.0).contains(&differentiation) {
            return Err(HeterogeneousError::Differentiation(differentiation));
        }
        if !(0.0..=MOST_NOISE).contains(&noise) {
            return Err(HeterogeneousError::Noise(noise));
        }
        if gamma.as_bps() == 0 || gamma.as_bps() as f64 > MOST_BANDWIDTH {
            return Err(HeterogeneousError::Capacity);
        }
        let entry = |channel: usize| {
            let sign = if channel.is_multiple_of(2) { 1.0 } else { -1.0 };
            let bandwidth = gamma.mul_f64(1.0 + sign * differentiation / 2.0);
            Entry { bandwidth: bandwidth.max(BitRate(1)), noise, over_time: Box::default() }
        };
        let channels = (0..bands.channels()).map(entry).collect();
        Ok(Self { bands, channels, interval: Duration::ZERO })
    }

    /// The bands and their channels.
    #[must_use]
    pub const fn bands(&self) -> Bands {
        self.bands
    }

    /// Capacity of `channel`, counted over all bands from 0; nothing of one that does not exist.
    #[must_use]
    pub fn bandwidth(&self, channel: usize) -> BitRate {
        self.channels.get(channel).map_or(BitRate(0), |entry| entry.bandwidth)
    }

    /// Average noise on `channel`, W.
    #[must_use]
    pub fn mean_noise(&self, channel: usize) -> f64 {
        self.channels.get(channel).map_or(0.0, |entry| entry.noise)
    }

    /// Noise on `channel` at `at`, W.
    #[must_use]
    pub fn noise(&self, channel: usize, at: Instant) -> f64 {
        let Some(entry) = self.channels.get(channel) else { return 0.0 };
        let interval = at.as_nanos().checked_div(self.interval.as_nanos());
        let value = interval.and_then(|index| entry.over_time.get(usize::try_from(index).ok()?));
        value.copied().unwrap_or(entry.noise)
    }

    /// When next after `after` the noise of a channel may change.
    #[must_use]
    pub fn next_change(&self, after: Instant) -> Option<Instant> {
        let values = self.channels.iter().map(|entry| entry.over_time.len()).max()? as u64;
        let next = after.as_nanos().checked_div(self.interval.as_nanos())?.checked_add(1)?;
        (next <= values).then(|| Instant::from_nanos(next.saturating_mul(self.interval.as_nanos())))
    }

    /// Parses a log.
    ///
    /// # Errors
    /// [`ChannelLogError`] names the first line that cannot be used; what is missing is found at the last
    /// line.
    pub fn parse(bytes: &[u8]) -> Result<Self, ChannelLogError> {
        Self::parse_bounded(bytes, MAX_VALUES)
    }

    fn parse_bounded(bytes: &[u8], most: usize) -> Result<Self, ChannelLogError> {
        let mut reading = Reading::default();
        let mut last_line = 1;
        for (line, text) in (1_usize..).zip(bytes.split(|&byte| byte == b'\n')) {
            let line = u32::try_from(line).unwrap_or(u32::MAX);
            last_line = line;
            reading.read(line, text, most).map_err(|kind| kind.at(line))?;
        }
        let wrong = |kind: ChannelLogErrorKind| kind.at(last_line);
        reading.close().map_err(wrong)?;
        reading.finish().map_err(wrong)
    }
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    /// Band, number, line, entry; sorted by band and number as soon as all are there.
    channels: Vec<(u16, u16, u32, Entry)>,
    closed: bool,
    interval: Option<Duration>,
    /// By channel: its noise values.
    over_time: Vec<Vec<f64>>,
    values: usize,
    /// The channel of the last noise value: the next is mostly of the same, or of the one after it.
    last: usize,
}

impl Reading {
    fn read(&mut self, line: u32, text: &[u8], most: usize) -> Result<(), ChannelLogErrorKind> {
        let fields = Fields::<4>::of(text, ENTRIES).map_err(ChannelLogErrorKind::Malformed)?;
        match fields.as_slice() {
            [] => Ok(()),
            &[band, id, bandwidth, noise] => self.read_channel(line, [band, id, bandwidth, noise]),
            &["interval", time] => self.read_interval(time),
            &[band, id, noise] => self.read_noise([band, id, noise], most),
            other => Err(ChannelLogErrorKind::Malformed(Malformed::Count(other.len(), ENTRIES))),
        }
    }

    fn read_channel(&mut self, line: u32, fields: [&str; 4]) -> Result<(), ChannelLogErrorKind> {
        let [band, id, bandwidth, noise] = fields;
        let (band, id) = name(band, id)?;
        let right = "a capacity in bit/s, from 1 to 1e15";
        let bandwidth = number("bandwidth", bandwidth, 1.0..=MOST_BANDWIDTH, right);
        let bandwidth = BitRate(bandwidth.map_err(ChannelLogErrorKind::Malformed)?.round() as u64);
        let noise = power(noise)?;
        if self.closed || self.interval.is_some() {
            return Err(ChannelLogErrorKind::ChannelAfterInterval);
        }
        self.channels.push((band, id, line, Entry { bandwidth, noise, over_time: Box::default() }));
        Ok(())
    }

    fn read_interval(&mut self, time: &str) -> Result<(), ChannelLogErrorKind> {
        let nanos = seconds("interval", time).map_err(ChannelLogErrorKind::Malformed)?;
        if nanos == 0 {
            let text = time.chars().take(40).collect();
            let right = "a time above 0 s";
            return Err(ChannelLogErrorKind::Malformed(Malformed::Field { name: "interval", text, right }));
        }
        if self.interval.replace(Duration::from_nanos(nanos)).is_some() {
            return Err(ChannelLogErrorKind::TwoIntervals);
        }
        self.close()
    }

    fn read_noise(&mut self, fields: [&str; 3], most: usize) -> Result<(), ChannelLogErrorKind> {
        let [band, id, noise] = fields;
        let wanted = name(band, id)?;
        let noise = power(noise)?;
        if self.interval.is_none() {
            return Err(ChannelLogErrorKind::NoInterval);
        }
        let is_wanted =
            |index: &usize| self.channels.get(*index).is_some_and(|&(band, id, ..)| (band, id) == wanted);
        let near = [self.last, self.last + 1, 0].into_iter().find(is_wanted);
        let found =
            near.or_else(|| self.channels.binary_search_by_key(&wanted, |&(band, id, ..)| (band, id)).ok());
        let index = found.ok_or(ChannelLogErrorKind::UnknownChannel(wanted.0, wanted.1))?;
        if self.values == most {
            return Err(ChannelLogErrorKind::TooLong);
        }
        self.values += 1;
        self.last = index;
        if let Some(list) = self.over_time.get_mut(index) {
            list.push(noise);
        }
        Ok(())
    }

    /// Sorts the channels and looks whether each is there once.
    fn close(&mut self) -> Result<(), ChannelLogErrorKind> {
        if self.closed {
            return Ok(());
        }
        self.closed = true;
        self.channels.sort_by_key(|&(band, id, line, _)| (band, id, line));
        let twice = self.channels.windows(2).find(|pair| (pair[0].0, pair[0].1) == (pair[1].0, pair[1].1));
        if let Some(pair) = twice {
            return Err(ChannelLogErrorKind::Doubled(pair[0].0, pair[0].1, pair[0].2, pair[1].2));
        }
        let bands = self.bands()?;
        for (index, &(band, id, ..)) in self.channels.iter().enumerate() {
            let (wanted_band, wanted) = (bands.band_of(index).number(), bands.number_in_band(index));
            if (band, id) != (wanted_band, wanted) {
                return Err(ChannelLogErrorKind::Missing(wanted_band, wanted));
            }
        }
        if self.channels.len() < bands.channels() {
            let index = self.channels.len();
            return Err(ChannelLogErrorKind::Missing(
                bands.band_of(index).number(),
                bands.number_in_band(index),
            ));
        }
        self.over_time = vec![Vec::new(); self.channels.len()];
        Ok(())
    }

    /// As many bands, and channels in each, as the highest numbers say.
    fn bands(&self) -> Result<Bands, ChannelLogErrorKind> {
        let bands =
            self.channels.iter().map(|&(band, ..)| band).max().ok_or(ChannelLogErrorKind::NoChannel)?;
        let per_band = self.channels.iter().map(|&(_, id, ..)| id).max().unwrap_or(1);
        Bands::new(bands, per_band).map_err(|_| ChannelLogErrorKind::TooLong)
    }

    fn finish(self) -> Result<ChannelLog, ChannelLogErrorKind> {
        let bands = self.bands()?;
        let most = self.over_time.iter().map(Vec::len).max().unwrap_or(0);
        let mut channels = Vec::with_capacity(self.channels.len());
        for ((band, id, _, entry), values) in self.channels.into_iter().zip(self.over_time) {
            if !values.is_empty() && values.len() < most {
                return Err(ChannelLogErrorKind::Uneven(band, id, values.len(), most));
            }
            channels.push(Entry { over_time: values.into_boxed_slice(), ..entry });
        }
        let interval = self.interval.unwrap_or(Duration::ZERO);
        Ok(ChannelLog { bands, channels: channels.into_boxed_slice(), interval })
    }
}

fn name(band: &str, id: &str) -> Result<(u16, u16), ChannelLogErrorKind> {
    let right = "the number of a band, from 1 to 1024";
    let band =
        whole("spectrum", band, 1..=u32::from(MAX_BANDS), right).map_err(ChannelLogErrorKind::Malformed)?;
    let right = "the number of a channel in its band, from 1 to 1024";
    let id = whole("id", id, 1..=u32::from(MAX_CHANNELS_PER_BAND), right)
        .map_err(ChannelLogErrorKind::Malformed)?;
    Ok((band as u16, id as u16))
}

fn power(noise: &str) -> Result<f64, ChannelLogErrorKind> {
    let right = "a power in watts, from 0 to 1e9";
    number("noise", noise, 0.0..=MOST_NOISE, right).map_err(ChannelLogErrorKind::Malformed)
}

/// The file: channels in the order of equation (3), then the noise over time, interval by interval.
impl fmt::Display for ChannelLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# Channel log: <spectrum, id, bandwidth, noise> in bit/s and W")?;
        let name = |channel| (self.bands.band_of(channel).number(), self.bands.number_in_band(channel));
        for (channel, entry) in self.channels.iter().enumerate() {
            let (band, id) = name(channel);
            writeln!(f, "<{band}, {id}, {}, {}>", entry.bandwidth.as_bps(), entry.noise)?;
        }
        if self.interval.is_zero() {
            return Ok(());
        }
        f.write_str("interval ")?;
        write_seconds(f, self.interval.as_nanos())?;
        f.write_str("\n")?;
        let most = self.channels.iter().map(|entry| entry.over_time.len()).max().unwrap_or(0);
        for index in 0..most {
            for (channel, entry) in self.channels.iter().enumerate() {
                if let Some(noise) = entry.over_time.get(index) {
                    let (band, id) = name(channel);
                    writeln!(f, "<{band}, {id}, {noise}>")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "channel_log_tests.rs"]
mod tests;
