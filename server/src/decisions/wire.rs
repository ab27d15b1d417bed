//! Recorded decisions in their wire form.

use berth_proto::MicroTime;
use berth_proto::berth_v1::{
    AttemptKind, GetDecisionResponse, PlaceResult, PodKey, RecordedDecision,
};

use super::found::Found;
use super::id::DecisionId;
use crate::replay::Attempted;
use crate::service::recorder::record::{Attempt, RecordedPod};
use crate::service::{CallError, convert};

/// The pods of an attempt, each with what came of it.
///
/// # Errors
/// [`CallError::JournalDamaged`]: the record does not fit together.
pub(super) fn each(
    attempted: &Attempted,
) -> Result<impl Iterator<Item = (PodKey, PlaceResult)>, CallError> {
    let answer = attempted.answer().ok_or_else(|| {
        let reason = format!("attempt {} does not fit together", attempted.sequence);
        CallError::JournalDamaged { reason }
    })?;
    let key = |RecordedPod { namespace, name, uid, .. }| PodKey { namespace, name, uid };
    Ok(attempted.pods().map(key).zip(answer.into_results()))
}

/// A decision in short.
pub(super) fn recorded(
    attempted: &Attempted,
    id: DecisionId,
    pod: PodKey,
    result: PlaceResult,
) -> RecordedDecision {
    let record = &attempted.record;
    RecordedDecision {
        id: id.to_string(),
        time: time(record.unix_micros),
        kind: kind(record) as i32,
        pod: Some(pod),
        scheduler_name: record.profile.clone(),
        assumes: record.assumes,
        result: Some(result),
    }
}

/// A decision with all that was asked.
///
/// # Errors
/// [`CallError::JournalDamaged`].
pub(super) fn whole(found: &Found) -> Result<GetDecisionResponse, CallError> {
    let Found { id, attempted, .. } = found;
    let record = &*attempted.record;
    let damaged = |reason: String| CallError::JournalDamaged { reason };
    let (pod, result) = each(attempted)?
        .nth(id.index)
        .ok_or_else(|| damaged(format!("attempt {} has too few results", id.attempt)))?;
    let pod_object = attempted.object(id.index).map_err(|error| damaged(error.to_string()))?;
    Ok(GetDecisionResponse {
        recorded: Some(recorded(attempted, *id, pod, result)),
        pod_object,
        generation: record.generation,
        policy_fingerprint: format!("{:016x}", record.policy),
        seed: record.seed,
        n_pods: convert::saturate(attempted.pods().count()),
        index: convert::saturate(id.index),
        gang: record.gang,
        gang_outcome: record.gang_outcome.clone(),
        post_filter: record.preemption.as_ref().and_then(|it| it.post_filter.clone()),
    })
}

/// A moment in microseconds since 1970; `None` for one that no calendar has.
pub(super) fn time(unix_micros: u64) -> Option<MicroTime> {
    MicroTime::try_from_unix_microseconds(unix_micros)
}

fn kind(record: &Attempt) -> AttemptKind {
    match record {
        Attempt { preempt: Some(_), .. } => AttemptKind::Preempt,
        Attempt { gang: Some(_), .. } => AttemptKind::Gang,
        Attempt { is_batch: true, .. } => AttemptKind::Batch,
        _ => AttemptKind::Place,
    }
}
