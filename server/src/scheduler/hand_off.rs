//! Hand-off: Berth nominates and kube-scheduler binds, since kube-scheduler tries `status.nominatedNodeName` before
//! anything else (S-CYC-3). In this mode Berth neither binds nor evicts, and writes no conditions; a nomination by
//! another component, such as kube-scheduler's for a preemptor, is left unchanged.
//!
//! A nominated pod stays assumed in the cluster until the feed reports where it was bound, or until the nomination
//! has been there for so long that the pod is decided anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use super::attempt::Rejection;
use super::failures::Write;
use super::hints::Changes;
use super::pending::Pending;
use super::queue::{Batch, Popped};
use super::shared::{Shared, locked};
use super::ticket::Ticket;
use crate::apiserver::call::CallFailure;
use crate::apiserver::status::{self, NominatedNode, is_gone, patch_status};
use crate::telemetry::AttemptResult;

/// Nominates the pod of `ticket` to the node that was decided.
pub(super) async fn nominate(shared: &Arc<Shared>, ticket: Ticket, node: Arc<str>) {
    if !ticket.send() {
        return ticket.retry();
    }
    let pending = ticket.latest();
    if is_foreign(shared, &pending) && *pending.status.nominated_node_name != *node {
        return ticket.set_aside();
    }
    // Before the write, since the feed may be faster than the answer.
    locked(&shared.handed).insert(pending.key.clone(), (pending.name.uid.clone(), node.clone()));
    match write(shared, &ticket, &NominatedNode::Set(node.to_string())).await {
        Ok(()) => {
            tracing::debug!(pod = %pending.key, node = &*node, "nominated");
            ticket.handed_off();
        }
        Err(failure) => {
            if !matches!(failure, CallFailure::Unknown { .. }) {
                locked(&shared.handed).remove(&pending.key);
            }
            if !is_gone(&failure) {
                shared.note_failed(Write::Nomination, &pending, &failure.to_string());
            }
            ticket.count(AttemptResult::Error);
            ticket.fail();
        }
    }
}

/// Ends the attempt of a pod that fits nowhere: clears a nomination by this instance; the condition is left to
/// kube-scheduler.
pub(super) async fn reject(shared: &Arc<Shared>, ticket: Ticket, rejection: Rejection) {
    if !ticket.may_write() {
        return ticket.retry();
    }
    let pending = ticket.latest();
    if !is_foreign(shared, &pending) {
        match write(shared, &ticket, &NominatedNode::Cleared).await {
            Ok(()) => {
                if locked(&shared.handed).remove(&pending.key).is_some() {
                    // The room that was reserved for it may now be used by others.
                    shared.note_changed(Changes::POD_DELETED);
                }
            }
            Err(failure) if is_gone(&failure) => return ticket.fail(),
            Err(failure) => {
                shared.note_failed(Write::Nomination, &pending, &failure.to_string());
            }
        }
    }
    match rejection.wanted {
        None => ticket.fail(),
        Some(wanted) if rejection.is_deferred => ticket.defer(wanted),
        Some(wanted) => ticket.reject(wanted, rejection.rejected_by),
    }
}

/// The pods whose nominations are old, to be decided anew at once: other pods are not notified that their room is free,
/// so each finds it unchanged, unless its node is gone or changed.
pub(super) fn expired(shared: &Shared, now: Instant) -> Vec<Batch> {
    let expired = shared.queue().expired(now);
    let names: Vec<_> = expired
        .iter()
        .map(|popped| (popped.pending.key.clone(), popped.pending.name.uid.clone()))
        .collect();
    if !names.is_empty() {
        shared.cluster().take_back(&names);
    }
    let mut batches: BTreeMap<Arc<str>, Vec<Popped>> = BTreeMap::new();
    for popped in expired {
        batches.entry(popped.pending.profile.clone()).or_default().push(popped);
    }
    let mut cut = Vec::new();
    for (profile, pods) in batches {
        let parts = pods.chunks(shared.options.max_batch.max(1));
        cut.extend(parts.map(|pods| Batch {
            profile: profile.clone(),
            group: None,
            pods: pods.to_vec(),
        }));
    }
    cut
}

async fn write(
    shared: &Shared,
    ticket: &Ticket,
    nominated: &NominatedNode,
) -> Result<(), CallFailure> {
    let pending = ticket.latest();
    let Some(patch) = status::nominated(&pending.status, nominated) else { return Ok(()) };
    let _slot = shared.report_slots.acquire().await;
    if !ticket.may_write() {
        return Err(CallFailure::Overtaken);
    }
    patch_status(&shared.client, ticket.mandate(), &pending.name, &patch).await
}

/// Whether another component nominated the pod.
fn is_foreign(shared: &Shared, pending: &Pending) -> bool {
    let nominated = &*pending.status.nominated_node_name;
    if nominated.is_empty() {
        return false;
    }
    let handed = locked(&shared.handed);
    !handed
        .get(&pending.key)
        .is_some_and(|(uid, node)| *uid == pending.name.uid && **node == *nominated)
}
