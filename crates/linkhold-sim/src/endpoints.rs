//! The simulated ends of the cell: two TCP endpoints a flow, their timers, and what is measured of them.

use std::collections::VecDeque;

use linkhold_core::action::SenderCommand;
use linkhold_core::packet::{Direction, PacketId};
use linkhold_core::time::{Duration, Instant};
use linkhold_results::{DelayHistogram, FlowRecord, FlowSeries, RouterSeries};
use linkhold_tcp::{Endpoint, Source};

use crate::cell::AIR;
use crate::engine::Hosts;
use crate::flow::FlowIndex;
use crate::meter::Meter;
use crate::network::{HostCommand, Network, Sent};
use crate::observer::{Observer, Tap};
use crate::plan::{FlowPlan, Plan};
use crate::queue::Wakeup;
use crate::recorder::Recorder;
use crate::slab::{Packet, Sending};

/// Index of the correspondent's end in a pair.
const CORRESPONDENT: usize = 0;
/// Index of the station's end.
const STATION: usize = 1;
/// How many flows' series are kept: those of the lowest ids.
const SERIES_FLOWS: u32 = 64;

/// What an event of the hosts means, packed in 32 bits: the kind in the upper 3, a number below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// An endpoint's timer: flow times two plus side.
    Timer(u32),
    /// A planned flow opens.
    Open(u32),
    /// A random arrival.
    Arrival(u32),
    /// The warm-up is over.
    WarmUp,
    /// A series interval is over.
    Sample,
    /// The application of a planned flow stops.
    Stop(u32),
}

const KIND_SHIFT: u32 = 29;

impl Token {
    const fn pack(self) -> u32 {
        match self {
            Self::Timer(n) => n,
            Self::Open(n) => 1 << KIND_SHIFT | n,
            Self::Arrival(n) => 2 << KIND_SHIFT | n,
            Self::WarmUp => 3 << KIND_SHIFT,
            Self::Sample => 4 << KIND_SHIFT,
            Self::Stop(n) => 5 << KIND_SHIFT | n,
        }
    }

    const fn unpack(token: u32) -> Self {
        let number = token & ((1 << KIND_SHIFT) - 1);
        match token >> KIND_SHIFT {
            0 => Self::Timer(number),
            1 => Self::Open(number),
            2 => Self::Arrival(number),
            3 => Self::WarmUp,
            4 => Self::Sample,
            _ => Self::Stop(number),
        }
    }
}

/// One end of a flow.
#[derive(Debug)]
struct End {
    tcp: Endpoint,
    wakeup: Wakeup,
}

#[derive(Debug)]
struct Flow {
    ends: [End; 2],
    /// Which end sends the data.
    sender: usize,
    meter: Meter,
    /// Still to be counted in the results: opened and not yet retired.
    open: bool,
}

const fn direction_from(side: usize) -> Direction {
    if side == CORRESPONDENT { Direction::Downlink } else { Direction::Uplink }
}

const fn receiver_of(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => STATION,
        Direction::Uplink => CORRESPONDENT,
    }
}

/// The results of all flows.
#[derive(Debug, Default)]
pub struct FlowResults {
    /// Each flow's record, by id.
    pub records: Vec<FlowRecord>,
    /// Series of the first flows, by id.
    pub series: Vec<FlowSeries>,
    /// The router's series.
    pub router: RouterSeries,
    /// Delays of all flows' segments.
    pub delays: DelayHistogram,
    /// Delays of the segments that met no silence.
    pub delays_outside_silence: DelayHistogram,
}

/// The endpoints of all flows: the simulator's [`Hosts`].
#[derive(Debug)]
pub struct Endpoints<'o, O> {
    plan: Plan,
    flows: Vec<Flow>,
    /// Numbers of closed flows whose last packets may still be on their way.
    retired: VecDeque<FlowIndex>,
    delivered_by_retired: u64,
    warm_up: Instant,
    recorder: Recorder,
    done: FlowResults,
    observer: &'o mut O,
    observe_packets: bool,
}

impl<'o, O: Observer> Endpoints<'o, O> {
    /// The endpoints of a plan. Schedules what is known beforehand: openings, stops, the first random
    /// arrivals, the end of the warm-up and the first sample.
    pub fn new(
        plan: Plan,
        warm_up: Duration,
        recorder: Recorder,
        network: &mut Network,
        observer: &'o mut O,
    ) -> Self {
        let observe_packets = observer.wants_packets();
        if observer.wants_transmissions() {
            network.tell_transmissions();
        }
        let warm_up = Instant::ZERO + warm_up;
        network.schedule(warm_up, Token::WarmUp.pack());
        network.schedule(Instant::ZERO + recorder.interval(), Token::Sample.pack());
        for (number, flow) in plan.flows.iter().enumerate() {
            network.schedule(flow.start, Token::Open(number as u32).pack());
            if let Some(stop) = flow.stop {
                network.schedule(stop, Token::Stop(number as u32).pack());
            }
        }
        for (number, arrivals) in plan.arrivals.iter().enumerate() {
            if let Some(at) = arrivals.due() {
                network.schedule(at, Token::Arrival(number as u32).pack());
            }
        }
        let flows = Vec::with_capacity(plan.flows.len());
        let done = FlowResults::default();
        Self {
            plan,
            flows,
            retired: VecDeque::new(),
            delivered_by_retired: 0,
            warm_up,
            recorder,
            done,
            observer,
            observe_packets,
        }
    }

    fn open(&mut self, now: Instant, plan: &FlowPlan, network: &mut Network) {
        let sender = if plan.direction == Direction::Downlink { CORRESPONDENT } else { STATION };
        let mut meter = Meter::new(plan.id, plan.direction, plan.station.0, now, plan.total);
        if plan.id < SERIES_FLOWS {
            meter.keep_series(self.recorder.interval(), self.recorder.samples());
        }
        meter.opened(network.radio(AIR).silences().ended(plan.station));
        // The data sender opens the connection, as iperf's client does.
        let end = |side: usize| {
            let tcp = if side == sender {
                Endpoint::connect(&plan.tcp, plan.source, plan.iss[side])
            } else {
                Endpoint::listen(&plan.tcp, Source::None, plan.iss[side])
            };
            End { tcp, wakeup: Wakeup::default() }
        };
        let mut flow = Flow { ends: [end(CORRESPONDENT), end(STATION)], sender, meter, open: true };
        if now >= self.warm_up {
            flow.meter.count_from(now, &flow.ends[sender].tcp);
        }
        let reusable = self.retired.iter().position(|index| network.flow(*index).in_flight() == 0);
        let index = match reusable.and_then(|position| self.retired.remove(position)) {
            Some(index) => {
                network.replace_flow(index, plan.key, plan.station);
                // The old flow's wake-ups may still be in the queue. The new flow takes over what is armed,
                // so that stale ones are recognised.
                for (new, old) in flow.ends.iter_mut().zip(&self.flows[index.get()].ends) {
                    new.wakeup = old.wakeup;
                }
                self.flows[index.get()] = flow;
                index
            }
            None => {
                let index = network.add_flow(plan.key, plan.station);
                debug_assert_eq!(index.get(), self.flows.len(), "flows are registered only here");
                self.flows.push(flow);
                index
            }
        };
        self.pump(now, index, sender, network);
    }

    /// Lets one end send what it may, and arms its timer.
    #[inline]
    fn pump(&mut self, now: Instant, index: FlowIndex, side: usize, network: &mut Network) {
        let end = &mut self.flows[index.get()].ends[side];
        while let Some(out) = end.tcp.poll_transmit(now) {
            let sending = Sending {
                flow: index,
                direction: direction_from(side),
                segment: out.segment,
                ecn: out.ecn,
                retransmit: out.retransmit,
            };
            if self.observe_packets {
                let tap = if side == CORRESPONDENT { Tap::Correspondent } else { Tap::Station };
                let info = network.flow(index);
                let packet = Packet::new(now, info.entry(sending.direction), info, &sending);
                self.observer.on_packet(now, tap, &info.key, &packet);
            }
            network.send(now, &sending);
        }
        let token = Token::Timer(index.0 * 2 + side as u32).pack();
        network.arm(&mut end.wakeup, end.tcp.next_timeout(), token);
    }

    /// Retires a flow if both its ends are closed: keeps its results, and frees its number for a later flow.
    fn retire_if_closed(&mut self, now: Instant, index: FlowIndex) {
        let flow = &mut self.flows[index.get()];
        if flow.open && flow.ends.iter().all(|end| end.tcp.is_closed()) {
            flow.open = false;
            self.delivered_by_retired += flow.meter.delivered();
            Self::leave(&mut self.done, now, flow);
            self.retired.push_back(index);
        }
    }

    fn leave(done: &mut FlowResults, now: Instant, flow: &mut Flow) {
        done.records.push(flow.meter.record(now, &flow.ends[flow.sender].tcp));
        done.series.extend(flow.meter.take_series());
        flow.meter.pool_delays(&mut done.delays, &mut done.delays_outside_silence);
    }

    /// The application of a flow stops writing.
    fn stop(&mut self, now: Instant, id: u32, network: &mut Network) {
        let Some(number) = self.flows.iter().position(|flow| flow.open && flow.meter.id() == id) else {
            return;
        };
        let flow = &mut self.flows[number];
        let side = flow.sender;
        flow.ends[side].tcp.end_source(now);
        flow.meter.ends();
        self.pump(now, FlowIndex(number as u32), side, network);
    }

    fn timer(&mut self, at: Instant, number: u32, network: &mut Network) -> bool {
        let (index, side) = (FlowIndex(number / 2), (number % 2) as usize);
        let end = &mut self.flows[index.get()].ends[side];
        if !end.wakeup.fire(at) {
            return false;
        }
        if end.tcp.next_timeout().is_some_and(|due| due <= at) {
            end.tcp.on_timeout(at);
            self.pump(at, index, side, network);
            self.retire_if_closed(at, index);
        } else {
            let deadline = end.tcp.next_timeout();
            network.arm(&mut end.wakeup, deadline, Token::Timer(number).pack());
        }
        true
    }

    fn sample(&mut self, at: Instant, network: &mut Network) {
        let interval = self.recorder.interval();
        for flow in &mut self.flows {
            flow.meter.sample(&flow.ends[flow.sender].tcp, interval);
        }
        let delivered = self.delivered();
        for silence in network.take_silences(AIR) {
            self.recorder.silence(silence);
            self.observer.on_silence(&silence);
        }
        self.recorder.sample(at, delivered, network);
        self.observer.on_progress(at);
        network.schedule(at + interval, Token::Sample.pack());
    }

    /// Application bytes that all flows have delivered.
    fn delivered(&self) -> u64 {
        let open: u64 = self.flows.iter().filter(|flow| flow.open).map(|flow| flow.meter.delivered()).sum();
        self.delivered_by_retired + open
    }

    /// The results of all flows at the end of the run.
    pub fn finish(mut self, now: Instant) -> (FlowResults, Recorder, &'o mut O) {
        for flow in self.flows.iter_mut().filter(|flow| flow.open) {
            Self::leave(&mut self.done, now, flow);
        }
        self.done.records.sort_by_key(|record| record.id);
        self.done.series.sort_by_key(|series| series.flow);
        self.done.router = self.recorder.router();
        (self.done, self.recorder, self.observer)
    }
}

impl<O: Observer> Hosts for Endpoints<'_, O> {
    fn on_transmission(&mut self, sent: &Sent, network: &mut Network) {
        let flow = sent.packet.map(|packet| &network.flow(packet.flow).key);
        self.observer.on_transmission(sent, flow);
    }

    #[inline]
    fn on_arrival(&mut self, now: Instant, _id: PacketId, packet: Packet, network: &mut Network) {
        let side = receiver_of(packet.direction);
        if self.observe_packets {
            let tap = if side == CORRESPONDENT { Tap::Correspondent } else { Tap::Station };
            self.observer.on_packet(now, tap, &network.flow(packet.flow).key, &packet);
        }
        let flow = &mut self.flows[packet.flow.get()];
        let end = &mut flow.ends[side].tcp;
        end.on_segment(now, &packet.segment, packet.ecn);
        if packet.segment.payload_len > 0 && side != flow.sender {
            flow.meter.data_arrived(now, &packet, end.delivered(), network.radio(AIR).silences());
        }
        let finite = flow.meter.is_finite();
        self.pump(now, packet.flow, side, network);
        if finite {
            self.retire_if_closed(now, packet.flow);
        }
    }

    fn on_command(&mut self, now: Instant, command: HostCommand, network: &mut Network) {
        let HostCommand { flow, direction, command } = command;
        let side = receiver_of(direction.opposite());
        let tcp = &mut self.flows[flow.get()].ends[side].tcp;
        match command {
            SenderCommand::Freeze => tcp.freeze(now),
            SenderCommand::Thaw { resend } => tcp.thaw(now, resend),
            SenderCommand::Missing { blocks } => tcp.missing(now, &blocks),
        }
        self.pump(now, flow, side, network);
    }

    fn on_wake(&mut self, at: Instant, token: u32, network: &mut Network) -> bool {
        match Token::unpack(token) {
            Token::Timer(number) => return self.timer(at, number, network),
            Token::Open(number) => {
                let plan = self.plan.flows[number as usize].clone();
                self.open(at, &plan, network);
            }
            Token::Arrival(number) => {
                let plan = self.plan.arrival(number as usize);
                self.open(at, &plan, network);
                if let Some(next) = self.plan.arrivals[number as usize].advance() {
                    network.schedule(next, token);
                }
            }
            Token::WarmUp => {
                self.recorder.warm_up_over(at, network);
                for flow in self.flows.iter_mut().filter(|flow| flow.open) {
                    flow.meter.count_from(at, &flow.ends[flow.sender].tcp);
                }
            }
            Token::Sample => self.sample(at, network),
            Token::Stop(number) => self.stop(at, self.plan.flows[number as usize].id, network),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_packing() {
        for token in [
            Token::Timer(5),
            Token::Open(0),
            Token::Arrival(77),
            Token::WarmUp,
            Token::Sample,
            Token::Stop(3),
        ] {
            assert_eq!(Token::unpack(token.pack()), token);
        }
    }
}
