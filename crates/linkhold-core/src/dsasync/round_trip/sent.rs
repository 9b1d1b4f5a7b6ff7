//! What goes down: probes of the radio part begin, and the rate that nobody tells is measured.
//!
//! Beside the paper (`dsasync`). Sees what comes from the correspondent and what goes to the transmit queue;
//! begins the flow's radio probe, counts what is outstanding, and tells [`Untold`] and [`Cell`] what went
//! down.
//!
//! [`Untold`]: crate::dsasync::untold::Untold
//! [`Cell`]: crate::dsasync::cell::Cell

use super::RoundTrips;
use super::radio::probe_radio;
use super::wired::answer_wired;
use crate::dsasync::flow::{Flow, Watched};
use crate::dsasync::probes::{Departure, EMPTY_RADIO, SentDown};
use crate::dsasync::shared::Shared;
use crate::dsasync::unacknowledged::LONGEST_BELOW;
use crate::dsasync::untold::PATIENCE;
use crate::packet::{TcpFlags, TcpSegment};
use crate::time::{Duration, Instant};

impl RoundTrips {
    /// A segment came from the correspondent.
    #[inline]
    pub fn on_arrival(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
        if tcp.flags.contains(TcpFlags::SYN) {
            self.on_syn(now, flow, tcp);
        } else if flow.on_downlink(tcp) {
            answer_wired(now, flow, tcp);
        }
    }

    #[cold]
    fn on_syn(&mut self, now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
        let mut believed = true;
        // A connection that starts anew on its ports has nothing in the radio.
        self.account(flow, |flow| believed = flow.on_downlink(tcp));
        if believed {
            answer_wired(now, flow, tcp);
        }
    }

    /// A downlink packet goes to the transmit queue, where it is thought to wait for `ahead`.
    #[inline]
    pub fn on_sent(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        sent: &SentDown,
        ahead: Duration,
    ) {
        if self.cell_is_out_of_patience(now) {
            self.give_up(now, shared);
        }
        let flow = shared.flows.at(slot);
        let told = self.bdp.is_told();
        if flow.is_answered() && (told || self.measures) {
            let record = self.stations.at(flow.station);
            if told {
                record.flows.add(now, sent.len, &mut flow.share);
            }
            self.bdp.on_sent(now, sent.len, &mut record.share);
        }
        if sent.seq_len == 0 {
            // Nothing goes again and nothing is added, also where it ends as what is owed does.
            if !flow.take_owed_ack() {
                self.on_sent_beside(now, sent);
            }
            return;
        }
        // A segment beyond all that was learned of is one that was not believed.
        if flow.was_sent(sent.end) || flow.down_max.is_none_or(|highest| sent.end.after(highest)) {
            if flow.is_owed(sent.end) {
                self.on_sent_again(now, flow, sent.end, sent.seq_len);
                // Karn, and what else is under way may be acknowledged together with it.
                flow.radio_probe = None;
            } else {
                self.on_sent_beside(now, sent);
            }
            return;
        }
        let told_empty = told && ahead.is_zero();
        let is_clear = self.is_clear_of_others(now);
        let empty = told_empty || (self.outstanding <= EMPTY_RADIO && is_clear);
        let station = flow.station;
        let under_way = self.stations.get(station).map_or(0, |record| record.outstanding);
        let below_was_full = self.below_is_full(now, station).is_some();
        if !below_was_full && self.has_all_below(now, station) {
            // Patience is over: as much goes down as should lie below, and not all that is held.
            let record = self.stations.at(station);
            (record.excused, record.excused_until) = (record.outstanding, now + PATIENCE);
            record.heard = now;
        }
        let cell_was_full = self.cell_is_full(now).is_some();
        if !told {
            self.measure_sent(now, flow, sent, under_way);
        }
        // With sequence numbers from nowhere, half the space away, fewer may be outstanding than before.
        let (before, _) = self.account(flow, |flow| flow.down_sent = Some(sent.end));
        if flow.acked.is_none() {
            self.on_sent_beside(now, sent);
        }
        if before == 0 {
            // The time that its station has to answer begins now.
            flow.heard = now;
            if let Some(watched) = &mut flow.watched {
                watched.progressed = now;
            }
        }
        if under_way == 0 || (!below_was_full && self.below_is_full(now, station).is_some()) {
            // The wait for the station begins with the first segment, and anew with one that reaches the
            // limit.
            self.stations.at(station).heard = now;
        }
        if !cell_was_full && self.cell.is_full(self.outstanding) {
            self.cell.heard = now;
        }
        let departure = Departure::new(now, sent.end, ahead);
        probe_radio(flow, departure, sent, shared.monitor.silences(), empty, is_clear);
    }

    /// Tells the measurement of the untold rate that a segment goes down; `under_way`: the station's
    /// outstanding bytes before it.
    #[inline(never)]
    fn measure_sent(&mut self, now: Instant, flow: &mut Flow, sent: &SentDown, under_way: u64) {
        let local = self.local_part(flow.station).unwrap_or_default();
        let bytes = flow.down_sent.map_or(0, |highest| u64::try_from(sent.end.minus(highest)).unwrap_or(0));
        self.cell.on_sent(now, bytes);
        let (others, _) = self.others_under_way(now, flow.station);
        let busy = self.measure_cell_sent(now, bytes, others, local);
        let beside = self.others.went_down_since(now, LONGEST_BELOW);
        // A station whose packets wait here while the radio is busy with those of others does not run dry:
        // its turn has come. What nobody acknowledges counts for one station or another, so beside it no part
        // of the radio can be told.
        let waited = busy && !beside && sent.arrived.is_none_or(|arrived| arrived < now);
        let begins = under_way == 0 && !waited && !beside;
        if begins {
            self.others.begin_sample();
        }
        let Some(untold) = self.untold_at(flow.station) else { return };
        if begins {
            untold.rate.begin_sample(now);
        }
        let mut before = untold.under_way(under_way, others, local);
        before.dry &= !waited;
        untold.rate.on_sent(now, bytes, before);
        let begins_midstream = flow.midstream && flow.down_sent.is_none();
        let watched =
            flow.watched.get_or_insert_with(|| Box::new(Watched { progressed: now, ..Watched::default() }));
        watched.sent = now;
        if begins_midstream {
            watched.seen_from = Some(sent.end - sent.seq_len);
        }
        if flow.is_answered() {
            untold.shares.add(now, sent.len, &mut flow.share);
        }
    }

    /// As [`measure_sent`](Self::measure_sent), for all stations together; `others`: bytes below that nobody
    /// will acknowledge. True if several stations share the radio, and it was not dry.
    #[inline]
    fn measure_cell_sent(&mut self, now: Instant, bytes: u64, others: u64, local: Duration) -> bool {
        if self.stations.len() < 2 || self.bdp.is_told() || !self.measures {
            return false;
        }
        let begins = self.outstanding == 0 && !self.others.went_down_since(now, LONGEST_BELOW);
        let under_way = self.cell.under_way(self.outstanding, self.first, others, local);
        let limits = self.limits;
        let total = self.cell.total_or(|| limits.rate());
        if begins {
            total.begin_sample(now);
        }
        total.on_sent(now, bytes, under_way);
        self.is_shared() && !under_way.dry
    }
}
