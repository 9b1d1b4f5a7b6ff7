//! What `linkhold status` shows: the agent's state as JSON (`linkhold.status/1`) and as text.

use std::collections::BTreeMap;
use std::fmt;

use linkhold_core::action::DropReason;
use linkhold_core::mechanism::{Mechanism, Metrics};
use linkhold_results::record::by_name;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::driver::DriverCounters;
use super::nl80211::Nl80211Status;
use crate::host::kernel::KernelCounters;

/// The agent's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Status {
    /// `linkhold.status/1`
    pub schema: String,
    /// Version of the program.
    pub version: String,
    /// The commit that the program was built from, with `-dirty` at its end if its sources had changes that
    /// were not committed; empty: an older agent, which did not tell.
    #[serde(default)]
    pub commit: String,
    /// Name of the agent.
    pub instance: String,
    /// Name of the mechanism.
    pub mechanism: String,
    /// How packets reach the agent.
    pub datapath: String,
    /// The firewall program that put the rules in.
    pub rules: String,
    /// Seconds since the agent's start.
    pub uptime_s: f64,
    /// True while at least one silence is under way.
    pub silent: bool,
    /// Silences under way.
    pub silences_now: usize,
    /// Periods of silence that the mechanism saw; causes that overlap make one.
    pub silences: u64,
    /// Silences begun or announced, each cause and scope by itself: the sum of those under way, announced,
    /// ended, timed and overdue.
    #[serde(default)]
    pub silences_begun: u64,
    /// Silences announced for later.
    #[serde(default)]
    pub silences_announced: usize,
    /// Silences that an event ended.
    #[serde(default)]
    pub silences_ended: u64,
    /// Silences that the agent ended at the time that their source asked for.
    #[serde(default)]
    pub silences_timed: u64,
    /// Silences that nobody ended.
    pub silences_overdue: u64,
    /// What the radio carries, as last told; none: nobody has, or there are several radios.
    pub channel: Option<Channel>,
    /// The rate that the mechanism has measured where nobody tells it, payload bits/s, of all radios; 0: it
    /// is told, not known yet, or the mechanism measures none.
    #[serde(default)]
    pub measured_bps: u64,
    /// What the eBPF congestion controls did, where a host has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<KernelCounters>,
    /// Flows in the table.
    pub flows: u64,
    /// Stations seen.
    pub stations: usize,
    /// Packets.
    pub packets: Packets,
    /// Windows.
    pub windows: Windows,
    /// Events by source.
    pub events: BTreeMap<String, u64>,
    /// What Wi-Fi radios tell by themselves; none: nl80211 is not read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nl80211: Option<Nl80211Status>,
    /// Packets the driver could not treat as wanted.
    pub driver: DriverCounters,
    /// Events that did nothing, because they are of stations beyond those that are told apart.
    #[serde(default)]
    pub untracked_events: u64,
    /// The processor that the agent stays on; none: it wanders.
    #[serde(default)]
    pub processor: Option<u32>,
    /// What keeps packets from the agent, or the agent from its work, and what to change; empty: nothing.
    #[serde(default)]
    pub troubles: Vec<String>,
    /// Each mechanism apart, from the wire to the radio; the sums of all radios.
    #[serde(default)]
    pub mechanisms: Vec<MechanismStatus>,
    /// Each radio apart. The numbers above are their sums.
    #[serde(default)]
    pub radios: Vec<RadioStatus>,
}

/// One radio.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RadioStatus {
    /// Its interface.
    pub name: String,
    /// True while at least one of its silences is under way.
    pub silent: bool,
    /// Silences under way.
    pub silences_now: usize,
    /// Periods of silence that its mechanism saw; causes that overlap make one.
    pub silences: u64,
    /// Silences begun or announced: the sum of those under way, announced, ended, timed and overdue.
    #[serde(default)]
    pub silences_begun: u64,
    /// Silences announced for later.
    #[serde(default)]
    pub silences_announced: usize,
    /// Silences that an event ended.
    #[serde(default)]
    pub silences_ended: u64,
    /// Silences that the agent ended at the time that their source asked for.
    #[serde(default)]
    pub silences_timed: u64,
    /// Silences that nobody ended.
    pub silences_overdue: u64,
    /// What it carries, as last told; none: nobody has.
    pub channel: Option<Channel>,
    /// The rate that the mechanism has measured where nobody tells it, payload bits/s; 0: it is told, not
    /// known yet, or the mechanism measures none.
    #[serde(default)]
    pub measured_bps: u64,
    /// Flows in the table.
    pub flows: u64,
    /// Stations that have a number now.
    pub stations: usize,
    /// Events that did nothing, because they are of stations beyond those that are told apart.
    pub untracked_events: u64,
    /// Packets. Refused verdicts are counted for all radios together only.
    pub packets: Packets,
    /// Windows. Acknowledgments that could not be sent are counted for all radios together only.
    pub windows: Windows,
}

/// One of the mechanisms that run, by the counters that `linkhold run` reports of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MechanismStatus {
    /// Its name.
    pub name: String,
    /// Packets dropped or discarded, by reason.
    pub dropped: BTreeMap<String, u64>,
    /// Its other counters by name.
    #[serde(flatten)]
    pub counters: BTreeMap<String, u64>,
}

impl MechanismStatus {
    /// The members of all `mechanisms`, which are those of one radio each and have the same members.
    pub(super) fn all<'a>(mechanisms: impl Iterator<Item = &'a dyn Mechanism>) -> Vec<Self> {
        let mut sums: Vec<(&str, Metrics)> = Vec::new();
        for (index, (name, metrics)) in mechanisms.flat_map(|one| one.members().into_iter().enumerate()) {
            match sums.get_mut(index) {
                Some((_, sum)) => *sum = sum.plus(&metrics),
                None => sums.push((name, metrics)),
            }
        }
        let named = |(name, metrics): (&str, Metrics)| {
            let (counters, dropped) = by_name(&metrics);
            Self { name: name.to_owned(), dropped, counters }
        };
        sums.into_iter().map(named).collect()
    }
}

/// What the radio carries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Channel {
    /// Raw physical-layer rate, bits per second.
    pub capacity_bps: u64,
    /// Share of it that is left for IP packets.
    pub efficiency: f64,
}

/// Packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Packets {
    /// Packets that crossed the agent.
    pub seen: u64,
    /// Packets held now.
    pub held: u64,
    /// Bytes held now.
    pub held_bytes: u64,
    /// Most bytes held at once.
    pub held_bytes_peak: u64,
    /// Most bytes that may be held at present; 0: the mechanism has no such limit.
    #[serde(default)]
    pub held_bytes_limit: u64,
    /// Packets held so far.
    pub holds: u64,
    /// Held packets released so far.
    pub released: u64,
    /// Packets rewritten in passing.
    pub rewritten: u64,
    /// Packets dropped because there was no room.
    pub dropped_buffer_full: u64,
    /// Packets dropped because a newer copy came.
    pub dropped_superseded: u64,
    /// Packets dropped because their flow was evicted from the table.
    pub dropped_flow_evicted: u64,
    /// Packets dropped because their queue stood too long outside silences.
    pub dropped_standing_queue: u64,
    /// Duplicate ACKs kept from the sender, because a loss was being repaired from a copy.
    #[serde(default)]
    pub dropped_repaired_here: u64,
    /// Datagrams dropped: held for longer than they are thought to be worth.
    #[serde(default)]
    pub dropped_too_old: u64,
    /// Datagrams that crossed the agent; they are among those seen.
    #[serde(default)]
    pub datagrams: u64,
    /// Datagrams held so far; they are among the holds.
    #[serde(default)]
    pub datagram_holds: u64,
    /// Bytes of forwarded packets kept as copies now.
    #[serde(default)]
    pub kept_bytes: u64,
    /// Copies sent once more.
    #[serde(default)]
    pub copies_sent: u64,
    /// Verdicts the kernel refused.
    pub verdict_errors: u64,
}

impl Packets {
    /// What the mechanism of one radio counted, or the sum of several, and how many packets the driver saw
    /// and rewrote for it.
    pub(super) fn of(metrics: &Metrics, seen: u64, rewritten: u64) -> Self {
        let mut this = Self {
            seen,
            held: metrics.held_packets,
            held_bytes: metrics.held_bytes,
            held_bytes_peak: metrics.held_bytes_peak,
            held_bytes_limit: metrics.held_bytes_limit,
            holds: metrics.holds,
            released: metrics.released,
            kept_bytes: metrics.kept_bytes,
            copies_sent: metrics.copies_sent,
            datagrams: metrics.datagrams,
            datagram_holds: metrics.datagram_holds,
            rewritten,
            ..Self::default()
        };
        this.set_dropped(&metrics.dropped);
        this
    }

    /// Packets dropped, for whatever reason.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped_buffer_full
            + self.dropped_superseded
            + self.dropped_flow_evicted
            + self.dropped_standing_queue
            + self.dropped_repaired_here
            + self.dropped_too_old
    }

    /// Sorts a mechanism's drops by reason.
    fn set_dropped(&mut self, dropped: &[u64; DropReason::ALL.len()]) {
        for (reason, count) in DropReason::ALL.into_iter().zip(dropped) {
            let slot = match reason {
                DropReason::BufferFull => &mut self.dropped_buffer_full,
                DropReason::Superseded => &mut self.dropped_superseded,
                DropReason::FlowEvicted => &mut self.dropped_flow_evicted,
                DropReason::StandingQueue => &mut self.dropped_standing_queue,
                DropReason::RepairedHere => &mut self.dropped_repaired_here,
                DropReason::TooOld => &mut self.dropped_too_old,
            };
            *slot = *count;
        }
    }
}

/// Windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Windows {
    /// Windows closed now.
    pub closed_now: u64,
    /// Windows closed so far.
    pub closed: u64,
    /// Windows reopened so far.
    pub reopened: u64,
    /// Windows made smaller in passing.
    pub clamped: u64,
    /// Window probes answered.
    pub probes_answered: u64,
    /// Acknowledgments sent by the agent.
    pub acks_injected: u64,
    /// Acknowledgments that could not be sent.
    pub inject_errors: u64,
}

/// "1 station", "2 stations".
fn counted(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

fn write_channel(
    f: &mut fmt::Formatter<'_>,
    head: &str,
    channel: Option<Channel>,
    measured_bps: u64,
) -> fmt::Result {
    match channel {
        Some(channel) => writeln!(
            f,
            "{head}{:>12}   Mbit/s, {:.0} % of it for IP packets",
            channel.capacity_bps as f64 / 1e6,
            channel.efficiency * 100.0
        ),
        None if measured_bps > 0 => {
            writeln!(
                f,
                "{head}{:>12.1}   Mbit/s, measured by what passed; nobody tells the rate",
                measured_bps as f64 / 1e6
            )
        }
        None => writeln!(f, "{head}    not told   `[channel]` or `linkhold signal switch` tells its rate"),
    }
}

impl Windows {
    /// What the mechanism of one radio counted, or the sum of several, and the acknowledgments sent for it.
    pub(super) fn of(metrics: &Metrics, acks_injected: u64) -> Self {
        Self {
            closed_now: metrics.windows_closed_now,
            closed: metrics.windows_closed,
            reopened: metrics.windows_reopened,
            clamped: metrics.windows_clamped,
            probes_answered: metrics.probes_answered,
            acks_injected,
            inject_errors: 0,
        }
    }
}

impl fmt::Display for RadioStatus {
    /// Two lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_channel(f, &format!("{:<12}", self.name), self.channel, self.measured_bps)?;
        writeln!(
            f,
            "{:>24}   {}; {} packets seen, {} held now; {}, {} that nobody ended; {}, {}",
            "",
            if self.silent { "silent" } else { "on air" },
            self.packets.seen,
            self.packets.held,
            counted(self.silences, "silence"),
            self.silences_overdue,
            counted(self.flows, "flow"),
            counted(self.stations as u64, "station")
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.silent { "silent" } else { "on air" };
        writeln!(
            f,
            "linkhold {} ({}), up {:.0} s, {} by {}: {state}",
            self.instance, self.mechanism, self.uptime_s, self.datapath, self.rules
        )?;
        for trouble in &self.troubles {
            writeln!(f, "TROUBLE     {trouble}")?;
        }
        match &self.radios[..] {
            [] | [_] => write_channel(f, "channel     ", self.channel, self.measured_bps)?,
            several => several.iter().try_for_each(|radio| write!(f, "{radio}"))?,
        }
        writeln!(f, "flows       {:>12}   {}", self.flows, counted(self.stations as u64, "station"))?;
        let room = match self.packets.held_bytes_limit {
            0 => String::new(),
            limit => format!(", room for {limit}"),
        };
        writeln!(
            f,
            "held        {:>12}   packets now, {} bytes (peak {} bytes{room})",
            self.packets.held, self.packets.held_bytes, self.packets.held_bytes_peak
        )?;
        writeln!(
            f,
            "windows     {:>12}   closed now; {} closed, {} reopened, {} made smaller so far",
            self.windows.closed_now, self.windows.closed, self.windows.reopened, self.windows.clamped
        )?;
        writeln!(
            f,
            "silences    {:>12}   begun (overlapping ones make one: {} on the air); {} under way, {} announced, {} ended by \
             events, {} by the clock, {} that nobody ended",
            self.silences_begun,
            self.silences,
            self.silences_now,
            self.silences_announced,
            self.silences_ended,
            self.silences_timed,
            self.silences_overdue
        )?;
        writeln!(
            f,
            "packets     {:>12}   seen; {} held so far, {} rewritten, {} dropped",
            self.packets.seen,
            self.packets.holds,
            self.packets.rewritten,
            self.packets.dropped()
        )?;
        write!(f, "events      ")?;
        if self.events.is_empty() {
            write!(f, "{:>12}", "none")?;
        }
        for (index, (source, count)) in self.events.iter().enumerate() {
            write!(f, "{}{source} {count}", if index == 0 { "" } else { ", " })?;
        }
        if let Some(nl80211) = &self.nl80211 {
            write!(f, "\nnl80211     {:>12}   events lost", nl80211.lost)?;
            for radio in &nl80211.interfaces {
                let state = match radio.index {
                    Some(_) if radio.serving => "serves stations",
                    Some(_) => "serves nobody",
                    None => "no wireless interface",
                };
                write!(f, "; {}: {} events, {state}", radio.name, radio.events)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use linkhold_core::action::Actions;
    use linkhold_core::chain::Chain;
    use linkhold_core::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
    use linkhold_core::registry::find;
    use linkhold_core::time::Instant;

    use super::*;

    #[test]
    fn each_mechanism_of_a_chain_is_told_apart_with_every_counter_of_a_runs_record() {
        let build =
            |name: &str| find(name).expect("registered").recommended().build(1).expect("it stands here");
        let radio = || Chain::new(vec![build("dsasync"), build("local-recovery")], 1);
        let mut radios = [radio(), radio()];
        let kind =
            LinkEventKind::FreezeStarted { scope: Scope::Network, cause: Cause::Sensing, expected: None };
        for one in &mut radios {
            one.on_link(Instant::ZERO, LinkEvent::at(Instant::ZERO, kind), &mut Actions::new());
        }
        let told = MechanismStatus::all(radios.iter().map(|one| one as &dyn Mechanism));
        let names: Vec<&str> = told.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["dsasync", "local-recovery"], "the same of each radio");
        let (counters, dropped) = by_name(&Metrics::default());
        for one in &told {
            assert!(one.counters.keys().eq(counters.keys()) && one.dropped == dropped, "{one:?}");
        }
        let silences: Vec<u64> = told.iter().map(|one| one.counters["silences"]).collect();
        assert_eq!((silences, radios[0].metrics().silences), (vec![2, 2], 1), "the sum of both radios");
    }
}
