//! Loss recovery: how losses are found, and what is done about them. One file per algorithm.
//!
//! The sender keeps the congestion state and asks; the algorithms keep only their own variables.

pub(crate) mod frto;
pub(crate) mod newreno;
pub(crate) mod prr;
pub(crate) mod rack;
pub(crate) mod reno;
pub(crate) mod sack;
pub(crate) mod undo;

/// RFC 5681 section 3.2, RFC 6675 section 2: DupThresh.
pub(crate) const DUP_THRESH: u32 = 3;

/// Where a sender stands (Linux `tcp_ca_state`, without Disorder, which changes nothing here).
///
/// Open -> Recovery (loss found) -> Open; Open -> Cwr (ECN echo) -> Open or Recovery; any -> Loss (RTO) -> Open.
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

/// The loss detector in use.
#[derive(Clone, Debug)]
pub(crate) enum Detector {
    Reno(reno::Reno),
    NewReno(newreno::NewReno),
    Sack(sack::Sack),
    Rack(rack::Rack),
}
