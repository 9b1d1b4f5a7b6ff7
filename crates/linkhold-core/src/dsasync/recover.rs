//! Recovery of what a silence took before it was noticed, from copies.
//!
//! Beside the paper (`dsasync`), whose base station knows each silence at its first moment. Real base
//! stations know late, and what goes down meanwhile collides and is given up by the radio. Source:
//! Balakrishnan et al. 1995 (Snoop) for the copies; RFC 8985 (RACK) for what is lost; RFC 3522 and RFC 2883
//! for what the sender is told. Sees what goes down, ACKs, silences and their ends; emits `SendCopy` and
//! `Forget`, asks for copies, keeps ACKs back for a bounded time (`recover/hide.rs`), and shuts a station's
//! gate for held packets.
//!
//! When a silence is noticed, whatever its stations have not acknowledged is suspect. When it ends:
//! - If the station had been heard just before, the silence was noticed at once. Nothing is sent again unless
//!   ACKs, or their absence for a while, show a loss.
//! - Otherwise copies of the flow's first two suspects go down first, with bytes and timestamps as they were,
//!   and nothing that is held for the station follows before they are answered. What the answers prove
//!   delivered is no suspect any more. The other suspects follow, then what is held. So the receiver sees no
//!   hole, and what the sender itself has sent again comes last.
//!   Only the four flows with the oldest suspects begin so: with many flows two copies each would be
//!   needless.
//!
//! Two copies, because a station answers every second segment at once, and a single one perhaps after 40 ms
//! (RFC 1122 section 4.2.3.2). How late the silence was noticed is read from the ACKs, since few radios say
//! it. If no answer comes in time, the gate opens, and the other suspects go down unproved.
//!
//! A copy has the timestamp of its first transmission. Once the station has taken a later timestamp, from a
//! segment that the sender sent again, it throws the copy away (PAWS, RFC 7323 section 5) and answers with a
//! duplicate ACK: on emulated Wi-Fi 100 copies went in vain after a sender's timeout. So the agent lets go of
//! such copies. Holding what the sender sends again until the copies have gone was tried, and not kept
//! (ARCHITECTURE.md).
//!
//! Before anybody has told of a silence, the ACKs may show it: a station that owes several for longer than an
//! ACK takes gets nothing more, for [`DsaSyncConfig::longest_lateness`] at most. So what it cannot hear does
//! not stand in the router's queue before the copies when the radio returns.
//!
//! Holes that remain are repaired: what was sent before something that has come through counts as lost
//! after a quarter of the local round trip (`copies/suspects.rs`). Where the channel's rate is told, what
//! goes down fits into the radio's queue, so every loss is the radio's, unless the flow's segments wait
//! below for longer than was thought ([`waits_in_router`]). In that case, and where no rate is told, a loss
//! outside of silences may be the router's signal of congestion: only suspects are repaired, and the sender
//! hears of the rest. Traffic that does not pass the agent can fill the router's queue all the same; what
//! it pushes out is repaired three times at most. A copy that goes before a silence is noticed counts as one
//! of the three: if silences take all of them, the sender has to send that segment again.
//!
//! [`DsaSyncConfig::longest_lateness`] is 50 ms by default. That is an assumption: up to this lateness the
//! project wants to keep a sender's window. On an emulated radio (mac80211_hwsim) silences were told some 3
//! ms late (`scenarios/as-told.toml`); nobody measured a real driver.
//!
//! Copies are bounded by [`DsaSyncConfig::copies`]; the oldest makes room. Where the rate is told, they are
//! bounded by what the radio can carry in the longest lateness and a local round trip as well. That round
//! trip is what the station's answers took lately, if that is longer than its least: segments that wait in
//! the router's queue keep their copies meanwhile. (By the least alone, newer copies pushed out what a
//! silence took just before it was told; `tests/recover_properties.rs` found it with eight flows.) The bound
//! does not hold while the oldest copy is of a flow that recovers from a silence: what the silence took waits
//! for its turn for longer than that, and copies of newer segments must not push it out. The measured rate is
//! no such bound: after a time in which senders sent little, it is the senders' rate and not the radio's.
//! With it, what a silence took of the next burst was pushed out (tried; `tests/recover_properties.rs` found
//! it). Copies do not count in `B_alloc`, because the driver has sent the packet itself.
//!
//! [`DsaSyncConfig::copies`]: super::config::DsaSyncConfig::copies
//! [`DsaSyncConfig::longest_lateness`]: super::config::DsaSyncConfig::longest_lateness

mod acks;
mod hide;
mod state;

use std::collections::VecDeque;

use super::config::DsaSyncConfig;
use super::gates::Gates;
use super::pacer::Pacer;
use super::per_station::PerStation;
use super::round_trip::{RoundTrips, waits_in_router};
use super::shared::Shared;
use super::windows::Windows;
use crate::action::Actions;
use crate::copies::suspects::{Forwarded, Judging, Remembered, Resent};
use crate::link_event::Scope;
use crate::packet::{StationId, TcpFlags, TcpSegment};
use crate::time::{Duration, Instant};
use crate::units::{BitRate, Seq};

use hide::{Doubled, MOST_DOUBLED};
use state::{LEAST_LATE, Mute, Phase, State};

/// Most copies sent of one segment.
const TRIES: u8 = 3;
/// Copies that go down before anything else, and are answered at once.
const PROBES: usize = 2;
/// Most flows that are probed after a silence, those of the oldest suspects: a late silence takes a few
/// frames, which were the first in the router's queue. The other flows are judged by their ACKs, or by the
/// lack of them.
const MOST_PROBED: usize = 4;
/// Most copies kept of one flow, and of all.
const MOST_OF_FLOW: usize = 4096;
const MOST_COPIES: usize = 65_536;
/// From this length on the order is swept, each time that half of it is new.
const LONG_ORDER: usize = 4096;
/// Most entries of the order looked at to make room for one whose copies were let go of before.
const MOST_LOOKED_AT: u32 = 1024;
/// Most copies let go of to make room for one.
const MOST_LET_GO: u32 = 64;
/// Time that copies are kept beyond the radio's part of the round trip: for the router's queue, and for what
/// a station's ACK waits for.
const BEYOND_RADIO: Duration = Duration::from_millis(10);
/// Radio part of the round trip where it is not known.
const UNKNOWN_RADIO: Duration = Duration::from_millis(20);
/// Bytes of copies that are kept however slow the channel is: an initial window (RFC 6928).
const LEAST_COPIES: u64 = 10 * 1514;
/// A copy that nobody asked for is let go of after this long.
const LONGEST_KEPT: Duration = Duration::from_secs(4);
/// Timers of several flows that are closer together than this share a timeout.
const GRAIN: Duration = Duration::from_micros(250);
/// Least time that likely evidence is doubted.
const LEAST_DOUBT: Duration = Duration::from_millis(1);

/// A copy in the order in which copies were made.
#[derive(Clone, Copy, Debug)]
struct Kept {
    slot: u32,
    seq: Seq,
    number: u64,
}

/// What bounds the bytes of copies.
#[derive(Clone, Copy, Debug)]
enum Bound {
    Bytes(u64),
    /// What the radio carries until an answer has come, told of a silence as late as may be.
    Carried {
        rate: BitRate,
        lateness: Duration,
        local: Duration,
        most: u64,
    },
}

impl Bound {
    /// Where the oldest copy's answer takes so long.
    fn bytes(self, answer: Duration) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Carried { rate, lateness, local, most } => {
                rate.bytes_in(lateness + local.max(answer)).0.max(LEAST_COPIES).min(most)
            }
        }
    }
}

/// What becomes of an ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Pass,
    /// It is kept back here.
    Hidden,
    /// It says nothing that the sender should hear.
    Dropped,
    /// Only its D-SACK block is not for the sender: an ACK without blocks is to be made in its place.
    Stripped,
}

/// Copies of what went down, and what is done with them.
#[derive(Debug)]
pub(super) struct Recover {
    on: bool,
    states: Vec<State>,
    /// All copies, the oldest first. Some may have been let go of since.
    order: VecDeque<Kept>,
    /// Copies added since those that were let go of were taken out.
    since_swept: usize,
    /// Flows with copies to send, in turn.
    line: VecDeque<u32>,
    /// Flows with something due.
    active: Vec<u32>,
    next: Option<Instant>,
    /// When each station was last heard, on whatever flow, and when any was.
    heard: PerStation<Instant>,
    heard_any: Instant,
    pub gates: Gates,
    /// A gate was opened: its station may be served.
    opened: bool,
    hidden: u64,
}

/// How long to wait for the station after `waits` unanswered waits: `tail` doubled for each, at most 64 times
/// `tail`.
fn backed_off(tail: Duration, waits: u8) -> Duration {
    tail * (1 << waits.min(6))
}

impl Recover {
    pub fn new(config: &DsaSyncConfig) -> Self {
        Self {
            on: config.recover,
            states: Vec::new(),
            order: VecDeque::new(),
            since_swept: 0,
            line: VecDeque::new(),
            active: Vec::new(),
            next: None,
            heard: PerStation::new(config.monitor.max_stations),
            heard_any: Instant::ZERO,
            gates: Gates::new(config.monitor.max_stations),
            opened: false,
            hidden: 0,
        }
    }

    /// True if copies are kept at all.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// How many ACKs are kept back now.
    pub fn hidden(&self) -> u64 {
        self.hidden
    }

    /// True if an arrival for the station has to wait: copies go first, or the station's gate is shut.
    #[inline]
    pub fn blocks(&self, station: StationId) -> bool {
        !self.line.is_empty() || self.gates.is_shut(station)
    }

    /// True if copies wait to be sent.
    #[inline]
    pub fn has_line(&self) -> bool {
        !self.line.is_empty()
    }

    /// True if copies wait to be sent, or a gate was opened.
    #[inline]
    pub fn has_work(&self) -> bool {
        self.opened || !self.line.is_empty()
    }

    /// True if a gate was opened since the last call.
    pub fn take_opened(&mut self) -> bool {
        core::mem::take(&mut self.opened)
    }

    #[inline]
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next
    }

    /// How losses of the flow are judged.
    fn judging(&self, now: Instant, shared: &Shared, pacer: &Pacer, slot: u32) -> Judging {
        let patience = self.states.get(slot as usize).map_or(Duration::ZERO, State::patience);
        let told = shared.monitor.capacity().is_some_and(|(rate, _)| rate.as_bps() > 0);
        Judging {
            patience,
            doubt: patience + (pacer.time_for(3 * 1514)).max(LEAST_DOUBT),
            all: told && shared.flows.get(slot).is_none_or(|flow| !waits_in_router(now, flow, pacer)),
            tries: TRIES,
        }
    }

    /// What bounds the bytes of copies; `radio`: the radio part of the station's round trip.
    fn bound(shared: &Shared, radio: Option<Duration>) -> Bound {
        let most = shared.config.copies.0;
        match shared.monitor.capacity() {
            Some((rate, efficiency)) if rate.as_bps() > 0 => Bound::Carried {
                rate: rate.mul_f64(efficiency.get()),
                lateness: shared.config.longest_lateness,
                local: radio.unwrap_or(UNKNOWN_RADIO) + BEYOND_RADIO,
                most,
            },
            Some(_) | None => Bound::Bytes(most),
        }
    }

    // ---- what goes down ----

    /// The sender sends `seq .. end` again.
    #[cold]
    pub fn sender_repeats(&mut self, slot: u32, acked: Option<Seq>, seq: Seq, end: Seq) {
        if !self.on {
            return;
        }
        let state = self.state(slot);
        state.repeated = Some(match state.repeated {
            Some((first, last)) if acked.is_none_or(|acked| last.after(acked)) => {
                (first.min(seq), last.max(end))
            }
            Some(_) | None => (seq, end),
        });
        state.copies.note_sender(seq, end);
        for doubled in state.doubled.iter_mut().filter(|doubled| doubled.overlaps(seq, end)) {
            doubled.by_sender = true;
        }
    }

    #[cfg(test)]
    pub fn repeated(&self, slot: u32) -> Option<(Seq, Seq)> {
        self.states.get(slot as usize).and_then(|state| state.repeated)
    }

    /// The flow's state, made if need be.
    fn state(&mut self, slot: u32) -> &mut State {
        if slot as usize >= self.states.len() {
            self.states.resize_with(slot as usize + 1, State::default);
        }
        &mut self.states[slot as usize]
    }

    /// A segment goes down now. True if the driver is to keep a copy.
    #[inline]
    pub fn keep(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &RoundTrips,
        slot: u32,
        segment: &Forwarded,
        out: &mut Actions,
    ) -> bool {
        if !self.on {
            return false;
        }
        let flow = shared.flows.known(slot);
        let (seq, end) = (segment.seq, segment.end);
        if !flow.is_real()
            || !end.after(seq)
            || flow.acked.is_none_or(|acked| !end.after(acked))
            || flow.down_max.is_none_or(|highest| end.after(highest))
        {
            return false;
        }
        let station = flow.station;
        let radio = round_trips.radio_part(station);
        // The bound is never less than this, so that it is seldom worked out.
        let least = LEAST_COPIES.min(shared.config.copies.0);
        let few = shared.metrics.kept_bytes + u64::from(segment.bytes) <= least;
        let bound = if few { Bound::Bytes(least) } else { Self::bound(shared, radio) };
        if !self.make_room(now, shared, u64::from(segment.bytes), bound, out) {
            return false;
        }
        self.state(slot);
        let state = &mut self.states[slot as usize];
        state.copies.set_least_round_trip(radio.unwrap_or_default());
        if state.copies.is_empty() {
            state.heard = now;
        }
        let Remembered::Kept(number) = state.copies.remember(now, segment, MOST_OF_FLOW) else {
            return false;
        };
        // While others are heard the station may only be waiting for its turn.
        let silent_for = now.since(state.heard.max(self.heard_any));
        let mute = state.falls_mute(silent_for);
        self.order.push_back(Kept { slot, seq, number });
        self.since_swept += 1;
        let metrics = &mut shared.metrics;
        metrics.kept_bytes += u64::from(segment.bytes);
        metrics.kept_bytes_peak = metrics.kept_bytes_peak.max(metrics.kept_bytes);
        if mute {
            let until = now + shared.config.longest_lateness;
            self.state(slot).mute = Mute::Since { until };
            self.shut_gate(slot, station);
            self.plan(slot, until);
        }
        true
    }

    /// Lets go of the oldest copies until `bytes` more fit. False if they do not fit all the same.
    #[inline]
    fn make_room(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        bytes: u64,
        bound: Bound,
        out: &mut Actions,
    ) -> bool {
        if self.order.len() >= LONG_ORDER && self.since_swept >= self.order.len() / 2 {
            self.sweep();
        }
        let (mut looked, mut let_go) = (0, 0);
        loop {
            let fits = |bound| shared.metrics.kept_bytes + bytes <= bound && self.order.len() < MOST_COPIES;
            let Some(&Kept { slot, seq, number }) = self.order.front() else {
                return fits(bound.bytes(Duration::ZERO));
            };
            let Some(state) = self.states.get_mut(slot as usize) else { return false };
            // What a silence took waits for its turn: it does not age, and the bound counts no time of
            // waiting.
            let quiet = state.phase == Phase::Quiet;
            let fits = fits(if quiet { bound.bytes(state.answer()) } else { shared.config.copies.0 });
            match state.copies.since(seq, number) {
                None if looked == MOST_LOOKED_AT => return fits,
                None => looked += 1,
                Some(since) if !fits || (quiet && now.since(since) > LONGEST_KEPT) => {
                    if let_go == MOST_LET_GO {
                        return fits;
                    }
                    let_go += 1;
                    shared.metrics.count(state.copies.let_go(seq, number, out));
                }
                Some(_) => return true,
            }
            self.order.pop_front();
        }
    }

    /// Takes out of the order what was let go of. Behind the copies of a station in a long silence, which do
    /// not age, those of the others pile up.
    #[cold]
    fn sweep(&mut self) {
        let states = &self.states;
        let is_kept = |kept: &Kept| {
            states
                .get(kept.slot as usize)
                .is_some_and(|state| state.copies.since(kept.seq, kept.number).is_some())
        };
        self.order.retain(is_kept);
        self.since_swept = 0;
    }

    /// A segment came back from the transmit queue.
    pub fn taken_back(&mut self, shared: &mut Shared, slot: u32, tcp: &TcpSegment, out: &mut Actions) {
        let Some(state) = self.states.get_mut(slot as usize) else { return };
        // The sequence number of a SYN or RST may be arbitrary and says nothing of its place. All copies
        // are of what followed a SYN (its arrival lets go of all), and what follows an RST needs no copies.
        // A segment that begins beyond all that this record sent down went down before the record was made,
        // for a connection that was reset, and all copies are of what followed it.
        let highest = shared.flows.known(slot).down_begun;
        let is_older = highest.is_none_or(|highest| tcp.seq.after(highest));
        let done = if is_older || tcp.flags.intersects(TcpFlags::SYN | TcpFlags::RST) {
            state.copies.clear(out)
        } else {
            state.copies.taken_back(tcp.seq, out)
        };
        shared.metrics.count(done);
    }

    /// Sends the next copy that may leave now. False if there is none.
    #[inline(never)]
    pub fn send_next(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        round_trips: &mut RoundTrips,
        pacer: &mut Pacer,
        out: &mut Actions,
    ) -> bool {
        while let Some(&slot) = self.line.front() {
            let Some(state) = self.states.get_mut(slot as usize) else { return false };
            let live = shared.flows.get(slot).is_some_and(|flow| !shared.monitor.tfp(flow.station));
            let Some(len) = state.copies.first_due().filter(|_| live) else {
                // Nothing is left to send, or the flow has moved to a station that is silent.
                state.in_line = false;
                if state.copies.first_due().is_some() {
                    state.copies.suspect_all();
                    state.silence_began(now, true);
                    self.open_gate(slot);
                }
                self.line.pop_front();
                continue;
            };
            if !pacer.allows(now, len) {
                return false;
            }
            let Some(Resent { seq, end, bytes, by_sender }) = state.copies.send_due(now, out) else {
                return false;
            };
            pacer.on_sent(now, bytes);
            // Until now there may have been nothing to answer.
            state.heard = now;
            // Karn: of a segment sent twice nobody can tell which one was answered.
            shared.flows.at(slot).radio_probe = None;
            round_trips.on_sent_again(now, shared.flows.at(slot), end, end.minus(seq) as u32);
            shared.metrics.copies_sent += 1;
            while state.doubled.len() >= MOST_DOUBLED
                || state.doubled.front().is_some_and(|doubled| doubled.is_past(now))
            {
                state.doubled.pop_front();
            }
            // A copy of its sender's may still be held here.
            let by_sender = by_sender
                || state.repeated.is_some_and(|(first, last)| first.before(end) && seq.before(last));
            state.doubled.push_back(Doubled { seq, end, at: now, by_sender });
            if self.line.len() > 1 {
                self.line.rotate_left(1);
            }
            return true;
        }
        false
    }

    fn join_line(&mut self, slot: u32) {
        let state = &mut self.states[slot as usize];
        if !state.in_line {
            state.in_line = true;
            self.line.push_back(slot);
        }
    }

    fn shut_gate(&mut self, slot: u32, station: StationId) {
        let shuts = &mut self.states[slot as usize].shuts;
        if shuts.is_none() {
            *shuts = Some(station);
            self.gates.shut(station);
        }
    }

    /// The station was heard, or nobody waits for it any more: [`Mute::Since`] ends, and `next` begins.
    fn end_mute(&mut self, slot: u32, next: Mute) {
        let state = &mut self.states[slot as usize];
        if matches!(state.mute, Mute::Since { .. }) {
            // An unanswered probe keeps the gate shut as well.
            if !matches!(state.phase, Phase::Probing { .. }) {
                self.open_gate(slot);
            }
        }
        self.states[slot as usize].mute = next;
    }

    fn open_gate(&mut self, slot: u32) {
        if let Some(station) = self.states[slot as usize].shuts.take() {
            self.opened |= self.gates.open(station);
        }
    }

    // ---- silences ----

    /// A silence was noticed. `told`: how long it has lasted by then, if somebody says so. Answers the same
    /// as far as the copies tell: zero if it was noticed at once.
    ///
    /// When the station was last heard says more than a clock of somebody else's. What is told counts for
    /// flows of which no round trip was measured yet.
    pub fn silence_began(
        &mut self,
        now: Instant,
        shared: &Shared,
        scope: Scope,
        told: Option<Duration>,
    ) -> Duration {
        let mut lasted = Duration::ZERO;
        for slot in 0..self.states.len() as u32 {
            if shared.flows.get(slot).is_none_or(|flow| !scope.covers(flow.station)) {
                continue;
            }
            let heard = match scope {
                Scope::Network => self.heard_any,
                Scope::Station(station) => self.heard.get(station).copied().unwrap_or_default(),
            };
            let state = &mut self.states[slot as usize];
            state.mute = Mute::No;
            self.open_gate(slot);
            let state = &mut self.states[slot as usize];
            if !state.doubled.is_empty() {
                state.stands_since.get_or_insert(now);
            }
            if !state.copies.suspect_all() {
                continue;
            }
            let unheard = now.since(state.heard.max(heard));
            let silent = match (state.late(), told) {
                (Some(time), _) => Some(unheard).filter(|&unheard| unheard > time),
                (None, Some(told)) => Some(told.min(unheard)).filter(|&silent| silent > LEAST_LATE),
                (None, None) => None,
            };
            // In a silence that goes on already nothing went down.
            let silent = silent.filter(|_| !state.is_threatened());
            lasted = lasted.max(silent.unwrap_or_default());
            let late = silent.is_some();
            state.silence_began(now, late);
        }
        lasted
    }

    /// A silence is over. Stations may still be silent because of another one.
    pub fn silence_ended(&mut self, now: Instant, shared: &Shared, pacer: &Pacer) {
        let mut oldest: [Option<(Instant, u32)>; MOST_PROBED] = [None; MOST_PROBED];
        for slot in 0..self.states.len() as u32 {
            let state = &mut self.states[slot as usize];
            let Some(flow) = shared.flows.get(slot) else { continue };
            if shared.monitor.tfp(flow.station) {
                continue;
            }
            state.goes_on(now);
            let Phase::Threatened { late, since } = state.phase else { continue };
            state.silence_ended(since, now);
            if state.copies.is_empty() {
                state.phase = Phase::Quiet;
                continue;
            }
            state.heard = now;
            let until = now + pacer.ahead(now) + state.tail();
            state.phase = Phase::Watching { until, waits: 0 };
            if late && let Some(since) = state.copies.first_sent() {
                let place = oldest.iter().position(|other| other.is_none_or(|(at, _)| since < at));
                if let Some(place) = place {
                    oldest[place..].rotate_right(1);
                    oldest[place] = Some((since, slot));
                }
            }
            self.plan(slot, until);
        }
        for (_, slot) in oldest.into_iter().flatten() {
            let state = &mut self.states[slot as usize];
            let until = now + pacer.ahead(now) + state.ack_patience();
            if state.copies.line_up(PROBES, TRIES) == 0 {
                continue;
            }
            state.phase = Phase::Probing { until };
            if state.copies.has_untried()
                && let Some(flow) = shared.flows.get(slot)
            {
                self.shut_gate(slot, flow.station);
            }
            self.join_line(slot);
            self.plan(slot, until);
        }
    }

    /// The channel's rate was told: what is thought to be in the transmit queue takes another time now.
    /// Answers are waited for no longer than that time makes it.
    pub fn rate_told(&mut self, now: Instant, pacer: &Pacer) {
        let ahead = pacer.ahead(now);
        for slot in 0..self.states.len() as u32 {
            let state = &mut self.states[slot as usize];
            let (patience, tail) = (state.ack_patience(), state.tail());
            let at = match &mut state.phase {
                Phase::Quiet | Phase::Threatened { .. } => continue,
                Phase::Probing { until } => {
                    *until = (*until).min(now + ahead + patience);
                    *until
                }
                Phase::Watching { until, waits } => {
                    *until = (*until).min(now + ahead + backed_off(tail, *waits));
                    *until
                }
            };
            self.plan(slot, at);
        }
    }

    /// Notes that the flow has something due at `at`.
    fn plan(&mut self, slot: u32, at: Instant) {
        let state = &mut self.states[slot as usize];
        if !state.active {
            state.active = true;
            self.active.push(slot);
        }
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
    }

    /// Judges the flow's copies, and changes its phase. `heard`: the station has just been heard.
    fn look(&mut self, now: Instant, slot: u32, how: &Judging, heard: bool) {
        let state = &mut self.states[slot as usize];
        if matches!(state.phase, Phase::Threatened { .. }) {
            return;
        }
        let mut due = state.copies.judge(now, how);
        let (patience, tail) = (state.ack_patience(), state.tail());
        match state.phase {
            Phase::Quiet | Phase::Threatened { .. } => {}
            Phase::Probing { until } => {
                let until = if heard { now + patience } else { until };
                state.phase = Phase::Probing { until };
                if until <= now {
                    // No answer: what is left of the suspects goes down unproved.
                    due += state.copies.line_up(MOST_OF_FLOW, TRIES);
                }
                if !state.copies.has_untried() {
                    state.phase = Phase::Watching { until: now + tail, waits: 0 };
                    self.open_gate(slot);
                }
            }
            Phase::Watching { until, waits } => {
                let (mut until, mut waits) = if heard { (now + tail, 0) } else { (until, waits) };
                let mut given_up = false;
                if state.in_line {
                    // The copies have yet to go: only then can the station have anything to say of them.
                    until = until.max(now + tail);
                } else if until <= now {
                    waits += 1;
                    until = now + backed_off(tail, waits);
                    due += if waits > TRIES { 0 } else { state.copies.line_up(PROBES, TRIES) };
                    given_up = due == 0;
                }
                let over = given_up || !state.copies.has_suspects();
                state.phase = if over { Phase::Quiet } else { Phase::Watching { until, waits } };
            }
        }
        if due > 0 {
            let state = &mut self.states[slot as usize];
            if state.phase == Phase::Quiet {
                state.phase = Phase::Watching { until: now + tail, waits: 0 };
            }
            self.join_line(slot);
        }
        let state = &self.states[slot as usize];
        if (state.phase != Phase::Quiet || !state.copies.is_settled())
            && let Some(at) = state.due(how)
        {
            self.plan(slot, at);
        }
    }

    /// Does what is due now. The caller sends the copies that this lines up.
    pub fn on_timeout(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        pacer: &Pacer,
        out: &mut Actions,
    ) {
        if self.next.is_none_or(|next| next > now) {
            return;
        }
        self.next = None;
        let mut active = core::mem::take(&mut self.active);
        let mut first = Instant::FAR_FUTURE;
        active.retain(|&slot| {
            let how = self.judging(now, shared, pacer, slot);
            self.look(now, slot, &how, false);
            if matches!(self.states[slot as usize].mute, Mute::Since { until } if until <= now) {
                self.end_mute(slot, Mute::Believed);
            }
            if self.states[slot as usize].hide_until.is_some_and(|until| until <= now) {
                self.show(now, shared, windows, round_trips, slot, None, out);
            }
            let state = &mut self.states[slot as usize];
            let due = state.due(&how);
            state.active = due.is_some();
            first = first.min(due.unwrap_or(first));
            due.is_some()
        });
        // `look` adds only flows that are not in the list, and all here are.
        debug_assert!(self.active.is_empty());
        self.active = active;
        self.next = (first < Instant::FAR_FUTURE).then(|| first.max(now + GRAIN));
    }

    /// The station's number goes to another.
    pub fn forget_station(&mut self, station: StationId) {
        self.heard.forget(station);
    }

    /// The connection ends, begins anew, or leaves the table: none of its copies counts any more.
    pub fn forget(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        slot: u32,
        out: &mut Actions,
    ) {
        self.show(now, shared, windows, round_trips, slot, None, out);
        let Some(state) = self.states.get_mut(slot as usize) else { return };
        shared.metrics.count(state.copies.clear(out));
        state.doubled.clear();
        state.stands_since = None;
        state.give_memory_back();
        (state.phase, state.last, state.sacks, state.hide_until) = (Phase::Quiet, None, false, None);
        state.forget_round_trip();
        state.repeated = None;
        state.mute = Mute::No;
        self.open_gate(slot);
    }

    /// Lets go of everything.
    pub fn flush(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        windows: &mut Windows,
        round_trips: &RoundTrips,
        out: &mut Actions,
    ) {
        for slot in 0..self.states.len() as u32 {
            self.forget(now, shared, windows, round_trips, slot, out);
        }
        self.order.clear();
        for slot in self.line.drain(..) {
            self.states[slot as usize].in_line = false;
        }
        for slot in self.active.drain(..) {
            self.states[slot as usize].active = false;
        }
        self.next = None;
    }
}
