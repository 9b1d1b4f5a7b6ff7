//! What the kernel says of its own TCP: counters of a namespace, and windows of its sockets.
//!
//! Source: /proc/net/netstat and /proc/net/snmp (the counters `nstat` prints), ss(8) with `-i`.

use std::collections::BTreeMap;

use crate::command::CommandError;
use crate::netns::{NetNs, NetNsError};

/// Counters that tell what a silence did to a sender.
pub const COUNTERS: [&str; 14] = [
    "RetransSegs",
    "TCPTimeouts",
    "TCPSpuriousRTOs",
    "TCPSpuriousRtxHostQueues",
    "TCPLossProbes",
    "TCPLossProbeRecovery",
    "TCPSackRecovery",
    "TCPLostRetransmit",
    "TCPFullUndo",
    "TCPPartialUndo",
    "TCPDSACKUndo",
    "TCPLossUndo",
    "TCPFromZeroWindowAdv",
    "TCPWinProbe",
];

/// The counters of [`COUNTERS`] by name.
pub type Counters = BTreeMap<String, u64>;

/// Reads a namespace's counters.
///
/// # Errors
/// [`NetNsError`] if the namespace cannot be entered.
pub fn counters(netns: &NetNs) -> Result<Counters, NetNsError> {
    netns.enter(|| {
        // `thread-self`: `/proc/net` itself shows the namespace of the process's first thread.
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/thread-self/net/{file}")).unwrap_or_default();
        let mut all = parse_counters(&read("netstat"));
        all.extend(parse_counters(&read("snmp")));
        all.retain(|name, _| COUNTERS.contains(&name.as_str()));
        all
    })
}

/// What was counted between two readings.
#[must_use]
pub fn difference(before: &Counters, after: &Counters) -> Counters {
    after
        .iter()
        .map(|(name, value)| (name.clone(), value.saturating_sub(before.get(name).copied().unwrap_or(0))))
        .collect()
}

/// Pairs of lines: names, then values, under the same first word.
fn parse_counters(text: &str) -> Counters {
    let mut counters = Counters::new();
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()).skip(1) {
            if let Ok(value) = value.parse() {
                counters.insert(name.to_owned(), value);
            }
        }
    }
    counters
}

/// One socket of a sender, as `ss -ti` shows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Socket {
    /// Local port.
    pub local_port: u16,
    /// Remote port.
    pub peer_port: u16,
    /// Congestion window, segments.
    pub cwnd: u64,
    /// Slow-start threshold, segments; `None` while infinite.
    pub ssthresh: Option<u64>,
    /// Smoothed round-trip time, ms.
    pub rtt_ms: f64,
    /// Retransmission timeout, ms.
    pub rto_ms: f64,
    /// Bytes acknowledged.
    pub bytes_acked: u64,
    /// Receive window last heard from the peer, bytes.
    pub send_window: Option<u64>,
}

/// The established sockets of a namespace.
///
/// # Errors
/// [`CommandError`] with what `ss` said.
pub fn sockets(netns: &NetNs) -> Result<Vec<Socket>, CommandError> {
    netns
        .run("ss", &["-tinOH", "state", "established"])
        .map(|text| text.lines().filter_map(parse_socket).collect())
}

/// One line of `ss -tinOH`: queues, two addresses, then `key:value` and bare words.
fn parse_socket(line: &str) -> Option<Socket> {
    let mut words = line.split_whitespace();
    let (_recv_q, _send_q) = (words.next()?, words.next()?);
    let port = |address: &str| address.rsplit(':').next()?.parse().ok();
    let mut socket =
        Socket { local_port: port(words.next()?)?, peer_port: port(words.next()?)?, ..Socket::default() };
    for word in words {
        let Some((key, value)) = word.split_once(':') else { continue };
        match key {
            "cwnd" => socket.cwnd = value.parse().ok()?,
            "ssthresh" => socket.ssthresh = value.parse().ok(),
            "rtt" => socket.rtt_ms = value.split('/').next()?.parse().ok()?,
            "rto" => socket.rto_ms = value.parse().ok()?,
            "bytes_acked" => socket.bytes_acked = value.parse().ok()?,
            "snd_wnd" => socket.send_window = value.parse().ok(),
            _ => {}
        }
    }
    Some(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_pairs_of_lines() {
        let text =
            "TcpExt: SyncookiesSent TCPTimeouts TCPSpuriousRTOs\nTcpExt: 0 7 3\nIpExt: InOctets\nIpExt: 99\n";
        let counters = parse_counters(text);
        assert_eq!(counters["TCPTimeouts"], 7);
        assert_eq!(counters["InOctets"], 99);
        let later = parse_counters("TcpExt: TCPTimeouts\nTcpExt: 9\n");
        assert_eq!(difference(&counters, &later)["TCPTimeouts"], 2);
    }

    #[test]
    fn a_line_of_ss_tells_the_windows() {
        let line = "0      64480  10.77.0.2:5201  10.66.0.2:41234 cubic wscale:7,7 rto:204 rtt:3.2/0.1 mss:1448 \
                    cwnd:33 ssthresh:20 bytes_sent:100 bytes_acked:90 snd_wnd:65536";
        let socket = parse_socket(line).unwrap();
        assert_eq!((socket.local_port, socket.peer_port, socket.cwnd), (5201, 41234, 33));
        assert_eq!((socket.ssthresh, socket.bytes_acked, socket.send_window), (Some(20), 90, Some(65536)));
        assert!((socket.rtt_ms - 3.2).abs() < 1e-9 && (socket.rto_ms - 204.0).abs() < 1e-9);
        assert_eq!(parse_socket("garbage"), None);
    }
}
