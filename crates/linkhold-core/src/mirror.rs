//! A base station's mechanism at a station: what the station cannot send is held and paced at its source.
//!
//! Source: dsasync section VII's future work, an agent on each station. To the mechanism the world is turned
//! around: the host's own segments are its downlink, the host's stack is its correspondent, and the other end
//! of each connection, beyond the radio, its station. So it holds what its host would send into a silence,
//! closes the windows of its host's senders, and paces what they send at the radio's rate.
//!
//! Everything that the mechanism is told or answers is turned around on its way; nothing is decided here. All
//! far ends are one station to it, and every silence that its host hears of is the whole network's
//! ([`silences`]).

mod silences;

use crate::action::{AckSpec, Action, Actions, Report, Verdict};
use crate::link_event::{LinkEvent, LinkEventKind, Scope};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{DatagramView, FlowKey, PacketView, StationId};
use crate::time::Instant;

use silences::BothSilences;

/// A mechanism whose directions are turned around.
pub(crate) struct Mirror {
    inner: Box<dyn Mechanism>,
    /// What the mechanism answered, before it is turned around.
    answers: Actions,
    /// The host, as the last packet named it.
    host: StationId,
    /// The silences under way and announced. To the mechanism one of the network and one of the host alone
    /// are the same silence.
    silences: BothSilences,
}

const fn turned(key: &FlowKey) -> FlowKey {
    FlowKey { correspondent: key.station, station: key.correspondent }
}

impl Mirror {
    pub fn new(inner: Box<dyn Mechanism>) -> Self {
        Self { inner, answers: Actions::new(), host: StationId(0), silences: BothSilences::new() }
    }

    fn answer(&mut self, out: &mut Actions) {
        for action in self.answers.drain() {
            out.push(match action {
                Action::InjectAck(spec) => {
                    let (flow, direction) = (turned(&spec.flow), spec.direction.opposite());
                    Action::InjectAck(AckSpec { flow, direction, ..spec })
                }
                Action::Report(report) => {
                    let (flow, direction) = (turned(&report.flow), report.direction.opposite());
                    Action::Report(Report { flow, direction, ..report })
                }
                Action::Sender { flow, command } => Action::Sender { flow: turned(&flow), command },
                Action::Reclaim { scope: _ } => Action::Reclaim { scope: Scope::Station(self.host) },
                Action::RequestUplink { station: _, bytes } => {
                    Action::RequestUplink { station: self.host, bytes }
                }
                same @ (Action::Release { .. }
                | Action::ReleaseAndKeep { .. }
                | Action::Discard { .. }
                | Action::SendCopy { .. }
                | Action::Forget { .. }) => same,
            });
        }
    }
}

/// An event of the host's radio, as a base station would hear it of its only station; `None`: the inner
/// mechanism is not told.
const fn as_the_only_station(kind: LinkEventKind) -> Option<LinkEventKind> {
    let (scope, station) = (Scope::Network, StationId(0));
    Some(match kind {
        LinkEventKind::FreezeStarted { cause, expected, .. } => {
            LinkEventKind::FreezeStarted { scope, cause, expected }
        }
        LinkEventKind::FreezeEnded { cause, .. } => LinkEventKind::FreezeEnded { scope, cause },
        LinkEventKind::SensingSchedule { period, duration, next, .. } => {
            LinkEventKind::SensingSchedule { scope, period, duration, next }
        }
        LinkEventKind::Snr { db, .. } => LinkEventKind::Snr { station, db },
        LinkEventKind::Grant { at, bytes, .. } => LinkEventKind::Grant { station, at, bytes },
        LinkEventKind::GrantUnused { bytes, .. } => LinkEventKind::GrantUnused { station, bytes },
        // A host does not leave itself.
        LinkEventKind::StationLeft { .. } => return None,
        LinkEventKind::ChannelSwitched { .. }
        | LinkEventKind::GrantFrames { .. }
        | LinkEventKind::TransmitRoom { .. } => kind,
    })
}

impl Mechanism for Mirror {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.host = packet.station;
        let flow = turned(packet.flow);
        let view = PacketView {
            direction: packet.direction.opposite(),
            station: StationId(0),
            flow: &flow,
            ..*packet
        };
        let verdict = self.inner.on_packet(now, &view, &mut self.answers);
        self.answer(out);
        verdict
    }

    fn on_datagram(&mut self, now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        self.host = datagram.station;
        let flow = turned(datagram.flow);
        let view = DatagramView {
            direction: datagram.direction.opposite(),
            station: StationId(0),
            flow: &flow,
            ..*datagram
        };
        let verdict = self.inner.on_datagram(now, &view, &mut self.answers);
        self.answer(out);
        verdict
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        let Self { inner, answers, silences, .. } = self;
        if matches!(event.kind, LinkEventKind::FreezeStarted { .. } | LinkEventKind::FreezeEnded { .. }) {
            silences.on_event(now, &event, |told| inner.on_link(now, told, answers));
        } else if let Some(kind) = as_the_only_station(event.kind) {
            inner.on_link(now, LinkEvent { kind, ..event }, answers);
        }
        self.answer(out);
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        as_the_only_station(*kind).is_some_and(|kind| self.inner.listens_to(&kind))
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        let Self { inner, answers, silences, .. } = self;
        // First, so that a silence which goes on is not ended by what was planned for a part of it.
        silences.on_timeout(now, |told| inner.on_link(now, told, answers));
        inner.on_timeout(now, answers);
        self.answer(out);
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        let (flow, direction) = (turned(&report.flow), report.direction.opposite());
        let taken = self.inner.on_report(now, &Report { flow, direction, ..*report }, &mut self.answers);
        self.answer(out);
        taken
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout().into_iter().chain(self.silences.next_timeout()).min()
    }

    fn is_holding(&self) -> bool {
        self.inner.is_holding()
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        self.inner.flush(now, &mut self.answers);
        self.answer(out);
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::action::DropReason;
    use crate::link_event::Cause;
    use crate::link_monitor::{LinkMonitor, LinkMonitorConfig};
    use crate::packet::{Direction, Ecn, Endpoint, Origin, PacketId, TcpSegment};
    use crate::time::Duration;
    use crate::units::Seq;

    /// Says what it was told, and answers with an ACK on the flow that it saw.
    struct Echo(std::sync::mpsc::Sender<String>);

    impl Mechanism for Echo {
        fn name(&self) -> &'static str {
            "echo"
        }
        fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
            let PacketView { direction, station, .. } = *packet;
            let said = format!("{direction:?} {station:?} to port {}", packet.flow.station.port);
            self.0.send(said).expect("somebody listens");
            out.push(Action::InjectAck(AckSpec {
                flow: *packet.flow,
                direction: Direction::Uplink,
                seq: Seq(1),
                ack: Seq(2),
                window: 0,
                timestamp: None,
                ece: false,
            }));
            Verdict::Drop(DropReason::BufferFull)
        }
        fn on_link(&mut self, _now: Instant, event: LinkEvent, _out: &mut Actions) {
            self.0.send(format!("{:?}", event.kind)).expect("somebody listens");
        }
        fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}
        fn next_timeout(&self) -> Option<Instant> {
            None
        }
        fn is_holding(&self) -> bool {
            false
        }
        fn flush(&mut self, _now: Instant, _out: &mut Actions) {}
        fn metrics(&self) -> Metrics {
            Metrics::default()
        }
    }

    #[test]
    fn what_the_host_sends_goes_down_and_the_window_is_closed_to_the_host() {
        let (say, said) = std::sync::mpsc::channel();
        let mut mirror = Mirror::new(Box::new(Echo(say)));
        let end = |port| Endpoint { addr: [192, 0, 2, 1].into(), port };
        let flow = FlowKey { correspondent: end(80), station: end(5000) };
        let packet = PacketView {
            id: PacketId(0),
            direction: Direction::Uplink,
            origin: Origin::Arrival,
            station: StationId(7),
            flow: &flow,
            tcp: &TcpSegment::default(),
            len: 40,
            ecn: Ecn::NotEct,
        };
        let mut out = Actions::new();
        let verdict = mirror.on_packet(Instant::ZERO, &packet, &mut out);
        assert_eq!(verdict, Verdict::Drop(DropReason::BufferFull));
        assert_eq!(said.try_recv().as_deref(), Ok("Downlink StationId(0) to port 80"));
        let actions: Vec<Action> = out.drain().collect();
        let [Action::InjectAck(spec)] = actions[..] else { panic!("{actions:?}") };
        assert_eq!((spec.flow, spec.direction), (flow, Direction::Downlink));
    }

    /// Is silent, as told: that is what "holding" says here.
    struct Follower(LinkMonitor);

    impl Follower {
        fn new() -> Self {
            let forever = Duration::from_secs(1_000_000);
            Self(LinkMonitor::new(&LinkMonitorConfig { max_silence: forever, ..Default::default() }))
        }
    }

    impl Mechanism for Follower {
        fn name(&self) -> &'static str {
            "follower"
        }
        fn on_packet(&mut self, _now: Instant, _packet: &PacketView<'_>, _out: &mut Actions) -> Verdict {
            Verdict::Drop(DropReason::BufferFull)
        }
        fn on_link(&mut self, now: Instant, event: LinkEvent, _out: &mut Actions) {
            let _ = self.0.on_event(now, &event);
        }
        fn on_timeout(&mut self, now: Instant, _out: &mut Actions) {
            while self.0.next_timeout().is_some_and(|due| due <= now) {
                let _ = self.0.on_timeout(now);
            }
        }
        fn next_timeout(&self) -> Option<Instant> {
            self.0.next_timeout()
        }
        fn is_holding(&self) -> bool {
            self.0.tfp(StationId(0))
        }
        fn flush(&mut self, _now: Instant, _out: &mut Actions) {}
        fn metrics(&self) -> Metrics {
            Metrics { silences: self.0.silences(), ..Metrics::default() }
        }
    }

    const NETWORK: Scope = Scope::Network;
    const HOST: Scope = Scope::Station(StationId(7));
    const CAUSE: Cause = Cause::Sensing;

    fn tell(mirror: &mut Mirror, at: u64, effective: u64, kind: LinkEventKind) {
        let [now, effective] = [at, effective].map(Instant::from_millis);
        let event = LinkEvent { detected_at: now, effective_at: Some(effective), kind };
        mirror.on_link(now, event, &mut Actions::new());
    }

    fn wait(mirror: &mut Mirror, until: u64) {
        while let Some(due) = mirror.next_timeout().filter(|due| *due <= Instant::from_millis(until)) {
            mirror.on_timeout(due, &mut Actions::new());
            assert!(mirror.next_timeout().is_none_or(|next| next > due), "a timeout moves on");
        }
    }

    /// Whether the mechanism is silent at each of these times, ms, after what was told by then.
    fn silent_at(told: &[(u64, u64, bool, Scope)], times: &[u64]) -> Vec<bool> {
        let mut mirror = Mirror::new(Box::new(Follower::new()));
        for &(at, effective, starts, scope) in told {
            let kind = if starts {
                LinkEventKind::FreezeStarted { scope, cause: CAUSE, expected: None }
            } else {
                LinkEventKind::FreezeEnded { scope, cause: CAUSE }
            };
            wait(&mut mirror, at);
            tell(&mut mirror, at, effective, kind);
        }
        let mut silent_at = |at: &u64| {
            wait(&mut mirror, *at);
            mirror.is_holding()
        };
        times.iter().map(&mut silent_at).collect()
    }

    #[test]
    fn a_silence_of_the_host_and_one_of_the_network_are_one_that_ends_with_the_later() {
        let both = [(0, 0, true, NETWORK), (1, 1, true, HOST), (2, 2, false, NETWORK)];
        assert_eq!(silent_at(&both, &[2, 500]), [true, true]);
        assert_eq!(silent_at(&[both.as_slice(), &[(3, 3, false, HOST)]].concat(), &[3, 500]), [false, false]);
    }

    #[test]
    fn of_a_silence_that_lasts_and_one_that_is_announced_each_has_its_own_end() {
        // The host's lies ahead when the network's ends.
        let ahead = [(0, 0, true, NETWORK), (1, 5000, true, HOST), (2, 2, false, NETWORK)];
        assert_eq!(silent_at(&ahead, &[2, 4999, 5000, 9000]), [false, false, true, true]);
        // The network's is called off while the host's lasts.
        let called_off =
            [(0, 0, true, HOST), (1, 5000, true, NETWORK), (2, 2, false, NETWORK), (3, 3, false, HOST)];
        assert_eq!(silent_at(&called_off, &[3, 5000]), [false, false]);
        assert_eq!(silent_at(&called_off[..3], &[3, 5000]), [true, true]);
        // The network's end lies ahead when the host's ends.
        let planned =
            [(0, 0, true, NETWORK), (1, 1, true, HOST), (2, 5000, false, NETWORK), (3, 3, false, HOST)];
        assert_eq!(silent_at(&planned, &[3, 4999, 5000]), [true, true, false]);
        // Nor is one that was planned for an announcement in whose place the host has told another.
        let replaced = [
            (0, 0, true, HOST),
            (0, 355, true, HOST),
            (26, 356, false, HOST),
            (26, 26, true, NETWORK),
            (26, 27, true, HOST),
        ];
        assert_eq!(silent_at(&replaced, &[26, 355, 356, 9000]), [true, true, true, true]);
        // An end that was planned for the host's alone is not the network's, which begins meanwhile.
        let meanwhile = [(0, 0, true, HOST), (1, 5000, false, HOST), (2, 4000, true, NETWORK)];
        assert_eq!(silent_at(&meanwhile, &[4999, 5000, 9000]), [true, true, true]);
    }

    proptest! {
        /// The mechanism is silent when the host is: by its own silences or the network's, as its link
        /// monitor has them if it hears of each by itself.
        #[test]
        fn the_mechanism_is_silent_when_the_host_is(
            story in proptest::collection::vec((any::<bool>(), any::<bool>(), 0usize..2, 0u64..400, 0u64..900, proptest::option::of(1u64..500)), 1..60)
        ) {
            let mut mirror = Mirror::new(Box::new(Follower::new()));
            let Follower(mut monitor) = Follower::new();
            let mut now = 0;
            for (starts, networks, cause, pause, ahead, length) in story {
                for ms in now + 1..=now + pause {
                    wait(&mut mirror, ms);
                    while let Some(due) = monitor.next_timeout().filter(|due| *due <= Instant::from_millis(ms)) {
                        let _ = monitor.on_timeout(due);
                    }
                    prop_assert_eq!(mirror.is_holding(), monitor.tfp(StationId(7)), "at {} ms", ms);
                }
                now += pause;
                let scope = if networks { NETWORK } else { HOST };
                let (cause, expected) = (Cause::ALL[cause], length.map(Duration::from_millis));
                let kind = if starts {
                    LinkEventKind::FreezeStarted { scope, cause, expected }
                } else {
                    LinkEventKind::FreezeEnded { scope, cause }
                };
                // Half of them are told as they happen.
                let effective = now + ahead.saturating_sub(450);
                tell(&mut mirror, now, effective, kind);
                let event = LinkEvent {
                    detected_at: Instant::from_millis(now),
                    effective_at: Some(Instant::from_millis(effective)),
                    kind,
                };
                let _ = monitor.on_event(Instant::from_millis(now), &event);
                prop_assert_eq!(mirror.is_holding(), monitor.tfp(StationId(7)), "at {} ms", now);
            }
        }
    }
}
