//! An uplink that is granted: IEEE 802.16d/e, and DOCSIS and 5G with the same engine.
//!
//! Sources: lookahead sections II-A and II-C with figures 1 and 2; IEEE Std 802.16-2004, clauses 6.3.6
//! (requests and grants), 6.3.7 (frames), 6.3.8 (contention); 3GPP TS 38.321, clauses 5.4.4 and 5.4.5
//! (scheduling request, buffer status report). Sees queued packets, requests ahead of packets, and the
//! radio's condition; emits deliveries, drops, and link events of grants. Times stand in `config.rs`.
//!
//! One random access, where a request has two steps (figure 2; `n` is an uplink frame):
//!
//! ```text
//! n                    code in a slot of the contention part; two that draw the same one collide
//! n + first_answer     the station's message with the bytes: what waits by then, and what it asks for ahead
//!   + second_answer    its burst, with a request for what came meanwhile (piggyback)
//! ```
//! Each frame is handled in at most five steps (two more if its silences are told), and in none if there is
//! nothing to do:
//!
//! ```text
//! start    the base station fills the downlink subframe, and writes the map of uplink frame n + heard_ahead
//! heard    its grants are told
//! down end what came whole is delivered
//! up       stations fill their bursts, and send messages and requests
//! up end   what came whole is delivered; the base station learns of requests
//! ```
//! Choices where paper and standard leave one:
//! - the implementation's delay (section II-C names only its sum) is spread over the sequence: half of it,
//!   rounded up, before the message, the rest before the burst, and of the sum a quarter between hearing of a
//!   grant and its burst;
//! - windows of the backoff count frames; in its frame a station draws code and slot uniformly. The standard
//!   counts opportunities, which is the same where a window is a multiple of a frame's;
//! - a station whose granted burst is still to come does not contend: it piggybacks in that burst;
//! - a packet that arrives at the very start of a subframe is too late for it, but for what a mechanism
//!   releases when it is told that a pause is over;
//! - messages and piggybacked requests are lost only to primary users and silences; a message takes 6 bytes
//!   of the uplink, and neither has a slot of its own in the contention part;
//! - each burst is timed by its rate alone: no preamble, no rounding to slots;
//! - after the last try the packet that waited longest is dropped, as clause 6.3.8 has it, and the rest
//!   starts anew;
//! - no burst is granted or filled that would not end by the next scheduled silence of its station. What a
//!   silence cuts, or noise or a primary user spoils, is sent again first; the base station, which had
//!   granted that burst and did not read it, grants it again by itself, `second_answer` frames later;
//! - a primary user that nobody has noticed spoils the whole subframe: packets in it count as collided.

pub mod accounting;
mod burst;
pub mod config;
mod contention;
mod downlink;
mod error;
mod in_flight;
mod map;
pub mod model;
mod standard;
mod station;
mod success;
mod uplink;

use std::collections::VecDeque;

use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use linkhold_core::packet::StationId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes};

use self::accounting::UplinkAccounting;
use self::burst::{Partial, Subframe};
use self::config::{Duplexing, GrantsConfig, Layout, Requesting};
use self::contention::Opportunities;
use self::in_flight::{Allocation, Message, Share, Try};
use self::station::Station;
use super::context::Context;
use crate::frame::RadioId;
use crate::rng::Stream;

/// When each step is due next. At one instant they come in this order: what ends is known to what starts.
#[derive(Clone, Copy, Debug)]
struct Timers {
    /// Stations that began to wait are told of.
    tell: Instant,
    up_end: Instant,
    down_end: Instant,
    /// A pause of the downlink that has been told is over.
    resume: Instant,
    start: Instant,
    heard: Instant,
    up: Instant,
}

const NEVER: Instant = Instant::FAR_FUTURE;

impl Timers {
    const NONE: Self = Self {
        tell: NEVER,
        up_end: NEVER,
        down_end: NEVER,
        resume: NEVER,
        start: NEVER,
        heard: NEVER,
        up: NEVER,
    };

    fn first(&self) -> Instant {
        let subframes = self.up_end.min(self.down_end).min(self.up);
        self.tell.min(self.resume).min(self.start).min(self.heard).min(subframes)
    }
}

/// The cell's medium access.
#[derive(Clone, Debug)]
pub(crate) struct Grants {
    config: GrantsConfig,
    layout: Layout,
    stations: Vec<Station>,
    opportunities: Opportunities,
    down: Subframe,
    down_partial: Option<Partial>,
    up: Subframe,
    /// Bursts of coming uplink frames, by frame.
    allocations: VecDeque<Allocation>,
    /// How many of them, at the end, the stations have not heard of.
    untold: usize,
    /// On the air in the uplink subframe.
    tries: Vec<Try>,
    messages: Vec<Message>,
    /// Bursts of the subframe with room left, and how much.
    unused: Vec<(StationId, Bytes)>,
    /// Scratch of the map.
    shares: Vec<Share>,
    /// The station with which the next map begins.
    turn: usize,
    timers: Timers,
    /// The first of [`Timers`].
    due: Instant,
    /// First frames whose start, and whose uplink subframe, have not been handled.
    next_start: u64,
    next_up: u64,
    /// The first uplink frame in which a station's access has something to do, or later than all.
    next_access: u64,
    /// The base station may know of bytes that it has not granted.
    demanded: bool,
    /// Stations with a burst in the uplink subframe.
    served: Vec<usize>,
    /// The network is silent: nothing is scheduled.
    silent: bool,
    /// The downlink's pause has been told.
    paused: bool,
    counters: UplinkAccounting,
    stream: Stream,
}

impl Grants {
    pub(crate) fn new(config: &GrantsConfig, stations: u32, seed: u64) -> Self {
        let opportunities = match config.requesting {
            Requesting::Contention { codes, subchannels, slots, .. } => {
                codes as usize * subchannels as usize * slots as usize
            }
            Requesting::Reserved { .. } => 0,
        };
        Self {
            config: *config,
            layout: config.layout(),
            stations: vec![Station::default(); stations as usize],
            opportunities: Opportunities::new(opportunities),
            down: Subframe::default(),
            down_partial: None,
            up: Subframe::default(),
            allocations: VecDeque::new(),
            untold: 0,
            tries: Vec::new(),
            messages: Vec::new(),
            unused: Vec::new(),
            shares: Vec::with_capacity(stations as usize),
            turn: 0,
            timers: Timers::NONE,
            due: NEVER,
            next_start: 0,
            next_up: 0,
            next_access: u64::MAX,
            demanded: false,
            served: Vec::with_capacity(stations as usize),
            silent: false,
            paused: false,
            counters: UplinkAccounting::default(),
            stream: Stream::new(seed, "mac", 0),
        }
    }

    pub(crate) const fn next(&self) -> Instant {
        self.due
    }

    pub(crate) const fn accounting(&self) -> UplinkAccounting {
        self.counters
    }

    /// Packets out of the radios' queues and not delivered.
    pub(crate) fn held(&self) -> u64 {
        let held: u64 = self.stations.iter().map(Station::held).sum();
        let on_air = self.down.done.len() + self.up.done.len();
        held + on_air as u64 + u64::from(self.down_partial.is_some())
    }

    pub(crate) fn on_enqueue(&mut self, now: Instant, sender: RadioId, len: u32, context: &Context<'_>) {
        match sender.station() {
            None => {
                if !self.silent {
                    self.timers.start = self.timers.start.min(self.frame_start(self.first_start(now, false)));
                }
            }
            Some(station) => {
                let index = station.0 as usize;
                self.arrived(index, u64::from(len));
                self.want(now, index, false, context);
                if self.config.tell_silences && !self.stations[index].waiting_told {
                    self.timers.tell = now;
                }
            }
        }
        self.due = self.timers.first();
    }

    /// A station asks ahead of a packet of so many bytes.
    pub(crate) fn on_request(&mut self, now: Instant, station: StationId, bytes: Bytes) {
        let index = station.0 as usize;
        let Some(asking) = self.stations.get_mut(index) else { return };
        asking.ahead = asking.ahead.saturating_add(bytes.0 + u64::from(self.config.header));
        self.begin_access(now, index, false);
        self.due = self.timers.first();
    }

    pub(crate) fn step(&mut self, context: &mut Context<'_>) {
        let now = self.due;
        let due = |timer: &mut Instant| {
            let is_due = *timer == now;
            if is_due {
                *timer = NEVER;
            }
            is_due
        };
        if due(&mut self.timers.tell) {
            self.tell_waiting(now, context);
        } else if due(&mut self.timers.up_end) {
            self.end_up(now, false, context);
            self.look_at_stations(now, context);
        } else if due(&mut self.timers.down_end) {
            self.end_down(now, context);
        } else if due(&mut self.timers.resume) {
            self.resume_down(now, context);
        } else if due(&mut self.timers.start) {
            let frame = now.as_nanos() / self.config.frame.as_nanos();
            self.next_start = frame + 1;
            self.fill_down(now, context);
            self.write_map(now, frame + u64::from(self.config.heard_ahead()), context);
        } else if due(&mut self.timers.heard) {
            self.tell_grants(now, context);
        } else if due(&mut self.timers.up) {
            let since = now.since(Instant::ZERO + self.layout.up_start);
            let frame = since.as_nanos() / self.config.frame.as_nanos();
            self.next_up = frame + 1;
            if self.send_up(now, frame, context) {
                self.look_at_stations(now, context);
            }
        }
        self.arm(now, context);
    }

    pub(crate) fn on_radio_change(&mut self, now: Instant, context: &mut Context<'_>) {
        if context.radio.collides() {
            self.down.collided |= self.down.open;
            self.up.collided |= self.up.open;
        }
        self.silent = context.radio.stops_network();
        self.cut_down(context);
        if self.silent {
            self.end_up(now, true, context);
            self.take_back_allocations(now);
            let tell = self.timers.tell;
            self.timers = Timers { tell, ..Timers::NONE };
            self.due = self.timers.first();
            return;
        }
        for (station, index) in self.stations.iter_mut().zip(0..) {
            station.cut |= station.in_burst && context.radio.stops_station(StationId(index));
        }
        self.look_at_stations(now, context);
        self.arm(now, context);
    }

    // ---- frames ----

    fn frame_start(&self, frame: u64) -> Instant {
        Instant::from_nanos(self.config.frame.as_nanos().saturating_mul(frame))
    }

    fn up_start(&self, frame: u64) -> Instant {
        self.frame_start(frame) + self.layout.up_start
    }

    /// The first frame that starts after `now` (or at it, if `at_once`) and has not been handled.
    fn first_start(&self, now: Instant, at_once: bool) -> u64 {
        first_from(now.as_nanos(), self.config.frame, at_once).max(self.next_start)
    }

    /// The first frame whose uplink subframe starts after `now` (or at it, if `at_once`) and has not been
    /// handled.
    fn first_up(&self, now: Instant, at_once: bool) -> u64 {
        let Some(since) = now.as_nanos().checked_sub(self.layout.up_start.as_nanos()) else {
            return self.next_up;
        };
        first_from(since, self.config.frame, at_once).max(self.next_up)
    }

    /// Net rate of an uplink burst, bit/s.
    fn uplink_rate(&self, context: &Context<'_>) -> BitRate {
        let air_time = context.radio.air_time();
        match self.config.uplink_rate {
            Some(rate) => rate.mul_f64(air_time.efficiency().get()),
            None => air_time.effective_rate(),
        }
    }

    /// Starts the accesses that became necessary, and finds out when the first has something to do. For after
    /// what changes accesses, or what stations have asked for.
    fn look_at_stations(&mut self, now: Instant, context: &Context<'_>) {
        for index in 0..self.stations.len() {
            self.want(now, index, true, context);
        }
        let accesses = self.stations.iter().filter_map(|station| station.access.frame());
        self.next_access = accesses.min().unwrap_or(u64::MAX);
    }

    /// Finds out when a frame's start and an uplink subframe have something to do.
    fn arm(&mut self, now: Instant, context: &Context<'_>) {
        self.timers.start = NEVER;
        self.timers.up = NEVER;
        if !self.silent {
            let from = self.first_start(now, true);
            let sends = self.down_partial.is_some() || context.contenders.next_ready(&(0..1), 0).is_some();
            let frame = if sends || self.tells_pauses() { Some(from) } else { self.next_map(from) };
            if let Some(frame) = frame {
                self.timers.start = self.frame_start(frame);
            }
            self.timers.resume = if self.paused { self.timers.start } else { NEVER };
            let bursts = self.allocations.front().map_or(u64::MAX, |allocation| allocation.frame);
            let frame = self.next_access.min(bursts);
            if frame < u64::MAX {
                self.timers.up = self.up_start(frame.max(self.first_up(now, true)));
            }
        }
        self.due = self.timers.first();
    }

    // ---- what is told ----

    fn tells_pauses(&self) -> bool {
        self.config.tell_silences && matches!(self.config.duplexing, Duplexing::Tdd { .. })
    }

    fn tell_grants(&mut self, now: Instant, context: &mut Context<'_>) {
        let heard = self.allocations.len() - self.untold.min(self.allocations.len());
        for allocation in self.allocations.range(heard..) {
            let station = StationId(allocation.station as u32);
            let kind = LinkEventKind::Grant { station, at: allocation.at, bytes: Bytes(allocation.bytes) };
            context.out.link(LinkEvent::at(now, kind));
        }
        self.untold = 0;
    }

    /// Tells of the stations that began, or ceased, to wait for a grant.
    fn tell_waiting(&mut self, now: Instant, context: &mut Context<'_>) {
        if !self.config.tell_silences {
            return;
        }
        let header = u64::from(self.config.header);
        for (station, index) in self.stations.iter_mut().zip(0..) {
            let (packets, _) = context.contenders.backlog(index as usize + 1);
            let waits = !station.in_burst && (packets > 0 || station.held_bytes(header) > 0);
            if waits != station.waiting_told {
                station.waiting_told = waits;
                tell_silence(now, Scope::Station(StationId(index)), waits, None, context);
            }
        }
    }
}

/// Tells that waiting for a grant begins or ends.
fn tell_silence(
    now: Instant,
    scope: Scope,
    begins: bool,
    expected: Option<Duration>,
    context: &mut Context<'_>,
) {
    let cause = Cause::Grant;
    let kind = if begins {
        LinkEventKind::FreezeStarted { scope, cause, expected }
    } else {
        LinkEventKind::FreezeEnded { scope, cause }
    };
    context.out.link(LinkEvent::at(now, kind));
}

/// The number of the first of the periods, counted from time 0, that starts after `nanos`, or at `nanos`.
const fn first_from(nanos: u64, period: Duration, at_once: bool) -> u64 {
    let number = nanos / period.as_nanos();
    if at_once && nanos.is_multiple_of(period.as_nanos()) { number } else { number + 1 }
}
