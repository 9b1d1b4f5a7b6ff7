//! Drives a mesh as a link, and notes what comes of every frame.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use linkhold_core::link_event::LinkEventKind;
use linkhold_core::packet::{PacketId, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::BitRate;
use linkhold_mesh::config::{Channels, Movement, Routing, SpectrumConfig, Users, WorkingChannel};
use linkhold_mesh::mobility::Area;
use linkhold_mesh::places::Reach;
use linkhold_mesh::routing::Message;
use linkhold_mesh::{Mesh, MeshConfig, Point};
use linkhold_radio::dcf::{DcfConfig, Phy};
use linkhold_radio::spectrum::{
    Bands, ChannelLog, CycleConfig, DetectionOdds, Policy, Propagation, PuLog, SensingModel,
};
use proptest::prelude::{TestCaseError, prop_assert_eq};

use linkhold_radio::{AirDrop, AirEvent, AirOutput, DcfKind, Frame, MacFrame, RadioId, Transmission};

pub const LEN: u32 = 1040;

pub fn config(places: &[(f64, f64)], routing: Routing) -> MeshConfig {
    MeshConfig {
        nodes: places.len() as u32,
        area: Area::new(2000.0, 2000.0).expect("an area"),
        movement: Movement::Standing(places.iter().map(|&(x, y)| Point { x, y }).collect()),
        reach: Reach {
            power: 0.1,
            propagation: Propagation::default(),
            transmission: 250.0,
            carrier_sense: 550.0,
        },
        dcf: DcfConfig::new(Phy::Ieee80211b),
        queue: 50,
        routing,
        local_repair: false,
        routes_told: false,
        channels: Channels::Own(BitRate::from_mbps(2)),
    }
}

/// Nodes that walk on a square kilometre.
pub fn walking(nodes: u32, routing: Routing, channels: Channels) -> MeshConfig {
    MeshConfig {
        nodes,
        area: Area::new(1000.0, 1000.0).expect("an area"),
        movement: Movement::Walk { least: 5.0, most: 30.0, pause: Duration::from_millis(500) },
        channels,
        ..config(&[(0.0, 0.0), (0.0, 0.0)], routing)
    }
}

pub fn line(nodes: u32) -> Vec<(f64, f64)> {
    (0..nodes).map(|node| (100.0 + 200.0 * f64::from(node), 100.0)).collect()
}

/// Bands of one channel each, and users as a log says.
pub fn spectrum(bands: u16, log: &str) -> Channels {
    let bands = Bands::new(bands, 1).expect("bands");
    Channels::Shared(Box::new(SpectrumConfig {
        log: Arc::new(ChannelLog::heterogeneous(bands, BitRate::from_mbps(1), 0.0, 0.0).expect("channels")),
        cycle: CycleConfig {
            sensing: Duration::from_millis(100),
            transmitting: Duration::from_millis(400),
            switching_delay: Duration::from_millis(10),
        },
        sensing: SensingModel::Fixed(DetectionOdds::PERFECT),
        policy: Policy::RoundRobin,
        users: Users::Log(Arc::new(PuLog::parse(log.as_bytes(), None).expect("a log"))),
        working: WorkingChannel::Common,
    }))
}

/// A mesh with what came of every frame.
pub struct Driver {
    pub mesh: Mesh,
    pub now: Instant,
    pub sent: u64,
    /// By frame: times it was delivered, times it was dropped.
    pub fate: BTreeMap<u64, (u32, u32)>,
    pub drops: Vec<AirDrop>,
    /// When each frame arrived.
    pub arrivals: Vec<(Instant, u64)>,
    pub told: Vec<(Instant, LinkEventKind)>,
    /// Transmissions, each with its message.
    pub transmitted: Vec<(Transmission, Option<Message>)>,
}

impl Driver {
    pub fn new(config: &MeshConfig, seed: u64) -> Self {
        let mesh = Mesh::new(config, seed).expect("a mesh");
        Self {
            mesh,
            now: Instant::ZERO,
            sent: 0,
            fate: BTreeMap::new(),
            drops: Vec::new(),
            arrivals: Vec::new(),
            told: Vec::new(),
            transmitted: Vec::new(),
        }
    }

    fn take(&mut self, out: &mut AirOutput) {
        for event in out.drain() {
            match event {
                AirEvent::Delivered { frame, .. } => {
                    self.fate.entry(frame.packet.0).or_default().0 += 1;
                    self.arrivals.push((self.now, frame.packet.0));
                }
                AirEvent::Dropped { frame, reason } => {
                    self.fate.entry(frame.packet.0).or_default().1 += 1;
                    self.drops.push(reason);
                }
                AirEvent::Link(event) => self.told.push((self.now, event.kind)),
                AirEvent::Transmitted(one) => {
                    let MacFrame::Dcf(dcf) = one.mac else { panic!("{one:?}") };
                    let is_message = dcf.kind == DcfKind::Data && one.packet.is_none();
                    let message = is_message.then(|| self.mesh.take_told().expect("it has one"));
                    self.transmitted.push((one, message));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    pub fn run(&mut self, until: Instant) {
        let mut out = AirOutput::new();
        while let Some(at) = self.mesh.next_event().filter(|&at| at <= until) {
            assert!(at >= self.now, "time runs backwards");
            self.now = at;
            self.mesh.on_event(at, &mut out);
            self.take(&mut out);
        }
        self.now = until;
    }

    pub fn send(&mut self, from: u32, to: u32) {
        let mut out = AirOutput::new();
        let frame = Frame {
            packet: PacketId(self.sent),
            from: RadioId::from(StationId(from)),
            to: RadioId::from(StationId(to)),
            len: LEN,
            headers: 40,
            flow_hash: 0,
            ecn_capable: false,
        };
        self.sent += 1;
        self.mesh.enqueue(self.now, frame, &mut out);
        self.take(&mut out);
    }

    /// Sends from one node to another, each so many milliseconds after the one before, and waits until
    /// nothing can be left.
    pub fn scatter(&mut self, nodes: u32, sends: &[(u32, u32, u64)]) {
        let mut at = self.now;
        for &(from, to, gap) in sends {
            at += Duration::from_millis(gap);
            self.run(at);
            let (from, to) = (from % nodes, to % nodes);
            if from != to {
                self.send(from, to);
            }
        }
        self.run(at + Duration::from_secs(120));
    }

    /// Each packet was delivered once or dropped once, and none is left.
    pub fn each_has_one_fate(&self) -> Result<(), TestCaseError> {
        for (packet, (delivered, dropped)) in &self.fate {
            prop_assert_eq!(
                delivered + dropped,
                1,
                "packet {} was delivered {} times, dropped {}",
                packet,
                delivered,
                dropped
            );
        }
        prop_assert_eq!(self.fate.len() as u64, self.sent);
        prop_assert_eq!(self.mesh.backlog().0, 0);
        Ok(())
    }

    pub fn delivered(&self) -> usize {
        self.fate.values().filter(|fate| fate.0 == 1).count()
    }
}

pub fn seconds(count: u64) -> Instant {
    Instant::from_millis(1000 * count)
}
