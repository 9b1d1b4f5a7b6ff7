//! A world of radios for tests: who hears whom stands in a table.

use std::collections::VecDeque;

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_radio::dcf::{Dcf, DcfConfig, Environment, Hearing, Mpdu, Phy, Sent, Told, Tuning};

/// What a test can watch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    Received { at: u32, from: u32, token: u64 },
    Sent { radio: u32, token: u64, outcome: Sent },
}

pub struct World {
    pub rate: BitRate,
    /// By sender and hearer: mW; 0: out of carrier-sense range.
    pub power: Vec<Vec<f64>>,
    /// Least power that can be read, mW.
    pub readable: f64,
    pub queues: Vec<VecDeque<Mpdu>>,
    /// Every radio always has a frame of so many bytes for the one beside it.
    pub saturated: Option<(u32, Vec<Option<u32>>)>,
    pub quiet_at: Instant,
    /// By radio: the channel that it listens on, and those that it is tuned to and retunes to. All 0: one
    /// channel.
    pub homes: Vec<u32>,
    pub tuned: Vec<u32>,
    bound: Vec<u32>,
    pub retune: Duration,
    pub noise: f64,
    /// Primary users: (radio, from, until, mW).
    pub users: Vec<(u32, Instant, Instant, f64)>,
    pub seen: Vec<(Instant, Seen)>,
    pub told: Vec<Told>,
    pub logs: bool,
    pub received: u64,
    pub transmitted: u64,
    pub failed: u64,
    next_token: u64,
}

impl World {
    /// All `radios` hear each other at 1 mW.
    pub fn cell(radios: u32, rate: BitRate) -> Self {
        let power = |from: u32| (0..radios).map(|at| if at == from { 0.0 } else { 1.0 }).collect();
        Self {
            rate,
            power: (0..radios).map(power).collect(),
            readable: 0.5,
            queues: vec![VecDeque::new(); radios as usize],
            saturated: None,
            quiet_at: Instant::FAR_FUTURE,
            homes: vec![0; radios as usize],
            tuned: vec![0; radios as usize],
            bound: vec![0; radios as usize],
            retune: micros(224),
            noise: 0.0,
            users: Vec::new(),
            seen: Vec::new(),
            told: Vec::new(),
            logs: true,
            received: 0,
            transmitted: 0,
            failed: 0,
            next_token: 1000,
        }
    }

    pub fn set(&mut self, a: u32, b: u32, power: f64) {
        self.power[a as usize][b as usize] = power;
        self.power[b as usize][a as usize] = power;
    }

    /// Each radio listens on a channel of its own.
    pub fn with_homes(mut self, homes: &[u32]) -> Self {
        (self.homes, self.tuned, self.bound) = (homes.to_vec(), homes.to_vec(), homes.to_vec());
        self
    }

    fn channel_for(&self, radio: u32, mpdu: &Mpdu) -> u32 {
        self.homes.get(mpdu.to.unwrap_or(radio) as usize).copied().unwrap_or(0)
    }

    pub fn queue(&mut self, from: u32, token: u64, to: Option<u32>, len: u32) {
        self.queues[from as usize].push_back(Mpdu::new(token, to, len));
    }

    /// Tokens that arrived at `radio`.
    pub fn arrived(&self, radio: u32) -> Vec<u64> {
        let at = |(_, seen): &(Instant, Seen)| match *seen {
            Seen::Received { at, token, .. } if at == radio => Some(token),
            Seen::Received { .. } | Seen::Sent { .. } => None,
        };
        self.seen.iter().filter_map(at).collect()
    }

    pub fn outcomes(&self) -> Vec<(u64, Sent)> {
        let of = |(_, seen): &(Instant, Seen)| match *seen {
            Seen::Sent { token, outcome, .. } => Some((token, outcome)),
            Seen::Received { .. } => None,
        };
        self.seen.iter().filter_map(of).collect()
    }
}

impl Environment for World {
    fn take(&mut self, _now: Instant, radio: u32) -> Option<Mpdu> {
        if let Some((len, to)) = &self.saturated {
            let to = to[radio as usize]?;
            self.next_token += 1;
            return Some(Mpdu::new(self.next_token, Some(to), *len));
        }
        self.queues[radio as usize].pop_front()
    }

    fn received(&mut self, now: Instant, at: u32, from: u32, mpdu: &Mpdu) {
        self.received += 1;
        if self.logs {
            self.seen.push((now, Seen::Received { at, from, token: mpdu.token }));
        }
    }

    fn sent(&mut self, now: Instant, radio: u32, mpdu: Mpdu, outcome: Sent) {
        if self.logs {
            self.seen.push((now, Seen::Sent { radio, token: mpdu.token, outcome }));
        }
    }

    fn postponed(&mut self, _now: Instant, radio: u32, mpdu: Mpdu) -> Option<Mpdu> {
        self.queues[radio as usize].push_front(mpdu);
        None
    }

    fn hearers(&mut self, _now: Instant, from: u32, into: &mut Vec<Hearing>) {
        for (at, &power) in (0..).zip(&self.power[from as usize]) {
            if power > 0.0 && self.tuned.get(from as usize) == self.tuned.get(at as usize) {
                into.push(Hearing::new(at, power, power >= self.readable));
            }
        }
    }

    fn hearing(&mut self, _now: Instant, from: u32, at: u32) -> Option<Hearing> {
        let power = self.power[from as usize][at as usize];
        let same = self.tuned.get(from as usize) == self.tuned.get(at as usize);
        (power > 0.0 && same).then(|| Hearing::new(at, power, power >= self.readable))
    }

    fn interference(&mut self, at: u32, since: Instant, until: Instant) -> f64 {
        let on = |user: &&(u32, Instant, Instant, f64)| user.0 == at && user.1 < until && user.2 > since;
        self.noise + self.users.iter().filter(on).map(|user| user.3).sum::<f64>()
    }

    fn rate(&self, _radio: u32) -> BitRate {
        self.rate
    }

    fn quiet_at(&self, _now: Instant, _radio: u32, _to: Option<u32>) -> Instant {
        self.quiet_at
    }

    fn tuning(&self, _now: Instant, radio: u32, mpdu: &Mpdu) -> Tuning {
        if self.channel_for(radio, mpdu) == self.tuned[radio as usize] {
            return Tuning::Here;
        }
        Tuning::Away { rate: self.rate, retune: self.retune }
    }

    fn is_away(&self, radio: u32) -> bool {
        self.tuned[radio as usize] != self.homes[radio as usize]
    }

    fn retune(&mut self, _now: Instant, radio: u32, towards: Option<&Mpdu>) -> Duration {
        let to = towards.map_or(self.homes[radio as usize], |mpdu| self.channel_for(radio, mpdu));
        self.bound[radio as usize] = to;
        self.retune
    }

    fn retuned(&mut self, _now: Instant, radio: u32) {
        self.tuned[radio as usize] = self.bound[radio as usize];
    }

    fn transmitted(&mut self, _now: Instant, told: Told) {
        if told.token.is_some() {
            self.transmitted += 1;
            self.failed += u64::from(!told.received);
        }
        if self.logs {
            self.told.push(told);
        }
    }
}

/// A DCF in a world.
pub struct Net {
    pub dcf: Dcf,
    pub world: World,
}

impl Net {
    pub fn new(config: &DcfConfig, world: World, seed: u64) -> Self {
        Self { dcf: Dcf::new(config, world.power.len() as u32, seed), world }
    }

    pub fn ofdm(world: World) -> Self {
        Self::new(&DcfConfig::new(Phy::Ieee80211a), world, 1)
    }

    pub fn run(&mut self, until: Instant) {
        while self.dcf.next() <= until {
            self.dcf.step(&mut self.world);
        }
    }

    /// Queues a frame at `now`, after all that is due before.
    pub fn send(&mut self, now: Instant, from: u32, token: u64, to: Option<u32>, len: u32) {
        self.run(now);
        self.world.queue(from, token, to, len);
        self.dcf.on_enqueue(now, from, &mut self.world);
    }
}

pub const fn us(count: u64) -> Instant {
    Instant::from_nanos(1000 * count)
}

pub const fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

pub const MBPS: fn(u64) -> BitRate = BitRate::from_mbps;
