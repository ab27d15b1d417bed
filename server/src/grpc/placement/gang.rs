//! A gang: many pods in one request, placed entirely or not at all.

use berth_engine as engine;
use berth_engine::{EngineError, Nomination, Pod, Policy, PostFilter};
use berth_proto::berth_v1::{self as wire, PlaceBatchRequest, PlaceBatchResponse, PlaceResult};

use super::batch::{self, Compiled};
use crate::clock;
use crate::grpc::State;
use crate::grpc::asked::Asked;
use crate::grpc::convert::{self, Mode};
use crate::grpc::deadline::Cancel;
use crate::grpc::status::CallError;
use crate::telemetry::PlaceMethod;

/// All members in order, and what became of the gang.
///
/// When the caller is gone before the end, what was assumed for it and the nominations are undone: nobody would ever learn
/// of them.
pub(super) fn place_batch(
    state: &State,
    asked: &Asked,
    request: PlaceBatchRequest,
    cancel: &Cancel,
) -> Result<PlaceBatchResponse, CallError> {
    let PlaceBatchRequest { entries, mode, tie_break, session_id: _, gang } = request;
    let assume = convert::mode(mode)? == Mode::Assume;
    let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
    let n_pods = batch::check_size(&entries, state.limits.max_pods_per_request)?;
    let (pods, policy) = members(batch::compile(state, entries))
        .inspect_err(|_| state.metrics.count_refused(n_pods))?;
    let gang = gang.map(|gang| compile(&gang, pods.len())).transpose()?;
    if assume {
        asked.reserve(pods.len())?;
    }
    let started = clock::now();
    let decided = asked.place_batch(&engine::BatchRequest {
        pods: &pods,
        policy,
        tie_break,
        assume,
        gang,
        cancelled: &|| cancel.is_cancelled(),
    });
    state.metrics.record_place_duration(PlaceMethod::PlaceBatch, clock::now() - started);
    count(state, asked, &decided);
    if assume {
        asked.release(pods.len().saturating_sub(n_changes(&decided)));
    }
    answer(asked, &pods, decided, assume && cancel.is_cancelled())
}

/// Every pod of a gang, and the one profile that they are decided by. What is refused refuses all.
fn members(compiled: Vec<Compiled<'_>>) -> Result<(Vec<Pod>, &Policy), CallError> {
    let other_profile = batch::other_profile(&compiled);
    let (mut pods, mut policy) = (Vec::new(), None);
    for (at, (entry, replicas)) in compiled.into_iter().enumerate() {
        let (pod, its_policy) = entry.map_err(|error| of_entry(at, error))?;
        batch::add_replicas(pod, replicas, &mut pods);
        policy = Some(its_policy);
    }
    if let Some(at) = other_profile {
        return Err(CallError::field(
            format!("entries[{at}].pod.spec.schedulerName"),
            "the pods of a gang are of one scheduler name",
        ));
    }
    match policy {
        Some(policy) => Ok((pods, policy)),
        None => Err(CallError::field("entries", "a gang has at least one pod")),
    }
}

/// The error with its place in the request.
fn of_entry(at: usize, error: CallError) -> CallError {
    match error {
        CallError::Engine(EngineError::Model(error)) if error.field == "pod" => {
            CallError::field(format!("entries[{at}].pod"), error.reason)
        }
        CallError::Engine(EngineError::Model(error)) => {
            CallError::field(format!("entries[{at}].pod.{}", error.field), error.reason)
        }
        other => other,
    }
}

fn compile(gang: &wire::Gang, n_pods: usize) -> Result<engine::Gang, CallError> {
    let wire::Gang { min_count, preempt, preempt_options } = gang;
    let path = "gang.preempt_options";
    let options = convert::preempt_options(preempt_options.as_ref(), path)?;
    if preempt_options.is_some() && !preempt {
        return Err(CallError::field(path, "has no effect without `gang.preempt`"));
    }
    let min_count = usize::try_from(*min_count).unwrap_or(usize::MAX);
    if min_count > n_pods {
        let reason = format!("asks for {min_count} of {n_pods} pods");
        return Err(CallError::field("gang.min_count", reason));
    }
    Ok(engine::Gang { min_count, preempt: preempt.then_some(options) })
}

fn count(state: &State, asked: &Asked, decided: &engine::BatchOutcome) {
    for result in &decided.results {
        state.metrics.count_decision(result.as_ref(), asked.is_hypothetical());
    }
    for preempted in decided.gang.iter().flat_map(|gang| &gang.preemptions) {
        state.metrics.count_preemption(&preempted.post_filter);
    }
}

/// Pods assumed and nominated.
fn n_changes(decided: &engine::BatchOutcome) -> usize {
    let n_assumed: usize = decided.results.iter().flatten().map(batch::n_assumed).sum();
    let placed = decided.gang.iter().filter(|gang| gang.placed);
    n_assumed + placed.map(|gang| gang.preemptions.len()).sum::<usize>()
}

/// The answer, unless nobody waits for it: then all is undone.
fn answer(
    asked: &Asked,
    pods: &[Pod],
    decided: engine::BatchOutcome,
    is_unwanted: bool,
) -> Result<PlaceBatchResponse, CallError> {
    let engine::BatchOutcome { results, gang } = decided;
    let is_cancelled = results.contains(&Err(EngineError::Cancelled));
    let results: Vec<PlaceResult> =
        results.into_iter().map(batch::pod_result).map(convert::place_result).collect();
    if is_unwanted {
        batch::give_back(asked, &results);
        let placed = gang.iter().filter(|gang| gang.placed);
        placed.flat_map(|gang| &gang.preemptions).for_each(|preempted| {
            take_back_nomination(asked, &pods[preempted.index]);
        });
    }
    if is_unwanted || is_cancelled {
        return Err(CallError::DeadlineExceeded);
    }
    Ok(PlaceBatchResponse { results, gang: gang.map(convert::gang_outcome) })
}

fn take_back_nomination(asked: &Asked, pod: &Pod) {
    let cleared = PostFilter {
        code: engine::PostFilterCode::Unschedulable,
        message: String::new(),
        nomination: Nomination::Cleared,
        chosen: None,
        n_candidates: 0,
        n_best: 0,
        cleared_nominations: Vec::new(),
    };
    // A pod that got its node in the meantime has no nomination to lose.
    drop(asked.nominate(pod, &cleared));
}
