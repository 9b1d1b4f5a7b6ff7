//! The messages of AODV as bytes, for captures.
//!
//! Source: RFC 3561, sections 5.1 to 5.3 (formats, from memory; Wireshark's dissector reads them back, see
//! the tests of `linkhold-sim`). Octets go in network order. The flags that this crate's callers have no use
//! for are zero: J and R (multicast), A (acknowledgment of RREP), N (no delete); so are the prefix size and
//! all reserved bits.

use core::net::Ipv4Addr;

use linkhold_core::time::Duration;

/// The port of UDP (section 3).
pub const PORT: u16 = 654;

/// Types of messages.
const REQUEST: u8 = 1;
const REPLY: u8 = 2;
const ERROR: u8 = 3;
/// Flags of RREQ, in the octet behind the type.
const GRATUITOUS: u8 = 0x20;
const DESTINATION_ONLY: u8 = 0x10;
const UNKNOWN: u8 = 0x08;

/// RREQ, section 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteRequest {
    /// Hops from the originator to the sender.
    pub hops: u8,
    /// Numbers the originator's requests.
    pub id: u32,
    /// The node that is sought.
    pub destination: Ipv4Addr,
    /// Its sequence number; `None` is the U flag.
    pub destination_seq: Option<u32>,
    /// The node that seeks.
    pub originator: Ipv4Addr,
    /// Its sequence number.
    pub originator_seq: u32,
    /// The G flag.
    pub gratuitous: bool,
    /// The D flag.
    pub destination_only: bool,
}

/// RREP, section 5.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteReply {
    /// Hops from the sender to the destination.
    pub hops: u8,
    /// The node to which this is a route.
    pub destination: Ipv4Addr,
    /// Its sequence number.
    pub destination_seq: u32,
    /// The node that asked.
    pub originator: Ipv4Addr,
    /// How long the route is good for; the field counts milliseconds.
    pub lifetime: Duration,
}

impl RouteRequest {
    /// Appends the message to `into`.
    pub fn emit(&self, into: &mut Vec<u8>) {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(self.gratuitous, GRATUITOUS)
            | flag(self.destination_only, DESTINATION_ONLY)
            | flag(self.destination_seq.is_none(), UNKNOWN);
        into.extend_from_slice(&[REQUEST, flags, 0, self.hops]);
        into.extend_from_slice(&self.id.to_be_bytes());
        put(self.destination, self.destination_seq.unwrap_or(0), into);
        put(self.originator, self.originator_seq, into);
    }
}

impl RouteReply {
    /// Appends the message to `into`.
    pub fn emit(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&[REPLY, 0, 0, self.hops]);
        put(self.destination, self.destination_seq, into);
        into.extend_from_slice(&self.originator.octets());
        let millis = self.lifetime.as_nanos() / 1_000_000;
        into.extend_from_slice(&u32::try_from(millis).unwrap_or(u32::MAX).to_be_bytes());
    }
}

/// Appends a RERR (section 5.3) to `into`: destinations that are no longer reached, with their sequence
/// numbers. Those past the 255th have no room in the message's count and are left out. `no_delete` is the N
/// flag.
pub fn route_error(no_delete: bool, unreachable: impl Iterator<Item = (Ipv4Addr, u32)>, into: &mut Vec<u8>) {
    let start = into.len();
    into.extend_from_slice(&[ERROR, u8::from(no_delete) << 7, 0, 0]);
    let mut count = 0;
    for (destination, seq) in unreachable.take(usize::from(u8::MAX)) {
        put(destination, seq, into);
        count += 1;
    }
    if let Some(field) = into.get_mut(start + 3) {
        *field = count;
    }
}

fn put(node: Ipv4Addr, seq: u32, into: &mut Vec<u8>) {
    into.extend_from_slice(&node.octets());
    into.extend_from_slice(&seq.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 3)];

    #[test]
    fn a_request_is_24_octets() {
        let [originator, destination] = NODES;
        let request = RouteRequest {
            hops: 3,
            id: 0x0102_0304,
            destination,
            destination_seq: Some(5),
            originator,
            originator_seq: 6,
            gratuitous: false,
            destination_only: false,
        };
        let bytes = |request: RouteRequest| {
            let mut bytes = Vec::new();
            request.emit(&mut bytes);
            bytes
        };
        #[rustfmt::skip]
        let expected =
            [1, 0, 0, 3, 1, 2, 3, 4, 10, 0, 0, 3, 0, 0, 0, 5, 10, 0, 0, 2, 0, 0, 0, 6];
        assert_eq!(bytes(request), expected);
        let unknown = bytes(RouteRequest { destination_seq: None, ..request });
        assert_eq!((unknown[1], &unknown[12..16]), (0x08, &[0; 4][..]));
        assert_eq!(bytes(RouteRequest { gratuitous: true, ..request })[1], 0x20);
        assert_eq!(bytes(RouteRequest { destination_only: true, ..request })[1], 0x10);
    }

    #[test]
    fn a_reply_is_20_octets_and_its_lifetime_is_in_milliseconds() {
        let [originator, destination] = NODES;
        let lifetime = Duration::from_millis(20_000);
        let reply = RouteReply { hops: 2, destination, destination_seq: 7, originator, lifetime };
        let mut bytes = Vec::new();
        reply.emit(&mut bytes);
        assert_eq!(bytes, [2, 0, 0, 2, 10, 0, 0, 3, 0, 0, 0, 7, 10, 0, 0, 2, 0, 0, 0x4e, 0x20]);
        bytes.clear();
        RouteReply { lifetime: Duration::MAX, ..reply }.emit(&mut bytes);
        assert_eq!(bytes[16..], [255; 4], "what the field cannot hold is its most");
    }

    #[test]
    fn an_error_counts_its_destinations() {
        let mut bytes = vec![9];
        route_error(false, NODES.into_iter().zip(1..), &mut bytes);
        assert_eq!(bytes[1..], [3, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 1, 10, 0, 0, 3, 0, 0, 0, 2]);
        bytes.clear();
        route_error(true, std::iter::repeat_n((NODES[0], 0), 1000), &mut bytes);
        assert_eq!((bytes[3], bytes.len()), (255, 4 + 255 * 8));
    }
}
