//! Flags of the synthetic cluster that a command can feed first.

use berth_client::Client;
use berth_proto::core_v1::Pod;
use berth_synthetic::cluster::{ClusterSpec, SyntheticCluster};
use clap::{Args, ValueEnum};

use super::{CommandError, progress};

/// Settings of the synthetic cluster.
#[derive(Debug, Args)]
pub(super) struct FeedFlags {
    /// Replaces the server's whole cluster first; without this flag the cluster stays unchanged.
    #[arg(long, value_enum)]
    feed: Option<FeedFlag>,
    /// Nodes of the synthetic cluster.
    #[arg(long, default_value_t = 5_000, requires = "feed", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    nodes: u32,
    /// Zones of the synthetic cluster.
    #[arg(long, default_value_t = 3, requires = "feed")]
    zones: usize,
    /// Running pods a node of the synthetic cluster.
    #[arg(long, default_value_t = 30, requires = "feed")]
    pods_per_node: usize,
    /// Share of the synthetic cluster's CPU that is requested.
    #[arg(long, default_value_t = 0.6, requires = "feed")]
    utilization: f64,
    /// Share of the synthetic cluster's nodes with a taint.
    #[arg(long, default_value_t = 0.2, requires = "feed")]
    tainted_share: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FeedFlag {
    /// A generated cluster of --nodes, --zones and so on.
    Synthetic,
}

impl FeedFlags {
    /// Feeds the cluster, with the Services of the pods to place, if `--feed` is given.
    pub(super) async fn feed(
        &self,
        client: &Client,
        seed: u64,
        pods: &[Pod],
    ) -> Result<(), CommandError> {
        let Some(FeedFlag::Synthetic) = self.feed else { return Ok(()) };
        let spec = ClusterSpec {
            n_nodes: self.nodes as usize,
            n_zones: self.zones,
            pods_per_node: self.pods_per_node,
            utilization: self.utilization,
            tainted_share: self.tainted_share,
            seed,
            ..ClusterSpec::default()
        };
        let mut cluster = SyntheticCluster::generate(&spec)?;
        cluster.add_services_of(pods);
        let (bar, on_progress) = progress("feeding", Some(cluster.n_objects() as u64));
        let fed = client.feed(cluster.into_changes(), on_progress).await?;
        bar.finish_and_clear();
        match fed.refused.first() {
            None => Ok(()),
            Some(first) => {
                Err(CommandError::Refused { n: fed.refused.len(), first: first.to_string() })
            }
        }
    }
}
