//! Watch events a second, from the bytes of a stream in chunks of a socket's size, through parsing and compiling, to
//! their application in the feed's batches. The budget is 50,000 events/s.

use std::hint::black_box;

use berth_engine::{Cluster, Delta};
use berth_server::feed::kube::{Decoder, Event, Resource};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use serde_json::{Value, json};

const N_EVENTS: usize = 10_000;
const N_NODES: usize = 500;
/// Bytes of one read from a busy connection.
const CHUNK_BYTES: usize = 16 << 10;
/// The batch size of the feed.
const BATCH: usize = 1_024;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn feed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("feed");
    group.throughput(Throughput::Elements(N_EVENTS as u64));
    let stream = stream();
    group.bench_function("decode", |bencher| {
        let cluster = cluster();
        bencher.iter(|| black_box(decode(&cluster, &stream, |_| {})));
    });
    group.bench_function("decode-and-apply", |bencher| {
        bencher.iter_batched(
            cluster,
            |cluster| {
                let mut batch = Vec::with_capacity(BATCH);
                decode(&cluster, &stream, |delta| {
                    batch.push(delta);
                    if batch.len() == BATCH {
                        apply(&cluster, &mut batch);
                    }
                });
                apply(&cluster, &mut batch);
                assert_eq!(cluster.snapshot().n_pods(), N_EVENTS / 2, "every pod is bound");
                cluster
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

fn apply(cluster: &Cluster, batch: &mut Vec<Delta>) {
    let applied = cluster.apply(std::mem::take(batch));
    assert!(applied.rejected.is_empty(), "the events are valid");
}

fn decode(cluster: &Cluster, stream: &[u8], mut then: impl FnMut(Delta)) -> usize {
    let mut decoder = Decoder::new(cluster, Resource::Pods, false);
    let mut n_events = 0;
    for chunk in stream.chunks(CHUNK_BYTES) {
        decoder.push(chunk);
        for event in decoder.by_ref() {
            if let Ok(Event::Object(object)) = event
                && let Ok(delta) = object.delta
            {
                n_events += 1;
                then(delta);
            }
        }
    }
    assert_eq!(n_events, N_EVENTS, "every event is taken");
    n_events
}

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    let node = |i: usize| {
        let node = json!({
            "metadata": {"name": format!("node-{i}"), "labels": {"kubernetes.io/hostname": format!("node-{i}")}},
            "status": {"allocatable": {"cpu": "64", "memory": "256Gi", "pods": "256"}},
        });
        let node = serde_json::from_value(node).map(|node| cluster.compile_node(&node));
        match node {
            Ok(Ok(node)) => Delta::UpsertNode(node),
            other => unreachable!("the node is valid: {other:?}"),
        }
    };
    let applied = cluster.apply((0..N_NODES).map(node).collect());
    assert!(applied.rejected.is_empty(), "the nodes are valid");
    cluster
}

/// Two events of each pod: created, then bound.
fn stream() -> Vec<u8> {
    let mut stream = Vec::new();
    let mut version = 1_000_u64;
    for first in (0..N_EVENTS / 2).step_by(50) {
        for (kind, is_bound) in [("ADDED", false), ("MODIFIED", true)] {
            for i in first..first + 50 {
                version += 1;
                let pod = pod(i, version, is_bound);
                stream.extend_from_slice(
                    format!("{{\"type\":\"{kind}\",\"object\":{pod}}}\n").as_bytes(),
                );
            }
        }
    }
    stream
}

/// A Deployment's pod as an API server sends it, with the fields that decisions do not read: about 5 kB.
fn pod(i: usize, version: u64, is_bound: bool) -> Value {
    let app = format!("app-{}", i % 200);
    let fields = |n: usize| -> Value {
        (0..n).map(|k| (format!("f:field-{k}"), json!({".": {}, "f:value": {}}))).collect()
    };
    let mut pod = json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": format!("{app}-6c9f4d7b8-{i:05}"), "generateName": format!("{app}-6c9f4d7b8-"),
            "namespace": format!("team-{}", i % 20), "uid": format!("00000000-0000-4000-8000-{i:012}"),
            "resourceVersion": version.to_string(), "creationTimestamp": "2026-11-21T07:41:30Z",
            "labels": {"app": app, "pod-template-hash": "6c9f4d7b8", "tier": "web"},
            "annotations": {"checksum/config": "0123456789abcdef0123456789abcdef0123456789abcdef"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-6c9f4d7b8"),
                "uid": "11111111-0000-4000-8000-000000000000", "controller": true, "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "apiVersion": "v1",
                "time": "2026-11-21T07:41:30Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:metadata": fields(12), "f:spec": fields(24)}}],
        },
        "spec": {
            "volumes": [{"name": "kube-api-access", "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}}], "defaultMode": 420}}],
            "containers": [{
                "name": "app", "image": format!("registry.example.com/{app}:v1.2.3"),
                "args": ["--listen=:8080", "--log-level=info"],
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}],
                "env": (0..8).map(|k| json!({"name": format!("SETTING_{k}"), "value": "some value of some length"})).collect::<Vec<_>>(),
                "resources": {"limits": {"memory": "512Mi"}, "requests": {"cpu": format!("{}m", 50 * (1 + i % 4)), "memory": "256Mi"}},
                "volumeMounts": [{"name": "kube-api-access", "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
                "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10},
                "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10},
                "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
            }],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst", "serviceAccountName": "default",
            "securityContext": {}, "schedulerName": "default-scheduler", "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
            "tolerations": [
                {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    });
    if is_bound {
        pod["spec"]["nodeName"] = json!(format!("node-{}", i % N_NODES));
        pod["status"]["conditions"] = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-11-21T07:41:31Z"}]);
    }
    pod
}

criterion_group!(benches, feed);
criterion_main!(benches);
