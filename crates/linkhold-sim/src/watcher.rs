//! A mechanism that only watches: the driver takes requests to the radio from it, and nothing else.
//!
//! In an open cell ([`CellBuilder::build_open`](crate::CellBuilder::build_open)) the network carries a
//! kernel's packets, of which it has the headers only. A mechanism in a station's radio sees them, hears the
//! radio, and may ask for uplink turns. If it answered anything else, the packet would leave as it came all
//! the same: a debug build stops there, because such a mechanism must not declare
//! [`ONLY_WATCHES`](linkhold_core::settings::Registered::ONLY_WATCHES).

use linkhold_core::action::{Action, Actions, Report, Rewrite, Verdict};
use linkhold_core::link_event::{LinkEvent, LinkEventKind};
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_core::packet::{DatagramView, PacketView};
use linkhold_core::time::Instant;

/// The mechanism, with what it answers before it is sifted.
pub(crate) struct Watcher {
    inner: Box<dyn Mechanism>,
    answers: Actions,
}

impl Watcher {
    pub(crate) fn new(inner: Box<dyn Mechanism>) -> Self {
        Self { inner, answers: Actions::new() }
    }

    fn pass_on(&mut self, out: &mut Actions) {
        let name = self.inner.name();
        for action in self.answers.drain() {
            match action {
                Action::RequestUplink { .. } => out.push(action),
                Action::Release { .. }
                | Action::ReleaseAndKeep { .. }
                | Action::Discard { .. }
                | Action::SendCopy { .. }
                | Action::Forget { .. }
                | Action::Report(_)
                | Action::InjectAck(_)
                | Action::Reclaim { .. }
                | Action::Sender { .. } => {
                    debug_assert!(false, "{name} only watches here, and wanted {action:?}");
                }
            }
        }
    }
}

impl Mechanism for Watcher {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let verdict = self.inner.on_packet(now, packet, &mut self.answers);
        let name = self.inner.name();
        debug_assert_eq!(verdict, Verdict::Forward(Rewrite::NONE), "{name} only watches here");
        self.pass_on(out);
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_datagram(&mut self, now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        let verdict = self.inner.on_datagram(now, datagram, &mut self.answers);
        let name = self.inner.name();
        debug_assert_eq!(verdict, Verdict::Forward(Rewrite::NONE), "{name} only watches here");
        self.pass_on(out);
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        self.inner.on_link(now, event, &mut self.answers);
        self.pass_on(out);
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        self.inner.listens_to(kind)
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        self.inner.on_timeout(now, &mut self.answers);
        self.pass_on(out);
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        let taken = self.inner.on_report(now, report, &mut self.answers);
        self.pass_on(out);
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
        self.pass_on(out);
    }

    fn metrics(&self) -> Metrics {
        self.inner.metrics()
    }
}
