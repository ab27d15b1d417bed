//! Scheduler: schedules the pods that name Berth as their scheduler (`berth schedule`).
//!
//! ```text
//!  feed ──► observe ──► queue ──► attempt ──► bind ──► API server ──► feed
//!              │          ▲          │
//!              │ changes  │          └─► report: condition, event, nomination ──► evict
//!              └──────────┴──────────────────────────────┘
//! ```
//!
//! The engine decides; `queue`, a state machine, determines which pod is tried when; everything else here writes
//! decisions to the API server. No state is stored: after a restart the feed delivers the outcomes. A pod is assumed in
//! the cluster before its Binding is sent, and released only when the API server has said that it is not bound.

pub mod queue;
pub mod pending;
pub mod plugin_set;
pub mod hints;
pub mod backoff;
pub mod group;
pub mod options;
mod assigned;
mod failures;
mod shared;
mod observe;
mod attempt;
mod run;
mod ticket;
mod bind;
mod bind_limit;
mod bind_slots;
mod volumes;
mod claims;
mod report;
mod evict;
mod hand_off;
mod rate;
mod publish;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::apiserver::event_writer::EventWriter;
use crate::apiserver::leadership::Leadership;
use crate::apiserver::lease::Candidate;
use crate::feed::kube::Observer;
use crate::service::State;
use bind_slots::BindSlots;
pub use options::{BindRate, SchedulerOptions};
use shared::Shared;

/// A running scheduler. Dropped without [`Scheduler::stop`] it ends at once, like a killed process.
pub struct Scheduler {
    shared: Arc<Shared>,
    stopping: watch::Sender<bool>,
    task: JoinHandle<bool>,
    candidate: Option<Candidate>,
    events: Option<EventWriter>,
}

impl Scheduler {
    /// Takes part in the election, if the options say so, and schedules the pods of the server's profiles as soon as
    /// the feed that uses [`Scheduler::observer`] is complete.
    #[must_use]
    pub(crate) fn start(
        client: kube::Client,
        state: Arc<State>,
        options: SchedulerOptions,
    ) -> Scheduler {
        let (candidate, leadership) = match options.lease.clone() {
            Some(lease) => {
                let (candidate, leadership) =
                    Candidate::stand(client.clone(), lease, state.assumptions.made_here());
                (Some(candidate), leadership)
            }
            None => (None, Leadership::always()),
        };
        // A server has one scheduler; readiness would not report a second one.
        drop(state.leadership.set(leadership.clone()));
        let slots = BindSlots::new(options.bind_concurrency);
        let (events, recorder) =
            EventWriter::start(client.clone(), &options.instance, slots.waiting());
        let shared = Shared::new(client, state, options, leadership, slots, recorder);
        let shared = Arc::new(shared);
        let (stopping, stop) = watch::channel(false);
        let running = run::run(shared.clone(), stop);
        let critical_tasks = shared.state.critical_tasks.clone();
        let task = tokio::spawn(async move {
            critical_tasks.run("the scheduler", running).await.unwrap_or(false)
        });
        Scheduler { shared, stopping, task, candidate, events: Some(events) }
    }

    /// Observer for the feed.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observer> {
        self.shared.clone()
    }

    /// Numbers of pods by queue.
    #[must_use]
    pub fn counts(&self) -> queue::Counts {
        self.shared.queue().counts()
    }

    /// Whether this instance may schedule now.
    #[must_use]
    pub fn is_leading(&self) -> bool {
        self.shared.is_leading()
    }

    /// Begins nothing new, waits for the work under way, and releases the leadership. If some work is still under way
    /// at the time limit, the Lease is left to expire: until then no other instance binds.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        let is_done = (&mut self.task).await.unwrap_or(false);
        match self.candidate.take() {
            Some(candidate) if is_done => candidate.resign().await,
            Some(_) => tracing::warn!("bindings are under way still: the Lease runs out by itself"),
            None => {}
        }
        if let Some(events) = self.events.take() {
            events.finish().await;
        }
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.task.abort();
    }
}
