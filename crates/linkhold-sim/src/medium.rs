//! What carries frames through the air: one cell, or a mesh. The network above treats them alike.

use linkhold_core::link_event::Scope;
use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;
use linkhold_mesh::map::Map;
use linkhold_mesh::routing::Message;
use linkhold_mesh::{Mesh, RouteNews};
use linkhold_radio::{
    Air, AirAccounting, AirOutput, Frame, Silence, StationTime, ToldAccounting, UplinkAccounting,
};

/// A cell's air or a mesh. An enum and not a trait object, because every frame crosses it. Its methods are
/// those of [`Air`], whose calling contract both keep.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a run has one, and every frame of a cell would pay for a box")]
pub enum Medium {
    /// A base station and its stations.
    Cell(Air),
    /// Nodes that carry each other's packets. A frame goes in at one node and comes out at another.
    Mesh(Box<Mesh>),
}

impl From<Air> for Medium {
    fn from(air: Air) -> Self {
        Self::Cell(air)
    }
}

impl From<Mesh> for Medium {
    fn from(mesh: Mesh) -> Self {
        Self::Mesh(Box::new(mesh))
    }
}

impl Medium {
    /// The mesh, if it is one.
    #[must_use]
    pub fn mesh(&self) -> Option<&Mesh> {
        match self {
            Self::Cell(_) => None,
            Self::Mesh(mesh) => Some(mesh),
        }
    }

    /// Where everybody is at `now`, if it is a mesh.
    pub(crate) fn map(&mut self, now: Instant) -> Option<Map> {
        match self {
            Self::Cell(_) => None,
            Self::Mesh(mesh) => Some(mesh.map(now)),
        }
    }

    /// Queues a frame at the radio that sends it.
    #[inline]
    pub fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) {
        match self {
            Self::Cell(air) => air.enqueue(now, frame, out),
            Self::Mesh(mesh) => mesh.enqueue(now, frame, out),
        }
    }

    /// When [`on_event`](Self::on_event) wants to be called next.
    #[inline]
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        match self {
            Self::Cell(air) => air.next_event(),
            Self::Mesh(mesh) => mesh.next_event(),
        }
    }

    /// Handles the next event if it is due at `now`.
    #[inline]
    pub fn on_event(&mut self, now: Instant, out: &mut AirOutput) {
        match self {
            Self::Cell(air) => air.on_event(now, out),
            Self::Mesh(mesh) => mesh.on_event(now, out),
        }
    }

    /// As [`Air::request_uplink`]; a mesh grants nothing.
    pub fn request_uplink(&mut self, now: Instant, station: StationId, bytes: Bytes) {
        match self {
            Self::Cell(air) => air.request_uplink(now, station, bytes),
            Self::Mesh(_) => {}
        }
    }

    /// As [`Air::tell_transmissions`].
    pub fn tell_transmissions(&mut self) -> bool {
        match self {
            Self::Cell(air) => air.tell_transmissions(),
            Self::Mesh(mesh) => mesh.tell_transmissions(),
        }
    }

    /// As [`Mesh::take_told`]; radios of a cell have no messages.
    pub(crate) fn take_told(&mut self) -> Option<Message> {
        match self {
            Self::Cell(_) => None,
            Self::Mesh(mesh) => mesh.take_told(),
        }
    }

    /// As [`Mesh::take_route_news`]; a cell has no routes.
    pub(crate) fn take_route_news(&mut self) -> Option<RouteNews> {
        match self {
            Self::Cell(_) => None,
            Self::Mesh(mesh) => mesh.take_route_news(),
        }
    }

    /// As [`Air::reclaim`]; a mesh gives nothing back, for no mechanism sees its queues.
    pub fn reclaim(&mut self, scope: Scope, into: &mut Vec<Frame>) {
        match self {
            Self::Cell(air) => air.reclaim(scope, into),
            Self::Mesh(_) => {}
        }
    }

    /// As [`Air::room`]; a mesh shows none.
    #[must_use]
    pub fn room(&self) -> (u32, Bytes) {
        match self {
            Self::Cell(air) => air.room(),
            Self::Mesh(_) => (0, Bytes::ZERO),
        }
    }

    /// Packets and bytes that wait at the base station, or at all nodes of a mesh.
    #[must_use]
    pub fn downlink_backlog(&self) -> (u32, Bytes) {
        match self {
            Self::Cell(air) => air.downlink_backlog(),
            Self::Mesh(mesh) => mesh.backlog(),
        }
    }

    /// True while `station` is sent nothing.
    #[must_use]
    pub fn is_silent(&self, station: StationId) -> bool {
        match self {
            Self::Cell(air) => air.is_silent(station),
            Self::Mesh(mesh) => mesh.is_silent(station),
        }
    }

    /// As [`Air::station_times`]; a mesh counts no energy.
    #[must_use]
    pub fn station_times(&self) -> &[StationTime] {
        match self {
            Self::Cell(air) => air.station_times(),
            Self::Mesh(_) => &[],
        }
    }

    /// As [`Air::uplink`]; a mesh grants nothing.
    #[must_use]
    pub fn uplink(&self) -> Option<UplinkAccounting> {
        match self {
            Self::Cell(air) => air.uplink(),
            Self::Mesh(_) => None,
        }
    }

    /// As [`Air::told`]; a mesh tells its nodes everything as it happens.
    #[must_use]
    pub fn told(&self) -> Option<ToldAccounting> {
        match self {
            Self::Cell(air) => air.told(),
            Self::Mesh(_) => None,
        }
    }

    /// Totals from time 0 to `until`.
    #[must_use]
    pub fn accounting(&self, until: Instant) -> AirAccounting {
        match self {
            Self::Cell(air) => air.accounting(until),
            Self::Mesh(mesh) => mesh.accounting(until),
        }
    }

    /// As [`Air::take_silences`].
    #[inline]
    pub fn take_silences(&mut self, into: &mut Vec<Silence>) {
        match self {
            Self::Cell(air) => air.take_silences(into),
            Self::Mesh(mesh) => mesh.take_silences(into),
        }
    }

    /// As [`Air::open_silences`].
    pub fn open_silences(&self, until: Instant, into: &mut Vec<Silence>) {
        match self {
            Self::Cell(air) => air.open_silences(until, into),
            Self::Mesh(mesh) => mesh.open_silences(until, into),
        }
    }
}
