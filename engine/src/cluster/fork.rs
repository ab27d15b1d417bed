//! Fork: a snapshot that one caller may change without anyone seeing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::draft::Draft;
use crate::error::EngineError;
use crate::kernel::Kernels;
use crate::model::{Pod, PodKey};
use crate::place::memo::{self, Memo, MemoKey};
use crate::place::request::PlaceRequest;
use crate::place::{self, Chosen, Decided, Evaluation, Plan};
use crate::snapshot::Snapshot;

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
        let lineage = versions.fetch_add(1, Ordering::Relaxed);
        let snapshot = Snapshot { lineage, ..base.clone() };
        let draft = Draft::new(snapshot, versions);
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
        let plan = Plan::new(&self.draft.snapshot, request, kernels);
        if !plan.is_rememberable() {
            return place::decide(&plan, &mut Evaluation::default(), request.tie_break);
        }
        let key = MemoKey::of(&plan);
        if self.evaluations.len() >= memo::capacity(self.draft.snapshot.shards.len()) {
            self.evaluations.clear();
        }
        let evaluation = self.evaluations.entry(key).or_insert_with(|| {
            let base = Plan::new(self.base, request, kernels);
            self.memo.with(&base, |evaluation| evaluation.fork(&base, self.draft.snapshot.lineage))
        });
        place::decide(&plan, evaluation, request.tie_break)
    }

    /// Puts a pod where it was decided to go, if anywhere, as assuming it would.
    pub(crate) fn commit(&mut self, pod: &Pod, chosen: Option<Chosen>) {
        let Some(Chosen { row, .. }) = chosen else { return };
        let Some(node) = self.draft.snapshot.node(row) else { return };
        let has_images = !node.facts().images.is_empty();
        let pod = pod.on_node(node.facts().name.clone());
        self.placed.insert(pod.key().clone(), node.facts().name.clone());
        self.draft.add_pod(row, pod, true);
        if has_images {
            self.draft.refresh_images(row);
        }
    }
}
