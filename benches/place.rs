//! Placement of one pod at 5,000 nodes with 50,000 and 150,000 pods, on one thread, for every workload of
//! kube-scheduler's baseline: successive replicas, a known shape after one row changed, and a new shape.

mod floor;

use std::hint::black_box;

use berth_benches::trial::Trial;
use berth_benches::{N_NODES, Workload};
use criterion::{Criterion, criterion_group, criterion_main};
use floor::Floor;

const PODS_PER_NODE: [usize; 2] = [10, 30];

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn place(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("place/5000-nodes");
    let columns = Floor::new(N_NODES);
    group.bench_function("floor", |bencher| bencher.iter(|| black_box(&columns).stream()));
    for workload in Workload::ALL {
        for pods_per_node in PODS_PER_NODE {
            let name = format!("{}/{}k-pods", workload.name(), N_NODES * pods_per_node / 1000);
            // Built lazily: a filter may exclude all of its benches.
            let mut built: Option<Trial> = None;
            let build = || Trial::new(workload, N_NODES, pods_per_node);
            group.bench_function(format!("{name}/in-turn"), |bencher| {
                let trial = built.get_or_insert_with(build);
                bencher.iter_custom(|n| trial.time_sequence(n));
            });
            group.bench_function(format!("{name}/known-shape-one-row-changed"), |bencher| {
                let trial = built.get_or_insert_with(build);
                bencher.iter_custom(|n| trial.known_shape(n));
            });
            group.bench_function(format!("{name}/new-shape"), |bencher| {
                let trial = built.get_or_insert_with(build);
                bencher.iter_custom(|n| trial.new_shapes(n));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, place);
criterion_main!(benches);
