//! What mechanisms count: one list, from which sums, results, status and Prometheus metrics are made.
//!
//! A mechanism that counts something new adds a line to the list here. Its name is then a key of a run's
//! `mechanisms` in results and of `linkhold status --json`, and a metric of the agent.

use serde::{Deserialize, Serialize};

use crate::action::DropReason;

/// What a number of [`Metrics`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows; several add up.
    Counter,
    /// It goes up and down, or is the most there was; several add up.
    Gauge,
    /// It goes up and down; of several the greatest counts.
    Greatest,
}

impl Kind {
    /// What two numbers of the kind make together.
    const fn together(self, one: u64, other: u64) -> u64 {
        match self {
            Self::Counter | Self::Gauge => one.saturating_add(other),
            Self::Greatest => {
                if one > other {
                    one
                } else {
                    other
                }
            }
        }
    }
}

/// A number of [`Metrics`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Its name: that of its field.
    pub name: &'static str,
    /// What it counts.
    pub what: &'static str,
    /// What it is.
    pub kind: Kind,
    /// The number.
    pub value: u64,
    /// It belongs into results and status.
    pub is_shown: bool,
}

/// Whether a number belongs into results and status: always, never (something else there says it), or where
/// another counter is above zero.
macro_rules! is_shown {
    ($metrics:ident, always) => {
        true
    };
    ($metrics:ident, never) => {
        false
    };
    ($metrics:ident, $other:ident) => {
        $metrics.$other > 0
    };
}

/// Makes [`Metrics`] of a list: kind, when it is shown, name, and what it counts as documentation.
macro_rules! metrics {
    ($($kind:ident $shown:ident $name:ident $what:literal;)+) => {
        /// Counters of a mechanism. [`Kind`] says of each number whether it only grows.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct Metrics {
            $(
                #[doc = $what]
                #[serde(default)]
                pub $name: u64,
            )+
            /// Packets dropped or discarded, by [`DropReason`] in the order of [`DropReason::ALL`].
            pub dropped: [u64; DropReason::ALL.len()],
        }

        impl Metrics {
            /// What both make together: of one mechanism at several nodes, or of several radios.
            #[must_use]
            pub fn plus(&self, other: &Self) -> Self {
                let mut dropped = self.dropped;
                for (sum, more) in dropped.iter_mut().zip(other.dropped) {
                    *sum += more;
                }
                Self { $($name: Kind::$kind.together(self.$name, other.$name),)+ dropped }
            }

            /// All numbers but those of drops.
            #[must_use]
            pub fn counted(&self) -> Vec<Counted> {
                vec![$(Counted {
                    name: stringify!($name),
                    what: $what,
                    kind: Kind::$kind,
                    value: self.$name,
                    is_shown: is_shown!(self, $shown),
                },)+]
            }
        }
    };
}

metrics! {
    Counter always packets "TCP packets seen";
    Counter datagrams datagrams "Datagrams seen";
    Counter datagrams datagram_holds "Datagrams held; they count among the `holds`, too";
    Gauge always held_packets "Packets held now";
    Gauge never held_bytes "Bytes held now";
    Gauge always held_bytes_peak "Most bytes held at once so far";
    Gauge never held_bytes_limit "Most bytes that may be held at present; 0: the mechanism has no such limit";
    Counter always holds "Packets held so far";
    Counter always released "Held packets released";
    Gauge never kept_bytes "Bytes of forwarded packets of which copies are kept now";
    Gauge always kept_bytes_peak "Most bytes kept as copies at once so far";
    Counter always copies_sent "Copies sent once more";
    Counter always reports "Reports to the other end of the radio";
    Counter uplink_requests uplink_requests "Uplink requests made ahead of a packet";
    Counter uplink_requests uplink_requests_wrong "Uplink requests made ahead of a packet that did not come in time";
    Greatest never uplink_lead_frames "Frames ahead of a packet that its uplink request is made (lookahead's N)";
    Counter always acks_injected "ACKs injected";
    Counter always windows_closed "Times a flow's window was closed";
    Counter always windows_reopened "Times a flow's window was opened again";
    Gauge always windows_closed_now "Flows whose window is closed now";
    Counter always windows_clamped "Windows made smaller in passing, but not closed";
    Counter always probes_answered "Window probes answered";
    Gauge always flows "Flows in the table";
    Counter always flow_evictions "Flows evicted to make room";
    Counter always midstream_flows "Flows first seen after their handshake, so with unknown window scale";
    Counter always silences "Silences seen (network-wide or of a station)";
    Gauge never measured_rate "Rate measured of what goes down where nobody tells it, payload bits/s, over all stations; 0 where it is told or not known yet";
    Counter never untracked_events "Events of stations that are not tracked, because their numbers are too high; they did nothing";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_add_up_but_of_leads_the_greatest_counts() {
        let one = Metrics { packets: 3, held_packets: 2, uplink_lead_frames: 4, ..Metrics::default() };
        let mut other = Metrics { packets: 5, uplink_lead_frames: 1, silences: 1, ..Metrics::default() };
        other.dropped[DropReason::TooOld as usize] = 7;
        let both = one.plus(&other);
        assert_eq!((both.packets, both.held_packets, both.silences, both.uplink_lead_frames), (8, 2, 1, 4));
        assert_eq!(both.dropped[DropReason::TooOld as usize], 7);
        assert_eq!(both, other.plus(&one));
    }

    #[test]
    fn what_a_mechanism_never_does_is_not_shown() {
        let shown = |metrics: Metrics| {
            let names = metrics.counted().into_iter().filter(|one| one.is_shown).map(|one| one.name);
            names.collect::<Vec<_>>()
        };
        let asked = Metrics { uplink_requests: 1, ..Metrics::default() };
        assert!(!shown(Metrics::default()).contains(&"uplink_requests_wrong"));
        assert!(shown(asked).contains(&"uplink_requests_wrong"));
        assert!(shown(asked).contains(&"holds") && !shown(asked).contains(&"held_bytes"));
    }
}
