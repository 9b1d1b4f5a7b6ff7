//! The rate that nobody tells, measured over recorded links: against what the recording says that the link
//! carried.
//!
//! The aim stood in issue 12 before anything was measured: on Verizon's link half of the estimates within
//! 5 % of the truth, nine in ten within 15 % ([`AIM`]). What is printed is what there is (docs/traces.md
//! has it); the bounds below, at most a fifth above what was measured at f5309680, only keep it from becoming
//! worse. Where the radio ran dry nobody can see what it would have carried, but the recording says so,
//! and therefore the errors are told a second time for the looks before which it was busy ([`USED`]). On
//! a link whose rate doubles within half a second, 500 ms of it measured some milliseconds sooner or
//! later differ by a tenth. An estimate is looked at every 100 ms outside silences. It is a mean over 500
//! ms, silences left out, and speaks of what was acknowledged; so the truth is what the recording offered
//! in the latest 500 ms outside silences, as payload, up to 10 ms ago: about the time that an ACK takes
//! to come up.

mod common;

use std::path::{Path, PathBuf};

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_radio::{FqCodelConfig, QueueConfig, QueueKind, Silence, Trace};
use linkhold_scenario::{Case, FlowGroup, Scenario};
use linkhold_sim::slab::Packet;
use linkhold_sim::{Observer, SeenAt, Simulation, run_case};
use linkhold_tcp::{Congestion, TcpConfig};

/// Payload of a full segment with timestamps, which one opportunity carries.
const PAYLOAD: f64 = 1448.0;

/// Folder of the recordings; `None`: they are not on this machine.
fn recordings() -> Option<PathBuf> {
    let named = std::env::var_os("LINKHOLD_DATA").map(PathBuf::from);
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let installed = PathBuf::from("/work/shared/data");
    let mut folders = [named, Some(beside), Some(installed)].into_iter().flatten();
    folders.find(|folder| folder.join("Verizon-LTE-short.down").exists())
}

/// By millisecond of the recording: payload bytes offered, or `None` in a silence.
fn offered(trace: &Trace, threshold: Duration) -> Vec<Option<f64>> {
    let length = trace.duration().as_millis();
    let count = |ms: u64, included| trace.opportunities_until(Instant::from_millis(ms), included);
    let mut offered: Vec<Option<f64>> =
        (0..length).map(|ms| Some((count(ms + 1, true) - count(ms, true)) as f64 * PAYLOAD)).collect();
    for (start, end) in trace.gaps(threshold) {
        offered[start as usize..end as usize].fill(None);
    }
    offered
}

/// The cases of a scenario of ours with these settings.
fn cases(scenario: &str, settings: &[String]) -> Vec<Case> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(scenario);
    Scenario::load(&file, settings).expect("the scenario is valid").cases()
}

/// The case `dsasync` over this recording.
fn recorded(folder: &Path, name: &str, set: &[&str]) -> Case {
    let of = |end: &str| format!("radio.trace.{end}={}", folder.join(format!("{name}.{end}")).display());
    let mut settings = vec![of("down"), of("up")];
    settings.extend(set.iter().map(|&set| set.to_owned()));
    dsasync_over_traces(&settings)
}

/// The case `dsasync` of the scenario of recordings, with these settings.
fn dsasync_over_traces(settings: &[String]) -> Case {
    let mut cases = cases("traces.toml", settings).into_iter();
    cases.find(|case| case.name == "dsasync").expect("the scenario has the case")
}

/// Aim for the error in the median and at the 90th percentile, over all looks, on Verizon's link.
const AIM: [f64; 2] = [0.05, 0.15];

/// The radio counts as busy before a look if so much of what was offered was used.
const USED: f64 = 0.95;

/// Counts the payload that reaches the station, by millisecond.
#[derive(Default)]
struct Received {
    by_ms: Vec<f64>,
}

impl Observer for Received {
    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, now: Instant, seen_at: SeenAt, _flow: &FlowKey, packet: &Packet) {
        let ms = now.since(Instant::ZERO).as_millis() as usize;
        if seen_at == SeenAt::Station && packet.sent_at < now {
            self.by_ms.resize(self.by_ms.len().max(ms + 1), 0.0);
            self.by_ms[ms] += f64::from(packet.segment.payload_len);
        }
    }
}

/// One look at the estimate.
struct Look {
    /// Estimate over truth, less one.
    error: f64,
    /// Share of what was offered that was used.
    used: f64,
}

/// The looks at the estimate in one run: a download over the recording `down`, whose ACKs go up over `up`.
fn looks(folder: &Path, down: &str, up: &str, dry_share: &str) -> Vec<Look> {
    let of = |way: &str, name: &str| format!("radio.trace.{way}={}", folder.join(name).display());
    let set = ["radio.trace.random_start=false".to_owned(), "duration=118s".to_owned()];
    let mut settings = vec![of("down", down), of("up", up), format!("dsasync.dry_share={dry_share}")];
    settings.extend(set);
    let case = dsasync_over_traces(&settings);
    let recording = std::fs::read(folder.join(down)).expect("readable");
    let offered = offered(&Trace::parse(&recording).expect("a trace"), Duration::from_millis(100));
    let mut received = Received::default();
    let mut looks = Vec::new();
    let mut rates = Vec::new();
    let mut run = Simulation::new(&case, 1, &mut received).expect("it can run");
    for ms in (5_000..118_000usize).step_by(100) {
        run.advance(Instant::from_millis(ms as u64));
        rates.push((
            ms - 10,
            run.engine().network().taps()[0].mechanism().metrics().measured_rate as f64 / 8e3,
        ));
    }
    drop(run);
    for (until, rate) in rates {
        if offered[until].is_none() {
            continue;
        }
        let counted: Vec<(f64, usize)> =
            (0..until).rev().filter_map(|ms| Some((offered[ms]?, ms))).take(500).collect();
        let truth: f64 = counted.iter().map(|(bytes, _)| bytes).sum();
        let passed: f64 = counted.iter().filter_map(|&(_, ms)| received.by_ms.get(ms)).sum();
        looks.push(Look { error: rate * counted.len() as f64 / truth - 1.0, used: passed / truth });
    }
    looks
}

/// Median and 90th percentile of the errors.
fn errors(looks: &[Look], is_counted: impl Fn(&Look) -> bool) -> ([f64; 2], usize) {
    let mut errors: Vec<f64> =
        looks.iter().filter(|look| is_counted(look)).map(|look| look.error.abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors.get((errors.len() as f64 * share) as usize).copied().unwrap_or(f64::NAN);
    ([at(0.5), at(0.9)], errors.len())
}

#[test]
fn the_rate_that_nobody_tells_is_found() {
    let Some(folder) = recordings() else {
        linkhold_testing::skipped("no recordings; set LINKHOLD_DATA to their folder");
        return;
    };
    let mut failures = Vec::new();
    // (down, up, bounds for the error in the median and at the 90th percentile, and at that where the radio
    // was busy). AT&T's radio is busy before 5 % more of the looks since losses of one silence are left to
    // copies when another follows: of those, a tenth are off by 0.152, where the aim is 0.15. Over all looks
    // the error became smaller (0.72 to 0.69 over five round trips).
    let rows = [
        ("Verizon-LTE-short.down", "Verizon-LTE-short.up", 0.065, 0.36, AIM[1]),
        ("Verizon-LTE-short.up", "Verizon-LTE-short.down", 0.085, 0.40, AIM[1]),
        ("ATT-LTE-driving-2016.down", "ATT-LTE-driving-2016.up", 0.22, 0.88, 0.16),
        ("TMobile-UMTS-driving.down", "Verizon-LTE-short.up", 0.045, 0.53, AIM[1]),
    ];
    for (down, up, median, most, most_busy) in rows {
        for dry_share in ["0.1", "0.02"] {
            let looks = looks(&folder, down, up, dry_share);
            let (all, count) = errors(&looks, |_| true);
            let (busy, used) = errors(&looks, |look| look.used >= USED);
            let met = if all[0] <= AIM[0] && all[1] <= AIM[1] { "met" } else { "missed" };
            println!(
                "{down}, dry {dry_share}: median {:.3}, p90 {:.3} of {count}, {met}; busy: {:.3}, {:.3} of {used}",
                all[0], all[1], busy[0], busy[1]
            );
            if all[0] > median || all[1] > most {
                failures.push(format!("{down}, dry {dry_share}: {all:.3?}"));
            }
            // Where the radio was busy the aim is met, or nearly.
            if busy[0] > AIM[0] || busy[1] > most_busy || used < 150 {
                failures.push(format!("{down}, dry {dry_share}, busy: {busy:.3?} of {used}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Plan: one bulk flow each way in turn over 24 Mb/s whose rate nobody tells, 100 ms, deep queues, 30 s.
/// Check: the mechanism carries what the deep queues carry, at a fraction of their delay.
#[test]
fn a_steady_radio_whose_rate_nobody_tells_is_full_without_a_queue_both_ways() {
    for direction in [Direction::Downlink, Direction::Uplink] {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let mut scenario = common::clean(tcp, Duration::from_millis(100), Duration::from_secs(40));
        scenario.warm_up = Duration::from_secs(10);
        scenario.radio.rate_told = false;
        scenario.router_visible = false;
        scenario.flows = vec![common::bulk(direction)];
        scenario.radio.router = linkhold_radio::QueueConfig::fifo(1000);
        let mut told = Vec::new();
        for mechanisms in [vec![], vec![DsaSyncConfig::default().into()]] {
            scenario.mechanisms = mechanisms;
            let (record, _) = run_case(&common::case("case", scenario.clone()), 1).expect("it is valid");
            told.push((record.totals.limit_share, record.flows[0].queueing_delay_p95_s));
        }
        let [(plain, plain_delay), (share, delay)] = told[..] else { unreachable!("two cases") };
        println!("{direction:?}: {plain:.3} at {plain_delay:.3} s, with dsasync {share:.3} at {delay:.3} s");
        assert!(share >= 0.97 * plain, "{direction:?}: {share} of {plain}");
        assert!(delay <= 0.03 && delay <= 0.25 * plain_delay, "{direction:?}: {delay} s of {plain_delay} s");
    }
}

/// By how much less than the second minute the last one may have: of goodput, and of the estimate. Fixed
/// before anything was measured.
const MOST_LOST: f64 = 0.05;

/// Time on air by millisecond: `None` in a silence.
#[derive(Default)]
struct Air {
    received: Received,
    silences: Vec<Silence>,
}

impl Observer for Air {
    fn wants_packets(&self) -> bool {
        true
    }

    fn on_packet(&mut self, now: Instant, tap: SeenAt, flow: &FlowKey, packet: &Packet) {
        self.received.on_packet(now, tap, flow, packet);
    }

    fn on_silence(&mut self, silence: &Silence) {
        self.silences.push(*silence);
    }
}

/// Plan: ten minutes of downloads over 4 Mb/s whose rate nobody tells, bursts of 0.3 s a fifth of the time,
/// told 20 ms late; 50 ms, over fq_codel; one flow of cubic, one of reno, and six of cubic.
/// Check: the last minute's goodput and estimate, for each second on air, are not below the second minute's
/// by more than [`MOST_LOST`]. An estimate that lowers what is let down, and so itself, would sink on.
#[test]
fn the_estimate_does_not_sink_in_ten_minutes() {
    const MINUTES: usize = 10;
    let mut failures = Vec::new();
    for (congestion, count) in [(Congestion::Cubic, 1), (Congestion::Reno, 1), (Congestion::Cubic, 6)] {
        let tcp = TcpConfig::linux(congestion);
        let mut scenario =
            common::clean(tcp, Duration::from_millis(50), Duration::from_secs(60 * MINUTES as u64));
        scenario.radio.channels[0].phy_rate = BitRate::from_mbps(4);
        scenario.radio.channels[0].primary_user = Some(common::bursts(300, 1200, Duration::from_millis(20)));
        scenario.radio.rate_told = false;
        scenario.router_visible = false;
        let queue = QueueConfig::fifo(100);
        scenario.radio.router = QueueConfig { kind: QueueKind::FqCodel(FqCodelConfig::default()), ..queue };
        scenario.flows = vec![FlowGroup { count, ..common::bulk(Direction::Downlink) }];
        scenario.mechanisms = vec![DsaSyncConfig::default().into()];
        let case = common::case("ten minutes", scenario);
        let mut air = Air::default();
        let mut estimates = [(0.0, 0); MINUTES];
        let mut run = Simulation::new(&case, 1, &mut air).expect("it can run");
        for tenth in 1..=600 * MINUTES as u64 {
            run.advance(Instant::from_millis(tenth * 100));
            let rate = run.engine().network().taps()[0].mechanism().metrics().measured_rate;
            let (sum, looks) = &mut estimates[((tenth - 1) / 600) as usize];
            *sum += rate as f64;
            *looks += 1;
        }
        drop(run);
        let minute = |number: usize| {
            let [from, to] = [number, number + 1].map(|minute| Instant::from_millis(60_000 * minute as u64));
            let silent = |silence: &Silence| silence.end.min(to).since(silence.start.max(from)).as_secs_f64();
            let of_it = air.silences.iter().filter(|silence| silence.end > from && silence.start < to);
            let on_air = 60.0 - of_it.map(silent).sum::<f64>();
            let bytes: f64 = air.received.by_ms.iter().skip(number * 60_000).take(60_000).sum();
            let (sum, looks) = estimates[number];
            [bytes * 8.0 / on_air, sum / looks as f64]
        };
        let [second, last] = [minute(1), minute(MINUTES - 1)];
        println!(
            "{congestion:?}, {count}: goodput on air and estimate, bit/s: {second:.0?}, at the end {last:.0?}"
        );
        for (what, second, last) in [("goodput", second[0], last[0]), ("estimate", second[1], last[1])] {
            // Of 4 Mb/s: what has sunk in the first minute sinks no further.
            if last < (1.0 - MOST_LOST) * second || second < 2.8e6 {
                failures.push(format!("{congestion:?}, {count}: {what} {second:.0}, at the end {last:.0}"));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Plan: one download with Reno over a radio whose rate nobody tells, on which bursts fall into the first
/// slow start (seed 10: two of them in the first two seconds).
/// Check: what was held goes down as fast as the radio takes it, the rate is found, and the window with it.
/// When the time before a connection's first ACK counted as the radio's, held packets left 10 ms apart, the
/// rate was found after 3.4 s, and what the sender had let go by then waited for 0.67 s.
#[test]
fn bursts_in_the_first_slow_start_leave_no_queue() {
    let settings = ["radio.rate_told=false".to_owned(), "tcp.congestion=reno".to_owned()];
    let cases = cases("lateness.toml", &settings);
    for seed in 8..=12 {
        for case in cases.iter().filter(|case| case.name.starts_with("dsasync")) {
            let (record, _) = run_case(case, seed).expect("it can run");
            let (name, share) = (&case.name, record.totals.limit_share);
            let delay = record.totals.delay_p99_outside_silence_s;
            println!(
                "{name}, seed {seed}: {share:.4} of the limit, p99 outside silences {:.1} ms",
                delay * 1e3
            );
            // A wired way of 50 ms, the radio's 2, and a standing queue of 30 at most.
            assert!(share >= 0.99 && delay <= 0.082, "{name}, seed {seed}: {share}, {delay} s");
        }
    }
}

/// Plan: uploads over a recorded link, entered at different places, so that the handshake takes 20 to 150 ms.
/// Check: the local round trip is found all the same, and the queue at the station is as short. By the
/// handshake alone, the 95th percentile of its wait was between 50 and 150 ms.
#[test]
fn an_upload_is_not_judged_by_its_handshake() {
    let Some(folder) = recordings() else {
        linkhold_testing::skipped("no recordings; set LINKHOLD_DATA to their folder");
        return;
    };
    let case = recorded(&folder, "Verizon-LTE-short", &["flows.0.direction=uplink", "duration=60s"]);
    for seed in 1..=6 {
        let (record, _) = run_case(&case, seed).expect("it can run");
        let (share, delay) = (record.totals.limit_share, record.flows[0].queueing_delay_p95_s);
        println!("seed {seed}: {share:.3} of the limit, p95 of queueing {:.0} ms", delay * 1e3);
        assert!(share >= 0.9 && delay <= 0.1, "seed {seed}: {share}, {delay} s");
    }
}

/// Downloads of one station over fq_codel, rate untold, bursts told 20 ms late, 100 ms: what lies below stays
/// short, so CoDel hardly drops (2 to 6 packets in 20 s, means of ten seeds), and so does what waits here.
/// Before, time until a hole was filled counted as the radio's: CoDel dropped 75 to 160 packets in 20 s, the
/// goodput was 0.93 to 0.97, and the delay 115 to 128 ms at the 99th percentile.
#[test]
fn several_downloads_of_one_station_have_a_short_queue_below() {
    const SEEDS: u64 = 10;
    let mut failures = Vec::new();
    for (count, least) in [(2, 0.98), (4, 0.98), (8, 0.98), (16, 0.95)] {
        let settings = [
            "radio.rate_told=false".to_owned(),
            "radio.primary_user.detection_delay=20ms".to_owned(),
            format!("flows.0.count={count}"),
        ];
        let cases = cases("lateness.toml", &settings);
        let means = |name: &str| {
            let case = cases.iter().find(|case| case.name == name).expect("the scenario has the case");
            let mut sums = [0.0; 3];
            for seed in 1..=SEEDS {
                let run = run_case(case, seed).expect("it can run").0;

                let (totals, drops) = (run.totals, run.link.queue_drops as f64);
                let of_run = [totals.limit_share, totals.delay_p99_outside_silence_s * 1e3, drops];
                for (sum, value) in sums.iter_mut().zip(of_run) {
                    *sum += value / SEEDS as f64;
                }
            }
            sums
        };
        let ([share, p99, drops], [_, alone, _]) = (means("dsasync-fq_codel"), means("fq_codel"));
        let told =
            format!("{count}: {share:.3}, {drops:.0} drops, p99 {p99:.0} ms ({alone:.0} without agent)");
        println!("{told}");
        if share < least || drops > 10.0 || p99 > alone + 25.0 {
            failures.push(told);
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
