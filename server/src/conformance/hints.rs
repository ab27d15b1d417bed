//! Recorded queueing hints of DynamicResources: which change of a claim or a pod wakes a pod that it rejected. Rules:
//! S-DRA-126, S-DRA-127.

use std::time::Instant;

use berth_engine::{ClaimChange, Cluster, Delta, ObjectKey, ObjectKind, Plugin, Pod, WireObject};
use berth_proto::{core_v1, resource_v1};
use serde::Deserialize;

use super::report::CaseReport;
use super::tally::{Aspect, Place};
use crate::clock;
use crate::scheduler::group::GroupKeys;
use crate::scheduler::hints::Changes;
use crate::scheduler::pending::Pending;
use crate::scheduler::queue::{HasUsableClaims, Queue, QueueOptions};

/// A recorded event and its hint.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Recorded {
    id: String,
    pod: core_v1::Pod,
    /// All claims after the event.
    #[serde(default)]
    claims: Vec<resource_v1::ResourceClaim>,
    event: Event,
    old_claim: Option<resource_v1::ResourceClaim>,
    new_claim: Option<resource_v1::ResourceClaim>,
    new_pod: Option<core_v1::Pod>,
    hint: Hint,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
enum Event {
    ClaimAdd,
    ClaimUpdate,
    PodUpdate,
}

#[derive(Copy, Clone, PartialEq, Eq, Debug, Deserialize)]
enum Hint {
    Queue,
    QueueSkip,
}

/// Decides one recorded hint: by the engine, and by the queue of `berth schedule`. The error says why it cannot be
/// replayed.
pub(super) fn replay(line: &str) -> Result<Result<CaseReport, String>, serde_json::Error> {
    let recorded: Recorded = serde_json::from_str(line)?;
    Ok(decide(&recorded).map(|answers| {
        let mut report = CaseReport::new(&recorded.id);
        report.n_attempts = 1;
        for (whose, got) in answers {
            let place = || Place::Step { step: 0, node: None };
            let texts = || (format!("{:?}", recorded.hint), format!("{got:?} ({whose})"));
            report.note(Aspect::Hints, got == recorded.hint, place, texts);
        }
        report
    }))
}

fn decide(recorded: &Recorded) -> Result<Vec<(&'static str, Hint)>, String> {
    let cluster = Cluster::new();
    for claim in &recorded.claims {
        let object =
            cluster.compile_object(WireObject::from(claim)).map_err(|error| error.to_string())?;
        cluster.apply(vec![Delta::UpsertObject(object)]);
    }
    let pod = cluster.compile_pod(&recorded.pod).map_err(|error| error.to_string())?;
    let mut answers = Vec::new();
    match (recorded.event, &recorded.new_claim, &recorded.new_pod) {
        (Event::ClaimAdd | Event::ClaimUpdate, Some(new), _) => {
            let old = recorded.old_claim.as_ref().filter(|_| recorded.event == Event::ClaimUpdate);
            answers.push(("engine", hint(cluster.claim_helps(&pod, old, new))));
            let key = WireObject::from(new).metadata().map(|metadata| {
                ObjectKey::new(ObjectKind::ResourceClaim, &metadata.namespace, &metadata.name)
            });
            let key = key.ok_or("a claim without metadata")?;
            let change = ClaimChange::of(old, new);
            let step = |queue: &mut Queue, is_usable: HasUsableClaims<'_>, now| {
                queue.claim_changed(&key, change, is_usable, now);
                Ok(())
            };
            queued(&mut answers, &cluster, &recorded.pod, &step)?;
        }
        (Event::PodUpdate, _, Some(new)) => {
            let compiled = cluster.compile_pod(new).map_err(|error| error.to_string())?;
            answers.push(("engine", hint(cluster.update_helps(&pod, &compiled))));
            let uid = |pod: &core_v1::Pod| pod.metadata.as_ref().map(|it| it.uid.clone());
            // The queue updates a pod by itself alone.
            if uid(&recorded.pod) == uid(new) {
                let step = |queue: &mut Queue, is_usable: HasUsableClaims<'_>, now| {
                    queue.upsert(pending(new, &cluster)?, is_usable, now);
                    Ok(())
                };
                queued(&mut answers, &cluster, &with_another_claim(new), &step)?;
            }
        }
        _ => return Err("an event without its object".to_owned()),
    }
    Ok(answers)
}

/// An event as a step of the queue.
type Step<'a> = &'a dyn Fn(&mut Queue, HasUsableClaims<'_>, Instant) -> Result<(), String>;

/// Adds what the queue does with a pod that DynamicResources rejected: if the event comes while the pod waits, and if
/// it comes during the attempt.
fn queued(
    answers: &mut Vec<(&'static str, Hint)>,
    cluster: &Cluster,
    pod: &core_v1::Pod,
    step: Step<'_>,
) -> Result<(), String> {
    let is_usable = |pod: &Pod| cluster.has_usable_claims(pod);
    let wanted = Changes::helping(Plugin::DynamicResources);
    for (whose, is_in_flight) in [("waiting in the queue", false), ("in flight", true)] {
        let (mut queue, now) = (Queue::new(QueueOptions::default()), clock::now());
        queue.upsert(pending(pod, cluster)?, &is_usable, now);
        let batch = queue.pop(now, 1).ok_or("a pod that the queue does not try")?;
        if is_in_flight {
            step(&mut queue, &is_usable, now)?;
        }
        for popped in &batch.pods {
            queue.reject(&popped.attempt, wanted, &is_usable, now);
        }
        if !is_in_flight {
            step(&mut queue, &is_usable, now)?;
        }
        answers.push((whose, hint(queue.counts().unschedulable == 0)));
    }
    Ok(())
}

fn pending(pod: &core_v1::Pod, cluster: &Cluster) -> Result<Pending, String> {
    Pending::of(pod, |pod| cluster.compile_pod(pod), &GroupKeys::default())
        .ok_or_else(|| "a pod without a spec".into())
}

/// The pod before its generated claims were what they are: that they change is the event.
fn with_another_claim(pod: &core_v1::Pod) -> core_v1::Pod {
    let mut earlier = pod.clone();
    let another = core_v1::PodResourceClaimStatus {
        name: "<another>".to_owned(),
        ..core_v1::PodResourceClaimStatus::default()
    };
    earlier.status.get_or_insert_default().resource_claim_statuses.push(another);
    earlier
}

fn hint(helps: bool) -> Hint {
    if helps { Hint::Queue } else { Hint::QueueSkip }
}
