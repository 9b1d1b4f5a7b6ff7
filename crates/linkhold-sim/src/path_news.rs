//! What the nodes of a mesh tell a TP-CRAHN sender of its path, from what the mesh reports.
//!
//! All nodes of a mesh sense and change channel at the same time, so to a sender its path is silent as one
//! node is, and a change of channel is one of every hop. A sender hears of both at once, as from an oracle:
//! what the notification costs and how long it takes on its way back over the hops is not modelled. Where
//! each node senses for itself, a sender hears of a node's silence if the node is on its path when the
//! silence begins. With `mesh.routes_told` the router at the sender's own node tells it of broken routes once
//! the router knows, which takes the protocol's messages.

use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_mesh::{MeshConfig, Node, RouteNews};
use linkhold_tcp::{ChannelChange, Hop, MAX_SILENCE, PathEvent};

use crate::cell::AIR;
use crate::network::Network;

/// The number under which a sender knows the nodes of its path, if they are silent together.
const ALL: u32 = 0;
/// Bytes of an ACK: headers of IP and TCP.
const ACK: u32 = 40;

/// Translates what the mesh reports into news for senders.
#[derive(Clone, Copy, Debug, Default)]
pub struct PathNews {
    /// The channel's rate, as it was told last.
    rate: Option<BitRate>,
}

/// What a report means to senders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum News {
    /// One event for all senders.
    All(PathEvent),
    /// An event for the senders whose path goes over a node.
    Over {
        /// The node.
        node: u32,
        /// What begins there.
        event: PathEvent,
    },
    /// The channel's rate has changed; what that is to a path depends on its length.
    Rate {
        /// Before.
        old: BitRate,
        /// From now on.
        new: BitRate,
    },
}

impl PathNews {
    /// What an event of the mesh means to senders.
    pub fn of(&mut self, event: &LinkEvent) -> Option<News> {
        let now = event.detected_at;
        let until = |expected: Option<Duration>| now + expected.unwrap_or(MAX_SILENCE);
        let (node, one) = match event.kind.scope() {
            Scope::Network => (ALL, None),
            Scope::Station(station) => (station.0, Some(station.0)),
        };
        let began = |event| Some(one.map_or(News::All(event), |node| News::Over { node, event }));
        match event.kind {
            LinkEventKind::FreezeStarted { cause: Cause::Sensing, expected, .. } => {
                began(PathEvent::SensingStarted { node, until: until(expected), room: None })
            }
            // All are told, since the route may have changed. A sender that did not hear of the beginning
            // ignores the end.
            LinkEventKind::FreezeEnded { cause: Cause::Sensing, .. } => {
                Some(News::All(PathEvent::SensingEnded { node }))
            }
            LinkEventKind::FreezeStarted { cause: Cause::ChannelSwitch, expected, .. } => {
                began(PathEvent::HandoffStarted { node, until: until(expected) })
            }
            LinkEventKind::FreezeEnded { cause: Cause::ChannelSwitch, .. } => {
                Some(News::All(PathEvent::HandoffEnded { node, change: None }))
            }
            LinkEventKind::ChannelSwitched { capacity, .. } => {
                let old = self.rate.replace(capacity)?;
                (old != capacity).then_some(News::Rate { old, new: capacity })
            }
            _ => None,
        }
    }
}

/// How long a sender without a route waits to be told of one before it tries for itself: AODV's
/// `NET_TRAVERSAL_TIME`, the time of a search across the network. Our choice.
const ROUTE_PATIENCE: Duration = Duration::from_millis(2800);

/// What news of a route are to the senders whose data takes it.
#[must_use]
pub fn route(now: Instant, news: RouteNews) -> PathEvent {
    if news.found { PathEvent::RouteFound } else { PathEvent::RouteFailed { until: now + ROUTE_PATIENCE } }
}

/// Whether the path of a flow with these ends goes over `node` now.
pub fn goes_over(network: &Network, (from, to): (u32, u32), node: u32) -> bool {
    let mesh = network.radio(AIR).air().mesh();
    mesh.is_some_and(|mesh| mesh.goes_over(mesh.now(), (Node(from), Node(to)), Node(node)))
}

/// What a change of the channel's rate is to the path between `ends` (sender, receiver), for segments of
/// `mss` bytes.
pub fn change(
    network: &Network,
    ends: (u32, u32),
    mss: u32,
    old: BitRate,
    new: BitRate,
) -> Option<PathEvent> {
    let mesh = network.radio(AIR).air().mesh()?;
    let (from, to) = ends;
    // The sender's transport reads what its MAC published (crahn section 5.3: metrics of the link layer), and
    // does without the scaling if that is not the channel it was told of.
    let channel = mesh.repository().channel(from as usize)?;
    if mesh.channel_rate(channel.value) != new {
        return None;
    }
    let now = mesh.now();
    let hops = mesh.path(now, Node(from), Node(to)).len().saturating_sub(1).max(1) as u32;
    let MeshConfig { dcf, .. } = mesh.config();
    let hop =
        |rate: BitRate| Hop { rate, delay: (dcf.exchange(mss + ACK, rate) + dcf.exchange(ACK, rate)) * hops };
    let change = ChannelChange { old: hop(old), new: hop(new), others: None };
    Some(PathEvent::HandoffEnded { node: ALL, change: Some(change) })
}
