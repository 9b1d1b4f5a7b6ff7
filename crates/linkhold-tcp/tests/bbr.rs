//! BBR against what its model promises: the path filled with a short queue, losses that do not count, dips to
//! the least window every ten seconds, and bursts no longer than the pace allows.

mod common;

use common::{Fate, LinkConfig, Net, at, ms};
use linkhold_core::action::Resend;
use linkhold_core::units::{BitRate, Bytes};
use linkhold_tcp::{Congestion, Recovery, Source, TcpConfig};

const RATE: BitRate = BitRate::from_mbps(24);

fn link(delay_ms: u64) -> LinkConfig {
    LinkConfig { rate: RATE, delay: ms(delay_ms), queue: 1000 }
}

fn bulk(config: &TcpConfig, link: LinkConfig) -> Net {
    Net::new((config, Source::Bulk), (config, Source::None), link)
}

/// Goodput between two times in seconds, as a share of what payload can have of the rate.
fn share(net: &mut Net, from: u64, to: u64) -> f64 {
    net.run(at(1000 * from));
    let before = net.ends[1].delivered();
    net.run(at(1000 * to));
    let payload = 1448.0 / 1500.0;
    (net.ends[1].delivered() - before) as f64 * 8.0 / (to - from) as f64 / (RATE.as_bps() as f64 * payload)
}

#[test]
fn it_fills_the_path_with_a_queue_shorter_than_the_path() {
    for delay in [2, 10, 50] {
        let config = TcpConfig::linux(Congestion::Bbr);
        let mut net = bulk(&config, link(delay));
        net.run(at(5000));
        let (mut most, mut sum, mut count) = (0.0_f64, 0.0, 0);
        let mut last = net.ends[1].delivered();
        let begin = last;
        for t in 5000..35_000 {
            net.run(at(t));
            let srtt = net.ends[0].srtt().unwrap().as_secs_f64();
            most = most.max(srtt);
            sum += srtt;
            count += 1;
            last = net.ends[1].delivered();
        }
        let got = (last - begin) as f64 * 8.0 / 30.0 / (RATE.as_bps() as f64 * 1448.0 / 1500.0);
        let path = 2.0 * delay as f64 / 1e3;
        let queue = sum / f64::from(count) - path;
        println!(
            "{delay} ms: {got:.3}, queue {:.1} ms in the mean, {:.1} at most",
            queue * 1e3,
            (most - path) * 1e3
        );
        // 1 % of margin, and 200 ms and a few round trips of every ten seconds at four segments.
        assert!((0.94..=1.0).contains(&got), "{delay} ms: {got}");
        assert!(queue < path.max(0.005), "{delay} ms: a queue of {queue} s");
        assert_eq!(net.ends[0].stats().retransmits, 0);
    }
}

#[test]
fn every_recovery_carries_it() {
    for recovery in [Recovery::Reno, Recovery::NewReno, Recovery::Sack, Recovery::RackTlp] {
        let config = TcpConfig::classic(recovery, Congestion::Bbr);
        let mut net = bulk(&config, link(5));
        let got = share(&mut net, 5, 25);
        assert!((0.93..=1.02).contains(&got), "{recovery:?}: {got}");
    }
    let old = TcpConfig::linux_2009(Congestion::Bbr);
    let got = share(&mut bulk(&old, link(5)), 5, 25);
    assert!((0.93..=1.02).contains(&got), "linux-2009: {got}");
}

#[test]
fn random_losses_cost_what_is_lost_and_not_the_window() {
    let goodput = |congestion| {
        let config = TcpConfig::linux(congestion);
        let mut net = bulk(&config, link(25));
        let mut count = 0_u64;
        net.hook = Box::new(move |_, end, segment, _| {
            count += u64::from(end == 0 && segment.payload_len > 0);
            // One of fifty data segments is lost.
            if end == 0 && segment.payload_len > 0 && count.is_multiple_of(50) {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        share(&mut net, 5, 35)
    };
    let (bbr, reno) = (goodput(Congestion::Bbr), goodput(Congestion::Reno));
    println!("bbr {bbr:.3}, reno {reno:.3}");
    assert!(bbr > 0.88, "{bbr}");
    assert!(reno < 0.3, "{reno}");
}

#[test]
fn it_dips_to_four_segments_every_ten_seconds() {
    let config = TcpConfig::linux(Congestion::Bbr);
    let mut net = bulk(&config, link(20));
    let mut dips = Vec::new();
    let mut low = false;
    for t in 0..45_000 {
        net.run(at(t));
        let is_low = t > 1000 && net.ends[0].cwnd_bytes() <= 4 * 1448;
        if is_low && !low {
            dips.push((t, t));
        }
        if is_low && let Some(dip) = dips.last_mut() {
            dip.1 = t;
        }
        low = is_low;
    }
    println!("{dips:?}");
    assert!((3..=4).contains(&dips.len()), "{dips:?}");
    for (from, to) in &dips {
        assert!((200..=350).contains(&(to - from)), "a dip of {} ms", to - from);
    }
    for pair in dips.windows(2) {
        assert!((10_000..=11_000).contains(&(pair[1].0 - pair[0].0)), "{dips:?}");
    }
}

/// Linux `bbr_update_min_rtt` since 5.11: an RTT as low as the least does not renew it.
#[test]
fn it_dips_every_ten_seconds_where_the_round_trip_stays_the_same() {
    let config = TcpConfig::linux(Congestion::Bbr);
    let source = Source::paced(BitRate::from_mbps(10), Bytes(2500));
    let mut net = Net::new((&config, source), (&config, Source::None), link(10));
    let mut dips = Vec::new();
    for t in 1000..45_000 {
        net.run(at(t));
        let is_low = net.ends[0].cwnd_bytes() <= 4 * 1448;
        if is_low && dips.last().is_none_or(|last| t > last + 1000) {
            dips.push(t);
        }
    }
    assert_eq!(dips.len(), 4, "{dips:?}");
    assert!(dips.windows(2).all(|pair| (10_000..=11_000).contains(&(pair[1] - pair[0]))), "{dips:?}");
}

#[test]
fn what_it_sends_is_spread_over_the_round_trip() {
    let config = TcpConfig::linux(Congestion::Bbr);
    let mut net = bulk(&config, link(50));
    let longest = std::rc::Rc::new(std::cell::Cell::new(0));
    let seen = longest.clone();
    let (mut last, mut together) = (at(0), 0);
    net.hook = Box::new(move |now, end, segment, _| {
        if end == 0 && segment.payload_len > 0 && now > at(5000) {
            together = if now == last { together + 1 } else { 1 };
            last = now;
            seen.set(seen.get().max(together));
        }
        Fate::Pass
    });
    net.run(at(20_000));
    // 24 Mbit/s carry 2.9 kB in a millisecond: bursts of two segments, three while it probes with 5/4.
    assert!((2..=3).contains(&longest.get()), "{}", longest.get());
}

#[test]
fn a_silence_that_holds_packets_leaves_the_model_as_it_was() {
    let config = TcpConfig::linux(Congestion::Bbr);
    let mut net = bulk(&config, link(10));
    net.hook = Box::new(|now, end, _, _| {
        let (start, stop) = (at(15_000), at(15_500));
        if end == 0 && now >= start && now < stop { Fate::Hold(stop) } else { Fate::Pass }
    });
    net.run(at(15_000));
    let cwnd = net.ends[0].cwnd_bytes();
    net.run(at(16_000));
    let stats = *net.ends[0].stats();
    assert!(stats.rto_events >= 1, "the silence is longer than the timeout");
    assert_eq!(stats.spurious_rtos, stats.timeout_reductions, "{stats:?}");
    let after = net.ends[0].cwnd_bytes();
    assert!(after >= cwnd / 2, "{cwnd} before and {after} after");
    let got = share(&mut net, 16, 24);
    assert!(got > 0.9, "{got}");
}

#[test]
fn a_thawed_sender_sends_at_once_whatever_its_pace_asks_for() {
    for length in [1, 30, 700] {
        let config = TcpConfig::linux(Congestion::Bbr);
        let slow = LinkConfig { rate: BitRate::from_mbps(1).mul_f64(0.2), ..link(20) };
        let mut net = bulk(&config, slow);
        net.run(at(5000));
        net.ends[0].freeze(at(5000));
        net.run(at(5000 + length));
        let cwnd = net.ends[0].cwnd_bytes();
        net.ends[0].thaw(at(5000 + length), Resend::First);
        let sent = net.ends[0].poll_transmit(at(5000 + length));
        assert!(sent.is_some(), "{length} ms");
        assert!(net.ends[0].cwnd_bytes() <= cwnd, "{length} ms");
    }
}

#[test]
fn a_source_with_little_to_say_does_not_teach_it_a_low_rate() {
    // 2 Mbit/s for ten seconds, then as much as the path takes: it has not forgotten Startup's answer.
    let config = TcpConfig::linux(Congestion::Bbr);
    let source = Source::paced(BitRate::from_mbps(2), Bytes(5000));
    let mut net = Net::new((&config, source), (&config, Source::None), link(10));
    net.run(at(10_000));
    let rate = net.ends[1].delivered() as f64 * 8.0 / 10.0;
    assert!((rate / 2e6 - 1.0).abs() < 0.01, "{rate}");
    assert_eq!(net.ends[0].stats().retransmits, 0);
    assert!(net.ends[0].srtt().unwrap() < ms(40), "{:?}", net.ends[0].srtt());
}
