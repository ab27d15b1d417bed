//! Evict: evicts the victims of a preemption, and clears the nominations of others. Rules: S-PRE-22 to S-PRE-25.

use std::sync::Arc;

use berth_engine::{Candidate, PodKey, Victim};
use tokio::task::JoinSet;

use super::failures::Write;
use super::pending::Pending;
use super::queue::AttemptId;
use super::shared::Shared;
use super::ticket::Ticket;
use crate::apiserver::binding::PodName;
use crate::apiserver::deletion;
use crate::apiserver::event::Event;
use crate::apiserver::leadership::Mandate;
use crate::apiserver::status::{self, NominatedNode, is_gone, patch_status};
use crate::{clock, escape};

/// Lets the preemptor be tried again as soon as its victims are gone.
pub(super) fn await_victims(shared: &Shared, ticket: &Ticket, candidate: &Candidate) {
    let victims: Vec<PodKey> = candidate.victims.iter().map(|victim| victim.pod.clone()).collect();
    shared.queue().await_victims(ticket.attempt(), &victims);
    // One that went before it was awaited is not reported again.
    let gone = victims.iter().filter(|victim| shared.cluster().pod_named(victim).is_none());
    for victim in gone {
        shared.queue().victim_gone(victim, clock::now());
    }
}

/// Evicts every victim that is not being deleted already; returns whether all evictions succeeded.
pub(super) async fn evict(shared: &Arc<Shared>, ticket: &Ticket, candidate: &Candidate) -> bool {
    let mut evictions = JoinSet::new();
    for victim in candidate.victims.iter().filter(|victim| !victim.is_terminating) {
        let eviction = Eviction {
            shared: shared.clone(),
            mandate: ticket.mandate().clone(),
            attempt: ticket.attempt().clone(),
            preemptor: ticket.pending().clone(),
            node: candidate.node.clone(),
        };
        let victim = victim.clone();
        evictions.spawn(async move { eviction.carry_out(&victim).await });
    }
    let mut all = true;
    while let Some(evicted) = evictions.join_next().await {
        all &= evicted.unwrap_or(false);
    }
    all
}

/// An eviction: its preemptor and its mandate.
struct Eviction {
    shared: Arc<Shared>,
    mandate: Mandate,
    attempt: AttemptId,
    preemptor: Arc<Pending>,
    node: Arc<str>,
}

impl Eviction {
    async fn carry_out(&self, victim: &Victim) -> bool {
        let Eviction { shared, mandate, attempt, preemptor, node } = self;
        let _slot = shared.report_slots.acquire().await;
        // The preemptor may be gone, or bound elsewhere, by now.
        if !(mandate.is_held(clock::now()) && shared.queue().is_under_way(attempt)) {
            return false;
        }
        let name = named(victim);
        // S-PRE-23: a victim whose binding was not sent yet is not deleted: it goes back into the queue.
        if !shared.cancel(&victim.pod, &victim.uid) {
            let (generation, now) = (generation(shared, &victim.pod), clock::unix_seconds());
            let mark = status::disruption_target(&preemptor.profile, generation, now);
            let evicted = deletion::evict(&shared.client, mandate, &name, &mark);
            if let Err(failure) = evicted.await {
                let victim = victim.pod.to_string();
                let reason = format!("its victim `{}`: {failure}", escape::printable(&victim));
                shared.note_failed(Write::Eviction, preemptor, &reason);
                return false;
            }
        }
        shared.events.record(Event::preempted(&name, &preemptor.name, node, &preemptor.profile));
        true
    }
}

/// Clears the nominations of other pods to the node (S-PRE-24). One that cannot be cleared is corrected by the pod's
/// next attempt.
pub(super) async fn clear_nominations(
    shared: &Shared,
    ticket: &Ticket,
    candidate: &Candidate,
    keys: &[PodKey],
) {
    for key in keys {
        let _slot = shared.report_slots.acquire().await;
        let Some(pending) = shared.queue().find(key).cloned() else { continue };
        if *pending.status.nominated_node_name != *candidate.node {
            continue;
        }
        let Some(patch) = status::nominated(&pending.status, &NominatedNode::Cleared) else {
            continue;
        };
        if !ticket.may_write() {
            return;
        }
        match patch_status(&shared.client, ticket.mandate(), &pending.name, &patch).await {
            Err(failure) if !is_gone(&failure) => {
                shared.note_failed(Write::Nomination, &pending, &failure.to_string());
            }
            Ok(()) | Err(_) => {}
        }
    }
}

/// The pod's generation as the feed reported it; 0 if it is not known.
fn generation(shared: &Shared, pod: &PodKey) -> i64 {
    let known = shared.cluster().pod_named(pod).and_then(|(pod, _)| pod.reported());
    known.and_then(|pod| pod.metadata).map_or(0, |metadata| metadata.generation)
}

fn named(victim: &Victim) -> PodName {
    PodName {
        namespace: victim.pod.namespace.clone(),
        name: victim.pod.name.clone(),
        uid: victim.uid.clone(),
    }
}
