//! Flow-queueing CoDel: hashed flow queues under DRR++ with CoDel on each (RFC 8290, RFC 8289).
//!
//! Sees frames and their time in the queue; emits drops, or marks on ECN-capable frames.
//! States of a flow queue (RFC 8290 section 4.1): empty → new → old → empty; and, with `blocked` radios, new
//! or old → blocked → old.
//! Deviations:
//! - a flow queue whose head is for a blocked (silent) radio leaves the rounds until some radio is unblocked,
//!   so that flows to others pass. CoDel does not see it meanwhile; the time it stands counts as sojourn
//!   time;
//! - on overflow up to 64 packets, or half the bytes, are dropped from the head of the longest queue at once,
//!   as Linux does (`fq_codel_drop`), so that the search for it is amortised; with `overflow_counts` CoDel
//!   counts them as its own drops, as there;
//! - time is in nanoseconds and `interval / sqrt(count)` in floating point, not Linux's fixed point.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Bytes;

use super::blocked::is_blocked;
use super::config::FqCodelConfig;
use crate::frame::{AirDrop, AirOutput, Frame};

/// End of a list.
const NIL: u32 = u32::MAX;
/// Most packets dropped at once on overflow (Linux `drop_batch_size`).
const DROP_BATCH: u32 = 64;

/// A queued frame.
#[derive(Clone, Copy, Debug)]
struct Node {
    frame: Frame,
    arrived: Instant,
    /// Arrival order over all flows.
    order: u64,
    next: u32,
}

/// The list on which a flow queue stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnList {
    /// It holds no frames.
    None,
    New,
    Old,
    /// Its head waits for a radio that is silent.
    Blocked,
}

/// CoDel's state (RFC 8289 section 5.2).
#[derive(Clone, Copy, Debug)]
struct Codel {
    /// When the sojourn time will have been above target for an interval; zero: it is below.
    first_above_time: Instant,
    drop_next: Instant,
    count: u32,
    lastcount: u32,
    dropping: bool,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    head: u32,
    tail: u32,
    bytes: u64,
    deficit: i64,
    codel: Codel,
    list: OnList,
    /// Next flow on its list.
    next: u32,
}

const IDLE: Flow = Flow {
    head: NIL,
    tail: NIL,
    bytes: 0,
    deficit: 0,
    codel: Codel {
        first_above_time: Instant::ZERO,
        drop_next: Instant::ZERO,
        count: 0,
        lastcount: 0,
        dropping: false,
    },
    list: OnList::None,
    next: NIL,
};

/// A list of flows, linked through `Flow::next`.
#[derive(Clone, Copy, Debug)]
struct FlowList {
    head: u32,
    tail: u32,
}

impl FlowList {
    const EMPTY: Self = Self { head: NIL, tail: NIL };

    fn push_back(&mut self, flows: &mut [Flow], index: u32) {
        flows[index as usize].next = NIL;
        if self.head == NIL {
            self.head = index;
        } else {
            flows[self.tail as usize].next = index;
        }
        self.tail = index;
    }

    fn pop_front(&mut self, flows: &[Flow]) -> Option<u32> {
        let index = self.head;
        if index == NIL {
            return None;
        }
        self.head = flows[index as usize].next;
        Some(index)
    }
}

/// The queue.
#[derive(Clone, Debug)]
pub(crate) struct FqCodel {
    config: FqCodelConfig,
    flows: Vec<Flow>,
    nodes: Vec<Node>,
    free: u32,
    new_flows: FlowList,
    old_flows: FlowList,
    blocked_flows: FlowList,
    packets: u32,
    bytes: u64,
    arrivals: u64,
    /// Working memory of `reclaim`.
    taken: Vec<(u64, Frame)>,
}

impl FqCodel {
    pub(crate) fn new(mut config: FqCodelConfig) -> Self {
        config.quantum = config.quantum.max(FqCodelConfig::LEAST_QUANTUM);
        Self {
            config,
            flows: vec![IDLE; config.flows.max(1) as usize],
            nodes: Vec::new(),
            free: NIL,
            new_flows: FlowList::EMPTY,
            old_flows: FlowList::EMPTY,
            blocked_flows: FlowList::EMPTY,
            packets: 0,
            bytes: 0,
            arrivals: 0,
            taken: Vec::new(),
        }
    }

    pub(crate) const fn packets(&self) -> u32 {
        self.packets
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn room(&self) -> (u32, Bytes) {
        let bytes = self.config.memory_limit.saturating_sub(Bytes(self.bytes));
        (self.config.limit.saturating_sub(self.packets), bytes)
    }

    /// RFC 8290 section 4.1.
    pub(crate) fn enqueue(&mut self, now: Instant, frame: Frame, out: &mut AirOutput) {
        let index = frame.flow_hash % self.flows.len() as u32;
        let node = self.allocate(Node { frame, arrived: now, order: self.arrivals, next: NIL });
        self.arrivals += 1;
        self.packets += 1;
        self.bytes += u64::from(frame.len);
        let flow = &mut self.flows[index as usize];
        if flow.head == NIL {
            flow.head = node;
        } else {
            self.nodes[flow.tail as usize].next = node;
        }
        flow.tail = node;
        flow.bytes += u64::from(frame.len);
        if flow.list == OnList::None {
            flow.list = OnList::New;
            flow.deficit = i64::from(self.config.quantum);
            self.new_flows.push_back(&mut self.flows, index);
        }
        if self.packets > self.config.limit || self.bytes > self.config.memory_limit.0 {
            self.trim(out);
        }
    }

    /// On overflow the queue with the most bytes loses packets from its head (RFC 8290 section 4.1).
    fn trim(&mut self, out: &mut AirOutput) {
        let fattest = (0..self.flows.len()).rev().max_by_key(|&index| self.flows[index].bytes).unwrap_or(0);
        let enough = self.flows[fattest].bytes / 2;
        let mut dropped_bytes = 0;
        for _ in 0..DROP_BATCH {
            let Some(node) = self.pop(fattest) else { break };
            dropped_bytes += u64::from(node.frame.len);
            out.dropped(node.frame, AirDrop::QueueFull);
            if self.config.overflow_counts {
                // fq_codel_drop: "Tell codel to increase its signal strength also".
                let codel = &mut self.flows[fattest].codel;
                codel.count = codel.count.saturating_add(1);
            }
            if dropped_bytes >= enough {
                break;
            }
        }
    }

    /// RFC 8290 section 4.2: new flows first, then old ones, each while its deficit lasts.
    pub(crate) fn dequeue(
        &mut self,
        now: Instant,
        blocked: &[bool],
        out: &mut AirOutput,
    ) -> Option<(Frame, bool)> {
        loop {
            let (index, from_new) = match self.new_flows.head {
                NIL => (self.old_flows.head, false),
                index => (index, true),
            };
            if index == NIL {
                return None;
            }
            let at = index as usize;
            // Its quantum is used up: it gets another and goes to the end of the old flows.
            if self.flows[at].deficit <= 0 {
                self.flows[at].deficit += i64::from(self.config.quantum);
                self.take_first(from_new);
                self.put_on_old(index);
                continue;
            }
            let got = if self.head_is_blocked(at, blocked) {
                None
            } else {
                self.codel_dequeue(at, now, blocked, out)
            };
            let Some((frame, ce)) = got else {
                self.take_first(from_new);
                if self.flows[at].head != NIL {
                    self.flows[at].list = OnList::Blocked;
                    self.blocked_flows.push_back(&mut self.flows, index);
                } else if from_new && self.old_flows.head != NIL {
                    // A new flow that ran empty goes to the end of the old flows first: coming back as new at
                    // once, it could starve them.
                    self.put_on_old(index);
                } else {
                    self.flows[at].list = OnList::None;
                }
                continue;
            };
            self.flows[at].deficit -= i64::from(frame.len);
            return Some((frame, ce));
        }
    }

    fn take_first(&mut self, from_new: bool) {
        let list = if from_new { &mut self.new_flows } else { &mut self.old_flows };
        list.pop_front(&self.flows);
    }

    fn put_on_old(&mut self, index: u32) {
        self.flows[index as usize].list = OnList::Old;
        self.old_flows.push_back(&mut self.flows, index);
    }

    fn head_is_blocked(&self, flow: usize, blocked: &[bool]) -> bool {
        let head = self.flows[flow].head;
        head != NIL && is_blocked(blocked, self.nodes[head as usize].frame.to)
    }

    /// `dequeue()` of RFC 8289 section 5.5, with marks in the place of drops where ECN allows (RFC 8290 has
    /// the same in `codel_dequeue` of its reference code). `None`: empty, or the head waits for a silent
    /// radio.
    fn codel_dequeue(
        &mut self,
        flow: usize,
        now: Instant,
        blocked: &[bool],
        out: &mut AirOutput,
    ) -> Option<(Frame, bool)> {
        let (mut node, mut ok_to_drop) = self.codel_do_dequeue(flow, now, blocked)?;
        if self.flows[flow].codel.dropping {
            if !ok_to_drop {
                // The sojourn time is below target: leave the dropping state.
                self.flows[flow].codel.dropping = false;
            }
            while self.flows[flow].codel.dropping && now >= self.flows[flow].codel.drop_next {
                let codel = &mut self.flows[flow].codel;
                codel.count = codel.count.saturating_add(1);
                if self.config.ecn && node.frame.ecn_capable {
                    codel.drop_next = control_law(codel.drop_next, self.config.interval, codel.count);
                    return Some((node.frame, true));
                }
                out.dropped(node.frame, AirDrop::Codel);
                let Some(after) = self.codel_do_dequeue(flow, now, blocked) else {
                    self.flows[flow].codel.dropping = false;
                    return None;
                };
                (node, ok_to_drop) = after;
                let codel = &mut self.flows[flow].codel;
                if ok_to_drop {
                    // Still above target: schedule the next drop.
                    codel.drop_next = control_law(codel.drop_next, self.config.interval, codel.count);
                } else {
                    codel.dropping = false;
                }
            }
            return Some((node.frame, false));
        }
        if !ok_to_drop {
            return Some((node.frame, false));
        }
        // The sojourn time has been above target for an interval: enter the dropping state, at the rate that
        // it was left with if that was recently.
        let config = self.config;
        let codel = &mut self.flows[flow].codel;
        codel.dropping = true;
        let delta = codel.count.saturating_sub(codel.lastcount);
        let recently = now.since(codel.drop_next) < config.interval * 16;
        codel.count = if delta > 1 && recently { delta } else { 1 };
        codel.drop_next = control_law(now, config.interval, codel.count);
        codel.lastcount = codel.count;
        if config.ecn && node.frame.ecn_capable {
            return Some((node.frame, true));
        }
        out.dropped(node.frame, AirDrop::Codel);
        self.codel_do_dequeue(flow, now, blocked).map(|(node, _)| (node.frame, false))
    }

    /// `dodequeue()` of RFC 8289 section 5.6.
    fn codel_do_dequeue(&mut self, flow: usize, now: Instant, blocked: &[bool]) -> Option<(Node, bool)> {
        let node = if self.head_is_blocked(flow, blocked) { None } else { self.pop(flow) };
        let config = self.config;
        let flow = &mut self.flows[flow];
        let Some(node) = node else {
            flow.codel.first_above_time = Instant::ZERO;
            return None;
        };
        // Below target, or not even a full packet left behind: no standing queue.
        if now.since(node.arrived) < config.target || flow.bytes <= u64::from(config.quantum) {
            flow.codel.first_above_time = Instant::ZERO;
            return Some((node, false));
        }
        if flow.codel.first_above_time == Instant::ZERO {
            flow.codel.first_above_time = now + config.interval;
            return Some((node, false));
        }
        Some((node, now >= flow.codel.first_above_time))
    }

    /// Some radio may be sent to again: blocked flows rejoin the rounds, as old ones.
    pub(crate) fn unblock(&mut self) {
        while let Some(index) = self.blocked_flows.pop_front(&self.flows) {
            self.put_on_old(index);
        }
    }

    /// Takes out the frames that are `wanted`, in order of arrival over all flows.
    pub(crate) fn reclaim(&mut self, wanted: impl Fn(&Frame) -> bool, into: &mut Vec<Frame>) {
        let mut taken = core::mem::take(&mut self.taken);
        for flow in 0..self.flows.len() {
            let mut at = core::mem::replace(&mut self.flows[flow].head, NIL);
            self.flows[flow].tail = NIL;
            while at != NIL {
                let node = self.nodes[at as usize];
                if wanted(&node.frame) {
                    self.packets -= 1;
                    self.bytes -= u64::from(node.frame.len);
                    self.flows[flow].bytes -= u64::from(node.frame.len);
                    self.release(at);
                    taken.push((node.order, node.frame));
                } else {
                    self.nodes[at as usize].next = NIL;
                    if self.flows[flow].head == NIL {
                        self.flows[flow].head = at;
                    } else {
                        let tail = self.flows[flow].tail as usize;
                        self.nodes[tail].next = at;
                    }
                    self.flows[flow].tail = at;
                }
                at = node.next;
            }
        }
        // Flows left empty stay on their lists and fall off when their turn comes.
        taken.sort_unstable_by_key(|&(order, _)| order);
        into.extend(taken.drain(..).map(|(_, frame)| frame));
        self.taken = taken;
    }

    fn pop(&mut self, flow: usize) -> Option<Node> {
        let index = self.flows[flow].head;
        if index == NIL {
            return None;
        }
        let node = self.nodes[index as usize];
        let queue = &mut self.flows[flow];
        queue.head = node.next;
        queue.bytes -= u64::from(node.frame.len);
        self.packets -= 1;
        self.bytes -= u64::from(node.frame.len);
        self.release(index);
        Some(node)
    }

    fn allocate(&mut self, node: Node) -> u32 {
        if self.free == NIL {
            self.nodes.push(node);
            return (self.nodes.len() - 1) as u32;
        }
        let index = self.free;
        self.free = self.nodes[index as usize].next;
        self.nodes[index as usize] = node;
        index
    }

    fn release(&mut self, index: u32) {
        self.nodes[index as usize].next = self.free;
        self.free = index;
    }
}

/// `control_law()` of RFC 8289 section 5.6: the drop rate grows with the square root of the drops so far.
fn control_law(t: Instant, interval: Duration, count: u32) -> Instant {
    t + interval.mul_f64(1.0 / f64::from(count).sqrt())
}

#[cfg(test)]
#[path = "fq_codel_tests.rs"]
mod tests;
