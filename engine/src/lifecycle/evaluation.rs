//! Evaluation of one pod: all decision groups together say where it is in its life, what happens next and when.
//!
//! [`evaluate_pod`] evaluates one pod of a stream, [`explain_pod`] adds its timeline. `subject.rs` holds the facts,
//! `next.rs` decides the next action (`containers.rs` while the pod lives), and `story.rs` lists past and coming
//! events.

mod containers;
mod next;
mod result;
mod story;
mod subject;

use berth_proto::berth_v1::{
    EvaluatePodsRequest, EvaluatePodsResponse, ExplainPodRequest, ExplainPodResponse, NextAction,
    PodError,
};

use super::attachment::shared_volumes;
use super::condition::{self, ConditionSet};
use super::partition;
use super::phase::{self, PhaseDecision};
use super::reading::{self, Seconds};
use crate::model::ModelError;
pub use result::{Action, Actor};
use result::{Evaluation, Next};
pub use story::Stage;
pub use subject::Subject;

/// Phase, conditions, next action and next wake-up time of one pod. A pod that cannot be evaluated has a response, too:
/// its `error` names the field.
#[must_use]
pub fn evaluate_pod(request: &EvaluatePodsRequest) -> EvaluatePodsResponse {
    let EvaluatePodsRequest { pod, now, node, facts, .. } = request;
    let meta = pod.as_ref().map(reading::meta);
    let answer = pod.as_ref().ok_or_else(|| ModelError::new("pod", "required")).and_then(|pod| {
        let now = reading::required(now.as_ref(), "now")?;
        let subject = Subject::new(pod, now, node.as_ref(), facts.as_ref())?;
        Ok(answer(&subject, &evaluate(&subject)?))
    });
    answer.unwrap_or_else(|ModelError { field, reason }| EvaluatePodsResponse {
        namespace: meta.map(|meta| meta.namespace.clone()).unwrap_or_default(),
        name: meta.map(|meta| meta.name.clone()).unwrap_or_default(),
        uid: meta.map(|meta| meta.uid.clone()).unwrap_or_default(),
        error: Some(PodError { field, reason }),
        ..EvaluatePodsResponse::default()
    })
}

/// Explains one pod: its stage (L-PHASE-15), its state with the reason, past events and coming ones.
///
/// # Errors
/// [`ModelError`] for a missing `pod` or `now`, and for a pod, node or fact that contradicts itself.
pub fn explain_pod(request: &ExplainPodRequest) -> Result<ExplainPodResponse, ModelError> {
    let ExplainPodRequest { pod, now, node, facts, claims, .. } = request;
    let pod = pod.as_ref().ok_or_else(|| ModelError::new("pod", "required"))?;
    let now = reading::required(now.as_ref(), "now")?;
    let subject = Subject::new(pod, now, node.as_ref(), facts.as_ref())?;
    let evaluation = evaluate(&subject)?;
    Ok(ExplainPodResponse {
        volume_warnings: shared_volumes::warnings_of(pod, claims)?,
        stage: story::stage(&subject, &evaluation.phase).word().to_owned(),
        summary: story::summary(&subject, &evaluation),
        events: story::events(&subject, &evaluation)?,
        evaluation: Some(answer(&subject, &evaluation)),
    })
}

/// The phase and the conditions alone, for a controller that watches many pods. An ordinary pod costs no allocation.
///
/// # Errors
/// [`ModelError`] relative to the request: the pod's fields are under `pod`.
pub fn phase_and_conditions<'a>(
    subject: &Subject<'a>,
) -> Result<(PhaseDecision<'a>, ConditionSet<'a>), ModelError> {
    let Subject { pod, roster, now, phase_facts, sandboxes, .. } = subject;
    let decide = || {
        let phase = phase::decide_on(pod, roster, phase_facts)?;
        if reading::node_name(pod).is_none() && roster.has_no_status() {
            return Ok((phase, condition::as_recorded(pod, *now)?));
        }
        if subject.is_out_of_contact() {
            return Ok((phase, condition::without_contact(pod, *now)?));
        }
        let sandboxes = sandboxes.as_deref();
        let conditions = condition::derive_on(pod, roster, phase.phase, sandboxes, *now)?;
        Ok((phase, conditions))
    };
    decide().map_err(|error: ModelError| error.under("pod"))
}

fn evaluate<'a>(subject: &Subject<'a>) -> Result<Evaluation<'a>, ModelError> {
    let (phase, conditions) = phase_and_conditions(subject)?;
    let next = next::next(subject, &phase)?;
    let wake_up_at = wake_up_at(subject, &phase, &next)?;
    let partition = partition::decide(subject.pod, phase.phase, subject.node_ready(), subject.now)
        .map_err(|error| error.under("pod"))?;
    Ok(Evaluation { phase, conditions, partition, next, wake_up_at })
}

/// The earliest time after now at which the evaluation changes even if the pod does not.
fn wake_up_at(
    subject: &Subject<'_>,
    phase: &PhaseDecision<'_>,
    next: &Next<'_>,
) -> Result<Option<Seconds>, ModelError> {
    let threats = next::threats(subject, phase)?;
    let times = [next.not_before, next.deadline, next.afterwards].into_iter().flatten();
    let times = times.chain(threats.into_iter().map(|(at, _)| at));
    Ok(times.filter(|at| *at > subject.now).min())
}

fn answer(subject: &Subject<'_>, evaluation: &Evaluation<'_>) -> EvaluatePodsResponse {
    let Evaluation { phase, conditions, partition, next, wake_up_at } = evaluation;
    let meta = reading::meta(subject.pod);
    let mut conditions = conditions.to_wire();
    condition::drop_stale_mark(&mut conditions, subject.pod, subject.now);
    conditions
        .extend(partition.condition.iter().map(|found| (found.r#type.clone(), found.clone())));
    EvaluatePodsResponse {
        namespace: meta.namespace.clone(),
        name: meta.name.clone(),
        uid: meta.uid.clone(),
        phase: phase.phase.word().to_owned(),
        published_phase: phase.published.word().to_owned(),
        effective_phase: phase.effective.word().to_owned(),
        reason: phase.reason.to_owned(),
        message: phase.message.to_owned(),
        conditions,
        next_action: Some(next_action(next)),
        wake_up_at: wake_up_at.map(reading::time),
        error: None,
        display_status: partition.display_status.to_owned(),
        status_reason: partition.status_reason.to_owned(),
        taken: None,
    }
}

fn next_action(next: &Next<'_>) -> NextAction {
    NextAction {
        action: next.action.word().to_owned(),
        actor: next.actor.word().to_owned(),
        not_before: next.not_before.map(reading::time),
        deadline: next.deadline.map(reading::time),
        names: next.names.iter().map(|&name| name.to_owned()).collect(),
        why: next.why.clone().into_owned(),
        rules: next.rules.iter().map(|&rule| rule.to_owned()).collect(),
    }
}

#[cfg(test)]
mod tests;
