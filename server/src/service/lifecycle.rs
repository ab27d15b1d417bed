//! Lifecycle methods: stateless functions of their request, and the ledger's methods, which keep state.

use std::sync::Arc;

use berth_engine::ModelError;
use berth_proto::berth_v1 as wire;
use prost::Message;

use crate::auth::Role;
use crate::clock;
use crate::ledger::{GrantError, Grants};
use crate::service::{CallContext, CallError, State};

/// Largest request in bytes that is handled on the reactor.
pub(crate) const MAX_INLINE_BYTES: usize = 64 << 10;
/// Identity event that releases a name whose process may still be running.
const FORCE_DELETED: &str = "ForceDeletedByUser";
/// Fence event that breaks an attachment which is not in the ledger.
const BREAK_ATTACHMENT: &str = "BreakAttachment";

/// Calls a stateless function with the request.
///
/// # Errors
/// A bad field of the request, a caller that is gone.
pub(crate) async fn decide<Question, Answer>(
    state: &State,
    call: &CallContext,
    question: Question,
    function: fn(&Question) -> Result<Answer, ModelError>,
) -> Result<Answer, CallError>
where
    Question: Message + 'static,
    Answer: Send + 'static,
{
    let answer = if question.encoded_len() <= MAX_INLINE_BYTES {
        function(&question)
    } else {
        state.pool.run(call.deadline, move |_| function(&question)).await?
    };
    Ok(answer?)
}

/// Calls the ledger, which may wait for the disk. A change that has begun is completed even if the caller goes away.
///
/// # Errors
/// A bad field of the request, a ledger that refuses or cannot be written.
pub(crate) async fn keep<Question, Answer>(
    state: &State,
    call: &CallContext,
    question: Question,
    method: fn(&Grants, &Question, i64) -> Result<Answer, GrantError>,
) -> Result<Answer, CallError>
where
    Question: Send + 'static,
    Answer: Send + 'static,
{
    let grants = state.grants.clone();
    let answer = state
        .ledger_pool
        .run(call.deadline, move |_| method(&grants, &question, clock::unix_seconds()))
        .await?;
    Ok(answer?)
}

/// Records what happened to the holder of an identity.
///
/// # Errors
/// The errors of [`keep`], and a forced release without the role `admin`.
pub(crate) async fn record_identity_event(
    state: &Arc<State>,
    call: &CallContext,
    request: wire::RecordIdentityEventRequest,
) -> Result<wire::RecordIdentityEventResponse, CallError> {
    check_force(call, request.r#type == FORCE_DELETED)?;
    keep(state, call, request, Grants::record_identity_event).await
}

/// Advances a fence.
///
/// # Errors
/// The errors of [`keep`], and a forced detachment without the role `admin`.
pub(crate) async fn advance_fence(
    state: &Arc<State>,
    call: &CallContext,
    request: wire::AdvanceFenceRequest,
) -> Result<wire::AdvanceFenceResponse, CallError> {
    check_force(call, request.r#type == BREAK_ATTACHMENT)?;
    keep(state, call, request, Grants::advance_fence).await
}

/// Checks that a forced release or detachment comes from an administrator.
fn check_force(call: &CallContext, is_force: bool) -> Result<(), CallError> {
    match is_force {
        true => Ok(call.access.caller().check(Role::Admin)?),
        false => Ok(()),
    }
}
