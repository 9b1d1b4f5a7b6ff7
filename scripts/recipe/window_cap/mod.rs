//! Window cap: makes no window field of a host's segments larger than a number. It is worth nothing; it is
//! the mechanism with which `make try-recipe` tries CONTRIBUTING's recipe.
//!
//! Paper: none. Sees the segments that stations send; rewrites their window, emits nothing.
//! States: none.

mod settings;

use crate::action::{Actions, Rewrite, Verdict};
use crate::link_event::{LinkEvent, LinkEventKind};
use crate::mechanism::Mechanism;
use crate::metrics::Metrics;
use crate::packet::{Direction, PacketView, TcpFlags};
use crate::time::Instant;

/// Settings of [`WindowCap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowCapConfig {
    /// The largest window field that passes, as on the wire.
    pub most: u16,
}

impl Default for WindowCapConfig {
    fn default() -> Self {
        Self { most: 64 }
    }
}

/// Makes windows smaller.
#[derive(Debug)]
pub struct WindowCap {
    most: u16,
    packets: u64,
    clamped: u64,
}

impl WindowCap {
    /// One that has seen nothing.
    #[must_use]
    pub fn new(config: WindowCapConfig) -> Self {
        Self { most: config.most, packets: 0, clamped: 0 }
    }
}

impl Mechanism for WindowCap {
    fn name(&self) -> &'static str {
        "window-cap"
    }

    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, _out: &mut Actions) -> Verdict {
        self.packets += 1;
        let tcp = packet.tcp;
        let passes = tcp.window <= self.most || tcp.signed || tcp.flags.contains(TcpFlags::SYN);
        if packet.direction == Direction::Downlink || passes {
            return Verdict::Forward(Rewrite::NONE);
        }
        self.clamped += 1;
        Verdict::Forward(Rewrite::window(self.most))
    }

    fn on_link(&mut self, _now: Instant, _event: LinkEvent, _out: &mut Actions) {}

    fn listens_to(&self, _kind: &LinkEventKind) -> bool {
        false
    }

    fn on_timeout(&mut self, _now: Instant, _out: &mut Actions) {}

    fn next_timeout(&self) -> Option<Instant> {
        None
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, _now: Instant, _out: &mut Actions) {}

    fn metrics(&self) -> Metrics {
        Metrics { packets: self.packets, windows_clamped: self.clamped, ..Metrics::default() }
    }
}
