//! `berth demo`: the whole service on a synthetic cluster, in one command.

mod progress;
mod story;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use berth_loadgen::client::{Client, Mode, PlaceOptions};
use berth_loadgen::cluster::{ClusterSpec, SyntheticCluster};
use berth_loadgen::load::{self, Limit, LoadSpec};
use berth_loadgen::report::LoadReport;
use berth_loadgen::workload::{self, WorkloadSpec};
use berth_proto::berth_v1::PlaceMode;
use berth_proto::core_v1::Pod;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{CliError, output};
use crate::clock;
use crate::config::Config;
use crate::config::file::{parse_address, parse_seed};
use crate::runtime::{Limits, LoadLimits, Server, ServerOptions, StartError};
use progress::Progress;

/// Pods of one streamed request: few enough that a run has the hundreds of requests that percentiles need.
const PODS_PER_BATCH: usize = 100;
/// One call a pod: enough for a stable 99th percentile, few enough to be over soon.
const MAX_UNARY_PODS: usize = 5_000;
const N_CONNECTIONS: usize = 4;
/// How long a call of the demo's own load may wait for its turn.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts a server with a synthetic cluster, places a mixed workload through gRPC, and shows what happened
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct DemoArgs {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 5_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Pods to place
    #[arg(long, value_name = "N", default_value_t = 25_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pods: u32,
    /// Seed of cluster and workload
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = parse_seed)]
    seed: u64,
    /// Address of the gRPC listener [default: 127.0.0.1:7420, or a free port when that one is taken]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    grpc_address: Option<SocketAddr>,
    /// Address of the HTTP listener [default: 127.0.0.1:7421, or a free port when that one is taken]
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    http_address: Option<SocketAddr>,
    /// Stop at the end instead of serving on
    #[arg(long)]
    exit: bool,
}

const EXIT_STATUS: &str = "\
    Ends at Ctrl-C or SIGTERM, at any time, after the calls in flight; a second signal ends at once.\n\n\
    Exit status: 0 when every pod was decided; 1 when a call failed or the demo was ended before its story was; 2 for a \
    wrong command line.";

/// Runs the command; the status is 1 when a call failed or a signal came before everything was placed.
///
/// # Errors
/// A server that cannot start, or a client that loses it.
pub async fn run(args: DemoArgs) -> Result<ExitCode, CliError> {
    let mut stop = Stop::listen()?;
    let server = start(&args).await?;
    let outcome = tokio::select! {
        outcome = tell(&args, &server) => outcome,
        () = stop.signal() => {
            output::note("ended before everything was placed");
            Ok(ExitCode::FAILURE)
        }
    };
    if outcome.is_ok() && !args.exit && stop.last.is_none() {
        let url = format!("http://{}", server.grpc_address());
        output::print(&story::hints(&url, server.http_address()))?;
        stop.signal().await;
    }
    tokio::select! {
        _ = server.shutdown() => outcome,
        () = stop.signal() => Ok(ExitCode::FAILURE),
    }
}

/// Feeds, places and tells; whether every call was answered is the status.
async fn tell(args: &DemoArgs, server: &Server) -> Result<ExitCode, CliError> {
    let url = format!("http://{}", server.grpc_address());
    output::print(&format!(
        "berth serves gRPC on {url} and HTTP on http://{}",
        server.http_address()
    ))?;
    let client = Client::connect(&url, N_CONNECTIONS).await.map_err(failed)?;

    let spec =
        WorkloadSpec { n_pods: index(args.pods), seed: args.seed, ..WorkloadSpec::default() };
    let pods = workload::generate(&spec);
    feed(args, &client, &pods).await?;
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
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// SIGTERM and Ctrl-C, which mean the same here.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
    last: Option<Instant>,
}

/// A terminal and a parent that both pass a signal on mean one signal.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

impl Stop {
    fn listen() -> Result<Stop, CliError> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate()).map_err(CliError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(CliError::Signals)?,
            last: None,
        })
    }

    /// Waits for either; what follows the last one at once is the same.
    async fn signal(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => {}
                _ = self.interrupt.recv() => {}
            }
            let now = clock::now();
            if self.last.is_none_or(|last| now.saturating_duration_since(last) >= SAME_SIGNAL) {
                self.last = Some(now);
                return;
            }
        }
    }
}

/// A server on the addresses that were asked for; without any, on the usual ones or, when those are taken, on free ports.
async fn start(args: &DemoArgs) -> Result<Server, CliError> {
    let usual = Config::default();
    let options = ServerOptions {
        grpc_address: args.grpc_address.unwrap_or(usual.grpc_address),
        http_address: args.http_address.unwrap_or(usual.http_address),
        drain_grace_period: Duration::from_secs(5),
        // It is its own client, asks with all its might, and would rather wait.
        limits: Limits {
            load: LoadLimits { max_queue_time: PATIENCE, ..LoadLimits::default() },
            ..Limits::default()
        },
        ..ServerOptions::default()
    };
    match Server::start(options.clone()).await {
        Err(StartError::Listen { address, source, .. })
            if source.kind() == io::ErrorKind::AddrInUse
                && ![args.grpc_address, args.http_address].contains(&Some(address)) =>
        {
            let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let options = ServerOptions {
                grpc_address: args.grpc_address.unwrap_or(free),
                http_address: args.http_address.unwrap_or(free),
                ..options
            };
            Ok(Server::start(options).await?)
        }
        started => Ok(started?),
    }
}

/// Makes the cluster, with the services of the pods to come, and sends it through `ClusterService.Sync`, as any feeder would.
async fn feed(args: &DemoArgs, client: &Client, to_come: &[Pod]) -> Result<(), CliError> {
    let spec =
        ClusterSpec { n_nodes: index(args.nodes), seed: args.seed, ..ClusterSpec::default() };
    let generated = tokio::task::spawn_blocking(move || SyntheticCluster::generate(&spec));
    let mut cluster = generated.await.map_err(failed)?.map_err(failed)?;
    cluster.add_services_of(to_come);
    let (n_nodes, n_pods) = (cluster.nodes.len(), cluster.pods.len());
    let what = format!("feeding {} and {}", nodes(n_nodes), running_pods(n_pods));
    let progress = Progress::start(&what, to_u64(cluster.n_objects()));
    let started = clock::now();
    let fed = client.feed_cluster(cluster, progress.callback()).await.map_err(failed)?;
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
        &format!("placing {}, {how}", output::count(pods.len(), "pod")),
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
    output::count(n, "node")
}

fn running_pods(n: usize) -> String {
    output::count(n, "running pod")
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
        for n_pods in [1, 99, 100, 124, 125, 126, 25_000, 1_000_000] {
            let n = n_unary(n_pods);
            assert!(n >= 1 && n <= n_pods, "{n_pods}: {n}");
            assert!((n_pods - n).is_multiple_of(PODS_PER_BATCH), "{n_pods}: {n}");
            assert!(n < MAX_UNARY_PODS + PODS_PER_BATCH, "{n_pods}: {n}");
        }
    }
}
