//! Fit: which pods fit where now, as cluster-autoscaler asks it. Rules: S-CAS-1, S-CAS-2, S-CAS-5; table 8.3, questions 1 and 2.

pub(in crate::simulate) mod candidates;
mod similar;

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cluster::Cluster;
use crate::cluster::fork::Fork;
use crate::error::EngineError;
use crate::filter::ReasonCounts;
use crate::kernel::Kernels;
use crate::model::{Pod, PodKey};
use crate::place::decision::Unschedulable;
use crate::place::survey::NodeRefusal;
use crate::place::{self, Evaluation, message};
use crate::plan::Plan;
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::plugin::StatusCode;
use crate::policy::Policy;
use crate::rows::NodeRow;
use crate::simulate::one_pass;
use crate::simulate::refusals::{self, Pass};
use crate::snapshot::{Generation, Snapshot};
use candidates::Candidates;
use similar::Similar;

/// Which pods fit where, one after another.
#[derive(Copy, Clone)]
pub struct FitRequest<'a> {
    /// In the order in which they are tried.
    pub pods: &'a [FitPod<'a>],
    /// Names of the candidates, in the order in which they are tried; `None` for all nodes by name.
    pub nodes: Option<&'a [String]>,
    /// What to do beyond that.
    pub options: FitOptions,
    /// Asked before each pod: once it answers true the rest get [`EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

/// One pod of them.
#[derive(Copy, Clone)]
pub struct FitPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile whose PreFilter and Filter plugins decide.
    pub policy: &'a Policy,
    /// The candidate to try first; a name that is none of the candidates is passed over.
    pub hint: Option<&'a str>,
}

/// How pods and candidates are gone through. All off by default.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct FitOptions {
    /// Pods by descending priority, then in the order of the request (S-CAS-4).
    pub by_priority: bool,
    /// The search begins with the candidate behind the one found last, hints apart, and goes round.
    pub round_robin: bool,
    /// A pod is not tried once one of its controller with the same labels and the same spec did not fit. One with volumes always is.
    pub skip_similar: bool,
    /// Candidates that are told of for a pod that does not fit, at most.
    pub max_refusals: usize,
}

/// What fits.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The snapshot that it was worked out on.
    pub generation: Generation,
    /// One a pod, in the order of the request.
    pub results: Vec<Result<FitOutcome, EngineError>>,
    /// Controllers of which pods were skipped.
    pub n_controllers_skipped: usize,
    /// Controllers with more kinds of pods that did not fit than are remembered: their further kinds are tried pod by pod.
    pub n_overflowing_controllers: usize,
}

/// What came of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitOutcome {
    /// It fits, and takes its room before the next pod is tried.
    Fits {
        /// The node's name.
        node: Arc<str>,
        /// Whether it is the one that the hint named.
        by_hint: bool,
    },
    /// No candidate takes it.
    Refused(FitRefusal),
}

/// Why no candidate takes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitRefusal {
    /// Every reason counted over the candidates.
    pub unschedulable: Unschedulable,
    /// The first candidates in order, as many as were asked for. Empty where PreFilter refused the pod as a whole, and for a pod
    /// that was skipped.
    pub nodes: Vec<(Arc<str>, NodeRefusal)>,
    /// Whether it was not tried: this is the answer for one like it.
    pub skipped: bool,
}

impl Cluster {
    /// Tries pods one after another on a private copy of the cluster: each goes to its hint if that takes it, else to the first
    /// candidate that does, and takes its room there (S-CAS-2). The cluster stays as it is.
    ///
    /// "Takes" is PreFilter and Filter in one pass, without nominated pods, and never on a cordoned node (S-CAS-1).
    /// Cost: a step for each candidate up to the first that takes the pod, and for a pod that none takes each filter once over
    /// the cluster.
    ///
    /// # Errors
    /// For `nodes` that the cluster does not have or that stand there twice. What is wrong with one pod is told in its result: that it is on
    /// a node already, too.
    pub fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, EngineError> {
        let (snapshot, held) = self.held_now(request.pods.iter().map(|asked| asked.pod));
        let keys = request.pods.iter().map(|asked| asked.pod.key());
        let candidates = Candidates::of(&snapshot, request.nodes)?;
        let mut trial = Trial {
            snapshot: &snapshot,
            fork: self.fork_of(&snapshot),
            kernels: self.kernels(),
            request,
            candidates,
            next: 0,
            placed: keys.zip(held).filter_map(|(key, node)| Some((key, node?))).collect(),
            similar: Similar::default(),
        };
        let mut results = vec![Err(EngineError::Cancelled); request.pods.len()];
        for index in trial.turns() {
            if (request.cancelled)() {
                break;
            }
            results[index] = trial.attempt(index, &results);
        }
        let (n_controllers_skipped, n_overflowing_controllers) = trial.similar.counts();
        let generation = snapshot.generation();
        Ok(Fit { generation, results, n_controllers_skipped, n_overflowing_controllers })
    }
}

/// The cluster as pods come in.
struct Trial<'a> {
    /// As it was before the first pod came.
    snapshot: &'a Snapshot,
    fork: Fork<'a>,
    kernels: Kernels,
    request: &'a FitRequest<'a>,
    candidates: Candidates,
    /// Position of the candidate where the next search begins.
    next: usize,
    /// Where the pods are that fit, or that were on a node before.
    placed: FxHashMap<&'a PodKey, Arc<str>>,
    similar: Similar,
}

type FitResult = Result<FitOutcome, EngineError>;

impl<'a> Trial<'a> {
    /// The positions of the pods, in the order in which they are tried.
    fn turns(&self) -> Vec<usize> {
        let mut turns: Vec<usize> = (0..self.request.pods.len()).collect();
        if self.request.options.by_priority {
            turns.sort_by_key(|index| Reverse(self.request.pods[*index].pod.priority()));
        }
        turns
    }

    fn attempt(&mut self, index: usize, results: &[FitResult]) -> FitResult {
        let request: &'a FitRequest<'a> = self.request;
        let FitPod { pod, policy, hint } = request.pods[index];
        if let Some(node) = self.placed.get(pod.key()) {
            return Err(EngineError::AlreadyPlaced { pod: pod.key().clone(), node: node.clone() });
        }
        if request.options.skip_similar
            && let Some(known) = self.similar.find(pod, policy)
            && let Ok(FitOutcome::Refused(refusal)) = &results[known]
        {
            let FitRefusal { unschedulable, .. } = refusal.clone();
            let refusal = FitRefusal { unschedulable, nodes: Vec::new(), skipped: true };
            return Ok(FitOutcome::Refused(refusal));
        }
        let hinted = hint.and_then(|name| self.candidates.named(self.snapshot, name));
        let place = PlaceRequest { pod, policy, tie_break: TieBreak::Lexicographic };
        if let Some(row) = hinted
            && self.fork.ask(&place, self.kernels, |p, e| one_pass::fits(p, e, row))?
        {
            return Ok(self.put(&place, row, true));
        }
        let order = self.candidates.from(self.next);
        match self.fork.ask(&place, self.kernels, |p, e| one_pass::first_fit(p, e, order))? {
            Some(row) => {
                if request.options.round_robin {
                    self.next = self.candidates.behind(row);
                }
                Ok(self.put(&place, row, false))
            }
            None => {
                self.similar.note(pod, policy, index);
                let (candidates, max) = (&self.candidates, request.options.max_refusals);
                let refused =
                    self.fork.ask(&place, self.kernels, |p, e| refuse(p, e, candidates, max))?;
                Ok(FitOutcome::Refused(refused))
            }
        }
    }

    fn put(&mut self, place: &PlaceRequest<'a>, row: NodeRow, by_hint: bool) -> FitOutcome {
        let bindings = self.fork.ask(place, self.kernels, |plan, _| plan.volumes().bindings(row));
        self.fork.put(place.pod, row, &bindings);
        let name = self.fork.node(row).map(|node| node.facts().name.clone());
        let node = name.unwrap_or_else(|| "".into());
        self.placed.insert(place.pod.key(), node.clone());
        FitOutcome::Fits { node, by_hint }
    }
}

/// Why no candidate takes a pod.
fn refuse(
    plan: &mut Plan<'_>,
    evaluation: &mut Evaluation,
    candidates: &Candidates,
    max_refusals: usize,
) -> Result<FitRefusal, EngineError> {
    if let Some((plugin, text)) = place::pre_filter_refusal(plan)? {
        let refusal = (plugin, StatusCode::UnschedulableAndUnresolvable, vec![text]);
        let unschedulable = message::refused_by_pre_filter(candidates.len(), refusal);
        return Ok(FitRefusal { unschedulable, nodes: Vec::new(), skipped: false });
    }
    plan.filtering(evaluation, |plan, _| {
        let names = plan.names();
        let (mut counts, mut told) = (ReasonCounts::default(), FxHashMap::default());
        let wanted = candidates.first(max_refusals);
        for (shard, rows) in plan.snapshot().shards.iter().zip(candidates.by_shard()) {
            refusals::walk(plan, shard, *rows, Pass::Once, |refuser, refused| {
                refuser.count(plan, shard, refused, &mut counts);
                let is_wanted = |row: &usize| wanted.contains(NodeRow::new(shard.index, *row));
                for row in refused.iter().filter(is_wanted) {
                    let refusal = refuser.refusal(plan, shard, row);
                    let refusal = refusals::told(names, refuser.plugin(), &refusal);
                    told.insert(NodeRow::new(shard.index, row), refusal);
                }
            });
        }
        let in_order = candidates.from(0).take(max_refusals);
        let node = |row| Some(plan.snapshot().node(row)?.facts().name.clone());
        let nodes = in_order.filter_map(|row| Some((node(row)?, told.remove(&row)?))).collect();
        let unschedulable = message::tally(names, candidates.len(), &counts);
        Ok(FitRefusal { unschedulable, nodes, skipped: false })
    })
}
