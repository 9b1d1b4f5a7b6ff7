//! What the tests of the air share: plain configurations, and a driver that notes everything with its time.
#![allow(dead_code)]

use linkhold_core::link_event::{LinkEvent, Scope};
use linkhold_core::packet::{Direction, PacketId, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Bytes, Fraction};
use linkhold_radio::{
    Air, AirConfig, AirDrop, AirEvent, AirOutput, AirTimeModel, ChannelConfig, Frame, Mac, QueueConfig,
    RadioId, SensingConfig, SignalsConfig, Switching, Transmission, cell,
};

pub fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub fn at(count: u64) -> Instant {
    Instant::from_millis(count)
}

/// 24 Mbit/s at efficiency 0.5: a 1500-byte frame takes 1 ms.
pub fn channel() -> ChannelConfig {
    ChannelConfig { phy_rate: BitRate::from_mbps(24), efficiency: Fraction::clamped(0.5), primary_user: None }
}

pub fn config(mac: Mac, stations: u32) -> AirConfig {
    AirConfig {
        stations,
        mac,
        air_time: AirTimeModel::PerByte,
        measured_users: Vec::new(),
        channels: vec![channel()],
        initial_channel: 0,
        rate_told: true,
        switching: Switching::default(),
        signals: SignalsConfig::default(),
        sensing: None,
        station_sensing: Vec::new(),
        power: None,
        snr: None,
        retry_limit: 7,
        router: QueueConfig::fifo(1000),
        station_queue: QueueConfig::fifo(1000),
    }
}

pub fn sensing(period: u64, duration: u64, phase: u64) -> SensingConfig {
    SensingConfig { period: ms(period), duration: ms(duration), phase: ms(phase), announced: true }
}

pub fn down(id: u64, station: u32) -> Frame {
    frame(id, Direction::Downlink, station)
}

pub fn up(id: u64, station: u32) -> Frame {
    frame(id, Direction::Uplink, station)
}

fn frame(id: u64, direction: Direction, station: u32) -> Frame {
    let (from, to) = cell::ends(direction, StationId(station));
    Frame { packet: PacketId(id), from, to, len: 1500, headers: 40, flow_hash: station, ecn_capable: false }
}

/// Drives an [`Air`] by its contract.
pub struct Driver {
    pub air: Air,
    out: AirOutput,
    pub delivered: Vec<(Instant, Frame)>,
    pub dropped: Vec<(Instant, Frame, AirDrop)>,
    pub links: Vec<LinkEvent>,
    pub overheard: Vec<(RadioId, LinkEvent)>,
    pub transmitted: Vec<(Instant, Transmission)>,
}

impl Driver {
    pub fn new(config: AirConfig, seed: u64) -> Self {
        Self {
            air: Air::new(config, seed).expect("the test names what exists"),
            out: AirOutput::new(),
            delivered: Vec::new(),
            dropped: Vec::new(),
            links: Vec::new(),
            overheard: Vec::new(),
            transmitted: Vec::new(),
        }
    }

    /// Handles every event due by `until`.
    pub fn run(&mut self, until: Instant) {
        while let Some(due) = self.air.next_event().filter(|due| *due <= until) {
            self.air.on_event(due, &mut self.out);
            self.note(due);
        }
    }

    pub fn put(&mut self, now: Instant, frame: Frame) {
        self.run(now);
        self.air.enqueue(now, frame, &mut self.out);
        self.note(now);
    }

    /// A station asks for an uplink turn.
    pub fn ask(&mut self, now: Instant, station: u32, bytes: u64) {
        self.run(now);
        self.air.request_uplink(now, StationId(station), Bytes(bytes));
    }

    pub fn reclaim(&mut self, scope: Scope) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.air.reclaim(scope, &mut frames);
        frames
    }

    fn note(&mut self, now: Instant) {
        for event in self.out.drain() {
            match event {
                AirEvent::Delivered { frame, .. } => self.delivered.push((now, frame)),
                AirEvent::Dropped { frame, reason } => self.dropped.push((now, frame, reason)),
                AirEvent::Link(event) => {
                    assert_eq!(event.detected_at, now, "an event is told when it is detected");
                    self.links.push(event);
                }
                AirEvent::Overheard { by, event } => {
                    assert_eq!(event.detected_at, now, "an event is told when it is detected");
                    self.overheard.push((by, event));
                }
                AirEvent::Transmitted(transmission) => self.transmitted.push((now, transmission)),
            }
        }
    }

    /// Deliveries as (ms, packet).
    pub fn deliveries(&self) -> Vec<(f64, u64)> {
        self.delivered.iter().map(|(at, frame)| (at.as_secs_f64() * 1e3, frame.packet.0)).collect()
    }
}
