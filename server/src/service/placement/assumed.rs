//! Calls about assumed pods: `Confirm`, `Extend`, `Release` and `ListAssumed`.

use std::sync::Arc;

use berth_engine::PodKey;
use berth_proto::berth_v1::{
    self as wire, ConfirmRequest, ConfirmResponse, ExtendRequest, ExtendResponse,
    ListAssumedRequest, ListAssumedResponse, ReleaseRequest, ReleaseResponse,
};

use crate::clock;
use crate::service::assumptions::error::AssumptionError;
use crate::service::assumptions::{Listed, ListedHold, Named, Renewed, assumption};
use crate::service::cluster::page;
use crate::service::{CallContext, CallError, Cancel, State, convert};

/// Keeps an assumed pod without a time to live.
///
/// # Errors
/// A bad field, an assumption that is over or has another token.
pub(crate) async fn confirm(
    state: &Arc<State>,
    call: CallContext,
    request: ConfirmRequest,
) -> Result<ConfirmResponse, CallError> {
    let named = named(request.pod, request.token)?;
    state.freshness.check_restored()?;
    state.check_commits_here()?;
    let shared = state.clone();
    let job = move |_: &Cancel| shared.assumptions.confirm(&named);
    let renewed = state.pool.run(call.deadline, job).await?;
    let (node, is_assumed) = written(state, renewed).await?;
    Ok(ConfirmResponse { node_name: node.to_string(), assumed: is_assumed })
}

/// Gives an assumed pod a new time to live.
///
/// # Errors
/// A bad field, an assumption that is over or has another token.
pub(crate) async fn extend(
    state: &Arc<State>,
    call: CallContext,
    request: ExtendRequest,
) -> Result<ExtendResponse, CallError> {
    let ttl = state.assumptions.ttl("ttl_ms", request.ttl_ms)?;
    let named = named(request.pod, request.token)?;
    state.freshness.check_restored()?;
    state.check_commits_here()?;
    let shared = state.clone();
    let job = move |_: &Cancel| shared.assumptions.extend(&named, ttl, clock::now());
    let renewed = state.pool.run(call.deadline, job).await?;
    let (node, is_assumed) = written(state, renewed).await?;
    let assumption = is_assumed.then(|| assumption(request.token, ttl));
    Ok(ExtendResponse { node_name: node.to_string(), assumption })
}

/// Node of a changed assumption and whether it is still one, once that is written; also why it is not changed.
async fn written(
    state: &State,
    renewed: Result<Renewed, AssumptionError>,
) -> Result<(Arc<str>, bool), CallError> {
    match renewed {
        Ok(Renewed { node, is_assumed, written }) => written.await.map(|()| (node, is_assumed)),
        Err(error) => {
            state.assumptions.settled().await?;
            Err(error.into())
        }
    }
}

/// Ends an assumption, or withdraws a nomination.
///
/// # Errors
/// A bad field, an assumption of another token, a pod of another uid, a pod that a feed has reported.
pub(crate) async fn release(
    state: &Arc<State>,
    call: CallContext,
    request: ReleaseRequest,
) -> Result<ReleaseResponse, CallError> {
    let ReleaseRequest { pod, token, nomination: withdraws } = request;
    if withdraws && token != 0 {
        return Err(CallError::field("token", "must be 0 with `nomination`, which has none"));
    }
    let named = match withdraws {
        true => pod_of(pod).map(|(key, uid)| Named { key, uid, token: 0 })?,
        false => named(pod, token)?,
    };
    state.freshness.check_restored()?;
    state.check_commits_here()?;
    let shared = state.clone();
    let job = move |_: &Cancel| match withdraws {
        true => shared.assumptions.withdraw(named.key, named.uid),
        false => shared.assumptions.release(&named),
    };
    match state.pool.run(call.deadline, job).await? {
        Ok((released, written)) => written.await.map(|()| ReleaseResponse { released }),
        Err(error) => {
            state.assumptions.settled().await?;
            Err(error.into())
        }
    }
}

/// One page of assumed pods.
///
/// # Errors
/// A bad page token, a caller that is gone, reservations that are still to be restored.
pub(crate) async fn list(
    state: &Arc<State>,
    call: CallContext,
    request: ListAssumedRequest,
) -> Result<ListAssumedResponse, CallError> {
    state.freshness.check_restored()?;
    let shared = state.clone();
    state.pool.run(call.deadline, move |_| list_now(&shared, &request)).await?
}

fn list_now(state: &State, request: &ListAssumedRequest) -> Result<ListAssumedResponse, CallError> {
    let after = page::parse_pod_token(&request.page_token)?;
    let size = page::size(request.page_size);
    let mut matching = state
        .assumptions
        .list(clock::now())
        .into_iter()
        .skip_while(|listed| after.as_ref().is_some_and(|after| listed.key() <= after))
        .filter(|listed| {
            request.namespace.is_empty() || *listed.key().namespace == *request.namespace
        })
        .filter(|listed| {
            request.node_name.is_empty() || *listed.standing.node == *request.node_name
        });
    let page: Vec<Listed> = matching.by_ref().take(size).collect();
    let next_page_token = match (matching.next(), page.last()) {
        (Some(_), Some(last)) => page::token(&last.key().to_string()),
        (Some(_) | None, _) => String::new(),
    };
    let pods = page.into_iter().map(assumed_pod).collect();
    Ok(ListAssumedResponse { pods, next_page_token })
}

fn assumed_pod(listed: Listed) -> wire::AssumedPod {
    let Listed { standing, held } = listed;
    let pod = Some(convert::pod_key(standing.pod.key(), standing.pod.uid()));
    let node_name = standing.node.to_string();
    match held {
        None => wire::AssumedPod { pod, node_name, ..wire::AssumedPod::default() },
        Some(ListedHold { assumption, user, age }) => wire::AssumedPod {
            pod,
            node_name,
            assumption: Some(assumption),
            age_ms: Some(clock::as_millis(age)),
            user: user.to_string(),
        },
    }
}

impl Listed {
    fn key(&self) -> &PodKey {
        self.standing.pod.key()
    }
}

/// The assumption that a request names.
fn named(pod: Option<wire::PodKey>, token: u64) -> Result<Named, CallError> {
    let (key, uid) = pod_of(pod)?;
    if token == 0 {
        return Err(CallError::field("token", "must be that of the assumption"));
    }
    Ok(Named { key, uid, token })
}

/// The pod of a request, with its uid, which is empty for any.
fn pod_of(pod: Option<wire::PodKey>) -> Result<(PodKey, String), CallError> {
    let pod = pod.ok_or_else(|| CallError::field("pod", "must be set"))?;
    if pod.name.is_empty() {
        return Err(CallError::field("pod.name", "must not be empty"));
    }
    let namespace = if pod.namespace.is_empty() { "default" } else { &pod.namespace };
    Ok((PodKey::new(namespace, &pod.name), pod.uid))
}
