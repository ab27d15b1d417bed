//! The file feed, from files on disk to what the service lists.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use berth_engine::ObjectKind;
use berth_proto::berth_v1::delta::Change;
use berth_proto::berth_v1::{
    ApplyRequest, ExplainRequest, PlaceBatchRequest, PlaceMode, PreemptRequest,
};
use berth_server::feed::FeedError;
use berth_server::feed::file::{self, LoadReport, UnknownFields};
use berth_server::runtime::ServerOptions;
use berth_testing::recorded;
use flate2::Compression;
use flate2::write::GzEncoder;
use tonic::Code;

use crate::grpc::preemption::prioritised;
use crate::grpc::probes::get;
use crate::grpc::world::{World, bound, options, outcome, pod};

const NODES: &str = r#"{"kind": "List", "items": [
 {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}},
 {"kind": "Node", "metadata": {"name": "bad"}, "status": {"allocatable": {"cpu": "4 cores"}}},
 {"kind": "Node", "metadata": {"name": "n1"}},
 {"kind": "Service", "metadata": {"name": "s"}},
 {"kind": "PersistentVolume", "apiVersion": "v1", "metadata": {"name": ""}},
 {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "n1"}},
 {"kind": "CSINode", "apiVersion": "storage.k8s.io/v1", "metadata": {"name": "n1"}},
 {"kind": "Secret", "metadata": {"name": "s"}}
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
    world.server.load(file::read_all(paths, UnknownFields::Warn).unwrap())
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
    assert_eq!(report.ignored_kinds["Secret"], 1);
    let n_objects = [(ObjectKind::Service, 1), (ObjectKind::CsiNode, 1)];
    assert_eq!(report.n_objects, n_objects.into());
    let counts = world.counts().await.n_objects;
    assert_eq!(counts, [("Service".to_owned(), 1), ("CSINode".to_owned(), 1)].into());

    let refused: Vec<String> = report.refused.iter().map(ToString::to_string).collect();
    let starts = [
        format!(
            "{}:3 (document 0, item 1): Node `bad`: `status.allocatable[cpu]`: ",
            nodes.display()
        ),
        format!("{}:18 (document 0, item 2): Pod", pods.display()),
        format!("{}:4 (document 0, item 2): Node `n1`: ", nodes.display()),
        format!("{}:6 (document 0, item 4): PersistentVolume: `metadata.name`: ", nodes.display()),
        format!("{}:8 (document 0, item 6): CSINode `n1`: ", nodes.display()),
    ];
    for start in &starts {
        assert!(
            refused.iter().any(|line| line.starts_with(start.as_str())),
            "no `{start}` in {refused:#?}"
        );
    }
    // An unknown operator of a pending pod concerns only its placement (W-SEL-6); nothing else is refused.
    assert!(refused.len() <= starts.len() + 1, "{refused:#?}");

    assert_eq!(get(world.server.http_address(), "/readyz").await.0, 200);
    assert_eq!(world.list_nodes().await[0].requested["cpu"], 1500);
    assert_eq!(outcome(&world.place(pod("p", "2"), PlaceMode::DryRun).await.unwrap()), Ok("n1"));
    assert!(outcome(&world.place(pod("p", "3"), PlaceMode::DryRun).await.unwrap()).is_err());
}

/// Writes a dump with budgets in a `List`, in a list of their own and as a document by itself, some of them malformed,
/// and a pod that is nominated to a node.
fn dump_of_budgets(directory: &Path) -> [PathBuf; 2] {
    let node = |name: &str| {
        format!(
            r#"{{"kind": "Node", "metadata": {{"name": "{name}"}}, "status": {{"allocatable": {{"cpu": "2", "pods": "9"}}}}}}"#
        )
    };
    let running = |name: &str, node: &str| {
        format!(
            r#"{{"kind": "Pod", "metadata": {{"name": "{name}", "namespace": "a", "uid": "{name}", "labels": {{"app": "{name}"}}}},
               "spec": {{"nodeName": "{node}", "priority": 1, "containers": [{{"name": "c", "resources": {{"requests": {{"cpu": "2"}}}}}}]}}}}"#
        )
    };
    let budget = |name: &str, app: &str| {
        format!(
            r#"{{"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {{"name": "{name}", "namespace": "a"}},
               "spec": {{"minAvailable": "100%", "selector": {{"matchLabels": {{"app": "{app}"}}}}}}, "status": {{"disruptionsAllowed": 0}}}}"#
        )
    };
    let items = [
        node("n1"),
        node("n2"),
        node("n3"),
        node("n4"),
        running("one", "n1"),
        running("two", "n2"),
        running("three", "n3"),
        budget("keeps-one", "one"),
    ];
    let list = format!(r#"{{"kind": "List", "items": [{}]}}"#, items.join(",\n"));
    let budgets = "\
kind: PodDisruptionBudgetList
apiVersion: policy/v1
items:
- metadata: {name: keeps-two, namespace: a}
  spec: {maxUnavailable: 0, selector: {matchLabels: {app: two}}}
- metadata: {namespace: a}
---
kind: PodDisruptionBudget
apiVersion: policy/v1alpha1
metadata: {name: old, namespace: a}
---
kind: PodDisruptionBudget
apiVersion: policy/v1
metadata: {name: odd, namespace: a}
spec: {selector: [app]}
---
kind: Pod
metadata: {name: promised, namespace: a, uid: u}
spec: {priority: 9, containers: [{name: c, resources: {requests: {cpu: 2}}}]}
status: {nominatedNodeName: n4}
";
    [
        write(directory, "list.json.gz", &gzip(list.as_bytes())),
        write(directory, "budgets.yaml", budgets.as_bytes()),
    ]
}

/// Preemption respects the budgets of a dump, and a nominated pod of the dump keeps its room.
#[tokio::test]
async fn a_dump_brings_disruption_budgets_and_nominations() {
    let directory = tempfile::tempdir().unwrap();
    let [list, budgets] = dump_of_budgets(directory.path());
    let mut world = World::start().await;
    let report = world.server.file_loader()(&[list, budgets.clone()]).unwrap();
    assert_eq!(report.n_objects, [(ObjectKind::PodDisruptionBudget, 2)].into());
    let refused: Vec<String> = report.refused.iter().map(ToString::to_string).collect();
    let at = budgets.display();
    assert_eq!(
        refused,
        [
            format!(
                "{at}:6 (document 0, item 1): PodDisruptionBudget: `metadata.name`: is missing"
            ),
            format!(
                "{at}:8 (document 1): PodDisruptionBudget `a/old`: `apiVersion`: `policy/v1alpha1` is not read; \
                 a `PodDisruptionBudget` is of `policy/v1`"
            ),
            format!(
                "{at}:15 (document 2): PodDisruptionBudget `a/odd`: `spec.selector`: invalid type: list, expected an object (LabelSelector)"
            ),
        ]
    );

    let asks = prioritised("p", "1", 9);
    let place = world.place(asks.clone(), PlaceMode::DryRun).await.unwrap();
    assert!(outcome(&place).is_err(), "`n4` is promised");
    let request = PreemptRequest { pod: Some(asks), ..PreemptRequest::default() };
    let answer = world.preemption.preempt(request).await.unwrap().into_inner();
    let ran = answer.post_filter.unwrap();
    assert_eq!((ran.nominated_node_name.as_str(), ran.n_candidates), ("n3", 3));
}

#[test]
fn whole_files_that_cannot_be_read_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let error = |path: &Path| file::read(path, UnknownFields::Warn).unwrap_err();
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

#[test]
fn broken_bytes_in_json_are_placed() {
    let directory = tempfile::tempdir().unwrap();
    let text = b"{\"kind\":\"List\",\"items\":[\n{\"kind\":\"Node\"},\n {\"kind\":\"a\xff\"}]}";
    let path = write(directory.path(), "broken.json", text);
    let error = file::read(&path, UnknownFields::Warn).unwrap_err().to_string();
    assert_eq!(error, format!("{}:3:12: the text is not UTF-8", path.display()));
    let trailing = [gzip(NODES.as_bytes()), b"nothing of the kind".to_vec()].concat();
    let path = write(directory.path(), "trailing.gz", &trailing);
    let error = file::read(&path, UnknownFields::Warn).unwrap_err().to_string();
    assert_eq!(
        error,
        format!(
            "cannot decompress `{}`: something that is not gzip follows the compressed data",
            path.display()
        )
    );
}

#[test]
fn pods_can_be_kept_as_they_were_written() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = write(directory.path(), "nodes.json", NODES.as_bytes());
    let pods = write(directory.path(), "pods.yaml", PODS.as_bytes());
    let paths = [nodes, pods];
    let is_pending = |pod: &mut berth_proto::core_v1::Pod| {
        pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_empty())
    };
    let cluster = berth_engine::Cluster::new();
    let (report, kept) =
        file::load_files_keeping(&cluster, &paths, UnknownFields::Warn, is_pending).unwrap();
    assert_eq!(
        report,
        file::load_files(&berth_engine::Cluster::new(), &paths, UnknownFields::Warn).unwrap()
    );
    let names: Vec<String> =
        kept.into_iter().map(|pod| pod.value.metadata.unwrap_or_default().name).collect();
    assert_eq!(names, ["bad-op", "", "pending"]);
}

/// Checks that every call except those that only read is refused for this reason.
async fn assert_unavailable(world: &mut World, reason: &str, feeds_too: bool) {
    let mut statuses = Vec::new();
    statuses.push(world.place(pod("p", "1"), PlaceMode::Assume).await.unwrap_err());
    let mut placement = world.placement.clone();
    statuses.push(placement.place_batch(PlaceBatchRequest::default()).await.unwrap_err());
    statuses.push(placement.explain(ExplainRequest::default()).await.unwrap_err());
    let none = tokio_stream::iter([]);
    statuses.push(placement.place_stream(none).await.map(drop).unwrap_err());
    if feeds_too {
        statuses.push(world.cluster.apply(ApplyRequest::default()).await.unwrap_err());
        statuses.push(world.cluster.sync(tokio_stream::iter([])).await.map(drop).unwrap_err());
    }
    for status in statuses {
        assert_eq!((status.code(), status.message()), (Code::Unavailable, reason));
    }
    world.counts().await;
    world.list_nodes().await;
}

#[tokio::test]
async fn nothing_is_decided_or_applied_before_the_files_are_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = [write(directory.path(), "nodes.json", NODES.as_bytes())];
    let mut world = World::with(ServerOptions { awaits_files: true, ..options() }).await;
    assert_unavailable(&mut world, "the cluster is still being loaded", true).await;
    let (code, text) = get(world.server.http_address(), "/readyz").await;
    assert_eq!(code, 503);
    assert!(text.contains("[-]feed failed: the cluster is still being loaded"), "{text}");

    let load = world.server.file_loader();
    assert_unavailable(&mut world, "the cluster is still being loaded", true).await;
    load(&nodes).unwrap();
    let placed = world.place(pod("p", "1"), PlaceMode::Assume).await.unwrap();
    assert_eq!(outcome(&placed), Ok("n1"));
    world.apply([]).await;
    let (_, text) = get(world.server.http_address(), "/metrics").await;
    assert!(text.contains("berth_deltas_total{outcome=\"applied\"} 3"), "{text}");
    assert!(text.contains("berth_deltas_total{outcome=\"rejected\"} 4"), "{text}");
}

#[tokio::test]
async fn a_server_that_was_never_fed_can_only_be_fed() {
    let mut world = World::start().await;
    assert_unavailable(&mut world, "no feed has delivered a cluster yet", false).await;
    world.nodes(1, 4).await;
    let placed = world.place(pod("p", "1"), PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&placed), Ok("n0"));
}

#[tokio::test]
async fn reading_the_files_again_forgets_contradictions() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = [write(directory.path(), "nodes.json", NODES.as_bytes())];
    let mut world = World::start().await;
    world.server.file_loader()(&nodes).unwrap();
    for node in ["n1", "elsewhere"] {
        world.apply([Change::UpsertPod(bound("p", "1", node))]).await;
    }
    let http = world.server.http_address();
    assert_eq!(get(http, "/readyz").await.0, 503);

    let load = world.server.file_loader();
    let placed = world.place(pod("q", "1"), PlaceMode::DryRun).await.unwrap();
    assert_eq!(outcome(&placed), Ok("n1"), "the old cluster answers meanwhile");
    let status = world.cluster.apply(ApplyRequest::default()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(load(&[directory.path().join("none.json")]).is_err());
    world.apply([]).await;
    assert_eq!(get(http, "/readyz").await.0, 503, "a load that fails changes nothing");
    world.server.file_loader()(&nodes).unwrap();
    assert_eq!(get(http, "/readyz").await, (200, "ok".into()));
    assert_eq!(world.counts().await.n_pods, 0);
}

/// Returns the path of a recorded dump, unless it is missing.
fn recorded_dump(file: &str) -> Option<PathBuf> {
    recorded::find(&format!("data/cluster-dump/{file}"))
}

#[tokio::test]
async fn real_dumps_load_without_a_refusal() {
    for (name, n_nodes) in [("small.yaml", 5), ("mid.json.gz", 300)] {
        let Some(path) = recorded_dump(name) else { continue };
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
    let Some(path) = recorded_dump("large.json.gz") else { return };
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
