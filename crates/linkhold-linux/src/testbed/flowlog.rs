//! What the engine learns of each TCP flow from the packets it carries: goodput, delay, retransmission, resumption.
//!
//! Measured at the same places as in the simulator, so the numbers mean the same: sent is when the packet leaves the
//! sending host, received when it reaches the receiving one, delivered what the receiving kernel has acknowledged
//! (in order, so what its application can read). Delay counts from a segment's latest transmission.

use std::collections::HashMap;

use linkhold_core::packet::{Direction, FlowKey, TcpFlags};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;
use linkhold_results::DelayHistogram;
use linkhold_wire::ParsedPacket;

use super::topology::station_of;

/// Most flows logged; more are carried but not measured.
const MAX_FLOWS: usize = 4096;
/// Most segments whose sending time is remembered at once, over all flows.
const MAX_IN_FLIGHT: usize = 1 << 18;

/// One direction of data of one flow.
#[derive(Clone, Debug)]
pub struct Track {
    /// When its first payload byte left the sender.
    pub first_data_at: Option<Instant>,
    /// When the receiver last acknowledged something new.
    pub last_delivered_at: Instant,
    /// Payload bytes the receiver has acknowledged.
    pub delivered: u64,
    /// What `delivered` was at the end of the warm-up.
    pub delivered_at_warm_up: u64,
    /// Segments and payload bytes sent again.
    pub retransmits: u64,
    /// Payload bytes sent again.
    pub retransmit_bytes: u64,
    /// One-way delays.
    pub delays: DelayHistogram,
    /// One-way delays of segments that met no silence.
    pub delays_outside_silence: DelayHistogram,
    /// Times from a silence's end to the first new data.
    pub resumes: DelayHistogram,
    /// `delivered` at the end of each series interval.
    pub series: Vec<u64>,
    /// Zero windows the sender's host received.
    pub zero_windows: u64,
    next_to_send: Option<Seq>,
    highest_received: Option<Seq>,
    acked: Option<Seq>,
    silence_ended_at: Option<Instant>,
}

impl Track {
    fn new() -> Self {
        Self {
            first_data_at: None,
            last_delivered_at: Instant::ZERO,
            delivered: 0,
            delivered_at_warm_up: 0,
            retransmits: 0,
            retransmit_bytes: 0,
            delays: DelayHistogram::new(),
            delays_outside_silence: DelayHistogram::new(),
            resumes: DelayHistogram::new(),
            series: Vec::new(),
            zero_windows: 0,
            next_to_send: None,
            highest_received: None,
            acked: None,
            silence_ended_at: None,
        }
    }
}

/// One connection.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Its ends.
    pub key: FlowKey,
    /// Its station.
    pub station: u32,
    /// When its first packet was seen.
    pub start: Instant,
    /// Data to the station, data from the station.
    tracks: [Track; 2],
}

impl Flow {
    /// The data that flows in `direction`.
    #[must_use]
    pub fn track(&self, direction: Direction) -> &Track {
        &self.tracks[index(direction)]
    }

    /// The direction that carried more data.
    #[must_use]
    pub fn data_direction(&self) -> Direction {
        if self.tracks[0].delivered >= self.tracks[1].delivered {
            Direction::Downlink
        } else {
            Direction::Uplink
        }
    }
}

const fn index(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => 0,
        Direction::Uplink => 1,
    }
}

/// All flows of one run.
pub struct FlowLog {
    flows: Vec<Flow>,
    by_key: HashMap<FlowKey, usize>,
    /// When the segment of (flow, direction, sequence number after it) was last sent.
    sent: HashMap<(usize, usize, u32), Instant>,
    /// End of each station's last silence.
    last_silence_end: Vec<Instant>,
    warm_up: Instant,
    interval: Duration,
    next_sample: Instant,
    samples: usize,
}

impl FlowLog {
    /// An empty log for `stations` stations; goodput counts from `warm_up`, series have a point an `interval`.
    #[must_use]
    pub fn new(stations: u32, warm_up: Instant, interval: Duration) -> Self {
        Self {
            flows: Vec::new(),
            by_key: HashMap::new(),
            sent: HashMap::new(),
            last_silence_end: vec![Instant::ZERO; stations as usize],
            warm_up,
            interval,
            next_sample: Instant::ZERO + interval,
            samples: 0,
        }
    }

    /// The flows, in the order of their first packet.
    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    fn flow(&mut self, now: Instant, packet: &ParsedPacket, direction: Direction) -> Option<usize> {
        let key = packet.flow(direction);
        if let Some(&found) = self.by_key.get(&key) {
            return Some(found);
        }
        if self.flows.len() >= MAX_FLOWS {
            return None;
        }
        let station = station_of(key.station.addr)?;
        let number = self.flows.len();
        self.flows.push(Flow { key, station, start: now, tracks: [Track::new(), Track::new()] });
        self.by_key.insert(key, number);
        Some(number)
    }

    /// A packet left its sending host.
    pub fn on_sent(&mut self, now: Instant, packet: &ParsedPacket, direction: Direction) {
        self.sample(now);
        let Some(number) = self.flow(now, packet, direction) else { return };
        let Some(flow) = self.flows.get_mut(number) else { return };
        // The acknowledgment of this packet is for data that flows the other way.
        let reverse = &mut flow.tracks[index(direction.opposite())];
        if packet.tcp.flags.contains(TcpFlags::ACK) && !packet.tcp.flags.contains(TcpFlags::SYN) {
            match reverse.acked {
                None => reverse.acked = Some(packet.tcp.ack),
                Some(before) if packet.tcp.ack.after(before) => {
                    reverse.delivered += u64::from(packet.tcp.ack.minus(before).unsigned_abs());
                    reverse.last_delivered_at = now;
                    reverse.acked = Some(packet.tcp.ack);
                    if now <= self.warm_up {
                        reverse.delivered_at_warm_up = reverse.delivered;
                    }
                }
                Some(_) => {}
            }
        }
        if packet.tcp.payload_len == 0 {
            return;
        }
        let track = &mut flow.tracks[index(direction)];
        let end = packet.tcp.seq_end();
        track.first_data_at.get_or_insert(now);
        match track.next_to_send {
            Some(next) if !end.after(next) => {
                track.retransmits += 1;
                track.retransmit_bytes += u64::from(packet.tcp.payload_len);
            }
            _ => track.next_to_send = Some(end),
        }
        if self.sent.len() < MAX_IN_FLIGHT {
            self.sent.insert((number, index(direction), end.0), now);
        }
    }

    /// A packet reached its receiving host.
    pub fn on_received(&mut self, now: Instant, packet: &ParsedPacket, direction: Direction) {
        let Some(number) = self.flow(now, packet, direction) else { return };
        let Some(flow) = self.flows.get_mut(number) else { return };
        if packet.tcp.window == 0 && !packet.tcp.flags.contains(TcpFlags::RST) {
            flow.tracks[index(direction.opposite())].zero_windows += 1;
        }
        if packet.tcp.payload_len == 0 {
            return;
        }
        let track = &mut flow.tracks[index(direction)];
        let end = packet.tcp.seq_end();
        if let Some(sent_at) = self.sent.remove(&(number, index(direction), end.0)) {
            let delay = now.since(sent_at);
            track.delays.record(delay);
            let silence_end = self.last_silence_end.get(flow.station as usize).copied().unwrap_or_default();
            if silence_end <= sent_at {
                track.delays_outside_silence.record(delay);
            }
        }
        if track.highest_received.is_none_or(|highest| end.after(highest)) {
            track.highest_received = Some(end);
            if let Some(ended) = track.silence_ended_at.take() {
                track.resumes.record(now.since(ended));
            }
        }
    }

    /// The silence of `station` has ended.
    pub fn on_silence_end(&mut self, now: Instant, station: u32) {
        if let Some(end) = self.last_silence_end.get_mut(station as usize) {
            *end = now;
        }
        for flow in self.flows.iter_mut().filter(|flow| flow.station == station) {
            for track in &mut flow.tracks {
                // Only a flow that was sending: one that is done has nothing to resume.
                if track.next_to_send != track.acked {
                    track.silence_ended_at = Some(now);
                }
            }
        }
    }

    /// Closes the series intervals that are over. To be called at the end of the run too.
    pub fn sample(&mut self, now: Instant) {
        while self.next_sample <= now {
            for flow in &mut self.flows {
                for track in &mut flow.tracks {
                    track.series.resize(self.samples, 0);
                    track.series.push(track.delivered);
                }
            }
            self.samples += 1;
            self.next_sample += self.interval;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkhold_core::packet::{Ecn, Endpoint, TcpSegment};

    fn packet(direction: Direction, seq: u32, ack: u32, payload_len: u32) -> ParsedPacket {
        let ch = Endpoint { addr: "10.77.0.2".parse().unwrap(), port: 5201 };
        let sh = Endpoint { addr: "10.66.0.2".parse().unwrap(), port: 40000 };
        let (src, dst) = if direction == Direction::Downlink { (ch, sh) } else { (sh, ch) };
        ParsedPacket {
            src,
            dst,
            tcp: TcpSegment {
                seq: Seq(seq),
                ack: Seq(ack),
                payload_len,
                window: 500,
                flags: TcpFlags::ACK,
                ..TcpSegment::default()
            },
            ip_len: 52 + payload_len,
            tcp_offset: 20,
            tcp_header_len: 32,
            ecn: Ecn::NotEct,
        }
    }

    #[test]
    fn goodput_is_what_the_receiver_acknowledged_and_a_second_copy_is_a_retransmission() {
        let ms = Instant::from_millis;
        let mut log = FlowLog::new(1, Instant::ZERO, Duration::from_millis(10));
        let (down, up) = (Direction::Downlink, Direction::Uplink);
        log.on_sent(ms(0), &packet(up, 1, 1000, 0), up);
        log.on_sent(ms(1), &packet(down, 1000, 1, 1400), down);
        log.on_received(ms(6), &packet(down, 1000, 1, 1400), down);
        log.on_sent(ms(7), &packet(up, 1, 2400, 0), up);
        log.on_sent(ms(9), &packet(down, 1000, 1, 1400), down);
        log.sample(ms(30));
        let track = log.flows()[0].track(down);
        assert_eq!((track.delivered, track.retransmits, track.retransmit_bytes), (1400, 1, 1400));
        assert_eq!(track.series, [1400, 1400, 1400]);
        assert!((track.delays.mean_s() - 0.005).abs() < 1e-9);
        assert_eq!(log.flows()[0].data_direction(), down);
    }

    #[test]
    fn resumption_counts_from_the_silences_end_to_the_first_new_data() {
        let ms = Instant::from_millis;
        let mut log = FlowLog::new(1, Instant::ZERO, Duration::from_secs(1));
        let down = Direction::Downlink;
        log.on_sent(ms(1), &packet(down, 1000, 1, 1400), down);
        log.on_received(ms(2), &packet(down, 1000, 1, 1400), down);
        log.on_sent(ms(3), &packet(down, 2400, 1, 1400), down);
        log.on_silence_end(ms(100), 0);
        log.on_received(ms(101), &packet(down, 1000, 1, 1400), down);
        assert_eq!(log.flows()[0].track(down).resumes.count(), 0, "an old segment is not new data");
        log.on_received(ms(103), &packet(down, 2400, 1, 1400), down);
        let track = log.flows()[0].track(down);
        assert!((track.resumes.mean_s() - 0.003).abs() < 1e-9);
        // It was sent before the silence ended, so its delay holds the silence.
        assert_eq!(track.delays_outside_silence.count(), 1);
    }
}
