//! `berth demo`: the whole service on a synthetic cluster, in one command.

mod progress;
mod story;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use berth_loadgen::client::{Client, Mode, PlaceOptions};
use berth_loadgen::cluster::{ClusterSpec, SyntheticCluster};
use berth_loadgen::load::{self, Limit, LoadSpec};
use berth_loadgen::report::LoadReport;
use berth_loadgen::workload::{self, WorkloadSpec};
use berth_proto::berth_v1::PlaceMode;
use berth_proto::core_v1::Pod;

use super::CliError;
use super::output;
use crate::clock;
use crate::config::Config;
use crate::runtime::{Server, ServerOptions, StartError};
use progress::Progress;

/// Pods of one streamed request.
const PODS_PER_BATCH: usize = 500;
/// One call a pod: enough for a stable 99th percentile, few enough to be over soon.
const MAX_UNARY_PODS: usize = 5_000;
const N_CONNECTIONS: usize = 4;

/// Starts a server with a synthetic cluster, places a mixed workload through gRPC, and shows what happened
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Pods to place
    #[arg(long, value_name = "N", default_value_t = 25_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pods: u32,
    /// Seed of cluster and workload
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Stop at the end instead of serving on
    #[arg(long)]
    exit: bool,
}

/// Runs the command; the status is 1 when a call failed.
///
/// # Errors
/// A server that cannot start, or a client that loses it.
pub async fn run(args: DemoArgs) -> Result<ExitCode, CliError> {
    let server = start().await?;
    let url = format!("http://{}", server.grpc_address());
    output::print(&format!(
        "berth serves gRPC on {url} and HTTP on http://{}",
        server.http_address()
    ))?;
    let client = Client::connect(&url, N_CONNECTIONS).await.map_err(failed)?;

    feed(&args, &client).await?;
    let spec =
        WorkloadSpec { n_pods: index(args.pods), seed: args.seed, ..WorkloadSpec::default() };
    let pods = workload::generate(&spec);
    let (unary, streamed) = pods.split_at(n_unary(pods.len()));
    let unary = place(&client, unary, Mode::Unary).await?;
    let streamed = if streamed.is_empty() {
        None
    } else {
        Some(place(&client, streamed, Mode::Stream).await?)
    };
    let cluster = client.get_cluster().await.map_err(failed)?;
    let reports: Vec<&LoadReport> = std::iter::once(&unary).chain(&streamed).collect();
    output::print(&story::outcome(&reports, &cluster))?;

    let has_errors = reports.iter().any(|report| report.n_errors > 0);
    if !args.exit {
        output::print(&story::hints(&url, server.http_address()))?;
        tokio::signal::ctrl_c().await.map_err(CliError::Signals)?;
    }
    drop(client);
    server.shutdown().await;
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A server on the usual ports, or on free ones when those are taken.
async fn start() -> Result<Server, CliError> {
    let usual = Config::default();
    let options = ServerOptions {
        grpc_address: usual.grpc_address,
        http_address: usual.http_address,
        drain_grace_period: Duration::from_secs(5),
        ..ServerOptions::default()
    };
    match Server::start(options.clone()).await {
        Err(StartError::Listen { source, .. }) if source.kind() == io::ErrorKind::AddrInUse => {
            let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            Ok(Server::start(ServerOptions { grpc_address: free, http_address: free, ..options })
                .await?)
        }
        started => Ok(started?),
    }
}

/// Makes the cluster and sends it through `ClusterService.Sync`, as any feeder would.
async fn feed(args: &DemoArgs, client: &Client) -> Result<(), CliError> {
    let spec =
        ClusterSpec { n_nodes: index(args.nodes), seed: args.seed, ..ClusterSpec::default() };
    let generated = tokio::task::spawn_blocking(move || SyntheticCluster::generate(&spec));
    let cluster = generated.await.map_err(failed)?.map_err(failed)?;
    let (n_nodes, n_pods) = (cluster.nodes.len(), cluster.pods.len());
    let what = format!("feeding {} and {}", nodes(n_nodes), running_pods(n_pods));
    let progress = Progress::start(&what, to_u64(n_nodes + n_pods));
    let started = clock::now();
    let fed =
        client.feed(cluster.nodes, cluster.pods, progress.callback()).await.map_err(failed)?;
    let elapsed = clock::now() - started;
    progress.finish();
    for refused in &fed.refused {
        output::note(&format!("refused: {refused}"));
    }
    let (fed_nodes, fed_pods) = (nodes(n_nodes), running_pods(n_pods));
    output::print(&format!("fed {fed_nodes} with {fed_pods} in {:.1} s", elapsed.as_secs_f64()))?;
    Ok(())
}

/// Places and keeps the pods, in one of the three ways; several callers at a time.
async fn place(client: &Client, pods: &[Pod], mode: Mode) -> Result<LoadReport, CliError> {
    let (batch_size, concurrency, how) = match mode {
        Mode::Unary => (1, N_CONNECTIONS, "one call a pod"),
        Mode::Batch => (PODS_PER_BATCH, N_CONNECTIONS, "in batches"),
        Mode::Stream => (PODS_PER_BATCH, 2 * N_CONNECTIONS, "over streams"),
    };
    let progress = Progress::start(
        &format!("placing {}, {how}", story::pods(to_u64(pods.len()))),
        to_u64(pods.len()),
    );
    let spec = LoadSpec {
        mode,
        options: PlaceOptions { mode: PlaceMode::Assume, ..PlaceOptions::default() },
        concurrency,
        batch_size,
        limit: Limit::Pods(to_u64(pods.len())),
        ..LoadSpec::default()
    };
    let report =
        load::run(client, Arc::from(pods), &spec, progress.callback()).await.map_err(failed)?;
    progress.finish();
    Ok(report)
}

/// How many of the pods go one by one: a fifth at most, and whatever does not fill a batch.
fn n_unary(n_pods: usize) -> usize {
    let n_streamed = n_pods - (n_pods / 5).min(MAX_UNARY_PODS);
    n_pods - n_streamed / PODS_PER_BATCH * PODS_PER_BATCH
}

fn failed(error: impl std::fmt::Display) -> CliError {
    CliError::Request(error.to_string())
}

fn nodes(n: usize) -> String {
    output::count(to_u64(n), "node")
}

fn running_pods(n: usize) -> String {
    output::count(to_u64(n), "running pod")
}

fn index(n: u32) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_is_placed_once_and_streams_carry_full_batches() {
        for n_pods in [1, 499, 500, 624, 625, 626, 25_000, 1_000_000] {
            let n = n_unary(n_pods);
            assert!(n >= 1 && n <= n_pods, "{n_pods}: {n}");
            assert!((n_pods - n).is_multiple_of(PODS_PER_BATCH), "{n_pods}: {n}");
            assert!(n < MAX_UNARY_PODS + PODS_PER_BATCH, "{n_pods}: {n}");
        }
    }
}
