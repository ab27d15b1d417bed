//! Awaited: the victims that are not gone yet, with the pods that they make room for.

use std::collections::HashMap;

use berth_engine::PodKey;

/// The preemptors of each victim that is not gone yet. A victim of several has a list.
#[derive(Debug, Default)]
pub(super) struct Awaited(HashMap<PodKey, Vec<PodKey>>);

impl Awaited {
    /// Records a victim of a pod.
    pub(super) fn add(&mut self, victim: &PodKey, preemptor: &PodKey) {
        self.0.entry(victim.clone()).or_default().push(preemptor.clone());
    }

    /// Forgets the victims of a pod.
    pub(super) fn forget(&mut self, preemptor: &PodKey, victims: Option<&[PodKey]>) {
        for victim in victims.unwrap_or_default() {
            if let Some(preemptors) = self.0.get_mut(victim) {
                preemptors.retain(|key| key != preemptor);
                if preemptors.is_empty() {
                    self.0.remove(victim);
                }
            }
        }
    }

    /// The victims that a list of all pods does not have.
    pub(super) fn missing(&self, holds: &dyn Fn(&PodKey) -> bool) -> Vec<PodKey> {
        self.0.keys().filter(|victim| !holds(victim)).cloned().collect()
    }

    /// Removes a victim; returns the pods that await its end.
    pub(super) fn take(&mut self, victim: &PodKey) -> Option<Vec<PodKey>> {
        self.0.remove(victim)
    }
}
