//! The cluster as Berth knows it, and the changes that clients send.

pub(crate) mod delta;
mod list;
pub(crate) mod pending;
pub(in crate::service) mod page;

pub(crate) use list::{nodes as list_nodes_now, pods as list_pods_now};

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{Cluster, ObjectKind, Snapshot};
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, GetClusterRequest, GetClusterResponse, GetPodRequest,
    GetPodResponse, ListNodesRequest, ListNodesResponse, ListPendingRequest, ListPendingResponse,
    ListPodsRequest, ListPodsResponse,
};

use crate::auth::Role;
use crate::clock;
use crate::service::convert::saturate;
use crate::service::lifecycle::known::{take_claims, take_node};
use crate::service::{CallContext, CallError, Cancel, State, named};

/// Applies a batch of changes in one generation.
///
/// # Errors
/// A missing role, a feed that is reading files. Refused changes are listed in the response instead.
pub(crate) async fn apply(
    state: &Arc<State>,
    call: CallContext,
    request: ApplyRequest,
) -> Result<ApplyResponse, CallError> {
    let CallContext { access, deadline, .. } = call;
    let deltas = request.deltas;
    let outcome = if delta::gives_back(&access, &deltas) {
        state.check_commits_here()?;
        access.to_change(Role::Scheduler)?;
        state.check_feedable()?;
        delta::give_back(state, deltas, deadline).await?
    } else {
        access.to_change(Role::Feeder)?;
        state.check_feedable()?;
        delta::apply(state, deltas, deadline).await?
    };
    Ok(ApplyResponse { generation: outcome.generation.get(), rejections: outcome.rejections })
}

/// Sizes, staleness and contradictions of the cluster.
///
/// # Errors
/// An unknown session.
pub(crate) fn get_cluster(
    state: &State,
    call: &CallContext,
    request: &GetClusterRequest,
) -> Result<GetClusterResponse, CallError> {
    let target = state.target(&call.access, &request.session_id)?;
    Ok(described(state, &target))
}

/// Sizes, staleness and contradictions of the live cluster, or of a session's.
pub(crate) fn described(state: &State, cluster: &Cluster) -> GetClusterResponse {
    GetClusterResponse {
        staleness_ms: state.freshness.staleness().map(clock::as_millis),
        scheduler_names: state.profiles.names().map(str::to_owned).collect(),
        decidable: state.check_decidable().is_ok(),
        n_shapes: saturate(state.cluster.n_shapes()),
        ..sizes(cluster)
    }
}

/// The sizes of a cluster.
pub(crate) fn sizes(cluster: &Cluster) -> GetClusterResponse {
    let snapshot = cluster.snapshot();
    GetClusterResponse {
        generation: snapshot.generation().get(),
        n_nodes: saturate(snapshot.n_nodes()),
        n_pods: saturate(snapshot.n_pods()),
        n_assumed_pods: saturate(snapshot.n_assumed()),
        n_pending_pods: saturate(snapshot.n_pending()),
        n_orphaned_pods: saturate(snapshot.n_orphaned()),
        n_shapes: saturate(cluster.n_shapes()),
        n_contradictions: snapshot.n_contradictions(),
        n_objects: n_objects(&snapshot),
        ..GetClusterResponse::default()
    }
}

/// One page of nodes.
///
/// # Errors
/// A bad selector or page token, an unknown session, a caller that is gone.
pub(crate) async fn list_nodes(
    state: &Arc<State>,
    call: CallContext,
    request: ListNodesRequest,
) -> Result<ListNodesResponse, CallError> {
    let target = state.target(&call.access, &request.session_id)?;
    state
        .pool
        .run(call.deadline, move |cancel| list::nodes(&target.snapshot(), &request, cancel))
        .await?
}

/// One page of pods on nodes.
///
/// # Errors
/// A bad page token, an unknown session, a caller that is gone.
pub(crate) async fn list_pods(
    state: &Arc<State>,
    call: CallContext,
    request: ListPodsRequest,
) -> Result<ListPodsResponse, CallError> {
    let target = state.target(&call.access, &request.session_id)?;
    state.pool.run(call.deadline, move |cancel| list::pods(&target, &request, cancel)).await?
}

/// One pod as a feed reported it, with the facts that questions about its life read.
///
/// # Errors
/// An unknown pod or session, a caller that is gone.
pub(crate) async fn get_pod(
    state: &Arc<State>,
    call: CallContext,
    request: GetPodRequest,
) -> Result<GetPodResponse, CallError> {
    let target = state.target(&call.access, &request.session_id)?;
    state.pool.run(call.deadline, move |_| get_pod_now(&target, &request)).await?
}

pub(crate) fn get_pod_now(
    cluster: &Cluster,
    request: &GetPodRequest,
) -> Result<GetPodResponse, CallError> {
    let key = request.key.as_ref().ok_or_else(|| CallError::field("key", "must be set"))?;
    let named::Known { pod, is_assumed, .. } = named::known(cluster, key)?;
    let snapshot = cluster.snapshot();
    let (mut node, mut claims) = (None, Vec::new());
    take_node(&mut node, &pod, &snapshot);
    take_claims(&mut claims, &pod, &snapshot);
    let budgets = snapshot.budgets_over(&pod)?;
    let generation = snapshot.generation().get();
    Ok(GetPodResponse { pod: Some(pod), assumed: is_assumed, node, claims, budgets, generation })
}

/// The pods that wait for a node, by cause.
///
/// # Errors
/// A cluster that is not ready, an unknown session, a caller that is gone.
pub(crate) async fn list_pending(
    state: &Arc<State>,
    call: CallContext,
    request: ListPendingRequest,
) -> Result<ListPendingResponse, CallError> {
    state.check_decidable()?;
    let target = state.target(&call.access, &request.session_id)?;
    let shared = state.clone();
    let list = move |cancel: &Cancel| {
        pending::list(&target, &shared.profiles, shared.tie_break, &request, &|| {
            cancel.is_cancelled()
        })
    };
    state.simulation_pool.run(call.deadline, list).await?
}

/// Numbers of objects by kind name, for kinds that have any.
fn n_objects(snapshot: &Snapshot) -> BTreeMap<String, u32> {
    let counts = ObjectKind::ALL.map(|kind| (kind.name().to_owned(), snapshot.n_objects(kind)));
    counts.into_iter().filter(|(_, n)| *n > 0).map(|(kind, n)| (kind, saturate(n))).collect()
}
