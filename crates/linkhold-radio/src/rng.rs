//! Named random streams: one per component and index, so that no component's draws shift another's.
