//! Flow-queueing CoDel (RFC 8290).

use linkhold_core::time::Duration;
use linkhold_core::units::Bytes;

/// Parameters of `fq_codel` (RFC 8290 section 5.2, defaults of the RFC and of Linux).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Packets in all queues together.
    pub limit: u32,
    /// Number of hash buckets.
    pub flows: u32,
    /// Acceptable standing delay.
    pub target: Duration,
    /// Time the delay must stand before the first drop.
    pub interval: Duration,
    /// Bytes a flow may send per round.
    pub quantum: u32,
    /// Bytes in all queues together.
    pub memory_limit: Bytes,
    /// Mark ECN-capable frames instead of dropping them.
    pub ecn: bool,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        Self {
            limit: 10_240,
            flows: 1024,
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            quantum: 1514,
            memory_limit: Bytes(32 << 20),
            ecn: true,
        }
    }
}
