//! What the radio has been doing: TFP state, and the link parameters that the mechanisms decide by.
//!
//! Paper: `dsasync` section IV-A (DSASync_LL) and equation (1).

use serde::{Deserialize, Serialize};

use crate::link_event::LinkEvent;
use crate::packet::StationId;
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Fraction};

/// How α is computed from the silences in the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AlphaForm {
    /// Measured: the share of the window in which neither the network nor the station was silent; silences that
    /// overlap count once.
    #[default]
    Union,
    /// As equation (1) prints it: the sum of frequency × duration over the causes; overlaps count twice.
    Sum,
}

/// Settings of a [`LinkMonitor`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkMonitorConfig {
    /// ΔT, the moving window that history is taken from.
    pub window: Duration,
    /// A freeze that nobody has ended after this long is taken to be over.
    pub max_silence: Duration,
    /// Most stations tracked; one numbered higher is taken to share the network's state only.
    pub max_stations: u32,
    /// Form of α.
    pub alpha_form: AlphaForm,
}

impl Default for LinkMonitorConfig {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(10),
            max_silence: Duration::from_secs(30),
            max_stations: 1024,
            alpha_form: AlphaForm::Union,
        }
    }
}

/// How the effective TFP state changed with one call.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TfpChange {
    /// For nobody.
    None,
    /// The whole network fell silent (some stations may have been silent before).
    NetworkBegan,
    /// The network may send again, but for stations still silent by a cause of their own.
    NetworkEnded,
    /// This station fell silent while the network was not.
    StationBegan(StationId),
    /// This station may send again; the network is not silent.
    StationEnded(StationId),
}

/// The link parameters of section IV-A.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkParameters {}

/// Keeps the state of the radio.
#[derive(Debug)]
pub struct LinkMonitor {}

#[allow(unused_variables, clippy::unused_self)]
impl LinkMonitor {
    /// A monitor that has seen no silence.
    #[must_use]
    pub fn new(config: &LinkMonitorConfig) -> Self {
        Self {}
    }
    /// Takes in one event of the radio.
    pub fn on_event(&mut self, now: Instant, event: &LinkEvent) -> TfpChange {
        TfpChange::None
    }
    /// Makes the station count in α_dsan even before it has an event of its own. O(1).
    pub fn learn_station(&mut self, station: StationId) {}
    /// TFP of a station: it, or the whole network, must not send. O(1).
    #[must_use]
    pub fn tfp(&self, station: StationId) -> bool {
        false
    }
    /// True if the whole network is silent.
    #[must_use]
    pub fn network_tfp(&self) -> bool {
        false
    }
    /// True if the network or any station is silent.
    #[must_use]
    pub fn any_tfp(&self) -> bool {
        false
    }
    /// When the station's present silence should end, where known or estimated; may have passed.
    #[must_use]
    pub fn expected_end(&self, station: StationId) -> Option<Instant> {
        None
    }
    /// α_i: the share of the window in which the station could send.
    #[must_use]
    pub fn alpha(&self, now: Instant, station: StationId) -> Fraction {
        Fraction::ONE
    }
    /// α_dsan: the average of α_i over the known stations.
    #[must_use]
    pub fn alpha_network(&self, now: Instant) -> Fraction {
        Fraction::ONE
    }
    /// Raw rate C and efficiency e of the present channel, once told.
    #[must_use]
    pub fn capacity(&self) -> Option<(BitRate, Fraction)> {
        None
    }
    /// Start and length of the next silence announced for the station.
    #[must_use]
    pub fn next_announced_silence(&self, now: Instant, station: StationId) -> Option<(Instant, Duration)> {
        None
    }
    /// The parameters as of `now`.
    #[must_use]
    pub fn parameters(&self, now: Instant, station: StationId) -> LinkParameters {
        LinkParameters {}
    }
    /// Silences so far (of the network or of a station).
    #[must_use]
    pub fn silences(&self) -> u64 {
        0
    }
    /// Freezes that were ended by `max_silence` because nobody ended them.
    #[must_use]
    pub fn timed_out_freezes(&self) -> u64 {
        0
    }
    /// When `on_timeout` wants to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        None
    }
    /// Starts or ends **one** announced or overdue freeze that is due. More may be due: call again while
    /// [`next_timeout`](Self::next_timeout) is not after `now`.
    pub fn on_timeout(&mut self, now: Instant) -> TfpChange {
        TfpChange::None
    }
}
