//! The DCF engine: its rules one by one, saturation against Bianchi's model, and what holds in any world.

mod bianchi;
mod properties;
mod rules;
mod visits;
mod world;
