//! `berth serve`: the service itself, fed from files or over gRPC, until a signal.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::CliError;
use crate::config::policy::Profiles;
use crate::config::{Config, ConfigError, Overrides};
use crate::feed::file::LoadReport;
use crate::runtime::{Limits, Server, ServerOptions, Shutdown};
use crate::{clock, telemetry};

/// Refused objects that get a log line each; the rest is counted.
const MAX_REFUSED_LINES: usize = 100;
/// Longer than mimalloc holds freed memory back (its purge delay is 1 s).
const PURGE_DELAY: Duration = Duration::from_secs(3);

/// Flags of `berth serve`. Each has a `BERTH_*` variable and, except `--config`, a field of the configuration file.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Configuration file (kind: BerthConfiguration); flags and BERTH_* variables win over it
    #[arg(long, env = "BERTH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What wins over the file.
    #[command(flatten)]
    pub overrides: Overrides,
}

impl ServeArgs {
    /// Defaults, overridden by the file, the environment and the flags, in this order.
    ///
    /// # Errors
    /// Those of [`Config::resolve`].
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        Config::resolve(self.config.as_deref(), &self.overrides)
    }
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends at once, with status 1.
///
/// # Errors
/// A configuration, address or cluster file that cannot be used. A refused object is a log line, never an error.
pub async fn run(config: Config) -> Result<ExitCode, CliError> {
    telemetry::start_logging(config.log_format);
    let profiles = match &config.scheduler_config {
        Some(path) => Profiles::load(path)?,
        None => Profiles::default(),
    };
    let mut signals = Signals::listen()?;
    let server = Server::start(options(&config, profiles)).await?;
    tracing::info!(grpc = %server.grpc_address(), http = %server.http_address(), "listening");
    if !config.cluster_files.is_empty() {
        tokio::select! {
            loaded = load(&server, config.cluster_files) => loaded?,
            () = signals.next() => return Ok(ExitCode::SUCCESS),
        }
    }
    signals.next().await;
    tracing::info!("draining; another signal ends at once");
    tokio::select! {
        outcome = server.shutdown() => match outcome {
            Shutdown::Drained => tracing::info!("drained"),
            Shutdown::CutOff => tracing::warn!("the grace period ended before every call did"),
        },
        () = signals.next() => {
            tracing::warn!("ended by a second signal");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn options(config: &Config, profiles: Profiles) -> ServerOptions {
    ServerOptions {
        grpc_address: config.grpc_address,
        http_address: config.http_address,
        insecure: config.insecure,
        profiles,
        tie_break: config.tie_break,
        limits: Limits { max_message_bytes: config.max_message_bytes, ..Limits::default() },
        drain_grace_period: config.drain_grace_period,
    }
}

async fn load(server: &Server, paths: Vec<PathBuf>) -> Result<(), CliError> {
    let load_files = server.file_loader();
    let started = clock::now();
    // A thread of its own: the allocator gives the memory of the parsed text, several times the cluster's own, back to
    // the system when a thread ends a little after its last large deallocation, and not before anyone asks.
    let (done, loaded) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("load".to_owned())
        .spawn(move || {
            drop(done.send(load_files(&paths)));
            std::thread::sleep(PURGE_DELAY);
        })
        .map_err(CliError::Threads)?;
    let report = loaded
        .await
        .map_err(|_| CliError::Request("loading the cluster was cut short".to_owned()))??;
    log_report(&report, clock::as_millis(clock::now() - started));
    Ok(())
}

fn log_report(report: &LoadReport, elapsed_ms: u64) {
    tracing::info!(elapsed_ms, "loaded {report}");
    for (kind, n) in &report.ignored_kinds {
        tracing::debug!(kind, n, "objects of a kind that is not read");
    }
    for refused in report.refused.iter().take(MAX_REFUSED_LINES) {
        tracing::warn!("refused {refused}");
    }
    if report.refused.len() > MAX_REFUSED_LINES {
        tracing::warn!("refused {} more objects", report.refused.len() - MAX_REFUSED_LINES);
    }
}

/// SIGTERM and SIGINT, which mean the same here.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> Result<Signals, CliError> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate()).map_err(CliError::Signals)?,
            interrupt: signal(SignalKind::interrupt()).map_err(CliError::Signals)?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
