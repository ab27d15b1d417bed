//! Source: where a command gets its cluster from: files, a server, or the API server, read once.

use std::path::PathBuf;

use berth_client::Credentials;

use crate::apiserver::KubeOptions;

/// Flags that name the source of the cluster.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SourceArgs {
    /// Cluster dump to decide on in this process: `kubectl get nodes,pods -A -o json|yaml`, also gzipped; repeatable
    #[arg(long = "cluster", value_name = "FILE", conflicts_with_all = ["server", "kube"])]
    pub cluster_files: Vec<PathBuf>,
    /// Server to ask instead, for example `http://127.0.0.1:7420`
    #[arg(long, value_name = "URL", conflicts_with = "kube")]
    pub server: Option<String>,
    /// What-if session of the server to work in, as `berth session open` printed it
    #[arg(long, value_name = "ID", requires = "server")]
    pub session: Option<String>,
    /// Read the cluster from its API server, once, and decide in this process: no Berth server is needed
    #[arg(long)]
    pub kube: bool,
    /// Kubeconfig for `--kube` [default: the service account in a cluster, else $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE", requires = "kube")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, value_name = "NAME", requires = "kube")]
    pub context: Option<String>,
    /// Trusted authorities, and the client's credentials.
    #[command(flatten)]
    pub credentials: Credentials,
}

impl SourceArgs {
    /// Whether a source is named.
    pub(in crate::cli) fn is_given(&self) -> bool {
        self.kube || self.server.is_some() || !self.cluster_files.is_empty()
    }

    /// The API server to read.
    pub(super) fn kube_options(&self) -> KubeOptions {
        KubeOptions {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            ..KubeOptions::default()
        }
    }
}
