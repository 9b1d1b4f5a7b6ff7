//! F-RTO: was a retransmission timeout spurious? Judged by the ACKs that follow it.
//!
//! Source: RFC 5682 section 3 (with SACK) and section 2 (without); the steps as Linux `tcp_process_loss`
//! orders them.
//! off -> (RTO) waiting -> (ACK advances) probing with new data -> spurious or real -> off.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frto {
    active: bool,
}

/// What the ACK after a timeout says to F-RTO.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LossAck {
    /// SND.UNA moved.
    pub advanced: bool,
    /// It (S)ACKs data that was sent once, before the timeout.
    pub original_delivered: bool,
    /// A duplicate ACK, or one with new SACK blocks.
    pub duplicate: bool,
    /// Everything outstanding at the timeout is acknowledged.
    pub recovered: bool,
    /// New data was sent after the timeout.
    pub new_data_sent: bool,
    /// There is new data, and the peer's window takes it.
    pub can_send_new: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrtoVerdict {
    /// Nothing to say: repair the losses.
    Real,
    /// The timeout was spurious.
    Spurious,
    /// Send new data before anything is retransmitted.
    SendNew,
}

impl Frto {
    pub fn begin(&mut self) {
        self.active = true;
    }
    pub fn stop(&mut self) {
        self.active = false;
    }

    /// True between a timeout and the verdict on it.
    pub fn is_deciding(&self) -> bool {
        self.active
    }

    pub fn on_ack(&mut self, ack: &LossAck) -> FrtoVerdict {
        if !self.active {
            return FrtoVerdict::Real;
        }
        // Section 3.1 step 3.b: data that was never retransmitted arrives: the timeout was spurious.
        if ack.original_delivered {
            self.active = false;
            return FrtoVerdict::Spurious;
        }
        if ack.new_data_sent {
            // Step 3.a: a duplicate after new data was sent: the loss is real.
            if ack.duplicate {
                self.active = false;
            }
        } else if ack.advanced && !ack.recovered {
            // Step 2.b: the window moves: up to two new segments, and wait for their ACKs.
            if ack.can_send_new {
                return FrtoVerdict::SendNew;
            }
            // Step 2.b, note: without new data to send F-RTO cannot tell.
            self.active = false;
        }
        FrtoVerdict::Real
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACK: LossAck = LossAck {
        advanced: true,
        original_delivered: false,
        duplicate: false,
        recovered: false,
        new_data_sent: false,
        can_send_new: true,
    };

    fn verdicts(acks: &[LossAck]) -> Vec<FrtoVerdict> {
        let mut frto = Frto::default();
        frto.begin();
        acks.iter().map(|ack| frto.on_ack(ack)).collect()
    }

    #[test]
    fn two_advancing_acks_show_a_spurious_timeout() {
        let second = LossAck { original_delivered: true, new_data_sent: true, ..ACK };
        assert_eq!(verdicts(&[ACK, second]), [FrtoVerdict::SendNew, FrtoVerdict::Spurious]);
    }

    #[test]
    fn a_duplicate_after_new_data_shows_a_real_loss() {
        let duplicate = LossAck { advanced: false, duplicate: true, new_data_sent: true, ..ACK };
        let late = LossAck { original_delivered: true, new_data_sent: true, ..ACK };
        assert_eq!(
            verdicts(&[ACK, duplicate, late]),
            [FrtoVerdict::SendNew, FrtoVerdict::Real, FrtoVerdict::Real]
        );
    }

    #[test]
    fn without_new_data_it_cannot_tell() {
        let blocked = LossAck { can_send_new: false, ..ACK };
        let late = LossAck { original_delivered: true, ..ACK };
        assert_eq!(verdicts(&[blocked, late]), [FrtoVerdict::Real, FrtoVerdict::Real]);
    }
}
