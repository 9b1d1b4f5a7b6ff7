//! Where a sender stands in loss recovery, and what every algorithm counts up to.

/// RFC 5681 section 3.2, RFC 6675 section 2: DupThresh.
pub(crate) const DUP_THRESH: u32 = 3;

/// Where a sender stands (Linux `tcp_ca_state`, without Disorder, which changes nothing here).
///
/// Open -> Recovery (loss found) -> Open; Open -> Cwr (ECN echo) -> Open or Recovery; any -> Loss (RTO) ->
/// Open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaState {
    /// All is well.
    Open,
    /// The window was reduced for ECN; once per window of data.
    Cwr,
    /// Fast recovery.
    Recovery,
    /// After a retransmission timeout.
    Loss,
}
