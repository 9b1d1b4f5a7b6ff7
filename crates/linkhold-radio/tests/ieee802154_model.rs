//! Throughput of unslotted CSMA-CA against a published analytical model.
//!
//! C. Buratti and R. Verdone, "Performance Analysis of IEEE 802.15.4 Non Beacon-Enabled Mode", IEEE
//! Transactions on Vehicular Technology 58(7), 2009: a sink asks, and N stations that hear the question at
//! the same time answer with a frame each, without acknowledgment. Time goes in backoff periods of 320 us; a
//! frame takes D of them. A look at the medium fills a whole period there (`after_busy` 192 us here).
//! Of that paper only the abstract was read, so nobody has checked that the equations below are its own.
//!
//! The default is the standard's CCA, which takes 8 of a period's 20 symbols, and the next backoff may begin
//! at once (`after_busy` 0). It passes less than the model where stations meet; how much less is measured
//! here, and no source gives it.
//!
//! The model, slot by slot, for one station among N:
//! ```text
//! S(j)  chance that it looks in slot j; where it finds the medium busy, it goes on to backoff stage i + 1
//! T(j)  chance that one of the others starts a frame in slot j = F(j-1) (1 - (1 - S(j-1))^(N-1))
//! F(j)  chance that it finds the medium free in slot j = 1 - T(j) - T(j-1) - ... - T(j-D+1)
//! p     chance that its frame arrives = sum over j of F(j) S(j) (1 - S(j))^(N-1)
//! ```
//! Throughput is N p frames a question.

mod common;

use common::*;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Fraction;
use linkhold_radio::{Frame, Ieee802154Config, Mac};

/// Backoffs are uniform over so many values, by stage: macMinBE 3, macMaxBE 5, macMaxCSMABackoffs 4.
const WINDOWS: [usize; 5] = [8, 16, 32, 32, 32];
/// All stages of a frame take less: the windows' sum and a look each.
const SLOTS: usize = 130;

/// The chance p that a station's frame arrives.
fn success(stations: i32, frame_slots: usize) -> f64 {
    let mut looks = [[0.0; SLOTS + 40]; WINDOWS.len()];
    looks[0][..WINDOWS[0]].fill(1.0 / WINDOWS[0] as f64);
    let mut starts = [0.0; SLOTS + 40];
    let mut arrives = 0.0;
    for slot in 0..SLOTS {
        let on_air: f64 = starts[(slot + 1).saturating_sub(frame_slots)..=slot].iter().sum();
        let free = 1.0 - on_air;
        let look: f64 = looks.iter().map(|stage| stage[slot]).sum();
        let alone = (1.0 - look).powi(stations - 1);
        starts[slot + 1] = free * (1.0 - alone);
        arrives += free * look * alone;
        for stage in 1..WINDOWS.len() {
            let fails = looks[stage - 1][slot] * (1.0 - free);
            for wait in 0..WINDOWS[stage] {
                looks[stage][slot + 1 + wait] += fails / WINDOWS[stage] as f64;
            }
        }
    }
    arrives
}

/// The share of frames that arrive, over `questions`, where frames carry `payload` bytes.
fn measured(stations: u32, payload: u32, questions: u64, after_busy: Duration) -> f64 {
    let mac = Ieee802154Config {
        acknowledged: false,
        // The model's slots are the same for all.
        clock_tolerance: 0.0,
        processing_time: Duration::ZERO,
        frame_loss: Fraction::ZERO,
        after_busy,
        ..Ieee802154Config::default()
    };
    let mut driver = Driver::new(config(Mac::Ieee802154(mac), stations), 1);
    for question in 0..questions {
        for station in 0..stations {
            let frame = up(question * u64::from(stations) + u64::from(station), station);
            driver.put(at(100 * question), Frame { len: 40 + payload, ..frame });
        }
    }
    driver.run(Instant::from_millis(100 * (questions + 1)));
    driver.delivered.len() as f64 / (questions * u64::from(stations)) as f64
}

/// Stations; by how much the default's throughput is off the model's, %, as measured over three seeds.
type Row = (i32, f64);

/// Bytes of data, the frame's slots, and its rows. 11 and 91 bytes make frames of 50 and 130 octets with all
/// that is around them.
const FRAMES: [(u32, usize, [Row; 4]); 2] = [
    (11, 5, [(1, 0.0), (5, -4.0), (10, -10.3), (20, -15.8)]),
    (91, 13, [(1, 0.0), (5, -9.1), (10, -14.6), (20, -17.2)]),
];
/// Enough that the seed decides nothing: of 4000, six seeds put the largest deviation from -4.2 to -5.6 %.
const QUESTIONS: u64 = 40_000;

#[test]
fn simultaneous_senders_are_within_5_percent_of_the_slot_model_and_the_standards_cca_is_below() {
    for (payload, slots, rows) in FRAMES {
        for (stations, below) in rows {
            let model = success(stations, slots);
            let off = |after_busy| {
                let share = measured(stations as u32, payload, QUESTIONS, after_busy);
                100.0 * (share / model - 1.0)
            };
            let (filled, at_once) = (off(Duration::from_micros(192)), off(Duration::ZERO));
            println!(
                "D {slots:2}, N {stations:2}: model {model:.4}, simulated {filled:+.1} %; backoff at once after a \
                 busy CCA: {at_once:+.1} %"
            );
            assert!(filled.abs() < 5.0, "D {slots}, N {stations}: {filled:+.2} % off the model");
            assert!((at_once - below).abs() < 1.0, "D {slots}, N {stations}: {at_once:+.2} %, not {below}");
        }
    }
}

/// Frames a second that arrive from stations which always have one to send.
fn saturated(stations: u32, mac: Ieee802154Config) -> f64 {
    let mut driver = Driver::new(config(Mac::Ieee802154(mac), stations), 1);
    let seconds = 120;
    for tick in 0..seconds * 250 {
        for station in 0..stations {
            let frame = up(tick * u64::from(stations) + u64::from(station), station);
            driver.put(at(4 * tick), Frame { len: 135, ..frame });
        }
    }
    driver.delivered.len() as f64 / seconds as f64
}

#[test]
fn a_saturated_sender_alone_passes_a_frame_in_each_mean_exchange() {
    for acknowledged in [true, false] {
        let mac = Ieee802154Config {
            mpdu: 128,
            acknowledged,
            processing_time: Duration::ZERO,
            frame_loss: Fraction::ZERO,
            ..Ieee802154Config::default()
        };
        let expected = 1.0 / mac.mean_exchange(128).as_secs_f64();
        let alone = saturated(1, mac);
        // 17,000 backoffs with a deviation of 733 us in exchanges of 7 ms: 0.1 % of the mean, four times.
        assert!((alone / expected - 1.0).abs() < 0.004, "{alone}, not {expected}");
        // More of them collide, and pass less together.
        let together = [5, 10, 20].map(|stations| saturated(stations, mac));
        println!("acknowledged {acknowledged}: {alone:.1} frames/s alone, {together:.1?} from 5, 10 and 20");
        assert!(together.is_sorted_by(|few, many| few > many), "{together:?}");
    }
}
