//! The two ends of a UDP flow: a sender by the clock, and a receiver that counts.
//!
//! Source: RFC 768 (the header), RFC 3550 section 6.4.1 and appendix A.8 (jitter), RFC 4737 section 3
//! (reordering: a datagram whose number is below that of one that came before it).
//! The sender has no window and hears nothing of the receiver. Each chunk of its schedule goes at once, as
//! datagrams of at most `datagram` bytes. Datagrams are numbered from 0, so the receiver knows which bytes of
//! the stream it has.

use linkhold_core::time::{Duration, Instant};
use linkhold_results::{MediaRecord, UdpRecord};
use linkhold_scenario::Media;
use linkhold_tcp::Schedule;

use crate::apps::player::Player;

/// The sending end.
#[derive(Clone, Debug)]
pub struct UdpSender {
    schedule: Schedule,
    /// Most payload of a datagram, bytes.
    datagram: u64,
    started: Instant,
    /// The chunk that goes next, or is on its way.
    chunk: u64,
    /// Bytes of it that have gone.
    of_chunk: u64,
    /// Number of the next datagram.
    number: u32,
    stopped: bool,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its number, from 0.
    pub number: u32,
    /// Bytes of payload.
    pub len: u32,
}

impl UdpSender {
    /// A sender that starts at `started`, with datagrams of at most `datagram` bytes of payload (at least 1).
    #[must_use]
    pub fn new(schedule: Schedule, datagram: u32, started: Instant) -> Self {
        let datagram = u64::from(datagram.max(1));
        Self { schedule, datagram, started, chunk: 0, of_chunk: 0, number: 0, stopped: false }
    }

    /// The next datagram that is due by `now`.
    pub fn poll(&mut self, now: Instant) -> Option<Datagram> {
        if self.stopped || self.next_at() > now {
            return None;
        }
        let left = self.schedule.chunk().0 - self.of_chunk;
        let len = left.min(self.datagram);
        self.of_chunk += len;
        if len == left {
            self.chunk += 1;
            self.of_chunk = 0;
        }
        let number = self.number;
        self.number = self.number.wrapping_add(1);
        Some(Datagram { number, len: len as u32 })
    }

    /// When the next datagram is due, unless the application has stopped.
    #[must_use]
    pub fn next_send(&self) -> Option<Instant> {
        (!self.stopped).then(|| self.next_at())
    }

    fn next_at(&self) -> Instant {
        self.started + self.schedule.time_of(self.chunk)
    }

    /// Payload of its smallest datagrams, bytes.
    #[must_use]
    pub fn least_payload(&self) -> u64 {
        match self.schedule.chunk().0 % self.datagram {
            0 => self.datagram,
            rest => rest,
        }
    }

    /// The application stops.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Datagrams sent.
    #[must_use]
    pub const fn sent(&self) -> u32 {
        self.number
    }

    /// Bytes sent.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunk * self.schedule.chunk().0 + self.of_chunk
    }

    /// Where in the stream of bytes datagram `number` begins.
    #[must_use]
    pub fn position(&self, number: u32) -> u64 {
        let chunk = self.schedule.chunk().0;
        let in_chunk = chunk.div_ceil(self.datagram);
        let number = u64::from(number);
        number / in_chunk * chunk + number % in_chunk * self.datagram
    }
}

/// The receiving end.
#[derive(Clone, Debug, Default)]
pub struct UdpReceiver {
    /// Bytes of payload that have arrived.
    bytes: u64,
    /// One more than the highest number that has arrived.
    next: u32,
    /// Datagrams from this number on are counted; `None` before counting begins.
    from: Option<u32>,
    delivered: u64,
    reordered: u64,
    last_transit: Option<Duration>,
    /// The estimator J of RFC 3550, s.
    jitter: f64,
    jitter_sum: f64,
    jitter_count: u64,
}

impl UdpReceiver {
    /// A datagram of `len` bytes arrived, `transit` after it was sent.
    pub fn arrived(&mut self, number: u32, len: u32, transit: Duration) {
        self.bytes += u64::from(len);
        let behind = number < self.next;
        self.next = self.next.max(number + 1);
        let counted = self.from.is_some_and(|from| number >= from);
        self.delivered += u64::from(counted);
        self.reordered += u64::from(counted && behind);
        if let Some(last) = self.last_transit.replace(transit) {
            let difference = transit.saturating_sub(last).max(last.saturating_sub(transit));
            self.jitter += (difference.as_secs_f64() - self.jitter) / 16.0;
            if counted {
                self.jitter_sum += self.jitter;
                self.jitter_count += 1;
            }
        }
    }

    /// Counts datagrams from number `from` on.
    pub fn count_from(&mut self, from: u32) {
        self.from = Some(from);
        (self.delivered, self.reordered) = (0, 0);
    }

    /// Bytes of payload that have arrived.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What has been counted of a flow that has sent `sent` datagrams, `inside` of which are on their way.
    #[must_use]
    pub fn record(&self, sent: u32, inside: u32) -> UdpRecord {
        let sent = self.from.map_or(0, |from| u64::from(sent - from));
        let inside = u64::from(inside).min(sent - self.delivered);
        UdpRecord {
            sent,
            delivered: self.delivered,
            lost: sent - self.delivered - inside,
            inside,
            reordered: self.reordered,
            jitter_s: self.jitter_sum / self.jitter_count as f64,
        }
    }
}

/// A flow as its receiving end sees it: what has come, and how its media play.
#[derive(Clone, Debug)]
pub struct Reception {
    receiver: UdpReceiver,
    player: Option<Box<Player>>,
}

impl Reception {
    /// That of a flow which opens at `opened`, and has `media` if any.
    #[must_use]
    pub fn new(media: Option<&Media>, opened: Instant) -> Self {
        let player = media.map(|media| Box::new(Player::new(media, false, opened)));
        Self { receiver: UdpReceiver::default(), player }
    }

    /// Datagram `number` of `len` bytes, which begins at `position` of the stream, arrived `transit` after it
    /// was sent; answers how many bytes have arrived.
    pub fn arrived(&mut self, now: Instant, number: u32, len: u32, position: u64, transit: Duration) -> u64 {
        self.receiver.arrived(number, len, transit);
        if let Some(player) = &mut self.player {
            player.arrived(now, position, position + u64::from(len));
        }
        self.receiver.bytes()
    }

    /// Counts from `now` on: datagrams from number `from`.
    pub fn count_from(&mut self, now: Instant, from: u32) {
        self.receiver.count_from(from);
        if let Some(player) = &mut self.player {
            player.count_from(now);
        }
    }

    /// The application has stopped after `length` bytes.
    pub fn content_ends(&mut self, now: Instant, length: u64) {
        if let Some(player) = &mut self.player {
            player.content_ends(now, length);
        }
    }

    /// See [`UdpReceiver::record`].
    #[must_use]
    pub fn record(&self, sent: u32, inside: u32) -> UdpRecord {
        self.receiver.record(sent, inside)
    }

    /// How the media have played until `now`.
    pub fn media(&mut self, now: Instant) -> Option<MediaRecord> {
        self.player.as_mut().map(|player| player.record(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkhold_core::units::Bytes;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn a_chunk_goes_at_once_in_datagrams_that_fit() {
        let schedule = Schedule::live(Bytes(2_500), MS(40));
        let mut sender = UdpSender::new(schedule, 1_000, Instant::from_millis(7));
        let mut all = Vec::new();
        for ms in [6, 7, 46, 47, 127] {
            while let Some(datagram) = sender.poll(Instant::from_millis(ms)) {
                all.push((ms, datagram.number, datagram.len, sender.position(datagram.number)));
            }
        }
        let rest: Vec<_> = all.split_off(4);
        assert_eq!(all, [(7, 0, 1000, 0), (7, 1, 1000, 1000), (7, 2, 500, 2000), (47, 3, 1000, 2500)]);
        assert_eq!((rest.len(), rest.last()), (8, Some(&(127, 11, 500, 9_500))));
        assert_eq!((sender.bytes(), sender.next_send()), (10_000, Some(Instant::from_millis(167))));
        sender.stop();
        assert_eq!((sender.next_send(), sender.poll(Instant::from_millis(900))), (None, None));
        for (chunk, least) in [(2_500, 500), (3_000, 1_000), (300, 300)] {
            let sender = UdpSender::new(Schedule::live(Bytes(chunk), MS(40)), 1_000, Instant::ZERO);
            assert_eq!(sender.least_payload(), least, "chunks of {chunk} bytes");
        }
    }

    #[test]
    fn every_datagram_is_delivered_lost_or_inside() {
        let mut receiver = UdpReceiver::default();
        receiver.count_from(0);
        for (number, transit) in [(0, 10), (1, 10), (3, 42), (2, 10), (5, 10)] {
            receiver.arrived(number, 100, MS(transit));
        }
        let record = receiver.record(8, 1);
        let UdpRecord { sent, delivered, lost, inside, reordered, jitter_s } = record;
        assert_eq!((sent, delivered, lost, inside, reordered), (8, 5, 2, 1, 1));
        // J after each: 0, 32/16, 2 + 30/16, 3.875 - 3.875/16 ms.
        let mean = (0.0 + 2.0 + 3.875 + 3.875 * 15.0 / 16.0) / 4.0 / 1e3;
        assert!((jitter_s - mean).abs() < 1e-12, "{jitter_s}");
        assert_eq!(receiver.bytes(), 500);
    }

    #[test]
    fn what_was_sent_before_the_count_is_not_counted() {
        let mut receiver = UdpReceiver::default();
        receiver.arrived(0, 100, MS(1));
        receiver.count_from(3);
        receiver.arrived(2, 100, MS(1));
        receiver.arrived(4, 100, MS(1));
        let record = receiver.record(5, 0);
        assert_eq!((record.sent, record.delivered, record.lost), (2, 1, 1));
    }
}
