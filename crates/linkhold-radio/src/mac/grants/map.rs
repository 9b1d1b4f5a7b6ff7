//! The base station's uplink map: which stations have bursts in a frame, and how large.
//!
//! Unsolicited grants come first, then requests. Each station with requests has an equal share of the room,
//! and what one does not need is left to the others, in turn from frame to frame (max-min fairness but for
//! the rounding). A request that is not met whole goes on in the next frame.

use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use super::Grants;
use super::config::{Proactive, REQUEST_MESSAGE};
use super::in_flight::{Allocation, LEAST_SHARE, Share};
use super::station::Access;
use crate::mac::context::Context;

impl Grants {
    /// Writes the map of uplink frame `frame`; stations hear of it at the end of the maps that are
    /// sent now.
    pub(super) fn write_map(&mut self, now: Instant, frame: u64, context: &Context<'_>) {
        if !self.demanded && self.config.proactive.is_none() {
            return;
        }
        let starts = self.frame_start(frame);
        let ends = starts + self.layout.up_end;
        let rate = self.uplink_rate(context);
        let unsolicited = self.config.proactive;
        let mut room = self.config.uplink_room(rate);
        let mut waiting = 0;
        let mut shares = core::mem::take(&mut self.shares);
        shares.clear();
        for (station, index) in self.stations.iter().zip(0..) {
            if let Access::Assigned { frame: assigned, .. } = station.access
                && assigned <= frame
            {
                room = room.saturating_sub(REQUEST_MESSAGE);
            }
            let mut share = Share::default();
            let id = StationId(index);
            if ends <= context.radio.quiet_at(id) && !context.radio.stops_station(id) {
                share.wanted = station.demanded(frame);
                // Stations follow each other within a period.
                let now =
                    |grants: &Proactive| frame % u64::from(grants.period) == u64::from(index % grants.period);
                share.unsolicited = unsolicited.filter(now).map_or(0, |grants| grants.bytes.0);
            }
            shares.push(share);
        }
        for share in &mut shares {
            share.unsolicited = share.unsolicited.min(room);
            room -= share.unsolicited;
            share.wanted = share.wanted.saturating_sub(share.unsolicited);
            waiting += u64::from(share.wanted > 0);
        }
        let count = shares.len();
        let header = u64::from(self.config.header);
        let turn = self.turn;
        let turns = || (turn..count).chain(0..turn);
        for index in turns() {
            let share = &mut shares[index];
            if share.wanted > 0 {
                let equal = (room / waiting).max(LEAST_SHARE + header);
                share.given = share.wanted.min(equal).min(room);
                room -= share.given;
                waiting -= 1;
            }
        }
        for index in turns() {
            let share = &mut shares[index];
            let more = (share.wanted - share.given).min(room);
            share.given += more;
            room -= more;
            // A burst without room for a byte behind the header carries nothing.
            if share.given < share.wanted && share.given + share.unsolicited <= header {
                room += core::mem::take(&mut share.given);
            }
        }
        let first = starts + self.layout.bursts;
        let mut offset = 0;
        for index in turns() {
            let Share { unsolicited, given, .. } = shares[index];
            let bytes = unsolicited + given;
            if bytes == 0 {
                continue;
            }
            let station = &mut self.stations[index];
            let asked = bytes.min(station.demanded(frame));
            let since = station.meet(asked, header);
            let at = first + rate.time_for(Bytes(offset));
            offset += bytes;
            self.allocations.push_back(Allocation { station: index, frame, at, bytes, asked, since });
            self.counters.grants += 1;
            self.counters.granted_bytes += bytes;
            self.untold += 1;
        }
        if shares.iter().any(|share| share.given < share.wanted) {
            self.turn = (self.turn + 1) % count;
        }
        self.shares = shares;
        self.demanded = self.stations.iter().any(|station| !station.demands.is_empty());
        if self.untold > 0 {
            self.timers.heard = now + self.layout.data;
        }
    }

    /// The first frame from `from` on at whose start a map has something to grant.
    pub(super) fn next_map(&self, from: u64) -> Option<u64> {
        let ahead = u64::from(self.config.heard_ahead());
        let asked = || {
            let demands = self.stations.iter().filter_map(|station| station.demands.front());
            demands.map(|demand| demand.frame.saturating_sub(ahead).max(from)).min()
        };
        let asked = if self.demanded { asked() } else { None };
        let unsolicited = self.config.proactive.map(|grants| {
            let period = u64::from(grants.period);
            let frame = from + ahead;
            // The stations have the first frames of a period.
            let some = frame % period < self.stations.len() as u64;
            (if some { frame } else { frame.next_multiple_of(period) }) - ahead
        });
        match (asked, unsolicited) {
            (Some(asked), Some(unsolicited)) => Some(asked.min(unsolicited)),
            (one, other) => one.or(other),
        }
    }
}
