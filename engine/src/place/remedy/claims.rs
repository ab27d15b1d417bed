//! Claims: ways to provide the volumes that a pod's claims lack.

use std::sync::Arc;

use super::change::RemedyChange;
use super::way::Way;
use crate::model::volume::PodClaim;
use crate::plan::Plan;

/// A way for each claim of the pod, whatever it lacks: trials find out which help.
pub(super) fn ways(plan: &Plan<'_>) -> Vec<Way> {
    let claims = plan.pod().volumes().map_or(&[][..], |volumes| &volumes.claims);
    let mut ways: Vec<Way> = Vec::with_capacity(claims.len());
    for way in claims.iter().map(|claim| provide(plan, claim)) {
        if ways.iter().all(|known| known.changes != way.changes) {
            ways.push(way);
        }
    }
    ways
}

/// The way to give a claim a volume that every node can use.
pub(super) fn provide(plan: &Plan<'_>, claim: &PodClaim) -> Way {
    let name: Arc<str> = claim.key.name.clone();
    let text = text(plan, claim);
    Way::new(RemedyChange::ProvideVolume { claim: name }, text)
}

/// All ways as one; `None` for fewer than two.
pub(super) fn together(ways: Vec<Way>) -> Option<Way> {
    if ways.len() < 2 {
        return None;
    }
    let text = ways.iter().map(|way| way.text.as_str()).collect::<Vec<_>>().join(" and ");
    let mut changes: Vec<RemedyChange> = ways.into_iter().flat_map(|way| way.changes).collect();
    changes.sort_unstable();
    changes.dedup();
    Some(Way { changes, text, cost: 0 })
}

/// What is to be done for a claim, by its state.
fn text(plan: &Plan<'_>, claim: &PodClaim) -> String {
    let name = &claim.key.name;
    let storage = &plan.snapshot().storage;
    let Some(known) = storage.claims.get(&claim.key) else {
        return format!("create the claim `{name}`");
    };
    if known.is_deleting {
        return format!("replace the claim `{name}`, which is being deleted");
    }
    if claim.is_ephemeral() && !known.is_owned_by(plan.pod().uid()) {
        return format!("remove the claim `{name}`, which was made for another pod");
    }
    let class = plan.names().name(known.class);
    match &known.volume {
        Some(volume) if storage.volumes.get(volume).is_none() => {
            format!("restore the volume `{volume}` of the claim `{name}`")
        }
        Some(volume) => {
            format!("give the claim `{name}` a volume that more nodes can use than `{volume}`")
        }
        None if class.is_empty() => format!("bind the claim `{name}`, which names no class"),
        None if storage.class(known.class).is_none() => {
            format!("bind the claim `{name}` or create its class `{class}`")
        }
        None => format!("make a volume of class `{class}` for the claim `{name}`"),
    }
}
