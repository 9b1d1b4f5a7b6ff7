//! The QUIC flows of a run: their sockets, their threads, and what they leave.

use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use linkhold_core::packet::{Direction, FlowKey};
use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::Pid;

use super::super::error::TrafficError;
use super::config::{Common, Identity};
use super::flow::{QuicEnd, QuicFlow};
use super::peer::{End, Pair, Peer};
use super::stream::{Receiving, Role, Sending};
use crate::netns::NetNs;
use crate::punctual::{HOSTS_NICE, be_nice, finest_timers};

/// Room of a host's socket, bytes: what a host has received must not be lost there, for it would look like a
/// loss that the network did not have.
const SOCKET_ROOM: usize = 8 << 20;

/// A flow whose ends are ready.
struct Ready {
    flow: QuicFlow,
    key: FlowKey,
    /// Client and server.
    peers: [Peer; 2],
}

/// A flow whose ends run.
struct Running {
    flow: QuicFlow,
    key: FlowKey,
    threads: [JoinHandle<Option<End>>; 2],
}

/// All QUIC flows of a run.
#[derive(Default)]
pub struct QuicTraffic {
    ready: Vec<Ready>,
    running: Vec<Running>,
    /// The station of the first flow that failed, and why.
    failed: Arc<Mutex<Option<(u32, String)>>>,
}

impl QuicTraffic {
    /// Opens the sockets of all flows, and sets up both ends.
    ///
    /// # Errors
    /// [`TrafficError`] if a socket cannot be had, or quinn refuses what it is to do.
    pub fn prepare<'a>(
        ch: &NetNs,
        stations: &[NetNs],
        flows: impl Iterator<Item = (FlowKey, &'a QuicFlow)>,
        common: &Common,
    ) -> Result<Self, TrafficError> {
        let mut traffic = Self::default();
        let mut identity = None;
        for (key, flow) in flows {
            let Some(station) = stations.get(flow.station as usize) else { continue };
            let refused = |what| TrafficError::Quic { station: flow.station, what };
            let identity = match &identity {
                Some(known) => known,
                None => identity.insert(Identity::new().map_err(refused)?),
            };
            let [server, client] = [(ch, key.correspondent), (station, key.station)]
                .map(|(netns, end)| socket(netns, SocketAddr::new(end.addr, end.port)));
            let (server, client) = (server?, client?);
            let sends = || Role::Sends(Sending::new(flow.bytes, flow.stop));
            let receives = || Role::Receives(Receiving::new(flow.bytes));
            let roles = match flow.direction {
                Direction::Downlink => [receives(), sends()],
                Direction::Uplink => [sends(), receives()],
            };
            let to = SocketAddr::new(key.correspondent.addr, key.correspondent.port);
            let (sockets, calls) = ([client, server], (to, flow.start));
            let pair = Pair { sockets, roles, calls, datagram: flow.datagram };
            let peers = pair.set_up(identity, common).map_err(refused)?;
            traffic.ready.push(Ready { flow: flow.clone(), key, peers });
        }
        Ok(traffic)
    }

    /// Starts the threads, whose time 0 is `began`; answers what the kernel calls them.
    ///
    /// # Errors
    /// [`TrafficError::Datagrams`] if there can be no thread.
    pub fn start(&mut self, began: Instant, stop: &Arc<AtomicBool>) -> Result<Vec<Pid>, TrafficError> {
        let mut tids = Vec::new();
        for Ready { flow, key, peers } in std::mem::take(&mut self.ready) {
            let spawn = |peer: Peer| {
                let (stop, failed, station) = (stop.clone(), self.failed.clone(), flow.station);
                let (tell, told) = std::sync::mpsc::channel();
                let thread = std::thread::Builder::new().name("quic".to_owned()).spawn(move || {
                    let _ = tell.send(nix::unistd::gettid());
                    be_nice(HOSTS_NICE);
                    finest_timers();
                    match (peer.run(began, &stop), failed.lock()) {
                        (Ok(end), _) => Some(end),
                        (Err(what), Ok(mut failed)) => {
                            failed.get_or_insert((station, what));
                            None
                        }
                        (Err(_), Err(_)) => None,
                    }
                });
                let thread = thread.map_err(TrafficError::Datagrams)?;
                Ok::<_, TrafficError>((thread, told.recv().ok()))
            };
            let [client, server] = peers;
            let ((client, first), (server, second)) = (spawn(client)?, spawn(server)?);
            tids.extend(first.into_iter().chain(second));
            self.running.push(Running { flow, key, threads: [client, server] });
        }
        Ok(tids)
    }

    /// Fails if a flow has failed.
    ///
    /// # Errors
    /// [`TrafficError::Quic`].
    pub fn check(&self) -> Result<(), TrafficError> {
        match self.failed.lock().ok().and_then(|mut failed| failed.take()) {
            Some((station, what)) => Err(TrafficError::Quic { station, what }),
            None => Ok(()),
        }
    }

    /// Waits for the threads, which have been told to stop; answers what the flows left.
    pub fn finish(&mut self) -> Vec<QuicEnd> {
        let ends = self.running.drain(..).filter_map(|Running { flow, key, threads }| {
            // A thread that panicked has said so, and its flow has no record.
            let [client, server] = threads.map(|thread| thread.join().ok().flatten());
            let (sender, receiver) = match flow.direction {
                Direction::Downlink => (server?, client?),
                Direction::Uplink => (client?, server?),
            };
            let Role::Receives(Receiving { reads, done, .. }) = receiver.application.role else {
                return None;
            };
            let End { looks, counts, application: _ } = sender;
            Some(QuicEnd { flow, key, reads, done, looks, counts })
        });
        ends.collect()
    }
}

/// A socket in a host's namespace, where it stays whichever thread uses it.
fn socket(netns: &NetNs, address: SocketAddr) -> Result<UdpSocket, TrafficError> {
    let socket = netns.enter(|| UdpSocket::bind(address))?.map_err(TrafficError::Datagrams)?;
    socket.set_nonblocking(true).map_err(TrafficError::Datagrams)?;
    let system = |errno: nix::errno::Errno| TrafficError::Datagrams(errno.into());
    setsockopt(&socket, sockopt::RcvBufForce, &SOCKET_ROOM).map_err(system)?;
    setsockopt(&socket, sockopt::SndBufForce, &SOCKET_ROOM).map_err(system)?;
    Ok(socket)
}
