//! Options of the connection to the API server.

use std::path::PathBuf;
use std::time::Duration;

/// The API server to read from, and the timeout of its watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KubeOptions {
    /// The kubeconfig (`kube.kubeconfig`); without it and without a context, the pod's service account inside a
    /// cluster, and `$KUBECONFIG` or `~/.kube/config` outside.
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig (`kube.context`); its current one by default.
    pub context: Option<String>,
    /// How long a watch may be silent, bookmarks included, before it counts as dead (`kube.silenceTimeout`, default 2.5
    /// minutes, at least 1 s). API servers send a bookmark about once a minute.
    pub silence_timeout: Duration,
}

impl Default for KubeOptions {
    fn default() -> KubeOptions {
        KubeOptions { kubeconfig: None, context: None, silence_timeout: Duration::from_secs(150) }
    }
}
