//! Commit of a session whose replica does not decide: what the session has decided goes to the replica that does, which
//! checks all of it on its newest snapshot and carries it out as a whole.
//!
//! The request to it has the session's id as its name. So a commit whose response is lost can be repeated: it is carried
//! out once, also if yet another replica decides by then.

use std::sync::Arc;

use berth_engine::{Planned, Pod};
use berth_proto::berth_v1::reserve_entry::Decision;
use berth_proto::berth_v1::{
    ReserveEntry, ReserveRequest, ReservedPod, SessionServiceCommitRequest,
    SessionServiceCommitResponse,
};

use crate::service::convert::{self, saturate};
use crate::service::decider::Decider;
use crate::service::session_table::InUse;
use crate::service::{CallContext, CallError, Cancel, State};

/// A commit that is under way. Dropped before it is carried out, the session counts as not committed.
struct Begun {
    session: InUse,
    is_carried_out: bool,
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.is_carried_out {
            self.session.cluster().abandon_commit();
        }
    }
}

/// Has a session committed by the replica that decides.
///
/// # Errors
/// [`CallError::NotCommitted`], [`CallError::AtCommitter`], [`CallError::NotCommitter`], a caller that is gone.
pub(super) async fn commit(
    state: &Arc<State>,
    call: &CallContext,
    session: InUse,
    request: SessionServiceCommitRequest,
) -> Result<SessionServiceCommitResponse, CallError> {
    let SessionServiceCommitRequest { session_id, assume_ttl_ms } = request;
    let shared = state.clone();
    let begin = move |_: &Cancel| {
        let planned = shared.cluster.begin_commit(session.cluster());
        let planned = planned.map_err(CallError::NotCommitted)?;
        let begun = Begun { session, is_carried_out: false };
        let entries = planned.iter().map(entry).collect::<Option<_>>().ok_or(CallError::Broken)?;
        Ok::<_, CallError>((begun, entries))
    };
    let (mut begun, entries) = state.pool.run(call.deadline, begin).await??;
    let (access, deadline, request_id) = (&call.access, call.deadline, Some(&*session_id));
    let decider = Decider { state, access, deadline, request_id };
    let request = ReserveRequest { entries, assume_ttl_ms };
    let (response, revision) = decider.reserve(request).await?;
    begun.is_carried_out = true;
    state.metrics.sessions().count_commit(true);
    if let Some(replicas) = &state.replicas {
        // Then this replica has counted the pods, too, and tells a generation of its own.
        replicas.await_applied(revision).await;
    }
    Ok(SessionServiceCommitResponse {
        generation: state.cluster.snapshot().generation().get(),
        n_assumed_pods: saturate(response.assumed_pods.len()),
        n_nominated_pods: response.n_nominated_pods,
        assumed_pods: response.assumed_pods,
    })
}

/// A decision in wire form; `None` for a pod without its object.
fn entry(planned: &Planned) -> Option<ReserveEntry> {
    let reserved = |pod: &Pod, node: &Arc<str>| {
        let mut pod = pod.object()?;
        if let Some(spec) = &mut pod.spec {
            spec.node_name.clear();
        }
        Some(ReservedPod { pod: Some(pod), node_name: node.to_string() })
    };
    let decision = match planned {
        Planned::Assume { pod, node } => Decision::Assume(reserved(pod, node)?),
        Planned::Nominate { pod, node } => Decision::Nominate(reserved(pod, node)?),
        Planned::Clear { pod } => Decision::ClearNomination(convert::pod_key(pod, "")),
    };
    Some(ReserveEntry { decision: Some(decision) })
}
