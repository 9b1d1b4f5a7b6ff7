//! Fast retransmit and fast recovery by counting duplicate ACKs.
//!
//! Source: RFC 5681 section 3.2; limited transmit, RFC 3042.
//! Sees duplicate and new ACKs; says when to retransmit, and how far cwnd is inflated.
//! counting -> (third duplicate) recovering -> (ACK of new data) counting.

use super::DUP_THRESH;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reno {
    dup_acks: u32,
    /// Bytes that cwnd is inflated by; negative after a large partial ACK (NewReno).
    inflation: i64,
}

impl Reno {
    /// A duplicate ACK outside recovery; true on the third.
    pub fn on_duplicate(&mut self) -> bool {
        self.dup_acks += 1;
        self.dup_acks == DUP_THRESH
    }

    /// Recovery begins. RFC 5681 section 3.2 step 3: cwnd = ssthresh + 3*SMSS.
    pub fn enter(&mut self, mss: u64) {
        self.inflation = i64::from(DUP_THRESH) * mss as i64;
    }

    /// Another duplicate ACK in recovery. Step 4: cwnd += SMSS.
    pub fn inflate(&mut self, mss: u64) {
        self.inflation += mss as i64;
    }

    /// RFC 6582 section 3.2 step 3, partial ACK: deflate by what is acknowledged, add back a segment.
    pub fn deflate(&mut self, acked: u64, mss: u64) {
        self.inflation -= acked as i64;
        if acked >= mss {
            self.inflation += mss as i64;
        }
    }

    /// New data acknowledged outside recovery, recovery over (step 6: cwnd = ssthresh), or a timeout.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// What may be in flight beyond cwnd.
    pub fn allowance(&self, recovering: bool, mss: u64) -> i64 {
        if recovering {
            self.inflation
        } else {
            // RFC 3042: on the first two duplicates one new segment each, up to cwnd + 2*SMSS.
            i64::from(self.dup_acks.min(DUP_THRESH - 1)) * mss as i64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_duplicate_retransmits_and_each_further_one_inflates() {
        let mut reno = Reno::default();
        assert_eq!([(); 3].map(|()| reno.on_duplicate()), [false, false, true]);
        reno.enter(1000);
        assert_eq!(reno.allowance(true, 1000), 3000);
        reno.inflate(1000);
        assert_eq!(reno.allowance(true, 1000), 4000);
        reno.reset();
        assert_eq!(reno.allowance(false, 1000), 0);
    }

    #[test]
    fn the_first_two_duplicates_allow_a_new_segment_each() {
        let mut reno = Reno::default();
        reno.on_duplicate();
        assert_eq!(reno.allowance(false, 1000), 1000);
        reno.on_duplicate();
        assert_eq!(reno.allowance(false, 1000), 2000);
    }
}
