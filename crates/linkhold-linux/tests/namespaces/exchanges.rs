//! Data both ways on one connection, while windows are clamped and the radio falls silent: in turn, as
//! requests and their answers over connections that stay (the web's), and at once.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use linkhold_linux::agent::status::Status;
use linkhold_linux::topology::{RADIO, ThreeHosts};

use crate::Outcome;
use crate::agent_process::AgentProcess;
use crate::capture::Capture;
use crate::packets::{Data, data};

/// An exchange that takes longer has failed.
const STALL: Duration = Duration::from_secs(20);
/// Bytes asked and answered, in turn: a page, an upload, and something of both.
const SIZES: [(u32, u32); 3] = [(100, 200_000), (200_000, 100), (30_000, 30_000)];
const FREEZE: &str = r#"{"freeze":{"cause":"primary-user"}}"#;
const THAW: &str = r#"{"thaw":{"cause":"primary-user"}}"#;

/// The byte at a place of a stream or of an exchange, which differs from those of the ones beside it.
fn byte(exchange: u64, at: u64) -> u8 {
    ((at + 31 * exchange).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8
}

/// Bytes of an exchange.
fn body(exchange: u64, length: u32) -> Vec<u8> {
    (0..u64::from(length)).map(|at| byte(exchange, at)).collect()
}

fn expect(stream: &mut TcpStream, wanted: &[u8]) -> std::io::Result<()> {
    let mut found = vec![0; wanted.len()];
    stream.read_exact(&mut found)?;
    if found == wanted { Ok(()) } else { Err(std::io::Error::other("other bytes than were sent")) }
}

/// Answers every request of `listener`'s first connection until it ends.
fn answer(listener: &TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    for exchange in 0.. {
        let (asked, answered) = SIZES[exchange as usize % SIZES.len()];
        let mut first = [0];
        if stream.read(&mut first)? == 0 {
            break;
        }
        let request = body(exchange, asked);
        if first[0] != request[0] {
            return Err(std::io::Error::other("a request begins with another byte"));
        }
        expect(&mut stream, &request[1..])?;
        stream.write_all(&body(exchange + 1, answered))?;
    }
    Ok(())
}

/// Asks again and again until it is told to stop. Answers how long the longest exchange took.
fn ask(address: SocketAddr, done: &AtomicU64, stop: &AtomicBool) -> std::io::Result<Duration> {
    let mut stream = TcpStream::connect_timeout(&address, STALL)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))?;
    let mut longest = Duration::ZERO;
    for exchange in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let (asked, answered) = SIZES[exchange as usize % SIZES.len()];
        let began = Instant::now();
        stream.write_all(&body(exchange, asked))?;
        expect(&mut stream, &body(exchange + 1, answered))?;
        longest = longest.max(began.elapsed());
        done.fetch_add(1, Ordering::Relaxed);
    }
    Ok(longest)
}

/// Waits until so many exchanges are done.
fn wait_for(done: &AtomicU64, exchanges: u64) {
    let began = Instant::now();
    while done.load(Ordering::Relaxed) < exchanges {
        assert!(began.elapsed() < STALL, "the exchanges stand still at {}", done.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The agent held packets and windows, and has let go of all.
fn check_that_all_is_over(status: &Status) {
    assert!(status.packets.holds > 0 && status.windows.clamped > 0, "{status}");
    assert_eq!(
        (status.packets.held, status.windows.closed_now, status.packets.verdict_errors),
        (0, 0, 0),
        "{status}"
    );
}

pub fn requests_and_answers() -> Outcome {
    const SILENCE: Duration = Duration::from_millis(250);
    let path = ThreeHosts::build()?;
    // With the rate told and with it measured: windows both ways follow the one or the other.
    for settings in ["[channel]\ncapacity = \"100Mbit/s\"\n", ""] {
        let agent = AgentProcess::start(&path, settings);
        let stop = Arc::new(AtomicBool::new(false));
        let mut asking = Vec::new();
        let mut answering = Vec::new();
        // Whoever asks, and over either family.
        let (ch, sh) = (
            (&path.ch, ThreeHosts::CH_V4, ThreeHosts::CH_V6),
            (&path.sh, ThreeHosts::SH_V4, ThreeHosts::SH_V6),
        );
        for (number, (client, server)) in [(sh, ch), (ch, sh)].into_iter().enumerate() {
            for (family, addr) in [server.1, server.2].into_iter().enumerate() {
                let port = 7400 + 2 * number as u16 + family as u16;
                let address: SocketAddr = (addr as IpAddr, port).into();
                let listener = server.0.enter(|| TcpListener::bind(address))??;
                answering.push(server.0.spawn("answers", move || answer(&listener))?);
                let done = Arc::new(AtomicU64::new(0));
                let (counted, told) = (Arc::clone(&done), Arc::clone(&stop));
                let client = client.0.spawn("asks", move || ask(address, &counted, &told))?;
                asking.push((client, done));
            }
        }
        let count = |which: &AtomicU64| which.load(Ordering::Relaxed);
        for _ in 0..4 {
            for (_, done) in &asking {
                wait_for(done, count(done) + 2 * SIZES.len() as u64);
            }
            agent.signal(FREEZE);
            let before: Vec<u64> = asking.iter().map(|(_, done)| count(done)).collect();
            std::thread::sleep(SILENCE);
            // What was past the agent when it was told still arrives, and ends one exchange at most.
            for ((_, done), before) in asking.iter().zip(before) {
                assert!(count(done) <= before + 1, "exchanges go on in a silence");
            }
            agent.signal(THAW);
        }
        for (_, done) in &asking {
            wait_for(done, count(done) + 2 * SIZES.len() as u64);
        }
        stop.store(true, Ordering::Relaxed);
        for (client, done) in asking {
            let longest = client.join().expect("no panic")??;
            println!("{} exchanges, the longest took {longest:?}", count(&done));
        }
        for server in answering {
            server.join().expect("no panic")??;
        }
        let status = agent.status();
        check_that_all_is_over(&status);
    }
    Ok(())
}

/// Sends one stream over a connection until it is told to stop, and meanwhile reads another until the other
/// end has stopped; `came` counts its bytes.
fn talk(
    stream: &TcpStream,
    sends: u64,
    reads: u64,
    came: &AtomicU64,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    stream.set_read_timeout(Some(STALL))?;
    stream.set_write_timeout(Some(STALL))?;
    std::thread::scope(|scope| {
        let sending = scope.spawn(move || -> std::io::Result<()> {
            let (mut writer, mut at) = (stream, 0);
            let mut part = [0; 16 << 10];
            while !stop.load(Ordering::Relaxed) {
                (at..).zip(&mut part).for_each(|(at, slot)| *slot = byte(sends, at));
                writer.write_all(&part)?;
                at += part.len() as u64;
            }
            writer.shutdown(Shutdown::Write)
        });
        let (mut reader, mut at) = (stream, 0);
        let mut part = [0; 16 << 10];
        loop {
            let length = match reader.read(&mut part) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if (at..).zip(&part[..length]).any(|(at, &found)| found != byte(reads, at)) {
                return Err(std::io::Error::other("other bytes than were sent"));
            }
            at += length as u64;
            came.store(at, Ordering::Relaxed);
        }
        sending.join().expect("no panic")
    })
}

/// Both ends send all the time, over a connection that the station opened and one that the correspondent
/// opened. In a silence nothing comes to the station; after it both streams go on, and no byte is missing or
/// another.
pub fn both_ways_at_once() -> Outcome {
    const SILENCE: Duration = Duration::from_millis(300);
    const PART: u64 = 500_000;
    let path = ThreeHosts::build()?;
    for settings in ["[channel]\ncapacity = \"100Mbit/s\"\n", ""] {
        let agent = AgentProcess::start(&path, settings);
        let stop = Arc::new(AtomicBool::new(false));
        // By connection: what came to the station, and to the correspondent.
        let mut came: Vec<[Arc<AtomicU64>; 2]> = Vec::new();
        let mut talking = Vec::new();
        for (number, (server, client, addr)) in
            [(&path.ch, &path.sh, ThreeHosts::CH_V4), (&path.sh, &path.ch, ThreeHosts::SH_V6)]
                .into_iter()
                .enumerate()
        {
            let address: SocketAddr = (addr, 7450 + number as u16).into();
            let listener = server.enter(|| TcpListener::bind(address))??;
            let counts = [Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0))];
            let station_serves = number == 1;
            let (to_station, to_correspondent) = (2 * number as u64, 2 * number as u64 + 1);
            for serves in [true, false] {
                let at_station = serves == station_serves;
                let (sends, reads) =
                    if at_station { (to_correspondent, to_station) } else { (to_station, to_correspondent) };
                let count = Arc::clone(&counts[usize::from(!at_station)]);
                let stop = Arc::clone(&stop);
                let listener = serves.then(|| listener.try_clone()).transpose()?;
                let end = if serves { server } else { client };
                talking.push(end.spawn("talks", move || {
                    let stream = match listener {
                        Some(listener) => listener.accept()?.0,
                        None => TcpStream::connect_timeout(&address, STALL)?,
                    };
                    talk(&stream, sends, reads, &count, &stop)
                })?);
            }
            came.push(counts);
        }
        let all = || came.iter().flatten().map(|count| count.load(Ordering::Relaxed)).collect::<Vec<u64>>();
        let go_on = || {
            for (count, before) in came.iter().flatten().zip(all()) {
                wait_for(count, before + PART);
            }
        };
        // At the radio, by the kernel's time: when the station's threads read depends on the machine.
        let (capture, mut silences) = (Capture::at(&path.bs, RADIO), Vec::new());
        for _ in 0..4 {
            go_on();
            agent.signal(FREEZE);
            let frozen = SystemTime::now();
            std::thread::sleep(SILENCE);
            silences.push(frozen..SystemTime::now());
            agent.signal(THAW);
        }
        go_on();
        stop.store(true, Ordering::Relaxed);
        for one in talking {
            one.join().expect("no panic")??;
        }
        let captured = capture.finish();
        for to in [ThreeHosts::SH_V4, ThreeHosts::SH_V6] {
            let packets = data(&captured, to);
            let crossed: u64 = packets.iter().map(|packet| u64::from(packet.len)).sum();
            assert!(crossed > 4 * PART, "{crossed} bytes to {to}");
            let in_silence = |packet: &&Data| silences.iter().any(|silence| silence.contains(&packet.at));
            assert_eq!(packets.iter().filter(in_silence).count(), 0, "data to {to} crossed in a silence");
        }
        let status = agent.status();
        println!("{:?} bytes came; {} packets held", all(), status.packets.holds);
        check_that_all_is_over(&status);
    }
    Ok(())
}
