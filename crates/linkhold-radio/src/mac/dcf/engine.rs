//! The DCF engine: every radio as sender and as receiver.
//!
//! Source: IEEE Std 802.11-2012, clause 9.3 (from memory, not checked against its text). Sees frames to send,
//! who hears whom, and interference; emits what arrived and what became of each frame. A radio as sender,
//! with a frame:
//!
//! ```text
//! idle → contending ─┬─────────────────────────────────────────► sending data → awaiting ACK → idle
//!            ▲       └► sending RTS → awaiting CTS → SIFS ──────►      │ broadcast ──────────► idle
//!            └──── no answer: longer backoff, until a retry limit ◄────┘
//! ```
//! As receiver: quiet → an answer due (one SIFS) → sending it → quiet. A radio whose frame is for another
//! channel than the one it listens on visits it: `engine/visits.rs`.
//!
//! Choices where the standard leaves one, and simplifications:
//! - signals take no time to travel, and carrier sense sees a signal as it begins. Only radios whose backoffs
//!   end at the very same instant do not see each other; those that count from one idle time always end
//!   together;
//! - a frame that finds the medium idle for DIFS goes at once. One that comes earlier draws a backoff, also
//!   where only the rest of a DIFS is missing: all who read one broadcast would otherwise answer it at one
//!   instant;
//! - a backoff follows each frame, and counts down whether another frame waits or not (clause 9.3.4.3);
//! - the timeout for an ACK or a CTS is SIFS, a slot, and the longest answer. The standard's is SIFS, a slot
//!   and the PHY's delay until it tells a beginning frame, which then may end; both come to the same unless a
//!   frame of another begins in the timeout. DIFS follows. So those who collided count their first slot one
//!   slot later than those who waited EIFS, who cannot send in theirs; "Refinements on IEEE 802.11 DCF
//!   modeling approaches" (Tinnirello, Bianchi, Xiao, 2010) finds the same in the standard's;
//! - EIFS follows any signal that the receiver was locked onto and could not read, one below the receive
//!   threshold included, as in ns-2;
//! - a retry limit of 7 means seven attempts (clause 9.3.4.4: retries go on until the count is equal to the
//!   limit), not seven after the first. The frame's own counts decide; the window returns to aCWmin with each
//!   frame that ends, acknowledged or given up;
//! - the receiver's cache of sequence numbers is exact: a radio has one frame under way, and the frame itself
//!   knows that it has arrived. A repetition is acknowledged and not handed up again;
//! - a NAV is not taken back when no CTS follows an RTS (the standard permits it, and does not demand it);
//! - who resumes draws a backoff if none is left, or all radios that sensed together would send together.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

use super::config::DcfConfig;
use super::ear::{Ear, NOBODY, Wake};
use super::environment::{Environment, Hearing, Kind, Mpdu, SEQUENCES, Sent, Told, Tuning};
use super::phy::RTS;
use crate::rng::Stream;
use crate::wakeups::Wakeups;

mod visits;

/// Places among wake-ups at one instant. What only touches does not overlap, so transmissions end first; an
/// answer that ends as its timeout does has come in time.
mod rank {
    pub(super) const END: u8 = 0;
    pub(super) const TIMEOUT: u8 = 1;
    pub(super) const START: u8 = 2;
}

/// A radio as sender of its own frames.
#[derive(Clone, Copy, Debug, Default)]
enum Sender {
    #[default]
    Idle,
    /// Waits for its backoff to end.
    Contending(Mpdu),
    SendingRts(Mpdu),
    AwaitingCts(Mpdu),
    /// It may send the data, a SIFS after the CTS.
    Cleared(Mpdu),
    SendingData(Mpdu),
    AwaitingAck(Mpdu),
    /// On another channel, with an attempt behind it; it goes home once it has answered somebody there.
    Leaving(Option<Mpdu>),
    /// Between two channels, and deaf.
    Retuning(Option<Mpdu>),
}

/// A radio as receiver of others' frames.
#[derive(Clone, Copy, Debug, Default)]
enum Answer {
    #[default]
    None,
    Due(OnAir),
    Sending,
}

/// What a radio sends.
#[derive(Clone, Copy, Debug)]
struct OnAir {
    kind: Kind,
    /// [`NOBODY`]: a broadcast.
    to: u32,
    since: Instant,
    length: Duration,
    /// The Duration field: how long everybody else leaves the medium alone from its end on.
    reserved: Duration,
    /// Rate of the data that the exchange is about.
    rate: BitRate,
    /// It carries data that was on the air before.
    retry: bool,
}

impl OnAir {
    /// An answer to `to`, which begins when it is sent.
    const fn answer(kind: Kind, to: u32, length: Duration, reserved: Duration, rate: BitRate) -> Self {
        Self { kind, to, since: Instant::ZERO, length, reserved, rate, retry: false }
    }
}

#[derive(Clone, Debug)]
struct Radio {
    sender: Sender,
    answer: Answer,
    /// CW: the largest backoff of its next attempt, slots.
    window: u32,
    /// The sequence number of its next frame.
    sequence: u16,
    on_air: OnAir,
    /// When it last left the channel that it listens on.
    left: Instant,
    /// Who hears what it sends now.
    hearers: Vec<Hearing>,
    stream: Stream,
}

/// All radios of a DCF. See [`Environment`] for what it works on.
///
/// # Calling contract
/// - Time never runs backwards. Before any other call at time `t`, [`step`](Self::step) is called until
///   [`next`](Self::next) is later than `t` (or, at `t` itself, as the driver orders equal times).
/// - Radios are those from 0 to the number given at the start; a call that names another does nothing.
#[derive(Clone, Debug)]
pub struct Dcf {
    config: DcfConfig,
    /// Ratio of powers.
    capture: f64,
    ears: Vec<Ear>,
    radios: Vec<Radio>,
    /// Slot `2r` is radio r as sender, `2r + 1` as receiver.
    wakeups: Wakeups,
    /// Those that send now.
    active: Vec<u32>,
    held: u64,
}

impl Dcf {
    /// `radios` idle radios at time 0. The same seed gives the same backoffs.
    #[must_use]
    pub fn new(config: &DcfConfig, radios: u32, seed: u64) -> Self {
        let on_air = OnAir {
            kind: Kind::Ack,
            to: NOBODY,
            since: Instant::ZERO,
            length: Duration::ZERO,
            reserved: Duration::ZERO,
            rate: BitRate(0),
            retry: false,
        };
        let radio = |number| Radio {
            sender: Sender::Idle,
            answer: Answer::None,
            window: config.phy.cw_min(),
            sequence: 0,
            on_air,
            left: Instant::ZERO,
            hearers: Vec::new(),
            stream: Stream::new(seed, "dcf", u64::from(number)),
        };
        Self {
            config: *config,
            capture: libm::pow(10.0, config.capture_threshold / 10.0),
            ears: vec![Ear::new(config.phy); radios as usize],
            radios: (0..radios).map(radio).collect(),
            wakeups: Wakeups::new(2 * radios as usize),
            active: Vec::new(),
            held: 0,
        }
    }

    /// What it was made with.
    #[must_use]
    pub const fn config(&self) -> &DcfConfig {
        &self.config
    }

    /// When [`step`](Self::step) wants to be called; far future if nothing is due. O(1).
    #[must_use]
    #[inline]
    pub fn next(&self) -> Instant {
        self.wakeups.next()
    }

    /// Frames taken, and neither arrived nor told as [`sent`](Environment::sent) nor handed back.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// Whether `radio` has no frame under way or waiting here: it would take one.
    #[must_use]
    pub fn is_idle(&self, radio: u32) -> bool {
        self.radios.get(radio as usize).is_some_and(|radio| matches!(radio.sender, Sender::Idle))
    }

    /// Whether `radio` is on the air at this moment.
    #[must_use]
    pub fn is_sending(&self, radio: u32) -> bool {
        self.ears.get(radio as usize).is_some_and(|ear| ear.sending)
    }

    /// Handles the next event, at the time it was due.
    pub fn step<E: Environment>(&mut self, env: &mut E) {
        let Some((slot, now)) = self.wakeups.first() else { return };
        self.wakeups.clear(slot);
        let radio = slot / 2;
        if slot % 2 == 0 { self.step_sender(now, radio, env) } else { self.step_answer(now, radio, env) }
    }

    /// The layer above has something for `radio`. Nothing happens if it is busy with a frame, or suspended.
    pub fn on_enqueue<E: Environment>(&mut self, now: Instant, radio: u32, env: &mut E) {
        let at = radio as usize;
        if self.is_idle(radio)
            && !self.ears[at].deaf
            && let Some(mpdu) = self.take(now, at, env)
        {
            self.enter(now, at, mpdu);
        }
    }

    /// `radio` is deaf and mute from now on. What it sends is cut off; its frame stays, and this attempt does
    /// not count.
    pub fn suspend<E: Environment>(&mut self, now: Instant, radio: u32, env: &mut E) {
        let at = radio as usize;
        if self.ears.get(at).is_none_or(|ear| ear.deaf) {
            self.stop_retuning(at);
            return;
        }
        let frame = self.frame_of(at);
        let in_exchange = !matches!(self.radios[at].sender, Sender::Idle | Sender::Contending(_));
        if self.ears[at].sending {
            self.end(now, at, frame.as_ref(), true, env);
        }
        self.wakeups.clear(2 * at);
        self.wakeups.clear(2 * at + 1);
        self.ears[at].freeze(now, Instant::FAR_FUTURE, self.config.phy.slot());
        self.ears[at].close();
        self.radios[at].answer = Answer::None;
        self.radios[at].sender = frame.map_or(Sender::Idle, Sender::Contending);
        if in_exchange {
            self.ears[at].slots = 0;
        }
    }

    /// `radio` hears and sends again. A reception that began before is lost to it.
    pub fn resume<E: Environment>(&mut self, now: Instant, radio: u32, env: &mut E) {
        let at = radio as usize;
        if self.ears.get(at).is_none_or(|ear| !ear.deaf) {
            return;
        }
        self.listen(now, at, env);
        self.turn_idle(at);
        match self.frame_of(at) {
            Some(mpdu) => self.enter(now, at, mpdu),
            None => self.on_enqueue(now, radio, env),
        }
    }

    /// Opens the ear of a radio to what is on the air where it is.
    fn listen<E: Environment>(&mut self, now: Instant, at: usize, env: &mut E) {
        let radio = at as u32;
        self.ears[at].open(now);
        for index in 0..self.active.len() {
            let from = self.active[index];
            let Some(mut heard) = env.hearing(now, from, radio) else { continue };
            heard.radio = radio;
            heard.counted = true;
            heard.epoch = self.ears[at].epoch;
            self.radios[from as usize].hearers.push(heard);
            self.ears[at].overhear(heard.power);
        }
    }

    /// Hands the frame of `radio` back, and cuts its exchange off if there is one. An attempt that is cut
    /// does not count. [`on_enqueue`](Self::on_enqueue) starts the radio again.
    pub fn recall<E: Environment>(&mut self, now: Instant, radio: u32, env: &mut E) -> Option<Mpdu> {
        let at = radio as usize;
        let frame = self.radios.get(at).and_then(|_| self.frame_of(at))?;
        match self.radios[at].sender {
            Sender::Idle | Sender::Contending(_) => {}
            Sender::SendingRts(_) | Sender::SendingData(_) => {
                self.end(now, at, Some(&frame), true, env);
                self.back_off(at);
            }
            Sender::AwaitingCts(_) | Sender::Cleared(_) | Sender::AwaitingAck(_) => self.back_off(at),
            // It goes on to where it goes, without the frame.
            Sender::Leaving(_) => {
                self.radios[at].sender = Sender::Leaving(None);
                self.let_go(&frame);
                return Some(frame);
            }
            Sender::Retuning(_) => {
                self.radios[at].sender = Sender::Retuning(None);
                self.let_go(&frame);
                return Some(frame);
            }
        }
        self.wakeups.clear(2 * at);
        self.ears[at].contending = false;
        self.radios[at].sender = Sender::Idle;
        self.let_go(&frame);
        Some(frame)
    }

    fn frame_of(&self, at: usize) -> Option<Mpdu> {
        match self.radios[at].sender {
            Sender::Idle => None,
            Sender::Contending(mpdu)
            | Sender::SendingRts(mpdu)
            | Sender::AwaitingCts(mpdu)
            | Sender::Cleared(mpdu)
            | Sender::SendingData(mpdu)
            | Sender::AwaitingAck(mpdu) => Some(mpdu),
            Sender::Leaving(mpdu) | Sender::Retuning(mpdu) => mpdu,
        }
    }

    fn step_sender<E: Environment>(&mut self, now: Instant, at: usize, env: &mut E) {
        match self.radios[at].sender {
            Sender::Idle => {}
            Sender::Contending(mpdu) => self.access(now, at, mpdu, env),
            Sender::SendingRts(mpdu) => {
                self.radios[at].sender = Sender::AwaitingCts(mpdu);
                self.wakeups.set(2 * at, now + self.config.phy.answer_timeout(), rank::TIMEOUT);
                if self.end(now, at, Some(&mpdu), false, env) {
                    self.answer_rts(now, at);
                }
            }
            Sender::Cleared(mpdu) => {
                if self.ears[at].sending {
                    self.fail(now, at, mpdu, env);
                } else {
                    self.send_data(now, at, mpdu, env.rate(at as u32), env);
                }
            }
            Sender::SendingData(mpdu) => self.data_sent(now, at, mpdu, env),
            Sender::AwaitingCts(mpdu) | Sender::AwaitingAck(mpdu) => self.fail(now, at, mpdu, env),
            Sender::Leaving(mpdu) => self.go_home(now, at, mpdu, env),
            Sender::Retuning(mpdu) => self.arrive(now, at, mpdu, env),
        }
    }

    fn step_answer<E: Environment>(&mut self, now: Instant, at: usize, env: &mut E) {
        match core::mem::take(&mut self.radios[at].answer) {
            Answer::None => {}
            Answer::Due(on_air) => {
                self.ears[at].owes = false;
                if self.ears[at].sending {
                    return;
                }
                self.radios[at].answer = Answer::Sending;
                self.begin(now, at, OnAir { since: now, ..on_air }, 2 * at + 1, env);
            }
            Answer::Sending => {
                let OnAir { kind, to, .. } = self.radios[at].on_air;
                if !self.end(now, at, None, false, env) {
                    return;
                }
                let to = to as usize;
                match (kind, self.radios[to].sender) {
                    (Kind::Cts, Sender::AwaitingCts(mpdu)) if mpdu.to == Some(at as u32) => {
                        self.radios[to].sender = Sender::Cleared(mpdu);
                        self.wakeups.set(2 * to, now + self.config.phy.sifs(), rank::START);
                    }
                    (Kind::Ack, Sender::AwaitingAck(mpdu)) if mpdu.to == Some(at as u32) => {
                        self.finish(now, to, mpdu, Sent::Acknowledged, env);
                    }
                    (Kind::Cts | Kind::Ack | Kind::Rts | Kind::Data, _) => {}
                }
                self.turn_idle(to);
            }
        }
    }

    /// The backoff is over.
    fn access<E: Environment>(&mut self, now: Instant, at: usize, mut mpdu: Mpdu, env: &mut E) {
        let radio = at as u32;
        self.ears[at].contending = false;
        self.ears[at].slots = 0;
        let here = env.rate(radio);
        let (rate, away) = loop {
            let unicast = mpdu.to.is_some();
            let (rate, away, spent) = match env.tuning(now, radio, &mpdu) {
                Tuning::Here => (here, false, Duration::ZERO),
                Tuning::Away { rate, retune } => (rate, true, retune + retune),
            };
            let length = if unicast {
                self.config.exchange(mpdu.len, rate)
            } else {
                self.config.data(mpdu.len, self.config.phy.control_rate(rate))
            };
            // At rate zero nothing ever ends, so nothing starts.
            if length != Duration::MAX && now + spent + length <= env.quiet_at(now, radio, mpdu.to) {
                break (rate, away);
            }
            self.let_go(&mpdu);
            self.radios[at].sender = Sender::Idle;
            let Some(other) = env.postponed(now, radio, mpdu) else {
                if env.is_away(radio) {
                    self.go_home(now, at, None, env);
                }
                return;
            };
            self.held += u64::from(!other.arrived());
            mpdu = other;
        };
        if away {
            self.depart(now, at, mpdu, env);
            return;
        }
        let DcfConfig { phy, .. } = self.config;
        if mpdu.to.is_some() && self.config.asks_first(mpdu.len) {
            let control = phy.control_rate(rate);
            let length = phy.frame(RTS, control);
            let reserved = self.config.exchange(mpdu.len, rate).saturating_sub(length);
            self.radios[at].sender = Sender::SendingRts(mpdu);
            let to = mpdu.to.unwrap_or(NOBODY);
            self.begin(
                now,
                at,
                OnAir { kind: Kind::Rts, to, since: now, length, reserved, rate, retry: false },
                2 * at,
                env,
            );
        } else {
            self.send_data(now, at, mpdu, rate, env);
        }
    }

    fn send_data<E: Environment>(
        &mut self,
        now: Instant,
        at: usize,
        mut mpdu: Mpdu,
        rate: BitRate,
        env: &mut E,
    ) {
        let phy = self.config.phy;
        let retry = core::mem::replace(&mut mpdu.history.on_air, true);
        if !retry {
            let next = &mut self.radios[at].sequence;
            mpdu.history.sequence = *next;
            *next = (*next + 1) % SEQUENCES;
        }
        self.radios[at].sender = Sender::SendingData(mpdu);
        let (to, length, reserved) = match mpdu.to {
            Some(to) => (to, self.config.data(mpdu.len, rate), phy.sifs() + self.config.ack(rate)),
            None => (NOBODY, self.config.data(mpdu.len, phy.control_rate(rate)), Duration::ZERO),
        };
        let on_air = OnAir { kind: Kind::Data, to, since: now, length, reserved, rate, retry };
        self.begin(now, at, on_air, 2 * at, env);
    }

    fn data_sent<E: Environment>(&mut self, now: Instant, at: usize, mut mpdu: Mpdu, env: &mut E) {
        let OnAir { rate, .. } = self.radios[at].on_air;
        let read = self.end(now, at, Some(&mpdu), false, env);
        let Some(to) = mpdu.to else {
            self.finish(now, at, mpdu, Sent::Broadcast, env);
            return;
        };
        if read {
            if !mpdu.history.arrived {
                self.held -= 1;
                mpdu.history.arrived = true;
                env.received(now, to, at as u32, &mpdu);
            }
            let length = self.config.ack(rate);
            let answer = OnAir::answer(Kind::Ack, at as u32, length, Duration::ZERO, rate);
            self.owe(now, to as usize, answer);
        }
        self.radios[at].sender = Sender::AwaitingAck(mpdu);
        self.wakeups.set(2 * at, now + self.config.phy.answer_timeout(), rank::TIMEOUT);
    }

    /// The receiver of the RTS of `from` answers, unless another exchange has the medium (clause 9.3.2.6).
    fn answer_rts(&mut self, now: Instant, from: usize) {
        let OnAir { to, reserved, rate, .. } = self.radios[from].on_air;
        let at = to as usize;
        if self.ears[at].nav > now {
            self.turn_idle(at);
            return;
        }
        let length = self.config.ack(rate);
        let reserved = reserved.saturating_sub(self.config.phy.sifs() + length);
        self.owe(now, at, OnAir::answer(Kind::Cts, from as u32, length, reserved, rate));
    }

    /// `at` answers `to`, a SIFS from now.
    fn owe(&mut self, now: Instant, at: usize, answer: OnAir) {
        let DcfConfig { phy, .. } = self.config;
        let since = now + phy.sifs();
        if self.ears[at].freeze(now, since + answer.length, phy.slot()) == Wake::Clear {
            self.wakeups.clear(2 * at);
        }
        self.ears[at].owes = true;
        self.radios[at].answer = Answer::Due(OnAir { since, ..answer });
        self.wakeups.set(2 * at + 1, since, rank::START);
    }

    /// No answer came, or the exchange could not go on.
    fn fail<E: Environment>(&mut self, now: Instant, at: usize, mut mpdu: Mpdu, env: &mut E) {
        let DcfConfig { phy, short_retry_limit, long_retry_limit, .. } = self.config;
        let was_long =
            matches!(self.radios[at].sender, Sender::AwaitingAck(_)) && self.config.asks_first(mpdu.len);
        let (count, limit) = if was_long {
            (&mut mpdu.history.long, long_retry_limit)
        } else {
            (&mut mpdu.history.short, short_retry_limit)
        };
        *count = count.saturating_add(1);
        // DIFS counts from here on.
        self.ears[at].nav = self.ears[at].nav.max(now);
        if *count >= limit {
            let outcome = Sent::GaveUp { arrived: mpdu.history.arrived };
            self.finish(now, at, mpdu, outcome, env);
            self.turn_idle(at);
        } else {
            self.radios[at].window = (2 * self.radios[at].window + 1).min(phy.cw_max());
            if env.is_away(at as u32) {
                self.go_home(now, at, Some(mpdu), env);
                return;
            }
            self.back_off(at);
            self.contend(at, mpdu);
            self.turn_idle(at);
        }
    }

    /// The radio is done with its frame, and takes the next.
    fn finish<E: Environment>(&mut self, now: Instant, at: usize, mpdu: Mpdu, outcome: Sent, env: &mut E) {
        self.let_go(&mpdu);
        self.wakeups.clear(2 * at);
        self.radios[at].sender = Sender::Idle;
        self.radios[at].window = self.config.phy.cw_min();
        self.back_off(at);
        env.sent(now, at as u32, mpdu, outcome);
        if env.is_away(at as u32) {
            self.go_home(now, at, None, env);
            return;
        }
        if let Some(next) = self.take(now, at, env) {
            self.contend(at, next);
        }
    }

    fn take<E: Environment>(&mut self, now: Instant, at: usize, env: &mut E) -> Option<Mpdu> {
        let mpdu = env.take(now, at as u32)?;
        self.held += u64::from(!mpdu.arrived());
        Some(mpdu)
    }

    fn let_go(&mut self, mpdu: &Mpdu) {
        self.held -= u64::from(!mpdu.arrived());
    }

    /// Draws a backoff from the radio's window.
    fn back_off(&mut self, at: usize) {
        let window = self.radios[at].window;
        self.draw_slots(at, window);
    }

    /// Draws a number of slots from 0 to `most`.
    fn draw_slots(&mut self, at: usize, most: u32) {
        let drawn = (u128::from(self.radios[at].stream.bits()) * (u128::from(most) + 1)) >> 64;
        self.ears[at].slots = drawn as u32;
    }

    /// A frame comes to a radio without one: at once on a free medium, otherwise behind a backoff.
    fn enter(&mut self, now: Instant, at: usize, mpdu: Mpdu) {
        let phy = self.config.phy;
        if self.ears[at].is_free(now, phy) {
            self.ears[at].slots = 0;
            self.ears[at].counting_from = now;
        } else if self.ears[at].slots == 0 {
            self.back_off(at);
        }
        self.contend(at, mpdu);
    }

    /// Waits for the rest of the backoff; if the medium is busy, from when it turns idle on.
    fn contend(&mut self, at: usize, mpdu: Mpdu) {
        self.radios[at].sender = Sender::Contending(mpdu);
        let ear = &mut self.ears[at];
        ear.contending = true;
        if !ear.frozen {
            self.wakeups.set(2 * at, ear.due(self.config.phy), rank::START);
        }
    }

    /// `at` may find the medium idle from now on.
    #[inline]
    fn turn_idle(&mut self, at: usize) {
        if let Wake::At(due) = self.ears[at].turn_idle(self.config.phy) {
            self.wakeups.set(2 * at, due, rank::START);
        }
    }

    /// Starts a transmission, which ends at a wake-up of `slot`.
    fn begin<E: Environment>(&mut self, now: Instant, at: usize, on_air: OnAir, slot: usize, env: &mut E) {
        let until = now + on_air.length;
        self.wakeups.set(slot, until, rank::END);
        if matches!(on_air.kind, Kind::Data | Kind::Rts) {
            env.begins(at as u32);
        }
        self.active.push(at as u32);
        self.ears[at].start_sending();
        self.radios[at].on_air = on_air;
        let mut hearers = core::mem::take(&mut self.radios[at].hearers);
        hearers.clear();
        env.hearers(now, at as u32, &mut hearers);
        let slot = self.config.phy.slot();
        for hearing in &mut hearers {
            let by = hearing.radio as usize;
            hearing.counted = by != at && self.ears.get(by).is_some_and(|ear| !ear.deaf);
            if !hearing.counted {
                continue;
            }
            let ear = &mut self.ears[by];
            hearing.epoch = ear.epoch;
            ear.hear(now, at as u32, hearing.power, self.capture);
            if ear.freeze(now, until, slot) == Wake::Clear {
                self.wakeups.clear(2 * by);
            }
        }
        self.radios[at].hearers = hearers;
    }

    /// The transmission of `at` ends, or is cut off. True if the one that it is for could read it; that radio
    /// is then not turned idle yet. `mpdu` is the radio's frame, if this carries it.
    fn end<E: Environment>(
        &mut self,
        now: Instant,
        at: usize,
        mpdu: Option<&Mpdu>,
        cut: bool,
        env: &mut E,
    ) -> bool {
        let OnAir { kind, to, since, reserved, rate, retry, .. } = self.radios[at].on_air;
        let data = mpdu.filter(|_| kind == Kind::Data);
        let broadcast = data.filter(|mpdu| mpdu.to.is_none());
        if let Some(index) = self.active.iter().position(|&sender| sender == at as u32) {
            self.active.swap_remove(index);
        }
        let mut received = false;
        let hearers = core::mem::take(&mut self.radios[at].hearers);
        for hearing in &hearers {
            let by = hearing.radio as usize;
            if !hearing.counted || self.ears[by].epoch != hearing.epoch {
                continue;
            }
            let reception = self.ears[by].stop_hearing(now, at as u32, hearing.power);
            let is_addressee = hearing.radio == to;
            if let Some(reception) = reception {
                let mut read = !cut && hearing.decodable && {
                    let others = reception.worst + env.interference(hearing.radio, reception.since, now);
                    reception.power >= self.capture * others
                };
                if read
                    && is_addressee
                    && let Some(mpdu) = data
                {
                    read = !env.spoils(now, hearing.radio, at as u32, mpdu, since);
                }
                let ear = &mut self.ears[by];
                ear.note(read);
                if read {
                    if is_addressee {
                        received = true;
                        continue;
                    }
                    ear.nav = ear.nav.max(now + reserved);
                    if let Some(mpdu) = broadcast {
                        received = true;
                        env.received(now, hearing.radio, at as u32, mpdu);
                    }
                }
            }
            self.turn_idle(by);
        }
        self.radios[at].hearers = hearers;
        self.ears[at].stop_sending(now);
        self.turn_idle(at);
        let at_data_rate = data.is_some() && broadcast.is_none();
        env.transmitted(
            now,
            Told {
                kind,
                since,
                from: at as u32,
                to: (to != NOBODY).then_some(to),
                token: data.map(|mpdu| mpdu.token),
                received,
                cut,
                retry,
                sequence: data.map_or(0, |mpdu| mpdu.history.sequence),
                rate: if at_data_rate { rate } else { self.config.phy.control_rate(rate) },
                reserved,
            },
        );
        received && broadcast.is_none()
    }
}
