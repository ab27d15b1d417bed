//! Commit of a session whose replica does not decide: what the session has decided goes to the replica that does, which
//! checks all of it on its newest snapshot and carries it out as a whole.
//!
//! The request to it has the session's id as its name. So a commit whose response is lost can be repeated: it is carried
//! out once, also if yet another replica decides by then.

use std::sync::Arc;
use std::time::Duration;

use berth_engine::{Planned, Pod};
use berth_proto::berth_v1::reserve_entry::Decision;
use berth_proto::berth_v1::{
    ReserveEntry, ReserveRequest, ReserveResponse, ReservedPod, SessionServiceCommitRequest,
    SessionServiceCommitResponse,
};
use tokio::sync::oneshot;

use crate::clock;
use crate::ledger::Revision;
use crate::service::convert::{self, saturate};
use crate::service::decider::Decider;
use crate::service::session_table::InUse;
use crate::service::{
    Access, CallContext, CallError, Cancel, Deadline, Guarded, State, Undelivered, unheard,
};

/// Longest time for which the outcome is asked for of a commit whose caller is gone.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause before it is asked for again.
const PAUSE: Duration = Duration::from_millis(200);

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

/// Has a session committed by the replica that decides. That goes to its end even if the caller is gone, since only the
/// outcome tells what is to be released.
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
    let (begun, entries) = state.pool.run(call.deadline, begin).await??;
    let committing = Committing { state: state.clone(), access: call.access.clone(), session_id };
    let request = ReserveRequest { entries, assume_ttl_ms };
    let (outcome, answered) = oneshot::channel();
    tokio::spawn(async move {
        let committed = committing.commit(begun, request, &outcome).await;
        // Dropped unread, it is released.
        drop(outcome.send(committed));
    });
    // The task sends an outcome unless it panics.
    let (response, undelivered) = answered.await.map_err(|_| CallError::Broken)??;
    call.delivery.hold(undelivered);
    Ok(response)
}

type Outcome = Result<Guarded<SessionServiceCommitResponse>, CallError>;

/// In whose name which session is committed.
struct Committing {
    state: Arc<State>,
    access: Access,
    session_id: String,
}

impl Committing {
    async fn commit(
        self,
        mut begun: Begun,
        request: ReserveRequest,
        caller: &oneshot::Sender<Outcome>,
    ) -> Outcome {
        let (reserved, revision) = self.reserve(request, caller).await?;
        begun.is_carried_out = true;
        let Committing { state, access, .. } = self;
        let ReserveResponse { assumed_pods, nominated_pods, .. } = reserved.clone();
        let unheard = unheard::commit(assumed_pods, nominated_pods);
        let shared = state.clone();
        let undo = move || unheard::release(&shared, &access, unheard);
        let undelivered = Undelivered::elsewhere(undo);
        state.metrics.sessions().count_commit(true);
        if let Some(replicas) = &state.replicas {
            // Then this replica has counted the pods, too, and tells a generation of its own.
            replicas.await_applied(revision).await;
        }
        let response = SessionServiceCommitResponse {
            generation: state.cluster.snapshot().generation().get(),
            n_assumed_pods: saturate(reserved.assumed_pods.len()),
            n_nominated_pods: reserved.n_nominated_pods,
            assumed_pods: reserved.assumed_pods,
            nominated_pods: reserved.nominated_pods,
        };
        Ok((response, Some(undelivered)))
    }

    /// Asks the replica that decides. A caller that waits hears at once that there is no answer, and can ask again. If
    /// nobody waits, nobody else asks again: then this does, to learn what is to be released.
    async fn reserve(
        &self,
        request: ReserveRequest,
        caller: &oneshot::Sender<Outcome>,
    ) -> Result<(ReserveResponse, Revision), CallError> {
        let (deadline, request_id) = (Deadline(None), Some(&*self.session_id));
        let decider = Decider { state: &self.state, access: &self.access, deadline, request_id };
        let until = clock::now() + PATIENCE;
        loop {
            let reserved = decider.reserve(request.clone()).await;
            let is_answered = !matches!(&reserved, Err(CallError::NotCommitter { .. }));
            if is_answered || !caller.is_closed() || clock::now() >= until {
                return reserved;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
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
