//! Volumes: binds the claims that waited for the pod, before the pod is bound. kube-scheduler's PreBind.

use std::time::Duration;

use berth_engine::VolumeBindings;

use super::failures::Write;
use super::shared::Shared;
use super::ticket::Ticket;
use crate::apiserver::call::CallFailure;
use crate::apiserver::status::{self, NominatedNode, patch_status};
use crate::apiserver::volume::{self, Awaited, VolumeError};
use crate::clock;

/// Interval of the checks of a claim that is not bound yet.
const LOOK: Duration = Duration::from_secs(1);

/// Reason why a pod's claims did not get their volumes.
#[derive(Debug, thiserror::Error)]
pub(super) enum PreBindError {
    #[error("binding volumes: {0}")]
    Volume(#[from] VolumeError),
    #[error("binding volumes: not bound after {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("binding volumes: the pod is gone or cancelled, or another instance leads")]
    Overtaken,
}

/// Writes the decided bindings of the pod's claims and waits until they are complete.
pub(super) async fn bind(
    shared: &Shared,
    ticket: &Ticket,
    node: &str,
    bindings: &VolumeBindings,
) -> Result<(), PreBindError> {
    let VolumeBindings { bound, provisioned } = bindings;
    if bound.is_empty() && provisioned.is_empty() {
        return Ok(());
    }
    let (client, namespace) = (&shared.client, &*ticket.pending().name.namespace);
    let began = clock::now();
    let mandate = ticket.mandate();
    promise(shared, ticket, node).await;
    for (claim, volume) in bound {
        may_write(ticket)?;
        volume::reserve(client, mandate, namespace, claim, volume).await?;
    }
    for claim in provisioned {
        may_write(ticket)?;
        volume::select_node(client, mandate, namespace, claim, node).await?;
    }
    let bound = bound.iter().map(|(claim, volume)| (claim, Awaited::Volume(volume)));
    let provisioned = provisioned.iter().map(|claim| (claim, Awaited::Provisioned(node)));
    let mut waiting: Vec<_> = bound.chain(provisioned).collect();
    loop {
        let mut unbound = Vec::new();
        for (claim, awaited) in waiting {
            match volume::is_bound(client, namespace, claim, awaited).await {
                Ok(true) => {}
                // Without an answer the state is unknown.
                Ok(false) | Err(VolumeError::Call { failure: CallFailure::Unknown { .. }, .. }) => {
                    unbound.push((claim, awaited));
                }
                Err(error) => return Err(error.into()),
            }
        }
        if unbound.is_empty() {
            return Ok(());
        }
        waiting = unbound;
        if clock::now().saturating_duration_since(began) >= shared.options.volume_bind_timeout {
            return Err(PreBindError::Timeout(shared.options.volume_bind_timeout));
        }
        may_write(ticket)?;
        tokio::time::sleep(LOOK).await;
    }
}

/// Nominates the pod (S-SNP-6): binding its claims may take minutes, in which another instance may become the leader,
/// which has to know the pod's node.
pub(super) async fn promise(shared: &Shared, ticket: &Ticket, node: &str) {
    let pending = ticket.latest();
    let nominated = NominatedNode::Set(node.to_owned());
    let Some(patch) = status::nominated(&pending.status, &nominated) else { return };
    let written = patch_status(&shared.client, ticket.mandate(), &pending.name, &patch).await;
    if let Err(failure) = written {
        shared.note_failed(Write::Nomination, &pending, &failure.to_string());
    }
}

fn may_write(ticket: &Ticket) -> Result<(), PreBindError> {
    if ticket.may_write() { Ok(()) } else { Err(PreBindError::Overtaken) }
}
