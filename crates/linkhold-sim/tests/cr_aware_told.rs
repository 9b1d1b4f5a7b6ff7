//! CR-aware, a TCP sender and a station's radio together, where the radio's words get lost, come twice or
//! come in another order.
//!
//! Plan: one upload of a finite file, with any recovery and congestion control, over 802.15.4 or over a
//! shared channel; a primary user's bursts, drawn for 20 s, then none. Each word of the radio to the
//! mechanism is passed on, lost, said twice, or late by up to 4 s, so that it comes after later ones; words
//! that nobody said come between. Check:
//! - a frozen sender sends no data;
//! - no freeze outlasts `max_freeze` from the last word that began or renewed it, told of its end or not;
//! - at the thaw data goes at once, if any waits for its acknowledgment and the settings ask for that;
//! - after the last silence and the last word the flow goes on to its end: every byte arrives, and once.

mod common;

use std::sync::{Arc, Mutex};

use linkhold_core::action::{Action, Actions, Resend, SenderCommand, Verdict};
use linkhold_core::cr_aware::{CrAware, CrAwareConfig};
use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::{Direction, PacketView, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;
use linkhold_radio::spectrum::{Band, Generator, Occupancy, Places, PuActivity};
use linkhold_results::FlowRecord;
use linkhold_scenario::{NoFiles, ResolvedScenario, Scenario};
use linkhold_sim::path::NodeId;
use proptest::prelude::*;

/// What becomes of a word of the radio.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Pass,
    Lose,
    Double,
    Late(Duration),
}

/// A word that nobody said, and when it comes.
type Invented = (Instant, bool);

/// What was seen at the station, between its host and its radio.
#[derive(Debug, Default)]
struct Seen {
    /// The sender is frozen, as it was commanded last, and since when.
    frozen: bool,
    frozen_at: Instant,
    /// The last word of a beginning, and of anything.
    last_begun: Option<Instant>,
    last_word: Instant,
    /// Ends of the data that was sent, and that was acknowledged; `None` before there was any.
    sent: Option<Seq>,
    acked: Option<Seq>,
    /// A thaw after which data has to go, and how long the sender has been frozen no more.
    owed_since: Option<Instant>,
    freezes: u32,
    /// Thaws by the maximum, not by a word.
    healed: u32,
    lost: u32,
    wrong: Vec<String>,
}

impl Seen {
    fn waits_for_acknowledgment(&self) -> bool {
        match (self.sent, self.acked) {
            (Some(sent), Some(acked)) => sent.after(acked),
            (sent, _) => sent.is_some(),
        }
    }

    /// A mechanism's commands; `by_word`: the radio said something, or a packet came.
    fn commanded(&mut self, now: Instant, commands: &[Action], by_word: bool, resend: Resend) {
        for action in commands {
            let Action::Sender { command, .. } = action else { panic!("{action:?} of cr-aware") };
            match command {
                SenderCommand::Freeze => {
                    if !self.frozen {
                        self.freezes += 1;
                        self.frozen_at = now;
                    }
                    self.frozen = true;
                    self.owed_since = None;
                }
                SenderCommand::Thaw { .. } => {
                    self.healed += u32::from(self.frozen && !by_word);
                    let resends = resend != Resend::Nothing && self.waits_for_acknowledgment();
                    self.owed_since = (self.frozen && resends).then_some(now);
                    self.frozen = false;
                }
                SenderCommand::Missing { .. } => panic!("a report of cr-aware"),
            }
        }
    }

    fn look(&mut self, now: Instant, max_freeze: Duration) {
        if self.frozen && self.last_begun.is_none_or(|begun| now > begun + max_freeze) {
            self.wrong.push(format!("frozen at {now:?}, last told at {:?}", self.last_begun));
        }
        if let Some(thawed) = self.owed_since
            && now > thawed + Duration::from_millis(1)
        {
            self.wrong.push(format!("thawed at {thawed:?}, and sends nothing until {now:?}"));
            self.owed_since = None;
        }
    }

    fn packet(&mut self, now: Instant, packet: &PacketView<'_>) {
        let end = packet.tcp.seq + packet.tcp.payload_len;
        match packet.direction {
            Direction::Uplink if packet.tcp.payload_len > 0 => {
                // A timer of the sender's may end in the instant of the command.
                if self.frozen && now > self.frozen_at {
                    self.wrong.push(format!("frozen, it sends data at {now:?}"));
                }
                self.owed_since = None;
                if self.sent.is_none_or(|sent| end.after(sent)) {
                    self.sent = Some(end);
                }
            }
            Direction::Downlink if self.sent.is_some() => {
                let ack = packet.tcp.ack;
                if self.acked.is_none_or(|acked| ack.after(acked)) {
                    self.acked = Some(ack);
                }
            }
            Direction::Uplink | Direction::Downlink => {}
        }
    }
}

/// CR-aware behind a radio whose words suffer their fates.
struct MisTold {
    inner: CrAware,
    config: CrAwareConfig,
    /// In turn, again and again.
    fates: Vec<Fate>,
    words: usize,
    /// On their way.
    late: Vec<(Instant, LinkEvent)>,
    seen: Arc<Mutex<Seen>>,
}

impl MisTold {
    fn new(config: CrAwareConfig, fates: &[Fate], invented: &[Invented], seen: Arc<Mutex<Seen>>) -> Self {
        let word = |&(at, begins): &Invented| (at, LinkEvent::at(at, kind(begins)));
        let late = invented.iter().map(word).collect();
        Self { inner: CrAware::new(&config), config, fates: fates.to_vec(), words: 0, late, seen }
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().expect("nobody panics with it")
    }

    /// Says a word to the mechanism now.
    fn say(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        let before = out.as_slice().len();
        {
            let mut seen = self.seen();
            seen.last_word = now;
            if matches!(event.kind, LinkEventKind::FreezeStarted { .. }) {
                seen.last_begun = Some(now);
            }
        }
        self.inner.on_link(now, LinkEvent { detected_at: now, ..event }, out);
        self.seen().commanded(now, &out.as_slice()[before..], true, self.config.resend);
    }
}

fn kind(begins: bool) -> LinkEventKind {
    let (scope, cause) = (Scope::Network, Cause::PrimaryUser);
    if begins {
        LinkEventKind::FreezeStarted { scope, cause, expected: None }
    } else {
        LinkEventKind::FreezeEnded { scope, cause }
    }
}

impl Mechanism for MisTold {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.seen().look(now, self.config.max_freeze);
        self.seen().packet(now, packet);
        let verdict = self.inner.on_packet(now, packet, out);
        self.seen().commanded(now, out.as_slice(), true, self.config.resend);
        verdict
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        self.seen().look(now, self.config.max_freeze);
        if !self.inner.listens_to(&event.kind) {
            return;
        }
        let fate = self.fates[self.words % self.fates.len()];
        self.words += 1;
        match fate {
            Fate::Pass => self.say(now, event, out),
            Fate::Lose => self.seen().lost += 1,
            Fate::Double => {
                self.say(now, event, out);
                self.say(now, event, out);
            }
            Fate::Late(by) => self.late.push((now + by, event)),
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        self.seen().look(now, self.config.max_freeze);
        if self.inner.next_timeout().is_some_and(|due| due <= now) {
            self.inner.on_timeout(now, out);
            self.seen().commanded(now, out.as_slice(), false, self.config.resend);
        }
        while let Some(index) = self.late.iter().position(|(at, _)| *at <= now) {
            let (_, event) = self.late.remove(index);
            self.say(now, event, out);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.late.iter().map(|(at, _)| *at).chain(self.inner.next_timeout()).min()
    }

    fn is_holding(&self) -> bool {
        self.inner.is_holding()
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        self.inner.flush(now, out);
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }
}

/// The radio and the sender.
#[derive(Clone, Copy, Debug)]
struct Network {
    /// 802.15.4; otherwise a shared channel.
    contends: bool,
    /// 802.15.4: the MAC acknowledges. Shared: the station's queue keeps what it has in a silence.
    keeps: bool,
    loss: f64,
    idle_ms: u64,
    congestion: &'static str,
    recovery: &'static str,
    bytes: u64,
}

fn network() -> impl Strategy<Value = Network> {
    let congestion = prop::sample::select(vec!["reno", "vegas", "cubic", "bbr"]);
    let recovery = prop::sample::select(vec!["reno", "newreno", "sack", "rack-tlp"]);
    (any::<(bool, bool)>(), 0.0f64..0.1, 20u64..1000, congestion, recovery, 1u64..80_000).prop_map(
        |((contends, keeps), loss, idle_ms, congestion, recovery, bytes)| Network {
            contends,
            keeps,
            loss,
            idle_ms,
            congestion,
            recovery,
            bytes,
        },
    )
}

/// How long primary users come.
const BUSY: Duration = Duration::from_secs(20);
/// Longest RTO of these senders.
const RTO_MAX: Duration = Duration::from_secs(10);
/// From the last burst to the end of the run: words on their way, the longest freeze, 38 longest RTOs.
const PATIENCE: Duration = Duration::from_secs(400);
/// Of that, for the flow at least.
const LEFT: Duration = Duration::from_secs(380);

impl Network {
    fn scenario(&self, (on, off): (f64, f64), seed: u64) -> ResolvedScenario {
        let Self { contends, keeps, loss, idle_ms, congestion, recovery, bytes } = *self;
        let radio = if contends {
            format!(
                "mac = \"802.15.4\"\nieee802154 = {{ frame_loss = {loss}, acknowledged = {keeps}, processing_time = \"0s\" }}\n\
                 [radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\n\
                 overhear = {{ idle_time = \"{idle_ms}ms\", false_alarms = \"off\" }}\n"
            )
        } else {
            let in_silence = if keeps { "queue" } else { "drop" };
            format!(
                "mac = \"shared\"\nphy_rate = \"2Mbit/s\"\n[radio.primary_user]\non_mean = \"1s\"\noff_mean = \"1s\"\ndetection_delay = \"0s\"\n\
                 [station]\nlimit = \"50pkt\"\nin_silence = \"{in_silence}\"\n"
            )
        };
        let text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"told\"\nduration = \"420s\"\n[wired]\nrtt = \"20ms\"\n\
             [tcp]\nprofile = \"classic\"\ncongestion = \"{congestion}\"\nrecovery = \"{recovery}\"\nmss = 94\n\
             [[flows]]\ndirection = \"uplink\"\nsource = \"{bytes}B\"\n[radio]\n{radio}"
        );
        let scenario =
            Scenario::parse(&text, "s.toml", &[], &NoFiles).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut scenario = scenario.cases()[0].scenario.clone();
        let generator = Generator {
            bands: vec![PuActivity::new(1.0 / on, 1.0 / off).expect("they are rates")],
            users_per_band: 1,
            places: Places::Random { width: 100.0, height: 100.0 },
            power: 1.0,
            duration: BUSY,
        };
        let log = generator.generate(seed).expect("all is in range");
        let occupancy = Occupancy::of(&log, Band::new(1).expect("it is a band"), |_| true);
        scenario.radio.measured_users = vec![Some(Arc::new(occupancy))];
        scenario.tcp.rto_max = RTO_MAX;
        scenario
    }
}

/// Runs an upload to its end; what the station saw, and what became of the flow.
fn run(scenario: &ResolvedScenario, mechanism: MisTold, seed: u64) -> FlowRecord {
    let (end, station) = (Instant::ZERO + BUSY + PATIENCE, NodeId::Station(StationId(0)));
    let (flows, _, _) = common::run_tapped(scenario, seed, station, Box::new(mechanism), end);
    flows.into_iter().next().expect("one flow")
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        3 => Just(Fate::Pass),
        2 => Just(Fate::Lose),
        1 => Just(Fate::Double),
        2 => (1u64..4000).prop_map(|ms| Fate::Late(Duration::from_millis(ms))),
    ]
}

fn invented() -> impl Strategy<Value = Invented> {
    (0u64..BUSY.as_millis(), any::<bool>()).prop_map(|(ms, begins)| (Instant::from_millis(ms), begins))
}

linkhold_testing::properties! {
    #![cases(linkhold_testing::costly(480).without_regressions())]
    #[test]
    fn an_upload_ends_whatever_cr_aware_is_told(
        network in network(),
        (on_ms, off_ms) in (30u64..3000, 100u64..4000),
        fates in prop::collection::vec(fate(), 1..12),
        invented in prop::collection::vec(invented(), 0..12),
        max_freeze_ms in 100u64..6000,
        resend in prop::sample::select(vec![Resend::Nothing, Resend::First, Resend::All]),
        seed in 1u64..1_000_000,
    ) {
        let config = CrAwareConfig {
            resend,
            max_freeze: Duration::from_millis(max_freeze_ms),
            ..CrAwareConfig::default()
        };
        let scenario = network.scenario((on_ms as f64 / 1e3, off_ms as f64 / 1e3), seed);
        let seen = Arc::new(Mutex::new(Seen::default()));
        let flow = run(&scenario, MisTold::new(config, &fates, &invented, seen.clone()), seed);
        let seen = seen.lock().expect("nobody panics with it");
        prop_assert!(seen.wrong.is_empty(), "{:?}", seen.wrong);
        prop_assert!(!seen.frozen, "frozen at the end: {seen:?}");
        // From here on nobody says anything, and nothing is silent.
        let quiet = (Instant::ZERO + BUSY).max(seen.last_word) + config.max_freeze;
        prop_assert!(quiet + LEFT < Instant::ZERO + BUSY + PATIENCE, "{quiet:?}");
        prop_assert_eq!(flow.bytes, network.bytes, "{:?}", seen);
        prop_assert!(flow.completion_s.is_some(), "{:?}", seen);
    }
}

/// The property's cases are the ones that it is about: words get lost, and freezes are healed by the maximum.
#[test]
fn a_freeze_whose_end_gets_lost_is_healed_by_the_maximum() {
    let network = Network {
        contends: true,
        keeps: false,
        loss: 0.05,
        idle_ms: 100,
        congestion: "reno",
        recovery: "newreno",
        bytes: 80_000,
    };
    let scenario = network.scenario((1.0, 1.0), 1);
    // Every beginning is told, and no end.
    let fates = [Fate::Pass, Fate::Lose];
    let config = CrAwareConfig { max_freeze: Duration::from_secs(3), ..CrAwareConfig::default() };
    let seen = Arc::new(Mutex::new(Seen::default()));
    let flow = run(&scenario, MisTold::new(config, &fates, &[], seen.clone()), 1);
    let seen = seen.lock().expect("nobody panics with it");
    assert!(seen.wrong.is_empty(), "{:?}", seen.wrong);
    assert!(seen.lost >= 2 && seen.healed >= 2 && seen.healed == seen.freezes, "{seen:?}");
    assert_eq!(flow.bytes, network.bytes);
}
