//! Traffic that means harm, or that must not be touched.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linkhold_core::packet::{Ecn, Endpoint, TcpFlags, TcpSegment};
use linkhold_core::units::Seq;
use linkhold_linux::netns::{NetNs, NetNsError};
use linkhold_linux::testbed::host_load::HostMeter;
use linkhold_linux::topology::{HOST, RADIO, ThreeHosts};
use linkhold_wire::{PacketSpec, Payload, emit};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrStorage, connect, sendto, socket,
};

use crate::agent_process::AgentProcess;
use crate::attempts::{By, Late, Timed, in_time};
use crate::behaviour::{MEGABYTE, STEADY, tcp_counter};
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, Unfinished, skipped};

/// The radio of these tests. Where the agent is told it, nothing below the agent is slower, so that the
/// agent's pace is what the flows share.
const RATE_BPS: f64 = 50e6;
/// What of it is a flow's data: packets of the lab's MTU, 1500 bytes, less the headers of IPv4 and of TCP
/// with timestamps (RFC 7323), 52 bytes.
const FULL_DATA_BPS: f64 = RATE_BPS * 1448.0 / 1500.0;
/// Data of a flood's packet, as `hping3 -d 1400`.
const FLOOD_DATA: u32 = 1400;

/// Segments that belong to no connection, at a steady pace, until dropped.
struct Flood {
    thread: Option<JoinHandle<Result<nix::Result<()>, NetNsError>>>,
    stop: Arc<AtomicBool>,
}

/// Over what a flood is spread.
#[derive(Clone, Copy, Debug)]
enum Spread {
    /// Nothing: one flow that heeds no window.
    Nothing,
    /// Another port for each packet, as hping3 has it unless told otherwise.
    Ports,
    /// Another address on the radio's side for each packet, too. Nobody has any of them.
    Addresses,
}

/// Addresses on the radio's side that nobody has, by their last byte.
const NOBODYS: std::ops::Range<u64> = 128..254;

impl Flood {
    /// Starts sending segments with data to a closed port of the station, so many bits a second.
    fn start(path: &ThreeHosts, bps: f64, spread: Spread) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let work = move || send_flood(bps, spread, &ended);
        let thread = path.ch.spawn("flood", work).expect("start the flood");
        Self { thread: Some(thread), stop }
    }

    fn end(mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("a flood is ended once");
        thread.join().expect("the flood's thread").expect("enter").expect("a raw socket sends");
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// An address in the radio's network.
fn nobodys(last: u64) -> IpAddr {
    let IpAddr::V4(station) = ThreeHosts::SH_V4 else { unreachable!("it is IPv4") };
    let [a, b, c, _] = station.octets();
    IpAddr::from([a, b, c, last as u8])
}

fn send_flood(bps: f64, spread: Spread, stop: &AtomicBool) -> nix::Result<()> {
    let socket: OwnedFd =
        socket(AddressFamily::Inet, SockType::Raw, SockFlag::SOCK_CLOEXEC, SockProtocol::Raw)?;
    let mut buffer = [0u8; 1500];
    let (started, mut sent) = (Instant::now(), 0u64);
    while !stop.load(Ordering::Relaxed) {
        // At most what a late sender of the same rate would catch up with in 5 ms.
        let due = (started.elapsed().as_secs_f64() * bps / 8.0 / f64::from(FLOOD_DATA + 40)) as u64;
        sent = sent.max(due.saturating_sub((bps * 0.005 / 8.0 / 1440.0) as u64));
        while sent < due {
            let port = match spread {
                Spread::Nothing => 2000,
                Spread::Ports | Spread::Addresses => 1024 + (sent % 60_000) as u16,
            };
            let addr = match spread {
                Spread::Nothing | Spread::Ports => ThreeHosts::SH_V4,
                Spread::Addresses => nobodys(NOBODYS.start + sent % (NOBODYS.end - NOBODYS.start)),
            };
            let to = SockaddrStorage::from(SocketAddr::new(addr, 0));
            let tcp = TcpSegment {
                seq: Seq(sent as u32),
                ack: Seq(1),
                flags: TcpFlags::ACK,
                window: 512,
                payload_len: FLOOD_DATA,
                ..TcpSegment::default()
            };
            let spec = PacketSpec {
                src: Endpoint { addr: ThreeHosts::CH_V4, port },
                dst: Endpoint { addr, port: 9999 },
                tcp,
                ecn: Ecn::NotEct,
            };
            let length = emit(&spec, Payload::Zeros, &mut buffer).expect("it fits");
            match sendto(socket.as_raw_fd(), &buffer[..length], &to, MsgFlags::empty()) {
                Ok(_) | Err(nix::errno::Errno::ENOBUFS) => {}
                Err(errno) => return Err(errno),
            }
            sent += 1;
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

/// What the radio carried in a time, and what of it the flow's receiver got, bytes.
struct Carried {
    radio: u64,
    flow: u64,
    took: Duration,
}

impl Carried {
    fn share(&self) -> f64 {
        self.flow as f64 / self.radio as f64
    }

    fn rate_bps(&self) -> f64 {
        self.radio as f64 * 8.0 / self.took.as_secs_f64()
    }

    fn flow_bps(&self) -> f64 {
        self.flow as f64 * 8.0 / self.took.as_secs_f64()
    }
}

/// Bytes that the base station has sent by the radio.
fn radio_bytes(bs: &NetNs) -> u64 {
    let path = format!("/sys/class/net/{RADIO}/statistics/tx_bytes");
    bs.run("cat", &[&path]).expect("counters").trim().parse().expect("a number")
}

fn carried(path: &ThreeHosts, flow: &Transfer, time: Duration) -> Carried {
    // Looks at the receiver on both sides of one at the radio: each takes its time.
    let both = || {
        let (before, radio) = (flow.received(), radio_bytes(&path.bs));
        (radio, u64::midpoint(before, flow.received()))
    };
    let (started, (radio, received)) = (Instant::now(), both());
    std::thread::sleep(time);
    let (radio_then, received_then) = both();
    Carried { radio: radio_then - radio, flow: received_then - received, took: started.elapsed() }
}

/// Segments of nobody's connection, as many as the radio carries and twice as many, leave a flow its half.
///
/// During the flood the flow has its share of what the radio carried meanwhile (a veth carries more than the
/// rate that the agent was told) and of the rate itself. Afterwards it has nearly all of that rate.
pub fn a_hog_leaves_a_flow_its_share() -> Outcome {
    let told = "[channel]\ncapacity = \"50Mbit/s\"\nefficiency = 1.0\n";
    hog_leaves_share(|_| {}, told)
}

/// The same where nobody tells the agent the rate, which is the default: the radio is a shaper with one queue
/// for all, in which the flood would have its way.
pub fn a_hog_leaves_a_flow_its_share_where_nobody_tells_the_rate() -> Outcome {
    let shape = |path: &ThreeHosts| {
        let rate = format!("{RATE_BPS}bit");
        // 15 kB may go at once, and 100 packets wait.
        let qdisc =
            ["qdisc", "replace", "dev", RADIO, "root", "tbf", "rate", &rate, "burst", "15k", "limit", "150k"];
        path.bs.run("tc", &qdisc).expect("a shaper");
        // A machine's own may be BBR, which has no more under way than twice the least round trip takes, 0.1
        // ms here, and so leaves a queue to others.
        path.ch.sysctl("net/ipv4/tcp_congestion_control", "reno").expect("every host has it");
    };
    hog_leaves_share(shape, "")
}

fn hog_leaves_share(shape: impl Fn(&ThreeHosts), settings: &str) -> Outcome {
    let mut undecided = Vec::new();
    for spread in [Spread::Nothing, Spread::Ports, Spread::Addresses] {
        let path = ThreeHosts::build()?;
        path.set_offloads(false)?;
        // They take the radio's time: the base station finds them all at the station, which throws them away.
        let (network, station) = (format!("{}/25", nobodys(NOBODYS.start)), ThreeHosts::SH_V4.to_string());
        path.bs.run("ip", &["route", "add", &network, "via", &station, "dev", RADIO])?;
        shape(&path);
        let agent = AgentProcess::start(&path, settings);
        let flow = Transfer::start(
            &path.ch,
            &path.sh,
            ThreeHosts::SH_V4,
            6700,
            Amount::For(Duration::from_secs(120)),
        );
        flow.wait_for(2 * MEGABYTE);
        for load in [1.0, 2.0] {
            match beside_a_flood(&path, &flow, &agent, (load, spread)) {
                Err(Unfinished::Skipped(reason)) => undecided.push(reason),
                outcome => outcome?,
            }
        }
        flow.stop_and_finish();
    }
    if undecided.is_empty() { Ok(()) } else { skipped(undecided.join("; ")) }
}

/// On a machine that others take from, the shaper itself gives less than its rate, and the flow's ends miss
/// turns (with a quarter taken, its share was 0.4499 once of 40), so all is measured several times. Whatever
/// is taken, the flood does not have its way.
fn beside_a_flood(
    path: &ThreeHosts,
    flow: &Transfer,
    agent: &AgentProcess,
    (load, spread): (f64, Spread),
) -> Outcome {
    in_time(|_| {
        let host = HostMeter::start();
        let flood = Flood::start(path, load * RATE_BPS, spread);
        std::thread::sleep(Duration::from_secs(1));
        let during = carried(path, flow, Duration::from_secs(3));
        flood.end();
        std::thread::sleep(Duration::from_secs(1));
        let after = carried(path, flow, Duration::from_secs(1));
        let host = host.load();
        let (during_share, after_share) = (during.share(), after.share());
        let what = format!("{spread:?}, {load} times the rate");
        println!(
            "{what}: {during_share:.3} of {:.1} Mbit/s, then {after_share:.3} of {:.1}, {:.1} Mbit/s of data; {host}",
            during.rate_bps() / 1e6,
            after.rate_bps() / 1e6,
            after.flow_bps() / 1e6
        );
        let status = agent.status();
        // Without a flood the flow would have all of it.
        assert!(during_share <= 0.8, "{what}: no flood, {during_share}: {status}");
        assert!(during_share >= 0.35, "{what}: {during_share}: {status}");
        assert!(after_share >= 0.8, "{what}, afterwards: {after_share}: {status}");
        assert_eq!(status.windows.closed, 0, "{status}");
        let (during_rate, after_rate) = (during.flow_bps() / RATE_BPS, after.flow_bps() / FULL_DATA_BPS);
        let holds = during_share.min(during_rate) >= 0.45 && after_share.min(after_rate) >= 0.9;
        let what = format!(
            "{what}: {during_share:.4} of the radio and {during_rate:.3} of the rate, afterwards {after_share:.3} and \
             {after_rate:.3} of the full rate"
        );
        let lost = |share: f64, bound: f64, of: Duration| of.mul_f64((bound - share).max(0.0));
        let by = lost(during_share.min(during_rate), 0.45, during.took)
            + lost(after_share.min(after_rate), 0.9, after.took);
        Ok(Timed { late: (!holds).then_some(Late { what, by: By::Loss(by) }), host })
    })
}

/// Linux `struct tcp_md5sig` (linux/tcp.h).
#[repr(C)]
struct TcpMd5Sig {
    addr: libc::sockaddr_storage,
    flags: u8,
    prefix_len: u8,
    key_len: u16,
    interface: libc::c_int,
    key: [u8; 80],
}

/// linux/tcp.h
const TCP_MD5SIG: libc::c_int = 14;

/// Lets a socket sign what it sends to `peer`, and take only what the peer signs (RFC 2385).
fn sign(socket: &impl AsRawFd, peer: IpAddr) -> std::io::Result<()> {
    let IpAddr::V4(peer) = peer else { unreachable!("these tests sign IPv4") };
    // SAFETY: all zeros is a valid value of both structures.
    let mut signature: TcpMd5Sig = unsafe { std::mem::zeroed() };
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from(peer).to_be() },
        sin_zero: [0; 8],
    };
    // SAFETY: a sockaddr_in fits into a sockaddr_storage, and both are plain data.
    unsafe { (&raw mut signature.addr).cast::<libc::sockaddr_in>().write(address) };
    let key = b"linkhold";
    signature.key_len = key.len() as u16;
    signature.key[..key.len()].copy_from_slice(key);
    // SAFETY: the pointer leads to this stack frame, and the length is the structure's.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            TCP_MD5SIG,
            (&raw const signature).cast(),
            size_of::<TcpMd5Sig>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// A connection to `to` on which both sides sign.
fn connect_signed(to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    sign(&socket, to.ip())?;
    connect(socket.as_raw_fd(), &SockaddrStorage::from(to))?;
    Ok(TcpStream::from(socket))
}

/// Bytes of the signed connection.
const SIGNED: u64 = 50 * MEGABYTE;

/// 50 MB whose headers are signed (RFC 2385), while windows are clamped and in silences: the stations find no
/// wrong signature, so nothing was changed and nothing made up.
pub fn a_signed_flow_is_not_touched() -> Outcome {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    path.sh.set_checksum_offload(HOST, false)?;
    let settings = "[channel]\ncapacity = \"200Mbit/s\"\nefficiency = 1.0\n[mechanism]\nname = \"dsasync\"\nmode = \"freeze\"\nclose_at = \"silence-start\"\n";
    let agent = AgentProcess::start(&path, settings);
    // Beside it a flow without signatures, which shows that the agent does what it does to others.
    let plain = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6800, STEADY);
    plain.wait_for(MEGABYTE);
    let address = SocketAddr::new(ThreeHosts::SH_V4, 6801);
    let listener = path.sh.enter(|| TcpListener::bind(address)).expect("enter")?;
    match sign(&listener, ThreeHosts::CH_V4) {
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
            return skipped("this kernel signs no TCP segments (CONFIG_TCP_MD5SIG)");
        }
        signed => signed?,
    }
    let began = Instant::now();
    let signed = Transfer::between(
        (&path.ch, move || connect_signed(address)),
        (&path.sh, move || listener.accept().map(|(stream, _)| stream)),
        Amount::Bytes(SIGNED),
    );
    for part in 1..5 {
        signed.wait_for(part * SIGNED / 5);
        agent.signal(r#"{"freeze":{"for_s":0.05}}"#);
        agent.wait_until(|status| !status.silent);
    }
    assert_eq!(signed.finish().bytes, SIGNED);
    let took = began.elapsed();
    plain.stop_and_finish();
    let status = agent.status();
    assert!(
        status.windows.closed > 0 && status.windows.clamped > 0 && status.packets.rewritten > 0,
        "{status}"
    );
    for host in [&path.ch, &path.sh] {
        for name in ["TCPMD5Failure", "TCPMD5NotFound", "TCPMD5Unexpected"] {
            assert_eq!(
                tcp_counter(host, "netstat", "TcpExt: ", name),
                0,
                "{name}, {}: {status}",
                host.name()
            );
        }
    }
    let (windows, rewritten) = (&status.windows, status.packets.rewritten);
    println!(
        "50 MB signed in {:.1} s: 0 refused; of the flow beside it {} windows closed, {} clamped, {rewritten} packets rewritten",
        took.as_secs_f64(),
        windows.closed,
        windows.clamped
    );
    Ok(())
}
