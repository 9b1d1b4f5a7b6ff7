//! Flows whose segments wait in the router's queue for longer than was thought.
//!
//! Beside the paper (`dsasync`). Sees how long segments waited below (`round_trip/acked.rs`); says which flows
//! share a queue of the router.

use crate::dsasync::codel;
use crate::dsasync::flow::Flow;
use crate::dsasync::pacer::Pacer;
use crate::time::{Duration, Instant};

/// A flow that has waited below for longer than that for so long waits in the router's queue: half the time
/// after which CoDel begins to drop (RFC 8289 section 3.2, `INTERVAL`).
const AQM_PATIENCE: Duration = Duration::from_nanos(codel::INTERVAL.as_nanos() / 2);

/// True if the flow's segments have long waited below for longer than was thought, and others have not. They
/// share one queue of a router with fair queueing: two flows whose hash is the same (RFC 8290 section 6.1)
/// get the turns of one, and all that waits below waits there. What is lost of them may be the router's word
/// of congestion.
#[inline]
pub(crate) fn waits_in_router(now: Instant, flow: &Flow, pacer: &Pacer) -> bool {
    now > flow.waits_since + AQM_PATIENCE && pacer.some_do_not_wait()
}
