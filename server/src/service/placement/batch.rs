//! Many pods in one request: decided by [`entries`], and given back if the caller will not receive the response.

use std::sync::Arc;

use berth_engine as engine;
use berth_engine::{Outcome, TieBreak};
use berth_proto::berth_v1::{Admission, PlaceBatchRequest, PlaceBatchResponse, PlaceResult};

use super::entries::{self, Entry, PodResult};
use crate::clock;
use crate::feed::LONG_BATCH;
use crate::service::admission;
use crate::service::convert::{self, Mode};
use crate::service::{AssumeTerms, CallError, Cancel, Guarded, Held, State, Target};
use crate::telemetry::PlaceMethod;

/// Options that the entries of one request share.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) mode: Mode,
    pub(crate) tie_break: TieBreak,
    pub(crate) method: PlaceMethod,
    /// Whether the pods are admitted first.
    pub(crate) admit: bool,
}

/// Results of a request's pods, and what admission did to its entries.
type Decided = (Vec<PodResult>, Vec<Admission>);
/// [`Decided`] in wire form.
pub(crate) type Answered = (Vec<PlaceResult>, Vec<Admission>);

/// Places all pods of the request, in order.
///
/// If the caller is gone before the end, its assumed pods are released: it will not receive the response.
pub(crate) fn place_batch(
    state: &Arc<State>,
    target: Target,
    request: PlaceBatchRequest,
    assume: &AssumeTerms,
    cancel: &Cancel,
) -> Result<Guarded<PlaceBatchResponse>, CallError> {
    let mode = convert::mode(request.mode)?;
    let tie_break = convert::tie_break(request.tie_break.as_ref(), state.tie_break)?;
    let (method, admit) = (PlaceMethod::PlaceBatch, request.admit);
    let terms = Terms { mode, tie_break, method, admit };
    let entries = request.entries.into_iter().map(Entry::from).collect();
    let answered = answer(state, target, entries, terms, assume, cancel)?;
    // If the caller is gone, what was assumed is given back here.
    cancel.check()?;
    let ((results, admissions), undelivered) = answered;
    Ok((PlaceBatchResponse { results, gang: None, admissions }, undelivered))
}

/// Decides like [`place_batch`], for callers that check `cancel` themselves. Once it is cancelled the remaining pods
/// are refused.
pub(crate) fn answer(
    state: &Arc<State>,
    target: Target,
    entries: Vec<Entry>,
    terms: Terms,
    assume: &AssumeTerms,
    cancel: &Cancel,
) -> Result<Guarded<Answered>, CallError> {
    let (decided, admissions) = decide(state, &target, entries, terms, cancel)?;
    let held = (terms.mode == Mode::Assume).then(|| {
        let decisions = decided.iter().flatten();
        Held::of(state, target, assume, decisions, Vec::new(), clock::now())
    });
    let mut results: Vec<PlaceResult> = decided.into_iter().map(convert::place_result).collect();
    let undelivered = held.and_then(|mut held| {
        held.tell_all(&mut results);
        held.undelivered
    });
    Ok(((results, admissions), undelivered))
}

fn decide(
    state: &State,
    target: &Target,
    entries: Vec<Entry>,
    terms: Terms,
    cancel: &Cancel,
) -> Result<Decided, CallError> {
    check_size(&entries, state.limits.max_pods_per_request)?;
    let Terms { mode, tie_break, method, admit } = terms;
    let (compiled, admissions) =
        admission::compile(target, &state.profiles, entries, admit, state.keeps_objects(mode));
    let (n_pods, _) = entries::count(&compiled);
    let assumes = mode == Mode::Assume;
    if assumes {
        target.reserve(n_pods)?;
    }
    let is_long = assumes && n_pods >= LONG_BATCH && !target.is_hypothetical();
    let busy = is_long.then(|| state.long_write());
    let cancelled = || cancel.is_cancelled();
    let started = clock::now();
    let results = entries::decide(
        target,
        compiled,
        entries::Terms { mode, tie_break, cancelled: &cancelled },
    );
    state.metrics.record_place_duration(method, clock::now() - started);
    drop(busy);
    for result in &results {
        match result {
            Ok(decision) => {
                state.metrics.count_decision(Ok(decision), target.is_hypothetical());
                if !target.is_hypothetical() {
                    state.watchers.tell(decision);
                }
            }
            Err(_) => state.metrics.count_refused(1),
        }
    }
    if assumes {
        let n_assumed: usize = results.iter().flatten().map(n_assumed).sum();
        target.release(n_pods.saturating_sub(n_assumed));
    }
    Ok((results, admissions))
}

/// Number of pods in the request, replicas counted.
pub(crate) fn n_pods(entries: &[Entry]) -> u64 {
    entries.iter().map(|entry| u64::from(entry.replicas.max(1))).sum()
}

pub(crate) fn check_size(entries: &[Entry], limit: usize) -> Result<usize, CallError> {
    check_number(n_pods(entries), limit)
}

/// Checks the number of pods of a request.
pub(crate) fn check_number(n: u64, limit: usize) -> Result<usize, CallError> {
    usize::try_from(n).ok().filter(|&n| n <= limit).ok_or_else(|| {
        CallError::field("entries", format!("asks for {n} pods, more than the limit of {limit}"))
    })
}

/// Returns 1 if the decision assumed the pod, else 0.
pub(crate) fn n_assumed(decision: &engine::Decision) -> usize {
    let is_assumed = matches!(&decision.outcome, Outcome::Placed(placed) if placed.assumed);
    usize::from(is_assumed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::fixture;
    use crate::service::{Access, CancelOnDrop, Deadline};
    use berth_proto::berth_v1::PlaceMode;

    /// A cancelled batch leaves no trace: the session keeps its other placements, and its limits.
    #[test]
    fn giving_back_restores_the_session() {
        let state = fixture::state(&[("n0", "4")]);
        let session_id =
            state.sessions.open(clock::now(), "anonymous", || state.cluster.fork()).unwrap();
        let target = || state.target_of(&session_id).unwrap();
        let terms = Terms {
            mode: Mode::Assume,
            tie_break: TieBreak::Lexicographic,
            method: PlaceMethod::PlaceBatch,
            admit: false,
        };
        let caller = CancelOnDrop::new(Deadline(None));
        let assume = |name: &str, replicas| {
            let entries = vec![fixture::entry(&fixture::pod(name, "1", 0), replicas).into()];
            let (access, mode) = (Access::open(), PlaceMode::Assume as i32);
            let assume = AssumeTerms::of(&state, &access, &target(), mode, None).unwrap();
            let answer = answer(&state, target(), entries, terms, &assume, &caller.token());
            answer.unwrap().1.unwrap()
        };
        assume("kept", 1).delivered();
        let lost = assume("lost", 3);
        let target = target();
        assert_eq!(target.snapshot().n_assumed(), 4);
        drop(lost);
        assert_eq!(target.snapshot().n_assumed(), 1);
        let max_changes = state.limits.sessions.max_changes;
        assert_eq!(
            target.reserve(max_changes),
            Err(CallError::SessionTooLarge { limit: max_changes })
        );
        target.reserve(max_changes - 1).unwrap();
        let committed = state.cluster.commit(&target).unwrap();
        assert_eq!((committed.n_assumed, state.cluster.snapshot().n_assumed()), (1, 1));
    }

    /// While many pods are being assumed, single decisions stay off the reactor.
    #[test]
    fn many_pods_are_a_long_write() {
        let state = fixture::state(&[("n0", "4")]);
        let terms = Terms {
            mode: Mode::Assume,
            tie_break: TieBreak::Lexicographic,
            method: PlaceMethod::PlaceBatch,
            admit: false,
        };
        let caller = CancelOnDrop::new(Deadline(None));
        let replicas = u32::try_from(LONG_BATCH).unwrap();
        let entries = vec![fixture::entry(&fixture::pod("web", "1m", 0), replicas).into()];
        let is_long = fixture::is_long_write(&state, |target| {
            let results = decide(&state, &target, entries, terms, &caller.token());
            assert_eq!(results.unwrap().0.len(), LONG_BATCH);
        });
        assert!(is_long);
    }
}
