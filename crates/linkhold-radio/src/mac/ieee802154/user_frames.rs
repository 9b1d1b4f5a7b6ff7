//! The frames of a cell's primary user, one after the other: what a capture has of it.
//!
//! Source: cr-aware sections 4.2 (the user transmits by IEEE 802.15.4, as the station does) and 5.1 (its
//! bursts). Sees nothing but time and the user's own random stream, as the radio's timeline does: an
//! [`Air`](crate::Air) with the same configuration and seed has the same bursts, whatever is sent over it. So
//! only a run that is captured pays for these frames, and they change nothing in it.
//!
//! In a burst a frame ends every `frame_interval`, the first one an interval after the burst's start. These
//! are the frames that [`crate::detector`] lets radios overhear. Each has the longest MPDU that leaves room
//! for its interframe spacing. A frame that the end of its burst cuts off is not among them.

use linkhold_core::time::{Duration, Instant};

use super::config::{FCS, user_mpdu};
use super::header::{ExtendedAddress, USER_HEADER, user_header};
use crate::config::AirConfig;
use crate::mac::config::Mac;
use crate::primary_user::PrimaryUser;

/// How the payload begins; zeros follow. RFC 4944 (section 5.1) reserves a first octet of 0x10 for what is no
/// LoWPAN frame, and no other protocol that Wireshark guesses at begins with it.
const PAYLOAD: &[u8] = b"\x10primary user";

/// The frames of a cell's primary user, in order.
#[derive(Clone, Debug)]
pub struct UserFrames {
    user: PrimaryUser,
    address: ExtendedAddress,
    interval: Duration,
    /// Octets of each MPDU, the check sequence included.
    mpdu: u32,
    /// The next frame's sequence number.
    sequence: u8,
    /// In a burst: when the last frame ended, or the burst began.
    since: Instant,
}

impl UserFrames {
    /// The frames of the primary user of the cell with this configuration, in the run with this seed; `None`
    /// if it has no user, or its MAC is not IEEE 802.15.4.
    #[must_use]
    pub fn new(config: &AirConfig, seed: u64) -> Option<Self> {
        let Mac::Ieee802154(mac) = &config.mac else { return None };
        let channel = config.initial_channel;
        let user = config.channels.get(channel)?.primary_user?;
        let measured = config.measured_users.get(channel).cloned().flatten();
        let interval = mac.overhearing.frame_interval;
        Some(Self {
            user: PrimaryUser::new(user, measured, seed, channel),
            address: mac.user_address,
            interval,
            mpdu: user_mpdu(interval),
            sequence: 0,
            since: Instant::ZERO,
        })
    }

    /// Writes the next frame to `mpdu` in place of what is there, without its check sequence of 2 octets, and
    /// returns when the frame ends; `None` if none ends by `until`. Times must not run backwards.
    pub fn next_by(&mut self, until: Instant, mpdu: &mut Vec<u8>) -> Option<Instant> {
        let end = self.next_end(until)?;
        mpdu.clear();
        mpdu.extend_from_slice(&user_header(self.address, self.sequence));
        let payload = self.mpdu.saturating_sub(USER_HEADER + FCS) as usize;
        mpdu.extend(PAYLOAD.iter().copied().chain(std::iter::repeat(0)).take(payload));
        self.sequence = self.sequence.wrapping_add(1);
        self.since = end;
        Some(end)
    }

    /// When the next frame ends, if it does by `until`.
    fn next_end(&mut self, until: Instant) -> Option<Instant> {
        loop {
            let end = self.since + self.interval;
            if self.user.is_on() && end <= self.user.toggles_at() && end != Instant::FAR_FUTURE {
                return (end <= until).then_some(end);
            }
            let at = self.user.next().at;
            if at > until || at == Instant::FAR_FUTURE {
                return None;
            }
            let was_on = self.user.is_on();
            self.user.step();
            if self.user.is_on() && !was_on {
                self.since = at;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::mac::ieee802154::config::Ieee802154Config;
    use crate::primary_user::PrimaryUserConfig;
    use crate::spectrum::bands::Band;
    use crate::spectrum::occupancy::Occupancy;
    use crate::spectrum::pu_log::PuLog;

    const AT: fn(u64) -> Instant = Instant::from_millis;

    fn user(on: u64, off: u64, fixed: bool) -> PrimaryUserConfig {
        PrimaryUserConfig {
            on_mean: Duration::from_millis(on),
            off_mean: Duration::from_millis(off),
            fixed,
            detection_delay: Duration::ZERO,
            end_detection_delay: Duration::ZERO,
        }
    }

    fn frames(user: PrimaryUserConfig, measured: Option<Arc<Occupancy>>) -> UserFrames {
        let mac = Ieee802154Config::default();
        let interval = mac.overhearing.frame_interval;
        UserFrames {
            user: PrimaryUser::new(user, measured, 1, 0),
            address: mac.user_address,
            interval,
            mpdu: user_mpdu(interval),
            sequence: 0,
            since: Instant::ZERO,
        }
    }

    /// Ends of all frames until `until`, ms, and the sequence numbers.
    fn ends(frames: &mut UserFrames, until: u64) -> (Vec<u64>, Vec<u8>) {
        let mut mpdu = Vec::new();
        let next = || frames.next_by(AT(until), &mut mpdu).map(|end| (end.as_nanos() / 1_000_000, mpdu[2]));
        std::iter::from_fn(next).unzip()
    }

    #[test]
    fn frames_end_an_interval_apart_from_a_bursts_start_on() {
        // Bursts from 30 to 52 ms and from 82 to 104 ms: the last two milliseconds hold no whole frame.
        let mut frames = frames(user(22, 30, true), None);
        assert_eq!(ends(&mut frames, 39).0, [35]);
        assert!(ends(&mut frames, 39).0.is_empty(), "nothing comes twice");
        let (all, sequences) = ends(&mut frames, 110);
        assert_eq!(all, [40, 45, 50, 87, 92, 97, 102]);
        assert_eq!(sequences, [1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn a_user_that_always_or_never_sends_needs_no_burst() {
        let (all, sequences) = ends(&mut frames(user(1, 0, false), None), 10_000);
        assert_eq!((all[0], all.len(), sequences[256]), (5, 2000, 0));
        assert!(ends(&mut frames(user(0, 1, false), None), 10_000).0.is_empty());
    }

    #[test]
    fn bursts_too_short_for_a_frame_have_none() {
        assert!(ends(&mut frames(user(4, 3, true), None), 10_000).0.is_empty());
    }

    #[test]
    fn a_log_says_when_the_user_sends() {
        let log = PuLog::parse(b"1 0 0 1 1\n1 0 0.011\n1 3 3.016\n", None).unwrap();
        let measured = Arc::new(Occupancy::of(&log, Band::new(1).unwrap(), |_| true));
        assert_eq!(ends(&mut frames(user(0, 0, false), Some(measured)), 9000).0, [5, 10, 3005, 3010, 3015]);
    }

    #[test]
    fn a_frame_fills_its_interval_and_names_its_sender() {
        let mut mpdu = vec![1; 300];
        let mut frames = frames(user(1, 0, false), None);
        assert_eq!(frames.next_by(AT(5), &mut mpdu), Some(AT(5)));
        // 127 octets with the check sequence.
        assert_eq!(mpdu.len(), 125);
        assert_eq!(mpdu[..15], user_header(ExtendedAddress::PRIMARY_USER, 0));
        assert_eq!((&mpdu[15..28], mpdu[28..].iter().max()), (PAYLOAD, Some(&0)));
        frames.mpdu = 17;
        assert_eq!(frames.next_by(AT(10), &mut mpdu), Some(AT(10)));
        assert_eq!(mpdu, user_header(ExtendedAddress::PRIMARY_USER, 1));
    }
}
