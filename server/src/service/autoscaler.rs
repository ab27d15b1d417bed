//! Autoscaler simulations of a cluster with more or fewer nodes, one file per method.

pub(crate) mod scale_up;
pub(crate) mod drain;
pub(crate) mod headroom;
pub(crate) mod consolidate;
pub(crate) mod scale_in;
pub(crate) mod fit;

use std::sync::Arc;

use berth_proto::berth_v1::{
    ChooseScaleInRequest, ChooseScaleInResponse, ConsolidateRequest, ConsolidateResponse,
    FitRequest, FitResponse, HeadroomRequest, HeadroomResponse, SimulateDrainRequest,
    SimulateDrainResponse, SimulateScaleUpRequest, SimulateScaleUpResponse,
};

use crate::clock;
use crate::service::{CallContext, CallError, Cancel, State, Target};
use crate::telemetry::PlaceMethod;

/// A request that may name a session.
trait NamesSession {
    fn session_id(&self) -> &str;
}

/// Declares one handler per method: its request, its response, and the function that computes the response.
macro_rules! questions {
    ($($(#[$doc:meta])* $name:ident($request:ident) -> $response:ident, $method:ident, $function:path;)+) => {
        $(
            impl NamesSession for $request {
                fn session_id(&self) -> &str {
                    &self.session_id
                }
            }

            $(#[$doc])*
            pub(crate) async fn $name(
                state: &Arc<State>,
                call: CallContext,
                request: $request,
            ) -> Result<$response, CallError> {
                simulate(PlaceMethod::$method, state, call, request, $function).await
            }
        )+
    };
}

questions! {
    /// Simulates new nodes of each group: which pending pods would they take?
    simulate_scale_up(SimulateScaleUpRequest) -> SimulateScaleUpResponse, SimulateScaleUp, scale_up::answer;
    /// Simulates a drain: where would the pods of the drained nodes go?
    simulate_drain(SimulateDrainRequest) -> SimulateDrainResponse, SimulateDrain, drain::answer;
    /// Computes the headroom: how many more copies of a pod fit?
    headroom(HeadroomRequest) -> HeadroomResponse, Headroom, headroom::answer;
    /// Plans a consolidation: which nodes could be emptied?
    consolidate(ConsolidateRequest) -> ConsolidateResponse, Consolidate, consolidate::answer;
    /// Chooses for a scale-in: which replicas of a workload should be removed first?
    choose_scale_in(ChooseScaleInRequest) -> ChooseScaleInResponse, ChooseScaleIn, scale_in::answer;
    /// Tries pods on nodes: would these pods fit on these nodes?
    fit(FitRequest) -> FitResponse, Fit, fit::answer;
}

/// Runs a simulation on a pool of its own: it may take seconds.
async fn simulate<Q: NamesSession + Send + 'static, A: Send + 'static>(
    method: PlaceMethod,
    state: &Arc<State>,
    call: CallContext,
    request: Q,
    answer: fn(&State, &Target, Q, &Cancel) -> Result<A, CallError>,
) -> Result<A, CallError> {
    state.check_decidable()?;
    let target = call.target(state, request.session_id())?;
    let shared = state.clone();
    state
        .simulation_pool
        .run(call.deadline, move |cancel| {
            let started = clock::now();
            let answered = answer(&shared, &target, request, cancel);
            shared.metrics.record_place_duration(method, clock::now() - started);
            answered
        })
        .await?
}
