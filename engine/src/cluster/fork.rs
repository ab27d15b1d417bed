//! Fork: a snapshot that one caller may change without anyone seeing it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use super::draft::Draft;
use crate::error::EngineError;
use crate::kernel::Kernels;
use crate::model::Pod;
use crate::place::memo::{Memo, MemoKey};
use crate::place::request::PlaceRequest;
use crate::place::{self, Chosen, Decided, Evaluation, Prepared};
use crate::snapshot::Snapshot;

/// A private copy of a snapshot; costs a few pointers until it is changed.
#[derive(Debug)]
pub(crate) struct Fork<'a> {
    draft: Draft,
    memo: &'a Memo,
    /// The fork's own evaluations: its history is not the cluster's.
    evaluations: FxHashMap<MemoKey, Evaluation>,
}

impl<'a> Fork<'a> {
    pub(crate) fn of(snapshot: &Snapshot, versions: Arc<AtomicU64>, memo: &'a Memo) -> Fork<'a> {
        let lineage = versions.fetch_add(1, Ordering::Relaxed);
        let snapshot = Snapshot { lineage, ..snapshot.clone() };
        Fork { draft: Draft::new(snapshot, versions), memo, evaluations: FxHashMap::default() }
    }

    /// Decides on the fork, with what is remembered of the request's shape, here or in the cluster.
    pub(crate) fn decide(
        &mut self,
        request: &PlaceRequest<'_>,
        kernels: Kernels,
    ) -> Result<Decided, EngineError> {
        let prepared = Prepared::new(&self.draft.snapshot, request, kernels);
        if !prepared.is_rememberable() {
            return place::decide(&prepared, &mut Evaluation::default(), request.tie_break);
        }
        let key = MemoKey::of(&prepared);
        let evaluation = self.evaluations.entry(key).or_insert_with(|| self.memo.recall(key));
        place::decide(&prepared, evaluation, request.tie_break)
    }

    /// Puts a pod where it was decided to go, if anywhere, as assuming it would.
    pub(crate) fn commit(&mut self, pod: &Pod, chosen: Option<Chosen>) {
        let Some(Chosen { row, .. }) = chosen else { return };
        let Some(node) = self.draft.snapshot.node(row) else { return };
        let (pod, has_images) =
            (pod.on_node(node.facts().name.clone()), !node.facts().images.is_empty());
        self.draft.add_pod(row, pod, true);
        if has_images {
            self.draft.refresh_images(row);
        }
    }
}
