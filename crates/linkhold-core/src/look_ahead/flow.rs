//! A connection of the host: what has passed down to it since its last ACK, how it usually answers, and when
//! its next ACK is expected therefore.
//!
//! No sequence number is read. As in lookahead section III it counts that a segment has passed since the last
//! ACK, so nothing that a hostile peer writes into a header can confuse it.

use super::beats::Beats;
use super::predict::{Estimate, Predictor, Scores, Share};
use crate::packet::TcpSegment;
use crate::time::{Duration, Instant};

/// After a pause as long as this a stream begins anew.
const PAUSE: Duration = Duration::from_secs(1);
/// ACKs of a stream before its spacing is believed.
const STEADY: u8 = 5;

/// What the host's other connections have taught: what a new one starts from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// From a segment to an ACK that it caused at once.
    pub turnaround: Estimate,
    /// From the first segment to an ACK that a timer sent.
    delay: Estimate,
    /// How many segments the first ACK of a connection waits for before it comes at once.
    first: u16,
    ack_len: u32,
    scores: Scores,
}

impl Habits {
    pub fn new(ack_len: u32) -> Self {
        Self {
            turnaround: Estimate::default(),
            delay: Estimate::default(),
            // RFC 5681 section 4.2: at least every second full-sized segment.
            first: 2,
            ack_len,
            scores: Scores::NEW,
        }
    }
}

/// What a connection's predictions need to know beside the connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outlook<'a> {
    pub now: Instant,
    pub frame: Duration,
    /// How long before an ACK its request is made; zero: there is nothing to gain.
    pub lead: Duration,
    /// An ACK may come this much later than predicted, at most. Zero in the paper.
    pub margin: Duration,
    /// Not the heartbeat alone.
    pub learned: bool,
    pub at_once: Duration,
    pub beats: &'a Beats,
}

impl Outlook<'_> {
    /// A request less than this ahead is worth nothing: its packet gets the same frame most of the time.
    fn least_gain(&self) -> Duration {
        Duration::from_nanos(self.frame.as_nanos() / 8)
    }

    /// When to ask for the turn of an ACK that is `expected`, and usually no more than `error` later.
    fn due(&self, by: Predictor, expected: Instant, error: Duration) -> Due {
        let margin = (error * 2).min(self.margin);
        Due { at: expected + margin - self.lead, expected, by, put_off: false }
    }
}

/// A request to come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Due {
    /// When it is to be made; now, if the time is over.
    pub at: Instant,
    /// When its ACK is expected.
    pub expected: Instant,
    pub by: Predictor,
    /// It waits for the access under way.
    pub put_off: bool,
}

/// Segments that wait for an ACK.
#[derive(Clone, Copy, Debug)]
struct Owing {
    since: Instant,
    segments: u16,
    /// A turn for their ACK was asked for.
    asked: bool,
}

/// A prediction whose ACK is watched for, whether a request is made or not.
#[derive(Clone, Copy, Debug)]
struct Watched {
    /// When the request would be made.
    from: Instant,
    expected: Instant,
}

/// A connection.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    owing: Option<Owing>,
    last_data: Instant,
    /// The last ACK that answered data.
    last_ack: Option<Instant>,
    pub ack_len: u32,
    /// How many segments the receiver lets come before it acknowledges at once.
    at_once_after: u16,
    delay: Estimate,
    gap: Estimate,
    watched: [Option<Watched>; Predictor::COUNT],
    scores: Scores,
    pub due: Option<Due>,
}

impl Flow {
    pub fn new(habits: &Habits) -> Self {
        Self {
            owing: None,
            last_data: Instant::ZERO,
            last_ack: None,
            ack_len: habits.ack_len,
            at_once_after: habits.first,
            delay: habits.delay,
            gap: Estimate::default(),
            watched: [None; Predictor::COUNT],
            scores: habits.scores,
            due: None,
        }
    }

    /// A segment passes, on its way to the host.
    pub fn on_segment(&mut self, tcp: &TcpSegment, habits: &Habits, look: &Outlook<'_>) {
        // What takes no sequence space is not acknowledged.
        if tcp.seq_len() == 0 {
            return;
        }
        let Outlook { now, .. } = *look;
        let first = self.owing.is_none();
        let owing = self.owing.get_or_insert(Owing { since: now, segments: 0, asked: false });
        owing.segments = owing.segments.saturating_add(1);
        let owing = *owing;
        self.last_data = now;
        if look.lead.is_zero() || owing.asked {
            return;
        }
        let heartbeat = self.by_heartbeat(look);
        let timer = if look.learned { self.by_timer(owing, habits, look) } else { None };
        if first {
            // Where nothing can be saved there is nothing to learn of the predictor.
            let watch = |due: Option<Due>| {
                let worth = due.filter(|due| due.expected.since(now) >= look.least_gain());
                worth.map(|due| Watched { from: due.at.max(now), expected: due.expected })
            };
            self.watched[Predictor::Heartbeat as usize] = watch(heartbeat);
            self.watched[Predictor::Timer as usize] = watch(timer);
        }
        let best = if look.learned {
            self.scores.best([heartbeat.is_some(), timer.is_some(), self.is_steady(look)])
        } else {
            Some(Predictor::Heartbeat)
        };
        match best {
            // Its next request is set already, and the one for this beat may have been made.
            Some(Predictor::Heartbeat) if self.is_due_by(Predictor::Heartbeat) => {}
            Some(Predictor::Heartbeat) => self.due = heartbeat,
            Some(Predictor::Timer) => {
                // An ACK that is sent at once leaves no time to ask ahead of it.
                self.due = timer.filter(|due| due.expected.since(now) >= look.least_gain());
            }
            // Asked for when the last ACK passed.
            Some(Predictor::Stream) => {}
            None => self.due = None,
        }
    }

    fn is_due_by(&self, predictor: Predictor) -> bool {
        self.due.is_some_and(|due| due.by == predictor)
    }

    /// The next beat. In the paper only one whose request is still to come: its timer goes off, and then
    /// looks whether a segment has passed (section III).
    fn by_heartbeat(&self, look: &Outlook<'_>) -> Option<Due> {
        let after = look.now + if look.learned { look.least_gain() } else { look.lead };
        let beat = look.beats.next(after)?;
        Some(look.due(Predictor::Heartbeat, beat, look.beats.errors()))
    }

    /// The delay of the receiver's timer after the first segment; or at once, if this segment is the one.
    fn by_timer(&self, owing: Owing, habits: &Habits, look: &Outlook<'_>) -> Option<Due> {
        if owing.segments >= self.at_once_after {
            let expected = look.now + habits.turnaround.mean();
            return Some(look.due(Predictor::Timer, expected, habits.turnaround.deviation()));
        }
        if self.delay.samples() == 0 {
            return None;
        }
        Some(look.due(Predictor::Timer, owing.since + self.delay.mean(), self.delay.deviation()))
    }

    /// The ACKs come so regularly that the one a lead ahead can be foretold to a frame. What a radio brings
    /// in frames is never more regular than half a frame.
    fn is_steady(&self, look: &Outlook<'_>) -> bool {
        let (gap, deviation) = (self.gap.mean(), self.gap.deviation());
        self.gap.samples() >= STEADY && !gap.is_zero() && deviation * 3 <= look.frame * 2
    }

    /// The first ACK of the stream that is at least a lead ahead.
    fn by_stream(&self, look: &Outlook<'_>) -> Option<Due> {
        if !self.is_steady(look) {
            return None;
        }
        let gap = self.gap.mean();
        let ahead = look.lead.as_nanos().div_ceil(gap.as_nanos()).max(1);
        let expected = look.now + Duration::from_nanos(ahead.saturating_mul(gap.as_nanos()));
        Some(look.due(Predictor::Stream, expected, self.gap.deviation()))
    }

    /// An acknowledgment passes, on its way up, `len` bytes long if it carries nothing else. It answers what
    /// has passed down, whatever its number: a receiver that misses a segment repeats its last ACK for each
    /// one that comes. True if a timer sent it, false if a segment caused it; `None` if nothing was owing.
    pub fn on_ack(&mut self, len: Option<u32>, habits: &mut Habits, look: &Outlook<'_>) -> Option<bool> {
        if let Some(len) = len {
            self.ack_len = len;
            habits.ack_len = len;
        }
        let owing = self.owing.take()?;
        let Outlook { now, .. } = *look;
        self.score(habits, look);
        let by_timer = self.learn(owing, habits, look);
        let is_new_turn = self.learn_gap(look);
        // The request of a steady stream is for a later ACK.
        if !self.is_due_by(Predictor::Stream) {
            self.due = None;
        }
        if look.learned && is_new_turn && !look.lead.is_zero() {
            let stream = self.by_stream(look);
            let watched = &mut self.watched[Predictor::Stream as usize];
            if watched.is_none() {
                *watched = stream.map(|due| Watched { from: now, expected: due.expected });
            }
            let knows_delay = self.delay.samples() > 0;
            let best = self.scores.best([look.beats.is_locked(), knows_delay, stream.is_some()]);
            self.due = match best {
                Some(Predictor::Stream) => stream,
                Some(Predictor::Heartbeat | Predictor::Timer) | None => None,
            };
        }
        Some(by_timer)
    }

    /// Compares the predictions with the ACK that passes.
    fn score(&mut self, habits: &mut Habits, look: &Outlook<'_>) {
        if look.lead.is_zero() {
            return;
        }
        for predictor in Predictor::ALL {
            let Some(watched) = self.watched[predictor as usize] else { continue };
            let now = look.now;
            let late = now.since(watched.expected) > look.frame;
            let saved = match predictor {
                // The ACK after the segments: one before its time has waited all the less.
                Predictor::Heartbeat | Predictor::Timer if late => 0,
                Predictor::Heartbeat | Predictor::Timer => {
                    let saved = now.since(watched.from).min(look.lead).as_nanos();
                    let share =
                        u128::from(saved) * u128::from(Share::ALL) / u128::from(look.lead.as_nanos().max(1));
                    // The saved time is at most the lead, so this is a byte.
                    u8::try_from(share).unwrap_or(Share::ALL)
                }
                // One ACK of many: others come before it.
                Predictor::Stream if watched.expected.since(now) > look.frame => continue,
                Predictor::Stream => {
                    if late {
                        0
                    } else {
                        Share::ALL
                    }
                }
            };
            self.watched[predictor as usize] = None;
            self.scores.add(predictor, saved);
            habits.scores.add(predictor, saved);
        }
    }

    /// Learns what the receiver waits for. True if a timer sent the ACK.
    fn learn(&mut self, owing: Owing, habits: &mut Habits, look: &Outlook<'_>) -> bool {
        let turnaround = look.now.since(self.last_data);
        let by_timer = turnaround > look.at_once;
        if by_timer {
            let delay = look.now.since(owing.since);
            self.delay.add(delay);
            habits.delay.add(delay);
            let more = owing.segments.saturating_add(1);
            self.at_once_after = self.at_once_after.max(more);
        } else {
            habits.turnaround.add(turnaround);
            self.at_once_after = owing.segments;
        }
        if self.last_ack.is_none() {
            habits.first = self.at_once_after;
        }
        by_timer
    }

    /// Learns the spacing of ACKs. False if this one shares its turn with the last.
    fn learn_gap(&mut self, look: &Outlook<'_>) -> bool {
        let Some(last) = self.last_ack else {
            self.last_ack = Some(look.now);
            return true;
        };
        let gap = look.now.since(last);
        if gap * 2 < look.frame {
            return false;
        }
        self.last_ack = Some(look.now);
        if gap > PAUSE {
            self.gap = Estimate::default();
        } else {
            self.gap.add(gap);
        }
        true
    }

    /// The request that is due was made. The next beat's follows, unless the ACK comes.
    pub fn asked(&mut self, due: Due, look: &Outlook<'_>) {
        self.due = None;
        match due.by {
            Predictor::Heartbeat => {
                let next = look.beats.next(due.expected.max(look.now + look.lead));
                self.due = next.map(|beat| look.due(Predictor::Heartbeat, beat, look.beats.errors()));
            }
            Predictor::Timer => {
                if let Some(owing) = &mut self.owing {
                    owing.asked = true;
                }
            }
            Predictor::Stream => {}
        }
    }
}
