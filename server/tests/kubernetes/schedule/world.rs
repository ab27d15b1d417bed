//! A fake API server, and schedulers that use it.

use std::time::{Duration, Instant};

use berth_engine::{Policy, PolicySpec};
use berth_fake_apiserver::{FakeApiServer, Options};
use berth_server::apiserver;
use berth_server::apiserver::KubeOptions;
use berth_server::apiserver::lease::LeaseOptions;
use berth_server::feed::kube::{KubeFeed, Pace};
use berth_server::ledger::EtcdOptions;
use berth_server::policy::Profiles;
use berth_server::runtime::{Server, ServerOptions};
use berth_server::scheduler::backoff::Backoff;
use berth_server::scheduler::queue::QueueOptions;
use berth_server::scheduler::{Scheduler, SchedulerOptions};
use berth_testing::etcd::Etcd;
use berth_testing::ports::free_address;
use serde_json::{Value, json};

/// The time after which a wait fails: longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The fake API server and the objects in it.
pub(crate) struct World {
    pub(crate) api: FakeApiServer,
}

/// An instance of `berth schedule` in the process of the test.
pub(crate) struct Instance {
    pub(crate) server: Server,
    pub(crate) scheduler: Scheduler,
    _feed: KubeFeed,
}

impl World {
    /// Starts an empty API server whose pods run once they are bound, and vanish at once when they are deleted.
    pub(crate) async fn new() -> World {
        World::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> World {
        let api = FakeApiServer::start(options).await.expect("a port");
        api.store().set_auto_kubelet(true);
        World { api }
    }

    pub(crate) fn create(&self, object: Value) -> Value {
        self.api.store().create(object).expect("an object that can be created")
    }

    /// Creates a node with `cpu` cores and plenty of everything else.
    pub(crate) fn node(&self, name: &str, cpu: u32) {
        self.create(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": cpu.to_string(), "memory": "64Gi", "pods": "110"}},
        }));
    }

    /// Creates a pod for the scheduler `berth`; `spec` and `metadata` override those of a plain pod.
    pub(crate) fn pod_with(&self, name: &str, cpu: &str, spec: Value, metadata: Value) -> Value {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulerName": "berth",
                "containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu}}}],
            },
        });
        merge(&mut object["spec"], spec);
        merge(&mut object["metadata"], metadata);
        self.create(object)
    }

    pub(crate) fn pod(&self, name: &str, cpu: &str) -> Value {
        self.pod_with(name, cpu, json!({}), json!({}))
    }

    pub(crate) fn get(&self, name: &str) -> Value {
        self.api.store().get("Pod", "default", name).unwrap_or(Value::Null)
    }

    pub(crate) fn node_of(&self, name: &str) -> String {
        text(&self.get(name)["spec"]["nodeName"])
    }

    pub(crate) fn condition(&self, name: &str, r#type: &str) -> Value {
        let pod = self.get(name);
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|condition| condition["type"] == r#type).unwrap_or(Value::Null)
    }

    /// Notes and counts of the events of a reason about a pod.
    pub(crate) fn events(&self, name: &str, reason: &str) -> Vec<(String, u64)> {
        let events = self.api.store().list("Event");
        let about = |event: &&Value| {
            event["reason"] == reason
                && [&event["regarding"], &event["involvedObject"]]
                    .iter()
                    .any(|it| it["name"] == name)
        };
        let note = |event: &Value| {
            let note = text(&event["note"]);
            let note = if note.is_empty() { text(&event["message"]) } else { note };
            (note, event["series"]["count"].as_u64().unwrap_or(1))
        };
        events.iter().filter(about).map(note).collect()
    }

    /// Number of requests so far that got this fault, which is named by its setter.
    pub(crate) fn n_faults(&self, fault: &str) -> u64 {
        self.api.faults().done().get(fault).copied().unwrap_or(0)
    }

    pub(crate) fn n_bound(&self) -> usize {
        let pods = self.api.store().list("Pod");
        pods.iter().filter(|pod| !text(&pod["spec"]["nodeName"]).is_empty()).count()
    }

    /// Makes a client as `berth schedule` does.
    pub(crate) async fn client(&self) -> kube::Client {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("kubeconfig");
        std::fs::write(&path, self.api.kubeconfig()).expect("a file");
        let options = KubeOptions { kubeconfig: Some(path), ..KubeOptions::default() };
        apiserver::connect(&options).await.expect("a client")
    }

    pub(crate) async fn start(&self, options: SchedulerOptions) -> Instance {
        self.start_as("berth", options).await
    }

    /// Starts a scheduler of the pods with that scheduler name.
    pub(crate) async fn start_as(
        &self,
        scheduler_name: &str,
        options: SchedulerOptions,
    ) -> Instance {
        let spec = PolicySpec {
            scheduler_name: scheduler_name.to_owned(),
            ..Policy::default().spec().clone()
        };
        let profiles = Profiles::from(vec![Policy::new(spec).expect("a policy")]);
        let server = ServerOptions { profiles, ..ServerOptions::default() };
        self.start_server(server, options).await
    }

    /// Starts a scheduler of the pods of `berth` that shares what it reserves with others.
    pub(crate) async fn start_replica(
        &self,
        etcd: &Etcd,
        name: &str,
        options: SchedulerOptions,
    ) -> Instance {
        let spec =
            PolicySpec { scheduler_name: "berth".to_owned(), ..Policy::default().spec().clone() };
        let profiles = Profiles::from(vec![Policy::new(spec).expect("a policy")]);
        let grpc_address = free_address();
        let etcd = EtcdOptions {
            endpoints: etcd.endpoints(),
            name: name.to_owned(),
            address: format!("http://{grpc_address}"),
            ..EtcdOptions::default()
        };
        let etcd = Some(etcd);
        let server = ServerOptions { profiles, grpc_address, etcd, ..ServerOptions::default() };
        self.start_server(server, options).await
    }

    async fn start_server(&self, server: ServerOptions, options: SchedulerOptions) -> Instance {
        let server = ServerOptions { awaits_files: true, ..server };
        let server = Server::start(server).await.expect("a server");
        let client = self.client().await;
        let scheduler = server.start_scheduler(client.clone(), options);
        let pace = Pace {
            first_wait: Duration::from_millis(10),
            longest_wait: Duration::from_millis(200),
            ..Pace::default()
        };
        let feed = server.start_kube_feed(pace, client, Some(scheduler.observer()));
        Instance { server, scheduler, _feed: feed }
    }

    /// Checks that no pod was bound twice and that no node is overcommitted.
    pub(crate) fn check_bindings(&self) {
        let mut uids: Vec<String> =
            self.api.store().bindings().into_iter().map(|bound| bound.uid).collect();
        let n_bindings = uids.len();
        uids.sort();
        uids.dedup();
        assert_eq!(uids.len(), n_bindings, "a pod was bound twice");
        assert_eq!(self.api.store().overcommitted(), Vec::<String>::new());
    }
}

impl Instance {
    /// Ends like a killed process: nothing is finished or given back.
    pub(crate) fn kill(self) {
        drop(self);
    }

    /// Ends like a process that gets SIGTERM.
    pub(crate) async fn stop(self) {
        self.scheduler.stop().await;
    }
}

/// Options of a scheduler without leader election, with short back-off.
pub(crate) fn fast_options() -> SchedulerOptions {
    let backoff = Backoff { initial: Duration::from_millis(50), max: Duration::from_millis(400) };
    SchedulerOptions {
        queue: QueueOptions { backoff, ..QueueOptions::default() },
        ..SchedulerOptions::default()
    }
}

/// Options of an instance that takes part in leader election.
pub(crate) fn elected(identity: &str) -> SchedulerOptions {
    let lease = LeaseOptions {
        identity: identity.to_owned(),
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_millis(1_500),
        retry_period: Duration::from_millis(200),
        ..LeaseOptions::default()
    };
    SchedulerOptions { lease: Some(lease), ..fast_options() }
}

/// Returns the whole response of the instance's HTTP port.
pub(crate) async fn get(instance: &Instance, path: &str) -> String {
    crate::probe::get(instance.server.http_address(), path).await
}

/// Waits until `holds` is true.
pub(crate) async fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(PATIENCE, what, holds).await;
}

pub(crate) async fn until_within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < patience, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits long enough for an unwanted action to happen.
pub(crate) async fn pause() {
    tokio::time::sleep(Duration::from_millis(700)).await;
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}
