//! The timeline of silences.
