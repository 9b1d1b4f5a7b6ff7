//! Cost of one frame through the air: enqueue, transmission, delivery, with a standing backlog.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use linkhold_core::packet::{Direction, PacketId, StationId};
use linkhold_core::time::{Duration, Instant};
use linkhold_core::units::{BitRate, Fraction};
use linkhold_radio::{
    Air, AirConfig, AirEvent, AirOutput, AirTimeModel, ChannelConfig, FqCodelConfig, Frame, InSilence, Mac,
    PrimaryUserConfig, QueueConfig, QueueKind, RadioId, SensingConfig, SignalsConfig, Switching, cell,
};

const STATIONS: u32 = 6;
const FRAMES: u64 = 100_000;

fn config(mac: Mac, router: QueueKind) -> AirConfig {
    let primary_user = PrimaryUserConfig {
        on_mean: Duration::from_millis(200),
        off_mean: Duration::from_millis(800),
        fixed: false,
        detection_delay: Duration::ZERO,
        end_detection_delay: Duration::ZERO,
    };
    AirConfig {
        stations: STATIONS,
        mac,
        air_time: AirTimeModel::PerByte,
        measured_users: Vec::new(),
        channels: vec![ChannelConfig {
            phy_rate: BitRate::from_mbps(24),
            efficiency: Fraction::clamped(0.65),
            primary_user: Some(primary_user),
        }],
        initial_channel: 0,
        rate_told: true,
        switching: Switching::default(),
        signals: SignalsConfig::default(),
        sensing: Some(SensingConfig {
            period: Duration::from_millis(500),
            duration: Duration::from_millis(25),
            phase: Duration::ZERO,
            announced: true,
        }),
        station_sensing: Vec::new(),
        power: None,
        snr: None,
        retry_limit: 7,
        router: QueueConfig { kind: router, in_silence: InSilence::Queue },
        station_queue: QueueConfig::fifo(1000),
    }
}

fn frame(id: u64) -> Frame {
    let (from, to) = cell::ends(Direction::Downlink, StationId((id % u64::from(STATIONS)) as u32));
    Frame {
        packet: PacketId(id),
        from,
        to,
        len: 1500,
        headers: 40,
        flow_hash: (id % 24) as u32,
        ecn_capable: false,
    }
}

/// Keeps 50 frames downlink until `FRAMES` are delivered; one in three is answered by a small uplink frame.
fn saturate(config: &AirConfig) -> u64 {
    let mut air = Air::new(config.clone(), 1).expect("the configuration is complete");
    let mut out = AirOutput::new();
    let mut events: Vec<AirEvent> = Vec::new();
    let (mut id, mut left) = (0, FRAMES);
    for _ in 0..50 {
        air.enqueue(Instant::ZERO, frame(id), &mut out);
        id += 1;
    }
    while let Some(due) = air.next_event() {
        air.on_event(due, &mut out);
        events.extend(out.drain());
        for event in events.drain(..) {
            match event {
                AirEvent::Delivered { frame: done, .. } => {
                    left -= 1;
                    if left == 0 {
                        return black_box(id);
                    }
                    if done.from == RadioId::BASE_STATION {
                        air.enqueue(due, frame(id), &mut out);
                        id += 1;
                        if id % 3 == 0 {
                            air.enqueue(
                                due,
                                Frame { from: done.to, to: done.from, len: 52, ..done },
                                &mut out,
                            );
                        }
                    }
                }
                AirEvent::Dropped { frame: lost, .. } => {
                    if lost.from == RadioId::BASE_STATION {
                        air.enqueue(due, frame(id), &mut out);
                        id += 1;
                    }
                }
                AirEvent::Overheard { event, .. } | AirEvent::Link(event) => {
                    black_box(event);
                }
                AirEvent::Transmitted(_) => {}
            }
        }
    }
    id
}

fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("air_frame");
    group.throughput(Throughput::Elements(FRAMES)).sample_size(10);
    for (mac_name, mac) in [("shared", Mac::Shared), ("duplex", Mac::Duplex)] {
        for (queue_name, queue) in [
            ("fifo", QueueKind::Fifo { limit: 100 }),
            ("fq_codel", QueueKind::FqCodel(FqCodelConfig::default())),
        ] {
            let config = config(mac.clone(), queue);
            group.bench_function(BenchmarkId::new(mac_name, queue_name), |bencher| {
                bencher.iter(|| saturate(&config));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, frames);
criterion_main!(benches);
