//! Scene: a private copy of the cluster on which a simulation moves pods and adds or removes nodes, and tests what
//! fits.
//!
//! Tests use the evaluations that also serve placements: for a shape that was evaluated before, only rows changed since
//! are evaluated again, including nodes that came and went and changes that were restored. Rules: S-CAS-1 to S-CAS-3.

use crate::cluster::Cluster;
use crate::cluster::fork::{Fork, Saved};
use crate::error::EngineError;
use crate::filter::ReasonCounts;
use crate::filter::reason::Reason;
use crate::kernel::Kernels;
use crate::model::intern::Symbol;
use crate::model::{Node, Object, Pod, PodKey};
use crate::place::Evaluation;
use crate::plan::Plan;
use crate::plan::counted::Scoring;
use crate::plan::request::{PlaceRequest, TieBreak};
use crate::policy::Policy;
use crate::rows::NodeRow;
use crate::simulate::among::decide_among;
use crate::simulate::one_pass::Misfit;
use crate::simulate::rows::Rows;
use crate::simulate::{one_pass, refusals};
use crate::snapshot::Snapshot;
use crate::snapshot::bindings::Bindings;
use crate::snapshot::matching::with_keys;

/// A private copy of a snapshot; it costs a few pointers until it is changed.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    fork: Fork<'a>,
    policy: &'a Policy,
    kernels: Kernels,
}

impl<'a> Scene<'a> {
    /// A scene that equals a snapshot of this cluster; pods are evaluated with the policy.
    pub(crate) fn of(
        cluster: &'a Cluster,
        snapshot: &'a Snapshot,
        policy: &'a Policy,
    ) -> Scene<'a> {
        Scene { fork: cluster.fork_of(snapshot), policy, kernels: cluster.kernels() }
    }

    /// The scene as it is now. Its pod counts are those of the snapshot that it began with.
    pub(crate) fn snapshot(&mut self) -> &Snapshot {
        self.fork.snapshot()
    }

    /// The node of a row.
    pub(crate) fn node(&self, row: NodeRow) -> Option<&Node> {
        self.fork.node(row)
    }

    /// Saves the state of the scene, to be restored any number of times.
    pub(crate) fn save(&mut self) -> Saved {
        self.fork.save()
    }

    /// Undoes all changes since a save. Evaluations made in between stay valid.
    pub(crate) fn restore(&mut self, saved: Saved) {
        self.fork.restore(saved);
    }

    /// Adds a node or replaces the one of its name, whose pods stay.
    pub(crate) fn add_node(&mut self, node: &Node) -> NodeRow {
        self.fork.add_node(node)
    }

    /// Adds an object or replaces the one of its key.
    pub(crate) fn upsert_object(&mut self, object: &Object) {
        self.fork.upsert_object(object);
    }

    /// Removes a node with its pods.
    pub(crate) fn remove_node(&mut self, row: NodeRow) {
        self.fork.remove_node(row);
    }

    /// Puts a pod onto a node: it takes room, its terms count, its claims are bound as that node requires. No pod of
    /// its name may be on the scene.
    pub(crate) fn put(&mut self, pod: &Pod, row: NodeRow) {
        let bindings = match pod.is_bound_to_objects() {
            true => self.ask_of_row(pod, |plan, _| plan.bindings(row)),
            false => Bindings::default(),
        };
        self.fork.put(pod, row, &bindings);
    }

    /// Takes a pod off its node, if it is there; returns it without its node.
    pub(crate) fn take(&mut self, row: NodeRow, key: &PodKey) -> Option<Pod> {
        self.fork.take(row, key).map(|pod| pod.without_node())
    }

    /// The nodes that could take a pod (S-CAS-1).
    pub(crate) fn feasible(&mut self, pod: &Pod) -> Result<Rows, EngineError> {
        self.ask(pod, one_pass::feasible).map(Rows::from)
    }

    /// Whether a node could take a pod.
    pub(crate) fn fits(&mut self, pod: &Pod, row: NodeRow) -> Result<bool, EngineError> {
        self.ask_of_row(pod, |plan, evaluation| one_pass::fits(plan, evaluation, row))
    }

    /// The first node in this order that could take a pod (S-CAS-2).
    pub(crate) fn first_fit(
        &mut self,
        pod: &Pod,
        order: impl IntoIterator<Item = NodeRow>,
    ) -> Result<Option<NodeRow>, EngineError> {
        self.ask(pod, |plan, evaluation| one_pass::first_fit(plan, evaluation, order))
    }

    /// Why a node could not take a pod; `None` where it could. The row must hold a node.
    pub(crate) fn why_not(
        &mut self,
        pod: &Pod,
        row: NodeRow,
    ) -> Result<Option<Misfit>, EngineError> {
        self.ask_of_row(pod, |plan, evaluation| one_pass::why_not(plan, evaluation, row))
    }

    /// Whether a node could not take a pod, for this reason. The row must hold a node.
    pub(crate) fn is_refused_for(
        &mut self,
        pod: &Pod,
        row: NodeRow,
        reason: Reason,
    ) -> Result<bool, EngineError> {
        self.ask_of_row(pod, |plan, evaluation| {
            one_pass::is_refused_for(plan, evaluation, row, reason)
        })
    }

    /// Why nodes could not take a pod: each reason with the number of nodes that give it, and how many nodes could. The
    /// rows must hold nodes, and [`Scene::why_nowhere`] must be `None` for the pod.
    pub(crate) fn refusals(&mut self, pod: &Pod, among: &Rows) -> (ReasonCounts, u32) {
        self.ask_of_row(pod, |plan, evaluation| refusals::count(plan, evaluation, among.by_shard()))
    }

    /// Why no node could take a pod, independent of the nodes (S-PF-2).
    pub(crate) fn why_nowhere(&mut self, pod: &Pod) -> Result<Option<Misfit>, EngineError> {
        self.ask_of_row(pod, |plan, _| one_pass::pre_filter(plan))
    }

    /// Why every attempt of the pod fails, including its gates and errors of an attempt.
    pub(crate) fn refusal(&mut self, pod: &Pod) -> Option<Misfit> {
        self.ask_of_row(pod, |plan, _| one_pass::refusal(plan))
    }

    /// Whether added pods can only make nodes infeasible for this pod, never feasible: then a node that refused it
    /// refuses it for as long as pods are only added.
    pub(crate) fn only_loses(&mut self, pod: &Pod) -> bool {
        self.ask_of_row(pod, |plan, _| one_pass::only_loses(plan))
    }

    /// How unevenly pods of the pod's kind are spread, by the topology key of each of its spread constraints, or of the
    /// policy's defaults.
    pub(crate) fn skews(&mut self, pod: &Pod) -> Vec<(Symbol, i64)> {
        self.ask(pod, skews)
    }

    /// The node that a placement would choose among all nodes or some: filters with nominated pods, scores and
    /// tie-break.
    ///
    /// Gates and the pod's own nomination are ignored.
    pub(crate) fn decide(
        &mut self,
        pod: &Pod,
        tie_break: TieBreak,
        among: Option<&Rows>,
    ) -> Result<Option<NodeRow>, EngineError> {
        let all = among.is_none().then(|| {
            let shards = &self.fork.snapshot().shards;
            Rows::from(shards.iter().map(|shard| shard.nodes.rows).collect::<Vec<_>>())
        });
        let rows = among.or(all.as_ref()).map_or(&[][..], Rows::by_shard);
        self.ask(pod, |plan, evaluation| decide_among(plan, evaluation, tie_break, rows))
    }

    fn ask<T>(&mut self, pod: &Pod, ask: impl FnOnce(&mut Plan<'_>, &mut Evaluation) -> T) -> T {
        self.fork.ask(&request(pod, self.policy), self.kernels, ask)
    }

    fn ask_of_row<T>(
        &mut self,
        pod: &Pod,
        ask: impl FnOnce(&mut Plan<'_>, &mut Evaluation) -> T,
    ) -> T {
        self.fork.ask_of_row(&request(pod, self.policy), self.kernels, ask)
    }
}

/// A request with a fixed tie-break: [`Scene::decide`] is passed its own.
fn request<'p>(pod: &'p Pod, policy: &'p Policy) -> PlaceRequest<'p> {
    PlaceRequest { pod, policy, tie_break: TieBreak::Lexicographic, now: None }
}

/// How unevenly the pods that a pod's spread constraints count, or the policy's defaults where it has none, are spread
/// over topology domains: for each constraint, hard ones first, its topology key and the largest number of pods in a
/// domain less the smallest. Rules: S-PTS-4 to S-PTS-6, S-PTS-12, S-TS-6.
fn skews(plan: &mut Plan<'_>, evaluation: &mut Evaluation) -> Vec<(Symbol, i64)> {
    let demand = plan.demand();
    if demand.hard.is_empty() && demand.soft.list.is_empty() {
        return Vec::new();
    }
    plan.scoring(evaluation, |plan, _| {
        let demand = plan.demand();
        let by_domain = |sum: usize| {
            let sum = plan.census().sum(sum);
            (sum.key(), sum.skew())
        };
        let hard = demand.hard.iter().map(|constraint| by_domain(constraint.sum));
        let soft = demand.soft.list.iter().map(|constraint| match constraint.sum {
            Some(sum) => by_domain(sum),
            None => (constraint.key, by_node(plan, constraint.subject, constraint.key)),
        });
        hard.chain(soft).collect()
    })
}

/// The skew over the nodes that carry a key.
fn by_node(plan: &Scoring<'_, '_>, subject: usize, key: Symbol) -> i64 {
    let mut extent: Option<(i32, i32)> = None;
    for shard in &plan.snapshot().shards {
        let counts = plan.census().on_shard(subject, shard);
        let rows = with_keys(&shard.nodes, [key].iter());
        for count in rows.iter().filter_map(|row| counts.get(row)) {
            let (low, high) = extent.unwrap_or((*count, *count));
            extent = Some((low.min(*count), high.max(*count)));
        }
    }
    extent.map_or(0, |(low, high)| i64::from(high - low))
}

#[cfg(test)]
mod tests;
