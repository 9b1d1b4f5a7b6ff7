//! The bodies of the fuzz targets. Each hands bytes from outside to a parser, which must neither panic nor
//! hang nor take memory without bound. If the parser accepts them, the body also checks what the parser
//! promises.
//!
//! `crates/linkhold/tests/fuzz_smoke.rs` compiles this file too, so nothing here depends on the fuzzer.

use std::io::{self, Read, Write};
use std::mem::discriminant;
use std::path::Path;

use linkhold_core::action::Rewrite;
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::log::{LogReader, MAGIC, replay, replay_log};
use linkhold_core::mechanism::PlainRouter;
use linkhold_core::packet::Direction;
use linkhold_core::time::{Duration, Instant};
use linkhold_linux::agent::AgentConfig;
use linkhold_linux::agent::connection::{Connection, Turn};
use linkhold_linux::agent::nl80211::message::messages;
use linkhold_linux::agent::nl80211::strength::Levels;
use linkhold_linux::agent::nl80211::{SignalKind, Translator};
use linkhold_linux::agent::protocol::{MAX_LINE, Message, parse_line};
use linkhold_linux::agent::silences::Ends;
use linkhold_linux::agent::snr::ratio;
use linkhold_linux::datapath::nfqueue::parse_packet_message;
use linkhold_mesh::Node;
use linkhold_mesh::mobility::{Area, Mobility};
use linkhold_radio::spectrum::{Band, ChannelLog, Occupancy, PuLog};
use linkhold_radio::{Columns, SnrTrace, Trace};
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_sense::sigmf::Metadata;
use linkhold_sense::{Blocks, Event, FloorSource, Sensor, Settings};
use linkhold_wire::{
    Parsed, TcpChecksum, apply_rewrite, parse_ip_headers, parse_ip_tcp, parse_ip_tcp_headers,
    verify_checksums,
};

/// A scenario file. An accepted one has cases and a summary, and the text that is kept of it, overrides
/// included, gives it again; each line of a refusal starts with the file or with `--set`.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A NUL, which no TOML document holds, starts an override.
    let (text, set) = match text.split_once('\0') {
        Some((text, set)) => (text, set.split('\0').map(str::to_owned).collect()),
        None => (text, Vec::new()),
    };
    match Scenario::parse(text, "fuzz.toml", &set, &NoFiles) {
        Ok(scenario) => {
            assert!(!scenario.cases().is_empty());
            assert!(!scenario.summary().is_empty());
            let again = Scenario::parse(scenario.as_run(), "again.toml", &[], &NoFiles);
            assert_eq!(again.as_ref(), Ok(&scenario), "{}", scenario.as_run());
        }
        Err(error) => {
            assert!(!error.problems().is_empty());
            for line in error.to_string().lines() {
                assert!(line.starts_with("fuzz.toml") || line.starts_with("--set "), "{line}");
            }
        }
    }
}

/// An agent's configuration. An accepted one has valid settings; each line of a refusal starts with the file.
pub fn agent_config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    for parse in [AgentConfig::parse, AgentConfig::parse_host] {
        match parse(Path::new("fuzz.toml"), text) {
            Ok(config) => assert!(config.mechanisms.iter().all(|settings| settings.validate().is_ok())),
            Err(error) => {
                let text = error.to_string();
                assert!(!text.is_empty() && text.lines().all(|line| line.starts_with("fuzz.toml")), "{text}");
            }
        }
    }
}

/// A delivery trace. An accepted one has a length and delivery opportunities; a refusal names a line.
pub fn trace(data: &[u8]) {
    match Trace::parse(data) {
        Ok(trace) => assert!(!trace.duration().is_zero() && trace.opportunities() > 0),
        Err(error) => assert!(error.line >= 1),
    }
}

/// An SNR trace. An accepted one has a length, and an SNR at any time that lies between its rows; a refusal
/// names a line, and says on one line what is wrong.
pub fn snr_trace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let columns = Columns { time: "time", snr: "snr", max_gap: Duration::from_secs(60) };
    match SnrTrace::parse(text, columns) {
        Ok(trace) => {
            assert!(!trace.duration().is_zero());
            let (least, most) = trace.range_db();
            for at in [0, 1, u64::from(u32::MAX), u64::MAX / 2] {
                let db = trace.db_at(Instant::from_nanos(at), trace.duration().mul_f64(0.3));
                assert!((least - 1e-9..=most + 1e-9).contains(&db), "{db}");
            }
        }
        Err(error) => assert!(error.line >= 1 && !error.to_string().contains('\n'), "{error}"),
    }
}

/// A mobility file of ns-2 for three nodes. Nodes of an accepted one stay inside, whenever they are asked; a
/// refusal is one line that names the file's.
pub fn setdest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let area = Area::new(500.0, 400.0).expect("a small area");
    match Mobility::setdest(text, area, 3) {
        Ok(mut mobility) => {
            assert!(mobility.max_speed().is_finite());
            for at in [0, 1, 1_000_000_000, 60_000_000_000, u64::MAX - 1, u64::MAX] {
                let now = Instant::from_nanos(at);
                for node in (0..3).map(Node) {
                    assert!(area.contains(mobility.position(node, now)));
                    assert!(mobility.next_turn(node, now) > now || at == u64::MAX);
                }
            }
        }
        Err(error) => assert!(error.line >= 1 && !error.to_string().contains('\n'), "{error}"),
    }
}

/// A PU log. An accepted one has users, every burst ends after it starts, it is found on its band, and
/// written anew it is the same log; a refusal names a line, and says on one line what is wrong.
pub fn pu_log(data: &[u8]) {
    match PuLog::parse(data, None) {
        Ok(log) => {
            assert!(!log.users().is_empty());
            for (index, user) in log.users().iter().enumerate() {
                for (arrival, departure) in log.bursts_of(index) {
                    assert!(arrival < departure && departure <= log.end());
                    assert!(log.any_on(user.band, arrival, departure, |found| found == user));
                    assert_eq!(log.on_until(index, arrival), Some(departure));
                }
            }
            for band in (1..=log.bands()).filter_map(Band::new) {
                let merged = Occupancy::of(&log, band, |_| true);
                assert!(merged.on_time(log.end()).as_nanos() <= log.end().as_nanos());
            }
            let again = PuLog::parse(log.to_string().as_bytes(), Some(log.bands()));
            assert_eq!(again.as_ref(), Ok(&log));
        }
        Err(error) => assert!(error.line >= 1 && !error.to_string().contains('\n'), "{error}"),
    }
}

/// A channel log. An accepted one has a capacity for every channel and a noise at any time, and written anew
/// it is the same log; a refusal names a line, and says on one line what is wrong.
pub fn channel_log(data: &[u8]) {
    match ChannelLog::parse(data) {
        Ok(log) => {
            for channel in 0..log.bands().channels() {
                assert!(log.bandwidth(channel).as_bps() > 0);
                for at in [0, 1, u64::from(u32::MAX), u64::MAX] {
                    assert!(log.noise(channel, Instant::from_nanos(at)) >= 0.0);
                }
            }
            assert_eq!(ChannelLog::parse(log.to_string().as_bytes()).as_ref(), Ok(&log));
        }
        Err(error) => assert!(error.line >= 1 && !error.to_string().contains('\n'), "{error}"),
    }
}

/// An IP packet of TCP or UDP. If an accepted one of TCP is rewritten, parsing shows the new window, and
/// correct checksums stay correct.
pub fn packet(data: &[u8]) {
    let headers = parse_ip_tcp_headers(data);
    match parse_ip_headers(data) {
        Ok(Parsed::Tcp(parsed)) => assert_eq!(headers, Ok(parsed)),
        Ok(Parsed::Udp(parsed)) => assert!(headers.is_err() && parsed.ip_len >= 28),
        // Of a broken datagram the other only says that it is not TCP.
        Err(error) => assert!(
            matches!(headers, Err(other) if other == error || other == linkhold_wire::ParseError::NotTcp)
        ),
    }
    let Ok(parsed) = parse_ip_tcp(data) else { return };
    assert!(parsed.payload_offset() <= data.len());
    let mut bytes = data.to_vec();
    let right = verify_checksums(&bytes);
    let window = parsed.tcp.window / 2;
    if apply_rewrite(&mut bytes, Rewrite::window(window), TcpChecksum::Complete).is_ok() {
        assert_eq!(parse_ip_tcp(&bytes).map(|again| again.tcp.window), Ok(window));
        if right == Ok(true) {
            assert_eq!(verify_checksums(&bytes), Ok(true));
        }
    }
}

/// An input log, as it is and with corrected checksums, so that a mutation reaches the code behind
/// the checksum test.
pub fn log(data: &[u8]) {
    for bytes in [data.to_vec(), resealed(data)] {
        let _ = replay(&bytes[..], &mut PlainRouter::default());
        let Ok(mut reader) = LogReader::new(&bytes[..]) else { continue };
        let mut config: DsaSyncConfig = reader.header().config().unwrap_or_default();
        // The settings in a log come from the agent; here `max_flows` is limited to keep memory small.
        config.max_flows = config.max_flows.clamp(1, 1024);
        let Ok(mut mechanism) = DsaSync::new(&config) else { continue };
        let _ = replay_log(&mut reader, &mut mechanism);
    }
}

/// Bytes from a client of the agent's control socket, in pieces. No line that is handed on is longer than
/// allowed, and a message that was parsed can be written and parsed again.
pub fn control(data: &[u8]) {
    let mut client = Connection::new(Pieces { data, at: 0, ready: false }, MAX_LINE);
    // Each turn takes a piece or a line, or is the last, so the number of bytes limits that of the turns.
    for _ in 0..=2 * data.len() + 2 {
        let turn = client.take_turn(|line, out| {
            assert!(line.len() <= MAX_LINE);
            match parse_line(line) {
                Ok(message) => {
                    let text = serde_json::to_vec(&message).expect("a message is JSON");
                    let again = parse_line(&text).expect("a message written anew is a message");
                    // Numbers are not compared: written as JSON, they may change in the last bit.
                    let kind = |message: &Message| message.event.as_ref().map(discriminant);
                    assert_eq!((kind(&again), again.query), (kind(&message), message.query));
                    assert_eq!(again.source, message.source);
                }
                Err(error) => out.extend_from_slice(error.as_bytes()),
            }
            true
        });
        if turn == Turn::Ends {
            return;
        }
    }
    panic!("the client is never done with");
}

/// A client that sends pieces of up to 255 bytes and takes every answer. In `data` a piece is its length,
/// then as many bytes.
struct Pieces<'a> {
    data: &'a [u8],
    at: usize,
    ready: bool,
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.ready = !self.ready;
        if !self.ready {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let Some((&length, rest)) = self.data.get(self.at..).and_then(<[u8]>::split_first) else {
            return Ok(0);
        };
        let length = usize::from(length.max(1)).min(rest.len()).min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += 1 + length;
        Ok(length)
    }
}

impl Write for Pieces<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A message on the NFQUEUE socket. The payload lies inside the message, and the packet's id holds the queue
/// of its direction.
pub fn nfqueue(data: &[u8]) {
    let Some((arrived, payload)) = parse_packet_message(data, 7..11) else { return };
    assert!(data.get(payload).is_some());
    let queue = 2 * arrived.radio as u64 + u64::from(arrived.direction == Direction::Uplink);
    assert!(arrived.radio < 2);
    assert_eq!(arrived.id.0 >> 32, queue);
}

/// Datagrams on the socket of nl80211, each behind its length in one byte. Every silence that they begin has
/// an end.
pub fn nl80211(data: &[u8]) {
    // Lines of a file of samples: whatever they are, a ratio is one that a radio can have.
    assert!(data.split(|byte| *byte == b'\n').filter_map(ratio).all(|db| db.abs() <= 200.0));
    let (family, max) = (32, Duration::from_secs(10));
    let mut translator = Translator::new(["wlan0", "wlan3"], max);
    let (mut now, mut rest, mut out) = (Instant::ZERO, data, Vec::new());
    while let Some((&length, behind)) = rest.split_first() {
        let (datagram, next) = behind.split_at(usize::from(length).min(behind.len()));
        (rest, now) = (next, now + Duration::from_millis(100));
        // Dumps of stations and channels come the same way: whatever they tell, a ratio is a difference of
        // bytes.
        let mut levels = Levels::default();
        levels.read(family, 3, datagram);
        assert!(levels.ratio(-95).is_none_or(|ratio| ratio.abs() <= 255.0));
        for message in messages(family, datagram) {
            translator.handle_message(now, &message, &mut out);
        }
        for signal in out.drain(..) {
            assert!(signal.radio < translator.radios().len());
            if let SignalKind::Silent { from, ends, .. } = signal.kind {
                let at_most = match ends {
                    Ends::ByClock(length) | Ends::AtMost(length) => length,
                    Ends::BySource => panic!("a silence without a limit"),
                };
                assert!(from >= now && !at_most.is_zero() && at_most <= max);
            }
        }
    }
}

/// Metadata of a SigMF recording, and behind a NUL its samples. Of accepted ones the rate is usable and the
/// data file lies beside; samples are sensed or refused, and every detection has an end.
pub fn sigmf(data: &[u8]) {
    let end = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (text, samples) = data.split_at(end);
    let meta = match Metadata::parse(text) {
        Ok(meta) => meta,
        Err(error) => {
            let told = error.to_string();
            assert!(!told.is_empty() && !told.contains('\n'), "{told}");
            return;
        }
    };
    assert!(meta.rate > 0.0 && meta.rate.is_finite());
    assert!(
        meta.dataset.as_deref().is_none_or(|name| Path::new("a").join(name).parent() == Some(Path::new("a")))
    );
    // Eight samples a block, so that few bytes are many blocks.
    let settings = Settings {
        block: Duration::from_secs_f64(8.0 / meta.rate),
        idle: Duration::from_secs_f64(16.5 / meta.rate),
        floor: FloorSource::Given(-40.0),
        ..Settings::at(meta.rate)
    };
    let Ok(mut sensor) = Sensor::new(&settings) else { return };
    if sensor.block() > 1 << 16 {
        return;
    }
    let mut blocks = Blocks::new(samples.get(1..).unwrap_or_default(), meta.format, sensor.block());
    let mut busy = false;
    while let Ok(Some(block)) = blocks.next_block() {
        match sensor.on_block(block) {
            Ok(Some(Event::Busy { .. })) => {
                assert!(!busy);
                busy = true;
            }
            Ok(Some(Event::Idle { at, since, heard, .. })) => {
                assert!(busy && since <= heard && heard < at);
                busy = false;
            }
            Ok(_) => {}
            Err(_) => break,
        }
    }
    let (last, summary) = sensor.finish();
    assert_eq!(last.is_some(), busy);
    assert!(summary.above <= summary.decisions && summary.busy <= summary.samples);
}

/// `data` with every frame's checksum corrected.
fn resealed(data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    let mut at = MAGIC.len() + 2;
    while let Some(prefix) = bytes.get(at..at + 8) {
        let len = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
        let Some(payload) = bytes.get(at + 8..at.saturating_add(8).saturating_add(len)) else { break };
        let checksum = crc32fast::hash(payload).to_le_bytes();
        bytes[at + 4..at + 8].copy_from_slice(&checksum);
        at += 8 + len;
    }
    bytes
}
