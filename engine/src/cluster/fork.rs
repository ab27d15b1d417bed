//! Fork: a snapshot that one caller may change without anyone seeing it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustc_hash::FxHashMap;

use crate::error::EngineError;
use crate::kernel::Kernels;
use crate::model::{Pod, PodKey};
use crate::place::basis::Touched;
use crate::place::decision::Outcome;
use crate::place::memo::{self, Memo, MemoKey};
use crate::place::request::PlaceRequest;
use crate::place::{self, Decided, Evaluation, Plan};
use crate::preempt;
use crate::preempt::outcome::{Candidate, Preemption};
use crate::preempt::request::PreemptRequest;
use crate::snapshot::draft::Draft;
use crate::snapshot::{NodeRow, Snapshot};

/// A private copy of a snapshot; costs a few pointers until it is changed.
#[derive(Debug)]
pub(crate) struct Fork<'a> {
    /// Where the fork began: its history is the cluster's up to here, and its own from here on.
    pub(crate) base: &'a Snapshot,
    draft: Draft,
    /// By evictions: who rests on that has to wait for them.
    pub(crate) touched: Touched,
    memo: &'a Memo,
    /// Pods that took their room and are not in the lists yet: most batches end before anyone looks there. None of them has
    /// terms or volumes, which would count at once.
    unlisted: Vec<(NodeRow, Pod)>,
    /// The fork's own evaluations, each begun as what the cluster's memo has of the base.
    evaluations: FxHashMap<MemoKey, Evaluation>,
}

impl<'a> Fork<'a> {
    pub(crate) fn of(base: &'a Snapshot, versions: Arc<AtomicU64>, memo: &'a Memo) -> Fork<'a> {
        let draft = Draft::fork(base, versions);
        let (touched, unlisted) = (Touched::default(), Vec::new());
        Fork { base, draft, touched, memo, unlisted, evaluations: FxHashMap::default() }
    }

    /// Decides on the fork for a pod that was not placed on it before.
    pub(crate) fn decide(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
    ) -> Result<Decided, EngineError> {
        let tie_break = request.tie_break;
        self.run(request, kernels, looks_at_pods, |plan, evaluation| {
            place::decide(plan, evaluation, tie_break)
        })
    }

    /// The same with whom to evict where no node is feasible.
    pub(crate) fn preempt(
        &mut self,
        request: &PreemptRequest<'_>,
        kernels: Kernels,
        versions: &Arc<AtomicU64>,
    ) -> Result<Preemption, EngineError> {
        let PreemptRequest { pod, policy, tie_break, .. } = *request;
        let place = PlaceRequest { pod, policy, tie_break };
        let looks_at_pods = |_: &Plan<'_>| true;
        self.run(&place, kernels, looks_at_pods, |plan, evaluation| {
            preempt::preempt(plan, evaluation, request, versions)
        })
    }

    /// Runs `attempt` on a plan of the fork with what is remembered of the request's shape, here or in the cluster.
    fn run<T>(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
        looks_at_pods: impl FnOnce(&Plan<'_>) -> bool,
        attempt: impl FnOnce(&mut Plan<'_>, &mut Evaluation) -> T,
    ) -> T {
        let plan = Plan::new(&self.draft.snapshot, request, kernels);
        let mut plan = if !self.unlisted.is_empty() && looks_at_pods(&plan) {
            drop(plan);
            self.list();
            Plan::new(&self.draft.snapshot, request, kernels)
        } else {
            plan
        };
        let Some(key) = MemoKey::of(&plan) else {
            return attempt(&mut plan, &mut Evaluation::default());
        };
        if self.evaluations.len() >= memo::capacity(self.draft.snapshot.shards.len()) {
            self.evaluations.clear();
        }
        let evaluation = self.evaluations.entry(key).or_insert_with(|| {
            let mut base = Plan::new(self.base, request, kernels);
            let lineage = self.draft.snapshot.lineage;
            self.memo.with(&mut base, |base, evaluation| evaluation.fork(base, lineage))
        });
        attempt(&mut plan, evaluation)
    }

    /// Puts every pod into the lists and indexes.
    fn list(&mut self) {
        for (row, pod) in self.unlisted.drain(..) {
            let Some(node) = self.draft.snapshot.node(row) else { continue };
            let pod = pod.on_node(node.facts().name.clone());
            self.draft.list_pod(row, pod, true);
        }
    }

    /// Puts a pod where it was decided to go, if anywhere, as assuming it would.
    pub(crate) fn commit(&mut self, pod: &Pod, decided: &Decided) {
        let (Some(chosen), Outcome::Placed(placement)) =
            (decided.chosen, &decided.decision.outcome)
        else {
            return;
        };
        let row = chosen.row;
        self.draft.clear_nomination(pod.key());
        self.draft.take_room(row, pod);
        self.draft.assume_bindings(pod.key(), row, &placement.volumes);
        if self.draft.snapshot.node(row).is_some_and(|node| !node.facts().images.is_empty()) {
            self.draft.refresh_images(row);
        }
        self.unlisted.push((row, pod.clone()));
        if pod.volumes().is_some() || pod.shape().facts.pod_affinity.is_some() {
            self.list();
        }
    }

    /// Evicts a candidate's victims and takes back nominations; answers what the fork was before.
    pub(crate) fn evict(&mut self, candidate: &Candidate, cleared: &[PodKey]) -> Saved {
        self.list();
        let saved = Saved { draft: self.draft.clone(), touched: self.touched.clone() };
        if let Some(row) = self.draft.snapshot.row_named(&candidate.node) {
            for victim in &candidate.victims {
                self.draft.evict(row, &victim.pod);
            }
            if self.draft.snapshot.node(row).is_some_and(|node| !node.facts().images.is_empty()) {
                self.draft.refresh_images(row);
            }
        }
        self.touched.add(&saved.draft.snapshot, &self.draft.snapshot);
        // Clearing nominations is no eviction: nobody has to wait for that.
        cleared.iter().for_each(|pod| self.draft.clear_nomination(pod));
        saved
    }

    /// Takes an eviction back, and all that came after it.
    pub(crate) fn restore(&mut self, saved: Saved) {
        let Saved { draft, touched } = saved;
        (self.draft, self.touched) = (draft, touched);
        self.unlisted.clear();
        // They know of versions that are gone.
        self.evaluations.clear();
    }

    /// Makes sure that nobody evicts a pod that is on a node.
    pub(crate) fn shield(&mut self, pod: &PodKey, node: &str) {
        if let Some(row) = self.draft.snapshot.row_named(node) {
            self.draft.shield(row, pod);
        }
    }
}

/// A fork at some time, to return to.
pub(crate) struct Saved {
    draft: Draft,
    touched: Touched,
}

/// Whether an attempt asks for more of the pods on nodes than the room that they take, their terms and their volumes.
fn looks_at_pods(plan: &Plan<'_>) -> bool {
    !plan.prepared.demand().is_empty() || plan.prepared.volumes().found().is_some()
}
