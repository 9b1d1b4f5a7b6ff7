//! Conditions that several plans share; a run under them is made once on each stack. They are short, since a
//! second on Linux takes a second.

use crate::plan::{Conditions, Source};

/// One congestion control is enough where it is not the subject.
pub const CUBIC: &[&str] = &["cubic"];
/// One seed is enough where the radio is scripted.
pub const ONE: &[u64] = &[1];

/// A radio that never falls silent. Window and queues are such that slow start loses nothing, and a few
/// seconds tell all.
const CLEAN: Conditions = Conditions {
    name: "clean",
    scenario: Source::File("clean.toml"),
    set: &[],
    cases: &["none"],
    congestion: &["reno", "cubic", "bbr"],
    seeds: ONE,
};

/// Settings of a round trip, with those that all of them have.
macro_rules! clean {
    ($($set:literal),*) => {
        &[$($set,)* "router.limit=600pkt", "station.limit=600pkt", "tcp.receive_buffer=512KiB"]
    };
}

/// A LAN.
pub const CLEAN_3_MS: Conditions =
    Conditions { name: "clean, 3 ms", set: clean!("wired.rtt=3ms", "duration=5s", "warm_up=2s"), ..CLEAN };

/// A continent.
pub const CLEAN_50_MS: Conditions =
    Conditions { name: "clean, 50 ms", set: clean!("wired.rtt=50ms", "duration=5s", "warm_up=2s"), ..CLEAN };

/// An ocean. HyStart may leave slow start below what the path holds, and CUBIC needs seconds for the rest.
pub const CLEAN_100_MS: Conditions = Conditions {
    name: "clean, 100 ms",
    set: clean!("wired.rtt=100ms", "duration=8s", "warm_up=5s"),
    ..CLEAN
};

/// A queue that marks where it would drop, below senders that asked for it (RFC 3168).
pub const MARKED: Conditions = Conditions {
    name: "marked, 20 ms",
    set: &[
        "wired.rtt=20ms",
        "duration=12s",
        "warm_up=4s",
        "router.queue=fq_codel",
        "router.limit=600pkt",
        "tcp.ecn=true",
        "tcp.receive_buffer=2MiB",
    ],
    congestion: &["reno", "cubic"],
    ..CLEAN
};

/// One download at 50 ms over a radio that a primary user and sensing silence a quarter of the time, behind
/// routers as they are and the mechanism's modes.
pub const QUARTER_SILENT: Conditions = Conditions {
    name: "quarter silent",
    scenario: Source::File("testbed-table.toml"),
    set: &["duration=12s", "warm_up=2s"],
    cases: &["drop", "fifo-100", "fifo-5000", "hold", "freeze", "freeze+nudge", "dsasync"],
    congestion: CUBIC,
    seeds: ONE,
};

/// Two of its cases with BBR, whose window is not what silences cost others.
pub const QUARTER_SILENT_BBR: Conditions = Conditions {
    name: "quarter silent, BBR",
    cases: &["fifo-5000", "dsasync"],
    congestion: &["bbr"],
    ..QUARTER_SILENT
};

/// The same at 100 ms with Reno, whose window takes longest to come back.
pub const FAR: Conditions = Conditions {
    name: "quarter silent, 100 ms",
    set: &["wired.rtt=100ms", "duration=13s", "warm_up=3s"],
    cases: &["fifo-100", "freeze+nudge"],
    congestion: &["reno"],
    ..QUARTER_SILENT
};

/// One download at 20 ms over a radio that is silent 100 of 400 ms; the run does not end in a silence.
const SENSING: &str = r#"
schema = "linkhold.scenario/1"
name = "sensing"
duration = "5s"
warm_up = "1s"
[wired]
rate = "1Gbit/s"
rtt = "20ms"
[radio]
mac = "duplex"
phy_rate = "24Mbit/s"
rate_told = true
mac_efficiency = 1.0
sensing = { period = "400ms", duration = "100ms", phase = "230ms" }
[router]
limit = "600pkt"
visible = false
[tcp]
profile = "linux"
receive_buffer = "512KiB"
[[flows]]
direction = "downlink"
[[cases]]
name = "none"
[[cases]]
name = "hold"
mechanism = "dsasync"
preset = "hold"
[[cases]]
name = "freeze"
mechanism = "dsasync"
preset = "freeze"
[[cases]]
name = "freeze+nudge"
mechanism = "dsasync"
preset = "freeze+nudge"
[[cases]]
name = "dsasync"
mechanism = "dsasync"
"#;

/// Short silences that come often, and every mode.
pub const SENSED: Conditions = Conditions {
    name: "sensing",
    scenario: Source::Text(SENSING),
    set: &[],
    cases: &["none", "hold", "freeze", "freeze+nudge"],
    congestion: CUBIC,
    seeds: ONE,
};

/// The same over IPv6. A new namespace may answer its first IPv6 packet late: a SYN sent again after a second
/// is over before counting starts.
pub const SENSED_V6: Conditions = Conditions {
    name: "sensing, IPv6",
    set: &["flows.0.ip=v6", "duration=6s", "warm_up=3s"],
    cases: &["freeze+nudge"],
    ..SENSED
};

/// Downloads of 1 MB at 50 ms, silences of 200 ms, and 30 kB for everything that is held, where a window's
/// worth is five times as much.
pub const SMALL_MEMORY: Conditions = Conditions {
    name: "30 kB to hold in",
    set: &[
        "wired.rtt=50ms",
        "radio.sensing.period=700ms",
        "radio.sensing.duration=200ms",
        "dsasync.b_alloc=30kB",
        "flows.0.source=1MB",
        "flows.0.count=3",
        "duration=9s",
        "warm_up=0s",
    ],
    cases: &["hold", "freeze", "dsasync"],
    ..SENSED
};

/// One download at 100 ms over a radio whose primary user is noticed 20 ms late: what is sent into its bursts
/// collides and is lost. At 20 ms the sender repairs that as fast as the base station can.
const LATE: &str = r#"
schema = "linkhold.scenario/1"
name = "late"
duration = "13s"
warm_up = "3s"
[wired]
rate = "1Gbit/s"
rtt = "100ms"
[radio]
mac = "duplex"
phy_rate = "24Mbit/s"
rate_told = true
mac_efficiency = 1.0
primary_user = { on_mean = "300ms", off_mean = "1200ms", detection_delay = "20ms" }
[router]
limit = "100pkt"
visible = false
[tcp]
profile = "linux"
[[flows]]
direction = "downlink"
[[cases]]
name = "none"
[[cases]]
name = "local-recovery"
mechanism = "local-recovery"
"#;

/// Bursts told late, with and without copies.
pub const TOLD_LATE: Conditions = Conditions {
    name: "told late",
    scenario: Source::Text(LATE),
    set: &[],
    cases: &["none", "local-recovery"],
    congestion: CUBIC,
    seeds: &[2, 3],
};

/// Bursts told late, with one mechanism and with two at the base station.
pub const TOLD_LATE_SEVERAL: Conditions = Conditions {
    name: "told late, several",
    scenario: Source::File("told-late.toml"),
    set: &["duration=13s", "warm_up=3s", "radio.rate_told=true"],
    cases: &["no-copies", "both"],
    congestion: CUBIC,
    seeds: &[1, 2, 3],
};

/// The same where nobody tells the rate either: the plain router, and dsasync as it comes.
pub const TOLD_LATE_NO_RATE: Conditions = Conditions {
    name: "told late, no rate",
    set: &["duration=13s", "warm_up=3s", "radio.rate_told=false"],
    cases: &["fifo", "dsasync"],
    seeds: &[2],
    ..TOLD_LATE_SEVERAL
};
