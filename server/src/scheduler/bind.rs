//! Bind: binds a placed pod's claims and then the pod. The pod stays assumed until the API server's answer is known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attempt::{PodBindings, Rejection};
use super::bind_limit::Ended;
use super::claims::{self, ClaimError};
use super::failures::Write;
use super::pending::shown;
use super::shared::Shared;
use super::ticket::Ticket;
use super::volumes::PreBindError;
use super::{report, volumes};
use crate::apiserver::binding::{self, Assignment, BindError};
use crate::apiserver::event::Event;
use crate::apiserver::status::NominatedNode;
use crate::clock;
use crate::telemetry::{AttemptResult, BindOutcome, ExtensionPoint};

/// Pause before a binding is repeated whose outcome is unknown, or for which the server was too busy; doubled each
/// time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// Number of times that a binding is repeated for which the server is too busy, or fails, before the pod is placed
/// anew.
const MAX_REFUSED: u32 = 8;

/// Why PreBind failed.
enum Failed {
    Overtaken,
    Message(String),
}

impl Failed {
    fn of_volumes(error: PreBindError) -> Failed {
        match error {
            PreBindError::Overtaken => Failed::Overtaken,
            error => Failed::Message(format!("running PreBind plugin \"VolumeBinding\": {error}")),
        }
    }

    fn of_claims(error: ClaimError) -> Failed {
        match error {
            ClaimError::Overtaken => Failed::Overtaken,
            error => {
                Failed::Message(format!("running PreBind plugin \"DynamicResources\": {error}"))
            }
        }
    }
}

/// Binds the pod of `ticket`, which is assumed on `node`.
pub(super) async fn bind(shared: &Arc<Shared>, ticket: Ticket, node: &str, bindings: &PodBindings) {
    let devices = bindings.devices.as_deref();
    let began = clock::now();
    let mut claimed =
        volumes::bind(shared, &ticket, node, &bindings.volumes).await.map_err(Failed::of_volumes);
    if claimed.is_ok() {
        claimed = claims::bind(shared, &ticket, node, devices).await.map_err(Failed::of_claims);
    }
    record(shared, &ticket, ExtensionPoint::PreBind, claimed.is_ok(), began);
    match claimed {
        Ok(()) => {}
        Err(Failed::Overtaken) => return ticket.retry(),
        Err(Failed::Message(message)) => {
            claims::give_back(shared, &ticket, devices).await;
            return give_up(shared, ticket, message).await;
        }
    }
    let (mut pause, mut n_refused) = (FIRST_PAUSE, 0);
    let mut is_unknown = false;
    loop {
        let Some(outcome) = send(shared, &ticket, node, is_unknown).await else {
            return ticket.retry();
        };
        shared.counts().count_bind(counted(&outcome));
        match outcome {
            Ok(()) => {
                let pending = ticket.pending();
                let event = Event::scheduled(&pending.name, node, &pending.profile);
                shared.events.record(event);
                return ticket.bound();
            }
            Err(BindError::AlreadyBound { node: there }) if there == node => return ticket.bound(),
            // The feed will report its state; until then it waits.
            Err(BindError::AlreadyBound { .. } | BindError::Gone) => {
                ticket.count(AttemptResult::Error);
                return ticket.fail();
            }
            Err(BindError::Refused { code: 429 | 500.., message }) if n_refused < MAX_REFUSED => {
                let pod = shown(ticket.pending());
                tracing::debug!(pod, "a binding is tried again: {message}");
                n_refused += 1;
                is_unknown = false;
            }
            Err(BindError::Refused { message, .. }) => {
                claims::give_back(shared, &ticket, devices).await;
                return give_up(shared, ticket, refusal(&message)).await;
            }
            // The pod may still become bound, so it stays assumed, and no other node is tried.
            Err(BindError::Unreachable { reason }) => {
                shared.note_failed(Write::Binding, ticket.pending(), &reason);
                is_unknown = true;
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Sends the Binding, once there is a slot. Returns `None` if it must not be sent any more, since another instance
/// leads or the pod is gone or was cancelled; but if an earlier one may have succeeded, returns the outcome of that.
async fn send(
    shared: &Shared,
    ticket: &Ticket,
    node: &str,
    is_unknown: bool,
) -> Option<Result<(), BindError>> {
    shared.await_rate().await;
    let slot = shared.bind_slots.take().await;
    let pod = &ticket.pending().name;
    // Checked last: during the waits another instance may have become the leader.
    let outcome = if ticket.send() {
        let began = clock::now();
        let client = &shared.client;
        let outcome = binding::bind_once(client, ticket.mandate(), pod, node, is_unknown).await;
        record(shared, ticket, ExtensionPoint::Bind, outcome.is_ok(), began);
        slot.ended(load_of(&outcome), clock::now().saturating_duration_since(began));
        Some(outcome)
    } else if is_unknown {
        settle(shared, ticket, node).await
    } else {
        None
    };
    drop(slot);
    outcome
}

/// Finds the outcome of a Binding whose answer was lost, without sending it again: reading needs no leadership, and
/// until the outcome is known no other pod may have the room. Returns `None` if the Binding had no effect.
async fn settle(shared: &Shared, ticket: &Ticket, node: &str) -> Option<Result<(), BindError>> {
    match binding::assignment_of(&shared.client, &ticket.pending().name).await {
        Ok(Assignment::On(there)) if there == node => Some(Ok(())),
        Ok(Assignment::On(node)) => Some(Err(BindError::AlreadyBound { node })),
        Ok(Assignment::Gone) => Some(Err(BindError::Gone)),
        Ok(Assignment::Pending) => None,
        // The feed knows the state.
        Err(_) if !ticket.is_under_way() => None,
        Err(failure) => Some(Err(BindError::Unreachable { reason: failure.to_string() })),
    }
}

/// Whether the outcome of a Binding shows an API server that is overloaded.
fn load_of(outcome: &Result<(), BindError>) -> Ended {
    match outcome {
        Err(BindError::Refused { code: 429 | 500.., .. } | BindError::Unreachable { .. }) => {
            Ended::Overloaded
        }
        Ok(()) | Err(_) => Ended::Answered,
    }
}

fn counted(outcome: &Result<(), BindError>) -> BindOutcome {
    match outcome {
        Ok(()) => BindOutcome::Bound,
        Err(BindError::AlreadyBound { .. }) => BindOutcome::BoundElsewhere,
        Err(BindError::Gone) => BindOutcome::Gone,
        Err(BindError::Refused { .. }) => BindOutcome::Refused,
        Err(BindError::Unreachable { .. }) => BindOutcome::Unknown,
    }
}

fn record(
    shared: &Shared,
    ticket: &Ticket,
    point: ExtensionPoint,
    is_success: bool,
    began: Instant,
) {
    let elapsed = clock::now().saturating_duration_since(began);
    let profile = &ticket.pending().profile;
    shared.counts().record_extension_point(point, is_success, profile, elapsed);
}

fn refusal(message: &str) -> String {
    format!("running Bind plugin \"DefaultBinder\": {message}")
}

/// Ends the attempt of a pod that is certainly not bound: releases its room, and reports the failure.
async fn give_up(shared: &Arc<Shared>, mut ticket: Ticket, message: String) {
    ticket.count(AttemptResult::Error);
    ticket.give_room_back();
    let nominated = NominatedNode::Cleared;
    report::report(shared, ticket, Rejection { nominated, ..Rejection::error(message) }).await;
}
