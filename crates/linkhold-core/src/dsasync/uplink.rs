//! Uplink shaping: spreads the packets that stations send between silences over the silences too.
//!
//! Paper: `dsasync` section IV-B b, equation (2), Algorithm 3 (a queue a station) and Algorithm 4 (one
//! queue).
//!
//! Sees every uplink packet (data and ACKs alike) and α; emits releases at D_eff = max(α, α_min) · D, so that
//! a queue builds up while the radio works and drains while it is silent. Never reorders packets of one
//! station.
//!
//! One queue: `empty → holding → empty`; a packet that meets an empty queue and is due goes straight on.
//!
//! # Deviations from the paper
//! - D must be the rate *between* silences. The paper measures it as the average over a window that contains
//!   silences, so that it has α in it already; shaping that average by β again makes departures slower than
//!   arrivals, and the queue grows for ever. Here D is the window's average divided by α, or the rate of the
//!   last instants where that is higher (a connection in slow start is many times faster than its own past).
//! - With that D, departures are exactly as fast as arrivals. A queue once built up by chance would stand for
//!   ever and, in TCP's closed loop, confirm its own rate. `headroom` (default 1.1) drains it; the paper's
//!   form is 1.
//! - As printed, D = 0 never lets the first packet go (size/elapsed < 0), and after an idle period the old D
//!   holds a fresh burst back. Here the first packet goes at once, and a window without a packet starts anew.
//! - No packet is held longer than `max_delay`, so a wrong D or α can delay but never starve.
//! - With α = 1 there is no silence to spread over, and everything goes at once. As printed, bursts are still
//!   smoothed to their average rate, which costs delay and hides nothing.
//! - The clock T_src advances to the planned departure, not to the time of the late timer that carried it
//!   out; otherwise every late timer would slow the shaper down for good.
//! - Instead of Algorithm 3's scan for a packet whose station may send, each station has a queue. The order
//!   is the same.
//! - A packet that finds its own queue empty and the buffer full of other stations' packets goes on unshaped.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::packet::{PacketId, StationId};
use crate::time::{Duration, Instant};
use crate::units::{Bytes, Fraction};

/// Which shaper runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UplinkMode {
    /// No shaping.
    Off,
    /// Algorithm 3: every station by its own α_i and D_i.
    PerStation,
    /// Algorithm 4: one queue by α_dsan and D_dsan.
    #[default]
    Pooled,
}

/// Settings of an [`UplinkShaper`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct UplinkConfig {
    /// Which algorithm.
    pub mode: UplinkMode,
    /// α_min: shaping never slows a station to less than this share of its rate.
    pub alpha_min: Fraction,
    /// ΔT over which D is measured; should equal the link monitor's window.
    pub window: Duration,
    /// Most bytes held.
    pub limit: Bytes,
    /// Longest that a packet is held.
    pub max_delay: Duration,
    /// Most stations with a queue of their own; packets of one numbered higher are not shaped.
    pub max_stations: u32,
    /// How much faster than D_eff the queue drains, at least 1.
    pub headroom: f64,
}

impl Default for UplinkConfig {
    fn default() -> Self {
        Self {
            mode: UplinkMode::Pooled,
            alpha_min: Fraction::clamped(0.5),
            window: Duration::from_secs(10),
            limit: Bytes(4_000_000),
            max_delay: Duration::from_millis(250),
            max_stations: crate::link_monitor::MAX_STATIONS,
            headroom: 1.1,
        }
    }
}

/// What becomes of an uplink packet.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UplinkVerdict {
    /// On its way now.
    Forward,
    /// Held until released.
    Hold,
    /// Does not fit; nothing changed. Call [`UplinkShaper::make_room`] and hand it in again (loses nothing),
    /// or drop it. Never forward it: packets of its flow are held.
    Full,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    id: PacketId,
    len: u32,
    arrived: Instant,
}

const SLICES: usize = 32;
/// An arrival rate is taken over at least the window divided by this: two packets a microsecond apart are not
/// 12 Gb/s.
const LEAST_PART: u64 = 100;

/// Bytes that arrived in a moving window, in slices of 1/32 of it.
#[derive(Debug)]
struct Arrivals {
    slices: [u64; SLICES],
    slice_nanos: u64,
    /// Number of the newest slice, counted from the epoch.
    newest: u64,
    sum: u64,
    /// First arrival since the window was last empty.
    since: Instant,
}

impl Arrivals {
    fn new(window: Duration) -> Self {
        let slice_nanos = (window.as_nanos() / SLICES as u64).max(1);
        Self { slices: [0; SLICES], slice_nanos, newest: 0, sum: 0, since: Instant::ZERO }
    }

    fn advance(&mut self, now: Instant) {
        let number = now.as_nanos() / self.slice_nanos;
        let steps = number.saturating_sub(self.newest).min(SLICES as u64);
        for step in 0..steps {
            let slot = ((number - step) % SLICES as u64) as usize;
            self.sum -= self.slices[slot];
            self.slices[slot] = 0;
        }
        self.newest = self.newest.max(number);
    }

    fn add(&mut self, now: Instant, len: u32) {
        self.advance(now);
        if self.sum == 0 {
            self.since = now;
        }
        let slot = (self.newest % SLICES as u64) as usize;
        self.slices[slot] += u64::from(len);
        self.sum += u64::from(len);
    }

    /// D in bytes per nanosecond: the rate between silences.
    fn rate(&mut self, now: Instant, alpha: f64) -> f64 {
        self.advance(now);
        let least = Duration::from_nanos(self.slice_nanos * SLICES as u64 / LEAST_PART);
        let over = |first_slice: u64, bytes: u64| {
            let start = self.since.max(Instant::from_nanos(first_slice.saturating_mul(self.slice_nanos)));
            bytes as f64 / now.since(start).max(least).as_nanos().max(1) as f64
        };
        let average = over((self.newest + 1).saturating_sub(SLICES as u64), self.sum);
        let slice = |number: u64| self.slices[(number % SLICES as u64) as usize];
        let last = self.newest.saturating_sub(1);
        let recent_bytes = slice(self.newest) + if last < self.newest { slice(last) } else { 0 };
        (average / alpha).max(over(last, recent_bytes))
    }
}

/// One queue with its clock: a station's (Algorithm 3) or everybody's (Algorithm 4).
#[derive(Debug)]
struct Queue {
    held: VecDeque<Waiting>,
    arrivals: Arrivals,
    /// T: the last planned departure; none before the first packet.
    last_departure: Option<Instant>,
    /// When the first held packet is due; meaningful while `held` is not empty.
    due: Instant,
}

impl Queue {
    fn new(window: Duration) -> Self {
        Self {
            held: VecDeque::new(),
            arrivals: Arrivals::new(window),
            last_departure: None,
            due: Instant::ZERO,
        }
    }

    /// When a packet may leave that is first in the queue at `now`.
    fn departure(
        &mut self,
        config: &UplinkConfig,
        now: Instant,
        packet: Waiting,
        alpha: Fraction,
    ) -> Instant {
        let Some(last) = self.last_departure else { return now };
        // With a smaller share of time to send, nothing can be told about the rate between silences.
        const LEAST_ALPHA: f64 = 0.01;
        let alpha = alpha.get().max(LEAST_ALPHA);
        if alpha >= 1.0 {
            return last;
        }
        let beta = alpha.max(config.alpha_min.get());
        let effective = beta * self.arrivals.rate(now, alpha) * config.headroom.max(1.0);
        // Rate zero gives an infinite wait, which saturates and is then cut by `max_delay`.
        let wait = Duration::from_nanos((f64::from(packet.len) / effective).round() as u64);
        (last + wait).min(packet.arrived + config.max_delay)
    }

    fn plan(&mut self, config: &UplinkConfig, now: Instant, alpha: Fraction) {
        if let Some(first) = self.held.front().copied() {
            self.due = self.departure(config, now, first, alpha);
        }
    }
}

/// Holds uplink packets and releases them at the shaped rate.
#[derive(Debug)]
pub struct UplinkShaper {
    config: UplinkConfig,
    /// By station number; a single one when pooled.
    queues: Vec<Queue>,
    /// Queues that hold packets, in the order in which they began to.
    holding: Vec<u32>,
    next_timeout: Option<Instant>,
    bytes: Bytes,
    packets: u64,
}

impl UplinkShaper {
    /// An empty shaper.
    #[must_use]
    pub fn new(config: &UplinkConfig) -> Self {
        Self {
            config: *config,
            queues: Vec::new(),
            holding: Vec::new(),
            next_timeout: None,
            bytes: Bytes::ZERO,
            packets: 0,
        }
    }

    fn queue_index(&self, station: StationId) -> Option<usize> {
        match self.config.mode {
            UplinkMode::Off => None,
            UplinkMode::PerStation => (station.0 < self.config.max_stations).then_some(station.0 as usize),
            UplinkMode::Pooled => Some(0),
        }
    }

    /// A packet of `len` bytes came from the station. `alpha` is α_i (`PerStation`) or α_dsan (`Pooled`).
    pub fn on_packet(
        &mut self,
        now: Instant,
        station: StationId,
        id: PacketId,
        len: u32,
        alpha: Fraction,
    ) -> UplinkVerdict {
        let Some(index) = self.queue_index(station) else { return UplinkVerdict::Forward };
        if index >= self.queues.len() {
            let window = self.config.window;
            self.queues.resize_with(index + 1, || Queue::new(window));
        }
        let fits = self.bytes + Bytes(u64::from(len)) <= self.config.limit;
        let queue = &mut self.queues[index];
        let waiting = !queue.held.is_empty();
        if waiting && !fits {
            return UplinkVerdict::Full;
        }
        queue.arrivals.add(now, len);
        let packet = Waiting { id, len, arrived: now };
        if !waiting {
            let due = queue.departure(&self.config, now, packet, alpha);
            if due <= now || !fits {
                queue.last_departure = Some(now);
                return UplinkVerdict::Forward;
            }
            self.holding.push(index as u32);
        }
        queue.held.push_back(packet);
        self.bytes += Bytes(u64::from(len));
        self.packets += 1;
        // The arrival changed D, so the first packet may be due at another time than planned.
        queue.plan(&self.config, now, alpha);
        let due = queue.due;
        if self.holding.len() == 1 {
            self.next_timeout = Some(due);
        } else {
            self.find_next_timeout();
        }
        UplinkVerdict::Hold
    }

    /// Takes the first packet out of a queue.
    fn pop(&mut self, index: u32) -> Option<Waiting> {
        let queue = &mut self.queues[index as usize];
        let packet = queue.held.pop_front()?;
        if queue.held.is_empty() {
            self.holding.retain(|holding| *holding != index);
        }
        self.bytes -= Bytes(u64::from(packet.len));
        self.packets -= 1;
        Some(packet)
    }

    /// Releases the longest held packets until `len` more bytes fit, or none is held.
    pub fn make_room(&mut self, now: Instant, len: u32, mut release: impl FnMut(PacketId)) {
        while self.bytes + Bytes(u64::from(len)) > self.config.limit {
            let oldest = self.holding.iter().copied().min_by_key(|index| {
                self.queues[*index as usize].held.front().map(|packet| (packet.arrived, packet.id))
            });
            let Some(index) = oldest else { break };
            let Some(packet) = self.pop(index) else { break };
            // The queue has another first packet now. The old plan stays until the next arrival or timer: it
            // is earlier than the new packet's own would be, so never later than that packet's `max_delay`.
            self.queues[index as usize].last_departure = Some(now);
            release(packet.id);
        }
        self.find_next_timeout();
    }

    /// When `on_timeout` wants to be called.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    fn find_next_timeout(&mut self) {
        self.next_timeout = self.holding.iter().map(|index| self.queues[*index as usize].due).min();
    }

    /// Releases what is due, in the order of departure. `alpha` answers as in `on_packet` (when pooled it is
    /// asked for station 0 and answers α_dsan).
    pub fn on_timeout(
        &mut self,
        now: Instant,
        alpha: impl Fn(StationId) -> Fraction,
        mut release: impl FnMut(PacketId),
    ) {
        while let Some(due) = self.next_timeout.filter(|due| *due <= now) {
            let found = self.holding.iter().copied().find(|index| self.queues[*index as usize].due == due);
            let Some(index) = found else { break };
            let Some(packet) = self.pop(index) else { break };
            let queue = &mut self.queues[index as usize];
            queue.last_departure = queue.last_departure.max(Some(due));
            queue.plan(&self.config, now, alpha(StationId(index)));
            release(packet.id);
            self.find_next_timeout();
        }
    }

    /// Releases everything, the longest held first.
    pub fn flush(&mut self, mut release: impl FnMut(PacketId)) {
        while let Some(index) = self.holding.iter().copied().min_by_key(|index| {
            self.queues[*index as usize].held.front().map(|packet| (packet.arrived, packet.id))
        }) {
            let Some(packet) = self.pop(index) else { break };
            release(packet.id);
        }
        self.next_timeout = None;
    }

    /// True while packets are held that a packet of this station must queue behind.
    #[must_use]
    pub fn has(&self, station: StationId) -> bool {
        self.packets > 0
            && self
                .queue_index(station)
                .and_then(|index| self.queues.get(index))
                .is_some_and(|queue| !queue.held.is_empty())
    }

    /// Bytes held.
    #[must_use]
    pub fn held_bytes(&self) -> Bytes {
        self.bytes
    }

    /// Packets held.
    #[must_use]
    pub fn held_packets(&self) -> u64 {
        self.packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: StationId = StationId(0);
    const B: StationId = StationId(1);

    fn us(t: u64) -> Instant {
        Instant::from_nanos(t * 1_000)
    }

    fn shaper(mode: UplinkMode) -> UplinkShaper {
        UplinkShaper::new(&UplinkConfig { mode, ..UplinkConfig::default() })
    }

    fn alpha(value: f64) -> Fraction {
        Fraction::clamped(value)
    }

    /// Sends `arrivals` (time, station, length), runs every timer when it is due, and returns departures
    /// (time, arrival index) and the most bytes held.
    fn run(
        shaper: &mut UplinkShaper,
        arrivals: &[(Instant, StationId, u32)],
        share: Fraction,
    ) -> (Vec<(Instant, usize)>, Bytes) {
        let mut departures = Vec::new();
        let mut most = Bytes::ZERO;
        for (index, &(at, station, len)) in arrivals.iter().enumerate() {
            while let Some(due) = shaper.next_timeout().filter(|due| *due <= at) {
                shaper.on_timeout(due, |_| share, |id| departures.push((due, id.0 as usize)));
            }
            let id = PacketId(index as u64);
            let mut verdict = shaper.on_packet(at, station, id, len, share);
            if verdict == UplinkVerdict::Full {
                shaper.make_room(at, len, |id| departures.push((at, id.0 as usize)));
                verdict = shaper.on_packet(at, station, id, len, share);
            }
            match verdict {
                UplinkVerdict::Forward => departures.push((at, index)),
                UplinkVerdict::Hold => {}
                UplinkVerdict::Full => panic!("no room after making room"),
            }
            most = most.max(shaper.held_bytes());
        }
        while let Some(due) = shaper.next_timeout() {
            shaper.on_timeout(due, |_| share, |id| departures.push((due, id.0 as usize)));
        }
        (departures, most)
    }

    /// One packet a millisecond for 750 ms of each second, nothing for the other 250.
    fn on_off(seconds: u64) -> Vec<(Instant, StationId, u32)> {
        (0..seconds * 1_000).filter(|ms| ms % 1_000 < 750).map(|ms| (us(ms * 1_000), A, 1_000)).collect()
    }

    #[test]
    fn packets_are_spread_over_the_silences() {
        for mode in [UplinkMode::PerStation, UplinkMode::Pooled] {
            let arrivals = on_off(20);
            let (departures, most) = run(&mut shaper(mode), &arrivals, alpha(0.75));
            let silent = |at: Instant| at.as_nanos() / 1_000_000 % 1_000 >= 755;
            let in_silence = departures.iter().filter(|(at, _)| silent(*at)).count();
            // A fifth of all packets would be a perfect spread (245 ms of each second); the headroom takes
            // some.
            assert!(in_silence * 100 > arrivals.len() * 12, "{mode:?}: {in_silence} of {}", arrivals.len());
            let late = departures.iter().filter(|(at, _)| at.as_secs_f64() > 5.0);
            let longest = late.clone().zip(late.skip(1)).map(|(a, b)| b.0.since(a.0)).max();
            assert!(longest < Some(Duration::from_millis(125)), "{mode:?}: gap of {longest:?}");
            assert!(most < Bytes(250_000), "{mode:?}: {most}");
        }
    }

    #[test]
    fn without_silences_nothing_is_held() {
        let (departures, most) = run(&mut shaper(UplinkMode::Pooled), &on_off(3), Fraction::ONE);
        assert_eq!(most, Bytes::ZERO);
        assert!(departures.iter().zip(on_off(3)).all(|(departure, arrival)| departure.0 == arrival.0));
    }

    #[test]
    fn the_first_packet_and_the_first_after_an_idle_period_go_at_once() {
        let mut s = shaper(UplinkMode::PerStation);
        assert_eq!(s.on_packet(us(5), A, PacketId(0), 1_500, alpha(0.5)), UplinkVerdict::Forward);
        assert_eq!(s.on_packet(us(6), A, PacketId(1), 1_500, alpha(0.5)), UplinkVerdict::Hold);
        assert_eq!(s.on_packet(us(7), B, PacketId(2), 1_500, alpha(0.5)), UplinkVerdict::Forward);
        let due = s.next_timeout().expect("a packet is held");
        let mut released = Vec::new();
        s.on_timeout(due, |_| alpha(0.5), |id| released.push(id));
        assert_eq!(released, [PacketId(1)]);
        let later = us(60_000_000);
        assert_eq!(s.on_packet(later, A, PacketId(3), 1_500, alpha(0.5)), UplinkVerdict::Forward);
    }

    #[test]
    fn alpha_zero_and_a_dead_rate_delay_but_never_starve() {
        let mut s = shaper(UplinkMode::Pooled);
        let arrivals: Vec<_> = (0..200).map(|k| (us(k), A, 1_500)).collect();
        let (departures, _) = run(&mut s, &arrivals, Fraction::ZERO);
        assert_eq!(departures.len(), 200);
        let last = departures.iter().map(|(at, _)| *at).max();
        assert!(last <= Some(us(199) + UplinkConfig::default().max_delay));
    }

    #[test]
    fn a_burst_leaves_at_alpha_times_the_rate_of_the_air() {
        let config = UplinkConfig { headroom: 1.0, ..UplinkConfig::default() };
        let mut s = UplinkShaper::new(&config);
        // On for 100 ms, off for 100 ms: average 500 B/ms, between silences 1000 B/ms, D_eff 500 B/ms.
        let arrivals: Vec<_> =
            (0..10_000u64).filter(|ms| ms % 200 < 100).map(|ms| (us(ms * 1_000), A, 1_000)).collect();
        let (departures, _) = run(&mut s, &arrivals, alpha(0.5));
        let steady: Vec<_> = departures.iter().filter(|(at, _)| *at > us(8_000_000)).collect();
        let gaps: Vec<_> = steady.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_micros()).collect();
        let close = gaps.iter().filter(|gap| (1_800..=2_200).contains(*gap)).count();
        assert!(close * 10 > gaps.len() * 9, "{close} of {} gaps are 2 ms", gaps.len());
    }

    #[test]
    fn alpha_min_limits_the_slowing() {
        let wait = |alpha_min: f64| {
            let mut s = UplinkShaper::new(&UplinkConfig {
                alpha_min: alpha(alpha_min),
                headroom: 1.0,
                max_delay: Duration::from_secs(100),
                ..UplinkConfig::default()
            });
            for k in 0..2u64 {
                let _ = s.on_packet(us(k), A, PacketId(k), 1_000, alpha(0.2));
            }
            s.next_timeout().expect("held").since(us(0)).as_secs_f64()
        };
        assert!((wait(0.2) / wait(0.8) - 4.0).abs() < 0.01);
        assert!((wait(0.1) / wait(0.2) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_full_shaper_says_so_and_makes_room_from_the_oldest() {
        let mut s = UplinkShaper::new(&UplinkConfig { limit: Bytes(3_000), ..UplinkConfig::default() });
        let half = alpha(0.5);
        assert_eq!(s.on_packet(us(0), A, PacketId(0), 1_000, half), UplinkVerdict::Forward);
        for k in 1..4 {
            assert_eq!(s.on_packet(us(k), A, PacketId(k), 1_000, half), UplinkVerdict::Hold);
        }
        assert_eq!(s.on_packet(us(4), A, PacketId(4), 1_000, half), UplinkVerdict::Full);
        assert_eq!((s.held_bytes(), s.held_packets()), (Bytes(3_000), 3));
        let mut released = Vec::new();
        s.make_room(us(4), 1_000, |id| released.push(id.0));
        assert_eq!(released, [1]);
        assert_eq!(s.on_packet(us(4), A, PacketId(4), 1_000, half), UplinkVerdict::Hold);
        s.flush(|id| released.push(id.0));
        assert_eq!(released, [1, 2, 3, 4]);
        assert_eq!((s.held_bytes(), s.held_packets(), s.next_timeout()), (Bytes::ZERO, 0, None));
    }

    proptest! {
        #[test]
        fn every_packet_leaves_once_in_its_stations_order_and_in_time(
            steps in prop::collection::vec((0u64..200_000, 0u32..4, 40u32..3_000), 1..300),
            share in 0.0f64..=1.0,
            per_station: bool,
            limit in 1_000u64..100_000,
        ) {
            let mode = if per_station { UplinkMode::PerStation } else { UplinkMode::Pooled };
            // Station 3 lies beyond the table: never shaped, never reordered.
            let config = UplinkConfig { mode, limit: Bytes(limit), max_stations: 3, ..UplinkConfig::default() };
            let mut now = Instant::ZERO;
            let arrivals: Vec<_> = steps
                .iter()
                .map(|&(wait, station, len)| {
                    now += Duration::from_micros(wait / 20);
                    (now, StationId(station), len)
                })
                .collect();
            let mut shaper = UplinkShaper::new(&config);
            let (departures, most) = run(&mut shaper, &arrivals, alpha(share));
            prop_assert!(most <= config.limit);
            prop_assert_eq!(departures.len(), arrivals.len());
            prop_assert_eq!((shaper.held_bytes(), shaper.held_packets()), (Bytes::ZERO, 0));
            for station in 0..4 {
                let order: Vec<_> =
                    departures.iter().map(|(_, index)| *index).filter(|index| arrivals[*index].1.0 == station).collect();
                prop_assert!(order.is_sorted() && order.windows(2).all(|pair| pair[0] < pair[1]));
            }
            for (at, index) in departures {
                prop_assert!(at <= arrivals[index].0 + config.max_delay);
            }
        }
    }
}
