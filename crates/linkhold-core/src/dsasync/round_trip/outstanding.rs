//! Outstanding bytes: what was handed to the radio and stations have not acknowledged.
//!
//! Beside the paper (`dsasync`). Sees what goes down, comes back and is acknowledged; keeps the sums of
//! flows, stations and cell, and decides when bytes are written off.
//!
//! - If a flow's station says nothing for [`GONE`] though the radio works, the station is taken to be gone,
//!   and the flow's bytes are written off. The bytes of a flow whose sender had a timeout are written off
//!   if they keep what it sends again from going down ([`RoundTrips::counts_anew`]).
//! - Where nobody tells the rate, what comes before the highest SACK block is taken for delivered or lost,
//!   since one hop keeps the order of what it does not lose. What is sent again, by its sender or from a
//!   copy, is under way once more; what comes back from the transmit queue is not. Otherwise a hole would
//!   shut the gate. For the same reason a flow's bytes are written off if its station has not acknowledged
//!   them for 50 ms, though it has acknowledged what went down to it later: where one of several hosts
//!   behind a station leaves, its senders' timeouts would keep the gate shut for the others.
//! - Where several stations share a limit and all have said nothing for [`PATIENCE`], the bytes of
//!   flows whose last segment went down before that are written off as well ([`RoundTrips::give_up`]).
//!   Otherwise 37 flows of three stations, most of them with one lost segment, kept the limit reached:
//!   with bursts of 50 ms that were told 50 ms late one packet went down in 0.4 s.

use super::RoundTrips;
use crate::dsasync::cell::STALE;
use crate::dsasync::flow::Flow;
use crate::dsasync::shared::Shared;
use crate::dsasync::untold::PATIENCE;
use crate::dsasync::withheld::first_of;
use crate::packet::{StationId, TcpSegment};
use crate::time::{Duration, Instant};
use crate::units::Seq;

/// A station that acknowledges nothing for this long has left, or what it has yet to acknowledge is lost. An
/// ACK is delayed by 0.5 s at most (RFC 1122 section 4.2.3.2).
const GONE: Duration = Duration::from_secs(2);

/// Flows that are looked at when patience is over.
const LOOKS: usize = 64;

impl RoundTrips {
    /// The next slot whose flow has outstanding bytes, if there is one. Slots whose flow has none any more,
    /// or that no flow has, leave the list here: at most two in a call, so that no packet costs much more
    /// than another.
    #[inline]
    fn next_owing(&mut self, shared: &mut Shared) -> Option<u32> {
        for _ in 0..2 {
            if self.hand >= self.owing.len() {
                self.hand = 0;
            }
            let slot = *self.owing.get(self.hand)?;
            if shared.flows.get(slot).is_some_and(|flow| flow.outstanding() > 0) {
                self.hand += 1;
                return Some(slot);
            }
            self.owing.swap_remove(self.hand);
            shared.flows.at(slot).is_owing = false;
        }
        None
    }

    /// Looks at the next flow with outstanding bytes, and writes them off if its station is gone or if they
    /// cannot be below any more. Called once for each uplink packet: every such flow is looked at again and
    /// again. (A walk over all flows would take a minute's packets where the table is full of ended ones.)
    #[inline]
    pub(super) fn look_for_gone(&mut self, now: Instant, shared: &mut Shared) {
        if let Some(slot) = self.next_owing(shared) {
            self.look_at(now, shared, slot);
        }
    }

    #[inline]
    fn look_at(&mut self, now: Instant, shared: &mut Shared, slot: u32) {
        let flow = shared.flows.known(slot);
        if !shared.monitor.tfp(flow.station) {
            let gone = now > self.waits.over(flow.heard, GONE);
            if gone || self.has_passed(now, flow) {
                self.write_off(shared.flows.at(slot), gone);
            }
        }
    }

    /// All stations have said nothing for [`PATIENCE`], and something goes down all the same: writes off what
    /// was owed all that time, of at most [`LOOKS`] flows.
    ///
    /// It is lost, or the stations were away. If they were, each [`PATIENCE`] as much goes down once more as
    /// should lie below.
    #[cold]
    pub(super) fn give_up(&mut self, now: Instant, shared: &mut Shared) {
        for _ in 0..self.owing.len().min(LOOKS) {
            let Some(slot) = self.next_owing(shared) else { continue };
            self.look_at(now, shared, slot);
            let flow = shared.flows.known(slot);
            let Some(watched) = &flow.watched else { continue };
            let owed_since = watched.sent.max(watched.progressed);
            let is_owed = flow.outstanding() > 0 && !shared.monitor.tfp(flow.station);
            if is_owed && now >= self.waits.over(owed_since, PATIENCE) {
                self.write_off(shared.flows.at(slot), false);
            }
        }
    }

    /// True if the flow's station has acknowledged what went down after all of the flow's segments, but none
    /// of those.
    #[inline]
    fn has_passed(&self, now: Instant, flow: &Flow) -> bool {
        if self.bdp.is_told() {
            return false;
        }
        // What went down while the rate was told is not watched.
        let (sent, progressed) =
            flow.watched.as_ref().map_or((flow.heard, flow.heard), |it| (it.sent, it.progressed));
        let passed = self.stations.get(flow.station).is_some_and(|record| record.passed > sent);
        passed && now > self.waits.over(sent.max(progressed), STALE)
    }

    /// Writes off the flow's outstanding bytes; `gone`: its station is taken to have left too.
    #[cold]
    fn write_off(&mut self, flow: &mut Flow, gone: bool) {
        let _ = self.account(flow, Flow::write_off);
        self.stations.at(flow.station).gone |= gone;
    }

    /// Changes a flow whose outstanding bytes may change by it, and keeps the sums. Answers the flow's bytes
    /// before and after.
    #[inline]
    pub(super) fn account(&mut self, flow: &mut Flow, change: impl FnOnce(&mut Flow)) -> (u64, u64) {
        let before = flow.outstanding();
        change(flow);
        let after = flow.outstanding();
        self.outstanding = self.outstanding + after - before;
        if after > 0 && !flow.is_owing {
            flow.is_owing = true;
            self.owing.push(flow.slot);
        }
        // A flow may have moved to another station, and a station's number may have gone to another.
        let (old, bytes) = flow.booked;
        let booked = u32::try_from(after).unwrap_or(u32::MAX);
        if old != flow.station || bytes != booked {
            self.unbook(old, bytes);
            let to = self.stations.at(flow.station);
            to.outstanding += u64::from(booked);
            to.excused = to.excused.min(to.outstanding);
            to.first += first_of(booked);
            self.first += first_of(booked);
            if to.aside {
                self.cell.put_aside(u64::from(booked));
            }
            flow.booked = (flow.station, booked);
        }
        (before, after)
    }

    /// Bytes that were booked for a station are outstanding there no more.
    #[inline]
    fn unbook(&mut self, station: StationId, bytes: u32) {
        let record = self.stations.at(station);
        record.outstanding = record.outstanding.saturating_sub(u64::from(bytes));
        record.first = record.first.saturating_sub(first_of(bytes));
        self.first -= first_of(bytes);
        if record.aside {
            self.cell.take_back(u64::from(bytes));
        }
    }

    /// A segment was held though the radio works. True if what lies below counts anew from now on: the
    /// sender sends again what its station has not acknowledged, and the station has acknowledged nothing
    /// else on the connection for [`PATIENCE`]. Then a timer of the sender has expired. All that is
    /// outstanding is taken to be lost, as the sender itself takes it (RFC 5681 section 3.1: it starts
    /// again with one segment under way), until what the sender had sent by then is acknowledged (RFC 6582
    /// section 3.2, `recover`).
    ///
    /// Otherwise what is lost would keep the gate shut, and what is sent again would wait behind all that is
    /// held of its connection, one packet each [`PATIENCE`]. A station that reports a hole opens the gate by
    /// that, but not every station does. Where the station was merely away, each timeout lets no more go down
    /// than should lie below.
    #[inline]
    pub fn counts_anew(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) -> bool {
        !self.below_is_never_full() && self.repairs(now, flow, tcp)
    }

    /// As [`counts_anew`](Self::counts_anew), where the gate may be shut.
    #[inline(never)]
    fn repairs(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) -> bool {
        let Some(acked) = flow.acked.filter(|&acked| tcp.seq_end().after(acked)) else { return false };
        let is_again = tcp.seq_len() > 0 && flow.was_sent(tcp.seq_end());
        if !is_again || flow.outstanding() == 0 || self.untold(flow.station).is_none() {
            return false;
        }
        let newest = flow.down_max;
        let Some(watched) = &mut flow.watched else { return false };
        if now > self.waits.over(watched.progressed, PATIENCE) {
            watched.repairs_to = newest;
        }
        let repairs = watched.repairs_to.is_some_and(|end| end.after(acked));
        if repairs {
            self.account(flow, Flow::write_off);
        }
        repairs
    }

    /// A packet that had been sent down came back: its flow's probe is void, and where nobody tells the rate
    /// it is not below any more.
    pub fn on_taken_back(&mut self, flow: &mut Flow, tcp: &TcpSegment) {
        flow.radio_probe = None;
        if flow.acked.is_none() {
            self.on_unacknowledged_back(tcp.seq_len());
        }
        let was_sent = flow.was_sent(tcp.seq_end());
        let is_out = flow.acked.is_some_and(|acked| !tcp.seq.before(acked));
        if !self.bdp.is_told() && was_sent && is_out {
            let _ = self.account(flow, |flow| flow.taken_back(tcp.seq_len()));
        }
    }

    /// What had gone down goes down again: its sender sent it again, it goes from a copy, or it had come
    /// back.
    pub fn on_sent_again(&mut self, now: Instant, flow: &mut Flow, end: Seq, bytes: u32) {
        if !self.bdp.is_told() {
            let _ = self.account(flow, |flow| flow.sent_again(end, bytes));
            if !self.stations.at(flow.station).gone {
                self.served = Some((now, flow.station));
            }
            if let Some(total) = self.cell.total_mut() {
                total.on_sent_again(bytes);
            }
            if let Some(untold) = self.untold_at(flow.station) {
                untold.rate.on_sent_again(bytes);
            }
            if let Some(watched) = &mut flow.watched {
                watched.sent = now;
                watched.again.get_or_insert((end, now));
                watched.repeated = watched.repeated.saturating_add(bytes);
            }
        }
    }

    /// The station's number goes to another station, for which nothing of what lies below counts.
    pub fn forget_station(&mut self, shared: &mut Shared, station: StationId) {
        // Thousands may leave at once, of whom most were never heard.
        if self.stations.get(station).is_some_and(|record| record.outstanding > 0) {
            for at in 0..self.owing.len() {
                let slot = self.owing[at];
                if shared.flows.get(slot).is_some_and(|flow| flow.booked.0 == station && flow.booked.1 > 0) {
                    self.write_off(shared.flows.at(slot), false);
                }
            }
        }
        self.set_aside(station, false);
        self.stations.forget(station);
    }

    /// The flow leaves the table.
    pub fn forget(&mut self, flow: &Flow) {
        self.outstanding -= flow.outstanding();
        let (station, bytes) = flow.booked;
        self.unbook(station, bytes);
    }
}
