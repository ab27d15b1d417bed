//! Fit: which pods fit on which nodes now, as cluster-autoscaler checks it. Rules: S-CAS-1, S-CAS-2, S-CAS-5; table
//! 8.3, questions 1 and 2.

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

/// A question about which pods fit on which nodes, one after another.
#[derive(Copy, Clone)]
pub struct FitRequest<'a> {
    /// The pods, in the order in which they are tried.
    pub pods: &'a [FitPod<'a>],
    /// Names of the candidates, in the order in which they are tried; `None` for all nodes by name.
    pub nodes: Option<&'a [String]>,
    /// Further options.
    pub options: FitOptions,
    /// Called before each pod; once it returns true, the remaining pods get [`EngineError::Cancelled`].
    pub cancelled: &'a dyn Fn() -> bool,
}

/// One pod of a request.
#[derive(Copy, Clone)]
pub struct FitPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The profile whose PreFilter and Filter plugins decide.
    pub policy: &'a Policy,
    /// The candidate to try first; a name that is not a candidate is ignored.
    pub hint: Option<&'a str>,
}

/// How pods and candidates are iterated over. All off by default.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct FitOptions {
    /// Whether pods are tried by descending priority, then in the order of the request (S-CAS-4).
    pub by_priority: bool,
    /// Whether each search begins with the candidate after the one found last, not counting hints, and wraps around.
    pub round_robin: bool,
    /// Whether a pod is skipped once a pod of its controller with equal labels and an equal spec did not fit. Pods with
    /// volumes are never skipped.
    pub skip_similar: bool,
    /// The largest number of candidates whose refusals are returned for a pod that does not fit.
    pub max_refusals: usize,
}

/// Results of a fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// The snapshot that the pods were tried on.
    pub generation: Generation,
    /// One result for each pod, in the order of the request.
    pub results: Vec<Result<FitOutcome, EngineError>>,
    /// Number of controllers of which pods were skipped.
    pub n_controllers_skipped: usize,
    /// Number of controllers with more kinds of unfitting pods than are remembered: pods of further kinds are tried one
    /// by one.
    pub n_overflowing_controllers: usize,
}

/// The result for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FitOutcome {
    /// The pod fits, and takes its room before the next pod is tried.
    Fits {
        /// The node's name.
        node: Arc<str>,
        /// Whether the hint named this node.
        by_hint: bool,
    },
    /// No candidate takes the pod.
    Refused(FitRefusal),
}

/// Why no candidate takes a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FitRefusal {
    /// All reasons, counted over the candidates.
    pub unschedulable: Unschedulable,
    /// Refusals of the first candidates, as many as the request asks for. Empty where PreFilter refused the pod as a
    /// whole, and for a pod that was skipped.
    pub nodes: Vec<(Arc<str>, NodeRefusal)>,
    /// Whether the pod was skipped: then this is the refusal of a similar pod.
    pub skipped: bool,
}

impl Cluster {
    /// Tries pods one after another on a private copy of the cluster: each goes to its hint if the hinted node takes
    /// it, else to the first candidate that does, and takes its room there (S-CAS-2). The cluster is not changed.
    ///
    /// A node takes a pod if it passes PreFilter and Filter in one pass, without nominated pods; a cordoned node never
    /// does (S-CAS-1). Cost: a step for each candidate up to the first that takes the pod, and for a pod that none
    /// takes each filter once over the cluster.
    ///
    /// # Errors
    /// For `nodes` that do not exist or are listed twice. Errors of one pod, including that it is already on a node,
    /// are in its result.
    pub fn fit(&self, request: &FitRequest<'_>) -> Result<Fit, EngineError> {
        let (snapshot, held) = self.held_now(request.pods.iter().map(|tried| tried.pod));
        let keys = request.pods.iter().map(|tried| tried.pod.key());
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
        for index in trial.order() {
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

/// A fit in progress: the cluster with the pods placed so far.
struct Trial<'a> {
    /// The cluster before the first pod was placed.
    snapshot: &'a Snapshot,
    fork: Fork<'a>,
    kernels: Kernels,
    request: &'a FitRequest<'a>,
    candidates: Candidates,
    /// Position of the candidate where the next search begins.
    next: usize,
    /// Nodes of the pods that fit, or that were on a node before.
    placed: FxHashMap<&'a PodKey, Arc<str>>,
    similar: Similar,
}

type FitResult = Result<FitOutcome, EngineError>;

impl<'a> Trial<'a> {
    /// Positions of the pods in the order in which they are tried.
    fn order(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.request.pods.len()).collect();
        if self.request.options.by_priority {
            order.sort_by_key(|index| Reverse(self.request.pods[*index].pod.priority()));
        }
        order
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
        let place = PlaceRequest { pod, policy, tie_break: TieBreak::Lexicographic, now: None };
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
        let bindings = self.fork.ask(place, self.kernels, |plan, _| plan.bindings(row));
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
        let (mut counts, mut by_row) = (ReasonCounts::default(), FxHashMap::default());
        let wanted = candidates.first(max_refusals);
        for (shard, rows) in plan.snapshot().shards.iter().zip(candidates.by_shard()) {
            refusals::walk(plan, shard, *rows, Pass::Once, |refuser, refused| {
                refuser.count(plan, shard, refused, &mut counts);
                let is_wanted = |row: &usize| wanted.contains(NodeRow::new(shard.index, *row));
                for row in refused.iter().filter(is_wanted) {
                    let refusal = refuser.refusal(plan, shard, row);
                    let refusal = refusals::node_refusal(names, refuser.plugin(), &refusal);
                    by_row.insert(NodeRow::new(shard.index, row), refusal);
                }
            });
        }
        let in_order = candidates.from(0).take(max_refusals);
        let node = |row| Some(plan.snapshot().node(row)?.facts().name.clone());
        let nodes = in_order.filter_map(|row| Some((node(row)?, by_row.remove(&row)?))).collect();
        let unschedulable = message::tally(names, candidates.len(), &counts);
        Ok(FitRefusal { unschedulable, nodes, skipped: false })
    })
}
