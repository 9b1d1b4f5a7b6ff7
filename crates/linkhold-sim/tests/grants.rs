//! Runs over a granted uplink: TCP completes, nothing is lost on the way, and a request ahead takes its wait
//! away.

mod common;
#[path = "common/toy.rs"]
mod toy;

use linkhold_core::action::{Action, Actions, Rewrite, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::{Direction, Ecn, PacketId, PacketView, StationId, TcpFlags, TcpSegment};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::{
    Air, AirConfig, AirTimeModel, ChannelConfig, GrantsConfig, Mac, QueueConfig, SignalsConfig, Switching,
    WiredPipe,
};
use linkhold_results::RunRecord;
use linkhold_scenario::{Case, NoFiles, Scenario};
use linkhold_sim::flow::FlowIndex;
use linkhold_sim::network::{Losses, Network};
use linkhold_sim::path::NodeId;
use linkhold_sim::slab::{Packet, Sending};
use linkhold_sim::{CellBuilder, Engine, Hosts, run_case};

fn scenario(mac: &str, radio: &str, more: &str) -> Case {
    let text = format!(
        "schema = \"linkhold.scenario/1\"\nname = \"grants\"\nduration = \"60s\"\n[radio]\nmac = \"{mac}\"\n\
         phy_rate = \"12Mbit/s\"\n{radio}\n{more}"
    );
    let scenario = Scenario::parse(&text, "s.toml", &[], &NoFiles).unwrap_or_else(|error| panic!("{error}"));
    scenario.cases()[0].clone()
}

fn run(case: &Case, seed: u64) -> RunRecord {
    run_case(case, seed).expect("the scenario is valid").0
}

const DOWNLOADS: &str = "[[flows]]\ndirection = \"downlink\"\nstation = \"all\"\nsource = \"500kB\"\n";

#[test]
fn downloads_and_uploads_complete_over_every_standard() {
    let both =
        format!("{DOWNLOADS}[[flows]]\ndirection = \"uplink\"\nstation = \"all\"\nsource = \"100kB\"\n");
    for mac in ["802.16", "docsis", "5g"] {
        let record = run(&scenario(mac, "stations = 5", &both), 1);
        assert_eq!(record.flows.len(), 10);
        for flow in &record.flows {
            assert!(flow.completion_s.is_some(), "{mac}: {flow:?}");
        }
        let uplink = record.link.uplink.expect("it grants");
        assert!(uplink.grants > 100 && uplink.accesses > 10, "{mac}: {uplink:?}");
        assert!(uplink.granted_bytes > 5 * 100_000, "{mac}: {uplink:?}");
        assert_eq!((uplink.given_up, record.link.air_losses), (0, 0), "{mac}");
    }
}

#[test]
fn the_access_takes_its_frames_and_a_bulk_download_comes_near_its_limit() {
    let bulk = "[[flows]]\ndirection = \"downlink\"\n";
    let record = run(&scenario("802.16", "", bulk), 1);
    let share = record.totals.limit_share;
    assert!(share > 0.9 && share <= 1.0, "{share}");
    // 12 Mbit/s for 2.535 of 5 ms, less headers.
    let limit = record.link.goodput_limit_bps;
    assert!((5.7e6..6.1e6).contains(&limit), "{limit}");
    let delay = record.link.uplink.expect("it grants").access_delay_mean_s.expect("there were some");
    // Seven frames, a wait for the first uplink subframe below one, the contention part.
    assert!((0.035..0.041).contains(&delay), "{delay}");
}

/// What the MAC puts around each packet takes its part of the air. The limit leaves out what a packet has
/// more of that where it is cut at a subframe's end, here every third or fourth.
#[test]
fn the_limit_counts_the_macs_headers() {
    let bulk = "[[flows]]\ndirection = \"downlink\"\n";
    let with =
        |header: u32| run(&scenario("802.16", &format!("grants = {{ header = \"{header}B\" }}"), bulk), 1);
    let [none, much] = [0, 500].map(with);
    let ratio = much.link.goodput_limit_bps / none.link.goodput_limit_bps;
    assert!((ratio - 1500.0 / 2000.0).abs() < 1e-6, "{ratio}");
    let shares = [none.totals.limit_share, much.totals.limit_share];
    assert!(shares[0] > 0.99 && shares[1] > 0.85 && shares.iter().all(|share| *share <= 1.0), "{shares:?}");
}

#[test]
fn an_ack_of_a_host_slower_than_the_gap_between_the_subframes_waits_a_frame_longer() {
    // 48 KiB go around in a whole number of frames. The gap after the downlink subframe is 121.2 us long.
    let goodput = |delay: &str| {
        let tcp = format!(
            "[wired]\nrtt = \"50ms\"\n[tcp]\nreceive_buffer = \"48KiB\"\n[host]\ndelay = \"{delay}\"\n{}",
            "[[flows]]\ndirection = \"downlink\"\n"
        );
        run(&scenario("802.16", "grants = { frame = \"12ms\" }", &tcp), 1).totals.goodput_bps
    };
    let [none, within, beyond, much] = ["0s", "100us", "130us", "1ms"].map(goodput);
    assert!((within / none - 1.0).abs() < 0.01, "{none} {within}");
    assert!(beyond < 0.95 * within, "{within} {beyond}");
    assert!((much / beyond - 1.0).abs() < 0.01, "{beyond} {much}");
}

#[test]
fn results_without_grants_say_nothing_of_them() {
    let text = serde_json::to_string(&run(&scenario("duplex", "", DOWNLOADS), 1)).expect("JSON");
    assert!(!text.contains("\"uplink\":{"), "{text}");
    let text = serde_json::to_string(&run(&scenario("802.16", "", DOWNLOADS), 1)).expect("JSON");
    assert!(text.contains("\"uplink\":{\"requests\":"), "{text}");
}

#[test]
fn one_seed_gives_the_same_bytes_twice_and_another_gives_others() {
    let radio = "stations = 8\ngrants = { codes = 2, slots = 1, success = 0.8, tell_silences = true }\n\
                 primary_user = { on_mean = \"50ms\", off_mean = \"300ms\", detection_delay = \"7ms\" }\n";
    let case =
        scenario("802.16", radio, &format!("{DOWNLOADS}[[cases]]\nname = \"d\"\nmechanism = \"dsasync\"\n"));
    let text = |seed| {
        let (mut record, series) = run_case(&case, seed).expect("the scenario is valid");
        record.wall_s = 0.0;
        format!("{}\n{series:?}", serde_json::to_string(&record).expect("JSON"))
    };
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
}

#[test]
fn a_primary_user_cuts_it_and_the_downloads_complete_all_the_same() {
    for detection in ["0s", "20ms"] {
        let radio = format!(
            "stations = 3\nprimary_user = {{ on_mean = \"100ms\", off_mean = \"400ms\", detection_delay = \
             \"{detection}\" }}"
        );
        let record = run(&scenario("802.16", &radio, DOWNLOADS), 1);
        assert!(record.link.silent_fraction > 0.1, "{}", record.link.silent_fraction);
        assert!(
            record.flows.iter().all(|flow| flow.completion_s.is_some()),
            "{detection}: {:?}",
            record.flows
        );
        assert_eq!(record.link.uplink.expect("it grants").given_up, 0);
        let clear = run(&scenario("802.16", "stations = 3", DOWNLOADS), 1);
        let (slow, fast) = (record.totals.completion_mean_s, clear.totals.completion_mean_s);
        assert!(slow > fast, "{slow:?}, {fast:?}");
    }
}

#[test]
fn dsasync_that_is_told_of_the_frames_pauses_is_as_fast_as_one_that_is_not() {
    let case = |mac: &str, grants: &str, more: &str| {
        let radio = format!("{more}grants = {{ {grants} }}");
        scenario(mac, &radio, &format!("{DOWNLOADS}[[cases]]\nname = \"d\"\nmechanism = \"dsasync\"\n"))
    };
    let seconds = |record: &RunRecord| record.flows[0].completion_s.expect("it completes");
    for (mac, frame) in [
        ("802.16", "frame = \"2ms\""),
        ("802.16", "frame = \"5ms\""),
        ("802.16", "frame = \"12ms\""),
        ("5g", "duplexing = \"tdd\""),
    ] {
        let told = run(&case(mac, &format!("{frame}, tell_silences = true"), ""), 1);
        let untold = run(&case(mac, frame, ""), 1);
        println!("{mac}, {frame}: told {:.3} s, not told {:.3} s", seconds(&told), seconds(&untold));
        // What comes in the pause of the downlink lies in the radio's queue when the next subframe is filled.
        // A station that waits for its ACK's turn can be sent to.
        assert!(seconds(&told) <= 1.02 * seconds(&untold), "{mac}, {frame}: {} s", seconds(&told));
    }
    // Silences that are none of the frame's are held for, as ever.
    let sensing = "sensing = { period = \"300ms\", duration = \"60ms\" }\n";
    let told = run(&case("802.16", "tell_silences = true", sensing), 1);
    let untold = run(&case("802.16", "tell_silences = false", sensing), 1);
    let silences = |record: &RunRecord| record.mechanisms[0].counter("silences");
    assert!(silences(&told) > 100 && silences(&told) == silences(&untold), "{:?}", told.mechanisms);
    assert!(seconds(&told) <= 1.02 * seconds(&untold), "{} and {}", seconds(&told), seconds(&untold));
}

// ---- a request ahead ----

/// Asks for an answer's turn when a downlink packet passes, if it is told to.
#[derive(Debug)]
struct AskOnData {
    asks: bool,
    told: Told,
}

/// What the radio told.
#[derive(Debug, Default)]
struct Told {
    frames: Option<Duration>,
    grants: u64,
    unused: u64,
}

impl Mechanism for AskOnData {
    fn name(&self) -> &'static str {
        "ask-on-data"
    }

    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        if self.asks && packet.direction == Direction::Downlink {
            out.push(Action::RequestUplink { station: packet.station, bytes: Bytes(40) });
        }
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, _now: Instant, event: LinkEvent, _out: &mut Actions) {
        match event.kind {
            LinkEventKind::GrantFrames { period } => self.told.frames = Some(period),
            LinkEventKind::Grant { station, bytes, .. } => {
                assert_eq!((station, bytes), (StationId(0), Bytes(50)));
                self.told.grants += 1;
            }
            LinkEventKind::GrantUnused { .. } => self.told.unused += 1,
            LinkEventKind::FreezeStarted { .. }
            | LinkEventKind::FreezeEnded { .. }
            | LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::TransmitRoom { .. }
            | LinkEventKind::StationLeft { .. } => {}
        }
    }

    fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, _out: &mut Actions) {}

    fn metrics(&self) -> Metrics {
        // What the test wants to see, under the names that are there.
        Metrics { packets: self.told.grants, reports: self.told.unused, ..Metrics::default() }
    }
}

/// A correspondent that sends a packet every 200 ms; a station that answers each one `after` so long.
#[derive(Debug)]
struct LateAnswers {
    flow: FlowIndex,
    after: Duration,
    sent: u32,
    answered_at: Instant,
    /// From each answer's sending to its arrival at the correspondent.
    delays: Vec<Duration>,
}

const SEND: u32 = 0;
const ANSWER: u32 = 1;

impl LateAnswers {
    fn send(&self, now: Instant, direction: Direction, payload_len: u32, network: &mut Network) {
        let segment = TcpSegment { payload_len, flags: TcpFlags::ACK, window: 1000, ..TcpSegment::default() };
        let sending = Sending { flow: self.flow, direction, segment, ecn: Ecn::NotEct, retransmit: false };
        network.send(now, &sending);
    }
}

impl Hosts for LateAnswers {
    fn on_arrival(&mut self, now: Instant, _id: PacketId, packet: Packet, network: &mut Network) {
        match packet.direction {
            Direction::Downlink => network.schedule(now + self.after, ANSWER),
            Direction::Uplink => self.delays.push(now.since(self.answered_at)),
        }
    }

    fn on_wake(&mut self, at: Instant, token: u32, network: &mut Network) -> bool {
        if token == ANSWER {
            self.answered_at = at;
            self.send(at, Direction::Uplink, 0, network);
        } else if self.sent < 100 {
            self.sent += 1;
            self.send(at, Direction::Downlink, 1000, network);
            // Not a multiple of a frame, so that waits differ.
            network.schedule(at + Duration::from_micros(200_700), SEND);
        }
        true
    }
}

fn answers(asks: bool, after: u64) -> Engine<LateAnswers> {
    let config = AirConfig {
        stations: 1,
        mac: Mac::Grants(GrantsConfig::default()),
        air_time: AirTimeModel::PerByte,
        measured_users: Vec::new(),
        channels: vec![ChannelConfig {
            phy_rate: BitRate::from_mbps(12),
            efficiency: Fraction::ONE,
            primary_user: None,
        }],
        initial_channel: 0,
        rate_told: true,
        switching: Switching::default(),
        signals: SignalsConfig::default(),
        sensing: None,
        station_sensing: Vec::new(),
        power: None,
        snr: None,
        retry_limit: 7,
        router: QueueConfig::fifo(100),
        station_queue: QueueConfig::fifo(100),
    };
    let air = Air::new(config, 1).expect("the radio of this test is valid");
    let pipe = || WiredPipe::new(None, Duration::ZERO, 1000);
    let tap = Box::new(AskOnData { asks, told: Told::default() });
    let mut network =
        CellBuilder::new(air, 1, pipe(), pipe()).tap(NodeId::Station(StationId(0)), tap).build();
    let flow = network.add_flow(toy::key(), StationId(0));
    network.schedule(Instant::ZERO, SEND);
    let hosts = LateAnswers {
        flow,
        after: Duration::from_millis(after),
        sent: 0,
        answered_at: Instant::ZERO,
        delays: Vec::new(),
    };
    let mut engine = Engine::new(network, hosts);
    engine.advance(Instant::from_millis(25_000));
    engine
}

fn longest(engine: &Engine<LateAnswers>) -> Duration {
    engine.hosts().delays.iter().copied().max().expect("answers came")
}

/// Grants, and grants unused, that the station was told of.
fn told(engine: &Engine<LateAnswers>) -> (u64, u64) {
    let metrics = engine.network().taps()[0].mechanism().metrics();
    (metrics.packets, metrics.reports)
}

#[test]
fn a_request_ahead_takes_the_wait_for_a_turn_away() {
    // The request is made when the data comes, and its burst is filled seven frames and 0.1 ms later.
    let (plain, ahead) = (answers(false, 34), answers(true, 34));
    for engine in [&plain, &ahead] {
        assert_eq!(engine.hosts().delays.len(), 100, "each answer comes");
        assert_eq!(engine.network().losses(), Losses::default());
        assert_eq!(engine.network().packets_inside(), 0);
        assert_eq!(told(engine), (100, 0), "one grant for each answer, and none in vain");
    }
    let shortest = plain.hosts().delays.iter().copied().min().expect("answers came");
    assert!(
        shortest >= Duration::from_millis(35) && longest(&plain) < Duration::from_millis(42),
        "{shortest}"
    );
    // What is left: to the next uplink subframe, and that subframe.
    assert!(longest(&ahead) < Duration::from_millis(3), "{}", longest(&ahead));
}

#[test]
fn a_request_too_far_ahead_is_a_grant_in_vain() {
    let (plain, ahead) = (answers(false, 50), answers(true, 50));
    assert_eq!((told(&plain), told(&ahead)), ((100, 0), (200, 100)));
    assert_eq!(ahead.hosts().delays.len(), 100);
    assert!(longest(&ahead) > Duration::from_millis(35), "the answer asks anew");
}
