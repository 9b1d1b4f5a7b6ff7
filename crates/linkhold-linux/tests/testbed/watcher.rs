//! A mechanism that only watches, in a station's radio, under a kernel's own TCP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration as StdDuration;

use libtest_mimic::Completion;
use linkhold_core::action::{Action, Actions, Rewrite, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::{Direction, PacketView, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Bytes;
use linkhold_linux::testbed::ether::{self, EtherParts};
use linkhold_linux::testbed::flowlog::FlowLog;
use linkhold_linux::testbed::link::DaemonLink;
use linkhold_linux::testbed::topology::{Family, Topology, ch_address};
use linkhold_radio::WiredPipe;
use linkhold_scenario::Scenario;
use linkhold_sim::CellBuilder;
use linkhold_sim::path::NodeId;

use crate::{Answer, ensure, nothing_is_left};

const RADIO: &str = r#"
schema = "linkhold.scenario/1"
name = "watched"
duration = "20s"
[radio]
phy_rate = "24Mbit/s"
[[radio.station_sensing]]
station = 0
period = "200ms"
duration = "20ms"
[[flows]]
direction = "downlink"
"#;

/// Asks for an uplink turn for each downlink segment with data, as look-ahead does.
#[derive(Default)]
struct AskAhead {
    metrics: Metrics,
}

impl Mechanism for AskAhead {
    fn name(&self) -> &'static str {
        "ask-ahead"
    }

    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        if packet.direction == Direction::Downlink && packet.tcp.payload_len > 0 {
            self.metrics.uplink_requests += 1;
            out.push(Action::RequestUplink { station: packet.station, bytes: Bytes(40) });
        }
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, _now: Instant, event: LinkEvent, _out: &mut Actions) {
        if let LinkEventKind::FreezeStarted { .. } = event.kind {
            self.metrics.silences += 1;
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
        self.metrics
    }
}

/// Bytes each way.
const BYTES: usize = 1_000_000;

fn pattern() -> Vec<u8> {
    (0..BYTES).map(|index| (index % 251) as u8).collect()
}

/// The correspondent sends the pattern and gets it back.
fn echo(listener: &TcpListener) -> std::io::Result<bool> {
    let mut stream = linkhold_testing::accept(listener)?;
    stream.set_read_timeout(Some(StdDuration::from_secs(10)))?;
    stream.write_all(&pattern())?;
    let mut back = vec![0; BYTES];
    stream.read_exact(&mut back)?;
    Ok(back == pattern())
}

pub fn stands_beside_a_kernel() -> Answer {
    let scenario = Scenario::from_toml(RADIO, "test.toml", &[])?.cases()[0].scenario.clone();
    let pipe = || WiredPipe::new(None, Duration::from_millis(5), 1000);
    let air = linkhold_sim::build::air(&scenario, 1)?;
    let station = NodeId::Station(StationId(0));
    let (network, wire) =
        CellBuilder::new(air, 1, pipe(), pipe()).tap(station, Box::new(AskAhead::default())).build_open();
    let Topology { ch, wan, bs, stations, tuns } = Topology::build(1)?;
    let warm_up = Instant::ZERO;
    let parts = EtherParts {
        network,
        wire,
        tuns,
        log: FlowLog::new(warm_up, Duration::from_secs(1)),
        warm_up,
        sink: Box::new(Vec::<DaemonLink>::new()),
        capture: None,
        began: std::time::Instant::now(),
    };
    let stop = Arc::new(AtomicBool::new(false));
    let ended = stop.clone();
    let engine = std::thread::spawn(move || ether::run(parts, Instant::from_millis(20_000), &ended));
    let server = SocketAddr::new(ch_address(Family::V4), 7100);
    let listener = ch.enter(|| TcpListener::bind(server))??;
    let intact = std::thread::scope(|scope| {
        let correspondent = scope.spawn(|| echo(&listener));
        let transfer = stations[0].enter(|| -> std::io::Result<()> {
            let mut stream = TcpStream::connect_timeout(&server, StdDuration::from_secs(10))?;
            stream.set_read_timeout(Some(StdDuration::from_secs(10)))?;
            let mut bytes = vec![0; BYTES];
            stream.read_exact(&mut bytes)?;
            stream.write_all(&bytes)
        });
        transfer.map(|sent| sent.and_then(|()| correspondent.join().expect("no panic")))
    });
    stop.store(true, Ordering::Relaxed);
    let (report, tuns) = engine.join().expect("no panic")?;
    drop((tuns, wan, bs, ch, stations));
    nothing_is_left()?;
    ensure(intact??, "the bytes came back changed")?;
    let metrics = report.network.taps()[0].mechanism().metrics();
    let delivered =
        report.log.flows().iter().map(|flow| flow.track(Direction::Downlink).delivered()).sum::<u64>();
    ensure(delivered == BYTES as u64, format!("{delivered} bytes down"))?;
    // A megabyte takes at least 685 segments of 1460 bytes each way, and the answers.
    let segments = BYTES as u64 / 1460;
    ensure(metrics.uplink_requests >= segments, format!("{metrics:?}"))?;
    ensure(metrics.packets >= 2 * segments && metrics.silences >= 3, format!("{metrics:?}"))?;
    Ok(Completion::Completed)
}
