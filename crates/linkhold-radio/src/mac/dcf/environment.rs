//! What surrounds a [`Dcf`](super::engine::Dcf): whose frames it sends, who hears whom, and where they go.

use linkhold_core::packet::PacketId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

use crate::frame::{DcfFrame, MacFrame, RadioId, Transmission};

pub use crate::frame::DcfKind as Kind;

/// A frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mpdu {
    /// The environment's own name for it.
    pub token: u64,
    /// The radio that it is for; `None`: a broadcast, for whoever reads it.
    pub to: Option<u32>,
    /// Bytes of the IP packet. Everything around it is added here.
    pub len: u32,
    pub(super) history: History,
}

impl Mpdu {
    /// A frame that was never sent.
    #[must_use]
    pub const fn new(token: u64, to: Option<u32>, len: u32) -> Self {
        Self { token, to, len, history: History::NEW }
    }

    /// It has arrived, though its sender may not know.
    #[must_use]
    pub const fn arrived(&self) -> bool {
        self.history.arrived
    }

    /// Attempts that failed so far.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.history.short as u32 + self.history.long as u32
    }
}

/// What a frame went through. A frame that is handed back and taken again goes on where it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct History {
    /// Short retry count: RTS frames and data without RTS that failed.
    pub(super) short: u8,
    /// Long retry count: data behind RTS and CTS that failed.
    pub(super) long: u8,
    pub(super) arrived: bool,
    /// It was on the air, whole or in part, under `sequence`.
    pub(super) on_air: bool,
    pub(super) sequence: u16,
}

/// Sequence numbers are counted modulo this (clause 8.2.4.4.2).
pub(super) const SEQUENCES: u16 = 4096;

impl History {
    /// The history of a frame that was never sent.
    pub(super) const NEW: Self = Self { short: 0, long: 0, arrived: false, on_air: false, sequence: 0 };

    /// As a number, for a frame that has not arrived and goes back to its queue.
    pub(super) const fn packed(self) -> u32 {
        let (on_air, sequence) = (self.on_air as u32, self.sequence % SEQUENCES);
        self.short as u32 | (self.long as u32) << 8 | (sequence as u32) << 16 | on_air << 31
    }

    /// What [`packed`](Self::packed) made a number of.
    pub(super) const fn unpacked(number: u32) -> Self {
        let [short, long, ..] = number.to_le_bytes();
        let sequence = (number >> 16) as u16 % SEQUENCES;
        Self { short, long, arrived: false, on_air: number >> 31 == 1, sequence }
    }
}

/// What became of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Its receiver acknowledged it.
    Acknowledged,
    /// It was broadcast; nobody answers.
    Broadcast,
    /// A retry limit was reached.
    GaveUp {
        /// It had arrived all the same: only ACKs were lost.
        arrived: bool,
    },
}

/// A radio within the carrier-sense range of a sender, on its channel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hearing {
    /// The one that hears.
    pub radio: u32,
    /// It could read the sender if nothing disturbed: the power reaches the receive threshold.
    pub decodable: bool,
    /// The engine's: whether it counts this signal as on the air there, and in which epoch of that radio.
    pub(super) counted: bool,
    pub(super) epoch: u16,
    /// Power of the sender's signal where it stands, mW.
    pub power: f64,
}

impl Hearing {
    /// `radio` hears with `power` mW.
    #[must_use]
    pub const fn new(radio: u32, power: f64, decodable: bool) -> Self {
        Self { radio, decodable, counted: false, epoch: 0, power }
    }
}

/// A transmission that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// What it carried.
    pub kind: Kind,
    /// When it began.
    pub since: Instant,
    /// Its sender.
    pub from: u32,
    /// Whom it was for; `None`: everybody.
    pub to: Option<u32>,
    /// The data frame's token; `None` for control frames.
    pub token: Option<u64>,
    /// Whom it was for could read it (a broadcast: at least one could).
    pub received: bool,
    /// It was cut off before its end.
    pub cut: bool,
    /// Data that was on the air before.
    pub retry: bool,
    /// Data's sequence number; 0 of control frames.
    pub sequence: u16,
    /// The rate of its octets.
    pub rate: BitRate,
    /// The Duration field.
    pub reserved: Duration,
}

impl Told {
    /// As drivers are told it. `radio` numbers the DCF's radios as the driver does.
    #[must_use]
    pub fn transmission(
        &self,
        packet: Option<PacketId>,
        channel: u32,
        radio: impl Fn(u32) -> RadioId,
    ) -> Transmission {
        let Self { kind, since, from, to, received, cut, retry, sequence, rate, reserved, .. } = *self;
        let mac = MacFrame::Dcf(DcfFrame { kind, retry, cut, sequence, channel, rate, reserved });
        Transmission { since, from: radio(from), to: to.map(radio), packet, received, mac }
    }
}

/// On which channel a frame is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tuning {
    /// On the one that the radio is tuned to.
    Here,
    /// On another one, where its receiver listens.
    Away {
        /// The data rate there.
        rate: BitRate,
        /// How long it takes to retune.
        retune: Duration,
    },
}

/// The world of the radios. Radios are numbered from 0. No method may be answered with a call to the engine;
/// what follows from one (another frame for an idle radio) is told to it after the engine's call has
/// returned.
pub trait Environment {
    /// The next frame of `radio`, if there is one.
    fn take(&mut self, now: Instant, radio: u32) -> Option<Mpdu>;

    /// `mpdu` arrived `at` a radio: once for each receiver, in the order in which its sender took them.
    fn received(&mut self, now: Instant, at: u32, from: u32, mpdu: &Mpdu);

    /// `radio` is done with the frame.
    fn sent(&mut self, now: Instant, radio: u32, mpdu: Mpdu, outcome: Sent);

    /// The exchange of `mpdu` would not end by [`quiet_at`](Self::quiet_at). The frame goes back; what is
    /// returned is tried in its place at once. `None`: nothing is, until
    /// [`Dcf::on_enqueue`](super::engine::Dcf::on_enqueue) or [`resume`](super::engine::Dcf::resume). Whoever
    /// returns frames runs out of them.
    fn postponed(&mut self, now: Instant, radio: u32, mpdu: Mpdu) -> Option<Mpdu>;

    /// Adds everybody within the carrier-sense range of `from` on its channel, but not itself, each once.
    /// Those that are suspended may be among them.
    fn hearers(&mut self, now: Instant, from: u32, into: &mut Vec<Hearing>);

    /// How `at` would hear `from` now, if it would: for a radio that resumes while others send.
    fn hearing(&mut self, now: Instant, from: u32, at: u32) -> Option<Hearing>;

    /// The worst of primary users and noise at radio `at` during a reception, mW. Asked once for each radio
    /// that could read the frame.
    fn interference(&mut self, at: u32, since: Instant, until: Instant) -> f64;

    /// Whether something else spoils a data frame for the radio that it is for, such as fading. Asked after
    /// the SINR sufficed.
    fn spoils(&mut self, _now: Instant, _at: u32, _from: u32, _mpdu: &Mpdu, _since: Instant) -> bool {
        false
    }

    /// The data rate on the channel of `radio`.
    fn rate(&self, radio: u32) -> BitRate;

    /// No exchange of `radio` with `to` starts that would not end by then.
    fn quiet_at(&self, now: Instant, radio: u32, to: Option<u32>) -> Instant;

    /// On which channel `radio` would send this frame now. Worlds whose radios share one channel keep the
    /// four methods from here on as they are.
    #[inline]
    fn tuning(&self, _now: Instant, _radio: u32, _mpdu: &Mpdu) -> Tuning {
        Tuning::Here
    }

    /// Whether `radio` is tuned to another channel than the one it listens on when it has nothing to send.
    #[inline]
    fn is_away(&self, _radio: u32) -> bool {
        false
    }

    /// `radio` begins to retune, to the channel of a frame or (`None`) to the one that it listens on. How
    /// long it takes. The radio is deaf until then, or until it is suspended.
    fn retune(&mut self, _now: Instant, _radio: u32, _towards: Option<&Mpdu>) -> Duration {
        Duration::ZERO
    }

    /// `radio` is tuned to the channel that it was retuned to last.
    fn retuned(&mut self, _now: Instant, _radio: u32) {}

    /// `radio` begins to send its data frame, or the RTS before it, for the first time or again. Most worlds
    /// do not care.
    fn begins(&mut self, _radio: u32) {}

    /// A transmission has ended. Most worlds do not care.
    fn transmitted(&mut self, _now: Instant, _told: Told) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_comes_back_from_its_number() {
        for sequence in [0, 1, 2047, 4095] {
            for on_air in [false, true] {
                let history = History { short: 7, long: 255, arrived: false, on_air, sequence };
                assert_eq!(History::unpacked(history.packed()), history);
            }
        }
        assert_eq!(History::unpacked(0), History::NEW);
    }
}
