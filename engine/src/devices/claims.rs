//! Claims: the claims of a pod, whether each may be used, and what has to be allocated. Rules: S-DRA-10 to S-DRA-20,
//! S-DRA-101.

use std::sync::Arc;

use super::Fatal;
use super::asked::Asked;
use super::extended::Provided;
use crate::model::Pod;
use crate::model::device::allocation::Allocation;
use crate::model::device::claim::ResourceClaim;
use crate::model::device::pod_claims::DeviceClaimSource;
use crate::model::device::request::DeviceDemand;
use crate::model::extended::ExtendedRequests;
use crate::model::key::ClaimKey;
use crate::snapshot::devices::Devices;

/// The claims of a pod, looked up in the cluster.
#[derive(Debug)]
pub(crate) struct PodClaims<'a> {
    /// Why the pod cannot be tried, before its claims are there (S-DRA-13, S-DRA-14).
    pub(crate) unready: Option<String>,
    /// Why the attempt ends before any node is looked at (S-DRA-16 to S-DRA-18).
    pub(crate) refusal: Option<ClaimRefusal>,
    /// The claims that the pod names, in order.
    pub(crate) claims: Vec<PodClaim<'a>>,
    /// The demands of the claims to allocate; an error that ends the attempt on the first node that gets that far.
    pub(crate) asked: Result<Vec<Asked<'a>>, Fatal>,
    /// The claim that stands for extended resources, if the pod has one.
    pub(crate) extended: Option<ExtendedClaim<'a>>,
}

/// A claim of a pod.
#[derive(Clone, Debug)]
pub(crate) struct PodClaim<'a> {
    /// Its key; for a claim that is still to be made, one that no object has.
    pub(crate) key: ClaimKey,
    /// The claim, or the one that it will be like.
    pub(crate) claim: &'a ResourceClaim,
    is_copy: bool,
}

impl<'a> PodClaim<'a> {
    /// The allocation of the claim; `None` for one that is still to be made.
    pub(crate) fn allocation(&self) -> Option<&'a Allocation> {
        self.claim.allocation.as_ref().filter(|_| !self.is_copy)
    }
}

/// How PreFilter ends an attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum ClaimRefusal {
    Refused(String),
    Error(String),
}

/// The claim that stands for a pod's extended resources.
#[derive(Debug)]
pub(crate) struct ExtendedClaim<'a> {
    pub(crate) requests: &'a ExtendedRequests,
    /// The resources that the pod requests, in the order of their names.
    pub(crate) resources: Vec<Provided<'a>>,
    /// The claim of an earlier attempt.
    pub(crate) existing: Option<&'a ResourceClaim>,
    /// Key of the claim where it is still to be created.
    pub(crate) key: ClaimKey,
}

impl<'a> PodClaims<'a> {
    /// The claims of a pod; `None` for a pod without any (S-DRA-1, S-DRA-15).
    pub(crate) fn of(pod: &'a Pod, devices: &'a Devices) -> Option<PodClaims<'a>> {
        let named = pod.facts().device_claims.as_ref().filter(|claims| !claims.entries.is_empty());
        let extended = ExtendedClaim::of(pod, devices);
        if named.is_none() && extended.is_none() {
            return None;
        }
        let mut found = PodClaims {
            unready: None,
            refusal: None,
            claims: Vec::new(),
            asked: Ok(Vec::new()),
            extended,
        };
        match named_claims(pod, devices) {
            Ok(claims) => found.claims = claims,
            Err(why) => {
                found.unready = Some(why);
                return Some(found);
            }
        }
        if found.claims.is_empty() && found.extended.is_none() {
            return None;
        }
        found.refusal = found.check(pod, devices).err();
        if found.refusal.is_none() {
            let asked = found.to_allocate().map(|own| {
                let shape = &own.claim.shape;
                Asked::of(own.key.clone(), shape.requests(), shape.constraints(), devices)
            });
            found.asked = asked.collect();
        }
        Some(found)
    }

    /// Whether a claim that the pod names has to be allocated.
    pub(crate) fn has_to_allocate(&self) -> bool {
        self.asked.as_ref().map_or(true, |asked| !asked.is_empty())
    }

    /// The claims to allocate among those that the pod names.
    pub(crate) fn to_allocate(&self) -> impl Iterator<Item = &PodClaim<'a>> {
        self.claims.iter().filter(|own| own.allocation().is_none())
    }

    /// The allocated claims: those that the pod names, then the one for its extended resources. The taints of their
    /// devices do not matter any more (S-DRA-83).
    pub(crate) fn allocated(&self) -> impl Iterator<Item = &'a ResourceClaim> {
        let existing = self.existing().filter(|claim| claim.allocation.is_some());
        self.named_allocated().chain(existing)
    }

    /// The allocated claims that the pod names.
    pub(crate) fn named_allocated(&self) -> impl Iterator<Item = &'a ResourceClaim> {
        self.claims.iter().filter(|own| own.allocation().is_some()).map(|own| own.claim)
    }

    /// The claim that an earlier attempt made for the pod's extended resources.
    pub(crate) fn existing(&self) -> Option<&'a ResourceClaim> {
        self.extended.as_ref().and_then(|extended| extended.existing)
    }

    /// Checks the claims one after another (S-DRA-16 to S-DRA-19).
    fn check(&self, pod: &Pod, devices: &Devices) -> Result<(), ClaimRefusal> {
        let named = self.claims.iter().map(|own| (&own.key, own.claim, own.allocation(), false));
        let existing = self.existing();
        let existing = existing.map(|claim| (&claim.key, claim, claim.allocation.as_ref(), true));
        for (key, claim, allocation, is_extended) in named.chain(existing) {
            if let Some(allocation) = allocation {
                let selector = allocation.node_selector.as_ref();
                if let Some(why) = selector.and_then(|selector| selector.invalid.as_ref()) {
                    return Err(ClaimRefusal::Error(why.clone()));
                }
                continue;
            }
            if devices.flight_of(key).is_some_and(|flight| *flight.pod_uid != *pod.uid()) {
                let text = format!("resource claim {key} is in the process of being allocated");
                return Err(ClaimRefusal::Refused(text));
            }
            if !is_extended {
                check_classes(claim, devices)?;
            }
        }
        Ok(())
    }
}

/// Checks that the class of each request is there (S-DRA-18).
fn check_classes(claim: &ResourceClaim, devices: &Devices) -> Result<(), ClaimRefusal> {
    for request in claim.shape.requests() {
        let name = &request.name;
        let check = |demand: &DeviceDemand, name: String| match &*demand.class {
            "" => Err(ClaimRefusal::Error(format!("request {name}: unsupported request type"))),
            class if devices.class(class).is_none() => {
                let text = format!("request {name}: device class {class} does not exist");
                Err(ClaimRefusal::Refused(text))
            }
            _ => Ok(()),
        };
        match &request.exactly {
            Some(demand) => check(demand, name.to_string())?,
            None if request.first_available.is_empty() => {
                let key = &claim.key;
                let text = format!("resource claim {key}, request {name}: unknown request type");
                return Err(ClaimRefusal::Refused(text));
            }
            None => {
                for alternative in &request.first_available {
                    check(&alternative.demand, format!("{name}/{}", alternative.name))?;
                }
            }
        }
    }
    Ok(())
}

/// Whether the claims of a pod are the same at two points of one history: the objects, and whether they are in flight.
pub(crate) fn has_same_claims(pod: &Pod, then: &Devices, now: &Devices) -> bool {
    let facts = pod.facts();
    let has_extended = facts.shape.facts.extended.is_some();
    if facts.device_claims.is_none() && !has_extended || then.version == now.version {
        return true;
    }
    let entries = facts.device_claims.as_ref().map_or(&[][..], |claims| &claims.entries);
    let is_same = |name: &Arc<str>| {
        let (namespace, name) = (pod.key().namespace.clone(), name.clone());
        let key = ClaimKey { namespace, name };
        then.claim(&key) == now.claim(&key) && then.flight_of(&key) == now.flight_of(&key)
    };
    entries.iter().all(|entry| entry.source.claim().is_none_or(is_same))
        && then.extended_claims_of(pod.uid()).eq(now.extended_claims_of(pod.uid()))
}

/// The claims that a pod names, or why one of them cannot be used yet (S-DRA-10, S-DRA-11).
pub(crate) fn named_claims<'a>(
    pod: &Pod,
    devices: &'a Devices,
) -> Result<Vec<PodClaim<'a>>, String> {
    let entries = pod.facts().device_claims.as_ref().map_or(&[][..], |claims| &claims.entries);
    let (key, mut found) = (pod.key(), Vec::with_capacity(entries.len()));
    let quoted = format!("pod \"{}/{}\"", key.namespace, key.name);
    for entry in entries {
        let (name, has_to_own, is_copy) = match &entry.source {
            DeviceClaimSource::Named(name) => (name, false, false),
            DeviceClaimSource::Made(name) => (name, true, false),
            DeviceClaimSource::Copied(name) => (name, false, true),
            DeviceClaimSource::Unneeded => continue,
            DeviceClaimSource::NotMade => {
                return Err(format!("{quoted}: ResourceClaim not created yet"));
            }
            DeviceClaimSource::Unset => {
                let reason = "none of the supported fields are set";
                return Err(format!("{quoted}, spec.resourceClaim \"{}\": {reason}", entry.name));
            }
        };
        let claim_key = ClaimKey { namespace: key.namespace.clone(), name: name.clone() };
        let Some(claim) = devices.claim(&claim_key) else {
            return Err(format!("could not find ResourceClaim \"{claim_key}\""));
        };
        if claim.is_deleting && !is_copy {
            return Err(format!("resourceclaim \"{name}\" is being deleted"));
        }
        if has_to_own && !claim.is_owned_by(pod.uid()) {
            return Err(format!(
                "ResourceClaim {claim_key} was not created for Pod {}/{} (Pod is not owner)",
                key.namespace, key.name
            ));
        }
        let key = if is_copy {
            let name = format!("<claim>/{}/{}", key.name, entry.name).into();
            ClaimKey { namespace: key.namespace.clone(), name }
        } else {
            claim_key
        };
        found.push(PodClaim { key, claim, is_copy });
    }
    Ok(found)
}

impl<'a> ExtendedClaim<'a> {
    /// The claim for a pod's extended resources; `None` where no class provides any of them (S-DRA-101).
    fn of(pod: &'a Pod, devices: &'a Devices) -> Option<ExtendedClaim<'a>> {
        let shape = &pod.shape().facts;
        let requests = shape.extended.as_deref()?;
        let request = shape.request();
        let provided = requests.names.iter().filter(|(_, symbol)| request.scalar(*symbol) != 0);
        let provided = provided.map(|(name, symbol)| Provided {
            name,
            symbol: *symbol,
            class: devices.provider_of(name),
        });
        let resources: Vec<Provided<'a>> = provided.collect();
        if resources.iter().all(|resource| resource.class.is_none()) {
            return None;
        }
        let is_it = |claim: &&Arc<ResourceClaim>| {
            let owner = claim.controller.as_ref();
            owner.is_some_and(|owner| owner.name == pod.key().name)
        };
        let existing = devices.extended_claims_of(pod.uid()).find(is_it).map(|claim| &**claim);
        let name = crate::model::device::assigned::EXTENDED_CLAIM.into();
        let key = ClaimKey { namespace: pod.key().namespace.clone(), name };
        Some(ExtendedClaim { requests, resources, existing, key })
    }
}
