//! What comes up: probes of the radio part are answered, and what was acknowledged is measured.
//!
//! Beside the paper (`dsasync`). Sees what comes from stations; answers the flow's radio probe, corrects
//! the [`Pacer`], and tells [`Bdp`], [`Untold`] and [`Cell`] what was acknowledged.
//!
//! [`Bdp`]: crate::dsasync::bdp::Bdp
//! [`Untold`]: crate::dsasync::untold::Untold
//! [`Cell`]: crate::dsasync::cell::Cell

use super::radio::waits_in_router;
use super::{Here, RoundTrips};
use crate::dsasync::bdp;
use crate::dsasync::flow::Flow;
use crate::dsasync::pacer::{AQM_TARGET, Pacer};
use crate::dsasync::probes::EMPTY_RADIO;
use crate::dsasync::shared::Shared;
use crate::packet::{PacketView, StationId};
use crate::time::Instant;
use crate::units::BitRate;

impl RoundTrips {
    /// A segment came from the station. False if it is not believed.
    #[inline]
    pub fn on_uplink(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        slot: u32,
        packet: &PacketView<'_>,
        here: Here,
        pacer: &mut Pacer,
    ) -> bool {
        let silent = shared.monitor.tfp(packet.station);
        self.look_for_gone(now, shared);
        let flow = shared.flows.at(slot);
        let mut believed = true;
        let told = self.bdp.is_told();
        let acked_before = flow.acked;
        let (before, after) = self.account(flow, |flow| {
            believed = flow.on_uplink(packet.tcp);
            if !told && believed {
                flow.pass_holes(packet.tcp);
            }
        });
        if !believed {
            return false;
        }
        flow.heard = now;
        if flow.midstream && !told && self.measures {
            self.look_for_unseen(now, flow, acked_before);
        }
        if let (Some(watched), Some(acked)) = (&mut flow.watched, flow.acked) {
            // Half the sequence space further on it would lie ahead again.
            watched.repairs_to.take_if(|end| !end.after(acked));
            if told {
                // The same, and nobody looks at it before the rate is told no more.
                watched.again = None;
            }
            // Duplicate ACKs answer repetitions, and would let a sender repeat for good.
            if acked_before != Some(acked) {
                watched.repeated = 0;
            }
        }
        let record = self.stations.at(packet.station);
        let lost = if told { 0 } else { flow.lost };
        let delivered = before.saturating_sub(after).saturating_sub(u64::from(lost));
        if delivered > 0 {
            (record.heard, record.gone) = (now, false);
            self.cell.heard = now;
            if let Some(watched) = &mut flow.watched {
                watched.progressed = now;
            }
        }
        if delivered > 0 && !self.below_is_never_full() {
            // One that is silent is set aside, and an ACK that was under way then does not bring it back.
            if !silent {
                self.set_aside(packet.station, false);
            }
            self.look_at_cell(now);
        }
        let beside = if delivered > 0 && !told { self.pass_others(now, flow) } else { 0 };
        // What comes up while nothing may go down says nothing of the rate.
        if !silent && here != Here::Withheld && !self.bdp.is_told() {
            self.measure_acked(now, packet.station, delivered, beside, here);
        }
        if !silent
            && (self.bdp.on_delivered(now, delivered, self.outstanding) || beside > 0)
            && let Some(pace) = self.pace(beside, packet.station)
        {
            pacer.set_rate(now, pace, false);
        }
        if !silent && here == Here::Held && delivered > 0 && !told && self.outstanding <= EMPTY_RADIO {
            pacer.hurry(now);
        }
        let silences = (!silent).then(|| shared.monitor.silences());
        self.answer_radio(now, flow, packet, silences, pacer);
        true
    }

    /// A segment came from the flow's station: takes a sample if its ACK answers the flow's probe.
    /// `silences`: how many there have been; `None` in a silence.
    #[inline]
    fn answer_radio(
        &mut self,
        now: Instant,
        flow: &mut Flow,
        packet: &PacketView<'_>,
        silences: Option<u64>,
        pacer: &mut Pacer,
    ) {
        let (Some(probe), Some(acked)) = (&flow.radio_probe, flow.acked) else { return };
        if acked.before(probe.first.end) {
            // Behind a hole a segment is acknowledged when the hole is filled.
            if !packet.tcp.sack.is_empty() {
                flow.radio_probe = None;
            }
            return;
        }
        let wait = self.waited_behind_uploads(packet.station);
        let guesses = self.guesses(now);
        let newest = probe.next.filter(|next| !acked.before(next.end)).unwrap_or(probe.first);
        let record = self.stations.at(packet.station);
        record.passed = record.passed.max(newest.at);
        self.passed = self.passed.max(newest.at);
        if silences == Some(probe.silences) {
            // A full segment would have taken longer, and windows are made of those.
            let shorter = self.bdp.takes(probe.shorter(flow.handshake.mss));
            // Before what lay below unseen had passed, nobody could tell that the radio was empty.
            let probe = &probe.seen_since(self.unseen);
            self.knows_empty |= probe.empty && !self.bdp.is_told();
            record.radio.add(now, probe, newest, shorter, wait);
            if guesses && !probe.empty {
                record.radio.guess_less(now);
            }
            if let Some(answered) = probe.answered(acked)
                && let Some(radio) = record.radio.empty.get()
            {
                let waited = now.since(answered.at).saturating_sub(radio);
                pacer.on_waited(now, answered.at, answered.ahead(), waited);
                let is_long = waited.saturating_sub(answered.ahead()) > AQM_TARGET;
                flow.waits_since = if is_long { flow.waits_since.min(now) } else { Instant::FAR_FUTURE };
                if waits_in_router(now, flow, pacer) {
                    pacer.shorten(now);
                }
            }
            if let Some(arrived) = probe.arrived() {
                self.bdp.on_radio_time(now, now.since(arrived) + shorter);
            }
        }
        flow.radio_probe = None;
    }

    /// The pace at which held packets leave; `beside`: bytes that passed and nobody acknowledged. Those are
    /// in the rate of the station, or of all that share a limit, and not in the pace that acknowledgments
    /// make.
    fn pace(&self, beside: u64, station: StationId) -> Option<BitRate> {
        let acked = self.bdp.pace();
        let rate = if self.is_shared() {
            Some(self.cell.passes())
        } else {
            let own = self.untold(station).filter(|untold| untold.rate.is_filled());
            own.map(|untold| untold.rate.rates.slow())
        };
        let all = rate.filter(|&rate| beside > 0 && rate > 0.0).map(bdp::pace_of);
        acked.max(all)
    }

    /// True if it was long ago that a sender was seen to use up its window at the station.
    fn has_lapsed(&self, now: Instant, station: StationId) -> bool {
        let Some(untold) = self.untold(station).filter(|untold| untold.rate.used_up) else { return false };
        let (since, span) = untold.rate.used_up_since();
        now > self.waits.over(since, span)
    }

    /// Tells the measurement that the station acknowledged `delivered` bytes, and that `beside` more passed
    /// that nobody acknowledges; `here`: what of its packets still waits here.
    #[inline(never)]
    fn measure_acked(&mut self, now: Instant, station: StationId, delivered: u64, beside: u64, here: Here) {
        let left = self.stations.get(station).map_or(0, |record| record.outstanding);
        let local = self.local_part(station).unwrap_or_default();
        let (others, _) = self.others_under_way(now, station);
        if self.cell.total_mut().is_some() {
            let mut of_all = self.cell.under_way(self.outstanding, self.first, others, local);
            of_all.dry &= here == Here::Nothing && self.waiting == 0;
            if let Some(total) = self.cell.total_mut() {
                total.on_acked(now, delivered, beside, of_all);
            }
        }
        let lapsed = self.has_lapsed(now, station);
        let Some(untold) = self.untold_at(station) else { return };
        if lapsed {
            // A download that used its windows up has ended: nobody is held down any more.
            untold.rate.used_up = false;
        }
        let mut under_way = untold.under_way(left, others, local);
        under_way.dry &= here == Here::Nothing;
        untold.rate.on_acked(now, delivered, beside, under_way);
        untold.look(now, under_way.dry);
    }
}
