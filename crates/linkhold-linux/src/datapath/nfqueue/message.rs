//! The messages of NFQUEUE: written for the kernel, and read from it (linux/netfilter/nfnetlink_queue.h,
//! linux/netlink.h).

use core::ops::Range;

use linkhold_core::packet::{Direction, PacketId};

use crate::datapath::Arrived;

// linux/netfilter/nfnetlink.h and nfnetlink_queue.h
const NFNL_SUBSYS_QUEUE: u16 = 3;
pub(super) const NFQNL_MSG_PACKET: u16 = NFNL_SUBSYS_QUEUE << 8;
pub(super) const NFQNL_MSG_VERDICT: u16 = NFNL_SUBSYS_QUEUE << 8 | 1;
pub(super) const NFQNL_MSG_CONFIG: u16 = NFNL_SUBSYS_QUEUE << 8 | 2;
pub(super) const NFQNL_MSG_VERDICT_BATCH: u16 = NFNL_SUBSYS_QUEUE << 8 | 3;
const NFQA_PACKET_HDR: u16 = 1;
pub(super) const NFQA_VERDICT_HDR: u16 = 2;
const NFQA_IFINDEX_INDEV: u16 = 5;
const NFQA_IFINDEX_OUTDEV: u16 = 6;
const NFQA_PAYLOAD: u16 = 10;
const NFQA_CAP_LEN: u16 = 13;
const NFQA_SKB_INFO: u16 = 14;
const NFQA_SKB_CSUMNOTREADY: u32 = 1;
const NFQA_SKB_GSO: u32 = 2;
pub(super) const NFQA_CFG_CMD: u16 = 1;
pub(super) const NFQA_CFG_PARAMS: u16 = 2;
pub(super) const NFQA_CFG_QUEUE_MAXLEN: u16 = 3;
pub(super) const NFQA_CFG_MASK: u16 = 4;
pub(super) const NFQA_CFG_FLAGS: u16 = 5;
pub(super) const NFQNL_CFG_CMD_BIND: u8 = 1;
pub(super) const NFQNL_COPY_PACKET: u8 = 2;
/// When the queue is full, packets pass instead of being dropped.
pub(super) const NFQA_CFG_F_FAIL_OPEN: u32 = 1;
/// Aggregates come whole, and checksums that hardware fills in stay open.
pub(super) const NFQA_CFG_F_GSO: u32 = 4;
pub(super) const NF_DROP: u32 = 0;
pub(super) const NF_ACCEPT: u32 = 1;

// linux/netlink.h
pub(super) const NLMSG_HEADER: usize = 16;
pub(super) const NFGEN_HEADER: usize = 4;
pub(super) const ATTRIBUTE_HEADER: usize = 4;
pub(super) const NLMSG_ERROR: u16 = 2;
pub(super) const NLM_F_REQUEST: u16 = 1;
pub(super) const NLM_F_ACK: u16 = 4;
pub(super) const NLA_TYPE_MASK: u16 = 0x3fff;

pub(super) fn verdict_header(verdict: u32, id: u32) -> [u8; 8] {
    let mut header = [0; 8];
    header[..4].copy_from_slice(&verdict.to_be_bytes());
    header[4..].copy_from_slice(&id.to_be_bytes());
    header
}

/// The token of a packet: its queue's index in the upper half (two for each radio, downlink then uplink), the
/// kernel's id in the lower.
pub(super) fn token(queue_index: usize, kernel_id: u32) -> PacketId {
    PacketId((queue_index as u64) << 32 | u64::from(kernel_id))
}

/// Index of a token's queue.
pub(super) fn queue_index(id: PacketId) -> usize {
    (id.0 >> 32) as usize
}

/// The kernel's id in a token.
pub(super) fn kernel_id(id: PacketId) -> u32 {
    id.0 as u32
}

/// The messages that accept every packet in a queue, whatever its id, and let later packets pass. The agent
/// sends them when it ends; the guardian, when the agent was killed.
///
/// The kernel drops what is still in a queue when the queue goes, and packets arrive between the accept and
/// that moment. So the queue's length is set to zero, which makes it fail open, and a last accept is for what
/// arrived before that.
///
/// Once the length is zero, arrivals overtake packets that the last accept is still letting go. An accept
/// lets packets go one by one, and others arrive while a silence's worth of them leaves. So the accept is
/// repeated, each time for fewer packets, before the length becomes zero.
#[must_use]
pub fn accept_everything(queues: Range<u16>) -> Vec<u8> {
    let mut messages = Vec::new();
    put_accept_everything(&mut messages, queues);
    messages
}

/// How often a queue is emptied before it fails open. Each round leaves only what arrived during it, a
/// fraction of what the round before left.
const DRAINS: usize = 8;

/// Appends the messages of [`accept_everything`].
pub(super) fn put_accept_everything(out: &mut Vec<u8>, queues: Range<u16>) {
    for queue in queues {
        for _ in 0..DRAINS {
            put_accept_all(out, queue);
        }
        let zero = 0u32.to_be_bytes();
        put_message(out, NFQNL_MSG_CONFIG, NLM_F_REQUEST, queue, &[(NFQA_CFG_QUEUE_MAXLEN, &zero)], &[]);
        put_accept_all(out, queue);
    }
}

fn put_accept_all(out: &mut Vec<u8>, queue: u16) {
    // Ids are compared as signed differences: half the number space ahead of any id covers all others only
    // from one of two starting points, so both are named.
    for last in [u32::MAX / 2, u32::MAX] {
        let header = verdict_header(NF_ACCEPT, last);
        put_message(out, NFQNL_MSG_VERDICT_BATCH, NLM_F_REQUEST, queue, &[(NFQA_VERDICT_HDR, &header)], &[]);
    }
}

/// Appends a netlink message: header, nfgenmsg, attributes, and a payload attribute if `packet` is not empty.
pub(super) fn put_message(
    out: &mut Vec<u8>,
    kind: u16,
    flags: u16,
    queue: u16,
    attributes: &[(u16, &[u8])],
    packet: &[u8],
) {
    let start = begin_message(out, kind, flags, libc::AF_UNSPEC as u8, queue);
    for (kind, value) in attributes {
        put_attribute(out, *kind, value);
    }
    if !packet.is_empty() {
        put_attribute(out, NFQA_PAYLOAD, packet);
    }
    end_message(out, start);
}

/// Appends a message's headers; answers where it starts.
pub(super) fn begin_message(out: &mut Vec<u8>, kind: u16, flags: u16, family: u8, resource: u16) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(&flags.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[family, 0]);
    out.extend_from_slice(&resource.to_be_bytes());
    start
}

/// Writes the length of the message that starts there and ends here.
pub(super) fn end_message(out: &mut [u8], start: usize) {
    let length = (out.len() - start) as u32;
    out[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

pub(super) fn put_attribute(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    // Values are at most UPLINK_COPY bytes long.
    let length = (ATTRIBUTE_HEADER + value.len()) as u16;
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(value);
    out.resize(out.len().next_multiple_of(4), 0);
}

/// Reads a packet message: what arrived, and where in the message its bytes are. `None` if it is no packet of
/// these queues, or damaged.
pub fn parse_packet_message(message: &[u8], queues: Range<u16>) -> Option<(Arrived, Range<usize>)> {
    if message_type(message)? != NFQNL_MSG_PACKET {
        return None;
    }
    let number = u16::from_be_bytes([*message.get(18)?, *message.get(19)?]);
    let index = queues.contains(&number).then(|| usize::from(number - queues.start))?;
    let mut at = NLMSG_HEADER + NFGEN_HEADER;
    let mut id = None;
    let (mut in_interface, mut out_interface, mut full_length, mut info) = (0, 0, None, 0);
    let mut payload = 0..0;
    while let Some(header) = message.get(at..at + ATTRIBUTE_HEADER) {
        let attribute_length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        let kind = u16::from_ne_bytes([header[2], header[3]]) & NLA_TYPE_MASK;
        let value = at + ATTRIBUTE_HEADER..at + attribute_length;
        let bytes = message.get(value.clone())?;
        match kind {
            NFQA_PACKET_HDR => id = Some(big_u32(bytes)?),
            NFQA_IFINDEX_INDEV => in_interface = big_u32(bytes)?,
            NFQA_IFINDEX_OUTDEV => out_interface = big_u32(bytes)?,
            NFQA_CAP_LEN => full_length = Some(big_u32(bytes)?),
            NFQA_SKB_INFO => info = big_u32(bytes)?,
            NFQA_PAYLOAD => payload = value,
            _ => {}
        }
        at += attribute_length.next_multiple_of(4).max(ATTRIBUTE_HEADER);
    }
    let arrived = Arrived {
        id: token(index, id?),
        radio: index / 2,
        direction: if index.is_multiple_of(2) { Direction::Downlink } else { Direction::Uplink },
        len: full_length.unwrap_or(payload.len() as u32),
        in_interface,
        out_interface,
        checksum_ready: info & NFQA_SKB_CSUMNOTREADY == 0,
        aggregate: info & NFQA_SKB_GSO != 0,
    };
    Some((arrived, payload))
}

pub(super) fn message_type(message: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes([*message.get(4)?, *message.get(5)?]))
}

fn big_u32(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|chunk| u32::from_be_bytes(*chunk))
}

pub(super) fn native_i32(bytes: &[u8], at: usize) -> Option<i32> {
    bytes.get(at..)?.first_chunk().map(|chunk| i32::from_ne_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet message as the kernel writes it.
    fn packet_message(queue: u16, id: u32, info: u32, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut header = [0u8; 7];
        header[..4].copy_from_slice(&id.to_be_bytes());
        let info = info.to_be_bytes();
        let attributes: [(u16, &[u8]); 2] = [(NFQA_PACKET_HDR, &header), (NFQA_SKB_INFO, &info)];
        put_message(&mut out, NFQNL_MSG_PACKET, 0, queue, &attributes, payload);
        out
    }

    proptest! {
        #[test]
        fn a_packet_message_is_read_as_written(
            id: u32, index in 0u16..6, info in 0u32..4, payload in proptest::collection::vec(any::<u8>(), 1..300),
        ) {
            let message = packet_message(7 + index, id, info, &payload);
            let (arrived, range) = parse_packet_message(&message, 7..13).unwrap();
            prop_assert_eq!(arrived.id, PacketId(u64::from(index) << 32 | u64::from(id)));
            prop_assert_eq!(arrived.radio, usize::from(index) / 2);
            prop_assert_eq!(arrived.direction == Direction::Uplink, index % 2 == 1);
            prop_assert_eq!(arrived.aggregate, info & NFQA_SKB_GSO != 0);
            prop_assert_eq!(arrived.checksum_ready, info & NFQA_SKB_CSUMNOTREADY == 0);
            prop_assert_eq!(&message[range], &payload[..]);
            prop_assert!(parse_packet_message(&message, 13..15).is_none());
            prop_assert!(parse_packet_message(&message, 5..7).is_none());
        }

        #[test]
        fn no_message_makes_the_reader_panic_or_look_beyond_it(
            id: u32, payload in proptest::collection::vec(any::<u8>(), 0..100),
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
            cut: prop::sample::Index,
        ) {
            let mut message = packet_message(7, id, 0, &payload);
            for (at, byte) in changes {
                let at = at.index(message.len());
                message[at] = byte;
            }
            message.truncate(cut.index(message.len() + 1));
            if let Some((_, range)) = parse_packet_message(&message, 7..9) {
                prop_assert!(range.start <= range.end && range.end <= message.len());
            }
        }
    }

    #[test]
    fn a_message_has_the_kernels_layout() {
        let mut out = Vec::new();
        put_message(&mut out, NFQNL_MSG_VERDICT, NLM_F_REQUEST, 0x0102, &[(2, &[9; 8])], &[7; 5]);
        assert_eq!(out.len(), 16 + 4 + 12 + 12);
        assert_eq!(native_i32(&out, 0), Some(out.len() as i32));
        assert_eq!(message_type(&out), Some(0x0301));
        assert_eq!(&out[18..20], [1, 2]);
        assert_eq!(&out[32..], [9, 0, 10, 0, 7, 7, 7, 7, 7, 0, 0, 0]);
    }
}
