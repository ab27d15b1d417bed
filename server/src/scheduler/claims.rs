//! Claims: allocates and reserves the claims for devices of a placed pod, before the pod is bound, and waits until the
//! devices are ready. kube-scheduler's PreBind of DynamicResources.

use std::time::Duration;

use berth_engine::{AssignedDevices, GivenUp, Pod, PreBindError};
use berth_proto::Time;

use super::failures::Write;
use super::shared::Shared;
use super::ticket::Ticket;
use super::volumes::promise;
use crate::apiserver::device_claim::{DeviceClaimError, DeviceClaims};
use crate::clock;

/// Interval of the checks of devices that are not ready yet (S-DRA-99).
const LOOK: Duration = Duration::from_secs(5);

/// Reason why a pod's claims did not get their devices.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    #[error(transparent)]
    Claim(#[from] DeviceClaimError),
    #[error(transparent)]
    Device(#[from] PreBindError),
    #[error("device binding timeout: not ready after {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the pod is gone or cancelled, or another instance leads")]
    Overtaken,
}

/// Writes what was decided of the pod's claims, and waits for their devices.
pub(super) async fn bind(
    shared: &Shared,
    ticket: &Ticket,
    node: &str,
    devices: Option<&AssignedDevices>,
) -> Result<(), ClaimError> {
    let Some(pod) = pod_of(ticket).filter(|pod| pod.has_device_claims() || devices.is_some())
    else {
        return Ok(());
    };
    let now = Time::from_unix_seconds(clock::unix_seconds());
    let written = shared.cluster().pre_bind(pod, devices, now)?;
    promise(shared, ticket, node).await;
    let claims = claims_of(shared, ticket);
    for claim in &written.claims {
        may_write(ticket)?;
        let name = claim.metadata.as_ref().map_or("", |metadata| &metadata.name);
        let own = devices.and_then(|devices| devices.claims.iter().find(|own| *own.claim == *name));
        claims.reserve(name, own.map(|own| &own.allocation), now).await?;
    }
    if let Some(claim) = &written.extended {
        may_write(ticket)?;
        claims.create_extended(claim, &written.mappings).await?;
    }
    let has_conditions = written.claims.iter().chain(&written.extended).any(|claim| {
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let results = allocation.and_then(|allocation| allocation.devices.as_ref());
        results.is_some_and(|devices| {
            devices.results.iter().any(|result| !result.binding_conditions.is_empty())
        })
    });
    if has_conditions { wait(shared, ticket).await } else { Ok(()) }
}

/// Waits until all devices of the pod's claims are ready (S-DRA-99). What the feed has not reported yet is not ready.
async fn wait(shared: &Shared, ticket: &Ticket) -> Result<(), ClaimError> {
    let began = clock::now();
    let timeout = shared.options.device_bind_timeout;
    let Some(pod) = pod_of(ticket) else { return Ok(()) };
    while !shared.cluster().are_devices_ready(pod)? {
        if clock::now().saturating_duration_since(began) >= timeout {
            return Err(ClaimError::Timeout(timeout));
        }
        may_write(ticket)?;
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}

/// Takes back what [`bind`] has written, after a failure (S-DRA-95).
pub(super) async fn give_back(shared: &Shared, ticket: &Ticket, devices: Option<&AssignedDevices>) {
    let Some(pod) = pod_of(ticket).filter(|pod| pod.has_device_claims() || devices.is_some())
    else {
        return;
    };
    let claims = claims_of(shared, ticket);
    for claim in shared.cluster().device_claims_of(pod) {
        note(shared, ticket, claims.unreserve(&claim).await);
    }
    for claim in shared.cluster().extended_claims_of(pod) {
        note(shared, ticket, claims.delete(&claim).await);
    }
}

/// Gives up what PostFilter decided to give up, so that the pod may fit the next time (S-DRA-100).
pub(super) async fn give_up(shared: &Shared, ticket: &Ticket, given_up: &GivenUp) {
    let claims = claims_of(shared, ticket);
    match given_up {
        GivenUp::Nothing => {}
        GivenUp::OneOf(names) => {
            if let Some(name) = names.first() {
                note(shared, ticket, claims.deallocate(name).await);
            }
        }
        GivenUp::Extended(name) => note(shared, ticket, claims.delete(name).await),
    }
}

fn pod_of(ticket: &Ticket) -> Option<&Pod> {
    ticket.pending().pod.as_ref().ok()
}

fn claims_of<'a>(shared: &'a Shared, ticket: &'a Ticket) -> DeviceClaims<'a> {
    DeviceClaims { client: &shared.client, mandate: ticket.mandate(), pod: &ticket.pending().name }
}

fn note(shared: &Shared, ticket: &Ticket, done: Result<(), DeviceClaimError>) {
    if let Err(error) = done {
        shared.note_failed(Write::DeviceClaim, ticket.pending(), &error.to_string());
    }
}

fn may_write(ticket: &Ticket) -> Result<(), ClaimError> {
    if ticket.may_write() { Ok(()) } else { Err(ClaimError::Overtaken) }
}
