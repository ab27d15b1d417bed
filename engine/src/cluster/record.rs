//! Record: the decisions and suppositions made on a fork.

use rustc_hash::FxHashMap;

use super::step::Step;
use crate::model::PodKey;
use crate::place::basis::Touched;
use crate::snapshot::Snapshot;

/// Steps of a fork since it was opened.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Steps in order, each with whether the pod was pending before; `None` where a later step or a supposition
    /// replaced one.
    steps: Vec<Option<(Step, bool)>>,
    /// Position of the current step of each pod.
    of_pod: FxHashMap<PodKey, usize>,
    /// State touched by deltas, which are suppositions that do not hold in the cluster.
    pub(super) touched: Touched,
    pub(super) is_committed: bool,
}

impl Session {
    /// The current steps, in order.
    pub(super) fn steps(&self) -> impl Iterator<Item = &Step> {
        self.recorded().map(|(step, _)| step)
    }

    /// The current steps, in order, each with whether its pod was pending before.
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

    /// Records suppositions: deltas that led from one snapshot to another. `named` are their pods, `None` for all.
    /// `upholds` returns whether the effect of a step still holds.
    ///
    /// The step of a pod that deltas took off its node, or removed, is dropped.
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
