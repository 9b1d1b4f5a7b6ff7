//! What is counted of flows that are more than TCP with something to send: UDP, media, the web.
//!
//! All counters begin at the flow's start or at the end of the warm-up, whichever is later.

use serde::{Deserialize, Serialize};

use crate::delay::DelayHistogram;
use crate::finite;

/// The transport of a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowTransport {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// QUIC.
    Quic,
}

impl FlowTransport {
    /// The name as in JSON and Parquet.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Quic => "quic",
        }
    }

    /// True for TCP, which reports leave out.
    #[must_use]
    pub const fn is_tcp(&self) -> bool {
        matches!(self, Self::Tcp)
    }
}

/// The datagrams of a flow over UDP: `sent = delivered + lost + inside`. Of QUIC, those from the sender of
/// its data to the receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UdpRecord {
    /// Datagrams sent.
    pub sent: u64,
    /// Those of them that have arrived.
    pub delivered: u64,
    /// Those that were lost on the way.
    pub lost: u64,
    /// Those on their way at the end.
    pub inside: u64,
    /// Those that arrived behind one with a higher number (RFC 4737 section 3).
    pub reordered: u64,
    /// Mean of the interarrival jitter (RFC 3550 section 6.4.1) over the arrivals, s; of several flows, of
    /// their means by what they delivered.
    #[serde(with = "finite")]
    pub jitter_s: f64,
}

impl UdpRecord {
    /// The sum over flows; `None` if there is none.
    #[must_use]
    pub fn sum<'a>(flows: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut all: Option<Self> = None;
        for flow in flows {
            let sum = all.get_or_insert(Self {
                sent: 0,
                delivered: 0,
                lost: 0,
                inside: 0,
                reordered: 0,
                jitter_s: f64::NAN,
            });
            sum.jitter_s = weighted((sum.jitter_s, sum.delivered), (flow.jitter_s, flow.delivered));
            sum.sent += flow.sent;
            sum.delivered += flow.delivered;
            sum.lost += flow.lost;
            sum.inside += flow.inside;
            sum.reordered += flow.reordered;
        }
        all
    }

    /// Share of the datagrams that were lost, of those whose fate is known.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.lost as f64 / (self.lost + self.delivered) as f64
    }
}

/// What the sender of a QUIC flow counted (quinn; the terms are those of RFC 9002).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuicRecord {
    /// Packets sent.
    pub sent: u64,
    /// Packets declared lost.
    pub declared_lost: u64,
    /// Those of them whose datagrams were not lost: packets declared lost less datagrams that never reached
    /// the receiver, and never below 0. Losses that were not declared yet at the end make it too small, never
    /// too large.
    pub spurious: u64,
    /// Times that the congestion window was reduced.
    pub congestion_events: u64,
    /// Those of them that found persistent congestion and took the window down to its least.
    pub persistent_congestion: u64,
    /// Probe timeouts.
    pub probe_timeouts: u64,
    /// Mean of the smoothed round trip over time, s; of several flows, of their means.
    #[serde(with = "finite")]
    pub rtt_s: f64,
}

impl QuicRecord {
    /// The sum over flows; `None` if there is none.
    #[must_use]
    pub fn sum<'a>(flows: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut all: Option<Self> = None;
        let mut summed = 0;
        for flow in flows {
            let sum = all.get_or_insert(Self {
                sent: 0,
                declared_lost: 0,
                spurious: 0,
                congestion_events: 0,
                persistent_congestion: 0,
                probe_timeouts: 0,
                rtt_s: f64::NAN,
            });
            if flow.rtt_s.is_finite() {
                sum.rtt_s = weighted((sum.rtt_s, summed), (flow.rtt_s, 1));
                summed += 1;
            }
            sum.sent += flow.sent;
            sum.declared_lost += flow.declared_lost;
            sum.spurious += flow.spurious;
            sum.congestion_events += flow.congestion_events;
            sum.persistent_congestion += flow.persistent_congestion;
            sum.probe_timeouts += flow.probe_timeouts;
        }
        all
    }

    /// Share of the packets sent that were declared lost.
    #[must_use]
    pub fn loss(&self) -> f64 {
        self.declared_lost as f64 / self.sent as f64
    }
}

/// What the player at the end of a stream has met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediaRecord {
    /// Time from the flow's start to the first frame played, s; `null` if the player never started. Of
    /// several flows, the mean of those that started.
    #[serde(with = "finite::option")]
    pub startup_s: Option<f64>,
    /// Times that the player ran out of media.
    pub stalls: u64,
    /// Time that it stood still then, s.
    #[serde(with = "finite")]
    pub stalled_s: f64,
    /// Bytes of the content played.
    pub played_bytes: u64,
    /// Bytes in the player's buffer at the end.
    pub buffered_bytes: u64,
    /// Bytes of the content that were not there when their time came (UDP only).
    pub lost_bytes: u64,
    /// Those of them that arrived later.
    pub late_bytes: u64,
}

impl MediaRecord {
    /// The sum over flows; `None` if there is none.
    #[must_use]
    pub fn sum<'a>(flows: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut all: Option<Self> = None;
        let mut started = 0;
        for flow in flows {
            let sum = all.get_or_insert(Self {
                startup_s: None,
                stalls: 0,
                stalled_s: 0.0,
                played_bytes: 0,
                buffered_bytes: 0,
                lost_bytes: 0,
                late_bytes: 0,
            });
            if let Some(startup) = flow.startup_s {
                sum.startup_s = Some(weighted((sum.startup_s.unwrap_or(f64::NAN), started), (startup, 1)));
                started += 1;
            }
            sum.stalls += flow.stalls;
            sum.stalled_s += flow.stalled_s;
            sum.played_bytes += flow.played_bytes;
            sum.buffered_bytes += flow.buffered_bytes;
            sum.lost_bytes += flow.lost_bytes;
            sum.late_bytes += flow.late_bytes;
        }
        all
    }
}

/// What a user of the web has met. A page's time goes from its first request (with the handshake of a new
/// connection) to the last byte of its last object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WebRecord {
    /// Pages that were begun and completed.
    pub pages: u64,
    /// Objects that arrived, main ones and embedded ones.
    pub objects: u64,
    /// Mean page load time, s.
    #[serde(with = "finite")]
    pub page_mean_s: f64,
    /// Median page load time, s.
    #[serde(with = "finite")]
    pub page_p50_s: f64,
    /// 95th percentile of the page load time, s.
    #[serde(with = "finite")]
    pub page_p95_s: f64,
}

impl WebRecord {
    /// What page load times and a number of objects amount to.
    #[must_use]
    pub fn new(pages: &DelayHistogram, objects: u64) -> Self {
        Self {
            pages: pages.count(),
            objects,
            page_mean_s: pages.mean_s(),
            page_p50_s: pages.quantile_s(0.50),
            page_p95_s: pages.quantile_s(0.95),
        }
    }
}

/// The mean of two means with their weights.
fn weighted((a, of_a): (f64, u64), (b, of_b): (f64, u64)) -> f64 {
    match (of_a, of_b) {
        (0, _) => b,
        (_, 0) => a,
        (of_a, of_b) => (a * of_a as f64 + b * of_b as f64) / (of_a + of_b) as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_flow_says_nothing_of_them_and_others_are_read_back() {
        let (mut report, _) = crate::sample::run(1);
        let plain = serde_json::to_string(&report.runs[0]).unwrap();
        for key in ["transport", "\"udp\"", "\"media\"", "\"web\""] {
            assert!(!plain.contains(key), "{key} in {plain}");
        }
        crate::sample::with_traffic(&mut report);
        report.runs[0].flows[0].media.as_mut().unwrap().startup_s = None;
        let text = serde_json::to_string(&report.runs[0]).unwrap();
        assert!(text.contains("\"transport\":\"udp\"") && text.contains("\"startup_s\":null"), "{text}");
        let read: crate::RunRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert_eq!(read.flows[0].udp, report.runs[0].flows[0].udp);
    }

    #[test]
    fn a_quic_flow_is_read_back_and_summed() {
        let (mut report, _) = crate::sample::run(1);
        crate::sample::with_quic(&mut report);
        let text = serde_json::to_string(&report.runs[0]).unwrap();
        assert!(text.contains("\"transport\":\"quic\"") && text.contains("\"spurious\":15"), "{text}");
        let read: crate::RunRecord = serde_json::from_str(&text).unwrap();
        assert_eq!(read, report.runs[0]);
        let one = read.flows[0].quic.clone().unwrap();
        let idle = QuicRecord { sent: 0, rtt_s: f64::NAN, ..one.clone() };
        let late = QuicRecord { rtt_s: 0.1025, ..one.clone() };
        let sum = QuicRecord::sum([idle, one, late].iter()).unwrap();
        assert_eq!((sum.sent, sum.declared_lost, sum.spurious, sum.probe_timeouts), (2000, 75, 45, 123));
        assert_eq!((sum.congestion_events, sum.persistent_congestion), (21, 3));
        assert!((sum.rtt_s - 0.0825).abs() < 1e-12 && (sum.loss() - 0.0375).abs() < 1e-12, "{sum:?}");
        assert_eq!(QuicRecord::sum([].iter()), None);
    }

    #[test]
    fn sums_weigh_means_by_what_they_count() {
        let udp = |delivered, jitter_s| UdpRecord {
            sent: 10,
            delivered,
            lost: 10 - delivered,
            inside: 0,
            reordered: 1,
            jitter_s,
        };
        let sum = UdpRecord::sum([udp(0, f64::NAN), udp(6, 0.1), udp(2, 0.5)].iter()).unwrap();
        assert_eq!((sum.sent, sum.delivered, sum.lost, sum.reordered), (30, 8, 22, 3));
        assert!((sum.jitter_s - 0.2).abs() < 1e-12, "{}", sum.jitter_s);
        let media = |startup_s, stalls| MediaRecord {
            startup_s,
            stalls,
            stalled_s: 1.5,
            played_bytes: 1,
            buffered_bytes: 2,
            lost_bytes: 3,
            late_bytes: 4,
        };
        let all = [media(Some(1.0), 1), media(None, 2), media(Some(3.0), 3), media(Some(5.0), 0)];
        let sum = MediaRecord::sum(all.iter()).unwrap();
        assert_eq!((sum.startup_s, sum.stalls, sum.stalled_s, sum.late_bytes), (Some(3.0), 6, 6.0, 16));
        assert_eq!((MediaRecord::sum([].iter()), UdpRecord::sum([].iter())), (None, None));
    }
}
