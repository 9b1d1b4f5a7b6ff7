//! The silences that a host is in: a bit for each cause, of the whole network and of its own station.

use crate::link_event::{Cause, Scope};

/// The silences under way.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostSilences {
    network: u8,
    station: u8,
}

const fn bit(cause: Cause) -> u8 {
    1 << cause as u8
}

impl HostSilences {
    fn of(&mut self, scope: Scope) -> &mut u8 {
        match scope {
            Scope::Network => &mut self.network,
            Scope::Station(_) => &mut self.station,
        }
    }

    pub fn started(&mut self, scope: Scope, cause: Cause) {
        *self.of(scope) |= bit(cause);
    }

    pub fn ended(&mut self, scope: Scope, cause: Cause) {
        *self.of(scope) &= !bit(cause);
    }

    pub fn lasts(mut self, scope: Scope, cause: Cause) -> bool {
        *self.of(scope) & bit(cause) != 0
    }

    pub const fn none(self) -> bool {
        self.network == 0 && self.station == 0
    }

    /// One of this cause goes on, of the network or of the station.
    pub const fn has(self, cause: Cause) -> bool {
        (self.network | self.station) & bit(cause) != 0
    }
}
