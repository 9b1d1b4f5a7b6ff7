//! What happens when something ends or goes wrong: the agent, its rivals, its clients, whoever signals.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

use linkhold_linux::agent::status::Status;
use linkhold_linux::testbed::host_load::HostMeter;
use linkhold_linux::topology::{RADIO, ThreeHosts, WIRED};
use nix::sys::signal::{Signal, kill};

use crate::agent_process::AgentProcess;
use crate::attempts::{Late, Timed, in_time};
use crate::behaviour::{MEGABYTE, STEADY, mentions_us, rules};
use crate::capture::Capture;
use crate::packets::{Data, data, first_from, first_new_from, gaps, longest_pause, lost, story};
use crate::radio::{self, Radio};
use crate::transfer::{Amount, Transfer};
use crate::{Outcome, Unfinished};

/// Traffic flows again within this after the radio's return, whatever happened to the agent (the issue's
/// words).
const RECOVERY: Duration = Duration::from_millis(100);

/// How long after `from` a packet crossed.
fn delay(packet: Data, from: SystemTime) -> Duration {
    packet.at.duration_since(from).unwrap_or_default()
}

/// Closes windows as soon as the radio is silent, or not before the buffer fills.
const SETTINGS: [&str; 2] =
    ["", "[mechanism]\nname = \"dsasync\"\nmode = \"freeze\"\nclose_at = \"silence-start\"\n"];

pub fn sigterm_lets_go() -> Outcome {
    for (number, settings) in SETTINGS.into_iter().enumerate() {
        in_time(|_| end_by_a_signal(number, settings))?;
    }
    Ok(())
}

fn end_by_a_signal(number: usize, settings: &str) -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    // Who runs the tests may ignore SIGHUP, as nohup(1) does, and the agent would go on ignoring it.
    let mut agent = AgentProcess::start_with(&path, settings, &["env", "--default-signal=HUP"]);
    assert!(mentions_us(&rules(&path.bs)));
    // Stamped at the radio: when the station's processor takes a packet depends on its other work.
    let (coming, crossing) = (Capture::at(&path.bs, WIRED), Capture::at(&path.bs, RADIO));
    let port = 6500 + number as u16;
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, port, STEADY);
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    agent.wait_until(|status| status.packets.held > 0);
    if number == 1 {
        agent.wait_until(|status| status.windows.closed_now > 0);
    }
    let received = transfer.received();
    let (host, stopped) = (HostMeter::start(), SystemTime::now());
    // A terminal that is closed sends the second.
    agent.send_signal([Signal::SIGTERM, Signal::SIGHUP][number]);
    transfer.wait_for(received + MEGABYTE);
    assert!(agent.wait(), "{}", agent.log());
    assert!(!mentions_us(&rules(&path.bs)), "{}", rules(&path.bs));
    assert!(!agent.socket.exists());
    transfer.stop_and_finish();
    let host = host.load();
    let (coming, crossing) = (coming.finish(), crossing.finish());
    let (came, crossed) = (data(&coming, ThreeHosts::SH_V4), data(&crossing, ThreeHosts::SH_V4));
    let pause = longest_pause(&crossed, stopped);
    println!("longest pause after the signal: {pause:?}");
    let ends = || {
        let [wire, radio] = [&coming, &crossing].map(|captured| story(captured, stopped, 600));
        format!("settings {number}, wire:\n{wire}radio:\n{radio}agent:\n{}", agent.log())
    };
    assert_eq!(lost(&came, &crossed).len(), 0, "held packets were lost; {}", ends());
    assert!(gaps(&crossed) <= gaps(&came), "packets overtook others; {}", ends());
    let late = Late::if_beyond(pause, RECOVERY, || {
        format!("traffic stood still for {pause:?} while the agent stopped; {}", ends())
    });
    Ok(Timed { late, host })
}

pub fn sigkill_in_a_silence() -> Outcome {
    for (number, settings) in SETTINGS.into_iter().enumerate() {
        in_time(|_| kill_in_a_silence(number, settings))?;
    }
    Ok(())
}

fn kill_in_a_silence(number: usize, settings: &str) -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    // The sender's flight must fit into the radio's queue, twice, since copies are held as well: the
    // guardian lets all of it go into that queue, and a packet that finds no room there waits for a
    // timeout of the sender, which is no fault of the agent. The kernel counts about 2 kB for a packet in
    // this buffer, so the flight is 32 packets. Without the limit up to 197 packets were held.
    path.ch.sysctl("net/ipv4/tcp_wmem", "4096 65536 65536")?;
    let radio = Radio::replace_veth(&path)?;
    let mut agent = AgentProcess::start(&path, settings);
    let (leaving, arriving) = (Capture::start(&path.ch), Capture::start(&path.sh));
    let port = 6600 + number as u16;
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, port, STEADY);
    transfer.wait_for(MEGABYTE);
    radio.fall_silent();
    agent.signal(r#"{"freeze":{}}"#);
    // Long enough for the sender's timeout to back off, if its flight were lost.
    std::thread::sleep(Duration::from_millis(700));
    let held = agent.status().packets.held;
    assert!(held > 0 && held < radio::QUEUE as u64, "{held} packets are held");
    agent.send_signal(Signal::SIGKILL);
    assert!(!agent.wait());
    std::thread::sleep(Duration::from_millis(300));
    let received = transfer.received();
    let (host, back) = (HostMeter::start(), radio.come_back());
    transfer.wait_for(received + MEGABYTE);
    transfer.stop_and_finish();
    let host = host.load();
    assert!(mentions_us(&rules(&path.bs)), "a killed agent cannot remove its rules");

    let (sent, arrived) =
        (data(&leaving.finish(), ThreeHosts::SH_V4), data(&arriving.finish(), ThreeHosts::SH_V4));
    let first = delay(first_from(&arrived, back), back);
    let first_new = delay(first_new_from(&sent, back), back);
    println!("after the radio's return: data arrives after {first:?}, new data is sent after {first_new:?}");
    println!("{held} packets were held");
    let late = Late::if_beyond(first.max(first_new), RECOVERY, || {
        let log = agent.log();
        format!("no data for {first:?} after the radio's return, no new data for {first_new:?}\n{log}")
    });

    let mut next = AgentProcess::start(&path, "");
    assert!(next.log().contains("removed rules that an earlier agent left"), "{}", next.log());
    let amount = Amount::Bytes(5 * MEGABYTE);
    Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, port + 10, amount).finish();
    assert!(next.status().packets.seen > 0);
    next.send_signal(Signal::SIGTERM);
    assert!(next.wait());
    assert!(!mentions_us(&rules(&path.bs)));
    Ok(Timed { late, host })
}

/// On air or not, a killed agent's held packets leave at once, all of them and in order: they are the
/// guardian's last act.
pub fn guardian_lets_go() -> Outcome {
    in_time(|_| guardian_lets_go_once())
}

fn guardian_lets_go_once() -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(&path, "[mechanism]\nname = \"dsasync\"\npreset = \"hold\"\n");
    kill_and_lose_nothing(&path, agent, 6650)
}

/// If the guardian is killed, the agent starts another one.
pub fn guardian_is_replaced() -> Outcome {
    in_time(|_| guardian_is_replaced_once())
}

fn guardian_is_replaced_once() -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(&path, "[mechanism]\nname = \"dsasync\"\npreset = \"hold\"\n");
    // A guardian that dies within a second of its start is not replaced, so wait for longer.
    std::thread::sleep(Duration::from_millis(1100));
    let guardian = agent.child();
    kill(guardian, Signal::SIGKILL)?;
    let deadline = Instant::now() + Duration::from_secs(10);
    while !agent.log().contains("the guardian was gone: started another") {
        assert!(Instant::now() < deadline, "{}", agent.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_ne!(agent.child(), guardian);
    kill_and_lose_nothing(&path, agent, 6655)
}

/// What kills one guardian may kill the next: the agent does not start one after another, but says that there
/// is none, and tries again later.
pub fn guardian_that_dies_at_once() -> Outcome {
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(&path, "");
    let died = |log: &str| log.contains("the guardian died at once");
    // One that has lived for a second, on a busy machine, is replaced.
    for _ in 0..20 {
        let guardian = agent.child();
        kill(guardian, Signal::SIGKILL)?;
        let replaced = |log: &str| log.matches("started another").count();
        let before = replaced(&agent.log());
        agent.wait_until(|_| died(&agent.log()) || replaced(&agent.log()) > before);
        if died(&agent.log()) {
            break;
        }
    }
    assert!(died(&agent.log()), "{}", agent.log());
    let is_told = |status: &Status| status.troubles.iter().any(|one| one.contains("there is no guardian"));
    assert!(is_told(&agent.status()), "{}", agent.status());
    agent.wait_until(|status| !is_told(status));
    agent.child();
    Ok(())
}

/// A log on a full disk, and one whose reader has stopped while a line comes of every silence.
pub fn a_log_that_nobody_takes() -> Outcome {
    for shell in ["exec \"$0\" 2> /dev/full", "exec \"$0\" 2> >(exec sleep 60)"] {
        let path = ThreeHosts::build()?;
        let unended = "[silence]\nmax = \"5ms\"\n";
        let mut agent = AgentProcess::start_with(&path, unended, &["bash", "-c", shell]);
        for _ in 0..800 {
            agent.signal(r#"{"freeze":{}}"#);
            std::thread::sleep(Duration::from_millis(6));
        }
        let status = agent.status();
        assert!(status.silences_overdue > 500, "{status}");
        Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6670, Amount::Bytes(MEGABYTE)).finish();
        agent.send_signal(Signal::SIGTERM);
        assert!(agent.wait(), "it ends as always");
    }
    Ok(())
}

fn kill_and_lose_nothing(path: &ThreeHosts, mut agent: AgentProcess, port: u16) -> Result<Timed, Unfinished> {
    let (coming, crossing) = (Capture::at(&path.bs, WIRED), Capture::at(&path.bs, RADIO));
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, port, STEADY);
    transfer.wait_for(5 * MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    agent.wait_until(|status| status.packets.held > 50);
    let (host, killed) = (HostMeter::start(), SystemTime::now());
    agent.send_signal(Signal::SIGKILL);
    assert!(!agent.wait());
    transfer.wait_for(transfer.received() + MEGABYTE);
    transfer.stop_and_finish();
    let host = host.load();
    let (came, crossed) =
        (data(&coming.finish(), ThreeHosts::SH_V4), data(&crossing.finish(), ThreeHosts::SH_V4));
    assert_eq!(lost(&came, &crossed).len(), 0, "held packets were lost");
    assert!(gaps(&crossed) <= gaps(&came), "packets overtook others");
    let pause = longest_pause(&crossed, killed);
    println!("longest pause after the kill: {pause:?}");
    let late =
        Late::if_beyond(pause, RECOVERY, || format!("traffic stood still for {pause:?} after the kill"));
    Ok(Timed { late, host })
}

/// The process that signals dies in a silence, so nobody ends the silence.
pub fn unended_silence() -> Outcome {
    in_time(|_| unended_silence_once())
}

fn unended_silence_once() -> Result<Timed, Unfinished> {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(&path, "[silence]\nmax = \"300ms\"\n");
    let leaving = Capture::at(&path.bs, RADIO);
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6660, STEADY);
    transfer.wait_for(5 * MEGABYTE);
    let (host, freezing) = (HostMeter::start(), SystemTime::now());
    agent.signal(r#"{"freeze":{"cause":"fade"}}"#);
    let frozen = SystemTime::now();
    let status = agent.wait_until(|status| !status.silent);
    transfer.wait_for(transfer.received() + MEGABYTE);
    transfer.stop_and_finish();
    let host = host.load();
    assert_eq!((status.silences, status.silences_overdue), (1, 1), "{status}");
    assert!(agent.log().contains("nobody ended this silence"), "{}", agent.log());
    let packets = data(&leaving.finish(), ThreeHosts::SH_V4);
    let most = Duration::from_millis(300);
    let back = first_from(&packets, frozen).at;
    assert!(back >= freezing + most, "the silence ended early");
    let lasted = back.duration_since(frozen).unwrap_or_default();
    let late = Late::if_beyond(lasted, most + RECOVERY, || format!("the silence lasted {lasted:?}"));
    Ok(Timed { late, host })
}

/// A packet that finds no room in the kernel's queue passes unmanaged.
pub fn full_queue_fails_open() -> Outcome {
    let path = ThreeHosts::build()?;
    path.set_offloads(false)?;
    let agent = AgentProcess::start(
        &path,
        "[datapath]\nmax_packets = 20\n[mechanism]\nname = \"dsasync\"\npreset = \"hold\"\n",
    );
    let transfer = Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6670, STEADY);
    transfer.wait_for(MEGABYTE);
    agent.signal(r#"{"freeze":{}}"#);
    let held = agent.wait_until(|status| status.packets.held > 0).packets.held;
    assert!(held <= 20, "{held} held");
    transfer.wait_for(transfer.received() + 5 * MEGABYTE);
    assert!(agent.status().silent);
    agent.signal(r#"{"thaw":{}}"#);
    transfer.stop_and_finish();
    Ok(())
}

pub fn hostile_clients() -> Outcome {
    use std::os::unix::net::UnixStream;
    let path = ThreeHosts::build()?;
    let agent = AgentProcess::start(&path, "");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&agent.socket)?.permissions());
    assert_eq!(mode & 0o777, 0o600);
    let garbage: Vec<Vec<u8>> = vec![
        vec![0; 100_000],
        b"{".repeat(5000),
        b"\n".repeat(100_000),
        b"{\"event\":{\"freeze\":{\"for_s\":1e308}}}\n".repeat(500),
        b"{\"query\":\"status\"}\n".repeat(2000),
    ];
    for bytes in garbage {
        let mut client = UnixStream::connect(&agent.socket)?;
        client.set_write_timeout(Some(Duration::from_millis(500)))?;
        // The agent may cut this client off in the middle, as it should.
        let _ = client.write_all(&bytes);
    }
    // More clients than it takes, none of which says a word or leaves.
    let idle: Vec<_> = (0..40).map(|_| UnixStream::connect(&agent.socket)).collect();
    Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6700, Amount::Bytes(20 * MEGABYTE)).finish();
    // They lock nobody out who has something to say.
    let status = agent.status();
    drop(idle);
    assert!(!status.silent && status.packets.seen > 300, "{status}");
    Ok(())
}

pub fn rivals() -> Outcome {
    let path = ThreeHosts::build()?;
    let first = AgentProcess::start(&path, "");
    let of_the_rate = "the radio's rate is not told, so it is measured; tell it only if it is fixed";
    assert!(first.log().contains(of_the_rate), "{}", first.log());
    let installed = rules(&path.bs);
    for (instance, reason) in [
        ("test", "an agent called \"test\" runs here already"),
        ("other", "NFQUEUE 4710 is taken, perhaps by another agent"),
    ] {
        let mut second = AgentProcess::spawn_as(&path, instance, "", &[]);
        assert!(!second.wait(), "it ran");
        assert!(second.log().contains(reason), "{}", second.log());
    }
    assert_eq!(rules(&path.bs), installed);
    Transfer::start(&path.ch, &path.sh, ThreeHosts::SH_V4, 6850, Amount::Bytes(5 * MEGABYTE)).finish();
    assert!(first.status().packets.seen > 0);
    Ok(())
}
