//! Notices that a fence may have changed in etcd, whichever replica changed it.

use std::time::Duration;

use berth_etcd::rpc::WatchCreateRequest;
use berth_etcd::{Client, EtcdError, range};
use tokio::sync::watch;

use super::layout::Layout;
use crate::ledger::Key;

/// Time until a watch that ended is opened again.
const PAUSE: Duration = Duration::from_millis(500);

/// Counts the changes in `news`. Runs until it is aborted.
pub(super) async fn follow(client: Client, layout: Layout, news: watch::Sender<u64>) {
    loop {
        // Whatever the error: what was missed meanwhile shows once the next watch is open.
        if let Err(error) = follow_one(&client, &layout, &news).await {
            tracing::debug!(%error, "the watch of fences in etcd ended");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Follows one watch to its end.
async fn follow_one(
    client: &Client,
    layout: &Layout,
    news: &watch::Sender<u64>,
) -> Result<(), EtcdError> {
    let key = layout.record(Key::FENCES).into_bytes();
    let range_end = range::end_of_prefix(&key);
    let request = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
    let mut watch = client.watch(request).await?;
    loop {
        // The first message says that the watch is open: from then on nothing is missed.
        watch.next().await?;
        news.send_modify(|n| *n = n.wrapping_add(1));
    }
}
