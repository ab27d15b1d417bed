//! The cluster of an API server, read once: the feed of a server, until every kind is listed.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::Cluster;

use crate::apiserver::{KubeOptions, connect};
use crate::cli::CliError;
use crate::clock;
use crate::critical_task::CriticalTasks;
use crate::feed::kube::{KubeFeed, Pace};
use crate::feed::{FeedSink, Freshness, LongWrites};
use crate::telemetry::Metrics;

/// How long the lists may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a kind may be refused, or the API server be away, before the command gives up.
const TROUBLE: Duration = Duration::from_secs(5);
/// Time between two looks at what is missing.
const LOOK: Duration = Duration::from_millis(250);

/// Reads the cluster of an API server.
///
/// # Errors
/// A kubeconfig that cannot be used, an API server that does not answer or refuses a kind.
pub(super) async fn read(options: &KubeOptions) -> Result<Cluster, CliError> {
    let client = connect(options).await?;
    let freshness = Arc::new(Freshness::default());
    let sink = FeedSink {
        cluster: Arc::new(Cluster::new()),
        freshness: freshness.clone(),
        metrics: Arc::new(Metrics::new()),
        long_writes: LongWrites::default(),
        critical_tasks: CriticalTasks::default(),
    };
    let began = clock::now();
    let feed = KubeFeed::start(Pace::default(), client, &sink, None);
    let mut completed = freshness.completed();
    while !freshness.is_complete() {
        // An elapsed time only means another look.
        drop(tokio::time::timeout(LOOK, completed.wait_for(|is_complete| *is_complete)).await);
        let waited = clock::now().saturating_duration_since(began);
        let Some(watches) = freshness.watches() else { continue };
        let is_too_long =
            waited >= if watches.has_trouble(clock::now()) { TROUBLE } else { PATIENCE };
        if is_too_long && let Err(missing) = watches.report(clock::now()) {
            return Err(CliError::Request(missing));
        }
    }
    // What the watches tell from now on is another cluster.
    let cluster = sink.cluster.fork();
    drop(feed);
    Ok(cluster)
}
