//! What the sender takes in.

use linkhold_core::units::Seq;

/// An acceptable segment's acknowledgment, as offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckIn {
    /// SEG.SEQ.
    pub seq: Seq,
    /// Cumulative acknowledgment.
    pub ack: u64,
    /// Scaled window, bytes.
    pub window: u64,
    /// TSecr.
    pub echo: Option<u32>,
    /// SACK blocks above `ack`.
    pub blocks: [(u64, u64); 4],
    /// D-SACK block (RFC 2883).
    pub dsack: Option<(u64, u64)>,
    /// The segment carries nothing but the acknowledgment.
    pub bare: bool,
    /// ECN echo.
    pub ece: bool,
}
