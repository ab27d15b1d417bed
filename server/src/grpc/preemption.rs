//! `berth.v1.PreemptionService`: whom would it displace?

use std::sync::Arc;

use berth_engine::{Nomination, Pod, PostFilter, PreemptRequest as Request, Preemption};
use berth_proto::berth_v1::preemption_service_server::PreemptionService;
use berth_proto::berth_v1::{
    ListCandidatesRequest, ListCandidatesResponse, PreemptRequest, PreemptResponse,
};
use tonic::{Response, Status};

use super::State;
use super::asked::Asked;
use super::convert;
use super::deadline::{Cancel, Deadline};
use super::status::CallError;
use crate::auth::{Access, Role};
use crate::clock;
use crate::telemetry::PlaceMethod;

pub(crate) struct PreemptionHandler {
    state: Arc<State>,
}

impl PreemptionHandler {
    pub(crate) fn new(state: Arc<State>) -> PreemptionHandler {
        PreemptionHandler { state }
    }
}

#[tonic::async_trait]
impl PreemptionService for PreemptionHandler {
    async fn preempt(
        &self,
        request: tonic::Request<PreemptRequest>,
    ) -> Result<Response<PreemptResponse>, Status> {
        self.state.check_decidable()?;
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let access = Access::of(request.extensions());
        let request = request.into_inner();
        let asked = state.asked_by(&access, &request.session_id)?;
        if request.nominate && !asked.is_hypothetical() {
            access.to_change(Role::Scheduler)?;
        }
        let answer = self
            .state
            .pool
            .run(deadline, move |cancel| preempt(&state, &asked, request, cancel))
            .await??;
        Ok(Response::new(answer))
    }

    async fn list_candidates(
        &self,
        request: tonic::Request<ListCandidatesRequest>,
    ) -> Result<Response<ListCandidatesResponse>, Status> {
        self.state.check_decidable()?;
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let access = Access::of(request.extensions());
        let request = request.into_inner();
        let asked = state.asked_by(&access, &request.session_id)?;
        let answer = self
            .state
            .pool
            .run(deadline, move |cancel| list_candidates(&state, &asked, request, cancel))
            .await??;
        Ok(Response::new(answer))
    }
}

fn preempt(
    state: &State,
    asked: &Asked,
    request: PreemptRequest,
    cancel: &Cancel,
) -> Result<PreemptResponse, CallError> {
    let PreemptRequest { pod, tie_break, options, nominate: nominates, session_id: _ } = request;
    let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
    let options = convert::preempt_options(options.as_ref(), "options")?;
    let (pod, policy) = convert::pod_to_place(&state.cluster, &state.profiles, pod.as_ref())
        .inspect_err(|_| state.metrics.count_refused(1))?;
    let started = clock::now();
    let cancelled = || cancel.is_cancelled();
    let attempt =
        asked.preempt(&Request { pod: &pod, policy, tie_break, options, cancelled: &cancelled });
    state.metrics.record_place_duration(PlaceMethod::Preempt, clock::now() - started);
    count(state, asked, attempt.as_ref());
    let attempt = attempt.map_err(CallError::undecided)?;
    let generation = match &attempt.post_filter {
        Some(post_filter) if nominates => nominate(asked, &pod, post_filter, cancel)?,
        Some(_) | None => None,
    };
    let answer = convert::preemption(attempt);
    Ok(PreemptResponse { nomination_generation: generation, ..answer })
}

/// Carries out what the attempt says of nominations, unless nobody waits for the answer any more.
fn nominate(
    asked: &Asked,
    pod: &Pod,
    post_filter: &PostFilter,
    cancel: &Cancel,
) -> Result<Option<u64>, CallError> {
    let n_changes = usize::from(post_filter.nomination != Nomination::Unchanged)
        + post_filter.cleared_nominations.len();
    if n_changes == 0 {
        return Ok(None);
    }
    if cancel.is_cancelled() {
        return Err(CallError::DeadlineExceeded);
    }
    asked.reserve(n_changes)?;
    match asked.nominate(pod, post_filter) {
        Ok(generation) => Ok(Some(generation.get())),
        Err(error) => {
            asked.release(n_changes);
            Err(error.into())
        }
    }
}

fn list_candidates(
    state: &State,
    asked: &Asked,
    request: ListCandidatesRequest,
    cancel: &Cancel,
) -> Result<ListCandidatesResponse, CallError> {
    let ListCandidatesRequest { pod, tie_break, options, session_id: _ } = request;
    let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
    let options = convert::preempt_options(options.as_ref(), "options")?;
    let (pod, policy) = convert::pod_to_place(&state.cluster, &state.profiles, pod.as_ref())
        .inspect_err(|_| state.metrics.count_refused(1))?;
    let started = clock::now();
    let cancelled = || cancel.is_cancelled();
    let list = asked.list_candidates(&Request {
        pod: &pod,
        policy,
        tie_break,
        options,
        cancelled: &cancelled,
    });
    state.metrics.record_place_duration(PlaceMethod::ListCandidates, clock::now() - started);
    count(state, asked, list.as_ref().map(|list| &list.preemption));
    Ok(convert::candidate_list(list.map_err(CallError::undecided)?))
}

fn count(state: &State, asked: &Asked, attempt: Result<&Preemption, &berth_engine::EngineError>) {
    let decided = attempt.map(|attempt| &attempt.decision);
    state.metrics.count_decision(decided, asked.is_hypothetical());
    if let Ok(Preemption { post_filter: Some(post_filter), .. }) = attempt {
        state.metrics.count_preemption(post_filter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::deadline::CancelOnDrop;
    use crate::grpc::fixture;
    use berth_proto::berth_v1::{PreemptOptions, VictimPlacement};

    /// A search for which nobody waits is given up: it is no answer, and promises nothing.
    #[test]
    fn an_attempt_ends_when_its_caller_is_gone() {
        let state = fixture::state(&[("n0", "4")]);
        fixture::run(&state.cluster, &fixture::pod("low", "4", 0), "n0");
        let asked = state.asked("").unwrap();
        let caller = CancelOnDrop::new(Deadline(None));
        let token = caller.token();
        let pod = || Some(fixture::pod("high", "4", 10));
        let victim_placement = VictimPlacement::Prefer.into();
        let options = Some(PreemptOptions { victim_placement, ..PreemptOptions::default() });
        let preempt = |nominate| {
            let default = PreemptRequest::default();
            let request = PreemptRequest { pod: pod(), options, nominate, ..default };
            preempt(&state, &asked, request, &token)
        };
        let list = || {
            let request =
                ListCandidatesRequest { pod: pod(), options, ..ListCandidatesRequest::default() };
            list_candidates(&state, &asked, request, &token)
        };
        assert!(preempt(false).unwrap().post_filter.unwrap().chosen.is_some());
        assert_eq!(list().unwrap().candidates.len(), 1);
        drop(caller);
        for nominate in [false, true] {
            assert_eq!(preempt(nominate).unwrap_err(), CallError::DeadlineExceeded);
        }
        assert_eq!(list().unwrap_err(), CallError::DeadlineExceeded);
        assert_eq!(state.cluster.snapshot().n_pending(), 0);
    }
}
