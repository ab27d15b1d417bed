//! The engine over a dump, in this process.

use std::collections::HashSet;
use std::path::PathBuf;

use berth_engine::{
    BatchRequest, Cluster, Decision, Delta, EngineError, Gang, Outcome, PlaceRequest, Pod, PodKey,
    Policy, PreemptRequest, TieBreak,
};
use berth_proto::berth_v1::{
    self as wire, BatchEntry, ExplainResponse, ListCandidatesResponse, PlaceBatchResponse,
    PlaceResult, PreemptOptions, PreemptResponse,
};
use berth_proto::core_v1::{self, Node};

use super::Counts;
use crate::cli::what_if::Change;
use crate::cli::{CliError, pods};
use crate::config::policy::Profiles;
use crate::feed::file::{self, LoadReport, Located, Location, Refused};
use crate::feed::{FeedError, object_name};
use crate::grpc::convert;
use crate::grpc::status::CallError;

/// A cluster of this process alone.
pub(in crate::cli) struct Local {
    cluster: Cluster,
    pub(super) profiles: Profiles,
    tie_break: TieBreak,
    /// Those of the dump's pods that may be asked for, as written and admitted; without the refused ones.
    pub(in crate::cli) pods: Vec<core_v1::Pod>,
    /// Objects of the dump that were not taken.
    pub(super) refused: Vec<Refused>,
    pub(super) what_if: Option<String>,
}

impl Local {
    /// Loads the dump; also gives its nodes of the names `nodes` as they were written.
    pub(super) fn load(
        paths: &[PathBuf],
        is_asked_for: impl Fn(&core_v1::Pod) -> bool + Sync,
        nodes: &[String],
        profiles: Profiles,
        tie_break: TieBreak,
    ) -> Result<(Local, Vec<Node>), FeedError> {
        let cluster = Cluster::new();
        let (report, asked_for, written) = if nodes.is_empty() {
            let (report, asked_for) = file::load_files_keeping(&cluster, paths, |pod| {
                pods::admit(pod);
                is_asked_for(pod)
            })?;
            (report, asked_for, Vec::new())
        } else {
            load_keeping_nodes(&cluster, paths, is_asked_for, nodes)?
        };
        let place = |at: &Location| (at.path.clone(), at.document, at.item);
        let refused_at: HashSet<_> = report.refused.iter().map(|r| place(&r.location)).collect();
        let is_taken = |pod: &Located<_>| !refused_at.contains(&place(&pod.location));
        let taken = asked_for.into_iter().filter(is_taken);
        let local = Local {
            cluster,
            profiles,
            tie_break,
            pods: taken.map(|pod| pod.value).collect(),
            refused: report.refused,
            what_if: None,
        };
        Ok((local, written))
    }

    /// Why the dump's pod `namespace/name` was not taken.
    pub(in crate::cli) fn refusal_of(&self, name: &str) -> Option<&Refused> {
        let object = format!("Pod `{name}`");
        self.refused.iter().find(|refused| refused.object == object)
    }

    /// Whether pods of `scheduler_name` are decided here (S-Q-2).
    pub(in crate::cli) fn has_profile(&self, scheduler_name: &str) -> bool {
        self.profiles.get(scheduler_name).is_some()
    }

    /// Takes a running pod off its node, so that it can be decided as if it were pending.
    pub(in crate::cli) fn take_off(&self, key: PodKey) {
        self.cluster.apply(vec![Delta::DeletePod { key, uid: None }]);
    }

    pub(super) fn fork(&mut self, what_if: String) {
        self.cluster = self.cluster.fork();
        self.what_if = Some(what_if);
    }

    /// Applies changes; answers which of them are refused, and why.
    pub(super) fn apply(&self, changes: &[Change]) -> Vec<(usize, String)> {
        let (mut deltas, mut positions, mut refused) = (Vec::new(), Vec::new(), Vec::new());
        for (index, change) in changes.iter().enumerate() {
            match change.compile(&self.cluster) {
                Ok(delta) => {
                    deltas.push(delta);
                    positions.push(index);
                }
                Err(error) => refused.push((index, format!("{}: {error}", name_of(change)))),
            }
        }
        let rejected = self.cluster.apply(deltas).rejected.into_iter();
        refused.extend(
            rejected.filter_map(|rejected| {
                Some((*positions.get(rejected.index)?, rejected.to_string()))
            }),
        );
        refused.sort();
        refused
    }

    pub(super) fn counts(&self) -> Counts {
        let snapshot = self.cluster.snapshot();
        let wide = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let (n_pods, n_orphaned) = (snapshot.n_pods(), snapshot.n_orphaned());
        Counts {
            n_nodes: wide(snapshot.n_nodes()),
            n_all_pods: wide(n_pods + snapshot.n_pending() + n_orphaned),
            n_orphaned_pods: wide(n_orphaned),
        }
    }

    /// Decides pods one batch a profile; a gang is of one profile.
    pub(super) fn place(
        &self,
        entries: Vec<BatchEntry>,
        gang: Option<wire::Gang>,
    ) -> Result<PlaceBatchResponse, CliError> {
        let mut batches: Vec<Batch<'_>> = Vec::new();
        let mut results: Vec<Option<PlaceResult>> = Vec::new();
        for entry in entries {
            let (pod, n_replicas) = (entry.pod.unwrap_or_default(), entry.replicas.max(1));
            let (compiled, policy) = match self.compile(&pod) {
                Ok(compiled) => compiled,
                Err(error) if gang.is_some() => {
                    let name = pods::name_of(&pod);
                    return Err(CliError::Request(format!("pod `{name}` of the gang: {error}")));
                }
                Err(error) => {
                    let refused = convert::place_result(Err(error));
                    results.extend(std::iter::repeat_n(Some(refused), n_replicas as usize));
                    continue;
                }
            };
            let is_last = batches.last().is_some_and(|last| std::ptr::eq(last.policy, policy));
            if !is_last {
                batches.push(Batch { policy, pods: Vec::new(), positions: Vec::new() });
            }
            let Some(batch) = batches.last_mut() else { continue };
            for index in 0..n_replicas {
                let one = if n_replicas > 1 { replica(&compiled, index) } else { compiled.clone() };
                batch.pods.push(one);
                batch.positions.push(results.len());
                results.push(None);
            }
        }
        if gang.is_some() && batches.len() > 1 {
            let reason = "the pods of a gang have to be of one scheduler name";
            return Err(CliError::Request(reason.to_owned()));
        }
        let mut outcome = None;
        for batch in batches {
            outcome = self.decide(batch, gang.as_ref(), &mut results)?;
        }
        let broken = || convert::place_result(Err(CallError::Broken));
        let results = results.into_iter().map(|result| result.unwrap_or_else(broken)).collect();
        Ok(PlaceBatchResponse { results, gang: outcome })
    }

    fn decide(
        &self,
        batch: Batch<'_>,
        gang: Option<&wire::Gang>,
        results: &mut [Option<PlaceResult>],
    ) -> Result<Option<wire::GangOutcome>, CliError> {
        let gang = gang.map(|gang| -> Result<Gang, CliError> {
            let options = gang.preempt_options.as_ref();
            let options = convert::preempt_options(options, "gang.preempt_options");
            let options = options.map_err(|error| CliError::Request(error.to_string()))?;
            let min_count = usize::try_from(gang.min_count).unwrap_or(usize::MAX);
            Ok(Gang { min_count, preempt: gang.preempt.then_some(options) })
        });
        let Batch { policy, pods, positions } = batch;
        let decided = self.cluster.place_batch(&BatchRequest {
            pods: &pods,
            policy,
            tie_break: self.tie_break,
            // Of several batches each is to see those before it.
            assume: gang.is_none(),
            gang: gang.transpose()?,
            cancelled: &|| false,
        });
        for (position, decision) in positions.into_iter().zip(decided.results) {
            if let Some(result) = results.get_mut(position) {
                *result = Some(result_of(decision));
            }
        }
        Ok(decided.gang.map(convert::gang_outcome))
    }

    pub(super) fn explain(
        &self,
        pod: &core_v1::Pod,
        node_names: &[String],
    ) -> Result<ExplainResponse, CliError> {
        let (pod, policy) = self.asked(pod)?;
        let request = PlaceRequest { pod: &pod, policy, tie_break: self.tie_break };
        let explanation = self.cluster.explain(&request).map_err(failed)?;
        let nodes = explanation.nodes.into_iter().map(convert::node_verdict);
        Ok(ExplainResponse {
            decision: Some(convert::decision(explanation.decision)),
            nodes: nodes
                .filter(|node| node_names.is_empty() || node_names.contains(&node.node_name))
                .collect(),
            remedies: explanation.remedies.into_iter().map(convert::remedy).collect(),
        })
    }

    pub(super) fn preempt(
        &self,
        pod: &core_v1::Pod,
        options: &PreemptOptions,
    ) -> Result<PreemptResponse, CliError> {
        self.attempt(pod, options, |cluster, request| cluster.preempt(request))
            .map(convert::preemption)
    }

    pub(super) fn list_candidates(
        &self,
        pod: &core_v1::Pod,
        options: &PreemptOptions,
    ) -> Result<ListCandidatesResponse, CliError> {
        self.attempt(pod, options, |cluster, request| cluster.list_candidates(request))
            .map(convert::candidate_list)
    }

    fn attempt<T>(
        &self,
        pod: &core_v1::Pod,
        options: &PreemptOptions,
        ask: impl Fn(&Cluster, &PreemptRequest<'_>) -> Result<T, EngineError>,
    ) -> Result<T, CliError> {
        let (pod, policy) = self.asked(pod)?;
        let options = convert::preempt_options(Some(options), "options");
        let options = options.map_err(|error| CliError::Request(error.to_string()))?;
        let tie_break = self.tie_break;
        ask(&self.cluster, &PreemptRequest { pod: &pod, policy, tie_break, options })
            .map_err(failed)
    }

    fn asked(&self, pod: &core_v1::Pod) -> Result<(Pod, &Policy), CliError> {
        self.compile(pod).map_err(|error| CliError::Request(error.to_string()))
    }

    fn compile(&self, pod: &core_v1::Pod) -> Result<(Pod, &Policy), CallError> {
        let compiled = self.cluster.compile_pod(pod)?;
        let name = compiled.scheduler_name();
        let policy = self.profiles.of_scheduler(name);
        let policy = policy.map_err(|reason| CallError::field("spec.schedulerName", reason))?;
        Ok((compiled, policy))
    }
}

/// Pods of one profile that follow each other, and where in the answer each one's decision belongs.
struct Batch<'a> {
    policy: &'a Policy,
    pods: Vec<Pod>,
    positions: Vec<usize>,
}

/// A loaded dump: what became of it, its pods that may be asked for, and its nodes that were named, as they were written.
type Loaded = (LoadReport, Vec<Located<core_v1::Pod>>, Vec<Node>);

/// Reads the files whole, since a node is known as it was written only then.
fn load_keeping_nodes(
    cluster: &Cluster,
    paths: &[PathBuf],
    is_asked_for: impl Fn(&core_v1::Pod) -> bool,
    nodes: &[String],
) -> Result<Loaded, FeedError> {
    let mut dump = file::read_all(paths)?;
    dump.pods.iter_mut().for_each(|pod| pods::admit(&mut pod.value));
    let asked_for = dump.pods.iter().filter(|pod| is_asked_for(&pod.value)).cloned().collect();
    let named = dump.nodes.iter().map(|node| &node.value);
    let named = named.filter(|node| nodes.iter().any(|name| name == pods::node_name(node)));
    let named = named.cloned().collect();
    Ok((file::load(cluster, dump), asked_for, named))
}

fn result_of(decision: Result<Decision, EngineError>) -> PlaceResult {
    let as_held = |mut decision: Decision| {
        if let Outcome::Placed(placement) = &mut decision.outcome {
            // Held for the pods after it, gone with this process: nothing that a caller could rely on.
            placement.assumed = false;
        }
        decision
    };
    convert::place_result(decision.map(as_held).map_err(CallError::from))
}

fn failed(error: EngineError) -> CliError {
    CliError::Request(CallError::from(error).to_string())
}

/// ``Pod `default/web` ``, for messages.
fn name_of(change: &Change) -> String {
    match change {
        Change::Node(node) => object_name("Node", node.metadata.as_ref()),
        Change::Pod(pod) => object_name("Pod", pod.metadata.as_ref()),
        Change::Object(object) => {
            let object = object.as_wire();
            object_name(object.kind().name(), object.metadata())
        }
        Change::NoNode(name) => format!("Node `{name}`"),
        Change::NoPod(key) => format!("Pod `{key}`"),
    }
}

/// NAME-i with UID-i, as `BatchEntry.replicas` names them.
fn replica(pod: &Pod, index: u32) -> Pod {
    let key = pod.key();
    let name = format!("{}-{index}", key.name);
    pod.with_identity(PodKey::new(&key.namespace, &name), &format!("{}-{index}", pod.uid()))
}
