//! Visits: a radio with one transceiver sends on the channel where its receiver listens, and returns to its
//! own.
//!
//! ```text
//! contending at home ─► retuning ─► contending there ─► one attempt ─► retuning ─► home, for a while
//! ```
//! Source: crahn, section 3 (one transceiver, which can be tuned to any channel); the rest is our design, of
//! the kind that surveys of multi-channel MACs call parallel rendezvous with a home channel (Mo, So, Walrand
//! 2008; from memory, not checked).
//!
//! - Which channel a frame needs is the world's to know ([`Environment::tuning`]); what it knows may be
//!   wrong. Then nobody answers, and the attempt counts as any other that failed.
//! - A visit is one attempt. What is lost there is tried again in another visit, with a new look at where to
//!   go.
//! - Who arrives knows of no NAV that was set there before, and cannot read what is on the air already: it
//!   defers to the carrier, draws a backoff, and sends. It can disturb whom it does not hear.
//! - From when it begins to retune until it is back, a radio is deaf to its own channel.
//! - Back at home it listens for so many idle slots before the next visit as are drawn from none to twice the
//!   time that it was away. So a radio with much to send is at home for half of the time, and two that want
//!   to visit each other meet. The share is our choice.
//! - An answer that it owes on a visited channel goes before the way home. If its backoff ends at the instant
//!   at which its answer at home is due, the answer is dropped.

use linkhold_core::time::{Duration, Instant};

use super::{Answer, Dcf, Sender, rank};
use crate::mac::dcf::environment::{Environment, Mpdu, Tuning};

impl Dcf {
    /// The radio leaves for the channel of its frame.
    pub(super) fn depart<E: Environment>(&mut self, now: Instant, at: usize, mpdu: Mpdu, env: &mut E) {
        let radio = at as u32;
        if !env.is_away(radio) {
            self.radios[at].left = now;
        }
        let takes = env.retune(now, radio, Some(&mpdu));
        self.retune(now, at, Some(mpdu), takes);
    }

    /// The radio goes back to the channel that it listens on, behind an answer that it owes.
    pub(super) fn go_home<E: Environment>(
        &mut self,
        now: Instant,
        at: usize,
        mpdu: Option<Mpdu>,
        env: &mut E,
    ) {
        let answer = match self.radios[at].answer {
            Answer::None => None,
            Answer::Due(on_air) => Some(on_air),
            Answer::Sending => Some(self.radios[at].on_air),
        };
        if let Some(on_air) = answer {
            self.radios[at].sender = Sender::Leaving(mpdu);
            self.wakeups.set(2 * at, on_air.since + on_air.length, rank::START);
            return;
        }
        let takes = env.retune(now, at as u32, None);
        self.retune(now, at, mpdu, takes);
    }

    fn retune(&mut self, now: Instant, at: usize, mpdu: Option<Mpdu>, takes: Duration) {
        self.wakeups.clear(2 * at + 1);
        self.radios[at].answer = Answer::None;
        self.ears[at].close();
        self.radios[at].sender = Sender::Retuning(mpdu);
        self.wakeups.set(2 * at, now + takes, rank::START);
    }

    /// The radio is on the channel that it retuned to.
    pub(super) fn arrive<E: Environment>(
        &mut self,
        now: Instant,
        at: usize,
        mpdu: Option<Mpdu>,
        env: &mut E,
    ) {
        let radio = at as u32;
        env.retuned(now, radio);
        self.listen(now, at, env);
        let mpdu = match mpdu {
            None => self.take(now, at, env),
            some => some,
        };
        let visits_next = mpdu.is_none_or(|mpdu| env.tuning(now, radio, &mpdu) != Tuning::Here);
        if !env.is_away(radio) && visits_next {
            let away = now.since(self.radios[at].left).as_nanos();
            let most = 2 * away / self.config.phy.slot().as_nanos();
            self.draw_slots(at, u32::try_from(most).unwrap_or(u32::MAX));
        } else {
            self.back_off(at);
        }
        self.turn_idle(at);
        match mpdu {
            Some(mpdu) => self.contend(at, mpdu),
            None => self.radios[at].sender = Sender::Idle,
        }
    }

    /// A suspension ends the way to another channel.
    pub(super) fn stop_retuning(&mut self, at: usize) {
        if let Some(Sender::Retuning(mpdu)) = self.radios.get(at).map(|radio| radio.sender) {
            self.wakeups.clear(2 * at);
            self.radios[at].sender = mpdu.map_or(Sender::Idle, Sender::Contending);
            self.ears[at].slots = 0;
        }
    }
}
