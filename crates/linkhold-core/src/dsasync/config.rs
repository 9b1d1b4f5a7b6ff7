//! What can be set on DSASync: modes, thresholds, presets, and their validation.
//!
//! Paper: `dsasync` section IV-B (B_alloc, B_low, B_high, α_min, ΔT) and VI-A (default values).
//!
//! The paper's values contradict its own condition B_alloc > B_high > B_low: with a buffer of 500 MB and
//! B_high = 500 MB, `hold` would never clear, because B_free can never exceed B_alloc.
//! [`DsaSyncConfig::paper`] therefore keeps the 500 MB and B_low = 400 MB, and sets B_high to 499 MB: the
//! nearest value that works.

use serde::{Deserialize, Serialize};

use super::uplink::{UplinkConfig, UplinkMode};
use crate::link_monitor::LinkMonitorConfig;
use crate::time::Duration;
use crate::units::{BitRate, Bytes, Fraction};

/// What DSASync does to a downlink flow in a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Hold packets; touch no window because of a silence.
    #[serde(rename = "hold")]
    Hold,
    /// Hold, close windows, and reopen each by a window update when the silence ends.
    #[serde(rename = "freeze")]
    Freeze,
    /// As `freeze`; besides, windows reopen one wired round trip before an end that is known, and a reopening
    /// is repeated until the sender is heard.
    #[default]
    #[serde(rename = "freeze+nudge")]
    FreezeNudge,
}

/// When a window is closed (modes `freeze` and `freeze+nudge`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CloseAt {
    /// All windows when B_free < B_low; a silence alone closes none. A window that its sender has used up
    /// stops the sender as well as a zero window does, and without harm. While the window is zero, Linux
    /// enters the loss state at every timeout without counting the timeout, so the second one of a silence
    /// saves a congestion window of one segment as the one to go back to (`tcp_retransmit_timer`,
    /// `tcp_enter_loss`).
    #[default]
    SpaceLow,
    /// Algorithm 1 as printed: besides, one flow's when it is used up.
    UsedUp,
    /// Besides: every window as soon as a silence starts.
    SilenceStart,
}

/// What happens to a held segment when its sender sends it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Duplicates {
    /// As the paper says: the newer copy takes the older one's place.
    ReplaceOlder,
    /// As the paper says for flows with neither timestamps nor SACK. Other flows keep both copies: the older
    /// one's timestamp (RFC 3522) and the D-SACK for the newer one (RFC 2883) tell the sender that its
    /// timeout or loss probe was spurious. With one copy Linux keeps the cwnd of the spurious timeout.
    #[default]
    Adaptive,
}

/// How held downlink packets are queued.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Queues {
    /// As the paper says: one first-in first-out queue a station. Whoever sends most there has most of it.
    Station,
    /// One a flow, served by deficit round robin (RFC 8290). [`DsaSyncConfig::flow_quota`] and
    /// [`DsaSyncConfig::standing_limit`] bound each, the longest loses packets when the buffer is full, and
    /// space that is low closes only the windows of flows that hold their share of it.
    #[default]
    Flow,
}

/// What happens to UDP datagrams that go down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Datagrams {
    /// They pass, unseen: into a silence, and beside what is paced. The paper speaks of TCP only.
    Pass,
    /// They wait in a silence and behind the hold buffer as segments do, with a queue for each flow, up to
    /// [`DsaSyncConfig::datagram_quota`] and [`DsaSyncConfig::datagram_max_age`].
    #[default]
    Hold,
}

/// What is sent when a channel switch takes capacity away (Algorithm 5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityResponse {
    /// Nothing.
    Off,
    /// Three duplicate ACKs, as printed. Without SACK blocks a Linux sender with SACK ignores them.
    DuplicateAcks,
    /// ECN-echo where ECN was negotiated, and the window clamped to the new bandwidth-delay product.
    #[default]
    Modern,
}

/// When the advertised window is held down to the bandwidth-delay product of the radio.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Clamp {
    /// Never.
    Off,
    /// For flows too fast for the new channel after a switch ([`CapacityResponse::Modern`]).
    OnSwitch,
    /// Always: the goodput of a deep buffer with the delay of a short one.
    #[default]
    Always,
}

/// Settings of [`DsaSync`](super::DsaSync). `default()` is what is recommended; [`paper`](Self::paper) is the
/// mechanism as printed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DsaSyncConfig {
    /// What is done in a silence.
    pub mode: Mode,
    /// When windows are closed.
    pub close_at: CloseAt,
    /// B_alloc: most bytes held at once, downlink and uplink together.
    pub b_alloc: Bytes,
    /// Only as much of B_alloc is used as silences of the observed length need
    /// ([`allocation`](super::allocation)); thresholds and quotas shrink in proportion.
    pub dynamic_buffer: bool,
    /// B_high: windows closed for lack of space reopen when more than this is free. B_alloc > B_high.
    pub b_high: Bytes,
    /// B_low: windows close when less than this is free. B_high > B_low.
    pub b_low: Bytes,
    /// Most packets held at once: bounds the memory that tiny packets cost.
    pub max_held_packets: u32,
    /// How held downlink packets are queued.
    pub queues: Queues,
    /// Most bytes held of one flow ([`Queues::Flow`]); zero: no limit but B_alloc. The window of a flow that
    /// holds half of it is closed. Flows that their station has not answered share an eighth of it.
    pub flow_quota: Bytes,
    /// Most bytes held of one station's connections ([`Queues::Flow`]); zero: no limit but B_alloc. Beyond it
    /// the longest of the station's queues gives way. What it leaves free others find at once, and lies
    /// within B_low: the windows of whoever holds so much are closed before.
    pub station_quota: Bytes,
    /// A flow's queue in which packets wait for longer than this and the flow's wired round trip, all through
    /// 100 ms and not because a silence kept what is before them, loses packets as CoDel would have it (RFC
    /// 8289; [`Queues::Flow`]); zero: never. It is four times the standing queue that the clamp leaves, so
    /// that it concerns only senders that no window holds.
    pub standing_limit: Duration,
    /// What happens to datagrams that go down.
    pub datagrams: Datagrams,
    /// A datagram that has waited for longer is dropped in place of being sent; zero: never. One second: QUIC
    /// sends a handshake of which it has heard nothing again after that time (RFC 9002 section 6.2.2), TCP's
    /// rule too (RFC 6298 section 2.1), and a receiver of live media has played on long before. Less would
    /// take from QUIC the whole window that a silence keeps, and so its congestion window.
    pub datagram_max_age: Duration,
    /// Most that held datagrams may weigh together, bytes: it comes out of what is kept free for windows that
    /// close late (`b_low`), and what would exceed it drops the first of the longest queue of datagrams.
    /// Flows that their station has not answered have an eighth of it for each station.
    pub datagram_quota: Bytes,
    /// Copies are kept of what goes down, so that what a silence took before it was noticed can go again, and
    /// other losses of the radio besides.
    pub recover: bool,
    /// How late a silence may be noticed so that what it took is still there: copies are kept for that time
    /// and a local round trip, at the channel's rate.
    pub longest_lateness: Duration,
    /// Most bytes of copies, whatever the rate.
    pub copies: Bytes,
    /// What happens to a held segment when a second copy comes.
    pub duplicates: Duplicates,
    /// Take back the transmit queue when a silence starts (Algorithm 2, line 11).
    pub reclaim: bool,
    /// Uplink shaping; `uplink.alpha_min` is the paper's α_min.
    pub uplink: UplinkConfig,
    /// History window and limits of the link monitor; `monitor.window` is the paper's ΔT.
    pub monitor: LinkMonitorConfig,
    /// Answer to a loss of capacity.
    pub capacity: CapacityResponse,
    /// Moving window over which D_i^in, a station's downlink rate, is measured.
    pub rate_window: Duration,
    /// Window clamp.
    pub clamp: Clamp,
    /// The clamp lets nothing arrive in a quiet period that was announced (`foresight.rs`).
    pub foresee: bool,
    /// Queue that the clamp leaves standing before the radio, as time at the channel's rate.
    pub standing_queue: Duration,
    /// What is left in the router's transmit queue, as time at the channel's rate; zero: no limit. Packets
    /// are released when less is left, until half as much again is there, or a packet more. Where nobody
    /// tells that rate, it is what stations acknowledged where they acknowledged most. What comes faster
    /// waits in the hold buffer, because a router's queue can seldom be taken back, and CoDel drops what a
    /// silence kept in it.
    pub transmit_queue: Duration,
    /// Where nobody tells the rate: for this share of the time the radio may have run dry. What waits against
    /// a forecast that is wrong follows from it: less of it carries more, at more delay.
    pub dry_share: Fraction,
    /// The most that waits against a wrong forecast, as time at the measured rate; at least `standing_queue`.
    pub most_margin: Duration,
    /// Windows over which the rate that nobody tells is measured: what changes soon, and what lasts.
    pub fast_rate: Duration,
    /// See [`fast_rate`](Self::fast_rate); at least as long.
    pub slow_rate: Duration,
    /// Rate of release while the channel's capacity is neither told nor measured yet, and nobody tells the
    /// room in the transmit queue. The rate is high on purpose: if it were less than the channel's, the
    /// mechanism would be the bottleneck and its buffer a standing queue. If it is more, the burst only moves
    /// on to the radio's queue.
    pub assumed_capacity: BitRate,
    /// Most reopenings sent for one silence to a sender that is not heard (`freeze+nudge`).
    pub nudges: u8,
    /// Pause before the second reopening; doubles each time.
    pub nudge_backoff: Duration,
    /// Keep the last uplink ACK before an announced silence back, so that a zero window can go out on a new
    /// ACK number: Linux before 6.6 ignores a zero window that repeats ACK and sequence number
    /// (`freeze+nudge`).
    pub keep_back: bool,
    /// Longest time an ACK is kept back.
    pub keep_back_delay: Duration,
    /// Most flows tracked; the longest idle one makes room for a new one.
    pub max_flows: u32,
    /// Seed of the flow table's hash: secret and random on a router, fixed in a simulation.
    pub flow_seed: u64,
}

impl Default for DsaSyncConfig {
    /// The recommended settings: `freeze+nudge` with windows closed only when space runs low, window clamp
    /// always, 2 ms in the transmit queue, copies of what went down, no uplink shaping.
    ///
    /// There are copies, because a real radio notices a silence late: what it sent until then is gone, and
    /// its sender takes the loss for congestion (docs/late.md).
    ///
    /// There is no uplink shaping, because an ACK kept back is data that comes later: the clamp leaves one
    /// round trip plus 5 ms of data in flight, so ACKs delayed by a silence's length would let the radio run
    /// dry. Shaping prevents spurious timeouts; a sender that detects and undoes them gains nothing by it.
    fn default() -> Self {
        Self {
            mode: Mode::FreezeNudge,
            close_at: CloseAt::SpaceLow,
            b_alloc: Bytes(64_000_000),
            dynamic_buffer: true,
            b_high: Bytes(32_000_000),
            b_low: Bytes(16_000_000),
            max_held_packets: 131_072,
            queues: Queues::Flow,
            flow_quota: Bytes(32_000_000),
            station_quota: Bytes(56_000_000),
            standing_limit: Duration::from_millis(20),
            datagrams: Datagrams::Hold,
            datagram_max_age: Duration::from_secs(1),
            datagram_quota: Bytes(8_000_000),
            recover: true,
            longest_lateness: Duration::from_millis(50),
            copies: Bytes(4_000_000),
            duplicates: Duplicates::Adaptive,
            reclaim: true,
            uplink: UplinkConfig { mode: UplinkMode::Off, ..UplinkConfig::default() },
            monitor: LinkMonitorConfig::default(),
            capacity: CapacityResponse::Modern,
            rate_window: Duration::from_millis(500),
            clamp: Clamp::Always,
            foresee: true,
            standing_queue: Duration::from_millis(5),
            transmit_queue: Duration::from_millis(2),
            dry_share: Fraction::clamped(0.1),
            most_margin: Duration::from_millis(150),
            fast_rate: Duration::from_millis(80),
            slow_rate: Duration::from_millis(500),
            assumed_capacity: BitRate::from_mbps(1000),
            nudges: 3,
            nudge_backoff: Duration::from_millis(50),
            keep_back: false,
            keep_back_delay: Duration::from_millis(5),
            max_flows: 65_536,
            flow_seed: 0,
        }
    }
}

impl DsaSyncConfig {
    /// The mechanism as the paper prints it, with its default values (section VI-A): `freeze`, windows closed
    /// when space runs low or one is used up, Algorithm 4 on the uplink, three duplicate ACKs on a switch, no
    /// clamp, one queue a station.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            mode: Mode::Freeze,
            close_at: CloseAt::UsedUp,
            b_alloc: Bytes(500_000_000),
            dynamic_buffer: false,
            b_high: Bytes(499_000_000),
            b_low: Bytes(400_000_000),
            max_held_packets: 1_048_576,
            queues: Queues::Station,
            datagrams: Datagrams::Pass,
            recover: false,
            duplicates: Duplicates::ReplaceOlder,
            uplink: UplinkConfig {
                mode: UplinkMode::Pooled,
                alpha_min: Fraction::clamped(0.5),
                ..UplinkConfig::default()
            },
            capacity: CapacityResponse::DuplicateAcks,
            clamp: Clamp::Off,
            transmit_queue: Duration::ZERO,
            ..Self::default()
        }
    }

    /// Buffer only: what holding alone is worth.
    #[must_use]
    pub fn hold_only() -> Self {
        Self {
            mode: Mode::Hold,
            dynamic_buffer: false,
            capacity: CapacityResponse::Off,
            clamp: Clamp::Off,
            transmit_queue: Duration::ZERO,
            // A sender that no window holds down keeps a queue here, which is what this preset is to show.
            standing_limit: Duration::ZERO,
            recover: false,
            ..Self::default()
        }
    }

    /// A mode of the paper with the window clamp: windows closed as Algorithm 1 prints it.
    #[must_use]
    pub fn closing(mode: Mode) -> Self {
        Self { mode, close_at: CloseAt::UsedUp, ..Self::default() }
    }

    /// `self` with B_alloc set, B_high and B_low at half and a quarter of it, a flow's quota at half, that of
    /// a station at seven eighths and that of datagrams at an eighth.
    #[must_use]
    pub fn with_b_alloc(self, b_alloc: Bytes) -> Self {
        Self {
            b_alloc,
            b_high: Bytes(b_alloc.0 / 2),
            b_low: Bytes(b_alloc.0 / 4),
            flow_quota: Bytes(b_alloc.0 / 2),
            station_quota: Bytes(b_alloc.0 - b_alloc.0 / 8),
            datagram_quota: Bytes(b_alloc.0 / 8),
            ..self
        }
    }

    /// Checks what types cannot: order of the thresholds, and limits that must not be zero.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.b_low >= self.b_high {
            return Err(ConfigError::LowNotBelowHigh { low: self.b_low, high: self.b_high });
        }
        if self.b_high >= self.b_alloc {
            return Err(ConfigError::HighNotBelowAlloc { high: self.b_high, alloc: self.b_alloc });
        }
        let zero = [
            ("max_held_packets", self.max_held_packets == 0),
            ("max_flows", self.max_flows == 0),
            ("rate_window", self.rate_window.is_zero()),
            ("window", self.monitor.window.is_zero()),
            ("assumed_capacity", self.assumed_capacity == BitRate(0)),
            ("fast_rate", self.fast_rate.is_zero()),
            ("slow_rate", self.slow_rate.is_zero()),
            ("nudges", self.nudges == 0),
            ("nudge_backoff", self.nudge_backoff.is_zero()),
            ("copies", self.copies == Bytes::ZERO),
        ];
        match zero.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((key, _)) => Err(ConfigError::Zero { key }),
            None => Ok(()),
        }
    }
}

/// What is wrong with a [`DsaSyncConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// B_low ≥ B_high: `hold` would clear where it is set.
    #[error("b_low ({low}) must be below b_high ({high})")]
    LowNotBelowHigh {
        /// B_low.
        low: Bytes,
        /// B_high.
        high: Bytes,
    },
    /// B_high ≥ B_alloc: `hold` would never clear, because free space cannot exceed B_alloc.
    #[error("b_high ({high}) must be below b_alloc ({alloc})")]
    HighNotBelowAlloc {
        /// B_high.
        high: Bytes,
        /// B_alloc.
        alloc: Bytes,
    },
    /// A limit or length that must not be zero is.
    #[error("{key} must be above zero")]
    Zero {
        /// Its name.
        key: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_presets_are_valid_and_the_papers_own_numbers_are_not() {
        for config in [DsaSyncConfig::default(), DsaSyncConfig::paper(), DsaSyncConfig::hold_only()] {
            assert_eq!(config.validate(), Ok(()));
        }
        let as_printed = DsaSyncConfig { b_high: Bytes(500_000_000), ..DsaSyncConfig::paper() };
        assert!(matches!(as_printed.validate(), Err(ConfigError::HighNotBelowAlloc { .. })));
        let swapped = DsaSyncConfig { b_low: Bytes(40), b_high: Bytes(30), ..DsaSyncConfig::default() };
        assert!(matches!(swapped.validate(), Err(ConfigError::LowNotBelowHigh { .. })));
        let none = DsaSyncConfig { max_flows: 0, ..DsaSyncConfig::default() };
        assert_eq!(none.validate(), Err(ConfigError::Zero { key: "max_flows" }));
    }
}
