//! A cell whose primary users are those of a PU log: its silences follow the log, whatever the seed.

mod common;

use std::sync::Arc;

use common::{Driver, at, channel, config, down, ms};
use linkhold_core::link_event::{Cause, LinkEventKind};
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::spectrum::{Band, Occupancy, PuActivity, PuLog};
use linkhold_radio::{
    Air, AirConfig, AirConfigError, Mac, PrimaryUserConfig, SwitchPolicy, Switching, spectrum,
};

fn user(delay: u64) -> PrimaryUserConfig {
    PrimaryUserConfig {
        on_mean: Duration::ZERO,
        off_mean: Duration::ZERO,
        fixed: false,
        detection_delay: ms(delay),
        end_detection_delay: Duration::ZERO,
    }
}

fn occupancy(log: &PuLog, band: u16) -> Arc<Occupancy> {
    Arc::new(Occupancy::of(log, Band::new(band).expect("it is a band's number"), |_| true))
}

fn cell(log: &PuLog, delay: u64) -> AirConfig {
    let mut config = config(Mac::Shared, 1);
    config.channels[0].primary_user = Some(user(delay));
    config.measured_users = vec![Some(occupancy(log, 1))];
    config
}

/// Start, time of being told, and end of each silence for a primary user.
fn silences(driver: &Driver) -> Vec<(Instant, Instant, Instant)> {
    let mut began = None;
    let mut all = Vec::new();
    for event in &driver.links {
        match event.kind {
            LinkEventKind::FreezeStarted { cause: Cause::PrimaryUser, .. } => {
                began = Some((event.effective_at.expect("it is known"), event.detected_at));
            }
            LinkEventKind::FreezeEnded { cause: Cause::PrimaryUser, .. } => {
                let (start, told) = began.take().expect("it began before");
                all.push((start, told, event.effective_at.expect("it is known")));
            }
            _ => {}
        }
    }
    all
}

#[test]
fn the_silences_are_the_logs_intervals_for_every_seed() {
    let activity = PuActivity::new(2.0, 1.0).expect("they are rates");
    let generator = spectrum::Generator {
        bands: vec![activity; 2],
        users_per_band: 2,
        places: spectrum::Places::Random { width: 1000.0, height: 1000.0 },
        power: 1.0,
        duration: Duration::from_secs(60),
    };
    let log = generator.generate(3).expect("all is in range");
    let measured = occupancy(&log, 1);
    for (seed, delay) in [(1, 0), (2, 0), (3, 20)] {
        let mut driver = Driver::new(cell(&log, delay), seed);
        for id in 0..900 {
            driver.put(at(0), down(id, 0));
        }
        driver.run(at(60_000));
        let expected: Vec<_> = (0..)
            .map_while(|index| measured.period(index))
            // A burst that is on at the start was detected long ago; a shorter one than the delay never is,
            // and the run ends with the log.
            .filter(|&(on, off)| on == Instant::ZERO || off.since(on) > ms(delay))
            .filter(|&(_, off)| off < at(60_000))
            .map(|(on, off)| (on, if on == Instant::ZERO { on } else { on + ms(delay) }, off))
            .collect();
        assert!(expected.len() > 15, "{}", expected.len());
        assert_eq!(silences(&driver), expected, "seed {seed}, delay {delay} ms");
        // And nothing is delivered in one.
        for (on, _, off) in expected {
            assert!(!driver.delivered.iter().any(|(at, _)| on < *at && *at <= off));
        }
    }
}

#[test]
fn the_cell_leaves_an_occupied_channel_for_one_that_the_log_leaves_free() {
    let log = PuLog::parse(b"1 0 0 1 1\n2 0 0 2 1\n1 1 3\n2 2 4\n", None).expect("it is a log");
    let mut config = cell(&log, 0);
    config.channels.push(channel());
    config.channels[1].primary_user = Some(user(0));
    config.measured_users.push(Some(occupancy(&log, 2)));
    config.switching = Switching { delay: ms(10), policy: SwitchPolicy::OnPrimaryUser, scripted: Vec::new() };
    let mut driver = Driver::new(config, 1);
    driver.run(at(5000));
    let switches: Vec<Instant> = driver
        .links
        .iter()
        .filter(|event| {
            matches!(event.kind, LinkEventKind::FreezeStarted { cause: Cause::ChannelSwitch, .. })
        })
        .map(|event| event.detected_at)
        .collect();
    // Away from channel 0 at 1 s; at 2 s both are occupied, so it waits on channel 1 for channel 0, free at 3
    // s.
    assert_eq!(switches, [at(1000), at(3000)]);
}

#[test]
fn times_without_a_user_are_refused() {
    let log = PuLog::parse(b"1 0 0 1 1\n1 1 3\n", None).expect("it is a log");
    let mut config = cell(&log, 0);
    config.channels[0].primary_user = None;
    assert_eq!(Air::new(config, 1).err(), Some(AirConfigError::NoSuchUser(0)));
}
