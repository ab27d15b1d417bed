//! A batch of changes: compiles and applies them, and lists refused ones by their position in the request.

use std::sync::Arc;

use berth_engine::{Cluster, Delta, Generation, ModelError, PodKey};
use berth_proto::berth_v1 as wire;
use rayon::prelude::*;

use crate::auth::Role;
use crate::feed::LONG_BATCH;
use crate::service::convert;

use crate::service::{Access, CallError, Cancel, Deadline, State};

pub(crate) struct Outcome {
    pub(crate) generation: Generation,
    /// Refused changes by ascending index.
    pub(crate) rejections: Vec<wire::Rejection>,
}

/// A compiled change, or the refused object and the error. Results are in the order of the request.
pub(crate) type Compiled = Result<Delta, (String, ModelError)>;

pub(crate) fn compile(cluster: &Cluster, deltas: Vec<wire::Delta>) -> Vec<Compiled> {
    if deltas.len() < LONG_BATCH {
        deltas.into_iter().map(|delta| convert::delta(cluster, delta)).collect()
    } else {
        deltas.into_par_iter().map(|delta| convert::delta(cluster, delta)).collect()
    }
}

/// Compiles changes like [`compile`], but stops when the caller is gone.
pub(crate) fn compile_while_wanted(
    cluster: &Cluster,
    deltas: Vec<wire::Delta>,
    cancel: &Cancel,
) -> Result<Vec<Compiled>, CallError> {
    let one = |delta| (!cancel.is_cancelled()).then(|| convert::delta(cluster, delta));
    let compiled: Option<Vec<Compiled>> = if deltas.len() < LONG_BATCH {
        deltas.into_iter().map(one).collect()
    } else {
        deltas.into_par_iter().map(one).collect()
    };
    compiled.ok_or(CallError::DeadlineExceeded)
}

/// Applies the batch in one generation. Once begun it is applied whole, whatever the deadline: half a batch helps
/// nobody.
pub(crate) async fn apply(
    state: &Arc<State>,
    deltas: Vec<wire::Delta>,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    if is_short(state, &deltas) {
        return Ok(apply_now(state, compile(&state.cluster, deltas)));
    }
    state.pool.run(deadline, long_apply(state, deltas)).await?
}

/// Applies the batch of a stream's request, which waits for a thread instead of being refused.
pub(crate) async fn apply_in_turn(
    state: &Arc<State>,
    deltas: Vec<wire::Delta>,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    if is_short(state, &deltas) {
        return Ok(apply_now(state, compile(&state.cluster, deltas)));
    }
    state.pool.run_patiently(deadline, long_apply(state, deltas)).await?
}

fn is_short(state: &State, deltas: &[wire::Delta]) -> bool {
    deltas.len() < LONG_BATCH && state.decides_in_microseconds(&state.cluster)
}

fn long_apply(
    state: &Arc<State>,
    deltas: Vec<wire::Delta>,
) -> impl FnOnce(&Cancel) -> Result<Outcome, CallError> + Send + 'static {
    let state = state.clone();
    move |cancel| {
        let compiled = compile_while_wanted(&state.cluster, deltas, cancel)?;
        let _busy = state.long_write();
        Ok(apply_now(&state, compiled))
    }
}

fn apply_now(state: &State, compiled: Vec<Compiled>) -> Outcome {
    let n_deltas = compiled.len();
    let outcome = apply_compiled(&state.cluster, compiled);
    let n_rejected = outcome.rejections.len();
    state.freshness.note_applied();
    state.metrics.count_deltas(n_deltas - n_rejected.min(n_deltas), n_rejected);
    outcome
}

/// Whether a caller without the role `feeder` only deletes pods: it may give back assumed pods, and apply nothing else.
pub(crate) fn gives_back(access: &Access, deltas: &[wire::Delta]) -> bool {
    let is_deletion =
        |delta: &wire::Delta| matches!(delta.change, Some(wire::delta::Change::DeletePod(_)));
    access.caller().check(Role::Feeder).is_err()
        && !deltas.is_empty()
        && deltas.iter().all(is_deletion)
}

/// Deletes the assumed pods of a batch in one generation; refuses the others.
pub(crate) async fn give_back(
    state: &Arc<State>,
    deltas: Vec<wire::Delta>,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    let shared = state.clone();
    state.pool.run(deadline, move |_| give_back_now(&shared, deltas)).await
}

fn give_back_now(state: &State, deltas: Vec<wire::Delta>) -> Outcome {
    let n_deltas = deltas.len();
    let (mut pods, mut positions, mut rejections) = (Vec::new(), Vec::new(), Vec::new());
    for (index, compiled) in compile(&state.cluster, deltas).into_iter().enumerate() {
        match compiled {
            Ok(Delta::DeletePod { key, uid }) => {
                pods.push((key, uid));
                positions.push(index);
            }
            // The caller sends deletions only.
            Ok(_) => {}
            Err((object, error)) => rejections.push(convert::rejection(index, object, error)),
        }
    }
    let given = state.cluster.give_back(&pods);
    rejections.extend(given.refused.into_iter().filter_map(|refused| {
        let (index, (pod, _)) = (*positions.get(refused)?, pods.get(refused)?);
        Some(convert::rejection(index, pod_name(pod), not_assumed()))
    }));
    rejections.sort_by_key(|rejection| rejection.index);
    let n_rejected = rejections.len();
    state.metrics.count_deltas(n_deltas - n_rejected.min(n_deltas), n_rejected);
    Outcome { generation: given.generation, rejections }
}

fn pod_name(pod: &PodKey) -> String {
    format!("Pod `{pod}`")
}

fn not_assumed() -> ModelError {
    let reason = "names a pod that is not assumed: without the role `feeder` only what was assumed can be given back";
    ModelError::new("delete_pod", reason)
}

/// Compiles and applies changes to any cluster, on this thread.
#[cfg(test)]
pub(crate) fn apply_to(cluster: &Cluster, deltas: Vec<wire::Delta>) -> Outcome {
    apply_compiled(cluster, compile(cluster, deltas))
}

/// Applies compiled changes like [`apply_compiled`], without those that replace an object other than a node or a pod;
/// also returns the number of those.
pub(crate) fn apply_missing(cluster: &Cluster, mut compiled: Vec<Compiled>) -> (Outcome, usize) {
    let snapshot = cluster.snapshot();
    let is_there = |compiled: &Compiled| match compiled {
        Ok(Delta::UpsertObject(object)) => snapshot.has_object(object.key()),
        Ok(_) | Err(_) => false,
    };
    let n_deltas = compiled.len();
    let positions: Vec<u32> =
        (0..).zip(&compiled).filter(|(_, one)| !is_there(one)).map(|(index, _)| index).collect();
    compiled.retain(|one| !is_there(one));
    let n_skipped = n_deltas - compiled.len();
    let mut outcome = apply_compiled(cluster, compiled);
    for rejection in &mut outcome.rejections {
        let position = usize::try_from(rejection.index).ok().and_then(|at| positions.get(at));
        rejection.index = position.copied().unwrap_or(rejection.index);
    }
    (outcome, n_skipped)
}

/// Applies compiled changes to any cluster, on this thread.
pub(crate) fn apply_compiled(cluster: &Cluster, compiled: Vec<Compiled>) -> Outcome {
    let n_deltas = compiled.len();
    let mut rejections = Vec::new();
    let mut accepted = Vec::with_capacity(n_deltas);
    let mut positions = Vec::with_capacity(n_deltas);
    for (index, compiled) in compiled.into_iter().enumerate() {
        match compiled {
            Ok(delta) => {
                accepted.push(delta);
                positions.push(index);
            }
            Err((object, error)) => rejections.push(convert::rejection(index, object, error)),
        }
    }
    let generation = if accepted.is_empty() {
        cluster.snapshot().generation()
    } else {
        let applied = cluster.apply(accepted);
        rejections.extend(applied.rejected.into_iter().map(|rejected| {
            let index = positions.get(rejected.index).copied().unwrap_or(rejected.index);
            convert::rejection(index, rejected.object, rejected.error)
        }));
        rejections.sort_by_key(|rejection| rejection.index);
        applied.generation
    };
    Outcome { generation, rejections }
}
