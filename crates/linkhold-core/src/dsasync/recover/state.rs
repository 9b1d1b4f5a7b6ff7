//! What is known of one flow's copies, and when something of it is due.
//!
//! A flow: quiet → threatened (a silence goes on) → probing (the silence was noticed late: two copies are on
//! their way) → watching (all suspects have gone down, or none was likely lost) → quiet.

use std::collections::VecDeque;

use super::hide::{Doubled, Hidden};
use crate::copies::Copies;
use crate::copies::round_trip::RoundTrip;
use crate::copies::suspects::Judging;
use crate::dsasync::waits::PastSilences;
use crate::packet::{SackBlock, StationId};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// The station's next ACK is waited for at least this long, and at most [`MOST_PATIENCE`].
const LEAST_PATIENCE: Duration = Duration::from_millis(5);
const MOST_PATIENCE: Duration = Duration::from_millis(200);
/// Longest delay of an ACK (Linux's `TCP_DELACK_MIN` of 40 ms, from memory, and a round trip).
const DELAYED_ACK: Duration = Duration::from_millis(50);
/// Most silences that are subtracted from a time that was measured.
const SILENCES: usize = 4;
/// A silence that is noticed within this time after its station was heard counts as noticed at once.
pub const LEAST_LATE: Duration = Duration::from_millis(3);
/// Patience with reordering where no local round trip has been measured.
const UNMEASURED_PATIENCE: Duration = Duration::from_millis(1);

/// Room for copies that a flow's place keeps from one connection to the next.
const USUAL: usize = 16;

/// A station that answers every second segment at once (RFC 1122 section 4.2.3.2) owes no ACK for fewer
/// segments than this.
const OWED: usize = 4;

/// Where a flow is in its recovery from a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Quiet,
    /// A silence goes on, noticed at `since`. `late`: it had lasted for some time by then.
    Threatened { late: bool, since: Instant },
    /// The answer to the first copies is waited for until then.
    Probing { until: Instant },
    /// If the station is not heard until then, the first suspects go again. `waits`: how often that happened.
    Watching { until: Instant, waits: u8 },
}

/// Whether the station has stopped answering, though nobody has told of a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mute {
    #[default]
    No,
    /// Nothing goes down to it until it is heard, or until then.
    Since { until: Instant },
    /// That time is over. Packets go down again, and do not stop for it anew before the station is heard.
    Believed,
}

/// The copies of one flow, and what is kept from its sender meanwhile.
#[derive(Debug, Default)]
pub(super) struct State {
    pub copies: Copies,
    pub phase: Phase,
    /// When the station was last heard, began to owe an ACK, or could send again.
    pub heard: Instant,
    pub mute: Mute,
    /// The station whose gate the flow keeps shut.
    pub shuts: Option<StationId>,
    /// True if the flow is in the list of flows with copies to send.
    pub in_line: bool,
    /// True if the flow is in the list of flows with something due.
    pub active: bool,
    round_trip: Option<RoundTrip>,
    /// The latest silences, each from when it was noticed.
    silences: PastSilences<SILENCES>,
    /// Acknowledgment and window field of the station's latest ACK.
    pub last: Option<(Seq, u16)>,
    /// The station has sent SACK blocks.
    pub sacks: bool,
    pub hidden: VecDeque<Hidden>,
    /// ACKs that tell of a hole are kept back until then.
    pub hide_until: Option<Instant>,
    pub doubled: VecDeque<Doubled>,
    /// A silence goes on since then, in which copies that stand in the router's queue stand still.
    pub stands_since: Option<Instant>,
    /// The range in which the sender has sent segments again that were not acknowledged then; until all of it
    /// is acknowledged.
    pub repeated: Option<(Seq, Seq)>,
}

impl State {
    /// True if no ACK can change anything here.
    pub fn is_idle(&self) -> bool {
        self.copies.is_empty()
            && self.hidden.is_empty()
            && self.doubled.is_empty()
            && self.hide_until.is_none()
            && self.phase == Phase::Quiet
    }

    /// True if this D-SACK block is of copies and of nothing else. A station whose driver merges segments
    /// that come together (GRO) reports several copies in one block.
    pub fn explains(&self, now: Instant, block: &SackBlock) -> bool {
        let mut byte = block.left;
        // Each copy moves it on at most once.
        for _ in 0..self.doubled.len() {
            let ends = self.doubled.iter().filter(|doubled| doubled.explains(now, byte));
            match ends.map(|doubled| doubled.end).reduce(Seq::max) {
                Some(end) if end.before(block.right) => byte = end,
                found => return found.is_some(),
            }
        }
        false
    }

    /// Segments were acknowledged: `took` is the time of one that was sent once and met no silence; `first`
    /// is when the latest of them went down first.
    ///
    /// On a slow radio every segment may meet a silence before it is acknowledged, and be sent again because
    /// of it. As long as nothing else was measured, the time of such a segment, less the silences, stands for
    /// the round trip: it is never too short. Later it would be too long: when it was taken wherever nothing
    /// else had been measured for 1 s, ends that are told late cost 0.4 % of the limit and 15 ms of delay.
    pub fn measured(&mut self, now: Instant, took: Option<Duration>, first: Option<Instant>) {
        let took = match (took, first, self.round_trip) {
            (Some(took), ..) => took,
            (None, Some(first), None) => now.since(first).saturating_sub(self.silences.silent_since(first)),
            (None, ..) => return,
        };
        self.round_trip = Some(RoundTrip::measured(self.round_trip, took));
    }

    /// True if a silence of the flow's station goes on.
    pub fn is_threatened(&self) -> bool {
        matches!(self.phase, Phase::Threatened { .. })
    }

    /// A silence of the flow's station was noticed.
    pub fn silence_began(&mut self, now: Instant, late: bool) {
        let (since, before) = match self.phase {
            Phase::Threatened { late, since } => (since, late),
            // What the silence before took is still not known.
            Phase::Probing { .. } => (now, true),
            Phase::Quiet | Phase::Watching { .. } => (now, false),
        };
        self.phase = Phase::Threatened { late: late || before, since };
    }

    /// The silence that was noticed at `since` is over.
    pub fn silence_ended(&mut self, since: Instant, now: Instant) {
        self.silences.remember(since, now);
    }

    /// The flow's station is silent no more: its copies are no older than they were.
    pub fn goes_on(&mut self, now: Instant) {
        let Some(since) = self.stands_since.take() else { return };
        for doubled in &mut self.doubled {
            doubled.at += now.since(since.max(doubled.at));
        }
    }

    /// Another connection takes the flow's place, and may need less than this one did.
    pub fn give_memory_back(&mut self) {
        self.copies.shrink_to(USUAL);
        self.hidden.shrink_to(USUAL);
        self.doubled.shrink_to(USUAL);
    }

    /// Forgets the round trip: another connection takes the flow's place.
    pub fn forget_round_trip(&mut self) {
        self.round_trip = None;
    }

    fn with_deviations(&self, count: u64) -> Option<Duration> {
        self.round_trip.map(|measured| measured.with_deviations(count))
    }

    /// True if the station [is mute](Self::is_mute), and that has not been noticed yet.
    pub fn falls_mute(&self, silent_for: Duration) -> bool {
        self.mute == Mute::No && self.is_mute(silent_for)
    }

    /// True if the station owes ACKs for so much, and for so long, that it must be out of reach, though
    /// nobody has told why.
    pub fn is_mute(&self, silent_for: Duration) -> bool {
        matches!(self.phase, Phase::Quiet | Phase::Watching { .. })
            && self.copies.len() >= OWED
            && self.round_trip.is_some()
            && silent_for > self.ack_patience()
    }

    /// How long the station's next ACK is waited for.
    ///
    /// At most [`MOST_PATIENCE`], or twice the local round trip where that is more: over a slow radio nothing
    /// comes sooner. Before anything has been measured the radio may be slow, too.
    pub fn ack_patience(&self) -> Duration {
        let Some(measured) = self.round_trip else { return MOST_PATIENCE };
        let most = MOST_PATIENCE.max(measured.mean() * 2);
        measured.with_deviations(4).clamp(LEAST_PATIENCE, most)
    }

    /// What the station's answer took lately, the wait in the router's queue included; zero where nothing has
    /// been measured. At most [`MOST_PATIENCE`].
    pub fn answer(&self) -> Duration {
        self.with_deviations(4).map_or(Duration::ZERO, |answer| answer.min(MOST_PATIENCE))
    }

    /// How long the ACK of the last segments is waited for: the station may delay it.
    pub fn tail(&self) -> Duration {
        (self.ack_patience() * 2).max(DELAYED_ACK)
    }

    /// A silence that is noticed later than this after the station was last heard was noticed late. `None` as
    /// long as nothing has been measured: on a slow radio the first answer takes long.
    pub fn late(&self) -> Option<Duration> {
        self.with_deviations(2).map(|time| time.max(LEAST_LATE))
    }

    /// Patience with reordering: a quarter of the local round trip (RFC 8985 section 6.2 step 4).
    pub fn patience(&self) -> Duration {
        self.round_trip.map_or(UNMEASURED_PATIENCE, RoundTrip::quarter)
    }

    /// When the flow next has something due.
    pub fn due(&self, how: &Judging) -> Option<Instant> {
        let (phase, judgement) = match self.phase {
            Phase::Quiet => (None, self.copies.next_judgement(how)),
            Phase::Threatened { .. } => (None, None),
            Phase::Probing { until } | Phase::Watching { until, .. } => {
                (Some(until), self.copies.next_judgement(how))
            }
        };
        let mute = match self.mute {
            Mute::Since { until } => Some(until),
            Mute::No | Mute::Believed => None,
        };
        let shown = self.hide_until.filter(|_| !self.hidden.is_empty());
        [phase, judgement, mute, shown].into_iter().flatten().min()
    }
}
