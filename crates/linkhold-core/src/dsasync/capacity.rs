//! What is sent when a channel switch takes capacity away (Algorithm 5).
//!
//! Paper: `dsasync` section IV-B c, Algorithm 5. Sees the new channel's C and e, and each station's downlink rate
//! D_i^in; emits duplicate ACKs, or arms ECN-echo and the window clamp.
//!
//! Deviations: runs only when C·e fell, since the paper says that a rise needs nothing and a burst may exceed a rate it
//! has always exceeded. Flows without unacknowledged data get no duplicate ACK: there is nothing to retransmit.
//! [`CapacityResponse::Modern`] exists because a Linux sender with SACK does not count duplicate ACKs without SACK
//! blocks; ECE makes it halve once, and the clamp holds it to what the channel carries.

use super::config::CapacityResponse;
use super::{Clamp, DsaSync};
use crate::action::Actions;
use crate::time::Instant;
use crate::units::{BitRate, Fraction};

/// Duplicate ACKs sent: the fast retransmit threshold (RFC 5681 section 3.2).
const DUPLICATE_ACKS: u32 = 3;

/// What IP gets of a channel, bit/s.
fn carried(channel: (BitRate, Fraction)) -> f64 {
    channel.0.as_bps() as f64 * channel.1.get()
}

impl DsaSync {
    /// Algorithm 5, once per switch and flow.
    pub(super) fn on_capacity(
        &mut self,
        now: Instant,
        old: Option<(BitRate, Fraction)>,
        new: (BitRate, Fraction),
        out: &mut Actions,
    ) {
        self.bdp.set_capacity(new.0, new.1);
        if new.0.as_bps() == 0 {
            self.pacer.forget_rate();
            return;
        }
        self.pacer.set_rate(now, new.0.mul_f64(new.1.get()), true);
        let limit = carried(new);
        if self.config.capacity == CapacityResponse::Off || old.is_none_or(|old| carried(old) <= limit) {
            return;
        }
        for slot in 0..self.flows.slot_count() {
            let Some(flow) = self.flows.get(slot) else { continue };
            let (station, has_data) = (flow.station, flow.has_data && !flow.is_over());
            // line 2: D_i^in > e·C
            let rate = self.buffer.station(station).rate.rate(now, self.config.rate_window);
            if !has_data || rate.as_bps() as f64 <= limit {
                continue;
            }
            match self.config.capacity {
                CapacityResponse::Off => {}
                CapacityResponse::DuplicateAcks => {
                    let flow = self.flows.at(slot);
                    let unacknowledged =
                        flow.down_max.zip(flow.acked).is_some_and(|(end, acked)| end.after(acked));
                    // ACKs in the shaper have yet to tell the sender of `acked`.
                    if unacknowledged && flow.shaped == 0 && flow.kept.is_none() {
                        let window = flow.passed.min(flow.offer);
                        for _ in 0..DUPLICATE_ACKS {
                            self.inject(slot, window, false, out);
                        }
                    }
                }
                CapacityResponse::Modern => {
                    let flow = self.flows.at(slot);
                    flow.clamp_on = self.config.clamp != Clamp::Off;
                    flow.ece_pending = flow.ecn;
                }
            }
        }
    }
}
