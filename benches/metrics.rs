//! Cost of metrics: one finished call, and one decision with its engine time, as in every `Place`.

use std::hint::black_box;
use std::time::Duration;

use berth_engine::EngineError;
use berth_server::telemetry::{Metrics, PlaceMethod};
use criterion::{Criterion, criterion_group, criterion_main};

const PLACE: &str = "/berth.v1.PlacementService/Place";
/// Durations fall into different cells, as they do under load.
const DURATIONS: [Duration; 4] = [
    Duration::from_micros(3),
    Duration::from_micros(40),
    Duration::from_micros(700),
    Duration::from_millis(9),
];

fn metrics(criterion: &mut Criterion) {
    let metrics = Metrics::new();
    let methods =
        metrics.calls().methods(berth_proto::access::METHODS.iter().map(|method| method.path));
    let mut group = criterion.benchmark_group("metrics");
    group.bench_function("finish-a-call", |bencher| {
        let mut durations = DURATIONS.into_iter().cycle();
        bencher.iter(|| methods.finish(black_box(PLACE), 0, durations.next().unwrap_or_default()));
    });
    group.bench_function("count-a-decision", |bencher| {
        let mut durations = DURATIONS.into_iter().cycle();
        bencher.iter(|| {
            metrics.count_decision(black_box(Err(&EngineError::Cancelled)), false);
            metrics.record_place_duration(PlaceMethod::Place, durations.next().unwrap_or_default());
        });
    });
    group.finish();
}

criterion_group!(benches, metrics);
criterion_main!(benches);
