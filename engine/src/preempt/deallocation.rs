//! Deallocation: what DynamicResources gives up for a pod that fits nowhere, so that it may fit the next time. Rule:
//! S-DRA-100.

use std::sync::Arc;

use super::outcome::GivenUp;
use crate::filter::Scope;
use crate::model::device::claim::ResourceClaim;
use crate::plan::counted::Filtering;
use crate::plugin::Plugin;
use crate::prepared::devices::Found;

/// The message of DynamicResources' PostFilter, and what it gives up.
pub(super) fn of(plan: &Filtering<'_, '_>, is_refused: bool) -> (&'static str, GivenUp) {
    let Some(found) = plan.devices().found().filter(|_| !is_refused) else {
        return ("no new claims to deallocate", GivenUp::Nothing);
    };
    let mut names: Vec<Arc<str>> = kept_away(plan, found)
        .into_iter()
        .filter(|claim| claim.reserved_for.iter().all(|uid| **uid == *plan.pod().uid()))
        .filter(|claim| claim.reserved_for.len() <= 1)
        .map(|claim| claim.key.name.clone())
        .collect();
    names.sort_unstable();
    names.dedup();
    if !names.is_empty() {
        return ("deallocation of ResourceClaim completed", GivenUp::OneOf(names));
    }
    match found.claims.existing() {
        Some(claim) => {
            ("deletion of ResourceClaim completed", GivenUp::Extended(claim.key.name.clone()))
        }
        None => ("still not schedulable", GivenUp::Nothing),
    }
}

/// The claims that the pod names and that alone kept it from a node (S-DRA-25).
fn kept_away<'a>(plan: &Filtering<'_, 'a>, found: &Found<'a>) -> Vec<&'a ResourceClaim> {
    let is_check = |plugin, scope: Scope| plugin == Plugin::DynamicResources && !scope.is_row();
    let allocated: Vec<&'a ResourceClaim> = found.claims.named_allocated().collect();
    let mut claims = Vec::new();
    for shard in &plan.snapshot().shards {
        let mut rows = plan.candidates(shard);
        for filter in plan.filters() {
            if rows.is_empty() || is_check(filter.plugin, filter.scope) {
                break;
            }
            (filter.run)(plan, shard, &mut rows);
        }
        if !rows.is_empty() {
            let unavailable = allocated
                .iter()
                .filter(|claim| !found.unavailable_by(claim, shard, rows).is_empty());
            claims.extend(unavailable.copied());
        }
    }
    claims
}
