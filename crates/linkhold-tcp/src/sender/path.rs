//! What a TP-CRAHN sender does when its path changes (`path.rs`, `congestion/tp_crahn.rs`).

use linkhold_core::units::Bytes;

use super::Sender;
use crate::congestion::{Controller, TpCrahn, shifted};
use crate::path::ChannelChange;
use crate::recovery::CaState;
use crate::recovery::undo::Undo;

impl Sender {
    /// At most `room` bytes are in flight from now on; `None` lifts that.
    pub fn limit_flight(&mut self, room: Option<Bytes>) {
        let own = self.cfg.send_buffer.0.max(self.window.mss);
        self.send_buffer = room.map_or(own, |room| own.min(room.0));
    }

    /// Holds cwnd at ssthresh, or lets it go.
    pub fn hold_window(&mut self, held: bool) {
        if let Controller::TpCrahn(tp_crahn) = &mut self.controller {
            tp_crahn.hold(&mut self.window, held);
        }
    }

    /// A hop has another channel: the RTT estimate and the window follow.
    pub fn change_channel(&mut self, change: &ChannelChange) {
        self.rtt.shift(|rtt| shifted(rtt, change));
        let Some(rtt) = self.rtt.srtt() else { return };
        let Some(scaled) = TpCrahn::scaled(&self.window, change, rtt) else { return };
        self.window.ssthresh = scaled;
        // An undo would bring the old channel's window back.
        self.undo = Undo::NONE;
        match self.state {
            CaState::Open | CaState::Cwr => self.window.cwnd = scaled,
            // cwnd belongs to the recovery, which ends at ssthresh.
            CaState::Recovery | CaState::Loss => {}
        }
    }
}
