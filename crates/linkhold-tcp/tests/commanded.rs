//! A sender that a mechanism commands: freezes and thaws doubled, lost and out of order, and reports of a
//! base station, true or not, over a pipe that loses. Every byte arrives once, nothing hangs once the last
//! freeze is over, and cwnd after a thaw is not above cwnd before.

mod common;

use common::{Fate, LinkConfig, Net, at, ms};
use linkhold_core::action::Resend;
use linkhold_core::packet::{SackBlock, SackBlocks};
use linkhold_core::units::{BitRate, Bytes, Seq};
use linkhold_tcp::{Congestion, Recovery, Source, TcpConfig};
use proptest::prelude::*;

#[derive(Clone, Copy, Debug)]
enum Command {
    Freeze,
    Thaw(Resend),
    /// Blocks by their distance from the sender's first number, in units of 500 bytes.
    Missing([(u8, u8); 3]),
}

fn command() -> impl Strategy<Value = Command> {
    let resend = prop_oneof![Just(Resend::Nothing), Just(Resend::First), Just(Resend::All)];
    prop_oneof![
        Just(Command::Freeze),
        resend.prop_map(Command::Thaw),
        any::<[(u8, u8); 3]>().prop_map(Command::Missing),
    ]
}

fn config(profile: usize) -> TcpConfig {
    match profile {
        0 => TcpConfig::classic(Recovery::Reno, Congestion::Reno),
        1 => TcpConfig::classic(Recovery::NewReno, Congestion::Reno),
        2 => TcpConfig::classic(Recovery::Sack, Congestion::Reno),
        3 => TcpConfig::linux(Congestion::Cubic),
        4 => TcpConfig::linux(Congestion::Bbr),
        _ => TcpConfig::linux(Congestion::Reno),
    }
}

proptest! {
    #[test]
    fn whatever_is_commanded_every_byte_arrives(
        profile in 0usize..6,
        loss in 0u64..20,
        seed: u64,
        bytes in 1u64..60_000,
        commands in prop::collection::vec((0u64..400, command()), 0..30),
    ) {
        let config = TcpConfig { rto_max: ms(10_000), ..config(profile) };
        let link = LinkConfig { rate: BitRate::from_mbps(2), delay: ms(20), queue: 50 };
        let mut net = Net::new((&config, Source::Finite(Bytes(bytes))), (&config, Source::None), link);
        let mut random = seed;
        net.hook = Box::new(move |_, _, _, _| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            if (random >> 33) % 100 < loss { Fate::Drop } else { Fate::Pass }
        });
        let mut now = at(0);
        let (mut frozen, mut before) = (false, 0);
        for (pause, command) in commands {
            now += ms(pause);
            net.run(now);
            net.now = net.now.max(now);
            let sender = &mut net.ends[0];
            match command {
                Command::Freeze => {
                    if !frozen && sender.is_established() {
                        before = sender.cwnd_bytes();
                        frozen = true;
                    }
                    sender.freeze(now);
                }
                Command::Thaw(resend) => {
                    sender.thaw(now, resend);
                    if std::mem::replace(&mut frozen, false) && sender.is_established() {
                        prop_assert!(sender.cwnd_bytes() <= before, "{} after {before}", sender.cwnd_bytes());
                    }
                }
                Command::Missing(list) => {
                    let mut blocks = SackBlocks::EMPTY;
                    for (left, right) in list {
                        let at = |n: u8| Seq(u32::MAX - 5000) + u32::from(n) * 500;
                        blocks.push(SackBlock { left: at(left), right: at(right) });
                    }
                    sender.missing(now, &blocks);
                }
            }
        }
        // What a mechanism does by itself at the latest: the last freeze ends.
        net.ends[0].thaw(now, Resend::All);
        let limit = at(3_600_000);
        let alive = net.run_while(limit, |net| !(net.ends[0].is_closed() && net.ends[1].is_closed()));
        prop_assert!(alive && net.now < limit, "stuck at {}: {:?}", net.now, net.ends[0]);
        prop_assert_eq!(net.ends[1].delivered(), bytes);
        prop_assert_eq!(net.ends[0].acknowledged(), bytes);
    }
}

/// A handshake in a silence: no SYN goes into it, one goes as soon as it is over or by what was left of the
/// timer, and the silence is no round trip.
#[test]
fn a_handshake_stands_still_in_a_freeze() {
    for (resend, up_by) in [(Resend::First, 9_100), (Resend::All, 9_100), (Resend::Nothing, 10_100)] {
        let config = TcpConfig { rto_initial: ms(1_000), timestamps: false, ..config(2) };
        let link = LinkConfig { rate: BitRate::from_mbps(2), delay: ms(20), queue: 50 };
        let mut net = Net::new((&config, Source::Finite(Bytes(5_000))), (&config, Source::None), link);
        net.hook = Box::new(|now, _, _, _| if now < at(9_000) { Fate::Drop } else { Fate::Pass });
        net.run(at(10));
        net.ends[0].freeze(at(10));
        net.run(at(9_000));
        assert_eq!(net.ends[0].stats().segments_sent, 1, "nothing goes while it stands still");
        net.now = at(9_000);
        net.ends[0].thaw(at(9_000), resend);
        net.run(at(up_by));
        assert!(net.ends[0].is_established(), "{resend:?}");
        assert_eq!(net.ends[0].stats().syn_retransmits, 1);
        assert!(net.ends[0].rto() <= ms(3_000), "{resend:?}: {:?}", net.ends[0].rto());
        net.run(at(20_000));
        assert_eq!(net.ends[1].delivered(), 5_000);
    }
}

/// Silences that come more often than the timer expires: what is left of it goes on from one to the next.
#[test]
fn a_lost_syn_goes_again_however_often_its_sender_is_frozen() {
    let config = TcpConfig { rto_initial: ms(1_000), ..config(2) };
    let link = LinkConfig { rate: BitRate::from_mbps(2), delay: ms(20), queue: 50 };
    let mut net = Net::new((&config, Source::Finite(Bytes(5_000))), (&config, Source::None), link);
    net.hook = Box::new(|now, _, _, _| if now < at(100) { Fate::Drop } else { Fate::Pass });
    for half in 0..20 {
        let now = at(half * 500);
        net.run(now);
        net.now = now;
        net.ends[0].freeze(now);
        net.run(at(half * 500 + 100));
        net.now = at(half * 500 + 100);
        net.ends[0].thaw(net.now, Resend::Nothing);
    }
    assert!(net.ends[0].is_established());
}
