//! Requests that were seen, so that each is handled once (RFC 3561, section 6.5).
//!
//! The ids of one originator count up, so its last id and a bit for each of the 64 before it are enough. An
//! older one counts as seen. What was not refreshed for `PATH_DISCOVERY_TIME` is forgotten.

use linkhold_core::time::{Duration, Instant};

use crate::Node;

#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// In the order of the originators.
    list: Vec<Originator>,
    max: usize,
    keep: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Originator {
    node: Node,
    latest: u32,
    /// Bit `n` for the id `latest - n`.
    window: u64,
    at: Instant,
}

impl Seen {
    pub fn new(max: usize, keep: Duration) -> Self {
        Self { list: Vec::new(), max: max.max(1), keep }
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Notes a request; true if it is new.
    pub fn insert(&mut self, now: Instant, node: Node, id: u32) -> bool {
        let fresh = Originator { node, latest: id, window: 1, at: now };
        let known = match self.list.binary_search_by_key(&node, |known| known.node) {
            Ok(at) => &mut self.list[at],
            Err(at) => {
                self.add(now, at, fresh);
                return true;
            }
        };
        if now.since(known.at) > self.keep {
            *known = fresh;
            return true;
        }
        let ahead = id.wrapping_sub(known.latest).cast_signed();
        let bit = if ahead > 0 {
            known.window = known.window.checked_shl(ahead.unsigned_abs()).unwrap_or(0);
            known.latest = id;
            1
        } else {
            1u64.checked_shl(ahead.unsigned_abs()).unwrap_or(0)
        };
        let is_new = bit != 0 && known.window & bit == 0;
        known.window |= bit;
        known.at = now;
        is_new
    }

    fn add(&mut self, now: Instant, at: usize, fresh: Originator) {
        if self.list.len() < self.max {
            self.list.insert(at, fresh);
            return;
        }
        let keep = self.keep;
        self.list.retain(|known| now.since(known.at) <= keep);
        if self.list.len() >= self.max
            && let Some((oldest, _)) = self.list.iter().enumerate().min_by_key(|(_, known)| known.at)
        {
            self.list.remove(oldest);
        }
        let at = self.list.partition_point(|known| known.node < fresh.node);
        self.list.insert(at, fresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_new_once_in_any_order_and_over_the_rollover() {
        let mut seen = Seen::new(4, Duration::from_secs(5));
        let ids = [u32::MAX - 1, u32::MAX - 3, 2, 0, u32::MAX, 1, 60];
        for id in ids {
            assert!(seen.insert(Instant::ZERO, Node(1), id), "{id}");
        }
        for id in ids {
            assert!(!seen.insert(Instant::ZERO, Node(1), id), "{id}");
        }
        assert!(seen.insert(Instant::ZERO, Node(1), 500));
        assert!(!seen.insert(Instant::ZERO, Node(1), 501 - 65), "too old to tell");
        assert!(seen.insert(Instant::from_millis(5001), Node(1), 3), "the originator began anew");
    }

    #[test]
    fn a_full_list_forgets_the_oldest() {
        let mut seen = Seen::new(2, Duration::from_secs(5));
        for (millis, node) in [(0, 5), (1, 3), (2, 4)] {
            assert!(seen.insert(Instant::from_millis(millis), Node(node), 7));
        }
        assert_eq!(seen.len(), 2);
        assert!(!seen.insert(Instant::from_millis(3), Node(3), 7));
        assert!(seen.insert(Instant::from_millis(3), Node(5), 7));
    }
}
