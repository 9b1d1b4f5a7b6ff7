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

use serde::{Deserialize, Serialize};

use crate::action::{Actions, DropReason, Report, Rewrite, Verdict};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::packet::{DatagramView, PacketView};
use crate::time::Instant;

/// Anything a mechanism can be told.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A packet crosses the base station, or came back from the transmit queue.
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

    /// A TCP packet crosses the base station.
    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict;

    /// A UDP datagram crosses the base station. A mechanism that has nothing to do with datagrams lets them
    /// pass.
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

/// Counters of a mechanism. Gauges say so; everything else only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metrics {
    /// TCP packets seen.
    pub packets: u64,
    /// Datagrams seen.
    #[serde(default)]
    pub datagrams: u64,
    /// Datagrams answered with `Hold`; they count among the `holds`, too.
    #[serde(default)]
    pub datagram_holds: u64,
    /// Gauge: packets held now.
    pub held_packets: u64,
    /// Gauge: bytes held now.
    pub held_bytes: u64,
    /// Most bytes held at once so far.
    pub held_bytes_peak: u64,
    /// Gauge: most bytes that may be held at present; 0: the mechanism has no such limit.
    #[serde(default)]
    pub held_bytes_limit: u64,
    /// Packets answered with `Hold`.
    pub holds: u64,
    /// Held packets released.
    pub released: u64,
    /// Packets dropped or discarded, by [`DropReason`] in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Gauge: bytes of forwarded packets of which copies are kept now.
    pub kept_bytes: u64,
    /// Most bytes kept as copies at once so far.
    pub kept_bytes_peak: u64,
    /// Copies sent once more.
    pub copies_sent: u64,
    /// Reports to the other end of the radio.
    pub reports: u64,
    /// Uplink requests made ahead of a packet.
    pub uplink_requests: u64,
    /// Uplink requests made ahead of a packet that did not come in time.
    pub uplink_requests_wrong: u64,
    /// Gauge: frames ahead of a packet that its uplink request is made (lookahead's N).
    pub uplink_lead_frames: u64,
    /// ACKs injected.
    pub acks_injected: u64,
    /// Times a flow's window was closed.
    pub windows_closed: u64,
    /// Times a flow's window was opened again.
    pub windows_reopened: u64,
    /// Gauge: flows whose window is closed now.
    pub windows_closed_now: u64,
    /// Windows made smaller in passing, but not closed.
    pub windows_clamped: u64,
    /// Window probes answered.
    pub probes_answered: u64,
    /// Gauge: flows in the table.
    pub flows: u64,
    /// Flows evicted to make room.
    pub flow_evictions: u64,
    /// Packets of flows first seen after their handshake, so with unknown window scale.
    pub midstream_flows: u64,
    /// Silences seen (network-wide or of a station).
    pub silences: u64,
    /// Gauge: rate measured of what goes down where nobody tells it, payload bits/s, over all stations; 0
    /// where it is told or not known yet.
    #[serde(default)]
    pub measured_rate: u64,
    /// Events of stations that are not tracked, because their numbers are too high; they did nothing.
    pub untracked_events: u64,
}

impl Metrics {
    /// The sums of both: of one mechanism at several nodes.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut dropped = self.dropped;
        for (sum, more) in dropped.iter_mut().zip(other.dropped) {
            *sum += more;
        }
        Self {
            packets: self.packets + other.packets,
            datagrams: self.datagrams + other.datagrams,
            datagram_holds: self.datagram_holds + other.datagram_holds,
            held_packets: self.held_packets + other.held_packets,
            held_bytes: self.held_bytes + other.held_bytes,
            held_bytes_peak: self.held_bytes_peak + other.held_bytes_peak,
            held_bytes_limit: self.held_bytes_limit + other.held_bytes_limit,
            holds: self.holds + other.holds,
            released: self.released + other.released,
            dropped,
            kept_bytes: self.kept_bytes + other.kept_bytes,
            kept_bytes_peak: self.kept_bytes_peak + other.kept_bytes_peak,
            copies_sent: self.copies_sent + other.copies_sent,
            reports: self.reports + other.reports,
            uplink_requests: self.uplink_requests + other.uplink_requests,
            uplink_requests_wrong: self.uplink_requests_wrong + other.uplink_requests_wrong,
            uplink_lead_frames: self.uplink_lead_frames.max(other.uplink_lead_frames),
            acks_injected: self.acks_injected + other.acks_injected,
            windows_closed: self.windows_closed + other.windows_closed,
            windows_reopened: self.windows_reopened + other.windows_reopened,
            windows_closed_now: self.windows_closed_now + other.windows_closed_now,
            windows_clamped: self.windows_clamped + other.windows_clamped,
            probes_answered: self.probes_answered + other.probes_answered,
            flows: self.flows + other.flows,
            flow_evictions: self.flow_evictions + other.flow_evictions,
            midstream_flows: self.midstream_flows + other.midstream_flows,
            silences: self.silences + other.silences,
            measured_rate: self.measured_rate + other.measured_rate,
            untracked_events: self.untracked_events + other.untracked_events,
        }
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
