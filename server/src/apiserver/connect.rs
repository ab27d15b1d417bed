//! Connect: creates the client of the API server, from inside the cluster or by a kubeconfig.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::KubeOptions;
use super::causes::with_causes;
use crate::escape::printable;

/// Variable that the kubelet sets in every pod.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";
/// Files of a pod's service account, as the kubelet mounts them.
const SERVICE_ACCOUNT: [&str; 2] = [
    "/var/run/secrets/kubernetes.io/serviceaccount/token",
    "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
];
/// Time limit for a connection; after it the next attempt begins.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Reason why there is no client. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A pod without a usable service account.
    #[error(
        "cannot connect from inside the cluster: {source}; let the pod have a service account token \
         (`automountServiceAccountToken`), or name a file with `--kubeconfig`"
    )]
    InCluster {
        /// The missing part.
        source: InClusterError,
    },
    /// The kubeconfig named by the flag cannot be used.
    #[error("cannot use the kubeconfig `{}`: {}", path.display(), without_secrets(source))]
    Named {
        /// The file.
        path: PathBuf,
        /// The error in it.
        source: KubeconfigError,
    },
    /// The kubeconfig in the default places cannot be used.
    #[error(
        "cannot use the kubeconfig of `$KUBECONFIG` or `~/.kube/config`: {}; name one with `--kubeconfig`, or \
         run in a pod with a service account",
        without_secrets(source)
    )]
    Usual {
        /// The error in it.
        source: KubeconfigError,
    },
    /// Credentials or certificates cannot be used.
    #[error("cannot use the credentials for the API server: {}", first_line(&with_causes(source.as_ref())))]
    Credentials {
        /// The error in them.
        source: Box<kube::Error>,
    },
}

/// Creates a client of the API server that the options name. Nothing is sent to the server yet: one that is down now
/// may be up when it is needed. Tokens are read again as they are renewed, and credential plug-ins are run; a client
/// that outlives its files is a [`Connection`](super::Connection).
///
/// # Errors
/// [`ConnectError`]: a configuration that cannot be read, or credentials that cannot be used.
pub async fn connect(options: &KubeOptions) -> Result<Client, ConnectError> {
    client_of(Source::find(options)?, options).await
}

/// Creates the client that a source describes.
pub(super) async fn client_of(
    source: Source,
    options: &KubeOptions,
) -> Result<Client, ConnectError> {
    let mut config = configure(source, options).await?;
    trim_token(&mut config);
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // A watch may rightly be silent for a minute; the feed has its own timeout.
    config.read_timeout = None;
    // Each caller decides whether a retry is safe.
    config.default_retry = false;
    Client::try_from(config)
        .map_err(|source| ConnectError::Credentials { source: Box::new(source) })
}

async fn configure(source: Source, options: &KubeOptions) -> Result<Config, ConnectError> {
    match source {
        Source::InCluster => {
            Config::incluster().map_err(|source| ConnectError::InCluster { source })
        }
        Source::Kubeconfig { kubeconfig, .. } => {
            let context = options.context.clone();
            let choice = KubeConfigOptions { context, ..KubeConfigOptions::default() };
            let config = Config::from_custom_kubeconfig(*kubeconfig, &choice).await;
            config.map_err(|error| unusable(options, error))
        }
    }
}

/// Removes the line break that an editor or `echo` leaves after a token: the client sends a token file as it is. A token
/// that stands in the kubeconfig itself comes first.
fn trim_token(config: &mut Config) {
    if config.auth_info.token.is_some() {
        return;
    }
    let token = config.auth_info.token_file.as_ref().and_then(|path| fs::read_to_string(path).ok());
    if let Some(token) = token.filter(|token| token.trim() != token) {
        config.auth_info.token = Some(token.trim().to_owned().into());
        config.auth_info.token_file = None;
    }
}

/// Where the address and the credentials of the API server are from.
pub(super) enum Source {
    /// The service account of the pod.
    InCluster,
    /// A kubeconfig, and its files: more than one if `$KUBECONFIG` names more.
    Kubeconfig {
        /// The merged contents.
        kubeconfig: Box<Kubeconfig>,
        /// The files that were merged.
        paths: Vec<PathBuf>,
    },
}

impl Source {
    /// Reads the source that the options name.
    pub(super) fn find(options: &KubeOptions) -> Result<Source, ConnectError> {
        let read = match &options.kubeconfig {
            Some(path) => Kubeconfig::read_from(path).map(|read| (read, vec![path.clone()])),
            None if options.context.is_none() && env::var_os(IN_CLUSTER).is_some() => {
                return Ok(Source::InCluster);
            }
            None => Kubeconfig::read().map(|read| (read, usual_paths())),
        };
        let (kubeconfig, paths) = read.map_err(|error| unusable(options, error))?;
        Ok(Source::Kubeconfig { kubeconfig: Box::new(kubeconfig), paths })
    }

    /// All files that the connection rests on: the kubeconfig, the token, certificates and the key of its context.
    pub(super) fn files(&self, context: Option<&str>) -> Vec<PathBuf> {
        match self {
            Source::InCluster => SERVICE_ACCOUNT.map(PathBuf::from).to_vec(),
            Source::Kubeconfig { kubeconfig, paths } => {
                let named = context.or(kubeconfig.current_context.as_deref());
                let referenced = named.map_or_else(Vec::new, |name| of_context(kubeconfig, name));
                paths.iter().cloned().chain(referenced).collect()
            }
        }
    }
}

fn unusable(options: &KubeOptions, source: KubeconfigError) -> ConnectError {
    match &options.kubeconfig {
        Some(path) => ConnectError::Named { path: path.clone(), source },
        None => ConnectError::Usual { source },
    }
}

/// The files that kubectl reads without a flag.
fn usual_paths() -> Vec<PathBuf> {
    let of_variable: Vec<PathBuf> = env::var_os("KUBECONFIG")
        .map(|paths| env::split_paths(&paths).filter(|path| !path.as_os_str().is_empty()).collect())
        .unwrap_or_default();
    match env::home_dir() {
        Some(home) if of_variable.is_empty() => vec![home.join(".kube").join("config")],
        _ => of_variable,
    }
}

/// The files that a context of a kubeconfig names.
fn of_context(kubeconfig: &Kubeconfig, name: &str) -> Vec<PathBuf> {
    let context = kubeconfig.contexts.iter().find(|named| named.name == name);
    let Some(context) = context.and_then(|named| named.context.as_ref()) else { return Vec::new() };
    let cluster = kubeconfig.clusters.iter().find(|named| named.name == context.cluster);
    let authority = cluster.and_then(|named| named.cluster.as_ref()?.certificate_authority.clone());
    let user =
        kubeconfig.auth_infos.iter().find(|named| Some(&named.name) == context.user.as_ref());
    let user = user.and_then(|named| named.auth_info.as_ref());
    let of_user = user.map(|user| {
        [user.token_file.clone(), user.client_certificate.clone(), user.client_key.clone()]
    });
    let files = authority.into_iter().chain(of_user.into_iter().flatten().flatten());
    files.map(PathBuf::from).collect()
}

/// The error in a kubeconfig with its line. The parser's own text shows the lines around an error, and in a kubeconfig
/// those contain tokens, passwords and keys.
fn without_secrets(error: &KubeconfigError) -> String {
    let KubeconfigError::Parse(error) = error else { return first_line(&with_causes(error)) };
    match error.location() {
        Some(at) => {
            format!("line {}, column {}: not what is expected there", at.line(), at.column())
        }
        None => "it is no YAML".to_owned(),
    }
}

fn first_line(text: &str) -> String {
    printable(text.lines().next().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn error_of(text: &str, context: Option<&str>) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config");
        fs::write(&path, text).unwrap();
        let options = KubeOptions {
            kubeconfig: Some(path),
            context: context.map(str::to_owned),
            ..KubeOptions::default()
        };
        match connect(&options).await {
            Ok(_) => String::new(),
            Err(error) => error.to_string().replace(&directory.path().display().to_string(), "DIR"),
        }
    }

    const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
        clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\n\
        users: [{name: u, user: {}}]\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n";

    #[tokio::test]
    async fn a_kubeconfig_makes_a_client_without_asking_the_server() {
        assert_eq!(error_of(KUBECONFIG, None).await, "");
        assert_eq!(error_of(KUBECONFIG, Some("a")).await, "");
    }

    #[tokio::test]
    async fn errors_name_the_file_and_what_is_wrong() {
        let error = error_of(KUBECONFIG, Some("b")).await;
        assert!(error.starts_with("cannot use the kubeconfig `DIR/config`: "), "{error}");
        assert!(error.contains('b'), "{error}");
        let options =
            KubeOptions { kubeconfig: Some("/nowhere/config".into()), ..KubeOptions::default() };
        let error = connect(&options).await.err().unwrap().to_string();
        assert!(error.contains("`/nowhere/config`") && error.contains("No such file"), "{error}");
        assert!(error_of("contexts: [", None).await.contains("DIR/config"));
    }

    #[tokio::test]
    async fn no_error_shows_what_a_kubeconfig_holds() {
        let users = |user: &str| {
            KUBECONFIG.replace(
                "users: [{name: u, user: {}}]",
                &format!("users:\n- name: u\n  user:\n{user}"),
            )
        };
        for (user, line) in [
            ("    password: s3cret\n    token: [s3cret]\n    client-key-data: s3cret", "line 9"),
            ("    s3cret", "line "),
            ("    exec: s3cret\n    token: s3cret", "line "),
            ("    token: \"s3cret\n  password: s3cret\n", "line "),
        ] {
            let error = error_of(&users(user), None).await;
            assert!(error.contains(line), "{user}: {error}");
            assert!(!error.contains("s3cret") && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_token_of_the_kubeconfig_comes_before_its_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "of-file\n").unwrap();
        let mut config = Config::new("http://127.0.0.1:1".parse().unwrap());
        config.auth_info.token_file = Some(file.path().display().to_string());
        let mut with_both = config.clone();
        with_both.auth_info.token = Some("inline".to_owned().into());
        trim_token(&mut with_both);
        assert!(with_both.auth_info.token_file.is_some(), "nothing is taken from the file");
        trim_token(&mut config);
        assert!(config.auth_info.token.is_some() && config.auth_info.token_file.is_none());
    }
}
