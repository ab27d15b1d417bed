//! `berth.v1.PlacementService`: where does this pod go?

mod batch;
pub(crate) mod entries;
pub(crate) mod gang;
mod stream;

use std::sync::Arc;

use berth_engine as engine;
use berth_proto::berth_v1::placement_service_server::PlacementService;
use berth_proto::berth_v1::{
    ExplainRequest, ExplainResponse, NodeVerdict, PlaceBatchRequest, PlaceBatchResponse, PlaceMode,
    PlaceRequest, PlaceResponse, PlaceStreamRequest,
};
use tonic::{Request, Response, Status, Streaming};

use super::State;
use super::asked::Asked;
use super::convert::{self, Mode};
use super::deadline::{Cancel, Deadline};
use super::status::CallError;
use crate::auth::{Access, Role};
use crate::clock;
use crate::telemetry::PlaceMethod;

/// So many verdicts are written before it is looked whether anybody waits for them.
const PATIENCE: usize = 256;

pub(crate) struct PlacementHandler {
    state: Arc<State>,
}

impl PlacementHandler {
    pub(crate) fn new(state: Arc<State>) -> PlacementHandler {
        PlacementHandler { state }
    }
}

#[tonic::async_trait]
impl PlacementService for PlacementHandler {
    type PlaceStreamStream = stream::Answers;

    async fn place(
        &self,
        request: Request<PlaceRequest>,
    ) -> Result<Response<PlaceResponse>, Status> {
        self.state.check_decidable()?;
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let request = request.into_inner();
        let asked = self.state.asked_by(&access, &request.session_id)?;
        check_assume(&access, &asked, request.mode)?;
        // What is assumed in a session waits for the session's own calls, and nobody bounds those.
        let waits = asked.is_hypothetical() && request.mode == PlaceMode::Assume as i32;
        let decided = if !waits && self.state.decides_in_microseconds(&asked) {
            place(&self.state, &asked, &request)
        } else {
            // In a box: as a part of this future it would be moved about with it by calls that never get here, and it holds the
            // request several times, kilobytes each.
            Box::pin(place_in_turn(self.state.clone(), asked, request, deadline)).await
        };
        Ok(Response::new(PlaceResponse { decision: Some(convert::decision(decided?)) }))
    }

    async fn place_batch(
        &self,
        request: Request<PlaceBatchRequest>,
    ) -> Result<Response<PlaceBatchResponse>, Status> {
        self.state.check_decidable()?;
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let access = Access::of(request.extensions());
        let request = request.into_inner();
        let asked = state.asked_by(&access, &request.session_id)?;
        check_assume(&access, &asked, request.mode)?;
        let answer = self
            .state
            .pool
            .run(deadline, move |cancel| match request.gang {
                Some(_) => gang::place_batch(&state, &asked, request, cancel),
                None => batch::place_batch(&state, &asked, request, cancel),
            })
            .await??;
        Ok(Response::new(answer))
    }

    async fn place_stream(
        &self,
        request: Request<Streaming<PlaceStreamRequest>>,
    ) -> Result<Response<Self::PlaceStreamStream>, Status> {
        self.state.check_decidable()?;
        let (access, deadline) = (Access::of(request.extensions()), Deadline::of(&request));
        let requests = request.into_inner();
        Ok(Response::new(stream::serve(self.state.clone(), access, requests, deadline)))
    }

    async fn explain(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        self.state.check_decidable()?;
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let access = Access::of(request.extensions());
        let request = request.into_inner();
        let asked = state.asked_by(&access, &request.session_id)?;
        let account =
            self.state.pool.run(deadline, move |cancel| explain(&state, &asked, &request, cancel));
        Ok(Response::new(account.await??))
    }
}

/// In a session of their own, readers may assume too: others see nothing of it.
fn check_assume(access: &Access, asked: &Asked, mode: i32) -> Result<(), CallError> {
    if mode != PlaceMode::Assume as i32 || asked.is_hypothetical() {
        return Ok(());
    }
    access.to_change(Role::Scheduler)
}

/// As [`place`], on a thread of the pool, once there is one.
async fn place_in_turn(
    state: Arc<State>,
    asked: Asked,
    request: PlaceRequest,
    deadline: Deadline,
) -> Result<engine::Decision, CallError> {
    let shared = state.clone();
    let job = move |cancel: &Cancel| {
        let decided = place(&shared, &asked, &request)?;
        give_back_unwanted(&asked, &decided, cancel)?;
        Ok(decided)
    };
    state.pool.run(deadline, job).await?
}

fn place(
    state: &State,
    asked: &Asked,
    request: &PlaceRequest,
) -> Result<engine::Decision, CallError> {
    let mode = convert::mode(request.mode)?;
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let (pod, policy) =
        convert::pod_to_place(&state.cluster, &state.profiles, request.pod.as_deref())
            .inspect_err(|_| state.metrics.count_refused(1))?;
    let request = engine::PlaceRequest { pod: &pod, policy, tie_break };
    let started = clock::now();
    let decided = match mode {
        Mode::DryRun => asked.place(&request),
        Mode::Assume => {
            asked.reserve(1)?;
            let decided = asked.assume(&request);
            asked.release(1 - decided.as_ref().map_or(0, batch::n_assumed));
            decided
        }
    };
    state.metrics.record_place_duration(PlaceMethod::Place, clock::now() - started);
    state.metrics.count_decision(decided.as_ref(), asked.is_hypothetical());
    Ok(decided?)
}

/// Undoes what was assumed for a caller that is gone: nobody would ever learn of it.
fn give_back_unwanted(
    asked: &Asked,
    decided: &engine::Decision,
    cancel: &Cancel,
) -> Result<(), CallError> {
    if !cancel.is_cancelled() {
        return Ok(());
    }
    if batch::n_assumed(decided) > 0 {
        asked.give_back(&[(decided.pod.clone(), decided.uid.clone())]);
    }
    Err(CallError::DeadlineExceeded)
}

fn explain(
    state: &State,
    asked: &Asked,
    request: &ExplainRequest,
    cancel: &Cancel,
) -> Result<ExplainResponse, CallError> {
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let (pod, policy) =
        convert::pod_to_place(&state.cluster, &state.profiles, request.pod.as_ref())?;
    let started = clock::now();
    let asking = engine::PlaceRequest { pod: &pod, policy, tie_break };
    let account =
        asked.explain_unless(&asking, &|| cancel.is_cancelled()).map_err(CallError::undecided)?;
    state.metrics.record_place_duration(PlaceMethod::Explain, clock::now() - started);
    let engine::Explanation { decision, nodes, best: _, remedies } = account;
    let nodes =
        if request.node_names.is_empty() { nodes } else { only(nodes, &request.node_names)? };
    Ok(ExplainResponse {
        decision: Some(convert::decision(decision)),
        nodes: verdicts(nodes, cancel)?,
        remedies: remedies.into_iter().map(convert::remedy).collect(),
    })
}

/// As the answer has them, unless nobody waits for it any more.
fn verdicts(
    nodes: Vec<engine::NodeVerdict>,
    cancel: &Cancel,
) -> Result<Vec<NodeVerdict>, CallError> {
    let one = |(i, node): (usize, engine::NodeVerdict)| {
        if i.is_multiple_of(PATIENCE) {
            cancel.check()?;
        }
        Ok(convert::node_verdict(node))
    };
    nodes.into_iter().enumerate().map(one).collect()
}

/// The verdicts of the named nodes, in name order.
fn only(
    mut nodes: Vec<engine::NodeVerdict>,
    names: &[String],
) -> Result<Vec<engine::NodeVerdict>, CallError> {
    if nodes.is_empty() {
        return Ok(nodes);
    }
    let mut wanted = vec![false; nodes.len()];
    for (index, name) in names.iter().enumerate() {
        let row =
            nodes.binary_search_by(|verdict| (*verdict.node).cmp(name.as_str())).map_err(|_| {
                CallError::field(
                    format!("node_names[{index}]"),
                    format!("the cluster has no node `{name}`"),
                )
            })?;
        wanted[row] = true;
    }
    let mut wanted = wanted.into_iter();
    nodes.retain(|_| wanted.next().unwrap_or(false));
    Ok(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::deadline::CancelOnDrop;
    use crate::grpc::fixture::{self, Holder};
    use crate::grpc::session::SessionHandler;
    use berth_proto::berth_v1::SessionServiceOpenRequest;
    use berth_proto::berth_v1::session_service_server::SessionService as _;

    fn place_request(name: &str, mode: PlaceMode, session_id: &str) -> PlaceRequest {
        PlaceRequest {
            pod: Some(fixture::pod(name, "1", 0).into()),
            mode: mode as i32,
            session_id: session_id.to_owned(),
            ..PlaceRequest::default()
        }
    }

    /// This runtime has one thread: were it to wait, nobody would be answered, and nothing let go.
    #[tokio::test]
    async fn what_waits_for_a_write_waits_off_the_reactor() {
        let state = fixture::state(&[("n0", "4")]);
        let handler = PlacementHandler::new(state.clone());
        let sessions = SessionHandler::new(state.clone());
        let session_id =
            state.sessions.open(clock::now(), "anonymous", || state.cluster.fork()).unwrap();

        let others_are_answered = async |holder: Holder| {
            let request = place_request("other", PlaceMode::DryRun, "");
            handler.place(Request::new(request)).await.unwrap();
            holder.let_go()
        };
        let holder = fixture::hold(&state, state.asked(&session_id).unwrap());
        let request = place_request("p", PlaceMode::Assume, &session_id);
        let waits = handler.place(Request::new(request));
        let (placed, was_in_time) = tokio::join!(waits, others_are_answered(holder));
        assert!(placed.is_ok());
        assert!(was_in_time, "a placement in a session kept the others waiting");
        assert_eq!(state.asked(&session_id).unwrap().snapshot().n_assumed(), 2);

        let holder = fixture::hold(&state, state.asked("").unwrap());
        let waits = sessions.open(Request::new(SessionServiceOpenRequest {}));
        let (opened, was_in_time) = tokio::join!(waits, others_are_answered(holder));
        assert!(opened.is_ok());
        assert!(was_in_time, "opening a session kept the others waiting");
    }

    #[test]
    fn an_explanation_ends_when_its_caller_is_gone() {
        let state = fixture::state(&[("n0", "4")]);
        let asked = state.asked("").unwrap();
        let caller = CancelOnDrop::new(Deadline(None));
        let token = caller.token();
        let ask = |cpu| {
            let pod = Some(fixture::pod("p", cpu, 0));
            let request = ExplainRequest { pod, ..ExplainRequest::default() };
            explain(&state, &asked, &request, &token)
        };
        let verdict = engine::NodeVerdict {
            node: "n0".into(),
            verdict: engine::Verdict::Feasible { scores: Vec::new(), total: 0 },
        };
        assert_eq!(ask("1").unwrap().nodes.len(), 1);
        assert!(!ask("8").unwrap().remedies.is_empty());
        assert_eq!(verdicts(vec![verdict.clone()], &token).unwrap().len(), 1);
        drop(caller);
        assert_eq!(ask("1").unwrap_err(), CallError::DeadlineExceeded);
        assert_eq!(ask("8").unwrap_err(), CallError::DeadlineExceeded);
        assert_eq!(verdicts(vec![verdict], &token).unwrap_err(), CallError::DeadlineExceeded);
    }

    #[test]
    fn what_nobody_waits_for_any_more_is_given_back() {
        let state = fixture::state(&[("n0", "4")]);
        let asked = state.asked("").unwrap();
        let caller = CancelOnDrop::new(Deadline(None));
        let decided = place(&state, &asked, &place_request("p", PlaceMode::Assume, "")).unwrap();
        assert_eq!(give_back_unwanted(&asked, &decided, &caller.token()), Ok(()));
        assert_eq!(state.cluster.snapshot().n_assumed(), 1);
        let token = caller.token();
        drop(caller);
        let unwanted = give_back_unwanted(&asked, &decided, &token);
        assert_eq!(unwanted, Err(CallError::DeadlineExceeded));
        assert_eq!(state.cluster.snapshot().n_assumed(), 0);
    }
}
