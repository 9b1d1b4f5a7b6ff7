//! Once a run has reached its working size, only the samples of its series allocate.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::time::{Duration, Instant};
use linkhold_scenario::PlacedMechanism;
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

#[test]
fn a_minute_of_traffic_allocates_next_to_nothing_after_its_first_seconds() {
    let dsasync: PlacedMechanism = DsaSyncConfig::default().into();
    for mechanisms in [Vec::new(), vec![dsasync]] {
        let mut scenario =
            common::quarter_silent(Congestion::Cubic, Duration::from_millis(50), Duration::from_secs(80));
        scenario.mechanisms.clone_from(&mechanisms);
        let case = common::case("allocation", scenario);
        let mut observer = NoObserver;
        let mut simulation = Simulation::new(&case, 1, &mut observer).expect("the scenario is valid");
        simulation.advance(Instant::from_millis(20_000));
        let (before, events) = (ALLOCATIONS.load(Ordering::Relaxed), simulation.engine().events());
        simulation.advance(Instant::from_millis(80_000));
        let allocations = ALLOCATIONS.load(Ordering::Relaxed) - before;
        let events = simulation.engine().events() - events;
        println!("{mechanisms:?}: {allocations} allocations in {events} events");
        // Sixty samples of the series take a handful each; a rare longer burst lets a queue grow.
        assert!(allocations < 1_500, "{allocations} allocations in {events} events");
        assert!(events > 100_000);
    }
}
