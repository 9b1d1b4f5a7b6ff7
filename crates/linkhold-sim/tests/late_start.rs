//! An agent that starts on a busy router: downloads are under way, and what fills the queue below was never
//! seen.
//!
//! Plan: bulk downloads over a FIFO of 1000 packets and 24 Mbit/s, that is 0.5 s of queue; `dsasync` begins
//! after 6 s and is told nothing. Nothing says how long the radio takes with nothing queued, and of these
//! connections no window scale is known. Check, fixed before measuring: from 10 s after the start on, the
//! goodput is at least 0.95 of the limit, and the 99th percentile of the delay at most 60 ms beyond the
//! path's own, as of an agent that was there from the beginning (`tails.rs`); a download that begins after
//! the agent fares as well. The downloads that were there before miss it over 100 ms: no window holds them
//! down, and what they let wait is cut only after a round trip (`codel.rs`), so that they have 94 to 142 ms.
//! Asked of them is a round trip more. Without what `round_trip/radio.rs` does about it the queue below
//! stood for as long as the downloads lasted.

mod common;

use linkhold_core::action::{Actions, Report, Rewrite, Verdict};
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::link_event::LinkEvent;
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::{DatagramView, PacketView};
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::QueueConfig;
use linkhold_results::FlowRecord;
use linkhold_scenario::{ResolvedScenario, Scenario};
use linkhold_sim::path::NodeId;
use linkhold_tcp::{Congestion, TcpConfig};

const START: Instant = Instant::from_millis(6000);
/// From when on it is judged.
const JUDGED: Duration = Duration::from_secs(16);
const END: Instant = Instant::from_millis(30_000);

/// `DSASync` that is not there before its time.
struct Late {
    inner: DsaSync,
    from: Instant,
}

impl Late {
    fn new(from: Instant) -> Self {
        Self { inner: DsaSync::new(&DsaSyncConfig::default()).expect("valid"), from }
    }
}

impl Mechanism for Late {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        if now < self.from {
            return Verdict::Forward(Rewrite::NONE);
        }
        self.inner.on_packet(now, packet, out)
    }

    fn on_datagram(&mut self, now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        if now < self.from {
            return Verdict::Forward(Rewrite::NONE);
        }
        self.inner.on_datagram(now, datagram, out)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        self.inner.on_link(now, event, out);
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        self.inner.on_timeout(now, out);
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        self.inner.on_report(now, report, out)
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
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

/// So many downloads from the beginning, and one that begins 2 s after the agent.
fn scenario(rtt_ms: u64, flows: u32, stations: u32, congestion: Congestion) -> ResolvedScenario {
    let mut scenario =
        common::clean(TcpConfig::linux(congestion), Duration::from_millis(rtt_ms), END.since(Instant::ZERO));
    scenario.warm_up = JUDGED;
    scenario.radio.stations = stations;
    scenario.radio.rate_told = false;
    scenario.radio.router = QueueConfig::fifo(1000);
    scenario.router_visible = false;
    scenario.flows[0].stations = (0..stations).collect();
    scenario.flows[0].count = flows / stations;
    let mut second = common::bulk(linkhold_core::packet::Direction::Downlink);
    second.start = START + Duration::from_secs(2);
    scenario.flows.push(second);
    scenario
}

/// All flows, and the limit in bit/s, with an agent that begins at `from`.
fn run(scenario: &ResolvedScenario, from: Instant) -> (Vec<FlowRecord>, f64) {
    let late = Box::new(Late::new(from));
    let (flows, link, _) = common::run_tapped(scenario, 1, NodeId::BaseStation, late, END);
    (flows, link.goodput_limit_bps)
}

fn is_as_good_as_from_the_start(rtt_ms: u64, flows: u32, stations: u32, congestion: Congestion) {
    let scenario = scenario(rtt_ms, flows, stations, congestion);
    let judge = |from: Instant| {
        let (flows, limit) = run(&scenario, from);
        let share = flows.iter().map(|flow| flow.goodput_bps).sum::<f64>() / limit;
        let beyond = |flow: &FlowRecord| flow.delay_p99_s * 1e3 - rtt_ms as f64 / 2.0;
        let old = flows.iter().take(flows.len() - 1).map(beyond).fold(0.0, f64::max);
        let new = flows.last().map_or(f64::NAN, beyond);
        let part = flows.last().map_or(f64::NAN, |flow| flow.goodput_bps * flows.len() as f64 / limit);
        (share, old, new, part)
    };
    let what = format!("{rtt_ms} ms, {flows} of {stations} stations, {congestion:?}");
    for (name, from) in [("from the start", Instant::ZERO), ("late", START)] {
        let (share, old, new, part) = judge(from);
        println!(
            "{what}, {name}: {share:.3} of the limit, p99 {old:.0} ms beyond, the new one {new:.0} ms and {part:.2} of its part"
        );
        assert!(share >= 0.95, "{what}, {name}: {share:.3} of the limit");
        // What no window holds down waits for a round trip before it is cut.
        let most_old = if from == START { 60.0 + rtt_ms as f64 } else { 60.0 };
        assert!(
            old <= most_old && new <= 60.0,
            "{what}, {name}: {old:.0} and {new:.0} ms beyond the path's own"
        );
    }
}

#[test]
fn one_download() {
    for rtt_ms in [3, 20, 100] {
        for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr] {
            is_as_good_as_from_the_start(rtt_ms, 1, 1, congestion);
        }
    }
}

/// Datagrams that flow before the first connection, and fill a third of the radio: the radio is never found
/// empty, and no time of it is guessed down for that.
#[test]
fn a_stream_of_datagrams_is_no_queue_that_nobody_saw() {
    for rtt_ms in [20, 100] {
        let text = format!(
            "schema = \"linkhold.scenario/1\"\nname = \"stream\"\nduration = \"30s\"\nwarm_up = \"16s\"\n\
             [wired]\nrate = \"1Gbit/s\"\nrtt = \"{rtt_ms}ms\"\n[radio]\nmac = \"duplex\"\nphy_rate = \"24Mbit/s\"\n\
             mac_efficiency = 1.0\n[router]\nlimit = \"1000pkt\"\nvisible = false\n\
             [[flows]]\ndirection = \"downlink\"\ntransport = \"udp\"\nsource = {{ rate = \"8Mbit/s\" }}\n\
             [[flows]]\ndirection = \"downlink\"\nstart = \"2s\"\n"
        );
        let parsed = Scenario::from_toml(&text, "s.toml", &[]).unwrap_or_else(|error| panic!("{error}"));
        for (name, from) in [("from the start", Instant::ZERO), ("late", START)] {
            let (flows, limit) = run(&parsed.cases()[0].scenario, from);
            let share = flows.iter().map(|flow| flow.goodput_bps).sum::<f64>() / limit;
            println!("{rtt_ms} ms beside datagrams, {name}: {share:.3} of the limit");
            assert!(share >= 0.95, "{rtt_ms} ms, {name}: {share:.3} of the limit");
        }
    }
}

#[test]
fn several_downloads() {
    for (flows, stations) in [(4, 1), (4, 2), (12, 6)] {
        for rtt_ms in [20, 100] {
            is_as_good_as_from_the_start(rtt_ms, flows, stations, Congestion::Cubic);
        }
    }
}
