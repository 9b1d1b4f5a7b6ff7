//! DSASync: TCP across a cognitive-radio base station (paper `dsasync`, sections III and IV).

pub mod uplink;
