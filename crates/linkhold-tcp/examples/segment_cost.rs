//! What the endpoints alone cost: 100 s of one bulk flow over a bare 24 Mb/s, 2 ms pipe with 100 packets of
//! buffer.
//!
//! `cargo run --release -p linkhold-tcp --example segment_cost`

use std::collections::VecDeque;

use linkhold_core::packet::{Ecn, TcpSegment};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Seq};
use linkhold_tcp::{Congestion, Endpoint, Recovery, Source, TcpConfig};

fn main() {
    let variants = [
        ("linux cubic", TcpConfig::linux(Congestion::Cubic)),
        ("linux reno", TcpConfig::linux(Congestion::Reno)),
        ("linux-2009 cubic", TcpConfig::linux_2009(Congestion::Cubic)),
        ("classic newreno", TcpConfig::classic(Recovery::NewReno, Congestion::Reno)),
        ("classic vegas", TcpConfig::classic(Recovery::Sack, Congestion::Vegas)),
    ];
    for (name, config) in variants {
        let mut best = f64::INFINITY;
        let mut segments = 0;
        let mut bytes = 0;
        for _ in 0..5 {
            let start = std::time::Instant::now();
            (segments, bytes) = run(&config);
            best = best.min(start.elapsed().as_secs_f64());
        }
        let per_segment = best * 1e9 / segments as f64;
        let goodput = bytes as f64 * 8.0 / 100e6;
        println!(
            "{name:18} {segments:7} data segments {best:.4} s {per_segment:6.1} ns each  {goodput:.2} Mb/s"
        );
    }
}

fn run(config: &TcpConfig) -> (u64, u64) {
    let rate = BitRate::from_mbps(24);
    let delay = Duration::from_millis(2);
    let end = Instant::from_millis(100_000);
    let mut sender = Endpoint::connect(config, Source::Bulk, Seq(1));
    let mut receiver = Endpoint::listen(config, Source::None, Seq(1));
    // Arrival times per direction, in order; the forward pipe holds 100 packets not yet on the wire.
    let mut forward: VecDeque<(Instant, TcpSegment)> = VecDeque::new();
    let mut back: VecDeque<(Instant, TcpSegment)> = VecDeque::new();
    let mut now = Instant::ZERO;
    let mut busy = Instant::ZERO;
    loop {
        while let Some(out) = sender.poll_transmit(now) {
            let backlog = rate.bytes_in(busy.since(now)).0 / 1500;
            if backlog < 100 {
                let len = u64::from(20 + out.segment.header_len() + out.segment.payload_len);
                busy = Instant::from_nanos(busy.as_nanos().max(now.as_nanos())) + rate.time_for(Bytes(len));
                forward.push_back((busy + delay, out.segment));
            }
        }
        while let Some(out) = receiver.poll_transmit(now) {
            back.push_back((now + delay, out.segment));
        }
        let far = Instant::FAR_FUTURE;
        let f = forward.front().map_or(far, |entry| entry.0);
        let b = back.front().map_or(far, |entry| entry.0);
        let s = sender.next_timeout().unwrap_or(far);
        let r = receiver.next_timeout().unwrap_or(far);
        let next = f.min(b).min(s).min(r);
        if next >= end {
            break;
        }
        now = next;
        if next == f {
            if let Some((_, segment)) = forward.pop_front() {
                receiver.on_segment(now, &segment, Ecn::NotEct);
            }
        } else if next == b {
            if let Some((_, segment)) = back.pop_front() {
                sender.on_segment(now, &segment, Ecn::NotEct);
            }
        } else if next == s {
            sender.on_timeout(now);
        } else {
            receiver.on_timeout(now);
        }
    }
    (sender.stats().data_segments_sent, receiver.delivered())
}
