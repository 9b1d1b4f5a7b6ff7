//! What goes into the air and what comes out: frames, deliveries, drops, link events.

use linkhold_core::link_event::LinkEvent;
use linkhold_core::packet::PacketId;
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;

/// A radio on the air: what sends and receives frames, and has a queue of its own. A mesh
/// connects any two; a cell a station and its base station only ([`cell`](crate::cell) says how it numbers
/// them).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RadioId(pub u32);

/// One IP packet as the radio sees it. The driver keeps the packet itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The driver's token.
    pub packet: PacketId,
    /// The radio that sends it, and in whose queue it waits.
    pub from: RadioId,
    /// The radio that it is sent to.
    pub to: RadioId,
    /// Bytes from the IP header on.
    pub len: u32,
    /// Of `len`, the bytes of the IP header and of the transport header without its options. A MAC that
    /// compresses headers ([`Mac::Ieee802154`](crate::Mac::Ieee802154)) sends others in their place.
    pub headers: u32,
    /// Any well-mixed hash of the flow's five-tuple; `fq_codel` sorts by it.
    pub flow_hash: u32,
    /// The IP header says ECT(0) or ECT(1): a queue may mark it instead of dropping it.
    pub ecn_capable: bool,
}

/// Why the air lost a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AirDrop {
    /// The queue was full on arrival (DropTail), or was trimmed because it overflowed (`fq_codel`).
    QueueFull,
    /// A silence, as the queue's [`InSilence`](crate::InSilence) has it: the frame arrived in one (`Drop`),
    /// or was queued when one began (`Flush`).
    Silence,
    /// CoDel: it stood in the queue too long (RFC 8289).
    Codel,
    /// It was sent again as often as the MAC does that, and never arrived: because of a primary user
    /// (`retry_limit`), or, with IEEE 802.15.4 and a DCF, for whatever reason (`max_frame_retries`,
    /// `short_retry_limit`, `long_retry_limit`).
    RetryLimit,
    /// IEEE 802.15.4: the medium was busy each time that the sender looked (CHANNEL_ACCESS_FAILURE).
    ChannelBusy,
    /// IEEE 802.15.4 without acknowledgments: it was lost on the air, and its sender does not know.
    Lost,
    /// IEEE 802.15.4: it is longer than a frame of the MAC may be.
    TooLong,
    /// Noise spoiled it more than `retry_limit` times; with a DCF, its last attempt.
    Noise,
    /// A granted uplink: its station asked as often as it does that, and was never heard.
    NoGrant,
    /// A mesh: no route was found, or it broke and no other was found.
    NoRoute,
    /// A mesh: it went over as many hops as a packet may (its TTL).
    HopLimit,
}

impl AirDrop {
    /// Every reason, in declaration order.
    pub const ALL: [Self; 11] = [
        Self::QueueFull,
        Self::Silence,
        Self::Codel,
        Self::RetryLimit,
        Self::ChannelBusy,
        Self::Lost,
        Self::TooLong,
        Self::Noise,
        Self::NoGrant,
        Self::NoRoute,
        Self::HopLimit,
    ];
}

/// Something that happened on the air.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AirEvent {
    /// The frame arrived at the radio that it was sent to.
    Delivered {
        /// The frame.
        frame: Frame,
        /// A queue marked it congestion-experienced (only if it was `ecn_capable`).
        ce: bool,
    },
    /// The frame is gone.
    Dropped {
        /// The frame.
        frame: Frame,
        /// Why.
        reason: AirDrop,
    },
    /// The radio reports. Its `detected_at` is the time of the call that emitted it.
    Link(LinkEvent),
    /// One radio overheard something that the others need not have heard: only its own node knows.
    Overheard {
        /// The radio that overheard it.
        by: RadioId,
        /// What it concludes; `detected_at` as above.
        event: LinkEvent,
    },
    /// A transmission has ended. Told only if asked for with
    /// [`Air::tell_transmissions`](crate::Air::tell_transmissions).
    Transmitted(Transmission),
}

/// One transmission on the air, as a monitor beside the radios would record it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmission {
    /// When it began.
    pub since: Instant,
    /// Whose it was.
    pub from: RadioId,
    /// Whom it was for; `None`: everybody.
    pub to: Option<RadioId>,
    /// The packet it carried; `None`: a frame of the MAC itself, such as an acknowledgment, or a message
    /// between the routers of a mesh. By the time this is told the packet may have been delivered, and its
    /// token be dead.
    pub packet: Option<PacketId>,
    /// The receiver could read it; if it was for everybody, somebody could.
    pub received: bool,
    /// What its MAC says of it.
    pub mac: MacFrame,
}

/// The part of a [`Transmission`] that each MAC has of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacFrame {
    /// IEEE 802.15.4: data, or the acknowledgment of data.
    Ieee802154 {
        /// The sequence number.
        sequence: u8,
    },
    /// IEEE 802.11's DCF.
    Dcf(DcfFrame),
}

/// A frame of a DCF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DcfFrame {
    /// Its type.
    pub kind: DcfKind,
    /// Data has been on the air before, whole or cut off (the retry bit). False of all other types.
    pub retry: bool,
    /// It was cut off before its end.
    pub cut: bool,
    /// The sequence number of data, modulo 4096; 0 of all other types.
    pub sequence: u16,
    /// The channel it was sent on, counted from 0 over all that there are.
    pub channel: u32,
    /// The rate of its octets.
    pub rate: BitRate,
    /// How long everybody else leaves the medium alone from its end on (the Duration field).
    pub reserved: Duration,
}

/// The type of a frame of a DCF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DcfKind {
    /// A packet, or a message between the routers of a mesh.
    Data,
    /// Request to send.
    Rts,
    /// Clear to send.
    Cts,
    /// Acknowledgment.
    Ack,
}

/// The list of events of one call, in order. The driver makes one list, drains it after every call and uses
/// it again, so that no call allocates once the list has its working size.
#[derive(Debug, Default)]
pub struct AirOutput {
    events: Vec<AirEvent>,
}

impl AirOutput {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The events so far.
    #[must_use]
    pub fn as_slice(&self) -> &[AirEvent] {
        &self.events
    }

    /// Takes all events out, in order; the list keeps its memory.
    pub fn drain(&mut self) -> impl Iterator<Item = AirEvent> + '_ {
        self.events.drain(..)
    }

    /// Takes the only event out if it is a delivery, as most are: the frame, and if a queue marked it.
    #[inline]
    pub fn take_only_delivery(&mut self) -> Option<(Frame, bool)> {
        let [AirEvent::Delivered { frame, ce }] = *self.events.as_slice() else { return None };
        self.events.clear();
        Some((frame, ce))
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Forgets all events.
    pub fn clear(&mut self) {
        self.events.clear();
    }

    /// A frame has arrived; a queue may have marked it.
    pub fn delivered(&mut self, frame: Frame, ce: bool) {
        self.events.push(AirEvent::Delivered { frame, ce });
    }

    /// A frame is gone.
    pub fn dropped(&mut self, frame: Frame, reason: AirDrop) {
        self.events.push(AirEvent::Dropped { frame, reason });
    }

    /// The radio reports.
    pub fn link(&mut self, event: LinkEvent) {
        self.events.push(AirEvent::Link(event));
    }

    pub(crate) fn overheard(&mut self, by: RadioId, event: LinkEvent) {
        self.events.push(AirEvent::Overheard { by, event });
    }

    /// A transmission has ended.
    pub fn transmitted(&mut self, transmission: Transmission) {
        self.events.push(AirEvent::Transmitted(transmission));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_delivery_that_stands_alone_is_taken() {
        let (from, to) = (RadioId(0), RadioId(1));
        let frame =
            Frame { packet: PacketId(7), from, to, len: 100, headers: 40, flow_hash: 0, ecn_capable: false };
        let mut output = AirOutput::new();
        assert_eq!(output.take_only_delivery(), None);
        output.delivered(frame, true);
        assert_eq!((output.take_only_delivery(), output.is_empty()), (Some((frame, true)), true));
        output.dropped(frame, AirDrop::Codel);
        assert_eq!((output.take_only_delivery(), output.as_slice().len()), (None, 1));
        output.delivered(frame, false);
        assert_eq!((output.take_only_delivery(), output.as_slice().len()), (None, 2));
    }
}
