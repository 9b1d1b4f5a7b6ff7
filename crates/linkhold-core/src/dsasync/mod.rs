//! DSASync at the base station: holds packets in a silence, and manages the windows of the senders meanwhile.
//!
//! Paper: `dsasync` (Kumar and Shin), sections III and IV. Sees every TCP packet of both directions and the
//! radio's events; emits verdicts, releases, ACKs that repeat what a station acknowledged, and `Reclaim`.
//!
//! [`DsaSync`] hands each input to the parts that it concerns. A part owns its state and gets the rest as
//! arguments: first of all `Shared`, which every part needs.
//!
//! | Algorithm | Part | Files |
//! |---|---|---|
//! | 1 and 2, what is held and when it leaves | `Downlink` | `downlink.rs`, `hold_buffer.rs`, `held.rs`, `pacer.rs` |
//! | beside the paper: nobody takes another's share | `Downlink` | `hold_buffer.rs`, `queues.rs`, `virtual_time.rs`, `longest.rs`, `codel.rs` |
//! | beside the paper: nothing arrives in announced sensing | `Foresight` | `foresight.rs`, `edge.rs` |
//! | beside the paper: datagrams of UDP | `Downlink` | `datagrams.rs` |
//! | 1 and 2, what windows senders are told | `Windows` | `windows.rs`, `window.rs`, `keep_back.rs` |
//! | 3 and 4, uplink shaping | `UplinkPath` | `uplink_path.rs`, `uplink.rs` |
//! | 5, loss of capacity | `Capacity` | `capacity.rs` |
//! | beside the paper: what a silence took before it was noticed | `Recover` | `recover.rs`, `gates.rs` |
//! | section VI's remarks: a buffer sized by the silences | `Shared` | `allocation.rs` |
//! | beside the paper: round trips and the window clamp | `RoundTrips` | `round_trip.rs` and its folder, `probes.rs`, `min_filter.rs`, `lateness.rs`, `bdp.rs` |
//! | beside the paper: the rate that nobody tells | `RoundTrips` | `untold.rs`, `cell.rs`, `delivery_rate.rs`, `departures.rs`, `unacknowledged.rs`, `withheld.rs`, `shares.rs`, `uplink_rate.rs`, `uplink_windows.rs`, `up_window.rs` |
//! | what is known of each connection | `Shared` | `flow_table.rs`, `flow.rs`, `handshake.rs` |
//!
//! Packets go *down* to stations, and what stations send comes *up*. *Below* means underneath the base
//! station's agent: in the router's queue and in the radio. A packet that waits *here* is held by the
//! agent.
//!
//! A station: forwarding → silent (TFP: hold) → draining (silence over, queue not yet empty) → forwarding.
//! Space: plenty → low (B_free < B_low: the paper's `hold`, windows closed) → plenty (B_free > B_high).
//!
//! Deviations are recorded in the file they concern. Common to all: Algorithm 2 is run on events, not on a
//! periodic timer. Nothing is taken back from the transmit queue (line 11) for a cause of silences whose ends
//! are noticed more than 2 ms late.

mod allocation;
mod bdp;
mod capacity;
mod cell;
mod codel;
pub mod config;
mod datagrams;
mod delivery_rate;
mod departures;
mod downlink;
mod edge;
mod flow;
mod flow_table;
mod foresight;
mod gates;
mod handshake;
mod held;
mod hold_buffer;
mod keep_back;
mod lateness;
mod longest;
mod min_filter;
mod one_way;
mod pacer;
mod per_station;
mod probes;
mod queues;
mod recover;
mod round_trip;
mod settings;
mod shared;
mod shares;
mod syns;
mod unacknowledged;
mod untold;
mod up_window;
pub mod uplink;
mod uplink_path;
mod uplink_rate;
mod uplink_windows;
mod virtual_time;
mod waits;
mod window;
mod windows;
mod withheld;

#[cfg(test)]
mod tests;

use crate::action::{Action, Actions, DropReason, Rewrite, Verdict};
use crate::copies::suspects::Forwarded;
use crate::link_event::{Cause, LinkEvent, LinkEventKind, Scope};
use crate::link_monitor::{LinkMonitor, TfpChange};
use crate::mechanism::{Mechanism, Metrics};
use crate::packet::{
    DatagramView, Direction, FlowKey, Origin, PacketId, PacketView, StationId, TcpFlags, TcpSegment,
};
use crate::time::{Duration, Instant};
use crate::units::Bytes;

use capacity::{Capacity, Channel};
use downlink::{Downlink, Leaving, MOST_DROPS};
use edge::tell_window;
use flow::Transport;
use flow_table::Touched;
use foresight::Foresight;
use held::{is_data, tells, tick};
use keep_back::release_kept;
use probes::SentDown;
use recover::{Heard, Recover};
use round_trip::{Here, RoundTrips, probe_wired};
use shared::Shared;
use uplink::UplinkMode;
use uplink_path::UplinkPath;
use uplink_rate::Interruption;
use uplink_windows::{pass_downlink, tell_station};
use windows::Windows;

pub use config::{
    CapacityResponse, Clamp, CloseAt, ConfigError, Datagrams, DsaSyncConfig, Duplicates, Mode, Queues,
};

/// What an event says of a silence that begins.
#[derive(Clone, Copy)]
struct Told {
    cause: Cause,
    /// How long it has lasted, where that is known.
    since: Option<Duration>,
}

/// A silence's end that is noticed later than this is late: twice the timer slack of a general-purpose
/// kernel.
const LATE: Duration = Duration::from_millis(2);

/// Nothing is held for a pause that is the other direction's turn if the pause is expected to be no longer
/// than this: the longest frame of the standards that have such turns (20 ms: IEEE 802.16 and a DOCSIS MAP
/// interval; 10 ms in 5G).
const TURN: Duration = Duration::from_millis(20);

/// True of a silence that is only a turn of the medium access, and that holding would make longer. (The
/// paper's silences are those of a radio that neither sends nor receives.)
/// - A station that waits for its own grant cannot send, but it can be sent to.
/// - The downlink's pause in a TDD frame is part of every packet's way. What comes in it must lie in the
///   radio's queue when the next subframe is filled. Held, it is released by the event that starts that
///   subframe, and only as much of it as the pacer lets go at once is in time; the rest waits one frame more,
///   in each round trip.
///
/// An end needs no start: the monitor passes over the end of a silence that it does not know.
fn is_a_turn(kind: &LinkEventKind) -> bool {
    match kind {
        LinkEventKind::FreezeStarted { scope, cause: Cause::Grant, expected } => match scope {
            Scope::Station(_) => true,
            Scope::Network => expected.is_some_and(|length| length <= TURN),
        },
        LinkEventKind::FreezeEnded { scope: Scope::Station(_), cause: Cause::Grant } => true,
        _ => false,
    }
}

/// DSASync: Algorithms 1 to 5 as one [`Mechanism`].
#[derive(Debug)]
pub struct DsaSync {
    shared: Shared,
    downlink: Downlink,
    windows: Windows,
    foresight: Foresight,
    uplink: UplinkPath,
    round_trips: RoundTrips,
    capacity: Capacity,
    recover: Recover,
    /// By cause: the last silence's end was noticed late, so the next one's will be.
    ends_late: [bool; Cause::ALL.len()],
    /// The earliest of the parts' timeouts, found once for each input: drivers ask for it more often.
    next_timeout: Option<Instant>,
}

impl DsaSync {
    /// A mechanism that has seen no packet and no event yet.
    ///
    /// # Errors
    /// What [`DsaSyncConfig::validate`] finds.
    pub fn new(config: &DsaSyncConfig) -> Result<Self, ConfigError> {
        config.validate()?;
        Ok(Self {
            shared: Shared::new(config),
            downlink: Downlink::new(config),
            windows: Windows::default(),
            foresight: Foresight::default(),
            uplink: UplinkPath::new(&config.uplink),
            round_trips: RoundTrips::new(config),
            capacity: Capacity::new(config),
            recover: Recover::new(config),
            ends_late: [false; Cause::ALL.len()],
            next_timeout: None,
        })
    }

    /// The settings it was made with.
    #[must_use]
    pub fn config(&self) -> &DsaSyncConfig {
        &self.shared.config
    }

    /// What is known of the radio.
    #[must_use]
    pub fn monitor(&self) -> &LinkMonitor {
        &self.shared.monitor
    }

    /// The wired part of a connection's round trip: the least that was measured in the last 10 to 20 s.
    /// `None` until there was an answer to measure, or if the connection is not known.
    #[must_use]
    pub fn wired_round_trip(&self, flow: &FlowKey) -> Option<Duration> {
        self.shared.flows.known(self.shared.flows.find(flow)?).wired.get()
    }

    /// Bytes handed to the radio that stations have not acknowledged, and are still waited for.
    #[must_use]
    pub fn outstanding(&self) -> Bytes {
        Bytes(self.round_trips.outstanding())
    }

    // ---- flows ----

    /// The packet's flow, made if need be; `None` only for a reset that goes on at once, of a flow that is
    /// not known.
    #[inline(always)]
    fn flow_of(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Option<u32> {
        // A reset needs no flow, and a flood of resets must evict none. But a reset that has to be held needs
        // one: without it the reset would go into the silence, or overtake packets that are held.
        if packet.tcp.flags.contains(TcpFlags::RST) && !self.must_hold(packet) {
            return self.shared.flows.find(packet.flow);
        }
        let newest = self.shared.flows.touch_newest(packet.flow, packet.station);
        if newest.is_some() { newest } else { self.other_flow_of(now, packet, out) }
    }

    /// As [`flow_of`](Self::flow_of), for a packet of another flow than the one before.
    #[inline(never)]
    fn other_flow_of(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Option<u32> {
        let (slot, is_new) = self.touch_or_add(now, Transport::Tcp, packet.flow, packet.station, out)?;
        if is_new && !packet.tcp.flags.contains(TcpFlags::SYN) {
            self.shared.metrics.midstream_flows += 1;
            self.round_trips.begins_midstream(now, self.shared.flows.at(slot));
        }
        Some(slot)
    }

    /// Finds a flow, or makes it and whatever room it takes. True if it is new.
    #[inline(never)]
    fn touch_or_add(
        &mut self,
        now: Instant,
        transport: Transport,
        flow: &FlowKey,
        station: StationId,
        out: &mut Actions,
    ) -> Option<(u32, bool)> {
        loop {
            match self.shared.flows.touch(transport, flow, station) {
                Touched::Known(slot) => {
                    self.shared.monitor.learn_station(station);
                    self.downlink.follow(&mut self.shared, slot, station);
                    return Some((slot, false));
                }
                Touched::New(slot) => {
                    self.shared.monitor.learn_station(station);
                    return Some((slot, true));
                }
                Touched::Full => {
                    let oldest = self.shared.flows.oldest(transport)?;
                    self.shared.metrics.flow_evictions += 1;
                    self.forget(now, oldest, out);
                }
            }
        }
    }

    /// True if the packet may not go on at once, whatever its flow.
    #[cold]
    fn must_hold(&self, packet: &PacketView<'_>) -> bool {
        match packet.direction {
            Direction::Downlink => {
                packet.origin == Origin::TransmitQueue
                    || self.shared.monitor.tfp(packet.station)
                    || self.downlink.has(packet.station)
            }
            Direction::Uplink => self.uplink.has(packet.station),
        }
    }

    /// Takes a flow out of the table: discards what is held of it, and reopens its window if we closed it.
    #[cold]
    fn forget(&mut self, now: Instant, slot: u32, out: &mut Actions) {
        self.downlink.forget(&mut self.shared, slot, out);
        release_kept(&mut self.shared, slot, out);
        self.recover.forget(now, &mut self.shared, &mut self.windows, &self.round_trips, slot, out);
        self.windows.reopen(now, &mut self.shared, &self.round_trips, slot, out);
        self.round_trips.forget(self.shared.flows.at(slot));
        self.shared.flows.remove(slot);
    }

    /// Forgets a flow that is over and of which nothing is held.
    #[inline]
    fn forget_if_over(&mut self, now: Instant, slot: u32, out: &mut Actions) {
        let flow = self.shared.flows.at(slot);
        if flow.is_over() && flow.held == 0 {
            self.forget(now, slot, out);
        }
    }

    // ---- downlink: Algorithms 1 and 2 ----

    fn on_downlink(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let Some(slot) = self.flow_of(now, packet, out) else {
            self.downlink.pacer.on_sent(now, packet.len);
            return Verdict::Forward(Rewrite::NONE);
        };
        let flow = self.shared.flows.at(slot);
        let arrival = packet.origin == Origin::Arrival;
        let (seq, end) = (packet.tcp.seq, packet.tcp.seq_end());
        if arrival {
            if flow.down_max.is_some_and(|highest| seq.before(highest)) && packet.tcp.payload_len > 0 {
                self.recover.sender_repeats(slot, flow.acked, seq, end);
            }
            if self.foresight.watches() && packet.tcp.payload_len > 0 {
                let idle = self.round_trips.is_idle() && self.downlink.packets() == 0;
                self.foresight.on_data(now, &mut self.shared, idle);
            }
            let flow = self.shared.flows.at(slot);
            self.capacity.on_arrival(now, packet.station, packet.len);
            self.round_trips.on_arrival(now, flow, packet.tcp);
            flow.window.heard();
            self.on_syn(now, slot, packet.tcp, out);
        } else {
            self.on_taken_back(now, slot, packet, out);
        }
        // lines 5 to 7
        let silent = self.shared.monitor.tfp(packet.station);
        if arrival && !silent && !self.waits(now, slot, packet) {
            return self.pass_down(now, slot, packet, out);
        }
        if silent {
            self.shared.allot_more(now);
        }
        let verdict = self.downlink.hold(now, &mut self.shared, slot, packet, out);
        self.relieve_cut(now, out);
        if self.shared.config.mode != Mode::Hold {
            self.windows.close_as_needed(now, &mut self.shared, slot, packet, out);
        }
        if arrival
            && !silent
            && self.round_trips.counts_anew(now, self.shared.flows.at(slot), packet.tcp)
            && self.downlink.relieve(now, &self.round_trips, packet.station)
        {
            self.release(now, out);
        }
        verdict
    }

    /// Forgets the copies of a connection when a SYN has begun another in its place. Not for every SYN:
    /// anybody can send one.
    #[inline]
    fn on_syn(&mut self, now: Instant, slot: u32, tcp: &TcpSegment, out: &mut Actions) {
        if tcp.flags.contains(TcpFlags::SYN) && self.shared.flows.at(slot).take_anew() {
            let (shared, windows) = (&mut self.shared, &mut self.windows);
            self.recover.forget(now, shared, windows, &self.round_trips, slot, out);
        }
    }

    /// A segment came back from the transmit queue.
    #[cold]
    fn on_taken_back(&mut self, now: Instant, slot: u32, packet: &PacketView<'_>, out: &mut Actions) {
        self.downlink.pacer.on_taken_back(now, packet.len);
        self.round_trips.on_taken_back(self.shared.flows.at(slot), packet.tcp);
        self.recover.taken_back(&mut self.shared, slot, packet.tcp, out);
    }

    /// A segment that came goes down at once.
    #[inline(never)]
    fn pass_down(&mut self, now: Instant, slot: u32, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let (end, seq_len) = (packet.tcp.seq_end(), packet.tcp.seq_len());
        let sent = SentDown { tick: tick(packet.tcp), end, seq_len, len: packet.len, arrived: Some(now) };
        let rewrite =
            pass_downlink(now, &mut self.shared, &self.round_trips, slot, tells(packet.tcp), sent.tick);
        let keep = is_data(packet.tcp) && self.keep(now, slot, packet.id, &sent, out);
        self.sent_down(now, slot, &sent);
        self.forget_if_over(now, slot, out);
        if keep { Verdict::ForwardAndKeep(rewrite) } else { Verdict::Forward(rewrite) }
    }

    /// Follows up that flows lost packets to make room: they hold less than before.
    #[inline]
    fn relieve_cut(&mut self, now: Instant, out: &mut Actions) {
        while let Some(cut) = self.downlink.cut.pop() {
            // It may be in the list several times, and be forgotten after the first.
            if self.shared.flows.get(cut).is_some() {
                self.relieved(now, cut, out);
            }
        }
    }

    /// True if an arrival has to wait: for the answer to a probe, or as [`Downlink::must_wait`] has it.
    #[inline]
    fn waits(&mut self, now: Instant, slot: u32, packet: &PacketView<'_>) -> bool {
        let Self { shared, round_trips, recover, downlink, .. } = self;
        recover.blocks(packet.station)
            || downlink.must_wait(now, shared, round_trips, &recover.gates, slot, packet)
    }

    /// A downlink packet goes to the transmit queue now.
    #[inline]
    fn sent_down(&mut self, now: Instant, slot: u32, sent: &SentDown) {
        let ahead = self.downlink.pacer.on_sent(now, sent.len);
        self.shared.flows.at(slot).note_begun(sent.end - sent.seq_len);
        self.round_trips.on_sent(now, &mut self.shared, slot, sent, ahead);
    }

    /// A segment is about to go down. True if the driver is to keep a copy.
    #[inline(always)]
    fn keep(
        &mut self,
        now: Instant,
        slot: u32,
        packet: PacketId,
        sent: &SentDown,
        out: &mut Actions,
    ) -> bool {
        self.recover.is_on() && self.keep_copy(now, slot, packet, sent, out)
    }

    /// As [`keep`](Self::keep), where copies are kept.
    #[inline(never)]
    fn keep_copy(
        &mut self,
        now: Instant,
        slot: u32,
        packet: PacketId,
        sent: &SentDown,
        out: &mut Actions,
    ) -> bool {
        let SentDown { tick, end, seq_len, len: bytes, .. } = *sent;
        let (flow, seq) = (self.shared.flows.known(slot), end - seq_len);
        let again = flow.was_sent(end);
        let out_of_order = flow.down_begun.is_some_and(|highest| seq.before(highest));
        let segment = Forwarded { id: packet, seq, end, bytes, again, out_of_order, tick };
        self.recover.keep(now, &mut self.shared, &self.round_trips, slot, &segment, out)
    }

    /// Sends the copies that may go, then Algorithm 2 lines 6 to 10 and lines 1 to 5.
    fn release(&mut self, now: Instant, out: &mut Actions) {
        while self.recover.has_line()
            && self.recover.send_next(
                now,
                &mut self.shared,
                &mut self.round_trips,
                &mut self.downlink.pacer,
                out,
            )
        {}
        if self.recover.take_opened() {
            self.downlink.unblock();
            self.round_trips.interrupt(now, Interruption::OpenedGate);
        }
        let mut drops = 0;
        while drops < MOST_DROPS
            && !self.recover.has_line()
            && let Some(leaving) =
                self.downlink.pop(now, &mut self.shared, &self.round_trips, &self.recover.gates)
        {
            drops += u32::from(leaving.sent.is_err());
            self.release_one(now, &leaving, out);
        }
        self.downlink.unfinished = drops == MOST_DROPS;
        if self.shared.space.recovers() {
            self.windows.reopen_all(now, &mut self.shared, &self.round_trips, out);
        }
    }

    #[inline]
    fn release_one(&mut self, now: Instant, leaving: &Leaving, out: &mut Actions) {
        match &leaving.sent {
            Ok(sent) if leaving.transport == Transport::Udp => {
                self.downlink.pacer.on_sent(now, sent.len);
                self.round_trips.on_unacknowledged(now, sent.len);
                self.shared.metrics.released += 1;
                out.push(Action::Release { packet: leaving.packet, rewrite: Rewrite::NONE });
            }
            Ok(sent) => {
                let (shared, round_trips) = (&mut self.shared, &self.round_trips);
                let rewrite = pass_downlink(now, shared, round_trips, leaving.slot, leaving.tells, sent.tick);
                let keep = leaving.is_data && self.keep(now, leaving.slot, leaving.packet, sent, out);
                self.sent_down(now, leaving.slot, sent);
                self.shared.metrics.released += 1;
                let packet = leaving.packet;
                out.push(if keep {
                    Action::ReleaseAndKeep { packet, rewrite }
                } else {
                    Action::Release { packet, rewrite }
                });
            }
            Err(reason) => self.shared.discard(leaving.packet, *reason, out),
        }
        self.relieved(now, leaving.slot, out);
    }

    /// A flow holds less than before: its window may open again, or the flow can be forgotten.
    #[inline]
    fn relieved(&mut self, now: Instant, slot: u32, out: &mut Actions) {
        self.windows.reopen_relieved(now, &mut self.shared, &self.round_trips, slot, out);
        self.forget_if_over(now, slot, out);
    }

    // ---- uplink ----

    fn on_uplink(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        let Some(slot) = self.flow_of(now, packet, out) else {
            return Verdict::Forward(Rewrite::NONE);
        };
        let (shared, round_trips) = (&mut self.shared, &mut self.round_trips);
        let here = if self.recover.gates.is_shut(packet.station) {
            Here::Withheld
        } else if self.downlink.has(packet.station) {
            Here::Held
        } else {
            Here::Nothing
        };
        let believed = round_trips.on_uplink(now, shared, slot, packet, here, &mut self.downlink.pacer);
        release_kept(shared, slot, out);
        self.on_syn(now, slot, packet.tcp, out);
        let (shared, windows, round_trips) = (&mut self.shared, &mut self.windows, &mut self.round_trips);
        if believed && packet.tcp.flags.contains(TcpFlags::RST) {
            // The station would answer each copy with another reset, and a gate would wait for its answers.
            self.recover.forget(now, shared, windows, round_trips, slot, out);
        }
        let pacer = &self.downlink.pacer;
        let heard = if believed && self.recover.is_on() {
            self.recover.on_uplink(now, shared, round_trips, pacer, slot, packet, out)
        } else {
            Heard::Pass
        };
        if heard == Heard::Hidden {
            self.forget_if_over(now, slot, out);
            return Verdict::Hold;
        }
        if heard != Heard::Dropped {
            let tcp = packet.tcp;
            self.recover.before_passing(now, shared, windows, round_trips, slot, tcp, believed, out);
        }
        let takes_place = heard == Heard::Stripped
            && shared.flows.known(slot).shaped == 0
            && tell_window(now, shared, round_trips, slot, out);
        if heard == Heard::Dropped || takes_place {
            shared.metrics.dropped[DropReason::RepairedHere as usize] += u64::from(takes_place);
            self.forget_if_over(now, slot, out);
            return Verdict::Drop(DropReason::RepairedHere);
        }
        let rewrite = if believed {
            windows.pass_uplink(now, shared, round_trips, slot, packet.tcp)
        } else {
            Rewrite::NONE
        };
        let verdict = if shared.config.uplink.mode == UplinkMode::Off {
            if believed {
                probe_wired(now, shared.flows.at(slot), packet.tcp);
            }
            windows.kept.keep_back(now, shared, slot, packet, rewrite)
        } else {
            self.uplink.shape(now, shared, windows, round_trips, slot, packet, rewrite, believed, out)
        };
        if believed {
            tell_station(now, shared, round_trips, slot, packet, out);
        }
        let verdict = match verdict {
            // The verdict takes effect before the actions: forwarded, it would overtake what this call
            // releases.
            Verdict::Forward(rewrite)
                if out.as_slice().iter().any(|action| matches!(action, Action::Release { .. })) =>
            {
                self.shared.metrics.holds += 1;
                self.shared.metrics.released += 1;
                out.push(Action::Release { packet: packet.id, rewrite });
                Verdict::Hold
            }
            Verdict::Forward(_) | Verdict::ForwardAndKeep(_) | Verdict::Hold | Verdict::Drop(_) => verdict,
        };
        self.forget_if_over(now, slot, out);
        verdict
    }

    /// Ends the handling of every input: sends the copies that the input called for and the held packets
    /// whose gate it opened, and finds the next timeout.
    #[inline]
    fn finish(&mut self, now: Instant, out: &mut Actions) {
        if self.recover.has_work() {
            self.release(now, out);
        }
        self.round_trips.waiting = self.downlink.stations();
        self.next_timeout = self.find_next_timeout(now);
    }

    // ---- the radio ----

    /// Carries out a change of TFP. `told` is what the event says; `None` if the time of an announced change
    /// came.
    fn on_tfp_change(&mut self, now: Instant, change: TfpChange, told: Option<Told>, out: &mut Actions) {
        match change {
            TfpChange::None => {}
            TfpChange::NetworkBegan => self.silence_began(now, Scope::Network, told, out),
            TfpChange::StationBegan(station) => {
                self.silence_began(now, Scope::Station(station), told, out);
            }
            TfpChange::NetworkEnded | TfpChange::StationEnded(_) => {
                if change == TfpChange::NetworkEnded {
                    self.downlink.pacer.resume(now);
                }
                self.downlink.unblock();
                self.shared.silence_ended(now);
                self.foresight.silence_ended(now);
                self.recover.silence_ended(now, &self.shared, &self.downlink.pacer);
                self.round_trips.silence_ended(now);
                self.round_trips.set_silent_aside(&self.shared.monitor);
                self.round_trips.share_anew(&self.shared.monitor);
                self.windows.reopen_all(now, &mut self.shared, &self.round_trips, out);
                self.release(now, out);
            }
        }
    }

    fn silence_began(&mut self, now: Instant, scope: Scope, told: Option<Told>, out: &mut Actions) {
        self.shared.silence_began(now, self.downlink.pacer.rate());
        let since = told.and_then(|told| told.since);
        let lasted = self.recover.silence_began(now, &self.shared, scope, since);
        self.round_trips.silence_began(now);
        match scope {
            Scope::Network => self.downlink.pacer.pause(now, lasted, self.shared.metrics.kept_bytes),
            Scope::Station(station) => {
                self.round_trips.station_fell_silent(station);
                self.round_trips.share_anew(&self.shared.monitor);
            }
        }
        // line 11: packets come back from the transmit queue, if there is space for them. Not if the radio
        // will work again before we know it: until then it can send only what is left in its queue.
        let ends_late = told.is_some_and(|told| self.ends_late[told.cause as usize]);
        if self.shared.config.reclaim && !ends_late && self.shared.space.is_ample() {
            out.push(Action::Reclaim { scope });
        }
        self.foresight.silence_began(now, &self.shared, scope);
        self.windows.silence_began(now, &mut self.shared, scope, out);
    }

    /// The channel's rate became known, changed (Algorithm 5), or is not known any more.
    fn on_channel(&mut self, now: Instant, old: Option<Channel>, new: Channel, out: &mut Actions) {
        let (rate, efficiency) = new;
        self.round_trips.set_capacity(rate, efficiency);
        if rate.as_bps() == 0 {
            self.downlink.pacer.forget_rate();
        } else {
            self.downlink.pacer.set_rate(now, rate.mul_f64(efficiency.get()), true);
            self.shared.rate_changed(self.downlink.pacer.rate());
            self.recover.rate_told(now, &self.downlink.pacer);
            self.capacity.on_switch(now, &mut self.shared, old, new, out);
        }
    }

    /// The earliest of the parts' timeouts.
    #[inline]
    fn find_next_timeout(&mut self, now: Instant) -> Option<Instant> {
        let never = Instant::FAR_FUTURE;
        let monitor = self.shared.monitor.next_timeout().unwrap_or(never);
        let uplink = self.uplink.next_timeout().unwrap_or(never);
        let kept = self.windows.kept.next_timeout().unwrap_or(never);
        let nudge = self.windows.next_nudge().unwrap_or(never);
        let look = self.foresight.next_timeout().unwrap_or(never);
        let gates = &self.recover.gates;
        let downlink =
            self.downlink.next_timeout(now, &self.shared, &self.round_trips, gates).unwrap_or(never);
        let recover = self.recover.next_timeout().unwrap_or(never);
        let copies = if self.recover.has_line() { self.downlink.pacer.next_time() } else { None };
        let downlink = downlink.min(recover).min(copies.unwrap_or(never));
        let earliest = monitor.min(uplink).min(kept).min(nudge).min(look).min(downlink);
        (earliest < Instant::FAR_FUTURE).then_some(earliest)
    }
}

impl Mechanism for DsaSync {
    fn name(&self) -> &'static str {
        "dsasync"
    }

    fn on_packet(&mut self, now: Instant, packet: &PacketView<'_>, out: &mut Actions) -> Verdict {
        self.shared.metrics.packets += u64::from(packet.origin == Origin::Arrival);
        let verdict = match packet.direction {
            Direction::Downlink => self.on_downlink(now, packet, out),
            Direction::Uplink => {
                let verdict = self.on_uplink(now, packet, out);
                if self.downlink.relieve(now, &self.round_trips, packet.station) {
                    self.release(now, out);
                }
                verdict
            }
        };
        self.finish(now, out);
        verdict
    }

    fn on_datagram(&mut self, now: Instant, datagram: &DatagramView<'_>, out: &mut Actions) -> Verdict {
        self.on_any_datagram(now, datagram, out)
    }

    fn on_link(&mut self, now: Instant, event: LinkEvent, out: &mut Actions) {
        if is_a_turn(&event.kind) {
            return;
        }
        let old = self.shared.monitor.capacity();
        let change = self.shared.monitor.on_event(now, &event);
        match event.kind {
            LinkEventKind::FreezeStarted { cause, .. } => {
                let since = event.effective_at.map(|at| now.since(at));
                self.on_tfp_change(now, change, Some(Told { cause, since }), out);
            }
            LinkEventKind::FreezeEnded { cause, .. } => {
                self.ends_late[cause as usize] = event.effective_at.is_some_and(|at| now.since(at) > LATE);
                self.on_tfp_change(now, change, Some(Told { cause, since: None }), out);
            }
            LinkEventKind::ChannelSwitched { capacity, efficiency } => {
                self.on_channel(now, old, (capacity, efficiency), out);
            }
            LinkEventKind::TransmitRoom { packets, bytes } => {
                self.downlink.pacer.set_room(packets, bytes);
                self.release(now, out);
            }
            // If the station was silent when it left, its flows may still have closed windows.
            LinkEventKind::StationLeft { station } => {
                self.round_trips.forget_station(&mut self.shared, station);
                self.capacity.forget_station(station);
                self.recover.forget_station(station);
                self.on_tfp_change(now, change, None, out);
            }
            LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. } => {}
        }
        self.finish(now, out);
    }

    fn listens_to(&self, kind: &LinkEventKind) -> bool {
        match kind {
            LinkEventKind::FreezeStarted { .. } | LinkEventKind::FreezeEnded { .. } => !is_a_turn(kind),
            LinkEventKind::ChannelSwitched { .. }
            | LinkEventKind::SensingSchedule { .. }
            | LinkEventKind::TransmitRoom { .. }
            | LinkEventKind::StationLeft { .. } => true,
            LinkEventKind::Snr { .. }
            | LinkEventKind::Grant { .. }
            | LinkEventKind::GrantUnused { .. }
            | LinkEventKind::GrantFrames { .. } => false,
        }
    }

    fn on_timeout(&mut self, now: Instant, out: &mut Actions) {
        while self.shared.monitor.next_timeout().is_some_and(|at| at <= now) {
            let change = self.shared.monitor.on_timeout(now);
            self.on_tfp_change(now, change, None, out);
        }
        let (shared, windows, round_trips) = (&mut self.shared, &mut self.windows, &self.round_trips);
        if self.uplink.next_timeout().is_some_and(|due| due <= now) {
            self.uplink.on_timeout(now, shared, windows, round_trips, out);
        }
        windows.kept.expire(now, shared, out);
        self.recover.on_timeout(now, shared, windows, round_trips, &self.downlink.pacer, out);
        if windows.next_nudge().is_some_and(|due| due <= now) {
            windows.run_nudges(now, shared, round_trips, out);
        }
        self.foresight.on_timeout(now, shared, round_trips, out);
        self.downlink.lose_patience(now);
        self.release(now, out);
        self.finish(now, out);
    }

    fn next_timeout(&self) -> Option<Instant> {
        self.next_timeout
    }

    fn is_holding(&self) -> bool {
        self.downlink.packets() > 0 || self.recover.has_line()
    }

    fn flush(&mut self, now: Instant, out: &mut Actions) {
        while let Some(leaving) = self.downlink.pop_any(&mut self.shared) {
            self.release_one(now, &leaving, out);
        }
        let (shared, windows, round_trips) = (&mut self.shared, &mut self.windows, &self.round_trips);
        shared.space.call_plenty();
        windows.kept.expire(Instant::FAR_FUTURE, shared, out);
        // A flow opens before its ACKs leave the shaper, so that they pass with the windows they came with.
        windows.flush(now, shared, round_trips, out);
        self.recover.flush(now, shared, windows, round_trips, out);
        self.uplink.flush(now, shared, windows, round_trips, out);
        self.next_timeout = self.find_next_timeout(now);
    }

    fn metrics(&self) -> Metrics {
        Metrics {
            held_packets: u64::from(self.downlink.packets())
                + self.uplink.packets()
                + self.recover.hidden()
                + self.windows.kept.count(&self.shared) as u64,
            held_bytes: self.shared.space.held(),
            held_bytes_peak: self.shared.space.peak(),
            held_bytes_limit: self.shared.space.allotted(),
            flows: self.shared.flows.len() as u64,
            silences: self.shared.monitor.silences(),
            untracked_events: self.shared.monitor.untracked_events(),
            measured_rate: self.round_trips.measured_rate(),
            ..self.shared.metrics
        }
    }
}
