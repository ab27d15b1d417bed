//! Growth of a placement's time with the cluster: 1,000 to 50,000 nodes, on one thread and on two concurrent threads.

use berth_benches::Workload;
use berth_benches::trial::Trial;
use criterion::{Criterion, criterion_group, criterion_main};

/// Numbers of nodes and of existing pods on each: fewer pods on the largest cluster, so that all clusters fit into
/// memory.
const SIZES: [(usize, usize); 4] = [(1_000, 30), (5_000, 30), (20_000, 30), (50_000, 10)];

/// One workload for each kind of rule whose cost could grow differently.
const WORKLOADS: [Workload; 5] = [
    Workload::Basic,
    Workload::SpreadHardZone,
    Workload::SpreadSoft,
    Workload::AntiAffinityHost4000,
    Workload::PreferredAffinity,
];

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn growth(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("growth");
    group.sample_size(20);
    for workload in WORKLOADS {
        for (n_nodes, pods_per_node) in SIZES {
            let n_thousand_pods = n_nodes * pods_per_node / 1000;
            let name = format!("{}/{n_nodes}-nodes/{n_thousand_pods}k-pods", workload.name());
            // Built lazily: a filter may exclude all of its benches.
            let mut built: Option<Trial> = None;
            let build = || Trial::new(workload, n_nodes, pods_per_node);
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
            group.bench_function(format!("{name}/new-shape-two-threads"), |bencher| {
                let trial = built.get_or_insert_with(build);
                bencher.iter_custom(|n| trial.new_shapes_side_by_side(n, 2));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, growth);
criterion_main!(benches);
