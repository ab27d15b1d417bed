//! `berth-loadgen run`: places a synthetic workload in an open or closed loop.

use std::path::PathBuf;
use std::process::ExitCode;

use berth_client::{Client, Credentials, Mode, PlaceOptions};
use berth_proto::berth_v1::PlaceMode;
use berth_synthetic::workload::{self, Mix, WorkloadSpec};
use clap::{Args, ValueEnum};

use super::feed::FeedFlags;
use super::interrupt::Interrupt;
use super::output_file::OutputFile;
use super::{CommandError, Output, TieBreakFlag, print, progress, seconds};
use crate::load::{self, Arrival, Limit, LoadSpec};
use crate::report::{html, table};

/// Flags of `run`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Flags {
    /// gRPC address of the server, for example http://127.0.0.1:7420.
    #[arg(long, env = "BERTH_SERVER", value_name = "URL")]
    server: String,
    /// Credentials of the client.
    #[command(flatten)]
    credentials: Credentials,
    /// The RPC that places the pods.
    #[arg(long, value_enum, default_value_t = Mode::Unary)]
    mode: Mode,
    /// Closed: a request when a caller is free. Open: requests at --rate, latency counted from their intended start.
    #[arg(long, value_enum, default_value_t = ArrivalFlag::Closed)]
    arrival: ArrivalFlag,
    /// Pods a second in an open loop.
    #[arg(long, value_name = "PODS/S", required_if_eq("arrival", "open"))]
    rate: Option<f64>,
    /// Connections to the server.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Limit of requests in flight, over all connections.
    #[arg(long, default_value_t = 16)]
    concurrency: usize,
    /// Pods a request, in the batch and stream modes [default: 1 unary, 100 batch and stream].
    #[arg(long)]
    batch_size: Option<usize>,
    /// Replicas sent as one entry of a batch; divides --batch-size.
    #[arg(long, default_value_t = 1)]
    replicas: u32,
    /// Pods to place, rounded up to whole requests [default: 10,000 without --duration].
    #[arg(long, conflicts_with = "duration")]
    pods: Option<u64>,
    /// Start requests for this many seconds instead.
    #[arg(long, value_name = "SECONDS")]
    duration: Option<f64>,
    /// Pods placed before measuring starts.
    #[arg(long, default_value_t = 0, value_name = "PODS")]
    warmup: u64,
    /// The server assumes the placed pods.
    #[arg(long, conflicts_with = "dry_run")]
    assume: bool,
    /// Dry run: the server's cluster stays unchanged (the default).
    #[arg(long)]
    dry_run: bool,
    /// Delete the assumed pods at the end.
    #[arg(long, requires = "assume")]
    release: bool,
    /// Rule for nodes with equal totals.
    #[arg(long, value_enum, default_value_t = TieBreakFlag::Server)]
    tie_break: TieBreakFlag,
    /// Timeout of a request in seconds.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS")]
    timeout: f64,
    /// Kinds of pods and their weights, for example web=8,gpu=1 [default: a mix of all].
    #[arg(long, value_name = "KIND=WEIGHT,…")]
    mix: Option<Mix>,
    /// Seed of cluster, workload and seeded ties.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    cluster: FeedFlags,
    /// Format of the report.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Also write the report as a page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ArrivalFlag {
    Closed,
    Open,
}

/// Pods generated for a run of limited time; they are repeated under new names.
const PODS_OF_A_TIMED_RUN: usize = 20_000;

/// Limit of the generated pods, because each takes about a kilobyte; a longer run repeats them.
const MAX_DIFFERENT_PODS: usize = 200_000;

/// Feeds, places and reports. Exit code 1 if a pod got no decision or was not released; 130 or 143 after a signal,
/// which ends the run early.
pub async fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    let spec = load_spec(&flags)?;
    spec.check()?;
    let page = flags.html.as_deref().map(OutputFile::open).transpose()?;
    let client =
        Client::connect_with(&flags.server, flags.connections.into(), &flags.credentials).await?;
    let (n_pods, length) = match spec.limit {
        Limit::Pods(n_pods) => {
            let n_pods = n_pods.saturating_add(spec.n_warmup_pods);
            (usize::try_from(n_pods).unwrap_or(usize::MAX), Some(n_pods))
        }
        Limit::Duration(_) => (PODS_OF_A_TIMED_RUN, None),
    };
    let workload = WorkloadSpec {
        n_pods: n_pods.min(MAX_DIFFERENT_PODS),
        mix: flags.mix.clone().unwrap_or_default(),
        seed: flags.seed,
    };
    let pods = workload::generate(&workload);
    flags.cluster.feed(&client, flags.seed, &pods).await?;
    let (bar, on_progress) = progress("placing", length);
    let interrupt = Interrupt::listen("waiting for the requests in flight")?;
    let report =
        load::run_until(&client, pods.into(), &spec, on_progress, interrupt.received()).await?;
    bar.finish_and_clear();
    print(flags.output, &table::render(&report), &report)?;
    if let Some(page) = page {
        page.write(&html::render(&report))?;
    }
    let is_good = report.n_errors == 0 && report.release_failure.is_none();
    let code = if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(interrupt.exit_code().unwrap_or(code))
}

fn load_spec(flags: &Flags) -> Result<LoadSpec, CommandError> {
    let limit = match (flags.pods, flags.duration) {
        (Some(n_pods), _) => Limit::Pods(n_pods),
        (None, Some(duration)) => Limit::Duration(seconds("duration", duration)?),
        (None, None) => Limit::Pods(10_000),
    };
    let arrival = match (flags.arrival, flags.rate) {
        (ArrivalFlag::Closed, None) => Arrival::Closed,
        (ArrivalFlag::Closed, Some(_)) => {
            return Err(CommandError::Flags("`--rate` needs `--arrival open`".to_owned()));
        }
        (ArrivalFlag::Open, rate) => Arrival::Open { pods_per_second: rate.unwrap_or_default() },
    };
    Ok(LoadSpec {
        mode: flags.mode,
        options: PlaceOptions {
            mode: if flags.assume { PlaceMode::Assume } else { PlaceMode::DryRun },
            tie_break: flags.tie_break.to_wire(flags.seed),
            timeout: seconds("timeout", flags.timeout)?,
            ..PlaceOptions::default()
        },
        arrival,
        concurrency: flags.concurrency,
        batch_size: flags.batch_size.unwrap_or(if flags.mode == Mode::Unary { 1 } else { 100 }),
        replicas: flags.replicas,
        limit,
        n_warmup_pods: flags.warmup,
        release: flags.release,
    })
}
