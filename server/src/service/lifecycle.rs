//! Lifecycle methods: stateless functions of their request, and the ledger's methods, which keep state.

pub(in crate::service) mod known;

use std::sync::Arc;

use berth_engine::lifecycle::evaluation::evaluate_pod;
use berth_engine::{Cluster, ModelError};
use berth_proto::Time;
use berth_proto::berth_v1 as wire;
use prost::Message;

use crate::auth::{Means, Role};
use crate::clock;
use crate::ledger::{self, ForceRight, GrantError, Grants};
use crate::service::witness::ClusterWitness;
use crate::service::{CallContext, CallError, ForceDeletion, State};

/// Largest request in bytes that is handled on the reactor.
pub(crate) const MAX_INLINE_BYTES: usize = 64 << 10;
/// Identity event that releases a name whose process may still be running.
const FORCE_DELETED: &str = "ForceDeletedByUser";
/// Fence event that breaks an attachment which is not in the ledger.
const BREAK_ATTACHMENT: &str = "BreakAttachment";

/// Calls a stateless function with the request. A question about a pod is completed from the cluster first.
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
    let mut question = question;
    let taken = known::complete(&mut question, &state.cluster)?;
    let answer = if question.encoded_len() <= MAX_INLINE_BYTES {
        function(&question)
    } else {
        state.pool.run(call.deadline, move |_| function(&question)).await?
    };
    let mut answer = answer?;
    known::tell(&mut answer, taken);
    Ok(answer)
}

/// Evaluates a pod of a stream. What the request lacks is taken from the server: the time from its clock, the pod's
/// node from its cluster.
pub(crate) fn evaluate(
    cluster: &Cluster,
    mut request: wire::EvaluatePodsRequest,
) -> wire::EvaluatePodsResponse {
    request.now.get_or_insert_with(|| Time::from_unix_seconds(clock::unix_seconds()));
    known::evaluated(request, cluster, evaluate_pod)
}

/// Calls the ledger, which may wait for the disk. A change that has begun is completed even if the caller goes away.
///
/// # Errors
/// A bad field of the request, a ledger that refuses or cannot be written.
pub(crate) async fn keep<Question, Answer>(
    state: &State,
    call: &CallContext,
    question: Question,
    method: LedgerMethod<Question, Answer>,
) -> Result<Answer, CallError>
where
    Question: Send + 'static,
    Answer: Send + 'static,
{
    keep_then(state, call, question, method, ForceRight::Own, |_| ()).await
}

/// A method of the ledger.
pub(crate) type LedgerMethod<Question, Answer> =
    fn(&Grants, &Question, &ledger::Call<'_>) -> Result<Answer, GrantError>;

/// Calls the ledger like [`keep`]. `then` runs after the call, whatever its outcome.
async fn keep_then<Question, Answer>(
    state: &State,
    call: &CallContext,
    question: Question,
    method: LedgerMethod<Question, Answer>,
    force: ForceRight,
    then: impl FnOnce(&Question) + Send + 'static,
) -> Result<Answer, CallError>
where
    Question: Send + 'static,
    Answer: Send + 'static,
{
    let grants = state.grants.clone();
    let user = call.access.caller().user.clone();
    let witness = ClusterWitness::new(state);
    let answer = state
        .ledger_pool
        .run(call.deadline, move |_| {
            let now = clock::unix_seconds();
            let by = ledger::Call { user: &user, now, witness: &witness, force };
            let answer = method(&grants, &question, &by);
            then(&question);
            answer
        })
        .await?;
    Ok(answer?)
}

/// Records what happened to the holder of an identity.
///
/// # Errors
/// The errors of [`keep`], and a forced release that the policy does not allow the caller (L-GRANT-5).
pub(crate) async fn record_identity_event(
    state: &Arc<State>,
    call: &CallContext,
    request: wire::RecordIdentityEventRequest,
) -> Result<wire::RecordIdentityEventResponse, CallError> {
    let caller = call.access.caller();
    let is_admin = caller.roles.allow(Role::Admin);
    // A user that nothing authenticates is everybody.
    let may_own = state.force_deletion == ForceDeletion::Owner && caller.means != Means::Nothing;
    if request.r#type == FORCE_DELETED && !may_own {
        caller.check(Role::Admin)?;
    }
    let force = if is_admin { ForceRight::All } else { ForceRight::Own };
    keep_then(state, call, request, Grants::record_identity_event, force, |_| ()).await
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
    if request.r#type == BREAK_ATTACHMENT {
        call.access.caller().check(Role::Admin)?;
    }
    let (fences, grants, cluster) =
        (state.fences.clone(), state.grants.clone(), state.cluster.clone());
    // Also after an error: a change whose outcome is unknown may have happened.
    let follow = move |request: &wire::AdvanceFenceRequest| {
        fences.follow(&grants, &cluster, &request.node_name);
    };
    keep_then(state, call, request, Grants::advance_fence, ForceRight::Own, follow).await
}
