//! Dialogues with [`DsaSync`]: each line is an input, and what it must answer. Comments name the algorithm's
//! line.

use core::net::IpAddr;

use super::*;
use crate::action::{AckSpec, DropReason};
use crate::link_event::Cause;
use crate::link_monitor::LinkMonitorConfig;
use crate::packet::{Endpoint, FlowKey, PacketId, StationId, SynOptions, TcpSegment, TcpTimestamp};
use crate::units::{BitRate, Bytes, Fraction, Seq};

mod datagrams;
mod hold;
mod recover;
mod round_trips;
mod shares;
mod windows;

const MSS: u32 = 1000;
const SHIFT: u8 = 2;

fn ms(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

struct Bench {
    agent: DsaSync,
    out: Actions,
    now: Instant,
    /// Whose the next packets are, instead of the station that their flow's number tells.
    station: Option<StationId>,
}

fn key(n: u16, v6: bool) -> FlowKey {
    let addr = |last: u8| {
        if v6 {
            IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)])
        } else {
            IpAddr::from([10, 0, 0, last])
        }
    };
    FlowKey {
        correspondent: Endpoint { addr: addr(1), port: 80 },
        station: Endpoint { addr: addr(2), port: n },
    }
}

/// Settings under which nothing but the tested thing happens.
fn plain(mode: Mode) -> DsaSyncConfig {
    DsaSyncConfig {
        mode,
        close_at: CloseAt::UsedUp,
        capacity: CapacityResponse::Off,
        clamp: Clamp::Off,
        transmit_queue: Duration::ZERO,
        uplink: uplink::UplinkConfig { mode: UplinkMode::Off, ..Default::default() },
        reclaim: false,
        recover: false,
        ..DsaSyncConfig::default()
    }
}

impl Bench {
    fn new(config: &DsaSyncConfig) -> Self {
        Self { agent: DsaSync::new(config).unwrap(), out: Actions::new(), now: Instant::ZERO, station: None }
    }

    fn at(&mut self, millis: u64) -> &mut Self {
        self.now = ms(millis);
        self
    }

    fn packet(
        &mut self,
        direction: Direction,
        origin: Origin,
        id: u64,
        flow: u16,
        tcp: &TcpSegment,
    ) -> (Verdict, Vec<Action>) {
        let key = key(flow, flow >= 1000);
        let view = PacketView {
            id: PacketId(id),
            direction,
            origin,
            station: self.station.unwrap_or(StationId(u32::from(flow) / 100 % 10)),
            flow: &key,
            tcp,
            len: tcp.payload_len + 40,
            ecn: crate::packet::Ecn::NotEct,
        };
        let verdict = self.agent.on_packet(self.now, &view, &mut self.out);
        (verdict, self.out.drain().collect())
    }

    fn down(&mut self, id: u64, flow: u16, seq: u32, len: u32) -> (Verdict, Vec<Action>) {
        let tcp = TcpSegment {
            seq: Seq(seq),
            payload_len: len,
            window: 60_000,
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        };
        self.packet(Direction::Downlink, Origin::Arrival, id, flow, &tcp)
    }

    fn back(&mut self, id: u64, flow: u16, seq: u32) -> (Verdict, Vec<Action>) {
        let tcp =
            TcpSegment { seq: Seq(seq), payload_len: MSS, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(Direction::Downlink, Origin::TransmitQueue, id, flow, &tcp)
    }

    fn ack(&mut self, id: u64, flow: u16, ack: u32, window: u16) -> (Verdict, Vec<Action>) {
        let tcp =
            TcpSegment { ack: Seq(ack), seq: Seq(1), window, flags: TcpFlags::ACK, ..TcpSegment::default() };
        self.packet(Direction::Uplink, Origin::Arrival, id, flow, &tcp)
    }

    /// Handshake from the correspondent (its SYN has number 0), then the first ACK of data up to 1000.
    fn open(&mut self, flow: u16, window: u16) {
        let syn = SynOptions { mss: Some(1460), window_scale: Some(SHIFT), sack_permitted: false };
        let ask = TcpSegment { flags: TcpFlags::SYN, syn, ..TcpSegment::default() };
        let answer = TcpSegment {
            flags: TcpFlags::SYN | TcpFlags::ACK,
            ack: Seq(1),
            // Not scaled: the first data fits.
            window: window.max(MSS as u16),
            syn,
            ..TcpSegment::default()
        };
        let _ = self.packet(Direction::Downlink, Origin::Arrival, 1, flow, &ask);
        let _ = self.packet(Direction::Uplink, Origin::Arrival, 2, flow, &answer);
        assert_eq!(self.down(3, flow, 0, MSS).0, Verdict::Forward(Rewrite::NONE));
        assert_eq!(self.ack(4, flow, 1000, window).0, Verdict::Forward(Rewrite::NONE));
    }

    fn link(&mut self, kind: LinkEventKind) -> Vec<Action> {
        self.agent.on_link(self.now, LinkEvent::at(self.now, kind), &mut self.out);
        self.out.drain().collect()
    }

    fn freeze(&mut self, scope: Scope) -> Vec<Action> {
        self.link(LinkEventKind::FreezeStarted { scope, cause: Cause::PrimaryUser, expected: None })
    }

    fn thaw(&mut self, scope: Scope) -> Vec<Action> {
        self.link(LinkEventKind::FreezeEnded { scope, cause: Cause::PrimaryUser })
    }

    fn room(&mut self, packets: u32) -> Vec<Action> {
        self.link(LinkEventKind::TransmitRoom { packets, bytes: Bytes(1_000_000) })
    }

    fn timeout(&mut self) -> Vec<Action> {
        self.agent.on_timeout(self.now, &mut self.out);
        self.out.drain().collect()
    }
}

fn released(actions: &[Action]) -> Vec<u64> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::Release { packet, .. } => Some(packet.0),
            _ => None,
        })
        .collect()
}

fn injected(actions: &[Action]) -> Vec<AckSpec> {
    actions
        .iter()
        .filter_map(|action| match action {
            Action::InjectAck(ack) => Some(*ack),
            _ => None,
        })
        .collect()
}

const FORWARD: Verdict = Verdict::Forward(Rewrite::NONE);

/// 1040 bytes at 8.32 Mb/s are 1 ms.
fn told(b: &mut Bench) {
    b.link(LinkEventKind::ChannelSwitched {
        capacity: BitRate(16_640_000),
        efficiency: Fraction::clamped(0.5),
    });
}

/// Room for five packets of 1040 bytes; windows close when the fourth is held and open when three or more fit
/// again.
fn tight(mode: Mode) -> DsaSyncConfig {
    DsaSyncConfig { b_alloc: Bytes(5200), b_high: Bytes(3000), b_low: Bytes(2000), ..plain(mode) }
}

/// The driver gives a station's number back while the station is silent: windows closed for it reopen.
#[test]
fn a_station_that_leaves_in_its_silence_keeps_no_window_closed() {
    let mut b = Bench::new(&DsaSyncConfig { close_at: CloseAt::SilenceStart, ..plain(Mode::Freeze) });
    b.open(0, 500);
    b.at(1).freeze(Scope::Station(StationId(0)));
    assert_eq!(b.agent.metrics().windows_closed_now, 1);
    b.at(2).link(LinkEventKind::StationLeft { station: StationId(0) });
    assert_eq!(b.agent.metrics().windows_closed_now, 0);
    // An event of a station beyond the tracked ones does nothing, and says so.
    b.freeze(Scope::Station(StationId(crate::link_monitor::MAX_STATIONS)));
    assert_eq!(b.agent.metrics().untracked_events, 1);
}
