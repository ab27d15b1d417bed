//! `berth schedule`: like `berth serve --kube`, and schedules the pods that name Berth as their scheduler.

use std::process::ExitCode;
use std::time::Duration;

use clap::builder::{BoolishValueParser, RangedU64ValueParser};
use rand::TryRng as _;
use rand::rngs::SysRng;

use super::CliError;
use super::serve::{self, ServeArgs};
use crate::apiserver::lease::LeaseOptions;
use crate::config::Config;
use crate::document::{ConfigError, duration};
use crate::policy::args::PluginArgs;
use crate::policy::configuration::{DEFAULT_SCHEDULER_NAME, SchedulerConfiguration};
use crate::policy::syntax;
use crate::policy::{self, Profiles};
use crate::scheduler::backoff::Backoff;
use crate::scheduler::group::GroupKeys;
use crate::scheduler::queue::QueueOptions;
use crate::scheduler::{BindRate, SchedulerOptions};
use crate::telemetry;

/// Flags of `berth schedule`: those of `berth serve`, of which `--kube` is implied, and its own. Each has a `BERTH_*`
/// variable.
#[derive(Debug, clap::Args)]
pub struct ScheduleArgs {
    /// Flags of the server.
    #[command(flatten)]
    pub serve: ServeArgs,
    /// Only set status.nominatedNodeName, and let kube-scheduler bind
    #[arg(long, env = "BERTH_HAND_OFF", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "false", value_parser = BoolishValueParser::new())]
    pub hand_off: bool,
    /// Scheduler name of the pods, unless --scheduler-config sets it [default: berth; default-scheduler with
    /// --hand-off]
    #[arg(long, env = "BERTH_SCHEDULER_NAME", value_name = "NAME")]
    pub scheduler_name: Option<String>,
    /// Elect a leader by a Lease, so that only one of several instances schedules
    #[arg(long, env = "BERTH_LEADER_ELECT", value_name = "BOOL", num_args = 0..=1, require_equals = true,
        default_missing_value = "true", default_value = "true", value_parser = BoolishValueParser::new())]
    pub leader_elect: bool,
    /// Namespace of the Lease
    #[arg(
        long,
        env = "BERTH_LEADER_ELECT_NAMESPACE",
        value_name = "NAME",
        default_value = "berth"
    )]
    pub leader_elect_namespace: String,
    /// Name of the Lease
    #[arg(
        long,
        env = "BERTH_LEADER_ELECT_NAME",
        value_name = "NAME",
        default_value = "berth-scheduler"
    )]
    pub leader_elect_name: String,
    /// How long a Lease that is not renewed keeps others out, in whole seconds; a killed leader costs this and a moment
    #[arg(long, env = "BERTH_LEADER_ELECT_LEASE_DURATION", value_name = "DURATION", value_parser = duration::parse, default_value = "4s")]
    pub leader_elect_lease_duration: Duration,
    /// How long a leader continues without a successful renewal; a longer silence of the API server costs the leadership
    #[arg(long, env = "BERTH_LEADER_ELECT_RENEW_DEADLINE", value_name = "DURATION", value_parser = duration::parse, default_value = "3s")]
    pub leader_elect_renew_deadline: Duration,
    /// How often the Lease is renewed, or checked
    #[arg(long, env = "BERTH_LEADER_ELECT_RETRY_PERIOD", value_name = "DURATION", value_parser = duration::parse, default_value = "500ms")]
    pub leader_elect_retry_period: Duration,
    /// Maximum number of concurrent bindings; below it as many as keep the API server busy
    #[arg(long, env = "BERTH_BIND_CONCURRENCY", value_name = "N", allow_negative_numbers = true, default_value = "512",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=10_000))]
    pub bind_concurrency: usize,
    /// Maximum number of bindings per second [default: as many as the API server takes]
    #[arg(long, env = "BERTH_BIND_QPS", value_name = "N", allow_negative_numbers = true,
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000_000))]
    pub bind_qps: Option<u32>,
    /// Maximum burst of bindings if their rate is limited [default: that of a second]
    #[arg(long, env = "BERTH_BIND_BURST", value_name = "N", allow_negative_numbers = true, requires = "bind_qps",
        value_parser = RangedU64ValueParser::<u32>::new().range(1..=1_000_000))]
    pub bind_burst: Option<u32>,
    /// Label that names the group of a pod; may be repeated, the first one on a pod counts
    /// [default: scheduling.kubernetes.io/pod-group, scheduling.x-k8s.io/pod-group, pod-group.scheduling.sigs.k8s.io,
    /// pod-group.scheduling.sigs.k8s.io/name]
    #[arg(long, env = "BERTH_POD_GROUP_LABEL", value_name = "KEY", value_delimiter = ',')]
    pub pod_group_label: Vec<String>,
    /// Label or annotation that says how many pods of a group are placed together; may be repeated
    /// [default: scheduling.kubernetes.io/min-available, pod-group.scheduling.sigs.k8s.io/min-available]
    #[arg(long, env = "BERTH_MIN_AVAILABLE_KEY", value_name = "KEY", value_delimiter = ',')]
    pub min_available_key: Vec<String>,
}

/// Result of resolving the flags and files.
#[derive(Debug)]
pub struct Resolved {
    /// The server's configuration.
    pub config: Config,
    options: SchedulerOptions,
    scheduler_name: String,
}

impl ScheduleArgs {
    /// Defaults, overridden by the file, the environment and the flags, in this order.
    ///
    /// # Errors
    /// The errors of [`Config::resolve`], and flags that contradict each other.
    pub fn resolve(&self) -> Result<Resolved, ConfigError> {
        let mut overrides = self.serve.overrides.clone();
        if overrides.kube.kube == Some(false) {
            return refused("--kube", "`berth schedule` is fed by the API server");
        }
        overrides.kube.kube = Some(true);
        let config = Config::resolve(self.serve.config.as_deref(), &overrides)?;
        if self.scheduler_name.as_deref() == Some("") {
            return refused("--scheduler-name", "must not be empty");
        }
        for (flag, keys) in [
            ("--pod-group-label", &self.pod_group_label),
            ("--min-available-key", &self.min_available_key),
        ] {
            if let Some(reason) = keys.iter().find_map(|key| syntax::qualified_name(key).err()) {
                return refused(flag, &reason);
            }
        }
        if config.extender.bind {
            let reason = "`berth schedule` binds nothing for others: run `berth serve --kube` beside kube-scheduler for that";
            return refused("extender.bind", reason);
        }
        if self.scheduler_name.is_some() && config.scheduler_config.is_some() {
            let reason = "the profiles of the scheduler configuration have names of their own: give one or the other";
            return refused("--scheduler-name", reason);
        }
        let default_name = if self.hand_off { DEFAULT_SCHEDULER_NAME } else { "berth" };
        let instance = instance();
        let lease = self.leader_elect.then(|| self.lease(&instance)).transpose()?;
        let default = SchedulerOptions::default();
        let options = SchedulerOptions {
            groups: self.groups(),
            hand_off: self.hand_off,
            lease,
            bind_concurrency: self.bind_concurrency,
            bind_rate: self.bind_qps.map(|qps| BindRate {
                per_second: f64::from(qps),
                burst: self.bind_burst.unwrap_or(qps),
            }),
            stop_timeout: config.drain_grace_period.min(default.stop_timeout),
            instance,
            ..default
        };
        let scheduler_name = self.scheduler_name.clone().unwrap_or_else(|| default_name.to_owned());
        Ok(Resolved { config, options, scheduler_name })
    }

    fn lease(&self, identity: &str) -> Result<LeaseOptions, ConfigError> {
        let (duration, deadline) =
            (self.leader_elect_lease_duration, self.leader_elect_renew_deadline);
        let retry = self.leader_elect_retry_period;
        if duration.subsec_nanos() != 0 || duration.is_zero() {
            return refused("--leader-elect-lease-duration", "must be whole seconds, at least 1");
        }
        if duration > MAX_LEASE {
            return refused("--leader-elect-lease-duration", "must be at most a day");
        }
        if deadline >= duration {
            let reason = "must be less than `--leader-elect-lease-duration`: a leader stops before another one may begin";
            return refused("--leader-elect-renew-deadline", reason);
        }
        if retry.is_zero() || retry >= deadline {
            let reason = "must be greater than 0 and less than `--leader-elect-renew-deadline`";
            return refused("--leader-elect-retry-period", reason);
        }
        for (flag, name) in [
            ("--leader-elect-namespace", &self.leader_elect_namespace),
            ("--leader-elect-name", &self.leader_elect_name),
        ] {
            if let Err(reason) = syntax::dns_subdomain(name) {
                return refused(flag, &reason);
            }
        }
        Ok(LeaseOptions {
            namespace: self.leader_elect_namespace.clone(),
            name: self.leader_elect_name.clone(),
            identity: identity.to_owned(),
            lease_duration: duration,
            renew_deadline: deadline,
            retry_period: retry,
        })
    }

    fn groups(&self) -> GroupKeys {
        let default = GroupKeys::default();
        let given =
            |given: &[String], default| if given.is_empty() { default } else { given.to_vec() };
        GroupKeys {
            name: given(&self.pod_group_label, default.name),
            min_available: given(&self.min_available_key, default.min_available),
        }
    }
}

/// Maximum lease duration: longer than any sensible wait for a lost leader.
const MAX_LEASE: Duration = Duration::from_secs(24 * 3_600);

fn refused<T>(name: &str, reason: &str) -> Result<T, ConfigError> {
    Err(ConfigError::Setting { name: name.to_owned(), reason: reason.to_owned() })
}

/// Serves and schedules until a signal, as `berth serve` does.
///
/// # Errors
/// The errors of [`serve::run`].
pub async fn run(resolved: Resolved) -> Result<ExitCode, CliError> {
    let Resolved { config, mut options, scheduler_name } = resolved;
    telemetry::start_logging(config.log_format);
    let kubernetes = config.kubernetes_version;
    let profiles = match &config.scheduler_config {
        Some(path) => {
            let written = policy::read_configuration(path, kubernetes)?;
            options.queue = QueueOptions { backoff: backoff_of(&written), ..options.queue };
            options.volume_bind_timeout =
                volume_timeout_of(&written).unwrap_or(options.volume_bind_timeout);
            options.device_bind_timeout =
                device_timeout_of(&written).unwrap_or(options.device_bind_timeout);
            Profiles::load(path, kubernetes)?
        }
        None => Profiles::of_version(&scheduler_name, kubernetes),
    };
    let names: Vec<&str> = profiles.names().collect();
    if !options.hand_off && names.contains(&DEFAULT_SCHEDULER_NAME) {
        tracing::warn!(
            "pods of `{DEFAULT_SCHEDULER_NAME}` are bound here: no kube-scheduler may run beside this, for two schedulers of \
             the same pods fill nodes beyond what they have"
        );
    }
    let names = names.join(", ");
    let mode = if options.hand_off { "nominating" } else { "binding" };
    tracing::info!(schedulers = names, leader_election = options.lease.is_some(), "{mode}");
    serve::serve(config, profiles, Some(options)).await
}

fn backoff_of(written: &SchedulerConfiguration) -> Backoff {
    let seconds = |n: i64| Duration::from_secs(u64::try_from(n).unwrap_or(0));
    Backoff {
        initial: seconds(written.pod_initial_backoff_seconds),
        max: seconds(written.pod_max_backoff_seconds),
    }
}

/// The longest timeout of any profile, since one pod's wait delays no other.
fn volume_timeout_of(written: &SchedulerConfiguration) -> Option<Duration> {
    let configs = written.profiles.iter().flat_map(|profile| &profile.plugin_config);
    let timeouts = configs.filter_map(|config| match &config.args {
        PluginArgs::VolumeBinding(args) => u64::try_from(args.bind_timeout_seconds).ok(),
        _ => None,
    });
    timeouts.max().map(Duration::from_secs)
}

/// The longest of the profiles' time limits for devices.
fn device_timeout_of(written: &SchedulerConfiguration) -> Option<Duration> {
    let configs = written.profiles.iter().flat_map(|profile| &profile.plugin_config);
    let timeouts = configs.filter_map(|config| match &config.args {
        PluginArgs::DynamicResources(args) => u64::try_from(args.binding_timeout_ns).ok(),
        _ => None,
    });
    timeouts.max().map(Duration::from_nanos)
}

/// Identity of this instance: the host's name, and a part that is different for each process on it.
fn instance() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|name| !name.is_empty());
    let host = host.or_else(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned()).filter(|name| !name.is_empty())
    });
    let host = host.unwrap_or_else(|| "berth".to_owned());
    // The field in an event has at most 128 bytes.
    let host = &host[..host.floor_char_boundary(100)];
    match SysRng.try_next_u64() {
        Ok(token) => format!("{host}_{token:016x}"),
        Err(_) => format!("{host}_{}", std::process::id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        args: ScheduleArgs,
    }

    fn resolve(flags: &[&str]) -> Result<Resolved, String> {
        let flags = Flags::try_parse_from(std::iter::once("berth").chain(flags.iter().copied()));
        flags.map_err(|error| error.to_string())?.args.resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn the_api_server_is_the_feed_and_a_lease_the_default() {
        let resolved = resolve(&[]).unwrap();
        assert!(resolved.config.kube.is_some());
        assert_eq!(resolved.scheduler_name, "berth");
        let lease = resolved.options.lease.unwrap();
        assert_eq!((lease.namespace.as_str(), lease.name.as_str()), ("berth", "berth-scheduler"));
        assert!(lease.identity.len() > 16, "{}", lease.identity);
        assert_ne!(instance(), instance(), "two processes of one host are two");
        let resolved = resolve(&["--hand-off", "--leader-elect=false", "--bind-qps=50"]).unwrap();
        assert_eq!(resolved.scheduler_name, "default-scheduler");
        assert_eq!(resolved.options.lease, None);
        let rate = BindRate { per_second: 50.0, burst: 50 };
        assert_eq!(resolved.options.bind_rate, Some(rate));
    }

    #[test]
    fn flags_that_contradict_each_other_are_refused() {
        let refused = |flags: &[&str]| resolve(flags).err().unwrap_or_default();
        assert_eq!(refused(&["--kube=false"]), "--kube: `berth schedule` is fed by the API server");
        assert!(refused(&["--cluster", "dump.json"]).starts_with("--kube: "));
        assert!(
            refused(&["--leader-elect-renew-deadline=4s"])
                .starts_with("--leader-elect-renew-deadline: must be less than")
        );
        assert!(
            refused(&["--leader-elect-retry-period=3s"])
                .starts_with("--leader-elect-retry-period: must be greater than 0 and less")
        );
        assert!(
            refused(&["--leader-elect-lease-duration=1500ms"])
                .starts_with("--leader-elect-lease-duration: must be whole seconds")
        );
        assert!(
            refused(&["--leader-elect-lease-duration=876000h"])
                .starts_with("--leader-elect-lease-duration: must be at most a day")
        );
        assert!(refused(&["--bind-burst=5"]).contains("--bind-qps"));
        for flag in [
            "--scheduler-name=",
            "--leader-elect-namespace=a/../../kube-system",
            "--leader-elect-name=",
            "--pod-group-label=a b",
            "--min-available-key=",
        ] {
            let (name, _) = flag.split_once('=').unwrap();
            assert!(refused(&[flag]).starts_with(&format!("{name}: ")), "{}", refused(&[flag]));
        }
    }

    /// The HTTP port has the probes, so it is rarely on loopback.
    #[test]
    fn nothing_is_bound_for_others() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("berth.yaml");
        let text = "apiVersion: berth.dev/v1\nkind: BerthConfiguration\nextender: {bind: true}\n";
        std::fs::write(&path, text).unwrap();
        for flags in [vec![], vec!["--hand-off"]] {
            let flags = [&flags[..], &["--config", path.to_str().unwrap()]].concat();
            let error = resolve(&flags).err().unwrap_or_default();
            assert!(error.starts_with("extender.bind: `berth schedule` binds nothing"), "{error}");
        }
    }

    #[test]
    fn labels_replace_those_that_are_known() {
        let resolved = resolve(&["--pod-group-label=a/b,c/d", "--min-available-key=e/f"]).unwrap();
        assert_eq!(resolved.options.groups.name, ["a/b", "c/d"]);
        assert_eq!(resolved.options.groups.min_available, ["e/f"]);
    }
}
