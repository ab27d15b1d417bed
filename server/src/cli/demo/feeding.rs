//! Feeds the synthetic cluster of the demo.

use berth_client::Client;
use berth_proto::berth_v1::delta::Change;
use berth_proto::core_v1::Pod;
use berth_synthetic::cluster::{ClusterSpec, SyntheticCluster};

use super::progress::Progress;
use crate::cli::{CliError, output};
use crate::clock;

/// Generates the cluster with the services of the pods to place, and feeds it through `ClusterService.Sync`.
pub(super) async fn feed(
    client: &Client,
    (n_nodes, seed): (usize, u64),
    pods_to_place: &[Pod],
) -> Result<(), CliError> {
    let spec = ClusterSpec { n_nodes, seed, ..ClusterSpec::default() };
    let generated = tokio::task::spawn_blocking(move || SyntheticCluster::generate(&spec));
    let mut cluster = generated.await.map_err(failed)?.map_err(failed)?;
    cluster.add_services_of(pods_to_place);
    let what = format!("{} with {}", nodes(cluster.nodes.len()), running_pods(cluster.pods.len()));
    feed_changes(client, cluster.into_changes().collect(), &what).await
}

/// Feeds objects, with progress on standard error.
pub(super) async fn feed_changes(
    client: &Client,
    changes: Vec<Change>,
    what: &str,
) -> Result<(), CliError> {
    let progress = Progress::start(&format!("feeding {what}"), to_u64(changes.len()));
    let started = clock::now();
    let fed = client.feed(changes.into_iter(), progress.callback()).await.map_err(failed)?;
    let elapsed = clock::now() - started;
    progress.finish();
    for refused in &fed.refused {
        output::note(&format!("refused: {refused}"));
    }
    Ok(output::show(&format!("fed {what} in {:.1} s", elapsed.as_secs_f64()))?)
}

pub(super) fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Request(error.to_string())
}

pub(super) fn nodes(n: usize) -> String {
    output::count(n, "node")
}

pub(super) fn running_pods(n: usize) -> String {
    output::count(n, "running pod")
}

pub(super) fn index(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

pub(super) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
