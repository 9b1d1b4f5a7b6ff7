//! Measured occupancy drives what drawn ON and OFF times did: a cell under a PU log, with and without
//! dsasync.

mod common;

use std::sync::Arc;

use linkhold_core::dsasync::DsaSyncConfig;
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::spectrum::{Band, Generator, Occupancy, Places, PuActivity};
use linkhold_sim::run_case;
use linkhold_tcp::Congestion;

/// Plan: one downlink bulk flow, CUBIC, 100 ms round trip, 30 s of 24 Mb/s under a log of one user that is on
/// for 0.2 s and off for 0.8 s on average; two seeds. Check: the silences are the log's with either seed and
/// case, and dsasync has 97 % of the limit, as with drawn times.
#[test]
fn a_log_silences_the_cell_alike_for_every_seed_and_dsasync_keeps_97_percent_of_the_limit() {
    let duration = Duration::from_secs(30);
    let generator = Generator {
        bands: vec![PuActivity::new(5.0, 1.25).expect("they are rates")],
        users_per_band: 1,
        places: Places::Random { width: 1000.0, height: 1000.0 },
        power: 1.0,
        duration,
    };
    let log = generator.generate(4).expect("all is in range");
    let measured = Arc::new(Occupancy::of(&log, Band::new(1).expect("it is a band"), |_| true));
    let on = measured.on_time(Instant::ZERO + duration).as_secs_f64() / duration.as_secs_f64();
    let mut shares = Vec::new();
    for mechanisms in [Vec::new(), vec![DsaSyncConfig::default().into()]] {
        for seed in [1, 2] {
            let mut scenario =
                common::quarter_silent(Congestion::Cubic, Duration::from_millis(100), duration);
            scenario.radio.sensing = None;
            scenario.radio.measured_users = vec![Some(measured.clone())];
            scenario.mechanisms.clone_from(&mechanisms);
            let (record, _) = run_case(&common::case("log", scenario), seed).expect("the scenario is valid");
            let link = &record.link;
            assert!((link.silent_fraction - on).abs() < 1e-3, "{} and {on}", link.silent_fraction);
            assert_eq!(link.silences, measured.periods() as u64, "seed {seed}");
            shares.push(record.totals.limit_share);
        }
    }
    println!("share of the limit: {shares:.4?}");
    let [plain, _, dsasync, other_seed] = shares[..] else { panic!("four runs") };
    assert!(dsasync >= 0.97 && other_seed >= 0.97, "{shares:?}");
    assert!(dsasync > plain + 0.05, "{shares:?}");
}
