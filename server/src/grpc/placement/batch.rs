//! Many pods in one request: decided as [`entries`] says, and given back where nobody will learn of it.

use std::sync::Arc;

use berth_engine as engine;
use berth_engine::{Outcome, PodKey, TieBreak};
use berth_proto::berth_v1::{
    BatchEntry, Decision, PlaceBatchRequest, PlaceBatchResponse, PlaceResult, decision,
    place_result,
};

use super::entries::{self, PodResult};
use crate::clock;
use crate::grpc::asked::Asked;
use crate::grpc::convert::{self, Mode};
use crate::grpc::deadline::Cancel;
use crate::grpc::status::CallError;
use crate::grpc::{LONG_BATCH, State};
use crate::telemetry::PlaceMethod;

/// What the entries of one request have in common.
#[derive(Copy, Clone, Debug)]
pub(super) struct Terms {
    pub(super) mode: Mode,
    pub(super) tie_break: TieBreak,
    pub(super) method: PlaceMethod,
}

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
    check_size(&entries, state.limits.max_pods_per_request)?;
    let Terms { mode, tie_break, method } = terms;
    let compiled = entries::compile(&state.cluster, &state.profiles, entries);
    let (n_pods, _) = entries::count(&compiled);
    let assumes = mode == Mode::Assume;
    if assumes {
        asked.reserve(n_pods)?;
    }
    let is_long = assumes && n_pods >= LONG_BATCH && !asked.is_hypothetical();
    let busy = is_long.then(|| state.long_write());
    let cancelled = || cancel.is_cancelled();
    let started = clock::now();
    let results =
        entries::decide(asked, compiled, entries::Terms { mode, tie_break, cancelled: &cancelled });
    state.metrics.record_place_duration(method, clock::now() - started);
    drop(busy);
    for result in &results {
        match result {
            Ok(decision) => state.metrics.count_decision(Ok(decision), asked.is_hypothetical()),
            Err(_) => state.metrics.count_refused(1),
        }
    }
    if assumes {
        let n_assumed: usize = results.iter().flatten().map(n_assumed).sum();
        asked.release(n_pods.saturating_sub(n_assumed));
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

/// 1 where the pod took its room, else 0.
pub(super) fn n_assumed(decision: &engine::Decision) -> usize {
    let is_assumed = matches!(&decision.outcome, Outcome::Placed(placed) if placed.assumed);
    usize::from(is_assumed)
}

/// Undoes what was assumed for a caller that will never learn of it.
pub(super) fn give_back(asked: &Asked, results: &[PlaceResult]) {
    let assumed: Vec<_> = results.iter().filter_map(assumed_pod).collect();
    asked.give_back(&assumed);
}

/// The pod, and its uid, where it took its room.
pub(super) fn assumed_pod(result: &PlaceResult) -> Option<(PodKey, Arc<str>)> {
    let Some(place_result::Result::Decision(Decision { pod: Some(key), outcome, .. })) =
        &result.result
    else {
        return None;
    };
    match outcome {
        Some(decision::Outcome::Placement(placement)) if placement.assumed => {
            Some((PodKey::new(&key.namespace, &key.name), Arc::from(key.uid.as_str())))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::deadline::{CancelOnDrop, Deadline};
    use crate::grpc::fixture;

    /// What nobody learns of is as if it had never been asked: the session keeps its other placements, and its bounds.
    #[test]
    fn what_is_given_back_leaves_a_session_as_it_was() {
        let state = fixture::state(&[("n0", "4")]);
        let session_id =
            state.sessions.open(clock::now(), "anonymous", || state.cluster.fork()).unwrap();
        let asked = state.asked(&session_id).unwrap();
        let terms = Terms {
            mode: Mode::Assume,
            tie_break: TieBreak::Lexicographic,
            method: PlaceMethod::PlaceBatch,
        };
        let caller = CancelOnDrop::new(Deadline(None));
        let assume = |name: &str, replicas| {
            let entries = vec![fixture::entry(&fixture::pod(name, "1", 0), replicas)];
            let results = decide(&state, &asked, entries, terms, &caller.token()).unwrap();
            results.into_iter().map(convert::place_result).collect::<Vec<_>>()
        };
        assert_eq!(assume("kept", 1).iter().filter_map(assumed_pod).count(), 1);
        let lost = assume("lost", 3);
        assert_eq!(lost.iter().filter_map(assumed_pod).count(), 3);
        give_back(&asked, &lost);
        assert_eq!(asked.snapshot().n_assumed(), 1);
        let max_changes = state.limits.sessions.max_changes;
        assert_eq!(
            asked.reserve(max_changes),
            Err(CallError::SessionTooLarge { limit: max_changes })
        );
        asked.reserve(max_changes - 1).unwrap();
        let committed = state.cluster.commit(&asked).unwrap();
        assert_eq!((committed.n_assumed, state.cluster.snapshot().n_assumed()), (1, 1));
    }

    /// While many pods take their room, single decisions stay off the reactor.
    #[test]
    fn many_pods_are_a_long_write() {
        let state = fixture::state(&[("n0", "4")]);
        let terms = Terms {
            mode: Mode::Assume,
            tie_break: TieBreak::Lexicographic,
            method: PlaceMethod::PlaceBatch,
        };
        let caller = CancelOnDrop::new(Deadline(None));
        let replicas = u32::try_from(LONG_BATCH).unwrap();
        let entries = vec![fixture::entry(&fixture::pod("web", "1m", 0), replicas)];
        let is_long = fixture::is_long_write(&state, |asked| {
            let results = decide(&state, &asked, entries, terms, &caller.token());
            assert_eq!(results.unwrap().len(), LONG_BATCH);
        });
        assert!(is_long);
    }
}
