//! DSASync as the registry knows it: its presets, its settings with their names in files, and how it is
//! built.

use super::config::{
    CapacityResponse, Clamp, CloseAt, ConfigError, Datagrams, DsaSyncConfig, Duplicates, Mode, Queues,
};
use super::uplink::UplinkMode;
use crate::dsasync::DsaSync;
use crate::link_monitor::AlphaForm;
use crate::mechanism::{Mechanism, Place};
use crate::quantity::ValueError;
use crate::settings::{
    Packets, Positive, Preset, Registered, RouterNeeds, Setting, SettingsError, Whole, settings, words,
};
use crate::time::Duration;
use crate::units::{BitRate, Bytes, Fraction};

impl Registered for DsaSyncConfig {
    const NAME: &'static str = "dsasync";
    const SUMMARY: &'static str = "DSASync: holds packets in a silence and manages the senders' windows.";
    const PLACES: &'static [Place] = &[Place::BaseStation, Place::Stations];
    const TURNED_AT_STATIONS: bool = true;
    const SILENCE_LIMIT: Option<&'static str> = Some("max_silence");

    const PRESETS: &'static [Preset<Self>] = &[
        Preset { name: "recommended", doc: "DSASync as recommended.", make: Self::default },
        Preset {
            name: "paper",
            doc: "DSASync as the paper prints it, with the paper's values.",
            make: Self::paper,
        },
        Preset { name: "hold", doc: "DSASync that only buffers.", make: Self::hold_only },
        Preset {
            name: "freeze",
            doc: "DSASync that buffers, closes windows as Algorithm 1 prints it and reopens them.",
            make: || Self::closing(Mode::Freeze),
        },
        Preset {
            name: "freeze+nudge",
            doc: "As freeze; windows also reopen ahead of an end that is known, again and again until the sender is heard.",
            make: || Self::closing(Mode::FreezeNudge),
        },
    ];

    const SETTINGS: &'static [Setting<Self>] = settings!(DsaSyncConfig {
        /// What is done in a silence.
        mode: Mode => mode;
        /// When windows are closed.
        close_at: CloseAt => close_at;
        /// B_alloc: most bytes held at once. Stated alone, B_high and B_low become a half and a quarter of
        /// it, flow_quota a half, station_quota seven eighths, and datagram_quota an eighth.
        b_alloc: Positive<Bytes> => b_alloc, |config, b_alloc| *config = config.with_b_alloc(b_alloc);
        /// Use only as much of b_alloc as silences of the observed length need; thresholds and quotas shrink
        /// in proportion.
        dynamic_buffer: bool => dynamic_buffer;
        /// B_high: windows closed for lack of space reopen when more than this is free; below B_alloc.
        b_high: Positive<Bytes> => b_high;
        /// B_low: windows close when less than this is free; below B_high.
        b_low: Bytes => b_low;
        /// Most packets held at once.
        max_held_packets: Positive<Packets> => max_held_packets;
        /// How held downlink packets are queued.
        queues: Queues => queues;
        /// Most bytes held of one flow (queues = "flow"); 0 bytes: no limit but b_alloc.
        flow_quota: Bytes => flow_quota;
        /// Most bytes held of one station's connections (queues = "flow"); 0 bytes: no limit but b_alloc.
        station_quota: Bytes => station_quota;
        /// A flow's queue that stands longer than this outside silences is cut (queues = "flow"); 0s: never.
        standing_limit: Duration => standing_limit;
        /// What happens to UDP datagrams that go down.
        datagrams: Datagrams => datagrams;
        /// A datagram that waited for longer is dropped in place of being sent (datagrams = "hold"); 0s:
        /// never.
        datagram_max_age: Duration => datagram_max_age;
        /// Most bytes of datagrams held (datagrams = "hold").
        datagram_quota: Bytes => datagram_quota;
        /// Keep copies of what goes down, and send again what the radio lost: above all what a silence took
        /// before it was noticed.
        recover: bool => recover;
        /// Copies are kept for this time and a local round trip, at the channel's rate (recover = true): how
        /// late a silence may be noticed.
        longest_lateness: Duration => longest_lateness;
        /// Most bytes of copies, whatever the rate (recover = true).
        copies: Positive<Bytes> => copies;
        /// What happens to a held segment when a second copy comes.
        duplicates: Duplicates => duplicates;
        /// Take back the transmit queue when a silence starts (Algorithm 2, line 11).
        reclaim: bool => reclaim;
        /// Uplink shaping.
        uplink: UplinkMode => uplink.mode;
        /// alpha_min: shaping never slows a station below this share of its rate.
        alpha_min: Fraction => uplink.alpha_min;
        /// Most uplink bytes held.
        uplink_limit: Positive<Bytes> => uplink.limit;
        /// Longest that an uplink packet is held.
        uplink_max_delay: Positive<Duration> => uplink.max_delay;
        /// Delta T: the moving window that silences and rates are averaged over.
        window: Positive<Duration> => monitor.window, |config, window| {
            config.monitor.window = window;
            // D is measured over the same Delta T as alpha.
            config.uplink.window = window;
        };
        /// A silence that nobody ended after this long is taken to be over.
        max_silence: Positive<Duration> => monitor.max_silence;
        /// How alpha is computed.
        alpha_form: AlphaForm => monitor.alpha_form;
        /// Answer to a loss of capacity (Algorithm 5).
        capacity: CapacityResponse => capacity;
        /// Moving window over which a station's downlink rate is measured.
        rate_window: Positive<Duration> => rate_window;
        /// When the window is held down to the radio's bandwidth-delay product.
        clamp: Clamp => clamp;
        /// The clamp lets nothing arrive in a quiet period that was announced: for one round trip, windows
        /// are smaller by what would.
        foresee: bool => foresee;
        /// Queue that the clamp leaves standing before the radio, as time at the channel's rate.
        standing_queue: Duration => standing_queue;
        /// What is left in the transmit queue, as time at the channel's rate, told or measured: packets leave
        /// when there is less, until there is half as much again. 0s: no matter how much.
        transmit_queue: Duration => transmit_queue;
        /// Where no rate is told: share of the time in which the radio may run dry. Less carries more, at
        /// more delay.
        dry_share: Fraction => dry_share;
        /// Where no rate is told: most that waits against a wrong forecast, as time at the measured rate; at
        /// least standing_queue.
        most_margin: Duration => most_margin;
        /// Where no rate is told: time over which the fast estimate of the rate is taken.
        fast_rate: Positive<Duration> => fast_rate;
        /// Where no rate is told: time over which the slow estimate is taken; at least fast_rate.
        slow_rate: Positive<Duration> => slow_rate;
        /// Rate of release while the channel's capacity is unknown.
        assumed_capacity: Positive<BitRate> => assumed_capacity;
        /// Most reopenings sent for one silence to a sender that is not heard.
        nudges: Whole<u8, 1, 255> => nudges;
        /// Pause before the second reopening; doubles each time.
        nudge_backoff: Positive<Duration> => nudge_backoff;
        /// Keep the last uplink ACK before an announced silence back, for senders older than Linux 6.6.
        keep_back: bool => keep_back;
        /// Longest time an ACK is kept back.
        keep_back_delay: Duration => keep_back_delay;
        /// Most flows tracked.
        max_flows: Whole<u32, 1, 10_000_000> => max_flows;
    });

    fn validate(&self) -> Result<(), SettingsError> {
        Ok(Self::validate(self)?)
    }

    fn build(&self, seed: u64) -> Result<Box<dyn Mechanism>, SettingsError> {
        Ok(Box::new(DsaSync::new(&Self { flow_seed: seed, ..*self })?))
    }

    fn needs(&self) -> RouterNeeds {
        RouterNeeds {
            held_packets: self.max_held_packets,
            transmit_queue: self.transmit_queue,
            datagrams: self.datagrams == Datagrams::Hold,
            kept_bytes: if self.recover { self.copies } else { Bytes::ZERO },
            ..RouterNeeds::default()
        }
    }
}

words!(Mode {
    "hold" => Hold, "Hold packets; touch no window because of a silence.";
    "freeze" => Freeze, "Hold, close windows, and reopen each when the silence ends.";
    "freeze+nudge" => FreezeNudge,
        "As freeze; windows also reopen ahead of an end that is known, again and again until the sender is heard.";
});

words!(CloseAt {
    "space-low" => SpaceLow, "When space runs low; a silence alone closes none.";
    "used-up" => UsedUp, "When space runs low, or one flow's window is used up (Algorithm 1).";
    "silence-start" => SilenceStart, "As soon as a silence starts.";
});

words!(Queues {
    "station" => Station, "One first-in first-out queue a station, as the paper says.";
    "flow" => Flow, "One a flow, served fairly and bounded, so that no flow can take another's share.";
});

words!(Datagrams {
    "pass" => Pass, "They pass, unseen.";
    "hold" => Hold, "They wait in a silence and behind the hold buffer, in a queue for each flow, by age and quota.";
});

words!(Duplicates {
    "replace-older" => ReplaceOlder, "The newer copy takes the older one's place, as the paper says.";
    "adaptive" => Adaptive, "Flows with timestamps or SACK keep both copies, which undoes a spurious timeout.";
});

words!(UplinkMode {
    "off" => Off, "No shaping.";
    "per-station" => PerStation, "Algorithm 3.";
    "pooled" => Pooled, "Algorithm 4.";
});

words!(CapacityResponse {
    "off" => Off, "Nothing.";
    "duplicate-acks" => DuplicateAcks, "Three duplicate ACKs, as printed.";
    "modern" => Modern, "ECN-echo where negotiated, and the window clamped.";
});

words!(Clamp {
    "off" => Off, "Never.";
    "on-switch" => OnSwitch, "For flows too fast for a new channel.";
    "always" => Always, "Always.";
});

words!(AlphaForm {
    "union" => Union,
        "Share of the window in which the station could send; overlapping silences count once.";
    "sum" => Sum, "Equation (1) as printed: overlapping silences count twice.";
});

impl From<ConfigError> for SettingsError {
    fn from(error: ConfigError) -> Self {
        let (keys, right) = match error {
            ConfigError::LowNotBelowHigh { .. } => {
                (vec!["b_low", "b_high", "b_alloc"], "write b_alloc > b_high > b_low")
            }
            ConfigError::HighNotBelowAlloc { .. } => (
                vec!["b_high", "b_alloc"],
                "free space never exceeds b_alloc, so closed windows would stay closed",
            ),
            ConfigError::Zero { key } => (vec![key], ""),
        };
        Self { keys, error: ValueError::new(error.to_string(), right) }
    }
}
