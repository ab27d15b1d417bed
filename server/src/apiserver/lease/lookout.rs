//! Lookout: watches the Lease, so that an instance learns at once that it was released. It decides nothing, and an API
//! server that does not allow the watch costs only time.

use std::sync::Arc;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::WatchParams;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::StreamExt as _;

use super::options::LeaseOptions;

/// A watch of the Lease. Dropped, it ends.
pub(super) struct Lookout {
    changed: Arc<Notify>,
    task: JoinHandle<()>,
}

impl Lookout {
    pub(super) fn begin(client: kube::Client, options: &LeaseOptions) -> Lookout {
        let changed = Arc::new(Notify::new());
        let task = tokio::spawn(watch(client, options.clone(), changed.clone()));
        Lookout { changed, task }
    }

    /// Waits for a change of the Lease since the last one. Dropping the future loses none.
    pub(super) async fn changed(&self) {
        self.changed.notified().await;
    }
}

impl Drop for Lookout {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn watch(client: kube::Client, options: LeaseOptions, changed: Arc<Notify>) {
    let api: Api<Lease> = Api::namespaced(client, &options.namespace);
    let params = WatchParams::default().fields(&format!("metadata.name={}", options.name));
    loop {
        // Version 0: the Lease as it is, and every change of it.
        match api.watch(&params, "0").await {
            Ok(events) => {
                let mut events = std::pin::pin!(events);
                while let Some(Ok(_)) = events.next().await {
                    changed.notify_one();
                }
            }
            Err(error) => tracing::debug!("the Lease cannot be watched: {error}"),
        }
        tokio::time::sleep(options.lease_duration).await;
    }
}
