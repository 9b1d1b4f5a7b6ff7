//! A model of everything around a mechanism, which checks each answer against the contract as it comes.
#![allow(dead_code)]

pub mod driver;
pub mod flow;
pub mod steps;
