//! What a queue can be, and what it does in a silence.

use linkhold_core::time::Duration;
use linkhold_core::units::Bytes;

/// What a queue does with a frame that arrives while its station is silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InSilence {
    /// Queue it as at any other time.
    #[default]
    Queue,
    /// Drop it.
    Drop,
    /// Drop it, and with it what was queued when a silence of the whole network began: a radio that is
    /// switched off or reset, and loses its transmit queue. A silence of one station only drops arrivals.
    Flush,
}

impl InSilence {
    /// True if what arrives in a silence is lost.
    #[must_use]
    pub const fn drops_arrivals(self) -> bool {
        match self {
            Self::Queue => false,
            Self::Drop | Self::Flush => true,
        }
    }
}

/// The discipline of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out, DropTail.
    Fifo {
        /// Most packets in it.
        limit: u32,
    },
    /// Flow-queueing CoDel.
    FqCodel(FqCodelConfig),
}

/// A queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Its discipline.
    pub kind: QueueKind,
    /// What becomes of arrivals in a silence.
    pub in_silence: InSilence,
}

impl QueueConfig {
    /// A DropTail FIFO of `limit` packets that queues in silences.
    #[must_use]
    pub const fn fifo(limit: u32) -> Self {
        Self { kind: QueueKind::Fifo { limit }, in_silence: InSilence::Queue }
    }
}

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
    /// Bytes a flow may send per round, at least 256; also the longest packet, below which CoDel never drops.
    pub quantum: u32,
    /// Bytes in all queues together.
    pub memory_limit: Bytes,
    /// Mark ECN-capable frames instead of dropping them.
    pub ecn: bool,
    /// What an overflow drops counts as CoDel's drops, so that CoDel drops faster (Linux `fq_codel_drop`; not
    /// in RFC 8290).
    pub overflow_counts: bool,
}

impl FqCodelConfig {
    /// Smallest quantum, bytes (Linux, net/sched/sch_fq_codel.c, `fq_codel_change`): bounds the rounds that a
    /// dequeue may take.
    pub const LEAST_QUANTUM: u32 = 256;

    /// What Linux's Wi-Fi stack keeps above every driver that pulls its packets (`wake_tx_queue`): `fq_init`
    /// of `include/net/fq_impl.h` and `ieee80211_txq_setup_flows` of `net/mac80211/tx.c`, which asks for 4096
    /// flows. The memory is that of a radio with VHT (802.11ac); others have 4 MiB.
    ///
    /// CoDel's least backlog is not set there, so CoDel drops down to a flow's last packet. Here it is the
    /// quantum, 300 bytes, which no full packet fits in. Not modelled: the division of air time between
    /// stations.
    pub const MAC80211: Self = Self {
        limit: 8192,
        flows: 4096,
        target: Duration::from_millis(20),
        interval: Duration::from_millis(100),
        quantum: 300,
        memory_limit: Bytes(16 << 20),
        ecn: true,
        // fq_tin_enqueue leaves CoDel's state alone.
        overflow_counts: false,
    };

    /// The same for a slow station, from commit 484a54c2e597dbc4 (of 2017, from memory) to commit
    /// 4876376988081d63 of 2025, which took it out: a station whose expected throughput was below 6 Mbit/s
    /// times the number of stations associated (`sta_update_codel_params` of `net/mac80211/sta_info.c`).
    pub const MAC80211_SLOW: Self = Self {
        target: Duration::from_millis(50),
        interval: Duration::from_millis(300),
        ecn: false,
        ..Self::MAC80211
    };
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
            overflow_counts: true,
        }
    }
}
