//! The service's configuration: `kind: BerthConfiguration`, overridden by `BERTH_*` variables, overridden by flags.

use super::audit::AuditOverrides;
use super::auth::AuthOverrides;
use super::expander::{self, ExpanderSection};
use super::kube::KubeOverrides;
use super::limits::{self, LimitsOverrides};
use super::tls::{self, TlsOverrides};
use super::tracing;
use crate::admission::LoadLimits;
use crate::apiserver::KubeOptions;
use crate::audit::AuditOptions;
use crate::auth::AuthOptions;
use crate::document::decode::{self, Cursor, Fields, Reader};
use crate::document::{ConfigError, described_kind, duration};
use crate::expander::ExpanderConfig;
use crate::expander::strategy::{self, Strategy};
use crate::extender::ExtenderOptions;
use crate::net::TlsFiles;
use crate::service::{Limits, SessionLimits};
use crate::telemetry::{LogFormat, TracingOptions};
use berth_engine::TieBreak;
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The only group and version of [`Config`]'s file.
pub const API_VERSION: &str = "berth.dev/v1";
const KIND: &str = "BerthConfiguration";
/// Maximum number of threads: more than any supported machine has cores.
const MAX_WORKER_THREADS: usize = 1_024;

/// Complete settings of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Address on which gRPC listens (`grpcAddress`, default `127.0.0.1:7420`).
    pub grpc_address: SocketAddr,
    /// Address on which HTTP listens (`httpAddress`, default `127.0.0.1:7421`).
    pub http_address: SocketAddr,
    /// Dumps to load at start (`clusterFiles`); relative paths in the file are relative to the file.
    pub cluster_files: Vec<PathBuf>,
    /// The API server to read the cluster from (`kube`); never together with files.
    pub kube: Option<KubeOptions>,
    /// A KubeSchedulerConfiguration (`schedulerConfig`); the default profile without it.
    pub scheduler_config: Option<PathBuf>,
    /// The file of the ledger (`ledger`), created if it does not exist; without it grants do not survive a restart.
    pub ledger: Option<PathBuf>,
    /// Allows listening beyond loopback, although callers are not authenticated (`insecure`).
    pub insecure: bool,
    /// The identity of both listeners, and the authorities of client certificates (`tls`); plain text without it.
    pub tls: Option<TlsFiles>,
    /// How callers are authenticated besides their certificates, and their roles (`auth`).
    pub auth: AuthOptions,
    /// Target of the audit log (`audit`).
    pub audit: AuditOptions,
    /// Configuration of the expander for cluster-autoscaler (`expander`).
    pub expander: ExpanderConfig,
    /// Options of kube-scheduler's extender calls (`extender`).
    pub extender: ExtenderOptions,
    /// Collector for spans of calls (`tracing`); none are sent without it.
    pub tracing: Option<TracingOptions>,
    /// Number of threads of the runtime (`workerThreads`), 1 to 1024; one per core without it.
    pub worker_threads: Option<usize>,
    /// Tie-breaking rule for requests that have none (`tieBreak`, default seeded with 0).
    pub tie_break: TieBreak,
    /// Format of the log (`logFormat`, default text).
    pub log_format: LogFormat,
    /// Maximum size of a message, in bytes (`maxMessageBytes`, default 64 MiB).
    pub max_message_bytes: usize,
    /// How long calls in flight may take after SIGTERM (`drainGracePeriod`, default 30 s).
    pub drain_grace_period: Duration,
    /// Maximum number of open what-if sessions (`maxSessions`, default 64).
    pub max_sessions: usize,
    /// Maximum number of changes in a session (`maxSessionChanges`, default 100,000).
    pub max_session_changes: usize,
    /// How long a session may be idle before it is dropped (`sessionIdleTimeout`, default 5 minutes).
    pub session_idle_timeout: Duration,
    /// Limits on load (`limits`).
    pub load: LoadLimits,
}

/// Rules for breaking ties between equal totals.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default, ValueEnum)]
pub enum TieBreakRule {
    /// A hash of the seed, the pod's uid and the node's name.
    #[default]
    Seeded,
    /// The node whose name sorts first.
    Lexicographic,
}

/// Flags and variables, each of which overrides the file.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct Overrides {
    /// Address of the gRPC listener [default: 127.0.0.1:7420]
    #[arg(long, env = "BERTH_GRPC_ADDRESS", value_name = "ADDRESS", value_parser = parse_address)]
    pub grpc_address: Option<SocketAddr>,
    /// Address of the HTTP listener [default: 127.0.0.1:7421]
    #[arg(long, env = "BERTH_HTTP_ADDRESS", value_name = "ADDRESS", value_parser = parse_address)]
    pub http_address: Option<SocketAddr>,
    /// Cluster dumps to load at start: `kubectl get nodes,pods -A -o json|yaml`, also gzipped
    #[arg(long = "cluster", env = "BERTH_CLUSTER", value_name = "FILE", num_args = 1.., value_delimiter = ',')]
    pub cluster_files: Vec<PathBuf>,
    /// The API server as the feed.
    #[command(flatten)]
    pub kube: KubeOverrides,
    /// KubeSchedulerConfiguration to decide by
    #[arg(long, env = "BERTH_SCHEDULER_CONFIG", value_name = "FILE")]
    pub scheduler_config: Option<PathBuf>,
    /// File in which grants of names, volumes and fences are kept; in memory without it
    #[arg(long, env = "BERTH_LEDGER", value_name = "FILE")]
    pub ledger: Option<PathBuf>,
    /// Identity of the listeners.
    #[command(flatten)]
    pub tls: TlsOverrides,
    /// Authentication of callers.
    #[command(flatten)]
    pub auth: AuthOverrides,
    /// Audit log of changes.
    #[command(flatten)]
    pub audit: AuditOverrides,
    /// How node groups are chosen for cluster-autoscaler, one strategy after the other: berth, least-waste, most-pods,
    /// least-nodes, priority, price [default: berth,least-waste]
    #[arg(long = "expander", env = "BERTH_EXPANDER", value_name = "STRATEGIES", value_delimiter = ',',
        value_parser = strategy::parse)]
    pub expander_strategies: Vec<Strategy>,
    /// The section `expander` of a file; no flag.
    #[arg(skip)]
    pub expander: Option<ExpanderSection>,
    /// The section `extender` of a file; no flag.
    #[arg(skip)]
    pub extender: Option<ExtenderOptions>,
    /// The section `tracing` of a file; no flag.
    #[arg(skip)]
    pub tracing: Option<TracingOptions>,
    /// Allow addresses beyond loopback, although anybody who reaches them may call every method
    #[arg(
        long,
        env = "BERTH_INSECURE",
        value_name = "BOOL",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        value_parser = clap::builder::BoolishValueParser::new()
    )]
    pub insecure: Option<bool>,
    /// Threads of the runtime, 1 to 1024 [default: one a core]
    #[arg(long, env = "BERTH_WORKER_THREADS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_WORKER_THREADS as u64))]
    pub worker_threads: Option<usize>,
    /// How equal totals are broken [default: seeded]
    #[arg(long, env = "BERTH_TIE_BREAK", value_name = "RULE")]
    pub tie_break: Option<TieBreakRule>,
    /// Seed of the seeded rule [default: 0]
    #[arg(long, env = "BERTH_SEED", value_name = "N", allow_negative_numbers = true, value_parser = parse_seed)]
    pub seed: Option<u64>,
    /// How the log is written [default: text]
    #[arg(long, env = "BERTH_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Longest message that is accepted, in bytes [default: 67108864]
    #[arg(long, env = "BERTH_MAX_MESSAGE_BYTES", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_message_bytes: Option<usize>,
    /// How long calls in flight may take after SIGTERM, for example `30s` [default: 30s]
    #[arg(long, env = "BERTH_DRAIN_GRACE_PERIOD", value_name = "DURATION", value_parser = duration::parse)]
    pub drain_grace_period: Option<Duration>,
    /// Most what-if sessions that are open at a time [default: 64]
    #[arg(long, env = "BERTH_MAX_SESSIONS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_sessions: Option<usize>,
    /// Most deltas, assumed pods and nominations that a session may hold [default: 100000]
    #[arg(long, env = "BERTH_MAX_SESSION_CHANGES", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub max_session_changes: Option<usize>,
    /// How long a session may be idle before it is dropped [default: 5m]
    #[arg(long, env = "BERTH_SESSION_IDLE_TIMEOUT", value_name = "DURATION", value_parser = duration::parse)]
    pub session_idle_timeout: Option<Duration>,
    /// Limits on load.
    #[command(flatten)]
    pub limits: LimitsOverrides,
}

impl Default for Config {
    fn default() -> Config {
        let SessionLimits { max_sessions, max_changes, idle_timeout } = SessionLimits::default();
        Config {
            grpc_address: SocketAddr::from(([127, 0, 0, 1], 7420)),
            http_address: SocketAddr::from(([127, 0, 0, 1], 7421)),
            cluster_files: Vec::new(),
            kube: None,
            scheduler_config: None,
            ledger: None,
            insecure: false,
            tls: None,
            auth: AuthOptions::default(),
            audit: AuditOptions::default(),
            expander: ExpanderConfig::default(),
            extender: ExtenderOptions::default(),
            tracing: None,
            worker_threads: None,
            tie_break: TieBreak::Seeded(0),
            log_format: LogFormat::Text,
            max_message_bytes: 64 << 20,
            drain_grace_period: Duration::from_secs(30),
            max_sessions,
            max_session_changes: max_changes,
            session_idle_timeout: idle_timeout,
            load: LoadLimits::default(),
        }
    }
}

impl TieBreakRule {
    /// The engine's rule with this seed.
    pub fn with_seed(self, seed: u64) -> TieBreak {
        match self {
            TieBreakRule::Seeded => TieBreak::Seeded(seed),
            TieBreakRule::Lexicographic => TieBreak::Lexicographic,
        }
    }
}

impl Config {
    /// Resolves the defaults, overridden by `file` if there is one, overridden by `overrides`.
    ///
    /// Errors: those of the file (unknown, duplicate or malformed fields with line and path), no or too many threads,
    /// and a limit of 0.
    pub fn resolve(file: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
        let written = match file {
            Some(path) => {
                let directory = path.parent().unwrap_or(Path::new(""));
                from_text(&path.display().to_string(), directory, &crate::document::read(path)?)?
            }
            None => Overrides::default(),
        };
        let config =
            Config { kube: overrides.kube.over(&written.kube)?, ..merge(overrides, &written) };
        let config = Config {
            tls: overrides.tls.over(&written.tls)?,
            load: overrides.limits.over(&written.limits)?,
            expander: expander::resolve(&overrides.expander_strategies, written.expander.as_ref())?,
            ..config
        };
        let takes_certificates =
            config.tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
        let config =
            Config { auth: overrides.auth.over(&written.auth, takes_certificates)?, ..config };
        let refuse = |name: &str, reason: String| {
            Err(ConfigError::Setting { name: name.to_owned(), reason })
        };
        if config.worker_threads.is_some_and(|n| !(1..=MAX_WORKER_THREADS).contains(&n)) {
            return refuse("--worker-threads", worker_threads_range());
        }
        if config.kube.is_some() && !config.cluster_files.is_empty() {
            let reason = "a server is fed by exactly one feed: leave out the cluster files (`--cluster`, `BERTH_CLUSTER`, `clusterFiles`)";
            return refuse("--kube", reason.to_owned());
        }
        for (name, is_zero) in [
            ("--max-message-bytes", config.max_message_bytes == 0),
            ("--max-sessions", config.max_sessions == 0),
            ("--max-session-changes", config.max_session_changes == 0),
            ("--session-idle-timeout", config.session_idle_timeout.is_zero()),
        ] {
            if is_zero {
                return refuse(name, "must be greater than 0".to_owned());
            }
        }
        Ok(config)
    }

    /// Limits on the requests of one caller of a server with this configuration.
    pub fn limits(&self) -> Limits {
        Limits {
            max_message_bytes: self.max_message_bytes,
            sessions: SessionLimits {
                max_sessions: self.max_sessions,
                max_changes: self.max_session_changes,
                idle_timeout: self.session_idle_timeout,
            },
            load: self.load,
            ..Limits::default()
        }
    }
}

fn merge(overrides: &Overrides, file: &Overrides) -> Config {
    let default = Config::default();
    let seed = overrides.seed.or(file.seed).unwrap_or(0);
    let cluster_files =
        if overrides.cluster_files.is_empty() { file } else { overrides }.cluster_files.clone();
    Config {
        grpc_address: overrides.grpc_address.or(file.grpc_address).unwrap_or(default.grpc_address),
        http_address: overrides.http_address.or(file.http_address).unwrap_or(default.http_address),
        cluster_files,
        // Resolved separately, with errors of their own.
        kube: None,
        tls: None,
        load: default.load,
        auth: default.auth,
        audit: overrides.audit.over(&file.audit),
        expander: default.expander,
        extender: file.extender.clone().unwrap_or_default(),
        tracing: file.tracing.clone(),
        scheduler_config: overrides
            .scheduler_config
            .clone()
            .or_else(|| file.scheduler_config.clone()),
        ledger: overrides.ledger.clone().or_else(|| file.ledger.clone()),
        insecure: overrides.insecure.or(file.insecure).unwrap_or(default.insecure),
        worker_threads: overrides.worker_threads.or(file.worker_threads),
        tie_break: overrides.tie_break.or(file.tie_break).unwrap_or_default().with_seed(seed),
        log_format: overrides.log_format.or(file.log_format).unwrap_or(default.log_format),
        max_message_bytes: overrides
            .max_message_bytes
            .or(file.max_message_bytes)
            .unwrap_or(default.max_message_bytes),
        drain_grace_period: overrides
            .drain_grace_period
            .or(file.drain_grace_period)
            .unwrap_or(default.drain_grace_period),
        max_sessions: overrides.max_sessions.or(file.max_sessions).unwrap_or(default.max_sessions),
        max_session_changes: overrides
            .max_session_changes
            .or(file.max_session_changes)
            .unwrap_or(default.max_session_changes),
        session_idle_timeout: overrides
            .session_idle_timeout
            .or(file.session_idle_timeout)
            .unwrap_or(default.session_idle_timeout),
    }
}

/// Reads the settings of a file in the form that flags have. `origin` names it in errors, `directory` is where relative
/// paths start.
///
/// # Errors
/// A text that is neither YAML nor JSON, and unknown, duplicate or malformed fields, each with line and path.
pub fn from_text(origin: &str, directory: &Path, text: &str) -> Result<Overrides, ConfigError> {
    let document = crate::document::parse(origin, text)?;
    let reader = Reader::default();
    let written = reader.root(&document).object(|fields| fields_of(fields, directory));
    crate::document::located(origin, &document, reader.into_problems())?;
    Ok(written.unwrap_or_default())
}

fn fields_of(fields: &mut Fields<'_>, directory: &Path) -> Overrides {
    let api_version = fields.take_or_default("apiVersion", decode::text);
    let kind = fields.take_or_default("kind", decode::text);
    if (api_version.as_str(), kind.as_str()) != (API_VERSION, KIND) {
        let got = described_kind(&kind, &api_version);
        fields.object().report(format!("expected `{KIND}` of `{API_VERSION}`, got {got}"));
        fields.ignore_rest();
    }
    let path = |value: Cursor<'_>| decode::text(value).map(|text| directory.join(text));
    let tie_break = fields.take("tieBreak", |value| {
        value.object(|fields| {
            (fields.take("rule", choice::<TieBreakRule>), fields.take("seed", decode::integer))
        })
    });
    let (tie_break, seed) = tie_break.unwrap_or_default();
    Overrides {
        grpc_address: fields.take("grpcAddress", address),
        http_address: fields.take("httpAddress", address),
        cluster_files: fields.take_or_default("clusterFiles", |list| list.list(path)),
        kube: fields.take_or_default("kube", |value| super::kube::of_file(value, directory)),
        scheduler_config: fields.take("schedulerConfig", path),
        ledger: fields.take("ledger", path),
        insecure: fields.take("insecure", decode::boolean),
        tls: fields.take_or_default("tls", |value| tls::section(value, directory)),
        auth: fields.take_or_default("auth", |value| super::auth::of_file(value, directory)),
        audit: fields.take_or_default("audit", |value| super::audit::of_file(value, directory)),
        expander_strategies: Vec::new(),
        expander: fields.take("expander", |value| expander::section(value, directory)),
        extender: fields.take("extender", super::extender::decode),
        tracing: fields.take("tracing", tracing::decode),
        limits: fields.take_or_default("limits", limits::of_file),
        worker_threads: fields.take("workerThreads", worker_threads),
        tie_break,
        seed,
        log_format: fields.take("logFormat", choice::<LogFormat>),
        max_message_bytes: fields.take("maxMessageBytes", at_least_one),
        drain_grace_period: fields.take("drainGracePeriod", period),
        max_sessions: fields.take("maxSessions", at_least_one),
        max_session_changes: fields.take("maxSessionChanges", at_least_one),
        session_idle_timeout: fields.take("sessionIdleTimeout", |value| {
            let period = period(value)?;
            if period.is_zero() {
                value.report("must be greater than 0");
                return None;
            }
            Some(period)
        }),
    }
}

fn address(value: Cursor<'_>) -> Option<SocketAddr> {
    let text = decode::text(value)?;
    parse_address(&text).map_err(|reason| value.report(reason)).ok()
}

/// Parses an IP address and a port; `localhost` stands for `127.0.0.1`, and no other name is resolved.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(("localhost", port)) = text.rsplit_once(':')
        && let Ok(port) = port.parse::<u16>()
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| format!("`{text}` is not an address such as `127.0.0.1:7420`"))
}

/// Parses a seed: any number of 64 bits without a sign.
pub fn parse_seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u64::MAX))
}

fn worker_threads(value: Cursor<'_>) -> Option<usize> {
    let number = decode::integer(value)?;
    if !(1..=MAX_WORKER_THREADS).contains(&number) {
        value.report(worker_threads_range());
        return None;
    }
    Some(number)
}

fn worker_threads_range() -> String {
    format!("must be between 1 and {MAX_WORKER_THREADS}")
}

fn at_least_one(value: Cursor<'_>) -> Option<usize> {
    let number = decode::integer(value)?;
    if number == 0 {
        value.report("must be greater than 0");
        return None;
    }
    Some(number)
}

fn period(value: Cursor<'_>) -> Option<Duration> {
    let nanos = decode::nanoseconds(value)?;
    let period = u64::try_from(nanos).map(Duration::from_nanos);
    period.map_err(|_| value.report("must not be negative")).ok()
}

/// Decodes one of the values that the flag of the same setting accepts.
fn choice<T: ValueEnum>(value: Cursor<'_>) -> Option<T> {
    let text = decode::text(value)?;
    let parsed = T::from_str(&text, false);
    if parsed.is_err() {
        let names: Vec<String> = T::value_variants()
            .iter()
            .filter_map(ValueEnum::to_possible_value)
            .map(|name| format!("`{}`", name.get_name()))
            .collect();
        value.report(format!("`{text}` is not one of {}", names.join(", ")));
    }
    parsed.ok()
}

#[cfg(test)]
mod documented;
#[cfg(test)]
mod tests;
