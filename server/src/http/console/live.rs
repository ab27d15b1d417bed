//! Live: tells all open consoles together what changes: each change is found and written once, however many look on, and
//! not at all while nobody does.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use berth_engine::Snapshot;
use berth_proto::MicroTime;
use berth_proto::berth_v1::WatchDecisionsResponse;
use serde::Serialize;
use tokio::sync::broadcast::{self, Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval};

use super::columns;
use crate::clock;
use crate::service::watchers::Watcher;
use crate::service::{Cancel, Deadline, State, cluster, convert};

/// Time between two looks at the cluster.
const TICK: Duration = Duration::from_millis(500);
/// The sizes of the cluster are told at every tick whose number is a multiple of this.
const COUNTS_EVERY: u64 = 2;
/// Maximum number of decisions that are told at a tick: more, nobody could read.
const MAX_DECISIONS: usize = 20;
/// If more rows than these have changed, consoles read all of them anew.
const MAX_ROWS: usize = 20_000;
/// Number of events that a console may lag behind before it has to read everything anew.
const MAX_WAITING: usize = 64;

/// An event that says that some changes are not told: read everything anew.
pub(super) const RESYNC: &str = "event: resync\ndata: \n\n";

/// What all consoles are told.
pub(super) struct Live {
    state: Arc<State>,
    told: Sender<Bytes>,
    is_running: Mutex<bool>,
}

impl Live {
    pub(super) fn new(state: Arc<State>) -> Live {
        Live { state, told: broadcast::channel(MAX_WAITING).0, is_running: Mutex::new(false) }
    }

    pub(super) fn state(&self) -> &Arc<State> {
        &self.state
    }

    /// Tells a console from now on; what it gets are events in their final form.
    pub(super) fn join(self: &Arc<Live>) -> Receiver<Bytes> {
        let mut is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.told.subscribe();
        if !*is_running {
            *is_running = true;
            tokio::spawn(self.clone().run());
        }
        receiver
    }

    /// Whether nobody looks on any more; then this task is over.
    fn is_over(&self) -> bool {
        let mut is_running = self.is_running.lock().unwrap_or_else(PoisonError::into_inner);
        *is_running = self.told.receiver_count() > 0;
        !*is_running
    }

    async fn run(self: Arc<Live>) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut seen, mut watcher) = (self.state.cluster.snapshot(), None);
        for tick in 0_u64.. {
            ticks.tick().await;
            if self.is_over() {
                return;
            }
            self.tell_nodes(&mut seen).await;
            if tick.is_multiple_of(COUNTS_EVERY) {
                self.tell("counts", &cluster::described(&self.state, &self.state.cluster));
            }
            watcher = watcher.or_else(|| self.state.watchers.join().ok());
            if let Some(watcher) = &mut watcher {
                self.tell_decisions(watcher);
            }
        }
    }

    /// Tells of the nodes that changed since the snapshot that was told last.
    async fn tell_nodes(&self, seen: &mut Arc<Snapshot>) {
        let (earlier, snapshot) = (seen.clone(), self.state.cluster.snapshot());
        if earlier.generation() == snapshot.generation() {
            return;
        }
        let now = snapshot.clone();
        let write = move |_: &Cancel| {
            let rows = now.rows_since(Some(&earlier));
            match rows.len() {
                0 => None,
                n if n > MAX_ROWS => Some(Bytes::from_static(RESYNC.as_bytes())),
                _ => {
                    let columns = columns::encode(&rows, now.generation().get(), &[]);
                    Some(event("nodes", &STANDARD.encode(columns)))
                }
            }
        };
        // A pool that is busy has time at another tick.
        if let Ok(told) = self.state.pool.run(Deadline(None), write).await {
            *seen = snapshot;
            told.into_iter().for_each(|told| self.send(told));
        }
    }

    fn tell_decisions(&self, watcher: &mut Watcher) {
        for decision in watcher.newest(MAX_DECISIONS) {
            let told = WatchDecisionsResponse {
                time: MicroTime::try_from_unix_microseconds(clock::unix_micros()),
                decision: Some(convert::decision((*decision).clone())),
                n_missed: watcher.n_missed(),
            };
            watcher.forget_missed();
            self.tell("decision", &told);
        }
    }

    fn tell(&self, name: &str, message: &impl Serialize) {
        match serde_json::to_string(message) {
            Ok(text) => self.send(event(name, &text)),
            Err(error) => tracing::error!("a console cannot be told of {name}: {error}"),
        }
    }

    fn send(&self, event: Bytes) {
        // An error means that the last console has just gone.
        drop(self.told.send(event));
    }
}

/// A server-sent event; `data` has no line breaks.
fn event(name: &str, data: &str) -> Bytes {
    format!("event: {name}\ndata: {data}\n\n").into()
}
