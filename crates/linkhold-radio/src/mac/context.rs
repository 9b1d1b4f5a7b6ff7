//! What surrounds a MAC: the queues it serves, the radio it watches, and where its deliveries go.

use super::contenders::Contenders;
use crate::energy::Usage;
use crate::frame::AirOutput;
use crate::snr::losses::FrameLosses;
use crate::timeline::Timeline;

/// What a MAC needs to look at and to change.
pub(crate) struct Context<'a> {
    pub(crate) contenders: &'a mut Contenders,
    pub(crate) radio: &'a Timeline,
    /// As [`AirConfig`](crate::AirConfig) has it.
    pub(crate) retry_limit: u32,
    /// The frames that noise spoils, if there is noise.
    pub(crate) losses: Option<&'a mut FrameLosses>,
    /// What the stations' radios are busy with, if somebody counts.
    pub(crate) usage: Option<&'a mut Usage>,
    pub(crate) out: &'a mut AirOutput,
}
