//! Notifications of the path, for an endpoint with [`Congestion::TpCrahn`]. Others do not hear them.

use linkhold_core::action::Resend;
use linkhold_core::time::Instant;

use super::{Endpoint, OnPath};
use crate::config::Congestion;
use crate::path::{Path, PathEvent, PathState, Stance};

impl Endpoint {
    /// Something happened on the path. Only a TP-CRAHN sender does something about it. Poll for what to send
    /// next.
    pub fn on_path(&mut self, now: Instant, event: &PathEvent) {
        self.clock = now;
        if self.cfg.congestion != Congestion::TpCrahn {
            return;
        }
        let fresh = || Box::new(OnPath { path: Path::default(), stance: Stance::FREE });
        let on_path = self.on_path.get_or_insert_with(fresh);
        let had_route = on_path.path.state() != PathState::RouteFailure;
        on_path.path.on_event(now, event);
        if let PathEvent::HandoffEnded { change: Some(change), .. } = event {
            // A frozen sender's estimate is what it was, so it may be shifted now.
            self.sender.change_channel(change);
        }
        self.follow_path(now, had_route);
    }

    /// The state of a TP-CRAHN connection; normal for any other.
    #[must_use]
    pub fn path_state(&self) -> PathState {
        self.on_path.as_ref().map_or(PathState::Normal, |on_path| on_path.path.state())
    }

    /// Ends the silences whose time is over.
    #[cold]
    pub(super) fn path_timeout(&mut self, now: Instant) {
        let Some(on_path) = &mut self.on_path else { return };
        if on_path.path.next().is_none_or(|at| at > now) {
            return;
        }
        let had_route = on_path.path.state() != PathState::RouteFailure;
        on_path.path.expire(now);
        self.follow_path(now, had_route);
    }

    /// Has the sender do what the path's state asks for.
    pub(super) fn follow_path(&mut self, now: Instant, had_route: bool) {
        let Some(on_path) = &mut self.on_path else { return };
        let stance = on_path.path.stance(self.sender.window().mss);
        let before = core::mem::replace(&mut on_path.stance, stance);
        match stance {
            Stance::Frozen => self.sender.freeze(now),
            Stance::Running { room, held } => {
                self.sender.limit_flight(room);
                self.sender.hold_window(held);
                if before == Stance::Frozen {
                    if had_route {
                        self.sender.go_on(now);
                    } else {
                        // What was under way on the old route is lost.
                        self.sender.thaw(now, Resend::First);
                    }
                }
            }
        }
    }
}
