//! State that all parts of a scheduler share.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use berth_engine::{ClaimChange, Cluster, ModelError, ObjectKey, Pod, PodKey};
use berth_proto::core_v1;
use tokio::sync::{Notify, Semaphore};

use super::assigned::Assigned;
use super::bind_slots::BindSlots;
use super::failures::{Failures, Write};
use super::hints::Changes;
use super::options::SchedulerOptions;
use super::pending::{Pending, shown};
use super::queue::Queue;
use super::rate::TokenBucket;
use crate::apiserver::event_writer::Recorder;
use crate::apiserver::leadership::Leadership;
use crate::clock;
use crate::feed::kube::Resource;
use crate::service::State;
use crate::telemetry::ScheduleCounts;

/// Maximum number of concurrent writes about pods that were not placed.
const REPORT_CONCURRENCY: usize = 32;

/// Uid of a pod that was nominated, and the node.
pub(super) type HandedOff = (Arc<str>, Arc<str>);

/// State of one scheduler.
pub(super) struct Shared {
    pub(super) client: kube::Client,
    pub(super) state: Arc<State>,
    pub(super) options: SchedulerOptions,
    pub(super) leadership: Leadership,
    pub(super) events: Recorder,
    /// Wakes the loop after a change that it may act on.
    pub(super) wake: Notify,
    pub(super) bind_slots: BindSlots,
    pub(super) report_slots: Semaphore,
    queue: Mutex<Queue>,
    bind_rate: Option<Mutex<TokenBucket>>,
    failures: Mutex<Failures>,
    /// Pods that have a node, as the feed reported them.
    pub(super) assigned: Mutex<Assigned>,
    /// Nominations by this instance in the hand-off mode.
    pub(super) handed: Mutex<HashMap<PodKey, HandedOff>>,
    is_synced: AtomicBool,
    pods_listed: Mutex<Option<Instant>>,
}

impl Shared {
    pub(super) fn new(
        client: kube::Client,
        state: Arc<State>,
        options: SchedulerOptions,
        leadership: Leadership,
        bind_slots: BindSlots,
        events: Recorder,
    ) -> Shared {
        let now = clock::now();
        Shared {
            client,
            state,
            leadership,
            events,
            wake: Notify::new(),
            bind_slots,
            report_slots: Semaphore::new(REPORT_CONCURRENCY),
            queue: Mutex::new(Queue::new(options.queue)),
            bind_rate: options.bind_rate.map(|rate| Mutex::new(TokenBucket::new(rate, now))),
            failures: Mutex::default(),
            assigned: Mutex::default(),
            handed: Mutex::default(),
            is_synced: AtomicBool::new(false),
            pods_listed: Mutex::default(),
            options,
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        locked(&self.queue)
    }

    pub(super) fn cluster(&self) -> &Arc<Cluster> {
        &self.state.cluster
    }

    /// Compiles a pod, with its object where that is written once the pod is assumed. The feed has compiled most already.
    pub(super) fn compile(&self, pod: &core_v1::Pod) -> Result<Pod, ModelError> {
        match self.state.replicas {
            Some(_) => self.cluster().compile_kept_pod(pod),
            None => match self.cluster().as_reported(pod) {
                Some(pod) => Ok(pod),
                None => self.cluster().compile_pod(pod),
            },
        }
    }

    pub(super) fn counts(&self) -> &ScheduleCounts {
        self.state.metrics.schedule()
    }

    /// Whether this instance leads now. Permission to write depends on the mandate of the decision instead.
    pub(super) fn is_leading(&self) -> bool {
        self.leadership.is_held(clock::now())
    }

    /// Whether the feed has been complete once.
    pub(super) fn is_synced(&self) -> bool {
        self.is_synced.load(Ordering::Acquire)
    }

    pub(super) fn note_synced(&self) {
        self.is_synced.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// Records a change in the cluster that may help pods.
    pub(super) fn note_changed(&self, changes: Changes) {
        if changes.is_empty() {
            return;
        }
        self.queue().changed(changes, clock::now());
        self.wake.notify_one();
    }

    /// Records a change of a claim for devices (S-DRA-126). It is in the cluster already, where the queue looks whether
    /// the claims of a pod can be used.
    pub(super) fn note_claim_changed(&self, claim: &ObjectKey, change: ClaimChange) {
        let is_usable = |pod: &Pod| self.cluster().has_usable_claims(pod);
        if self.queue().claim_changed(claim, change, &is_usable, clock::now()) {
            self.wake.notify_one();
        }
    }

    /// Ends the attempt of a pod whose binding was not sent yet, and releases its room; returns `false` if there is
    /// none.
    pub(super) fn cancel(&self, key: &PodKey, uid: &str) -> bool {
        let is_cancelled = self.queue().cancel(key, uid, clock::now());
        if is_cancelled {
            self.take_back(key, uid);
        }
        is_cancelled
    }

    /// Requests that the feed list all pods anew.
    pub(super) fn ask_for_pods(&self) {
        if let Some(watches) = self.state.freshness.watches() {
            watches.ask_for_list(Resource::Pods);
        }
    }

    /// Time at which the last list of all pods that is in the cluster was requested.
    pub(super) fn pods_listed(&self) -> Option<Instant> {
        *locked(&self.pods_listed)
    }

    pub(super) fn note_pods_listed(&self, requested: Instant) {
        *locked(&self.pods_listed) = Some(requested);
        self.wake.notify_one();
    }

    /// Releases the room of a pod (S-CCH-4); for others it is as if a pod had been deleted (S-SNP-6).
    pub(super) fn take_back(&self, key: &PodKey, uid: &str) {
        self.cluster().take_back(&[(key.clone(), uid.into())]);
        self.queue().victim_gone(key, clock::now());
        self.note_changed(Changes::POD_DELETED);
    }

    /// Logs that a write about a pod failed, or counts it if one of its kind was logged just now.
    pub(super) fn note_failed(&self, write: Write, pending: &Pending, reason: &str) {
        let text = format!("pod `{}`: {reason}", shown(pending));
        if let Some(line) = locked(&self.failures).note(write, text, clock::now()) {
            tracing::warn!("{line}");
        }
    }

    /// Logs the failures that were only counted, where that is due.
    pub(super) fn log_failures(&self, now: Instant) {
        locked(&self.failures).due(now).iter().for_each(|line| tracing::warn!("{line}"));
    }

    /// Waits for a token of the binding rate, if that is limited.
    pub(super) async fn await_rate(&self) {
        let Some(rate) = &self.bind_rate else { return };
        let wait = locked(rate).take(clock::now());
        tokio::time::sleep(wait).await;
    }
}

/// Locks a mutex whose data is changed in single steps: a panic elsewhere leaves it consistent.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
