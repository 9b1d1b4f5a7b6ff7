//! The latest SYNs of a station, with their timestamps.
//!
//! Beside the paper (`dsasync`). Uploads that begin together find each other's data in the station's queue,
//! from the first segment on: against that segment ([`OneWay`](super::one_way::OneWay)) the queue seems
//! shorter than it is, for as long as it never runs empty. Their SYNs came before the data. Most connections
//! never upload, so that SYNs are kept for the station and not with each connection.

use super::flow_table::FlowId;
use crate::time::Instant;

/// SYNs of a station that are remembered.
const SYNS: usize = 32;

/// A SYN that came up: of which connection, when, and with which timestamp.
type Syn = (FlowId, Instant, u32);

/// The latest SYNs of a station.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Syns {
    latest: [Option<Syn>; SYNS],
    next: usize,
}

impl Syns {
    /// A SYN with this timestamp came up.
    pub fn note(&mut self, now: Instant, flow: FlowId, value: u32) {
        self.latest[self.next % SYNS] = Some((flow, now, value));
        self.next += 1;
    }

    /// When the connection's SYN came, and with which timestamp, if it is among the latest.
    pub fn of(&self, flow: FlowId) -> Option<(Instant, u32)> {
        let of_flow = self.latest.iter().flatten().filter(|(id, ..)| *id == flow);
        of_flow.max_by_key(|(_, at, _)| *at).map(|&(_, at, value)| (at, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dsasync::flow::Transport;
    use crate::dsasync::flow_table::{FlowTable, Touched};
    use crate::packet::{Endpoint, FlowKey, StationId};

    #[test]
    fn the_latest_syn_of_a_connection_is_found_for_as_long_as_few_came_after_it() {
        let mut table = FlowTable::new(64, 1);
        let ids: Vec<_> = (0..40)
            .map(|port| {
                let endpoint = |port| Endpoint { addr: [10, 0, 0, 1].into(), port };
                let key = FlowKey { correspondent: endpoint(80), station: endpoint(port) };
                match table.touch(Transport::Tcp, &key, StationId(0)) {
                    Touched::Known(slot) | Touched::New(slot) => table.id(slot),
                    Touched::Full => panic!("full"),
                }
            })
            .collect();
        let (mut syns, at) = (Syns::default(), |n: usize| Instant::from_millis(n as u64));
        assert_eq!(syns.of(ids[0]), None);
        for (n, id) in ids.iter().enumerate() {
            syns.note(at(n), *id, n as u32);
        }
        for (n, id) in ids.iter().enumerate() {
            assert_eq!(syns.of(*id), (n >= 40 - SYNS).then(|| (at(n), n as u32)), "{n}");
        }
        // Sent again, it came at another time.
        syns.note(at(1000), ids[39], 960);
        assert_eq!(syns.of(ids[39]), Some((at(1000), 960)));
    }
}
