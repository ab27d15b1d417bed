//! Where answers come from: the engine in this process over a dump, or a running server. Both answer in wire types, so
//! that whatever is printed looks the same.

use std::path::PathBuf;

use berth_engine::{Cluster, Outcome, PlaceRequest, Pod, PodKey, Policy, TieBreak};
use berth_loadgen::client::Client;
use berth_proto::berth_v1::{
    self as wire, BatchEntry, ExplainRequest, ExplainResponse, PlaceBatchRequest, PlaceResult,
};
use berth_proto::core_v1;

use super::CliError;
use super::output;
use crate::config::file::TieBreakRule;
use crate::config::policy::Profiles;
use crate::feed::file::{self, Dump};
use crate::grpc::convert;
use crate::grpc::status::CallError;

/// Flags that say whom to ask.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(group(clap::ArgGroup::new("backend").required(true).args(["cluster_files", "server"])))]
pub struct BackendArgs {
    /// Cluster dump to decide on in this process: `kubectl get nodes,pods -A -o json|yaml`, also gzipped; repeatable
    #[arg(long = "cluster", value_name = "FILE")]
    pub cluster_files: Vec<PathBuf>,
    /// Server to ask instead, for example `http://127.0.0.1:7420`
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// KubeSchedulerConfiguration to decide by (the server has its own)
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub scheduler_config: Option<PathBuf>,
    /// How equal totals are broken [default: seeded, or the server's rule]
    #[arg(long, value_name = "RULE")]
    pub tie_break: Option<TieBreakRule>,
    /// Seed of the seeded rule [default: 0]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

/// Who answers.
pub(super) enum Backend {
    /// The engine, here.
    Local(Box<Local>),
    /// A server.
    Server {
        /// Its address as it was given.
        url: String,
        /// One connection.
        client: Client,
        /// The rule for ties, when one was asked for.
        tie_break: Option<wire::TieBreak>,
    },
}

/// The engine over a dump.
pub(super) struct Local {
    cluster: Cluster,
    profiles: Profiles,
    tie_break: TieBreak,
    /// The dump's pods as written, to be named on the command line.
    pub(super) pods: Vec<core_v1::Pod>,
}

impl BackendArgs {
    /// Loads the dump or connects. Objects of the dump that are refused are told on standard error; the rest is used.
    pub(super) async fn open(&self) -> Result<Backend, CliError> {
        if let Some(url) = &self.server {
            let client = Client::connect(url, 1)
                .await
                .map_err(|error| CliError::Request(error.to_string()))?;
            return Ok(Backend::Server {
                url: url.clone(),
                client,
                tie_break: self.wire_tie_break(),
            });
        }
        let profiles = match &self.scheduler_config {
            Some(path) => Profiles::load(path)?,
            None => Profiles::default(),
        };
        let dump = file::read_all(&self.cluster_files)?;
        let tie_break = self.tie_break.unwrap_or_default().with_seed(self.seed.unwrap_or(0));
        Ok(Backend::Local(Box::new(Local::load(dump, profiles, tie_break))))
    }

    fn wire_tie_break(&self) -> Option<wire::TieBreak> {
        let rule = match self.tie_break {
            Some(TieBreakRule::Lexicographic) => wire::TieBreakRule::Lexicographic,
            Some(TieBreakRule::Seeded) => wire::TieBreakRule::Seeded,
            // A seed alone asks for the rule that reads it.
            None if self.seed.is_some() => wire::TieBreakRule::Seeded,
            None => return None,
        };
        Some(wire::TieBreak { rule: rule.into(), seed: self.seed.unwrap_or(0) })
    }
}

impl Backend {
    /// Decides one pod after another, each seeing those before it placed; one result a pod, replicas expanded.
    ///
    /// `assume` makes a server keep the placements; a dump is never changed.
    pub(super) async fn place(
        &self,
        entries: Vec<BatchEntry>,
        assume: bool,
    ) -> Result<Vec<PlaceResult>, CliError> {
        match self {
            Backend::Local(local) => {
                Ok(entries.into_iter().flat_map(|entry| local.place(entry)).collect())
            }
            Backend::Server { url, client, tie_break } => {
                let mode = if assume { wire::PlaceMode::Assume } else { wire::PlaceMode::DryRun };
                let request =
                    PlaceBatchRequest { entries, mode: mode.into(), tie_break: *tie_break };
                let answer = client.placement(0).place_batch(request).await;
                Ok(answer.map_err(|status| remote(url, &status))?.into_inner().results)
            }
        }
    }

    /// The full account for one pod; `node_names` empty means every node.
    pub(super) async fn explain(
        &self,
        pod: core_v1::Pod,
        node_names: Vec<String>,
    ) -> Result<ExplainResponse, CliError> {
        match self {
            Backend::Local(local) => local
                .explain(&pod, &node_names)
                .map_err(|error| CliError::Request(error.to_string())),
            Backend::Server { url, client, tie_break } => {
                let request = ExplainRequest { pod: Some(pod), tie_break: *tie_break, node_names };
                let answer = client.placement(0).explain(request).await;
                Ok(answer.map_err(|status| remote(url, &status))?.into_inner())
            }
        }
    }
}

impl Local {
    fn load(dump: Dump, profiles: Profiles, tie_break: TieBreak) -> Local {
        let pods = dump.pods.iter().map(|pod| pod.value.clone()).collect();
        let cluster = Cluster::new();
        for refused in file::load(&cluster, dump).refused {
            output::note(&format!("refused: {refused}"));
        }
        Local { cluster, profiles, tie_break, pods }
    }

    /// Takes a running pod off its node, so that it can be decided as if it were pending.
    pub(super) fn take_off(&self, key: PodKey) {
        self.cluster.apply(vec![berth_engine::Delta::DeletePod { key, uid: None }]);
    }

    fn place(&self, entry: BatchEntry) -> Vec<PlaceResult> {
        let pod = entry.pod.unwrap_or_default();
        let compiled = self.compile(&pod);
        let n_replicas = entry.replicas.max(1);
        (0..n_replicas)
            .map(|index| {
                let decided = compiled.clone().and_then(|(pod, policy)| {
                    let pod = if n_replicas > 1 { replica(&pod, index) } else { pod };
                    let request = PlaceRequest { pod: &pod, policy, tie_break: self.tie_break };
                    let mut decision = self.cluster.assume(&request)?;
                    if let Outcome::Placed(placement) = &mut decision.outcome {
                        // Held for the pods after it, gone with this process: nothing that a caller could rely on.
                        placement.assumed = false;
                    }
                    Ok(decision)
                });
                convert::place_result(decided)
            })
            .collect()
    }

    fn explain(
        &self,
        pod: &core_v1::Pod,
        node_names: &[String],
    ) -> Result<ExplainResponse, CallError> {
        let (pod, policy) = self.compile(pod)?;
        let request = PlaceRequest { pod: &pod, policy, tie_break: self.tie_break };
        let explanation = self.cluster.explain(&request)?;
        let nodes = explanation.nodes.into_iter().map(convert::node_verdict);
        Ok(ExplainResponse {
            decision: Some(convert::decision(explanation.decision)),
            nodes: nodes
                .filter(|node| node_names.is_empty() || node_names.contains(&node.node_name))
                .collect(),
            remedies: explanation.remedies.into_iter().map(convert::remedy).collect(),
        })
    }

    fn compile(&self, pod: &core_v1::Pod) -> Result<(Pod, &Policy), CallError> {
        let compiled = self.cluster.compile_pod(pod)?;
        let name = compiled.scheduler_name();
        let policy = self.profiles.get(name).ok_or_else(|| {
            let known: Vec<String> =
                self.profiles.names().map(|name| format!("`{name}`")).collect();
            CallError::field(
                "spec.schedulerName",
                format!("no profile is named `{name}`, there is {}", known.join(", ")),
            )
        })?;
        Ok((compiled, policy))
    }
}

fn remote(url: &str, status: &tonic::Status) -> CliError {
    CliError::Remote {
        server: url.to_owned(),
        reason: format!("{:?}: {}", status.code(), status.message()),
    }
}

/// NAME-i with UID-i, as `BatchEntry.replicas` names them.
fn replica(pod: &Pod, index: u32) -> Pod {
    let key = pod.key();
    let name = format!("{}-{index}", key.name);
    pod.with_identity(PodKey::new(&key.namespace, &name), &format!("{}-{index}", pod.uid()))
}
