//! Report: writes the condition, nomination and event of a pod that is not scheduled, and evicts its victims.
//! Rules: S-ERR-9, S-PRE-21 to S-PRE-25, S-Q-8.

use std::sync::Arc;

use super::attempt::Rejection;
use super::claims;
use super::evict;
use super::failures::Write;
use super::pending::Pending;
use super::shared::Shared;
use super::ticket::Ticket;
use crate::apiserver::call::CallFailure;
use crate::apiserver::event::Event;
use crate::apiserver::status::{self, Unscheduled, is_gone, patch_status};
use crate::clock;

/// Writes the outcome of the attempt, and only then lets the pod wait for its next one: until its victims are being
/// deleted it is held back (S-Q-8).
pub(super) async fn report(shared: &Arc<Shared>, ticket: Ticket, rejection: Rejection) {
    let pending = ticket.latest();
    if !ticket.may_write() {
        return ticket.retry();
    }
    let event = Event::failed_scheduling(&pending.name, &rejection.message, &pending.profile);
    shared.events.record(event);
    match write_status(shared, &ticket, &rejection).await {
        Ok(()) => {}
        Err(CallFailure::Overtaken) => return ticket.retry(),
        // The feed will report that it is gone; its victims are not evicted.
        Err(failure) if is_gone(&failure) => return ticket.fail(),
        Err(failure) => {
            shared.note_failed(Write::Status, &pending, &failure.to_string());
            if rejection.displaced.is_some() {
                return ticket.fail();
            }
        }
    }
    claims::give_up(shared, &ticket, &rejection.given_up).await;
    if let Some(candidate) = &rejection.displaced {
        evict::await_victims(shared, &ticket, candidate);
        evict::clear_nominations(shared, &ticket, candidate, &rejection.cleared).await;
        if !evict::evict(shared, &ticket, candidate).await {
            return ticket.fail();
        }
    }
    match rejection.wanted {
        None => ticket.fail(),
        Some(wanted) if rejection.is_deferred => ticket.defer(wanted),
        Some(wanted) => ticket.reject(wanted, rejection.rejected_by),
    }
}

async fn write_status(
    shared: &Shared,
    ticket: &Ticket,
    rejection: &Rejection,
) -> Result<(), CallFailure> {
    let Rejection { reason, message, nominated, .. } = rejection;
    let patch = |pending: &Pending| {
        let now = clock::unix_seconds();
        let found = Unscheduled { reason: *reason, message, generation: pending.generation };
        status::unscheduled(&pending.status, found, nominated, now)
    };
    if patch(&ticket.latest()).is_none() {
        return Ok(());
    }
    // The semaphore is closed only if the scheduler is gone.
    let _slot = shared.report_slots.acquire().await;
    // The state may have changed during the wait.
    if !ticket.may_write() {
        return Err(CallFailure::Overtaken);
    }
    match patch(&ticket.latest()) {
        Some(patch) => {
            let name = &ticket.pending().name;
            patch_status(&shared.client, ticket.mandate(), name, &patch).await
        }
        None => Ok(()),
    }
}
