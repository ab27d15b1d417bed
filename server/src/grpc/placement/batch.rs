//! Many pods in one request: replicas expanded, decided by priority and then in the order of the request.

use std::cmp::Reverse;
use std::sync::Arc;

use berth_engine as engine;
use berth_engine::{Cluster, Delta, EngineError, Outcome, PodKey, Policy, TieBreak};
use berth_proto::berth_v1::{
    BatchEntry, Decision, PlaceBatchRequest, PlaceBatchResponse, PlaceResult, decision,
    place_result,
};
use rayon::prelude::*;

use crate::clock;
use crate::grpc::State;
use crate::grpc::asked::Asked;
use crate::grpc::convert::{self, Mode};
use crate::grpc::deadline::Cancel;
use crate::grpc::status::CallError;
use crate::telemetry::PlaceMethod;

/// From this many entries on they are compiled on all cores.
const MANY_ENTRIES: usize = 256;

/// What the entries of one request have in common.
#[derive(Copy, Clone, Debug)]
pub(super) struct Terms {
    pub(super) mode: Mode,
    pub(super) tie_break: TieBreak,
    pub(super) method: PlaceMethod,
}

/// A pod's decision, or why it has none.
pub(super) type PodResult = Result<engine::Decision, CallError>;

/// All pods of the request, in order.
///
/// When the caller is gone before the end, what was assumed for it is undone: nobody would ever learn of it.
pub(super) fn place_batch(
    state: &State,
    asked: &Asked,
    request: PlaceBatchRequest,
    cancel: &Cancel,
) -> Result<PlaceBatchResponse, CallError> {
    let mode = convert::mode(request.mode)?;
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let terms = Terms { mode, tie_break, method: PlaceMethod::PlaceBatch };
    let results = decide(state, asked, request.entries, terms, cancel)?;
    let results: Vec<PlaceResult> = results.into_iter().map(convert::place_result).collect();
    if cancel.is_cancelled() {
        give_back(asked, &results);
        return Err(CallError::DeadlineExceeded);
    }
    Ok(PlaceBatchResponse { results, gang: None })
}

/// As `place_batch`, for callers that look at `cancel` themselves. Once it is cancelled the remaining pods are refused.
pub(super) fn decide(
    state: &State,
    asked: &Asked,
    entries: Vec<BatchEntry>,
    terms: Terms,
    cancel: &Cancel,
) -> Result<Vec<PodResult>, CallError> {
    let n_pods = check_size(&entries, state.limits.max_pods_per_request)?;
    let compiled = compile(state, entries);
    let is_of_one_profile = check_profiles(&compiled, terms.mode)?;
    let mut results = Vec::with_capacity(n_pods);
    let (mut pods, mut places) = (Vec::with_capacity(n_pods), Vec::with_capacity(n_pods));
    for (entry, replicas) in compiled {
        let n = replicas.max(1) as usize;
        match entry {
            Ok((pod, policy)) => {
                add_replicas(pod, replicas, &mut pods);
                places.extend((results.len()..results.len() + n).map(|at| (at, policy)));
                // Each is decided below.
                results.extend((0..n).map(|_| Err(CallError::Broken)));
            }
            Err(error) => {
                state.metrics.count_refused(n);
                results.extend(std::iter::repeat_n(Err(error), n));
            }
        }
    }
    if !is_of_one_profile {
        sort_by_priority(&mut pods, &mut places);
    }
    if terms.mode == Mode::Assume {
        asked.reserve(pods.len())?;
    }
    let mut runs = pods.as_slice();
    for places in places.chunk_by(|(_, a), (_, b)| std::ptr::eq(*a, *b)) {
        let (pods, rest) = runs.split_at(places.len());
        runs = rest;
        decide_run(state, asked, Run { pods, places }, terms, cancel, &mut results);
    }
    if terms.mode == Mode::Assume {
        let n_assumed: usize = results.iter().flatten().map(n_assumed).sum();
        asked.release(pods.len().saturating_sub(n_assumed));
    }
    Ok(results)
}

/// Pods that the request asks for.
pub(super) fn n_pods(entries: &[BatchEntry]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.replicas.max(1))).sum()
}

pub(super) fn check_size(entries: &[BatchEntry], limit: usize) -> Result<usize, CallError> {
    let asked = n_pods(entries);
    usize::try_from(asked).ok().filter(|&asked| asked <= limit).ok_or_else(|| {
        CallError::field(
            "entries",
            format!("asks for {asked} pods, more than the limit of {limit}"),
        )
    })
}

/// An entry's pod with its policy, or what is wrong with it; and the replicas.
pub(super) type Compiled<'s> = (Result<(engine::Pod, &'s Policy), CallError>, u32);

pub(super) fn compile(state: &State, entries: Vec<BatchEntry>) -> Vec<Compiled<'_>> {
    let compile_one = |entry: BatchEntry| (convert::pod_to_place(state, entry.pod), entry.replicas);
    if entries.len() < MANY_ENTRIES {
        entries.into_iter().map(compile_one).collect()
    } else {
        entries.into_par_iter().map(compile_one).collect()
    }
}

/// The first entry that is of another profile than those before it.
pub(super) fn other_profile(compiled: &[Compiled<'_>]) -> Option<usize> {
    let mut policies = compiled
        .iter()
        .enumerate()
        .filter_map(|(at, (entry, _))| Some((at, entry.as_ref().ok()?.1)));
    let (_, first) = policies.next()?;
    policies.find(|(_, policy)| !std::ptr::eq(*policy, first)).map(|(at, _)| at)
}

/// Whether all are of one profile. A dry run has to be: it decides on one fork of the cluster, and a fork is decided on by
/// one profile.
fn check_profiles(compiled: &[Compiled<'_>], mode: Mode) -> Result<bool, CallError> {
    match other_profile(compiled) {
        Some(at) if mode == Mode::DryRun => Err(CallError::field(
            format!("entries[{at}].pod.spec.schedulerName"),
            "a dry run takes pods of one scheduler name",
        )),
        other => Ok(other.is_none()),
    }
}

/// Adds `NAME-0` to `NAME-(n-1)` with uids `UID-0` …, or the pod itself.
pub(super) fn add_replicas(pod: engine::Pod, replicas: u32, pods: &mut Vec<engine::Pod>) {
    if replicas <= 1 {
        pods.push(pod);
        return;
    }
    pods.extend((0..replicas).map(|replica| {
        let key = PodKey::new(&pod.key().namespace, &format!("{}-{replica}", pod.key().name));
        let uid = match pod.uid() {
            "" => String::new(),
            uid => format!("{uid}-{replica}"),
        };
        pod.with_identity(key, &uid)
    }));
}

/// Where in the results a pod's decision belongs, and the profile that it is decided by.
type Place<'s> = (usize, &'s Policy);

/// The engine orders what one call of it decides; pods of several profiles take several calls.
fn sort_by_priority(pods: &mut Vec<engine::Pod>, places: &mut Vec<Place<'_>>) {
    let mut both: Vec<_> = pods.drain(..).zip(places.drain(..)).collect();
    both.sort_by_key(|(pod, _)| Reverse(pod.priority()));
    (*pods, *places) = both.into_iter().unzip();
}

/// Pods of one profile that are decided one after another: one call of the engine, so that each sees those before it, in a
/// dry run too.
#[derive(Copy, Clone)]
struct Run<'r, 's> {
    pods: &'r [engine::Pod],
    places: &'r [Place<'s>],
}

fn decide_run(
    state: &State,
    asked: &Asked,
    run: Run<'_, '_>,
    terms: Terms,
    cancel: &Cancel,
    results: &mut [PodResult],
) {
    let Run { pods, places } = run;
    let Some((_, policy)) = places.first() else { return };
    let Terms { mode, tie_break, method } = terms;
    let started = clock::now();
    let decided = asked.place_batch(&engine::BatchRequest {
        pods,
        policy,
        tie_break,
        assume: mode == Mode::Assume,
        gang: None,
        cancelled: &|| cancel.is_cancelled(),
    });
    state.metrics.record_place_duration(method, clock::now() - started);
    for ((position, _), decision) in places.iter().zip(decided.results) {
        state.metrics.count_decision(decision.as_ref(), asked.is_hypothetical());
        results[*position] = pod_result(decision);
    }
}

pub(super) fn pod_result(decision: Result<engine::Decision, EngineError>) -> PodResult {
    decision.map_err(|error| match error {
        EngineError::Cancelled => CallError::DeadlineExceeded,
        error => CallError::Engine(error),
    })
}

/// 1 where the pod took its room, else 0.
pub(super) fn n_assumed(decision: &engine::Decision) -> usize {
    let is_assumed = matches!(&decision.outcome, Outcome::Placed(placed) if placed.assumed);
    usize::from(is_assumed)
}

/// Undoes what was assumed for a caller that will never learn of it.
pub(super) fn give_back(cluster: &Cluster, results: &[PlaceResult]) {
    let assumed: Vec<Delta> = results.iter().filter_map(assumed_pod).collect();
    if !assumed.is_empty() {
        tracing::warn!(
            n_pods = assumed.len(),
            "a caller went away before its answer: the pods assumed for it are given back"
        );
        cluster.apply(assumed);
    }
}

fn assumed_pod(result: &PlaceResult) -> Option<Delta> {
    let Some(place_result::Result::Decision(Decision { pod: Some(key), outcome, .. })) =
        &result.result
    else {
        return None;
    };
    match outcome {
        Some(decision::Outcome::Placement(placement)) if placement.assumed => {
            let uid = (!key.uid.is_empty()).then(|| Arc::from(key.uid.as_str()));
            Some(Delta::DeletePod { key: PodKey::new(&key.namespace, &key.name), uid })
        }
        _ => None,
    }
}
