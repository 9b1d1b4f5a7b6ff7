//! Samples a second through decoding, energy and decision; `linkhold sense` does nothing else for each.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use linkhold_sense::synthetic::Noise;
use linkhold_sense::{Blocks, FloorSource, Format, Sample, Sensor, Settings};

const RATE: f64 = 20e6;
const SAMPLES: usize = 400_000;

/// Senses all of `bytes`; returns how many blocks were.
fn sense(format: Format, bytes: &[u8], sensor: &mut Sensor) -> u64 {
    let mut blocks = Blocks::new(bytes, format, sensor.block());
    let mut count = 0;
    while let Some(block) = blocks.next_block().expect("memory can be read") {
        black_box(sensor.on_block(block).expect("samples are numbers"));
        count += 1;
    }
    count
}

fn bench(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("sense");
    group.throughput(Throughput::Elements(SAMPLES as u64)).sample_size(20);
    let mut samples = vec![Sample::default(); SAMPLES];
    Noise::new(1).fill(&mut samples, 0.01);
    for (name, format) in Format::ALL {
        let mut bytes = Vec::new();
        samples.iter().for_each(|&sample| format.encode(sample, &mut bytes));
        for (place, band) in [("everything", None), ("band", Some((-1e6, 3e6)))] {
            let settings = Settings { band, floor: FloorSource::Given(-10.0), ..Settings::at(RATE) };
            // Made once: the threshold and the least SNR take a millisecond.
            let mut sensor = Sensor::new(&settings).expect("settings are right");
            group.bench_function(BenchmarkId::new(name, place), |bencher| {
                bencher.iter(|| sense(format, &bytes, &mut sensor));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
