//! IEEE 802.15.4 without beacons: every radio contends by unslotted CSMA-CA.
//!
//! Source: IEEE Std 802.15.4-2006, clauses 7.5.1.4 (CSMA-CA) and 7.5.6.4 (acknowledgment and retransmission);
//! cr-aware section 4.1 has this MAC on software radios. Sees queued frames and the primary user; emits
//! deliveries, drops and, if asked, each transmission.
//! States of a radio as sender, with a frame:
//!
//! ```text
//! idle → contending (processing or spacing, backoff, CCA) ─ medium idle ──► turning → sending
//!              ▲   └─ busy, up to max_csma_backoffs times: longer backoff        │
//!              └──── no acknowledgment, up to max_frame_retries times ◄─ awaiting the acknowledgment
//! ```
//! As receiver: none → acknowledgment due (one turnaround) → sending it → none. An acknowledgment is not
//! contended for.
//!
//! Choices where the standard leaves one, and simplifications:
//! - CCA finds the medium busy if anything was on the air at any time of its 8 symbols, be it a radio of the
//!   cell or a primary user that this radio hears. A transmission that starts in the 12 symbols between CCA
//!   and sending is not seen. That gap is what makes frames collide;
//! - a radio that owes an acknowledgment finds the medium busy;
//! - a frame is handed up when it ends, not when its acknowledgment does. The receiver knows a repetition by
//!   its sequence number (here: exactly, without the wrap-around after 256 frames) and hands it up once;
//! - a repetition contends at once, without spacing; the standard asks for spacing after a transmission that
//!   succeeded only;
//! - a frame whose sender gave up although it had arrived is no loss, and no drop is told;
//! - a burst of the primary user is accounted as a silence of the whole cell, whoever hears it, since no
//!   exchange completes in it; a frame under way to a radio that does not hear the user may still arrive;
//! - backoffs and losses draw from a stream of their own, so traffic changes no silence.

pub mod config;
pub(crate) mod header;
mod medium;
pub(crate) mod user_frames;

use linkhold_core::time::{Duration, Instant};

use self::config::{ACK_TIME, ACK_WAIT, CCA, Ieee802154Config, TURNAROUND, UNIT_BACKOFF, on_air, spacing};
use self::medium::{Medium, User};
use super::contenders::Pending;
use super::context::Context;
use crate::frame::{AirDrop, AirOutput, MacFrame, RadioId, Transmission};
use crate::rng::Stream;
use crate::wakeups::Wakeups;

/// Places among wake-ups at one instant. What only touches does not overlap, so transmissions end first; and
/// a CCA that ends as a transmission starts has not seen it.
mod rank {
    pub(super) const END: u8 = 0;
    pub(super) const CCA_END: u8 = 1;
    pub(super) const START: u8 = 2;
    pub(super) const TIMEOUT: u8 = 3;
}

/// A frame that its sender is busy with.
#[derive(Clone, Copy, Debug)]
struct Job {
    pending: Pending,
    mpdu: u32,
    sequence: u8,
    /// Times that it was sent and not acknowledged.
    retries: u8,
    /// It has arrived; only the acknowledgment is missing.
    delivered: bool,
}

/// A radio as sender.
#[derive(Clone, Copy, Debug, Default)]
enum Sender {
    #[default]
    Idle,
    /// NB and BE of clause 7.5.1.4, and the start of the CCA that the wake-up ends.
    Contending {
        job: Job,
        nb: u8,
        be: u8,
        cca_from: Instant,
    },
    Turning(Job),
    Sending {
        job: Job,
        since: Instant,
    },
    AwaitingAck(Job),
}

/// A radio as receiver.
#[derive(Clone, Copy, Debug, Default)]
enum Receiver {
    #[default]
    Quiet,
    /// It owes `to` an acknowledgment.
    AckDue { to: RadioId, sequence: u8 },
    /// It sends one.
    Acking { to: RadioId, sequence: u8, since: Instant },
}

#[derive(Clone, Debug, Default)]
struct Radio {
    sender: Sender,
    receiver: Receiver,
    hears_user: bool,
    /// End of the spacing after its last frame.
    spaced_at: Instant,
    /// The length of its unit of backoff.
    unit: Duration,
    /// macDSN: the next frame's sequence number.
    sequence: u8,
}

/// The radios and the medium.
#[derive(Clone, Debug)]
pub(crate) struct CsmaCa {
    config: Ieee802154Config,
    radios: Vec<Radio>,
    /// Slot `2r` is radio r as sender, `2r + 1` as receiver.
    wakeups: Wakeups,
    medium: Medium,
    user: User,
    /// Frames out of their queues and not yet delivered.
    held: u64,
    tells_transmissions: bool,
    stream: Stream,
}

impl CsmaCa {
    pub(crate) fn new(config: &Ieee802154Config, stations: u32, seed: u64) -> Self {
        let radio = |number| {
            let drawn = 2.0 * Stream::new(seed, "clock", u64::from(number)).unit() - 1.0;
            Radio {
                hears_user: config.user_heard_by.includes(RadioId(number)),
                unit: UNIT_BACKOFF.mul_f64(1.0 + 1e-6 * config.clock_tolerance * drawn),
                ..Radio::default()
            }
        };
        let radios: Vec<Radio> = (0..=stations).map(radio).collect();
        Self {
            config: *config,
            wakeups: Wakeups::new(2 * radios.len()),
            radios,
            medium: Medium::default(),
            user: User::default(),
            held: 0,
            tells_transmissions: false,
            stream: Stream::new(seed, "mac", 0),
        }
    }

    pub(crate) const fn tell_transmissions(&mut self) {
        self.tells_transmissions = true;
    }

    pub(crate) fn next(&self) -> Instant {
        self.wakeups.next()
    }

    pub(crate) const fn held(&self) -> u64 {
        self.held
    }

    pub(crate) fn on_enqueue(&mut self, now: Instant, sender: RadioId, context: &mut Context<'_>) {
        let sender = sender.0 as usize;
        if matches!(self.radios[sender].sender, Sender::Idle) {
            self.take_next(now, sender, context);
        }
    }

    /// Nothing stops for a change of the radio: CCA and receivers notice a primary user by themselves.
    pub(crate) fn on_radio_change(&mut self, now: Instant, context: &Context<'_>) {
        self.user.turn(now, context.radio.collides());
    }

    pub(crate) fn step(&mut self, context: &mut Context<'_>) {
        let Some((slot, now)) = self.wakeups.first() else { return };
        self.wakeups.clear(slot);
        let radio = slot / 2;
        if slot % 2 == 0 {
            self.step_sender(now, radio, context)
        } else {
            self.step_receiver(now, radio, context)
        }
    }

    fn step_sender(&mut self, now: Instant, radio: usize, context: &mut Context<'_>) {
        match core::mem::take(&mut self.radios[radio].sender) {
            Sender::Idle => {}
            Sender::Contending { job, nb, be, cca_from } => {
                if !self.is_busy(radio, cca_from) {
                    self.radios[radio].sender = Sender::Turning(job);
                    self.wakeups.set(2 * radio, now + TURNAROUND, rank::START);
                } else if nb < self.config.max_csma_backoffs {
                    let ready = now + self.config.after_busy;
                    self.contend(ready, radio, job, nb + 1, (be + 1).min(self.config.max_be));
                } else {
                    self.give_up(job, AirDrop::ChannelBusy, context.out);
                    self.take_next(now, radio, context);
                }
            }
            Sender::Turning(job) => {
                self.medium.start(now);
                self.radios[radio].sender = Sender::Sending { job, since: now };
                self.wakeups.set(2 * radio, now + on_air(job.mpdu), rank::END);
            }
            Sender::Sending { job, since } => self.sent(now, radio, job, since, context),
            Sender::AwaitingAck(mut job) => {
                if job.retries < self.config.max_frame_retries {
                    job.retries += 1;
                    self.contend(now, radio, job, 0, self.config.min_be);
                } else {
                    self.give_up(job, AirDrop::RetryLimit, context.out);
                    self.take_next(now, radio, context);
                }
            }
        }
    }

    fn step_receiver(&mut self, now: Instant, radio: usize, context: &mut Context<'_>) {
        match core::mem::take(&mut self.radios[radio].receiver) {
            Receiver::Quiet => {}
            Receiver::AckDue { to, sequence } => {
                self.medium.start(now);
                self.radios[radio].receiver = Receiver::Acking { to, sequence, since: now };
                self.wakeups.set(2 * radio + 1, now + ACK_TIME, rank::END);
            }
            Receiver::Acking { to, sequence, since } => {
                if let Some(usage) = &mut context.usage {
                    usage.sent(RadioId(radio as u32), Some(to), now.since(since));
                }
                let received = self.is_received(now, since, to);
                if self.tells_transmissions {
                    let (from, to, packet) = (RadioId(radio as u32), Some(to), None);
                    let mac = MacFrame::Ieee802154 { sequence };
                    context.out.transmitted(Transmission { since, from, to, packet, received, mac });
                }
                let to = to.0 as usize;
                if received && let Sender::AwaitingAck(job) = self.radios[to].sender {
                    self.wakeups.clear(2 * to);
                    self.finish(now, to, job.mpdu, context);
                }
            }
        }
    }

    /// A transmission of a frame has ended.
    fn sent(&mut self, now: Instant, radio: usize, mut job: Job, since: Instant, context: &mut Context<'_>) {
        let frame = job.pending.frame;
        if let Some(usage) = &mut context.usage {
            usage.sent(frame.from, Some(frame.to), now.since(since));
        }
        let received = self.is_received(now, since, frame.to);
        if self.tells_transmissions {
            let (from, to, packet) = (frame.from, Some(frame.to), Some(frame.packet));
            let mac = MacFrame::Ieee802154 { sequence: job.sequence };
            context.out.transmitted(Transmission { since, from, to, packet, received, mac });
        }
        if received && !job.delivered {
            job.delivered = true;
            self.held -= 1;
            context.out.delivered(frame, job.pending.ce);
        }
        if !self.config.acknowledged {
            self.give_up(job, AirDrop::Lost, context.out);
            self.finish(now, radio, job.mpdu, context);
            return;
        }
        if received {
            let receiver = frame.to.0 as usize;
            let due = Receiver::AckDue { to: frame.from, sequence: job.sequence };
            self.radios[receiver].receiver = due;
            self.wakeups.set(2 * receiver + 1, now + TURNAROUND, rank::START);
        }
        self.radios[radio].sender = Sender::AwaitingAck(job);
        self.wakeups.set(2 * radio, now + ACK_WAIT, rank::TIMEOUT);
    }

    /// Whether `to` could read the transmission that started at `since` and ends now.
    fn is_received(&mut self, now: Instant, since: Instant, to: RadioId) -> bool {
        let alone = self.medium.end(now, since);
        let jammed = self.radios[to.0 as usize].hears_user && self.user.was_on(since);
        alone && !jammed && self.stream.unit() >= self.config.frame_loss.get()
    }

    /// The answer of a CCA that began at `since` and ends now.
    fn is_busy(&self, radio: usize, since: Instant) -> bool {
        let Radio { receiver, hears_user, .. } = &self.radios[radio];
        self.medium.was_busy(since)
            || (*hears_user && self.user.was_on(since))
            || !matches!(receiver, Receiver::Quiet)
    }

    /// The exchange is over; the next frame waits for the spacing.
    fn finish(&mut self, now: Instant, radio: usize, mpdu: u32, context: &mut Context<'_>) {
        self.radios[radio].spaced_at = now + spacing(mpdu);
        self.take_next(now, radio, context);
    }

    /// The sender is done with a frame; it is lost unless it has arrived.
    fn give_up(&mut self, job: Job, reason: AirDrop, out: &mut AirOutput) {
        if !job.delivered {
            self.held -= 1;
            out.dropped(job.pending.frame, reason);
        }
    }

    /// Takes the radio's next frame on, if there is one.
    fn take_next(&mut self, now: Instant, radio: usize, context: &mut Context<'_>) {
        self.radios[radio].sender = Sender::Idle;
        while let Some(pending) = context.contenders.take(radio, now, context.out) {
            let mpdu = Ieee802154Config::mpdu_of_frame(&pending.frame);
            if mpdu > self.config.mpdu {
                context.out.dropped(pending.frame, AirDrop::TooLong);
                continue;
            }
            self.held += 1;
            let Radio { sequence, spaced_at, .. } = &mut self.radios[radio];
            let job = Job { pending, mpdu, sequence: *sequence, retries: 0, delivered: false };
            *sequence = sequence.wrapping_add(1);
            let ready = (now + self.config.processing_time).max(*spaced_at);
            self.contend(ready, radio, job, 0, self.config.min_be);
            return;
        }
    }

    /// Waits a random backoff from `ready` on, then looks at the medium.
    fn contend(&mut self, ready: Instant, radio: usize, job: Job, nb: u8, be: u8) {
        // The upper bits of the generator are its best.
        let slots = self.stream.bits().checked_shr(64 - u32::from(be)).unwrap_or(0) as u32;
        let cca_from = ready + self.radios[radio].unit * slots;
        self.radios[radio].sender = Sender::Contending { job, nb, be, cca_from };
        self.wakeups.set(2 * radio, cca_from + CCA, rank::CCA_END);
    }
}
