//! Assumptions: bindings of an assumed pod's claims, until the pod is forgotten; the cluster's own objects of the same
//! volumes and claims take precedence (S-VLB-9).

use std::sync::Arc;

use super::Storage;
use super::assumed::{Assumption, AssumptionId};
use crate::model::intern::Symbol;
use crate::model::key::{ClaimKey, PodKey};
use crate::model::volume::VolumeBindings;

impl Storage {
    /// Applies the bindings of an assumed pod: later pods see the volumes as taken and the nodes as selected.
    pub(crate) fn assume(
        &mut self,
        pod: &PodKey,
        node: Symbol,
        bindings: VolumeBindings,
        version: u64,
    ) {
        if bindings != VolumeBindings::default() {
            let assumption = Assumption { id: AssumptionId(version), node, bindings };
            self.restore(pod, Arc::new(assumption), version);
        }
    }

    /// Whether bindings are assumed for a pod of this name.
    pub(crate) fn has_assumed(&self, pod: &PodKey) -> bool {
        self.assumptions.0.contains_key(pod)
    }

    /// The bindings assumed for a pod.
    pub(crate) fn assumed_of(&self, pod: &PodKey) -> Option<&VolumeBindings> {
        self.assumptions.0.get(pod).map(|assumption| &assumption.bindings)
    }

    /// The pods for which bindings are assumed, from the first that was.
    pub(crate) fn assumed_in_order(&self) -> Vec<&PodKey> {
        let mut pods: Vec<_> = self.assumptions.0.iter().collect();
        pods.sort_unstable_by_key(|(_, assumption)| assumption.id);
        pods.into_iter().map(|(pod, _)| pod).collect()
    }

    /// Undoes the bindings assumed with a pod; returns them.
    pub(crate) fn release(&mut self, pod: &PodKey, version: u64) -> Option<Arc<Assumption>> {
        let assumption = self.assumptions.0.remove(pod)?;
        self.version = version;
        for (claim, volume) in &assumption.bindings.bound {
            let claim = key_of(pod, claim);
            self.volumes.release(volume, assumption.id, &claim, &self.claims);
        }
        for claim in &assumption.bindings.provisioned {
            self.claims.deselect(&key_of(pod, claim), assumption.id);
        }
        Some(assumption)
    }

    /// Applies released bindings again.
    pub(crate) fn restore(&mut self, pod: &PodKey, assumption: Arc<Assumption>, version: u64) {
        self.version = version;
        for (claim, volume) in &assumption.bindings.bound {
            let claim = key_of(pod, claim);
            self.volumes.assume(volume, assumption.id, &claim, &self.claims);
        }
        for claim in &assumption.bindings.provisioned {
            self.claims.select(&key_of(pod, claim), assumption.id, assumption.node);
        }
        self.assumptions.0.insert(pod.clone(), assumption);
    }
}

/// The key of a claim in bindings, which leave out the pod's namespace.
fn key_of(pod: &PodKey, claim: &Arc<str>) -> ClaimKey {
    ClaimKey { namespace: pod.namespace.clone(), name: claim.clone() }
}
