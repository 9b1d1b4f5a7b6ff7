//! The story of each silence, as one flow met it: when its window was closed, when held packets left, what
//! woke the sender, and what the sender had done meanwhile.
//!
//! Input is the log of what passed the testbed's ports ([`Seen`], in the order of time) and the kernel's
//! congestion window, looked at every 20 ms. Times are those of the hosts' ports: a packet is heard when it
//! reaches the sender's host, half a round trip after the base station sent it.

use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::Seq;
use serde::{Deserialize, Serialize};

use super::seen::{Seen, What};
use super::watched::WindowSample;

/// A segment sent later than this after the last packet heard was sent by a timer. A kernel answers a packet
/// at once; with many namespaces on a loaded host it takes a few milliseconds.
const REACTION: Duration = Duration::from_millis(10);
/// A sender whose last data is no older than this had not stopped.
const PAUSE: Duration = Duration::from_millis(20);
/// A congestion window is restored if it is at least this share of what it was.
const RESTORED: f64 = 0.9;
/// Time that a sender is given to get its window back, besides two round trips.
const RECOVERY: f64 = 0.05;

/// What made a sender send its first data after a silence's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Woken {
    /// An acknowledgment of new data.
    Acknowledgment,
    /// A window update or a repeated acknowledgment: a nudge.
    Nudge,
    /// Its own timer: it had heard nothing.
    Timer,
    /// Nothing: it had not stopped.
    WentOn,
}

/// One silence. Times without another word are s from its end; negative ones lie before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SilenceStory {
    /// Start of the silence, s. Silences that overlap count as one.
    pub start_s: f64,
    /// Its end, s.
    pub end_s: f64,
    /// When the sender's host first heard of a closed window, s from the silence's **start**. This and the
    /// next are of what the network brought, not of what a `linkhold host` told its sender.
    pub zero_window_s: Option<f64>,
    /// When it first heard anything after the silence's end.
    pub first_heard_s: Option<f64>,
    /// What made it send data again. `None`: it did not, or (where `woken_s` is told) nobody knows: beside a
    /// `linkhold host` what woke it may have come from there, and crossed no port.
    pub woken: Option<Woken>,
    /// When it sent that data.
    pub woken_s: Option<f64>,
    /// Timeouts: first unacknowledged segments sent again by a timer, from the silence's start until the
    /// sender was woken. Those behind a closed window, which `TCPTimeouts` does not count, are among them.
    /// `None` beside a `linkhold host`, whose acknowledgments make a sender send again, too.
    pub timeouts: Option<u32>,
    /// Other segments that a timer sent again (tail loss probes), and empty ones (zero-window probes). `None`
    /// as for `timeouts`.
    pub probes: Option<u32>,
    /// Whether the first timeout was spurious: the segment had not been lost, for it arrived twice, or before
    /// others of its flight that nobody sent again. `None` without a timeout that is known.
    pub spurious: Option<bool>,
    /// Packets that waited in the base station for the silence's end.
    pub held: u32,
    /// When the first of them left it.
    pub held_first_s: Option<f64>,
    /// When the last of them left it.
    pub held_last_s: Option<f64>,
    /// When the first segment reached the receiver.
    pub first_delivery_s: Option<f64>,
    /// When one first moved the stream on.
    pub first_new_s: Option<f64>,
    /// Congestion window at the start, segments.
    pub cwnd_before: Option<u32>,
    /// At the end.
    pub cwnd_at_end: Option<u32>,
    /// Two round trips (as the sender had them before the silence) and 50 ms after the end; `None` if the
    /// next silence came before.
    pub cwnd_after: Option<u32>,
    /// `cwnd_after` is at least 0.9 of `cwnd_before`.
    pub restored: Option<bool>,
}

/// Overlapping and touching spans as one, in order.
#[must_use]
pub fn merged(mut spans: Vec<(Instant, Instant)>) -> Vec<(Instant, Instant)> {
    spans.sort_unstable();
    let mut all: Vec<(Instant, Instant)> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match all.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => all.push((start, end)),
        }
    }
    all
}

/// What is known of one flow.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// What passed the ports of its data.
    pub seen: &'a [Seen],
    /// The looks at its sender.
    pub samples: &'a [&'a WindowSample],
    /// A `linkhold host` runs beside its sender, and tells it things that cross no port.
    pub beside_host: bool,
}

/// The story of each of `spans` (merged) that began at `from` or later and was over before `until`.
#[must_use]
pub fn stories(
    spans: &[(Instant, Instant)],
    known: Known<'_>,
    from: Instant,
    until: Instant,
) -> Vec<SilenceStory> {
    let Known { seen, samples, beside_host } = known;
    let mut all = Vec::new();
    for (index, &(start, end)) in spans.iter().enumerate() {
        if start < from || end >= until {
            continue;
        }
        let before = index.checked_sub(1).and_then(|before| spans.get(before)).map_or(Instant::ZERO, |s| s.1);
        let next = spans.get(index + 1).map_or(until, |next| next.0);
        let part = |from: Instant, to: Instant| {
            let first = seen.partition_point(|one| one.at < from);
            let last = seen.partition_point(|one| one.at < to);
            seen.get(first..last).unwrap_or_default()
        };
        let mut teller = Teller::new(start, end, beside_host);
        for one in part(before, start) {
            teller.earlier(*one);
        }
        for one in part(start, next) {
            teller.meanwhile(*one);
        }
        let mut story = teller.finish();
        windows(&mut story, samples, next);
        all.push(story);
    }
    all
}

/// The congestion windows around a silence.
fn windows(story: &mut SilenceStory, samples: &[&WindowSample], next: Instant) {
    let last_until = |at_s: f64| samples.iter().rfind(|sample| sample.told_s <= at_s);
    let Some(before) = last_until(story.start_s) else { return };
    let due_s = story.end_s + 2.0 * before.rtt_s + RECOVERY;
    let after = samples.iter().find(|sample| sample.at_s >= due_s && sample.at_s < next.as_secs_f64());
    story.cwnd_before = Some(before.cwnd);
    story.cwnd_at_end = last_until(story.end_s).map(|sample| sample.cwnd);
    story.cwnd_after = after.map(|sample| sample.cwnd);
    story.restored = after.map(|sample| f64::from(sample.cwnd) >= RESTORED * f64::from(before.cwnd));
}

/// A segment's arrival, for telling whether the one that timed out had been lost.
#[derive(Clone, Copy)]
struct Arrival {
    seq: Seq,
    /// The segment had been sent again before it arrived.
    resent: bool,
    /// It arrived before the silence.
    earlier: bool,
}

/// Collects the story of one silence from what passed the ports.
struct Teller {
    start: Instant,
    end: Instant,
    /// See [`Known::beside_host`].
    beside_host: bool,
    timeouts: u32,
    probes: u32,
    story: SilenceStory,
    /// When the window was closed, while it is.
    closed_at: Option<Instant>,
    /// Everything before this is acknowledged.
    acked: Option<Seq>,
    /// The last packet heard: when, and whether it acknowledged something new.
    heard: Option<(Instant, bool)>,
    last_data_at: Option<Instant>,
    /// The first segment that timed out, and the last byte sent by then.
    timed_out: Option<(Seq, Seq)>,
    /// After the last byte sent.
    sent_until: Option<Seq>,
    /// Segments sent again since the silence's start.
    resent: Vec<Seq>,
    arrived: Vec<Arrival>,
}

impl Teller {
    fn new(start: Instant, end: Instant, beside_host: bool) -> Self {
        Self {
            start,
            end,
            beside_host,
            timeouts: 0,
            probes: 0,
            story: SilenceStory {
                start_s: start.as_secs_f64(),
                end_s: end.as_secs_f64(),
                zero_window_s: None,
                first_heard_s: None,
                woken: None,
                woken_s: None,
                timeouts: None,
                probes: None,
                spurious: None,
                held: 0,
                held_first_s: None,
                held_last_s: None,
                first_delivery_s: None,
                first_new_s: None,
                cwnd_before: None,
                cwnd_at_end: None,
                cwnd_after: None,
                restored: None,
            },
            closed_at: None,
            acked: None,
            heard: None,
            last_data_at: None,
            timed_out: None,
            sent_until: None,
            resent: Vec::new(),
            arrived: Vec::new(),
        }
    }

    /// Takes in what passed before the silence.
    fn earlier(&mut self, seen: Seen) {
        match seen.what {
            What::Sent { seq, len, .. } if len > 0 => {
                self.last_data_at = Some(seen.at);
                self.sent(seq + len);
            }
            What::Arrived { seq, .. } => self.arrived.push(Arrival { seq, resent: false, earlier: true }),
            What::Heard { ack, zero_window } => self.hear(seen.at, ack, zero_window),
            What::Sent { .. } | What::Left { .. } => {}
        }
    }

    /// Takes in what passes in the silence, and after it until the next one.
    fn meanwhile(&mut self, seen: Seen) {
        let over = seen.at >= self.end;
        let after_s = seen.at.since(self.end).as_secs_f64();
        match seen.what {
            What::Sent { seq, len, again } => self.send(seen.at, seq, len, again),
            What::Left { since } => {
                if over && since < self.end {
                    self.story.held += 1;
                    self.story.held_first_s.get_or_insert(after_s);
                    self.story.held_last_s = Some(after_s);
                }
            }
            What::Arrived { seq, new } => {
                let resent = self.resent.contains(&seq);
                self.arrived.push(Arrival { seq, resent, earlier: false });
                if over {
                    self.story.first_delivery_s.get_or_insert(after_s);
                    if new {
                        self.story.first_new_s.get_or_insert(after_s);
                    }
                }
            }
            What::Heard { ack, zero_window } => {
                self.hear(seen.at, ack, zero_window);
                if over {
                    self.story.first_heard_s.get_or_insert(after_s);
                }
            }
        }
        if let Some(closed_at) = self.closed_at.filter(|_| self.story.woken_s.is_none()) {
            let later_s = closed_at.since(self.start).as_secs_f64();
            let earlier_s = self.start.since(closed_at).as_secs_f64();
            self.story.zero_window_s.get_or_insert(later_s - earlier_s);
        }
    }

    fn hear(&mut self, at: Instant, ack: Seq, zero_window: bool) {
        let new = self.acked.is_none_or(|acked| ack.after(acked));
        if new {
            self.acked = Some(ack);
        }
        self.heard = Some((at, new));
        self.closed_at = if zero_window { self.closed_at.or(Some(at)) } else { None };
    }

    fn sent(&mut self, until: Seq) {
        if self.sent_until.is_none_or(|known| until.after(known)) {
            self.sent_until = Some(until);
        }
    }

    fn send(&mut self, at: Instant, seq: Seq, len: u32, again: bool) {
        self.sent(seq + len);
        if again {
            self.resent.push(seq);
        }
        if self.story.woken_s.is_some() {
            return;
        }
        let prompted = self.heard.filter(|(heard_at, _)| at.since(*heard_at) <= REACTION);
        if len == 0 {
            self.probes += 1;
            return;
        }
        if again && prompted.is_none() {
            // The kernel may cut the segment anew: the first unacknowledged byte is what tells a timeout.
            if self.acked.is_none_or(|acked| !seq.after(acked)) {
                self.timeouts += 1;
                self.timed_out.get_or_insert((seq, self.sent_until.unwrap_or(seq)));
            } else {
                self.probes += 1;
            }
        }
        if at >= self.end {
            let going = self.last_data_at.is_some_and(|last| at.since(last) <= PAUSE);
            self.story.woken = match prompted {
                Some((_, true)) => Some(Woken::Acknowledgment),
                Some((_, false)) => Some(Woken::Nudge),
                None if going && !again => Some(Woken::WentOn),
                None => (!self.beside_host).then_some(Woken::Timer),
            };
            self.story.woken_s = Some(at.since(self.end).as_secs_f64());
        }
        self.last_data_at = Some(at);
    }

    fn finish(mut self) -> SilenceStory {
        if !self.beside_host {
            (self.story.timeouts, self.story.probes) = (Some(self.timeouts), Some(self.probes));
            self.story.spurious = self.timed_out.map(|(seq, until)| self.was_not_lost(seq, until));
        }
        self.story
    }

    /// True if the original of the segment at `seq` arrived, and not its retransmission. The segment timed
    /// out when everything before `until` had been sent. Nothing on the way changes the order, so the rest of
    /// the flight overtakes a lost segment, unless all of it is lost.
    fn was_not_lost(&self, seq: Seq, until: Seq) -> bool {
        if self.arrived.iter().filter(|arrival| arrival.seq == seq).count() > 1 {
            return true;
        }
        let Some(at) = self.arrived.iter().position(|arrival| arrival.seq == seq) else { return false };
        let (before, after) = self.arrived.split_at(at);
        let of_flight = |arrival: &&Arrival| arrival.seq.after(seq) && until.after(arrival.seq);
        let overtaken = before.iter().any(|arrival| !arrival.earlier && of_flight(&arrival));
        !overtaken && after.iter().find(of_flight).is_some_and(|arrival| !arrival.resent)
    }
}

#[cfg(test)]
mod tests {
    use super::super::silence_summary::SilenceSummary;
    use super::*;

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn sent(at: u64, seq: u32) -> Seen {
        Seen { at: ms(at), what: What::Sent { seq: Seq(seq), len: 1000, again: false } }
    }

    fn again(at: u64, seq: u32) -> Seen {
        Seen { at: ms(at), what: What::Sent { seq: Seq(seq), len: 1000, again: true } }
    }

    fn probe(at: u64) -> Seen {
        Seen { at: ms(at), what: What::Sent { seq: Seq(0), len: 0, again: false } }
    }

    fn heard(at: u64, ack: u32, zero_window: bool) -> Seen {
        Seen { at: ms(at), what: What::Heard { ack: Seq(ack), zero_window } }
    }

    fn arrived(at: u64, seq: u32, new: bool) -> Seen {
        Seen { at: ms(at), what: What::Arrived { seq: Seq(seq), new } }
    }

    fn left(at: u64, since: u64) -> Seen {
        Seen { at: ms(at), what: What::Left { since: ms(since) } }
    }

    fn sample(at_ms: u64, cwnd: u32) -> WindowSample {
        WindowSample {
            at_s: at_ms as f64 / 1e3,
            told_s: at_ms as f64 / 1e3,
            station_port: 1,
            correspondent_port: 2,
            cwnd,
            rtt_s: 0.1,
            ..WindowSample::default()
        }
    }

    /// The story of a silence from 1000 to 2000 ms in a run of 5000 ms.
    fn tell(seen: &[Seen]) -> SilenceStory {
        tell_beside(false, seen)
    }

    /// The same, where there may be a `linkhold host` at the sender.
    fn tell_beside(beside_host: bool, seen: &[Seen]) -> SilenceStory {
        let known = Known { seen, samples: &[], beside_host };
        let mut told = stories(&[(ms(1000), ms(2000))], known, Instant::ZERO, ms(5000));
        assert_eq!(told.len(), 1);
        told.remove(0)
    }

    #[test]
    fn what_a_host_at_the_sender_may_have_done_is_not_put_down_to_a_timer() {
        let thawed = [
            sent(990, 5000),
            heard(1001, 5000, false),
            again(1400, 5000),
            probe(1500),
            again(2001, 5000),
            arrived(2010, 5000, true),
        ];
        let plain = tell_beside(false, &thawed);
        assert_eq!((plain.woken, plain.timeouts, plain.probes), (Some(Woken::Timer), Some(2), Some(1)));
        let unknown = tell_beside(true, &thawed);
        assert_eq!(
            (unknown.woken, unknown.woken_s),
            (None, Some(0.001)),
            "the host's acknowledgment, or a timer"
        );
        assert_eq!((unknown.timeouts, unknown.probes, unknown.spurious), (None, None, None));
        assert_eq!(unknown.first_new_s, plain.first_new_s);
        let told = serde_json::to_value(&unknown).unwrap();
        assert!(told["woken"].is_null() && told["timeouts"].is_null(), "{told}");
        let summary = SilenceSummary::new(&[unknown]);
        assert_eq!((summary.woken_unknown, summary.woken_by_timer), (1, 0));
        assert_eq!((summary.timeouts, summary.with_timeout, summary.with_spurious), (None, None, None));
        assert_eq!(SilenceSummary::new(&[plain]).with_timeout, Some(1));
        // What the network brought is known, and so is a sender that had not stopped.
        assert_eq!(
            tell_beside(true, &[heard(2000, 1, false), sent(2001, 1)]).woken,
            Some(Woken::Acknowledgment)
        );
        assert_eq!(tell_beside(true, &[sent(1990, 5000), sent(2005, 6000)]).woken, Some(Woken::WentOn));
    }

    #[test]
    fn a_dropping_router_leaves_the_sender_to_its_timer() {
        let story = tell(&[
            sent(990, 5000),
            heard(1020, 5000, false),
            sent(1021, 6000),
            again(1300, 5000),
            again(1800, 5000),
            again(2600, 5000),
            arrived(2650, 5000, true),
            heard(2700, 6000, false),
            again(2701, 6000),
        ]);
        assert_eq!((story.woken, story.woken_s), (Some(Woken::Timer), Some(0.6)));
        assert_eq!((story.timeouts, story.probes, story.spurious), (Some(3), Some(0), Some(false)));
        assert_eq!((story.first_delivery_s, story.first_new_s), (Some(0.65), Some(0.65)));
        assert_eq!((story.first_heard_s, story.zero_window_s, story.held), (Some(0.7), None, 0));
    }

    #[test]
    fn queued_packets_wake_it_by_their_acknowledgment_and_tell_that_the_timeout_was_spurious() {
        let story = tell(&[
            sent(990, 5000),
            heard(1020, 5000, false),
            sent(1021, 6000),
            again(1300, 6000),
            again(1400, 5000),
            arrived(2001, 5000, true),
            arrived(2002, 6000, true),
            heard(2051, 6000, false),
            sent(2052, 7000),
            arrived(2060, 5000, false),
        ]);
        assert_eq!((story.woken, story.woken_s), (Some(Woken::Acknowledgment), Some(0.052)));
        // The last segment sent again is a tail loss probe, not a timeout.
        assert_eq!((story.timeouts, story.probes, story.spurious), (Some(1), Some(1), Some(true)));
        assert_eq!(story.first_delivery_s, Some(0.001));
    }

    #[test]
    fn a_timeout_is_spurious_if_its_flight_arrives_though_the_copy_is_lost() {
        let flight = [sent(990, 5000), sent(991, 6000), sent(992, 7000), heard(1020, 5000, false)];
        let with = |rest: &[Seen]| tell(&[&flight[..], rest].concat()).spurious;
        assert_eq!(
            with(&[again(1300, 5000), arrived(2001, 5000, true), arrived(2002, 6000, true)]),
            Some(true)
        );
        let overtaken = [again(1300, 5000), arrived(2001, 6000, false), arrived(2003, 5000, true)];
        assert_eq!(with(&overtaken), Some(false), "the first transmission was lost");
        let all_lost = [
            again(2300, 5000),
            arrived(2301, 5000, true),
            // F-RTO tries new data first.
            sent(2302, 8000),
            arrived(2303, 8000, false),
            again(2304, 6000),
            arrived(2305, 6000, true),
        ];
        assert_eq!(with(&all_lost), Some(false));
    }

    #[test]
    fn a_frozen_sender_is_woken_by_the_nudge_and_the_held_packets_leave_at_the_end() {
        let story = tell(&[
            sent(990, 5000),
            heard(1003, 5000, true),
            probe(1400),
            heard(1405, 5000, true),
            left(2000, 1010),
            left(2004, 1011),
            left(2100, 2090),
            arrived(2003, 5000, true),
            heard(2010, 5000, false),
            sent(2011, 6000),
        ]);
        assert_eq!((story.woken, story.zero_window_s), (Some(Woken::Nudge), Some(0.003)));
        assert_eq!((story.held, story.held_first_s, story.held_last_s), (2, Some(0.0), Some(0.004)));
        assert_eq!((story.timeouts, story.probes, story.spurious), (Some(0), Some(1), None));
    }

    #[test]
    fn a_window_closed_before_the_silence_has_a_negative_time_and_a_reopened_one_none() {
        assert_eq!(tell(&[heard(950, 1, true), heard(1001, 1, true)]).zero_window_s, Some(-0.05));
        assert_eq!(tell(&[heard(900, 1, true), heard(950, 1, false), sent(1100, 1)]).zero_window_s, None);
    }

    #[test]
    fn a_paced_sender_that_never_stopped_was_not_woken() {
        assert_eq!(tell(&[sent(1990, 5000), sent(2005, 6000)]).woken, Some(Woken::WentOn));
        assert_eq!(tell(&[sent(1500, 5000), sent(2005, 6000)]).woken, Some(Woken::Timer));
        assert_eq!(tell(&[]).woken, None);
    }

    #[test]
    fn the_window_is_restored_if_it_is_nine_tenths_of_what_it_was_two_round_trips_after_the_end() {
        // The end came between the question and the answer.
        let across = WindowSample { told_s: 2.003, ..sample(1998, 7) };
        let looks = [(990, 100), (1990, 1), (2240, 50), (2250, 90), (2900, 200)];
        let mut all: Vec<WindowSample> = looks.map(|(at_ms, cwnd)| sample(at_ms, cwnd)).into();
        all.insert(2, across);
        let samples: Vec<&WindowSample> = all.iter().collect();
        let spans = [(ms(1000), ms(2000)), (ms(3000), ms(4000)), (ms(4100), ms(4200))];
        let told = stories(
            &spans,
            Known { seen: &[], samples: &samples, beside_host: false },
            Instant::ZERO,
            ms(5000),
        );
        let first = &told[0];
        assert_eq!(
            (first.cwnd_before, first.cwnd_at_end, first.cwnd_after, first.restored),
            (Some(100), Some(1), Some(90), Some(true))
        );
        assert_eq!(
            (told[1].cwnd_before, told[1].restored),
            (Some(200), None),
            "the next silence came before"
        );
        let summary = SilenceSummary::new(&told);
        assert_eq!((summary.silences, summary.with_cwnd, summary.restored), (3, 1, 1));
    }

    #[test]
    fn silences_that_overlap_are_one_and_those_of_the_warm_up_or_cut_by_the_end_none() {
        let spans = merged(vec![
            (ms(300), ms(400)),
            (ms(100), ms(200)),
            (ms(150), ms(180)),
            (ms(200), ms(250)),
            (ms(900), ms(1000)),
        ]);
        assert_eq!(spans, [(ms(100), ms(250)), (ms(300), ms(400)), (ms(900), ms(1000))]);
        let told = stories(&spans, Known { seen: &[], samples: &[], beside_host: false }, ms(200), ms(1000));
        assert_eq!(told.iter().map(|story| story.start_s).collect::<Vec<_>>(), [0.3]);
    }

    #[test]
    fn a_summary_counts_wakings_and_takes_medians() {
        let one = tell(&[heard(2010, 1, false), sent(2011, 1), arrived(2030, 1, true)]);
        let two = tell(&[sent(2300, 1), arrived(2310, 1, true)]);
        let summary = SilenceSummary::new(&[one, two]);
        assert_eq!((summary.woken_by_acknowledgment, summary.woken_by_timer), (1, 1));
        assert_eq!((summary.first_new_p50_s, summary.first_new_max_s), (Some(0.03), Some(0.31)));
    }
}
