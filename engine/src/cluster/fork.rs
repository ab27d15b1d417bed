//! Fork: a private snapshot that one caller may change and restore.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustc_hash::FxHashMap;

use super::images::ImageRefresh;
use crate::error::EngineError;
use crate::kernel::Kernels;
use crate::model::{Node, Object, Pod, PodKey};
use crate::place::basis::Touched;
use crate::place::decision::Outcome;
use crate::place::memo::{Evaluations, Memo, MemoKey};
use crate::place::{self, Decided, Evaluation};
use crate::plan::Plan;
use crate::plan::request::PlaceRequest;
use crate::preempt;
use crate::preempt::outcome::{Candidate, Preemption};
use crate::preempt::request::PreemptRequest;
use crate::rows::NodeRow;
use crate::snapshot::bindings::Bindings;
use crate::snapshot::draft::Draft;
use crate::snapshot::{AssumptionStamp, Snapshot};

/// A private copy of a snapshot; costs a few pointers until it is changed.
#[derive(Debug)]
pub(crate) struct Fork<'a> {
    /// The snapshot where the fork began: its history is the cluster's up to here, and its own afterwards.
    pub(crate) base: &'a Snapshot,
    draft: Draft,
    /// State touched by evictions: decisions that rest on it have to wait for these.
    pub(crate) touched: Touched,
    memo: &'a Memo,
    /// Pods that take room but are not in the pod lists yet: most batches end before the lists are read. None of them
    /// has terms or volumes, which count at once.
    unlisted: Vec<(NodeRow, Pod)>,
    /// The fork's own evaluations, each started from the cluster's memo of the base.
    evaluations: Evaluations,
    /// Results of searches for evictions on this fork, for at most [`MAX_SEARCHES`] shapes.
    searches: FxHashMap<MemoKey, preempt::Known>,
}

/// Number of shapes whose searches a fork remembers: the pods of a gang are alike.
const MAX_SEARCHES: usize = 16;

/// Makes the fork's evaluation from one that the cluster remembers.
type Keep = fn(&mut Evaluation, &mut Plan<'_>, u64) -> Evaluation;
const WHOLE: Keep = |evaluation, base, lineage| evaluation.fork(base, lineage);
const FILTERED: Keep = |evaluation, base, lineage| evaluation.fork_filtered(base, lineage);

impl<'a> Fork<'a> {
    pub(crate) fn of(base: &'a Snapshot, versions: Arc<AtomicU64>, memo: &'a Memo) -> Fork<'a> {
        let draft = Draft::fork(base, versions);
        Fork {
            base,
            draft,
            touched: Touched::default(),
            memo,
            unlisted: Vec::new(),
            evaluations: Evaluations::default(),
            searches: FxHashMap::default(),
        }
    }

    /// The snapshot as it is, with every pod listed.
    pub(crate) fn snapshot(&mut self) -> &Snapshot {
        self.list();
        &self.draft.snapshot
    }

    /// The node of a row.
    pub(crate) fn node(&self, row: NodeRow) -> Option<&Node> {
        self.draft.snapshot.node(row)
    }

    /// Decides on the fork for a pod that is not placed on it.
    pub(crate) fn decide(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
    ) -> Result<Decided, EngineError> {
        let tie_break = request.tie_break;
        self.run(request, kernels, (looks_at_pods, |_| Some(WHOLE)), |plan, evaluation| {
            place::decide(plan, evaluation, tie_break)
        })
    }

    /// Decides on the fork like [`Fork::decide`], and finds pods to evict where no node is feasible.
    pub(crate) fn preempt(
        &mut self,
        request: &PreemptRequest<'_>,
        kernels: Kernels,
        versions: &Arc<AtomicU64>,
    ) -> Result<Preemption, EngineError> {
        let PreemptRequest { pod, policy, tie_break, now, .. } = *request;
        let place = PlaceRequest { pod, policy, tie_break, now };
        let looks_at_pods = |_: &Plan<'_>| true;
        let mut searches = std::mem::take(&mut self.searches);
        if searches.len() >= MAX_SEARCHES {
            searches.clear();
        }
        let preempt = |plan: &mut Plan<'_>, evaluation: &mut Evaluation| {
            let known = match MemoKey::of(plan) {
                Some(key) => searches.entry(key).or_default(),
                None => &mut preempt::Known::default(),
            };
            preempt::preempt(plan, (evaluation, known), request, versions)
        };
        let made = self.run(&place, kernels, (looks_at_pods, |_| Some(WHOLE)), preempt);
        self.searches = searches;
        made
    }

    /// Runs filters, or other code that may read any pod of the fork, for a request.
    pub(crate) fn ask<T>(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
        ask: impl FnOnce(&mut Plan<'_>, &mut Evaluation) -> T,
    ) -> T {
        self.run(request, kernels, (looks_at_pods, |_| Some(FILTERED)), ask)
    }

    /// Runs code that reads only a row or two for a request: nothing is evaluated except counts of other pods.
    pub(crate) fn ask_of_row<T>(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
        ask: impl FnOnce(&mut Plan<'_>, &mut Evaluation) -> T,
    ) -> T {
        let keep = |plan: &Plan<'_>| plan.demand().filters().then_some(FILTERED);
        self.run(request, kernels, (looks_at_pods, keep), ask)
    }

    /// Runs `attempt` on a plan of the fork with the evaluation of the request's shape, from the fork or from the
    /// cluster; `keep` decides how to make the fork's evaluation from the cluster's, if at all.
    fn run<T>(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
        (looks_at_pods, keep): (
            impl FnOnce(&Plan<'_>) -> bool,
            impl FnOnce(&Plan<'_>) -> Option<Keep>,
        ),
        attempt: impl FnOnce(&mut Plan<'_>, &mut Evaluation) -> T,
    ) -> T {
        let mut plan = Plan::new(&self.draft.snapshot, request, kernels);
        if !self.unlisted.is_empty() && looks_at_pods(&plan) {
            drop(plan);
            self.list();
            plan = Plan::new(&self.draft.snapshot, request, kernels);
        }
        let (Some(key), Some(keep)) = (MemoKey::of(&plan), keep(&plan)) else {
            return attempt(&mut plan, &mut Evaluation::default());
        };
        let evaluation = self.evaluations.get_or_make(key, &plan, || {
            let mut base = Plan::new(self.base, request, kernels);
            let lineage = self.draft.snapshot.lineage;
            self.memo.with(&mut base, |base, evaluation| keep(evaluation, base, lineage))
        });
        attempt(&mut plan, evaluation)
    }

    /// Adds the unlisted pods to the lists and indexes.
    fn list(&mut self) {
        for (row, pod) in self.unlisted.drain(..) {
            let Some(node) = self.draft.snapshot.node(row) else { continue };
            let pod = pod.on_node(node.facts().name.clone());
            self.draft.list_pod(row, pod, Some(AssumptionStamp::OF_A_DRAFT));
        }
    }

    /// Puts a pod on its decided node, if any, as assuming it would.
    pub(crate) fn commit(&mut self, pod: &Pod, decided: &Decided) {
        if let (Some(chosen), Outcome::Placed(placement)) =
            (decided.chosen, &decided.decision.outcome)
        {
            self.put(pod, chosen.row, &placement.bindings());
        }
    }

    /// Puts a pod onto the node of a row, with the bindings of its claims.
    pub(crate) fn put(&mut self, pod: &Pod, row: NodeRow, bindings: &Bindings) {
        self.draft.clear_nomination(pod.key());
        self.draft.take_room(row, pod);
        self.draft.assume_bindings(pod, row, bindings);
        self.draft.refresh_images(row);
        self.unlisted.push((row, pod.clone()));
        if pod.volumes().is_some() || pod.shape().facts.pod_affinity.is_some() {
            self.list();
        }
    }

    /// Nominates a pod, in place of an earlier nomination.
    pub(crate) fn nominate(&mut self, pod: &Pod, node: &str) {
        self.draft.nominate(pod, node);
    }

    /// Clears a pod's nomination, if it has one.
    pub(crate) fn clear_nomination(&mut self, pod: &PodKey) {
        self.draft.clear_nomination(pod);
    }

    /// Takes the pod of this name off a row, with its assumed bindings; returns the pod as it was there.
    pub(crate) fn take(&mut self, row: NodeRow, pod: &PodKey) -> Option<Pod> {
        self.list();
        let shard = self.draft.snapshot.shards.get(row.shard())?;
        let found = shard.pods.find(row.row(), pod)?.pod.clone();
        self.draft.evict(row, pod);
        self.draft.free_claims(&found);
        self.draft.refresh_images(row);
        Some(found)
    }

    /// Adds a node or replaces the one of its name, whose pods stay.
    pub(crate) fn add_node(&mut self, node: &Node) -> NodeRow {
        let snapshot = &mut self.draft.snapshot;
        let known = snapshot.row_of(node.facts().symbol);
        let mut images = ImageRefresh::default();
        if let Some(old) = known.and_then(|row| snapshot.node(row)).cloned() {
            remove_images(&mut images, &old, snapshot);
        }
        if !node.facts().images.is_empty() {
            images.add_node(node, Arc::make_mut(&mut snapshot.images));
        }
        let row = match known {
            Some(row) => {
                self.draft.replace_node(row, node.clone());
                row
            }
            None => {
                self.draft.snapshot.counts.n_nodes += 1;
                self.draft.insert_node(node.clone())
            }
        };
        self.draft.refresh_images(row);
        row
    }

    /// Adds an object or replaces the one of its key.
    pub(crate) fn upsert_object(&mut self, object: &Object) {
        self.draft.upsert_object(object);
    }

    /// Removes the node of a row and the pods on it.
    pub(crate) fn remove_node(&mut self, row: NodeRow) {
        self.list();
        let Some(node) = self.draft.snapshot.node(row).cloned() else { return };
        remove_images(&mut ImageRefresh::default(), &node, &mut self.draft.snapshot);
        for placed in self.draft.remove_node(row) {
            self.draft.release_bindings(placed.pod.key());
        }
        self.draft.snapshot.counts.n_nodes -= 1;
    }

    /// Saves the state of the fork, to return to it.
    pub(crate) fn save(&mut self) -> Saved {
        self.list();
        Saved { draft: self.draft.clone(), touched: self.touched.clone() }
    }

    /// Evicts a candidate's victims and clears nominations; returns the state before.
    pub(crate) fn evict(&mut self, candidate: &Candidate, cleared: &[PodKey]) -> Saved {
        let saved = self.save();
        if let Some(row) = self.draft.snapshot.row_named(&candidate.node) {
            for victim in &candidate.victims {
                self.draft.evict(row, &victim.pod);
            }
            self.draft.refresh_images(row);
        }
        self.touched.add(&saved.draft.snapshot, &self.draft.snapshot);
        // Clearing nominations is no eviction: no decision has to wait for it.
        cleared.iter().for_each(|pod| self.draft.clear_nomination(pod));
        saved
    }

    /// Undoes all changes since a save.
    pub(crate) fn restore(&mut self, saved: Saved) {
        let Saved { draft, touched } = saved;
        self.unlisted.clear();
        self.draft.revert(&draft);
        self.touched = touched;
    }

    /// Protects a pod on a node from eviction.
    pub(crate) fn shield(&mut self, pod: &PodKey, node: &str) {
        if let Some(row) = self.draft.snapshot.row_named(node) {
            self.draft.shield(row, pod);
        }
    }
}

/// Updates image counts for the removal of a node.
fn remove_images(images: &mut ImageRefresh, node: &Node, snapshot: &mut Snapshot) {
    if !node.facts().images.is_empty() {
        images.remove_node(node, Arc::make_mut(&mut snapshot.images));
    }
}

/// Saved state of a fork.
#[derive(Clone, Debug)]
pub(crate) struct Saved {
    draft: Draft,
    touched: Touched,
}

/// Whether an attempt reads more of the pods on nodes than their requests, terms and volumes.
fn looks_at_pods(plan: &Plan<'_>) -> bool {
    !plan.demand().is_empty() || plan.volumes().found().is_some()
}
