//! The bodies of the fuzz targets. Each takes bytes from outside and must neither panic nor hang nor take memory
//! without bound; where a parser accepts, what it promises is checked too.
//!
//! Also compiled into `crates/linkhold/tests/fuzz_smoke.rs`, so it depends on nothing of the fuzzer.

use linkhold_core::action::Rewrite;
use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::log::{LogReader, MAGIC, replay, replay_log};
use linkhold_core::mechanism::PlainRouter;
use linkhold_radio::Trace;
use linkhold_scenario::{NoFiles, Scenario};
use linkhold_wire::{TcpChecksum, apply_rewrite, parse_ip_tcp, parse_ip_tcp_headers, verify_checksums};

/// A scenario file. What it accepts has cases and a summary; what it refuses names the file, or a line of it.
pub fn scenario(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    // A NUL starts an override: no TOML document holds one.
    let (text, set) = match text.split_once('\0') {
        Some((text, set)) => (text, set.split('\0').map(str::to_owned).collect()),
        None => (text, Vec::new()),
    };
    match Scenario::parse(text, "fuzz.toml", &set, &NoFiles) {
        Ok(scenario) => {
            assert!(!scenario.cases().is_empty());
            assert!(!scenario.summary().is_empty());
        }
        Err(error) => {
            assert!(!error.problems().is_empty());
            for line in error.to_string().lines() {
                assert!(line.starts_with("fuzz.toml") || line.starts_with("--set "), "{line}");
            }
        }
    }
}

/// A delivery trace. What it accepts has a length and opportunities.
pub fn trace(data: &[u8]) {
    match Trace::parse(data) {
        Ok(trace) => assert!(!trace.duration().is_zero() && trace.opportunities() > 0),
        Err(error) => assert!(error.line >= 1),
    }
}

/// An IP packet. A rewrite of what it accepts is seen by the next parser, and keeps right checksums right.
pub fn packet(data: &[u8]) {
    let _ = parse_ip_tcp_headers(data);
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

/// An input log, as it is and with its checksums made right, so that a mutation reaches what is behind them.
pub fn log(data: &[u8]) {
    for bytes in [data.to_vec(), resealed(data)] {
        let _ = replay(&bytes[..], &mut PlainRouter::default());
        let Ok(mut reader) = LogReader::new(&bytes[..]) else { continue };
        let mut config: DsaSyncConfig = reader.header().config().unwrap_or_default();
        // A log's settings are the agent's own; only its size is kept small here.
        config.max_flows = config.max_flows.clamp(1, 1024);
        let Ok(mut mechanism) = DsaSync::new(&config) else { continue };
        let _ = replay_log(&mut reader, &mut mechanism);
    }
}

/// `data` with every frame's checksum made right.
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
