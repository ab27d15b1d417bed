//! Preemption: evicts pods of lower priority for a pod that fits nowhere.

use std::sync::Arc;

use berth_engine::{Nomination, Pod, PostFilter, PreemptRequest as Request, Preemption};
use berth_proto::berth_v1::{
    Admission, ListCandidatesRequest, ListCandidatesResponse, PodKey, PreemptRequest,
    PreemptResponse,
};
use berth_proto::core_v1;

use crate::auth::Role;
use crate::clock;
use crate::service::delivery::{AssumeTerms, Guarded, Undelivered};
use crate::service::named::Asked;
use crate::service::{CallContext, CallError, Cancel, State, Target, admission, convert, named};
use crate::telemetry::PlaceMethod;

/// Places a pod, evicting others if it fits nowhere; nominates if the request says so.
///
/// # Errors
/// A bad field, a missing role, a caller that is gone.
pub(crate) async fn preempt(
    state: &Arc<State>,
    call: CallContext,
    request: PreemptRequest,
) -> Result<PreemptResponse, CallError> {
    state.check_decidable()?;
    let target = call.target(state, &request.session_id)?;
    if request.nominate && !target.is_hypothetical() {
        state.check_commits_here()?;
        call.access.to_change(Role::Scheduler)?;
    }
    let terms = AssumeTerms::of_commit(state, &call.access, None)?;
    let shared = state.clone();
    let (response, undelivered) = state
        .pool
        .run(call.deadline, move |cancel| preempt_now(&shared, target, &terms, request, cancel))
        .await??;
    call.delivery.hold(Undelivered::written(undelivered).await?);
    Ok(response)
}

/// Lists every node where evicting pods would help, with its victims.
///
/// # Errors
/// A bad field, a caller that is gone.
pub(crate) async fn list_candidates(
    state: &Arc<State>,
    call: CallContext,
    request: ListCandidatesRequest,
) -> Result<ListCandidatesResponse, CallError> {
    state.check_decidable()?;
    let target = call.target(state, &request.session_id)?;
    let shared = state.clone();
    state
        .pool
        .run(call.deadline, move |cancel| list_candidates_now(&shared, &target, request, cancel))
        .await?
}

/// The pod of a question, admitted if `admit` is set, with what that filled in; a refused one is counted.
///
/// # Errors
/// The errors of [`named::to_place`] and [`admission::admit`].
fn admitted<'t>(
    state: &State,
    target: &'t Target,
    pod: Option<core_v1::Pod>,
    key: Option<&PodKey>,
    admit: bool,
) -> Result<(Asked<'t>, Option<Admission>), CallError> {
    let admitted = named::to_place(target, pod, key).and_then(|mut asked| {
        let admission = admission::admit(target, &state.profiles, Some(&mut asked.pod), admit)?;
        Ok((asked, admission))
    });
    admitted.inspect_err(|_| state.metrics.count_refused(1))
}

fn preempt_now(
    state: &Arc<State>,
    target: Target,
    terms: &AssumeTerms,
    request: PreemptRequest,
    cancel: &Cancel,
) -> Result<Guarded<PreemptResponse>, CallError> {
    let PreemptRequest { pod, key, tie_break, options, nominate: nominates, session_id: _, admit } =
        request;
    let (asked, admission) = admitted(state, &target, pod, key.as_ref(), admit)?;
    let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
    let options = convert::preempt_options(options.as_ref(), "options")?;
    let keeps = nominates && state.assumptions.are_kept();
    let (pod, policy) =
        convert::pod_to_place(&state.cluster, &state.profiles, Some(&asked.pod), keeps)
            .inspect_err(|_| state.metrics.count_refused(1))?;
    let started = clock::now();
    let cancelled = || cancel.is_cancelled();
    let now = Some(clock::unix_seconds());
    let request = Request { pod: &pod, policy, tie_break, options, cancelled: &cancelled, now };
    let attempt = asked.cluster().preempt(&request);
    state.metrics.record_place_duration(PlaceMethod::Preempt, clock::now() - started);
    count(state, &target, attempt.as_ref());
    let attempt = attempt.map_err(CallError::undecided)?;
    let nominated = match &attempt.post_filter {
        Some(post_filter) if nominates => {
            nominate(state, target, terms, (&pod, post_filter), cancel)?
        }
        Some(_) | None => None,
    };
    let (nomination_generation, undelivered) = nominated.unzip();
    let answer = convert::preemption(attempt);
    Ok((PreemptResponse { nomination_generation, admission, ..answer }, undelivered))
}

/// Applies the nominations of an attempt, unless the caller is gone.
fn nominate(
    state: &Arc<State>,
    target: Target,
    terms: &AssumeTerms,
    (pod, post_filter): (&Pod, &PostFilter),
    cancel: &Cancel,
) -> Result<Option<(u64, Undelivered)>, CallError> {
    let n_changes = usize::from(post_filter.nomination != Nomination::Unchanged)
        + post_filter.cleared_nominations.len();
    if n_changes == 0 {
        return Ok(None);
    }
    if cancel.is_cancelled() {
        return Err(CallError::DeadlineExceeded);
    }
    target.reserve(n_changes)?;
    match target.nominate(pod, post_filter) {
        Ok(generation) => {
            let is_nominated = matches!(post_filter.nomination, Nomination::Node(_));
            let nominated = is_nominated.then(|| (pod.key().clone(), Arc::from(pod.uid())));
            let cleared = post_filter.cleared_nominations.iter();
            let changed = cleared.chain([pod.key()]).cloned();
            let changes = Undelivered::of_nominations(state, target, terms, nominated, changed);
            Ok(Some((generation.get(), changes)))
        }
        Err(error) => {
            target.release(n_changes);
            Err(error.into())
        }
    }
}

fn list_candidates_now(
    state: &State,
    target: &Target,
    request: ListCandidatesRequest,
    cancel: &Cancel,
) -> Result<ListCandidatesResponse, CallError> {
    let ListCandidatesRequest { pod, key, tie_break, options, session_id: _, admit } = request;
    let (asked, admission) = admitted(state, target, pod, key.as_ref(), admit)?;
    let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
    let options = convert::preempt_options(options.as_ref(), "options")?;
    let (pod, policy) =
        convert::pod_to_place(&state.cluster, &state.profiles, Some(&asked.pod), false)
            .inspect_err(|_| state.metrics.count_refused(1))?;
    let started = clock::now();
    let cancelled = || cancel.is_cancelled();
    let now = Some(clock::unix_seconds());
    let list = asked.cluster().list_candidates(&Request {
        pod: &pod,
        policy,
        tie_break,
        options,
        cancelled: &cancelled,
        now,
    });
    state.metrics.record_place_duration(PlaceMethod::ListCandidates, clock::now() - started);
    count(state, target, list.as_ref().map(|list| &list.preemption));
    let answer = convert::candidate_list(list.map_err(CallError::undecided)?);
    Ok(ListCandidatesResponse { admission, ..answer })
}

fn count(state: &State, target: &Target, attempt: Result<&Preemption, &berth_engine::EngineError>) {
    let decided = attempt.map(|attempt| &attempt.decision);
    state.metrics.count_decision(decided, target.is_hypothetical());
    if let (Ok(decision), false) = (decided, target.is_hypothetical()) {
        state.watchers.tell(decision);
    }
    if let Ok(Preemption { post_filter: Some(post_filter), .. }) = attempt {
        state.metrics.count_preemption(post_filter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Access;
    use crate::service::CancelOnDrop;
    use crate::service::Deadline;
    use crate::service::fixture;
    use berth_proto::berth_v1::{PreemptOptions, VictimPlacement};

    /// A search whose caller is gone is cancelled: it returns an error, and nominates nothing.
    #[test]
    fn an_attempt_ends_when_its_caller_is_gone() {
        let state = fixture::state(&[("n0", "4")]);
        fixture::run(&state.cluster, &fixture::pod("low", "4", 0), "n0");
        let target = state.target_of("").unwrap();
        let caller = CancelOnDrop::new(Deadline(None));
        let token = caller.token();
        let pod = || Some(fixture::pod("high", "4", 10));
        let victim_placement = VictimPlacement::Prefer.into();
        let options = Some(PreemptOptions { victim_placement, ..PreemptOptions::default() });
        let preempt = |nominate| {
            let default = PreemptRequest::default();
            let request = PreemptRequest { pod: pod(), options, nominate, ..default };
            let target = state.target_of("").unwrap();
            let terms = AssumeTerms::of_commit(&state, &Access::open(), None).unwrap();
            preempt_now(&state, target, &terms, request, &token)
        };
        let list = || {
            let request =
                ListCandidatesRequest { pod: pod(), options, ..ListCandidatesRequest::default() };
            list_candidates_now(&state, &target, request, &token)
        };
        assert!(preempt(false).unwrap().0.post_filter.unwrap().chosen.is_some());
        assert_eq!(list().unwrap().candidates.len(), 1);
        drop(caller);
        for nominate in [false, true] {
            assert_eq!(preempt(nominate).err(), Some(CallError::DeadlineExceeded));
        }
        assert_eq!(list().unwrap_err(), CallError::DeadlineExceeded);
        assert_eq!(state.cluster.snapshot().n_pending(), 0);
    }
}
