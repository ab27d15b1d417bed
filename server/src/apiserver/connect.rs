//! Connect: creates the client of the API server, from inside the cluster or by a kubeconfig.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use kube::config::{InClusterError, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

use super::KubeOptions;
use crate::escape::printable;

/// Variable that the kubelet sets in every pod.
const IN_CLUSTER: &str = "KUBERNETES_SERVICE_HOST";
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
    #[error("cannot use the credentials for the API server: {}", first_line(&chain(source.as_ref())))]
    Credentials {
        /// The error in them.
        source: Box<kube::Error>,
    },
}

/// Creates a client of the API server that the options name. Nothing is sent to the server yet: one that is down now
/// may be up when it is needed. Tokens are read again as they are renewed, and credential plug-ins are run.
///
/// # Errors
/// [`ConnectError`]: a configuration that cannot be read, or credentials that cannot be used.
pub async fn connect(options: &KubeOptions) -> Result<Client, ConnectError> {
    let mut config = configure(options).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // A watch may rightly be silent for a minute; the feed has its own timeout.
    config.read_timeout = None;
    // Each caller decides whether a retry is safe.
    config.default_retry = false;
    Client::try_from(config)
        .map_err(|source| ConnectError::Credentials { source: Box::new(source) })
}

async fn configure(options: &KubeOptions) -> Result<Config, ConnectError> {
    let KubeOptions { kubeconfig, context, .. } = options;
    let choice = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
    if let Some(path) = kubeconfig {
        let failed = |source| ConnectError::Named { path: path.clone(), source };
        let read = Kubeconfig::read_from(path).map_err(failed)?;
        return Config::from_custom_kubeconfig(read, &choice).await.map_err(failed);
    }
    if context.is_none() && env::var_os(IN_CLUSTER).is_some() {
        return Config::incluster().map_err(|source| ConnectError::InCluster { source });
    }
    Config::from_kubeconfig(&choice).await.map_err(|source| ConnectError::Usual { source })
}

/// The error in a kubeconfig with its line. The parser's own text shows the lines around an error, and in a kubeconfig
/// those contain tokens, passwords and keys.
fn without_secrets(error: &KubeconfigError) -> String {
    let KubeconfigError::Parse(error) = error else { return first_line(&chain(error)) };
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

/// An error with its causes, as one line.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Many errors quote their cause already.
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;

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
}
