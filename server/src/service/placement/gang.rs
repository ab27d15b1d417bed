//! A gang: many pods in one request, placed entirely or not at all.

use std::sync::Arc;

use berth_engine as engine;
use berth_engine::{EngineError, Pod, Policy};
use berth_proto::berth_v1::{PlaceBatchRequest, PlaceBatchResponse, PlaceResult};

use super::batch;
use super::entries::{self, Compiled, Entry};
use crate::clock;
use crate::service::admission;
use crate::service::convert::{self, Mode};
use crate::service::{AssumeTerms, CallError, Cancel, Guarded, Held, State, Target};
use crate::telemetry::PlaceMethod;

/// Places all members in order; returns their results and the outcome of the gang.
///
/// If the caller is gone before the end, its assumed pods and nominations are undone: it will not receive the response.
pub(crate) fn place_batch(
    state: &Arc<State>,
    target: Target,
    request: PlaceBatchRequest,
    terms: &AssumeTerms,
    cancel: &Cancel,
) -> Result<Guarded<PlaceBatchResponse>, CallError> {
    let PlaceBatchRequest { entries, mode, tie_break, gang, admit, .. } = request;
    let entries: Vec<Entry> = entries.into_iter().map(Entry::from).collect();
    let mode = convert::mode(mode)?;
    let assume = mode == Mode::Assume;
    let tie_break = convert::tie_break(tie_break.as_ref(), state.tie_break)?;
    let n_pods = batch::check_size(&entries, state.limits.max_pods_per_request)?;
    let keeps = state.keeps_objects(mode);
    let (compiled, admissions) =
        admission::compile(&target, &state.profiles, entries, admit, keeps);
    let (pods, policy) = members(compiled).inspect_err(|_| state.metrics.count_refused(n_pods))?;
    let gang = gang.map(|gang| convert::gang(&gang, pods.len())).transpose()?;
    if assume {
        target.reserve(pods.len())?;
    }
    let busy = (assume && !target.is_hypothetical()).then(|| state.long_write());
    let started = clock::now();
    let decided = target.place_batch(&engine::BatchRequest {
        pods: &pods,
        policy,
        tie_break,
        assume,
        gang,
        cancelled: &|| cancel.is_cancelled(),
        now: Some(clock::unix_seconds()),
    });
    state.metrics.record_place_duration(PlaceMethod::PlaceBatch, clock::now() - started);
    drop(busy);
    count(state, &target, &decided);
    if assume {
        target.release(pods.len().saturating_sub(n_changes(&decided)));
    }
    let (response, undelivered) = answer(state, target, &pods, decided, assume.then_some(terms))?;
    // If the caller is gone, everything is undone here.
    if assume {
        cancel.check()?;
    }
    Ok((PlaceBatchResponse { admissions, ..response }, undelivered))
}

/// Every pod of a gang, and their one profile. One refused pod refuses the whole gang.
pub(crate) fn members(compiled: Vec<Compiled<'_>>) -> Result<(Vec<Pod>, &Policy), CallError> {
    let other_profile = entries::other_profile(&compiled);
    let (mut pods, mut policy) = (Vec::new(), None);
    for (at, (entry, replicas)) in compiled.into_iter().enumerate() {
        let prefix = format!("entries[{at}].pod");
        let (pod, its_policy) = entry.map_err(|error| entries::within(&prefix, error))?;
        entries::add_replicas(pod, replicas, &mut pods);
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

fn count(state: &State, target: &Target, decided: &engine::BatchOutcome) {
    for result in &decided.results {
        state.metrics.count_decision(result.as_ref(), target.is_hypothetical());
        if let (Ok(decision), false) = (result, target.is_hypothetical()) {
            state.watchers.tell(decision);
        }
    }
    for preempted in decided.gang.iter().flat_map(|gang| &gang.preemptions) {
        state.metrics.count_preemption(&preempted.post_filter);
    }
}

/// Number of pods assumed and nominated.
fn n_changes(decided: &engine::BatchOutcome) -> usize {
    let n_assumed: usize = decided.results.iter().flatten().map(batch::n_assumed).sum();
    n_assumed + decided.gang.as_ref().map_or(0, |gang| gang.nominated.len())
}

/// The response, with the guard of what was assumed and nominated, if the gang was assumed on these terms.
fn answer(
    state: &Arc<State>,
    target: Target,
    pods: &[Pod],
    decided: engine::BatchOutcome,
    assumed: Option<&AssumeTerms>,
) -> Result<Guarded<PlaceBatchResponse>, CallError> {
    let engine::BatchOutcome { results, gang } = decided;
    let held = assumed.map(|terms| {
        let nominated = gang.iter().flat_map(|gang| &gang.nominated);
        let nominated = nominated
            .map(|&index| (pods[index].key().clone(), Arc::from(pods[index].uid())))
            .collect();
        Held::of(state, target, terms, results.iter().flatten(), nominated, clock::now())
    });
    if results.contains(&Err(EngineError::Cancelled)) {
        return Err(CallError::DeadlineExceeded);
    }
    let mut results: Vec<PlaceResult> = results
        .into_iter()
        .map(|result| convert::place_result(result.map_err(CallError::undecided)))
        .collect();
    let undelivered = held.and_then(|mut held| {
        held.tell_all(&mut results);
        held.undelivered
    });
    let gang = gang.map(convert::gang_outcome);
    Ok((PlaceBatchResponse { results, gang, ..PlaceBatchResponse::default() }, undelivered))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::{Access, fixture};
    use berth_engine::{BatchRequest, Gang, PlaceRequest, PreemptOptions, TieBreak};

    const TIES: TieBreak = TieBreak::Lexicographic;

    /// Decides three members on a node that one eviction frees: the first evicts, and all three are nominated to the
    /// node.
    fn three_for_one_victim(state: &State, target: &Target) -> (Vec<Pod>, engine::BatchOutcome) {
        let pods: Vec<Pod> = ["a", "b", "c"]
            .map(|name| target.compile_pod(&fixture::pod(name, "1", 10)).unwrap())
            .to_vec();
        target.reserve(pods.len()).unwrap();
        let decided = target.place_batch(&BatchRequest {
            pods: &pods,
            policy: state.profiles.get("").unwrap(),
            tie_break: TIES,
            assume: true,
            gang: Some(Gang { min_count: 0, preempt: Some(PreemptOptions::default()) }),
            cancelled: &|| false,
            now: None,
        });
        let gang = decided.gang.as_ref().unwrap();
        assert!(gang.placed);
        assert_eq!((gang.preemptions.len(), n_changes(&decided)), (1, 3));
        (pods, decided)
    }

    fn terms(state: &State, target: &Target) -> AssumeTerms {
        let mode = berth_proto::berth_v1::PlaceMode::Assume as i32;
        AssumeTerms::of(state, &Access::open(), target, mode, None).unwrap()
    }

    #[test]
    fn nominations_for_a_caller_that_is_gone_are_undone() {
        let state = fixture::state(&[("n1", "4")]);
        fixture::run(&state.cluster, &fixture::pod("low", "4", 0), "n1");
        let session_id =
            state.sessions.open(clock::now(), "anonymous", || state.cluster.fork()).unwrap();
        for id in [session_id.as_str(), ""] {
            let target = state.target_of(id).unwrap();
            let (pods, decided) = three_for_one_victim(&state, &target);
            let terms = terms(&state, &target);
            let unwanted = state.target_of(id).unwrap();
            drop(answer(&state, unwanted, &pods, decided, Some(&terms)).unwrap());
            let snapshot = target.snapshot();
            assert_eq!((snapshot.n_assumed(), snapshot.n_pods()), (0, 1));
            target.apply(vec![engine::Delta::DeletePod {
                key: engine::PodKey::new("default", "low"),
                uid: None,
            }]);
            let pod = target.compile_pod(&fixture::pod("other", "4", 0)).unwrap();
            let policy = state.profiles.get("").unwrap();
            let decided =
                target.place(&PlaceRequest { pod: &pod, policy, tie_break: TIES, now: None });
            let outcome = decided.unwrap().outcome;
            assert!(matches!(outcome, engine::Outcome::Placed(_)), "{id}: {outcome:?}");
            if target.is_hypothetical() {
                target.reserve(state.limits.sessions.max_changes).unwrap();
            }
        }
    }

    #[test]
    fn a_gang_that_is_wanted_keeps_its_nodes() {
        let state = fixture::state(&[("n1", "4")]);
        fixture::run(&state.cluster, &fixture::pod("low", "4", 0), "n1");
        let target = state.target_of("").unwrap();
        let (pods, decided) = three_for_one_victim(&state, &target);
        assert_eq!(decided.gang.as_ref().unwrap().nominated, [0, 1, 2]);
        let terms = terms(&state, &target);
        let (_, undelivered) = answer(&state, target, &pods, decided, Some(&terms)).unwrap();
        undelivered.unwrap().delivered();
        assert_eq!(state.cluster.snapshot().n_pending(), 3);
    }

    /// While a gang is being assumed, single decisions stay off the reactor.
    #[test]
    fn a_gang_is_a_long_write() {
        use crate::service::{CancelOnDrop, Deadline};
        use berth_proto::berth_v1::{Gang, PlaceMode};
        let state = fixture::state(&[("n1", "4")]);
        let request = PlaceBatchRequest {
            entries: vec![fixture::entry(&fixture::pod("web", "1m", 0), 100)],
            mode: PlaceMode::Assume as i32,
            gang: Some(Gang::default()),
            ..PlaceBatchRequest::default()
        };
        let caller = CancelOnDrop::new(Deadline(None));
        let is_long = fixture::is_long_write(&state, |target| {
            let terms = terms(&state, &target);
            let answer = place_batch(&state, target, request, &terms, &caller.token());
            let (response, undelivered) = answer.unwrap();
            assert!(response.gang.unwrap().placed);
            undelivered.unwrap().delivered();
        });
        assert!(is_long);
    }
}
