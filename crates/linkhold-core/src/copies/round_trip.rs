//! The local round trip of a connection: from the base station to the station and back.

use crate::time::Duration;

/// Mean and deviation with the start and the weights of RFC 6298 section 2, ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrip {
    smooth: u64,
    deviation: u64,
}

impl RoundTrip {
    /// Takes in another sample.
    pub fn measured(before: Option<Self>, took: Duration) -> Self {
        let took = took.as_nanos();
        let Some(Self { smooth, deviation }) = before else {
            return Self { smooth: took, deviation: took / 2 };
        };
        let off = took.abs_diff(smooth);
        Self { smooth: smooth - smooth / 8 + took / 8, deviation: deviation - deviation / 4 + off / 4 }
    }

    pub const fn mean(self) -> Duration {
        Duration::from_nanos(self.smooth)
    }

    pub const fn with_deviations(self, count: u64) -> Duration {
        Duration::from_nanos(self.smooth.saturating_add(self.deviation.saturating_mul(count)))
    }

    /// Patience with reordering (RFC 8985 section 6.2 step 4).
    pub const fn quarter(self) -> Duration {
        Duration::from_nanos(self.smooth / 4)
    }
}
