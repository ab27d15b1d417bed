//! Where answers come from: the engine in this process over a dump, or a running server. Both answer in wire types, so
//! that whatever is printed looks the same.

use std::collections::HashSet;
use std::path::PathBuf;

use berth_engine::{Cluster, Outcome, PlaceRequest, Plugin, Pod, PodKey, Policy, TieBreak};
use berth_loadgen::client::Client;
use berth_proto::berth_v1::{
    self as wire, BatchEntry, ExplainRequest, ExplainResponse, PlaceBatchRequest, PlaceResult,
};
use berth_proto::core_v1;

use super::CliError;
use super::{output, pods};
use crate::config::file::{TieBreakRule, parse_seed};
use crate::config::policy::Profiles;
use crate::feed::FeedError;
use crate::feed::file::{self, Located, Location, Refused};
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
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_seed)]
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
    /// Those of the dump's pods that may be asked for, as written and admitted; without the refused ones.
    pub(super) pods: Vec<core_v1::Pod>,
    /// Objects of the dump that were not taken.
    refused: Vec<Refused>,
}

/// Refused objects of a dump that are told one by one; the rest is counted.
const MAX_REFUSED_LINES: usize = 100;

impl BackendArgs {
    /// Loads the dump or connects. Objects of the dump that are refused are kept for [`Backend::tell`]; the rest is used.
    ///
    /// Of the dump's pods only those that `is_asked_for` are kept as they were written.
    pub(super) async fn open(
        &self,
        is_asked_for: impl Fn(&core_v1::Pod) -> bool + Sync,
    ) -> Result<Backend, CliError> {
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
        let tie_break = self.tie_break.unwrap_or_default().with_seed(self.seed.unwrap_or(0));
        let local = Local::load(&self.cluster_files, is_asked_for, profiles, tie_break)?;
        Ok(Backend::Local(Box::new(local)))
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
    /// What a reader of the answer should know of it, a sentence each; a server keeps its own to itself.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Backend::Local(local) => local.profiles.warnings().to_vec(),
            Backend::Server { .. } => Vec::new(),
        }
    }

    /// How many objects of the cluster were not taken.
    pub(super) fn n_refused(&self) -> usize {
        match self {
            Backend::Local(local) => local.refused.len(),
            Backend::Server { .. } => 0,
        }
    }

    /// Tells the notes and the refused objects on standard error, behind the answer.
    pub(super) fn tell(&self, notes: &[String]) {
        if let Backend::Local(local) = self {
            for refused in local.refused.iter().take(MAX_REFUSED_LINES) {
                output::note(&format!("refused: {refused}"));
            }
            let n_more = local.refused.len().saturating_sub(MAX_REFUSED_LINES);
            if n_more > 0 {
                output::note(&format!("refused: {} more", output::count(n_more, "object")));
            }
        }
        for note in notes {
            output::note(&format!("note: {note}"));
        }
    }

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
    fn load(
        paths: &[PathBuf],
        is_asked_for: impl Fn(&core_v1::Pod) -> bool + Sync,
        profiles: Profiles,
        tie_break: TieBreak,
    ) -> Result<Local, FeedError> {
        let cluster = Cluster::new();
        let (report, asked_for) = file::load_files_keeping(&cluster, paths, |pod| {
            pods::admit(pod);
            is_asked_for(pod)
        })?;
        let place = |at: &Location| (at.path.clone(), at.document, at.item);
        let refused_at: HashSet<_> = report.refused.iter().map(|r| place(&r.location)).collect();
        let is_taken = |pod: &Located<_>| !refused_at.contains(&place(&pod.location));
        let taken = asked_for.into_iter().filter(is_taken);
        Ok(Local {
            cluster,
            profiles,
            tie_break,
            pods: taken.map(|pod| pod.value).collect(),
            refused: report.refused,
        })
    }

    /// Why the dump's pod `namespace/name` was not taken.
    pub(super) fn refusal_of(&self, name: &str) -> Option<&Refused> {
        let object = format!("Pod `{name}`");
        self.refused.iter().find(|refused| refused.object == object)
    }

    /// Whether pods of `scheduler_name` are decided here (S-Q-2).
    pub(super) fn has_profile(&self, scheduler_name: &str) -> bool {
        self.profiles.get(scheduler_name).is_some()
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
        let policy = self.profiles.of_scheduler(name);
        let policy = policy.map_err(|reason| CallError::field("spec.schedulerName", reason))?;
        Ok((compiled, policy))
    }
}

/// The end of `--help` of commands that decide: what is evaluated, and what the exit status means.
pub(super) fn after_help(exit_status: &str) -> String {
    let (built, missing): (Vec<Plugin>, Vec<Plugin>) =
        Plugin::ALL.into_iter().partition(|plugin| plugin.is_built());
    let names = |plugins: &[Plugin]| {
        plugins.iter().map(|plugin| plugin.name()).collect::<Vec<_>>().join(", ")
    };
    format!(
        "Evaluated plugins: {}.\nNot evaluated in this version: {}; a pod whose spec asks for one of them is refused.\n\n{exit_status}",
        names(&built),
        names(&missing)
    )
}

fn remote(url: &str, status: &tonic::Status) -> CliError {
    // tonic's words for the answer of some other HTTP server, such as Berth's own second port: without a body, with one,
    // and with a status of its own.
    const NOT_GRPC: [&str; 3] =
        ["grpc-status header missing", "invalid compression flag", "mapped from HTTP status code"];
    let reason = if NOT_GRPC.iter().any(|words| status.message().contains(words)) {
        "something answers there, but not in gRPC; `berth serve` has gRPC and HTTP on different ports".to_owned()
    } else {
        format!("{:?}: {}", status.code(), status.message())
    };
    CliError::Remote { server: url.to_owned(), reason }
}

/// NAME-i with UID-i, as `BatchEntry.replicas` names them.
fn replica(pod: &Pod, index: u32) -> Pod {
    let key = pod.key();
    let name = format!("{}-{index}", key.name);
    pod.with_identity(PodKey::new(&key.namespace, &name), &format!("{}-{index}", pod.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_grpc_says_so() {
        let status = tonic::Status::unimplemented(
            "grpc-status header missing, mapped from HTTP status code 404",
        );
        let error = remote("http://h:1", &status).to_string();
        assert!(
            error.starts_with("`http://h:1`: something answers there, but not in gRPC"),
            "{error}"
        );
        let status = tonic::Status::unavailable("gone");
        assert_eq!(remote("http://h:1", &status).to_string(), "`http://h:1`: Unavailable: gone");
    }
}
