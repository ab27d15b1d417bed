//! The service's configuration: `kind: BerthConfiguration`, overridden by `BERTH_*` variables, overridden by flags.

use super::audit::{self, AuditOverrides};
use super::auth::{self, AuthOverrides};
use super::etcd::{self, EtcdOverrides};
use super::expander::{self, ExpanderSection};
use super::extender;
use super::journal::{self, JournalOverrides};
use super::kube::{self, KubeOverrides};
use super::limits::{self, LimitsOverrides};
use super::read::{choice, not_zero, path, period};
use super::settings::{Layer as _, config, settings};
use super::tls::{self, TlsOverrides};
use super::tracing;
use super::version;
use crate::admission::LoadLimits;
use crate::apiserver::KubeOptions;
use crate::audit::AuditOptions;
use crate::auth::AuthOptions;
use crate::document::decode::{self, Cursor, Fields, Reader};
use crate::document::{ConfigError, described_kind, duration};
use crate::expander::ExpanderConfig;
use crate::expander::strategy::{self, Strategy};
use crate::extender::ExtenderOptions;
use crate::ledger::EtcdOptions;
use crate::net::TlsFiles;
use crate::service::{ForceDeletion, JournalOptions, Limits, SessionLimits};
use crate::telemetry::{LogFormat, TracingOptions};
use berth_engine::{KubernetesVersion, TieBreak};
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

/// Rules for breaking ties between equal totals.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Default, ValueEnum)]
pub enum TieBreakRule {
    /// A hash of the seed, the pod's uid and the node's name.
    #[default]
    Seeded,
    /// The node whose name sorts first.
    Lexicographic,
}

/// The list of the service's settings, but for those of its sections.
macro_rules! service_settings {
    ($callback:ident) => {
        $callback! {
            /// Flags and variables, each of which overrides the file.
            #[derive(Clone, Debug, Default, PartialEq, clap::Args)]
            pub struct Overrides for (), in directory, read as overrides;
            pub struct Config from flags over file as given;

            /// Address of the gRPC listener [default: 127.0.0.1:7420]
            #[arg(long, env = "BERTH_GRPC_ADDRESS", value_name = "ADDRESS", value_parser = parse_address)]
            grpc_address: Option<SocketAddr> {
                file: "grpcAddress" = address,
                config: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7420)),
                server: grpc_address,
                shown: "`127.0.0.1:7420`",
                page: "an IP address and a port. `localhost` is `127.0.0.1`; port 0 takes a free one.",
            }

            /// Address of the HTTP listener [default: 127.0.0.1:7421]
            #[arg(long, env = "BERTH_HTTP_ADDRESS", value_name = "ADDRESS", value_parser = parse_address)]
            http_address: Option<SocketAddr> {
                file: "httpAddress" = address,
                config: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 7421)),
                server: http_address,
                shown: "`127.0.0.1:7421`",
                page: "the address of probes, metrics and the extender.",
            }

            /// Cluster dumps to load at start: `kubectl get nodes,pods -A -o json|yaml`, also gzipped
            #[arg(long = "cluster", env = "BERTH_CLUSTER", value_name = "FILE", num_args = 1.., value_delimiter = ',')]
            cluster_files: Vec<PathBuf> {
                file: "clusterFiles" = |list| list.list(|value| path(value, directory)),
                config: Vec<PathBuf> = Vec::new(),
                page: "dumps to load at startup, JSON or YAML, also gzipped. The flag takes several.",
            }

            /// The API server as the feed.
            #[command(flatten)]
            kube: KubeOverrides {
                file: "kube" = |value| kube::of_file(value, directory),
                decided: kube: Option<KubeOptions> = flags.kube.over(&file.kube)?,
            }

            /// KubeSchedulerConfiguration to decide by
            #[arg(long, env = "BERTH_SCHEDULER_CONFIG", value_name = "FILE")]
            scheduler_config: Option<PathBuf> {
                file: "schedulerConfig" = |value| path(value, directory),
                config: Option<PathBuf> = None,
                shown: "kube-scheduler's default profile",
                page: "a KubeSchedulerConfiguration, [see below](#the-scheduling-policy).",
            }

            /// Version of Kubernetes whose kube-scheduler is followed [default: 1.36]
            #[arg(long, env = "BERTH_KUBERNETES_VERSION", value_name = "VERSION", value_parser = version::parser())]
            kubernetes_version: Option<KubernetesVersion> {
                file: "kubernetesVersion" = version::version,
                config: KubernetesVersion = KubernetesVersion::default(),
                shown: "`1.36`",
                page: "the version of Kubernetes whose kube-scheduler is followed, `1.36` or `1.37`; [they \
                    differ](not-covered.md#by-version) in how volumes are treated.",
            }

            /// File in which grants of names, volumes and fences are kept; in memory without it
            #[arg(long, env = "BERTH_LEDGER", value_name = "FILE")]
            ledger: Option<PathBuf> {
                file: "ledger" = |value| path(value, directory),
                config: Option<PathBuf> = None,
                server: ledger,
                shown: "in memory",
                page: "file of the [ledger](ledger.md), created if it does not exist.",
            }

            /// The ledger in etcd.
            #[command(flatten)]
            etcd: EtcdOverrides {
                file: "etcd" = |value| etcd::section(value, directory),
                decided: etcd: Option<EtcdOptions> = flags.etcd.over(&file.etcd, given.ledger.as_deref())?,
                server: etcd,
            }

            /// Whether placement refuses nodes that are fenced in the ledger [default: true]
            #[arg(
                long,
                env = "BERTH_RESPECT_FENCES",
                value_name = "BOOL",
                num_args = 0..=1,
                require_equals = true,
                default_missing_value = "true",
                value_parser = clap::builder::BoolishValueParser::new()
            )]
            respect_fences: Option<bool> {
                file: "respectFences" = decode::boolean,
                config: bool = true,
                server: respect_fences,
                shown: "`true`",
                page: "refuses nodes that are [fenced in the ledger](ledger.md#fenced-nodes-take-no-pods).",
            }

            /// Who may release a pod's name by force [default: admin]
            #[arg(long, env = "BERTH_FORCE_DELETION", value_name = "WHO")]
            force_deletion: Option<ForceDeletion> {
                file: "forceDeletion" = choice::<ForceDeletion>,
                config: ForceDeletion = ForceDeletion::Admin,
                server: force_deletion,
                shown: "`admin`",
                page: "who may release a pod's name in the ledger by force: callers of the role `admin`, or with `owner` \
                    also [the user who acquired it](ledger.md#forced-deletions).",
            }

            /// Identity of the listeners.
            #[command(flatten)]
            tls: TlsOverrides {
                file: "tls" = |value| tls::section(value, directory),
                decided: tls: Option<TlsFiles> = flags.tls.over(&file.tls)?,
                server: tls,
            }

            /// Authentication of callers.
            #[command(flatten)]
            auth: AuthOverrides {
                file: "auth" = |value| auth::of_file(value, directory),
                decided: auth: AuthOptions = {
                    let takes_certificates = tls.as_ref().is_some_and(|tls| tls.client_ca_file.is_some());
                    flags.auth.over(&file.auth, takes_certificates)?
                },
                server: auth,
            }

            /// Audit log of changes.
            #[command(flatten)]
            audit: AuditOverrides {
                file: "audit" = |value| audit::of_file(value, directory),
                decided: audit: AuditOptions = flags.audit.over(&file.audit),
                server: audit,
            }

            /// Journal of decisions.
            #[command(flatten)]
            journal: JournalOverrides {
                file: "journal" = |value| journal::section(value, directory),
                decided: journal: Option<JournalOptions> = flags.journal.over(&file.journal)?,
                server: journal,
            }

            /// How node groups are chosen for cluster-autoscaler, one strategy after the other: berth, least-waste,
            /// most-pods, least-nodes, priority, price [default: berth,least-waste]
            #[arg(long = "expander", env = "BERTH_EXPANDER", value_name = "STRATEGIES", value_delimiter = ',',
                value_parser = strategy::parse)]
            expander_strategies: Vec<Strategy> {
                at: "expander.strategies",
                shown: "`berth,least-waste`",
                page: "how node groups are chosen for [cluster-autoscaler](cluster-autoscaler.md#strategies), one \
                    strategy after another.",
            }

            /// The section `expander` of a file; no flag.
            #[arg(skip)]
            expander: Option<ExpanderSection> {
                file: "expander" = |value| expander::section(value, directory),
                decided: expander: ExpanderConfig =
                    expander::resolve(&given.expander_strategies, given.expander.as_ref())?,
                server: expander,
            }

            /// The section `extender` of a file; no flag.
            #[arg(skip)]
            extender: Option<ExtenderOptions> {
                file: "extender" = extender::decode,
                config: ExtenderOptions = ExtenderOptions::default(),
                server: extender,
            }

            /// The section `tracing` of a file; no flag.
            #[arg(skip)]
            tracing: Option<TracingOptions> {
                file: "tracing" = tracing::decode,
                config: Option<TracingOptions> = None,
                server: tracing,
            }

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
            insecure: Option<bool> {
                file: "insecure" = decode::boolean,
                config: bool = false,
                server: insecure,
                shown: "`false`",
                page: "allows other addresses than loopback without TLS or without authentication.",
            }

            /// Threads of the runtime, 1 to 1024 [default: one a core]
            #[arg(long, env = "BERTH_WORKER_THREADS", value_name = "N", allow_negative_numbers = true,
                value_parser = RangedU64ValueParser::<usize>::new().range(1..=MAX_WORKER_THREADS as u64))]
            worker_threads: Option<usize> {
                file: "workerThreads" = decode::integer,
                check: check_worker_threads => "--worker-threads",
                config: Option<usize> = None,
                shown: "one a core",
                page: "threads of the runtime, 1 to 1024.",
            }

            /// How equal totals are broken [default: seeded]
            #[arg(long, env = "BERTH_TIE_BREAK", value_name = "RULE")]
            tie_break: Option<TieBreakRule> {
                file: "tieBreak" = |value| tie_break(value, &mut overrides.seed),
                decided: tie_break: TieBreak = given.tie_break.unwrap_or_default().with_seed(given.seed.unwrap_or(0)),
                server: tie_break,
                at: "tieBreak.rule",
                shown: "`seeded`",
                page: "how equal totals are broken. `seeded` uses a hash of seed, uid and node name; `lexicographic` \
                    uses the node name.",
            }

            /// Seed of the seeded rule [default: 0]
            #[arg(long, env = "BERTH_SEED", value_name = "N", allow_negative_numbers = true, value_parser = parse_seed)]
            seed: Option<u64> {
                at: "tieBreak.seed",
                shown: "`0`",
                page: "the seed of that hash.",
            }

            /// How the log is written [default: text]
            #[arg(long, env = "BERTH_LOG_FORMAT", value_name = "FORMAT")]
            log_format: Option<LogFormat> {
                file: "logFormat" = choice::<LogFormat>,
                config: LogFormat = LogFormat::Text,
                shown: "`text`",
                page: "`text`, or `json` for one object a line.",
            }

            /// Longest message that is accepted, in bytes [default: 67108864]
            #[arg(long, env = "BERTH_MAX_MESSAGE_BYTES", value_name = "N", allow_negative_numbers = true,
                value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
            max_message_bytes: Option<usize> {
                file: "maxMessageBytes" = decode::integer,
                check: not_zero => "--max-message-bytes",
                config: usize = Limits::default().max_message_bytes,
                server: limits.max_message_bytes,
                shown: "`67108864`",
                page: "the longest message that is accepted.",
            }

            /// How long calls in flight may take after SIGTERM, for example `30s` [default: 30s]
            #[arg(long, env = "BERTH_DRAIN_GRACE_PERIOD", value_name = "DURATION", value_parser = duration::parse)]
            drain_grace_period: Option<Duration> {
                file: "drainGracePeriod" = period,
                config: Duration = Duration::from_secs(30),
                server: drain_grace_period,
                shown: "`30s`",
                page: "how long calls in flight may take after SIGTERM.",
            }

            /// How long an assumed pod keeps its room unless its request says otherwise; 0s for no limit [default: 5m]
            #[arg(long, env = "BERTH_ASSUME_TTL", value_name = "DURATION", value_parser = duration::parse)]
            assume_ttl: Option<Duration> {
                file: "assumeTtl" = period,
                config: Duration = Limits::default().assume_ttl,
                server: limits.assume_ttl,
                shown: "`5m`",
                page: "how long an assumed pod keeps its room if its request does not say; `0s` means until a feed \
                    confirms or deletes it.",
            }

            /// Most what-if sessions that are open at a time [default: 64]
            #[arg(long, env = "BERTH_MAX_SESSIONS", value_name = "N", allow_negative_numbers = true,
                value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
            max_sessions: Option<usize> {
                file: "maxSessions" = decode::integer,
                check: not_zero => "--max-sessions",
                config: usize = SessionLimits::default().max_sessions,
                server: limits.sessions.max_sessions,
                shown: "`64`",
                page: "the number of open [what-if sessions](what-if.md#sessions).",
            }

            /// Most deltas, assumed pods and nominations that a session may hold [default: 100000]
            #[arg(long, env = "BERTH_MAX_SESSION_CHANGES", value_name = "N", allow_negative_numbers = true,
                value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
            max_session_changes: Option<usize> {
                file: "maxSessionChanges" = decode::integer,
                check: not_zero => "--max-session-changes",
                config: usize = SessionLimits::default().max_changes,
                server: limits.sessions.max_changes,
                shown: "`100000`",
                page: "deltas, assumed pods and nominations in one session.",
            }

            /// Most bytes that the changes of all sessions take [default: 201326592]
            #[arg(long, env = "BERTH_MAX_SESSION_BYTES", value_name = "N", allow_negative_numbers = true,
                value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
            max_session_bytes: Option<usize> {
                file: "maxSessionBytes" = decode::integer,
                check: not_zero => "--max-session-bytes",
                config: usize = SessionLimits::default().max_bytes,
                server: limits.sessions.max_bytes,
                shown: "`201326592`",
                page: "bytes that the changes of all sessions take. One user, and one session, has half.",
            }

            /// How long a session may be idle before it is dropped [default: 5m]
            #[arg(long, env = "BERTH_SESSION_IDLE_TIMEOUT", value_name = "DURATION", value_parser = duration::parse)]
            session_idle_timeout: Option<Duration> {
                file: "sessionIdleTimeout" = period,
                check: not_zero => "--session-idle-timeout",
                config: Duration = SessionLimits::default().idle_timeout,
                server: limits.sessions.idle_timeout,
                shown: "`5m`",
                page: "how long a session may be idle.",
            }

            /// Limits on load.
            #[command(flatten)]
            limits: LimitsOverrides {
                file: "limits" = limits::of_file,
                decided: load: LoadLimits = flags.limits.over(&file.limits)?,
                server: limits.load,
            }
        }
    };
}

service_settings!(settings);
service_settings!(config);

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
        let config = Config::decide(overrides, &written)?;
        if config.kube.is_some() && !config.cluster_files.is_empty() {
            return Err(ConfigError::Setting {
                name: "--kube".to_owned(),
                reason: "a server is fed by exactly one feed: leave out the cluster files (`--cluster`, `BERTH_CLUSTER`, `clusterFiles`)"
                    .to_owned(),
            });
        }
        overrides.check()?;
        Ok(config)
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
    Overrides::read(fields, directory)
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

fn tie_break(value: Cursor<'_>, seed: &mut Option<u64>) -> Option<TieBreakRule> {
    let rule = value.object(|fields| {
        let rule = fields.take("rule", choice::<TieBreakRule>);
        *seed = fields.take("seed", decode::integer);
        rule
    });
    rule.flatten()
}

fn check_worker_threads(number: &usize) -> Result<(), String> {
    if !(1..=MAX_WORKER_THREADS).contains(number) {
        return Err(format!("must be between 1 and {MAX_WORKER_THREADS}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
