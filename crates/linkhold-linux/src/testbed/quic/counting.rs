//! What quinn's recovery does, counted: its own statistics, what its congestion control hears, and its probe
//! timeouts.
//!
//! quinn's statistics count a congestion event for each batch of losses, also for those that do not reduce
//! the window (RFC 9002 section 7.3.2), and no probe timeout. So the congestion control is wrapped, and the
//! trace that a probe timeout leaves is listened to.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::{ConnectionStats, RttEstimator};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// What a sender has counted since its connection began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// Reductions of the congestion window.
    pub reductions: u64,
    /// Those of them for persistent congestion.
    pub persistent: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
}

/// Counters of one connection.
#[derive(Debug, Default)]
pub struct Counters {
    reductions: AtomicU64,
    persistent: AtomicU64,
    probe_timeouts: AtomicU64,
}

impl Counters {
    /// All counts, with what quinn tells of the connection.
    #[must_use]
    pub fn with(&self, stats: &ConnectionStats) -> Counts {
        let [reductions, persistent, probe_timeouts] =
            [&self.reductions, &self.persistent, &self.probe_timeouts].map(|n| n.load(Ordering::Relaxed));
        let (sent, lost) = (stats.path.sent_packets, stats.path.lost_packets);
        Counts { sent, lost, reductions, persistent, probe_timeouts }
    }
}

/// Makes congestion controls that are counted.
pub struct CountedFactory {
    inner: Arc<dyn ControllerFactory + Send + Sync>,
    counters: Arc<Counters>,
}

impl CountedFactory {
    /// Those of `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn ControllerFactory + Send + Sync>, counters: Arc<Counters>) -> Self {
        Self { inner, counters }
    }
}

impl ControllerFactory for CountedFactory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let inner = self.inner.clone().build(now, current_mtu);
        Box::new(Counted { inner, counters: self.counters.clone() })
    }
}

/// A congestion control that is counted, and left alone otherwise.
struct Counted {
    inner: Box<dyn Controller>,
    counters: Arc<Counters>,
}

impl Controller for Counted {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.inner.on_sent(now, bytes, last_packet_number);
    }

    fn on_ack(&mut self, now: Instant, sent: Instant, bytes: u64, app_limited: bool, rtt: &RttEstimator) {
        self.inner.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(&mut self, now: Instant, sent: Instant, is_persistent: bool, lost_bytes: u64) {
        let before = self.inner.window();
        self.inner.on_congestion_event(now, sent, is_persistent, lost_bytes);
        if self.inner.window() < before {
            self.counters.reductions.fetch_add(1, Ordering::Relaxed);
            self.counters.persistent.fetch_add(u64::from(is_persistent), Ordering::Relaxed);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self { inner: self.inner.clone_box(), counters: self.counters.clone() })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self.inner.into_any()
    }
}

/// Counts the probe timeouts of the connection that this thread drives, from quinn's traces. Nothing else is
/// traced, so it costs next to nothing.
pub struct ProbeTimeouts(pub Arc<Counters>);

impl ProbeTimeouts {
    /// True for the one event that quinn makes of a probe timeout, known by its fields. (A test drives a
    /// connection into one, and so tells of a quinn that makes another.)
    fn is_one(metadata: &Metadata<'_>) -> bool {
        let fields = metadata.fields();
        metadata.is_event()
            && metadata.target().starts_with("quinn_proto::connection")
            && ["in_flight", "count", "space"].iter().all(|name| fields.field(name).is_some())
    }
}

impl Subscriber for ProbeTimeouts {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::is_one(metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::is_one(metadata)
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(Level::TRACE.into())
    }

    fn event(&self, event: &Event<'_>) {
        if Self::is_one(event.metadata()) {
            self.0.probe_timeouts.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
