//! `berth serve`: runs the service, fed from files, by the API server or over gRPC, until a signal.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::CliError;
use super::profiles::load_profiles;
use crate::apiserver::Connection;
use crate::config::{Config, Overrides};
use crate::document::ConfigError;
use crate::feed::file::LoadReport;
use crate::feed::kube::Pace;
use crate::policy::Profiles;
use crate::runtime::{Server, ServerOptions, Shutdown};
use crate::scheduler::{Scheduler, SchedulerOptions};
use crate::{clock, telemetry};

/// Maximum number of refused objects that get a log line each; the rest is counted.
const MAX_REFUSED_LINES: usize = 100;

/// Flags of `berth serve`. Each has a `BERTH_*` variable and, except `--config`, a field of the configuration file.
#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// Configuration file (kind: BerthConfiguration); flags and BERTH_* variables win over it
    #[arg(long, env = "BERTH_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Settings that override the file.
    #[command(flatten)]
    pub overrides: Overrides,
}

impl ServeArgs {
    /// Defaults, overridden by the file, the environment and the flags, in this order.
    ///
    /// # Errors
    /// The errors of [`Config::resolve`].
    pub fn resolve(&self) -> Result<Config, ConfigError> {
        Config::resolve(self.config.as_deref(), &self.overrides)
    }
}

/// Serves until SIGTERM or SIGINT, then drains; a second signal ends at once, with status 1. SIGHUP reads the
/// cluster files again, and checks at once whether the files of certificates and tokens have changed.
///
/// # Errors
/// A configuration, ledger, address or cluster file that cannot be used. A refused object is a log line, never an
/// error; so is a file that cannot be read again.
pub async fn run(config: Config) -> Result<ExitCode, CliError> {
    telemetry::start_logging(config.log_format);
    let profiles = load_profiles(config.scheduler_config.as_deref(), config.kubernetes_version)?;
    serve(config, profiles, None).await
}

/// Serves with these profiles; with `scheduling`, also schedules their pods.
pub(super) async fn serve(
    config: Config,
    profiles: Profiles,
    scheduling: Option<SchedulerOptions>,
) -> Result<ExitCode, CliError> {
    let mut signals = Signals::listen()?;
    let connection = match &config.kube {
        Some(options) => Some(Connection::open(options).await?),
        None => None,
    };
    let awaits_files = !config.cluster_files.is_empty() || config.kube.is_some();
    let options = ServerOptions { profiles, awaits_files, ..ServerOptions::default() };
    let server = Server::start(config.server_options(options)).await?;
    tracing::info!(grpc = %server.grpc_address(), http = %server.http_address(), "listening");
    let scheduler = connection.as_ref().zip(scheduling);
    let scheduler =
        scheduler.map(|(connection, options)| server.start_scheduler(connection.client(), options));
    let observer = scheduler.as_ref().map(Scheduler::observer);
    let _feed = connection.map(|connection| {
        let mut feed = server.start_kube_feed(pace(&config), connection.client(), observer);
        feed.retry_after(connection.renewals());
        server.follow_files(connection);
        feed
    });
    let paths = &config.cluster_files;
    if !paths.is_empty() && load(&server, paths, &mut signals).await? == Loaded::Stopped {
        tracing::info!("stopped while the cluster was being loaded");
        return Ok(ExitCode::SUCCESS);
    }
    if config.ledger.is_none() && config.etcd.is_none() {
        tracing::warn!(
            "without `--ledger` or `--etcd`, what is granted of names, volumes and fences does not survive a restart"
        );
    }
    while signals.next().await == SignalRequest::Reload {
        server.reload_credentials();
        match reload(&server, paths, &mut signals).await {
            Ok(Loaded::Whole) => {}
            Ok(Loaded::Stopped) => break,
            Err(error) => tracing::error!("the cluster stays as it was: {error}"),
        }
    }
    tracing::info!("draining; another signal ends at once");
    let draining = async {
        let stopping = async {
            if let Some(scheduler) = scheduler {
                scheduler.stop().await;
            }
        };
        // At once, since an API server that does not answer must not delay the drain.
        let ((), outcome) = tokio::join!(stopping, server.shutdown());
        outcome
    };
    tokio::select! {
        outcome = draining => match outcome {
            Shutdown::Drained => tracing::info!("drained"),
            Shutdown::CutOff => tracing::warn!("the grace period ended before every call did"),
        },
        () = signals.stopped() => {
            tracing::warn!("ended by a second signal");
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Time limits for the API server.
fn pace(config: &Config) -> Pace {
    let default = Pace::default();
    Pace {
        silence: config.kube.as_ref().map_or(default.silence, |kube| kube.silence_timeout),
        ..default
    }
}

/// Outcome of a load that did not fail.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Loaded {
    /// The files were loaded as the cluster.
    Whole,
    /// A signal to stop came before the end.
    Stopped,
}

async fn reload(
    server: &Server,
    paths: &[PathBuf],
    signals: &mut Signals,
) -> Result<Loaded, CliError> {
    if paths.is_empty() {
        tracing::info!("SIGHUP: no `--cluster` files to be read again");
        return Ok(Loaded::Whole);
    }
    if is_standard_input(paths) {
        return Err(CliError::Request("standard input cannot be read again".to_owned()));
    }
    tracing::info!("reading the cluster files again");
    load(server, paths, signals).await
}

async fn load(
    server: &Server,
    paths: &[PathBuf],
    signals: &mut Signals,
) -> Result<Loaded, CliError> {
    loop {
        let started = clock::now();
        let (load_files, read) = (server.file_loader(), paths.to_owned());
        let mut loading = tokio::task::spawn_blocking(move || load_files(&read));
        let mut is_asked_again = false;
        let report = loop {
            tokio::select! {
                loaded = &mut loading => break loaded,
                request = signals.next() => match request {
                    SignalRequest::Stop => return Ok(Loaded::Stopped),
                    SignalRequest::Reload => {
                        server.reload_credentials();
                        is_asked_again = true;
                    }
                },
            }
        };
        let report = report
            .map_err(|_| CliError::Request("loading the cluster was cut short".to_owned()))?;
        // The files may have changed after they were read, also to ones that can be.
        is_asked_again &= !is_standard_input(paths);
        match report {
            Ok(report) => log_report(&report, clock::as_millis(clock::now() - started)),
            Err(error) if is_asked_again => tracing::warn!("{error}"),
            Err(error) => return Err(error.into()),
        }
        if !is_asked_again {
            return Ok(Loaded::Whole);
        }
        tracing::info!("SIGHUP came meanwhile: reading the cluster files again");
    }
}

fn is_standard_input(paths: &[PathBuf]) -> bool {
    paths.iter().any(|path| path == Path::new("-"))
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
    for line in report.warnings.lines() {
        tracing::warn!("{line}");
    }
}

/// Request of a signal.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum SignalRequest {
    /// Stop, on SIGTERM or SIGINT.
    Stop,
    /// Reload, on SIGHUP.
    Reload,
}

/// Time within which a repeated signal to stop counts once: supervisors signal a process and then its group.
const SAME_SIGNAL: Duration = Duration::from_millis(500);

/// The signals that this process handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    last: Option<(SignalKind, Instant)>,
}

impl Signals {
    fn listen() -> Result<Signals, CliError> {
        let listen = |kind| signal(kind).map_err(CliError::Signals);
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
            last: None,
        })
    }

    /// Waits for the next signal. Dropping the future loses none.
    async fn next(&mut self) -> SignalRequest {
        loop {
            let (kind, request) = tokio::select! {
                _ = self.terminate.recv() => (SignalKind::terminate(), SignalRequest::Stop),
                _ = self.interrupt.recv() => (SignalKind::interrupt(), SignalRequest::Stop),
                _ = self.hangup.recv() => (SignalKind::hangup(), SignalRequest::Reload),
            };
            let now = clock::now();
            if !is_same_signal(self.last, kind, now) {
                self.last = Some((kind, now));
                return request;
            }
        }
    }

    /// Waits for the next signal to stop.
    async fn stopped(&mut self) {
        while self.next().await != SignalRequest::Stop {}
    }
}

fn is_same_signal(last: Option<(SignalKind, Instant)>, kind: SignalKind, now: Instant) -> bool {
    // Each SIGHUP may follow a change of a file.
    let is_stop = kind != SignalKind::hangup();
    is_stop
        && last.is_some_and(|(last, at)| {
            last == kind && now.saturating_duration_since(at) < SAME_SIGNAL
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_comes_twice_at_once_is_one() {
        let (now, terminate) = (clock::now(), SignalKind::terminate());
        assert!(!is_same_signal(None, terminate, now));
        assert!(is_same_signal(Some((terminate, now)), terminate, now + SAME_SIGNAL / 2));
        assert!(!is_same_signal(Some((terminate, now)), terminate, now + SAME_SIGNAL));
        assert!(!is_same_signal(Some((terminate, now)), SignalKind::interrupt(), now));
        let hangup = SignalKind::hangup();
        assert!(!is_same_signal(Some((hangup, now)), hangup, now), "a file may have changed");
    }
}
