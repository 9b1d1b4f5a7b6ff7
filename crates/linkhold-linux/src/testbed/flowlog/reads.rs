//! What the application at the end of a QUIC flow has read, as the track of a flow: its stream is encrypted,
//! so the ports cannot see how far it has come.

use linkhold_core::packet::{Direction, FlowKey};
use linkhold_core::time::{Duration, Instant};
use linkhold_radio::Silence;

use super::super::quic::Read;
use super::super::silence_story::merged;
use super::{FlowLog, Track, index};

impl FlowLog {
    /// Tells what the receiver of a QUIC flow has read, in the order of time, and what silences there were.
    pub fn tell_reads(&mut self, key: &FlowKey, direction: Direction, reads: &[Read], silences: &[Silence]) {
        let (warm_up, interval, samples) = (self.warm_up, self.interval, self.samples);
        let Some(flow) = self.by_key.get(key).and_then(|&number| self.flows.get_mut(number)) else { return };
        let station = linkhold_core::packet::StationId(flow.station);
        let of_station = silences.iter().filter(|silence| silence.scope.covers(station));
        let spans = merged(of_station.map(|silence| (silence.start, silence.end)).collect());
        let start = flow.start;
        if let Some(track) = flow.tracks.get_mut(index(direction)) {
            track.tell_reads(reads, (start, warm_up), &spans);
            track.series = at_each(reads, interval, samples);
        }
    }
}

impl Track {
    /// The flow began at `start`, and counting begins with `warm_up`. `spans`: its station's silences,
    /// merged.
    fn tell_reads(
        &mut self,
        reads: &[Read],
        (start, warm_up): (Instant, Instant),
        spans: &[(Instant, Instant)],
    ) {
        // The first silence that ended after the stream had last moved on.
        let mut first = spans.partition_point(|(_, end)| *end <= start);
        for &(at, bytes) in reads {
            self.last_delivered_at = at;
            self.stream.delivered = bytes;
            if at < warm_up {
                self.delivered_at_warm_up = bytes;
            }
            let crossed = self.crossings.by(at);
            let ended = spans.partition_point(|(_, end)| *end <= crossed).max(first);
            if let Some((&(_, end), later)) = spans.get(first..ended).and_then(<[_]>::split_first) {
                let silent: u64 = later.iter().map(|(start, end)| end.since(*start).as_nanos()).sum();
                if at >= warm_up {
                    self.resumes.record(at.since(end).saturating_sub(Duration::from_nanos(silent)));
                }
            }
            first = ended;
        }
    }
}

/// Bytes read by the end of each of `count` intervals.
fn at_each(reads: &[Read], interval: Duration, count: usize) -> Vec<u64> {
    let mut end = Instant::ZERO;
    let at_end = |_| {
        end += interval;
        let before = reads.partition_point(|(at, _)| *at <= end);
        before.checked_sub(1).and_then(|last| reads.get(last)).map_or(0, |(_, bytes)| *bytes)
    };
    (0..count).map(at_end).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Crossings;
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn what_was_read_is_the_track_of_the_flow() {
        let reads = [(ms(50), 100), (ms(120), 200), (ms(130), 300), (ms(390), 400)];
        let mut track = Track::default();
        // The second silence begins before anything is read after the first.
        let spans = [(ms(60), ms(110)), (ms(200), ms(300)), (ms(310), ms(360))];
        track.tell_reads(&reads, (ms(0), ms(100)), &spans);
        assert_eq!((track.delivered(), track.delivered_at_warm_up), (400, 100));
        assert_eq!(track.last_delivered_at, ms(390));
        // 10 ms after the first; after the second 90 ms, of which 50 were silent.
        assert_eq!(track.resumes.count(), 2);
        assert!((track.resumes.mean_s() - 0.025).abs() < 1e-9, "{}", track.resumes.mean_s());
        assert_eq!(at_each(&reads, Duration::from_millis(100), 4), [100, 300, 300, 400]);
    }

    #[test]
    fn what_was_read_of_an_upload_is_matched_with_silences_by_when_it_crossed() {
        let mut track = Track { crossings: Crossings::with_room(8), ..Track::default() };
        for (arrived, crossed) in [(42, 2), (120, 40), (183, 103)] {
            track.crossings.add(ms(arrived), ms(crossed));
        }
        track.tell_reads(&[(ms(43), 1), (ms(121), 2), (ms(184), 3)], (ms(0), ms(0)), &[(ms(50), ms(100))]);
        // What is read at 121 ms crossed before the silence.
        assert_eq!(track.resumes.count(), 1);
        assert!((track.resumes.mean_s() - 0.084).abs() < 1e-9, "{}", track.resumes.mean_s());
    }

    #[test]
    fn a_silence_before_the_flow_or_the_warm_ups_end_is_nobodys_wait() {
        let mut track = Track::default();
        let spans = [(ms(10), ms(20)), (ms(60), ms(70))];
        track.tell_reads(&[(ms(40), 1), (ms(80), 2), (ms(120), 3)], (ms(30), ms(100)), &spans);
        assert_eq!((track.resumes.count(), track.delivered_at_warm_up), (0, 2));
    }
}
