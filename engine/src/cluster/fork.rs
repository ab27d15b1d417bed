//! Fork: a snapshot that one caller may change without anyone seeing it.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustc_hash::FxHashMap;

use crate::error::EngineError;
use crate::kernel::Kernels;
use crate::model::{Pod, PodKey};
use crate::place::decision::Outcome;
use crate::place::memo::{self, Memo, MemoKey};
use crate::place::request::PlaceRequest;
use crate::place::{self, Decided, Evaluation, Plan};
use crate::snapshot::Snapshot;
use crate::snapshot::draft::Draft;

/// A private copy of a snapshot; costs a few pointers until it is changed.
#[derive(Debug)]
pub(crate) struct Fork<'a> {
    /// Where the fork began: its history is the cluster's up to here, and its own from here on.
    base: &'a Snapshot,
    draft: Draft,
    memo: &'a Memo,
    /// Pods that were placed on the fork, and where.
    placed: FxHashMap<PodKey, Arc<str>>,
    /// The fork's own evaluations, each begun as what the cluster's memo has of the base.
    evaluations: FxHashMap<MemoKey, Evaluation>,
}

impl<'a> Fork<'a> {
    pub(crate) fn of(base: &'a Snapshot, versions: Arc<AtomicU64>, memo: &'a Memo) -> Fork<'a> {
        let draft = Draft::fork(base, versions);
        Fork { base, draft, memo, placed: FxHashMap::default(), evaluations: FxHashMap::default() }
    }

    /// Decides on the fork for a pod that was not placed on it before, with what is remembered of the request's shape, here
    /// or in the cluster.
    pub(crate) fn decide(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
    ) -> Result<Decided, EngineError> {
        if let Some(node) = self.placed.get(request.pod.key()) {
            let (pod, node) = (request.pod.key().clone(), node.clone());
            return Err(EngineError::AlreadyPlaced { pod, node });
        }
        let mut plan = Plan::new(&self.draft.snapshot, request, kernels);
        let Some(key) = MemoKey::of(&plan) else {
            return place::decide(&mut plan, &mut Evaluation::default(), request.tie_break);
        };
        if self.evaluations.len() >= memo::capacity(self.draft.snapshot.shards.len()) {
            self.evaluations.clear();
        }
        let evaluation = self.evaluations.entry(key).or_insert_with(|| {
            let mut base = Plan::new(self.base, request, kernels);
            let lineage = self.draft.snapshot.lineage;
            self.memo.with(&mut base, |base, evaluation| evaluation.fork(base, lineage))
        });
        place::decide(&mut plan, evaluation, request.tie_break)
    }

    /// Puts a pod where it was decided to go, if anywhere, as assuming it would.
    pub(crate) fn commit(&mut self, pod: &Pod, decided: &Decided) {
        let (Some(chosen), Outcome::Placed(placement)) =
            (decided.chosen, &decided.decision.outcome)
        else {
            return;
        };
        let row = chosen.row;
        let Some(node) = self.draft.snapshot.node(row) else { return };
        let has_images = !node.facts().images.is_empty();
        let pod = pod.on_node(node.facts().name.clone());
        self.placed.insert(pod.key().clone(), node.facts().name.clone());
        self.draft.add_pod(row, pod.clone(), true);
        self.draft.assume_bindings(pod.key(), row, &placement.volumes);
        if has_images {
            self.draft.refresh_images(row);
        }
    }
}
