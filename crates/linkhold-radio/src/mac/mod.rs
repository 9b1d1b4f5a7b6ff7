//! Who may send when: the shared half-duplex medium, a duplex pair, a measured delivery trace, radios that
//! contend, or a base station that grants.

pub(crate) mod air_time;
pub(crate) mod config;
pub(crate) mod contenders;
pub(crate) mod context;
pub mod dcf;
mod duplex;
pub(crate) mod grants;
pub(crate) mod ieee802154;
mod shared;
mod trace;

use linkhold_core::packet::StationId;
use linkhold_core::time::Instant;
use linkhold_core::units::Bytes;

use crate::frame::RadioId;
use crate::rng::Stream;

use config::Mac;
use context::Context;
use dcf::DcfCell;
use duplex::Duplex;
use grants::Grants;
use grants::accounting::UplinkAccounting;
use ieee802154::CsmaCa;
use shared::SharedMedium;
use trace::TraceMac;

/// A MAC at work.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    Shared(SharedMedium),
    Duplex(Duplex),
    Trace(TraceMac),
    Ieee802154(Box<CsmaCa>),
    Dcf(Box<DcfCell>),
    Grants(Box<Grants>),
}

impl Access {
    pub(crate) fn new(mac: &Mac, stations: u32, seed: u64) -> Self {
        match mac {
            Mac::Shared => Self::Shared(SharedMedium::new(0..stations + 1, Stream::new(seed, "mac", 0))),
            Mac::Duplex => Self::Duplex(Duplex::new(stations, seed)),
            Mac::Trace(link) => Self::Trace(TraceMac::new(link.down.clone(), link.up.clone(), stations)),
            Mac::Ieee802154(config) => Self::Ieee802154(Box::new(CsmaCa::new(config, stations, seed))),
            Mac::Dcf(config) => Self::Dcf(Box::new(DcfCell::new(config, stations, seed))),
            Mac::Grants(config) => Self::Grants(Box::new(Grants::new(config, stations, seed))),
        }
    }

    /// When the next transmission ends or opportunity comes that is wanted, or a radio has something to do.
    pub(crate) fn next(&self) -> Instant {
        match self {
            Self::Shared(medium) => medium.next(),
            Self::Duplex(pair) => pair.next(),
            Self::Trace(trace) => trace.next(),
            Self::Ieee802154(csma_ca) => csma_ca.next(),
            Self::Dcf(cell) => cell.next(),
            Self::Grants(grants) => grants.next(),
        }
    }

    /// Handles that end or opportunity.
    pub(crate) fn step(&mut self, context: &mut Context<'_>) {
        match self {
            Self::Shared(medium) => medium.step(context),
            Self::Duplex(pair) => pair.step(context),
            Self::Trace(trace) => trace.step(context),
            Self::Ieee802154(csma_ca) => csma_ca.step(context),
            Self::Dcf(cell) => cell.step(context),
            Self::Grants(grants) => grants.step(context),
        }
    }

    /// A frame that is queued at `sender` now waits for the end of a transmission, and
    /// [`on_enqueue`](Self::on_enqueue) need not be called.
    #[inline]
    pub(crate) fn is_busy(&self, sender: RadioId) -> bool {
        match self {
            Self::Shared(medium) => medium.is_busy(),
            Self::Duplex(pair) => pair.is_busy(sender),
            Self::Trace(_) | Self::Ieee802154(_) | Self::Dcf(_) | Self::Grants(_) => false,
        }
    }

    /// A frame of `len` bytes was queued at `sender`.
    pub(crate) fn on_enqueue(&mut self, now: Instant, sender: RadioId, len: u32, context: &mut Context<'_>) {
        match self {
            Self::Shared(medium) => medium.start(now, context),
            Self::Duplex(pair) => pair.start(now, sender, context),
            Self::Trace(trace) => trace.on_enqueue(now, sender, context),
            Self::Ieee802154(csma_ca) => csma_ca.on_enqueue(now, sender, context),
            Self::Dcf(cell) => cell.on_enqueue(now, sender, context),
            Self::Grants(grants) => grants.on_enqueue(now, sender, len, context),
        }
    }

    /// A station asks for a turn ahead of its frames.
    pub(crate) fn on_request(&mut self, now: Instant, station: StationId, bytes: Bytes) {
        match self {
            Self::Shared(_) | Self::Duplex(_) | Self::Trace(_) | Self::Ieee802154(_) | Self::Dcf(_) => {}
            Self::Grants(grants) => grants.on_request(now, station, bytes),
        }
    }

    /// What became of requests and grants; `None` if this MAC has none.
    pub(crate) fn uplink(&self) -> Option<UplinkAccounting> {
        match self {
            Self::Shared(_) | Self::Duplex(_) | Self::Trace(_) | Self::Ieee802154(_) | Self::Dcf(_) => None,
            Self::Grants(grants) => Some(grants.accounting()),
        }
    }

    /// The radio's condition changed.
    pub(crate) fn on_radio_change(&mut self, now: Instant, context: &mut Context<'_>) {
        match self {
            Self::Shared(medium) => medium.on_radio_change(now, context),
            Self::Duplex(pair) => pair.on_radio_change(now, context),
            Self::Trace(trace) => trace.on_radio_change(now, context),
            Self::Ieee802154(csma_ca) => csma_ca.on_radio_change(now, context),
            Self::Dcf(cell) => cell.on_radio_change(now, context),
            Self::Grants(grants) => grants.on_radio_change(now, context),
        }
    }

    /// Frames out of their queue and not delivered: on the air, partly sent, or about to be sent.
    pub(crate) fn on_air(&self) -> u64 {
        match self {
            Self::Shared(medium) => u64::from(medium.is_busy()),
            Self::Duplex(pair) => pair.on_air(),
            Self::Trace(trace) => trace.on_air(),
            Self::Ieee802154(csma_ca) => csma_ca.held(),
            Self::Dcf(cell) => cell.held(),
            Self::Grants(grants) => grants.held(),
        }
    }

    /// Tells each transmission from now on. False if this MAC has none to tell.
    pub(crate) fn tell_transmissions(&mut self) -> bool {
        match self {
            Self::Shared(_) | Self::Duplex(_) | Self::Trace(_) | Self::Grants(_) => false,
            Self::Ieee802154(csma_ca) => {
                csma_ca.tell_transmissions();
                true
            }
            Self::Dcf(cell) => {
                cell.tell_transmissions();
                true
            }
        }
    }
}
