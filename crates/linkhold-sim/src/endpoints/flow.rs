//! The two ends of one flow, with its application and its measurements.

use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::Instant;
use linkhold_core::units::{Bytes, Seq};
use linkhold_results::{FlowRecord, FlowTransport};
use linkhold_tcp::{Endpoint, Source, Stats, TcpConfig};

use crate::apps::browser::{Browser, WebEnd};
use crate::apps::player::Player;
use crate::meter::Meter;
use crate::plan::{Connections, FlowPlan, Traffic, WebPlan};
use crate::queue::Wakeup;
use crate::silence_tracker::SilenceTracker;
use crate::slab::Packet;
use crate::udp::{Reception, UdpSender};

/// Index of the correspondent's end in a pair.
pub(super) const CORRESPONDENT: usize = 0;
/// Index of the station's end.
pub(super) const STATION: usize = 1;

/// The end that sends in `direction`.
pub(super) const fn sender_of(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => CORRESPONDENT,
        Direction::Uplink => STATION,
    }
}

/// One end of a TCP connection.
#[derive(Debug)]
pub(super) struct End {
    pub tcp: Endpoint,
    pub wakeup: Wakeup,
}

/// Both ends of a connection that the end `opener` opens; sources and initial sequence numbers by end.
fn ends(tcp: &TcpConfig, opener: usize, sources: [Source; 2], iss: [Seq; 2]) -> [End; 2] {
    [CORRESPONDENT, STATION].map(|side| {
        let open = if side == opener { Endpoint::connect } else { Endpoint::listen };
        End { tcp: open(tcp, sources[side], iss[side]), wakeup: Wakeup::default() }
    })
}

/// A user of the web, with what new connections need.
#[derive(Debug)]
pub(super) struct WebUser {
    pub browser: Browser,
    pub connections: Connections,
    tcp: TcpConfig,
}

/// What stands above a TCP connection.
#[derive(Debug)]
pub(super) enum App {
    /// A source that needs nobody.
    Plain,
    /// A player at the receiver.
    Media(Box<Player>),
    /// A browser at the receiver of the objects, a server at their sender.
    Web(Box<WebUser>),
}

/// A TCP flow.
#[derive(Debug)]
pub(super) struct TcpFlow {
    pub ends: [End; 2],
    /// Which end sends the data.
    pub sender: usize,
    pub meter: Meter,
    /// Still to be counted in the results: opened and not yet retired.
    pub open: bool,
    /// Something is to be done when a packet has arrived: the flow has an application, or an end.
    pub watched: bool,
    pub app: App,
}

impl TcpFlow {
    /// The flow of `plan`, whose data side opens the connection, as iperf's client does; and of the web the
    /// browser. Returns which end that is, too. `None` if the plan's flow is not TCP.
    pub fn open(plan: &FlowPlan, meter: Meter, now: Instant) -> Option<(Self, usize)> {
        let sender = sender_of(plan.direction);
        let (opener, sources, app) = match &plan.traffic {
            Traffic::Udp { .. } => return None,
            Traffic::Tcp(source) => {
                let app = plan
                    .media
                    .as_ref()
                    .map_or(App::Plain, |media| App::Media(Box::new(Player::new(media, true, now))));
                (sender, [*source, Source::None], app)
            }
            Traffic::Web(WebPlan { web, stream, connections }) => {
                let browser = Browser::new(*web, stream.clone());
                let user = WebUser { browser, connections: connections.clone(), tcp: plan.tcp.clone() };
                (1 - sender, [Source::Written(Bytes::ZERO); 2], App::Web(Box::new(user)))
            }
        };
        let watched = meter.is_finite() || !matches!(app, App::Plain);
        let [data, answers] = sources;
        let of_sides = if sender == CORRESPONDENT { [data, answers] } else { [answers, data] };
        let ends = ends(&plan.tcp, opener, of_sides, plan.iss);
        Some((Self { ends, sender, meter, open: true, watched, app }, opener))
    }

    /// The end that asks in a flow of the web.
    pub const fn client(&self) -> usize {
        1 - self.sender
    }

    /// Which end of the web `side` is.
    pub const fn web_end(&self, side: usize) -> WebEnd {
        if side == self.sender { WebEnd::Server } else { WebEnd::Client }
    }

    /// Counts from `now` on.
    pub fn count_from(&mut self, now: Instant) {
        self.meter.count_from(now, self.ends[self.sender].tcp.stats());
        match &mut self.app {
            App::Plain => {}
            App::Media(player) => player.count_from(now),
            App::Web(user) => user.browser.count_from(now),
        }
    }

    /// The application stops writing. Returns the end that has something to send about it.
    pub fn stop(&mut self, now: Instant) -> Option<usize> {
        if let App::Web(user) = &mut self.app {
            user.browser.leave();
            return None;
        }
        let sender = &mut self.ends[self.sender].tcp;
        sender.end_source(now);
        if let (App::Media(player), Source::Finite(length)) = (&mut self.app, sender.source()) {
            player.content_ends(now, length.0);
        }
        self.meter.ends();
        self.watched = true;
        Some(self.sender)
    }

    /// The user of the web leaves this connection and opens another: the flow with its application, its
    /// measurements and two new ends, and the new connection's addresses. What stays behind may still close,
    /// and counts no more. `None` if the flow has no such user.
    pub fn reconnect(&mut self, now: Instant) -> Option<(Self, FlowKey)> {
        let (client, sender) = (self.client(), self.sender);
        let App::Web(user) = &mut self.app else { return None };
        let (key, iss) = user.connections.advance();
        user.browser.connected();
        let ends = ends(&user.tcp, client, [Source::Written(Bytes::ZERO); 2], iss);
        let behind = self.meter.left_behind(now);
        let mut meter = std::mem::replace(&mut self.meter, behind);
        meter.next_connection(self.ends[sender].tcp.stats());
        let app = std::mem::replace(&mut self.app, App::Plain);
        (self.open, self.watched) = (false, false);
        Some((Self { ends, sender, meter, open: true, watched: true, app }, key))
    }

    /// The player of a connection that is closed: it plays on.
    pub fn take_player(&mut self) -> Option<Box<Player>> {
        match std::mem::replace(&mut self.app, App::Plain) {
            App::Media(player) => Some(player),
            other @ (App::Plain | App::Web(_)) => {
                self.app = other;
                None
            }
        }
    }

    /// True if both ends are closed.
    pub fn is_closed(&self) -> bool {
        self.ends.iter().all(|end| end.tcp.is_closed())
    }

    /// The flow's results at `now`.
    pub fn record(&mut self, now: Instant) -> FlowRecord {
        if !self.meter.is_counting() {
            // The warm-up is not over, but the flow is: nothing is left to count.
            self.count_from(now);
        }
        let end = match &self.app {
            App::Web(user) => user.browser.gone_at().unwrap_or(now),
            App::Plain | App::Media(_) => now,
        };
        let mut record = self.meter.record(end, self.ends[self.sender].tcp.stats());
        match &mut self.app {
            App::Plain => {}
            App::Media(player) => record.media = Some(player.record(now)),
            App::Web(user) => record.web = Some(user.browser.record()),
        }
        record
    }
}

/// A UDP flow.
#[derive(Debug)]
pub(super) struct UdpFlow {
    pub sender: UdpSender,
    pub direction: Direction,
    pub meter: Meter,
    reception: Reception,
    /// When a datagram last arrived.
    last_arrival: Instant,
    stopped: Option<Instant>,
}

impl UdpFlow {
    /// The flow of `plan`; `None` if it is not UDP.
    pub fn open(plan: &FlowPlan, meter: Meter, now: Instant) -> Option<Self> {
        let Traffic::Udp { schedule, datagram } = &plan.traffic else { return None };
        Some(Self {
            sender: UdpSender::new(*schedule, *datagram, now),
            direction: plan.direction,
            meter,
            reception: Reception::new(plan.media.as_ref(), now),
            last_arrival: now,
            stopped: None,
        })
    }

    /// A datagram has arrived.
    pub fn arrived(&mut self, now: Instant, packet: &Packet, silences: &SilenceTracker) {
        let (number, len) = (packet.segment.seq.0, packet.segment.payload_len);
        let (position, transit) = (self.sender.position(number), now.since(packet.sent_at));
        let bytes = self.reception.arrived(now, number, len, position, transit);
        self.meter.data_arrived(now, packet, bytes, silences);
        self.last_arrival = now;
    }

    /// Counts from `now` on.
    pub fn count_from(&mut self, now: Instant) {
        self.meter.count_from(now, &Stats::default());
        self.reception.count_from(now, self.sender.sent());
    }

    /// The application stops.
    pub fn stop(&mut self, now: Instant) {
        self.sender.stop();
        self.stopped = Some(now);
        self.reception.content_ends(now, self.sender.bytes());
    }

    /// The flow's results at `now`, with `inside` datagrams on their way.
    pub fn record(&mut self, now: Instant, inside: u32) -> FlowRecord {
        if !self.meter.is_counting() {
            self.count_from(now);
        }
        let end = self.stopped.map_or(now, |stopped| stopped.max(self.last_arrival));
        FlowRecord {
            transport: FlowTransport::Udp,
            udp: Some(self.reception.record(self.sender.sent(), inside)),
            media: self.reception.media(now),
            ..self.meter.record(end, &Stats::default())
        }
    }
}

/// A flow.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all flows are TCP, and a box would cost each packet a hop"
)]
pub(super) enum Flow {
    Tcp(TcpFlow),
    Udp(UdpFlow),
}

impl Flow {
    pub fn meter(&self) -> &Meter {
        match self {
            Self::Tcp(flow) => &flow.meter,
            Self::Udp(flow) => &flow.meter,
        }
    }

    /// Opened and not yet retired.
    pub const fn is_open(&self) -> bool {
        match self {
            Self::Tcp(flow) => flow.open,
            Self::Udp(_) => true,
        }
    }

    /// True if nothing more can arrive, with `inside` packets on their way.
    pub fn is_over(&self, inside: u32) -> bool {
        match self {
            Self::Tcp(flow) => !flow.open,
            Self::Udp(flow) => flow.sender.next_send().is_none() && inside == 0,
        }
    }

    pub fn count_from(&mut self, now: Instant) {
        match self {
            Self::Tcp(flow) => flow.count_from(now),
            Self::Udp(flow) => flow.count_from(now),
        }
    }

    /// The TCP flow that this is.
    ///
    /// # Panics
    /// If it is UDP: only TCP has what the caller is about (a timer of an endpoint, a command, a user).
    #[inline]
    pub fn tcp(&mut self) -> &mut TcpFlow {
        match self {
            Self::Tcp(flow) => flow,
            Self::Udp(_) => unreachable!("a UDP flow has no endpoint of TCP"),
        }
    }
}
