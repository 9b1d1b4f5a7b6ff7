//! The simulated ends of the cell: two ends a flow, their timers and applications, and what is measured of
//! them.

mod flow;
mod token;

use std::collections::VecDeque;

use linkhold_core::action::SenderCommand;
use linkhold_core::link_event::LinkEvent;
use linkhold_core::packet::{Direction, FlowKey, PacketId, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_mesh::RouteNews;
use linkhold_results::{DelayHistogram, FlowRecord, FlowSeries, MeshMaps, PooledDelays, RouterSeries};
use linkhold_tcp::Congestion;

use crate::apps::browser::Step;
use crate::apps::player::Player;
use crate::cell::AIR;
use crate::engine::Hosts;
use crate::flow::FlowIndex;
use crate::maps::MapRecorder;
use crate::meter::{EndedSeries, Meter};
use crate::network::{HostCommand, Network, Sent};
use crate::observer::{Observer, SeenAt};
use crate::path::RouteId;
use crate::path_news::{self, News, PathNews};
use crate::plan::{FlowPlan, Plan, Traffic};
use crate::recorder::Recorder;
use crate::slab::{Packet, Sending, SendingDatagram};
use crate::udp::Datagram;

use flow::{App, CORRESPONDENT, Flow, STATION, TcpFlow, UdpFlow, sender_of};
use token::Token;

/// How many flows' series are kept: those of the lowest ids.
const SERIES_FLOWS: u32 = 64;

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
    /// Delays of all flows' packets with data.
    pub delays: PooledDelays,
    /// Load times of all users' pages; `None` without users of the web.
    pub pages: Option<DelayHistogram>,
    /// Maps of the mesh, if it is one.
    pub maps: Option<MeshMaps>,
}

impl FlowResults {
    fn take(&mut self, record: FlowRecord, meter: &mut Meter) {
        self.records.push(record);
        self.series.extend(meter.take_series());
        meter.pool_delays(&mut self.delays);
    }

    fn take_tcp(&mut self, now: Instant, flow: &mut TcpFlow) {
        self.take(flow.record(now), &mut flow.meter);
        if let App::Web(user) = &flow.app {
            self.pages.get_or_insert_default().merge(user.browser.pages());
        }
    }
}

/// The ends of all flows: the simulator's [`Hosts`].
#[derive(Debug)]
pub struct Endpoints<'o, O> {
    plan: Plan,
    flows: Vec<Flow>,
    /// Numbers of connections that are closed, or that a user of the web has left and that close by
    /// themselves. Their last packets may still be on their way.
    retired: VecDeque<FlowIndex>,
    delivered_by_retired: u64,
    /// Series of retired flows whose last interval is under way.
    ended_series: Vec<EndedSeries>,
    /// By flow, players that still play what came over a connection that is closed.
    players: Vec<(u32, Box<Player>)>,
    warm_up: Instant,
    recorder: Recorder,
    done: FlowResults,
    maps: Option<MapRecorder>,
    path_news: PathNews,
    observer: &'o mut O,
    observe_packets: bool,
}

impl<'o, O: Observer> Endpoints<'o, O> {
    /// The ends of a plan's flows. Schedules what is known beforehand: openings, stops, the first random
    /// arrivals, the end of the warm-up and the first sample.
    pub fn new(
        plan: Plan,
        warm_up: Duration,
        recorder: Recorder,
        network: &mut Network,
        observer: &'o mut O,
    ) -> Self {
        let maps = MapRecorder::new(&plan, network);
        let observe_packets = observer.wants_packets();
        if observer.wants_transmissions() {
            network.tell_transmissions();
        }
        let hears_path = plan.tcp().congestion == Congestion::TpCrahn;
        if hears_path {
            network.report_links();
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
            ended_series: Vec::new(),
            players: Vec::new(),
            warm_up,
            recorder,
            done,
            maps,
            path_news: PathNews::default(),
            observer,
            observe_packets,
        }
    }

    fn open(&mut self, now: Instant, plan: &FlowPlan, network: &mut Network) {
        let meter = Meter::new(plan.id, plan.direction, plan.station.0, now, plan.total);
        let mut meter = meter.received_by(plan.to);
        if plan.id < SERIES_FLOWS {
            meter.keep_series(self.recorder.interval(), self.recorder.samples());
        }
        meter.opened(network.radio(AIR).silences().ended(plan.station));
        let index = match &plan.traffic {
            Traffic::Udp { .. } => self.open_udp(now, plan, meter, network),
            Traffic::Tcp(_) | Traffic::Web(_) => self.open_tcp(now, plan, meter, network),
        };
        debug_assert!(index.is_some(), "the traffic decides which kind of flow is made");
    }

    fn open_udp(
        &mut self,
        now: Instant,
        plan: &FlowPlan,
        meter: Meter,
        network: &mut Network,
    ) -> Option<FlowIndex> {
        let mut flow = UdpFlow::open(plan, meter, now)?;
        if now >= self.warm_up {
            flow.count_from(now);
        }
        // A UDP flow never gives its number back, and takes no number of another flow, whose timers may be
        // under way.
        let index = network.add_flow_over(plan.key, plan.route, plan.station);
        debug_assert_eq!(index.get(), self.flows.len(), "flows are registered only here");
        self.flows.push(Flow::Udp(flow));
        self.send_datagrams(now, index, network);
        Some(index)
    }

    fn open_tcp(
        &mut self,
        now: Instant,
        plan: &FlowPlan,
        meter: Meter,
        network: &mut Network,
    ) -> Option<FlowIndex> {
        let (mut flow, opener) = TcpFlow::open(plan, meter, now)?;
        if now >= self.warm_up {
            flow.count_from(now);
        }
        let index = self.place(flow, plan.key, (plan.route, plan.station), network);
        if let App::Web(user) = &mut self.flows[index.get()].tcp().app {
            let step = user.browser.begin(now);
            self.take_step(now, index, step, network);
        } else {
            self.pump(now, index, opener, network);
        }
        Some(index)
    }

    /// Gives a connection of TCP a number: that of a closed one with no packet left inside, or a new one.
    fn place(
        &mut self,
        mut flow: TcpFlow,
        key: FlowKey,
        (route, station): (RouteId, StationId),
        network: &mut Network,
    ) -> FlowIndex {
        let flows = &mut self.flows;
        let reusable = self
            .retired
            .iter()
            .position(|index| network.flow(*index).in_flight() == 0 && flows[index.get()].tcp().is_closed());
        match reusable.and_then(|position| self.retired.remove(position)) {
            Some(index) => {
                network.replace_flow(index, key, route, station);
                // The old flow's wake-ups may still be in the queue. The new flow takes over what is armed,
                // so that stale ones are recognised.
                let old = self.flows[index.get()].tcp();
                for (new, old) in flow.ends.iter_mut().zip(&old.ends) {
                    new.wakeup = old.wakeup;
                }
                *old = flow;
                index
            }
            None => {
                let index = network.add_flow_over(key, route, station);
                debug_assert_eq!(index.get(), self.flows.len(), "flows are registered only here");
                self.flows.push(Flow::Tcp(flow));
                index
            }
        }
    }

    /// Lets one end of a TCP flow send what it may, and arms its timer.
    #[inline]
    fn pump(&mut self, now: Instant, index: FlowIndex, side: usize, network: &mut Network) {
        let end = &mut self.flows[index.get()].tcp().ends[side];
        while let Some(out) = end.tcp.poll_transmit(now) {
            let sending = Sending {
                flow: index,
                direction: direction_from(side),
                segment: out.segment,
                ecn: out.ecn,
                retransmit: out.retransmit,
            };
            if self.observe_packets {
                let info = network.flow(index);
                let packet = Packet::new(now, info.entry(sending.direction), info, &sending);
                self.observer.on_packet(now, seen_at(side), &info.key, &packet);
            }
            network.send(now, &sending);
        }
        let token = Token::Timer(index.0 * 2 + side as u32).pack();
        network.arm(&mut end.wakeup, end.tcp.next_timeout(), token);
    }

    /// Sends the datagrams of a UDP flow that are due, and schedules the next.
    fn send_datagrams(&mut self, now: Instant, index: FlowIndex, network: &mut Network) {
        let Flow::Udp(flow) = &mut self.flows[index.get()] else { return };
        let (direction, side) = (flow.direction, sender_of(flow.direction));
        while let Some(Datagram { number, len }) = flow.sender.poll(now) {
            let sending = SendingDatagram { flow: index, direction, number, payload_len: len };
            if self.observe_packets {
                let info = network.flow(index);
                let packet = Packet::datagram(now, info.entry(direction), info, &sending);
                self.observer.on_packet(now, seen_at(side), &info.key, &packet);
            }
            network.send_datagram(now, &sending);
        }
        if let Some(at) = flow.sender.next_send() {
            network.schedule(at, Token::Timer(index.0 * 2 + side as u32).pack());
        }
    }

    /// A packet has arrived at one end of a flow that has an application, or whose source ends.
    #[inline(never)]
    fn watched_arrival(&mut self, now: Instant, index: FlowIndex, side: usize, network: &mut Network) {
        let flow = self.flows[index.get()].tcp();
        let received = flow.ends[side].tcp.delivered();
        let web_end = flow.web_end(side);
        match &mut flow.app {
            App::Plain => {}
            App::Media(player) => {
                if side != flow.sender {
                    player.arrived_in_order(now, received);
                }
            }
            App::Web(user) => {
                let step = user.browser.on_received(now, web_end, received);
                self.take_step(now, index, step, network);
            }
        }
        self.retire_if_finite(now, index);
    }

    /// Does what a browser asks for.
    fn take_step(&mut self, now: Instant, index: FlowIndex, step: Step, network: &mut Network) {
        let flow = self.flows[index.get()].tcp();
        let (client, server) = (flow.client(), flow.sender);
        let wake = Token::Application(index.0).pack();
        let (index, side) = match step {
            Step::Nothing => return,
            Step::Ask(bytes) => {
                flow.ends[client].tcp.write(now, bytes);
                (index, client)
            }
            Step::Answer(bytes) => {
                flow.ends[server].tcp.write(now, bytes);
                (index, server)
            }
            Step::Connect(bytes) => {
                let Some((mut flow, key)) = flow.reconnect(now) else { return };
                flow.ends[client].tcp.write(now, bytes);
                let info = network.flow(index);
                let way = (info.route_id, info.station);
                self.retired.push_back(index);
                (self.place(flow, key, way, network), client)
            }
            Step::Wait(at) => {
                network.schedule(at, wake);
                return;
            }
            Step::Read { until, close } => {
                network.schedule(until, wake);
                if !close {
                    return;
                }
                flow.ends[client].tcp.end_source(now);
                (index, client)
            }
            Step::Leave => {
                flow.ends[client].tcp.end_source(now);
                (index, client)
            }
        };
        self.pump(now, index, side, network);
    }

    /// The application of a flow wakes.
    fn wake(&mut self, now: Instant, index: FlowIndex, network: &mut Network) {
        if let App::Web(user) = &mut self.flows[index.get()].tcp().app {
            let step = user.browser.on_wake(now);
            self.take_step(now, index, step, network);
        }
    }

    /// Retires a flow if both its ends are closed: keeps its results, and frees its number for a later flow.
    fn retire_if_closed(&mut self, now: Instant, index: FlowIndex) {
        let flow = self.flows[index.get()].tcp();
        if flow.open && flow.is_closed() {
            flow.open = false;
            self.delivered_by_retired += flow.meter.delivered();
            self.ended_series.extend(flow.meter.end_series(&flow.ends[flow.sender].tcp));
            self.done.take_tcp(now, flow);
            self.players.extend(flow.take_player().map(|player| (flow.meter.id(), player)));
            self.retired.push_back(index);
        }
    }

    /// The application of a flow stops writing.
    fn stop(&mut self, now: Instant, id: u32, network: &mut Network) {
        let Some(number) = self.flows.iter().position(|flow| flow.is_open() && flow.meter().id() == id)
        else {
            return;
        };
        match &mut self.flows[number] {
            Flow::Tcp(flow) => {
                if let Some(side) = flow.stop(now) {
                    self.pump(now, FlowIndex(number as u32), side, network);
                }
            }
            Flow::Udp(flow) => flow.stop(now),
        }
    }

    fn timer(&mut self, at: Instant, number: u32, network: &mut Network) -> bool {
        let (index, side) = (FlowIndex(number / 2), (number % 2) as usize);
        let flow = match &mut self.flows[index.get()] {
            Flow::Tcp(flow) => flow,
            Flow::Udp(_) => {
                self.send_datagrams(at, index, network);
                return true;
            }
        };
        let end = &mut flow.ends[side];
        if !end.wakeup.fire(at) {
            return false;
        }
        if end.tcp.next_timeout().is_some_and(|due| due <= at) {
            end.tcp.on_timeout(at);
            self.pump(at, index, side, network);
            self.retire_if_finite(at, index);
        } else {
            let deadline = end.tcp.next_timeout();
            network.arm(&mut end.wakeup, deadline, Token::Timer(number).pack());
        }
        true
    }

    fn retire_if_finite(&mut self, now: Instant, index: FlowIndex) {
        if self.flows[index.get()].meter().is_finite() {
            self.retire_if_closed(now, index);
        }
    }

    fn sample(&mut self, at: Instant, network: &mut Network) {
        let interval = self.recorder.interval();
        for flow in &mut self.flows {
            match flow {
                Flow::Tcp(flow) => flow.meter.sample(Some(&flow.ends[flow.sender].tcp), interval),
                Flow::Udp(flow) => flow.meter.sample(None, interval),
            }
        }
        let whole = self.ended_series.extract_if(.., |series| series.sample(interval));
        self.done.series.extend(whole.map(EndedSeries::into_series));
        let delivered = self.delivered();
        for silence in network.take_silences(AIR) {
            self.recorder.silence(silence);
            self.observer.on_silence(&silence);
        }
        self.recorder.sample(at, delivered, network);
        if let Some(maps) = &mut self.maps {
            maps.sample(at, network);
        }
        self.observer.on_progress(at);
        network.schedule(at + interval, Token::Sample.pack());
    }

    /// Application bytes that all flows have delivered.
    fn delivered(&self) -> u64 {
        let open = self.flows.iter().filter(|flow| flow.is_open());
        self.delivered_by_retired + open.map(|flow| flow.meter().delivered()).sum::<u64>()
    }

    /// The results of all flows at the end of the run.
    pub fn finish(mut self, now: Instant, network: &Network) -> (FlowResults, Recorder, &'o mut O) {
        for (number, flow) in self.flows.iter_mut().enumerate().filter(|(_, flow)| flow.is_open()) {
            match flow {
                Flow::Tcp(flow) => self.done.take_tcp(now, flow),
                Flow::Udp(flow) => {
                    let inside = network.flow(FlowIndex(number as u32)).in_flight();
                    self.done.take(flow.record(now, inside), &mut flow.meter);
                }
            }
        }
        self.done.series.extend(self.ended_series.into_iter().map(EndedSeries::into_series));
        self.done.records.sort_by_key(|record| record.id);
        for (id, mut player) in self.players {
            let place = self.done.records.binary_search_by_key(&id, |record| record.id);
            debug_assert!(place.is_ok(), "a player is kept when its flow's record is taken");
            if let Ok(place) = place {
                self.done.records[place].media = Some(player.record(now));
            }
        }
        self.done.series.sort_by_key(|series| series.flow);
        self.done.router = self.recorder.router();
        self.done.maps = self.maps.map(MapRecorder::into_maps);
        (self.done, self.recorder, self.observer)
    }
}

const fn seen_at(side: usize) -> SeenAt {
    if side == CORRESPONDENT { SeenAt::Correspondent } else { SeenAt::Station }
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
            self.observer.on_packet(now, seen_at(side), &network.flow(packet.flow).key, &packet);
        }
        let flow = match &mut self.flows[packet.flow.get()] {
            Flow::Tcp(flow) => flow,
            Flow::Udp(flow) => return flow.arrived(now, &packet, network.radio(AIR).silences()),
        };
        let end = &mut flow.ends[side].tcp;
        end.on_segment(now, &packet.segment, packet.ecn);
        if packet.segment.payload_len > 0 && side != flow.sender {
            flow.meter.data_arrived(now, &packet, end.delivered(), network.radio(AIR).silences());
        }
        let watched = flow.watched;
        self.pump(now, packet.flow, side, network);
        if watched {
            self.watched_arrival(now, packet.flow, side, network);
        }
    }

    fn on_command(&mut self, now: Instant, command: HostCommand, network: &mut Network) {
        let HostCommand { flow, direction, command } = command;
        let side = sender_of(direction);
        let tcp = &mut self.flows[flow.get()].tcp().ends[side].tcp;
        match command {
            SenderCommand::Freeze => tcp.freeze(now),
            SenderCommand::Thaw { resend } => tcp.thaw(now, resend),
            SenderCommand::Missing { blocks } => tcp.missing(now, &blocks),
        }
        self.pump(now, flow, side, network);
    }

    fn on_link(&mut self, event: &LinkEvent, network: &mut Network) {
        let Some(news) = self.path_news.of(event) else { return };
        let now = event.detected_at;
        for index in (0..self.flows.len() as u32).map(FlowIndex) {
            let Flow::Tcp(flow) = &mut self.flows[index.get()] else { continue };
            let side = flow.sender;
            let event = match news {
                News::All(event) => Some(event),
                News::Over { node, event } => {
                    let ends = flow.meter.mesh_ends();
                    ends.is_some_and(|ends| path_news::goes_over(network, ends, node)).then_some(event)
                }
                News::Rate { old, new } => {
                    let mss = u32::from(self.plan.tcp().mss);
                    flow.meter.mesh_ends().and_then(|ends| path_news::change(network, ends, mss, old, new))
                }
            };
            if let Some(event) = event {
                flow.ends[side].tcp.on_path(now, &event);
                self.pump(now, index, side, network);
            }
        }
    }

    fn on_route(&mut self, now: Instant, news: RouteNews, network: &mut Network) {
        let event = path_news::route(now, news);
        for index in (0..self.flows.len() as u32).map(FlowIndex) {
            let Flow::Tcp(flow) = &mut self.flows[index.get()] else { continue };
            if flow.meter.mesh_ends() == Some((news.source.0, news.destination.0)) {
                let side = flow.sender;
                flow.ends[side].tcp.on_path(now, &event);
                self.pump(now, index, side, network);
            }
        }
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
                for (index, flow) in (0..).map(FlowIndex).zip(&mut self.flows) {
                    if !flow.is_over(network.flow(index).in_flight()) {
                        flow.count_from(at);
                    }
                }
                for (_, player) in &mut self.players {
                    player.count_from(at);
                }
            }
            Token::Sample => self.sample(at, network),
            Token::Stop(number) => self.stop(at, self.plan.flows[number as usize].id, network),
            Token::Application(number) => self.wake(at, FlowIndex(number), network),
        }
        true
    }
}
