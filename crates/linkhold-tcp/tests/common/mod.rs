//! Two endpoints and a link between them, for the scenario tests: rate, delay and a DropTail queue each way,
//! and a hook that may drop, delay or change a segment.

#![allow(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, VecDeque};

use linkhold_core::packet::{Ecn, TcpSegment};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Seq};
use linkhold_tcp::{Endpoint, Source, TcpConfig};

/// IPv4 header bytes.
pub const IP_HEADER: u64 = 20;

pub fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

pub fn at(n: u64) -> Instant {
    Instant::from_millis(n)
}

/// What the hook does with a segment that enters the link.
pub enum Fate {
    Pass,
    Drop,
    /// Arrives this much later than the link alone would bring it.
    Delay(Duration),
    /// The link stands still until then; what follows queues behind.
    Hold(Instant),
}

#[derive(Clone, Copy)]
pub struct LinkConfig {
    pub rate: BitRate,
    pub delay: Duration,
    pub queue: usize,
}

struct Pipe {
    config: LinkConfig,
    busy_until: Instant,
    queue: VecDeque<Instant>,
}

impl Pipe {
    /// When the segment arrives, unless the queue is full.
    fn enter(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        while self.queue.front().is_some_and(|&start| start <= now) {
            self.queue.pop_front();
        }
        if self.queue.len() >= self.config.queue {
            return None;
        }
        let start = self.busy_until.max(now);
        self.queue.push_back(start);
        self.busy_until = start + self.config.rate.time_for(Bytes(bytes));
        Some(self.busy_until + self.config.delay)
    }
}

/// `a` connects to `b`; both pipes are alike.
pub struct Net {
    pub now: Instant,
    pub ends: [Endpoint; 2],
    pipes: [Pipe; 2],
    flying: BTreeMap<(Instant, u64), (usize, TcpSegment, Ecn)>,
    order: u64,
    pub drops: u64,
    /// Sees every segment: (now, sender, segment).
    #[allow(clippy::type_complexity, reason = "a test hook")]
    pub hook: Box<dyn FnMut(Instant, usize, &mut TcpSegment, bool) -> Fate>,
}

impl Net {
    pub fn new(a: (&TcpConfig, Source), b: (&TcpConfig, Source), link: LinkConfig) -> Self {
        let pipe = || Pipe { config: link, busy_until: Instant::ZERO, queue: VecDeque::new() };
        Self {
            now: Instant::ZERO,
            ends: [Endpoint::connect(a.0, a.1, Seq(u32::MAX - 5000)), Endpoint::listen(b.0, b.1, Seq(7))],
            pipes: [pipe(), pipe()],
            flying: BTreeMap::new(),
            order: 0,
            drops: 0,
            hook: Box::new(|_, _, _, _| Fate::Pass),
        }
    }

    fn flush(&mut self, end: usize) {
        let mut count = 0;
        while let Some(mut out) = self.ends[end].poll_transmit(self.now) {
            count += 1;
            assert!(count < 100_000, "endpoint {end} never stops sending at {}", self.now);
            let bytes = IP_HEADER + u64::from(out.segment.header_len()) + u64::from(out.segment.payload_len);
            let late = match (self.hook)(self.now, end, &mut out.segment, out.retransmit) {
                Fate::Pass => Duration::ZERO,
                Fate::Delay(late) => late,
                Fate::Hold(until) => {
                    let busy = &mut self.pipes[end].busy_until;
                    *busy = (*busy).max(until);
                    Duration::ZERO
                }
                Fate::Drop => continue,
            };
            match self.pipes[end].enter(self.now, bytes) {
                Some(arrival) => {
                    self.order += 1;
                    self.flying.insert((arrival + late, self.order), (1 - end, out.segment, out.ecn));
                }
                None => self.drops += 1,
            }
        }
    }

    /// Runs to `until`; false when nothing will ever happen again before that.
    pub fn run(&mut self, until: Instant) -> bool {
        self.run_while(until, |_| true)
    }

    pub fn run_while(&mut self, until: Instant, mut go_on: impl FnMut(&Self) -> bool) -> bool {
        self.flush(0);
        self.flush(1);
        while go_on(self) {
            let arrival = self.flying.keys().next().map(|key| key.0);
            let timers = [self.ends[0].next_timeout(), self.ends[1].next_timeout()];
            let next = [arrival, timers[0], timers[1]].into_iter().flatten().min();
            let Some(next) = next else { return false };
            if next > until {
                self.now = until;
                return true;
            }
            assert!(next >= self.now || timers.contains(&Some(next)), "time runs backwards");
            self.now = self.now.max(next);
            if arrival == Some(next) {
                if let Some((_, (to, segment, ecn))) = self.flying.pop_first() {
                    self.ends[to].on_segment(self.now, &segment, ecn);
                    self.flush(to);
                }
            } else {
                for (end, timer) in timers.iter().enumerate() {
                    if *timer == Some(next) {
                        self.ends[end].on_timeout(self.now);
                        self.flush(end);
                        let again = self.ends[end].next_timeout();
                        assert!(again != Some(next), "endpoint {end}'s timer stands still at {next}");
                    }
                }
            }
        }
        true
    }
}
