//! [`Api`]: the fake API server with a cluster, on a runtime of its own, and waits for what schedulers make of it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::bail;
use berth_benches::workload::{N_NODES, Workload, existing, node};
use berth_fake_apiserver::cluster::add_namespace;
use berth_fake_apiserver::{FakeApiServer, Options};
use berth_synthetic::baseline::object;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{PATIENCE, SCHEDULER, real};

pub(crate) struct Api {
    server: FakeApiServer,
    _runtime: Runtime,
}

impl Api {
    /// Starts without objects but the namespace `default`.
    pub(crate) fn start() -> anyhow::Result<Api> {
        let runtime = Runtime::new()?;
        let server = runtime.block_on(FakeApiServer::start(Options::default()))?;
        server.store().set_auto_kubelet(true);
        add_namespace(server.store(), "default")?;
        Ok(Api { server, _runtime: runtime })
    }

    /// Starts with the nodes, objects and existing pods of a workload.
    pub(crate) fn of_workload(workload: Workload, pods_per_node: usize) -> anyhow::Result<Api> {
        let api = Api::start()?;
        for namespace in object::namespaces() {
            api.create("Namespace", namespace)?;
        }
        if let Some(service) = object::service(workload) {
            api.create("Service", service)?;
        }
        for i in 0..N_NODES {
            api.create("Node", node(i, workload))?;
        }
        for j in 0..N_NODES * pods_per_node {
            api.create("Pod", existing(j, N_NODES, workload))?;
        }
        Ok(api)
    }

    /// Stores an object; a pod names Berth as its scheduler.
    pub(crate) fn create(&self, kind: &str, object: impl Serialize) -> anyhow::Result<()> {
        let mut value = serde_json::to_value(object)?;
        (value["apiVersion"], value["kind"]) = ("v1".into(), kind.into());
        if kind == "Pod" {
            value["spec"]["schedulerName"] = SCHEDULER.into();
        }
        self.server.store().create(value)?;
        Ok(())
    }

    pub(crate) fn server(&self) -> &FakeApiServer {
        &self.server
    }

    pub(crate) fn n_bound(&self) -> usize {
        self.server.store().n_bindings()
    }

    /// Waits until `n` pods are bound; returns how long it took.
    pub(crate) fn bound(&self, n: usize) -> anyhow::Result<Duration> {
        let began = Instant::now();
        while self.n_bound() < n {
            if began.elapsed() > PATIENCE {
                bail!("{} of {n} pods are bound after {PATIENCE:?}", self.n_bound());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(began.elapsed())
    }

    /// Waits until a second passes without a write other than those of leases.
    pub(crate) fn quiet(&self) {
        let mut n = self.writes().len();
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let now = self.writes().len();
            if now == n {
                return;
            }
            n = now;
        }
    }

    /// The writes so far by kind, divided by a number of pods.
    pub(crate) fn writes_for_each(&self, n_pods: usize) -> BTreeMap<String, f64> {
        let mut n_writes: BTreeMap<String, usize> = BTreeMap::new();
        for kind in self.writes() {
            *n_writes.entry(kind).or_default() += 1;
        }
        n_writes.into_iter().map(|(kind, n)| (kind, real(n) / real(n_pods))).collect()
    }

    /// The writes so far other than those of leases, each as its method and the first of these words in its path.
    fn writes(&self) -> Vec<String> {
        let requests = self.server.store().requests().into_iter();
        let writes = requests.filter(|it| it.method != "GET" && !it.target.contains("/leases"));
        let kinds = writes.map(|it| {
            let path = it.target.split('?').next().unwrap_or_default();
            let known = ["binding", "eviction", "status", "events", "pods"];
            let kind = known.into_iter().find(|kind| path.split('/').any(|part| part == *kind));
            format!("{} {}", it.method, kind.unwrap_or(path))
        });
        kinds.collect()
    }
}

/// Numbers by kind, in words.
pub(crate) fn listed(n_writes: &BTreeMap<String, f64>) -> String {
    let each = n_writes.iter().map(|(kind, n)| format!("{kind} {n:.2}"));
    each.collect::<Vec<_>>().join(", ")
}

/// A pod with one container that requests processors only; on `node` unless that is empty.
pub(crate) fn small_pod(name: &str, cpu: &str, priority: i32, node: &str) -> Value {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "priority": priority,
            "containers": [{"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu}}}],
        },
    });
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}
