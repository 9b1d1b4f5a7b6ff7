//! One end of a QUIC flow: the loop between quinn-proto, a socket and an application.
//!
//! After every input (datagrams, a timer, the application) all that follows from it is drained: events,
//! events between connection and endpoint, datagrams to send. Then the thread waits for the socket or the
//! next timer.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Endpoint, Event, VarInt,
};

use super::super::clock::instant;
use super::super::tun::MTU;
use super::config::{Common, Identity, SERVER_NAME, endpoint, transport};
use super::counting::{Counters, Counts, ProbeTimeouts};
use super::flow::Look;
use super::stream::{Application, Role, Side};

/// Longest wait, so that a request to stop is heard.
const LOOK: Duration = Duration::from_millis(50);
/// How often the sender's window is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Datagrams received before others are sent.
const BATCH: usize = 32;

/// Client and server of a flow, before they are set up.
pub struct Pair {
    /// Their sockets, which do not block.
    pub sockets: [UdpSocket; 2],
    /// What each does with the stream.
    pub roles: [Role; 2],
    /// Whom the client calls, and when, after the start of the run.
    pub calls: (SocketAddr, Duration),
    /// Bytes of a full datagram.
    pub datagram: u16,
}

impl Pair {
    /// Both ends before the run.
    ///
    /// # Errors
    /// What quinn refuses, in words.
    pub fn set_up(self, identity: &Identity, common: &Common) -> Result<[Peer; 2], String> {
        let Self { sockets: [client, server], roles: [at_client, at_server], calls: (to, at), datagram } =
            self;
        let shared = Arc::new(endpoint(datagram)?);
        let [client_counters, server_counters]: [Arc<Counters>; 2] = Default::default();
        let side = |counters: &Arc<Counters>| transport(common, datagram, counters.clone()).map(Arc::new);
        let calls = identity.client(side(&client_counters)?)?;
        let answers = identity.server(side(&server_counters)?)?;
        let client = Peer {
            calls: Some((calls, to, at)),
            ..Peer::new(
                client,
                Endpoint::new(shared.clone(), None, false, None),
                Application::new(at_client, Side::Opens),
                client_counters,
                common.warm_up,
            )
        };
        let server = Peer::new(
            server,
            Endpoint::new(shared, Some(Arc::new(answers)), false, None),
            Application::new(at_server, Side::Takes),
            server_counters,
            common.warm_up,
        );
        Ok([client, server])
    }
}

/// What an end leaves.
pub struct End {
    /// Its application.
    pub application: Application,
    /// The connection over time.
    pub looks: Vec<Look>,
    /// What was counted by the end of the warm-up, and in all.
    pub counts: [Counts; 2],
}

/// An end while it runs.
pub struct Peer {
    socket: UdpSocket,
    endpoint: Endpoint,
    /// Of a client that has not called yet: its side of the connection, whom to call, and when, after the
    /// start of the run.
    calls: Option<(ClientConfig, SocketAddr, Duration)>,
    application: Application,
    /// What its congestion control counts.
    counters: Arc<Counters>,
    /// When counting begins, after the start of the run.
    warm_up: Duration,
    connection: Option<(ConnectionHandle, Connection)>,
    established: bool,
    /// The flow is over.
    over: bool,
    looks: Vec<Look>,
    next_look: Duration,
    counts: [Counts; 2],
    datagram: Vec<u8>,
}

impl Peer {
    /// An end before the run, which calls nobody.
    fn new(
        socket: UdpSocket,
        endpoint: Endpoint,
        application: Application,
        counters: Arc<Counters>,
        warm_up: Duration,
    ) -> Self {
        Self {
            socket,
            endpoint,
            calls: None,
            application,
            counters,
            warm_up,
            connection: None,
            established: false,
            over: false,
            looks: Vec::new(),
            next_look: Duration::ZERO,
            counts: [Counts::default(); 2],
            datagram: Vec::with_capacity(MTU.into()),
        }
    }

    /// Runs from `began` until the flow is over, or `stop` is set.
    ///
    /// # Errors
    /// What went wrong, in words: the system's errors, a connection that was lost, wrong bytes.
    pub fn run(mut self, began: Instant, stop: &AtomicBool) -> Result<End, String> {
        let listener = tracing::Dispatch::new(ProbeTimeouts(self.counters.clone()));
        tracing::dispatcher::with_default(&listener, || {
            while !self.over && !stop.load(Ordering::Relaxed) {
                self.step(began)?;
            }
            self.count(began.elapsed());
            Ok(End { application: self.application, looks: self.looks, counts: self.counts })
        })
    }

    fn step(&mut self, began: Instant) -> Result<(), String> {
        let system = |error: io::Error| error.to_string();
        self.call(began)?;
        self.receive().map_err(system)?;
        if let Some((_, connection)) = &mut self.connection {
            let now = Instant::now();
            if connection.poll_timeout().is_some_and(|at| at <= now) {
                connection.handle_timeout(now);
            }
        }
        self.go_on(began)?;
        self.send().map_err(system)?;
        self.look(began.elapsed());
        self.wait(began).map_err(system)
    }

    /// A client opens its connection when its time has come.
    fn call(&mut self, began: Instant) -> Result<(), String> {
        let Some((config, server, _)) = self.calls.take_if(|(_, _, at)| began.elapsed() >= *at) else {
            return Ok(());
        };
        let opened = self.endpoint.connect(Instant::now(), config, server, SERVER_NAME);
        self.connection = Some(opened.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Takes what has come.
    fn receive(&mut self) -> io::Result<()> {
        let mut buffer = [0; MTU as usize];
        for _ in 0..BATCH {
            let (length, from) = match self.socket.recv_from(&mut buffer) {
                Ok(received) => received,
                Err(error) if is_passing(&error) => return Ok(()),
                Err(error) => return Err(error),
            };
            let Some(bytes) = buffer.get(..length) else { continue };
            let (now, bytes) = (Instant::now(), BytesMut::from(bytes));
            self.datagram.clear();
            match self.endpoint.handle(now, from, None, None, bytes, &mut self.datagram) {
                Some(DatagramEvent::ConnectionEvent(of, event)) => {
                    if let Some((_, connection)) = self.connection.as_mut().filter(|(known, _)| *known == of)
                    {
                        connection.handle_event(event);
                    }
                }
                Some(DatagramEvent::NewConnection(incoming)) if self.connection.is_none() => {
                    self.datagram.clear();
                    // Who calls wrongly is not answered: nobody else is in these namespaces.
                    self.connection = self.endpoint.accept(incoming, now, &mut self.datagram, None).ok();
                }
                Some(DatagramEvent::NewConnection(incoming)) => self.endpoint.ignore(incoming),
                Some(DatagramEvent::Response(transmit)) => {
                    self.transmit(transmit.size, transmit.destination)?
                }
                None => {}
            }
        }
        Ok(())
    }

    /// Handles what has happened to the connection, and lets the application do what it can.
    fn go_on(&mut self, began: Instant) -> Result<(), String> {
        let Some((handle, connection)) = &mut self.connection else { return Ok(()) };
        loop {
            while let Some(event) = connection.poll() {
                match event {
                    Event::Connected => self.established = true,
                    // The receiver closes the connection when it has all.
                    Event::ConnectionLost { reason: ConnectionError::ApplicationClosed(_) } => {
                        self.over = true
                    }
                    Event::ConnectionLost { reason } => return Err(reason.to_string()),
                    Event::HandshakeDataReady
                    | Event::Stream(_)
                    | Event::DatagramReceived
                    | Event::DatagramsUnblocked => {}
                }
            }
            if self.established && !self.over && !connection.is_closed() {
                let now = Instant::now();
                if self.application.go_on(now.saturating_duration_since(began), connection)? {
                    // The flow is over when the other end has had time to ask again.
                    connection.close(now, VarInt::from_u32(0), Bytes::new());
                }
            }
            self.over |= connection.is_drained();
            let mut more = false;
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(answer) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(answer);
                    more = true;
                }
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Sends all that may go now.
    fn send(&mut self) -> io::Result<()> {
        loop {
            let Some((_, connection)) = &mut self.connection else { return Ok(()) };
            self.datagram.clear();
            let Some(transmit) = connection.poll_transmit(Instant::now(), 1, &mut self.datagram) else {
                return Ok(());
            };
            self.transmit(transmit.size, transmit.destination)?;
        }
    }

    fn transmit(&self, size: usize, to: SocketAddr) -> io::Result<()> {
        let Some(bytes) = self.datagram.get(..size) else { return Ok(()) };
        match self.socket.send_to(bytes, to) {
            Ok(_) => Ok(()),
            // The host's queue has no room: the datagram is lost, as any other.
            Err(error) if is_passing(&error) || error.raw_os_error() == Some(libc::ENOBUFS) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn look(&mut self, now: Duration) {
        if now < self.next_look {
            return;
        }
        self.next_look = now + LOOK_INTERVAL;
        if let Some((_, connection)) = &self.connection {
            let path = connection.stats().path;
            self.looks.push(Look { at: instant(now), cwnd: path.cwnd, rtt: path.rtt });
        }
        self.count(now);
    }

    fn count(&mut self, now: Duration) {
        let Some((_, connection)) = &self.connection else { return };
        let counts = self.counters.with(&connection.stats());
        let [at_warm_up, all] = &mut self.counts;
        *all = counts;
        if now < self.warm_up {
            *at_warm_up = counts;
        }
    }

    /// Waits for the socket, the next timer, or the next look.
    fn wait(&mut self, began: Instant) -> io::Result<()> {
        if self.over {
            return Ok(());
        }
        let now = began.elapsed();
        let until = |at: Duration| at.saturating_sub(now);
        let mut longest = LOOK.min(until(self.next_look));
        if let Some((_, _, at)) = &self.calls {
            longest = longest.min(until(*at));
        }
        if let Some(at) = self.connection.as_mut().and_then(|(_, connection)| connection.poll_timeout()) {
            longest = longest.min(at.saturating_duration_since(Instant::now()));
        }
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match ppoll(&mut fds, Some(TimeSpec::from_duration(longest)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// True if the socket has nothing, or no room, just now.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
