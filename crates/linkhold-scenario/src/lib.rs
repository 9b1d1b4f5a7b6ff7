//! The linkhold scenario file: types, units, defaults, validation, errors that name file, line and key.
#![forbid(unsafe_code)]

pub mod model;

pub use model::*;
