//! What comes up from a station, and how far beyond it the station may send.
//!
//! Beside the paper (`dsasync`). Sees the data that comes up; answers what
//! [`uplink_windows`](super::uplink_windows) tells the station.
//!
//! - **Uplink window**: the base station sees what leaves the radio, and the correspondent's ACKs pass it on
//!   their way down. It moves the window's right edge to what has left the radio, plus
//!   `fast · (local round trip + margin)`. The wired round trip is not in this loop, so nothing has to be
//!   forecast. If the correspondent's ACKs come less often than the edge has to move, an ACK that repeats the
//!   last one moves it.
//! - **Margin**: as on the downlink ([`untold`](super::untold)).
//!
//! Nothing is held down before the radio was busy for the length of a sample.

use super::delivery_rate::Rates;
use super::shares::Shares;
use super::untold::{Limits, Load, Margin, NEXT_TO_NOTHING, Search};
use crate::time::{Duration, Instant};

/// The uplink may run dry for this part of `dry_share`. Its loop is as short as the radio's round trip, so a
/// tenth of the dry time costs only a few milliseconds there.
const UPLINK_PART: f64 = 0.1;

/// Uplink bytes are counted over at least this time.
const TILE: Duration = Duration::from_millis(8);

/// A station that has sent nothing for this long, silences included, had nothing to send.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// Most stations' segments have as many bytes of data.
const LIKELY_MSS: u32 = 1460;

/// Slowest uplink for which times are worked out, bytes/ns: 80 kbit/s.
const LEAST_RATE: f64 = 1e-5;

/// A station that sends nothing for this long had nothing to send, or was away.
const PAUSE: Duration = Duration::from_millis(100);

/// What comes up from one station.
#[derive(Clone, Debug)]
pub(super) struct UplinkRate {
    limits: Limits,
    rates: Rates,
    began: Instant,
    /// When data last came up, and the same with the time of silences left out.
    came: Instant,
    heard: Instant,
    /// A silence has begun since then, as the station was sending; and when the latest one began or ended.
    cut_off: Option<Instant>,
    bytes: u64,
    limited: bool,
    filled: bool,
    margin: Margin,
    /// Among how many of the station's connections its window is shared.
    pub shares: Shares,
}

/// Why nothing is measured across a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interruption {
    /// A silence begins, and none is known to go on: of several that overlapped, one has ended at most.
    FirstSilence,
    /// One begins while another goes on, or one ends.
    InSilences,
    /// What was withheld may go down.
    OpenedGate,
}

impl UplinkRate {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Limits { dry_share: limits.dry_share * UPLINK_PART, ..limits },
            rates: Rates::new(limits.fast, limits.slow),
            began: Instant::ZERO,
            came: Instant::ZERO,
            heard: Instant::ZERO,
            cut_off: None,
            bytes: 0,
            limited: true,
            filled: false,
            // The uplink's quantile is a hundredth of the time: no trial is long enough to tell.
            margin: Margin { search: Search::Quantile, ..Margin::NEW },
            shares: Shares::default(),
        }
    }

    /// `bytes` of new data of a connection came up, on which the station may send `allowed` more. What it may
    /// send on all of them keeps the radio busy: of one alone it would seem to run dry whenever there are
    /// several.
    pub fn on_came_up(&mut self, now: Instant, bytes: u64, allowed: u64, local: Duration) {
        let paused = now.since(self.heard) > PAUSE;
        (self.came, self.heard, self.cut_off) = (now, now, None);
        let allowed = allowed as f64 * self.shares.count();
        let dry = allowed <= self.rates.slow() * local.as_nanos() as f64 + NEXT_TO_NOTHING;
        if paused {
            (self.began, self.bytes, self.limited) = (now, 0, false);
            return;
        }
        self.bytes += bytes;
        self.limited |= dry;
        if self.filled {
            self.margin.look(now, if dry { Load::Dry } else { Load::Busy }, 0.0, &self.limits);
        }
        let time = now.since(self.began);
        if time < TILE {
            return;
        }
        if !self.limited || self.bytes as f64 > self.rates.slow() * time.as_nanos() as f64 {
            self.rates.add(self.bytes, time, time);
        }
        self.filled |= !self.limited;
        (self.began, self.bytes, self.limited) = (now, 0, false);
    }

    /// How far beyond what has left the radio one of the station's connections may send, bytes; `None` before
    /// the rate is known.
    pub fn ahead(&self, local: Duration, mss: u32) -> Option<u32> {
        let segment = mss.clamp(536, 9000);
        let bytes = self.rates.fast() * (local.as_nanos() as f64 + self.margin.nanos);
        let bytes = bytes.max(f64::from(4 * segment)) / self.shares.count();
        self.filled.then(|| (bytes as u32).saturating_add(segment).max(2 * segment))
    }

    /// True if the station had sent something shortly before `time`, and its rate is known.
    #[inline]
    pub fn is_sending(&self, time: Instant) -> bool {
        self.filled && self.had_sent(time)
    }

    /// True if the station had sent much shortly before `time`, be its rate known or not.
    pub fn has_much(&self, time: Instant, local: Duration) -> bool {
        self.had_sent(time) && self.is_greedy(local)
    }

    /// True if it had sent something shortly before `time`.
    fn had_sent(&self, time: Instant) -> bool {
        time <= self.heard + PAUSE
    }

    /// True if the station may not send much more than it does: otherwise it has little to send, and its data
    /// waits for nothing.
    pub fn is_greedy(&self, local: Duration) -> bool {
        self.rates.fast() * (local.as_nanos() as f64 + self.margin.nanos) >= 2.0 * f64::from(LIKELY_MSS)
    }

    /// Bytes that all of the station's connections together may send beyond what has left the radio.
    pub fn allowed(&self, local: Duration) -> f64 {
        self.ahead(local, LIKELY_MSS).map_or(0.0, f64::from) * self.shares.count()
    }

    /// How long the data takes that the station was told it may send, on a radio that carries `down` to it,
    /// bytes/ns.
    pub fn takes(&self, local: Duration, down: f64) -> Duration {
        let bytes = self.allowed(local);
        let rate = self.rate().max(f64::midpoint(down, self.rate()));
        Duration::from_nanos((bytes / rate.max(LEAST_RATE)) as u64)
    }

    /// Mean rate over the slow window, bytes/ns.
    pub fn rate(&self) -> f64 {
        self.rates.slow()
    }

    /// Nothing is measured across what happens now. A station that a silence cut off goes on sending with its
    /// end, and another does not begin. Only the time in silences is taken off: where they come often, an
    /// upload would otherwise never have ended.
    pub fn interrupt(&mut self, now: Instant, by: Interruption) {
        self.margin.looked = now;
        (self.began, self.bytes) = (now, 0);
        match by {
            Interruption::OpenedGate => {}
            Interruption::FirstSilence => self.cut_off = self.had_sent(now).then_some(now),
            Interruption::InSilences => {
                // The time in which it could not send does not count.
                let since = self.cut_off.take().filter(|_| now <= self.came + LONGEST_SILENCE);
                if let Some(since) = since {
                    self.heard += now.since(since);
                    self.cut_off = Some(now);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsasync::config::DsaSyncConfig;
    use crate::dsasync::shares::Tally;

    const LOCAL: Duration = Duration::from_millis(4);
    const FULL: u32 = 1500;

    /// A station whose `flows` take turns over a radio of 1500 bytes a millisecond, for so many ms. After
    /// each segment its connection may send `allowed` bytes more.
    fn station(flows: usize, allowed: u64, millis: u64) -> UplinkRate {
        let mut uplink = UplinkRate::new(Limits::new(&DsaSyncConfig::default()));
        let mut tallies = vec![Tally::default(); flows];
        for ms in 0..millis {
            let now = Instant::from_millis(1000 + ms);
            uplink.shares.add(now, FULL, &mut tallies[ms as usize % flows]);
            uplink.on_came_up(now, u64::from(FULL), allowed, LOCAL);
        }
        uplink
    }

    #[test]
    fn connections_that_keep_the_radio_busy_together_do_not_let_the_margin_grow() {
        // Together they may send 16,000 bytes more: 11 ms. In the first second it is found out how many there
        // are.
        for flows in [1, 4, 8] {
            let [early, late] = [1000, 2000].map(|millis| station(flows, 16_000 / flows as u64, millis));
            assert!(late.filled && late.margin.nanos < early.margin.nanos, "{flows} flows: {late:?}");
        }
        // One that may send no more than a third of that has nothing to send before the next ACK comes.
        let mut dry = station(1, 16_000, 2000);
        let before = dry.margin.nanos;
        for ms in 0..100 {
            dry.on_came_up(Instant::from_millis(3000 + ms), u64::from(FULL), 5_000, LOCAL);
        }
        assert!(dry.margin.nanos > before, "{dry:?}");
    }

    #[test]
    fn what_a_station_may_send_takes_its_time_at_its_rate_or_at_its_part_of_the_radio() {
        let uplink = station(1, 16_000, 2000);
        let (margin, heard) = (Duration::from_nanos(uplink.margin.nanos as u64), uplink.heard);
        // A segment more than the margin is allowed: here that is a millisecond.
        let wait = LOCAL + margin + Duration::from_millis(1);
        let near = |took: Duration, ms: Duration| took.as_nanos().abs_diff(ms.as_nanos()) < 100_000;
        assert!(near(uplink.takes(LOCAL, 0.0), wait), "{} {wait}", uplink.takes(LOCAL, 0.0));
        // It has as much as the downlink, and then a third.
        assert!(near(uplink.takes(LOCAL, 0.0015), wait));
        assert!(near(uplink.takes(LOCAL, 0.0045), Duration::from_nanos(wait.as_nanos() / 2)));
        assert!(uplink.is_sending(heard) && uplink.is_sending(heard + PAUSE));
        assert!(!uplink.is_sending(heard + PAUSE + Duration::from_millis(1)));
        assert!(!UplinkRate::new(Limits::new(&DsaSyncConfig::default())).is_sending(Instant::ZERO));
        // A silence that begins when it has sent nothing for long does not make it send.
        let mut quiet = uplink.clone();
        quiet.interrupt(heard + Duration::from_millis(200), Interruption::FirstSilence);
        quiet.interrupt(heard + Duration::from_millis(300), Interruption::InSilences);
        assert!(!quiet.is_sending(heard + Duration::from_millis(300)));
        // One that cuts it off does not end that, unless it is very long.
        for (until, sends) in [(5000, true), (20_000, false)] {
            let mut cut_off = uplink.clone();
            cut_off.interrupt(heard + Duration::from_millis(20), Interruption::FirstSilence);
            // Another begins before that one ends, and a gate opens.
            cut_off.interrupt(heard + Duration::from_millis(1000), Interruption::InSilences);
            cut_off.interrupt(heard + Duration::from_millis(1500), Interruption::OpenedGate);
            let end = heard + Duration::from_millis(until);
            cut_off.interrupt(end, Interruption::InSilences);
            assert_eq!(cut_off.is_sending(end), sends, "{until} ms");
        }
        // One that ended is over though a silence cut it off and more of them come.
        for period in [60, 100, 200] {
            let mut ended = uplink.clone();
            for ms in (50..1000).step_by(period) {
                ended.interrupt(heard + Duration::from_millis(ms), Interruption::FirstSilence);
                ended.interrupt(heard + Duration::from_millis(ms + 25), Interruption::InSilences);
                ended.interrupt(heard + Duration::from_millis(ms + 30), Interruption::OpenedGate);
            }
            assert!(!ended.is_sending(heard + Duration::from_millis(900)), "each {period} ms");
        }
        // 200 bytes each 90 ms, as a control connection has them, are not all that it may send.
        let mut thin = UplinkRate::new(Limits::new(&DsaSyncConfig::default()));
        for number in 0..50 {
            thin.on_came_up(Instant::from_millis(1000 + 90 * number), 200, 65_535, LOCAL);
        }
        assert!(uplink.is_greedy(LOCAL) && !thin.is_greedy(LOCAL), "{thin:?}");
    }
}
