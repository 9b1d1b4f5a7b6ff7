//! A base station's mechanism at a station: what the station cannot send is held and paced at its source.
//!
//! Source: dsasync section VII's future work, an agent on each station. To the mechanism the world is turned
//! around: the host's own segments are its downlink, the host's stack is its correspondent, and the other end
//! of each connection, beyond the radio, its station. So it holds what its host would send into a silence,
//! closes the windows of its host's senders, and paces what they send at the radio's rate.
//!
//! Everything that the mechanism is told or answers is turned around on its way; nothing is decided here. All
//! far ends are one station to it, and every silence that its host hears of is the whole network's.

use crate::action::{AckSpec, Action, Actions, Report, Verdict};
use crate::host_silences::HostSilences;
use crate::link_event::{LinkEvent, LinkEventKind, Scope};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{DatagramView, FlowKey, PacketView, StationId};
use crate::time::Instant;

/// A mechanism whose directions are turned around.
pub(crate) struct Mirror {
    inner: Box<dyn Mechanism>,
    /// What the mechanism answered, before it is turned around.
    answers: Actions,
    /// The host, as the last packet named it.
    host: StationId,
    /// The silences under way. To the mechanism one of the network and one of the host alone are the same
    /// silence.
    silences: HostSilences,
}

const fn turned(key: &FlowKey) -> FlowKey {
    FlowKey { correspondent: key.station, station: key.correspondent }
}

impl Mirror {
    pub fn new(inner: Box<dyn Mechanism>) -> Self {
        Self { inner, answers: Actions::new(), host: StationId(0), silences: HostSilences::default() }
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
                same @ (Action::Release { .. }
                | Action::ReleaseAndKeep { .. }
                | Action::Discard { .. }
                | Action::SendCopy { .. }
                | Action::Forget { .. }
                | Action::RequestUplink { .. }) => same,
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
        if let LinkEventKind::FreezeStarted { scope, cause, .. } = event.kind {
            self.silences.started(scope, cause);
        }
        if let LinkEventKind::FreezeEnded { scope, cause } = event.kind {
            self.silences.ended(scope, cause);
            if self.silences.has(cause) {
                return;
            }
        }
        let Some(kind) = as_the_only_station(event.kind) else { return };
        self.inner.on_link(now, LinkEvent { kind, ..event }, &mut self.answers);
        self.answer(out);
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        as_the_only_station(*kind).is_some_and(|kind| self.inner.listens_to(&kind))
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        self.inner.on_timeout(now, &mut self.answers);
        self.answer(out);
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        let (flow, direction) = (turned(&report.flow), report.direction.opposite());
        let taken = self.inner.on_report(now, &Report { flow, direction, ..*report }, &mut self.answers);
        self.answer(out);
        taken
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.inner.next_timeout()
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
    use super::*;
    use crate::action::DropReason;
    use crate::link_event::Cause;
    use crate::packet::{Direction, Ecn, Endpoint, Origin, PacketId, TcpSegment};
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

    #[test]
    fn a_silence_of_the_host_and_one_of_the_network_are_one_that_ends_with_the_later() {
        let (say, said) = std::sync::mpsc::channel();
        let mut mirror = Mirror::new(Box::new(Echo(say)));
        let (network, host) = (Scope::Network, Scope::Station(StationId(7)));
        let mut tell =
            |kind| mirror.on_link(Instant::ZERO, LinkEvent::at(Instant::ZERO, kind), &mut Actions::new());
        let cause = Cause::Sensing;
        tell(LinkEventKind::FreezeStarted { scope: network, cause, expected: None });
        tell(LinkEventKind::FreezeStarted { scope: host, cause, expected: None });
        tell(LinkEventKind::FreezeEnded { scope: network, cause });
        let so_far: Vec<String> = said.try_iter().collect();
        assert!(so_far.iter().all(|kind| kind.contains("Network") && kind.contains("Started")), "{so_far:?}");
        tell(LinkEventKind::FreezeEnded { scope: host, cause });
        assert_eq!(said.try_iter().count(), 1);
    }
}
