//! Which neighbour a request goes to: through the focus region, or around where there is no relay.

use super::config::HopChannels;
use super::message::Phase;
use crate::routing::surroundings::{Neighbour, channels, has_channel};
use crate::{Node, Point};

/// Where a request stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub own: Point,
    pub destination: Node,
    /// Where the destination is.
    pub place: Point,
    pub channel: u8,
    pub hops: HopChannels,
    /// Cosine of the largest deviation that the focus region allows.
    pub focus_cosine: f64,
}

/// A relay, with the phase in which the request goes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Relay {
    pub node: Node,
    pub phase: Phase,
    /// The channel of the hop to it.
    pub channel: u8,
}

/// A neighbour, as it lies to the straight way.
#[derive(Clone, Copy)]
struct Lie {
    node: Node,
    channel: u8,
    /// Metres from the destination.
    distance: f64,
    /// Cosine of the deviation.
    cosine: f64,
    /// It is on the left of the straight way (or on it).
    left: bool,
}

impl Standing {
    /// The relays of a request in `phase`: none, one, or one on each side where it begins to go around. A
    /// request that goes around is straight again where the focus region has a relay and the destination is
    /// nearer than `leave_within` metres. `visited` nodes are no relays.
    pub fn relays(
        &self,
        phase: Phase,
        leave_within: f64,
        neighbours: &[Neighbour],
        visited: impl Fn(Node) -> bool,
    ) -> [Option<Relay>; 2] {
        let mut best: Option<Lie> = None;
        let mut left: Option<Lie> = None;
        let mut right: Option<Lie> = None;
        let own = self.own.distance(self.place);
        for neighbour in neighbours {
            let channel = match self.hops {
                HopChannels::Any => Some(self.channel).filter(|&c| has_channel(neighbour.free_channels, c)),
                // The destination is where it is, in a primary user's region or not.
                HopChannels::Homes if neighbour.node == self.destination => {
                    channels(neighbour.free_channels).next().or(Some(self.channel))
                }
                HopChannels::Homes => channels(neighbour.free_channels).next(),
            };
            let Some(channel) = channel.filter(|_| !visited(neighbour.node)) else { continue };
            if neighbour.node == self.destination {
                return [Some(Relay { node: neighbour.node, phase, channel }), None];
            }
            let lie = self.lie(neighbour, channel);
            if lie.cosine >= self.focus_cosine
                && lie.distance < own
                && best.as_ref().is_none_or(|best| lie.distance < best.distance)
            {
                best = Some(lie);
            }
            let side = if lie.left { &mut left } else { &mut right };
            if side.as_ref().is_none_or(|side| lie.cosine > side.cosine) {
                *side = Some(lie);
            }
        }
        let relay = |lie: Lie, phase| Some(Relay { node: lie.node, phase, channel: lie.channel });
        match (phase, best) {
            (Phase::Greedy, Some(best)) => [relay(best, Phase::Greedy), None],
            (Phase::AvoidLeft | Phase::AvoidRight, Some(best)) if own < leave_within => {
                [relay(best, Phase::Greedy), None]
            }
            (Phase::Greedy, None) => [
                left.and_then(|lie| relay(lie, Phase::AvoidLeft)),
                right.and_then(|lie| relay(lie, Phase::AvoidRight)),
            ],
            (Phase::AvoidLeft, _) => [left.or(right).and_then(|lie| relay(lie, phase)), None],
            (Phase::AvoidRight, _) => [right.or(left).and_then(|lie| relay(lie, phase)), None],
            (Phase::Flood, _) => [None, None],
        }
    }

    fn lie(&self, neighbour: &Neighbour, channel: u8) -> Lie {
        let (ax, ay) = (neighbour.place.x - self.own.x, neighbour.place.y - self.own.y);
        let (bx, by) = (self.place.x - self.own.x, self.place.y - self.own.y);
        let lengths = ax.hypot(ay) * bx.hypot(by);
        // A neighbour at the same place lies in no direction: it deviates by a right angle.
        let cosine = if lengths > 0.0 { (ax * bx + ay * by) / lengths } else { 0.0 };
        let distance = neighbour.place.distance(self.place);
        Lie { node: neighbour.node, channel, distance, cosine, left: bx * ay - by * ax >= 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbour(node: u32, x: f64, y: f64) -> Neighbour {
        Neighbour { node: Node(node), place: Point { x, y }, free_channels: 0b10 }
    }

    fn standing() -> Standing {
        let place = Point { x: 1000.0, y: 0.0 };
        Standing {
            own: Point::default(),
            destination: Node(9),
            place,
            channel: 1,
            hops: HopChannels::Any,
            focus_cosine: 0.5,
        }
    }

    fn relays(phase: Phase, leave_within: f64, neighbours: &[Neighbour]) -> Vec<(u32, Phase)> {
        let relays = standing().relays(phase, leave_within, neighbours, |node| node == Node(7));
        relays.into_iter().flatten().map(|relay| (relay.node.0, relay.phase)).collect()
    }

    #[test]
    fn the_relay_with_the_greatest_advance_in_the_focus_region_is_taken() {
        use Phase::Greedy;
        // 1 is nearer to the destination than 2; 3 is further ahead, and was visited; 4 lies beside.
        let around = [
            neighbour(2, 150.0, 0.0),
            neighbour(1, 200.0, 60.0),
            neighbour(7, 240.0, 0.0),
            neighbour(4, 100.0, 220.0),
        ];
        assert_eq!(relays(Greedy, 0.0, &around), [(1, Greedy)]);
        let busy: Vec<_> = around.iter().map(|near| Neighbour { free_channels: 0b01, ..*near }).collect();
        assert_eq!(relays(Greedy, 0.0, &busy), []);
        assert_eq!(relays(Greedy, 0.0, &[around[0], neighbour(9, -10.0, 0.0)]), [(9, Greedy)]);
    }

    #[test]
    fn where_nodes_listen_on_one_channel_a_relay_is_taken_on_its_own() {
        let homes = Standing { hops: HopChannels::Homes, ..standing() };
        let relays = |around: &[Neighbour]| -> Vec<(u32, u8)> {
            let relays = homes.relays(Phase::Greedy, 0.0, around, |_| false);
            relays.into_iter().flatten().map(|relay| (relay.node.0, relay.channel)).collect()
        };
        let at = |node, x, free_channels| Neighbour { free_channels, ..neighbour(node, x, 0.0) };
        // The one ahead has a primary user; the next listens on channel 2.
        assert_eq!(relays(&[at(1, 240.0, 0), at(2, 200.0, 0b100), at(3, 100.0, 0b001)]), [(2, 2)]);
        assert_eq!(relays(&[at(2, 200.0, 0b100), at(9, 240.0, 0b1000)]), [(9, 3)]);
        assert_eq!(relays(&[at(2, 200.0, 0b100), at(9, 240.0, 0)]), [(9, 1)], "in a user's region");
    }

    #[test]
    fn without_one_the_request_goes_around_on_both_sides() {
        use Phase::{AvoidLeft, AvoidRight};
        let around = [neighbour(1, 50.0, 200.0), neighbour(2, -50.0, 200.0), neighbour(3, -200.0, -10.0)];
        assert_eq!(relays(Phase::Greedy, 0.0, &around), [(1, AvoidLeft), (3, AvoidRight)]);
        assert_eq!(relays(AvoidLeft, 2000.0, &around), [(1, AvoidLeft)]);
        assert_eq!(
            relays(AvoidRight, 2000.0, &around[..2]),
            [(1, AvoidRight)],
            "the other side is all there is"
        );
    }

    #[test]
    fn a_request_goes_straight_again_once_it_is_nearer_than_where_it_began() {
        use Phase::{AvoidLeft, Greedy};
        let around = [neighbour(1, 200.0, 0.0)];
        assert_eq!(relays(AvoidLeft, 900.0, &around), [(1, AvoidLeft)]);
        assert_eq!(relays(AvoidLeft, 1100.0, &around), [(1, Greedy)]);
    }
}
