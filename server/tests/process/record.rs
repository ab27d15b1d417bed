//! `berth record`: a cluster that another scheduler runs, followed at an API server, and what is made of the record.

use std::path::Path;
use std::time::Instant;

use berth_fake_apiserver::{FakeApiServer, Options};
use serde_json::{Value, json};

use crate::served::{FREE_PORTS, PATIENCE, Served, berth};

/// Number of nodes, with room for ten pods each.
const N_NODES: usize = 4;
const N_PODS: usize = 30;

fn node(i: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{i}")},
        "status": {"allocatable": {"cpu": "10", "memory": "64Gi", "pods": "110"}},
    })
}

fn pod(i: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("p{i}"), "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
    })
}

/// What a scheduler other than Berth does: it binds a pod to a node.
fn bind(api: &FakeApiServer, i: usize) {
    let mut pod = api.store().get("Pod", "default", &format!("p{i}")).unwrap();
    pod["spec"]["nodeName"] = format!("n{}", i % N_NODES).into();
    api.store().replace(pod).unwrap();
}

/// kube-scheduler's default policy.
const POLICY: &str =
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

fn compared(folder: &Path) -> Value {
    let policy = folder.join("default.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    answer(&["compare", "--policy", policy.to_str().unwrap()], &folder.join("record"))
}

fn answer(arguments: &[&str], directory: &Path) -> Value {
    let mut command = berth();
    command.args(arguments).arg(directory).args(["--output", "json"]);
    let output = command.output().unwrap();
    let (text, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    serde_json::from_slice(text).unwrap_or_else(|_| panic!("{error}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_scheduler_did_is_recorded_and_compared() {
    let folder = tempfile::tempdir().unwrap();
    let api = FakeApiServer::start(Options::default()).await.unwrap();
    api.store().set_auto_kubelet(false);
    for i in 0..N_NODES {
        api.store().create(node(i)).unwrap();
    }
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, api.kubeconfig()).unwrap();
    let directory = folder.path().join("record");
    let mut command = berth();
    command.arg("record").arg(&directory).args(FREE_PORTS).arg("--kubeconfig").arg(&kubeconfig);
    let served = Served::start(&mut command);
    served.eventually("/readyz", |body| body.contains("ok")).await;
    for i in 0..N_PODS {
        api.store().create(pod(i)).unwrap();
        bind(&api, i);
    }
    // Nobody is told that a pod is recorded: what is recorded says it.
    let began = Instant::now();
    loop {
        let compared = compared(folder.path());
        let came = compared["policies"][0]["nCame"].as_u64();
        if came == Some(N_PODS as u64) && compared["policies"][0]["nPlaced"] == json!(N_PODS) {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{compared}");
    }
    for i in 0..N_PODS / 3 {
        api.store().delete("Pod", "default", &format!("p{i}")).unwrap();
    }
    served
        .eventually("/metrics", |body| body.contains("berth_cache_size{type=\"pods\"} 20\n"))
        .await;
    served.stop();

    let compared = compared(folder.path());
    let names: Vec<&str> = compared["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["recorded", "default"], "{compared}");
    for policy in compared["policies"].as_array().unwrap() {
        assert_eq!(policy["nPlaced"], json!(N_PODS), "{compared}");
    }
    // Nothing was decided, so that all of it is the same again.
    let replayed = answer(&["replay"], &directory);
    assert_eq!(replayed["nDecisions"].as_u64().unwrap_or_default(), 0, "{replayed}");
    // A pod that was created and bound between two looks is one change.
    let n_least = N_NODES + N_PODS + N_PODS / 3;
    assert!(replayed["nChanges"].as_u64().unwrap() >= n_least as u64, "{replayed}");
}
