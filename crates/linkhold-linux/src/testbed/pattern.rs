//! The bytes that every checked transfer carries, so that its receiver knows what it should have got.

/// After how many bytes the pattern repeats: a period that no segment size divides.
pub const PERIOD: u64 = 251;

/// Byte `index` of a transfer.
#[must_use]
pub const fn pattern(index: u64) -> u8 {
    (index % PERIOD) as u8
}

/// True if `bytes` are those from `index` on.
#[must_use]
pub fn is_pattern(bytes: &[u8], index: u64) -> bool {
    bytes.iter().zip(index..).all(|(&byte, index)| byte == pattern(index))
}
