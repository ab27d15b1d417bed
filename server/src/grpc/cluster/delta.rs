//! A batch of changes: compile, apply, list what was refused by its position in the request.

use std::sync::Arc;

use berth_engine::{Cluster, Delta, Generation, ModelError};
use berth_proto::berth_v1 as wire;
use rayon::prelude::*;

use crate::grpc::convert;
use crate::grpc::deadline::Deadline;
use crate::grpc::status::CallError;
use crate::grpc::{LONG_BATCH, State};

pub(in crate::grpc) struct Outcome {
    pub(in crate::grpc) generation: Generation,
    /// By ascending index.
    pub(in crate::grpc) rejections: Vec<wire::Rejection>,
}

/// A compiled change, or what was refused and why. In step with the request.
pub(super) type Compiled = Result<Delta, (String, ModelError)>;

pub(super) fn compile(cluster: &Cluster, deltas: Vec<wire::Delta>) -> Vec<Compiled> {
    if deltas.len() < LONG_BATCH {
        deltas.into_iter().map(|delta| convert::delta(cluster, delta)).collect()
    } else {
        deltas.into_par_iter().map(|delta| convert::delta(cluster, delta)).collect()
    }
}

/// Applies the batch in one generation. A batch once begun is finished, whatever the deadline: half a batch helps nobody.
pub(super) async fn apply(
    state: &Arc<State>,
    deltas: Vec<wire::Delta>,
    deadline: Deadline,
) -> Result<Outcome, CallError> {
    if deltas.len() < LONG_BATCH && state.decides_in_microseconds(&state.cluster) {
        return Ok(apply_now(state, deltas));
    }
    let shared = state.clone();
    state
        .pool
        .run(deadline, move |_| {
            let _busy = shared.long_write();
            apply_now(&shared, deltas)
        })
        .await
}

fn apply_now(state: &State, deltas: Vec<wire::Delta>) -> Outcome {
    let n_deltas = deltas.len();
    let outcome = apply_to(&state.cluster, deltas);
    let n_rejected = outcome.rejections.len();
    state.freshness.note_applied();
    state.metrics.count_deltas(n_deltas - n_rejected.min(n_deltas), n_rejected);
    outcome
}

/// The same on any cluster, here and now.
pub(in crate::grpc) fn apply_to(cluster: &Cluster, deltas: Vec<wire::Delta>) -> Outcome {
    let n_deltas = deltas.len();
    let mut rejections = Vec::new();
    let mut accepted = Vec::with_capacity(n_deltas);
    let mut positions = Vec::with_capacity(n_deltas);
    for (index, compiled) in compile(cluster, deltas).into_iter().enumerate() {
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
