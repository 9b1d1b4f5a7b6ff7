//! Dialogues with the gate: what it is told and sees, and what it answers.

use core::net::IpAddr;

use super::*;
use crate::action::AckSpec;
use crate::packet::{
    Ecn, Endpoint, FlowKey, Origin, PacketId, StationId, SynOptions, TcpSegment, TcpTimestamp,
};
use crate::time::Duration;
use crate::units::Seq;

/// A gate with one connection, whose host has sent from 1000 on and whose receiver's numbers start at 500.
struct Host {
    gate: SnrGate,
    out: Actions,
    now: Instant,
}

fn key(port: u16) -> FlowKey {
    FlowKey {
        correspondent: Endpoint { addr: IpAddr::from([192, 0, 2, 1]), port: 443 },
        station: Endpoint { addr: IpAddr::from([10, 0, 0, 2]), port },
    }
}

impl Host {
    fn new(config: SnrGateConfig) -> Self {
        Self { gate: SnrGate::new(&config), out: Actions::new(), now: Instant::from_millis(1) }
    }

    /// A host that has sent 1000 bytes, and got an ACK of the SYN with a window of 300.
    fn sending(config: SnrGateConfig) -> Self {
        let mut host = Self::new(config);
        let _ = host.down(TcpSegment { seq: Seq(500), ack: Seq(1000), window: 300, ..ack() });
        let _ = host.up(data(1000));
        host
    }

    fn packet(&mut self, direction: Direction, port: u16, tcp: &TcpSegment) -> Verdict {
        let view = PacketView {
            id: PacketId(1),
            direction,
            origin: Origin::Arrival,
            station: StationId(0),
            flow: &key(port),
            tcp,
            len: tcp.payload_len + 40,
            ecn: Ecn::NotEct,
        };
        self.gate.on_packet(self.now, &view, &mut self.out)
    }

    fn down(&mut self, tcp: TcpSegment) -> Verdict {
        self.packet(Direction::Downlink, 1, &tcp)
    }

    fn up(&mut self, tcp: TcpSegment) -> Verdict {
        self.packet(Direction::Uplink, 1, &tcp)
    }

    /// A sample 100 ms after what was last.
    fn snr(&mut self, db: f32) -> Vec<Action> {
        self.wait(100);
        self.sample(self.now, db)
    }

    fn sample(&mut self, taken: Instant, db: f32) -> Vec<Action> {
        let kind = LinkEventKind::Snr { station: StationId(0), db };
        let event = LinkEvent { detected_at: self.now, effective_at: Some(taken), kind };
        self.gate.on_link(self.now, event, &mut self.out);
        self.out.drain().collect()
    }

    /// Time passes, without the gate's own timer.
    fn wait(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    /// The gate's timer fires, if it is due.
    fn timer(&mut self) -> Vec<Action> {
        if self.gate.next_timeout().is_some_and(|due| due <= self.now) {
            self.gate.on_timeout(self.now, &mut self.out);
        }
        self.out.drain().collect()
    }
}

fn ack() -> TcpSegment {
    TcpSegment { flags: TcpFlags::ACK, ..TcpSegment::default() }
}

fn data(seq: u32) -> TcpSegment {
    TcpSegment { seq: Seq(seq), ack: Seq(500), payload_len: 1000, window: 60_000, ..ack() }
}

fn told(ack: u32, window: u16) -> Action {
    Action::InjectAck(AckSpec {
        flow: key(1),
        direction: Direction::Downlink,
        seq: Seq(500),
        ack: Seq(ack),
        window,
        timestamp: None,
        ece: false,
    })
}

const KEEP: Verdict = Verdict::Forward(Rewrite::NONE);

/// Single samples against 4 dB, and 5 dB to send again.
fn plain() -> SnrGateConfig {
    SnrGateConfig { averaged: 1, ..SnrGateConfig::hysteresis() }
}

#[test]
fn a_bad_signal_closes_at_once_and_a_good_one_reopens_with_the_receivers_window() {
    let mut host = Host::sending(plain());
    assert_eq!(host.snr(9.0), []);
    assert_eq!(host.snr(3.0), [told(1000, 0)]);
    assert_eq!(host.snr(2.0), [], "it knows");
    assert_eq!(host.snr(4.5), [], "within the margin");
    assert_eq!(host.snr(5.5), [told(1000, 300)]);
    let metrics = host.gate.metrics();
    assert_eq!((metrics.windows_closed, metrics.windows_reopened, metrics.windows_closed_now), (1, 1, 0));
    assert_eq!((metrics.silences, metrics.acks_injected), (1, 2));
}

#[test]
fn acks_that_pass_a_shut_gate_lose_their_window_and_the_last_one_is_what_reopens() {
    let mut host = Host::sending(plain());
    host.snr(3.0);
    let passing = TcpSegment { seq: Seq(500), ack: Seq(1500), window: 290, ..ack() };
    assert_eq!(host.down(passing), Verdict::Forward(Rewrite::window(0)));
    // An older one that comes late changes nothing of what is known.
    let late = TcpSegment { seq: Seq(500), ack: Seq(1200), window: 1, ..ack() };
    assert_eq!(host.down(late), Verdict::Forward(Rewrite::window(0)));
    assert_eq!(host.snr(9.0), [told(1500, 290)]);
    assert_eq!(host.down(TcpSegment { ack: Seq(2000), ..passing }), KEEP);
}

#[test]
fn a_full_window_ends_with_what_was_sent_and_the_papers_is_zero() {
    for (closed, at_once, passing) in [(Closed::Full, 2000, 1000), (Closed::Zero, 0, 0)] {
        let mut host = Host::new(SnrGateConfig { closed, ..plain() });
        let syn = TcpSegment { seq: Seq(999), flags: TcpFlags::SYN, ..TcpSegment::default() };
        let _ = host.up(syn);
        let flags = TcpFlags::SYN | TcpFlags::ACK;
        let _ = host.down(TcpSegment { seq: Seq(499), ack: Seq(1000), window: 9000, flags, ..syn });
        let _ = (host.up(data(1000)), host.up(data(2000)));
        let expected: Vec<Action> = [0, at_once]
            .into_iter()
            .take(1 + usize::from(at_once > 0))
            .map(|window| told(1000, window))
            .collect();
        assert_eq!(host.snr(3.0), expected, "{closed:?}");
        // A retransmission sends nothing new; what is acknowledged is no longer under way.
        let _ = host.up(data(1000));
        let middle = TcpSegment { seq: Seq(500), ack: Seq(2000), window: 8000, ..ack() };
        assert_eq!(host.down(middle), Verdict::Forward(Rewrite::window(passing)), "{closed:?}");
        // A receiver whose window is smaller still is the one that stops its sender.
        let full = TcpSegment { window: 900, ..middle };
        let keeps = if closed == Closed::Full { KEEP } else { Verdict::Forward(Rewrite::window(0)) };
        assert_eq!(host.down(full), keeps, "{closed:?}");
        assert_eq!(host.snr(9.0), [told(2000, 900)]);
    }
}

#[test]
fn data_retransmissions_and_probes_of_the_host_pass_a_shut_gate() {
    let mut host = Host::sending(plain());
    host.snr(3.0);
    for segment in [data(2000), data(1000), TcpSegment { seq: Seq(999), payload_len: 0, ..data(0) }] {
        assert_eq!(host.up(segment), KEEP);
        assert!(host.out.is_empty());
    }
}

#[test]
fn a_connection_that_starts_behind_a_shut_gate_is_stopped_with_its_first_data() {
    let mut host = Host::new(plain());
    host.snr(3.0);
    let syn = TcpSegment { seq: Seq(999), window: 60_000, flags: TcpFlags::SYN, ..TcpSegment::default() };
    let scaled = SynOptions { window_scale: Some(3), ..SynOptions::default() };
    assert_eq!(host.up(TcpSegment { syn: scaled, ..syn }), KEEP);
    let answer = TcpSegment {
        seq: Seq(499),
        ack: Seq(1000),
        window: 2400,
        flags: TcpFlags::SYN | TcpFlags::ACK,
        syn: scaled,
        ..TcpSegment::default()
    };
    assert_eq!(host.down(answer), KEEP, "a SYN's window is not the gate's to change");
    assert!(host.out.is_empty());
    assert_eq!(host.up(data(1000)), KEEP);
    // The window ends with the 1000 bytes sent, in steps of 8.
    assert_eq!(host.out.drain().collect::<Vec<_>>(), [told(1000, 0), told(1000, 125)]);
    // The SYN's window was not scaled; an ACK that repeats it is.
    assert_eq!(host.snr(9.0), [told(1000, 300)]);
}

#[test]
fn a_gate_whose_samples_stop_coming_opens_and_stays_open_until_the_signal_is_good() {
    let mut host = Host::sending(plain());
    host.snr(3.0);
    host.wait(999);
    assert_eq!(host.timer(), []);
    host.wait(1);
    assert_eq!(host.timer(), [told(1000, 300)]);
    assert_eq!(host.gate.next_timeout(), None);
    assert_eq!(host.snr(2.0), [], "overruled");
    assert_eq!(host.snr(9.0), []);
    assert_eq!(host.snr(2.0), [told(1000, 0)], "armed again");
}

#[test]
fn a_signal_that_stays_bad_does_not_starve_the_host() {
    let mut host = Host::sending(plain());
    host.snr(3.0);
    let mut opened = None;
    for step in 1..200 {
        host.snr(3.0);
        if !host.timer().is_empty() {
            opened.get_or_insert(step * 100);
        }
    }
    assert_eq!(opened, Some(10_000));
    assert_eq!(host.gate.metrics().windows_closed_now, 0);
}

#[test]
fn samples_that_are_wrong_late_or_doubled_neither_shut_nor_keep_shut() {
    let mut host = Host::sending(plain());
    host.snr(9.0);
    let newest = host.now;
    for (taken, db) in [(newest, 1.0), (Instant::ZERO, 1.0), (newest + Duration::from_millis(50), f32::NAN)] {
        host.wait(10);
        assert_eq!(host.sample(taken, db), []);
    }
    assert_eq!(host.sample(newest + Duration::from_secs(99), f32::NEG_INFINITY), []);
    assert_eq!(host.snr(3.0), [told(1000, 0)]);
    // Not-a-number is no sample: the gate opens as if none came.
    for _ in 0..9 {
        assert_eq!((host.snr(f32::NAN), host.timer()), (Vec::new(), Vec::new()));
    }
    host.wait(100);
    assert_eq!(host.timer(), [told(1000, 300)]);
}

#[test]
fn the_papers_rule_shuts_only_while_the_signal_falls() {
    let mut host = Host::sending(SnrGateConfig::default());
    for db in [3.0, 3.1, 2.9, 3.0, 3.0] {
        assert_eq!(host.snr(db), [], "it stands still");
    }
    for db in [9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 8.0, 7.0, 6.0] {
        assert_eq!(host.snr(db), []);
    }
    assert_eq!(host.snr(4.5), [told(1000, 0)]);
    assert_eq!(host.snr(5.1), [told(1000, 300)]);
}

#[test]
fn what_the_gate_has_no_business_with_is_left_alone() {
    // A receiver's own zero window.
    let mut host = Host::new(plain());
    let _ = host.down(TcpSegment { seq: Seq(500), ack: Seq(1000), window: 0, ..ack() });
    let _ = host.up(data(1000));
    assert_eq!((host.snr(3.0), host.snr(9.0)), (Vec::new(), Vec::new()));
    // A host that only receives.
    let mut host = Host::new(plain());
    let _ = host.down(TcpSegment { seq: Seq(500), ack: Seq(1000), window: 300, payload_len: 100, ..ack() });
    let _ = host.up(TcpSegment { seq: Seq(1000), ack: Seq(600), window: 60_000, ..ack() });
    assert_eq!(host.snr(3.0), []);
    assert_eq!(host.down(TcpSegment { seq: Seq(600), ack: Seq(1000), window: 300, ..ack() }), KEEP);
    // A signed connection.
    let mut host = Host::new(plain());
    let _ = host.down(TcpSegment { seq: Seq(500), ack: Seq(1000), window: 300, signed: true, ..ack() });
    let _ = host.up(TcpSegment { signed: true, ..data(1000) });
    assert_eq!(host.snr(3.0), []);
    assert_eq!(
        host.down(TcpSegment { seq: Seq(500), ack: Seq(1500), window: 300, signed: true, ..ack() }),
        KEEP
    );
    // One that has ended: its host has sent all, and all has arrived.
    let mut host = Host::sending(plain());
    let _ = host.up(TcpSegment { flags: TcpFlags::ACK | TcpFlags::FIN, ..data(2000) });
    let _ = host.down(TcpSegment { seq: Seq(500), ack: Seq(3001), window: 300, ..ack() });
    assert_eq!(host.snr(3.0), []);
    // One that was reset while closed.
    let mut host = Host::sending(plain());
    host.snr(3.0);
    let _ = host.down(TcpSegment { flags: TcpFlags::RST, seq: Seq(500), ..ack() });
    assert_eq!(host.snr(9.0), []);
    assert_eq!(host.gate.metrics().windows_closed_now, 0);
}

#[test]
fn what_a_stranger_sends_leaves_the_gate_shut_and_lets_it_open() {
    let mut host = Host::sending(plain());
    let _ = host.up(TcpSegment { ack: Seq(500), ..data(2000) });
    let forged = TcpSegment { seq: Seq(1 << 30), ack: Seq(3000), window: 60_000, ..ack() };
    assert_eq!(host.snr(3.0), [told(1000, 0)]);
    for segment in [
        forged,
        TcpSegment { signed: true, ..forged },
        TcpSegment { flags: TcpFlags::RST, ..forged },
        TcpSegment { flags: TcpFlags::SYN, ..forged },
        TcpSegment { flags: TcpFlags::SYN | TcpFlags::ACK, signed: true, ..forged },
    ] {
        assert_eq!(host.down(segment), KEEP, "the host's kernel throws it away: {segment:?}");
    }
    assert_eq!(host.snr(9.0), [told(1000, 300)]);
}

#[test]
fn an_ack_of_what_was_never_sent_is_not_repeated() {
    let mut host = Host::sending(plain());
    let _ = host.down(TcpSegment { seq: Seq(500), ack: Seq(900_000), window: 9, ..ack() });
    assert_eq!(host.snr(3.0), [told(1000, 0)]);
}

#[test]
fn the_receivers_timestamp_is_repeated_with_its_ack() {
    let stamp = Some(TcpTimestamp { value: 7, echo: 9 });
    let mut host = Host::new(plain());
    let _ = host.down(TcpSegment { seq: Seq(500), ack: Seq(1000), window: 300, timestamp: stamp, ..ack() });
    let _ = host.up(data(1000));
    let [Action::InjectAck(spec)] = host.snr(3.0)[..] else { panic!("one ACK") };
    assert_eq!((spec.timestamp, spec.window), (stamp, 0));
}

#[test]
fn a_connection_whose_window_is_closed_makes_no_room() {
    let mut host = Host::sending(SnrGateConfig { max_flows: 1, ..plain() });
    assert_eq!(host.snr(3.0), [told(1000, 0)]);
    for port in [2, 3, 2, 3] {
        let _ = host.packet(Direction::Uplink, port, &data(1000));
        assert!(host.out.is_empty(), "opened, it would send, be new itself, and open the next");
    }
    assert_eq!((host.gate.metrics().flows, host.gate.metrics().flow_evictions), (1, 0));
    assert_eq!(host.snr(9.0), [told(1000, 300)]);
    let _ = host.packet(Direction::Uplink, 2, &data(1000));
    assert_eq!((host.gate.metrics().flows, host.gate.metrics().flow_evictions), (1, 1));
}

#[test]
fn flush_opens_everything() {
    let mut host = Host::sending(plain());
    host.snr(3.0);
    host.gate.flush(host.now, &mut host.out);
    assert_eq!(host.out.drain().collect::<Vec<_>>(), [told(1000, 300)]);
    assert_eq!((host.gate.next_timeout(), host.gate.is_holding()), (None, false));
}

#[test]
fn a_connection_anew_on_the_same_ports_is_gated_by_its_own_numbers() {
    let mut host = Host::sending(plain());
    let syn = TcpSegment { seq: Seq(70_000), flags: TcpFlags::SYN, window: 60_000, ..TcpSegment::default() };
    let _ = host.up(syn);
    let answer = TcpSegment {
        seq: Seq(80_000),
        ack: Seq(70_001),
        window: 2000,
        flags: TcpFlags::SYN | TcpFlags::ACK,
        ..TcpSegment::default()
    };
    let _ = host.down(answer);
    let _ = host.up(TcpSegment { ack: Seq(80_001), ..data(70_001) });
    let [Action::InjectAck(zero), Action::InjectAck(full)] = host.snr(3.0)[..] else { panic!("two ACKs") };
    assert_eq!((zero.seq, zero.ack, zero.window), (Seq(80_001), Seq(70_001), 0));
    assert_eq!(full, AckSpec { window: 1000, ..zero });
    // A SYN that nobody answers changes nothing.
    let _ = host.up(TcpSegment { seq: Seq(5), ..syn });
    let [Action::InjectAck(spec)] = host.snr(9.0)[..] else { panic!("one ACK") };
    assert_eq!((spec.ack, spec.window), (Seq(70_001), 2000));
}
