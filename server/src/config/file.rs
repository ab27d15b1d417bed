//! The service's configuration: `kind: BerthConfiguration`, overridden by `BERTH_*` variables, overridden by flags.

use super::decode::{self, Cursor, Fields, Reader};
use super::{ConfigError, described_kind, duration};
use crate::telemetry::LogFormat;
use berth_engine::TieBreak;
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The one group and version of [`Config`]'s file.
pub const API_VERSION: &str = "berth.dev/v1";
const KIND: &str = "BerthConfiguration";
/// More threads than any machine that this is for has cores.
const MAX_WORKER_THREADS: usize = 1_024;

/// What a server runs with; every value is decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Where gRPC listens (`grpcAddress`, default `127.0.0.1:7420`).
    pub grpc_address: SocketAddr,
    /// Where HTTP listens (`httpAddress`, default `127.0.0.1:7421`).
    pub http_address: SocketAddr,
    /// Dumps to load at start (`clusterFiles`); relative paths in the file are relative to the file.
    pub cluster_files: Vec<PathBuf>,
    /// A KubeSchedulerConfiguration (`schedulerConfig`); the default profile without it.
    pub scheduler_config: Option<PathBuf>,
    /// Allows listening beyond loopback without TLS (`insecure`).
    pub insecure: bool,
    /// Threads of the runtime (`workerThreads`), 1 to 1024; one a core without it.
    pub worker_threads: Option<usize>,
    /// How equal totals are broken when a request does not say (`tieBreak`, default seeded with 0).
    pub tie_break: TieBreak,
    /// How the log is written (`logFormat`, default text).
    pub log_format: LogFormat,
    /// Longest message that is accepted, in bytes (`maxMessageBytes`, default 64 MiB).
    pub max_message_bytes: usize,
    /// How long calls in flight may take after SIGTERM (`drainGracePeriod`, default 30 s).
    pub drain_grace_period: Duration,
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

/// Flags and variables: each one that is given wins over the file.
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
    /// KubeSchedulerConfiguration to decide by
    #[arg(long, env = "BERTH_SCHEDULER_CONFIG", value_name = "FILE")]
    pub scheduler_config: Option<PathBuf>,
    /// Allow addresses beyond loopback without TLS
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
}

impl Default for Config {
    fn default() -> Config {
        Config {
            grpc_address: SocketAddr::from(([127, 0, 0, 1], 7420)),
            http_address: SocketAddr::from(([127, 0, 0, 1], 7421)),
            cluster_files: Vec::new(),
            scheduler_config: None,
            insecure: false,
            worker_threads: None,
            tie_break: TieBreak::Seeded(0),
            log_format: LogFormat::Text,
            max_message_bytes: 64 << 20,
            drain_grace_period: Duration::from_secs(30),
        }
    }
}

impl TieBreakRule {
    /// The engine's rule.
    pub fn with_seed(self, seed: u64) -> TieBreak {
        match self {
            TieBreakRule::Seeded => TieBreak::Seeded(seed),
            TieBreakRule::Lexicographic => TieBreak::Lexicographic,
        }
    }
}

impl Config {
    /// Defaults, overridden by `file` when there is one, overridden by `overrides`.
    ///
    /// Errors: those of the file (unknown, duplicate or malformed fields with line and path), no or too many threads, and 0 bytes.
    pub fn resolve(file: Option<&Path>, overrides: &Overrides) -> Result<Config, ConfigError> {
        let written = match file {
            Some(path) => {
                let directory = path.parent().unwrap_or(Path::new(""));
                from_text(&path.display().to_string(), directory, &super::read(path)?)?
            }
            None => Overrides::default(),
        };
        let config = merge(overrides, &written);
        let refuse = |name: &str, reason: String| {
            Err(ConfigError::Setting { name: name.to_owned(), reason })
        };
        if config.worker_threads.is_some_and(|n| !(1..=MAX_WORKER_THREADS).contains(&n)) {
            return refuse("--worker-threads", worker_threads_range());
        }
        if config.max_message_bytes == 0 {
            return refuse("--max-message-bytes", "must be greater than 0".to_owned());
        }
        Ok(config)
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
        scheduler_config: overrides
            .scheduler_config
            .clone()
            .or_else(|| file.scheduler_config.clone()),
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
    }
}

/// What a file says, in the form that flags have. `directory` is where relative paths start.
fn from_text(origin: &str, directory: &Path, text: &str) -> Result<Overrides, ConfigError> {
    let document = super::parse(origin, text)?;
    let reader = Reader::default();
    let written = reader.root(&document).object(|fields| fields_of(fields, directory));
    super::located(origin, &document, reader.into_problems())?;
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
        scheduler_config: fields.take("schedulerConfig", path),
        insecure: fields.take("insecure", decode::boolean),
        worker_threads: fields.take("workerThreads", worker_threads),
        tie_break,
        seed,
        log_format: fields.take("logFormat", choice::<LogFormat>),
        max_message_bytes: fields.take("maxMessageBytes", at_least_one),
        drain_grace_period: fields.take("drainGracePeriod", |value| {
            let nanos = decode::nanoseconds(value)?;
            let period = u64::try_from(nanos).map(Duration::from_nanos);
            period.map_err(|_| value.report("must not be negative")).ok()
        }),
    }
}

fn address(value: Cursor<'_>) -> Option<SocketAddr> {
    let text = decode::text(value)?;
    parse_address(&text).map_err(|reason| value.report(reason)).ok()
}

/// An IP address and a port; `localhost` stands for `127.0.0.1`, and no other name is looked up.
pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    if let Some(("localhost", port)) = text.rsplit_once(':')
        && let Ok(port) = port.parse::<u16>()
    {
        return Ok(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    }
    text.parse().map_err(|_| format!("`{text}` is not an address such as `127.0.0.1:7420`"))
}

/// A seed as flags take it: any number of 64 bits without a sign.
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

/// One of the names that the flag of the same setting takes.
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
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: berth.dev/v1\nkind: BerthConfiguration\n";

    fn read(body: &str) -> Result<Overrides, String> {
        from_text("berth.yaml", Path::new("/etc/berth"), &format!("{HEAD}{body}"))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn every_field_is_read() {
        let written = read(concat!(
            "grpcAddress: 0.0.0.0:1\nhttpAddress: '[::1]:2'\nclusterFiles: [a.json, /b.yaml]\nschedulerConfig: s.yaml\n",
            "insecure: true\nworkerThreads: 3\ntieBreak: {rule: lexicographic, seed: 9}\nlogFormat: json\n",
            "maxMessageBytes: 1024\ndrainGracePeriod: 1m30s\n",
        ));
        let expected = Overrides {
            grpc_address: Some("0.0.0.0:1".parse().unwrap()),
            http_address: Some("[::1]:2".parse().unwrap()),
            cluster_files: vec!["/etc/berth/a.json".into(), "/b.yaml".into()],
            scheduler_config: Some("/etc/berth/s.yaml".into()),
            insecure: Some(true),
            worker_threads: Some(3),
            tie_break: Some(TieBreakRule::Lexicographic),
            seed: Some(9),
            log_format: Some(LogFormat::Json),
            max_message_bytes: Some(1024),
            drain_grace_period: Some(Duration::from_secs(90)),
        };
        assert_eq!(written, Ok(expected));
    }

    #[test]
    fn every_mistake_names_line_and_field() {
        let error = read(concat!(
            "grpcAddress: localhost\nworkerThreads: 0\ntieBreak: {rule: random, sed: 1}\nlogFormat: xml\n",
            "maxMessageBytes: -1\ndrainGracePeriod: -5s\ngrpcPort: 1\ninsecure: yep\ninsecure: false\n",
        ))
        .unwrap_err();
        for expected in [
            "line 3: `grpcAddress`: `localhost` is not an address such as `127.0.0.1:7420`",
            "line 4: `workerThreads`: must be between 1 and 1024",
            "line 5: `tieBreak.rule`: `random` is not one of `seeded`, `lexicographic`",
            "line 5: `tieBreak.sed`: unknown field",
            "line 6: `logFormat`: `xml` is not one of `text`, `json`",
            "line 7: `maxMessageBytes`: -1 is out of range",
            "line 8: `drainGracePeriod`: must not be negative",
            "line 9: `grpcPort`: unknown field",
            "line 10: `insecure`: expected a boolean, got a string",
            "line 11: `insecure`: duplicate field, first given on line 10",
        ] {
            assert!(error.contains(expected), "{expected}\nis not in\n{error}");
        }
        assert!(error.starts_with("`berth.yaml` has 10 problems:"), "{error}");
    }

    #[test]
    fn another_kind_is_refused() {
        let error = from_text("c.yaml", Path::new(""), "apiVersion: v1\nkind: Pod\nspec: {}\n")
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            "`c.yaml` line 1: expected `BerthConfiguration` of `berth.dev/v1`, got `Pod` of `v1`"
        );
    }

    #[test]
    fn what_is_no_configuration_is_told_plainly() {
        let error = |text: &str| from_text("c", Path::new(""), text).unwrap_err().to_string();
        assert_eq!(error(""), "`c` line 1: the document is empty");
        assert_eq!(
            error("insecure: true\n"),
            "`c` line 1: expected `BerthConfiguration` of `berth.dev/v1`, got neither `kind` nor `apiVersion`"
        );
        assert_eq!(
            read("maxMessageBytes: 18446744073709551616\n").unwrap_err(),
            "`berth.yaml` line 3: `maxMessageBytes`: 18446744073709551616 is out of range"
        );
    }

    #[test]
    fn localhost_is_an_address() {
        assert_eq!(parse_address("localhost:18001"), Ok("127.0.0.1:18001".parse().unwrap()));
        assert_eq!(parse_address("[::1]:1"), Ok("[::1]:1".parse().unwrap()));
        for text in ["localhost", "localhost:99999", "host:1", "", "127.0.0.1"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file =
            read("workerThreads: 3\ntieBreak: {seed: 7}\nclusterFiles: [f.json]\ninsecure: true\n")
                .unwrap();
        let flags =
            Overrides { worker_threads: Some(1), insecure: Some(false), ..Overrides::default() };
        let config = merge(&flags, &file);
        assert_eq!(config.worker_threads, Some(1));
        assert!(!config.insecure);
        assert_eq!(config.tie_break, TieBreak::Seeded(7));
        assert_eq!(config.cluster_files, [PathBuf::from("/etc/berth/f.json")]);
        assert_eq!(config.grpc_address, Config::default().grpc_address);

        let flags = Overrides {
            cluster_files: vec!["g.json".into()],
            seed: Some(8),
            ..Overrides::default()
        };
        let config = merge(&flags, &file);
        assert_eq!(config.cluster_files, [PathBuf::from("g.json")]);
        assert_eq!(config.tie_break, TieBreak::Seeded(8));
        assert_eq!(merge(&Overrides::default(), &Overrides::default()), Config::default());
    }

    #[test]
    fn zero_is_refused_from_flags_too() {
        let flags = Overrides { worker_threads: Some(0), ..Overrides::default() };
        let error = Config::resolve(None, &flags).unwrap_err().to_string();
        assert_eq!(error, "--worker-threads: must be between 1 and 1024");
        let error = Config::resolve(Some(Path::new("/nonexistent/berth.yaml")), &flags)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("cannot read `/nonexistent/berth.yaml`: "), "{error}");
    }
}
