//! A tap: a mechanism at a node, with what its driver must remember for it.

use std::collections::VecDeque;

use linkhold_core::action::Actions;
use linkhold_core::link_event::{LinkEvent, Scope};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Bytes;

use crate::contract::ContractCheck;
use crate::medium::Medium;
use crate::path::{LinkId, NodeId};
use crate::queue::Wakeup;

/// One in this many places of the transmit queue is never told as room. So releases stop short of the queue's
/// limit, and packets forwarded in the moments after the last release find a place.
const RESERVED_SHARE: u32 = 8;

/// The transmit queue as its driver shows it to a mechanism.
#[derive(Clone, Copy, Debug)]
struct VisibleQueue {
    /// Room that is never told: see [`RESERVED_SHARE`].
    reserve: (u32, Bytes),
    /// Half of the queue, packets and bytes: a mechanism that knows of as much room need not hear of more. If
    /// the queue is too short for a reserve, the mechanism always hears.
    half: (u32, u64),
    /// The room told last, less what has gone down since: what the mechanism thinks is there.
    told: (u32, Bytes),
}

/// A mechanism at a node.
pub struct Tap {
    pub(crate) mechanism: Box<dyn Mechanism>,
    pub(crate) node: NodeId,
    /// The radio whose events it hears.
    pub(crate) radio: LinkId,
    pub(crate) actions: Actions,
    /// Scopes whose frames the mechanism has asked for and not got back yet.
    pub(crate) reclaims: VecDeque<Scope>,
    /// `None`: the mechanism neither hears of room in the queue nor gets frames back, as with most real
    /// drivers.
    queue: Option<VisibleQueue>,
    /// How long an event of the radio takes to reach the tap.
    signal_delay: Duration,
    /// Events on their way to the tap, by the time of their arrival.
    signals: VecDeque<(Instant, LinkEvent)>,
    pub(crate) wake: Wakeup,
    pub(crate) check: ContractCheck,
}

impl std::fmt::Debug for Tap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} at {:?}", self.mechanism.name(), self.node)
    }
}

impl Tap {
    /// `mechanism` at `node`, told what happens on `radio` as it happens, and nothing of any queue.
    #[must_use]
    pub fn new(mechanism: Box<dyn Mechanism>, node: NodeId, radio: LinkId) -> Self {
        Self {
            mechanism,
            node,
            radio,
            actions: Actions::new(),
            reclaims: VecDeque::new(),
            queue: None,
            signal_delay: Duration::ZERO,
            signals: VecDeque::new(),
            wake: Wakeup::default(),
            check: ContractCheck::default(),
        }
    }

    /// Lets the mechanism see the base station's transmit queue on `air`: it is told room and gets frames
    /// back.
    #[must_use]
    pub fn seeing_queue_of(mut self, air: &Medium) -> Self {
        let (packets, bytes) = air.room();
        let reserved_bytes = if bytes.0 == u64::MAX { 0 } else { bytes.0 / u64::from(RESERVED_SHARE) };
        let reserve = (packets / RESERVED_SHARE, Bytes(reserved_bytes));
        let half = (
            if reserve.0 == 0 { u32::MAX } else { reserve.0 * (RESERVED_SHARE / 2) },
            reserve.1.0 * (u64::from(RESERVED_SHARE) / 2),
        );
        self.queue = Some(VisibleQueue { reserve, half, told: (0, Bytes::ZERO) });
        self
    }

    /// Lets every event of the radio reach the tap only after `delay`.
    #[must_use]
    pub fn with_signal_delay(mut self, delay: Duration) -> Self {
        self.signal_delay = delay;
        self
    }

    /// The mechanism.
    #[must_use]
    pub fn mechanism(&self) -> &dyn Mechanism {
        self.mechanism.as_ref()
    }

    /// Where it stands.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// True if events that concern `scope` are for this tap: at a station, only its own and the network's.
    pub(crate) fn hears(&self, scope: Scope) -> bool {
        match self.node {
            NodeId::Station(station) => scope.covers(station),
            NodeId::BaseStation | NodeId::Correspondent => true,
        }
    }

    /// When the tap has something to do next: the mechanism's timeout, or a signal that arrives.
    pub(crate) fn next_event(&self) -> Option<Instant> {
        let timeout = self.mechanism.next_timeout();
        match self.signals.front() {
            None => timeout,
            Some(&(arrival, _)) => Some(timeout.map_or(arrival, |at| at.min(arrival))),
        }
    }

    /// Sends an event of the radio on its way to the tap, or returns it if the tap hears it at once.
    pub(crate) fn signal(&mut self, now: Instant, event: LinkEvent) -> Option<LinkEvent> {
        if self.signal_delay.is_zero() {
            return Some(event);
        }
        self.signals.push_back((now + self.signal_delay, event));
        None
    }

    /// The next event of the radio that has arrived by `now`.
    pub(crate) fn arrived_signal(&mut self, now: Instant) -> Option<LinkEvent> {
        let &(arrival, event) = self.signals.front()?;
        if arrival > now {
            return None;
        }
        self.signals.pop_front();
        Some(event)
    }

    /// True if the mechanism sees the transmit queue.
    pub(crate) const fn sees_queue(&self) -> bool {
        self.queue.is_some()
    }

    /// A packet of `len` bytes goes down to the radio.
    #[inline]
    pub(crate) fn sent_down(&mut self, len: u32) {
        if let Some(VisibleQueue { told: (packets, bytes), .. }) = &mut self.queue {
            *packets = packets.saturating_sub(1);
            *bytes = bytes.saturating_sub(Bytes(u64::from(len)));
        }
    }

    /// True if the mechanism may have to hear of room now: always after a silence, otherwise only if it holds
    /// packets and knows of room for less than half of the queue.
    #[inline]
    pub(crate) fn wants_room(&self, silence_ended: bool) -> bool {
        let Some(queue) = &self.queue else { return false };
        silence_ended || (!queue.is_ample() && self.mechanism.is_holding())
    }

    /// The room in `air`'s queue that releases may fill, if a mechanism that
    /// [wants to hear](Self::wants_room) of it is to be told: always after a silence, otherwise only if it
    /// has changed.
    pub(crate) fn room_to_tell(&self, air: &Medium, silence_ended: bool) -> Option<(u32, Bytes)> {
        let queue = self.queue.as_ref()?;
        let room = queue.room(air);
        (silence_ended || room != queue.told).then_some(room)
    }

    /// Notes the room that `air`'s queue has after the mechanism has reacted to the room told.
    pub(crate) fn room_told(&mut self, air: &Medium) {
        if let Some(queue) = &mut self.queue {
            queue.told = queue.room(air);
        }
    }
}

impl VisibleQueue {
    /// True if the mechanism knows of room for half of the queue or more.
    #[inline]
    const fn is_ample(&self) -> bool {
        self.told.0 >= self.half.0 && self.told.1.0 >= self.half.1
    }

    fn room(&self, air: &Medium) -> (u32, Bytes) {
        let (packets, bytes) = air.room();
        (packets.saturating_sub(self.reserve.0), bytes.saturating_sub(self.reserve.1))
    }
}
