//! Sequence numbers of destinations, compared over their rollover.
//!
//! Source: RFC 3561, section 6.1: the difference of two is taken as a signed 32-bit number.

/// A destination's sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqNo(pub u32);

impl SeqNo {
    /// True if this is fresher than `other`.
    #[must_use]
    pub const fn is_after(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() > 0
    }

    /// The one after this.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The fresher of both.
    #[must_use]
    pub const fn fresher(self, other: Self) -> Self {
        if other.is_after(self) { other } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freshness_survives_the_rollover() {
        let rows = [(1, 0, true), (0, 0, false), (0, 1, false), (0, u32::MAX, true), (u32::MAX, 0, false)];
        for (one, other, after) in rows {
            assert_eq!(SeqNo(one).is_after(SeqNo(other)), after, "{one} {other}");
        }
        assert_eq!(SeqNo(u32::MAX).next(), SeqNo(0));
        assert_eq!(SeqNo(u32::MAX).fresher(SeqNo(3)), SeqNo(3));
        assert_eq!(SeqNo(3).fresher(SeqNo(u32::MAX)), SeqNo(3));
    }
}
