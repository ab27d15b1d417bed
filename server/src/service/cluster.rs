//! The cluster as Berth knows it, and the changes that clients send.

pub(crate) mod delta;
mod list;
pub(in crate::service) mod page;

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_engine::{ObjectKind, Snapshot};
use berth_proto::berth_v1::{
    ApplyRequest, ApplyResponse, GetClusterRequest, GetClusterResponse, ListNodesRequest,
    ListNodesResponse, ListPodsRequest, ListPodsResponse,
};

use crate::auth::Role;
use crate::clock;
use crate::service::convert::saturate;
use crate::service::{CallContext, CallError, State};

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
    let snapshot = target.snapshot();
    Ok(GetClusterResponse {
        generation: snapshot.generation().get(),
        n_nodes: saturate(snapshot.n_nodes()),
        n_pods: saturate(snapshot.n_pods()),
        n_assumed_pods: saturate(snapshot.n_assumed()),
        n_pending_pods: saturate(snapshot.n_pending()),
        n_orphaned_pods: saturate(snapshot.n_orphaned()),
        n_shapes: saturate(state.cluster.n_shapes()),
        staleness_ms: state.freshness.staleness().map(clock::as_millis),
        n_contradictions: snapshot.n_contradictions(),
        n_objects: n_objects(&snapshot),
    })
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
    state
        .pool
        .run(call.deadline, move |cancel| list::pods(&target.snapshot(), &request, cancel))
        .await?
}

/// Numbers of objects by kind name, for kinds that have any.
fn n_objects(snapshot: &Snapshot) -> BTreeMap<String, u32> {
    let counts = ObjectKind::ALL.map(|kind| (kind.name().to_owned(), snapshot.n_objects(kind)));
    counts.into_iter().filter(|(_, n)| *n > 0).map(|(kind, n)| (kind, saturate(n))).collect()
}
