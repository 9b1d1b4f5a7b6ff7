//! Which radios nothing may be sent to now: a queue passes over their frames.

use crate::frame::RadioId;

/// Whether nothing may be sent to `receiver` now. `blocked` tells by radio; radios past its end are not
/// blocked.
pub(crate) fn is_blocked(blocked: &[bool], receiver: RadioId) -> bool {
    blocked.get(receiver.0 as usize).copied().unwrap_or(false)
}
