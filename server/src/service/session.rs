//! What-if sessions: a fork of the live cluster that one user changes, queries and commits.

mod elsewhere;

use std::sync::Arc;

use berth_engine::Committed;
use berth_proto::berth_v1::{
    SessionServiceApplyRequest, SessionServiceApplyResponse, SessionServiceCloseRequest,
    SessionServiceCloseResponse, SessionServiceCommitRequest, SessionServiceCommitResponse,
    SessionServiceOpenResponse,
};

use prost::Message;

use super::cluster::delta;
use super::session_table::InUse;
use crate::clock;
use crate::service::admission::{self, AdmittedChanges};
use crate::service::convert::saturate;
use crate::service::{
    Access, AssumeTerms, CallContext, CallError, Cancel, Guarded, Held, State, Undelivered,
};

/// Opens a session.
///
/// # Errors
/// A cluster that is not ready, a server that drains, too many sessions.
pub(crate) async fn open(
    state: &Arc<State>,
    call: CallContext,
) -> Result<SessionServiceOpenResponse, CallError> {
    state.check_decidable()?;
    state.check_not_draining()?;
    // The fork waits for writes to the live cluster, so it is never made on the reactor.
    let shared = state.clone();
    let CallContext { access, deadline, .. } = call;
    state.pool.run(deadline, move |_| fork(&shared, &access)).await?
}

fn fork(state: &State, access: &Access) -> Result<SessionServiceOpenResponse, CallError> {
    let mut generation = 0;
    let session_id = state.sessions.open(clock::now(), &access.caller().user, || {
        let fork = state.cluster.fork();
        generation = fork.snapshot().generation().get();
        fork
    })?;
    let limits = state.sessions.limits();
    Ok(SessionServiceOpenResponse {
        session_id,
        generation,
        idle_timeout_ms: clock::as_millis(limits.idle_timeout),
        max_changes: limits.max_changes as u64,
    })
}

/// Applies changes to a session. Refused changes do not count towards its limit.
///
/// # Errors
/// An unknown session, one that would hold too many changes, a caller that is gone.
pub(crate) async fn apply(
    state: &Arc<State>,
    call: CallContext,
    request: SessionServiceApplyRequest,
) -> Result<SessionServiceApplyResponse, CallError> {
    let SessionServiceApplyRequest { session_id, mut deltas, keep_existing, admit } = request;
    let session = find(state, &call.access, &session_id)?;
    let apply = move |cancel: &Cancel| {
        let n_deltas = deltas.len();
        session.reserve(n_deltas)?;
        let n_bytes = deltas.iter().map(Message::encoded_len).sum();
        session.hold(n_bytes).inspect_err(|_| session.release(n_deltas))?;
        let AdmittedChanges { refused, admissions } = if admit {
            admission::admit_changes(&session.cluster().snapshot(), &mut deltas)
        } else {
            AdmittedChanges::default()
        };
        let mut compiled = delta::compile_while_wanted(session.cluster(), deltas, cancel)
            .inspect_err(|_| session.release(n_deltas))?;
        for (index, error) in refused {
            if let Some(compiled) = compiled.get_mut(index) {
                *compiled = Err(error);
            }
        }
        let (outcome, n_skipped) = if keep_existing {
            delta::apply_missing(session.cluster(), compiled)
        } else {
            (delta::apply_compiled(session.cluster(), compiled), 0)
        };
        session.release((outcome.rejections.len() + n_skipped).min(n_deltas));
        Ok::<_, CallError>((outcome, admissions))
    };
    let (applied, admissions) = state.pool.run(call.deadline, apply).await??;
    Ok(SessionServiceApplyResponse {
        generation: applied.generation.get(),
        rejections: applied.rejections,
        admissions,
    })
}

/// Commits a session to the live cluster, whole or not at all. Where another replica decides, it carries out what the
/// session has decided.
///
/// # Errors
/// An unknown session, a server that drains, [`CallError::NotCommitted`]; [`CallError::AtCommitter`] and
/// [`CallError::NotCommitter`] where another replica decides.
pub(crate) async fn commit(
    state: &Arc<State>,
    call: CallContext,
    request: SessionServiceCommitRequest,
) -> Result<SessionServiceCommitResponse, CallError> {
    let session = find(state, &call.access, &request.session_id)?;
    let terms = AssumeTerms::of_commit(state, &call.access, request.assume_ttl_ms)?;
    state.check_not_draining()?;
    if !state.assumptions.are_made_here() {
        return elsewhere::commit(state, &call, session, request).await;
    }
    let shared = state.clone();
    let commit = move |_: &Cancel| {
        let _busy = shared.long_write();
        let committed = shared.cluster.commit(session.cluster());
        shared.metrics.sessions().count_commit(committed.is_ok());
        let committed = committed.map_err(CallError::NotCommitted)?;
        Ok::<_, CallError>(answer(&shared, &terms, committed))
    };
    let (response, undelivered) = state.pool.run(call.deadline, commit).await??;
    // Assumptions that are not written are given back. The session stays committed: it cannot be committed again.
    let undelivered = Undelivered::written(undelivered).await?;
    call.delivery.hold(undelivered);
    Ok(response)
}

/// Records the assumptions of a commit, whose time begins now.
fn answer(
    state: &Arc<State>,
    terms: &AssumeTerms,
    committed: Committed,
) -> Guarded<SessionServiceCommitResponse> {
    let mut held = Held::of_commit(state, terms, &committed, clock::now());
    let response = SessionServiceCommitResponse {
        generation: committed.generation.get(),
        n_assumed_pods: saturate(committed.n_assumed),
        n_nominated_pods: saturate(committed.nominated.len()),
        nominated_pods: Held::nominated(&committed),
        assumed_pods: held.tell_commit(committed.assumed),
    };
    (response, held.undelivered)
}

/// Closes a session.
///
/// # Errors
/// An unknown session.
pub(crate) fn close(
    state: &State,
    call: &CallContext,
    request: &SessionServiceCloseRequest,
) -> Result<SessionServiceCloseResponse, CallError> {
    check_id(&request.session_id)?;
    state.sessions.close(&request.session_id, call.access.caller(), clock::now())?;
    Ok(SessionServiceCloseResponse {})
}

/// The session that a request names.
fn find(state: &State, access: &Access, session_id: &str) -> Result<InUse, CallError> {
    check_id(session_id)?;
    state.sessions.get(session_id, access.caller(), clock::now())
}

/// Checks that the id is not empty, which elsewhere means the live cluster.
fn check_id(session_id: &str) -> Result<(), CallError> {
    if session_id.is_empty() {
        return Err(CallError::field("session_id", "must be set"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Profiles;
    use crate::service::{Limits, fixture};
    use berth_engine::{Cluster, ObjectKind, TieBreak};
    use berth_proto::berth_v1::{Delta, delta::Change};
    use tokio::sync::watch;

    /// With `keep_existing` a claim that is there stays, a new one is added, and only that counts as a change.
    #[tokio::test]
    async fn existing_objects_can_be_kept() {
        let state = fixture::state(&[("n0", "4")]);
        let session_id = open(&state, CallContext::open()).await.unwrap().session_id;
        let claim = |name: &str, volume: &str| {
            let json = format!(
                r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"volumeName": "{volume}"}}}}"#
            );
            let claim = serde_json::from_str(&json).unwrap();
            Delta { change: Some(Change::UpsertPersistentVolumeClaim(claim)) }
        };
        let apply = async |deltas, keep_existing| {
            let session_id = session_id.clone();
            let request =
                SessionServiceApplyRequest { session_id, deltas, keep_existing, admit: false };
            apply(&state, CallContext::open(), request).await.unwrap()
        };
        let first = apply(vec![claim("a", "v1")], false).await;
        let kept = apply(vec![claim("a", "v2")], true).await;
        assert_eq!((kept.generation, kept.rejections.len()), (first.generation, 0));
        let added = apply(vec![claim("a", "v2"), claim("B", ""), claim("b", "")], true).await;
        assert_eq!(added.rejections[0].index, 1);
        assert!(added.generation > first.generation);
        let session = find(&state, &Access::open(), &session_id).unwrap();
        let n_claims = session.cluster().snapshot().n_objects(ObjectKind::PersistentVolumeClaim);
        assert_eq!(n_claims, 2);
    }

    /// With `admit` a pod has the priority of its class, and a pod that an API server would refuse is rejected.
    #[tokio::test]
    async fn pods_can_be_admitted() {
        let state = fixture::state(&[("n0", "4")]);
        let session_id = open(&state, CallContext::open()).await.unwrap().session_id;
        let class = serde_json::from_str(r#"{"metadata": {"name": "high"}, "value": 9}"#).unwrap();
        let of_class = |name: &str, class: &str| {
            let mut pod = fixture::pod(name, "1", 0);
            pod.spec.as_mut().unwrap().priority = None;
            class.clone_into(&mut pod.spec.as_mut().unwrap().priority_class_name);
            Delta { change: Some(Change::UpsertPod(pod)) }
        };
        let apply = async |deltas, admit| {
            let session_id = session_id.clone();
            let keep_existing = false;
            let request = SessionServiceApplyRequest { session_id, deltas, keep_existing, admit };
            apply(&state, CallContext::open(), request).await.unwrap()
        };
        apply(vec![Delta { change: Some(Change::UpsertPriorityClass(class)) }], true).await;
        let deltas = vec![of_class("a", "high"), of_class("b", "gone"), of_class("c", "high")];
        let admitted = apply(deltas.clone(), true).await;
        let [rejection] = &admitted.rejections[..] else { panic!("{:?}", admitted.rejections) };
        assert_eq!((rejection.index, &*rejection.field), (1, "spec.priorityClassName"));
        let of: Vec<u32> = admitted.admissions.iter().map(|it| it.index).collect();
        assert_eq!(of, [0, 2]);
        let filled = &admitted.admissions[0].admitted;
        assert!(filled.iter().any(|it| it.field == "spec.priority" && it.value == "9"));
        assert_eq!(apply(deltas, false).await.admissions, []);
    }

    #[tokio::test]
    async fn nothing_is_begun_while_the_server_drains() {
        let (drain, draining) = watch::channel(false);
        let cluster = Arc::new(Cluster::new());
        let (profiles, ties) = (Profiles::default(), TieBreak::Lexicographic);
        let state = Arc::new(State::new(cluster, profiles, ties, Limits::default(), draining));
        state.freshness.note_applied();
        let call = CallContext::open;
        let session_id = open(&state, call()).await.unwrap().session_id;
        drain.send_replace(true);
        assert_eq!(open(&state, call()).await.unwrap_err(), CallError::Draining);
        let request =
            SessionServiceCommitRequest { session_id: session_id.clone(), assume_ttl_ms: None };
        assert_eq!(commit(&state, call(), request).await.unwrap_err(), CallError::Draining);
        // Calls under way are finished.
        let request = SessionServiceApplyRequest { session_id, ..Default::default() };
        assert!(apply(&state, call(), request).await.is_ok());
    }
}
