//! What the radio of a cell is made of, and whether it fits together.

use std::sync::Arc;

use linkhold_core::units::BitRate;

use crate::channel::{ChannelConfig, SwitchPolicy, Switching};
use crate::energy::PowerConfig;
use crate::mac::air_time::AirTime;
use crate::mac::config::{AirTimeModel, Mac};
use crate::mac::dcf::{DcfConfig, Phy};
use crate::mac::grants::config::{GrantsConfig, GrantsError};
use crate::mac::ieee802154::config::{Ieee802154Config, LEAST_USER_INTERVAL};
use crate::queue::config::QueueConfig;
use crate::sensing::{SensingConfig, StationSensing};
use crate::signals::SignalsConfig;
use crate::snr::config::SnrConfig;
use crate::spectrum::occupancy::Occupancy;

/// Everything that makes up the radio of a cell.
#[derive(Clone, Debug, PartialEq)]
pub struct AirConfig {
    /// Number of stations; ids run from 0.
    pub stations: u32,
    /// Medium access.
    pub mac: Mac,
    /// How a frame is timed, unless a trace says when it passes.
    pub air_time: AirTimeModel,
    /// The channels; at least one.
    pub channels: Vec<ChannelConfig>,
    /// By channel: the ON and OFF times of its primary user, from a PU log instead of drawn. It may be
    /// shorter than `channels`: the users of the rest are drawn.
    pub measured_users: Vec<Option<Arc<Occupancy>>>,
    /// Index of the channel it starts on.
    pub initial_channel: usize,
    /// Channel changes.
    pub switching: Switching,
    /// Whether the rate of the working channel is told as a link event. A trace's never is.
    pub rate_told: bool,
    /// What each source of silences tells of them. Whatever it is, the silences are the same.
    pub signals: SignalsConfig,
    /// Network-wide sensing.
    pub sensing: Option<SensingConfig>,
    /// Sensing of single stations.
    pub station_sensing: Vec<StationSensing>,
    /// What a station's radio takes; `None`: nobody counts.
    pub power: Option<PowerConfig>,
    /// The stations' SNR, which costs frames; `None`: noise spoils none.
    pub snr: Option<SnrConfig>,
    /// How often a frame that collided with a primary user or was spoiled by noise is sent again before it is
    /// dropped (802.11: 7).
    pub retry_limit: u32,
    /// The base station's downlink queue.
    pub router: QueueConfig,
    /// Every station's uplink queue.
    pub station_queue: QueueConfig,
}

/// What is wrong with an [`AirConfig`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AirConfigError {
    /// There is no station.
    #[error("a cell needs at least one station")]
    NoStation,
    /// There is no channel, or a channel index points past the last.
    #[error("channel {0} does not exist")]
    NoChannel(usize),
    /// Measured times of a primary user that the channel does not have.
    #[error("channel {0} has a primary user's times, but no primary user")]
    NoSuchUser(usize),
    /// A channel has a rate that the air time's model does not know.
    #[error("IEEE 802.11a has no rate of {0}; it has 6, 9, 12, 18, 24, 36, 48 and 54 Mbit/s")]
    NoSuchRate(BitRate),
    /// A channel has a rate that the DCF's physical layer has not.
    #[error("{1} has no rate of {0}")]
    NoSuchDcfRate(BitRate, Phy),
    /// A DCF with a value that is out of its range.
    #[error("DCF: {0} is out of range")]
    DcfRange(&'static str),
    /// An SNR with delivery opportunities, which have the losses in them already.
    #[error("a delivery trace has the radio's losses in it already, so an SNR does nothing beside it")]
    SnrBesideTrace,
    /// Not every channel has a modulation.
    #[error("channel {0} has no modulation, from which its frames' error rate would follow")]
    NoModulation(usize),
    /// A station's sensing names a station that does not exist.
    #[error("station {0} does not exist")]
    NoSuchStation(u32),
    /// IEEE 802.15.4 with something that its radios do not do.
    #[error("with IEEE 802.15.4 there is one channel, no sensing schedule and no channel switch")]
    NotWithIeee802154,
    /// IEEE 802.15.4 with a value that is out of its range.
    #[error("IEEE 802.15.4: {0} is out of range")]
    Ieee802154Range(&'static str),
    /// A granted uplink whose parameters do not fit together.
    #[error(transparent)]
    Grants(#[from] GrantsError),
    /// A granted uplink with frames timed as another standard does.
    #[error("a granted uplink counts frames per byte")]
    GrantsPerByte,
    /// What is told of silences has a number that is out of its range.
    #[error("there are at most 6000 false silences a minute, and each has a length")]
    SignalsRange,
    /// Two sensing schedules for one station.
    #[error("station {0} has two sensing schedules; it can have one")]
    TwoSchedules(u32),
}

impl AirConfig {
    /// How long frames take, by channel.
    ///
    /// # Errors
    /// [`AirConfigError::NoSuchRate`], [`AirConfigError::NoSuchDcfRate`].
    pub fn air_times(&self) -> Result<Vec<AirTime>, AirConfigError> {
        let air_time = |channel: &ChannelConfig| match &self.mac {
            Mac::Dcf(config) => AirTime::of_dcf(config, channel.phy_rate)
                .ok_or(AirConfigError::NoSuchDcfRate(channel.phy_rate, config.phy)),
            Mac::Shared | Mac::Duplex | Mac::Trace(_) | Mac::Ieee802154(_) | Mac::Grants(_) => {
                channel.air_time(self.air_time).ok_or(AirConfigError::NoSuchRate(channel.phy_rate))
            }
        };
        self.channels.iter().map(air_time).collect()
    }

    /// Whether everything that is named exists.
    pub(crate) fn check(&self) -> Result<(), AirConfigError> {
        if self.stations == 0 {
            return Err(AirConfigError::NoStation);
        }
        if let Mac::Ieee802154(config) = &self.mac {
            self.check_ieee802154(config)?;
        }
        let targets = self.switching.scripted.iter().map(|switch| switch.to_channel);
        if let Some(channel) =
            core::iter::once(self.initial_channel).chain(targets).find(|&index| index >= self.channels.len())
        {
            return Err(AirConfigError::NoChannel(channel));
        }
        for (index, measured) in self.measured_users.iter().enumerate() {
            let user = self.channels.get(index).and_then(|channel| channel.primary_user);
            if measured.is_some() && user.is_none() {
                return Err(AirConfigError::NoSuchUser(index));
            }
        }
        if !self.signals.fits() {
            return Err(AirConfigError::SignalsRange);
        }
        if let Mac::Grants(config) = &self.mac {
            self.check_grants(config)?;
        }
        if let Mac::Dcf(config) = &self.mac {
            check_dcf(config)?;
        }
        if let Some(snr) = &self.snr {
            if matches!(self.mac, Mac::Trace(_)) {
                return Err(AirConfigError::SnrBesideTrace);
            }
            if snr.rates.len() < self.channels.len() {
                return Err(AirConfigError::NoModulation(snr.rates.len()));
            }
        }
        for (index, own) in self.station_sensing.iter().enumerate() {
            if own.station.0 >= self.stations {
                return Err(AirConfigError::NoSuchStation(own.station.0));
            }
            if self.station_sensing[..index].iter().any(|other| other.station == own.station) {
                return Err(AirConfigError::TwoSchedules(own.station.0));
            }
        }
        Ok(())
    }

    fn check_grants(&self, config: &GrantsConfig) -> Result<(), AirConfigError> {
        if self.air_time != AirTimeModel::PerByte {
            return Err(AirConfigError::GrantsPerByte);
        }
        let rate = |channel: &ChannelConfig| {
            config.uplink_rate.unwrap_or(channel.phy_rate).mul_f64(channel.efficiency.get())
        };
        let slowest = self.channels.iter().map(rate).min().unwrap_or(BitRate(0));
        Ok(config.check(self.stations, slowest)?)
    }

    fn check_ieee802154(&self, config: &Ieee802154Config) -> Result<(), AirConfigError> {
        let sensed = self.sensing.is_some() || !self.station_sensing.is_empty();
        let switches = !self.switching.scripted.is_empty() || self.switching.policy != SwitchPolicy::Scripted;
        if self.channels.len() > 1 || sensed || switches {
            return Err(AirConfigError::NotWithIeee802154);
        }
        // Table 86 of IEEE Std 802.15.4-2006, and what would never let time pass.
        let overhearing = &config.overhearing;
        let checks = [
            ("max_be", (3..=8).contains(&config.max_be)),
            ("min_be", config.min_be <= config.max_be),
            ("max_csma_backoffs", config.max_csma_backoffs <= 5),
            ("max_frame_retries", config.max_frame_retries <= 7),
            ("clock_tolerance", (0.0..=1000.0).contains(&config.clock_tolerance)),
            // Frames of the cell's own radios are compared with no address: nobody could listen for theirs.
            ("user_address", !config.user_address.is_of_the_cell()),
            ("overhearing.address", !overhearing.address.is_of_the_cell()),
            ("overhearing.frame_interval", overhearing.frame_interval >= LEAST_USER_INTERVAL),
            ("overhearing.idle_time", !overhearing.idle_time.is_zero()),
            ("overhearing.false_alarms", (0.0..=1e5).contains(&overhearing.false_alarms)),
        ];
        match checks.iter().find(|(_, fits)| !fits) {
            Some((what, _)) => Err(AirConfigError::Ieee802154Range(what)),
            None => Ok(()),
        }
    }
}

fn check_dcf(config: &DcfConfig) -> Result<(), AirConfigError> {
    let checks = [
        ("short_retry_limit", config.short_retry_limit > 0),
        ("long_retry_limit", config.long_retry_limit > 0),
        ("capture_threshold", (0.0..=100.0).contains(&config.capture_threshold)),
    ];
    match checks.iter().find(|(_, fits)| !fits) {
        Some((what, _)) => Err(AirConfigError::DcfRange(what)),
        None => Ok(()),
    }
}
