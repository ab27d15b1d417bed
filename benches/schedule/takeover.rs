//! `berth schedule` against the fake API server: bindings a second, preemptors a second at several latencies of the API
//! server, and the time without a scheduler when the leader is killed, and when it is stopped.
//!
//! API server and schedulers are in one process and share its cores. It prints one table; nothing is asserted.

use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use berth_engine::{Policy, PolicySpec};
use berth_fake_apiserver::cluster::{add_namespace, add_synthetic, synthetic_pod};
use berth_fake_apiserver::{FakeApiServer, Options};
use berth_server::apiserver::lease::LeaseOptions;
use berth_server::apiserver::{self, KubeOptions};
use berth_server::feed::kube::{KubeFeed, Pace};
use berth_server::policy::Profiles;
use berth_server::runtime::{Server, ServerOptions};
use berth_server::scheduler::{Scheduler, SchedulerOptions};
use serde_json::json;

/// The allocator of the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const N_NODES: usize = 5_000;
const N_PODS: usize = 20_000;
const N_PREEMPTORS: usize = 500;
/// Delays of each request, as an API server near and far has them.
const LATENCIES: [Duration; 3] =
    [Duration::ZERO, Duration::from_millis(5), Duration::from_millis(20)];
/// Leaders that end, in turn by SIGKILL and by SIGTERM.
const N_TAKEOVERS: usize = 6;
/// Time between two pods that are created while leaders end.
const BETWEEN_PODS: Duration = Duration::from_millis(20);
/// The time after which a wait fails.
const PATIENCE: Duration = Duration::from_secs(300);

/// An instance of `berth schedule`, with its own runtime, which ends with it as a process does.
struct Instance {
    scheduler: Scheduler,
    _feed: KubeFeed,
    _server: Server,
    runtime: tokio::runtime::Runtime,
}

impl Instance {
    fn start(api: &FakeApiServer, lease: Option<LeaseOptions>) -> anyhow::Result<Instance> {
        let runtime = tokio::runtime::Runtime::new()?;
        let spec =
            PolicySpec { scheduler_name: "berth".to_owned(), ..Policy::default().spec().clone() };
        let profiles = Profiles::from(vec![Policy::new(spec)?]);
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, api.kubeconfig())?;
        let options = SchedulerOptions { lease, ..SchedulerOptions::default() };
        let (server, scheduler, feed) = runtime.block_on(async {
            let options_of_server =
                ServerOptions { profiles, awaits_files: true, ..ServerOptions::default() };
            let server = Server::start(options_of_server).await?;
            let connect = KubeOptions { kubeconfig: Some(path), ..KubeOptions::default() };
            let client = apiserver::connect(&connect).await?;
            let scheduler = server.start_scheduler(client.clone(), options);
            let feed = server.start_kube_feed(Pace::default(), client, Some(scheduler.observer()));
            anyhow::Ok((server, scheduler, feed))
        })?;
        Ok(Instance { scheduler, _feed: feed, _server: server, runtime })
    }

    /// Ends as SIGKILL ends a process: its connections close, and nothing is given back.
    fn kill(self) {
        self.runtime.shutdown_background();
    }

    /// Ends as SIGTERM ends a process.
    fn stop(self) {
        let Instance { scheduler, runtime, .. } = self;
        runtime.block_on(scheduler.stop());
        runtime.shutdown_background();
    }
}

fn main() -> anyhow::Result<()> {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|it| !it.starts_with('-')).collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|it| name.contains(it));
    // The API server has a runtime of its own, since it outlives the schedulers.
    let runtime = tokio::runtime::Runtime::new()?;
    let start = || -> anyhow::Result<FakeApiServer> {
        let api = runtime.block_on(FakeApiServer::start(Options::default()))?;
        api.store().set_auto_kubelet(true);
        add_namespace(api.store(), "default")?;
        Ok(api)
    };
    if is_wanted("bind") {
        bind(&start()?)?;
    }
    if is_wanted("preempt") {
        LATENCIES.into_iter().try_for_each(|latency| preempt(&start()?, latency))?;
    }
    if is_wanted("takeover") {
        takeover(&start()?)?;
    }
    Ok(())
}

fn say(line: &str) -> anyhow::Result<()> {
    Ok(writeln!(std::io::stdout(), "{line}")?)
}

fn fill(api: &FakeApiServer, n_pods: usize) -> anyhow::Result<()> {
    Ok(add_synthetic(api.store(), N_NODES, n_pods, "berth")?)
}

fn n_bound(api: &FakeApiServer) -> usize {
    api.store().bindings().len()
}

/// Waits until `n` pods are bound; returns how long it took.
fn bound(api: &FakeApiServer, n: usize) -> anyhow::Result<Duration> {
    let began = Instant::now();
    while n_bound(api) < n {
        if began.elapsed() > PATIENCE {
            bail!("{} of {n} pods are bound after {PATIENCE:?}", n_bound(api));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(began.elapsed())
}

fn bind(api: &FakeApiServer) -> anyhow::Result<()> {
    fill(api, N_PODS)?;
    let instance = Instance::start(api, None)?;
    let elapsed = bound(api, 1).and_then(|_| bound(api, N_PODS))?;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = N_PODS as f64 / elapsed.as_secs_f64();
    say(&format!("bind: {rate:.0} pods/s ({N_NODES} nodes, {N_PODS} pods)"))?;
    instance.kill();
    Ok(())
}

/// Nodes that are full of pods of low priority, and pods of high priority that fit nowhere else.
fn preempt(api: &FakeApiServer, latency: Duration) -> anyhow::Result<()> {
    let create = |object| api.store().create(object).map(drop);
    let pod = |name: String, cpu: &str, priority: i32, node: &str| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "schedulerName": "berth", "priority": priority,
                "containers": [{"name": "c", "image": "app", "resources": {"requests": {"cpu": cpu}}}],
            },
        });
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        pod
    };
    for i in 0..N_PREEMPTORS {
        let node = format!("n{i}");
        create(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}},
            "status": {"allocatable": {"cpu": "4", "memory": "64Gi", "pods": "110"}},
        }))?;
        for k in 0..2 {
            create(pod(format!("low-{i}-{k}"), "2", 0, &node))?;
        }
    }
    let instance = Instance::start(api, None)?;
    create(pod("warm-up".to_owned(), "0", 0, ""))?;
    bound(api, 1)?;
    api.faults().latency(latency);
    for i in 0..N_PREEMPTORS {
        create(pod(format!("high-{i}"), "3", 1_000, ""))?;
    }
    let elapsed = bound(api, 1 + N_PREEMPTORS)?;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = N_PREEMPTORS as f64 / elapsed.as_secs_f64();
    say(&format!(
        "preempt: {rate:.0} preemptors/s bound, two victims each, {} ms a request",
        latency.as_millis()
    ))?;
    instance.kill();
    Ok(())
}

/// The time from the end of a leader until the next one has bound the pods that kept coming meanwhile.
fn takeover(api: &FakeApiServer) -> anyhow::Result<()> {
    fill(api, N_PODS)?;
    let start = |n: usize| {
        let lease = LeaseOptions { identity: format!("instance-{n}"), ..LeaseOptions::default() };
        Instance::start(api, Some(lease))
    };
    let mut leader = start(0)?;
    bound(api, N_PODS)?;
    let mut n_created = N_PODS;
    for n in 0..N_TAKEOVERS {
        let next = start(n + 1)?;
        // Long enough that it knows the cluster and the Lease.
        std::thread::sleep(Duration::from_secs(8));
        if !leader.scheduler.is_leading() || next.scheduler.is_leading() {
            bail!("the Lease changed its holder by itself");
        }
        let is_killed = n % 2 == 0;
        let began = Instant::now();
        let end = std::thread::spawn(move || if is_killed { leader.kill() } else { leader.stop() });
        let create = |n: usize| api.store().create(synthetic_pod(n, "berth")).map(drop);
        while !next.scheduler.is_leading() {
            if began.elapsed() > PATIENCE {
                bail!("nobody leads");
            }
            create(n_created)?;
            n_created += 1;
            std::thread::sleep(BETWEEN_PODS);
        }
        // One that the next one binds for certain; those that wait are bound before.
        create(n_created)?;
        n_created += 1;
        bound(api, n_created)?;
        let elapsed = began.elapsed().as_secs_f64();
        let signal = if is_killed { "SIGKILL" } else { "SIGTERM" };
        say(&format!(
            "takeover: {elapsed:.2} s from {signal} until the next one has bound all that wait"
        ))?;
        end.join().ok().context("the leader's end crashed")?;
        leader = next;
    }
    leader.kill();
    Ok(())
}
