//! `linkhold host` in the station's namespace: its own senders, frozen and thawed.
//!
//! The silence is the base station's, which drops what it should forward. Segments that are under way when it
//! begins are lost, so a sender that nobody tells finds a loss and reduces its window.

use std::cell::Cell;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use linkhold_linux::agent::status::Status;
use linkhold_linux::host::kernel::CONGESTION_CONTROLS;
use linkhold_linux::netns::NetNs;
use linkhold_linux::testbed::host_load::HostMeter;
use linkhold_linux::topology::ThreeHosts;
use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};

use crate::agent_process::AgentProcess;
use crate::attempts::{By, Late, Timed, in_time};
use crate::behaviour::{MEGABYTE, STEADY, mentions_us, rules};
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, Unfinished, skipped};

const FREEZE: &str = r#"{"freeze":{"cause":"primary-user"}}"#;
const THAW: &str = r#"{"thaw":{"cause":"primary-user"}}"#;

/// The station's sender under test, with a second handle on its socket.
struct Sender {
    transfer: Transfer,
    socket: TcpStream,
}

/// What the kernel says of a sender.
#[derive(Clone, Copy, Debug)]
struct Windows {
    cwnd: u32,
    ssthresh: u32,
    /// TCP_CA_*: 0 open, 4 loss.
    state: u8,
    /// Segments sent and not acknowledged.
    unacked: u32,
    /// Timeouts in a row; each has doubled the time to the next.
    backoff: u8,
    /// Bytes acknowledged, the SYN with them.
    acked: u64,
    /// What the receiver offers, as far as this sender has heard, bytes.
    offered: u32,
}

impl Sender {
    fn start(path: &ThreeHosts, port: u16, congestion: &'static str, amount: Amount) -> Self {
        let address = SocketAddr::new(ThreeHosts::CH_V4, port);
        let listener = path.ch.enter(|| TcpListener::bind(address)).expect("enter").expect("listen");
        let (tell, told) = mpsc::channel();
        let sending = move || {
            let stream = TcpStream::connect(address)?;
            choose(&stream, congestion)?;
            tell.send(stream.try_clone()?).map_err(std::io::Error::other)?;
            Ok(stream)
        };
        let receiving = move || listener.accept().map(|(stream, _)| stream);
        let transfer = Transfer::between((&path.sh, sending), (&path.ch, receiving), amount);
        let socket = told.recv().expect("the sender's socket");
        Self { transfer, socket }
    }

    /// Linux reads cwnd before it takes the socket's lock, and the state after that (`tcp_get_info`): where
    /// ACKs are being taken meanwhile, the state is of a later time. Between two looks with one state cwnd is
    /// of it.
    fn windows(&self) -> Windows {
        let mut before = self.look();
        loop {
            let now = self.look();
            if now.state == before.state {
                return now;
            }
            before = now;
        }
    }

    fn look(&self) -> Windows {
        // SAFETY: all bytes of a tcp_info are numbers, for which zero is a value.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the pointers lead to a tcp_info and its length on this stack frame.
        let answer = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut length,
            )
        };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
        Windows {
            cwnd: info.tcpi_snd_cwnd,
            ssthresh: info.tcpi_snd_ssthresh,
            state: info.tcpi_ca_state,
            unacked: info.tcpi_unacked,
            backoff: info.tcpi_backoff,
            acked: info.tcpi_bytes_acked,
            offered: info.tcpi_snd_wnd,
        }
    }

    /// Waits until more than `received` bytes have arrived, or more is acknowledged than in the silence;
    /// false if neither is so within `limit`. With some 2,900 segments sent again the receiver got to read
    /// more than 100 ms after its kernel had answered, in 3 of 100 silences.
    fn goes_on(&self, received: u64, silent: &Windows, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            if self.transfer.received() > received || self.look().acked > silent.acked {
                return true;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        false
    }

    /// Waits until the kernel says something; the state then.
    fn wait_until(&self, what: &str, wanted: impl Fn(&Windows) -> bool) -> Windows {
        for _ in 0..10_000 {
            let windows = self.windows();
            if wanted(&windows) {
                return windows;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        panic!("{what} does not come: {:?}", self.windows());
    }
}

fn choose(stream: &TcpStream, congestion: &str) -> std::io::Result<()> {
    Ok(setsockopt(stream, TcpCongestion, &congestion.into())?)
}

/// A socket of a namespace with this congestion control, or why not.
fn try_congestion(netns: &NetNs, congestion: &str) -> std::io::Result<()> {
    let choice = netns.enter(|| -> std::io::Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        choose(&TcpStream::connect(listener.local_addr()?)?, congestion)
    });
    choice.expect("enter")
}

/// A short run of iperf3 within a namespace, with this congestion control.
fn iperf3(netns: &NetNs, congestion: &str) -> Outcome {
    let mut server =
        netns.command("iperf3").args(["-s", "-1", "-p", "5299"]).stdout(Stdio::null()).spawn()?;
    let client = ["-c", "127.0.0.1", "-p", "5299", "-n", "1M", "-J", "-C", congestion];
    // Until the server listens. With -J iperf3 3.12 reports a refused connection and still ends well.
    let used = format!("\"sender_tcp_congestion\":\t\"{congestion}\"");
    let mut report = String::new();
    for _ in 0..100 {
        report = netns.run("iperf3", &client).unwrap_or_else(|error| error.to_string());
        if report.contains(&used) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = server.kill();
    server.wait()?;
    assert!(report.contains(&used), "{used} is not in {report}");
    Ok(())
}

/// Whether anything crosses the base station.
fn set_silence(path: &ThreeHosts, silent: bool) {
    let what = if silent { "-I" } else { "-D" };
    path.bs.run("iptables", &["-w", "10", what, "FORWARD", "-j", "DROP"]).expect("iptables");
}

/// A host that freezes by eBPF; where that cannot be, the test is skipped.
fn kernel_host(path: &ThreeHosts, freeze: &str, settings: &str) -> Result<AgentProcess, Unfinished> {
    match no_struct_ops() {
        Some(reason) => skipped(reason),
        None => Ok(AgentProcess::host(&path.sh, &format!("freeze = \"{freeze}\""), settings)),
    }
}

pub fn no_struct_ops() -> Option<String> {
    if !cfg!(feature = "struct-ops") {
        return Some("built without the feature `struct-ops`".to_owned());
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return Some("this kernel has no BTF".to_owned());
    }
    None
}

pub fn windows_stop_senders() -> Outcome {
    let path = ThreeHosts::build()?;
    let host = AgentProcess::host(&path.sh, "freeze = \"window\"", "");
    let sender = Sender::start(&path, 6900, "reno", STEADY);
    sender.transfer.wait_for(5 * MEGABYTE);
    host.signal(FREEZE);
    // The path is as it was: it is the window that stops the sender.
    let status = host.wait_until(|status| status.windows.closed_now == 1);
    assert_eq!(status.mechanism, "cr-aware");
    // The kernel acknowledges before the receiver reads.
    sender.wait_until("everything acknowledged and read", |now| {
        now.unacked == 0 && now.acked == sender.transfer.received() + 1
    });
    let received = sender.transfer.received();
    assert!(!sender.transfer.goes_beyond(received, Duration::from_millis(500)), "it goes on sending");
    host.signal(THAW);
    sender.transfer.wait_for(received + 5 * MEGABYTE);
    sender.transfer.stop_and_finish();
    let status = host.status();
    assert_eq!((status.windows.closed_now, status.packets.verdict_errors), (0, 0), "{}", host.log());
    Ok(())
}

/// Two silences are announced at once, and a thaw comes late for one that was over before them.
pub fn silences_announced_ahead() -> Outcome {
    let path = ThreeHosts::build()?;
    let host = AgentProcess::host(&path.sh, "freeze = \"window\"", "");
    let sender = Sender::start(&path, 6970, "reno", STEADY);
    sender.transfer.wait_for(5 * MEGABYTE);
    host.signal(r#"{"freeze":{"cause":"primary-user","for_s":0.1}}"#);
    let announce = |ahead: f64| {
        let freeze = r#"{"freeze":{"cause":"primary-user","for_s":1.2}}"#;
        host.say(&format!(r#"{{"effective_in_s":{ahead},"event":{freeze}}}"#));
    };
    announce(1.5);
    announce(3.5);
    host.wait_until(|status| status.silences_timed == 1);
    let reply = host.ask(&format!(r#"{{"event":{THAW}}}"#)).expect("an answer");
    assert!(reply.note.is_some_and(|note| note.contains("no silence of cause")), "{}", host.log());
    for number in 2..=3 {
        let status = host.wait_until(|status| status.windows.closed_now == 1);
        assert_eq!((status.silences, status.silences_now), (number, 1), "{status}");
        host.wait_until(|status| status.windows.closed_now == 0);
    }
    // A thaw that is meant for an announced silence calls it off, and says so.
    announce(30.0);
    let thaw = || host.ask(&format!(r#"{{"event":{THAW}}}"#)).expect("an answer").note;
    assert!(thaw().is_some_and(|note| note.contains("no silence of cause")), "late for the last one");
    assert!(thaw().is_some_and(|note| note.contains("is called off")), "{}", host.log());
    assert_eq!(host.status().silences_announced, 0);
    sender.transfer.wait_for(sender.transfer.received() + MEGABYTE);
    sender.transfer.stop_and_finish();
    Ok(())
}

pub fn congestion_controls_come_and_go() -> Outcome {
    let path = ThreeHosts::build()?;
    let mut host = kernel_host(&path, "kernel", "")?;
    // A second host shares them.
    let mut other = AgentProcess::host(&path.ch, "freeze = \"kernel\"", "");
    let available = path.sh.run("sysctl", &["-n", "net.ipv4.tcp_available_congestion_control"])?;
    for name in CONGESTION_CONTROLS {
        assert!(available.split_whitespace().any(|known| known == name), "{name} is not in {available}");
        try_congestion(&path.sh, name)?;
        path.sh.run("sysctl", &["-w", &format!("net.ipv4.tcp_congestion_control={name}")])?;
    }
    path.sh.run("sysctl", &["-w", "net.ipv4.tcp_congestion_control=reno"])?;
    if linkhold_linux::command::is_installed("iperf3") {
        iperf3(&path.sh, CONGESTION_CONTROLS[0])?;
    } else {
        println!("iperf3 is not tried: it is not installed");
    }
    let senders: Vec<Sender> = (CONGESTION_CONTROLS.into_iter().zip(6910..))
        .map(|(name, port)| Sender::start(&path, port, name, STEADY))
        .collect();
    for sender in &senders {
        sender.transfer.wait_for(MEGABYTE);
    }
    host.send_signal(Signal::SIGTERM);
    assert!(host.wait(), "{}", host.log());
    for name in CONGESTION_CONTROLS {
        try_congestion(&path.sh, name)?;
    }
    other.send_signal(Signal::SIGTERM);
    assert!(other.wait(), "{}", other.log());
    for name in CONGESTION_CONTROLS {
        let error = try_congestion(&path.sh, name).expect_err("unregistered");
        assert_eq!(error.raw_os_error(), Some(libc::ENOENT), "{name}: {error}");
    }
    assert!(!mentions_us(&rules(&path.sh)), "{}", rules(&path.sh));
    // Sockets that had them keep them, and go on.
    for sender in senders {
        let received = sender.transfer.received();
        sender.transfer.wait_for(received + MEGABYTE);
        sender.transfer.stop_and_finish();
    }
    Ok(())
}

/// The default of new connections outlives the host that registered it, and is then nobody's. The next host
/// takes it over.
pub fn the_default_congestion_control_is_taken_over() -> Outcome {
    let path = ThreeHosts::build()?;
    let mut first = kernel_host(&path, "kernel", "")?;
    let default = "net.ipv4.tcp_congestion_control";
    path.sh.run("sysctl", &["-w", &format!("{default}={}", CONGESTION_CONTROLS[0])])?;
    first.send_signal(Signal::SIGTERM);
    assert!(first.wait(), "{}", first.log());
    let host = AgentProcess::host(&path.sh, "freeze = \"kernel\"", "");
    assert_eq!(path.sh.run("sysctl", &["-n", default])?.trim(), CONGESTION_CONTROLS[0]);
    // Of nothing but the default's.
    let upload = Transfer::start(&path.sh, &path.ch, ThreeHosts::CH_V4, 6995, STEADY);
    upload.wait_for(MEGABYTE);
    host.signal(FREEZE);
    host.wait_until(|status| status.kernel.is_some_and(|kernel| kernel.frozen > 0));
    host.signal(THAW);
    upload.wait_for(upload.received() + MEGABYTE);
    upload.stop_and_finish();
    path.sh.run("sysctl", &["-w", &format!("{default}=reno")])?;
    Ok(())
}

/// While somebody tries the programs out (`linkhold doctor`), there are maps of the same names that no
/// registered program reads. A host that joins another one meanwhile freezes its senders all the same.
pub fn joined_beside_a_doctor() -> Outcome {
    let path = ThreeHosts::build()?;
    if let Some(reason) = no_struct_ops() {
        return skipped(reason);
    }
    let mut first = AgentProcess::host(&path.ch, "freeze = \"kernel\"", "");
    first.wait_until(|status| status.kernel.is_some());
    let doctors = maps_of_a_doctor()?;
    let mut second = AgentProcess::host(&path.sh, "freeze = \"kernel\"", "");
    let sender = Sender::start(&path, 6990, CONGESTION_CONTROLS[0], STEADY);
    sender.transfer.wait_for(MEGABYTE);
    second.signal(FREEZE);
    second.wait_until(|status| status.kernel.is_some_and(|kernel| kernel.frozen > 0));
    second.signal(THAW);
    drop(doctors);
    sender.transfer.stop_and_finish();
    for host in [&mut first, &mut second] {
        host.send_signal(Signal::SIGTERM);
        assert!(host.wait(), "{}", host.log());
    }
    Ok(())
}

/// The maps that loading the programs makes, for as long as they are held.
#[cfg(feature = "struct-ops")]
fn maps_of_a_doctor() -> Result<Vec<libbpf_rs::MapHandle>, Unfinished> {
    use libbpf_rs::{MapHandle, MapType};
    let options = libbpf_rs::libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_rs::libbpf_sys::bpf_map_create_opts>() as _,
        ..Default::default()
    };
    let quiet = MapHandle::create(MapType::LruHash, Some("linkhold_quiet"), 16, 16, 1024, &options)?;
    let count = MapHandle::create(MapType::Array, Some("linkhold_count"), 4, 32, 1, &options)?;
    Ok(vec![quiet, count])
}

#[cfg(not(feature = "struct-ops"))]
fn maps_of_a_doctor() -> Result<Vec<std::convert::Infallible>, Unfinished> {
    skipped("built without the feature `struct-ops`")
}

pub fn silence_leaves_windows_alone() -> Outcome {
    /// Two looks further apart miss what the kernel does to an open window that is not used: it halves it
    /// each RTO, 200 ms at least.
    const LOOKS_APART: Duration = Duration::from_millis(50);
    let path = ThreeHosts::build()?;
    for freeze in ["kernel", "both"] {
        let mut host = kernel_host(&path, freeze, "")?;
        for (congestion, port) in CONGESTION_CONTROLS.into_iter().chain(["cubic"]).zip(6920..) {
            let sender = Sender::start(&path, port, congestion, Amount::Rate(100 * MEGABYTE));
            sender.transfer.wait_for(20 * MEGABYTE);
            let met = || host.status().kernel.map_or(0, |kernel| kernel.frozen);
            let met_before = met();
            host.signal(FREEZE);
            // Behind a closed window the next call may be long in coming.
            if congestion != "cubic" && freeze == "kernel" {
                host.wait_until(|status| status.kernel.is_some_and(|kernel| kernel.frozen > met_before));
            }
            // From here on a frozen window does not grow. The kernel may cut one that is not used up; the
            // next ACK puts that right, so that a silence's end may show a larger window than these looks,
            // never a smaller one.
            let looks = std::iter::repeat_with(|| {
                std::thread::sleep(Duration::from_millis(1));
                sender.windows()
            });
            let before = looks.take(3).max_by_key(|windows| windows.cwnd).expect("three looks");
            set_silence(&path, true);
            let silent = if freeze == "kernel" {
                // Its timer expires in the silence.
                sender.wait_until("a timeout", |windows| windows.state == 4)
            } else {
                // Its window stops it before the silence, or it loses something: both may be.
                std::thread::sleep(Duration::from_millis(700));
                sender.windows()
            };
            let received = sender.transfer.received();
            set_silence(&path, false);
            host.signal(THAW);
            // Until everything lost is mended.
            let (looked, apart) = (Cell::new(Instant::now()), Cell::new(Duration::ZERO));
            let after = sender.wait_until("the end of the loss", |windows| {
                apart.set(looked.replace(Instant::now()).elapsed());
                assert!(windows.state == 0 || windows.cwnd <= before.cwnd, "{windows:?}, before {before:?}");
                windows.state == 0
            });
            println!("{freeze}, {congestion}: before {before:?}, silent {silent:?}, after {after:?}");
            if congestion == "cubic" && freeze == "kernel" {
                // Not ours: this shows that the silence costs whoever is not frozen. The timeout sets
                // ssthresh, too, but to 0.7 of whatever window there is by then, which may be the old one.
                assert!(silent.cwnd < before.cwnd, "{before:?} {silent:?}");
            } else if congestion != "cubic" {
                assert_eq!(silent.ssthresh, before.ssthresh, "{freeze}, {congestion}");
                // A CUBIC that never had a threshold may find one once everything is mended: HyStart's is the
                // window that it has (seen once in 9 runs). A loss's would be 0.7 of it.
                let found = before.ssthresh >= 0x7fff_ffff && after.ssthresh >= before.cwnd * 3 / 4;
                assert!(
                    after.ssthresh == before.ssthresh || (congestion == CONGESTION_CONTROLS[0] && found),
                    "{freeze}, {congestion}: {before:?} {after:?}"
                );
                assert!(silent.cwnd >= before.cwnd, "{freeze}, {congestion}: {before:?} {silent:?}");
                // The sender writes 100 MB/s at most, so once its state is open again the kernel may take
                // back what it does not use, half of that at a time: 409 of 880 segments left at worst in
                // 100 runs of Reno without a threshold, 263 of 372 once of CUBIC with one. A loss would
                // have left another ssthresh.
                let least = before.cwnd / 4;
                if apart.get() < LOOKS_APART {
                    assert!(after.cwnd >= least, "{freeze}, {congestion}: {before:?} {after:?}");
                }
            }
            sender.transfer.wait_for(received + 5 * MEGABYTE);
            sender.transfer.stop_and_finish();
        }
        let kernel = host.status().kernel.expect("counted");
        assert!(kernel.frozen >= 2 && kernel.mended >= 2, "{kernel:?}");
        assert!(freeze != "kernel" || (kernel.shielded >= 2 && kernel.restored >= 2), "{kernel:?}");
        // Not killed: the congestion controls would stay registered.
        host.send_signal(Signal::SIGTERM);
        assert!(host.wait(), "{}", host.log());
    }
    Ok(())
}

/// A silence, and the thaw after it, which the sender hears or not. Late: it was woken although it could not
/// hear, as by its own timer where this test was slow to look; or not at once although it could.
fn thaw(path: &ThreeHosts, host: &AgentProcess, sender: &Sender, heard: bool) -> Result<Timed, Unfinished> {
    /// Three timeouts in a row at the least RTO of Linux, 200 ms (`TCP_RTO_MIN`): the third is 1.4 s after
    /// the last that arrived, and the fourth would be 1.6 s later.
    const TIMEOUTS: u8 = 3;
    /// From the signal to the first answer to what the sender sends. It takes a few milliseconds; the timer
    /// alone takes more than a second.
    const AT_ONCE: Duration = Duration::from_millis(100);
    /// From the third timeout to the fourth.
    const NEXT_TIMEOUT: Duration = Duration::from_millis(1600);
    /// A pause is seen from the watcher's next turn on.
    const PAUSE_UNSEEN: Duration = Duration::from_millis(5);
    // Injected acknowledgments come in by the loopback, and nothing else of this test does.
    let deaf = |what| path.sh.run("iptables", &["-w", "10", what, "INPUT", "-i", "lo", "-j", "DROP"]);
    sender.transfer.wait_for(sender.transfer.received() + 2 * MEGABYTE);
    // What is under way is lost, so there is something to retransmit.
    set_silence(path, true);
    host.signal(FREEZE);
    if !heard {
        deaf("-I")?;
    }
    let looking = HostMeter::start();
    let silent = sender.wait_until("timeouts", |windows| windows.backoff >= TIMEOUTS);
    let received = sender.transfer.received();
    set_silence(path, false);
    let (waking, told) = (HostMeter::start(), Instant::now());
    host.signal(THAW);
    let woken = sender.goes_on(received, &silent, AT_ONCE);
    let after = told.elapsed();
    // One that was not woken by what it heard was late in waking; one that was, though deaf, met its own
    // timer, because the look at its timeouts was late.
    let (load, by) = if heard {
        (waking.load(), AT_ONCE - PAUSE_UNSEEN)
    } else {
        (looking.load(), NEXT_TIMEOUT - AT_ONCE - PAUSE_UNSEEN)
    };
    println!("heard: {heard}: woken {woken} after {after:?}, {silent:?}");
    let late = (woken != heard).then(|| Late {
        what: format!("heard: {heard}, woken: {woken}; {silent:?}, then {:?}", sender.windows()),
        by: By::Delay(by),
    });
    if !heard {
        deaf("-D")?;
    }
    Ok(Timed { late, host: load })
}

/// The acknowledgment that the host makes up at a thaw wakes a sender whose timer has backed off. The same
/// thaw without it, which a rule of the firewall takes away, wakes nobody.
pub fn a_thaw_wakes_senders() -> Outcome {
    let path = ThreeHosts::build()?;
    for freeze in ["kernel", "both"] {
        let mut host = kernel_host(&path, freeze, "")?;
        let mut thaws = Ok(());
        for (congestion, port) in CONGESTION_CONTROLS.into_iter().zip(6970..) {
            // Anew each time: the next timeouts of a sender that has met several silences are far off.
            let attempt = |number: u16| -> Result<Timed, Unfinished> {
                let sender = Sender::start(&path, port + 10 * number, congestion, STEADY);
                let unheard = thaw(&path, &host, &sender, false)?;
                let last = if unheard.late.is_some() { unheard } else { thaw(&path, &host, &sender, true)? };
                sender.transfer.stop_and_finish();
                Ok(Timed {
                    late: last
                        .late
                        .map(|late| Late { what: format!("{freeze}, {congestion}: {}", late.what), ..late }),
                    ..last
                })
            };
            thaws = thaws.and(in_time(attempt));
        }
        // Not killed: the congestion controls would stay registered.
        host.send_signal(Signal::SIGTERM);
        assert!(host.wait(), "{}", host.log());
        thaws?;
    }
    Ok(())
}

/// Windows that open again wake a sender at once after a silence too short for a timeout, where eBPF alone
/// leaves it to its timers (docs/host.md).
pub fn a_thaw_wakes_senders_that_had_no_timeout() -> Outcome {
    /// Shorter than the least RTO of Linux, 200 ms.
    const SILENCE: Duration = Duration::from_millis(100);
    const SILENCES: usize = 7;
    /// From the signal to new data, in the usual case. It takes a few milliseconds; timers alone take what is
    /// left of the RTO at least.
    const AT_ONCE: Duration = Duration::from_millis(50);
    let path = ThreeHosts::build()?;
    let mut host = kernel_host(&path, "both", "")?;
    for (congestion, port) in CONGESTION_CONTROLS.into_iter().zip(6980..) {
        let sender = Sender::start(&path, port, congestion, STEADY);
        let mut times = Vec::new();
        for _ in 0..SILENCES {
            sender.transfer.wait_for(sender.transfer.received() + 2 * MEGABYTE);
            // Told ahead. Told after the silence began, the sender may have used its whole window up by then,
            // of which everything is lost: the closed window refuses it nothing, and only its timer wakes it.
            host.signal(FREEZE);
            host.wait_until(|status| status.windows.closed_now == 1);
            set_silence(&path, true);
            std::thread::sleep(SILENCE);
            let (received, silent) = (sender.transfer.received(), sender.windows());
            set_silence(&path, false);
            let told = Instant::now();
            host.signal(THAW);
            assert!(sender.transfer.goes_beyond(received, Duration::from_secs(5)), "{:?}", sender.windows());
            times.push((told.elapsed(), silent.backoff));
        }
        println!("{congestion}: new data after {times:?} (and timeouts in a row before)");
        let mut quick: Vec<Duration> =
            times.iter().filter(|(_, backoff)| *backoff == 0).map(|(time, _)| *time).collect();
        quick.sort();
        assert!(quick.len() > SILENCES / 2, "most silences are too short for a timeout: {times:?}");
        assert!(quick[quick.len() / 2] <= AT_ONCE, "{congestion}: {times:?}");
        sender.transfer.stop_and_finish();
    }
    // Not killed: the congestion controls would stay registered.
    host.send_signal(Signal::SIGTERM);
    assert!(host.wait(), "{}", host.log());
    Ok(())
}

pub fn freezes_in_any_order() -> Outcome {
    let path = ThreeHosts::build()?;
    let settings = "[silence]\nmax = \"1s\"\n[mechanism]\nname = \"cr-aware\"\nmax_freeze = \"1s\"\n";
    let (freeze, congestion) = match no_struct_ops() {
        None => ("both", "linkhold_cubic"),
        Some(reason) => {
            println!("by windows only: {reason}");
            ("window", "cubic")
        }
    };
    let mut host = AgentProcess::host(&path.sh, &format!("freeze = \"{freeze}\""), settings);
    let sender = Sender::start(&path, 6930, congestion, STEADY);
    for round in [
        // Doubled.
        &[FREEZE, FREEZE, THAW, THAW][..],
        // Out of order.
        &[THAW, FREEZE, THAW],
        // The thaw is lost.
        &[FREEZE],
        &[FREEZE, FREEZE],
        // Both are lost.
        &[],
    ] {
        sender.transfer.wait_for(sender.transfer.received() + 2 * MEGABYTE);
        let before = sender.windows();
        let (first, rest) = round.split_first().map_or((None, &[][..]), |(first, rest)| (Some(first), rest));
        if let Some(event) = first {
            host.signal(event);
        }
        set_silence(&path, true);
        std::thread::sleep(Duration::from_millis(300));
        set_silence(&path, false);
        for event in rest {
            host.signal(event);
        }
        // It makes progress; `wait_for` gives up after 20 s without any.
        sender.transfer.wait_for(sender.transfer.received() + 2 * MEGABYTE);
        println!("{round:?}: before {before:?}, after {:?}", sender.windows());
    }
    host.wait_until(|status| status.windows.closed_now == 0 && !status.silent);
    sender.transfer.stop_and_finish();
    assert_eq!(host.status().packets.verdict_errors, 0, "{}", host.log());
    host.send_signal(Signal::SIGTERM);
    assert!(host.wait(), "{}", host.log());
    Ok(())
}

pub fn a_killed_host() -> Outcome {
    let path = ThreeHosts::build()?;
    let settings = "[silence]\nmax = \"2s\"\n";
    let (freeze, congestion) =
        if no_struct_ops().is_none() { ("both", "linkhold_cubic") } else { ("window", "cubic") };
    let keys = format!("freeze = \"{freeze}\"");
    let mut host = AgentProcess::host(&path.sh, &keys, settings);
    let sender = Sender::start(&path, 6940, congestion, STEADY);
    sender.transfer.wait_for(5 * MEGABYTE);
    host.signal(FREEZE);
    host.wait_until(|status| status.windows.closed_now == 1);
    host.send_signal(Signal::SIGKILL);
    assert!(!host.wait());
    // The sender asks at its closed window, and nobody is left to say that it is closed.
    let received = sender.transfer.received();
    sender.transfer.wait_for(received + 10 * MEGABYTE);
    // Another host takes over what the dead one left registered.
    let mut next = AgentProcess::host(&path.sh, &keys, settings);
    sender.transfer.wait_for(sender.transfer.received() + 5 * MEGABYTE);
    sender.transfer.stop_and_finish();
    next.send_signal(Signal::SIGTERM);
    assert!(next.wait(), "{}", next.log());
    assert!(!mentions_us(&rules(&path.sh)), "{}", rules(&path.sh));
    assert!(try_congestion(&path.sh, CONGESTION_CONTROLS[0]).is_err());
    Ok(())
}

/// From a file to a shut gate: what some program writes of the signal closes the window of a real sender,
/// which stops, and opens it again. The control socket does the same.
pub fn a_file_of_samples() -> Outcome {
    let path = ThreeHosts::build()?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("snr.csv");
    // Low, but old: what was there before the host was said before.
    std::fs::write(&file, "time,snr\n1,2\n")?;
    let append = |lines: &str| -> std::io::Result<()> {
        // In one go and behind what is there, so that the host never sees a file cut short.
        std::io::Write::write_all(&mut std::fs::File::options().append(true).open(&file)?, lines.as_bytes())
    };
    // No other end of the gate than a sample.
    let settings = format!(
        "[snr]\nfile = {file:?}\nevery = \"10ms\"\n[mechanism]\nname = \"snr-gate\"\nrule = \"hysteresis\"\n\
         threshold = \"10dB\"\nmargin = \"3dB\"\nmax_gate = \"10min\"\nlost_signal = \"10min\"\n"
    );
    let host = AgentProcess::host(&path.sh, "freeze = \"window\"", &settings);
    let heard = |status: &Status| status.events.get("snr").copied();
    let sender = Sender::start(&path, 6950, "reno", STEADY);
    // The gate is shut: nothing of what is sent is under way, all that was acknowledged has been read, the
    // window that the sender knows of is zero, and so it stays.
    let stands_still = |what: &str| {
        host.wait_until(|status| status.windows.closed_now == 1);
        let stopped = sender.wait_until(what, |now| {
            now.unacked == 0 && now.offered == 0 && now.acked == sender.transfer.received() + 1
        });
        let received = sender.transfer.received();
        assert!(
            !sender.transfer.goes_beyond(received, Duration::from_millis(500)),
            "{what}: it goes on sending"
        );
        let still = sender.windows();
        assert_eq!((still.acked, still.offered, still.unacked), (stopped.acked, 0, 0), "{what}: {still:?}");
        received
    };
    sender.transfer.wait_for(5 * MEGABYTE);
    let status = host.status();
    assert_eq!((status.mechanism.as_str(), status.windows.closed, heard(&status)), ("snr-gate", 0, None));

    append("2,20\nweak\n3,4\n")?;
    let received = stands_still("a low sample behind a high one");
    // A line that is no sample costs only itself.
    assert_eq!(heard(&host.status()), Some(2), "{}", host.log());
    append("4,20\n")?;
    host.wait_until(|status| status.windows.closed_now == 0);
    sender.transfer.wait_for(received + 5 * MEGABYTE);
    // What was written meanwhile may fill the receiver's buffer for a moment; a shut gate would last.
    let _ = sender.wait_until("the window is open", |now| now.offered > 0);
    let status = host.status();
    assert_eq!((heard(&status), status.windows.closed), (Some(3), 1), "{status}");

    // Neither between threshold and margin nor above them does anything change.
    append("5,11\n6,14\n")?;
    host.wait_until(|status| heard(status) == Some(5));
    sender.transfer.wait_for(sender.transfer.received() + MEGABYTE);
    host.signal(r#"{"snr":{"station":"10.91.2.2","db":4.5}}"#);
    let received = stands_still("a low sample of the socket's");
    host.signal(r#"{"snr":{"station":"10.91.2.2","db":20}}"#);
    sender.transfer.wait_for(received + 5 * MEGABYTE);
    sender.transfer.stop_and_finish();
    let status = host.status();
    assert_eq!(status.events.get("test"), Some(&2), "{status}");
    assert_eq!((status.windows.closed, status.packets.verdict_errors), (2, 0), "{status}\n{}", host.log());
    Ok(())
}

/// Freezes and thaws in a random order, doubled and lost, with silences of the radio that need not agree with
/// them, while two senders send. Their windows stay at most what they were at a freeze, and they never stop
/// for good. By the congestion control alone, and with windows closed besides.
pub fn freezes_at_random() -> Outcome {
    ["kernel", "both"].into_iter().try_for_each(freezes_at_random_by)
}

fn freezes_at_random_by(freeze: &str) -> Outcome {
    /// `silence.max`, ms: shorter than the longest step, so that lost thaws heal during the test, too.
    const AT_MOST_MS: u64 = 300;
    const STEPS: usize = 60;
    let path = ThreeHosts::build()?;
    let settings = format!(
        "[silence]\nmax = \"{AT_MOST_MS}ms\"\n[mechanism]\nname = \"cr-aware\"\nmax_freeze = \"{AT_MOST_MS}ms\"\n"
    );
    let mut host = kernel_host(&path, freeze, &settings)?;
    let senders: Vec<Sender> = (CONGESTION_CONTROLS.into_iter().zip(6960..))
        .map(|(name, port)| Sender::start(&path, port, name, STEADY))
        .collect();
    for sender in &senders {
        sender.transfer.wait_for(MEGABYTE);
    }
    let mut random = 0x2545_F491_4F6C_DD1Du64;
    let mut draw = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    // The largest window of each sender at a freeze so far: what a silence keeps is one of them. In a
    // reduction of the sender's own it is the one that the reduction leads to, which PRR's window may be far
    // below.
    let mut most = vec![0; senders.len()];
    let (mut silent, mut freezes) = (false, 0);
    for step in 0..STEPS {
        match draw(10) {
            0..=3 => {
                let mut note = || {
                    for (most, sender) in most.iter_mut().zip(&senders) {
                        let windows = sender.windows();
                        let reducing = windows.state == 2 || windows.state == 3;
                        let leads_to = if reducing { windows.ssthresh } else { 0 };
                        *most = windows.cwnd.max(leads_to).max(*most);
                    }
                };
                note();
                let told = Instant::now();
                host.signal(FREEZE);
                note();
                freezes += 1;
                // Until the silence is over by itself, with a margin for the time it takes to ask.
                let look_until = told + Duration::from_millis(draw(AT_MOST_MS - 100));
                while Instant::now() < look_until {
                    for (most, sender) in most.iter().zip(&senders) {
                        let windows = sender.windows();
                        let settled = windows.state == 0 || windows.state == 4;
                        let frozen = told.elapsed() < Duration::from_millis(AT_MOST_MS - 50);
                        assert!(
                            !settled || !frozen || windows.cwnd <= *most,
                            "{freeze}, step {step}: {windows:?}, at most {most}"
                        );
                    }
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            4..=6 => host.signal(THAW),
            _ => {
                silent = !silent;
                set_silence(&path, silent);
            }
        }
        std::thread::sleep(Duration::from_millis(draw(60)));
    }
    if silent {
        set_silence(&path, false);
    }
    // The last thaw may be lost for good: the maximum ends the silence, and both senders go on.
    for sender in &senders {
        sender.transfer.wait_for(sender.transfer.received() + 2 * MEGABYTE);
    }
    host.wait_until(|status| !status.silent);
    let kernel = host.status().kernel.expect("counted");
    println!("{freezes} freezes: {kernel:?}");
    assert!(freezes >= 5 && kernel.frozen > 0 && kernel.mended > 0, "{kernel:?}");
    for sender in senders {
        let received = sender.transfer.received();
        sender.transfer.wait_for(received + MEGABYTE);
        sender.transfer.stop_and_finish();
    }
    host.send_signal(Signal::SIGTERM);
    assert!(host.wait(), "{}", host.log());
    Ok(())
}
