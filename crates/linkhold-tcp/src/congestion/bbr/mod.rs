//! BBR, version 1: cwnd and pacing rate from a model of the path, not from its losses.
//!
//! Source: draft-cardwell-iccrg-bbr-congestion-control-00, sections 4.1 (model), 4.2 (pacing rate, send
//! quantum, cwnd) and 4.3 (state machine); where Linux `tcp_bbr.c` (6.x) has more or does otherwise, what it
//! does: policers (`policer.rs`), bunches of ACKs (`aggregation.rs`), the quantization budget, packets that
//! have not left the pacer. Sees delivery-rate samples, RTT samples, losses and congestion states; gives cwnd
//! and the pacing rate.
//!
//! ```text
//! Startup -> (three rounds without a quarter more) Drain -> (in flight = BDP) ProbeBw any -> (no RTT below
//! the least for 10 s) ProbeRtt -> (200 ms and a round at 4 segments) ProbeBw or Startup
//! ```
//! Deviations from Linux: rates are floating-point bytes a second, not packets shifted by 24 bits; times are
//! not rounded to jiffies. Sending is not put off to fill a burst (`tcp_tso_should_defer`).

mod aggregation;
mod max_filter;
mod policer;

use linkhold_core::time::{Duration, Instant};

use super::window::Window;
use crate::delivery_rate::RateSample;
use aggregation::Aggregation;
use max_filter::MaxFilter;
use policer::{Policer, Verdict};

pub(crate) use policer::Totals;

/// Section 4.3.2.1: 2/ln 2, the least gain that doubles the rate each round trip.
const HIGH_GAIN: f64 = 2.885;
/// Section 4.3.3: what Startup queued leaves within a round.
const DRAIN_GAIN: f64 = 1.0 / HIGH_GAIN;
/// Section 4.2.3.2: cwnd_gain in ProbeBw.
const CWND_GAIN: f64 = 2.0;
/// Section 4.3.4.2: the pacing gains of ProbeBw's eight phases.
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// The first phase is drawn from all but the one that drains.
const CYCLE_DRAWN: u64 = 7;
/// Section 4.1.1.3: BtlBwFilterLen, round trips.
const BANDWIDTH_ROUNDS: u32 = 10;
/// Section 4.1.2.1: RTpropFilterLen.
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// Section 4.3.5: ProbeRTTDuration.
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Section 4.2.3.3: BBRMinPipeCwnd, segments.
const MIN_SEGMENTS: u64 = 4;
/// Section 4.3.2.2: the pipe is full if the bandwidth does not grow by a quarter...
const FULL_GROWTH: f64 = 1.25;
/// ... in so many round trips.
const FULL_ROUNDS: u32 = 3;
/// Linux `bbr_pacing_margin_percent`: 1 % below the bandwidth, so that a queue drains.
const MARGIN: f64 = 0.99;
/// Linux `TCP_INIT_CWND`, segments.
const INITIAL_SEGMENTS: u64 = 10;
/// Linux `bbr_min_tso_rate`, 1.2 Mbit/s in bytes a second: below it a burst is one segment.
const SINGLE_RATE: f64 = 150_000.0;
/// A burst is what the pacing rate carries in 1/1024 s (Linux `sk_pacing_shift`), and at most this
/// (`GSO_MAX_SIZE`).
const BURSTS_A_SECOND: f64 = 1024.0;
const BURST_MAX: u64 = 65_535 - 320;
/// Linux `bbr_tso_segs_goal`.
const BURST_MAX_SEGMENTS: u64 = 127;
/// Linux `tcp_tso_rtt_log`: each 512 us of the least round trip halve what a burst may be longer on a short
/// path.
const BURST_RTT: Duration = Duration::from_micros(512);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    /// The phase of its cycle.
    ProbeBw(usize),
    ProbeRtt(Dip),
}

/// How far ProbeRtt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dip {
    /// More than the least is in flight.
    Sinking,
    /// The least is in flight; it lasts until then, and for a round trip.
    Low { until: Instant, round_passed: bool },
}

/// What the sender repairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repair {
    Nothing,
    /// Fast recovery.
    Recovery,
    /// What a timeout took for lost.
    Loss,
}

/// An ACK as the model sees it, after the congestion states have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelAck {
    pub now: Instant,
    /// Bytes newly delivered, and newly taken for lost.
    pub acked: u64,
    pub lost: u64,
    pub totals: Totals,
    pub rtt: Option<Duration>,
    /// The ACK may have waited for the receiver's timer.
    pub may_be_delayed: bool,
    pub sample: Option<RateSample>,
    /// Bytes in flight before it and after it.
    pub flight_before: u64,
    pub flight: u64,
    pub repair: Repair,
    /// When the next segment may leave.
    pub departure: Instant,
}

/// The model, and what BBR makes of it.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    bandwidth: MaxFilter,
    round: u32,
    /// The round ends when so much is delivered.
    round_end: u64,
    round_start: bool,
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    /// Bandwidth that the next round trips must exceed by a quarter, or the pipe is full.
    full_bandwidth: f64,
    full_rounds: u32,
    filled: bool,
    cycle_since: Instant,
    /// Draws the first phase of a cycle.
    random: u64,
    /// cwnd from before a repair or a dip.
    prior_cwnd: u64,
    previous: Repair,
    /// Send as much as is delivered: the first round of a recovery.
    conserving: bool,
    /// Sends again after the application had nothing to send.
    restarting: bool,
    policer: Policer,
    aggregation: Aggregation,
    /// Bytes a second.
    pacing_rate: f64,
    has_rtt: bool,
}

impl Bbr {
    /// A connection comes up. `seed` decides in which phases its cycles begin.
    pub fn new(now: Instant, window: &mut Window, seed: u64) -> Self {
        window.ssthresh = u64::MAX;
        let mut bbr = Self {
            mode: Mode::Startup,
            bandwidth: MaxFilter::default(),
            round: 0,
            round_end: 0,
            round_start: false,
            min_rtt: None,
            min_rtt_at: now,
            full_bandwidth: 0.0,
            full_rounds: 0,
            filled: false,
            cycle_since: Instant::ZERO,
            random: seed,
            prior_cwnd: 0,
            previous: Repair::Nothing,
            conserving: false,
            restarting: false,
            policer: Policer::new(),
            aggregation: Aggregation::new(now),
            pacing_rate: 0.0,
            has_rtt: false,
        };
        // Section 4.2.1: 1 ms is the nominal RTT while there is none.
        bbr.pace_from(window, Duration::from_millis(1));
        bbr
    }

    /// The handshake's RTT.
    pub fn on_handshake(&mut self, now: Instant, window: &Window, rtt: Duration) {
        self.min_rtt = Some(rtt);
        self.min_rtt_at = now;
        self.has_rtt = true;
        self.pace_from(window, rtt);
    }

    /// Section 4.2.1: the first pacing rate is high_gain times the window a round trip.
    fn pace_from(&mut self, window: &Window, rtt: Duration) {
        let rtt = rtt.as_secs_f64().max(1e-6);
        self.pacing_rate = HIGH_GAIN * MARGIN * window.cwnd as f64 / rtt;
    }

    /// Bytes a second.
    pub fn pacing_rate(&self) -> f64 {
        self.pacing_rate
    }

    /// Segments that leave together (Linux `tcp_tso_autosize`).
    pub fn burst(&self, mss: u64) -> u64 {
        let halvings = self.min_rtt.map_or(u64::MAX, |rtt| rtt.as_nanos() / BURST_RTT.as_nanos());
        let short_path = u32::try_from(halvings).ok().and_then(|by| 65_536_u64.checked_shr(by)).unwrap_or(0);
        self.burst_of((self.pacing_rate / BURSTS_A_SECOND) as u64 + short_path, mss)
    }

    /// Section 4.2.2: the send quantum, segments.
    fn quantum(&self, mss: u64) -> u64 {
        self.burst_of((self.pacing_rate / BURSTS_A_SECOND) as u64, mss).min(BURST_MAX_SEGMENTS)
    }

    fn burst_of(&self, bytes: u64, mss: u64) -> u64 {
        let least = if self.pacing_rate < SINGLE_RATE { 1 } else { 2 };
        (bytes.min(BURST_MAX) / mss).max(least)
    }

    /// Bytes a second: what a policer lets pass, or else the greatest of the last rounds.
    fn bandwidth(&self) -> f64 {
        self.policer.rate().unwrap_or_else(|| self.bandwidth.get())
    }

    /// Section 4.2.3.2: `gain` times the bandwidth-delay product, segments.
    fn bdp(&self, bandwidth: f64, gain: f64, mss: u64) -> u64 {
        match self.min_rtt {
            None => INITIAL_SEGMENTS,
            Some(rtt) => (bandwidth * rtt.as_secs_f64() * gain / mss as f64).ceil() as u64,
        }
    }

    /// Section 4.2.3.2 and Linux `bbr_quantization_budget`: three bursts more than `segments`, for those that
    /// the two hosts hold back; even, for delayed ACKs.
    fn budget(&self, segments: u64, mss: u64) -> u64 {
        let even = (segments + 3 * self.quantum(mss)).next_multiple_of(2);
        if self.mode == Mode::ProbeBw(0) { even + 2 } else { even }
    }

    /// What should be in flight, bytes.
    fn inflight(&self, gain: f64, mss: u64) -> u64 {
        self.budget(self.bdp(self.bandwidth.get(), gain, mss), mss) * mss
    }

    /// Bytes of `flight` that will be in the network when the next burst leaves (Linux
    /// `bbr_packets_in_net_at_edt`).
    fn in_network(&self, flight: u64, ack: &ModelAck, mss: u64) -> u64 {
        let wait = ack.departure.max(ack.now).since(ack.now).as_secs_f64();
        let leaving = if self.pacing_gain() > 1.0 { self.quantum(mss) * mss } else { 0 };
        (flight + leaving).saturating_sub((self.bandwidth() * wait) as u64)
    }

    fn pacing_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBw(_) if self.policer.rate().is_some() => 1.0,
            Mode::ProbeBw(phase) => CYCLE[phase],
            Mode::ProbeRtt(_) => 1.0,
        }
    }

    fn cwnd_gain(&self) -> f64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBw(_) => CWND_GAIN,
            Mode::ProbeRtt(_) => 1.0,
        }
    }

    /// Takes an ACK in: sets cwnd and the pacing rate. True if what is sent now measures too little of the
    /// path, for its window is the least.
    pub fn on_ack(&mut self, window: &mut Window, ack: &ModelAck) -> bool {
        let mss = window.mss;
        self.update_bandwidth(ack);
        if ack.acked > 0 && ack.sample.is_some() {
            let bandwidth = self.bandwidth();
            let now = ack.totals.delivered_at;
            self.aggregation.on_ack(now, ack.acked, bandwidth, window.cwnd, self.round_start);
        }
        self.update_cycle(ack, mss);
        self.check_full_pipe(ack);
        self.check_drain(window, ack);
        let dips = self.update_min_rtt(window, ack);
        if !self.has_rtt
            && let Some(rtt) = ack.rtt
        {
            self.has_rtt = true;
            self.pace_from(window, rtt);
        }
        self.pace(self.pacing_gain());
        self.set_window(window, ack);
        dips
    }

    /// Section 4.2.1: BBRSetPacingRateWithGain. Before the pipe is full the rate does not fall.
    fn pace(&mut self, gain: f64) {
        let rate = MARGIN * gain * self.bandwidth();
        if self.filled || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// Sections 4.1.1.3 and 4.1.1.5: rounds, and the greatest bandwidth of the last ten.
    fn update_bandwidth(&mut self, ack: &ModelAck) {
        self.round_start = false;
        let Some(sample) = ack.sample else { return };
        if sample.prior_delivered >= self.round_end {
            self.round_end = ack.totals.delivered;
            self.round += 1;
            self.round_start = true;
            self.conserving = false;
        }
        self.look_for_policer(ack.totals, ack.lost > 0, sample.app_limited, ack.now);
        let rate = sample.rate();
        if !sample.app_limited || rate >= self.bandwidth.get() {
            self.bandwidth.update(BANDWIDTH_ROUNDS, self.round, rate);
        }
    }

    fn look_for_policer(&mut self, totals: Totals, lost: bool, app_limited: bool, now: Instant) {
        let probing = matches!(self.mode, Mode::ProbeBw(_));
        let verdict = self.policer.on_ack(totals, self.round_start, lost, app_limited, probing);
        if verdict == Verdict::Over {
            self.enter_probe_bw(now);
        }
    }

    /// Section 4.3.4.3: a phase lasts a least round trip; one that probes until its gain is in flight or
    /// something is lost, one that drains until no more than the BDP is.
    fn update_cycle(&mut self, ack: &ModelAck, mss: u64) {
        let Mode::ProbeBw(phase) = self.mode else { return };
        let least = self.min_rtt.unwrap_or(Duration::ZERO);
        let full_length = ack.totals.delivered_at > self.cycle_since
            && ack.totals.delivered_at.since(self.cycle_since) > least;
        let gain = self.pacing_gain();
        let over = if gain > 1.0 {
            full_length
                && (ack.lost > 0 || self.in_network(ack.flight_before, ack, mss) >= self.inflight(gain, mss))
        } else if gain < 1.0 {
            full_length || self.in_network(ack.flight_before, ack, mss) <= self.inflight(1.0, mss)
        } else {
            full_length
        };
        if over {
            self.mode = Mode::ProbeBw((phase + 1) % CYCLE.len());
            self.cycle_since = ack.totals.delivered_at;
        }
    }

    /// Section 4.3.2.2: Startup has filled the pipe.
    fn check_full_pipe(&mut self, ack: &ModelAck) {
        let app_limited = ack.sample.is_some_and(|sample| sample.app_limited);
        if self.filled || !self.round_start || app_limited {
            return;
        }
        if self.bandwidth.get() >= FULL_GROWTH * self.full_bandwidth {
            self.full_bandwidth = self.bandwidth.get();
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.filled = self.full_rounds >= FULL_ROUNDS;
    }

    /// Section 4.3.3.
    fn check_drain(&mut self, window: &mut Window, ack: &ModelAck) {
        if self.mode == Mode::Startup && self.filled {
            self.mode = Mode::Drain;
            window.ssthresh = self.inflight(1.0, window.mss);
        }
        if self.mode == Mode::Drain
            && self.in_network(ack.flight, ack, window.mss) <= self.inflight(1.0, window.mss)
        {
            self.enter_probe_bw(ack.totals.delivered_at);
        }
    }

    /// Section 4.3.4.3: ProbeBw begins in any phase but the one that drains.
    fn enter_probe_bw(&mut self, now: Instant) {
        let drawn = CYCLE.len() as u64 - 1 - self.draw(CYCLE_DRAWN);
        self.mode = Mode::ProbeBw((drawn as usize + 1) % CYCLE.len());
        self.cycle_since = now;
    }

    /// A number below `end` (splitmix64).
    fn draw(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// Sections 4.1.2.2 and 4.3.5. True while the window is the least.
    fn update_min_rtt(&mut self, window: &mut Window, ack: &ModelAck) -> bool {
        let expired = ack.now > self.min_rtt_at + MIN_RTT_WINDOW;
        // Linux has < since November 2020: with the draft's <= an RTT that stays the same puts the dip off
        // for ever.
        if let Some(rtt) = ack.rtt
            && (self.min_rtt.is_none_or(|min| rtt < min) || (expired && !ack.may_be_delayed))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_at = ack.now;
        }
        let dips = matches!(self.mode, Mode::ProbeRtt(_));
        if expired && !self.restarting && !dips {
            self.mode = Mode::ProbeRtt(Dip::Sinking);
            self.save_window(window);
        }
        self.restarting &= ack.acked == 0;
        let Mode::ProbeRtt(dip) = &mut self.mode else { return false };
        match dip {
            Dip::Sinking if ack.flight <= MIN_SEGMENTS * window.mss => {
                *dip = Dip::Low { until: ack.now + PROBE_RTT, round_passed: false };
                self.round_end = ack.totals.delivered;
            }
            Dip::Sinking => {}
            Dip::Low { round_passed, .. } => {
                *round_passed |= self.round_start;
                if *round_passed {
                    self.leave_dip(ack.now, window);
                }
            }
        }
        true
    }

    /// Section 4.3.5: ProbeRtt is over, if its time is.
    fn leave_dip(&mut self, now: Instant, window: &mut Window) {
        let Mode::ProbeRtt(Dip::Low { until, .. }) = self.mode else { return };
        if now <= until {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.filled {
            self.enter_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// Sections 4.2.3.4 to 4.2.3.6.
    fn set_window(&mut self, window: &mut Window, ack: &ModelAck) {
        let mss = window.mss;
        if ack.acked > 0 {
            let cwnd = self.repair_window(window, ack);
            window.cwnd = if self.conserving {
                cwnd.max(ack.flight + ack.acked)
            } else {
                let bandwidth = self.bandwidth();
                let extra = if self.filled { self.aggregation.extra(bandwidth) } else { 0 };
                let segments = self.bdp(bandwidth, self.cwnd_gain(), mss) + extra / mss;
                let target = self.budget(segments, mss) * mss;
                let grown = if self.filled {
                    (cwnd + ack.acked).min(target)
                } else if cwnd < target || ack.totals.delivered < INITIAL_SEGMENTS * mss {
                    cwnd + ack.acked
                } else {
                    cwnd
                };
                grown.max(MIN_SEGMENTS * mss)
            };
        }
        if matches!(self.mode, Mode::ProbeRtt(_)) {
            window.cwnd = window.cwnd.min(MIN_SEGMENTS * mss);
        }
    }

    /// Section 4.2.3.4: cwnd less what is lost; packet conservation in a recovery's first round; and after
    /// the repair the window from before it.
    fn repair_window(&mut self, window: &Window, ack: &ModelAck) -> u64 {
        let mut cwnd = window.cwnd.saturating_sub(ack.lost).max(window.mss);
        let before = core::mem::replace(&mut self.previous, ack.repair);
        if ack.repair == Repair::Recovery && before != Repair::Recovery {
            self.conserving = true;
            self.round_end = ack.totals.delivered;
            cwnd = ack.flight + ack.acked;
        } else if ack.repair == Repair::Nothing && before != Repair::Nothing {
            self.conserving = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        cwnd
    }

    /// A repair or a dip begins: the window is remembered.
    pub fn save_window(&mut self, window: &Window) {
        let sound = self.previous == Repair::Nothing && !matches!(self.mode, Mode::ProbeRtt(_));
        self.prior_cwnd = if sound { window.cwnd } else { self.prior_cwnd.max(window.cwnd) };
    }

    /// A retransmission timeout (Linux `bbr_set_state`).
    pub fn on_timeout(&mut self, totals: Totals, now: Instant) {
        self.previous = Repair::Loss;
        self.full_bandwidth = 0.0;
        self.round_start = true;
        self.look_for_policer(totals, true, false, now);
    }

    /// The repair was needless (Linux `bbr_undo_cwnd`): the window comes back when it ends.
    pub fn on_undo(&mut self) {
        self.full_bandwidth = 0.0;
        self.full_rounds = 0;
        self.policer.reset();
    }

    /// The sender begins to send with nothing in flight, after the application had nothing to send.
    pub fn on_restart(&mut self, now: Instant, window: &mut Window) {
        self.restarting = true;
        self.aggregation.restart(now);
        match self.mode {
            // Section 4.3.4.4: no faster than the path is known to be.
            Mode::ProbeBw(_) => self.pace(1.0),
            Mode::ProbeRtt(_) => self.leave_dip(now, window),
            Mode::Startup | Mode::Drain => {}
        }
    }

    /// The sender's clock stood still for `by`.
    pub fn shift_times(&mut self, by: Duration) {
        self.min_rtt_at += by;
        self.cycle_since += by;
        self.policer.shift_times(by);
        self.aggregation.shift_times(by);
        if let Mode::ProbeRtt(Dip::Low { until, .. }) = &mut self.mode {
            *until += by;
        }
    }
}
