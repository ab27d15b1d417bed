//! Assumptions: what assuming a pod does to its claims, until the pod is forgotten; what the cluster tells of the same
//! volumes and claims counts before it (S-VLB-9).

use std::sync::Arc;

use super::Storage;
use super::assumed::{Assumption, AssumptionId};
use crate::model::intern::Symbol;
use crate::model::key::{ClaimKey, PodKey};
use crate::model::volume::VolumeBindings;

impl Storage {
    /// Lets the bindings of an assumed pod take effect: the next pod finds the volumes taken and the nodes selected.
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

    /// Takes back what was assumed with a pod; answers it.
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

    /// Lets what was released take effect again.
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

/// Bindings name claims without the pod's namespace.
fn key_of(pod: &PodKey, claim: &Arc<str>) -> ClaimKey {
    ClaimKey { namespace: pod.namespace.clone(), name: claim.clone() }
}
