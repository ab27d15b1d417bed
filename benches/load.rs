//! Initial load of a cluster from a JSON dump: bytes a second, from the file to the published generation.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use berth_benches::{N_NODES, Workload, existing, node};
use berth_engine::Cluster;
use berth_server::feed::file::{UnknownFields, load_files};
use berth_testing::recorded;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn load(criterion: &mut Criterion) {
    let Ok(folder) = tempfile::tempdir() else { return eprintln!("skipped: no folder for dumps") };
    let mut group = criterion.benchmark_group("load");
    group.sample_size(10);
    let mut dumps = vec![("baseline-50k-pods", folder.path().join("baseline.json"))];
    if std::fs::write(&dumps[0].1, baseline()).is_err() {
        return eprintln!("skipped: cannot write a dump");
    }
    if let Some(path) = decompressed(folder.path()) {
        dumps.push(("kubectl-30k-pods", path));
    }
    for (name, path) in dumps {
        let n_bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        group.throughput(Throughput::Bytes(n_bytes));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let cluster = Cluster::new();
                let report =
                    load_files(&cluster, std::slice::from_ref(&path), UnknownFields::Refuse);
                assert!(report.is_ok_and(|report| report.refused.is_empty()));
                black_box(cluster)
            });
        });
    }
    group.finish();
}

/// The baseline's objects in the form of `kubectl get -o json`.
fn baseline() -> String {
    let typed = |kind: &str, value: serde_json::Result<serde_json::Value>| {
        let mut value = value.unwrap_or_default();
        value["apiVersion"] = "v1".into();
        value["kind"] = kind.into();
        value
    };
    let nodes = (0..N_NODES).map(|i| typed("Node", serde_json::to_value(node(i, Workload::Basic))));
    let pods = (0..10 * N_NODES)
        .map(|j| typed("Pod", serde_json::to_value(existing(j, N_NODES, Workload::Basic))));
    let items: Vec<_> = nodes.chain(pods).collect();
    let list = serde_json::json!({ "apiVersion": "v1", "kind": "List", "items": items });
    serde_json::to_string_pretty(&list).unwrap_or_default()
}

/// Returns the recorded dump of 5,000 nodes, decompressed; `None` if it is absent.
fn decompressed(folder: &Path) -> Option<PathBuf> {
    let text = recorded::read("data/cluster-dump/large.json.gz")?;
    let path = folder.join("large.json");
    std::fs::write(&path, text).ok()?;
    Some(path)
}

criterion_group!(benches, load);
criterion_main!(benches);
