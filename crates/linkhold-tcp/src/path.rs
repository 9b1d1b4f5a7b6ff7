//! What the nodes of a path tell a TP-CRAHN sender, and the state that follows.
//!
//! Source: Chowdhury, Di Felice and Akyildiz, "TP-CRAHN: A Transport Protocol for Cognitive Radio Ad-Hoc
//! Networks", INFOCOM 2009 (crahn's [4]), known to us from its abstract, from crahn's sections 2, 5.1, 5.2,
//! 5.3, and from memory: a classical TCP, frozen or held back while a node of the path senses or changes its
//! channel, with a window that is scaled to the new channel's bandwidth. The text was not at hand; everything
//! beyond that is our reading:
//!
//! ```text
//! connection set-up ─► normal ─► sensing ──────────────► normal
//!                        ├─────► handoff ─► scaled ────► normal
//!                        ├─────► mobility predicted ───► normal
//!                        └─────► route failure ────────► normal, the first segment again
//! ```
//!
//! - Several nodes may be silent at once: the sender runs again when the last of them does. Of several states
//!   the one that holds back more is in force: route failure, handoff, sensing, mobility predicted.
//! - Sensing: in the paper the sender goes on within the free buffer of the node before the one that senses
//!   (ewnd = min(cwnd, rwnd, buffer), from memory). A notification may carry that room; without it nothing is
//!   sent. While the sender stands, its state is frozen, so no retransmission timeout comes (crahn section
//!   5.1).
//! - Handoff: frozen until the new channel is known (crahn section 5.2); then [`ChannelChange`] scales the
//!   window (`congestion/tp_crahn.rs`).
//! - Mobility predicted: cwnd does not grow beyond ssthresh (from memory).
//! - Route failure: frozen until there is a route; the window stays, and the first segment that is not
//!   acknowledged goes again at once. (The paper begins a new connection.)
//! - Every silence has an end, told with its beginning and at most [`MAX_SILENCE`] away, so a notification
//!   that is lost stops nobody for good.
//! - Left out: the choice of the nodes' sensing time by the source, and the feedback in ACKs by which the
//!   paper's source learns of rooms and delays. Here the mesh tells.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};

/// Longest silence that a sender believes in.
pub const MAX_SILENCE: Duration = Duration::from_secs(60);
/// Most silences of a path at one time: two for each node of 32 hops.
const MAX_SILENCES: usize = 64;

/// Something happened on the path. Nodes are told apart by a number of the driver's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PathEvent {
    /// A node senses.
    SensingStarted {
        /// Which.
        node: u32,
        /// When it will be done.
        until: Instant,
        /// Free buffer of the node before it; `None` if nothing may be sent.
        room: Option<Bytes>,
    },
    /// A node is done with sensing, perhaps early.
    SensingEnded {
        /// Which.
        node: u32,
    },
    /// A node leaves its channel.
    HandoffStarted {
        /// Which.
        node: u32,
        /// When it will have another one at the latest.
        until: Instant,
    },
    /// A node has a channel again.
    HandoffEnded {
        /// Which.
        node: u32,
        /// The old channel and the new one; `None` if they are alike, or not known.
        change: Option<ChannelChange>,
    },
    /// The route will break soon, says a prediction of the nodes' movement.
    MobilityPredicted,
    /// The route has broken.
    RouteFailed {
        /// When there will be another one at the latest.
        until: Instant,
    },
    /// There is a route: a new one, or the old one for longer. What was told of nodes is over.
    RouteFound,
}

/// A hop before and after a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelChange {
    /// On the old channel.
    pub old: Hop,
    /// On the new one.
    pub new: Hop,
    /// The least rate of the path's other hops; `None` if there are none.
    pub others: Option<BitRate>,
}

/// A hop on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// What the channel carries.
    pub rate: BitRate,
    /// How long a segment and its ACK take over the hop, queues apart.
    pub delay: Duration,
}

/// The state of a TP-CRAHN connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// Classical TCP.
    Normal,
    /// A node senses.
    Sensing,
    /// A node has no channel.
    Handoff,
    /// The route will break.
    MobilityPredicted,
    /// There is no route.
    RouteFailure,
}

/// What the sender may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stance {
    Frozen,
    Running {
        /// Most bytes in flight.
        room: Option<Bytes>,
        /// cwnd stays at ssthresh or below.
        held: bool,
    },
}

impl Stance {
    pub const FREE: Self = Self::Running { room: None, held: false };
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sensing { room: Option<Bytes> },
    Handoff,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Silence {
    node: u32,
    kind: Kind,
    until: Instant,
}

/// What is known of a path.
#[derive(Clone, Debug, Default)]
pub(crate) struct Path {
    silences: Vec<Silence>,
    predicted: bool,
    failed: Option<Instant>,
}

impl Path {
    /// Takes a notification in.
    pub fn on_event(&mut self, now: Instant, event: &PathEvent) {
        let bounded = |until: Instant| until.min(now + MAX_SILENCE);
        match *event {
            PathEvent::SensingStarted { node, until, room } => {
                self.begin(Silence { node, kind: Kind::Sensing { room }, until: bounded(until) });
            }
            PathEvent::HandoffStarted { node, until } => {
                self.begin(Silence { node, kind: Kind::Handoff, until: bounded(until) });
            }
            PathEvent::SensingEnded { node } => {
                self.silences.retain(|silence| silence.node != node || silence.kind == Kind::Handoff);
            }
            PathEvent::HandoffEnded { node, .. } => {
                self.silences.retain(|silence| silence.node != node || silence.kind != Kind::Handoff);
            }
            PathEvent::MobilityPredicted => self.predicted = true,
            PathEvent::RouteFailed { until } => self.failed = Some(bounded(until)),
            PathEvent::RouteFound => *self = Self::default(),
        }
        self.expire(now);
    }

    fn begin(&mut self, silence: Silence) {
        let handoff = silence.kind == Kind::Handoff;
        let same = |known: &Silence| known.node == silence.node && (known.kind == Kind::Handoff) == handoff;
        match self.silences.iter().position(same) {
            Some(at) => self.silences[at] = silence,
            None if self.silences.len() < MAX_SILENCES => self.silences.push(silence),
            None => {}
        }
    }

    /// Forgets what is over.
    pub fn expire(&mut self, now: Instant) {
        self.silences.retain(|silence| silence.until > now);
        self.failed = self.failed.filter(|until| *until > now);
    }

    /// When [`Path::expire`] is due.
    pub fn next(&self) -> Option<Instant> {
        self.silences.iter().map(|silence| silence.until).chain(self.failed).min()
    }

    pub fn state(&self) -> PathState {
        if self.failed.is_some() {
            PathState::RouteFailure
        } else if self.silences.iter().any(|silence| silence.kind == Kind::Handoff) {
            PathState::Handoff
        } else if !self.silences.is_empty() {
            PathState::Sensing
        } else if self.predicted {
            PathState::MobilityPredicted
        } else {
            PathState::Normal
        }
    }

    /// What the sender may do. A room for less than a segment of `mss` bytes is none.
    pub fn stance(&self, mss: u64) -> Stance {
        match self.state() {
            PathState::RouteFailure | PathState::Handoff => Stance::Frozen,
            PathState::Sensing | PathState::MobilityPredicted | PathState::Normal => {
                let rooms = self.silences.iter().map(|silence| match silence.kind {
                    Kind::Sensing { room } => room.unwrap_or(Bytes(0)),
                    Kind::Handoff => Bytes(0),
                });
                match rooms.min() {
                    Some(room) if room.0 < mss => Stance::Frozen,
                    room => Stance::Running { room, held: self.predicted },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn the_state_that_holds_back_more_is_in_force() {
        use PathEvent::*;
        let running = |room: Option<u64>, held| Stance::Running { room: room.map(Bytes), held };
        let room = Some(Bytes(5000));
        let rows = [
            (0, MobilityPredicted, PathState::MobilityPredicted, running(None, true)),
            (
                1,
                SensingStarted { node: 1, until: at(200), room },
                PathState::Sensing,
                running(Some(5000), true),
            ),
            (2, SensingStarted { node: 2, until: at(100), room: None }, PathState::Sensing, Stance::Frozen),
            (3, HandoffStarted { node: 2, until: at(300) }, PathState::Handoff, Stance::Frozen),
            (4, RouteFailed { until: at(9000) }, PathState::RouteFailure, Stance::Frozen),
            (5, HandoffEnded { node: 2, change: None }, PathState::RouteFailure, Stance::Frozen),
            (6, RouteFound, PathState::Normal, Stance::FREE),
            (
                7,
                SensingStarted { node: 1, until: at(200), room },
                PathState::Sensing,
                running(Some(5000), false),
            ),
            (8, SensingEnded { node: 2 }, PathState::Sensing, running(Some(5000), false)),
            (9, SensingEnded { node: 1 }, PathState::Normal, Stance::FREE),
        ];
        let mut path = Path::default();
        for (millis, event, state, stance) in rows {
            path.on_event(at(millis), &event);
            assert_eq!((path.state(), path.stance(1000)), (state, stance), "{event:?}");
        }
    }

    #[test]
    fn a_room_for_less_than_a_segment_is_none() {
        let mut path = Path::default();
        let room = Some(Bytes(999));
        path.on_event(at(0), &PathEvent::SensingStarted { node: 1, until: at(200), room });
        assert_eq!(path.stance(1000), Stance::Frozen);
        assert_ne!(path.stance(999), Stance::Frozen);
    }

    #[test]
    fn every_silence_ends_by_itself() {
        let mut path = Path::default();
        path.on_event(at(0), &PathEvent::SensingStarted { node: 1, until: at(200), room: None });
        path.on_event(at(0), &PathEvent::HandoffStarted { node: 1, until: Instant::FAR_FUTURE });
        path.on_event(at(0), &PathEvent::SensingStarted { node: 3, until: at(0), room: None });
        assert_eq!(path.next(), Some(at(200)));
        path.expire(at(200));
        assert_eq!((path.state(), path.next()), (PathState::Handoff, Some(at(60_000))));
        path.expire(at(60_000));
        assert_eq!((path.state(), path.next()), (PathState::Normal, None));
    }

    #[test]
    fn a_path_of_many_nodes_is_bounded() {
        let mut path = Path::default();
        for node in 0..1000 {
            path.on_event(at(0), &PathEvent::HandoffStarted { node, until: at(1) });
        }
        assert_eq!(path.silences.len(), MAX_SILENCES);
    }
}
