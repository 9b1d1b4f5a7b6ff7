//! The search for a route: an expanding ring of requests, then the whole network, a few times.
//!
//! Source: RFC 3561, sections 6.3 (retries, waiting times that double) and 6.4 (expanding ring).

use linkhold_core::time::{Duration, Instant};

use super::config::AodvConfig;
use crate::Node;

/// One destination that is sought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discovery {
    pub destination: Node,
    pub reach: Reach,
    pub phase: Phase,
}

/// How far the present request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// So many hops.
    Ring(u8),
    /// The network; the number of requests that went so far before.
    Network(u8),
    /// So many hops, once: a local repair (section 6.12).
    Repair(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The rate limit allows the request at this time.
    Postponed(Instant),
    /// The request went out, and has until this time to be answered.
    Asked(Instant),
}

impl Phase {
    pub const fn due(self) -> Instant {
        match self {
            Self::Postponed(at) | Self::Asked(at) => at,
        }
    }
}

impl Reach {
    /// The first request's. `hops` is the length of a route that ended (section 6.4).
    pub fn first(config: &AodvConfig, hops: Option<u8>) -> Self {
        let ttl = match hops {
            Some(hops) => hops.saturating_add(config.ttl_increment),
            None => config.ttl_start,
        };
        Self::ring(config, ttl)
    }

    fn ring(config: &AodvConfig, ttl: u8) -> Self {
        if ttl > config.ttl_threshold || ttl >= config.net_diameter {
            Self::Network(0)
        } else {
            Self::Ring(ttl.max(1))
        }
    }

    /// The next request's, after this one was not answered; `None` if it was the last.
    pub fn wider(self, config: &AodvConfig) -> Option<Self> {
        match self {
            // At least one more, so that it ends also with an increment of 0.
            Self::Ring(ttl) => Some(Self::ring(config, ttl.saturating_add(config.ttl_increment.max(1)))),
            Self::Network(before) if before < config.rreq_retries => Some(Self::Network(before + 1)),
            Self::Network(_) | Self::Repair(_) => None,
        }
    }

    pub fn ttl(self, config: &AodvConfig) -> u8 {
        match self {
            Self::Ring(ttl) | Self::Repair(ttl) => ttl,
            Self::Network(_) => config.net_diameter.max(1),
        }
    }

    /// How long the request may take to be answered.
    pub fn patience(self, config: &AodvConfig) -> Duration {
        match self {
            Self::Ring(ttl) | Self::Repair(ttl) => config.ring_traversal_time(ttl),
            Self::Network(before) => config.net_traversal_time() * (1 << before.min(16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_widens_and_then_the_network_is_asked_with_more_patience() {
        let config = AodvConfig::default();
        let mut reach = Some(Reach::first(&config, None));
        let mut asked = Vec::new();
        while let Some(now) = reach {
            asked.push((now.ttl(&config), now.patience(&config).as_millis()));
            reach = now.wider(&config);
        }
        let expected = [(1, 240), (3, 400), (5, 560), (7, 720), (35, 2800), (35, 5600), (35, 11_200)];
        assert_eq!(asked, expected);
    }

    #[test]
    fn a_route_that_ended_sets_the_first_ring() {
        let config = AodvConfig::default();
        let rows =
            [(1, Reach::Ring(3)), (5, Reach::Ring(7)), (6, Reach::Network(0)), (255, Reach::Network(0))];
        for (hops, reach) in rows {
            assert_eq!(Reach::first(&config, Some(hops)), reach, "{hops}");
        }
    }
}
