//! The numbers of AODV.
//!
//! Source: RFC 3561, section 10, as public implementations quote it. Its remark that `ACTIVE_ROUTE_TIMEOUT`
//! should be 10 s at least where the MAC tells of broken links is kept to, as is that `TTL_START` should be 2
//! at least with HELLO messages.

use linkhold_core::time::Duration;

/// What an AODV router is set to: [`AodvConfig::default`] where the MAC tells of broken links,
/// [`AodvConfig::with_hello`] where it does not, [`AodvConfig::ns2`] as the papers of the time simulated it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AodvConfig {
    /// `ACTIVE_ROUTE_TIMEOUT`: a route that nothing uses lives so long.
    pub active_route_timeout: Duration,
    /// `NET_DIAMETER`: most hops between two nodes.
    pub net_diameter: u8,
    /// `NODE_TRAVERSAL_TIME`: one hop of a message, with queueing.
    pub node_traversal_time: Duration,
    /// `RREQ_RETRIES`: more attempts across the whole network after the first.
    pub rreq_retries: u8,
    /// `RREQ_RATELIMIT`: most requests that a node originates in a second.
    pub rreq_ratelimit: u8,
    /// `RERR_RATELIMIT`: most error messages of a node in a second.
    pub rerr_ratelimit: u8,
    /// `TTL_START`: reach of the first request, hops.
    pub ttl_start: u8,
    /// `TTL_INCREMENT`.
    pub ttl_increment: u8,
    /// `TTL_THRESHOLD`: beyond it the whole network is asked.
    pub ttl_threshold: u8,
    /// `TIMEOUT_BUFFER`, hops.
    pub timeout_buffer: u8,
    /// `K` of `DELETE_PERIOD` (section 10): 5 is recommended.
    pub delete_factor: u32,
    /// HELLO messages; `None` where the MAC tells of broken links.
    pub hello: Option<Hello>,
    /// The G flag of requests (section 6.6.3): a node that answers in the destination's place tells it the
    /// way back, which TCP needs for its ACKs.
    pub gratuitous: bool,
    /// Local repair (section 6.12): a node on the way seeks a new route itself when the next hop is gone.
    pub local_repair: bool,
    /// `LOCAL_ADD_TTL`: how much further than half the way back, or the way that was left, such a request
    /// goes, hops.
    pub local_add_ttl: u8,
    /// A packet of this node's own that the next hop did not take waits for a new route until 30 s after it
    /// was sent; otherwise, as in ns-2, it is dropped.
    pub salvage: bool,
    /// Longest random delay before a broadcast is passed on (ns-2: 10 ms).
    pub jitter: Duration,
    /// Most packets that wait for routes (ns-2: 64).
    pub max_held: usize,
    /// Most destinations that are sought at once.
    pub max_discoveries: usize,
    /// Most routes. A mesh of no more nodes than that never loses a sequence number too early.
    pub max_routes: usize,
}

/// HELLO messages, section 6.9.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// `HELLO_INTERVAL`.
    pub interval: Duration,
    /// `ALLOWED_HELLO_LOSS`: a neighbour that is silent for so many intervals is gone.
    pub allowed_loss: u32,
}

impl Default for AodvConfig {
    fn default() -> Self {
        Self {
            active_route_timeout: Duration::from_secs(10),
            net_diameter: 35,
            node_traversal_time: Duration::from_millis(40),
            rreq_retries: 2,
            rreq_ratelimit: 10,
            rerr_ratelimit: 10,
            ttl_start: 1,
            ttl_increment: 2,
            ttl_threshold: 7,
            timeout_buffer: 2,
            delete_factor: 5,
            hello: None,
            gratuitous: true,
            local_repair: false,
            local_add_ttl: 2,
            salvage: false,
            jitter: Duration::from_millis(10),
            max_held: 64,
            max_discoveries: 64,
            max_routes: 1024,
        }
    }
}

impl Default for Hello {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), allowed_loss: 2 }
    }
}

impl AodvConfig {
    /// Section 10 with HELLO messages.
    #[must_use]
    pub fn with_hello() -> Self {
        let active_route_timeout = Duration::from_secs(3);
        Self { active_route_timeout, ttl_start: 2, hello: Some(Hello::default()), ..Self::default() }
    }

    /// The constants of ns-2's `aodv.h`, with the RFC's waiting times (ns-2 has its own).
    #[must_use]
    pub fn ns2() -> Self {
        Self {
            net_diameter: 30,
            node_traversal_time: Duration::from_millis(30),
            rreq_retries: 3,
            ttl_start: 5,
            gratuitous: false,
            ..Self::default()
        }
    }

    /// `NET_TRAVERSAL_TIME`: across the network and back.
    #[must_use]
    pub fn net_traversal_time(&self) -> Duration {
        self.node_traversal_time * (2 * u32::from(self.net_diameter))
    }

    /// `PATH_DISCOVERY_TIME`: a request is known so long.
    #[must_use]
    pub fn path_discovery_time(&self) -> Duration {
        self.net_traversal_time() * 2
    }

    /// `MY_ROUTE_TIMEOUT`: the lifetime that a destination gives to the route to itself.
    #[must_use]
    pub fn my_route_timeout(&self) -> Duration {
        self.active_route_timeout * 2
    }

    /// `DELETE_PERIOD`: an invalid route is remembered so long, which has to be longer than a node upstream
    /// may go on using it unheard. Section 10 looks at `ACTIVE_ROUTE_TIMEOUT` and `HELLO_INTERVAL` only;
    /// where these are short, the way back of a request is kept for longer (section 6.5), and the request may
    /// be under way as long again.
    #[must_use]
    pub fn delete_period(&self) -> Duration {
        let hello = self.hello.map_or(Duration::ZERO, |hello| hello.interval * hello.allowed_loss.max(1));
        let recommended = self.active_route_timeout.max(hello) * self.delete_factor;
        recommended.max(self.path_discovery_time() * 2)
    }

    /// `MAX_REPAIR_TTL`: a route is repaired locally if its destination was no further, hops.
    #[must_use]
    pub fn max_repair_ttl(&self) -> u8 {
        // 0.3 x NET_DIAMETER, as a whole number of hops.
        (u16::from(self.net_diameter) * 3 / 10) as u8
    }

    /// TTL of a local repair's request (section 6.12): `to_destination` is `MIN_REPAIR_TTL`, the last known
    /// hops to the destination; `to_source` is how far the packet has come.
    #[must_use]
    pub fn repair_ttl(&self, to_destination: u8, to_source: u8) -> u8 {
        to_destination.max(to_source / 2).saturating_add(self.local_add_ttl)
    }

    /// `RING_TRAVERSAL_TIME` of a request that goes `ttl` hops (section 6.4).
    #[must_use]
    pub fn ring_traversal_time(&self, ttl: u8) -> Duration {
        self.node_traversal_time * (2 * (u32::from(ttl) + u32::from(self.timeout_buffer)))
    }

    /// The least lifetime of the route back to the originator of a request that came `hops` hops (section
    /// 6.5).
    #[must_use]
    pub fn reverse_lifetime(&self, hops: u8) -> Duration {
        let spent = self.node_traversal_time * (2 * u32::from(hops));
        (self.net_traversal_time() * 2).saturating_sub(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn derived_times_are_those_of_section_10() {
        let config = AodvConfig::default();
        assert_eq!(config.net_traversal_time(), Duration::from_millis(2800));
        assert_eq!(config.path_discovery_time(), Duration::from_millis(5600));
        assert_eq!(config.my_route_timeout(), Duration::from_secs(20));
        assert_eq!(config.delete_period(), Duration::from_secs(50));
        assert_eq!(AodvConfig::with_hello().my_route_timeout(), Duration::from_secs(6));
        assert_eq!(AodvConfig::with_hello().delete_period(), Duration::from_secs(15));
        let short = AodvConfig { active_route_timeout: Duration::from_secs(1), ..config };
        assert_eq!(short.delete_period(), Duration::from_millis(11_200));
        assert_eq!(config.ring_traversal_time(1), Duration::from_millis(240));
        assert_eq!(config.reverse_lifetime(5), Duration::from_millis(5200));
        assert_eq!((config.max_repair_ttl(), config.repair_ttl(2, 9), config.repair_ttl(3, 1)), (10, 6, 5));
    }
}
