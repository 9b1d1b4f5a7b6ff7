//! Plain counters of what one endpoint did. All count since the endpoint was made.

/// What one endpoint did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Segments of any kind handed to the driver.
    pub segments_sent: u64,
    /// Segments that carried payload or FIN, retransmissions included.
    pub data_segments_sent: u64,
    /// Payload bytes handed to the driver, retransmissions included.
    pub bytes_sent: u64,
    /// Retransmitted data segments (tail loss probes that repeat data included).
    pub retransmits: u64,
    /// Payload bytes in them.
    pub retransmit_bytes: u64,
    /// Retransmitted SYNs and SYN-ACKs.
    pub syn_retransmits: u64,
    /// Retransmission timeouts of data.
    pub rto_events: u64,
    /// Those of `rto_events` that fired while the peer's window was zero.
    pub rto_in_zero_window: u64,
    /// Times a timeout reduced the window. Timeouts in a row reduce it once.
    pub timeout_reductions: u64,
    /// Of those, the one that may still be undone: 1 while the sender is in the loss state that it began.
    pub timeouts_undecided: u64,
    /// Those found spurious and undone (F-RTO, timestamps or D-SACK).
    pub spurious_rtos: u64,
    /// Times fast recovery was entered.
    pub fast_recoveries: u64,
    /// Fast recoveries found spurious and undone.
    pub spurious_recoveries: u64,
    /// Tail loss probes sent.
    pub tlp_probes: u64,
    /// Window reductions in answer to an ECN echo.
    pub ecn_reductions: u64,
    /// Duplicate ACKs received.
    pub dup_acks_in: u64,
    /// Segments received, of any kind.
    pub segments_in: u64,
    /// Pure ACKs sent.
    pub acks_out: u64,
    /// Zero-window probes sent.
    pub zero_window_probes: u64,
    /// Times the peer's window went from open to zero.
    pub zero_windows_in: u64,
    /// Segments received with nothing new in them (each would be told by D-SACK).
    pub duplicate_segments_in: u64,
    /// Segments received ahead of a hole.
    pub out_of_order_in: u64,
    /// Segments dropped by the PAWS check (RFC 7323 section 5).
    pub paws_drops: u64,
    /// Data segments received with the congestion-experienced mark.
    pub ce_marks_in: u64,
}
