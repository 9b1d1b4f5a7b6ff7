//! The radio part of a round trip: from a segment that goes down to an empty radio to its ACK.
//!
//! Beside the paper (`dsasync`). Sees segments as they go down, and the times until stations acknowledge
//! them; gives each station's least time and its usual one, and says which flows wait in the router's queue.
//!
//! One probe a flow at a time. The radio is empty if next to nothing is outstanding, or if the channel's rate
//! says that all has been sent. For a station that was never seen so, the least time from any segment to its
//! ACK stands in. That is too long by what was queued before that segment, so that the window is rather too
//! large than too small.
//!
//! How long it usually takes leaves out what says nothing of the radio: a hole that is filled before the ACK
//! comes, a segment sent again, a delayed ACK. With them it was 20 ms at a radio of 2, as much lay below as
//! passes in that time, CoDel dropped from it, and each drop left another hole.
//!
//! Once enough lies below, the radio is seldom empty again, and a usual time that is too long would stand for
//! good: so much more lies below. Beside an upload that began with the download, the first samples were 36 ms
//! where 2 would be right (what an ACK waits behind uploads is known only after two seconds), nothing was
//! measured after them, and the upload had 0.3 of its part for as long as it lasted. So the first sample is
//! taken for one among others that had the least time, and beside uploads, where samples are doubtful, the
//! usual time comes down while nothing is measured. If it is too short then, the radio runs empty, and the
//! next sample says so. Without uploads it stays: ten downloads beside a stream of datagrams that leaves no
//! time in which the radio is empty would have carried 0.91 of the bytes.
//!
//! An agent that starts on a busy router knows no least time at all, and what lies below may never run empty:
//! with 0.5 s of queue for the radio's own time, as much went on lying below for as long as the downloads
//! lasted. So once a station has acknowledged something that had gone down unseen, and for ten seconds, the
//! time that stands in is halved every half second, unless a segment has found the radio empty, at whatever
//! station, or datagrams fill it. Once it is too short, little lies below, the radio runs empty, and a sample
//! says what is right. That the radio is empty is not believed before what had gone down unseen has passed.
//!
//! A silence within a probe's time spoils the sample.

use crate::dsasync::codel;
use crate::dsasync::flow::Flow;
use crate::dsasync::min_filter::MinFilter;
use crate::dsasync::pacer::Pacer;
use crate::dsasync::probes::{Departure, RadioProbe, SentDown};
use crate::time::{Duration, Instant};

/// A flow whose segments have waited below for longer than was thought, for at least this time, waits in the
/// router's queue: half the time after which CoDel begins to drop (RFC 8289 section 3.2, `INTERVAL`).
const AQM_PATIENCE: Duration = Duration::from_nanos(codel::INTERVAL.as_nanos() / 2);

/// For as long the usual time stands without a sample. After that it falls by an eighth, and so from 36 ms to
/// 9 in six seconds. A time that is right is found again at the cost of a moment in which the radio is empty.
const STANDS: Duration = Duration::from_millis(500);

/// No time of a radio is guessed to be shorter than half of this.
const LEAST_GUESS: Duration = Duration::from_millis(1);

/// How long segments to a station take until they are acknowledged, with nothing queued below.
#[derive(Debug, Default)]
pub(super) struct RadioPart {
    /// Smoothed time from a segment that found the radio empty to its ACK. The least time says what the radio
    /// can do; this one says what it does.
    usual: Option<Duration>,
    /// When that was last seen, or has last come down.
    usual_seen: Instant,
    /// Least time from a segment that found the radio empty to its ACK.
    pub empty: MinFilter,
    /// Least time from any segment to its ACK.
    any: MinFilter,
    /// Least time from a timestamp that went down to data from the station that repeats it.
    pub echoed: MinFilter,
    /// Smoothed time that its data waits at the station.
    pub uplink_wait: Option<Duration>,
    /// When that was last seen.
    pub uplink_waited: Instant,
    /// As `echoed`, less the wait at the station: the least, and smoothed.
    pub turned: MinFilter,
    pub usually_turned: Option<Duration>,
}

/// Smooths a time over some eight samples.
pub(super) fn smooth(old: Option<Duration>, sample: Duration) -> Duration {
    let old = old.unwrap_or(sample).as_nanos();
    Duration::from_nanos(old - old / 8 + sample.as_nanos() / 8)
}

impl RadioPart {
    /// The least; `None` until something was measured.
    pub fn least(&self) -> Option<Duration> {
        self.empty.get().or_else(|| self.any.get())
    }

    /// As it usually is; the least, as long as nothing else is known.
    pub fn usual(&self) -> Option<Duration> {
        self.usual.or_else(|| self.least())
    }

    /// From an ACK that goes down to data that comes up.
    ///
    /// No longer than the least of a segment. All answers of timestamps that are remembered may have waited
    /// behind downloads, and at the station behind data that was allowed because of that wait: with 528 ms
    /// for this over 5 Mbit/s, a queue of as much stood at the station for as long as the uploads lasted.
    #[inline]
    pub fn uplink(&self) -> Option<Duration> {
        match (self.turned.get().or_else(|| self.echoed.get()), self.least()) {
            (Some(answered), Some(least)) => Some(answered.min(least)),
            (answered, least) => answered.or(least),
        }
    }

    /// The station acknowledged what was sent up to `newest` of the probe's segments. A full segment takes
    /// longer than the probe's first by `shorter`. The ACK waited for `wait` behind uploads; `None`: for a
    /// time that is not known.
    pub fn add(
        &mut self,
        now: Instant,
        probe: &RadioProbe,
        newest: Departure,
        shorter: Duration,
        wait: Option<Duration>,
    ) {
        let took = now.since(probe.first.at) + shorter;
        self.any.add(now, took);
        if !probe.empty {
            if wait != Some(Duration::ZERO) {
                self.come_down(now);
            }
            return;
        }
        // Beside uploads the least that is known is not forgotten: their queue at the station may never run
        // empty, and is no part of it.
        if wait == Some(Duration::ZERO) || self.empty.get().is_none_or(|least| took < least) {
            self.empty.add(now, took);
        }
        // A segment that nothing followed may have waited for the station's delayed ACK, and one that
        // another followed late did.
        if let (Some(wait), Some(_)) = (wait, probe.next) {
            let took = now.since(newest.at).saturating_sub(wait).max(self.empty.get().unwrap_or_default());
            self.usual = Some(smooth(self.usual.or_else(|| self.empty.get()), took));
            self.usual_seen = now;
        }
    }

    /// No station's segment has found the radio empty yet.
    #[cold]
    pub fn guess_less(&mut self, now: Instant) {
        let Some(any) = self.any.get().filter(|_| self.empty.get().is_none()) else { return };
        if self.usual_seen == Instant::ZERO {
            self.usual_seen = now;
        } else if now.since(self.usual_seen) > STANDS && any > LEAST_GUESS {
            self.any.add(now, Duration::from_nanos(any.as_nanos() / 2));
            self.usual_seen = now;
        }
    }

    /// The radio was not empty, and nothing is known of the usual time beside the station's uploads.
    fn come_down(&mut self, now: Instant) {
        if let (Some(usual), Some(least)) = (self.usual, self.empty.get())
            && now.since(self.usual_seen) > STANDS
        {
            self.usual = Some(smooth(Some(usual), least.min(usual)));
            self.usual_seen = now;
        }
    }
}

/// Starts measuring the radio part with a segment that goes down now, if the flow has no probe of more use.
/// `silences`: how many there have been; `empty`: the segment finds the radio empty; `is_clear`: next to
/// nothing is there that nobody will acknowledge.
#[inline]
pub(super) fn probe_radio(
    flow: &mut Flow,
    departure: Departure,
    sent: &SentDown,
    silences: u64,
    empty: bool,
    is_clear: bool,
) {
    match &mut flow.radio_probe {
        Some(old) if old.silences == silences && (old.empty || !empty) => {
            // What follows a segment that found the radio empty finds what came in between.
            if old.next.is_none() && (is_clear || !old.empty) {
                old.next = Some(departure);
            }
        }
        // A probe with a silence in its time is of no use: this segment takes its place.
        probe => {
            *probe = Some(RadioProbe::new(empty, silences, sent, departure));
        }
    }
}

/// True if the flow's segments have long waited below for longer than was thought, and other flows' have not.
/// Then the flow shares a queue of a router with fair queueing: two flows whose hash is the same (RFC 8290
/// section 6.1) get the turns of one, and all that waits below waits there. What is lost of them may be the
/// router's signal of congestion.
#[inline]
pub(crate) fn waits_in_router(now: Instant, flow: &Flow, pacer: &Pacer) -> bool {
    now > flow.waits_since + AQM_PATIENCE && pacer.some_do_not_wait()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Seq;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    /// Two segments went down to an empty radio, at this time, ms, and a millisecond later; an ACK of both
    /// came `took` ms after the second, and waited for `wait` behind uploads.
    fn answer(part: &mut RadioPart, at: u64, took: u64, wait: Option<Duration>) {
        let departure = |ms, end| Departure::new(Instant::from_millis(ms), Seq(end), Duration::ZERO);
        let sent = SentDown { tick: None, end: Seq(1000), seq_len: 1000, len: 1040, arrived: None };
        let mut probe = RadioProbe::new(true, 0, &sent, departure(at, 1000));
        let newest = departure(at + 1, 2000);
        probe.next = Some(newest);
        part.add(Instant::from_millis(at + 1 + took), &probe, newest, Duration::ZERO, wait);
    }

    #[test]
    fn what_stands_at_the_station_while_it_uploads_is_no_part_of_the_radio() {
        let mut part = RadioPart::default();
        answer(&mut part, 1000, 2, Some(Duration::ZERO));
        assert_eq!((part.least(), part.usual()), (Some(MS(3)), Some(MS(3))));
        // For longer than a least is remembered, ACKs wait at the station, for a time that is not known.
        for at in (2000..40_000).step_by(100) {
            answer(&mut part, at, 80, None);
        }
        assert_eq!((part.least(), part.usual()), (Some(MS(3)), Some(MS(3))));
        // Of a time that is known the rest counts, and a least that is lower.
        answer(&mut part, 40_000, 90, Some(MS(86)));
        answer(&mut part, 41_000, 1, None);
        assert_eq!(part.least(), Some(MS(2)));
        assert!(part.usual() > Some(MS(3)) && part.usual() < Some(MS(4)), "{:?}", part.usual());
        // Without uploads the radio has become slower.
        for at in (50_000..90_000).step_by(100) {
            answer(&mut part, at, 9, Some(Duration::ZERO));
        }
        assert_eq!((part.least(), part.usual().map(|usual| usual > MS(9))), (Some(MS(10)), Some(true)));
    }

    #[test]
    fn a_usual_time_that_nothing_confirms_comes_down_to_the_least() {
        let mut part = RadioPart::default();
        answer(&mut part, 1000, 2, None);
        // An upload begins with the download: its queue is not yet known, and counts for the radio's.
        answer(&mut part, 1010, 36, Some(Duration::ZERO));
        assert!(part.usual() < Some(MS(8)), "one sample is not believed whole: {:?}", part.usual());
        for at in (1020..1100).step_by(2) {
            answer(&mut part, at, 36, Some(Duration::ZERO));
        }
        assert!(part.usual() > Some(MS(34)), "{:?}", part.usual());
        // From now on something always lies below.
        let busy = |part: &mut RadioPart, from: u64, until: u64, wait| {
            let sent = SentDown { tick: None, end: Seq(1000), seq_len: 1000, len: 1040, arrived: None };
            for at in (from..until).step_by(20) {
                let departure = Departure::new(Instant::from_millis(at), Seq(1000), Duration::ZERO);
                let probe = RadioProbe::new(false, 0, &sent, departure);
                part.add(Instant::from_millis(at + 40), &probe, departure, Duration::ZERO, wait);
            }
        };
        busy(&mut part, 1100, 6000, Some(Duration::ZERO));
        assert!(part.usual() > Some(MS(34)), "without uploads nothing is doubtful: {:?}", part.usual());
        answer(&mut part, 6000, 36, Some(Duration::ZERO));
        busy(&mut part, 6000, 6400, None);
        assert!(part.usual() > Some(MS(34)), "half a second is not long: {:?}", part.usual());
        busy(&mut part, 6400, 17_000, Some(MS(8)));
        assert!(part.usual() < Some(MS(6)), "{:?}", part.usual());
        assert!(part.usual() >= part.least(), "{:?}", part.usual());
        // Where it is right, samples say so as soon as the radio runs empty.
        for at in (17_000..17_800).step_by(20) {
            answer(&mut part, at, 20, Some(Duration::ZERO));
        }
        assert!(part.usual() > Some(MS(19)), "{:?}", part.usual());
    }

    #[test]
    fn an_uploads_round_trip_is_no_longer_than_the_least_of_a_segment() {
        let mut part = RadioPart::default();
        assert_eq!(part.uplink(), None);
        part.echoed.add(Instant::from_millis(1000), MS(528));
        assert_eq!(part.uplink(), Some(MS(528)), "nothing else is known");
        answer(&mut part, 2000, 3, Some(Duration::ZERO));
        assert_eq!(part.uplink(), Some(MS(4)));
        part.turned.add(Instant::from_millis(3000), MS(227));
        assert_eq!(part.uplink(), Some(MS(4)));
        part.turned.add(Instant::from_millis(4000), MS(2));
        assert_eq!(part.uplink(), Some(MS(2)));
    }
}
