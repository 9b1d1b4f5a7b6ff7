//! What is measured of the cell as a whole: the router's series, silences, and what the air could have
//! carried.

use linkhold_core::link_event::Scope;
use linkhold_core::time::{Duration, Instant};
use linkhold_mesh::{Counters, Mesh};
use linkhold_radio::{AirAccounting, PowerConfig, Silence, StationTime, ToldAccounting, UplinkAccounting};
use linkhold_results::{
    EnergyRecord, FlowRecord, LinkRecord, MeshRecord, RouterSeries, SilenceRecord, ToldRecord, UplinkRecord,
};

use crate::cell::AIR;
use crate::limit::GoodputLimit;
use crate::network::Network;
use crate::series::{Series, Thinning};

/// Most silences kept for the charts; later ones are only counted.
const MAX_SILENCES: usize = 20_000;

/// Measures the cell.
#[derive(Debug)]
pub struct Recorder {
    interval: Duration,
    limit: GoodputLimit,
    /// What the air had carried when counting began, and at the last sample.
    base: AirAccounting,
    last: AirAccounting,
    base_losses: crate::network::Losses,
    base_uplink: UplinkAccounting,
    base_mesh: Counters,
    /// By station, what its radio had been busy with when counting began; empty before.
    base_busy: Vec<StationTime>,
    last_delivered: u64,
    samples: u64,
    goodput: Series,
    limit_bps: Series,
    held_bytes: Series,
    queue_bytes: Series,
    silences: Vec<SilenceRecord>,
    network_silences: u64,
    counted_from: Instant,
}

impl Recorder {
    /// Measures with one point every `interval`.
    #[must_use]
    pub fn new(interval: Duration, limit: GoodputLimit, network: &Network) -> Self {
        let at_zero = network.radio(AIR).air().accounting(Instant::ZERO);
        Self {
            interval,
            limit,
            base: at_zero.clone(),
            last: at_zero,
            base_losses: network.losses(),
            base_uplink: UplinkAccounting::default(),
            base_mesh: Counters::default(),
            base_busy: Vec::new(),
            last_delivered: 0,
            samples: 0,
            goodput: Series::new(interval, Thinning::Mean),
            limit_bps: Series::new(interval, Thinning::Mean),
            held_bytes: Series::new(interval, Thinning::Last),
            queue_bytes: Series::new(interval, Thinning::Last),
            silences: Vec::new(),
            network_silences: 0,
            counted_from: Instant::ZERO,
        }
    }

    /// Time between two samples.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Samples taken so far.
    #[must_use]
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// Counting begins.
    pub fn warm_up_over(&mut self, now: Instant, network: &Network) {
        self.base_busy = network.radio(AIR).air().station_times().to_vec();
        self.base = network.radio(AIR).air().accounting(now);
        self.base_losses = network.losses();
        self.base_uplink = network.radio(AIR).air().uplink().unwrap_or_default();
        self.base_mesh = network.radio(AIR).air().mesh().map(Mesh::counters).unwrap_or_default();
        self.counted_from = now;
        // Those recorded by now ended in the warm-up.
        self.network_silences = 0;
    }

    /// An interval is over, all flows together having delivered `delivered` bytes since the start.
    pub fn sample(&mut self, now: Instant, delivered: u64, network: &Network) {
        self.samples += 1;
        let bytes = delivered.saturating_sub(self.last_delivered);
        self.last_delivered = delivered;
        self.goodput.push(bytes as f64 * 8.0 / self.interval.as_secs_f64());
        let air = network.radio(AIR).air().accounting(now);
        self.limit_bps.push(self.limit.bps(&air.since(&self.last)));
        self.last = air;
        self.held_bytes
            .push(network.taps().iter().map(|tap| tap.mechanism().metrics().held_bytes).sum::<u64>() as f64);
        let (_, backlog) = network.radio(AIR).air().downlink_backlog();
        self.queue_bytes.push(backlog.0 as f64);
    }

    /// A silence is over.
    pub fn silence(&mut self, silence: Silence) {
        if silence.scope == Scope::Network && silence.end > self.counted_from {
            self.network_silences += 1;
        }
        if self.silences.len() < MAX_SILENCES {
            self.silences.push(SilenceRecord {
                start_s: silence.start.as_secs_f64(),
                end_s: silence.end.as_secs_f64(),
                cause: silence.cause,
                scope: silence.scope,
            });
        }
    }

    /// The router's series.
    #[must_use]
    pub fn router(&self) -> RouterSeries {
        RouterSeries {
            t_s: self.goodput.times_s(),
            goodput_bps: self.goodput.points().to_vec(),
            limit_bps: self.limit_bps.points().to_vec(),
            held_bytes: self.held_bytes.points().to_vec(),
            queue_bytes: self.queue_bytes.points().to_vec(),
        }
    }

    /// The link's results from the end of the warm-up to `now`.
    #[must_use]
    pub fn link(&self, now: Instant, stations: u32, network: &Network) -> LinkRecord {
        let air = network.radio(AIR).air().accounting(now).since(&self.base);
        let losses = network.losses().since(&self.base_losses);
        LinkRecord {
            silent_fraction: air.silent_fraction(),
            capacity_mean_bps: self.limit.capacity_mean_bps(&air),
            goodput_limit_bps: self.limit.bps(&air),
            silences: self.network_silences,
            station_silent_fraction: (0..stations).map(|s| air.station_silent_fraction(s)).collect(),
            queue_drops: losses.dropped(),
            queue_marks: losses.marked,
            air_losses: losses.air,
            told: network.radio(AIR).air().told().map(|told| told_record(&told)),
            energy: None,
            uplink: network.radio(AIR).air().uplink().map(|now| uplink_record(&now.since(&self.base_uplink))),
            mesh: network
                .radio(AIR)
                .air()
                .mesh()
                .map(|mesh| mesh_record(&mesh.counters().since(&self.base_mesh))),
        }
    }

    /// What the stations' radios of these powers took from the end of the warm-up on, for the bytes that
    /// `flows` delivered.
    #[must_use]
    pub fn energy(&self, powers: &PowerConfig, flows: &[FlowRecord], network: &Network) -> EnergyRecord {
        let counted_from = self.counted_from.as_secs_f64();
        let from = flows.iter().map(|flow| flow.start_s.max(counted_from)).fold(f64::INFINITY, f64::min);
        let end = |flow: &FlowRecord| flow.start_s.max(counted_from) + flow.active_s;
        let to = flows.iter().map(end).fold(0.0, f64::max);
        let on = Duration::from_secs_f64((to - from).max(0.0));
        let mut energy = EnergyRecord { on_s: on.as_secs_f64(), ..EnergyRecord::default() };
        let mut joules = 0.0;
        for (station, busy) in network.radio(AIR).air().station_times().iter().enumerate() {
            let busy = busy.since(self.base_busy.get(station).copied().unwrap_or_default());
            joules += powers.energy(on, busy);
            energy.transmit_s.push(busy.transmit.as_secs_f64());
            energy.receive_s.push(busy.receive.as_secs_f64());
        }
        energy.j_per_byte = joules / flows.iter().map(|flow| flow.bytes).sum::<u64>() as f64;
        energy
    }

    /// The silences, by start.
    #[must_use]
    pub fn into_silences(mut self) -> Vec<SilenceRecord> {
        // Stable, so that equal starts keep the order of their ends.
        self.silences.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
        self.silences
    }
}

fn mesh_record(counters: &Counters) -> MeshRecord {
    MeshRecord {
        forwarded: counters.forwarded,
        route_messages: counters.route_messages,
        route_messages_dropped: counters.messages_dropped,
        frames_given_up: counters.given_up,
        handoffs: counters.handoffs,
        transmissions: counters.transmissions,
        noticed: counters.noticed,
    }
}

/// What was told of silences under the names that results have for it.
#[must_use]
pub fn told_record(told: &ToldAccounting) -> ToldRecord {
    ToldRecord {
        silences: told.silences,
        told: told.told,
        missed: told.missed,
        false_silences: told.false_silences,
        start_late_mean_s: told.mean_start_late().map(Duration::as_secs_f64),
        end_late_mean_s: told.mean_end_late().map(Duration::as_secs_f64),
    }
}

/// The counters of the uplink under the names that results have for them.
#[must_use]
pub fn uplink_record(uplink: &UplinkAccounting) -> UplinkRecord {
    UplinkRecord {
        requests: uplink.requests,
        collisions: uplink.collisions,
        tries_lost: uplink.tries_lost,
        t3_expiries: uplink.t3_expiries,
        given_up: uplink.given_up,
        piggybacked: uplink.piggybacked,
        grants: uplink.grants,
        granted_bytes: uplink.granted_bytes,
        unused_grants: uplink.unused_grants,
        unused_bytes: uplink.unused_bytes,
        accesses: uplink.accesses,
        access_delay_mean_s: uplink.access_delay_mean().map(Duration::as_secs_f64),
    }
}
