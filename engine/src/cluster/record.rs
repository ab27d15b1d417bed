//! Record: what was decided on a fork, and what was supposed there.

use rustc_hash::FxHashMap;

use super::step::Step;
use crate::model::PodKey;
use crate::place::basis::Touched;
use crate::snapshot::Snapshot;

/// Steps of a fork since it was opened.
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

    /// Records a step; it replaces an earlier step of the same pod.
    pub(super) fn record(&mut self, step: Step, was_pending: bool) {
        // If the pod already has a step, keep the `was_pending` recorded with it.
        let earlier = self.of_pod.remove(step.pod()).and_then(|at| self.steps[at].take());
        let was_pending = earlier.map_or(was_pending, |(_, was_pending)| was_pending);
        self.of_pod.insert(step.pod().clone(), self.steps.len());
        self.steps.push(Some((step, was_pending)));
    }

    /// The recorded step of a pod, if there is one.
    fn step_of(&self, pod: &PodKey) -> Option<&Step> {
        self.steps.get(*self.of_pod.get(pod)?)?.as_ref().map(|(step, _)| step)
    }

    /// Removes the step of a pod, and the steps that cleared nominations for it.
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

    /// Deltas led from one snapshot to another; `named` are the pods that they named, `None` for all. `upholds` answers whether
    /// the cluster still has what a step did.
    ///
    /// A pod that they took off its node again, or out altogether, is not placed any more: its step falls away.
    pub(super) fn suppose(
        &mut self,
        (before, now): (&Snapshot, &Snapshot),
        named: Option<&[PodKey]>,
        upholds: impl Fn(&Step) -> bool,
    ) {
        self.touched.add(before, now);
        let is_gone = |step: &&Step| !upholds(step);
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
