//! Assuming: claims are in flight from the assumption of their pod on, until the cluster reports them as allocated or
//! the pod is forgotten. Rules: S-DRA-92, S-DRA-93.

use std::sync::Arc;

use super::Devices;
use super::in_flight::{AssumedClaims, Flight, extended_key};
use crate::model::device::assigned::AssignedDevices;
use crate::model::device::claim::ResourceClaim;
use crate::model::key::{ClaimKey, PodKey};

impl Devices {
    /// The pod for which a claim is in flight, if it is.
    pub(crate) fn flight_of(&self, claim: &ClaimKey) -> Option<&Flight> {
        self.in_flight.claims.get(claim)
    }

    /// The devices that were assigned to a pod, as long as something is in flight for it.
    pub(in crate::snapshot) fn assigned_to(&self, pod: &PodKey) -> Option<&Arc<AssignedDevices>> {
        self.in_flight.pods.get(pod).map(|assumed| &assumed.assigned)
    }

    /// Takes what was allocated for an assumed pod (S-DRA-93).
    pub(in crate::snapshot) fn assume(
        &mut self,
        pod: &PodKey,
        claims: Arc<AssumedClaims>,
        version: u64,
    ) {
        self.version = version;
        for (key, allocation) in &claims.claims {
            let is_reported = self.claim(key).is_some_and(|claim| claim.allocation.is_some());
            if is_reported || self.in_flight.claims.contains_key(key) {
                continue;
            }
            self.allocated.add(key, allocation);
            self.touch_devices(allocation, version);
            let (pod, pod_uid) = (pod.clone(), claims.pod_uid.clone());
            let flight = Flight { pod, pod_uid, allocation: allocation.clone() };
            self.in_flight.claims.insert(key.clone(), flight);
        }
        self.in_flight.pods.insert(pod.clone(), claims);
    }

    /// Gives back what is in flight for a pod; returns what was allocated for it.
    pub(in crate::snapshot) fn release(
        &mut self,
        pod: &PodKey,
        version: u64,
    ) -> Option<Arc<AssumedClaims>> {
        let assumed = self.in_flight.pods.remove(pod)?;
        self.version = version;
        for (key, _) in &assumed.claims {
            if self.flight_of(key).is_some_and(|flight| flight.pod == *pod) {
                self.end_flight(key, version);
            }
        }
        Some(assumed)
    }

    /// Ends the flight of a claim that the cluster reports as allocated, or of the extended resources that it stands
    /// for.
    pub(super) fn land(&mut self, claim: &ResourceClaim, version: u64) {
        self.end_flight(&claim.key, version);
        if let Some(owner) = claim.controller.as_ref().filter(|_| claim.is_extended) {
            let key = extended_key(&claim.key.namespace, &owner.name);
            if self.flight_of(&key).is_some_and(|flight| flight.pod_uid == owner.uid) {
                self.end_flight(&key, version);
            }
        }
    }

    fn end_flight(&mut self, key: &ClaimKey, version: u64) {
        if let Some(flight) = self.in_flight.claims.remove(key) {
            self.allocated.remove(key, &flight.allocation);
            self.touch_devices(&flight.allocation, version);
        }
    }
}
