//! The measured traces beside the project, read in place, against the figures their README states.

mod common;

use std::path::PathBuf;
use std::sync::Arc;

use common::*;
use linkhold_core::time::Instant;
use linkhold_radio::{Mac, Trace, TraceLink};

/// Of `LINKHOLD_DATA`, or of the folder beside the project; `None` (said on standard error) where it is
/// absent.
fn measured(name: &str) -> Option<Arc<Trace>> {
    let folder = std::env::var_os("LINKHOLD_DATA").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = folder.join(name);
    match std::fs::read(&path) {
        Ok(bytes) => Some(Arc::new(Trace::parse(&bytes).expect("a good trace"))),
        Err(error) => {
            linkhold_testing::skipped(format_args!("{}: {error}", path.display()));
            None
        }
    }
}

/// A trace's figures in the README; `None` where it states none.
struct Stated {
    name: &'static str,
    seconds: f64,
    mbps: f64,
    gaps_over_100_ms: usize,
    gaps_over_2_s: Option<usize>,
    longest_s: f64,
    silent_percent: Option<f64>,
}

const STATED: [Stated; 5] = [
    Stated {
        name: "ATT-LTE-driving-2016.down",
        seconds: 120.0,
        mbps: 4.56,
        gaps_over_100_ms: 64,
        gaps_over_2_s: None,
        longest_s: 1.1,
        silent_percent: Some(12.5),
    },
    Stated {
        name: "ATT-LTE-driving-2016.up",
        seconds: 120.0,
        mbps: 1.91,
        gaps_over_100_ms: 85,
        gaps_over_2_s: None,
        longest_s: 4.1,
        silent_percent: Some(20.9),
    },
    Stated {
        name: "Verizon-LTE-short.down",
        seconds: 140.0,
        mbps: 5.03,
        gaps_over_100_ms: 21,
        gaps_over_2_s: None,
        longest_s: 1.4,
        silent_percent: None,
    },
    Stated {
        name: "Verizon-LTE-short.up",
        seconds: 140.0,
        mbps: 5.95,
        gaps_over_100_ms: 15,
        gaps_over_2_s: None,
        longest_s: 1.7,
        silent_percent: None,
    },
    Stated {
        name: "TMobile-UMTS-driving.down",
        seconds: 928.0,
        mbps: 2.02,
        gaps_over_100_ms: 238,
        gaps_over_2_s: Some(10),
        longest_s: 5.8,
        silent_percent: Some(14.2),
    },
];

#[test]
fn traces_have_the_figures_their_readme_states() {
    for stated in STATED {
        let Some(trace) = measured(stated.name) else { continue };
        let name = stated.name;
        let seconds = trace.duration().as_secs_f64();
        assert!((seconds - stated.seconds).abs() < 1.0, "{name}: {seconds} s");
        let mbps = trace.mean_rate().as_bps() as f64 / 1e6;
        assert!((mbps - stated.mbps).abs() < 0.0051, "{name}: {mbps} Mbit/s");
        let gaps = trace.gaps(ms(100));
        assert_eq!(gaps.len(), stated.gaps_over_100_ms, "{name}");
        if let Some(count) = stated.gaps_over_2_s {
            assert_eq!(trace.gaps(ms(2000)).len(), count, "{name}");
        }
        let longest =
            gaps.iter().map(|(start, end)| end - start).max().map_or(0.0, |gap| f64::from(gap) / 1e3);
        assert!((longest - stated.longest_s).abs() < 0.051, "{name}: {longest} s");
        if let Some(percent) = stated.silent_percent {
            let silent = f64::from(gaps.iter().map(|(start, end)| end - start).sum::<u32>()) / 10.0 / seconds;
            assert!((silent - percent).abs() < 0.051, "{name}: {silent} %");
        }
    }
}

#[test]
fn the_air_over_a_measured_trace_delivers_every_opportunity_and_tells_every_gap() {
    let (Some(down), Some(up)) = (measured(STATED[0].name), measured(STATED[1].name)) else { return };
    let lap = Instant::ZERO + down.duration();
    let mac = Mac::Trace(TraceLink {
        down: down.clone(),
        up,
        silence_threshold: ms(100),
        detection_delay: ms(0),
        random_start: false,
    });
    let mut config = config(mac, 1);
    config.router = linkhold_radio::QueueConfig::fifo(100_000);
    let mut driver = Driver::new(config, 1);
    // Full packets before the first opportunity: one each.
    driver.run(Instant::ZERO);
    let first = u64::from(down.opportunities());
    for id in 0..first {
        driver.put(Instant::ZERO, down_frame(id));
    }
    driver.run(lap);
    let accounting = driver.air.accounting(lap);
    assert!((accounting.silent_fraction() - 0.125).abs() < 0.0005, "{}", accounting.silent_fraction());
    // The README's opportunities at stamp 0 had passed when the frames came.
    let at_zero = driver.air.frames_inside();
    assert_eq!(driver.delivered.len() as u64, first - at_zero);
    assert!(at_zero < 10, "{at_zero}");
    assert!((accounting.capacity_mean().as_bps() as f64 / 4.56e6 - 1.0).abs() < 0.01);
    let mut silences = Vec::new();
    driver.air.take_silences(&mut silences);
    assert_eq!(silences.len(), 64);
    assert!(
        driver
            .delivered
            .iter()
            .all(|(at, _)| { !silences.iter().any(|silence| silence.start < *at && *at < silence.end) })
    );
}

fn down_frame(id: u64) -> linkhold_radio::Frame {
    down(id, 0)
}
