//! `berth-loadgen overload`: sends more load than a server can take.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use berth_client::{Client, Credentials};
use berth_synthetic::workload::{Kind, Mix};
use clap::Args;

use super::feed::FeedFlags;
use super::interrupt::Interrupt;
use super::output_file::OutputFile;
use super::{CommandError, Output, print, print_message, seconds};
use crate::overload::work::WorkKind;
use crate::overload::{self, OverloadSpec};
use crate::report::overload::{markdown, picture};

/// Flags of `overload`.
#[derive(Debug, Args)]
#[command(allow_negative_numbers = true)]
pub struct Flags {
    /// gRPC address of the server, for example http://127.0.0.1:7420.
    #[arg(long, env = "BERTH_SERVER", value_name = "URL")]
    server: String,
    #[command(flatten)]
    credentials: Credentials,
    /// The RPC of the calls. On the server's own machine a generator can overload the server only with calls that cost
    /// more to carry out than to refuse.
    #[arg(long, value_enum, default_value_t = WorkKind::Batch)]
    kind: WorkKind,
    /// Replicas of a call of the kind `batch` [default: 1000; other kinds place one pod].
    #[arg(long, value_name = "N")]
    pods: Option<u32>,
    /// Rate of the overload, as a multiple of the highest rate.
    #[arg(long, default_value_t = 10.0)]
    factor: f64,
    /// Duration of the overload in seconds.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    duration: f64,
    /// Duration in seconds of each of the two phases at half of the highest rate, before and after.
    #[arg(long, default_value_t = 15.0, value_name = "SECONDS")]
    half_duration: f64,
    /// Duration in seconds of each trial of the search for the highest rate.
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS")]
    trial: f64,
    /// The highest rate, if known; it is not searched for then.
    #[arg(long, value_name = "CALLS/S")]
    rate: Option<f64>,
    /// Callers of the closed loop with which the search begins.
    #[arg(long, default_value_t = 16)]
    callers: usize,
    /// Connections to the server.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    connections: u16,
    /// Limit of calls in flight; a call that is due beyond it is counted as not sent.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    in_flight: usize,
    /// Timeout of a call in seconds, sent to the server as its deadline.
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    timeout: f64,
    /// Retries refused calls after the delay that the server names, within their timeout.
    #[arg(long)]
    retry: bool,
    /// Approximate number of pods that accepted calls of the overload assume; they are deleted at the end. 0: all calls
    /// are dry runs.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    assume_pods: u32,
    /// Process id of the server, whose memory is sampled.
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// HTTP address of the server, for example http://127.0.0.1:7421, whose metrics are read.
    #[arg(long, value_name = "URL")]
    http: Option<String>,
    /// Kinds of pods and their weights, for example web=8,gpu=1 [default: web only].
    #[arg(long, value_name = "KIND=WEIGHT,…")]
    mix: Option<Mix>,
    /// Seed of cluster and pods.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    cluster: FeedFlags,
    /// Format of the report: Markdown or JSON.
    #[arg(short, long, value_enum, default_value_t = Output::Table)]
    output: Output,
    /// Also write the report as Markdown, with a link to the picture.
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Also write the report's picture.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Default replicas of a batch: a few milliseconds of work.
const REPLICAS: u32 = 1_000;

/// Overloads the server and reports. Exit code 1 if the server's pods differ from the granted ones, or if a call failed
/// other than by a refusal for load; 130 or 143 after a signal, which ends the phases early.
pub async fn run(flags: Flags) -> Result<ExitCode, CommandError> {
    let spec = spec(&flags)?;
    spec.check()?;
    let page = flags.markdown.as_deref().map(OutputFile::open).transpose()?;
    let image = flags.svg.as_deref().map(OutputFile::open).transpose()?;
    let client =
        Client::connect_with(&flags.server, flags.connections.into(), &flags.credentials).await?;
    flags.cluster.feed(&client, flags.seed, &[]).await?;
    let interrupt = Interrupt::listen("waiting for the calls under way")?;
    let say = |what: &str| print_message(format_args!("{what}"));
    let report = overload::run(&client, &spec, say, interrupt.received()).await?;
    print(flags.output, &markdown(&report, None), &report)?;
    if let Some(page) = page {
        page.write(&markdown(&report, link(&flags).as_deref()))?;
    }
    if let Some(image) = image {
        image.write(&picture(&report))?;
    }
    let code = if report.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(interrupt.exit_code().unwrap_or(code))
}

/// The link from the page to the picture: only the name if both are in one directory.
fn link(flags: &Flags) -> Option<String> {
    let (page, image) = (flags.markdown.as_deref()?, flags.svg.as_deref()?);
    let name = image.file_name()?;
    let beside = page.parent() == image.parent();
    Some(if beside { Path::new(name) } else { image }.display().to_string())
}

fn spec(flags: &Flags) -> Result<OverloadSpec, CommandError> {
    let default_pods = if flags.kind == WorkKind::Batch { REPLICAS } else { 1 };
    Ok(OverloadSpec {
        kind: flags.kind,
        pods_per_call: flags.pods.unwrap_or(default_pods),
        mix: flags.mix.clone().unwrap_or_else(|| Mix::only(Kind::Web)),
        seed: flags.seed,
        rate: flags.rate,
        n_callers: flags.callers,
        trial: seconds("trial", flags.trial)?,
        half_duration: seconds("half-duration", flags.half_duration)?,
        duration: seconds("duration", flags.duration)?,
        factor: flags.factor,
        timeout: seconds("timeout", flags.timeout)?,
        max_in_flight: flags.in_flight,
        retry: flags.retry,
        n_assumed_pods: flags.assume_pods,
        pid: flags.pid,
        http: flags.http.clone(),
        credentials: flags.credentials.clone(),
    })
}
