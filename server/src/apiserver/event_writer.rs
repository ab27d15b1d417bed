//! Event writer: writes events to the API server beside all other work, and slowly while more urgent requests wait.
//! Events wait in a bounded queue; when it is full they are dropped, and counted (S-ERR-9).

mod series;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event as EventObject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use super::binding::PodName;
use super::call::{CallFailure, repeated};
use super::event::Event;
use super::leadership::Mandate;
use crate::clock;
use series::{Seen, SeriesTable};

/// Number of events that may wait to be written.
const MAX_WAITING: usize = 16_384;
/// Number of events that are written at a time while nothing more urgent waits; else it is one, half of the time.
const CONCURRENCY: u32 = 8;
/// Interval at which counts of repeated events are written.
const SWEEP: Duration = Duration::from_secs(30);
/// Time limit for the remaining events at the end.
const MAX_FLUSH: Duration = Duration::from_secs(5);

/// Handle to record events. Clones share the queue.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Event>,
    n_dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// Queues an event; never waits.
    pub fn record(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.n_dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Number of events that were dropped because the queue was full.
    #[must_use]
    pub fn n_dropped(&self) -> u64 {
        self.n_dropped.load(Ordering::Relaxed)
    }
}

/// Writes the recorded events. Stops at once when dropped.
pub struct EventWriter {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl EventWriter {
    /// Starts to write; `instance` is the readable name of this process, `n_urgent` the number of more urgent requests
    /// to the API server that wait at present.
    #[must_use]
    pub fn start(
        client: kube::Client,
        instance: &str,
        n_urgent: Arc<AtomicUsize>,
    ) -> (EventWriter, Recorder) {
        let (queue, events) = mpsc::channel(MAX_WAITING);
        let sink = Sink { client, instance: instance.into(), n_written: Arc::default() };
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(write_all(sink, events, n_urgent, stopping));
        (EventWriter { task, stop }, Recorder { queue, n_dropped: Arc::default() })
    }

    /// Waits, for a few seconds at most, until the events recorded so far are written.
    pub async fn finish(mut self) {
        self.stop.send_replace(true);
        drop(tokio::time::timeout(MAX_FLUSH, &mut self.task).await);
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn write_all(
    sink: Sink,
    mut events: mpsc::Receiver<Event>,
    n_urgent: Arc<AtomicUsize>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut table = SeriesTable::default();
    let slots = Arc::new(Semaphore::new(CONCURRENCY as usize));
    let mut writes = JoinSet::new();
    let mut sweep = tokio::time::interval(SWEEP);
    loop {
        let due = tokio::select! {
            event = events.recv() => match event {
                Some(event) => table.see(event, &|| sink.name(), clock::now()).into_iter().collect(),
                None => break,
            },
            _ = stopping.wait_for(|&stopping| stopping), if !events.is_closed() => {
                // Waiting events are read to the end; no new ones are accepted.
                events.close();
                continue;
            }
            _ = sweep.tick() => table.sweep(clock::now()),
            Some(_) = writes.join_next(), if !writes.is_empty() => continue,
        };
        for seen in due {
            let yields = n_urgent.load(Ordering::Relaxed) > 0;
            let share = if yields { CONCURRENCY } else { 1 };
            let Ok(slot) = slots.clone().acquire_many_owned(share).await else { return };
            let sink = sink.clone();
            writes.spawn(async move {
                let began = clock::now();
                sink.write(&seen).await;
                if yields {
                    tokio::time::sleep(clock::now().saturating_duration_since(began)).await;
                }
                drop(slot);
            });
        }
    }
    for seen in table.rest() {
        sink.write(&seen).await;
    }
    while writes.join_next().await.is_some() {}
}

#[derive(Clone)]
struct Sink {
    client: kube::Client,
    instance: Arc<str>,
    n_written: Arc<AtomicU64>,
}

impl Sink {
    /// Suffix that makes the name of an event unique among those of its pod.
    fn name(&self) -> String {
        let n = self.n_written.fetch_add(1, Ordering::Relaxed) % 1_000;
        format!("{:x}", clock::unix_micros().saturating_mul(1_000).saturating_add(n))
    }

    /// Writes an event. A failed one is lost, which is logged.
    async fn write(&self, seen: &Seen) {
        let namespace = &seen.event.regarding.namespace;
        let api: Api<EventObject> = Api::namespaced(self.client.clone(), namespace);
        let outcome = match seen.count {
            1 => self.create(&api, seen).await,
            count => {
                let last = micro_time(seen.last_micros);
                let patch = json!({ "series": { "count": count, "lastObservedTime": last } });
                let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
                let name = seen.object_name();
                let mandate = Mandate::unlimited();
                repeated(&mandate, || api.patch(&name, &params, &patch)).await.map(drop)
            }
        };
        if let Err(failure) = outcome {
            let Event { regarding: PodName { namespace, name, .. }, reason, .. } = &*seen.event;
            tracing::debug!("the event {reason} of pod `{namespace}/{name}` is lost: {failure}");
        }
    }

    async fn create(&self, api: &Api<EventObject>, seen: &Seen) -> Result<(), CallFailure> {
        let object = self.object(seen);
        let params = PostParams::default();
        match repeated(&Mandate::unlimited(), || api.create(&params, &object)).await {
            // 409: it was written before an answer was lost.
            Ok(_) | Err(CallFailure::Refused { code: 409, .. }) => Ok(()),
            Err(failure) => Err(failure),
        }
    }

    fn object(&self, seen: &Seen) -> EventObject {
        let Event { regarding, related, is_warning, reason, action, note, reporter } = &*seen.event;
        EventObject {
            metadata: ObjectMeta {
                namespace: Some(regarding.namespace.to_string()),
                name: Some(seen.object_name()),
                ..ObjectMeta::default()
            },
            event_time: Some(micro_time(seen.first_micros)),
            reporting_controller: Some(reporter.to_string()),
            reporting_instance: Some(self.instance.to_string()),
            action: Some((*action).to_owned()),
            reason: Some((*reason).to_owned()),
            type_: Some(if *is_warning { "Warning" } else { "Normal" }.to_owned()),
            note: Some(note.clone()),
            regarding: Some(reference(regarding)),
            related: related.as_ref().map(reference),
            ..EventObject::default()
        }
    }
}

fn reference(pod: &PodName) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.namespace.to_string()),
        name: Some(pod.name.to_string()),
        uid: Some(pod.uid.to_string()),
        ..ObjectReference::default()
    }
}

fn micro_time(micros: u64) -> MicroTime {
    let micros = i64::try_from(micros).unwrap_or(i64::MAX);
    MicroTime(Timestamp::from_microsecond(micros).unwrap_or(Timestamp::UNIX_EPOCH))
}
