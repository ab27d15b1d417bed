//! Changes of a pod, applied to its spec.

use std::sync::Arc;

use super::change::RemedyChange;
use crate::account::wording;
use crate::model::Pod;
use crate::model::intern::Interner;
use crate::model::resources::Resource;
use crate::model::shape::ShapeFacts;
use crate::model::taint::Effect;

/// Applies a change of the pod; returns whether it is one. `None` where the pod does not have the part to change.
pub(super) fn apply(
    change: &RemedyChange,
    shape: &mut ShapeFacts,
    names: &Interner,
) -> Option<bool> {
    match change {
        RemedyChange::Uncordon { .. }
        | RemedyChange::LiftFence { .. }
        | RemedyChange::ClearTaint { .. }
        | RemedyChange::AllowPod { .. }
        | RemedyChange::RemovePod { .. }
        | RemedyChange::AddNode { .. } => return Some(false),
        RemedyChange::Tolerate { key, value, effect } => {
            let effect = effect.map(|effect| Effect::from_name(effect).ok_or(()));
            let (key, value) = (names.get(key)?, names.get(value)?);
            shape.tolerations = shape.tolerations.with(key, value, effect.transpose().ok()?);
        }
        RemedyChange::DropNodeSelector { key, value } => {
            let pair = (names.get(key)?, names.get(value)?);
            let mut pairs = shape.node_selector.take()?.into_vec();
            pairs.retain(|known| *known != pair);
            shape.node_selector = (!pairs.is_empty()).then(|| pairs.into());
        }
        RemedyChange::DropNodeRequirement { key, operator, values } => {
            let dropped = (key.clone(), *operator, values.clone());
            let mut required = shape.required_affinity.take()?;
            for term in &mut required.terms {
                term.labels.retain(|requirement| wording::parts(requirement, names) != dropped);
            }
            let asks = required.terms.iter().all(|t| !t.labels.is_empty() || !t.fields.is_empty());
            shape.required_affinity = asks.then_some(required);
        }
        RemedyChange::DropNodeConstraints { node_selector, node_affinity } => {
            if *node_selector {
                shape.node_selector = None;
            }
            if *node_affinity {
                shape.required_affinity = None;
            }
        }
        RemedyChange::RaiseMaxSkew { constraint, max_skew } => {
            shape.spread.list.get_mut(*constraint)?.max_skew = *max_skew;
        }
        RemedyChange::LowerMinDomains { constraint, min_domains } => {
            shape.spread.list.get_mut(*constraint)?.min_domains = *min_domains;
        }
        RemedyChange::SoftenSpread { constraint } => {
            shape.spread.list.get_mut(*constraint)?.is_hard = false;
        }
        RemedyChange::RequestLess { resource, amount } => {
            let resource = Resource::from_name(resource, names)?;
            let left = shape.request().get(resource).checked_sub(*amount)?;
            // Changes only what filters read: nothing is scored after a change.
            shape.footprint.requested.set(resource, left);
        }
        RemedyChange::DropPodAffinity { term } => {
            let affinity = Arc::make_mut(shape.pod_affinity.as_mut()?);
            (*term < affinity.required.len()).then(|| affinity.required.remove(*term))?;
        }
        RemedyChange::DropPodAntiAffinity { term } => {
            let affinity = Arc::make_mut(shape.pod_affinity.as_mut()?);
            (*term < affinity.anti_required.len()).then(|| affinity.anti_required.remove(*term))?;
        }
        // The pod's volumes are not part of its shape: see `with_volumes`.
        RemedyChange::ProvideVolume { .. } => {}
        RemedyChange::DropHostPort { port, protocol, ip } => {
            let (protocol, ip) = (names.get(protocol)?, names.get(ip)?);
            shape.host_ports.retain(|p| (p.port, p.protocol, p.ip) != (*port, protocol, ip));
        }
    }
    Some(true)
}

/// The pod without the claims that changes provide volumes for.
pub(super) fn with_volumes(changes: &[RemedyChange], pod: Pod) -> Pod {
    let provided = |change: &RemedyChange| match change {
        RemedyChange::ProvideVolume { claim } => Some(claim.clone()),
        _ => None,
    };
    let claims: Vec<Arc<str>> = changes.iter().filter_map(provided).collect();
    if claims.is_empty() { pod } else { pod.without_claims(&claims) }
}
