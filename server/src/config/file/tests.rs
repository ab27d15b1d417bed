//! Tests of configuration files: valid ones, the messages for invalid ones, and precedence.

mod documented;

use super::*;
use crate::runtime::ServerOptions;

const HEAD: &str = "apiVersion: berth.dev/v1\nkind: BerthConfiguration\n";

fn read(body: &str) -> Result<Overrides, String> {
    from_text("berth.yaml", Path::new("/etc/berth"), &format!("{HEAD}{body}"))
        .map_err(|error| error.to_string())
}

fn merge(flags: &Overrides, file: &Overrides) -> Config {
    Config::decide(flags, file).unwrap()
}

/// Returns what is decided where nothing is given.
fn defaults() -> Config {
    merge(&Overrides::default(), &Overrides::default())
}

fn limits(config: &Config) -> Limits {
    config.server_options(ServerOptions::default()).limits
}

#[test]
fn every_field_is_read() {
    let written = read(concat!(
        "grpcAddress: 0.0.0.0:1\nhttpAddress: '[::1]:2'\nclusterFiles: [a.json, /b.yaml]\nschedulerConfig: s.yaml\n",
        "kubernetesVersion: 1.37\nledger: l.redb\netcd: {endpoints: ['http://e:1'], caFile: e.crt}\n",
        "respectFences: false\nforceDeletion: owner\n",
        "insecure: true\nworkerThreads: 3\ntieBreak: {rule: lexicographic, seed: 9}\nlogFormat: json\n",
        "maxMessageBytes: 1024\ndrainGracePeriod: 1m30s\n",
        "maxSessions: 2\nmaxSessionChanges: 7\nmaxSessionBytes: 8\nsessionIdleTimeout: 90s\nassumeTtl: 0s\n",
        "kube: {kubeconfig: k.yaml, context: c, silenceTimeout: 1m}\n",
        "tls: {certFile: tls.crt, keyFile: /tls.key, clientCaFile: ca.crt}\nexpander: {}\n",
        "extender: {maxBodyBytes: 7}\nlimits: {maxConnections: 5}\n",
    ));
    let expected = Overrides {
        grpc_address: Some("0.0.0.0:1".parse().unwrap()),
        http_address: Some("[::1]:2".parse().unwrap()),
        cluster_files: vec!["/etc/berth/a.json".into(), "/b.yaml".into()],
        kube: KubeOverrides {
            kube: Some(true),
            kubeconfig: Some("/etc/berth/k.yaml".into()),
            kube_context: Some("c".to_owned()),
            kube_silence_timeout: Some(Duration::from_secs(60)),
        },
        scheduler_config: Some("/etc/berth/s.yaml".into()),
        kubernetes_version: Some(KubernetesVersion::V1_37),
        ledger: Some("/etc/berth/l.redb".into()),
        etcd: EtcdOverrides {
            etcd_endpoints: vec!["http://e:1".to_owned()],
            etcd_ca_file: Some("/etc/berth/e.crt".into()),
            ..EtcdOverrides::default()
        },
        respect_fences: Some(false),
        force_deletion: Some(ForceDeletion::Owner),
        insecure: Some(true),
        tls: TlsOverrides {
            cert_file: Some("/etc/berth/tls.crt".into()),
            key_file: Some("/tls.key".into()),
            client_ca_file: Some("/etc/berth/ca.crt".into()),
        },
        expander_strategies: Vec::new(),
        expander: Some(ExpanderSection::default()),
        extender: Some(ExtenderOptions { max_body_bytes: 7, ..ExtenderOptions::default() }),
        worker_threads: Some(3),
        tie_break: Some(TieBreakRule::Lexicographic),
        seed: Some(9),
        log_format: Some(LogFormat::Json),
        max_message_bytes: Some(1024),
        drain_grace_period: Some(Duration::from_secs(90)),
        max_sessions: Some(2),
        max_session_changes: Some(7),
        max_session_bytes: Some(8),
        session_idle_timeout: Some(Duration::from_secs(90)),
        assume_ttl: Some(Duration::ZERO),
        limits: LimitsOverrides { max_connections: Some(5), ..LimitsOverrides::default() },
        // These have tests of their own.
        auth: AuthOverrides::default(),
        audit: AuditOverrides::default(),
        journal: JournalOverrides::default(),
        tracing: None,
    };
    assert_eq!(written, Ok(expected));
}

#[test]
fn every_mistake_names_line_and_field() {
    let error = read(concat!(
        "grpcAddress: localhost\nworkerThreads: 0\ntieBreak: {rule: random, sed: 1}\nlogFormat: xml\n",
        "maxMessageBytes: -1\ndrainGracePeriod: -5s\ngrpcPort: 1\ninsecure: yep\ninsecure: false\n",
        "maxSessions: 0\nmaxSessionChanges: many\nsessionIdleTimeout: 0s\nassumeTtl: -1s\n",
        "kubernetesVersion: 1.35\n",
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
        "line 12: `maxSessions`: must be greater than 0",
        "line 13: `maxSessionChanges`: expected an integer, got a string",
        "line 14: `sessionIdleTimeout`: must be greater than 0",
        "line 15: `assumeTtl`: must not be negative",
        "line 16: `kubernetesVersion`: `1.35` is not one of `1.36`, `1.37`",
    ] {
        assert!(error.contains(expected), "{expected}\nis not in\n{error}");
    }
    assert!(error.starts_with("`berth.yaml` has 15 problems:"), "{error}");
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
    assert_eq!(config.grpc_address, defaults().grpc_address);

    let flags =
        Overrides { cluster_files: vec!["g.json".into()], seed: Some(8), ..Overrides::default() };
    let config = merge(&flags, &file);
    assert_eq!(config.cluster_files, [PathBuf::from("g.json")]);
    assert_eq!(config.tie_break, TieBreak::Seeded(8));
    assert_eq!(defaults().tie_break, TieBreak::Seeded(0));
}

#[test]
fn zero_is_refused_from_flags_too() {
    let flags = Overrides { worker_threads: Some(0), ..Overrides::default() };
    let error = Config::resolve(None, &flags).unwrap_err().to_string();
    assert_eq!(error, "--worker-threads: must be between 1 and 1024");
    let flags = Overrides { session_idle_timeout: Some(Duration::ZERO), ..Overrides::default() };
    let error = Config::resolve(None, &flags).unwrap_err().to_string();
    assert_eq!(error, "--session-idle-timeout: must be greater than 0");
    let error = Config::resolve(Some(Path::new("/nonexistent/berth.yaml")), &flags)
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("cannot read `/nonexistent/berth.yaml`: "), "{error}");
}

#[test]
fn limits_are_those_of_the_configuration() {
    let flags =
        Overrides { max_sessions: Some(3), max_session_changes: Some(5), ..Overrides::default() };
    let limited = limits(&merge(&flags, &Overrides::default()));
    assert_eq!((limited.sessions.max_sessions, limited.sessions.max_changes), (3, 5));
    assert_eq!(limits(&defaults()), Limits::default());
}
