//! Saturation throughput and collision probability against Bianchi's model.
//!
//! Sources: G. Bianchi, "Performance analysis of the IEEE 802.11 distributed coordination function", IEEE
//! JSAC 18 (3), 2000, equations (7), (9), (13); and what G. Bianchi and I. Tinnirello ("Remarks on IEEE
//! 802.11 DCF performance analysis", 2005) and Tinnirello, Bianchi and Xiao ("Refinements on IEEE 802.11
//! distributed coordination function modeling approaches", 2010) changed in it. From memory: the abstract of
//! the last was looked up, the formulas below were derived anew.
//!
//! The original lets a backoff count down in busy slots too, and a frame be repeated for ever. The refined
//! model:
//! - a counter stops while the medium is busy, so the slot after a busy time belongs to who has just
//!   succeeded: all others have at least one slot left, and those who collided begin a slot later. A busy
//!   time and that slot are one slot of the model. In it, who has succeeded draws 0 with B = 1 / (CWmin + 1)
//!   and sends again, alone: a success is a row of 1 / (1 - B) exchanges, and the backoff that ends the row
//!   is uniform on 1..CWmin, the first slot of which is that same one;
//! - a frame has R + 1 attempts, and the next starts at the first stage again.
//!
//! The original as it is printed (held to 3 % here too) agrees within 1.1 % with the throughput that is
//! measured, but for 50 stations of 802.11a: its frames that are never given up send 4.3 % more than those
//! that have seven attempts. Its chance of a collision is not held to 3 %: with 802.11a it is 3.3 % above
//! what is measured with 10 stations and 3.7 % below with 50.
//!
//! ```text
//! tau = N / (S + N), N = sum of p^j, S = sum of p^j E(b_j), j = 0..R;  p = 1 - (1 - tau)^(n-1)
//! E(b_j) = CW_j / 2, but after a success, with chance 1 - p^(R+1), E(b_0) = (CWmin - 1) / 2
//! ```

use linkhold_core::time::Instant;
use linkhold_core::units::BitRate;
use linkhold_radio::dcf::{DcfConfig, Phy};

use crate::world::{Net, World, us};

/// (throughput, bit/s of 1500-byte packets; chance that a transmission collides).
fn measured(phy: Phy, rate: BitRate, stations: u32, packets: u64) -> (f64, f64) {
    let mut world = World::cell(stations + 1, rate);
    // All send to one more, which sends nothing.
    world.saturated = Some((1500, (0..=stations).map(|radio| (radio > 0).then_some(0)).collect()));
    world.logs = false;
    let mut net = Net::new(&DcfConfig::new(phy), world, 11);
    for radio in 1..=stations {
        net.dcf.on_enqueue(us(0), radio, &mut net.world);
    }
    let mut now = Instant::ZERO;
    while net.world.received < packets {
        now = net.dcf.next();
        net.dcf.step(&mut net.world);
    }
    let World { received, transmitted, failed, .. } = net.world;
    (received as f64 * 12_000.0 / now.as_secs_f64(), failed as f64 / transmitted as f64)
}

/// Where `f`, which grows, is zero between 0 and 1.
fn root(f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if f(middle) > 0.0 { high = middle } else { low = middle }
    }
    low
}

/// Seconds: slot, success, collision (of the bystanders), with the DIFS or EIFS that follows.
fn times(phy: Phy, rate: BitRate) -> [f64; 3] {
    let config = DcfConfig::new(phy);
    let success = config.exchange(1500, rate) + phy.difs();
    [phy.slot(), success, config.data(1500, rate) + phy.eifs()].map(|time| time.as_secs_f64())
}

fn refined(phy: Phy, rate: BitRate, stations: u32) -> (f64, f64) {
    let attempts = i32::from(DcfConfig::new(phy).short_retry_limit);
    let (w, others) = (f64::from(phy.cw_min()) + 1.0, stations as i32 - 1);
    let window = |stage: i32| (w * 2f64.powi(stage)).min(f64::from(phy.cw_max()) + 1.0) - 1.0;
    let tau_of = |p: f64| {
        let sent: f64 = (0..attempts).map(|stage| p.powi(stage)).sum();
        let waited: f64 = (1..attempts).map(|stage| p.powi(stage) * window(stage) / 2.0).sum();
        let first = (window(0) - (1.0 - p.powi(attempts))) / 2.0;
        sent / (sent + waited + first)
    };
    let p = root(|p| p - (1.0 - (1.0 - tau_of(p)).powi(others)));
    let tau = tau_of(p);
    let again = 1.0 / w;
    let [slot, success, collision] = times(phy, rate);
    let idle = (1.0 - tau).powi(others + 1);
    let one = f64::from(stations) * tau * (1.0 - tau).powi(others);
    let mean = idle * slot + one * (success / (1.0 - again) + slot) + (1.0 - idle - one) * (collision + slot);
    let throughput = one * 12_000.0 / (1.0 - again) / mean;
    // Of all transmissions; those that follow a success at once never collide.
    let collided = p / (1.0 + (1.0 - p) * again / (1.0 - again));
    (throughput, collided)
}

fn original(phy: Phy, rate: BitRate, stations: u32) -> (f64, f64) {
    let (w, others) = (f64::from(phy.cw_min()) + 1.0, stations as i32 - 1);
    let m = ((f64::from(phy.cw_max()) + 1.0) / w).log2().round() as i32;
    // Equation (7), with its denominator written as a sum, which has no pole at p = 1/2.
    let tau_of = |p: f64| 2.0 / (1.0 + w + p * w * (0..m).map(|k| (2.0 * p).powi(k)).sum::<f64>());
    let p = root(|p| p - (1.0 - (1.0 - tau_of(p)).powi(others)));
    let tau = tau_of(p);
    let [slot, success, collision] = times(phy, rate);
    let idle = (1.0 - tau).powi(others + 1);
    let one = f64::from(stations) * tau * (1.0 - tau).powi(others);
    (one * 12_000.0 / (idle * slot + one * success + (1.0 - idle - one) * collision), p)
}

#[test]
fn saturation_is_within_3_percent_of_the_refined_model_and_but_for_one_cell_of_the_original() {
    for (phy, bps) in
        [(Phy::Ieee80211a, 24_000_000), (Phy::Ieee80211b, 2_000_000), (Phy::Ieee80211b, 11_000_000)]
    {
        let rate = BitRate(bps);
        for stations in [1, 5, 10, 20, 50] {
            let (got, collided) = measured(phy, rate, stations, if stations < 20 { 150_000 } else { 50_000 });
            let (want, chance) = refined(phy, rate, stations);
            let (first, first_chance) = original(phy, rate, stations);
            println!(
                "{phy:?} {rate} {stations:2} stations: {:.3} Mbit/s, refined {:+.2} %, original {:+.2} %; \
                 collisions {collided:.4}, refined {chance:.4}, original {first_chance:.4}",
                got / 1e6,
                100.0 * (got / want - 1.0),
                100.0 * (got / first - 1.0),
            );
            assert!((got / want - 1.0).abs() < 0.03, "{phy:?}, {stations}: {got}, not {want}");
            // The one cell that the original misses, and why: the head of this file.
            let known_to_miss = phy == Phy::Ieee80211a && stations == 50;
            assert_eq!(
                (got / first - 1.0).abs() < 0.03,
                !known_to_miss,
                "{phy:?}, {rate}, {stations}: {got}, the original has {first}"
            );
            if stations > 1 {
                assert!(
                    (collided / chance - 1.0).abs() < 0.03,
                    "{phy:?}, {stations}: {collided}, not {chance}"
                );
            } else {
                assert_eq!(collided, 0.0);
            }
        }
    }
}

/// A UDP datagram of 1472 bytes is an IP packet of 1500. One exchange takes DIFS 34, a mean backoff of 67.5,
/// data 536, SIFS 16 and ACK 28 us: 681.5 us. So 17.28 Mbit/s counts UDP's payload: 1472 x 8 / 681.5 us =
/// 17.279 Mbit/s. Whole IP packets pass at 17.608.
#[test]
fn one_station_of_802_11a_has_17_28_mbps_of_udp() {
    let (packets, _) = measured(Phy::Ieee80211a, BitRate::from_mbps(24), 1, 100_000);
    let udp = packets * 1472.0 / 1500.0 / 1e6;
    assert!((udp / 17.28 - 1.0).abs() < 0.002, "{udp}");
}
