//! Many pods in one request: replicas expanded, decided one after another by one call of the engine.

use std::sync::Arc;

use berth_engine as engine;
use berth_engine::{Delta, EngineError, PodKey, Policy, TieBreak};
use berth_proto::berth_v1::{
    BatchEntry, Decision, PlaceBatchRequest, PlaceResult, decision, place_result,
};
use rayon::prelude::*;

use crate::clock;
use crate::grpc::State;
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
    request: PlaceBatchRequest,
    cancel: &Cancel,
) -> Result<Vec<PlaceResult>, CallError> {
    let mode = convert::mode(request.mode)?;
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let terms = Terms { mode, tie_break, method: PlaceMethod::PlaceBatch };
    let results = decide(state, request.entries, terms, cancel)?;
    let results: Vec<PlaceResult> = results.into_iter().map(convert::place_result).collect();
    if cancel.is_cancelled() {
        give_back(state, &results);
        return Err(CallError::DeadlineExceeded);
    }
    Ok(results)
}

/// One result a pod, replicas expanded, in order.
pub(super) fn decide(
    state: &State,
    entries: Vec<BatchEntry>,
    terms: Terms,
    cancel: &Cancel,
) -> Result<Vec<PodResult>, CallError> {
    let n_pods = check_size(&entries, state.limits.max_pods_per_request)?;
    let compiled = compile(state, entries);
    check_profiles(&compiled, terms.mode)?;
    let mut results = Vec::with_capacity(n_pods);
    let mut run =
        Run { state, terms, cancel, policy: None, pods: Vec::new(), positions: Vec::new() };
    for (entry, replicas) in compiled {
        match entry {
            Ok((pod, policy)) => {
                if run.policy.is_some_and(|current| !std::ptr::eq(current, policy)) {
                    run.decide_into(&mut results);
                }
                run.policy = Some(policy);
                run.add(pod, replicas, &mut results);
            }
            Err(error) => {
                let n = replicas.max(1) as usize;
                state.metrics.count_refused(n);
                results.extend(std::iter::repeat_n(Err(error), n));
            }
        }
    }
    run.decide_into(&mut results);
    Ok(results)
}

/// Pods that the request asks for.
pub(super) fn n_pods(entries: &[BatchEntry]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.replicas.max(1))).sum()
}

fn check_size(entries: &[BatchEntry], limit: usize) -> Result<usize, CallError> {
    let asked = n_pods(entries);
    usize::try_from(asked).ok().filter(|&asked| asked <= limit).ok_or_else(|| {
        CallError::field(
            "entries",
            format!("asks for {asked} pods, more than the limit of {limit}"),
        )
    })
}

type Compiled<'s> = (Result<(engine::Pod, &'s Policy), CallError>, u32);

fn compile(state: &State, entries: Vec<BatchEntry>) -> Vec<Compiled<'_>> {
    let compile_one = |entry: BatchEntry| (convert::pod_to_place(state, entry.pod), entry.replicas);
    if entries.len() < MANY_ENTRIES {
        entries.into_iter().map(compile_one).collect()
    } else {
        entries.into_par_iter().map(compile_one).collect()
    }
}

/// A dry run decides on one fork of the cluster, and a fork is decided on by one profile.
fn check_profiles(compiled: &[Compiled<'_>], mode: Mode) -> Result<(), CallError> {
    let mut policies = compiled
        .iter()
        .enumerate()
        .filter_map(|(at, (entry, _))| Some((at, entry.as_ref().ok()?.1)));
    let Some((_, first)) = policies.next() else {
        return Ok(());
    };
    match policies.find(|(_, policy)| !std::ptr::eq(*policy, first)) {
        Some((at, _)) if mode == Mode::DryRun => Err(CallError::field(
            format!("entries[{at}].pod.spec.schedulerName"),
            "a dry run takes pods of one scheduler name",
        )),
        Some(_) | None => Ok(()),
    }
}

/// Pods of one profile that follow each other, refused ones between them left out: one call of the engine, so that each
/// sees those before it, in a dry run too.
struct Run<'s, 'c> {
    state: &'s State,
    terms: Terms,
    cancel: &'c Cancel,
    policy: Option<&'s Policy>,
    pods: Vec<engine::Pod>,
    /// Where in the results each pod's decision belongs.
    positions: Vec<usize>,
}

impl Run<'_, '_> {
    /// Adds `NAME-0` to `NAME-(n-1)` with uids `UID-0` …, or the pod itself; each holds its place in `results`.
    fn add(&mut self, pod: engine::Pod, replicas: u32, results: &mut Vec<PodResult>) {
        let first = self.pods.len();
        if replicas <= 1 {
            self.pods.push(pod);
        } else {
            self.pods.extend((0..replicas).map(|replica| {
                let key =
                    PodKey::new(&pod.key().namespace, &format!("{}-{replica}", pod.key().name));
                let uid = if pod.uid().is_empty() {
                    String::new()
                } else {
                    format!("{}-{replica}", pod.uid())
                };
                pod.with_identity(key, &uid)
            }));
        }
        for _ in first..self.pods.len() {
            self.positions.push(results.len());
            results.push(Err(CallError::Broken));
        }
    }

    fn decide_into(&mut self, results: &mut [PodResult]) {
        let Some(policy) = self.policy else { return };
        let (state, Terms { mode, tie_break, method }) = (self.state, self.terms);
        let is_cancelled = || self.cancel.is_cancelled();
        let started = clock::now();
        let decided = state.cluster.place_batch(
            &self.pods,
            policy,
            tie_break,
            mode == Mode::Assume,
            &is_cancelled,
        );
        state.metrics.record_place_duration(method, clock::now() - started);
        for (position, decision) in self.positions.drain(..).zip(decided) {
            state.metrics.count_decision(decision.as_ref());
            results[position] = decision.map_err(|error| match error {
                EngineError::Cancelled => CallError::DeadlineExceeded,
                error => CallError::Engine(error),
            });
        }
        self.pods.clear();
    }
}

/// Undoes what was assumed for a caller that will never learn of it.
pub(super) fn give_back(state: &State, results: &[PlaceResult]) {
    let assumed: Vec<Delta> = results.iter().filter_map(assumed_pod).collect();
    if !assumed.is_empty() {
        tracing::warn!(
            n_pods = assumed.len(),
            "a caller went away before its answer: the pods assumed for it are given back"
        );
        state.cluster.apply(assumed);
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
