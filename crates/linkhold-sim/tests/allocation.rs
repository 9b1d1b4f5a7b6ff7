//! Once a run has reached its working size, only the samples of its series allocate.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::time::{Duration, Instant};
use linkhold_scenario::{Case, NoFiles, PlacedMechanism, Scenario};
use linkhold_sim::{NoObserver, Simulation};
use linkhold_tcp::Congestion;

/// Counts what the system's allocator is asked for.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes unchanged to the system's allocator, which keeps the contract.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations and events of a run from 20 to 80 s.
fn after_its_first_seconds(case: &Case) -> (u64, u64) {
    let mut observer = NoObserver;
    let mut simulation = Simulation::new(case, 1, &mut observer).expect("the scenario is valid");
    simulation.advance(Instant::from_millis(20_000));
    let (before, events) = (ALLOCATIONS.load(Ordering::Relaxed), simulation.engine().events());
    simulation.advance(Instant::from_millis(80_000));
    (ALLOCATIONS.load(Ordering::Relaxed) - before, simulation.engine().events() - events)
}

// One test, because tests that run side by side would count each other's allocations.
#[test]
fn a_minute_of_traffic_allocates_next_to_nothing_after_its_first_seconds() {
    let dsasync: PlacedMechanism = DsaSyncConfig::default().into();
    for mechanisms in [Vec::new(), vec![dsasync]] {
        let mut scenario =
            common::quarter_silent(Congestion::Cubic, Duration::from_millis(50), Duration::from_secs(80));
        scenario.mechanisms.clone_from(&mechanisms);
        let (allocations, events) = after_its_first_seconds(&common::case("allocation", scenario));
        println!("{mechanisms:?}: {allocations} allocations in {events} events");
        // Sixty samples of the series take a handful each; a rare longer burst lets a queue grow.
        assert!(allocations < 1_500, "{allocations} allocations in {events} events");
        assert!(events > 100_000);
    }
    // Each second of a mesh is a sample and a map, of a dozen nodes here: some forty allocations. Packets and
    // frames take none.
    for (name, text, most) in [
        ("802.15.4", IEEE802154, 1_500),
        ("mechanisms at two places", TWO_PLACES, 1_500),
        ("datagrams, media and pages", SOURCES, 1_500),
        ("802.16", GRANTS, 1_500),
        ("DCF", DCF, 1_500),
        ("mesh", MESH, 3_500),
        ("mesh with a channel each", MESH, 3_500),
    ] {
        let longer = ["duration=\"80s\"".to_owned()];
        let own = ["mesh.spectrum.working_channel=\"own\"".to_owned()];
        let set = match name {
            "mesh with a channel each" => &own[..],
            "mechanisms at two places" => &longer[..],
            _ => &[],
        };
        let scenario = Scenario::parse(text, "s.toml", set, &NoFiles).expect("it is valid");
        let cases = scenario.cases();
        // The scenario's last has most mechanisms.
        let case = cases.last().expect("a scenario has a case");
        let (allocations, events) = after_its_first_seconds(case);
        println!("{name}: {allocations} allocations in {events} events");
        assert!(allocations < most, "{name}: {allocations} allocations in {events} events");
        assert!(events > 20_000, "{name}: {events}");
    }
}

const TWO_PLACES: &str = include_str!("../../../scenarios/two-places.toml");

/// UDP, media over both transports, and users of the web.
const SOURCES: &str = r#"schema = "linkhold.scenario/1"
name = "allocation"
duration = "80s"
[radio]
phy_rate = "24Mbit/s"
primary_user = { on_mean = "100ms", off_mean = "2s" }
[[flows]]
direction = "uplink"
transport = "udp"
source = { rate = "2Mbit/s" }
[[flows]]
direction = "downlink"
transport = "udp"
source = "media"
media = { rate = "1Mbit/s", startup = "1s" }
[[flows]]
direction = "downlink"
source = "media"
media = { rate = "1Mbit/s", startup = "1s" }
[[flows]]
direction = "downlink"
count = 10
source = "web"
web = { reading_time = "1s", connection = "persistent" }
"#;

/// Stations whose ACKs contend, and a primary user that cuts their bursts.
const GRANTS: &str = r#"schema = "linkhold.scenario/1"
name = "allocation"
duration = "80s"
[radio]
mac = "802.16"
phy_rate = "6Mbit/s"
stations = 3
primary_user = { on_mean = "100ms", off_mean = "2s" }
[[flows]]
direction = "downlink"
station = "all"
[[flows]]
direction = "uplink"
station = "all"
"#;

/// A cell of 802.11 whose radios contend, collide and ask with RTS, and a primary user.
const DCF: &str = r#"schema = "linkhold.scenario/1"
name = "allocation"
duration = "80s"
[radio]
mac = "dcf"
phy_rate = "24Mbit/s"
stations = 3
primary_user = { on_mean = "100ms", off_mean = "2s", detection_delay = "20ms" }
dcf = { rts_threshold = "1000B" }
[[flows]]
direction = "downlink"
station = "all"
[[flows]]
direction = "uplink"
station = "all"
"#;

/// Nodes that walk among primary users and carry each other's packets.
const MESH: &str = r#"schema = "linkhold.scenario/1"
name = "allocation"
duration = "80s"
[mesh]
nodes = 12
width = "600m"
height = "600m"
walk = {}
[mesh.spectrum]
users = { alpha = "0.5/s", beta = "0.5/s" }
[tcp]
mss = 1000
[[flows]]
from = "drawn"
to = "drawn"
count = 4
"#;

/// Radios that contend, lose frames and overhear a primary user.
const IEEE802154: &str = r#"schema = "linkhold.scenario/1"
name = "allocation"
duration = "80s"
[radio]
mac = "802.15.4"
stations = 3
primary_user = { on_mean = "100ms", off_mean = "2s" }
[tcp]
profile = "classic"
mss = 94
[[flows]]
direction = "uplink"
station = "all"
[[cases]]
name = "cr"
mechanism = "cr-aware"
"#;
