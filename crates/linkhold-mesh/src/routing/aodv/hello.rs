//! HELLO messages: a neighbour that sent one and falls silent is gone (RFC 3561, section 6.9).

use linkhold_core::time::{Duration, Instant};

use super::config::Hello;
use crate::Node;

/// Most neighbours that are watched.
const MAX_NEIGHBOURS: usize = 256;

#[derive(Clone, Debug)]
pub(super) struct Watch {
    config: Hello,
    /// When the next HELLO is due.
    next: Instant,
    /// The last broadcast of this node.
    broadcast: Option<Instant>,
    /// Neighbours that sent a HELLO, in their order, and when they were last heard.
    heard: Vec<(Node, Instant)>,
}

impl Watch {
    /// `phase` in `[0, 1)`: where in its interval this node begins.
    pub fn new(config: Hello, phase: f64) -> Self {
        // An interval of 0 would be a timer that never lets time pass.
        let config = Hello { interval: config.interval.max(Duration::from_millis(1)), ..config };
        let next = Instant::ZERO + config.interval.mul_f64(phase);
        Self { config, next, broadcast: None, heard: Vec::new() }
    }

    /// How long a HELLO is good for.
    pub fn lifetime(&self) -> Duration {
        self.config.interval * self.config.allowed_loss.max(1)
    }

    pub fn on_hello(&mut self, now: Instant, from: Node) {
        match self.heard.binary_search_by_key(&from, |(node, _)| *node) {
            Ok(at) => self.heard[at].1 = now,
            Err(at) if self.heard.len() < MAX_NEIGHBOURS => self.heard.insert(at, (from, now)),
            Err(_) => {}
        }
    }

    /// Any frame of a neighbour shows that it is there.
    pub fn on_heard(&mut self, now: Instant, from: Node) {
        if let Ok(at) = self.heard.binary_search_by_key(&from, |(node, _)| *node) {
            self.heard[at].1 = now;
        }
    }

    pub fn on_broadcast(&mut self, now: Instant) {
        self.broadcast = Some(now);
    }

    pub fn next(&self) -> Instant {
        let lifetime = self.lifetime();
        let silent = self.heard.iter().map(|(_, at)| *at + lifetime).min();
        silent.unwrap_or(Instant::FAR_FUTURE).min(self.next)
    }

    /// A neighbour that is gone; each is told once.
    pub fn take_gone(&mut self, now: Instant) -> Option<Node> {
        let lifetime = self.lifetime();
        let at = self.heard.iter().position(|(_, heard)| *heard + lifetime <= now)?;
        Some(self.heard.remove(at).0)
    }

    /// True if the interval is over and nothing was broadcast in it.
    pub fn take_due(&mut self, now: Instant) -> bool {
        if self.next > now {
            return false;
        }
        self.next = now + self.config.interval;
        self.broadcast.is_none_or(|at| now.since(at) >= self.config.interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_neighbour_is_gone_after_two_intervals() {
        let mut watch = Watch::new(Hello::default(), 0.5);
        let at = Instant::from_millis;
        assert_eq!(watch.next(), at(500));
        assert!(!watch.take_due(at(499)) && watch.take_due(at(500)));
        watch.on_broadcast(at(900));
        assert!(!watch.take_due(at(1500)), "a broadcast stands for a HELLO");
        watch.on_hello(at(1000), Node(4));
        watch.on_heard(at(1200), Node(4));
        watch.on_heard(at(1200), Node(5));
        assert_eq!(watch.take_gone(at(3199)), None);
        assert_eq!((watch.take_gone(at(3200)), watch.take_gone(at(3200))), (Some(Node(4)), None));
    }
}
