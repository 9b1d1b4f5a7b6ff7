//! Look-ahead random access: asks the radio for the uplink turn of its host's next acknowledgment before the
//! acknowledgment comes, so that it need not wait for the random access.
//!
//! Paper: `lookahead` (Sung and Kyungsoo), section III and figure 4. Stands at a subscriber station. Sees the
//! packets of its host, and of its own radio the length of a frame ([`GrantFrames`]), each grant and each
//! turn that had room left ([`Grant`], [`GrantUnused`]); emits [`Action::RequestUplink`] and nothing else.
//! Every packet goes on as it came. Where a request is in progress the medium access adds the bytes to it, as
//! section III asks.
//!
//! The timer: counting → locked → counting (`beats.rs`). A request: due (N frames before its ACK) → made → a
//! packet uses it, or it was for nothing (`requests.rs`).
//!
//! Where the paper leaves something open, and beyond it:
//! - **Which ACKs the timer is found by.** As printed, any ACK between two beats resets the counter. `lock =
//!   "beats"`, also in the preset `paper`, takes ACKs that a timer sent, modulo the period;
//!   `lock = "printed"` is the printed form (`beats.rs` says what it cannot follow). The timer is the
//!   kernel's: one lock a station.
//! - **Short flows** (future work, section V): `lock = "learned"` also learns from each connection's ACKs how
//!   long after a segment its receiver answers, and after how many segments at once (`flow.rs`). A connection
//!   starts with what the host's others have taught. A steady stream's ACKs are foretold as far as the access
//!   takes, with the segments that cause them: this alone asks before the segment has passed.
//! - **N from the measured access delay** (future work): `n = "measured"`, see `delay.rs`.
//! - **Which predictor**: all watch every ACK; the one that saved most of the wait of late asks.
//! - **Wrong predictions** cost a grant that nobody uses. They are counted
//!   ([`Metrics::uplink_requests_wrong`]), and a predictor of whose requests more than `worst` are for
//!   nothing asks no more until it is right again.
//! - At most one request a frame, of at most a packet's length: what is due in the same frame is asked for
//!   together.
//!
//! Wrong is a request whose turn was told as unused, or for which no packet came within `tolerance` of its
//! turn and of the expected time.
//!
//! [`GrantFrames`]: LinkEventKind::GrantFrames
//! [`Grant`]: LinkEventKind::Grant
//! [`GrantUnused`]: LinkEventKind::GrantUnused

mod beats;
mod config;
mod delay;
mod flow;
mod predict;
mod requests;
mod settings;
#[cfg(test)]
mod tests;

use crate::action::{Action, Actions, Rewrite, Verdict};
use crate::flows::{Flows, Seen};
use crate::link_event::{Cause, LinkEvent, LinkEventKind};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{Direction, PacketView, StationId, TcpFlags};
use crate::time::{Duration, Instant};
use crate::units::Bytes;

use beats::Beats;
pub use config::{FramesAhead, Lock, LookAheadConfig};
use delay::{Access, AccessDelay, Plan};
use flow::{Due, Flow, Habits, Outlook};
use predict::Predictor;
use requests::{Ask, Requests, Waste};

/// The most that one request asks for: a packet of Ethernet's size. What is beyond it rides on the grant.
const MOST_BYTES: u32 = 1500;
/// The most requests that wait for an access under way: a few streams with an ACK a frame.
const MOST_PUT_OFF: usize = 64;

/// Look-ahead as a [`Mechanism`].
#[derive(Debug)]
pub struct LookAhead {
    config: LookAheadConfig,
    /// Length of a frame.
    frame: Duration,
    /// The station, as the last packet named it.
    station: StationId,
    beats: Beats,
    access: Access,
    delay: AccessDelay,
    habits: Habits,
    flows: Flows<Flow>,
    requests: Requests,
    /// Requests that were not made, because their predictor is wrong too often.
    unmade: Requests,
    waste: Waste,
    /// Requests for a stream's ACKs that wait for the access under way, each with its bytes.
    put_off: Vec<(Due, u32)>,
    /// No connection has a request due before this.
    next: Option<Instant>,
    /// The last request's frame is over.
    free: Instant,
    metrics: Metrics,
}

impl LookAhead {
    /// A station that has seen nothing.
    #[must_use]
    pub fn new(config: &LookAheadConfig) -> Self {
        let requests = Requests::new(config.tolerance, config.period);
        Self {
            config: *config,
            frame: config.frame,
            station: StationId(0),
            beats: Beats::new(config),
            access: Access::default(),
            delay: AccessDelay::default(),
            habits: Habits::new(ack_len(config)),
            flows: Flows::new(config.max_flows, config.flow_seed),
            unmade: requests.clone(),
            requests,
            waste: Waste::new(config.worst),
            put_off: Vec::with_capacity(MOST_PUT_OFF),
            next: None,
            free: Instant::ZERO,
            metrics: Metrics::default(),
        }
    }

    fn forget(&mut self) {
        self.beats.forget();
        self.access = Access::default();
        self.delay = AccessDelay::default();
        self.habits = Habits::new(ack_len(&self.config));
        self.flows = Flows::new(self.config.max_flows, self.config.flow_seed);
        self.requests.forget();
        self.unmade.forget();
        self.waste.forget();
        self.put_off.clear();
        self.next = None;
    }

    /// Makes the requests that are due, as one.
    fn ask(&mut self, now: Instant, out: &mut Actions) {
        if now < self.free {
            return;
        }
        let Self { flows, beats, waste, config, frame, delay, access, put_off, .. } = self;
        let look = outlook(config, *frame, delay, beats, now);
        let plan = |expected| {
            if look.learned { access.plan(now, expected, look.lead, look.frame) } else { Plan::Now }
        };
        let mut next: Option<Instant> = None;
        let mut wake = |at: Instant| next = Some(next.map_or(at, |next| next.min(at)));
        let (mut made, mut unmade) = (None, None);
        for (_, flow) in flows.iter_mut() {
            if flow.due.is_some_and(|due| due.by == Predictor::Heartbeat) && !beats.is_locked() {
                flow.due = None;
            }
            if let Some(due) = flow.due.filter(|due| due.at <= now || due.put_off) {
                match (waste.allows(due.by), plan(due.expected)) {
                    (false, _) => add(&mut unmade, due, flow.ack_len),
                    (true, Plan::Now) => add(&mut made, due, flow.ack_len),
                    (true, Plan::Later(at)) if due.by == Predictor::Stream => {
                        // The stream's next ACK has a request of its own.
                        if put_off.len() < MOST_PUT_OFF {
                            put_off.push((Due { at, put_off: true, ..due }, flow.ack_len));
                        }
                    }
                    (true, Plan::Later(at)) => {
                        flow.due = Some(Due { at, put_off: true, ..due });
                        wake(at);
                        continue;
                    }
                }
                flow.asked(due, &look);
            }
            if let Some(due) = flow.due {
                wake(due.at);
            }
        }
        put_off.retain_mut(|(due, len)| match plan(due.expected) {
            // Its ACK has come, or comes now.
            _ if due.expected <= now => false,
            Plan::Now => {
                add(&mut made, *due, *len);
                false
            }
            Plan::Later(at) => {
                due.at = at;
                wake(at);
                true
            }
        });
        self.next = next;
        if let Some(ask) = unmade
            && !self.unmade.is_full()
        {
            self.unmade.add(ask, u64::MAX);
        }
        if let Some(ask) = made
            && !self.requests.is_full()
        {
            let bytes = u64::from(ask.bytes);
            let until = self.access.on_request(now, bytes, self.frame);
            self.requests.add(ask, until);
            self.metrics.uplink_requests += 1;
            self.free = now + self.frame;
            out.push(Action::RequestUplink { station: self.station, bytes: Bytes(bytes) });
        }
    }

    /// Counts the requests whose fate is known.
    fn settle(&mut self, now: Instant) {
        while let Some(outcome) = self.requests.settle(now) {
            self.metrics.uplink_requests_wrong += u64::from(outcome.wrong);
            self.waste.add(outcome);
        }
        while let Some(outcome) = self.unmade.settle(now) {
            self.waste.add(outcome);
        }
    }

    fn on_grant(&mut self, now: Instant, at: Instant, bytes: Bytes, out: &mut Actions) {
        if let Some(delay) = self.access.on_grant(now, at, bytes.0, self.frame) {
            self.delay.add(delay, self.frame);
        }
        self.requests.on_grant(at, self.access.granted());
        if self.config.lock == Lock::Learned && self.next.is_some() {
            // What was put off until this grant.
            self.next = Some(now);
            self.ask(now, out);
        }
    }

    fn on_frames(&mut self, period: Duration) {
        // Delays are counted in frames.
        if !period.is_zero() && period != self.frame {
            self.frame = period;
            self.delay = AccessDelay::default();
        }
    }

    fn is_own(&self, station: StationId) -> bool {
        self.metrics.packets == 0 || station == self.station
    }
}

/// An ACK's length until one was seen.
fn ack_len(config: &LookAheadConfig) -> u32 {
    u32::try_from(config.bytes.0).unwrap_or(MOST_BYTES).clamp(1, MOST_BYTES)
}

fn outlook<'a>(
    config: &LookAheadConfig,
    frame: Duration,
    delay: &AccessDelay,
    beats: &'a Beats,
    now: Instant,
) -> Outlook<'a> {
    Outlook {
        now,
        frame,
        lead: config.n.lead(delay, frame, config.period),
        margin: match config.n {
            FramesAhead::Measured => frame,
            FramesAhead::Fixed(_) => Duration::ZERO,
        },
        learned: match config.lock {
            Lock::Learned => true,
            Lock::Printed | Lock::Beats => false,
        },
        at_once: config.at_once,
        beats,
    }
}

/// Adds an ACK to what is asked for.
fn add(ask: &mut Option<Ask>, due: Due, len: u32) {
    let Due { expected, by, .. } = due;
    let ask = ask.get_or_insert(Ask { bytes: 0, expected, by });
    ask.bytes = ask.bytes.saturating_add(len).min(MOST_BYTES);
    ask.expected = ask.expected.max(expected);
}

impl Mechanism for LookAhead {
    fn name(&self) -> &'static str {
        "look-ahead"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.metrics.packets += 1;
        self.station = packet.station;
        self.settle(now);
        if packet.direction == Direction::Uplink {
            self.requests.on_uplink(now, packet.len);
            self.unmade.on_uplink(now, packet.len);
            self.access.on_packet(now, u64::from(packet.len), self.frame);
        }
        let tcp = packet.tcp;
        if tcp.flags.contains(TcpFlags::RST) {
            self.flows.remove(packet.flow);
            return Verdict::Forward(Rewrite::NONE);
        }
        let Self { flows, beats, habits, config, frame, delay, .. } = self;
        let look = outlook(config, *frame, delay, beats, now);
        let Seen { value: flow, evicted, .. } = flows.see(now, packet.flow, || Flow::new(habits));
        self.metrics.flow_evictions += u64::from(evicted.is_some());
        match packet.direction {
            Direction::Downlink => flow.on_segment(tcp, habits, &look),
            Direction::Uplink if tcp.flags.contains(TcpFlags::ACK) => {
                let pure = tcp.is_pure_ack();
                // A longer one is no ACK that a receiver sends.
                let len = Some(packet.len).filter(|len| pure && (1..=MOST_BYTES).contains(len));
                let by_timer = flow.on_ack(len, habits, &look);
                let due = flow.due;
                if pure {
                    self.beats.on_ack(now, by_timer.unwrap_or(false));
                }
                self.note(now, due, out);
                return Verdict::Forward(Rewrite::NONE);
            }
            Direction::Uplink => {}
        }
        let due = flow.due;
        self.note(now, due, out);
        Verdict::Forward(Rewrite::NONE)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        match event.kind {
            LinkEventKind::Grant { station, at, bytes } if self.is_own(station) => {
                self.on_grant(now, at, bytes, out);
            }
            LinkEventKind::GrantUnused { station, bytes } if self.is_own(station) => {
                self.access.on_unused(bytes.0);
                if let Some(outcome) = self.requests.on_unused(now, bytes.0) {
                    self.metrics.uplink_requests_wrong += 1;
                    self.waste.add(outcome);
                }
            }
            LinkEventKind::GrantFrames { period } => self.on_frames(period),
            // The wait for a grant is what is measured.
            LinkEventKind::FreezeStarted { cause, .. } if cause != Cause::Grant => self.access.on_silence(),
            LinkEventKind::StationLeft { station } if self.is_own(station) => self.forget(),
            LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::StationLeft { .. }
            | LinkEventKind::FreezeStarted { .. }
            | LinkEventKind::FreezeEnded { .. }
            | LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::TransmitRoom { .. } => {}
        }
        self.settle(now);
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        match *kind {
            LinkEventKind::Grant { station, .. }
            | LinkEventKind::GrantUnused { station, .. }
            | LinkEventKind::StationLeft { station } => self.is_own(station),
            LinkEventKind::GrantFrames { .. } => true,
            LinkEventKind::FreezeStarted { cause, .. } | LinkEventKind::FreezeEnded { cause, .. } => {
                cause != Cause::Grant
            }
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::TransmitRoom { .. } => false,
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        self.settle(now);
        if self.next.is_some_and(|due| due <= now) {
            self.ask(now, out);
        }
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.next.map(|due| due.max(self.free))
    }

    fn is_holding(&self) -> bool {
        false
    }

    fn flush(&mut self, now: Instant, _out: &mut Actions) {
        self.settle(now);
        self.forget();
    }

    fn metrics(&self) -> Metrics {
        let lead = self.config.n.lead(&self.delay, self.frame, self.config.period);
        let uplink_lead_frames = lead.as_nanos() / self.frame.as_nanos().max(1);
        Metrics { flows: self.flows.len() as u64, uplink_lead_frames, ..self.metrics }
    }
}

impl LookAhead {
    /// A connection may have a new request due.
    fn note(&mut self, now: Instant, due: Option<Due>, out: &mut Actions) {
        let Some(due) = due else { return };
        self.next = Some(self.next.map_or(due.at, |next| next.min(due.at)));
        if due.at <= now {
            self.ask(now, out);
        }
    }
}
