//! Queue: a million pods that wait, what they take, and how fast changes of the cluster wake them.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use berth_benches::process::Process;
use berth_benches::workload::{Workload, incoming};
use berth_engine::{Cluster, Delta, Pod};
use berth_proto::core_v1::{self, PodCondition, PodStatus};
use berth_server::scheduler::group::GroupKeys;
use berth_server::scheduler::hints::Changes;
use berth_server::scheduler::pending::Pending;
use berth_server::scheduler::queue::{Batch, Queue, QueueOptions};

use super::{real, say};

const N_PODS: usize = 1_000_000;
const MAX_BATCH: usize = 1_024;
/// Resident memory of the queue with its pods, and pods woken a second.
const BUDGETS: (u64, f64) = (1_024, 100_000.0);
/// The message of a condition `PodScheduled` of kube-scheduler, for a pod that fits nowhere.
const MESSAGE: &str = "0/5000 nodes are available: 5000 Insufficient cpu. no new claims to deallocate, preemption: 0/5000 \
                       nodes are available: 5000 No preemption victims found for incoming pod.";

pub(crate) fn measure() -> anyhow::Result<()> {
    let at_first = resident_mib()?;
    let cluster = Cluster::new();
    // The feed's pods, which the queue shares.
    feed(&cluster, false)?;
    let mut queue = Queue::new(QueueOptions::default());
    let is_usable = |_: &Pod| true;
    let before = resident_mib()?;
    let mut now = Instant::now();
    let (add, ()) = timed(|| {
        for k in 0..N_PODS {
            queue.upsert(pending(&cluster, k, false)?, &is_usable, now);
        }
        anyhow::Ok(())
    })?;
    let rejected = timed(|| {
        while let Some(batch) = queue.pop(now, MAX_BATCH) {
            reject(&mut queue, &batch, now);
        }
        anyhow::Ok(())
    })?;
    let resident = resident_mib()?.saturating_sub(before);
    // The API server reports the condition of each.
    feed(&cluster, true)?;
    let (report, ()) = timed(|| {
        for k in 0..N_PODS {
            queue.upsert(pending(&cluster, k, true)?, &is_usable, now);
        }
        anyhow::Ok(())
    })?;
    let in_all = resident_mib()?.saturating_sub(at_first);
    now += Duration::from_secs(60);
    let (wake, n_batches) = timed(|| {
        queue.changed(Changes::NODE_ADDED, now);
        let mut n_batches = 0;
        while let Some(batch) = queue.pop(now, MAX_BATCH) {
            reject(&mut queue, &batch, now);
            n_batches += 1;
        }
        anyhow::Ok(n_batches)
    })?;
    let longest = longest_step(&mut queue, now + Duration::from_secs(60));
    let rate = real(N_PODS) / wake.as_secs_f64();
    let is_met = resident <= BUDGETS.0 && rate >= BUDGETS.1;
    say(&format!(
        "queue: {N_PODS} pods in {resident} MiB (<= {}; {in_all} with the cluster, once each was replaced), {rate:.0} woken, \
         popped and rejected a second (>= {:.0}) in {n_batches} batches; added {:.0}/s, first rejections {:.0}/s, conditions {:.0}/s; longest step with the lock {:.1} ms: {}",
        BUDGETS.0,
        BUDGETS.1,
        real(N_PODS) / add.as_secs_f64(),
        real(N_PODS) / rejected.0.as_secs_f64(),
        real(N_PODS) / report.as_secs_f64(),
        longest.as_secs_f64() * 1e3,
        if is_met { "met" } else { "NOT met" },
    ))
}

/// Applies all pods as a feed does.
fn feed(cluster: &Cluster, is_rejected: bool) -> anyhow::Result<()> {
    let pods = (0..N_PODS).map(|k| cluster.compile_reported_pod(&waiting(k, is_rejected)));
    let deltas: Result<Vec<Delta>, _> = pods.map(|pod| pod.map(Delta::UpsertPod)).collect();
    anyhow::ensure!(cluster.apply(deltas?).rejected.is_empty(), "the pods are valid");
    Ok(())
}

/// The longest of a change that wakes all pods and the step after it.
fn longest_step(queue: &mut Queue, now: Instant) -> Duration {
    let began = Instant::now();
    queue.changed(Changes::NODE_ADDED, now);
    let change = began.elapsed();
    let began = Instant::now();
    drop(queue.pop(now, MAX_BATCH));
    change.max(began.elapsed())
}

fn reject(queue: &mut Queue, batch: &Batch, now: Instant) {
    for popped in &batch.pods {
        queue.reject(&popped.attempt, Changes::NODE_ADDED, &|_| true, now);
    }
}

fn timed<T>(work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<(Duration, T)> {
    let began = Instant::now();
    let done = work()?;
    Ok((began.elapsed(), done))
}

fn pending(cluster: &Cluster, k: usize, is_rejected: bool) -> anyhow::Result<Pending> {
    let compile = |pod: &core_v1::Pod| match cluster.as_reported(pod) {
        Some(pod) => Ok(pod),
        None => cluster.compile_pod(pod),
    };
    Pending::of(&waiting(k, is_rejected), compile, &GroupKeys::default())
        .context("the pod has a spec")
}

/// A waiting pod as the feed reports it, before or after its first attempt.
fn waiting(k: usize, is_rejected: bool) -> core_v1::Pod {
    let mut pod = incoming(k, Workload::Basic);
    if let Some(metadata) = &mut pod.metadata {
        metadata.resource_version = (1 + k + if is_rejected { N_PODS } else { 0 }).to_string();
        metadata.uid = format!("00000000-0000-4000-8000-{k:012x}");
    }
    if is_rejected {
        let condition = PodCondition {
            r#type: "PodScheduled".to_owned(),
            status: "False".to_owned(),
            reason: "Unschedulable".to_owned(),
            message: MESSAGE.to_owned(),
            ..PodCondition::default()
        };
        pod.status = Some(PodStatus { conditions: vec![condition], ..PodStatus::default() });
    }
    pod
}

fn resident_mib() -> anyhow::Result<u64> {
    Ok(Process::own().resident_bytes()? >> 20)
}
