//! What a perfect transport would deliver: `goodput_limit_bps`.
//!
//! Where air time counts per byte, the limit is the time integral of (capacity x MAC efficiency) while not
//! silent, times the share of it that is application payload:
//!
//! ```text
//! p  payload of a full segment = MSS - option bytes (12 with timestamps)
//! W  its length on the wire    = IP header + 20 + options + p
//! A  an ACK's length           = IP header + 20 + options
//! r  segments per ACK          = 2 with any delayed ACK, 1 without
//!
//! shared medium:  share = r p / (r W + A)      ACKs take air time from data
//! duplex, trace:  share = p / W
//!   both ways:    share = r p / (r W + A)      in each direction, where data flows in both
//! ```
//! Where stations wait for grants, W and A include the MAC's header. A packet that is cut in pieces has one
//! for each, of which the limit counts one.
//!
//! Where each frame is an exchange with costs of its own (`802.11a`), a packet of length L takes a mean time
//! t(L) on a channel. There the limit is a sum over channels: the time usable on the channel, times the rate
//! at which payload passes, which is the share above with t(W) for W and t(A) for A.
//!
//! With a DCF (`mac = "dcf"`) t(L) is what a single sender gets that always has a frame: DIFS, the mean first
//! backoff, and the exchange. Of several senders the backoffs pass at the same time, and some frames collide.
//! With 802.11a the losses outweigh; with 802.11b at 11 Mbit/s five senders can pass the limit by 2 %.
//!
//! With IEEE 802.15.4 radios contend, and no share can be exact. The limit is the smaller of two rates, over
//! the time usable:
//! - what the senders of data could pass if each were alone on the medium without loss: one MPDU a mean
//!   exchange (mean first backoff, CCA, turnaround, frame, acknowledgment, spacing or processing);
//! - what the medium could pass if every frame followed the last at once: the share above, where a packet
//!   costs CCA, turnaround, frame and acknowledgment.
//!
//! A datagram of UDP has 8 bytes of header in place of TCP's, and no ACK: share = p / W in every case. QUIC
//! adds the headers of its packet and of its stream's frame to UDP's, and acknowledges every second packet.
//!
//! Flows of different kinds count by the mean of their shares. A direction can never carry more than the wire
//! does: its limit is at most rate x time x p / W there. If all flows belong to one station, its own sensing
//! counts as silence too; with several stations the air is lost only while the whole network is silent, since
//! another station can be served meanwhile.
//!
//! Goodput counted from the end of a warm-up can exceed the limit a little, because data that stood in queues
//! at that moment had already used capacity of the warm-up.

use std::collections::BTreeSet;

use linkhold_core::packet::Direction;
use linkhold_core::time::Duration;
use linkhold_core::units::BitRate;
use linkhold_radio::{AirAccounting, AirTime, Ieee802154Config};
use linkhold_tcp::{DelayedAck, TcpConfig};

use crate::slab::{TCP_HEADER, UDP_HEADER};

/// What a QUIC packet with a short header has around its frames, bytes: flags, connection ID (quinn's has 8),
/// packet number (mostly 2) and authentication tag (RFC 9000 section 17.3.1, RFC 9001 section 5.3).
const QUIC_PACKET: u32 = 1 + 8 + 2 + 16;
/// What a frame has around a stream's data, bytes: type, stream and offset (RFC 9000 section 19.8). It ends
/// with the packet, so it needs no length.
const QUIC_STREAM: u32 = 1 + 1 + 4;
/// A frame that acknowledges one range of packets, bytes (RFC 9000 section 19.3).
const QUIC_ACK: u32 = 1 + 4 + 2 + 1 + 2;

/// How the two directions share the air.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Both directions draw on one medium.
    Shared,
    /// Each direction has a medium of its own.
    Separate,
}

/// How the air counts the time of a frame.
#[derive(Clone, Debug)]
pub enum FrameTimes {
    /// By its bytes.
    PerByte {
        /// What the MAC puts around each packet, bytes.
        header: u32,
    },
    /// By its exchange, with the times of each channel.
    ByChannel(Vec<AirTime>),
    /// By the exchange of radios that contend.
    Contended(Ieee802154Config),
}

/// Lengths of one flow's packets.
#[derive(Clone, Copy, Debug)]
struct Lengths {
    /// IP header, and TCP header without options.
    headers: u32,
    payload: f64,
    wire: f64,
    /// `None` if nothing is acknowledged.
    acks: Option<Acks>,
}

/// A flow's acknowledgments.
#[derive(Clone, Copy, Debug)]
struct Acks {
    len: f64,
    /// Data packets for each acknowledgment.
    per_ack: f64,
}

impl Lengths {
    /// Payload bytes per unit of the air's resource (bytes, or seconds of air time); `cost` tells how many
    /// units a packet of some length takes.
    fn share(&self, with_acks: bool, cost: impl Fn(f64) -> f64) -> f64 {
        match self.acks.filter(|_| with_acks) {
            Some(Acks { len, per_ack }) => per_ack * self.payload / (per_ack * cost(self.wire) + cost(len)),
            None => self.payload / cost(self.wire),
        }
    }
}

/// Computes the limit from what the air could have carried.
#[derive(Clone, Debug)]
pub struct GoodputLimit {
    sharing: Sharing,
    times: FrameTimes,
    wired: BitRate,
    /// By direction (downlink, uplink): the flows' lengths.
    flows: [Vec<Lengths>; 2],
    /// The one station with flows, if there is only one.
    station: Option<u32>,
    /// The stations that send data.
    uplink_senders: BTreeSet<u32>,
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    if count > 0.0 { sum / count } else { 0.0 }
}

impl GoodputLimit {
    /// A limit for no flow yet.
    #[must_use]
    pub fn new(sharing: Sharing, times: FrameTimes, wired: BitRate) -> Self {
        Self {
            sharing,
            times,
            wired,
            flows: [Vec::new(), Vec::new()],
            station: None,
            uplink_senders: BTreeSet::new(),
        }
    }

    /// Adds a kind of TCP flow.
    pub fn add(
        &mut self,
        direction: Direction,
        station: impl Into<Option<u32>>,
        ip_header: u32,
        tcp: &TcpConfig,
    ) {
        let options = if tcp.timestamps { 12.0 } else { 0.0 };
        let headers = ip_header + TCP_HEADER;
        let header = f64::from(headers);
        let payload = f64::from(tcp.mss) - options;
        let per_ack = match tcp.delayed_ack {
            DelayedAck::Off => 1.0,
            // Hardly any ACKs: at these rates many segments come in a tick.
            DelayedAck::HeartbeatOnly(_) => 1e6,
            DelayedAck::Timer(_) | DelayedAck::Heartbeat(_) | DelayedAck::Linux => 2.0,
        };
        let acks = Some(Acks { len: header + options, per_ack });
        let lengths = Lengths { headers, payload, wire: header + options + payload, acks };
        self.add_lengths(direction, station.into(), lengths);
    }

    /// Adds a kind of UDP flow, whose datagrams carry `datagram` bytes in the mean.
    pub fn add_udp(
        &mut self,
        direction: Direction,
        station: impl Into<Option<u32>>,
        ip_header: u32,
        datagram: f64,
    ) {
        let headers = ip_header + UDP_HEADER;
        let wire = f64::from(headers) + datagram;
        let lengths = Lengths { headers, payload: datagram, wire, acks: None };
        self.add_lengths(direction, station.into(), lengths);
    }

    /// Adds a kind of QUIC flow, whose full datagrams have `datagram` bytes.
    pub fn add_quic(
        &mut self,
        direction: Direction,
        station: impl Into<Option<u32>>,
        ip_header: u32,
        datagram: u32,
    ) {
        let headers = ip_header + UDP_HEADER;
        let payload = f64::from(datagram.saturating_sub(QUIC_PACKET + QUIC_STREAM));
        let acks = Some(Acks { len: f64::from(headers + QUIC_PACKET + QUIC_ACK), per_ack: 2.0 });
        let lengths = Lengths { headers, payload, wire: f64::from(headers + datagram), acks };
        self.add_lengths(direction, station.into(), lengths);
    }

    /// Of a flow whose ends the seed draws, no station's own silences count.
    fn add_lengths(&mut self, direction: Direction, station: Option<u32>, lengths: Lengths) {
        let first = self.flows.iter().all(Vec::is_empty);
        self.station = if first || self.station == station { station } else { None };
        if direction == Direction::Uplink {
            self.uplink_senders.extend(station);
        }
        self.flows[side(direction)].push(lengths);
    }

    /// Bits the air could have carried downlink and uplink.
    fn capacity(&self, air: &AirAccounting) -> [f64; 2] {
        let of = |all: u64, by_station: &[u64]| {
            let own = self.station.and_then(|station| by_station.get(station as usize));
            own.copied().unwrap_or(all) as f64
        };
        [
            of(air.capacity_bits, &air.station_capacity_bits),
            of(air.uplink_capacity_bits, &air.station_uplink_capacity_bits),
        ]
    }

    /// Payload bits of the `flows` that the air could have carried in direction `side`.
    fn carried<'a>(
        &self,
        air: &AirAccounting,
        side: usize,
        flows: impl Iterator<Item = &'a Lengths> + Clone,
        with_acks: bool,
    ) -> f64 {
        match &self.times {
            FrameTimes::PerByte { header } => {
                let header = f64::from(*header);
                let shares = flows.map(|flow| flow.share(with_acks, |bytes| bytes + header));
                self.capacity(air)[side] * mean(shares)
            }
            FrameTimes::ByChannel(times) => {
                let own = self.station.and_then(|station| air.station_usable.get(station as usize));
                let on_channel = |(usable, time): (&Duration, &AirTime)| {
                    let seconds = |bytes: f64| time.mean(bytes as u32).as_secs_f64();
                    let bytes_a_second = mean(flows.clone().map(|flow| flow.share(with_acks, seconds)));
                    usable.as_secs_f64() * bytes_a_second * 8.0
                };
                own.unwrap_or(&air.usable).iter().zip(times).map(on_channel).sum()
            }
            FrameTimes::Contended(mac) => {
                let usable: f64 = air.usable.iter().map(|time| time.as_secs_f64()).sum();
                let share = |flow: &Lengths, with_acks, time: &dyn Fn(u32) -> Duration| {
                    let mpdu = |bytes: f64| Ieee802154Config::mpdu_of(bytes as u32, flow.headers);
                    flow.share(with_acks, |bytes| time(mpdu(bytes)).as_secs_f64())
                };
                let medium =
                    mean(flows.clone().map(|flow| share(flow, true, &|mpdu| mac.least_occupancy(mpdu))));
                let alone = mean(flows.map(|flow| share(flow, false, &|mpdu| mac.mean_exchange(mpdu))));
                let senders = self.uplink_senders.len() + usize::from(!self.flows[0].is_empty());
                usable * 8.0 * medium.min(alone * senders as f64)
            }
        }
    }

    /// The limit over the time that `air` accounts for, bit/s; 0 without flows or time.
    #[must_use]
    pub fn bps(&self, air: &AirAccounting) -> f64 {
        let seconds = air.until.as_secs_f64();
        if seconds <= 0.0 {
            return 0.0;
        }
        let wired = |direction: usize| {
            let shares = self.flows[direction].iter().map(|flow| flow.share(false, |bytes| bytes));
            self.wired.as_bps() as f64 * seconds * mean(shares)
        };
        let bits = match self.sharing {
            Sharing::Shared => {
                let wire: f64 = (0..2).filter(|&d| !self.flows[d].is_empty()).map(wired).sum();
                self.carried(air, 0, self.flows.iter().flatten(), true).min(wire)
            }
            Sharing::Separate => {
                let both = self.flows.iter().all(|flows| !flows.is_empty());
                (0..2)
                    .filter(|&d| !self.flows[d].is_empty())
                    .map(|d| self.carried(air, d, self.flows[d].iter(), both).min(wired(d)))
                    .sum()
            }
        };
        bits / seconds
    }

    /// Mean capacity over the same time, silences counted as zero, bit/s: of the direction that the flows
    /// use, downlink if both.
    #[must_use]
    pub fn capacity_mean_bps(&self, air: &AirAccounting) -> f64 {
        let seconds = air.until.as_secs_f64();
        let bits = if self.flows[0].is_empty() && !self.flows[1].is_empty() {
            air.uplink_capacity_bits
        } else {
            air.capacity_bits
        };
        if seconds > 0.0 { bits as f64 / seconds } else { 0.0 }
    }
}

const fn side(direction: Direction) -> usize {
    match direction {
        Direction::Downlink => 0,
        Direction::Uplink => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkhold_core::time::Instant;
    use linkhold_core::units::Fraction;
    use linkhold_radio::AirTimeModel;
    use linkhold_tcp::Congestion;

    fn ten_seconds_of(bits: u64) -> AirAccounting {
        AirAccounting {
            until: Instant::from_millis(10_000),
            capacity_bits: bits,
            uplink_capacity_bits: bits,
            station_capacity_bits: vec![bits / 2, bits],
            station_uplink_capacity_bits: vec![bits / 2, bits],
            ..AirAccounting::default()
        }
    }

    #[test]
    fn acks_take_air_time_on_the_shared_medium_only() {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let air = ten_seconds_of(240_000_000);
        for (sharing, want) in [
            (Sharing::Shared, 24e6 * 2.0 * 1448.0 / (2.0 * 1500.0 + 52.0)),
            (Sharing::Separate, 24e6 * 1448.0 / 1500.0),
        ] {
            let mut limit =
                GoodputLimit::new(sharing, FrameTimes::PerByte { header: 0 }, BitRate::from_mbps(100));
            limit.add(Direction::Downlink, 1, 20, &tcp);
            assert!((limit.bps(&air) - want).abs() < 1.0, "{sharing:?}: {}", limit.bps(&air));
        }
    }

    #[test]
    fn udp_pays_for_its_own_header_and_for_no_ack() {
        let air = ten_seconds_of(240_000_000);
        for sharing in [Sharing::Shared, Sharing::Separate] {
            for (ip_header, payload) in [(20, 1472.0), (40, 1452.0), (20, 100.0)] {
                let mut limit =
                    GoodputLimit::new(sharing, FrameTimes::PerByte { header: 0 }, BitRate::from_mbps(100));
                limit.add_udp(Direction::Downlink, 1, ip_header, payload);
                let headers = f64::from(ip_header) + 8.0;
                let want = 24e6 * payload / (payload + headers);
                assert!((limit.bps(&air) - want).abs() < 1.0, "{sharing:?}: {}", limit.bps(&air));
            }
        }
    }

    #[test]
    fn what_the_mac_puts_around_a_packet_takes_its_part_of_the_air_and_none_of_the_wire() {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let times = FrameTimes::PerByte { header: 500 };
        for (wire_mbps, want) in [(100, 24e6 * 1448.0 / 2000.0), (10, 10e6 * 1448.0 / 1500.0)] {
            let wire = BitRate::from_mbps(wire_mbps);
            let mut limit = GoodputLimit::new(Sharing::Separate, times.clone(), wire);
            limit.add(Direction::Downlink, 1, 20, &tcp);
            assert!((limit.bps(&ten_seconds_of(240_000_000)) - want).abs() < 1.0, "{wire_mbps} Mbit/s");
        }
    }

    #[test]
    fn quic_pays_for_its_packets_headers_and_an_ack_for_two_packets() {
        let air = ten_seconds_of(240_000_000);
        for (sharing, want) in [
            (Sharing::Shared, 24e6 * 2.0 * 1439.0 / (2.0 * 1500.0 + 65.0)),
            (Sharing::Separate, 24e6 * 1439.0 / 1500.0),
        ] {
            let mut limit =
                GoodputLimit::new(sharing, FrameTimes::PerByte { header: 0 }, BitRate::from_mbps(100));
            limit.add_quic(Direction::Downlink, 1, 20, 1472);
            assert!((limit.bps(&air) - want).abs() < 1.0, "{sharing:?}: {}", limit.bps(&air));
        }
    }

    #[test]
    fn the_wire_bounds_it_and_one_stations_own_sensing_counts() {
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let air = ten_seconds_of(240_000_000);
        let mut limit =
            GoodputLimit::new(Sharing::Separate, FrameTimes::PerByte { header: 0 }, BitRate::from_mbps(10));
        limit.add(Direction::Downlink, 0, 20, &tcp);
        assert!((limit.bps(&air) - 10e6 * 1448.0 / 1500.0).abs() < 1.0);
        let mut limit =
            GoodputLimit::new(Sharing::Separate, FrameTimes::PerByte { header: 0 }, BitRate::from_mbps(100));
        limit.add(Direction::Downlink, 0, 20, &tcp);
        assert!((limit.bps(&air) - 12e6 * 1448.0 / 1500.0).abs() < 1.0);
        limit.add(Direction::Downlink, 1, 20, &tcp);
        assert!((limit.bps(&air) - 24e6 * 1448.0 / 1500.0).abs() < 1.0);
        // Ends that the seed draws are nobody's, and so not station 0's.
        let mut limit =
            GoodputLimit::new(Sharing::Separate, FrameTimes::PerByte { header: 0 }, BitRate::from_mbps(100));
        limit.add(Direction::Downlink, None, 20, &tcp);
        assert!((limit.bps(&air) - 24e6 * 1448.0 / 1500.0).abs() < 1.0);
    }

    #[test]
    fn exchanges_count_by_their_time_on_each_channel() {
        let time = |mbps| {
            AirTime::new(AirTimeModel::Ieee80211a, BitRate::from_mbps(mbps), Fraction::ONE)
                .expect("a rate of 802.11a")
        };
        let seconds = Duration::from_secs;
        let air = AirAccounting {
            until: Instant::from_millis(10_000),
            usable: vec![seconds(4), seconds(5)],
            station_usable: vec![vec![seconds(2), seconds(5)], vec![seconds(4), seconds(5)]],
            ..AirAccounting::default()
        };
        let tcp = TcpConfig::linux(Congestion::Cubic);
        let limit = |sharing, stations: &[u32]| {
            let times = FrameTimes::ByChannel(vec![time(24), time(12)]);
            let mut limit = GoodputLimit::new(sharing, times, BitRate::from_mbps(100));
            for station in stations {
                limit.add(Direction::Downlink, *station, 20, &tcp);
            }
            limit.bps(&air)
        };
        // Microseconds at 24 and 12 Mbit/s: 681.5 and 1197.5 for 1500 bytes, 197.5 and 233.5 for a 52-byte
        // ACK.
        let shared = |a: f64, b: f64| {
            2.0 * 1448.0 * 8.0 * (a / (2.0 * 681.5 + 197.5) + b / (2.0 * 1197.5 + 233.5)) * 1e6 / 10.0
        };
        let separate = 1448.0 * 8.0 * (4.0 / 681.5 + 5.0 / 1197.5) * 1e6 / 10.0;
        for (sharing, stations, want) in [
            (Sharing::Shared, [0, 1], shared(4.0, 5.0)),
            (Sharing::Shared, [0, 0], shared(2.0, 5.0)),
            (Sharing::Separate, [0, 1], separate),
        ] {
            let got = limit(sharing, &stations);
            assert!((got / want - 1.0).abs() < 1e-9, "{sharing:?}, {stations:?}: {got}, not {want}");
        }
    }

    #[test]
    fn radios_that_contend_are_bound_by_their_backoffs_or_by_the_medium() {
        let mac =
            Ieee802154Config { mpdu: 128, processing_time: Duration::ZERO, ..Ieee802154Config::default() };
        let mut tcp = TcpConfig::classic(linkhold_tcp::Recovery::NewReno, Congestion::Reno);
        tcp.mss = 95;
        tcp.delayed_ack = DelayedAck::Off;
        let air = AirAccounting {
            until: Instant::from_millis(10_000),
            usable: vec![Duration::from_secs(5)],
            ..AirAccounting::default()
        };
        let limit = |stations: u32| {
            let mut limit =
                GoodputLimit::new(Sharing::Shared, FrameTimes::Contended(mac), BitRate::from_mbps(100));
            for station in 0..stations {
                limit.add(Direction::Uplink, station, 20, &tcp);
            }
            limit.bps(&air)
        };
        // 95 bytes in 6912 us, half of the time; with more senders in 5152 us, and a TCP ACK's 33 octets in
        // 320 + 1248 + 544 us.
        let alone = 95.0_f64 * 8.0 / 6912e-6 / 2.0;
        let medium = 95.0 * 8.0 / (5152e-6 + 2112e-6) / 2.0;
        assert!((limit(1) / alone.min(medium) - 1.0).abs() < 1e-9, "{}", limit(1));
        assert!((limit(2) / medium - 1.0).abs() < 1e-9, "{}", limit(2));
    }

    #[test]
    fn without_flows_or_time_there_is_nothing_to_deliver() {
        let mut limit =
            GoodputLimit::new(Sharing::Shared, FrameTimes::PerByte { header: 0 }, BitRate::from_mbps(100));
        assert_eq!(limit.bps(&ten_seconds_of(1)), 0.0);
        limit.add(Direction::Uplink, 0, 40, &TcpConfig::linux(Congestion::Reno));
        assert_eq!(limit.bps(&AirAccounting::default()), 0.0);
    }
}
