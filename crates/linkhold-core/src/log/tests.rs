//! A toy mechanism recorded and replayed; damaged logs.

use super::*;
use crate::action::{DropReason, Rewrite};
use crate::link_event::{Cause, LinkEventKind, Scope};
use crate::packet::Endpoint;
use crate::time::Duration;
use core::net::{IpAddr, Ipv6Addr};
use proptest::prelude::*;

/// Holds every `every`th packet until the timer or the flush.
struct Every {
    every: u64,
    seen: u64,
    held: Vec<PacketId>,
}

impl Mechanism for Every {
    fn name(&self) -> &'static str {
        "every"
    }
    fn on_packet(&mut self, _now: Instant, packet: &PacketView<'_>, _out: &mut Actions) -> Verdict {
        self.seen += 1;
        if self.seen.is_multiple_of(self.every) {
            self.held.push(packet.id);
            return Verdict::Hold;
        }
        Verdict::Forward(Rewrite::window(packet.tcp.window / 2))
    }
    fn on_link(&mut self, _now: Instant, _event: LinkEvent, out: &mut Actions) {
        out.push(Action::Reclaim { scope: Scope::Network });
    }
    fn on_timeout(&mut self, _now: Instant, out: &mut Actions) {
        for packet in self.held.drain(..) {
            out.push(Action::Discard { packet, reason: DropReason::StandingQueue });
        }
    }
    fn next_timeout(&self) -> Option<Instant> {
        self.held.first().map(|id| Instant::from_millis(id.0))
    }
    fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
    fn flush(&mut self, _now: Instant, out: &mut Actions) {
        for packet in self.held.drain(..) {
            out.push(Action::Release { packet, rewrite: Rewrite::NONE });
        }
    }
    fn metrics(&self) -> Metrics {
        Metrics::default()
    }
}

fn every(every: u64) -> Every {
    Every { every, seen: 0, held: Vec::new() }
}

fn recorded() -> Vec<u8> {
    let mut recorder = Recorder::new(every(3), &3u64, Vec::new()).expect("a Vec takes all");
    let mut out = Actions::new();
    let flow = FlowKey {
        correspondent: Endpoint { addr: IpAddr::V6(Ipv6Addr::LOCALHOST), port: 443 },
        station: Endpoint { addr: IpAddr::from([10, 0, 0, 2]), port: 40_000 },
    };
    for k in 0..10u64 {
        let now = Instant::from_millis(k);
        let tcp = TcpSegment { payload_len: 1_448, window: 1_000 + k as u16, ..TcpSegment::default() };
        let packet = PacketView {
            id: PacketId(k),
            direction: Direction::Downlink,
            origin: Origin::Arrival,
            station: StationId(1),
            flow: &flow,
            tcp: &tcp,
            len: 1_500,
            ecn: Ecn::Ect0,
        };
        let _ = recorder.on_packet(now, &packet, &mut out);
        if k == 4 {
            let kind = LinkEventKind::FreezeStarted {
                scope: Scope::Network,
                cause: Cause::Fade,
                expected: Some(Duration::from_millis(5)),
            };
            recorder.on_link(now, LinkEvent::at(now, kind), &mut out);
        }
        if k == 6 {
            recorder.on_timeout(now, &mut out);
        }
        out.clear();
    }
    recorder.flush(Instant::from_millis(10), &mut out);
    assert_eq!(recorder.records(), 13);
    recorder.finish().expect("nothing failed").1
}

#[test]
fn a_log_replays_identically() {
    let log = recorded();
    let report = replay(&log[..], &mut every(3)).expect("a good log");
    assert_eq!(report, ReplayReport { records: 13, truncated: false, divergence: None });
    let reader = LogReader::new(&log[..]).expect("a good log");
    assert_eq!(reader.header().mechanism, "every");
    assert_eq!(reader.header().config::<u64>().expect("recorded as u64"), 3);
    assert!(reader.header().config::<[String; 4]>().is_err());
}

#[test]
fn the_first_difference_is_named() {
    let report = replay(&recorded()[..], &mut every(4)).expect("a good log");
    let divergence = report.divergence.expect("packet 2 was held");
    assert_eq!((divergence.record, report.records), (2, 3));
    assert_eq!(divergence.recorded.outputs.verdict, Some(Verdict::Hold));
    assert_eq!(divergence.replayed.verdict, Some(Verdict::Forward(Rewrite::window(501))));
}

#[test]
fn a_log_cut_short_anywhere_is_read_up_to_the_cut() {
    let log = recorded();
    let mut complete = 0;
    for cut in 0..=log.len() {
        match replay(&log[..cut], &mut every(3)) {
            Ok(report) => {
                assert!(report.is_identical());
                if !report.truncated {
                    assert_eq!(report.records, complete, "cut at {cut}");
                    complete += 1;
                }
            }
            Err(ReplayError::Log(LogError::NotALog)) => assert_eq!(complete, 0),
            Err(error) => panic!("cut at {cut}: {error}"),
        }
    }
    assert_eq!(complete, 14, "every whole number of records is once untruncated");
}

#[test]
fn damage_is_named() {
    let log = recorded();
    let mut other = log.clone();
    other[0] ^= 1;
    assert!(matches!(LogReader::new(&other[..]), Err(LogError::NotALog)));
    let mut other = log.clone();
    other[8] = 9;
    assert!(matches!(LogReader::new(&other[..]), Err(LogError::Version(9))));
    let mut other = log.clone();
    *other.last_mut().expect("not empty") ^= 1;
    let error = replay(&other[..], &mut every(3)).expect_err("damaged");
    assert!(matches!(error, ReplayError::Log(LogError::Checksum { frame: 13 })), "{error}");
    let mut other = log;
    other.extend([0xff; 8]);
    let error = replay(&other[..], &mut every(3)).expect_err("too long");
    assert!(matches!(error, ReplayError::Log(LogError::Length { frame: 14, .. })), "{error}");
    let error = replay(&recorded()[..], &mut crate::mechanism::PlainRouter::default()).expect_err("other");
    assert!(matches!(error, ReplayError::Mechanism { .. }));
}

/// A writer that is full after some bytes.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.len() > self.0 {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        self.0 -= bytes.len();
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_stops_the_log_and_not_the_mechanism() {
    let mut recorder = Recorder::new(every(1), &(), Full(100)).expect("the header fits");
    let mut out = Actions::new();
    for _ in 0..100 {
        recorder.on_timeout(Instant::ZERO, &mut out);
    }
    assert!(recorder.records() > 0 && recorder.records() < 100);
    assert!(matches!(recorder.error(), Some(LogError::Io(_))));
    assert!(recorder.finish().is_err());
}

proptest! {
    #[test]
    fn no_input_makes_the_reader_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        mend: bool,
    ) {
        let mut log = recorded();
        for (at, value) in flips {
            let at = at.index(log.len());
            log[at] = value;
        }
        if mend {
            // Recompute the checksums, so that damage reaches the decoder.
            let mut at = MAGIC.len() + 2;
            while let Some(prefix) = log.get(at..at + 8) {
                let len = u32::from_le_bytes([prefix[0], prefix[1], prefix[2], prefix[3]]) as usize;
                let Some(payload) = log.get(at + 8..at.saturating_add(8).saturating_add(len)) else { break };
                let crc = crc32fast::hash(payload);
                log[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
                at += 8 + len;
            }
        }
        let _ = replay(&log[..], &mut every(3));
    }
}
