//! The cross-layer repository: what the layers of a node publish for each other, each value with its age.
//!
//! Source: crahn, section 4: "information collected at PHY layer (e.g. current transmitting power), MAC layer
//! (e.g. current channel) and Network layer (e.g. current neighbors' list)". The paper gives a list of
//! examples and no form; here each is a field of its own type, so that nobody can read a channel as a power.
//!
//! Nodes are numbered from 0. A node has room for a limited number of neighbours; when it is full, the
//! neighbour of whom nothing was heard for longest makes room. Neighbours are in the order of their numbers.

use linkhold_core::time::{Duration, Instant};

/// A value and when it was published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aged<T> {
    /// What was published.
    pub value: T,
    /// When.
    pub at: Instant,
}

impl<T> Aged<T> {
    /// How old it is.
    #[must_use]
    pub fn age(&self, now: Instant) -> Duration {
        now.since(self.at)
    }

    /// The value, unless it is older than `most`.
    #[must_use]
    pub fn fresh(&self, now: Instant, most: Duration) -> Option<&T> {
        (self.age(now) <= most).then_some(&self.value)
    }
}

/// How good the link to a neighbour is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkQuality {
    /// Power of its last frame, W.
    pub received_power: f64,
    /// Signal to interference and noise of its last frame: a ratio, not dB.
    pub sinr: f64,
}

/// A neighbour, as a node's network layer knows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Neighbour {
    /// Its number.
    pub node: u32,
    /// When anything was last published of it.
    pub heard: Instant,
    /// The channel that it works on, counted over all bands.
    pub channel: Option<Aged<usize>>,
    /// The link to it.
    pub quality: Option<Aged<LinkQuality>>,
    /// When its next silence begins, as it told.
    pub next_silence: Option<Aged<Instant>>,
    /// The channels free of primary users where it is, as it told: bit `c` for channel `c`, counted over all
    /// bands.
    pub free_channels: Option<Aged<u64>>,
}

/// What a frame of a neighbour tells of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heard {
    /// The channel that it works on.
    pub channel: usize,
    /// When its next silence begins.
    pub next_silence: Instant,
    /// How it was received; `None` if that is not known.
    pub quality: Option<LinkQuality>,
}

/// What one node's layers have published.
#[derive(Clone, Debug, Default)]
struct Entries {
    channel: Option<Aged<usize>>,
    transmit_power: Option<Aged<f64>>,
    /// By number.
    neighbours: Vec<Neighbour>,
}

/// The repositories of all nodes. A node reads its own entries only; that is up to the caller.
#[derive(Clone, Debug)]
pub struct Repository {
    nodes: Vec<Entries>,
    most_neighbours: usize,
}

impl Repository {
    /// Empty entries for `nodes` nodes, each with at most `most_neighbours` neighbours.
    #[must_use]
    pub fn new(nodes: usize, most_neighbours: usize) -> Self {
        Self { nodes: vec![Entries::default(); nodes], most_neighbours }
    }

    /// MAC layer: `node` works on `channel`. A node that does not exist publishes nothing, here and below.
    pub fn publish_channel(&mut self, node: usize, channel: usize, now: Instant) {
        if let Some(entries) = self.nodes.get_mut(node) {
            entries.channel = Some(Aged { value: channel, at: now });
        }
    }

    /// PHY layer: `node` sends with `power` W.
    pub fn publish_transmit_power(&mut self, node: usize, power: f64, now: Instant) {
        if let Some(entries) = self.nodes.get_mut(node) {
            entries.transmit_power = Some(Aged { value: power, at: now });
        }
    }

    /// Network layer: `node` heard of `neighbour`, say by its hello.
    pub fn publish_neighbour(&mut self, node: usize, neighbour: u32, now: Instant) {
        let _ = self.neighbour_entry(node, neighbour, now);
    }

    /// Network or MAC layer: `neighbour` of `node` works on `channel`.
    pub fn publish_neighbour_channel(&mut self, node: usize, neighbour: u32, channel: usize, now: Instant) {
        if let Some(entry) = self.neighbour_entry(node, neighbour, now) {
            entry.channel = Some(Aged { value: channel, at: now });
        }
    }

    /// PHY layer: a frame of `neighbour` reached `node` with `quality`.
    pub fn publish_link(&mut self, node: usize, neighbour: u32, quality: LinkQuality, now: Instant) {
        if let Some(entry) = self.neighbour_entry(node, neighbour, now) {
            entry.quality = Some(Aged { value: quality, at: now });
        }
    }

    /// MAC and PHY layer: a frame of `neighbour` reached `node`, with what it tells.
    pub fn publish_frame(&mut self, node: usize, neighbour: u32, heard: Heard, now: Instant) {
        if let Some(entry) = self.neighbour_entry(node, neighbour, now) {
            entry.channel = Some(Aged { value: heard.channel, at: now });
            entry.next_silence = Some(Aged { value: heard.next_silence, at: now });
            entry.quality = heard.quality.map(|value| Aged { value, at: now }).or(entry.quality);
        }
    }

    /// Network layer: `neighbour` told `node` of the channels that are free where it is.
    pub fn publish_neighbour_free(&mut self, node: usize, neighbour: u32, free: u64, now: Instant) {
        if let Some(entry) = self.neighbour_entry(node, neighbour, now) {
            entry.free_channels = Some(Aged { value: free, at: now });
        }
    }

    /// Network layer: `neighbour` is none any more. True if it was one.
    pub fn withdraw_neighbour(&mut self, node: usize, neighbour: u32) -> bool {
        let Some(entries) = self.nodes.get_mut(node) else { return false };
        let found = entries.neighbours.binary_search_by_key(&neighbour, |entry| entry.node);
        found.map(|index| entries.neighbours.remove(index)).is_ok()
    }

    /// Forgets the neighbours of `node` of whom nothing was published since `since`.
    pub fn forget_before(&mut self, node: usize, since: Instant) {
        if let Some(entries) = self.nodes.get_mut(node) {
            entries.neighbours.retain(|entry| entry.heard >= since);
        }
    }

    /// The channel that `node` works on.
    #[must_use]
    pub fn channel(&self, node: usize) -> Option<Aged<usize>> {
        self.nodes.get(node)?.channel
    }

    /// The power that `node` sends with, W.
    #[must_use]
    pub fn transmit_power(&self, node: usize) -> Option<Aged<f64>> {
        self.nodes.get(node)?.transmit_power
    }

    /// The neighbours of `node`, by number.
    #[must_use]
    pub fn neighbours(&self, node: usize) -> &[Neighbour] {
        self.nodes.get(node).map_or(&[], |entries| &entries.neighbours)
    }

    /// One neighbour of `node`.
    #[must_use]
    pub fn neighbour(&self, node: usize, neighbour: u32) -> Option<&Neighbour> {
        let list = self.neighbours(node);
        list.binary_search_by_key(&neighbour, |entry| entry.node).ok().and_then(|index| list.get(index))
    }

    /// The entry of `neighbour`, made if it is new, and heard of now.
    fn neighbour_entry(&mut self, node: usize, neighbour: u32, now: Instant) -> Option<&mut Neighbour> {
        let most = self.most_neighbours;
        let list = &mut self.nodes.get_mut(node)?.neighbours;
        let index = match list.binary_search_by_key(&neighbour, |entry| entry.node) {
            Ok(index) => index,
            Err(_) if most == 0 => return None,
            Err(mut index) => {
                if list.len() >= most {
                    // The first of those that were heard of longest ago.
                    let oldest = (0..list.len()).min_by_key(|&at| list.get(at).map(|entry| entry.heard))?;
                    list.remove(oldest);
                    index -= usize::from(oldest < index);
                }
                list.insert(
                    index,
                    Neighbour {
                        node: neighbour,
                        heard: now,
                        channel: None,
                        quality: None,
                        next_silence: None,
                        free_channels: None,
                    },
                );
                index
            }
        };
        let entry = list.get_mut(index)?;
        entry.heard = now;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const AT: fn(u64) -> Instant = Instant::from_millis;
    const GOOD: LinkQuality = LinkQuality { received_power: 1e-9, sinr: 20.0 };

    #[test]
    fn what_one_layer_publishes_another_reads_with_its_age() {
        let mut repository = Repository::new(2, 8);
        assert_eq!((repository.channel(0), repository.transmit_power(0)), (None, None));
        repository.publish_channel(0, 3, AT(10));
        repository.publish_transmit_power(0, 0.28, AT(20));
        repository.publish_link(0, 1, GOOD, AT(30));
        repository.publish_neighbour_channel(0, 1, 4, AT(40));
        let channel = repository.channel(0).unwrap();
        assert_eq!((channel.value, channel.age(AT(25))), (3, Duration::from_millis(15)));
        assert_eq!(channel.fresh(AT(25), Duration::from_millis(15)), Some(&3));
        assert_eq!(channel.fresh(AT(26), Duration::from_millis(15)), None);
        assert_eq!(repository.transmit_power(0), Some(Aged { value: 0.28, at: AT(20) }));
        let neighbour = repository.neighbour(0, 1).unwrap();
        assert_eq!(neighbour.quality, Some(Aged { value: GOOD, at: AT(30) }));
        assert_eq!((neighbour.channel, neighbour.heard), (Some(Aged { value: 4, at: AT(40) }), AT(40)));
        let heard = Heard { channel: 2, next_silence: AT(90), quality: None };
        repository.publish_frame(0, 1, heard, AT(50));
        repository.publish_neighbour_free(0, 1, 0b101, AT(60));
        let neighbour = repository.neighbour(0, 1).unwrap();
        assert_eq!(neighbour.channel, Some(Aged { value: 2, at: AT(50) }));
        assert_eq!(neighbour.quality, Some(Aged { value: GOOD, at: AT(30) }), "the last that is known");
        assert_eq!(neighbour.next_silence, Some(Aged { value: AT(90), at: AT(50) }));
        assert_eq!(
            (neighbour.free_channels, neighbour.heard),
            (Some(Aged { value: 0b101, at: AT(60) }), AT(60))
        );
        assert_eq!(repository.channel(1), None, "each node has its own");
        // A node that does not exist.
        repository.publish_channel(2, 3, AT(10));
        repository.publish_neighbour(2, 0, AT(10));
        assert_eq!((repository.channel(2), repository.neighbours(2).len()), (None, 0));
    }

    #[test]
    fn a_full_list_loses_whom_it_heard_of_longest_ago() {
        let mut repository = Repository::new(1, 3);
        for (neighbour, at) in [(5, 10), (1, 20), (9, 30), (5, 40), (7, 50)] {
            repository.publish_neighbour(0, neighbour, AT(at));
        }
        let numbers = |repository: &Repository| -> Vec<u32> {
            repository.neighbours(0).iter().map(|entry| entry.node).collect()
        };
        assert_eq!(numbers(&repository), [5, 7, 9]);
        repository.forget_before(0, AT(40));
        assert_eq!(numbers(&repository), [5, 7]);
        assert!(repository.withdraw_neighbour(0, 5) && !repository.withdraw_neighbour(0, 5));
        assert_eq!(numbers(&repository), [7]);
        let mut none = Repository::new(1, 0);
        none.publish_neighbour(0, 1, AT(1));
        assert!(none.neighbours(0).is_empty());
    }

    proptest! {
        #[test]
        fn neighbours_stay_sorted_bounded_and_the_newest_is_there(
            news in prop::collection::vec(0_u32..20, 1..100), most in 1_usize..6,
        ) {
            let mut repository = Repository::new(1, most);
            for (at, &neighbour) in (0..).zip(&news) {
                repository.publish_neighbour(0, neighbour, AT(at));
                let list = repository.neighbours(0);
                prop_assert!(list.len() <= most && list.is_sorted_by(|one, next| one.node < next.node));
                prop_assert_eq!(repository.neighbour(0, neighbour).map(|entry| entry.heard), Some(AT(at)));
            }
        }
    }
}
