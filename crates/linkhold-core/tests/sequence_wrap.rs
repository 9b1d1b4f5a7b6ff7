//! Connections whose sequence numbers go round: what DSASync remembers of a number must not come alive again
//! half the sequence space further on, where it seems to lie ahead.
//!
//! One direction at a time moves more than 2 GiB while the other one stands still, then the other way about,
//! and once more, so that in the end both have gone round. Each such leg begins and ends with losses, late
//! silences, and both ends sending again, which leave marks behind; in between there is nothing that would
//! set them anew. The driver in `support` checks each answer as the properties have it.

mod support;

use linkhold_core::dsasync::{DsaSync, DsaSyncConfig};
use linkhold_core::link_event::{Cause, Scope};
use linkhold_core::mechanism::Mechanism;
use linkhold_core::time::Duration;
use linkhold_core::units::{Bytes, Seq};
use support::driver::{Driver, World};
use support::flow::{FlowPlan, MSS};
use support::steps::Step;

/// Bytes of a leg: more than half of the sequence space.
const LEG: u64 = (1 << 31) + 100_000_000;
/// Bytes at both ends of a leg during which there are losses and silences.
const STORMY: u64 = 12_000_000;
/// Payload that goes at once, as one aggregate of many segments.
const AGGREGATE: u32 = 60_000;
/// The window that a station offers.
const OFFER: u32 = 1_000_000;
/// Rounds without progress after which the sender has a timeout, and after which a leg has failed.
const TIMEOUT: u32 = 80;
const STALL: u32 = 2_000;
/// Rounds that a leg may take: an aggregate in four of them.
const MOST_ROUNDS: u32 = 4 * (LEG / AGGREGATE as u64) as u32;
/// ACK fields that an end is remembered to have sent. The rest would be looked through again and again.
const REMEMBERED: usize = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Down,
    Up,
}

struct Dialogue<'m> {
    driver: Driver<'m, DsaSync>,
    rounds: u32,
}

impl Dialogue<'_> {
    fn step(&mut self, step: Step) {
        self.driver.step(&step);
    }

    /// How far the data has come: to the station, or past the base station.
    fn reached(&self, flow: usize, way: Way) -> Seq {
        let ends = &self.driver.flows[flow];
        match way {
            Way::Down => ends.rcv_nxt,
            Way::Up => ends.ch_rcv,
        }
    }

    /// The correspondent sends up to so many aggregates, as far as its window allows.
    fn send(&mut self, flow: usize, most: usize) {
        for _ in 0..most {
            let ends = &self.driver.flows[flow];
            let room = ends.told.window as i64 - i64::from(ends.snd_nxt.minus(ends.told.ack));
            // Before the first ACK has reached it, which may be shaped, it knows no window.
            if !(i64::from(MSS)..=i64::from(OFFER)).contains(&room) {
                return;
            }
            let payload = room.min(i64::from(AGGREGATE)) as u32;
            self.step(Step::Flood { flow, segments: 1, payload, gap: 0, new_ports: false });
        }
    }

    fn acknowledge(&mut self, flow: usize, payload: u32) {
        self.step(Step::Acknowledge { flow, grow: OFFER, payload, hole: false, copies: 1 });
    }

    /// Five milliseconds: what lies below arrives, and the station answers.
    fn round(&mut self, flow: usize, way: Way) {
        self.rounds += 1;
        self.step(Step::Advance(2_000));
        self.step(Step::Air(u32::MAX));
        let ends = &self.driver.flows[flow];
        let has_news = ends.offers.last().is_none_or(|(ack, _)| *ack != ends.rcv_nxt);
        if way == Way::Up {
            self.acknowledge(flow, AGGREGATE);
        } else if has_news {
            self.acknowledge(flow, 0);
        }
        self.step(Step::Advance(3_000));
        if way == Way::Up {
            self.step(Step::Answer { flow });
        }
        let ends = &mut self.driver.flows[flow];
        for fields in [&mut ends.offers, &mut ends.down_offers] {
            if fields.len() > 2 * REMEMBERED {
                let old = fields.len() - REMEMBERED;
                fields.drain(..old);
            }
        }
    }

    /// A silence takes so many frames of what lies below before it is told. Data for the station comes in it.
    fn silence(&mut self, flow: usize, way: Way, lost: u32) {
        let own = Scope::Station(self.driver.flows[flow].station());
        let scope = if self.rounds.is_multiple_of(2) { Scope::Network } else { own };
        let cause = Cause::PrimaryUser;
        let late = if lost > 0 { 10_000 } else { 0 };
        self.step(Step::Advance(late));
        self.step(Step::Lose(lost));
        self.step(Step::FreezeStart { scope, cause, expected: None, late });
        if way == Way::Down {
            self.send(flow, usize::MAX);
        }
        self.step(Step::Advance(30_000));
        self.step(Step::FreezeEnd { scope, cause, late: 0 });
    }

    /// Losses, a late silence, and what both ends do about them.
    fn storm(&mut self, flow: usize, way: Way) {
        let nth = self.rounds;
        self.silence(flow, way, nth % 4);
        match way {
            Way::Down => {
                self.step(Step::Advance(1_000));
                self.step(Step::Air(u32::MAX));
                self.step(Step::Acknowledge { flow, grow: OFFER, payload: 0, hole: true, copies: 3 });
                self.step(Step::Retransmit { flow, nth });
                self.step(Step::Probe { flow });
            }
            Way::Up => self.step(Step::Resend { flow, nth: nth as usize }),
        }
    }

    /// Moves [`LEG`] bytes one way. `silences`: some come in the middle of it as well, each told at once.
    fn leg(&mut self, flow: usize, way: Way, silences: bool) {
        // What the correspondent has heard of the window may be long ago.
        self.acknowledge(flow, 0);
        let (mut moved, mut stood, began) = (0u64, 0u32, self.rounds);
        while moved < LEG {
            let before = self.reached(flow, way);
            let is_stormy = (moved < STORMY || moved + STORMY > LEG) && self.rounds.is_multiple_of(3);
            let is_silent = silences && self.rounds.is_multiple_of(1_000);
            if way == Way::Down {
                self.send(flow, if is_stormy || is_silent { 4 } else { usize::MAX });
            }
            if is_stormy {
                self.storm(flow, way);
            } else if is_silent {
                self.silence(flow, way, 0);
            }
            self.round(flow, way);
            let came = self.reached(flow, way).minus(before);
            moved += u64::from(came.unsigned_abs());
            stood = if came > 0 { 0 } else { stood + 1 };
            if way == Way::Down && stood > 0 && stood.is_multiple_of(TIMEOUT) {
                self.driver.go_back(flow, AGGREGATE);
            }
            let so_far = || format!("flow {flow}, {way:?}, {moved} bytes on");
            assert!(came >= 0, "{}: data went back by {came}", so_far());
            assert!(stood < STALL, "{}: it stands still", so_far());
            assert!(self.rounds - began < MOST_ROUNDS, "{}: it is too slow", so_far());
            let outstanding = self.driver.mechanism.outstanding();
            assert!(outstanding <= Bytes(2 * u64::from(OFFER)), "{}: {outstanding} lie below", so_far());
        }
        self.settle(flow);
    }

    /// All that was sent arrives, and is acknowledged.
    fn settle(&mut self, flow: usize) {
        for round in 1..STALL {
            let ends = &self.driver.flows[flow];
            let all_down = ends.rcv_nxt == ends.snd_nxt && ends.told.ack == ends.snd_nxt;
            if all_down && ends.ch_rcv == ends.up_nxt {
                return;
            }
            self.round(flow, Way::Down);
            if round.is_multiple_of(TIMEOUT) {
                self.driver.go_back(flow, AGGREGATE);
            }
        }
        panic!("something of flow {flow} is lost: {:?}", self.driver.flows[flow]);
    }
}

/// A connection with timestamps and SACK, one without either, and one that is first seen in its middle, whose
/// window scale nobody knows.
fn plans() -> [FlowPlan; 3] {
    let plan = FlowPlan {
        station: 0,
        v6: false,
        shift: Some(7),
        timestamps: true,
        sack: true,
        ecn: false,
        signed: false,
        handshake: true,
        pushed: false,
        iss: 4_000_000_000,
        wire: Duration::from_millis(2),
        tick: Duration::from_millis(1),
    };
    [
        plan,
        FlowPlan { station: 1, timestamps: false, sack: false, iss: 7, ..plan },
        FlowPlan { station: 2, handshake: false, iss: 1 << 31, ..plan },
    ]
}

/// Both directions of each connection go round. `mbps`: the channel's rate, if somebody tells it.
fn goes_round(config: &DsaSyncConfig, mbps: Option<u64>) {
    let mut dsasync = DsaSync::new(config).expect("a valid configuration");
    let world = World {
        b_alloc: config.b_alloc.0,
        most_kept: if config.recover { config.copies.0 } else { 0 },
        max_silence: config.monitor.max_silence,
        queue: Some(64),
        lag: 0,
        no_queue: false,
        shares: None,
    };
    let plans = plans();
    let mut driver = Driver::new(&mut dsasync, world, &plans);
    driver.run(&[], |_| true);
    if let Some(mbps) = mbps {
        driver.step(&Step::Switch { mbps, efficiency: 1.0 });
    }
    let mut dialogue = Dialogue { driver, rounds: 0 };
    for turn in 0..4 {
        for flow in 0..plans.len() {
            let way = if (turn + flow) % 2 == 0 { Way::Down } else { Way::Up };
            dialogue.leg(flow, way, turn >= 2);
        }
    }
    let Dialogue { mut driver, .. } = dialogue;
    driver.quieten();
    assert_eq!(driver.held_packets(), 0, "packets stay held though the radio works");
    driver.assert_windows_open();
    let metrics = driver.mechanism.metrics();
    assert_eq!((driver.mechanism.outstanding(), metrics.kept_bytes), (Bytes(0), 0), "{metrics:?}");
    assert_eq!(metrics.flow_evictions, 0);
    // It met what leaves marks behind.
    assert!(metrics.silences > 100 && metrics.released > 100, "{metrics:?}");
    assert!(!config.recover || metrics.copies_sent > 20, "{metrics:?}");
    driver.flush();
}

#[test]
fn numbers_go_round_where_the_rate_is_measured() {
    goes_round(&DsaSyncConfig::default(), None);
}

#[test]
fn numbers_go_round_where_the_rate_is_told() {
    goes_round(&DsaSyncConfig::default(), Some(1_000));
}

#[test]
fn numbers_go_round_without_copies() {
    goes_round(&DsaSyncConfig { recover: false, ..DsaSyncConfig::default() }, None);
}

/// Windows that are used up are closed, and what stations send is shaped.
#[test]
fn numbers_go_round_as_the_paper_has_it() {
    goes_round(&DsaSyncConfig::paper(), Some(1_000));
}
