//! Both ends of a flow over loopback, with a network between them that loses what it is told to lose.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::config::{Common, Identity};
use super::peer::{End, Pair, Peer};
use super::stream::{Receiving, Role, Sending};

const DATAGRAM: u16 = 1472;

fn common(congestion: &str) -> Common {
    let text = "schema = \"linkhold.scenario/1\"\nname = \"t\"\nduration = \"20s\"\n[radio]\nphy_rate = \"24Mbit/s\"\n\
                [[flows]]\ndirection = \"downlink\"\ntransport = \"quic\"\n";
    let scenario = linkhold_scenario::Scenario::from_toml(text, "t.toml", &[]).expect("it is valid");
    let mut common = Common::of(&scenario.cases()[0].scenario, congestion);
    common.warm_up = Duration::ZERO;
    common
}

fn socket() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    socket.set_nonblocking(true).expect("a flag");
    let address = socket.local_addr().expect("an address");
    (socket, address)
}

/// Which of the server's datagrams are lost.
trait Loses: FnMut(u32, Duration) -> bool + Send + 'static {}

impl<Function: FnMut(u32, Duration) -> bool + Send + 'static> Loses for Function {}

/// Passes datagrams on between two hosts. The `number`-th (from 0) datagram of the server that comes `at` is
/// lost if `loses(number, at)`.
fn network(server: SocketAddr, mut loses: impl Loses, stop: Arc<AtomicBool>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bind");
    socket.set_read_timeout(Some(Duration::from_millis(20))).expect("a timeout");
    let address = socket.local_addr().expect("an address");
    std::thread::spawn(move || {
        let (mut buffer, mut client, mut number) = ([0; 2048], None, 0);
        let began = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { continue };
            let to = if from == server {
                number += 1;
                client.filter(|_| !loses(number - 1, began.elapsed()))
            } else {
                client = Some(from);
                Some(server)
            };
            if let Some(to) = to {
                socket.send_to(&buffer[..length], to).expect("sent");
            }
        }
    });
    address
}

/// A download; what client and server say of it.
fn download(
    sending: Sending,
    receiving: Receiving,
    congestion: &str,
    loses: impl Loses,
) -> [Result<End, String>; 2] {
    between([Role::Receives(receiving), Role::Sends(sending)], congestion, loses)
}

/// What the ends with these roles, client and server, say of a flow.
fn between(roles: [Role; 2], congestion: &str, loses: impl Loses) -> [Result<End, String>; 2] {
    let (common, identity) = (common(congestion), Identity::new().expect("a certificate"));
    let ((client_socket, _), (server_socket, server)) = (socket(), socket());
    let stop = Arc::new(AtomicBool::new(false));
    let to = network(server, loses, stop.clone());
    let (sockets, calls) = ([client_socket, server_socket], (to, Duration::ZERO));
    let pair = Pair { sockets, roles, calls, datagram: DATAGRAM };
    let [client, server] = pair.set_up(&identity, &common).expect("it is valid");
    let began = Instant::now();
    let over = AtomicBool::new(false);
    let ends = std::thread::scope(|scope| {
        let run = |peer: Peer| {
            let over = &over;
            scope.spawn(move || {
                let end = peer.run(began, over);
                if end.is_err() {
                    over.store(true, Ordering::Relaxed);
                }
                end
            })
        };
        [run(client), run(server)].map(|thread| thread.join().expect("no panic"))
    });
    stop.store(true, Ordering::Relaxed);
    ends
}

const NOTHING: fn(u32, Duration) -> bool = |_, _| false;

fn receiver(end: &End) -> &Receiving {
    match &end.application.role {
        Role::Receives(receiving) => receiving,
        Role::Sends(_) => panic!("it receives"),
    }
}

#[test]
fn flows_of_any_size_and_direction_arrive_whole_with_each_congestion_control() {
    for (bytes, congestion) in [(1, "cubic"), (250, "bbr"), (251, "reno"), (3_000_001, "cubic")] {
        let roles =
            || (Role::Sends(Sending::new(Some(bytes), None)), Role::Receives(Receiving::new(Some(bytes))));
        let ((down_sends, down_receives), (up_sends, up_receives)) = (roles(), roles());
        let [client, server] = between([down_receives, down_sends], congestion, NOTHING);
        let (client, _) = (client.expect("it arrives"), server.expect("it is sent"));
        let [sender, taker] = between([up_sends, up_receives], congestion, NOTHING);
        let (_, taker) = (sender.expect("it is sent"), taker.expect("it arrives"));
        for end in [client, taker] {
            let receiving = receiver(&end);
            assert_eq!(receiving.reads.last().map(|(_, got)| *got), Some(bytes), "{congestion}");
            assert!(receiving.done.is_some() && receiving.reads.is_sorted());
        }
    }
}

#[test]
fn wrong_bytes_and_missing_ones_are_found() {
    let [client, _] = download(Sending::zeros(9_000), Receiving::new(Some(9_000)), "cubic", NOTHING);
    assert_eq!(client.err().as_deref(), Some("wrong bytes after the first 0"));
    let [client, _] = download(Sending::new(Some(500), None), Receiving::new(Some(501)), "cubic", NOTHING);
    assert_eq!(client.err().as_deref(), Some("the stream ended after 500 of 501 bytes"));
}

#[test]
fn a_source_without_end_stops_when_it_should() {
    // A busy machine may not have come far by the first times.
    let found = [300, 1_200, 4_800, 19_200].map(Duration::from_millis).into_iter().find(|&stop| {
        let sending = Sending::new(None, Some(stop));
        let [client, server] = download(sending, Receiving::new(None), "reno", NOTHING);
        let (client, server) = (client.expect("it arrives"), server.expect("it is sent"));
        let got = receiver(&client).reads.last().map_or(0, |(_, got)| *got);
        println!("stop after {stop:?}: {got} bytes, {} looks", server.looks.len());
        assert!(receiver(&client).done.is_some(), "{got}");
        got > 100_000 && server.looks.len() > 5
    });
    assert!(found.is_some(), "next to nothing was sent, or nobody looked at it");
}

#[test]
fn losses_and_reductions_of_the_window_are_counted() {
    let loses = |number: u32, _: Duration| number > 100 && number.is_multiple_of(200);
    let amount = 2_000_000;
    let [client, server] =
        download(Sending::new(Some(amount), None), Receiving::new(Some(amount)), "cubic", loses);
    client.expect("it arrives");
    let [_, counts] = server.expect("it is sent").counts;
    // 2 MB are 1390 datagrams, and every two hundredth is lost; sockets without much room lose more.
    assert!(counts.sent > 1_390 && (5..400).contains(&counts.lost), "{counts:?}");
    assert!((1..=counts.lost).contains(&counts.reductions) && counts.persistent == 0, "{counts:?}");
}

/// Nothing comes through for 0.6 s from the server's 21st datagram on: what was under way is lost, and the
/// sender probes. Without this count a new version of quinn that traces probe timeouts otherwise would go
/// unnoticed.
#[test]
fn probe_timeouts_are_counted_where_nothing_comes_through() {
    let mut began = None;
    let silence = move |number: u32, at: Duration| {
        number >= 20 && at < *began.get_or_insert(at) + Duration::from_millis(600)
    };
    // Far more than 21 datagrams.
    let sending = Sending::new(Some(500_000), None);
    let [client, server] = download(sending, Receiving::new(None), "cubic", silence);
    client.expect("it arrives");
    let [_, counts] = server.expect("it is sent").counts;
    assert!((2..30).contains(&counts.probe_timeouts) && counts.lost > 0, "{counts:?}");
}
