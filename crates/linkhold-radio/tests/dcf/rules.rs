//! One rule a test.

use linkhold_core::time::Instant;
use linkhold_core::units::BitRate;
use linkhold_radio::dcf::{DcfConfig, Kind, Phy, Sent};

use crate::world::{MBPS, Net, Seen, World, micros, us};

/// Worked out by hand. A frame on a medium that has been idle for long goes at once. 802.11b: 192 us and
/// 8 x (1500 + 36) bits at the data rate, rounded up to a microsecond; SIFS 10 us; ACK at 1 Mbit/s 304 us.
/// 802.11a: 20 + 4 x ceil((22 + 12,288) / N_DBPS), SIFS 16 us, ACK of 44, 32 or 28 us.
#[test]
fn one_exchange_takes_what_the_standard_adds_up_at_each_rate() {
    #[rustfmt::skip]
    let table = [
        (Phy::Ieee80211b,  1_000_000, 12_480, 10, 304),
        (Phy::Ieee80211b,  2_000_000,  6_336, 10, 304),
        (Phy::Ieee80211b,  5_500_000,  2_427, 10, 304),
        (Phy::Ieee80211b, 11_000_000,  1_310, 10, 304),
        (Phy::Ieee80211a,  6_000_000,  2_072, 16,  44),
        (Phy::Ieee80211a,  9_000_000,  1_388, 16,  44),
        (Phy::Ieee80211a, 12_000_000,  1_048, 16,  32),
        (Phy::Ieee80211a, 18_000_000,    704, 16,  32),
        (Phy::Ieee80211a, 24_000_000,    536, 16,  28),
        (Phy::Ieee80211a, 36_000_000,    364, 16,  28),
        (Phy::Ieee80211a, 48_000_000,    280, 16,  28),
        (Phy::Ieee80211a, 54_000_000,    248, 16,  28),
    ];
    for (phy, bps, data, sifs, ack) in table {
        let config = DcfConfig::new(phy);
        assert_eq!(config.exchange(1500, BitRate(bps)), micros(data + sifs + ack), "{bps}");
        let mut net = Net::new(&config, World::cell(2, BitRate(bps)), 1);
        net.send(us(1000), 0, 7, Some(1), 1500);
        net.run(us(100_000));
        let expected = [
            (us(1000 + data), Seen::Received { at: 1, from: 0, token: 7 }),
            (us(1000 + data + sifs + ack), Seen::Sent { radio: 0, token: 7, outcome: Sent::Acknowledged }),
        ];
        assert_eq!(net.world.seen, expected, "{bps}");
    }
}

/// RTS of 20 octets 28 us at 24 Mbit/s, CTS 28 us, a SIFS of 16 us between all.
#[test]
fn behind_rts_and_cts_an_exchange_takes_both_and_two_more_sifs() {
    let config = DcfConfig { rts_threshold: 1535, ..DcfConfig::new(Phy::Ieee80211a) };
    let mut net = Net::new(&config, World::cell(2, MBPS(24)), 1);
    net.send(us(1000), 0, 7, Some(1), 1500);
    net.run(us(100_000));
    assert_eq!(net.world.seen.last().map(|seen| seen.0), Some(us(1000 + 28 + 16 + 28 + 16 + 536 + 16 + 28)));
    let kinds: Vec<Kind> = net.world.told.iter().map(|told| told.kind).collect();
    assert_eq!(kinds, [Kind::Rts, Kind::Cts, Kind::Data, Kind::Ack]);
    let reserved: Vec<_> = net.world.told.iter().map(|told| told.reserved).collect();
    let after = [16 + 28 + 16 + 536 + 16 + 28, 16 + 536 + 16 + 28, 16 + 28, 0];
    assert_eq!(reserved, after.map(micros), "each keeps the medium free to the end of the exchange");
    assert!(net.world.told.iter().all(|told| told.rate == MBPS(24)), "24 Mbit/s is mandatory");
    // A frame of 1535 octets is not longer than the threshold.
    net.send(us(200_000), 0, 8, Some(1), 1499);
    net.run(us(300_000));
    assert_eq!(net.world.told.len(), 6);
}

/// Radio 1 reads nothing of radio 0, which sends its frame seven times; the next has the next number.
#[test]
fn a_repetition_has_the_number_of_its_frame_and_says_that_it_is_one() {
    let mut world = World::cell(2, MBPS(54));
    world.noise = 1.0;
    let mut net = Net::new(&DcfConfig::new(Phy::Ieee80211a), world, 1);
    net.send(us(1000), 0, 7, Some(1), 1500);
    net.run(us(100_000));
    net.world.noise = 0.0;
    net.send(us(200_000), 0, 8, Some(1), 1500);
    net.send(us(200_000), 0, 9, None, 1500);
    net.run(us(300_000));
    let told: Vec<_> = (net.world.told.iter())
        .map(|told| (told.kind, told.sequence, told.retry, told.rate.as_bps() / 1_000_000, told.received))
        .collect();
    let data = |sequence, retry, rate, received| (Kind::Data, sequence, retry, rate, received);
    let mut expected = vec![data(0, false, 54, false)];
    expected.extend([data(0, true, 54, false); 6]);
    expected.extend([data(1, false, 54, true), (Kind::Ack, 0, false, 24, true), data(2, false, 24, true)]);
    assert_eq!(told, expected);
}

#[test]
fn a_frame_that_finds_the_medium_busy_waits_for_difs_and_a_backoff() {
    let mut seen_slots = [false; 16];
    for seed in 0..200 {
        let mut net = Net::new(&DcfConfig::new(Phy::Ieee80211a), World::cell(3, MBPS(24)), seed);
        net.send(us(1000), 0, 1, Some(1), 1500);
        net.send(us(1100), 2, 2, Some(1), 1500);
        net.run(us(100_000));
        // The first exchange takes 580 us, then DIFS 34 us and a backoff of 9 us slots, then 536 us.
        let second = net.world.seen.iter().find(|seen| seen.1 == Seen::Received { at: 1, from: 2, token: 2 });
        let after = second.expect("it arrives").0.since(us(1000 + 580 + 34 + 536));
        assert!(after.as_nanos().is_multiple_of(9000) && after <= micros(135), "{after}");
        seen_slots[(after.as_micros() / 9) as usize] = true;
    }
    assert_eq!(seen_slots, [true; 16]);
}

#[test]
fn a_broadcast_reaches_all_who_hear_it_and_is_not_acknowledged() {
    let mut world = World::cell(4, MBPS(54));
    world.set(0, 3, 0.0);
    let mut net = Net::ofdm(world);
    net.send(us(1000), 0, 5, None, 1500);
    net.run(us(100_000));
    // At 24 Mbit/s, the highest rate that everybody reads.
    let expected = [
        (us(1536), Seen::Received { at: 1, from: 0, token: 5 }),
        (us(1536), Seen::Received { at: 2, from: 0, token: 5 }),
        (us(1536), Seen::Sent { radio: 0, token: 5, outcome: Sent::Broadcast }),
    ];
    assert_eq!(net.world.seen, expected);
    assert_eq!(net.world.told.len(), 1);
}

/// Two frames that become ready at the same instant on an idle medium collide. A bystander waits EIFS, 94 us;
/// those who collided their timeout of 69 us and DIFS, 34 us: a slot more. All add a backoff.
#[test]
fn what_starts_at_one_instant_collides_and_eifs_follows() {
    let (mut bystander, mut collided) = (Instant::FAR_FUTURE, Instant::FAR_FUTURE);
    for seed in 0..300 {
        let mut net = Net::new(&DcfConfig::new(Phy::Ieee80211a), World::cell(4, MBPS(24)), seed);
        net.world.queue(0, 1, Some(2), 1500);
        net.world.queue(1, 2, Some(2), 1500);
        net.dcf.on_enqueue(us(1000), 0, &mut net.world);
        net.dcf.on_enqueue(us(1000), 1, &mut net.world);
        net.run(us(1536));
        assert!(net.world.told.iter().all(|told| !told.received) && net.world.told.len() == 2);
        net.send(us(1540), 3, 3, Some(2), 40);
        net.run(us(100_000));
        let next = net.world.told[2];
        let (least, base) = if next.from == 3 {
            (&mut bystander, us(1536 + 94))
        } else {
            (&mut collided, us(1536 + 69 + 34))
        };
        assert!(next.since >= base && next.since.since(base).as_nanos().is_multiple_of(9000), "{next:?}");
        *least = next.since.min(*least);
        let mut arrived = net.world.arrived(2);
        arrived.sort_unstable();
        assert_eq!(arrived, [1, 2, 3]);
    }
    assert_eq!([bystander, collided], [us(1536 + 94), us(1536 + 69 + 34)]);
}

#[test]
fn eifs_is_for_who_could_not_read_and_difs_for_who_could() {
    // Radio 2 senses radio 0 and cannot read it. The exchange's ACK comes from radio 1, which it does not
    // hear.
    for (power, least) in [(0.1, 536 + 94), (1.0, 536 + 16 + 28 + 34)] {
        let mut earliest = Instant::FAR_FUTURE;
        for seed in 0..100 {
            let mut world = World::cell(4, MBPS(24));
            world.set(0, 2, power);
            world.set(1, 2, 0.0);
            world.set(1, 3, 0.0);
            world.set(0, 3, 0.0);
            let mut net = Net::new(&DcfConfig::new(Phy::Ieee80211a), world, seed);
            net.send(us(1000), 0, 1, Some(1), 1500);
            net.send(us(1100), 2, 2, Some(3), 1500);
            net.run(us(5000));
            let started = net.world.told.iter().find(|told| told.from == 2).expect("it sends").since;
            earliest = earliest.min(started);
        }
        // With the NAV of the data frame: until the ACK's end, then DIFS; and a backoff of none.
        assert_eq!(earliest, us(1000 + least), "at {power} mW");
    }
}

/// Radio 2 hears the receiver only. The CTS tells it how long the exchange takes.
#[test]
fn a_cts_silences_who_does_not_hear_the_sender() {
    let config = DcfConfig { rts_threshold: 0, ..DcfConfig::new(Phy::Ieee80211a) };
    for seed in 0..50 {
        let mut world = World::cell(3, MBPS(24));
        world.set(0, 2, 0.0);
        let mut net = Net::new(&config, world, seed);
        net.send(us(1000), 0, 1, Some(1), 1500);
        // In the middle of the data, of which radio 2 hears nothing.
        net.send(us(1300), 2, 2, Some(1), 1500);
        net.run(us(50_000));
        let end = us(1000 + 28 + 16 + 28 + 16 + 536 + 16 + 28);
        let second = net.world.told.iter().find(|told| told.from == 2).expect("it sends");
        assert!(second.since >= end + micros(34), "{:?}", second.since);
        assert!(net.world.told.iter().all(|told| told.received));
    }
}

/// Saturated for 5 s: two senders that do not hear each other, one receiver.
#[test]
fn rts_helps_against_hidden_terminals() {
    let run = |rts_threshold| {
        let mut world = World::cell(3, MBPS(6));
        world.set(0, 2, 0.0);
        world.saturated = Some((1500, vec![Some(1), None, Some(1)]));
        world.logs = false;
        let config = DcfConfig { rts_threshold, ..DcfConfig::new(Phy::Ieee80211a) };
        let mut net = Net::new(&config, world, 3);
        for radio in [0, 2] {
            net.dcf.on_enqueue(us(0), radio, &mut net.world);
        }
        net.run(Instant::from_millis(5000));
        net.world.received
    };
    let (without, with) = (run(DcfConfig::NO_RTS), run(0));
    println!("hidden terminals at 6 Mbit/s, 5 s: {without} frames without RTS, {with} with");
    assert!(with as f64 > 1.3 * without as f64, "{with} with RTS, {without} without");
}

#[test]
fn a_signal_far_above_the_others_is_received_whenever_it_begins() {
    // Powers of radios 0 and 1 at radio 2, which of them begins, and what arrives there at the first attempt.
    for (first, second, expected) in [
        (10.0, 1.0, vec![0]), // 10 dB above: received although another begins in it.
        (9.9, 1.0, vec![]),
        (1.0, 10.0, vec![1]), // The later one takes the receiver over.
        (1.0, 9.9, vec![]),
        (1.0, 1.0, vec![]),
    ] {
        let mut world = World::cell(5, MBPS(24));
        world.set(0, 1, 0.0);
        world.set(0, 2, first);
        world.set(1, 2, second);
        let mut net = Net::ofdm(world);
        net.send(us(1000), 0, 0, Some(2), 1500);
        net.send(us(1100), 1, 1, Some(2), 1500);
        net.run(us(1640));
        assert_eq!(net.world.arrived(2), expected, "{first} and {second} mW");
    }
}

#[test]
fn noise_and_primary_users_count_in_the_signals_way() {
    for (noise, user, arrives) in
        [(0.1, 0.0, true), (0.11, 0.0, false), (0.05, 0.06, false), (0.05, 0.05, true)]
    {
        let mut world = World::cell(2, MBPS(24));
        world.noise = noise;
        world.users = vec![(1, us(1200), us(1300), user)];
        let mut net = Net::ofdm(world);
        net.send(us(1000), 0, 0, Some(1), 1500);
        net.run(us(1540));
        assert_eq!(net.world.arrived(1).len(), usize::from(arrives), "{noise} and {user} mW");
    }
}

/// The receiver's ACKs never arrive: seven attempts, and the frame has arrived once.
#[test]
fn a_frame_is_given_up_at_the_retry_limit_and_handed_up_once() {
    let mut world = World::cell(2, MBPS(24));
    world.users = vec![(0, us(0), Instant::from_millis(1000), 1.0)];
    let mut net = Net::ofdm(world);
    net.send(us(1000), 0, 9, Some(1), 1500);
    net.run(Instant::from_millis(500));
    assert_eq!(net.world.arrived(1), [9]);
    assert_eq!(net.world.outcomes(), [(9, Sent::GaveUp { arrived: true })]);
    let count = |kind| net.world.told.iter().filter(|told| told.kind == kind).count();
    assert_eq!((count(Kind::Data), count(Kind::Ack)), (7, 7));
    assert_eq!(net.dcf.held(), 0);
    // Behind RTS: nobody answers seven of them.
    let config = DcfConfig { rts_threshold: 0, ..DcfConfig::new(Phy::Ieee80211a) };
    let mut world = World::cell(2, MBPS(24));
    world.users = vec![(1, us(0), Instant::from_millis(1000), 1.0)];
    let mut net = Net::new(&config, world, 1);
    net.send(us(1000), 0, 9, Some(1), 1500);
    net.run(Instant::from_millis(500));
    assert_eq!(net.world.outcomes(), [(9, Sent::GaveUp { arrived: false })]);
    assert!(net.world.told.iter().all(|told| told.kind == Kind::Rts) && net.world.told.len() == 7);
}

/// CTS come, ACKs do not: four attempts.
#[test]
fn data_behind_rts_has_the_long_retry_limit() {
    let config = DcfConfig { rts_threshold: 0, ..DcfConfig::new(Phy::Ieee80211a) };
    let mut world = World::cell(2, MBPS(24));
    // A user at the receiver in the data of every attempt: bursts of 100 us are too rare to spoil an RTS.
    world.users = vec![];
    let mut net = Net::new(&config, world, 1);
    net.send(us(1000), 0, 9, Some(1), 1500);
    for _ in 0..200 {
        // As soon as a data frame is on the air, somebody disturbs it.
        net.dcf.step(&mut net.world);
        if net.world.told.last().is_some_and(|told| told.kind == Kind::Cts) {
            let at = net.world.told.last().map_or(us(0), |told| told.since);
            net.world.users = vec![(1, at + micros(100), at + micros(200), 1.0)];
        }
    }
    assert_eq!(net.world.outcomes(), [(9, Sent::GaveUp { arrived: false })]);
    let count = |kind| net.world.told.iter().filter(|told| told.kind == kind).count();
    assert_eq!([Kind::Rts, Kind::Cts, Kind::Data, Kind::Ack].map(count), [4, 4, 4, 0]);
}

#[test]
fn who_is_suspended_neither_hears_nor_sends_and_keeps_its_frame() {
    let mut net = Net::ofdm(World::cell(3, MBPS(24)));
    net.send(us(1000), 0, 1, Some(1), 1500);
    net.run(us(1200));
    net.dcf.suspend(us(1200), 0, &mut net.world);
    assert_eq!((net.dcf.held(), net.dcf.next()), (1, Instant::FAR_FUTURE));
    assert!(net.world.told[0].cut && !net.world.told[0].received);
    // The medium is free for the others, after EIFS.
    net.send(us(1210), 2, 2, Some(1), 1500);
    net.run(us(10_000));
    assert_eq!(net.world.arrived(1), [2]);
    net.dcf.resume(us(10_000), 0, &mut net.world);
    net.run(us(20_000));
    assert_eq!(net.world.arrived(1), [2, 1]);
    assert_eq!(net.dcf.held(), 0);
    // A receiver that is suspended reads nothing, one that resumes in a frame does not read it and stays
    // silent.
    net.dcf.suspend(us(30_000), 1, &mut net.world);
    net.send(us(30_000), 0, 3, Some(1), 1500);
    net.world.queue(1, 4, Some(2), 40);
    net.run(us(30_100));
    net.dcf.resume(us(30_100), 1, &mut net.world);
    net.run(us(30_600));
    assert!(net.world.told.iter().all(|told| told.from != 1 || told.since < us(30_000)));
    assert_eq!(net.world.arrived(1), [2, 1]);
    net.run(us(60_000));
    assert_eq!(net.world.arrived(1), [2, 1, 3]);
    assert_eq!(net.world.arrived(2), [4]);
}

#[test]
fn all_who_resume_at_once_do_not_send_at_once() {
    let mut net = Net::ofdm(World::cell(6, MBPS(24)));
    for radio in 0..6 {
        net.dcf.suspend(us(0), radio, &mut net.world);
        net.world.queue(radio, radio.into(), Some((radio + 1) % 6), 100);
    }
    for radio in 0..6 {
        net.dcf.resume(us(1000), radio, &mut net.world);
    }
    net.run(us(100_000));
    let first = net.world.told.iter().filter(|told| told.since == us(1034)).count();
    assert!(first < 3, "{first} sent a DIFS after they resumed");
    assert!((0..6).all(|radio| net.world.arrived(radio).len() == 1));
}

#[test]
fn nothing_starts_that_would_not_end_by_the_quiet_period() {
    for (quiet, arrives) in [(1580, true), (1579, false)] {
        let mut net = Net::ofdm(World::cell(2, MBPS(24)));
        net.world.quiet_at = us(quiet);
        net.send(us(1000), 0, 1, Some(1), 1500);
        net.run(us(5000));
        assert_eq!((net.world.arrived(1).len(), net.dcf.held()), (usize::from(arrives), 0));
        assert_eq!(net.world.queues[0].len(), usize::from(!arrives));
        net.world.quiet_at = Instant::FAR_FUTURE;
        net.dcf.on_enqueue(us(5000), 0, &mut net.world);
        net.run(us(10_000));
        assert_eq!(net.world.arrived(1), [1]);
    }
}

#[test]
fn a_frame_that_is_recalled_goes_on_where_it_was() {
    let mut world = World::cell(2, MBPS(24));
    world.users = vec![(0, us(0), us(1600), 1.0)];
    let mut net = Net::ofdm(world);
    net.send(us(1000), 0, 1, Some(1), 1500);
    // It has arrived; its ACK was lost.
    net.run(us(1590));
    let frame = net.dcf.recall(us(1590), 0, &mut net.world).expect("it has one");
    assert!(frame.arrived() && net.dcf.held() == 0 && net.dcf.is_idle(0));
    net.world.queues[0].push_back(frame);
    net.dcf.on_enqueue(us(2000), 0, &mut net.world);
    net.run(us(10_000));
    assert_eq!(net.world.arrived(1), [1]);
    assert_eq!(net.world.outcomes(), [(1, Sent::Acknowledged)]);
    assert_eq!(net.dcf.recall(us(10_000), 0, &mut net.world), None);
}

#[test]
fn one_seed_gives_one_course() {
    let run = |seed| {
        let mut world = World::cell(8, MBPS(24));
        world.saturated = Some((500, (0..8).map(|radio| Some((radio + 1) % 8)).collect()));
        let mut net = Net::new(&DcfConfig::new(Phy::Ieee80211a), world, seed);
        for radio in 0..8 {
            net.dcf.on_enqueue(us(0), radio, &mut net.world);
        }
        net.run(Instant::from_millis(300));
        net.world.told
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

#[test]
fn radios_that_do_not_exist_do_nothing() {
    let mut net = Net::ofdm(World::cell(2, MBPS(24)));
    for radio in [2, u32::MAX] {
        net.dcf.on_enqueue(us(0), radio, &mut net.world);
        net.dcf.suspend(us(0), radio, &mut net.world);
        net.dcf.resume(us(0), radio, &mut net.world);
        assert_eq!(net.dcf.recall(us(0), radio, &mut net.world), None);
    }
    for to in [0, 2, u32::MAX] {
        net.send(us(1000), 0, u64::from(to), Some(to), 100);
    }
    net.run(Instant::from_millis(1000));
    assert!(net.world.outcomes().iter().all(|(_, sent)| *sent == Sent::GaveUp { arrived: false }));
    assert_eq!(net.world.outcomes().len(), 3);
}
