//! `berth demo`: the whole service on a synthetic cluster, in one command.

mod compare;
mod gpus;
mod load;
mod progress;
mod replicas;
mod story;
mod connections;
mod feeding;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use berth_client::Client;
use berth_proto::berth_v1::ExplainRequest;
use berth_proto::berth_v1::delta::Change;
use berth_proto::core_v1::Pod;
use berth_synthetic::workload::{self, WorkloadSpec};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{CliError, manifest, output};
use crate::clock;
use crate::config::file::{parse_address, parse_seed};
use crate::config::{Config, Overrides};
use crate::net::ListenError;
use crate::runtime::{Limits, LoadLimits, Server, ServerOptions, StartError};
use connections::N_CONNECTIONS;
use feeding::{failed, feed, feed_changes, index, nodes, to_u64};
use gpus::Asking;
use load::{Method, Run};
use progress::Progress;

/// Pods to place without `--gpus`.
const DEFAULT_PODS: u32 = 25_000;
/// Pods placed by one call each: enough for a stable 99th percentile, few enough to finish soon.
const MAX_UNARY_PODS: usize = 5_000;
/// Limit of the time that a call of the demo waits in the server's queue.
const MAX_QUEUE_TIME: Duration = Duration::from_secs(60);

/// Starts a server with a synthetic cluster, places a mixed workload through gRPC, and shows what happened
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXIT_STATUS)]
pub struct DemoArgs {
    /// Nodes of the cluster
    #[arg(long, value_name = "N", default_value_t = 5_000, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Pods to place [default: 25000; with --gpus one for each node]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pods: Option<u32>,
    /// Give each node eight GPUs, half of them in use, and place pods with claims for GPUs
    #[arg(long)]
    gpus: bool,
    /// Run so many servers that share an etcd, which has to be installed, and kill the one that commits
    #[arg(long, value_name = "N", conflicts_with_all = ["gpus", "grpc_address", "http_address"], value_parser = clap::value_parser!(u32).range(2..=9))]
    replicas: Option<u32>,
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

const ENDED_EARLY: &str = "ended before everything was placed";
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
    if let Some(n_replicas) = args.replicas {
        return run_replicas(&args, n_replicas, stop).await;
    }
    let server = start(&args).await?;
    let outcome = tokio::select! {
        outcome = story(&args, &server) => outcome,
        () = stop.signal() => {
            output::note(ENDED_EARLY);
            Ok(ExitCode::FAILURE)
        }
    };
    if outcome.is_ok() && !args.exit && stop.last.is_none() {
        let url = format!("http://{}", server.grpc_address());
        output::show(&story::hints(&url, server.http_address()))?;
        stop.signal().await;
    }
    tokio::select! {
        _ = server.shutdown() => outcome,
        () = stop.signal() => Ok(ExitCode::FAILURE),
    }
}

/// The demo with several servers, which are processes of their own.
async fn run_replicas(
    args: &DemoArgs,
    n_replicas: u32,
    mut stop: Stop,
) -> Result<ExitCode, CliError> {
    let spec = replicas::Spec {
        n_replicas,
        n_nodes: index(args.nodes),
        n_pods: args.pods.map(index),
        seed: args.seed,
    };
    let told = tokio::select! {
        told = replicas::story(&spec) => told?,
        () = stop.signal() => {
            output::note(ENDED_EARLY);
            return Ok(ExitCode::FAILURE);
        }
    };
    let (processes, status) = told;
    if !args.exit
        && let Some(replica) = processes.replicas.first()
    {
        output::show(&story::hints(&replica.url(), replica.http()))?;
        stop.signal().await;
    }
    Ok(status)
}

/// Feeds the cluster, places the pods and prints the story. The status is a failure if a pod had no decision.
async fn story(args: &DemoArgs, server: &Server) -> Result<ExitCode, CliError> {
    let url = format!("http://{}", server.grpc_address());
    output::show(&format!(
        "berth serves gRPC on {url} and HTTP on http://{}",
        server.http_address()
    ))?;
    let client = Client::connect(&url, N_CONNECTIONS).await.map_err(failed)?;
    if args.gpus {
        return story_of_gpus(args, server, &client).await;
    }
    let n_pods = index(args.pods.unwrap_or(DEFAULT_PODS));
    let spec = WorkloadSpec { n_pods, seed: args.seed, ..WorkloadSpec::default() };
    let pods = workload::generate(&spec);
    feed(&client, (index(args.nodes), args.seed), &pods).await?;
    let example = pods.first().cloned();
    let has_errors = place_all(&client, pods).await?;
    account(&client, example).await?;
    compare(args).await?;
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The same with GPUs: decisions are timed first, and a pod that fits nowhere is explained in the end.
async fn story_of_gpus(
    args: &DemoArgs,
    server: &Server,
    client: &Client,
) -> Result<ExitCode, CliError> {
    let n_nodes = index(args.nodes);
    let asking = Asking::new(index(args.pods.unwrap_or(args.nodes)), n_nodes);
    let objects = asking.objects(n_nodes);
    let what = format!("{} with {}", nodes(n_nodes), gpus::counts(n_nodes));
    feed_changes(client, objects, &what).await?;
    let measured = asking.measure(server.cluster()).map_err(failed)?;
    let has_errors = place_all(client, asking.pods).await?;
    explain(client, asking.unfit).await?;
    output::show(&format!("\n{measured}"))?;
    Ok(if has_errors { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Places the pods, some by one call each and the others over streams, and shows how it went. Returns whether any pod
/// had no decision.
async fn place_all(client: &Client, pods: Vec<Pod>) -> Result<bool, CliError> {
    let mut unary = pods;
    let streamed = unary.split_off(n_unary(unary.len()));
    let mut runs = vec![place(client, unary, Method::Unary).await?];
    if !streamed.is_empty() {
        runs.push(place(client, streamed, Method::Stream).await?);
    }
    let cluster = client.get_cluster().await.map_err(failed)?;
    output::show(&story::outcome(&runs, &cluster))?;
    Ok(runs.iter().any(|run| run.outcomes.n_errors() > 0))
}

/// Shows where one more replica of the pod would go, and why.
async fn account(client: &Client, example: Option<Pod>) -> Result<(), CliError> {
    let Some(mut pod) = example else { return Ok(()) };
    let metadata = pod.metadata.get_or_insert_default();
    metadata.name.push_str("-more");
    metadata.uid.clone_from(&metadata.name);
    explain(client, pod).await
}

/// Shows where a pod would go, or why it fits nowhere.
async fn explain(client: &Client, pod: Pod) -> Result<(), CliError> {
    let name = manifest::name_of(&pod);
    let request = ExplainRequest { pod: Some(pod), ..ExplainRequest::default() };
    let answer = client.placement(0).explain(request).await;
    let answer = answer.map_err(|status| failed(status.message()))?.into_inner();
    Ok(output::show(&story::account(&name, &answer))?)
}

/// Times single decisions on a second server, with the cluster that kube-scheduler was measured on.
async fn compare(args: &DemoArgs) -> Result<(), CliError> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let options =
        ServerOptions { grpc_address: free, http_address: free, ..ServerOptions::default() };
    let server = Server::start(options).await?;
    let url = format!("http://{}", server.grpc_address());
    let client = Client::connect(&url, 1).await.map_err(failed)?;
    let n_nodes = index(args.nodes);
    let objects: Vec<Change> = compare::objects(n_nodes).collect();
    let n_objects = to_u64(objects.len());
    let progress = Progress::start("feeding the cluster of the comparison", n_objects);
    let fed = client.feed(objects.into_iter(), progress.callback()).await;
    progress.finish();
    fed.map_err(failed)?;
    let measured = compare::measure(server.cluster(), &client).await;
    drop(client);
    server.shutdown().await;
    let measured = measured.map_err(failed)?;
    Ok(output::show(&format!("\n{}", measured.text()))?)
}

/// SIGTERM and Ctrl-C, either of which ends the demo.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
    last: Option<Instant>,
}

/// Time within which a repeated signal counts once: a terminal and a parent process may both send it.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

impl Stop {
    fn listen() -> Result<Stop, CliError> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate()).map_err(CliError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(CliError::Signals)?,
            last: None,
        })
    }

    /// Waits for either signal; a signal within [`SAME_SIGNAL`] of the last one is ignored.
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

/// Starts a server on the given addresses; for each address that is not given, on the default one or, if that is taken,
/// a free port.
async fn start(args: &DemoArgs) -> Result<Server, CliError> {
    let defaults = Config::resolve(None, &Overrides::default())?;
    let options = ServerOptions {
        grpc_address: args.grpc_address.unwrap_or(defaults.grpc_address),
        http_address: args.http_address.unwrap_or(defaults.http_address),
        drain_grace_period: Duration::from_secs(5),
        // The demo is its own client and calls as fast as it can, so its calls wait in the queue instead of being
        // refused.
        limits: Limits {
            load: LoadLimits { max_queue_time: MAX_QUEUE_TIME, ..LoadLimits::default() },
            // The pods that the demo has placed are there for as long as it serves.
            assume_ttl: Duration::ZERO,
            ..Limits::default()
        },
        ..ServerOptions::default()
    };
    match Server::start(options.clone()).await {
        Err(StartError::Listen(ListenError::Bind { address, source, .. }))
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

/// Places and assumes the pods, with progress on standard error.
async fn place(client: &Client, pods: Vec<Pod>, method: Method) -> Result<Run, CliError> {
    let n_pods = pods.len();
    let how = match method {
        Method::Unary => "one call a pod",
        Method::Stream => "over streams",
    };
    let progress = Progress::start(
        &format!("placing {}, {how}", output::count(n_pods, "pod")),
        to_u64(n_pods),
    );
    let run = load::place(client, pods, method, progress.callback()).await.map_err(failed)?;
    progress.finish();
    Ok(run)
}

/// Number of pods that are placed by one call each: at most a fifth, and those that do not fill a streamed batch.
fn n_unary(n_pods: usize) -> usize {
    let n_streamed = n_pods - (n_pods / 5).min(MAX_UNARY_PODS);
    let batch_size = Method::Stream.batch_size();
    n_pods - n_streamed / batch_size * batch_size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_is_placed_once_and_streams_carry_full_batches() {
        for n_pods in [1, 99, 100, 124, 125, 126, 25_000, 1_000_000] {
            let n = n_unary(n_pods);
            assert!(n >= 1 && n <= n_pods, "{n_pods}: {n}");
            let batch_size = Method::Stream.batch_size();
            assert!((n_pods - n).is_multiple_of(batch_size), "{n_pods}: {n}");
            assert!(n < MAX_UNARY_PODS + batch_size, "{n_pods}: {n}");
        }
    }
}
