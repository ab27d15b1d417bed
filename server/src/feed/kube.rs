//! The API-server feed: lists and watches every kind that decisions read, across all namespaces.
//!
//! One task per kind ([`watch`]) reads its stream, cuts it into lines ([`lines`]), parses and compiles each object at
//! once ([`object_change`]) and drops its text; the result goes through a bounded channel to one thread ([`apply`]),
//! which applies it to the cluster batch by batch and notifies the observer. Memory is limited by the channel and the
//! longest line, whatever the server sends.
//!
//! An object with a bad field is refused alone, and counted; an object that was known before keeps its last valid
//! facts.

mod answer;
mod apply;
mod event;
mod failure;
mod garbage;
mod lines;
mod listing;
mod observer;
mod pace;
mod page;
mod refusals;
mod reporter;
mod request;
mod resource;
mod object_change;
mod watch;
mod watches;
mod trouble;

use std::sync::Arc;

use kube::Client;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;

pub use answer::Refusal;
pub use event::{Decoder, Event};
pub use garbage::{Garbage, NoObject};
pub use lines::MAX_LINE_BYTES;
pub use object_change::{Change, ObjectChange, Who};
pub use observer::{NodeChange, Observer};
pub use pace::Pace;
pub use page::{BadPage, Page};
pub use resource::Resource;
pub use watches::Watches;

use crate::clock;
use crate::feed::FeedSink;
use apply::{Applier, MAX_BATCH};
use request::Requests;
use watch::Watcher;

/// Number of compiled objects that may wait for the cluster.
const MAX_WAITING: usize = 2 * MAX_BATCH;

/// A running feed. Dropped, it stops; the cluster stays unchanged then, and becomes stale.
pub struct KubeFeed {
    tasks: Vec<AbortHandle>,
    watches: Arc<Watches>,
}

impl KubeFeed {
    /// Starts to list and watch. The server is ready once the first list of every kind is complete; from then on no
    /// other feed changes the cluster. Needs a Tokio runtime.
    pub(crate) fn start(
        pace: Pace,
        client: Client,
        sink: &FeedSink,
        observer: Option<Arc<dyn Observer>>,
    ) -> KubeFeed {
        let watches = Arc::new(Watches::new(pace, clock::now()));
        sink.freshness.begin_watch(watches.clone());
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let relist_pods = Arc::new(Notify::new());
        let keeps_pods = observer.is_some();
        let applier = Applier::new(sink.clone(), watches.clone(), observer, relist_pods.clone());
        let applying = tokio::task::spawn_blocking(move || applier.run(receiver));
        let critical_tasks = sink.critical_tasks.clone();
        tokio::spawn(async move {
            if applying.await.is_err_and(|error| error.is_panic()) {
                critical_tasks.note_crashed("the API-server feed");
            }
        });
        let requests = Requests { client, silence: pace.silence };
        let watchers = Resource::ALL.map(|resource| {
            let watcher = Watcher {
                resource,
                requests: requests.clone(),
                sink: sink.clone(),
                watches: watches.clone(),
                messages: sender.clone(),
                pace,
                keeps_pods,
                counts: sink.metrics.feed().kind(resource.kind()),
                relist: if resource == Resource::Pods {
                    relist_pods.clone()
                } else {
                    Arc::new(Notify::new())
                },
            };
            let critical_tasks = sink.critical_tasks.clone();
            let watching = async move {
                critical_tasks.run("a watch of the API-server feed", watcher.run()).await;
            };
            tokio::spawn(watching).abort_handle()
        });
        let reporting = tokio::spawn(reporter::run(watches.clone())).abort_handle();
        let tasks = watchers.into_iter().chain([reporting]).collect();
        KubeFeed { tasks, watches }
    }

    /// Lets every kind that waits after a failure try again at once, whenever `renewals` changes.
    pub fn retry_after(&mut self, mut renewals: tokio::sync::watch::Receiver<u64>) {
        let watches = self.watches.clone();
        let waking = async move {
            while renewals.changed().await.is_ok() {
                watches.wake();
            }
        };
        self.tasks.push(tokio::spawn(waking).abort_handle());
    }
}

impl Drop for KubeFeed {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}
