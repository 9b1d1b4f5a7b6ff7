//! The numbers of SEARCH. The paper's are not known to us; each one here is ours, and says why.

use linkhold_core::time::Duration;

/// On which channels a request looks for relays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopChannels {
    /// Each copy of it on one channel, which every neighbour that has it free can be sent to on.
    Any,
    /// A neighbour can be sent to only on the one channel that it listens on, and that is the only one that
    /// counts as free there. A request takes each hop on the channel of its relay.
    Homes,
}

/// What a SEARCH router is set to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// Half the opening of the focus region, degrees: a relay deviates no more than that from the straight
    /// way to the destination. (60: with 25 nodes of 250 m range on 1 km2 about three neighbours are in it.)
    pub focus_degrees: f64,
    /// How long the destination gathers requests of one search before it chooses. (50 ms: a few hops of the
    /// slowest copy.)
    pub gather: Duration,
    /// What a change of channel inside a path costs, in the currency of the hops' delays. (10 ms)
    pub switching_delay: Duration,
    /// How long a source waits for an answer to a search that goes straight. (1 s)
    pub patience: Duration,
    /// How many such searches before one that goes to everybody. (2)
    pub attempts: u8,
    /// How long a source waits for an answer to that one. (2.8 s, `NET_TRAVERSAL_TIME` of AODV)
    pub flood_patience: Duration,
    /// A route that nothing uses lives so long. (6 s, `MY_ROUTE_TIMEOUT` of AODV)
    pub route_timeout: Duration,
    /// On which channels a request looks for relays.
    pub hops: HopChannels,
    /// A packet of this node's own that the next hop did not take waits for a new route until 30 s after it
    /// was sent; otherwise it is dropped.
    pub salvage: bool,
    /// Longest random delay before a broadcast is passed on.
    pub jitter: Duration,
    /// Most searches that a node begins in a second.
    pub request_rate: u8,
    /// Most error messages of a node in a second.
    pub error_rate: u8,
    /// Most packets that wait for routes.
    pub max_held: usize,
    /// Most destinations that are sought at once.
    pub max_discoveries: usize,
    /// Most routes.
    pub max_routes: usize,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            focus_degrees: 60.0,
            gather: Duration::from_millis(50),
            switching_delay: Duration::from_millis(10),
            patience: Duration::from_secs(1),
            attempts: 2,
            flood_patience: Duration::from_millis(2800),
            route_timeout: Duration::from_secs(6),
            hops: HopChannels::Any,
            salvage: false,
            jitter: Duration::from_millis(10),
            request_rate: 10,
            error_rate: 10,
            max_held: 64,
            max_discoveries: 64,
            max_routes: 1024,
        }
    }
}
