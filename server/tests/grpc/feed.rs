//! The file feed, from files on disk to what the service lists.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use berth_proto::berth_v1::PlaceMode;
use berth_server::feed::FeedError;
use berth_server::feed::file::{self, LoadReport};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::probes::get;
use crate::world::{World, outcome, pod};

const NODES: &str = r#"{"kind": "List", "items": [
 {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}},
 {"kind": "Node", "metadata": {"name": "bad"}, "status": {"allocatable": {"cpu": "4 cores"}}},
 {"kind": "Node", "metadata": {"name": "n1"}},
 {"kind": "Service", "metadata": {"name": "s"}}
]}"#;

const PODS: &str = "\
kind: List
items:
- kind: Pod
  metadata: {name: on-n1, namespace: a, uid: u1}
  spec:
    nodeName: n1
    containers:
    - {name: c, resources: {requests: {cpu: 1500m}}}
- kind: Pod
  metadata: {name: bad-op, namespace: a, uid: u2}
  spec:
    containers: [{name: c}]
    affinity:
      nodeAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions: [{key: zone, operator: Near, values: [x]}]
- kind: Pod
  metadata: {name: '', namespace: a, uid: u3}
  spec: {containers: [{name: c}]}
---
kind: Pod
metadata: {name: orphan, namespace: a, uid: u4}
spec: {nodeName: elsewhere, containers: [{name: c}]}
---
kind: Pod
metadata: {name: pending, namespace: a, uid: u5}
spec: {containers: [{name: c}]}
";

fn write(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::File::create(&path).unwrap().write_all(bytes).unwrap();
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn load(world: &World, paths: &[PathBuf]) -> LoadReport {
    world.server.load(file::read_all(paths).unwrap())
}

#[tokio::test]
async fn files_become_the_cluster_and_bad_objects_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = write(directory.path(), "nodes.json.gz", &gzip(NODES.as_bytes()));
    let pods = write(directory.path(), "pods.yaml", PODS.as_bytes());
    let mut world = World::start().await;
    let other = World::start().await;
    let report = load(&other, &[nodes.clone(), pods.clone()]);
    let from_files = world.server.file_loader()(&[nodes.clone(), pods.clone()]).unwrap();
    assert_eq!(from_files, report, "both ways of loading are one");
    assert_eq!((report.n_nodes, report.n_pods, report.n_orphaned), (1, 1, 1), "{report}");
    assert_eq!(report.ignored_kinds["Service"], 1);

    let refused: Vec<String> = report.refused.iter().map(ToString::to_string).collect();
    let starts = [
        format!(
            "{}:3 (document 0, item 1): Node `bad`: `status.allocatable[cpu]`: ",
            nodes.display()
        ),
        format!("{}:18 (document 0, item 2): Pod", pods.display()),
        format!("{}:4 (document 0, item 2): Node `n1`: ", nodes.display()),
    ];
    for start in &starts {
        assert!(
            refused.iter().any(|line| line.starts_with(start.as_str())),
            "no `{start}` in {refused:#?}"
        );
    }
    // An unknown operator of a pending pod is a matter of its placement (W-SEL-6); nothing else is refused.
    assert!(refused.len() <= starts.len() + 1, "{refused:#?}");

    assert_eq!(get(world.server.http_address(), "/readyz").await.0, 200);
    assert_eq!(world.list_nodes().await[0].requested["cpu"], 1500);
    assert_eq!(outcome(&world.place(pod("p", "2"), PlaceMode::DryRun).await.unwrap()), Ok("n1"));
    assert!(outcome(&world.place(pod("p", "3"), PlaceMode::DryRun).await.unwrap()).is_err());
}

#[test]
fn whole_files_that_cannot_be_read_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| file::read(path).unwrap_err();
    let missing = directory.path().join("none.json");
    assert!(
        error(&missing).to_string().starts_with(&format!("cannot read `{}`: ", missing.display()))
    );
    assert!(matches!(error(directory.path()), FeedError::Read { .. }));
    let mut torn = gzip(NODES.as_bytes());
    torn.truncate(torn.len() / 2);
    let torn = write(directory.path(), "torn.gz", &torn);
    assert!(
        error(&torn).to_string().starts_with(&format!("cannot decompress `{}`: ", torn.display()))
    );
    let empty = write(directory.path(), "empty", b"");
    assert_eq!(
        error(&empty).to_string(),
        format!("`{}` holds no Kubernetes object", empty.display())
    );
    let half = write(directory.path(), "half.json", &NODES.as_bytes()[..200]);
    assert!(
        error(&half).to_string().starts_with(&format!("{}:3:", half.display())),
        "{}",
        error(&half)
    );
    let binary = write(directory.path(), "binary", b"kind: Pod\nab\xff\n");
    assert_eq!(
        error(&binary).to_string(),
        format!("{}:2:3: the text is not UTF-8", binary.display())
    );
}

/// Real dumps, where they are at hand: `BERTH_SHARED`, or `shared` beside the workspace.
fn shared(file: &str) -> Option<PathBuf> {
    let root = std::env::var_os("BERTH_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = root.join("data/cluster-dump").join(file);
    if path.exists() {
        return Some(path);
    }
    println!("skipped: {} is not here", path.display());
    None
}

#[tokio::test]
async fn real_dumps_load_without_a_refusal() {
    for (name, n_nodes) in [("small.yaml", 5), ("mid.json.gz", 300)] {
        let Some(path) = shared(name) else { continue };
        let mut world = World::start().await;
        let report = load(&world, &[path]);
        assert_eq!(report.refused, [], "{name}");
        assert_eq!(report.n_nodes, n_nodes, "{name}");
        assert!(report.n_pods > 0 && report.n_pending > 0, "{name}: {report}");
        assert_eq!(world.list_pods().await.len(), report.n_pods, "{name}");
        for node in world.list_nodes().await {
            for (resource, requested) in &node.requested {
                let allocatable = node.allocatable.get(resource).copied().unwrap_or(0);
                assert!(
                    *requested <= allocatable,
                    "{name}: {} has {requested} of {allocatable} {resource}",
                    node.name
                );
            }
        }
    }
}

#[tokio::test]
async fn the_large_dump_loads_as_a_whole() {
    let Some(path) = shared("large.json.gz") else {
        return;
    };
    let world = World::start().await;
    let started = std::time::Instant::now();
    let report = world.server.file_loader()(&[path]).unwrap();
    println!("{report} in {:?}", started.elapsed());
    assert_eq!(
        (report.n_nodes, report.n_pods + report.n_pending + report.n_orphaned),
        (5_000, 29_999)
    );
    assert_eq!(report.refused, []);
}
