//! The one contract that simulator, testbed and agents drive: [`Mechanism`].
//!
//! # Calling contract
//! - Time never runs backwards from one call to the next.
//! - After **every** call the driver drains [`Actions`] in order and completely, before the next call.
//! - A packet's verdict takes effect before the actions of the same call, which may name that very packet.
//! - A packet answered with [`Verdict::Hold`] stays with the driver until an action names it; each held
//!   packet is named exactly once, by `Release`, `ReleaseAndKeep` or `Discard`.
//! - Of a packet answered with [`Verdict::ForwardAndKeep`], or let go by `ReleaseAndKeep`, the driver keeps a
//!   copy until `Forget` names it, exactly once; in between `SendCopy` may name it any number of times.
//! - The driver calls [`on_timeout`](Mechanism::on_timeout) at or after
//!   [`next_timeout`](Mechanism::next_timeout), which may change with every call.
//! - On a connection whose segments are signed ([`TcpSegment::signed`](crate::packet::TcpSegment::signed)) a
//!   mechanism changes no header and injects nothing.
//! - A datagram ([`on_datagram`](Mechanism::on_datagram)) is a packet like any other to this contract, but
//!   that a mechanism rewrites nothing in it and keeps no copy of it.
//! - [`flush`](Mechanism::flush) lets go of everything: after it the mechanism holds no packet, keeps no copy
//!   and no window closed.

use crate::action::{Actions, Report, Rewrite, Verdict};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::packet::{DatagramView, PacketView};
use crate::time::Instant;

pub use crate::metrics::Metrics;

/// Anything a mechanism can be told.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A packet passes the mechanism's place, or came back from the transmit queue.
    Packet(PacketView<'a>),
    /// A datagram does.
    Datagram(DatagramView<'a>),
    /// The radio reports.
    Link(LinkEvent),
    /// The mechanism at the other end of the radio reports.
    Report(Report),
    /// The time of `next_timeout` has come.
    Timeout,
}

/// Where a mechanism stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// At the base station, between wire and radio.
    BaseStation,
    /// At every station, an instance each.
    Stations,
    /// At the correspondent host.
    Correspondent,
}

impl Place {
    /// Every place.
    pub const ALL: [Self; 3] = [Self::BaseStation, Self::Stations, Self::Correspondent];

    /// Its name in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BaseStation => "base-station",
            Self::Stations => "stations",
            Self::Correspondent => "correspondent",
        }
    }

    /// What it means, in a sentence.
    #[must_use]
    pub const fn doc(self) -> &'static str {
        match self {
            Self::BaseStation => "At the base station, between wire and radio.",
            Self::Stations => "At every station, an instance each.",
            Self::Correspondent => "At the correspondent host.",
        }
    }
}

/// A mechanism that keeps TCP fast across silences: a pure state machine.
pub trait Mechanism: Send {
    /// The mechanism's name as in scenario files and results.
    fn name(&self) -> &'static str;

    /// A TCP packet passes the mechanism's place.
    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict;

    /// A UDP datagram passes the mechanism's place. A mechanism that has nothing to do with datagrams lets
    /// them pass.
    fn on_datagram(&mut self, _now: Instant, _datagram: &DatagramView<'_>, _out: &mut Actions) -> Verdict {
        Verdict::Forward(Rewrite::NONE)
    }

    /// The radio reports.
    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions);

    /// False if [`on_link`](Self::on_link) passes over every event like this one, so that a driver can say so
    /// to whoever tells it. The end of a silence is heard where its start is. Default: every event is heard.
    fn listens_to(&self, _kind: &LinkEventKind) -> bool {
        true
    }

    /// The time of `next_timeout` has come.
    fn on_timeout(&mut self, now: Instant, out: &mut Actions);

    /// The mechanism at the other end of the radio reports. True if the report was for this one; otherwise
    /// the driver asks the next at the same node.
    fn on_report(&mut self, _now: Instant, _report: &Report, _out: &mut Actions) -> bool {
        false
    }

    /// When `on_timeout` wants to be called next. This is how a mechanism sets a timer. Cheap: asked after
    /// every event.
    fn next_timeout(&self) -> Option<Instant>;

    /// True while the mechanism holds downlink packets, or copies of them wait for room. A driver that sees
    /// its transmit queue then tells [`TransmitRoom`](crate::link_event::LinkEventKind::TransmitRoom) as the
    /// queue drains. Cheap: asked once a transmitted frame.
    fn is_holding(&self) -> bool;

    /// Lets everything go (agent shutdown, end of a run): releases all held packets in order, whatever the
    /// radio's state, and reopens every closed window.
    fn flush(&mut self, now: Instant, out: &mut Actions);

    /// Counters so far.
    fn metrics(&self) -> Metrics;

    /// Name and counters of each mechanism that this one is made of, from the wire to the radio: its own,
    /// unless it is a [chain](crate::chain::Chain).
    fn members(&self) -> Vec<(&'static str, Metrics)> {
        vec![(self.name(), self.metrics())]
    }

    /// One entry for all inputs; answers a verdict exactly for a packet or a datagram.
    fn step(&mut self, now: Instant, input: Input<'_>, out: &mut Actions) -> Option<Verdict> {
        match input {
            Input::Packet(packet) => Some(self.on_packet(now, &packet, out)),
            Input::Datagram(datagram) => Some(self.on_datagram(now, &datagram, out)),
            Input::Link(event) => {
                self.on_link(now, event, out);
                None
            }
            Input::Report(report) => {
                self.on_report(now, &report, out);
                None
            }
            Input::Timeout => {
                self.on_timeout(now, out);
                None
            }
        }
    }
}

impl<M: Mechanism + ?Sized> Mechanism for Box<M> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        (**self).on_packet(now, packet, out)
    }

    fn on_datagram(&mut self, now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        (**self).on_datagram(now, datagram, out)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        (**self).on_link(now, event, out);
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        (**self).listens_to(kind)
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        (**self).on_timeout(now, out);
    }

    fn on_report(&mut self, now: Instant, report: &Report, out: &mut Actions) -> bool {
        (**self).on_report(now, report, out)
    }

    fn next_timeout(&self) -> Option<Instant> {
        (**self).next_timeout()
    }

    fn is_holding(&self) -> bool {
        (**self).is_holding()
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        (**self).flush(now, out);
    }

    fn metrics(&self) -> Metrics {
        (**self).metrics()
    }

    fn members(&self) -> Vec<(&'static str, Metrics)> {
        (**self).members()
    }
}

/// The mechanism that does nothing: the plain router that every comparison has as its baseline.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlainRouter {
    packets: u64,
}

impl Mechanism for PlainRouter {
    fn name(&self) -> &'static str {
        "none"
    }

    fn on_packet(&mut self, _now: Instant, _packet: &PacketView<'_>, _out: &mut Actions) -> Verdict {
        self.packets += 1;
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, _now: Instant, _event: LinkEvent, _out: &mut Actions) {}

    fn listens_to(&self, _kind: &LinkEventKind) -> bool {
        false
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
        Metrics { packets: self.packets, ..Metrics::default() }
    }
}
