//! A change of the radio's condition: when, and its place among changes at the same time.

use linkhold_core::time::Instant;

/// A change of the radio's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) at: Instant,
    pub(crate) kind: ChangeKind,
}

/// What a change does to service. At the same time service resumes first, then frames arrive, then service
/// stops: an opportunity on the last moment of a silence counts, and a frame that ends as a silence starts is
/// delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangeKind {
    /// Service resumes.
    Resume,
    /// Service stops.
    Stop,
}

impl Change {
    /// After every other.
    pub(crate) const NEVER: Self = Self { at: Instant::FAR_FUTURE, kind: ChangeKind::Stop };
}
