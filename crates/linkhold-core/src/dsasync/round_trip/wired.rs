//! The wired part of a round trip: from an uplink packet that passes to the correspondent's answer.
//!
//! Beside the paper (`dsasync`). Sees what passes to the correspondent and what comes from there; gives the
//! flow samples of its wired round trip, and of how late answers usually are beyond the least
//! ([`Lateness`](crate::dsasync::lateness::Lateness)).
//!
//! One probe a flow at a time. Its answer is the echo of a timestamp that was new, or else the acknowledgment
//! of bytes that were new: any ACK "answers" bytes that were acknowledged before. Bytes that are sent again
//! measure nothing (Karn and Partridge 1987; RFC 6298 section 3), nor does an answer that takes more than
//! [`PROBE_LIFE`]: then the correspondent had nothing to say, and its thinking was measured.

use core::cmp::Ordering;

use crate::dsasync::flow::Flow;
use crate::dsasync::probes::{Answer, PROBE_LIFE, WiredProbe};
use crate::packet::{TcpFlags, TcpSegment};
use crate::time::{Duration, Instant};

/// Starts measuring the wired round trip with an uplink segment that passes now.
#[inline]
pub(crate) fn probe_wired(now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
    if let Some(old) = &flow.wired_probe {
        // Karn: what is sent again, or after what was sent again, cannot tell which copy was answered.
        let again = matches!(old.answer, Answer::Sequence(_)) && tcp.seq_len() > 0 && !flow.sends_new;
        if again {
            flow.wired_probe = None;
            return;
        }
        if now.since(old.at) <= PROBE_LIFE {
            return;
        }
    }
    let answer = if let Some(timestamp) = tcp.timestamp.filter(|_| flow.new_tick) {
        // Only the first segment of a timestamp tick: answers to the others look the same.
        Answer::Timestamp(timestamp.value)
    } else if tcp.seq_len() > 0 && flow.sends_new {
        Answer::Sequence(tcp.seq_end())
    } else {
        return;
    };
    flow.wired_probe = Some(WiredProbe { at: now, answer, edge: flow.told_edge });
}

/// Takes the sample if the segment from the correspondent is the answer.
#[inline]
pub(super) fn answer_wired(now: Instant, flow: &mut Flow, tcp: &TcpSegment) {
    let Some(probe) = flow.wired_probe else { return };
    let answered = match probe.answer {
        Answer::Timestamp(value) => {
            // Only a segment that this very ACK set off counts: one that echoes a later tick says nothing.
            let Some(timestamp) = tcp.timestamp else { return };
            let order = timestamp.echo_against(value);
            if order == Ordering::Greater {
                flow.wired_probe = None;
            }
            order == Ordering::Equal
        }
        // What the station has not sent is no answer.
        Answer::Sequence(end) => {
            tcp.flags.contains(TcpFlags::ACK)
                && !tcp.ack.before(end)
                && flow.up_next.is_some_and(|next| !tcp.ack.after(next))
        }
    };
    if answered {
        flow.wired_probe = None;
        if now.since(probe.at) <= PROBE_LIFE {
            let took = now.since(probe.at);
            flow.wired.add(now, took);
            note_lateness(flow, &probe, tcp, took);
        }
    }
}

/// Takes the sample for a lateness if the sender waited for the window: what it sends then ends just before
/// the edge. Otherwise the lateness that was seen may be forgotten. Only a timestamp counts, since a delayed
/// ACK may answer bytes.
#[inline]
fn note_lateness(flow: &mut Flow, probe: &WiredProbe, tcp: &TcpSegment, took: Duration) {
    let (Some(edge), Some(least), Answer::Timestamp(_)) = (probe.edge, flow.wired.get(), probe.answer) else {
        return;
    };
    if tcp.payload_len == 0 {
        return;
    }
    if flow.handshake.ends_at(tcp.seq_end(), edge) {
        flow.late.add(took, least);
    } else {
        flow.late.forget(took, least);
    }
}
