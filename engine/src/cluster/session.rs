//! Session: a fork that is a cluster of its own, and the record of what was decided and of what was supposed on it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::step::Step;
use super::writer::Writer;
use super::{Cluster, publish::Published};
use crate::model::PodKey;
use crate::place::basis::Touched;
use crate::place::memo::Memo;
use crate::snapshot::Snapshot;

impl Cluster {
    /// A session: a private copy of the cluster as it is now, on which every call works as on the cluster itself, without
    /// anyone else seeing it.
    ///
    /// What is placed on it and which nodes are promised there can be made real with [`Cluster::commit`]. Deltas applied to
    /// it are suppositions, never applied to the cluster. Cost: some tens of pointers, however large the cluster is, and a
    /// wait for whoever changes the cluster at the time; each of the two then copies what it changes when it first does.
    pub fn fork(&self) -> Cluster {
        let (base, fork) = {
            let writer = self.writer();
            (self.snapshot(), writer.fork())
        };
        Cluster {
            model: self.model.clone(),
            kernels: self.kernels,
            versions: self.versions.clone(),
            published: Published::new(fork.draft.snapshot.clone()),
            writer: fork.into(),
            memo: Memo::default(),
            base: Some(base),
        }
    }

    /// Whether this is a fork of that cluster.
    pub(super) fn is_fork_of(&self, origin: &Cluster) -> Option<&Arc<Snapshot>> {
        let is_same_house = Arc::ptr_eq(&self.versions, &origin.versions);
        let lineage = origin.snapshot().lineage;
        self.base.as_ref().filter(|base| is_same_house && base.lineage == lineage)
    }
}

/// What a fork has come to since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// In order, and whether the pod was known without a node; `None` where a later step or a supposition took the place of one.
    steps: Vec<Option<(Step, bool)>>,
    /// Where the standing step of a pod is.
    of_pod: FxHashMap<PodKey, usize>,
    /// By deltas, which suppose what is not so in the cluster.
    pub(super) touched: Touched,
    pub(super) is_committed: bool,
}

impl Session {
    /// The standing steps, in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.recorded().map(|(step, _)| step)
    }

    /// The same, and whether their pods were known without a node before.
    pub(super) fn recorded(&self) -> impl Iterator<Item = &(Step, bool)> {
        self.steps.iter().flatten()
    }

    /// A step was taken; it replaces what stood of the same pod.
    pub(super) fn record(&mut self, step: Step, was_pending: bool) {
        // Of a pod that has a step already it was told when that was recorded.
        let earlier = self.of_pod.remove(step.pod()).and_then(|at| self.steps[at].take());
        let was_pending = earlier.map_or(was_pending, |(_, was_pending)| was_pending);
        self.of_pod.insert(step.pod().clone(), self.steps.len());
        self.steps.push(Some((step, was_pending)));
    }

    /// What stands of a pod.
    fn step_of(&self, pod: &PodKey) -> Option<&Step> {
        self.steps.get(*self.of_pod.get(pod)?)?.as_ref().map(|(step, _)| step)
    }

    /// What stood of a pod does no longer, nor that others lost their promises to it.
    pub(super) fn withdraw(&mut self, pod: &PodKey) {
        let Some(at) = self.of_pod.remove(pod) else { return };
        if let Some((Step::Nominate { .. }, _)) = self.steps[at].take() {
            let is_due_to_it = |step: &Step| matches!(step, Step::Clear { by, .. } if by == pod);
            let due: Vec<PodKey> =
                self.steps().filter(|s| is_due_to_it(s)).map(|s| s.pod().clone()).collect();
            for pod in due {
                if let Some(at) = self.of_pod.remove(&pod) {
                    self.steps[at] = None;
                }
            }
        }
    }

    /// Deltas led from `before` to what the writer has now; these are the pods that they named, `None` for all.
    ///
    /// A pod that they took off its node again, or out altogether, is not placed any more: its step falls away.
    pub(super) fn suppose(&mut self, before: &Snapshot, named: Option<&[PodKey]>, writer: &Writer) {
        self.touched.add(before, &writer.draft.snapshot);
        let is_gone = |step: &&Step| !writer.upholds(step);
        let gone: Vec<PodKey> = match named {
            None => self.steps().filter(is_gone).map(|step| step.pod().clone()).collect(),
            Some(named) => {
                let steps = named.iter().filter_map(|pod| self.step_of(pod));
                steps.filter(is_gone).map(|step| step.pod().clone()).collect()
            }
        };
        gone.iter().for_each(|pod| self.withdraw(pod));
    }
}
