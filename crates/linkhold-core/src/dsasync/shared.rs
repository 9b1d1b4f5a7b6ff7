//! What every part of DSASync needs: settings, link monitor, flow table, counters, and the space for held
//! packets.

use super::allocation::Allocation;
use super::config::DsaSyncConfig;
use super::flow::Transport;
use super::flow_table::FlowTable;
use super::per_station::PerStation;
use crate::action::{AckSpec, Action, Actions, DropReason, Verdict};
use crate::link_monitor::LinkMonitor;
use crate::mechanism::Metrics;
use crate::packet::{Direction, PacketId, StationId};
use crate::time::{Duration, Instant};
use crate::units::BitRate;

/// The state that no single part owns. Each part gets it as an argument.
#[derive(Debug)]
pub(super) struct Shared {
    pub config: DsaSyncConfig,
    pub monitor: LinkMonitor,
    pub flows: FlowTable,
    pub space: Space,
    allocation: Allocation,
    /// How much later than expected data came after quiet periods (`foresight.rs`).
    pub late_data: Duration,
    /// Counters. The gauges in it are filled in when somebody asks.
    pub metrics: Metrics,
}

impl Shared {
    pub fn new(config: &DsaSyncConfig) -> Self {
        Self {
            config: *config,
            monitor: LinkMonitor::new(&config.monitor),
            flows: FlowTable::new(config.max_flows, config.flow_seed),
            space: Space::new(config),
            allocation: Allocation::new(),
            late_data: Duration::ZERO,
            metrics: Metrics::default(),
        }
    }

    /// A silence begins, of a channel that carries `rate` otherwise: B_alloc follows the silences seen.
    #[cold]
    pub fn silence_began(&mut self, now: Instant, rate: BitRate) {
        self.allocation.silence_began(now, rate);
        self.allot(now);
    }

    /// The channel's rate is `rate` from now on.
    pub fn rate_changed(&mut self, rate: BitRate) {
        self.allocation.rate_changed(rate);
    }

    /// A silence is over.
    #[cold]
    pub fn silence_ended(&mut self, now: Instant) {
        self.allocation.silence_ended(now, self.monitor.any_tfp());
        self.allot(now);
    }

    fn allot(&mut self, now: Instant) {
        if self.config.dynamic_buffer
            && let Some(wanted) = self.allocation.wanted(now)
        {
            self.space.allot(wanted);
        }
    }

    /// A packet comes in a silence: allots more if the silence is longer than those seen.
    #[cold]
    pub fn allot_more(&mut self, now: Instant) {
        if self.config.dynamic_buffer
            && let Some(wanted) = self.allocation.wanted(now)
        {
            self.space.allot_more(wanted);
        }
    }

    /// Throws a held packet away.
    pub fn discard(&mut self, packet: PacketId, reason: DropReason, out: &mut Actions) {
        self.metrics.dropped[reason as usize] += 1;
        out.push(Action::Discard { packet, reason });
    }

    /// The verdict on a packet that is not even held.
    pub fn drop_packet(&mut self, reason: DropReason) -> Verdict {
        self.metrics.dropped[reason as usize] += 1;
        Verdict::Drop(reason)
    }

    /// Sends the correspondent a copy of the flow's last ACK with this window. False if the station has not
    /// acknowledged anything yet, so that there is nothing to copy, or if it signs what it sends.
    pub fn inject(&mut self, slot: u32, window: u16, out: &mut Actions) -> bool {
        let flow = self.flows.at(slot);
        if flow.signed {
            return false;
        }
        let (Some(ack), Some(seq)) = (flow.acked, flow.up_next) else { return false };
        debug_assert!(window <= flow.offer || window <= flow.passed, "never larger than what was offered");
        out.push(Action::InjectAck(AckSpec {
            flow: flow.key,
            direction: Direction::Uplink,
            seq,
            ack,
            window,
            timestamp: flow.up_timestamp,
            ece: false,
        }));
        flow.passed = window;
        self.metrics.acks_injected += 1;
        true
    }
}

/// Whether there is room for more (the paper's `hold` is true while space is low).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Plenty,
    Low,
}

/// B_alloc and its thresholds as they are set, bytes.
#[derive(Clone, Copy, Debug)]
struct Whole {
    alloc: u64,
    low: u64,
    high: u64,
}

/// B_alloc and how much of it is in use, over both directions and the kept-back ACKs. Datagrams fill it as
/// well, up to their quota, but no window is closed for their sake: the levels count the rest.
///
/// Thresholds and quotas are those of the whole of B_alloc. What is allotted at present may be less; each of
/// them has the same part of it.
///
/// Level: plenty → low (B_free < B_low) → plenty (B_free > B_high).
#[derive(Debug)]
pub(super) struct Space {
    held: u64,
    /// Bytes of datagrams among those held.
    datagrams: u64,
    peak: u64,
    /// What is allotted of B_alloc at present.
    alloc: u64,
    low: u64,
    high: u64,
    whole: Whole,
    level: Level,
    /// Stations that hold packets in the hold buffer.
    stations: u32,
    /// By station: its queues that hold packets.
    queues: PerStation<u32>,
}

impl Space {
    fn new(config: &DsaSyncConfig) -> Self {
        Self {
            held: 0,
            datagrams: 0,
            peak: 0,
            alloc: config.b_alloc.0,
            low: config.b_low.0,
            high: config.b_high.0,
            whole: Whole { alloc: config.b_alloc.0, low: config.b_low.0, high: config.b_high.0 },
            level: Level::Plenty,
            stations: 0,
            queues: PerStation::new(config.monitor.max_stations),
        }
    }

    /// Allots `wanted` bytes, or twice what is held if that is more, but never more than B_alloc.
    fn allot(&mut self, wanted: u64) {
        self.alloc = wanted.max(self.held.saturating_mul(2)).min(self.whole.alloc);
        (self.low, self.high) = (self.part(self.whole.low), self.part(self.whole.high));
    }

    /// As [`allot`](Self::allot), if `wanted` is more than what is allotted now.
    fn allot_more(&mut self, wanted: u64) {
        if wanted > self.alloc && self.alloc < self.whole.alloc {
            self.allot(wanted);
        }
    }

    /// What is allotted of B_alloc at present, bytes.
    pub fn allotted(&self) -> u64 {
        self.alloc
    }

    /// The part of a quota or threshold that is allotted at present, bytes.
    pub fn part(&self, of_whole: u64) -> u64 {
        if self.alloc == self.whole.alloc {
            return of_whole;
        }
        let part = u128::from(of_whole) * u128::from(self.alloc) / u128::from(self.whole.alloc);
        u64::try_from(part).unwrap_or(u64::MAX)
    }

    /// Notes how many stations hold packets in the hold buffer, and in how many queues this one does.
    pub fn note_queues(&mut self, station: StationId, (stations, queues): (u32, u32)) {
        self.stations = stations;
        *self.queues.at(station) = queues;
    }

    /// Half of what each queue of the station could hold at B_low if all stations held equally much, and all
    /// queues of this one, bytes. Who holds less has no part in space being low.
    pub fn share(&self, station: StationId) -> u64 {
        let queues = self.queues.get(station).map_or(1, |&queues| queues.max(1));
        (self.alloc - self.low) / (2 * u64::from(self.stations.max(1)) * u64::from(queues))
    }

    /// Books a packet of `len` bytes that is held from now on.
    pub fn take(&mut self, len: u32) {
        self.held += u64::from(len);
        self.peak = self.peak.max(self.held);
    }

    /// Books a packet of `len` bytes out.
    pub fn give_back(&mut self, len: u32) {
        self.held -= u64::from(len);
    }

    /// Books a datagram of `len` bytes that is held from now on.
    pub fn take_datagram(&mut self, len: u32) {
        self.datagrams += u64::from(len);
        self.take(len);
    }

    /// Books a packet of `len` bytes out that the hold buffer held.
    #[inline]
    pub fn give_back_of(&mut self, transport: Transport, len: u32) {
        if transport == Transport::Udp {
            self.datagrams -= u64::from(len);
        }
        self.give_back(len);
    }

    /// Bytes held now.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Most bytes held at once so far.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    /// True if a packet of `len` bytes fits once `freed` bytes of those held have left.
    pub fn fits(&self, len: u32, freed: u32) -> bool {
        self.held - u64::from(freed) + u64::from(len) <= self.alloc
    }

    fn free(&self) -> u64 {
        self.alloc.saturating_sub(self.held - self.datagrams)
    }

    /// True if at least B_low is free.
    pub fn is_ample(&self) -> bool {
        self.free() >= self.low
    }

    /// True if windows are closed for lack of space.
    pub fn is_low(&self) -> bool {
        self.level == Level::Low
    }

    /// Algorithm 1 line 11: true if space has just run low.
    pub fn runs_low(&mut self) -> bool {
        let runs_low = self.level == Level::Plenty && !self.is_ample();
        if runs_low {
            self.level = Level::Low;
        }
        runs_low
    }

    /// Algorithm 2 line 1: true if there is plenty of space again.
    pub fn recovers(&mut self) -> bool {
        let recovers = self.level == Level::Low && self.free() > self.high;
        if recovers {
            self.level = Level::Plenty;
        }
        recovers
    }

    /// Everything is being let go: lack of space closes no window any more.
    pub fn call_plenty(&mut self) {
        self.level = Level::Plenty;
    }
}
