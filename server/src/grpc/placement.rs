//! `berth.v1.PlacementService`: where does this pod go?

mod batch;
mod gang;
mod stream;

use std::sync::Arc;

use berth_engine as engine;
use berth_proto::berth_v1::placement_service_server::PlacementService;
use berth_proto::berth_v1::{
    ExplainRequest, ExplainResponse, PlaceBatchRequest, PlaceBatchResponse, PlaceRequest,
    PlaceResponse, PlaceStreamRequest,
};
use tonic::{Request, Response, Status, Streaming};

use super::State;
use super::asked::Asked;
use super::convert::{self, Mode};
use super::deadline::Deadline;
use super::status::CallError;
use crate::clock;
use crate::telemetry::PlaceMethod;

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
        let deadline = Deadline::of(&request);
        let request = request.into_inner();
        let asked = self.state.asked(&request.session_id)?;
        let decided = if self.state.decides_in_microseconds(&asked) {
            place(&self.state, &asked, request)
        } else {
            let state = self.state.clone();
            self.state.pool.run(deadline, move |_| place(&state, &asked, request)).await?
        };
        Ok(Response::new(PlaceResponse { decision: Some(convert::decision(decided?)) }))
    }

    async fn place_batch(
        &self,
        request: Request<PlaceBatchRequest>,
    ) -> Result<Response<PlaceBatchResponse>, Status> {
        self.state.check_decidable()?;
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let request = request.into_inner();
        let asked = state.asked(&request.session_id)?;
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
        let deadline = Deadline::of(&request);
        Ok(Response::new(stream::serve(self.state.clone(), request.into_inner(), deadline)))
    }

    async fn explain(
        &self,
        request: Request<ExplainRequest>,
    ) -> Result<Response<ExplainResponse>, Status> {
        self.state.check_decidable()?;
        let (deadline, state) = (Deadline::of(&request), self.state.clone());
        let request = request.into_inner();
        let asked = state.asked(&request.session_id)?;
        let account =
            self.state.pool.run(deadline, move |_| explain(&state, &asked, request)).await??;
        Ok(Response::new(account))
    }
}

fn place(
    state: &State,
    asked: &Asked,
    request: PlaceRequest,
) -> Result<engine::Decision, CallError> {
    let mode = convert::mode(request.mode)?;
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let (pod, policy) = convert::pod_to_place(state, request.pod)
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

fn explain(
    state: &State,
    asked: &Asked,
    request: ExplainRequest,
) -> Result<ExplainResponse, CallError> {
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let (pod, policy) = convert::pod_to_place(state, request.pod)?;
    let started = clock::now();
    let account = asked.explain(&engine::PlaceRequest { pod: &pod, policy, tie_break })?;
    state.metrics.record_place_duration(PlaceMethod::Explain, clock::now() - started);
    let engine::Explanation { decision, nodes, best: _, remedies } = account;
    let nodes =
        if request.node_names.is_empty() { nodes } else { only(nodes, &request.node_names)? };
    Ok(ExplainResponse {
        decision: Some(convert::decision(decision)),
        nodes: nodes.into_iter().map(convert::node_verdict).collect(),
        remedies: remedies.into_iter().map(convert::remedy).collect(),
    })
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
