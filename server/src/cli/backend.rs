//! Sources of answers: the engine in this process over a dump, or a running server. Both answer in wire types, so
//! that their answers are printed alike.

mod counts;
mod kube;
mod local;
mod remote;
mod source;

use std::collections::BTreeMap;
use std::path::PathBuf;

use berth_engine::workload::DaemonNode;
use berth_engine::{KubernetesVersion, Plugin, PodKey};
use berth_proto::berth_v1::{
    self as wire, BatchEntry, ExplainResponse, ListCandidatesResponse, PlaceBatchResponse,
    PreemptOptions, PreemptResponse,
};
use berth_proto::core_v1;

pub(super) use counts::Counts;
use local::Files;
pub(super) use local::Local;
use remote::Remote;
pub use source::SourceArgs;

use super::asked::Asked;
use super::input::InputArgs;
use super::lenient::{self, LenientArgs};
use super::profiles::load_profiles;
use super::what_if::{Change, SupposedPods, WhatIfArgs};
use super::{CliError, manifest, output};
use crate::config::file::{TieBreakRule, parse_seed};
use crate::config::version;
use crate::feed::file::UnknownFields;

/// Flags that select the backend.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(group(clap::ArgGroup::new("backend").required(true).args(["cluster_files", "server", "kube"])))]
pub struct BackendArgs {
    /// The source of the cluster.
    #[command(flatten)]
    pub source: SourceArgs,
    /// How strictly files are read.
    #[command(flatten)]
    pub lenient: LenientArgs,
    /// KubeSchedulerConfiguration to decide by (the server has its own)
    #[arg(long, value_name = "FILE", conflicts_with = "server")]
    pub scheduler_config: Option<PathBuf>,
    /// Version of Kubernetes to decide by [default: 1.36, or the server's]
    #[arg(long, value_name = "VERSION", conflicts_with = "server", value_parser = version::parser())]
    pub kubernetes_version: Option<KubernetesVersion>,
    /// How equal totals are broken [default: seeded, or the server's rule]
    #[arg(long, value_name = "RULE")]
    pub tie_break: Option<TieBreakRule>,
    /// Seed of the seeded rule [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_seed)]
    pub seed: Option<u64>,
}

/// The source of answers.
pub(super) enum Backend {
    /// The engine, in this process.
    Local(Box<Local>),
    /// A server.
    Server(Box<Remote>),
}

/// Maximum number of refused objects of a dump that are listed; the rest is counted.
const MAX_REFUSED_LINES: usize = 100;

impl BackendArgs {
    /// Loads the dump or connects, and applies the suppositions, whose files are read as `input` says. Objects of the
    /// dump that are refused are kept for [`Backend::tell`]; the rest is used.
    ///
    /// Only the dump's pods for which `is_asked_for` holds are kept as they were written. The caller has to call
    /// [`Backend::close`] in the end.
    pub(super) async fn open(
        &self,
        what_if: &WhatIfArgs,
        input: &InputArgs,
        supposed_pods: SupposedPods,
        is_asked_for: impl Fn(&core_v1::Pod) -> bool + Sync,
    ) -> Result<Backend, CliError> {
        let unknown_fields = self.lenient.unknown_fields();
        let (mut backend, written) = if let Some(url) = &self.source.server {
            let asked = Asked::connect(url, &self.source.credentials).await?;
            let remote = Remote::new(asked, self.wire_tie_break(), unknown_fields)
                .within(self.source.session.as_deref());
            (Backend::Server(Box::new(remote)), Vec::new())
        } else {
            let kubernetes = self.kubernetes_version.unwrap_or_default();
            let profiles = load_profiles(self.scheduler_config.as_deref(), kubernetes)?;
            let tie_break = self.tie_break.unwrap_or_default().with_seed(self.seed.unwrap_or(0));
            if self.source.kube {
                let cluster = kube::read(&self.source.kube_options()).await?;
                let local = Local::of(cluster, &is_asked_for, profiles, tie_break, unknown_fields);
                (Backend::Local(Box::new(local)), Vec::new())
            } else {
                let read = Files { paths: &self.source.cluster_files, unknown_fields };
                let (local, written) =
                    Local::load(read, &is_asked_for, what_if.cordoned(), profiles, tie_break)?;
                (Backend::Local(Box::new(local)), written)
            }
        };
        if !what_if.is_empty() {
            let suppositions = what_if.with(input, supposed_pods);
            if let Err(error) = suppositions.suppose(&mut backend, &written, is_asked_for).await {
                backend.close().await;
                return Err(error);
            }
        }
        Ok(backend)
    }

    /// Opens the source, asks it, and closes it, whatever the outcome. See [`BackendArgs::open`].
    pub(super) async fn ask<T>(
        &self,
        what_if: &WhatIfArgs,
        input: &InputArgs,
        supposed_pods: SupposedPods,
        is_asked_for: impl Fn(&core_v1::Pod) -> bool + Sync,
        question: impl AsyncFnOnce(&mut Backend) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let mut backend = self.open(what_if, input, supposed_pods, is_asked_for).await?;
        let answered = question(&mut backend).await;
        backend.close().await;
        answered
    }

    fn wire_tie_break(&self) -> Option<wire::TieBreak> {
        let rule = match self.tie_break {
            Some(TieBreakRule::Lexicographic) => wire::TieBreakRule::Lexicographic,
            Some(TieBreakRule::Seeded) => wire::TieBreakRule::Seeded,
            // A seed alone implies the rule that uses it.
            None if self.seed.is_some() => wire::TieBreakRule::Seeded,
            None => return None,
        };
        Some(wire::TieBreak { rule: rule.into(), seed: self.seed.unwrap_or(0) })
    }
}

impl Backend {
    /// Warnings for the reader of the answer, a sentence each; a server keeps its own to itself.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Backend::Local(local) => {
                local.profiles.warnings().iter().chain(&local.notes).cloned().collect()
            }
            Backend::Server(_) => Vec::new(),
        }
    }

    /// The line that describes the suppositions, if there are any.
    pub(super) fn what_if(&self) -> Option<&str> {
        match self {
            Backend::Local(local) => local.what_if.as_deref(),
            Backend::Server(remote) => remote.what_if.as_deref(),
        }
    }

    /// Treatment of objects with unknown fields in files.
    pub(super) fn unknown_fields(&self) -> UnknownFields {
        match self {
            Backend::Local(local) => local.unknown_fields,
            Backend::Server(remote) => remote.unknown_fields,
        }
    }

    /// Number of objects of the cluster that were refused.
    pub(super) fn n_refused(&self) -> usize {
        match self {
            Backend::Local(local) => local.refused.len(),
            Backend::Server(_) => 0,
        }
    }

    /// Prints the notes and the refused objects to standard error, after the answer.
    pub(super) fn tell(&self, notes: &[String]) {
        if let Backend::Local(local) = self {
            for refused in local.refused.iter().take(MAX_REFUSED_LINES) {
                output::note(&format!("refused: {refused}"));
            }
            let n_more = local.refused.len().saturating_sub(MAX_REFUSED_LINES);
            if n_more > 0 {
                output::note(&format!("refused: {} more", output::count(n_more, "object")));
            }
            lenient::warn(&local.warnings);
        }
        for note in notes {
            output::note(&format!("note: {note}"));
        }
    }

    /// Decides pods by priority and then in order, each seeing those decided before it as placed; returns one result
    /// per pod in the order of the entries, replicas expanded.
    ///
    /// `assume` keeps the placements, in a fork if there is one; a dump itself is never changed.
    pub(super) async fn place(
        &self,
        entries: Vec<BatchEntry>,
        assume: bool,
        gang: Option<wire::Gang>,
    ) -> Result<PlaceBatchResponse, CliError> {
        match self {
            Backend::Local(local) => local.place(entries, assume, gang),
            Backend::Server(remote) => remote.place(entries, assume, gang).await,
        }
    }

    /// The full explanation for one pod; empty `node_names` mean every node.
    pub(super) async fn explain(
        &self,
        pod: core_v1::Pod,
        node_names: Vec<String>,
    ) -> Result<ExplainResponse, CliError> {
        match self {
            Backend::Local(local) => local.explain(pod, &node_names),
            Backend::Server(remote) => remote.explain(pod, node_names).await,
        }
    }

    /// Makes a whole attempt for one pod, and finds the pods to evict if it fits nowhere.
    pub(super) async fn preempt(
        &self,
        pod: core_v1::Pod,
        options: PreemptOptions,
    ) -> Result<PreemptResponse, CliError> {
        match self {
            Backend::Local(local) => local.preempt(pod, &options),
            Backend::Server(remote) => remote.preempt(pod, options).await,
        }
    }

    /// Makes a whole attempt for one pod, with every candidate.
    pub(super) async fn list_candidates(
        &self,
        pod: core_v1::Pod,
        options: PreemptOptions,
    ) -> Result<ListCandidatesResponse, CliError> {
        match self {
            Backend::Local(local) => local.list_candidates(pod, &options),
            Backend::Server(remote) => remote.list_candidates(pod, options).await,
        }
    }

    /// Simulates a drain: whether nodes can be emptied, and how.
    pub(super) async fn simulate_drain(
        &self,
        request: wire::SimulateDrainRequest,
    ) -> Result<wire::SimulateDrainResponse, CliError> {
        match self {
            Backend::Local(local) => local.simulate_drain(request),
            Backend::Server(remote) => remote.simulate_drain(request).await,
        }
    }

    /// Simulates a scale-up: which nodes of which groups would take the pods that fit nowhere.
    pub(super) async fn simulate_scale_up(
        &self,
        request: wire::SimulateScaleUpRequest,
    ) -> Result<wire::SimulateScaleUpResponse, CliError> {
        match self {
            Backend::Local(local) => local.simulate_scale_up(request),
            Backend::Server(remote) => remote.simulate_scale_up(request).await,
        }
    }

    /// Tries pods on nodes, one after another.
    pub(super) async fn fit(
        &self,
        request: wire::FitRequest,
    ) -> Result<wire::FitResponse, CliError> {
        match self {
            Backend::Local(local) => local.fit(request),
            Backend::Server(remote) => remote.fit(request).await,
        }
    }

    /// Plans which nodes could be removed, and where their pods would go.
    pub(super) async fn consolidate(
        &self,
        request: wire::ConsolidateRequest,
    ) -> Result<wire::ConsolidateResponse, CliError> {
        match self {
            Backend::Local(local) => local.consolidate(request),
            Backend::Server(remote) => remote.consolidate(request).await,
        }
    }

    /// Chooses replicas of a workload to remove.
    pub(super) async fn choose_scale_in(
        &self,
        request: wire::ChooseScaleInRequest,
    ) -> Result<wire::ChooseScaleInResponse, CliError> {
        match self {
            Backend::Local(local) => local.choose_scale_in(request),
            Backend::Server(remote) => remote.choose_scale_in(request).await,
        }
    }

    /// Computes how many more copies of a pod fit.
    pub(super) async fn headroom(
        &self,
        request: wire::HeadroomRequest,
    ) -> Result<wire::HeadroomResponse, CliError> {
        match self {
            Backend::Local(local) => local.headroom(request),
            Backend::Server(remote) => remote.headroom(request).await,
        }
    }

    /// A pod of the cluster with the facts that questions about its life read; `None` if there is no such pod.
    pub(super) async fn pod(&self, key: &PodKey) -> Result<Option<wire::GetPodResponse>, CliError> {
        match self {
            Backend::Local(local) => Ok(local.pod(key)),
            Backend::Server(remote) => remote.pod(key).await,
        }
    }

    /// Every known pod that `request` asks for, in (namespace, name) order.
    pub(super) async fn list_pods(
        &self,
        request: wire::ListPodsRequest,
    ) -> Result<Vec<wire::PodSummary>, CliError> {
        match self {
            Backend::Local(local) => local.list_pods(request),
            Backend::Server(remote) => remote.list_pods(request).await,
        }
    }

    /// Every node that matches the label selector, by name.
    pub(super) async fn list_nodes(
        &self,
        label_selector: String,
    ) -> Result<Vec<wire::NodeSummary>, CliError> {
        match self {
            Backend::Local(local) => local.list_nodes(label_selector),
            Backend::Server(remote) => remote.list_nodes(label_selector).await,
        }
    }

    /// The pods that wait for a node, by cause.
    pub(super) async fn list_pending(
        &self,
        request: wire::ListPendingRequest,
    ) -> Result<wire::ListPendingResponse, CliError> {
        match self {
            Backend::Local(local) => local.list_pending(&request),
            Backend::Server(remote) => remote.list_pending(request).await,
        }
    }

    /// Sizes of the cluster, and how fresh it is.
    pub(super) async fn cluster(&self) -> Result<wire::GetClusterResponse, CliError> {
        match self {
            Backend::Local(local) => Ok(local.cluster()),
            Backend::Server(remote) => remote.cluster().await,
        }
    }

    /// Uses a fork from now on; `what_if` describes the suppositions in it.
    pub(super) async fn fork(&mut self, what_if: String) -> Result<(), CliError> {
        match self {
            Backend::Local(local) => {
                local.fork(what_if);
                Ok(())
            }
            Backend::Server(remote) if remote.has_session() => {
                remote.what_if = Some(what_if);
                Ok(())
            }
            Backend::Server(remote) => remote.open_session(Some(what_if)).await,
        }
    }

    /// Makes sure that changes stay this command's own: opens a session, unless there is one. A dump belongs to the
    /// command anyway.
    pub(super) async fn fork_if_live(&mut self) -> Result<(), CliError> {
        match self {
            Backend::Local(_) => Ok(()),
            Backend::Server(remote) if remote.has_session() => Ok(()),
            Backend::Server(remote) => remote.open_session(None).await,
        }
    }

    /// Adds to the line that describes the suppositions.
    pub(super) fn add_to_what_if(&mut self, text: &str) {
        let line = match self {
            Backend::Local(local) => &mut local.what_if,
            Backend::Server(remote) => &mut remote.what_if,
        };
        if let Some(line) = line {
            line.push_str("; ");
            line.push_str(text);
        }
    }

    /// The nodes, as the controller of DaemonSets reads them, by name.
    pub(super) async fn daemon_nodes(&self) -> Result<Vec<DaemonNode>, CliError> {
        match self {
            Backend::Local(local) => Ok(local.daemon_nodes()),
            Backend::Server(remote) => remote.daemon_nodes().await,
        }
    }

    /// Adds objects other than nodes and pods to the fork, without those that it has; returns the index and reason of
    /// refused ones.
    pub(super) async fn apply_missing(
        &self,
        changes: Vec<Change>,
    ) -> Result<Vec<(usize, String)>, CliError> {
        match self {
            Backend::Local(local) => Ok(local.apply_missing(&changes)),
            Backend::Server(remote) => remote.apply(changes, true).await,
        }
    }

    /// Applies changes to the fork; returns the index and reason of refused ones.
    pub(super) async fn apply(
        &self,
        changes: Vec<Change>,
    ) -> Result<Vec<(usize, String)>, CliError> {
        match self {
            Backend::Local(local) => Ok(local.apply(&changes)),
            Backend::Server(remote) => remote.apply(changes, false).await,
        }
    }

    /// Number of objects in the fork.
    pub(super) async fn counts(&self) -> Result<Counts, CliError> {
        match self {
            Backend::Local(local) => Ok(local.counts()),
            Backend::Server(remote) => remote.counts().await,
        }
    }

    /// Records supposed pods, which replace the dump's pods of the same names; of several the last counts. Those for
    /// which `is_asked_for` holds can be named on the command line.
    pub(super) fn know<'a>(
        &mut self,
        supposed: impl Iterator<Item = &'a core_v1::Pod>,
        is_asked_for: impl Fn(&core_v1::Pod) -> bool,
    ) {
        if let Backend::Local(local) = self {
            let by_name: BTreeMap<String, &core_v1::Pod> =
                supposed.map(|pod| (manifest::name_of(pod), pod)).collect();
            local.pods.retain(|known| !by_name.contains_key(&manifest::name_of(known)));
            let asked_for = by_name.into_values().filter(|pod| is_asked_for(pod));
            local.pods.extend(asked_for.cloned());
        }
    }

    /// Records that a pod of the dump is supposed to be gone.
    pub(super) fn forget(&mut self, key: &PodKey) {
        if let Backend::Local(local) = self {
            local.pods.retain(|known| manifest::name_of(known) != key.to_string());
        }
    }

    /// Closes the session of a server, if there is one. It would expire by itself, so a failure loses nothing.
    pub(super) async fn close(self) {
        match self {
            Backend::Local(_) => {}
            Backend::Server(remote) => remote.close().await,
        }
    }
}

/// The end of `--help` of commands that decide: the evaluated plugins, and the exit status.
pub(super) fn after_help(exit_status: &str) -> String {
    let names: Vec<&str> = Plugin::ALL.into_iter().map(Plugin::name).collect();
    format!("Evaluated plugins: {}.\n\n{exit_status}", names.join(", "))
}
